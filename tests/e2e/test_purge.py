"""freshetctl visitors and purge: an operator finds who counts too much, and takes it back while others read on."""

import itertools
import signal
import subprocess
import threading

import pytest

from client import AGENT, Load
from service import CTL, PATIENT, kill_in_the_middle, wait_until

HOT = {"model": "engagement"}


def ctl(service, *command, expect=0):
    done = subprocess.run([CTL, *command, "--state", service.state], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == expect, (command, done.stdout, done.stderr)
    return done.stdout if expect == 0 else done.stderr


def rows(said):
    """{first column: [the other columns as numbers, of the reading time its text]} of a table."""
    return {line.split()[0]: line.split()[1:] for line in said.splitlines()[1:]}


def cookie_of(service):
    """A visitor who has the cookie from the start, and the name that the service counts them under."""
    given = service.public().post("/api/visitor", None).headers["Set-Cookie"].split(";")[0]
    return {"Cookie": given}


def push_up(service, item, headers, sessions):
    """What a fraud does: one visitor, many sessions and fingerprints."""
    client = service.public()
    for number in range(sessions):
        body = {"articleId": item, "dwellMs": 20000, "sessionId": f"s{number}", "fingerprint": f"f{number}"}
        assert client.post("/api/track", body, headers=headers).status == 200
        assert client.post("/api/views", {"articleId": item, "fingerprint": f"f{number}", "publishedAt": 1}, headers=headers).status == 200


def test_the_fraud_is_on_top_and_their_counts_go(own_service, name):
    service, good, bad = own_service, name("good"), name("bad")
    for item in (good, bad):
        service.put(item)
    fraud = cookie_of(service)
    push_up(service, bad, fraud, 40)
    for number in range(10):
        for item in (good, bad) if number < 4 else (good,):
            assert service.internal().track(item, 20000, userId=f"reader{number}").status == 200
            assert service.internal().view(item, f"reader{number}").status == 200
    assert [item["id"] for item in service.hot(**HOT)] == [bad, good]
    before = service.stats(bad)
    assert (before["pv"], before["uv"], before["views"]["pv"]) == (44, 5, 44)

    table = rows(ctl(service, "visitors", "--top", "3"))
    visitor = next(iter(table))
    assert len(table) == 3 and visitor.startswith("c") and table[visitor][:3] == ["1", "40", "1"]
    shown = rows(ctl(service, "visitors", visitor))
    assert shown[bad][:3] == ["1", "40", "1"] and shown[bad][-1] == "40" and shown["together"] == shown[bad]
    assert rows(ctl(service, "purge", "--dry-run", visitor)) == shown
    assert service.stats(bad)["pv"] == 44

    assert "40 page views, 1 visitors" in ctl(service, "purge", visitor)
    after = service.stats(bad)
    assert (after["pv"], after["uv"], after["views"]["pv"], after["dwell"]["sum_ms"]) == (4, 4, 4, 80000)
    assert after["avg_dwell_ms"] == 20000
    wait_until(lambda: [item["id"] for item in service.hot(**HOT)] == [good, bad], "the list without the fraud")
    wait_until(lambda: [item["id"] for item in service.hot(model="views")] == [good, bad], "the views without the fraud")
    assert visitor not in rows(ctl(service, "visitors"))
    assert "0 page views" in ctl(service, "purge", visitor)
    assert service.stats(bad)["pv"] == 4
    service.check()


def test_users_and_the_anonymous_are_found_by_what_an_operator_knows_of_them(own_service, name):
    service, item, agent = own_service, name("i"), f"{AGENT} cheat"
    service.put(item)
    for number in range(3):
        assert service.internal().track(item, 1000, userId="mallory", sessionId=f"s{number}").status == 200
        assert service.public(agent=agent).track(item, 1000, sessionId=f"a{number}", fingerprint=f"f{number}").status == 200
    assert "3 page views" in ctl(service, "purge", "--reader", "mallory")
    anonymous = ctl(service, "visitors", "--address", "127.0.0.1", "--agent", agent)
    assert anonymous.startswith("a") and rows(anonymous)[item][1:3] == ["3", "3"]
    assert "3 page views, 3 visitors" in ctl(service, "purge", "--address", "127.0.0.1", "--agent", agent)
    assert service.redis("EXISTS", f"hot:pv:{item}") == 0
    assert item not in [each["id"] for each in service.hot(**HOT)]
    service.check()


def test_a_purge_under_load_that_is_killed_and_repeated_leaves_what_the_others_added(own_service, name):
    service = own_service
    items = [name("i") for _ in range(60)]
    for item in items:
        service.put(item)
    fraud, counted, number = cookie_of(service), {item: 0 for item in items}, itertools.count()
    lock = threading.Lock()

    def read(client, _):
        turn = next(number)
        reply = client.post("/api/track", {"articleId": items[turn % 60], "dwellMs": 10, "userId": f"r{turn}"})
        assert reply.status == 200, reply
        with lock:
            counted[items[turn % 60]] += 1
        return turn

    def cheat():
        client = service.public()
        for turn, item in enumerate(items * 3):
            assert client.post("/api/track", {"articleId": item, "dwellMs": 9000, "sessionId": f"x{turn}"}, headers=fraud).status == 200

    cheat()
    visitor = next(iter(rows(ctl(service, "visitors", "--top", "1"))))
    killed = 0
    with Load(service.internal, read, threads=2) as load:
        wait_until(lambda: len(load.results) > 100, "load")
        for _ in range(12):
            killed += kill_in_the_middle(0.06, "purge", visitor, "--state", service.state)
            cheat()
        ctl(service, "purge", visitor)
    assert load.errors == [] and killed > 0
    for item in items:
        stats = service.stats(item)
        assert stats["pv"] == counted[item] and stats["dwell"]["sum_ms"] == 10 * counted[item], item
    service.check()
    ranks = service.redis("ZRANGE", "hot:rank", 0, -1, "WITHSCORES")
    ctl(service, "rebuild-rank")
    assert service.redis("ZRANGE", "hot:rank", 0, -1, "WITHSCORES") == ranks


@pytest.mark.parametrize(("command", "says"), [
    (["purge"], "whose counts"), (["purge", "--address", "127.0.0.1"], "User-Agent"), (["purge", "a b"], "white space"),
    (["purge", "--reader", "{"], "an id has no"), (["visitors", "--top", "0"], "--top")])
def test_what_cannot_be_meant_is_refused(service, command, says):
    done = subprocess.run([CTL, *command, "--state", service.state], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0 and says in done.stderr, done


def test_what_is_not_remembered_cannot_be_purged_and_says_so(instance, name):
    service, item = instance("--no-limits", limits__remember='"0s"', **PATIENT), name("i")
    service.put(item)
    assert service.internal().track(item, 1, userId="u").status == 200
    assert service.redis("KEYS", "hot:added:*") == []
    for command in ("visitors", "purge"):
        assert "limits.remember" in ctl(service, command, "--reader", "u", expect=1)


def test_without_redis_it_says_so(own_service):
    own_service.signal("redis", signal.SIGKILL)
    assert "redis.sock" in ctl(own_service, "purge", "cAAAAAAAAAAAAAAAAAAAAAA", expect=1)
