"""JSON-RPC and content store client of one node, over one kept connection per thread."""
from __future__ import annotations

import http.client
import io
import itertools
import json
import re
import socket
import threading
import time
from email.message import Message
from typing import Any, Callable, Mapping, cast

from .printable import printable

MAX_ANSWER = 64 << 20  # bytes of an answer, as src/base/http_client.h has it
MAX_CONTENT = 1 << 30  # of a content, which is taken whole
PIECE = 1 << 18  # bytes taken at once
QUANTITY = re.compile("0x[0-9a-fA-F]{1,64}")


class BadAnswer(ValueError):
    """What came is no answer: too long, no JSON, or of another shape than the method's."""


class RpcError(Exception):
    """The node answered with an error object."""

    def __init__(self, method: str, error: Mapping[str, Any]) -> None:
        super().__init__(printable(f"{method}: {error.get('message')} (code {error.get('code')})"))
        self.code = error.get("code")
        self.message = error.get("message", "")
        self.data = error.get("data")


class _Until(io.RawIOBase):
    """What a socket receives until a time; http.client by itself begins its time anew with each piece."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        super().__init__()
        self._sock, self._raw, self._end = sock, sock.makefile("rb", buffering=0), end

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int | None:
        self._sock.settimeout(_left(self._end))
        return self._raw.readinto(room)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Source:
    """A socket as http.client.HTTPResponse uses it."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        self._sock, self._end = sock, end

    def makefile(self, *_: object) -> io.BufferedReader:
        return io.BufferedReader(_Until(self._sock, self._end))


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _read(response: http.client.HTTPResponse, limit: int) -> bytes:
    """The body; no more than the limit is ever held."""
    if response.length is not None and response.length > limit:
        raise BadAnswer(f"an answer of {response.length} bytes, {limit} are allowed")
    pieces, size = [], 0
    while piece := response.read(PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise BadAnswer(f"an answer of more than {limit} bytes")
    if response.length:  # http.client takes a connection that ends before for the body's end
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(pieces)


class Node:
    """A node's RPC port. Attribute calls are methods: node.eth_blockNumber(), node.task_get(1)."""

    def __init__(self, port: int, host: str = "127.0.0.1", timeout: float = 30, patience: float = 0) -> None:
        """timeout: seconds until the last byte of an answer is there.
        patience: seconds for which a node that does not answer is asked again (it may be restarting)."""
        self.host, self.port, self.timeout, self.patience = host, port, timeout, patience
        self.datadir: str | None = None  # where its cookie is, if it is ours
        self.abandoned = False  # nobody brings it back: asking again is no use
        self._ids = itertools.count(1)
        self._local = threading.local()

    @property
    def cli(self) -> list[str]:
        """quern-cli's options that reach this node, with its cookie when its directory is known."""
        cookie = [f"-datadir={self.datadir}"] if self.datadir else []
        return [f"-rpcconnect={self.host}", f"-rpcport={self.port}", *cookie]

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def _connection(self) -> http.client.HTTPConnection:
        if getattr(self._local, "connection", None) is None:
            self._local.connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
        return cast(http.client.HTTPConnection, self._local.connection)

    def request(self, verb: str, path: str, body: bytes | str | None = None, headers: Mapping[str, str] | None = None,
                limit: int = MAX_ANSWER) -> tuple[int, Message, bytes]:
        """(status, headers, body); a connection that the node closed meanwhile is replaced once, within the same time.
        Raises BadAnswer for a body of more than `limit` bytes."""
        end = time.monotonic() + self.timeout

        def answer(sock: socket.socket, *more: Any, **named: Any) -> http.client.HTTPResponse:
            return http.client.HTTPResponse(cast(socket.socket, _Source(sock, end)), *more, **named)

        attempt = 0
        while True:
            connection = self._connection()
            connection.response_class = cast("type[http.client.HTTPResponse]", answer)
            try:
                connection.timeout = _left(end)  # of connecting
                if connection.sock is not None:
                    connection.sock.settimeout(connection.timeout)  # of sending
                connection.request(verb, path, body=body, headers=headers or {})
                response = connection.getresponse()
                return response.status, response.headers, _read(response, limit)
            except (http.client.HTTPException, OSError, BadAnswer) as error:
                connection.close()
                self._local.connection = None
                if attempt or isinstance(error, BadAnswer):
                    raise
                attempt += 1

    def post(self, document: Any) -> Any:
        """What JSON the node answers. Raises BadAnswer where it is none."""
        status, _, body = self.request("POST", "/", json.dumps(document), {"Content-Type": "application/json"})
        if not body:
            raise ConnectionError(f"empty answer, status {status}")
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise BadAnswer(f"no JSON: {error}, status {status}") from None

    def call(self, method: str, *params: Any, **named: Any) -> Any:
        """The result. Raises RpcError where the node refuses, BadAnswer where what it says is no answer."""
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
        if not isinstance(answer, dict):
            raise BadAnswer(f"{method}: an answer that is no object")
        if "error" in answer:
            error = answer["error"]
            if not isinstance(error, dict) or not isinstance(error.get("code"), int) or not isinstance(error.get("message"), str):
                raise BadAnswer(f"{method}: an error without code and message")
            raise RpcError(method, error)
        if "result" not in answer or answer.get("id") != request["id"]:
            raise BadAnswer(f"{method}: no result of this request")
        return answer["result"]

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *params, **named: self.call(method, *params, **named)

    def number(self, method: str, *params: Any) -> int:
        """Result of a method that gives a hexadecimal quantity."""
        found = self.call(method, *params)
        if not isinstance(found, str) or not QUANTITY.fullmatch(found):
            raise BadAnswer(f"{method}: no quantity: {found!r:.80}")
        return int(found, 16)

    def height(self) -> int:
        return self.number("eth_blockNumber")

    def reachable(self) -> bool:
        try:
            self.post({"jsonrpc": "2.0", "id": 0, "method": "eth_blockNumber", "params": []})
            return True
        except (OSError, http.client.HTTPException, ValueError):
            return False

    def content(self, identifier: str) -> bytes:
        status, _, body = self.request("GET", "/content/" + identifier.removeprefix("0x"), limit=MAX_CONTENT)
        if status != 200:
            raise KeyError(f"content {identifier}: status {status}")
        return body


class AnyNode(Node):
    """The first of several nodes that answers, kept until it does not: a user with several endpoints."""

    def __init__(self, nodes: list[Node], timeout: float = 30, patience: float = 0) -> None:
        super().__init__(nodes[0].port, nodes[0].host, timeout, patience)
        self.nodes = nodes  # the list itself may grow
        self.current = 0

    def request(self, verb: str, path: str, body: bytes | str | None = None, headers: Mapping[str, str] | None = None,
                limit: int = MAX_ANSWER) -> tuple[int, Message, bytes]:
        first = self.current
        for step in range(len(self.nodes)):
            index = (first + step) % len(self.nodes)
            try:
                answer = self.nodes[index].request(verb, path, body, headers, limit)
                self.current, self.host, self.port = index, self.nodes[index].host, self.nodes[index].port
                self.datadir = self.nodes[index].datadir
                return answer
            except (http.client.HTTPException, OSError, BadAnswer):
                if step + 1 == len(self.nodes):
                    raise
        raise ConnectionError("no node is known")
