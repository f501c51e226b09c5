"""A switch in software for the nodes of one devnet: each node in a network namespace of its own, so that the network
between them can be cut. Needs root and iproute2.

The namespaces are quern<N>-node<i> with address 10.77.N.<i+1>, joined by a bridge in quern<N>-switch; the host is
10.77.N.254 and reaches every node, cut off or not. The bridge has a namespace of its own so that the host's firewall
does not filter what passes between the nodes.
"""
import json
import os
import random
import shutil
import subprocess

MAX_NODES = 200
NOBODY = "02:00:00:00:00:01"  # a link address that no node has: what is sent there is lost, as on a cut cable


class NamespaceError(Exception):
    """The system does not let us make or change namespaces."""


def _run(*arguments):
    done = subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NamespaceError(f"{' '.join(map(str, arguments))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _ip(*arguments):
    return _run("ip", *arguments)


def _shape(name, link, mbit, queue_ms):
    _run("tc", "-n", name, "qdisc", "replace", "dev", link, "root", "tbf", "rate", f"{mbit}mbit", "burst", "32kb",
         "latency", f"{queue_ms}ms")


def why_no_lines():
    """Why there can be no lines of a given rate here, or None when there can."""
    return why_not(lambda name: _shape(name, "one", 10, 100))


def why_not(also=None):
    """Why there can be no namespaces here, or None when there can. also(name) is tried in one that has a link "one"."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool, package in (("ip", "iproute2"), ("nsenter", "util-linux")):
        if shutil.which(tool) is None:
            return f"network namespaces need the command {tool} (Debian package {package})"
    probe = f"quern-probe-{os.getpid()}"
    try:
        _ip("netns", "add", probe)
        try:
            _ip("-n", probe, "link", "add", "one", "type", "veth", "peer", "name", "other")
            _ip("-n", probe, "link", "add", "three", "type", "bridge")
            if also:
                also(probe)
        finally:
            _ip("netns", "del", probe)
    except (NamespaceError, FileNotFoundError) as error:
        return f"this system refuses {'lines of a rate' if also else 'network namespaces'} ({error})"
    return None


def _existing():
    return {line.split()[0] for line in _ip("netns", "list").splitlines() if line.strip()}


class Switch:
    """The namespaces of one devnet. number: N of a switch made before, else a free one is chosen by create()."""

    def __init__(self, number=None):
        self.number = number

    def _name(self, node):
        return f"quern{self.number}-{'switch' if node is None else f'node{node}'}"

    def address(self, node):
        return f"10.77.{self.number}.{node + 1}"

    def enter(self, node):
        """What a command line starts with to run in the node's namespace; the process keeps its number."""
        return ["nsenter", f"--net=/run/netns/{self._name(node)}", "--"]

    def exists(self):
        return self.number is not None and self._name(None) in _existing()

    def create(self, nodes):
        """Makes the switch (with the number it had, when that is still free) and plugs in the nodes."""
        taken = _existing()
        used = _ip("-o", "-4", "addr", "show") + _ip("route", "show")
        numbers = random.sample(range(256), 256)
        for number in ([self.number] if self.number is not None else []) + numbers:
            if f"quern{number}-switch" in taken or f"10.77.{number}." in used:
                continue
            self.number = number
            try:
                _ip("netns", "add", self._name(None))
            except NamespaceError:
                if self._name(None) in _existing():
                    continue  # somebody else was quicker
                raise
            break
        else:
            raise NamespaceError("all of 10.77.0.0/16 is in use")
        try:
            switch, host = self._name(None), f"quern{self.number}"
            _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
            _ip("-n", switch, "link", "set", "bridge", "up")
            _ip("link", "add", host, "type", "veth", "peer", "name", "host", "netns", switch)
            _ip("addr", "add", f"10.77.{self.number}.254/24", "dev", host)
            _ip("link", "set", host, "up")
            _ip("-n", switch, "link", "set", "host", "master", "bridge", "up")
            for node in range(nodes):
                self.plug(node)
        except NamespaceError:
            self.destroy()
            raise

    def plug(self, node):
        """Makes the namespace of one node and joins it to the bridge."""
        if node >= MAX_NODES:
            raise NamespaceError(f"at most {MAX_NODES} nodes")
        name, switch = self._name(node), self._name(None)
        _ip("netns", "add", name)
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"node{node}", "netns", switch)
        _ip("-n", name, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", switch, "link", "set", f"node{node}", "master", "bridge", "up")

    def partition(self, groups):
        """Cuts every pair of nodes that are in different groups; packets vanish silently, both ways."""
        self.heal()
        group_of = {node: index for index, group in enumerate(groups) for node in group}
        for node in group_of:
            for other in group_of:
                if group_of[node] != group_of[other]:
                    _ip("-n", self._name(node), "neigh", "replace", self.address(other), "lladdr", NOBODY, "nud",
                        "permanent", "dev", "eth0")

    def shape(self, node, mbit, queue_ms=100):
        """Gives the node a line of so many Mbit/s each way, with queues of so many milliseconds. What runs in its
        namespace reaches it past that."""
        for name, end in ((self._name(node), "eth0"), (self._name(None), f"node{node}")):
            _shape(name, end, mbit, queue_ms)

    def traffic(self, node):
        """(bytes received, bytes sent) by the node over its line, headers counted."""
        link = json.loads(_ip("-n", self._name(node), "-s", "-j", "link", "show", "eth0"))[0]
        return link["stats64"]["rx"]["bytes"], link["stats64"]["tx"]["bytes"]

    def heal(self):
        """Joins everybody again."""
        for name in _existing():
            if name.startswith(f"quern{self.number}-node"):
                _ip("-n", name, "neigh", "flush", "nud", "permanent", "dev", "eth0")

    def destroy(self):
        """Removes the namespaces and, with them, all links. The processes inside must have ended."""
        try:
            _ip("link", "del", f"quern{self.number}")
        except NamespaceError:
            pass  # it went with the switch's namespace
        for name in _existing():
            if name.startswith(f"quern{self.number}-"):
                _ip("netns", "del", name)
