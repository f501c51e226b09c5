#!/usr/bin/env python3
"""What people see of their money and of their tasks' lives: account_statement and task_history against balances, bonds
and events of real tasks, task_simulate against the transactions that it speaks of."""
import csv
import io

import framework
from framework import CHEAP
from quern import events
from quern.devnet import QRN, run
from quern.market import native
from quern.rpc import RpcError

PAGE = 7  # small, so that there are several


class StatementTest(framework.MarketTest):
    def pages(self, method, items, *arguments):
        """The items of all pages, and the pages."""
        found, pages, start = [], [], 0
        while start is not None:
            pages.append(self.net.node.call(method, *(start if part is PAGE else part for part in arguments), PAGE))
            found += pages[-1][items]
            start = pages[-1]["next"]
        return found, pages

    def history(self, task):
        return self.pages("task_history", "events", task, PAGE)[0]

    def statement(self, name, last):
        address = self.net.accounts[name].address
        return self.pages("account_statement", "movements", address, PAGE, last)

    def settle_down(self):
        """Stops the workers, and gives a height after all that they have sent."""
        for worker in self.net.workers.values():
            worker.stop()
        self.net.workers.clear()
        self.net.wait_for_blocks(3)
        return self.net.node.height()

    def bonds_of(self, name):
        """By role, with what is unbonding."""
        return {entry["roleName"]: int(entry["bonded"], 16) + sum(int(part["amount"], 16) for part in entry["unbonding"])
                for entry in self.net.node.stake_roles(self.net.accounts[name].address)}

    def assert_adds_up(self, name, height):
        """Each grain of the account's balance and of its bonds since the genesis is explained."""
        movements, pages = self.statement(name, height)
        self.assertTrue(movements, name)
        bonded = {role: QRN * qrn for who, role, qrn in framework.BONDS if who == name}
        balance = self.net.node.number("eth_getBalance", self.net.accounts[name].address, hex(height))
        self.assertEqual(framework.ACCOUNTS[name] * QRN + sum(int(each["balanceChange"]) for each in movements), balance,
                         name)
        for role, grains in self.bonds_of(name).items():
            changes = sum(int(each["bondChange"]) for each in movements if each["role"] == role)
            self.assertEqual(bonded.get(role, 0) + changes, grains, (name, role))
        for page in pages:
            self.assertTrue(page["check"]["agrees"], page["check"])
        self.assertEqual([each["block"] for each in movements], sorted(each["block"] for each in movements))
        for category in {each["category"] for each in movements}:
            listed = [each for each in movements if each["category"] == category]
            totals = [page["totals"][category] for page in pages if category in page["totals"]]
            self.assertEqual(sum(total["count"] for total in totals), len(listed))
            self.assertEqual(sum(int(total["amount"], 16) for total in totals),
                             sum(int(each["amount"], 16) for each in listed))
        return movements

    def of(self, movements, task, category):
        return [each for each in movements if each["task"] == task and each["category"] == category]

    def assert_order(self, history, *steps):
        """That these (event, a field's value or None) come in this order, whatever is between them."""
        left = list(steps)
        for each in history:
            if left and each["event"] == left[0][0] and (left[0][1] is None or left[0][1] in each["fields"].values()):
                left.pop(0)
        self.assertFalse(left, [(each["event"], each["fields"]) for each in history])
        self.assertEqual([each["block"] for each in history], sorted(each["block"] for each in history))

    def assert_tells_all(self, history, task):
        """As many events of each name as the logs have."""
        for name, (_, indexed, _) in events.EVENTS.items():
            if ("task", "uint64") in indexed:
                told = [each for each in history if each["event"] == name]
                self.assertEqual(len(told), len(events.find(self.net.node, name, task=task)), name)


class HonestTask(StatementTest):
    def test_everybody_can_account_for_each_grain(self):
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit())
        self.assertEqual(task["stateName"], "settled", task["reason"])
        height = self.settle_down()
        submitter = self.assert_adds_up("submitter", height)
        number = task["id"]
        escrow, = self.of(submitter, number, "escrow")
        deposit, = self.of(submitter, number, "deposit_paid")
        refund, = self.of(submitter, number, "refund")
        self.assertEqual((escrow["role"], refund["role"], refund["reason"]), ("submitter", "submitter", "refund"))
        self.assertEqual(int(deposit["amount"], 16), int(task["deposit"], 16))
        reward, = self.of(self.assert_adds_up("solver1", height), number, "reward")
        self.assertEqual((reward["role"], reward["reason"]), ("solver", "solver_reward"))
        fees = []
        for name in ("verifier1", "verifier2", "verifier3"):
            fee, = self.of(self.assert_adds_up(name, height), number, "fee")
            self.assertEqual((fee["role"], fee["reason"]), ("verifier", "verifier_fee"))
            fees.append(int(fee["amount"], 16))
        tax = int(self.net.node.task_get(number)["spec"]["money"]["tax"], 16)
        self.assertEqual(int(escrow["amount"], 16), int(refund["amount"], 16) + int(reward["amount"], 16) + sum(fees) + tax)
        self.assert_lifecycle(number)
        self.assert_csv("solver1", height)

    def assert_lifecycle(self, number):
        history = self.history(number)
        checkpoints = [("CheckpointPosted", step) for step in range(framework.INTERVAL, framework.STEPS, framework.INTERVAL)]
        self.assert_order(history, ("TaskSubmitted", None), ("TaskStateChanged", "submitted"), ("BidPlaced", None),
                          ("SolverAssigned", None), ("TaskStateChanged", "running"), ("ClaimStateChanged", "working"),
                          *checkpoints, ("ClaimStateChanged", "proved"), ("VerifierDrawn", None),
                          ("ClaimStateChanged", "custody"), ("CustodyReceived", True), ("ReportCommitted", None),
                          ("ReportRevealed", True), ("ProbesRevealed", None), ("ClaimStateChanged", "challenge"),
                          ("Paid", "solver_reward"), ("Paid", "verifier_fee"), ("ClaimStateChanged", "settled"),
                          ("Paid", "refund"), ("TaskStateChanged", "settled"))
        self.assert_tells_all(history, number)
        submitted = history[0]
        self.assertEqual((submitted["kind"], submitted["from"]),
                         ("task_submit", self.net.accounts["submitter"].address.lower()))
        receipt = self.net.node.eth_getTransactionReceipt(submitted["transaction"])
        self.assertEqual(int(receipt["blockNumber"], 16), submitted["block"])
        block = self.net.node.eth_getBlockByNumber(receipt["blockNumber"], False)
        self.assertEqual(int(block["timestamp"], 16), submitted["timestamp"])

    def assert_csv(self, name, height):
        cli = lambda *words: run("quern-cli", *self.net.node.cli, *words)
        address = self.net.accounts[name].address
        rows = list(csv.DictReader(io.StringIO(cli("-csv", "account", "statement", address, 0, height), newline="")))
        movements, _ = self.statement(name, height)
        self.assertEqual(len(rows), len(movements))
        for row, each in zip(rows, movements):
            self.assertEqual((row["block"], row["category"], row["balance_change_grains"], row["bond_change_grains"]),
                             (str(each["block"]), each["category"], each["balanceChange"], each["bondChange"]))
            self.assertAlmostEqual(float(row["balance_change_qrn"]) * QRN, int(each["balanceChange"]), delta=10**6)
        table = cli("account", "statement", address, 0, height)
        self.assertIn("The list explains every grain", table)
        self.assertIn("solver_reward", table)

    def test_a_trial_fails_as_the_transaction_then_does(self):
        number = self.submit()
        task = self.net.node.task_get(number)
        account = self.net.accounts["wallet"]
        bid = lambda price: {"task": number, "seat": 0, "price": hex(price), "speedClass": 0, "bandwidthClass": 0}
        cap = int(task["spec"]["money"]["priceCap"], 16)
        for payload, name in ((bid(cap + 1), "bid.above_cap"), (bid(1), "bond.insufficient"),
                              ({**bid(1), "seat": 3}, "bid.no_such_seat")):
            trial = self.net.node.task_simulate(account.address, "task_bid", payload)
            self.assertEqual((trial["success"], trial["failure"], trial["events"]), (False, name, []))
            with self.assertRaises((RpcError, RuntimeError)) as refused:
                native(self.net, account, "task_bid", payload)
            self.assertIn(name, str(refused.exception))
        bond = {"role": 1, "amount": str(QRN)}
        trial = self.net.node.task_simulate(account.address, "bond", bond)
        self.assertEqual((trial["success"], trial["balanceChange"], trial["affordable"]), (True, str(-QRN), True))
        starved = self.net.node.task_simulate(account.address, "bond", bond, "latest", hex(int(trial["gasUsed"], 16) - 1))
        self.assertEqual((starved["success"], starved["failure"]), (False, "out of gas"))
        self.assertEqual(native(self.net, account, "bond", bond)["gasUsed"], trial["gasUsed"])
        self.assert_adds_up("wallet", self.settle_down())


class BeatenCheat(StatementTest):
    def test_sees_why_its_bond_is_gone(self):
        self.workers(solver1=f"{CHEAP} --test-fault=wrong_update@7", solver2="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit())
        self.assertEqual((task["stateName"], task["round"]), ("settled", 1), task["reason"])
        height = self.settle_down()
        everybody = {name: self.assert_adds_up(name, height) for name in
                     ("submitter", "solver1", "solver2", "verifier1", "verifier2", "verifier3")}
        slash, = self.of(everybody["solver1"], task["id"], "slashed")
        self.assertEqual((slash["reason"], slash["role"], slash["balanceChange"]), ("wrong_result", "solver", "0"))
        lost, = [entry for entry in task["slashes"] if entry["reason"] == "wrong_result"]
        self.assertEqual(int(slash["bondChange"]), -int(lost["amount"], 16))
        share, = self.of(everybody["submitter"], task["id"], "slash_share")
        self.assertGreater(int(share["amount"], 16), 0)
        history = self.history(task["id"])
        self.assert_tells_all(history, task["id"])
        opened, = {each["dispute"] for each in history if each["event"] == "DisputeClosed" and
                   each["fields"]["winner"] == "rival"}
        self.assert_order(history, ("SolverAssigned", None), ("DisputeOpened", None), ("DisputeMoved", None),
                          ("DisputeClosed", "rival"), ("Slashed", "wrong_result"), ("Paid", "slash_share"),
                          ("TaskStateChanged", "open"), ("SolverAssigned", None), ("TaskStateChanged", "settled"))
        moves = [each for each in history if each["event"] == "DisputeMoved" and each["dispute"] == opened]
        self.assertEqual(len(moves), self.net.node.dispute_get(opened)["rounds"])
        self.assertEqual(moves[-1]["fields"]["phase"], "decided")


if __name__ == "__main__":
    framework.main()
