"""Fixtures of the end-to-end tests: instances of the whole service, and unique names."""

import itertools
import os
import time

import pytest

from service import LONG_TIMEOUTS, SHARED, Instance, stop_orphans

_numbers = itertools.count()


def pytest_configure(config):
    config.addinivalue_line("markers", "latency: measures response times, so nothing else may run at the same time")


def pytest_sessionstart():
    stop_orphans()


def _instance(*options, **directives):
    started = Instance(*options, **directives)
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def service():
    """One instance without rate limits, shared by tests that do not disturb it."""
    yield from _instance("--no-limits", **LONG_TIMEOUTS)


@pytest.fixture
def own_service():
    """A separate instance for a test that disrupts it. Long Redis timeouts."""
    yield from _instance("--no-limits", **LONG_TIMEOUTS)


@pytest.fixture
def shipped_service():
    """Like own_service, but with the shipped timeouts."""
    yield from _instance("--no-limits")


@pytest.fixture
def instance():
    """instance(option…, directive=value…): starts instances with the test's own options and configuration."""
    started = []

    def start(*options, **directives):
        started.append(Instance(*options, **directives))
        return started[-1].start()

    yield start
    for one in reversed(started):  # reversed: later instances may use the first one's Redis
        one.stop()


@pytest.fixture
def name():
    """name("a"): a unique id, tag or fingerprint, different from those of other tests and earlier runs."""
    stem = f"{os.getpid()}-{time.time_ns() % 10**9}"
    return lambda word="x": f"{word}-{stem}-{next(_numbers)}"


@pytest.fixture(scope="session")
def shared():
    """The directory with the hostile inputs."""
    if not os.path.isdir(os.path.join(SHARED, "corpora")):
        pytest.skip(f"no inputs at {SHARED}; set FRESHET_SHARED")
    return SHARED
