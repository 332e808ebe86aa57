"""Manual pages and bash completion are well-formed and complete, compared with the programs' own help. Documents keep
their form, and the files they refer to exist.
"""

import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("FRESHET_BUILD_DIR", os.path.join(ROOT, "build/release"))
DOCUMENTS = os.path.join(BUILD, "scripts/man")
PAGES = ["freshetd.8", "freshetctl.1", "freshet.toml.5", "freshet-metrics.7"]
FRESHETD = os.path.join(BUILD, "fcgi/freshetd")
FRESHETCTL = os.path.join(BUILD, "scripts/freshetctl")


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True, timeout=240).stdout


def page(name):
    """The page's source with plain hyphens and without font changes."""
    with open(os.path.join(DOCUMENTS, name), encoding="utf-8") as file:
        return re.sub(r"\\f[BIR]", "", file.read().replace("\\-", "-"))


def commands():
    return re.findall(r"^  ([a-z][a-z-]+) ", output_of(FRESHETCTL, "--help").split("Subcommands:")[1], re.M)


def options(*command):
    """Every spelling of every option in the program's help."""
    found = re.findall(r"^  (-[^ ,]+(?:, ?--[^ ]+)?)", output_of(*command), re.M)
    return [name for names in found for name in re.split(", ?", names)]


def completions(program, *words):
    """Bash completions of the last word."""
    script = f'source "{DOCUMENTS}/completion/{program}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _{program}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return output_of("bash", "-euc", script, "bash", program, *words).split()


class Pages(unittest.TestCase):
    @unittest.skipUnless(shutil.which("mandoc"), "SKIPPED: mandoc is not installed (package mandoc)")
    def test_mandoc_has_no_warnings(self):
        for name in PAGES:
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", os.path.join(DOCUMENTS, name)], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""), name)

    def test_all_markers_are_replaced(self):
        for name in PAGES + ["completion/freshetd", "completion/freshetctl"]:
            self.assertNotRegex(page(name), "@[A-Z]+@")

    def test_every_directive_lists_its_default_and_type(self):
        shipped = output_of(FRESHETD, "-tt", "-y", os.path.join(ROOT, "systemd/freshet.toml"))
        defaults = dict(re.findall(r"^([a-z_.]+) = (.*)  # default$", shipped, re.M))
        entries = re.findall(r"^\.TP\n([a-z_.]+) = (.*)\n.+\n\.br\nValue: (.+)\.$", page("freshet.toml.5"), re.M)
        self.assertGreater(len(defaults), 100)
        self.assertEqual({name: value.replace("\\e", "\\") for name, value, _ in entries}, defaults)
        takes = {name: what for name, _, what in entries}
        self.assertEqual(takes["pm.mode"], 'one of "static", "dynamic", "ondemand"')
        self.assertEqual(takes["hot.half_life"], "a time in seconds, 10m to 3650d")
        self.assertEqual(takes["redis.timeout"], "a time in milliseconds, 1ms to 1m")
        self.assertEqual(takes["gateway.max_body_bytes"], "a size in bytes, 1K to 64M")
        self.assertEqual(takes["listen.mode"], "permissions, 0 to 0777")
        self.assertEqual(takes["hot.dwell_cap"], "a time in milliseconds, 1ms to 1d")
        self.assertEqual(takes["recall.decay"], "a number, 0.001 to 0.999")

    def test_every_toml_table_has_one_section(self):
        sections = re.findall(r"^\.SS (.*)$", page("freshet.toml.5"), re.M)
        self.assertEqual(len(sections), len(set(sections)))

    def test_every_command_is_documented_with_all_options(self):
        text = page("freshetctl.1")
        self.assertGreater(len(commands()), 10)
        for command in commands():
            section = re.search(rf"^\.SS {command}\b.*?(?=^\.S[HS] )", text, re.M | re.S)
            self.assertTrue(section, command)
            for option in set(options(FRESHETCTL, command, "--help")) - {"-h", "--help"}:
                self.assertRegex(section[0], rf"(?m)^(-\w,)?{option}\b", f"{command} {option}")
        for option in options(FRESHETCTL, "--help"):
            self.assertIn(option, text.split(".SH COMMANDS")[0])

    def test_every_option_of_the_service_is_documented(self):
        for option in options(FRESHETD, "-h"):
            self.assertRegex(page("freshetd.8"), rf"(?m)^(-\w,)?{option}\b")


class Completion(unittest.TestCase):
    def test_every_command_is_completed(self):
        self.assertLessEqual(set(commands()), set(completions("freshetctl", "")))
        self.assertEqual(completions("freshetctl", "repl"), ["replay"])
        self.assertIn("check", completions("freshetctl", "--state", "replay", "c"), "a value was taken for the command")

    def test_exactly_the_options_of_a_command_are_completed(self):
        for command in commands():
            wanted = set(options(FRESHETCTL, command, "--help")) | set(options(FRESHETCTL, "--help"))
            self.assertEqual(set(completions("freshetctl", command, "-")), wanted, command)
        self.assertEqual(completions("freshetctl", "--state", "/x", "replay", "--shi"), ["--shift-to-now"])

    def test_listed_values_are_completed_and_otherwise_files(self):
        self.assertEqual(completions("freshetctl", "replay", "--route", ""), ["track", "views", "both"])
        self.assertEqual(completions("freshetctl", "replay", "--from", ""), [])
        self.assertEqual(completions("freshetctl", "check", "--config", ""), [])
        self.assertEqual(completions("freshetd", "-y", ""), [])

    def test_every_option_of_the_service_is_completed(self):
        self.assertEqual(set(completions("freshetd", "")), set(options(FRESHETD, "-h")) | {"-tt"})

    def completions_in_shell(self, *shell):
        with tempfile.TemporaryDirectory() as home:  # fish creates folders there
            environment = os.environ | {"FRESHET_COMPLETIONS": os.path.join(DOCUMENTS, "completion"), "HOME": home}
            return subprocess.run(shell, capture_output=True, text=True, check=True, timeout=240, env=environment).stdout.split()

    @unittest.skipUnless(shutil.which("fish"), "SKIPPED: fish is not installed")
    def test_fish_completes_like_bash(self):
        def fish(line):
            return self.completions_in_shell("fish", "--no-config", "-c", f'source "{ROOT}/scripts/completion/fish"; complete -C "{line}"')
        self.assertEqual(fish("freshetctl repl"), ["replay"])
        self.assertEqual(set(fish("freshetctl replay --route ")), {"track", "views", "both"})
        self.assertIn("--nodaemonize", fish("freshetd --"))
        self.assertIn("/etc/passwd", fish("freshetctl import /etc/passw"))

    @unittest.skipUnless(shutil.which("zsh"), "SKIPPED: zsh is not installed")
    def test_zsh_completes_like_bash(self):
        stand_ins = 'compadd() { print -l -- "${(@P)2}" }; _files() { print FILES }; words=("$@"); CURRENT=$#; service=$1'

        def zsh(*words):
            return self.completions_in_shell("zsh", "-fc", f'{stand_ins}; f() {{ source "{ROOT}/scripts/completion/zsh" }}; f', "zsh", *words)
        self.assertEqual(zsh("freshetctl", "repl"), ["replay"])
        self.assertEqual(zsh("freshetctl", "replay", "--route", ""), ["track", "views", "both"])
        self.assertIn("--nodaemonize", zsh("freshetd", "--"))
        self.assertEqual(zsh("freshetctl", "check", "--config", ""), ["FILES"])

    @unittest.skipUnless(shutil.which("shellcheck"), "SKIPPED: shellcheck is not installed")
    def test_shellcheck_accepts_the_completions(self):
        for program in ("freshetd", "freshetctl"):
            done = subprocess.run(["shellcheck", os.path.join(DOCUMENTS, "completion", program)], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)


MAX_WIDTH = 120


def source(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def shipped(*patterns):
    return sorted(name for pattern in patterns for name in glob.glob(pattern, root_dir=ROOT, recursive=True))


DOCUMENTED = ("*.md",)
CONFIGURATION = ("nginx/*.conf", "systemd/*.toml")


def paths(text):
    """Files that the text refers to, in backticks."""
    return re.findall(r"`((?:core|fcgi|scripts|nginx|systemd|tests)/[\w./-]+|[A-Z]+\.md)`", text)


class Documents(unittest.TestCase):
    def test_no_line_but_a_row_of_a_table_is_too_wide(self):
        names = shipped(*DOCUMENTED)
        self.assertGreater(len(names), 8)
        for name in names:
            wide = [number for number, line in enumerate(source(name).split("\n"), 1) if len(line) > MAX_WIDTH and not line.startswith("|")]
            self.assertEqual(wide, [], name)
        for name in shipped(*CONFIGURATION):
            wide = [number for number, line in enumerate(source(name).split("\n"), 1) if len(line) > MAX_WIDTH and line.lstrip().startswith("#")]
            self.assertEqual(wide, [], name)

    def test_the_readme_is_short_and_its_links_are_valid(self):
        readme = source("README.md")
        self.assertLessEqual(len(readme.splitlines()), 110)
        self.assertEqual([line for line in readme.splitlines() if len(line) > MAX_WIDTH], [])
        linked = re.findall(r"\]\(([^)#]+)\)", readme) + re.findall(r'(?:src|srcset)="(?!/)([^"]+)"', readme)
        local = [link for link in linked if not link.startswith(("https://", "http://127.0.0.1"))]
        self.assertGreaterEqual(len(local), 10)
        self.assertEqual([link for link in local if not os.path.exists(os.path.join(ROOT, link))], [])
        screenshots = [os.path.join(ROOT, link) for link in local if link.endswith(".png")]
        self.assertLessEqual(sum(map(os.path.getsize, screenshots)), 400 * 1024)

    def test_a_decision_has_one_heading_and_twelve_lines_at_most(self):
        _, *decisions = re.split(r"^## ", source("DECISIONS.md"), flags=re.M)
        self.assertGreater(len(decisions), 40)
        headings = [decision.split("\n", 1)[0] for decision in decisions]
        self.assertEqual(len(headings), len(set(headings)))
        long = {decision.split("\n", 1)[0] for decision in decisions if len(list(filter(None, decision.split("\n")))) > 13}
        self.assertEqual(long, set())
        self.assertEqual(re.findall(r"(?m)^(?:\||#{3,} ).*", source("DECISIONS.md")), [])

    def test_the_readme_s_figures_are_those_that_were_measured(self):
        figures = re.findall(r"\b\d+(?= µs)", source("README.md"))
        self.assertEqual(len(figures), 6)
        row = "\n".join(line for line in source("PERFORMANCE.md").split("\n") if line.startswith("|"))
        self.assertEqual([each for each in figures if not re.search(rf"\b{each}\b", row)], [])

    def test_what_the_architecture_names_is_there(self):
        named = paths(source("ARCHITECTURE.md"))
        self.assertGreater(len(named), 50)
        self.assertEqual([path for path in named if "NAME" not in path and not os.path.exists(os.path.join(ROOT, path))], [])

    def test_a_recipe_names_as_many_files_as_it_says(self):
        section = re.search(r"^## Where to change what\n(.*?)^## ", source("ARCHITECTURE.md"), re.M | re.S)[1]
        _, *recipes = re.split(r"^\*\*", section, flags=re.M)
        self.assertEqual(len(recipes), 4)
        for recipe in recipes:
            steps = "".join(re.findall(r"^(?:\d\. |   ).*\n", recipe, re.M))
            self.assertEqual(len(set(paths(steps))), max(map(int, re.findall(r"\b\d+\b", recipe.split("\n")[0]))), recipe.split("\n")[0])

    def test_documents_speak_of_features_and_one_table_of_their_sources(self):
        for name in set(shipped(*DOCUMENTED)) - {"ARCHITECTURE.md"}:
            self.assertEqual(re.findall(r"(?i)\bseed 00\d", source(name)), [], name)
        self.assertEqual(sorted(re.findall(r"seed (00\d)", source("ARCHITECTURE.md"))), ["000", "001", "002", "003", "004"])


class Sources(unittest.TestCase):
    FOLDERS = ("core", "fcgi", "nginx", "scripts", "systemd", "tests")
    SUFFIXES = ("CMakeLists.txt", ".cmake", ".conf", ".cpp", ".css", ".h", ".html", ".js", ".lua", ".php", ".py", ".sh", ".toml", ".ts")

    def texts(self):
        names = [name for name in shipped(*(f"{folder}/**/*" for folder in self.FOLDERS))
                 if name.endswith(self.SUFFIXES) and "node_modules" not in name and os.path.isfile(os.path.join(ROOT, name))]
        self.assertGreater(len(names), 700)
        return [(name, source(name)) for name in names]

    def test_a_comment_of_cpp_is_within_a_hundred_columns(self):
        for name, text in self.texts():
            if name.endswith((".cpp", ".h")):
                wide = [number for number, line in enumerate(text.split("\n"), 1) if len(line) > 100 and line.lstrip().startswith("//")]
                self.assertEqual(wide, [], name)

    def test_they_speak_of_features(self):
        """Exempt: tests/bench/peers measures the systems that the features come from."""
        for name, text in self.texts():
            if not name.startswith("tests/bench/peers/"):
                self.assertEqual(re.findall(r"(?i)\bseed 00\d", text), [], name)

    def test_files_that_comments_name_are_there(self):
        for name, text in self.texts():
            comments = "\n".join(re.findall(r"(?m)(?:^|\s)(?://|--|#) (.*)", text)) if name.endswith((".cpp", ".h", ".lua", ".py")) else ""
            named = re.findall(r"\b(?:core|fcgi|scripts|nginx|systemd|tests|lua)/(?:[\w.-]+/)*[\w-]+\.(?:cpp|h|json|lua|py|toml)\b", comments)
            gone = [path for path in named if "NAME" not in path and not os.path.exists(os.path.join(ROOT, path))]
            self.assertEqual(gone, [], name)


if __name__ == "__main__":
    unittest.main()
