"""compose.yaml in containers, from the first start to an upgrade, and containers that are set up wrongly. The first part
is in order: each test continues where the previous one ended.
"""

import datetime
import json
import os
import re
import shlex
import subprocess
import time

import pytest
from compose import ROOT, Podman, Project, wait_until

from client import Client, Load

HOST, PUBLIC, INTERNAL = "127.0.0.1", 8080, 8081
MB = 10**6
IMAGES = {"docker.io/valkey/valkey:8.1": "localhost/valkey"}


@pytest.fixture(scope="session")
def podman():
    return Podman(*os.environ["FRESHET_PODMAN"].split())


# Redis may take longer than the default 50 ms on a busy machine.
LONG_TIMEOUTS = ["--env=FRESHET_CONF_REDIS_TIMEOUT=1s", "--env=FRESHET_CONF_GATEWAY_REQUEST_BUDGET=2s"]
GROUP = f"--cgroup-parent={os.environ['FRESHET_CGROUP']}"


class Project(Project):
    def create(self, name, *more, **options):
        super().create(name, GROUP, *more, *(LONG_TIMEOUTS if name == "freshetd" else []), **options)


@pytest.fixture(scope="session")
def project(podman):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    started = Project(podman, IMAGES)
    started.create_networks()
    yield started
    podman("rm", "--all", "--force", "--time=0", check=False)


def public():
    return Client(HOST, PUBLIC)


def internal():
    return Client(HOST, INTERNAL)


def status():
    return internal().get("/status?json").json()


def reports(client, article):
    """The article's page views."""
    return client.get(f"/api/articles/{article}/stats").json()["pv"]


# --- The images -------------------------------------------------------------------------------------------------------


def test_the_image_is_small(podman):
    size = json.loads(podman("image", "inspect", "localhost/freshet").stdout)[0]["Size"]
    mounted = podman("image", "mount", "localhost/freshet").stdout.strip()
    ours = {name: os.path.getsize(mounted + name) for name in
            ("/usr/sbin/freshetd", "/usr/bin/freshetctl", "/etc/freshet/freshet.toml", "/usr/share/freshet/redis-acl.conf", "/usr/share/freshet/make-secrets")}
    layers = [(each["size"], each["CreatedBy"][:60]) for each in json.loads(podman("history", "--format=json", "localhost/freshet").stdout) if each["size"]]
    icu = sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(mounted + "/usr/lib") for name in names if name.startswith("libicudata"))
    print(f"the image: {size / MB:.1f} MB, {sum(ours.values()) / MB:.1f} of them Freshet's, {icu / MB:.1f} ICU's data")
    for bytes_, command in layers:
        print(f"  {bytes_ / MB:6.1f} MB  {command}")
    # Files of the package that a container does not need.
    assert not [name for name in ("lib/systemd/systemd", "share/doc/freshet", "share/man/man8/freshetd.8.gz") if os.path.exists(f"{mounted}/usr/{name}")]
    podman("image", "umount", "localhost/freshet")
    assert size <= 160 * MB
    assert sum(ours.values()) <= 20 * MB


# --- From the first start to an upgrade ---------------------------------------------------------------------------------


def test_up_starts_every_service_in_order(project):
    project.up()
    for name in ("redis", "freshetd", "nginx"):
        project.await_healthy(name)
    assert project.podman.state(project.container("schedule"))["Running"]
    assert project.podman.state(project.container("secrets"))["ExitCode"] == 0


def test_the_readmes_commands_return_what_it_says(project):
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        block = re.search(r"^```sh\n(curl.*?)^```", file.read(), re.M | re.S)[1]
    lines = block.splitlines()
    assert len(lines) == 4
    for command, reply in zip(lines[::2], lines[1::2]):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=80)
        assert done.stdout.startswith(reply.removeprefix("# ").rstrip("…")), (command, done.stdout)


def test_every_feature_answers(project):
    """A short set: an item, its counts, the lists, a feed, recommendations, a timeline, and what the recorder wrote."""
    api, now = internal(), int(time.time())
    for number in range(5):
        reply = api.put(f"/api/items/item-{number}", {"title": f"Item {number}", "published_at": now - number, "tags": ["container"]})
        assert reply.status == 200, reply
        assert api.track(f"item-{number}", 20000, sessionId=f"s{number}").status == 200
    assert api.post("/api/interactions", json.dumps({"userId": "ann", "topicId": "item-1", "kind": "like"}), headers={"Content-Type": "application/x-ndjson"}).status == 200
    assert api.post("/api/waterfall/discover", {"items": ["item-2"], "customers": ["ann"]}).status == 200
    wait_until(lambda: status()["recorder items"] >= 5 and status()["recorder lag entries"] == 0, "the recorder")
    wait_until(lambda: {item["id"] for item in public().get("/api/hot?model=engagement&limit=10").json()} >= {f"item-{number}" for number in range(5)}, "the list")
    feed = api.post("/api/feed", {"action": "refresh", "userId": "ann", "limit": 3})
    assert feed.status == 200 and len(feed.json()["data"]["items"]) == 3, feed
    assert public().get("/api/recommendations?limit=3").status == 200
    assert [item["id"] for item in api.get("/api/waterfall/discover?customerId=ann").json()["items"]] == ["item-2"]
    assert public().get("/").status == 404 and public().get("/freshet.js").status == 200
    assert api.get("/dashboard").status == 200 and api.get("/chart.js/chart.min.js").status == 200
    assert public().get("/metrics").status == 404


def test_no_process_is_root_or_can_become_it(project):
    for name in ("redis", "freshetd", "schedule", "nginx"):
        pids = project.podman("top", project.container(name), "hpid").stdout.split()[1:]
        assert pids
        for pid in pids:
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                fields = dict(line.rstrip("\n").split(":\t", 1) for line in file)
            assert "0" not in fields["Uid"].split(), name
            assert (int(fields["CapEff"], 16), int(fields["CapBnd"], 16), fields["NoNewPrivs"]) == (0, 0, "1"), name
            with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as file:
                root = next(line.split() for line in file if line.split()[4] == "/")
            assert "ro" in root[5].split(","), name


def test_logs_go_to_the_containers_and_identify_no_reader(project):
    agent = "Mozilla/5.0 (probe of the log)"
    assert public().get("/api/hot?limit=3&userId=reader-7", headers={"User-Agent": agent}).status in (200, 400)

    def logged():
        lines = (json.loads(line) for line in project.podman.logs(project.container("nginx")).splitlines() if line.startswith("{"))
        return next((line for line in lines if line["agent"] == agent), None)

    line = wait_until(logged, "the probe's access line")
    assert line["uri"] == "/api/hot" and "reader-7" not in json.dumps(line) and line["address"].endswith(".0")
    assert re.search(r"level=notice event=worker_started", project.podman.logs(project.container("freshetd")))


def in_network(podman, network, script):
    """Output of a shell script in a container on this network."""
    return podman("run", "--rm", f"--network={network}", GROUP, "localhost/base", "bash", "-c", script, check=False)


FETCH = r"exec 3<>/dev/tcp/nginx/8081 && printf 'GET /api/articles/hello/stats HTTP/1.0\r\nHost: nginx:8081\r\n\r\n' >&3 && cat <&3"


def test_the_sites_back_end_reaches_the_internal_server_and_the_public_does_not(project):
    reply = in_network(project.podman, "freshet_backend", FETCH)
    assert "HTTP/1.1 200" in reply.stdout and '"pv":1' in reply.stdout, reply
    # Redis has no port there, and the service's network leads nowhere.
    assert in_network(project.podman, "freshet_backend", "exec 3<>/dev/tcp/redis/6379").returncode != 0
    assert in_network(project.podman, "freshet_service", "exec 3<>/dev/tcp/nginx/8081").returncode != 0
    # As if 8081 were published on every address: a client with a public address, routed to the container.
    address = project.podman.inspect(project.container("nginx"))["NetworkSettings"]["Networks"]["freshet_backend"]["IPAddress"]
    subprocess.run(["ip", "address", "add", "203.0.113.7/32", "dev", "lo"], check=True)
    for path in ("/ping", "/status", "/api/articles/hello/stats", "/dashboard", "/openapi.json"):
        assert Client(address, 8081, source="203.0.113.7").get(path, headers={"Host": "localhost"}).status == 403, path
    assert Client(address, 8080, source="203.0.113.7").get("/api/hot").status == 200
    assert Client(address, 8081).get("/ping").status == 200  # from the bridge's private address


def test_the_service_cannot_read_the_operators_password(project):
    listed = project.podman("exec", project.container("freshetd"), "ls", "/etc/freshet/operator").stdout
    assert listed == ""
    done = project.podman("exec", project.container("freshetd"), "touch", "/etc/freshet/secrets/salt", check=False)
    assert done.returncode != 0 and "Read-only" in done.stderr


def test_the_operator_can_diagnose_the_service(project):
    for command in ("check", "doctor"):
        done = project.podman("exec", project.container("schedule"), "freshetctl", command, "--redis-user", "freshet-operator:/etc/freshet/operator/redis-password",
                              check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_container_of_the_schedule_can_run_its_jobs(project):
    """At once, by the container's own command with --now."""
    command = shlex.join([*project.services["schedule"]["command"], "--now", "train", "check"])
    script = f"""{command} >/tmp/log 2>&1 & until [ $(grep -cE 'event=job_(finished|failed)' /tmp/log) = 2 ]; do sleep 0.1; done; kill $!; wait $!; cat /tmp/log"""
    log = project.podman("exec", project.container("schedule"), "sh", "-c", script).stdout
    assert set(re.findall(r"event=job_finished job=(\w+)", log)) == {"train", "check"}, log


def test_a_killed_service_comes_back_with_its_socket(project):
    container = project.container("freshetd")
    before = project.podman.state(container)["Pid"]
    os.kill(before, 9)  # the container's restart policy starts it again; its socket file is still in the volume
    wait_until(lambda: project.podman.state(container)["Running"] and project.podman.state(container)["Pid"] not in (0, before), "the restart")
    project.await_healthy("freshetd")
    wait_until(lambda: internal().get("/ping").status == 200, "a reply")
    assert reports(internal(), "hello") == 1


def test_a_stop_drains_and_loses_no_reply(project):
    with Load(internal, lambda client, turn: client.get("/api/articles/hello/stats").status) as load:
        wait_until(lambda: len(load.results) > 50 or load.errors, "replies")
        assert set(load.results) == {200} and load.errors == []
        ended = project.stop("freshetd")
        # nginx repeats a read whose connection closed, so until the socket is gone every reply is complete.
        assert set(load.results) <= {200, 502} and load.errors == [], (set(load.results), load.errors[:3])
        ended |= project.stop()
    # Then clients lack a connection, but no part of a reply.
    assert not [error for error in load.errors if "IncompleteRead" in error], load.errors[:3]
    # 137 would be the kill after stop_grace_period.
    assert {name: ended[name] for name in ("redis", "freshetd", "schedule", "nginx")} == {"redis": 0, "freshetd": 0, "schedule": 0, "nginx": 0}
    assert "event=master_stopped" in project.podman.logs(project.container("freshetd"))


def test_a_start_with_the_data_continues_and_is_quick(project):
    project.up("redis")
    project.await_healthy("redis")
    project.create("nginx", "--replace")
    project.podman("start", project.container("nginx"))  # nginx first: a 200 then depends on the service alone
    began = time.monotonic()
    project.podman("start", project.container("freshetd"))
    started = time.monotonic()
    wait_until(lambda: public().get("/api/hot?model=views&limit=5").status == 200, "a list")
    print(f"cold start: {time.monotonic() - began:.2f} s from `podman start` to the first 200, {started - began:.2f} of them podman's")
    project.up()
    for name in ("freshetd", "nginx"):
        project.await_healthy(name)
    assert reports(internal(), "hello") == 1
    wait_until(lambda: status()["recorder items"] >= 5, "the recorder")


def test_an_upgraded_image_continues_with_the_data(project):
    project.podman("tag", "localhost/freshet-upgraded", "localhost/freshet")
    for name in ("freshetd", "schedule"):
        project.podman("stop", project.container(name))
        project.up(name, recreate=True)
        project.await_healthy(name) if name == "freshetd" else None
        assert project.podman.inspect(project.container(name))["Config"]["Labels"].get("upgraded") == "yes"
    wait_until(lambda: internal().get("/ping").status == 200, "a reply")
    assert reports(internal(), "hello") == 1
    assert internal().track("hello", 1000, sessionId="s2").status == 200
    assert reports(internal(), "hello") == 2
    # The new container has the old one's name, so no erasure waits for a host that is gone.
    job = internal().delete("/api/users/ann").json()["job"]
    wait_until(lambda: internal().get(f"/api/jobs/{job}").json().get("state") == "done", "the erasure")


def test_a_backup_is_restored_as_the_guide_says(project):
    def run(*command):
        project.podman("exec", project.container("schedule"), "freshetctl", *command, "--redis-user", "freshet-operator:/etc/freshet/operator/redis-password")

    run("backup", "/backups/first")
    before = reports(internal(), "hello")
    assert internal().track("hello", 1000, sessionId="s3").status == 200
    project.stop("freshetd")
    run("restore", "/backups/first", "--replace")
    project.podman("start", project.container("freshetd"))
    project.await_healthy("freshetd")
    wait_until(lambda: internal().get("/ping").status == 200, "a reply")
    assert reports(internal(), "hello") == before


def test_a_reload_is_requested_inside_the_containers(project):
    def children(name):
        return set(project.podman("top", project.container(name), "hpid").stdout.split()[2:])

    completed = project.podman.logs(project.container("freshetd")).count("event=reload_completed")
    workers = children("nginx")
    for name in ("freshetd", "nginx"):
        project.podman("exec", project.container(name), "sh", "-c", "kill -HUP 1")
    wait_until(lambda: project.podman.logs(project.container("freshetd")).count("event=reload_completed") == completed + 1, "the reload of the service")
    wait_until(lambda: not workers & children("nginx"), "nginx's new workers")
    assert internal().get("/ping").status == 200


def test_the_sample_is_replayed_once(project):
    project.up("sample")
    container = project.container("sample")
    wait_until(lambda: project.podman.state(container)["Status"] == "exited", "the sample", 600)
    assert project.podman.state(container)["ExitCode"] == 0, project.podman.logs(container)
    assert "The sample is at" in project.podman.logs(container)
    titles = [item.get("title") for item in public().get("/api/hot?model=engagement&limit=20").json()]
    assert len(titles) == 20 and all(titles)
    assert internal().get("/api/waterfall/discover?customerId=me").json()["items"]
    project.podman("start", container)
    wait_until(lambda: "already" in project.podman.logs(container), "the second start")


# --- Set up wrongly ---------------------------------------------------------------------------------------------------


@pytest.fixture
def started(project):
    """started(option…, without=(…)): the service's container with other options, on its own volumes and its own database in
    Redis. Returns (name, state) once it has ended or is healthy.
    """
    project.up("redis")
    name = "freshet-bad"

    def start(*more, without=(), settings=None, command=None, wait=True):
        options = [option for option in project.options("freshetd") if not option.startswith(("--restart", *without))]
        options = [option.replace("freshet_data:", "bad_data:").replace("freshet_run:", "bad_run:") for option in options]
        options += [f"--env=FRESHET_CONF_{variable}={value}" for variable, value in ({"REDIS_DB": 1} | (settings or {})).items()]
        project.podman("create", f"--name={name}", GROUP, *LONG_TIMEOUTS, *options, *more, "localhost/freshet", *(command or []))
        project.podman("start", name)
        if wait:
            wait_until(lambda: not project.podman.state(name)["Running"] or healthy(project, name), "an end or readiness")
        return name, project.podman.state(name)

    yield start
    project.podman("rm", "--force", "--time=40", name, check=False)
    project.podman("volume", "rm", "--force", "bad_data", "bad_run", check=False)


def healthy(project, name):
    return project.podman("healthcheck", "run", name, check=False).returncode == 0


def refused(project, started, sentence, *options, code=78, **more):
    """The container ends with this status, and its log has the sentence."""
    name, state = started(*options, **more)
    logs = project.podman.logs(name)
    assert not state["Running"] and state["ExitCode"] == code, (state["ExitCode"], logs)
    assert re.search(sentence, logs), logs
    assert len(logs.splitlines()) < 20, logs


def test_without_run_freshet_it_says_which_socket_it_cannot_create(project, started):
    refused(project, started, r"cannot bind /run/freshet/\w+\.sock: Read-only file system; make its folder writable", without=("--volume=freshet_run",))


def test_with_a_read_only_data_volume_it_serves_and_names_the_folder(project, started):
    name, state = started("--volume=bad_data:/var/lib/freshet:ro", without=("--volume=freshet_data",))
    assert state["Running"], project.podman.logs(name)
    wait_until(lambda: re.search(r"event=folder_not_writable directive=recorder.database folder=/var/lib/freshet .*Read-only", project.podman.logs(name)), "the reason")
    assert "event=worker_exited" not in project.podman.logs(name)


def test_with_another_uid_it_says_which_file_it_cannot_use(project, started):
    refused(project, started, r"/etc/freshet/secrets/salt: cannot be read", "--user=12345:12345")


def test_killed_at_once_it_starts_again(project, started):
    name, _ = started(wait=False)
    project.podman("kill", "--signal=KILL", name, check=False)
    wait_until(lambda: not project.podman.state(name)["Running"], "the kill")
    project.podman("start", name)
    wait_until(lambda: healthy(project, name), "readiness")


def test_stopped_at_once_it_ends_at_once(project, started):
    name, _ = started(wait=False)
    project.podman("stop", "--time=40", name)
    assert project.podman.state(name)["ExitCode"] in (0, 143), project.podman.logs(name)


def test_the_zone_of_the_clock_changes_nothing(project, started):
    name, state = started("--env=TZ=NZST-12")  # a slim image has no names of zones
    logs = project.podman.logs(name)
    assert state["Running"], logs
    assert project.podman("exec", name, "date", "+%z").stdout == "+1200\n"
    assert abs(datetime.datetime.fromisoformat(logs.split(" ")[0]).timestamp() - time.time()) < 600
    assert logs.split(" ")[0].endswith("+12:00")


def test_64_mib_are_enough_to_serve(project, started):
    name, state = started("--memory=64m", "--memory-swap=64m")
    # It waits if another test's recorder had this database of Redis before.
    wait_until(lambda: re.search("event=recorder_(started|paused)", project.podman.logs(name)), "the recorder")
    assert state["Running"] and healthy(project, name), project.podman.logs(name)
    assert not project.podman.state(name)["OOMKilled"] and "event=worker_exited" not in project.podman.logs(name)


@pytest.mark.parametrize("variable, value, sentence", [
    ("REDIS_URLS", "redis://redis:6379", r"FRESHET_CONF_REDIS_URLS: no directive has this variable; did you mean FRESHET_CONF_REDIS_URL\?"),
    ("PM_MAX_CHILDREN", "many", r"FRESHET_CONF_PM_MAX_CHILDREN: pm.max_children "),
    ("REDIS_URL", "redis://freshet:secret@redis:6379", r"FRESHET_CONF_REDIS_URL must not contain a user or password.*FRESHET_CONF_REDIS_PASSWORD_FILE"),
], ids=["unknown", "invalid", "password"])
def test_a_wrong_variable_is_refused(project, started, variable, value, sentence):
    refused(project, started, sentence, settings={variable: value})


def test_an_empty_variable_is_ignored_with_a_warning(project, started):
    name, state = started(settings={"LOG_LEVEL": ""})
    assert state["Running"] and "FRESHET_CONF_LOG_LEVEL is empty and ignored" in project.podman.logs(name)


def test_a_file_wins_over_a_variable_and_the_log_says_so(project, started, tmp_path):
    (tmp_path / "site.toml").write_text("pm.max_children = 3\n", encoding="utf-8")
    os.chmod(tmp_path, 0o755)
    name, state = started(f"--volume={tmp_path}:/etc/freshet/conf.d:ro", settings={"PM_MAX_CHILDREN": "5"})
    assert state["Running"], project.podman.logs(name)
    assert "FRESHET_CONF_PM_MAX_CHILDREN has no effect, because /etc/freshet/conf.d/site.toml:1 sets pm.max_children" in project.podman.logs(name)
