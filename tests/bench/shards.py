#!/usr/bin/python3
"""What it costs to search two remote shards in place of a local index: ./tests/bench/shards.py [ITEMS] [REQUESTS]

Two instances of scripts/run on one Redis: the first has the index (of 20,000 items, texts of a hundred words), the second asks two servers of
Xapian (freshet-search@.service), each with half of it. Refreshes by two words, then of the newest (2,000), in turns, each of another reader.
Pages whose order differs are counted: a second may end between two searches, nothing else should make a difference."""

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
from service import CTL, PATIENT, Instance, wait_until  # noqa: E402
from test_hosts_reach import Shard, half_of  # noqa: E402

WORDS, WORDS_OF_TEXT = [f"word{number}" for number in range(20000)], 100
LIMIT_S = 600


def put_items(instance, count, folder):
    draw, now, weights = random.Random(1), int(time.time()), list(itertools.accumulate(1 / rank for rank in range(1, len(WORDS) + 1)))
    path = os.path.join(folder, "items.ndjson")
    with open(path, "w", encoding="ascii") as file:
        for number in range(count):
            words = draw.choices(WORDS, cum_weights=weights, k=12 + WORDS_OF_TEXT)
            file.write(json.dumps({"id": f"i{number}", "title": " ".join(words[:12]), "text": " ".join(words[12:]), "published_at": now - 60 * number}) + "\n")
    subprocess.run([CTL, "import", "-q", path, "--base", f"http://{instance.host}:{instance.internal_port}"], check=True, timeout=LIMIT_S)
    wait_until(lambda: instance.status().get("index documents") == count, "the index", LIMIT_S)
    return [f"i{number}" for number in range(count)]


def ask(client, reader, text):
    """(ms, ids) of a refresh."""
    since = time.perf_counter()
    reply = client.post("/api/feed", {"action": "refresh", "limit": 20, "userId": reader} | ({"query": text} if text else {}))
    took = 1e3 * (time.perf_counter() - since)
    assert reply.status == 200 and "degraded" not in reply.json()["data"], reply
    return took, [each["id"] for each in reply.json()["data"]["items"]]


def main():
    count, requests = [int(each) for each in sys.argv[1:]] + [20000, 2000][len(sys.argv) - 1:]
    first = second = None
    shards = []
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        try:
            first = Instance("--no-limits", **PATIENT)
            first.start()
            items = put_items(first, count, folder)
            second = Instance("--no-limits", beside=first, recorder__enabled="false", **PATIENT)
            shards = [Shard(host, half_of(first, os.path.join(folder, str(number)), items[number::2])).start()
                      for number, host in enumerate((first.host, second.host))]
            second.configure(recorder__enabled="false", search__shards=json.dumps([each.address for each in shards]))
            second.start()
            wait_until(lambda: second.status().get("index documents") == count, "the shards", LIMIT_S)
            hosts, draw = {"a local index": first.public(), "two remote shards": second.public()}, random.Random(2)
            print(f"{count:,} items, {requests:,} refreshes of each\n| refresh | index | p50 ms | p99 ms | p99 × |\n|---|---|---|---|---|")
            for kind in ("by a text", "of the newest"):
                took, other = {host: [] for host in hosts}, 0
                for number in range(requests):
                    text, answers = " ".join(draw.choices(WORDS[:2000], k=2)) if kind == "by a text" else "", []
                    for host, client in hosts.items():
                        ms, ids = ask(client, f"{host[0]}{kind[3]}{number}", text)
                        took[host].append(ms)
                        answers.append(ids)
                    other += answers[0] != answers[1]
                p99 = {host: statistics.quantiles(all_ms, n=100)[98] for host, all_ms in took.items()}
                for host, all_ms in took.items():
                    print(f"| {kind} | {host} | {statistics.median(all_ms):.2f} | {p99[host]:.2f} | {p99[host] / p99['a local index']:.2f} |")
                print(f"{kind}: {other} pages in another order", file=sys.stderr)
        finally:
            for each in shards:
                each.stop()
            for instance in (second, first):
                if instance:
                    instance.stop()


if __name__ == "__main__":
    main()
