"""Reads compose.yaml and starts its services with podman: as much of the format as that file uses. A key that this module
does not know is an error, so that nothing in the file goes untested.
"""

import json
import os
import re
import resource
import subprocess
import sys

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from waiting import wait_until  # noqa: E402

SERVICE_KEYS = {"image", "build", "pull_policy", "user", "command", "hostname", "environment", "volumes", "tmpfs", "networks", "network_mode", "ports", "read_only",
                "cap_drop", "security_opt", "ulimits", "stop_grace_period", "restart", "healthcheck", "depends_on", "profiles", "logging"}


def text():
    """compose.yaml with its variables at their defaults."""
    with open(os.path.join(ROOT, "compose.yaml"), encoding="utf-8") as file:
        return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", file.read())


def read():
    project = yaml.safe_load(text())
    unknown = {key for key in project if not key.startswith("x-")} - {"name", "services", "networks", "volumes"}
    assert not unknown, unknown
    for name, service in project["services"].items():
        assert not set(service) - SERVICE_KEYS, (name, set(service) - SERVICE_KEYS)
    return project


def seconds(duration):
    """A duration of compose.yaml: a number with s or m."""
    return int(duration[:-1]) * {"s": 1, "m": 60}[duration[-1]]


def words(command):
    """A command as a list: compose.yaml has lists, and text that a shell would split."""
    return command if isinstance(command, list) else subprocess.run(["xargs", "printf", r"%s\n"], input=command, capture_output=True, text=True,
                                                                    check=True).stdout.split("\n")[:-1]


class Podman:
    def __init__(self, *options):
        self._command = ["podman", *options]

    def __call__(self, *arguments, check=True, timeout=300):
        """Returns the finished process; its output is text."""
        done = subprocess.run([*self._command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=timeout)
        assert done.returncode == 0 or not check, (arguments, done.stdout, done.stderr)
        return done

    def inspect(self, container):
        return json.loads(self("inspect", "--type", "container", container).stdout)[0]

    def state(self, container):
        return self.inspect(container)["State"]

    def logs(self, container):
        done = self("logs", container)
        return done.stdout + done.stderr


class Project:
    """The containers of compose.yaml. `images`: image of the file → the one to use instead."""

    def __init__(self, podman, images):
        self.file, self.podman, self._images = read(), podman, images
        self.services = self.file["services"]

    def container(self, service):
        return f"{self.file['name']}-{service}"

    def _volume(self, volume):
        """A volume as podman's option. compose.yaml mounts named volumes only."""
        name, *rest = volume.split(":")
        assert name in self.file["volumes"], volume
        return ":".join([f"{self.file['name']}_{name}", *rest])

    def create_networks(self):
        for name, settings in self.file["networks"].items():
            self.podman("network", "create", *(["--internal"] if (settings or {}).get("internal") else []), f"{self.file['name']}_{name}")

    def options(self, name):
        """podman's options for the service, without its name, image and command."""
        service = self.services[name]
        networks = [service["network_mode"]] if "network_mode" in service else [f"{self.file['name']}_{network}:alias={name}" for network in service["networks"]]
        options = [f"--network={network}" for network in networks]
        options += [f"--env={variable}={value}" for variable, value in service.get("environment", {}).items()]
        options += [f"--volume={self._volume(volume)}" for volume in service.get("volumes", ())]
        options += [f"--tmpfs={path}" for path in service.get("tmpfs", ())]
        options += [f"--publish={port}" for port in service.get("ports", ())]
        options += [f"--cap-drop={name}" for name in service["cap_drop"]]
        options += [f"--security-opt={option}" for option in service["security_opt"]]
        options += [f"--restart={service['restart']}", f"--stop-timeout={seconds(service.get('stop_grace_period', '10s'))}"]
        options += [f"--{option}={service[option]}" for option in ("user", "hostname") if option in service]
        options += ["--read-only", "--read-only-tmpfs=false"] if service["read_only"] else []
        # podman's own values are those of an unconfined root, and some sandboxes do not let root raise limits.
        hard = {limit: resource.getrlimit(number)[1] for limit, number in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC))}
        limits = {limit: min(service.get("ulimits", {}).get(limit, value), value) for limit, value in hard.items()}
        options += [f"--ulimit={limit}={value}:{value}" for limit, value in limits.items()]
        check = service.get("healthcheck", {})
        if check.get("disable"):
            options += ["--no-healthcheck"]
        elif check:
            kind, *command = check["test"]
            options += [f"--health-cmd={command[0] if kind == 'CMD-SHELL' else json.dumps(command)}", f"--health-timeout={check['timeout']}"]
        return options

    def image(self, name):
        image = self.services[name]["image"]
        return self._images.get(image, f"localhost/{image}")

    def create(self, name, *more, command=None):
        service = self.services[name]
        self.podman("create", f"--name={self.container(name)}", *self.options(name), *more, self.image(name),
                    *(words(service.get("command", [])) if command is None else command))

    def up(self, *names, recreate=False):
        """Starts the services and those that they depend on, in order, each when the conditions of depends_on hold."""
        for name in names or [name for name, service in self.services.items() if "profiles" not in service]:
            for other, condition in self.services[name].get("depends_on", {}).items():
                self.up(other)
                self._await(other, condition["condition"])
            exists = self.podman("container", "exists", self.container(name), check=False).returncode == 0
            if exists and recreate:
                self.podman("rm", "-f", self.container(name))
            if not exists or recreate:
                self.create(name)
            if not self.podman.state(self.container(name))["Running"]:
                self.podman("start", self.container(name))

    def _await(self, name, condition):
        container = self.container(name)
        if condition == "service_completed_successfully":
            wait_until(lambda: self.podman.state(container)["Status"] == "exited", f"{name} to end")
            assert self.podman.state(container)["ExitCode"] == 0, self.podman.logs(container)
        else:
            assert condition == "service_healthy", condition
            self.await_healthy(name)

    def is_healthy(self, name):
        return self.podman("healthcheck", "run", self.container(name), check=False).returncode == 0

    def await_healthy(self, name):
        def done():
            assert self.podman.state(self.container(name))["Running"], self.podman.logs(self.container(name))
            return self.is_healthy(name)
        wait_until(done, f"{name} to be healthy")

    def stop(self, *names):
        """Stops the services, dependent ones first, as compose does. Returns {service: exit status}."""
        order = [name for name in reversed(self.services) if not names or name in names]
        order = [name for name in order if self.podman("container", "exists", self.container(name), check=False).returncode == 0]
        for name in order:
            self.podman("stop", self.container(name))
        return {name: self.podman.state(self.container(name))["ExitCode"] for name in order}
