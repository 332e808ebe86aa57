"""P11: what a reader costs: the mix of SCALE.md, five reports with event ids, a refresh with interests, a load_more, a page of
recommendations and one of a timeline, compared with the same mix in PHP-FPM or with another revision.
"""

import os
import random
import time

import corpora
import feed_bench
import freshet
import interests_bench
import loading
import peers
import waterfall_bench
from peers import Contender
from redis_server import run_all

REQUESTS = 9  # of reader_day.lua
READERS, INTERESTS, LIMIT = interests_bench.READERS, 10, 20
TIMELINE_ITEMS = 250
CONNECTIONS = 8
PEER_LIST_LENGTH = 200
CHANNEL = waterfall_bench.CHANNEL
# Paths of track, refresh, load_more, recommendations and timelines.
PATHS = ("/api/track", "/api/feed", "/api/feed", "/api/recommendations", f"/api/waterfall/{CHANNEL}")
PEER_PATHS = ("/track_seed", "/feed_refresh_interests", "/feed_more", "/recommend", "/waterfall_page")


def items(session):
    return corpora.CORPORA[session.corpus](session.items, int(time.time()))


def filled_deployment(session, name, root=peers.ROOT):
    if name not in session.running:
        deployment = session.running[name] = freshet.Freshet(session.directory, name, root=root)
        loading.import_items(deployment, os.path.join(session.directory, "corpus-items.ndjson"), items(session))
        count = loading.status(deployment)["recorder items"]
        loading.post_interactions(deployment, interests_bench.likes(READERS, session.interests or INTERESTS, count))
        loading.train(deployment)
        feed_bench.fill_seen_days(deployment.redis_client())
        waterfall_bench.add_timelines(deployment.redis_client(), READERS, TIMELINE_ITEMS, count, True)
    return session.running[name]


def filled_peer(session):
    if "php-reader-day" not in session.running:
        peer = session.running["php-reader-day"] = peers.php_fpm(session.directory, name="php-reader-day")
        load_peer(peer.redis_client(), session)
    return session.running["php-reader-day"]


def load_peer(client, session):
    """Writes the same items and likes, the items of each tag by time, and a ranked list for each reader."""
    now, rng, commands, count = int(time.time()), random.Random(7), [], 0
    for count, each in enumerate(items(session), 1):
        tags = [tag.replace(" ", "-") for tag in each["tags"]]
        commands.append(("HSET", f"item:{{{each['id']}}}", "title", each["title"], "url", each["url"], "author", each["author"],
                         "tags", " ".join(tags), "published_at", each["published_at"]))
        commands += [("ZADD", key, each["published_at"], each["id"]) for key in ["recall"] + [f"tag:{tag}" for tag in tags]]
    for each in interests_bench.likes(READERS, session.interests or INTERESTS, count):
        commands.append(("ZADD", f"user:interactions:{{{each['userId']}}}", now, f"l:{each['topicId']}"))
    for reader in range(READERS):
        ranked = [word for rank in range(PEER_LIST_LENGTH) for word in (PEER_LIST_LENGTH - rank, f"i{rng.randrange(count)}")]
        commands.append(("ZADD", f"recommended:u{reader}", *ranked))
    for first in range(0, len(commands), 1000):
        run_all(client, commands[first:first + 1000])
    waterfall_bench.add_timelines(client, READERS, TIMELINE_ITEMS, count, False)


def reader_day(session, section, deployments):
    """deployments: (name, Freshet) of each. If there is one, or none, PHP-FPM takes part."""
    contenders, paths = [Contender(f"{name} reader-day", deployment, "/", "reader_day.lua") for name, deployment in deployments], {}
    paths.update((contender.name, PATHS) for contender in contenders)
    if len(contenders) < 2:
        contenders.append(Contender("PHP-FPM reader-day", filled_peer(session), "/", "reader_day.lua"))
        paths[contenders[-1].name] = PEER_PATHS
    title = f"P11 reader-day: 5 reports, refresh, load_more, recommendations, timeline; {session.items:,} items ({session.corpus}), {CONNECTIONS} connections"
    out = section("reader-day", title)
    check_pages(out, contenders, paths)
    out.rows = session.slow_turns(contenders, CONNECTIONS, script_args=lambda contender: [READERS, session.items, *paths[contender.name]],
                                  before=interests_bench.prepare, after=interests_bench.check_complete)
    out.values = [(f"{row.contender}: CPU of all {REQUESTS} requests", REQUESTS * row.median(lambda turn: turn.cpu_total_us), "µs") for row in out.rows]
    return [out]


def check_pages(section, contenders, paths):
    """Adds a problem to the section for each page that is empty or has no titles."""
    for contender in contenders:
        _, refresh, more, recommendations, timelines = (Contender(f"{contender.name}, {path}", contender.deployment, path) for path in paths[contender.name])
        for page, action in ((refresh, "refresh"), (more, "load_more")):
            peers.check_titles(section, [page], body={"action": action, "agent_id": "u1", "limit": LIMIT})
        peers.check_titles(section, [recommendations], "?limit=20&userId=u1")
        peers.check_titles(section, [timelines], "?direction=first&limit=20&customerId=u1")
