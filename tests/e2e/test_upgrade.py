"""Upgrades to another binary on the same sockets and back under load, and binaries that cannot run."""

import os
import shutil
import signal
import tempfile

import pytest

from client import Load
from readers import mixed_load
from service import BUILD, LONG_TIMEOUTS, Instance, birth, wait_until

def edition_of(program):
    """The text that install() appended to the program."""
    with open(program, "rb") as file:
        file.seek(-16, os.SEEK_END)
        return file.read().rpartition(b"edition ")[2].decode()


class Binary:
    """A directory with a freshetd that is replaced atomically, as a package does."""

    def __init__(self, folder):
        for part in ("fcgi", "scripts"):
            os.makedirs(os.path.join(folder, part))
        os.symlink(os.path.join(BUILD, "scripts/freshetctl"), os.path.join(folder, "scripts/freshetctl"))
        self.path = os.path.join(folder, "fcgi/freshetd")
        with open(os.path.join(BUILD, "fcgi/freshetd"), "rb") as file:
            self._program = file.read()
        self.install("one")

    def put(self, content, mode=0o755):
        with open(self.path + ".new", "wb") as file:
            file.write(content)
        os.chmod(self.path + ".new", mode)
        os.rename(self.path + ".new", self.path)

    def install(self, edition):
        """Installs the same program with an edition appended, which only edition_of() reads."""
        self.put(self._program + f"edition {edition}".encode())


class Upgradable(Instance):
    def master(self):
        """The pid from the pid file, which is written atomically."""
        with open(os.path.join(self.state, "run/freshetd.pid"), encoding="ascii") as file:
            return int(file.read())

    def adopt(self):
        """Makes scripts/run and this class use the new master."""
        path, pid = os.path.join(self.state, "run/processes"), self.master()
        with open(path, encoding="utf-8") as file:
            lines = [line if not line.startswith("freshetd ") else f"freshetd {pid} {birth(pid)} QUIT\n" for line in file]
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines)
        self.record_processes()

    def upgrade(self):
        """Upgrades to the installed binary. Returns the old pid when the new master has taken over."""
        before = self.master()
        os.kill(before, signal.SIGUSR2)
        wait_until(lambda: self.master() != before, "a new master", 40)
        self.adopt()
        return before


@pytest.fixture
def upgradable(monkeypatch):
    folder = tempfile.mkdtemp(prefix="freshet-binary-", dir="/tmp")
    os.chmod(folder, 0o755)
    binary = Binary(folder)
    monkeypatch.setenv("FRESHET_BUILD_DIR", folder)
    # Longer than nginx's keepalive_time, so that no worker closes a connection while nginx writes to it.
    started = Upgradable("--no-limits", process_control_timeout="10", **LONG_TIMEOUTS)
    started.configure(pid=f'"{started.state}/run/freshetd.pid"')
    try:
        yield started.start(), binary
    finally:
        started.stop()
        shutil.rmtree(folder)


def test_ten_upgrades_back_and_forth_under_load_fail_no_request(upgradable, name):
    service, binary = upgradable
    readers, work = mixed_load(service, name)
    with Load(service.internal, work, threads=4) as load:
        for number in range(10):
            edition = ("two", "one")[number % 2]
            binary.install(edition)
            old = service.upgrade()
            assert edition_of(f"/proc/{service.master()}/exe") == edition
            count_before = len(load.results)
            wait_until(lambda count_before=count_before: len(load.results) > count_before + 50 or load.errors, f"load after upgrade {number}")
            wait_until(lambda old=old: birth(old) is None, "the old master to exit", 30)
            wait_until(service.recorder, "a recorder")
    assert load.errors == []
    assert set(load.results) == {200} and readers.statuses == {200}
    readers.assert_counted_once()
    assert service.status()["generation"] == 11
    service.check()


def test_an_upgrade_keeps_rate_limit_counts(upgradable, name):
    service, binary = upgradable
    service.configure(pid=f'"{service.state}/run/freshetd.pid"', limits__track_rate="0.0003", limits__track_burst=3)
    service.reload_and_drain()

    def track(times):
        return [service.public().track(name("a"), 1).status for _ in range(times)]

    assert track(2) == [200, 200]
    for edition in ("two", "one"):
        binary.install(edition)
        old = service.upgrade()
        wait_until(lambda old=old: birth(old) is None, "the old master to exit", 30)
    assert track(3) == [200, 429, 429]
    assert "limit_table_reset" not in service.log()


def test_a_binary_that_cannot_start_leaves_the_old_one_serving(upgradable, name):
    service, binary = upgradable
    _, work = mixed_load(service, name)
    master, workers, recorder = service.master(), service.workers(), service.recorder()
    with open(binary.path, "rb") as file:
        program = file.read()
    with Load(service.internal, work) as load:
        for number, (content, mode) in enumerate(((b"#!/bin/false\n", 0o755), (program[:100000], 0o755), (program, 0o644))):
            binary.put(content, mode)
            os.kill(master, signal.SIGUSR2)
            wait_until(lambda number=number: service.status()["failed reloads"] == number + 1, "the failed upgrade to be counted")
        count_before = len(load.results)
        wait_until(lambda: len(load.results) > count_before + 50 or load.errors, "load")
    assert load.errors == [] and set(load.results) == {200}
    assert (service.master(), service.workers(), service.recorder()) == (master, workers, recorder)
    assert service.log().count("reload_failed") == 3
    # A reload of the configuration alone still works.
    os.kill(master, signal.SIGHUP)
    wait_until(lambda: service.status()["generation"] == 2, "a reload")


def test_a_stop_during_an_upgrade_stops_both_masters(upgradable):
    service, binary = upgradable
    old = service.master()
    client = service.internal()
    assert client.get("/ping").status == 200
    binary.install("two")
    service.upgrade()
    os.kill(service.master(), signal.SIGQUIT)
    new = service.pid("freshetd")
    wait_until(lambda: birth(old) is None and birth(new) is None, "both masters to exit", 20)
    assert not os.path.exists(service.socket_path)
