#!/usr/bin/env python3
"""The corpus of attacks: two that take little time, and the table itself. All of it: contrib/attacks.sh."""
import json
import os
import subprocess
import sys
import unittest

import framework

RUN = os.path.join(framework.ROOT, "tests", "attacks", "run.py")
QUICK = ("lazy-pass", "stale-momentum")  # a verifier and a solver


class Corpus(unittest.TestCase):
    def run_attacks(self, *arguments):
        done = subprocess.run([sys.executable, RUN, *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_two_of_them_are_caught_and_lose_money(self):
        file = os.path.join(framework.temporary_directory("quern-attacks-"), "rows.json")
        status, said, errors = self.run_attacks("--json", file, *QUICK)
        self.assertEqual(status, 0, said + errors)
        self.assertIn("2 passed, 0 failed", said)
        with open(file) as read:
            rows = {row["name"]: row for row in json.load(read)}
        self.assertEqual(set(rows), set(QUICK))
        for row in rows.values():
            self.assertLess(row["gain"], -10**18, row)
            self.assertLess(row["lost"], 10**16, row)
        self.assertIn("wrong_probe", rows["lazy-pass"]["caught"])
        self.assertIn("the chain's leaf", rows["stale-momentum"]["caught"])

    def test_what_is_not_caught_fails(self):
        status, said, _ = self.run_attacks("honest-work")  # in the corpus for this alone
        self.assertEqual(status, 1)
        self.assertIn("honest-work          FAILED  Missed: it gained", said)
        self.assertIn("0 passed, 1 failed", said)

    def test_unknown_names_are_refused(self):
        status, _, errors = self.run_attacks("steal")
        self.assertEqual(status, 2)
        self.assertIn("no attack steal", errors)


if __name__ == "__main__":
    framework.main()
