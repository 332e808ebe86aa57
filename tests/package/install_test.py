"""scripts/install: what it installs, keeps and removes."""

import os
import shutil
import subprocess
import tempfile
import unittest

from contents import BUILD, CONFFILES, FILES, ROOT

LIST = "/usr/share/freshet/installed-files"


class Install(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="freshet-install-")
        self.addCleanup(shutil.rmtree, self.folder)

    def install(self, *arguments):
        command = [os.path.join(ROOT, "scripts/install"), "--destdir", self.folder, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=480, env={**os.environ, "FRESHET_BUILD_DIR": BUILD}, umask=0o077)
        return done.returncode, done.stdout + done.stderr

    def files(self):
        return {os.path.join(folder, name)[len(self.folder):] for folder, _, names in os.walk(self.folder) for name in names}

    def test_everything_is_installed_and_removed_and_configuration_stays(self):
        self.assertEqual(self.install(), (0, ""))
        self.assertEqual(self.files(), FILES | {LIST})
        self.assertEqual(os.stat(self.folder + "/usr/sbin").st_mode & 0o777, 0o755)
        self.assertEqual(os.stat(self.folder + "/etc/freshet/secrets").st_mode & 0o777, 0o700)
        edited = self.folder + "/etc/freshet/freshet.toml"
        with open(edited, "w", encoding="utf-8") as file:
            file.write("pm.max_children = 3\n")
        os.makedirs(self.folder + "/usr/lib/old")  # a file of an older version
        for name, text in (("/usr/lib/old/file", ""), (LIST, "/usr/lib/old/file\n")):
            with open(self.folder + name, "w", encoding="utf-8") as file:
                file.write(text)
        status, output = self.install()
        self.assertEqual(status, 0, output)
        self.assertIn(f"kept {edited}", output)
        self.assertEqual(self.files(), FILES | {LIST, "/etc/freshet/freshet.toml.new"})
        with open(edited, encoding="utf-8") as file:
            self.assertEqual(file.read(), "pm.max_children = 3\n")
        self.assertEqual(self.install("--uninstall"), (0, ""))
        self.assertEqual(self.files(), CONFFILES | {"/etc/freshet/freshet.toml.new"})
        self.assertEqual(os.listdir(self.folder), ["etc"])

    def test_uninstalling_without_an_installation_is_an_error(self):
        status, output = self.install("--uninstall")
        self.assertEqual(status, 1)
        self.assertIn("nothing to uninstall", output)


if __name__ == "__main__":
    unittest.main()
