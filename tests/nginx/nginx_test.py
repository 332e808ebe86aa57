"""The shipped nginx configuration, in front of a responder that echoes what it receives."""

import gzip
import json
import os
import re
import socket
import subprocess
import threading
import time
import unittest
import urllib.parse

from case import CRAWLER, PUBLIC, Case
from instance import AGENT, ROOT, Nginx, Sessions, auth_edits, wait_until
from responder import Responder

SCRIPTS = {"/freshet.js": 2048, "/freshet-list.js": 3072}  # public: name and largest size, gzipped
CHART = "/usr/share/javascript/chart.js/chart.min.js"
PARAMETERS = {"REQUEST_METHOD", "REQUEST_URI", "CONTENT_TYPE", "CONTENT_LENGTH", "REMOTE_ADDR", "HTTP_USER_AGENT",
              "HTTP_ORIGIN", "HTTP_COOKIE", "HTTP_AUTHORIZATION", "HTTP_IF_NONE_MATCH", "HTTP_SEC_FETCH_SITE", "HTTP_SEC_PURPOSE", "HTTP_X_FORWARDED_PROTO", "FRESHET_ZONE", "FRESHET_USER",
              "FRESHET_REQUEST_ID", "FRESHET_SITE", "HTTP_PROXY"}
INTERNAL = ["/api/stats", "/api/articles/7/stats", "/api/history/merge", "/api/interactions", "/api/users/7", "/api/jobs/7", "/api/model", "/api/whoami",
            "/api/waterfall/news/7",
            "/api/items", "/api/items/7", "/status", "/ping", "/metrics", "/health/live", "/health/ready"]


class SharedCase(Case):
    """Tests that share one nginx, made with `options`, and one responder."""

    options = {}

    @classmethod
    def setUpClass(cls):
        cls.nginx = Nginx(**cls.options)
        cls.responder = Responder(cls.nginx.socket_path)
        cls.nginx.start()

    @classmethod
    def tearDownClass(cls):
        cls.responder.close()
        cls.nginx.stop()


class Behavior(SharedCase):
    # config_test checks the shipped timeouts.
    options = {"edits": [(name, "fastcgi_read_timeout 3s", "fastcgi_read_timeout 1s") for name in ("freshet-locations.conf", "freshet-internal.conf")]}

    def test_the_workers_receive_the_configured_parameters_and_no_others(self):
        headers = {"Cookie": "a=b", "Authorization": "Bearer x", "Origin": "https://o", "If-None-Match": '"x"', "Sec-Fetch-Site": "none", "Sec-Purpose": "prefetch", "X-Forwarded-Proto": "https", "Proxy": "evil",
                   "Freshet-User": "evil", "Freshet-Zone": "internal", "X-Forwarded-For": "192.0.2.1", "Accept": "*/*"}
        seen = self.nginx.fetch("/api/track?q=%2F", body="{}", headers=dict(headers, **{"Content-Type": "text/plain"})).json()
        self.assertEqual(set(seen) - {"body", "serial"}, PARAMETERS - {"HTTP_PROXY", "FRESHET_USER"})
        self.assertEqual((seen["REQUEST_METHOD"], seen["CONTENT_TYPE"], seen["HTTP_ORIGIN"]), ("POST", "text/plain", "https://o"))
        self.assertEqual(seen["HTTP_USER_AGENT"], AGENT)
        self.assertEqual(seen["REQUEST_URI"], "/api/track?q=%2F")
        self.assertEqual((seen["REMOTE_ADDR"], seen["FRESHET_ZONE"]), ("127.0.0.1", "public"))
        self.assertEqual(seen.get("HTTP_PROXY", ""), "")  # nginx omits empty ones
        self.assertEqual((seen["HTTP_COOKIE"], seen["HTTP_AUTHORIZATION"], seen["HTTP_IF_NONE_MATCH"]), ("a=b", "Bearer x", '"x"'))
        self.assertNotIn("FRESHET_USER", seen)
        self.assertEqual(seen["FRESHET_SITE"], f"http://{self.nginx.host}:{self.nginx.port}")
        self.assertEqual(seen["CONTENT_LENGTH"], "2")

    def test_a_chunked_body_reaches_the_workers_with_its_length(self):
        seen = self.nginx.fetch("/api/track", body=iter([b"12", b"345"])).json()  # an iterator: http.client sends chunks
        self.assertEqual((seen["CONTENT_LENGTH"], seen["body"]), ("5", 5))

    def test_every_public_route_reaches_the_workers_as_public(self):
        for route in PUBLIC:
            self.assertEqual(self.nginx.fetch(route).json()["FRESHET_ZONE"], "public", route)

    def test_internal_routes_do_not_exist_on_the_public_server_in_any_spelling(self):
        before = len(self.responder.requests)
        for route in INTERNAL:
            for spelling in (route, route.replace("/api/", "/api/track/../"), route.replace("/api/", "/api//"), route + "?x=/api/track"):
                self.assert_problem(self.nginx.fetch(spelling), 404)
        self.assertEqual(len(self.responder.requests), before)

    def test_the_internal_server_serves_every_route(self):
        for route in PUBLIC + INTERNAL:
            self.assertEqual(self.nginx.fetch(route, internal=True).json()["FRESHET_ZONE"], "internal", route)

    def test_the_internal_server_serves_the_openapi_document(self):
        self.assertEqual(self.nginx.fetch("/openapi.json", internal=True).json()["openapi"], "3.1.0")

    def test_the_model_file_is_sent_only_after_a_worker_has_authorized_the_request(self):
        os.makedirs(os.path.join(self.nginx.directory, "model"), exist_ok=True)
        with open(os.path.join(self.nginx.directory, "model/freshet.model"), "wb") as file:
            file.write(b"the model")
        for path in ("/freshet.model", "//freshet.model", "/x/../freshet.model", "/%66reshet.model"):
            reply = self.nginx.fetch(path, internal=True)
            self.assert_problem(reply, 404)
            self.assertNotIn(b"the model", reply.body)
            self.assert_problem(self.nginx.fetch(path), 404)
        self.assertEqual(self.nginx.fetch("/api/model?model", internal=True).body, b"the model")

    def test_writes_to_routes_that_are_read_only_in_public_are_refused(self):
        for route in ("/api/waterfall/news", "/api/follows"):
            self.assert_problem(self.nginx.fetch(route, body="{}"), 403)
            self.assertEqual(self.nginx.fetch(route, method="OPTIONS").status, 200)

    def test_every_reply_carries_the_request_id_that_the_workers_got(self):
        for path, internal in (("/api/track", False), ("/api/hot?id", False), ("/status", True)):
            reply = self.nginx.fetch(path, internal=internal)
            self.assertEqual(reply.headers.get_all("X-Request-Id"), [reply.json()["FRESHET_REQUEST_ID"]])
        for path, internal in (("/freshet.js", False), ("/nothing", False), ("/", True)):
            self.assertEqual(len(self.nginx.fetch(path, internal=internal).headers.get_all("X-Request-Id")), 1, path)

    def test_a_get_whose_worker_died_is_answered_by_another(self):
        for zone in ("public", "internal"):
            for times in ("once", "six"):
                reply = self.nginx.fetch(f"/api/feed?die-{times}={zone}", internal=zone == "internal")
                self.assertEqual((reply.status, reply.json()["FRESHET_ZONE"]), (200, zone))

    def test_a_pixel_whose_worker_died_is_not_retried(self):
        for times in ("once", "six"):
            self.assert_problem(self.nginx.fetch(f"/api/track.gif?die-{times}=pixel"), 502)
            self.assertEqual(sum(seen["REQUEST_URI"].endswith(f"die-{times}=pixel") for seen in self.responder.requests), 1)

    def test_a_post_whose_worker_died_is_not_retried(self):
        for zone in ("public", "internal"):
            reply = self.nginx.fetch(f"/api/feed?die-once=post-{zone}", body="{}", internal=zone == "internal")
            self.assert_problem(reply, 502)
            self.assertEqual(reply.headers["Retry-After"], "1")
            self.assertEqual(sum(seen["REQUEST_URI"].endswith(f"post-{zone}") for seen in self.responder.requests), 1)

    def test_a_worker_that_does_not_answer_is_a_504(self):
        for internal in (False, True):
            reply = self.nginx.fetch("/api/feed?hang", body="{}", internal=internal)
            self.assert_problem(reply, 504)
            self.assertEqual(reply.headers["Retry-After"], "1")

    def test_bodies_over_the_limit_are_413(self):
        for path, internal, max_bytes in (("/api/feed", False, 16384), ("/api/feed", True, 16384), ("/api/track", False, 4096), ("/api/views", False, 4096)):
            self.assertEqual(self.nginx.fetch(path, body="x" * max_bytes, internal=internal).json()["body"], max_bytes)
            reply = self.nginx.fetch(path, body="x" * (max_bytes + 1), internal=internal)
            self.assert_problem(reply, 413)
            self.assertEqual(reply.headers["Retry-After"], "1")

    def test_every_reply_disables_mime_sniffing(self):
        for path, internal in (("/api/track", False), ("/api/hot?sniff", False), ("/", False), ("/freshet.js", False), ("/nowhere", False),
                               ("/api/nowhere", False), ("/status", True), ("/", True), ("/openapi.json", True), ("/api/items/7", True)):
            self.assertEqual(self.nginx.fetch(path, internal=internal).headers.get_all("X-Content-Type-Options"), ["nosniff"], path)

    def test_no_log_identifies_the_readers_of_failed_requests(self):
        secret = {"X-Forwarded-For": "198.51.100.7", "Cookie": "secret-reader=1", "Authorization": "secret-reader"}
        query = "?userId=secret-reader"
        statuses = []
        for path, method, body in ((f"/api/feed{query}&hang", "POST", "{}"), (f"/api/feed{query}&die-once=log", "POST", "{}"),
                                   (f"/api/nowhere{query}", "GET", None), (f"/nowhere{query}", "GET", None), (f"/api/track{query}", "POST", "x" * 5000),
                                   (f"/api/follows{query}", "PUT", "{}"), (f"/api/hot{query}&die-six=log", "GET", None)):
            statuses.append(self.nginx.fetch(path, method=method, body=body, headers=secret).status)
        statuses += [self.nginx.fetch(path, internal=True, headers=secret).status for path in ("/api/users/secret-reader", f"/api/history{query}&hang")]
        crawler = {"User-Agent": CRAWLER}  # 10 requests a second, which even a busy machine exceeds
        statuses.append(next((429 for _ in range(1000) if self.nginx.fetch(f"/api/track{query}", body="{}", headers=crawler).status == 429), None))

        def a_refusal_was_logged():  # one in a hundred is
            for _ in range(50):
                self.nginx.fetch(f"/api/track{query}", body="{}", headers=crawler)
            return '"status":429' in self.nginx.log("freshet-public.log")

        self.assertEqual(statuses[:6], [504, 502, 404, 404, 413, 403])
        self.assertEqual(statuses[-1], 429)
        wait_until(lambda: "/api/users/-" in self.nginx.log("freshet-internal.log"), "the log")
        wait_until(a_refusal_was_logged, "a refusal in the log", 60)
        for name in os.listdir(os.path.join(self.nginx.directory, "log")):
            text = self.nginx.log(name)
            for private in ("secret-reader", "198.51.100.7", "127.0.0.1", "userId"):
                self.assertNotIn(private, text, name)

    def test_bulk_routes_of_the_internal_server_take_eight_mebibytes(self):
        body = "x" * (8 << 20)
        for route in ("/api/items", "/api/interactions", "/api/waterfall/news"):
            self.assertEqual(self.nginx.fetch(route, body=body, internal=True).json()["body"], 8 << 20)
        self.assert_problem(self.nginx.fetch("/api/items", body=body + "x", internal=True), 413)

    def test_item_bodies_may_be_two_mebibytes_for_any_id(self):
        body = "\\u0001" * (256 << 10)  # the longest JSON escape
        for item in ("one", "one%2Ftwo", "list%3F"):
            reply = self.nginx.fetch(f"/api/items/{item}", method="PUT", body=body, internal=True)
            self.assertEqual(reply.json()["body"], len(body))
        self.assert_problem(self.nginx.fetch("/api/items/one", method="PUT", body="x" * ((2 << 20) + 1), internal=True), 413)

    def test_replies_over_a_kibibyte_are_compressed(self):
        headers = {"Accept-Encoding": "gzip"}
        reply = self.nginx.fetch("/api/feed?big", headers=headers)
        self.assertEqual(reply.headers["Content-Encoding"], "gzip")
        self.assertIn("REQUEST_URI", json.loads(gzip.decompress(reply.body)))
        self.assertEqual(self.nginx.fetch("/api/feed?big", headers=headers, internal=True).headers["Content-Encoding"], "gzip")
        self.assertIsNone(self.nginx.fetch("/api/feed", headers=headers).headers["Content-Encoding"])
        self.assertIsNone(self.nginx.fetch("/api/feed?big").headers["Content-Encoding"])

    def test_the_openapi_document_and_the_tag_are_compressed(self):
        for path, internal in (("/openapi.json", True), ("/freshet.js", False), ("/freshet.js", True)):
            plain = self.nginx.fetch(path, internal=internal)
            self.assertIsNone(plain.headers["Content-Encoding"])
            self.assertEqual(plain.headers["Vary"], "Accept-Encoding")
            reply = self.nginx.fetch(path, headers={"Accept-Encoding": "gzip"}, internal=internal)
            self.assertEqual((reply.headers["Content-Encoding"], reply.headers["Vary"]), ("gzip", "Accept-Encoding"))
            self.assertEqual(gzip.decompress(reply.body), plain.body)
            for each, accepted in ((plain, "identity"), (reply, "gzip")):
                headers = {"If-None-Match": each.headers["ETag"], "Accept-Encoding": accepted}
                self.assertEqual(self.nginx.fetch(path, headers=headers, internal=internal).status, 304)

    def test_every_page_is_compressed_in_advance(self):
        for name in set(os.listdir(os.path.join(ROOT, "nginx/html"))) - {"zone.js"}:  # which the configuration contains
            reply = self.nginx.fetch(f"/{name}", headers={"Accept-Encoding": "gzip"}, internal=True)
            # A reply that nginx compresses itself has no length.
            self.assertEqual((reply.headers["Content-Encoding"], reply.headers["Content-Length"]), ("gzip", str(len(reply.body))), name)
            with open(os.path.join(ROOT, "nginx/html", name), "rb") as file:
                self.assertEqual(gzip.decompress(reply.body), file.read(), name)

    def test_a_cached_list_is_compressed_for_clients_that_accept_it(self):
        path = "/api/hot?big&cached"
        plain = self.nginx.fetch(path)
        reply = self.nginx.fetch(path, headers={"Accept-Encoding": "gzip"})
        self.assertEqual(reply.headers["Content-Encoding"], "gzip")
        self.assertEqual(gzip.decompress(reply.body), plain.body)  # from the cache: the same serial number
        again = self.nginx.fetch(path)
        self.assertEqual((again.body, again.headers["Content-Encoding"]), (plain.body, None))
        self.assertEqual((plain.headers["ETag"], reply.headers["ETag"]), ('"one"', 'W/"one"'))
        for each in (plain, reply):
            self.assertIn("Accept-Encoding", ", ".join(each.headers.get_all("Vary")))
            for encoding in ("identity", "gzip"):
                headers = {"If-None-Match": each.headers["ETag"], "Accept-Encoding": encoding}
                self.assertEqual(self.nginx.fetch(path, headers=headers).status, 304)

    def test_the_hot_list_is_cached_without_cookies(self):
        first = self.nginx.fetch("/api/hot?cached", headers={"If-None-Match": '"other"'})
        self.assertNotIn("HTTP_IF_NONE_MATCH", first.json())
        again = self.nginx.fetch("/api/hot?cached")
        self.assertEqual(again.json()["serial"], first.json()["serial"])
        for reply in (first, again):
            self.assertIsNone(reply.headers["Set-Cookie"])
        self.assertEqual(self.nginx.fetch("/api/hot?cached", headers={"If-None-Match": '"one"'}).status, 304)

    def test_lists_with_different_arguments_or_origins_are_cached_separately(self):
        serials = [self.nginx.fetch(path, headers=headers).json()["serial"] for path, headers in (
            ("/api/hot?a=1", {}), ("/api/hot?a=2", {}), ("/api/hot?a=1&a=2", {}), ("/api/hot?a=1", {"Origin": "https://o"}))]
        self.assertEqual(len(set(serials)), 4)

    def test_no_list_is_older_than_two_seconds_busy_or_idle(self):
        born, oldest = {}, 0.0

        def fetch_busy():
            began = time.monotonic()
            serial = self.nginx.fetch("/api/hot?busy").json()["serial"]
            born.setdefault(serial, time.monotonic())
            return began - born[serial]

        idle = self.nginx.fetch("/api/hot?idle").json()["serial"]
        since = time.monotonic()
        while len(born) < 3:
            oldest = max(oldest, fetch_busy())
            time.sleep(0.02)  # an address may send 100 requests a second
        self.assertLess(oldest, 2.0)
        self.assertGreater(oldest, 0.5)  # the list is cached
        wait_until(lambda: time.monotonic() > since + 2.0, "the list to expire")
        self.assertNotEqual(self.nginx.fetch("/api/hot?idle").json()["serial"], idle)
        self.assertIn('"cache":"EXPIRED"', self._public_log("EXPIRED"))

    def test_the_stale_list_is_served_when_no_worker_answers(self):
        first = self.nginx.fetch("/api/hot?answers-once")

        def stale_list_was_served():
            self.assertEqual(self.nginx.fetch("/api/hot?answers-once").body, first.body)
            return '"cache":"STALE"' in self.nginx.log("freshet-public.log")

        wait_until(stale_list_was_served, "the stale list")

    def test_the_hot_list_is_not_cached_on_the_internal_server(self):
        serials = {self.nginx.fetch("/api/hot", internal=True).json()["serial"] for _ in range(3)}
        self.assertEqual(len(serials), 3)

    def test_the_log_truncates_addresses_and_omits_query_strings(self):
        self.nginx.fetch("/api/recommendations?userId=secret-reader", headers={"User-Agent": "the log's test"})
        line = self._public_log("the log's test")
        self.assertNotIn("secret-reader", line)
        self.assertIn('"address":"127.0.0.0"', line)
        self.assertNotIn("127.0.0.1", line)
        for entry in line[:line.rindex("\n")].splitlines():  # nginx may still be writing the last one
            json.loads(entry)

    def _public_log(self, expected):
        wait_until(lambda: expected in self.nginx.log("freshet-public.log"), f"{expected} in the log")
        return self.nginx.log("freshet-public.log")

    def test_idle_connections_to_a_worker_are_closed_within_ten_seconds(self):
        self.nginx.fetch("/api/track")
        self.assertGreater(self.responder.connections, 0)
        wait_until(lambda: self.responder.connections == 0, "nginx to close its connections", 11)

    def test_malformed_requests_get_a_problem_with_a_4xx_status(self):
        for raw, status in ((b"GET /\x01 HTTP/1.1\r\n\r\n", b"400"), (b"GET /../.. HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
                            (b"GET /api/hot HTTP/1.1\r\n\r\n", b"400"),
                            (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"414"),
                            (b"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + b"a" * 9000 + b"\r\n\r\n", b"400")):
            for port in (self.nginx.port, self.nginx.internal_port):
                with socket.create_connection((self.nginx.host, port), 10) as sender:
                    sender.sendall(raw)
                    head, _, body = sender.makefile("rb").read().partition(b"\r\n\r\n")
                    self.assertEqual(head.split()[1], status, raw[:20])
                    self.assertIn(b"application/problem+json", head)
                    self.assertEqual(json.loads(body)["status"], int(status))

    def test_headers_may_total_24_kibibytes(self):
        for lines, status in ((3, 200), (4, 400)):
            for internal in (False, True):
                reply = self.nginx.fetch("/api/feed", headers={f"X-Long-{number}": "a" * 7500 for number in range(lines)}, internal=internal)
                self.assertEqual(reply.status, status)

    def test_a_reply_with_long_headers_passes(self):
        self.assertEqual(len(self.nginx.fetch("/api/feed?head").headers["X-Long"]), 7168)

    def test_nginx_has_a_process_for_each_core_and_writes_its_pid(self):
        with open(os.path.join(self.nginx.directory, "run/nginx.pid"), encoding="ascii") as file:
            self.assertEqual(int(file.read()), self.nginx.pid)
        titles = []
        with open(f"/proc/{self.nginx.pid}/task/{self.nginx.pid}/children", encoding="ascii") as file:
            for child in file.read().split():
                with open(f"/proc/{child}/cmdline", encoding="utf-8") as title:
                    titles.append(title.read())
        self.assertEqual(sum("worker process" in title for title in titles), os.cpu_count())

    def test_a_page_is_revalidated_and_not_sent_twice(self):
        for path, internal in (("/", True), ("/freshet.js", False)):
            reply = self.nginx.fetch(path, internal=internal)
            self.assertEqual(reply.headers["Cache-Control"], "no-cache")
            self.assertEqual(self.nginx.fetch(path, headers={"If-None-Match": reply.headers["ETag"]}, internal=internal).status, 304)

    def test_pages_have_a_strict_content_policy(self):
        page = self.nginx.fetch("/", internal=True)
        with open(os.path.join(self.nginx.directory, "html/index.html"), "rb") as file:
            self.assertEqual(page.body, file.read())
        policy = page.headers["Content-Security-Policy"]
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertEqual((page.headers["X-Content-Type-Options"], page.headers["Referrer-Policy"]), ("nosniff", "same-origin"))
        self.assert_problem(self.nginx.fetch("/", body="x", internal=True), 405)
        self.assert_problem(self.nginx.fetch("/", body="x" * (2 << 20), internal=True), 413)

    def test_the_public_server_has_no_page_but_the_scripts_for_sites(self):
        for script in SCRIPTS:
            with open(os.path.join(ROOT, "nginx/html" + script), "rb") as file:
                self.assertEqual(self.nginx.fetch(script).body, file.read())
            self.assert_problem(self.nginx.fetch(script, body="x"), 405)
            self.assert_problem(self.nginx.fetch(script, body="x" * (2 << 20)), 413)
        for path in ["/", "/nothing", "/api/nothing", "/api/nothing.js", "/dashboard", *(f"/{name}" for name in os.listdir(os.path.join(ROOT, "nginx/html")))]:
            if path not in SCRIPTS:
                for accept in ("*/*", "text/html,*/*;q=0.8"):
                    self.assert_problem(self.nginx.fetch(path, headers={"Accept": accept}), 404)

    def test_an_address_of_the_internal_server_that_does_not_exist_is_a_page_in_a_browser(self):
        browser = {"Accept": "text/html,*/*;q=0.8"}
        for path in ("/nothing?absent", "/nothing.html", "/deep/down?absent"):
            page = self.nginx.fetch(path, headers=browser, internal=True)
            self.assertEqual((page.status, page.headers["Content-Type"]), (404, "text/html"), path)
            self.assertIn("default-src 'none'", page.headers["Content-Security-Policy"])
            self.assert_problem(self.nginx.fetch(path, internal=True), 404)
        # A worker's own problem document passes: below /api/, and other errors.
        for path, status in (("/api/nothing?absent", 404), ("/nothing?denied", 403)):
            reply = self.nginx.fetch(path, headers=browser, internal=True)
            self.assertEqual((reply.status, reply.json()["REQUEST_URI"]), (status, path))

    def test_the_internal_server_has_the_pages_and_identifies_itself(self):
        for path in ("/hot.js", "/404.html"):
            with open(os.path.join(ROOT, "nginx/html", path[1:]), "rb") as file:
                self.assertEqual(self.nginx.fetch(path, internal=True).body, file.read())
        self.assertEqual(self.nginx.fetch("/dashboard", internal=True).body, self.nginx.fetch("/dashboard.html", internal=True).body)
        self.assertIn(b'"internal"', self.nginx.fetch("/zone.js", internal=True).body)
        self.assertEqual(self.nginx.fetch("/zone.js", internal=True).headers["Content-Type"], "application/javascript")

    @unittest.skipUnless(os.path.exists(CHART), "SKIPPED: not installed: libjs-chart.js")
    def test_the_internal_server_has_debians_chart_js_and_no_other_file_of_its_folder(self):
        reply = self.nginx.fetch("/chart.js/chart.min.js", headers={"Accept-Encoding": "gzip"}, internal=True)
        self.assertEqual((reply.status, reply.headers["Content-Type"], reply.headers["Content-Encoding"]), (200, "application/javascript", "gzip"))
        with open(CHART, "rb") as file:
            self.assertEqual(gzip.decompress(reply.body), file.read())
        for path in ("/chart.js/", "/chart.js/chart.js", "/chart.js/chart.min.js/../../jquery/jquery.js"):
            # a worker must refuse it
            self.assertEqual(json.loads(self.nginx.fetch(path, internal=True).body)["REQUEST_URI"], path)
        self.assertEqual(self.nginx.fetch("/chart.js/chart.min.js").status, 404)

    def test_the_scripts_for_sites_are_at_most_two_and_three_kibibytes(self):
        for script, size in SCRIPTS.items():
            self.assertLessEqual(len(self.nginx.fetch(script, headers={"Accept-Encoding": "gzip"}).body), size, script)


# Ids as sites have them, one a segment of a path. "/" alone is a slash that nginx merges with its neighbors.
IDS = ["a/b", "a//b", "/", "//", "/a/", "https://example.org/post?p=1&x=%2F#top", "100%", "%2F", "%252f", "a?b", "a#b", "a b", "a+b", "a&b=c;d", "ärzte-日本-🍃",
       "similar", "a/similar", "hot", "api/hot", "freshet.js", "a.js", "b.html"]


class Ids(SharedCase):
    """Every location that contains an id, with ids that nginx decodes to something else."""

    options = {"limits": False}

    def _is_sent(self, path, zone, **more):
        reply = self.nginx.fetch(path, internal=zone == "internal", **more)
        self.assertEqual(reply.status, 200, path)
        self.assertEqual((reply.json()["REQUEST_URI"], reply.json()["FRESHET_ZONE"]), (path, zone))
        return reply

    def test_every_id_reaches_the_workers_as_it_was_sent(self):
        for each in IDS:
            escaped = urllib.parse.quote(each, safe="")
            for zone in ("public", "internal"):
                self._is_sent(f"/api/items/{escaped}/similar?limit=1", zone)
            for path in ("/api/items/{}", "/api/articles/{}/stats", "/api/users/{}", "/api/jobs/{}", "/api/waterfall/news/{}"):
                self._is_sent(path.format(escaped), "internal")

    def test_an_item_with_any_id_may_be_long_and_take_its_time(self):
        body = "x" * (64 << 10)
        for each in IDS:
            path = f"/api/items/{urllib.parse.quote(each, safe='')}"
            self.assertEqual(self._is_sent(path, "internal", method="PUT", body=body).json()["body"], len(body))

    def test_an_item_of_the_internal_server_is_not_public(self):
        for each in IDS:
            if each not in ("similar", "a/similar"):  # which look like public routes; the workers refuse them
                self.assert_problem(self.nginx.fetch(f"/api/items/{urllib.parse.quote(each, safe='')}"), 404)


# A site as it may be before OPERATIONS.md's edit: a server with two lines of names, and one that redirects to it.
SITE = """server {
  listen %s;
  server_name example.org;
  server_name www.example.org
              example.net;
  default_type text/plain;
  location / { return 200 "the site"; }
  location /api/ { return 200 "the site's api"; }
}
server {
  listen %s;
  server_name old.example.org;
  return 301 http://example.org$request_uri;
}
"""


def with_freshet(site):
    """The file of a site after the edit that OPERATIONS.md describes."""
    with open(os.path.join(ROOT, "OPERATIONS.md"), encoding="utf-8") as file:
        edit = re.search(r"^ *sed -i '([^']*)' \$site$", file.read(), re.M)[1]
    return subprocess.run(["sed", edit], input=site, capture_output=True, text=True, check=True).stdout


class OwnServer(Case):
    """freshet-locations.conf in a server of the site, at the root and under a prefix."""

    def _serve(self, prefix=""):
        self.nginx = Nginx(edits=[("freshet-locations.conf", "(?<freshet_prefix>)", f"(?<freshet_prefix>{prefix})")], site=with_freshet(SITE))
        self.responder = Responder(self.nginx.socket_path)
        self.nginx.start()

    def tearDown(self):
        self.responder.close()
        self.nginx.stop()

    def _is_the_sites(self, *paths):
        for path in paths:
            self.assertIn(self.nginx.fetch(path).body, (b"the site", b"the site's api"), path)

    def test_only_freshets_own_routes_are_taken(self):
        self._serve()
        for route in PUBLIC:
            seen = self.nginx.fetch(route).json()
            self.assertEqual((seen["REQUEST_URI"], seen["FRESHET_ZONE"], seen.get("FRESHET_PREFIX")), (route, "public", None))
        self._is_the_sites("/", "/api/", "/api/orders", "/api/track/1", "/api/tracks", "/api/items/7", "/api/items", "/api/history/merge", "/api/stats", "/hot.js",
                           "/openapi.json", "/js/freshet.js", "/freshet.json", "/freshet-.js", "/freshet-listxjs", "/v1/api/hot")
        for script in SCRIPTS:
            self.assertIn(b"((win, doc)", self.nginx.fetch(script).body)
        redirect = self.nginx.fetch("/api/hot", headers={"Host": "old.example.org"})
        self.assertEqual((redirect.status, redirect.headers["Location"]), (301, "http://example.org/api/hot"))

    def test_a_prefix_moves_every_route_and_the_scripts(self):
        self._serve("/freshet")
        for script in SCRIPTS:
            with open(os.path.join(ROOT, "nginx/html" + script), "rb") as file:
                text = file.read()
            for encoding, decode in (("identity", bytes), ("gzip", gzip.decompress)):
                reply = self.nginx.fetch("/freshet" + script, headers={"Accept-Encoding": encoding})
                self.assertEqual((decode(reply.body), reply.headers["Content-Type"]), (text, "application/javascript"))
        for route in [*PUBLIC, "/api/items/a%2Fb/similar?limit=1"]:
            seen = self.nginx.fetch("/freshet" + route).json()
            self.assertEqual((seen["REQUEST_URI"], seen["FRESHET_PREFIX"]), ("/freshet" + route, "/freshet"))
        self._is_the_sites(*PUBLIC, *SCRIPTS, "/freshet", "/freshet/", "/freshet/api/orders", "/freshet/freshet/api/hot")
        # The locations inside still apply.
        self.assert_problem(self.nginx.fetch("/freshet/api/follows", body="{}"), 403)
        self.assert_problem(self.nginx.fetch("/freshet/api/track", body="x" * 5000), 413)
        self.assertEqual(len({self.nginx.fetch("/freshet/api/hot?cached").json()["serial"] for _ in range(3)}), 1)
        self.assertEqual(self.nginx.fetch("/freshet/api/feed?die-six").json()["FRESHET_PREFIX"], "/freshet")

    def test_a_failure_is_logged_although_the_server_has_no_log_of_its_own(self):
        self._serve()
        self.assert_problem(self.nginx.fetch("/api/feed?die-once", body="{}"), 502)
        wait_until(lambda: "502: the worker closed the connection" in self.nginx.log("freshet-error.log"), "the cause")

    def _site(self, request):
        """FRESHET_SITE of a raw request."""
        with self.nginx.connect() as sender:
            sender.sendall(request)
            head, _, body = sender.makefile("rb").read().partition(b"\r\n\r\n")
            return json.loads(body)["FRESHET_SITE"] if head.split()[1] == b"200" else int(head.split()[1])

    def test_the_site_is_known_without_a_host_header(self):
        self._serve()
        port = self.nginx.port
        write = b"POST /api/track HTTP/%s\r\n%sConnection: close\r\nContent-Length: 2\r\n\r\n{}"
        self.assertEqual(self._site(write % (b"1.0", b"")), f"http://example.org:{port}")
        for version in (b"1.0", b"1.1"):
            self.assertEqual(self._site(write % (version, b"Host: www.example.net:81\r\n")), "http://www.example.net:81")
            self.assertEqual(self._site(write % (version, b"Host:\r\n")), 400)
        self.assertEqual(self._site(write % (b"1.1", b"")), 400)

    def test_a_server_without_a_name_has_no_site(self):
        self._serve()
        with self.nginx.connect(internal=True) as sender:
            sender.sendall(b"GET /api/stats HTTP/1.0\r\n\r\n")
            self.assertEqual(json.loads(sender.makefile("rb").read().partition(b"\r\n\r\n")[2])["FRESHET_SITE"], "http://")


def features(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@unittest.skipUnless("http_v3_module" in features("nginx", "-V"), "SKIPPED: this nginx has no HTTP/3; Debian 13's does: tests/scripts/suite_on trixie")
@unittest.skipUnless("HTTP3" in features("curl", "-V"), "SKIPPED: this curl has no HTTP/3; Debian 13's does: tests/scripts/suite_on trixie")
class Http3(Case):
    def test_the_site_is_known_over_http3(self):
        nginx = Nginx(edits=[("freshet-public.conf", "  server_name _;", "  server_name _;\n  listen HOST:18443 quic reuseport;\n"
                              "  ssl_certificate DIR/etc/cert;\n  ssl_certificate_key DIR/etc/key;\n")])
        responder = Responder(nginx.socket_path)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj", "/CN=example.org",
                        "-keyout", f"{nginx.directory}/etc/key", "-out", f"{nginx.directory}/etc/cert"], check=True, capture_output=True)
        nginx.start()
        try:
            done = subprocess.run(["curl", "-sS", "--http3-only", "-k", "--retry", "20", "--retry-all-errors", "--retry-delay", "1", "--resolve", f"example.org:18443:{nginx.host}",
                                   "-d", "{}", "-w", "\n%{http_version}", "https://example.org:18443/api/track"], capture_output=True, text=True, check=False, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            body, _, version = done.stdout.rpartition("\n")
            self.assertEqual((version, json.loads(body)["FRESHET_SITE"]), ("3", "https://example.org:18443"))
        finally:
            responder.close()
            nginx.stop()


class Forwarded(Case):
    """Which forwarded addresses are trusted: none as shipped, those of a named proxy once it is configured."""

    def _address(self, edits, sent):
        nginx = Nginx(edits=edits)
        responder = Responder(nginx.socket_path)
        nginx.start()
        try:
            return nginx.fetch("/api/track", body="{}", headers={"X-Forwarded-For": sent, "X-Real-IP": sent, "Forwarded": f"for={sent}"}).json()["REMOTE_ADDR"]
        finally:
            responder.close()
            nginx.stop()

    def test_as_shipped_forwarded_addresses_are_ignored(self):
        self.assertEqual(self._address([], "203.0.113.9"), "127.0.0.1")

    def test_a_peer_other_than_the_configured_proxy_is_ignored(self):
        uncomment = [("freshet-public.conf", "#real_ip", "real_ip"), ("freshet-public.conf", "#set_real_ip_from", "set_real_ip_from")]
        self.assertEqual(self._address(uncomment, "203.0.113.9"), "127.0.0.1")

    def test_only_the_last_address_of_the_configured_proxy_is_trusted(self):
        named = [("freshet-public.conf", "#real_ip", "real_ip"),
                 ("freshet-public.conf", "#set_real_ip_from 192.0.2.0/24;", "set_real_ip_from 127.0.0.1;")]
        self.assertEqual(self._address(named, "203.0.113.9"), "203.0.113.9")
        # The last address, which the proxy itself saw, not what a client sent before it.
        self.assertEqual(self._address(named, "198.51.100.1, 203.0.113.9"), "203.0.113.9")


class Unavailable(Case):
    def test_without_a_pool_the_answer_is_a_502_with_retry_after(self):
        nginx = Nginx().start()
        try:
            for path, body in (("/api/hot", None), ("/api/track", "{}")):
                reply = nginx.fetch(path, body=body)
                self.assert_problem(reply, 502)
                self.assertEqual(reply.headers["Retry-After"], "1")
        finally:
            nginx.stop()

    def test_each_failure_is_logged_once_with_its_cause_and_without_reader_data(self):
        nginx = Nginx(edits=[(name, "fastcgi_read_timeout 3s", "fastcgi_read_timeout 1s") for name in ("freshet-locations.conf", "freshet-internal.conf")])
        nginx.start()
        responder = None
        try:
            expected = []
            for internal in (False, True):
                for path, body, method in (("/api/hot", None, "GET"), ("/api/feed", "{}", "POST")):
                    self.assert_problem(nginx.fetch(f"{path}?userId=secret", body=body, internal=internal), 502)
                    expected.append(f"502: no connection to the workers' socket.* {method} {path}")
            responder = Responder(nginx.socket_path)
            for query, cause in (("die-once", "502: the worker closed the connection"), ("hang", "504: no answer in time")):
                self.assertGreaterEqual(nginx.fetch(f"/api/feed?{query}&userId=secret", body="{}").status, 502)
                expected.append(f"{cause}.* POST /api/feed")
            self.assertEqual(nginx.fetch("/api/feed?die-six").status, 200)
            self.assert_problem(nginx.fetch("/api/nothing"), 404)
            self.assertEqual(nginx.fetch("/api/hot", internal=True).status, 200)  # the last one, logged after the others

            def lines():
                return [line for line in nginx.log("freshet-error.log").splitlines() if "[error]" in line]

            wait_until(lambda: len(lines()) >= len(expected), "the log")
            self.assertEqual(len(lines()), len(expected), lines())
            found = lines()  # of several processes, so in any order
            for pattern in expected:
                line = next((each for each in found if re.search(rf"^\S+ \[error\] {pattern}$", each)), None)
                self.assertIsNotNone(line, f"{pattern} in {found}")
                found.remove(line)
            self.assertNotRegex(nginx.log("freshet-error.log"), r"secret|127\.|userId")
        finally:
            if responder:
                responder.close()
            nginx.stop()

    def test_without_limits_nothing_is_limited(self):
        nginx = Nginx(limits=False)
        responder = Responder(nginx.socket_path)
        nginx.start()
        statuses = []
        try:
            threads = [threading.Thread(target=lambda: statuses.extend(nginx.fetch("/api/track", body="{}").status for _ in range(100)))
                       for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(set(statuses), {200})
            self.assertEqual(len(statuses), 400)
        finally:
            responder.close()
            nginx.stop()


class Syntax(Case):
    def test_nginx_accepts_the_shipped_configuration(self):
        for limits in (True, False):
            nginx = Nginx(limits=limits)
            try:
                status, output = nginx.test()
                self.assertEqual(status, 0, output)
                self.assertNotIn("[warn]", output)
            finally:
                nginx.stop()


class Identity(Case):
    """auth_request as in the shipped files, with a session back end that knows one cookie."""

    def setUp(self):
        self.backend = Sessions({"sid=alice": "reader-7"})
        self.nginx = Nginx(edits=auth_edits(self.backend.port))
        self.responder = Responder(self.nginx.socket_path)
        self.nginx.start()

    def tearDown(self):
        self.responder.close()
        self.nginx.stop()
        self.backend.close()

    def _user(self, path="/api/history", **more):
        return self.nginx.fetch(path, **more).json().get("FRESHET_USER")

    def test_the_reader_is_the_sessions_user_and_none_without_a_session(self):
        self.assertEqual(self._user(headers={"Cookie": "a=b; sid=alice"}), "reader-7")
        self.assertIsNone(self._user())
        self.assertIsNone(self._user(headers={"Cookie": "sid=forged"}))
        self.assertEqual(self._user("/api/track", body="{}", headers={"Cookie": "sid=alice"}), "reader-7")
        self.assertEqual(self.backend.bodies, [b""] * 4)
        self.assertEqual(self.backend.uris, ["/api/history"] * 3 + ["/api/track"])

    def test_no_client_header_sets_the_reader(self):
        evil = {name: "evil" for name in ("X-User-Id", "X-User-ID", "Freshet-User", "FRESHET_USER", "X-Freshet-User", "Remote-User",
                                          "X-Remote-User", "X-Forwarded-User")}
        self.assertIsNone(self._user(headers=evil))
        self.assertEqual(self._user(headers=dict(evil, Cookie="sid=alice")), "reader-7")
        self.assertEqual(self.backend.user_ids, [None, None])
        self.assertIsNone(self._user("/api/history?FRESHET_USER=evil&X-User-Id=evil"))

    def test_internal_locations_are_not_accessible_to_clients(self):
        for path in ("/_freshet_who", "/_freshet_problem"):
            self.assert_problem(self.nginx.fetch(path), 404)

    def test_the_hot_list_and_the_pixel_do_not_check_the_session(self):
        self.assertEqual(self.nginx.fetch("/api/hot", headers={"Cookie": "sid=alice"}).status, 200)
        self.assertIsNone(self._user("/api/track.gif", headers={"Cookie": "sid=alice"}))
        self.assertEqual(self.backend.bodies, [])

    def test_an_unresponsive_session_check_delays_a_request_for_seconds_only(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self._fetch_with_session_at(silent.getsockname()[1])
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_connection(full.getsockname()):
            self._fetch_with_session_at(full.getsockname()[1])

    def _fetch_with_session_at(self, port):
        nginx = Nginx(edits=auth_edits(port)).start()
        try:
            self.assert_problem(nginx.fetch("/api/history", timeout=10), 500)
        finally:
            nginx.stop()

    def test_a_session_that_is_refused_refuses_the_request(self):
        self.assert_problem(self.nginx.fetch("/api/history", headers={"Cookie": "sid=banned"}), 403)
        self.assert_problem(self.nginx.fetch("/api/history", headers={"Cookie": "sid=expired"}), 401)
        self.assertEqual(self.responder.requests, [])


if __name__ == "__main__":
    unittest.main()
