"""HTTP: problem documents, methods, zones, request ids, CORS, compression, limits, bots and the status of the pool."""

import gzip
import http.client
import json
import re
import socket
import time
import urllib.parse

import pytest

from client import AGENT, CRAWLER, Load, assert_problem
from fastcgi import Connection
from service import LONG_TIMEOUTS, REQUEST_ID, Instance, wait_until

ORIGIN = "https://site.example"


@pytest.fixture(scope="module")
def limited():
    """An instance with the shipped limits and one allowed origin."""
    started = Instance(http__cors_origins=f'["{ORIGIN}"]', **LONG_TIMEOUTS)
    try:
        yield started.start()
    finally:
        started.stop()


@pytest.fixture(scope="module")
def mounted():
    """An instance whose public server has a name and the routes under /freshet."""
    started = Instance(**LONG_TIMEOUTS)
    started.nginx_edit += "\ns/^  listen .*:18080 /  server_name example.org;\\n&/; s/^  server_name _;//; s#(?<freshet_prefix>)#(?<freshet_prefix>/freshet)#"
    try:
        yield started.start()
    finally:
        started.stop()


# --- mounted under a prefix, and the site's own pages


def test_routes_mounted_under_a_prefix_work_and_cookies_stay_valid_for_the_site(mounted):
    client, item = mounted.public(), "posts/1-ü"
    assert client.post("/freshet/api/track", {"articleId": item, "dwellMs": 5000}).status == 200
    assert mounted.internal().get("/api/articles/posts%2F1-%C3%BC/stats").json()["pv"] == 1
    wait_until(lambda: item in client.get("/freshet/api/hot?model=engagement&limit=9").body.decode(), "the list")
    assert mounted.internal().put("/api/items/posts%2F1-%C3%BC", {"title": "T", "published_at": 1}).status == 200
    assert client.get("/freshet/api/items/posts%2F1-%C3%BC/similar").json()["items"] == []
    cookie = client.post("/freshet/api/visitor", None).headers["Set-Cookie"]
    assert "; Path=/;" in cookie
    assert client.get("/freshet/freshet.js").status == client.get("/freshet/freshet-list.js").status == 200
    for path in ("/api/track", "/freshet/api/articles/x/stats", "/freshet/freshet/api/hot", "/freshet.js/x", "/freshet/ping"):
        assert_problem(client.get(path), 404)


def raw_request(service, text):
    """The status and problem of a request written byte by byte, with a body of {}."""
    with socket.create_connection((service.host, service.port), 80) as sender:
        sender.sendall(text.encode())
        head, _, body = sender.makefile("rb").read().partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_write_of_the_sites_own_page_is_accepted_with_and_without_host(mounted, version):
    body = '{"articleId":"raw","dwellMs":1000}'
    rest = f"User-Agent: {AGENT}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
    start, own = f"POST /freshet/api/track HTTP/{version}\r\n", f"http://example.org:{mounted.port}"
    assert raw_request(mounted, f"{start}Host: www.example.net\r\nOrigin: http://www.example.net\r\n{rest}")[0] == 200
    if version == "1.0":
        assert raw_request(mounted, f"{start}Origin: {own}\r\n{rest}")[0] == 200
    assert raw_request(mounted, f"{start}Host:\r\nOrigin: {own}\r\n{rest}")[0] == 400
    status, problem = raw_request(mounted, f"{start}Host: backend:8080\r\nOrigin: {own}\r\n{rest}")
    assert (status, problem["code"]) == (403, "foreign_origin")
    assert own in problem["detail"] and "http://backend:8080" in problem["detail"] and "Host" in problem["detail"]


def test_ids_of_every_kind_work_in_paths(service, name):
    for each in ("a/b", "a//b", "/", "100%", "%2F", "a?b", "a#b", "a&b=c", "日本-ü", "similar", "a/similar", "x.js"):
        item = name("i") + each if each != "/" else "/"
        path = "/api/items/" + urllib.parse.quote(item, safe="")
        assert service.internal().put(path, {"title": "T", "published_at": 1}).status == 200, item
        assert service.internal().get(path).json()["id"] == item
        for client in (service.public(), service.internal()):
            assert "items" in client.get(path + "/similar").json(), item
        assert_problem(service.public().get(path), 404)
        assert service.internal().delete(path).status in (200, 204), item


# --- problems, methods, zones


@pytest.mark.parametrize("method, path, allow", [
    ("GET", "/api/track", {"POST", "OPTIONS"}), ("DELETE", "/api/views", {"POST", "OPTIONS"}),
    ("POST", "/api/hot", {"GET", "HEAD", "OPTIONS"}), ("PUT", "/api/hot", {"GET", "HEAD", "OPTIONS"})])
def test_a_wrong_method_is_405_and_the_allowed_ones_are_listed(service, method, path, allow):
    for client in (service.public(), service.internal()):
        reply = client.request(method, path, body="{}" if method != "GET" else None)
        assert_problem(reply, 405, "method_not_allowed")
        assert {word.strip() for word in reply.headers["Allow"].split(",")} == allow


def test_allowed_methods_of_items_are_listed(service):
    reply = service.internal().post("/api/items/x", {})
    assert_problem(reply, 405)
    assert {"GET", "PUT", "DELETE", "HEAD"} <= {word.strip() for word in reply.headers["Allow"].split(",")}


def test_an_unknown_method_is_refused(service):
    for client in (service.public(), service.internal()):
        assert client.request("BREW", "/api/hot").status in (400, 405)


def test_an_unknown_path_is_404(service):
    for path in ("/api/nothing", "/api/", "/api/hot/", "/api/hot/x", "/api//hot", "/API/HOT", "/api/hot%2F"):
        assert_problem(service.internal().get(path), 404)
        assert_problem(service.public().get(path), 404)


def test_an_unknown_page_is_a_page_in_a_browser_and_a_problem_elsewhere(service):
    for client in (service.public(), service.internal()):
        for path in ("/nothing", "/nothing.html", "/deep/nothing"):
            reply = client.get(path, headers={"Accept": "text/html,*/*;q=0.8"})
            assert (reply.status, reply.headers["Content-Type"]) == (404, "text/html") and b"Page not found" in reply.body
            assert_problem(client.get(path), 404)
    browser = {"Accept": "text/html"}
    assert_problem(service.internal().get("/api/nothing", headers=browser), 404, "no_route")
    assert_problem(service.internal().get("/nothing", headers=browser | {"Host": "evil.example"}), 403, "unknown_host")


@pytest.mark.parametrize("method, path", [
    ("GET", "/api/stats?ids=a"), ("GET", "/api/articles/a/stats"), ("PUT", "/api/items/a"), ("GET", "/api/items/a"), ("DELETE", "/api/items/a"),
    ("POST", "/api/items"), ("GET", "/ping"), ("GET", "/status"), ("GET", "/status?json"), ("GET", "/metrics"),
    ("GET", "/api/track/../items/a"), ("GET", "/%61pi/items/a"), ("GET", "//api/items/a"), ("GET", "/api/hot/../stats?ids=a")])
def test_internal_routes_do_not_exist_on_the_public_port(service, method, path):
    reply = service.public().request(method, path, body='{"title":"x"}' if method in ("PUT", "POST") else None)
    assert reply.status == 404, reply
    assert b"pv" not in reply.body and b"pool" not in reply.body


def test_a_zone_cannot_be_claimed_by_a_header(service):
    for header in ("Freshet-Zone", "FRESHET_ZONE", "X-Freshet-Zone"):
        assert service.public().get("/api/stats?ids=a", headers={header: "internal"}).status == 404


def test_every_reply_carries_one_request_id(service):
    request_ids = set()
    for client, path in ((service.public(), "/api/hot"), (service.public(), "/api/none"), (service.public(), "/"),
                         (service.internal(), "/api/hot"), (service.internal(), "/api/items/none"), (service.internal(), "/ping"),
                         (service.public(), "/api/hot?limit=0")):
        [request_id] = client.get(path).headers.get_all("X-Request-Id")
        assert re.fullmatch(REQUEST_ID, request_id), request_id
        request_ids.add(request_id)
    connection = http.client.HTTPConnection(service.host, service.port, timeout=10)
    for _ in range(2):
        connection.request("GET", "/api/hot")
        reply = connection.getresponse()
        reply.read()
        request_ids.add(reply.headers["X-Request-Id"])
    connection.close()
    assert len(request_ids) == 9


def test_json_numbers_are_exact_and_bodies_are_utf_8(service, name):
    article = "é" + name("a")
    reply = service.public().track(article, 1, userId="u")
    assert reply.status == 200
    assert json.loads(reply.body.decode("utf-8"))["avg_dwell_ms"] == 1


# --- bodies and content types


def test_only_track_and_views_accept_beacons(service, name):
    beacon = {"Content-Type": "text/plain;charset=UTF-8"}
    body = json.dumps({"articleId": name("a"), "dwellMs": 1, "fingerprint": "f", "publishedAt": 1700000000})
    for path in ("/api/track", "/api/views"):
        assert service.public().post(path, body, headers=beacon).status == 200
    internal, item = service.internal(), name("i")
    for method, path, content_type in (("PUT", f"/api/items/{item}", "text/plain"), ("POST", "/api/items", "Text/Plain;charset=UTF-8"),
                                       ("POST", "/api/items", "application/x-www-form-urlencoded"), ("POST", "/api/items", "multipart/form-data; boundary=json"),
                                       ("PUT", f"/api/items/{item}", "application/xml"), ("POST", "/api/items", "text/csv; header=json")):
        reply = internal.request(method, path, json.dumps({"id": item, "title": "x"}), headers={"Content-Type": content_type})
        assert_problem(reply, 415, "bad_content_type")
    assert internal.get(f"/api/items/{item}").status == 404


def test_all_json_media_types_are_accepted_and_a_public_body_without_one_is_json(service, name):
    internal, body = service.internal(), json.dumps({"title": "x", "published_at": 1})
    for content_type in ("application/json", "Application/JSON ; charset=utf-8", "application/merge-patch+json", "application/x-ndjson"):
        assert internal.request("PUT", f"/api/items/{name('i')}", body, headers={"Content-Type": content_type}).status == 200, content_type
    for content_type in ("", "application/x-www-form-urlencoded"):
        assert internal.request("PUT", f"/api/items/{name('i')}", body, headers={"Content-Type": content_type}).status == 415, content_type
        viewed = json.dumps({"userId": name("r"), "topicId": "t"})
        assert service.public().post("/api/history", viewed, headers={"Content-Type": content_type}).status == (415 if content_type else 200), content_type


def test_an_item_may_have_a_long_text(service, name):
    internal, item = service.internal(), name("i")
    for text in ("x" * (20 << 10), "\x01" * (256 << 10)):
        assert internal.request("PUT", f"/api/items/{item}", json.dumps({"title": "x", "text": text, "published_at": 1})).status == 200
        assert internal.get(f"/api/items/{item}").json()["text"] == text
    reply = internal.request("PUT", f"/api/items/{item}", json.dumps({"title": "x", "text": "x" * ((256 << 10) + 1), "published_at": 1}))
    assert_problem(reply, 400, "bad_string", "text")


MISSING = [("/api/track", {"articleId": "a", "userId": "u"}, "dwellMs"), ("/api/views", {"articleId": "a", "fingerprint": "f"}, "publishedAt"),
           ("/api/views", {"articleId": "a", "publishedAt": 1}, "fingerprint"), ("/api/feed", {"agent_id": "r"}, "action"),
           ("/api/history", {"userId": "r"}, "topicId"), ("/api/feedback", {"userId": "r", "topicId": "t"}, "kind"),
           ("/api/interactions", {"userId": "r", "topicId": "t"}, "kind"), ("/api/waterfall/discover", {"customers": ["r"]}, "items")]


@pytest.mark.parametrize("path, members, missing", MISSING, ids=[f"{path}-{missing}" for path, _, missing in MISSING])
def test_a_missing_member_is_reported_as_missing(service, path, members, missing):
    reply = service.internal().post(path, members)
    assert (reply.status, reply.json()["member"]) == (400, missing), reply
    assert reply.json()["detail"].startswith("is missing"), reply


@pytest.mark.parametrize("path, limit", [("/api/track", 4096), ("/api/views", 4096), ("/api/feedback", 16384)])
def test_a_body_beyond_the_limit_is_413_on_both_servers(service, path, limit, name):
    body = json.dumps({"articleId": name("a"), "dwellMs": 1, "fingerprint": "f", "publishedAt": 1700000000, "userId": name("r"), "topicId": "t",
                       "kind": "not_interested"})
    for client in (service.public(), service.internal()):
        assert client.post(path, body.ljust(limit), headers={"Prefer": "handling=lenient"}).status == 200
        assert_problem(client.post(path, body.ljust(limit + 1)), 413, "too_large")


def test_workers_refuse_oversized_bodies_with_the_same_document_as_nginx(service):
    with Connection(service.socket_path) as direct:
        status, body = direct.request(method="POST", uri="/api/track", body=b"{}".ljust(4097))
        assert (status, json.loads(body)["code"]) == (413, "too_large")
        nginx = service.public().post("/api/track", b"{}".ljust(4097)).json()
        assert set(nginx) <= set(json.loads(body)) | {"member"}
        assert {key: nginx[key] for key in ("status", "code")} == {"status": 413, "code": "too_large"}


def test_bulk_routes_accept_at_most_eight_mebibytes(service, name):
    line = json.dumps({"id": name("i"), "title": "x", "published_at": 1})
    client = service.internal()
    assert client.post("/api/items", line.ljust(8 << 20)).json()["accepted"] == 1
    assert_problem(client.post("/api/items", line.ljust((8 << 20) + 1)), 413, "too_large")
    assert_problem(client.put(f"/api/items/{name('i')}", '{"title":"x"}'.ljust((2 << 20) + 1)), 413, "too_large")


def test_replies_over_a_kibibyte_are_compressed(service, name):
    item, accept_gzip = name("i"), {"Accept-Encoding": "gzip"}
    service.put(item, text="t" * 2000)
    reply = service.internal().get(f"/api/items/{item}", headers=accept_gzip)
    assert reply.headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(reply.body))["text"] == "t" * 2000
    assert "Content-Encoding" not in service.internal().get(f"/api/items/{item}").headers
    assert "Content-Encoding" not in service.internal().get("/ping", headers=accept_gzip).headers


# --- conditional requests


def test_unchanged_replies_are_304_for_polling_clients(service, name):
    public, internal, reader, author = service.public(), service.internal(), name("r"), name("a")
    items = [name("i") for _ in range(20)]
    for item in items:
        service.put(item, title="t" * 100, author=author)
    internal.put("/api/follows", {"userId": reader, "author": author})
    internal.post("/api/waterfall/discover", {"items": items, "customers": [reader]})
    internal.post("/api/history", {"userId": reader, "topicId": items[0]})
    paths = [f"/api/history?userId={reader}", f"/api/recommendations?userId={reader}", f"/api/items/{items[0]}/similar",
             f"/api/waterfall/discover?customerId={reader}", f"/api/follows?userId={reader}"]
    for client, path in [(public, each) for each in paths] + [(internal, each) for each in paths + [f"/api/items/{items[0]}"]]:
        for encoding in ("identity", "gzip"):
            def again(client=client, path=path, encoding=encoding):
                full_reply = client.get(path, headers={"Accept-Encoding": encoding})
                tag = full_reply.headers["ETag"]
                # nginx weakens the ETag of a compressed reply.
                assert full_reply.status == 200 and tag.startswith("W/" if full_reply.headers["Content-Encoding"] else '"'), (path, full_reply)
                same = client.get(path, headers={"Accept-Encoding": encoding, "If-None-Match": tag})
                return same.status == 304 and not same.body and same.headers["ETag"] == tag.removeprefix("W/")
            wait_until(again, f"a 304 for {path} with {encoding}")
    timeline = internal.get(paths[3], headers={"Accept-Encoding": "gzip"})
    assert timeline.headers["Content-Encoding"] == "gzip"  # so the loop saw a weak ETag
    service.put(another := name("i"))
    internal.post("/api/waterfall/discover", {"items": [another], "customers": [reader]})
    changed = public.get(paths[3], headers={"If-None-Match": timeline.headers["ETag"]})
    assert changed.status == 200 and changed.headers["ETag"] not in timeline.headers["ETag"]


def test_replies_that_are_not_meant_to_be_polled_have_no_etag(service):
    for path in ("/ping", "/status", "/metrics", "/health/live", "/health/ready", "/api/items/none", "/api/nothing"):
        assert "ETag" not in service.internal().get(path, headers={"If-None-Match": "*"}).headers, path


# --- what a DELETE names


def test_a_delete_ignores_nothing_that_names_what_to_delete(service, name):
    internal, reader, items = service.internal(), name("r"), [name("i") for _ in range(3)]
    for item in items:
        service.put(item)
        assert internal.post("/api/history", {"userId": reader, "topicId": item}).status == 200
    routes = (f"/api/history?userId={reader}", f"/api/history?userId={reader}&topicId={items[0]}", f"/api/items/{items[0]}", f"/api/users/{reader}",
              f"/api/waterfall/discover/{items[0]}?userId={reader}", "/api/visitor")
    for path in routes:
        for body in ({"topicId": items[0]}, {"dryRun": True}, [], "null"):
            reply = internal.request("DELETE", path, body)
            assert (reply.status, reply.json()["code"]) == (400, "unexpected_body"), (path, body, reply)
    for path in (f"/api/history?userId={reader}&topicId={items[0]}&topicId={items[1]}", f"/api/feedback?userId={reader}&topicId=a&userId=b"):
        reply = internal.delete(path)
        assert (reply.status, reply.json()["code"]) == (400, "bad_parameter"), (path, reply)
    assert len(internal.get(f"/api/history?userId={reader}").json()["items"]) == 3
    assert internal.request("DELETE", f"/api/history?userId={reader}&topicId={items[0]}", {}).status == 200  # "{}"
    assert len(internal.get(f"/api/history?userId={reader}").json()["items"]) == 2


# --- CORS


def test_a_preflight_of_an_allowed_origin_is_204(limited):
    headers = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    reply = limited.public().request("OPTIONS", "/api/track", headers=headers)
    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "POST" in reply.headers["Access-Control-Allow-Methods"]
    allowed = reply.headers["Access-Control-Allow-Headers"].lower()
    assert "content-type" in allowed and "if-none-match" in allowed
    assert reply.headers.get_all("Vary") == ["Origin"]


def test_other_origins_get_no_permission(limited):
    for origin in ("https://evil.example", ORIGIN + ".evil.example", "null", ORIGIN + ":8443"):
        reply = limited.public().request("OPTIONS", "/api/track", headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
        assert "Access-Control-Allow-Origin" not in reply.headers
        assert "Access-Control-Allow-Origin" not in limited.public().get("/api/hot", headers={"Origin": origin}).headers


def test_replies_to_an_allowed_origin_have_cors_headers_even_from_the_cache(limited):
    client = limited.public()
    for _ in range(2):
        assert client.get("/api/hot", headers={"Origin": ORIGIN}).headers["Access-Control-Allow-Origin"] == ORIGIN
        assert "Access-Control-Allow-Origin" not in client.get("/api/hot").headers
    bad = client.get("/api/hot?limit=0", headers={"Origin": ORIGIN})
    assert bad.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert {"ETag", "Freshet-Below-Floor"} <= set(bad.headers["Access-Control-Expose-Headers"].split(", "))


def test_internal_routes_permit_no_other_origin(limited):
    reply = limited.internal().request("OPTIONS", "/api/items/x", headers={"Origin": ORIGIN, "Access-Control-Request-Method": "PUT"})
    assert "Access-Control-Allow-Origin" not in reply.headers


# --- bots


def counts(service, article):
    reply = service.internal().get(f"/api/articles/{article}/stats")
    if reply.status == 404:
        return 0, 0
    return reply.json()["pv"], reply.json()["views"]["total"]


def test_crawlers_get_replies_of_the_same_shape_and_count_nothing(service, name):
    article = name("a")
    assert service.public().track(article, 1000, userId="u").status == 200
    assert service.public().view(article, "f").status == 200
    before, refused = counts(service, article), service.status()["refused"]["bot"]
    for agent in (CRAWLER, "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)", "python-requests/2.31"):
        bot = service.public(agent=agent)
        reply = bot.track(article, 9000, userId="bot")
        assert reply.status == 200 and reply.json()["counted"] is False
        assert {"pv", "uv", "avg_dwell_ms", "score"} <= set(reply.json())
        reply = bot.view(article, "bot")
        assert reply.status == 200 and reply.json()["counted"] is False and reply.json()["ok"] is True
    assert counts(service, article) == before
    assert service.status()["refused"]["bot"] == refused + 6


def test_bad_requests_of_crawlers_are_refused(service):
    assert_problem(service.public(agent=CRAWLER).track("a\tb", 1), 400, "bad_id", "articleId")


def test_curl_counts_because_this_instance_allows_it(service, name):
    article = name("a")
    for number, agent in enumerate(("curl/7.88.1", "Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/120.0.0.0 Safari/537.36", AGENT), 1):
        reply = service.public(agent=agent).track(article, 0, userId=f"u{number}")
        assert "counted" not in reply.json() and reply.json()["pv"] == number


INTERNAL_AGENTS = ("python-requests/2.31", "Go-http-client/1.1", "axios/1.6.2", "okhttp/4.12.0", "WordPress/6.4; https://example.org", "curl/7.88.1", CRAWLER)


def test_clients_of_the_internal_server_are_never_treated_as_crawlers(instance, name):
    service = instance("--no-limits", bots__allow="[]", **LONG_TIMEOUTS)
    article, reader, topic = name("a"), name("r"), name("t")
    for number, agent in enumerate(INTERNAL_AGENTS, 1):
        client = service.internal(agent=agent)
        assert client.track(article, 0, userId=f"{reader}{number}").json()["pv"] == number, agent
        assert "counted" not in client.view(article, f"f{number}").json(), agent
        assert client.post("/api/history", {"userId": reader, "topicId": f"{topic}{number}"}).json() == {"ok": True}, agent
    assert counts(service, article)[0] == len(INTERNAL_AGENTS)
    assert len(service.internal().get("/api/history", query={"userId": reader}).json()["items"]) == len(INTERNAL_AGENTS)
    assert service.status()["refused"]["bot"] == 0


def test_a_crawlers_history_request_is_not_counted_even_without_a_known_reader(instance, name):
    service = instance("--no-limits", identity__mode='"header"', **LONG_TIMEOUTS)
    reply = service.public(agent=CRAWLER).post("/api/history", {"userId": name("r"), "topicId": "t"})
    assert reply.json() == {"ok": True, "counted": False}


# --- limits


def test_too_many_writes_are_429_with_retry_after_and_count_nothing(limited, name):
    article = name("a")

    def work(client, turn):
        return client.track(article, 0, userId=f"u{turn}")

    with Load(limited.public, work) as load:
        wait_until(lambda: any(reply.status == 429 for reply in list(load.results)), "a 429")
    assert not load.errors
    accepted = [reply for reply in load.results if reply.status == 200]
    refused = [reply for reply in load.results if reply.status != 200]
    assert len(accepted) >= 50 and refused
    for reply in refused:
        assert_problem(reply, 429, "rate_limited")
        assert int(reply.headers["Retry-After"]) >= 1
        assert len(reply.headers.get_all("X-Request-Id")) == 1
    # Beyond limits.pv_per_network they are accepted but not counted.
    assert limited.stats(article)["pv"] == sum("counted" not in reply.json() for reply in accepted)
    # A client that waits as told is served again.
    wait_until(lambda: limited.public().track(article, 0, userId="patient").status == 200, "the limit to allow a request", 5)


def test_limits_per_address_do_not_apply_to_the_internal_server(limited):
    client = limited.internal()
    assert {client.get("/ping").status for _ in range(500)} == {200}


# --- operations


def test_ping_answers_pong(service):
    reply = service.internal().get("/ping")
    assert (reply.status, reply.body.strip()) == (200, b"pong")
    assert reply.headers["Content-Type"].startswith("text/plain")


def test_status_has_the_keys_of_php_fpm(service):
    status = service.status()
    fpm = {"pool", "process manager", "start time", "start since", "accepted conn", "idle processes", "active processes", "total processes"}
    assert fpm <= set(status)
    assert status["total processes"] == len(service.workers()) == status["idle processes"] + status["active processes"]
    assert abs(status["start time"] + status["start since"] - time.time()) < 3
    text = service.internal().get("/status")
    assert text.headers["Content-Type"].startswith("text/plain")
    rows = dict(line.split(":", 1) for line in text.body.decode().splitlines())
    assert fpm <= set(rows) and rows["pool"].strip() == status["pool"]
    full = service.internal().get("/status?json&full").json()
    assert {row["pid"] for row in full["processes"]} == set(service.workers())


def direct_status(service, **fields):
    """Sends a request to a worker without nginx. Returns its status."""
    with Connection(service.socket_path) as direct:
        return direct.request(**fields)[0]


@pytest.mark.parametrize("reason, send", [
    ("bad_json", lambda service: service.public().post("/api/track", "{")),
    ("bad_member", lambda service: service.public().track("a\tb", 1)),
    ("too_large", lambda service: direct_status(service, method="POST", uri="/api/track", body=b"{}".ljust(16385))),
    ("not_found", lambda service: service.internal().get("/api/none")),
    ("method", lambda service: service.internal().get("/api/track")),
])
def test_refused_requests_are_counted_by_reason(service, reason, send):
    before = service.status()["refused"]
    reply = send(service)
    assert 400 <= getattr(reply, "status", reply) < 500
    wait_until(lambda: service.status()["refused"][reason] == before[reason] + 1, f"refused {reason}", 5)
