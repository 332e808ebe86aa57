"""Redis and workers crash or hang during pages and pushes: a client that follows the paging rules loses nothing and gets
nothing twice.
"""

import os
import signal
import threading
import time

from client import Load, assert_problem
from service import kill_workers, wait_until
from timelines import Reader, push, timeline


def restart_redis_and_wait(service):
    service.restart_redis()
    wait_until(lambda: service.internal().get("/health/ready").status == 200, "the service to be ready")


def test_without_redis_pages_are_empty_and_writes_are_refused_with_retry_after(own_service, name):
    service, reader, items = own_service, Reader(name("r")), [name("i") for _ in range(12)]
    client, internal = service.public(), service.internal()
    push(service, "discover", items[:10], [reader.name])
    reader.fetch(client, "first")
    cursors = (reader.drop, reader.up, list(reader.item_ids))
    service.make_redis_unavailable()
    for direction in ("first", "down", "up"):
        query = {"customerId": reader.name, "direction": direction, "score": reader.up, "limit": 5}
        reply = client.get("/api/waterfall/discover", query=query)
        cursor = 0 if direction == "first" else reader.up
        assert (reply.status, reply.headers["Freshet-Degraded"]) == (200, "true")
        assert reply.json() == {"items": [], "drop": cursor, "up": cursor, "has_more": True, "newer": 0, "degraded": True}
    assert client.get("/api/follows", query={"follower": reader.name}).json() == {"items": [], "degraded": True}
    for reply in (internal.post("/api/waterfall/discover", {"items": items[10:], "customers": [reader.name]}),
                  internal.post("/api/waterfall/follow", {"items": items[10:], "followersOf": "a"}),
                  internal.delete(f"/api/waterfall/discover/{items[0]}", query={"customerId": reader.name}),
                  internal.put("/api/follows", {"follower": reader.name, "author": "a"}),
                  internal.delete("/api/follows", query={"follower": reader.name, "author": "a"})):
        assert_problem(reply, 503)
        assert int(reply.headers["Retry-After"]) >= 1
    restart_redis_and_wait(service)
    assert (reader.drop, reader.up, reader.item_ids) == cursors
    reader.exhaust(client)
    assert reader.item_ids == items[9::-1]
    service.check()


def test_with_a_hanging_or_full_redis_pages_are_empty_and_writes_are_503(shipped_service, name):
    service, reader = shipped_service, Reader(name("r"))
    items = [name("i") for _ in range(10)]
    wait_until(lambda: service.internal().post("/api/waterfall/discover", {"items": items, "customers": [reader.name]}).status == 200, "the push to succeed")
    wait_until(lambda: not reader.fetch(service.public(), "first").get("degraded"), "a page")
    body = {"items": [name("n")], "customers": [reader.name]}

    def page():
        reply = service.public().get("/api/waterfall/discover", query={"customerId": reader.name, "direction": "up", "score": reader.up})
        assert reply.status == 200, reply
        return reply.json()

    redis = service.pid("redis")
    try:
        os.kill(redis, signal.SIGSTOP)
        for _ in range(20):
            assert page() == {"items": [], "drop": reader.up, "up": reader.up, "has_more": True, "newer": 0, "degraded": True}
    finally:
        os.kill(redis, signal.SIGCONT)
    wait_until(lambda: "degraded" not in page(), "normal service")
    service.redis("CONFIG", "SET", "maxmemory", "1")
    assert_problem(service.internal().post("/api/waterfall/discover", body), 503)
    assert_problem(service.internal().put("/api/follows", {"follower": reader.name, "author": "a"}), 503)
    assert page()["drop"] <= reader.up
    service.redis("CONFIG", "SET", "maxmemory", "0")
    wait_until(lambda: service.internal().post("/api/waterfall/discover", body).status == 200, "normal service")
    wait_until(lambda: reader.fetch(service.public(), "up", 100)["items"], "the older items")
    wait_until(lambda: reader.fetch(service.public(), "down", 100)["items"], "the newer item")
    assert reader.item_ids == body["items"] + items[::-1]
    service.check()


def test_redis_killed_during_pushes_and_reads_loses_and_repeats_nothing(own_service, name):
    service = own_service
    clients, pushed = page_under_load(service, name, kill_redis_once)
    read_to_end_and_check(service, clients, pushed)


def test_workers_killed_during_pushes_and_reads_lose_and_repeat_nothing(own_service, name):
    service = own_service
    clients, pushed = page_under_load(service, name, lambda service, load, pushed: kill_workers(service, load, pushed, times=10))
    read_to_end_and_check(service, clients, pushed)


def kill_redis_once(service, load, pushed):
    wait_until(lambda: len(pushed) > 70 or load.errors, "pushes")
    service.make_redis_unavailable()
    count_before = len(load.results)
    wait_until(lambda: len(load.results) > count_before + 50 or load.errors, "load without Redis")
    restart_redis_and_wait(service)
    count_before = len(pushed)
    wait_until(lambda: len(pushed) > count_before + 30 or load.errors, "pushes")


def page_under_load(service, name, inject_fault):
    """Four readers page up and down while two writers push to all of them. Lost requests are repeated, as clients do."""
    clients = [Reader(name("r")) for _ in range(4)]
    readers, lock = [client.name for client in clients], threading.Lock()
    pushed = [f"before{number}-{readers[0]}" for number in range(40)]

    def work(connection, turn):
        if turn % 6 >= 4:
            return write(turn)
        client = clients[turn % 6]
        page = client.fetch(connection, ("down", "up", "down")[turn // 6 % 3], 1 + turn % 9)
        if page.get("degraded"):
            time.sleep(0.02)
        return page

    def write(turn):
        item = f"w{turn}-{readers[0]}"
        while True:
            reply = service.internal().post("/api/waterfall/discover", {"items": [item], "customers": readers})
            if reply.status == 200:
                with lock:
                    pushed.append(item)
                time.sleep(0.01)
                return turn
            assert reply.status in (502, 503, 504), reply
            time.sleep(0.02)

    push(service, "discover", pushed, readers)
    for client in clients:
        client.fetch(service.public(), "first")
    with Load(service.public, work, threads=6) as load:
        inject_fault(service, load, pushed)
    assert load.errors == []
    return clients, pushed


def read_to_end_and_check(service, clients, pushed):
    for client in clients:
        client.exhaust(service.public())
        assert client.item_ids == timeline(service, "discover", client.name)
        assert set(client.item_ids) == set(pushed)
    assert len(pushed) > 80
    service.check()
