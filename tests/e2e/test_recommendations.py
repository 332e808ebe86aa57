"""Recommendations through the whole service: exclusions, reasons, hidden items, the life cycle of the model, and faults."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from client import AGENT, Client, Load, assert_problem
from recorded import RecorderData
from service import CTL, LONG_TIMEOUTS, birth, children, comm, wait_until

DAY = 86400


class Reader:
    """The actions of one reader, sent by the site's back end."""

    def __init__(self, service, user):
        self.client, self.user = service.internal(), user

    def fetch(self, limit=10, **query):
        reply = self.client.get("/api/recommendations", query={"userId": self.user, "limit": limit} | query)
        assert reply.status == 200, reply
        assert reply.headers["Cache-Control"] == "private, no-store"
        return reply.json()

    def ids(self, limit=10, **query):
        return [item["id"] for item in self.fetch(limit, **query)["items"]]

    def view(self, item, **members):
        reply = self.client.post("/api/history", {"userId": self.user, "topicId": item} | members)
        assert reply.status == 200, reply

    def interact(self, kind, item, **members):
        reply = self.client.post("/api/interactions", {"userId": self.user, "topicId": item, "kind": kind} | members)
        assert reply.status == 200 and reply.json() == {"accepted": 1, "rejected": []}, reply

    def dismiss(self, item):
        reply = self.client.post("/api/feedback", {"userId": self.user, "topicId": item, "kind": "not_interested"})
        assert reply.status == 200, reply

    def undo_dismissal(self, item):
        reply = self.client.delete("/api/feedback", query={"userId": self.user, "topicId": item})
        assert reply.status == 200, reply


def put_items(service, items):
    """Puts items, {id: members}, through the bulk route; by default published an hour ago."""
    hour_ago = int(time.time()) - 3600
    lines = [json.dumps({"id": item, "title": f"about {item}", "published_at": hour_ago} | members) for item, members in items.items()]
    reply = service.internal().post("/api/items", "\n".join(lines), headers={"Content-Type": "application/x-ndjson"})
    assert reply.status == 200 and reply.json() == {"accepted": len(items), "rejected": []}, reply


def add_views(service, item, views, name):
    client = service.public()
    for _ in range(views):
        reply = client.view(item, name("f"))
        assert reply.status == 200, reply


def wait_until_recommended(service, name, items):
    """Waits until every worker offers the items to a new reader."""
    new_reader = Reader(service, name("new"))
    wanted, consecutive = set(items), 0
    deadline = time.monotonic() + 20
    while consecutive < 20:
        # not items that only fill up the page
        offered = {item["id"] for item in new_reader.fetch(100)["items"] if item["score"] > 0}
        consecutive = consecutive + 1 if wanted <= offered else 0
        assert time.monotonic() < deadline, f"not all items are offered: {new_reader.ids(100)}"


def wait_until_stable(condition, description):
    """Waits until the condition has held ten times in a row: each worker refreshes its copy of the trend at its own time."""
    wait_until(lambda: all(condition() for _ in range(10)), description)


def train(service):
    done = subprocess.run([CTL, "train", "--state", service.state], capture_output=True,
                          text=True, check=False, timeout=480)
    return done


def model_path(service):
    return os.path.join(service.state, "record/freshet.model")


def wait_for_model(service, name, other_than="none"):
    """Waits until every worker uses a model other than this one. Returns its name."""
    reader, models = Reader(service, name("m")), []

    def settled():
        models.append(reader.fetch(1)["model"])
        return len(models) > 20 and len(set(models[-20:])) == 1 and models[-1] != other_than

    wait_until(settled, "all workers to use the model")
    return models[-1]


def has_interactions(service, count):
    connection = RecorderData(service).connect()
    try:
        return connection.execute("SELECT count(*) FROM interactions").fetchone()[0] >= count
    finally:
        connection.close()


@pytest.fixture
def site(instance):
    return instance("--no-limits", **LONG_TIMEOUTS)


@pytest.fixture
def single_worker_site(instance):
    """An instance with one worker, whose copy of the trend is the only one."""
    return instance("--no-limits", **LONG_TIMEOUTS, pm__max_children="1")


@pytest.fixture
def trained_site(single_worker_site, name):
    """A site whose readers like either gardening or chess, with a trained model: (service, gardening items, chess items)."""
    garden, chess = [name("garden") for _ in range(8)], [name("chess") for _ in range(8)]
    put_items(single_worker_site, {i: {"title": f"Roses and soil {i}", "tags": ["garden"], "author": name("a")} for i in garden})
    put_items(single_worker_site, {i: {"title": f"Openings and endgames {i}", "tags": ["chess"], "author": name("a")} for i in chess})
    lines = []
    for crowd, topics in (("g", garden), ("c", chess)):
        for reader in range(20):
            lines += [{"userId": f"{crowd}{reader}", "topicId": each, "kind": "like", "at": int(time.time()) - 60}
                      for number, each in enumerate(topics) if (number + reader) % 3]
    body = "\n".join(json.dumps(line) for line in lines)
    reply = single_worker_site.internal().post("/api/interactions", body, headers={"Content-Type": "application/x-ndjson"})
    assert reply.status == 200 and reply.json()["accepted"] == len(lines), reply
    wait_until(lambda: has_interactions(single_worker_site, len(lines)), "the interactions to be recorded")
    done = train(single_worker_site)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for_model(single_worker_site, name)
    return single_worker_site, garden, chess


# --- exclusion and order


def test_a_new_reader_gets_trending_items(single_worker_site, name):
    items = [name("i") for _ in range(5)]
    put_items(single_worker_site, {each: {} for each in items})
    wait_until_recommended(single_worker_site, name, items)
    add_views(single_worker_site, items[3], 9, name)
    add_views(single_worker_site, items[1], 4, name)
    reader = Reader(single_worker_site, name("u"))
    wait_until_stable(lambda: reader.ids(2) == [items[3], items[1]], "the trend")
    page = reader.fetch(5)
    assert page["items"][0]["reason"] == {"kind": "rising", "text": "rising now"}
    assert page["items"][4]["reason"]["kind"] == "new"
    assert page["excluded"] == {"interacted": 0, "viewed": 0, "not_interested": 0}
    scores = [item["score"] for item in page["items"]]
    assert scores == sorted(scores, reverse=True) and scores[4] > 0
    anonymous = single_worker_site.public().get("/api/recommendations?limit=2")
    assert [item["id"] for item in anonymous.json()["items"]] == [items[3], items[1]], anonymous


def test_the_next_request_excludes_viewed_interacted_and_dismissed_items(site, name):
    items = [name("i") for _ in range(30)]
    put_items(site, {each: {} for each in items})
    wait_until_recommended(site, name, items)
    reader, excluded = Reader(site, name("u")), set()
    for turn in range(24):
        item = reader.ids(10)[turn % 3]
        [lambda: reader.view(item), lambda: reader.interact("like", item), lambda: reader.dismiss(item)][turn % 3]()
        excluded.add(item)
        for _ in range(3):  # whichever worker answers
            page = reader.fetch(10)
            got = [each["id"] for each in page["items"]]
            assert not excluded & set(got), turn
            assert len(got) == min(10, 30 - len(excluded)), "the page is short although items remain"
    assert page["excluded"] == {"interacted": 8, "viewed": 8, "not_interested": 8}
    assert set(reader.ids(100)) == set(items) - excluded


def test_a_page_is_full_as_long_as_visible_items_remain(instance, name):
    site = instance("--no-limits", **LONG_TIMEOUTS, recommend__trend="50", recommend__newest="50", interactions__max_kept="50")
    items = [name("i") for _ in range(443)]
    hour_ago = int(time.time()) - 3600
    put_items(site, {each: {"published_at": hour_ago - number} for number, each in enumerate(items)})
    reader = Reader(site, name("u"))
    wait_until(lambda: len(reader.ids(100)) == 100, "the items to be indexed")
    for item in items[:200]:
        reader.dismiss(item)
    page = reader.ids(100)
    assert len(set(page)) == 100 and not set(page) & set(items[:200])
    for item in items[200:400]:
        reader.interact("reply", item)
    assert set(reader.ids(100)) == set(items[400:])
    explained = subprocess.run([CTL, "explain", reader.user, "--state", site.state], capture_output=True, text=True, check=False, timeout=240)
    assert explained.returncode == 0 and f"{items[400]:<24} from the index, served as" in explained.stdout, explained


def test_dismissals_can_be_undone_and_views_cleared(site, name):
    items = [name("i") for _ in range(3)]
    put_items(site, {each: {} for each in items})
    wait_until_recommended(site, name, items)
    reader = Reader(site, name("u"))
    reader.dismiss(items[0])
    reader.view(items[1])
    assert set(reader.ids()) == {items[2]}
    reader.undo_dismissal(items[0])
    assert set(reader.ids()) == {items[0], items[2]}
    assert reader.client.delete("/api/history", query={"userId": reader.user}).status == 200
    assert set(reader.ids()) == set(items)


def test_soft_exclusion_ranks_viewed_items_last_and_off_excludes_nothing(single_worker_site, name):
    items = [name("i") for _ in range(4)]
    put_items(single_worker_site, {each: {} for each in items})
    wait_until_recommended(single_worker_site, name, items)
    hot = items[3]  # last, as long as no item has views
    add_views(single_worker_site, hot, 9, name)
    reader = Reader(single_worker_site, name("u"))
    wait_until_stable(lambda: reader.ids(1) == [hot], "the trend")
    reader.view(hot)
    soft = reader.fetch(exclude="soft")
    assert soft["items"][-1]["id"] == hot and soft["excluded"]["viewed"] == 0
    # Pretends that the view was a day ago: half of the score has recovered, which is still the highest.
    day_ago = int(time.time()) - DAY
    single_worker_site.redis("HSET", f"user:views:at:{{{reader.user}}}", f"t:{hot}", day_ago)
    again = reader.fetch(exclude="soft")
    assert again["items"][0]["id"] == hot
    off = reader.fetch(exclude="off")
    assert off["items"][0]["id"] == hot
    assert again["items"][0]["score"] == pytest.approx(off["items"][0]["score"] / 2, rel=0.05)


def test_one_author_or_tag_does_not_fill_the_page_if_there_are_others(instance, name):
    site = instance("--no-limits", **LONG_TIMEOUTS, recommend__per_author="2", recommend__per_tag="3", pm__max_children="1")
    loud = {name("loud"): {"author": "loud", "tags": ["one"]} for _ in range(6)}
    tagged = {name("tagged"): {"author": name("a"), "tags": ["one"]} for _ in range(4)}
    quiet = {name("quiet"): {"author": name("a"), "tags": [name("t")]} for _ in range(4)}
    put_items(site, loud | tagged | quiet)
    wait_until_recommended(site, name, [*loud, *tagged, *quiet])
    for item in loud:
        add_views(site, item, 5, name)
    reader = Reader(site, name("u"))
    wait_until_stable(lambda: set(reader.ids(2)) <= set(loud), "the trend")
    top = reader.ids(7)
    assert len(set(top) & set(loud)) == 2
    assert len(set(top) & (set(loud) | set(tagged))) == 3
    assert set(quiet) <= set(top)
    assert len(reader.ids(14)) == 14, "caps must not leave the page short"


# --- items that come and go


def test_a_new_item_is_recommended_within_a_second(site, name):
    put_items(site, {name("old"): {} for _ in range(5)})
    reader, slowest = Reader(site, name("u")), 0.0
    for _ in range(10):
        item = name("new")
        site.put(item)
        began = time.monotonic()
        wait_until(lambda: item in reader.ids(100), "the new item", 5)
        slowest = max(slowest, time.monotonic() - began)
    print(f"slowest of ten: {slowest:.3f} s")


def test_hidden_and_deleted_items_disappear_at_once(site, name):
    items = [name("i") for _ in range(12)]
    put_items(site, {each: {} for each in items})
    wait_until_recommended(site, name, items)
    reader = Reader(site, name("u"))
    for turn, item in enumerate(items[:8]):
        assert item in reader.ids(100)
        if turn % 2:
            site.put(item, hidden=True)
        else:
            assert reader.client.delete(f"/api/items/{item}").status == 200
        for _ in range(6):
            got = reader.ids(100)
            assert item not in got
    assert set(got) == set(items[8:])


# --- the model


def test_a_model_recommends_similar_items_and_gives_a_reason(trained_site, name):
    site, garden, chess = trained_site
    reader = Reader(site, name("u"))
    reader.interact("favorite", garden[0])
    page = reader.fetch(7)
    assert {item["id"] for item in page["items"]} == set(garden[1:])
    for item in page["items"]:
        assert item["reason"]["kind"] == "like" and item["reason"]["id"] == garden[0], item
        assert item["reason"]["text"] == f"like “Roses and soil {garden[0]}”, which you favourited"
    # The reader's next interaction counts for the next request.
    other = Reader(site, name("u"))
    other.view(chess[2])
    assert set(other.ids(7)) == set(chess) - {chess[2]}
    assert other.fetch(1)["items"][0]["reason"]["text"] == f"like “Openings and endgames {chess[2]}”, which you read"


def test_an_item_newer_than_the_model_is_found_by_its_content(trained_site, name):
    site, garden, _ = trained_site
    fresh, unrelated = name("fresh"), name("unrelated")
    put_items(site, {fresh: {"title": "Roses and soil in spring", "tags": ["garden"]}, unrelated: {"title": "A concert", "tags": ["music"]}})
    reader = Reader(site, name("u"))
    reader.interact("post", garden[0])
    wait_until_recommended(site, name, [fresh, unrelated])
    page = {item["id"]: item for item in reader.fetch(100)["items"]}
    assert page[fresh]["score"] > page[unrelated]["score"]
    assert page[fresh]["reason"]["kind"] == "like"

    def similar_ids():
        reply = site.public().get(f"/api/items/{fresh}/similar?limit=5")
        assert reply.status == 200 and reply.json()["model"] == "search", reply
        return [item["id"] for item in reply.json()["items"] if item["reason"]["kind"] == "similar"]

    wait_until(similar_ids, "the item to be indexed")
    assert set(similar_ids()) <= set(garden) | {unrelated} and similar_ids()[0] in garden


def test_similar_items_belong_to_the_same_topic_and_are_never_hidden(trained_site):
    site, garden, chess = trained_site
    reply = site.public().get(f"/api/items/{garden[0]}/similar?limit=7")
    assert reply.status == 200, reply
    assert {item["id"] for item in reply.json()["items"]} == set(garden[1:])
    scores = [item["score"] for item in reply.json()["items"]]
    assert scores == sorted(scores, reverse=True)
    site.put(garden[1], hidden=True)
    again = site.public().get(f"/api/items/{garden[0]}/similar?limit=7").json()["items"]
    assert garden[1] not in [item["id"] for item in again]
    assert_problem(site.public().get(f"/api/items/{garden[1]}/similar"), 404, "unknown_item")
    assert_problem(site.public().get("/api/items/nowhere/similar"), 404, "unknown_item")


def test_a_new_model_is_used_without_a_restart_and_an_invalid_one_never(trained_site, name):
    site, garden, _ = trained_site
    path = model_path(site)
    first = Reader(site, name("u")).fetch(1)["model"]
    workers = site.workers()
    with open(path, "rb") as file:
        good = file.read()

    def replace(content):
        with open(path + ".test", "wb") as file:
            file.write(content)
        shutil.copystat(path, path + ".test")
        os.replace(path + ".test", path)

    for broken in (b"", good[: len(good) // 2], good[:100] + bytes([good[100] ^ 1]) + good[101:], b"no model at all" * 100):
        before = site.log().count("model_rejected")
        replace(broken)
        wait_until(lambda: site.log().count("model_rejected") > before, "the file to be rejected")
        reader = Reader(site, name("u"))
        reader.interact("like", garden[0])
        page = reader.fetch(7)
        assert page["model"] == first and {item["id"] for item in page["items"]} == set(garden[1:])
    # Models are distinguished by the second in which they were trained.
    wait_until(lambda: time.time() >= int(first.partition("@")[2]) + 1, "the next second")
    assert train(site).returncode == 0
    assert wait_for_model(site, name, first) != first
    assert site.workers() == workers


def model_process(service):
    return next((pid for pid in children(service.pid("freshetd")) if comm(pid) == "freshetd-model" and birth(pid)), None)


def test_a_model_file_overwritten_in_place_crashes_no_worker_and_the_previous_model_stays_in_use(trained_site, name):
    site, garden, _ = trained_site
    path = model_path(site)
    first = Reader(site, name("u")).fetch(1)["model"]
    workers, users = site.workers(), [name("u") for _ in range(8)]
    for user in users:
        Reader(site, user).interact("like", garden[0])
    with open(path, "rb") as file:
        good = file.read()

    def overwrite(content):  # as cp does
        with open(path, "r+b") as file:
            file.truncate(0)
            file.write(content)

    def recommend(client, turn):
        reply = client.get("/api/recommendations", query={"userId": users[turn % len(users)], "limit": 7})
        assert reply.status == 200 and reply.json()["model"] == first, reply
        assert {item["id"] for item in reply.json()["items"]} == set(garden[1:]), reply

    def wait_for_replies(load):
        count_before = len(load.results)
        wait_until(lambda: len(load.results) > count_before + 50 or load.errors, "replies")
        assert not load.errors, load.errors[:3]

    middle = len(good) // 2
    with Load(lambda: Client(site.host, site.internal_port, AGENT), recommend, threads=3) as load:
        for broken in (os.urandom(len(good)), b"\xff" * len(good), good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1:], good[:middle], b""):
            before = site.log().count('kept=previous')
            overwrite(broken)
            wait_until(lambda before=before: site.log().count('kept=previous') > before, "the file to be rejected")
            wait_for_replies(load)
        assert site.workers() == workers and site.status()["respawns"] == 0
    # New processes get the model as well: a replaced worker, those of a new generation, and the next model process.
    before = model_process(site)
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: model_process(site) not in (None, before), "a new model process")
    site.reload_and_drain()
    assert len(site.workers()) == len(workers)
    copied = site.log().count("event=model_copied")
    with Load(lambda: Client(site.host, site.internal_port, AGENT), recommend, threads=3) as load:
        wait_for_replies(load)
        overwrite(good)
        wait_until(lambda: site.log().count("event=model_copied") > copied, "the file to be copied")
        wait_for_replies(load)


def test_explain_prints_every_candidate_and_its_outcome(trained_site, name):
    site, garden, chess = trained_site
    reader = Reader(site, name("u"))
    reader.interact("favorite", garden[0])
    reader.view(garden[1])
    reader.dismiss(chess[0])
    served = reader.ids(5)
    titles = {i: f"Roses and soil {i}" for i in garden} | {i: f"Openings and endgames {i}" for i in chess}
    done = subprocess.run([CTL, "explain", reader.user, "--limit", "5", "--all", "--state", site.state],
                          capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "excluded: interacted with" in lines[garden[0]]
    assert "excluded: viewed recently" in lines[garden[1]]
    assert "excluded: not interested" in lines[chess[0]]
    for position, item in enumerate(served, 1):
        assert f"served as {position}: like" in lines[item]
    assert "below the page" in lines[chess[1]]
    assert all(line.endswith(f" {titles[item]}") for item, line in lines.items() if item in titles)

    done = subprocess.run([CTL, "explain", reader.user, "--limit", "5", "--all", "--json", "--state", site.state],
                          capture_output=True, text=True, check=False, timeout=240)
    report = json.loads(done.stdout)
    assert (report["reader"], report["candidates"], report["dismissed"]) == (reader.user, len(report["items"]), 1)
    fates = {item["id"]: item["fate"] for item in report["items"]}
    assert [fates[item] for item in (garden[0], garden[1], chess[0], chess[1])] == ["interacted", "viewed", "not_interested", "below"]
    assert {item["place"]: item["id"] for item in report["items"] if item["fate"] == "served"} == dict(enumerate(served, 1))
    assert all(item["title"] == titles[item["id"]] for item in report["items"])


# --- faults and bad input


def test_without_redis_the_trend_is_served_unfiltered_and_degraded(single_worker_site, name):
    items = [name("i") for _ in range(5)]
    put_items(single_worker_site, {each: {} for each in items})
    wait_until_recommended(single_worker_site, name, items)
    reader = Reader(single_worker_site, name("u"))
    reader.view(items[0])
    assert items[0] not in reader.ids(5)
    single_worker_site.kill_redis()
    wait_until(lambda: reader.fetch(5).get("degraded"), "a degraded reply")
    for _ in range(20):
        reply = reader.client.get("/api/recommendations", query={"userId": reader.user, "limit": 5})
        assert reply.status == 200, reply
        page = reply.json()
        assert page["degraded"] and set(item["id"] for item in page["items"]) == set(items)
        assert page["items"][0]["title"].startswith("about ")
        assert reply.headers["Freshet-Degraded"] == "true"
    single_worker_site.restart_redis()
    wait_until(lambda: "degraded" not in reader.fetch(5), "the service to recover")
    wait_until(lambda: items[0] not in reader.ids(5), "the exclusion to apply again")


def test_without_redis_similar_items_come_from_the_cached_copy_and_are_degraded(trained_site, name):
    site, garden, _ = trained_site
    wait_until_recommended(site, name, garden)

    def fetch_similar():
        reply = site.public().get(f"/api/items/{garden[0]}/similar?limit=7")
        assert reply.status == 200 and {item["id"] for item in reply.json()["items"]} == set(garden[1:]), reply
        assert reply.headers["Freshet-Degraded"] == ("true" if "degraded" in reply.json() else None)
        return reply.json()

    assert "degraded" not in fetch_similar()
    site.kill_redis()
    wait_until(lambda: fetch_similar().get("degraded"), "a degraded reply")
    assert all(item["title"].startswith("Roses") for item in fetch_similar()["items"])
    site.restart_redis()
    wait_until(lambda: "degraded" not in fetch_similar(), "the service to recover")


def test_a_hanging_redis_delays_a_reply_no_longer_than_its_deadline(instance, name):
    site = instance("--no-limits")
    items = [name("i") for _ in range(5)]
    put_items(site, {each: {} for each in items})
    wait_until_recommended(site, name, items)
    reader = Reader(site, name("u"))
    os.kill(site.pid("redis"), signal.SIGSTOP)
    try:
        slowest = 0.0
        for _ in range(10):
            reply = reader.client.get("/api/recommendations", query={"userId": reader.user})
            assert reply.status == 200 and reply.json()["degraded"], reply
            slowest = max(slowest, reply.seconds)
        assert slowest < 2, slowest  # the deadline is 50 ms, but the host is shared
    finally:
        os.kill(site.pid("redis"), signal.SIGCONT)


def test_bad_requests_are_refused_with_the_reason(service):
    client = service.internal()
    for query, code, member in (("limit=0", "bad_number", "limit"), ("limit=101", "bad_number", "limit"), ("limit=ten", "bad_number", "limit"),
                                ("exclude=never", "bad_exclude", "exclude"), ("userId=a%09b", "bad_id", "userId"),
                                ("userId=" + "x" * 513, "bad_id", "userId"), ("userId=%ff", "bad_id", "userId")):
        assert_problem(client.get(f"/api/recommendations?{query}"), 400, code, member)
    assert_problem(client.get("/api/items/a%09b/similar"), 400, "bad_id")
    assert_problem(client.get("/api/items/x/similar?limit=-1"), 400, "bad_number", "limit")
    assert_problem(client.post("/api/recommendations", {}), 405)
    assert client.get("/api/recommendations?userId=nobody-ever&exclude=off&limit=100").status == 200


def test_naughty_strings_are_harmless_as_ids(site, shared, name):
    with open(os.path.join(shared, "corpora/BLNS/blns.json"), encoding="utf-8") as file:
        strings = json.load(file)
    item = name("i")
    put_items(site, {item: {}})
    client, used = site.internal(), 0
    for text in strings:
        reply = client.post("/api/history", {"userId": text, "topicId": item})
        if reply.status != 200:
            assert_problem(reply, 400, "bad_id")
            continue
        used += 1
        got = client.get("/api/recommendations", query={"userId": text.encode()})
        assert got.status == 200 and item not in [each["id"] for each in got.json()["items"]], (text, got)
    assert used > 50
    site.check()


def test_concurrent_readers_never_see_excluded_items(site, name):
    """Under load and on all workers, a reader's own views are never on their next page."""

    items = [name("i") for _ in range(60)]
    put_items(site, {each: {} for each in items})
    wait_until_recommended(site, name, items)
    viewed = {}

    def request_page(client, number):
        user = f"crowd-{number % 4}"
        views = viewed.setdefault(user, [])
        page = client.get("/api/recommendations", query={"userId": user, "limit": 10}).json()
        got = [item["id"] for item in page["items"]]
        assert "degraded" in page or not set(got) & set(views[-10:]), (user, number)
        if got and "degraded" not in page:
            item = got[number % len(got)]
            assert client.post("/api/history", {"userId": user, "topicId": item}).status == 200
            if item in views:
                views.remove(item)
            views.append(item)

    with Load(lambda: site.internal(agent=AGENT), request_page, threads=4) as load:
        wait_until(lambda: len(load.results) > 500 or load.errors, "requests", 60)
    assert not load.errors, load.errors[:3]
