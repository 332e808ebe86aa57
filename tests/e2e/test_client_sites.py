"""Sites that use express.mjs, freshet_web.py and FreshetSite.php, against clients/stub.py.

Each is a program of tests/e2e/sites, which makes tokens if WITH_TOKENS is set. Its front page shows three lists, of which it recommends to `reader` of the query, who
is signed in. POST /save and /remove put and delete the item "a/b" and return whether this succeeded.
"""

import http.client
import http.cookies
import os
import re
import subprocess
import sys
import time

import pytest

from service import ROOT

HERE = os.path.join(ROOT, "tests/e2e/sites")
sys.path[:0] = [os.path.join(ROOT, "tests/e2e/clients"), os.path.join(ROOT, "scripts/clients/python")]
from freshet import sign, token  # noqa: E402
from stub import Stub  # noqa: E402

HALF_DAY_S = 43200
SITES = {
    "express": ("node", f"{HERE}/site.mjs", "{base}"),
    "flask": ("/usr/bin/python3", f"{HERE}/site.py", "flask", "{base}"),
    "django": ("/usr/bin/python3", f"{HERE}/site.py", "django", "{base}"),
    "php": ("php", "-S", "127.0.0.1:0", f"{HERE}/site.php"),
}
FILES = {"express": "javascript/express.mjs", "flask": "python/freshet_web.py", "php": "php/FreshetSite.php"}
ITEMS = [
    {"id": "1", "title": "<Rich> & \"famous\"", "url": "/posts/1?a=1&b=\"2\""},
    {"id": "2", "title": "Elsewhere", "url": "HTTPS://other.example/2"},
    {"id": "3", "title": "Code", "url": "javascript:alert(1)"},
    {"id": "<4>"},
]


class Site:
    def __init__(self, framework, port, environment):
        base = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([word.format(base=base) for word in SITES[framework]], env=os.environ | {"BASE": base} | environment,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        line = self.process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert address, line + self.process.stdout.read()
        self.port = int(address[1])

    def request(self, method, path, headers=None):
        """Returns the body and the cookie that is set, if any."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        body = response.read().decode()
        assert response.status == 200, body
        cookies = response.headers.get_all("Set-Cookie") or []
        self.cache_control = response.headers.get("Cache-Control")
        assert len(cookies) <= 1, cookies
        return body, cookies[0] if cookies else None

    def stop(self):
        self.process.terminate()
        self.process.communicate()


@pytest.fixture
def start():
    stub, sites = Stub(), []

    def start_site(framework, script, refuse=None, **environment):
        port, requests = stub.add(script, refuse)
        sites.append(Site(framework, port, {"WITH_TOKENS": "1"} | environment))
        return sites[-1], requests

    yield start_site
    for site in sites:
        site.stop()
    stub.close()


def answer(request):
    return {"json": ITEMS if request.target.startswith("/api/hot") else {"items": ITEMS[:1]} if request.method == "GET" else {"ok": True}}


def check_signatures(requests):
    for each in requests:
        seconds = int(re.search(r"ts=(\d+)", each.headers["authorization"])[1])
        assert each.headers["authorization"] == sign("k1", "i" * 32, each.method, each.target, each.body, seconds)


def expected_token(reader):
    """The token of now."""
    return token("t1", "t" * 32, reader, (time.time() // HALF_DAY_S + 2) * HALF_DAY_S)


@pytest.mark.parametrize("framework", SITES)
def test_lists_are_rendered_and_requests_are_signed(start, framework):
    site, requests = start(framework, answer)
    body, _ = site.request("GET", "/?reader=Zo%C3%AB")
    quote = r"(?:&#34;|&quot;)"
    rows = [rf"<a href=\"/posts/1\?a=1(?:&amp;|&#38;)b={quote}2{quote}\">(?:&lt;|&#60;)Rich(?:&gt;|&#62;) (?:&amp;|&#38;) {quote}famous{quote}</a>",
            r"<a href=\"HTTPS://other\.example/2\">Elsewhere</a>", "Code", r"(?:&lt;|&#60;)4(?:&gt;|&#62;)"]
    rows = [f"<li>{row}</li>" for row in rows]
    assert re.fullmatch(f"<ol>{''.join(rows)}</ol>" + f"<ol>{rows[0]}</ol>" * 2, body), body
    assert [each.target for each in requests] == ["/api/hot?limit=4", requests[1].target, "/api/items/a%2Fb/similar?limit=1"]
    assert sorted(requests[1].target.split("?")[1].split("&")) == ["limit=1", "userId=Zo%C3%AB"]
    site.request("GET", "/")
    assert requests[4].target == "/api/recommendations?limit=1"
    check_signatures(requests)


@pytest.mark.parametrize("framework", SITES)
def test_the_cookie_names_the_reader_while_they_are_signed_in(start, framework):
    site, _ = start(framework, answer)
    half_day = time.time() // HALF_DAY_S
    try:
        check_cookies(site)
    except AssertionError:
        if time.time() // HALF_DAY_S == half_day:
            raise
        check_cookies(site)  # the half-day, and with it the token, ended during the test


def check_cookies(site):
    def cookie(reader, current=None, tls=False):
        headers = {"X-Forwarded-Proto": "https"} if tls else {}
        text = site.request("GET", f"/?reader={reader}", headers | ({"Cookie": f"other=1; {current}; last=2"} if current else {}))[1]
        return http.cookies.SimpleCookie(text) if text else None

    reader = "ann/%C3%AB@example.org"
    wanted = expected_token("ann/ë@example.org")
    set_cookie = cookie(reader)["freshet_token"]
    assert (set_cookie.value, set_cookie["path"], set_cookie["httponly"], set_cookie["samesite"].lower(), set_cookie["secure"]) == (wanted, "/", True, "lax", "")
    assert site.cache_control == "private, no-store"
    assert cookie(reader, f"freshet_token={wanted}") is None, "the cookie is right"
    assert site.cache_control is None
    assert cookie(reader, "freshet_token=" + expected_token("bob"))["freshet_token"].value == wanted
    assert cookie("") is None
    removed = cookie("", f"freshet_token={wanted}")["freshet_token"]
    assert removed.value in ("", "deleted") and (removed["max-age"] == "0" or "1970" in removed["expires"]), removed
    name = "__Host-freshet_token"
    assert (cookie(reader, tls=True)[name].value, cookie(reader, tls=True)[name]["secure"]) == (wanted, True)
    assert cookie("", f"{name}={wanted}", tls=True)[name]["secure"] is True, "or the browser keeps it"


@pytest.mark.parametrize("framework", SITES)
def test_a_site_without_a_key_for_tokens_sets_no_cookie(start, framework):
    site, _ = start(framework, answer, WITH_TOKENS="")
    body, cookie = site.request("GET", "/?reader=ann")
    assert cookie is None and "Elsewhere" in body


@pytest.mark.parametrize("framework", SITES)
def test_items_are_put_and_deleted(start, framework):
    site, requests = start(framework, answer)
    assert [site.request("POST", path)[0] for path in ("/save", "/remove")] == ["true", "true"]
    assert [(each.method, each.target) for each in requests] == [("PUT", "/api/items/a%2Fb"), ("DELETE", "/api/items/a%2Fb")]
    assert requests[0].body.replace(b" ", b"") == b'{"title":"T","published_at":1}'
    check_signatures(requests)


@pytest.mark.parametrize("framework", SITES)
@pytest.mark.parametrize("failure", ["refused", "reset", "garbage", "an error"])
def test_without_the_service_lists_are_empty_and_a_change_is_reported_as_failed(start, framework, failure):
    reply = {"status": 500, "json": {"msg": "failed"}} if failure == "an error" else {"fault": failure}
    site, _ = start(framework, lambda request: reply, "connections" if failure == "refused" else None)
    assert site.request("GET", "/?reader=ann")[0] == "<ol></ol>" * 3
    assert [site.request("POST", path)[0] for path in ("/save", "/remove")] == ["false", "false"]


@pytest.mark.parametrize("framework", SITES)
def test_lists_are_empty_if_the_response_is_no_list(start, framework):
    replies = [{"json": {"ok": True}}, {"status": 204}, {"json": {"items": None}}, {"json": {"items": "x"}}, {"json": [1]}, {"json": [{"score": 1}]},
               {"text": "[" * 200_000}]
    site, requests = start(framework, lambda request: replies[(len(requests) - 1) // 3])
    for _ in replies:
        assert site.request("GET", "/?reader=ann")[0] == "<ol></ol>" * 3
    assert len(requests) == 3 * len(replies)


@pytest.mark.parametrize("framework", SITES)
def test_an_item_without_a_title_is_shown_by_its_id(start, framework):
    site, _ = start(framework, lambda request: {"json": [{"id": "5", "title": None, "url": None}, {"id": 6, "title": "", "url": 7}]})
    assert site.request("GET", "/?reader=ann")[0] == "<ol><li>5</li><li>6</li></ol>" * 3


def test_each_helper_is_at_most_60_lines_of_code():
    for path in FILES.values():
        with open(os.path.join(ROOT, "scripts/clients", path), encoding="utf-8") as file:
            code = re.sub(r'""".*?"""', "", file.read(), flags=re.S)
        lines = [line for line in code.splitlines() if line.strip() and not line.lstrip().startswith(("//", "#", "/**"))]
        assert len(lines) <= 60, (path, len(lines))
