"""F14: what the internet thinks of, in every member and parameter of every operation that the OpenAPI document describes."""

import asyncio
import collections
import glob
import json
import os
import re
from urllib.parse import quote

from openapi import OpenApi
from service import SHARED, wait_until

from faults.scenario import fault
from faults.wire import Connection, Lost, request

AT_ONCE = 16
# Of a body as raw JSON; as text for parameters.
NUMBERS = ["0", "-0", "-1", "1", "1.0", "1.5", "1e3", "1e400", "-1e400", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
           "18446744073709551615", "18446744073709551616", "1e-400", "0x10", "1_0", "+1", "NaN", "Infinity", "-Infinity", "00", ".5", "5.", "2147483648"]
VALUES = ["null", "true", "false", "[]", "{}", '[""]', '{"$gt":""}', '"' + "x" * 129 + '"', "[" * 200 + "]" * 200, '"\\u0000"', '"\\ud800"',
          '"\\ud83d\\ude00"', '["a","a"]', '[1,"1"]', "[[[]]]", '{"a":{"b":[]}}']
EXAMPLES = {name: 1700000000 for name in ("publishedAt", "published_at", "update_time", "at")} | {"page": None}
# Operations whose effect would spoil the others' (an erased reader, a full stream) or which take no input.
NOT_ASKED = {"live", "ready", "ping", "status", "metrics"}


def corpus():
    """(strings, raw bodies); Nones when there is no corpus."""
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


class Asked:
    """One request and what it tries: the member or parameter it spoils."""

    def __init__(self, operation, method, target, body, member):
        self.operation, self.method, self.target, self.body, self.member = operation, method, target, body, member


class Operations:
    """Valid requests of every operation, from the document, and their spoilt relatives."""

    def __init__(self, api, strings, bodies, dice, share):
        self._api, self._dice, self._share = api, dice, share
        self._strings, self._bodies = strings, bodies

    def _some(self, values):
        return values if self._share >= 1 else self._dice.sample(values, max(1, int(len(values) * self._share)))

    def all(self):
        for method, path, operation in self._api.operations():
            name = operation["operationId"]
            if name not in NOT_ASKED:
                yield from self._of(name, method.upper(), path, operation)

    def _of(self, name, method, path, operation):
        parameters = operation.get("parameters", [])
        places = {each["name"]: "f14" if each["name"] != "channel" else "discover" for each in parameters if each["in"] == "path"}
        query = {each["name"]: "f14" for each in parameters if each["in"] == "query" and each["name"].lower().endswith(("id", "follower", "author"))}
        media, bodies = self._bodies_of(operation)
        if bodies:
            query = {}

        def target(place=places, asked=query):
            where = re.sub(r"\{(\w+)\}", lambda match: place[match[1]], path)
            return where + ("?" + "&".join(f"{key}={value}" for key, value in asked.items()) if asked else "")

        encoded = [quote(text.encode("utf-8", "surrogatepass"), safe="") for text in self._strings] + NUMBERS + ["%", "%zz", "%ff", "%00", "+", "&&", "=", "a" * 9000]
        valid = json.dumps(bodies[0]).encode() if bodies else b""
        for each in parameters:
            for value in self._some(encoded):
                if each["in"] == "path":
                    yield Asked(name, method, target(place=places | {each["name"]: value}), (media, valid), each["name"])
                else:
                    yield Asked(name, method, target(asked=query | {each["name"]: value}), (media, valid), each["name"])
        if not bodies:
            return
        for body, member in ((body, member) for body in bodies for member in body):
            others = {key: value for key, value in body.items() if key != member}
            head = json.dumps(others)[:-1] + (", " if others else "")
            raw = [json.dumps(text) for text in self._strings] + NUMBERS + VALUES
            for value in self._some(raw):
                yield Asked(name, method, target(), (media, f"{head}{json.dumps(member)}: {value}}}".encode()), member)
            yield Asked(name, method, target(), (media, json.dumps(others).encode()), member)
        for raw in self._some(self._bodies):
            yield Asked(name, method, target(), (media, raw), None)

    def _bodies_of(self, operation):
        """Media type and bodies with every member that they may have: one, or one for each alternative. (None, []) where none is taken."""
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
        either = set().union(*choices)
        return media, [{name: value for name, value in whole.items() if name in choice or name not in either} for choice in choices]

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


class Judge:
    """Counts replies, and says which are none that an operation may give."""

    def __init__(self, api):
        self._api, self.statuses = api, collections.Counter()
        self.wrong, self.named, self.unnamed, self.jobs = [], 0, [], []
        self.described = {operation["operationId"]: set(operation["responses"]) for _, _, operation in api.operations()}

    def look(self, asked, reply):
        status = reply.status if reply else 0
        self.statuses[status] += 1
        if status == 0 or status >= 500:
            self.wrong.append(f"{asked.operation} {asked.member}: {reply or 'no reply'} to {asked.target[:100]} {asked.body[1][:200]!r}")
            return
        # A path that climbs, or has another number of segments, is another route's.
        if status >= 400 and status not in (404, 405, 414) and str(status) not in self.described[asked.operation]:
            self.wrong.append(f"{asked.operation}: {status} is not described: {reply}")
        if status == 202 and asked.operation == "eraseUser":
            self.jobs.append(json.loads(reply.body)["job"])
        if status < 400:
            return
        try:
            problem = json.loads(reply.body)
            assert {"type", "title", "status", "detail", "code", "msg"} <= set(problem) and problem["status"] == status
        except (ValueError, AssertionError, TypeError):
            self.wrong.append(f"{asked.operation} {asked.member}: no problem document: {reply}")
            return
        if status == 400 and asked.member:
            whole = problem["code"] in ("bad_json", "bad_body", "bad_request", "bad_target", "bad_parameter")  # no member can be told
            if whole or problem.get("member") == asked.member or asked.member in problem["detail"]:
                self.named += 1
            else:
                self.unnamed.append(f"{asked.operation}: {asked.member} spoilt, {problem['code']}, {problem.get('member')} named: {problem['detail']}; "
                                    f"{asked.target[:80]} {asked.body[1][:120]!r}")


async def ask_all(address, everything, judge):
    queue = iter(everything)

    async def client():
        connection = Connection(*address)
        for asked in queue:
            media, body = asked.body
            try:
                reply = await connection.ask(request(asked.method, asked.target, body, media or "application/json"))
            except Lost:
                reply = None
            judge.look(asked, reply)
        connection.close()
    await asyncio.gather(*(client() for _ in range(AT_ONCE)))


# Bidirectional controls and what has no width.
INVISIBLE = {chr(c) for c in (0xad, 0x61c, 0x180e, 0xfeff, *range(0x200b, 0x2010), *range(0x202a, 0x202f), *range(0x2060, 0x2070))}


def is_id(text):
    """As the interface says it."""
    raw = text.encode("utf-8", "surrogatepass")
    bad = any(ord(c) < 0x20 or 0x7f <= ord(c) <= 0x9f or c.isspace() or c in ":{}" or c in INVISIBLE or 0xd800 <= ord(c) <= 0xdfff for c in text)
    return 1 <= len(raw) <= 128 and not bad


def round_trips(service, strings):
    """Ids that were accepted come back byte for byte, from a list and from a timeline. Returns how many, and what did not."""
    client, internal = service.public(), service.internal()
    accepted, wrong = 0, []
    for text in dict.fromkeys(strings):
        if not is_id(text):
            continue
        accepted += 1
        seen = client.post("/api/history", {"userId": "f14-trips", "topicId": text})
        back = client.get("/api/history", query={"userId": "f14-trips"})
        if (seen.status, back.status) != (200, 200) or back.json()["items"][:1] != [text]:
            wrong.append(f"history {text!r}: {seen} {back}")
        who = internal.post("/api/waterfall/discover", {"items": ["f14-item"], "customers": [text]})
        page = client.get("/api/waterfall/discover", query={"customerId": text, "direction": "first", "limit": 5})
        # Other items may be there: a spoilt request can be a valid push to somebody who is called "1".
        if (who.status, page.status) != (200, 200) or who.json()["pushed"] != 1 or [item["id"] for item in page.json()["items"]][:1] != ["f14-item"]:
            wrong.append(f"timeline {text!r}: {who} {page}")
    return accepted, wrong


@fault("F14", "JSONTestSuite, naughty strings, hostile ids and numbers in every member and parameter of every operation",
       "0 5xx, 0 unexpected keys; 400 names the member, or it comes back byte for byte")
def hostile_input(run):
    strings, bodies = corpus()
    if strings is None:
        run.figure(f"CORPUS SKIPPED: nothing at {SHARED}/corpora; FRESHET_SHARED names it", False)
        strings, bodies = ["", "\0", "a:b", "{", "x" * 129, "]] redis.call('FLUSHALL') --", "é"], [b"", b"{", b"[]", b"\xff", b"null"]
    with run.instance(patient=True) as service:
        workers, api = set(service.workers()), OpenApi()
        service.put("f14-item")
        judge = Judge(api)
        everything = Operations(api, strings, bodies, run.dice, run.scale(0.15, 1.0)).all()
        asyncio.run(ask_all((service.host, service.internal_port), everything, judge))
        run.figure(f"{sum(judge.statuses.values()):,} requests to {len(judge.described) - len(NOT_ASKED & set(judge.described))} operations")
        run.figure(", ".join(f"{count:,} × {status}" for status, count in sorted(judge.statuses.items())))
        run.none("5xx, lost or undescribed replies", len(judge.wrong), judge.wrong)
        run.none("400 that name another member", len(judge.unnamed), judge.unnamed)
        # Readers who are still to be erased would lose what they are asked for next.
        client = service.internal()
        for job in judge.jobs:
            wait_until(lambda job=job: client.get(f"/api/jobs/{job}").json()["state"] == "done", "an erasure", 60)
        accepted, wrong = round_trips(service, strings)
        run.figure(f"{accepted} ids round trip")
        run.none("ids changed", len(wrong), wrong)
        run.none("workers lost", len(workers - set(service.workers())))
