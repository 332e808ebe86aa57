"""freshetctl doctor against a running instance: no errors on a healthy one, and a fix for each fault."""

import json
import os
import re
import signal
import subprocess

import pytest

from service import CTL, LONG_TIMEOUTS, children, comm, wait_until



# Commands that doctor tests the account's rights with, and that are denied. A healthy instance's ACL LOG has no others.
PROBED_COMMANDS = {"freshet-doctor:none-of-ours", "eval", "client|kill", "acl|deluser", "script|kill", "config|set", "keys", "replicaof", "swapdb",
                   "flushdb", "flushall"}


@pytest.fixture
def site(instance):
    started = instance(items__unknown='"count"', **LONG_TIMEOUTS)
    started.expects_acl_denials = True
    wait_until(lambda: started.status()["index ready"] == len(started.workers()), "all workers to open the index")
    return started


def doctor(site, *options):
    """(exit status, {check: [finding…]})."""
    done = subprocess.run([CTL, "doctor", "--json", "--state", site.state, *options], capture_output=True, text=True, check=False, timeout=240)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    findings = {}
    for each in report["findings"]:
        findings.setdefault(each["check"], []).append(each)
    assert report["errors"] == sum(each["grade"] == "error" for each in report["findings"])
    assert all(each.get("cure") for each in report["findings"] if each["grade"] in ("warning", "error"))
    return done.returncode, findings


def grade(findings, check):
    return {each["grade"] for each in findings[check]}


def warnings(findings):
    return {check for check, found in findings.items() for each in found if each["grade"] == "warning"}


def skip_without_nginx(findings):
    """Skips the test if there is no nginx that can print its configuration."""
    if "nginx" in findings:
        pytest.skip(findings["nginx"][0]["what"])


def edit(site, name, pattern, replacement):
    """Edits a file of the instance's nginx, which doctor reads on every run. Returns a function that undoes the edit."""
    path = os.path.join(site.state, "etc/nginx", name)
    with open(path, encoding="utf-8") as file:
        before = file.read()
    after = re.sub(pattern, replacement, before, flags=re.MULTILINE)
    assert after != before, (name, pattern)
    with open(path, "w", encoding="utf-8") as file:
        file.write(after)

    def undo():
        with open(path, "w", encoding="utf-8") as file:
            file.write(before)
    return undo


def test_a_healthy_site_has_no_errors(site):
    status, findings = doctor(site)
    errors = [each for each in sum(findings.values(), []) if each["grade"] == "error"]
    assert (status, errors) == (0, [])
    for check in ("redis", "redis.version", "redis.persistence", "redis.eviction", "redis.clock", "recorder.stream", "recorder.alive",
                  "redis.account", "files.secret", "files.folder", "files.database", "socket", "status.socket"):
        assert grade(findings, check) == {"ok"}, findings[check]
    assert grade(findings, "config.dwell") == {"ok"} and "hot.dwell_prior = 30000" in findings["config.dwell"][0]["what"]
    assert grade(findings, "files.backup") == {"skipped"}
    # A trial instance trusts its visitors' claims. The other warnings depend on the machine.
    assert warnings(findings) - {"redis.latency", "files.space", "config.backlog"} == {"config"}
    assert {command for _, command, user in site.acl_denials() if user == "freshet"} <= PROBED_COMMANDS
    if "nginx.upstream" in findings:
        for check in ("upstream", "body_size", "connections", "site", "keepalive", "queue", "failures", "networks"):
            assert grade(findings, f"nginx.{check}") == {"ok"}, findings[f"nginx.{check}"]
    else:
        assert grade(findings, "nginx") == {"skipped"}
    done = subprocess.run([CTL, "doctor", "--state", site.state, "--nginx", ""], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0 and re.search(r"ok       redis\.version: (Redis|Valkey) \d", done.stdout)
    assert "skipped  nginx: disabled by --nginx ''" in done.stdout and done.stdout.splitlines()[-1].startswith("0 errors, ")


def test_a_relative_state_directory_works_like_an_absolute_one(site):
    folder, name = os.path.split(site.state)
    checks = []
    for state in (site.state, name):
        done = subprocess.run([CTL, "doctor", "--json", "--state", state], cwd=folder, capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        checks.append({(each["grade"], each["check"]) for each in json.loads(done.stdout)["findings"]} - {("warning", "redis.latency")})
    assert checks[0] == checks[1]
    output = subprocess.run([CTL, "status", "--state", name], cwd=folder, capture_output=True, text=True, check=True, timeout=240).stdout
    assert re.search(r"^start since: +\d+ (s|min \d+ s)$", output, re.MULTILINE), output
    assert re.search(r"^memory peak: +\d+\.\d MiB$", output, re.MULTILINE), output
    assert re.search(r"^kernel listen queue: +\d+ of \d+$", output, re.MULTILINE), output
    raw = json.loads(subprocess.run([CTL, "status", "--json", "--state", name], cwd=folder, capture_output=True, check=True, timeout=240).stdout)
    assert isinstance(raw["start since"], int) and raw["memory peak"] > 1 << 20


def test_faults_are_found_with_their_fixes(site):
    site.redis("CONFIG", "SET", "appendonly", "no")
    site.redis("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    os.chmod(os.path.join(site.state, "etc/salt"), 0o644)
    os.chmod(site.socket_path, 0o666)
    status, findings = doctor(site)
    assert status == 1
    assert grade(findings, "redis.persistence") == {"error"} and "appendonly yes" in findings["redis.persistence"][0]["cure"]
    assert grade(findings, "redis.eviction") == {"error"}
    [open_to_all] = [each for each in findings["files.secret"] if each["grade"] == "error"]
    assert "chmod 0600" in open_to_all["cure"]
    assert grade(findings, "socket") == {"error"}


def test_an_unreachable_redis_and_an_invalid_file_are_errors(site):
    site.kill_redis()
    status, findings = doctor(site)
    assert status == 1 and grade(findings, "redis") == {"error"} and "start the service of Redis or Valkey" in findings["redis"][0]["cure"]
    assert grade(findings, "redis.settings") == {"skipped"}
    assert grade(findings, "files.folder") == {"ok"}
    with open("/proc/sys/net/core/somaxconn", encoding="ascii") as file:
        if int(file.read()) < 65535:
            site.configure(listen__backlog="65535")
            assert grade(doctor(site)[1], "config.backlog") == {"warning"}
    site.configure(listen__backlog='"many"')
    status, findings = doctor(site)
    assert status == 1 and grade(findings, "config") == {"error"} and "test.toml" in findings["config"][0]["what"]


def test_missing_and_excessive_rights_of_the_account_are_found(site):
    site.redis("ACL", "SETUSER", "freshet", "-zadd")
    site.redis("ACL", "SETUSER", "freshet", "+flushall")
    status, findings = doctor(site)
    [missing] = [each for each in findings["redis.account"] if each["grade"] == "error"]
    assert status == 1 and missing["what"] == "the account freshet lacks rights: ZADD" and "redis-acl.conf" in missing["cure"]
    [excessive] = [each for each in findings["redis.account"] if each["grade"] == "warning"]
    assert excessive["what"] == "the account freshet has rights that the service does not need: FLUSHALL"
    site.redis("ACL", "SETUSER", "freshet", "-flushall")
    site.redis("ACL", "SETUSER", "freshet", "+zadd")
    status, findings = doctor(site)
    assert status == 0 and grade(findings, "redis.account") == {"ok"}


def test_an_unresponsive_status_socket_is_found(site):
    [status_process] = [pid for pid in children(site.pid("freshetd")) if comm(pid) == "freshetd-status"]
    os.kill(status_process, signal.SIGSTOP)
    try:
        status, findings = doctor(site)
    finally:
        os.kill(status_process, signal.SIGCONT)
    assert status == 1 and grade(findings, "status.socket") == {"error"} and "does not answer" in findings["status.socket"][0]["what"]
    assert grade(doctor(site)[1], "status.socket") == {"ok"}
    site.configure(pm__status_listen='"/tmp/freshet-no-listener.sock"')
    status, findings = doctor(site)
    assert status == 1 and grade(findings, "status.socket") == {"error"} and "no listener" in findings["status.socket"][0]["what"]
    site.configure(pm__status_listen='""')
    status, findings = doctor(site)
    assert status == 0 and grade(findings, "status.socket") == {"warning"}


def test_backups_are_checked_in_the_given_directory(site):
    folder = os.path.join(site.state, "backups")
    os.mkdir(folder, 0o700)
    status, findings = doctor(site, "--backups", folder)
    assert status == 0 and grade(findings, "files.backup") == {"warning"} and "no complete backup" in findings["files.backup"][0]["what"]
    assert f"freshetctl backup {folder}/" in findings["files.backup"][0]["cure"]
    backup = os.path.join(folder, "tonight")
    subprocess.run([CTL, "backup", backup, "--state", site.state], capture_output=True, check=True, timeout=480)
    status, findings = doctor(site, "--backups", folder)
    assert status == 0 and grade(findings, "files.backup") == {"ok"} and backup in findings["files.backup"][0]["what"]
    os.truncate(max((os.path.join(backup, name) for name in os.listdir(backup) if name.startswith("freshet.db")), key=os.path.getsize), 1)
    assert grade(doctor(site, "--backups", folder)[1], "files.backup") == {"warning"}


@pytest.mark.parametrize("check, name, pattern, replacement, expected", [
    ("site", "freshet-params.conf", r"^fastcgi_param FRESHET_SITE .*\n", "", "does not set FRESHET_SITE"),
    ("site", "freshet-params.conf", r"\$freshet_host", "$http_host", "empty over HTTP/3"),
    ("keepalive", "freshet-http.conf", r"keepalive_time \w+", "keepalive_time 1h", "keeps a connection for up to 3601 s"),
    ("queue", "freshet-internal.conf", r"limit_conn freshet_internal 192", "limit_conn freshet_internal 5000", "admits 5000 concurrent requests"),
    ("queue", "freshet-locations.conf", r"^ *limit_conn freshet_bodies .*\n", "", "limit_conn freshet_bodies is not set"),
    ("queue", "freshet-internal.conf", r"^ *limit_conn freshet_internal .*\n", "", "limit_conn freshet_internal is not set"),
])
def test_harmful_nginx_settings_are_found(site, check, name, pattern, replacement, expected):
    findings = doctor(site)[1]
    skip_without_nginx(findings)
    assert grade(findings, f"nginx.{check}") == {"ok"}
    undo = edit(site, name, pattern, replacement)
    try:
        findings = doctor(site)[1]
    finally:
        undo()
    assert expected in findings[f"nginx.{check}"][0]["what"], findings[f"nginx.{check}"]
    assert grade(findings, f"nginx.{check}") == {"error" if "does not set" in expected else "warning"}
    assert all(grade(findings, other) == {"ok"} for other in findings if other.startswith("nginx.") and other != f"nginx.{check}")


def test_unverified_articles_are_named_with_a_fix(site):
    assert grade(doctor(site, "--nginx", "")[1], "items.unlisted") == {"ok"}
    for number in range(12):
        for network in range(1 + number % 5):
            assert site.public(source=f"127.{60 + network}.0.1").track(f"beacon-{number}", 1).json()["listed"] is False
    [found] = doctor(site, "--nginx", "")[1]["items.unlisted"]
    assert found["grade"] == "warning" and found["what"].startswith("12 unverified articles") and "PUT" in found["cure"] and '"list"' in found["cure"]
    ids = found["what"].rpartition(": ")[2].split(", ")
    assert len(ids) == 10 and set(ids[:2]) == {"beacon-4", "beacon-9"}
    site.put("beacon-4")
    [found] = doctor(site, "--nginx", "")[1]["items.unlisted"]
    assert "beacon-4" not in found["what"]


def test_articles_with_views_by_both_routes_are_a_warning(site, name):
    item, client = name("a"), site.internal()
    client.track(item, 0, userId="u")
    assert grade(doctor(site)[1], "views.from_track") == {"ok"}
    for number in range(3):
        client.view(item, f"f{number}")
    status, findings = doctor(site)
    [warning] = findings["views.from_track"]
    assert (status, warning["grade"]) == (0, "warning")
    assert warning["what"].startswith("3 views by POST /api/views") and "views.from_track = false" in warning["cure"]
