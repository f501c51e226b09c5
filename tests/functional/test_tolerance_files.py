#!/usr/bin/env python3
"""The files of a tolerance task: what no solver would take is refused before anything is signed."""
import json
import os
import re
import shutil
import struct
import subprocess
import unittest

import framework
from quern.devnet import program
from quern.market import TextJob
from test_cli_wallet import command

SEGMENT, SEGMENTS = 3, 6
NAN = float("nan")
WIDE = [1e-2, 1e-2, 1e-2, 1e-2, 0.0, 0.0, 1e30]


class ToleranceFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = framework.temporary_directory("quern-tolerance-files-")
        cls.limits = cls.file("wide.f32", WIDE)
        cls.job = TextJob(os.path.join(cls.directory, "job"), None, framework.licence_texts()[:2], layers=1, d_model=32,
                          context=32, batch=4, total_steps=40, tolerance=(SEGMENT, SEGMENTS, cls.limits))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.directory)

    @classmethod
    def file(cls, name, numbers):
        path = os.path.join(cls.directory, name)
        with open(path, "wb") as out:
            out.write(struct.pack(f"<{len(numbers)}f", *numbers))
        return path

    def price(self, segments=SEGMENTS, plan=None, programs=None, init=None, limits=None, data=None, stride=SEGMENT + 1,
              tolerance=True, more=()):
        """What quern-wallet says of the task, with other files or options."""
        options = ["--plan", plan or json.dumps([[segments, [[SEGMENT, [0]], 1]]]), "--init", init or self.job.init,
                   "--interval", SEGMENT + 1, "--stride", stride, "--price-cap", 1000,
                   *(["--tolerance"] if tolerance else []), *more]
        for file in programs or self.job.programs:
            options += ["--program", file]
        for file in data or [self.job.data[0], limits or self.limits]:
            options += ["--data", file]
        return command("quern-wallet", "price", *options)

    def assert_refused(self, done, *texts):
        self.assertEqual(done.returncode, 1, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)

    def with_slot(self, name, word):
        """The first state, where a slot of one word is another."""
        with open(self.job.init, "rb") as file:
            state = bytearray(file.read())
        length = struct.unpack_from("<Q", state)[0]
        begin = 8 + length + json.loads(state[8:8 + length])[name]["data_offsets"][0]
        state[begin:begin + 4] = struct.pack("<i", word)
        path = os.path.join(self.directory, "state.safetensors")
        with open(path, "wb") as out:
            out.write(state)
        return path

    def test_a_task_that_solvers_take_has_a_price(self):
        done = self.price()
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_task_that_no_solver_takes_has_none(self):
        refused = "tolerance.not_a_judged_task"
        self.assert_refused(self.price(stride=1), refused, "strides of 1 steps")
        self.assert_refused(self.price(segments=SEGMENTS + 1), refused, "6 rows")
        self.assert_refused(self.price(programs=self.job.programs[::-1]), refused)
        self.assert_refused(self.price(plan="[[24,[0]]]", programs=self.job.programs[:1]), refused, "1 programs")
        self.assert_refused(self.price(more=["--tranche", 12]), refused, "12 steps of a stretch")
        self.assert_refused(self.price(init=self.with_slot("judge.accepted", 0)), "tolerance.bad_first_state",
                            "judge.accepted")
        self.assert_refused(self.price(tolerance=False), "task.wrong_data_size", "--tolerance")

    def test_limits_that_are_none_have_no_price(self):
        for name, numbers in (("nan.f32", [NAN, *WIDE[1:]]), ("turned.f32", [*WIDE[:5], 2.0, 1.0])):
            path = self.file(name, numbers)
            self.assert_refused(self.price(limits=path), "tolerance.bad_limits", path)
        self.assert_refused(self.price(limits=self.file("long.f32", [*WIDE, 1.0])), "task.wrong_data_size")

    def test_programs_have_files_of_their_own(self):
        path = os.path.join(self.directory, "same.bin")
        other = os.path.join(self.directory, ".", "same.bin")
        self.assert_refused(command("quern-compile", "program", "--arch", self.job.arch, "--tolerance", SEGMENT,
                                    "--segments", SEGMENTS, "--out", path, "--judge", other), "compile.same_file")
        self.assert_refused(command("quern-compile", "program", "--arch", self.job.arch, "--out", path, "--start", path),
                            "compile.same_file")
        self.assertFalse(os.path.exists(path))

    def test_a_module_that_is_not_there_or_another_one_is_told_of(self):
        own = os.path.join(self.directory, "bin")
        os.mkdir(own)
        copy = shutil.copy(program("quern-profile"), own)
        module = os.path.join(own, "quern-torch-steps.so")
        arguments = [copy, "--arch", self.job.arch, "--data", self.job.data[0], "--tolerance", str(SEGMENT),
                     "--segments", str(SEGMENTS), "--limits", os.path.join(own, "limits.f32")]
        run = lambda: subprocess.run(arguments, capture_output=True, text=True, timeout=60)
        self.assert_refused(run(), "torch.no_module", module, "contrib/build.sh")
        with open("/proc/self/maps") as maps:
            library = next(line.split()[-1] for line in maps if "/libm.so" in line or "/libc.so" in line)
        shutil.copy(library, module)
        self.assert_refused(run(), "torch.other_build", module)
        built = os.path.join(os.path.dirname(program("quern-profile")), "quern-torch-steps.so")
        if not os.path.exists(built):
            return  # a build without libtorch
        with open(built, "rb") as file:
            changed, found = re.subn(rb"(, interface )[0-9]+\0", rb"\g<1>0\0", file.read())
        self.assertEqual(found, 1)
        with open(module, "wb") as file:
            file.write(changed)
        self.assert_refused(run(), "torch.other_build", ", interface 0")

    def test_a_graphics_processor_that_is_not_there_is_told_of(self):
        if not os.path.exists(os.path.join(os.path.dirname(program("quern-profile")), "quern-torch-steps.so")):
            self.skipTest("built without libtorch")
        path = os.path.join(self.directory, "cuda.f32")
        done = command("quern-profile", "--arch", self.job.arch, "--data", self.job.data[0], "--tolerance", SEGMENT,
                       "--segments", SEGMENTS, "--limits", path, "--device", "cuda")
        if done.returncode == 0:
            self.assertEqual(json.loads(done.stdout.splitlines()[0])["profiler"], "f32, cuda")
            return
        self.assert_refused(done, "torch.no_cuda")
        self.assertFalse(os.path.exists(path))
        key = os.path.join(self.directory, "key")
        done = command("quern-worker", "--datadir", os.path.join(self.directory, "worker"), "--key", key, "--solver",
                       "--torch-device", "cuda")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("torch.no_cuda", done.stderr)
        done = command("quern-worker", "--datadir", os.path.join(self.directory, "worker"), "--key", key, "--solver",
                       "--torch-device", "cuda", "--no-torch")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertNotIn("torch.no_cuda", done.stderr)

    def test_terms_are_looked_at_before_anything_is_profiled(self):
        def profile(*options, limits="limits.f32"):
            return command("quern-profile", "--arch", self.job.arch, "--data", self.job.data[0], "--tolerance", SEGMENT,
                           "--segments", SEGMENTS, "--limits", os.path.join(self.directory, limits), *options)

        for option, value in (("--cap", "nan"), ("--cap", "-1"), ("--cap", "x"), ("--range", "inf"), ("--allow-l2", "1e39")):
            done = profile(option, value)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"{value} is no finite number from 0 on", done.stderr)
        for done, *texts in ((profile("--cap", 0), "tolerance.bad_terms", "cap is 0"),
                             (profile("--range", 0.5), "tolerance.bad_terms", "range is 0.5"),
                             (profile(limits="none/limits.f32"), "tolerance.no_limits_file"),
                             (profile(limits="."), "tolerance.no_limits_file")):
            self.assert_refused(done, *texts)
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    framework.main()
