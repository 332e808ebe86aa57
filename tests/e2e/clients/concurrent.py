"""concurrent.py BASE: four threads share a client, then two processes do, and a signal handler ends a request of another one.
Prints how many replies were not those to their requests."""

import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../scripts/clients/python"))
from freshet import Freshet, FreshetError  # noqa: E402

client = Freshet(sys.argv[1], attempts=1, timeout_s=60)
wrong = []


def ask(stem, count=50, client=client):
    for name in (f"{stem}-{i}" for i in range(count)):
        try:
            if client.get_item(name) != {"id": name}:
                wrong.append(name)
        except FreshetError:
            wrong.append(name)


ask("parent", 1)
threads = [threading.Thread(target=ask, args=(stem,)) for stem in "abcd"]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()


class Interrupted(Exception):
    pass


def interrupt(*_):
    raise Interrupted


interrupted = Freshet(sys.argv[1], attempts=1, timeout_s=60)
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    interrupted.get_item("slow-0")
except Interrupted:
    ask("after", 1, interrupted)
child = os.fork()
ask("parent" if child else "child")
if not child:
    os._exit(len(wrong))
print(len(wrong) + os.waitstatus_to_exitcode(os.wait()[1]))
