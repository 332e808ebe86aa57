"""HTTP/1.1 on kept connections for one asyncio loop: some thousands of requests a second, and nothing repeated behind one's back."""

import asyncio
import re

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
CLOSES = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"


class Lost(Exception):
    """No reply, or the beginning of one."""


class Reply:
    __slots__ = ("status", "head", "body")

    def __init__(self, status, head, body):
        self.status, self.head, self.body = status, head, body

    def has(self, header):
        """Whether there is such a header; `header` in lower case, as bytes."""
        return b"\r\n" + header + b":" in self.head.lower()

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


def request(method, target, body=b"", media="application/json"):
    """The bytes of a request. target: encoded."""
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {AGENT}\r\n"
    if body or method in ("POST", "PUT"):
        head += f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Connection(asyncio.Protocol):
    """One request at a time; connects when it must."""

    def __init__(self, host, port, timeout_s=20.0, source=None):
        self._address, self._timeout_s = (host, port), timeout_s
        self._source = (source, 0) if source else None
        self._transport = self._waiting = None
        self._got = bytearray()

    async def ask(self, data):
        """Sends a request and returns its reply. Raises Lost; then the outcome is unknown."""
        loop = asyncio.get_running_loop()
        if self._transport is None or self._transport.is_closing():
            try:
                await loop.create_connection(lambda: self, *self._address, local_addr=self._source)
            except OSError as error:
                raise Lost(f"not connected: {error}") from None
        self._waiting = loop.create_future()
        timer = loop.call_later(self._timeout_s, self._fail, "no reply in time")
        self._transport.write(data)
        try:
            return await self._waiting
        finally:
            timer.cancel()
            self._waiting = None

    def close(self):
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, why):
        if self._transport is not None:
            self._transport.abort()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(Lost(why))

    # --- asyncio.Protocol

    def connection_made(self, transport):
        self._transport = transport
        self._got.clear()

    def connection_lost(self, exc):
        self._fail(f"the connection ended{f': {exc}' if exc else ''}")
        self._transport = None

    def data_received(self, data):
        self._got += data
        if self._waiting is None or self._waiting.done():
            return self._fail("bytes that nobody asked for")
        end = self._got.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = bytes(self._got[:end])
        try:
            body = _body(head, self._got, end + 4)
        except (Lost, ValueError) as error:
            return self._fail(str(error))
        if body is None:
            return None
        self._got.clear()
        if CLOSES.search(head):
            self._transport.close()
        self._waiting.set_result(Reply(int(head[9:12]), head, body))
        return None


def _body(head, got, at):
    """The whole body, or None when some of it is still to come. Bytes behind it are a Lost."""
    if length := LENGTH.search(head):
        size = int(length[1])
        if len(got) - at > size:
            raise Lost("more bytes than the reply has")
        return bytes(got[at:]) if len(got) - at == size else None
    if not CHUNKED.search(head):
        if head[9:12] in (b"204", b"304"):
            return b""
        raise Lost("a reply whose end nobody knows")
    out = b""
    while True:
        line = got.find(b"\r\n", at)
        if line < 0:
            return None
        size = int(got[at:line], 16)
        at = line + 2 + size + 2
        if len(got) < at:
            return None
        if size == 0:
            return out
        out += got[line + 2:at - 2]
