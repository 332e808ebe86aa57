"""Runs a test so that it leaves no process behind: python3 contained.py COMMAND…

Exits as the command does, after a line with its duration and CPU time. When it ends, or this process is terminated or its
parent (ctest) dies, kills all descendants, also those that became daemons or made sessions of their own.
FRESHET_TEST_SECONDS, FRESHET_TEST_DEADLINE: skips the test (77) if it takes longer than is left until the deadline
(unix time). The command does not inherit FRESHET_TEST_SECONDS: it may run tests of its own.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
libc = ctypes.CDLL(None)


def kill_descendants():
    """Kills the children until there are none: this process adopts its descendants when their parents die."""
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            children = [int(pid) for pid in file.read().split()]
        if not children:
            return
        for pid in children:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):  # reaped by the code that a signal interrupted
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def terminated(number, _):
    kill_descendants()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def main(command):
    seconds, deadline = float(os.environ.pop("FRESHET_TEST_SECONDS", 0)), float(os.environ.get("FRESHET_TEST_DEADLINE", "inf"))
    if seconds and time.time() + seconds > deadline:
        print("SKIPPED: not enough time is left")
        sys.exit(77)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    # The terminal sends SIGINT to the test as well, which may clean up before it exits.
    signal.signal(signal.SIGINT, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, terminated)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # Python ignores these two signals, which a program would inherit.
    test = os.posix_spawnp(command[0], command, os.environ, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
    pid = status = None
    while pid != test:  # orphans end as well
        pid, status = os.wait()
    kill_descendants()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{time.monotonic() - began:.1f} s, {usage.ru_utime + usage.ru_stime:.1f} s of CPU")
    sys.stdout.flush()
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    sys.exit(os.waitstatus_to_exitcode(status))


main(sys.argv[1:])
