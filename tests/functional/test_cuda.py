#!/usr/bin/env python3
"""The kernels for graphics processors: contrib/cuda.sh where there is no CUDA, what it would run on a card, and which
toolkit a build takes or leaves out (cmake/QuernCuda.cmake)."""
import os
import shutil
import subprocess
import unittest

import framework

TIMEOUT_S = 300
# An nvcc that compiles nothing, writes down how it was called, and ends as its toolkit says.
NVCC = """#!/bin/sh
toolkit=$(dirname "$(dirname "$(readlink -f "$0")")")
[ "$1" = --version ] && { echo "Cuda compilation tools, release $(cat "$toolkit/release"), V0"; exit 0; }
[ "$1" = --dryrun ] && exit 0
echo "$@" >>"$toolkit/calls"
cat "$toolkit/says" >&2 && exit 1
exit 0
"""
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(cuda CXX)
set(QUERN_WITH_CUDA ON)
find_package(Threads REQUIRED)
include({module})
message(STATUS "found: ${{QUERN_HAVE_CUDA}} ${{QUERN_NVCC}} ${{cudart}}")
"""


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

    def test_nvcc_and_its_runtime_are_of_one_toolkit(self):
        directory = framework.temporary_directory("quern-cuda-")
        with_runtime = self.toolkit(directory, "with")
        without = self.toolkit(directory, "without", runtime=None)
        self.assertIn(f"found: OFF {without}/bin/nvcc", self.configure(directory, PATH=without, default=with_runtime))
        self.assertIn(f"CUDA: left out, the toolkit of {without}/bin/nvcc has no libcudart_static.a",
                      self.configure(directory, PATH=without, default=with_runtime))
        other = self.toolkit(directory, "other", runtime="targets/x86_64-linux/lib")
        if os.uname().machine == "x86_64":
            self.assertIn(f"found: ON {other}/bin/nvcc {other}/targets/x86_64-linux/lib/libcudart_static.a",
                          self.configure(directory, PATH=other, default=with_runtime))
        # A link to it is the same toolkit; a root that is named goes first, the default last.
        linked = os.path.join(directory, "linked")
        os.makedirs(os.path.join(linked, "bin"))
        os.symlink(os.path.join(with_runtime, "bin", "nvcc"), os.path.join(linked, "bin", "nvcc"))
        self.assertIn(f"found: ON {linked}/bin/nvcc {with_runtime}/lib64/libcudart_static.a",
                      self.configure(directory, root=linked, PATH=without, default=without))
        self.assertIn(f"found: ON {with_runtime}/bin/nvcc", self.configure(directory, default=with_runtime))
        self.assertIn("CUDA: left out, no nvcc in", self.configure(directory))

    def test_an_nvcc_that_does_not_compile_is_left_out_by_name(self):
        directory = framework.temporary_directory("quern-cuda-")
        error = "host_config.h:132:2: error: #error -- unsupported GNU version! gcc versions later than 12"
        broken = self.toolkit(directory, "broken", says=f"In file included from cuda_runtime.h:\n{error}\nmore\n")
        said = self.configure(directory, default=broken)
        self.assertIn(f"CUDA: left out, {broken}/bin/nvcc (release 12.0) does not compile: {error}\n", said)
        self.assertIn(f"found: OFF {broken}/bin/nvcc", said)
        # It is asked to compile with the compiler of the build.
        with open(os.path.join(broken, "calls")) as calls:
            self.assertRegex(calls.read(), r"^-ccbin \S+ .*-std=c\+\+20 .*\.cu -o \S+\n$")
        old = self.toolkit(directory, "old", release="11.8")
        self.assertIn("is older than 12.0", self.configure(directory, default=old))

    @staticmethod
    def toolkit(directory, name, runtime="lib64", says=None, release="12.0"):
        path = os.path.realpath(os.path.join(directory, name))
        os.makedirs(os.path.join(path, "bin"))
        files = {"bin/nvcc": NVCC, "release": release}
        if says is not None:
            files["says"] = says
        if runtime is not None:
            os.makedirs(os.path.join(path, runtime))
            files[f"{runtime}/libcudart_static.a"] = ""
        for file, text in files.items():
            with open(os.path.join(path, file), "w") as out:
                out.write(text)
        os.chmod(os.path.join(path, "bin", "nvcc"), 0o755)
        return path

    def configure(self, directory, PATH=None, default=None, root=""):
        """What CMake says where these toolkits are and no others."""
        source = os.path.join(directory, "project")
        tools = os.path.join(directory, "tools")
        shutil.rmtree(source, ignore_errors=True)
        os.makedirs(source)
        if not os.path.exists(tools):
            os.makedirs(tools)
            for tool in ("sh", "dirname", "readlink", "cat", "ninja", "c++", "cmake", "as", "ld"):
                os.symlink(shutil.which(tool), os.path.join(tools, tool))
        with open(os.path.join(source, "CMakeLists.txt"), "w") as out:
            out.write(PROJECT.format(module=os.path.join(framework.ROOT, "cmake", "QuernCuda.cmake")))
        places = tools if PATH is None else f"{os.path.join(PATH, 'bin')}:{tools}"
        done = self.run_command([shutil.which("cmake"), "-G", "Ninja", "-S", source, "-B", source + "/build"],
                                PATH=places, CUDAToolkit_ROOT=root,
                                QUERN_CUDA_DEFAULT=default or os.path.join(directory, "none"))
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    @staticmethod
    def run_command(command, **environment):
        return subprocess.run(command, env={**os.environ, **environment}, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT_S)


if __name__ == "__main__":
    framework.main()
