"""What an anonymous request costs is what SECURITY.md says. Its bytes; of CPU a busy machine says nothing."""

import json
import os

import pytest

from costs import OPERATIONS, Site, written_bytes
from service import ROOT

REQUESTS = 150


@pytest.fixture(scope="module")
def site():
    started = Site()
    try:
        yield started
        started.service.check()
    finally:
        started.stop()


def test_every_public_operation_is_in_the_table():
    with open(os.path.join(ROOT, "nginx/html/openapi.json"), encoding="utf-8") as file:
        paths = json.load(file)["paths"]
    public = {each["operationId"] for path in paths.values() for each in path.values() if isinstance(each, dict) and each.get("x-freshet-zone") == "public"}
    assert {each.name for each in OPERATIONS} == public
    assert set(written_bytes()) == {each.what for each in OPERATIONS}


@pytest.mark.parametrize("operation", OPERATIONS, ids=[each.what for each in OPERATIONS])
def test_a_request_leaves_no_more_than_is_written(site, operation):
    cost = site.cost(operation, REQUESTS)
    in_redis, in_aof = written_bytes()[operation.what]
    assert abs(cost.bytes - in_redis) <= max(80, 0.15 * in_redis), (cost.bytes, in_redis)
    # The recorder and the workers' background add to it when they please, also for what was asked before.
    assert cost.aof <= max(in_aof + 768, 1.25 * in_aof), (cost.aof, in_aof)
