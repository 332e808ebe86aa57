"""smoke.py PUBLIC INTERNAL KID SECRET NAME: prints the client's results as JSON, the same in every language."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../scripts/clients/python"))
from freshet import Freshet, FreshetError  # noqa: E402

base, internal, kid, secret, name = sys.argv[1:]
site, backend = Freshet(base), Freshet(internal, key=(kid, secret))
items = [f"{name}-{i}" for i in (1, 2, 3, 4)]
out = {}


def ids(page):
    return [item["id"] for item in page["items"]]


def error(call):
    try:
        return call()
    except FreshetError as problem:
        return problem


now = int(time.time())
out["put"] = backend.put_item(items[0], title="Über ééé", tags=["news"], published_at=now - 60)
out["lines"] = backend.put_items([{"id": each, "title": each, "published_at": now - 60} for each in items[1:]])["accepted"]
out["title"] = backend.get_item(items[0])["title"]
out["pv"] = site.track(items[0], user_id=name, session_id="s", dwell_ms=1000)["pv"]
out["stats"] = backend.stats(items[0])["pv"]
out["pushed"] = backend.push("discover", items[:3], [name])["pushed"]
first = site.timeline("discover", name, limit=2)
out["first"] = ids(first)
out["older"] = ids(site.timeline("discover", name, "up", first["up"], limit=2))
backend.push("discover", [items[3]], [name])
out["newer"] = ids(site.timeline("discover", name, "down", first["drop"], limit=2))
out["look"] = site.look(name, items[0])["ok"]
out["history"] = site.history(name)["items"]
site.dismiss(name, items[1])
out["dismissed"] = site.recommendations(name)["excluded"]["not_interested"]
site.undismiss(name, items[1])
out["undismissed"] = site.recommendations(name)["excluded"]["not_interested"]
backend.follow(name, "ann@x/y")
out["follows"] = site.follows(name)["items"]
page = site.feed(name, limit=2)
out["feed"] = len(page["items"])
out["page"] = "string" if isinstance(page["page"], str) else None
out["more"] = len(site.feed(name, "load_more", page["page"], limit=2)["items"])
invalid = error(lambda: site.request("POST", "/api/track", {"dwellMs": 1}))
out["invalid"] = [invalid.status, invalid.code, invalid.member]
out["unsigned"] = error(lambda: Freshet(internal, key=(kid, secret + "x")).get_item(items[0])).status
out["whoami"] = backend.whoami()
out["ready"] = backend.health()["ready"]
merge = backend.merge_history(name, name + "-account")
while backend.job(merge["job"])["moved"]["views"] == 0:
    time.sleep(0.05)
out["merged"] = [merge["ok"], site.history(name + "-account")["items"]]
out["exported"] = backend.export_user(name)["userId"]
out["erased"] = backend.job(backend.erase_user(name)["job"])["failed"]
print(json.dumps(out))
