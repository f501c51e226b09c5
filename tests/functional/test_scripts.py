#!/usr/bin/env python3
"""contrib/demo.sh and its like before they do anything: options, help, what they announce; and how tests are counted."""
import contextlib
import io
import os
import re
import shutil
import struct
import subprocess
import sys
import time
import types
import unittest
import unittest.mock

import check_code
import framework
import run_tests
from quern import demo, fenced_blocks
from quern.devnet import shortest_window

CONTRIB = os.path.join(framework.ROOT, "contrib")
INSTALLING = 7  # the exit code of what stands in for install-deps.sh


class PassedChecksTest(unittest.TestCase):
    """What check_code.py remembers of clang and clang-tidy: that these bytes passed, and nothing else."""

    def setUp(self):
        self.directory = framework.temporary_directory("quern-passed-")
        self.paths = [os.path.join(self.directory, name) for name in ("a.cpp", "a.h", "list")]
        for path in self.paths:
            self.write(path, "one")
        self.runs = os.path.join(self.directory, "runs")
        for owner, name, value in ((check_code, "included_files", lambda: {"a.cpp": self.paths[:2], "b.cpp": []}),
                                   (check_code.Passed, "FOLDER", os.path.join(self.directory, "kept"))):
            patch = unittest.mock.patch.object(owner, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def check(self, label="a.cpp", words=("x",), status=0):
        """Whether the tool was run, and how it ended."""
        self.write(self.runs, "")
        command = ["sh", "-c", f"echo ran >{self.runs}; exit {status}", *words]
        mark = check_code.Passed("true").file(label, command, self.paths[2:])
        with contextlib.redirect_stdout(io.StringIO()):
            code = check_code.run_all("check", [(label, command, self.directory, mark)])
        with open(self.runs, encoding="utf-8") as file:
            return file.read() != "", code

    def test_the_same_bytes_are_not_looked_at_again(self):
        self.assertEqual(self.check(), (True, 0))
        self.assertEqual(self.check(), (False, 0))

    def test_another_byte_or_word_is_looked_at(self):
        for path in self.paths:
            self.check()
            self.write(path, "two")
            self.assertEqual(self.check(), (True, 0), path)
        self.assertEqual(self.check(words=("y",)), (True, 0))

    def test_failures_and_unknown_sources_are_not_kept(self):
        self.assertEqual(self.check(status=1), (True, 1))
        self.assertEqual(self.check(status=1), (True, 1))
        self.assertEqual(self.check(label="b.cpp"), (True, 0))
        self.assertEqual(self.check(label="b.cpp"), (True, 0))


class DemoScriptTest(unittest.TestCase):
    """demo.sh beside an install-deps.sh that only says that it was reached, and without Python."""

    def setUp(self):
        self.directory = framework.temporary_directory("quern-scripts-")
        os.mkdir(self.path("contrib"))
        shutil.copy(os.path.join(CONTRIB, "demo.sh"), self.path("contrib"))
        with open(os.open(self.path("contrib", "install-deps.sh"), os.O_CREAT | os.O_WRONLY, 0o755), "w") as file:
            file.write(f"#!/bin/bash\necho installing\nexit {INSTALLING}\n")
        os.mkdir(self.path("bin"))
        for tool in ("bash", "env", "dirname", "sed", "rm", "mkdir"):
            os.symlink(shutil.which(tool), self.path("bin", tool))

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def run_demo(self, *arguments):
        return subprocess.run([self.path("contrib", "demo.sh"), *arguments], capture_output=True, text=True, timeout=30,
                              check=False, env={"PATH": self.path("bin")})

    def test_wrong_options_are_refused_before_anything_is_installed(self):
        os.mkdir(self.path("net"))
        with open(self.path("net", "genesis.json"), "w"):
            pass
        for arguments, word in ((["--bogus"], "unknown option --bogus"), (["--validators", "0"], "1 to 20"),
                                (["--validators=21"], "1 to 20"), (["--validators", "two"], "1 to 20"), (["--seed", "x"], "a number"),
                                (["--report"], "needs a value"), (["--report", self.path("no", "such")], "cannot be written"),
                                (["--report", self.directory], "cannot be written"), (["--report="], "empty"),
                                (["--directory", "/proc/none"], "cannot be written"),
                                (["--directory", self.path("net")], "holds a network already"), (["left", "over"], "unknown")):
            done = self.run_demo(*arguments)
            self.assertEqual(done.returncode, 2, (arguments, done.stdout, done.stderr))
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_help_needs_no_python(self):
        done = self.run_demo("--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--report FILE", done.stdout)

    def test_says_first_how_long_it_takes_and_what_it_needs(self):
        done = self.run_demo("--report", self.path("report.json"), "--validators=3", "--directory", self.path("new"))
        self.assertEqual(done.returncode, INSTALLING, done.stderr)
        first, second = done.stdout.splitlines()
        self.assertRegex(first, r"minutes on two cores.* of disk, .* of memory")
        self.assertEqual(second, "installing")
        self.assertFalse(os.path.exists(self.path("report.json")), "the check of --report left a file")


class OtherScriptsTest(unittest.TestCase):
    def test_they_tell_how_they_are_used(self):
        for script in ("build.sh", "install-deps.sh", "test.sh", "demo.sh", "fuzz.sh", "check-docs.sh",
                       "check-production.sh"):
            done = subprocess.run([os.path.join(CONTRIB, script), "--help"], capture_output=True, text=True, timeout=30, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)
            self.assertIn("Usage: contrib/" + script, done.stdout)
        for script in ("build.sh", "install-deps.sh", "test.sh", "check-docs.sh", "check-production.sh"):
            done = subprocess.run([os.path.join(CONTRIB, script), "--bogus"], capture_output=True, text=True, timeout=30, check=False)
            self.assertEqual(done.returncode, 2, script)


class DevnetParametersTest(unittest.TestCase):
    def test_the_shortest_window_follows_the_idle_pause(self):
        for idle, seconds in ((125, 8), ("300", 18), (16, 1), (17, 2)):
            self.assertEqual(shortest_window({"max_idle_ms": idle}), {"min_window_s": seconds})
        self.assertEqual(shortest_window({"max_idle_ms": "soon"}), {}, "left to quern-genesis to refuse")


class DocumentsTest(unittest.TestCase):
    TEXT = "a\n```sh\nX=1\n```\n```\nnot me\n```\n```sh root\nid -u\n```\n```sh tests\nfalse\n```\n```sh\necho $X\nno_such_command\necho late\n```\n"

    def run_script(self, text):
        return subprocess.run(["bash", "-c", "exec 3>&1; bash -s", "x"], input=text, capture_output=True, text=True, timeout=30,
                              check=False)

    def test_blocks_of_documents_become_a_script_that_ends_at_the_first_failure(self):
        done = self.run_script(fenced_blocks.script("doc.md", self.TEXT, "user", ["tests"]))
        self.assertEqual(done.returncode, 127)
        self.assertEqual(done.stdout, "ok doc.md:2 as user\n1\nFAIL doc.md:14 as user\n")
        self.assertIn("ok doc.md:8 as root", self.run_script(fenced_blocks.script("doc.md", self.TEXT, "root", ["tests"])).stdout)
        self.assertIn("FAIL doc.md:11 as user", self.run_script(fenced_blocks.script("doc.md", self.TEXT)).stdout)
        with self.assertRaises(ValueError):
            fenced_blocks.blocks("```sh\nno end\n")

    def test_what_people_paste_is_shell_and_names_nothing_that_is_not_there(self):
        for name in ("README.md", "doc/operations.md"):
            with open(os.path.join(framework.ROOT, name), encoding="utf-8") as file:
                text = fenced_blocks.script(name, file.read(), "root")
            self.assertGreater(text.count("echo ok"), 1)
            done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            for script in re.findall(r"(?:\./)?(contrib/[\w.-]+)", text):
                self.assertTrue(os.access(os.path.join(framework.ROOT, script), os.X_OK), script)
            self.assertNotRegex(text, r"\.\.\.|…|<[a-z]+>", "a placeholder cannot be pasted")

    def test_the_tables_of_kinds_and_events_are_those_of_the_code(self):
        def read(name):
            with open(os.path.join(framework.ROOT, name), encoding="utf-8") as file:
                return file.read()

        numbers = dict(re.findall(r"^    (\w+) = (0x[1-6][0-9a-f]),$", read("src/chain/types/native_tx.h"), re.M))
        groups = dict(re.findall(r"(\w+) = ([1-6])\b", re.search(r"enum class KindGroup.*?};", read("src/chain/types/native_kinds.h"))[0]))
        kinds = re.findall(r'X\((\w+), (\w+), \w+, "(\w+)", ([\d\']+), (\d+)\)', read("src/chain/types/native_kinds.h"))
        market, staking = read("doc/market.md"), read("doc/staking.md")
        self.assertEqual(len(kinds), len(numbers))
        for kind, group, function, gas, per_byte in kinds:
            with self.subTest(kind):
                if group == "staking":
                    row = rf"\n\| {kind} \| {numbers[kind]} \| .* \| `{function}\(.*\)` \|"
                else:
                    gas = gas.replace("'", "")
                    row = (rf"\n\| `{kind}` \| {numbers[kind]} \| 0x…510{groups[group]} \| `{function}\(.*\)` \| "
                           rf"`0x[0-9a-f]{{8}}` \| {gas} \+ {per_byte}/byte \|")
                self.assertTrue(re.search(row, staking if group == "staking" else market), "no such row: " + row)
        self.assertEqual(len(re.findall(r"\n\| `\w+` \| 0x[1-6][0-9a-f] \|", market)) + len(re.findall(r"\n\| \w+ \| 0x1\d \|", staking)),
                         len(kinds), "kinds that are no more")
        for event, indexed in re.findall(r'kEvent = "(\w+)";\n *static constexpr std::size_t kIndexed = (\d);',
                                         read("src/chain/exec/handlers/events.h")):
            with self.subTest(event):
                self.assertTrue(re.search(rf"`{event}(\(.*\)` \| {indexed} \||`)", market + staking))


class PicturesTest(unittest.TestCase):
    def test_as_many_stand_side_by_side_as_a_terminal_has_columns_for(self):
        pictures = [[f"{letter}{letter}", letter * 2] for letter in "abc"]
        self.assertEqual(list(demo.side_by_side(pictures, None)), ["| aa | bb | cc |"] * 2)
        self.assertEqual(list(demo.side_by_side(pictures, 18)), ["| aa | bb | cc |"] * 2)
        self.assertEqual(list(demo.side_by_side(pictures, 17)), ["| aa | bb |"] * 2 + ["| cc |"] * 2)
        self.assertEqual(list(demo.side_by_side(pictures, 3)), ["| aa |"] * 2 + ["| bb |"] * 2 + ["| cc |"] * 2)


class ProgressTest(unittest.TestCase):
    """What the demo says while it waits, from a task as the node shows it and the workers' logs."""

    def setUp(self):
        self.directory = framework.temporary_directory("quern-progress-")
        names = {"0x1": "solver1", "0x2": "verifier1", "0x3": "verifier2"}
        disputes = {4: {"id": 4, "open": True, "rounds": 7}, 5: {"id": 5, "open": False, "rounds": 9}}
        self.net = types.SimpleNamespace(
            name_of=names.get, node=types.SimpleNamespace(dispute_get=disputes.get),
            workers={name: types.SimpleNamespace(log=os.path.join(self.directory, name)) for name in names.values()})
        self.said = []
        self.progress = demo.Progress(self.net, self.said.append, 1)
        self.claim = {"stateName": "working", "solver": "0x1", "step": 0, "loss": 0, "disputes": [],
                      "reports": [{"verifier": "0x2"}, {"verifier": "0x3"}]}
        self.task = {"id": 1, "stateName": "running", "round": 0, "steps": 600, "spec": {"work": {"interval": 30}},
                     "claim": self.claim}

    def log(self, name, text):
        with open(self.net.workers[name].log, "a") as file:
            file.write(text + "\n")

    def test_a_training_shows_step_loss_and_time_to_go(self):
        self.assertIn("no heartbeat yet", self.progress.trained(self.task))
        self.log("solver1", "I solver trained task=1 step=60/600 loss=2.5000")
        self.assertIn("step 60 of 600, loss 2.5000 (not on chain yet)", self.progress.trained(self.task))
        time.sleep(0.02)
        self.claim.update(step=90, loss=struct.unpack("<I", struct.pack("<f", 1.5))[0])
        self.assertRegex(self.progress.trained(self.task), r"step 90 of 600, loss 1.5000 \(on chain\), about \d+ s to go")
        self.claim.update(step=600)
        self.assertIn("all 600 steps", self.progress.trained(self.task))

    def test_verification_shows_each_verifiers_segments_and_open_disputes(self):
        self.assertIsNone(self.progress.verified(self.task))
        self.log("verifier1", "I verifier replay begins task=1 round=0 segments=20")
        self.log("verifier2", "I verifier replay begins task=1 round=0 segments=20\nI verifier replays task=1 segment=3/20")
        self.claim.update(stateName="committing", disputes=[4, 5])
        self.assertEqual(self.progress.verified(self.task),
                         "committing: verifier1 0 of 20 segments, verifier2 3 of 20 segments, dispute 4 in round 7")
        self.log("verifier2", "I verifier replayed task=1 verdict=PASS")
        self.assertIn("verifier2 says PASS", self.progress.verified(self.task))

    def test_there_is_a_line_every_few_seconds_and_no_more(self):
        self.progress.look(self.task)
        self.progress.look(self.task)
        self.assertEqual(len(self.said), 1)
        self.progress.next = 0
        self.progress.look(self.task)
        self.assertEqual(len(self.said), 2)


TIRING = """
import os, signal, sys, unittest
sys.path.insert(0, {functional!r})
import framework

def times(name):
    with open(os.path.join({directory!r}, name), "a+") as file:
        file.write(".")
        return file.tell()

class X(unittest.TestCase):
    def test_fine(self):
        times("fine")
    def test_once(self):
        self.assertGreater(times("once"), 1)
    def test_twice(self):
        self.assertGreater(times("twice"), 2 if {really} else 1)
    def test_killed(self):
        if {killed}:
            os.kill(os.getpid(), signal.SIGKILL)

framework.main()
"""


class RunAgainTest(unittest.TestCase):
    def run_tiring(self, really=False, killed=False):
        self.directory = framework.temporary_directory("quern-again-")
        script = os.path.join(self.directory, "tiring.py")
        with open(script, "w") as file:
            functional = os.path.dirname(os.path.abspath(__file__))
            file.write(TIRING.format(functional=functional, directory=self.directory, really=really, killed=killed))
        with contextlib.redirect_stdout(io.StringIO()):
            return run_tests.Runner().run_all([run_tests.Job("tiring", [sys.executable, script], 60, {})], 1)[0]

    def times(self, name):
        return os.path.getsize(os.path.join(self.directory, name))

    def test_what_passes_alone_is_unsteady_and_said(self):
        result = self.run_tiring()
        self.assertEqual((result.passed, result.failed), (4, 0))
        self.assertEqual([test for test, _ in result.unsteady],
                         ["test_once (__main__.X.test_once)", "test_twice (__main__.X.test_twice)"])
        self.assertIn("not greater than", result.unsteady[0][1])
        self.assertEqual((self.times("once"), self.times("fine")), (3, 1))

    def test_what_fails_again_has_failed(self):
        result = self.run_tiring(really=True)
        self.assertEqual((result.passed, result.failed), (3, 1))
        self.assertEqual(len(result.unsteady), 1)

    def test_what_crashed_is_not_run_again(self):
        self.run_tiring(killed=True)
        self.assertEqual(self.times("fine"), 1)

    def test_a_failure_before_a_crash_does_not_hide_it(self):
        # As GoogleTest does: the failed test is named before the next one crashes. Alone it would pass.
        says = "import os, sys\nif len(sys.argv) > 1: print('[  PASSED  ] 1 test.'); sys.exit()\n" \
               "print('[ RUN      ] A.b\\nit is late\\n[  FAILED  ] A.b (1 ms)', flush=True); os.abort()\n"
        with contextlib.redirect_stdout(io.StringIO()):
            result = run_tests.Runner().run_all([run_tests.Job("crash", [sys.executable, "-c", says], 60, {})], 1)[0]
        self.assertEqual((result.failed, result.unsteady), (1, []))

    def test_one_googletest_case_is_named(self):
        job = run_tests.Job("unit", ["test_p2p"], 1, {})
        self.assertEqual(run_tests.only(job, "All/Sync.works/3").command, ["test_p2p", "--gtest_filter=All/Sync.works/3"])


class CountingTest(unittest.TestCase):
    def test_crashes_and_silence_count_as_failures(self):
        self.assertEqual(run_tests.count("", 0, False), (0, 1, 0))
        self.assertEqual(run_tests.count("[  PASSED  ] 3 tests.\n", -11, False), (3, 1, 0))
        self.assertEqual(run_tests.count("2 passed, 0 failed, 1 skipped\n", 0, False), (2, 0, 1))
        self.assertEqual(run_tests.count("anything", 0, True), (1, 0, 0))

    def test_reasons_of_skips_are_found(self):
        unittest_says = "test_a (__main__.X.test_a) ... skipped 'needs root'\ntest_b (__main__.X.test_b) ... ok\n"
        self.assertEqual(run_tests.skip_reasons(unittest_says), [("test_a", "needs root")])
        google_says = "[ RUN      ] Arith.avx\na_test.cpp:7: Skipped\nno AVX-512 here\n\n[  SKIPPED ] Arith.avx (0 ms)\n"
        self.assertEqual(run_tests.skip_reasons(google_says), [("Arith.avx", "no AVX-512 here")])
        self.assertEqual(run_tests.skip_reasons("skipped: npm is missing\n0 passed, 0 failed, 1 skipped\n"),
                         [("all", "npm is missing")])

    def test_what_a_sanitizer_ended_is_named(self):
        says = "[ RUN      ] A.a\n[       OK ] A.a (0 ms)\n[ RUN      ] A.b\nshift exponent 64 is too large\n    #1 main\n"
        self.assertEqual(run_tests.failures(says), [("A.b", "shift exponent 64 is too large\n    #1 main")])
        self.assertEqual(run_tests.failures("[ RUN      ] A.a\n[       OK ] A.a (0 ms)\nkilled\n")[0][0], "?")

    def test_a_hung_program_and_its_children_are_killed(self):
        job = run_tests.Job("hung", ["sh", "-c", "sleep 61.5 & echo begun; sleep 61.5"], 0.5, {})
        with contextlib.redirect_stdout(io.StringIO()):
            result = run_tests.Runner().run(job)
        self.assertEqual((result.passed, result.failed), (0, 1))
        self.assertIn("begun\n", result.output)
        self.assertIn("timed out", result.output)
        self.assertNotIn("sleep 61.5", subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=False).stdout
                         if shutil.which("ps") else "")


if __name__ == "__main__":
    framework.main()
