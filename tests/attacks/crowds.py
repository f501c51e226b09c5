"""Those who take the room that others need: in blocks, and in lists that hold no more than so many."""
import hashlib
import json
import os

from attack import Attack
from keys import Key
from market import STEPS, Refused, RpcError, fee_options, run
from reports import BoughtDraw

from quern import rlp

GWEI, QRN = 10**9, 10**18


def room_of(block):
    return int(block["gasLimit"], 16) - int(block["gasUsed"], 16)


class LaneSpam(BoughtDraw):
    """A block is two transactions of the largest size; where moves took some of that the smaller ones fill what is left, so
    that nothing with a lower tip finds 21,000 gas. Base fees begin low, or nobody could pay for so many full blocks."""

    name = "lane-spam"
    what = "bought-draw, and others fill all blocks, at tips that no worker may offer, until its games are over"
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
        number = self.lie(market, "whistleblower1", heartbeat_s=10, prove_s=10, bid_s=10, start_s=10, challenge_s=10)
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


def double_vote(market, name):
    """Evidence against a validator: two NOTARIZE of one view, that of a block and another, signed by its key."""
    node, key = market.node, Key(f"1/{name}")
    epoch, view = node.sdbft_status()["epoch"], 1
    identity = bytes.fromhex(node.quern_nodeInfo()["genesisHash"][2:]) + (7878).to_bytes(8, "big")
    votes = []
    for block in (bytes.fromhex(node.eth_getBlockByNumber("latest", False)["hash"][2:]), b"\x5a" * 32):
        signed = b"QUERN-SDBFT-VOTE" + identity + epoch.to_bytes(8, "big") + b"\2" + view.to_bytes(8, "big") + block
        votes.append([2, block, key.signature(hashlib.sha256(signed).digest())])
    return "0x" + rlp.encode([epoch, view, key.public, *votes]).hex()


class SquattedEvidence(Attack):
    """Of those who pay no fee for evidence the pool holds 64. Two validators are mallory's: of the one it tells all that it
    has, over and over, so that nobody is heard who has something about the other."""

    name = "squatted-evidence"
    what = "double-signs, and keeps all places for reports without a fee taken by reports about another validator of its own"
    mallory, honest = {f"mallory{i}": None for i in range(1, 9)}, ("verifier1", "verifier2")
    purse = (*mallory, "validator2", "validator3")
    validators = (1000,) * 4
    block = {"min_block_ms": 700, "max_idle_ms": 800, "epoch_length": 16}
    places = 64

    @staticmethod
    def report(evidence, *key, nonce=0):
        return run("quern-wallet", "submit-evidence", *key, "--nonce", nonce, "--max-fee", 0, "--tip", 0, "--at-once",
                   "--evidence", evidence).strip()

    def play(self, market):
        node, reporter = market.node, market.net.accounts["verifier1"]
        known, hidden = double_vote(market, "validator2"), double_vote(market, "validator3")
        for i, name in enumerate(self.mallory):
            market.act(name, "evidence_commit", {"commitment": "0x" + f"{i + 1:02x}" * 32})
        commit, report = run("quern-wallet", "submit-evidence", *fee_options(market.net, reporter), "--evidence",
                             hidden).split()
        committed = int(market.receipt(node.eth_sendRawTransaction(commit))["blockNumber"], 16)
        crowd = [self.report(known, "--seed", f"crowd/{i}") for i in range(self.places)]
        other = market.net.accounts["verifier2"]
        free = self.report(hidden, "--keystore", other.keystore, "--password-file", other.password_file)
        height = market.until(lambda: (found := node.height()) >= committed + 7 and found, "the commitment to be old")
        market.until(lambda: node.height() > height, "a new block", every=0.01)
        before = node.number("eth_getBalance", reporter.address)
        answers = {answer["id"]: answer for answer in node.post(
            [{"jsonrpc": "2.0", "id": i, "method": "eth_sendRawTransaction", "params": [raw]}
             for i, raw in enumerate([*crowd, free])])}
        taken = sum("result" in answers[i] for i in range(self.places))
        market.require(taken == self.places, f"only {taken} of the crowd were taken")
        last = answers[self.places].get("error", {}).get("message", "taken")
        market.require("full" in last, f"one more without a fee: {last}")
        market.receipt(node.eth_sendRawTransaction(report))
        paid = node.number("eth_getBalance", reporter.address) - before
        convicted = {market.net.name_of(entry["address"]): market.net.name_of(entry["reporter"])
                     for entry in node.stake_validators()["validators"] if entry["tombstoned"]}
        market.require(convicted.get("validator3") == "verifier1", f"convicted, and by whom: {convicted}")
        market.require(paid > 49 * QRN, f"the reporter was paid {paid} grains")
        market.until(lambda: "already_convicted" in self.refused(node, free), "the crowd's places to be free", 10)
        market.net.wait_for_blocks(3)
        return f"a report with a fee needs no place of theirs: {paid / QRN:.0f} QRN, a twentieth, to who sent it"

    @staticmethod
    def refused(node, raw):
        try:
            return node.eth_sendRawTransaction(raw)
        except RpcError as error:
            return error.message


class SquattedSeals(Attack):
    """Half of what whistleblowers have bonded is mallory's, the other half enough for whistleblower1 to be drawn for each
    report. It looks when all of them have sealed."""

    name, what = "squatted-seals", "twelve addresses seal verdicts about all reports, drawn or not, and never open them"
    mallory = {**{f"mallory{i}": "whistleblower" for i in range(1, 13)}, "mallory13": None}
    bonds, money = {f"mallory{i}": 8 for i in range(1, 13)}, {"mallory13": 150}
    parameters = {"forced_error_inverse": 1}

    @staticmethod
    def seal(market, name, claim, task, place):
        key = Key(f"1/{name}")
        message = hashlib.sha256(b"quern.watch" + bytes.fromhex(claim["forcedBeacon"][2:]) + b"\x52" + task.to_bytes(8, "big")
                                 + bytes(2 + 4) + claim["id"]["round"].to_bytes(4, "big") + claim["draws"].to_bytes(8, "big") +
                                 bytes([place])).digest()
        return {"task": task, "stretch": 0, "report": place, "seal": "0x" + "5a" * 32, "publicKey": "0x" + key.public.hex(),
                "proof": "0x" + key.lot(message)[0].hex()}

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2", "verifier3")
        number = market.submit(challenge_s=25)
        market.wait(number, "challenge")
        market.act("mallory13", "bond", {"role": 3, "amount": hex(100 * QRN)})
        claim = market.task(number)["claim"]
        tried = {(name, place): market.send(name, "watch_commit", self.seal(market, name, claim, number, place))
                 for name in self.mallory for place in range(3)}
        said = {}
        for (name, place), transaction in tried.items():
            try:
                market.receipt(transaction)
                said.setdefault("taken", []).append((name, place))
            except Refused as refused:
                said.setdefault(refused.name, []).append((name, place))
        market.work("whistleblower1")
        taken = said.pop("taken", [])
        for name, place in taken[:1]:
            caught = market.refusal(name, "watch_commit", self.seal(market, name, claim, number, place))
            market.require(caught == "watch.already_sealed", f"a second seal: {caught}")
        market.require(set(said) == {"watch.not_drawn", "watch.bond_too_young"}, f"refused by {set(said)}")
        market.require(all(name == "mallory13" for name, _ in said["watch.bond_too_young"]), f"too young: {said}")
        most = max(sum(place == report for _, place in taken) for report in range(3))
        market.require(most < 8, "all places of a report were theirs")
        task = market.settled(number)
        pots = [event["amount"] for event in market.told("Paid", number, reason="jackpot")
                if market.net.name_of(event["to"]) == "whistleblower1"]
        tax = int(task["spec"]["money"]["tax"], 16)
        market.require(pots == 3 * [tax // 3], f"jackpots of {pots} grains")
        return (f"{len(said['watch.not_drawn'])} of {len(tried) - 3} were watch.not_drawn, who bonded late watch.bond_too_young; "
                f"all three jackpots whole")


def rival_history(start, strides, salt):
    """(root, opening) of made-up states behind the first one."""
    sha = lambda *parts: hashlib.sha256(b"".join(parts)).digest()
    nodes, path = [start, *(sha(salt, bytes([i])) for i in range(strides))], []
    count = len(nodes)
    while len(nodes) > 1:
        path.append(nodes[1])
        pairs = [sha(nodes[i], nodes[i + 1], b"\1") for i in range(0, len(nodes) - 1, 2)]
        nodes = pairs + nodes[2 * len(pairs):]
    return sha(count.to_bytes(8, "big"), nodes[0], b"\5"), rlp.encode([path])


class SquattedRivals(BoughtDraw):
    """Each place is taken by a game that is lost on purpose; who is honest comes when none is left."""

    name, what = "squatted-rivals", "bought-draw, and a friend takes all places for games about the lie, and loses every one"
    mallory = {**BoughtDraw.mallory, "mallory5": "whistleblower"}
    bonds, money = {"mallory5": 2200}, {"mallory5": 100}
    places = 64

    def accuse(self, market, task):
        """Takes all places and gives each game up."""
        claim, address = task["claim"], bytes.fromhex(market.address("mallory5")[2:])
        about = {"task": task["id"], "stretch": 0}
        commits, reveals = [], []
        for i in range(self.places):
            salt = bytes([i + 1]) * 32
            root, opening = rival_history(bytes.fromhex(claim["startRoot"][2:]), STEPS // task["spec"]["work"]["stride"], salt)
            commits.append({**about, "commitment": "0x" + hashlib.sha256(address + root + salt).hexdigest()})
            reveals.append({**about, "target": 0, "claim": "0x" + root.hex(), "salt": "0x" + salt.hex(),
                            "opening": "0x" + opening.hex()})
        market.act_all("mallory5", "challenge_commit", commits)
        market.act_all("mallory5", "challenge_reveal", reveals)
        games = [game["id"] for game in market.disputes(task["id"])]
        market.require(len(games) == self.places, f"{len(games)} games")
        market.work("whistleblower1")
        market.act_all("mallory5", "dispute_concede", [{"dispute": game} for game in games])

    def play(self, market):
        number = self.lie(market, challenge_s=40)
        self.accuse(market, market.wait(number, "proved", "custody", "committing", "revealing", "challenge"))
        task = market.settled(number)
        lost = [event["amount"] for event in market.told("Slashed", number, reason="false_accusation")]
        stake = lost[0]
        market.require(lost == [stake * (i + 1) for i in range(self.places)], f"stakes of {sum(lost) // stake} in all")
        passed = len(market.told("Slashed", number, reason="passed_wrong_result"))
        market.require(passed >= 3, f"{passed} who passed it have lost")
        tried = market.transactions("challenge_commit", number, market.address("whistleblower1"))
        market.require(len(tried) <= passed, f"{len(tried)} commitments for {passed} games")
        against = {reason for name, reason in market.slashes(number) if name in self.honest}
        market.require(not against, f"honest parties lost {against}")
        market.require(not market.told("Paid", number, reason="verifier_fee"), "who passed it was paid")
        return (f"stakes of 1 to {self.places}, {sum(lost) // stake} in all: slash false_accusation; {passed} x "
                f"passed_wrong_result. The lie is settled, {task['reason']}")
