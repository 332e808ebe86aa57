"""R5: each event has an id and is repeated until a 2xx; after that it must be counted exactly once."""

import base64
import dataclasses
import hmac
import time

from service import wait_until

KINDS = ("track", "view")
COUNTERS = {"track": ("HGET", "hot:article:{{{}}}", "pv"), "view": ("HGET", "hot:article:{{{}}}", "views")}
EVENT_KEYS = {"track": "hot:event:{{{}}}:{}", "view": "hot:view:event:{{{}}}:{}"}
MGET_BATCH = 500


@dataclasses.dataclass
class Balance:
    """Numbers of events."""
    acknowledged: int = 0
    lost: int = 0         # acknowledged but not counted
    duplicated: int = 0   # excess counts
    in_doubt: int = 0     # never acknowledged; may have been counted
    repeated: int = 0     # sent again after an acknowledgement
    lost_times: list = dataclasses.field(default_factory=list)  # when the lost events were acknowledged (time.monotonic)
    details: list = dataclasses.field(default_factory=list)

    def is_exact(self):
        return self.lost == 0 and self.duplicated == 0

    def __str__(self):
        return f"{self.acknowledged:,} acknowledged, {self.lost} lost, {self.duplicated} counted twice" + \
            (f", {self.in_doubt} in doubt" if self.in_doubt else "")


def pseudonym(salt, *fields):
    """The pseudonym that Redis keys contain instead of an id, as in fcgi/http/identity.h."""
    message = b"".join(len(each).to_bytes(8, "little") + each for each in (field.encode() for field in fields))
    return base64.urlsafe_b64encode(hmac.digest(salt, message, "sha256")[:16]).rstrip(b"=").decode()


class EventLedger:
    """Events sent, by (kind, article, event id). Not thread-safe.

    event_name(kind, article, event) returns the event's name in Redis keys.
    """

    def __init__(self, event_name=lambda kind, article, event: event):
        self._event_name = event_name
        self._acknowledged = {kind: {} for kind in KINDS}  # kind → article → {event: time}
        self._in_doubt = {kind: {} for kind in KINDS}
        self._last_number, self.repeated = 0, 0

    def new_event(self, kind, article):
        """Returns an event id, which is in doubt until acknowledge()."""
        self._last_number += 1
        event = f"event-{self._last_number:010}"  # the service requires long ids from anonymous readers
        self._in_doubt[kind].setdefault(article, set()).add(event)
        return event

    def acknowledge(self, kind, article, event):
        self._in_doubt[kind][article].discard(event)
        self._acknowledged[kind].setdefault(article, {}).setdefault(event, time.monotonic())

    def acknowledged_count(self):
        return sum(len(events) for articles in self._acknowledged.values() for events in articles.values())

    def balance(self, redis):
        """Compares the ledger with Redis. redis(*command) returns the reply."""
        out = Balance(repeated=self.repeated)
        for kind in KINDS:
            for article in self._acknowledged[kind].keys() | self._in_doubt[kind].keys():
                self._compare(kind, article, redis, out)
        return out

    def settled_balance(self, instance, limit_s=60):
        """The balance after all queues and spools of the workers have been drained."""
        def is_drained():
            status = instance.status()
            return status["spooled bytes"] == 0 and status["background age ms"] == 0
        wait_until(is_drained, "the spools to be replayed", limit_s)
        balance = self.balance(instance.redis)
        deadline = time.monotonic() + 20
        while balance.lost and time.monotonic() < deadline:  # another worker periodically adopts the spool of a dead one
            time.sleep(0.5)
            balance = self.balance(instance.redis)
        return balance

    def _compare(self, kind, article, redis, out):
        events, in_doubt = self._acknowledged[kind].get(article, {}), self._in_doubt[kind].get(article, set())
        command, name, *field = COUNTERS[kind]
        counted = int(redis(command, name.format(article), *field) or 0)
        out.acknowledged += len(events)
        out.in_doubt += len(in_doubt)
        if counted == len(events) and not in_doubt:
            return
        # Identify the events by the replies that the service stores under the ids of counted events.
        known = self._known(kind, article, [*events, *in_doubt], redis)
        missing = [event for event in events if event not in known]
        out.lost += len(missing)
        out.lost_times += [events[event] for event in missing]
        excess = counted - len(known)
        if excess > 0:
            out.duplicated += excess
        elif excess < 0:
            out.lost += -excess
        if missing or excess:
            out.details.append(f"{kind} {article}: {counted} counted, {len(known)} known, {len(events)} acknowledged")

    def _known(self, kind, article, events, redis):
        known = set()
        for first in range(0, len(events), MGET_BATCH):
            chunk = events[first:first + MGET_BATCH]
            replies = redis("MGET", *(EVENT_KEYS[kind].format(article, self._event_name(kind, article, event)) for event in chunk))
            known |= {event for event, reply in zip(chunk, replies) if reply is not None}
        return known
