#!/usr/bin/env python3
"""Many tasks at once, and workers that are killed at random moments: everything ends, nobody is paid twice, and a solver goes
on where its last checkpoint was. QUERN_MANY_TASKS: how many (12; contrib/long.sh has 200)."""
import collections
import os
import random
import re
import threading
import time

import framework
from quern import events
from quern.market import all_tasks

COUNT = int(os.environ.get("QUERN_MANY_TASKS", 12))
SEED = 7
SOLVERS = ("solver1", "solver2")
VERIFIERS = tuple(f"verifier{i}" for i in range(1, 5))
KILLED = (*SOLVERS, *VERIFIERS, "whistleblower")
ACCOUNTS = {**framework.ACCOUNTS, "submitter": 1000 + 10 * COUNT, **{name: 20 for name in VERIFIERS}}
LOCKS = 20 * COUNT + 100  # QRN: what a solver that wins all of them locks, and a verifier that is drawn for all
TIMEOUT_S = 120 + 20 * COUNT


class ManyTasks(framework.MarketTest):
    accounts = ACCOUNTS
    bonds = [(name, "solver", LOCKS) for name in SOLVERS] + [(name, "verifier", LOCKS) for name in VERIFIERS] + \
            [("whistleblower", "whistleblower", 100)]

    def kill_at_random(self, over):
        """Each second or so one of the workers; the supervisor brings it back."""
        chance = random.Random(SEED)
        while not over.wait(chance.uniform(0.5, 1.5)):
            self.net.workers[chance.choice(KILLED)].signal(9)
            self.kills += 1

    def resumptions(self, name):
        """Of a solver: (task, step that it had logged as trained, step that it went on with)."""
        trained, found = {}, []
        with open(os.path.join(self.directory, name + ".log"), errors="replace") as log:
            for line in log:
                if at := re.search(r"trained task=(\d+) step=(\d+)/", line):
                    trained[int(at[1])] = int(at[2])
                elif at := re.search(r"training resumed task=(\d+) round=0 step=(\d+)", line):
                    found.append((int(at[1]), trained.get(int(at[1]), 0), int(at[2])))
        return found

    def test_all_end_and_nobody_is_paid_twice(self):
        net = self.net
        self.workers(**dict.fromkeys(KILLED, ""))
        windows = {"bid_s": 10 + COUNT // 4, "start_s": 60 + COUNT, "heartbeat_s": 60 + 10 * COUNT,
                   "prove_s": 60 + 10 * COUNT, "verify_s": 60 + 10 * COUNT, "challenge_s": 10}
        submitted = {}
        for _ in range(COUNT):
            number = self.submit(stride=framework.STRIDE, **windows)
            submitted[number] = int(net.node.task_get(number)["escrow"], 16)
        net.supervise()
        self.kills = 0
        over = threading.Event()
        killer = threading.Thread(target=self.kill_at_random, args=[over])
        killer.start()
        try:
            net.wait_until(lambda: all(task["stateName"] in framework.FINAL_STATES for task in all_tasks(net.node)), TIMEOUT_S,
                           f"{COUNT} tasks to end", every=1)
        finally:
            over.set()
            killer.join()
        print(f"{COUNT} tasks, {self.kills} kills", flush=True)
        self.assertGreater(self.kills, max(5, COUNT // 8))
        self.assertLess(net.node.number("eth_gasPrice"), 3 * 10**9, "workers drove up their own price")

        tasks = {task["id"]: task for task in all_tasks(net.node)}
        self.assertEqual(set(tasks), set(submitted))
        for number, task in tasks.items():
            self.assertEqual((task["stateName"], task["round"]), ("settled", 0), f"task {number}: {task['reason']}")
            self.assertEqual(task["slashes"], [], f"task {number}: who only died was slashed")
            paid = events.find(net.node, "Paid", task=number)
            times = collections.Counter((payment["reason"], payment["to"]) for payment in paid)
            self.assertEqual([each for each in times.items() if each[1] != 1], [], f"task {number}: paid twice")
            reasons = collections.Counter(payment["reason"] for payment in paid)
            self.assertEqual((reasons["solver_reward"], reasons["verifier_fee"]), (1, 3), f"task {number}")
            tax = int(task["spec"]["money"]["tax"], 16)
            spent = sum(payment["amount"] for payment in paid) + tax + int(task["escrow"], 16)
            self.assertEqual(spent, submitted[number], f"task {number}: more or less than was signed for")
        resumed = [each for name in SOLVERS for each in self.resumptions(name)]
        for number, trained, step in resumed:
            self.assertGreaterEqual(step, trained, f"task {number} lost a checkpoint that was there")
        self.assertTrue(resumed, "no solver was killed while it trained")
        self.assert_supply()


if __name__ == "__main__":
    framework.main()
