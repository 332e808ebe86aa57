"""Keys and passwords are read from $CREDENTIALS_DIRECTORY only, and appear in no output, log, command line or response."""

import contextlib
import json
import os
import signal
import subprocess

import pytest
import unit
from sandboxed import SALT, USER, SandboxedService, as_service_user, wait_until

PASSWORD = "a-password-of-redis-8c1d"
KEY = "a-key-of-tokens-0123456789abcdef-77"


def credential(service, name, text):
    path = service.path_of(f"credentials/{name}")
    os.chmod(service.path_of("credentials"), 0o700)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    os.chmod(path, 0o400)
    os.chmod(service.path_of("credentials"), 0o500)
    if os.geteuid() == 0:
        os.chown(path, USER.pw_uid, USER.pw_gid)


@pytest.fixture
def service():
    """A service with token keys and a Redis that requires a password; not started."""
    sandboxed = SandboxedService(redis__password_file='"redis-password"', identity__token_keys='{ k1 = "token-k1" }', identity__mode='"token"')
    sandboxed.redis_options = ["--requirepass", PASSWORD]
    credential(sandboxed, "redis-password", PASSWORD)
    credential(sandboxed, "token-k1", KEY)
    yield sandboxed
    sandboxed.stop()


def freshetd(service, *arguments, **environment):
    return subprocess.run([service.program, *arguments, "-y", service.path_of("etc/freshet.toml")], capture_output=True, text=True, check=False,
                          env={"PATH": "/usr/bin:/bin", "CREDENTIALS_DIRECTORY": service.path_of("credentials")} | environment)


def output_of_failed_start(service, **environment):
    """Returns the output and log of a service that must fail to start."""
    done = subprocess.run([*as_service_user(), service.program, "-F", "-y", service.path_of("etc/freshet.toml")], capture_output=True, text=True, check=False,
                          timeout=240, env={"PATH": "/usr/bin:/bin", "CREDENTIALS_DIRECTORY": service.path_of("credentials")} | environment)
    assert done.returncode == 78, done  # EX_CONFIG: systemd does not restart the service
    return done.stdout + done.stderr + service.log()


def secrets_in(text):
    """Returns the secrets that the text contains."""
    return [secret for secret in (SALT, PASSWORD, KEY) if secret in text]


def command_lines(service):
    out = ""
    for pid in service.processes():
        # A worker of the previous generation may have ended.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for source in ("cmdline", "environ"):
                with open(f"/proc/{pid}/{source}", encoding="utf-8", errors="replace") as file:
                    out += file.read().replace("\0", " ") + "\n"
    return out


def test_a_running_service_reveals_no_secret(service):
    service.start()
    assert service.request("GET", "/health/ready")[0] == 200
    # Use the token key: a token with a wrong signature is refused.
    status, _ = service.request("GET", "/api/history", zone="public", HTTP_AUTHORIZATION="Bearer v1.k1.r.9999999999.AAAA")
    assert status == 401
    replies = [json.dumps(service.request("GET", uri)[1], default=repr) for uri in ("/status", "/status?full", "/status?json", "/metrics", "/health/ready")]
    os.kill(service.master(), signal.SIGHUP)
    wait_until(lambda: any(line.startswith("RELOADING=1") for line in service.notify.lines), "the reload")
    wait_until(lambda: "reload_completed" in service.log(), "the new generation", 60)
    # The password is wrong from now on, to provoke all related errors.
    service.redis("config", "set", "requirepass", "another")
    service.redis_password = "another"
    service.redis("client", "kill", "type", "normal")
    wait_until(lambda: service.request("GET", "/health/ready")[0] == 503, "Redis to be unavailable", 60)
    replies.append(json.dumps(service.request("GET", "/health/ready")[1], default=repr))
    dump = freshetd(service, "-tt")
    assert dump.returncode == 0, dump.stderr
    assert "redis-password" in dump.stderr  # the file name, not the content
    for source, text in (("output", dump.stdout + dump.stderr), ("log", service.log()), ("command lines", command_lines(service)),
                       ("replies", "".join(replies)), ("notifications", "\n".join(service.notify.lines))):
        assert text and not secrets_in(text), source


@pytest.mark.parametrize("name", ["salt", "redis-password", "token-k1"])
def test_a_missing_or_empty_credential_is_reported_by_name(service, name):
    assert freshetd(service, "-t").returncode == 0
    credential_path = service.path_of(f"credentials/{name}")
    os.chmod(service.path_of("credentials"), 0o700)
    os.chmod(credential_path, 0o600)
    with open(credential_path, "w", encoding="utf-8"):
        pass
    for problem in ("is empty", "cannot be read"):
        output = output_of_failed_start(service)
        assert f"{name}: {problem}" in output, output
        assert not secrets_in(output)
        if os.path.exists(credential_path):
            os.remove(credential_path)


def test_relative_names_are_resolved_in_the_credentials_directory_only(service, tmp_path):
    with open(service.path_of("salt"), "w", encoding="utf-8") as file:
        file.write(SALT)
    with open(service.path_of("etc/salt"), "w", encoding="utf-8") as file:
        file.write(SALT)
    assert str(tmp_path / "none/salt") in output_of_failed_start(service, CREDENTIALS_DIRECTORY=str(tmp_path / "none"))


def test_every_service_gets_copies_of_the_same_secrets():
    for name in ("freshet", "freshet-train", "freshet-tune", "freshet-fill"):
        assert unit.directives(os.path.join(unit.ROOT, f"systemd/{name}.service"))["LoadCredential"] == ["secrets:/etc/freshet/secrets"]
