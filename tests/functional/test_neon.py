#!/usr/bin/env python3
"""The arithmetic on 64-bit ARM under qemu gives this machine's words: contrib/check-neon.sh."""
import os
import shutil
import subprocess
import unittest

import framework

TIMEOUT_S = 900
TOOLS = ("aarch64-linux-gnu-g++", "qemu-aarch64")


def missing():
    return ", ".join(tool for tool in TOOLS if shutil.which(tool) is None)


class NeonTest(unittest.TestCase):
    # In CI a missing tool is a failure, which the script says.
    @unittest.skipIf(missing() and not os.environ.get("CI"), f"missing: {missing()}")
    def test_all_backends_agree_and_give_the_words_of_this_machine(self):
        done = self.check("--cases", "100000")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^neon: 100000 cases of seed 1, 0 differ$")

    def test_without_the_tools_it_is_skipped_by_name_and_fails_in_ci(self):
        directory = framework.temporary_directory("quern-neon-")
        for tool in ("bash", "dirname", "env"):
            os.symlink(shutil.which(tool), os.path.join(directory, tool))
        elsewhere = self.check(PATH=directory, CI="")
        self.assertEqual((elsewhere.returncode, elsewhere.stdout),
                         (0, "skipped: aarch64-linux-gnu-g++ is missing\n0 passed, 0 failed, 1 skipped\n"))
        ci = self.check(PATH=directory, CI="true")
        self.assertEqual((ci.returncode, ci.stdout),
                         (1, "FAIL neon: aarch64-linux-gnu-g++ is missing\n0 passed, 1 failed\n"))

    @staticmethod
    def check(*arguments, **environment):
        script = os.path.join(framework.ROOT, "contrib", "check-neon.sh")
        return subprocess.run([shutil.which("bash"), script, *arguments], env={**os.environ, **environment}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S)


if __name__ == "__main__":
    framework.main()
