"""A local network: keys, genesis, one validator and its workers, each a process of its own."""
import json
import os
import socket
import subprocess
import threading
import time

from .processes import Process, wait_until
from .rpc import Node

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
QRN = 10**18
PASSWORD = "devnet"  # the keystores guard play money; real keys get a password file of their own

MARKET = {
    "dispute_cost": str(QRN // 100),
    "storage_deposit": str(QRN // 10),
    "dispute_clock_blocks": 60,
    "unbonding_blocks": 50,
    "min_deadline_blocks": 3,
}
BLOCK = {"min_block_ms": 200, "max_idle_ms": 1000}


def bin_dir():
    """Where the programs are: $QUERN_BIN, else build/release/bin."""
    return os.environ.get("QUERN_BIN", os.path.join(ROOT, "build", "release", "bin"))


def program(name):
    return os.path.join(bin_dir(), name)


def run(name, *arguments):
    """Output of a program that must succeed."""
    done = subprocess.run([program(name), *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{name} {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Account:
    """A key in a keystore under the network's directory. Same seed and name: same key."""

    def __init__(self, network, name):
        self.name = name
        self.keystore = os.path.join(network.directory, "keys", name + ".json")
        self.password_file = network.password_file
        if not os.path.exists(self.keystore):
            run("quern-wallet", "new", "--keystore", self.keystore, "--password-file", self.password_file, "--light",
                "--seed", f"{network.seed}/{name}")
        self.info = json.loads(run("quern-wallet", "address", "--keystore", self.keystore, "--password-file",
                                   self.password_file))
        self.address = self.info["address"]


class Devnet:
    """One validator and any number of workers under one directory.

    accounts: name -> QRN at genesis; bonds: list of (name, role, QRN).
    """

    def __init__(self, directory, accounts, bonds, seed=1, market=None, block=None):
        self.directory, self.seed = directory, seed
        os.makedirs(os.path.join(directory, "keys"), mode=0o700, exist_ok=True)
        self.password_file = os.path.join(directory, "keys", "password")
        if not os.path.exists(self.password_file):
            with open(os.open(self.password_file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
                file.write(PASSWORD + "\n")
        names = list(dict.fromkeys(["validator", *accounts, *(name for name, _, _ in bonds)]))
        self.accounts = {name: Account(self, name) for name in names}
        self.genesis = os.path.join(directory, "genesis.json")
        if not os.path.exists(self.genesis):
            self._write_genesis(accounts, bonds, market or {}, block or {})
        run("quern-genesis", "validate", self.genesis)
        self.port = free_port()
        self.node = Node(self.port)
        self.supervised = False
        self.restarts = []  # names, by the supervisor
        self.daemon = Process("quernd", [
            program("quernd"), f"-datadir={os.path.join(directory, 'node')}", f"-genesis={self.genesis}",
            f"-validatorkey={self.accounts['validator'].keystore}", f"-validatorpassword={self.password_file}",
            f"-rpcport={self.port}"], os.path.join(directory, "quernd.log"))
        self.workers = {}

    def _write_genesis(self, accounts, bonds, market, block):
        settings = lambda option, values: [f"--{option}={name}={value}" for name, value in values.items()]
        run("quern-genesis", "make", "--out", self.genesis, "--network", "devnet",
            *settings("block", {**BLOCK, **block}), *settings("market", {**MARKET, **market}),
            f"--validator={self.accounts['validator'].keystore}:1000qrn", f"--validatorpassword={self.password_file}",
            *(f"--alloc={self.accounts[name].address}:{qrn}qrn" for name, qrn in accounts.items() if qrn),
            *(f"--bond={role}:{self.accounts[name].address}:{qrn}qrn" for name, role, qrn in bonds))

    def start(self):
        self.daemon.start()
        self.wait_for_node()
        return self

    def wait_for_node(self, timeout=30):
        wait_until(self.node.reachable, timeout, "the node's RPC port", alive=[self.daemon])

    def wait_until(self, condition, timeout, what, every=0.2):
        return wait_until(condition, timeout, what, every, [self.daemon], self.supervised)

    def worker(self, name, *options):
        """Makes (and starts) the worker that uses account `name`."""
        directory = os.path.join(self.directory, "workers", name)
        os.makedirs(directory, exist_ok=True)
        account = self.accounts[name]
        self.workers[name] = Process(name, [
            program("quern-worker"), f"--node={self.node.url}", f"--datadir={directory}", f"--key={account.keystore}",
            f"--password-file={account.password_file}", *options], os.path.join(self.directory, name + ".log"))
        return self.workers[name].start()

    def supervise(self, told=lambda name: None):
        """From now on a process that ends unasked is started again, as systemd would; told(name) hears of it."""
        self.supervised = True
        self.node.patience = 60

        def watch():
            while self.supervised:
                for process in [self.daemon, *self.workers.values()]:
                    if process.wanted and not process.running():
                        self.restarts.append(process.name)
                        process.start()
                        told(process.name)
                time.sleep(0.3)

        threading.Thread(target=watch, daemon=True).start()

    def stop(self):
        self.supervised = False
        for process in [*self.workers.values(), self.daemon]:
            try:
                process.stop()
            except TimeoutError as error:
                print(error)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def name_of(self, address):
        for name, account in self.accounts.items():
            if account.address.lower() == address.lower():
                return name
        return address

    def wait_for_blocks(self, count, timeout=60):
        target = self.node.height() + count
        self.wait_until(lambda: self.node.height() >= target, timeout, f"{count} blocks")
