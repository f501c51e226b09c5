#!/usr/bin/env python3
"""A convolutional network over images: trained, verified and disputed as any other model, and judged on images that it
has not seen."""
import json
import os
import subprocess

import framework
from quern.devnet import ROOT, program
from quern.market import Job, run
from quern.shapes import NAMES, architecture, shapes

TRAINED, HELD_OUT = 512, 128
STEPS, INTERVAL = 40, 10
CONV = {"type": "conv2d", "kernel": 3, "padding": 1, "bias": False}
LAYERS = [{**CONV, "channels": 32}, {"type": "batch_norm"}, {"type": "relu"}, {"type": "max_pool2d", "kernel": 2},
          {"type": "residual", "inner": [{**CONV, "channels": 32}, {"type": "batch_norm"}, {"type": "relu"}]},
          {"type": "global_avg_pool2d"}, {"type": "dropout", "rate": 0.1}, {"type": "linear", "size": len(NAMES)}]


class Images(framework.MarketTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.files = {}
        for name, count, seed in (("trained", TRAINED, 1), ("held-out", HELD_OUT, 2)):
            cls.files[name] = [os.path.join(cls.directory, f"{name}.{part}") for part in ("images", "labels")]
            for path, content in zip(cls.files[name], shapes(count, seed)):
                with open(path, "wb") as file:
                    file.write(content)
        cls.images = Job(os.path.join(cls.directory, "images"), cls.net.node,
                         architecture({"type": "layers", "layers": LAYERS}, TRAINED), cls.files["trained"])
        cls.network = Job(os.path.join(cls.directory, "network"), cls.net.node,
                          architecture({"type": "network", "file": "shapes.onnx"}, TRAINED), cls.files["trained"],
                          network=os.path.join(ROOT, "contrib", "models", "shapes.onnx"))

    def judge(self, job, task):
        """What `evaluate` says of a settled task's result on the images that it has not seen, and how it was asked."""
        state = os.path.join(self.directory, f"state-{task['id']}.safetensors")
        run("quern-cli", *self.net.node.cli, "content", "state", job.program, task["claim"]["checkpointContent"], state)
        asked = ["evaluate", "--program", job.program, "--state", state, "--arch", job.arch, "--data"]
        return json.loads(run("quern-compile", *asked, *self.files["held-out"], "--predictions")), asked

    def test_what_was_trained_knows_images_that_it_has_not_seen(self):
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit(STEPS, INTERVAL, job=self.images))
        self.assertEqual(task["stateName"], "settled", task["reason"])
        self.assertEqual(len(task["spec"]["dataRoots"]), 2)
        losses = self.losses(task["id"])
        self.assertLess(losses[-1], losses[0] / 2)
        found, judged = self.judge(self.images, task)
        self.assertEqual(found["examples"], HELD_OUT)
        self.assertGreater(found["accuracy"], 0.9)
        self.assertLess(found["loss"], 0.5)
        for files, words in ((self.files["held-out"][:1], "1 files, the architecture has 2"), (self.files["held-out"][::-1], "arch.wrong_data")):
            refused = subprocess.run([program("quern-compile"), *judged, *files], capture_output=True, text=True, check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(words, refused.stderr)
        self.assert_supply()

    def test_a_network_that_pytorch_exported_is_trained(self):
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit(STEPS, INTERVAL, job=self.network))
        self.assertEqual(task["stateName"], "settled", task["reason"])
        found, _ = self.judge(self.network, task)
        self.assertGreater(found["accuracy"], 0.9)
        with open(self.files["held-out"][1], "rb") as file:
            labels = file.read()
        right = sum(label == predicted for label, predicted in zip(labels, found["predicted"], strict=True))
        self.assertEqual(right / HELD_OUT, found["accuracy"])
        self.assert_supply()

    def test_a_lie_in_a_convolution_is_found(self):
        self.workers(solver1="--price=1 --test-fault=flip_element@23", solver2="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit(STEPS, INTERVAL, job=self.images))
        self.assertEqual((task["stateName"], task["round"]), ("settled", 1), task["reason"])
        self.assertIn(("solver1", "wrong_result"), self.slashed(task))
        decided = [d for d in self.disputes(task) if d["winnerName"] == "rival" and d["leafExecuted"]]
        self.assertTrue(decided)
        self.assertEqual((decided[0]["gameView"]["step"], decided[0]["leafOpName"]), (23, "matmul"))
        self.assert_supply()


if __name__ == "__main__":
    framework.main()
