import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests/e2e"), os.path.join(ROOT, "tests/support")]

import wordpress_site  # noqa: E402


def pytest_sessionstart():
    if missing := wordpress_site.missing():
        print(f"SKIPPED: not installed: {missing}; ./scripts/deps test")
        pytest.exit("WordPress is not installed", 1 if os.environ.get("CI") == "true" else 77)
    wordpress_site.remove_orphans()


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zip")
    subprocess.run([os.path.join(ROOT, "scripts/wordpress/build-zip"), str(folder)], check=True)
    return folder / "freshet.zip"


@pytest.fixture(scope="session")
def fresh_site():
    """WordPress without the plugin; test_setup.py installs it."""
    site = wordpress_site.Site()
    yield site
    log = site.debug_log()
    site.stop()
    problems = [line for line in log.splitlines() if "/plugins/freshet/" in line or "WordPress database error" in line]
    assert not problems, problems


@pytest.fixture(scope="session")
def site(fresh_site, archive):
    """WordPress with the plugin, which Freshet accepts."""
    if not fresh_site.is_installed:
        fresh_site.install_plugin(archive)
        fresh_site.save_settings()
    return fresh_site


@pytest.fixture(autouse=True)
def _freshet_answers(request):
    """Each test starts without a remembered failure and with an empty queue."""
    if "site" in request.fixturenames:
        site = request.getfixturevalue("site")
        site.php("delete_transient('freshet_down'); delete_option('freshet_refused');")
        site.sql("DELETE FROM wp_freshet_queue")


@pytest.fixture
def admin(fresh_site):
    return fresh_site.browser().log_in()
