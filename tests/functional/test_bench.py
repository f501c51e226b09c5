#!/usr/bin/env python3
"""quern-bench: its cases of one process run, and their table and JSON have rows with a reference."""
import json
import os
import shutil
import subprocess
import unittest

import framework
from quern.devnet import program


class Bench(unittest.TestCase):
    def setUp(self):
        self.directory = framework.temporary_directory("quern-bench-")
        self.addCleanup(shutil.rmtree, self.directory)

    def run_bench(self, *arguments):
        return subprocess.run([program("quern-bench"), *arguments], capture_output=True, text=True, timeout=300, check=False)

    def test_cases_run(self):
        path = os.path.join(self.directory, "rows.json")
        cases = ("elementwise", "row-sums", "training", "commitment", "tapped", "leaf", "transition", "codecs", "handshake",
                 "channel", "fragments")
        done = self.run_bench("--filter", "^(" + "|".join(cases) + ")$", "--repetitions", "1", "--min-ms", "0.001", "--json", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        self.assertGreater(len(rows), 60)
        for row in rows:
            self.assertIn(row["name"], done.stdout)
            self.assertGreater(row["value"], 0, row)
        self.assertTrue(any("training step" in row["name"] for row in rows))

    def test_a_case_that_there_is_not(self):
        done = self.run_bench("--filter", "^nothing$")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no case matches ^nothing$", done.stderr)


if __name__ == "__main__":
    framework.main()
