"""Runs clients/scenarios.json with each client of scripts/clients against clients/stub.py, a server that fails as servers do.

A scenario is a list of calls of one client, constructed with `options` (`first_pause_ms` is 1 and `timeout_ms` a minute unless
they say otherwise; null stands for the client's default). Each call has

- `call`, `args` and `more`: the method by its name in Python, its arguments and those that are given by name;
- `request`: what must arrive. The path is compared by bytes, the query and the body by what they mean, the headers only if
  listed, and null is one that must not arrive. "<id>" is a new event id;
- `answers`: the server's answers, one per try. The client must make exactly that many tries, with identical requests. An
  empty or missing answer is a small JSON object, an empty list if `call` returns one;
- `result`, or `error`: the members of the exception that matter, or "unreachable". The result is that of the last answer if
  neither is given. `flagged` is the `error` in the result. `refused` is a word in the language's own error of wrong arguments;
- `only`: the languages that make the call.

The pauses between tries follow from the answers and are checked twice: as the client requests them, and on the wire.
`connections` is the number of connections that the scenario takes, `within_s` the time, far above what it should be and below
what another preset would take.
"""

import collections
import concurrent.futures
import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse

import pytest

from service import ROOT

HERE = os.path.join(ROOT, "tests/e2e/clients")
sys.path.insert(0, HERE)
from stub import Stub  # noqa: E402

DRIVERS = {
    "javascript": ("node", "driver.mjs"),
    "python": ("/usr/bin/python3", "driver.py"),
    "php": ("php", "driver.php"),
}
DRIVERS_PER_LANGUAGE = 3
SMALL = {"ok": True}
LISTS = dict.fromkeys(("hot", "recommendations", "similar", "history", "follows", "timeline"), {"items": []}) | {"feed": {"data": {"items": []}}}
LARGE = "x" * 1_500_000
LATEST_SIGNATURE_S = 60
NO_ANSWER = {"status": 0, "code": "unreachable", "member": None, "retry_after_s": 0, "temporary": True}


def signature(kid, secret, method, target, seconds, body):
    message = f"v1\n{method}\n{target}\n{seconds}\n{hashlib.sha256(body).hexdigest()}"
    return f"Freshet-HMAC-SHA256 kid={kid}, ts={seconds}, sig={hmac.new(secret.encode(), message.encode(), hashlib.sha256).hexdigest()}"


def documented_tokens():
    """A scenario with the tokens that INTEGRATION.md lists."""
    with open(os.path.join(ROOT, "INTEGRATION.md"), encoding="utf-8") as file:
        rows = re.findall(r"^\| `(.+)` \| `(\d+)` \| `(v1\..+)` \|$", file.read(), re.M)
    assert len(rows) == 6
    return {"name": "tokens are those in INTEGRATION.md", "calls": [
        {"call": "token", "args": ["k1", "0123456789abcdef" * 2, reader, int(expires)], "result": token, "answers": []} for reader, expires, token in rows]}


def load_scenarios():
    with open(os.path.join(HERE, "scenarios.json"), encoding="utf-8") as file:
        text = file.read()
    expected = signature("k1", "sécret", "POST", "/api/items?x=1", 1700000000, '{"title":"é"}'.encode())
    scenarios = json.loads(text.replace("<large>", LARGE).replace("<deep>", "[" * 200_000).replace("<signature>", expected)) + [documented_tokens()]
    for scenario in scenarios:
        scenario["options"] = {"first_pause_ms": 1, "timeout_ms": 60_000} | scenario.get("options", {})
        scenario["options"] = {name: value for name, value in scenario["options"].items() if value is not None}
        calls = []
        for call in scenario["calls"]:
            answers = [] if scenario.get("refuse") or {"tls", "refused"} & set(call) else call.get("answers", [{}])
            default = LISTS.get(call["call"], SMALL)
            answers = [answer if {"json", "text", "fault"} & set(answer) else {"json": default} | answer for answer in answers]
            call = {"args": [], "more": {}} | call | {"answers": answers}
            if not {"error", "result", "refused"} & set(call):
                call["result"] = answers[-1]["json"].get("data", answers[-1]["json"])
            calls += [call] * call.get("times", 1)
        scenario["calls"] = calls
    return scenarios


SCENARIOS = load_scenarios()


def calls_of(scenario, language):
    return [call for call in scenario["calls"] if language in call.get("only", DRIVERS)]


class Run:
    """A driver with some of the scenarios."""

    def __init__(self, stub, language, numbers):
        program, driver = DRIVERS[language]
        self.requests, given = [], []
        for scenario in (SCENARIOS[number] for number in numbers):
            calls, options = calls_of(scenario, language), dict(scenario["options"])
            port, requests = stub.add([answer for call in calls for answer in call["answers"]], scenario.get("refuse"))
            self.requests.append(requests)
            base = f"{scenario.get('scheme', 'http')}://127.0.0.1:{port}{options.pop('base_path', '')}"
            given.append({"base": base, "options": options, "calls": [{part: call[part] for part in ("call", "args", "more")} for call in calls]})
        self._given = json.dumps(given).encode()
        self._process = subprocess.Popen([program, os.path.join(HERE, driver)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def outcomes(self):
        try:
            output, errors = self._process.communicate(self._given, timeout=120)
        except subprocess.TimeoutExpired:
            self._process.kill()
            output, errors = self._process.communicate()
        assert self._process.returncode == 0, (output + errors)[-4000:].decode(errors="replace")
        return json.loads(output)


@pytest.fixture(scope="module")
def runs():
    """(requests, outcomes) by language and number of the scenario. All drivers run at once: most of the time they wait."""
    stub, results = Stub(), {}
    shares = [(language, range(first, len(SCENARIOS), DRIVERS_PER_LANGUAGE)) for language in DRIVERS for first in range(DRIVERS_PER_LANGUAGE)]
    with concurrent.futures.ThreadPoolExecutor(len(shares)) as pool:
        started = [Run(stub, *share) for share in shares]
        for (language, numbers), run, outcomes in zip(shares, started, pool.map(Run.outcomes, started)):
            for number, requests, outcome in zip(numbers, run.requests, outcomes):
                results[language, number] = requests, outcome
    yield results
    stub.close()


def check_body(request, expected, ids):
    """Checks the body and its type; adds the event ids that the client made to `ids`."""
    if "lines" in expected:
        assert request.headers["content-type"] == "application/x-ndjson"
        body, wanted = [json.loads(line) for line in request.body.split(b"\n")], expected["lines"]
    elif request.body:
        assert request.headers["content-type"] == "application/json"
        body = json.loads(request.body)
        wanted = expected.get("body", body)
        body, wanted = [body], [wanted]
    else:
        assert "content-type" not in request.headers
        body, wanted = [], [expected["body"]] if "body" in expected else []
    assert len(body) == len(wanted)
    for found, want in zip(body, wanted):
        if want.get("eventId") == "<id>":
            assert re.fullmatch("[0-9a-f]{32}", found["eventId"])
            ids.append(found["eventId"])
            want = want | {"eventId": found["eventId"]}
        assert found == want


def check_request(request, expected, key, ids):
    assert request.method == expected["method"]
    path, _, query = request.target.partition("?")
    assert path == expected["path"]
    parameters = urllib.parse.parse_qs(query, keep_blank_values=True, strict_parsing=bool(query))
    assert {name: values if len(values) > 1 else values[0] for name, values in parameters.items()} == expected.get("query", {})
    assert ("?" in request.target) == ("query" in expected)
    for name, value in expected.get("headers", {}).items():
        assert request.headers.get(name) == value
    assert "expect" not in request.headers
    assert request.headers["user-agent"] == "freshet-client"  # without an agent, or with Node's, it would be a crawler
    assert request.method != "GET" or not request.body
    check_body(request, expected, ids)
    if key:
        seconds = int(re.search(r" ts=(\d+),", request.headers["authorization"])[1])
        assert abs(time.time() - (time.monotonic() - request.at) - seconds) <= LATEST_SIGNATURE_S
        assert request.headers["authorization"] == signature(*key, request.method, request.target, seconds, request.body)
    else:
        assert "authorization" not in request.headers


def pause_bounds(answers, options):
    """(least, most) pause in seconds after each answer but the last."""
    first_s = options.get("first_pause_ms", 250) / 1000
    for attempt, answer in enumerate(answers[:-1]):
        headers = {name.lower(): value for name, value in answer.get("headers", {}).items()}
        retry_after = headers.get("retry-after", "")
        asked_s = int(retry_after) if retry_after.isdecimal() else 0
        yield max(asked_s, 0.5 * first_s * 2**attempt), max(asked_s, 1.5 * first_s * 2**attempt)


def check_pauses(call, outcome, requests, options):
    if "pauses" in call:  # nothing arrived, so nothing else shows the tries
        bounds = list(pause_bounds([{}] * (call["pauses"] + 1), options))
    else:
        bounds = list(pause_bounds(call["answers"], options))
    assert len(outcome["pauses"]) == len(bounds)
    for pause, (least, most) in zip(outcome["pauses"], bounds):
        assert least - 1e-6 <= pause <= most + 1e-6
    for before, after, (least, _), answer in zip(requests, requests[1:], bounds, call["answers"]):
        if answer.get("fault") in ("hang", "stall", "drip"):
            least += options["timeout_ms"] / 2000  # on a busy machine, the client's clock starts long before the request arrives
        assert after.at - before.answered_at >= least - 0.002  # the clocks of timers are coarse


def check_error(expected, error):
    if expected == "unreachable":
        assert {name: error[name] for name in NO_ANSWER} == NO_ANSWER
        assert re.fullmatch("the service is unreachable: .+", error["message"])
    else:
        assert {name: error[name] for name in expected} == expected


def check_outcome(call, outcome):
    if "refused" in call:
        assert call["refused"] in outcome["crash"]
        return
    assert "crash" not in outcome, outcome["crash"]
    if "error" in call:
        check_error(call["error"], outcome["error"])
        return
    assert "error" not in outcome, outcome
    result = outcome["result"] or None  # PHP has an empty array where the others have nothing
    if "flagged" in call:
        check_error(call["flagged"], result.pop("error"))
    assert result == call["result"]


@pytest.mark.parametrize("language", DRIVERS)
@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=[scenario["name"] for scenario in SCENARIOS])
def test_a_client_and_a_failing_server(runs, language, number):
    scenario, (requests, outcomes) = SCENARIOS[number], runs[language, number]
    calls, options, ids, at = calls_of(scenario, language), scenario["options"], [], 0
    assert len(outcomes) == len(calls)
    for call, outcome in zip(calls, outcomes):
        if "tls" in call:
            assert requests == ["TLS"]
            continue
        arrived = requests[at:at + len(call["answers"])]
        at += len(arrived)
        assert len(arrived) == len(call["answers"]), call["call"]
        if arrived:
            check_request(arrived[0], call["request"], options.get("key"), ids)
        for again in arrived[1:]:
            check_request(again, call["request"], options.get("key"), [])
            assert (again.target, again.body) == (arrived[0].target, arrived[0].body)
        check_outcome(call, outcome)
        if not (call.get("may_repeat") or "refused" in call):
            check_pauses(call, outcome, arrived, options)
    assert len(requests) == at or "tls" in calls[0], "requests after the last expected one"
    assert len(set(ids)) == len(ids)
    if "within_s" in scenario:
        assert sum(outcome["seconds"] for outcome in outcomes) < scenario["within_s"]
    if "connections" in scenario and language != "javascript":  # there the platform manages them
        assert len({request.connection for request in requests}) == scenario["connections"]


@pytest.mark.parametrize("language", DRIVERS)
def test_pauses_vary(runs, language):
    [number] = [number for number, scenario in enumerate(SCENARIOS) if scenario.get("varied")]
    first_s = SCENARIOS[number]["options"]["first_pause_ms"] / 1000
    ratios = [pause / first_s / 2**attempt for outcome in runs[language, number][1] for attempt, pause in enumerate(outcome["pauses"])]
    assert len(ratios) == 60  # all of them in one half of the range: less than once in 10**12 runs
    assert min(ratios) < 0.9
    assert max(ratios) > 1.1


def test_what_only_the_javascript_client_does():
    done = subprocess.run(["node", "--test", os.path.join(HERE, "javascript_test.mjs")], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search("^# pass [1-9]", done.stdout, re.M), done.stdout


def echo(request):
    """Answers with the id in the path, after a moment in which others send their requests."""
    time.sleep(2 if "/slow" in request.target else 0.001)
    return {"json": {"id": request.target.rpartition("/")[2]}}


@pytest.mark.parametrize("language", DRIVERS)
def test_tasks_that_share_a_client_get_their_own_replies(language):
    program, driver = DRIVERS[language]
    stub = Stub()
    try:
        port, requests = stub.add(echo)
        script = os.path.join(HERE, driver.replace("driver", "concurrent"))
        done = subprocess.run([program, script, f"http://127.0.0.1:{port}"], capture_output=True, text=True, timeout=120, check=False)
    finally:
        stub.close()
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stdout + done.stderr
    connections = collections.defaultdict(set)
    for request in requests:
        connections[request.target.rpartition("/")[2].partition("-")[0]].add(request.connection)
    assert set(connections) == {"javascript": set("abcd"), "python": {*"abcd", "parent", "child", "slow", "after"}, "php": {*"abc", "parent"}}[language]
    if language != "javascript":  # there the platform manages them
        assert sorted(len(each) for each in connections.values()) == [1] * len(connections)
        assert len(set.union(*connections.values())) == len(connections)


ADDRESSES = """
import socket, sys, time
sys.path.insert(0, sys.argv[2])
from freshet import Freshet
addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", int(sys.argv[1])))] * 20
resolve, socket.getaddrinfo = socket.getaddrinfo, lambda host, *more, **options: addresses if host == "site" else resolve(host, *more, **options)
began = time.monotonic()
print(Freshet("http://site", preset="page").hot()["error"])
print(time.monotonic() - began)
"""


def test_all_addresses_of_a_host_share_the_time_of_a_python_page():
    stub = Stub()
    try:
        port, _ = stub.add([], "silently")
        done = subprocess.run(["/usr/bin/python3", "-c", ADDRESSES, str(port), os.path.join(ROOT, "scripts/clients/python")],
                              capture_output=True, text=True, timeout=120, check=True)
    finally:
        stub.close()
    error, seconds = done.stdout.splitlines()
    assert error == "the service is unreachable: timed out"
    assert float(seconds) < 3  # if each had 0.3 s: 6


BASES = ["127.0.0.1:8081", "localhost:8081", "ftp://127.0.0.1", "http://", "http://127.0.0.1:port"]
MAKE = {
    "javascript": ("node", "--input-type=module", "-e", """
import { Freshet } from "%s/javascript/freshet.mjs";
import { freshetExpress } from "%s/javascript/express.mjs";
for (const make of [(base) => new Freshet({ base }), (base) => freshetExpress({ base })])
  for (const base of %s) try { make(base); console.log("accepted", base); } catch (error) { console.log(error.name); }
for (const base of ["HTTPS://site.example/prefix/", "http://[::1]:1"]) new Freshet({ base });
try { freshetExpress({}); } catch (error) { console.log(error.message); }""", "TypeError"),
    "python": ("/usr/bin/python3", "-c", """
import sys
sys.path[:0] = ["%s/python", "%s/python"]
from freshet import Freshet
from freshet_web import Site
for make in (Freshet, Site):
    for base in %s:
        try:
            print("accepted", make(base))
        except ValueError as error:
            print("ValueError")
for base in ("HTTPS://site.example/prefix/", "http://[::1]:1"):
    Freshet(base)""", "ValueError"),
    "php": ("php", "-r", """
require '%s/php/Freshet.php';
require '%s/php/FreshetSite.php';
foreach ([Freshet\\Freshet::class, Freshet\\Site::class] as $class)
    foreach (%s as $base) try { new $class($base); echo "accepted $base\\n"; } catch (ValueError) { echo "ValueError\\n"; }
foreach (["HTTPS://site.example/prefix/", "http://[::1]:1"] as $base) new Freshet\\Freshet($base);""", "ValueError"),
}


@pytest.mark.parametrize("language", DRIVERS)
def test_a_base_that_is_no_address_is_refused_at_once(language):
    *command, script, error = MAKE[language]
    clients = os.path.join(ROOT, "scripts/clients")
    done = subprocess.run([*command, script % (clients, clients, json.dumps(BASES))], capture_output=True, text=True, timeout=120, check=False)
    missing = "base is missing, the address of the internal server\n" if language == "javascript" else ""
    assert (done.returncode, done.stdout) == (0, f"{error}\n" * 2 * len(BASES) + missing), done.stdout + done.stderr


BROKEN_TEXT = {
    "javascript": ("node", "--input-type=module", "-e", """
import { Freshet } from "%s/javascript/freshet.mjs";
const client = new Freshet({ base: "http://127.0.0.1:%d", preset: "page", cooldownMs: 0, timeoutMs: 60000 });
for (const text of ["\\ud83d", "a\\udc00b"])
  for (const call of [client.similar(text), client.hot({ tag: text }), client.feed(text, { query: text }).refresh()])
    if ((await call).unavailable) console.log("unavailable");"""),
    "python": ("/usr/bin/python3", "-c", """
import sys
sys.path.insert(0, "%s/python")
from freshet import Freshet
client = Freshet("http://127.0.0.1:%d", preset="page", cooldown_s=0, timeout_s=60)
for text in ("\\ud83d", "a\\udc00b"):
    for page in (client.similar(text), client.hot(tag=text), client.feed(text, query=text)):
        print("unavailable" if page["unavailable"] else page)"""),
    "php": ("php", "-r", """
require '%s/php/Freshet.php';
$client = new Freshet\\Freshet('http://127.0.0.1:%d', preset: 'page', cooldownMs: 0, timeoutMs: 60000);
foreach (["\\xff", "a\\xed\\xa0\\xbdb"] as $text)
    foreach ([$client->similar($text), $client->hot(tag: $text), $client->feed($text, query: $text)] as $page)
        echo $page['unavailable'] ? "unavailable\\n" : "";"""),
}


@pytest.mark.parametrize("language", DRIVERS)
def test_text_that_is_not_valid_unicode_does_not_break_a_page(language):
    *command, script = BROKEN_TEXT[language]
    stub = Stub()
    try:
        port, requests = stub.add(lambda request: {"status": 400, "json": {"code": "bad_id"}})
        done = subprocess.run([*command, script % (os.path.join(ROOT, "scripts/clients"), port)], capture_output=True, text=True, timeout=120, check=False)
    finally:
        stub.close()
    assert (done.returncode, done.stdout) == (0, "unavailable\n" * 6), done.stdout + done.stderr
    assert len(requests) == 6
    ids = [urllib.parse.unquote(request.target.split("/")[3]) for request in requests if request.target.endswith("/similar")]
    tags = [urllib.parse.unquote(request.target.split("tag=")[1]) for request in requests if "tag=" in request.target]
    bodies = [json.loads(request.body) for request in requests if request.body]
    users = [re.sub("[\ud800-\udfff]", "\ufffd", body["userId"]) for body in bodies]  # as the service reads them
    assert ids == tags == users
    assert [re.sub("\ufffd+", "?", text) for text in ids] == ["?", "a?b"]
