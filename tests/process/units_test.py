"""Consistency of the units: batch jobs, timers, and what the programs rely on."""

import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVICES = ["freshet.service", "freshet-train.service", "freshet-fill.service", "freshet-check.service", "freshet-tune.service"]
SANDBOX = "# --- Sandbox"


def read(name):
    with open(os.path.join(ROOT, "systemd", name), encoding="utf-8") as file:
        return file.read()


def directives(text):
    """Returns {name: [values]} of all sections."""
    out = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", text, re.M):
        out.setdefault(name, []).append(value)
    return out


class Units(unittest.TestCase):
    def test_jobs_have_the_sandbox_of_the_service(self):
        service, *jobs = (directives(read(name).partition(SANDBOX)[2].partition("\n[Install]")[0]) for name in SERVICES)
        self.assertGreater(len(service), 30)
        for job in jobs:
            self.assertIn(job.pop("RestrictAddressFamilies"), (["AF_UNIX"], ["none"]))
            self.assertEqual(job, {name: values for name, values in service.items() if name != "RestrictAddressFamilies"})

    def test_units_share_an_account_and_keep_their_files_private(self):
        for name in SERVICES:
            with self.subTest(unit=name):
                unit = directives(read(name))
                self.assertEqual({directive: unit.get(directive) for directive in ("User", "Group", "StateDirectory", "StateDirectoryMode", "UMask", "LimitCORE")},
                                 {"User": ["freshet"], "Group": ["freshet"], "StateDirectory": ["freshet"], "StateDirectoryMode": ["0700"],
                                  "UMask": ["0077"], "LimitCORE": ["0"]})  # core files would contain secrets
        self.assertEqual([directives(read(name)).get("SupplementaryGroups") for name in SERVICES], [["redis"], None, ["redis"], ["redis"], None])

    def test_the_drop_in_for_valkey_replaces_the_group_of_redis(self):
        with_group = [name for name in sorted(os.listdir(os.path.join(ROOT, "systemd"))) if "\nSupplementaryGroups=redis\n" in read(name)]
        self.assertEqual(with_group, ["freshet-check.service", "freshet-fill.service", "freshet.service"])
        drop_in = directives(read("valkey.conf"))
        self.assertEqual((drop_in["SupplementaryGroups"], drop_in["After"], drop_in["Wants"]), (["", "valkey"], ["valkey-server.service"], ["valkey-server.service"]))
        with open(os.path.join(ROOT, "OPERATIONS.md"), encoding="utf-8") as file:
            loop = re.search(r"^\[ \$server = redis \] \|\| for unit in (.*); do$", file.read(), re.M)[1]
        self.assertEqual(sorted(f"{unit}.service" for unit in loop.split()), with_group)
        for name in with_group:
            self.assertIn(name + ".d", read("valkey.conf"))

    def test_network_units_have_the_rest_of_the_sandbox_and_reach_no_unlisted_address(self):
        sandbox = lambda name: directives(read(name).partition(SANDBOX)[2].partition("\n[Install]")[0])
        service = sandbox("freshet.service")
        for name, families in (("freshet-fetch-model.service", "AF_UNIX AF_INET AF_INET6"), ("freshet-search@.service", "AF_INET AF_INET6")):
            with self.subTest(unit=name):
                unit = sandbox(name)
                self.assertEqual(unit, service | {"PrivateNetwork": ["no"], "RestrictAddressFamilies": [families]})
                self.assertEqual(unit["IPAddressDeny"], ["any"])
                unit = directives(read(name))
                self.assertEqual([unit.get(directive) for directive in ("User", "Group", "UMask", "LimitCORE")], [["freshet"], ["freshet"], ["0077"], ["0"]])
        search = directives(read("freshet-search@.service"))
        self.assertEqual((search["TemporaryFileSystem"], search["BindReadOnlyPaths"]), (["/var/lib:ro"], ["/var/lib/freshet/index"]))
        self.assertNotIn("LoadCredential", search)
        timer = directives(read("freshet-fetch-model.timer"))
        self.assertEqual((timer["OnCalendar"], timer["RandomizedDelaySec"], timer["WantedBy"]), (["*:0/10"], ["5min"], ["timers.target"]))

    def test_the_unit_of_imports_has_the_sandbox_of_the_model_download_but_reaches_the_internet(self):
        download, unit = directives(read("freshet-fetch-model.service")), directives(read("freshet-import@.service"))
        self.assertEqual(download.pop("IPAddressDeny"), ["any"])
        own = {"Description", "ExecStart", "MemoryMax"}
        self.assertEqual({name for name in download.keys() | unit.keys() if download.get(name) != unit.get(name)}, own)
        self.assertEqual((download["MemoryMax"], unit["MemoryMax"]), (["512M"], ["1G"]))
        self.assertIn(" --public-only ", unit["ExecStart"][0])
        timer = directives(read("freshet-import@.timer"))
        self.assertEqual((timer["OnCalendar"], timer["RandomizedDelaySec"], timer["WantedBy"]), (["*:0/10"], ["5min"], ["timers.target"]))

    def test_jobs_run_at_low_priority_and_with_a_timeout(self):
        for name in (*SERVICES[1:], "freshet-fetch-model.service", "freshet-import@.service"):
            with self.subTest(unit=name):
                job = directives(read(name))
                self.assertEqual([job.get(directive) for directive in ("Type", "Nice", "CPUSchedulingPolicy", "OOMScoreAdjust")],
                                 [["oneshot"], ["19"], ["batch"], ["500"]])
                self.assertRegex(job["TimeoutStartSec"][0], r"^(2h|1h|15min)$")
                self.assertIn("freshet.service", job["After"][0].split())

    def test_jobs_are_batch_jobs_and_order_after_the_network_if_they_want_it(self):
        for name in sorted(os.listdir(os.path.join(ROOT, "systemd"))):
            if not name.endswith(".service") or name == "freshet.service":
                continue
            with self.subTest(unit=name):
                unit = directives(read(name))
                online = "network-online.target"
                self.assertEqual(online in unit["After"][0].split(), online in " ".join(unit.get("Wants", [])).split())
                if unit.get("Type") == ["oneshot"]:
                    self.assertEqual(unit["CPUSchedulingPolicy"], ["batch"])

    def test_every_job_has_a_timer_with_a_random_delay(self):
        times = dict(zip(SERVICES[1:], ("*-*-* 03:30:00", "*:0/10", "*-*-* 05:00:00", "hourly")))
        for name in SERVICES[1:]:
            with self.subTest(unit=name):
                timer = directives(read(name.replace(".service", ".timer")))
                self.assertEqual(timer["OnCalendar"], [times[name]])
                self.assertRegex(timer["RandomizedDelaySec"][0], r"^\d+min$")
                self.assertEqual(timer["WantedBy"], ["timers.target"])
        for name in ("freshet-train.service", "freshet-tune.service", "freshet-fetch-model.service"):
            self.assertEqual(directives(read(name))["IOSchedulingClass"], ["idle"])
        for name in ("freshet-fill.service", "freshet-check.service"):
            self.assertEqual(directives(read(name))["TimeoutStopSec"], ["15"])
        # A missed daily run is made up for; a missed ten-minute run is not, since the next one covers it.
        for name in ("freshet-train.timer", "freshet-check.timer"):
            self.assertEqual(directives(read(name))["Persistent"], ["yes"])
        self.assertNotIn("Persistent", directives(read("freshet-fill.timer")))

    def test_the_socket_belongs_to_nginx_and_outlives_the_service(self):
        socket = directives(read("freshet.socket"))
        self.assertEqual([socket.get(directive) for directive in ("SocketUser", "SocketGroup", "SocketMode", "DirectoryMode", "RemoveOnStop", "WantedBy")],
                         [["www-data"], ["www-data"], ["0660"], ["0755"], ["yes"], ["sockets.target"]])
        service = directives(read("freshet.service"))
        self.assertEqual((service["Requires"], service["Also"], service["WantedBy"]), (["freshet.socket"], ["freshet.socket"], ["multi-user.target"]))
        self.assertEqual(service["After"], ["freshet.socket network.target redis-server.service"])
        self.assertEqual(directives(read("freshet-fill.service"))["After"], ["freshet.service redis-server.service"])
        self.assertEqual(service["Wants"], ["redis-server.service"])

    def test_the_service_restarts_after_a_crash_but_not_after_a_bad_configuration(self):
        service = directives(read("freshet.service"))
        self.assertEqual([service.get(directive) for directive in ("Type", "NotifyAccess", "KillMode", "Restart", "RestartPreventExitStatus", "OOMPolicy")],
                         # 78: EX_CONFIG, as from `freshetd -t`
                         [["notify"], ["main"], ["mixed"], ["on-failure"], ["78"], ["continue"]])
        self.assertEqual((service["RestartSec"], service["WatchdogSec"]), (["100ms"], ["30"]))
        check, reload = service["ExecReload"]
        self.assertEqual(check.split()[-2:], service["ExecStart"][0].split()[-2:])
        self.assertIn("-t", check.split())
        self.assertEqual(reload, "/bin/kill -USR2 $MAINPID")

    def test_the_limit_of_open_files_suffices_for_the_connections(self):
        self.assertGreaterEqual(int(directives(read("freshet.service"))["LimitNOFILE"][0]), 65536)


if __name__ == "__main__":
    unittest.main()
