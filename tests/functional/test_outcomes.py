#!/usr/bin/env python3
"""Ends of claims that no worker chooses by itself: who concedes, who accuses and never says what, errors nobody watches."""
import framework
from framework import CHEAP
from quern import events
from quern.market import native


class Outcomes(framework.MarketTest):
    def concede(self, name, number):
        """Its worker is gone, and it gives up its games, that about the history first, which is returned."""
        self.wait(number, "disputed")
        self.net.workers.pop(name).kill()
        # What it had sent opens games, too.
        address = self.net.accounts[name].address
        self.net.wait_until(lambda: len({self.net.node.eth_getTransactionCount(address, block)
                                         for block in ("latest", "pending")}) == 1,
                            framework.TASK_TIMEOUT_S, f"what {name} has sent to be in blocks")
        games = [d for d in self.disputes(self.net.node.task_get(number)) if not d["closedAt"]]
        for game in sorted(games, key=lambda d: d["target"]):
            if not self.net.node.dispute_get(game["id"])["closedAt"]:  # one that was won makes others moot
                native(self.net, self.net.accounts[name], "dispute_concede", {"dispute": game["id"]})
        return next(d for d in self.disputes(self.net.node.task_get(number)) if d["target"] == 0)

    def test_a_solver_that_concedes_has_lost_its_claim(self):
        self.workers(solver1=f"{CHEAP} --test-fault=flip_element@21", solver2="", whistleblower="")
        self.verifiers("--test-fault=pass_without_work")
        number = self.submit(challenge_s=25)
        dispute = self.concede("solver1", number)
        self.assertEqual((dispute["winnerName"], dispute["reason"]), ("rival", "conceded"))
        self.assertFalse(dispute["leafExecuted"])
        task = self.solver_lost(number)
        self.assertIn(("solver1", "wrong_result"), self.slashed(task))
        self.assertEqual(self.payments(task, "solver1", "solver_reward"), [])
        self.finished_by_honest_verifiers(number)

    def test_an_accuser_that_concedes_loses_its_stake(self):
        self.workers(solver2="", whistleblower="--test-fault=false_accusation")
        self.verifiers()
        number = self.submit(challenge_s=25)
        dispute = self.concede("whistleblower", number)
        self.assertEqual((dispute["winnerName"], dispute["reason"]), ("defender", "conceded"))
        task = self.wait(number)
        self.assertEqual((task["stateName"], task["round"]), ("settled", 0), task["reason"])
        self.assertIn(("whistleblower", "false_accusation"), self.slashed(task))
        self.assertEqual({name for name, _ in self.slashed(task)}, {"whistleblower"})
        self.assertEqual(len(self.payments(task, "solver2", "solver_reward")), 1)
        self.assert_supply()

    def test_an_accusation_that_is_never_revealed_costs_half_its_stake(self):
        self.workers(solver2="")
        self.verifiers()
        number = self.submit()
        self.wait(number, "committing", "revealing", "challenge")
        before, _ = self.bond("whistleblower")
        native(self.net, self.net.accounts["whistleblower"], "challenge_commit",
               {"task": number, "stretch": 0, "commitment": "0x" + "11" * 32})
        stake = events.find(self.net.node, "ChallengeCommitted", task=number)[0]["stake"]
        task = self.wait(number)
        self.assertEqual((task["stateName"], task["round"]), ("settled", 0), task["reason"])
        self.assertEqual(self.slashed(task), {("whistleblower", "no_challenge_reveal")})
        percent = int(self.net.node.quern_params()["market"]["no_challenge_reveal_slash_percent"])
        self.assertEqual(before - self.bond("whistleblower")[0], stake * percent // 100)
        self.assertEqual(self.disputes(task), [])
        self.assert_supply()


class UnwatchedErrors(framework.MarketTest):
    market = {**framework.MARKET, "forced_error_inverse": 1}

    def test_an_error_that_nobody_saw_leaves_the_tax_in_the_vault(self):
        self.workers(solver1="")
        self.verifiers()
        vault = int(self.net.node.quern_supply()["jackpotVault"], 16)
        number = self.submit()
        task = self.wait(number)
        self.assertEqual((task["stateName"], task["round"]), ("settled", 0), task["reason"])
        self.assertEqual([report["choice"] for report in task["claim"]["reports"]], [2, 2, 2], "all were forced")
        self.assertEqual(self.slashed(task), set())
        self.assertNotIn("jackpot", {event["reason"] for event in events.find(self.net.node, "Paid", task=number)})
        tax = int(task["spec"]["money"]["tax"], 16)
        grown = int(self.net.node.quern_supply()["jackpotVault"], 16) - vault
        self.assertGreaterEqual(grown, tax)
        self.assertLess(grown, tax + tax // 2, "beside it a part of the base fees, which is less")
        for name in ("verifier1", "verifier2", "verifier3"):
            self.assertEqual(len(self.payments(task, name, "verifier_fee")), 1)
        self.assert_supply()


if __name__ == "__main__":
    framework.main()
