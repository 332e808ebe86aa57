"""Commands in the documents work, and shipped files are accepted by the programs that read them."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from service import BUILD, LONG_TIMEOUTS, ROOT, wait_until


DOCUMENTS = {name: pathlib.Path(ROOT, name).read_text(encoding="utf-8") for name in os.listdir(ROOT) if name.endswith(".md")}
README = DOCUMENTS["README.md"]


def blocks(text):
    """The ```sh blocks, with continued commands joined into one line."""
    return [re.sub(r"\\\n\s*", " ", block) for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)]


def curl_commands(text):
    """[(command, reply lines)] of the curl lines in ```sh blocks. A `#` line is part of the reply to the line above."""
    commands = []
    for block in blocks(text):
        for line in block.splitlines():
            if line.startswith("curl "):
                commands.append((line, []))
            elif line.startswith("#") and commands:
                commands[-1][1].append(line.lstrip("# "))
    return commands


WITH_CURL = sorted(name for name, text in DOCUMENTS.items() if name != "OPERATIONS.md" and curl_commands(text))


def test_every_command_of_every_document_is_run_by_a_test():
    """curl lines run in this file, installation commands in tests/package/boot, the two commands of the README in
    tests/scripts/bare.
    """
    for name, text in DOCUMENTS.items():
        text = re.sub(r"^## Deployment\n.*?(?=^## )", "", text, flags=re.M | re.S) if name == "OPERATIONS.md" else text
        for line in (line for block in blocks(text) for line in block.splitlines()):
            assert line.startswith(("curl ", "# ")), (name, line)
    assert re.findall(r"^    (\./.*)$", README, re.M) == ["./scripts/run", "./scripts/test"]
    assert WITH_CURL[:1] == ["API.md"] and "README.md" in WITH_CURL


def reply_pattern(documented):
    """A regular expression for a documented reply, where … stands for parts that differ between runs."""
    return ".*".join(re.escape(part) for part in documented.split("…")) + ("" if documented.endswith("…") else r"\s*\Z")


# Settings of the package that scripts/run changes, with the package's values.
PACKAGE_SETTINGS = {"identity__mode": '"header"', "bots__allow": "[]"}


@pytest.mark.parametrize("directives", [{}, PACKAGE_SETTINGS], ids=["run", "packaged"])
@pytest.mark.parametrize("document", WITH_CURL)
def test_every_curl_line_returns_the_documented_reply(instance, document, directives):
    service = instance(**LONG_TIMEOUTS, **directives)
    for line, expected in curl_commands(DOCUMENTS[document]):
        command = line
        line = re.sub(r"\b(?:localhost|127\.0\.0\.1):8080\b", f"{service.host}:{service.port}", line)
        line = re.sub(r"\b(?:localhost|127\.0\.0\.1):8081\b", f"{service.host}:{service.internal_port}", line)
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=80, check=False)
        assert done.returncode == 0, (command, done.stderr)
        assert expected, f"{document} shows no reply to {command}"
        assert re.match(reply_pattern(" ".join(expected)), done.stdout, re.S), (command, expected, done.stdout)
        assert "publishedAt" not in command or json.loads(done.stdout)["scoreInc"] < 0.1, "the date was ignored"
        if " -X PUT " in command:  # a person who types the next line is slower than the search index
            wait_until(lambda: service.status()["recorder items"] >= 1, "the item to be recorded")


def freshetd(*arguments):
    return subprocess.run([os.path.join(BUILD, "fcgi/freshetd"), *arguments], capture_output=True, text=True, timeout=240, check=False)


def test_the_shipped_configuration_is_accepted(service):
    done = freshetd("-t", "-y", os.path.join(ROOT, "systemd/freshet.toml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_error_in_a_configuration_is_reported_with_file_and_line(service, tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text('log_level = "notice"\n\npm.max_children = "many"\n', encoding="utf-8")
    done = freshetd("-t", "-y", str(broken))
    assert done.returncode != 0
    assert "broken.toml:3" in done.stdout + done.stderr


def test_what_a_start_would_reject_is_reported_by_the_check_of_the_configuration(tmp_path):
    (tmp_path / "short").write_text("x", encoding="utf-8")
    for line, sentence in (('redis.url = "redis://h:99999"', "redis://h:99999: the port must be 1..65535"),
                           ('redis.url = "redis+cluster://192.0.2.1:1"\nredis.db = 2', "a cluster has only database 0"),
                           ('redis.sentinels = ["name"]\nredis.sentinel_master = "m"', "must contain hosts with a port"),
                           (f'identity.salt_file = "{tmp_path}/short"', "a key must have at least 16 bytes")):
        (tmp_path / "freshet.toml").write_text(line + "\n", encoding="utf-8")
        checked = freshetd("-t", "-y", str(tmp_path / "freshet.toml"))
        assert checked.returncode == 78 and sentence in checked.stderr, (line, checked)
        started = freshetd("-R", "-y", str(tmp_path / "freshet.toml"))
        assert started.returncode == 78 and sentence in started.stderr, (line, started)


def test_the_effective_configuration_can_be_printed(service, tmp_path):
    printed = freshetd("-tt", "-y", os.path.join(service.state, "etc/freshet.toml"))
    assert printed.returncode == 0, printed.stderr
    assert "hot.half_life" in printed.stdout + printed.stderr


def test_version_and_help_are_printed(service):
    assert re.search(r"\d+\.\d+", freshetd("-v").stdout)
    assert "-t" in freshetd("-h").stdout
