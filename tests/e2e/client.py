"""An HTTP client that sends requests one after another over a persistent connection, as a browser does."""

import http.client
import json
import threading
import time
from urllib.parse import quote, urlencode

AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"
CRAWLER = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"


def _parse_headers(stream, _class=http.client.HTTPMessage):
    """Replaces http.client's function, whose parser for e-mail takes half the time of a request."""
    message = _class()
    for line in iter(stream.readline, b"\r\n"):
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not line.endswith(b"\r\n"):
            raise http.client.HTTPException(f"malformed header: {line!r}")
        message._headers.append((name, value.strip()))
    return message


http.client.parse_headers = _parse_headers


def quote_segment(text):
    """Percent-encodes text as one path segment."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return quote(raw, safe="")


class Reply:
    def __init__(self, response, body, seconds):
        self.status, self.headers, self.body, self.seconds = response.status, response.headers, body, seconds

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class Connection(http.client.HTTPConnection):
    """Sends a request's headers and its body together, as browsers do."""

    def _send_output(self, message_body=None, encode_chunked=False):
        if not isinstance(message_body, bytes) or encode_chunked:
            return super()._send_output(message_body, encode_chunked)
        message = b"\r\n".join([*self._buffer, b"", message_body])
        self._buffer.clear()
        return self.send(message)


class Client:
    def __init__(self, host, port, agent=AGENT, timeout=80, source=None):
        self._connection = Connection(host, port, timeout=timeout, source_address=source and (source, 0))
        self._agent = agent

    def request(self, method, path, body=None, headers=None, query=None):
        """Sends a body that is neither bytes nor text as JSON. Never retries."""
        send = {"Content-Type": "application/json"} if body is not None else {}
        if self._agent is not None:
            send["User-Agent"] = self._agent
        send.update(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode("utf-8", "surrogatepass")
        if query:
            path += "?" + urlencode(query)
        began = time.monotonic()
        try:
            self._connection.request(method, path, body, send)
            response = self._connection.getresponse()
            names = [name.lower() for name in response.headers]
            repeated = {name for name in names if names.count(name) > 1} - {"set-cookie", "vary"}
            assert not repeated, f"{method} {path}: {repeated}"  # browsers reject some of these
            return Reply(response, response.read(), time.monotonic() - began)
        except BaseException:
            self._connection.close()
            raise

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def put(self, path, body, **more):
        return self.request("PUT", path, body, **more)

    def delete(self, path, **more):
        return self.request("DELETE", path, **more)

    def track(self, article, dwell_ms=0, **members):
        return self.post("/api/track", {"articleId": article, "dwellMs": dwell_ms} | members)

    def view(self, article, fingerprint, published_at=None, **members):
        return self.post("/api/views", {"articleId": article, "fingerprint": fingerprint,
                                        "publishedAt": int(time.time()) if published_at is None else published_at} | members)


def assert_problem(reply, status, code=None, member=None):
    """Checks an RFC 9457 problem document with our two extra members. `member` is the name its detail must mention."""
    assert reply.status == status, reply
    assert reply.headers["Content-Type"] == "application/problem+json", reply
    problem = reply.json()
    assert {"type", "title", "status", "detail", "code", "msg"} <= set(problem), reply
    assert problem["status"] == status and isinstance(problem["title"], str) and problem["msg"], reply
    assert code is None or problem["code"] == code, reply
    assert member is None or member in problem["detail"] or problem.get("member") == member, reply
    return problem


class Load:
    """Threads that call `work(client, turn)` until the block ends; `turn` numbers the calls. Return values are
    collected in `results`, exceptions in `errors`. A thread pauses after each call, so that the load does not take a core
    from the tests that run at the same time.
    """

    def __init__(self, make_client, work, threads=4, pause_s=0.01):
        self.results, self.errors = [], []
        self._work, self._pause_s, self._stop = work, pause_s, threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(make_client, number)) for number in range(threads)]

    def _run(self, make_client, number):
        client, turn = make_client(), number
        while True:
            try:
                self.results.append(self._work(client, turn))
            except Exception as error:  # each is a lost request; the test decides how many are acceptable
                self.errors.append(repr(error))
            turn += len(self._threads)
            if self._stop.wait(self._pause_s):
                return

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(90)
            if thread.is_alive():
                self.errors.append("a thread is still waiting for a reply")


class BaselineLoad(Load):
    """A load of requests that nginx answers without a worker. Its slowest response is the delay that the busy machine
    and this process add to every other request.
    """

    def __init__(self, make_client):
        super().__init__(make_client, lambda client, _: client.get("/openapi.json").seconds, threads=1, pause_s=0.002)

    def slowest_s(self):
        return max(self.results, default=0.0)
