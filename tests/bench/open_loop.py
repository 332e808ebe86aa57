"""Sends requests at random times (Poisson) at a given mean rate, whether or not earlier ones have been answered. Measures
from the time at which each request was due, so that a slow response also delays those behind it (wrk has a closed loop).
"""

import collections
import random
import re
import selectors
import socket
import time

MAX_CONNECTIONS = 256
DRAIN_LIMIT_S = 10
CONTENT_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


def run(address, requests, rate, seconds):
    """Sends requests from the iterator. Returns latencies in µs, ascending, and a list of problems."""
    loop = _Loop(address)
    try:
        rng, began = random.Random(20260306), time.monotonic()
        due = began + rng.expovariate(rate)
        while due < began + seconds:
            loop.serve_until(due)
            loop.send(due, next(requests))
            due += rng.expovariate(rate)
        loop.drain(time.monotonic() + DRAIN_LIMIT_S)
    finally:
        loop.close()
    problems = [f"{count} responses {status}" for status, count in loop.statuses.items() if status != 200]
    if loop.unanswered():
        problems.append(f"{loop.unanswered()} requests were not answered")
    return sorted(loop.latencies_us), problems


class _Loop:
    def __init__(self, address):
        self.latencies_us, self.statuses = [], collections.Counter()
        self._address = address
        self._selector = selectors.DefaultSelector()
        self._idle, self._waiting, self._busy = [], collections.deque(), {}  # _busy: socket → (due, bytes received)

    def send(self, due, request):
        self._waiting.append((due, request))
        self._assign()

    def unanswered(self):
        return len(self._waiting) + len(self._busy)

    def serve_until(self, moment):
        while (left := moment - time.monotonic()) > 0:
            self._serve(left)

    def drain(self, limit):
        while self.unanswered() and time.monotonic() < limit:
            self._serve(0.1)

    def close(self):
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()

    def _assign(self):
        while self._waiting and (self._idle or len(self._busy) < MAX_CONNECTIONS):
            connection = self._idle.pop() if self._idle else self._connect()
            due, request = self._waiting.popleft()
            self._busy[connection] = due, b""
            connection.sendall(request)

    def _connect(self):
        connection = socket.create_connection(self._address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(connection, selectors.EVENT_READ)
        return connection

    def _serve(self, timeout_s):
        for key, _ in self._selector.select(timeout_s):
            self._receive(key.fileobj)
        self._assign()

    def _receive(self, connection):
        data = connection.recv(1 << 16)
        if not data:
            self._selector.unregister(connection)
            connection.close()
            if connection in self._busy:
                del self._busy[connection]
                self.statuses["interrupted"] += 1
            else:
                self._idle.remove(connection)
            return
        due, received = self._busy[connection]
        received += data
        head, found, body = received.partition(b"\r\n\r\n")
        length = CONTENT_LENGTH.search(head)
        if not found or (length and len(body) < int(length.group(1))):
            self._busy[connection] = due, received
            return
        del self._busy[connection]
        self._idle.append(connection)
        self.statuses[int(head.split(b" ", 2)[1])] += 1
        self.latencies_us.append((time.monotonic() - due) * 1e6)
