"""Malformed, incomplete and aborted requests sent directly to the workers' socket, and replies that are never read."""

import json
import os
import random
import statistics
import threading
import time

import pytest

from client import Load
from fastcgi import Connection, request
from service import Instance, descriptors, rss_kib, wait_until

DEADLINE_S = 1.0


@pytest.fixture(scope="module")
def service():
    """Requests and replies have a deadline of one second. No worker may be replaced during the tests."""
    # Redis may take longer than 50 ms for twenty lists of 3 MB at once, which is not the subject of these tests.
    started = Instance("--no-limits", gateway__read_timeout='"1s"', gateway__write_timeout='"1s"', redis__timeout='"2s"',
                       gateway__request_budget='"4s"')
    try:
        started.start()
        workers = started.workers()
        yield started
        assert started.workers() == workers, "a worker was replaced"
        started.check()
    finally:
        started.stop()


@pytest.fixture(scope="module")
def streams(shared):
    folder = os.path.join(shared, "corpora/fcgi-malformed")
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        names = [entry["file"] for entry in json.load(file)]
    out = {}
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            out[name] = file.read()
    assert len(out) >= 18
    return out


def connect(service):
    return Connection(service.socket_path)


def ping(client, _=0):
    reply = client.get("/ping")
    assert reply.status == 200, reply
    return reply.seconds


def assert_not_delayed(load):
    """A worker that waits for one client would delay the others by that client's deadline."""
    assert load.errors == []
    assert max(load.results) < 0.8 * DEADLINE_S and statistics.median(load.results) < 0.1


def test_the_minimal_fastcgi_client_works(service):
    with connect(service) as direct:
        for _ in range(3):
            assert direct.request() == (200, b"pong")
        status, body = direct.request(method="POST", uri="/api/track", zone="public", body=b'{"articleId":"s","userId":"u","dwellMs":1}')
        assert status == 200 and json.loads(body)["pv"] == 1
        assert direct.request(zone="public")[0] == 404
        assert direct.request(zone="")[0] == 404


def test_malformed_streams_leave_the_pool_available(service, streams):
    before = service.status()["refused"]
    with Load(service.internal, ping, threads=2) as load:
        for _ in range(10):
            connections = []
            for name, data in streams.items():
                connections.append((name, connect(service)))
                try:
                    connections[-1][1].send(data)
                except OSError:
                    pass  # refused before all of it was sent
            for name, direct in connections:
                # Connections without data, or kept after a complete request, may stay open. All others are closed.
                if name.startswith(("01_", "00_", "10_", "16_")):
                    continue
                assert direct.closed_by_peer(DEADLINE_S + 3), name
            for _, direct in connections:
                direct.close()
            if load.errors:
                break
    assert load.errors == []

    def counted(reason, minimum):
        return service.status()["refused"][reason] >= before[reason] + minimum

    wait_until(lambda: counted("protocol", 80) and counted("read_timeout", 20), "the drops to be counted", 5)
    with connect(service) as direct:
        assert direct.request() == (200, b"pong")


def test_well_formed_streams_of_the_corpus_are_answered(service, streams):
    for name in ("00_ok.bin", "10_get_values.bin", "16_pad_255.bin"):
        with connect(service) as direct:
            direct.send(streams[name])
            assert direct.reply() is not None, name


@pytest.mark.latency
def test_incomplete_requests_are_dropped_at_their_deadline_while_others_are_served(service):
    request_bytes = request(method="POST", uri="/api/track", body=b'{"articleId":"half","userId":"u","dwellMs":1}')
    before = service.status()["refused"]["read_timeout"]
    connections = []
    with Load(service.internal, ping, threads=2) as load:
        for size in range(1, len(request_bytes), 3):
            connections.append(connect(service))
            connections[-1].send(request_bytes[:size])
        began = time.monotonic()
        for direct in connections:
            assert direct.closed_by_peer(DEADLINE_S + 3)
        assert time.monotonic() - began < DEADLINE_S + 2
    assert_not_delayed(load)
    wait_until(lambda: service.status()["refused"]["read_timeout"] >= before + len(connections), "the drops to be counted", 5)
    assert service.redis("EXISTS", "hot:article:{half}") == 0


def test_a_client_that_disconnects_mid_request_is_dropped_before_its_deadline(service):
    request_bytes, before = request(method="POST", uri="/api/track", body=b"{}"), service.status()
    for _ in range(100):
        with connect(service) as direct:
            direct.send(request_bytes[:40])  # immediately followed by the end of the stream
    wait_until(lambda: service.status()["connections"] <= before["connections"] + 4, "the connections to close", 5)
    assert service.status()["refused"]["read_timeout"] == before["refused"]["read_timeout"]


@pytest.mark.latency
def test_slow_senders_are_dropped_and_delay_no_other_request(service):
    request_bytes = request(uri="/api/hot?model=engagement")
    connections = [connect(service) for _ in range(200)]
    closed = set()
    with Load(service.internal, ping, threads=2) as load:
        end, at = time.monotonic() + DEADLINE_S + 1.5, 0
        while time.monotonic() < end:
            for number, direct in enumerate(connections):
                if number not in closed and at < len(request_bytes) - 1:
                    try:
                        direct.send(request_bytes[at:at + 1])
                    except OSError:
                        closed.add(number)
            at += 1
            wait_until(lambda paced=time.monotonic() + 0.02: time.monotonic() > paced, "the next byte")
    assert_not_delayed(load)
    assert all(number in closed or direct.closed_by_peer(1) for number, direct in enumerate(connections))


def big_list(service):
    """Lists 100 items with the longest titles and URLs: the largest possible reply. Returns its URI."""
    items = [json.dumps({"id": f"big-{number}", "title": "\\" * 1024, "url": "\x02" * 2048, "author": "\\" * 128, "published_at": int(time.time()),
                         "tags": ["big"] + [f"{tag:02}" + '"' * 61 for tag in range(31)]}) for number in range(100)]
    for at in range(0, 100, 20):
        assert service.internal().post("/api/items", "\n".join(items[at:at + 20])).json()["accepted"] == 20
    with connect(service) as direct:
        for number in range(100):
            status, _ = direct.request(method="POST", uri="/api/views", zone="public",
                                       body=json.dumps({"articleId": f"big-{number}", "fingerprint": "f", "publishedAt": int(time.time())}).encode())
            assert status == 200
    uri = "/api/hot?limit=100&tag=big"  # read through nginx, which reads immediately: a worker waits only a second
    reply = wait_until(lambda: reply if len((reply := service.internal().get(uri)).json()) == 100 else None, "a list of all items").body
    assert len(reply) > 1_800_000
    return uri


@pytest.mark.latency
def test_a_client_that_never_reads_its_reply_is_dropped_while_others_are_served(service):
    uri = big_list(service)
    before = service.status()
    with Load(service.internal, ping, threads=2) as load:
        connections = []

        def send_request():
            connections.append(connect(service))
            connections[-1].send(request(uri=uri))

        def are_dropped():
            # A worker for which Redis was too slow has no list, so more requests are made.
            if len(connections) < 200 and time.monotonic() > began + len(connections) / 10:
                send_request()
            return service.status()["refused"]["write_timeout"] >= before["refused"]["write_timeout"] + 20

        began = time.monotonic()
        for _ in range(20):
            send_request()
        wait_until(are_dropped, "the connections to be dropped", 60)
        count_before = len(load.results)
        wait_until(lambda: len(load.results) > count_before + 20 or load.errors, "load")
    assert_not_delayed(load)
    assert sum(direct.closed_by_peer(0.2) for direct in connections) >= 20
    for direct in connections:
        direct.close()
    wait_until(lambda: service.status()["connections"] <= before["connections"] + 4, "the connections to close")


def test_thousands_of_aborts_at_random_offsets_leak_nothing(service):
    # The list of all items is not requested: other tests make it megabytes long, and a worker keeps one or two of them.
    requests = [request(), request(uri="/api/hot?tag=abort"), request(uri="/api/stats?ids=" + ",".join(f"a{n}" for n in range(100))),
                request(method="POST", uri="/api/track", body=b'{"articleId":"abort","userId":"u","dwellMs":1}'),
                request(method="POST", uri="/api/items", body=b"x" * 30000)]
    rng = random.Random(7)

    def abort(times):
        for _ in range(times):
            data = rng.choice(requests)
            sent = rng.choice((len(data), rng.randrange(1, len(data))))
            with connect(service) as direct:
                direct.send(data[:sent])
                if sent == len(data) and rng.random() < 0.3:
                    direct.socket.recv(rng.choice((1, 100, 5000)))

    def measure():
        wait_until(lambda: service.status()["in flight"] <= 1, "no request in flight", 10)
        wait_until(lambda: service.status()["connections"] <= 4, "nginx to close its connections", 60)
        pids = service.workers()
        return {pid: descriptors(pid) for pid in pids}, {pid: rss_kib(pid) for pid in pids}

    abort(1500)
    fds_before, rss_before = measure()
    threads = [threading.Thread(target=abort, args=(1500,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    fds, rss = measure()
    for pid in rss:
        assert rss[pid] < rss_before[pid] * 1.05 + 1024, (rss_before, rss)
    # A few belong to nginx's persistent connections, which come and go.
    for pid in fds:
        assert abs(fds[pid] - fds_before[pid]) <= 6, (fds_before, fds)
    with connect(service) as direct:
        assert direct.request() == (200, b"pong")
