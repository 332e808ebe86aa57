"""Counting in "Hot articles": replies and effects of track and views, and the statistics based on them."""

import json
import time

import pytest

from client import assert_problem
from service import LONG_TIMEOUTS, wait_until

HALF_LIFE_S = 86400
HOUR_S = 3600


def keys(service, pattern):
    return service.redis("KEYS", pattern)


def engagement(pv, uv, avg_dwell_ms):
    return pv + 3 * uv + 0.002 * avg_dwell_ms


# --- track


def test_the_first_report_scores_pv_plus_three_uv_plus_dwell(service, name):
    reply = service.public().track(name("a"), 30000, userId="u1")
    assert reply.status == 200
    assert reply.json() == {"pv": 1, "uv": 1, "avg_dwell_ms": 30000, "score": pytest.approx(64, rel=2e-5)}


def test_each_reader_adds_to_pv_uv_and_mean_dwell(service, name):
    article, client = name("a"), service.public()
    dwells = [10000, 20001, 0, 180000]
    for number, dwell in enumerate(dwells, 1):
        reply = client.track(article, dwell, userId=f"u{number}").json()
        mean = sum(dwells[:number]) / number
        assert (reply["pv"], reply["uv"]) == (number, number)
        assert reply["avg_dwell_ms"] == pytest.approx(mean, rel=1e-15)
        assert reply["score"] == pytest.approx(engagement(number, number, mean), rel=2e-4)


def test_heartbeats_of_a_session_count_as_one_view_with_the_longest_dwell(service, name):
    article, client = name("a"), service.internal()  # internal: its claim of elapsed time is trusted
    replies = [client.track(article, dwell, userId="u", sessionId="tab").json() for dwell in (5000, 20000, 10000, 20000, 25000)]
    assert [reply["pv"] for reply in replies] == [1] * 5
    assert [reply["avg_dwell_ms"] for reply in replies] == [5000, 20000, 20000, 20000, 25000]
    other = client.track(article, 5000, userId="u", sessionId="other-tab").json()
    assert (other["pv"], other["uv"], other["avg_dwell_ms"]) == (2, 1, 15000)


def test_reports_without_a_session_are_grouped_by_reader(service, name):
    article, client = name("a"), service.public()
    for _ in range(3):
        reply = client.track(article, 1000, userId="u").json()
    assert (reply["pv"], reply["uv"]) == (1, 1)
    assert client.track(article, 1000, userId="v").json()["pv"] == 2


def test_every_report_extends_the_session_window(service, name):
    article, client = name("a"), service.public()
    client.track(article, 1000, userId="u", sessionId="s")
    [key] = keys(service, f"hot:session:{{{article}}}:*")
    service.redis("EXPIRE", key, 5)
    client.track(article, 500, userId="u", sessionId="s")
    assert service.redis("TTL", key) > 1790
    service.redis("DEL", key)  # as if half an hour had passed
    assert client.track(article, 3000, userId="u", sessionId="s").json() == {
        "pv": 2, "uv": 1, "avg_dwell_ms": 2000, "score": pytest.approx(9, rel=1e-3)}


def test_without_a_session_window_every_report_counts(instance, name):
    service, article = instance("--no-limits", hot__session_window=0, **LONG_TIMEOUTS), name("a")
    for dwell in (4000, 2000):
        reply = service.public().track(article, dwell, userId="u", sessionId="s").json()
    assert (reply["pv"], reply["uv"], reply["avg_dwell_ms"]) == (2, 1, 3000)


def test_dwell_is_capped_at_three_minutes(service, name):
    for dwell in (180000, 180001, 2**53, 2**63 - 1):
        assert service.public().track(name("a"), dwell, userId="u").json()["avg_dwell_ms"] == 180000


def test_dwell_is_rounded(service, name):
    for dwell, rounded in ((1500.7, 1501), (1500.4, 1500), (1e3, 1000), (0.2, 0)):
        assert service.public().track(name("a"), dwell, userId="u").json()["avg_dwell_ms"] == rounded


@pytest.mark.parametrize("dwell", [-1, -2**63, -1.5, 1e300, "5", True, [], {}])
def test_an_invalid_dwell_is_refused_and_counts_nothing(service, name, dwell):
    article = name("a")
    assert_problem(service.public().track(article, dwell, userId="u"), 400, "bad_number", "dwellMs")
    assert keys(service, f"*{article}*") == []


def test_a_repeated_event_id_counts_once_and_gets_the_same_reply(service, name):
    article, client = name("a"), service.public()
    first = client.track(article, 1000, userId="u", sessionId="s", eventId="e")
    client.track(article, 9000, userId="v")
    again = client.track(article, 5000, userId="u", sessionId="t", eventId="e")
    assert (again.status, again.json()) == (200, first.json())
    stats = service.stats(article)
    assert (stats["pv"], stats["uv"], stats["dwell"]["sum_ms"]) == (2, 2, 10000)


def test_an_event_id_does_not_suppress_reports_of_other_clients(service, name):
    article, client, cookies, event = name("a"), service.public(), [], name("event-id")
    for _ in range(2):
        cookies.append({"Cookie": client.post("/api/visitor", None).headers["Set-Cookie"].split(";")[0]})
    # Identified by reader, cookie or session: each request and its repetition. An anonymous repetition may come from
    # another address or agent.
    elsewhere = service.public(agent="Mozilla/5.0 (X11) Firefox/121.0")
    for turn, identity in enumerate([{"userId": "u"}, {"userId": "w"}, {"sessionId": "s"}, {"sessionId": "t"}]):
        tries = [each.track(article, 1, eventId=event, **identity) for each in (client, elsewhere)]
        assert [reply.json()["pv"] for reply in tries] == [turn + 1] * 2, identity
    for turn, cookie in enumerate(cookies, 5):
        body = {"articleId": article, "dwellMs": 1, "eventId": event}
        tries = [client.post("/api/track", body | {"sessionId": session}, headers=cookie) for session in (f"a{turn}", f"b{turn}")]
        assert [reply.json()["pv"] for reply in tries] == [turn] * 2
    for fingerprint in "fg":
        replies = [each.view(article, fingerprint, eventId=event).json() for each in (client, elsewhere)]
        assert replies[0] == replies[1] and "scoreInc" in replies[0]


def test_anonymous_event_ids_must_be_too_long_to_guess(service, name):
    article, client = name("a"), service.public()
    for reply in (client.track(article, 1, eventId="e" * 15), client.view(article, "f", eventId="e" * 15)):
        assert_problem(reply, 400, "bad_id", "eventId")
    assert keys(service, f"*{article}*") == []
    assert client.track(article, 1, eventId="e" * 16).status == 200 and client.view(article, "f", eventId="e" * 16).status == 200
    assert service.internal().track(article, 1, eventId="e").status == 200


def test_no_key_or_member_reveals_a_session_event_id_or_fingerprint(service, name):
    article, session, event, fingerprint = name("a"), name("session"), name("event-id"), name("fingerprint")
    service.public().track(article, 1, sessionId=session, eventId=event, fingerprint=fingerprint)
    service.public().view(article, fingerprint, eventId=event)
    stored_keys = keys(service, f"*{article}*")
    assert {key.split("{" + article)[0] for key in stored_keys} >= {"hot:session:", "hot:event:", "hot:dedup:", "hot:view:event:", "hot:uv:"}
    [day] = keys(service, f"hot:uv:{{{article}}}:*")
    for word in (session, event, fingerprint):
        assert word not in str(stored_keys) and word not in str(service.redis("SMEMBERS", day))


def test_anonymous_readers_are_distinguished_by_fingerprint_and_agent(service, name):
    article = name("a")
    readers = [("f1", None), ("f2", None), ("f1", "Mozilla/5.0 (X11) Firefox/121.0"), ("f1", None)]
    for fingerprint, agent in readers:
        client = service.public(**({"agent": agent} if agent else {}))
        reply = client.track(article, 0, fingerprint=fingerprint)
    assert reply.json()["uv"] == 3


def test_the_latest_date_that_clients_name_counts(service, name):
    article, client, now = name("a"), service.public(), int(time.time())
    year_2019 = client.track(article, 0, userId="u", publishedAt=1556668800).json()
    assert year_2019["score"] < 1e-100, "not a new article"
    reply = client.track(article, 0, userId="v", publishedAt=now - HALF_LIFE_S // 2)
    assert reply.json()["score"] == pytest.approx(8 / 2 ** 0.5, rel=1e-4)
    reply = client.track(article, 0, userId="w", publishedAt=now - HALF_LIFE_S)
    assert reply.json()["score"] == pytest.approx(12 / 2 ** 0.5, rel=1e-4), "never older"
    stats = service.stats(article)
    assert stats["views"]["score"] == pytest.approx(9 / 14 ** 1.5, rel=2e-2)
    assert [each["id"] for each in service.hot(model="engagement", limit=100) if each["id"] == article] == [article]
    ahead = client.track(name("b"), 0, userId="u", publishedAt=now + 365 * 86400)
    assert ahead.json()["score"] == pytest.approx(4, rel=1e-4)


def test_the_date_of_the_item_overrides_the_clients_date(service, name):
    article, now = name("a"), int(time.time())
    service.put(article, published_at=now - 2 * HALF_LIFE_S)
    reply = service.public().track(article, 0, userId="u", publishedAt=now)
    assert reply.json()["score"] == pytest.approx(1, rel=1e-4)


def test_integer_and_string_ids_are_equivalent(service, name):
    article = time.time_ns()
    service.public().track(article, 0, userId=7)
    reply = service.public().track(str(article), 0, userId="7", sessionId="s")
    assert (reply.json()["pv"], reply.json()["uv"]) == (2, 1)
    for extreme in (-2**63, 2**64 - 1):
        assert service.public().track(extreme, 0, userId="u").status == 200
        assert service.stats(extreme)["pv"] == 1


def test_unknown_members_are_ignored(service, name):
    reply = service.public().track(name("a"), 1, userId="u", colour="blue", nested={"a": [1, None]})
    assert (reply.status, reply.json()["pv"]) == (200, 1)


# --- views


@pytest.mark.parametrize("model", [{}, {"model": "views"}, {"mode": "current"}, {"model": "engagement"}])
def test_a_page_with_nothing_but_the_tag_moves_every_list(service, name, model):
    tag, items, client = name("t"), [name("a"), name("b")], service.public()
    for readers, item in zip((2, 1), items):
        service.put(item, tags=[tag])
        for number in range(readers):
            for dwell in (5000, 20000):  # the tag's reports of one session
                assert client.track(item, dwell, fingerprint=f"f{number}", sessionId=f"{item}-{number}").status == 200
    wait_until(lambda: [each["id"] for each in service.hot(tag=tag, **model)] == items, "both articles")
    views = service.stats(items[0])["views"]
    assert (views["pv"], views["total"], views["uv_today"]) == (2, 6, 2)


def test_with_views_from_track_off_only_posted_views_count(instance, name):
    service, item = instance("--no-limits", views__from_track="false", **LONG_TIMEOUTS), name("a")
    service.public().track(item, 1000)
    assert service.stats(item)["views"]["pv"] == 0 and service.hot() == []
    service.public().view(item, "f")
    assert service.stats(item)["views"]["pv"] == 1
    wait_until(lambda: [each["id"] for each in service.hot()] == [item], "the list")


def test_views_of_tracked_articles_are_counted_for_the_operator(own_service, name):
    both, viewed, client = name("a"), name("b"), own_service.internal()
    client.track(both, 0, userId="u")
    client.view(viewed, "f")
    assert own_service.status()["views of tracked articles"] == 0
    client.view(both, "f")
    client.view(both, "f")  # a duplicate
    assert own_service.status()["views of tracked articles"] == 1
    assert "freshet_views_of_tracked_articles_total 1\n" in client.get("/metrics").body.decode()


@pytest.mark.parametrize("hours", [0, 4, 12, 72])
def test_a_view_adds_its_weight_discounted_by_age(service, name, hours):
    # A public client's date is trusted only within a day of the current time.
    article, client, published = name("a"), service.public() if hours < 24 else service.internal(), int(time.time()) - hours * HOUR_S
    first = client.view(article, "f", published).json()
    assert first == {"ok": True, "uv": True, "scoreInc": pytest.approx(3 / (hours + 2) ** 1.5, rel=1e-3)}
    assert client.view(article, "f", published).json() == {"ok": True, "dedup": True}
    service.redis("DEL", *keys(service, f"hot:dedup:{{{article}}}:*"))  # as if ten minutes had passed
    again = client.view(article, "f", published).json()
    assert again == {"ok": True, "uv": False, "scoreInc": pytest.approx(1 / (hours + 2) ** 1.5, rel=1e-3)}
    views = service.stats(article)["views"]
    assert (views["total"], views["uv_today"]) == (4, 1)
    assert views["score"] == pytest.approx(first["scoreInc"] + again["scoreInc"], rel=1e-12)


def test_dates_may_be_rfc_3339(service, name):
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 4 * HOUR_S))
    reply = service.public().view(name("a"), "f", stamp)
    assert reply.json()["scoreInc"] == pytest.approx(3 / 6 ** 1.5, rel=1e-3)


def test_a_forged_date_does_not_raise_the_score_of_a_known_item(service, name):
    article, now = name("a"), int(time.time())
    service.put(article, published_at=now - 72 * HOUR_S)
    assert service.public().view(article, "f", now).json()["scoreInc"] == pytest.approx(3 / 74 ** 1.5, rel=1e-3)
    future = service.public().view(name("b"), "f", now + 10 * 86400).json()
    assert future["scoreInc"] == pytest.approx(3 / 2 ** 1.5, rel=1e-3)


def test_a_repeated_view_gets_the_same_reply_even_after_the_dedup_window(service, name):
    article, client = name("a"), service.public()
    event = name("event-id")
    first = client.view(article, "f", eventId=event).json()
    service.redis("DEL", *keys(service, f"hot:dedup:{{{article}}}:*"))
    assert client.view(article, "f", eventId=event).json() == first
    assert service.stats(article)["views"]["total"] == 3


@pytest.mark.parametrize("missing", ["articleId", "publishedAt", "fingerprint"])
def test_a_view_without_a_required_member_is_refused(service, name, missing):
    body = {"articleId": name("a"), "publishedAt": int(time.time()), "fingerprint": "f"}
    del body[missing]
    assert_problem(service.public().post("/api/views", body), 400, member=missing)


# --- stats


def test_the_terms_of_stats_yield_the_served_score(service, name):
    tag, article, now = name("t"), name("a"), int(time.time())
    service.put(article, tags=[tag], published_at=now - 5 * HOUR_S)
    client = service.public()
    for number in range(7):
        client.track(article, 1234 * number, userId=f"u{number % 5}", sessionId=f"s{number}")
    for number in range(4):
        client.view(article, f"f{number}")
    stats = service.stats(article)
    assert stats["dwell"] == {"sum_ms": 1234 * 21, "count": 7}
    assert stats["first_ts"] == now - 5 * HOUR_S
    assert stats["avg_dwell_ms"] == pytest.approx(1234 * 3, rel=1e-15)
    assert stats["base"] == pytest.approx(engagement(stats["pv"], stats["uv"], stats["avg_dwell_ms"]), rel=1e-12)
    terms = stats["terms"]
    assert (terms["pv"], terms["uv"]) == (stats["pv"], 3 * stats["uv"])
    assert sum(terms.values()) == pytest.approx(stats["base"], rel=1e-12)
    assert stats["decay"] == pytest.approx(2 ** (-stats["age_seconds"] / HALF_LIFE_S), rel=1e-12)
    assert stats["score"] == pytest.approx(stats["base"] * stats["decay"], rel=1e-12)
    assert isinstance(stats["rank"], int) and stats["rank"] >= 1

    at = now + 3 * HOUR_S
    [item] = service.hot(model="engagement", tag=tag, at=at)
    assert item["score"] == pytest.approx(stats["base"] * 2 ** (-(at - stats["first_ts"]) / HALF_LIFE_S), rel=1e-9)
    [item] = service.hot(model="views", tag=tag)
    assert item["score"] == pytest.approx(stats["views"]["score"], rel=1e-9)


def test_stats_of_many_ids_are_keyed_by_id(service, name):
    ids = [name("a"), name("b")]
    for count, article in enumerate(ids, 1):
        for number in range(count):
            service.public().track(article, 0, userId=f"u{number}")
    service.wait_for_background_writes()
    reply = service.internal().get("/api/stats", query={"ids": ",".join(ids)})
    assert reply.status == 200
    assert list(reply.json()) == ids
    assert [row["pv"] for row in reply.json().values()] == [1, 2]

    def without_age(row):  # scores may change between the two requests
        return {**row, "age_seconds": 0, "decay": 0, "score": 0, "views": None, "trending": {**row["trending"], "score": 0}}

    for article in ids:
        assert without_age(reply.json()[article]) == without_age(service.stats(article))


def test_stats_of_an_unknown_article_are_404(service, name):
    assert_problem(service.internal().get(f"/api/articles/{name('a')}/stats"), 404, "unknown_item")


# --- items


def test_an_item_is_returned_as_it_was_put(service, name):
    item, client = name("i"), service.internal()
    members = {"title": "Ünïcode \"quoted\" \u2028", "text": "line\nline", "tags": ["a", "b"], "author": "someone",
               "url": "https://example.org/?a=b&c", "published_at": 1700000000, "update_time": 1700000100, "hidden": False,
               "section": "Sp\u00f6rt", "language": "zh-Hant", "story": "s/1", "text_format": "html", "expires_at": 1700000200, "weight": 2.5}
    assert client.put(f"/api/items/{item}", members).json() == {"ok": True}
    got = client.get(f"/api/items/{item}").json()
    assert got == members | {"id": item, "title": members["title"].replace("\u2028", " ")}  # a line separator is a space
    assert client.delete(f"/api/items/{item}").json() == {"ok": True}
    assert_problem(client.get(f"/api/items/{item}"), 404, "unknown_item")


def test_a_bulk_request_reports_each_bad_line(service, name):
    good, other = name("i"), name("i")
    lines = [json.dumps({"id": good, "title": "one", "published_at": 1700000000}), "{broken", json.dumps({"title": "no id"}), "",
             json.dumps({"id": "a\tb", "title": "x"}), json.dumps({"id": other, "title": 5}),
             json.dumps({"id": other, "title": "two", "published_at": "2023-11-14T22:13:20Z"})]
    reply = service.internal().post("/api/items", "\n".join(lines) + "\n", headers={"Content-Type": "application/x-ndjson"})
    assert reply.status == 200, reply
    assert reply.json()["accepted"] == 2
    assert [(row["line"], row.get("id"), row["code"], row.get("member"), row["detail"]) for row in reply.json()["rejected"]] == [
        (2, None, "bad_json", None, "invalid JSON at byte 1"), (3, None, "bad_id", "id", "is missing"), (5, None, "bad_id", "id", "an id must not contain control characters"),
        (6, other, "bad_string", "title", "not a string")]
    for row in reply.json()["rejected"]:  # the same as a PUT's
        if row["line"] in (2, 6):
            problem = assert_problem(service.internal().put(f"/api/items/{other}", lines[row["line"] - 1]), 400, row["code"])
            assert (problem.get("member"), problem["detail"]) == (row.get("member"), row["detail"])
    for item, title in ((good, "one"), (other, "two")):
        got = service.internal().get(f"/api/items/{item}").json()
        assert (got["title"], got["published_at"]) == (title, 1700000000)


def test_a_bulk_request_of_thousands_is_written_before_the_reply(service, name):
    tag = name("t")
    ids = [f"{tag}-{number}" for number in range(3000)]
    body = "\n".join(json.dumps({"id": item, "title": item, "published_at": 1700000000, "tags": [tag]}) for item in ids)
    reply = service.internal().post("/api/items", body)
    assert reply.json() == {"accepted": 3000, "rejected": []}
    assert service.redis("SCARD", f"tag:{tag}") == 3000


def test_unknown_items_can_be_refused(instance, name):
    service = instance("--no-limits", items__unknown='"reject"', **LONG_TIMEOUTS)
    article = name("a")
    assert_problem(service.public().track(article, 0, userId="u"), 404, "unknown_item")
    assert_problem(service.public().view(article, "f"), 404, "unknown_item")
    assert service.redis("KEYS", "hot:article:*") == []
    service.put(article)
    assert service.public().track(article, 0, userId="u").status == 200


def test_the_instance_is_consistent_afterwards(service):
    service.check()
