"""Load and random faults for minutes, and everything that must hold afterwards."""

from faults.scenario import Fault


def for_minutes(minutes):
    return Fault("soak", "", "", None)
