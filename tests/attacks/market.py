"""The market that attacks are tried on: real nodes and workers in a temporary directory, and everybody's money before and
after. Honest parties run unchanged workers; attackers ("mallory…") run workers that were told to cheat, or programs that
send transactions of their own through act()."""
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
for folder in ("contrib/python", "tests/functional"):
    sys.path.insert(0, os.path.join(ROOT, folder))

import framework  # noqa: E402
from quern import events  # noqa: E402
from quern.devnet import Devnet, run  # noqa: E402
from quern.market import (DISPUTE_BYTES, WATCH_BYTES, TextJob, disputes_of, evidence_deposits, fee_options,  # noqa: E402
                          licence_texts, spec_options, submit, supply_difference, wait_for_task)
from quern.rpc import RpcError  # noqa: E402

STEPS, INTERVAL = 40, 10
WINDOWS = {"bid_s": 6, "start_s": 12, "heartbeat_s": 30, "challenge_s": 10, "verify_s": 90}
CHEAP = "--price=1000000000"  # less than anybody asks by default
BONDS = {"solver": 200, "verifier": 400, "whistleblower": 100, "custodian": 50}  # QRN, each bond
HONEST = {"solver1": "solver", "verifier1": "verifier", "verifier2": "verifier", "verifier3": "verifier",
          "whistleblower1": "whistleblower"}
CUSTODIANS = {f"custodian{i}": "custodian" for i in range(1, 7)}  # honest, too, where an attack names them
WAIT_S = 240


class Refused(Exception):
    """A transaction that was not taken, or failed in its block. name: of the error, such as bid.too_many."""

    def __init__(self, said):
        super().__init__(said)
        self.name = said.partition(":")[0]


class Missed(Exception):
    """Nothing caught the attack, or something else than it should: the row fails."""


class Market:
    """Of one attack, whose honest are names of HONEST and CUSTODIANS."""

    def __init__(self, directory, attack):
        honest = attack.honest or tuple(HONEST)
        self.honest = {name: role for name, role in {**HONEST, **CUSTODIANS}.items() if name in honest}
        self.mallory = attack.mallory
        roles = {**self.honest, **{name: role for name, role in attack.mallory.items() if role}}
        accounts = {"submitter": 1000, **{name: 50 for name in [*self.honest, *attack.mallory]}, **attack.money}
        bonds = [(name, role, attack.bonds.get(name, BONDS[role])) for name, role in roles.items()]
        self.net = Devnet(directory, accounts, bonds,
                          market={**framework.MARKET, **attack.parameters}, block={**framework.BLOCK, **attack.block},
                          validators=len(attack.validators), stakes=list(attack.validators), followers=attack.followers)
        self.directory = directory

    def __enter__(self):
        try:
            self.net.start()
            self.job = TextJob(os.path.join(self.directory, "job"), self.net.node, licence_texts()[:2], layers=1, d_model=32,
                               context=32, batch=4, total_steps=STEPS)
            self.before = self.purses()
        except BaseException:
            self.net.stop()
            raise
        return self

    def __exit__(self, *_):
        self.net.stop()

    # --- parties ----------------------------------------------------------------------------------------------------
    @property
    def node(self):
        return self.net.node

    def address(self, name):
        return self.net.accounts[name].address.lower()

    def work(self, *names, node=0, **cheats):
        """Starts workers at that node: names with no option of their own, name="options" with some."""
        for name, options in [*((name, "") for name in names), *cheats.items()]:
            role = self.honest.get(name) or self.mallory[name]
            self.net.worker(name, "--" + role, *options.split(), node=node)

    def rest(self, *names):
        for name in names:
            self.net.workers.pop(name).stop()

    def submit(self, by="submitter", steps=STEPS, interval=INTERVAL, **spec):
        options = spec_options(self.net, self.job, steps, interval, **{**WINDOWS, **spec})
        return submit(self.net, self.net.accounts[by], options)

    def wait(self, task, *states, timeout=WAIT_S):
        return wait_for_task(self.net, task, set(states) or framework.FINAL_STATES, timeout)

    def until(self, look, what, timeout=WAIT_S, every=0.1):
        return self.net.wait_until(look, timeout, what, every)

    def act(self, name, kind, payload, **fees):
        """One native transaction of that account, in a block. Raises Refused."""
        return self.receipt(self.send(name, kind, payload, **fees))

    def send(self, name, kind, payload, tip=None):
        """Its hash, as soon as the node has taken it. tip: wei of each gas."""
        account = self.net.accounts[name]
        options = fee_options(self.net, account)
        if tip is not None:
            options[options.index("--max-fee") + 1], options[options.index("--tip") + 1] = 2 * tip, tip
        raw = run("quern-wallet", "native", *options, kind, json.dumps(payload)).split()[-1]
        try:
            return self.node.eth_sendRawTransaction(raw)
        except RpcError as error:
            raise Refused(error.message) from None

    def act_all(self, name, kind, payloads):
        """The same for each of them, one after the other, in as few blocks as will be."""
        account = self.net.accounts[name]
        options = list(map(str, fee_options(self.net, account)))
        at, sent = options.index("--nonce") + 1, []
        for payload in payloads:
            sent.append(self.node.eth_sendRawTransaction(
                run("quern-wallet", "native", *options, kind, json.dumps(payload)).split()[-1]))
            options[at] = str(int(options[at]) + 1)
        return [self.receipt(transaction) for transaction in sent]

    def receipt(self, transaction):
        receipt = self.until(lambda: self.node.eth_getTransactionReceipt(transaction), "a transaction", 60)
        if receipt["status"] != "0x1":
            raise Refused(receipt.get("quern", {}).get("failure", "failed"))
        return receipt

    def refusal(self, name, kind, payload):
        """Name of the error that meets it. Raises Missed when it is taken."""
        try:
            self.act(name, kind, payload)
        except Refused as refused:
            return refused.name
        raise Missed(f"{kind} of {name} was taken")

    # --- what happened ----------------------------------------------------------------------------------------------
    def task(self, number):
        return self.node.task_get(number)

    def told(self, event, task, **fields):
        return [found for found in events.find(self.node, event, task=task)
                if all(found[name] == value for name, value in fields.items())]

    def payload_of(self, transaction):
        """Fields of a native transaction, as anybody reads them in a block."""
        return self.node.eth_getTransactionByHash(transaction)["quern"]["payload"]

    def transactions(self, kind, task, by=None, first_block=0):
        """Native transactions of that kind about the task in blocks, oldest first: (hash, sender, payload)."""
        found = []
        for height in range(first_block, self.node.height() + 1):
            for tx in self.node.eth_getBlockByNumber(hex(height), True)["transactions"]:
                quern = tx.get("quern")
                if quern and quern["kind"] == kind and quern["payload"].get("task") == task and by in (None, tx["from"]):
                    found.append((tx["hash"], tx["from"], quern["payload"]))
        return found

    def disputes(self, number):
        return disputes_of(self.node, self.task(number))

    def slashes(self, number):
        return {(self.net.name_of(event["account"]), event["reason"]) for event in self.told("Slashed", number)}

    def paid(self, number, reason):
        return {self.net.name_of(event["to"]) for event in self.told("Paid", number, reason=reason)}

    def settled(self, number, round=0, timeout=WAIT_S):
        """The task, which must end so, in that round."""
        task = self.wait(number, timeout=timeout)
        if (task["stateName"], task["round"]) != ("settled", round):
            raise Missed(f"the task ended as {task['stateName']} ({task['reason']}) in round {task['round']}")
        return task

    def require(self, holds, what):
        if not holds:
            raise Missed(what)

    def require_slash(self, number, name, reason):
        slashes = self.slashes(number)
        self.require((name, reason) in slashes, f"no slash {reason} of {name} but {sorted(slashes)}")

    # --- money ------------------------------------------------------------------------------------------------------
    def purses(self):
        """All that is whose, at one height: balance, bonds (those on their way out, too), stakes, escrows, deposits."""
        node = self.node
        deposit = DISPUTE_BYTES * int(node.quern_params()["market"]["storage_deposit_per_byte"])
        while True:
            height = node.height()
            purses = {name: node.number("eth_getBalance", account.address)
                      for name, account in self.net.accounts.items()}

            def add(address, amount):
                purses[self.net.name_of(address)] += amount

            for bond in node.stake_roles():
                add(bond["address"], int(bond["bonded"], 16) + sum(int(entry["amount"], 16) for entry in bond["unbonding"]))
            for validator in node.stake_validators()["validators"]:
                add(validator["address"], int(validator["stake"], 16))
            for address, deposit in evidence_deposits(node).items():
                add(address, deposit)
            for task in node.task_list(state="all", start=1, limit=100)["tasks"]:
                add(task["submitter"], int(task["escrow"], 16))
            for dispute in node.dispute_list(limit=500)["disputes"]:
                add(dispute["rival"], int(dispute["deposit"], 16))
            if node.height() == height:
                return purses

    def balance(self, attackers=None):
        """(what the attackers, all of mallory by default, have gained together, what the honest side has lost): grains since the beginning. Honest is
        who has less than before; of a submitter what it paid beyond rewards, fees and tax of settled work."""
        if supply_difference(self.net) != 0:
            raise Missed("grains were made or lost")
        after = self.purses()
        change = {name: after[name] - self.before[name] for name in after}
        lost = sum(-min(0, change[name]) for name in self.honest)
        earned = 0
        for task in self.node.task_list(state="all", start=1, limit=100)["tasks"]:
            if self.net.name_of(task["submitter"]) != "submitter":
                continue
            earned += sum(paid["amount"] for paid in events.find(self.node, "Paid", task=task["id"])
                          if paid["reason"] in ("solver_reward", "verifier_fee", "custodian_fee"))
            if task["stateName"] == "settled":
                earned += int(task["spec"]["money"]["tax"], 16)
        lost += max(0, -change["submitter"] - earned)
        return sum(change[name] for name in attackers or self.mallory), lost
