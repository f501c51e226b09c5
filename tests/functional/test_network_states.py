#!/usr/bin/env python3
"""Older states on real nodes: the newest 128 are answered, an archive answers all, -revert goes back and loads again."""
import shutil
import unittest

import framework
import network
from quern.processes import wait_until
from quern.rpc import RpcError

KEPT = 128  # states that every node keeps
PATIENCE_S = 90


class States(network.NetworkTest):
    validators = 1
    block = {"min_block_ms": 20, "max_idle_ms": 60}

    def pay(self, node):
        """Sends one grain more to BOB; the number of the block that has it."""
        nonce = node.number("eth_getTransactionCount", self.net.accounts["alice"].address, "pending")
        transaction = node.eth_sendRawTransaction(network.sign_transfer(self.net, "alice", nonce))
        receipt = wait_until(lambda: node.eth_getTransactionReceipt(transaction), 20, "a payment")
        return int(receipt["blockNumber"], 16)

    def bobs(self, node, block):
        return node.number("eth_getBalance", network.BOB, hex(block))

    def start(self, *options):
        node = self.net.add_node()
        shutil.rmtree(node.datadir, ignore_errors=True)  # another test's node had this number
        self.plain_arguments = list(node.process.arguments)
        node.process.arguments += options
        self.addCleanup(self.net.remove_node, node)
        self.addCleanup(node.process.kill)
        self.catch_up(node, self.head())
        return node

    def ends(self, node, *options):
        """Starts it with these options, with which it must refuse; what it said."""
        node.process.arguments = [*self.plain_arguments, *options]
        node.process.start()
        self.assertEqual(node.process.wait(30), 1)
        with open(node.process.log, errors="replace") as log:
            return log.read()[-2000:]

    def test_an_archive_answers_for_what_others_have_forgotten(self):
        validator = self.net.nodes[0]
        archive = self.start("-archive")
        before = self.bobs(validator, validator.height())
        paid = self.pay(validator)
        self.wait_blocks(KEPT + 10, timeout=PATIENCE_S)
        with self.assertRaises(RpcError) as refused:
            self.bobs(validator, paid)
        self.assertIn("historical state", refused.exception.message)
        self.assertEqual(self.bobs(archive.client, paid), before + 1)
        self.assertEqual(self.bobs(archive.client, paid - 1), before)
        proof = archive.client.eth_getProof(network.BOB, [], hex(paid))
        self.assertEqual(int(proof["balance"], 16), before + 1)
        # It stays an archive without the option, after a kill, too.
        archive.process.kill()
        archive.process.arguments = self.plain_arguments
        self.catch_up(archive, self.head())
        self.assertEqual(self.bobs(archive.client, paid - 1), before)
        self.assert_agreement()

    def test_what_began_without_archive_does_not_become_one(self):
        node = self.start()
        node.process.kill()
        self.assertIn("node.not_archive", self.ends(node, "-archive"))

    def test_a_node_goes_back_and_loads_the_later_blocks_again(self):
        node = self.start()
        self.pay(self.net.nodes[0])
        self.wait_blocks(20, timeout=PATIENCE_S)
        node.process.stop()
        head = self.head()
        target = head - 15
        self.assertIn("node.cannot_revert", self.ends(node, f"-revert={head + 1000}"))
        node.process.arguments = [*self.plain_arguments, f"-revert={target}"]
        self.catch_up(node, self.head())
        with open(node.process.log, errors="replace") as log:
            self.assertIn(f"head={target} ", log.read())
        self.record(node, 1)  # each block is the one that was final
        node.process.stop()
        node.process.arguments = self.plain_arguments
        self.catch_up(node, self.head())
        self.assertEqual(self.bobs(node.client, target), self.bobs(self.net.nodes[0], target))
        self.assert_agreement()

    def test_a_validator_does_not_go_back(self):
        validator = self.net.daemons[0]
        validator.process.stop()
        arguments = validator.process.arguments
        try:
            self.plain_arguments = arguments
            self.assertIn("node.cannot_revert", self.ends(validator, "-revert=1"))
        finally:
            validator.process.arguments = arguments


if __name__ == "__main__":
    framework.main()
