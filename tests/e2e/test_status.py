"""For operators: the status page in PHP-FPM's formats, metrics, the slow log, the access log, and the request budget."""

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
from service import BUILD, LONG_TIMEOUTS, REQUEST_ID, ROOT, Instance, partition_tags, wait_until

with open(os.path.join(os.path.dirname(__file__), "php_fpm_status.json"), encoding="utf-8") as golden:
    FPM = json.load(golden)


@pytest.fixture(scope="module")
def service():
    started = Instance("--no-limits", request_slowlog_timeout="100000", **LONG_TIMEOUTS)
    try:
        started.start()
        yield started
    finally:
        started.stop()


def status_socket(service):
    return os.path.join(service.state, "run/status.sock")


def status_page(service, query=""):
    with Connection(status_socket(service)) as direct:
        code, body = direct.request(uri="/status" + query)
    assert code == 200, body
    return body.decode()


def assert_begins_with(keys, expected):
    """PHP-FPM's keys come first and in its order, followed by ours."""
    assert list(keys)[:len(expected)] == list(expected)


# --- PHP-FPM's formats


def test_the_json_status_begins_with_php_fpms_keys_and_types(service):
    for query, processes in (("?json", False), ("?json&full", True)):
        status = json.loads(status_page(service, query))
        assert_begins_with(status, FPM["json"])
        types = {"string": str, "number": (int, float)}
        assert all(isinstance(status[key], types[type_name]) for key, type_name in FPM["json"].items()), status
        assert ("processes" in status) == processes
        for process in status.get("processes", []):
            assert_begins_with(process, FPM["json_process"])
            assert all(isinstance(process[key], types[type_name]) for key, type_name in FPM["json_process"].items()), process


def test_the_text_status_begins_with_php_fpms_keys(service):
    pool, *workers = status_page(service, "?full").split("\n************************\n")
    assert_begins_with([line.split(":")[0] for line in pool.splitlines()], FPM["text"])
    assert len(workers) == len(service.workers())
    for worker in workers:
        assert_begins_with([line.split(":")[0] for line in worker.splitlines()], FPM["text_process"])
    start = re.search(r"^start time: +(.*)$", pool, re.M)[1]
    assert abs(time.mktime(time.strptime(start, "%d/%b/%Y:%H:%M:%S +0000")) - time.timezone - service.status()["start time"]) < 1


def test_the_xml_status_begins_with_php_fpms_elements(service):
    root = ElementTree.fromstring(status_page(service, "?xml&full"))
    assert_begins_with([element.tag for element in root], FPM["xml"])
    for process in root.find("processes"):
        assert_begins_with([element.tag for element in process], FPM["xml_process"])


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
    parser.feed(status_page(service, "?html&full"))
    pool, workers = parser.tables
    assert_begins_with(pool, FPM["html"])
    assert_begins_with(workers, FPM["html_process"])


def test_the_openmetrics_status_matches_php_fpm(service):
    text = status_page(service, "?openmetrics")
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    assert types == FPM["openmetrics"]
    assert set(re.findall(r"^(phpfpm_\w+) [0-9.]+$", text, re.M)) == set(types)
    assert text.endswith("# EOF\n")


def test_the_status_counts_processes_and_requests(service, name):
    before = json.loads(status_page(service, "?json"))
    internal = service.internal()
    for _ in range(5):
        assert internal.get("/api/hot").status == 200
    assert internal.put(f"/api/items/{name()}", {"title": "x", "published_at": 1}).status == 200
    after = wait_until(lambda: (now := json.loads(status_page(service, "?json&full")))["requests"] >= before["requests"] + 6 and now, "six requests")
    assert after["total processes"] == len(service.workers()) == after["idle processes"] + after["active processes"]
    assert sum(process["requests"] for process in after["processes"]) == after["requests"]
    assert after["memory peak"] > 1 << 20 and all(process["last request memory"] > 1 << 20 for process in after["processes"])
    last = max(after["processes"], key=lambda process: process["content length"])
    assert last["request method"] == "PUT" and last["request uri"].startswith("/api/items/") and last["request duration"] > 0
    assert all("?" not in process["request uri"] for process in after["processes"])

    def lists(status):
        return status["hot list hits"] + status["hot list misses"]
    # Workers publish these counters twice a second.
    wait_until(lambda: lists(json.loads(status_page(service, "?json"))) >= lists(before) + 5, "the lists to be counted")


# --- the status process


def stop_processes(pids):
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


def test_the_history_survives_a_reload_and_is_served_while_every_worker_is_stopped(own_service, name):
    def history():
        return own_service.internal().get("/status?json&history").json()["history"]

    def has_counted():
        own_service.public().track(name("a"), 0, userId="u")
        return any(history()["requests"][1:])

    assert "history" not in own_service.internal().get("/status?json").json()
    wait_until(has_counted, "requests a second")
    before, status_process, old_workers = history(), own_service.status_process(), set(own_service.workers())
    assert all(len(column) == len(before["ms ago"]) for column in before.values())
    own_service.reload()
    wait_until(lambda: own_service.status_process() not in (status_process, None), "a new status process")
    wait_until(lambda: not old_workers & set(own_service.workers()), "the old workers to exit")
    with stop_processes(own_service.workers()):
        after = wait_until(lambda: len(history()["ms ago"]) > len(before["ms ago"]) + 2 and history(), "more history")
    assert after["requests"][1:len(before["requests"])] == before["requests"][1:]
    assert after["ms ago"] == sorted(after["ms ago"], reverse=True) and after["ms ago"][0] > before["ms ago"][0]


def test_status_and_metrics_are_served_while_every_worker_is_stopped(service):
    client = service.internal()
    with stop_processes(service.workers()):
        for path in ("/status?json", "/metrics", "/health/live", "/health/ready"):
            assert client.get(path).status == 200, path
        assert client.get("/status?json").json()["total processes"] == len(service.workers())
        with Connection(status_socket(service)) as direct:
            assert direct.request(uri="/ping") == (200, b"pong")


def test_the_status_process_has_no_other_routes_and_no_public_ones(service):
    with Connection(status_socket(service)) as direct:
        assert direct.request(uri="/api/hot")[0] == 404
        assert direct.request(uri="/status", zone="public")[0] == 404
        assert direct.request(uri="/status", method="POST")[0] == 405
        assert direct.request(uri="/status")[0] == 200


def test_workers_serve_status_and_metrics_too(service):
    with Connection(service.socket_path) as direct:
        assert direct.request(uri="/status?json")[0] == 200
        code, body = direct.request(uri="/metrics")
    assert code == 200 and body.endswith(b"# EOF\n")


# --- metrics


def metrics(service):
    reply = service.internal().get("/metrics")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    return reply.body.decode()


def value(text, sample):
    found = re.search("^" + re.escape(sample) + r" (\S+)$", text, re.M)
    assert found, f"no sample {sample}"
    return float(found[1])


def prometheus_text(text):
    """Converts to Prometheus's older text format, which promtool reads: there, a counter's family has the name of its sample."""
    suffix = {"counter": "_total", "info": "_info"}
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))

    def renamed(match):
        kind, family, rest = match.groups()
        return f"# {kind} {family}{suffix.get(types[family], '')} {'gauge' if rest == 'info' else rest}"

    return re.sub(r"^# (TYPE|HELP) (\S+) (.*)$", renamed, text, flags=re.M)


def promtool(*arguments, **options):
    tool = shutil.which("promtool") or os.environ.get("FRESHET_PROMTOOL")
    if not tool:
        pytest.skip("promtool is not installed (package prometheus)")
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False, timeout=240, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_promtool_accepts_the_metrics(service):
    assert promtool("check", "metrics", input=prometheus_text(metrics(service))).strip() == ""


def test_the_metrics_are_openmetrics(service):
    parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason="python3-prometheus-client is not installed")
    families = {family.name: family for family in parser.text_string_to_metric_families(metrics(service))}
    assert families["freshet_requests"].type == "counter"
    assert families["freshet_request_duration_seconds"].type == "histogram"
    assert all(family.documentation for family in families.values())


def test_requests_are_counted_and_timed_by_route(service):
    route = 'route="GET /api/hot"'
    service.internal().get("/api/hot")  # a route has a duration only after its first request
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


def test_values_that_only_redis_has_are_sampled(service, name):
    service.put(name())
    assert service.internal().track(name("sampled"), 100, userId=name("u")).status == 200
    size = service.redis("ZCARD", "hot:rank")
    wait_until(lambda: 'freshet_hot_members{key="hot:rank"}' in metrics(service), "the first sample")
    wait_until(lambda: value(metrics(service), 'freshet_hot_members{key="hot:rank"}') >= size, "the sample", 30)
    assert abs(value(metrics(service), "freshet_store_sample_time_seconds") - time.time()) < 30


def test_the_stream_fill_ratio_is_that_of_the_fullest_partition(instance, name):
    service = instance(recorder__enabled="false", stream__max_len=1600)
    for _ in range(8):
        service.put(name())
    streams = [f"recorder:stream:{{{tag}}}" for tag in partition_tags()] if service.masters else ["recorder:stream"]
    lengths = [service.redis_command("XLEN", each) for each in streams]
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
    wait_until(lambda: value(metrics(own_service), "freshet_pool_respawns_total") >= 1, "the respawns")
    assert value(metrics(own_service), sample) >= before


# --- shipped files for Prometheus

ALERTS = os.path.join(ROOT, "nginx/freshet-alerts.yml")


def shipped_expressions():
    with open(os.path.join(ROOT, "nginx/freshet-dashboard.json"), encoding="utf-8") as file:
        dashboard = json.load(file)
    with open(ALERTS, encoding="utf-8") as file:
        rules = re.findall(r"^ +expr: (.*)$", file.read(), re.M)
    return rules, [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_alerts_and_dashboard_use_existing_metrics(service):
    text = metrics(service)
    # Names of samples, and of gauges that may have none: the age of the model exists only if there is a model.
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


# --- a slow Redis


@pytest.fixture
def slow_redis():
    """slow_redis(directive=value…): an instance behind a proxy to Redis, and the proxy. Its timeouts exceed the delays."""
    with contextlib.ExitStack() as stack:
        def start(**directives):
            service = Instance("--no-limits", **({"redis__timeout": '"20s"', "gateway__request_budget": '"30s"', "gateway__bulk_budget": '"30s"',
                                                  "request_terminate_timeout": '"60s"', "pm__max_children": "1"} | directives))
            proxy = stack.enter_context(Proxy(service.redis_socket()))
            service.configure(redis__url=f'"{proxy.url}"')
            stack.callback(service.stop)
            stack.callback(proxy.set)
            return service.start(), proxy

        yield start


class BackgroundRequest:
    """A request sent in a thread."""

    def __init__(self, send):
        self._send, self.reply = send, None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        self.reply = self._send()

    def wait(self):
        self._thread.join(60)
        assert self.reply is not None
        return self.reply


def fields(line):
    return {name: quoted or bare for name, quoted, bare in re.findall(r'(\w+)=(?:"([^"]*)"|(\S*))', line)}


def test_a_slow_request_is_logged_once_while_it_runs_with_its_stage(slow_redis, name):
    service, proxy = slow_redis(request_slowlog_timeout="200", slowlog='"%s"' % "/tmp/unused")
    log = os.path.join(service.state, "log/slow.log")
    service.configure(redis__url=f'"{proxy.url}"', slowlog=f'"{log}"', request_slowlog_timeout="200")
    service.reload_and_drain()
    article = name("slow")
    proxy.set(stalled=True)
    request = BackgroundRequest(lambda: service.public().track(article, 10, userId=name("u")))

    def lines():
        with contextlib.suppress(FileNotFoundError), open(log, encoding="utf-8") as file:
            return [fields(line) for line in file if "POST" in line]
        return []

    wait_until(lines, "the line in the slow log")
    assert request.reply is None  # the request is still running
    with Connection(status_socket(service)) as direct:
        process = json.loads(direct.request(uri="/status?json&full")[1])["processes"]
    assert any(each["request method"] == "POST" and each["request uri"] == "/api/track" and each["request duration"] >= 200_000 for each in process)
    proxy.set()
    assert request.wait().status == 200
    service.public().track(article, 10, userId=name("u"))
    line, *others = lines()
    assert line["request"] not in [each["request"] for each in others]
    assert line["event"] == "slow_request_detected" and line["route"] == "POST /api/track" and line["stage"] == "redis track"
    assert float(line["elapsed_ms"]) >= 200 and line["round_trips"] == "1" and float(line["redis_ms"]) == 0
    assert re.fullmatch(REQUEST_ID, line["request"]) and int(line["pid"]) in service.workers()
    assert service.status()["slow requests"] >= 1


def open_files(pid):
    """Paths of open files. Descriptors that are closed meanwhile are skipped."""
    paths = set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            paths.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    return paths


def test_usr1_reopens_the_logs(instance):
    service = instance("--no-limits", **LONG_TIMEOUTS)
    log = os.path.join(service.state, "log/access.log")
    service.configure(access__log=f'"{log}"', access__format="'%m %r%Q%q %s'")
    service.reload_and_drain()
    service.internal().get("/api/hot?limit=1")
    wait_until(lambda: os.path.exists(log) and "/api/hot" in open(log, encoding="utf-8").read(), "a line")
    os.rename(log, log + ".1")
    service.signal("freshetd", signal.SIGUSR1)
    wait_until(lambda: not any(log + ".1" in open_files(pid) for pid in service.workers()), "every worker to close the old file")
    service.internal().get("/api/hot?limit=2")
    wait_until(lambda: "GET /api/hot?limit=2 200" in open(log, encoding="utf-8").read().splitlines(), "a line in the new file")
    assert "limit=2" not in open(log + ".1", encoding="utf-8").read()


# --- the request budget


def test_a_request_over_its_budget_is_refused_and_affects_no_other(slow_redis, name):
    service, proxy = slow_redis(gateway__request_budget='"1500ms"', redis__timeout='"1400ms"')
    # A valid budget is longer than redis.timeout, so this request exceeds it with two round trips: one looks for the
    # cached list, the next builds it from the ranks.
    article = name("late")
    service.put(article)
    client = service.internal()
    assert client.track(article, 10, userId=name("u")).status == 200
    proxy.set(delay_s=(0.8, 0.8))
    began = time.monotonic()
    reply = client.get(f"/api/hot?tag={name('t')}")
    duration_s = time.monotonic() - began
    proxy.set()
    assert_problem(reply, 503)
    assert int(reply.headers["Retry-After"]) >= 1
    assert duration_s < 5
    # Workers publish counters twice a second, or with their next request.
    status = wait_until(lambda: (now := service.status())["over budget"] == 1 and now, "the request to be counted")
    assert status["refused"]["deadline"] == 1
    wait_until(lambda: service.status()["late"] == 0, "the detached request to finish")
    # The connection and the worker remain usable, without mixing up replies.
    for _ in range(20):
        assert client.get(f"/api/articles/{article}/stats").json()["pv"] == 1


# --- the access log


def test_the_access_log_describes_request_and_reply(instance, name):
    service = instance("--no-limits", **LONG_TIMEOUTS)
    log = os.path.join(service.state, "log/access.log")
    letters = ["%%", "%C", "%{milli}d", "%{HTTP_USER_AGENT}e", "%f", "%l", "%m", "%{kilo}M", "%n", "%{Content-Type}o", "%p", "%P", "%Q%q", "%r", "%R", "%s",
               "%{%Y}t", "%T", "%u", "%{redis_ms}x", "%{round_trips}x", "%{route}x", "%{request_id}x", "%{zone}x"]
    service.configure(access__log=f'"{log}"', access__format="'" + "|".join(letters) + "'")
    service.reload_and_drain()
    with Connection(service.socket_path) as direct:
        body = json.dumps({"articleId": name("a"), "userId": name("u"), "dwellMs": 5}).encode()
        code, reply_body = direct.request(method="POST", uri='/api/track?x="1"', body=body, REMOTE_ADDR="203.0.113.77", HTTP_USER_AGENT="a\nb\x7f|".replace("|", ""))
    assert code == 200, reply_body
    line = wait_until(lambda: os.path.exists(log) and [each for each in open(log, encoding="utf-8").read().splitlines() if "|POST|" in each], "the line")[0]
    logged = dict(zip(letters, line.split("|")))
    assert len(line.split("|")) == len(letters)
    assert logged["%%"] == "%" and logged["%C"] == logged["%f"] == logged["%u"] == "-"
    assert logged["%m"] == "POST" and logged["%r"] == "/api/track" and logged["%Q%q"] == "?x=\\x221\\x22" and logged["%s"] == "200"
    assert logged["%R"] == "203.0.113.0" and logged["%{HTTP_USER_AGENT}e"] == "a\\x0Ab\\x7F"
    assert logged["%l"] == str(len(body)) and logged["%n"] == "freshet" and logged["%{Content-Type}o"] == "application/json"
    assert int(logged["%p"]) in service.workers() and int(logged["%P"]) == service.pid("freshetd")
    assert logged["%{route}x"] == "POST /api/track" and logged["%{zone}x"] == "internal" and logged["%{request_id}x"] == "e2e"
    assert logged["%{round_trips}x"] == "1" and 0 < float(logged["%{redis_ms}x"]) <= float(logged["%{milli}d"]) < 60_000
    assert logged["%{%Y}t"] == time.strftime("%Y") and int(logged["%{kilo}M"]) > 1024
    time.strptime(logged["%T"], "%d/%b/%Y:%H:%M:%S %z")


@pytest.mark.parametrize("wrong", ["%y", "%{nonsense}d", "%{}e", "%e", "%{x", "%", "%{HTTP_COOKIE}e", "%{none}x", "%{a}m"])
def test_an_access_log_format_with_an_unknown_letter_is_refused(service, tmp_path, wrong):
    path = tmp_path / "freshet.toml"
    path.write_text(f"access.format = '{wrong}'\n", encoding="utf-8")
    done = subprocess.run([os.path.join(BUILD, "fcgi/freshetd"), "-t", "-y", str(path)], capture_output=True, text=True, check=False, timeout=80)
    assert done.returncode != 0 and "access.format" in done.stdout + done.stderr
