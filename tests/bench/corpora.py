"""Items with texts, for benchmarks of searches: generated ones, and the packages that apt knows.

zipf: titles of 9 words and texts of 150, from 30,000 words; three tags of 300. P(a word's rank ≥ k) = k^-0.7, and for
tags k^-0.8; ranks beyond the last one start again from the first. Authors and publication dates, of the last 30 days, are
uniform.
debian: names, descriptions and dependencies of packages, in random order. Texts contain the long descriptions if apt has
downloaded them (Acquire::Languages). No parameter may be tuned with this corpus.
"""

import random
import re
import shutil
import subprocess

SPAN_S = 30 * 86400  # the items' maximum age
WORDS, TAGS, AUTHORS = 30_000, 300, 500
APT_HELPER = "/usr/lib/apt/apt-helper"
NAMES = re.compile(r"[a-z0-9][a-z0-9+.-]+")


class CorpusMissing(Exception):
    """This machine does not have the corpus. The message says why."""


def zipf(count, now):
    """Returns `count` items i0, i1 …, in random order of publication."""
    rng = random.Random(5)

    def ranks(shape, size, sample):
        return [int(rng.paretovariate(shape)) % size for _ in range(sample)]

    words = [f"w{rank}" for rank in ranks(0.7, WORDS, 200_000)]
    tags = [f"tag{rank}" for rank in ranks(0.8, TAGS, 20_000)]
    return ({"id": f"i{number}", "title": " ".join(rng.choices(words, k=9)), "text": " ".join(rng.choices(words, k=150)),
             "url": f"https://example.org/{number}", "tags": list(dict.fromkeys(rng.choices(tags, k=3))),
             "author": f"author{rng.randrange(AUTHORS)}", "published_at": now - rng.randrange(SPAN_S)} for number in range(count))


def debian(count, now):
    """Returns `count` items i0, i1 …, or fewer if apt knows fewer packages. Raises CorpusMissing."""
    rng = random.Random(5)
    packages = list(_packages())
    if not packages:
        raise CorpusMissing("apt knows no packages; run apt-get update")
    rng.shuffle(packages)
    long_descriptions = _long_descriptions()
    return (_package_item(number, fields, long_descriptions, now - rng.randrange(SPAN_S)) for number, fields in enumerate(packages[:count]))


CORPORA = {"zipf": zipf, "debian": debian}


def _package_item(number, fields, long_descriptions, published_at):
    related = " ".join(dict.fromkeys(NAMES.findall(" ".join(fields.get(name, "") for name in ("Depends", "Recommends", "Suggests", "Provides")))))
    tags = [fields.get("Section", "unknown")] + [each.strip().replace("::", "-") for each in fields.get("Tag", "").split(",") if each.strip()]
    return {"id": f"i{number}", "title": f"{fields['Package']}: {fields.get('Description', '')}",
            "text": long_descriptions.get(fields.get("Description-md5"), "") + "\n" + related, "url": f"https://packages.debian.org/{fields['Package']}",
            "tags": tags[:10], "author": fields.get("Maintainer", "").partition(" <")[0], "published_at": published_at}


def _packages():
    """The newest version of each package, as a dictionary of fields."""
    if shutil.which("apt-cache") is None:
        raise CorpusMissing("there is no apt-cache")
    out = {}
    for paragraph in _output("apt-cache", "dumpavail").split("\n\n"):
        fields = _fields(paragraph)
        if "Package" in fields:
            out.setdefault(fields["Package"], fields)
    return out.values()


def _long_descriptions():
    """By the MD5 of the description. Empty unless apt downloads translations."""
    files = _output("apt-get", "indextargets", "--format", "$(FILENAME)", "Created-By: Translations").split()
    out = {}
    for paragraph in _output(APT_HELPER, "cat-file", *files).split("\n\n") if files else []:
        fields = _fields(paragraph)
        text = next((value for name, value in fields.items() if name.startswith("Description-") and name != "Description-md5"), "")
        out[fields.get("Description-md5")] = text
    return out


def _fields(paragraph):
    """The fields of a paragraph of Debian's control files; continuation lines belong to the field above."""
    return {name: value.strip() for name, value in re.findall(r"^(\S+?):((?:.*\n?)(?:[ \t].*\n?)*)", paragraph, re.MULTILINE)}


def _output(*command):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=True).stdout
