#!/usr/bin/env python3
"""The market on a network: the submitter, the solver and the verifiers each use another node."""
import os

import framework
from quern.devnet import run
from quern.market import TextJob, licence_texts


class AcrossNodes(framework.MarketTest):
    validators = 4

    def start_workers(self, solver_options=""):
        """The job's contents are on node0; everybody but the whistleblower works at another node."""
        self.net.worker("solver1", "--solver", *solver_options.split(), node=1)
        for index, name in enumerate(("verifier1", "verifier2", "verifier3")):
            self.net.worker(name, "--verifier", node=1 + index)
        self.net.worker("whistleblower", "--whistleblower", node=0)

    def stores(self, index, content):
        """Whether the node has the job's content on disk."""
        name = self.job.contents[content].removeprefix("0x")
        return any(name in file for _, _, files in os.walk(os.path.join(self.net.daemons[index].datadir, "content"))
                   for file in files)

    def test_contents_travel_between_nodes(self):
        self.job = TextJob(os.path.join(self.directory, "job2"), self.net.nodes[0], licence_texts()[:2], seed=2, layers=1,
                           d_model=32, context=32, batch=4, total_steps=framework.STEPS)
        self.assertTrue(self.stores(0, "init"))
        self.assertFalse(self.stores(1, "init"))
        self.start_workers()
        number = self.submit()
        task = self.wait(number)
        self.assertEqual((task["stateName"], task["round"]), ("settled", 0), task["reason"])
        self.assertEqual(task["slashes"], [])
        for index in range(self.validators):  # the solver's and the verifiers' nodes fetched it
            self.assertTrue(self.stores(index, "init"))
        for node in self.net.nodes:
            self.assertEqual(node.task_get(number)["claim"]["finalRoot"], task["claim"]["finalRoot"])
        # The model that was trained at node1 can be had from any node.
        state = os.path.join(self.directory, "state.safetensors")
        run("quern-cli", *self.net.nodes[3].cli, "content", "state", self.job.program,
            task["claim"]["checkpointContent"], state)
        self.assertGreater(os.path.getsize(state), 0)
        self.assert_supply()

    def test_a_cheat_is_convicted_although_a_node_dies_meanwhile(self):
        self.start_workers("--test-fault=flip_element --price=1")
        self.net.worker("solver2", "--solver", node=2)
        number = self.submit()
        started = self.wait(number, "working", "custody", "committing", "revealing", "challenge", *framework.FINAL_STATES)
        self.assertNotIn(started["stateName"], framework.FINAL_STATES)
        victim = self.net.daemons[3]  # verifier3's
        victim.process.kill()
        self.net.wait_for_blocks(10)
        victim.process.start()
        self.net.wait_for_node()
        task = self.wait(number)
        self.assertEqual(task["stateName"], "settled", task["reason"])
        self.assertIn(("solver1", "wrong_result"), self.slashed(task))
        self.assertTrue(any(dispute["leafExecuted"] for dispute in self.disputes(task)))
        self.assert_supply()


if __name__ == "__main__":
    framework.main()
