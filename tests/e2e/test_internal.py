"""The internal server and the pages that its operator's browser opens: they can make it do nothing, and read nothing."""

import http.client
import json
import time

import pytest

from client import AGENT, assert_problem
from fastcgi import Connection, request

ORIGIN = "https://evil.example"
NOW = int(time.time())


def writes(name):
    """What a page of another site would like to send: operation → method, path, body."""
    item = {"title": "bought", "published_at": NOW}
    return {
        "put an item": ("PUT", f"/api/items/{name}", item),
        "put items": ("POST", "/api/items", item | {"id": name}),
        "interact": ("POST", "/api/interactions", {"userId": name, "topicId": name, "kind": "like"}),
        "push": ("POST", "/api/waterfall/discover", {"items": [name], "customers": [name]}),
        "merge": ("POST", "/api/history/merge", {"from": name, "to": name}),
        "track": ("POST", "/api/track", {"articleId": name, "dwellMs": 1}),
        "view": ("POST", "/api/views", {"articleId": name, "fingerprint": "f", "publishedAt": NOW}),
        "follow": ("PUT", "/api/follows", {"follower": name, "author": name}),
    }


def ask(service, method, path, body=None, **headers):
    """A request with these headers and no others, as `Host` or `Origin` say."""
    connection = http.client.HTTPConnection(service.host, service.internal_port, timeout=80)
    try:
        send = {"User-Agent": AGENT} | {key.replace("_", "-"): value for key, value in headers.items()}
        connection.request(method, path, json.dumps(body) if isinstance(body, dict) else body, send)
        reply = connection.getresponse()
        reply.body = reply.read()
        reply.json = lambda: json.loads(reply.body)
        return reply
    finally:
        connection.close()


# What a page can send without being asked for its origin first, and what it can not.
ATTACKS = {
    "no type": (415, "bad_content_type", {}),
    "text/plain": (415, "bad_content_type", {"Content_Type": "text/plain;charset=UTF-8"}),
    "text/plain that names JSON": (415, "bad_content_type", {"Content_Type": "text/plain; x=application/json"}),
    "a form": (415, "bad_content_type", {"Content_Type": "application/x-www-form-urlencoded"}),
    "its origin": (403, "foreign_origin", {"Content_Type": "application/json", "Origin": ORIGIN}),
    "the public server's origin": (403, "foreign_origin", {"Content_Type": "application/json", "Origin": "http://127.0.0.1:8080"}),
    "no origin": (403, "foreign_origin", {"Content_Type": "application/json", "Origin": "null"}),
    "its site": (403, "foreign_origin", {"Content_Type": "application/json", "Sec_Fetch_Site": "cross-site"}),
    "a name of its own": (403, "unknown_host", {"Content_Type": "application/json", "Host": "evil.example:8081", "Origin": "http://evil.example:8081"}),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_page_of_another_site_writes_nothing(service, name, attack):
    status, code, headers = ATTACKS[attack]
    who = name("page")
    for what, (method, path, body) in writes(who).items():
        reply = ask(service, method, path, body, **headers)
        assert (reply.status, reply.json()["code"]) == (status, code), (what, reply.status, reply.body)
    assert service.internal().get(f"/api/items/{who}").status == 404
    assert service.keys_of(who) == []


def test_a_page_of_another_site_reads_no_reader_and_erases_none(service, name):
    reader = name("r")
    assert service.internal().post("/api/history", {"userId": reader, "topicId": "t"}).status == 200
    for headers in ({"Origin": ORIGIN}, {"Sec_Fetch_Site": "cross-site"}, {"Host": "evil.example"}):
        for method in ("GET", "DELETE", "OPTIONS"):
            reply = ask(service, method, f"/api/users/{reader}", **headers)
            assert reply.status == 403, (method, headers, reply.body)
            assert "Access-Control-Allow-Origin" not in reply.headers
    assert service.internal().get("/api/history", query={"userId": reader}).json()["items"] == ["t"]


def test_people_and_monitoring_still_read_what_is_theirs(service):
    own = f"http://{service.host}:{service.internal_port}"
    for path in ("/status?html", "/status?json&full", "/metrics", "/health/ready", "/ping"):
        for headers in ({}, {"Sec_Fetch_Site": "none"}, {"Sec_Fetch_Site": "cross-site"}, {"Host": "localhost:8081"}, {"Host": "192.0.2.7:8081"},
                        {"Origin": own, "Sec_Fetch_Site": "same-origin"}):
            assert ask(service, "GET", path, **headers).status == 200, (path, headers)
    for path in ("/status?html", "/metrics"):
        assert ask(service, "GET", path, Host="evil.example").status == 403
    for path in ("/health/live", "/health/ready", "/ping"):
        assert ask(service, "GET", path, Host="balancer.example").status == 200


def test_the_servers_own_pages_may_write(service, name):
    own = f"http://{service.host}:{service.internal_port}"
    item = name("i")
    reply = ask(service, "PUT", f"/api/items/{item}", {"title": "t", "published_at": NOW}, Origin=own, Sec_Fetch_Site="same-origin",
                Content_Type="application/json; charset=utf-8")
    assert reply.status == 200, reply.body
    reply = ask(service, "POST", "/api/track", json.dumps({"articleId": item, "dwellMs": 1}), Origin=own, Content_Type="text/plain;charset=UTF-8")
    assert reply.status == 200, reply.body


def test_other_names_are_listed(instance):
    service = instance("--no-limits", http__internal_hosts='["feed.internal"]')
    assert ask(service, "GET", "/api/hot", Host="feed.internal:8081").status == 200
    assert ask(service, "GET", "/api/hot", Host="localhost").status == 403
    assert_problem(service.internal().get("/api/hot", headers={"Host": "feed.example"}), 403, "unknown_host")


@pytest.mark.parametrize("url, good", [
    ("https://example.org/a?b=javascript:1", True), ("HTTP://example.org", True), ("/a", True), ("//example.org/a", True), ("a b", True), ("", True),
    ("?a:b", True), ("1:2", True), ("javascript:alert(1)", False), ("JaVaScRiPt:alert(1)", False), (" \x01javascript:alert(1)", False),
    ("java\nscript:alert(1)", False), ("\tjavascript\r:alert(1)", False), ("data:text/html,x", False), ("vbscript:x", False), ("file:///etc/passwd", False),
    ("mailto:a@example.org", False), ("x-y+z.1:a", False)])
def test_an_items_url_is_relative_or_of_the_web(service, name, url, good):
    item, internal = name("i"), service.internal()
    members = {"title": "t", "published_at": NOW, "url": url}
    reply = internal.put(f"/api/items/{item}", members)
    if good:
        assert reply.status == 200, reply
        assert internal.get(f"/api/items/{item}").json().get("url", "") == url
    else:
        assert_problem(reply, 400, "bad_url", "url")
        lines = internal.post("/api/items", json.dumps(members | {"id": item})).json()
        assert (lines["accepted"], lines["rejected"]) == (0, [{"line": 1, "code": "bad_url", "member": "url"}])


def test_a_parameter_with_a_nul_is_refused(service):
    assert_problem(service.internal().get("/api/recommendations?userId=a%00b"), 400, "bad_target", "userId")
    for uri, status in (("/api/items/a%00b", (400, 404)), ("/api/hot?tag=%00", (400,))):
        with Connection(service.socket_path) as direct:
            assert direct.ask(uri=uri)[0] in status
    with Connection(service.socket_path) as direct:
        direct.send(request(uri=b"/ping\0/api/users/a"))
        assert direct.closed_by_peer(5)
