"""Fixtures of the end-to-end tests: instances of the whole service, and readers that nobody else is."""

import itertools
import os
import time

import pytest

from service import PATIENT, SHARED, Instance, stop_orphans

_numbers = itertools.count()


def pytest_configure(config):
    config.addinivalue_line("markers", "latency: judges how long a reply takes, so nothing else may run meanwhile")


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
    """One instance without limits, for tests that leave it as healthy as they found it."""
    yield from _instance("--no-limits", **PATIENT)


@pytest.fixture
def own_service():
    """An instance for one test that hurts it, patient with Redis."""
    yield from _instance("--no-limits", **PATIENT)


@pytest.fixture
def shipped_service():
    """The same with the shipped deadlines."""
    yield from _instance("--no-limits")


@pytest.fixture
def instance():
    """instance(option…, directive=value…): instances with options or a configuration of the test's own."""
    started = []

    def start(*options, **directives):
        started.append(Instance(*options, **directives))
        return started[-1].start()

    yield start
    for one in reversed(started):  # the first may have the Redis of others
        one.stop()


@pytest.fixture
def name():
    """name("a"): an id, tag or fingerprint that no other test and no earlier run uses."""
    stem = f"{os.getpid()}-{time.time_ns() % 10**9}"
    return lambda word="x": f"{word}-{stem}-{next(_numbers)}"


@pytest.fixture(scope="session")
def shared():
    """The folder with the hostile inputs."""
    if not os.path.isdir(os.path.join(SHARED, "corpora")):
        pytest.skip(f"no inputs at {SHARED}; FRESHET_SHARED names them")
    return SHARED
