"""An object store of tests: moto's S3 in a process of its own on loopback, and a proxy that makes it fail."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.ports import free_port

# How a client finds the store and its credentials: as S3's own tools do.
_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
}


@contextmanager
def object_server() -> Iterator[int]:
    """The port of an S3 server that ends with the block."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, "the S3 server ended"
                assert time.monotonic() < deadline, "the S3 server does not answer"
                time.sleep(0.1)
        yield port
    finally:
        server.kill()
        server.wait(10)


def make_bucket(port: int, name: str | None = None) -> str:
    """URL of a new bucket, with a name of its own by default."""
    name = name or f"bucket-{uuid.uuid4().hex[:8]}"
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}", method="PUT")
    urllib.request.urlopen(request, timeout=10).close()
    return f"s3://{name}"


@contextmanager
def environment_of(port: int) -> Iterator[None]:
    """Variables of this process, and of those that it starts, through which the server is found."""
    wanted = {**_ENVIRONMENT, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


@contextmanager
def failing_proxy(port: int, failure: Callable[[str, str], int | None]) -> Iterator[int]:
    """Port of a proxy before a server: ``failure(method, path)`` gives the status it answers with, 0 hangs up."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def relay(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status = failure(self.command, self.path)
            if status == 0:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if status is not None:
                self.answer(status, [], b"<Error><Code>SlowDown</Code></Error>")
                return
            upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            upstream.request(self.command, self.path, body, dict(self.headers))
            found = upstream.getresponse()
            self.answer(found.status, found.getheaders(), found.read())
            upstream.close()

        def answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response(status)
            length = str(len(content))
            for name, value in headers:
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = value
                elif name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relay

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join(10)
