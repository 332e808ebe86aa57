"""Items with a future publication date: invisible before it, and visible everywhere within two seconds of it."""

import re
import subprocess
import time

import pytest

from client import CRAWLER, assert_problem
from service import CTL, LONG_TIMEOUTS, wait_until
from timelines import ids, push, read


def surfaces(service, name, tag, visible, timeline):
    """{name: function that returns the ids shown there}."""
    client, internal = service.public(), service.internal()

    def hot(source, **query):
        return lambda: [item["id"] for item in source.get("/api/hot", query={"tag": tag} | query).json()]

    def feed(**members):
        body = {"action": "refresh", "limit": 100, "agent_id": name("r")} | members  # a new reader each time
        return [item["id"] for item in client.post("/api/feed", body).json()["data"]["items"]]

    def listed(path, **query):
        return ids(client.get(path, query=query).json())

    out = {"feed": feed, "query": lambda: feed(query="apricot"),
           "recommendations": lambda: listed("/api/recommendations", userId=name("r"), limit=100),
           "timeline": lambda: ids(read(client, "discover", timeline, limit=100)),
           "similar": lambda: [visible] + listed(f"/api/items/{visible}/similar")}
    for query in ({}, {"model": "engagement"}, {"mode": "current"}, {"window": "24h"}):
        out |= {f"public {query}": hot(client, **query), f"internal {query}": hot(internal, **query)}
    return out


def test_an_item_dated_in_the_future_appears_everywhere_within_two_seconds_of_its_date_and_not_before(instance, name):
    service = instance("--no-limits", "--no-sample", list__rebuild_interval='"30s"', **LONG_TIMEOUTS)
    visible, embargoed, tag, timeline = name("s"), name("a"), name("t"), name("r")
    date = int(time.time()) + 10
    service.put(embargoed, title="apricot early", tags=[tag], published_at=date)
    service.put(visible, title="apricot", tags=[tag])
    for _ in range(20):  # other items, so that these two are similar
        service.put(name("o"), title="of something else")
    for item in (embargoed, visible):  # an editor opens the page
        assert service.internal().track(item, 0, userId="u").status == 200
        assert service.internal().view(item, "f").status == 200
    push(service, "discover", [visible, embargoed], [timeline])
    readers = surfaces(service, name, tag, visible, timeline)
    for surface, read_ids in readers.items():
        wait_until(lambda read_ids=read_ids: visible in read_ids(), surface)
    checks = 0
    while time.time() < date - 0.5:
        for surface, read_ids in readers.items():
            found = read_ids()
            assert embargoed not in found or time.time() >= date, surface
        checks += 1
    assert checks > 0
    assert service.internal().get(f"/api/items/{embargoed}").status == 200
    wait_until(lambda: time.time() >= date + 2, "two seconds after the date")
    assert [surface for surface, read_ids in readers.items() if embargoed not in read_ids()] == []
    service.check()


def test_an_item_redated_to_the_future_disappears_at_once_and_can_be_published_early(service, name):
    item, tag = name("i"), name("t")
    service.put(item, tags=[tag])
    service.public().track(item, 0, userId="u")

    def listed():
        return [each["id"] for each in service.hot(model="engagement", tag=tag)]

    wait_until(lambda: listed() == [item], "the item to be listed")
    service.put(item, tags=[tag], published_at=int(time.time()) + 3600)
    wait_until(lambda: not any(listed() for _ in range(8)), "the item to disappear", 2)
    assert service.public().get(f"/api/items/{item}/similar").status == 404
    service.put(item, tags=[tag])
    wait_until(lambda: listed() == [item], "the item to reappear", 2)


def test_an_update_time_in_the_future_is_replaced_by_the_current_time(service, name):
    item, now = name("i"), int(time.time())
    service.put(item, update_time=now + 86400 * 365)
    assert now <= service.internal().get(f"/api/items/{item}").json()["update_time"] <= time.time()
    service.put(item, update_time=now - 60)
    assert service.internal().get(f"/api/items/{item}").json()["update_time"] == now - 60


def all_replies(service, item):
    """The replies to the same sequence of reports and views of `item`, without times and scores."""
    one, two, crawler = service.public(source="127.71.0.1"), service.public(source="127.72.0.1"), service.public(agent=CRAWLER)
    event = "an-event-id-of-enough-characters"
    sequence = [lambda: crawler.track(item, 500), lambda: crawler.view(item, "f0")]
    for client, number in ((one, 1), (one, 1), (one, 2), (two, 3), (two, 4)):
        sequence += [lambda client=client, number=number: client.track(item, 1000 * number, sessionId=f"s{number}"),
                     lambda client=client, number=number: client.view(item, f"f{number}"),
                     lambda client=client, number=number: client.track(item, 700, sessionId=f"e{number}", eventId=event),
                     lambda client=client, number=number: client.view(item, f"e{number}", eventId=event)]
    sequence += [lambda: one.track(item, -1), lambda: one.view(item, "f", "yesterday"), lambda: crawler.track(item, 500)]
    reader = {"userId": f"reader-of-{item}"}
    sequence += [lambda: one.post("/api/history", reader | {"topicId": item}),
                 lambda: one.post("/api/feedback", reader | {"topicId": item, "kind": "not_interested"}),
                 lambda: one.delete("/api/feedback", query=reader | {"topicId": item}),
                 lambda: one.get("/api/history", query=reader),
                 lambda: one.delete("/api/history", query=reader | {"topicId": item}),
                 lambda: one.get(f"/api/items/{item}/similar")]
    replies = [send() for send in sequence]
    varying = {"date", "x-request-id", "content-length", "etag"}
    return [(reply.status, [(key, value) for key, value in reply.headers.items() if key.lower() not in varying],
             re.sub(rb'"(score|scoreInc)":[0-9.e-]+', rb'"\1":0', reply.body).replace(item.encode(), b"ITEM")) for reply in replies]


@pytest.mark.parametrize("unknown", ["count", "list", "reject"])
def test_reports_of_an_item_that_is_not_visible_are_answered_like_those_of_an_unknown_one_and_do_not_count(instance, name, unknown):
    service = instance("--no-limits", items__unknown=f'"{unknown}"', **LONG_TIMEOUTS)
    tag = name("t")
    embargoed, hidden, removed = name("e"), name("h"), name("r")
    service.put(embargoed, tags=[tag], published_at=int(time.time()) + 3600)
    service.put(hidden, tags=[tag], hidden=True)
    service.put(removed, tags=[tag])
    service.internal().delete(f"/api/items/{removed}")
    site = service.internal()
    for item in (embargoed, hidden):  # the site's own reports count
        assert site.track(item, 3000, sessionId="editor").json()["pv"] == 1
        assert site.view(item, "editor").json()["uv"]
    before = {item: service.stats(item) for item in (embargoed, hidden)}
    expected = all_replies(service, name("u"))
    for item in (embargoed, hidden, removed):
        assert all_replies(service, item) == expected, item
    for item, stats in before.items():
        assert {key: service.stats(item)[key] for key in ("pv", "uv", "dwell")} == {key: stats[key] for key in ("pv", "uv", "dwell")}
        assert service.stats(item)["views"]["pv"] == 2
    assert_problem(site.get(f"/api/articles/{removed}/stats"), 404, "unknown_item")
    assert service.hot(tag=tag) == []
    # The reports leave nothing in lists or ranks, also not after a rebuild.
    subprocess.run([CTL, "rebuild-rank", "--state", service.state], check=True, capture_output=True, timeout=480)
    assert not [each["id"] for each in service.hot(limit=100) if each["id"].startswith((embargoed, hidden, removed))]
    # From its date on, a report counts.
    service.put(embargoed, tags=[tag])
    assert service.public(source="127.71.0.1").track(embargoed, 1000, sessionId="s1").json()["pv"] == 2
    service.check()
