"""The limits of the shipped nginx configuration: rates, concurrency and slow clients."""

import contextlib
import http.client
import json
import re
import socket
import struct
import unittest

from case import CRAWLER, PUBLIC, WRITES, Case
from instance import AGENT, Nginx, Reply, Sessions, auth_edits, wait_until
from responder import Responder

# Frames and flags of HTTP/2.
_HEADERS, _SETTINGS, _END_STREAM, _END_HEADERS = 1, 4, 1, 4


class Limits(Case):
    def setUp(self):
        self.nginx = Nginx(edits=[("freshet-public.conf", "#set_real_ip_from 192.0.2.0/24;", "set_real_ip_from 127.0.0.1;"),
                                  ("freshet-public.conf", "#real_ip_header", "real_ip_header"),
                                  ("freshet-http.conf", "zone=freshet_reads:8m rate=100r/s", "zone=freshet_reads:8m rate=1r/m"),
                                  ("freshet-http.conf", "zone=freshet_writes:8m rate=50r/s", "zone=freshet_writes:8m rate=1r/m"),
                                  ("freshet-http.conf", "zone=freshet_network_requests:8m rate=400r/s", "zone=freshet_network_requests:8m rate=1r/m"),
                                  ("freshet-http.conf", "zone=freshet_crawlers:2m rate=10r/s", "zone=freshet_crawlers:2m rate=1r/m")])
        self.responder = Responder(self.nginx.socket_path)
        self.nginx.start()

    def tearDown(self):
        self.responder.close()
        self.nginx.stop()

    def _track_from(self, address, agent="Mozilla/5.0 Firefox/120.0"):
        return self.nginx.fetch("/api/track", body="{}", headers={"X-Forwarded-For": address, "User-Agent": agent})

    def test_an_ipv6_64_counts_as_one_address_and_an_ipv4_address_as_itself(self):
        for number in range(101):
            self.assertEqual(self._track_from(f"2001:db8:0:a::{number + 1:x}").status, 200)
        reply = self._track_from("2001:db8:0:a:ffff::1")
        self.assert_problem(reply, 429)
        self.assertEqual(reply.headers["Retry-After"], "1")
        self.assertEqual(self._track_from("2001:db8:0:b::1").status, 200)
        for number in range(110):
            self.assertEqual(self._track_from(f"::ffff:198.51.100.{number + 1}").status, 200)
            self.assertEqual(self._track_from(f"198.51.100.{number + 1}").status, 200)

    def test_the_log_truncates_addresses_of_every_kind(self):
        truncated = {"198.51.100.7": "198.51.100.0", "2001:db8:a:b::7": "2001:db8:a::", "::7": "-"}
        for address in truncated:
            self._track_from(address, f"from {address}")
        wait_until(lambda: self.nginx.log("freshet-public.log").count('"agent":"from ') == len(truncated), "the log")
        logged = [json.loads(line) for line in self.nginx.log("freshet-public.log").splitlines()]
        self.assertEqual({line["agent"].removeprefix("from "): line["address"] for line in logged}, truncated)

    def test_the_log_has_one_in_a_hundred_of_the_requests_that_nginx_refuses(self):
        for _ in range(2000):
            self._pipeline(b"GET /no-such-page HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual(self._track_from("198.51.100.1", "the last one").status, 200)
        wait_until(lambda: '"status":429' in self.nginx.log("freshet-public.log") and "the last one" in self.nginx.log("freshet-public.log"), "the log")
        logged = [json.loads(line) for line in self.nginx.log("freshet-public.log").splitlines()]
        self.assertEqual({(line["status"], line["requests"]) for line in logged} - {(404, 100)}, {(429, 100), (200, 1)})
        self.assertLess(len(logged), 100)

    def test_the_log_has_one_in_a_hundred_of_the_requests_that_a_worker_refuses(self):
        for number, (query, status) in enumerate([("limited", 429), ("absent", 404), ("denied", 403)] * 200):
            reply = self.nginx.fetch(f"/api/hot?{query}", headers={"X-Forwarded-For": f"2001:db8:{number:x}::1"})
            self.assertEqual(reply.status, status)
        self.assertEqual(self._track_from("198.51.100.1", "the last one").status, 200)
        wait_until(lambda: "the last one" in self.nginx.log("freshet-public.log"), "the log")
        logged = [json.loads(line) for line in self.nginx.log("freshet-public.log").splitlines()]
        self.assertLess(len(logged), 50)
        self.assertEqual({line["requests"] for line in logged if line["status"] != 200} - {100}, set())

    def test_the_log_of_the_internal_server_has_every_request(self):
        for number in range(30):
            self.nginx.fetch(f"/api/items/{number}?absent", internal=True)
            self.nginx.fetch(f"/api/feed/{number}", internal=True, body="x" * 20000)
            self.nginx.fetch("/../..", internal=True)
        wait_until(lambda: self.nginx.log("freshet-internal.log").count("\n") >= 90, "the log", 10)
        logged = [json.loads(line) for line in self.nginx.log("freshet-internal.log").splitlines()]
        self.assertEqual(sorted((line["status"], line["requests"]) for line in logged), [(400, 1)] * 30 + [(404, 1)] * 30 + [(413, 1)] * 30)

    def test_the_log_has_at_most_200_bytes_of_each_field_that_a_client_chooses(self):
        texts = ["A" * 7000, "A\x01" * 3500, '"' * 7000, "\\" * 7000, "\x01" * 7000, "A" * 199 + "\x1f" * 7000, "A" * 199 + "\t" + "B" * 7000,
                 "\x01" * 30, "A" * 200 + '"']
        for number, text in enumerate(texts):
            path = f"/api/feed/../items/{number}" + "".join(f"%{ord(each):02x}" for each in text[:300]) + "/similar"
            self.nginx.fetch(path, method="A" * 7000, headers={"User-Agent": f"{number}{text}", "X-Forwarded-For": f"192.0.{number}.1"})
        wait_until(lambda: self.nginx.log("freshet-public.log").count("\n") == len(texts), "the log", 10)
        for line in self.nginx.log("freshet-public.log").splitlines():
            logged = json.loads(line)
            number = int(logged["agent"][0])
            self.assertEqual(logged["status"], 200)
            self.assertEqual(logged["method"], "A" * 200)
            for name, text in (("agent", f"{number}{texts[number]}"), ("uri", f"/api/items/{number}{texts[number][:300]}/similar")):
                is_escaped = any(each in '"\\' or each < " " for each in text[:200])
                self.assertEqual(logged[name], text[:33] if is_escaped else text[:200], name)
                self.assertLessEqual(len(re.search(f'"{name}":"((?:[^"\\\\]|\\\\.)*)"', line)[1]), 200, name)
            self.assertLess(len(line), 1000)

    def test_crawlers_get_a_lower_limit_than_readers(self):
        agents = {CRAWLER: 429, "Mozilla/5.0 Firefox/120.0": 200}
        for agent, last in agents.items():
            statuses = []
            for _ in range(60):
                statuses.append(self._track_from("203.0.113.9" if last == 429 else "203.0.113.10", agent).status)
            self.assertEqual(statuses[0], 200)
            self.assertEqual(max(statuses), last)

    def test_reads_are_limited_by_address_on_every_read_route(self):
        routes = [route for route in PUBLIC if route not in WRITES]
        for number, route in enumerate(routes):
            address = {"X-Forwarded-For": f"192.0.{number + 1}.1"}
            self.assertEqual(set(self.nginx.fetch_many(route, 201, headers=address)), {200}, route)
            reply = self.nginx.fetch(route, headers=address)
            self.assert_problem(reply, 429)
            self.assertEqual(reply.headers["Retry-After"], "1")
            self.assertEqual(self.nginx.fetch(routes[number - 1], headers=address).status, 429, "one limit for all of them")
        self.assertEqual(self.nginx.fetch(routes[0], headers={"X-Forwarded-For": "192.0.100.1"}).status, 200)

    def test_the_addresses_of_a_network_share_a_limit_on_every_route(self):
        routes = [*PUBLIC, "/freshet.js", "/no-such-page", "/_freshet_problem"]
        times = 801 // len(routes) + 1  # a burst of the network, and less than one of an address
        for address, neighbour in (("203.0.113.%d", "203.0.114.1"), ("2001:db8:1:%d::1", "2001:db8:2::1"), ("::ffff:198.51.100.%d", "198.51.101.1")):
            statuses = []
            for number, route in enumerate(routes):
                statuses += self.nginx.fetch_many(route, times, headers={"X-Forwarded-For": address % number})
            self.assertEqual(statuses.index(429), 801, address)
            for route in routes:
                reply = self.nginx.fetch(route, headers={"X-Forwarded-For": address % 99})
                self.assert_problem(reply, 429)
                self.assertIn(self.nginx.fetch(route, headers={"X-Forwarded-For": neighbour}).status, (200, 404), route)
            self.assertEqual(self.nginx.fetch(routes[0], headers={"X-Forwarded-For": (address % 99).replace("::ffff:", "")}).status, 429)

    def test_errors_and_pages_are_limited_like_reads_and_a_429_closes_the_connection(self):
        requests = [("GET", "/freshet.js", 200), ("GET", "/", 404), ("GET", "/no-such-page", 404), ("POST", "/freshet.js", 405), ("GET", "/api/no-such-route", 404),
                    ("GET", "/_freshet_problem", 404), ("PUT", "/api/follows", 403), ("GET", "/api/feed", 200)]
        for number, (method, path, status) in enumerate(requests):
            data = f"{method} {path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 198.51.{number + 1}.1\r\n\r\n".encode()
            statuses = []
            for first in (0, 50, 100, 150):
                statuses += self._pipeline(data * 50)[0]
                self.assertEqual(statuses[first:], [status] * 50, path)
            statuses, last = self._pipeline(data * 50)
            # The burst is 200 requests; the next may come before one more has been earned, or a few after.
            refused_at = statuses.index(429)
            self.assertEqual((statuses[:refused_at], statuses[refused_at:]), ([status] * refused_at, [429]), path)
            self.assertIn(b"\r\nConnection: close\r\n", last)
            self.assertIn(b'"code":"rate_limited"', last)
            self.assertIn(b"\r\nRetry-After: 1\r\n", last)

    def _pipeline(self, data):
        """Sends the bytes. Returns the statuses until nginx closes the connection, or all expected ones, and the last reply."""
        expected = data.count(b"HTTP/1.1\r\n")
        with self.nginx.connect() as connection, contextlib.suppress(ConnectionResetError):
            connection.sendall(data)
            received = b""
            while received.count(b"HTTP/1.1 ") < expected or b"\r\n\r\n" not in received[received.rindex(b"HTTP/1.1 "):]:
                if not (more := connection.recv(1 << 16)):
                    break
                received += more
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", received)], received[received.rindex(b"HTTP/1.1 "):]

    def test_a_connection_to_the_public_server_ends_after_100_requests(self):
        statuses, last = self._pipeline(b"GET /freshet.js HTTP/1.1\r\nHost: x\r\n\r\n" * 120)
        self.assertEqual(statuses, [200] * 100)
        self.assertIn(b"\r\nConnection: close\r\n", last)

    def test_crawlers_also_get_a_lower_limit_on_reads(self):
        for number, route in enumerate(route for route in PUBLIC if route not in WRITES):
            crawler = {"X-Forwarded-For": f"203.0.113.{number + 1}", "User-Agent": CRAWLER}
            self.assertEqual(self.nginx.fetch_many(route, 22, headers=crawler), [200] * 21 + [429], route)

    def test_too_many_concurrent_requests_from_one_address_are_429(self):
        held = []
        try:
            for _ in range(128):
                held.append(socket.create_connection((self.nginx.host, self.nginx.port), 10))
                held[-1].sendall(b"GET /api/feed?hang HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.77\r\n\r\n")
            wait_until(lambda: len(self.responder.requests) >= 128, "the requests to arrive")
            reply = self.nginx.fetch("/api/feed", headers={"X-Forwarded-For": "203.0.113.77"})
            self.assert_problem(reply, 429)
            self.assertEqual(reply.headers["Retry-After"], "1")
            self.assertEqual(self.nginx.fetch("/api/feed", headers={"X-Forwarded-For": "203.0.113.78"}).status, 200)
        finally:
            for connection in held:
                connection.close()


class Http2:
    """An HTTP/2 client of a server without TLS, as far as these tests need one."""

    def __init__(self, nginx, address):
        self._connection = socket.create_connection((nginx.host, nginx.port), 10, source_address=(address, 0))
        self._reader = self._connection.makefile("rb")
        self._stream = -1
        self._connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self._frame(_SETTINGS, 0, 0, b""))

    @staticmethod
    def _frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload

    def send(self, method, path, headers, end):
        """Sends the head of a request, which ends the request or not. Returns its stream."""
        self._stream += 2
        fields = {":method": method, ":scheme": "http", ":path": path, ":authority": "x", "user-agent": AGENT, **headers}
        block = b"".join(bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode() for name, value in fields.items())
        self._connection.sendall(self._frame(_HEADERS, _END_HEADERS | (_END_STREAM if end else 0), self._stream, block))
        return self._stream

    def statuses_until(self, stream):
        """The statuses that arrive up to that of this stream."""
        statuses = []
        while True:
            head = self._reader.read(9)
            kind, replied = head[3], struct.unpack(">I", head[5:])[0]
            payload = self._reader.read(int.from_bytes(head[:3], "big"))
            if kind == _HEADERS:
                block = payload.removeprefix(b"\x20")  # a change of the table's size
                statuses.append(200 if block[0] == 0x88 else int(block[2:5]))
                if replied == stream:
                    return statuses

    def close(self):
        self._reader.close()
        self._connection.close()


class PendingBodies(Case):
    """Bodies that never arrive, from many addresses: other clients are still served."""

    def setUp(self):
        self.nginx = Nginx(edits=[("freshet-internal.conf", "limit_conn freshet_internal 192", "limit_conn freshet_internal 4"),
                                  ("freshet-params.conf", "client_body_timeout 5s", "client_body_timeout 60s"),
                                  ("freshet-locations.conf", "fastcgi_read_timeout 3s", "fastcgi_read_timeout 60s")])
        self.responder = Responder(self.nginx.socket_path)
        self.nginx.start()
        self.held = []

    def tearDown(self):
        for connection in self.held:
            connection.close()
        self.responder.close()
        self.nginx.stop()

    def _slow_body(self, address, head=b"Content-Length: 999"):
        """True if nginx waits for a body that never arrives; it then sends 100 Continue."""
        sender = socket.socket()
        self.held.append(sender)
        sender.settimeout(20)
        sender.bind((address, 0))
        sender.connect((self.nginx.host, self.nginx.port))
        sender.sendall(b"POST /api/track HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n" + head + b"\r\n\r\n")
        status = sender.recv(4096).split()[1]
        self.assertIn(status, (b"100", b"429"))
        return status == b"100"

    def test_pending_bodies_are_limited_by_address_and_network_and_do_not_block_others(self):
        self.assertEqual([self._slow_body("127.66.0.1") for _ in range(17)], [True] * 16 + [False])
        self.assertFalse(self._slow_body("127.66.0.1", b"Transfer-Encoding: chunked"))
        self.assertEqual(sum(self._slow_body(f"127.66.0.{number}") for number in range(2, 7) for _ in range(16)), 48)
        self.assertEqual(self._from("127.66.0.99").status, 200)  # a read from the same network
        self.assertEqual(self._from("127.66.0.99", body="{}").status, 429)
        for neighbour in ("127.66.1.1", "127.67.0.1"):
            self.assertEqual(self._from(neighbour, body="{}").status, 200)

    def test_pending_replies_are_limited_by_network_and_do_not_block_others(self):
        for number in range(512):  # from eight addresses of one network, each below its own limit
            sender = socket.socket()
            self.held.append(sender)
            sender.bind((f"127.66.0.{number % 8 + 1}", 0))
            sender.connect((self.nginx.host, self.nginx.port))
            sender.sendall(b"GET /api/feed?hang HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: len(self.responder.requests) == 512, "the requests to arrive")
        self.assertEqual(self._from("127.66.0.99").status, 429)
        self.assertEqual(self._from("127.66.0.99", path="/").status, 429)
        self.assertEqual(self._from("127.66.1.99").status, 200)
        self.assertEqual(self._from("127.66.1.99", path="/").status, 404)

    def _from(self, address, body=None, path="/api/feed"):
        connection = http.client.HTTPConnection(self.nginx.host, self.nginx.port, timeout=10, source_address=(address, 0))
        try:
            connection.request("POST" if body else "GET", path, body)
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def test_pending_bodies_are_also_counted_by_ipv6_network(self):
        nginx = Nginx(edits=[("freshet-public.conf", "#real_ip_header", "real_ip_header"), ("freshet-locations.conf", "freshet_body_networks 64", "freshet_body_networks 1"),
                             ("freshet-public.conf", "#set_real_ip_from 192.0.2.0/24;", "set_real_ip_from 127.0.0.0/8;")])
        responder = Responder(nginx.socket_path)
        nginx.start()
        held = []

        def waits(address):
            held.append(nginx.connect())
            held[-1].sendall(f"POST /api/feed HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {address}\r\nExpect: 100-continue\r\n"
                             "Content-Length: 9\r\n\r\n".encode())
            return held[-1].recv(4096).split()[1] == b"100"

        try:
            for address, neighbors, unrelated in (("2001:db8:1:2::3", ("2001:db8:1:ffff::1",), ("2001:db8:2:2::3", "::ffff:203.0.113.1")),
                                               ("203.0.113.9", ("203.0.113.200", "::ffff:203.0.113.1"), ("203.0.114.9",))):
                # 100 Continue says that nginx waits for the body; an earlier request may still be counted for a moment.
                wait_until(lambda address=address: waits(address), "the slow body to count")
                status = lambda other: nginx.fetch("/api/feed", body="{}", headers={"X-Forwarded-For": other}).status  # noqa: E731
                self.assertEqual([status(other) for other in neighbors], [429] * len(neighbors))
                self.assertEqual([status(other) for other in unrelated], [200] * len(unrelated))
        finally:
            for connection in held:
                connection.close()
            responder.close()
            nginx.stop()

    def test_pending_bodies_of_http2_count_whatever_their_length_is_said_to_be(self):
        nginx = Nginx(edits=[("freshet-public.conf", "backlog=4096", "backlog=4096 http2"), ("freshet-params.conf", "client_body_timeout 5s", "client_body_timeout 60s")])
        responder = Responder(nginx.socket_path)
        nginx.start()

        def replies(address, length, bodies):
            """The statuses of this many requests whose bodies never end and of a read after them, where there is a reply."""
            client = Http2(nginx, address)
            self.held.append(client)
            for _ in range(bodies):
                client.send("POST", "/api/track", {"content-length": length} if length else {}, end=False)
            return client.statuses_until(client.send("GET", "/api/recommendations", {}, end=True))

        try:
            for number, length in enumerate((None, "0", "999", None)):
                self.assertEqual(replies(f"127.66.0.{number + 1}", length, 17), [429, 200], length)
            self.assertEqual(replies("127.66.0.9", None, 1), [429, 200], "64 bodies of one network")
            self.assertEqual(replies("127.66.1.9", None, 1), [200])
        finally:
            responder.close()
            nginx.stop()

    def test_a_429_of_http2_does_not_end_the_connection(self):
        """OPERATIONS.md says so; keepalive_requests ends it."""
        nginx = Nginx(site="server { listen %s http2; include /etc/nginx/freshet/freshet-locations.conf; }",
                      edits=[("freshet-http.conf", "zone=freshet_reads:8m rate=100r/s", "zone=freshet_reads:8m rate=1r/m")])
        responder = Responder(nginx.socket_path)
        nginx.start()
        client = Http2(nginx, "127.66.0.1")
        self.held.append(client)
        try:
            statuses = []
            for _ in range(221):
                statuses += client.statuses_until(client.send("HEAD", "/api/feed", {}, end=True))
            self.assertEqual(set(statuses[:200]), {200})
            self.assertEqual(set(statuses[-19:]), {429})
        finally:
            responder.close()
            nginx.stop()

    def test_concurrent_requests_to_the_internal_server_are_limited(self):
        for _ in range(4):
            self.held.append(self.nginx.connect(internal=True))
            self.held[-1].sendall(b"GET /api/feed?hang HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: len(self.responder.requests) >= 4, "the requests to arrive")
        self.assert_problem(self.nginx.fetch("/api/feed", internal=True), 429)


class SlowClients(Case):
    """Slow clients cost little. Timeouts are shortened by edits in every file that sets them."""

    def setUp(self):
        server = [("send_timeout 10s", "send_timeout 300ms"), ("client_header_timeout 5s", "client_header_timeout 300ms")]
        self.backend = Sessions({})
        self.nginx = Nginx(edits=[(name, *edit) for name in ("freshet-public.conf", "freshet-internal.conf") for edit in server]
                           + auth_edits(self.backend.port) + [("freshet-params.conf", "client_body_timeout 5s", "client_body_timeout 300ms")]
                           # Otherwise nginx gives up the responder of a busy machine before the client.
                           + [(name, "fastcgi_read_timeout 3s", "fastcgi_read_timeout 60s") for name in ("freshet-locations.conf", "freshet-internal.conf")])
        self.responder = Responder(self.nginx.socket_path)
        self.nginx.start()

    def tearDown(self):
        self.responder.close()
        self.nginx.stop()
        self.backend.close()

    def test_a_client_that_does_not_read_is_reset(self):
        for internal, log in ((False, "freshet-public.log"), (True, "freshet-internal.log")):
            with self.nginx.connect(internal) as stalled:
                stalled.sendall(b"GET /api/feed?huge HTTP/1.1\r\nHost: x\r\n\r\n")
                wait_until(lambda log=log: '"uri":"/api/feed"' in self.nginx.log(log), "nginx to give up")
                with self.assertRaises(ConnectionResetError):
                    while stalled.recv(1 << 20):
                        pass

    def test_an_incomplete_header_is_dropped(self):
        for internal in (False, True):
            with self.nginx.connect(internal) as slow:
                slow.sendall(b"GET /api/hot HTTP/1.1\r\nHost:")
                with contextlib.suppress(ConnectionResetError):
                    self.assertIn(slow.recv(100)[:12], (b"", b"HTTP/1.1 408"))

    def test_a_client_that_sends_its_body_too_slowly_is_reset(self):
        for internal in (False, True):
            with self.nginx.connect(internal) as slow, self.assertRaises(ConnectionResetError):
                slow.sendall(b"POST /api/feed HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
                slow.recv(1)


if __name__ == "__main__":
    unittest.main()
