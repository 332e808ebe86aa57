"""Two instances on one Redis, as two hosts of one deployment are."""

import json
import os
import shutil
import signal
import subprocess
import time

from client import Load
from recorded import Recorded, Writers
from service import CTL, PATIENT, ROOT, birth, children, wait_until
from test_privacy import forget, job, recorded_interactions, wait_done, wait_recorded


def freshetctl(service, *arguments):
    """As the operator of the Redis that both have."""
    account = f"freshet-operator:{service.beside.state}/etc/redis-operator"
    done = subprocess.run([CTL, *arguments, "--state", service.state, "--redis-user", account], capture_output=True, text=True, check=False, timeout=480)
    return done.returncode, done.stdout + done.stderr


def finding(service, check):
    _, said = freshetctl(service, "doctor", "--json", "--nginx", "")
    return next(each for each in json.loads(said)["findings"] if each["check"] == check)


def holder(service):
    return f"pid {service.recorder()}"


def test_a_second_recorder_is_refused_and_says_who_records(instance, name):
    first = instance("--no-limits", **PATIENT)
    first.expects_refusals = True  # of what the doctor asks whether the account may
    recorded, writers = Recorded(first), Writers(name)
    wait_until(lambda: first.status()["recorder"] == "running", "the recorder")
    second = instance("--no-limits", beside=first, **PATIENT)
    Recorded(second).wait_until_it("waiting", "database_mismatch")
    with Load(first.internal, writers.write, 2) as here, Load(second.internal, writers.write, 2) as there:
        wait_until(lambda: min(len(here.results), len(there.results)) > 100 or here.errors or there.errors, "writes")
    assert not here.errors and not there.errors
    recorded.wait_for(writers.kept)
    assert Recorded(second).titles() == {}
    for each in (first, second):
        wait_until(lambda each=each: holder(first) in each.status()["recorder holder"], "who records")
    assert "event=recorder_paused for=database_mismatch" in second.log() and holder(first) in second.log()
    assert finding(second, "recorder.alive")["grade"] == "ok"
    assert holder(first) in finding(second, "recorder.alive")["what"]
    refused = finding(second, "redis.items")
    assert refused["grade"] == "error" and holder(first) in refused["what"], refused
    status, said = freshetctl(second, "rebuild-redis")
    assert status == 2 and holder(first) in said, said
    status, said = freshetctl(second, "rebuild-redis", "--force")
    assert status == 2 and "which records" in said, said
    first.check()


def test_a_recorder_takes_over_from_a_host_that_died_with_a_copy_of_its_database(instance, name):
    first = instance("--no-limits", **PATIENT)
    recorded, writers = Recorded(first), Writers(name)
    second = instance("--no-limits", beside=first, recorder__enabled="false", **PATIENT)
    with Load(second.internal, writers.write, 2) as load:
        wait_until(lambda: len(load.results) > 200 or load.errors, "writes")
        recorder, born = first.recorder(), birth(first.recorder())
        first.note_processes()
        first.signal("freshetd", signal.SIGKILL)
        wait_until(lambda: birth(recorder) != born, "the first host's end")
        # What a replicated volume would have.
        folder = os.path.dirname(recorded.database)
        for each in os.listdir(folder):
            if each.startswith("freshet.db"):
                shutil.copy(os.path.join(folder, each), os.path.join(second.state, "record", each))
        owner = os.stat(os.path.join(second.state, "record"))
        for each in os.listdir(os.path.join(second.state, "record")):
            os.chown(os.path.join(second.state, "record", each), owner.st_uid, owner.st_gid)
        second.configure(recorder__enabled="true")
        second.reload()
        began = time.monotonic()
        Recorded(second).wait_until_it("running")
        assert time.monotonic() - began < 30
        seen = len(load.results)
        wait_until(lambda: len(load.results) > seen + 100 or load.errors, "writes")
    assert not load.errors
    wait_until(lambda: Recorded(second).titles() == writers.kept, "the recorder", 60)
    wait_until(lambda: holder(second) in second.status()["recorder holder"], "who records")


def test_a_host_with_an_empty_database_is_given_redis_by_a_command(instance, name):
    first = instance("--no-limits", **PATIENT)
    before = {item: first.put(item)["title"] for item in (name("before") for _ in range(20))}
    Recorded(first).wait_for(before)
    second = instance("--no-limits", beside=first, **PATIENT)
    Recorded(second).wait_until_it("waiting", "database_mismatch")
    recorder, born = first.recorder(), birth(first.recorder())
    first.configure(recorder__enabled="false")
    first.reload()
    wait_until(lambda: birth(recorder) != born, "the end of the first recorder")
    item = name("after")
    second.put(item)
    Recorded(second).wait_until_it("waiting", "database_mismatch")
    status, said = freshetctl(second, "rebuild-redis", "--force")
    assert status == 0, said
    wait_until(lambda: item in Recorded(second).titles(), "the recorder")
    assert before.keys().isdisjoint(Recorded(second).titles())  # to be imported


def test_what_another_host_s_spool_holds_of_an_erased_reader_is_void(instance, name):
    first = instance("--no-limits", **PATIENT)
    second = instance("--no-limits", beside=first, recorder__enabled="false", **PATIENT)
    item, gone, stays = name("i"), name("gone"), name("stays")
    first.put(item)
    first.lose_redis()
    wait_until(lambda: second.status()["redis ready"] == 0, "the loss of Redis to be noticed")
    for reader in (gone, stays):
        assert second.public().track(item, 20000, userId=reader, sessionId=reader).status == 202
        assert second.public().view(item, reader).status == 202
        assert second.public().post("/api/history", {"userId": reader, "topicId": item}).status == 202
        assert second.internal().post("/api/interactions", {"userId": reader, "topicId": item, "kind": "like"}).json()["accepted"] == 1
    # It is off for a while, with all that in its spools.
    master = second.pid("freshetd")
    all_of_it = [(pid, birth(pid)) for pid in (master, *children(master))]
    second.note_processes()
    second.signal("freshetd", signal.SIGKILL)
    wait_until(lambda: not any(birth(pid) == born for pid, born in all_of_it), "its end")
    first.restart_redis()
    wait_until(lambda: first.status()["redis ready"] > 0 and first.status()["recorder"] == "running", "Redis")
    number = wait_until(lambda: (reply := first.internal().delete(f"/api/users/{gone}")).status == 202 and reply.json()["job"], "the job")
    wait_until(lambda: job(first, number)["state"] == "waiting", "the job")
    assert [each.partition(":")[2] for each in job(first, number)["hosts"]] == [f"{second.state}/spool"]
    first.expects_refusals = True  # of what the doctor asks whether the account may
    warned = finding(second, "spools.hosts")
    assert warned["grade"] == "warning" and f"{second.state}/spool" in warned["what"], warned
    assert 8 * 86400 - 60 < first.redis("TTL", f"job:{number}") <= 8 * 86400  # longer than a spool may live
    subprocess.run([os.path.join(ROOT, "scripts/run"), "--stop", "--state", second.state], check=True, timeout=480, capture_output=True)
    second.start()
    wait_until(lambda: not [each for each in os.listdir(os.path.join(second.state, "spool")) if each.endswith(".spool")], "its spools to be applied")
    wait_done(first, number)
    assert "hosts" not in job(first, number) and finding(second, "spools.hosts")["grade"] == "ok"
    wait_recorded(first, stays, 1)
    assert first.keys_of(stays) != [] and first.keys_of(gone) == []
    assert recorded_interactions(first, gone) == 0
    exported = first.internal().get(f"/api/users/{gone}").json()
    assert exported["redis"] == [] and exported["database"]["interactions"] == []
    first.check()


def ready(service):
    return service.internal().get("/health/ready")


def lines(reply):
    return reply.body.decode().splitlines()


def test_a_host_without_index_and_model_says_so_and_its_feeds_have_what_redis_has(instance, name):
    first = instance("--no-limits", **PATIENT)
    first.expects_refusals = True  # of what the doctor asks whether the account may
    second = instance("--no-limits", beside=first, recorder__enabled="false", **PATIENT)
    put = [name("i") for _ in range(8)]
    for each in put:
        first.put(each)
    Recorded(first).wait_for({each: f"about {each}" for each in put})
    hot, reader = put[3], name("r")
    assert second.public().track(hot, 20000, userId=name("u"), sessionId=name("s")).status == 200
    first.await_placed()
    second.await_placed()
    wait_until(lambda: first.status()["index documents"] == len(put), "the index to be seen")
    wait_until(lambda: "missing:model" in lines(ready(first)), "what the first has")
    assert lines(ready(second)) == ["ready", "writes:true", "missing:index,model"]
    assert 'freshet_dependency_missing{what="index"} 1' in second.internal().get("/metrics").body.decode()
    assert finding(second, "ready")["grade"] == "warning"

    def page(action, limit=5):
        reply = second.public().post("/api/feed", {"action": action, "limit": limit, "userId": reader})
        assert reply.status == 200, reply
        data = reply.json()["data"]
        assert (data["degraded"], data["missing"], reply.headers["Freshet-Degraded"]) == (True, "index", "true")
        return [each["id"] for each in data["items"]]

    begun = page("refresh")
    assert len(begun) == 5 and hot in begun
    assert sorted(begun + page("load_more")) == sorted(put)
    assert page("refresh") == []
    typed = second.public().post("/api/feed", {"action": "refresh", "userId": reader, "query": "about"}).json()["data"]
    assert typed["items"] == [] and typed["missing"] == "index" and not typed["exhausted"]
    second.configure(ready__require='["redis", "index"]')
    second.renew()
    reply = ready(second)
    assert reply.status == 503 and reply.json()["code"] == "not_ready" and reply.json()["detail"] == "without index,model", reply
    assert finding(second, "ready")["grade"] == "error"


def test_nobody_waits_for_a_host_whose_spools_are_too_old_to_be_read(instance, name):
    first = instance("--no-limits", **PATIENT, spool__max_age='"1h"')
    wait_until(lambda: first.redis("ZCARD", "recorder:spools") == 1, "the host to register")
    asked, now = int(time.time() * 1000), int(time.time() * 1000)
    first.redis("ZADD", "recorder:spools", now - 1000, "lost:/spool")
    number = forget(first, name("r"))
    wait_until(lambda: job(first, number)["state"] == "waiting", "the job")
    assert job(first, number)["hosts"] == ["lost:/spool"]
    first.redis("HSET", f"job:{number}", "at", asked - 3601 * 1000)
    assert job(first, number)["state"] == "done" and "hosts" not in job(first, number)
    # Silent for longer than a spool may live when somebody else is erased: it is gone.
    first.redis("ZADD", "recorder:spools", now - 3602 * 1000, ":erasure", now - 3603 * 1000, "lost:/spool")
    wait_done(first, forget(first, name("r")))
    assert first.redis("ZSCORE", "recorder:spools", "lost:/spool") is None


def test_a_host_answers_an_erasure_only_when_nothing_waits_in_its_spools(instance, name):
    first = instance("--no-limits", **PATIENT)
    wait_until(lambda: first.redis("ZCARD", "recorder:spools") == 1, "the host to register")
    # What a dead worker left, and nobody can read: it may hold anything.
    with open(os.path.join(first.state, "spool/1.spool"), "wb") as file:
        file.write(b"x" * 8192)
    number = forget(first, name("r"))
    wait_until(lambda: job(first, number)["state"] == "waiting", "the job")
    assert [each.partition(":")[2] for each in job(first, number)["hosts"]] == [f"{first.state}/spool"]
    os.remove(file.name)
    wait_done(first, number)


def test_a_client_gets_the_rate_of_each_host(instance, name):
    """Buckets are of a host: who asks all of them has the sum. nginx's limits are likewise."""
    limits = {"limits__history_rate": "0.001", "limits__history_burst": "7"}
    first = instance(**limits, **PATIENT)
    second = instance(beside=first, recorder__enabled="false", **limits, **PATIENT)
    reader, taken = name("r"), {}
    for host in (first, second, first, second):
        for _ in range(10):
            reply = host.public().post("/api/history", {"userId": reader, "topicId": name("i")})
            assert reply.status in (200, 429), reply
            taken[host.host] = taken.get(host.host, 0) + (reply.status == 200)
    assert taken == {first.host: 7, second.host: 7}


def tool(service, *arguments):
    """As the service of this host is in Redis."""
    done = subprocess.run([CTL, *arguments, "--state", service.state], capture_output=True, text=True, check=False, timeout=480)
    return done.returncode, done.stdout + done.stderr


def test_each_tool_works_from_a_host_that_does_not_record_with_the_account_it_needs(instance, name):
    first = instance("--no-limits", **PATIENT)
    first.expects_refusals = True  # of what the service's account may not
    second = instance("--no-limits", beside=first, recorder__enabled="false", **PATIENT)
    reader = name("r")
    for each in (name("i") for _ in range(5)):
        first.put(each)
        assert second.public().track(each, 20000, userId=reader, sessionId=reader).status == 200
    assert second.internal().get("/api/waterfall/discover", query={"userId": reader}).status == 200
    second.await_placed()
    for command in (["push-recommendations", "discover", "--json"], ["top-contributors", "--json"], ["rebuild-rank", "--json"], ["explain", reader], ["status"], ["revert-visitor", "--reader", reader, "-n", "--json"]):
        status, said = tool(second, *command)
        assert status == 0, (command, said)
    assert first.internal().get("/api/waterfall/discover", query={"userId": reader}).json()["items"]
    second.await_placed()
    for command in (["check"], ["check", "--sweep"]):
        status, said = tool(second, *command)
        assert status == 2 and "no permissions" in said, said
        status, said = freshetctl(second, *command)
        assert status == 0 and "0 violations" in said, said
    status, said = freshetctl(second, "doctor", "--json", "--nginx", "")
    assert status == 0 and json.loads(said)["errors"] == 0, said
    for command, why in ((["train"], "recorder.enabled is false"), (["reindex"], "recorder.enabled is false"), (["evaluate"], "recorder.enabled is false"),
                         (["backup", os.path.join(second.state, "backup")], "the backup is made where the recorder runs")):
        status, said = freshetctl(second, *command)
        assert status == 2 and why in said, (command, said)


def test_a_host_with_an_account_of_its_own_is_shut_out_alone(instance, name):
    first = instance("--no-limits", **PATIENT)
    with open(os.path.join(first.state, "etc/redis-acl.conf"), encoding="utf-8") as file:
        rights = next(line for line in file if line.startswith("user freshet ")).split()[2:]
    first.redis("ACL", "SETUSER", "freshet-2", *[each for each in rights if not each.startswith("#")], ">of-the-second")
    password = os.path.join(first.state, "etc/redis-second")
    with open(password, "w", encoding="ascii") as file:
        file.write("of-the-second")
    shutil.chown(password, "nobody" if os.geteuid() == 0 else None)
    os.chmod(password, 0o600)
    second = instance("--no-limits", beside=first, recorder__enabled="false", redis__username='"freshet-2"', redis__password_file=f'"{password}"', **PATIENT)
    assert second.public().track(name("a"), 20000, userId=name("r"), sessionId=name("s")).status == 200
    assert second.refused_by_redis() == []
    first.redis("ACL", "SETUSER", "freshet-2", "off")
    first.redis("CLIENT", "KILL", "USER", "freshet-2")
    wait_until(lambda: second.status()["redis ready"] == 0, "the account's end to be noticed")
    assert second.public().track(name("a"), 20000, userId=name("r"), sessionId=name("s")).status == 202
    assert first.public().track(name("a"), 20000, userId=name("r"), sessionId=name("s")).status == 200
    first.expects_refusals = second.expects_refusals = True
