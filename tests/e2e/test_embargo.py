"""Items that are dated ahead: nowhere before their date, everywhere within two seconds of it."""

import time

from service import PATIENT, wait_until
from timelines import ids, push, read


def surfaces(service, name, tag, shown, timeline):
    """{name: what shows ids there now}."""
    client, internal = service.public(), service.internal()

    def hot(which, **query):
        return lambda: [item["id"] for item in which.get("/api/hot", query={"tag": tag} | query).json()]

    def feed(**members):
        body = {"action": "refresh", "limit": 100, "agent_id": name("r")} | members  # a new reader each time
        return [item["id"] for item in client.post("/api/feed", body).json()["data"]["items"]]

    def listed(path, **query):
        return ids(client.get(path, query=query).json())

    out = {"feed": feed, "query": lambda: feed(query="apricot"),
           "recommendations": lambda: listed("/api/recommendations", userId=name("r"), limit=100),
           "timeline": lambda: ids(read(client, "discover", timeline, limit=100)),
           "similar": lambda: [shown] + listed(f"/api/items/{shown}/similar")}
    for query in ({}, {"model": "engagement"}, {"mode": "current"}, {"window": "24h"}):
        out |= {f"public {query}": hot(client, **query), f"internal {query}": hot(internal, **query)}
    return out


def test_an_item_that_is_dated_ahead_is_nowhere_before_its_date_and_everywhere_within_two_seconds_of_it(instance, name):
    service = instance("--no-limits", "--no-sample", list__rebuild_interval='"30s"', **PATIENT)
    shown, ahead, tag, timeline = name("s"), name("a"), name("t"), name("r")
    date = int(time.time()) + 10
    service.put(ahead, title="apricot early", tags=[tag], published_at=date)
    service.put(shown, title="apricot", tags=[tag])
    for _ in range(20):  # among which the two are alike
        service.put(name("o"), title="of something else")
    for item in (ahead, shown):  # an editor's look at the page
        assert service.public().track(item, 0, userId="u").status == 200
        assert service.public().view(item, "f").status == 200
    push(service, "discover", [shown, ahead], [timeline])
    everywhere = surfaces(service, name, tag, shown, timeline)
    for where, ask in everywhere.items():
        wait_until(lambda ask=ask: shown in ask(), where)
    looks = 0
    while time.time() < date - 0.5:
        for where, ask in everywhere.items():
            found = ask()
            assert ahead not in found or time.time() >= date, where
        looks += 1
    assert looks > 0
    assert service.internal().get(f"/api/items/{ahead}").status == 200
    wait_until(lambda: time.time() >= date + 2, "two seconds behind the date")
    assert [where for where, ask in everywhere.items() if ahead not in ask()] == []
    service.check()


def test_an_item_that_is_dated_ahead_later_leaves_at_once_and_can_be_published_early(service, name):
    item, tag = name("i"), name("t")
    service.put(item, tags=[tag])
    service.public().track(item, 0, userId="u")

    def listed():
        return [each["id"] for each in service.hot(model="engagement", tag=tag)]

    wait_until(lambda: listed() == [item], "the item")
    service.put(item, tags=[tag], published_at=int(time.time()) + 3600)
    wait_until(lambda: not any(listed() for _ in range(8)), "its leaving", 2)
    assert service.public().get(f"/api/items/{item}/similar").status == 404
    service.put(item, tags=[tag])
    wait_until(lambda: listed() == [item], "its return", 2)


def test_nothing_is_updated_in_the_future(service, name):
    item, now = name("i"), int(time.time())
    service.put(item, update_time=now + 86400 * 365)
    assert now <= service.internal().get(f"/api/items/{item}").json()["update_time"] <= time.time()
    service.put(item, update_time=now - 60)
    assert service.internal().get(f"/api/items/{item}").json()["update_time"] == now - 60
