#!/usr/bin/env python3
"""Unchanged viem and ethers from npm against a node (tests/functional/js). Skipped where npm cannot fetch them, unless CI
is set."""
import json
import os
import re
import subprocess
import unittest

import framework
import npm
from quern.devnet import Devnet, run
from quern.processes import wait_until

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "js")
TEST_TIMEOUT_S = 300


def private_key(network, name):
    text = run("quern-wallet", "address", "--seed", f"{network.seed}/{name}", "--show-private-key")
    return json.loads(text)["privateKey"]


def what_failed(tap):
    """The subtests that failed, each with its diagnosis, and errors outside of any."""
    return "\n".join(re.findall(r"^not ok .*\n(?:  .*\n)*|^# Error.*\n", tap, re.M)) or tap


class JsClients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        npm.install(SOURCE)
        directory = framework.temporary_directory("quern-js-")
        accounts = {"viem": 1000, "ethers": 1000, "viem_ws": 1000, "ethers_ws": 1000, "bonder": 100}
        network = cls.enterClassContext(Devnet(directory, accounts, []))
        network.start()
        bond = run("quern-wallet", "bond", "--seed", f"{network.seed}/bonder", "--nonce", 0, "--role", "solver",
                   "--amount", "1qrn").strip()
        native = network.node.eth_sendRawTransaction(bond)
        wait_until(lambda: network.node.eth_getTransactionReceipt(native), 30, "the native bond's receipt",
                   alive=[network.daemon])
        cls.environment = {
            **os.environ, "QUERN_RPC_URL": network.node.url, "QUERN_WS_URL": network.daemons[0].ws_url,
            "QUERN_NATIVE_TX": native, "QUERN_KEY_EMPTY": private_key(network, "nobody"),
            **{f"QUERN_KEY_{name.upper()}": private_key(network, name)
               for name in ("viem", "ethers", "viem_ws", "ethers_ws")},
        }

    def passes(self, name):
        done = subprocess.run(["node", "--test-reporter=tap", name], cwd=SOURCE, env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TEST_TIMEOUT_S)
        counts = {word: int(n) for word, n in re.findall(r"^# (pass|fail|cancelled) (\d+)$", done.stdout, re.M)}
        if done.returncode or not counts.get("pass") or counts["fail"] or counts["cancelled"]:
            self.fail(f"{counts}, exit status {done.returncode}\n{what_failed(done.stdout)}")
        print(f"{name}: {counts['pass']} subtests", flush=True)

    def test_calls_and_transactions(self):
        self.passes("clients.test.mjs")

    def test_subscriptions(self):
        self.passes("subscriptions.test.mjs")


if __name__ == "__main__":
    framework.main()
