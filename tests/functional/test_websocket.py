#!/usr/bin/env python3
"""Subscriptions of a running node: no block left out, none told twice, however fast they come; what the market's and
finality's notifications say; a restart; workers that wait for notifications."""
import shutil
import threading
import unittest

import framework
from quern.devnet import Devnet, run
from quern.processes import wait_until
from quern.websocket import Closed, WebSocket

BLOCKS = 150


class WebSocketTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = framework.temporary_directory("quern-ws-")
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        cls.net = Devnet(cls.directory, {"alice": 1000, "solver1": 20}, [("solver1", "solver", 10)],
                         block={"min_block_ms": 10, "max_idle_ms": 20})
        cls.addClassCleanup(cls.net.stop)
        cls.net.start()

    def connect(self):
        daemon = self.net.daemons[0]
        client = WebSocket(daemon.host, daemon.ws_port)
        self.addCleanup(client.close)
        return client

    def send_bond(self, nonce):
        text = run("quern-wallet", "bond", "--seed", f"{self.net.seed}/alice", "--nonce", nonce, "--role", "verifier",
                   "--amount", "1qrn").strip()
        return self.net.node.eth_sendRawTransaction(text)

    def test_every_block_exactly_once_and_in_order(self):
        results = {}

        def follow(name):
            with WebSocket(self.net.daemons[0].host, self.net.daemons[0].ws_port) as client:
                heads, finality = client.call("eth_subscribe", "newHeads"), client.call("quern_subscribe", "finality")
                seen = {heads: [], finality: []}
                while min(map(len, seen.values())) < BLOCKS:
                    subscription, result = client.notification()
                    seen[subscription].append(result)
                results[name] = (seen[heads], seen[finality])

        threads = [threading.Thread(target=follow, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertEqual(len(results), 4)
        for heads, finality in results.values():
            numbers = [int(head["number"], 16) for head in heads]
            self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
            for parent, child in zip(heads, heads[1:]):
                self.assertEqual(child["parentHash"], parent["hash"])
            told = [report["number"] for report in finality]
            self.assertEqual(told, list(range(told[0], told[0] + len(told))))
            self.assertEqual({report["signers"] for report in finality}, {1})
            self.assertTrue(all(report["finalityMs"] is not None for report in finality))
        head = results[0][0][0]
        block = self.net.node.eth_getBlockByNumber(head["number"], False)
        self.assertEqual({key: block[key] for key in head}, head)

    def test_logs_and_pending_transactions(self):
        client = self.connect()
        logs = client.call("eth_subscribe", "logs", {"address": "0x0000000000000000000000000000000000005102"})
        pending = client.call("eth_subscribe", "newPendingTransactions", True)
        sent = self.send_bond(0)
        seen = {}
        while set(seen) != {logs, pending}:
            subscription, result = client.notification()
            seen.setdefault(subscription, result)
        self.assertEqual(seen[pending]["hash"], sent)
        self.assertEqual(seen[logs]["transactionHash"], sent)
        self.assertTrue(client.call("eth_unsubscribe", logs))
        with self.assertRaisesRegex(RuntimeError, "subscription not found"):
            client.call("eth_unsubscribe", logs)
        with self.assertRaisesRegex(RuntimeError, "needs the node's cookie"):
            client.call("admin_stop")

    def test_workers_wait_for_notifications(self):
        self.net.worker("solver1", "--solver")
        worker = self.net.workers["solver1"]

        def text():
            with open(worker.log, encoding="utf-8", errors="replace") as file:
                return file.read()

        try:
            wait_until(lambda: "notifications from" in text(), 30, "the worker's subscription")
        finally:
            worker.stop()
            self.net.workers.clear()

    def test_zz_a_stop_is_told_and_a_restart_serves_again(self):
        client = self.connect()
        client.call("eth_subscribe", "newHeads")
        last = int(client.notification()[1]["number"], 16)
        self.net.stop()
        with self.assertRaises(Closed) as closed:
            while True:
                last = int(client.notification()[1]["number"], 16)
        self.assertEqual(closed.exception.code, 1001)
        self.net.start()
        again = self.connect()
        again.call("eth_subscribe", "newHeads")
        self.assertGreater(int(again.notification()[1]["number"], 16), last)


if __name__ == "__main__":
    framework.main()
