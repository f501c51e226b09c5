#!/usr/bin/env python3
"""An honest training from submission to settlement, with processes killed at bad moments."""
import json
import os
import time

import framework
from quern.devnet import run


class HonestTraining(framework.MarketTest):
    def test_settles_and_pays_what_was_agreed(self):
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        number = self.submit(stride=framework.STRIDE)
        escrow = int(self.net.node.task_get(number)["escrow"], 16)
        task = self.wait(number)
        self.assertEqual(task["stateName"], "settled", task["reason"])

        work = task["workUnits"] * framework.STEPS + task["commitWork"] * (framework.STEPS // framework.STRIDE)
        price = int(task["claim"]["price"], 16)
        self.assertEqual(self.payments(task, "solver1", "solver_reward"), [work * price])
        fee = work * int(task["spec"]["money"]["priceCap"], 16) * 6 // 5
        for name in ("verifier1", "verifier2", "verifier3"):
            self.assertEqual(self.payments(task, name, "verifier_fee"), [fee])
        deposit, tax = int(task["escrow"], 16), 10**16
        refund = escrow - work * price - 3 * fee - tax - deposit
        self.assertEqual(self.payments(task, "submitter", "refund"), [refund])
        self.assertEqual(task["claim"]["disputes"], [])
        self.assert_supply()

        # The proven model can be fetched, and it is the one that was proven.
        state, model = (os.path.join(self.directory, name) for name in ("state.safetensors", "model.safetensors"))
        run("quern-cli", *self.net.node.cli, "content", "state", self.job.program,
            task["claim"]["checkpointContent"], state)
        exported = json.loads(run("quern-compile", "export", "--program", self.job.program, "--state", state, "--out", model))
        self.assertEqual(exported["state_root"], task["claim"]["finalRoot"])
        self.assertTrue(json.loads(run("quern-compile", "validate", model))["valid"])

        self.assert_learned(number, framework.STEPS // framework.INTERVAL)

    def test_expires_without_bids_and_refunds(self):
        self.workers(whistleblower="")  # somebody has to send the tick
        number = self.submit()
        escrow = int(self.net.node.task_get(number)["escrow"], 16)
        task = self.wait(number)
        self.assertEqual((task["stateName"], task["reason"]), ("expired", "no_bids"))
        self.assertEqual(self.payments(task, "submitter", "refund"), [escrow - int(task["escrow"], 16)])
        self.assert_supply()

    def test_kill_9_of_each_process_only_costs_time(self):
        net = self.net
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        number = self.submit(steps=400, interval=40)

        def kill_and_restart(name, pause=0.5):
            process = net.daemon if name == "quernd" else net.workers[name]
            head = net.node.height()
            process.kill()
            time.sleep(pause)
            process.start()
            net.wait_for_node()
            self.assertGreaterEqual(net.node.height(), head, "a finalized block was lost")

        self.wait(number, "working")
        net.wait_until(lambda: net.node.task_get(number)["claim"]["step"] > 0, 60, "the first checkpoint")
        kill_and_restart("solver1")
        kill_and_restart("quernd")
        self.wait(number, "custody", "committing")
        kill_and_restart("verifier1")
        kill_and_restart("quernd")
        kill_and_restart("whistleblower")
        self.wait(number, "committing", "revealing", "challenge")
        kill_and_restart("verifier2")
        kill_and_restart("quernd")
        task = self.wait(number)
        self.assertEqual((task["stateName"], task["round"]), ("settled", 0), task["reason"])
        self.assertEqual(task["slashes"], [])
        self.assert_supply()
        with open(os.path.join(self.directory, "solver1.log")) as log:
            self.assertIn("training resumed", log.read())


if __name__ == "__main__":
    framework.main()
