"""`freshetctl tune` on a running service: its choice is served without a command, unless the administrator has decided."""

import os
import subprocess
import time

import pytest
from recorded import RecorderData
from service import CTL, wait_until

HOUR_S, DAY_S, BUCKET_S = 3600, 86400, 300
ARTICLES = 60


def freshetctl(service, *arguments):
    return subprocess.run([CTL, *arguments, "--state", service.state], capture_output=True, text=True, timeout=300, check=False)


def served(service):
    return service.public().get("/api/hot").headers["Freshet-Model"]


def add_news(service):
    """Four days of views as of a news site: each article is read for three hours, and a new one begins every hour."""
    now = int(time.time()) // BUCKET_S * BUCKET_S
    rows = {}
    for start in range(now - 4 * DAY_S, now, BUCKET_S):
        hour = start // HOUR_S
        for age in range(3):
            rows[start, f"a{(hour - age) % ARTICLES}"] = 40 - 10 * age
    connection = RecorderData(service).connect()
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT OR REPLACE INTO view_counts VALUES (?, ?, ?, ?)", [(at, BUCKET_S, item, views) for (at, item), views in rows.items()])
        connection.execute("COMMIT")
    connection.close()
    return rows


def test_a_list_of_the_past_is_computed_from_the_counts(own_service, name):
    rows = add_news(own_service)
    at = int(time.time()) // DAY_S * DAY_S - DAY_S
    scores = {}
    for item in {item for _, item in rows}:
        views = [(start + BUCKET_S // 2, count) for (start, of), count in rows.items() if of == item and start + BUCKET_S // 2 < at]
        if views:
            birth = min(time for time, _ in views)
            scores[item] = sum(count * 2 ** ((time - at) / HOUR_S) for time, count in [*views, (birth, 1)])
    best = sorted(scores, key=scores.get, reverse=True)
    query = f"/api/hot?model=trending&limit=10&at={at}"

    def items(path):
        reply = own_service.internal().get(path)
        assert reply.status == 200, reply.text
        assert reply.headers["Freshet-Model"] == "trending; half_life=1h"
        return [(each["id"], each["score"]) for each in reply.json()]

    assert items(query) == [(item, pytest.approx(scores[item], rel=1e-6)) for item in best[:10]]
    tag = name("t")
    own_service.put(best[3], tags=[tag], published_at=at - 5 * DAY_S)
    own_service.put(best[0], tags=[tag], published_at=at - 5 * DAY_S, hidden=True)
    wait_until(lambda: best[0] not in dict(items(query)), "the hidden item to be left out")
    assert [item for item, _ in items(f"{query}&tag={tag}")] == [best[3]]
    assert own_service.public().get(query).status == 400
    assert own_service.internal().get(f"/api/hot?model=views&at={at - 14 * DAY_S}").status == 400


def test_the_tuner_keeps_the_defaults_without_traffic(own_service):
    done = freshetctl(own_service, "tune")
    assert done.returncode == 0, done.stderr
    assert "Too little traffic yet, so nothing changes" in done.stdout, done.stdout
    assert served(own_service) == "views; mode=accumulate"


def test_what_the_tuner_chose_is_served_until_the_administrator_decides(own_service):
    add_news(own_service)
    dry = freshetctl(own_service, "tune", "--dry-run")
    assert dry.returncode == 0 and "chosen" in dry.stdout, dry.stdout + dry.stderr
    tuned = os.path.join(own_service.state, "record/tuned.toml")
    assert not os.path.exists(tuned)
    done = freshetctl(own_service, "tune")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: served(own_service).startswith("trending; half_life="), "the tuned model")
    status = own_service.status()
    assert status["hot list"] == served(own_service) and time.time() - status["hot list tuned at"] < 600
    again = freshetctl(own_service, "tune")
    assert again.returncode == 0 and "kept" in again.stdout, again.stdout + again.stderr

    own_service.configure(hot__default_model='"views"')
    own_service.reload_and_drain()
    wait_until(lambda: served(own_service) == "views; mode=accumulate", "the administrator's model")
    assert own_service.status()["hot list"] == "views; mode=accumulate"
    refused = freshetctl(own_service, "tune", "--dry-run")
    assert "hot.default_model stays as it is set by" in refused.stdout, refused.stdout + refused.stderr
    own_service.configure(hot__default_model='"auto"')
    own_service.reload_and_drain()
    wait_until(lambda: served(own_service).startswith("trending"), "the tuned model again")


def add_readers(service):
    """Ten days on each of which 40 readers read two of the ten articles that were viewed before midnight, among 300 of three days."""
    today = int(time.time()) // DAY_S * DAY_S
    items, views, reads = [], [], []
    for day in range(-13, 0):
        midnight = today + day * DAY_S
        items += [(f"d{day}-{i}", midnight + 60 * i) for i in range(100)]
        for i in range(10 if day >= -10 else 0):
            hot = f"d{day - 1 - i % 2}-{7 * i}"
            views.append((midnight - HOUR_S, HOUR_S, hot, 50 - i))
            reads += [(reader, midnight + 60 * reader, hot) for reader in range(1, 41) if i in (reader % 10, (reader + 3) % 10)]
    connection = RecorderData(service).connect()
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO items (id, published_at, hidden, title, author, url, text) VALUES (?, ?, 0, '', '', '', '')", items)
        connection.executemany("INSERT OR REPLACE INTO view_counts VALUES (?, ?, ?, ?)", views)
        connection.executemany("INSERT INTO readers (key, id) VALUES (?, ?)", [(1000 + reader, f"reader-{reader}") for reader in range(1, 41)])
        connection.executemany("INSERT INTO interactions VALUES (?, ?, ?, 'v')", [(1000 + reader, at, item) for reader, at, item in reads])
        connection.execute("COMMIT")
    connection.close()


def test_the_feed_is_tuned_to_what_readers_read(own_service):
    assert own_service.status()["feed"] == "scale=7d; interests=0.02; trend=0.05"
    add_readers(own_service)
    dry = freshetctl(own_service, "tune", "--dry-run")
    assert dry.returncode == 0 and "The feed: scale 30 d" in dry.stdout, dry.stdout + dry.stderr
    assert freshetctl(own_service, "tune").returncode == 0
    wait_until(lambda: own_service.status()["feed"].startswith("scale=30d;"), "the tuned feed")
    explained = freshetctl(own_service, "explain", "reader-1")
    assert "chosen by freshetctl tune on " in explained.stdout and "recall.decay_scale = 2592000" in explained.stdout, explained.stdout + explained.stderr
    own_service.internal().track("d-1-1")
    stats = own_service.internal().get("/api/articles/d-1-1/stats").json()
    assert stats["default_list"] == served(own_service) and time.time() - stats["tuned_at"] < 600

    own_service.configure(recall__decay_scale='"7d"')
    own_service.reload_and_drain()
    wait_until(lambda: own_service.status()["feed"].startswith("scale=7d;"), "the administrator's scale")
    assert freshetctl(own_service, "tune").returncode == 0
    with open(os.path.join(own_service.state, "record/tuned.toml"), encoding="utf-8") as file:
        assert "recall.decay_scale" not in file.read()


def test_a_tuned_file_that_was_changed_is_ignored(own_service):
    add_news(own_service)
    assert freshetctl(own_service, "tune").returncode == 0
    wait_until(lambda: served(own_service).startswith("trending"), "the tuned model")
    tuned = os.path.join(own_service.state, "record/tuned.toml")
    with open(tuned, encoding="utf-8") as file:
        text = file.read()
    with open(tuned + ".new", "w", encoding="utf-8") as file:
        file.write(text.replace('"trending"', '"engagement"'))
    os.replace(tuned + ".new", tuned)
    wait_until(lambda: served(own_service) == "views; mode=accumulate", "the default model")
    assert "tuned.toml is ignored: its checksum does not match" in own_service.log()
