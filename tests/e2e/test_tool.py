"""freshetctl to programs: --json, and what its exit status says."""

import json
import os
import re
import shutil
import subprocess

import pytest

from service import CTL, wait_until
from test_backup import folder, how_it_runs, start_freshetd, stop_freshetd  # noqa: F401


def run(service, *words, status=0):
    """What a command reports with --json."""
    done = subprocess.run([CTL, *words, "--json", "--state", service.state], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    (line,) = done.stdout.splitlines()
    return json.loads(line)


def write(path, *lines):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return str(path)


def commands():
    said = subprocess.run([CTL, "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  ([a-z-]+) ", said[said.index("Subcommands:"):], re.M)


def test_every_command_reports_as_json_too():
    assert len(commands()) > 10
    for command in commands():
        assert "--json" in subprocess.run([CTL, command, "--help"], capture_output=True, text=True, check=True).stdout, command


@pytest.fixture(scope="module")
def filled(service, tmp_path_factory):
    path = tmp_path_factory.mktemp("tool") / "items.ndjson"
    write(path, *({"id": f"tool-{number}", "title": "A tool", "published_at": 1700000000} for number in range(3)))
    imported = run(service, "import", str(path))
    assert (imported["accepted"], imported["rejected"], imported["earlier"]) == (3, 0, 0) and imported["seconds"] > 0
    wait_until(lambda: service.status()["recorder items"] >= 3, "the recorder")
    return service


def test_an_import_with_a_wrong_line_is_done_and_tells(filled, tmp_path):
    path = write(tmp_path / "items.ndjson", {"id": "tool-3", "title": "Good", "published_at": 1}, {"id": "", "title": "Bad"})
    said = run(filled, "import", path, status=1)
    assert (said["accepted"], said["rejected"]) == (1, 1)
    assert subprocess.run([CTL, "import", path + "-none", "--json"], capture_output=True, check=False).returncode == 2


def test_what_was_replayed_is_told(filled, tmp_path):
    log = write(tmp_path / "events.ndjson", *({"type": "VIEW", "at": 1700000000 + number, "item": "tool-1", "user": f"u{number}"} for number in range(4)))
    said = run(filled, "replay", log, "--speed", "max", "--shift-to-now")
    assert (said["events"], said["requests"], said["refused"], said["failed"], said["interrupted"]) == (4, 4, 0, 0, False)


def test_rebuilds_tell_what_they_made(filled):
    ranked = run(filled, "rebuild-rank")
    assert ranked["half_life"] == 86400 and ranked["ranked"] >= 0
    wait_until(lambda: filled.redis("XLEN", "recorder:stream") == 0, "the recorder")
    indexed = run(filled, "reindex")
    assert indexed["indexed"] == indexed["items"] >= 3 and indexed["seconds"] > 0
    assert run(filled, "rebuild-redis", "--force")["items"] == indexed["items"]


def test_training_without_a_past_says_that_no_model_was_made(filled):
    assert run(filled, "train").keys() == {"model", "why"}


def test_a_backup_tells_whether_it_is_whole(instance, folder):  # noqa: F811
    service = instance("--no-limits")
    service.put("kept")
    wait_until(lambda: service.status()["recorder items"] == 1, "the recorder")
    backup = os.path.join(folder, "backup")
    made = run(service, "backup", backup)
    assert (made["items"], made["left_out"]) == (1, 0)
    assert run(service, "backup", backup, "--verify") == {"whole": True} | {key: made[key] for key in made if key != "left_out"}
    broken = os.path.join(folder, "broken")
    shutil.copytree(backup, broken)
    with open(os.path.join(broken, "redis.dump"), "ab") as file:
        file.write(b"x")
    said = run(service, "backup", broken, "--verify", status=1)
    assert not said["whole"] and "redis.dump" in said["why"]

    as_was = how_it_runs(service)
    stop_freshetd(service)
    restored = run(service, "restore", backup, "--replace")
    assert (restored["items"], restored["indexed"], restored["erased"]) == (1, 1, 0)
    start_freshetd(service, as_was)
    assert service.internal().get("/api/items/kept").status == 200
