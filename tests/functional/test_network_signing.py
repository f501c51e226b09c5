#!/usr/bin/env python3
"""Who may not sign does not: a second process with the same key, a validator whose journal is gone; and who signs two
votes for one view loses stake and seat."""
import os
import shutil
import time
import unittest

import framework
import network
from quern.processes import wait_until


def status(daemon):
    return daemon.client.sdbft_status()


class LostJournal(network.NetworkTest):
    def test_without_its_journal_it_follows_until_the_operator_says_so(self):
        self.wait_blocks(3)
        daemon = self.net.daemons[3]
        daemon.process.stop()
        journal = os.path.join(daemon.datadir, "consensus", "sdbft.journal")
        self.assertTrue(os.path.exists(journal))
        os.remove(journal)
        self.catch_up(daemon, self.head())
        told = status(daemon)
        self.assertFalse(told["signs"])
        self.assertIn("sdbft.no_journal", told["refusesBecause"])
        self.wait_blocks(5)
        self.assertFalse(status(daemon)["signs"])
        self.assertIn("THIS VALIDATOR SIGNS NOTHING: its journal", daemon.process.log_tail(1000))
        daemon.process.stop()
        daemon.process.arguments.append("-acceptmissingjournal")
        self.catch_up(daemon, self.head())
        daemon.process.arguments.remove("-acceptmissingjournal")
        wait_until(lambda: status(daemon)["signs"], 10, "signing again")
        # With another one dead its votes are needed.
        self.net.daemons[0].process.kill()
        self.wait_blocks(5, self.net.daemons[1:])
        self.catch_up(self.net.daemons[0], self.head())
        self.assert_agreement()
        self.assert_nobody_convicted()


class LostDisk(network.NetworkTest):
    def test_an_empty_directory_does_not_make_a_used_key_new(self):
        self.wait_blocks(8)
        daemon = self.net.daemons[1]
        daemon.process.kill()
        shutil.rmtree(daemon.datadir)
        os.makedirs(daemon.datadir, mode=0o700)
        daemon.process.start()
        wait_until(lambda: daemon.height() is not None and status(daemon)["refusesBecause"] == "sdbft.no_journal", 30,
                   "the validator to see what its key has signed")
        # A restart does not make it forget.
        daemon.process.kill()
        self.catch_up(daemon, self.head())
        self.assertIn("sdbft.no_journal", status(daemon)["refusesBecause"])
        self.wait_blocks(5)
        self.assertFalse(status(daemon)["signs"])
        self.assert_agreement()
        self.assert_nobody_convicted()


class TwoSigners(network.NetworkTest):
    def test_with_one_key_stop_signing_and_the_others_go_on(self):
        self.wait_blocks(3)
        original = self.net.daemons[2]
        twin = self.net.add_node(original.account)
        try:
            twin.process.start()
            others = [self.net.daemons[i] for i in (0, 1, 3)]

            def refusing():
                return [daemon for daemon in (original, twin) if daemon.process.running() and daemon.height() is not None
                        and status(daemon)["refusesBecause"]]

            wait_until(refusing, 30, "one of the two to refuse to sign", 0.1)
            # The newcomer has no record of what its key signed, and sees that it did.
            self.assertEqual(refusing(), [twin])
            self.assertEqual(status(twin)["refusesBecause"], "sdbft.no_journal")
            self.assertIn("THIS VALIDATOR SIGNS NOTHING", twin.process.log_tail(2000))
            self.wait_blocks(10, others)
            self.record(others[0])
            for daemon in [*others, original]:
                self.assertTrue(status(daemon)["signs"])
            self.assert_nobody_convicted()
        finally:
            twin.process.kill()
            self.net.remove_node(twin)


if __name__ == "__main__":
    framework.main()
