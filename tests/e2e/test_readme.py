"""What the README tells a newcomer to type works, and what is shipped is accepted by the programs that read it."""

import json
import os
import re
import subprocess

import pytest

from service import BUILD, PATIENT, ROOT, wait_until


def blocks():
    """(command, reply lines) of README.md's "Try it": the curl lines of its ```sh blocks; a `#` line is the reply to the line above."""
    try:
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    section = re.search(r"^## Try it\b.*?(?=^## |\Z)", text, re.M | re.S)
    commands = []
    for block in re.findall(r"^```sh\n(.*?)^```", section.group(0) if section else "", re.M | re.S):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            if line.startswith("curl "):
                commands.append((line, []))
            elif line.startswith("#") and commands:
                commands[-1][1].append(line.lstrip("# "))
    return commands


def pattern(said):
    """What the README shows of a reply; … stands for what differs from run to run."""
    return ".*".join(re.escape(part) for part in said.split("…")) + ("" if said.endswith("…") else r"\s*\Z")


# What differs from the package in an instance of scripts/run, as the package has it.
PACKAGED = {"identity__mode": '"header"', "bots__allow": "[]"}


@pytest.mark.parametrize("directives", [{}, PACKAGED], ids=["run", "packaged"])
def test_every_curl_line_of_the_readme_answers_as_it_says(instance, directives):
    commands = blocks()
    if not commands:
        pytest.skip("README.md has no curl lines under 'Try it' yet")
    service = instance(**PATIENT, **directives)
    for line, expected in commands:
        said = line
        line = re.sub(r"\b(?:localhost|127\.0\.0\.1):8080\b", f"{service.host}:{service.port}", line)
        line = re.sub(r"\b(?:localhost|127\.0\.0\.1):8081\b", f"{service.host}:{service.internal_port}", line)
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 0, (said, done.stderr)
        assert expected, f"the README shows no reply to {said}"
        assert re.match(pattern(" ".join(expected)), done.stdout, re.S), (said, expected, done.stdout)
        assert "publishedAt" not in said or json.loads(done.stdout)["scoreInc"] < 0.1, "the date counts"
        if " -X PUT " in said:  # who types the next line is slower than the search index
            wait_until(lambda: service.status()["recorder items"] >= 1, "the recorder")
    assert len(commands) >= 10


def freshetd(*arguments):
    return subprocess.run([os.path.join(BUILD, "fcgi/freshetd"), *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_the_shipped_configuration_is_accepted(service):
    done = freshetd("-t", "-y", os.path.join(ROOT, "systemd/freshet.toml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_error_in_a_configuration_names_file_and_line(service, tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text('log_level = "notice"\n\npm.max_children = "many"\n', encoding="utf-8")
    done = freshetd("-t", "-y", str(broken))
    assert done.returncode != 0
    assert "broken.toml:3" in done.stdout + done.stderr


def test_what_is_in_force_can_be_printed_and_read_again(service, tmp_path):
    printed = freshetd("-tt", "-y", os.path.join(service.state, "etc/freshet.toml"))
    assert printed.returncode == 0, printed.stderr
    assert "hot.half_life" in printed.stdout + printed.stderr


def test_version_and_help_answer(service):
    assert re.search(r"\d+\.\d+", freshetd("-v").stdout)
    assert "-t" in freshetd("-h").stdout
