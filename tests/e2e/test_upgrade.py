"""Another binary on the same sockets, and back again, while readers read and report; and binaries that are no good."""

import os
import shutil
import signal
import tempfile

import pytest

from client import Load
from readers import mixed
from service import BUILD, PATIENT, Instance, birth, wait_until

def edition_of(program):
    """What install() wrote behind the program's own bytes."""
    with open(program, "rb") as file:
        file.seek(-16, os.SEEK_END)
        return file.read().rpartition(b"edition ")[2].decode()


class Binary:
    """A folder where freshetd stands; editions of it are put there in one step, as a package does."""

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
        """The same program in another file, with its edition at the end, where nobody but edition_of() looks."""
        self.put(self._program + f"edition {edition}".encode())


class Upgradable(Instance):
    def master(self):
        """The pid in the file, once it is complete."""
        with open(os.path.join(self.state, "run/freshetd.pid"), encoding="ascii") as file:
            return int(file.read())

    def adopt(self):
        """Makes scripts/run and the other methods know the new master."""
        path, pid = os.path.join(self.state, "run/processes"), self.master()
        with open(path, encoding="utf-8") as file:
            lines = [line if not line.startswith("freshetd ") else f"freshetd {pid} {birth(pid)} QUIT\n" for line in file]
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines)
        self.note_processes()

    def upgrade(self):
        """Asks for the binary that stands there; returns when its master is the main one."""
        before = self.master()
        os.kill(before, signal.SIGUSR2)
        wait_until(lambda: self.master() != before, "another master", 40)
        self.adopt()
        return before


@pytest.fixture
def upgradable(monkeypatch):
    folder = tempfile.mkdtemp(prefix="freshet-binary-", dir="/tmp")
    os.chmod(folder, 0o755)
    binary = Binary(folder)
    monkeypatch.setenv("FRESHET_BUILD_DIR", folder)
    # Longer than nginx keeps a connection (keepalive_time): none is closed by a worker while nginx writes to it.
    started = Upgradable("--no-limits", process_control_timeout="10", **PATIENT)
    started.configure(pid=f'"{started.state}/run/freshetd.pid"')
    try:
        yield started.start(), binary
    finally:
        started.stop()
        shutil.rmtree(folder)


def test_ten_upgrades_to_and_fro_under_load_fail_no_request(upgradable, name):
    service, binary = upgradable
    readers, work = mixed(service, name)
    with Load(service.internal, work, threads=4) as load:
        for number in range(10):
            edition = ("two", "one")[number % 2]
            binary.install(edition)
            old = service.upgrade()
            assert edition_of(f"/proc/{service.master()}/exe") == edition
            seen = len(load.results)
            wait_until(lambda seen=seen: len(load.results) > seen + 50 or load.errors, f"load after upgrade {number}")
            wait_until(lambda old=old: birth(old) is None, "the old master to go", 30)
            wait_until(service.recorder, "a recorder")
    assert load.errors == []
    assert set(load.results) == {200} and readers.statuses == {200}
    readers.assert_counted_once()
    assert service.status()["generation"] == 11
    service.check()


def test_another_binary_keeps_the_counts_of_limits(upgradable, name):
    service, binary = upgradable
    service.configure(pid=f'"{service.state}/run/freshetd.pid"', limits__track_rate="0.0003", limits__track_burst=3)
    service.renew()

    def track(times):
        return [service.public().track(name("a"), 1).status for _ in range(times)]

    assert track(2) == [200, 200]
    for edition in ("two", "one"):
        binary.install(edition)
        old = service.upgrade()
        wait_until(lambda old=old: birth(old) is None, "the old master to go", 30)
    assert track(3) == [200, 429, 429]
    assert "limit_table_reset" not in service.log()


def test_a_binary_that_cannot_serve_leaves_the_old_one_serving(upgradable, name):
    service, binary = upgradable
    _, work = mixed(service, name)
    master, workers, recorder = service.master(), service.workers(), service.recorder()
    with open(binary.path, "rb") as file:
        whole = file.read()
    with Load(service.internal, work) as load:
        for number, (content, mode) in enumerate(((b"#!/bin/false\n", 0o755), (whole[:100000], 0o755), (whole, 0o644))):
            binary.put(content, mode)
            os.kill(master, signal.SIGUSR2)
            wait_until(lambda number=number: service.status()["failed reloads"] == number + 1, "the failure")
        seen = len(load.results)
        wait_until(lambda: len(load.results) > seen + 50 or load.errors, "load")
    assert load.errors == [] and set(load.results) == {200}
    assert (service.master(), service.workers(), service.recorder()) == (master, workers, recorder)
    assert service.log().count("reload_failed") == 3
    # The configuration alone is read again all the same.
    os.kill(master, signal.SIGHUP)
    wait_until(lambda: service.status()["generation"] == 2, "a reload")


def test_a_stop_in_the_middle_of_an_upgrade_ends_both(upgradable):
    service, binary = upgradable
    old = service.master()
    keep = service.internal()
    assert keep.get("/ping").status == 200
    binary.install("two")
    service.upgrade()
    os.kill(service.master(), signal.SIGQUIT)
    new = service.pid("freshetd")
    wait_until(lambda: birth(old) is None and birth(new) is None, "the end of both", 20)
    assert not os.path.exists(service.socket_path)
