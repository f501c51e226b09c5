#!/usr/bin/env python3
"""What operators do to a running quernd: log files, users of the RPC port, calls that take long."""
import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import unittest

import framework
from quern.devnet import Devnet, program
from quern.processes import wait_until


class OperatorsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = framework.temporary_directory("quern-operators-")
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        cls.net = Devnet(cls.directory, {"alice": 1000}, [], block={"min_block_ms": 50, "max_idle_ms": 100})
        cls.addClassCleanup(cls.net.stop)
        made = subprocess.run([os.path.join(framework.ROOT, "contrib", "rpcauth.py"), "bob", "secret"],
                              capture_output=True, text=True, check=True).stdout.strip()
        cls.net.daemon.arguments += ["-" + made, "-rpcwhitelist=bob:eth_chainId,admin_peers", "-rpcallowhost=node.test"]
        cls.net.start()

    @property
    def log(self):
        return os.path.join(self.net.daemons[0].datadir, "debug.log")

    def read(self, path):
        with open(path) as file:
            return file.read()

    def cli(self, *arguments):
        done = subprocess.run([program("quern-cli"), *self.net.nodes[0].cli, *arguments], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def post(self, method, headers):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": []})
        status, _, answer = self.net.nodes[0].request("POST", "/", body, {"Content-Type": "application/json", **headers})
        return status, json.loads(answer)

    def test_a_hang_up_opens_the_log_anew_and_stops_nothing(self):
        wait_until(lambda: "block finalized" in self.read(self.log), 20, "a line in the log")
        os.rename(self.log, self.log + ".moved")
        os.kill(self.net.daemon.pid, signal.SIGHUP)
        wait_until(lambda: os.path.exists(self.log) and "block finalized" in self.read(self.log), 20, "the new file")
        self.assertTrue(self.net.daemon.running())

    def test_categories_are_switched_while_it_runs(self):
        self.assertFalse(json.loads(self.cli("logging"))["rpc"])
        self.assertTrue(json.loads(self.cli("logging", '["rpc"]', "[]"))["rpc"])
        self.assertFalse(json.loads(self.cli("logging", "[]", '["rpc"]'))["rpc"])

    def test_users_have_passwords_and_lists(self):
        def as_user(text):
            return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}
        self.assertEqual(self.post("admin_peers", {})[1]["error"]["code"], -32000)
        self.assertEqual(self.post("admin_peers", as_user("bob:secret"))[1]["result"], [])
        self.assertEqual(self.post("eth_blockNumber", as_user("bob:secret"))[1]["error"]["code"], -32601)
        self.assertEqual(self.post("eth_chainId", as_user("bob:wrong"))[0], 401)
        self.assertEqual(self.post("eth_chainId", {"Host": "evil.test"})[0], 403)
        self.assertEqual(self.post("eth_chainId", {"Host": "node.test:80"})[0], 200)

    def test_long_calls_hold_up_neither_others_nor_the_end(self):
        address = ["0x" + f"{number:040x}" for number in range(1000)]
        call = {"jsonrpc": "2.0", "id": 1, "method": "eth_getLogs",
                "params": [{"fromBlock": "0x0", "toBlock": "latest", "address": address}]}
        body = json.dumps([call] * 90).encode()
        head = (f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()
        port = self.net.daemons[0].rpc_port

        def load():
            connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
            for connection in connections:
                connection.sendall(head + body)
            return connections

        connections = load()
        for _ in range(20):
            started = time.monotonic()
            self.net.nodes[0].eth_blockNumber()
            self.assertLess(time.monotonic() - started, 2)
        for connection in connections:
            connection.close()
        connections = load()
        started = time.monotonic()
        self.net.daemon.stop()
        self.assertLess(time.monotonic() - started, 5)  # of which the calls may take 2
        for connection in connections:
            connection.close()
        self.net.daemon.start()
        self.net.wait_for_node()


if __name__ == "__main__":
    framework.main()
