"""HTTP/1.1 on kept connections for one asyncio loop: some thousands of requests a second, and nothing repeated behind one's back."""

import asyncio

import httptools

AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"


class Lost(Exception):
    """No reply, or the beginning of one, or more than one."""


class Reply:
    """headers: names in lower case → values, both bytes; the last of several."""
    __slots__ = ("status", "headers", "body")

    def __init__(self, status=0, headers=None, body=b""):
        self.status, self.headers, self.body = status, headers or {}, body

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


def request(method, target, body=b"", media="application/json"):
    """The bytes of a request. target: encoded."""
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {AGENT}\r\n"
    if body or method in ("POST", "PUT"):
        head += f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Connection(asyncio.Protocol):
    """One request at a time; connects when it must. Bytes that belong to no reply are a Lost, too."""

    def __init__(self, host, port, timeout_s=20.0, source=None):
        self._address, self._timeout_s = (host, port), timeout_s
        self._source = (source, 0) if source else None
        self._transport = self._waiting = self._parser = self._reply = None

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
        self._transport, self._reply = transport, None
        self._parser = httptools.HttpResponseParser(self)

    def connection_lost(self, exc):
        self._fail(f"the connection ended{f': {exc}' if exc else ''}")
        self._transport = None

    def data_received(self, data):
        if self._waiting is None or self._waiting.done():
            return self._fail("bytes that nobody asked for")
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            return self._fail(f"no reply, or more than one: {error}")
        if self._reply is not None and self._reply.status:
            if not self._parser.should_keep_alive():
                self._transport.close()
            self._waiting.set_result(self._reply)
            self._reply = None
        return None

    # --- httptools.HttpResponseParser

    def on_message_begin(self):
        if self._reply is not None:
            raise Lost("a second reply")
        self._reply = Reply()

    def on_header(self, name, value):
        self._reply.headers[name.lower()] = value

    def on_body(self, body):
        self._reply.body += body

    def on_message_complete(self):
        self._reply.status = self._parser.get_status_code()
