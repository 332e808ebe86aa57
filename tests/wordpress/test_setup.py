"""From the zip to a connection: installation, settings, and the test of the connection. The first file, because it needs a site
without the plugin.
"""

import html
import http.server
import os
import re
import subprocess
import threading
import zipfile

import pytest
from wordpress_site import INTERNAL_KEY, ROOT, TOKEN_KEY


def test_the_zip_is_reproducible_and_complete(archive, tmp_path):
    for mask in (0o022, 0o077):
        subprocess.run([f"{ROOT}/scripts/wordpress/build-zip", tmp_path], check=True, umask=mask, env=os.environ | {"TZ": f"UTC{mask}"})
        assert (tmp_path / "freshet.zip").read_bytes() == archive.read_bytes()
    names = zipfile.ZipFile(archive).namelist()
    assert all(name.startswith("freshet/") for name in names)
    assert {"freshet/freshet.php", "freshet/readme.txt", "freshet/uninstall.php", "freshet/LICENSE", "freshet/includes/Freshet.php"} <= set(names)


def test_the_plugin_is_installed_from_the_zip_and_sends_nothing_before_it_is_set_up(fresh_site, archive, admin):
    fresh_site.install_plugin(archive)
    assert fresh_site.php("echo is_plugin_active('freshet/freshet.php') ? 'active' : 'not';") == "active"
    fresh_site.php("wp_insert_post(['post_title' => 'Early', 'post_status' => 'publish', 'post_content' => 'x']);")
    assert fresh_site.waiting() == []
    assert "data-freshet" not in fresh_site.browser().get("early/")
    page = admin.get("wp-admin/options-general.php?page=freshet")
    assert re.search(r'id="freshet-send-all" disabled', page)


def test_settings_are_checked_and_keys_never_shown(fresh_site, admin):
    assert fresh_site.save_settings(address="ftp://x", prefix="no prefix") == [
        "The internal address must be http://HOST:PORT or https://HOST:PORT.", "The public prefix must be empty, a path such as /freshet, or an address."]
    assert fresh_site.save_settings() == ["Settings saved."]
    page = admin.get("wp-admin/options-general.php?page=freshet")
    assert INTERNAL_KEY not in page and TOKEN_KEY not in page and fresh_site.internal in page
    fresh_site.save_settings(internal_key="", token_key="", **{"forget_token_key": "1"})
    stored = fresh_site.php("echo get_option('freshet')['internal_key'], ' ', get_option('freshet')['token_key'], '.';")
    assert stored == f"{INTERNAL_KEY} ."
    fresh_site.save_settings()


def results(site, admin, **changes):
    return [(each["ok"], each["text"]) for each in site.ajax(admin, "test", **site.settings(**changes))]


def test_the_test_of_the_connection_says_what_is_wrong(site, admin):
    good = results(site, admin)
    assert [ok for ok, _ in good] == [True, True, True] and "internal key k1" in good[0][1] and "token key" in good[1][1] and "freshetctl train" in good[2][1], good
    assert good == results(site, admin, internal_key="", token_key="")  # blank: the saved ones
    for changes, word in (({"address": f"http://{site.freshet.host}:1"}, "does not answer at"), ({"internal_key": "k1:" + "x" * 32}, "refuses the internal key"),
                          ({"internal_key": f"k2:{INTERNAL_KEY}"}, "ID:SECRET"), ({"internal_key": "", "forget_internal_key": "1"}, "requires the internal key"),
                          ({"address": f"http://{site.freshet.host}:{site.freshet.port}"}, "public server"), ({"address": site.base}, "public server")):
        found = results(site, admin, **changes)
        assert len(found) == 1 and not found[0][0] and word in found[0][1], (changes, found)
    assert results(site, admin, address="ftp://x", prefix="no prefix") == [
        (False, "The internal address must be http://HOST:PORT or https://HOST:PORT."), (False, "The public prefix must be empty, a path such as /freshet, or an address.")]
    found = results(site, admin, token_key="k1:" + "x" * 32)
    assert [ok for ok, _ in found] == [True, False, True] and "identity.token_keys" in found[1][1], found


@pytest.mark.parametrize("body", ["{}", "<p>It works</p>"])
def test_the_test_of_the_connection_recognizes_another_server(site, admin, body):
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer((site.freshet.host, 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://{site.freshet.host}:{server.server_port}"
        assert results(site, admin, address=address) == [(False, f"Something else than Freshet’s internal server answers at {address}.")]
        server.shutdown()


def test_only_administrators_may_use_the_page(site):
    site.add_user("eve", "author")
    eve = site.browser().log_in("eve")
    assert eve.open("wp-admin/options-general.php?page=freshet")[0] == 403
    for action in ("test", "send_all", "progress"):
        assert eve.open("wp-admin/admin-ajax.php", {"action": f"freshet_{action}"})[0] == 403
        nonce = site.php(f"wp_set_current_user(get_user_by('login', 'eve')->ID); echo wp_create_nonce('freshet-admin');")  # noqa: F541
        assert eve.open("wp-admin/admin-ajax.php", {"action": f"freshet_{action}", "_ajax_nonce": nonce})[0] == 403
        assert site.browser().log_in().open("wp-admin/admin-ajax.php", {"action": f"freshet_{action}"})[0] == 403  # without a nonce


def test_constants_of_the_configuration_replace_the_saved_keys(site):
    code = "echo implode(':', Freshet\\WordPress\\Options::key('internal_key'));"
    assert site.php(code) == f"k1:{INTERNAL_KEY}"
    assert site.php(code, prologue="define('FRESHET_INTERNAL_KEY', 'other:secret');") == "other:secret"


def test_the_privacy_policy_has_a_text(site, admin):
    assert "freshet_visitor" in html.unescape(admin.get("wp-admin/privacy-policy-guide.php"))


def test_the_public_prefix_is_part_of_all_addresses(site):
    site.php("wp_insert_post(['post_title' => 'Prefixed', 'post_status' => 'publish', 'post_content' => '[freshet_recommended]']);")
    site.save_settings(prefix="/freshet/")
    page = html.unescape(site.browser().get("prefixed/"))
    site.save_settings()
    for name in ("freshet", "freshet-list"):
        assert re.search(rf'''<script defer [^>]*src=["']/freshet/{name}\.js["']''', page)
    assert len(re.findall(r'"endpoint":"\\/freshet\\/api\\/track"', page)) == 2, page
