"""The smart feed through the whole service: pages, tokens, peeks, hidden items, bad input, faults."""

import json
import os
import signal
import threading
import time

import pytest

from client import assert_problem
from service import LONG_TIMEOUTS, wait_until

DAY = 86400


class Feed:
    """One reader's feed over one connection."""

    def __init__(self, service, agent):
        self.client, self.agent, self.page = service.public(), agent, None

    def post(self, action, limit=10, **members):
        return self.client.post("/api/feed", {"action": action, "limit": limit, "agent_id": self.agent} | members)

    def fetch(self, action, limit=10, **members):
        reply = self.post(action, limit, **members)
        assert reply.status == 200, reply
        assert reply.headers["Cache-Control"] == "private, no-store"
        answer = reply.json()
        assert (answer["code"], answer["msg"]) == (0, "success")
        data = answer["data"]
        if action != "peek":
            assert data["has_more"] == (not data["exhausted"])
            self.page = data["page"]
        return data

    def ids(self, action, limit=10, **members):
        return [item["id"] for item in self.fetch(action, limit, **members)["items"]]

    def read_all(self, limit=10):
        """All items to the end of the feed, in delivery order."""
        out, action = [], "refresh"
        for _ in range(200):
            data = self.fetch(action, limit)
            out += [item["id"] for item in data["items"]]
            if data["exhausted"]:
                return out
            action = "load_more"
        raise AssertionError("the feed does not end")


def refresh_until(reader, count):
    """Refreshes until `count` items were delivered: each worker sees a new item within a second, at its own time."""
    got = []
    wait_until(lambda: got.extend(reader.ids("refresh")) or len(got) >= count, "new items")
    return got


def put_items(service, name, count, **members):
    """Puts items that are a minute apart, newest first. Returns their ids once all can be recalled."""
    now = int(time.time())
    ids = [name(f"item{i}") for i in range(count)]
    lines = [{"id": each, "title": f"about {each}", "published_at": now - 60 * i} | members for i, each in enumerate(ids)]
    body = "\n".join(json.dumps(line) for line in lines)
    reply = service.internal().post("/api/items", body, headers={"Content-Type": "application/x-ndjson"})
    assert reply.status == 200 and reply.json() == {"accepted": count, "rejected": []}, reply
    wait_until_recalled(service, name, ids)
    return ids


def wait_until_recalled(service, name, ids):
    wanted = set(ids)
    wait_until(lambda: wanted <= set(Feed(service, name("probe")).read_all(100)), "the items to be recalled")


@pytest.fixture
def site(instance):
    """An empty instance with one worker, which sees its own changes immediately."""
    return instance("--no-limits", **LONG_TIMEOUTS, pm__max_children="1")


def test_a_feed_returns_every_item_once_newest_first_and_ends(site, name):
    ids = put_items(site, name, 45)
    reader = Feed(site, name("r"))
    first = reader.fetch("refresh", 20)
    assert [item["id"] for item in first["items"]][:20] == ids[:20]
    assert {"id", "title", "update_time", "tags"} <= set(first["items"][0])
    site.public().track(ids[0], 1000, sessionId=name("s"))
    wait_until(lambda: site.stats(ids[0])["shown"] > 0, "the impressions to be counted")
    stats = site.stats(ids[0])
    assert stats["pv"] == 1 and stats["click_through"] == 1 / stats["shown"]
    assert first["items"][0]["title"] == f"about {ids[0]}"
    rest = reader.ids("load_more", 20) + reader.ids("load_more", 20) + reader.ids("load_more", 20)
    everything = [item["id"] for item in first["items"]] + rest
    assert len(everything) == len(set(everything))
    assert set(ids) <= set(everything)
    last = reader.fetch("load_more")
    assert last["items"] == [] and last["exhausted"] and not last["has_more"]
    assert reader.ids("refresh") == []
    new = put_items(site, name, 2)
    assert sorted(refresh_until(reader, 2)) == sorted(new)


def test_every_item_has_a_reason_even_on_buffered_pages(site, name):
    put_items(site, name, 8, tags=["garden"])
    reader = Feed(site, name("r"))
    site.put(liked := name("liked"), title="Roses", tags=["garden"], author="ann")
    wait_until_recalled(site, name, [liked])
    assert {item["reason"]["kind"] for item in reader.fetch("refresh", 4)["items"]} == {"new"}
    reply = site.internal().post("/api/interactions", {"userId": reader.agent, "topicId": liked, "kind": "favorite"})
    assert reply.status == 200, reply
    reasons = [item["reason"] for item in reader.fetch("load_more", 2)["items"]]
    assert reasons == [{"kind": "new_in_tag", "tag": "garden", "text": "new in garden"}] * 2
    assert [item["reason"]["kind"] for item in reader.fetch("refresh", 2, query="about")["items"]] == ["query"] * 2


def test_a_new_item_is_recalled(site, name):
    reader = Feed(site, name("r"))
    reader.read_all(100)
    item = name("fresh")
    site.put(item)
    began = time.monotonic()
    wait_until(lambda: reader.fetch("peek")["new"] == 1, "the new item")
    print(f"recalled after {time.monotonic() - began:.2f} s")
    assert refresh_until(reader, 1) == [item]


def test_peek_records_nothing(site, name):
    ids = put_items(site, name, 5)
    reader = Feed(site, name("r"))
    assert reader.fetch("peek", 5) == {"new": 5}
    assert reader.fetch("peek", 5) == {"new": 5}
    assert reader.ids("refresh", 5) == ids
    assert site.redis("EXISTS", f"feed:state:{{{reader.agent}}}") == 1


def test_a_repeated_request_returns_the_same_page_so_a_lost_reply_loses_nothing(site, name):
    put_items(site, name, 12)
    reader = Feed(site, name("r"))
    first = reader.fetch("refresh", 3, eventId="e1")
    assert reader.fetch("refresh", 3, eventId="e1") == first
    more = reader.fetch("load_more", 3, eventId="e1")  # another action with the same event id is another page
    assert not {i["id"] for i in more["items"]} & {i["id"] for i in first["items"]}
    assert reader.fetch("load_more", 3, eventId="e1") == more and reader.fetch("refresh", 3, eventId="e1") == first
    second = reader.fetch("load_more", 3, page=first["page"])
    # on another connection, perhaps to another worker
    again = Feed(site, reader.agent).fetch("load_more", 3, page=first["page"])
    assert again == second
    third = reader.fetch("load_more", 3, page=second["page"])
    assert not {i["id"] for i in third["items"]} & {i["id"] for i in second["items"]}
    refreshed = reader.fetch("refresh", 3, page=third["page"])  # another action is a new page
    assert not {i["id"] for i in refreshed["items"]} & {i["id"] for i in third["items"]}


def test_forged_page_tokens_and_those_of_other_readers_are_refused(site, name):
    put_items(site, name, 3)
    mine, other = Feed(site, name("r")), Feed(site, name("r"))
    token = mine.fetch("refresh", 1)["page"]
    generation, sequence, seal = token.split(".")
    for forged in ("", "x", token[:-1], token + "x", f"{int(generation) + 1}.{sequence}.{seal}", f"{generation}.0{sequence}.{seal}", "1.1.", "..", token.upper()):
        if forged and forged != token:
            assert_problem(mine.post("load_more", page=forged), 400, "bad_page", "page")
    assert_problem(other.post("load_more", page=token), 400, "bad_page", "page")


def test_hidden_and_deleted_items_leave_the_buffer_and_the_page_is_refilled(site, name):
    ids = put_items(site, name, 12)
    reader = Feed(site, name("r"))
    assert reader.ids("refresh", 3) == ids[:3]
    site.put(ids[3], hidden=True)
    assert site.internal().delete(f"/api/items/{ids[4]}").status == 200
    if site.masters:
        pytest.skip("in a cluster, an invalidation takes a moment to arrive")
    assert reader.ids("load_more", 3) == ids[5:8]
    site.put(ids[3], published_at=int(time.time()))
    wait_until(lambda: ids[3] in reader.ids("refresh", 1), "the item to reappear")


def test_a_query_searches_and_a_changed_query_starts_over(site, name):
    word, other = name("w").replace("-", ""), name("v").replace("-", "")
    about = put_items(site, name, 4, title=f"all about {word} and tea")
    put_items(site, name, 3, title=f"all about {other}")
    reader = Feed(site, name("r"))
    assert set(reader.ids("refresh", 2, query=word)) | set(reader.ids("load_more", 5, query=word)) == set(about)
    assert reader.fetch("load_more", 5, query=word)["exhausted"]
    assert len(reader.ids("load_more", 5, query=other)) == 3
    # A long query is cut to 512 bytes.
    assert set(Feed(site, name("r")).ids("refresh", 10, query=f"{word} " + "é" * 500 + f" {other}")) == set(about)
    chinese = put_items(site, name, 1, title="分布式系统的软件设计")
    assert Feed(site, name("r")).ids("refresh", 5, query="软件") == chinese


def test_the_feed_follows_the_readers_interests(site, name):
    tag = name("t")
    old = put_items(site, name, 6, tags=[tag], title="roses in winter")
    put_items(site, name, 30)
    reader = Feed(site, name("r"))
    site.public().track(old[0], 30000, userId=reader.agent)
    wait_until(lambda: site.redis("EXISTS", f"user:interactions:{{{reader.agent}}}") == 1, "the interaction to be stored")
    assert set(reader.ids("refresh", 5)) == set(old[1:])  # without the one that was read


def test_a_reader_with_500_likes_of_unknown_items_gets_a_full_page(site, name):
    ids, reader = put_items(site, name, 10), Feed(site, name("r"))
    likes = [{"userId": reader.agent, "topicId": name(f"unknown{i}"), "kind": "like"} for i in range(500)]
    for like in likes:
        reply = site.internal().post("/api/interactions", like)
        assert reply.status == 200, reply
    wait_until(lambda: site.redis("ZCARD", f"user:interactions:{{{reader.agent}}}") == 500, "the likes to be stored")
    assert reader.ids("refresh", 10) == ids


@pytest.mark.parametrize("members, member", [
    ({"action": "reload"}, "action"), ({"action": None}, "action"), ({"action": 1}, "action"), ({"action": ""}, "action"),
    ({"limit": 0}, "limit"), ({"limit": 101}, "limit"), ({"limit": -1}, "limit"), ({"limit": 1.5}, "limit"),
    ({"limit": "20"}, "limit"), ({"limit": 1e9}, "limit"), ({"limit": True}, "limit"),
    ({"agent_id": None}, "agent_id"), ({"agent_id": ""}, "agent_id"), ({"agent_id": "a\tb"}, "agent_id"), ({"agent_id": 1.5}, "agent_id"),
    ({"query": 5}, "query"), ({"page": 7}, "page"), ({"page": "x" * 200}, "page"), ({"eventId": "a\nb"}, "eventId")])
def test_bad_members_are_400_and_named(service, members, member):
    reply = service.public().post("/api/feed", {"action": "refresh", "agent_id": "r", "limit": 1} | members)
    assert_problem(reply, 400, member=member)


def test_a_body_beyond_the_limit_is_413_and_a_wrong_method_405(service):
    assert_problem(service.public().post("/api/feed", {"action": "refresh", "agent_id": "r", "query": "x" * 20000}), 413)
    assert_problem(service.internal().get("/api/feed"), 405)


def test_unusual_queries_are_searched_literally(service, name):
    reader = Feed(service, name("r"))
    for query in ('"', '"a', "AND", "a AND", "NOT b", "(", "a)", "*", "a*", "??", "title:", "XOR", "a NEAR/9999 b", "+", "-", "~", "\u0000", "\ufeff", "a" * 1000,
                  "' OR 1=1 --", "<script>", "%00", "软", "👍", "\u202e", "..", "a..b", "2020..", "NEAR ADJ", "a\nb"):
        reply = reader.post("refresh", 1, query=query)
        assert reply.status == 200, (query, reply)


@pytest.mark.parametrize("at_once", [2, 8])
def test_concurrent_requests_of_one_reader_never_return_the_same_item(own_service, name, at_once):
    site = own_service
    ids = put_items(site, name, 60)
    for turn in range(6):
        agent, got, errors = name("r"), [], []
        barrier = threading.Barrier(at_once)

        def run(number):
            try:
                feed = Feed(site, agent)
                barrier.wait()
                got.append(feed.ids("refresh" if (number + turn) % 3 else "load_more", 5))
            except Exception as error:
                errors.append(error)
        threads = [threading.Thread(target=run, args=(number,)) for number in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        flat = [each for page in got for each in page]
        last = Feed(site, agent)
        # A worker that does not know all items yet returns fewer, and the rest later.
        wait_until(lambda: flat.extend(last.ids("load_more", 100)) or len(flat) >= 60, "the remaining items")
        assert len(flat) == len(set(flat)) == 60 and set(flat) == set(ids)


def unacknowledged(service, readers):
    """How many of each reader's last four pages are not acknowledged."""
    pages = [page for reader in readers for page in service.redis("HMGET", f"feed:state:{{{reader}}}", "0", "1", "2", "3") if page]
    assert len(pages) >= len(readers)
    return sum(page.startswith("0=") for page in pages)


def test_impressions_reach_the_filter_and_are_then_acknowledged(site, name):
    put_items(site, name, 3)
    reader = Feed(site, name("r"))
    delivered = reader.ids("refresh", 3)
    wait_until(lambda: unacknowledged(site, [reader.agent]) == 0, "the acknowledgement")
    site.redis("DEL", f"feed:state:{{{reader.agent}}}", f"feed:cache:{{{reader.agent}}}")
    assert not set(reader.read_all(50)) & set(delivered)  # only the filter remembers them
    keys = site.redis("KEYS", "bf:global:*")
    assert keys and all(site.redis("TTL", key) > 7 * DAY for key in keys)


def test_without_redis_a_feed_is_empty_and_degraded_and_delivered_items_do_not_repeat(site, name):
    put_items(site, name, 40)
    reader = Feed(site, name("r"))
    first = reader.ids("refresh", 10)
    token = reader.page
    before = site.status()
    assert before["feed pages"] > 0
    site.kill_redis()
    data = reader.fetch("load_more", 10, page=token)
    assert data["items"] == [] and data["degraded"] and data["has_more"] and data["page"] == token
    assert reader.fetch("peek").get("degraded")
    after = site.status()
    assert [after[key] - before[key] for key in ("feed pages", "feed pages degraded")] == [1, 1]
    site.restart_redis()
    wait_until(lambda: "degraded" not in reader.fetch("peek"), "the feed to recover")
    rest = Feed(site, reader.agent).read_all(10)
    assert len(rest) == 30 and not set(rest) & set(first)
    site.check()


def test_delivered_items_do_not_repeat_when_the_worker_dies_immediately(site, name):
    """A delivery is stored in Redis when it is made, independently of the impressions."""
    put_items(site, name, 30)
    readers = [Feed(site, name("r")) for _ in range(8)]
    delivered = [set(reader.ids("refresh", 10)) for reader in readers]
    killed = site.workers()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not set(killed) & set(site.workers()) and site.status()["redis ready"] == len(killed), "new workers")
    for reader, before in zip(readers, delivered):
        rest = Feed(site, reader.agent).read_all(10)
        assert not set(rest) & before and len(set(rest) | before) == 30


def test_no_impression_is_lost_when_workers_exit(instance, name):
    """A reload ends workers with SIGQUIT; they write their pending impressions first."""
    service = instance("--no-limits", **LONG_TIMEOUTS, pm__max_children="1")
    put_items(service, name, 30)
    readers = [name("r") for _ in range(60)]
    delivered, errors = {}, []

    def read(batch):
        for reader in batch:
            try:
                delivered[reader] = set(Feed(service, reader).ids("refresh", 10))
            except Exception as error:
                errors.append(repr(error))

    threads = [threading.Thread(target=read, args=(readers[part::4],)) for part in range(4)]
    for thread in threads:
        thread.start()
    service.reload()
    for thread in threads:
        thread.join()
    assert errors == [] and len(delivered) == 60
    wait_until(lambda: unacknowledged(service, readers) == 0, "every acknowledgement")
    for reader in readers[::7]:
        service.redis("DEL", f"feed:state:{{{reader}}}", f"feed:cache:{{{reader}}}")
        assert not delivered[reader] & set(Feed(service, reader).read_all(30))  # only the filter remembers them
