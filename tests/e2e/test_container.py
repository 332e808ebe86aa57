"""freshetd as the only process of a container: settings in the environment, and what a badly made container is told.

The service is started without nginx, and mostly without Redis."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading

import pytest

from service import BUILD, remove_tree, wait_until

NOBODY = 65534


@pytest.fixture
def home():
    """A folder that the unprivileged user may enter, with the program and the folders run and data."""
    folder = tempfile.mkdtemp(prefix="freshet-container-")
    os.chmod(folder, 0o755)
    shutil.copy(os.path.join(BUILD, "fcgi/freshetd"), folder)
    with open(os.path.join(folder, "freshet.toml"), "w", encoding="utf-8"):
        pass
    for name in ("run", "data"):
        os.mkdir(os.path.join(folder, name))
        if os.geteuid() == 0:
            os.chown(os.path.join(folder, name), NOBODY, NOBODY)
    yield folder
    remove_tree(folder)


def environment(home, **variables):
    settings = {
        "LISTEN_ADDRESS": f"{home}/run/freshetd.sock", "PM_STATUS_LISTEN": f"{home}/run/status.sock", "PM_MAX_CHILDREN": "1",
        "REDIS_URL": f"unix://{home}/run/no-redis.sock", "RECORDER_DATABASE": f"{home}/data/freshet.db", "SEARCH_INDEX": f"{home}/data/index",
        "SPOOL_PATH": f"{home}/data/spool", "RECOMMEND_MODEL": f"{home}/data/freshet.model"} | variables
    return {"PATH": os.environ["PATH"]} | {f"FRESHET_CONF_{name}": value for name, value in settings.items()}


def command(home, *arguments):
    return [f"{home}/freshetd", "-y", f"{home}/freshet.toml", *arguments]


def unprivileged():
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


class Service:
    def __init__(self, home, *, limits=None, zone=None, **variables):
        self.process = subprocess.Popen(command(home), env=environment(home, **variables) | ({"TZ": zone} if zone else {}),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=limits, **unprivileged())
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(iter(self.process.stderr.readline, "")))
        self.reader.start()

    def wait_for(self, *texts):
        def found():
            assert self.process.poll() is None, self.lines
            return next((line for line in list(self.lines) if all(text in line for text in texts)), None)
        return wait_until(found, " ".join(texts), 120)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        status = self.process.wait(timeout=240)
        self.reader.join()
        return status


@contextlib.contextmanager
def running(home, **options):
    service = Service(home, **options)
    try:
        yield service
    finally:
        assert service.end() == 0, service.lines


def test_the_environment_alone_configures_the_service(home):
    done = subprocess.run(command(home, "-tt"), env=environment(home), capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0 and "pm.max_children = 1  # FRESHET_CONF_PM_MAX_CHILDREN\n" in done.stderr, done
    assert 'log_level = "notice"  # default\n' in done.stderr
    refused = subprocess.run(command(home, "-t"), env=environment(home, REDIS_URL="redis://app:pa55word@redis:6379"), capture_output=True, text=True,
                             check=False, timeout=240)
    assert refused.returncode == 78 and "FRESHET_CONF_REDIS_PASSWORD_FILE" in refused.stderr and "pa55word" not in refused.stderr
    with running(home) as service:
        service.wait_for("event=master_started", "workers=1")


def test_without_the_folder_of_its_sockets_it_says_what_to_create(home):
    os.rmdir(os.path.join(home, "run"))
    done = subprocess.run(command(home), env=environment(home), capture_output=True, text=True, check=False, timeout=240, **unprivileged())
    assert done.returncode != 0 and f"pm.status_listen: cannot bind {home}/run/status.sock: No such file or directory; create its folder" in done.stderr


def test_a_socket_folder_of_another_user_is_named(home):
    os.chmod(os.path.join(home, "run"), 0o555)
    done = subprocess.run(command(home), env=environment(home), capture_output=True, text=True, check=False, timeout=240, **unprivileged())
    assert done.returncode != 0 and "Permission denied; make its folder writable by user" in done.stderr, done.stderr


def test_a_data_volume_that_is_not_writable_is_named(home):
    os.chmod(os.path.join(home, "data"), 0o555)
    with running(home) as service:
        for directive in ("recorder.database", "search.index", "spool.path"):
            assert f"folder={home}/data " in service.wait_for("event=folder_not_writable", f"directive={directive}")


def test_with_too_little_memory_it_says_which_limits_to_change(home):
    with running(home, limits=lambda: resource.setrlimit(resource.RLIMIT_AS, (104 << 20, 104 << 20))) as service:
        assert "raise the limits of memory and processes" in service.wait_for("event=child_failed", "process=freshetd-worker")


def test_it_starts_again_after_it_was_killed_at_once_and_in_any_time_zone(home):
    service = Service(home)
    service.wait_for("event=master_started")
    assert service.end(signal.SIGKILL) == -signal.SIGKILL
    with running(home, zone="XYZ-5:45") as again:
        assert "+05:45 " in again.wait_for("event=master_started")
