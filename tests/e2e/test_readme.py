"""What the documents tell a newcomer to type works, and what is shipped is accepted by the programs that read it."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from service import BUILD, PATIENT, ROOT, wait_until


DOCUMENTS = {name: pathlib.Path(ROOT, name).read_text(encoding="utf-8") for name in os.listdir(ROOT) if name.endswith(".md")}
README = DOCUMENTS["README.md"]


def blocks(text):
    """The ```sh blocks, a command on one line each."""
    return [re.sub(r"\\\n\s*", " ", block) for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)]


def commands_of(text):
    """(command, reply lines): the curl lines of the ```sh blocks; a `#` line is the reply to the line above."""
    commands = []
    for block in blocks(text):
        for line in block.splitlines():
            if line.startswith("curl "):
                commands.append((line, []))
            elif line.startswith("#") and commands:
                commands[-1][1].append(line.lstrip("# "))
    return commands


WITH_CURL = sorted(name for name, text in DOCUMENTS.items() if name != "OPERATIONS.md" and commands_of(text))


def test_every_command_of_every_document_is_run_by_a_test():
    """curl lines here, what installs by tests/package/boot, the two commands by tests/scripts/bare."""
    for name, text in DOCUMENTS.items():
        text = re.sub(r"^## Deployment\n.*?(?=^## )", "", text, flags=re.M | re.S) if name == "OPERATIONS.md" else text
        for line in (line for block in blocks(text) for line in block.splitlines()):
            assert line.startswith(("curl ", "# ")), (name, line)
    assert re.findall(r"^    (\./.*)$", README, re.M) == ["./scripts/run", "./scripts/test"]
    assert WITH_CURL[:1] == ["API.md"] and "README.md" in WITH_CURL


def test_the_readme_is_short_and_its_links_lead_somewhere():
    lines = README.splitlines()
    assert len(lines) <= 110 and max(map(len, lines)) <= 120
    linked = re.findall(r"\]\(([^)#]+)\)", README) + re.findall(r'(?:src|srcset)="(?!/)([^"]+)"', README)
    local = [link for link in linked if not link.startswith(("https://", "http://127.0.0.1"))]
    assert len(local) >= 10
    assert [link for link in local if not os.path.exists(os.path.join(ROOT, link))] == []
    shots = [os.path.join(ROOT, link) for link in local if link.endswith(".png")]
    assert sum(map(os.path.getsize, shots)) <= 400 * 1024


def pattern(said):
    """What a document shows of a reply; … stands for what differs from run to run."""
    return ".*".join(re.escape(part) for part in said.split("…")) + ("" if said.endswith("…") else r"\s*\Z")


# What differs from the package in an instance of scripts/run, as the package has it.
PACKAGED = {"identity__mode": '"header"', "bots__allow": "[]"}


@pytest.mark.parametrize("directives", [{}, PACKAGED], ids=["run", "packaged"])
@pytest.mark.parametrize("document", WITH_CURL)
def test_every_curl_line_answers_as_the_document_says(instance, document, directives):
    service = instance(**PATIENT, **directives)
    for line, expected in commands_of(DOCUMENTS[document]):
        said = line
        line = re.sub(r"\b(?:localhost|127\.0\.0\.1):8080\b", f"{service.host}:{service.port}", line)
        line = re.sub(r"\b(?:localhost|127\.0\.0\.1):8081\b", f"{service.host}:{service.internal_port}", line)
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=80, check=False)
        assert done.returncode == 0, (said, done.stderr)
        assert expected, f"{document} shows no reply to {said}"
        assert re.match(pattern(" ".join(expected)), done.stdout, re.S), (said, expected, done.stdout)
        assert "publishedAt" not in said or json.loads(done.stdout)["scoreInc"] < 0.1, "the date counts"
        if " -X PUT " in said:  # who types the next line is slower than the search index
            wait_until(lambda: service.status()["recorder items"] >= 1, "the recorder")


def freshetd(*arguments):
    return subprocess.run([os.path.join(BUILD, "fcgi/freshetd"), *arguments], capture_output=True, text=True, timeout=240, check=False)


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
