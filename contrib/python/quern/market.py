"""Submitting and following tasks as a user would: quern-compile, the content store, quern-wallet, JSON-RPC."""
import glob
import json
import os
import shutil
import time

from . import events
from .devnet import program, run
from .rpc import RpcError

LICENCES = "/usr/share/common-licenses"
DISPUTE_BYTES = 10752  # that a challenge's deposit is for (doc/market.md)
WATCH_BYTES = 256  # that of a watcher's verdict is for
FINAL_STATES = {"settled", "cancelled", "expired", "failed"}


def licence_texts():
    """The licence texts of the system, links left out, in a fixed order."""
    files = sorted(path for path in glob.glob(os.path.join(LICENCES, "*")) if not os.path.islink(path))
    if not files:
        raise FileNotFoundError(f"no texts in {LICENCES}")
    return files


class Job:
    """A model, its data and initial state on disk and in the content store of `node`; None: on disk alone.

    architecture: what arch.json says; data: files of its data tensors. With `accumulate` in it an update is so many steps
    of the first program and one of the second; with `held_out`, whose files come last in `data`, the training evaluates
    itself by one more. `trained`, a state and its program's file, gives the parameters that it
    begins with; with `start` the first step of all makes the rest of the first state. `network` is the file that the
    architecture names. `tolerance`, (steps of a segment, segments of a stretch, file of the limits), makes a task that
    judges what its solver claims; without the file its limits are profilers' to find."""

    def __init__(self, directory, node, architecture, data, seed=1, trained=None, start=False, network=None,
                 tolerance=None):
        os.makedirs(directory, exist_ok=True)
        if network:
            shutil.copy(network, os.path.join(directory, architecture["model"]["file"]))
        path = lambda name: os.path.join(directory, name)
        self.arch, self.program, self.init = (path(n) for n in ("arch.json", "program.bin", "init.safetensors"))
        self.data = list(data)
        accumulate = architecture.get("accumulate")
        self.programs = [self.program] + ([path("update.bin")] if accumulate else [])
        self.evaluates = [path("evaluate.bin")] if "held_out" in architecture else []
        self.programs += self.evaluates
        self.starts = [path("start.bin")] if start else []
        self.tolerance = tolerance
        with open(self.arch, "w") as file:
            json.dump(architecture, file, indent=2)
        more = ["--update", self.programs[1]] if accumulate else []
        if self.evaluates:
            more += ["--evaluate", *self.evaluates]
        judged = []
        if tolerance:
            steps, segments, limits = tolerance
            self.programs.append(path("judge.bin"))
            judged = ["--tolerance", "--segments", segments]
            more += ["--tolerance", steps, "--segments", segments, "--judge", self.programs[1]]
            if limits:
                self.data.append(limits)
                more += ["--limits", limits]
        keeps = ["--program", trained[1]] if trained else []
        if start:
            more += ["--start", *self.starts, *keeps]
        self.compiled = json.loads(run("quern-compile", "program", "--arch", self.arch, "--out", self.program, *more))
        self.programs += self.starts
        takes = (["--from", trained[0], *keeps] if trained else []) + (["--bare"] if start else [])
        self.initial = json.loads(run("quern-compile", "init", "--arch", self.arch, "--seed", seed, "--out", self.init,
                                      *takes, *judged))
        put = lambda file: run("quern-cli", *([*node.cli, "-rpcwait", "content", "put"] if node else ["content", "id"]),
                               file).split()[-1]
        self.contents = {"programs": [put(file) for file in self.programs], "init": put(self.init),
                         "data": [put(file) for file in self.data]}

    def plan(self, steps):
        """Of so many steps, as quern-wallet takes it: a multiple of those of an update, behind that of a start program."""
        if self.starts:
            return [self.compiled["start"]["number"], *self.repeated(steps - 1)]
        return self.repeated(steps)

    def repeated(self, steps):
        turn, last = self.compiled["turn"], self.compiled.get("evaluation", {}).get("body", [])
        if turn[-len(last):] == last:  # each turn has it
            last = []
        updates, rest = divmod(steps - sum(map(self.length, last)), sum(map(self.length, turn)))
        if rest or updates < 1:
            raise ValueError(f"{steps} steps are no updates of {turn}")
        return (turn if updates == 1 else [[updates, turn]]) + last

    @classmethod
    def length(cls, item):
        """Steps of an item of a plan's body: of a program's number one."""
        return 1 if isinstance(item, int) else item[0] * sum(cls.length(inner) for inner in item[1])


class TextJob(Job):
    """A character transformer and the data set of some texts. total_steps counts updates; vocab: larger than the
    data's; `adapter_rank` leaves the parameters as they are and trains adapters. held_out: (texts, the other fields of an
    architecture's `held_out`)."""

    def __init__(self, directory, node, texts, layers=2, d_model=64, heads=4, context=64, batch=16, total_steps=300,
                 accumulate=None, tie_embeddings=False, vocab=None, adapter_rank=0, held_out=None, **more):
        os.makedirs(directory, exist_ok=True)
        data = os.path.join(directory, "data.u8")
        self.dataset = json.loads(run("quern-compile", "dataset", "--out", data, *texts))
        files, others = [data], {}
        if held_out:
            files.append(os.path.join(directory, "held-out.u8"))
            found = json.loads(run("quern-compile", "dataset", "--vocabulary-of", data, "--out", files[1], *held_out[0]))
            others = {"held_out": {"data": {"dtype": found["dtype"], "elements": found["elements"]}, **held_out[1]}}
        super().__init__(directory, node, {
            "format": "quern-arch-1",
            "model": {"type": "char_transformer", "layers": layers, "d_model": d_model, "heads": heads,
                      "context": context, "mlp_ratio": 4, "vocab": vocab or self.dataset["vocab"],
                      "tie_embeddings": tie_embeddings, "adapter_rank": adapter_rank},
            "data": {"dtype": self.dataset["dtype"], "elements": self.dataset["elements"]}, "batch": batch,
            **({"accumulate": accumulate} if accumulate else {}), **others,
            "optimizer": {"type": "adamw", "lr": 1e-2, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.1,
                          "warmup": 20, "total_steps": total_steps, "grad_clip": 1.0},
        }, files, **more)


def state_of(task):
    """Where a task is: the state of its claim while it runs, else its own."""
    return task["claim"]["stateName"] if task["stateName"] == "running" else task["stateName"]


def reason_of(task):
    """Why it is there."""
    return task["claim"]["reason"] if task["stateName"] == "running" else task["reason"]


def disputes_of(node, task):
    """The task's disputes, in all of its rounds."""
    return [node.dispute_get(found["id"]) for found in node.dispute_list(task["id"], False, 1, 500)["disputes"]]


def wait_for_task(net, task_id, states, timeout, on_change=None, on_look=None):
    """Follows a task until its state (state_of) is one of `states`; returns the task. on_change(task) hears of each new
    state, on_look(task) of each look at it."""
    last = [None]

    def look():
        task = net.node.task_get(task_id)
        if on_change and (state_of(task), task["round"]) != last[0]:
            on_change(task)
        elif on_look:
            on_look(task)
        last[0] = (state_of(task), task["round"])
        return task if state_of(task) in states else None

    return net.wait_until(look, timeout, f"task {task_id} to be {' or '.join(sorted(states))}")


def send(net, raw, method="eth_sendRawTransaction", timeout=60):
    """Sends a signed transaction and waits for its receipt; raises when it failed.

    Sent again now and then: a node that was killed may have lost what was not yet in a block.
    """
    transaction = net.node.call(method, raw)
    sent = time.monotonic()

    def look():
        nonlocal sent
        receipt = net.node.eth_getTransactionReceipt(transaction)
        if receipt is None and time.monotonic() > sent + 5:
            sent = time.monotonic()
            try:
                net.node.call(method, raw)
            except RpcError:
                pass  # known already, or in a block by now
        return receipt

    receipt = net.wait_until(look, timeout, f"transaction {transaction}")
    if receipt["status"] != "0x1":
        raise RuntimeError(f"transaction {transaction} failed: {receipt.get('quern', {}).get('failure')}")
    return receipt


def fee_options(net, account):
    """quern-wallet's options about key, nonce and fees, as of now."""
    price, tip = net.node.number("eth_gasPrice"), net.node.number("eth_maxPriorityFeePerGas")
    return ["--keystore", account.keystore, "--password-file", account.password_file,
            "--nonce", net.node.number("eth_getTransactionCount", account.address, "pending"),
            "--max-fee", 3 * price, "--tip", tip]


def spec_options(net, job, steps, interval, price_cap=10**10, tax="0.01qrn", imports=(), **windows):
    """quern-wallet's options that describe a task. imports: (task, final state, program), files, of settled ones.
    windows, in seconds: bid_s, challenge_s, ...; also stride and tranche, in steps."""
    options = ["--init", job.init, "--data", *job.data, "--plan", json.dumps(job.plan(steps)), "--interval", interval,
               "--price-cap", price_cap, "--tax", tax,
               "--params", json.dumps(net.node.quern_params())]
    for program in job.programs:
        options += ["--program", program]
    if job.tolerance:
        options.append("--tolerance")
    for source in imports:
        options += ["--import", *source]
    for name, seconds in windows.items():
        options += ["--" + name.replace("_", "-"), seconds]
    return options


def price(spec):
    """What a task costs, from its static work units, before anything is signed."""
    return json.loads(run("quern-wallet", "price", *spec))


def submit(net, account, spec):
    """Signs and submits a training task; returns its number."""
    raw = json.loads(run("quern-wallet", "submit-task", *fee_options(net, account), "--json", *spec))["raw"]
    receipt = send(net, raw, "task_submit")
    return int(receipt["logs"][0]["topics"][1], 16)


def act(net, account, command, *options):
    """Signs what a command of quern-wallet says (accept, data-challenge, ...), sends it and waits for the receipt."""
    raw = json.loads(run("quern-wallet", command, *fee_options(net, account), "--json", *options))["raw"]
    return send(net, raw)


def native(net, account, kind, payload):
    """Signs a native transaction of any kind, whose fields are those of `payload`, sends it and waits for the receipt."""
    return act(net, account, "native", kind, json.dumps(payload))


def transfer(net, sender, recipient, amount, kind=2):
    """Sends `amount` ("1.5qrn" or grains) and waits for the receipt."""
    raw = run("quern-wallet", "transfer", *fee_options(net, sender), "--to", recipient, "--amount", amount,
              "--type", kind).split()[-1]
    return send(net, raw)


def all_tasks(node):
    tasks, start = [], 1
    while start is not None:
        page = node.task_list(state="all", start=start, limit=100)
        tasks += page["tasks"]
        start = page["next"]
    return tasks


def evidence_deposits(node):
    """What is kept for commitments to evidence: account -> grains."""
    kept = {}
    for name, sign in (("EvidenceCommitted", 1), ("EvidenceReleased", -1)):
        for event in events.find(node, name):
            kept[event["reporter"]] = kept.get(event["reporter"], 0) + sign * event["deposit"]
    return kept


def supply_difference(net):
    """Adds up everything at one height: balances, bonds, stakes, escrows, deposits, vaults, burned; less what was minted.

    All accounts of the chain must be the network's own.
    """
    node = net.node
    while True:
        height = node.height()
        total = sum(node.number("eth_getBalance", account.address) for account in net.accounts.values())
        for bond in node.stake_roles():
            total += int(bond["bonded"], 16) + sum(int(entry["amount"], 16) for entry in bond["unbonding"])
        total += int(node.stake_validators()["totalStake"], 16)
        total += sum(int(entry["amount"], 16) for left in node.stake_unbondings() for entry in left["entries"])
        tasks = all_tasks(node)
        total += sum(int(task["escrow"], 16) for task in tasks)
        total += sum(int(dispute["deposit"], 16) for dispute in node.dispute_list(limit=500)["disputes"])
        total += sum(evidence_deposits(node).values())
        waiting = sum(claim["commitments"] for task in tasks for claim in (task["claim"], task["nextClaim"]) if claim)
        market = node.quern_params()["market"]
        per_byte = int(market["storage_deposit_per_byte"])
        total += waiting * DISPUTE_BYTES * per_byte
        if market["forced_error_inverse"]:
            returned = [paid for paid in events.find(node, "Paid")
                        if paid["reason"] == "storage_deposit" and paid["amount"] == WATCH_BYTES * per_byte]
            total += (len(events.find(node, "WatchSealed")) - len(returned)) * WATCH_BYTES * per_byte
        supply = node.quern_supply()
        total += sum(int(supply[part], 16) for part in ("jackpotVault", "treasuryVault", "burned"))
        if node.height() == height:
            return total - int(supply["minted"], 16)
