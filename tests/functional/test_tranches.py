#!/usr/bin/env python3
"""Tasks that are verified and paid for in tranches while their solver trains on, and that another solver goes on with."""
import framework
from quern import events

TRANCHE = framework.STEPS // 2
FIRST, SECOND = 0, 1


class Tranches(framework.MarketTest):
    def claim(self, task, stretch, round_number=0):
        return self.net.node.claim_get(task["id"], 0, stretch, round_number)

    def assert_paid(self, claim, payments, name):
        self.assertEqual(self.payments({"payments": payments}, name, "solver_reward"),
                         [int(claim["work"], 16) * int(claim["price"], 16)])

    def test_each_is_paid_when_it_is_settled_and_the_next_is_trained_meanwhile(self):
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit(tranche=TRANCHE))
        self.assertEqual((task["stateName"], task["round"], task["settled"]), ("settled", 0, 2), task["reason"])
        first, second = self.claim(task, FIRST), self.claim(task, SECOND)
        self.assertEqual((first["firstStep"], first["lastStep"]), (1, TRANCHE))
        self.assertEqual((second["firstStep"], second["lastStep"]), (TRANCHE + 1, framework.STEPS))
        self.assertEqual(second["startRoot"], first["finalRoot"])
        self.assertEqual(int(first["work"], 16) + int(second["work"], 16), int(task["totalWork"], 16))
        self.assert_paid(first, first["payments"], "solver1")
        self.assert_paid(second, task["payments"], "solver1")
        for claim in first, second:
            self.assertEqual((claim["stateName"], claim["reason"], len(claim["reports"])), ("settled", "unchallenged", 3))
        changes = [(event["stretch"], event["to"]) for event in
                   events.find(self.net.node, "ClaimStateChanged", task=task["id"])]
        working, settled = 1, 10
        self.assertLess(changes.index((SECOND, working)), changes.index((FIRST, settled)))
        self.assertLess(changes.index((FIRST, settled)), changes.index((SECOND, settled)))
        proof = self.net.node.proof_get(task["id"])
        self.assertEqual((proof["finalRoot"], proof["steps"], proof["passes"]),
                         (second["finalRoot"], framework.STEPS, 3))
        self.assert_learned(task["id"], framework.STEPS // framework.INTERVAL)
        self.assert_supply()

    def test_a_lie_in_the_second_costs_its_solver_that_one_and_another_goes_on(self):
        step = TRANCHE + 5
        self.workers(solver1=f"--price=1 --test-fault=wrong_update@{step}", solver2="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit(tranche=TRANCHE, stride=framework.STRIDE))
        self.assertEqual((task["stateName"], task["round"]), ("settled", 1), task["reason"])
        first, wrong, right = self.claim(task, FIRST), self.claim(task, SECOND), self.claim(task, SECOND, 1)
        solver1, solver2 = (self.net.accounts[name].address.lower() for name in ("solver1", "solver2"))
        self.assertEqual((first["stateName"], first["solver"]), ("settled", solver1))
        self.assertEqual((wrong["stateName"], wrong["solver"]), ("void", solver1))
        self.assertEqual((right["stateName"], right["solver"]), ("settled", solver2))
        self.assertEqual(right["startRoot"], first["finalRoot"])
        self.assertEqual(right["seedBeacon"], first["seedBeacon"])
        self.assert_paid(first, first["payments"], "solver1")
        self.assert_paid(right, task["payments"], "solver2")
        slashes = self.slashed(task) | self.slashed(first)
        self.assertIn(("solver1", "wrong_result"), slashes)
        games = [self.net.node.dispute_get(number) for number in wrong["disputes"]]
        decided = [game for game in games if game["winnerName"] == "rival" and game["leafExecuted"]]
        self.assertTrue(decided)
        self.assertEqual(decided[0]["gameView"]["step"], step)
        self.assert_supply()


if __name__ == "__main__":
    framework.main()
