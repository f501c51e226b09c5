#!/usr/bin/env python3
"""quern-train: from a model to a verified result, stopped and killed wherever it hurts, and never paid twice."""
import json
import os
import pty
import shutil
import signal
import subprocess
import unittest

import framework
from quern.devnet import QRN, program, run
from quern.market import native, transfer
from quern.shapes import shapes
from quern.training import initializers_of, read_safetensors

STEPS, LOCAL_STEPS = 40, 1500
TERMS = ["--interval", 10, "--stride", 5, "--tax", "0.01qrn"]
WINDOWS = [f"--{name.replace('_', '-')}={seconds}" for name, seconds in framework.WINDOWS.items()]
TIMEOUT_S = 240


class Run:
    """One quern-train, whose lines are read as they come."""

    def __init__(self, arguments, stdin=subprocess.DEVNULL):
        self.events = []
        self.child = subprocess.Popen([program("quern-train"), *map(str, arguments)], stdin=stdin, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def until(self, *names):
        """The first event of one of these names; None when it ends before."""
        for line in self.child.stdout:
            event = json.loads(line)
            self.events.append(event)
            if event["event"] in names:
                return event
        return None

    def end(self, stop=None):
        """Its exit code, after that signal."""
        if stop is not None:
            self.child.send_signal(stop)
        rest, self.said = self.child.communicate(timeout=TIMEOUT_S)
        self.events += [json.loads(line) for line in rest.splitlines()]
        return self.child.returncode

    def names(self):
        return [event["event"] for event in self.events]

    def last(self, name):
        return [event for event in self.events if event["event"] == name][-1]


class Trains:
    """Files of a model that no other test has, and how it is trained."""

    def make_model(self, name, steps=STEPS):
        path = lambda end: os.path.join(self.directory, name + end)
        data = json.loads(run("quern-compile", "dataset", "--out", path(".u8"), framework.licence_texts()[2]))
        run("quern-compile", "arch", "--data", path(".u8"), "--context", 32, "--out", path(".json"))
        with open(path(".json")) as file:
            model = json.load(file)
        model["model"].update(layers=1, d_model=32)
        model.update(batch=4)
        model["optimizer"]["total_steps"] = steps
        with open(path(".json"), "w") as file:
            json.dump(model, file)
        self.assertEqual(data["elements"], os.path.getsize(path(".u8")))
        return ["--model", path(".json"), "--data", path(".u8"), "--out", path(".safetensors"), "--json"]

    @staticmethod
    def with_value(arguments, name, value):
        at = arguments.index(name)
        return [*arguments[:at + 1], value, *arguments[at + 2:]]

    def error(self, running, code=1):
        self.assertEqual(running.end(), code, running.said)
        self.assertEqual(running.names()[-1], "error")
        self.assertIn(running.events[-1]["name"], running.said)
        return running.events[-1]


class TrainTest(framework.MarketTest, Trains):
    def on_market(self, account="submitter", budget="5qrn", node=None):
        account = self.net.accounts[account]
        return ["--node", node or self.net.nodes[0].url, "--rpc-cookie", self.net.daemons[0].datadir + "/.cookie",
                "--keystore", account.keystore, "--password-file", account.password_file, "--budget", budget,
                "--poll-ms", 200, *TERMS, *WINDOWS]

    def nonce(self, account="submitter"):
        return self.net.node.number("eth_getTransactionCount", self.net.accounts[account].address, "latest")

    def parties(self):
        self.workers(solver1="", whistleblower="")
        self.verifiers()

    def test_a_verified_result_and_the_same_without_a_chain(self):
        self.parties()
        model = self.make_model("whole")
        before = self.nonce()
        running = Run([*model, *self.on_market(budget="2.5 qrn"), "--yes"])
        self.assertEqual(running.end(), 0, running.said)
        names = running.names()
        for name in ("price", "uploading", "sending", "sent", "submitted", "state", "progress", "downloading", "result"):
            self.assertIn(name, names)
        self.assertLessEqual(int(running.last("price")["most"]), 2.5 * QRN)
        self.assertEqual(self.nonce(), before + 1)

        submitted, result = running.last("submitted"), running.last("result")
        task = self.net.node.task_get(submitted["task"])
        self.assertEqual(task["stateName"], "settled")
        self.assertEqual(result["stateRoot"], task["claim"]["finalRoot"])
        self.assertEqual(int(result["refunded"]), sum(self.payments(task, "submitter", "refund")))
        self.assertEqual(int(result["paid"]) + int(result["refunded"]) + int(task["escrow"], 16),
                         int(submitted["escrow"]))
        progress = running.last("progress")
        self.assertEqual((progress["step"], progress["steps"]), (STEPS, STEPS))
        self.assertIsInstance(progress["loss"], float)
        exported = json.loads(run("quern-compile", "validate", model[5]))
        self.assertTrue(exported["valid"])
        kept = lambda name: os.path.join(model[5] + ".job", name)
        text = run("quern-compile", "sample", "--arch", model[1], "--program", kept("program-0.bin"), "--state",
                   kept("state.safetensors"), "--data", model[3], "--length", 8)
        self.assertEqual(len(text.rstrip("\n")), 8)
        self.assert_supply()

        # Done is done, and asks for no money.
        again = Run([*model, *self.on_market(), "--yes"])
        self.assertEqual(again.end(), 0, again.said)
        self.assertEqual(again.names(), ["result"])
        with open(model[5], "rb") as file:
            content = file.read()
        # What is in its place is not told of as the result.
        for lost in ([], [kept("state.safetensors")]):
            for path in [model[5], *lost]:
                with open(path, "wb") as file:
                    file.write(b"garbage")
            again = Run([*model, *self.on_market(), "--yes"])
            self.assertEqual(again.end(), 0, again.said)
            self.assertEqual("downloading" in again.names(), bool(lost))
            self.assertEqual(again.last("result")["stateRoot"], result["stateRoot"])
            with open(model[5], "rb") as file:
                self.assertEqual(file.read(), content)
        # The same bits by the local executor, in the task's order of data.
        here = Run([*self.with_value(model, "--out", model[5] + ".local"), "--local", "--beacon", task["seedBeacon"]])
        self.assertEqual(here.end(), 0, here.said)
        self.assertEqual(here.last("result")["stateRoot"], result["stateRoot"])
        with open(model[5], "rb") as one, open(model[5] + ".local", "rb") as two:
            self.assertEqual(one.read(), two.read())
        # And anybody replays it.
        replay = ["verify", "--program", kept("program-0.bin"), "--state", kept("init.safetensors"), "--data", model[3],
                  "--beacon", task["seedBeacon"], "--last", STEPS]
        self.assertTrue(json.loads(run("quern-compile", *replay, "--root", result["stateRoot"]))["equal"])
        self.assertTrue(json.loads(run("quern-compile", *replay, "--after", kept("state.safetensors")))["equal"])
        differs = subprocess.run([program("quern-compile"), *map(str, replay), "--after", kept("init.safetensors")],
                                 capture_output=True, text=True, check=False)
        self.assertEqual(differs.returncode, 1)
        self.assertIn("verify.differs", differs.stderr)
        found = json.loads(differs.stdout)
        self.assertEqual((found["equal"], found["difference"]["slot"]), (False, "step"))

    def test_killed_at_each_stage_it_pays_once(self):
        self.parties()
        model = self.make_model("killed")
        before = self.nonce()
        terms = ["--tranche", STEPS // 2, "--yes"]
        command = [*model, *self.on_market(), *terms]
        patient = self.with_value(command, "--poll-ms", 5000)  # no receipt is looked for before it is killed
        running, terminal = self.at_the_question(command[:-1])
        running.end(signal.SIGKILL)
        os.close(terminal)
        self.assertIsNone(self.stage_of(model))
        # A busy machine may let it get further before it is killed, but not fall back.
        stages, jobs = ("uploading", "sending", "sent", "submitted", "progress"), (None, "submitting", "following")
        for at, (stage, least) in enumerate(zip(stages, (0, 1, 1, 2, 2))):
            with self.subTest(stage):
                running = Run(patient if least == 1 else command)
                self.assertIsNotNone(running.until(*stages[at:]), running.names())
                running.end(signal.SIGKILL)
                self.assertIn(self.stage_of(model), jobs[least:])
        following = Run(command)
        self.assertIsNotNone(following.until("state"))
        self.assertEqual(following.end(signal.SIGINT), 1)
        self.assertEqual(following.events[-1]["name"], "train.stopped")

        # The job is one account's, and one training's.
        other = self.error(Run([*model, *self.on_market("wallet"), *terms]))
        self.assertEqual(other["name"], "train.wrong_key")
        other = self.error(Run([*command, "--steps", 20]))
        self.assertEqual(other["name"], "train.other_job")

        downloading = Run(command)
        self.assertIsNotNone(downloading.until("state"))
        self.net.daemon.kill()
        self.assertIn("http.", downloading.until("waiting")["for"])
        self.net.daemon.start()
        self.assertIsNotNone(downloading.until("downloading"), downloading.names())
        downloading.end(signal.SIGKILL)
        self.assertNotIn("submitted", downloading.names())
        last = Run(command)
        self.assertEqual(last.end(), 0, last.said)
        task = self.net.node.task_get(last.last("result")["task"])
        self.assertEqual(last.last("result")["stateRoot"], task["claim"]["finalRoot"])
        self.assertEqual(self.nonce(), before + 1, "one transaction, whatever was killed")
        self.assertTrue(os.path.exists(model[5]))
        self.assertEqual(task["settled"], 2)
        self.assertEqual(downloading.last("progress")["stretches"], 2)
        self.assert_supply()

    @staticmethod
    def stage_of(model):
        if not os.path.exists(model[5] + ".job.json"):
            return None
        with open(model[5] + ".job.json") as file:
            return json.load(file)["stage"]

    def at_the_question(self, command):
        """A run that waits for its answer, and where to write that."""
        ours, theirs = pty.openpty()
        running = Run(command, stdin=theirs)
        os.close(theirs)
        self.assertIsNotNone(running.until("price"))
        return running, ours

    def answer(self, terminal, text):
        os.write(terminal, text)
        self.addCleanup(os.close, terminal)

    def test_what_was_signed_is_sent_again_and_never_replaced(self):
        wallet, submitter = self.net.accounts["wallet"], self.net.accounts["submitter"]
        model = self.make_model("displaced")
        command = [*model, *self.on_market("wallet", budget="60qrn")]
        running, terminal = self.at_the_question(command)
        transfer(self.net, wallet, submitter.address, "95qrn")
        self.answer(terminal, b"y\n")
        self.assertEqual(self.error(running)["name"], "train.refused")
        before = self.nonce("wallet")
        self.assertEqual(self.stage_of(model), "submitting")
        self.assertEqual(self.error(Run(command))["name"], "train.refused")
        transfer(self.net, wallet, submitter.address, 1)  # takes the nonce of what was signed
        transfer(self.net, submitter, wallet.address, "95qrn")
        found = self.error(Run(command))
        self.assertEqual(found["name"], "train.refused")
        self.assertIn("remove the file to submit anew", found["detail"])
        self.assertEqual(self.nonce("wallet"), before + 1)

        # As it says; and a task that its owner cancels has ended.
        os.remove(model[5] + ".job.json")
        again = Run([*command, "--yes"])
        task = again.until("submitted")["task"]
        native(self.net, wallet, "task_cancel", {"task": task})
        found = self.error(again)
        self.assertEqual(found["name"], "train.task_cancelled")
        self.assertIn("by_submitter", found["detail"])
        self.assertEqual(self.nonce("wallet"), before + 3)
        self.change_job(model, task=task + 1000)
        self.assertEqual(self.error(Run(command))["name"], "train.task_unknown")

    @staticmethod
    def change_job(model, **fields):
        with open(model[5] + ".job.json") as file:
            job = {**json.load(file), **fields}
        with open(model[5] + ".job.json", "w") as file:
            json.dump(job, file)

    def test_a_task_that_nobody_takes_is_refunded_and_not_submitted_again(self):
        self.workers(whistleblower="")  # somebody has to send the tick
        before = self.nonce()
        command = [*self.make_model("expired"), *self.on_market(), "--yes"]
        first = Run(command)
        found = self.error(first)
        self.assertEqual(found["name"], "train.task_expired")
        task = self.net.node.task_get(first.last("submitted")["task"])
        refund, = self.payments(task, "submitter", "refund")
        self.assertIn(f"refunded {refund / QRN:.4f}"[:14], found["detail"])
        self.assertEqual(self.error(Run(command))["name"], "train.task_expired")
        self.assertEqual(self.nonce(), before + 1)

    def test_what_cannot_be_is_said_and_costs_nothing(self):
        model = self.make_model("refused")
        before = self.nonce(), self.nonce("wallet")
        market = self.on_market()
        node = self.error(Run([*model, *self.on_market(node="http://127.0.0.1:9"), "--yes"]), code=3)
        self.assertEqual(node["name"], "train.no_node")
        at = market.index("--budget")
        budget = self.error(Run([*model, *market[:at], *market[at + 2:], "--yes"]))
        self.assertEqual(budget["name"], "train.no_budget")
        small = self.error(Run([*model, *self.on_market(budget="1000"), "--yes"]))
        self.assertEqual(small["name"], "train.budget_too_small")
        self.assertIn("QRN, fee included", small["detail"])
        poor = self.error(Run([*model, *self.on_market("wallet", budget="5000qrn"), "--yes"]))
        self.assertEqual(poor["name"], "train.not_enough_balance")
        self.assertIn("has 100 QRN", poor["detail"])
        self.assertEqual(self.error(Run([*model, *market]))["name"], "train.cannot_ask")
        self.assertEqual(self.error(Run([*model, *market, "--yes", "--chain-id", 1]))["name"], "train.wrong_chain")
        wrong = os.path.join(self.directory, "wrong-password")
        with open(os.open(wrong, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write("not it\n")
        key = self.error(Run([*model, *self.with_value(market, "--password-file", wrong), "--yes"]))
        self.assertTrue(key["name"].startswith("keystore."), key)
        data = self.error(Run([*self.with_value(model, "--data", model[1]), *market, "--yes"]))
        self.assertEqual(data["name"], "task.wrong_data_size")
        self.assertEqual(before, (self.nonce(), self.nonce("wallet")))
        usage = subprocess.run([program("quern-train"), "--local"], capture_output=True, text=True)
        self.assertEqual(usage.returncode, 2, usage.stderr)
        usage = subprocess.run([program("quern-train"), "--model", "m.onnx", "--data", "d", "--local", "--tax", "1qrn"],
                               capture_output=True, text=True, cwd=self.directory)
        self.assertEqual(usage.returncode, 2, usage.stderr)
        self.assertIn("--local excludes --tax", usage.stderr)

    def test_asks_once_at_a_terminal(self):
        model = self.make_model("asked")
        before = self.nonce()
        running, terminal = self.at_the_question([*model, *self.on_market()])
        self.answer(terminal, b"n\n")
        self.assertEqual(self.error(running)["name"], "train.declined")
        self.assertRegex(running.said, r"Submit for at most [0-9.]+ QRN\? \[y/N\]")
        # Data that changes while its owner thinks is not what was priced.
        running, terminal = self.at_the_question([*model, *self.on_market()])
        with open(model[3], "r+b") as file:
            file.write(b"\x01\x02\x01\x02")
        self.answer(terminal, b"y\n")
        self.assertEqual(self.error(running)["name"], "train.data_changed")
        self.assertIsNone(self.stage_of(model))
        self.assertEqual(self.nonce(), before)


class LocalTrainTest(unittest.TestCase, Trains):
    def test_stopped_and_killed_it_ends_with_the_same_bits(self):
        self.directory = framework.temporary_directory("quern-train-")
        model = self.make_model("local", LOCAL_STEPS)
        command = [*model, "--local", "--interval", 20, "--threads", 1]
        whole = Run(self.with_value(command, "--out", model[5] + ".whole"))
        self.assertEqual(whole.end(), 0, whole.said)
        self.assertEqual(whole.last("progress")["step"], LOCAL_STEPS)

        stopped = Run(command)
        self.assertIsNotNone(stopped.until("progress"))
        self.assertEqual(stopped.end(signal.SIGINT), 1)
        self.assertEqual(stopped.events[-1]["name"], "train.stopped")
        killed = Run(command)
        self.assertGreater(killed.until("resumed")["step"], 0)
        self.assertIsNotNone(killed.until("progress"))
        killed.end(signal.SIGKILL)
        last = Run(command)
        self.assertIsNotNone(last.until("resumed"))
        self.assertEqual(last.end(), 0, last.said)
        self.assertEqual(last.last("result")["stateRoot"], whole.last("result")["stateRoot"])
        with open(model[5], "rb") as one, open(model[5] + ".whole", "rb") as two:
            self.assertEqual(one.read(), two.read())
        # Another training is refused, and leaves the folder as it is.
        first = os.path.join(model[5] + ".job", "init.safetensors")
        with open(first, "rb") as file:
            before = file.read()
        self.assertEqual(self.error(Run([*command, "--seed", 2]))["name"], "train.other_job")
        with open(first, "rb") as file:
            self.assertEqual(file.read(), before)
        # For people: lines, the last of which says where the result is.
        shown = run("quern-train", *[word for word in command if word != "--json"]).splitlines()
        self.assertEqual(shown, [f"{model[5]} is trained; state root {last.last('result')['stateRoot']}"])

    def test_a_network_comes_back_in_its_own_file(self):
        directory = framework.temporary_directory("quern-train-")
        path = lambda name: os.path.join(directory, name)
        shutil.copy(os.path.join(framework.ROOT, "contrib", "models", "shapes.onnx"), path("net.onnx"))
        for name, content in zip(("images.u8", "labels.u8"), shapes(64, 1)):
            with open(path(name), "wb") as file:
                file.write(content)
        command = ["--model", path("net.onnx"), "--data", path("images.u8"), path("labels.u8"), "--steps", 5, "--local",
                   "--out", path("trained.safetensors"), "--json"]
        done = Run([*command, "--export", path("trained.onnx")])
        self.assertEqual(done.end(), 0, done.said)
        self.assertEqual(done.last("result")["onnx"], path("trained.onnx"))
        given, found = self.initializers(path("net.onnx")), self.initializers(path("trained.onnx"))
        trained = {name: words for name, (_, words) in read_safetensors(path("trained.safetensors")).items()}
        self.assertGreater(len(trained), 4)
        self.assertEqual(list(found), list(given), "all of them, in their order")
        for name, words in found.items():
            self.assertEqual(words, trained.get(name, given[name]), name)
            if name in trained:
                self.assertNotEqual(words, given[name], name)
        # It is a model as the given one is: trained on from where it was.
        again = Run([*self.with_value(self.with_value(command, "--model", path("trained.onnx")), "--out", path("more"))])
        self.assertEqual(again.end(), 0, again.said)
        # So does the architecture of it, and quern-compile by hand.
        run("quern-compile", "arch", "--model", path("net.onnx"), "--data", path("images.u8"), path("labels.u8"), "--steps", 5,
            "--out", path("arch.json"))
        named = self.with_value(self.with_value(command, "--model", path("arch.json")), "--out", path("named"))
        done = Run([*named, "--export", path("named.onnx")])
        self.assertEqual(done.end(), 0, done.said)
        self.assertEqual(self.initializers(path("named.onnx")), found)
        run("quern-compile", "export", "--program", path("named.job/program-0.bin"), "--state",
            path("named.job/state.safetensors"), "--onnx", path("net.onnx"), "--out", path("by-hand.onnx"))
        with open(path("named.onnx"), "rb") as one, open(path("by-hand.onnx"), "rb") as two:
            self.assertEqual(one.read(), two.read())
        self.assertEqual(self.error(Run([*named, "--export", path("net.onnx")]))["name"], "train.same_file")
        self.directory = directory
        text = [*self.make_model("text"), "--local"]
        self.assertEqual(self.error(Run([*text, "--export", path("text.onnx")]))["name"], "train.no_onnx")

    @staticmethod
    def initializers(path):
        """Name -> raw data, by a reader that has nothing of ours."""
        with open(path, "rb") as file:
            content = file.read()
        return {name: content[begin:end] for name, (begin, end) in initializers_of(content).items()}


if __name__ == "__main__":
    framework.main()
