"""F14: hostile input in every member and parameter of every operation of the OpenAPI document."""

import asyncio
import collections
import glob
import json
import os
import re
import unicodedata
from urllib.parse import quote

from openapi import OpenApi
from service import SHARED, wait_until

from faults.scenario import fault
from faults.wire import Connection, NoReply, request

CONCURRENCY = 16
# Raw JSON in bodies, text in parameters.
NUMBERS = ["0", "-0", "-1", "1", "1.0", "1.5", "1e3", "1e400", "-1e400", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
           "18446744073709551615", "18446744073709551616", "1e-400", "0x10", "1_0", "+1", "NaN", "Infinity", "-Infinity", "00", ".5", "5.", "2147483648"]
VALUES = ["null", "true", "false", "[]", "{}", '[""]', '{"$gt":""}', '"' + "x" * 513 + '"', "[" * 200 + "]" * 200, '"\\u0000"', '"\\ud800"',
          '"\\ud83d\\ude00"', '["a","a"]', '[1,"1"]', "[[[]]]", '{"a":{"b":[]}}']
EXAMPLES = {name: 1700000000 for name in ("publishedAt", "published_at", "update_time", "at")} | {"page": None, "language": "en", "expires_at": 1800000000}
# Operations without input.
EXCLUDED_OPERATIONS = {"live", "ready", "ping", "status", "metrics"}


def corpus():
    """(strings, raw bodies), or (None, None) if the corpus is missing."""
    folder = os.path.join(SHARED, "corpora")
    if not os.path.isdir(folder):
        return None, None
    with open(os.path.join(folder, "hostile/hostile.json"), encoding="utf-8") as file:
        hostile = json.load(file)
    with open(os.path.join(folder, "BLNS/blns.json"), encoding="utf-8") as file:
        strings = hostile["ids"] + json.load(file) + ["\ud800", "a\udfff", "hll", "list", "é" * 64 + "x", "\x7f", "\x85", "a\u2028"]
    bodies = [body.encode() for body in hostile["bodies_raw"]]
    for path in sorted(glob.glob(os.path.join(folder, "JSONTestSuite/test_parsing/*.json"))):
        with open(path, "rb") as file:
            bodies.append(file.read())
    NUMBERS.extend(each for each in hostile["numbers_raw"] if each not in NUMBERS)
    return strings, bodies


class HostileRequest:
    """A request with one hostile value: the one of `member`, or None if the whole body is hostile. body: (media type,
    bytes).
    """

    def __init__(self, operation, method, target, body, member):
        self.operation, self.method, self.target, self.body, self.member = operation, method, target, body, member


class Operations:
    """Derives a valid request of every operation from the document, then replaces one value at a time.

    share: how many of the hostile values to try, 0..1.
    """

    def __init__(self, api, strings, bodies, rng, share):
        self._api, self._rng, self._share = api, rng, share
        self._strings, self._bodies = strings, bodies

    def _sample(self, values):
        return values if self._share >= 1 else self._rng.sample(values, max(1, int(len(values) * self._share)))

    def all(self):
        for method, path, operation in self._api.operations():
            name = operation["operationId"]
            if name not in EXCLUDED_OPERATIONS:
                yield from self._requests(name, method.upper(), path, operation)

    def _requests(self, name, method, path, operation):
        parameters = operation.get("parameters", [])
        path_values = {each["name"]: "f14" if each["name"] != "channel" else "discover" for each in parameters if each["in"] == "path"}
        query = {each["name"]: "f14" for each in parameters if each["in"] == "query" and each["name"].lower().endswith(("id", "follower", "author"))}
        media, bodies = self._bodies_of(operation)
        if bodies:
            query = {}

        def target(in_path=path_values, in_query=query):
            filled_path = re.sub(r"\{(\w+)\}", lambda match: in_path[match[1]], path)
            return filled_path + ("?" + "&".join(f"{key}={value}" for key, value in in_query.items()) if in_query else "")

        encoded = [quote(text.encode("utf-8", "surrogatepass"), safe="") for text in self._strings] + NUMBERS + ["%", "%zz", "%ff", "%00", "+", "&&", "=", "a" * 9000]
        valid = json.dumps(bodies[0]).encode() if bodies else b""
        for each in parameters:
            for value in self._sample(encoded):
                if each["in"] == "path":
                    yield HostileRequest(name, method, target(in_path=path_values | {each["name"]: value}), (media, valid), each["name"])
                else:
                    yield HostileRequest(name, method, target(in_query=query | {each["name"]: value}), (media, valid), each["name"])
        if not bodies:
            return
        for body, member in ((body, member) for body in bodies for member in body):
            others = {key: value for key, value in body.items() if key != member}
            head = json.dumps(others)[:-1] + (", " if others else "")
            raw = [json.dumps(text) for text in self._strings] + NUMBERS + VALUES
            for value in self._sample(raw):
                yield HostileRequest(name, method, target(), (media, f"{head}{json.dumps(member)}: {value}}}".encode()), member)
            yield HostileRequest(name, method, target(), (media, json.dumps(others).encode()), member)
        for raw in self._sample(self._bodies):
            yield HostileRequest(name, method, target(), (media, raw), None)

    def _bodies_of(self, operation):
        """(media type, valid bodies with all members, one per alternative of oneOf), or (None, []) if the operation has
        no body.
        """
        content = (operation.get("requestBody") or {}).get("content")
        if not content:
            return None, []
        media = next(iter(content))
        schema = content.get("application/json", content[media])["schema"]
        if media == "application/x-ndjson":
            schema = self._api.at("#/components/schemas/ItemBody")
            return media, [{"id": "f14"} | self._example(schema)]
        whole = self._example(schema)
        choices = [set(each["required"]) for each in self._resolved(schema).get("oneOf", [])]
        if not choices:
            return media, [whole]
        exclusive = set().union(*choices)
        return media, [{name: value for name, value in whole.items() if name in choice or name not in exclusive} for choice in choices]

    def _example(self, schema):
        schema = self._resolved(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0]
        kind = schema.get("type")
        kind = kind[0] if isinstance(kind, list) else kind
        if kind == "object":
            return {name: EXAMPLES[name] if name in EXAMPLES else self._example(each) for name, each in schema.get("properties", {}).items()}
        if kind == "array":
            return ["f14"]
        return {"string": "f14", "integer": 1, "number": 1, "boolean": False, "null": None}.get(kind, "f14")

    def _resolved(self, schema):
        while "$ref" in schema:
            schema = self._api.at(schema["$ref"])
        return schema


class ReplyChecker:
    """Counts replies by status and collects those that the document does not allow."""

    def __init__(self, api):
        self._api, self.statuses = api, collections.Counter()
        self.wrong, self.misattributed, self.jobs = [], [], []  # jobs: ids of erasures
        self.described = {operation["operationId"]: set(operation["responses"]) for _, _, operation in api.operations()}

    def check(self, sent, reply):
        status = reply.status if reply else 0
        self.statuses[status] += 1
        if status == 0 or status >= 500:
            self.wrong.append(f"{sent.operation} {sent.member}: {reply or 'no reply'} to {sent.target[:100]} {sent.body[1][:200]!r}")
            return
        # A path with "..", or with another number of segments, belongs to another route.
        if status >= 400 and status not in (404, 405, 414) and str(status) not in self.described[sent.operation]:
            self.wrong.append(f"{sent.operation}: {status} is not described: {reply}")
        if status == 202 and sent.operation == "eraseUser":
            self.jobs.append(json.loads(reply.body)["job"])
        if status < 400:
            return
        try:
            problem = json.loads(reply.body)
            assert {"type", "title", "status", "detail", "code", "msg"} <= set(problem) and problem["status"] == status
        except (ValueError, AssertionError, TypeError):
            self.wrong.append(f"{sent.operation} {sent.member}: no problem document: {reply}")
            return
        if status == 400 and sent.member:
            names_no_member = problem["code"] in ("bad_json", "bad_body", "bad_request", "bad_target", "bad_parameter")
            if not names_no_member and problem.get("member") != sent.member and sent.member not in problem["detail"]:
                self.misattributed.append(f"{sent.operation}: {sent.member} was hostile, {problem['code']} names {problem.get('member')}: {problem['detail']}; "
                                          f"{sent.target[:80]} {sent.body[1][:120]!r}")


async def send_all(address, requests, checker):
    queue = iter(requests)

    async def client():
        connection = Connection(*address)
        for each in queue:
            media, body = each.body
            try:
                reply = await connection.exchange(request(each.method, each.target, body, media or "application/json"))
            except NoReply:
                reply = None
            checker.check(each, reply)
        connection.close()
    await asyncio.gather(*(client() for _ in range(CONCURRENCY)))


# Bidirectional controls and zero-width characters, except joiners.
INVISIBLE = {chr(c) for c in (0xad, 0x61c, 0x180e, 0xfeff, 0x200b, 0x200e, 0x200f, *range(0x202a, 0x202f), *range(0x2060, 0x2070))}


def is_id(text):
    """True if the interface accepts the text as an id."""
    raw = unicodedata.normalize("NFC", text).encode("utf-8", "surrogatepass")
    bad = any(ord(c) < 0x20 or 0x7f <= ord(c) <= 0x9f or c.isspace() and c != " " or c in INVISIBLE or 0xd800 <= ord(c) <= 0xdfff for c in text)
    return 1 <= len(raw) <= 512 and not bad and text.strip(" ") == text and not {".", ".."} & set(text.split("/"))


def check_round_trips(service, strings):
    """Writes valid ids to a history and a timeline and reads them back. Returns how many there were and what was not
    returned unchanged.
    """
    client, internal = service.public(), service.internal()
    accepted, wrong = 0, []
    for text in dict.fromkeys(strings):
        if not is_id(text):
            continue
        accepted += 1
        written = client.post("/api/history", {"userId": "f14-trips", "topicId": text})
        history = client.get("/api/history", query={"userId": "f14-trips"})
        if (written.status, history.status) != (200, 200) or history.json()["items"][:1] != [unicodedata.normalize("NFC", text)]:
            wrong.append(f"history {text!r}: {written} {history}")
        if text == "0":  # as a reader, it names no one
            continue
        pushed = internal.post("/api/waterfall/discover", {"items": ["f14-item"], "customers": [text]})
        page = client.get("/api/waterfall/discover", query={"customerId": text, "direction": "first", "limit": 5})
        # There may be other items: a hostile request can be a valid push to a reader with the id "1".
        if (pushed.status, page.status) != (200, 200) or pushed.json()["pushed"] != 1 or [item["id"] for item in page.json()["items"]][:1] != ["f14-item"]:
            wrong.append(f"timeline {text!r}: {pushed} {page}")
    return accepted, wrong


@fault("F14", "requests with hostile members: JSONTestSuite, naughty strings, hostile ids and numbers in every member and parameter",
       "0 5xx, 0 unexpected keys; 400 names the member, valid ids returned unchanged")
def hostile_input(run):
    strings, bodies = corpus()
    if strings is None:
        run.report(f"CORPUS SKIPPED: {SHARED}/corpora is missing; set FRESHET_SHARED", False)
        strings, bodies = ["", "\0", "a:b", "{", "a\tb", "x" * 513, "]] redis.call('FLUSHALL') --", "é"], [b"", b"{", b"[]", b"\xff", b"null"]
    with run.instance(long_timeouts=True) as service:
        workers, api = set(service.workers()), OpenApi()
        service.put("f14-item")
        checker = ReplyChecker(api)
        requests = Operations(api, strings, bodies, run.rng, run.scale(0.15, 1.0)).all()
        asyncio.run(send_all((service.host, service.internal_port), requests, checker))
        run.report(f"{sum(checker.statuses.values()):,} requests to {len(checker.described) - len(EXCLUDED_OPERATIONS & set(checker.described))} operations")
        run.report(", ".join(f"{count:,} × {status}" for status, count in sorted(checker.statuses.items())))
        run.expect_none("5xx, lost or undescribed replies", len(checker.wrong), checker.wrong)
        run.expect_none("400 that name the wrong member", len(checker.misattributed), checker.misattributed)
        # A pending erasure would delete what the round trips write for the same reader.
        client = service.internal()
        for job in checker.jobs:
            wait_until(lambda job=job: client.get(f"/api/jobs/{job}").json()["state"] == "done", "an erasure", 60)
        accepted, wrong = check_round_trips(service, strings)
        run.report(f"{accepted} ids written and read back")
        run.expect_none("ids changed", len(wrong), wrong)
        run.expect_none("workers lost", len(workers - set(service.workers())))
