#!/usr/bin/env python3
"""Whistleblowers and verifiers that accuse wrongly, or fall silent, on real processes."""
import framework
from framework import CHEAP, PASS_TARGET


class FalseAccusers(framework.MarketTest):
    def test_a_false_whistleblower_loses_its_stake(self):
        before, _ = self.bond("whistleblower")
        self.workers(solver2="", whistleblower="--test-fault=false_accusation")
        self.verifiers()
        # It has to be in time on a busy machine, too.
        task = self.wait(self.submit(challenge_s=25))
        self.assertEqual((task["stateName"], task["round"]), ("settled", 0), task["reason"])
        self.assertEqual(self.slashed(task), {("whistleblower", "false_accusation")})
        self.assertLess(self.bond("whistleblower")[0], before)
        self.assertEqual(len(self.payments(task, "solver2", "solver_reward")), 1)
        # The solver and everybody who passed its work, each of them right, defend themselves.
        self.assertEqual({d["target"] for d in self.disputes(task)}, {0, *range(PASS_TARGET, PASS_TARGET + 3)})
        self.assertEqual({d["winnerName"] for d in self.disputes(task)}, {"defender"})
        self.assert_supply()

    def test_two_who_lie_about_one_element_both_lose(self):
        self.workers(solver1=f"{CHEAP} --test-fault=flip_element@21", solver2="", whistleblower="--test-fault=other_flip@21")
        self.verifiers("--test-fault=pass_without_work")
        number = self.submit(challenge_s=25)
        self.wait(number, "disputed")
        task = self.solver_lost(number)
        self.assertIn(("solver1", "wrong_result"), self.slashed(task))
        self.assertIn(("whistleblower", "false_accusation"), self.slashed(task))
        dispute = next(d for d in self.disputes(task) if d["target"] == 0)
        self.assertEqual((dispute["winnerName"], dispute["reason"]), ("neither", "leaf"))
        self.assertTrue(dispute["leafExecuted"])
        game = dispute["gameView"]
        self.assertNotIn(game["trueValue"], game["values"].values())
        self.net.workers.pop("whistleblower").stop()
        self.finished_by_honest_verifiers(number)

    def test_a_silent_accuser_loses_by_its_clock(self):
        self.workers(solver2="", whistleblower="--test-fault=false_accusation")
        self.verifiers()
        number = self.submit(challenge_s=25, heartbeat_s=12)
        self.wait(number, "disputed")
        self.net.workers.pop("whistleblower").kill()
        task = self.wait(number)
        self.assertEqual((task["stateName"], task["round"]), ("settled", 0), task["reason"])
        self.assertIn(("whistleblower", "false_accusation"), self.slashed(task))
        self.assertEqual({name for name, _ in self.slashed(task)}, {"whistleblower"})
        self.assertEqual({d["winnerName"] for d in self.disputes(task)}, {"defender"})
        self.assertIn("clock", {d["reason"] for d in self.disputes(task)})
        self.assert_supply()

    def test_a_false_fail_loses_the_verifiers_stake(self):
        self.workers(solver2="", whistleblower="", verifier1="--test-fault=false_accusation", verifier2="", verifier3="")
        task = self.wait(self.submit())
        self.assertEqual((task["stateName"], task["round"]), ("settled", 0), task["reason"])
        # It says so of those who passed it, too, as far as there is time.
        self.assertIn(("verifier1", "false_fail"), self.slashed(task))
        self.assertLessEqual(self.slashed(task), {("verifier1", "false_fail"), ("verifier1", "false_accusation")})
        self.assertEqual(self.payments(task, "verifier1", "verifier_fee"), [])
        self.assertEqual(self.bond("solver2")[1], 0)
        self.assert_supply()


if __name__ == "__main__":
    framework.main()
