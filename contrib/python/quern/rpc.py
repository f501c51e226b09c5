"""JSON-RPC and content store client of one node, over one kept connection per thread."""
import http.client
import itertools
import json
import threading
import time


class RpcError(Exception):
    """The node answered with an error object."""

    def __init__(self, method, error):
        super().__init__(f"{method}: {error.get('message')} (code {error.get('code')})")
        self.code = error.get("code")
        self.message = error.get("message", "")
        self.data = error.get("data")


class Node:
    """A node's RPC port. Attribute calls are methods: node.eth_blockNumber(), node.task_get(1)."""

    def __init__(self, port, host="127.0.0.1", timeout=30, patience=0):
        """patience: seconds for which a node that does not answer is asked again (it may be restarting)."""
        self.host, self.port, self.timeout, self.patience = host, port, timeout, patience
        self.datadir = None  # where its cookie is, if it is ours
        self.abandoned = False  # nobody brings it back: asking again is no use
        self._ids = itertools.count(1)
        self._local = threading.local()

    @property
    def cli(self):
        """quern-cli's options that reach this node, with its cookie when its directory is known."""
        cookie = [f"-datadir={self.datadir}"] if self.datadir else []
        return [f"-rpcconnect={self.host}", f"-rpcport={self.port}", *cookie]

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def _connection(self):
        if getattr(self._local, "connection", None) is None:
            self._local.connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
        return self._local.connection

    def request(self, verb, path, body=None, headers=None):
        """(status, headers, body); a connection that the node closed meanwhile is replaced once."""
        for attempt in (0, 1):
            connection = self._connection()
            try:
                connection.request(verb, path, body=body, headers=headers or {})
                response = connection.getresponse()
                return response.status, response.headers, response.read()
            except (http.client.HTTPException, ConnectionError, OSError):
                connection.close()
                self._local.connection = None
                if attempt:
                    raise

    def post(self, document):
        status, _, body = self.request("POST", "/", json.dumps(document), {"Content-Type": "application/json"})
        if not body:
            raise ConnectionError(f"empty answer, status {status}")
        return json.loads(body)

    def call(self, method, *params, **named):
        request = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": named or list(params)}
        end = time.monotonic() + self.patience
        while True:
            try:
                answer = self.post(request)
                break
            except (http.client.HTTPException, OSError):
                if time.monotonic() > end or self.abandoned:
                    raise
                time.sleep(0.2)
        if "error" in answer:
            raise RpcError(method, answer["error"])
        return answer["result"]

    def __getattr__(self, method):
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *params, **named: self.call(method, *params, **named)

    def number(self, method, *params):
        """Result of a method that gives a hexadecimal quantity."""
        return int(self.call(method, *params), 16)

    def height(self):
        return self.number("eth_blockNumber")

    def reachable(self):
        try:
            self.post({"jsonrpc": "2.0", "id": 0, "method": "eth_blockNumber", "params": []})
            return True
        except (OSError, http.client.HTTPException, ValueError):
            return False

    def content(self, identifier):
        status, _, body = self.request("GET", "/content/" + identifier.removeprefix("0x"))
        if status != 200:
            raise KeyError(f"content {identifier}: status {status}")
        return body


class AnyNode(Node):
    """The first of several nodes that answers, kept until it does not: a user with several endpoints."""

    def __init__(self, nodes, timeout=30, patience=0):
        super().__init__(nodes[0].port, nodes[0].host, timeout, patience)
        self.nodes = nodes  # the list itself may grow
        self.current = 0

    def request(self, verb, path, body=None, headers=None):
        first = self.current
        for step in range(len(self.nodes)):
            index = (first + step) % len(self.nodes)
            try:
                answer = self.nodes[index].request(verb, path, body, headers)
                self.current, self.host, self.port = index, self.nodes[index].host, self.nodes[index].port
                self.datadir = self.nodes[index].datadir
                return answer
            except (http.client.HTTPException, OSError):
                if step + 1 == len(self.nodes):
                    raise
