"""What the functional tests share: a market of real processes in a temporary directory, and the closing line.

A test file ends with framework.main(). The programs are those of $QUERN_BIN (default: build/testing/bin, where
some can be told to misbehave).
"""
import math
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "contrib", "python"))
os.environ.setdefault("QUERN_BIN", os.path.join(ROOT, "build", "testing", "bin"))

from quern import events  # noqa: E402
from quern.devnet import Devnet  # noqa: E402
from quern.market import (FINAL_STATES, TextJob, disputes_of, licence_texts, price, spec_options, submit,  # noqa: E402,F401
                          supply_difference, wait_for_task)
from quern.processes import Ended, at_end, end_on_signals, kill_all  # noqa: E402

ACCOUNTS = {"submitter": 1000, "wallet": 100, "solver1": 20, "solver2": 20, "verifier1": 20, "verifier2": 20,
            "verifier3": 20, "whistleblower": 20}
BONDS = [("solver1", "solver", 200), ("solver2", "solver", 200), ("verifier1", "verifier", 400),
         ("verifier2", "verifier", 400), ("verifier3", "verifier", 400), ("whistleblower", "whistleblower", 100)]
CUSTODIAN_BOND = 50
# Quick blocks and short clocks; everything else as in the demo.
BLOCK = {"min_block_ms": 80, "max_idle_ms": 100}
MARKET = {"dispute_clock_s": 15, "forced_error_inverse": 0,  # but in test_forced_errors.py
          "held_percent": 0}  # but in test_held_share.py
STEPS, INTERVAL, STRIDE = 40, 10, 5
WINDOWS = {"bid_s": 6, "start_s": 30, "heartbeat_s": 30, "challenge_s": 8, "verify_s": 120}
TASK_TIMEOUT_S = 240
CHEAP = "--price=1000000000"  # less than anybody asks by default
PASS_TARGET = 0x100  # + i: of a challenge, the PASS of report i
ROLES = {"solver": 1, "verifier": 2, "whistleblower": 3, "custodian": 4}


def with_custodians(count):
    """Accounts and bonds as ever, and custodian1, custodian2, ...: for classes whose market has `custodians`."""
    names = [f"custodian{index + 1}" for index in range(count)]
    return ({**ACCOUNTS, **{name: 20 for name in names}},
            [*BONDS, *((name, "custodian", CUSTODIAN_BOND) for name in names)])


def temporary_directory(prefix):
    """A directory that is gone when this program ends, however it ends; kept with QUERN_KEEP."""
    directory = tempfile.mkdtemp(prefix=prefix)

    def remove():
        kill_all()
        shutil.rmtree(directory, ignore_errors=True)

    if not os.environ.get("QUERN_KEEP"):
        at_end(remove)
    return directory


def python_with(module):
    """A Python that has this module; Debian's packages are for its own. None, and failing in CI, where there is none."""
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        if os.path.exists(python) and subprocess.run([python, "-c", f"import {module}"], capture_output=True,
                                                     check=False).returncode == 0:
            return python
    if os.environ.get("CI"):  # contrib/install-deps.sh brings it
        raise RuntimeError(f"no Python has {module}")
    return None


class MarketTest(unittest.TestCase):
    """One network for the class; each test submits tasks of its own and (re)starts the workers it needs."""

    validators, followers, namespaces, accounts, bonds, block, market = 1, 0, False, ACCOUNTS, BONDS, BLOCK, MARKET

    @classmethod
    def setUpClass(cls):
        cls.directory = temporary_directory("quern-test-")
        cls.net = Devnet(cls.directory, cls.accounts, cls.bonds, market=cls.market, block=cls.block, validators=cls.validators,
                         followers=cls.followers, namespaces=cls.namespaces)
        cls.addClassCleanup(cls._tear_down)
        cls.net.start()
        cls.job = TextJob(os.path.join(cls.directory, "job"), cls.net.node, licence_texts()[:2], layers=1, d_model=32,
                          context=32, batch=4, total_steps=STEPS)

    @classmethod
    def _tear_down(cls):
        cls.net.stop()
        if not os.environ.get("QUERN_KEEP"):
            shutil.rmtree(cls.directory, ignore_errors=True)

    def tearDown(self):
        for worker in self.net.workers.values():
            worker.stop()
        self.net.workers.clear()

    def workers(self, node=None, **options):
        """Starts workers: solver1="--price=1", verifier1="" ...; the role follows from the name. node: at that one, not at
        each in turn."""
        for name, extra in options.items():
            self.net.worker(name, "--" + name.rstrip("0123456789"), *extra.split(), node=node)

    def verifiers(self, extra=""):
        self.workers(verifier1=extra, verifier2=extra, verifier3=extra)

    def submit(self, steps=STEPS, interval=INTERVAL, job=None, **windows):
        spec = spec_options(self.net, job or self.job, steps, interval, **{**WINDOWS, **windows})
        return submit(self.net, self.net.accounts["submitter"], spec)

    def wait(self, task, *states, timeout=TASK_TIMEOUT_S):
        return wait_for_task(self.net, task, set(states) or FINAL_STATES, timeout)

    def settled(self, number, round_number=0):
        """The task, which must end so, in that round, with all grains accounted for."""
        task = self.wait(number)
        self.assertEqual((task["stateName"], task["round"]), ("settled", round_number), task["reason"])
        self.assert_supply()
        return task

    def bond(self, name):
        """(bonded grains, times slashed) of the account's role."""
        role = ROLES[name.rstrip("0123456789")]
        address = self.net.accounts[name].address.lower()
        for entry in self.net.node.stake_roles():
            if entry["address"] == address and entry["role"] == role:
                return int(entry["bonded"], 16), entry["faults"]
        self.fail(f"{name} has no bond")

    def disputes(self, task):
        return disputes_of(self.net.node, task)

    def payments(self, task, name, reason):
        address = self.net.accounts[name].address.lower()
        return [int(p["amount"], 16) for p in task["payments"] if p["to"] == address and p["reason"] == reason]

    def slashed(self, task):
        return {(self.net.name_of(entry["address"]), entry["reason"]) for entry in task["slashes"]}

    def losses(self, task):
        """Of the task's checkpoints, in their order."""
        return [events.f32(event["loss"]) for event in events.find(self.net.node, "CheckpointPosted", task=task)]

    def assert_learned(self, task, checkpoints, job=None):
        """Its last states guess better than who guesses evenly; a batch alone may be an easy one."""
        losses = self.losses(task)
        self.assertEqual(len(losses), checkpoints)
        self.assertLess(sum(losses[-2:]) / 2, math.log((job or self.job).dataset["vocab"]), losses)

    def solver_lost(self, number):
        """The task, once it is in its second round."""
        return self.net.wait_until(lambda: (lambda t: t if t["round"] == 1 else None)(self.net.node.task_get(number)),
                                   TASK_TIMEOUT_S, "the solver to lose")

    def finished_by_honest_verifiers(self, number):
        for name in ("verifier1", "verifier2", "verifier3"):
            self.net.workers.pop(name).stop()
        self.verifiers()
        self.assertEqual(self.wait(number)["stateName"], "settled")
        self.assert_supply()

    def assert_supply(self):
        self.assertEqual(supply_difference(self.net), 0, "grains were made or lost")


def main():
    """Runs the calling file's tests; the last line is "N passed, N failed, N skipped"."""
    end_on_signals()
    try:
        program = unittest.main(module="__main__", exit=False, verbosity=2, warnings="ignore")
    except Ended as ended:
        print(f"ended by {ended}", flush=True)
        sys.exit(ended.status)
    result = program.result
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    skipped = len(result.skipped)
    print(f"{max(0, result.testsRun - failed - skipped)} passed, {failed} failed, {skipped} skipped", flush=True)
    sys.exit(1 if failed else 0)
