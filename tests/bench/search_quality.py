#!/usr/bin/env python3
"""How often a search finds the Chinese passage it was made from: tests/bench/search_quality.py [FOLDER]

Downloads manpages-zh, libreoffice-help-zh-cn and fortunes-zh with apt-get into a temporary folder (or reads FOLDER, where
they are unpacked), takes their paragraphs of 40 to 400 Chinese characters, and runs search_quality, which explains the
queries. The same packages give the same figures. Build it first: ninja -C build/release search_quality
"""

import glob
import gzip
import html.parser
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PROGRAM = os.path.join(ROOT, os.environ.get("FRESHET_BUILD_DIR", "build/release"), "tests", "bench", "search_quality")
PACKAGES = ("fortunes-zh", "libreoffice-help-zh-cn", "manpages-zh")
HAN = re.compile("[\u4e00-\u9fff]")
MIN_HAN, MAX_HAN = 40, 400
MAX_PER_SOURCE = 1000  # evenly spaced, so that no package outweighs the others


class Paragraphs(html.parser.HTMLParser):
    """Collects the texts of <p> elements."""

    def __init__(self):
        super().__init__()
        self.all, self.depth = [], 0

    def handle_starttag(self, tag, attrs):
        if tag == "p":
            self.depth = 1
            self.all.append("")

    def handle_endtag(self, tag):
        if tag == "p":
            self.depth = 0

    def handle_data(self, data):
        if self.depth:
            self.all[-1] += data


def fortunes(folder):
    for path in sorted(glob.glob(folder + "/usr/share/games/fortunes/*.u8")):
        with open(os.path.realpath(path), encoding="utf-8", errors="replace") as file:
            for passage in re.split(r"(?m)^%$", file.read()):
                yield re.sub("\x1b\\[[0-9;]*m", "", passage)


def help_pages(folder):
    for path in sorted(glob.glob(folder + "/usr/share/libreoffice/help/zh-CN/text/**/*.html", recursive=True)):
        parser = Paragraphs()
        with open(path, encoding="utf-8", errors="replace") as file:
            parser.feed(file.read())
        yield from parser.all


def manual_pages(folder):
    for path in sorted(glob.glob(folder + "/usr/share/man/zh_CN/man*/*.gz")):
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
            lines = [line for line in file if not line.startswith(('.\\"', "'\\\""))]
        text = re.sub(r"(?m)^\.(PP|LP|P|TP|IP|SH|SS|HP|br|sp|RS|RE)\b.*$", "\n", "".join(lines))
        text = re.sub(r"(?m)^\.\w+ ?", "", text)
        text = re.sub(r"\\f\[\w+\]|\\f\w|\\&|\\[,/]|\\s[+-]?\d", "", text)
        text = re.sub(r"\\\((em|en)", "-", text).replace("\\-", "-").replace('"', "")
        yield from text.split("\n\n")


def passages(folder):
    """Distinct paragraphs of the packages, in a fixed order."""
    seen = set()
    for source in (fortunes, help_pages, manual_pages):
        found = []
        for text in source(folder):
            text = " ".join(text.split())
            if MIN_HAN <= len(HAN.findall(text)) <= MAX_HAN and text not in seen:
                seen.add(text)
                found.append(text)
        count = min(MAX_PER_SOURCE, len(found))
        yield from (found[i * len(found) // count] for i in range(count))


def unpack(folder):
    subprocess.run(["apt-get", "-qq", "download", *PACKAGES], cwd=folder, check=True, timeout=300)
    for package in sorted(glob.glob(folder + "/*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True, timeout=300)


def main():
    with tempfile.TemporaryDirectory(prefix="freshet-search-quality-") as temporary:
        folder = sys.argv[1] if len(sys.argv) > 1 else temporary
        if folder == temporary:
            unpack(folder)
        lines = "".join(text + "\n" for text in passages(folder))
    return subprocess.run([PROGRAM], input=lines, text=True, timeout=900, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
