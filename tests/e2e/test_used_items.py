"""Items that a reader has viewed, used or dismissed do not come back: in feeds, also from their buffers, in similar items and in
timelines.
"""

import time

import pytest

from service import LONG_TIMEOUTS, wait_until
from timelines import ids, push, read


@pytest.fixture(scope="module")
def site(request):
    """A service with twenty items of one tag, numbered from the newest."""
    from service import Instance  # pylint: disable=import-outside-toplevel
    service = Instance("--no-limits", **LONG_TIMEOUTS)
    service.start()
    request.addfinalizer(service.stop)
    now = int(time.time())
    for number in range(20):
        service.put(f"used{number}", tags=["used"], published_at=now - 60 * (number + 1), author=f"writer{number}")
    wait_for_index(service, 20)
    return service


def wait_for_index(service, items):
    peek = {"action": "peek", "userId": "peeking", "limit": 100}
    wait_until(lambda: service.internal().post("/api/feed", peek).json()["data"]["new"] >= items, "the items to be indexed")


def feed(service, reader, limit=100, action="refresh"):
    reply = service.internal().post("/api/feed", {"action": action, "userId": reader, "limit": limit})
    assert reply.status == 200, reply
    return [item["id"] for item in reply.json()["data"]["items"]]


def track(service, reader, item):
    assert service.public().track(item, 60_000, userId=reader, sessionId=reader).status == 200


def view(service, reader, item):
    assert service.public().post("/api/history", {"userId": reader, "topicId": item}).status == 200


def dismiss(service, reader, item):
    assert service.public().post("/api/feedback", {"userId": reader, "topicId": item, "kind": "not_interested"}).status == 200


def interact(kind):
    def act(service, reader, item):
        reply = service.internal().post("/api/interactions", {"userId": reader, "topicId": item, "kind": kind})
        assert reply.json()["accepted"] == 1, reply
    return act


USES = {"track": track, "history": view, "dismiss": dismiss} | {kind: interact(kind) for kind in ("like", "reply", "share")}


@pytest.mark.parametrize("use", USES)
def test_a_used_item_is_not_on_the_next_page_of_the_feed(site, name, use):
    reader = name("r")
    USES[use](site, reader, "used3")
    site.wait_for_background_writes()
    items = feed(site, reader)
    assert "used3" not in items and len(items) == 19


@pytest.mark.parametrize("use", USES)
def test_a_used_item_leaves_the_buffer_of_the_feed(site, name, use):
    reader = name("r")
    first = feed(site, reader, 5)
    used = next(f"used{number}" for number in range(20) if f"used{number}" not in first)
    USES[use](site, reader, used)
    site.wait_for_background_writes()
    rest = []
    while page := feed(site, reader, 5, "load_more"):
        rest += page
    assert used not in rest and len(set(first + rest)) == len(first + rest) == 19


def test_what_was_read_stays_out_although_the_history_does_not_have_it(instance, name):
    service, reader, items = instance("--no-limits", history__from_track="false", **LONG_TIMEOUTS), name("r"), [name("i") for _ in range(3)]
    for item in items:
        service.put(item)
    wait_for_index(service, 3)
    track(service, reader, items[1])
    service.wait_for_background_writes()
    assert sorted(feed(service, reader)) == sorted([items[0], items[2]])
    assert service.internal().get("/api/history", query={"userId": reader}).json()["items"] == []


def test_an_author_is_not_fed_their_own_items(site):
    items = feed(site, "writer7")
    assert "used7" not in items and len(items) == 19


def test_dismissed_items_are_neither_similar_nor_in_timelines_until_undone(site, name):
    reader, public = name("r"), site.public()
    push(site, "discover", [f"used{number}" for number in range(4)], [reader])

    def similar():
        reply = public.get("/api/items/used0/similar", query={"userId": reader, "limit": 100})
        assert reply.status == 200, reply
        return [item["id"] for item in reply.json()["items"]]

    everything = similar()
    assert "used2" in everything and "used2" in ids(read(public, "discover", reader, limit=10))
    dismiss(site, reader, "used2")
    assert similar() == [each for each in everything if each != "used2"]
    assert sorted(ids(read(public, "discover", reader, limit=10))) == ["used0", "used1", "used3"]
    page = read(public, "discover", reader, limit=2)
    assert len(ids(page)) == 2 and page["has_more"]
    assert public.delete("/api/feedback", query={"userId": reader, "topicId": "used2"}).status == 200
    assert similar() == everything and "used2" in ids(read(public, "discover", reader, limit=10))


def test_a_dismissal_older_than_the_seen_filter_still_counts(site, name):
    reader, old = name("r"), int(time.time()) - 20 * 86400
    site.redis("ZADD", f"user:not_interested:{{{reader}}}", old, "used4", int(time.time()) - 400 * 86400, "used6")
    items = feed(site, reader)
    assert "used4" not in items and "used6" in items
