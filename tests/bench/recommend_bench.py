"""P6: recommendations over many items and readers with long histories, against the same in PHP-FPM from a list made beforehand."""

import json
import os
import random
import subprocess
import time
import urllib.request

import ours
import peers
from peers import Contender
from procs import BenchError, wait_until
from redis_server import run_all

ITEMS, READERS, DONE, TOPICS = 50_000, 5_000, 100, 100
LINES_A_POST = 50_000
RANKED = 200  # of the peer's list
KINDS = ("like", "favorite", "share", "reply", "post")
LIMIT_S = 600


def item(number, now):
    topic = number % TOPICS
    return {"id": f"i{number}", "title": f"Article {number} about topic {topic} and place {number % 331}", "url": f"https://example.org/{number}",
            "author": f"author{number % 500}", "tags": [f"topic{topic}", f"t{number % 37}"], "published_at": now - 60 - number * 60}


def interactions(now):
    """Each reader keeps to three topics, four times in five."""
    choose = random.Random(6)
    for reader in range(READERS):
        topics = choose.sample(range(TOPICS), 3)
        for number in range(DONE):
            topic = choose.choice(topics) if choose.random() < 0.8 else choose.randrange(TOPICS)
            done = topic + TOPICS * choose.randrange(ITEMS // TOPICS)
            yield {"userId": f"u{reader}", "topicId": f"i{done}", "kind": KINDS[number % len(KINDS)], "at": now - number * 3600}


def post(url, body, kind="application/x-ndjson"):
    request = urllib.request.Request(url, body.encode(), {"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def freshetctl(*arguments):
    done = subprocess.run([os.path.join(peers.ROOT, "scripts", "freshetctl"), *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise BenchError(f"freshetctl {arguments[0]}: {done.stdout}{done.stderr}")
    return done.stdout


def status(deployment):
    with urllib.request.urlopen(f"{deployment.internal_url}/status?json", timeout=5) as reply:
        return json.load(reply)


def teach(deployment, directory):
    """Items and interactions through the front door, then a model."""
    base, now = deployment.internal_url, int(time.time())
    path = os.path.join(directory, "recommend-items.ndjson")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(item(number, now)) + "\n" for number in range(ITEMS))
    freshetctl("import", "-q", path, "--base", base)
    lines = [json.dumps(each) for each in interactions(now)]
    for first in range(0, len(lines), LINES_A_POST):
        part = lines[first:first + LINES_A_POST]
        answer = post(base + "/api/interactions", "\n".join(part))
        if answer["accepted"] != len(part):
            raise BenchError(f"interactions: {str(answer)[:300]}")
    wait_until(lambda: status(deployment)["recorder lag entries"] == 0, "the recorder", LIMIT_S)
    freshetctl("train", "-q", "--state", deployment.state)
    wait_until(lambda: all(served(base) for _ in range(20)), "the model", LIMIT_S)


def served(base):
    with urllib.request.urlopen(base + "/api/recommendations?userId=u1&limit=1", timeout=5) as reply:
        return json.load(reply)["model"] != "none"


def teach_peer(client):
    """The same items and readers, and a list ranked for each reader."""
    now, choose, commands = int(time.time()), random.Random(7), []

    def run(least):
        if len(commands) >= least:
            run_all(client, commands)
            commands.clear()

    for number in range(ITEMS):
        each = item(number, now)
        commands.append(("HSET", f"item:{{{each['id']}}}", "title", each["title"], "url", each["url"], "author", each["author"],
                         "tags", " ".join(each["tags"]), "published_at", each["published_at"]))
        run(1000)
    for each in interactions(now):
        commands.append(("ZADD", f"user:interactions:{{{each['userId']}}}", each["at"], f"l:{each['topicId']}"))
        run(1000)
    for reader in range(READERS):
        ranked = [part for place in range(RANKED) for part in (RANKED - place, f"i{choose.randrange(ITEMS)}")]
        commands.append(("ZADD", f"recommended:u{reader}", *ranked))
        run(1000)
    run(1)


def round_trips(deployment):
    """A request's, without the copy of what is trending, which each worker renews twice a second; one connection, one after the other."""
    readers, before = 200, status(deployment)
    began = time.monotonic()
    for reader in range(readers):
        for _ in range(2):  # the second time its titles are known
            with urllib.request.urlopen(f"{deployment.internal_url}/api/recommendations?userId=u{reader}", timeout=5) as reply:
                reply.read()
    after = status(deployment)
    renewals = (time.monotonic() - began) / 0.5
    return (after["redis round trips"] - before["redis round trips"]) / (2 * readers), renewals / (2 * readers)


def recommend(session, section):
    contenders = []
    if session.with_ours:
        if "freshet-recommend" not in session.running:
            session.running["freshet-recommend"] = ours.Ours(session.directory, "freshet-recommend")
            teach(session.running["freshet-recommend"], session.directory)
        contenders.append(Contender("freshet recommendations", session.running["freshet-recommend"], "/api/recommendations", "recommend.lua"))
    if "php-recommend" not in session.running:
        session.running["php-recommend"] = peers.php_fpm(session.directory, name="php-recommend")
        teach_peer(session.running["php-recommend"].redis_client())
    contenders.append(Contender("PHP-FPM recommendations", session.running["php-recommend"], "/recommend", "recommend.lua"))
    title = f"P6 GET /api/recommendations, {ITEMS:,} items, {DONE} interactions a reader"
    sections = [section(f"recommend-{connections}", f"{title}, {connections} connections",
                        session.turns(contenders, connections, script_args=[READERS])) for connections in (2, 32)]
    peers.check_titles(sections[0], contenders, "?userId=u1")
    if session.with_ours:
        trips, renewals = round_trips(session.running["freshet-recommend"])
        sections[0].values.append(("freshet: round trips a request, titles known half of the time", trips, f"renewals of the trend: {renewals:.2f} a request"))
    return sections
