"""Verifiers that want their fee without the work, or somebody else's harm."""
import os

from attack import Attack
from market import CHEAP, CUSTODIANS, STEPS, Refused


class OneVerifier(Attack):
    mallory, honest = {"mallory1": "verifier"}, ("solver1", "verifier1", "verifier2", "whistleblower1")

    @staticmethod
    def receive(market, number):
        """Says that it has the data, if the others have not ended that window yet: two thirds are enough."""
        market.wait(number, "custody", "committing")
        try:
            market.act("mallory1", "custody_receipt", {"task": number, "stretch": 0, "dataOk": True})
        except Refused:
            market.wait(number, "committing")


class CopiedResult(OneVerifier):
    name, what = "copied-result", "commits to what another verifier committed to, and reveals what it reveals"

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2")
        number = market.submit(verify_s=25)
        begin = market.node.height()
        self.receive(market, number)
        copied = market.until(lambda: market.transactions("verify_commit", number, first_block=begin), "a commitment")
        market.act("mallory1", "verify_commit", copied[0][2])
        shown = market.until(lambda: market.transactions("verify_reveal", number, first_block=begin), "a reveal")
        caught = market.refusal("mallory1", "verify_reveal", shown[0][2])
        market.settled(number)
        market.require_slash(number, "mallory1", "no_reveal")
        return f"{caught}: a commitment binds its sender; slash no_reveal"


class WithheldReveal(OneVerifier):
    name, what = "withheld-reveal", "commits to nothing in particular, and waits for the others"

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2")
        number = market.submit(verify_s=25)
        self.receive(market, number)
        market.act("mallory1", "verify_commit", {"task": number, "stretch": 0, "commitment": "0x" + "5a" * 32})
        market.settled(number)
        market.require_slash(number, "mallory1", "no_reveal")
        market.require("mallory1" not in market.paid(number, "verifier_fee"), "it has a fee")
        return "slash no_reveal, and no fee"


class LazyPass(OneVerifier):
    name, what = "lazy-pass", "says PASS with the right verdict, told by a friend, and makes up its probes"

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2", "whistleblower1", mallory1="--test-fault=pass_without_work")
        number = market.submit()
        market.settled(number)
        market.require_slash(number, "mallory1", "wrong_probe")
        return "the game about a probe: slash wrong_probe"


class ForcedLazyPass(LazyPass):
    name, what = "forced-lazy-pass", "the same, hoping to be taken for forced"
    parameters = {"forced_error_inverse": 1}


class FalseFail(OneVerifier):
    name, what = "false-fail", "fails right work, to have it done again"

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2", mallory1="--test-fault=false_accusation")
        number = market.submit()
        market.settled(number)
        market.require_slash(number, "mallory1", "false_fail")
        return "the solver wins the game: slash false_fail"


class WrongChoice(OneVerifier):
    name, what = "wrong-choice", "tells the true result where it must tell an altered one: no jackpots"
    parameters = {"forced_error_inverse": 1}

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2", mallory1="--test-fault=wrong_choice")
        number = market.submit()
        market.settled(number)
        market.require_slash(number, "mallory1", "wrong_choice")
        return "its own opening: slash wrong_choice"


class SilentOpening(OneVerifier):
    name, what = "silent-opening", "never says whether it was forced"
    parameters = {"forced_error_inverse": 1}

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2", mallory1="--test-fault=silent_opening")
        number = market.submit()
        market.settled(number)
        market.require_slash(number, "mallory1", "not_opened")
        market.require("mallory1" not in market.paid(number, "verifier_fee"), "it has a fee")
        return "slash not_opened, and no fee"


class BoughtDraw(Attack):
    name, what = "bought-draw", "the solver lies, and all who are drawn are its friends"
    mallory = {"mallory1": "solver", "mallory2": "verifier", "mallory3": "verifier", "mallory4": "verifier"}
    honest = ("solver1", "whistleblower1")

    def lie(self, market, *watchers, **spec):
        market.work(*watchers, mallory1=f"{CHEAP} --test-fault=flip_element",
                    **{f"mallory{i}": "--test-fault=pass_without_work" for i in (2, 3, 4)})
        return market.submit(**spec)

    def beaten(self, market, number):
        market.until(lambda: market.task(number)["round"] == 1, "the solver to lose")
        market.require_slash(number, "mallory1", "wrong_result")
        for i in (2, 3, 4):
            market.require_slash(number, f"mallory{i}", "passed_wrong_result")
        self.another_round(market, number)

    def another_round(self, market, number):
        market.rest("mallory2", "mallory3", "mallory4")
        market.work("solver1", mallory2="", mallory3="", mallory4="")
        market.settled(number, round=1)

    def play(self, market):
        self.beaten(market, self.lie(market, "whistleblower1"))
        return "one whistleblower's games: wrong_result, 3 x passed_wrong_result"


class BoughtDrawAndPlaces(BoughtDraw):
    name, what = "squatted-challenges", "the same, and friends keep all places for challenges taken"
    mallory = {**BoughtDraw.mallory, "mallory5": "whistleblower", "mallory6": "whistleblower"}
    parameters = {"max_commitments": 4}

    def play(self, market):
        number = self.lie(market, "whistleblower1", challenge_s=30)
        market.wait(number, "proved", "custody", "committing", "revealing", "challenge")
        for name, marks in (("mallory5", ("01", "02")), ("mallory6", ("03", "04"))):
            market.act_all(name, "challenge_commit",
                           [{"task": number, "stretch": 0, "commitment": "0x" + mark * 32} for mark in marks])
        market.until(lambda: market.task(number)["round"] == 1, "the solver to lose")
        market.require_slash(number, "mallory1", "wrong_result")
        passed = sum(1 for _, reason in market.slashes(number) if reason == "passed_wrong_result")
        self.another_round(market, number)
        return f"the oldest gives way: wrong_result. {3 - passed} who passed it go free: their games came too late"


class ServedToFriends(BoughtDraw):
    """The liar and its friends are at node1, custodians at node0, and the whistleblower at node2, which has no way to node1.
    The lie is in the second stretch, whose first state nobody can train."""

    name = "served-to-friends"
    what = "the same in a second stretch, whose history is served to friends and, as it must be, to custodians by fragment"
    honest, parameters, followers = ("solver1", "whistleblower1", *CUSTODIANS), {"custodians": len(CUSTODIANS)}, 2
    friends = ("mallory2", "mallory3", "mallory4")

    def play(self, market):
        market.work(*CUSTODIANS)
        market.work("whistleblower1", node=2)
        liar = f"{CHEAP} --test-fault=flip_element@{STEPS // 2 + 5}"
        market.work(*self.friends, node=1, mallory1=liar)
        number = market.submit(tranche=STEPS // 2, stride=5, challenge_s=45, heartbeat_s=60)
        # The first stretch is honest, and they are: who watches would see probes that are made up.
        market.wait(number, "proved", "custody")
        market.rest("mallory1")
        market.wait(number, "challenge")
        market.rest(*self.friends)
        market.work(node=1, mallory1=liar, **{name: "--test-fault=pass_without_work" for name in self.friends})
        self.beaten(market, number)
        log = os.path.join(market.directory, "whistleblower1.log")
        with open(log, errors="replace") as told:
            market.require("restored from fragments" in told.read(), "the whistleblower had it from somewhere else")
        return "a whistleblower that puts the history together from fragments: wrong_result, 3 x passed_wrong_result"
