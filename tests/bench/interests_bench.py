"""P5: refreshes of readers with interests, which search for items like those that they liked, compared with readers
without, and with another revision.
"""

import itertools
import json
import os
import random
import statistics
import time
import urllib.request

import corpora
import feed_bench
import freshet
import loading
import open_loop
import peers
from peers import Contender

READERS, LIMIT = 2_000, feed_bench.LIMIT
INTERESTED, OTHERS = "u", "n"  # prefixes of the readers' ids
CONNECTIONS = (2, 8)  # the second saturates two cores
OPEN_LOOP_REQUESTS, MAX_OPEN_LOOP_S = 2_000, 20


def likes(readers, interests, items):
    """Distinct likes of each reader. The popularity of items follows Zipf's law and does not depend on their age."""
    rng = random.Random(7)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, items + 1)))
    for reader in range(readers):
        liked = {}
        while len(liked) < min(interests, items):
            liked[rng.choices(range(items), cum_weights=weights)[0]] = True
        yield from ({"userId": f"{INTERESTED}{reader}", "topicId": f"i{each}", "kind": "like"} for each in liked)


def filled_deployment(session, name, root=peers.ROOT):
    """An instance with the corpus, the readers' likes and full filters of the seven previous days."""
    if name not in session.running:
        items = corpora.CORPORA[session.corpus](session.items, int(time.time()))
        deployment = session.running[name] = freshet.Freshet(session.directory, name, root=root)
        loading.import_items(deployment, os.path.join(session.directory, "corpus-items.ndjson"), items)
        loading.post_interactions(deployment, likes(READERS, session.interests, loading.status(deployment)["recorder items"]))
        feed_bench.fill_seen_days(deployment.redis_client())
    return session.running[name]


def feed(session, section, deployments):
    """deployments: (name, Freshet) of each contender."""
    contenders = [Contender(f"{name} refresh", deployment, "/api/feed", "feed.lua") for name, deployment in deployments]
    count = loading.status(deployments[0][1])["recorder items"]
    title = f"P5 POST /api/feed refresh, {count:,} items ({session.corpus})"
    readers = {f"{session.interests} interests": INTERESTED, "no interests": OTHERS}
    sections = []
    for connections, (label, prefix) in itertools.product(CONNECTIONS, readers.items()):
        rows = session.slow_turns(contenders, connections, script_args=["refresh", LIMIT, READERS, prefix], before=prepare, after=check_complete)
        sections.append(section(f"feed-{label.replace(' ', '-')}-{connections}", f"{title}, {label}, {connections} connections", rows))
    sections.append(open_loops(session, section, contenders, sections[-2].rows))
    if session.interests:
        sections[0].problems += check_interests(contenders)
    return sections


def prepare(contender):
    """For take_turns: forgets what the readers were shown, and how many pages were degraded."""
    feed_bench.clear_seen_today(contender.deployment.redis_client())
    contender.degraded_before = degraded_pages(contender)


def degraded_pages(contender):
    return loading.status(contender.deployment)["feed pages degraded"] if hasattr(contender.deployment, "internal_url") else 0


def check_complete(contender, result):
    """For take_turns: pages without a search are cheap and would distort the results. result: has a list `problems`."""
    degraded = degraded_pages(contender) - contender.degraded_before
    if degraded:
        result.problems.append(f"{contender.name}: {degraded} pages were degraded")


def open_loops(session, section, contenders, saturated):
    """Latencies at half the rate that each contender reached in the rows `saturated`."""
    out = section("feed-open-loop", f"P5 POST /api/feed refresh, {session.interests} interests, open loop at half the saturating rate")
    rates = {row.contender: row.median(lambda turn: turn.per_second) / 2 for row in saturated}
    latencies_us = {contender.name: [] for contender in contenders}
    for _, contender in itertools.product(range(session.rounds), contenders):
        rate = rates[contender.name]
        seconds = min(MAX_OPEN_LOOP_S, max(session.seconds, OPEN_LOOP_REQUESTS / rate)) if session.min_slow_seconds > 1 else 1
        prepare(contender)
        measured, problems = open_loop.run(contender.deployment.address_of(contender), requests(contender), rate, seconds)
        out.problems += [f"{contender.name}: {each}" for each in problems]
        check_complete(contender, out)
        latencies_us[contender.name].append(measured)
    for name, rounds in latencies_us.items():
        for label, share in (("p50", 0.5), ("p99", 0.99)):
            value = statistics.median(measured[int(len(measured) * share)] for measured in rounds) / 1e3
            out.values.append((f"{name}: {label} at {rates[name]:,.0f} req/s", value, "ms"))
    return out


def requests(contender):
    """The requests of feed.lua."""
    head = f"POST {contender.path} HTTP/1.1\r\nHost: {contender.deployment.host}\r\nContent-Type: application/json\r\nContent-Length: "
    for number in itertools.count(1):
        body = json.dumps({"action": "refresh", "limit": LIMIT, "agent_id": f"{INTERESTED}{number * 7919 % READERS}"})
        yield f"{head}{len(body)}\r\n\r\n{body}".encode()


def check_interests(contenders):
    """Problems: contenders whose pages do not depend on interests."""
    return [f"{contender.name}: readers with and without interests get the same page" for contender in contenders
            if page(contender, INTERESTED) == page(contender, OTHERS)]


def page(contender, prefix):
    body = json.dumps({"action": "refresh", "limit": LIMIT, "agent_id": f"{prefix}1"})
    prepare(contender)
    request = urllib.request.Request(contender.url, body.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=5) as reply:
        return [item["id"] for item in json.load(reply)["data"]["items"]]
