#!/usr/bin/env python3
"""Tolerance tasks on real processes: a solver that trains by libtorch is paid, one that trains otherwise than the task
says is beaten, and one whose task has limits that nobody meets trains canonically. Limits that profilers find: of all who
were drawn, of one that is killed between its words, and of those that are left."""
import glob
import json
import os
import struct

import framework
from quern import events
from quern.devnet import run
from quern.market import TextJob
from test_train import Run, Trains, WINDOWS

SEGMENT = 3  # steps that are trained; the fourth judges
SEGMENTS = 6
STEPS = SEGMENTS * (SEGMENT + 1)
LARGEST_SEGMENTS = 2  # that each verifier replays besides
MANY = 16  # segments of a task of which verifiers draw one each
LARGEST = 3.4028234663852886e38
WIDE = [1e-2, 1e-2, 1e-2, 1e-2, 0.0, 0.0, LARGEST]  # l2, linf, moments, rest, loose, least and most movement
NOBODYS = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, LARGEST]


class Tolerance(framework.MarketTest, Trains):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tolerant = cls.job_within("wide", WIDE)

    @classmethod
    def job_within(cls, name, limits, segments=SEGMENTS):
        file = os.path.join(cls.directory, name + ".limits")
        with open(file, "wb") as out:
            out.write(struct.pack("<7f", *limits))
        return TextJob(os.path.join(cls.directory, name), cls.net.node, framework.licence_texts()[:2], layers=1,
                       d_model=32, context=32, batch=4,
                       total_steps=2 * segments * (SEGMENT + 1), tolerance=(SEGMENT, segments, file))

    def submit_tolerant(self, job=None, segments=SEGMENTS, **terms):
        return self.submit(segments * (SEGMENT + 1), SEGMENT + 1, job=job or self.tolerant, stride=SEGMENT + 1,
                           **{"largest": LARGEST_SEGMENTS, **terms})

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
        self.assertEqual(len(set(task["claim"]["largest"])), LARGEST_SEGMENTS)
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

    def test_a_large_step_that_no_verifier_draws_is_replayed(self):
        forged = 9
        job = self.job_within("many", WIDE, MANY)
        self.workers(solver1=f"--price=1 --test-fault=large_update@{forged * (SEGMENT + 1) + 1}", solver2="")
        self.verifiers()
        number = self.submit_tolerant(job, MANY, samples=1, largest=1)
        task = self.settled(number, 1)
        self.assertIn(("solver1", "wrong_result"), self.slashed(task))
        # The beacon draws from the others: nobody would have replayed this one.
        self.assertEqual(self.net.node.claim_get(number, 0, 0, 0)["largest"], [forged])
        self.assertEqual({d["gameView"]["stride"] for d in self.disputes(task)
                          if d["winnerName"] == "rival" and d["leafExecuted"]}, {forged + 1})
        self.assertNotEqual(task["claim"]["largest"], [forged])

    def test_who_names_other_segments_than_those_that_move_most_is_not_paid(self):
        self.workers(solver1="--price=1 --test-fault=wrong_largest", solver2="")
        self.verifiers()
        task = self.settled(self.submit_tolerant(verify_s=60), 1)
        self.assertEqual(self.slashed(task), {("solver1", "data_missing")})
        self.assertEqual(self.payments(task, "solver1", "solver_reward"), [])
        self.assertEqual(self.disputes(task), [])

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

    def test_a_training_in_mixed_precision_is_paid(self):
        arch, limits = self.tolerant.arch, os.path.join(self.directory, "mixed.limits")
        lines = run("quern-profile", "--arch", arch, "--data", self.tolerant.data[0], "--tolerance", SEGMENT, "--segments",
                    SEGMENTS, "--limits", limits, "--products", "bf16", "--cap", 1, "--range", 1000, "--profiled", 8, "--allow-l2", 0.5,
                    "--allow-linf", 10, "--allow-moments", 1, "--allow-rest", 1)
        lines = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual({line["profiler"] for line in lines[:-1]},
                         {"bf16 products, all threads", "bf16 products, one thread", "f32, all threads"})
        far = lambda name: sorted(line["l2"] for line in lines[:-1] if line["profiler"].startswith(name))
        self.assertGreater(far("bf16")[0], 10 * far("f32")[-1])
        self.workers(solver1="--products bf16", whistleblower="")
        self.verifiers()
        with open(limits, "rb") as file:
            job = self.job_within("mixed-job", struct.unpack("<7f", file.read()))
        number = self.submit_tolerant(job)
        task = self.settled(number)
        self.assertEqual(self.slashed(task), set())
        self.assertIn(f"in tolerance mode task={number} by=libtorch", self.solver_log())
        self.assertNotRegex(self.solver_log(), rf"canonically.*task={number}\b")

    def by_one_command(self, name, movements, *more):
        """What quern-train says of a task of 24 steps, and its options; a movement may be off by that factor."""
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        model, account = self.make_model(name, steps=60), self.net.accounts["submitter"]
        running = Run([*model, "--node", self.net.nodes[0].url, "--rpc-cookie", self.net.daemons[0].datadir + "/.cookie",
                       "--keystore", account.keystore, "--password-file", account.password_file, "--budget", "5qrn",
                       "--poll-ms", 200, "--tax", "0.01qrn", *WINDOWS, "--tolerance", "--interval", 3, "--steps", 24,
                       "--range", movements, "--yes", *more])
        self.assertEqual(running.end(), 0, running.said)
        return running, model

    def test_one_command_profiles_submits_and_fetches(self):
        running, model = self.by_one_command("command", 1000)
        task = self.net.node.task_get(running.last("submitted")["task"])
        self.assertEqual((task["stateName"], task["spec"]["work"]["mode"], task["steps"]), ("settled", 1, 32))
        self.assertEqual(self.slashed(task), set())
        self.assertEqual(running.last("result")["stateRoot"], task["claim"]["finalRoot"])
        self.assertTrue(running.last("result")["accepted"], self.solver_log())
        self.assertLess(running.names().index("price"), running.names().index("profiling"))
        self.assertEqual(running.names().count("price"), 1)
        self.assertTrue(json.loads(run("quern-compile", "validate", model[5]))["valid"])
        self.assert_supply()

    def test_one_command_leaves_the_limits_to_profilers(self):
        running, model = self.by_one_command("profilers", 1000, "--profilers", 3, "--profile-window", 120)
        number = running.last("submitted")["task"]
        task = self.net.node.task_get(number)
        self.assertEqual((task["stateName"], task["spec"]["profiling"]["profilers"]), ("settled", 3))
        self.assertEqual(len(events.find(self.net.node, "ProfileCommitted", task=number)), 3)
        self.assertNotIn("profiling", running.names())
        # What it says: whether there are enough of them, what they cost, how far they are, what they found.
        self.assertLess(running.names().index("verifiers"), running.names().index("price"))
        self.assertEqual({name: running.last("verifiers")[name] for name in ("able", "asked", "needed")},
                         {"able": 3, "asked": 3, "needed": 3})
        price = running.last("price")
        self.assertEqual(int(price["profilerFees"]["grains"]), 3 * int(price["profilerFee"]["grains"]))
        self.assertEqual({each["drawn"] for each in running.events if each["event"] == "profilers"} - {0}, {3})
        self.assertNotIn("progress", running.names()[:running.names().index("limits")])
        l2, linf, *_ = struct.unpack("<7f", bytes.fromhex(task["profiling"]["limits"][2:]))
        self.assertEqual((running.last("limits")["l2"], running.last("limits")["linf"]), (l2, linf))
        self.assertTrue(running.last("result")["accepted"], self.solver_log())
        self.assertEqual(running.last("result")["stateRoot"], task["claim"]["finalRoot"])
        self.assertTrue(json.loads(run("quern-compile", "validate", model[5]))["valid"])
        self.assert_supply()

    def test_one_command_sends_nothing_where_too_few_could_be_profilers(self):
        account = self.net.accounts["submitter"]
        before = self.net.node.eth_getBalance(account.address, "latest")
        running = Run([*self.make_model("few", steps=60), "--node", self.net.nodes[0].url, "--keystore", account.keystore,
                       "--password-file", account.password_file, "--budget", "5qrn", "--tolerance", "--interval", 3,
                       "--steps", 24, "--profilers", 6, "--yes"])
        self.assertEqual(running.end(), 1)
        self.assertEqual(running.last("error")["name"], "train.too_few_profilers")
        self.assertIn("4 of 6 profilers must agree, and 3 verifiers", running.last("error")["detail"])
        self.assertNotIn("price", running.names())
        self.assertEqual(self.net.node.eth_getBalance(account.address, "latest"), before)

    def test_a_result_says_that_a_claim_was_refused(self):
        running, _ = self.by_one_command("refused", 1)  # no movement but the median one
        self.assertFalse(running.last("result")["accepted"])
        self.assertEqual(self.slashed(self.net.node.task_get(running.last("submitted")["task"])), set())


LEAST = 2**-18  # limit that there may be
PROFILED = 8  # segments of a profile, the fewest there may be
VERIFIERS = [f"verifier{index + 1}" for index in range(4)]


class Profiling(framework.MarketTest):
    accounts = {**framework.ACCOUNTS, "verifier4": 20}
    bonds = [*framework.BONDS, ("verifier4", "verifier", 400)]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.profiled = TextJob(os.path.join(cls.directory, "profiled"), cls.net.node, framework.licence_texts()[:2], layers=1,
                               d_model=32, context=32, batch=4, total_steps=PROFILED * SEGMENT,
                               tolerance=(SEGMENT, PROFILED, None))

    def submit_profiled(self, profilers, **windows):
        return self.submit(PROFILED * (SEGMENT + 1), SEGMENT + 1, job=self.profiled, stride=SEGMENT + 1,
                           profilers=profilers, profiled_segments=PROFILED, profile_window=120, range=1000, **windows)

    def log_of(self, name):
        with open(self.net.workers[name].log, errors="replace") as text:
            return text.read()

    def committed(self, number):
        """The commitments of its profilers by their names."""
        return {self.net.name_of(each["profiler"]): each["commitment"]
                for each in events.find(self.net.node, "ProfileCommitted", task=number)}

    def until_committed(self, number, names):
        self.net.wait_until(lambda: names <= set(self.committed(number)), 120, f"{names} to commit")

    def paid_for_profiles(self, number):
        return {self.net.name_of(each["to"]) for each in events.find(self.net.node, "Paid", task=number)
                if each["reason"] == "profiler_fee"}

    def found(self, number):
        """The task, once its limits are found."""
        return self.net.wait_until(lambda: (lambda task: task if task["stateName"] != "profiling" else None)(
            self.net.node.task_get(number)), 120, "limits")

    def assert_limits(self, number, task):
        """They are a data tensor of the task, which everybody has, and are of what was measured."""
        limits = events.find(self.net.node, "LimitsFound", task=number)
        self.assertEqual([each["limits"] for each in limits], [task["profiling"]["limits"]])
        file = os.path.join(self.directory, "found.limits")
        run("quern-cli", *self.net.node.cli, "content", "get", task["spec"]["dataRoots"][-2], file)
        with open(file, "rb") as found:
            content = found.read()
        self.assertEqual("0x" + content.hex(), task["profiling"]["limits"])
        l2, linf, moments, rest, loose, least, most = struct.unpack("<7f", content)
        for limit in (l2, moments, rest):
            self.assertGreaterEqual(limit, LEAST)
        self.assertGreater(linf, LEAST)  # libtorch is off by more
        self.assertLessEqual(l2, 1e-2 * 1.001)
        self.assertEqual(loose, LEAST)
        self.assertLess(0, least)
        self.assertLess(least, most)

    def test_limits_are_found_trained_within_and_paid_for(self):
        self.workers(solver1="", whistleblower="", **dict.fromkeys(VERIFIERS, ""))
        number = self.submit_profiled(3)
        self.assertEqual(int(self.net.node.task_get(number)["spec"]["dataRoots"][-2], 16), 0)
        task = self.settled(number)
        self.assertEqual(self.slashed(task), set())
        self.assertEqual(self.disputes(task), [])
        self.assert_limits(number, task)
        self.assertEqual(len(self.paid_for_profiles(number)), 3)
        self.assertEqual(self.paid_for_profiles(number), set(self.committed(number)))
        self.assertNotEqual(int(task["claim"]["claimedContent"], 16), 0)
        self.assertNotIn("canonical", self.log_of("solver1"))

    def test_one_that_is_killed_after_its_commitment_shows_what_it_has_committed_to(self):
        self.workers(solver1="", **dict.fromkeys(VERIFIERS[:3], ""))
        number = self.submit_profiled(4)
        self.until_committed(number, set(VERIFIERS[:3]))
        self.net.workers["verifier1"].kill()
        self.workers(verifier4="")
        self.net.wait_until(lambda: self.net.node.task_get(number)["profiling"]["revealing"], 120, "all to commit")
        self.workers(verifier1="")
        restarted = self.net.workers["verifier1"].log_start
        task = self.settled(number)
        self.assert_limits(number, task)
        self.assertEqual(self.paid_for_profiles(number), set(VERIFIERS))
        said = self.log_of("verifier1")[restarted:]
        self.assertIn("profile is there", said)
        self.assertNotIn("profiling begins", said)
        self.assertEqual(self.slashed(task), set())

    def test_one_whose_operator_does_not_want_to_is_left_out_until_he_does(self):
        self.workers(solver1="", verifier4="--no-profiling", **dict.fromkeys(VERIFIERS[:3], ""))
        number = self.submit_profiled(4)
        self.until_committed(number, set(VERIFIERS[:3]))
        self.assertNotIn(f"profiling begins task={number}", self.log_of("verifier4"))
        self.net.workers["verifier4"].kill()
        self.workers(verifier4="")
        self.assertEqual(self.slashed(self.settled(number)), set())
        self.assertEqual(self.paid_for_profiles(number), set(VERIFIERS))

    def test_one_that_stays_dead_loses_and_the_others_find_the_limits(self):
        self.workers(solver1="", verifier4="")
        before = self.bond("verifier4")
        number = self.submit_profiled(4, verify_s=20)
        self.until_committed(number, {"verifier4"})
        self.net.workers["verifier4"].kill()
        self.workers(**dict.fromkeys(VERIFIERS[:3], ""))
        task = self.found(number)
        self.assertEqual(task["stateName"], "open", task["reason"])
        self.assert_limits(number, task)
        self.assertEqual(self.slashed(task), {("verifier4", "no_reveal")})
        self.assertEqual(self.paid_for_profiles(number), set(VERIFIERS[:3]))
        self.assertLess(self.bond("verifier4")[0], before[0])
        self.workers(verifier4="")  # for what it is drawn for later
        self.settled(number)


if __name__ == "__main__":
    framework.main()
