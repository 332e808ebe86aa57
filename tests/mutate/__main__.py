"""Draws mutations, runs the tests that concern each, and prints what survived. See scripts/mutate."""

import argparse
import fcntl
import json
import os
import random
import signal
import sys
import time

from mutate import concerns, draw, tree

EQUIVALENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "equivalent.json")


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/mutate", description="Changes a line, runs the tests, and tells which changes they let through.")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)), help="of the draw; the same seed draws the same from the same sources")
    parser.add_argument("--count", type=int, default=40, help="how many (40)")
    parser.add_argument("--only", metavar="K,L", help="the mutations of these numbers only, whatever is known of them")
    parser.add_argument("--kind", choices=list(draw.KINDS), help="of this kind only")
    parser.add_argument("--stages", type=int, help="of a file's tests the first so many groups only; the first is the cheapest")
    parser.add_argument("--minutes", type=float, default=120, help="at most so long (120); the same command goes on with what is left")
    parser.add_argument("--list", action="store_true", help="draw and print, and run nothing")
    parser.add_argument("--checkout", metavar="DIR", default=tree.ROOT, help="whose sources (this one)")
    given = parser.parse_args()
    given.directory = os.path.join(given.checkout, "build/mutate")
    return given


def drawn(given):
    texts = {}
    for path, source in tree.sources(given.checkout).items():
        if draw.kind_of(path) in ([given.kind] if given.kind else draw.KINDS):
            with open(source, encoding="utf-8") as file:
                texts[path] = file.read()
    return draw.draw(given.seed, given.count, texts)


def equivalents():
    """[{path, old, why, new}], old and new without indentation; no new: whatever the line becomes. `why` the service does the same, or at
    another cost only."""
    with open(EQUIVALENT, encoding="utf-8") as file:
        return json.load(file)


def same(one, listed):
    return one.path == listed["path"] and one.old.strip() == listed["old"] and listed.get("new", one.new.strip()) == one.new.strip()


class Results:
    """What is known of each mutation, in a file. Who was killed stays so; who survived is asked again when any source has changed."""

    def __init__(self, directory, fingerprint):
        self._path, self._fingerprint = os.path.join(directory, "results.json"), fingerprint
        self._known = {}
        if os.path.exists(self._path):
            with open(self._path, encoding="utf-8") as file:
                self._known = json.load(file)

    def get(self, one):
        found = self._known.get(json.dumps(one))
        return found if found and (found["result"] != "survived" or found["tree"] == self._fingerprint) else None

    def put(self, one, result, by, seconds):
        self._known[json.dumps(one)] = {"result": result, "by": by, "seconds": round(seconds, 1), "tree": self._fingerprint}
        with open(self._path + ".new", "w", encoding="utf-8") as file:
            json.dump(self._known, file, indent=1)
        os.replace(self._path + ".new", self._path)


def named(tests):
    """ctest's option for these."""
    return "-R", f"^({'|'.join(sorted(tests))})$"


def judge(copy, number, one, deadline, passes, most_stages):
    """(result, by whom). `passes`: {test: whether it does without a mutation}; who is not in it is tried, and who fails so may kill nobody."""
    log, kind = f"{number}.log", draw.kind_of(one.path)
    text = copy.read(one.path)
    copy.forget(log)

    def left():
        if time.monotonic() > deadline:
            raise tree.Timeout
        return deadline - time.monotonic()

    asked = False
    try:
        for stage, select in enumerate(concerns.stages(one.path, kind)[:most_stages]):
            tests = copy.tests(select)
            targets = [target for each in tests.values() for target in each]
            copy.write(one.path, text)
            if not set(tests) <= set(passes) and targets and not copy.compile("baseline.log", left(), targets):
                return "not run", "the build fails without it"
            while unknown := set(tests) - set(passes):
                failed = copy.test("baseline.log", left(), named(unknown))
                passes.update(dict.fromkeys(unknown & set(failed) or unknown, not failed))
                if failed:
                    print(f"     {', '.join(failed)} fails without any mutation, see {copy.log}/baseline.log: left out", flush=True)
            able = {each for each in tests if passes[each]}
            if not able:
                continue
            asked = True
            copy.write(one.path, draw.applied(one, text))
            if targets and not copy.compile(log, left(), targets):
                return "did not build", "the compiler"
            if stage == 0 and kind in concerns.ALIVE:
                command = concerns.ALIVE[kind]
                program = os.path.join(copy.build, command[0]) if kind == "lua" else command[0]
                if kind == "lua" and not copy.compile(log, left(), [command[0]]):
                    return "did not build", "the compiler"
                if copy.run(log, left(), program, *command[1:]) != 0:
                    return "did not build", "nginx -t" if kind == "nginx" else "SCRIPT LOAD"
            if failed := copy.test(log, left(), named(able)):
                return "killed", failed[0]
        if not asked:
            return "not run", "no test passes without it"
        return "survived", ""
    finally:
        copy.write(one.path, text)


def show(number, one, result, by="", seconds=0.0):
    print(f"{number:3}  {result:13} {by:28.28} {seconds:6.0f}  {one.path}:{one.line}  {one.how}", flush=True)


def show_change(one):
    print(f"     - {one.old.strip()}\n     + {one.new.strip()}", flush=True)


def main():
    given = arguments()
    chosen = dict(enumerate(drawn(given), 1))
    if given.only:
        chosen = {number: chosen[number] for number in map(int, given.only.split(","))}
    print(f"seed {given.seed}, {len(chosen)} mutations", flush=True)
    if given.list:
        for number, one in chosen.items():
            show(number, one, "")
            show_change(one)
        return 0

    tree.adopt_orphans()
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda *_: sys.exit("mutate: ended by a signal"))
    deadline = time.monotonic() + given.minutes * 60
    os.makedirs(given.directory, exist_ok=True)
    lock = open(os.path.join(given.directory, "lock"), "w", encoding="ascii")  # closed by the end of the process
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"mutate: another run uses {given.directory}")
    copy = tree.Tree(given.directory, given.checkout)
    results, known, passes, outcomes = Results(given.directory, copy.fingerprint), equivalents(), {}, {}
    try:
        if not copy.configure(600):
            sys.exit(f"mutate: cmake fails: {copy.log}/configure")
        for number, one in chosen.items():
            found = None if given.only else results.get(one)
            began = time.monotonic()
            if reason := next((each["why"] for each in known if same(one, each)), None):
                outcomes[number] = ("equivalent", reason, 0.0)
            elif found:
                outcomes[number] = (found["result"], found["by"], found["seconds"])
            else:
                try:
                    outcomes[number] = (*judge(copy, number, one, deadline, passes, given.stages), time.monotonic() - began)
                    if outcomes[number][0] == "killed" or not (given.stages or outcomes[number][0] == "not run"):
                        results.put(one, *outcomes[number])
                except tree.Timeout:
                    outcomes[number] = ("not run", "the time is over", 0.0)
            show(number, one, *outcomes[number])
    finally:
        tree.end_children()
    words = [result for result, _, _ in outcomes.values()]
    for number, one in chosen.items():
        result, by, seconds = outcomes[number]
        if result in ("survived", "not run", "equivalent"):
            show(number, one, result, "" if result == "equivalent" else by, seconds)
            show_change(one)
            if result == "equivalent":
                print(f"     {by}")
    counts = ", ".join(f"{words.count(word)} {word}" for word in ("killed", "survived", "did not build", "equivalent", "not run"))
    print(f"seed {given.seed}, {len(words)} mutations: {counts}")
    return 1 if "survived" in words or "not run" in words else 0


if __name__ == "__main__":
    sys.exit(main())
