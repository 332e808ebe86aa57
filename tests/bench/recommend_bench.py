"""P6: recommendations with many items and readers with many interactions, compared with PHP-FPM filtering a precomputed
list.
"""

import os
import random
import time
import urllib.request

import freshet
import loading
import peers
from loading import status
from peers import Contender
from redis_server import run_all

ITEMS, READERS, INTERACTIONS, TOPICS = 50_000, 5_000, 100, 100  # INTERACTIONS is per reader
PEER_LIST_LENGTH = 200
KINDS = ("like", "favorite", "share", "reply", "post")


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


def load_and_train(deployment, directory):
    now = int(time.time())
    loading.import_items(deployment, os.path.join(directory, "recommend-items.ndjson"), (item(number, now) for number in range(ITEMS)))
    loading.post_interactions(deployment, interactions(now))
    loading.train(deployment)


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
