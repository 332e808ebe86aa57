"""scripts/package-repo: apt trusts the repository it creates and no modified one; checksums and SBOM describe the
contents.
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REQUIRED_PROGRAMS = ("apt-ftparchive", "gpg", "apt-get")


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=480, check=False, **options)


@unittest.skipUnless(all(map(shutil.which, REQUIRED_PROGRAMS)), "SKIPPED: apt-utils or gpg is not installed; ./scripts/deps test")
class Repository(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="freshet-repo-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o755)
        home = os.path.join(self.folder, "gnupg")
        os.mkdir(home, 0o700)
        self.environment = os.environ | {"GNUPGHOME": home}
        self.addCleanup(run, "gpgconf", "--kill", "all", env=self.environment)
        made = run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "A test <test@example.org>", "ed25519", "sign", env=self.environment)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.out = os.path.join(self.folder, "repo")
        done = run(os.path.join(ROOT, "scripts/package-repo"), self.out, "test@example.org", self.package(), env=self.environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def package(self):
        control = os.path.join(self.folder, "sample/DEBIAN/control")
        os.makedirs(os.path.dirname(control))
        with open(control, "w", encoding="utf-8") as file:
            file.write("Package: sample\nVersion: 1.2\nArchitecture: all\nMaintainer: A test <test@example.org>\n"
                       "Depends: bash (>= 1) | dash, no-such-package\nDescription: test\n")
        made = run("dpkg-deb", "--root-owner-group", "--build", os.path.join(self.folder, "sample"), os.path.join(self.folder, "sample_1.2_all.deb"))
        self.assertEqual(made.returncode, 0, made.stderr)
        return os.path.join(self.folder, "sample_1.2_all.deb")

    def apt(self, *command):
        """Runs apt with its own lists and sources."""
        state = os.path.join(self.folder, "apt")
        for each in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(state, each), exist_ok=True)
        source = os.path.join(state, "here.list")
        with open(source, "w", encoding="utf-8") as file:
            file.write(f"deb [signed-by={self.out}/key.asc] file:{self.out} ./\n")
        return run("apt-get", "-o", f"Dir::State::lists={state}/lists", "-o", f"Dir::Cache={state}/cache", "-o", f"Dir::Etc::sourcelist={source}",
                   "-o", "Dir::Etc::sourceparts=/nonexistent", "-o", "APT::Sandbox::User=", "-o", "APT::Update::Error-Mode=any", *command, cwd=self.folder)

    def test_apt_accepts_the_repository_but_not_a_modified_one(self):
        updated = self.apt("update")
        self.assertEqual(updated.returncode, 0, updated.stderr)
        os.remove(os.path.join(self.folder, "sample_1.2_all.deb"))
        got = self.apt("download", "sample")
        self.assertEqual(got.returncode, 0, got.stderr)
        with open(os.path.join(self.out, "InRelease"), encoding="utf-8") as file:
            release = file.read()
        with open(os.path.join(self.out, "InRelease"), "w", encoding="utf-8") as file:
            file.write(release.replace("Origin: Freshet", "Origin: Forged!"))
        os.remove(os.path.join(self.out, "Release.gpg"))
        self.assertNotEqual(self.apt("update").returncode, 0)

    def test_checksums_and_bill_of_materials_match_the_contents(self):
        self.assertEqual(run("sha256sum", "-c", "../SHA256SUMS", cwd=os.path.join(self.out, "pool")).returncode, 0)
        with open(os.path.join(self.out, "pool/sample_1.2_all.spdx.json"), encoding="utf-8") as file:
            bill = json.load(file)
        self.assertEqual(bill["spdxVersion"], "SPDX-2.3")
        found = {each["name"]: each for each in bill["packages"]}
        self.assertEqual(set(found), {"sample", "bash", "no-such-package"})
        self.assertTrue(found["bash"]["versionInfo"])
        self.assertNotIn("versionInfo", found["no-such-package"])
        self.assertRegex(bill["creationInfo"]["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        ids = {each["SPDXID"] for each in bill["packages"]}
        self.assertEqual({each["relatedSpdxElement"] for each in bill["relationships"]}, ids)


if __name__ == "__main__":
    unittest.main()
