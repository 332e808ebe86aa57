"""The package under a systemd that booted: each test goes on where the one before it ended."""

import os
import re
import shutil
import subprocess
import time

import pytest
from machine import ROOT, wait_until

from client import Client, Load

UNITS = "freshet.socket freshet.service freshet-train.timer freshet-fill.timer"
HOST, PUBLIC, INTERNAL = "127.0.0.1", 80, 8081
NOW = int(time.time())


def deployment():
    """The ```sh blocks of the section in OPERATIONS.md, in their order."""
    with open(os.path.join(ROOT, "OPERATIONS.md"), encoding="utf-8") as file:
        section = re.search(r"^## Deployment\n.*?(?=^## )", file.read(), re.M | re.S)[0]
    return re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)


def one_of_each(client, turn):
    """A read and two writes in turn, each new. Raises unless it was answered as it should be."""
    ask = (lambda: client.get("/api/hot?model=views&limit=5"), lambda: client.track(f"load-{turn % 50}", 1000, sessionId=f"s{turn}"),
           lambda: client.put(f"/api/items/load-{turn % 50}", {"title": f"Load {turn}", "published_at": NOW}))
    reply = ask[turn % 3]()
    assert reply.status == 200 and "Freshet-Degraded" not in reply.headers, reply
    return reply.status


def a_read(client, _):
    return one_of_each(client, 0)


class Load(Load):
    """Over nginx, from outside the unit. A stop closes connections that nginx keeps, as TERM means it: what nginx writes into one at that
    moment it repeats for a read, and not for a write. So a stop is judged by reads, and whatever loses nothing by both."""

    def __init__(self, work=one_of_each):
        super().__init__(lambda: Client(HOST, INTERNAL), work)

    def go_on(self, requests=200):
        before = len(self.results)
        wait_until(lambda: len(self.results) >= before + requests or self.errors, "replies")
        assert self.errors == []


def main_pid(machine):
    return int(machine.show("freshet.service", "MainPID")["MainPID"])


def ping():
    """The status of a reply that no cache has; 0: nginx does not answer."""
    try:
        return Client(HOST, INTERNAL, timeout=5).get("/ping").status
    except OSError:
        return 0


def drop_in(machine, unit, text):
    machine.write(f"/etc/systemd/system/{unit}.d/test.conf", text)
    machine.run("systemctl daemon-reload")


def no_drop_in(machine, unit):
    shutil.rmtree(machine.at(f"/etc/systemd/system/{unit}.d"))
    machine.run("systemctl daemon-reload")


def install_binary(machine, edition):
    """The program in another file, in one step, as dpkg does it."""
    machine.run(f"cp /usr/sbin/freshetd /usr/sbin/freshetd.new; echo 'edition {edition}' >>/usr/sbin/freshetd.new\n"
                "mv /usr/sbin/freshetd.new /usr/sbin/freshetd")


def repackaged(deb, version, change=None):
    """The package again with another version, and with its unpacked tree changed."""
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
    machine.copy_in(deb, "/root/" + os.path.basename(deb))
    machine.run(f"dpkg -i /root/{os.path.basename(deb)}")


def test_the_documented_commands_install_a_service_that_the_doctor_finds_well(machine, deb, session_check):
    build, *steps = deployment()
    assert "cpack -G DEB" in build and len(steps) == 7
    machine.copy_in(deb, "/root/build/release/" + os.path.basename(deb))
    machine.boot()
    *before, doctor = steps
    for step in before:
        machine.run(step)
    assert doctor.startswith("freshetctl doctor")
    said = wait_until(lambda: re.search(r"(?s).*\b0 errors, 1 warnings?\b", machine.run(doctor, check=False)), "a clean bill", 15)[0]
    assert re.search(r"files\.model: .*is not there", said), said
    assert machine.run("systemctl --failed --no-legend") == ""
    # From here on a slow answer of a busy machine is no failure.
    machine.write("/etc/freshet/conf.d/patient.toml", 'gateway.request_budget = "2500ms"\nredis.timeout = "2s"\n')
    machine.run("systemctl reload freshet")


def test_nginx_answers_from_outside_the_unit():
    anybody, operator = Client(HOST, PUBLIC), Client(HOST, INTERNAL)
    assert operator.put("/api/items/hello", {"title": "Hello", "published_at": NOW}).status == 200
    assert anybody.track("hello", 5000, sessionId="s1").json()["pv"] == 1
    end = time.monotonic() + 30
    while not (listed := anybody.get("/api/hot?model=engagement").json()) and time.monotonic() < end:
        time.sleep(0.1)  # articles are placed a moment after the report
    assert [item["id"] for item in listed] == ["hello"]
    assert anybody.get("/").status == 200 and anybody.get("/ping").status == 404
    assert operator.get("/ping").body == b"pong"
    assert operator.get("/health/ready").status == 200


def test_the_site_s_session_check_says_who_is_asking():
    ann = {"Cookie": "user=ann"}
    assert Client(HOST, PUBLIC).post("/api/history", {"topicId": "hello"}, headers=ann).status == 200
    assert Client(HOST, PUBLIC).get("/api/history", headers=ann).json()["items"] == ["hello"]
    assert Client(HOST, INTERNAL).get("/api/history?userId=ann").json()["items"] == ["hello"]


def test_a_reload_under_load_fails_no_request(machine):
    with Load() as load:
        for _ in range(3):
            machine.run("systemctl reload freshet")
            load.go_on()
    assert load.errors == []


def test_a_broken_configuration_is_refused_and_the_old_one_serves_on(machine):
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
                # The next one waits until the one before has drained what nginx keeps open to it, for ten seconds.
                wait_until(lambda before=before: main_pid(machine) != before, "another master", 40)
                load.go_on()
        assert load.errors == []
        with Load(a_read) as load:
            load.go_on()
            stop = time.monotonic()
            machine.run("systemctl stop freshet.service")
            took = time.monotonic() - stop
            # What came meanwhile waited at the socket, and started the service again.
            load.go_on()
        said = machine.journal("freshet.service", began)
        print(f"{upgrades} upgrades, {len(load.results)} requests, a stop of {took * 1000:.0f} ms")
        assert load.errors == [] and said.count("event=master_stopped") >= 1 + min(upgrades, 1), said
        assert "alien" not in said and "Failed with result" not in said and "SIGKILL" not in said, said
        assert took < 5


def test_a_killed_master_is_back(machine):
    before = main_pid(machine)
    machine.run(f"kill -9 {before}")
    wait_until(lambda: ping() == 200 and main_pid(machine) not in (0, before), "the service")
    assert machine.show("freshet.service", "RestartUSec")["RestartUSec"] == "100ms"  # the rest is what a start takes
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


def test_the_timers_run_and_nothing_to_do_is_a_success(machine):
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


def test_an_upgrade_of_the_package_under_load_fails_no_read(machine, deb):
    newer = repackaged(deb, "9.0.0-1")
    before = main_pid(machine)
    with Load(a_read) as load:
        load.go_on()
        install_package(machine, newer)
        load.go_on()
    assert load.errors == []
    assert main_pid(machine) not in (0, before)
    assert machine.show("freshet.service", "Result") == {"Result": "success"}


def test_a_reboot_keeps_everything(machine):
    operator = Client(HOST, INTERNAL)
    assert operator.track("kept", 5000, sessionId="s1").status == 200
    before = operator.get("/api/articles/kept/stats").json()
    machine.reboot()
    wait_until(lambda: ping() == 200, "the service")
    operator = Client(HOST, INTERNAL)
    assert operator.get("/api/articles/kept/stats").json()["pv"] == before["pv"] == 1
    assert operator.get("/api/items/hello").json()["title"] == "Hello"
    assert operator.get("/api/history?userId=ann").json()["items"] == ["hello"]


def as_it_was(folder):
    """The first release: nginx could not connect, since systemd gave the socket's folder and what lies in it to the service."""
    path = os.path.join(folder, "lib/systemd/system/freshet.service")
    with open(path, "a", encoding="utf-8") as file:
        file.write("[Service]\nRuntimeDirectory=freshet\nRuntimeDirectoryPreserve=yes\n")


def test_an_upgrade_from_the_release_before_cures_what_that_left_behind(machine, deb):
    install_package(machine, repackaged(deb, "0.0.1-1", as_it_was))
    assert ping() == 502
    install_package(machine, deb)
    wait_until(lambda: ping() == 200, "the service")
    assert machine.run("stat -c '%U:%G' /run/freshet /run/freshet/*").split() == ["root:root"] + ["www-data:www-data"] * 2
    assert Client(HOST, INTERNAL).get("/api/articles/kept/stats").json()["pv"] == 1


def test_purging_leaves_the_administrator_s_files_alone(machine):
    machine.run("apt-get purge -y freshet")
    left = machine.run("find / -xdev -path /proc -prune -o -name '*freshet*' -print | sort").splitlines()
    left = [path for path in left if not path.startswith(("/root/", "/etc/redis/", "/var/lib/private", "/var/log/journal"))]
    assert left == ["/etc/freshet"]
    assert sorted(os.listdir(machine.at("/etc/freshet"))) == ["conf.d", "secrets"]
    assert machine.run(f"systemctl is-active {UNITS}", check=False).split() == ["inactive"] * 4
    assert machine.run("systemctl --failed --no-legend") == ""
    machine.power_off()
