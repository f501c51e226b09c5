"""Servers that tests/functional/test_uris.py fetches from and delivers to: an HTTP(S) server with ranges that can
misbehave, one that checks S3's signatures, and s3rver from npm."""
import hashlib
import hmac
import http.server
import os
import re
import ssl
import subprocess
import threading
import time

from quern.devnet import free_ports

KEY_ID, SECRET = "S3RVER", "S3RVER"
PIECE = 1 << 14


def make_certificate(directory):
    """(certificate, key) of 127.0.0.1, made here: its own authority."""
    certificate, key = os.path.join(directory, "ca.pem"), os.path.join(directory, "ca.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=quern test", "-addext",
                    "subjectAltName=IP:127.0.0.1,DNS:localhost"], check=True, capture_output=True)
    return certificate, key


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.owner.get(self)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.owner.put(self, body)

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server:
    """Gives `files` by their paths, with ranges. A path under /cut/N/ ends each answer after N bytes, /wrong/ gives
    other bytes, /short/ announces fewer, /endless/ never ends, /drip/ gives a byte now and then, /to/NAME leads to where
    `leads` says."""

    def __init__(self, certificate=None):
        self.files, self.leads, self.requests, self.stopping = {}, {}, [], False
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads, self.server.owner = True, self
        self.server.handle_error = lambda *_: None  # whoever hangs up in the middle
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.stopping = True
        self.server.shutdown()
        self.server.server_close()

    def asked(self, start):
        return [request for request in self.requests if request[0].startswith(start)]

    def get(self, request):
        found = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        first = int(found.group(1)) if found else 0
        path = request.path.split("?")[0]
        self.requests.append((path, first))
        if path.startswith("/to/"):
            return request.answer(302, Location=self.leads[path[4:]])
        mode, _, rest = path[1:].partition("/")
        limit = None
        if mode == "cut":
            limit, _, rest = rest.partition("/")
            limit = int(limit)
        body = self.files.get("/" + rest if mode in ("cut", "wrong", "short", "endless", "drip") else path)
        if body is None:
            return request.answer(404)
        if mode == "wrong":
            body = bytes(byte ^ 1 for byte in body)
        if mode == "short":
            return request.answer(200, body[:-1])
        part = body[first:]
        request.send_response(206 if first else 200)
        if first:
            request.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        if mode != "endless":
            request.send_header("Content-Length", str(len(part)))
        request.send_header("Connection", "close")
        request.end_headers()
        request.close_connection = True
        try:
            self.send(request, mode, part, limit)
        except OSError:
            pass  # it did not want more

    def send(self, request, mode, part, limit):
        if mode == "endless":
            while not self.stopping:
                request.wfile.write(part[:PIECE] or b"x")
        elif mode == "drip":
            for at in range(len(part)):
                if self.stopping:
                    return
                request.wfile.write(part[at:at + 1])
                time.sleep(0.05)
        else:
            request.wfile.write(part if limit is None else part[:limit])

    def put(self, request, body):
        self.files[request.path.split("?")[0]] = body
        request.answer(201)


class SignedServer(Server):
    """Takes what is signed for it alone, as AWS Signature Version 4 says, worked out here anew."""

    region = "eu-test-1"

    def get(self, request):
        if self.allows(request, b""):
            super().get(request)

    def put(self, request, body):
        if self.allows(request, body):
            super().put(request, body)

    def allows(self, request, body):
        found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?"
                             r"SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})",
                             request.headers.get("Authorization", ""))
        if not found or found.group(1) != KEY_ID or found.group(3) != self.region:
            request.answer(403)
            return False
        _, day, region, names, signature = found.groups()
        path, _, query = request.path.partition("?")
        content_hash = request.headers["x-amz-content-sha256"]
        headers = "".join(f"{name}:{request.headers[name].strip()}\n" for name in names.split(";"))
        canonical = "\n".join([request.command, path, query, headers, names, content_hash])
        scope = f"{day}/{region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", request.headers["x-amz-date"], scope,
                          hashlib.sha256(canonical.encode()).hexdigest()])
        key = ("AWS4" + SECRET).encode()
        for part in (day, region, "s3", "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        right = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        if signature != right or content_hash != hashlib.sha256(body).hexdigest() or "host" not in names.split(";"):
            request.answer(403)
            return False
        return True


class S3rver:
    """s3rver from npm, with one bucket."""

    def __init__(self, source, directory, bucket):
        self.port = free_ports(1)[0]
        self.url, self.bucket = f"http://127.0.0.1:{self.port}", bucket
        self.process = subprocess.Popen(
            ["node", os.path.join(source, "node_modules", "s3rver", "bin", "s3rver.js"), "-d", directory, "-a", "127.0.0.1",
             "-p", str(self.port), "--silent", "--configure-bucket", bucket],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def close(self):
        self.process.terminate()
        self.process.communicate(timeout=10)
