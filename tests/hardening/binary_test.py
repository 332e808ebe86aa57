"""How the programs were built, read from the programs themselves: binary_test.py PROGRAM… (the build's folder in FRESHET_BUILD_DIR)."""

import json
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLAGS = ["-D_FORTIFY_SOURCE=3", "-D_GLIBCXX_ASSERTIONS", "-fstack-protector-strong", "-fstack-clash-protection", "-fcf-protection=full"]
LIBFCGI = "2.4.2-2+deb12u1"  # CVE-2025-23016


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"LC_ALL": "C"}).stdout


def mistakes(program):
    """What is wrong with it, a line each."""
    header, segments, dynamic = (run("readelf", "-W", option, program) for option in ("-h", "-l", "-d"))
    symbols = run("readelf", "-W", "--dyn-syms", program)
    loads = [line.split()[6:-1] for line in segments.splitlines() if line.strip().startswith("LOAD")]
    flags = ["".join(each) for each in loads]
    stack = re.search(r"GNU_STACK.*?\s(R\S*)\s", segments)
    checks = {
        "position independent (PIE)": re.search(r"Type:\s+DYN", header) and "PIE" in dynamic,
        "read-only after relocation (RELRO)": "GNU_RELRO" in segments,
        "all symbols bound at the start (BIND_NOW)": re.search(r"FLAGS_1\).*\bNOW\b", dynamic),
        "a stack that is not executable": stack and stack[1] == "RW",
        "no segment that can be written and executed": flags and not any("W" in each and "E" in each for each in flags),
        "code in segments of its own": flags.count("RE") == 1 and "R" in flags,
        "no path of its own to libraries": not re.search(r"R(?:UN)?PATH", dynamic),
        "no relocations in code": "TEXTREL" not in dynamic,
        "stack protector": "__stack_chk_fail" in symbols,
        "fortified calls": re.search(r"__(?:memcpy|memmove|read|fread|snprintf|vsnprintf|realpath|poll|memset|strcpy|strncpy|fdelt)_chk", symbols),
        "assertions of the standard library": "__glibcxx_assert_fail" in symbols,
    }
    if "X86-64" in header:
        checks["marks at the targets of jumps (CET)"] = re.search(
            r"<main>:\n.*endbr64", run("objdump", "-d", "--no-show-raw-insn", "--disassemble=main", program))
    return [name for name, well in checks.items() if not well]


class Binary(unittest.TestCase):
    programs = []

    def test_every_program_is_hardened(self):
        self.assertTrue(self.programs)
        for program in self.programs:
            with self.subTest(program=program):
                self.assertEqual(mistakes(program), [])

    def test_every_file_of_ours_is_compiled_so(self):
        with open(os.path.join(os.environ["FRESHET_BUILD_DIR"], "compile_commands.json"), encoding="utf-8") as file:
            commands = [each for each in json.load(file) if not re.match(r"(?:tests|.*/_deps)/", os.path.relpath(each["file"], ROOT))]
        self.assertGreater(len(commands), 50)  # of eight files each, mostly
        for flag in FLAGS:
            with self.subTest(flag=flag):
                self.assertEqual([each["file"] for each in commands if flag not in each["command"].split()], [])

    def test_a_program_without_any_of_it_is_found_out(self):
        worst = os.path.join(os.environ["FRESHET_BUILD_DIR"], "tests", "hardening-worst")
        found = []
        for options in (["-no-pie", "-Wl,-z,norelro,-z,lazy,-z,execstack,-z,noseparate-code,-rpath,/tmp"], ["-nostdlib", "-static", "-Wl,-N,-e,main"]):
            subprocess.run(["cc", "-x", "c", "-", "-o", worst, "-fno-stack-protector", "-fcf-protection=none", *options],
                           input=b"int main(void) { return 0; }", check=True)
            found += mistakes(worst)
            os.remove(worst)
        for part in ("PIE", "RELRO", "BIND_NOW", "stack that", "written and executed", "segments of its own", "path of its own", "protector",
                     "fortified", "assertions", "CET"):
            with self.subTest(part=part):
                self.assertTrue(any(part in each for each in found), found)

    def test_libfcgi_is_the_one_with_the_cure(self):
        """It is linked into freshetd, so what counts is what was there at build."""
        try:
            version = run("dpkg-query", "-W", "-f", "${Version}", "libfcgi-dev")
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("no Debian package of libfcgi")
        self.assertEqual(subprocess.run(["dpkg", "--compare-versions", version, "ge", LIBFCGI], check=False).returncode, 0, version)
        self.assertNotEqual(subprocess.run(["dpkg", "--compare-versions", "2.4.2-2", "ge", LIBFCGI], check=False).returncode, 0)


if __name__ == "__main__":
    Binary.programs = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
