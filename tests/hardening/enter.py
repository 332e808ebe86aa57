"""The last step into the sandbox: sockets as systemd passes them, limits, filters, and then the program.

enter.py FILTERS.json FD,FD… PROGRAM ARGUMENT…
"""

import ctypes
import fcntl
import json
import os
import resource
import sys

import seccomp

PR_SET_CHILD_SUBREAPER = 36


def load(default, rules):
    loaded = seccomp.SyscallFilter(defaction=seccomp.ALLOW if default == "allow" else seccomp.ERRNO(default))
    for action, call, conditions in rules:
        arguments = [seccomp.Arg(where, getattr(seccomp, operator), *values) for where, operator, *values in conditions]
        try:
            loaded.add_rule(seccomp.ALLOW if action == "allow" else seccomp.ERRNO(action), call, *arguments)
        except RuntimeError:
            if seccomp.resolve_syscall(seccomp.Arch(), call) >= 0:
                raise
            # A call that this architecture does not have: systemd leaves it out, too.
    loaded.load()


def main():
    filters, descriptors, program = sys.argv[1], [int(fd) for fd in sys.argv[2].split(",") if fd], sys.argv[3:]
    with open(filters, encoding="utf-8") as file:
        filters = json.load(file)
    # Above the service, as systemd is: when it hands over to another binary, the new master is no child of the old one any more.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if child := os.fork():
        status = 0
        while True:
            try:
                pid, ended = os.wait()
            except ChildProcessError:
                sys.exit(os.waitstatus_to_exitcode(status) & 255)
            # Of the first, or of one that was the service after it.
            if ended != 0 or pid == child:
                status = ended
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in descriptors]
    for number, fd in enumerate(high):
        os.dup2(fd, 3 + number, inheritable=True)
    if descriptors:
        os.environ |= {"LISTEN_FDS": str(len(descriptors)), "LISTEN_PID": str(os.getpid())}
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)
    for default, rules in filters:
        load(default, rules)
    os.execv(program[0], program)


main()
