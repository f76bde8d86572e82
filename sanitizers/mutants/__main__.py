"""ci/mutants does the work here; see its head for the options, the table and the exit status."""

import argparse
import hashlib
import pathlib
import subprocess
import sys
import time

import general_mutants
import sample
import self_test
from mutant_copy import Copy, Stop, by_what, end_session, first_line, git

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "planted"))
import planted_bugs  # noqa: E402

SAMPLE = 3
FAILED = ("SURVIVED", "DOES NOT APPLY", "DOES NOT BUILD", "TEST FAILS WITHOUT IT")


def run_test(copy, mutant, limit_s):
    """(passed, what it printed, seconds)."""
    folder = copy.folder(mutant.tree)
    command = mutant.test
    if mutant.kind == "ctest":
        command = ["ctest", "--test-dir", str(folder), "-R", mutant.test, "--output-on-failure", "--no-tests=error"]
    elif "/" not in command[0]:
        command = [f"./{command[0]}", *command[1:]]
    begin = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            end_session(process.pid)
            output, _ = process.communicate()
            return False, output + "\n***Timeout", time.monotonic() - begin
    passed = process.returncode == 0
    if passed and "The following tests did not run" in output:
        return False, "skipped: " + output, time.monotonic() - begin
    return passed, output, time.monotonic() - begin


def run_until_killed(copy, mutant):
    """As run_test, and the number of the last run. Threads meet by chance, less often on a busy machine, so a test that
    passes runs again until the budget is used up. Each run may take the whole budget, so that a slow run does not
    count as a hang."""
    begin, run = time.monotonic(), 0
    while True:
        run += 1
        passed, output, _ = run_test(copy, mutant, mutant.budget_s)
        seconds = time.monotonic() - begin
        if not passed or seconds >= mutant.budget_s:
            return passed, output, seconds, run


class Session:
    def __init__(self, copy):
        self.copy = copy
        self.clean = {}
        self.rows = []

    def say(self, mutant, verdict, what, seconds, build_s):
        self.rows.append((mutant.name, verdict))
        seconds = f"{seconds:.1f} of {mutant.budget_s} s" if seconds is not None else "-"
        print(f"{mutant.name:<34} {verdict:<22} {seconds:>15} {build_s:>8.1f} s  {what}", flush=True)

    def check_clean(self, mutant):
        """None if the mutant's test passes without the mutant, within the budget; else why not. Tried once for each
        test and budget, since a test that is too slow for one budget may do for another."""
        key = (mutant.tree, mutant.kind, str(mutant.test), mutant.budget_s)
        if key not in self.clean:
            trouble = self.copy.build(mutant.tree, [])
            targets = [] if trouble else self.copy.targets(mutant)
            trouble = trouble or (None if targets else "it names nothing to build: add 'Targets:'")
            trouble = trouble or self.copy.build(mutant.tree, targets)
            if trouble is None:
                passed, output, _ = run_test(self.copy, mutant, mutant.budget_s)
                trouble = None if passed else "skipped here" if output.startswith("skipped") else by_what(output)
            self.clean[key] = (trouble, targets)
        return self.clean[key]

    def passes_so_often(self, mutant, targets, runs):
        """Whether the mutant's test passes that many times without the mutant: a late failure may be the test's own."""
        self.copy.sync(mutant.files)
        return self.copy.build(mutant.tree, targets) is None and all(
            run_test(self.copy, mutant, mutant.budget_s)[0] for _ in range(runs)
        )

    def one(self, mutant):
        trouble, targets = self.check_clean(mutant)
        if trouble is not None:
            return self.say(mutant, "TEST FAILS WITHOUT IT", trouble, None, 0.0)
        trouble = self.copy.apply(mutant)
        if trouble is not None:
            return self.say(mutant, "DOES NOT APPLY", trouble, None, 0.0)
        try:
            begin = time.monotonic()
            trouble = self.copy.build(mutant.tree, targets)
            build_s = time.monotonic() - begin
            if trouble is not None:
                return self.say(mutant, "DOES NOT BUILD", trouble, None, build_s)
            passed, output, seconds, run = run_until_killed(self.copy, mutant)
            if passed or output.startswith("skipped"):
                return self.say(mutant, "SURVIVED", f"{mutant.killer_text()}, {run} runs", seconds, build_s)
            what = by_what(output) + (f", at run {run}" if run > 1 else "")
            if run > 1 and not self.passes_so_often(mutant, targets, run):
                return self.say(mutant, "TEST FAILS WITHOUT IT", what, seconds, build_s)
            return self.say(mutant, "killed", what, seconds, build_s)
        finally:
            self.copy.sync(mutant.files)


def changed_since(root, commit):
    done = git(root, "diff", "--name-only", commit)
    if done.returncode != 0:
        raise Stop(f"--since {commit}: {first_line(done.stderr)}")
    return set(done.stdout.split())


def choose(root, mutants, options):
    if options.names:
        unknown = [name for name in options.names if name not in mutants]
        if unknown:
            raise Stop(
                f"there is no {unknown[0]}.patch in {planted_bugs.FOLDER} that names a test; --list tells what there is"
            )
        return [mutants[name] for name in options.names]
    if options.all:
        return list(mutants.values())
    commit = options.since
    if commit is None:  # the first commit has no parent: then all files are new
        commit = "HEAD~1" if git(root, "rev-parse", "-q", "--verify", "HEAD~1").returncode == 0 else "HEAD"
    changed = changed_since(root, commit)
    chosen = [each for each in mutants.values() if changed & {*each.files, f"{planted_bugs.FOLDER}/{each.path.name}"}]
    others = [each for each in mutants.values() if each not in chosen]
    head = git(root, "rev-parse", "HEAD").stdout.strip()
    others.sort(key=lambda each: hashlib.sha256(f"{head} {each.name}".encode()).hexdigest())
    return chosen + others[: options.sample]


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Stop(f"{message} (see --help)")


def number(text):
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"takes a whole number, from 0 on, not '{text}'")
    return int(text)


def arguments():
    parser = Parser(prog="mutants", add_help=False, allow_abbrev=False)
    parser.add_argument("--root", required=True)
    parser.add_argument("--work")
    parser.add_argument(
        "--setup", metavar="PROGRAM", help="run when the arguments are seen to be good, before any work"
    )
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--since", metavar="COMMIT")
    parser.add_argument("--sample", type=number, metavar="N")
    parser.add_argument("--general", type=number, metavar="N")
    parser.add_argument("--seed", type=number, metavar="S")
    parser.add_argument("--set", choices=sorted(sample.SETS))
    parser.add_argument("--jobs", type=number, metavar="J")
    parser.add_argument("--changed", nargs="?", const="HEAD~1", metavar="COMMIT")
    parser.add_argument("--retry", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    general = options.general is not None
    drawn = general or options.changed is not None
    ways = bool(options.names) + options.all + (options.since is not None) + general + (options.changed is not None)
    if ways > 1:
        raise Stop("--all, --since, --general, --changed and names exclude each other")
    if options.general == 0:
        raise Stop("--general takes a number of mutants, from 1 on, not 0")
    if options.retry and not general:
        raise Stop("--retry goes with --general: what survived of that sample is tried again")
    if options.seed is not None and not drawn:
        raise Stop("--seed goes with --general, whose sample it draws; that of --since depends on HEAD")
    if (options.set is not None or options.jobs is not None) and not drawn:
        raise Stop("--set and --jobs go with --general and --changed")
    if options.jobs == 0:
        raise Stop("--jobs takes a number of tests at once, from 1 on, not 0")
    if options.sample is not None and ways > 0 and options.since is None:
        raise Stop("--sample goes with --since, or alone: with the others there is nothing more to draw from")
    if options.list + options.self_test + (ways > 0 or options.sample is not None) > 1:
        raise Stop("--list and --self-test take no other option")
    options.sample = SAMPLE if options.sample is None else options.sample
    options.seed = 1 if options.seed is None else options.seed
    options.set = options.set or "alloc"
    return options


def set_up(options):
    if options.setup and subprocess.run([options.setup], check=False).returncode != 0:
        raise Stop(f"{options.setup} failed: see above")


def main():
    options = arguments()
    if options.self_test:
        return self_test.run(pathlib.Path(__file__).resolve())
    root = pathlib.Path(options.root).resolve()
    if options.general is not None or options.changed is not None:
        general = general_mutants.General(root, options.work or root / "build" / "mutants", options)
        general.rows()  # tells a damaged log
        set_up(options)
        if options.changed is not None:
            return general_mutants.run_changed(general, options.changed)
        return general_mutants.run(general, options.general, options.retry)
    mutants, errors = planted_bugs.read_all(root, "test")
    if errors:
        raise Stop("; ".join(errors))
    if options.list:
        for each in mutants.values():
            print(f"{each.name:<34} {each.killer_text():<40} {each.bug}")
        return 0
    if not mutants:
        raise Stop(f"there is no patch in {root / planted_bugs.FOLDER} that names a test")
    chosen = choose(root, mutants, options)
    set_up(options)
    copy = Copy(root, options.work or root / "build" / "mutants")
    copy.make()
    session = Session(copy)
    begin = time.monotonic()
    print(f"{'mutant':<34} {'':<22} {'test':>15} {'build':>10}  by what")
    for each in sorted(chosen, key=lambda each: (each.tree, str(each.test))):
        session.one(each)
    bad = [name for name, verdict in session.rows if verdict in FAILED]
    print(
        f"{len(session.rows)} of {len(mutants)} mutants, {len(session.rows) - len(bad)} killed, {len(bad)} not, "
        f"{time.monotonic() - begin:.0f} s" + (f": {' '.join(bad)}" if bad else "")
    )
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Stop as stop:
        print(f"mutants: {stop}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
