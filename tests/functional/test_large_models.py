#!/usr/bin/env python3
"""A model whose states are hundreds of megabytes: trained, replayed, and a lie in it played to the leaf, on one machine."""
import json
import os
import re
import subprocess
import unittest

import framework
from quern.devnet import ROOT, run
from quern.market import Job, TextJob, licence_texts, spec_options, submit

# In CI 25 million parameters, and a GPT-2 of 5; QUERN_LARGE_MODEL=124 for those of GPT-2's smallest model, which take
# twenty minutes and 12 GB a test.
SIZES = {"25": {"layers": 8, "d_model": 512, "heads": 8, "context": 128},
         "124": {"layers": 12, "d_model": 768, "heads": 12, "context": 256, "vocab": 50257}}
GPT2 = {"25": ["--layers=4", "--size=256", "--heads=4", "--vocabulary=8192"], "124": []}
PYTHON = framework.python_with("torch")
SIZE = os.environ.get("QUERN_LARGE_MODEL", "25")
PATIENCE = {"25": 1, "124": 12}[SIZE]
STEPS, INTERVAL, LIE = 4, 2, 3
MEMORY_MIB = {"25": 4096, "124": 12288}[SIZE]
CLOCK_S = 300 * PATIENCE


class LargeModel(framework.MarketTest):
    bonds = [bond for bond in framework.BONDS if bond[0] in ("solver1", "verifier1")]
    market = {"dispute_clock_s": CLOCK_S}

    def peak_rss(self, name):
        """Bytes of memory that a worker had at most."""
        with open(f"/proc/{self.net.workers[name].pid}/status") as status:
            return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1])

    def beat(self, job):
        """Trains `job` with a solver whose memory flips a bit in one step, until the chain has executed that leaf."""
        options = ["--threads=2", f"--max-memory-mib={MEMORY_MIB}", f"--max-step-work={2**40}"]
        self.net.worker("solver1", "--solver", *options, f"--test-fault=flip_element@{LIE}")
        self.net.worker("verifier1", "--verifier", *options)
        windows = {"bid_s": 60, "start_s": 120 * PATIENCE, "heartbeat_s": 300 * PATIENCE,
                   "prove_s": 300 * PATIENCE, "verify_s": 600 * PATIENCE, "challenge_s": 60 * PATIENCE}
        spec = [*spec_options(self.net, job, STEPS, INTERVAL, price_cap=10**8, **windows), "--verifiers", 1,
                "--memory-mib", MEMORY_MIB]
        number = submit(self.net, self.net.accounts["submitter"], spec)

        def beaten():
            task = self.net.node.task_get(number)
            return task if task["round"] == 1 or task["stateName"] in ("failed", "expired") else None

        task = self.net.wait_until(beaten, 1500 * PATIENCE, "the lie to be found")
        self.assertIn(("solver1", "wrong_result"), self.slashed(task))
        self.assertEqual(self.bond("verifier1")[1], 0, "an honest verifier was slashed")
        executed = [d for d in self.disputes(task) if d["leafExecuted"]]
        self.assertEqual(len(executed), 1)
        dispute = executed[0]
        self.assertEqual((dispute["winnerName"], dispute["reason"]), ("rival", "leaf"))
        self.assertEqual(dispute["gameView"]["step"], LIE)
        self.assertLess(dispute["bytes"], 300_000)
        self.assert_supply()
        parameters = job.compiled["parameters"]
        for name in ("solver1", "verifier1"):
            print(f"{name}: {self.peak_rss(name) / parameters:.1f} bytes a parameter, of {parameters}", flush=True)

    def test_a_lie_in_one_step_is_found_to_its_leaf(self):
        self.beat(TextJob(os.path.join(self.directory, "large"), self.net.node, licence_texts()[:2], batch=1,
                          tie_embeddings=True, **SIZES[SIZE]))

    @unittest.skipIf(PYTHON is None, "python3-torch is missing")
    def test_a_lie_in_gpt2_as_a_file_gives_it_is_found_to_its_leaf(self):
        path = lambda name: os.path.join(self.directory, name)
        exporter = os.path.join(ROOT, "contrib", "models", "gpt2.py")
        subprocess.run([PYTHON, exporter, *GPT2[SIZE], "--out", path("gpt2.onnx")], check=True)
        run("quern-compile", "dataset", "--out", path("tokens"), *licence_texts()[:2])
        run("quern-compile", "arch", "--model", path("gpt2.onnx"), "--data", path("tokens"), "--batch", 1, "--steps", STEPS,
            "--out", path("gpt2.json"))
        with open(path("gpt2.json")) as file:
            architecture = json.load(file)
        job = Job(path("gpt2"), self.net.node, architecture, [path("tokens")], network=path("gpt2.onnx"))
        names = [slot["name"] for slot in json.loads(run("quern-compile", "inspect", job.program))["slot_list"]]
        for name in ("wte.weight", "h.0.attn.c_attn.weight", "h.3.mlp.c_proj.bias", "ln_f.weight"):
            self.assertIn("model.transformer." + name, names)
        self.beat(job)


if __name__ == "__main__":
    framework.main()
