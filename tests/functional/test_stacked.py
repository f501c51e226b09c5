#!/usr/bin/env python3
"""Tasks that begin with what settled ones ended with: a fine-tuning of a proved model, and lies about where it is from."""
import json
import os

import framework
from quern.devnet import run
from quern.market import TextJob
from quern.rpc import RpcError


class Stacked(framework.MarketTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.number, cls.state, cls.fine = None, None, None

    def pretrained(self):
        """A task that is settled, once for all tests, its final state, and the fine-tuning that begins with it."""
        if self.number is None:
            self.workers(solver1="", whistleblower="")
            self.verifiers()
            task = self.wait(self.submit())
            self.assertEqual(task["stateName"], "settled", task["reason"])
            self.tearDown()
            type(self).state = os.path.join(self.directory, "trained.safetensors")
            run("quern-cli", *self.net.node.cli, "content", "state", self.job.program, task["claim"]["checkpointContent"],
                self.state)
            type(self).fine = self.job_from(self.state, "fine")
            type(self).number = task["id"]
        return self.number

    def job_from(self, state, name, d_model=32, **options):
        return TextJob(os.path.join(self.directory, name), self.net.node, framework.licence_texts()[:2], seed=2, layers=1,
                       d_model=d_model, context=32, batch=4, total_steps=framework.STEPS, trained=(state, self.job.program),
                       **options)

    def source(self):
        return self.pretrained(), self.state, self.job.program

    def test_a_fine_tuning_goes_on_with_the_proved_parameters(self):
        first, state, program = self.source()
        self.assertIn("model.wte", self.fine.initial["taken"])
        self.assertNotIn("step", self.fine.initial["taken"])
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit(job=self.fine, imports=[(first, state, program)]))
        self.assertEqual(task["stateName"], "settled", task["reason"])
        self.assertEqual(task["spec"]["imports"]["roots"], [])
        earlier, proof = self.net.node.proof_get(first), self.net.node.proof_get(task["id"])
        self.assertEqual((earlier["finalRoot"], earlier["imports"]), (self.final_root(first), []))
        self.assertEqual((proof["initRoot"], proof["passes"]), (self.fine.initial["init_root"], 3))
        self.assertEqual([(entry["task"], entry["seat"]) for entry in proof["imports"]], [(first, 0)])
        self.assertEqual(sum(part["count"] for part in proof["imports"][0]["slots"]), len(self.fine.initial["taken"]))
        self.assert_learned(task["id"], framework.STEPS // framework.INTERVAL, self.fine)
        self.assert_supply()

    def test_adapters_are_made_by_the_first_step_of_the_plan(self):
        first, state, program = self.source()
        job = self.job_from(state, "adapters", adapter_rank=2, start=True)
        self.workers(solver1="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit(job=job, imports=[(first, state, program)]))
        self.assertEqual((task["stateName"], task["steps"]), ("settled", framework.STEPS), task["reason"])
        trained = os.path.join(self.directory, "adapted.safetensors")
        run("quern-cli", *self.net.node.cli, "content", "state", job.program, task["claim"]["checkpointContent"], trained)
        roots = self.roots(trained)
        before = self.roots(state)
        for name in job.initial["taken"]:
            self.assertEqual(roots[name], before[name], name)
        self.assertIn("model.h.0.mlp.w_in.lora_b", roots)
        self.assertNotIn("adamw.m.model.wte", roots)
        # What was imported lies under the final root too, one link further.
        proof = self.net.node.proof_get(task["id"])
        self.assertEqual(sum(part["count"] for part in proof["imports"][0]["slots"]), len(job.initial["taken"]))
        self.assertEqual(len(proof["imports"][0]["slots"]), 1, "neighbours in both states")
        self.assert_supply()

    @staticmethod
    def roots(file):
        return {entry["name"]: entry["root"] for entry in json.loads(run("quern-compile", "validate", file))["tensors"]}

    def final_root(self, number):
        return self.net.node.task_get(number)["claim"]["finalRoot"]

    def refused(self, *source):
        with self.assertRaises((RpcError, RuntimeError)) as caught:
            self.submit(job=self.fine, imports=[source])
        return str(caught.exception)

    def test_what_no_record_names_is_not_imported(self):
        first, state, program = self.source()
        self.assertIn("task.unknown_proof", self.refused(first + 1000, state, program))
        # The same parameters, in a state that is not what the task ended with.
        self.assertIn("task.import_mismatch", self.refused(first, self.fine.init, program))
        with self.assertRaisesRegex(RuntimeError, "compile.nothing_taken"):
            self.job_from(self.state, "narrow", d_model=16)

    def test_a_lie_about_an_imported_slot_ends_with_its_opening(self):
        source = self.source()
        self.workers(solver1="--price=1 --test-fault=wrong_slot@1", solver2="", whistleblower="")
        self.verifiers()
        task = self.wait(self.submit(job=self.fine, imports=[source]))
        self.assertEqual((task["stateName"], task["round"]), ("settled", 1), task["reason"])
        self.assertIn(("solver1", "wrong_result"), self.slashed(task))
        beaten = [d for d in self.disputes(task) if d["winnerName"] == "rival"]
        self.assertEqual({(d["reason"], d["gameView"]["step"]) for d in beaten}, {("input", 1)})
        self.assertFalse(any(d["leafExecuted"] for d in beaten))
        self.assert_supply()


if __name__ == "__main__":
    framework.main()
