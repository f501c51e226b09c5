#!/usr/bin/env python3
"""A training of very many steps, committed to once in a hundred: what its solver keeps does not grow with them."""
import os

import framework
from quern.market import TextJob, licence_texts

# In CI as many as take seconds; QUERN_MANY_STEPS=1000000 for a million.
STEPS = int(os.environ.get("QUERN_MANY_STEPS", "20000"))
STRIDE, SEGMENTS = 100, 10
PATIENCE = max(1, STEPS // 20_000)
STATES, BESIDE = 3, 4 << 20  # that a solver may keep, and bytes beside them


def bytes_below(*directories):
    """Of all files, as the disk counts them."""
    sizes = {}
    for directory in directories:
        for folder, _, names in os.walk(directory):
            for name in names:
                try:
                    status = os.stat(os.path.join(folder, name))
                except FileNotFoundError:
                    continue
                sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


class ManySteps(framework.MarketTest):
    bonds = [bond for bond in framework.BONDS if bond[0] in ("solver1", "verifier1")]

    def test_what_a_solver_keeps_does_not_grow_with_them(self):
        job = TextJob(os.path.join(self.directory, "many"), self.net.node, licence_texts()[:2], layers=1, d_model=16, heads=2,
                      context=8, batch=1)
        self.workers(solver1="", verifier1="")
        number = self.submit(STEPS, STEPS // SEGMENTS, job=job, stride=STRIDE, verifiers=1,
                             price_cap=10**10 // PATIENCE, heartbeat_s=120 * PATIENCE,
                             prove_s=60 * PATIENCE, verify_s=240 * PATIENCE)
        kept = [os.path.join(self.net.directory, "workers", "solver1"),
                os.path.join(self.net.home("solver1").datadir, "content")]
        most = 0

        def look():
            nonlocal most
            most = max(most, bytes_below(*kept))
            task = self.net.node.task_get(number)
            return task if task["stateName"] in ("settled", "failed", "expired", "cancelled") else None

        task = self.net.wait_until(look, 600 * PATIENCE, "the training to be settled")
        self.assertEqual((task["stateName"], task["round"], task["slashes"]), ("settled", 0, []), task["reason"])
        self.assertLess(most, STATES * job.compiled["state_bytes"] + BESIDE)
        self.assert_supply()
        print(f"{STEPS} steps: at most {most / 2**20:.1f} MiB with the solver and in its node", flush=True)


if __name__ == "__main__":
    framework.main()
