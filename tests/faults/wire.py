"""An asyncio HTTP/1.1 client with keep-alive: thousands of requests per second, and no automatic retries."""

import asyncio

import httptools

AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"


class NoReply(Exception):
    """There was no reply, an incomplete one, or more than one."""


class Reply:
    """headers: {lower-case name: value}, both bytes. Only the last of repeated headers is kept."""
    __slots__ = ("status", "headers", "body")

    def __init__(self, status=0, headers=None, body=b""):
        self.status, self.headers, self.body = status, headers or {}, body

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


def request(method, target, body=b"", media="application/json"):
    """The bytes of a request. target: percent-encoded."""
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {AGENT}\r\n"
    if body or method in ("POST", "PUT"):
        head += f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Connection(asyncio.Protocol):
    """Sends one request at a time, and connects when necessary. Bytes outside of a reply raise NoReply, too."""

    def __init__(self, host, port, timeout_s=20.0, source=None):
        self._address, self._timeout_s = (host, port), timeout_s
        self._source = (source, 0) if source else None
        self._transport = self._waiting = self._parser = self._reply = None

    async def exchange(self, data):
        """Sends a request and returns its reply. After NoReply the outcome is unknown."""
        loop = asyncio.get_running_loop()
        if self._transport is None or self._transport.is_closing():
            try:
                await loop.create_connection(lambda: self, *self._address, local_addr=self._source)
            except OSError as error:
                raise NoReply(f"not connected: {error}") from None
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

    def _fail(self, reason):
        if self._transport is not None:
            self._transport.abort()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(NoReply(reason))

    # --- asyncio.Protocol

    def connection_made(self, transport):
        self._transport, self._reply = transport, None
        self._parser = httptools.HttpResponseParser(self)

    def connection_lost(self, exc):
        self._fail(f"the connection ended{f': {exc}' if exc else ''}")
        self._transport = None

    def data_received(self, data):
        if self._waiting is None or self._waiting.done():
            return self._fail("unexpected bytes")
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            return self._fail(f"malformed or more than one reply: {error}")
        if self._reply is not None and self._reply.status:
            if not self._parser.should_keep_alive():
                self._transport.close()
            self._waiting.set_result(self._reply)
            self._reply = None
        return None

    # --- httptools.HttpResponseParser

    def on_message_begin(self):
        if self._reply is not None:
            raise NoReply("a second reply")
        self._reply = Reply()

    def on_header(self, name, value):
        self._reply.headers[name.lower()] = value

    def on_body(self, body):
        self._reply.body += body

    def on_message_complete(self):
        self._reply.status = self._parser.get_status_code()
