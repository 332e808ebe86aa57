"""A WordPress of Debian's packages with its own MariaDB and PHP-FPM, served by the nginx of an instance of Freshet as the
plugin's readme.txt describes, and browsers without JavaScript.
"""

import contextlib
import glob
import html
import http.cookiejar
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from client import AGENT
from php_fpm import PHP_FPM
from service import BUILD, LONG_TIMEOUTS, ROOT, Instance, birth, children, stop_orphans
from waiting import remove_tree, wait_until

WORDPRESS = os.environ.get("FRESHET_WORDPRESS", "/usr/share/wordpress")  # of another version
PORT = 18082  # on the instance's own address
INTERNAL_KEY, TOKEN_KEY = "internal-0123456789abcdef0123456789abcdef", "token-0123456789abcdef0123456789abcdef"
ADMIN, PASSWORD = "admin", "correct horse battery staple"
# Servers end with this process.
AS_NOBODY = ["setpriv", "--pdeathsig=TERM", *(["--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else [])]
PREFIX = "/tmp/freshet-wordpress-"  # of folders, followed by the creator's pid

CONFIG = """<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'root');
define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:{folder}/db.sock');
define('WP_HOME', '{base}');
define('WP_SITEURL', '{base}');
define('FS_METHOD', 'direct');
define('WP_DEBUG', true);
define('WP_DEBUG_LOG', '{folder}/debug.log');
define('WP_DEBUG_DISPLAY', false);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('DISABLE_WP_CRON', file_exists('{folder}/no-cron'));
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('WP_ACCESSIBLE_HOSTS', '{host}');
define('AUTH_KEY', 'a'); define('SECURE_AUTH_KEY', 'b'); define('LOGGED_IN_KEY', 'c'); define('NONCE_KEY', 'd');
define('AUTH_SALT', 'e'); define('SECURE_AUTH_SALT', 'f'); define('LOGGED_IN_SALT', 'g'); define('NONCE_SALT', 'h');
$table_prefix = 'wp_';
if (!defined('ABSPATH')) {{ define('ABSPATH', __DIR__ . '/'); }}
require_once ABSPATH . 'wp-settings.php';
"""
FPM = """[global]
error_log = {folder}/php.log
[site]
listen = {folder}/php.sock
listen.mode = 0666
pm = static
pm.max_children = 4
pm.status_path = /fpm-status.php
php_admin_value[sendmail_path] = /bin/true
php_admin_value[error_log] = {folder}/php.log
"""
SERVER = """server {{
  listen {host}:{port};
  root {folder}/site;
  index index.php;
  client_max_body_size 16m;
  include {nginx}/freshet-locations.conf;
  location / {{ try_files $uri $uri/ /index.php?$args; }}
  location ~ \\.php$ {{
    include /etc/nginx/fastcgi_params;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_param HTTP_HOST $http_host;
    fastcgi_read_timeout 120s;
    fastcgi_pass unix:{folder}/php.sock;
  }}
}}
"""


def missing():
    """Returns the packages that are missing, or ""."""
    needed = {"wordpress": f"{WORDPRESS}/wp-load.php", "wordpress-theme-twentytwentythree": f"{WORDPRESS}/wp-content/themes/twentytwentythree",
              "mariadb-server-core": shutil.which("mariadbd") or "/usr/sbin/mariadbd", "php-fpm": PHP_FPM or "-",
              "php-mysql": next(iter(glob.glob("/usr/lib/php/*/mysqli.so")), "-"), "php-curl": next(iter(glob.glob("/usr/lib/php/*/curl.so")), "-"), "php-zip": next(iter(glob.glob("/usr/lib/php/*/zip.so")), "-")}
    return ", ".join(name for name, path in needed.items() if not os.path.exists(path))


def remove_orphans():
    """Removes the folders of sites whose tests were killed, and stops their instances of Freshet."""
    stop_orphans()
    for folder in glob.glob(PREFIX + "*"):
        if not os.path.exists(f"/proc/{folder.removeprefix(PREFIX).split('-')[0]}"):
            shutil.rmtree(folder, ignore_errors=True)


class Browser:
    """A browser without JavaScript: cookies and forms."""

    def __init__(self, base):
        self.base, self.cookies = base, http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def open(self, path, fields=None, files=None, headers=None, data=None):
        """Returns (status, text). fields: a form, posted. files: name → (file name, bytes). data: another body, as text."""
        body, sent = data and data.encode(), {"User-Agent": AGENT} | (headers or {})
        if files:
            boundary = "freshet-boundary"
            parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
            parts += [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{file}"\r\nContent-Type: application/zip\r\n\r\n'.encode() + data + b"\r\n"
                      for name, (file, data) in files.items()]
            body, sent["Content-Type"] = b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"
        elif fields is not None:
            body = urllib.parse.urlencode(fields, doseq=True).encode()
        request = urllib.request.Request(urllib.parse.urljoin(self.base + "/", path), body, sent)
        try:
            with self._opener.open(request, timeout=240) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def get(self, path):
        status, text = self.open(path)
        assert status == 200, (path, status, text[:2000])
        return text

    def post(self, path, fields, files=None):
        status, text = self.open(path, fields, files)
        assert status == 200, (path, status, text[:2000])
        return text

    def log_in(self, user=ADMIN, password=PASSWORD):
        self.post("wp-login.php", {"log": user, "pwd": password, "wp-submit": "Log In", "testcookie": 1})
        assert any(cookie.name.startswith("wordpress_logged_in") for cookie in self.cookies), f"{user} is not logged in"
        return self

    def cookie(self, name):
        return next((cookie.value for cookie in self.cookies if cookie.name == name), None)

    def form(self, page, **fields):
        """Hidden fields of the page's forms, and `fields`."""
        hidden = {}
        for tag in re.findall(r"<input[^>]*type=[\"']hidden[\"'][^>]*>", self.get(page)):
            attributes = {name: html.unescape(value) for name, _, value in re.findall(r"([\w-]+)=([\"'])(.*?)\2", tag)}
            if "name" in attributes:
                hidden.setdefault(attributes["name"], attributes.get("value", ""))
        return hidden | fields


class Site:
    is_installed = False  # the plugin

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")
        os.chmod(self.folder, 0o777)
        self._processes, self.freshet = [], None
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), 0o644)
        return self.path(name)

    def _run(self, *command):
        with open(self.path("servers.log"), "ab") as log:
            process = subprocess.Popen([*AS_NOBODY, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self.folder)
        self._processes.append(process)
        return process

    def _start(self):
        for name, key in (("internal", INTERNAL_KEY), ("token", TOKEN_KEY)):
            self.write(f"{name}-key", key + "\n")
        self.freshet = Instance("--no-limits", **LONG_TIMEOUTS, identity__mode='"token"', identity__token_keys=f'{{ k1 = "{self.path("token-key")}" }}',
                                identity__internal_keys=f'{{ k1 = "{self.path("internal-key")}" }}', items__unknown='"count"')
        self._start_database()
        self.base = f"http://{self.freshet.host}:{PORT}"
        subprocess.run([*AS_NOBODY, "cp", "-rL", WORDPRESS, self.path("site")], check=True)
        os.remove(self.path("site/wp-config.php"))
        with open(self.path("site/wp-config.php"), "w", encoding="utf-8") as file:
            file.write(CONFIG.format(folder=self.folder, base=self.base, host=self.freshet.host))
        subprocess.run([*AS_NOBODY, "mkdir", self.path("site/wp-content/mu-plugins")], check=True)
        self.write("site/wp-content/mu-plugins/quick.php", "<?php remove_action('check_comment_flood', 'check_comment_flood_db', 10);")
        self.write("fpm.conf", FPM.format(folder=self.folder))
        allow_root = ["--allow-to-run-as-root"] if os.geteuid() == 0 else []
        self._run(PHP_FPM, "--nodaemonize", *allow_root, "--fpm-config", self.path("fpm.conf"))
        self.freshet.start()
        self._extend_nginx()
        self._install_wordpress()

    def _start_database(self):
        options = ["--no-defaults", f"--datadir={self.path('db')}"]
        done = subprocess.run([*AS_NOBODY, "mariadb-install-db", *options, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"],
                              capture_output=True, text=True, check=False, cwd=self.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        self._run("mariadbd", *options, f"--socket={self.path('db.sock')}", "--skip-networking", f"--pid-file={self.path('db.pid')}", "--innodb-flush-log-at-trx-commit=0",
                  "--innodb-buffer-pool-size=32M", "--skip-log-bin", "--performance-schema=off")
        wait_until(lambda: self._sql("SELECT 1", database="").returncode == 0, "MariaDB")
        assert self._sql("CREATE DATABASE wordpress CHARACTER SET utf8mb4", database="").returncode == 0

    def _sql(self, statement, database="wordpress"):
        return subprocess.run(["mariadb", "--no-defaults", f"--socket={self.path('db.sock')}", "--user=root", "-N", "-B", "-e", statement, *filter(None, [database])],
                              capture_output=True, text=True, check=False)

    def sql(self, statement):
        """Returns the rows, each a list of texts."""
        done = self._sql(statement)
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def _extend_nginx(self):
        """Adds the site's server block, which includes Freshet's public routes."""
        nginx = os.path.join(self.freshet.state, "etc/nginx")
        with open(os.path.join(nginx, "wordpress.conf"), "w", encoding="utf-8") as file:
            file.write(SERVER.format(host=self.freshet.host, port=PORT, folder=self.folder, nginx=nginx))
        path = os.path.join(nginx, "nginx.conf")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.rstrip().removesuffix("}") + f"  include {nginx}/wordpress.conf;\n}}\n")
        old = set(children(self.freshet.pid("nginx")))
        self.freshet.signal("nginx", 1)
        wait_until(lambda: not old & set(children(self.freshet.pid("nginx"))), "nginx's old processes to exit")

    def _install_wordpress(self):
        # A request that began before the permalinks below change, such as one of WP-Cron, knows the old ones. If it
        # finds the new theme's note `theme_switched`, it writes their rewrite rules over the new ones, and every
        # permalink is a 404 from then on. So there is no cron meanwhile, and no request finds that note.
        self.write("no-cron", "")
        wait_until(lambda: self.browser().open("wp-admin/install.php")[0] == 200, "WordPress")
        text = self.browser().post("wp-admin/install.php?step=2", {"weblog_title": "Site", "user_name": ADMIN, "admin_password": PASSWORD, "admin_password2": PASSWORD,
                                                                   "pw_weak": 1, "admin_email": "admin@example.org", "blog_public": 1, "Submit": "Install"})
        assert "wp-login.php" in text, text
        self.php("switch_theme('twentytwentythree'); check_theme_switched(); $wp_rewrite->set_permalink_structure('/%postname%/'); flush_rewrite_rules();"
                 "update_option('comment_previously_approved', 0); update_option('require_name_email', 0); update_option('show_avatars', 0);")
        os.remove(self.path("no-cron"))
        self.browser().get("hello-world/")

    def browser(self):
        return Browser(self.base)

    # --- the plugin, by WordPress' own screens

    def install_plugin(self, archive):
        """Uploads and activates the plugin."""
        admin = self.browser().log_in()
        with open(archive, "rb") as file:
            fields = admin.form("wp-admin/plugin-install.php?tab=upload")
            text = admin.post("wp-admin/update.php?action=upload-plugin", {"_wpnonce": fields["_wpnonce"], "install-plugin-submit": "Install Now"},
                              {"pluginzip": ("freshet.zip", file.read())})
        activate = re.search(r'href="(plugins\.php\?action=activate[^"]*)"', text)
        assert activate, text
        admin.get("wp-admin/" + html.unescape(activate[1]))
        self.is_installed = True

    def settings(self, **changes):
        """Fields of the settings page."""
        values = {"address": self.internal, "prefix": "", "internal_key": INTERNAL_KEY, "token_key": TOKEN_KEY, "post_types][": "post", "tag": "1"} | changes
        return {f"freshet[{name}]": value for name, value in values.items() if value is not None}

    def save_settings(self, **changes):
        admin = self.browser().log_in()
        fields = admin.form("wp-admin/options-general.php?page=freshet")
        text = admin.post("wp-admin/options.php", {name: fields[name] for name in ("option_page", "action", "_wpnonce", "_wp_http_referer")} | self.settings(**changes))
        return re.findall(r"<div id='setting-error-[^>]*>\s*<p><strong>(.*?)</strong>", text)

    def ajax(self, admin, action, **fields):
        """Returns the data of the plugin's own Ajax call."""
        nonce = re.search(r'var freshetAdmin = .*?"nonce":"(\w+)"', admin.get("wp-admin/options-general.php?page=freshet"))[1]
        return json.loads(admin.post("wp-admin/admin-ajax.php", fields | {"action": f"freshet_{action}", "_ajax_nonce": nonce}))["data"]

    def add_user(self, name, role="subscriber"):
        return int(self.php(f"echo wp_insert_user(['user_login' => '{name}', 'user_pass' => '{PASSWORD}', 'user_email' => '{name}@example.org', 'display_name' => '{name.title()}', 'role' => '{role}']);"))

    def php(self, code, prologue=""):
        """Runs PHP with WordPress loaded and returns what it prints. prologue: PHP that runs before WordPress."""
        host = json.dumps(self.base.removeprefix("http://"))
        script = (f"<?php $_SERVER['HTTP_HOST'] = {host}; $_SERVER['REQUEST_METHOD'] = 'GET'; {prologue}\n"
                  f"require '{self.path('site/wp-load.php')}';\nrequire_once ABSPATH . 'wp-admin/includes/admin.php';\n{code}\n")
        path = self.write(f"run-{time.monotonic_ns()}.php", script)
        done = subprocess.run([*AS_NOBODY, "php", path], capture_output=True, text=True, check=False, cwd=self.folder, timeout=240)
        os.remove(path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def wait_for_idle_php(self):
        """Waits until PHP-FPM serves no request but this one's, such as one of WP-Cron."""
        def is_idle():
            processes = json.loads(self.browser().get("fpm-status.php?json&full"))["processes"]
            return sum(process["state"] != "Idle" for process in processes) == 1
        wait_until(is_idle, "requests of PHP to end")

    def send_due(self):
        """Makes everything that waits due now, and has WordPress' cron begin to send it."""
        self.sql("UPDATE wp_freshet_queue SET due = 0, claimed = 0, claim = ''")
        self.php("delete_transient('freshet_down'); wp_clear_scheduled_hook('freshet_send'); wp_schedule_single_event(time() - 1, 'freshet_send'); delete_transient('doing_cron');")
        self.browser().get("wp-cron.php")
        wait_until(lambda: self.php("echo (wp_next_scheduled('freshet_send') ?: PHP_INT_MAX) > time() ? 'ran' : '';"), "cron")

    def waiting(self):
        """Returns the writes that Freshet has yet to receive: (kind, object)."""
        return [tuple(row) for row in self.sql("SELECT kind, object FROM wp_freshet_queue ORDER BY kind, object")]

    def item(self, post):
        """The post's item in Freshet, or None."""
        reply = self.signed("GET", f"/api/items/{post}")
        assert reply["status"] in (200, 404), reply
        return reply["body"] if reply["status"] == 200 else None

    def signed(self, method, path, body=None):
        """A signed call of the internal server, by the PHP client."""
        script = (f"<?php require '{ROOT}/scripts/clients/php/Freshet.php'; [$method, $path, $body] = json_decode($argv[1], true);"
                  f"$client = new Freshet\\Freshet('{self.internal}', ['k1', '{INTERNAL_KEY}']);"
                  "try { echo json_encode(['status' => 200, 'body' => $client->request($method, $path, body: $body)]); }"
                  "catch (Freshet\\FreshetException $error) { echo json_encode(['status' => $error->status, 'body' => $error->getMessage()]); }")
        done = subprocess.run(["php", "--", json.dumps([method, path, body])], input=script, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def hot(self):
        return self.signed("GET", "/api/hot?model=engagement&limit=100")["body"]["items"]

    @property
    def internal(self):
        return f"http://{self.freshet.host}:{self.freshet.internal_port}"

    def stop_freshet(self):
        """Ends freshetd. nginx still runs and answers 502."""
        pid = self.freshet.pid("freshetd")
        self.freshet.signal("freshetd", 3)
        wait_until(lambda: birth(pid) is None, "the end of freshetd")

    def start_freshet(self):
        state = self.freshet.state
        with open(f"{state}/log/freshetd.log", "ab") as log:
            root = ["-R"] if os.geteuid() == 0 else []
            self._freshetd = subprocess.Popen([*AS_NOBODY, f"{BUILD}/fcgi/freshetd", "-F", *root, "-y", f"{state}/etc/freshet.toml"], stdin=subprocess.DEVNULL, stdout=log,
                                              stderr=log, start_new_session=True)
        self.freshet.replace_process("freshetd", self._freshetd.pid, "QUIT")
        wait_until(lambda: self.freshet.internal().get("/ping").status == 200, "freshetd")

    def debug_log(self):
        """Notices, warnings and errors of PHP."""
        with contextlib.suppress(FileNotFoundError), open(self.path("debug.log"), encoding="utf-8", errors="replace") as file:
            return file.read()
        return ""

    def stop(self):
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(60)
        if self.freshet:
            self.freshet.stop()
        remove_tree(self.folder)
