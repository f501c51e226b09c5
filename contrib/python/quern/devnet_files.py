"""Devnets on disk: directories, locks, which networks a user has, what of them runs."""
import contextlib
import fcntl
import json
import os
import re
import shutil

from . import namespaces
from .devnet import Devnet, stop_all
from .devnet_settings import FORMAT, ROLE_BONDS, DevnetError
from .processes import start_time

WORKER_FUNDS = 20
PEOPLE = {"faucet": 1_000_000, "alice": 1000, "bob": 1000}


def base_directory():
    """Where networks without --dir live, and links to those with it."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.environ.get("QUERN_DEVNETS") or os.path.join(state, "quern-devnet")


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
