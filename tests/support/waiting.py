"""Awaiting a condition."""

import time


def wait_until(condition, what, limit_s=60.0):
    """Returns the first true value of `condition`; an AssertionError names `what` when there is none within `limit_s`."""
    deadline = time.monotonic() + limit_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit_s:g} s in vain for {what}")
        time.sleep(0.01)
    return value
