"""Validates responses of a running service against the OpenAPI document. (A unit test checks that it has every route.)"""

import json
import os
import time

import jsonschema
import pytest

from openapi import SHAPE, OpenApi, closed, walk
from service import LONG_TIMEOUTS, Instance, wait_until

LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def api():
    return OpenApi()


def publish(service):
    """Creates the file that /api/model serves; nginx does not check its content."""
    with open(os.path.join(service.state, "model/freshet.model"), "w", encoding="ascii") as file:
        file.write("FRSHMODL")
    os.chmod(file.name, 0o644)


def test_the_document_is_valid_openapi_3_1(api):
    jsonschema.Draft202012Validator.check_schema(SHAPE)
    errors = [f"{error.json_path}: {error.message[:200]}" for error in jsonschema.Draft202012Validator(SHAPE).iter_errors(api.document)]
    assert not errors
    for node in walk(api.document):
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                assert api.at(node["$ref"])
            if "schema" in node:
                jsonschema.Draft202012Validator.check_schema(node["schema"])
    for schema in api.document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_both_servers_serve_the_document(service, api):
    for client in (service.public(), service.internal()):
        reply = client.get("/openapi.json")
        assert reply.status == 200 and reply.headers["Content-Type"] == "application/json", reply
        assert reply.json() == api.document


def test_every_component_is_used(api):
    used = {node["$ref"] for node in walk(api.document) if isinstance(node, dict) and isinstance(node.get("$ref"), str)}
    for kind in ("schemas", "responses", "headers"):
        unused = {name for name in api.document["components"][kind] if f"#/components/{kind}/{name}" not in used}
        # NDJSON bodies are described in prose only, because their media type has no schema per line.
        assert unused <= {"ItemLine"}, (kind, unused)


def test_defaults_lie_within_their_own_bounds(api):
    for method, path, operation in api.operations():
        for parameter in operation.get("parameters", ()):
            schema = parameter["schema"]
            if "default" in schema:
                assert not api.mismatches(schema, schema["default"]), (method, path, parameter["name"])


@pytest.fixture(scope="module")
def service():
    """An instance with every route."""
    started = Instance("--no-limits", track__pixel="true", **LONG_TIMEOUTS)
    try:
        yield started.start()
    finally:
        started.stop()


def test_every_operation_responds_as_described(service, name, api):
    public, internal = service.public(), service.internal()
    now, item, other, reader, author = int(time.time()), name("i"), name("i"), name("r"), name("a")

    def call(operation, status=200, client=internal, **more):
        return api.call(client, operation, status, **more)

    call("putItem", id=item, body={"title": "one", "tags": ["t"], "author": author, "published_at": now, "url": "/one", "text": "words of one"})
    line = {"id": other, "title": "two", "published_at": "2026-01-02T03:04:05Z", "update_time": now}
    assert not api.mismatches({"$ref": "#/components/schemas/ItemLine"}, line)
    reply = call("putItems", body=json.dumps(line) + "\n{}\n", headers=LINES)
    assert reply.json()["accepted"] == 1 and len(reply.json()["rejected"]) == 1
    call("getItem", id=item)
    call("getItem", 304, id=item, headers={"If-None-Match": "*"})
    call("track", client=public, body={"articleId": item, "dwellMs": 1000, "userId": reader, "sessionId": None, "eventId": name("e")})
    call("track", client=public, body=json.dumps({"articleId": item, "dwellMs": 1}), headers={"Content-Type": "text/plain"})
    view = {"articleId": item, "fingerprint": name("f"), "publishedAt": now}
    call("view", client=public, body=view)
    assert call("view", client=public, body=view).json() == {"ok": True, "dedup": True}
    for query in ({}, {"model": "engagement", "limit": 100}, {"mode": "current", "window": "24h"}, {"model": "engagement", "at": now + 3600}):
        reply = call("hot", query=query)
    wait_until(lambda: public.get("/api/hot", headers={"If-None-Match": public.get("/api/hot").headers["ETag"]}).status == 304, "a 304")
    call("preview", query={"model": "engagement", "hot.half_life": "6h", "hot.uv_weight": 0})
    call("preview", query={"mode": "current", "views.gamma": 1.2})
    call("preview", query={"mode": "current", "compare": "true"})
    call("articleStats", id=item)
    assert set(call("stats", query={"ids": f"{item},{name('none')}"}).json()) >= {item}

    call("look", client=public, body={"userId": reader, "topicId": item, "kind": "topic"})
    assert call("history", query={"userId": reader}).json()["items"] == [item]
    call("job", id=call("mergeHistory", 202, body={"from": name("x"), "to": reader}).json()["job"])
    call("clearHistory", query={"userId": reader, "kind": "reply"})
    call("interact", body={"userId": reader, "topicId": item, "kind": "like", "at": now})
    call("interact", body='{"userId":"a","topicId":"b","kind":"like"}\n{"kind":1}\n', headers=LINES)
    call("dismiss", body={"userId": reader, "topicId": other, "kind": "not_interested", "reason": "seen it"})
    call("undismiss", query={"userId": reader, "topicId": other})
    call("recommendations", query={"userId": reader, "exclude": "off", "limit": 100})
    call("similar", id=item)
    page = call("feed", body={"action": "refresh", "agent_id": reader, "limit": 1}).json()["data"]["page"]
    call("feed", body={"action": "load_more", "agent_id": reader, "page": page})
    call("feed", body={"action": "peek", "agent_id": reader})

    assert call("push", channel="discover", body={"items": [item], "customers": [reader]}).json()["pushed"] == 1
    page = call("timeline", channel="discover", query={"customerId": reader}).json()
    assert page["items"][0]["id"] == item
    call("timeline", channel="discover", query={"customerId": reader, "direction": "up", "score": page["up"]})
    call("removeFromTimeline", channel="discover", itemId=item, query={"customerId": reader})
    call("follow", body={"follower": reader, "author": author})
    assert call("follows", query={"follower": reader}).json()["items"] == [author]
    job = call("push", 202, channel="follow", body={"items": [item], "followersOf": author}).json()["job"]
    call("job", id=job)
    call("exportUser", id=reader)
    call("unfollow", query={"follower": reader, "author": author})
    call("eraseUser", 202, id=reader)
    call("deleteItem", id=other)
    call("pixel", client=public, query={"articleId": item})
    cookie = {"Cookie": call("visitor", 204, client=public).headers["Set-Cookie"].split(";")[0]}
    assert call("exportVisitor", client=public, headers=cookie).json()["redis"] == []
    call("eraseVisitor", 204, client=public, headers=cookie)
    assert call("whoami").json() == {"key": None, "userId": None}
    publish(service)
    etag = call("model").headers["ETag"]
    call("model", 304, headers={"If-None-Match": etag})
    for operation in ("live", "ready", "ping", "status", "metrics"):
        call(operation)
    call("status", query={"json": "", "full": "", "history": ""})

    answered = {operation for operation, status, _ in api.seen if status < 300}
    assert answered == {operation["operationId"] for _, _, operation in api.operations()}


# Ordered so that each example has the data it needs.
EXAMPLES = ("putItem putItems getItem track view pixel visitor exportVisitor eraseVisitor look history dismiss undismiss interact hot preview articleStats stats recommendations "
            "similar feed push timeline removeFromTimeline follow follows unfollow mergeHistory clearHistory exportUser eraseUser job deleteItem "
            "model whoami ping live ready metrics status").split()


def test_every_example_gets_the_response_that_the_document_shows(instance, api):
    """The example response has the same members as the actual one, and both match the schema."""
    assert sorted(EXAMPLES) == sorted(operation["operationId"] for _, _, operation in api.operations())
    service = instance(track__pixel="true", **LONG_TIMEOUTS)
    publish(service)
    internal, job, cookie = service.internal(), None, None
    for name in EXAMPLES:
        path, query, body, media = api.example_of(name)
        if name == "job":
            path = {"id": job}
        described = {status: reply for status, reply in api.find(name)[2]["responses"].items() if status[0] == "2"}
        status, described = min(described.items())
        headers = {"Content-Type": media} if media else cookie if name.endswith("Visitor") else None

        def call():
            return api.call(internal, name, int(status), body=body, query=query, headers=headers, **path)  # noqa: B023

        reply = call()
        if name == "visitor":
            cookie = {"Cookie": reply.headers["Set-Cookie"].split(";")[0]}
        if name == "similar":  # the search index is updated asynchronously
            reply = wait_until(lambda: call().json()["items"] and call(), "the index")  # noqa: B023
        if name == "eraseUser":
            job = reply.json()["job"]
        shown = next((content["example"] for content in described.get("content", {}).values() if "example" in content), None)
        assert (shown is None) == (not reply.body), name
        if isinstance(shown, dict):
            errors = api.mismatches(closed(described["content"]["application/json"]["schema"]), shown)
            assert not errors, (name, errors)
            if name == "status":  # some rows appear with the first samples
                reply = wait_until(lambda: set(shown) <= set(call().json()) and call(), "the samples")  # noqa: B023
            assert set(shown) == set(reply.json()), name


# operation, status, code, request
INVALID_REQUESTS = [
    ("track", 400, "bad_number", {"body": {"articleId": "1"}}),
    ("track", 400, "bad_json", {"body": "{"}),
    ("track", 400, "bad_body", {"body": "[]"}),
    ("track", 400, "bad_id", {"body": {"articleId": "a\tb", "dwellMs": 1}}),
    ("track", 413, "too_large", {"body": {"articleId": "1", "dwellMs": 1, "x": "y" * 17000}}),
    ("pixel", 400, "bad_id", {}),
    ("exportVisitor", 400, "no_visitor", {}),
    ("eraseVisitor", 400, "no_visitor", {}),
    ("view", 400, "bad_time", {"body": {"articleId": "1", "fingerprint": "f"}}),
    ("hot", 400, "bad_parameter", {"query": {"model": "none"}}),
    ("hot", 400, "bad_number", {"query": {"limit": 101}}),
    ("hot", 400, "bad_time", {"query": {"model": "engagement", "at": 1}}),
    ("hot", 400, "bad_id", {"query": {"tag": "a\x01b"}}),
    ("preview", 400, "bad_parameter", {}),
    ("preview", 400, "bad_parameter", {"query": {"model": "engagement", "hot.half_life": "1s"}}),
    ("preview", 400, "bad_parameter", {"query": {"mode": "current", "views.pv_weight": "2"}}),
    ("feed", 400, "bad_action", {"body": {"action": "x"}}),
    ("feed", 400, "bad_page", {"body": {"action": "load_more", "agent_id": "r", "page": "forged"}}),
    ("feed", 400, "bad_string", {"body": {"action": "refresh", "agent_id": "r", "page": "x" * 129}}),
    ("feed", 415, "bad_content_type", {"body": "{}", "headers": {"Content-Type": "text/plain"}}),
    ("look", 400, "bad_kind", {"body": {"userId": "r", "topicId": "1", "kind": "x"}}),
    ("history", 400, "bad_id", {}),
    ("interact", 400, "bad_time", {"body": {"userId": "r", "topicId": "1", "kind": "like", "at": 9999999999}}),
    ("dismiss", 400, "bad_string", {"body": {"userId": "r", "topicId": "1", "kind": "not_interested", "reason": "x" * 201}}),
    ("recommendations", 400, "bad_exclude", {"query": {"exclude": "x"}}),
    ("similar", 404, "unknown_item", {"id": "nowhere"}),
    ("timeline", 404, "unknown_channel", {"channel": "nowhere", "query": {"customerId": "r"}}),
    ("timeline", 400, "bad_number", {"channel": "discover", "query": {"customerId": "r", "direction": "up"}}),
    ("push", 400, "bad_list", {"channel": "discover", "body": {"items": [], "customers": ["r"]}}),
    ("push", 400, "bad_parameter", {"channel": "discover", "body": {"items": ["1"], "followersOf": "a"}}),
    ("removeFromTimeline", 400, "bad_id", {"channel": "discover", "itemId": "1"}),
    ("follow", 400, "bad_id", {"body": {"follower": "r"}}),
    ("articleStats", 404, "unknown_item", {"id": "nowhere"}),
    ("stats", 400, "bad_parameter", {}),
    ("putItem", 400, "bad_boolean", {"id": "1", "body": {"title": "t", "published_at": 1, "hidden": 1}}),
    ("putItem", 400, "bad_number", {"id": "1", "body": {"title": "t", "published_at": 1, "weight": 11}}),
    ("putItem", 400, "bad_list", {"id": "1", "body": {"title": "t", "published_at": 1, "tags": "x"}}),
    ("getItem", 404, "unknown_item", {"id": "nowhere"}),
    ("exportUser", 400, "bad_number", {"id": "r", "query": {"from": -1}}),
    ("job", 404, "unknown_job", {"id": "nowhere"}),
    ("deleteItem", 400, "bad_id", {"id": "a\tb"}),
]


@pytest.mark.parametrize("operation, status, code, arguments", INVALID_REQUESTS, ids=[f"{row[0]}-{row[2]}" for row in INVALID_REQUESTS])
def test_invalid_requests_get_the_described_problem(service, api, operation, status, code, arguments):
    assert api.call(service.internal(), operation, status, **arguments).json()["code"] == code


def test_without_redis_responses_are_queued_degraded_or_503_as_described(own_service, name, api):
    internal, reader, item = own_service.internal(), name("r"), name("i")
    own_service.put(item)
    api.call(internal, "hot", 200)
    own_service.make_redis_unavailable()
    queued = {"track": {"articleId": item, "dwellMs": 1}, "view": {"articleId": item, "fingerprint": "f", "publishedAt": 1},
              "look": {"userId": reader, "topicId": item}, "dismiss": {"userId": reader, "topicId": item, "kind": "not_interested"},
              "undismiss": {"userId": reader, "topicId": item, "kind": "not_interested"},
              "interact": {"userId": reader, "topicId": item, "kind": "like"}}
    for operation, body in queued.items():
        assert api.call(internal, operation, 202, body=body).json()["queued"] is True
    api.call(internal, "clearHistory", 202, query={"userId": reader})
    degraded = {"history": {"query": {"userId": reader}}, "follows": {"query": {"follower": reader}},
                "recommendations": {"query": {"userId": reader}}, "timeline": {"channel": "discover", "query": {"customerId": reader}},
                "feed": {"body": {"action": "refresh", "agent_id": reader}}}
    for operation, request in degraded.items():
        reply = api.call(internal, operation, 200, **request)
        assert reply.headers["Freshet-Degraded"] == "true", (operation, reply)
        assert reply.json().get("degraded") or reply.json()["data"]["degraded"]
    assert "degraded" in api.call(internal, "feed", 200, body={"action": "peek", "agent_id": reader}).json()["data"]
    for operation, request in {"putItem": {"id": item, "body": {"title": "t", "published_at": 1}}, "getItem": {"id": item},
                             "follow": {"body": {"follower": reader, "author": "a"}}, "mergeHistory": {"body": {"from": "a", "to": "b"}}}.items():
        assert api.call(internal, operation, 503, **request).json()["code"] in ("unavailable", "unknown_outcome")
    assert api.call(internal, "ready", 503).json()["code"] == "not_ready"
    api.call(internal, "status", 200, query={"json": ""})
