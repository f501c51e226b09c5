"""Quern's Python side.

`quern.train(module, dataset, ...)` trains a torch module on the market or on this machine, `quern.Client(url)` is a node
(training.py; doc/training.md, "From Python"). The rest starts local networks of real processes, drives them over JSON-RPC
and tells what happened, for the demo (python3 -m quern.demo), the functional tests and contrib/devnet.

Standard library only; train() needs torch.
"""
from .rpc import BadAnswer, RpcError
from .training import Client, Task, TrainError, train

__all__ = ["BadAnswer", "Client", "RpcError", "Task", "TrainError", "train"]
