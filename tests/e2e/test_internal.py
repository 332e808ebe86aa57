"""Web pages that the operator's browser opens cannot write to the internal server, nor read from it."""

import http.client
import json
import time

import pytest

from client import AGENT, assert_problem
from fastcgi import Connection, request

ORIGIN = "https://evil.example"
NOW = int(time.time())


def writes(name):
    """Requests that a page of another site might send: {operation: (method, path, body)}."""
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


def send_request(service, method, path, body=None, **headers):
    """Sends a request with exactly these headers, including Host and Origin."""
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


# Requests that a page can send without a preflight, and those that need one.
ATTACKS = {
    "no content type": (415, "bad_content_type", {}),
    "text/plain": (415, "bad_content_type", {"Content_Type": "text/plain;charset=UTF-8"}),
    "text/plain with JSON in a parameter": (415, "bad_content_type", {"Content_Type": "text/plain; x=application/json"}),
    "a form": (415, "bad_content_type", {"Content_Type": "application/x-www-form-urlencoded"}),
    "a foreign origin": (403, "foreign_origin", {"Content_Type": "application/json", "Origin": ORIGIN}),
    "the public server's origin": (403, "foreign_origin", {"Content_Type": "application/json", "Origin": "http://127.0.0.1:8080"}),
    "a null origin": (403, "foreign_origin", {"Content_Type": "application/json", "Origin": "null"}),
    "a cross-site fetch": (403, "foreign_origin", {"Content_Type": "application/json", "Sec_Fetch_Site": "cross-site"}),
    "a foreign host name": (403, "unknown_host", {"Content_Type": "application/json", "Host": "evil.example:8081", "Origin": "http://evil.example:8081"}),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_pages_of_other_sites_cannot_write(service, name, attack):
    status, code, headers = ATTACKS[attack]
    target = name("page")
    for label, (method, path, body) in writes(target).items():
        reply = send_request(service, method, path, body, **headers)
        assert (reply.status, reply.json()["code"]) == (status, code), (label, reply.status, reply.body)
    assert service.internal().get(f"/api/items/{target}").status == 404
    assert service.keys_containing(target) == []


def test_pages_of_other_sites_cannot_export_or_erase_readers(service, name):
    reader = name("r")
    assert service.internal().post("/api/history", {"userId": reader, "topicId": "t"}).status == 200
    for headers in ({"Origin": ORIGIN}, {"Sec_Fetch_Site": "cross-site"}, {"Host": "evil.example"}):
        for method in ("GET", "DELETE", "OPTIONS"):
            reply = send_request(service, method, f"/api/users/{reader}", **headers)
            assert reply.status == 403, (method, headers, reply.body)
            assert "Access-Control-Allow-Origin" not in reply.headers
    assert service.internal().get("/api/history", query={"userId": reader}).json()["items"] == ["t"]


def test_operators_and_monitoring_can_read_their_pages(service):
    own = f"http://{service.host}:{service.internal_port}"
    for path in ("/status?html", "/status?json&full", "/metrics", "/health/ready", "/ping"):
        for headers in ({}, {"Sec_Fetch_Site": "none"}, {"Sec_Fetch_Site": "cross-site"}, {"Host": "localhost:8081"}, {"Host": "192.0.2.7:8081"},
                        {"Origin": own, "Sec_Fetch_Site": "same-origin"}):
            assert send_request(service, "GET", path, **headers).status == 200, (path, headers)
    for path in ("/status?html", "/metrics"):
        assert send_request(service, "GET", path, Host="evil.example").status == 403
    for path in ("/health/live", "/health/ready", "/ping"):
        assert send_request(service, "GET", path, Host="balancer.example").status == 200


def test_pages_of_the_internal_server_may_write(service, name):
    own = f"http://{service.host}:{service.internal_port}"
    item = name("i")
    reply = send_request(service, "PUT", f"/api/items/{item}", {"title": "t", "published_at": NOW}, Origin=own, Sec_Fetch_Site="same-origin",
                         Content_Type="application/json; charset=utf-8")
    assert reply.status == 200, reply.body
    reply = send_request(service, "POST", "/api/track", json.dumps({"articleId": item, "dwellMs": 1}), Origin=own, Content_Type="text/plain;charset=UTF-8")
    assert reply.status == 200, reply.body


def test_other_host_names_must_be_configured(instance):
    service = instance("--no-limits", http__internal_hosts='["feed.internal"]')
    assert send_request(service, "GET", "/api/hot", Host="feed.internal:8081").status == 200
    assert send_request(service, "GET", "/api/hot", Host="localhost").status == 403
    assert_problem(service.internal().get("/api/hot", headers={"Host": "feed.example"}), 403, "unknown_host")


@pytest.mark.parametrize("url, accepted", [
    ("https://example.org/a?b=javascript:1", True), ("HTTP://example.org", True), ("/a", True), ("//example.org/a", True), ("a b", True), ("", True),
    ("?a:b", True), ("1:2", True), ("javascript:alert(1)", False), ("JaVaScRiPt:alert(1)", False), (" \x01javascript:alert(1)", False),
    ("java\nscript:alert(1)", False), ("\tjavascript\r:alert(1)", False), ("data:text/html,x", False), ("vbscript:x", False), ("file:///etc/passwd", False),
    ("mailto:a@example.org", False), ("x-y+z.1:a", False)])
def test_an_items_url_must_be_relative_or_http(service, name, url, accepted):
    item, internal = name("i"), service.internal()
    members = {"title": "t", "published_at": NOW, "url": url}
    reply = internal.put(f"/api/items/{item}", members)
    if accepted:
        assert reply.status == 200, reply
        assert internal.get(f"/api/items/{item}").json().get("url", "") == url
    else:
        assert_problem(reply, 400, "bad_url", "url")
        lines = internal.post("/api/items", json.dumps(members | {"id": item})).json()
        assert lines["accepted"] == 0 and [(row["line"], row["id"], row["code"], row["member"]) for row in lines["rejected"]] == [(1, item, "bad_url", "url")]


def test_a_nul_byte_in_a_request_is_refused(service):
    assert_problem(service.internal().get("/api/recommendations?userId=a%00b"), 400, "bad_target", "userId")
    for uri, status in (("/api/items/a%00b", (400, 404)), ("/api/hot?tag=%00", (400,))):
        with Connection(service.socket_path) as direct:
            assert direct.request(uri=uri)[0] in status
    with Connection(service.socket_path) as direct:
        direct.send(request(uri=b"/ping\0/api/users/a"))
        assert direct.closed_by_peer(5)
