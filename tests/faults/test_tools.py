"""Tests of the tools: they detect mixed-up replies, lost events and events that are counted twice."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from urllib.parse import parse_qs, urlsplit

import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# pylint: disable=wrong-import-position
from faults import identities, load as loads, scenario, table, wire
from faults.event_ledger import EventLedger
from service import birth, wait_until
import lan


class FakeService:
    """Answers like the service, for a few readers. With *_every = N each Nth request is answered with a fault: swap:
    another reader's page; lose: 200, but the event is not counted; double: counted again; refuse: 503; cut: an
    incomplete reply.
    """

    def __init__(self, readers):
        self.readers = {reader.id: reader for reader in readers}
        self.articles = {reader.article: reader for reader in readers} | {reader.viewed_article: reader for reader in readers}
        self.counted, self.events = {}, {}
        self.swap_every = self.lose_every = self.double_every = self.refuse_every = 0
        self.cut_every = 0
        self._loop, self._served = asyncio.new_event_loop(), 0
        self.host = "127.0.0.1"
        self.port = self.internal_port = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        wait_until(lambda: self.port, "the fake service")
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left))

    def _run(self):
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, self.host, 0))
        self.port = self.internal_port = server.sockets[0].getsockname()[1]
        self._loop.run_forever()

    async def _serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
                body = await reader.readexactly(size)
                self._served += 1
                method, target = head.split(b" ", 2)[:2]
                status, reply = self.answer(method.decode(), target.decode(), json.loads(body) if body else None)
                data = json.dumps(reply).encode()
                if self._is_due(self.cut_every):
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
                    break
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    def _is_due(self, interval):
        return interval and self._served % interval == 0

    def answer(self, method, target, body):
        query = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
        path = urlsplit(target).path
        if path in ("/api/track", "/api/views"):
            return self._count(path, body)
        reader_id = (body or {}).get("agent_id") or (body or {}).get("userId") or query.get("userId") or query.get("customerId")
        reader = self.readers.get(reader_id) or next(iter(self.readers.values()))
        if self._is_due(self.swap_every):
            reader = next(each for each in self.readers.values() if each is not reader)
        return 200, self._page(method, path, reader)

    def _page(self, method, path, reader):
        if path == "/api/history":
            return {"ok": True} if method == "POST" else {"items": reader.viewed[::-1]}
        if path.startswith("/api/waterfall/"):
            return {"items": [{"id": item, "score": score} for item, score in reader.first_page]}
        if path == "/api/recommendations":
            return {"items": [{"id": reader.items[13], "reason": {"kind": "author", "author": reader.author}}],
                    "excluded": {"interacted": len(reader.liked), "viewed": len(reader.viewed), "not_interested": len(reader.dismissed)}}
        if path == "/api/feed":
            return {"data": {"items": [{"id": reader.items[0], "title": f"about {reader.word} number 0"}]}}
        return []

    def _count(self, path, body):
        kind = "track" if path == "/api/track" else "view"
        article, event = body["articleId"], body["eventId"]
        if self._is_due(self.refuse_every):
            return 503, {}
        key = (kind, article)
        if (kind, article, event) not in self.events or self._is_due(self.double_every):
            if not self._is_due(self.lose_every):
                self.counted[key] = self.counted.get(key, 0) + 1
                self.events[kind, article, event] = True
        return 200, {"ok": True, "avg_dwell_ms": self.articles[article].dwell_ms}

    def redis(self, command, *arguments):
        """Answers the commands that EventLedger sends to Redis."""
        def pv(key, field):
            kind = "track" if field == "pv" else "view"
            return self.counted.get((kind, key.rpartition(":")[2].strip("{}")))

        def event(key):
            kind, rest = ("view", key.removeprefix("hot:view:event:")) if key.startswith("hot:view") else ("track", key.removeprefix("hot:event:"))
            return "reply" if (kind, *(part.strip("{}") for part in rest.split(":"))) in self.events else None
        return [event(key) for key in arguments] if command == "MGET" else pv(*arguments)


@pytest.fixture
def readers():
    out = [identities.Reader("t", number) for number in range(6)]
    for reader in out:
        reader.first_page = [(item, 100 - at) for at, item in enumerate(reader.items[:5])]
    return out


def run_load(service, readers, requests=1500, **options):
    load = loads.Load(service, readers, 7, connections=8, **options)
    with load:
        load.wait_for(requests)
    return load


PERSONAL = ("history", "timeline", "recommendations", "feed")


def test_correct_replies_are_accepted(readers):
    with FakeService(readers) as service:
        load = run_load(service, readers, only=(*PERSONAL, "history_view", "track", "view", "hot"))
    assert (load.mixups, load.failures) == ([], [])
    balance = load.ledger.balance(service.redis)
    assert balance.is_exact() and balance.in_doubt == 0 and balance.acknowledged == len(service.events) > 200 and balance.repeated > 0


@pytest.mark.parametrize("operation", PERSONAL)
def test_another_readers_reply_is_detected_by_its_body(readers, operation):
    with FakeService(readers) as service:
        service.swap_every = 97
        load = run_load(service, readers, only=(operation,))
    assert load.failed == 0  # every status was 200
    assert load.mixed_up >= load.requests // 97 - 1 > 5


def test_each_check_distinguishes_all_readers(readers):
    all_readers = [identities.Reader("t", number) for number in range(48)]
    for reader in all_readers:
        reader.first_page = [(item, 100) for item in reader.items[:5]]
    fake = FakeService(all_readers)
    pages = {"history": ("GET", "/api/history", identities.check_history), "timeline": ("GET", "/api/waterfall/discover", identities.check_timeline),
             "feed": ("POST", "/api/feed", identities.check_feed), "recommendations": ("GET", "/api/recommendations", identities.check_recommendations)}
    for method, path, check in pages.values():
        for one in all_readers:
            for other in all_readers:
                wrong = check(one, fake._page(method, path, other), False)
                assert (wrong is None) == (one is other), (path, one.id, other.id, wrong)
    for one in all_readers:
        for other in all_readers:
            assert (identities.check_track(one, {"avg_dwell_ms": other.dwell_ms}, False) is None) == (one is other)


def test_another_readers_names_are_detected_in_any_reply():
    one, other = (identities.Reader("f131x22", number) for number in (1, 11))
    for name in (other.id, other.author, other.tag, other.items[3], other.article, other.viewed_article, other.read_article):
        assert identities.foreign_names(one, f'{{"status":503,"detail":"{name}"}}'.encode()), name
    own_names = " ".join((one.id, one.author, one.tag, *one.items, one.article, one.viewed_article, one.read_article))
    assert identities.foreign_names(one, own_names.encode()) is None
    assert identities.foreign_names(one, b"<html>502 Bad Gateway</html>") is None


def test_a_list_longer_than_requested_is_a_mixup():
    reader = identities.Reader("t", 2)
    assert identities.check_list(reader, [{}] * reader.list_limit, False) is None
    assert identities.check_list(reader, [{}] * (reader.list_limit + 1), False)


def test_another_item_of_the_same_reader_is_detected(readers):
    load = loads.Load(FakeService(readers), readers[:1], 1)
    operation = next(each for each in loads.OPERATIONS if each.name == "item")
    reader = readers[0]
    for requested in (3, 4):
        reply = wire.Reply(200, None, json.dumps({"id": reader.items[3], "title": f"about {reader.word} number 3"}).encode())
        load._check(operation, reader, wire.request("GET", f"/api/items/{reader.items[requested]}"), reply, False)
    assert load.mixed_up == 1 and "another item" in load.mixups[0]


def test_a_degraded_reply_may_be_incomplete_but_not_contain_foreign_data(readers):
    one, other = readers[:2]
    assert identities.check_history(one, {"items": []}, True) is None
    assert identities.check_history(one, {"items": []}, False)
    assert identities.check_history(one, {"items": other.viewed}, True)
    assert identities.check_timeline(one, {"items": []}, True) is None
    assert identities.check_timeline(one, {"items": [{"id": other.items[0], "score": 1}]}, True)


@pytest.mark.parametrize("fault", ["lose_every", "double_every"])
def test_lost_and_duplicated_events_are_counted_separately(readers, monkeypatch, fault):
    monkeypatch.setattr(loads, "REPEAT_SHARE", 0.3)
    with FakeService(readers) as service:
        setattr(service, fault, 11)
        load = run_load(service, readers, only=("track", "view"))
    balance = load.ledger.balance(service.redis)
    assert not balance.is_exact() and len(balance.lost_times) == balance.lost
    assert (balance.lost > 5, balance.duplicated > 5) == (fault == "lose_every", fault == "double_every"), balance


def test_a_single_lost_event_among_thousands_is_detected(readers):
    with FakeService(readers) as service:
        load = run_load(service, readers, only=("track",))
        article, key = readers[0].article, ("track", readers[0].article)
        event = next(event for _, event_article, event in service.events if event_article == article)
        service.counted[key] -= 1
        del service.events["track", article, event]
    balance = load.ledger.balance(service.redis)
    assert (balance.lost, balance.duplicated) == (1, 0)
    service.counted[key] += 2
    service.events["track", article, event] = True
    balance = load.ledger.balance(service.redis)
    assert (balance.lost, balance.duplicated) == (0, 1)


def test_refused_events_are_repeated_until_acknowledged(readers):
    with FakeService(readers) as service:
        service.refuse_every = 3
        load = run_load(service, readers, only=("track", "view"), think_s=0.0001)
    assert load.failed == 0 and load.statuses()[503] > 100
    balance = load.ledger.balance(service.redis)
    assert balance.is_exact() and balance.in_doubt == 0


def test_an_incomplete_reply_fails_a_read_and_repeats_an_event(readers):
    with FakeService(readers) as service:
        service.cut_every = 20
        load = run_load(service, readers, only=("history", "track"))
    assert load.failed > 5 and load.mixed_up == 0
    assert load.ledger.balance(service.redis).is_exact()


def test_an_event_with_an_unknown_outcome_is_neither_lost_nor_duplicated():
    ledger = EventLedger()
    first, second = (ledger.new_event("track", "a") for _ in range(2))
    ledger.acknowledge("track", "a", first)

    def redis(counted, *known):
        return lambda command, *arguments: ["reply" if key.rpartition(":")[2] in known else None for key in arguments] if command == "MGET" else counted
    for reply in (redis("1", first), redis("2", first, second)):
        balance = ledger.balance(reply)
        assert balance.is_exact() and balance.in_doubt == 1
    assert ledger.balance(redis("2", first)).duplicated == 1
    assert ledger.balance(redis("1", second)).lost == 1


def test_a_broken_guarantee_is_a_violation_and_a_missed_target_is_not():
    def verdict(function):
        return scenario.run_fault(scenario.Fault("F0", "", "", function), "1", True).verdict()
    assert verdict(lambda run: run.expect_none("mix-ups", 0)) == "met"
    assert verdict(lambda run: run.expect_none("mix-ups", 1)) == "VIOLATED"
    assert verdict(lambda run: run.expect_at_most("p99", 9.0, 10)) == "met"
    assert verdict(lambda run: run.expect_at_most("p99", 11.0, 10)) == "missed"
    assert verdict(lambda run: (run.expect_at_most("p99", 11.0, 10), run.expect_none("lost", 1))) == "VIOLATED"
    assert verdict(lambda run: 1 / 0) == "VIOLATED"


def test_random_choices_depend_only_on_the_seed_and_the_faults_name():
    def draw(seed, name):
        return [scenario.Run(seed, True, name).rng.random() for _ in range(3)]
    assert draw("1", "F1") == draw("1", "F1") != draw("2", "F1")
    assert draw("1", "F1") != draw("1", "F2")


def test_the_table_is_aligned_and_contains_every_figure():
    def function(run):
        for number in range(30):
            run.report(f"figure-number-{number}")
    text = table.render([scenario.run_fault(scenario.Fault("F0", "something", "nothing", function), "1", True)], width=100)
    assert all(f"figure-number-{number}" in text for number in range(30))
    assert all(len(line) <= 100 for line in text.splitlines())


def parse_reply(*parts):
    """The reply that the client returns if the server sends these parts."""
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    async def send_request():
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            client = wire.Connection(*server.sockets[0].getsockname(), timeout_s=0.5)
            try:
                return await client.exchange(wire.request("GET", "/"))
            finally:
                client.close()
    return asyncio.run(send_request())


def test_chunked_bodies_and_bodies_with_a_length_are_read_completely():
    head, body = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n", b"5\r\nabcde\r\n1\r\nf\r\n0\r\n\r\n"
    reply = parse_reply(head, *(body[at:at + 1] for at in range(len(body))))
    assert (reply.status, reply.headers[b"x"], reply.body) == (200, b"y", b"abcdef")
    assert parse_reply(b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nab", b"c").body == b"abc"


def test_anything_but_exactly_one_reply_is_an_error():
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
    for parts in ([reply + b"d"], [reply + reply], [reply[:-1]], [b"HTTP/1.1 200 OK\r\n\r\nabc"], [b"5\r\nabcde"]):
        with pytest.raises(wire.NoReply):
            parse_reply(*parts)


# --- network namespaces


def machines_or_skip(folder):
    if reason := lan.missing_requirement():
        pytest.skip(reason)
    return lan.Lan({"one": ("wire",), "two": ("wire",)}, str(folder))


def is_reachable(network, source, target):
    """True if one machine can connect to a listener on the other within a second."""
    address = network.machines[target].addresses["wire"]
    with network.on_machine(target), socket.create_server((address, 7777)):
        with network.on_machine(source), contextlib.suppress(OSError), socket.create_connection((address, 7777), timeout=1):
            return True
    return False


def test_a_machine_is_unreachable_while_disconnected(tmp_path):
    with contextlib.closing(machines_or_skip(tmp_path)) as network:
        wait_until(lambda: is_reachable(network, "one", "two"), "the machines to reach each other")
        network.cut("two", "wire")
        assert not is_reachable(network, "one", "two")
        network.heal("two", "wire")
        wait_until(lambda: is_reachable(network, "one", "two"), "the machine to be reachable again")
        identities = {subprocess.run([*each.command_prefix(), "sh", "-c", "cat /etc/machine-id /proc/sys/kernel/random/boot_id 2>/dev/null; hostname"],
                                     capture_output=True, text=True, check=False).stdout for each in network.machines.values()}
        assert len(identities) == 2


ORPHAN_SCRIPT = """import sys, subprocess, lan
network = lan.Lan({"one": ("wire",)}, sys.argv[1])
left = subprocess.Popen([*network.machines["one"].command_prefix(), "sleep", "1000"], stdout=subprocess.DEVNULL)
print(network.machines["one"].space, left.pid, flush=True)
sys.stdin.read()
"""


def comm_of(pid):
    with open(f"/proc/{pid}/comm", encoding="ascii") as file:
        return file.read().strip()


def test_processes_and_namespaces_of_a_killed_test_are_removed(tmp_path):
    machines_or_skip(tmp_path).close()
    with subprocess.Popen([sys.executable, "-c", ORPHAN_SCRIPT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=os.environ | {"PYTHONPATH": os.path.dirname(lan.__file__)}) as killed:
        space, pid = killed.stdout.readline().split()
        born = birth(int(pid))
        wait_until(lambda: comm_of(pid) == "sleep", "the process to run in its namespace")
        assert born and os.path.exists(os.path.join(lan.FOLDER, space))
        killed.kill()
    lan.remove_orphans()
    wait_until(lambda: birth(int(pid)) != born, "the orphaned process to end")
    assert not os.path.exists(os.path.join(lan.FOLDER, space))
