"""No attack: shows that the table would tell of one that pays. Runs by name only."""
from attack import Attack


class HonestWork(Attack):
    name, what = "honest-work", "trains as it should, and is paid for it"
    mallory, honest, listed = {"mallory1": "solver"}, ("verifier1", "verifier2", "verifier3"), False

    def play(self, market):
        market.work("mallory1", "verifier1", "verifier2", "verifier3")
        market.settled(market.submit())
        return "nothing"
