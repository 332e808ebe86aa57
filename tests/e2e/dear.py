"""Queries that cost what a search may, and the items that make them so."""

import json
import time

from service import wait_until

# Frequent words that never stand side by side: a phrase of them is looked for in every item, and found in none.
WORDS = [f"word{number}" for number in range(12)]
TEXT = " filler ".join(WORDS * 25)
DEAR = " ".join(f'"{" ".join(WORDS[at:] + WORDS[:at])}"' for at in range(len(WORDS)))[:512]


def put_items(service, count):
    """Puts so many items, all of which a dear query looks at, and waits until the index has them."""
    now = int(time.time())
    lines = [json.dumps({"id": f"dear-{number}", "title": f"item {number}", "text": TEXT, "published_at": now - 60 * number}) for number in range(count)]
    for at in range(0, count, 500):
        batch = lines[at:at + 500]
        assert service.internal().post("/api/items", "\n".join(batch)).json()["accepted"] == len(batch)
    wait_until(lambda: service.status()["recorder items"] >= count and service.status()["recorder lag entries"] == 0, "the items to be indexed", 120)
