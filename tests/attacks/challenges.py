"""Accusers that want bounties, delay, or somebody else's challenge."""
from attack import Attack
from market import CHEAP


class SelfChallenge(Attack):
    name, what = "self-challenge", "lies, and has a friend accuse it first, for the bounty"
    mallory, honest = {"mallory1": "solver", "mallory2": "whistleblower"}, ("solver1", "verifier1", "verifier2", "verifier3")

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2", "verifier3", "mallory2",
                    mallory1=f"{CHEAP} --test-fault=flip_element")
        number = market.submit()
        market.settled(number, round=1)
        market.require(market.transactions("challenge_commit", number, market.address("mallory2")), "the friend accused nobody")
        market.require_slash(number, "mallory1", "wrong_result")
        return "more is burned than a friend can win; FAILs come first"


class FrontRunChallenge(Attack):
    name, what = "front-run-challenge", "copies an honest whistleblower's commitment, then its reveal"
    mallory, purse = {"mallory1": "whistleblower", "mallory2": "solver"}, ("mallory1",)  # the liar is nobody's friend

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2", "verifier3", "whistleblower1",
                    mallory2=f"{CHEAP} --test-fault=flip_element")
        number = market.submit(challenge_s=25)
        honest = market.address("whistleblower1")
        committed = market.until(lambda: market.transactions("challenge_commit", number, honest), "a challenge")
        market.act("mallory1", "challenge_commit", committed[0][2])
        revealed = market.until(lambda: market.transactions("challenge_reveal", number, honest), "its reveal")
        caught = market.refusal("mallory1", "challenge_reveal", revealed[0][2])
        market.settled(number, round=1)
        return f"{caught}: a commitment binds its sender, who has paid gas for it"


class StrawChallengers(Attack):
    name, what = "straw-challengers", "two accuse right work, to wear its solver and its verifiers out"
    mallory, honest = {"mallory1": "whistleblower", "mallory2": "whistleblower"}, ("solver1", "verifier1", "verifier2",
                                                                                  "verifier3")

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2", "verifier3", mallory1="--test-fault=false_accusation",
                    mallory2="--test-fault=false_accusation@3")
        number = market.submit(challenge_s=25)
        market.settled(number, timeout=600)
        for name in self.mallory:
            market.require_slash(number, name, "false_accusation")
        games = market.disputes(number)
        market.require({game["winnerName"] for game in games} == {"defender"}, "a straw man won")
        return f"{len(games)} games, all won by the defenders: slash false_accusation"


class ClockExhaustion(Attack):
    name, what = "clock-exhaustion", "accuses, and never moves again"
    mallory, honest = {"mallory1": "whistleblower"}, ("solver1", "verifier1", "verifier2", "verifier3")
    parameters = {"dispute_clock_s": 6}

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2", "verifier3", mallory1="--test-fault=false_accusation")
        number = market.submit(challenge_s=25, heartbeat_s=12)
        market.wait(number, "disputed")
        market.net.workers.pop("mallory1").kill()
        market.settled(number, timeout=600)
        market.require_slash(number, "mallory1", "false_accusation")
        return "its own clock: slash false_accusation"


class SilentSolver(Attack):
    name, what = "silent-solver", "lies, and lets its clocks run out instead of losing at the leaf"
    mallory = {"mallory1": "solver"}
    parameters = {"dispute_clock_s": 6}

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2", "verifier3", mallory1=f"{CHEAP} --test-fault=flip_element")
        number = market.submit(heartbeat_s=12)
        market.wait(number, "disputed")
        market.net.workers.pop("mallory1").kill()
        market.settled(number, round=1)
        market.require_slash(number, "mallory1", "wrong_result")
        return "its own clock: slash wrong_result"
