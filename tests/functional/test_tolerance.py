#!/usr/bin/env python3
"""Tolerance tasks on real processes: a solver that trains by libtorch is paid, one that trains otherwise than the task
says is beaten, and one whose task has limits that nobody meets trains canonically."""
import glob
import json
import os
import struct

import framework
from quern.devnet import run
from quern.market import TextJob
from test_train import Run, Trains, WINDOWS

SEGMENT = 3  # steps that are trained; the fourth judges
SEGMENTS = 6
STEPS = SEGMENTS * (SEGMENT + 1)
LARGEST = 3.4028234663852886e38
WIDE = [1e-2, 1e-2, 1e-2, 1e-2, 0.0, 0.0, LARGEST]  # l2, linf, moments, rest, loose, least and most movement
NOBODYS = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, LARGEST]


class Tolerance(framework.MarketTest, Trains):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tolerant = cls.job_within("wide", WIDE)

    @classmethod
    def job_within(cls, name, limits):
        file = os.path.join(cls.directory, name + ".limits")
        with open(file, "wb") as out:
            out.write(struct.pack("<7f", *limits))
        return TextJob(os.path.join(cls.directory, name), cls.net.node, framework.licence_texts()[:2], layers=1,
                       d_model=32, context=32, batch=4, total_steps=2 * STEPS,
                       tolerance=(SEGMENT, SEGMENTS, file))

    def submit_tolerant(self, job=None):
        return self.submit(STEPS, SEGMENT + 1, job=job or self.tolerant, stride=SEGMENT + 1)

    def solver_log(self, name="solver1"):
        return "".join(open(file, errors="replace").read()
                       for file in glob.glob(os.path.join(self.directory, "**", name + "*.log"), recursive=True))

    def test_a_training_by_libtorch_is_paid(self):
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        number = self.submit_tolerant()
        task = self.settled(number)
        self.assertEqual(self.slashed(task), set())
        self.assertEqual(self.disputes(task), [])
        self.assertNotEqual(int(task["claim"]["claimedContent"], 16), 0)
        self.assertEqual(int(task["spec"]["dataRoots"][-1], 16), 0)
        self.assert_learned(number, SEGMENTS, self.tolerant)
        self.assertNotRegex(self.solver_log(), rf"canonically.*task={number}\b")
        self.assertIn(f"in tolerance mode task={number} by=libtorch check_segments=1", self.solver_log())
        # What was claimed is there for everybody, as large as the task says.
        claimed = os.path.join(self.directory, "claimed.bin")
        run("quern-cli", *self.net.node.cli, "content", "get", task["claim"]["claimedContent"], claimed)
        self.assertEqual(os.path.getsize(claimed), self.tolerant.compiled["tolerance"]["claimed_bytes"])

    def test_another_learning_rate_is_found_and_done_again(self):
        self.workers(solver1=f"--price=1 --test-fault=altered_rate@{2 * (SEGMENT + 1) + 1}", solver2="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit_tolerant())
        self.assertEqual((task["stateName"], task["round"]), ("settled", 1), task["reason"])
        self.assertIn(("solver1", "wrong_result"), self.slashed(task))
        decided = [d for d in self.disputes(task) if d["winnerName"] == "rival" and d["leafExecuted"]]
        self.assertTrue(decided)
        self.assertEqual(decided[0]["gameView"]["stride"], 3)
        self.assert_supply()

    def test_limits_that_nobody_meets_make_a_solver_slow_and_cost_it_nothing(self):
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        task = self.settled(self.submit_tolerant(self.job_within("nobodys", NOBODYS)))
        self.assertEqual(self.slashed(task), set())
        self.assertIn("the rest is trained canonically", self.solver_log())

    def test_a_solver_without_libtorch_is_paid_as_well(self):
        self.workers(solver1="--no-torch")
        self.verifiers()
        number = self.submit_tolerant()
        self.assertEqual(self.slashed(self.settled(number)), set())
        self.assertIn(f"in tolerance mode task={number} by=canonical", self.solver_log())

    def by_one_command(self, name, movements):
        """What quern-train says of a task of 24 steps, and its options; a movement may be off by that factor."""
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        model, account = self.make_model(name, steps=60), self.net.accounts["submitter"]
        running = Run([*model, "--node", self.net.nodes[0].url, "--rpc-cookie", self.net.daemons[0].datadir + "/.cookie",
                       "--keystore", account.keystore, "--password-file", account.password_file, "--budget", "5qrn",
                       "--poll-ms", 200, "--tax", "0.01qrn", *WINDOWS, "--tolerance", "--interval", 3, "--steps", 24,
                       "--range", movements, "--yes"])
        self.assertEqual(running.end(), 0, running.said)
        return running, model

    def test_one_command_profiles_submits_and_fetches(self):
        running, model = self.by_one_command("command", 1000)
        task = self.net.node.task_get(running.last("submitted")["task"])
        self.assertEqual((task["stateName"], task["spec"]["work"]["mode"], task["steps"]), ("settled", 1, 32))
        self.assertEqual(self.slashed(task), set())
        self.assertEqual(running.last("result")["stateRoot"], task["claim"]["finalRoot"])
        self.assertTrue(running.last("result")["accepted"])
        self.assertLess(running.names().index("price"), running.names().index("profiling"))
        self.assertEqual(running.names().count("price"), 1)
        self.assertTrue(json.loads(run("quern-compile", "validate", model[5]))["valid"])
        self.assert_supply()

    def test_a_result_says_that_a_claim_was_refused(self):
        running, _ = self.by_one_command("refused", 1)  # no movement but the median one
        self.assertFalse(running.last("result")["accepted"])
        self.assertEqual(self.slashed(self.net.node.task_get(running.last("submitted")["task"])), set())


if __name__ == "__main__":
    framework.main()
