"""Helpers for timelines: a client that follows the paging rules, and common requests."""


def push(service, channel, items, customers):
    reply = service.internal().post(f"/api/waterfall/{channel}", {"items": list(items), "customers": list(customers)})
    assert reply.status == 200, reply
    return reply.json()


def read(client, channel, reader, direction=None, score=None, limit=None):
    query = {"customerId": reader, "direction": direction, "score": score, "limit": limit}
    reply = client.get(f"/api/waterfall/{channel}", query={name: value for name, value in query.items() if value is not None})
    assert reply.status == 200, reply
    return reply.json()


def ids(page):
    return [item["id"] for item in page["items"]]


def timeline(service, channel, reader):
    """Ids of the timeline in Redis, newest first."""
    return service.redis("ZREVRANGEBYSCORE", f"wf:{channel}:{{{reader}}}", "+inf", "(0")


class Reader:
    """A client that follows the paging rules: it keeps the cursors `drop` and `up`, and updates only the one it used."""

    def __init__(self, name, channel="discover"):
        self.name, self.channel, self.item_ids, self.drop, self.up, self.has_more = name, channel, [], 0, 0, True

    def fetch(self, client, direction, limit=5):
        score = {"first": None, "down": self.drop, "up": self.up}[direction]
        page = read(client, self.channel, self.name, direction, score, limit)
        if page.get("degraded"):
            assert (page["items"], page["drop"], page["up"], page["has_more"], page["newer"]) == ([], score or 0, score or 0, True, 0)
            return page
        scores = [item["score"] for item in page["items"]]
        assert scores == sorted(set(scores), reverse=True) and all(type(score) is int for score in scores)
        assert (page["drop"], page["up"]) == ((scores[0], scores[-1]) if scores else (score or 0, score or 0))
        if direction == "up":
            assert all(score < self.up for score in scores)
            self.item_ids += ids(page)
        else:
            assert all(score > self.drop for score in scores)
            self.item_ids = ids(page) + self.item_ids
            self.drop = page["drop"]
        if direction != "down":
            self.up, self.has_more = page["up"], page["has_more"]
        return page

    def exhaust(self, client):
        while self.fetch(client, "down", 7)["has_more"]:
            pass
        while self.has_more:
            self.fetch(client, "up", 7)
        assert len(set(self.item_ids)) == len(self.item_ids), "an item was delivered twice"


def follows(client, reader):
    reply = client.get("/api/follows", query={"follower": reader})
    assert reply.status == 200, reply
    return reply.json()["items"]
