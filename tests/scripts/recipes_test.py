"""The recipes of ARCHITECTURE.md ("Where to change what"): each has a patch that follows it, in recipes/.

recipes_test.py         does each patch apply, touch no more files than the recipe may, and only those that the recipe names?
recipes_test.py --long  each is applied to a copy of the checkout, built, and must do what it is for.

The copy is an overlay over the checkout and its build folder, in a mount namespace of its own: so only what the patch changes is compiled, and
nothing of it is left.
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
# recipe → its first words in ARCHITECTURE.md, and how many files of the product it may touch
RECIPES = {
    "parameter": ("A parameter of the engagement formula", 8),
    "key": ("A key in Redis", 2),
    "endpoint": ("An endpoint on existing data", 6),
    "model": ("A model of hot lists", 10),
}


def patch_of(recipe):
    return os.path.join(PATCHES, f"{recipe}.patch")


def touched(recipe):
    with open(patch_of(recipe), encoding="utf-8") as file:
        return sorted(set(re.findall(r"^\+\+\+ b/(\S+)", file.read(), re.M)))


def recipe_text(first_words):
    with open(os.path.join(ROOT, "ARCHITECTURE.md"), encoding="utf-8") as file:
        chapter = file.read().partition("## Where to change what")[2].partition("\n## ")[0]
    return next(part for part in re.split(r"\n(?=\*\*)", chapter) if part.startswith(f"**{first_words}"))


class Followed(unittest.TestCase):
    def test_a_recipe_touches_few_files_and_names_them(self):
        for recipe, (first_words, most) in RECIPES.items():
            with self.subTest(recipe):
                text = recipe_text(first_words)
                said = int(re.search(r"\*\*[^*]*\*\*[^:]*: (\d+) files?", text)[1])
                files = touched(recipe)
                self.assertEqual(len(files), said, files)
                self.assertLessEqual(said, most)
                named = set(re.findall(r"`([^`]+)`", text))
                self.assertEqual([file for file in files if file not in named], [])

    def test_its_patch_applies(self):
        for recipe in RECIPES:
            with self.subTest(recipe):
                subprocess.run(["git", "apply", "--check", patch_of(recipe)], cwd=ROOT, check=True)


# --- in the copy


def own_service(*options, **directives):
    sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
    from service import PATIENT, Instance  # pylint: disable=import-outside-toplevel,import-error
    return Instance("--no-limits", *options, **PATIENT, **directives)


def wait_until(*arguments):
    sys.path.insert(0, os.path.join(ROOT, "tests/support"))
    from waiting import wait_until as wait  # pylint: disable=import-outside-toplevel,import-error
    return wait(*arguments)


def order(service, model):
    return [each["id"] for each in service.public().get(f"/api/hot?model={model}&limit=2").json()]


def read_by(service, readers_of):
    """Puts articles, and has each read by these readers; once for each time that a reader is named."""
    for article, readers in readers_of.items():
        service.put(article)
        for number, reader in enumerate(readers):
            reply = service.public().track(article, 0, userId=reader, sessionId=f"{reader}-{number}")
            assert reply.status == 200, reply


def follow_parameter():
    """hot.uv_power is a directive, and with 0 visitors are worth no more than one of them."""
    service = own_service()
    try:
        service.start()
        read_by(service, {"often": ["ann"] * 4, "widely": ["ann", "bob"]})
        wait_until(lambda: order(service, "engagement") == ["widely", "often"], "the order of today")
        service.configure(hot__uv_power=0.0)
        service.renew()
        wait_until(lambda: order(service, "engagement") == ["often", "widely"], "the order with the new parameter")
        stats = service.internal().get("/api/articles/widely/stats").json()
        assert stats["base"] == stats["terms"]["pv"] + stats["terms"]["uv"] == 5, stats
        service.check()
    finally:
        service.stop()


def follow_key():
    """The account may use the key, and check, export and erasure know it."""
    service = own_service()
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
    """It answers on its server, and on no other."""
    service = own_service()
    try:
        service.start()
        read_by(service, {"read": ["ann", "bob"]})
        assert service.internal().get("/api/articles/read/visitors").json() == {"uv": 2}
        assert service.public().get("/api/articles/read/visitors").status == 404
    finally:
        service.stop()


def follow_model():
    """model=readers ranks by visitors, and all that goes by a model's row does so by its."""
    service = own_service()

    def listed(**query):
        return [each["id"] for each in service.hot(model="readers", **query)]

    try:
        service.start()
        internal = service.internal()
        read_by(service, {"often": ["ann"] * 8, "widely": ["ann", "bob"], "hidden": ["ann", "bob", "cay"]})
        service.put("widely", tags=["news"])
        wait_until(lambda: order(service, "engagement") == ["hidden", "often"], "the list by engagement")
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
        # Other parameters, as a model that is new to a running site, make all ranks anew.
        service.redis("DEL", "hot:rank:readers", "hot:placed:readers")
        service.configure(hot__readers_half_life='"1d"')
        service.renew()
        wait_until(lambda: service.redis("ZCARD", "hot:rank:readers") == 2, "the rank made anew")
        wait_until(lambda: listed() == ["widely", "often"], "the list of it")
        assert service.redis("EXISTS", "hot:rank:readers:next") == 0
        service.check()
    finally:
        service.stop()


def inside(recipe):
    """In the namespace: the checkout is a copy."""
    subprocess.run(["git", "apply", patch_of(recipe)], cwd=ROOT, check=True)
    subprocess.run(["cmake", "--build", BUILD, "-j", str(os.cpu_count()), "--target", "freshetd", "freshetctl"], cwd=ROOT, check=True)
    globals()[f"follow_{recipe}"]()


class Built(unittest.TestCase):
    """A test for each recipe, of the long form."""


def in_a_copy(recipe):
    with tempfile.TemporaryDirectory(prefix="freshet-recipe-", dir="/var/tmp") as folder:
        layers = [ROOT] + ([BUILD] if os.path.relpath(BUILD, ROOT).startswith("..") else [])
        mounts = "".join(
            f'mkdir "$1/upper{n}" "$1/work{n}"\n'
            f'mount -t overlay overlay -o "lowerdir={layer},upperdir=$1/upper{n},workdir=$1/work{n}" "{layer}"\n' for n, layer in enumerate(layers))
        as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
        # On a file system of its own: an overlay cannot be the upper layer of another.
        script = f'set -e\nmount -t tmpfs tmpfs "$1"\n{mounts}cd "{ROOT}"\nexec "$2" "$3" --inside {recipe}'
        return subprocess.run(["unshare", "--mount", "--propagation", "private", *as_root, "bash", "-c", script, "-", folder, sys.executable,
                               os.path.abspath(__file__)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def long_test(recipe):
    def test(self):
        done = in_a_copy(recipe)
        self.assertEqual(done.returncode, 0, done.stdout[-20000:] + done.stderr[-20000:])
    return test


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(sys.argv[2])
    elif sys.argv[1:2] == ["--long"]:
        for each in RECIPES:
            setattr(Built, f"test_{each}", long_test(each))
        unittest.main(argv=[sys.argv[0], *(sys.argv[2:] or ["Built"])], verbosity=2)
    else:
        unittest.main()
