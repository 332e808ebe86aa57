"""Redis and workers that die or hang under pages and pushes: a client that follows the rules loses nothing and gets nothing twice."""

import os
import signal
import threading
import time

from client import Load, assert_problem
from service import kill_workers, wait_until
from timelines import Reader, push, timeline


def back_again(service):
    service.restart_redis()
    wait_until(lambda: service.internal().get("/health/ready").status == 200, "Redis to be seen")


def test_without_redis_pages_are_empty_and_writes_are_told_to_come_back(own_service, name):
    service, reader, items = own_service, Reader(name("r")), [name("i") for _ in range(12)]
    client, internal = service.public(), service.internal()
    push(service, "discover", items[:10], [reader.name])
    reader.take(client, "first")
    kept = (reader.drop, reader.up, list(reader.shown))
    service.lose_redis()
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
    back_again(service)
    assert (reader.drop, reader.up, reader.shown) == kept
    reader.exhaust(client)
    assert reader.shown == items[9::-1]
    service.check()


def test_a_redis_that_hangs_or_has_no_memory_is_an_empty_page_or_a_503(shipped_service, name):
    service, reader = shipped_service, Reader(name("r"))
    items = [name("i") for _ in range(10)]
    wait_until(lambda: service.internal().post("/api/waterfall/discover", {"items": items, "customers": [reader.name]}).status == 200, "the push")
    wait_until(lambda: not reader.take(service.public(), "first").get("degraded"), "a page")
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
    wait_until(lambda: reader.take(service.public(), "up", 100)["items"], "the older ones")
    wait_until(lambda: reader.take(service.public(), "down", 100)["items"], "the newer one")
    assert reader.shown == body["items"] + items[::-1]
    service.check()


def test_redis_killed_under_pushes_and_reads_loses_and_repeats_nothing(own_service, name):
    service = own_service
    clients, pushed = walk_under_load(service, name, kill_redis_once)
    finish_walks(service, clients, pushed)


def test_workers_killed_under_pushes_and_reads_lose_and_repeat_nothing(own_service, name):
    service = own_service
    clients, pushed = walk_under_load(service, name, lambda service, load, pushed: kill_workers(service, load, pushed, times=10))
    finish_walks(service, clients, pushed)


def kill_redis_once(service, load, pushed):
    wait_until(lambda: len(pushed) > 70 or load.errors, "pushes")
    service.lose_redis()
    seen = len(load.results)
    wait_until(lambda: len(load.results) > seen + 50 or load.errors, "load without Redis")
    back_again(service)
    seen = len(pushed)
    wait_until(lambda: len(pushed) > seen + 30 or load.errors, "pushes")


def walk_under_load(service, name, harm):
    """Four readers walk about while two writers push to all of them; a lost request is made again, as a client does."""
    clients = [Reader(name("r")) for _ in range(4)]
    readers, lock = [client.name for client in clients], threading.Lock()
    pushed = [f"before{number}-{readers[0]}" for number in range(40)]

    def work(connection, turn):
        if turn % 6 >= 4:
            return write(turn)
        client = clients[turn % 6]
        page = client.take(connection, ("down", "up", "down")[turn // 6 % 3], 1 + turn % 9)
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
        client.take(service.public(), "first")
    with Load(service.public, work, threads=6) as load:
        harm(service, load, pushed)
    assert load.errors == []
    return clients, pushed


def finish_walks(service, clients, pushed):
    for client in clients:
        client.exhaust(service.public())
        assert client.shown == timeline(service, "discover", client.name)
        assert set(client.shown) == set(pushed)
    assert len(pushed) > 80
    service.check()
