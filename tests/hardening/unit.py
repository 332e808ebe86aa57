"""The unit's sandbox without systemd, modeled on systemd 252: seccomp filters with libseccomp, namespaces and mounts with
bubblewrap.

Names in brackets are directives of systemd.exec(5). Directives that need systemd (cgroups, SELinux) are left out.
"""

import errno
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

CLONE_NEW = [0x00000080, 0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000]
PROT_WRITE, PROT_EXEC, SHM_EXEC = 2, 4, 0o100000
AF = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10}
NAMESPACES = ["bwrap", "--unshare-user", "--unshare-net", "--unshare-uts", "--unshare-pid"]


def directives(path=os.path.join(ROOT, "systemd/freshet.service")):
    """Returns {name: [values]} of the unit's [Service] section."""
    out, section = {}, None
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.strip()
            if line.startswith("["):
                section = line
            elif section == "[Service]" and "=" in line and not line.startswith("#"):
                name, _, value = line.partition("=")
                out.setdefault(name, []).append(value)
    return out


def expand(name):
    """Returns the calls of a set such as @system-service, or the call itself."""
    if not name.startswith("@"):
        return {name}
    listing = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], capture_output=True, text=True, check=True).stdout
    lines = [line.strip() for line in listing.splitlines()[1:]]
    return set().union(*(expand(line) for line in lines if line and not line.startswith("#")))


def allowed_calls(unit):
    """[SystemCallFilter]: an allow list, to which systemd adds @default, minus the denied calls."""
    calls = set()
    for value in unit["SystemCallFilter"]:
        names = set().union(*(expand(name) for name in value.lstrip("~").split()))
        calls = calls - names if value.startswith("~") else calls | names | expand("@default")
    return calls


def filters(unit):
    """Returns the filters, to be loaded in order: (action for calls without a rule, [(action, call, [condition])]).
    Actions are an errno or "allow"; conditions are (argument, operator, value…) of libseccomp.
    """
    assert unit["SystemCallArchitectures"] == ["native"]
    out = []
    if unit.get("RestrictAddressFamilies"):
        families = sorted(AF[name] for name in unit["RestrictAddressFamilies"][-1].split())
        between = [family for family in range(families[0], families[-1]) if family not in families]
        refused = [("LT", families[0]), *(("EQ", family) for family in between), ("GT", families[-1])]
        out.append(("allow", [(errno.EAFNOSUPPORT, "socket", [(0, *each)]) for each in refused]))
    if unit.get("RestrictNamespaces") == ["yes"]:
        rules = [(errno.EPERM, call, [(where, "MASKED_EQ", flag, flag)])
                 for flag in CLONE_NEW for call, where in (("clone", 0), ("unshare", 0), ("setns", 1))]
        out.append(("allow", [*rules, (errno.EPERM, "setns", [(1, "EQ", 0)]), (errno.ENOSYS, "clone3", [])]))
    if unit.get("MemoryDenyWriteExecute") == ["yes"]:
        write_and_execute = PROT_WRITE | PROT_EXEC
        out.append(("allow", [(errno.EPERM, "mmap", [(2, "MASKED_EQ", write_and_execute, write_and_execute)]),
                              (errno.EPERM, "mprotect", [(2, "MASKED_EQ", PROT_EXEC, PROT_EXEC)]),
                              (errno.EPERM, "pkey_mprotect", [(2, "MASKED_EQ", PROT_EXEC, PROT_EXEC)]),
                              (errno.EPERM, "shmat", [(2, "MASKED_EQ", SHM_EXEC, SHM_EXEC)])]))
    if unit.get("RestrictRealtime") == ["yes"]:
        out.append(("allow", [(errno.EPERM, "sched_setscheduler", [(1, "EQ", policy)]) for policy in (1, 2, 6)]))
    if unit.get("RestrictSUIDSGID") == ["yes"]:
        modes = [("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("mkdir", 1), ("mkdirat", 2), ("mknod", 1), ("mknodat", 2), ("creat", 1)]
        rules = [(errno.EPERM, call, [(where, "MASKED_EQ", bit, bit)]) for call, where in modes for bit in (0o4000, 0o2000)]
        out.append(("allow", [*rules, (errno.ENOSYS, "openat2", [])]))
    if unit.get("LockPersonality") == ["yes"]:
        out.append(("allow", [(errno.EPERM, "personality", [(0, "NE", 0)])]))
    refused = getattr(errno, unit["SystemCallErrorNumber"][-1])
    out.append((refused, [("allow", call, []) for call in sorted(allowed_calls(unit))]))
    return out


def bubblewrap(unit, writable, readable):
    """Returns the command that enters the unit's namespaces. `writable`: the folders of [StateDirectory] and
    [RuntimeDirectory].
    """
    for name in ("PrivateNetwork", "PrivateUsers", "PrivateTmp", "PrivateDevices", "ProtectHome", "ProtectHostname", "NoNewPrivileges"):
        assert unit[name] == ["yes"], name
    assert unit["ProtectSystem"] == ["strict"] and unit["CapabilityBoundingSet"] == [""] and unit["AmbientCapabilities"] == [""]
    # [PrivateUsers] without a range maps the service's user and root; bubblewrap maps only the user. [ProtectProc]
    # hides other users' processes; bubblewrap can mount /proc only with a pid namespace, which has the same effect.
    command = [*NAMESPACES, "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for folder in ("/tmp", "/var/tmp", "/home", "/root"):
        command += ["--tmpfs", folder]
    # [ProcSubset=pid]: only processes are visible in /proc.
    assert unit["ProcSubset"] == ["pid"]
    for name in os.listdir("/proc"):
        path = f"/proc/{name}"
        if re.fullmatch(r"\d+|self|thread-self|mounts|net", name) or os.path.islink(path):
            continue
        command += ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]
    for path in readable:
        command += ["--ro-bind", path, path]
    for path in writable:
        command += ["--bind", path, path]
    return command
