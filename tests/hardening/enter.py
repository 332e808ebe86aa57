"""Last step into the sandbox: passes sockets like systemd, sets limits and filters, and executes the program.

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


def load_filter(default, rules):
    syscall_filter = seccomp.SyscallFilter(defaction=seccomp.ALLOW if default == "allow" else seccomp.ERRNO(default))
    for action, call, conditions in rules:
        arguments = [seccomp.Arg(index, getattr(seccomp, operator), *values) for index, operator, *values in conditions]
        try:
            syscall_filter.add_rule(seccomp.ALLOW if action == "allow" else seccomp.ERRNO(action), call, *arguments)
        except RuntimeError:
            if seccomp.resolve_syscall(seccomp.Arch(), call) >= 0:
                raise
            # systemd also leaves out calls that this architecture does not have.
    syscall_filter.load()


def main():
    filters, descriptors, program = sys.argv[1], [int(fd) for fd in sys.argv[2].split(",") if fd], sys.argv[3:]
    with open(filters, encoding="utf-8") as file:
        filters = json.load(file)
    # Like systemd, adopt orphans: after an upgrade the new master is no longer a child of the old one.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if child := os.fork():
        status = 0
        while True:
            try:
                pid, exit_status = os.wait()
            except ChildProcessError:
                sys.exit(os.waitstatus_to_exitcode(status) & 255)
            # The status of the service, or of its successor after an upgrade.
            if exit_status != 0 or pid == child:
                status = exit_status
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in descriptors]
    for number, fd in enumerate(high):
        os.dup2(fd, 3 + number, inheritable=True)
    if descriptors:
        os.environ |= {"LISTEN_FDS": str(len(descriptors)), "LISTEN_PID": str(os.getpid())}
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)
    for default, rules in filters:
        load_filter(default, rules)
    os.execv(program[0], program)


main()
