"""Solvers that claim another history than the task's: no training, or a cheaper one. In exact arithmetic all of them are one
attack, a root that does not match, and one element of one step convicts each."""
from attack import Attack
from market import CHEAP


def cheap_bid(task, price=1):
    return {"task": task, "seat": 0, "price": hex(price), "speedClass": 0, "bandwidthClass": 0}


class OtherHistory(Attack):
    mallory = {"mallory1": "solver"}
    fault = ""

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2", "verifier3", "whistleblower1",
                    mallory1=f"{CHEAP} --test-fault={self.fault}")
        number = market.submit()
        market.settled(number, round=1)
        market.require_slash(number, "mallory1", "wrong_result")
        decided = [game for game in market.disputes(number) if game["reason"] in ("leaf", "input")]
        market.require(len(decided) == 1 and decided[0]["winnerName"] == "rival", "no game was played to its end")
        game, view = decided[0], decided[0]["gameView"]
        how = "the chain's leaf" if game["leafExecuted"] else "the opened input"
        return f"{how}: step {view['step']}, {view['nodeOp']}"


def history(fault, what):
    name = fault.partition("@")[0]
    return type(name, (OtherHistory,), {"name": name.replace("_", "-"), "what": what, "fault": fault})


history("wrong_init", "trains from another initialisation")
history("easy_data", "trains on one token instead of the data")
history("data_order", "takes the data in another order than the beacon's")
history("altered_rate", "halves the learning rate")
history("tiny_updates", "infinitesimal updates: 2^-10 of each")
history("stale_momentum", "keeps the optimizer's first moments")
history("every_other_step", "computes every other step")
history("interpolated", "made-up checkpoints on a line")
history("skip_work@12", "stops working at step 12")
history("flip_element", "flips one bit of one element of one step")


class CopiedProof(Attack):
    name, what = "copied-proof", "hands in the proof of an equal, earlier task"
    mallory = {"mallory1": "solver"}

    def play(self, market):
        market.work("solver1", "verifier1", "verifier2", "verifier3")
        first = market.submit()
        market.settled(first)
        market.rest("solver1")
        second = market.submit(heartbeat_s=12)
        market.act("mallory1", "task_bid", cheap_bid(second))
        market.wait(second, "assigned")
        market.act("mallory1", "task_start", {"task": second})
        for kind in ("task_checkpoint", "task_prove"):
            for _, _, payload in market.transactions(kind, first):
                market.act("mallory1", kind, {**payload, "task": second})
        market.wait(second, "disputed")
        market.work("solver1")
        market.settled(second, round=1)
        market.require_slash(second, "mallory1", "wrong_result")
        market.require(not any(each["leafExecuted"] for each in market.disputes(second)), "the copier played to a leaf")
        return "verifiers' FAILs: each task has its own data order; the copier has no moves"


class LateAbort(Attack):
    name, what = "late-abort", "takes the task and gives it up"
    mallory = {"mallory1": "solver"}

    def play(self, market):
        market.work("verifier1", "verifier2", "verifier3")
        number = market.submit()
        market.act("mallory1", "task_bid", cheap_bid(number))
        market.wait(number, "assigned")
        market.act("mallory1", "task_start", {"task": number})
        market.act("mallory1", "task_abandon", {"task": number})
        market.work("solver1")
        market.settled(number, round=1)
        market.require_slash(number, "mallory1", "abandoned")
        barred = [market.net.name_of(address) for address in market.node.task_get(number)["barred"]]
        market.require(barred == ["mallory1"], f"barred are {barred}")
        return "slash abandoned; barred from the task"


class FakeCheckpoints(Attack):
    name, what = "fake-checkpoints", "heartbeats of made-up states, then silence"
    mallory = {"mallory1": "solver"}

    def play(self, market):
        market.work("verifier1", "verifier2", "verifier3", mallory1=f"{CHEAP} --test-fault=skip_work@1")
        number = market.submit(heartbeat_s=12, prove_s=12)
        market.until(lambda: len(market.told("CheckpointPosted", number)) >= 2, "two checkpoints")
        market.net.workers.pop("mallory1").kill()
        market.work("solver1")
        task = market.settled(number, round=1)
        reasons = {reason for name, reason in market.slashes(number) if name == "mallory1"}
        market.require(reasons & {"no_heartbeat", "no_proof"}, f"{reasons} of {task['reason']}")
        return f"slash {', '.join(sorted(reasons))}: checkpoints earn nothing"


class WithheldData(Attack):
    name, what = "withheld-data", "proves, and serves nobody what it proved"
    mallory, followers = {"mallory1": "solver"}, 1

    def play(self, market):
        market.work("verifier1", "verifier2", "verifier3")
        market.net.worker("mallory1", "--solver", CHEAP, node=1)  # its own node, which has all of it
        number = market.submit(verify_s=25)
        market.wait(number, "proved", "custody")
        market.net.daemons[1].process.kill()
        market.net.workers.pop("mallory1").kill()
        market.work("solver1")
        market.settled(number, round=1)
        market.require_slash(number, "mallory1", "data_missing")
        return "verifiers' receipts: data_missing"


class FriendsOnly(Attack):
    name, what = "friends-only", "the same with made-up states; two friends of three that are drawn say that they have the data"
    mallory = {"mallory1": "solver", "mallory2": "verifier", "mallory3": "verifier"}
    honest, followers = ("solver1", "verifier1", "whistleblower1"), 1

    def play(self, market):
        market.work("verifier1", "whistleblower1")
        market.net.worker("mallory1", "--solver", CHEAP, "--test-fault=skip_work@1", node=1)
        number = market.submit(verify_s=25)
        market.wait(number, "proved", "custody")
        market.net.daemons[1].process.kill()
        market.net.workers.pop("mallory1").kill()
        market.wait(number, "custody")
        for name in ("mallory2", "mallory3"):
            market.act(name, "custody_receipt", {"task": number, "stretch": 0, "dataOk": True})
        market.work(mallory2="--test-fault=pass_without_work", mallory3="--test-fault=pass_without_work")
        market.wait(number, "open", "assigned")  # once more: its first round began long ago
        market.rest("mallory2", "mallory3")
        market.work("solver1", "mallory2", "mallory3")  # that is over, and they work
        market.settled(number, round=1)
        market.require_slash(number, "mallory1", "wrong_result")
        return "a whistleblower that trains what it is not served: slash wrong_result"


class SquattedBids(Attack):
    name, what = "squatted-bids", "fills all places for bids and starts with none"
    mallory = {f"mallory{i}": "solver" for i in range(1, 5)}
    parameters = {"max_bids": 4}

    def play(self, market):
        market.work("verifier1", "verifier2", "verifier3")
        number = market.submit(start_s=8, bid_s=15)
        for name in self.mallory:
            market.act(name, "task_bid", cheap_bid(number))
        caught = market.refusal("solver1", "task_bid", cheap_bid(number, price=2))
        market.work("solver1")
        market.settled(number, round=1)
        for name in self.mallory:
            market.require_slash(number, name, "no_start")
        return f"slash no_start, of each in turn (meanwhile {caught} for others)"
