"""Two instances that share one Redis, like two hosts of one deployment."""

import json
import os
import shutil
import signal
import subprocess
import time

from client import Load
from recorded import RecorderData, Writers
from service import CTL, LONG_TIMEOUTS, ROOT, birth, children, wait_until
from test_privacy import erase, job, recorded_interactions, wait_until_done, wait_until_recorded


def freshetctl(service, *arguments):
    """Runs freshetctl with the operator account of the shared Redis."""
    account = f"freshet-operator:{service.peer.state}/etc/redis-operator"
    done = subprocess.run([CTL, *arguments, "--state", service.state, "--redis-user", account], capture_output=True, text=True, check=False, timeout=480)
    return done.returncode, done.stdout + done.stderr


def finding(service, check):
    _, output = freshetctl(service, "doctor", "--json", "--nginx", "")
    return next(each for each in json.loads(output)["findings"] if each["check"] == check)


def recorder_pid(service):
    return f"pid {service.recorder()}"


def test_a_second_recorder_is_refused_and_names_the_recording_host(instance, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    first.expects_acl_denials = True  # doctor tests the account's rights
    recorder_data, writers = RecorderData(first), Writers(name)
    wait_until(lambda: first.status()["recorder"] == "running", "the recorder to run")
    second = instance("--no-limits", peer=first, **LONG_TIMEOUTS)
    RecorderData(second).wait_for_state("waiting", "database_mismatch")
    with Load(first.internal, writers.write, 2) as first_load, Load(second.internal, writers.write, 2) as second_load:
        wait_until(lambda: min(len(first_load.results), len(second_load.results)) > 100 or first_load.errors or second_load.errors, "writes")
    assert not first_load.errors and not second_load.errors
    recorder_data.wait_for(writers.expected)
    assert RecorderData(second).titles() == {}
    for each in (first, second):
        wait_until(lambda each=each: recorder_pid(first) in each.status()["recorder holder"], "the recording host to be reported")
    assert "event=recorder_paused reason=database_mismatch" in second.log() and recorder_pid(first) in second.log()
    assert finding(second, "recorder.alive")["grade"] == "ok"
    assert recorder_pid(first) in finding(second, "recorder.alive")["what"]
    refused = finding(second, "redis.items")
    assert refused["grade"] == "error" and recorder_pid(first) in refused["what"], refused
    status, output = freshetctl(second, "rebuild-redis")
    assert status == 2 and recorder_pid(first) in output, output
    status, output = freshetctl(second, "rebuild-redis", "--force")
    assert status == 2 and "whose recorder is running" in output, output
    first.check()


def test_a_recorder_with_a_copy_of_the_database_takes_over_from_a_dead_host(instance, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    recorder_data, writers = RecorderData(first), Writers(name)
    second = instance("--no-limits", peer=first, recorder__enabled="false", **LONG_TIMEOUTS)
    with Load(second.internal, writers.write, 2) as load:
        wait_until(lambda: len(load.results) > 200 or load.errors, "writes")
        recorder, born = first.recorder(), birth(first.recorder())
        first.record_processes()
        first.signal("freshetd", signal.SIGKILL)
        wait_until(lambda: birth(recorder) != born, "the first host to exit")
        # The files that a replicated volume would have.
        folder = os.path.dirname(recorder_data.database)
        for each in os.listdir(folder):
            if each.startswith("freshet.db"):
                shutil.copy(os.path.join(folder, each), os.path.join(second.state, "record", each))
        owner = os.stat(os.path.join(second.state, "record"))
        for each in os.listdir(os.path.join(second.state, "record")):
            os.chown(os.path.join(second.state, "record", each), owner.st_uid, owner.st_gid)
        second.configure(recorder__enabled="true")
        second.reload()
        began = time.monotonic()
        RecorderData(second).wait_for_state("running")
        assert time.monotonic() - began < 30
        count_before = len(load.results)
        wait_until(lambda: len(load.results) > count_before + 100 or load.errors, "writes")
    assert not load.errors
    wait_until(lambda: RecorderData(second).titles() == writers.expected, "the recorder to catch up", 60)
    wait_until(lambda: recorder_pid(second) in second.status()["recorder holder"], "the recording host to be reported")


def test_a_host_with_an_empty_database_takes_over_by_a_command(instance, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    before = {item: first.put(item)["title"] for item in (name("before") for _ in range(20))}
    RecorderData(first).wait_for(before)
    second = instance("--no-limits", peer=first, **LONG_TIMEOUTS)
    RecorderData(second).wait_for_state("waiting", "database_mismatch")
    recorder, born = first.recorder(), birth(first.recorder())
    first.configure(recorder__enabled="false")
    first.reload()
    wait_until(lambda: birth(recorder) != born, "the first recorder to exit")
    item = name("after")
    second.put(item)
    RecorderData(second).wait_for_state("waiting", "database_mismatch")
    status, output = freshetctl(second, "rebuild-redis", "--force")
    assert status == 0, output
    wait_until(lambda: item in RecorderData(second).titles(), "the item to be recorded")
    assert before.keys().isdisjoint(RecorderData(second).titles())  # they have to be imported


def test_spooled_events_of_an_erased_reader_on_another_host_are_discarded(instance, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    second = instance("--no-limits", peer=first, recorder__enabled="false", **LONG_TIMEOUTS)
    item, erased, other = name("i"), name("gone"), name("stays")
    first.put(item)
    first.make_redis_unavailable()
    wait_until(lambda: second.status()["redis ready"] == 0, "the workers to notice that Redis is unavailable")
    for reader in (erased, other):
        assert second.public().track(item, 20000, userId=reader, sessionId=reader).status == 202
        assert second.public().view(item, reader).status == 202
        assert second.public().post("/api/history", {"userId": reader, "topicId": item}).status == 202
        assert second.internal().post("/api/interactions", {"userId": reader, "topicId": item, "kind": "like"}).json()["accepted"] == 1
    # The host is down for a while, with these events in its spools.
    master = second.pid("freshetd")
    processes = [(pid, birth(pid)) for pid in (master, *children(master))]
    second.record_processes()
    second.signal("freshetd", signal.SIGKILL)
    wait_until(lambda: not any(birth(pid) == born for pid, born in processes), "its processes to exit")
    first.restart_redis()
    wait_until(lambda: first.status()["redis ready"] > 0 and first.status()["recorder"] == "running", "Redis and the recorder to recover")
    job_id = wait_until(lambda: (reply := first.internal().delete(f"/api/users/{erased}")).status == 202 and reply.json()["job"], "the job")
    wait_until(lambda: job(first, job_id)["state"] == "waiting", "the job")
    assert [each.partition(":")[2] for each in job(first, job_id)["hosts"]] == [f"{second.state}/spool"]
    first.expects_acl_denials = True  # doctor tests the account's rights
    warning = finding(second, "spools.hosts")
    assert warning["grade"] == "warning" and f"{second.state}/spool" in warning["what"], warning
    assert 8 * 86400 - 60 < first.redis("TTL", f"job:{job_id}") <= 8 * 86400  # longer than spool.max_age
    subprocess.run([os.path.join(ROOT, "scripts/run"), "--stop", "--state", second.state], check=True, timeout=480, capture_output=True)
    second.start()
    wait_until(lambda: not [each for each in os.listdir(os.path.join(second.state, "spool")) if each.endswith(".spool")], "its spools to be replayed")
    wait_until_done(first, job_id)
    assert "hosts" not in job(first, job_id) and finding(second, "spools.hosts")["grade"] == "ok"
    wait_until_recorded(first, other, 1)
    assert first.keys_containing(other) != [] and first.keys_containing(erased) == []
    assert recorded_interactions(first, erased) == 0
    exported = first.internal().get(f"/api/users/{erased}").json()
    assert exported["redis"] == [] and exported["database"]["interactions"] == []
    first.check()


def ready(service):
    return service.internal().get("/health/ready")


def lines(reply):
    return reply.body.decode().splitlines()


def test_a_host_without_index_and_model_reports_it_and_serves_feeds_from_redis(instance, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    first.expects_acl_denials = True  # doctor tests the account's rights
    second = instance("--no-limits", peer=first, recorder__enabled="false", **LONG_TIMEOUTS)
    items = [name("i") for _ in range(8)]
    for each in items:
        first.put(each)
    RecorderData(first).wait_for({each: f"about {each}" for each in items})
    hot, reader = items[3], name("r")
    assert second.public().track(hot, 20000, userId=name("u"), sessionId=name("s")).status == 200
    first.wait_for_background_writes()
    second.wait_for_background_writes()
    wait_until(lambda: first.status()["index documents"] == len(items), "all workers to open the index")
    wait_until(lambda: "missing:model" in lines(ready(first)), "readiness of the first host")
    assert lines(ready(second)) == ["ready", "writes:true", "missing:index,model"]
    assert 'freshet_dependency_missing{what="index"} 1' in second.internal().get("/metrics").body.decode()
    assert finding(second, "ready")["grade"] == "warning"

    def page(action, limit=5):
        reply = second.public().post("/api/feed", {"action": action, "limit": limit, "userId": reader})
        assert reply.status == 200, reply
        data = reply.json()["data"]
        assert (data["degraded"], data["missing"], reply.headers["Freshet-Degraded"]) == (True, "index", "true")
        return [each["id"] for each in data["items"]]

    first_page = page("refresh")
    assert len(first_page) == 5 and hot in first_page
    assert sorted(first_page + page("load_more")) == sorted(items)
    assert page("refresh") == []
    search = second.public().post("/api/feed", {"action": "refresh", "userId": reader, "query": "about"}).json()["data"]
    assert search["items"] == [] and search["missing"] == "index" and not search["exhausted"]
    second.configure(ready__require='["redis", "index"]')
    second.reload_and_drain()
    reply = ready(second)
    assert reply.status == 503 and reply.json()["code"] == "not_ready" and reply.json()["detail"] == "missing: index,model", reply
    assert finding(second, "ready")["grade"] == "error"


def test_an_erasure_does_not_wait_for_a_host_whose_spools_have_expired(instance, name):
    first = instance("--no-limits", **LONG_TIMEOUTS, spool__max_age='"1h"')
    wait_until(lambda: first.redis("ZCARD", "recorder:spools") == 1, "the host to register")
    requested_at, now = int(time.time() * 1000), int(time.time() * 1000)
    first.redis("ZADD", "recorder:spools", now - 1000, "lost:/spool")
    job_id = erase(first, name("r"))
    wait_until(lambda: job(first, job_id)["state"] == "waiting", "the job")
    assert job(first, job_id)["hosts"] == ["lost:/spool"]
    first.redis("HSET", f"job:{job_id}", "at", requested_at - 3601 * 1000)
    assert job(first, job_id)["state"] == "done" and "hosts" not in job(first, job_id)
    # When the next reader is erased, a host that has been silent for longer than spool.max_age is forgotten.
    first.redis("ZADD", "recorder:spools", now - 3602 * 1000, ":erasure", now - 3603 * 1000, "lost:/spool")
    wait_until_done(first, erase(first, name("r")))
    assert first.redis("ZSCORE", "recorder:spools", "lost:/spool") is None


def test_a_host_confirms_an_erasure_only_when_its_spools_are_empty(instance, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    wait_until(lambda: first.redis("ZCARD", "recorder:spools") == 1, "the host to register")
    # A dead worker's spool that cannot be read: it may hold anything.
    with open(os.path.join(first.state, "spool/1.spool"), "wb") as file:
        file.write(b"x" * 8192)
    job_id = erase(first, name("r"))
    wait_until(lambda: job(first, job_id)["state"] == "waiting", "the job")
    assert [each.partition(":")[2] for each in job(first, job_id)["hosts"]] == [f"{first.state}/spool"]
    os.remove(file.name)
    wait_until_done(first, job_id)


def test_rate_limits_apply_per_host(instance, name):
    """Buckets are per host: a client that uses all hosts gets the sum of their rates. The same holds for nginx's limits."""
    limits = {"limits__history_rate": "0.001", "limits__history_burst": "7"}
    first = instance(**limits, **LONG_TIMEOUTS)
    second = instance(peer=first, recorder__enabled="false", **limits, **LONG_TIMEOUTS)
    reader, accepted = name("r"), {}
    for host in (first, second, first, second):
        for _ in range(10):
            reply = host.public().post("/api/history", {"userId": reader, "topicId": name("i")})
            assert reply.status in (200, 429), reply
            accepted[host.host] = accepted.get(host.host, 0) + (reply.status == 200)
    assert accepted == {first.host: 7, second.host: 7}


def freshetctl_as_service(service, *arguments):
    """Runs freshetctl with the service account of this host."""
    done = subprocess.run([CTL, *arguments, "--state", service.state], capture_output=True, text=True, check=False, timeout=480)
    return done.returncode, done.stdout + done.stderr


def test_tools_work_on_a_host_without_a_recorder_with_the_right_account(instance, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    first.expects_acl_denials = True  # some commands need rights that the service's account lacks
    second = instance("--no-limits", peer=first, recorder__enabled="false", **LONG_TIMEOUTS)
    reader = name("r")
    for each in (name("i") for _ in range(5)):
        first.put(each)
        assert second.public().track(each, 20000, userId=reader, sessionId=reader).status == 200
    first.put(name("unread"))  # the others have been read, so they are not recommended
    assert second.internal().get("/api/waterfall/discover", query={"userId": reader}).status == 200
    second.wait_for_background_writes()
    for command in (["push-recommendations", "discover", "--json"], ["top-contributors", "--json"], ["rebuild-rank", "--json"], ["explain", reader], ["status"], ["revert-visitor", "--reader", reader, "-n", "--json"]):
        status, output = freshetctl_as_service(second, *command)
        assert status == 0, (command, output)
    assert first.internal().get("/api/waterfall/discover", query={"userId": reader}).json()["items"]
    second.wait_for_background_writes()
    for command in (["check"], ["check", "--sweep"]):
        status, output = freshetctl_as_service(second, *command)
        assert status == 2 and "no permissions" in output, output
        status, output = freshetctl(second, *command)
        assert status == 0 and "0 violations" in output, output
    status, output = freshetctl(second, "doctor", "--json", "--nginx", "")
    assert status == 0 and json.loads(output)["errors"] == 0, output
    for command, why in ((["train"], "recorder.enabled is false"), (["reindex"], "recorder.enabled is false"), (["evaluate"], "recorder.enabled is false"),
                         (["backup", os.path.join(second.state, "backup")], "run the backup on the recorder's host")):
        status, output = freshetctl(second, *command)
        assert status == 2 and why in output, (command, output)


def test_disabling_the_account_of_one_host_affects_only_that_host(instance, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    with open(os.path.join(first.state, "etc/redis-acl.conf"), encoding="utf-8") as file:
        rights = next(line for line in file if line.startswith("user freshet ")).split()[2:]
    first.redis("ACL", "SETUSER", "freshet-2", *[each for each in rights if not each.startswith("#")], ">second-secret")
    password = os.path.join(first.state, "etc/redis-second")
    with open(password, "w", encoding="ascii") as file:
        file.write("second-secret")
    shutil.chown(password, "nobody" if os.geteuid() == 0 else None)
    os.chmod(password, 0o600)
    second = instance("--no-limits", peer=first, recorder__enabled="false", redis__username='"freshet-2"', redis__password_file=f'"{password}"', **LONG_TIMEOUTS)
    assert second.public().track(name("a"), 20000, userId=name("r"), sessionId=name("s")).status == 200
    assert second.acl_denials() == []
    first.redis("ACL", "SETUSER", "freshet-2", "off")
    first.redis("CLIENT", "KILL", "USER", "freshet-2")
    wait_until(lambda: second.status()["redis ready"] == 0, "the workers to notice the disabled account")
    assert second.public().track(name("a"), 20000, userId=name("r"), sessionId=name("s")).status == 202
    assert first.public().track(name("a"), 20000, userId=name("r"), sessionId=name("s")).status == 200
    first.expects_acl_denials = second.expects_acl_denials = True
