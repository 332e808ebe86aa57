"""A clock for processes under test, which can be set while they run (shifted_clock.c)."""

import os

from service import BUILD


class ShiftedClock:
    """path: of the file with the offset, in a folder that the processes may read. environment: of the processes."""

    def __init__(self, path, seconds=0):
        self.path = path
        self.environment = {"LD_PRELOAD": os.path.join(BUILD, "tests/e2e/shifted_clock.so"), "SHIFTED_CLOCK": path}
        self.set(seconds)

    def set(self, seconds):
        """Shifts the time of day by this many seconds from the real one, from now on."""
        with open(self.path + ".new", "w", encoding="ascii") as file:
            file.write(f"{seconds:+d}\n")
        os.chmod(self.path + ".new", 0o644)
        os.replace(self.path + ".new", self.path)
