"""Queries at the maximum cost of a search, and items that make them expensive."""

import json
import time

from service import wait_until

# Frequent words that are never adjacent: a phrase of them is looked up in every item and matches none.
WORDS = [f"word{number}" for number in range(12)]
TEXT = " filler ".join(WORDS * 25)
EXPENSIVE_QUERY = " ".join(f'"{" ".join(WORDS[at:] + WORDS[:at])}"' for at in range(len(WORDS)))[:512]


def put_items(service, count):
    """Puts `count` items that every expensive query has to examine, and waits until they are indexed."""
    now = int(time.time())
    lines = [json.dumps({"id": f"expensive-{number}", "title": f"item {number}", "text": TEXT, "published_at": now - 60 * number}) for number in range(count)]
    for at in range(0, count, 500):
        batch = lines[at:at + 500]
        assert service.internal().post("/api/items", "\n".join(batch)).json()["accepted"] == len(batch)
    wait_until(lambda: service.status()["recorder items"] >= count and service.status()["recorder lag entries"] == 0, "the items to be indexed", 120)
