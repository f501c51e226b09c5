#!/usr/bin/env python3
"""quern.train() of PyTorch's modules: on the market and on this machine, and what it says when it cannot."""
import json
import os
import subprocess
import unittest

import framework
import quern

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_models.py")
STEPS, TERMS = 60, ["--interval", "15", "--stride", "5", "--tax", "0.01qrn", "--poll-ms", "200"]
WINDOWS = [f"--{name.replace('_', '-')}={seconds}" for name, seconds in framework.WINDOWS.items()]


PYTHON = framework.python_with("torch")


@unittest.skipIf(PYTHON is None, "python3-torch is missing")
class PythonTest(framework.MarketTest):
    def script(self, case, **how):
        ended = subprocess.run([PYTHON, SCRIPT, case, json.dumps(how)], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return json.loads(ended.stdout)

    def place(self, name):
        return os.path.join(self.directory, name)

    def test_a_module_is_trained_on_the_market(self):
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        account = self.net.accounts["submitter"]
        node = self.net.nodes[0].url
        found = self.script("cnn", steps=STEPS, budget="5qrn", node=node, keystore=account.keystore,
                            password_file=account.password_file, directory=self.place("cnn"), options=[*TERMS, *WINDOWS])
        names = [event["event"] for event in found["events"]]
        for name in ("price", "submitted", "progress", "result"):
            self.assertIn(name, names)
        self.assertTrue(found["untouched"])
        self.assertGreater(found["accuracy"], 0.9)
        self.assertTrue(found["moved"], "running statistics come back, too")
        self.assertEqual(found["scale"], [2.0, 2.0], "a buffer is not trained")
        self.assertIn("norm.num_batches_tracked", found["names"])
        self.assertEqual(found["exported"], [name for name in found["names"] if not name.endswith("num_batches_tracked")],
                         "and all of it in the ONNX file")
        task = quern.Client(node).task(found["events"][-1]["task"])
        self.assertEqual((task.state, task.steps), ("settled", STEPS))
        self.assertEqual(found["events"][-1]["stateRoot"], task.raw["claim"]["finalRoot"])

        # PyTorch computes with the weights what the canonical machine does.
        with open(self.place("cnn/arch.json")) as file:
            architecture = json.load(file)
        self.assertEqual(architecture["model"]["frozen"], ["norm.running_mean", "norm.running_var",
                                                           "norm2.running_mean", "norm2.running_var", "scale"])
        judged = self.script("cnn", steps=STEPS, local=True, directory=self.place("local"),
                             options=["--beacon", task.raw["seedBeacon"]])
        self.assertEqual(judged["events"][-1]["stateRoot"], found["events"][-1]["stateRoot"])
        self.assertEqual(judged["loss"], found["loss"])
        self.assert_supply()

    def test_weights_that_are_tied_stay_so(self):
        found = self.script("tied", steps=150, local=True, directory=self.place("tied"))
        self.assertTrue(found["same"])
        self.assertTrue(found["moved"])
        self.assertGreater(found["right"], 0.99)

    def test_numbers_are_fitted_as_numbers(self):
        for name, (before, after) in self.script("line", steps=300).items():
            self.assertLess(after, before / 20, name)

    def test_what_was_interrupted_goes_on_with_its_own_weights(self):
        found = self.script("interrupted", directory=self.place("interrupted"))
        self.assertEqual(found["other"], "train.other_job", "another network does not take its place")
        self.assertEqual(found["events"][0], "resumed")
        self.assertIn("conv1.weight", found["names"])
        self.assertEqual(found["name"], "train.other_job", "after its end other weights are another training")

    def test_what_cannot_be_trained_is_named(self):
        unknown = self.script("refused", unknown=True, steps=3, local=True, loss="mse")
        self.assertEqual(unknown["name"], "onnx.unsupported_op")
        self.assertIn("(CumSum", unknown["detail"])
        self.assertEqual(self.script("refused", steps=3, local=True, loss="hinge")["name"], "arch.unknown_loss")
        self.assertEqual(self.script("refused", steps=3, local=True, precision="f8")["name"], "arch.unknown_precision")
        self.assertEqual(self.script("refused", steps=3)["name"], "ValueError")
        for dataset, name, word in (("short", "ValueError", "(31,)"), ("arrays", "TypeError", "torch.as_tensor"),
                                    ("classes", "train.unknown_class", "is class 4")):
            wrong = self.script("refused", dataset=dataset, steps=3, local=True)
            self.assertEqual(wrong["name"], name)
            self.assertIn(word, wrong["detail"])
        account = self.net.accounts["submitter"]
        paid = {"steps": 3, "node": self.net.nodes[0].url, "keystore": account.keystore,
                "password_file": account.password_file, "options": [*TERMS[4:], *WINDOWS]}
        self.assertEqual(self.script("refused", budget="1gwei", **paid)["name"], "train.budget_too_small")
        self.assertEqual(self.script("refused", budget="1qrn", **{**paid, "node": "http://127.0.0.1:1"})["name"],
                         "train.no_node")

    def test_a_client_tells_of_the_chain(self):
        client = quern.Client(self.net.nodes[0].url)
        self.assertEqual(client.chain_id(), self.net.node.number("eth_chainId"))
        self.assertGreater(client.balance(self.net.accounts["wallet"].address), 0)
        self.assertGreaterEqual(self.net.node.height(), client.height() - 1)
        self.assertIsNone(client.task(10**6))
        with self.assertRaises(ValueError):
            quern.Client("https://127.0.0.1")


if __name__ == "__main__":
    framework.main()
