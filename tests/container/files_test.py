"""Dockerfile, compose.yaml and nginx/container.sed agree with each other, with the rest of the repository and with the
section "Containers" of OPERATIONS.md. Needs no container.
"""

import ipaddress
import os
import re
import subprocess
import sys
import tempfile
import unittest

import compose
from compose import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests/nginx"))
import config_test  # noqa: E402
import mistakes_test  # noqa: E402

LINTERS = os.path.join(ROOT, "tests/browser/node_modules/.bin")
# Rules of dclint about the order and quoting of keys, and two that do not fit: the images are built here, so each has a
# name for its build, and no version besides the checkout's.
STYLE = ["service-keys-order", "services-alphabetical-order", "service-dependencies-alphabetical-order", "top-level-properties-order",
         "require-quotes-in-ports", "no-build-and-image", "service-image-require-explicit-tag"]


def text_of(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def stages():
    """{stage: [(instruction, arguments)]} of the Dockerfile; continued lines are joined. The last stage has no name."""
    found, stage = {}, None
    for line in re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text_of("Dockerfile"), flags=re.M)).splitlines():
        instruction, _, arguments = line.strip().partition(" ")
        if instruction == "FROM":
            base, _, stage = arguments.partition(" AS ")
            found[stage] = []
        if instruction and stage is not None:
            found[stage].append((instruction, arguments))
    return found


def section(heading="## Containers"):
    """A section of OPERATIONS.md, as one line."""
    return " ".join(re.search(rf"^{heading}\n.*?(?=^## )", text_of("OPERATIONS.md"), re.M | re.S)[0].split())


class Compose(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.file = compose.read()
        cls.services = cls.file["services"]
        cls.stages = stages()
        cls.targets = {service["image"]: service["build"]["target"] for service in cls.services.values() if "build" in service}

    def volumes(self, service):
        """{mount point: (volume, options)}"""
        return {path: (name, options) for name, path, *options in (volume.split(":") for volume in self.services[service].get("volumes", ()))}

    def instructions(self, stage, name):
        """Arguments of the instruction in the stage and those it is built from."""
        inherited = []
        base = next(arguments for instruction, arguments in self.stages[stage] if instruction == "FROM").split()[0]
        if base in self.stages:
            inherited = self.instructions(base, name)
        return inherited + [arguments for instruction, arguments in self.stages[stage] if instruction == name]

    def test_the_linters_have_no_findings(self):
        if not os.path.exists(os.path.join(LINTERS, "dclint")):
            self.assertNotEqual(os.environ.get("CI"), "true", "dclint is not installed")
            self.skipTest("not installed: ./scripts/deps test")
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(compose.text())
            file.flush()
            for command in (["dclint", file.name, "--max-warnings", "0", "--disable-rule", *STYLE], ["dockerfile-utils", "lint", os.path.join(ROOT, "Dockerfile")]):
                done = subprocess.run([f"{LINTERS}/{command[0]}", *command[1:]], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stdout.strip()), (0, ""), done.stderr)

    def test_no_container_runs_as_root_or_with_rights_it_does_not_need(self):
        for name, service in self.services.items():
            with self.subTest(service=name):
                self.assertTrue(service["read_only"])
                self.assertEqual((service["cap_drop"], service["security_opt"]), (["ALL"], ["no-new-privileges:true"]))
                if service["image"] in self.targets:
                    # Kubernetes' runAsNonRoot accepts numbers only.
                    self.assertRegex(self.instructions(self.targets[service["image"]], "USER")[-1], r"^[1-9]\d*:[1-9]\d*$")
                    self.assertNotIn("user", service)
                else:
                    self.assertNotIn(service["user"].split(":")[0], ("0", "root"))

    def test_the_default_target_is_the_service(self):
        self.assertEqual(list(self.stages)[-1], "")
        self.assertEqual(self.stages[""], [("FROM", "freshet")])

    def test_every_target_is_a_stage_and_every_copied_file_exists(self):
        self.assertLessEqual(set(self.targets.values()), set(self.stages))
        ignored = [line for line in text_of(".dockerignore").splitlines() if line and line[0] != "#"]
        copied = [arguments.split() for stage in self.stages for instruction, arguments in self.stages[stage] if instruction == "COPY"]
        local = [source for words in copied if not words[0].startswith("--from=") for source in words[:-1] if source != "."]
        self.assertGreater(len(local), 5)
        for source in local:
            self.assertTrue(os.path.exists(os.path.join(ROOT, source)), source)
            self.assertFalse([path for path in ignored if source == path or source.startswith(path + "/")], source)

    def test_only_images_that_are_not_built_here_are_pulled(self):
        for name, service in self.services.items():
            self.assertEqual(service.get("pull_policy"), "never" if service["image"] in self.targets else None, name)

    def test_each_image_is_built_by_one_service(self):
        built = [service["image"] for service in self.services.values() if "build" in service]
        self.assertEqual(sorted(built), sorted(set(built)), "parallel builds of one image can fail")
        for name, service in self.services.items():
            if "build" in service:
                self.assertEqual(service["build"], {"context": ".", "target": self.targets[service["image"]]}, name)
            elif service["image"] not in self.targets:
                self.assertRegex(service["image"], r"^[\w.]+/.*:\d", f"{name}: an image of a registry has a host and a version")

    def test_every_volume_and_network_is_declared_and_used(self):
        used = {volume for name in self.services for volume, _ in self.volumes(name).values()}
        self.assertEqual(used, set(self.file["volumes"]))
        self.assertEqual({network for service in self.services.values() for network in service.get("networks", ())}, set(self.file["networks"]))

    def test_dependencies_form_no_cycle_and_come_first(self):
        order = list(self.services)
        for name, service in self.services.items():
            for other, condition in service.get("depends_on", {}).items():
                self.assertLess(order.index(other), order.index(name))
                if condition["condition"] == "service_healthy":
                    check = self.services[other].get("healthcheck") or self.instructions(self.targets[self.services[other]["image"]], "HEALTHCHECK")
                    self.assertTrue(check, other)

    def variables(self):
        """The environment variables that set a directive."""
        directives = re.findall(r"^#([a-z_]+(?:\.[a-z_]+)*) = ", text_of("systemd/freshet.toml"), re.M)
        self.assertGreater(len(directives), 150)
        return {"FRESHET_CONF_" + name.upper().replace(".", "_") for name in directives}

    def test_every_setting_is_a_directive_and_of_the_service_and_its_tools_alike(self):
        names = self.variables()
        settings = self.services["freshetd"]["environment"]
        self.assertLessEqual(set(settings), names)
        self.assertGreater(len(settings), 3)
        tools = {name for name, service in self.services.items() if "environment" in service}
        self.assertEqual(tools, {"freshetd", "schedule", "sample"})
        for name in tools:
            self.assertEqual(self.services[name]["environment"], settings, name)

    def test_no_secret_is_in_the_environment(self):
        for name, service in self.services.items():
            for variable, value in service.get("environment", {}).items():
                self.assertNotRegex(value, r"://[^/]*@", (name, variable))
                self.assertFalse(variable.endswith(("PASSWORD", "SALT", "KEY")), (name, variable))

    def test_the_programs_accept_the_settings(self):
        """With the secrets where compose.yaml mounts them; nothing is connected."""
        freshetd = os.path.join(os.environ.get("FRESHET_BUILD_DIR", os.path.join(ROOT, "build/release")), "fcgi/freshetd")
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "secrets"))
            for name in ("salt", "redis-password"):
                with open(os.path.join(folder, "secrets", name), "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                    file.write("0123456789abcdef" * 4)
            with open(os.path.join(folder, "freshet.toml"), "w", encoding="utf-8") as file:
                file.write(text_of("systemd/freshet.toml"))
            done = subprocess.run([freshetd, "-tt", "-y", file.name], env=os.environ | self.services["freshetd"]["environment"], capture_output=True, text=True,
                                  check=False)
        output = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, output)
        for variable in self.services["freshetd"]["environment"]:
            self.assertRegex(output, rf"(?m)^\w+\.\w+ = .*# {variable}$")

    def test_one_container_records_into_the_data_volume(self):
        def program(service):
            entry = self.instructions(self.targets[service["image"]], "ENTRYPOINT") if service["image"] in self.targets else []
            return entry or compose.words(service.get("command", ["freshetd"]))[:1]
        masters = [name for name, service in self.services.items() if program(service) == ["freshetd"]]
        self.assertEqual(masters, ["freshetd"])
        self.assertIn("hostname", self.services["freshetd"])
        self.assertIn('CMD ["freshetd", "-F", "-y", "/etc/freshet/freshet.toml"]', text_of("Dockerfile"))
        # The database and the model are in one volume.
        holders = {name for name in self.services if ("data", []) in self.volumes(name).values()}
        self.assertLessEqual({"freshetd", "schedule"}, holders)
        self.assertEqual([self.volumes(name)["/var/lib/freshet"] for name in holders], [("data", [])] * len(holders))

    def test_the_mount_points_are_the_paths_of_the_settings(self):
        defaults = dict(re.findall(r'^#([a-z_.]+) = "(/[^"]*)"', text_of("systemd/freshet.toml"), re.M))
        for name in ("spool.path", "recorder.database", "search.index", "recommend.model"):
            self.assertTrue(defaults[name].startswith("/var/lib/freshet/"), name)
        for name in ("listen.address", "pm.status_listen"):
            self.assertTrue(defaults[name].startswith("/run/freshet/"), name)
        for service in ("freshetd", "nginx"):
            self.assertEqual(self.volumes(service)["/run/freshet"], ("run", []))
        # Docker gives a new volume the owner that its mount point has in the image.
        made = " ".join(self.instructions("freshet", "RUN"))
        for path in {path for name in ("secrets", "freshetd", "schedule") for path in self.volumes(name)}:
            self.assertRegex(made, rf"install -d -o freshet -g freshet -m \d+[^&]* {path}\b")

    def test_the_operators_password_is_not_where_the_service_runs(self):
        holders = {name for name in self.services if any(volume == "operator" for volume, _ in self.volumes(name).values())}
        self.assertEqual(holders, {"secrets", "schedule"})
        writers = {name for name in self.services for volume, options in self.volumes(name).values() if volume in ("secrets", "operator") and options != ["ro"]}
        self.assertEqual(writers, {"secrets"})

    def test_only_nginx_publishes_ports_and_on_loopback(self):
        published = {name: service["ports"] for name, service in self.services.items() if "ports" in service}
        self.assertEqual(published, {"nginx": ["127.0.0.1:8080:8080", "127.0.0.1:8081:8081"]})
        # Only the public one has a variable.
        self.assertEqual(len(re.findall(r"\$\{.*:8080\"$", text_of("compose.yaml"), re.M)), 1, "the file has no variable for the public port")
        self.assertEqual(re.findall(r"\$\{.*8081", text_of("compose.yaml")), [])
        self.assertEqual(self.instructions("nginx", "EXPOSE"), ["8080 8081"])
        # Redis and the service are on a network that leads nowhere else.
        self.assertTrue(self.file["networks"]["service"]["internal"])
        self.assertEqual(self.services["redis"]["networks"], ["service"])
        self.assertIn("nginx", self.services["freshetd"]["environment"]["FRESHET_CONF_HTTP_INTERNAL_HOSTS"])

    def test_nginx_is_in_the_group_of_the_sockets(self):
        user, group = self.instructions("freshet", "USER")[-1].split(":")
        self.assertEqual(self.instructions("nginx", "USER")[-1].split(":")[1], group)
        created = " ".join(self.instructions("freshet", "RUN"))
        self.assertIn(f"groupadd --gid {group} ", created)
        self.assertIn(f"useradd --uid {user} --gid {group} ", created)
        self.assertIn(f" {user} ", section())
        self.assertIn("#listen.mode = 0o660\n", text_of("systemd/freshet.toml"))

    def test_a_container_has_the_time_that_its_process_needs_to_drain(self):
        unit = int(re.search(r"^TimeoutStopSec=(\d+)$", text_of("systemd/freshet.service"), re.M)[1])
        control = int(re.search(r'^#process_control_timeout = "(\d+)s"$', text_of("systemd/freshet.toml"), re.M)[1])
        grace = {name: compose.seconds(self.services[name]["stop_grace_period"]) for name in ("freshetd", "nginx", "redis")}
        self.assertEqual(grace["freshetd"], unit)
        self.assertGreater(grace["freshetd"], control)
        self.assertGreater(grace["nginx"], 35)  # fastcgi_read_timeout of the bulk routes
        self.assertEqual((self.instructions("freshet", "STOPSIGNAL"), self.instructions("nginx", "STOPSIGNAL")), (["SIGTERM"], ["SIGQUIT"]))
        # A dependent service stops first, so nginx has no request left when the service drains.
        self.assertIn("freshetd", self.services["nginx"]["depends_on"])

    def test_operations_states_the_same_facts(self):
        self.assertIn("`hostname`", section())
        self.assertIn("`listen.mode`", section())
        facts = section("### Kubernetes")
        service = self.services["freshetd"]
        before_stop = int(re.search(r"`sleep (\d+)` for freshetd", " ".join(facts.split()))[1])
        for fact in (f"terminationGracePeriodSeconds: {compose.seconds(service['stop_grace_period']) + before_stop}", "`exec: freshetctl status`", "`exec: freshetctl status --health`", *(f"`{path}`" for path in service["tmpfs"])):
            self.assertIn(fact, facts)
        # The paths, ports, user and variables that the page mentions are those of compose.yaml and the image.
        mounted = {path for name in ("freshetd", "nginx") for path in [*self.volumes(name), *self.services[name]["tmpfs"]]}
        self.assertEqual(set(re.findall(r"`(/[a-z/]+)`", facts)), mounted)
        self.assertEqual(set(re.findall(r"\b8\d{3}\b", facts)), {mapping.split(":")[-1] for mapping in self.services["nginx"]["ports"]})
        user, group = self.instructions("freshet", "USER")[-1].split(":")
        self.assertEqual((user, re.findall(r"fsGroup: (\d+)", facts)), (group, [group]))
        self.assertLessEqual({name for name in re.findall(r"FRESHET_CONF_\w+", facts)}, self.variables())
        health = self.instructions("freshet", "HEALTHCHECK")[-1]
        self.assertTrue(health.endswith('CMD ["freshetctl", "status", "--health", "--config", "/etc/freshet/freshet.toml"]'), health)

    def test_packages_come_without_recommendations_and_leave_no_lists(self):
        installs = [command for stage in self.stages if stage != "build" for instruction, command in self.stages[stage] if instruction == "RUN" and "apt-get" in command]
        self.assertEqual(len(installs), 3)
        for command in installs:
            self.assertRegex(command, r"apt-get update\s+&& apt-get install -y --no-install-recommends .* && rm -rf /var/lib/apt/lists/\* ")


class Nginx(unittest.TestCase):
    """The configuration that container.sed makes of the shipped one."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.script = os.path.join(ROOT, "nginx/container.sed")
        os.mkdir(os.path.join(cls.folder.name, "nginx"))
        cls.shipped, cls.adapted = {}, {}
        for name in sorted(os.listdir(os.path.join(ROOT, "nginx"))):
            if name.endswith(".conf"):
                cls.shipped[name] = text_of(f"nginx/{name}")
                cls.adapted[name] = cls.sed("-f", cls.script, cls.shipped[name])
                with open(os.path.join(cls.folder.name, "nginx", name), "w", encoding="utf-8") as file:
                    file.write(cls.adapted[name])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @staticmethod
    def sed(*arguments):
        *options, text = arguments
        return subprocess.run(["sed", *options], input=text, capture_output=True, text=True, check=True).stdout

    def parsed(self):
        """The adapted configuration, read by the functions of the shipped one's tests."""
        root, before = config_test.Block([], None, ""), config_test.ROOT
        config_test.ROOT = self.folder.name
        try:
            config_test.parse("nginx.conf", root)
        finally:
            config_test.ROOT = before
        return root

    def test_every_command_of_the_script_changes_something(self):
        commands = re.sub(r"^#.*\n|^\n", "", text_of("nginx/container.sed"), flags=re.M)
        commands = re.split(r"(?<!\\)\n", commands.strip())
        self.assertGreater(len(commands), 6)
        everything = "".join(self.shipped.values())
        for command in commands:
            self.assertNotEqual(self.sed(command, everything), everything, command)

    def test_nothing_needs_root_or_a_writable_root(self):
        settings = list(self.parsed().walk())
        paths = [word for block in settings for word in block.arguments if word.startswith("/") and block.name.endswith(("_log", "_path", "pid", "_temp_path"))]
        self.assertGreater(len(paths), 6)
        for path in paths:
            self.assertTrue(path.startswith(("/var/lib/nginx/", "/dev/stdout")), path)
        ports = [int(block.arguments[0].rpartition(":")[2]) for block in settings if block.name == "listen"]
        self.assertEqual(sorted(ports), [8080, 8080, 8081, 8081])
        self.assertEqual([str(block) for block in settings if block.name == "user"], [])
        self.assertEqual({block.arguments[0] for block in settings if block.name == "error_log"}, {"stderr"})

    def test_a_line_of_the_log_is_one_write(self):
        sizes = {word for block in self.parsed().walk() if block.name == "access_log" for word in block.arguments if word.startswith("buffer=")}
        self.assertEqual(sizes, {"buffer=4k"})  # PIPE_BUF

    def test_the_internal_server_refuses_public_addresses(self):
        server = next(block for block in self.parsed().walk() if block.name == "server" and block.file == "freshet-internal.conf")
        rules = [(block.name, block.arguments[0]) for block in server.inner if block.name in ("allow", "deny")]
        self.assertEqual(rules[-1], ("deny", "all"))
        self.assertEqual(len([rule for rule in rules if rule[0] == "deny"]), 1)
        for _, network in rules[:-1]:
            self.assertTrue(ipaddress.ip_network(network).is_private or ipaddress.ip_network(network).is_loopback, network)

    def test_everything_else_is_as_shipped(self):
        for name, text in self.shipped.items():
            removed = [line for line in text.splitlines() if line not in self.adapted[name].splitlines()]
            for line in removed:
                self.assertRegex(line, r"^ *(listen|access_log|error_log|user|pid) ")

    def test_there_are_no_findings_as_in_the_shipped_files(self):
        for name in mistakes_test.RULES:
            with self.subTest(rule=name):
                self.assertEqual(list(mistakes_test.findings(self.parsed(), name)), [])


if __name__ == "__main__":
    unittest.main()
