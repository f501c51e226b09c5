#!/usr/bin/env python3
"""An honest solver behind a line as homes have it: its state has to get through before the deadlines."""
import os
import unittest

import framework
from quern import events, namespaces
from quern.devnet import run
from quern.market import TextJob, licence_texts, spec_options, submit

LINE_MBIT = 10
LINE_BYTES = LINE_MBIT * 10**6 // 8
# 4.2 M parameters with Adam's two moments are 51 MB; steps are quick, so that it is the line that takes time.
MODEL = {"layers": 2, "d_model": 416, "context": 16, "batch": 1}
STEPS, INTERVAL = 4, 2
# In CI one verifier; QUERN_LINKS_VERIFIERS=3 for the usual number, all of whom need the state from the same line.
VERIFIERS = int(os.environ.get("QUERN_LINKS_VERIFIERS", "1"))
HOME = 1 + VERIFIERS  # the solver's node


@unittest.skipIf(namespaces.why_no_lines(), namespaces.why_no_lines())
class SlowLine(framework.MarketTest):
    """A validator whom the submitter uses, one beside each verifier, and the solver's home."""

    validators, followers, namespaces = 1 + VERIFIERS, 1, True
    bonds = [bond for bond in framework.BONDS if bond[0] in ("solver1", *(f"verifier{i + 1}" for i in range(VERIFIERS)))]
    block = {"min_block_ms": 100, "max_idle_ms": 250}

    def test_an_honest_solver_behind_it_is_verified_and_paid(self):
        self.net.switch.shape(HOME, LINE_MBIT)
        job = TextJob(os.path.join(self.directory, "large"), self.net.nodes[0], licence_texts()[:2], **MODEL)
        state = job.compiled["state_bytes"]
        self.assertGreater(state, 50_000_000)
        self.net.worker("solver1", "--solver", "--threads=1", node=HOME)
        for index in range(VERIFIERS):
            self.net.worker(f"verifier{index + 1}", "--verifier", "--threads=1", node=1 + index)

        # Who bids has fetched the state: bids are taken for twice as long as that takes.
        options = {"bid_s": 2 * state // LINE_BYTES, "start_s": 30, "heartbeat_s": 120, "prove_s": 60, "challenge_s": 15}
        spec = [*spec_options(self.net, job, STEPS, INTERVAL, **options), "--verifiers", VERIFIERS, "--bandwidth", LINE_BYTES]
        with self.assertRaisesRegex(RuntimeError, "task.window_too_short"):
            run("quern-wallet", "price", *spec, "--verify-s", 2 * state // LINE_BYTES)
        least = framework.price([*spec, "--verify-s", 10**6])["leastVerifyS"]
        number = submit(self.net, self.net.accounts["submitter"], [*spec, "--verify-s", least])

        task = self.wait(number, timeout=1000)
        self.assertEqual((task["stateName"], task["round"]), ("settled", 0), task["reason"])
        self.assertEqual((task["slashes"], task["claim"]["disputes"]), ([], []))
        self.assertEqual(len(self.payments(task, "solver1", "solver_reward")), 1)
        for index in range(VERIFIERS):
            self.assertEqual(len(self.payments(task, f"verifier{index + 1}", "verifier_fee")), 1)
        self.assert_supply()
        # What had to travel over the line did: the first state down, without its zeros, and a trained one up.
        received, sent = self.net.switch.traffic(HOME)
        self.assertGreater(received, os.path.getsize(job.init))
        self.assertGreater(sent, state * 9 // 10)
        seconds = {}
        for event in events.find(self.net.node, "ClaimStateChanged", task=number):
            seconds[event["to"]] = int(self.net.node.eth_getBlockByNumber(hex(event["block"]), False)["timestamp"], 16)
        self.assertGreater(seconds[4] - seconds[3], state * 9 // 10 // LINE_BYTES, "custody was shorter than the line allows")


if __name__ == "__main__":
    framework.main()
