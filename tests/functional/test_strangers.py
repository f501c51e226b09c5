#!/usr/bin/env python3
"""What a node may say to the Python client and to the programs: nothing that takes all memory or time, nothing that a
terminal obeys."""
import concurrent.futures
import contextlib
import http.server
import json
import os
import re
import signal
import subprocess
import threading
import time
import unittest
from unittest import mock

import framework
import quern
from quern.devnet import program
from quern.devnet_view import table
from quern.printable import MOST, printable
from quern.rpc import MAX_ANSWER, AnyNode, Node
from quern.training import follow

TIMEOUT_S = 60
HARMFUL = "\x1b]0;owned\x07\x1b[2J\x1b[31mSubmit for at most 0.0001 QRN? [y/N]\x9b2J\u202e"
CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")  # but the line end
MODEL = {"format": "quern-arch-1",
         "model": {"type": "char_transformer", "layers": 1, "d_model": 8, "heads": 2, "context": 6, "mlp_ratio": 2, "vocab": 11},
         "data": {"dtype": "u8", "elements": 121}, "batch": 3, "optimizer": {"type": "adamw", "lr": 3e-3, "total_steps": 4}}


class Stranger(http.server.ThreadingHTTPServer):
    """Listens as a node does, and answers each request by `answer(handler, request)`."""

    daemon_threads = True

    def __init__(self, answer):
        self.asked = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.server.asked += 1
                with contextlib.suppress(OSError):  # the other side hangs up
                    answer(self, request)

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_):
        pass


def whole(handler, body):
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def drip(handler, piece):
    for _ in range(2 * TIMEOUT_S):
        handler.wfile.write(piece)
        handler.wfile.flush()
        time.sleep(0.2)


class StrangersTest(unittest.TestCase):
    def setUp(self):
        self.directory = framework.temporary_directory("quern-strangers-")

    def node(self, answer):
        stranger = Stranger(answer)
        threading.Thread(target=stranger.serve_forever, args=(0.02,), daemon=True).start()
        self.addCleanup(stranger.server_close)
        self.addCleanup(stranger.shutdown)
        return stranger

    def says(self, body):
        """A node that says this, byte by byte or, of a text, with the request's id in it."""
        return self.node(lambda handler, request: whole(
            handler, body if isinstance(body, bytes) else body.replace("ID", str(request["id"])).encode()))

    def test_long_answers_end_at_the_limit(self):
        sent = []

        def endless(handler, _request):
            handler.send_response(200)
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            while True:
                handler.wfile.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                sent.append(0x10000)

        with self.assertRaisesRegex(quern.BadAnswer, f"more than {MAX_ANSWER} bytes"):
            stranger = self.node(endless)
            quern.Client(stranger.url, timeout=TIMEOUT_S).chain_id()
        self.assertEqual(stranger.asked, 1)
        self.assertLess(sum(sent), 2 * MAX_ANSWER)

        def announced(handler, _request):
            handler.send_response(200)
            handler.send_header("Content-Length", str(MAX_ANSWER + 1))
            handler.end_headers()
            drip(handler, b" ")

        began = time.monotonic()
        with self.assertRaisesRegex(quern.BadAnswer, f"of {MAX_ANSWER + 1} bytes"):
            quern.Client(self.node(announced).url, timeout=TIMEOUT_S).chain_id()
        self.assertLess(time.monotonic() - began, TIMEOUT_S / 2)

    def test_slow_answers_end_in_time(self):
        def body(handler, _request):
            handler.send_response(200)
            handler.send_header("Content-Length", "100000")
            handler.end_headers()
            drip(handler, b" ")

        def chunks(handler, _request):
            handler.send_response(200)
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            drip(handler, b"1\r\n \r\n")

        def flood(handler, _request):
            while True:
                handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)

        for answer in (body, chunks, flood, lambda handler, _: drip(handler, b"HTTP/1.1 100 Continue\r\n\r\n"),
                       lambda handler, _: drip(handler, b"H")):
            stranger = self.node(answer)
            began = time.monotonic()
            with self.assertRaises(TimeoutError):
                quern.Client(stranger.url, timeout=1).chain_id()
            self.assertLess(time.monotonic() - began, 5)
            self.assertEqual(stranger.asked, 1, "who is slow is not asked again")

    def test_an_answer_that_ends_early_is_none(self):
        def short(handler, request):
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": "0x1"}).encode())
            handler.close_connection = True

        with self.assertRaises(http.client.IncompleteRead):
            quern.Client(self.node(short).url).chain_id()

    def test_what_is_no_answer_is_one_error(self):
        deep = b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 5_000_000
        for body in (deep, b"\x1b[31m", b"\xff", b"[1]", b'"0x1"', b"1", b"null", b"{}", '{"id":ID}', '{"id":-1,"result":"0x1"}',
                     '{"id":ID,"error":"no"}', '{"id":ID,"error":null}', '{"id":ID,"error":{"code":1}}',
                     '{"id":ID,"error":{"code":"1","message":"no"}}', '{"id":ID,"result":1}', '{"id":ID,"result":"1"}',
                     '{"id":ID,"result":"0x"}', '{"id":ID,"result":"0x1\\n"}', '{"id":ID,"result":["0x1"]}',
                     '{"id":ID,"result":"0x' + "1" * 65 + '"}'):
            with self.subTest(body[:60]), self.assertRaises(quern.BadAnswer) as caught:
                quern.Client(self.says(body).url).chain_id()
            self.assertNotIn("\x1b", str(caught.exception))
        for result in ("1", '"settled"', "[]", "{}", '{"stateName":1,"reason":"","steps":1}'):
            with self.subTest(result), self.assertRaises(quern.BadAnswer):
                quern.Client(self.says(f'{{"id":ID,"result":{result}}}').url).task(1)
        good = self.says('{"id":ID,"result":{"stateName":"open","reason":"r","steps":3}}')
        self.assertEqual(quern.Client(good.url).task(1).steps, 3)
        self.assertFalse(Node(self.says(deep).server_port).reachable())

    def test_another_node_is_asked_instead(self):
        bad = self.node(lambda handler, _: (handler.send_response(200), handler.send_header("Content-Length", str(1 << 40)),
                                            handler.end_headers()))
        good = self.says('{"id":ID,"result":"0x7"}')
        self.assertEqual(AnyNode([Node(bad.server_port), Node(good.server_port)]).number("eth_chainId"), 7)

    def test_a_connection_serves_many_calls(self):
        good = self.says('{"id":ID,"result":"0x7"}')
        node = Node(good.server_port)
        self.assertEqual([node.number("eth_chainId") for _ in range(3)], [7] * 3)
        self.assertIsNotNone(node._connection().sock)  # pylint: disable=protected-access

    def refusing(self):
        return self.node(lambda handler, request: whole(handler, json.dumps(
            {"id": request["id"], "error": {"code": 1, "message": HARMFUL + "A" * 3_000_000}}).encode()))

    def test_errors_are_no_commands_to_a_terminal(self):
        stranger = self.refusing()
        with self.assertRaises(quern.RpcError) as caught:
            quern.Client(stranger.url).chain_id()
        self.assertEqual(caught.exception.message[:len(HARMFUL)], HARMFUL)
        self.assert_harmless(str(caught.exception).encode())
        self.assert_harmless(str(quern.TrainError("node.rpc_error", caught.exception.message)).encode())

    def test_nor_are_those_of_the_programs(self):
        stranger = self.refusing()
        for command in ([program("quern-cli"), f"-rpcport={stranger.server_port}", "eth_chainId"],
                        [program("quern-train"), "--node", stranger.url, "--model", "none", "--data", "none", "--budget", "1qrn"],
                        [program("quern-compile"), "validate", "none" + HARMFUL]):
            with self.subTest(command[0]):
                ended = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False, cwd=self.directory)
                self.assertNotEqual(ended.returncode, 0)
                self.assertEqual(ended.stdout, b"")
                self.assertIn(b"\\x1b]0;owned\\x07\\x1b[2J", ended.stderr[:MOST])
                self.assert_harmless(ended.stderr)

    def assert_harmless(self, said):
        self.assertIsNone(CONTROL.search(said), said[:200])
        self.assertLess(len(said), 2 * MOST)

    def test_progress_is_no_command_to_a_terminal(self):
        with open(os.path.join(self.directory, "arch.json"), "w") as file:
            json.dump(MODEL, file)
        with open(os.path.join(self.directory, "data.u8"), "wb") as file:
            file.write(bytes(i * i % 11 for i in range(121)))
        command = [program("quern-train"), "--model", "arch.json", "--data", "data.u8", "--local", "--threads", "1", "--out"]
        ended = subprocess.run([*command, "m\x1b[31m.st"], capture_output=True, timeout=TIMEOUT_S, check=True, cwd=self.directory)
        self.assertIn(rb"m\x1b[31m.st is trained", ended.stdout)
        self.assert_harmless(ended.stdout)

    def test_tables_are_no_command_to_a_terminal(self):
        with open(os.path.join(self.directory, "shown"), "w+") as file, contextlib.redirect_stdout(file):
            table([("node", "signs"), ("node0", "no: " + HARMFUL)])
            file.seek(0)
            self.assert_harmless(file.read().encode())

    def test_printable_is_what_the_programs_do(self):
        self.assertEqual(printable("Größe ▁█"), "Größe ▁█")
        self.assertEqual(printable("a\nb\x7f\x9b\u2066"), r"a\x0ab\x7f\xc2\x9b\xe2\x81\xa6")
        self.assertEqual(printable(b"\x9b\xff".decode(errors="surrogateescape") + "\ud800\udfff"),
                         r"\x9b\xff\xed\xa0\x80\xed\xbf\xbf")
        self.assertEqual(printable("A" * (MOST + 7)), "A" * MOST + "... (7 characters more)")

    def script(self, text):
        """quern-train, for follow(): this shell script."""
        path = os.path.join(self.directory, "quern-train")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o700), "w") as file:
            file.write("#!/bin/bash\n" + text)
        return mock.patch.dict(os.environ, {"QUERN_BIN": self.directory})

    @staticmethod
    def in_time(work):
        pool = concurrent.futures.ThreadPoolExecutor(1)
        try:
            return pool.submit(work).result(timeout=TIMEOUT_S)
        finally:
            pool.shutdown(wait=False)

    def test_a_long_refusal_does_not_block(self):
        with self.script("head -c 1000000 /dev/zero | tr '\\0' A >&2; echo >&2\n"
                         "echo '{\"event\": \"progress\"}'; echo 'quern-train: train.some: why' >&2; exit 1\n"):
            events = []
            with self.assertRaises(quern.TrainError) as caught:
                self.in_time(lambda: events.extend(follow([])))
        self.assertEqual(caught.exception.name, "train.some")
        self.assertEqual(caught.exception.detail, "why")

    def test_who_stops_listening_does_not_block(self):
        with self.script("trap 'yes | head -c 1000000 | tr y \" \"; exit 1' TERM\n"
                         "echo '{\"event\": \"progress\"}'; while true; do sleep 0.1; done\n"):
            def stop():
                events = follow([])
                next(events)
                events.close()

            began = time.monotonic()
            self.in_time(stop)
            self.assertLess(time.monotonic() - began, TIMEOUT_S)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    framework.main()
