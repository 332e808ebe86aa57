#!/usr/bin/python3
"""Compares the latency of searching two remote shards and a local index: ./tests/bench/shards.py [ITEMS] [REQUESTS]

Two instances of scripts/run share one Redis. The first has a local index (20,000 items with texts of 100 words), the
second searches two Xapian servers (freshet-search@.service) with half of the items each. Sends each
refresh to both, first REQUESTS (2,000) with two search words, then as many for the newest items, each for a different
reader. Counts the pages whose order differs; the only valid reason is that a new second began between the two searches.
"""

import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests/e2e"))
# pylint: disable=wrong-import-position
from service import CTL, LONG_TIMEOUTS, Instance, wait_until  # noqa: E402
from test_hosts_reach import Shard, build_partial_index  # noqa: E402

WORDS, WORDS_PER_TEXT = [f"word{number}" for number in range(20000)], 100
LIMIT_S = 600


def put_items(instance, count, folder):
    rng, now, weights = random.Random(1), int(time.time()), list(itertools.accumulate(1 / rank for rank in range(1, len(WORDS) + 1)))
    path = os.path.join(folder, "items.ndjson")
    with open(path, "w", encoding="ascii") as file:
        for number in range(count):
            words = rng.choices(WORDS, cum_weights=weights, k=12 + WORDS_PER_TEXT)
            file.write(json.dumps({"id": f"i{number}", "title": " ".join(words[:12]), "text": " ".join(words[12:]), "published_at": now - 60 * number}) + "\n")
    subprocess.run([CTL, "import", "-q", path, "--base", f"http://{instance.host}:{instance.internal_port}"], check=True, timeout=LIMIT_S)
    wait_until(lambda: instance.status().get("index documents") == count, "the index", LIMIT_S)
    return [f"i{number}" for number in range(count)]


def refresh(client, reader, text):
    """Returns the latency in ms and the ids of a refresh."""
    since = time.perf_counter()
    reply = client.post("/api/feed", {"action": "refresh", "limit": 20, "userId": reader} | ({"query": text} if text else {}))
    latency_ms = 1e3 * (time.perf_counter() - since)
    assert reply.status == 200 and "degraded" not in reply.json()["data"], reply
    return latency_ms, [each["id"] for each in reply.json()["data"]["items"]]


def main():
    count, requests = [int(each) for each in sys.argv[1:]] + [20000, 2000][len(sys.argv) - 1:]
    first = second = None
    shards = []
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        try:
            first = Instance("--no-limits", **LONG_TIMEOUTS)
            first.start()
            items = put_items(first, count, folder)
            second = Instance("--no-limits", peer=first, recorder__enabled="false", **LONG_TIMEOUTS)
            shards = [Shard(host, build_partial_index(first, os.path.join(folder, str(number)), items[number::2])).start()
                      for number, host in enumerate((first.host, second.host))]
            second.configure(recorder__enabled="false", search__shards=json.dumps([each.address for each in shards]))
            second.start()
            wait_until(lambda: second.status().get("index documents") == count, "the shards", LIMIT_S)
            hosts, rng = {"local index": first.public(), "two remote shards": second.public()}, random.Random(2)
            print(f"{count:,} items, {requests:,} refreshes of each\n| refresh | index | p50 ms | p99 ms | p99 × |\n|---|---|---|---|---|")
            for kind in ("two words", "newest items"):
                latencies_ms, different = {host: [] for host in hosts}, 0
                for number in range(requests):
                    text, pages = " ".join(rng.choices(WORDS[:2000], k=2)) if kind == "two words" else "", []
                    for host, client in hosts.items():
                        latency_ms, ids = refresh(client, f"{host[0]}{kind[0]}{number}", text)
                        latencies_ms[host].append(latency_ms)
                        pages.append(ids)
                    different += pages[0] != pages[1]
                p99 = {host: statistics.quantiles(values, n=100)[98] for host, values in latencies_ms.items()}
                for host, values in latencies_ms.items():
                    print(f"| {kind} | {host} | {statistics.median(values):.2f} | {p99[host]:.2f} | {p99[host] / p99['local index']:.2f} |")
                print(f"{kind}: {different} pages in a different order", file=sys.stderr)
        finally:
            for each in shards:
                each.stop()
            for instance in (second, first):
                if instance:
                    instance.stop()


if __name__ == "__main__":
    main()
