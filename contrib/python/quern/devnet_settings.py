"""What a devnet is made of: its options as people type them, and the configuration in devnet.json that they make."""
import json
import re
import socket

from . import namespaces
from .devnet import free_ports

ROLE_BONDS = {"solver": 200, "verifier": 400, "whistleblower": 100, "custodian": 50}  # QRN at genesis
MAX_VALIDATORS, MAX_FOLLOWERS, MAX_WORKERS = 100, 50, 50
FORMAT = "quern-devnet-1"
# Options of `up` that make a chain, and what they decide.
GENESIS_OPTIONS = {"--validators": ["validators"], "--followers": ["followers"], "--workers": ["workers"],
                   "--seed": ["seed"], "--epoch-length": ["block"], "--block": ["block"], "--market": ["market"],
                   "--staking": ["staking"], "--netns": ["namespaces"]}


class DevnetError(Exception):
    """What the user reads after "devnet: "."""


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
