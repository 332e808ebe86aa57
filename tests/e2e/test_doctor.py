"""freshetctl doctor beside a running instance: no error where all is well, and the cure where something was broken."""

import json
import os
import signal
import subprocess

import pytest

from service import PATIENT, ROOT, birth, wait_until

CTL = os.path.join(ROOT, "scripts/freshetctl")


@pytest.fixture
def site(instance):
    return instance("--no-limits", **PATIENT)


def doctor(site, *options):
    """Its exit status and {check: [finding…]}."""
    done = subprocess.run([CTL, "doctor", "--json", "--state", site.state, *options], capture_output=True, text=True, check=False, timeout=60)
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


def test_an_instance_in_order_has_no_error(site):
    status, findings = doctor(site)
    errors = [each for each in sum(findings.values(), []) if each["grade"] == "error"]
    assert (status, errors) == (0, [])
    for check in ("redis", "redis.version", "redis.persistence", "redis.eviction", "redis.clock", "recorder.stream", "recorder.alive",
                  "files.secret", "files.folder", "files.database", "socket"):
        assert grade(findings, check) == {"ok"}, findings[check]
    if "nginx.upstream" in findings:
        assert grade(findings, "nginx.upstream") == grade(findings, "nginx.body_size") == {"ok"}
    else:
        assert grade(findings, "nginx") == {"not looked at"}
    said = subprocess.run([CTL, "doctor", "--state", site.state, "--nginx", ""], capture_output=True, text=True, check=False, timeout=60)
    assert said.returncode == 0 and "ok            redis.version: Redis " in said.stdout
    assert "not looked at nginx: not asked for" in said.stdout and said.stdout.splitlines()[-1].startswith("0 errors, ")


def test_what_was_broken_is_found_with_its_cure(site):
    site.redis("CONFIG", "SET", "appendonly", "no")
    site.redis("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    os.chmod(os.path.join(site.state, "etc/salt"), 0o644)
    os.chmod(site.socket_path, 0o666)
    status, findings = doctor(site)
    assert status == 1
    assert grade(findings, "redis.persistence") == {"error"} and "appendonly yes" in findings["redis.persistence"][0]["cure"]
    assert grade(findings, "redis.eviction") == {"warning"}
    [open_to_all] = [each for each in findings["files.secret"] if each["grade"] == "error"]
    assert "chmod 0600" in open_to_all["cure"]
    assert grade(findings, "socket") == {"error"}


def test_a_redis_that_is_gone_and_a_file_that_is_wrong_are_errors(site):
    pid = site.pid("redis")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: birth(pid) is None, "the end of Redis")
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
