"""freshetctl for scripts: --json output and exit statuses."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from service import CTL, birth, wait_until
from test_backup import folder, invocation_of, start_freshetd, stop_freshetd  # noqa: F401


def json_report(service, *arguments, status=0):
    """The command's JSON report."""
    done = subprocess.run([CTL, *arguments, "--json", "--state", service.state], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
    (line,) = done.stdout.splitlines()
    return json.loads(line)


def write(path, *lines):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return str(path)


def commands():
    help_text = subprocess.run([CTL, "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  ([a-z-]+) ", help_text[help_text.index("Subcommands:"):], re.M)


def test_every_command_has_a_json_report():
    assert len(commands()) > 10
    for command in commands():
        assert "--json" in subprocess.run([CTL, command, "--help"], capture_output=True, text=True, check=True).stdout, command


FORMER_NAMES = {"fill": "push-recommendations", "purge": "revert-visitor", "regroup": "repartition", "visitors": "top-contributors"}


def test_former_names_of_commands_work_with_one_warning(service):
    assert set(FORMER_NAMES.values()) <= set(commands()) and not set(FORMER_NAMES) & set(commands())
    for former, name in FORMER_NAMES.items():
        texts = [subprocess.run([CTL, each, "--help"], capture_output=True, text=True, check=True).stdout for each in (former, name)]
        assert texts[0].replace(f"freshetctl {former}", f"freshetctl {name}").split() == texts[1].split(), former
    runs = [subprocess.run([CTL, each, "--json", "--state", service.state], capture_output=True, text=True, check=True, timeout=240)
            for each in ("visitors", "top-contributors")]
    assert runs[0].stderr == "freshetctl: visitors is now called top-contributors\n" and runs[1].stderr == ""
    assert runs[0].stdout == runs[1].stdout


@pytest.fixture(scope="module")
def filled(service, tmp_path_factory):
    path = tmp_path_factory.mktemp("tool") / "items.ndjson"
    write(path, *({"id": f"tool-{number}", "title": "A tool", "published_at": 1700000000} for number in range(3)))
    imported = json_report(service, "import", str(path))
    assert (imported["accepted"], imported["rejected"], imported["earlier"]) == (3, 0, 0) and imported["seconds"] > 0
    wait_until(lambda: service.status()["recorder items"] >= 3, "the items to be recorded")
    return service


def test_an_import_with_a_bad_line_succeeds_and_reports_it(filled, tmp_path):
    path = write(tmp_path / "items.ndjson", {"id": "tool-3", "title": "Good", "published_at": 1}, {"id": "", "title": "Bad"})
    report = json_report(filled, "import", path, status=1)
    assert (report["accepted"], report["rejected"]) == (1, 1)
    assert report["reasons"] == [{"code": "bad_id", "member": "id", "lines": 1, "first": 2}]
    assert subprocess.run([CTL, "import", path + "-none", "--json"], capture_output=True, check=False).returncode == 2


def run_import(service, *arguments, **options):
    return subprocess.run([CTL, "import", *arguments, "--state", service.state], capture_output=True, text=True, check=False, timeout=300, **options)


def test_an_import_names_each_rejected_line_as_put_does_and_sums_up_the_reasons(service, name, tmp_path):
    good, bad = name("good"), [name("bad") for _ in range(25)]
    lines = [{"id": good, "title": "Good", "published_at": "2026-03-06 12:00:00", "colour": "red"}]
    lines += [{"id": each, "title": "Bad", "published_at": "soon"} for each in bad] + [{"id": bad[0], "published_at": 1}]
    path = write(tmp_path / "items.ndjson", *lines)
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"title":"half an emoji \\ud83d","published_at":1}\n{broken\n')
    done = run_import(service, path, "-q")
    problem = service.internal().put(f"/api/items/{bad[0]}", {"title": "Bad", "published_at": "soon"}).json()
    assert done.returncode == 1
    assert done.stderr.splitlines() == [f"line {number}, item {item}: {problem['msg']}" for number, item in enumerate(bad, 2)] + [
        f"line 27, item {bad[0]}: title: is missing", "line 28: id: is missing", "line 29: invalid JSON at byte 1"]
    summary = done.stdout.splitlines()
    assert summary[0].startswith("imported 1 items in ") and summary[0].endswith(", rejected 28")
    assert summary[1:] == ["rejected 1 for bad_id of id, first line 28", "rejected 1 for bad_json, first line 29",
                           "rejected 1 for bad_string of title, first line 27", "rejected 25 for bad_time of published_at, first line 2",
                           "ignored the unknown member colour of 1 items"]
    assert service.internal().get(f"/api/items/{good}").json()["published_at"] == 1772798400


def test_an_import_reads_stdin(service, name, tmp_path):
    item = name("stdin")
    done = run_import(service, "-", input=json.dumps({"id": item, "title": "Piped", "published_at": 1}), cwd=tmp_path)
    assert done.returncode == 0 and "imported 1 items" in done.stdout, done
    assert service.internal().get(f"/api/items/{item}").json()["title"] == "Piped"
    assert os.listdir(tmp_path) == [], "no file of progress"
    refused = run_import(service, "-", "--resume", "notes", input="{}")
    assert refused.returncode == 2 and "--resume needs a file" in refused.stderr, refused


OTHER_FORMATS = {"CSV": "id,title,published_at\n" + "1,One,2026-01-01\n" * 30, "XML": '<?xml version="1.0"?>\n<rss>\n' + "<item/>\n" * 30 + "</rss>\n",
                 "a JSON array": "[\n" + ",\n".join('  {"id":"%d","title":"x",\n"published_at":1}' % number for number in range(15)) + "\n]\n"}


@pytest.mark.parametrize("file_format", list(OTHER_FORMATS))
def test_an_import_of_another_format_says_so_once(service, file_format):
    done = run_import(service, "-", "-q", input=OTHER_FORMATS[file_format])
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and lines[0] == f"This looks like {file_format}; expected one JSON object per line", done
    assert [line.split(":")[0] for line in lines[1:21]] == [f"line {number}" for number in range(1, 21)], done
    count = len(OTHER_FORMATS[file_format].splitlines())
    assert lines[21:] == [f"… and {count - 20} more lines that are not JSON objects"] and f"rejected {count} for bad_json, first line 1" in done.stdout, done


def test_counts_of_another_plugin_are_imported_once_and_bad_lines_named(filled, tmp_path):
    lines = [{"id": "tool-0", "pv": 900, "uv": 300}, {"id": "tool-9", "pv": 5, "first": "2019-05-01T00:00:00Z"}, {"id": "tool-8", "pv": 5},
             {"id": "tool-1", "pv": 5, "uv": 6}]
    path = write(tmp_path / "counts.ndjson", *lines)
    for _ in range(2):
        assert json_report(filled, "import-counters", path, status=1) == {"accepted": 2, "rejected": 2, "future_dates": 0}
        stats = filled.stats("tool-0")
        assert stats["pv"] == 900 and 290 < stats["uv"] < 310
    done = subprocess.run([CTL, "import-counters", path, "--state", filled.state], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "imported the counts of 2 articles, rejected 2\n")
    assert done.stderr.splitlines() == ["line 3, item tool-8: first: is missing, and Freshet does not know the article", "line 4, item tool-1: uv: is more than pv"]
    assert filled.stats("tool-9")["first_ts"] == 1556668800
    future = '{"id":"tool-7","pv":5,"first":"2099-01-01"}'
    piped = subprocess.run([CTL, "import-counters", "-", "--state", filled.state], input=future, capture_output=True, text=True, check=False)
    assert piped.stdout == "imported the counts of 1 articles, rejected 0\n1 dates (first) are in the future and count as now\n", piped
    table = subprocess.run([CTL, "import-counters", "-", "--state", filled.state], input="id,pv\n7,1\n", capture_output=True, text=True, check=False)
    assert (table.returncode, table.stderr.splitlines()[0]) == (1, "This looks like CSV; expected one JSON object per line"), table
    missing = subprocess.run([CTL, "import-counters", path + "-none", "--state", filled.state], capture_output=True, check=False)
    assert missing.returncode == 2
    filled.check()


def test_replay_reports_its_events(filled, tmp_path):
    log = write(tmp_path / "events.ndjson", *({"type": "VIEW", "at": 1700000000 + number, "item": "tool-1", "user": f"u{number}"} for number in range(4)))
    report = json_report(filled, "replay", log, "--speed", "max", "--shift-to-now")
    assert (report["events"], report["requests"], report["refused"], report["failed"], report["interrupted"]) == (4, 4, 0, 0, False)


def test_rebuilds_report_their_results(filled):
    ranked = json_report(filled, "rebuild-rank")
    assert ranked["half_life"] == 86400 and ranked["ranked"] >= 0
    wait_until(lambda: filled.redis("XLEN", "recorder:stream") == 0, "the recorder to catch up")
    indexed = json_report(filled, "reindex")
    assert indexed["indexed"] == indexed["items"] >= 3 and indexed["seconds"] > 0
    assert json_report(filled, "rebuild-redis", "--force")["items"] == indexed["items"]


def test_what_others_wrote_does_not_control_the_terminal(filled):
    """Titles stored before control characters were refused stay readable, and the tool escapes them."""
    filled.put("tool-old", published_at=1700000000)
    title = "\x1b[2Jold\nexcluded: forged\x9b"
    filled.redis("HSET", "item:{tool-old}", "title", title)
    wait_until(lambda: filled.internal().get("/api/items/tool-old").json()["title"] == title, "the stored title")
    done = subprocess.run([CTL, "explain", "someone", "--all", "--state", filled.state], capture_output=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.decode().splitlines() if line.startswith("tool-old "))
    assert row.endswith(r"\x1b[2Jold\nexcluded: forged\xc2\x9b")
    assert not any(byte < 0x20 and byte != 0x0A for byte in done.stdout)


def test_training_without_data_reports_that_no_model_was_made(filled):
    assert json_report(filled, "train").keys() == {"model", "why"}


def test_a_backup_reports_whether_it_is_complete(instance, folder):  # noqa: F811
    service = instance("--no-limits")
    service.put("kept")
    wait_until(lambda: service.status()["recorder items"] == 1, "the item to be recorded")
    backup = os.path.join(folder, "backup")
    made = json_report(service, "backup", backup)
    assert (made["items"], made["left_out"]) == (1, 0)
    assert json_report(service, "backup", backup, "--verify") == {"whole": True} | {key: made[key] for key in made if key != "left_out"}
    broken = os.path.join(folder, "broken")
    shutil.copytree(backup, broken)
    with open(os.path.join(broken, "redis.dump"), "ab") as file:
        file.write(b"x")
    report = json_report(service, "backup", broken, "--verify", status=1)
    assert not report["whole"] and "redis.dump" in report["why"]

    invocation = invocation_of(service)
    stop_freshetd(service)
    restored = json_report(service, "restore", backup, "--replace")
    assert (restored["items"], restored["indexed"], restored["erased"]) == (1, 1, 0)
    start_freshetd(service, invocation)
    assert service.internal().get("/api/items/kept").status == 200


def config_of(service):
    return os.path.join(service.state, "etc/freshet.toml")


def run_tool(*arguments, **environment):
    return subprocess.run([CTL, *arguments], capture_output=True, text=True, check=False, timeout=240, env=os.environ | environment)


def test_status_needs_no_http_server(service):
    text = run_tool("status", "--config", config_of(service))
    assert text.returncode == 0 and text.stdout.startswith("pool: ") and "kernel listen queue:" in text.stdout, text
    health = run_tool("status", "--health", "--config", config_of(service))
    assert health.returncode == 0 and health.stdout.startswith("ready, writes:true") and health.stdout.count("\n") == 1, health
    report = json.loads(run_tool("status", "--health", "--json", "--config", config_of(service)).stdout)
    assert report["ready"] is True and report["text"] == health.stdout.strip()
    with open(os.path.join(service.state, "run/internal.url"), encoding="utf-8") as file:
        assert run_tool("status", "--health", "--base", file.readline().strip()).stdout == health.stdout


def test_the_environment_configures_the_tool(service):
    sockets = {f"FRESHET_CONF_{name}": os.path.join(service.state, "run", path)
               for name, path in (("LISTEN_ADDRESS", "freshetd.sock"), ("PM_STATUS_LISTEN", "status.sock"))}
    assert run_tool("status", "--health", **sockets).returncode == 0
    unknown = run_tool("status", "--health", FRESHET_CONF_PM_STATUS_LISTENER="x", **sockets)
    assert unknown.returncode == 2 and "did you mean FRESHET_CONF_PM_STATUS_LISTEN?" in unknown.stderr


def test_the_health_check_fails_if_the_service_is_not_ready_or_does_not_answer(instance, tmp_path):
    site = instance(ready__require='["redis", "model"]')
    health = run_tool("status", "--health", "--config", config_of(site))
    assert health.returncode == 1 and health.stdout.startswith("not ready: missing: ") and "model" in health.stdout, health
    (tmp_path / "freshet.toml").write_text(f'listen.address = "{tmp_path}/f.sock"\npm.status_listen = "{tmp_path}/s.sock"\n')
    absent = run_tool("status", "--health", "--config", str(tmp_path / "freshet.toml"))
    assert absent.returncode == 2 and f"the service at {tmp_path}/s.sock does not answer: No such file" in absent.stderr, absent


class Schedule:
    """freshetctl schedule for an instance; its log lines."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([CTL, "schedule", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(iter(self.process.stderr.readline, "")))
        self.reader.start()

    def events(self, name):
        return [re.search(r'job=("[^"]+"|\S+)', line)[1].strip('"') for line in list(self.lines) if f"event={name} " in line]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=240)
        self.reader.join()
        return status


def test_the_schedule_runs_each_job_and_a_failing_one_stops_no_other(service):
    schedule = Schedule("--now", "--state", service.state, "train", "check", "push-recommendations", "--channel", "discover", "--channel", "no-such")
    try:
        wait_until(lambda: {"train", "check", "push-recommendations discover"} <= set(schedule.events("job_finished"))
                   and schedule.events("job_failed"), "the jobs to run", 240)
        assert schedule.events("job_failed") == ["push-recommendations no-such"]
        assert schedule.process.poll() is None
    finally:
        assert schedule.stop() == 0


def test_the_schedule_ends_its_jobs_and_itself_at_sigterm(service, tmp_path):
    slow = tmp_path / "freshet.toml"
    with open(config_of(service), encoding="utf-8") as file:
        slow.write_text(re.sub(r"(?m)^redis\.url.*$", "", file.read()) + f'\nredis.url = "unix://{tmp_path}/silent.sock"\n')
    with socket.socket(socket.AF_UNIX) as silent:  # a Redis that accepts connections and never answers
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen(16)
        schedule = Schedule("--now", "--config", str(slow), "check")
        try:
            wait_until(lambda: any("event=job_started" in line for line in schedule.lines), "the job to start", 240)
            pid = int(re.search(r"pid=(\d+)", next(line for line in schedule.lines if "event=job_started" in line))[1])
        finally:
            assert schedule.stop() == 0
        assert birth(pid) is None and schedule.events("job_failed") == ["check"], schedule.lines


def test_the_schedule_lists_its_jobs(service):
    jobs = json_report(service, "schedule")["jobs"]
    assert [job["job"] for job in jobs] == ["train", "tune", "check", "push-recommendations discover"]
    assert jobs[0]["due"] > 1.7e9  # train is due at once if there is no recent model
    tune, check, push = (time.localtime(job["due"]) for job in jobs[1:])
    assert (tune.tm_min % 60, tune.tm_sec) == (0, 0)
    assert (check.tm_hour, check.tm_min, check.tm_sec) == (5, 0, 0) and (push.tm_min % 10, push.tm_sec) == (0, 0)
    assert run_tool("schedule", "sleep").returncode == 2
