#!/usr/bin/env python3
"""quern-measure and contrib/quality.sh: trainings measured on held-out data, on both machines, whatever interrupts them."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import framework
from quern.devnet import program

QUALITY = os.path.join(framework.ROOT, "contrib", "quality.sh")
TEXT = "The quern is a mill. It grinds corn, and the corn that it grinds is the miller's: so he says, and so it is.\n" * 40
STEPS, INTERVAL = 40, 10
STOPPED = 128 + signal.SIGTERM


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Measure(unittest.TestCase):
    def setUp(self):
        self.directory = framework.temporary_directory("quern-quality-")
        self.addCleanup(shutil.rmtree, self.directory)
        with open(self.path("text"), "w", encoding="utf-8") as file:
            file.write(TEXT)
        made = json.loads(self.run_program("quern-compile", "dataset", "--out", "data.u8", "text"))
        with open(self.path("held-out.u8"), "wb") as file:
            file.write(read(self.path("data.u8"))[100:900])
        with open(self.path("arch.json"), "w", encoding="utf-8") as file:
            json.dump({"format": "quern-arch-1",
                       "model": {"type": "char_transformer", "layers": 2, "d_model": 32, "heads": 2, "context": 32,
                                 "mlp_ratio": 4, "vocab": made["vocab"]},
                       "data": {"dtype": "u8", "elements": made["elements"]}, "batch": 8,
                       "optimizer": {"type": "adamw", "lr": 5e-3, "total_steps": STEPS}}, file)

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def run_program(self, name, *arguments, code=0):
        done = subprocess.run([program(name), *arguments], capture_output=True, text=True, timeout=120, check=False,
                              cwd=self.directory)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if code else done.stdout

    def command(self, out, *more):
        return ["--arch", "arch.json", "--data", "data.u8", "--held-out", "held-out.u8", "--steps", str(STEPS),
                "--interval", str(INTERVAL), "--seed", "3", "--out", out, *more]

    def rows(self, out):
        lines = read(self.path(out, "log.csv")).decode().splitlines()
        self.assertEqual(lines[0], "step,batch_loss,held_out_loss,held_out_accuracy")
        return [list(map(float, line.split(","))) for line in lines[1:]]

    def test_is_the_training_of_quern_train(self):
        told = self.run_program("quern-measure", *self.command("run"))
        self.run_program("quern-train", "--local", "--model", "arch.json", "--data", "data.u8", "--seed", "3", "--threads", "1",
                         "--out", "trained")
        self.assertEqual(read(self.path("run", "state.safetensors")), read(self.path("trained.job", "state.safetensors")))
        self.run_program("quern-compile", "program", "--arch", "arch.json", "--out", "program.bin")
        found = json.loads(self.run_program("quern-compile", "evaluate", "--program", "program.bin", "--arch", "arch.json",
                                            "--state", "run/state.safetensors", "--data", "held-out.u8"))
        rows = self.rows("run")
        self.assertEqual([row[0] for row in rows], [10, 20, 30, 40])
        self.assertEqual(rows[-1][2:], [found["loss"], found["accuracy"]])
        self.assertLess(rows[-1][2], rows[0][2])
        self.assertEqual([[line["step"], line["batch_loss"], line["held_out_loss"], line["held_out_accuracy"]]
                          for line in map(json.loads, told.splitlines())], rows)

    def test_a_kill_changes_nothing(self):
        self.run_program("quern-measure", *self.command("whole"))
        for number in (signal.SIGKILL, signal.SIGTERM):
            out = f"run-{number}"
            with subprocess.Popen([program("quern-measure"), *self.command(out)], cwd=self.directory,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
                child.stdout.readline()  # the first measure is on the disk
                child.send_signal(number)
                _, said = child.communicate(timeout=60)
            if number == signal.SIGTERM:
                self.assertIn(b"measure.stopped", said)
            self.run_program("quern-measure", *self.command(out))
            for name in ("log.csv", "state.safetensors"):
                self.assertEqual(read(self.path(out, name)), read(self.path("whole", name)), (number, name))

    def test_on_libtorch_it_is_the_same_to_rounding(self):
        done = subprocess.run([program("quern-measure"), *self.command("torch", "--backend", "torch")], capture_output=True,
                              text=True, timeout=120, check=False, cwd=self.directory)
        if "measure.no_torch" in done.stderr:
            self.assertEqual(done.returncode, 1)
            self.skipTest("built without libtorch")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.run_program("quern-measure", *self.command("run"))
        self.assertRegex(json.loads(read(self.path("torch", "run.json")))["arithmetic"], r"^libtorch \d")
        self.assertNotEqual(read(self.path("torch", "log.csv")), read(self.path("run", "log.csv")))
        for ours, theirs in zip(self.rows("run"), self.rows("torch"), strict=True):
            self.assertAlmostEqual(ours[2], theirs[2], delta=1e-4)
        self.assertIn("measure.other_run", self.run_program("quern-measure", *self.command("run", "--backend", "torch"), code=1))
        self.run_program("quern-measure", *self.command("mixed", "--backend", "torch-bf16"))
        self.assertRegex(json.loads(read(self.path("mixed", "run.json")))["arithmetic"], r"^libtorch \d.*, bf16 products$")
        self.assertNotEqual(read(self.path("mixed", "log.csv")), read(self.path("torch", "log.csv")))
        for ours, theirs in zip(self.rows("run"), self.rows("mixed"), strict=True):
            self.assertAlmostEqual(ours[2], theirs[2], delta=0.05)
        self.run_program("quern-measure", *self.command("auto", "--backend", "torch", "--device", "auto"))
        arithmetic = json.loads(read(self.path("auto", "run.json")))["arithmetic"]
        asked = subprocess.run([program("quern-measure"), *self.command("cuda", "--backend", "torch", "--device", "cuda")],
                               capture_output=True, text=True, timeout=120, check=False, cwd=self.directory)
        if " on cuda" in arithmetic:
            self.assertEqual(asked.returncode, 0, asked.stderr)
            return
        self.assertEqual(read(self.path("auto", "log.csv")), read(self.path("torch", "log.csv")))
        self.assertEqual(asked.returncode, 1)
        self.assertIn("torch.no_cuda", asked.stderr)
        self.assertFalse(os.path.exists(self.path("cuda")))

    def test_refuses_wrong_options(self):
        for more in (["--backend", "cuda"], ["--device", "gpu"], ["--threads", "0"], ["--steps", "-1"]):
            self.run_program("quern-measure", *self.command("run", *more), code=2)
        self.assertIn("measure.no_device", self.run_program("quern-measure", *self.command("run", "--device", "auto"), code=1))
        self.assertIn("fs.not_found", self.run_program("quern-measure", *self.command("run", "--data", "none"), code=1))
        self.assertFalse(os.path.exists(self.path("run")))


@unittest.skipUnless(shutil.which("gnuplot") and os.path.isdir("/usr/share/cmake-3.25/Help"), "needs gnuplot and cmake-data")
class Quality(unittest.TestCase):
    def setUp(self):
        self.directory = framework.temporary_directory("quern-quality-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.command = [QUALITY, "--quick", "--folder", self.directory]

    def run_script(self, *arguments, code=0):
        done = subprocess.run([*self.command, *arguments], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if code else done.stdout

    def test_trains_compares_and_draws_and_goes_on_when_it_was_killed(self):
        self.assertIn("text-f32-1       step     0 of 60\n", self.run_script("--list"))
        log = os.path.join(self.directory, "runs", "text-f32-1", "log.csv")
        with subprocess.Popen([*self.command, "--only", "^text-(f32|int8)-[12]"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            child.stdout.readline()
            child.terminate()
            _, said = child.communicate(timeout=60)
        self.assertEqual(child.returncode, STOPPED)
        self.assertIn(b"goes on", said)
        begun = read(log)
        first = self.run_script("--only", "^text-f32-1", "--jobs", "2")
        self.assertTrue(read(log).startswith(begun))
        self.assertIn("| GELU | 1 |", first)
        self.assertRegex(first, r"Not complete: text-int8-1 \(\d+ of 60 steps\)")
        said = self.run_script("--only", "^text-(f32|int8)-[12]", "--jobs", "2")
        self.assertNotIn("text-f32-1       step", said, "a run that is complete was done again")
        for line in (r"^\| GELU \| 1 \| \d\.\d{4} \|  \|  \| \d\.\d{4} \| [+-]\d\.\d\d % \|$",
                     r"^\* text, GELU: seeds differ by \d\.\d{4}", r"^\* int8, GELU: [+-]\d\.\d\d % on average of 2 seeds.*: within 1 %"):
            self.assertRegex(said, re.compile(line, re.MULTILINE))
        for name in ("text", "int8"):
            self.assertTrue(read(os.path.join(self.directory, "plots", f"quality-{name}.png")).startswith(b"\x89PNG"), name)
        self.assertEqual(read(os.path.join(self.directory, "report.md")).decode().strip(), said[said.index("**Text**"):said.rindex("\n\n")].strip())

    def test_tells_what_failed(self):
        os.makedirs(os.path.join(self.directory, "runs", "images-f32-1"))
        with open(os.path.join(self.directory, "runs", "images-f32-1", "run.json"), "w", encoding="utf-8") as file:
            file.write("of another run")
        done = subprocess.run([*self.command, "--only", "^images-f32-1"], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("images-f32-1: quern-measure: measure.other_run", done.stdout)

    def test_refuses_wrong_options(self):
        self.run_script("--only", "nothing", code=2)
        self.run_script("--jobs", "0", code=2)


if __name__ == "__main__":
    framework.main()
