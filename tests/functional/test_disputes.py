#!/usr/bin/env python3
"""Dishonest solvers and verifiers, each beaten by real processes."""
import framework
from framework import CHEAP, PASS_TARGET


class DishonestSolver(framework.MarketTest):
    def beaten(self, fault, **spec):
        before, _ = self.bond("solver1")
        self.workers(solver1=f"{CHEAP} --test-fault={fault}", solver2="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit(**spec))
        self.assertEqual((task["stateName"], task["round"]), ("settled", 1), task["reason"])
        self.assertEqual(self.slashed(task), {("solver1", "wrong_result")})
        after, faults = self.bond("solver1")
        self.assertLess(after, before)
        self.assertGreater(faults, 0)
        self.assertEqual(len(self.payments(task, "solver2", "solver_reward")), 1)
        self.assertEqual(self.payments(task, "solver1", "solver_reward"), [])
        executed = [d for d in self.disputes(task) if d["leafExecuted"]]
        self.assertEqual(len(executed), 1, "the chain executes one leaf, then the other games are moot")
        dispute = executed[0]
        self.assertEqual((dispute["winnerName"], dispute["reason"]), ("rival", "leaf"))
        self.assertGreater(dispute["leafMicroseconds"], 0)
        self.assertLess(dispute["bytes"], 200_000)
        self.assertEqual(self.bond("verifier1")[1], 0, "an honest verifier was slashed")
        self.assert_supply()
        return dispute

    def test_one_flipped_element(self):
        self.assertEqual(self.beaten("flip_element")["leafOpName"], "matmul")

    def test_a_wrong_update_in_one_step(self):
        self.assertEqual(self.beaten("wrong_update@7")["gameView"]["step"], 7)

    def test_a_wrong_update_inside_a_stride(self):
        game = self.beaten("wrong_update@8", stride=framework.STRIDE)["gameView"]
        self.assertEqual((game["stride"], game["step"]), (2, 8))

    def test_skipped_work(self):
        self.assertEqual(self.beaten("skip_work@12")["gameView"]["step"], 12)

    def test_a_silent_solver_loses_by_its_clock(self):
        self.workers(solver1=f"{CHEAP} --test-fault=flip_element", solver2="")
        self.verifiers()
        number = self.submit()
        self.wait(number, "disputed")
        self.net.workers.pop("solver1").kill()
        task = self.wait(number)
        self.assertEqual((task["stateName"], task["round"]), ("settled", 1), task["reason"])
        self.assertIn(("solver1", "wrong_result"), self.slashed(task))
        self.assertIn("clock", {d["reason"] for d in self.disputes(task)})
        self.assert_supply()


class DishonestVerifiers(framework.MarketTest):
    def test_passing_wrong_work_is_beaten_by_the_whistleblower(self):
        self.workers(solver1=f"{CHEAP} --test-fault=flip_element", solver2="", whistleblower="")
        self.verifiers("--test-fault=pass_without_work")
        number = self.submit()
        self.wait(number, "disputed")
        task = self.solver_lost(number)
        self.assertIn(("solver1", "wrong_result"), self.slashed(task))
        for name in ("verifier1", "verifier2", "verifier3"):
            self.assertIn((name, "passed_wrong_result"), self.slashed(task))
            self.assertEqual(self.payments(task, name, "verifier_fee"), [])
        # One leaf beats the solver. Each verifier lost a game of its own: it executed what it had passed.
        dispute = next(d for d in self.disputes(task) if d["target"] == 0)
        self.assertEqual((dispute["winnerName"], dispute["reason"]), ("rival", "leaf"))
        passes = [d for d in self.disputes(task) if d["target"] >= PASS_TARGET]
        self.assertEqual({self.net.name_of(d["defender"]) for d in passes}, {"verifier1", "verifier2", "verifier3"})
        self.assertEqual({d["winnerName"] for d in passes}, {"rival"})
        self.assertEqual({self.net.name_of(d["rival"]) for d in self.disputes(task)}, {"whistleblower"})
        self.assertEqual(len(self.payments(task, "whistleblower", "bounty")), 4)
        self.finished_by_honest_verifiers(number)

    def test_invented_probes_of_right_work_are_beaten_too(self):
        self.workers(solver2="", whistleblower="", verifier1="--test-fault=pass_without_work", verifier2="", verifier3="")
        task = self.wait(self.submit())
        self.assertEqual((task["stateName"], task["round"]), ("settled", 0), task["reason"])
        self.assertEqual(self.slashed(task), {("verifier1", "wrong_probe")})
        self.assertEqual(self.payments(task, "verifier1", "verifier_fee"), [])
        self.assertEqual(len(self.payments(task, "verifier2", "verifier_fee")), 1)
        self.assertEqual(len(self.payments(task, "solver2", "solver_reward")), 1)
        self.assert_supply()

    def test_a_peer_beats_invented_probes_where_nobody_else_watches(self):
        self.workers(solver2="", verifier1="--test-fault=pass_without_work", verifier2="", verifier3="")
        before = {name: self.bond(name)[0] for name in ("verifier2", "verifier3")}
        task = self.wait(self.submit())
        self.assertEqual((task["stateName"], task["round"]), ("settled", 0), task["reason"])
        self.assertEqual(self.slashed(task), {("verifier1", "wrong_probe")})
        # Both have found it; who was slower has its stake back.
        disputes = self.disputes(task)
        winner, = [dispute for dispute in disputes if dispute["winnerName"] == "rival"]
        self.assertEqual((self.net.name_of(winner["defender"]), winner["rivalRoleName"]), ("verifier1", "verifier"))
        self.assertEqual({d["winnerName"] for d in disputes} - {"rival"}, {"none"} if len(disputes) > 1 else set())
        winner = self.net.name_of(winner["rival"])
        self.assertIn(winner, before)
        self.assertEqual(len(self.payments(task, winner, "bounty")), 1)
        for name, bonded in before.items():
            self.assertEqual(self.bond(name), (bonded, 0))
            self.assertEqual(len(self.payments(task, name, "verifier_fee")), 1)
        self.assert_supply()


if __name__ == "__main__":
    framework.main()
