"""Those who propose blocks, and make of that what they can."""
import hashlib
import signal
import threading
import time

from attack import Attack
from keys import Key


class Grinder(threading.Thread):
    """Stops a validator's node whenever it is about to propose a block whose beacon does not suit, until another one has
    proposed. wanted(beacon): whether it suits."""

    def __init__(self, market, name, wanted):
        super().__init__(daemon=True)
        self.node, self.wanted = market.net.nodes[0], wanted
        self.process = next(daemon.process for daemon in market.net.daemons if daemon.account.name == name)
        self.address, self.key = market.address(name), Key(f"1/{name}")
        self.withheld = []  # heights
        self.ending = threading.Event()

    def beacon(self, height):
        return bytes.fromhex(self.node.eth_getBlockByNumber(hex(height), False)["mixHash"][2:])

    def own(self, before):
        """The beacon of its block behind one with that beacon."""
        return hashlib.sha256(before + self.key.lot(before)[1]).digest()

    def run(self):
        seen = 0
        while not self.ending.is_set():
            status = self.node.sdbft_status()
            height = status["tip"]["number"]
            if height > seen and status["master"] == self.address:
                seen = height
                if not self.wanted(self.own(self.beacon(height))):
                    self.withhold(height)
            time.sleep(0.01)

    def withhold(self, height):
        self.process.signal(signal.SIGSTOP)
        try:
            while self.node.height() == height and not self.ending.is_set():
                time.sleep(0.01)
        finally:
            self.process.signal(signal.SIGCONT)
        self.withheld.append(height + 1)


class BeaconGrinding(Attack):
    """Two solvers bid the same, each with the same bond: mallory1 wants to be the one that is drawn. What the beacon of each
    block would draw is counted besides, since one draw shows little."""

    name, what = "beacon-grinding", "a third of the weight keeps its blocks back when their beacons draw somebody else"
    mallory = {"mallory1": "solver"}
    known = "with a share w of the weight, what is drawn with chance p is with p + w p (1 - p): market.md, \"Known to be open\""
    validators = (1000, 1000, 1000, 1490)
    block = {"min_block_ms": 240, "max_idle_ms": 250}

    def suits(self, beacon):
        drawn = hashlib.sha256(b"solver" + beacon + (1).to_bytes(8, "big") + (2).to_bytes(8, "big")).digest()
        return int.from_bytes(drawn, "big") % (400 * 10**18) < 200 * 10**18

    def play(self, market):
        grinder = Grinder(market, "validator3", self.suits)
        market.work("verifier1", "verifier2", "verifier3")
        number = market.submit(bid_s=15, start_s=15, heartbeat_s=20, prove_s=20, challenge_s=15)
        grinder.start()
        first = market.node.height() + 2
        market.work("mallory1")
        market.until(lambda: market.task(number)["bids"], "the first bid")
        market.work("solver1")
        market.until(lambda: market.node.height() >= first + 100, "a hundred beacons")
        grinder.ending.set()
        grinder.join()
        market.settled(number)
        others, shown, turned = [], [], []  # whether the beacon suits: of others' blocks, of its own, in place of its own
        for height in range(first, first + 100):
            block = market.node.eth_getBlockByNumber(hex(height), False)
            kind = shown if block["miner"].lower() == grinder.address else turned if height in grinder.withheld else others
            kind.append(self.suits(bytes.fromhex(block["mixHash"][2:])))
        market.require(len(turned) >= 5 and sum(shown) >= 0.8 * len(shown), f"it kept {len(turned)} back, and showed {shown}")
        market.require(0.25 < sum(others) / len(others) < 0.75, f"{sum(others)} of {len(others)} of others' beacons suit it")
        return (f"no rule: of its {len(shown) + len(turned)} beacons in 100 it kept {len(turned)} back, for the price of their "
                f"tips, and another one suited it in {sum(turned)} of these")

    def fair(self, market):
        return sum(paid["amount"] for paid in market.told("Paid", 1, reason="solver_reward")
                   if market.net.name_of(paid["to"]) == "mallory1")  # for work that is right
