"""Readers: logins, comments, lists that move, consent, and personal data on WordPress' own screens."""

import html
import io
import json
import os
import re
import subprocess
import zipfile

import pytest
from service import ROOT, wait_until
from test_posts import php_text, publish


def recommended(browser):
    status, text = browser.open("/api/recommendations?limit=100")
    assert status == 200, text
    return [item["id"] for item in json.loads(text)["items"]]


def history(site, reader):
    return site.signed("GET", f"/api/history?userId={reader}")["body"]["items"]


def read(browser, post, dwell_ms=20000):
    """Reports a page as the tag does."""
    status, text = browser.open("/api/track", headers={"Content-Type": "text/plain", "Origin": browser.base}, data=json.dumps({"articleId": str(post), "dwellMs": dwell_ms, "sessionId": "s"}))
    assert status == 200, text


def test_a_login_sets_the_token_and_a_logout_clears_it(site):
    user = site.add_user("ann")
    ann = site.browser().log_in("ann")
    token = ann.cookie("freshet_token")
    assert token.startswith(f"v1.k1.{user}.")
    post = publish(site, "Read by Ann")
    read(ann, post)
    wait_until(lambda: history(site, user) == [str(post)], "the history")
    ann.get(html.unescape(re.search(r"""href=["']([^"']*action=logout[^"']*)["']""", ann.get("wp-admin/profile.php"))[1]))
    assert ann.cookie("freshet_token") is None


def test_a_session_from_before_the_plugin_gets_its_token_and_one_that_ended_loses_it(site):
    site.add_user("bob")
    bob = site.browser().log_in("bob")
    token = bob.cookie("freshet_token")
    bob.cookies.clear(next(each for each in bob.cookies if each.name == "freshet_token").domain, "/", "freshet_token")
    bob.get("wp-admin/profile.php")
    assert bob.cookie("freshet_token") == token
    site.php("WP_Session_Tokens::get_instance(get_user_by('login', 'bob')->ID)->destroy_all();")
    bob.get("")
    assert bob.cookie("freshet_token") is None


def test_a_reader_id_with_special_characters_gets_one_token(site):
    filter_file = site.path("site/wp-content/mu-plugins/reader.php")
    site.write("site/wp-content/mu-plugins/reader.php", "<?php add_filter('freshet_reader_id', fn ($id, $user) => $user->user_email, 10, 2);")
    try:
        site.add_user("lea")
        lea = site.browser().log_in("lea")
        token = lea.cookie("freshet_token")
        assert token.startswith("v1.k1.lea%40example.org."), token
        post = publish(site, "Read by Lea")
        read(lea, post)
        wait_until(lambda: history(site, "lea%40example.org") == [str(post)], "the history")
        forged = next(each for each in lea.cookies if each.name == "freshet_token")
        forged.expires = None
        lea.get("wp-admin/profile.php")
        assert next(each for each in lea.cookies if each.name == "freshet_token") is forged, "it is not set again"
        forged.value = token.replace("lea", "admin")
        lea.get("wp-admin/profile.php")
        assert lea.cookie("freshet_token") == token
        assert next(each for each in lea.cookies if each.name == "freshet_token").expires is None, "a login that ends with the browser stays one"
    finally:
        os.remove(filter_file)


# php-cli lists no headers, so setrawcookie() is replaced in the plugin's namespace.
COOKIES = "namespace Freshet\\WordPress { function setrawcookie($name, $value, $options) { echo json_encode([$name, $options, $value]), \"\\n\"; } function headers_sent() { return false; } }"


def test_no_token_is_sent_before_the_second_factor(site):
    """As the plugin Two-Factor does: no cookie is sent for the password, and the session ends in the same request."""
    user = site.add_user("mia")
    login = f"wp_set_auth_cookie({user}); wp_clear_auth_cookie();"
    sent = lambda code: [json.loads(line) for line in site.php(code, prologue=f"eval({php_text(COOKIES)});").splitlines()]  # noqa: E731
    before = "add_filter('send_auth_cookies', '__return_false', PHP_INT_MAX);"
    assert [(name, value) for name, _, value in sent(before + login)] == [("freshet_token", "")]
    token, cleared = sent("ob_start(); " + login)
    assert token[2].startswith(f"v1.k1.{user}.") and (cleared[0], cleared[1]["expires"], cleared[2]) == ("freshet_token", 1, "")


def test_over_tls_the_cookie_has_the_prefix_that_freshet_requires(site):
    code = "do_action('set_logged_in_cookie', '', 0, time() + 60, 1, 'logged_in', '');"
    stub = COOKIES
    secure = site.php(code, prologue=f"$_SERVER['HTTPS'] = 'on'; eval({php_text(stub)});")
    name, options, _ = json.loads(secure)
    assert name == "__Host-freshet_token" and options["secure"] and options["httponly"] and options["path"] == "/" and "domain" not in options
    plain = site.php(code, prologue=f"eval({php_text(stub)});")
    assert json.loads(plain)[0] == "freshet_token"
    cleared = site.php("$_COOKIE['__Host-freshet_token'] = 'x'; do_action('clear_auth_cookie');", prologue=f"eval({php_text(stub)});")
    assert [json.loads(line)[:2] for line in cleared.splitlines()] == [[name, options | {"expires": 1, "secure": name != "freshet_token"}] for name in ("freshet_token", "__Host-freshet_token")]


def test_a_comment_of_a_user_is_a_reply_once_it_is_approved(site):
    user, post = site.add_user("carl"), publish(site, "Discussed")
    site.php(f"add_filter('pre_comment_approved', '__return_zero'); wp_new_comment(['comment_post_ID' => {post}, 'user_id' => {user}, 'comment_author' => 'Carl', 'comment_author_email' =>"
             " 'carl@example.org', 'comment_author_url' => '', 'comment_content' => 'Well said']);")
    exported = lambda: site.signed("GET", f"/api/users/{user}")["body"]["database"]["interactions"]  # noqa: E731
    assert exported() == []
    comment = site.sql(f"SELECT comment_ID FROM wp_comments WHERE comment_post_ID = {post}")[0][0]
    site.php(f"wp_set_comment_status({comment}, 'approve');")
    wait_until(lambda: [(each["topicId"], each["kind"]) for each in exported()] == [(str(post), "reply")], "the reply")
    site.php(f"wp_set_comment_status({comment}, 'hold'); wp_set_comment_status({comment}, 'approve');")  # the same event
    assert site.waiting() == []
    assert len(exported()) == 1


def test_a_comment_on_the_page_and_one_of_a_visitor(site):
    site.add_user("dora")
    post = publish(site, "Commented")
    dora = site.browser().log_in("dora")
    for browser, fields in ((dora, {}), (site.browser(), {"author": "V", "email": "v@example.org"})):
        status, text = browser.open("wp-comments-post.php", {"comment": f"Hello {len(fields)}", "comment_post_ID": post, "comment_parent": 0} | fields)
        assert status == 200, text
    user = site.sql("SELECT ID FROM wp_users WHERE user_login = 'dora'")[0][0]
    replies = lambda reader: [each for each in site.signed("GET", f"/api/users/{reader}")["body"]["database"]["interactions"] if each["topicId"] == str(post)]  # noqa: E731
    wait_until(lambda: len(replies(user)) == 1, "the reply")
    assert site.sql(f"SELECT COUNT(*) FROM wp_comments WHERE comment_post_ID = {post} AND comment_approved = '1'") == [["2"]]
    assert replies(0) + replies(1) == [] and site.waiting() == []


def test_consent_decides_about_the_tag_and_about_comments(site):
    """The WP Consent API is not in Debian, so a stub stands in for it."""
    user, post = site.add_user("fred"), publish(site, "Consented", post_content='<!-- wp:freshet/recommended {"title":"For you"} /-->')
    stub = "function wp_has_consent($category) {{ return $category === 'statistics' && {}; }}"
    comment = (f"wp_new_comment(['comment_post_ID' => {post}, 'user_id' => {user}, 'comment_author' => 'Fred', 'comment_author_email' => 'fred@example.org', 'comment_author_url' => '',"
               " 'comment_content' => 'Comment ' . wp_rand()]); echo Freshet\\WordPress\\PageScript::waits() ? 'waits' : 'counts';")
    assert site.php(comment, prologue=f"eval({php_text(stub.format('false'))});") == "waits"
    comment_id = site.sql(f"SELECT comment_ID FROM wp_comments WHERE comment_post_ID = {post}")[0][0]
    site.php(f"wp_set_comment_status({comment_id}, 'hold'); wp_set_comment_status({comment_id}, 'approve');")  # by a moderator
    assert site.waiting() == [] and site.signed("GET", f"/api/users/{user}")["body"]["database"]["interactions"] == []
    assert site.php(comment.replace("Comment ", "Other "), prologue=f"eval({php_text(stub.format('true'))});") == "waits"
    wait_until(lambda: len(site.signed("GET", f"/api/users/{user}")["body"]["database"]["interactions"]) == 1, "the reply")
    assert "&quot;consent&quot;" not in site.browser().get("consented/")
    site.save_settings(consent="1")
    page = site.browser().get("consented/")
    assert "&quot;consent&quot;:&quot;wait&quot;" in page and "assets/consent.js" in page
    assert re.search(r'<h2 [^>]*hidden>For you</h2><ol [^>]*hidden style="min-height:5lh"', page), "no space is reserved before the reader agrees"
    site.save_settings()


def test_the_filter_of_reader_ids(site):
    code = "add_filter('freshet_reader_id', fn ($id, $user) => $user->user_login === 'kim' ? '' : \"u$id\", 10, 2);"
    kim, stub = site.add_user("kim"), "namespace Freshet\\WordPress { function setrawcookie($name, $value) { echo $value, ' '; } function headers_sent() { return false; } }"
    site.php(code + f"wp_insert_post(['post_title' => 'By Kim', 'post_status' => 'publish', 'post_author' => {kim}]); wp_insert_post(['post_title' => 'By u1', 'post_status' => 'publish', 'post_author' => 1]);")
    by_kim, by_admin = (site.item(site.sql(f"SELECT ID FROM wp_posts WHERE post_title = '{title}' AND post_type = 'post'")[0][0]) for title in ("By Kim", "By u1"))
    assert by_admin["author_id"] == "u1" and by_kim.get("author_id", "Kim") == "Kim"
    cookies = site.php(code + f"foreach ([{kim}, 1] as $user) {{ do_action('set_logged_in_cookie', '', 0, time() + 60, $user, 'logged_in', ''); }}", prologue=f"eval({php_text(stub)});")
    assert cookies.startswith("v1.k1.u1.") and cookies.count("v1.") == 1


def test_lists_are_on_the_page_and_hide_what_is_not_public(site):
    site.sql("DELETE FROM wp_options WHERE option_name LIKE '%freshet_hot%'")
    shown, hidden = publish(site, "Shown & seen"), publish(site, "Hidden soon")
    for post in (shown, hidden):
        assert site.signed("POST", "/api/track", {"articleId": str(post), "dwellMs": 1000, "sessionId": "s", "userId": "77"})["status"] == 200
    front = publish(site, "Front", post_content='<!-- wp:freshet/hot {"limit":50,"title":"Most <read>","model":"engagement"} /-->[freshet_recommended limit=3]', post_type="page")

    def page():
        site.sql("DELETE FROM wp_options WHERE option_name LIKE '%freshet_hot%'")
        return site.browser().get(f"?p={front}")

    wait_until(lambda: "Hidden soon" in page(), "both posts")
    text = page()
    assert f'<li><a href="{site.base}/shown-seen/">Shown &amp; seen</a></li>' in text and "Most &lt;read&gt;</h2>" in text
    options = json.loads(re.search(r'data-freshet-list="([^"]*)"', text)[1].replace("&quot;", '"'))
    assert (options["list"], options["limit"], options["reasons"]["rising"]) == ("recommended", 3, "Rising now")
    assert re.search(r'''<script defer [^>]*src=["']/freshet-list\.js["']''', text) and "data-freshet=" not in text
    site.sql(f"UPDATE wp_posts SET post_status = 'private' WHERE ID = {hidden}")  # Freshet does not know yet
    text = site.browser().get(f"?p={front}")
    assert "Shown &amp; seen" in text and "Hidden soon" not in text
    # The post's own page leaves the post out, and has the tag.
    site.php(f"wp_update_post(['ID' => {shown}, 'post_content' => '[freshet_hot limit=50]']);")
    text = site.browser().get("shown-seen/")
    assert f'/shown-seen/">Shown' not in text.split("freshet-hot")[-1].split("</ol>")[0]  # noqa: F541
    assert f"data-freshet=\"{{&quot;article&quot;:&quot;{shown}&quot;" in text


def test_the_filter_of_lists_and_the_widget(site):
    out = site.php("add_filter('freshet_list_html', fn ($html, $items, $arguments) => \"[{$arguments['list']} {$arguments['limit']}]\", 10, 3);"
                   "echo do_shortcode('[freshet_hot limit=\"7\"]'), do_shortcode('[freshet_recommended limit=\"999\"]');"
                   "the_widget('Freshet\\WordPress\\ListWidget', ['title' => '<b>T</b>', 'list' => 'recommended', 'limit' => 2]);")
    shown = site.php("the_widget('Freshet\\WordPress\\ListWidget', ['title' => 'T', 'list' => 'recommended', 'limit' => 2]);")
    assert re.search(r'<div id="(freshet-title-\d+)"><h2 class="widgettitle">T</h2></div><ol class="[^"]*" aria-labelledby="\1" style="min-height:2lh"', shown), shown
    assert "[hot 7][recommended 50]" in out and "[recommended 2]" in out and "<b>" not in out


def test_pages_are_complete_while_freshet_is_down_and_have_lists_again_when_it_is_back(site):
    post = publish(site, "Outage")
    assert site.signed("POST", "/api/track", {"articleId": str(post), "dwellMs": 1000, "sessionId": "s", "userId": "78"})["status"] == 200
    front = publish(site, "During an outage", post_content="[freshet_hot limit=50 model=engagement]The end", post_type="page")

    def page():
        site.php("delete_transient('freshet_down');")
        site.sql("DELETE FROM wp_options WHERE option_name LIKE '%freshet_hot%'")
        return site.browser().get(f"?p={front}")

    wait_until(lambda: "freshet-hot" in page(), "the list")
    (seconds,), = site.sql("SELECT option_value - UNIX_TIMESTAMP() FROM wp_options WHERE option_name LIKE '\\_transient\\_timeout\\_freshet\\_hot%'")
    assert 0 < int(seconds) <= 30
    site.stop_freshet()
    try:
        site.sql("UPDATE wp_options SET option_value = UNIX_TIMESTAMP() + 30 WHERE option_name LIKE '\\_transient\\_timeout\\_freshet\\_hot%'")
        assert "freshet-hot" in site.browser().get(f"?p={front}")  # the copy of the last half minute
        text = page()
        assert "The end" in text and "freshet-hot" not in text
        assert site.sql("SELECT option_name FROM wp_options WHERE option_name LIKE '%freshet\\_hot%'") == []  # the failure is no empty list
    finally:
        site.start_freshet()
    wait_until(lambda: "freshet-hot" in page(), "the list")


def confirmed_request(site, action, email):
    """A confirmed request of WordPress' privacy screens; returns its id."""
    return int(site.php(f"$id = wp_create_user_request('{email}', '{action}'); wp_update_post(['ID' => $id, 'post_status' => 'request-confirmed']); echo $id;"))


def run_request(site, admin, action, request):
    """Calls the screen's Ajax actions until they are done, as its script does. Returns the answers of Freshet's part."""
    kind, word = {"export_personal_data": ("export", "exporters"), "remove_personal_data": ("erase", "erasers")}[action]
    page = admin.get(f"wp-admin/{kind}-personal-data.php")
    found = re.search(rf'data-request-id="{request}"[^>]*data-nonce="(\w+)"', page) or re.search(rf'data-nonce="(\w+)"[^>]*data-request-id="{request}"', page)
    count = int(re.search(rf'data-{word}-count="(\d+)"', page)[1])
    answers = []
    index, part = 1, 1
    while index <= count:
        answer = json.loads(admin.post("wp-admin/admin-ajax.php", {"action": f"wp-privacy-{kind}-personal-data", word[:-1]: index, "id": request, "page": part, "security": found[1], "sendAsEmail": "false"}))
        assert answer["success"], answer
        answers.append(answer["data"])
        index, part = (index + 1, 1) if answer["data"]["done"] else (index, part + 1)
    return answers


def test_export_and_erasure_on_wordpress_own_screens(site, admin):
    user, other = site.add_user("gina"), site.add_user("hugo")
    post, disliked = publish(site, "What Gina read"), publish(site, "What Gina dislikes")
    for reader in (user, other):
        assert site.signed("POST", "/api/history", {"userId": str(reader), "topicId": str(post)})["status"] == 200
    assert site.signed("POST", "/api/interactions", {"userId": str(user), "topicId": str(post), "kind": "like"})["status"] == 200
    assert site.signed("POST", "/api/feedback", {"userId": str(user), "topicId": str(disliked), "kind": "not_interested", "reason": "too long"})["status"] == 200
    exported = lambda: site.signed("GET", f"/api/users/{user}")["body"]  # noqa: E731
    wait_until(lambda: exported()["database"]["interactions"] and exported()["database"]["not_interested"], "the rows of the database")
    answers = run_request(site, admin, "export_personal_data", confirmed_request(site, "export_personal_data", "gina@example.org"))
    url = answers[-1]["url"]
    with site.browser()._opener.open(url) as reply:
        report = zipfile.ZipFile(io.BytesIO(reply.read())).read("index.html").decode()
    for text in ("What Gina read", "Liked", "What Gina dislikes", "too long", "What you did (Freshet)", "Posts you read"):
        assert text in report, (text, report[-5000:])
    assert "user:" not in report and "zset" not in report
    answers = run_request(site, admin, "remove_personal_data", confirmed_request(site, "remove_personal_data", "gina@example.org"))
    assert any(answer["items_removed"] for answer in answers)
    data = exported()
    assert data["redis"] == [] and data["database"]["interactions"] == [] and data["database"]["not_interested"] == []
    assert history(site, other) == [str(post)]


def test_the_screens_say_that_freshet_is_down(site):
    site.add_user("john")
    site.php(f"update_option('freshet', ['address' => 'http://{site.freshet.host}:1'] + get_option('freshet'));")
    try:
        code = ("$exported = Freshet\\WordPress\\Privacy::export('john@example.org'); echo $exported->get_error_message(), '|';"
                "echo json_encode(Freshet\\WordPress\\Privacy::erase('john@example.org'));")
        assert site.php("echo Freshet\\WordPress\\Privacy::export('john@example.org', 2)->get_error_message();") == "The export took too long. Start it again."
        contents = "$method = new ReflectionMethod('Freshet\\WordPress\\Privacy', 'contents'); $method->setAccessible(true); echo $method->invoke(null, ['key' => '%s', 'value' => range(1000000, 1000599)]);"
        assert site.php(contents % "user:views:topic:{1}").endswith(", 1000499 and 100 more") and site.php(contents % "x:{1}") == "600 entries, which only the service can read"
        exported, erased = site.php(code).split("|")
        assert exported.startswith("Freshet did not export the data: the service is unreachable")
        erased = json.loads(erased)
        assert erased["items_retained"] and not erased["items_removed"] and erased["messages"][0].startswith("Freshet did not erase the data")
    finally:
        site.php(f"update_option('freshet', ['address' => '{site.internal}'] + get_option('freshet'));")


def test_a_deleted_user_is_erased_and_posts_get_their_new_author(site):
    user = site.add_user("ivan", "author")
    post = publish(site, "Inherited", post_author=user)
    assert site.signed("POST", "/api/history", {"userId": str(user), "topicId": str(post)})["status"] == 200
    path = site.write("no-cron", "")
    try:
        site.php(f"wp_delete_user({user}, 1);")
        assert ("erase", str(user)) in site.waiting(), "until Freshet says that it is done"
        wait_until(lambda: site.signed("GET", f"/api/users/{user}")["body"]["redis"] == [], "the erasure")
        wait_until(lambda: site.waiting() == [] or site.send_due(), "the post and the end of the erasure")
    finally:
        os.remove(path)
    assert site.item(post)["author"] == "admin"
    assert site.sql("SELECT option_name FROM wp_options WHERE option_name LIKE '%freshet_deleted%'") == []


def test_an_erasure_whose_job_is_lost_is_repeated(site):
    path = site.write("no-cron", "")
    try:
        assert site.signed("POST", "/api/history", {"userId": "4711", "topicId": "1"})["status"] == 200
        site.php("set_transient('freshet_deleted_' . md5('4711'), 'lost', 600); Freshet\\WordPress\\Queue::add('erase', '4711');")
        assert site.signed("GET", "/api/users/4711")["body"]["redis"] != []
        wait_until(lambda: site.waiting() == [] or site.send_due(), "the erasure")
        assert site.signed("GET", "/api/users/4711")["body"]["redis"] == []
    finally:
        os.remove(path)


def test_the_id_of_a_deleted_user_is_known_although_the_meta_data_is_gone(site):
    user = site.add_user("nina")
    code = f"add_filter('freshet_reader_id', fn ($id, $user) => get_user_meta($user->ID, 'number', true) ?: '', 10, 2); update_user_meta({user}, 'number', 'n-17');"
    assert site.php(code + f"wp_delete_user({user}); global $wpdb; echo $wpdb->get_var(\"SELECT object FROM wp_freshet_queue WHERE kind = 'erase'\");") == "n-17"


def test_feeds_have_no_lists_and_scripts_keep_their_attributes(site):
    publish(site, "In a feed", post_content="[freshet_hot limit=50][freshet_recommended]After the lists")
    feed = site.browser().get("?feed=rss2")
    assert "After the lists" in feed and "freshet-" not in feed
    code = ("add_filter('script_loader_tag', fn ($tag) => str_replace('<script ', '<script nonce=\"n\" ', $tag), 5);"
            "add_filter('script_loader_tag', fn ($tag) => \"<script>before()</script>\\n$tag\", 7); wp_scripts()->do_items(['freshet-tag']);")
    before, tag = site.php(code).strip().splitlines()
    assert before == "<script>before()</script>"
    assert re.fullmatch(r'''<script defer data-freshet="[^"]*" nonce="n" src=["']/freshet\.js["'] id=["']freshet-tag-js["']></script>''', tag), tag


@pytest.mark.skipif(not os.path.exists(f"{ROOT}/tests/browser/node_modules"), reason="npm packages are missing; ./scripts/deps test")
def test_in_chromium(site):
    site.add_user("vera")
    done = subprocess.run(["node", "--test", "--test-reporter", "spec", f"{ROOT}/tests/wordpress/readers.test.mjs"], text=True, capture_output=True, timeout=280, check=False,
                          env=os.environ | {"WORDPRESS": site.base, "WORDPRESS_PASSWORD": __import__("wordpress_site").PASSWORD})
    assert done.returncode == 0, done.stdout + done.stderr
