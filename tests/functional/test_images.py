#!/usr/bin/env python3
"""A convolutional network over images: trained, verified and disputed as any other model, and judged on images that it
has not seen."""
import json
import os
import random
import subprocess

import framework
from quern.devnet import program
from quern.market import Job, run

SIDE, CLASSES, TRAINED, HELD_OUT = 12, 4, 512, 128
STEPS, INTERVAL = 40, 10
CONV = {"type": "conv2d", "kernel": 3, "padding": 1, "bias": False}
LAYERS = [{**CONV, "channels": 32}, {"type": "batch_norm"}, {"type": "relu"}, {"type": "max_pool2d", "kernel": 2},
          {"type": "residual", "inner": [{**CONV, "channels": 32}, {"type": "batch_norm"}, {"type": "relu"}]},
          {"type": "global_avg_pool2d"}, {"type": "dropout", "rate": 0.1}, {"type": "linear", "size": CLASSES}]


def shapes(count, seed):
    """Gray images of bars, upright and lying, crosses and frames on noise, and which of them each is."""
    lot, images, labels = random.Random(seed), bytearray(), bytearray()
    for _ in range(count):
        label, row, column = lot.randrange(CLASSES), lot.randrange(2, SIDE - 6), lot.randrange(2, SIDE - 6)
        inside = {0: lambda y, x: x in (2, 3), 1: lambda y, x: y in (2, 3), 2: lambda y, x: x in (2, 3) or y in (2, 3),
                  3: lambda y, x: x in (0, 5) or y in (0, 5)}[label]
        for y in range(SIDE):
            for x in range(SIDE):
                drawn = 0 <= y - row < 6 and 0 <= x - column < 6 and inside(y - row, x - column)
                images.append(lot.randrange(170, 256) if drawn else lot.randrange(0, 100))
        labels.append(label)
    return bytes(images), bytes(labels)


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
        cls.images = Job(os.path.join(cls.directory, "images"), cls.net.node, {
            "format": "quern-arch-1", "batch": 32,
            "model": {"type": "layers", "input": {"height": SIDE, "width": SIDE, "channels": 1, "scale": 1 / 128, "shift": -1},
                      "layers": LAYERS, "outputs": CLASSES},
            "data": [{"dtype": "u8", "elements": TRAINED * SIDE * SIDE}, {"dtype": "u8", "elements": TRAINED}],
            "optimizer": {"type": "adamw", "lr": 1e-2},
        }, cls.files["trained"])

    def test_what_was_trained_knows_images_that_it_has_not_seen(self):
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit(STEPS, INTERVAL, job=self.images))
        self.assertEqual(task["stateName"], "settled", task["reason"])
        self.assertEqual(len(task["spec"]["dataRoots"]), 2)
        losses = self.losses(task["id"])
        self.assertLess(losses[-1], losses[0] / 2)
        state = os.path.join(self.directory, "state.safetensors")
        run("quern-cli", *self.net.node.cli, "content", "state", self.images.program,
                      task["claim"]["checkpointContent"], state)
        judged = ["evaluate", "--program", self.images.program, "--state", state, "--arch", self.images.arch, "--data"]
        found = json.loads(run("quern-compile", *judged, *self.files["held-out"]))
        self.assertEqual(found["examples"], HELD_OUT)
        self.assertGreater(found["accuracy"], 0.9)
        self.assertLess(found["loss"], 0.5)
        for files, words in ((self.files["held-out"][:1], "1 files, the architecture has 2"), (self.files["held-out"][::-1], "arch.wrong_data")):
            refused = subprocess.run([program("quern-compile"), *judged, *files], capture_output=True, text=True, check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(words, refused.stderr)
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
