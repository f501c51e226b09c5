#!/usr/bin/env python3
"""contrib/devnet as people type it."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import framework
from quern import namespaces
from quern.processes import at_end, start_time, wait_until
from quern.rpc import Node

COMMAND = os.path.join(framework.ROOT, "contrib", "devnet")
BOB = "0x00000000000000000000000000000000000000b0"
QUICK = ["--block=min_block_ms=100", "--block=max_idle_ms=300", "--epoch-length=10"]


class DevnetTest(unittest.TestCase):
    def setUp(self):
        self.base = tempfile.mkdtemp(prefix="quern-devnets-")
        self.addCleanup(at_end(shutil.rmtree, self.base, True))
        self.addCleanup(at_end(self.destroy_all))

    def destroy_all(self):
        for name in os.listdir(self.base):
            if not name.startswith("."):
                self.run_command("destroy", "--name", name)

    def run_command(self, *arguments):
        return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, "QUERN_DEVNETS": self.base})

    def devnet(self, *arguments):
        done = self.run_command(*arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def refused(self, *arguments):
        done = self.run_command(*arguments)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr

    def nodes(self, name="devnet"):
        """name -> (pid or None, height or None, client), from the table of `status`."""
        found = {}
        for match in re.finditer(r"^(node\d+) +(\d+|down) +(\d+|-) .*http://([\d.]+):(\d+)", self.devnet("status", "--name", name),
                                 re.M):
            node, pid, height, host, port = match.groups()
            found[node] = (None if pid == "down" else int(pid), None if height == "-" else int(height),
                           Node(int(port), host))
        return found

    def height(self, name="devnet"):
        return max(height or 0 for _, height, _ in self.nodes(name).values())

    def test_seven_validators_go_on_without_two(self):
        self.devnet("up", "--validators", 7, "--workers", "none", *QUICK)
        self.assertEqual(len(self.nodes()), 7)
        self.devnet("kill", "node5", "6")
        nodes = self.nodes()
        self.assertEqual([nodes[f"node{i}"][0] for i in (5, 6)], [None, None])
        for amount in ("1.5", "2", "0.25"):
            self.assertIn("in block", self.devnet("faucet", BOB, amount))
        for i in range(5):
            wait_until(lambda: nodes[f"node{i}"][2].number("eth_getBalance", BOB) == 375 * 10**16, 10, f"the balance at node{i}")
        self.devnet("start", "5", "node6")
        wait_until(lambda: all(client.number("eth_getBalance", BOB) == 375 * 10**16
                               for _, _, client in self.nodes().values()), 10, "the balance at all nodes")
        head = self.height()
        self.assertIn("7 processes stopped", self.devnet("down"))
        self.assertEqual([pid for pid, _, _ in self.nodes().values()], [None] * 7)
        self.devnet("up")
        self.assertGreater(self.height(), head)

    @unittest.skipIf(namespaces.why_not(), namespaces.why_not())
    def test_cut_in_halves_it_stops_and_healed_it_goes_on(self):
        self.devnet("up", "--workers", "none", "--netns", "on", *QUICK)
        self.devnet("partition", "0,1|2,3")
        self.assertIn("node0,node1 | node2,node3", self.devnet("status"))
        time.sleep(1.5)
        before = [height for _, height, _ in self.nodes().values()]
        time.sleep(4)
        self.assertEqual([height for _, height, _ in self.nodes().values()], before)
        self.devnet("heal")
        wait_until(lambda: min(height for _, height, _ in self.nodes().values()) > max(before) + 2, 30, "blocks after healing")
        self.devnet("partition", "3")  # one alone: the others go on
        before = self.nodes()
        wait_until(lambda: self.nodes()["node0"][1] > before["node0"][1] + 5, 30, "blocks without node3")
        self.assertLessEqual(self.nodes()["node3"][1], before["node3"][1] + 2)
        self.devnet("heal")
        target = self.height()
        wait_until(lambda: self.nodes()["node3"][1] >= target, 30, "node3 to be back")
        names = {match for match in subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout.split()
                 if match.startswith(f"quern{self.config()['switch']}-")}
        self.assertEqual(len(names), 5)
        self.devnet("destroy")
        left = subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout
        self.assertFalse([name for name in names if name in left])

    def config(self, name="devnet"):
        with open(os.path.join(self.base, name, "devnet.json")) as file:
            return json.load(file)

    def test_two_side_by_side_do_not_mix(self):
        elsewhere = os.path.join(self.base, ".elsewhere")
        self.devnet("up", "--validators", 1, "--workers", "solver=1", "--netns", "off", *QUICK)
        self.devnet("up", "--name", "second", "--dir", elsewhere, "--validators", 1, "--workers", "none", "--netns", "off",
                    "--seed", 2, *QUICK)
        listed = self.devnet("list")
        self.assertRegex(listed, r"(?m)^devnet +1 +2 ")
        self.assertRegex(listed, r"(?m)^second +1 +1 ")
        ports = [port for name in ("devnet", "second") for ports in self.config(name)["ports"] for port in ports]
        self.assertEqual(len(set(ports)), 6)
        self.devnet("faucet", "--name", "second", BOB, "3")
        self.assertEqual(self.nodes("second")["node0"][2].number("eth_getBalance", BOB), 3 * 10**18)
        self.assertEqual(self.nodes()["node0"][2].number("eth_getBalance", BOB), 0)
        self.assertIn("is called second", self.refused("up", "--name", "second", "--dir", elsewhere + "2"))
        self.devnet("destroy", "--name", "second")
        self.assertFalse(os.path.exists(elsewhere))
        self.assertNotIn("second", self.devnet("list"))
        self.assertIsNotNone(self.nodes()["node0"][0])

    def test_processes_are_told_from_others_with_their_number(self):
        self.devnet("up", "--validators", 1, "--workers", "none", "--netns", "off", *QUICK)
        pid = self.nodes()["node0"][0]
        config = self.config()
        self.assertEqual(config["processes"]["node0"], [pid, start_time(pid)])
        stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
        self.addCleanup(stranger.kill)
        config["processes"]["node0"] = [stranger.pid, start_time(pid)]
        with open(os.path.join(self.base, "devnet", "devnet.json"), "w") as file:
            json.dump(config, file)
        self.assertIn("0 processes stopped", self.devnet("down"))
        self.assertIsNone(stranger.poll())
        os.killpg(pid, 9)

    def test_keeps_a_chain_unless_told_otherwise(self):
        self.devnet("up", "--validators", 1, "--workers", "none", "--netns", "off", *QUICK)
        self.devnet("faucet", "alice", "1")
        genesis = self.nodes()["node0"][2].eth_getBlockByNumber("0x0", False)["hash"]
        self.assertIn("another --seed", self.refused("up", "--seed", "9"))
        self.devnet("up")
        self.assertEqual(self.nodes()["node0"][2].eth_getBlockByNumber("0x0", False)["hash"], genesis)
        self.devnet("up", "--fresh")
        self.assertNotEqual(self.nodes()["node0"][2].eth_getBlockByNumber("0x0", False)["hash"], genesis)

    def test_a_reader_that_goes_away_is_no_error(self):
        self.devnet("up", "--validators", 1, "--workers", "none", "--netns", "off", *QUICK)
        done = subprocess.run(["bash", "-c", 'set -o pipefail; "$0" status | head -c 1', COMMAND], capture_output=True, text=True,
                              env={**os.environ, "QUERN_DEVNETS": self.base}, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "n", ""))

    def test_a_validator_that_listens_before_it_signs_is_explained(self):
        said = self.devnet("up", "--validators", 4, "--workers", "none", "--netns", "off", *QUICK)
        if " not yet " not in said:
            self.assertNotIn("listens first", said)
        wait_until(lambda: len(re.findall(r"(?m)^node\d .* yes ", self.devnet("status"))) == 4, 30, "all to sign")
        self.assertNotIn("listens first", self.devnet("status"))
        self.devnet("kill", "0")
        os.remove(os.path.join(self.base, "devnet", "node0", "consensus", "sdbft.journal"))
        self.devnet("start", "0")
        wait_until(lambda: re.search(r"(?m)^node0 .* no: sdbft.no_journal ", self.devnet("status")), 30, "the refusal")

    def test_a_node_is_asked_by_name(self):
        self.devnet("up", "--validators", 2, "--workers", "none", "--netns", "off", *QUICK)
        self.assertEqual(self.devnet("cli", "eth_chainId").strip(), "0x1ec6")
        self.assertIn('"chainId": 7878', self.devnet("cli", "--node", "1", "--", "-getinfo"))
        self.assertIn("there is no node7", self.refused("cli", "--node", "7", "eth_chainId"))

    def test_says_what_is_wrong(self):
        self.assertIn("no devnet in", self.refused("status"))
        self.assertIn("roles solver", self.refused("up", "--workers", "cook=2"))
        self.assertIn("1 to 100 validators", self.refused("up", "--validators", "0"))
        self.assertIn("letters, digits", self.refused("up", "--name", "../etc"))
        self.assertIn("NAME=VALUE", self.refused("up", "--block", "epoch_length"))
        self.assertEqual([name for name in os.listdir(self.base) if not name.startswith(".")], [])
        self.assertIn("no_such", self.refused("up", "--validators", "1", "--block", "no_such=1"))
        self.destroy_all()
        self.devnet("up", "--validators", 1, "--workers", "none", "--netns", "off", *QUICK)
        self.assertIn("there is no node7", self.refused("kill", "7"))
        self.assertIn("no such signal", self.refused("kill", "0", "--signal", "NOPE"))
        self.assertIn("neither an address", self.refused("faucet", "0x12", "1"))
        self.assertIn("expected an amount", self.refused("faucet", "alice", "much"))
        self.assertIn("not paid: insufficient funds", self.refused("faucet", "alice", "99999999"))
        self.assertRegex(self.refused("partition", "0"), "--netns off|need root|package iproute2|refuses network namespaces")
        with open(os.path.join(self.base, "devnet", ".lock"), "w") as lock:
            import fcntl
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertIn("another devnet command", self.refused("down"))
        self.devnet("kill", "0")
        self.assertIn("does not run", self.refused("kill", "0"))
        self.assertIn("no node runs", self.refused("faucet", "alice", "1"))


if __name__ == "__main__":
    framework.main()
