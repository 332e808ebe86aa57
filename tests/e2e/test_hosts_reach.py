"""Data that one host produces and others need: the model, fetched from the training host, and the search index, served by
Xapian's own server.
"""

import json
import os
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import time

from client import assert_problem
from recorded import RecorderData
from service import CTL, LONG_TIMEOUTS, ROOT, wait_until
from test_hosts import finding, freshetctl, lines, ready, recorder_pid


def record_likes(service, name):
    """Records training data: ten readers and the items that they like."""
    items = [name("i") for _ in range(6)]
    for each in items:
        service.put(each)
    events = [{"userId": f"u{reader}", "topicId": each, "kind": "like", "at": int(time.time()) - 60}
              for reader in range(10) for number, each in enumerate(items) if (number + reader) % 3]
    body = "\n".join(json.dumps(each) for each in events)
    reply = service.internal().post("/api/interactions", body, headers={"Content-Type": "application/x-ndjson"})
    assert reply.status == 200 and reply.json()["accepted"] == len(events), reply
    recorder_data = RecorderData(service)

    def interactions():
        connection = recorder_data.connect()
        try:
            return connection.execute("SELECT count(*) FROM interactions").fetchone()[0]
        finally:
            connection.close()

    wait_until(lambda: interactions() >= len(events), "the interactions to be recorded")


def train(service):
    done = subprocess.run([CTL, "train", "--json", "--state", service.state], capture_output=True, text=True, check=False, timeout=480)
    assert done.returncode == 0, done.stdout + done.stderr


def internal_url(service):
    return f"http://{service.host}:{service.internal_port}"


def fetch_model(service, *arguments):
    """Runs fetch-model. Returns (exit status, output)."""
    done = subprocess.run([CTL, "fetch-model", "--json", "--state", service.state, *arguments], capture_output=True, text=True, check=False, timeout=240)
    return done.returncode, done.stdout + done.stderr


def model_bytes(service):
    with open(os.path.join(service.state, "record/freshet.model"), "rb") as file:
        return file.read()


def logged_statuses(service):
    """Statuses of requests for the model file in nginx's log. nginx's processes write independently, so the order is arbitrary."""
    wait_until(lambda: "/freshet.model" in service.log("freshet-internal"), "the request in nginx's log")
    return [json.loads(line)["status"] for line in service.log("freshet-internal").splitlines() if '"/freshet.model"' in line]


def test_another_host_fetches_the_model_of_the_training_host(instance, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    second = instance("--no-limits", peer=first, recorder__enabled="false", **LONG_TIMEOUTS)
    url = internal_url(first)
    first.configure(train__publish='""')
    first.reload_and_drain()
    assert_problem(first.internal().get("/api/model"), 404, "no_model")
    status, output = fetch_model(second, url)
    assert status == 2 and f"{url}: it has no model: set train.publish and run `freshetctl train` there" in output, output
    first.configure()
    first.reload_and_drain()
    status, output = fetch_model(second, url)
    assert status == 2 and "it has no model" in output, output  # nothing has been trained yet
    assert first.public().get("/api/model").status == 404
    record_likes(first, name)
    train(first)
    status, output = fetch_model(second, url)
    assert status == 0 and json.loads(output)["changed"] is True, output
    assert model_bytes(second) == model_bytes(first)
    wait_until(lambda: second.status()["model ready"] == len(second.workers()), "the workers to load the model")
    assert lines(ready(second)) == ["ready", "writes:true", "missing:index"]
    # An unchanged model is not sent again. One that was lost here, or differs, is.
    status, output = fetch_model(second, url)
    assert status == 0 and json.loads(output)["changed"] is False, output
    wait_until(lambda: 304 in logged_statuses(first), "the request in nginx's log")
    before = model_bytes(second)
    os.remove(os.path.join(second.state, "record/freshet.model"))
    status, output = fetch_model(second, url)
    assert status == 0 and json.loads(output)["changed"] is True and model_bytes(second) == before, output
    first.put(name("i"))
    wait_until(lambda: len(RecorderData(first).titles()) == 7, "the item to be recorded")
    train(first)
    status, output = fetch_model(second, url)
    assert status == 0 and json.loads(output)["changed"] is True and model_bytes(second) == model_bytes(first) != before, output


def test_an_invalid_model_is_refused_and_the_previous_one_is_kept(instance, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    second = instance("--no-limits", peer=first, recorder__enabled="false", **LONG_TIMEOUTS)
    folder = os.path.join(first.state, "model")
    record_likes(first, name)
    train(first)
    second.configure(recommend__model_from=f'"{internal_url(first)}"')
    assert fetch_model(second)[0] == 0
    good = model_bytes(second)
    other_version = good[:8] + struct.pack("<I", 4) + good[12:]
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    bad_models = ((b"", "the file is empty"), (b"<html>", "too short"), (b"no model at all" * 100, "not a model file"), (other_version, "version 4; this program supports version 3"),
                  (good[:-100], "the length"), (damaged, "checksum"))
    for number, (bad, why) in enumerate(bad_models):
        with open(os.path.join(folder, "freshet.model"), "wb") as file:
            file.write(bad)
        os.utime(file.name, (number, number))  # nginx identifies a file's version by its modification time and size
        status, output = fetch_model(second)
        assert status == 2 and why in output and "is unchanged" in output and len(output.splitlines()) == 1, output
        assert model_bytes(second) == good
    assert [each for each in os.listdir(os.path.join(second.state, "record")) if each.endswith(".new")] == []
    # The internal server's keys are required, and those in the configuration are used.
    key = os.path.join(first.state, "etc/key")
    with open(key, "w", encoding="ascii") as file:
        file.write("0123456789abcdef" * 4)
    os.chmod(key, 0o644)
    with open(os.path.join(folder, "freshet.model"), "wb") as file:
        file.write(good)
    first.configure(identity__internal_keys=f'{{ k1 = "{key}" }}')
    first.reload_and_drain()
    status, output = fetch_model(second)
    assert status == 2 and "it requires signed requests" in output, output
    assert fetch_model(second, "--key", f"k1:{key}")[0] == 0
    second.configure(recommend__model_from=f'"{internal_url(first)}"', identity__internal_keys=f'{{ k1 = "{key}" }}')
    assert fetch_model(second)[0] == 0
    status, output = fetch_model(second, "http://127.0.0.1:1")
    assert status == 2 and "http://127.0.0.1:1: Connection refused" in output, output
    assert model_bytes(second) == good


# --- search index


class Shard:
    """freshet-search@.service of a host, started with the unit's command."""

    def __init__(self, host, index):
        with open(os.path.join(ROOT, "systemd/freshet-search@.service"), encoding="utf-8") as file:
            unit = file.read()
        self.port = re.search(r"^Environment=PORT=(\d+)$", unit, re.M)[1]
        command = re.search(r"^ExecStart=(.*)$", unit, re.M)[1].replace("%I", host).replace("${PORT}", self.port)
        self._command = command.replace("/var/lib/freshet/index", index).split()
        self.address, self._process = f"{host}:{self.port}", None

    def start(self):
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        return self

    def stop(self):
        if self._process:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None


def build_partial_index(service, folder, item_ids):
    """Builds an index of some of the items, with reindex, from a database that holds only those."""
    os.makedirs(folder)
    database = os.path.join(folder, "half.db")
    with sqlite3.connect(RecorderData(service).database) as source, sqlite3.connect(database) as partial:
        source.backup(partial)
        partial.execute(f"DELETE FROM items WHERE id NOT IN ({','.join('?' * len(item_ids))})", item_ids)
    config = os.path.join(folder, "half.toml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f'recorder.database = "{database}"\nsearch.index = "{folder}/index"\n')
    done = subprocess.run([CTL, "reindex", "--config", config, "--json"], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["indexed"] == len(item_ids), done.stdout
    return os.path.join(folder, "index")


def search(service, reader, text):
    reply = service.public().post("/api/feed", {"action": "refresh", "limit": 50, "userId": reader, "query": text})
    assert reply.status == 200, reply
    return reply.json()["data"]


def test_two_shards_on_two_hosts_act_as_one_index(instance, name, tmp_path):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    items = [name("i") for _ in range(30)]
    for number, each in enumerate(items):
        # Different lengths and ages, so that no two have the same score.
        first.put(each, title=f"whale {'and ' * number}", published_at=int(time.time()) - 86400 * number)
    wait_until(lambda: RecorderData(first).indexed_ids() == set(items), "the items to be indexed")
    second = instance("--no-limits", peer=first, recorder__enabled="false", **LONG_TIMEOUTS)
    shards = [Shard(host.host, build_partial_index(first, str(tmp_path / str(number)), items[number::2])) for number, host in enumerate((first, second))]
    try:
        for each in shards:
            each.start()
        second.configure(recorder__enabled="false", search__shards=json.dumps([each.address for each in shards]))
        second.reload_and_drain()
        wait_until(lambda: second.status()["index documents"] == len(items), "both shards to be opened")
        single, sharded = search(first, name("r"), "whale"), search(second, name("r"), "whale")
        order = [each["id"] for each in single["items"]]
        assert "degraded" not in sharded and [each["id"] for each in sharded["items"]] == order and sorted(order) == sorted(items)
        first.expects_acl_denials = True  # doctor tests the account's rights
        assert finding(second, "search.shards")["grade"] == "ok"
        shards[1].stop()
        wait_until(lambda: second.status()["missing"] == "index,model", "the workers to notice the missing shard")
        assert search(second, name("r"), "whale")["missing"] == "index"
        _, output = freshetctl(second, "doctor", "--json", "--nginx", "")
        grades = {each["what"].partition(": ")[0]: each["grade"] for each in json.loads(output)["findings"] if each["check"] == "search.shards"}
        assert grades == {f"15 documents at {shards[0].address}": "ok", shards[1].address: "error"}, output
        shards[1].start()
        wait_until(lambda: second.status()["missing"] == "model", "the workers to reconnect to the shard")
        assert [each["id"] for each in search(second, name("r"), "whale")["items"]] == order
    finally:
        for each in shards:
            each.stop()


def test_another_host_searches_the_index_of_the_recording_host(instance, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    shard = Shard(first.host, RecorderData(first).index)
    first.put(name("i"))
    wait_until(lambda: RecorderData(first).indexed_ids(), "the item to be indexed")
    shard.start()
    try:
        second = instance("--no-limits", peer=first, recorder__enabled="false", search__shards=f'["{shard.address}"]', **LONG_TIMEOUTS)
        item = name("later")
        second.put(item, title="a whale")
        wait_until(lambda: [each["id"] for each in search(second, name("r"), "whale")["items"]] == [item], "the new item to be found")
    finally:
        shard.stop()


def test_operations_that_need_the_database_name_the_host_that_has_it(instance, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    second = instance("--no-limits", peer=first, recorder__enabled="false", **LONG_TIMEOUTS)
    reader, item = name("r"), name("i")
    first.put(item)
    assert second.internal().post("/api/interactions", {"userId": reader, "topicId": item, "kind": "like"}).json()["accepted"] == 1
    wait_until(lambda: (first.internal().get(f"/api/users/{reader}").json()["database"] or {}).get("interactions"), "the interaction to be recorded")
    exported = second.internal().get(f"/api/users/{reader}").json()
    assert exported["database"] is None and exported["no_database"].startswith("available on the recording host: ") and exported["redis"] != []
    assert recorder_pid(first) in exported["no_database"], exported
    for command in (["train"], ["reindex"]):
        status, output = freshetctl(second, *command)
        assert status == 2 and "recorder.enabled is false: the database is on the host" in output, output
    # A database left behind by a recorder of another Redis does not belong to this site.
    other = instance("--no-limits", **LONG_TIMEOUTS)
    shutil.copy(RecorderData(other).database, os.path.join(second.state, "record/freshet.db"))
    owner = os.stat(os.path.join(second.state, "record"))
    os.chown(os.path.join(second.state, "record/freshet.db"), owner.st_uid, owner.st_gid)
    second.configure(recorder__enabled="true")
    second.reload_and_drain()
    RecorderData(second).wait_for_state("waiting", "database_mismatch")
    exported = second.internal().get(f"/api/users/{reader}").json()
    assert exported["database"] is None and recorder_pid(first) in exported["no_database"], exported
