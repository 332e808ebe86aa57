"""A11 to A15: what one network can do, whatever addresses, names and connections it uses, while honest readers of other
networks stay within their limits.
"""

import collections
import contextlib
import json
import math
import os
import re
import selectors
import socket
import time

from client import AGENT
from service import wait_until

from faults.abuse import PROXY, TRUST_PROXY, Attackers, honest_readers, let_attack_run, visitor_cookie
from faults.scenario import fault, readable_folder
from faults.wire import request

PV_PER_NETWORK = 50  # as shipped


def counted_of(tries):
    """Page views that one network adds to an article with this many tries."""
    return tries if tries <= PV_PER_NETWORK else PV_PER_NETWORK + math.isqrt(tries) - math.isqrt(PV_PER_NETWORK)


@contextlib.contextmanager
def page_view_quota(run, **directives):
    """An instance with the shipped page-view quota, from which the honest readers are exempt because they report more."""
    with readable_folder() as folder:
        allow = os.path.join(folder, "allow")
        with open(allow, "w", encoding="ascii") as file:
            file.write("127.1.0.0/16\n")
        with run.instance(long_timeouts=True, limits=True, limits__pv_per_network=PV_PER_NETWORK, clients__allow_file=f'"{allow}"', **directives) as service:
            yield service


# --- IPv6

TRACK_RATE, TRACK_BURST, NETWORK_FACTOR = 2, 10, 20
NETWORK_QUOTA = 100  # of unverified articles a day; requests in progress may exceed it
ATTACKERS = 4


def through_proxy(client, address, method, path, body, number):
    return client.request(method, path, body, headers={"X-Forwarded-For": address, "User-Agent": f"{AGENT} {number % 1000}"})


@fault("A11", "new /64s of one /48 in every request, then new /48s of one /32",
       "one /48 has one network's rate, page views and unverified articles; one /32 lists no article")
def rotating_prefixes(run):
    def send(client, number):
        item = "raised" if number % 2 else f"made-up-{number}"
        body = {"articleId": item, "sessionId": f"s{number}", "dwellMs": 180000}
        return through_proxy(client, f"2001:db8:1:{number % 65536:x}::1", "POST", "/api/track", body, number)

    limits = {"limits__track_rate": TRACK_RATE, "limits__track_burst": TRACK_BURST, "limits__network_factor": NETWORK_FACTOR}
    with page_view_quota(run, nginx_edit=TRUST_PROXY, items__unknown='"count"', **limits) as service:
        service.put("raised")
        with honest_readers(run, service):
            began = time.monotonic()
            with Attackers(service, send, lambda _: PROXY, ATTACKERS) as attackers:
                wait_until(lambda: attackers.statuses.get(429, 0) > 200, "refusals", 60)
                let_attack_run(run)
            most = NETWORK_FACTOR * (TRACK_BURST + TRACK_RATE * (time.monotonic() - began))
            accepted = attackers.statuses.get(200, 0)
            run.report(f"{attackers} from one /48")
            run.report(f"{accepted:,} accepted, at most {most:,.0f} by the rate of a network", accepted <= most, safety=True)
            views = service.stats("raised")["pv"]
            run.report(f"{views} page views", 0 < views <= counted_of(accepted), safety=True)
            created = service.redis("ZCARD", "hot:unlisted")
            run.report(f"{created} unverified articles", 0 < created <= NETWORK_QUOTA + ATTACKERS, safety=True)
            run.report(_lists_by_wide_network(service), "made-up-by-one-32" not in _listed(service), safety=True)


def _listed(service):
    return [item["id"] for item in service.hot(model="engagement", limit=100)]


def _lists_by_wide_network(service):
    """Reports an article from 60 networks of one /32 for longer than ten minutes, and another one from 30 /32s."""
    client = service.public(source=PROXY)
    for item, addresses in (("made-up-by-one-32", [f"2001:db9:{number:x}::1" for number in range(1, 61)]),
                            ("made-up-by-many", [f"2001:{0x4000 + number:x}::1" for number in range(30)])):
        for number, address in enumerate([*addresses, addresses[-1]]):
            if number == len(addresses):  # as if the first report were ten minutes older
                service.redis("HINCRBY", f"hot:article:{{{item}}}", "nets_since", -600)
            reply = through_proxy(client, address, "POST", "/api/track", {"articleId": item, "sessionId": f"{item}{number}", "dwellMs": 1000}, number)
            assert reply.status == 200, reply
    wait_until(lambda: "made-up-by-many" in _listed(service), "the article of 30 /32s to be listed")
    return "an article of 60 /48s of one /32 is not listed, one of 30 /32s is"


# --- ranking


@fault("A12", "one /24 raises an article: a new visitor, session and agent in each request", "≤ 150 page views and visitors in 10,000 tries")
def ranking_fraud(run):
    def send(client, number):
        agent = {"User-Agent": f"{AGENT} {number}"}
        if number // 4 % 2:  # each of the four threads alternates
            return client.request("POST", "/api/views", {"articleId": "viewed", "fingerprint": f"f{number}", "publishedAt": int(time.time())}, headers=agent)
        body = {"articleId": "tracked", "sessionId": f"s{number}", "fingerprint": f"f{number}", "dwellMs": 180000, "eventId": f"event-of-fraud-{number:08}"}
        return client.request("POST", "/api/track", body, headers=agent)

    # A visitor is an address and an agent, so the only limits here are those of nginx and of the network.
    with page_view_quota(run) as service:
        for item in ("tracked", "viewed", "honest-article"):
            service.put(item)
        with honest_readers(run, service):
            with Attackers(service, send, lambda number: f"127.60.0.{1 + number % 250}") as attackers:
                wait_until(lambda: attackers.statuses.get(200, 0) >= run.scale(2000, 20000), "the tries", 600)
            tries = attackers.statuses[200]
            run.report(str(attackers))
            tracked, viewed = service.stats("tracked"), service.stats("viewed")["views"]
            most = max(tracked["pv"], tracked["uv"], viewed["pv"], viewed["uv_today"])
            # uv is an estimate.
            run.report(f"{tracked['pv']} page views and {tracked['uv']} visitors by track, {viewed['pv']} and {viewed['uv_today']} by views",
                       0 < most <= 1.05 * counted_of(tries // 2 + 4), safety=True)


# --- nginx's log

BATCH = 40
FIELD_BYTES = 6000
FLOODING = "127.60.0"


def refused_requests(rng):
    """Requests that nginx refuses itself, with long fields that the log has to escape."""
    def text():
        return "".join(rng.choices('abc"\\\t', k=FIELD_BYTES))
    out, agent, referrer = [], text(), text()
    for _ in range(BATCH):
        target = rng.choice(("/api/no-such-route", "/no-such-page", "/%5c%22%01")) + "x" * rng.randrange(FIELD_BYTES)
        out.append(f"GET {target} HTTP/1.1\r\nHost: flood\r\nUser-Agent: {agent}\r\nReferer: {referrer}\r\n\r\n".encode())
    return b"".join(out)


def send_all(address, source, data):
    """Sends data on a new connection. Returns {status: count} of the replies until nginx closes it."""
    counts, received = collections.Counter(), b""
    with socket.create_connection(address, timeout=20, source_address=(source, 0)) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while more := connection.recv(1 << 18):
                received += more
        except OSError:  # closed with its first 429
            pass
    for part in received.split(b"HTTP/1.1 ")[1:]:
        counts[int(part[:3])] += 1
    return counts


def log_bytes(service):
    """Bytes of all logs, without the access log's lines about other clients."""
    folder = os.path.join(service.state, "log")
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    lines = [line for name in ("freshet-public", "freshet-internal") for line in service.log(name).splitlines()]
    return size - sum(len(line.encode()) + 1 for line in lines if f'"address":"{FLOODING}.0"' not in line)


@fault("A13", "requests that nginx refuses, with 6 KB each of user agent, referrer and path", "≤ 60 bytes of log per refused request")
def log_flooded(run):
    with run.instance(long_timeouts=True, limits=True) as service, honest_readers(run, service):
        before, counts = log_bytes(service), collections.Counter()
        deadline = time.monotonic() + run.scale(60, 300)
        while counts.total() < run.scale(3000, 20000) and time.monotonic() < deadline:
            counts += send_all((service.host, service.port), f"{FLOODING}.{1 + run.rng.randrange(250)}", refused_requests(run.rng))
        refused = sum(count for status, count in counts.items() if 400 <= status < 500)
        # nginx buffers the log for a second; one line in a hundred is expected.
        wait_until(lambda: service.log("freshet-public").count(f'"address":"{FLOODING}.0"') > refused / 300, "the flood in the log")
        run.report(f"{', '.join(f'{count:,} × {status}' for status, count in sorted(counts.items()))}")
        per_request = (log_bytes(service) - before) / max(1, refused)
        run.report(f"{per_request:.0f} bytes of log per refused request", refused > 1000 and per_request <= 60, safety=True)


# --- replies

ADDRESS_REPLIES, NETWORK_REPLIES = 128, 512  # in transit, as shipped


LONG_BYTES = 200_000


def create_long_list(service):
    """Creates a hot list that does not fit into the buffers of a connection. Returns its request target."""
    lines = [json.dumps({"id": f"long-{number}", "title": "\\" * 1024, "published_at": int(time.time())}) for number in range(100)]
    assert service.internal().post("/api/items", "\n".join(lines)).json()["accepted"] == len(lines)
    for number in range(100):
        assert service.internal().view(f"long-{number}", "f").status == 200
    target = "/api/hot?model=views&limit=100"
    wait_until(lambda: len(service.public().get(target).body) > LONG_BYTES, "a long list")
    return target


@fault("A14", "800 replies of 200 KB, requested by seven addresses of one network and not read", "≤ 128 in transit per address, ≤ 512 per network")
def replies_not_read(run):
    sources = [f"127.66.0.{number}" for number in range(2, 9)]
    with run.instance(long_timeouts=True, limits=True) as service:
        target = create_long_list(service)
        with honest_readers(run, service):
            # The first two addresses send more than an address may.
            plan = [source for source in sources[:2] for _ in range(150)] + [sources[2 + number % 5] for number in range(500)]
            statuses, selector, opened = collections.Counter(), selectors.DefaultSelector(), []
            for source in plan:
                each = socket.socket()
                each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                each.bind((source, 0))
                each.connect((service.host, service.port))
                each.sendall(request("GET", target))
                selector.register(each, selectors.EVENT_READ, source)
                opened.append(each)
            deadline = time.monotonic() + 60
            while selector.get_map() and time.monotonic() < deadline:
                for key, _ in selector.select(0.2):
                    head = key.fileobj.recv(2048, socket.MSG_PEEK)
                    # The list of an overloaded worker, or of one that has not built the long one yet, is short, so such a reply
                    # has been sent.
                    length = re.search(rb"content-length: (\d+)", head.lower())
                    is_short = b"freshet-degraded" in head.lower() or head[9:12] == b"200" and length and int(length[1]) < LONG_BYTES
                    statuses[key.data, "short" if is_short else int(head[9:12] or 0)] += 1
                    selector.unregister(key.fileobj)
            unanswered = len(selector.get_map())
            let_attack_run(run)
            for each in opened:
                each.close()
            run.report(f"{unanswered} requests without a reply", unanswered == 0, safety=True)
            served = {source: statuses[source, 200] for source in sources}
            refused = sum(count for (_, status), count in statuses.items() if status == 429)
            short = sum(count for (_, status), count in statuses.items() if status == "short")
            run.report(f"{sum(served.values())} served, {refused} × 429, {short} short lists")
            run.report(f"at most {max(served.values())} of an address", 0 < max(served.values()) <= ADDRESS_REPLIES, safety=True)
            run.report("at most 512 of the network", sum(served.values()) <= NETWORK_REPLIES, safety=True)


# --- Anonymous readers

ANONYMOUS_READERS = 50  # of a network; 500 as shipped
MAX_READER_BYTES = 11 * 1024
INTERESTS = 10
READER_BYTES = r"""local out = {}
for _, pattern in ipairs({'user:*', 'feed:*'}) do
  for _, key in ipairs(redis.call('KEYS', pattern)) do
    local reader = key:match('{[^c]+(c.*)}')  -- the byte that marks anonymous readers may be encoded
    if reader and #reader == 23 then
      out[reader] = (out[reader] or 0) + redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0)
      if redis.call('TTL', key) < 0 then return redis.error_reply(key .. ' has no TTL') end
    end
  end
end
local list = {}
for _, bytes in pairs(out) do list[#list + 1] = bytes end
return list"""


@fault("A15", "the anonymous readers of one network, with ten interests each, refresh feeds and recommendations as fast as they can",
       "honest anonymous readers 0 refused; state of at most limits.anonymous_per_network readers, 11 KB each; 100 ms of searches a second")
def anonymous_readers(run):
    items = [f"item-{number}" for number in range(600)]
    with run.instance(long_timeouts=True, limits=True, identity__mode='"header"', limits__anonymous_per_network=ANONYMOUS_READERS) as service:
        now = int(time.time())
        lines = [{"id": item, "title": f"About {number % 40} and {number % 7}", "tags": [f"t{number % 20}"], "published_at": now - 60 * number} for number, item in enumerate(items)]
        assert service.internal().post("/api/items", "\n".join(map(json.dumps, lines))).json()["accepted"] == len(items)
        wait_until(lambda: service.status()["recorder items"] >= len(items), "the items to be indexed", 60)
        client = service.public(source="127.66.0.1")
        cookies = [visitor_cookie(client) for _ in range(2 * ANONYMOUS_READERS)]
        for number, cookie in enumerate(cookies):
            reader = service.public(source=f"127.66.0.{1 + number}")
            for interest in range(INTERESTS):
                report = {"articleId": items[(37 * number + interest) % len(items)], "dwellMs": 30000, "sessionId": f"s{number}"}
                reply = wait_until(lambda: (sent := reader.post("/api/track", report, headers=cookie)).status == 200 and sent, "a report", 60)  # noqa: B023
                assert reply.status == 200, reply

        def send(client, number):
            cookie = cookies[number % len(cookies)]
            if number % 3 == 0:
                return client.request("GET", "/api/recommendations?limit=100", headers=cookie)
            return client.request("POST", "/api/feed", {"action": "refresh", "limit": 100, "query": f"about {number}" if number % 3 == 1 else ""}, headers=cookie)

        with honest_readers(run, service):
            with Attackers(service, send, lambda number: f"127.66.0.{1 + number % 200}") as attackers:
                wait_until(lambda: sum(attackers.statuses.values()) > 2 * len(cookies), "two requests of each reader", 120)
                let_attack_run(run)
            run.report(str(attackers))
        sizes = service.redis("EVAL", READER_BYTES, 0)
        run.report(f"{len(sizes)} readers stored, at most {max(sizes):,} bytes each", len(sizes) <= ANONYMOUS_READERS + 8 and max(sizes) <= MAX_READER_BYTES, safety=True)
