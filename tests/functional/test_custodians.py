#!/usr/bin/env python3
"""Custodians: drawn for a claim to keep fragments of its history, paid for that, and what others find with these when the
solver's node serves nobody but its friends."""
import os
import shutil

import framework
from framework import CHEAP, STEPS, STRIDE
from quern import events
from quern.devnet import run

MAGIC = b"QRNCUST1"
HAS, LACKS = 1, 2  # what a receipt says


def custody_manifest(data):
    """(k, n, content -> its fragments' ids), ids as 64 hexadecimal digits."""
    if not data.startswith(MAGIC):
        raise ValueError("no custody manifest")
    k, n, count = data[8], data[9], int.from_bytes(data[10:14], "big")
    contents, at = {}, 14
    for _ in range(count):
        ids = [data[at + 40 + 32 * j:at + 72 + 32 * j].hex() for j in range(n)]
        contents[data[at:at + 32].hex()] = ids
        at += 40 + 32 * n
    if at != len(data):
        raise ValueError("a custody manifest of another length")
    return k, n, contents


class CustodianTest(framework.MarketTest):
    """With `count` custodians that have a bond, all of whom are drawn for each claim."""

    count = 3

    @classmethod
    def setUpClass(cls):
        cls.accounts, cls.bonds = framework.with_custodians(cls.count)
        cls.market = {**framework.MARKET, **cls.market, "custodians": cls.count}
        super().setUpClass()

    @property
    def names(self):
        return [f"custodian{index + 1}" for index in range(self.count)]

    def custodians(self, *names, node=None):
        self.workers(node=node, **{name: "" for name in names or self.names})

    def receipts(self, claim):
        """What each custodian of the claim's last draw has said, 0 for nothing."""
        return {self.net.name_of(each["address"]): each["receipt"] for each in claim["custody"]["custodians"]}

    def fees(self, payments):
        """The custodians that were paid, and what."""
        return {self.net.name_of(paid["to"]): int(paid["amount"], 16) for paid in payments
                if paid["reason"] == "custodian_fee"}

    def reasons(self, number):
        """Why the claims of the task came to their states, in that order."""
        return [event["reason"] for event in events.find(self.net.node, "ClaimStateChanged", task=number)]

    def assert_paid(self, task):
        """Who has said to keep its fragments is paid once, and nobody else is."""
        fee = int(task["custodyFee"], 16)
        self.assertGreater(fee, 0)
        receipts = self.receipts(task["claim"])
        self.assertEqual(set(receipts), set(self.names))
        self.assertEqual(self.fees(task["payments"]), {name: fee for name, said in receipts.items() if said == HAS})
        return receipts

    def assert_free(self):
        for bond in self.net.node.stake_roles("custodian"):
            self.assertEqual(int(bond["locked"], 16), 0, self.net.name_of(bond["address"]))

    def log(self, name):
        with open(self.net.workers[name].log, errors="replace") as file:
            return file.read()


class Custodians(CustodianTest):
    def test_who_keeps_fragments_is_paid(self):
        self.workers(solver1="")
        self.custodians()
        self.verifiers()
        number = self.submit()
        task = self.settled(number)
        self.assertEqual(self.slashed(task), set())
        claim = task["claim"]
        self.assertNotEqual(int(claim["custodyContent"], 16), 0)
        self.assertEqual(claim["custody"]["draws"], 1)
        said = self.assert_paid(task)
        self.assertGreaterEqual(list(said.values()).count(HAS), 2, said)  # a third one may come too late
        self.assertNotIn(LACKS, said.values())
        self.assertEqual(len(self.payments(task, "verifier1", "verifier_fee")), 1)
        drawn = sorted(events.find(self.net.node, "CustodianDrawn", task=number), key=lambda event: event["place"])
        self.assertEqual([event["custodian"] for event in drawn],
                         [each["address"] for each in claim["custody"]["custodians"]])
        told = [event["from"] for event in events.find(self.net.node, "CustodyReceived", task=number) if event["dataOk"]]
        for name, receipt in said.items():
            self.assertEqual(told.count(self.net.accounts[name].address.lower()), 1 if receipt == HAS else 0, name)
        self.assert_free()

    def test_a_custodian_that_is_silent_earns_nothing(self):
        self.workers(solver1="")
        self.custodians("custodian1", "custodian2")
        self.verifiers()
        number = self.submit()
        task = self.settled(number)
        self.assertEqual(self.assert_paid(task), {"custodian1": HAS, "custodian2": HAS, "custodian3": 0})
        self.assertEqual(self.slashed(task), set(), "nobody waited for it")
        self.assertEqual(task["claim"]["custody"]["draws"], 1)
        self.assert_free()

    def test_without_a_quorum_the_silent_are_slashed_and_others_drawn(self):
        before = {name: self.bond(name) for name in self.names}
        self.workers(solver1="")
        self.custodians("custodian1")
        self.verifiers()
        number = self.submit(verify_s=20)
        self.net.wait_until(lambda: "custodians_redrawn" in self.reasons(number), framework.TASK_TIMEOUT_S,
                            "custodians to be drawn once more")
        self.custodians("custodian2")
        task = self.settled(number)
        self.assertEqual(self.slashed(task), {(name, "no_custody_receipt") for name in ("custodian2", "custodian3")})
        self.assertEqual(task["claim"]["custody"]["draws"], 2)
        self.assertEqual(self.assert_paid(task), {"custodian1": HAS, "custodian2": HAS, "custodian3": 0})
        self.assertEqual(len(events.find(self.net.node, "CustodianDrawn", task=number)), 2 * self.count)
        self.assertIn("custodians_drawn", self.reasons(number))
        for name, faults in ("custodian1", 0), ("custodian2", 1), ("custodian3", 1):
            bonded, times = self.bond(name)
            self.assertEqual(times - before[name][1], faults, name)
            (self.assertLess if faults else self.assertEqual)(bonded, before[name][0], name)
        self.assert_free()

    def test_a_manifest_of_wrong_fragments_is_missing_data(self):
        self.workers(solver1=f"{CHEAP} --test-fault=bad_custody", solver2="")
        self.custodians()
        self.verifiers()
        task = self.settled(self.submit(verify_s=60), 1)
        self.assertEqual(self.slashed(task), {("solver1", "data_missing")})
        self.assertEqual(self.payments(task, "solver1", "solver_reward"), [])
        self.assert_paid(task)
        self.assert_free()


class ServedToFriends(CustodianTest):
    """The solver and its friends are at node1, which the validator, node0, is connected to and nobody else; custodians
    are at node0, whoever looks at node2, which has no way to node1. So what the solver proves node2 may have of the
    fragments at node0 alone: two of them, of six, give a content."""

    followers, count = 2, 6
    FRIENDS = ("verifier1", "verifier2", "verifier3")

    def stores(self, index, content):
        content = content.removeprefix("0x")
        return os.path.exists(os.path.join(self.net.daemons[index].datadir, "content", content[:2], content))

    def manifest(self, claim):
        """The claim's custody manifest, as node0 has it."""
        file = os.path.join(self.directory, "custody.bin")
        run("quern-cli", *self.net.nodes[0].cli, "content", "get", claim["custodyContent"], file)
        with open(file, "rb") as data:
            return custody_manifest(data.read())

    def assert_fragments_alone(self, claim, contents):
        """node0 has enough of each, and not the whole."""
        k, n, fragments = self.manifest(claim)
        self.assertEqual((k, n), (2, self.count))
        for content in contents:
            ids = fragments[content.removeprefix("0x")]
            self.assertGreaterEqual(sum(self.stores(0, each) for each in ids), k)
            self.assertFalse(self.stores(0, content), "it came to node0 whole")
            self.assertTrue(self.stores(1, content))

    def assert_apart(self):
        """Each follower knows the validator alone."""
        for index in 1, 2:
            peers = self.net.nodes[index].number("net_peerCount")
            self.assertEqual(peers, 1, f"node{index}")

    def challenged(self, number):
        whistleblower = self.net.accounts["whistleblower"].address.lower()
        return [game for game in self.disputes({"id": number}) if game["rival"] == whistleblower and game["target"] == 0]

    def test_a_whistleblower_finds_the_lie_in_what_custodians_keep(self):
        step = STEPS // 2 + 1
        self.workers(node=1, solver1=f"{CHEAP} --test-fault=flip_element@{step}")
        self.workers(node=1, **{name: "--test-fault=pass_without_work" for name in self.FRIENDS})
        self.custodians(node=0)
        self.workers(node=2, whistleblower="")
        self.assert_apart()
        number = self.submit(stride=STRIDE, challenge_s=40)
        self.wait(number, "committing", "revealing", "challenge", "disputed")
        claim = self.net.node.claim_get(number, 0, 0, 0)
        self.assertGreaterEqual(list(self.receipts(claim).values()).count(HAS), 4)
        history = claim["historyContent"]
        self.net.wait_until(lambda: self.stores(2, history), 120, "the history to be put together")
        self.assert_fragments_alone(claim, [history])
        self.assertIn(f"restored from fragments content={history.removeprefix('0x')}", self.log("whistleblower"))
        self.solver_lost(number)
        self.assertNotIn("trained here", self.log("whistleblower"))
        game = next(game for game in self.challenged(number) if game["winnerName"] == "rival")
        self.assertTrue(game["leafExecuted"])
        self.assertEqual(game["gameView"]["step"], step)
        self.assertFalse(self.stores(0, history))
        self.workers(node=0, solver2="")
        for name in self.FRIENDS:
            self.net.workers.pop(name).stop()
        self.verifiers()
        task = self.settled(number, 1)
        self.assertEqual(self.slashed(task),
                         {("solver1", "wrong_result"), *((name, "passed_wrong_result") for name in self.FRIENDS)})
        self.assert_free()

    def test_another_goes_on_from_what_custodians_keep(self):
        tranche = STEPS // 2
        self.workers(node=1, solver1=CHEAP)
        self.workers(node=1, **{name: "" for name in self.FRIENDS})
        self.custodians(node=0)
        # A node looks for 10 seconds for what nobody has, first of all the history and then its last state.
        number = self.submit(tranche=tranche, heartbeat_s=20, prove_s=20, bid_s=40)
        self.wait(number, "proved", "custody")
        self.net.workers.pop("solver1").kill()
        self.assertEqual(self.net.node.claim_get(number, 0, 1, 0)["stateName"], "working", "too fast for this test")
        self.wait(number, "challenge")
        for name in self.FRIENDS:
            self.net.workers.pop(name).stop()
        first = self.net.node.claim_get(number, 0, 0, 0)
        last = first["checkpointContent"]
        self.assert_fragments_alone(first, [first["historyContent"], last])
        # node1 has lost its disk.
        daemon = self.net.daemons[1]
        daemon.process.kill()
        shutil.rmtree(os.path.join(daemon.datadir, "content"))
        daemon.process.start()
        self.net.wait_for_node()
        self.assertFalse(self.stores(1, last))
        self.workers(node=0, solver2="")
        self.verifiers()
        task = self.settled(number, 1)
        self.assertEqual(task["settled"], 2)
        first, second = self.net.node.claim_get(number, 0, 0, 0), self.net.node.claim_get(number, 0, 1, 1)
        self.assertIn(self.slashed(task) | self.slashed(first), ({("solver1", "no_heartbeat")}, {("solver1", "no_proof")}))
        fee = int(task["custodyFee"], 16)
        self.assertEqual(self.fees(first["payments"]),
                         {name: fee for name, said in self.receipts(first).items() if said == HAS})
        self.assert_paid(task)
        self.assertEqual(second["startRoot"], first["finalRoot"])
        self.assertEqual(self.net.name_of(second["solver"]), "solver2")
        self.assertTrue(self.stores(0, last))
        self.assertIn(f"restored from fragments content={last.removeprefix('0x')}", self.log("solver2"))
        self.assert_free()


if __name__ == "__main__":
    framework.main()
