"""Reading in "Hot articles": lists of all models, their parameters and caching, and when items leave them."""

import json
import os
import signal
import time

import pytest

import fastcgi
from client import assert_problem
from service import wait_until

HALF_LIFE_S = 86400
HOUR_S = 3600


@pytest.fixture
def tagged_items(service, name):
    """A tag with three items that have 3, 2 and 1 readers: (tag, [hottest, …])."""
    tag, items = name("t"), [name("c"), name("b"), name("a")]
    for readers, item in zip((3, 2, 1), items):
        service.put(item, tags=[tag, "common"], url=f"/{item}", author="someone")
        for number in range(readers):
            assert service.public().track(item, 0, userId=f"u{number}").status == 200
            assert service.public().view(item, f"f{number}").status == 200
    return tag, items


def ids(items):
    return [item["id"] for item in items]


@pytest.mark.parametrize("query", [{}, {"model": "views"}, {"mode": "accumulate"}, {"mode": "current"}, {"model": "engagement"},
                                   {"window": "24h"}, {"model": "engagement", "window": "7d"}, {"mode": "current", "window": "72h"}])
def test_lists_of_every_model_are_sorted_by_score_and_include_item_data(service, tagged_items, query):
    tag, items = tagged_items
    # mode=current learns of a view asynchronously.
    listed = wait_until(lambda: (now := service.hot(tag=tag, **query)) and ids(now) == items and now, "three items, the hottest first")
    assert [item["score"] for item in listed] == sorted((item["score"] for item in listed), reverse=True)
    for item in listed:
        assert item["title"] == f"about {item['id']}"
        assert (item["url"], item["author"], item["tags"]) == (f"/{item['id']}", "someone", [tag, "common"])


def test_items_that_were_never_put_are_listed_without_item_data(own_service, name):
    item = name("a")
    own_service.internal().view(item, "f")
    assert [sorted(each) for each in own_service.hot()] == [["id", "score"]]
    assert ids(own_service.hot()) == [item]


@pytest.mark.parametrize("hours, views, score", [(12, 120, 2.2908), (4, 80, 5.4433), (72, 300, 0.4713)])
def test_current_mode_matches_the_reference_scores(service, name, hours, views, score):
    tag, item, client = name("t"), name("a"), service.public()
    published = int(time.time()) - hours * HOUR_S

    def score_now():  # on a slow machine, the article is now older than in the reference
        return score * ((hours + 2) / ((time.time() - published) / HOUR_S + 2)) ** 1.5

    service.put(item, tags=[tag], published_at=published)
    for number in range(views // 3):  # a visitor's first view of the day has weight 3
        client.view(item, f"f{number}")
    for number in range(views % 3):
        service.redis("DEL", *service.redis("KEYS", f"hot:dedup:{{{item}}}:*"))
        client.view(item, f"f{number}")
    assert service.stats(item)["views"]["total"] == views
    # The list may still lack the last view, which is worth more than the tolerance.
    wait_until(lambda: (now := service.hot(mode="current", tag=tag)) and now[0]["score"] == pytest.approx(score_now(), abs=2e-3), f"the score {score}")


def test_a_limit_truncates_the_list(service, tagged_items):
    tag, items = tagged_items
    for limit in (1, 2, 3, 100):
        assert ids(service.hot(tag=tag, limit=limit)) == items[:limit]


@pytest.mark.parametrize("member, value", [
    ("limit", "0"), ("limit", "101"), ("limit", "-1"), ("limit", "1e1"), ("limit", ""), ("limit", "2.0"), ("limit", "9" * 30),
    ("model", "hot"), ("model", ""), ("mode", "both"), ("window", "1h"), ("window", "24H"), ("tag", ""), ("tag", " "),
    ("tag", "x" * 65), ("tag", "a\x01b")])
def test_a_bad_parameter_is_named(service, member, value):
    for client in (service.public(), service.internal()):
        assert_problem(client.get("/api/hot", query={member: value}), 400, member=member)


@pytest.mark.parametrize("offset", [-3600, 365 * 86400 + 60, -10**10, 10**12])
def test_a_time_in_the_past_or_too_far_ahead_is_refused(service, offset):
    reply = service.public().get("/api/hot", query={"model": "engagement", "at": int(time.time()) + offset})
    assert_problem(reply, 400, "bad_time", "at")


def test_the_views_model_has_no_future_lists(service):
    assert_problem(service.public().get("/api/hot", query={"at": int(time.time()) + 60}), 400, member="at")


@pytest.mark.parametrize("text", ["", "tomorrow", "1e9", "2030-01-01", "nan"])
def test_an_invalid_time_is_refused(service, text):
    assert_problem(service.public().get("/api/hot", query={"model": "engagement", "at": text}), 400, "bad_time", "at")


def test_scores_halve_within_a_half_life_and_keep_their_order(service, tagged_items):
    tag, items = tagged_items
    now = int(time.time()) + 5
    query = {"model": "engagement", "tag": tag}
    today, tomorrow = service.hot(at=now, **query), service.hot(at=now + HALF_LIFE_S, **query)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + 2 * HALF_LIFE_S))
    later = service.hot(at=stamp, **query)
    assert ids(today) == ids(tomorrow) == ids(later) == items
    for first, second, third in zip(today, tomorrow, later):
        assert second["score"] == pytest.approx(first["score"] / 2, rel=1e-9)
        assert third["score"] == pytest.approx(first["score"] / 4, rel=1e-9)


def test_ages_are_computed_at_the_last_full_minute(service, name):
    tag, item, published = name("t"), name("a"), int(time.time()) - HOUR_S
    service.put(item, tags=[tag], published_at=published)
    service.public().track(item, 0, userId="u")
    service.public().view(item, "f")
    minute = (published // 60 + 200) * 60
    for at in (minute, minute + 59):
        [listed_item] = wait_until(lambda at=at: service.hot(model="engagement", tag=tag, at=at), "the item to be listed")
        assert (listed_item["published_at"], listed_item["age"]) == (published, minute - published)
    for query in ({}, {"mode": "current"}, {"model": "engagement"}):
        before = int(time.time())
        [listed_item] = wait_until(lambda query=query: service.hot(tag=tag, **query), "the item to be listed")
        # The list may be some seconds old.
        assert (listed_item["age"] + published) % 60 == 0 and before - 120 < listed_item["age"] + published <= time.time()
    [listed_item] = service.internal().get("/api/hot/preview", query={"model": "engagement", "tag": tag}).json()
    assert (listed_item["age"] + published) % 60 == 0


def test_a_future_list_is_never_cached(service, tagged_items):
    reply = service.public().get("/api/hot", query={"model": "engagement", "tag": tagged_items[0], "at": int(time.time()) + 900})
    assert reply.status == 200 and "no-store" in reply.headers["Cache-Control"]


def test_windows_exclude_older_items(service, name):
    tag, now = name("t"), int(time.time())
    ages = {"24h": 2, "72h": 48, "7d": 5 * 24, "all": 30 * 24}
    items = {}
    for window, hours in ages.items():
        items[window] = name(window)
        service.put(items[window], tags=[tag], published_at=now - hours * HOUR_S)
        service.public().view(items[window], "f")
        service.public().track(items[window], 0, userId="u")
    for query in ({}, {"model": "engagement"}, {"mode": "current"}):
        for count, window in enumerate(ages, 1):
            expected, parameters = list(items.values())[:count], {"tag": tag, "window": window} | query
            wait_until(lambda expected=expected, parameters=parameters: ids(service.hot(**parameters)) == expected, f"{expected} of {parameters}")


def test_an_unused_tag_has_an_empty_list(service, name):
    assert service.hot(tag=name("t")) == []


# --- caching


def test_lists_have_an_etag_and_may_be_served_stale_while_revalidated(service, tagged_items):
    for client in (service.public(), service.internal()):
        reply = client.get("/api/hot", query={"tag": tagged_items[0]})
        assert "max-age=" in reply.headers["Cache-Control"] and "stale-while-revalidate=" in reply.headers["Cache-Control"]
        for match in ("{}", '"other", {}', "*", "W/{}"):
            def again(client=client, match=match):  # all ages change with the minute, and the ETag with them
                tag = client.get("/api/hot", query={"tag": tagged_items[0]}).headers["ETag"]
                same = client.get("/api/hot", query={"tag": tagged_items[0]}, headers={"If-None-Match": match.format(tag)})
                return (same.status, same.body, same.headers["ETag"]) == (304, b"", tag)
            wait_until(again, f"a 304 for {match}")
        assert client.get("/api/hot", query={"tag": tagged_items[0]}, headers={"If-None-Match": '"other"'}).status == 200


def test_different_lists_have_different_etags(service, tagged_items):
    client = service.internal()
    tags = [client.get("/api/hot", query={"tag": tagged_items[0], "limit": limit}).headers["ETag"] for limit in (1, 2)]
    assert tags[0] != tags[1]
    before = client.get("/api/hot", query={"tag": tagged_items[0]}).headers["ETag"]
    service.public().view(tagged_items[1][2], "another")
    wait_until(lambda: client.get("/api/hot", query={"tag": tagged_items[0]}).headers["ETag"] != before, "another ETag")


def test_head_matches_get_without_a_body(service, tagged_items):
    for client in (service.public(), service.internal()):
        path = f"/api/hot?tag={tagged_items[0]}"
        full, head = client.get(path), client.request("HEAD", path)
        assert (head.status, head.body) == (200, b"")
        wait_until(lambda: client.request("HEAD", path).headers["ETag"] == client.get(path).headers["ETag"], "equal ETags")  # noqa: B023
        assert head.headers["Content-Type"] == full.headers["Content-Type"] == "application/json"


def test_a_view_reaches_the_list_within_the_rebuild_interval(service, tagged_items):
    tag, items = tagged_items
    assert ids(service.hot(tag=tag)) == items
    for number in range(9):
        service.public().view(items[2], f"g{number}")
    wait_until(lambda: ids(service.hot(tag=tag))[0] == items[2], "the new order", 5)
    wait_until(lambda: ids(service.public().get("/api/hot", query={"tag": tag}).json())[0] == items[2], "the new order in public", 8)


def test_cached_lists_expire_within_a_minute(service, tagged_items):
    tag = tagged_items[0]
    service.hot(tag=tag)
    keys = wait_until(lambda: [key for key in service.redis("KEYS", "hot:list*") if tag in key], "the list to be cached")
    for key in keys:
        assert 0 < service.redis("TTL", key) <= 60


# --- hidden, deleted and re-dated items


QUERIES = [{}, {"model": "engagement"}, {"mode": "current"}]


def shown_lists(service, tag, query):
    """The lists of all workers: several requests, each on its own connection."""
    return {tuple(ids(service.hot(tag=tag, **query))) for _ in range(8)}


def changes_immediately(service, tag, query, expected):
    """Other workers learn of a change from a message that may arrive just after a request, so a few requests are allowed.
    They must not wait for the next rebuild.
    """
    return any(shown_lists(service, tag, query) == {expected} for _ in range(4))


@pytest.mark.parametrize("query", QUERIES)
def test_a_hidden_item_leaves_every_list_at_once_and_can_return(service, tagged_items, query):
    tag, items = tagged_items
    wait_until(lambda: shown_lists(service, tag, query) == {tuple(items)}, "all three items")
    members = service.put(items[0], tags=[tag, "common"], hidden=True)
    assert changes_immediately(service, tag, query, tuple(items[1:]))
    service.public().track(items[0], 0, userId="late")
    service.public().view(items[0], "late")
    assert shown_lists(service, tag, query) == {tuple(items[1:])}
    service.put(items[0], **(members | {"hidden": False}))
    wait_until(lambda: shown_lists(service, tag, query) == {tuple(items)}, "the item to return")


@pytest.mark.parametrize("query", QUERIES)
def test_a_deleted_item_leaves_every_list_at_once(service, tagged_items, query):
    tag, items = tagged_items
    wait_until(lambda: shown_lists(service, tag, query) == {tuple(items)}, "all three items")
    assert service.internal().delete(f"/api/items/{items[1]}").status == 200
    assert changes_immediately(service, tag, query, (items[0], items[2]))


@pytest.mark.latency
def test_a_deleted_item_leaves_every_public_list_within_two_seconds_idle_or_busy(service, tagged_items):
    tag, items = tagged_items
    client = service.public()
    wait_until(lambda: shown_lists(service, tag, {}) == {tuple(items)}, "all three items")

    def public(limit):
        return [each["id"] for each in client.get("/api/hot", query={"tag": tag, "limit": limit}).json()]

    idle = range(4, 44)  # as many lists in nginx's cache, filled at different times
    for limit in idle:
        assert items[0] in public(limit)
        busy = items[0] in public(100)
    assert busy and service.internal().delete(f"/api/items/{items[0]}").status == 200
    deleted = time.monotonic()
    while items[0] in public(100):
        pass
    assert time.monotonic() - deleted < 2.0
    wait_until(lambda: time.monotonic() > deleted + 2.0, "two seconds")
    assert [limit for limit in idle if items[0] in public(limit)] == []


def test_a_new_date_changes_the_rank_of_the_item(service, tagged_items):
    tag, items = tagged_items
    query = {"model": "engagement"}
    assert shown_lists(service, tag, query) == {tuple(items)}
    service.put(items[0], tags=[tag], published_at=int(time.time()) - 5 * HALF_LIFE_S)
    wait_until(lambda: shown_lists(service, tag, query) == {(items[1], items[2], items[0])}, "the new order")
    item = service.hot(tag=tag, at=int(time.time()) + 5, **query)[2]
    stats = service.stats(items[0])
    assert stats["age_seconds"] >= 5 * HALF_LIFE_S
    assert item["score"] == pytest.approx(stats["score"], rel=2e-4)
    assert ids(service.hot(tag=tag, window="24h", **query)) == [items[1], items[2]]


def test_a_changed_tag_moves_the_item_to_another_list(service, tagged_items, name):
    tag, items = tagged_items
    other = name("t")
    service.put(items[0], tags=[other])
    wait_until(lambda: ids(service.hot(tag=tag)) == items[1:], "the item to leave its old list")
    wait_until(lambda: ids(service.hot(tag=other)) == items[:1], "the item to be in the new list")
    assert service.redis("SISMEMBER", f"tag:{tag}", items[0]) == 0


def test_a_blog_whose_articles_are_all_old_gets_its_newest_ones(service, name):
    tag, items = name("t"), [name("a"), name("b")]
    for days, item in zip((60, 90), items):
        service.put(item, tags=[tag], published_at=int(time.time()) - days * 86400)
        service.public().track(item, 1000, userId="u")
    query = {"model": "engagement", "tag": tag}
    assert [(each["id"], each["score"], each["title"]) for each in service.hot(**query)] == [(item, 0, f"about {item}") for item in items]
    for client in (service.internal(), service.public(), service.public()):  # the last reply is from nginx's cache
        reply = client.get("/api/hot", query=query)
        assert (reply.headers["Freshet-Below-Floor"], ids(reply.json())) == ("true", items)
    assert "Freshet-Below-Floor" not in service.internal().get("/api/hot", query={"tag": tag}).headers
    assert service.hot(window="7d", **query) == []
    at = service.internal().get("/api/hot", query=query | {"at": int(time.time()) + 60})
    assert (at.headers["Freshet-Below-Floor"], ids(at.json())) == ("true", items)
    service.put(fresh := name("c"), tags=[tag])
    service.public().track(fresh, 1000, userId="u")

    def listed():
        reply = service.internal().get("/api/hot", query=query)
        return ids(reply.json()), "Freshet-Below-Floor" in reply.headers

    wait_until(lambda: listed() == ([fresh], False), "the list of hot articles")


def test_without_redis_every_worker_serves_the_same_last_list(own_service, name):
    item, workers = name("a"), own_service.workers()
    assert len(workers) >= 2
    own_service.put(item)
    own_service.public().track(item, 1000, userId="u")
    own_service.wait_for_background_writes()

    def read(worker, window):
        """The list and whether it is degraded, from this worker."""
        others = [pid for pid in workers if pid != worker]
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        try:
            connection = fastcgi.Connection(own_service.socket_path)
            status, body = connection.request(uri=f"/api/hot?window={window}")
            connection.close()
        finally:
            for pid in others:
                os.kill(pid, signal.SIGCONT)
        assert status == 200
        return json.loads(body)

    before = {window: read(worker, window) for worker, window in zip(workers, ("7d", "72h"))}
    assert all(ids(items) == [item] for items in before.values())
    own_service.make_redis_unavailable()
    for worker in workers:
        for window, items in before.items():
            assert read(worker, window) == items
        assert read(worker, "24h") == [], "no worker has read it"
    reply = own_service.internal().get("/api/hot?window=24h")
    assert reply.headers["Freshet-Degraded"] == "true"


def test_a_changed_half_life_rebuilds_the_rank(own_service, name):
    tag, item = name("t"), name("a")
    own_service.put(item, tags=[tag], published_at=int(time.time()) - 12 * HOUR_S)
    own_service.public().track(item, 0, userId="u")
    old = own_service.workers()
    own_service.configure(hot__half_life='"12h"')
    own_service.reload()
    query = {"model": "engagement", "tag": tag}

    def served():
        """The reply is JSON, whichever generation sends it."""
        return [each["score"] for each in own_service.hot(at=int(time.time()) + 1, **query)]

    wait_until(lambda: served() is not None and not set(own_service.workers()) & set(old), "the old generation to exit", 45)
    wait_until(lambda: served() == [pytest.approx(2, rel=2e-3)], "the score with the new half-life")
    assert own_service.stats(item)["score"] == pytest.approx(2, rel=2e-3)
    assert own_service.redis("HGET", "hot:rank:meta", "engagement").split()[-1] == "43200"


PREVIEW_SETTINGS = {"hot.half_life": "2h", "hot.pv_weight": "0.5", "hot.uv_weight": "4", "hot.dwell_weight": "0.01", "views.gamma": "0.4", "views.base_hours": "5"}


def test_a_preview_matches_the_list_once_its_settings_are_applied(own_service, name):
    internal, now = own_service.internal(), int(time.time())
    items = [name(word) for word in "abcd"]
    for hours, readers, dwell, item in zip((30, 9, 2, 0), (9, 6, 2, 1), (0, 100, 20000, 5000), items):
        own_service.put(item, published_at=now - hours * HOUR_S)
        for number in range(readers):
            assert internal.track(item, dwell, userId=f"u{number}").status == 200
            assert internal.view(item, f"f{number}").status == 200

    def preview(**query):
        reply = internal.get("/api/hot/preview", query=query)
        assert reply.status == 200, reply
        return {item["id"]: item["score"] for item in reply.json()}

    def served(**query):
        return {item["id"]: item["score"] for item in own_service.hot(**query)}

    lists = ({"model": "engagement"}, {"model": "views", "mode": "current"})
    for query in lists:
        wait_until(lambda: len(served(**query)) == len(items), "all items")  # noqa: B023
        wait_until(lambda: preview(**query) == pytest.approx(served(**query), rel=1e-3), "a preview equal to the current list")  # noqa: B023
    before = own_service.redis("ZRANGE", "hot:rank", 0, -1, "WITHSCORES")
    previews = [preview(**query, **{key: value for key, value in PREVIEW_SETTINGS.items() if key.startswith(prefix)}) for query, prefix in zip(lists, ("hot.", "views."))]
    assert preview(**lists[1], **{"views.gamma": "0.4", "views.base": "5"}) == pytest.approx(previews[1], rel=1e-3), "a former name"
    assert own_service.redis("ZRANGE", "hot:rank", 0, -1, "WITHSCORES") == before
    for previewed, query in zip(previews, lists):
        assert list(previewed) != list(served(**query)), query
    for previewed, query, prefix in zip(previews, lists, ("hot.", "views.")):
        tried = {key: value for key, value in PREVIEW_SETTINGS.items() if key.startswith(prefix)}
        both = internal.get("/api/hot/preview", query={**query, **tried, "compare": "true", "limit": 3}).json()
        for key, expected in (("preview", previewed), ("configured", served(**query))):
            assert {item["id"]: item["score"] for item in both[key]} == pytest.approx(dict(list(expected.items())[:3]), rel=1e-3), (key, query)
        same = internal.get("/api/hot/preview", query={**query, "compare": "true"}).json()
        assert same["preview"] == same["configured"] and len(same["preview"]) == len(items)

    own_service.configure(**{key.replace(".", "__"): f'"{value}"' if "life" in key else float(value) for key, value in PREVIEW_SETTINGS.items()})
    own_service.reload()
    for previewed, query in zip(previews, lists):
        # A worker of the old generation may still answer.
        wait_until(lambda: (now := served(**query)) == pytest.approx(previewed, rel=0.02) and list(now) == list(previewed),  # noqa: B023
                   f"{query} to match the preview: {previewed}, {served(**query)}")


def test_a_preview_is_internal_and_accepts_only_the_settings_of_its_model(service):
    assert_problem(service.public().get("/api/hot/preview", query={"model": "engagement"}), 404)
    for query, member in (({"model": "engagement", "hot.half_life": "soon"}, "hot.half_life"), ({"model": "engagement", "hot.uv_weight": "-1"}, "hot.uv_weight"),
                          ({"model": "engagement", "hot.uv_weight": "nan"}, "hot.uv_weight"), ({"mode": "current", "views.gamma": "11"}, "views.gamma"),
                          ({"mode": "current", "views.uv_weight": "1"}, "views.uv_weight"), ({"mode": "accumulate"}, "mode"), ({}, "mode"), ({"model": "engagement", "compare": "1"}, "compare"),
                          ({"model": "engagement", "at": str(int(time.time()) + 60)}, "at")):
        assert_problem(service.internal().get("/api/hot/preview", query=query), 400, "bad_parameter", member)


def test_the_instance_is_consistent_afterwards(service):
    service.check()


def test_the_trending_list_orders_items_by_their_recent_views(own_service, name):
    internal, items = own_service.internal(), [name(word) for word in "abc"]
    for number, item in enumerate(items):
        own_service.put(item, published_at=int(time.time()) - 86400 * (number + 1))
        for reader in range(number + 1):
            assert internal.track(item, 0, userId=name(f"reader{reader}")).status == 200
    reply = internal.get("/api/hot", query={"model": "trending"})
    assert reply.headers["Freshet-Model"] == "trending; half_life=1h"

    def listed():
        """Each worker has its own copy of the list, some of them of the newest items, from before the first rank update."""
        found = internal.get("/api/hot", query={"model": "trending"}).json()
        return ids(found) == items[::-1] and [each["score"] for each in found] == pytest.approx([3, 2, 1], rel=0.02)

    wait_until(listed, "the items by their views, with scores")
    in_an_hour = internal.get("/api/hot", query={"model": "trending", "at": int(time.time()) + 3600}).json()
    assert [each["score"] for each in in_an_hour] == pytest.approx([1.5, 1, 0.5], rel=0.02)
    stats = own_service.stats(items[2])["trending"]
    assert (stats["views"], stats["half_life"], stats["rank"]) == (3, 3600, 1)
    assert stats["median_age"] == 300
    day = internal.get("/api/hot/preview", query={"model": "trending", "trending.half_life": "24h"})
    assert [each["score"] for each in day.json()] == pytest.approx([3.125, 2.25, 1.5], rel=0.02)
    refused = internal.get("/api/hot/preview", query={"model": "trending", "trending.half_life": "7m"})
    assert_problem(refused, 400, "bad_parameter", "trending.half_life")


def test_a_list_without_a_model_is_the_configured_one_and_a_named_model_always_wins(own_service):
    public = own_service.public()

    def model(**query):
        return public.get("/api/hot", query=query).headers["Freshet-Model"]

    assert model() == "views; mode=accumulate"
    own_service.configure(hot__default_model='"trending"', trending__half_life='"15m"', views__default_mode='"current"')
    own_service.reload_and_drain()
    wait_until(lambda: model() == "trending; half_life=15m", "the configured model")
    assert model(model="views") == "views; mode=current"
    assert model(mode="accumulate") == "views; mode=accumulate"
    assert model(model="views", mode="accumulate") == "views; mode=accumulate"
    assert model(model="engagement") == "engagement; half_life=24h"
