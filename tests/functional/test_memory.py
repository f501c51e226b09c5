#!/usr/bin/env python3
"""Models and programs that ask for more memory than there is: a named error at once, from quern-compile and quern-train."""
import json
import os
import resource
import shutil
import struct
import subprocess
import unittest

import framework
from quern.devnet import program

MIB = 1 << 20


def architecture(layers, width, vocabulary):
    return {"format": "quern-arch-1",
            "model": {"type": "char_transformer", "layers": layers, "d_model": width, "heads": 16, "context": 16, "mlp_ratio": 4,
                      "vocab": vocabulary},
            "data": {"dtype": "i32", "elements": 1000}, "batch": 2, "optimizer": {"type": "adamw", "lr": 0.01, "total_steps": 4}}


class Memory(unittest.TestCase):
    def setUp(self):
        self.directory = framework.temporary_directory("quern-memory-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.put("tokens", struct.pack("<1000i", *range(1000)))

    def put(self, name, content):
        with open(os.path.join(self.directory, name), "wb") as file:
            file.write(content)

    def run_program(self, name, *arguments, memory=None):
        limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory))) if memory else None
        return subprocess.run([program(name), *arguments], capture_output=True, text=True, timeout=60, check=False,
                              cwd=self.directory, preexec_fn=limit)

    def refused(self, error, name, *arguments, memory=None):
        done = self.run_program(name, *arguments, memory=memory)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(error, done.stderr)

    def test_a_model_that_no_machine_holds(self):
        self.put("huge.json", json.dumps(architecture(64, 8192, 131072)).encode())
        self.refused("memory.too_little", "quern-compile", "init", "--arch", "huge.json", "--out", "state")
        self.refused("memory.too_little", "quern-compile", "init", "--arch", "huge.json", "--bare", "--out", "state")
        self.refused("memory.too_little", "quern-train", "--local", "--model", "huge.json", "--data", "tokens", "--out", "model")
        self.assertEqual(sorted(os.listdir(self.directory)), ["huge.json", "model.job", "tokens"])

    def test_a_state_file_that_stands_for_zeros(self):
        text = b'{"__metadata__":{"format":"quern-state-1"}}'
        text += b" " * (-len(text) % 8)
        self.put("zeros", struct.pack("<Q", len(text)) + text)
        beacon = "0x" + "11" * 32
        for layers, width, error, memory in ((64, 8192, "memory.too_little", None),
                                             (2, 2048, "memory.exhausted", 1024 * MIB)):
            self.put("arch.json", json.dumps(architecture(layers, width, 1000)).encode())
            made = self.run_program("quern-compile", "program", "--arch", "arch.json", "--out", "program.bin")
            self.assertEqual(made.returncode, 0, made.stderr)
            given = ("--program", "program.bin", "--state", "zeros")
            self.refused(error, "quern-compile", "export", *given, "--out", "model", memory=memory)
            self.refused(error, "quern-compile", "verify", *given, "--data", "tokens", "--beacon", beacon, "--last", "1",
                         "--root", beacon, memory=memory)
            self.assertFalse(os.path.exists(os.path.join(self.directory, "model")))


if __name__ == "__main__":
    framework.main()
