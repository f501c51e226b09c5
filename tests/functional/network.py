"""What the tests of whole networks share: agreement between nodes, catching up, and payments that go on meanwhile."""
import http.client
import os
import shutil
import threading
import time
import unittest

import framework
from quern.devnet import Devnet, run
from quern.processes import TIMEOUT_FACTOR, wait_until
from quern.rpc import RpcError

UNREACHABLE = (OSError, ValueError, http.client.HTTPException)
BOB = "0x00000000000000000000000000000000000000b0"
BATCH = 200
CATCH_UP_S = 5 * TIMEOUT_FACTOR  # a node that was killed is back at the head within this
BLOCK = {"min_block_ms": 100, "max_idle_ms": 300, "epoch_length": 10}


def sign_transfer(net, account, nonce, to=BOB, amount=1):
    """A signed transfer, as eth_sendRawTransaction wants it."""
    return run("quern-wallet", "transfer", "--seed", f"{net.seed}/{account}", "--nonce", nonce, "--to", to, "--amount",
               amount).split()[-1]


class NetworkTest(unittest.TestCase):
    """One network for the class, all of whose nodes run before and after each test. What any node ever called final is
    remembered by height and must stay what it was, on every node."""

    validators, followers, stakes, namespaces = 4, 0, None, False
    accounts, bonds, block, market, staking = {"alice": 1000}, [], {}, {}, {}

    @classmethod
    def setUpClass(cls):
        cls.directory = framework.temporary_directory("quern-network-")
        cls.net = Devnet(cls.directory, cls.accounts, cls.bonds, validators=cls.validators, followers=cls.followers,
                         stakes=cls.stakes, block={**BLOCK, **cls.block}, market={**framework.MARKET, **cls.market},
                         staking=cls.staking, namespaces=cls.namespaces)
        cls.addClassCleanup(cls._tear_down)
        cls.final = {}  # height -> (hash, state root)
        cls.net.start()

    @classmethod
    def _tear_down(cls):
        cls.net.stop()
        if not os.environ.get("QUERN_KEEP"):
            shutil.rmtree(cls.directory, ignore_errors=True)

    def setUp(self):
        for daemon in self.net.daemons:
            if not daemon.process.running():
                daemon.process.start()
        self.net.wait_for_node()

    # --- looking ----------------------------------------------------------------------------------------------------
    def running(self):
        return [daemon for daemon in self.net.daemons if daemon.process.running()]

    def head(self, daemons=None):
        """The greatest height that one of them answers."""
        return max((daemon.height() or 0 for daemon in daemons or self.running()), default=0)

    def record(self, daemon, first=None, last=None):
        """Compares a node's blocks with what was final before, and remembers them. Without heights: from the first that
        nobody has shown yet to its head."""
        last = daemon.client.height() if last is None else last
        first = max(self.final, default=0) + 1 if first is None else first
        for start in range(first, last + 1, BATCH):
            numbers = range(start, min(start + BATCH, last + 1))
            answers = daemon.client.post([{"jsonrpc": "2.0", "id": number, "method": "eth_getBlockByNumber",
                                           "params": [hex(number), False]} for number in numbers])
            blocks = {answer["id"]: answer["result"] for answer in answers}
            for number in numbers:
                self.assertIsNotNone(blocks[number], f"{daemon.name} has no block {number} of {last}")
                found = (blocks[number]["hash"], blocks[number]["stateRoot"])
                self.assertEqual(self.final.setdefault(number, found), found,
                                 f"{daemon.name} has another block {number} than was final")
                if number - 1 in self.final and number > 1:
                    self.assertEqual(blocks[number]["parentHash"], self.final[number - 1][0])
        return last

    def assert_agreement(self, daemons=None):
        """Every node's whole chain is the one chain; returns its height on the lowest."""
        heights = [self.record(daemon, 1) for daemon in daemons or self.running()]
        self.assertGreater(min(heights), 0)
        return min(heights)

    def wait_blocks(self, count, daemons=None, timeout=30):
        """Until each of them has `count` blocks more than the best has now."""
        daemons = daemons or self.running()
        target = self.head(daemons) + count
        for daemon in daemons:
            wait_until(lambda: (height := daemon.height()) is not None and height >= target, timeout, f"{daemon.name} at height {target}", 0.05,
                       alive=lambda: [daemon.process])

    def catch_up(self, daemon, target, timeout=30):
        """Starts the node; the seconds until it has block `target`."""
        started = time.monotonic()
        daemon.process.start()
        wait_until(lambda: (height := daemon.height()) is not None and height >= target, timeout, f"{daemon.name} at height {target}", 0.02,
                   alive=[daemon.process])
        return time.monotonic() - started

    def assert_stands_still(self, daemons, seconds):
        """No new block for so long, after what was on its way has arrived."""
        time.sleep(1)
        before = self.head(daemons)
        time.sleep(seconds)
        self.assertEqual(self.head(daemons), before)

    def assert_nobody_convicted(self):
        for entry in self.net.node.stake_validators()["validators"]:
            self.assertFalse(entry.get("tombstoned", False), entry)
        for daemon in self.net.daemons:
            with open(daemon.process.log, errors="replace") as log:
                text = log.read()
            self.assertNotIn("SIGNED TWICE", text, daemon.name)
            self.assertNotIn("SIGNS NOTHING ANY MORE", text, daemon.name)


class Payer(threading.Thread):
    """Pays BOB one grain at a time from an account, to whichever node answers, until stop(). settle() makes sure that each
    payment that a node took is in the chain once."""

    def __init__(self, net, account="alice", every=0.05):
        super().__init__(daemon=True)
        self.net, self.account, self.every = net, account, every
        self.address = net.accounts[account].address
        self.first = net.node.number("eth_getTransactionCount", self.address)
        self.before = net.node.number("eth_getBalance", BOB)
        self.sent = 0
        self.raw = []
        self.hashes = []  # by payment; None where the answer was lost with the node
        self.included = {}  # transaction -> block hash, once a node gave a receipt
        self.problems = []
        self.ending = threading.Event()

    def _raw(self, index):
        while len(self.raw) <= index:
            self.raw.append(sign_transfer(self.net, self.account, self.first + len(self.raw)))
        return self.raw[index]

    def _send(self, index):
        """True when a node has it."""
        try:
            transaction = self.net.node.eth_sendRawTransaction(self._raw(index))
            if len(self.hashes) == index:
                self.hashes.append(transaction)
            return True
        except RpcError as error:
            if error.message.split(":")[0] in ("already known", "nonce too low"):
                if len(self.hashes) == index:
                    self.hashes.append(None)
                return True
            self.problems.append(str(error))
            return False
        except UNREACHABLE:
            return False

    def run(self):
        while not self.ending.is_set():
            if self._send(self.sent):
                self.sent += 1
            self._look()
            self.ending.wait(self.every)

    def _look(self):
        for transaction in self.hashes[-5:]:
            if transaction is None or transaction in self.included:
                continue
            try:
                if receipt := self.net.node.eth_getTransactionReceipt(transaction):
                    self.included[transaction] = receipt["blockHash"]
            except (RpcError, *UNREACHABLE):
                pass

    def stop(self):
        self.ending.set()
        self.join()

    def settle(self, test, timeout=60):
        """All that were sent are in the chain, on every node, each once; receipts seen before are what they were."""
        self.stop()
        end = time.monotonic() + timeout * TIMEOUT_FACTOR
        target = self.first + self.sent
        while True:
            nonce = self.net.node.number("eth_getTransactionCount", self.address)
            if nonce >= target:
                break
            for index in range(nonce - self.first, min(self.sent, nonce - self.first + 50)):
                self._send(index)
            test.assertLess(time.monotonic(), end, f"{target - nonce} of {self.sent} payments are not in the chain")
            time.sleep(0.3)
        test.assertGreater(self.sent, 0, self.problems[:3])
        for daemon in test.running():
            wait_until(lambda: daemon.client.number("eth_getTransactionCount", self.address) >= target, 20,
                       f"the payments at {daemon.name}")
            test.assertEqual(daemon.client.number("eth_getBalance", BOB) - self.before, self.sent)
            for transaction, block in self.included.items():
                test.assertEqual(daemon.client.eth_getTransactionReceipt(transaction)["blockHash"], block)
        return self.sent
