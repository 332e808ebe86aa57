"""Loads items, interactions and a model into an instance of Freshet, over HTTP and with freshetctl."""

import json
import os
import subprocess
import urllib.request

from procs import ROOT, BenchError, wait_until

LIMIT_S = 3600
LINES_PER_POST = 50_000


def status(deployment):
    with urllib.request.urlopen(f"{deployment.internal_url}/status?json", timeout=5) as reply:
        return json.load(reply)


def freshetctl(*arguments):
    done = subprocess.run([os.path.join(ROOT, "scripts", "freshetctl"), *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise BenchError(f"freshetctl {arguments[0]}: {done.stdout}{done.stderr}")
    return done.stdout


def import_items(deployment, path, items):
    """Writes the items to a file, imports it into an empty instance, and waits until they are stored and indexed."""
    count = 0
    with open(path, "w", encoding="utf-8") as file:
        for count, each in enumerate(items, 1):
            file.write(json.dumps(each) + "\n")
    freshetctl("import", "-q", path, "--base", deployment.internal_url)
    wait_until(lambda: status(deployment)["recorder items"] >= count, "the recorder", LIMIT_S)


def post_interactions(deployment, interactions):
    lines = [json.dumps(each) for each in interactions]
    for first in range(0, len(lines), LINES_PER_POST):
        part = lines[first:first + LINES_PER_POST]
        request = urllib.request.Request(deployment.internal_url + "/api/interactions", "\n".join(part).encode(), {"Content-Type": "application/x-ndjson"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            answer = json.load(reply)
        if answer["accepted"] != len(part):
            raise BenchError(f"interactions: {str(answer)[:300]}")
    wait_until_recorded(deployment)


def wait_until_recorded(deployment):
    wait_until(lambda: status(deployment)["recorder lag entries"] == 0, "the recorder", LIMIT_S)


def train(deployment):
    """Trains a model and waits until all workers use it."""
    freshetctl("train", "-q", "--state", deployment.state)
    wait_until(lambda: all(_uses_model(deployment) for _ in range(20)), "the model", LIMIT_S)


def _uses_model(deployment):
    with urllib.request.urlopen(deployment.internal_url + "/api/recommendations?userId=u1&limit=1", timeout=5) as reply:
        return json.load(reply)["model"] != "none"
