"""Waiting for a condition."""

import os
import shutil
import time

# Pause between two checks, many of which start a program. It grows with the waiting time.
MIN_PAUSE_S, MAX_PAUSE_S = 0.01, 0.05


def wait_until(condition, what, limit_s=60.0):
    """Returns the first true value of `condition`. Raises an AssertionError that names `what` after `limit_s` seconds."""
    deadline, pause = time.monotonic() + limit_s, MIN_PAUSE_S
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"timed out after {limit_s:g} s waiting for {what}")
        time.sleep(pause)
        pause = min(1.1 * pause, MAX_PAUSE_S)
    return value


def remove_tree(folder):
    """Removes a folder in which a killed server's child may still create or delete a file."""
    def is_gone():
        shutil.rmtree(folder, ignore_errors=True)
        return not os.path.exists(folder)
    wait_until(is_gone, f"the removal of {folder}")
