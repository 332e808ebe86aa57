"""GET /api/track.gif, which counts a page view of a page without JavaScript (track.pixel)."""

import struct

import pytest

from client import AGENT, CRAWLER, assert_problem
from service import LONG_TIMEOUTS, Instance, wait_until
from test_identity import bearer, history, secret_files, table, token

PATH = "/api/track.gif"


@pytest.fixture(scope="module")
def site():
    """Readers have tokens, and what they read becomes their history."""
    service = Instance("--no-limits", track__pixel="true", identity__mode='"token"', history__from_track="true", limits__pv_per_network=4, **LONG_TIMEOUTS)
    service.configure(identity__token_keys=table(secret_files(service)))
    try:
        yield service.start()
        service.check()
    finally:
        service.stop()


def pixel(client, article, headers=None, **more):
    return client.get(PATH, query={"articleId": article}, headers=headers, **more)


def assert_image(reply):
    assert (reply.status, reply.headers["Content-Type"]) == (200, "image/gif"), reply
    assert struct.unpack("<6sHH", reply.body[:10]) == (b"GIF89a", 1, 1) and reply.body[-1:] == b";" and len(reply.body) == 43
    assert reply.headers["Cache-Control"] == "private, no-store" and "Set-Cookie" not in reply.headers


@pytest.fixture
def article(site, name):
    item = name("i")
    site.put(item)
    return item


def page_views(service, article):
    service.wait_for_background_writes()
    return service.internal().get("/api/stats", query={"ids": article}).json()[article]["pv"]


def test_it_is_off_by_default(service, name):
    item = name("i")
    service.put(item)
    for client in (service.public(), service.internal()):
        assert_problem(pixel(client, item), 404, "no_route")
    assert page_views(service, item) == 0


def test_it_counts_one_page_view_and_no_reading_time(site, article):
    for _ in range(3):
        assert_image(pixel(site.public(), article))
    stats = site.stats(article)
    assert (stats["pv"], stats["uv"], stats["dwell"]["sum_ms"], stats["views"]["pv"]) == (1, 1, 0, 1)
    assert_image(pixel(site.public(agent=AGENT + " other"), article))
    assert page_views(site, article) == 2
    assert all(article in [each["id"] for each in site.hot(model=model, limit=100)] for model in ("engagement", "views"))


def test_it_ignores_who_the_reader_is(site, article, name):
    public, reader = site.public(), name("r")
    cookie = {"Cookie": public.post("/api/visitor", None).headers["Set-Cookie"].split(";")[0]}
    signed_in = bearer(token("k1", reader))
    for headers in (cookie, signed_in, {"Cookie": f"freshet_token={token('k1', reader)}"}, bearer("forged"), cookie | signed_in):
        assert_image(pixel(public, article, headers))
    assert_image(public.get(PATH, query={"articleId": article, "userId": reader, "sessionId": "s", "dwellMs": 60000}))
    stats = site.stats(article)
    assert (stats["pv"], stats["uv"], stats["dwell"]["sum_ms"]) == (1, 1, 0), "one anonymous visitor"
    other = name("i")
    site.put(other)
    public.track(other, 1)
    assert public.post("/api/track", {"articleId": article, "dwellMs": 1}, headers=signed_in).json()["uv"] == 2
    wait_until(lambda: history(public, signed_in).json()["items"] == [article], "the report in the history")
    another = name("r")
    pixel(public, article, bearer(token("k1", another)))
    assert site.keys_containing(another) == []


@pytest.mark.parametrize("headers", [{"Sec-Purpose": "prefetch"}, {"Sec-Purpose": "prefetch;prerender"}, {"Sec-Purpose": "prefetch;anonymous-client-ip"},
                                     {"User-Agent": CRAWLER}], ids=lambda each: ",".join(each.values())[:30])
def test_prefetches_and_crawlers_get_the_image_and_count_nothing(site, article, headers):
    assert_image(pixel(site.public(), article, headers))
    assert page_views(site, article) == 0
    assert_image(pixel(site.public(), article))
    assert page_views(site, article) == 1


def test_head_counts_nothing(site, article):
    reply = site.public().request("HEAD", f"{PATH}?articleId={article}")
    assert (reply.status, reply.headers["Content-Type"], reply.headers["Content-Length"], reply.body) == (200, "image/gif", "43", b"")
    assert page_views(site, article) == 0


def test_a_body_is_ignored_refused_or_too_large(site, article, name):
    public, other = site.public(), name("i")
    assert_image(pixel(public, article, body={"articleId": other}))
    assert_problem(pixel(public, article, body="x", headers={"Content-Type": "text/plain"}), 415, "bad_content_type")
    assert_problem(pixel(public, article, body="x" * 5000), 413, "too_large")
    assert page_views(site, article) == 1
    assert site.keys_containing(other) == []


@pytest.mark.parametrize("query", ["", "?", "?articleId", "?articleId=", "?articleId=a%09b", "?articleId=%00", "?articleId=" + 513 * "a", "?articleId=%FF",
                                   "?articleid=a", "?article=a", "?articleId=%"])
def test_without_a_valid_id_the_error_names_the_parameter(site, query):
    reply = site.public().get(PATH + query)
    assert reply.status == 400, reply
    assert reply.json()["code"] == "bad_target" or reply.json()["member"] == "articleId", reply


def test_other_methods_are_not_allowed(site, article):
    for method in ("POST", "PUT", "DELETE"):
        reply = site.public().request(method, f"{PATH}?articleId={article}", body="{}")
        assert_problem(reply, 405, "method_not_allowed")
        assert {each.strip() for each in reply.headers["Allow"].split(",")} == {"GET", "HEAD", "OPTIONS"}
    assert page_views(site, article) == 0


def test_one_network_cannot_raise_an_article(site, article):
    """The first four page views of a network count, then the n-th if n is a square."""
    for number in range(16):
        assert_image(pixel(site.public(agent=f"{AGENT} {number}"), article))
    assert page_views(site, article) == 6
    assert_image(pixel(site.public(agent=AGENT, source="127.99.1.1"), article))
    assert page_views(site, article) == 7


def test_requests_are_charged_to_the_address_whatever_cookie_they_have(instance, name):
    service = instance(track__pixel="true", limits__track_rate=0.001, limits__track_burst=5, **LONG_TIMEOUTS)
    item, public = name("i"), service.public()
    service.put(item)
    cookies = [public.post("/api/visitor", None).headers["Set-Cookie"].split(";")[0] for _ in range(6)]
    replies = [pixel(public, item, {"Cookie": cookie}) for cookie in cookies]
    assert [reply.status for reply in replies] == [200] * 5 + [429]
    assert [reply.headers["RateLimit-Remaining"] for reply in replies[:5]] == ["4", "3", "2", "1", "0"]
    assert_problem(public.track(item, 1), 429, "rate_limited")  # the same bucket


def test_a_page_of_another_site_can_count_a_page_view_and_nothing_else(site, article):
    headers = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "Referer": "https://evil.example/"}
    reply = pixel(site.public(), article, headers)
    assert_image(reply)
    assert "Access-Control-Allow-Origin" not in reply.headers
    assert_problem(site.public().post("/api/track", {"articleId": article, "dwellMs": 1}, headers=headers), 403, "foreign_origin")
    assert page_views(site, article) == 1
    assert_problem(pixel(site.internal(), article, headers), 403, "foreign_origin")


def test_an_unknown_article_is_treated_as_in_other_reports(instance, name):
    service, item = instance("--no-limits", track__pixel="true", items__unknown='"count"', **LONG_TIMEOUTS), name("i")
    assert_image(pixel(service.public(), item))
    counted = service.internal().get("/api/stats", query={"ids": item}).json()[item]
    assert (counted["pv"], counted["listed"], service.hot(model="engagement")) == (1, False, [])
    strict = instance("--no-limits", track__pixel="true", items__unknown='"reject"', **LONG_TIMEOUTS)
    assert_problem(pixel(strict.public(), item), 404, "unknown_item", "articleId")


def test_while_redis_is_unavailable_a_page_view_is_queued(instance, name):
    service, item = instance("--no-limits", track__pixel="true", **LONG_TIMEOUTS), name("i")
    service.put(item)
    service.make_redis_unavailable()
    assert_image(pixel(service.public(), item))
    service.restart_redis()
    wait_until(lambda: (status := service.status())["redis ready"] == len(service.workers()) and status["spooled bytes"] == 0, "the queued page view to be counted")
    assert page_views(service, item) == 1
