#!/usr/bin/env python3
"""A client that floods nginx, in a process of its own, so that its share of a core can be limited:

    flood.py HOST PORT KIND ADDRESS…

Keeps CONNECTIONS connections busy until SIGTERM, each from the next of the source addresses; then prints what happened
to them as JSON. KIND: a name in KINDS, or "mixed" for a random one on each connection. ADDRESS=PREFIX is a proxy that
nginx trusts: each connection forwards requests of the next /64 of the IPv6 /48.
"""

import collections
import itertools
import json
import random
import re
import selectors
import signal
import socket
import sys

CONNECTIONS = 100
STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d)")
REFUSAL = b"too many requests from this address"  # in nginx's own 429
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"


def request(method, target, body=b"", **headers):
    lines = [f"{method} {target} HTTP/1.1", "Host: flood", f"User-Agent: {AGENT}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


TRACK = b'{"articleId":"flood","dwellMs":1,"sessionId":"flood"}'
FEED = b'{"action":"refresh","agent_id":"flood","limit":20}'

# {name: bytes that a connection sends at once}
KINDS = {
    "openapi": request("GET", "/openapi.json", Accept_Encoding="gzip") * 8,
    "missing": request("GET", "/no-such-page") * 200,
    "hot": request("GET", "/api/hot?model=engagement") * 200,
    # "mixed" has these as well.
    "missing_page": request("GET", "/no-such-page", Accept="text/html") * 200,
    "missing_route": request("GET", "/api/no-such-route") * 200,
    "method": request("TRACE", "/") * 200,
    "internal_uri": request("GET", "/_freshet_problem") * 200,
    "forbidden": request("PUT", "/api/follows") * 200,
    "malformed": request("GET", "/../..") * 20,
    "too_large": request("POST", "/api/feed", b"x" * 32768),
    "long_uri": request("GET", "/" + "x" * 8150),
    "bodies": request("POST", "/api/track", TRACK + b" " * 4000) * 20,
    "feed": request("POST", "/api/feed", FEED) * 20,
    "uncached": request("GET", "/api/hot?limit=100&tag=none", Origin="http://flood") * 20,
    "recommendations": request("GET", "/api/recommendations?userId=flood") * 20,
    "half_a_header": b"GET /api/hot HTTP/1.1\r\nHost: flood\r\nX-",
    "garbage": b"\x16\x03\x01" + b"\xff" * 4096,
    "nothing": b"",
}


class Sender:
    """One connection. `replies`: number of replies so far."""

    def __init__(self, flood):
        self._flood = flood
        self._open()

    def _open(self):
        kind = self._flood.kind
        address, client = next(self._flood.sources)
        self._payload = KINDS[random.choice(list(KINDS)) if kind == "mixed" else kind]
        if client:
            self._payload = self._payload.replace(b"\r\nHost:", f"\r\nX-Forwarded-For: {client}\r\nHost:".encode())
        self._expected = self._payload.count(b" HTTP/1.1\r\n")
        self._unsent, self._tail, self.replies, self._of_batch, self._refused = memoryview(self._payload), b"", 0, 0, False
        self._socket = socket.socket()
        self._socket.setblocking(False)
        # The next connection must not wait for the port of an earlier one.
        self._socket.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
        self._socket.bind((address, 0))
        self._socket.connect_ex(self._flood.target)
        self._flood.selector.register(self._socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)

    def _close(self):
        self._flood.selector.unregister(self._socket)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # no TIME_WAIT, which would use up the ports
        self._socket.close()
        self._flood.closed(self.replies)

    def on_event(self, events):
        try:
            if events & selectors.EVENT_WRITE:
                self._send()
            if events & selectors.EVENT_READ and not self._receive():
                raise ConnectionResetError
        except BlockingIOError:
            pass
        except OSError:
            self._close()
            self._open()

    def _send(self):
        if self._unsent:
            self._unsent = self._unsent[self._socket.send(self._unsent):]
        if not self._payload:
            raise ConnectionResetError
        if not self._unsent:
            self._flood.selector.modify(self._socket, selectors.EVENT_READ, self)

    def _receive(self):
        """False at the end of the stream."""
        data = self._socket.recv(1 << 18)
        if not data:
            return False
        data = self._tail + data
        for match in STATUS.finditer(data):
            self.replies += 1
            self._of_batch += 1
            self._flood.statuses[int(match[1])] += 1
            self._flood.after_refusal += self._refused or REFUSAL in data[:match.start()]
        self._refused = self._refused or REFUSAL in data
        self._tail = data[-11:]  # a status line may be cut, but must not be seen twice
        if self._of_batch >= self._expected > 0:
            self._of_batch, self._unsent = 0, memoryview(self._payload)
            self._flood.selector.modify(self._socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)
        return True


def sources(addresses):
    """(address, forwarded client or None) of each connection."""
    for number, text in enumerate(itertools.cycle(addresses)):
        address, _, prefix = text.partition("=")
        yield address, f"{prefix}:{number % 65536:x}::1" if prefix else None


class Flood:
    def __init__(self, target, kind, addresses):
        self.target, self.kind, self.sources, self.selector = target, kind, sources(addresses), selectors.EpollSelector()
        self.statuses, self.connections, self.most_replies, self.after_refusal = collections.Counter(), 0, 0, 0

    def closed(self, replies):
        self.connections += 1
        self.most_replies = max(self.most_replies, replies)

    def run(self):
        stopped = []
        signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
        for _ in range(CONNECTIONS):
            Sender(self)
        print("started", flush=True)
        while not stopped:
            for key, events in self.selector.select(0.1):
                key.data.on_event(events)
        for key in self.selector.get_map().values():
            self.closed(key.data.replies)
        print(json.dumps({"statuses": self.statuses, "connections": self.connections, "most_replies": self.most_replies, "after_refusal": self.after_refusal}))


if __name__ == "__main__":
    Flood((sys.argv[1], int(sys.argv[2])), sys.argv[3], sys.argv[4:]).run()
