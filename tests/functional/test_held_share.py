#!/usr/bin/env python3
"""The share of a reward that is held after settlement: asked for a piece, accepted, and lost by silence."""
import framework
from quern import events
from quern.market import act


class HeldShare(framework.MarketTest):
    market = {**framework.MARKET, "held_percent": 20}

    def with_held_share(self, **windows):
        number = self.submit(**windows)
        task = self.wait(number, "settled")
        reward = int(task["claim"]["work"], 16) * int(task["claim"]["price"], 16)
        held = int(task["held"], 16)
        self.assertEqual(held, reward // 5)
        self.assertEqual(self.payments(task, "solver1", "solver_reward"), [reward - held])
        self.assertEqual(int(task["escrow"], 16), int(task["deposit"], 16) + held)
        retention = int(self.net.node.quern_params()["market"]["retention_s"])
        self.assertEqual(task["heldUntil"], task["since"] + 1000 * retention)
        self.assert_supply()
        return number, held

    def sign(self, command, number, *options):
        act(self.net, self.net.accounts["submitter"], command, "--task", number, *options)

    def until(self, number, done):
        def look():
            task = self.net.node.task_get(number)
            return task if done(task) else None
        return self.net.wait_until(look, framework.TASK_TIMEOUT_S, f"task {number} to be asked or answered")

    def test_a_piece_is_shown_and_the_result_accepted(self):
        self.workers(solver1="")
        self.verifiers()
        number, held = self.with_held_share()
        # A slot of the parameters, and a tile beyond its end: each number names one.
        for slot, tile in ((0, 0), (3, 10**9 + 7)):
            self.sign("data-challenge", number, "--slot", slot, "--tile", tile)
            self.until(number, lambda task: not task["asked"])
        answered = events.find(self.net.node, "DataAnswered", task=number)
        self.assertEqual([(event["slot"], event["tile"]) for event in answered], [(0, 0), (3, 10**9 + 7)])
        self.assertEqual({event["from"] for event in answered}, {self.net.accounts["solver1"].address.lower()})
        gamma = int(self.net.node.quern_params()["market"]["dispute_cost"], 0)
        task = self.net.node.task_get(number)
        self.assertEqual(self.payments(task, "solver1", "data_answer"), [gamma] * 2)
        self.assertEqual(int(task["held"], 16), held)
        self.sign("accept", number)
        task = self.until(number, lambda task: int(task["held"], 16) == 0)
        self.assertIsNone(task["heldUntil"])
        self.assertEqual(self.payments(task, "solver1", "held_reward"), [held])
        self.assert_supply()

    def test_without_the_solver_the_share_is_the_submitters(self):
        self.workers(solver1="")
        self.verifiers()
        number, held = self.with_held_share(verify_s=20)
        self.net.workers.pop("solver1").stop()
        self.sign("data-challenge", number, "--slot", 0)
        asked = self.until(number, lambda task: task["asked"])["asked"][0]
        # A verifier's worker ticks.
        task = self.until(number, lambda task: not task["asked"])
        self.assertEqual(self.payments(task, "submitter", "held_forfeited"), [held])
        self.assertEqual(self.payments(task, "submitter", "data_prepaid"), [int(asked["prepaid"], 16)])
        self.assertEqual(self.payments(task, "solver1", "held_reward"), [])
        self.assert_supply()


class HeldToTheEnd(framework.MarketTest):
    market = {**framework.MARKET, "held_percent": 50, "retention_s": 20}

    def test_the_solver_collects_its_share_when_the_retention_is_over(self):
        self.workers(solver1="")
        self.workers(verifier1="--no-ticks", verifier2="--no-ticks", verifier3="")
        number = self.submit()
        held = int(self.wait(number, "settled")["held"], 16)
        self.assertGreater(held, 0)
        self.net.wait_until(lambda: self.net.node.task_get(number) is None, 60, "the task to be deleted")
        paid = [event for event in events.find(self.net.node, "Paid", task=number) if event["reason"] == "held_reward"]
        self.assertEqual([(event["to"], event["amount"]) for event in paid],
                         [(self.net.accounts["solver1"].address.lower(), held)])
        self.assert_supply()


if __name__ == "__main__":
    framework.main()
