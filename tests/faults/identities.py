"""Readers each of whose replies can be told from everybody else's, and the judge of them (R1).

Everything that only one reader can have carries that reader's number: ids, titles, authors, and numbers such as dwell times and how many items
they dismissed. A reply that holds another's is a mix-up, whatever its status says.
"""

import json
import re
import time

from service import wait_until

LIKED, DISMISSED, VIEWED, FREE = range(0, 4), range(4, 8), range(8, 12), range(12, 16)
NAMED = re.compile(rb"\b(?:r|i|au|tag|a|v|s)(\d+)-[a-z]+\d+x\d+\b")  # as Reader names itself and what it has
CHANNEL = "discover"
PAGE = 5


class Reader:
    """number: below 48, or two readers would look the same to the recommendations."""

    def __init__(self, run, number):
        self.number, self.id = number, f"r{number}-{run}"
        self.word = f"w{number}q{run}"
        self.author, self.tag = f"au{number}-{run}", f"tag{number}-{run}"
        self.items = [f"i{number}-{run}-{at}" for at in range(16)]
        self.own = set(self.items)
        # So many of each kind: together they are this reader's alone.
        self.liked = self.items[:1 + number % 4]
        self.dismissed = self.items[4:5 + number // 4 % 4]
        self.viewed = self.items[8:9 + number // 16 % 3]
        self.article, self.viewed_article = f"a{number}-{run}", f"v{number}-{run}"
        self.read_article = f"s{number}-{run}"  # counted once, in the beginning
        self.dwell_ms = 1000 + number
        self.list_limit = 1 + number % 4
        self.first_page = None  # of the timeline: [(id, score)]

    def lines(self, now):
        """The reader's items as NDJSON; those that may be recommended are the newest of all."""
        for at, item in enumerate(self.items):
            yield json.dumps({"id": item, "title": f"about {self.word} number {at}", "author": self.author, "tags": [self.tag],
                              "published_at": now - (60 if at in FREE else 7200) - at})


# --- verdicts: each says what is wrong with a reply to this reader, or None. degraded: the reply says that it may lack something.


def judge_history(reader, got, degraded):
    if degraded:
        return strangers(reader, got["items"])
    return None if set(got["items"]) == set(reader.viewed) else f"the history {got['items']} instead of {reader.viewed}"


def judge_feed(reader, got, degraded):
    items = got["data"]["items"]
    return strangers(reader, [item["id"] for item in items]) or next(
        (f"the title {item['title']!r}" for item in items if reader.word not in item.get("title", reader.word).split()), None)


def judge_timeline(reader, got, degraded):
    page = [(item["id"], item["score"]) for item in got["items"]]
    if degraded and not page:
        return None
    return None if page == reader.first_page else f"the page {page} instead of {reader.first_page}"


def judge_recommendations(reader, got, degraded):
    ids = [item["id"] for item in got["items"]]
    reasons = [item["reason"] for item in got["items"]]
    for reason in reasons:
        if reason.get("author", reader.author) != reader.author or reason.get("tag", reader.tag) != reader.tag:
            return f"another's reason {reason}"
        if reason.get("id") is not None and reason["id"] not in reader.own:
            return f"another's reason {reason}"
    if degraded:
        return None
    excluded = {"interacted": len(reader.liked), "viewed": len(reader.viewed), "not_interested": len(reader.dismissed)}
    if got["excluded"] != excluded:
        return f"excluded {got['excluded']} instead of {excluded}"
    out = set(ids) & (set(reader.liked) | set(reader.viewed) | set(reader.dismissed))
    return f"{out} were to be kept out" if out else None


def judge_item(reader, got, degraded):
    at = reader.items.index(got["id"]) if got["id"] in reader.own else None
    if at is None:
        return f"the item {got['id']}"
    return None if got["title"] == f"about {reader.word} number {at}" else f"the title {got['title']!r} of {got['id']}"


def judge_stats(reader, got, degraded):
    return None if (got["pv"], got["avg_dwell_ms"]) == (1, reader.dwell_ms) else f"pv {got['pv']}, a mean dwell of {got['avg_dwell_ms']}, not {reader.dwell_ms}"


def judge_track(reader, got, degraded):
    if got.get("queued"):
        return None
    return None if got["avg_dwell_ms"] == reader.dwell_ms else f"a mean dwell of {got['avg_dwell_ms']}, not {reader.dwell_ms}"


def judge_ok(reader, got, degraded):
    return None if got.get("ok") is True else f"{got}"


def judge_list(reader, got, degraded):
    """Lists are everybody's, but not every reader asks for as long a one."""
    if not isinstance(got, list):
        return "no list"
    return None if len(got) <= reader.list_limit else f"a list of {len(got)} instead of {reader.list_limit}"


def strangers(reader, ids):
    others = [each for each in ids if each not in reader.own]
    return f"{others} of somebody else" if others else None


def foreign_names(reader, body):
    """Names of other readers and of what is theirs, in a reply that should have nobody's or this reader's."""
    found = {int(number) for number in NAMED.findall(body)} - {reader.number}
    return f"the names of {sorted(found)}" if found else None


# --- making them known


def prepare(instance, readers):
    """Puts the readers' items, and gives each their history, likes, dismissals and timeline."""
    internal, now = instance.internal(), int(time.time())

    def applied(path, body):
        """The reply, once it says so, and whether it was the first: a busy host may take longer than the service waits for Redis. Repeated, all
        of it changes nothing."""
        replies = []

        def is_said():
            replies.append(internal.post(path, body))
            return replies[-1].status not in (202, 503)
        wait_until(is_said, f"{path} to be applied")
        assert replies[-1].status == 200, replies
        return replies[-1].json(), len(replies) == 1

    lines = [line for reader in readers for line in reader.lines(now)]
    assert applied("/api/items", "\n".join(lines))[0] == {"accepted": len(lines), "rejected": []}
    likes = [json.dumps({"userId": reader.id, "topicId": item, "kind": "like"}) for reader in readers for item in reader.liked]
    assert applied("/api/interactions", "\n".join(likes))[0] == {"accepted": len(likes), "rejected": []}
    for reader in readers:
        read = {"articleId": reader.read_article, "userId": reader.id, "dwellMs": reader.dwell_ms, "eventId": f"read-{reader.id}"}
        assert applied("/api/track", read)[0]["pv"] == 1
        for item in reader.dismissed:
            applied("/api/feedback", {"userId": reader.id, "topicId": item, "kind": "not_interested"})
        for item in reader.viewed:
            applied("/api/history", {"userId": reader.id, "topicId": item})
        pushed, at_once = applied(f"/api/waterfall/{CHANNEL}", {"items": reader.items[:8], "customers": [reader.id]})
        assert pushed == {"pushed": 8, "duplicates": 0} or not at_once and sum(pushed.values()) == 8, pushed
        first = {"customerId": reader.id, "direction": "first", "limit": PAGE}
        page = wait_until(lambda query=first: (said := internal.get(f"/api/waterfall/{CHANNEL}", query=query).json())["items"] and said, "a page")
        reader.first_page = [(item["id"], item["score"]) for item in page["items"]]
        assert [item for item, _ in reader.first_page] == reader.items[7:7 - PAGE:-1], page
    return readers
