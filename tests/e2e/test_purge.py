"""freshetctl top-contributors and revert-visitor: an operator finds fraudulent visitors and reverts their contributions under load."""

import itertools
import json
import signal
import subprocess
import threading
import time

import pytest

from client import AGENT, Load
from service import CTL, LONG_TIMEOUTS, kill_while_running, wait_until

HOT = {"model": "engagement"}


def ctl(service, *command, expect=0):
    """Output of the command, which runs after pending contributions were written."""
    service.wait_for_background_writes()
    done = subprocess.run([CTL, *command, "--state", service.state], capture_output=True, text=True, check=False, timeout=480)
    assert done.returncode == expect, (command, done.stdout, done.stderr)
    return done.stdout if expect == 0 else done.stderr


def table_rows(output, table=0):
    """{first column: [other columns]} of a printed table, by its number in the output."""
    return {line.split()[0]: line.split()[1:] for line in output.split("\n\n")[table].splitlines()[1:]}


def new_visitor_cookie(service):
    """The Cookie header of a new visitor."""
    cookie = service.public().post("/api/visitor", None).headers["Set-Cookie"].split(";")[0]
    return {"Cookie": cookie}


def inflate(service, item, headers, sessions):
    """Fraud: one visitor with many sessions and fingerprints."""
    client = service.public()
    for number in range(sessions):
        body = {"articleId": item, "dwellMs": 20000, "sessionId": f"s{number}", "fingerprint": f"f{number}"}
        assert client.post("/api/track", body, headers=headers).status == 200
        assert client.post("/api/views", {"articleId": item, "fingerprint": f"f{number}", "publishedAt": 1}, headers=headers).status == 200


def test_a_fraudulent_visitor_is_listed_first_and_can_be_reverted(own_service, name):
    service, good, bad = own_service, name("good"), name("bad")
    for item in (good, bad):
        service.put(item)
    fraud = new_visitor_cookie(service)
    inflate(service, bad, fraud, 40)
    for number in range(10):
        for item in (good, bad) if number < 4 else (good,):
            assert service.internal().track(item, 20000, userId=f"reader{number}").status == 200
            assert service.internal().view(item, f"reader{number}").status == 200
    assert [item["id"] for item in service.hot(**HOT)] == [bad, good]
    before = service.stats(bad)
    assert (before["pv"], before["uv"], before["views"]["pv"]) == (44, 5, 88)  # a page view is a view, too

    table = table_rows(ctl(service, "top-contributors", "--top", "3"))
    visitor = next(iter(table))
    assert len(table) == 3 and visitor.startswith("c") and table[visitor][:3] == ["1", "40", "1"]
    details = table_rows(ctl(service, "top-contributors", visitor))
    assert details[bad][:3] == ["1", "40", "1"] and details[bad][-1] == "80" and details["total"] == details[bad]
    assert table_rows(ctl(service, "revert-visitor", "--dry-run", visitor)) == details
    listed = json.loads(ctl(service, "top-contributors", "--json"))["visitors"]
    assert len(listed) > 3 and (listed[0]["visitor"], listed[0]["articles"], listed[0]["pv"]) == (visitor, 1, 40)
    [contributions] = json.loads(ctl(service, "top-contributors", "--json", visitor))
    assert json.loads(ctl(service, "revert-visitor", "--dry-run", "--json", visitor)) == [contributions]
    assert [(item["id"], item["pv"], item["views"]) for item in contributions["items"]] == [(bad, 40, 80)]
    assert service.stats(bad)["pv"] == 44

    assert "40 page views, 1 visitors" in ctl(service, "revert-visitor", visitor)
    after = service.stats(bad)
    assert (after["pv"], after["uv"], after["views"]["pv"], after["dwell"]["sum_ms"]) == (4, 4, 8, 80000)
    assert after["avg_dwell_ms"] == 20000
    wait_until(lambda: [item["id"] for item in service.hot(**HOT)] == [good, bad], "the list without the fraud")
    wait_until(lambda: [item["id"] for item in service.hot(model="views")] == [good, bad], "the views without the fraud")
    assert visitor not in table_rows(ctl(service, "top-contributors"))
    assert "0 page views" in ctl(service, "revert-visitor", visitor)
    assert service.stats(bad)["pv"] == 4
    service.check()


def test_visitors_can_be_named_by_user_or_by_address_and_agent(own_service, name):
    service, item, agent = own_service, name("i"), f"{AGENT} cheat"
    service.put(item)
    for number in range(3):
        assert service.internal().track(item, 1000, userId="mallory", sessionId=f"s{number}").status == 200
        assert service.public(agent=agent).track(item, 1000, sessionId=f"a{number}", fingerprint=f"f{number}").status == 200
    assert "3 page views" in ctl(service, "revert-visitor", "--reader", "mallory")
    anonymous = ctl(service, "top-contributors", "--address", "127.0.0.1", "--agent", agent)
    assert anonymous.startswith("a") and table_rows(anonymous)[item][1:3] == ["3", "3"]
    assert "3 page views, 3 visitors" in ctl(service, "revert-visitor", "--address", "127.0.0.1", "--agent", agent)
    assert service.redis("HEXISTS", f"hot:article:{{{item}}}", "pv") == 0
    # No article is hot, so the list has the newest.
    assert [(each["id"], each["score"]) for each in service.hot(**HOT)] == [(item, 0)]
    service.check()


def test_a_network_is_reverted_as_a_whole_and_others_are_kept(own_service, name):
    service, item = own_service, name("i")
    service.put(item)
    for number in range(12):
        assert service.public(source=f"127.0.7.{1 + number}", agent=f"{AGENT} {number}").track(item, 1000, sessionId=f"s{number}").status == 200
    for number in range(2):
        assert service.public(source="127.0.8.1", agent=f"{AGENT} {number}").track(item, 1000, sessionId=f"t{number}").status == 200
    output = ctl(service, "top-contributors", "--top", "14")
    table, by_network = table_rows(output), table_rows(output, 1)
    networks = [columns[-1] for columns in table.values()]
    assert {network: columns[:3] for network, columns in by_network.items()} == {
        network: [str(networks.count(network))] * 3 for network in networks}
    listed = json.loads(ctl(service, "top-contributors", "--json", "--top", "1"))
    assert len(listed["visitors"]) == 1  # the worst network is the first, although each of its visitors has one page view
    assert [(each["network"], each["contributors"], each["pv"]) for each in listed["networks"]] == [(next(iter(by_network)), 12, 12)]
    assert len(table) == 14 and sorted(networks.count(each) for each in set(networks)) == [2, 12]
    for network in ("127.0.7.0/24", "127.0.7.99", max(networks, key=networks.count)):
        assert set(table_rows(ctl(service, "top-contributors", "--network", network))) == {visitor for visitor, columns in table.items() if networks.count(columns[-1]) == 12}
    assert "excludes" in ctl(service, "top-contributors", next(iter(table)), "--network", "127.0.7.0/24", expect=2)
    ctl(service, "revert-visitor", "--network", "127.0.7.0/24")
    stats = service.stats(item)
    assert (stats["pv"], stats["uv"], stats["dwell"]["sum_ms"]) == (2, 2, 2000)
    assert len(table_rows(ctl(service, "top-contributors"))) == 2
    service.check()


def test_the_first_page_views_of_an_article_are_not_recorded_and_revert_visitor_says_how_many_remain(instance, name):
    service = instance("--no-limits", limits__contribution_after=20, **LONG_TIMEOUTS)
    item, other, reader = name("i"), name("other"), name("r")
    service.put(item)
    service.put(other)

    def report(number):  # each from another client
        client = service.public(source=f"127.0.7.{1 + number % 200}", agent=f"{AGENT} {number}")
        assert client.track(item, 1000, sessionId=f"s{number}").status == 200

    for number in range(20):
        report(number)
    service.wait_for_background_writes()
    assert service.redis("KEYS", "hot:added:*") == []  # neither of the network nor of a visitor
    for number in range(20, 70):
        report(number)
        assert service.public(source="127.0.7.1").track(other, 1000, sessionId=f"o{number % 20}").status == 200
    [(visitor, columns)] = table_rows(ctl(service, "top-contributors")).items()  # under the network's name
    assert (visitor, columns[:3]) == (columns[-1], ["1", "50", "50"])
    for number in range(30):
        assert service.internal().track(item, 1000, userId=reader, sessionId=f"t{number}").status == 200
    assert service.stats(item)["pv"] == 100
    assert {each["unrecorded_per_article"] for each in json.loads(ctl(service, "revert-visitor", "--network", "127.0.7.0/24", "--dry-run", "--json"))} == {20}
    assert "up to 20 page views and 20 views" in ctl(service, "revert-visitor", "--network", "127.0.7.0/24")
    assert service.stats(item)["pv"] == 20 + 30
    assert service.stats(other)["pv"] == 20
    assert "10 page views" in ctl(service, "revert-visitor", "--reader", reader)
    assert service.stats(item)["pv"] == 20 + 20
    service.check()


def test_a_killed_and_repeated_revert_under_load_keeps_the_contributions_of_others(own_service, name):
    service = own_service
    items = [name("i") for _ in range(60)]
    for item in items:
        service.put(item)
    fraud, counted, number = new_visitor_cookie(service), {item: 0 for item in items}, itertools.count()
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
    visitor = next(iter(table_rows(ctl(service, "top-contributors", "--top", "1"))))
    began = time.monotonic()
    subprocess.run([CTL, "revert-visitor", visitor, "--dry-run", "--state", service.state], capture_output=True, check=True, timeout=240)
    duration_s, killed, tries = time.monotonic() - began, 0, 0
    with Load(service.internal, read, threads=2) as load:
        wait_until(lambda: len(load.results) > 100, "load")
        while tries < 6 or (killed == 0 and tries < 100):
            killed += kill_while_running(1.5 * duration_s, "revert-visitor", visitor, "--state", service.state)
            cheat()
            tries += 1
        ctl(service, "revert-visitor", visitor)
    assert load.errors == [] and killed > 0
    for item in items:
        stats = service.stats(item)
        assert stats["pv"] == counted[item] and stats["dwell"]["sum_ms"] == 10 * counted[item], item
    service.check()
    service.wait_for_background_writes()
    ranks = service.redis("ZRANGE", "hot:rank", 0, -1, "WITHSCORES")
    ctl(service, "rebuild-rank")
    assert service.redis("ZRANGE", "hot:rank", 0, -1, "WITHSCORES") == ranks


@pytest.mark.parametrize(("command", "message"), [
    (["revert-visitor"], "name a visitor"), (["revert-visitor", "--address", "127.0.0.1"], "only together"), (["revert-visitor", "a\u00a0b"], "white space"),
    (["revert-visitor", "--reader", "\u200b"], "an id must not contain"), (["top-contributors", "--top", "0"], "--top"),
    *((["revert-visitor", "--network", network], "must be an address") for network in ("foo", "*", "999.1.1.1", "/24", "2001:db8::g/48")),
    *((["revert-visitor", "--network", network], "give 127.0.9.0/24") for network in ("127.0.9.0/8", "127.0.9.0/33", "127.0.9.0/", "127.0.9.0/24/24", "127.0.9.0/foo")),
    (["top-contributors", "--network", "2001:db8::/32"], "give 2001:db8::/48")])
def test_invalid_arguments_are_refused(service, command, message):
    done = subprocess.run([CTL, *command, "--state", service.state], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode != 0 and message in done.stderr, done


def test_revert_visitor_is_refused_if_contributions_are_not_recorded(instance, name):
    service, item = instance("--no-limits", limits__contribution_ttl='"0s"', **LONG_TIMEOUTS), name("i")
    service.put(item)
    assert service.internal().track(item, 1, userId="u").status == 200
    assert service.redis("KEYS", "hot:added:*") == []
    for command in ("top-contributors", "revert-visitor"):
        assert "limits.contribution_ttl" in ctl(service, command, "--reader", "u", expect=2)


def test_an_unreachable_redis_is_reported(own_service):
    own_service.signal("redis", signal.SIGKILL)
    assert "redis.sock" in ctl(own_service, "revert-visitor", "cAAAAAAAAAAAAAAAAAAAAAA", expect=2)
