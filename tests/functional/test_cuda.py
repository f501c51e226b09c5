#!/usr/bin/env python3
"""The kernels for graphics processors: contrib/cuda.sh where there is no CUDA, and what it would run on a card."""
import os
import shutil
import subprocess
import unittest

import framework

TIMEOUT_S = 300


class CudaTest(unittest.TestCase):
    def test_without_nvcc_it_is_skipped_by_name(self):
        directory = framework.temporary_directory("quern-cuda-")
        for tool in ("bash", "dirname", "env"):
            os.symlink(shutil.which(tool), os.path.join(directory, tool))
        script = os.path.join(framework.ROOT, "contrib", "cuda.sh")
        done = self.run_command([shutil.which("bash"), script], PATH=directory, CUDAToolkit_ROOT=directory,
                                QUERN_CUDA_DEFAULT=directory)
        self.assertEqual((done.returncode, done.stdout),
                         (0, "skipped: nvcc is missing\n0 passed, 0 failed, 1 skipped\n"))

    def test_a_case_that_differs_is_named_and_can_be_run_again(self):
        program = os.path.join(os.environ["QUERN_BIN"], "quern-cuda-check")
        done = self.run_command([program, "--emulated", "--cases", "300", "--scenarios", "100", "--seed", "9"])
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"array kernels: 300 of seed 9, 0 differ\n")
        self.assertTrue(done.stdout.endswith("\n2 passed, 0 failed\n"), done.stdout)
        one = self.run_command([program, "--emulated", "--scenarios", "0", "--seed", "9", "--only", "7"])
        self.assertRegex(one.stdout, r"array kernels: 1 of seed 9, 0 differ\n1 passed, 0 failed\n")

    @staticmethod
    def run_command(command, **environment):
        return subprocess.run(command, env={**os.environ, **environment}, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT_S)


if __name__ == "__main__":
    framework.main()
