"""Who counts what was acknowledged (R5): every event has an id, is repeated until a 2xx, and must then be counted exactly once."""

import base64
import dataclasses
import hmac
import time

from service import wait_until

KINDS = ("track", "view")
PV = {"track": ("HGET", "hot:article:{{{}}}", "pv"), "view": ("HGET", "hot:article:{{{}}}", "views")}
EVENT = {"track": "hot:event:{{{}}}:{}", "view": "hot:view:event:{{{}}}:{}"}
ASK_AT_ONCE = 500


@dataclasses.dataclass
class Balance:
    """Events: acknowledged, of those not counted, counted more than once; with an outcome that nobody learnt; and how many were sent again."""
    acknowledged: int = 0
    lost: int = 0
    double: int = 0
    in_doubt: int = 0
    repeated: int = 0
    lost_times: list = dataclasses.field(default_factory=list)  # when those lost were acknowledged (time.monotonic)
    details: list = dataclasses.field(default_factory=list)

    def kept(self):
        return self.lost == 0 and self.double == 0

    def __str__(self):
        return f"{self.acknowledged:,} acknowledged, {self.lost} lost, {self.double} double" + \
            (f", {self.in_doubt} in doubt" if self.in_doubt else "")


def key_name(salt, *fields):
    """What a key has of an id: fcgi/http/identity.h."""
    message = b"".join(len(each).to_bytes(8, "little") + each for each in (field.encode() for field in fields))
    return base64.urlsafe_b64encode(hmac.digest(salt, message, "sha256")[:16]).rstrip(b"=").decode()


class Accountant:
    """Not for several threads at once. An event is (kind, article, event id); name_of(kind, article, event): what its key has of the id."""

    def __init__(self, name_of=lambda kind, article, event: event):
        self._name_of = name_of
        self._acknowledged = {kind: {} for kind in KINDS}  # kind → article → {event: when}
        self._doubtful = {kind: {} for kind in KINDS}
        self._numbers, self.repeated = 0, 0

    def new(self, kind, article):
        """An event id; from now on it may have been counted."""
        self._numbers += 1
        event = f"event-{self._numbers:010}"  # of an anonymous reader it must be long
        self._doubtful[kind].setdefault(article, set()).add(event)
        return event

    def acknowledge(self, kind, article, event):
        self._doubtful[kind][article].discard(event)
        self._acknowledged[kind].setdefault(article, {}).setdefault(event, time.monotonic())

    def acknowledged(self):
        return sum(len(events) for articles in self._acknowledged.values() for events in articles.values())

    def balance(self, redis):
        """Compares with what Redis has now. redis(*command): its reply."""
        out = Balance(repeated=self.repeated)
        for kind in KINDS:
            for article in self._acknowledged[kind].keys() | self._doubtful[kind].keys():
                self._compare(kind, article, redis, out)
        return out

    def settled(self, instance, limit_s=60):
        """The balance once the workers' queues and spools are empty and nothing more can come."""
        def quiet():
            status = instance.status()
            return status["spooled bytes"] == 0 and status["background age ms"] == 0
        wait_until(quiet, "the spools to be applied", limit_s)
        balance = self.balance(instance.redis)
        deadline = time.monotonic() + 20
        while balance.lost and time.monotonic() < deadline:  # a worker that died left its spool to another, which looks now and then
            time.sleep(0.5)
            balance = self.balance(instance.redis)
        return balance

    def _compare(self, kind, article, redis, out):
        events, doubtful = self._acknowledged[kind].get(article, {}), self._doubtful[kind].get(article, set())
        command, name, *field = PV[kind]
        counted = int(redis(command, name.format(article), *field) or 0)
        out.acknowledged += len(events)
        out.in_doubt += len(doubtful)
        if counted == len(events) and not doubtful:
            return
        # Which they are: each counted event has left its reply under its id.
        known = self._known(kind, article, [*events, *doubtful], redis)
        missing = [event for event in events if event not in known]
        out.lost += len(missing)
        out.lost_times += [events[event] for event in missing]
        double = counted - len(known)
        if double > 0:
            out.double += double
        elif double < 0:
            out.lost += -double
        if missing or double:
            out.details.append(f"{kind} {article}: {counted} counted, {len(known)} known, {len(events)} acknowledged")

    def _known(self, kind, article, events, redis):
        known = set()
        for at in range(0, len(events), ASK_AT_ONCE):
            chunk = events[at:at + ASK_AT_ONCE]
            replies = redis("MGET", *(EVENT[kind].format(article, self._name_of(kind, article, event)) for event in chunk))
            known |= {event for event, reply in zip(chunk, replies) if reply is not None}
        return known
