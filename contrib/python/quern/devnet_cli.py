"""contrib/devnet: local networks that go on running when the shell is gone. See doc/devnet.md.

Each network has a directory with everything: keys, genesis, one data directory and log per node, and devnet.json, which
says what the network is made of and which processes run. The directory is locked while a command works on it.
"""
import argparse
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import sys

from . import namespaces
from .devnet import Devnet, free_ports, program, run, stop_all
from .market import transfer
from .processes import Ended, end_on_signals, start_time, wait_until
from .rpc import RpcError

ROLE_BONDS = {"solver": 200, "verifier": 400, "whistleblower": 100}  # QRN at genesis
WORKER_FUNDS = 20
PEOPLE = {"faucet": 1_000_000, "alice": 1000, "bob": 1000}
MAX_VALIDATORS, MAX_FOLLOWERS, MAX_WORKERS = 100, 50, 50
START_TIMEOUT_S = 60
FORMAT = "quern-devnet-1"
EXAMPLES = """
examples:
  contrib/devnet up                                     four validators, 2 solvers, 3 verifiers, 1 whistleblower
  contrib/devnet up --name big --validators 7 --workers none
  contrib/devnet status
  contrib/devnet faucet 0x00000000000000000000000000000000000000b0 12.5
  contrib/devnet kill node3 && contrib/devnet start node3
  contrib/devnet partition "0,1|2,3"; contrib/devnet heal
  contrib/devnet logs node0 -f
  contrib/devnet down                                   keeps the chain; up goes on with it
  contrib/devnet destroy                                removes everything
"""


class DevnetError(Exception):
    """What the user reads after "devnet: "."""


def base_directory():
    """Where networks without --dir live, and links to those with it."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.environ.get("QUERN_DEVNETS") or os.path.join(state, "quern-devnet")


def parse_workers(text):
    """ "solver=2,verifier=3" as {"solver": 2, "verifier": 3}. """
    counts = {}
    for part in [] if text in ("", "none") else text.split(","):
        role, _, number = part.strip().partition("=")
        if role not in ROLE_BONDS or not number.isdigit() or role in counts:
            raise DevnetError(f"--workers {text}: expected ROLE=NUMBER,... with roles {', '.join(ROLE_BONDS)}, or none")
        counts[role] = int(number)
    if sum(counts.values()) > MAX_WORKERS:
        raise DevnetError(f"--workers {text}: at most {MAX_WORKERS} together")
    return counts


def parse_settings(items, option):
    """["name=value", ...] as a dict."""
    settings = {}
    for item in items or []:
        name, equals, value = item.partition("=")
        if not name or not equals:
            raise DevnetError(f"{option} {item}: expected NAME=VALUE")
        settings[name] = value
    return settings


def parse_groups(text, nodes):
    """ "0,1|2,3" as [[0, 1], [2, 3]]; nodes in no group form one more. """
    groups = []
    for part in text.split("|"):
        group = []
        for item in part.split(","):
            match = re.fullmatch(r"\s*(?:node)?(\d+)\s*", item)
            if not match or int(match[1]) >= nodes:
                raise DevnetError(f"partition {text}: {item.strip() or 'nothing'} is not a node; this devnet has node0 to "
                                  f"node{nodes - 1}")
            group.append(int(match[1]))
        groups.append(group)
    named = [node for group in groups for node in group]
    if len(set(named)) != len(named):
        raise DevnetError(f"partition {text}: a node stands twice")
    if rest := sorted(set(range(nodes)) - set(named)):
        groups.append(rest)
    if len(groups) < 2:
        raise DevnetError(f"partition {text}: one group is no partition")
    return groups


class Network:
    """One devnet on disk. Commands change it inside `with Network(directory):`, which holds its lock."""

    def __init__(self, directory, name=None):
        self.directory = directory
        self.file = os.path.join(directory, "devnet.json")
        self.config = None
        self.net = None
        if os.path.exists(self.file):
            with open(self.file) as file:
                try:
                    self.config = json.load(file)
                except ValueError as error:
                    raise DevnetError(f"{self.file} is damaged ({error}); devnet destroy removes the devnet") from None
            if self.config.get("format") != FORMAT:
                raise DevnetError(f"{self.file} is of another version; devnet destroy removes it")
        self.name = self.config["name"] if self.config else name

    def title(self):
        return "the devnet" if self.name == "devnet" else f"devnet {self.name}"

    @contextlib.contextmanager
    def locked(self):
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        with open(os.path.join(self.directory, ".lock"), "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DevnetError(f"another devnet command works on {self.directory}; try again when it is done") from None
            self.__init__(self.directory, self.name)  # as it is now, under the lock
            try:
                yield self
            finally:
                if not os.path.exists(self.file):  # nothing came of it, or it was destroyed
                    os.remove(lock.name)
                    with contextlib.suppress(OSError):
                        os.rmdir(self.directory)

    def save(self):
        if self.net:
            self.config["processes"] = {name: process.identity() for name, process in self.processes().items()
                                        if process.running()}
            self.config["switch"] = self.net.switch.number if self.net.switch else None
            self.config["ports"] = [[d.rpc_port, d.p2p_port, d.ws_port] for d in self.net.daemons]
        temporary = self.file + ".new"
        with open(temporary, "w") as file:
            json.dump(self.config, file, indent=1)
            file.write("\n")
        os.replace(temporary, self.file)

    def open(self):
        """The Devnet of the configuration, with the processes that run."""
        config = self.config
        switch = namespaces.Switch(config["switch"]) if config["namespaces"] else None
        worker_names = [name for name, _ in config["workers"]]
        self.net = Devnet(
            self.directory, {**PEOPLE, **{name: WORKER_FUNDS for name in worker_names}},
            [(name, role, ROLE_BONDS[role]) for name, role in config["workers"]], seed=config["seed"],
            block=config["block"], market=config["market"], staking=config["staking"], validators=config["validators"],
            followers=config["followers"], switch=switch, ports=config["ports"], detached=True)
        for name, role in config["workers"]:
            self.net.define_worker(name, "--" + role, *config["worker_options"].get(role, []))
        for name, process in self.processes().items():
            process.adopt(config["processes"].get(name))
        return self.net

    def processes(self):
        return {**{daemon.name: daemon.process for daemon in self.net.daemons}, **self.net.workers}

    def running(self):
        """Names of its processes that run, without opening it."""
        return [name for name, identity in (self.config or {}).get("processes", {}).items()
                if start_time(identity[0]) == identity[1]]

    def find(self, name):
        """A process by name; a number alone means a node."""
        name = f"node{name}" if name.isdigit() else name
        processes = self.processes()
        if name not in processes:
            raise DevnetError(f"there is no {name}; this devnet has {', '.join(processes)}")
        return processes[name]


# --- which network ------------------------------------------------------------------------------------------------------
def known_networks():
    """name -> directory of the devnets of this user."""
    base = base_directory()
    if not os.path.isdir(base):
        return {}
    return {name: os.path.realpath(os.path.join(base, name)) for name in sorted(os.listdir(base))
            if os.path.exists(os.path.join(base, name, "devnet.json"))}


def choose(options):
    """The Network that the options mean; it need not exist yet."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}", options.name):
        raise DevnetError(f"--name {options.name}: letters, digits, '_', '.' and '-', beginning with a letter or digit")
    if options.dir:
        return Network(os.path.abspath(options.dir), options.name)
    return Network(os.path.realpath(os.path.join(base_directory(), options.name)), options.name)


def existing(options):
    network = choose(options)
    if network.config is None:
        others = known_networks()
        hint = f" (there are: {', '.join(others)})" if others else ""
        raise DevnetError(f"no devnet in {network.directory}{hint}; contrib/devnet up makes one")
    return network


def remember(network):
    """Makes `list` and --name find a network that lives elsewhere."""
    place = os.path.join(base_directory(), network.name)
    os.makedirs(base_directory(), mode=0o700, exist_ok=True)
    if os.path.realpath(place) == os.path.realpath(network.directory):
        return
    if os.path.islink(place) and not os.path.exists(place):
        os.remove(place)
    if os.path.lexists(place):
        raise DevnetError(f"another devnet is called {network.name} ({os.path.realpath(place)}); give --name")
    os.symlink(network.directory, place)


def forget(network):
    place = os.path.join(base_directory(), network.name)
    if os.path.islink(place) and os.path.realpath(place) == os.path.realpath(network.directory):
        os.remove(place)


@contextlib.contextmanager
def ports_reserved():
    """Held while ports are chosen and taken, so that two `up` do not choose the same."""
    os.makedirs(base_directory(), mode=0o700, exist_ok=True)
    with open(os.path.join(base_directory(), ".ports.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield {port for directory in known_networks().values()
               for ports in (Network(directory).config or {}).get("ports", []) for port in ports}


# --- commands -------------------------------------------------------------------------------------------------------------
def configuration(options, name):
    reason = namespaces.why_not() if options.netns != "off" else "asked for"
    if options.netns == "on" and reason:
        raise DevnetError(f"--netns on: {reason}")
    if not 1 <= options.validators <= MAX_VALIDATORS or not 0 <= options.followers <= MAX_FOLLOWERS:
        raise DevnetError(f"1 to {MAX_VALIDATORS} validators and 0 to {MAX_FOLLOWERS} followers")
    counts = parse_workers(options.workers)
    block = parse_settings(options.block, "--block")
    if options.epoch_length is not None:
        block["epoch_length"] = options.epoch_length
    return {"format": FORMAT, "name": name, "seed": options.seed, "validators": options.validators,
            "followers": options.followers, "namespaces": reason is None, "switch": None, "ports": [],
            "block": block, "market": parse_settings(options.market, "--market"),
            "staking": parse_settings(options.staking, "--staking"),
            "workers": [(f"{role}{i + 1}", role) for role, count in counts.items() for i in range(count)],
            "worker_options": {}, "processes": {}}


def check_same(config, wanted, given):
    """Options that were typed must agree with the network that exists."""
    for option, fields in given.items():
        for field in fields:
            if json.loads(json.dumps(wanted[field])) != config[field]:
                raise DevnetError(f"this devnet exists already, with another {option}; --fresh throws its chain away and "
                                  "makes it anew")


def choose_ports(network, taken):
    """Sets the nodes' ports: those of last time when they are free."""
    config = network.config
    count = config["validators"] + config["followers"]
    if config["namespaces"]:
        config["ports"] = [[8545, 7876, 8546]] * count
        return
    if len(config["ports"]) == count and network.running():
        return

    def free(port):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return True
            except OSError:
                return False

    if len(config["ports"]) == count and all(free(port) for ports in config["ports"] for port in ports):
        return
    ports = free_ports(3 * count, taken)
    config["ports"] = [ports[3 * i:3 * i + 3] for i in range(count)]


def up(options):
    if not os.path.exists(program("quernd")):
        raise DevnetError(f"{program('quernd')} is missing: run contrib/build.sh release (or set QUERN_BIN)")
    network = choose(options)
    new = network.config is None
    if new and os.path.isdir(network.directory) and set(os.listdir(network.directory)) - {".lock"}:
        raise DevnetError(f"{network.directory} is not empty and holds no devnet")
    with network.locked():
        if network.config is not None:
            given = {o: f for o, f in GENESIS_OPTIONS.items() if getattr(options, o.strip("-").replace("-", "_")) is not None}
            if options.fresh:
                defaults(options, network.config)
                wanted = configuration(options, network.name)
                stop_network(network)
                remove_files(network)
                network.config, new = wanted, True
            elif given:
                defaults(options, network.config)
                check_same(network.config, configuration(options, network.name), given)
        else:
            defaults(options, None)
            network.config = configuration(options, network.name)
            if options.netns != "off" and not network.config["namespaces"] and os.geteuid() == 0:
                print(f"devnet: without partition: {namespaces.why_not()}", file=sys.stderr)
        remember(network)
        with ports_reserved() as taken:
            own = {port for ports in network.config["ports"] for port in ports}
            choose_ports(network, taken - own)
            try:
                start_network(network, options.seconds)
            except RuntimeError:  # there cannot be such a network
                if new:
                    discard(network)
                raise
    verb = "made and started" if new else "up"
    net = network.net
    print(f"{network.title()} is {verb} in {network.directory}")
    show_status(network)
    print("\naccounts (keystores in keys/, password file keys/password):")
    for name in PEOPLE:
        print(f"  {name:8} {net.accounts[name].address}  {net.accounts[name].keystore}")
    return 0


def start_network(network, seconds):
    config = network.config
    if config["namespaces"]:
        switch = namespaces.Switch(config["switch"])
        if not switch.exists():
            if network.running():
                raise DevnetError("processes run but their network namespaces are gone; run contrib/devnet down first")
            switch.create(config["validators"] + config["followers"])
            config["switch"] = switch.number
            config.pop("partition", None)  # a new switch joins everybody
    network.save()
    net = network.open()
    try:
        started = [process for process in network.processes().values() if not process.running()]
        for process in started:
            process.start()
        network.save()
        net.wait_for_node(seconds)
        # With enough validators alive the chain moves; a net that does not is worth a word at once.
        if config["validators"] >= 1:
            head = max(daemon.height() or 0 for daemon in net.daemons)
            wait_until(lambda: max(d.height() or 0 for d in net.daemons) > head, seconds, "a new block",
                       alive=lambda: [d.process for d in net.daemons])
    except (RuntimeError, TimeoutError) as error:
        raise DevnetError(f"{error}\nlogs: {network.directory}/*.log; contrib/devnet down stops what runs") from None
    finally:
        network.save()


def stop_network(network):
    if network.config["processes"] or network.config["switch"] is not None:
        net = network.open()
        stop_all(net.workers.values())
        stop_all([daemon.process for daemon in net.daemons])
        if net.switch and net.switch.exists():
            net.switch.destroy()
        network.config.pop("partition", None)
        network.save()


def remove_files(network):
    """Everything that belongs to the devnet; anything else in the directory stays."""
    config = network.config
    names = [f"node{i}" for i in range(config["validators"] + config["followers"])]
    for folder in [*names, "keys", "workers"]:
        shutil.rmtree(os.path.join(network.directory, folder), ignore_errors=True)
    logs = [*names, *(name for name, _ in config["workers"])]
    for file in ["devnet.json", "genesis.json", *(name + ".log" for name in logs)]:
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(network.directory, file))


def discard(network):
    """Removes a network that was never started."""
    if network.config["switch"] is not None:
        namespaces.Switch(network.config["switch"]).destroy()
    forget(network)
    remove_files(network)


def down(options):
    network = existing(options)
    with network.locked():
        count = len(network.running())
        stop_network(network)
    print(f"{network.title()}: {count} processes stopped; contrib/devnet up goes on with its chain")
    return 0


def destroy(options):
    network = existing(options)
    with network.locked():
        stop_network(network)
        forget(network)
        remove_files(network)
    print(f"{network.title()} is gone")
    return 0


def status(options):
    network = existing(options)
    network.open()
    show_status(network)
    return 0


NOT_YET = "not yet"
NOT_YET_BECAUSE = ("not yet: a validator whose key has signed nothing so far listens first, for a few seconds, whether another\n"
                   "process signs with it (doc/operations.md)")


def describe(daemon):
    """(height, epoch/view, peers, signs) as text; what is not to be had is '-'."""
    client = daemon.client
    client.timeout = 5

    def ask(question):
        try:
            return question()
        except (RpcError, OSError, ValueError, KeyError):
            return None

    height = ask(client.height)
    if height is None:
        return ["-"] * 4
    peers = ask(lambda: client.number("net_peerCount"))
    consensus = ask(client.sdbft_status) or {}
    number = lambda value: int(value, 16) if isinstance(value, str) else value
    view = f"{number(consensus['epoch'])}/{number(consensus['view'])}" if "epoch" in consensus else "-"
    signs = "-"
    if "signs" in consensus:
        if consensus["signs"]:
            signs = "yes"
        elif consensus.get("refusesBecause"):
            signs = f"no: {consensus['refusesBecause']}"
        elif consensus.get("member"):
            signs = NOT_YET
        else:
            signs = "no: not in the committee" if daemon.account else "no: follower"
    return [str(height), view, "-" if peers is None else str(peers), signs]


def show_status(network):
    net = network.net
    rows = [("node", "pid", "height", "epoch/view", "peers", "signs", "JSON-RPC", "WebSocket")]
    for daemon in net.daemons:
        running = daemon.process.running()
        height, view, peers, signs = describe(daemon) if running else ["-"] * 4
        rows.append((daemon.name, str(daemon.process.pid) if running else "down", height, view, peers, signs,
                     daemon.client.url, daemon.ws_url))
    table(rows)
    if any(row[5] == NOT_YET for row in rows):
        print(NOT_YET_BECAUSE)
    if net.switch and (groups := network.config.get("partition")):
        print("partitioned: " + " | ".join(",".join(f"node{node}" for node in group) for group in groups))
    if net.workers:
        print()
        table([("worker", "pid", "node", "address")] +
              [(name, str(worker.pid) if worker.running() else "down", net.home(name).name, net.accounts[name].address)
               for name, worker in net.workers.items()])


def table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def list_networks(_):
    rows = [("devnet", "nodes", "running", "directory")]
    for name, directory in known_networks().items():
        network = Network(directory)
        rows.append((name, str(network.config["validators"] + network.config["followers"]),
                     str(len(network.running())), directory))
    if len(rows) == 1:
        print("no devnets; contrib/devnet up makes one")
    else:
        table(rows)
    return 0


def faucet(options):
    network = existing(options)
    address = options.address
    with network.locked():  # two at once would use the same nonce
        net = network.open()
        if address in net.accounts:
            address = net.accounts[address].address
        if not re.fullmatch(r"0x[0-9a-fA-F]{40}", address):
            raise DevnetError(f"{address} is neither an address nor an account of this devnet ({', '.join(net.accounts)})")
        amount = options.amount.lower().removesuffix("qrn")
        if not re.fullmatch(r"\d+(\.\d{1,18})?", amount):
            raise DevnetError(f"{options.amount}: expected an amount in QRN such as 12.5")
        if not any(daemon.process.running() for daemon in net.daemons):
            raise DevnetError("no node runs; contrib/devnet up starts them")
        try:
            receipt = transfer(net, net.accounts["faucet"], address, amount + "qrn")
        except RpcError as error:
            raise DevnetError(f"not paid: {error.message}") from None
        except (RuntimeError, TimeoutError, OSError) as error:
            raise DevnetError(f"not paid: {error}") from None
    print(f"{amount} QRN to {address} in block {int(receipt['blockNumber'], 16)}\n"
          f"transaction {receipt['transactionHash']}")
    return 0


def logs(options):
    network = existing(options)
    network.open()
    processes = network.processes()
    chosen = [network.find(name) for name in options.process] or list(processes.values())
    files = [process.log for process in chosen if os.path.exists(process.log)]
    if not files:
        raise DevnetError("nothing was logged yet")
    command = ["tail", "-n", str(options.lines), *(["-F"] if options.follow else []), *files]
    os.execvp(command[0], command)


def kill(options):
    network = existing(options)
    try:
        name = options.signal.upper().removeprefix("SIG")
        number = signal.Signals(int(name)) if name.isdigit() else signal.Signals["SIG" + name]
    except (ValueError, KeyError):
        raise DevnetError(f"--signal {options.signal}: no such signal") from None
    with network.locked():
        network.open()
        for name in options.process:
            process = network.find(name)
            if not process.running():
                raise DevnetError(f"{process.name} does not run")
            process.signal(number)
            ended = process.wait(10 if number == signal.SIGKILL else 5) if number not in (signal.SIGSTOP, signal.SIGCONT) \
                else False
            print(f"{process.name}: {number.name} sent" + (", it ended" if ended else ", it still runs"))
        network.save()
    return 0


def start(options):
    network = existing(options)
    with network.locked():
        if network.config["namespaces"] and not namespaces.Switch(network.config["switch"]).exists():
            raise DevnetError("the devnet is down; contrib/devnet up starts it")
        net = network.open()
        for name in options.process:
            process = network.find(name)
            if process.running():
                print(f"{process.name} runs already")
                continue
            process.start()
            network.save()
            for daemon in net.daemons:
                if daemon.process is process:
                    try:
                        wait_until(daemon.client.reachable, START_TIMEOUT_S, f"{name}'s RPC port", alive=[process])
                    except (RuntimeError, TimeoutError) as error:
                        network.save()
                        raise DevnetError(str(error)) from None
            print(f"{process.name} started")
    return 0


def switch_of(network):
    if not network.config["namespaces"]:
        reason = namespaces.why_not() or "it was started with --netns off; --fresh --netns on makes it anew"
        raise DevnetError(f"this devnet's nodes share the host's network and cannot be cut apart: {reason}")
    switch = namespaces.Switch(network.config["switch"])
    if not switch.exists():
        raise DevnetError("the devnet is down; contrib/devnet up starts it")
    return switch


def partition(options):
    network = existing(options)
    with network.locked():
        switch = switch_of(network)
        groups = parse_groups(options.groups, network.config["validators"] + network.config["followers"])
        switch.partition(groups)
        network.config["partition"] = groups
        network.save()
    print("cut: " + " | ".join(",".join(f"node{node}" for node in group) for group in groups))
    return 0


def heal(options):
    network = existing(options)
    with network.locked():
        switch_of(network).heal()
        network.config.pop("partition", None)
        network.save()
    print("joined again")
    return 0


# --- command line -----------------------------------------------------------------------------------------------------------
# Options of `up` that make a chain, and what they decide.
GENESIS_OPTIONS = {"--validators": ["validators"], "--followers": ["followers"], "--workers": ["workers"],
                   "--seed": ["seed"], "--epoch-length": ["block"], "--block": ["block"], "--market": ["market"],
                   "--staking": ["staking"], "--netns": ["namespaces"]}


def defaults(options, config):
    """Fills in what was not typed: from the network that exists, else the defaults."""
    given = lambda value, default: default if value is None else value
    config = config or {}
    roles = {}
    for _, role in config.get("workers", []):
        roles[role] = roles.get(role, 0) + 1
    workers = ",".join(f"{role}={count}" for role, count in roles.items()) or "none"
    options.workers = given(options.workers, workers if config else "solver=2,verifier=3,whistleblower=1")
    options.validators = given(options.validators, config.get("validators", 4))
    options.followers = given(options.followers, config.get("followers", 0))
    options.seed = given(options.seed, config.get("seed", 1))
    if options.block is None and options.epoch_length is None:
        options.block = [f"{name}={value}" for name, value in config.get("block", {}).items()]
    for section in ("market", "staking"):
        if getattr(options, section) is None:
            setattr(options, section, [f"{name}={value}" for name, value in config.get(section, {}).items()])
    options.netns = given(options.netns, "auto" if config.get("namespaces", True) else "off")


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="contrib/devnet", description="Local Quern networks of real processes.",
                                     epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default="devnet", help="which devnet (default: devnet)")
    common.add_argument("--dir", help="its directory (default: NAME under the user's state directory)")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, function, text, **extra):
        sub = commands.add_parser(name, parents=[common], help=text, description=text.capitalize() + ".", **extra)
        sub.set_defaults(function=function)
        return sub

    sub = command("up", up, "make a devnet, or start what is down of one that exists",
                  epilog="Options about the chain count when it is made; --fresh makes it anew.")
    sub.add_argument("--validators", type=int, metavar="N", help="number of validators (default 4)")
    sub.add_argument("--followers", type=int, metavar="N", help="nodes that follow without signing (default 0)")
    sub.add_argument("--workers", metavar="LIST", help="solver=2,verifier=3,whistleblower=1 (the default), or none")
    sub.add_argument("--seed", type=int, metavar="S", help="changes all keys (default 1)")
    sub.add_argument("--epoch-length", type=int, metavar="BLOCKS", help="blocks in an epoch")
    for section in ("block", "market", "staking"):
        sub.add_argument(f"--{section}", action="append", metavar="NAME=VALUE",
                         help=f"a {section} parameter of the genesis; may be repeated")
    sub.add_argument("--netns", choices=["auto", "on", "off"],
                     help="each node in a network namespace, which partition needs (auto: when root)")
    sub.add_argument("--fresh", action="store_true", help="throw the chain away first")
    sub.add_argument("--seconds", type=int, default=START_TIMEOUT_S, help="how long to wait for blocks (default 60)")
    command("down", down, "stop all processes; the chain stays")
    command("destroy", destroy, "stop all processes and remove all files")
    command("status", status, "what runs, heights, views, peers, URLs")
    command("list", list_networks, "the devnets of this user")
    sub = command("faucet", faucet, "send QRN from the faucet account and wait for the receipt")
    sub.add_argument("address", metavar="ADDRESS", help="0x... or an account's name")
    sub.add_argument("amount", metavar="AMOUNT", help="in QRN, such as 12.5")
    sub = command("logs", logs, "the end of the logs of some or all processes")
    sub.add_argument("process", nargs="*", metavar="NODE", help="node0, 0, solver1, ...")
    sub.add_argument("-f", "--follow", action="store_true", help="go on with what is written")
    sub.add_argument("-n", "--lines", type=int, default=40, help="lines of each (default 40)")
    sub = command("kill", kill, "send a signal to nodes or workers (default: SIGKILL)")
    sub.add_argument("process", nargs="+", metavar="NODE", help="node0, 0, solver1, ...")
    sub.add_argument("--signal", default="KILL", help="name or number (default KILL)")
    sub = command("start", start, "start nodes or workers that are down")
    sub.add_argument("process", nargs="+", metavar="NODE", help="node0, 0, solver1, ...")
    sub = command("partition", partition, "cut the network between groups of nodes")
    sub.add_argument("groups", metavar="GROUPS", help='"0,1|2,3"; nodes that are not named form a group of their own')
    command("heal", heal, "join all nodes again")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_arguments(arguments)
    end_on_signals()
    try:
        code = options.function(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # nobody reads on: devnet status | head -1
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    # RuntimeError: a program of ours refused; OSError: a full disk, say.
    except (DevnetError, namespaces.NamespaceError, RuntimeError, TimeoutError, RpcError, OSError) as error:
        print(f"devnet: {error}", file=sys.stderr)
        return 1
    except Ended as ended:
        print(f"devnet: ended by {ended}; contrib/devnet status shows what runs", file=sys.stderr)
        return ended.status


if __name__ == "__main__":
    sys.exit(main())
