"""The main job on a network of real processes: train, prove, verify, dispute, settle, on real text.

Four validators; two solvers, three verifiers and a whistleblower spread over them. First an honest training of a
character-level transformer on the system's licence texts, and one of a network that PyTorch exported on drawn images; then
one whose first solver cheats, is taken to the chain's judge and slashed, and whose second solver finishes. Between them
short tasks, until a verifier had to tell an
altered result and the whistleblower that saw it is paid the jackpot. At last two attacks of the corpus, on networks of their
own. Processes that are killed meanwhile are started again.
"""
import argparse
import glob
import hashlib
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

from . import events
from .devnet import QRN, ROOT, Devnet, program, run
from .market import (FINAL_STATES, Job, TextJob, all_tasks, disputes_of, licence_texts, price, reason_of, spec_options, state_of,
                     submit, supply_difference, transfer, wait_for_task)
from .processes import Ended, end_on_signals, hang_up, popen
from .printable import printable
from .rpc import BadAnswer, RpcError
from .shapes import NAMES, SIDE, architecture, picture, shapes

STEPS, INTERVAL = 600, 30
NETWORK = os.path.join(ROOT, "contrib", "models", "shapes.onnx")
NETWORK_STEPS, NETWORK_INTERVAL, NETWORK_TRAINED, NETWORK_HELD_OUT, NETWORK_SHOWN = 60, 15, 512, 256, 4
CHEAT_STEPS, CHEAT_INTERVAL = 200, 25
CHEAT = "flip_element"
ATTACKS = ("lazy-pass", "self-challenge")
FORCED_STEPS, FORCED_INTERVAL, FORCED_TRIES = 40, 10, 12
TASK_TIMEOUT_S = 900
ACCOUNTS = {"submitter": 1000, "wallet": 100, "solver1": 20, "solver2": 20, "verifier1": 20, "verifier2": 20,
            "verifier3": 20, "whistleblower": 20}
BONDS = [("solver1", "solver", 200), ("solver2", "solver", 200), ("verifier1", "verifier", 400),
         ("verifier2", "verifier", 400), ("verifier3", "verifier", 400), ("whistleblower", "whistleblower", 100)]
PHASES = ["none", "history", "steps", "state", "trace", "tile", "micro", "element", "leaf", "decided"]


def qrn(grains):
    return f"{grains / QRN:.6f}".rstrip("0").rstrip(".") + " QRN"


def bar(values, width=60, height=10):
    """A curve in characters: a column a value, averaged down and spaced out to `width`."""
    step = max(1, -(-len(values) // width))
    columns = [sum(values[i:i + step]) / len(values[i:i + step]) for i in range(0, len(values), step)]
    low, high = min(columns), max(columns)
    span = (high - low) or 1
    gap = " " * (max(1, width // len(columns)) - 1)
    lines = []
    for row in range(height, -1, -1):
        level = low + span * row / height
        marks = gap.join("*" if round((value - low) / span * height) == row else " " for value in columns)
        lines.append(f"  {level:6.3f} |{marks}".rstrip())
    return "\n".join(lines + ["         +" + "-" * len(gap.join("-" * len(columns)))])


def side_by_side(pictures, room):
    """Lines of pictures, as many beside each other as a terminal of `room` columns has place for (None: all)."""
    each = len(pictures[0][0]) + len(" | ")
    beside = len(pictures) if room is None else max(1, (room - len("  |")) // each)
    for first in range(0, len(pictures), beside):
        for line in zip(*pictures[first:first + beside]):
            yield "| " + " | ".join(line) + " |"


class Progress:
    """A line every few seconds while a task is trained, verified or disputed: from the chain, and for what is not yet
    there from the workers' logs."""

    EVERY_S = 5

    def __init__(self, net, say, number):
        self.net, self.say, self.number = net, say, number
        self.next = 0.0
        self.training = None  # of a training: (round, step, time) at the first look and when its step last changed

    def changed(self, _task):
        self.next = time.monotonic() + self.EVERY_S

    def look(self, task):
        if time.monotonic() < self.next:
            return
        line = None
        if task["claim"]:
            line = self.trained(task) if state_of(task) == "working" else self.verified(task)
        if line:
            self.say(f"  {line}")
        self.next = time.monotonic() + self.EVERY_S

    def trained(self, task):
        """Steps by the solver's last heartbeat on chain, or by its log when that is ahead."""
        claim = task["claim"]
        steps, name = task["steps"], self.net.name_of(claim["solver"])
        step, loss = claim["step"], events.f32(claim["loss"]) if claim["step"] else None
        where = "on chain"
        said = self.last(name, rf"trained task={task['id']} step=(\d+)/\d+ loss=([0-9.]+)")
        if said and int(said[0]) > step:
            step, loss, where = int(said[0]), float(said[1]), "not on chain yet"
        now = time.monotonic()
        if self.training is None or self.training[0][0] != task["round"] or step < self.training[1][1]:
            self.training = [(task["round"], step, now)] * 2
        elif step > self.training[1][1]:
            self.training[1] = (task["round"], step, now)
        if step >= steps:
            return f"{name} has trained all {steps} steps, loss {loss:.4f}; the proof is next"
        if loss is None:
            return f"{name} trains: no heartbeat yet, one each {task['spec']['work']['interval']} of {steps} steps"
        text = f"{name} trains: step {step} of {steps}, loss {loss:.4f} ({where})"
        (_, first, began), (_, last, changed) = self.training
        if last > first:
            left = (steps - last) * (changed - began) / (last - first) - (now - changed)
            text += f", about {max(1, left):.0f} s to go"
        return text

    def verified(self, task):
        """Who has replayed how much of what it drew, and the moves of open disputes."""
        parts = []
        for name in sorted({self.net.name_of(report["verifier"]) for report in task["claim"]["reports"]}):
            if found := self.last(name, rf"replay(?:ed|s|ing)? (?:begins )?task={task['id']} (.*)"):
                parts.append(f"{name} {self.replay(found[0])}")
        for dispute in (self.net.node.dispute_get(number) for number in task["claim"]["disputes"]):
            if dispute["open"]:
                parts.append(f"dispute {dispute['id']} in round {dispute['rounds']}")
        return f"{state_of(task)}: " + ", ".join(parts) if parts else None

    @staticmethod
    def replay(fields):
        words = dict(word.split("=", 1) for word in fields.split() if "=" in word)
        if "verdict" in words:
            return f"says {words['verdict']}"
        done, _, of = words.get("segment", "").partition("/")
        total = of or words.get("segments", "?")
        return f"{done or 0} of {total} segments"

    def last(self, name, pattern):
        """The last match of `pattern` in the end of the process's log, or None."""
        try:
            with open(self.net.workers[name].log, "rb") as file:
                file.seek(max(0, os.path.getsize(file.name) - 65536))
                found = re.findall(pattern, file.read().decode(errors="replace"))
        except (OSError, KeyError):
            return None
        last = found[-1] if found else None
        return (last,) if isinstance(last, str) else last


class Demo:
    def __init__(self, options):
        self.options = options
        self.started = time.monotonic()
        self.walls = {}
        self.net = None
        self.plot = None

    def say(self, text=""):
        elapsed = time.monotonic() - self.started
        try:
            for line in text.splitlines() or [""]:
                for part in self.folded(printable(line, len(line))):
                    print(f"[{elapsed:6.1f} s] {part}", flush=True)
        except OSError:
            hang_up()

    @staticmethod
    def room():
        """Columns that a terminal leaves to a line; None where it goes into a file."""
        return max(shutil.get_terminal_size().columns - len("[  99.9 s] "), 40) if sys.stdout.isatty() else None

    def folded(self, line):
        """The line as a terminal can show it; whole where it goes into a file."""
        room = self.room()
        if room is None:
            return [line]
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        return textwrap.wrap(line, room, subsequent_indent=indent, drop_whitespace=True, break_on_hyphens=False) or [""]

    def phase(self, name):
        now = time.monotonic()
        if getattr(self, "_phase", None):
            self.walls[self._phase[0]] = round(now - self._phase[1], 3)
        self._phase = (name, now) if name else None
        if name:
            self.say(f"--- {name}")

    # --- phases -----------------------------------------------------------------------------------------------------
    def start_network(self):
        self.phase("network")
        self.net = net = Devnet(self.options.directory, ACCOUNTS, BONDS, seed=self.options.seed,
                                validators=self.options.validators)
        net.start()
        self.say(f"{net.node.web3_clientVersion()}, chain id {net.node.number('eth_chainId')}")
        for daemon in net.daemons:
            self.say(f"{daemon.name} validates as {daemon.account.address}, JSON-RPC on {daemon.client.url}")
        for name, role, bond in BONDS:
            net.worker(name, "--" + role)
            self.say(f"{name} {net.accounts[name].address} bonded {bond} QRN, works at {net.home(name).name}")
        net.supervise(lambda name, why: self.say(f"{name} ended unasked ({why}) and was started again"))

    def honest_task(self):
        self.phase("honest task")
        net = self.net
        texts = licence_texts()
        self.job = job = TextJob(os.path.join(self.options.directory, "job"), net.node, texts, seed=self.options.seed,
                                 total_steps=STEPS)
        self.say(f"{len(texts)} licence texts: {job.dataset['elements']} characters, {job.dataset['vocab']} different; "
                 f"transformer with {job.compiled['parameters']} parameters, {job.compiled['nodes']} nodes, "
                 f"{job.compiled['work_units']} work units a step, {job.compiled['commit_work']} for its commitment")
        task = self.follow(job, STEPS, INTERVAL)
        if task["stateName"] != "settled":
            raise RuntimeError(f"task {task['id']} ended as {task['stateName']}: {task['reason']}")
        self.first_task = task["id"]
        self.show_losses(task)
        self.show_model(task)
        self.show_money(task)

    def network_task(self):
        """A convolutional network as PyTorch wrote it, on images that are drawn by rule."""
        self.phase("a network of PyTorch")
        net, directory = self.net, os.path.join(self.options.directory, "network")
        os.makedirs(directory)
        files = {}
        for name, count, seed in (("trained", NETWORK_TRAINED, 1), ("held-out", NETWORK_HELD_OUT, 2)):
            files[name] = [os.path.join(directory, f"{name}.{part}.u8") for part in ("images", "labels")]
            for path, content in zip(files[name], shapes(count, seed)):
                with open(path, "wb") as file:
                    file.write(content)
        job = Job(directory, net.node, architecture({"type": "network", "file": os.path.basename(NETWORK)}, NETWORK_TRAINED),
                  files["trained"], network=NETWORK)
        self.say(f"{NETWORK}: {job.compiled['parameters']} parameters, {job.compiled['nodes']} nodes; {NETWORK_TRAINED} images "
                 f"of {SIDE} x {SIDE}: {', '.join(NAMES)}")
        task = self.follow(job, NETWORK_STEPS, NETWORK_INTERVAL)
        if task["stateName"] != "settled":
            raise RuntimeError(f"task {task['id']} ended as {task['stateName']}: {task['reason']}")
        state = os.path.join(directory, "state.safetensors")
        run("quern-cli", *net.node.cli, "-rpcwait", "content", "state", job.program, task["claim"]["checkpointContent"], state)
        found = json.loads(run("quern-compile", "evaluate", "--program", job.program, "--state", state, "--arch", job.arch,
                               "--predictions", "--data", *files["held-out"]))
        with open(files["held-out"][0], "rb") as file:
            images = file.read()
        self.say(f"of {found['examples']} images that it has not seen it names {100 * found['accuracy']:.1f} % rightly; the first:")
        shown = [picture(images[i * SIDE * SIDE:(i + 1) * SIDE * SIDE]) for i in range(NETWORK_SHOWN)]
        for i, drawn in enumerate(shown):
            drawn.append(f"{NAMES[found['predicted'][i]]:{2 * SIDE}s}")
        for row in side_by_side(shown, self.room()):
            self.say("  " + row)
        self.show_money(task)

    def disputed_task(self):
        self.phase("dishonest solver")
        net = self.net
        net.workers["solver1"].stop()
        net.worker("solver1", "--solver", "--price=1000000000", f"--test-fault={CHEAT}")
        self.say(f"solver1 comes back as a cheat ({CHEAT}: one bit of one element in one step) with the lowest price")
        job = TextJob(os.path.join(self.options.directory, "job2"), net.node, licence_texts(), seed=self.options.seed + 1,
                      layers=2, batch=8, total_steps=CHEAT_STEPS)
        task = self.follow(job, CHEAT_STEPS, CHEAT_INTERVAL)
        if task["stateName"] != "settled" or not task["slashes"]:
            raise RuntimeError(f"task {task['id']} ended as {task['stateName']}: {task['reason']}")
        for slash in task["slashes"]:
            self.say(f"slashed: {net.name_of(slash['address'])} ({events.ROLES[slash['role']]}) "
                     f"{qrn(int(slash['amount'], 16))}, {slash['reason']}")
        for dispute in disputes_of(net.node, task):
            if dispute["leafExecuted"]:
                self.show_transcript(dispute)
        self.show_money(task)

    def forced_error(self):
        """Short tasks until one of their reports had to tell an altered result, and whoever watched is paid for it."""
        self.phase("forced error")
        net = self.net
        inverse = int(net.node.quern_params()["market"]["forced_error_inverse"])
        self.say(f"one report in {inverse} must tell a result that is wrong in one bit; nobody but its verifier knows which")
        for attempt in range(FORCED_TRIES):
            job = TextJob(os.path.join(self.options.directory, f"job3-{attempt}"), net.node, licence_texts()[:2], layers=1,
                          d_model=32, context=32, batch=4, seed=self.options.seed + 2 + attempt, total_steps=FORCED_STEPS)
            task = self.follow(job, FORCED_STEPS, FORCED_INTERVAL)
            if self.show_watching(task):
                return
        raise RuntimeError(f"no forced error was found in {FORCED_TRIES} tasks")

    def attacks(self):
        """Two of tests/attacks, each on a network of its own: what they brought whoever tried, and what caught them."""
        self.phase("two attacks")
        self.say("of those that were thought of, two; all of them in a table: contrib/attacks.sh, doc/attacks.md")
        environment = {**os.environ, "TMPDIR": self.options.directory}
        if self.room() is not None:
            environment["COLUMNS"] = str(self.room() - 2)
        runner = popen([sys.executable, os.path.join(ROOT, "tests", "attacks", "run.py"), *ATTACKS], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
        try:
            for line in runner.stdout:
                self.say("  " + line.rstrip())
            if runner.wait() != 0:
                raise RuntimeError("an attack was not caught, or paid")
        finally:
            if runner.poll() is None:
                runner.terminate()
                runner.wait()

    def show_watching(self, task):
        """Who had to tell what, and who saw it; whether a jackpot was paid."""
        def find(name):
            return events.find(self.net.node, name, task=task["id"])

        for sealed in find("WatchSealed"):
            self.say(f"  block {sealed['block']:4d}  {self.net.name_of(sealed['watcher'])} sealed what it found in report "
                     f"{sealed['report']}")
        for opened in find("ReportOpened"):
            forced = events.CHOICES[opened["choice"]] == "forced"
            what = "was forced to tell an altered result" if forced else "had told the truth, as it had to"
            self.say(f"  block {opened['block']:4d}  {self.net.name_of(opened['verifier'])} {what}")
        for found in find("ErrorFound"):
            self.say(f"  block {found['block']:4d}  {self.net.name_of(found['watcher'])} had sealed the true result")
        jackpots = [paid for paid in find("Paid") if paid["reason"] == "jackpot"]
        for paid in jackpots:
            self.say(f"  block {paid['block']:4d}  jackpot: {qrn(paid['amount'])} to {self.net.name_of(paid['to'])}")
        return bool(jackpots)

    # --- telling ----------------------------------------------------------------------------------------------------
    def follow(self, job, steps, interval):
        """Prices and submits a task, and follows it to its end."""
        net = self.net
        spec = spec_options(net, job, steps, interval, bid_s=8, challenge_s=8)
        cost = price(spec)
        self.say(f"price before signing: {cost['totalWorkUnits']} work units for {steps} steps at no more than "
                 f"{int(cost['priceCapPerWorkUnit']) / 10**9:g} gwei each: {cost['reward']['qrn']} QRN for the solver, "
                 f"{cost['verifiers']} x {cost['verifierFee']['qrn']} for verifiers, escrow {cost['escrow']['qrn']} QRN")
        number = submit(net, net.accounts["submitter"], spec)
        held = int(net.node.task_get(number)["escrow"], 16)
        if held != int(cost["escrow"]["grains"]):
            raise RuntimeError(f"{qrn(held)} in escrow, not the {cost['escrow']['qrn']} QRN that were announced")
        self.say(f"task {number} submitted, {qrn(held)} in escrow")
        paid = iter(range(1, 10**6))

        def changed(task):
            more = ""
            if state_of(task) == "assigned":
                seat = task["seats"][0]
                more = f": {net.name_of(seat['solver'])} won at {int(seat['price'], 16) / 10**9:g} gwei a work unit"
            if state_of(task) == "custody":
                more = ": " + ", ".join(net.name_of(r["verifier"]) for r in task["claim"]["reports"])
            self.say(f"task {number} {state_of(task)} ({reason_of(task)}){more}")
            # Ordinary payments go on meanwhile, as from any Ethereum wallet.
            transfer(net, net.accounts["wallet"], net.accounts["submitter"].address, next(paid), kind=next(paid) % 3)
            progress.changed(task)

        progress = Progress(net, self.say, number)
        return wait_for_task(net, number, FINAL_STATES, TASK_TIMEOUT_S, changed, progress.look)

    def checkpoints(self, task):
        """Heartbeats of the task's last round: the loss on chain is proven to lie in the state."""
        found = []
        for event in events.find(self.net.node, "CheckpointPosted", task=task["id"]):
            if event["step"] == task["spec"]["work"]["interval"]:
                found = []
            found.append((event["step"], events.f32(event["loss"])))
        return found

    def show_losses(self, task):
        curve = self.checkpoints(task)
        self.say("loss, from the heartbeats on chain:")
        self.say("\n".join(f"  step {step:4d}  {loss:.4f}" for step, loss in curve))
        self.say(bar([loss for _, loss in curve]))
        self.plot = os.path.join(self.options.directory, "loss.png")
        data = os.path.join(self.options.directory, "loss.dat")
        with open(data, "w") as file:
            file.writelines(f"{step} {loss}\n" for step, loss in curve)
        script = (f"set terminal pngcairo size 900,520 font 'sans,12'; set output '{self.plot}'; "
                  f"set title 'Quern demo: task {task['id']}, a character transformer on licence texts'; "
                  "set xlabel 'training step'; set ylabel 'loss (nats per character)'; set key top right; "
                  "set border 3; set tics nomirror; set format y '%.1f'; set grid lc rgb '#dddddd' lt 1; "
                  f"set xrange [0:{curve[-1][0] * 1.07:.0f}]; set offsets 0, 0, 0.1, 0.1; "
                  f"plot '{data}' using 1:2 with linespoints lw 2 pt 7 ps 0.9 lc rgb '#2060a0' "
                  "title 'heartbeats, each proven on chain', "
                  f"'{data}' using 1:2:(sprintf('%.2f', $2)) every {max(1, len(curve) - 1)} with labels offset 2,0.8 notitle")
        if shutil.which("gnuplot"):
            subprocess.run(["gnuplot", "-e", script], check=True)
            self.say(f"plot: {self.plot}")
        else:
            self.plot = None
            self.say("gnuplot is missing: no plot")

    def show_model(self, task):
        directory = self.options.directory
        state, self.model = (os.path.join(directory, name) for name in ("state.safetensors", "model.safetensors"))
        run("quern-cli", *self.net.node.cli, "-rpcwait", "content", "state", self.job.program,
            task["claim"]["checkpointContent"], state)
        exported = json.loads(run("quern-compile", "export", "--program", self.job.program, "--state", state, "--out",
                                  self.model))
        if exported["state_root"] != task["claim"]["finalRoot"]:
            raise RuntimeError("the downloaded state is not the one that was proven")
        self.say(f"model: {self.model} ({exported['parameters']} parameters), its state's root is the proven one")
        text = run("quern-compile", "sample", "--program", self.job.program, "--state", state, "--data", *self.job.data,
                   "--arch", self.job.arch, "--length", 400, "--seed", self.options.seed, "--temperature", 0.7)
        self.say("a sample from the trained model:")
        self.say("\n".join("  | " + line for line in text.strip().splitlines()))

    def show_money(self, task):
        for payment in task["payments"]:
            self.say(f"paid: {self.net.name_of(payment['to'])} {qrn(int(payment['amount'], 16))} ({payment['reason']})")

    def show_transcript(self, dispute):
        net, number = self.net, dispute["id"]
        self.say(f"dispute {number}: {net.name_of(dispute['rival'])} against {net.name_of(dispute['defender'])}")
        for move in events.find(net.node, "DisputeMoved", dispute=number):
            transaction = net.node.eth_getTransactionByHash(move["transaction"])
            receipt = net.node.eth_getTransactionReceipt(move["transaction"])
            self.say(f"  round {move['round']:2d}  block {move['block']:4d}  {net.name_of(move['mover']):14s}"
                     f"{(len(transaction['input']) - 2) // 2:6d} bytes  {int(receipt['gasUsed'], 16):7d} gas  "
                     f"then: {PHASES[move['phase']]}")
        view = dispute["gameView"]
        self.say(f"  first wrong step {view['step']}, node {view['node']} ({view['nodeOp']}), tile {view['tile']}, "
                 f"micro-step {view['microStep']}, element {view['element']}")
        self.say(f"  claimed {view['values']['defender']['value']!r} by the defender, "
                 f"{view['values']['rival']['value']!r} by the rival; the chain computed {view['trueValue']['value']!r}")
        self.say(f"  {dispute['rounds']} rounds, {dispute['bytes']} bytes, {dispute['gas']} gas, the leaf took "
                 f"{dispute['leafMicroseconds']:.1f} microseconds: {dispute['winnerName']} wins")

    # --- report -----------------------------------------------------------------------------------------------------
    def consensus(self):
        """Time from a block's proposal to its finality, as the nodes measured it, and the views that gave no block: the
        middle node's median, the slowest node's p99, the most views that a node has seen nullified."""
        statuses = [node.sdbft_status() for node in self.net.nodes]
        timings = [status["finality_ms"] for status in statuses if status["finality_ms"]["samples"]]
        return {"validators": self.options.validators,
                "finality_ms": {"p50": statistics.median(timing["p50"] for timing in timings),
                                "p99": max(timing["p99"] for timing in timings)},
                "views_nullified": max(status["viewsNullified"] for status in statuses)}

    def report(self):
        node, net = self.net.node, self.net
        tasks, slashed = [], []
        for task in all_tasks(net.node):
            curve, claim = self.checkpoints(task), task["claim"] or {"loss": 0, "price": "0x0"}
            tasks.append({
                "id": task["id"], "state": task["stateName"], "steps": task["steps"],
                "loss_first": curve[0][1] if curve else None, "loss_last": events.f32(claim["loss"]),
                "price": int(claim["price"], 16),
                "paid": [{"to": payment["to"], "name": net.name_of(payment["to"]), "amount": int(payment["amount"], 16),
                          "reason": payment["reason"]} for payment in task["payments"]]})
            slashed += [{"address": slash["address"], "role": events.ROLES[slash["role"]],
                         "amount": int(slash["amount"], 16), "reason": slash["reason"]} for slash in task["slashes"]]
        disputes = [{"id": d["id"], "parties": [d["defender"], d["rival"]], "rounds": d["rounds"], "bytes": d["bytes"],
                     "gas": d["gas"], "leaf_op": d["leafOpName"], "leaf_us": d["leafMicroseconds"],
                     "winner": d["winnerName"], "reason": d["reason"]}
                    for d in node.dispute_list(start=1, limit=100)["disputes"]]
        with open(self.model, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        return {"finalized_blocks": node.height(), **self.consensus(), "tasks": tasks, "disputes": disputes, "slashed": slashed,
                "supply_ok": supply_difference(net) == 0, "model_sha256": digest, "restarts": net.restarts,
                "wall_seconds": {**self.walls, "total": round(time.monotonic() - self.started, 3)}}

    def stop(self):
        if self.net:
            self.say("stopping all processes")
            self.net.stop()

    def leave(self, status, own):
        """Tells what stays on disk, or removes what nobody can want."""
        directory = self.options.directory
        if status > 128 and own:
            shutil.rmtree(directory, ignore_errors=True)
            self.say(f"removed {directory}")
            return
        sizes = [os.path.getsize(path) for path in glob.glob(directory + "/**", recursive=True) if os.path.isfile(path)]
        self.say(f"{'the model, the plot, the chain and the logs are' if status == 0 else 'the logs (*.log) are'} in "
                 f"{directory} ({sum(sizes) >> 20} MB); when you are done: rm -r {shlex.quote(directory)}")

    def run(self):
        self.start_network()
        self.honest_task()
        self.network_task()
        self.forced_error()
        self.disputed_task()
        self.attacks()
        self.phase("summary")
        report = self.report()
        self.phase(None)
        report["wall_seconds"].update(self.walls)
        self.say(f"{report['finalized_blocks']} blocks finalized, {len(report['tasks'])} tasks settled, "
                 f"{len(report['disputes'])} disputes, {len(report['slashed'])} slashed")
        self.say(f"{report['validators']} validators: finality {report['finality_ms']['p50']} ms (p50), "
                 f"{report['finality_ms']['p99']} ms (p99), {report['views_nullified']} views nullified")
        for task in report["tasks"]:
            self.say(f"task {task['id']}: {task['state']}, {task['steps']} steps, loss {task['loss_first']:.3f} -> "
                     f"{task['loss_last']:.3f}")
        for slash in report["slashed"]:
            self.say(f"slashed {self.net.name_of(slash['address'])}: {qrn(slash['amount'])} ({slash['reason']})")
        self.say(f"every grain accounted for: {'yes' if report['supply_ok'] else 'NO'}")
        self.say(f"model {self.model}, sha256 {report['model_sha256']}")
        if self.options.report:
            with open(self.options.report, "w") as file:
                json.dump(report, file, indent=2)
                file.write("\n")
            self.say(f"report: {self.options.report}")
        return 0 if report["supply_ok"] else 1


def main():
    try:
        return guarded_main()
    except Ended as ended:  # while it was ending anyway; atexit kills what is left
        return ended.status


def guarded_main():
    parser = argparse.ArgumentParser(prog="demo.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", metavar="FILE", help="also write a JSON report")
    parser.add_argument("--seed", type=int, default=1, help="changes keys and initialisation (default 1)")
    parser.add_argument("--validators", type=int, default=4, help="how many (default 4)")
    parser.add_argument("--directory", help="where the network lives (default: a new one under the temporary directory)")
    options = parser.parse_args()
    if not os.path.exists(program("quernd")):
        sys.exit("demo: the programs are not built; run contrib/demo.sh")
    if not 1 <= options.validators <= 20:
        sys.exit("demo: 1 to 20 validators")
    end_on_signals()
    own = options.directory is None  # then nobody misses it when nothing came of it
    options.directory = os.path.abspath(options.directory or tempfile.mkdtemp(prefix="quern-demo-"))
    if os.path.exists(os.path.join(options.directory, "genesis.json")):
        sys.exit(f"demo: {options.directory} holds a network already")
    demo = Demo(options)
    status = 1
    try:
        demo.say(f"network directory: {options.directory}")
        status = demo.run()
    except Ended as ended:
        status = ended.status
        demo.say(f"ended by {ended}")
    except (RuntimeError, TimeoutError, OSError, KeyError, RpcError, BadAnswer) as error:
        demo.say(f"failed: {demo.net.given_up if demo.net and demo.net.given_up else error}")
    finally:
        demo.stop()
    demo.leave(status, own)
    return status


if __name__ == "__main__":
    sys.exit(main())
