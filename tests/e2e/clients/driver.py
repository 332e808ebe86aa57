"""driver.py < scenarios: makes the calls of each scenario with the Python client and prints their outcomes, as JSON."""

import json
import os
import re
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
    in_seconds = {"timeout_ms": "timeout_s", "first_pause_ms": "first_pause_s", "cooldown_ms": "cooldown_s"}
    return freshet.Freshet(base, **{in_seconds.get(name, name): value / 1000 if name in in_seconds else value for name, value in options.items()})


def sign(kid, secret, method, target, body, seconds):
    return freshet.sign(kid, secret, method, target, body.encode(), seconds)


def snake(name):
    return re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name)


def described(error):
    return {"status": error.status, "code": error.code, "member": error.member, "message": str(error),
            "retry_after_s": error.retry_after_s, "temporary": error.temporary}


def outcome(client, call, args, more):
    del pauses[:]
    began = time.monotonic()
    function = {"sign": sign, "token": freshet.token}.get(call) or getattr(client, call)
    try:
        result = function(*args, **{snake(name): value for name, value in more.items()})
        if isinstance(result, dict) and "error" in result:
            result["error"] = described(result["error"])
        return {"result": result, "pauses": pauses[:], "seconds": time.monotonic() - began}
    except freshet.FreshetError as error:
        return {"error": described(error), "pauses": pauses[:], "seconds": time.monotonic() - began}
    except Exception as error:  # pylint: disable=broad-except
        return {"crash": repr(error)}


outcomes = []
for scenario in json.load(sys.stdin):
    one = client_for(scenario["base"], scenario["options"])
    outcomes.append([outcome(one, each["call"], each["args"], each["more"]) for each in scenario["calls"]])
print(json.dumps(outcomes))
