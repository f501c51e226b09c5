"""A local network: keys, genesis, validators, followers and workers, each a process of its own."""
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

from .namespaces import Switch
from .processes import Process, at_end, wait_until
from .rpc import AnyNode, Node

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
QRN = 10**18
PASSWORD = "devnet"  # the keystores guard play money; real keys get a password file of their own

MARKET = {
    "dispute_cost": str(QRN // 100),
    "storage_deposit_per_byte": str(10**12),
    "dispute_clock_s": 60,
    "unbonding_blocks": 600,
    "forced_error_inverse": 4,  # so that who looks on sees one
}
BLOCK = {"min_block_ms": 100, "max_idle_ms": 125}
RPC_PORT, P2P_PORT, WS_PORT = 8545, 7876, 8546  # quernd's defaults, used where each node has an address of its own
LITTLE_DISK = 1 << 20  # bytes
CHOSEN_PORTS = (10000, 32768)  # below those that Linux gives to outgoing connections, so a node finds its port again


def bin_dir():
    """Where the programs are: $QUERN_BIN, else build/release/bin, or build/testing/bin when only that has been built."""
    if given := os.environ.get("QUERN_BIN"):
        return given
    folders = [os.path.join(ROOT, "build", preset, "bin") for preset in ("release", "testing")]
    return next((folder for folder in folders if os.path.exists(os.path.join(folder, "quernd"))), folders[0])


def shortest_window(block):
    """The least min_window_s that goes with these parameters, as a dict: sixty idle pauses, in seconds."""
    idle = str(block["max_idle_ms"])  # as a command line gives it, too; what is no number quern-genesis refuses
    return {"min_window_s": -(-60 * int(idle) // 1000)} if idle.isdecimal() else {}


def program(name):
    return os.path.join(bin_dir(), name)


MAX_COMMAND = 200  # characters of one that is shown; a genesis takes thousands


def run(name, *arguments):
    """Output of a program that must succeed."""
    done = subprocess.run([program(name), *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip() or "it said nothing"
        command = " ".join([name, *map(str, arguments)])
        if len(command) > MAX_COMMAND:
            command = command[:MAX_COMMAND] + " ..."
        raise RuntimeError(f"{said}\n(exit {done.returncode} of {command})")
    return done.stdout


def free_ports(count, taken=()):
    """Ports on the loopback interface that nobody listens on now."""
    found, sockets = [], []
    chance = random.SystemRandom()
    while len(found) < count:
        port = chance.randrange(*CHOSEN_PORTS)
        if port in taken or port in found:
            continue
        probe = socket.socket()
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            probe.close()
            continue
        found.append(port)
        sockets.append(probe)
    for probe in sockets:
        probe.close()
    return found


class Account:
    """A key in a keystore under the network's directory. Same seed and name: same key."""

    def __init__(self, network, name):
        self.name = name
        self.keystore = os.path.join(network.directory, "keys", name + ".json")
        self.password_file = network.password_file
        if not os.path.exists(self.keystore):
            run("quern-wallet", "new", "--keystore", self.keystore, "--password-file", self.password_file, "--light",
                "--seed", f"{network.seed}/{name}")
        known = self.keystore.removesuffix(".json") + ".address"  # opening a keystore takes a while
        if not os.path.exists(known):
            text = run("quern-wallet", "address", "--keystore", self.keystore, "--password-file", self.password_file)
            with open(known + ".new", "w") as file:
                file.write(text)
            os.replace(known + ".new", known)
        with open(known) as file:
            self.info = json.load(file)
        self.address = self.info["address"]


class NodeProcess:
    """One quernd: its directory, host, ports, process and client. account: the validator's, None for a follower."""

    def __init__(self, network, index, account, host, ports):
        self.index, self.account, self.host = index, account, host
        self.name = f"node{index}"
        self.datadir = os.path.join(network.directory, self.name)
        self.rpc_port, self.p2p_port, self.ws_port = ports
        self.client = Node(self.rpc_port, host)
        self.client.datadir = self.datadir
        self.process = Process(self.name, [], os.path.join(network.directory, self.name + ".log"), network.detached)

    @property
    def peer(self):
        """As -addnode wants it; validators only."""
        return f"{self.account.address}@{self.host}:{self.p2p_port}"

    @property
    def ws_url(self):
        return f"ws://{self.host}:{self.ws_port}"

    def height(self):
        """Its head, or None while it does not answer."""
        try:
            return self.client.height()
        except (OSError, ValueError, KeyError):
            return None


class Devnet:
    """Validators in a full mesh, followers and any number of workers under one directory.

    accounts: name -> QRN at genesis; bonds: list of (name, role, QRN); stakes: QRN of each validator (default 1000
    each); namespaces: each node in a network namespace of its own (needs root), so that partition() works; detached:
    processes outlive this one; ports: (RPC, p2p, WebSocket) of each node instead of free ones.

    `node` is a client of whichever node answers, `nodes[i]` of one; `daemons[i]` is its NodeProcess.
    """

    def __init__(self, directory, accounts, bonds, seed=1, market=None, block=None, validators=1, stakes=None,
                 followers=0, staking=None, namespaces=False, switch=None, ports=None, detached=False):
        self.directory, self.seed, self.detached = directory, seed, detached
        os.makedirs(os.path.join(directory, "keys"), mode=0o700, exist_ok=True)
        self.password_file = os.path.join(directory, "keys", "password")
        if not os.path.exists(self.password_file):
            with open(os.open(self.password_file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
                file.write(PASSWORD + "\n")
        stakes = stakes or [1000] * validators
        signers = [f"validator{index}" for index in range(validators)]
        names = list(dict.fromkeys([*signers, *accounts, *(name for name, _, _ in bonds)]))
        self.accounts = {name: Account(self, name) for name in names}
        self.genesis = os.path.join(directory, "genesis.json")
        if not os.path.exists(self.genesis):
            block = {**BLOCK, **(block or {})}
            self._write_genesis(accounts, bonds, dict(zip(signers, stakes)),
                                {"block": block, "market": {**shortest_window(block), **MARKET, **(market or {})},
                                 "staking": staking or {}})
        run("quern-genesis", "validate", self.genesis)
        self.switch = switch
        self._remove_switch = None
        if namespaces and switch is None:
            self.switch = Switch()
            self.switch.create(validators + followers)
            self._remove_switch = at_end(self.switch.destroy)
        self.daemons, self.nodes, self.workers = [], [], {}
        self._homes = {}  # worker -> index of its node
        self.supervised = False
        self._supervision = None
        self.given_up = None  # why the supervisor starts nothing any more
        self.restarts = []  # names, by the supervisor
        for index in range(validators + followers):
            account = self.accounts[signers[index]] if index < validators else None
            self._new_node(account, ports[index] if ports else None)
        self.node = AnyNode(self.nodes)
        for daemon in self.daemons:
            daemon.process.arguments = self._arguments(daemon)

    def _write_genesis(self, accounts, bonds, stakes, sections):
        run("quern-genesis", "make", "--out", self.genesis, "--network", "devnet",
            *(f"--{section}={name}={value}" for section, values in sections.items() for name, value in values.items()),
            *(f"--validator={self.accounts[name].keystore}:{qrn}qrn" for name, qrn in stakes.items()),
            f"--validatorpassword={self.password_file}",
            *(f"--alloc={self.accounts[name].address}:{qrn}qrn" for name, qrn in accounts.items() if qrn),
            *(f"--bond={role}:{self.accounts[name].address}:{qrn}qrn" for name, role, qrn in bonds))

    # --- nodes ------------------------------------------------------------------------------------------------------
    def _new_node(self, account, ports=None):
        index = len(self.daemons)
        host = self.switch.address(index) if self.switch else "127.0.0.1"
        if ports is None:
            mine = {port for daemon in self.daemons for port in (daemon.rpc_port, daemon.p2p_port, daemon.ws_port)}
            ports = (RPC_PORT, P2P_PORT, WS_PORT) if self.switch else free_ports(3, mine)
        daemon = NodeProcess(self, index, account, host, ports)
        self.daemons.append(daemon)
        self.nodes.append(daemon.client)
        return daemon

    def _arguments(self, daemon):
        options = [f"-datadir={daemon.datadir}", f"-genesis={self.genesis}",
                   f"-rpcbind={daemon.host}", f"-rpcport={daemon.rpc_port}",
                   f"-bind={daemon.host}", f"-port={daemon.p2p_port}",
                   f"-wsbind={daemon.host}", f"-wsport={daemon.ws_port}"]
        options += [f"-addnode={other.peer}" for other in self.daemons if other.account and other is not daemon]
        if daemon.account:
            options += [f"-validatorkey={daemon.account.keystore}", f"-validatorpassword={self.password_file}"]
        return (self.switch.enter(daemon.index) if self.switch else []) + [program("quernd"), *options]

    def add_node(self, account=None):
        """One more node with an empty directory that knows the validators: a follower, or one that signs with
        `account`'s key once it is in the committee. Not started yet."""
        if self.switch:
            self.switch.plug(len(self.daemons))
        daemon = self._new_node(account)
        daemon.process.arguments = self._arguments(daemon)
        return daemon

    def remove_node(self, daemon):
        """Forgets the last node; its files stay."""
        self.daemons.remove(daemon)
        self.nodes.remove(daemon.client)

    def account(self, name):
        """The account of that name, made if there is none."""
        if name not in self.accounts:
            self.accounts[name] = Account(self, name)
        return self.accounts[name]

    @property
    def daemon(self):
        """The first node's process."""
        return self.daemons[0].process

    @property
    def port(self):
        """The first node's RPC port."""
        return self.daemons[0].rpc_port

    def start(self):
        for daemon in self.daemons:
            daemon.process.start()
        self.wait_for_node()
        return self

    def wait_for_node(self, timeout=30):
        """Until every node that should run answers."""
        for daemon in self.daemons:
            if daemon.process.wanted:
                wait_until(daemon.client.reachable, timeout, f"{daemon.name}'s RPC port", alive=self._alive,
                           supervised=self.supervised)

    def _alive(self):
        return [daemon.process for daemon in self.daemons if daemon.process.wanted]

    def wait_until(self, condition, timeout, what, every=0.2):
        def look():
            self.check()
            return condition()

        return wait_until(look, timeout, what, every, self._alive, self.supervised)

    def partition(self, *groups):
        """Cuts the network between groups of node numbers; needs namespaces."""
        self.switch.partition(groups)

    def heal(self):
        self.switch.heal()

    # --- workers ----------------------------------------------------------------------------------------------------
    def worker(self, name, *options, node=None):
        """Makes (and starts) the worker that uses account `name`, at the node of that number or the next in turn."""
        self.define_worker(name, *options, node=node)
        return self.workers[name].start()

    def define_worker(self, name, *options, node=None):
        directory = os.path.join(self.directory, "workers", name)
        os.makedirs(directory, exist_ok=True)
        account = self.accounts[name]
        home = self._homes.setdefault(name, len(self._homes) % len(self.daemons) if node is None else node)
        enter = self.switch.enter(home) if self.switch else []  # beside its node, past the network
        self.workers[name] = Process(name, [
            *enter, program("quern-worker"), f"--node={self.nodes[home].url}", f"--datadir={directory}",
            f"--rpc-cookie={self.daemons[home].datadir}/.cookie",
            "--no-benchmark",  # of workers side by side each would measure the others
            f"--key={account.keystore}", f"--password-file={account.password_file}", *options],
            os.path.join(self.directory, name + ".log"), self.detached)

    def home(self, name):
        """The NodeProcess that a worker talks to."""
        return self.daemons[self._homes[name]]

    # --- the whole --------------------------------------------------------------------------------------------------
    def supervise(self, told=lambda name, why: None):
        """From now on a process that ends unasked is started again, as systemd would: at once when it was killed or had
        run for a while, with growing pauses when it ends by itself again and again, and in the end no more (`given_up`
        says why). told(name, why) hears of each new start."""
        self.supervised = True
        self.node.patience = 60
        self._supervision = threading.Thread(target=Supervisor(self, told).run, daemon=True)
        self._supervision.start()

    def check(self):
        """Raises RuntimeError when the supervisor has given up."""
        if self.given_up:
            raise RuntimeError(self.given_up)

    def stop(self):
        self.supervised = False
        if self._supervision:
            self._supervision.join()
        for group in (list(self.workers.values()), [daemon.process for daemon in self.daemons]):
            stop_all(group)
        if self._remove_switch:
            self._remove_switch()

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


class Supervisor:
    """Brings back what ends unasked, for Devnet.supervise()."""

    LOOK_S = 0.1
    PAUSES_S = (0.3, 1, 2, 4)  # before a new start, by how often it has ended by itself soon after one
    STEADY_S = 20  # what ran for so long begins with the first pause again

    def __init__(self, net, told):
        self.net, self.told = net, told
        self.ends = {}  # name -> times it ended by itself soon after its start, one after the other
        self.due = {}  # name -> when to start it again
        self.causes = {}

    def run(self):
        while self.net.supervised:
            for process in [*(daemon.process for daemon in self.net.daemons), *self.net.workers.values()]:
                if process.wanted and not process.running():
                    self._look_after(process)
            time.sleep(self.LOOK_S)

    def _look_after(self, process):
        name, now = process.name, time.monotonic()
        if name not in self.due:
            status = process.child.returncode if process.child else 0
            killed = status in (-signal.SIGKILL, -signal.SIGTERM)  # somebody wanted that; nothing is wrong with it
            steady = now - process.started_at >= self.STEADY_S
            self.ends[name] = 0 if killed or steady else self.ends.get(name, 0) + 1
            self.causes[name] = self._cause(process, status)
            if self.ends[name] > len(self.PAUSES_S):
                self._give_up(f"{name} ended {self.ends[name]} times in a row: {self.causes[name]}")
                return
            self.due[name] = now + self.PAUSES_S[max(0, self.ends[name] - 1)]
        if now < self.due[name]:
            return
        del self.due[name]
        self.net.restarts.append(name)
        try:
            process.start()
        except OSError as error:
            self._give_up(f"{name} cannot be started again: {error}")
            return
        self.told(name, self.causes[name])

    def _give_up(self, why):
        self.net.given_up = why
        self.net.node.abandoned = True
        self.net.supervised = False

    def _cause(self, process, status):
        how = signal.Signals(-status).name if status < 0 else f"exit {status}"
        said = process.last_line()
        free = shutil.disk_usage(self.net.directory).free
        full = f"; the disk of {self.net.directory} is full" if free < LITTLE_DISK else ""
        return how + (f", it said: {said}" if status >= 0 and said else "") + full


def stop_all(processes):
    """Stops them side by side, and tells of one that had to be killed."""
    def stop(process):
        try:
            process.stop()
        except TimeoutError as error:
            print(error)

    threads = [threading.Thread(target=stop, args=(process,)) for process in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
