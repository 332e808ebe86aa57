"""Selects mutations, runs the tests for each, and prints the survivors. See scripts/mutate."""

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


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/mutate", description="Mutation testing: changes one line at a time, runs the tests, and reports the changes that they miss.")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)), help="seed of the selection; the same seed selects the same mutations of the same sources")
    parser.add_argument("--count", type=int, default=40, help="number of mutations (default 40)")
    parser.add_argument("--only", metavar="K,L", help="run only the mutations with these numbers, even if their results are known")
    parser.add_argument("--kind", choices=list(draw.KINDS), help="only mutations of this kind")
    parser.add_argument("--stages", type=int, help="run only the first N stages of each file's tests; the first is the cheapest")
    parser.add_argument("--minutes", type=float, default=120, help="time limit (default 120); the same command continues with the rest")
    parser.add_argument("--list", action="store_true", help="print the selection and run nothing")
    parser.add_argument("--checkout", metavar="DIR", default=tree.ROOT, help="checkout to mutate (default: this one)")
    options = parser.parse_args()
    options.directory = os.path.join(options.checkout, "build/mutate")
    return options


def select_mutations(options):
    texts = {}
    for path, source in tree.sources(options.checkout).items():
        if draw.kind_of(path) in ([options.kind] if options.kind else draw.KINDS):
            with open(source, encoding="utf-8") as file:
                texts[path] = file.read()
    return draw.draw(options.seed, options.count, texts)


def equivalents():
    """[{path, old, why, new}]; old and new without indentation; without `new` any change of the line is equivalent. `why`:
    the service behaves the same, or only costs more or less.
    """
    with open(EQUIVALENT, encoding="utf-8") as file:
        return json.load(file)


def same(mutation, listed):
    return mutation.path == listed["path"] and mutation.old.strip() == listed["old"] and listed.get("new", mutation.new.strip()) == mutation.new.strip()


class Results:
    """Stores the result of each mutation in a file. Killed mutations stay killed; survivors are run again when any source
    has changed.
    """

    def __init__(self, directory, fingerprint):
        self._path, self._fingerprint = os.path.join(directory, "results.json"), fingerprint
        self._known = {}
        if os.path.exists(self._path):
            with open(self._path, encoding="utf-8") as file:
                self._known = json.load(file)

    def get(self, mutation):
        found = self._known.get(json.dumps(mutation))
        return found if found and (found["result"] != "survived" or found["tree"] == self._fingerprint) else None

    def put(self, mutation, result, by, seconds):
        self._known[json.dumps(mutation)] = {"result": result, "by": by, "seconds": round(seconds, 1), "tree": self._fingerprint}
        with open(self._path + ".new", "w", encoding="utf-8") as file:
            json.dump(self._known, file, indent=1)
        os.replace(self._path + ".new", self._path)


def ctest_selection(tests):
    """The ctest options that select these tests."""
    return "-R", f"^({'|'.join(sorted(tests))})$"


def evaluate(copy, number, mutation, deadline, passes, max_stages):
    """Returns (result, killing test). `passes`: {test: whether it passes without a mutation}; tests that are not in it yet
    are run first, and those that fail cannot kill a mutation.
    """
    log, kind = f"{number}.log", draw.kind_of(mutation.path)
    text = copy.read(mutation.path)
    copy.delete_log(log)

    def time_left():
        if time.monotonic() > deadline:
            raise tree.Timeout
        return deadline - time.monotonic()

    ran_any = False
    try:
        for stage, select in enumerate(concerns.stages(mutation.path, kind)[:max_stages]):
            tests = copy.tests(select)
            targets = [target for each in tests.values() for target in each]
            copy.write(mutation.path, text)
            if not set(tests) <= set(passes) and targets and not copy.compile("baseline.log", time_left(), targets):
                return "not run", "the build fails without the mutation"
            while unknown := set(tests) - set(passes):
                failed = copy.test("baseline.log", time_left(), ctest_selection(unknown))
                passes.update(dict.fromkeys(unknown & set(failed) or unknown, not failed))
                if failed:
                    print(f"     {', '.join(failed)} fails without any mutation, so it is ignored; see {copy.log}/baseline.log", flush=True)
            usable = {each for each in tests if passes[each]}
            if not usable:
                continue
            ran_any = True
            copy.write(mutation.path, draw.applied(mutation, text))
            if targets and not copy.compile(log, time_left(), targets):
                return "did not build", "the compiler"
            if stage == 0 and kind in concerns.ALIVE:
                command = concerns.ALIVE[kind]
                program = os.path.join(copy.build, command[0]) if kind == "lua" else command[0]
                if kind == "lua" and not copy.compile(log, time_left(), [command[0]]):
                    return "did not build", "the compiler"
                if copy.run(log, time_left(), program, *command[1:]) != 0:
                    return "did not build", "nginx -t" if kind == "nginx" else "SCRIPT LOAD"
            if failed := copy.test(log, time_left(), ctest_selection(usable)):
                return "killed", failed[0]
        if not ran_any:
            return "not run", "no test passes without the mutation"
        return "survived", ""
    finally:
        copy.write(mutation.path, text)


def show(number, mutation, result, by="", seconds=0.0):
    print(f"{number:3}  {result:13} {by:28.28} {seconds:6.0f}  {mutation.path}:{mutation.line}  {mutation.how}", flush=True)


def show_change(mutation):
    print(f"     - {mutation.old.strip()}\n     + {mutation.new.strip()}", flush=True)


def main():
    options = parse_arguments()
    chosen = dict(enumerate(select_mutations(options), 1))
    if options.only:
        chosen = {number: chosen[number] for number in map(int, options.only.split(","))}
    print(f"seed {options.seed}, {len(chosen)} mutations", flush=True)
    if options.list:
        for number, mutation in chosen.items():
            show(number, mutation, "")
            show_change(mutation)
        return 0

    tree.adopt_orphans()
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda *_: sys.exit("mutate: terminated by a signal"))
    deadline = time.monotonic() + options.minutes * 60
    os.makedirs(options.directory, exist_ok=True)
    lock = open(os.path.join(options.directory, "lock"), "w", encoding="ascii")  # held until the process ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"mutate: {options.directory} is in use by another run")
    copy = tree.Tree(options.directory, options.checkout)
    results, known, passes, outcomes = Results(options.directory, copy.fingerprint), equivalents(), {}, {}
    try:
        if not copy.configure(600):
            sys.exit(f"mutate: cmake failed, see {copy.log}/configure")
        for number, mutation in chosen.items():
            found = None if options.only else results.get(mutation)
            started = time.monotonic()
            if reason := next((each["why"] for each in known if same(mutation, each)), None):
                outcomes[number] = ("equivalent", reason, 0.0)
            elif found:
                outcomes[number] = (found["result"], found["by"], found["seconds"])
            else:
                try:
                    outcomes[number] = (*evaluate(copy, number, mutation, deadline, passes, options.stages), time.monotonic() - started)
                    if outcomes[number][0] == "killed" or not (options.stages or outcomes[number][0] == "not run"):
                        results.put(mutation, *outcomes[number])
                except tree.Timeout:
                    outcomes[number] = ("not run", "the time limit was reached", 0.0)
            show(number, mutation, *outcomes[number])
    finally:
        tree.end_children()
    result_names = [result for result, _, _ in outcomes.values()]
    for number, mutation in chosen.items():
        result, by, seconds = outcomes[number]
        if result in ("survived", "not run", "equivalent"):
            show(number, mutation, result, "" if result == "equivalent" else by, seconds)
            show_change(mutation)
            if result == "equivalent":
                print(f"     {by}")
    counts = ", ".join(f"{result_names.count(word)} {word}" for word in ("killed", "survived", "did not build", "equivalent", "not run"))
    print(f"seed {options.seed}, {len(result_names)} mutations: {counts}")
    return 1 if "survived" in result_names or "not run" in result_names else 0


if __name__ == "__main__":
    sys.exit(main())
