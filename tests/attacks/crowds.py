"""Those who take the room that others need: in blocks, and in lists that hold no more than so many."""
import json
import os

from market import fee_options, run
from reports import BoughtDraw

GWEI = 10**9


def room_of(block):
    return int(block["gasLimit"], 16) - int(block["gasUsed"], 16)


class LaneSpam(BoughtDraw):
    """A block is two transactions of the largest size; where moves took some of that the smaller ones fill what is left, so
    that nothing with a lower tip finds 21,000 gas. Base fees begin low, or nobody could pay for so many full blocks."""

    name = "lane-spam"
    what = "the same, and others fill all blocks, at tips that no worker may offer, until its games are over"
    sizes = {15_000_000: 330, 5_000_000: 45, 1_600_000: 60, 500_000: 60, 150_000: 60, 21_000: 140}  # gas: transactions
    spammers = {f"mallory{5 + i}": gas for i, gas in enumerate(sizes)}
    mallory = {**BoughtDraw.mallory, **{name: None for name in spammers}, "mallory11": None}
    money = {name: 10**6 for name in spammers}
    block = {"gas_limit": 30_000_000, "base_fee": 1000, "min_base_fee": 1000, "min_block_ms": 150, "max_idle_ms": 160}
    parameters = {"dispute_clock_s": 1}
    ahead = 10  # blocks

    def sign(self, market):
        """Payments with lists of addresses, which cost gas and nodes next to nothing: by sender."""
        signed, file = {}, os.path.join(market.directory, "spam.json")
        for rank, (name, gas) in enumerate(self.spammers.items()):
            listed = (gas - 21_000) // 2400
            fields = {"type": "0x2", "to": "0x" + "00" * 20, "value": "0x0", "gas": hex(21_000 + 2400 * listed),
                      "maxPriorityFeePerGas": hex((1100 - rank) * GWEI), "maxFeePerGas": hex(10**5 * GWEI),
                      "accessList": [{"address": f"0x{i:040x}", "storageKeys": []} for i in range(listed)]}
            signed[name] = []
            for nonce in range(self.sizes[gas]):
                with open(file, "w") as written:
                    json.dump({**fields, "nonce": hex(nonce)}, written)
                signed[name].append(run("quern-wallet", "sign", "--seed", f"1/{name}", "@" + file).strip())
        return signed

    def feed(self, market, blocks):
        """As much spam as so many blocks take."""
        for name, raws in self.signed.items():
            wanted = 2 * blocks if name == "mallory5" else len(raws)
            for raw in raws[self.sent[name]:wanted]:
                market.node.eth_sendRawTransaction(raw)
                self.sent[name] += 1

    def play(self, market):
        self.signed, self.sent = self.sign(market), {name: 0 for name in self.spammers}
        number = self.lie(market, heartbeat_s=10, prove_s=10, bid_s=10, start_s=10, challenge_s=10)
        games = market.until(lambda: len(found := market.disputes(number)) == 4 and found, "four games", every=0.02)
        game = next(found for found in games if found["target"] == 0)
        self.feed(market, self.ahead)
        began = market.node.height() + 2
        user = market.net.accounts["submitter"]
        payment = run("quern-wallet", "transfer", *fee_options(market.net, user), "--to", user.address, "--amount", 1)
        waiting = [market.node.eth_sendRawTransaction(payment.split()[-1]),
                   market.send("mallory11", "dispute_concede", {"dispute": game["id"]}, tip=1100 * GWEI - 10 * GWEI)]

        def over():
            self.feed(market, self.ahead + market.node.height() - began)
            return market.task(number)["round"] == 1

        market.until(over, "the solver to lose")
        market.require_slash(number, "mallory1", "wrong_result")
        decided = next(found for found in market.disputes(number) if found["target"] == 0)
        market.require((decided["winnerName"], decided["reason"]) == ("rival", "leaf"), f"it ended by {decided['reason']}")
        closed = decided["closedAt"]
        blocks = [market.node.eth_getBlockByNumber(hex(height), True) for height in range(began, closed + 1)]
        roomy = sum(room_of(block) >= 21_000 for block in blocks)
        market.require(not roomy, f"{roomy} of {len(blocks)} blocks had room for a payment")
        moves = sum(tx.get("quern", {}).get("kind", "").startswith("dispute_") for block in blocks
                    for tx in block["transactions"])
        market.require(moves >= 5, f"only {moves} moves came in full blocks")
        for transaction in waiting:
            receipt = market.node.eth_getTransactionReceipt(transaction)
            market.require(not receipt or int(receipt["blockNumber"], 16) > closed, "what pays little did not wait")
        self.another_round(market, number)
        return f"the lane of due moves: {moves} in {len(blocks)} blocks that were full to others: wrong_result by the leaf"
