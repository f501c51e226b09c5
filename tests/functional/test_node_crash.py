#!/usr/bin/env python3
"""A node that is killed, starved of disk, or started wrongly: what was reported stays, and the reason is said."""
import http.client
import os
import random
import shutil
import socket
import subprocess
import threading
import time
import unittest

import framework
from quern.devnet import Devnet, program, run
from quern.processes import Process, wait_until
from quern.rpc import RpcError

KILLS = int(os.environ.get("QUERN_CRASH_KILLS", "10"))
LOADED_KILLS = int(os.environ.get("QUERN_CRASH_LOADED_KILLS", "4"))
START_SECONDS = float(os.environ.get("QUERN_CRASH_START_SECONDS", "5"))
UNREACHABLE = (OSError, ValueError, http.client.HTTPException)
BOB = "0x00000000000000000000000000000000000000b0"


class NodeTest(unittest.TestCase):
    block = {"min_block_ms": 50, "max_idle_ms": 200}

    def setUp(self):
        self.directory = framework.temporary_directory("quern-crash-")
        self.network = Devnet(self.directory, {"alice": 1000}, [], block=self.block)
        self.node = self.network.node

    def tearDown(self):
        self.network.stop()
        shutil.rmtree(self.directory)

    def transfer(self, nonce, amount=1):
        return run("quern-wallet", "transfer", "--seed", f"{self.network.seed}/alice", "--nonce", nonce, "--to", BOB,
                   "--amount", amount).strip()

    def receipt(self, transaction):
        return self.node.eth_getTransactionReceipt(transaction)


class CrashTest(NodeTest):
    def test_killed_again_and_again_it_keeps_what_it_reported(self):
        raw = [self.transfer(nonce) for nonce in range(25 * KILLS)]
        seed = int(os.environ.get("QUERN_CRASH_SEED", time.time_ns() % 1_000_000))
        print(f"seed {seed} (QUERN_CRASH_SEED)")
        chance = random.Random(seed)
        self.network.start()
        accepted, receipts, head = [], {}, 0
        for round_number in range(KILLS):
            killer = threading.Timer(chance.uniform(0.05, 1.2), self.network.daemon.kill)
            killer.start()
            while killer.is_alive() or self.network.daemon.running():
                try:
                    if len(accepted) < 25 * (round_number + 1):
                        accepted.append(self.node.eth_sendRawTransaction(raw[len(accepted)]))
                    for transaction in accepted[-10:]:
                        if transaction not in receipts and (found := self.receipt(transaction)):
                            receipts[transaction] = found
                    head = max(head, self.node.height())
                except RpcError as error:
                    # The answer to the first sending was lost with the process.
                    self.assertIn(error.message.split(":")[0], ("already known", "nonce too low"))
                    accepted.append(run("quern-wallet", "transfer", "--json", "--seed", f"{self.network.seed}/alice",
                                        "--nonce", len(accepted), "--to", BOB, "--amount", 1).split('"hash"')[1]
                                    .split('"')[1])
                except UNREACHABLE:
                    time.sleep(0.01)
            killer.join()
            self.network.start()
            self.assertGreaterEqual(self.node.height(), head)
            for transaction, before in receipts.items():
                self.assertEqual(self.receipt(transaction), before)
        self.assertGreater(len(accepted), KILLS)
        wait_until(lambda: self.receipt(accepted[-1]), 30, "the last transaction", alive=[self.network.daemon])
        for transaction in accepted:  # waiting ones too: killing a process loses no written page
            self.assertEqual(self.receipt(transaction)["status"], "0x1")
        self.assertEqual(self.node.number("eth_getBalance", BOB, "latest"), len(accepted))
        print(f"{KILLS} kills, {len(accepted)} transactions, {len(receipts)} receipts seen before a kill, "
              f"head {self.node.height()}")

    def test_stops_cleanly_on_sigterm_and_goes_on(self):
        self.network.start()
        self.network.wait_for_blocks(2)
        self.assertEqual(self.network.daemon.stop(), 0)
        self.assertFalse(os.path.exists(os.path.join(self.directory, "node0", ".cookie")))
        self.network.start()
        self.network.wait_for_blocks(2)


class Sender:
    """Transfers of one account, signed ahead, in order; what the node lost or has not room for yet goes again."""

    BATCH = 100

    def __init__(self, network, name):
        self.name, self.seed = name, f"{network.seed}/{name}"
        self.address = network.account(name).address
        self.raw, self.next = [], 0

    def sign(self, count):
        """The next transfers, for self.raw."""
        return run("quern-wallet", "transfer", "--seed", self.seed, "--nonce", len(self.raw), "--to", BOB,
                   "--amount", 1, "--count", count).split()

    def send(self, node):
        """False when there is nothing to do."""
        batch = self.raw[self.next:self.next + self.BATCH]
        if not batch:
            return False
        answers = node.post([{"jsonrpc": "2.0", "id": index, "method": "eth_sendRawTransaction", "params": [raw]}
                             for index, raw in enumerate(batch)])
        for answer in sorted(answers, key=lambda answer: answer["id"]):
            message = answer.get("error", {}).get("message", "")
            if message and message.split(":")[0] not in ("already known", "nonce too low"):
                return False  # too far ahead, or no room: later
            self.next += 1
        return True


class LoadedCrashTest(NodeTest):
    """Killed while as many transfers come as it takes."""
    SENDERS, EACH = 12, 3000  # transfers of each for one kill: more than it takes in the time
    block = {"min_block_ms": 20, "max_idle_ms": 200}

    def setUp(self):
        self.names = [f"sender{index}" for index in range(self.SENDERS)]
        self.directory = framework.temporary_directory("quern-crash-")
        self.network = Devnet(self.directory, dict.fromkeys(self.names, 1000), [], block=self.block)
        self.node = self.network.node

    def load(self, senders, stop):
        while not stop.is_set():
            try:
                if not any([sender.send(self.node) for sender in senders]):
                    time.sleep(0.02)
            except (*UNREACHABLE, TypeError, KeyError):
                time.sleep(0.01)

    def check_state(self, number):
        """After block `number` every transfer that left a sender has come to Bob, and the state proves it."""
        block = hex(number)
        sent = sum(self.node.number("eth_getTransactionCount", self.network.account(name).address, block)
                   for name in self.names)
        proof = self.node.eth_getProof(BOB, [], block)  # checked against the block's state root by the node
        self.assertEqual(int(proof["balance"], 16), sent)
        self.assertEqual(self.node.number("eth_getBalance", BOB, block), sent)
        return sent

    def start_again(self):
        """Seconds until it answers, and the line that says what it began with."""
        began = time.monotonic()
        self.network.start()
        seconds = time.monotonic() - began
        said = [line for line in self.network.daemon.log_tail(2000).splitlines() if "signatures_recovered=" in line][-1]
        return seconds, dict(word.split("=", 1) for word in said.split() if "=" in word)

    def test_killed_under_full_load_it_loses_no_final_block_and_starts_at_once(self):
        seed = int(os.environ.get("QUERN_CRASH_SEED", time.time_ns() % 1_000_000))
        print(f"seed {seed} (QUERN_CRASH_SEED)")
        chance = random.Random(seed)
        senders = [Sender(self.network, name) for name in self.names]
        self.network.start()
        stop = threading.Event()
        loaders = [threading.Thread(target=self.load, args=(senders[index::2], stop)) for index in range(2)]
        for loader in loaders:
            loader.start()
        slowest, most_waiting, largest, loaded = 0, 0, 0, 0
        try:
            for _ in range(LOADED_KILLS):
                signed = [sender.sign(self.EACH) for sender in senders]
                for sender, more in zip(senders, signed):
                    sender.raw += more
                end = time.monotonic() + chance.uniform(0.2, 1.5)
                final = {}
                while time.monotonic() < end:
                    try:
                        newest = self.node.eth_getBlockByNumber("latest", False)
                        final[int(newest["number"], 16)] = newest["hash"]
                        largest = max(largest, len(newest["transactions"]))
                    except UNREACHABLE:
                        pass
                    time.sleep(0.01)
                is_loaded = any(sender.next < len(sender.raw) for sender in senders)
                self.network.daemon.kill()
                seconds, began_with = self.start_again()
                slowest = max(slowest, seconds)
                most_waiting = max(most_waiting, int(began_with["waiting"]))
                loaded += is_loaded or int(began_with["waiting"]) > 0
                self.assertLessEqual(seconds, START_SECONDS)
                # Its own blocks' and waiting transactions' senders are known from the disk.
                self.assertEqual(began_with["signatures_recovered"], "0")
                head = self.node.height()
                self.assertGreaterEqual(head, max(final))
                for number, block_hash in final.items():
                    self.assertEqual(self.node.eth_getBlockByNumber(hex(number), False)["hash"], block_hash)
                self.check_state(head)
                # Blocks go on being made meanwhile: of the 128 kept states, one that stays for a while.
                self.check_state(max(0, self.node.height() - chance.randrange(64)))
            total = self.SENDERS * self.EACH * LOADED_KILLS
            wait_until(lambda: all(sender.next == len(sender.raw) for sender in senders) and
                       self.node.number("eth_getBalance", BOB, "latest") == total, 120, "all transfers",
                       alive=[self.network.daemon])
        finally:
            stop.set()
            for loader in loaders:
                loader.join()
        self.assertEqual(self.check_state(self.node.height()), total)
        self.assertGreater(loaded, 0)
        print(f"{LOADED_KILLS} kills, {loaded} of them under load, {total} transfers, blocks of up to {largest}, up to {most_waiting} waiting at a "
              f"start, slowest start {slowest:.2f} s, head {self.node.height()}")


class FullDiskTest(NodeTest):
    block = {"min_block_ms": 10, "max_idle_ms": 20}

    def test_full_disk_stops_the_node_with_a_reason_and_loses_nothing(self):
        daemon = self.network.daemon
        full = daemon.arguments
        # No file may pass 256 KiB: the database's log fills up as a disk does.
        daemon.arguments = ["bash", "-c", 'ulimit -f 256; exec "$@"', "quernd", *full]
        self.network.start()
        transaction = self.node.eth_sendRawTransaction(self.transfer(0))
        before = wait_until(lambda: self.receipt(transaction), 20, "a receipt")
        head = 0
        while daemon.running():
            try:
                head = max(head, self.node.height())
            except UNREACHABLE:
                break
            time.sleep(0.02)
        self.assertEqual(daemon.child.wait(60), 1)
        self.assertIn("stopping: ", daemon.log_tail(40))
        daemon.arguments = full
        self.network.start()
        self.assertGreaterEqual(self.node.height(), head)
        self.assertEqual(self.receipt(transaction), before)
        self.network.wait_for_blocks(3)


class StartTest(NodeTest):
    def quernd(self, *options):
        """Runs quernd with other options; it must end by itself. (exit status, output)"""
        done = subprocess.run([program("quernd"), *options], capture_output=True, text=True, timeout=30, check=False)
        return done.returncode, done.stdout + done.stderr

    def options(self, **changes):
        values = {"datadir": os.path.join(self.directory, "node0"), "genesis": self.network.genesis,
                  "validatorkey": self.network.accounts["validator0"].keystore,
                  "validatorpassword": self.network.password_file, "rpcport": self.network.port, **changes}
        return [f"-{name}={value}" for name, value in values.items() if value is not None]

    def assert_refuses(self, status, text, *options):
        code, output = self.quernd(*options)
        self.assertEqual(code, status, output)
        self.assertIn(text, output)

    def test_each_wrong_start_says_why(self):
        self.assert_refuses(1, "-genesis=FILE", *self.options(genesis=None))
        self.network.start()
        self.network.wait_for_blocks(1)
        self.assert_refuses(1, "in use by another quernd", *self.options())
        self.network.stop()

        other = os.path.join(self.directory, "other.json")
        run("quern-genesis", "make", "--template", self.network.genesis, "--out", other, "--timestamp", 5)
        self.assert_refuses(1, "node.wrong_genesis", *self.options(genesis=other))
        self.assert_refuses(1, "node.wrong_network", *self.options(chain="mainnet"))
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.assert_refuses(1, "in use", *self.options(rpcport=taken.getsockname()[1]))
        self.assert_refuses(2, "nosuchoption", *self.options(nosuchoption=1))

        key = os.path.join(self.directory, "stranger.hex")
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o644), "w") as file:
            file.write("11" * 32)
        self.assert_refuses(1, "key_file.permissions", *self.options(validatorkey=key))
        os.chmod(key, 0o600)

    def test_does_not_sign_without_its_journal(self):
        self.network.start()
        self.network.wait_for_blocks(2)
        self.network.stop()
        os.remove(os.path.join(self.directory, "node0", "consensus", "sdbft.journal"))
        self.network.start()
        height = self.network.node.height()
        status = self.network.node.sdbft_status()
        self.assertFalse(status["signs"])
        self.assertEqual(status["refusesBecause"], "sdbft.no_journal")
        time.sleep(3)  # three times the pause after which an idle validator makes a block
        self.assertEqual(self.network.node.height(), height)
        self.network.stop()
        # The refusal made an empty journal: it must not pass for the lost one.
        self.network.start()
        self.assertFalse(self.network.node.sdbft_status()["signs"])
        self.network.stop()
        self.network.daemon.arguments.append("-acceptmissingjournal")
        self.network.start()
        self.network.wait_for_blocks(2)

    def test_a_validator_key_without_stake_is_warned_about(self):
        stranger = os.path.join(self.directory, "stranger.json")
        run("quern-wallet", "new", "--keystore", stranger, "--password-file", self.network.password_file, "--light")
        process = self.network.daemon
        process.arguments = [f"-validatorkey={stranger}" if argument.startswith("-validatorkey") else argument
                             for argument in process.arguments]
        self.network.start()
        self.assertIn("is not in the committee of epoch 0: this node follows", process.log_tail(200))
        self.assertFalse(self.node.sdbft_status()["member"])


if __name__ == "__main__":
    framework.main()
