"""What operators see: the status page in PHP-FPM's forms, metrics, the slow log, the access log, the budget of a request."""

import contextlib
import html.parser
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import xml.etree.ElementTree as ElementTree

import pytest

from client import assert_problem
from fastcgi import Connection
from proxy import Proxy
from service import BUILD, PATIENT, REQUEST_ID, ROOT, Instance, group_tags, wait_until

with open(os.path.join(os.path.dirname(__file__), "php_fpm_status.json"), encoding="utf-8") as golden:
    FPM = json.load(golden)


@pytest.fixture(scope="module")
def service():
    started = Instance("--no-limits", request_slowlog_timeout="100000", **PATIENT)
    try:
        started.start()
        yield started
    finally:
        started.stop()


def status_socket(service):
    return os.path.join(service.state, "run/status.sock")


def page(service, query=""):
    with Connection(status_socket(service)) as direct:
        code, body = direct.ask(uri="/status" + query)
    assert code == 200, body
    return body.decode()


def begins_with(keys, expected):
    """What PHP-FPM says comes first and in its order; ours follows."""
    assert list(keys)[:len(expected)] == list(expected)


# --- PHP-FPM's forms


def test_the_json_status_begins_with_php_fpms_keys_and_types(service):
    for query, processes in (("?json", False), ("?json&full", True)):
        status = json.loads(page(service, query))
        begins_with(status, FPM["json"])
        kinds = {"string": str, "number": (int, float)}
        assert all(isinstance(status[key], kinds[kind]) for key, kind in FPM["json"].items()), status
        assert ("processes" in status) == processes
        for process in status.get("processes", []):
            begins_with(process, FPM["json_process"])
            assert all(isinstance(process[key], kinds[kind]) for key, kind in FPM["json_process"].items()), process


def test_the_text_status_begins_with_php_fpms_keys(service):
    pool, *workers = page(service, "?full").split("\n************************\n")
    begins_with([line.split(":")[0] for line in pool.splitlines()], FPM["text"])
    assert len(workers) == len(service.workers())
    for worker in workers:
        begins_with([line.split(":")[0] for line in worker.splitlines()], FPM["text_process"])
    start = re.search(r"^start time: +(.*)$", pool, re.M)[1]
    assert abs(time.mktime(time.strptime(start, "%d/%b/%Y:%H:%M:%S +0000")) - time.timezone - service.status()["start time"]) < 1


def test_the_xml_status_begins_with_php_fpms_elements(service):
    root = ElementTree.fromstring(page(service, "?xml&full"))
    begins_with([element.tag for element in root], FPM["xml"])
    for process in root.find("processes"):
        begins_with([element.tag for element in process], FPM["xml_process"])


def test_the_html_status_begins_with_php_fpms_headings(service):
    class Headings(html.parser.HTMLParser):
        tables, inside = [], False

        def handle_starttag(self, tag, attrs):
            if tag == "table":
                self.tables.append([])
            self.inside = tag == "th"

        def handle_data(self, data):
            if self.inside:
                self.tables[-1].append(data)

        def handle_endtag(self, tag):
            self.inside = False

    parser = Headings()
    parser.feed(page(service, "?html&full"))
    pool, workers = parser.tables
    begins_with(pool, FPM["html"])
    begins_with(workers, FPM["html_process"])


def test_the_openmetrics_status_is_php_fpms(service):
    text = page(service, "?openmetrics")
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    assert types == FPM["openmetrics"]
    assert set(re.findall(r"^(phpfpm_\w+) [0-9.]+$", text, re.M)) == set(types)
    assert text.endswith("# EOF\n")


def test_numbers_of_the_status_are_those_of_the_pool(service, name):
    before = json.loads(page(service, "?json"))
    internal = service.internal()
    for _ in range(5):
        assert internal.get("/api/hot").status == 200
    assert internal.put(f"/api/items/{name()}", {"title": "x", "published_at": 1}).status == 200
    after = wait_until(lambda: (now := json.loads(page(service, "?json&full")))["requests"] >= before["requests"] + 6 and now, "six requests")
    assert after["total processes"] == len(service.workers()) == after["idle processes"] + after["active processes"]
    assert sum(process["requests"] for process in after["processes"]) == after["requests"]
    assert after["memory peak"] > 1 << 20 and all(process["last request memory"] > 1 << 20 for process in after["processes"])
    last = max(after["processes"], key=lambda process: process["content length"])
    assert last["request method"] == "PUT" and last["request uri"].startswith("/api/items/") and last["request duration"] > 0
    assert all("?" not in process["request uri"] for process in after["processes"])

    def lists(status):
        return status["hot list hits"] + status["hot list misses"]
    # Workers say so twice a second.
    wait_until(lambda: lists(json.loads(page(service, "?json"))) >= lists(before) + 5, "the lists to be counted")


# --- the companion


def stopped(pids):
    @contextlib.contextmanager
    def block():
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
    return block()


def test_five_minutes_are_kept_over_a_reload_and_told_while_every_worker_is_stopped(own_service, name):
    def history():
        return own_service.internal().get("/status?json&history").json()["history"]

    def has_counted():
        own_service.public().track(name("a"), 0, userId="u")
        return any(history()["requests"][1:])

    assert "history" not in own_service.internal().get("/status?json").json()
    wait_until(has_counted, "requests a second")
    before, keeper, old = history(), own_service.status_process(), set(own_service.workers())
    assert all(len(column) == len(before["ms ago"]) for column in before.values())
    own_service.reload()
    wait_until(lambda: own_service.status_process() not in (keeper, None), "another status process")
    wait_until(lambda: not old & set(own_service.workers()), "the old workers to be gone")
    with stopped(own_service.workers()):
        after = wait_until(lambda: len(history()["ms ago"]) > len(before["ms ago"]) + 2 and history(), "more of it")
    assert after["requests"][1:len(before["requests"])] == before["requests"][1:]
    assert after["ms ago"] == sorted(after["ms ago"], reverse=True) and after["ms ago"][0] > before["ms ago"][0]


def test_status_and_metrics_answer_while_every_worker_is_stopped(service):
    client = service.internal()
    with stopped(service.workers()):
        for path in ("/status?json", "/metrics", "/health/live", "/health/ready"):
            assert client.get(path).status == 200, path
        assert client.get("/status?json").json()["total processes"] == len(service.workers())
        with Connection(status_socket(service)) as direct:
            assert direct.ask(uri="/ping") == (200, b"pong")


def test_the_companion_has_no_other_routes_and_none_for_the_public(service):
    with Connection(status_socket(service)) as direct:
        assert direct.ask(uri="/api/hot")[0] == 404
        assert direct.ask(uri="/status", zone="public")[0] == 404
        assert direct.ask(uri="/status", method="POST")[0] == 405
        assert direct.ask(uri="/status")[0] == 200


def test_workers_answer_when_the_companion_is_away(service):
    with Connection(service.socket_path) as direct:
        assert direct.ask(uri="/status?json")[0] == 200
        code, body = direct.ask(uri="/metrics")
    assert code == 200 and body.endswith(b"# EOF\n")


# --- metrics


def metrics(service):
    reply = service.internal().get("/metrics")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    return reply.body.decode()


def value(text, sample):
    found = re.search("^" + re.escape(sample) + r" (\S+)$", text, re.M)
    assert found, f"no {sample}"
    return float(found[1])


def older_form(text):
    """As Prometheus' older text form has it, which promtool reads: there the family of a counter has the sample's name."""
    suffix = {"counter": "_total", "info": "_info"}
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))

    def renamed(match):
        kind, family, rest = match.groups()
        return f"# {kind} {family}{suffix.get(types[family], '')} {'gauge' if rest == 'info' else rest}"

    return re.sub(r"^# (TYPE|HELP) (\S+) (.*)$", renamed, text, flags=re.M)


def promtool(*arguments, **options):
    tool = shutil.which("promtool") or os.environ.get("FRESHET_PROMTOOL")
    if not tool:
        pytest.skip("no promtool (Debian's prometheus)")
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False, timeout=240, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_promtool_finds_nothing_wrong_with_the_metrics(service):
    assert promtool("check", "metrics", input=older_form(metrics(service))).strip() == ""


def test_the_metrics_are_openmetrics(service):
    parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason="no python3-prometheus-client")
    families = {family.name: family for family in parser.text_string_to_metric_families(metrics(service))}
    assert families["freshet_requests"].type == "counter"
    assert families["freshet_request_duration_seconds"].type == "histogram"
    assert all(family.documentation for family in families.values())


def test_requests_are_counted_and_timed_by_route(service):
    route = 'route="GET /api/hot"'
    service.internal().get("/api/hot")  # a route is timed once it was asked for
    before = wait_until(lambda: f"duration_seconds_count{{{route}}}" in (text := metrics(service)) and text, "the route")
    for _ in range(7):
        service.internal().get("/api/hot")
    assert service.internal().get("/api/none").status == 404

    def grown(sample, by):
        return lambda: value(metrics(service), sample) == value(before, sample) + by

    wait_until(grown(f'freshet_requests_total{{{route},status="2xx"}}', 7), "seven requests")
    wait_until(grown(f"freshet_request_duration_seconds_count{{{route}}}", 7), "seven durations")
    wait_until(grown('freshet_requests_total{route="none",status="4xx"}', 1), "one without a route")
    text = metrics(service)
    assert value(text, f'freshet_request_duration_seconds_bucket{{{route},le="+Inf"}}') == value(text, f"freshet_request_duration_seconds_count{{{route}}}")


def test_what_only_redis_knows_is_sampled(service, name):
    service.put(name())
    assert service.internal().track(name("sampled"), 100, userId=name("u")).status == 200
    size = service.redis("ZCARD", "hot:rank")
    wait_until(lambda: 'freshet_hot_members{key="hot:rank"}' in metrics(service), "the first sample")
    wait_until(lambda: value(metrics(service), 'freshet_hot_members{key="hot:rank"}') >= size, "the sample", 30)
    assert abs(value(metrics(service), "freshet_store_sample_time_seconds") - time.time()) < 30


def test_a_stream_is_as_full_as_that_of_its_fullest_group(instance, name):
    service = instance(recorder__enabled="false", stream__max_len=1600)
    for _ in range(8):
        service.put(name())
    streams = [f"recorder:stream:{{{tag}}}" for tag in group_tags()] if service.masters else ["recorder:stream"]
    lengths = [service.ask_redis("XLEN", each) for each in streams]
    assert sum(lengths) == 8
    full = max(lengths) / (1600 / len(streams))
    wait_until(lambda: f"\nfreshet_recorder_stream_fill_ratio {full}\n" in metrics(service), "the sample")
    assert value(metrics(service), "freshet_recorder_stream_entries") == 8


def test_counters_outlive_the_worker_that_counted(own_service):
    client = own_service.internal()
    for _ in range(20):
        client.get("/api/hot")
    sample = 'freshet_requests_total{route="GET /api/hot",status="2xx"}'
    before = wait_until(lambda: (now := value(metrics(own_service), sample)) >= 20 and now, "the requests")
    for pid in own_service.workers():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: value(metrics(own_service), "freshet_pool_respawns_total") >= 1, "the deaths")
    assert value(metrics(own_service), sample) >= before


# --- what is shipped for Prometheus

ALERTS = os.path.join(ROOT, "nginx/freshet-alerts.yml")


def shipped_expressions():
    with open(os.path.join(ROOT, "nginx/freshet-dashboard.json"), encoding="utf-8") as file:
        dashboard = json.load(file)
    with open(ALERTS, encoding="utf-8") as file:
        rules = re.findall(r"^ +expr: (.*)$", file.read(), re.M)
    return rules, [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_alerts_and_dashboard_name_metrics_that_there_are(service):
    text = metrics(service)
    # Of a histogram or a counter the samples' names; a model's age is there when there is a model.
    known = set(re.findall(r"^(freshet_\w+)", text, re.M)) | {f for f, _ in re.findall(r"^# TYPE (\S+) (gauge)$", text, re.M)}
    rules, panels = shipped_expressions()
    assert len(rules) > 10 and len(panels) > 10
    for expression in rules + panels:
        for used in re.findall(r"freshet_\w+", expression):
            assert used in known or used.removesuffix("_bucket") in known, (used, expression)


def test_promtool_accepts_the_alert_rules():
    assert "rules found" in promtool("check", "rules", ALERTS)


def test_alerts_fire_when_they_should_and_not_before():
    promtool("test", "rules", os.path.join(os.path.dirname(__file__), "alerts_test.yml"))


# --- a Redis that is slow


@pytest.fixture
def slow_redis():
    """slow_redis(directive=value…): an instance behind a proxy to Redis, and the proxy. What Redis has not answered it waits for."""
    with contextlib.ExitStack() as ending:
        def start(**directives):
            service = Instance("--no-limits", **({"redis__timeout": '"20s"', "gateway__request_budget": '"30s"', "gateway__bulk_budget": '"30s"',
                                                  "request_terminate_timeout": '"60s"', "pm__max_children": "1"} | directives))
            proxy = ending.enter_context(Proxy(service.redis_socket()))
            service.configure(redis__url=f'"{proxy.url}"')
            ending.callback(service.stop)
            ending.callback(proxy.set)
            return service.start(), proxy

        yield start


class Asked:
    """A request under way."""

    def __init__(self, ask):
        self._ask, self.reply = ask, None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        self.reply = self._ask()

    def wait(self):
        self._thread.join(60)
        assert self.reply is not None
        return self.reply


def fields(line):
    return {name: quoted or bare for name, quoted, bare in re.findall(r'(\w+)=(?:"([^"]*)"|(\S*))', line)}


def test_a_slow_request_is_logged_once_while_it_runs_with_what_it_is_at(slow_redis, name):
    service, proxy = slow_redis(request_slowlog_timeout="200", slowlog='"%s"' % "/tmp/unused")
    log = os.path.join(service.state, "log/slow.log")
    service.configure(redis__url=f'"{proxy.url}"', slowlog=f'"{log}"', request_slowlog_timeout="200")
    service.renew()
    article = name("slow")
    proxy.set(stalled=True)
    asked = Asked(lambda: service.public().track(article, 10, userId=name("u")))

    def lines():
        with contextlib.suppress(FileNotFoundError), open(log, encoding="utf-8") as file:
            return [fields(line) for line in file if "POST" in line]
        return []

    wait_until(lines, "the line in the slow log")
    assert asked.reply is None  # it still runs
    with Connection(status_socket(service)) as direct:
        process = json.loads(direct.ask(uri="/status?json&full")[1])["processes"]
    assert any(each["request method"] == "POST" and each["request uri"] == "/api/track" and each["request duration"] >= 200_000 for each in process)
    proxy.set()
    assert asked.wait().status == 200
    service.public().track(article, 10, userId=name("u"))
    line, *others = lines()
    assert line["request"] not in [each["request"] for each in others]
    assert line["event"] == "slow_request_detected" and line["route"] == "POST /api/track" and line["stage"] == "redis track"
    assert float(line["elapsed_ms"]) >= 200 and line["round_trips"] == "1" and float(line["redis_ms"]) == 0
    assert re.fullmatch(REQUEST_ID, line["request"]) and int(line["pid"]) in service.workers()
    assert service.status()["slow requests"] >= 1


def open_files(pid):
    """Paths; of descriptors that are closed meanwhile nothing."""
    paths = set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            paths.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    return paths


def test_usr1_opens_the_logs_anew(instance):
    service = instance("--no-limits", **PATIENT)
    log = os.path.join(service.state, "log/access.log")
    service.configure(access__log=f'"{log}"', access__format="'%m %r%Q%q %s'")
    service.renew()
    service.internal().get("/api/hot?limit=1")
    wait_until(lambda: os.path.exists(log) and "/api/hot" in open(log, encoding="utf-8").read(), "a line")
    os.rename(log, log + ".1")
    service.signal("freshetd", signal.SIGUSR1)
    wait_until(lambda: not any(log + ".1" in open_files(pid) for pid in service.workers()), "every worker to let go of the old file")
    service.internal().get("/api/hot?limit=2")
    wait_until(lambda: "GET /api/hot?limit=2 200" in open(log, encoding="utf-8").read().splitlines(), "a line in the new file")
    assert "limit=2" not in open(log + ".1", encoding="utf-8").read()


# --- the budget of a request


def test_a_request_that_used_up_its_budget_is_answered_and_harms_nobody(slow_redis, name):
    service, proxy = slow_redis(gateway__request_budget='"1500ms"', redis__timeout='"1400ms"')
    # The budget is above redis.timeout, or the configuration would be refused; so it is the round trips of one request that add up: a
    # list is asked for, then built from the ranks.
    article = name("late")
    service.put(article)
    client = service.internal()
    assert client.track(article, 10, userId=name("u")).status == 200
    proxy.set(delay_s=(0.8, 0.8))
    began = time.monotonic()
    reply = client.get(f"/api/hot?tag={name('t')}")
    took = time.monotonic() - began
    proxy.set()
    assert_problem(reply, 503)
    assert int(reply.headers["Retry-After"]) >= 1
    assert took < 5
    # A worker shows its counters twice a second, or when it has something else to do.
    status = wait_until(lambda: (now := service.status())["over budget"] == 1 and now, "the count")
    assert status["refused"]["deadline"] == 1
    wait_until(lambda: service.status()["late"] == 0, "the late request's end")
    # The connection and the worker serve on, each its own reply.
    for _ in range(20):
        assert client.get(f"/api/articles/{article}/stats").json()["pv"] == 1


# --- the access log


def test_a_line_of_the_access_log_says_what_was_asked_and_answered(instance, name):
    service = instance("--no-limits", **PATIENT)
    log = os.path.join(service.state, "log/access.log")
    letters = ["%%", "%C", "%{milli}d", "%{HTTP_USER_AGENT}e", "%f", "%l", "%m", "%{kilo}M", "%n", "%{Content-Type}o", "%p", "%P", "%Q%q", "%r", "%R", "%s",
               "%{%Y}t", "%T", "%u", "%{redis_ms}x", "%{round_trips}x", "%{route}x", "%{request_id}x", "%{zone}x"]
    service.configure(access__log=f'"{log}"', access__format="'" + "|".join(letters) + "'")
    service.renew()
    with Connection(service.socket_path) as direct:
        body = json.dumps({"articleId": name("a"), "userId": name("u"), "dwellMs": 5}).encode()
        code, answered = direct.ask(method="POST", uri='/api/track?x="1"', body=body, REMOTE_ADDR="203.0.113.77", HTTP_USER_AGENT="a\nb\x7f|".replace("|", ""))
    assert code == 200, answered
    line = wait_until(lambda: os.path.exists(log) and [each for each in open(log, encoding="utf-8").read().splitlines() if "|POST|" in each], "the line")[0]
    got = dict(zip(letters, line.split("|")))
    assert len(line.split("|")) == len(letters)
    assert got["%%"] == "%" and got["%C"] == got["%f"] == got["%u"] == "-"
    assert got["%m"] == "POST" and got["%r"] == "/api/track" and got["%Q%q"] == "?x=\\x221\\x22" and got["%s"] == "200"
    assert got["%R"] == "203.0.113.0" and got["%{HTTP_USER_AGENT}e"] == "a\\x0Ab\\x7F"
    assert got["%l"] == str(len(body)) and got["%n"] == "freshet" and got["%{Content-Type}o"] == "application/json"
    assert int(got["%p"]) in service.workers() and int(got["%P"]) == service.pid("freshetd")
    assert got["%{route}x"] == "POST /api/track" and got["%{zone}x"] == "internal" and got["%{request_id}x"] == "e2e"
    assert got["%{round_trips}x"] == "1" and 0 < float(got["%{redis_ms}x"]) <= float(got["%{milli}d"]) < 60_000
    assert got["%{%Y}t"] == time.strftime("%Y") and int(got["%{kilo}M"]) > 1024
    time.strptime(got["%T"], "%d/%b/%Y:%H:%M:%S %z")


@pytest.mark.parametrize("wrong", ["%y", "%{nonsense}d", "%{}e", "%e", "%{x", "%", "%{HTTP_COOKIE}e", "%{none}x", "%{a}m"])
def test_a_format_with_an_unknown_letter_is_refused_at_the_check(service, tmp_path, wrong):
    path = tmp_path / "freshet.toml"
    path.write_text(f"access.format = '{wrong}'\n", encoding="utf-8")
    done = subprocess.run([os.path.join(BUILD, "fcgi/freshetd"), "-t", "-y", str(path)], capture_output=True, text=True, check=False, timeout=80)
    assert done.returncode != 0 and "access.format" in done.stdout + done.stderr
