"""The package under a booted systemd. Each test continues where the previous one ended."""

import os
import re
import subprocess
import time

import pytest
from machine import ROOT, wait_until

from client import Client, Load

UNITS = "freshet.socket freshet.service freshet-train.timer freshet-tune.timer freshet-fill.timer"
HOST, PUBLIC, INTERNAL = "127.0.0.1", 80, 8081
NOW = int(time.time())


def deployment():
    """The ```sh blocks of OPERATIONS.md's section "Deployment", in order."""
    with open(os.path.join(ROOT, "OPERATIONS.md"), encoding="utf-8") as file:
        section = re.search(r"^## Deployment\n.*?(?=^## )", file.read(), re.M | re.S)[0]
    return re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)


def send_request(client, turn):
    """A read and two writes in turn, each new. Raises unless the reply is correct."""
    ask = (lambda: client.get("/api/hot?model=views&limit=5"), lambda: client.track(f"load-{turn % 50}", 1000, sessionId=f"s{turn}"),
           lambda: client.put(f"/api/items/load-{turn % 50}", {"title": f"Load {turn}", "published_at": NOW}))
    reply = ask[turn % 3]()
    assert reply.status == 200 and "Freshet-Degraded" not in reply.headers, reply
    return reply.status


def send_read(client, _):
    return send_request(client, 0)


class Load(Load):
    """Load through nginx, from outside the unit. Stopping closes kept connections, as TERM is meant to; nginx repeats a
    read that it writes into one at that moment, but not a write. So tests of a stop use reads; all others use reads and
    writes.
    """

    def __init__(self, work=send_request):
        super().__init__(lambda: Client(HOST, INTERNAL), work)

    def wait_for_replies(self, requests=200):
        before = len(self.results)
        wait_until(lambda: len(self.results) >= before + requests or self.errors, "replies")
        assert self.errors == []


def main_pid(machine):
    return int(machine.show("freshet.service", "MainPID")["MainPID"])


def ping():
    """Status of an uncached reply; 0: nginx does not answer."""
    try:
        return Client(HOST, INTERNAL, timeout=5).get("/ping").status
    except OSError:
        return 0


def drop_in(machine, unit, text):
    machine.write(f"/etc/systemd/system/{unit}.d/test.conf", text)
    machine.run("systemctl daemon-reload")


def no_drop_in(machine, unit):
    folder = machine.at(f"/etc/systemd/system/{unit}.d")
    os.remove(os.path.join(folder, "test.conf"))
    if not os.listdir(folder):
        os.rmdir(folder)
    machine.run("systemctl daemon-reload")


def install_binary(machine, edition):
    """Replaces the program's file atomically, as dpkg does."""
    machine.run(f"cp /usr/sbin/freshetd /usr/sbin/freshetd.new; echo 'edition {edition}' >>/usr/sbin/freshetd.new\n"
                "mv /usr/sbin/freshetd.new /usr/sbin/freshetd")


def repackaged(deb, version, change=None):
    """The package with another version and optional changes to its unpacked tree."""
    folder = os.path.join(os.path.dirname(deb), version)
    subprocess.run(["dpkg-deb", "-R", deb, folder], check=True)
    control = os.path.join(folder, "DEBIAN/control")
    with open(control, encoding="utf-8") as file:
        text = file.read()
    with open(control, "w", encoding="utf-8") as file:
        file.write(re.sub(r"(?m)^Version: .*$", f"Version: {version}", text))
    if change:
        change(folder)
    made = os.path.join(os.path.dirname(deb), f"freshet_{version}.deb")
    subprocess.run(["dpkg-deb", "-Znone", "--root-owner-group", "-b", folder, made], check=True, stdout=subprocess.DEVNULL)
    return made


def install_package(machine, deb):
    machine.copy_file(deb, "/root/" + os.path.basename(deb))
    machine.run(f"dpkg -i /root/{os.path.basename(deb)}")


def test_the_documented_commands_install_a_service_without_doctor_errors(machine, deb, server, session_check):
    build, choice, *steps = deployment()
    assert "cpack -G DEB" in build and choice.startswith("server=redis ") and len(steps) == 9
    machine.copy_file(deb, "/root/build/release/" + os.path.basename(deb))
    machine.boot()
    *before, doctor = steps
    for step in before:
        machine.run(f"server={server}\n{step}")
    assert doctor.startswith("freshetctl doctor")
    output = wait_until(lambda: re.search(r"(?s).*\b0 errors, 0 warnings\b", machine.run(doctor, check=False)), "a clean bill", 15)[0]
    assert "ok       files.model: no model yet" in output, output
    assert f"redis.version: {server.title()} " in output, output
    assert machine.run("systemctl --failed --no-legend") == ""
    # From here on, slow replies of a busy machine are not failures.
    machine.write("/etc/freshet/conf.d/patient.toml", 'gateway.request_budget = "2500ms"\nredis.timeout = "2s"\n')
    machine.run("systemctl reload freshet")


def test_nginx_answers_from_outside_the_unit():
    anybody, operator = Client(HOST, PUBLIC), Client(HOST, INTERNAL)
    assert operator.put("/api/items/hello", {"title": "Hello", "published_at": NOW}).status == 200
    assert anybody.track("hello", 5000, sessionId="s1").json()["pv"] == 1
    end = time.monotonic() + 30
    while not (listed := anybody.get("/api/hot?model=engagement").json()) and time.monotonic() < end:
        time.sleep(0.1)  # rank updates follow a moment after the event
    assert [item["id"] for item in listed] == ["hello"]
    assert anybody.get("/freshet.js").status == 200 and anybody.get("/").status == 404 and anybody.get("/ping").status == 404
    assert operator.get("/ping").body == b"pong"
    assert operator.get("/health/ready").status == 200


def test_the_site_s_session_check_identifies_the_reader():
    ann = {"Cookie": "user=ann"}
    assert Client(HOST, PUBLIC).post("/api/history", {"topicId": "hello"}, headers=ann).status == 200
    assert Client(HOST, PUBLIC).get("/api/history", headers=ann).json()["items"] == ["hello"]
    assert Client(HOST, INTERNAL).get("/api/history?userId=ann").json()["items"] == ["hello"]


def test_no_request_fails_during_a_reload(machine):
    with Load() as load:
        for _ in range(3):
            machine.run("systemctl reload freshet")
            load.wait_for_replies()
    assert load.errors == []


def test_an_invalid_configuration_is_rejected_and_the_old_one_stays(machine):
    machine.write("/etc/freshet/conf.d/broken.toml", "pm.max_children = 'many'\n")
    assert not machine.ok("systemctl reload freshet")
    assert "broken.toml:1" in machine.journal("freshet.service")
    assert ping() == 200 and machine.show("freshet.service", "ActiveState")["ActiveState"] == "active"
    os.remove(machine.at("/etc/freshet/conf.d/broken.toml"))
    machine.run("systemctl reload freshet")


def test_a_stop_drains_also_after_upgrades_of_the_binary(machine):
    for upgrades in (0, 1, 2):
        began = time.time()
        with Load() as load:
            for number in range(upgrades):
                before = main_pid(machine)
                install_binary(machine, number)
                machine.run("systemctl reload freshet")
                # The new master waits up to ten seconds until the old one has drained connections that nginx keeps
                # open.
                wait_until(lambda before=before: main_pid(machine) != before, "another master", 40)
                load.wait_for_replies()
        assert load.errors == []
        with Load(send_read) as load:
            load.wait_for_replies()
            stop = time.monotonic()
            machine.run("systemctl stop freshet.service")
            duration = time.monotonic() - stop
            # Connections that arrived in the meantime waited at the socket and started the service again.
            load.wait_for_replies()
        output = machine.journal("freshet.service", began)
        print(f"{upgrades} upgrades, {len(load.results)} requests, a stop of {duration * 1000:.0f} ms")
        assert load.errors == [] and output.count("event=master_stopped") >= 1 + min(upgrades, 1), output
        assert "alien" not in output and "Failed with result" not in output and "SIGKILL" not in output, output
        assert duration < 5


def test_a_killed_master_is_restarted(machine):
    before = main_pid(machine)
    machine.run(f"kill -9 {before}")
    wait_until(lambda: ping() == 200 and main_pid(machine) not in (0, before), "the service")
    assert machine.show("freshet.service", "RestartUSec")["RestartUSec"] == "100ms"  # the rest is the start time
    assert machine.show("freshet.service", "NRestarts")["NRestarts"] == "1"


def test_the_watchdog_restarts_a_master_that_hangs(machine):
    drop_in(machine, "freshet.service", "[Service]\nWatchdogSec=1\n")
    machine.run("systemctl restart freshet.service")
    before = main_pid(machine)
    machine.run(f"kill -STOP {before}")
    wait_until(lambda: main_pid(machine) not in (0, before), "another master", 20)
    assert "Watchdog timeout" in machine.journal("freshet.service")
    no_drop_in(machine, "freshet.service")
    machine.run("systemctl restart freshet.service")
    assert ping() == 200


def test_the_timers_run_and_succeed_without_work(machine):
    for name in ("train", "fill"):
        assert machine.show(f"freshet-{name}.timer", "ActiveState", "Result") == {"ActiveState": "active", "Result": "success"}
        # While its service runs, as after the training, a timer has no next time.
        wait_until(lambda name=name: machine.show(f"freshet-{name}.timer", "NextElapseUSecRealtime")["NextElapseUSecRealtime"] != "", "a next time")
        drop_in(machine, f"freshet-{name}.timer", "[Timer]\nOnCalendar=\nOnActiveSec=100ms\nRandomizedDelaySec=0\nAccuracySec=1ms\n")
        machine.run(f"systemctl restart freshet-{name}.timer")
        ran = wait_until(lambda name=name: re.search(r"Finished|Failed with", machine.journal(f"freshet-{name}.service")), name)
        assert ran[0] == "Finished", machine.journal(f"freshet-{name}.service")
        no_drop_in(machine, f"freshet-{name}.timer")
        machine.run(f"systemctl restart freshet-{name}.timer")
    assert "nothing to learn from" in machine.journal("freshet-train.service")


def test_no_read_fails_during_a_package_upgrade(machine, deb):
    newer = repackaged(deb, "9.0.0-1")
    before = main_pid(machine)
    machine.run("systemctl reset-failed freshet.service")  # the tests before started it as often in ten seconds as systemd allows
    with Load(send_read) as load:
        load.wait_for_replies()
        install_package(machine, newer)
        load.wait_for_replies()
    assert load.errors == []
    assert main_pid(machine) not in (0, before)
    assert machine.show("freshet.service", "Result") == {"Result": "success"}


def test_a_reboot_keeps_all_data(machine):
    operator = Client(HOST, INTERNAL)
    assert operator.track("kept", 5000, sessionId="s1").status == 200
    before = operator.get("/api/articles/kept/stats").json()
    machine.reboot()
    wait_until(lambda: ping() == 200, "the service")
    operator = Client(HOST, INTERNAL)
    assert operator.get("/api/articles/kept/stats").json()["pv"] == before["pv"] == 1
    assert operator.get("/api/items/hello").json()["title"] == "Hello"
    assert operator.get("/api/history?userId=ann").json()["items"] == ["hello"]


def break_socket_ownership(folder):
    """The first release: systemd made the service the owner of the socket's folder and its contents, so nginx could not
    connect.
    """
    path = os.path.join(folder, "usr/lib/systemd/system/freshet.service")
    with open(path, "a", encoding="utf-8") as file:
        file.write("[Service]\nRuntimeDirectory=freshet\nRuntimeDirectoryPreserve=yes\n")


def test_an_upgrade_fixes_the_socket_ownership_of_the_first_release(machine, deb):
    install_package(machine, repackaged(deb, "0.0.1-1", break_socket_ownership))
    assert ping() == 502
    install_package(machine, deb)
    wait_until(lambda: ping() == 200, "the service")
    assert machine.run("stat -c '%U:%G' /run/freshet /run/freshet/*").split() == ["root:root"] + ["www-data:www-data"] * 2
    assert Client(HOST, INTERNAL).get("/api/articles/kept/stats").json()["pv"] == 1


def test_purging_leaves_the_administrator_s_files_alone(machine, server):
    machine.run("apt-get purge -y freshet")
    left = machine.run("find / -xdev -path /proc -prune -o -name '*freshet*' -print | sort").splitlines()
    left = [path for path in left if not path.startswith(("/root/", "/etc/redis/", "/etc/valkey/", "/var/lib/private", "/var/log/journal"))]
    left = [path for path in left if server == "redis" or not path.endswith(".service.d")]  # the guide's drop-in
    assert left == ["/etc/freshet"]
    assert sorted(os.listdir(machine.at("/etc/freshet"))) == ["conf.d", "secrets"]
    assert machine.run(f"systemctl is-active {UNITS}", check=False).split() == ["inactive"] * len(UNITS.split())
    assert machine.run("systemctl --failed --no-legend") == ""
    machine.power_off()
