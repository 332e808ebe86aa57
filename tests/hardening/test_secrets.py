"""Keys and passwords come from $CREDENTIALS_DIRECTORY alone, and stay where they are: in no output, no log, no command line, no reply."""

import contextlib
import json
import os
import signal
import subprocess

import pytest
import unit
from sandboxed import SALT, USER, Sandboxed, unprivileged, wait_until

PASSWORD = "a-password-of-redis-8c1d"
KEY = "a-key-of-tokens-0123456789abcdef-77"


def credential(service, name, text):
    path = service.at(f"credentials/{name}")
    os.chmod(service.at("credentials"), 0o700)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    os.chmod(path, 0o400)
    os.chmod(service.at("credentials"), 0o500)
    if os.geteuid() == 0:
        os.chown(path, USER.pw_uid, USER.pw_gid)


@pytest.fixture
def service():
    """With a Redis that wants a password, and keys of tokens; not started."""
    one = Sandboxed(redis__password_file='"redis-password"', identity__token_keys='{ k1 = "token-k1" }', identity__mode='"token"')
    one.redis_options = ["--requirepass", PASSWORD]
    credential(one, "redis-password", PASSWORD)
    credential(one, "token-k1", KEY)
    yield one
    one.stop()


def freshetd(service, *arguments, **environment):
    return subprocess.run([service.program, *arguments, "-y", service.at("etc/freshet.toml")], capture_output=True, text=True, check=False,
                          env={"PATH": "/usr/bin:/bin", "CREDENTIALS_DIRECTORY": service.at("credentials")} | environment)


def refuses_to_start(service, **environment):
    """What it says of itself; fails when it runs."""
    done = subprocess.run([*unprivileged(), service.program, "-F", "-y", service.at("etc/freshet.toml")], capture_output=True, text=True, check=False,
                          timeout=240, env={"PATH": "/usr/bin:/bin", "CREDENTIALS_DIRECTORY": service.at("credentials")} | environment)
    assert done.returncode == 78, done  # what systemd does not try again
    return done.stdout + done.stderr + service.log()


def tell(text):
    """The secrets that a text tells."""
    return [secret for secret in (SALT, PASSWORD, KEY) if secret in text]


def command_lines(service):
    out = ""
    for pid in service.processes():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a worker of before the reload has ended
            for what in ("cmdline", "environ"):
                with open(f"/proc/{pid}/{what}", encoding="utf-8", errors="replace") as file:
                    out += file.read().replace("\0", " ") + "\n"
    return out


def test_a_service_that_runs_tells_no_secret(service):
    service.start()
    assert service.ask("GET", "/health/ready")[0] == 200
    # A reader, so that the key is used: a token made with it is believed, any other not.
    status, _ = service.ask("GET", "/api/history", zone="public", HTTP_AUTHORIZATION="Bearer v1.k1.r.9999999999.AAAA")
    assert status == 401
    replies = [json.dumps(service.ask("GET", uri)[1], default=repr) for uri in ("/status", "/status?full", "/status?json", "/metrics", "/health/ready")]
    os.kill(service.master(), signal.SIGHUP)
    wait_until(lambda: any(line.startswith("RELOADING=1") for line in service.notify.lines), "the reload")
    wait_until(lambda: "reload_completed" in service.log(), "the new generation", 60)
    # Wrong from now on: every error that there is about it.
    service.redis("config", "set", "requirepass", "another")
    service.redis_password = "another"
    service.redis("client", "kill", "type", "normal")
    wait_until(lambda: service.ask("GET", "/health/ready")[0] == 503, "no Redis", 60)
    replies.append(json.dumps(service.ask("GET", "/health/ready")[1], default=repr))
    shown = freshetd(service, "-tt")
    assert shown.returncode == 0, shown.stderr
    assert "redis-password" in shown.stderr  # the name, not the content
    for what, text in (("output", shown.stdout + shown.stderr), ("log", service.log()), ("command lines", command_lines(service)),
                       ("replies", "".join(replies)), ("notifications", "\n".join(service.notify.lines))):
        assert text and not tell(text), what


@pytest.mark.parametrize("name", ["salt", "redis-password", "token-k1"])
def test_a_credential_that_is_absent_or_empty_is_an_error_with_its_name(service, name):
    assert freshetd(service, "-t").returncode == 0
    credential_path = service.at(f"credentials/{name}")
    os.chmod(service.at("credentials"), 0o700)
    os.chmod(credential_path, 0o600)
    with open(credential_path, "w", encoding="utf-8"):
        pass
    for what in ("is empty", "cannot be read"):
        said = refuses_to_start(service)
        assert f"{name}: {what}" in said, said
        assert not tell(said)
        if os.path.exists(credential_path):
            os.remove(credential_path)


def test_a_name_without_a_folder_is_looked_for_nowhere_else(service, tmp_path):
    with open(service.at("salt"), "w", encoding="utf-8") as file:
        file.write(SALT)
    with open(service.at("etc/salt"), "w", encoding="utf-8") as file:
        file.write(SALT)
    assert str(tmp_path / "none/salt") in refuses_to_start(service, CREDENTIALS_DIRECTORY=str(tmp_path / "none"))


def test_every_service_gets_copies_of_the_same_secrets():
    for name in ("freshet", "freshet-train", "freshet-fill"):
        assert unit.directives(os.path.join(unit.ROOT, f"systemd/{name}.service"))["LoadCredential"] == ["secrets:/etc/freshet/secrets"]
