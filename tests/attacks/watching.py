"""Those who want jackpots that are not theirs."""
from attack import Attack


class SybilWatchers(Attack):
    name, what = "sybil-watchers", "one purse watches from two bonds"
    mallory, honest = {"mallory1": "whistleblower", "mallory2": "whistleblower"}, ("solver1", "verifier1", "verifier2",
                                                                                  "verifier3")
    parameters = {"forced_error_inverse": 1}

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2", "verifier3", "mallory1", "mallory2")
        number = market.submit()
        task = market.settled(number)
        self.jackpots = int(task["spec"]["money"]["tax"], 16) // 3 * 3
        found = market.told("ErrorFound", number)
        market.require(found, "nobody watched")
        return f"chance by bond, jackpot / 2^(n-1) each: {len(found)} verdicts"

    def fair(self, market):
        return self.jackpots  # of one that watches all three reports


class JackpotDrain(Attack):
    name, what = "jackpot-drain", "submits micro-tasks to itself, with all roles, to empty the vault"
    mallory = {"mallory1": None, "mallory2": "solver", "mallory3": "verifier", "mallory4": "verifier", "mallory5": "verifier",
               "mallory6": "whistleblower"}
    honest, parameters = ("solver1",), {"forced_error_inverse": 1}

    def play(self, market):
        crew = ("mallory3", "mallory4", "mallory5")
        market.work("solver1", *crew)
        market.settled(market.submit(tax="1qrn"))  # nobody watches: its tax stays in the vault
        market.rest("solver1")
        market.before = market.purses()
        vault = int(market.node.quern_supply()["jackpotVault"], 16)
        market.require(vault >= 10**18, "the vault is empty")
        market.work("mallory2", "mallory6")
        for _ in range(2):
            number = market.submit("mallory1", steps=10, interval=10)
            market.settled(number)
            market.require(market.told("Paid", number, reason="jackpot"), "nobody was paid a jackpot")
        left = int(market.node.quern_supply()["jackpotVault"], 16)
        market.require(left >= vault, f"{vault - left} grains of others' tax are gone")
        return "a task's jackpots are its own tax at most"
