"""What people see of a devnet: nodes and workers with what they say of themselves, as tables."""
from .printable import printable
from .rpc import RpcError

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
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
