"""Quern's Python side: starts local networks of real processes, drives them over JSON-RPC, tells what happened.

Standard library only. Used by the demo (python3 -m quern.demo), the functional tests and contrib/devnet.
"""
