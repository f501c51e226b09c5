#!/usr/bin/env python3
"""quern-compile run: steps of a program on this machine, stopped, killed and taken up again, on both backends."""
import json
import os
import pty
import re
import signal
import subprocess
import unittest

import framework
from quern.devnet import program, run

TEXT = "The quern is a mill. It grinds corn, and the corn that it grinds is the miller's: so he says, and so it is.\n" * 40
STEPS, LONG, SEED = 30, 1500, 3
BEACON = "0x" + bytes(8).hex() + SEED.to_bytes(8, "big").hex() + bytes(16).hex()
TIMEOUT_S = 240


class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = framework.temporary_directory("quern-run-")
        cls.make_model("plain")
        cls.make_model("parts", accumulate=2)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.directory, name)

    @classmethod
    def make_model(cls, name, **more):
        with open(cls.path("text"), "w", encoding="utf-8") as file:
            file.write(TEXT)
        made = json.loads(run("quern-compile", "dataset", "--out", cls.path("data.u8"), cls.path("text")))
        with open(cls.path(name + ".json"), "w", encoding="utf-8") as file:
            json.dump({"format": "quern-arch-1",
                       "model": {"type": "char_transformer", "layers": 1, "d_model": 32, "heads": 2, "context": 32,
                                 "mlp_ratio": 4, "vocab": made["vocab"]},
                       "data": {"dtype": "u8", "elements": made["elements"]}, "batch": 4, **more,
                       "optimizer": {"type": "adamw", "lr": 5e-3, "total_steps": LONG}}, file)
        update = ["--update", cls.path(name + "-update.bin")] if more else []
        run("quern-compile", "program", "--arch", cls.path(name + ".json"), "--out", cls.path(name + ".bin"), *update)
        run("quern-compile", "init", "--arch", cls.path(name + ".json"), "--seed", SEED, "--out", cls.path(name + "-init"))

    def command(self, out, *more, name="plain", steps=STEPS):
        programs = [self.path(name + ".bin"), *([self.path("parts-update.bin")] if name == "parts" else [])]
        return [program("quern-compile"), "run", "--program", *programs, "--state", self.path(name + "-init"), "--data",
                self.path("data.u8"), "--steps", str(steps), "--seed", str(SEED), "--threads", "1", "--out", self.path(out), *more]

    def events(self, command, code=0):
        done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        if code != 0:
            self.assertIn(events[-1]["name"], done.stderr)
        return events

    def verified(self, root, last, *more, name="plain"):
        programs = [self.path(name + ".bin"), *([self.path("parts-update.bin")] if name == "parts" else [])]
        said = run("quern-compile", "verify", "--program", *programs, "--state", self.path(name + "-init"), "--data",
                   self.path("data.u8"), "--beacon", BEACON, "--last", last, "--root", root, *more)
        self.assertTrue(json.loads(said)["equal"])

    def test_is_the_training_of_quern_train(self):
        events = self.events(self.command("same"))
        self.assertEqual([each["event"] for each in events if each["event"] != "progress"], ["result"])
        progress, result = events[-2], events[-1]
        self.assertEqual((progress["step"], progress["steps"], result["step"]), (STEPS, STEPS, STEPS))
        self.assertLess(progress["loss"], 4)
        trained = run("quern-train", "--local", "--model", self.path("plain.json"), "--data", self.path("data.u8"), "--seed", SEED,
                      "--steps", STEPS, "--threads", 1, "--out", self.path("trained"), "--json")
        self.assertEqual(json.loads(trained.splitlines()[-1])["stateRoot"], result["stateRoot"])
        self.verified(result["stateRoot"], STEPS)
        # With a task's order of data instead.
        beacon = [word for word in self.command("beacon") if word not in ("--seed", str(SEED))]
        self.assertEqual(self.events([*beacon, "--beacon", BEACON])[-1]["stateRoot"], result["stateRoot"])
        exported = run("quern-compile", "export", "--program", self.path("plain.bin"), "--state", self.path("same"), "--out",
                       self.path("same-model"))
        self.assertEqual(json.loads(exported)["state_root"], result["stateRoot"])

    def test_an_accumulating_training_ends_within_a_turn(self):
        result = self.events(self.command("turns", "--accumulate", "2", name="parts", steps=STEPS + 1))[-1]
        self.verified(result["stateRoot"], STEPS + 1, "--accumulate", 2, name="parts")

    def test_stopped_and_killed_it_ends_with_the_same_bits(self):
        whole = self.events(self.command("whole", steps=LONG))[-1]
        command = [*self.command("stopped", steps=LONG), "--json"]

        def interrupt(number):
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
                first = json.loads(child.stdout.readline())
                while json.loads(child.stdout.readline())["event"] != "progress":
                    pass
                child.send_signal(number)
                rest, said = child.communicate(timeout=TIMEOUT_S)
            return first, rest, said, child.returncode

        _, rest, said, code = interrupt(signal.SIGINT)
        self.assertEqual(code, 1)
        self.assertIn("run.stopped", said)
        last = json.loads(rest.splitlines()[-1])
        self.assertEqual((last["event"], last["name"]), ("error", "run.stopped"))
        step = int(re.search(r"at step (\d+) of", last["detail"]).group(1))
        self.assertTrue(0 < step < LONG, step)
        first, _, _, code = interrupt(signal.SIGKILL)
        self.assertEqual((first["event"], first["step"], code), ("resumed", step, -signal.SIGKILL))
        events = self.events(command[:-1])
        self.assertEqual((events[0]["event"], events[0]["step"]), ("resumed", step))
        self.assertEqual(events[-1]["stateRoot"], whole["stateRoot"])
        # Done is done; what is there is not written over by another run.
        self.assertEqual([each["event"] for each in self.events(command[:-1])], ["resumed", "result"])
        self.assertEqual(self.events(self.command("stopped", "--backend", "torch", steps=LONG), code=1)[-1]["name"],
                         "run.other_run")
        self.assertEqual(self.events(self.command("stopped"), code=1)[-1]["name"], "run.beyond")
        self.assertEqual(self.events(self.command("plain-init"), code=1)[-1]["name"], "run.other_run")

    def test_on_libtorch_it_is_the_same_to_rounding(self):
        module = os.path.join(os.path.dirname(program("quern-compile")), "quern-torch-steps.so")
        command = self.command("torch", "--backend", "torch")
        if not os.path.exists(module):
            self.assertEqual(self.events(command, code=1)[-1]["name"], "torch.no_module")
            self.skipTest("built without libtorch")
        theirs, ours = self.events(command), self.events(self.command("canonical"))
        self.assertNotEqual(theirs[-1]["stateRoot"], ours[-1]["stateRoot"])
        self.assertAlmostEqual(theirs[-2]["loss"], ours[-2]["loss"], delta=1e-3)

    def test_shows_people_a_bar_and_a_plot(self):
        ours, theirs = pty.openpty()
        with subprocess.Popen(self.command("shown", steps=LONG), stdin=subprocess.DEVNULL, stdout=theirs,
                              stderr=subprocess.PIPE) as child:
            os.close(theirs)
            shown = b""
            try:
                while piece := os.read(ours, 65536):
                    shown += piece
            except OSError:  # nobody writes any more
                pass
            self.assertEqual(child.wait(timeout=TIMEOUT_S), 0, child.stderr.read())
        os.close(ours)
        text = shown.decode()
        self.assertRegex(text, rf"\r\x1b\[K█+░* step \d+ of {LONG}  loss ")
        lines = text.splitlines()
        foot = next(i for i, line in enumerate(lines) if "└─" in line)
        self.assertRegex(lines[foot - 8], r"^ *[0-9.]+ │█")
        self.assertRegex(lines[foot + 1], rf"^ +1 +{LONG}$")
        self.assertRegex(lines[-1], r"shown is the state after step \d+; state root 0x[0-9a-f]{64}$")

    def test_refuses_wrong_options_and_files(self):
        for more in (["--backend", "abacus"], ["--beacon", BEACON], ["--threads", "-1"], ["--steps", "0"]):
            done = subprocess.run(self.command("wrong", *more), capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
        command = self.command("wrong")
        at = command.index("--data")
        for words, name in (([], "compile.wrong_data"), (["--data", self.path("plain.bin")], "compile.wrong_data")):
            done = subprocess.run([*command[:at], *words, *command[at + 2:]], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(name, done.stderr)
        self.assertIn("compile.accumulate", subprocess.run(self.command("wrong", "--accumulate", "2"), capture_output=True,
                                                           text=True, check=False).stderr)
        self.assertFalse(os.path.exists(self.path("wrong")))
        self.assertEqual([each["event"] for each in self.events(self.command("wrong", "--accumulate", "2"), code=1)], ["error"])


if __name__ == "__main__":
    framework.main()
