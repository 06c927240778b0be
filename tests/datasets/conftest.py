"""A small web server on loopback that misbehaves on request."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@dataclass
class Site:
    """Files by path, how the next requests are to go wrong, and what was asked for."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cut_after: list[int] = field(default_factory=list)  # one entry per request that ends early
    failing: set[str] = field(default_factory=set)
    knows_ranges: bool = True
    ranges_asked: list[str | None] = field(default_factory=list)

    def url(self, path: str) -> str:
        return f"{self.address}/{path}"


def handler_of(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.lstrip("/")
            asked = self.headers.get("Range")
            site.ranges_asked.append(asked)
            if path in site.failing or path not in site.files:
                self.send_error(503 if path in site.failing else 404)
                return
            whole = site.files[path]
            begin = int(re.findall(r"\d+", asked)[0]) if asked and site.knows_ranges else 0
            if begin >= len(whole) and begin:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(whole)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = whole[begin:]
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if site.cut_after:
                body = body[: site.cut_after.pop(0)]
                self.close_connection = True
            self.wfile.write(body)

        def log_message(self, *told: object) -> None:
            pass

    return Handler


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(site))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    site.address = f"http://127.0.0.1:{server.server_address[1]}"
    yield site
    server.shutdown()
    server.server_close()
    thread.join(timeout=5)
