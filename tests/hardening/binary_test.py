"""Hardening of the built programs, read from their binaries: binary_test.py PROGRAM… (build folder in FRESHET_BUILD_DIR)."""

import json
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLAGS = ["-D_FORTIFY_SOURCE=3", "-D_GLIBCXX_ASSERTIONS", "-fstack-protector-strong", "-fstack-clash-protection", "-fcf-protection=full"]
LIBFCGI = "2.4.2-2+deb12u1"  # fixes CVE-2025-23016


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"LC_ALL": "C"}).stdout


def missing_features(program):
    """Returns the names of missing hardening features."""
    header, segments, dynamic = (run("readelf", "-W", option, program) for option in ("-h", "-l", "-d"))
    symbols = run("readelf", "-W", "--dyn-syms", program)
    loads = [line.split()[6:-1] for line in segments.splitlines() if line.strip().startswith("LOAD")]
    flags = ["".join(each) for each in loads]
    stack = re.search(r"GNU_STACK.*?\s(R\S*)\s", segments)
    checks = {
        "position independent (PIE)": re.search(r"Type:\s+DYN", header) and "PIE" in dynamic,
        "read-only after relocation (RELRO)": "GNU_RELRO" in segments,
        "all symbols bound at startup (BIND_NOW)": re.search(r"FLAGS_1\).*\bNOW\b", dynamic),
        "non-executable stack": stack and stack[1] == "RW",
        "no segment both writable and executable": flags and not any("W" in each and "E" in each for each in flags),
        "separate code segment": flags.count("RE") == 1 and "R" in flags,
        "no RPATH or RUNPATH": not re.search(r"R(?:UN)?PATH", dynamic),
        "no relocations in code": "TEXTREL" not in dynamic,
        "stack protector": "__stack_chk_fail" in symbols,
        "fortified calls": re.search(r"__(?:memcpy|memmove|read|fread|snprintf|vsnprintf|realpath|poll|memset|strcpy|strncpy|fdelt)_chk", symbols),
        "standard library assertions": "__glibcxx_assert_fail" in symbols,
    }
    if "X86-64" in header:
        checks["marked jump targets (CET)"] = re.search(
            r"<main>:\n.*endbr64", run("objdump", "-d", "--no-show-raw-insn", "--disassemble=main", program))
    return [name for name, present in checks.items() if not present]


class Binary(unittest.TestCase):
    programs = []

    def test_every_program_is_hardened(self):
        self.assertTrue(self.programs)
        for program in self.programs:
            with self.subTest(program=program):
                self.assertEqual(missing_features(program), [])

    def test_every_source_is_compiled_with_the_flags(self):
        with open(os.path.join(os.environ["FRESHET_BUILD_DIR"], "compile_commands.json"), encoding="utf-8") as file:
            commands = [each for each in json.load(file) if not re.match(r"(?:tests|.*/_deps)/", os.path.relpath(each["file"], ROOT))]
        self.assertGreater(len(commands), 50)  # unity builds: mostly eight sources each
        for flag in FLAGS:
            with self.subTest(flag=flag):
                self.assertEqual([each["file"] for each in commands if flag not in each["command"].split()], [])

    def test_an_unhardened_program_is_detected(self):
        worst = os.path.join(os.environ["FRESHET_BUILD_DIR"], "tests", "hardening-worst")
        found = []
        for options in (["-no-pie", "-Wl,-z,norelro,-z,lazy,-z,execstack,-z,noseparate-code,-rpath,/tmp"], ["-nostdlib", "-static", "-Wl,-N,-e,main"]):
            subprocess.run(["cc", "-x", "c", "-", "-o", worst, "-fno-stack-protector", "-fcf-protection=none", *options],
                           input=b"int main(void) { return 0; }", check=True)
            found += missing_features(worst)
            os.remove(worst)
        for part in ("PIE", "RELRO", "BIND_NOW", "executable stack", "writable and executable", "separate code", "RPATH", "protector",
                     "fortified", "assertions", "CET"):
            with self.subTest(part=part):
                self.assertTrue(any(part in each for each in found), found)

    def test_libfcgi_has_the_security_fix(self):
        """libfcgi is linked statically, so the version at build time counts."""
        try:
            version = run("dpkg-query", "-W", "-f", "${Version}", "libfcgi-dev")
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("no Debian package of libfcgi")
        self.assertEqual(subprocess.run(["dpkg", "--compare-versions", version, "ge", LIBFCGI], check=False).returncode, 0, version)
        self.assertNotEqual(subprocess.run(["dpkg", "--compare-versions", "2.4.2-2", "ge", LIBFCGI], check=False).returncode, 0)


if __name__ == "__main__":
    Binary.programs = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
