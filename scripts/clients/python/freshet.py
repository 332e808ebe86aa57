"""Client for Freshet in one file, for Python 3.9 or later; needs only the standard library.

Requests that can be repeated are retried automatically: reads, PUT, DELETE, and events, each of which has its own id.
Threads and forked processes may share a client: each has its own connection.
"""

import functools
import hashlib
import hmac
import http.client
import io
import json
import os
import random
import secrets
import threading
import time
import urllib.parse

MAX_PAUSE_S = 30  # if the service asks for a longer pause, the request fails instead


class FreshetError(Exception):
    """status is 0 if there was no usable response. code and member come from the problem document."""

    def __init__(self, message, status=0, code="unreachable", member=None, retry_after_s=0.0):
        super().__init__(message)
        self.status, self.code, self.member, self.retry_after_s = status, code, member, retry_after_s

    @property
    def temporary(self):
        """True if the same request may succeed later."""
        return self.status in (0, 429) or self.status >= 502


def sign(kid, secret, method, target, body, seconds=None):
    """Returns the Authorization header for the internal server, signed with one of identity.internal_keys."""
    seconds = int(time.time()) if seconds is None else seconds
    message = f"v1\n{method}\n{target}\n{seconds}\n{hashlib.sha256(body).hexdigest()}"
    sig = hmac.new(secret.encode(), message.encode(), hashlib.sha256).hexdigest()
    return f"Freshet-HMAC-SHA256 kid={kid}, ts={seconds}, sig={sig}"


def _segment(value):
    return urllib.parse.quote(str(value), safe="")


def _parse(text):
    """Returns the object or list of a JSON document. None if it is neither."""
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    return answer if isinstance(answer, (dict, list)) else None


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket until the deadline, however slowly the bytes arrive."""

    def __init__(self, sock, raw, deadline):
        self._sock, self._raw, self._deadline = sock, raw, deadline

    def readable(self):
        return True

    def readinto(self, buffer):
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self):
        self._raw.close()
        super().close()


def _response(deadline, sock, *args, **options):
    response = http.client.HTTPResponse(sock, *args, **options)
    response.fp = io.BufferedReader(_DeadlineReader(sock, response.fp.detach(), deadline))
    return response


class Freshet:
    """key is (kid, secret) for an internal server that requires signatures."""

    def __init__(self, base="http://127.0.0.1:8080", key=None, headers=None, attempts=4, timeout_s=4.0, first_pause_s=0.25):
        self._address = urllib.parse.urlsplit(base)
        self._prefix = self._address.path.rstrip("/")
        self._local = threading.local()
        self.key, self.headers = key, dict(headers or {})
        self.attempts, self.timeout_s, self.first_pause_s = attempts, timeout_s, first_pause_s

    # Events

    def track(self, article, **report):
        return self._post_event("/api/track", {"articleId": article, **report})

    def view(self, article, fingerprint, **report):
        return self._post_event("/api/views", {"articleId": article, "fingerprint": fingerprint, **report})

    def look(self, user, topic, kind="topic"):
        return self._post_event("/api/history", {"userId": user, "topicId": topic, "kind": kind})

    def dismiss(self, user, topic, **more):
        return self.request("POST", "/api/feedback", {"userId": user, "topicId": topic, "kind": "not_interested", **more}, repeatable=True)

    def undismiss(self, user, topic):
        return self.request("DELETE", "/api/feedback", query={"userId": user, "topicId": topic})

    # Lists

    def hot(self, **query):
        return self.request("GET", "/api/hot", query=query)

    def recommendations(self, user, **query):
        return self.request("GET", "/api/recommendations", query={"userId": user, **query})

    def similar(self, item, **query):
        return self.request("GET", f"/api/items/{_segment(item)}/similar", query=query)

    def history(self, user, **query):
        return self.request("GET", "/api/history", query={"userId": user, **query})

    def feed(self, user, action="refresh", page=None, **more):
        """Returns the response's data. Pass its `page` to the next call ("load_more" or "refresh")."""
        body = {"action": action, "userId": user, **more}
        body.update({"page": page} if page else {"eventId": secrets.token_hex(16)})
        return self.request("POST", "/api/feed", body, repeatable=True)["data"]

    def timeline(self, channel, user, direction="first", score=0, **query):
        """Keep `drop` of the newest page and `up` of the oldest: they are the scores of the next "down" and "up"."""
        query = {"userId": user, "direction": direction, "score": score, **query}
        return self.request("GET", f"/api/waterfall/{_segment(channel)}", query=query)

    # Internal server

    def stats(self, article):
        return self.request("GET", f"/api/articles/{_segment(article)}/stats")

    def get_item(self, item):
        return self.request("GET", f"/api/items/{_segment(item)}")

    def put_item(self, item, **members):
        return self.request("PUT", f"/api/items/{_segment(item)}", members)

    def delete_item(self, item):
        return self.request("DELETE", f"/api/items/{_segment(item)}")

    def put_items(self, items):
        return self._post_lines("/api/items", items)

    def interact(self, events):
        return self._post_lines("/api/interactions", [{"eventId": secrets.token_hex(16), **event} for event in events])

    def push(self, channel, items, customers):
        return self._post_event(f"/api/waterfall/{_segment(channel)}", {"items": items, "customers": customers})

    def publish(self, channel, items, author):
        return self._post_event(f"/api/waterfall/{_segment(channel)}", {"items": items, "followersOf": author})

    def follow(self, user, author):
        return self.request("PUT", "/api/follows", {"userId": user, "author": author})

    def unfollow(self, user, author):
        return self.request("DELETE", "/api/follows", query={"userId": user, "author": author})

    # Requests

    def request(self, method, path, body=None, query=None, repeatable=None, content_type="application/json"):
        """`body` is an object sent as JSON, or bytes of `content_type`. A repeatable request is retried after temporary errors."""
        repeatable = method != "POST" if repeatable is None else repeatable
        query = {name: value for name, value in (query or {}).items() if value is not None}
        target = self._prefix + path + ("?" + urllib.parse.urlencode(query) if query else "")
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        for attempt in range(1, self.attempts + 1):
            try:
                return self._send(method, target, data, content_type)
            except FreshetError as error:
                if not error.temporary or not repeatable or attempt >= self.attempts or error.retry_after_s > MAX_PAUSE_S:
                    raise
                time.sleep(max(error.retry_after_s, self.first_pause_s * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)))

    def _connection(self):
        """Returns the connection of this thread of this process."""
        if getattr(self._local, "pid", None) != os.getpid():
            connect = http.client.HTTPSConnection if self._address.scheme == "https" else http.client.HTTPConnection
            self._local.connection = connect(self._address.hostname, self._address.port, timeout=self.timeout_s)
            self._local.pid = os.getpid()
        return self._local.connection

    def _send(self, method, target, data, content_type):
        headers = dict(self.headers)
        if data:
            headers["Content-Type"] = content_type
        if self.key:
            headers["Authorization"] = sign(*self.key, method, target, data)
        connection = self._connection()
        connection.response_class = functools.partial(_response, time.monotonic() + self.timeout_s)
        try:
            if connection.sock:
                connection.sock.settimeout(self.timeout_s)
            connection.request(method, target, data or None, headers)
            reply = connection.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise FreshetError(f"the service is unreachable: {error}") from error
        answer = _parse(text)
        if 200 <= reply.status < 300:
            if answer is None and reply.status != 204:
                raise FreshetError("the service is unreachable: the response is not JSON")
            return answer
        problem = answer if isinstance(answer, dict) else {}
        pause = reply.headers.get("Retry-After", "")
        raise FreshetError(problem.get("msg", f"the service returned HTTP {reply.status}"), reply.status, problem.get("code", "error"),
                           problem.get("member"), float(pause) if pause.isdecimal() else 0.0)

    def _post_event(self, path, body):
        return self.request("POST", path, {"eventId": secrets.token_hex(16), **body}, repeatable=True)

    def _post_lines(self, path, objects):
        data = "\n".join(json.dumps(each) for each in objects).encode()
        return self.request("POST", path, data, repeatable=True, content_type="application/x-ndjson")
