#!/usr/bin/env python3
"""Tasks whose plan has two programs over one state: gradients of several batches are added up, then applied."""
import os

import framework
from quern.market import TextJob

ACCUMULATE = 4
STEPS = 8 * (ACCUMULATE + 1)
INTERVAL = 2 * (ACCUMULATE + 1)
# The steps of an update end with the program that applies it.
ACCUMULATES, UPDATES = STEPS // 2 + 2, STEPS // 2 + 5


class Plans(framework.MarketTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.both = TextJob(os.path.join(cls.directory, "both"), cls.net.node, framework.licence_texts()[:2], layers=1,
                           d_model=32, context=32, batch=2, total_steps=STEPS, accumulate=ACCUMULATE, tie_embeddings=True)

    def submit_both(self):
        return self.submit(STEPS, INTERVAL, job=self.both)

    def test_a_training_of_two_programs_is_paid_by_the_work_of_each_step(self):
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit_both())
        self.assertEqual(task["stateName"], "settled", task["reason"])
        compiled = self.both.compiled
        accumulate, update, commit = compiled["work_units"], compiled["update"]["work_units"], compiled["commit_work"]
        work = (STEPS // (ACCUMULATE + 1)) * (ACCUMULATE * accumulate + update) + STEPS * commit
        self.assertEqual(task["steps"], STEPS)
        self.assertEqual((task["workUnits"], task["commitWork"]), (max(accumulate, update), commit))
        self.assertEqual(int(task["totalWork"], 16), work)
        self.assertEqual(int(task["segmentWork"], 16), work * INTERVAL // STEPS)
        self.assertEqual(self.payments(task, "solver1", "solver_reward"), [work * int(task["claim"]["price"], 16)])
        fee = work * int(task["spec"]["money"]["priceCap"], 16) * 6 // 5
        for name in ("verifier1", "verifier2", "verifier3"):
            self.assertEqual(self.payments(task, name, "verifier_fee"), [fee])
        self.assert_learned(task["id"], STEPS // INTERVAL, self.both)
        self.assert_supply()

    def caught(self, fault, step):
        """The dispute about a solver that cheats in the step, and the log that shows who played it."""
        self.workers(solver1=f"--price=1 --test-fault={fault}@{step}", solver2="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit_both())
        self.assertEqual((task["stateName"], task["round"]), ("settled", 1), task["reason"])
        self.assertIn(("solver1", "wrong_result"), self.slashed(task))
        decided = [d for d in self.disputes(task) if d["winnerName"] == "rival" and d["leafExecuted"]]
        self.assertTrue(decided)
        self.assertEqual(decided[0]["gameView"]["step"], step)
        self.assert_supply()
        return decided[0]

    def test_a_lie_in_a_batch_is_found_in_the_program_that_adds(self):
        self.assertEqual(self.caught("flip_element", ACCUMULATES)["leafOpName"], "matmul")

    def test_a_lie_in_an_update_is_found_in_the_program_that_updates(self):
        self.assertEqual(self.caught("wrong_update", UPDATES)["leafOpName"], "elementwise")


if __name__ == "__main__":
    framework.main()
