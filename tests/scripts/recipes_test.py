"""The recipes of ARCHITECTURE.md ("Where to change what"): each has a patch that follows it, in recipes/.

recipes_test.py         checks that each patch applies and touches only the files listed in its recipe, within the limit
recipes_test.py --long  applies each patch to a copy of the checkout, builds it, and checks the result

The copy is an overlay over the checkout and its build folder, in its own mount namespace: only the patched files are
compiled, and nothing is left behind.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATCHES = os.path.join(ROOT, "tests/scripts/recipes")
BUILD = os.environ.get("FRESHET_BUILD_DIR", os.path.join(ROOT, "build/release"))
# recipe → its first words in ARCHITECTURE.md, and the maximum number of product files
RECIPES = {
    "parameter": ("A parameter of the engagement formula", 8),
    "key": ("A key in Redis", 2),
    "endpoint": ("An endpoint on existing data", 6),
    "model": ("A model for hot lists", 10),
}


def patch_of(recipe):
    return os.path.join(PATCHES, f"{recipe}.patch")


def touched_files(recipe):
    with open(patch_of(recipe), encoding="utf-8") as file:
        return sorted(set(re.findall(r"^\+\+\+ b/(\S+)", file.read(), re.M)))


def recipe_text(heading):
    with open(os.path.join(ROOT, "ARCHITECTURE.md"), encoding="utf-8") as file:
        chapter = file.read().partition("## Where to change what")[2].partition("\n## ")[0]
    return next(part for part in re.split(r"\n(?=\*\*)", chapter) if part.startswith(f"**{heading}"))


class Patches(unittest.TestCase):
    def test_a_recipe_lists_all_files_that_its_patch_touches(self):
        for recipe, (heading, limit) in RECIPES.items():
            with self.subTest(recipe):
                text = recipe_text(heading)
                announced = int(re.search(r"\*\*[^*]*\*\*[^:]*: (\d+) files?", text)[1])
                files = touched_files(recipe)
                self.assertEqual(len(files), announced, files)
                self.assertLessEqual(announced, limit)
                named = set(re.findall(r"`([^`]+)`", text))
                self.assertEqual([file for file in files if file not in named], [])

    def test_the_patches_apply(self):
        for recipe in RECIPES:
            with self.subTest(recipe):
                subprocess.run(["git", "apply", "--check", patch_of(recipe)], cwd=ROOT, check=True)


# --- in the copy


def start_instance(*options, **directives):
    sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
    from service import LONG_TIMEOUTS, Instance  # pylint: disable=import-outside-toplevel,import-error
    return Instance("--no-limits", *options, **LONG_TIMEOUTS, **directives)


def wait_until(*arguments):
    sys.path.insert(0, os.path.join(ROOT, "tests/support"))
    from waiting import wait_until as wait  # pylint: disable=import-outside-toplevel,import-error
    return wait(*arguments)


def top_ids(service, model):
    return [each["id"] for each in service.public().get(f"/api/hot?model={model}&limit=2").json()]


def publish_and_read(service, readers_of):
    """Puts articles and has each read by the given readers, once for each time a reader is listed."""
    for article, readers in readers_of.items():
        service.put(article)
        for number, reader in enumerate(readers):
            reply = service.public().track(article, 0, userId=reader, sessionId=f"{reader}-{number}")
            assert reply.status == 200, reply


def follow_parameter():
    """hot.uv_power is a directive; with 0, any number of visitors counts as one."""
    service = start_instance()
    try:
        service.start()
        publish_and_read(service, {"often": ["ann"] * 4, "widely": ["ann", "bob"]})
        wait_until(lambda: top_ids(service, "engagement") == ["widely", "often"], "the order with the old parameter")
        service.configure(hot__uv_power=0.0)
        service.reload_and_drain()
        wait_until(lambda: top_ids(service, "engagement") == ["often", "widely"], "the order with the new parameter")
        stats = service.internal().get("/api/articles/widely/stats").json()
        assert stats["base"] == stats["terms"]["pv"] + stats["terms"]["uv"] == 5, stats
        service.check()
    finally:
        service.stop()


def follow_key():
    """The account may use the key; check, export and erasure know it."""
    service = start_instance()
    try:
        service.start()
        key = "user:shelf:{ann}"
        assert service.redis("ACL", "DRYRUN", "freshet", "ZADD", key, 1, "item") == "OK"
        service.redis("ZADD", key, 1, "item")
        service.redis("EXPIRE", key, 1000)
        service.check()
        kept = {each["key"]: each for each in service.internal().get("/api/users/ann").json()["redis"]}
        assert kept[key]["value"] == {"item": "1"} and kept[key]["what"], kept
        job = service.internal().delete("/api/users/ann").json()["job"]
        wait_until(lambda: service.internal().get(f"/api/jobs/{job}").json()["state"] == "done", "the erasure", 60)
        assert service.redis("EXISTS", key) == 0
    finally:
        service.stop()


def follow_endpoint():
    """The endpoint answers on its server only."""
    service = start_instance()
    try:
        service.start()
        publish_and_read(service, {"read": ["ann", "bob"]})
        assert service.internal().get("/api/articles/read/visitors").json() == {"uv": 2}
        assert service.public().get("/api/articles/read/visitors").status == 404
    finally:
        service.stop()


def follow_model():
    """model=readers ranks by visitors, and everything that iterates over the models includes it."""
    service = start_instance()

    def listed(**query):
        return [each["id"] for each in service.hot(model="readers", **query)]

    try:
        service.start()
        internal = service.internal()
        publish_and_read(service, {"often": ["ann"] * 8, "widely": ["ann", "bob"], "hidden": ["ann", "bob", "cay"]})
        service.put("widely", tags=["news"])
        wait_until(lambda: top_ids(service, "engagement") == ["hidden", "often"], "the list by engagement")
        wait_until(lambda: listed() == ["hidden", "widely", "often"], "the list by readers")
        assert listed(tag="news") == ["widely"]
        later = service.hot(model="readers", at=int(time.time()) + 7 * 86400)
        assert [round(each["score"], 3) for each in later] == [1.5, 1, 0.5], later
        tried = internal.get("/api/hot/preview?model=readers&hot.readers_half_life=10m")
        assert tried.status == 200 and len(tried.json()) == 3, tried
        stats = internal.get("/api/articles/widely/stats").json()
        assert stats["readers"]["rank"] == 2 and stats["readers"]["base"] == 2 and stats["rank"] == 3, stats
        assert service.public().get("/api/hot?model=readers&mode=current").status == 400
        service.put("hidden", hidden=True)
        wait_until(lambda: listed() == ["widely", "often"], "the list without what is hidden")
        assert service.redis("HEXISTS", "hot:placed:readers", "hidden") == 0
        service.check()
        service.redis("ZINCRBY", "hot:rank:readers", 1, "often")
        with unittest.TestCase().assertRaisesRegex(AssertionError, "hot:rank:readers"):
            service.check()
        # Changed parameters, like a new model on a running site, rebuild all ranks.
        service.redis("DEL", "hot:rank:readers", "hot:placed:readers")
        service.configure(hot__readers_half_life='"1d"')
        service.reload_and_drain()
        wait_until(lambda: service.redis("ZCARD", "hot:rank:readers") == 2, "the rebuilt rank")
        wait_until(lambda: listed() == ["widely", "often"], "the list of it")
        assert service.redis("EXISTS", "hot:rank:readers:next") == 0
        service.check()
    finally:
        service.stop()


def run_in_copy(recipe):
    """Runs in the namespace, where the checkout is a copy."""
    subprocess.run(["git", "apply", patch_of(recipe)], cwd=ROOT, check=True)
    subprocess.run(["cmake", "--build", BUILD, "-j", str(os.cpu_count()), "--target", "freshetd", "freshetctl"], cwd=ROOT, check=True)
    globals()[f"follow_{recipe}"]()


class LongForm(unittest.TestCase):
    """One test per recipe, in the long form."""


def build_in_copy(recipe):
    with tempfile.TemporaryDirectory(prefix="freshet-recipe-", dir="/var/tmp") as folder:
        layers = [ROOT] + ([BUILD] if os.path.relpath(BUILD, ROOT).startswith("..") else [])
        mounts = "".join(
            f'mkdir "$1/upper{n}" "$1/work{n}"\n'
            f'mount -t overlay overlay -o "lowerdir={layer},upperdir=$1/upper{n},workdir=$1/work{n}" "{layer}"\n' for n, layer in enumerate(layers))
        as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
        # On its own file system, since the upper layer cannot be on an overlay.
        script = f'set -e\nmount -t tmpfs tmpfs "$1"\n{mounts}cd "{ROOT}"\nexec "$2" "$3" --run_in_copy {recipe}'
        return subprocess.run(["unshare", "--mount", "--propagation", "private", *as_root, "bash", "-c", script, "-", folder, sys.executable,
                               os.path.abspath(__file__)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def long_test(recipe):
    def test(self):
        done = build_in_copy(recipe)
        self.assertEqual(done.returncode, 0, done.stdout[-20000:] + done.stderr[-20000:])
    return test


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run_in_copy"]:
        run_in_copy(sys.argv[2])
    elif sys.argv[1:2] == ["--long"]:
        for each in RECIPES:
            setattr(LongForm, f"test_{each}", long_test(each))
        unittest.main(argv=[sys.argv[0], *(sys.argv[2:] or ["LongForm"])], verbosity=2)
    else:
        unittest.main()
