"""Reports a session with skipped tests to ctest as skipped, not passed."""

SKIPPED = 77


def pytest_sessionfinish(session, exitstatus):
    skipped = session.config.pluginmanager.get_plugin("terminalreporter").stats.get("skipped")
    if exitstatus == 0 and skipped:
        session.exitstatus = SKIPPED
