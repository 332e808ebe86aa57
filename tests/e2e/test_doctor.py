"""freshetctl doctor beside a running instance: no error where all is well, and the cure where something was broken."""

import json
import os
import re
import signal
import subprocess

import pytest

from service import CTL, PATIENT, children, comm, wait_until



# What the doctor asks whether the account may, which it may not. ACL LOG has no more than that of an instance.
ASKED = {"freshet-doctor:none-of-ours", "eval", "client|kill", "acl|deluser", "script|kill", "config|set", "keys", "replicaof", "swapdb",
         "flushdb", "flushall"}


@pytest.fixture
def site(instance):
    made = instance(items__unknown='"count"', **PATIENT)
    made.expects_refusals = True
    wait_until(lambda: made.status()["index ready"] == len(made.workers()), "the index to be seen")
    return made


def doctor(site, *options):
    """Its exit status and {check: [finding…]}."""
    done = subprocess.run([CTL, "doctor", "--json", "--state", site.state, *options], capture_output=True, text=True, check=False, timeout=240)
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    findings = {}
    for each in said["findings"]:
        findings.setdefault(each["check"], []).append(each)
    assert said["errors"] == sum(each["grade"] == "error" for each in said["findings"])
    assert all(each.get("cure") for each in said["findings"] if each["grade"] in ("warning", "error"))
    return done.returncode, findings


def grade(findings, check):
    return {each["grade"] for each in findings[check]}


def warnings(findings):
    return {check for check, found in findings.items() for each in found if each["grade"] == "warning"}


def nginx_only(findings):
    """Skips where there is no nginx that would print its configuration."""
    if "nginx" in findings:
        pytest.skip(findings["nginx"][0]["what"])


def edit(site, name, pattern, replacement):
    """In a file of the instance's nginx, which the doctor reads anew each time; returns what undoes it."""
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


def test_an_site_has_no_error(site):
    status, findings = doctor(site)
    errors = [each for each in sum(findings.values(), []) if each["grade"] == "error"]
    assert (status, errors) == (0, [])
    for check in ("redis", "redis.version", "redis.persistence", "redis.eviction", "redis.clock", "recorder.stream", "recorder.alive",
                  "redis.account", "files.secret", "files.folder", "files.database", "socket", "status.socket"):
        assert grade(findings, check) == {"ok"}, findings[check]
    assert grade(findings, "config.dwell") == {"ok"} and "hot.dwell_prior = 30000" in findings["config.dwell"][0]["what"]
    assert grade(findings, "files.backup") == {"not looked at"}
    # An instance is for trials: its visitors are believed, and nothing was trained. The rest is this machine's.
    assert warnings(findings) - {"redis.latency", "files.space", "config.backlog"} == {"config", "files.model"}
    assert {what for _, what, user in site.refused_by_redis() if user == "freshet"} <= ASKED
    if "nginx.upstream" in findings:
        for check in ("upstream", "body_size", "connections", "site", "keepalive", "queue"):
            assert grade(findings, f"nginx.{check}") == {"ok"}, findings[f"nginx.{check}"]
    else:
        assert grade(findings, "nginx") == {"not looked at"}
    said = subprocess.run([CTL, "doctor", "--state", site.state, "--nginx", ""], capture_output=True, text=True, check=False, timeout=240)
    assert said.returncode == 0 and "ok            redis.version: Redis " in said.stdout
    assert "not looked at nginx: not asked for" in said.stdout and said.stdout.splitlines()[-1].startswith("0 errors, ")


def test_a_relative_folder_is_as_good_as_an_absolute_one(site):
    folder, name = os.path.split(site.state)
    checks = []
    for state in (site.state, name):
        done = subprocess.run([CTL, "doctor", "--json", "--state", state], cwd=folder, capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        checks.append({(each["grade"], each["check"]) for each in json.loads(done.stdout)["findings"]} - {("warning", "redis.latency")})
    assert checks[0] == checks[1]
    said = subprocess.run([CTL, "status", "--state", name], cwd=folder, capture_output=True, text=True, check=True, timeout=240).stdout
    assert re.search(r"^start since: +\d+ (s|min \d+ s)$", said, re.MULTILINE), said
    assert re.search(r"^memory peak: +\d+\.\d MiB$", said, re.MULTILINE), said
    assert re.search(r"^kernel listen queue: +\d+ of \d+$", said, re.MULTILINE), said
    raw = json.loads(subprocess.run([CTL, "status", "--json", "--state", name], cwd=folder, capture_output=True, check=True, timeout=240).stdout)
    assert isinstance(raw["start since"], int) and raw["memory peak"] > 1 << 20


def test_what_was_broken_is_found_with_its_cure(site):
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


def test_a_redis_that_is_gone_and_a_file_that_is_wrong_are_errors(site):
    site.kill_redis()
    status, findings = doctor(site)
    assert status == 1 and grade(findings, "redis") == {"error"} and "systemctl start" in findings["redis"][0]["cure"]
    assert grade(findings, "redis.settings") == {"not looked at"}
    assert grade(findings, "files.folder") == {"ok"}
    with open("/proc/sys/net/core/somaxconn", encoding="ascii") as file:
        if int(file.read()) < 65535:
            site.configure(listen__backlog="65535")
            assert grade(doctor(site)[1], "config.backlog") == {"warning"}
    site.configure(listen__backlog='"many"')
    status, findings = doctor(site)
    assert status == 1 and grade(findings, "config") == {"error"} and "test.toml" in findings["config"][0]["what"]


def test_an_account_that_may_too_little_or_too_much_is_found(site):
    site.redis("ACL", "SETUSER", "freshet", "-zadd")
    site.redis("ACL", "SETUSER", "freshet", "+flushall")
    status, findings = doctor(site)
    [refused] = [each for each in findings["redis.account"] if each["grade"] == "error"]
    assert status == 1 and refused["what"] == "the account freshet may not: ZADD" and "redis-acl.conf" in refused["cure"]
    [excessive] = [each for each in findings["redis.account"] if each["grade"] == "warning"]
    assert excessive["what"] == "the account freshet may more than the service needs: FLUSHALL"
    site.redis("ACL", "SETUSER", "freshet", "-flushall")
    site.redis("ACL", "SETUSER", "freshet", "+zadd")
    status, findings = doctor(site)
    assert status == 0 and grade(findings, "redis.account") == {"ok"}


def test_a_status_socket_that_nobody_answers_is_found(site):
    [companion] = [pid for pid in children(site.pid("freshetd")) if comm(pid) == "freshetd-status"]
    os.kill(companion, signal.SIGSTOP)
    try:
        status, findings = doctor(site)
    finally:
        os.kill(companion, signal.SIGCONT)
    assert status == 1 and grade(findings, "status.socket") == {"error"} and "does not answer" in findings["status.socket"][0]["what"]
    assert grade(doctor(site)[1], "status.socket") == {"ok"}
    site.configure(pm__status_listen='"/tmp/freshet-nobody-listens.sock"')
    status, findings = doctor(site)
    assert status == 1 and grade(findings, "status.socket") == {"error"} and "nobody listens" in findings["status.socket"][0]["what"]
    site.configure(pm__status_listen='""')
    status, findings = doctor(site)
    assert status == 0 and grade(findings, "status.socket") == {"warning"}


def test_a_backup_is_looked_for_where_it_is_said_to_be(site):
    folder = os.path.join(site.state, "backups")
    os.mkdir(folder, 0o700)
    status, findings = doctor(site, "--backups", folder)
    assert status == 0 and grade(findings, "files.backup") == {"warning"} and "no whole backup" in findings["files.backup"][0]["what"]
    assert f"freshetctl backup {folder}/" in findings["files.backup"][0]["cure"]
    made = os.path.join(folder, "tonight")
    subprocess.run([CTL, "backup", made, "--state", site.state], capture_output=True, check=True, timeout=480)
    status, findings = doctor(site, "--backups", folder)
    assert status == 0 and grade(findings, "files.backup") == {"ok"} and made in findings["files.backup"][0]["what"]
    os.truncate(max((os.path.join(made, name) for name in os.listdir(made) if name.startswith("freshet.db")), key=os.path.getsize), 1)
    assert grade(doctor(site, "--backups", folder)[1], "files.backup") == {"warning"}


@pytest.mark.parametrize("check, name, pattern, replacement, what", [
    ("site", "freshet-params.conf", r"^fastcgi_param FRESHET_SITE .*\n", "", "does not set FRESHET_SITE"),
    ("keepalive", "freshet-http.conf", r"keepalive_time \w+", "keepalive_time 1h", "keeps a connection for 3601 s"),
    ("queue", "freshet-internal.conf", r"limit_conn freshet_internal 192", "limit_conn freshet_internal 5000", "5000 requests may be under way"),
    ("queue", "freshet-locations.conf", r"^ *limit_conn freshet_bodies .*\n", "", "limit_conn freshet_bodies is not set"),
    ("queue", "freshet-internal.conf", r"^ *limit_conn freshet_internal .*\n", "", "limit_conn freshet_internal is not set"),
])
def test_a_way_from_nginx_that_harms_requests_is_found(site, check, name, pattern, replacement, what):
    findings = doctor(site)[1]
    nginx_only(findings)
    assert grade(findings, f"nginx.{check}") == {"ok"}
    undo = edit(site, name, pattern, replacement)
    try:
        findings = doctor(site)[1]
    finally:
        undo()
    assert what in findings[f"nginx.{check}"][0]["what"], findings[f"nginx.{check}"]
    assert grade(findings, f"nginx.{check}") == {"error" if check == "site" else "warning"}
    assert all(grade(findings, other) == {"ok"} for other in findings if other.startswith("nginx.") and other != f"nginx.{check}")


def test_what_nobody_vouched_for_is_named_with_the_cure(site):
    assert grade(doctor(site, "--nginx", "")[1], "items.unlisted") == {"ok"}
    for number in range(12):
        for network in range(1 + number % 5):
            assert site.public(source=f"127.{60 + network}.0.1").track(f"beacon-{number}", 1).json()["listed"] is False
    [found] = doctor(site, "--nginx", "")[1]["items.unlisted"]
    assert found["grade"] == "warning" and found["what"].startswith("12 articles") and "PUT" in found["cure"] and '"list"' in found["cure"]
    named = found["what"].rpartition(": ")[2].split(", ")
    assert len(named) == 10 and set(named[:2]) == {"beacon-4", "beacon-9"}
    site.put("beacon-4")
    [found] = doctor(site, "--nginx", "")[1]["items.unlisted"]
    assert "beacon-4" not in found["what"]
