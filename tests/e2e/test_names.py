"""Query parameters and body members that no route knows: refused, or answered and listed."""

import pytest

from client import assert_problem

LENIENT = {"headers": {"Prefer": "handling=lenient"}}


def ignored(reply):
    return reply.headers.get("Freshet-Ignored")


def test_public_reads_list_the_parameters_that_they_ignored(service):
    for client in (service.public(), service.internal()):
        for path, names in (("/api/recommendations?tag=news", "tag"), ("/api/hot?lang=zh&_=1", "lang, _"), ("/api/hot?model=views", None),
                            ("/api/history?userId=r&topicId=t", "topicId"), ("/api/waterfall/discover?userId=r&a%0Db=1", "a%0Db")):
            reply = client.get(path)
            assert (reply.status, ignored(reply)) == (200, names), path


def test_reports_list_the_members_that_they_ignored(service, name):
    public, item = service.public(), name("i")
    reply = public.post("/api/track", {"articleId": item, "dwellMs": 1000, "sessionId": "s", "title": "t"})
    assert (reply.status, ignored(reply)) == (200, "title") and reply.json()["pv"] == 1
    reply = public.post("/api/views", {"articleId": item, "fingerprint": "f", "publishedAt": 1, "userId": "u"})
    assert (reply.status, ignored(reply)) == (200, "userId") and reply.json()["ok"]


@pytest.mark.parametrize(("method", "path", "body", "code", "member", "nearest"), [
    ("POST", "/api/feed", {"action": "refresh", "userId": "r", "exclude": []}, "unknown_member", "exclude", None),
    ("POST", "/api/feed?userid=r", {"action": "refresh", "userId": "r"}, "unknown_parameter", "userid", None),
    ("POST", "/api/history", {"userId": "r", "topicId": "t", "knd": "reply"}, "unknown_member", "knd", "kind"),
    ("POST", "/api/feedback", {"userId": "r", "topicId": "t", "kind": "not_interested", "raeson": "x"}, "unknown_member", "raeson", "reason"),
    ("POST", "/api/interactions", {"userId": "r", "topicId": "t", "kind": "like", "time": 1}, "unknown_member", "time", None),
    ("POST", "/api/waterfall/discover", {"items": ["i"], "customer": ["r"]}, "unknown_member", "customer", "customers"),
    ("PUT", "/api/items/names-unknown", {"title": "t", "published_at": 1, "tag": ["a"]}, "unknown_member", "tag", "tags"),
    ("GET", "/api/stats?idss=a", None, "unknown_parameter", "idss", "ids"),
    ("GET", "/api/hot/preview?model=engagement&hot.halflife=6h", None, "unknown_parameter", "hot.halflife", "hot.half_life"),
    ("DELETE", "/api/history?user=r", None, "unknown_parameter", "user", "userId"),
])
def test_other_routes_refuse_unknown_names_and_suggest_the_nearest(service, method, path, body, code, member, nearest):
    internal = service.internal()
    reply = internal.request(method, path, body)
    assert_problem(reply, 400, code, member)
    assert nearest is None or f'did you mean "{nearest}"?' in reply.json()["detail"], reply.json()
    if method == "PUT":
        assert internal.get(path).status == 404
    lenient = internal.request(method, path, body, **LENIENT)
    if method == "DELETE":  # which would remove more than was named
        return assert_problem(lenient, 400, code, member)
    assert code not in lenient.body.decode(), lenient
    if lenient.status == 200:
        assert ignored(lenient) == member


def test_lenient_handling_applies_what_is_known(service, name):
    internal, item = service.internal(), name("i")
    path = f"/api/items/{item}"
    reply = internal.put(path, {"title": "t", "published_at": 1, "tag": ["a"]}, **LENIENT)
    assert reply.status == 200 and ignored(reply) == "tag"
    assert internal.get(path).json()["tags"] == []


def test_bulk_bodies_count_ignored_members(service, name):
    internal, lines = service.internal(), {"headers": {"Content-Type": "application/x-ndjson"}}
    items = "\n".join(f'{{"id":"{name(each)}","title":"t","published_at":1,"tag":["a"],"{each}":1}}' for each in ("a", "b"))
    assert internal.post("/api/items", items, **lines).json() == {"accepted": 2, "rejected": [], "ignored": {"a": 1, "b": 1, "tag": 2}}
    likes = "\n".join(f'{{"userId":"{name("r")}","topicId":"{name(each)}","kind":"like","when":1}}' for each in ("a", "b"))
    assert internal.post("/api/interactions", likes, **lines).json() == {"accepted": 2, "rejected": [], "ignored": {"when": 2}}


def test_an_item_as_it_was_read_can_be_put_again(service, name):
    internal, item = service.internal(), name("i")
    path = f"/api/items/{item}"
    assert internal.put(path, {"title": "t", "published_at": 1}).status == 200
    stored = internal.get(path).json()
    assert internal.put(path, stored).status == 200
    assert_problem(internal.put(path, stored | {"id": name("other")}), 400, "bad_id", "id")
