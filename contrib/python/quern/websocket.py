"""A small WebSocket client (RFC 6455) for JSON-RPC and subscriptions, with nothing but the standard library."""
import base64
import hashlib
import json
import os
import socket
import struct

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Closed(Exception):
    """code: the server's, or None when the socket ended without one."""

    def __init__(self, code, reason=""):
        super().__init__(f"closed: {code} {reason}")
        self.code, self.reason = code, reason


class WebSocket:
    def __init__(self, host, port, timeout=30, headers=()):
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.buffer = b""
        self.next_id = 1
        self.notifications = []
        key = base64.b64encode(os.urandom(16))
        lines = ["GET / HTTP/1.1", f"Host: {host}:{port}", "Upgrade: websocket", "Connection: Upgrade",
                 "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + key.decode(), *headers, "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        while b"\r\n\r\n" not in self.buffer:
            self._fill()
        header, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        self.status = int(header.split(b" ", 2)[1])
        if self.status != 101:
            raise ConnectionError(header.split(b"\r\n")[0].decode())
        if base64.b64encode(hashlib.sha1(key + GUID).digest()) not in header:
            raise ConnectionError("the handshake's answer does not fit its key")

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _fill(self):
        data = self.socket.recv(65536)
        if not data:
            raise Closed(None)
        self.buffer += data

    def _take(self, size):
        while len(self.buffer) < size:
            self._fill()
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def send_frame(self, opcode, payload):
        mask = os.urandom(4)
        size = len(payload)
        if size < 126:
            head = bytes([0x80 | opcode, 0x80 | size])
        elif size < 65536:
            head = bytes([0x80 | opcode, 0xfe]) + struct.pack(">H", size)
        else:
            head = bytes([0x80 | opcode, 0xff]) + struct.pack(">Q", size)
        self.socket.sendall(head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload)))

    def receive(self):
        """The next text message as JSON; pings are answered."""
        while True:
            first, second = self._take(2)
            size = second & 0x7f
            if size == 126:
                size, = struct.unpack(">H", self._take(2))
            elif size == 127:
                size, = struct.unpack(">Q", self._take(8))
            payload = self._take(size)
            opcode = first & 0x0f
            if opcode == TEXT:
                return json.loads(payload)
            if opcode == CLOSE:
                raise Closed(struct.unpack(">H", payload[:2])[0] if payload else 1005, payload[2:].decode())
            if opcode == PING:
                self.send_frame(PONG, payload)

    def call(self, method, *params):
        """One call's result; notifications that come meanwhile are kept for notification()."""
        number, self.next_id = self.next_id, self.next_id + 1
        self.send_frame(TEXT, json.dumps({"jsonrpc": "2.0", "id": number, "method": method,
                                          "params": list(params)}).encode())
        while True:
            message = self.receive()
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.notifications.append(message)

    def notification(self):
        """(subscription, result) of the next one."""
        message = self.notifications.pop(0) if self.notifications else self.receive()
        return message["params"]["subscription"], message["params"]["result"]
