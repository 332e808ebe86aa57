"""R1: readers whose data is distinguishable, and checks that a reply contains no other reader's data.

Everything that belongs to one reader contains the reader's number: ids, titles, authors, and values such as dwell times
and the number of dismissed items. A reply with another reader's data is a mix-up, whatever its status.
"""

import json
import re
import time

from service import wait_until

LIKED, DISMISSED, VIEWED, FREE = range(0, 4), range(4, 8), range(8, 12), range(12, 16)
READER_NAMES = re.compile(rb"\b(?:r|i|au|tag|a|v|s)(\d+)-[a-z]+\d+x\d+\b")  # names that Reader generates
CHANNEL = "discover"
PAGE = 5


class Reader:
    """number: below 48, since the counts of liked, dismissed and viewed items distinguish no more readers."""

    def __init__(self, run, number):
        self.number, self.id = number, f"r{number}-{run}"
        self.word = f"w{number}q{run}"
        self.author, self.tag = f"au{number}-{run}", f"tag{number}-{run}"
        self.items = [f"i{number}-{run}-{at}" for at in range(16)]
        self.own = set(self.items)
        # The combination of these counts is unique for each reader.
        self.liked = self.items[:1 + number % 4]
        self.dismissed = self.items[4:5 + number // 4 % 4]
        self.viewed = self.items[8:9 + number // 16 % 3]
        self.article, self.viewed_article = f"a{number}-{run}", f"v{number}-{run}"
        self.read_article = f"s{number}-{run}"  # reported once, by prepare()
        self.dwell_ms = 1000 + number
        self.list_limit = 1 + number % 4
        self.first_page = None  # of the timeline: [(id, score)]

    def lines(self, now):
        """The reader's items as NDJSON. Those of FREE, which may be recommended, are the newest ones."""
        for at, item in enumerate(self.items):
            yield json.dumps({"id": item, "title": f"about {self.word} number {at}", "author": self.author, "tags": [self.tag],
                              "published_at": now - (60 if at in FREE else 7200) - at})


# --- checks: each returns what is wrong with a reply to this reader, or None. content: the parsed body.
# degraded: the reply is marked as possibly incomplete.


def check_history(reader, content, degraded):
    if degraded:
        return foreign_ids(reader, content["items"])
    items, viewed = set(content["items"]), set(reader.viewed)  # track adds its articles asynchronously
    return None if viewed <= items <= viewed | {reader.article, reader.read_article} else f"the history {content['items']} instead of {reader.viewed}"


def check_feed(reader, content, degraded):
    items = content["data"]["items"]
    return foreign_ids(reader, [item["id"] for item in items]) or next(
        (f"the title {item['title']!r}" for item in items if reader.word not in item.get("title", reader.word).split()), None)


def check_timeline(reader, content, degraded):
    page = [(item["id"], item["score"]) for item in content["items"]]
    if degraded and not page:
        return None
    return None if page == reader.first_page else f"the page {page} instead of {reader.first_page}"


def check_recommendations(reader, content, degraded):
    ids = [item["id"] for item in content["items"]]
    reasons = [item["reason"] for item in content["items"]]
    for reason in reasons:
        if reason.get("author", reader.author) != reader.author or reason.get("tag", reader.tag) != reader.tag:
            return f"a reason of another reader: {reason}"
        if reason.get("id") is not None and reason["id"] not in reader.own:
            return f"a reason of another reader: {reason}"
    if degraded:
        return None
    excluded = {"interacted": len(reader.liked), "viewed": len(reader.viewed), "not_interested": len(reader.dismissed)}
    read = content["excluded"]["viewed"] - excluded["viewed"]  # of the articles in check_history()
    if content["excluded"] != excluded | {"viewed": excluded["viewed"] + read} or not 0 <= read <= 2:
        return f"excluded {content['excluded']} instead of {excluded}"
    unwanted = set(ids) & (set(reader.liked) | set(reader.viewed) | set(reader.dismissed))
    return f"{unwanted} should have been excluded" if unwanted else None


def check_item(reader, content, degraded):
    at = reader.items.index(content["id"]) if content["id"] in reader.own else None
    if at is None:
        return f"the item {content['id']}"
    return None if content["title"] == f"about {reader.word} number {at}" else f"the title {content['title']!r} of {content['id']}"


def check_stats(reader, content, degraded):
    return None if (content["pv"], content["avg_dwell_ms"]) == (1, reader.dwell_ms) else f"pv {content['pv']}, mean dwell {content['avg_dwell_ms']} instead of {reader.dwell_ms}"


def check_track(reader, content, degraded):
    if content.get("queued"):
        return None
    return None if content["avg_dwell_ms"] == reader.dwell_ms else f"mean dwell {content['avg_dwell_ms']} instead of {reader.dwell_ms}"


def check_ok(reader, content, degraded):
    return None if content.get("ok") is True else f"{content}"


def check_list(reader, content, degraded):
    """Hot lists are shared by all readers, but readers request different lengths."""
    if not isinstance(content, list):
        return "no list"
    return None if len(content) <= reader.list_limit else f"a list of {len(content)} instead of {reader.list_limit}"


def foreign_ids(reader, ids):
    others = [each for each in ids if each not in reader.own]
    return f"{others} of another reader" if others else None


def foreign_names(reader, body):
    """Reports names of other readers or of their data, for replies that may contain only this reader's names or none.
    """
    found = {int(number) for number in READER_NAMES.findall(body)} - {reader.number}
    return f"names of readers {sorted(found)}" if found else None


# --- setup


def prepare(instance, readers):
    """Puts the readers' items and creates each reader's history, likes, dismissals and timeline."""
    internal, now = instance.internal(), int(time.time())

    def apply(path, body):
        """Repeats an idempotent request until it is applied: on a busy host Redis may miss the service's deadline.
        Returns the reply and whether the first request was applied.
        """
        replies = []

        def is_applied():
            replies.append(internal.post(path, body))
            return replies[-1].status not in (202, 503)
        wait_until(is_applied, f"{path} to be applied")
        assert replies[-1].status == 200, replies
        return replies[-1].json(), len(replies) == 1

    lines = [line for reader in readers for line in reader.lines(now)]
    assert apply("/api/items", "\n".join(lines))[0] == {"accepted": len(lines), "rejected": []}
    likes = [json.dumps({"userId": reader.id, "topicId": item, "kind": "like"}) for reader in readers for item in reader.liked]
    assert apply("/api/interactions", "\n".join(likes))[0] == {"accepted": len(likes), "rejected": []}
    for reader in readers:
        read = {"articleId": reader.read_article, "userId": reader.id, "dwellMs": reader.dwell_ms, "eventId": f"read-{reader.id}"}
        assert apply("/api/track", read)[0]["pv"] == 1
        for item in reader.dismissed:
            apply("/api/feedback", {"userId": reader.id, "topicId": item, "kind": "not_interested"})
        for item in reader.viewed:
            apply("/api/history", {"userId": reader.id, "topicId": item})
        pushed, is_first = apply(f"/api/waterfall/{CHANNEL}", {"items": reader.items[:8], "customers": [reader.id]})
        assert pushed == {"pushed": 8, "duplicates": 0} or not is_first and sum(pushed.values()) == 8, pushed
        first = {"customerId": reader.id, "direction": "first", "limit": PAGE}
        page = wait_until(lambda query=first: (reply := internal.get(f"/api/waterfall/{CHANNEL}", query=query).json())["items"] and reply, "a page")
        reader.first_page = [(item["id"], item["score"]) for item in page["items"]]
        shown = [item for item in reversed(reader.items[:8]) if item not in reader.dismissed]
        assert [item for item, _ in reader.first_page] == shown[:PAGE], page
    return readers
