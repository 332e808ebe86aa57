"""Awaiting a condition."""

import os
import shutil
import time

SHORTEST_S, LONGEST_S = 0.01, 0.05  # between two looks, many of which start a program; the longer it takes, the fewer


def wait_until(condition, what, limit_s=60.0):
    """Returns the first true value of `condition`; an AssertionError names `what` when there is none within `limit_s`."""
    deadline, pause = time.monotonic() + limit_s, SHORTEST_S
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit_s:g} s in vain for {what}")
        time.sleep(pause)
        pause = min(1.1 * pause, LONGEST_S)
    return value


def remove_tree(folder):
    """A folder in which the child of a server that was killed may still write a file, or remove one."""
    def gone():
        shutil.rmtree(folder, ignore_errors=True)
        return not os.path.exists(folder)
    wait_until(gone, f"an end of {folder}")
