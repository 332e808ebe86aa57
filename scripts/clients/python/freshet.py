"""Client for Freshet in one file, for Python 3.9 or later; needs only the standard library.

Arguments are named like the members in API.md, in snake_case; None and "" stand for absent. The preset decides what happens
when Freshet is slow or down:

- "background" repeats requests that can be repeated up to four times, and raises FreshetError: reads, PUT, DELETE, and
  events, each of which has its own id.
- "page" is for code that renders a page. It tries once, for at most 300 ms, and raises no service errors: a call that fails returns
  {"items": [], "unavailable": True, "error": FreshetError}. If there was no response, calls fail at once for a second, so
  that a page with many lists waits only once. Looking up the name of the host takes extra time; an address does not.

Threads and forked processes may share a client: each has its own connection.
"""

import hashlib
import hmac
import http.client
import io
import json
import os
import random
import secrets
import socket
import threading
import time
import urllib.parse

PRESETS = {
    "page": {"attempts": 1, "timeout_s": 0.3, "cooldown_s": 1.0},
    "background": {"attempts": 4, "timeout_s": 4.0, "cooldown_s": 0.0},
}
MAX_PAUSE_S = 30  # if the service asks for a longer pause, the request fails instead
MAX_REMEMBERED = 100  # responses


class FreshetError(Exception):
    """status is 0 if there was no usable response. code and member come from the problem document."""

    def __init__(self, message, status=0, code="unreachable", member=None, retry_after_s=0.0):
        super().__init__(message)
        self.status, self.code, self.member, self.retry_after_s = status, code, member, retry_after_s

    @property
    def temporary(self):
        """True if the same request may succeed later."""
        return self.status in (0, 429) or self.status >= 502


def _hmac(secret, message):
    return hmac.new(secret.encode(), message.encode(), hashlib.sha256).hexdigest()


def sign(kid, secret, method, target, body, seconds=None):
    """Returns the Authorization header for the internal server, signed with one of identity.internal_keys."""
    seconds = int(time.time()) if seconds is None else seconds
    sig = _hmac(secret, f"v1\n{method}\n{target}\n{seconds}\n{hashlib.sha256(body).hexdigest()}")
    return f"Freshet-HMAC-SHA256 kid={kid}, ts={seconds}, sig={sig}"


def token(kid, secret, user_id, expires=None):
    """Returns the token of a reader for identity.mode = "token", made with one of identity.token_keys. `expires` is in unix
    seconds; the default is in an hour."""
    expires = time.time() + 3600 if expires is None else expires
    message = f"v1.{kid}.{_segment(user_id)}.{int(expires)}"
    return f"{message}.{_hmac(secret, message)}"


def _text(value):
    """Returns the text of an id or parameter, with U+FFFD for half a surrogate pair, as the service reads it in a body."""
    return str(value).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _segment(value):
    if value is None or value == "":
        raise ValueError("an id must not be empty")
    return urllib.parse.quote(_text(value), safe="")


def _present(members):
    return {name: value for name, value in members.items() if value is not None and value != ""}


def _parse(text):
    """Returns the object or list of a JSON document, a list as {"items": list}. None if it is neither."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(answer, list):
        return {"items": answer}
    return answer if isinstance(answer, dict) else None


def _is_id(value):
    return isinstance(value, (str, int))


def _is_item(value):
    return isinstance(value, dict) and _is_id(value.get("id"))


def _list_of(answer, is_element):
    """Returns the answer if its items are a list of such elements, otherwise None."""
    items = answer.get("items") if isinstance(answer, dict) else None
    return answer if isinstance(items, list) and all(map(is_element, items)) else None


def _parse_ids(text):
    return _list_of(_parse(text), _is_id)


def _parse_items(text):
    return _list_of(_parse(text), _is_item)


def _parse_feed(text):
    """Returns the `data` of a feed's response: a page, or only the number of `new` items."""
    data = (_parse(text) or {}).get("data")
    if isinstance(data, dict) and "items" not in data and isinstance(data.get("new"), int):
        return data
    return _list_of(data, _is_item)


def _parse_health(text):
    """Parses "ready", "writes:true" and, if something is missing, "missing:index,model", on a line each."""
    lines = text.decode(errors="replace").splitlines()
    if lines[:1] != ["ready"]:
        return None
    values = dict(line.split(":", 1) for line in lines if ":" in line)
    return {"ready": True, "writes": values.get("writes") == "true", "missing": values["missing"].split(",") if "missing" in values else []}


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket until the deadline, however slowly the bytes arrive."""

    def __init__(self, sock, raw, left):
        self._sock, self._raw, self._left = sock, raw, left

    def readable(self):
        return True

    def readinto(self, buffer):
        self._sock.settimeout(self._left())
        return self._raw.readinto(buffer)

    def close(self):
        self._raw.close()
        super().close()


class _Deadline:
    """Ends everything that a connection of http.client does at `deadline`."""

    deadline = 0.0

    def __init__(self, *address):
        super().__init__(*address)
        self._create_connection = self._connect

    def _left(self):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def _connect(self, address, *_):
        """As socket.create_connection(), but the host's addresses share the time."""
        problem = None
        for found in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            try:
                sock = socket.create_connection(found[4][:2], self._left())
                sock.settimeout(self._left())
                return sock
            except OSError as error:
                problem = error
        raise problem

    def send(self, data):
        if self.sock is None:
            self.connect()
        self.sock.settimeout(self._left())
        super().send(data)

    def response_class(self, sock, *args, **options):
        response = http.client.HTTPResponse(sock, *args, **options)
        response.fp = io.BufferedReader(_DeadlineReader(sock, response.fp.detach(), self._left))
        return response


class _Connection(_Deadline, http.client.HTTPConnection):
    pass


class _TlsConnection(_Deadline, http.client.HTTPSConnection):
    pass


class Freshet:
    """key is (kid, secret) for an internal server that requires signatures. attempts, timeout_s and cooldown_s replace those of
    the preset."""

    def __init__(self, base="http://127.0.0.1:8080", key=None, headers=None, preset="background", attempts=None, timeout_s=None,
                 cooldown_s=None, first_pause_s=0.25):
        if preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)}")
        self._address = urllib.parse.urlsplit(base)
        if self._address.scheme not in ("http", "https") or not self._address.hostname:
            raise ValueError(f'base must be an address such as "http://127.0.0.1:8081", not {base!r}')
        self._port = self._address.port  # or ValueError
        self._prefix = self._address.path.rstrip("/")
        self._local = threading.local()
        self._page, self._silent_until = preset == "page", 0.0
        self._remembered = {}  # target: (ETag, text)
        self.key, self.headers, self.first_pause_s = key, dict(headers or {}), first_pause_s
        given = {"attempts": attempts, "timeout_s": timeout_s, "cooldown_s": cooldown_s}
        vars(self).update(PRESETS[preset] | _present(given))

    # Events

    def track(self, article_id, *, user_id=None, session_id=None, fingerprint=None, dwell_ms=0, published_at=None, event_id=None):
        return self._post_event("/api/track", {
            "articleId": article_id, "userId": user_id, "sessionId": session_id, "fingerprint": fingerprint, "dwellMs": round(dwell_ms or 0),
            "publishedAt": published_at, "eventId": event_id})

    def view(self, article_id, fingerprint, *, published_at=None, event_id=None):
        return self._post_event("/api/views", {
            "articleId": article_id, "fingerprint": fingerprint, "publishedAt": published_at, "eventId": event_id})

    def look(self, user_id, topic_id, kind="topic", *, event_id=None):
        return self._post_event("/api/history", {"userId": user_id, "topicId": topic_id, "kind": kind, "eventId": event_id})

    def dismiss(self, user_id, topic_id, *, reason=None):
        body = {"userId": user_id, "topicId": topic_id, "kind": "not_interested", "reason": reason}
        return self.request("POST", "/api/feedback", _present(body), repeatable=True)

    def undismiss(self, user_id, topic_id):
        return self.request("DELETE", "/api/feedback", query={"userId": user_id, "topicId": topic_id})

    # Lists: {"items": [...], ...}, with "degraded" if they are incomplete

    def hot(self, *, model=None, limit=None, mode=None, window=None, tag=None, at=None):
        query = {"model": model, "limit": limit, "mode": mode, "window": window, "tag": tag, "at": at}
        return self.request("GET", "/api/hot", query=query, parse=_parse_items)

    def recommendations(self, user_id, *, limit=None, exclude=None):
        return self.request("GET", "/api/recommendations", query={"userId": user_id, "limit": limit, "exclude": exclude}, parse=_parse_items)

    def similar(self, item_id, *, user_id=None, limit=None):
        return self.request("GET", f"/api/items/{_segment(item_id)}/similar", query={"userId": user_id, "limit": limit}, parse=_parse_items)

    def history(self, user_id, *, kind=None):
        return self.request("GET", "/api/history", query={"userId": user_id, "kind": kind}, parse=_parse_ids)

    def clear_history(self, user_id, *, kind=None):
        return self.request("DELETE", "/api/history", query={"userId": user_id, "kind": kind})

    def remove_from_history(self, user_id, topic_id, *, kind=None):
        if topic_id is None or topic_id == "":
            raise ValueError("an id must not be empty")
        return self.request("DELETE", "/api/history", query={"userId": user_id, "topicId": topic_id, "kind": kind})

    def feed(self, user_id, action="refresh", page=None, *, limit=None, query=None):
        """Returns the response's data. Pass its `page` to the next call ("load_more" or "refresh")."""
        body = _present({"action": action, "userId": user_id, "page": page, "limit": limit, "query": query})
        if "page" not in body:
            body["eventId"] = secrets.token_hex(16)
        return self.request("POST", "/api/feed", body, repeatable=True, parse=_parse_feed)

    def timeline(self, channel, user_id, direction="first", score=0, *, limit=None):
        """Keep `drop` of the newest page and `up` of the oldest: they are the scores of the next "down" and "up"."""
        query = {"userId": user_id, "direction": direction, "score": score, "limit": limit}
        return self.request("GET", f"/api/waterfall/{_segment(channel)}", query=query, parse=_parse_items)

    def follows(self, user_id):
        return self.request("GET", "/api/follows", query={"userId": user_id}, parse=_parse_ids)

    # Internal server: items, events and timelines

    def stats(self, article_id):
        return self.request("GET", f"/api/articles/{_segment(article_id)}/stats")

    def stats_of(self, article_ids):
        """Returns the statistics of up to 100 articles by id."""
        ids = [str(each) for each in article_ids]
        return self.request("GET", "/api/stats", query={"id": ids} if any("," in each for each in ids) else {"ids": ",".join(ids)})

    def preview(self, settings):
        """Returns the hot list under other settings, such as {"model": "engagement", "hot.half_life": "6h"}."""
        return self.request("GET", "/api/hot/preview", query=settings)

    def get_item(self, item_id):
        return self.request("GET", f"/api/items/{_segment(item_id)}")

    def put_item(self, item_id, **members):
        return self.request("PUT", f"/api/items/{_segment(item_id)}", members)

    def delete_item(self, item_id):
        return self.request("DELETE", f"/api/items/{_segment(item_id)}")

    def put_items(self, items):
        return self._post_lines("/api/items", items)

    def interact(self, events):
        return self._post_lines("/api/interactions", [{"eventId": secrets.token_hex(16), **event} for event in events])

    def push(self, channel, items, customers):
        return self._post_event(f"/api/waterfall/{_segment(channel)}", {"items": items, "customers": customers})

    def publish(self, channel, items, author):
        return self._post_event(f"/api/waterfall/{_segment(channel)}", {"items": items, "followersOf": author})

    def remove_from_timeline(self, channel, item_id, user_id):
        return self.request("DELETE", f"/api/waterfall/{_segment(channel)}/{_segment(item_id)}", query={"userId": user_id})

    def follow(self, user_id, author):
        return self.request("PUT", "/api/follows", {"userId": user_id, "author": author})

    def unfollow(self, user_id, author):
        return self.request("DELETE", "/api/follows", query={"userId": user_id, "author": author})

    # Internal server: readers and operation

    def merge_history(self, visitor_id, user_id):
        """Moves what is stored about a visitor to the account that they signed in to. Returns {"job": id}; job() counts what was moved."""
        return self.request("POST", "/api/history/merge", {"from": visitor_id, "to": user_id}, repeatable=True)

    def export_user(self, user_id, start=0):
        """Returns what is stored about a reader. `next` of its `database`, if present, is the `start` of the next part."""
        return self.request("GET", f"/api/users/{_segment(user_id)}", query={"from": start})

    def erase_user(self, user_id):
        """Returns {"job": id}; the reader is erased when job() says "done"."""
        return self.request("DELETE", f"/api/users/{_segment(user_id)}")

    def job(self, job_id):
        return self.request("GET", f"/api/jobs/{_segment(job_id)}")

    def whoami(self):
        """Returns {"key": kid, "userId": reader}, as which the server has authenticated this client. None stands for neither."""
        return self.request("GET", "/api/whoami")

    def health(self):
        """Returns {"ready": bool, "writes": bool, "missing": [dependency]} after one try; "error" says why it is not ready."""
        try:
            return self._try_to("GET", "/health/ready", repeatable=False, parse=_parse_health)
        except FreshetError as error:
            return {"ready": False, "writes": False, "missing": [], "error": error}

    # Requests

    def request(self, method, path, body=None, query=None, repeatable=None, content_type="application/json", parse=_parse):
        """`body` is an object sent as JSON, or bytes of `content_type`. A list in `query` is a parameter for each of its values. A
        repeatable request is retried after temporary errors. `parse` makes the result of the response's text, or returns None if
        that is impossible."""
        try:
            return self._try_to(method, path, body, query, repeatable, content_type, parse)
        except FreshetError as error:
            if not self._page:
                raise
            return {"items": [], "unavailable": True, "error": error}

    def _try_to(self, method, path, body=None, query=None, repeatable=None, content_type="application/json", parse=_parse):
        repeatable = method != "POST" if repeatable is None else repeatable
        query = urllib.parse.urlencode([(name, _text(each)) for name, value in _present(query or {}).items()
                                        for each in (value if isinstance(value, list) else [value])])
        target = self._prefix + path + ("?" + query if query else "")
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        for attempt in range(1, self.attempts + 1):
            try:
                return self._send(method, target, data, content_type, repeatable, parse)
            except FreshetError as error:
                if not error.temporary or not repeatable or attempt >= self.attempts or error.retry_after_s > MAX_PAUSE_S:
                    raise
                time.sleep(max(error.retry_after_s, self.first_pause_s * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)))

    def _connection(self):
        """Returns the connection of this thread of this process."""
        if getattr(self._local, "pid", None) != os.getpid():
            connection = _TlsConnection if self._address.scheme == "https" else _Connection
            self._local.connection = connection(self._address.hostname, self._port)
            self._local.pid = os.getpid()
        return self._local.connection

    def _send(self, method, target, data, content_type, repeatable, parse):
        if time.monotonic() < self._silent_until:
            raise FreshetError("the service is unreachable: there was no response a moment ago")
        headers = {"User-Agent": "freshet-client"} | self.headers  # without an agent, it would be a crawler
        if data:
            headers["Content-Type"] = content_type
        if self.key:
            headers["Authorization"] = sign(*self.key, method, target, data)
        etag, known = self._remembered.get(target, (None, None)) if method == "GET" else (None, None)
        if etag:
            headers["If-None-Match"] = etag
        connection = self._connection()
        connection.deadline = time.monotonic() + self.timeout_s
        try:
            reply = self._exchange(connection, repeatable, method, target, data or None, headers)
            text = reply.read()
        except BaseException as error:
            connection.close()
            if not isinstance(error, (OSError, http.client.HTTPException)):
                raise  # by a signal handler
            self._silent_until = time.monotonic() + self.cooldown_s
            raise FreshetError(f"the service is unreachable: {error}") from error
        status, get = reply.status, reply.headers.get
        unchanged = status == 304 and etag
        if unchanged:
            status, text = 200, known
        if 200 <= status < 300:
            answer = parse(text)
            if answer is None and (status != 204 or parse is not _parse):
                raise FreshetError("the service is unreachable: the response cannot be read")
            if not unchanged and status == 200 and method == "GET" and get("ETag") and "no-store" not in get("Cache-Control", ""):
                if len(self._remembered) >= MAX_REMEMBERED:
                    self._remembered.clear()
                self._remembered[target] = get("ETag"), text
            if get("Freshet-Degraded") and answer:
                answer["degraded"] = True
            return answer or {}
        problem, pause = _parse(text) or {}, get("Retry-After", "")
        raise FreshetError(problem.get("msg", f"the service returned HTTP {status}"), status, problem.get("code", "error"),
                           problem.get("member"), float(pause) if pause.isdecimal() else 0.0)

    @staticmethod
    def _exchange(connection, repeatable, *request):
        """Returns the response, of which the head has been received. The service may close a kept connection at any time, so a
        repeatable request is then sent again, and others are only sent over new connections."""
        if not repeatable:
            connection.close()
        kept = connection.sock is not None
        try:
            connection.request(*request)
            return connection.getresponse()
        except ConnectionError:
            if not kept:
                raise
        connection.close()
        connection.request(*request)
        return connection.getresponse()

    def _post_event(self, path, body):
        return self.request("POST", path, {"eventId": secrets.token_hex(16), **_present(body)}, repeatable=True)

    def _post_lines(self, path, objects):
        data = "\n".join(json.dumps(each) for each in objects).encode()
        return self.request("POST", path, data, repeatable=True, content_type="application/x-ndjson")
