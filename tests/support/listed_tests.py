"""The tests that ctest knows in a build tree."""

import json
import os
import subprocess
import tempfile


def listed_tests(build, *options):
    """{name: command}. ctest runs in a folder of its own, because it replaces the log even if it only lists."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
            file.write(f"subdirs([=[{os.path.realpath(build)}]=])\n")
        listing = subprocess.run(["ctest", "--test-dir", folder, *options, "--show-only=json-v1"], capture_output=True, check=True).stdout
    return {test["name"]: test["command"] for test in json.loads(listing)["tests"]}
