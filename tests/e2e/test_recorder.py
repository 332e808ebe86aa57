"""Items reach SQLite and the search index whatever happens to the recorder, and every tool that reads them back does so."""

import glob
import json
import os
import signal
import sqlite3
import subprocess
import time

import pytest

from client import Load
from recorded import Recorded, Writers
from service import CTL, PATIENT, ROOT, Instance, birth, wait_until


def freshetctl(instance, *arguments):
    done = subprocess.run([CTL, *map(str, arguments), "--state", instance.state],
                          capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout + done.stderr


def put_some(instance, name, count=20, **members):
    return {item: instance.put(item, **members)["title"] for item in (name("i") for _ in range(count))}


def seen(load, count=50):
    """Waits until the load has done so much more."""
    before = len(load.results)
    wait_until(lambda: len(load.results) > before + count or load.errors, "load", 60)


# --- what is kept


def test_an_item_is_in_the_database_and_in_the_index_until_it_is_deleted(own_service, name):
    recorded, titles = Recorded(own_service), put_some(own_service, name)
    hidden = name("hidden")
    own_service.put(hidden, hidden=True)
    wait_until(lambda: own_service.status()["recorder items"] == len(titles) + 1, "the recorder")
    assert set(recorded.titles()) == set(titles) | {hidden}
    assert recorded.indexed() == set(titles)
    changed, gone, *_ = titles
    titles[changed] = own_service.put(changed, title="another title")["title"]
    assert own_service.internal().delete(f"/api/items/{gone}").status == 200
    assert own_service.internal().delete(f"/api/items/{hidden}").status == 200
    del titles[gone]
    recorded.wait_for(titles)
    wait_until(lambda: own_service.status()["recorder entries"] >= 24, "every entry to be acknowledged, which is after it is kept")
    status = recorded.wait_until_it("running")
    assert status["recorder lag entries"] == 0 and status["recorder pid"] == own_service.recorder()
    assert abs(status["recorder last commit"] - time.time()) < 60
    text = own_service.internal().get("/status").body.decode()
    assert "recorder:             running\n" in text
    own_service.check()


def test_the_recorder_is_optional(instance, name):
    service = instance("--no-limits", recorder__enabled="false", **PATIENT)
    assert service.recorder() is None and service.status()["recorder"] == "off"
    item = name("i")
    service.put(item)
    assert service.internal().get(f"/api/items/{item}").status == 200


# --- what happens to the recorder


def test_a_recorder_killed_again_and_again_under_writes_loses_nothing(own_service, name):
    recorded, writers = Recorded(own_service), Writers(name)
    workers = set(own_service.workers())
    with Load(own_service.internal, writers.write) as load:
        for _ in range(20):
            seen(load)
            victim = wait_until(own_service.recorder, "a recorder")
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda victim=victim: own_service.recorder() not in (None, victim), "another recorder")
    assert load.errors == [] and writers.refused == 0
    assert len(writers.kept) > 500
    recorded.wait_for(writers.kept)
    assert set(own_service.workers()) == workers
    assert own_service.status()["recorder respawns"] >= 20
    own_service.check()


def test_reloads_under_writes_lose_nothing_and_leave_one_recorder(own_service, name):
    recorded, writers = Recorded(own_service), Writers(name)
    with Load(own_service.internal, writers.write) as load:
        for _ in range(5):
            seen(load)
            before = wait_until(own_service.recorder, "a recorder")
            own_service.reload()
            wait_until(lambda before=before: own_service.recorder() not in (None, before), "the next recorder")
    assert load.errors == [] and writers.refused == 0
    recorded.wait_for(writers.kept)
    assert own_service.status()["recorder respawns"] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGKILL])
def test_a_stop_under_writes_loses_nothing(own_service, name, number):
    recorded, writers = Recorded(own_service), Writers(name)
    with Load(lambda: own_service.internal(timeout=5), writers.write) as load:
        seen(load, 200)
        master = own_service.pid("freshetd")
        own_service.note_processes()
        recorder, began = own_service.recorder(), birth(master)
        born = birth(recorder)
        own_service.signal("freshetd", number)
        wait_until(lambda: birth(master) != began and birth(recorder) != born, "the end", 40)
        subprocess.run([os.path.join(ROOT, "scripts/run"), "--stop", "--state", own_service.state], check=True, timeout=480)
        own_service.start()
        seen(load)
    assert load.errors == []
    recorded.wait_for(writers.kept)
    own_service.check()


# --- what happens to its disk: it waits, says so, and goes on by itself


def assert_waits_and_goes_on(service, recorded, name, begin, end, reason):
    titles = put_some(service, name)
    recorded.wait_for(titles)
    begin()
    recorder = wait_until(service.recorder, "a recorder")
    titles |= put_some(service, name)
    status = recorded.wait_until_it("waiting", reason)
    assert status["recorder waiting since"] > time.time() - 60
    wait_until(lambda: service.status()["recorder lag entries"] >= 20 and service.status()["recorder lag age ms"] > 0, "the lag")
    titles |= put_some(service, name)
    assert service.internal().get("/health/ready").status == 200
    end()
    recorded.wait_for(titles)
    status = recorded.wait_until_it("running")
    assert (status["recorder reason"], status["recorder waiting since"]) == ("", 0)
    assert service.recorder() == recorder
    service.check()


def test_it_waits_while_another_process_has_locked_the_database(own_service, name):
    recorded, others = Recorded(own_service), []

    def lock():
        others.append(recorded.connect())
        others[0].execute("BEGIN IMMEDIATE")

    assert_waits_and_goes_on(own_service, recorded, name, lock, lambda: others[0].close(), "database_locked")


def test_it_waits_while_the_database_is_read_only(own_service, name):
    recorded = Recorded(own_service)
    if os.stat(own_service.state + "/record").st_uid == 0:
        pytest.skip("the service runs as root, to whom nothing is read-only")
    assert_waits_and_goes_on(own_service, recorded, name, recorded.forbid_writing, recorded.allow_writing, "database_read_only")


def test_it_leaves_a_database_of_a_later_version_as_it_is(own_service, name):
    folder = own_service.state + "/record"
    database, aside, recorded = folder + "/freshet.db", folder + "/aside", Recorded(own_service)
    owner, written = os.stat(folder), []

    def read():
        with open(database, "rb") as file:
            return file.read()

    def replace():
        os.mkdir(aside)
        for each in glob.glob(database + "*"):
            os.rename(each, os.path.join(aside, os.path.basename(each)))
        made = sqlite3.connect(aside + "/later.db")
        made.executescript("CREATE TABLE of_later (a); PRAGMA user_version = 1000")
        made.close()
        os.chown(aside + "/later.db", owner.st_uid, owner.st_gid)
        os.rename(aside + "/later.db", database)
        written.append(read())

    def put_back():
        assert own_service.status()["recorder reason"] == "database_newer"
        assert read() == written[0]
        for each in glob.glob(database + "*"):
            os.remove(each)
        for each in sorted(os.listdir(aside), reverse=True):  # the database last: with its log, or not at all
            os.rename(os.path.join(aside, each), os.path.join(folder, each))

    assert_waits_and_goes_on(own_service, recorded, name, replace, put_back, "database_newer")


def test_it_waits_while_the_disk_is_full(name):
    service = Instance("--no-limits", **PATIENT)
    folder = os.path.join(service.state, "record")
    os.mkdir(folder)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=0777", "tmpfs", folder], capture_output=True, check=False).returncode != 0:
        service.start()
        service.stop()
        pytest.skip("needs the right to mount a small file system")
    try:
        service.start()
        recorded, ballast = Recorded(service), os.path.join(folder, "ballast")

        def fill():
            with open(ballast, "wb", buffering=0) as file:
                try:
                    while file.write(b"x" * 4096) == 4096:
                        pass
                except OSError:
                    pass

        assert_waits_and_goes_on(service, recorded, name, fill, lambda: os.remove(ballast), None)
    finally:
        subprocess.run([os.path.join(ROOT, "scripts/run"), "--stop", "--state", service.state], check=False, timeout=480)
        subprocess.run(["umount", folder], check=True)
        service.stop()


# --- the tools


def test_reindex_makes_the_index_anew_while_writes_go_on(own_service, name):
    recorded, writers = Recorded(own_service), Writers(name)
    titles = put_some(own_service, name, 50)
    recorded.wait_for(titles)
    with Load(own_service.internal, writers.write) as load:
        for _ in range(3):
            seen(load)
            status, said = freshetctl(own_service, "reindex")
            assert status == 0 and "indexed" in said, said
    assert load.errors == []
    recorded.wait_for(titles | writers.kept)
    recorder = own_service.recorder()
    titles |= put_some(own_service, name)
    recorded.wait_for(titles | writers.kept)
    assert own_service.recorder() == recorder and own_service.status()["recorder respawns"] == 0


def test_rebuild_redis_gives_a_redis_that_lost_everything_its_items_back(instance, name):
    own_service = instance("--no-limits", recorder__rebuild='"manual"', **PATIENT)
    recorded, titles = Recorded(own_service), put_some(own_service, name, 30, tags=["a", "b"], author="me", text="words")
    status, said = freshetctl(own_service, "rebuild-redis")
    assert status == 2 and "--force" in said, said
    hidden = name("hidden")
    own_service.put(hidden, hidden=True)
    wait_until(lambda: own_service.status()["recorder items"] == 31, "the recorder")
    before = {item: own_service.internal().get(f"/api/items/{item}").json() for item in (*titles, hidden)}
    own_service.redis("FLUSHALL")
    status, said = freshetctl(own_service, "rebuild-redis")
    assert status == 0 and "31 items" in said, said
    assert {item: own_service.internal().get(f"/api/items/{item}").json() for item in before} == before
    assert set(own_service.redis("SMEMBERS", "tag:a")) == set(titles)
    assert own_service.redis("XLEN", "recorder:stream") == 0  # the database had them already
    assert own_service.redis("ZRANK", "hot:hidden", hidden) == 0
    titles |= put_some(own_service, name)  # the stream was lost too
    wait_until(lambda: own_service.status()["recorder items"] == 51, "the recorder")
    assert recorded.indexed() == set(titles)
    assert freshetctl(own_service, "rebuild-redis", "--force")[0] == 0
    own_service.check()


def write_items(path, name, count):
    titles = {name("f"): f"title {number}" for number in range(count)}
    with open(path, "w", encoding="utf-8") as file:
        for item, title in titles.items():
            file.write(json.dumps({"id": item, "title": title, "published_at": 1700000000}) + "\n")
    return titles


def notes_of(path):
    try:
        with open(path + ".import", encoding="utf-8") as file:
            return dict(line.strip().split("=", 1) for line in file if "=" in line)
    except OSError:
        return {}


def test_an_import_that_is_killed_goes_on_where_it_was(own_service, name, tmp_path):
    recorded, path = Recorded(own_service), str(tmp_path / "items.ndjson")
    titles = write_items(path, name, 30000)
    command = [CTL, "import", path, "--state", own_service.state]
    sent = 0
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as importer:
            wait_until(lambda: int(notes_of(path).get("accepted", 0)) > sent, "progress", 60)
            os.killpg(importer.pid, signal.SIGKILL)
        sent = int(notes_of(path)["accepted"])
        assert 0 < sent < 30000
    requests = own_service.status()["requests"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=480)
    assert done.returncode == 0, done.stderr
    assert f"going on after {sent:,} items" in done.stderr
    assert "imported 30,000 items" in done.stdout and f"{sent:,} of them by an earlier run" in done.stdout
    assert own_service.status()["requests"] - requests < (30000 - sent) // 1000 + 10
    assert notes_of(path) == {}
    recorded.wait_for(titles, 120)
    own_service.check()


def test_an_import_of_a_file_that_was_changed_meanwhile_begins_anew(own_service, name, tmp_path):
    path = str(tmp_path / "items.ndjson")
    write_items(path, name, 3000)
    with open(path + ".import", "w", encoding="utf-8") as file:
        status = os.stat(path)
        file.write(f"freshetctl import 1\ndevice={status.st_dev}\ninode={status.st_ino}\nsize={status.st_size - 1}\n"
                   f"modified_ns={status.st_mtime_ns}\ntarget=http://{own_service.host}:{own_service.internal_port}\nshift_s=0\noffset=1000\n"
                   "accepted=1000\nrejected=0\nend\n")
    status, said = freshetctl(own_service, "import", path)
    assert status == 0 and "from the beginning" in said and "imported 3,000 items" in said and "earlier run" not in said, said
