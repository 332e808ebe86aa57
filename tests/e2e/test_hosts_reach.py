"""What one host makes and the others need: the model, fetched from the host that trains; the search index, served by Xapian's own server."""

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
from recorded import Recorded
from service import CTL, PATIENT, ROOT, wait_until
from test_hosts import finding, freshetctl, holder, lines, ready


def teach(service, name):
    """Something to learn from: ten readers, and what each likes."""
    items = [name("i") for _ in range(6)]
    for each in items:
        service.put(each)
    events = [{"userId": f"u{reader}", "topicId": each, "kind": "like", "at": int(time.time()) - 60}
              for reader in range(10) for number, each in enumerate(items) if (number + reader) % 3]
    body = "\n".join(json.dumps(each) for each in events)
    reply = service.internal().post("/api/interactions", body, headers={"Content-Type": "application/x-ndjson"})
    assert reply.status == 200 and reply.json()["accepted"] == len(events), reply
    recorded = Recorded(service)

    def interactions():
        connection = recorded.connect()
        try:
            return connection.execute("SELECT count(*) FROM interactions").fetchone()[0]
        finally:
            connection.close()

    wait_until(lambda: interactions() >= len(events), "the recorder")


def train(service):
    done = subprocess.run([CTL, "train", "--json", "--state", service.state], capture_output=True, text=True, check=False, timeout=480)
    assert done.returncode == 0, done.stdout + done.stderr


def internal_url(service):
    return f"http://{service.host}:{service.internal_port}"


def fetch(service, *arguments):
    """(exit status, what it said) of fetch-model."""
    done = subprocess.run([CTL, "fetch-model", "--json", "--state", service.state, *arguments], capture_output=True, text=True, check=False, timeout=240)
    return done.returncode, done.stdout + done.stderr


def model(service):
    with open(os.path.join(service.state, "record/freshet.model"), "rb") as file:
        return file.read()


def answers(service):
    """Statuses of the file, as nginx logged them: each of its processes by itself, so in any order."""
    wait_until(lambda: "/freshet.model" in service.log("freshet-internal"), "nginx's log")
    return [json.loads(line)["status"] for line in service.log("freshet-internal").splitlines() if '"/freshet.model"' in line]


def test_the_model_of_the_host_that_trains_reaches_another(instance, name):
    first = instance("--no-limits", **PATIENT)
    second = instance("--no-limits", beside=first, recorder__enabled="false", **PATIENT)
    url = internal_url(first)
    first.configure(train__publish='""')
    first.renew()
    assert_problem(first.internal().get("/api/model"), 404, "no_model")
    status, said = fetch(second, url)
    assert status == 2 and f"{url}: it has no model: train.publish there, and freshetctl train" in said, said
    first.configure()
    first.renew()
    status, said = fetch(second, url)
    assert status == 2 and "it has no model" in said, said  # nothing is trained yet
    assert first.public().get("/api/model").status == 404
    teach(first, name)
    train(first)
    status, said = fetch(second, url)
    assert status == 0 and json.loads(said)["changed"] is True, said
    assert model(second) == model(first)
    wait_until(lambda: second.status()["model ready"] == len(second.workers()), "the model")
    assert lines(ready(second)) == ["ready", "writes:true", "missing:index"]
    # What has not changed is not sent again; what was lost here, or is another, is.
    status, said = fetch(second, url)
    assert status == 0 and json.loads(said)["changed"] is False, said
    wait_until(lambda: 304 in answers(first), "nginx's log")
    before = model(second)
    os.remove(os.path.join(second.state, "record/freshet.model"))
    status, said = fetch(second, url)
    assert status == 0 and json.loads(said)["changed"] is True and model(second) == before, said
    first.put(name("i"))
    wait_until(lambda: len(Recorded(first).titles()) == 7, "the recorder")
    train(first)
    status, said = fetch(second, url)
    assert status == 0 and json.loads(said)["changed"] is True and model(second) == model(first) != before, said


def test_what_is_no_model_of_this_version_is_refused_and_the_one_before_stays(instance, name):
    first = instance("--no-limits", **PATIENT)
    second = instance("--no-limits", beside=first, recorder__enabled="false", **PATIENT)
    folder = os.path.join(first.state, "model")
    teach(first, name)
    train(first)
    second.configure(recommend__model_from=f'"{internal_url(first)}"')
    assert fetch(second)[0] == 0
    good = model(second)
    other_version = good[:8] + struct.pack("<I", 3) + good[12:]
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    bad_ones = ((b"", "it is empty"), (b"<html>", "too short"), (b"no model at all" * 100, "it is no model file"), (other_version, "version 3, this program reads 2"),
                (good[:-100], "its length"), (damaged, "checksum"))
    for number, (bad, why) in enumerate(bad_ones):
        with open(os.path.join(folder, "freshet.model"), "wb") as file:
            file.write(bad)
        os.utime(file.name, (number, number))  # nginx tells files apart by second and size
        status, said = fetch(second)
        assert status == 2 and why in said and "stays as it was" in said and len(said.splitlines()) == 1, said
        assert model(second) == good
    assert [each for each in os.listdir(os.path.join(second.state, "record")) if each.endswith(".new")] == []
    # Keys of the internal server are asked for, and those of the configuration used.
    key = os.path.join(first.state, "etc/key")
    with open(key, "w", encoding="ascii") as file:
        file.write("0123456789abcdef" * 4)
    os.chmod(key, 0o644)
    with open(os.path.join(folder, "freshet.model"), "wb") as file:
        file.write(good)
    first.configure(identity__internal_keys=f'{{ k1 = "{key}" }}')
    first.renew()
    status, said = fetch(second)
    assert status == 2 and "it wants signed requests" in said, said
    assert fetch(second, "--key", f"k1:{key}")[0] == 0
    second.configure(recommend__model_from=f'"{internal_url(first)}"', identity__internal_keys=f'{{ k1 = "{key}" }}')
    assert fetch(second)[0] == 0
    status, said = fetch(second, "http://127.0.0.1:1")
    assert status == 2 and "http://127.0.0.1:1: Connection refused" in said, said
    assert model(second) == good


# --- the index


class Shard:
    """freshet-search@.service on a host, by the command of the unit."""

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


def half_of(service, folder, keep):
    """An index of some of the items, made by reindex from a database that has no others."""
    os.makedirs(folder)
    database = os.path.join(folder, "half.db")
    with sqlite3.connect(Recorded(service).database) as source, sqlite3.connect(database) as copy:
        source.backup(copy)
        copy.execute(f"DELETE FROM items WHERE id NOT IN ({','.join('?' * len(keep))})", keep)
    config = os.path.join(folder, "half.toml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f'recorder.database = "{database}"\nsearch.index = "{folder}/index"\n')
    done = subprocess.run([CTL, "reindex", "--config", config, "--json"], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["indexed"] == len(keep), done.stdout
    return os.path.join(folder, "index")


def searched(service, reader, text):
    reply = service.public().post("/api/feed", {"action": "refresh", "limit": 50, "userId": reader, "query": text})
    assert reply.status == 200, reply
    return reply.json()["data"]


def test_two_shards_on_two_hosts_are_one_index(instance, name, tmp_path):
    first = instance("--no-limits", **PATIENT)
    items = [name("i") for _ in range(30)]
    for number, each in enumerate(items):
        # Of different lengths and ages, so that no two have the same score.
        first.put(each, title=f"whale {'and ' * number}", published_at=int(time.time()) - 86400 * number)
    wait_until(lambda: Recorded(first).indexed() == set(items), "the index")
    second = instance("--no-limits", beside=first, recorder__enabled="false", **PATIENT)
    shards = [Shard(host.host, half_of(first, str(tmp_path / str(number)), items[number::2])) for number, host in enumerate((first, second))]
    try:
        for each in shards:
            each.start()
        second.configure(recorder__enabled="false", search__shards=json.dumps([each.address for each in shards]))
        second.renew()
        wait_until(lambda: second.status()["index documents"] == len(items), "the shards")
        whole, both = searched(first, name("r"), "whale"), searched(second, name("r"), "whale")
        order = [each["id"] for each in whole["items"]]
        assert "degraded" not in both and [each["id"] for each in both["items"]] == order and sorted(order) == sorted(items)
        first.expects_refusals = True  # of what the doctor asks whether the account may
        assert finding(second, "search.shards")["grade"] == "ok"
        shards[1].stop()
        wait_until(lambda: second.status()["missing"] == "index,model", "the loss of a shard to be noticed")
        assert searched(second, name("r"), "whale")["missing"] == "index"
        _, said = freshetctl(second, "doctor", "--json", "--nginx", "")
        graded = {each["what"].partition(": ")[0]: each["grade"] for each in json.loads(said)["findings"] if each["check"] == "search.shards"}
        assert graded == {f"15 documents at {shards[0].address}": "ok", shards[1].address: "error"}, said
        shards[1].start()
        wait_until(lambda: second.status()["missing"] == "model", "the return of the shard")
        assert [each["id"] for each in searched(second, name("r"), "whale")["items"]] == order
    finally:
        for each in shards:
            each.stop()


def test_another_host_searches_what_the_recorder_of_the_first_writes(instance, name):
    first = instance("--no-limits", **PATIENT)
    shard = Shard(first.host, Recorded(first).index)
    first.put(name("i"))
    wait_until(lambda: Recorded(first).indexed(), "the index")
    shard.start()
    try:
        second = instance("--no-limits", beside=first, recorder__enabled="false", search__shards=f'["{shard.address}"]', **PATIENT)
        put = name("later")
        second.put(put, title="a whale")
        wait_until(lambda: [each["id"] for each in searched(second, name("r"), "whale")["items"]] == [put], "the new item")
    finally:
        shard.stop()


def test_what_needs_the_database_names_the_host_that_has_it(instance, name):
    first = instance("--no-limits", **PATIENT)
    second = instance("--no-limits", beside=first, recorder__enabled="false", **PATIENT)
    reader, item = name("r"), name("i")
    first.put(item)
    assert second.internal().post("/api/interactions", {"userId": reader, "topicId": item, "kind": "like"}).json()["accepted"] == 1
    wait_until(lambda: (first.internal().get(f"/api/users/{reader}").json()["database"] or {}).get("interactions"), "the recorder")
    exported = second.internal().get(f"/api/users/{reader}").json()
    assert exported["database"] is None and exported["no_database"].startswith("ask the host that records: ") and exported["redis"] != []
    assert holder(first) in exported["no_database"], exported
    for command in (["train"], ["reindex"]):
        status, said = freshetctl(second, *command)
        assert status == 2 and "recorder.enabled is false: the database is on the host" in said, said
    # One that was left behind by a recorder of another Redis is not this site's.
    other = instance("--no-limits", **PATIENT)
    shutil.copy(Recorded(other).database, os.path.join(second.state, "record/freshet.db"))
    owner = os.stat(os.path.join(second.state, "record"))
    os.chown(os.path.join(second.state, "record/freshet.db"), owner.st_uid, owner.st_gid)
    second.configure(recorder__enabled="true")
    second.renew()
    Recorded(second).wait_until_it("waiting", "database_mismatch")
    exported = second.internal().get(f"/api/users/{reader}").json()
    assert exported["database"] is None and holder(first) in exported["no_database"], exported
