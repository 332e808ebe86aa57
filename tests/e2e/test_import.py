"""freshetctl import of sources that servers deliver, well and badly, into a running instance."""

import contextlib
import gzip
import http.server
import json
import socket
import ssl
import subprocess
import threading
import time
from email.utils import formatdate

import pytest

from service import CTL, wait_until

CERTIFICATE = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
               "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]


class Site:
    """A web server. `pages` maps a path to a body or to a function(handler); `requests` lists (path, headers)."""

    def __init__(self, certificate=None):
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                site.requests.append((self.path, self.headers))
                page = site.pages.get(self.path)
                with contextlib.suppress(OSError):  # the client may have left
                    if callable(page):
                        page(self)
                    else:
                        answer(self, b"", 404) if page is None else answer(self, page)

            def log_message(self, *_):
                pass

        self.pages, self.requests = {}, []
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def paths(self):
        return [path for path, _ in self.requests]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def answer(handler, body, status=200, **headers):
    body = body.encode() if isinstance(body, str) else body
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def redirect(to):
    return lambda handler: answer(handler, b"", 302, Location=to)


def conditional(body):
    """A page with an ETag, which answers 304 to those who have it."""
    def page(handler):
        if handler.headers.get("If-None-Match") == '"v1"':
            answer(handler, b"", 304, ETag='"v1"')
        else:
            answer(handler, body, ETag='"v1"')
    return page


def rss(*paths, base="https://example.org", age_s=60):
    entries = "".join(f"<item><title>Title of {path}</title><link>{base}{path}</link>"
                      f"<pubDate>{formatdate(time.time() - age_s, usegmt=True)}</pubDate></item>" for path in paths)
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>Site</title><link>{base}</link>{entries}</channel></rss>'


def sitemap(*urls):
    return f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{"".join(f"<url><loc>{each}</loc></url>" for each in urls)}</urlset>'


def index(*urls):
    return f'<?xml version="1.0"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{"".join(f"<sitemap><loc>{each}</loc></sitemap>" for each in urls)}</sitemapindex>'


@pytest.fixture
def site():
    running = Site()
    yield running
    running.close()


def run(service, *arguments, **options):
    return subprocess.run([CTL, "import", *arguments, "--state", service.state], capture_output=True, text=True, check=False, timeout=240, **options)


def report(service, *arguments, status=0, **options):
    done = run(service, "--json", *arguments, **options)
    assert done.returncode == status, done
    return json.loads(done.stdout)


def title(service, item):
    reply = service.internal().get("/api/items/" + item.replace("/", "%2F"))
    return reply.json()["title"] if reply.status == 200 else None


def titles(service, *paths):
    return [title(service, path) for path in paths]


def test_the_list_shows_the_titles_of_a_feed(service, site, name):
    path = "/" + name("p")
    site.pages["/feed"] = conditional(rss(path + "/", path + "-2", age_s=3600))
    done = run(service, "--feed", site.url + "/feed")
    assert done.returncode == 0 and done.stdout.startswith(f"imported 2 items of {site.url}/feed (read as: feed) in "), done
    assert service.public().view(path, "a").status == 200  # as the tag reports the page
    entries = {each["id"]: each for each in service.hot(model="views", limit=100)}
    assert entries[path]["title"] == f"Title of {path}/" and entries[path]["url"] == f"https://example.org{path}/"

    again = run(service, "--feed", site.url + "/feed")
    assert again.returncode == 0 and "found 1 documents unchanged since the last import" in again.stdout, again
    assert report(service, "--feed", site.url + "/feed", "--force")["unchanged"] == 1  # --force is about --prune only
    assert report(service, "--feed", site.url + "/feed", "--limit-age", "30m")["too_old"] == 2  # another choice of entries
    assert [headers.get("If-None-Match") for _, headers in site.requests] == [None, '"v1"', '"v1"', None]


def test_a_dry_run_prints_the_items_and_puts_none(service, site, name):
    path = "/" + name("p")
    site.pages["/feed"] = rss(path)
    done = run(service, site.url + "/feed", "--dry-run")  # the format is detected
    (item,) = map(json.loads, done.stdout.splitlines())
    assert (item["id"], item["title"]) == (path, f"Title of {path}") and "would import 1 items" in done.stderr
    assert title(service, path) is None


def test_items_that_are_gone_are_deleted_from_their_source_only(service, site, name):
    paths = ["/" + name(f"p{number}") for number in range(5)]
    other = "/" + name("other")
    site.pages |= {"/feed": rss(*paths), "/other": rss(other)}
    assert report(service, "--feed", site.url + "/other", "--prune")["accepted"] == 1
    assert report(service, "--feed", site.url + "/feed", "--prune")["deleted"] == 0
    site.pages["/feed"] = rss(*paths[1:])
    assert report(service, "--feed", site.url + "/feed")["deleted"] == 0  # only with --prune
    dry = run(service, "--feed", site.url + "/feed", "--prune", "--dry-run")
    assert "would delete 1 items that are gone from the source" in dry.stderr and title(service, paths[0]), dry
    assert report(service, "--feed", site.url + "/feed", "--prune")["deleted"] == 1
    assert titles(service, *paths[:2], other) == [None, f"Title of {paths[1]}", f"Title of {other}"]

    site.pages["/feed"] = rss(paths[1], paths[2])
    refused = run(service, "--feed", site.url + "/feed", "--prune")
    assert refused.returncode == 1 and "2 of 4 items are gone from the source, more than a third; --force deletes them" in refused.stderr, refused
    assert None not in titles(service, *paths[1:])
    # A part that could not be read is not gone.
    site.pages["/feed"] = rss(*paths[1:4])[:-30]
    cut = run(service, "--feed", site.url + "/feed", "--prune", "--force")
    assert cut.returncode == 1 and "nothing was deleted, because a part of the source could not be read" in cut.stderr, cut
    assert None not in titles(service, *paths[1:])
    site.pages["/feed"] = rss(paths[1], paths[2])
    assert report(service, "--feed", site.url + "/feed", "--prune", "--force")["deleted"] == 2
    assert [each is None for each in titles(service, *paths[1:], other)] == [False, False, True, True, False]


def test_an_item_of_two_sources_is_deleted_when_both_have_lost_it(service, site, name):
    paths = ["/" + name(f"p{number}") for number in range(4)]
    site.pages |= {"/a": rss(*paths), "/b": rss(*paths)}
    for source in ("/a", "/b", "/a"):
        assert report(service, "--feed", site.url + source, "--prune")["deleted"] == 0
    site.pages |= {"/a": rss(*paths[1:]), "/b": rss(*paths[1:])}
    assert report(service, "--feed", site.url + "/a", "--prune")["deleted"] == 0 and title(service, paths[0])
    assert report(service, "--feed", site.url + "/b", "--prune")["deleted"] == 1 and not title(service, paths[0])


def test_compressed_ndjson_is_unpacked(service, name, tmp_path):
    ids = [name(f"z{number}") for number in range(2)]
    file = tmp_path / "items.ndjson.gz"
    file.write_bytes(gzip.compress("".join(json.dumps({"id": each, "title": f"Title of {each}", "published_at": 1795600000}) + "\n" for each in ids).encode()))
    assert report(service, str(file))["accepted"] == 2
    assert titles(service, *ids) == [f"Title of {each}" for each in ids]
    file.write_bytes(file.read_bytes()[:-9])
    damaged = run(service, str(file))
    assert damaged.returncode == 2 and f"{file}: the compressed data is damaged or cut short" in damaged.stderr, damaged


def test_ndjson_is_pruned_and_printed_like_other_sources(service, name, tmp_path):
    ids = [name(f"n{number}") for number in range(4)]
    lines = [json.dumps({"id": each, "title": f"Title of {each}", "published_at": 1795600000, "section": "s"}) for each in ids]
    file = tmp_path / "items.ndjson"
    file.write_text("\n".join(["\ufeff" + lines[0], "", *lines[1:]]))
    assert report(service, str(file), "--prune")["accepted"] == 4
    file.write_text("\n".join(lines[1:] + [lines[1].replace("Title", "Second")]))  # the last line of an id is taken
    dry = run(service, str(file), "--dry-run")
    assert [json.loads(line)["title"] for line in dry.stdout.splitlines()] == [f"Second of {ids[1]}", f"Title of {ids[2]}", f"Title of {ids[3]}"]
    assert (done := report(service, str(file), "--prune"))["deleted"] == 1 and done["format"] == "NDJSON"
    assert titles(service, *ids) == [None, f"Second of {ids[1]}", f"Title of {ids[2]}", f"Title of {ids[3]}"]
    file.write_text("\n".join([*lines[2:], '{"title":"no id"}', "[1]"]))
    refused = run(service, str(file), "--prune")
    assert refused.returncode == 1 and "line 3: has no id" in refused.stderr and "line 4: is not a JSON object" in refused.stderr, refused
    assert "nothing was deleted, because a part of the source could not be read" in refused.stderr and title(service, ids[1])
    assert report(service, str(file), "--limit-age", "1h", status=1)["too_old"] == 2
    piped = run(service, "-", "--prune", input=lines[0])
    assert piped.returncode == 2 and "--prune of stdin needs --source NAME" in piped.stderr, piped
    assert report(service, "-", "--prune", "--source", name("export"), input=lines[0])["accepted"] == 1


def failing_pipe(text):
    """A socket from which `text` can be read, and then an error."""
    ours, theirs = socket.socketpair()
    ours.sendall(text.encode())
    theirs.sendall(b"unread")
    ours.close()
    return theirs


def test_nothing_is_deleted_after_a_read_error_of_stdin(service, name):
    ids = [name(f"e{number}") for number in range(4)]
    ndjson = [json.dumps({"id": each, "title": "T", "published_at": 1795600000}) + "\n" for each in ids]
    csv = ["id,title\n"] + [f"{each},T\n" for each in ids]
    for source, lines in (["-"], ndjson), (["--csv", "-", "--id", "guid"], csv):
        arguments = [*source, "--prune", "--source", name(f"failing{source[0]}")]
        assert report(service, *arguments, input="".join(lines))["accepted"] == 4
        with failing_pipe("".join(lines[:-1])) as pipe:
            failed = run(service, *arguments, stdin=pipe)
        assert failed.returncode == 1 and "-: cannot be read to its end\nnothing was deleted" in failed.stderr, failed
    with failing_pipe(ndjson[0]) as pipe:
        failed = run(service, "-", stdin=pipe)
    assert failed.returncode == 2 and "cannot read stdin" in failed.stderr, failed
    assert titles(service, *ids) == ["T"] * 4


def test_pipes_without_a_name_have_no_state(service, name, tmp_path):
    line = json.dumps({"id": name("x"), "title": "T", "published_at": int(time.time())})
    assert report(service, "-", "--limit-age", "1h", "--cache", str(tmp_path), input=line)["accepted"] == 1
    assert list(tmp_path.iterdir()) == []
    assert report(service, "-", "--limit-age", "1h", "--cache", str(tmp_path), "--source", name("n"), input=line)["accepted"] == 1
    assert list(tmp_path.glob("*.json"))


def test_nothing_is_deleted_while_the_items_of_another_source_are_unknown(service, site, name, tmp_path):
    paths = ["/" + name(f"p{number}") for number in range(4)]
    arguments = ["--feed", site.url + "/feed", "--cache", str(tmp_path), "--prune"]
    site.pages["/feed"] = rss(*paths)
    assert report(service, *arguments)["deleted"] == 0
    (tmp_path / "other.json").write_text("{")
    site.pages["/feed"] = rss(*paths[1:])
    refused = run(service, *arguments)
    assert refused.returncode == 1 and title(service, paths[0]), refused
    assert f"nothing was deleted, because the items of another source are not known: {tmp_path}/other.json: is damaged" in refused.stderr, refused
    (tmp_path / "other.json").unlink()
    assert report(service, *arguments)["deleted"] == 1 and not title(service, paths[0])


def test_entries_without_a_date_keep_that_of_their_first_import_with_state_only(service, site, name):
    path = "/" + name("p")
    site.pages["/sitemap.xml"] = sitemap(f"https://example.org{path}")
    arguments = ["--sitemap", site.url + "/sitemap.xml"]
    remark = "found 1 entries without a date; they get the time of each import, unless --cache DIR keeps their first"
    without = subprocess.run([CTL, "import", *arguments, "--base", f"http://{service.host}:{service.internal_port}"],
                             capture_output=True, text=True, check=True, timeout=240)
    assert remark in without.stdout, without
    assert remark not in run(service, *arguments).stdout


def test_old_entries_are_left_out_and_not_deleted(service, site, name):
    old, new = "/" + name("old"), "/" + name("new")
    site.pages["/feed"] = rss(old, age_s=100 * 86400).replace("</channel></rss>", "") + rss(new).partition("</link>")[2]
    assert report(service, "--feed", site.url + "/feed")["accepted"] == 2
    site.pages["/feed"] = rss(new)
    limited = report(service, "--feed", site.url + "/feed", "--limit-age", "90d", "--prune", "--force")
    assert (limited["accepted"], limited["deleted"]) == (1, 0) and title(service, old) is not None
    site.pages["/feed"] = rss(old, age_s=100 * 86400)
    assert report(service, "--feed", site.url + "/feed", "--source", name("s"), "--limit-age", "90d")["too_old"] == 1


def test_sitemaps_are_read_through_their_indexes_once(service, site, name):
    pages = ["/" + name(f"page-{number}") for number in range(3)]
    site.pages |= {"/sitemap.xml": index(site.url + "/sitemap.xml", site.url + "/a.xml.gz", site.url + "/b.xml", site.url + "/gone.xml"),
                   "/a.xml.gz": gzip.compress(sitemap(f"https://example.org{pages[0]}").encode()),
                   "/b.xml": index(site.url + "/a.xml.gz", site.url + "/c.xml"),
                   "/c.xml": index(site.url + "/d.xml"),
                   "/d.xml": sitemap(*(f"https://example.org{page}" for page in pages[1:])),
                   }
    done = run(service, "--sitemap", site.url + "/sitemap.xml")
    assert done.returncode == 1 and "imported 3 items" in done.stdout, done
    assert f"{site.url}/gone.xml: there is nothing at this address (404)" in done.stderr
    assert None not in titles(service, *pages)
    assert sorted(site.paths()) == ["/a.xml.gz", "/b.xml", "/c.xml", "/d.xml", "/gone.xml", "/sitemap.xml"]
    site.pages["/d.xml"] = index(site.url + "/e.xml")
    deep = run(service, "--sitemap", site.url + "/sitemap.xml")
    assert f"{site.url}/e.xml: sitemaps are nested more than 3 deep" in deep.stderr and "/e.xml" not in site.paths()


def test_a_sitemap_without_end_is_left(service, site, name):
    pages = ["/" + name(f"page-{number}") for number in range(2)]
    good = [f"/good-{number}.xml" for number in range(1000)]
    site.pages |= dict.fromkeys(good, sitemap(f"https://example.org{pages[0]}"))
    site.pages["/sitemap.xml"] = index(*(site.url + each for each in good))
    done = run(service, "--sitemap", site.url + "/sitemap.xml")
    assert done.returncode == 1 and "reading ended after 1,000 documents" in done.stderr, done
    assert len(site.requests) == 1000 and title(service, pages[0])

    site.requests.clear()
    site.pages["/sitemap.xml"] = index(*(f"{site.url}/gone-{number}.xml" for number in range(9)), site.url + good[0],
                                       *(f"{site.url}/away-{number}.xml" for number in range(30)))
    done = run(service, "--sitemap", site.url + "/sitemap.xml")
    assert done.returncode == 1 and "reading ended after 10 documents in a row that cannot be read" in done.stderr, done
    assert len(site.requests) == 1 + 9 + 1 + 10


def test_a_password_of_a_source_is_not_published(service, site, name):
    path = "/" + name("p")
    site.pages |= {"/feed": rss(path, base=""), "/sitemap.xml": index("/a.xml", "/gone.xml"), "/a.xml": sitemap(path + "-2")}
    secret = site.url.replace("http://", "http://user:pa55word@")
    for arguments in (["--feed", secret + "/feed"], ["--sitemap", secret + "/sitemap.xml"]):
        done = run(service, *arguments)
        assert "imported 1 items" in done.stdout and "pa55word" not in done.stdout + done.stderr, done
    assert f"{site.url}/gone.xml: there is nothing at this address (404)" in done.stderr
    assert all(headers["Authorization"] for _, headers in site.requests)
    stored = [service.internal().get("/api/items/" + each.replace("/", "%2F")).json()["url"] for each in (path, path + "-2")]
    assert stored == [site.url + path, site.url + path + "-2"]


def cut(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(rss("/a").encode())
    handler.close_connection = True


BAD_PAGES = {
    "HTML": ("<!DOCTYPE html><html><body>404</body></html>", "HTML"),
    "5xx": (lambda handler: answer(handler, b"", 503), "the server has an error (503)"),
    "nothing": (None, "there is nothing at this address (404)"),
    "304 without a condition": (lambda handler: answer(handler, b"", 304), "the server returned 304"),
    "a redirect loop": (redirect("/feed"), "redirects in a loop"),
    "another scheme": (redirect("file:///etc/passwd"), "not an http or https URL"),
    "cut short": (cut, "the answer was cut short"),
    "33 MB": (lambda handler: answer(handler, b" " * (33 << 20)), "larger than 33554432 bytes; --max-bytes allows more"),
    "a compressed bomb": (lambda handler: answer(handler, gzip.compress(bytes(40 << 20), 1), Content_Encoding="gzip"), "larger than 33554432 bytes"),
}


@pytest.mark.parametrize("kind", BAD_PAGES)
def test_a_bad_page_is_one_sentence(service, site, kind):
    site.pages["/feed"], why = BAD_PAGES[kind]
    done = run(service, "--feed", site.url + "/feed", "-q")
    assert done.returncode == 2 and why in done.stderr and len(done.stderr.splitlines()) == 1 and done.stdout == "", done
    assert site.url + "/feed: " in done.stderr or kind == "another scheme"


def test_a_certificate_that_nobody_signed_is_refused(service, tmp_path):
    pem = str(tmp_path / "both.pem")
    subprocess.run([*CERTIFICATE, "-keyout", pem, "-out", str(tmp_path / "cert.pem")], capture_output=True, check=True)
    with open(pem, "a", encoding="ascii") as file:
        file.write((tmp_path / "cert.pem").read_text())
    site = Site(pem)
    try:
        site.pages["/feed"] = rss("/a")
        done = run(service, "--feed", site.url + "/feed")
        assert done.returncode == 2 and "the certificate is not valid" in done.stderr and site.requests == [], done
    finally:
        site.close()


def test_a_job_reaches_private_addresses_of_named_hosts_only(service, site, name, tmp_path):
    path = "/" + name("p")
    site.pages |= {"/feed": rss(path), "/to-private": redirect(site.url.replace("127.0.0.1", "localhost") + "/feed")}
    job = tmp_path / "site.conf"
    job.write_text(f'feed = "{site.url}/feed"\nsource = "{name("s")}"\nprune = true\n')
    refused = run(service, "--job", str(job), "--public-only")
    assert refused.returncode == 2 and "127.0.0.1 has the address 127.0.0.1, which is not public" in refused.stderr, refused
    job.write_text(f'feed = "{site.url}/to-private"\nsource = "{name("s")}"\nhosts = ["127.0.0.1"]\n')
    refused = run(service, "--job", str(job), "--public-only")
    assert refused.returncode == 2 and "localhost has the address" in refused.stderr and site.paths() == ["/to-private"], refused
    job.write_text(f'feed = "{site.url}/feed"\nsource = "{name("s")}"\nhosts = ["127.0.0.1"]\n')
    assert report(service, "--job", str(job), "--public-only")["accepted"] == 1
    job.write_text('fede = "x"\n')
    wrong = run(service, "--job", str(job))
    assert wrong.returncode == 2 and f"{job}: fede is no option of imports" in wrong.stderr, wrong


def test_the_newer_of_two_entries_with_an_id_is_taken(service, site, name):
    path = "/" + name("p")
    newer, older = rss(path + "?v=2", age_s=60), rss(path, age_s=3600)
    site.pages["/feed"] = newer.replace("</channel></rss>", "") + older.partition("</link>")[2]
    done = run(service, "--feed", site.url + "/feed")
    assert done.returncode == 0 and "found 1 entries with the id of another one; the newer one was taken" in done.stdout, done
    assert title(service, path) == f"Title of {path}?v=2"
    site.pages["/feed"] = older.replace("</channel></rss>", "") + newer.partition("</link>")[2]
    assert report(service, "--feed", site.url + "/feed", "--source", name("s"))["duplicates"] == 1
    assert title(service, path) == f"Title of {path}?v=2"


def test_longer_texts_of_repeated_ids_stay_within_the_limit_of_a_request(service, name, tmp_path):
    item, rows = name("i"), ["id,title,text,published_at"]
    rows += [f"{item}-{number},Title,short,2020-01-01" for number in range(900)]
    rows += [f"{item}-{number},Title,{'long ' * 2500},2020-01-02" for number in range(900)]
    (tmp_path / "items.csv").write_text("\n".join(rows) + "\n")
    done = report(service, "--csv", str(tmp_path / "items.csv"), "--id", "guid")
    assert (done["rejected"], done["duplicates"]) == (0, 900) and done["accepted"] >= 900
    assert service.internal().get(f"/api/items/{item}-899").json()["published_at"] == 1577923200


def test_a_folder_of_markdown_is_imported(service, name, tmp_path):
    slug = name("post")
    (tmp_path / "posts").mkdir()
    (tmp_path / "posts" / f"{slug}.md").write_text(f"---\ntitle: A post\ndate: 2026-11-01\ntags: [one, two]\nurl: /posts/{slug}/\n---\nText\n")
    (tmp_path / "posts" / "draft.md").write_text(f"---\ntitle: A draft\ndate: 2026-11-02\ndraft: true\nurl: /posts/{slug}-draft/\n---\nText\n")
    (tmp_path / "posts" / "image.png").write_bytes(bytes(range(256)))
    done = run(service, "--markdown", str(tmp_path), "--base-url", "https://example.org")
    assert done.returncode == 0 and "imported 2 items" in done.stdout, done
    item = service.internal().get(f"/api/items/%2Fposts%2F{slug}").json()
    assert (item["title"], item["tags"], item["url"], item["hidden"]) == ("A post", ["one", "two"], f"https://example.org/posts/{slug}/", False)
    assert service.internal().get(f"/api/items/%2Fposts%2F{slug}-draft").json()["hidden"]
    assert run(service, str(tmp_path), "--base-url", "https://example.org").returncode == 0  # a folder is recognized


def test_an_entry_that_freshet_rejects_is_named(service, site, name):
    path = "/" + name("p")
    site.pages["/feed"] = conditional(rss(path).replace("</channel>", "<item><title>No link</title></item></channel>"))
    for _ in range(2):  # an unchanged document is read again
        done = run(service, "--feed", site.url + "/feed")
        assert done.returncode == 1 and "entry 2: has no id by the rule path" in done.stderr, done
        assert "skipped 1: has no id by the rule path; choose another --id, in a table the name of a column, first entry 2" in done.stdout and title(service, path)


def test_ratings_and_reactions_are_imported_with_their_times(service, name, tmp_path):
    reader, other, item = name("u"), name("u2"), name("i")
    service.put(item)
    ratings = tmp_path / "ratings.csv"
    ratings.write_text(f"userId,movieId,rating,timestamp\n{reader},{item},4.5,1600000000\n{reader},{item}-2,1.0,1600000001\n{reader},,5,1600000002\n")
    for _ in range(2):  # a repetition changes nothing
        done = subprocess.run([CTL, "import-events", str(ratings), "--state", service.state], capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 1 and "imported 1 interactions in " in done.stdout and "left out 1: ratings below 4" in done.stdout, done
        assert "line 4: topicId: is missing" in done.stderr, done

    def stored():
        return [(each["topicId"], each["kind"], each["at"]) for each in service.internal().get(f"/api/users/{reader}").json()["database"]["interactions"]]

    wait_until(stored, "the recorder")
    assert stored() == [(item, "like", 1600000000)]
    events = "".join(json.dumps({"user": other, "item": item, "at": 1600000000 + number, "type": kind}) + "\n" for number, kind in enumerate(["share", "view", "vote"]))
    done = subprocess.run([CTL, "import-events", "-", "--kind", "vote=reply", "--json", "--state", service.state],
                          input=events, capture_output=True, text=True, check=True, timeout=240)
    assert json.loads(done.stdout) == {"accepted": 2, "rejected": 0, "left_out": {"views, which are counted when they happen": 1}}


def test_long_lines_of_events_are_sent_within_the_limit_of_a_request(service, name):
    reader, item = name("u"), name("i")
    service.put(item)
    event = {"user": "x" * 10_000, "item": item, "at": 1600000000, "type": "like"}
    events = "".join(json.dumps(each) + "\n" for each in [event] * 998 + [event | {"user": reader}])
    done = subprocess.run([CTL, "import-events", "-", "--json", "--state", service.state],
                          input=events, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 1, done
    assert json.loads(done.stdout) == {"accepted": 1, "rejected": 998, "left_out": {}}


def test_the_schedule_runs_imports(service, site, name, tmp_path):
    path = "/" + name("p")
    site.pages["/feed"] = rss(path)
    (tmp_path / "import.d").mkdir()
    (tmp_path / "import.d" / "blog.conf").write_text(f'feed = "{site.url}/feed"\nhosts = ["127.0.0.1"]\n')
    config = tmp_path / "freshet.toml"
    config.write_text(f'recorder.database = "{tmp_path}/freshet.db"\n')
    internal = f"http://{service.host}:{service.internal_port}"
    arguments = [CTL, "schedule", "import", "--config", str(config), "--base", internal]
    listed = subprocess.run([*arguments, "--json"], capture_output=True, text=True, check=True)
    assert [each["job"] for each in json.loads(listed.stdout)["jobs"]] == ["import blog"]
    schedule = subprocess.Popen([*arguments, "--now"], stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: title(service, path), "the import")
        wait_until(lambda: list((tmp_path / "import").glob("*.json")), "the ids of the import")
    finally:
        schedule.terminate()
        _, output = schedule.communicate(timeout=60)
    assert "job_started" in output
