"""Items reach SQLite and the search index whatever happens to the recorder, and every tool can read them back."""

import glob
import json
import os
import signal
import sqlite3
import subprocess
import time

import pytest

from client import Load
from recorded import RecorderData, Writers
from service import CTL, LONG_TIMEOUTS, ROOT, Instance, birth, wait_until


def freshetctl(instance, *arguments):
    done = subprocess.run([CTL, *map(str, arguments), "--state", instance.state],
                          capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout + done.stderr


def put_items(instance, name, count=20, **members):
    return {item: instance.put(item, **members)["title"] for item in (name("i") for _ in range(count))}


def wait_for_progress(load, count=50):
    """Waits until the load has completed `count` more calls."""
    before = len(load.results)
    wait_until(lambda: len(load.results) > before + count or load.errors, "load", 60)


# --- what is recorded


def test_an_item_is_in_the_database_and_in_the_index_until_it_is_deleted(own_service, name):
    recorder_data, titles = RecorderData(own_service), put_items(own_service, name)
    hidden = name("hidden")
    own_service.put(hidden, hidden=True)
    wait_until(lambda: own_service.status()["recorder items"] == len(titles) + 1, "the items to be recorded")
    assert set(recorder_data.titles()) == set(titles) | {hidden}
    assert recorder_data.indexed_ids() == set(titles)
    changed, deleted, *_ = titles
    titles[changed] = own_service.put(changed, title="another title")["title"]
    assert own_service.internal().delete(f"/api/items/{deleted}").status == 200
    assert own_service.internal().delete(f"/api/items/{hidden}").status == 200
    del titles[deleted]
    recorder_data.wait_for(titles)
    wait_until(lambda: own_service.status()["recorder entries"] >= 24, "every entry to be acknowledged, which follows the commit")
    status = recorder_data.wait_for_state("running")
    assert status["recorder lag entries"] == 0 and status["recorder pid"] == own_service.recorder()
    assert abs(status["recorder last commit"] - time.time()) < 60
    text = own_service.internal().get("/status").body.decode()
    assert "recorder:             running\n" in text
    own_service.check()


def test_views_are_counted_by_article_and_five_minutes_without_readers(own_service, name):
    item, viewed, hidden, reader = name("i"), name("viewed"), name("hidden"), name("reader")
    for each in (item, viewed):
        own_service.put(each)
    own_service.put(hidden, hidden=True)
    client, begin = own_service.internal(), int(time.time())
    for user in (reader, reader, name("another")):  # the second report is of the same session
        assert client.track(item, 1000, userId=user).status == 200
    assert client.view(viewed, "fingerprint").status == 200
    client.view(hidden, "fingerprint")

    def rows():
        connection = RecorderData(own_service).connect()
        try:
            return list(connection.execute("SELECT bucket, seconds, item, views FROM view_counts"))
        finally:
            connection.close()

    wait_until(lambda: sum(views for _, _, _, views in rows()) == 3, "the views to be recorded")
    assert {each for _, _, each, _ in rows()} == {item, viewed} and sum(views for _, _, each, views in rows() if each == item) == 2
    assert all(seconds == 300 and bucket % 300 == 0 and begin - 300 <= bucket <= time.time() for bucket, seconds, _, _ in rows())
    assert reader not in str(rows())
    status, output = freshetctl(own_service, "tune", "--dry-run")
    assert status == 0 and "3 views of " in output and "Too little traffic yet" in output, output


def test_what_readers_read_next_is_similar_from_three_reads_on(own_service, name):
    read, followed, rare = name("read"), name("followed"), name("rare")
    for each in (read, followed, rare):
        own_service.put(each)
    client = own_service.internal()

    def read_one_after_the_other(reader, *articles):
        for article in articles:
            assert client.track(article, 1000, userId=reader).status == 200
            wait_until(lambda: article in client.get("/api/history", query={"userId": reader}).json()["items"], "the view to be in the history")

    def similar():
        reply = own_service.public().get(f"/api/items/{read}/similar")
        assert reply.status == 200, reply
        return {item["id"]: item["reason"] for item in reply.json()["items"]}

    readers = [name("reader") for _ in range(3)]
    for reader in readers[:2]:
        read_one_after_the_other(reader, read, rare, followed)
        read_one_after_the_other(reader, read)  # again, and the pair after it not once more
    for reader in readers:
        read_one_after_the_other(reader + "2", read, followed)
    wait_until(lambda: similar().get(followed, {}).get("kind") == "also_read", "the pair to be published")
    assert similar()[followed] == {"kind": "also_read", "text": "readers of this also read it"}
    assert similar()[rare]["kind"] != "also_read"
    connection = RecorderData(own_service).connect()
    try:
        rows = sorted(connection.execute("SELECT item, next, count FROM covisits"))
    finally:
        connection.close()
    assert rows == sorted([(read, followed, 3), (read, rare, 2), (rare, followed, 2)])
    own_service.check()


def test_the_recorder_is_optional(instance, name):
    service = instance("--no-limits", recorder__enabled="false", **LONG_TIMEOUTS)
    assert service.recorder() is None and service.status()["recorder"] == "off"
    item = name("i")
    service.put(item)
    assert service.internal().get(f"/api/items/{item}").status == 200


# --- crashes of the recorder


def test_a_recorder_killed_repeatedly_during_writes_loses_nothing(own_service, name):
    recorder_data, writers = RecorderData(own_service), Writers(name)
    workers = set(own_service.workers())
    with Load(own_service.internal, writers.write) as load:
        for _ in range(20):
            wait_for_progress(load)
            victim = wait_until(own_service.recorder, "a recorder")
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda victim=victim: own_service.recorder() not in (None, victim), "a new recorder")
    assert load.errors == [] and writers.refused == 0
    assert len(writers.expected) > 500
    recorder_data.wait_for(writers.expected)
    assert set(own_service.workers()) == workers
    assert own_service.status()["recorder respawns"] >= 20
    own_service.check()


def test_reloads_during_writes_lose_nothing_and_leave_one_recorder(own_service, name):
    recorder_data, writers = RecorderData(own_service), Writers(name)
    with Load(own_service.internal, writers.write) as load:
        for _ in range(5):
            wait_for_progress(load)
            before = wait_until(own_service.recorder, "a recorder")
            own_service.reload()
            wait_until(lambda before=before: own_service.recorder() not in (None, before), "a new recorder")
    assert load.errors == [] and writers.refused == 0
    recorder_data.wait_for(writers.expected)
    assert own_service.status()["recorder respawns"] == 0


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGKILL])
def test_a_stop_during_writes_loses_nothing(own_service, name, signal_number):
    recorder_data, writers = RecorderData(own_service), Writers(name)
    with Load(lambda: own_service.internal(timeout=5), writers.write) as load:
        wait_for_progress(load, 200)
        master = own_service.pid("freshetd")
        own_service.record_processes()
        recorder, began = own_service.recorder(), birth(master)
        born = birth(recorder)
        own_service.signal("freshetd", signal_number)
        wait_until(lambda: birth(master) != began and birth(recorder) != born, "the processes to exit", 40)
        subprocess.run([os.path.join(ROOT, "scripts/run"), "--stop", "--state", own_service.state], check=True, timeout=480)
        own_service.start()
        wait_for_progress(load)
    assert load.errors == []
    recorder_data.wait_for(writers.expected)
    own_service.check()


# --- faults of the disk: the recorder pauses, reports it, and resumes without a restart


def assert_pauses_and_resumes(service, recorder_data, name, break_storage, repair_storage, reason):
    titles = put_items(service, name)
    recorder_data.wait_for(titles)
    break_storage()
    recorder = wait_until(service.recorder, "a recorder")
    titles |= put_items(service, name)
    status = recorder_data.wait_for_state("waiting", reason)
    assert status["recorder waiting since"] > time.time() - 60
    wait_until(lambda: service.status()["recorder lag entries"] >= 20 and service.status()["recorder lag age ms"] > 0, "the lag")
    titles |= put_items(service, name)
    assert service.internal().get("/health/ready").status == 200
    repair_storage()
    recorder_data.wait_for(titles)
    status = recorder_data.wait_for_state("running")
    assert (status["recorder reason"], status["recorder waiting since"]) == ("", 0)
    assert service.recorder() == recorder
    service.check()


def test_the_recorder_pauses_while_another_process_locks_the_database(own_service, name):
    recorder_data, connections = RecorderData(own_service), []

    def lock():
        connections.append(recorder_data.connect())
        connections[0].execute("BEGIN IMMEDIATE")

    assert_pauses_and_resumes(own_service, recorder_data, name, lock, lambda: connections[0].close(), "database_locked")


def test_the_recorder_pauses_while_the_database_is_read_only(own_service, name):
    recorder_data = RecorderData(own_service)
    if os.stat(own_service.state + "/record").st_uid == 0:
        pytest.skip("the service runs as root, which ignores permissions")
    assert_pauses_and_resumes(own_service, recorder_data, name, recorder_data.make_read_only, recorder_data.make_writable, "database_read_only")


def test_the_recorder_does_not_touch_a_database_of_a_later_version(own_service, name):
    folder = own_service.state + "/record"
    database, moved_folder, recorder_data = folder + "/freshet.db", folder + "/moved", RecorderData(own_service)
    owner, written = os.stat(folder), []

    def read():
        with open(database, "rb") as file:
            return file.read()

    def replace():
        os.mkdir(moved_folder)
        for each in glob.glob(database + "*"):
            os.rename(each, os.path.join(moved_folder, os.path.basename(each)))
        later = sqlite3.connect(moved_folder + "/later.db")
        later.executescript("CREATE TABLE later_version (a); PRAGMA user_version = 1000")
        later.close()
        os.chown(moved_folder + "/later.db", owner.st_uid, owner.st_gid)
        os.rename(moved_folder + "/later.db", database)
        written.append(read())

    def put_back():
        assert own_service.status()["recorder reason"] == "database_newer"
        for command in ("reindex", "train", "rebuild-redis"):
            done = subprocess.run([CTL, command, "--state", own_service.state], capture_output=True, text=True, check=False, timeout=240)
            assert done.returncode == 2 and "schema version 1000" in done.stderr and len(done.stderr.splitlines()) == 1, (command, done)
        assert read() == written[0]
        for each in glob.glob(database + "*"):
            os.remove(each)
        # the database last: it appears together with its log, or not at all
        for each in sorted(os.listdir(moved_folder), reverse=True):
            os.rename(os.path.join(moved_folder, each), os.path.join(folder, each))

    assert_pauses_and_resumes(own_service, recorder_data, name, replace, put_back, "database_newer")


def test_the_recorder_pauses_while_the_disk_is_full(name):
    service = Instance("--no-limits", **LONG_TIMEOUTS)
    folder = os.path.join(service.state, "record")
    os.mkdir(folder)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=0777", "tmpfs", folder], capture_output=True, check=False).returncode != 0:
        service.start()
        service.stop()
        pytest.skip("needs the privilege to mount a tmpfs")
    try:
        service.start()
        recorder_data, ballast = RecorderData(service), os.path.join(folder, "ballast")

        def fill():
            with open(ballast, "wb", buffering=0) as file:
                try:
                    while file.write(b"x" * 4096) == 4096:
                        pass
                except OSError:
                    pass

        assert_pauses_and_resumes(service, recorder_data, name, fill, lambda: os.remove(ballast), None)
    finally:
        subprocess.run([os.path.join(ROOT, "scripts/run"), "--stop", "--state", service.state], check=False, timeout=480)
        subprocess.run(["umount", folder], check=True)
        service.stop()


# --- tools


def test_reindex_rebuilds_the_index_during_writes(own_service, name):
    recorder_data, writers = RecorderData(own_service), Writers(name)
    titles = put_items(own_service, name, 50)
    recorder_data.wait_for(titles)
    reader = name("reader")
    for item in titles:
        reply = own_service.internal().post("/api/interactions", {"userId": reader, "topicId": item, "kind": "like"})
        assert reply.status == 200, reply

    def refresh(client, turn):
        # Another query each time is another search.
        return client.post("/api/feed", {"action": "refresh", "agent_id": reader, "limit": 1} | ({"query": f"title {turn}"} if turn % 2 else {})).status

    with Load(own_service.internal, writers.write) as load, Load(own_service.public, refresh) as reads:
        for _ in range(3):
            wait_for_progress(load)
            wait_for_progress(reads)
            status, output = freshetctl(own_service, "reindex")
            assert status == 0 and "indexed" in output, output
        wait_for_progress(reads)
    assert load.errors == [] and reads.errors == [] and set(reads.results) == {200}
    recorder_data.wait_for(titles | writers.expected)
    recorder = own_service.recorder()
    titles |= put_items(own_service, name)
    recorder_data.wait_for(titles | writers.expected)
    assert own_service.recorder() == recorder and own_service.status()["recorder respawns"] == 0


def test_rebuild_redis_restores_the_items_of_a_flushed_redis(instance, name):
    own_service = instance("--no-limits", recorder__rebuild='"manual"', **LONG_TIMEOUTS)
    recorder_data, titles = RecorderData(own_service), put_items(own_service, name, 30, tags=["a", "b"], author="me", text="words")
    status, output = freshetctl(own_service, "rebuild-redis")
    assert status == 2 and "--force" in output, output
    hidden = name("hidden")
    own_service.put(hidden, hidden=True)
    wait_until(lambda: own_service.status()["recorder items"] == 31, "the items to be recorded")
    before = {item: own_service.internal().get(f"/api/items/{item}").json() for item in (*titles, hidden)}
    own_service.redis("FLUSHALL")
    status, output = freshetctl(own_service, "rebuild-redis")
    assert status == 0 and "31 items" in output, output
    assert {item: own_service.internal().get(f"/api/items/{item}").json() for item in before} == before
    assert set(own_service.redis("SMEMBERS", "tag:a")) == set(titles)
    assert own_service.redis("XLEN", "recorder:stream") == 0  # the database already had the items
    assert own_service.redis("ZRANK", "hot:hidden", hidden) == 0
    titles |= put_items(own_service, name)  # the stream was lost too
    wait_until(lambda: own_service.status()["recorder items"] == 51, "the items to be recorded")
    assert recorder_data.indexed_ids() == set(titles)
    assert freshetctl(own_service, "rebuild-redis", "--force")[0] == 0
    own_service.check()


def write_items(path, name, count):
    titles = {name("f"): f"title {number}" for number in range(count)}
    with open(path, "w", encoding="utf-8") as file:
        for item, title in titles.items():
            file.write(json.dumps({"id": item, "title": title, "published_at": 1700000000}) + "\n")
    return titles


def import_progress(path):
    try:
        with open(path + ".import", encoding="utf-8") as file:
            return dict(line.strip().split("=", 1) for line in file if "=" in line)
    except OSError:
        return {}


def test_a_killed_import_resumes_where_it_stopped(own_service, name, tmp_path):
    recorder_data, path = RecorderData(own_service), str(tmp_path / "items.ndjson")
    titles = write_items(path, name, 10000)
    command = [CTL, "import", path, "--state", own_service.state]
    sent = 0
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as importer:
            wait_until(lambda: int(import_progress(path).get("accepted", 0)) > sent, "progress", 60)
            os.killpg(importer.pid, signal.SIGKILL)
        sent = int(import_progress(path)["accepted"])
        assert 0 < sent < 10000
    requests = own_service.status()["requests"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=480)
    assert done.returncode == 0, done.stderr
    assert f"resuming after {sent:,} items" in done.stderr
    assert "imported 10,000 items" in done.stdout and f"{sent:,} of them in an earlier run" in done.stdout
    assert own_service.status()["requests"] - requests < (10000 - sent) // 1000 + 10
    assert import_progress(path) == {}
    recorder_data.wait_for(titles, 120)
    own_service.check()


def test_an_import_of_a_changed_file_starts_over(own_service, name, tmp_path):
    path = str(tmp_path / "items.ndjson")
    write_items(path, name, 3000)
    with open(path + ".import", "w", encoding="utf-8") as file:
        status = os.stat(path)
        file.write(f"freshetctl import 1\ndevice={status.st_dev}\ninode={status.st_ino}\nsize={status.st_size - 1}\n"
                   f"modified_ns={status.st_mtime_ns}\ntarget=http://{own_service.host}:{own_service.internal_port}\nshift_s=0\noffset=1000\n"
                   "accepted=1000\nrejected=0\nend\n")
    status, output = freshetctl(own_service, "import", path)
    assert status == 0 and "from the beginning" in output and "imported 3,000 items" in output and "earlier run" not in output, output
