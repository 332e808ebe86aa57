"""Readers' history, interactions and dismissals through the whole service: visible to every worker immediately, and kept
while Redis is unavailable.
"""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import CRAWLER, Load, assert_problem
from service import LONG_TIMEOUTS, wait_until

LINES = {"headers": {"Content-Type": "application/x-ndjson"}}


def record_view(client, reader, topic, **members):
    return client.post("/api/history", {"userId": reader, "topicId": topic} | members)


def history(client, reader, **query):
    reply = client.get("/api/history", query={"userId": reader} | query)
    assert reply.status == 200 and "degraded" not in reply.json(), reply
    return reply.json()["items"]


def interactions(service, reader):
    """{letter:item: Unix time in seconds}, from Redis."""
    return {member: int(score) for member, score in service.redis("ZRANGE", f"user:interactions:{{{reader}}}", 0, -1, "WITHSCORES")}


def dismissed(service, reader):
    return set(service.redis("ZRANGE", f"user:not_interested:{{{reader}}}", 0, -1))


def restart_redis_and_replay(service):
    service.restart_redis()
    wait_until(lambda: (status := service.status())["spooled bytes"] == 0 and status["redis ready"] == len(service.workers()),
               "the spool to be replayed and all workers to connect")


# --- history


def test_one_item_can_be_removed_from_the_history(service, name):
    reader, public = name("r"), service.public()
    for topic in ("a", "b", "c"):
        record_view(public, reader, topic)
    assert public.delete("/api/history", query={"userId": reader, "topicId": "b"}).json() == {"ok": True}
    assert history(public, reader) == ["c", "a"]
    assert_problem(public.delete("/api/history", query={"userId": reader, "topicId": ""}), 400, "bad_id", "topicId")
    assert_problem(public.delete("/api/history", query={"userId": reader, "topcId": "c"}), 400, "unknown_parameter", "topcId")
    assert history(public, reader) == ["c", "a"]


def test_a_removed_item_stays_removed_while_redis_is_away(instance, name):
    service = instance("--no-limits", **LONG_TIMEOUTS)
    reader = name("r")
    for topic in ("a", "b"):
        record_view(service.public(), reader, topic)
    service.make_redis_unavailable()
    reply = service.public().delete("/api/history", query={"userId": reader, "topicId": "b"})
    assert reply.status == 202 and reply.json()["queued"] is True
    restart_redis_and_replay(service)
    assert history(service.public(), reader) == ["a"]


def test_a_view_is_visible_to_the_next_request_on_any_worker(instance, name):
    service = instance("--no-limits", pm__max_children=4, **LONG_TIMEOUTS)
    assert len(service.workers()) == 4

    def browse(reader):
        expected = []
        for turn in range(40):
            topic = f"t{turn % 13}"
            assert record_view(service.public(), reader, topic).json() == {"ok": True}  # a new connection each time
            expected = ([topic] + [each for each in expected if each != topic])[:10]
            assert history(service.public(), reader) == expected
        assert history(service.public(), reader, kind="reply") == []

    def serving():
        processes = service.internal().get("/status?json&full").json()["processes"]
        return sum(process["requests"] > 0 for process in processes)

    # nginx keeps using one connection, and so one worker, until several are needed at once.
    for _ in range(10):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(browse, [name(f"r{i}") for i in range(8)]))
        if serving() > 1:
            break
    assert serving() > 1
    service.check()


def test_concurrent_views_of_one_reader_are_all_kept(service, name):
    reader, topics = name("r"), [f"t{number}" for number in range(10)]

    def view(client, turn):
        assert record_view(client, reader, topics[turn % 10]).status == 200
        return turn

    with Load(service.public, view) as load:
        wait_until(lambda: len(load.results) > 300 or load.errors, "views")
    assert load.errors == [] and sorted(history(service.public(), reader)) == sorted(topics)


def merge(service, source, target, **moved):
    """Merges readers and waits until the job is done. It must have moved exactly this."""
    reply = service.internal().post("/api/history/merge", {"from": source, "to": target})
    assert reply.status == 202 and reply.json()["ok"], reply

    def job():
        return service.internal().get(f"/api/jobs/{reply.json()['job']}").json()
    wait_until(lambda: job()["state"] == "done", "the merge", 60)
    assert {kind: count for kind, count in job()["moved"].items() if count} == {kind: count for kind, count in moved.items() if count}, job()


def test_topic_and_reply_histories_are_cleared_separately_and_merged_at_login(service, name):
    client, guest, user = service.public(), name("guest"), name("user")
    record_view(client, user, "t1")
    wait_until(lambda: time.time() % 1 < 0.9, "the middle of a second")
    record_view(client, guest, "t2")
    record_view(client, guest, "r1", kind="reply")
    record_view(client, guest, "t1")
    merge(service, guest, user, views=3)
    assert sorted(history(client, user)) == ["t1", "t2"] and history(client, user, kind="reply") == ["r1"]
    assert history(client, guest) == [] and history(client, guest, kind="reply") == []
    merge(service, user, user, views=0)
    assert client.delete("/api/history", query={"userId": user}).json() == {"ok": True}
    assert history(client, user) == [] and history(client, user, kind="reply") == ["r1"]
    assert_problem(client.post("/api/history/merge", {"from": guest, "to": user}), 404)  # merging is not public


def test_a_view_repeated_with_its_event_id_does_not_change_the_order(service, name):
    client, reader, event = service.public(), name("r"), name("e")
    first = record_view(client, reader, "a", eventId=event)
    record_view(client, reader, "b")
    again = record_view(client, reader, "a", eventId=event)
    assert (again.status, again.body) == (first.status, first.body) and history(client, reader) == ["b", "a"]
    assert_problem(record_view(client, reader, "a", eventId="no\tid"), 400, "bad_id", "eventId")


def test_page_views_are_added_to_the_history_unless_configured_otherwise(instance, name):
    reader, event = name("r"), name("e")
    silent = instance("--no-limits", history__from_track="false", **LONG_TIMEOUTS)
    silent.public().track(name("t"), 0, userId=reader)
    silent.wait_for_background_writes()
    assert history(silent.public(), reader) == []
    tracking_service = instance("--no-limits", **LONG_TIMEOUTS)
    client = tracking_service.public()
    topics = [name("t") for _ in range(3)]
    client.track(topics[0], 0, userId=reader, eventId=event)
    wait_until(lambda: history(client, reader) == topics[:1], "the first view")
    client.track(topics[1], 0, userId=reader)
    wait_until(lambda: history(client, reader) == topics[1::-1], "the second view")
    second = int(tracking_service.redis("TIME")[0])
    wait_until(lambda: int(tracking_service.redis("TIME")[0]) > second, "a later second")
    client.track(topics[0], 0, userId=reader, eventId=event)  # repeated
    client.track(topics[2], 0)  # without a known reader
    assert tracking_service.public(agent=CRAWLER).track(topics[2], 0, userId=reader).json()["counted"] is False
    tracking_service.kill_redis()
    wait_until(lambda: client.post("/api/track", {"articleId": topics[2], "userId": reader, "dwellMs": 0}).status == 202, "a queued report")
    restart_redis_and_replay(tracking_service)
    wait_until(lambda: topics[2] in history(client, reader), "the queued report to be applied")
    assert history(client, reader) == [topics[2], topics[1], topics[0]]


def test_views_of_crawlers_are_answered_but_not_stored(service, name):
    reader = name("r")
    assert record_view(service.public(agent=CRAWLER), reader, "t").json() == {"ok": True, "counted": False}
    assert history(service.public(), reader) == []


def test_a_view_costs_two_commands_one_of_them_after_the_response(instance, name):
    """The second keeps the topic out of the feed."""
    # One worker: another one would greet Redis when nginx first connects to it.
    service, reader = instance("--no-limits", pm__max_children=1, **LONG_TIMEOUTS), name("r")
    client = service.public()
    record_view(client, reader, "warm")
    wait_until(lambda: "sampled at" in service.status(), "the first sample of the store, which is repeated every ten seconds")

    def measure_between_samples():
        before, began = settled_status(service), time.monotonic()
        for _ in range(50):
            assert record_view(client, reader, name("t")).status == 200
        after = settled_status(service)
        return (before, after, time.monotonic() - began) if before["sampled at"] == after["sampled at"] else None

    before, after, duration_s = wait_until(measure_between_samples, "50 views between two samples", 120)
    commands, trips = (after[key] - before[key] for key in ("redis commands", "redis round trips"))
    overhead = status_cost(service)
    samples = duration_s + 1  # one per second for the maintenance of ranks: a round trip of five commands
    assert commands <= 100 + overhead["redis commands"] + 5 * samples and 0 < trips <= 100 + overhead["redis round trips"] + samples, (before, after, duration_s)


def settled_status(service):
    """/status, after the workers have had time to publish their counters."""
    last = None

    def steady():
        nonlocal last
        now = service.status()["requests"]
        last, was = now, last
        return was is not None and now - was <= 1

    wait_until(steady, "steady counters")
    return service.status()


def status_cost(service):
    """A generous upper bound on what the status requests of two settled_status() calls add."""
    before = service.status()
    for _ in range(5):
        service.status()
    after = service.status()
    return {key: 3 * (after[key] - before[key]) for key in ("redis commands", "redis round trips")}


# --- interactions


def test_an_interaction_with_an_event_id_counts_once(service, name):
    reader, client = name("r"), service.internal()
    event = {"userId": reader, "topicId": "t", "kind": "like", "at": 1700000000, "eventId": "e1"}
    for members in ({}, {"at": 1700000500}):
        assert client.post("/api/interactions", event | members).json() == {"accepted": 1, "rejected": []}
    assert interactions(service, reader) == {"l:t": 1700000000}
    assert client.post("/api/interactions", event | {"eventId": "e2", "at": 1600000000}).status == 200
    assert client.post("/api/interactions", event | {"eventId": "e3", "kind": "reply", "at": "2023-11-14T22:13:20Z"}).status == 200
    assert interactions(service, reader) == {"l:t": 1700000000, "r:t": 1700000000}
    assert client.post("/api/interactions", event | {"eventId": "e4", "kind": "share", "at": int(time.time()) + 3600}).status == 200
    assert abs(interactions(service, reader)["s:t"] - time.time()) < 60  # a time in the future counts as now


def test_ten_thousand_lines_are_accepted_and_bad_ones_are_named(service, name):
    readers = [name("r") for _ in range(20)]
    lines = [json.dumps({"userId": readers[turn % 20], "topicId": f"t{turn}", "kind": "like", "at": 1700000000 + turn, "eventId": f"e{turn}"})
             for turn in range(10000)]
    lines[17], lines[4999], lines[5000] = "{", "", json.dumps({"userId": "a\tb", "topicId": "t", "kind": "like"})
    body = "\n".join(lines) + '\n{"userId":"u","topicId":'  # and the last line is truncated
    for _ in range(2):  # repeating the whole request changes nothing
        reply = service.internal().post("/api/interactions", body, **LINES)
        assert reply.status == 200, reply
        assert reply.json()["accepted"] == 9997
        assert [(row["line"], row["code"], row.get("member")) for row in reply.json()["rejected"]] == [
            (18, "bad_json", None), (5001, "bad_id", "userId"), (10001, "bad_json", None)]
    assert sum(len(interactions(service, reader)) for reader in readers) == 9997
    service.check()


def test_ndjson_is_detected_without_its_content_type(service, name):
    reader = name("r")
    one = {"userId": reader, "topicId": "t", "kind": "post"}
    post = service.internal().post
    assert post("/api/interactions", json.dumps(one, indent=2)).json() == {"accepted": 1, "rejected": []}
    assert post("/api/interactions", json.dumps(one) + "\n" + json.dumps(one | {"topicId": "t2"})).json()["accepted"] == 2
    assert post("/api/interactions", json.dumps(one) + "\n{").json() == {
        "accepted": 1, "rejected": [{"line": 2, "code": "bad_json", "detail": "invalid JSON at byte 1"}]}
    assert_problem(post("/api/interactions", '{"userId":'), 400, "bad_json")
    assert post("/api/interactions", "\n\n", **LINES).json() == {"accepted": 0, "rejected": []}


@pytest.mark.parametrize("members, code, member", [
    ({"kind": "view"}, "bad_kind", "kind"), ({"kind": "hate"}, "bad_kind", "kind"), ({"kind": None}, "bad_kind", "kind"), ({"kind": 3}, "bad_kind", "kind"),
    ({"at": -1}, "bad_time", "at"), ({"at": "1969-12-31T23:59:59Z"}, "bad_time", "at"), ({"at": "yesterday"}, "bad_time", "at"),
    ({"at": 1e18}, "bad_time", "at"), ({"at": int(time.time()) + 90000}, "bad_time", "at"), ({"at": 1.5}, "bad_time", "at"),
    ({"userId": None}, "bad_id", "userId"), ({"userId": "a\tb"}, "bad_id", "userId"), ({"topicId": ""}, "bad_id", "topicId"),
    ({"topicId": 1.5}, "bad_id", "topicId"), ({"topicId": "x" * 513}, "bad_id", "topicId"), ({"eventId": "a\nb"}, "bad_id", "eventId")])
def test_a_bad_interaction_is_named_alone_and_in_a_bulk_request(service, members, code, member):
    event = {"userId": "bad", "topicId": "t", "kind": "like"} | members
    problem = assert_problem(service.internal().post("/api/interactions", event), 400, code, member)
    reply = service.internal().post("/api/interactions", json.dumps(event), **LINES)
    assert reply.json() == {"accepted": 0, "rejected": [{"line": 1, "code": code, "member": member, "detail": problem["detail"]}]}
    assert service.redis("EXISTS", "user:interactions:{bad}") == 0


def test_interactions_and_merges_are_internal(service):
    for path in ("/api/interactions", "/api/history/merge"):
        assert_problem(service.public().post(path, {}), 404)


def test_with_items_unknown_reject_an_unknown_topic_is_refused(instance, name):
    service = instance("--no-limits", items__unknown='"reject"', **LONG_TIMEOUTS)
    reader, known = name("r"), name("t")
    service.put(known)
    lines = "\n".join(json.dumps({"userId": reader, "topicId": topic, "kind": "like"}) for topic in ("none", known))
    assert service.internal().post("/api/interactions", lines, **LINES).json() == {
        "accepted": 1, "rejected": [{"line": 1, "code": "unknown_item", "member": "topicId", "detail": "No such item"}]}
    assert_problem(record_view(service.public(), reader, "none"), 404, "unknown_item")
    assert record_view(service.public(), reader, known).status == 200
    assert_problem(service.public().post("/api/feedback", {"userId": reader, "topicId": "none", "kind": "not_interested"}), 404, "unknown_item")


# --- feedback


def test_a_dismissal_is_stored_with_its_reason_and_can_be_undone(service, name):
    client, reader = service.public(), name("r")
    feedback = {"userId": reader, "kind": "not_interested"}
    for topic in ("a", "b", "c"):
        assert client.post("/api/feedback", feedback | {"topicId": topic, "reason": "too 長い"}).json() == {"ok": True}
    assert service.redis("HGET", f"user:not_interested:why:{{{reader}}}", "a") == "too 長い"
    assert client.delete("/api/feedback", query={"userId": reader, "topicId": "a"}).json() == {"ok": True}
    assert client.request("DELETE", "/api/feedback", feedback | {"topicId": "b"}).json() == {"ok": True}
    assert dismissed(service, reader) == {"c"}
    service.check()


@pytest.mark.parametrize("members, code, member", [
    ({"kind": "spam"}, "bad_kind", "kind"), ({"kind": None}, "bad_kind", "kind"), ({"reason": "x" * 201}, "bad_string", "reason"),
    ({"reason": 7}, "bad_string", "reason"), ({"topicId": None}, "bad_id", "topicId"), ({"userId": ""}, "bad_id", "userId"), ({"userId": None}, "bad_id", "userId")])
def test_bad_feedback_is_400_and_named(service, members, code, member):
    reply = service.public().post("/api/feedback", {"userId": "r", "topicId": "t", "kind": "not_interested"} | members)
    assert_problem(reply, 400, code, member)


@pytest.mark.parametrize("members, code, member", [
    ({"kind": "page"}, "bad_kind", "kind"), ({"kind": 1}, "bad_kind", "kind"), ({"topicId": None}, "bad_id", "topicId"), ({"topicId": "a\tb"}, "bad_id", "topicId"),
    ({"userId": None}, "bad_id", "userId"), ({"userId": "a\tb"}, "bad_id", "userId")])
def test_a_bad_view_is_400_and_named(service, members, code, member):
    assert_problem(service.public().post("/api/history", {"userId": "r", "topicId": "t"} | members), 400, code, member)


def test_bad_parameters_of_reading_and_undoing_are_400_and_named(service):
    client = service.public()
    assert_problem(client.get("/api/history"), 400, "bad_id", "userId")
    assert_problem(client.get("/api/history", query={"userId": "r", "kind": "all"}), 400, "bad_kind", "kind")
    assert_problem(client.delete("/api/history", query={"userId": "a\tb"}), 400, "bad_id", "userId")
    assert_problem(client.delete("/api/feedback", query={"userId": "r"}), 400, "bad_id", "topicId")
    assert_problem(client.delete("/api/feedback", query={"userId": "r", "topicId": "t", "kind": "like"}), 400, "bad_kind", "kind")
    assert_problem(client.put("/api/history", {}), 405)


def test_where_claims_are_not_trusted_clients_cannot_act_for_other_readers(instance, name):
    service, reader = instance("--no-limits", identity__mode='"header"', **LONG_TIMEOUTS), name("r")
    assert record_view(service.internal(), reader, "mine").status == 200
    public = service.public()
    assert_problem(record_view(public, reader, "t"), 400, "bad_id", "userId")
    assert_problem(public.get("/api/history", query={"userId": reader}), 400, "bad_id", "userId")
    assert_problem(public.delete("/api/history", query={"userId": reader}), 400, "bad_id", "userId")
    assert_problem(public.post("/api/feedback", {"userId": reader, "topicId": "t", "kind": "not_interested"}), 400, "bad_id", "userId")
    assert history(service.internal(), reader) == ["mine"]


# --- without Redis


def test_without_redis_writes_are_queued_and_applied_once(instance, name):
    # Without a recorder, all entries stay in the stream and can be counted.
    service, reader = instance("--no-limits", **LONG_TIMEOUTS, recorder__enabled="false"), name("r")
    public, internal = service.public(), service.internal()
    record_view(public, reader, "before")
    public.post("/api/feedback", {"userId": reader, "topicId": "taken", "kind": "not_interested"})
    service.make_redis_unavailable()
    queued = {"ok": True, "queued": True}
    first = record_view(public, reader, "t1"), record_view(public, reader, "t2")
    # Each worker has its own spool. Between spools, views are ordered by their second.
    second = int(time.time())
    wait_until(lambda: int(time.time()) > second, "the next second")
    for reply in (*first, record_view(public, reader, "t1"),
                  record_view(public, reader, "r1", kind="reply"), public.delete("/api/history", query={"userId": reader, "kind": "reply"}),
                  public.post("/api/feedback", {"userId": reader, "topicId": "no", "kind": "not_interested", "reason": "why"}),
                  public.delete("/api/feedback", query={"userId": reader, "topicId": "taken"})):
        assert (reply.status, reply.json()) == (202, queued), reply
    event = {"userId": reader, "topicId": "t", "kind": "like", "at": 1700000000}
    reply = internal.post("/api/interactions", event)
    assert (reply.status, reply.json()) == (202, {"accepted": 1, "rejected": [], "queued": True})
    lines = "\n".join(json.dumps(event | {"topicId": f"t{turn}", "eventId": f"e{turn}"}) for turn in range(1200)) + "\n{"
    reply = internal.post("/api/interactions", lines, **LINES)
    assert (reply.status, reply.json()) == (202, {"accepted": 1200, "rejected": [{"line": 1201, "code": "bad_json", "detail": "invalid JSON at byte 1"}], "queued": True})
    reply = public.get("/api/history", query={"userId": reader})
    assert (reply.status, reply.json(), reply.headers["Freshet-Degraded"]) == (200, {"items": [], "degraded": True}, "true")
    assert internal.post("/api/history/merge", {"from": reader, "to": "other"}).status == 503
    restart_redis_and_replay(service)
    wait_until(lambda: service.status()["spooled bytes"] == 0, "every worker's spool to be replayed")
    wait_until(lambda: history(public, reader) == ["t1", "t2", "before"], "every worker to reconnect to Redis")
    assert history(public, reader, kind="reply") == []
    assert len(interactions(service, reader)) == 500 and set(interactions(service, reader).values()) == {1700000000}
    assert dismissed(service, reader) == {"no"}
    assert service.redis("HGET", f"user:not_interested:why:{{{reader}}}", "no") == "why"
    entries = [dict(zip(entry[1][::2], entry[1][1::2])) for entry in service.redis("XRANGE", "recorder:stream", "-", "+")]
    assert service.status()["background dropped"] == 0
    assert len({each["item"] for each in entries if each["op"] == "interaction"}) == 1201
    assert [each["op"] for each in entries].count("interaction") == 1201
    others = [(each["op"], each["item"]) for each in entries if each["op"] != "interaction"]
    assert others[0] == ("dismiss", "taken")
    assert sorted(others[1:]) == [("dismiss", "no"), ("undismiss", "taken")]  # possibly from the spools of two workers
    service.check()


def test_a_full_spool_refuses_interactions_line_by_line_and_then_with_503(instance, name):
    service, reader = instance("--no-limits", spool__max_bytes=65536, pm__max_children=1), name("r")
    service.make_redis_unavailable()
    lines = "\n".join(json.dumps({"userId": reader, "topicId": f"t{turn}", "kind": "like"}) for turn in range(2000))
    reply = service.internal().post("/api/interactions", lines, **LINES)
    result = reply.json()
    assert reply.status == 202 and 0 < result["accepted"] < 2000 and result["queued"], reply
    assert len(result["rejected"]) == 2000 - result["accepted"] and {each["code"] for each in result["rejected"]} == {"spool_full"}
    reply = service.internal().post("/api/interactions", lines, **LINES)
    assert_problem(reply, 503, "spool_full")
    assert int(reply.headers["Retry-After"]) >= 1
    # The remaining space may fit a few views, which are shorter.
    reply = wait_until(lambda: (last := record_view(service.public(), reader, "t")).status == 503 and last, "a view to be refused")
    assert int(reply.headers["Retry-After"]) >= 1
    restart_redis_and_replay(service)
    assert len(interactions(service, reader)) == min(500, result["accepted"])


def test_user_id_is_accepted_wherever_an_older_parameter_name_is(service, name):
    public, internal = service.public(), service.internal()
    item, author = name("i"), name("a")
    service.put(item, author=author)
    for parameter in ("userId", "agent_id"):
        reply = public.post("/api/feed", {"action": "peek", parameter: name("r")})
        assert reply.status == 200, reply
    assert_problem(public.post("/api/feed", {"action": "peek", "userId": "a\tb"}), 400, "bad_id", "userId")
    for follower_parameter, reader_parameter in (("userId", "userId"), ("follower", "customerId")):
        reader = name("r")
        assert internal.put("/api/follows", {follower_parameter: reader, "author": author}).status == 200
        assert public.get("/api/follows", query={follower_parameter: reader}).json()["items"] == [author]
        assert internal.request("DELETE", "/api/follows", query={follower_parameter: reader, "author": author}).status == 200
        assert public.get("/api/follows", query={follower_parameter: reader}).json()["items"] == []
        assert internal.post("/api/waterfall/discover", {"items": [item], "customers": [reader]}).json()["pushed"] == 1
        assert public.get("/api/waterfall/discover", query={reader_parameter: reader}).json()["items"][0]["id"] == item
        assert internal.delete(f"/api/waterfall/discover/{item}", query={reader_parameter: reader}).json() == {"removed": 1}
    assert_problem(internal.put("/api/follows", {"userId": "a\tb", "author": author}), 400, "bad_id", "userId")
