"""driver.py < scenarios: makes the calls of each scenario with the Python client and prints their outcomes, as JSON."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../scripts/clients/python"))
import freshet  # noqa: E402

pauses, sleep = [], time.sleep


def record_pause(seconds):
    pauses.append(seconds)
    sleep(seconds)


time.sleep = record_pause


def client_for(base, options):
    in_seconds = {"timeout_ms": "timeout_s", "first_pause_ms": "first_pause_s"}
    return freshet.Freshet(base, **{in_seconds.get(name, name): value / 1000 if name in in_seconds else value for name, value in options.items()})


def sign(kid, secret, method, target, body, seconds):
    return freshet.sign(kid, secret, method, target, body.encode(), seconds)


def outcome(client, call, args, more):
    del pauses[:]
    try:
        return {"result": (sign if call == "sign" else getattr(client, call))(*args, **more), "pauses": pauses[:]}
    except freshet.FreshetError as error:
        return {"error": {"status": error.status, "code": error.code, "member": error.member, "message": str(error),
                          "retry_after_s": error.retry_after_s, "temporary": error.temporary}, "pauses": pauses[:]}
    except Exception as error:  # pylint: disable=broad-except
        return {"crash": repr(error)}


outcomes = []
for scenario in json.load(sys.stdin):
    one = client_for(scenario["base"], scenario["options"])
    outcomes.append([outcome(one, each["call"], each["args"], each["more"]) for each in scenario["calls"]])
print(json.dumps(outcomes))
