"""contrib/devnet: local networks that go on running when the shell is gone. See doc/devnet.md.

Each network has a directory with everything: keys, genesis, one data directory and log per node, and devnet.json, which
says what the network is made of and which processes run. The directory is locked while a command works on it.
"""
import argparse
import os
import re
import signal
import sys

from . import namespaces
from .devnet import program
from .devnet_files import (PEOPLE, Network, choose, discard, existing, forget, known_networks, ports_reserved, remember,
                           remove_files, stop_network)
from .devnet_settings import GENESIS_OPTIONS, DevnetError, check_same, choose_ports, configuration, defaults, parse_groups
from .devnet_view import show_status, table
from .market import transfer
from .processes import Ended, end_on_signals, wait_until
from .rpc import BadAnswer, RpcError

START_TIMEOUT_S = 60
EXAMPLES = """
examples:
  contrib/devnet up                                     four validators, 2 solvers, 3 verifiers, 1 whistleblower
  contrib/devnet up --name big --validators 7 --workers none
  contrib/devnet status
  contrib/devnet faucet 0x00000000000000000000000000000000000000b0 12.5
  contrib/devnet cli task_get 1
  contrib/devnet kill node3 && contrib/devnet start node3
  contrib/devnet partition "0,1|2,3"; contrib/devnet heal
  contrib/devnet logs node0 -f
  contrib/devnet down                                   keeps the chain; up goes on with it
  contrib/devnet destroy                                removes everything
"""


def up(options):
    if not os.path.exists(program("quernd")):
        raise DevnetError(f"{program('quernd')} is missing: run contrib/build.sh release --programs (or set QUERN_BIN)")
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


def list_networks(_):
    rows = [("devnet", "nodes", "processes", "directory")]  # workers are processes, too
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


def cli(options):
    network = existing(options)
    with network.locked():
        daemons = {daemon.name: daemon for daemon in network.open().daemons}
    daemon = daemons.get(network.find(options.node).name)
    if daemon is None:
        raise DevnetError(f"{options.node} is no node")
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    quern_cli = program("quern-cli")
    os.execv(quern_cli, [quern_cli, f"-rpcconnect={daemon.host}", f"-rpcport={daemon.rpc_port}",
                         f"-datadir={daemon.datadir}", *words])


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
    sub = command("cli", cli, "ask a node with quern-cli")
    sub.add_argument("--node", default="node0", help="which one (default node0)")
    sub.add_argument("words", nargs=argparse.REMAINDER, metavar="WORDS", help="METHOD [PARAMETER...]; after --: -getinfo, ...")
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
    except (DevnetError, namespaces.NamespaceError, RuntimeError, TimeoutError, RpcError, BadAnswer, OSError) as error:
        print(f"devnet: {error}", file=sys.stderr)
        return 1
    except Ended as ended:
        print(f"devnet: ended by {ended}; contrib/devnet status shows what runs", file=sys.stderr)
        return ended.status


if __name__ == "__main__":
    sys.exit(main())
