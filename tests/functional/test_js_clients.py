#!/usr/bin/env python3
"""Unchanged viem and ethers from npm against a node (tests/functional/js). Skipped where npm cannot fetch them, unless CI
is set."""
import json
import os
import re
import shutil
import subprocess
import sys

import framework
from quern.devnet import Devnet, run
from quern.processes import end_on_signals, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "js")
TESTS = ["clients.test.mjs", "subscriptions.test.mjs"]
NPM_TIMEOUT_S = 600
TEST_TIMEOUT_S = 300


def finish(passed, failed, skipped=0):
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


def without_npm(reason):
    print("skipped: " + reason)
    if os.environ.get("CI"):
        finish(0, 1)
    finish(0, 0, 1)


def install():
    """The libraries exactly as the lock file names them; a finished installation is used again."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        without_npm("npm or node is missing")
    lock = os.path.join(SOURCE, "package-lock.json")
    stamp = os.path.join(SOURCE, "node_modules", ".quern-installed")
    with open(lock, "rb") as file:
        wanted = file.read()
    if os.path.exists(stamp):
        with open(stamp, "rb") as file:
            if file.read() == wanted:
                return
    try:
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=SOURCE, timeout=NPM_TIMEOUT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except subprocess.TimeoutExpired:
        without_npm(f"npm ci took more than {NPM_TIMEOUT_S} s")
    if done.returncode != 0:
        without_npm("npm ci failed:\n" + done.stdout[-2000:])
    with open(stamp, "wb") as file:
        file.write(wanted)


def private_key(network, name):
    text = run("quern-wallet", "address", "--seed", f"{network.seed}/{name}", "--show-private-key")
    return json.loads(text)["privateKey"]


def main():
    end_on_signals()
    install()
    directory = framework.temporary_directory("quern-js-")
    try:
        with Devnet(directory, {"viem": 1000, "ethers": 1000, "viem_ws": 1000, "ethers_ws": 1000, "bonder": 100}, []) as network:
            network.start()
            bond = run("quern-wallet", "bond", "--seed", f"{network.seed}/bonder", "--nonce", 0, "--role", "solver",
                       "--amount", "1qrn").strip()
            native = network.node.eth_sendRawTransaction(bond)
            wait_until(lambda: network.node.eth_getTransactionReceipt(native), 30, "the native bond's receipt",
                       alive=[network.daemon])
            environment = {
                **os.environ, "QUERN_RPC_URL": network.node.url, "QUERN_WS_URL": network.daemons[0].ws_url,
                "QUERN_NATIVE_TX": native,
                "QUERN_KEY_VIEM_WS": private_key(network, "viem_ws"),
                "QUERN_KEY_ETHERS_WS": private_key(network, "ethers_ws"),
                "QUERN_KEY_VIEM": private_key(network, "viem"), "QUERN_KEY_ETHERS": private_key(network, "ethers"),
                "QUERN_KEY_EMPTY": private_key(network, "nobody"),
            }
            runs = [subprocess.run(["node", "--test-reporter=tap", name], cwd=SOURCE, env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TEST_TIMEOUT_S)
                    for name in TESTS]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    passed, failed = 0, 0
    for name, done in zip(TESTS, runs):
        def count(word, text=done.stdout):
            return sum(int(n) for n in re.findall(rf"^# {word} (\d+)$", text, re.M))
        good, bad = count("pass"), count("fail") + count("cancelled")
        if done.returncode != 0 or bad or not good:
            print(f"--- {name}\n{done.stdout}")
            bad = max(bad, 1)
        passed, failed = passed + good, failed + bad
    finish(passed, failed)


if __name__ == "__main__":
    main()
