"""Posts in WordPress and their items in Freshet."""

import json
import os
import re
import socket
import threading
import time

import pytest
from service import wait_until


def publish(site, title="A title", **members):
    values = ", ".join(f"'{name}' => {value if isinstance(value, int) else repr(value)}" for name, value in
                       ({"post_title": title, "post_status": "publish", "post_content": "<p>Some text</p>", "post_author": 1} | members).items())
    return int(site.php(f"kses_remove_filters(); echo wp_insert_post([{values}]);"))


def test_a_post_is_sent_when_it_is_published_and_again_when_it_is_edited(site):
    post = publish(site, "Tom &amp; <em>Jerry</em>", tags_input="one")
    assert site.waiting() == []
    item = site.item(post)
    assert (item["title"], item["author"], item["author_id"], item["tags"], item["text_format"]) == ("Tom & Jerry", "admin", "1", ["one"], "html")
    assert item["url"] == f"{site.base}/tom-jerry/" and abs(item["published_at"] - time.time()) < 300 and "Some text" in item["text"]
    site.php(f"wp_update_post(['ID' => {post}, 'post_title' => 'Edited']); wp_set_post_tags({post}, ['two'], true);")
    assert (site.item(post)["title"], sorted(site.item(post)["tags"])) == ("Edited", ["one", "two"])
    site.php(f"wp_set_post_tags({post}, ['three']);")
    assert site.item(post)["tags"] == ["three"]


def test_the_editor_sends_terms_with_the_post(site, admin):
    """The block editor saves by REST: terms come after the post."""
    site.php("wp_insert_term('Politics', 'category'); wp_insert_term('budget', 'post_tag');")
    category, tag = site.php("echo get_term_by('name', 'Politics', 'category')->term_id, ' ', get_term_by('name', 'budget', 'post_tag')->term_id;").split()
    nonce = admin.get("wp-admin/admin-ajax.php?action=rest-nonce")
    status, text = admin.open("index.php?rest_route=/wp/v2/posts", {"title": "By REST", "status": "publish", "categories[]": category, "tags[]": tag}, headers={"X-WP-Nonce": nonce})
    assert status == 201, text
    post = site.sql("SELECT MAX(ID) FROM wp_posts WHERE post_title = 'By REST' AND post_type = 'post'")[0][0]
    item = site.item(post)
    assert (item["tags"], item["section"]) == (["budget", "Politics"], "Politics")


def test_trash_brings_an_item_down_and_restoring_brings_it_back(site):
    post = publish(site)
    site.php(f"wp_trash_post({post});")
    assert site.item(post) is None
    site.php(f"wp_untrash_post({post}); wp_publish_post({post});")
    assert site.item(post)
    site.php(f"wp_delete_post({post}, true);")
    assert site.item(post) is None


@pytest.mark.parametrize("change", ["'post_status' => 'private'", "'post_password' => 'secret'", "'post_status' => 'draft'", "'post_type' => 'page'"])
def test_a_post_that_is_not_public_any_more_is_deleted(site, change):
    post = publish(site)
    assert site.item(post)
    site.php(f"wp_update_post(['ID' => {post}, {change}]);")
    assert site.item(post) is None
    assert site.sql(f"SELECT COUNT(*) FROM wp_postmeta WHERE post_id = {post} AND meta_key = '_freshet_sent'") == [["0"]]


@pytest.mark.parametrize("change", ["'post_status' => 'private'", "'post_password' => 'secret'"])
def test_a_post_that_stops_being_public_while_it_is_being_sent_is_deleted(site, change):
    """Another request, whose caches are older, changes the post after it was read for the call. Pages have no terms, which also queue."""
    site.php("update_option('freshet', ['post_types' => ['page']] + get_option('freshet'));")
    during = ("add_filter('freshet_item', function ($item, $post) { static $done = false; if (!$done) { $done = true; wp_cache_set($post->ID, [], 'post_meta');"
              f" wp_update_post(['ID' => $post->ID, {change}]); }} return $item; }}, 10, 2);")
    try:
        site.php(during + "wp_insert_post(['post_title' => 'Racing', 'post_type' => 'page', 'post_status' => 'publish']);")
        (post,) = site.sql("SELECT MAX(ID) FROM wp_posts WHERE post_title = 'Racing' AND post_type = 'page'")[0]
        wait_until(lambda: site.waiting() == [] or site.send_due(), "the queue to be sent")
        assert site.item(post) is None
    finally:
        site.php("update_option('freshet', ['post_types' => ['post']] + get_option('freshet'));")


def test_a_deleted_post_whose_type_is_no_longer_chosen_is_deleted(site):
    post = publish(site, "Of a former type")
    site.php("update_option('freshet', ['post_types' => ['page']] + get_option('freshet'));")
    try:
        site.php(f"wp_delete_post({post}, true);")
        assert site.item(post) is None
    finally:
        site.php("update_option('freshet', ['post_types' => ['post']] + get_option('freshet'));")


@pytest.mark.parametrize("members", [{"post_status": "private"}, {"post_status": "draft"}, {"post_password": "secret"}, {"post_type": "page"}, {"post_status": "pending"}])
def test_a_post_that_was_never_public_is_not_sent(site, members):
    assert site.item(publish(site, **members)) is None
    assert site.waiting() == []


def test_a_scheduled_post_is_under_embargo_until_its_date(site):
    at = int(time.time()) + 3600
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
    post = publish(site, "Tomorrow", post_status="future", post_date=stamp, post_date_gmt=stamp)
    assert site.item(post)["published_at"] == at
    assert str(post) not in [item["id"] for item in site.hot()]
    # The date is moved to now, as if it had come.
    past = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() - 60))
    site.sql(f"UPDATE wp_posts SET post_date = '{past}', post_date_gmt = '{past}' WHERE ID = {post}")
    site.php(f"check_and_publish_future_post({post});")
    assert site.item(post)["published_at"] <= time.time()
    assert site.item(post)["url"] == f"{site.base}/tomorrow/"
    wait_until(lambda: str(post) in [item["id"] for item in site.hot()], "the post on the hot list")


def test_the_filter_of_items_can_change_and_withhold_them(site):
    code = "add_filter('freshet_item', fn ($item, $post) => str_contains($post->post_title, 'secret') ? null : ['section' => 'Filtered'] + $item, 10, 2);"
    site.php(code + "$GLOBALS['posts'] = [wp_insert_post(['post_title' => 'open', 'post_status' => 'publish']), wp_insert_post(['post_title' => 'secret', 'post_status' => 'publish'])];"
             "echo implode(' ', $GLOBALS['posts']);")
    (shown,), (withheld,) = (site.sql(f"SELECT ID FROM wp_posts WHERE post_title = '{title}' AND post_type = 'post'")[0] for title in ("open", "secret"))
    assert site.item(shown)["section"] == "Filtered" and site.item(withheld) is None


def test_a_post_without_title_and_with_strange_terms_is_accepted(site):
    post = publish(site, "", post_content="<!-- wp:paragraph --><p>One two three four five six seven eight nine ten eleven twelve thirteen</p>", tags_input=", ".join(["x" * 90, *map(str, range(150))]))
    item = site.item(post)
    assert item["title"] == "One two three four five six seven eight nine ten eleven twelve…"
    assert len(item["tags"]) == 100 and max(map(len, item["tags"])) <= 64


def test_a_new_name_of_an_author_reaches_the_authors_posts(site):
    user = site.add_user("walt", "author")
    posts = [publish(site, f"By Walt {number}", post_author=user) for number in range(2)]
    site.php(f"wp_update_user(['ID' => {user}, 'display_name' => 'Walter']);")
    site.send_due()
    wait_until(lambda: site.waiting() == [], "the posts to be sent")
    assert [site.item(post)["author"] for post in posts] == ["Walter"] * 2


@pytest.fixture
def no_cron(site):
    """Cron runs only when the test calls it."""
    path = site.write("no-cron", "")
    wait_until(lambda: not site.php("echo get_transient('doing_cron');"), "cron to end")
    yield
    os.remove(path)


@pytest.mark.usefixtures("no_cron")
def test_changes_wait_while_freshet_is_down_and_arrive_when_it_is_back(site):
    known = publish(site, "Known")
    site.stop_freshet()
    try:
        posts = [publish(site, f"Waiting {number}") for number in range(3)]
        site.php(f"wp_delete_post({known}, true);")
        assert len(site.waiting()) == 4
        site.send_due()  # fails, and keeps everything
        wait_until(lambda: site.sql("SELECT MIN(attempts) >= 2 FROM wp_freshet_queue") == [["1"]], "cron's attempt")
        assert len(site.waiting()) == 4
        assert site.sql("SELECT MIN(due) > UNIX_TIMESTAMP() + 30 FROM wp_freshet_queue") == [["1"]]
        wait_until(lambda: site.php("echo wp_next_scheduled('freshet_send') > time() ? 'later' : 'now';") == "later", "the next attempt to be scheduled")
    finally:
        site.start_freshet()
    site.send_due()
    wait_until(lambda: site.waiting() == [], "the queue to be sent")
    assert [site.item(post)["title"] for post in posts] == [f"Waiting {number}" for number in range(3)]
    assert site.item(known) is None


class Silent:
    """A server that accepts connections and requests, and never answers."""

    def __init__(self, host):
        self._socket = socket.create_server((host, 0))
        self.address = f"http://{host}:{self._socket.getsockname()[1]}"
        self.connections = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                self.connections.append(self._socket.accept()[0])
            except OSError:
                return

    def close(self):
        self._socket.close()
        for each in self.connections:
            each.close()


@pytest.fixture
def silent(site, no_cron):  # cron would connect, too
    server = Silent(site.freshet.host)
    site.php(f"update_option('freshet', ['address' => '{server.address}'] + get_option('freshet'));")
    yield server
    server.close()
    site.php(f"update_option('freshet', ['address' => '{site.internal}'] + get_option('freshet'));")


# Prints the limit of each call of Freshet, in milliseconds.
LIMITS = "namespace Freshet { function curl_setopt_array($curl, $options) { echo 'limit ', $options[CURLOPT_TIMEOUT_MS], ';'; return \\curl_setopt_array($curl, $options); } }"


def limits(site, code):
    return [int(limit) for limit in re.findall(r"limit (\d+);", site.php(code, prologue=f"eval({php_text(LIMITS)});"))]


def test_saving_many_posts_waits_once_for_a_server_that_does_not_answer(site, silent):
    assert limits(site, "foreach (range(1, 5) as $n) { wp_insert_post(['post_title' => \"Silent $n\", 'post_status' => 'publish']); }") == [300]
    assert len(silent.connections) == 1
    assert len(site.waiting()) == 5
    publish(site, "Silent again")  # the failure is remembered
    assert len(silent.connections) == 1


def test_the_calls_of_a_page_have_300_ms_together(site):
    site.sql("DELETE FROM wp_options WHERE option_name LIKE '%freshet_hot%'")
    found = limits(site, "foreach (range(1, 4) as $n) { do_shortcode(\"[freshet_hot limit=$n]\"); }")
    assert found[0] == 300 and found == sorted(found, reverse=True) and found[3] < 300, found
    spend = "Freshet\\WordPress\\Service::page_call(function () { usleep(290000); return []; });"
    assert limits(site, spend + "do_shortcode('[freshet_hot limit=40]');") == []
    site.sql("DELETE FROM wp_options WHERE option_name LIKE '%freshet_hot%'")


def test_a_page_waits_once_for_a_server_that_does_not_answer(site, silent):
    page = publish(site, "Lists", post_content="[freshet_hot limit=2][freshet_hot limit=3]After the lists")
    site.php("delete_transient('freshet_down');")
    silent.connections.clear()
    for _ in range(3):
        text = site.browser().get(f"?p={page}")
        assert "After the lists" in text and "freshet-hot" not in text
    assert len(silent.connections) == 1


def test_a_post_that_freshet_refuses_is_named_on_the_settings_page_and_does_not_wait(site, admin):
    code = "add_filter('freshet_item', fn ($item) => ['url' => 'javascript:x'] + $item);"
    site.php(code + "wp_insert_post(['post_title' => 'Refused', 'post_status' => 'publish']);")
    post = site.sql("SELECT ID FROM wp_posts WHERE post_title = 'Refused'")[0][0]
    assert site.waiting() == []
    page = admin.get("wp-admin/options-general.php?page=freshet")
    refused = page.partition("Refused</h2>")[2][:1000]
    assert f"item {post}" in refused and "url" in refused, refused


@pytest.mark.usefixtures("no_cron")
@pytest.mark.parametrize("item, word", [("throw new Error('no such field');", "no such field"), ("return ['score' => NAN] + $item;", "Inf and NaN"),
                                        ("return ['text' => str_repeat('x', 9 << 20)] + $item;", "")])
def test_a_post_that_cannot_be_sent_does_not_hold_up_others(site, item, word):
    """A filter that fails, that returns what is no JSON, or a line for which Freshet refuses the whole call."""
    path = site.path("site/wp-content/mu-plugins/item.php")
    site.stop_freshet()
    try:
        bad, *good = (publish(site, title) for title in ("Bad", "Good 1", "Good 2"))
    finally:
        site.start_freshet()
    site.write("site/wp-content/mu-plugins/item.php", f"<?php add_filter('freshet_item', function ($item, $post) {{ if ($post->post_title !== 'Bad') {{ return $item; }} {item} }}, 10, 2);")
    try:
        site.send_due()
        wait_until(lambda: site.waiting() == [], "the queue to be sent")
    finally:
        os.remove(path)
    assert all(site.item(post) for post in good) and site.item(bad) is None
    (refused,) = json.loads(site.php("echo json_encode(get_option('freshet_refused'));"))
    assert refused["object"] == str(bad) and word in refused["message"], refused


def test_all_posts_are_sent_in_batches_and_stale_ones_deleted(site, admin):
    with_delay = publish(site, "Will be lost")
    site.signed("DELETE", f"/api/items/{with_delay}")
    stale = publish(site, "Will be stale")
    site.sql(f"UPDATE wp_posts SET post_status = 'private' WHERE ID = {stale}")  # a program that calls no hook
    site.sql("INSERT INTO wp_posts (post_author, post_date, post_date_gmt, post_content, post_title, post_excerpt, post_status, post_name, to_ping, pinged, post_modified,"
             " post_modified_gmt, post_content_filtered) SELECT 1, NOW(), UTC_TIMESTAMP(), 'bulk', CONCAT('Bulk ', seq), '', 'publish', CONCAT('bulk-', seq), '', '', NOW(),"
             " UTC_TIMESTAMP(), '' FROM seq_1_to_120")
    text = site.ajax(admin, "send_all")["text"]
    assert "posts sent" in text
    wait_until(lambda: site.ajax(admin, "progress")["left"] == 0, "all posts to be sent")
    assert site.item(with_delay)["title"] == "Will be lost" and site.item(stale) is None
    bulk = [row[0] for row in site.sql("SELECT ID FROM wp_posts WHERE post_content = 'bulk'")]
    assert len(bulk) == 120 and all(site.item(post) for post in bulk[::17])
    text = site.ajax(admin, "progress")["text"]
    (known,) = site.sql("SELECT COUNT(*) FROM wp_postmeta WHERE meta_key = '_freshet_sent'")[0]
    assert text == f"{int(known) + 1} of {int(known) + 1} posts sent.", "with the deleted one"
    site.php("foreach (get_posts(['numberposts' => -1, 's' => 'bulk']) as $post) { wp_delete_post($post->ID, true); }")


@pytest.mark.usefixtures("no_cron")
def test_a_change_while_a_post_is_being_sent_is_sent_next(site):
    post = publish(site, "First version")
    during = ("add_filter('freshet_item', function ($item) { static $done = false; global $wpdb; if (!$done) { $done = true; $wpdb->query(\"UPDATE wp_freshet_queue SET"
              " version = version + 1\"); } return $item; });")
    site.php(during + f"wp_update_post(['ID' => {post}, 'post_title' => 'Second version']);")
    assert site.waiting() == [("item", str(post))]
    site.send_due()
    wait_until(lambda: site.waiting() == [], "the post to be sent again")


@pytest.mark.usefixtures("no_cron")
def test_only_one_process_at_a_time_sends_a_post(site):
    post = publish(site, "First")
    site.sql(f"INSERT INTO wp_freshet_queue (kind, object, version, due, claimed, claim) VALUES ('item', '{post}', 1, 0, UNIX_TIMESTAMP() + 60, 'other')")
    site.php(f"wp_update_post(['ID' => {post}, 'post_title' => 'Second']);")
    assert site.item(post)["title"] == "First"  # the other process sends it
    assert site.sql("SELECT version, claim FROM wp_freshet_queue") != [] and site.waiting() == [("item", str(post))]
    site.send_due()
    wait_until(lambda: site.waiting() == [], "the post to be sent")
    assert site.item(post)["title"] == "Second"


@pytest.mark.usefixtures("no_cron")
def test_sending_a_post_purges_no_page_caches(site):
    post = publish(site, "Cached")
    site.signed("DELETE", f"/api/items/{post}")
    code = "add_action('clean_post_cache', function () { echo 'purged'; }); Freshet\\WordPress\\Queue::add('item', '%d'); Freshet\\WordPress\\Queue::run();"
    assert site.php(code % post) == "" and site.item(post)["title"] == "Cached"


@pytest.mark.usefixtures("no_cron")
def test_a_missing_table_is_made_again(site):
    site.sql("DROP TABLE wp_freshet_queue")
    try:
        site.php("$wpdb->suppress_errors(); wp_insert_post(['post_title' => 'Without a table', 'post_status' => 'publish']);")
        (post,) = site.sql("SELECT MAX(ID) FROM wp_posts WHERE post_title = 'Without a table' AND post_type = 'post'")[0]
        assert site.waiting() == [] and site.item(post)
    finally:
        site.php("Freshet\\WordPress\\Queue::create_table();")


COMMANDS = """
class WP_CLI {
    public static array $commands = [];
    public static function add_command($name, $class) { self::$commands[$name] = $class; }
    public static function log($text) { echo "log: $text\\n"; }
    public static function warning($text) { echo "warning: $text\\n"; }
    public static function success($text) { echo "success: $text\\n"; }
    public static function error($text) { echo "error: $text\\n"; exit(1); }
}
"""


def test_the_commands_of_wp_cli(site):
    """WP-CLI is not in Debian, so a stub stands in for it."""
    bar = "namespace WP_CLI\\Utils { function make_progress_bar($label, $total) { return new class { function tick($n = 1) {} function finish() {} }; } }"
    prologue = "define('WP_CLI', true); eval(" + php_text(bar) + "); eval(" + php_text(COMMANDS) + ");"
    lost = publish(site, "Lost")
    site.signed("DELETE", f"/api/items/{lost}")
    out = site.php("(new (WP_CLI::$commands['freshet']))->import(); (new (WP_CLI::$commands['freshet']))->status();", prologue=prologue)
    assert "success: " in out and "log: Freshet accepts the internal key k1." in out and "log: 0 writes wait, 0 were refused." in out, out
    assert "log: Freshet accepts the token key." in out and "warning" not in out, out
    assert site.item(lost)["title"] == "Lost"


def php_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
