"""A stand-in for systemd on machines where it is not PID 1: holds the socket and restarts the master."""

import os
import re
import socket
import subprocess
import threading
import time

from service import ROOT, birth, wait_until


class Supervisor:
    """Takes over the freshetd of a running instance, with the unit's Type=notify, Restart=on-failure and RestartSec,
    and the socket unit's socket.
    """

    def __init__(self, service):
        self.service = service
        with open(os.path.join(ROOT, "systemd/freshet.service"), encoding="utf-8") as file:
            self._restart_s = int(re.search(r"^RestartSec=(\d+)ms$", file.read(), re.MULTILINE)[1]) / 1000
        self.ready = []  # times of READY=1 (time.monotonic)
        self._stopping = False

    def __enter__(self):
        pid, began = self.service.pid("freshetd"), birth(self.service.pid("freshetd"))
        self.service.record_processes()
        os.kill(pid, 15)
        wait_until(lambda: birth(pid) != began, "the unsupervised master to exit", 45)
        owner = os.stat(os.path.join(self.service.state, "redis"))
        self._user = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        self._socket = self._listen(self.service.socket_path, owner)
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(f"\0freshet-faults-{os.getpid()}-{id(self)}")
        self._notify.settimeout(0.2)
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._supervise, self._read_notifications)]
        for each in self._threads:
            each.start()
        self.wait_until_ready(1)
        return self

    def __exit__(self, *_):
        self._stopping = True
        if self._process.poll() is None:
            self.service.record_processes()
            self._process.terminate()
        for each in self._threads:
            each.join(60)
        self._socket.close()
        self._notify.close()

    def wait_until_ready(self, count):
        """Waits until READY=1 has been received `count` times in total. Returns the time of the last one."""
        wait_until(lambda: len(self.ready) >= count, "READY=1", 30)
        return self.ready[count - 1]

    @staticmethod
    def _listen(path, owner):
        if os.path.exists(path):
            os.unlink(path)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(path)
        os.chmod(path, 0o660)
        os.chown(path, owner.st_uid, owner.st_gid)
        listening.listen(1024)
        return listening

    def _start(self):
        program = os.path.join(os.environ.get("FRESHET_BUILD_DIR", os.path.join(ROOT, "build/release")), "fcgi/freshetd")
        descriptor = self._socket.fileno()
        # The shell's pid, which exec keeps, is the one for LISTEN_PID.
        command = ["bash", "-c", f'exec 3<&{descriptor} {descriptor}<&-; export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@"', "_", program, "-F",
                   *(["-R"] if os.geteuid() == 0 else []), "-y", os.path.join(self.service.state, "etc/freshet.toml")]
        if descriptor == 3:
            command[2] = 'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@"'
        environment = dict(os.environ, NOTIFY_SOCKET=self._notify.getsockname().decode().replace("\0", "@"))
        with open(os.path.join(self.service.state, "log/freshetd.log"), "ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                                             pass_fds=(descriptor,), start_new_session=True, **self._user)
        self.service.replace_process("freshetd", self._process.pid, "QUIT")

    def _supervise(self):
        while not self._stopping:
            self._start()
            status = self._process.wait()
            if status == 0:
                return
            time.sleep(self._restart_s)

    def _read_notifications(self):
        while not self._stopping or self._process.poll() is None:
            try:
                if "READY=1" in self._notify.recv(4096).decode().split("\n"):
                    self.ready.append(time.monotonic())
            except TimeoutError:
                pass
