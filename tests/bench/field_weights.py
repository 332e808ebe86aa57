#!/usr/bin/env python3
"""Compares weights of the fields by which texts are searched: tests/bench/field_weights.py DUMP

DUMP: the XML files of a Stack Exchange site. Items are its questions, with their titles, tags, askers' names and bodies.
Queries of each kind are made from one question, half of which choose the weights and half of which confirm them:
    linked  the title of a question; the result must be one that its site links to it
    title   three words of the title
    tag     a tag, and two words of the body that the title does not have
    author  the asker's name, and a word of the title
    text    three words of the body that the title does not have
Build the program first: ninja -C build/release field_weights
"""

import html
import json
import os
import random
import re
import subprocess
import sys
import xml.etree.ElementTree

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PROGRAM = os.path.join(ROOT, os.environ.get("FRESHET_BUILD_DIR", "build/release"), "tests", "bench", "field_weights")
QUESTION = "1"
WORD = re.compile("[a-z]{4,}")  # shorter ones are mostly "the" and the like


def rows(directory, name):
    with open(os.path.join(directory, name), encoding="utf-8-sig") as file:
        return [row.attrib for row in xml.etree.ElementTree.fromstring(file.read().encode())]


def words(text):
    return sorted(set(WORD.findall(html.unescape(re.sub("<[^>]*>", " ", text)).lower())))


def main():
    directory = sys.argv[1]
    names = {row["Id"]: row.get("DisplayName", "") for row in rows(directory, "Users.xml")}
    items = {}
    for row in rows(directory, "Posts.xml"):
        if row["PostTypeId"] == QUESTION:
            items[row["Id"]] = {
                "id": row["Id"],
                "title": row["Title"],
                "tags": re.findall("<([^>]+)>", row["Tags"]),
                "author": names.get(row.get("OwnerUserId"), ""),
                "text": row["Body"],
            }
    choose = random.Random(37)
    lines = list(items.values())

    def add(kind, source, wanted, chosen, count):
        """A query of `count` of the words `chosen`; `source` is no result."""
        if len(chosen) >= count:
            query = " ".join(choose.sample(chosen, count))
            lines.append({"kind": kind, "query": query, "wanted": wanted, "source": source})
        return len(chosen) >= count

    for item in items.values():
        title, text = words(item["title"]), words(item["text"])
        text = [word for word in text if word not in title]
        add("title", "", item["id"], title, 3)
        add("text", "", item["id"], text, 3)
        if item["tags"] and add("tag", "", item["id"], text, 2):
            lines[-1]["query"] += " " + choose.choice(item["tags"])
        if item["author"] and add("author", "", item["id"], title, 1):
            lines[-1]["query"] += " " + item["author"]
    for link in rows(directory, "PostLinks.xml"):
        pair = link["PostId"], link["RelatedPostId"]
        if all(each in items for each in pair):
            for source, wanted in (pair, pair[::-1]):
                lines.append(
                    {"kind": "linked", "query": items[source]["title"], "wanted": wanted, "source": source}
                )
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return subprocess.run([PROGRAM], input=text, text=True, timeout=3600, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
