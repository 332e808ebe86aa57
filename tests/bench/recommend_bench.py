"""P6: recommendations with many items and readers with many interactions, compared with PHP-FPM filtering a precomputed
list.
"""

import json
import os
import random
import subprocess
import time
import urllib.request

import freshet
import peers
from peers import Contender
from procs import BenchError, wait_until
from redis_server import run_all

ITEMS, READERS, INTERACTIONS, TOPICS = 50_000, 5_000, 100, 100  # INTERACTIONS is per reader
LINES_PER_POST = 50_000
PEER_LIST_LENGTH = 200
KINDS = ("like", "favorite", "share", "reply", "post")
LIMIT_S = 600


def item(number, now):
    topic = number % TOPICS
    return {"id": f"i{number}", "title": f"Article {number} about topic {topic} and place {number % 331}", "url": f"https://example.org/{number}",
            "author": f"author{number % 500}", "tags": [f"topic{topic}", f"t{number % 37}"], "published_at": now - 60 - number * 60}


def interactions(now):
    """80 % of a reader's interactions are with items of the same three topics, the others with random items."""
    rng = random.Random(6)
    for reader in range(READERS):
        topics = rng.sample(range(TOPICS), 3)
        for number in range(INTERACTIONS):
            topic = rng.choice(topics) if rng.random() < 0.8 else rng.randrange(TOPICS)
            item_number = topic + TOPICS * rng.randrange(ITEMS // TOPICS)
            yield {"userId": f"u{reader}", "topicId": f"i{item_number}", "kind": KINDS[number % len(KINDS)], "at": now - number * 3600}


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


def load_and_train(deployment, directory):
    """Sends items and interactions over HTTP, then trains a model and waits until all workers use it."""
    base, now = deployment.internal_url, int(time.time())
    path = os.path.join(directory, "recommend-items.ndjson")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(item(number, now)) + "\n" for number in range(ITEMS))
    freshetctl("import", "-q", path, "--base", base)
    lines = [json.dumps(each) for each in interactions(now)]
    for first in range(0, len(lines), LINES_PER_POST):
        part = lines[first:first + LINES_PER_POST]
        reply = post(base + "/api/interactions", "\n".join(part))
        if reply["accepted"] != len(part):
            raise BenchError(f"interactions: {str(reply)[:300]}")
    wait_until(lambda: status(deployment)["recorder lag entries"] == 0, "the recorder", LIMIT_S)
    freshetctl("train", "-q", "--state", deployment.state)
    wait_until(lambda: all(serves_model(base) for _ in range(20)), "the model", LIMIT_S)


def serves_model(base):
    with urllib.request.urlopen(base + "/api/recommendations?userId=u1&limit=1", timeout=5) as reply:
        return json.load(reply)["model"] != "none"


def load_peer(client):
    """Writes the same items and interactions, and a ranked list for each reader."""
    now, rng, commands = int(time.time()), random.Random(7), []

    def flush_at(count):
        if len(commands) >= count:
            run_all(client, commands)
            commands.clear()

    for number in range(ITEMS):
        each = item(number, now)
        commands.append(("HSET", f"item:{{{each['id']}}}", "title", each["title"], "url", each["url"], "author", each["author"],
                         "tags", " ".join(each["tags"]), "published_at", each["published_at"]))
        flush_at(1000)
    for each in interactions(now):
        commands.append(("ZADD", f"user:interactions:{{{each['userId']}}}", each["at"], f"l:{each['topicId']}"))
        flush_at(1000)
    for reader in range(READERS):
        ranked = [word for rank in range(PEER_LIST_LENGTH) for word in (PEER_LIST_LENGTH - rank, f"i{rng.randrange(ITEMS)}")]
        commands.append(("ZADD", f"recommended:u{reader}", *ranked))
        flush_at(1000)
    flush_at(1)


def round_trips(deployment):
    """Redis round trips per request, with requests sent one at a time; and renewals of the workers' trend per request,
    which cause additional round trips (each worker renews it twice a second).
    """
    readers, before = 200, status(deployment)
    began = time.monotonic()
    for reader in range(readers):
        for _ in range(2):  # the second request finds its items in the cache
            with urllib.request.urlopen(f"{deployment.internal_url}/api/recommendations?userId=u{reader}", timeout=5) as reply:
                reply.read()
    after = status(deployment)
    renewals = (time.monotonic() - began) / 0.5
    return (after["redis round trips"] - before["redis round trips"]) / (2 * readers), renewals / (2 * readers)


def recommend(session, section):
    contenders = []
    if session.with_freshet:
        if "freshet-recommend" not in session.running:
            session.running["freshet-recommend"] = freshet.Freshet(session.directory, "freshet-recommend")
            load_and_train(session.running["freshet-recommend"], session.directory)
        contenders.append(Contender("Freshet recommendations", session.running["freshet-recommend"], "/api/recommendations", "recommend.lua"))
    if "php-recommend" not in session.running:
        session.running["php-recommend"] = peers.php_fpm(session.directory, name="php-recommend")
        load_peer(session.running["php-recommend"].redis_client())
    contenders.append(Contender("PHP-FPM recommendations", session.running["php-recommend"], "/recommend", "recommend.lua"))
    title = f"P6 GET /api/recommendations, {ITEMS:,} items, {INTERACTIONS} interactions per reader"
    sections = [section(f"recommend-{connections}", f"{title}, {connections} connections",
                        session.turns(contenders, connections, script_args=[READERS])) for connections in (2, 32)]
    peers.check_titles(sections[0], contenders, "?userId=u1")
    if session.with_freshet:
        trips, renewals = round_trips(session.running["freshet-recommend"])
        sections[0].values.append(("Freshet: round trips per request, half of them with cached items", trips, f"with {renewals:.2f} renewals of the trend per request"))
    return sections
