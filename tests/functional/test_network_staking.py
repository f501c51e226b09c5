#!/usr/bin/env python3
"""Stake moves on a live network: a validator comes, is needed, loses stake again; one that signs twice is convicted."""
import subprocess
import time
import unittest

import framework
import network
from quern.devnet import QRN, program, run
from quern.market import fee_options, send, supply_difference
from quern.processes import wait_until
from quern.rpc import RpcError

BLOCK = {"epoch_length": 8}
STAKING = {"unbonding_blocks": 24}


class StakeTest(network.NetworkTest):
    block, staking = BLOCK, STAKING

    def stake(self, account, command, *options):
        """A staking transaction through quern-wallet; its receipt."""
        return send(self.net, self.sign(account, command, *options))

    def sign(self, account, command, *options):
        return run("quern-wallet", command, *fee_options(self.net, self.net.accounts[account]), *options).split()[-1]

    def committee(self):
        """address -> QRN that count now."""
        return {entry["address"].lower(): int(entry["weight"], 16) // QRN
                for entry in self.net.node.sdbft_status()["committee"]}

    def epoch(self):
        return self.net.node.sdbft_status()["epoch"]

    def balance(self, name):
        return self.net.node.number("eth_getBalance", self.net.accounts[name].address)

    def assert_supply(self):
        self.assertEqual(supply_difference(self.net), 0, "grains were made or lost")


class Committees(StakeTest):
    accounts = {"alice": 1000, "owner": 2000, "delegator": 1000}

    def test_a_fifth_validator_comes_is_needed_and_loses_stake(self):
        net = self.net
        key = net.account("validator4")
        fifth = net.add_node(key)
        others = net.daemons[:4]
        self.catch_up(fifth, self.head())
        self.assertFalse(fifth.client.sdbft_status()["member"])
        self.stake("owner", "create-validator", "--validator-key", key.keystore, "--validator-password-file",
                   net.password_file, "--amount", "1000qrn")
        self.stake("delegator", "delegate", "--validator", key.address, "--amount", "500qrn")
        staked = self.epoch()
        fifth.process.kill()  # before it ever signed
        self.catch_up(fifth, self.head(others))
        address = key.address.lower()
        wait_until(lambda: self.committee().get(address) == 1500, 60, "the fifth validator in the committee")
        self.assertLessEqual(self.epoch(), staked + 3)
        wait_until(lambda: fifth.client.sdbft_status()["signs"], 10, "the fifth to sign")

        # 4500 of 5500 vote when a founder is dead: without the fifth they would be 3000.
        others[0].process.kill()
        self.wait_blocks(10, net.daemons[1:])
        self.assertLess(self.catch_up(others[0], self.head(net.daemons[1:])), network.CATCH_UP_S)
        wait_until(lambda: any(net.node.eth_getBlockByNumber(hex(n), False)["miner"].lower() == address
                               for n in range(max(1, net.node.height() - 20), net.node.height() + 1)), 60,
                   "a block of the fifth", every=1)

        before = self.balance("delegator")
        receipt = self.stake("delegator", "undelegate", "--validator", key.address, "--amount", "500qrn")
        entries = net.node.stake_unbondings(net.accounts["delegator"].address)[0]["entries"]
        self.assertEqual(int(entries[0]["amount"], 16), 500 * QRN)
        matures = entries[0]["maturesAt"]
        self.assertGreater(matures, int(receipt["blockNumber"], 16) + STAKING["unbonding_blocks"])
        with self.assertRaisesRegex((RpcError, RuntimeError), "nothing_to_withdraw"):
            self.stake("delegator", "withdraw-stake", "--validator", key.address)
        wait_until(lambda: self.committee().get(address) == 1000, 60, "the weight to fall")
        wait_until(lambda: net.node.height() >= matures, 60, f"height {matures}")
        self.stake("delegator", "withdraw-stake", "--validator", key.address)
        self.assertGreater(self.balance("delegator"), before + 499 * QRN)
        self.assertEqual(net.node.stake_unbondings(net.accounts["delegator"].address), [])
        self.assert_supply()
        self.wait_blocks(3)
        self.assert_agreement()
        self.assert_nobody_convicted()


@unittest.skipUnless("--testfault" in subprocess.run([program("quernd"), "--help"], capture_output=True, text=True).stdout,
                     "quernd was built without QUERN_TEST_FAULTS")
class Equivocation(StakeTest):
    def test_who_signs_twice_is_slashed_and_leaves_the_committee(self):
        culprit = self.net.daemons[3]
        honest = self.net.daemons[:3]
        address = culprit.account.address
        self.wait_blocks(2)
        culprit.process.stop()
        culprit.process.arguments.append("-testfault=double_vote")
        culprit.process.start()
        client = honest[0].client
        wait_until(lambda: client.stake_validator(address)["tombstoned"], 60, "the conviction")
        convicted = client.stake_validator(address)
        # 5 % and, of the rest, three times its share of a quarter: 95 % * 25 % stay.
        self.assertEqual(int(convicted["stake"], 16), 1000 * QRN * 95 * 25 // 10000)
        epoch = client.sdbft_status()["epoch"]
        wait_until(lambda: address.lower() not in {entry["address"].lower()
                                                   for entry in client.sdbft_status()["committee"]},
                   60, "a committee without it")
        self.assertLessEqual(client.sdbft_status()["epoch"], epoch + 3)
        self.wait_blocks(10, honest)
        self.assert_agreement(honest)
        for entry in client.stake_validators()["validators"]:
            self.assertEqual(entry["tombstoned"], entry["address"].lower() == address.lower())
        self.assert_supply()
        time.sleep(1)
        for daemon in honest:
            self.assertTrue(daemon.client.sdbft_status()["signs"])


if __name__ == "__main__":
    framework.main()
