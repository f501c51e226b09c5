#!/usr/bin/env python3
"""Tasks whose plan has two programs over one state: gradients of several batches are added up, then applied; or the
model is evaluated on held-out data in between."""
import json
import os

import framework
from quern.devnet import run
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


class Evaluates(framework.MarketTest):
    """Four updates, three batches of held-out windows, and so on: a round ends with a metric."""
    ROUND, ROUNDS = 4 + 3, 3
    STEPS = ROUND * ROUNDS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        texts = framework.licence_texts()
        cls.measured = TextJob(os.path.join(cls.directory, "measured"), cls.net.node, texts[:2], layers=1, d_model=32,
                               context=32, batch=2, held_out=(texts[:1], {"every": 4, "examples": 6}))

    def state_of(self, task):
        path = os.path.join(self.directory, f"state-{task['id']}")
        run("quern-cli", *self.net.node.cli, "content", "state", self.measured.program,
            task["claim"]["checkpointContent"], path)
        return path

    def metric_of(self, task):
        """What the proved state says, and what whoever evaluates its parameters on the same windows finds."""
        state, job = self.state_of(task), self.measured
        said = json.loads(run("quern-compile", "export", "--program", job.program, "--state", state, "--out",
                              state + ".model"))["evaluation"]
        part = os.path.join(self.directory, "six.u8")
        with open(job.data[1], "rb") as whole, open(part, "wb") as file:
            file.write(whole.read(6 * 32 + 1))
        found = json.loads(run("quern-compile", "evaluate", "--program", job.program, "--state", state, "--arch",
                               job.arch, "--data", part))
        self.assertEqual(found["examples"], 6)
        return said, found

    def assert_metric(self, task):
        said, found = self.metric_of(task)
        self.assertEqual(said["step"], 4 * self.ROUNDS)
        self.assertAlmostEqual(said["loss"], found["loss"], 4)
        self.assertAlmostEqual(said["accuracy"], found["accuracy"], 6)

    def test_the_proved_state_has_the_metric_of_its_parameters(self):
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        task = self.settled(self.submit(self.STEPS, self.ROUND, job=self.measured))
        self.assertEqual(task["steps"], self.STEPS)
        self.assert_metric(task)
        job = self.measured
        plan = json.dumps(job.plan(self.STEPS))
        same = json.loads(run("quern-compile", "verify", "--program", *job.programs, "--plan", plan, "--state", job.init,
                              "--data", *job.data, "--beacon", task["seedBeacon"], "--last", self.STEPS, "--root",
                              task["claim"]["finalRoot"]))
        self.assertTrue(same["equal"])

    def test_who_evaluates_on_easier_data_loses_its_bond(self):
        self.workers(solver1=f"--price=1 --test-fault=easy_data@{self.STEPS}", solver2="", whistleblower="")
        self.verifiers()
        task = self.settled(self.submit(self.STEPS, self.ROUND, job=self.measured), 1)
        self.assertIn(("solver1", "wrong_result"), self.slashed(task))
        decided = [d for d in self.disputes(task) if d["winnerName"] == "rival" and d["leafExecuted"]]
        self.assertTrue(decided)
        self.assertEqual((decided[0]["gameView"]["step"], decided[0]["leafOpName"]), (self.STEPS, "window"))
        self.assert_metric(task)


if __name__ == "__main__":
    framework.main()
