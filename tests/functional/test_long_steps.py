#!/usr/bin/env python3
"""One worker with two tasks at a time whose single steps take seconds: neither keeps the other from its deadlines."""
import datetime
import os
import re

import framework
from quern import events
from quern.market import TextJob, licence_texts

STEPS, INTERVAL = 8, 2  # a replay takes longer than the two proofs lie apart
SLOW = "--backend=soft --threads=1"  # the chain's own arithmetic, in integers: long steps of a small model
SLICE_S = 0.4  # after which a worker's jobs would change, if steps were short
HEARTBEAT_S, VERIFY_S = 60, 60


class TwoTasks(framework.MarketTest):
    # Nobody else to draw: the verifier has both tasks, too.
    bonds = [bond for bond in framework.BONDS if bond[0] in ("solver1", "verifier1")]

    def times(self, name, pattern):
        """[(seconds, task)] of the lines of a worker's log that match; its first group is the task."""
        with open(self.net.workers[name].log) as log:
            found = [(line.split()[0], match[1]) for line in log if (match := re.search(pattern, line))]
        return [(datetime.datetime.fromisoformat(when.replace("Z", "+00:00")).timestamp(), int(task)) for when, task in found]

    def test_one_solver_and_one_verifier_meet_the_deadlines_of_both(self):
        self.job = TextJob(os.path.join(self.directory, "long"), self.net.node, licence_texts()[:2], layers=1, d_model=32,
                           context=32, batch=32)
        self.workers(solver1=SLOW, verifier1=SLOW)
        windows = {"heartbeat_s": HEARTBEAT_S, "verify_s": VERIFY_S, "verifiers": 1}
        numbers = [self.submit(STEPS, INTERVAL, **windows) for _ in range(2)]
        for task in [self.wait(number) for number in numbers]:
            self.assertEqual((task["stateName"], task["round"]), ("settled", 0), task["reason"])
            self.assertEqual((task["slashes"], task["claim"]["disputes"]), ([], []))
            self.assertEqual(len(self.payments(task, "solver1", "solver_reward")), 1)
            self.assertEqual(len(self.payments(task, "verifier1", "verifier_fee")), 1)
            self.assertEqual(len(events.find(self.net.node, "CheckpointPosted", task=task["id"])), STEPS // INTERVAL)
        self.assert_supply()
        # They were worked on at the same time, in steps that outlast a turn.
        for name, began, worked in (("solver1", r"training begins task=(\d+)", r"trained task=(\d+)"),
                                    ("verifier1", r"replay begins task=(\d+)", r"replays task=(\d+)")):
            work = self.times(name, worked)
            self.assertEqual([task for _, task in work].count(numbers[0]), STEPS // INTERVAL)
            self.assertLess(max(when for when, _ in self.times(name, began)),
                            min(max(when for when, task in work if task == number) for number in numbers), name)
            gaps = [later - earlier for (earlier, _), (later, _) in zip(work, work[1:])]
            self.assertGreater(sum(gaps) / len(gaps) / INTERVAL, SLICE_S, f"steps of {name} are too short for this test")


if __name__ == "__main__":
    framework.main()
