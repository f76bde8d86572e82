"""ci/mutants does the work here; see its head for the options, the table and the exit status.

The copy is made of the files that git knows or does not ignore, each written only where it differs, so that a build
tree of the copy compiles what a patch changes and no more.
"""

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import mutant_patches
import mutants_self_test

FAILED = ("SURVIVED", "DOES NOT APPLY", "DOES NOT BUILD", "TEST FAILS WITHOUT IT")


class Stop(Exception):
    """Bad input: one line, exit status 2."""


def git(root, *arguments):
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)


def tracked(root):
    found = git(root, "ls-files", "-co", "--exclude-standard", "-z")
    if found.returncode != 0:
        raise Stop(f"{root} is no checkout of git: {found.stderr.strip()}")
    return [name for name in found.stdout.split("\0") if name and (pathlib.Path(root) / name).is_file()]


class Copy:
    def __init__(self, root, work):
        self.root, self.tree = pathlib.Path(root), pathlib.Path(work) / "tree"

    def sync(self, names):
        for name in names:
            source, target = self.root / name, self.tree / name
            data = source.read_bytes()
            if target.is_file() and target.read_bytes() == data:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            shutil.copymode(source, target)

    def make(self):
        """The copy as the checkout is now: what is no longer there goes too."""
        names = tracked(self.root)
        self.sync(names)
        keep = set(names)
        for path in self.tree.rglob("*"):
            name = path.relative_to(self.tree).as_posix()
            if path.is_file() and not name.startswith("build/") and name not in keep:
                path.unlink()

    def apply(self, mutant):
        """Git must not find the checkout around the copy. What it says where the patch does not apply."""
        done = subprocess.run(["git", "apply", "-p1", str(mutant.path.resolve())], cwd=self.tree, capture_output=True,
                              text=True, check=False,
                              env={**os.environ, "GIT_CEILING_DIRECTORIES": str(self.tree.resolve().parent)})
        return None if done.returncode == 0 else first_line(done.stderr)

    def folder(self, tree):
        return self.tree / "build" / tree

    def build(self, tree, targets):
        """None, or what went wrong."""
        folder = self.folder(tree)
        if not (folder / "build.ninja").exists():
            done = subprocess.run(["cmake", "--preset", tree], cwd=self.tree, capture_output=True, text=True,
                                  check=False)
            if done.returncode != 0:
                return first_line(done.stderr) or "cmake failed"
        if not targets:
            return None
        done = subprocess.run(["cmake", "--build", str(folder), "--target", *targets], capture_output=True, text=True,
                              check=False)
        if done.returncode == 0:
            return None
        return next((line for line in done.stdout.splitlines() if "error:" in line), "the build failed")

    def targets(self, mutant):
        """What the test's commands name of the build tree."""
        if mutant.targets:
            return mutant.targets
        folder = str(self.folder(mutant.tree).resolve())
        if mutant.kind == "run":
            words = [str(pathlib.Path(folder) / mutant.test[0])]
        else:
            # Not from ctest --show-only: that leaves out the command of a test whose program is not built yet.
            words = [line for path in self.folder(mutant.tree).rglob("CTestTestfile.cmake")
                     for line in path.read_text(encoding="utf-8").splitlines()
                     if (test := re.match(r'add_test\((?:\[=*\[|")?(.+?)(?:\]=*\]|")? "', line))
                     and re.search(mutant.test, test[1])]
        names = set()
        for word in words:
            for path in re.findall(re.escape(folder) + r"/([\w.+-]+)(?![\w.+/-])", word):
                names.add(re.sub(r"^lib(.*)\.so$", r"\1", path))
        return sorted(names)


def first_line(text):
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def end_session(leader):
    """Of a test that hangs: it and what it started. ctest gives each test a process group of its own, but all are of
    the session that began with this process."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            session = int(stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[3])
            if session == leader:
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except (OSError, IndexError, ValueError):
            continue # it has ended meanwhile


def run_test(copy, mutant, limit_s):
    """(passed, what it printed, seconds)."""
    folder = copy.folder(mutant.tree)
    command = mutant.test
    if mutant.kind == "ctest":
        command = ["ctest", "--test-dir", str(folder), "-R", mutant.test, "--output-on-failure", "--no-tests=error"]
    elif "/" not in command[0]:
        command = [f"./{command[0]}", *command[1:]]
    begin = time.monotonic()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True) as process:
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
    """As run_test, and at which run it ended. Threads meet by chance, less often on a busy machine: what passes is run
    again until the budget is used up. Each run may take all of it, so that a slow one is not taken for a hang."""
    begin, run = time.monotonic(), 0
    while True:
        run += 1
        passed, output, _ = run_test(copy, mutant, mutant.budget_s)
        seconds = time.monotonic() - begin
        if not passed or seconds >= mutant.budget_s:
            return passed, output, seconds, run


SIGNS = (r"WARNING: (ThreadSanitizer: [\w -]+)", r"ERROR: (AddressSanitizer: [\w-]+)", r"(hakmem: failfast: \w+)",
         r"\[  FAILED  \] ([\w./]+)", r"^FAILED: ([^\n]{,60})", r"\*\*\*(Timeout)",
         r"\*\*\*Exception: (\w+)", r"Subprocess (aborted|killed)")


def by_what(output):
    """The test that failed, and the first sign of why."""
    failed = re.search(r"^\s*\d+ - (\S+) \(", output, re.MULTILINE)
    sign = next((match[1] for match in (re.search(sign, output, re.MULTILINE) for sign in SIGNS) if match), "")
    if sign == "Timeout":
        sign = "hangs"
    return ": ".join(part for part in (failed[1] if failed else "", sign) if part) or "exit status"


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
        """None where the mutant's test passes without it, within the budget; else why not. Asked once for each test."""
        key = (mutant.tree, mutant.kind, str(mutant.test))
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
        """Whether the mutant's test passes without it that many times: a late failure may be the test's own."""
        self.copy.sync(mutant.files)
        return self.copy.build(mutant.tree, targets) is None and all(
            run_test(self.copy, mutant, mutant.budget_s)[0] for _ in range(runs))

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
            raise Stop(f"there is no {unknown[0]}.patch in {mutant_patches.FOLDER}; --list tells what there is")
        return [mutants[name] for name in options.names]
    if options.all:
        return list(mutants.values())
    commit = options.since
    if commit is None: # the first commit has no parent: then all files are new
        commit = "HEAD~1" if git(root, "rev-parse", "-q", "--verify", "HEAD~1").returncode == 0 else "HEAD"
    changed = changed_since(root, commit)
    chosen = [each for each in mutants.values()
              if changed & {*each.files, f"{mutant_patches.FOLDER}/{each.path.name}"}]
    others = [each for each in mutants.values() if each not in chosen]
    head = git(root, "rev-parse", "HEAD").stdout.strip()
    others.sort(key=lambda each: hashlib.sha256(f"{head} {each.name}".encode()).hexdigest())
    return chosen + others[:options.sample]


def arguments():
    parser = argparse.ArgumentParser(prog="mutants", add_help=False)
    parser.add_argument("--root", required=True)
    parser.add_argument("--work")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--since", metavar="COMMIT")
    parser.add_argument("--sample", type=int, default=3)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if bool(options.names) + options.all + (options.since is not None) > 1:
        raise Stop("--all, --since and names exclude each other")
    return options


def main():
    options = arguments()
    if options.self_test:
        return mutants_self_test.run(pathlib.Path(__file__).resolve())
    root = pathlib.Path(options.root).resolve()
    mutants, errors = mutant_patches.read_all(root)
    if errors:
        raise Stop("; ".join(errors))
    if options.list:
        for each in mutants.values():
            print(f"{each.name:<34} {each.killer_text():<40} {each.bug}")
        return 0
    if not mutants:
        raise Stop(f"there is no patch in {root / mutant_patches.FOLDER}")
    chosen = choose(root, mutants, options)
    copy = Copy(root, options.work or root / "build" / "mutants")
    copy.make()
    session = Session(copy)
    begin = time.monotonic()
    print(f"{'mutant':<34} {'':<22} {'test':>15} {'build':>10}  by what")
    for each in sorted(chosen, key=lambda each: (each.tree, str(each.test))):
        session.one(each)
    bad = [name for name, verdict in session.rows if verdict in FAILED]
    print(f"{len(session.rows)} of {len(mutants)} mutants, {len(session.rows) - len(bad)} killed, {len(bad)} not, "
          f"{time.monotonic() - begin:.0f} s" + (f": {' '.join(bad)}" if bad else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Stop as stop:
        print(f"mutants: {stop}", file=sys.stderr)
        sys.exit(2)
