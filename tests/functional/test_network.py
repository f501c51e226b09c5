#!/usr/bin/env python3
"""Four validators: they agree, go on without one, stop without three, and forget nothing when they are killed."""
import os
import random
import threading
import time
import unittest

import framework
import network
from quern import namespaces
from quern.processes import wait_until

KILLS = int(os.environ.get("QUERN_NETWORK_KILLS", "50"))


class FourValidators(network.NetworkTest):
    def test_all_finalize_the_same_blocks(self):
        self.wait_blocks(12)  # more than an epoch
        height = self.assert_agreement()
        statuses = [daemon.client.sdbft_status() for daemon in self.net.daemons]
        members = {daemon.account.address.lower() for daemon in self.net.daemons}
        for daemon, status in zip(self.net.daemons, statuses):
            self.assertTrue(status["signs"], status)
            self.assertEqual({entry["address"].lower() for entry in status["committee"]}, members)
            self.assertEqual(daemon.client.number("net_peerCount"), self.validators - 1)
        proposers = {self.net.node.eth_getBlockByNumber(hex(number), False)["miner"].lower()
                     for number in range(1, height + 1)}
        self.assertTrue(proposers <= members, proposers)
        self.assertGreater(len(proposers), 1)

    def test_transactions_reach_the_master_from_any_node(self):
        for daemon in self.net.daemons:
            nonce = daemon.client.number("eth_getTransactionCount", self.net.accounts["alice"].address, "pending")
            raw = network.sign_transfer(self.net, "alice", nonce)
            transaction = daemon.client.eth_sendRawTransaction(raw)
            for other in self.net.daemons:
                wait_until(lambda: other.client.eth_getTransactionReceipt(transaction), 20, f"a receipt at {other.name}", 0.05)

    def test_one_of_four_may_be_dead(self):
        payer = network.Payer(self.net)
        payer.start()
        for victim in self.net.daemons:
            others = [daemon for daemon in self.net.daemons if daemon is not victim]
            victim.process.kill()
            self.wait_blocks(6, others)
            seconds = self.catch_up(victim, self.head(others))
            self.assertLess(seconds, network.CATCH_UP_S)
        self.wait_blocks(3)
        print(f"{payer.settle(self)} payments; ", end="")
        self.assert_agreement()
        self.assert_nobody_convicted()

    def test_three_of_four_dead_stop_it_and_bring_it_back(self):
        survivor, *victims = self.net.daemons
        for victim in victims:
            victim.process.kill()
        self.assert_stands_still([survivor], 4)
        before = survivor.client.height()
        self.record(survivor)
        for victim in victims:
            self.assertLess(self.catch_up(victim, before), network.CATCH_UP_S)
        self.wait_blocks(4)
        self.assert_agreement()
        self.assert_nobody_convicted()

    def test_all_killed_at_once_go_on_from_where_they_were(self):
        payer = network.Payer(self.net)
        payer.start()
        self.wait_blocks(3)
        for _ in range(3):
            head = self.head()
            for daemon in self.net.daemons:
                daemon.process.kill()
            for daemon in self.net.daemons:
                daemon.process.start()
            self.net.wait_for_node()
            started = time.monotonic()
            for daemon in self.net.daemons:
                self.assertGreaterEqual(daemon.client.height(), 0)
            wait_until(lambda: self.head() > head, 20, "a block after all were killed", 0.05)
            self.assertLess(time.monotonic() - started, 2 * network.CATCH_UP_S)
        payer.settle(self)
        self.assert_agreement()
        self.assert_nobody_convicted()

    def test_killed_again_and_again_nothing_final_is_lost(self):
        seed = int(os.environ.get("QUERN_NETWORK_SEED", time.time_ns() % 1_000_000))
        print(f"seed {seed} (QUERN_NETWORK_SEED)")
        chance = random.Random(seed)
        payer = network.Payer(self.net, every=0.02)
        payer.start()
        ending = threading.Event()
        problems, seconds = [], []

        def watch():  # what any node calls final, all the time
            while not ending.is_set():
                for daemon in self.net.daemons:
                    try:
                        self.record(daemon)
                    except network.UNREACHABLE:
                        pass
                    except AssertionError as error:
                        problems.append(str(error))
                time.sleep(0.02)

        def bring_back(daemon, pause):
            time.sleep(pause)
            try:
                target = max([other.height() or 0 for other in self.net.daemons if other is not daemon])
                seconds.append(self.catch_up(daemon, target))
            except (RuntimeError, TimeoutError) as error:
                problems.append(str(error))

        watcher = threading.Thread(target=watch)
        watcher.start()
        busy = {}
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.05, 0.6))
            victim = chance.choice(self.net.daemons)
            if victim in busy:
                busy.pop(victim).join()
            victim.process.kill()
            busy[victim] = threading.Thread(target=bring_back, args=(victim, chance.uniform(0, 0.4)))
            busy[victim].start()
        for thread in busy.values():
            thread.join()
        ending.set()
        watcher.join()
        self.assertEqual(problems, [])
        self.assertEqual(len(seconds), KILLS)
        self.assertLess(max(seconds), network.CATCH_UP_S, sorted(seconds)[-5:])
        self.wait_blocks(3)
        paid = payer.settle(self)
        height = self.assert_agreement()
        self.assert_nobody_convicted()
        print(f"{KILLS} kills, {paid} payments, {height} blocks, catching up took {sorted(seconds)[KILLS // 2]:.2f} s (median), "
              f"{max(seconds):.2f} s (longest)")

    def test_a_follower_syncs_from_genesis_and_follows(self):
        self.wait_blocks(3)
        follower = self.net.add_node()
        try:
            target = self.head()
            seconds = self.catch_up(follower, target)
            self.assertLess(seconds, network.CATCH_UP_S)
            self.wait_blocks(5)
            self.assert_agreement()
            status = follower.client.sdbft_status()
            self.assertFalse(status["signs"])
            # A transaction that only the follower was told of gets into the chain.
            nonce = follower.client.number("eth_getTransactionCount", self.net.accounts["alice"].address, "pending")
            transaction = follower.client.eth_sendRawTransaction(network.sign_transfer(self.net, "alice", nonce))
            wait_until(lambda: follower.client.eth_getTransactionReceipt(transaction), 20, "the follower's transaction")
            follower.process.kill()
            self.wait_blocks(5, [d for d in self.net.daemons if d is not follower])
            self.assertLess(self.catch_up(follower, self.head()), network.CATCH_UP_S)
        finally:
            follower.process.kill()
            self.net.remove_node(follower)


@unittest.skipIf(namespaces.why_not(), namespaces.why_not())
class CutApart(network.NetworkTest):
    namespaces = True

    def test_halves_finalize_nothing_and_go_on_when_joined(self):
        payer = network.Payer(self.net)
        payer.start()
        self.wait_blocks(3)
        self.net.partition([0, 1], [2, 3])
        self.assert_stands_still(self.net.daemons, 5)
        self.assert_agreement()
        time.sleep(8)  # so long that much has piled up on the connections
        self.net.heal()
        self.wait_blocks(5)
        for daemon in self.net.daemons:  # nobody misbehaved
            self.assertNotIn("peer refused", daemon.process.log_tail(10000), daemon.name)
        payer.settle(self)
        self.assert_agreement()
        self.assert_nobody_convicted()

    def test_the_majority_goes_on_and_who_was_cut_off_catches_up(self):
        lonely, *others = self.net.daemons
        self.net.partition([0], [1, 2, 3])
        self.wait_blocks(15, others)  # into another epoch
        self.assertLess(lonely.client.height(), self.head(others) - 10)
        self.net.heal()
        self.wait_blocks(2)
        self.assert_agreement()
        self.assert_nobody_convicted()


@unittest.skipIf(namespaces.why_not(), namespaces.why_not())
class SevenValidators(network.NetworkTest):
    validators, namespaces = 7, True

    def test_two_dead_and_one_cut_off_under_load(self):
        payer = network.Payer(self.net, every=0)
        payer.start()
        *going, cut_off, first_dead, second_dead = self.net.daemons
        first_dead.process.kill()
        second_dead.process.kill()
        self.wait_blocks(10, [*going, cut_off])  # five of seven are enough
        self.net.partition([4], [0, 1, 2, 3, 5, 6])
        self.assert_stands_still([*going, cut_off], 5)  # four are not
        self.net.heal()
        self.wait_blocks(5, [*going, cut_off])
        self.net.partition([4], [0, 1, 2, 3, 5, 6])
        before = self.head(going)
        self.assertLess(self.catch_up(first_dead, before), network.CATCH_UP_S)
        self.wait_blocks(15, [*going, first_dead])  # five again, into another epoch
        self.assertLess(cut_off.client.height(), self.head(going) - 10)
        self.net.heal()
        self.assertLess(self.catch_up(second_dead, self.head(going)), network.CATCH_UP_S)
        self.wait_blocks(3)
        print(f"{payer.settle(self)} payments, {self.assert_agreement()} blocks")
        self.assert_nobody_convicted()


if __name__ == "__main__":
    framework.main()
