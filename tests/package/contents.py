"""The installed files, derived from the repository's files."""

import glob
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("FRESHET_BUILD_DIR", os.path.join(ROOT, "build/release"))


def names(pattern):
    return [os.path.basename(path) for path in glob.glob(os.path.join(ROOT, pattern))]


CONFFILES = {"/etc/freshet/freshet.toml"} | {"/etc/nginx/freshet/" + name for name in names("nginx/freshet-*.conf")}
UNITS = names("systemd/*.service") + names("systemd/*.socket") + names("systemd/*.timer")
DOC = "/usr/share/doc/freshet/"
# With and without the package.
FILES = (
    CONFFILES
    | {"/usr/lib/systemd/system/" + unit for unit in UNITS}
    | {"/usr/share/freshet/html/" + name + more for name in names("nginx/html/*") for more in ("", ".gz")}
    | {path.replace(ROOT + "/scripts", "/usr/share/freshet") for path in glob.glob(os.path.join(ROOT, "scripts/clients/*/*.*"))}
    | {"/usr/share/freshet/wordpress/freshet.zip", "/usr/sbin/freshetd", "/usr/bin/freshetctl",
       "/usr/lib/sysusers.d/freshet.conf"}
    | {DOC + name for name in ("API.md", "INTEGRATION.md", "OPERATIONS.md", "README.md", "SECURITY.md", "examples/freshet-alerts.yml",
                                "examples/freshet-dashboard.json", "examples/nginx.conf", "examples/redis-acl.conf", "examples/redis-tcp.conf", "examples/valkey.conf")}
    | {"/usr/share/man/man8/freshetd.8.gz", "/usr/share/man/man1/freshetctl.1.gz", "/usr/share/man/man5/freshet.toml.5.gz",
       "/usr/share/man/man7/freshet-metrics.7.gz"}
    | {"/usr/share/bash-completion/completions/freshetd", "/usr/share/bash-completion/completions/freshetctl",
       "/usr/share/zsh/vendor-completions/_freshetctl", "/usr/share/fish/vendor_completions.d/freshetctl.fish",
       "/usr/share/fish/vendor_completions.d/freshetd.fish"}
)
DEBIAN_FILES = {DOC + name for name in ("copyright", "changelog.gz", "changelog.Debian.gz")} | {"/usr/share/lintian/overrides/freshet"}
