"""Client for Freshet in one file, for Python 3.9 or later; needs only the standard library. A client is not thread-safe.

Requests that can be repeated are retried automatically: reads, PUT, DELETE, and events, each of which has its own id.
"""

import hashlib
import hmac
import http.client
import json
import random
import secrets
import time
import urllib.parse


class FreshetError(Exception):
    """status is 0 if there was no response. code and member come from the problem document."""

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


class Freshet:
    """key is (kid, secret) for an internal server that requires signatures."""

    def __init__(self, base="http://127.0.0.1:8080", key=None, headers=None, attempts=4, timeout_s=4.0, first_pause_s=0.25):
        address = urllib.parse.urlsplit(base)
        connection = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        self._connection = connection(address.hostname, address.port, timeout=timeout_s)
        self._prefix = address.path.rstrip("/")
        self.key, self.headers = key, dict(headers or {})
        self.attempts, self.first_pause_s = attempts, first_pause_s

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
                if not error.temporary or not repeatable or attempt == self.attempts:
                    raise
                time.sleep(max(error.retry_after_s, self.first_pause_s * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)))

    def _send(self, method, target, data, content_type):
        headers = dict(self.headers)
        if data:
            headers["Content-Type"] = content_type
        if self.key:
            headers["Authorization"] = sign(*self.key, method, target, data)
        try:
            self._connection.request(method, target, data or None, headers)
            reply = self._connection.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise FreshetError(f"the service is unreachable: {error}") from error
        answer = None
        if "json" in reply.headers.get("Content-Type", ""):
            try:
                answer = json.loads(text)
            except ValueError:
                pass
        if 200 <= reply.status < 300:
            return answer
        problem = answer if isinstance(answer, dict) else {}
        try:
            retry_after_s = float(reply.headers.get("Retry-After", 0))
        except ValueError:
            retry_after_s = 0.0
        raise FreshetError(problem.get("msg", f"the service returned HTTP {reply.status}"), reply.status, problem.get("code", "error"),
                           problem.get("member"), retry_after_s)

    def _post_event(self, path, body):
        return self.request("POST", path, {"eventId": secrets.token_hex(16), **body}, repeatable=True)

    def _post_lines(self, path, objects):
        data = "\n".join(json.dumps(each) for each in objects).encode()
        return self.request("POST", path, data, repeatable=True, content_type="application/x-ndjson")
