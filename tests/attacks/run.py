#!/usr/bin/env python3
"""Tries each attack of the corpus on a network of its own and prints what caught it, what it brought its authors, and what it
cost the honest side. Ends with "N passed, N failed": an attack passes when it was caught and brought nothing.

Usage: tests/attacks/run.py [--list] [--jobs N] [--json FILE] [--markdown FILE] [NAME...]      default: all, two at once
Needs the programs of build/testing (contrib/build.sh testing --programs), or those of $QUERN_BIN."""
import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time

import challenges  # noqa: F401
import control  # noqa: F401
import crowds  # noqa: F401
import proposers  # noqa: F401
import reports  # noqa: F401
import training  # noqa: F401
import watching  # noqa: F401
from attack import ATTACKS
from market import Market, Missed, Refused, RpcError, framework

from quern.processes import popen

LIMIT_S = 900  # of one attack


def qrn(grains):
    return f"{grains / 10**18:+.3f}"


def one(attack):
    """The row of one attack, as a dict. gain: of the attackers, less what honest work would have earned them; lost: by the
    honest side; grains both."""
    row = {"name": attack.name, "what": attack.what, "known": attack.known, "caught": None, "gain": None, "lost": None,
           "failure": None}
    began = time.monotonic()
    try:
        directory = framework.temporary_directory(f"quern-attack-{attack.name}-")
        with Market(directory, attack) as market:
            caught = attack.play(market)
            gain, lost = market.balance(attack.purse)
            row.update(caught=caught, gain=gain - attack.fair(market), lost=lost)
            if row["gain"] >= 0 and not attack.known:
                raise Missed(f"it gained {row['gain']} grains")
    except (Missed, Refused, RuntimeError, TimeoutError, OSError, KeyError, RpcError) as error:
        row["failure"] = f"{type(error).__name__}: {error}"
    row["seconds"] = round(time.monotonic() - began, 1)
    return row


class Runner:
    """Each attack in a process of its own, which ends with this one."""

    def __init__(self):
        self.children, self.ending = set(), False

    def apart(self, name):
        """Its row."""
        if self.ending:
            return {"name": name, "failure": "ended"}
        child = popen([sys.executable, __file__, "--one", name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.children.add(child)
        try:
            said, errors = child.communicate(timeout=LIMIT_S)
            return json.loads(said.splitlines()[-1])
        except subprocess.TimeoutExpired:
            child.terminate()
            child.communicate()
            return {"name": name, "failure": f"not over after {LIMIT_S} seconds"}
        except (IndexError, ValueError):
            return {"name": name, "failure": f"exit {child.returncode}: {errors[-2000:]}"}
        finally:
            self.children.discard(child)

    def end(self):
        self.ending = True
        for child in list(self.children):
            child.terminate()

    def rows(self, names, jobs):
        """Their rows, in their order, each as soon as it is there."""
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            try:
                yield from pool.map(self.apart, names)
            except BaseException:
                self.end()
                raise


def show(row):
    """One row of the table, as lines."""
    if row["failure"]:
        return [f"{row['name']:20s} FAILED  {row['failure']}"]
    width = max(24, shutil.get_terminal_size((115, 24)).columns - 55)  # behind the numbers
    told = textwrap.wrap(f"{row['what']}. Caught by {row['caught']}.", width)
    if row["known"]:
        told += textwrap.wrap(f"Known: {row['known']}", width)
    head = f"{row['name']:20s} {qrn(row['gain']):>10s} {qrn(-row['lost']) if row['lost'] else '0':>10s} {row['seconds']:6.0f} s  "
    return [head + told[0], *(" " * len(head) + line for line in told[1:])]


def markdown(rows):
    """The table of doc/attacks.md."""
    lines = ["| attack | what it is | caught by | attackers, QRN | honest, QRN |", "|---|---|---|---:|---:|"]
    for row in rows:
        caught = row["failure"] or row["caught"] + (f" **Known:** {row['known']}" if row["known"] else "")
        lines.append(f"| `{row['name']}` | {row['what']} | {caught} | {'' if row['failure'] else qrn(row['gain'])} | "
                     f"{'' if row['failure'] else qrn(-row['lost']) if row['lost'] else '0'} |")
    return "\n".join(lines) + "\n"


def header():
    return (f"{'attack':20s} {'attackers':>10s} {'honest':>10s} {'took':>8s}  what it is, and what catches it "
            "(QRN, with gas; honest: losses alone)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="attacks to try (default: all)")
    parser.add_argument("--list", action="store_true", help="names and what they try")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="networks at once (default 2)")
    parser.add_argument("--json", metavar="FILE", help="also write the rows as JSON")
    parser.add_argument("--markdown", metavar="FILE", help="also write the table of doc/attacks.md")
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    known = {attack.name: attack for attack in ATTACKS}
    listed = [attack.name for attack in ATTACKS if attack.listed]
    if options.list:
        for name in listed:
            print(f"{name:20s} {known[name].what}")
        return 0
    if options.one:
        framework.end_on_signals()
        try:
            print(json.dumps(one(known[options.one]())))
        except framework.Ended as ended:
            return ended.status
        return 0
    for name in options.names:
        if name not in known:
            parser.error(f"no attack {name}; --list tells them")
    if options.jobs < 1:
        parser.error("--jobs: at least 1")
    print(header(), flush=True)
    rows = []
    framework.end_on_signals()
    runner = Runner()
    try:
        for row in runner.rows(options.names or listed, options.jobs):
            rows.append(row)
            print("\n".join(show(row)), flush=True)
    except framework.Ended as ended:
        runner.end()
        return ended.status
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=2)
            file.write("\n")
    if options.markdown:
        with open(options.markdown, "w") as file:
            file.write(markdown(rows))
    failed = sum(1 for row in rows if row["failure"])
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
