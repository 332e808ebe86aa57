"""Timelines as their clients meet them: a reader who follows the seed's rules, and what tests of timelines say often."""


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
    """The ids in Redis, newest first."""
    return service.redis("ZREVRANGEBYSCORE", f"wf:{channel}:{{{reader}}}", "+inf", "(0")


class Reader:
    """A client that follows the seed's rules: keeps drop and up, and changes only the one it asked about."""

    def __init__(self, name, channel="discover"):
        self.name, self.channel, self.shown, self.drop, self.up, self.more = name, channel, [], 0, 0, True

    def take(self, client, direction, limit=5):
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
            self.shown += ids(page)
        else:
            assert all(score > self.drop for score in scores)
            self.shown = ids(page) + self.shown
            self.drop = page["drop"]
        if direction != "down":
            self.up, self.more = page["up"], page["has_more"]
        return page

    def exhaust(self, client):
        while self.take(client, "down", 7)["has_more"]:
            pass
        while self.more:
            self.take(client, "up", 7)
        assert len(set(self.shown)) == len(self.shown), "an item came twice"


def follows(client, reader):
    reply = client.get("/api/follows", query={"follower": reader})
    assert reply.status == 200, reply
    return reply.json()["items"]
