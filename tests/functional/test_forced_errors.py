#!/usr/bin/env python3
"""Verifiers that must tell altered results, watchers that are paid for seeing it, and those who break the rules."""
import framework
from quern import events


class ForcedErrors(framework.MarketTest):
    market = {**framework.MARKET, "forced_error_inverse": 1}  # each report must

    def told(self, name, number):
        return events.find(self.net.node, name, task=number)

    def test_watchers_find_what_verifiers_were_forced_to_tell(self):
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        number = self.submit()
        task = self.settled(number)
        self.assertEqual(self.slashed(task), set(), "a forced error costs nobody anything")
        self.assertEqual([report["choice"] for report in task["claim"]["reports"]], [2, 2, 2])
        self.assertEqual({event["choice"] for event in self.told("ReportOpened", number)}, {2})
        whistleblower = self.net.accounts["whistleblower"].address.lower()
        found = [event["report"] for event in self.told("ErrorFound", number) if event["watcher"] == whistleblower]
        self.assertEqual(sorted(found), [0, 1, 2], "it has all that whistleblowers have bonded, and so watches all")
        jackpots = [event["amount"] for event in self.told("Paid", number)
                    if event["reason"] == "jackpot" and event["to"] == whistleblower]
        tax = int(task["spec"]["money"]["tax"], 16)
        self.assertEqual(jackpots, [tax // 3] * 3)
        self.assertEqual(self.disputes(task), [], "nobody challenges what had to be told")
        for name in ("verifier1", "verifier2", "verifier3"):
            self.assertEqual(len(self.payments(task, name, "verifier_fee")), 1)

    def test_who_tells_the_truth_where_it_must_not_is_slashed(self):
        self.workers(solver1="", verifier1="--test-fault=wrong_choice", verifier2="", verifier3="")
        task = self.settled(self.submit())
        self.assertEqual(self.slashed(task), {("verifier1", "wrong_choice")})
        self.assertEqual(self.payments(task, "verifier1", "verifier_fee"), [])
        self.assertEqual(len(self.payments(task, "verifier2", "verifier_fee")), 1)

    def test_who_does_not_open_loses_its_fee(self):
        self.workers(solver1="", verifier1="--test-fault=silent_opening", verifier2="", verifier3="")
        task = self.settled(self.submit())
        self.assertEqual(self.slashed(task), {("verifier1", "not_opened")})
        self.assertEqual(self.payments(task, "verifier1", "verifier_fee"), [])

    def test_a_lazy_verifier_is_not_saved_by_being_forced(self):
        self.workers(solver1="", whistleblower="", verifier1="--test-fault=pass_without_work", verifier2="", verifier3="")
        task = self.settled(self.submit())
        self.assertEqual(self.slashed(task), {("verifier1", "wrong_probe")})
        found = [self.payments(task, name, "bounty") for name in ("whistleblower", "verifier2", "verifier3")]
        self.assertEqual(len(sum(found, [])), 1, "who watches, or a peer")


if __name__ == "__main__":
    framework.main()
