"""ci/mutants --general N and --changed: mutants that no person chose, by the operators of operators.py.

A sample is drawn, the same for the same seed: from every file, and in each file from every operator in turn. All of it
is compiled into one copy of the tree (schemata.py), so that a build is needed once; the environment of a process names
the mutant that it runs. Each test runs once without a mutant, to see how long it takes and to which mutants it comes.
A slow test is run case by case where its program can do that. Each mutant is then tried by the tests that come to it,
the quickest first, until one fails or hangs (judge.py). A test that also fails without the mutant kills nothing.

The log of tried mutants is build/mutants/general/SET.jsonl: the same command continues where it ended, as long as no file of
the checkout changes. --retry keeps the verdicts "killed" of functions that did not change.
"""

import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import site
import subprocess
import sys
import threading
import time
import venv

import equivalents
import judge
import sample
import schemata
import trial
from mutant_copy import Copy, Stop, first_line, tracked

TREE = "release"
PARSERS = ("tree-sitter==0.26.1", "tree-sitter-c==0.24.2", "tree-sitter-cpp==0.23.4")
CHANGED_SECONDS = 300
SPLIT_SECONDS = 1  # a test that takes longer runs case by case
# An index past the end is a crash. Without these the program would read on, and only the trees with a sanitizer would see
# it, which are not built here.
C_FLAGS = "-w -fsanitize=array-bounds -fsanitize-trap=array-bounds"
CXX_FLAGS = "-w -D_GLIBCXX_ASSERTIONS"
CHUNK = 150  # mutants whose survivors are tried together


def load_parsers(venv_folder):
    """Makes tree-sitter importable, from a virtual environment of its own."""
    python = venv_folder / "bin" / "python"
    packages = list(venv_folder.glob("lib/python*/site-packages"))
    here = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not packages or packages[0].parent.name != here or not (packages[0] / "tree_sitter_cpp").is_dir():
        try:
            venv.create(venv_folder, with_pip=True, clear=True)
            subprocess.run([python, "-m", "pip", "install", "-q", *PARSERS], check=True, capture_output=True, text=True)
        except (subprocess.CalledProcessError, OSError) as error:
            said = first_line((getattr(error, "stderr", "") or str(error)).replace("\n", " "))
            raise Stop(
                f"tree-sitter cannot be installed; it needs the package python3-venv and PyPI: {said}"
            ) from error
    site.addsitedir(str(venv_folder / "lib" / here / "site-packages"))


def first_error(output):
    """Of ninja."""
    return next((line for line in output.splitlines() if "error" in line), "see ninja")


class General:
    def __init__(self, root, work, options):
        self.root, self.work = pathlib.Path(root), pathlib.Path(work) / "general"
        self.set, self.chosen = options.set, sample.SETS[options.set]
        self.seed, self.jobs = options.seed, options.jobs or os.cpu_count() or 1
        self.copy = Copy(root, self.work)
        self.build = self.copy.folder(TREE)
        self.log = self.work / f"{self.set}.jsonl"
        self.stamp = self.work / "copied"  # of which set the copy has a sample, and of which files
        self.venv = pathlib.Path(work) / "venv"
        self.saying = threading.Lock()
        self.deadline = None
        self.left_out = 0  # tests that there was no time for
        self.judge = judge.Judge(self.jobs, self.note, self.is_late)

    # --- the log ---

    def rows(self):
        if not self.log.is_file():
            return []
        try:
            rows = [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]
            return [row for row in rows if row["verdict"] and row["key"] and row["tree"]]
        except (ValueError, KeyError, TypeError) as error:
            raise Stop(f"{self.log} is damaged: delete it, and the sample begins again") from error

    def digest(self):
        """Of every file that is built or tested: a verdict holds for this tree."""
        whole = hashlib.sha256()
        for name in sorted(tracked(self.root)):
            if not re.match(r"(alloc|stress|fuzz|corpus)/|CMake", name):
                continue
            whole.update(name.encode() + hashlib.sha256((self.root / name).read_bytes()).digest())
        return whole.hexdigest()[:16]

    # --- the sample ---

    def has_followed(self):
        """Takes over what has changed since the last run. Returns whether CMake must look again."""

        def lags(name):
            own = self.copy.tree / name
            read = re.search(r"(^|/)CMake\w+[.](txt|json)$|[.]cmake$", name)
            return not own.is_file() or read and own.read_bytes() != (self.root / name).read_bytes()

        names = tracked(self.root)
        new = [name for name in names if lags(name)]
        # A sample is compiled with what it includes. While nothing has changed, the last sample of the set stays.
        copied = f"{self.set} {self.digest()}"
        changed = not self.stamp.is_file() or self.stamp.read_text(encoding="utf-8") != copied
        self.copy.sync(names if changed else new)
        self.stamp.write_text(copied, encoding="utf-8")
        return bool(new)

    def configure(self, again):
        cache = self.build / "CMakeCache.txt"
        built = (self.build / "build.ninja").exists() and f"={C_FLAGS}\n" in cache.read_text(encoding="utf-8")
        if again or not built:
            done = subprocess.run(
                ["cmake", "--preset", TREE, f"-DCMAKE_C_FLAGS={C_FLAGS}", f"-DCMAKE_CXX_FLAGS={CXX_FLAGS}"],
                cwd=self.copy.tree,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise Stop(f"cmake: {first_line(done.stderr)}")

    def checker(self, names):
        listed = self.build / "compile_commands.json"
        rows = json.loads(listed.read_text(encoding="utf-8")) if listed.is_file() else []
        commands = schemata.compile_commands(rows, self.copy.tree.resolve(), names)
        return schemata.Checker(self.copy.tree, commands, self.build, self.work / "checked.json")

    def precompile(self, commands):
        """Builds the precompiled headers that these commands name: without them none succeeds."""
        inside = f"{self.build.resolve()}/"
        words = {word for found in commands.values() for command in found for word in command}
        headers = sorted(
            word.removeprefix(inside) for word in words if word.startswith(inside) and word.endswith(".pch")
        )
        if headers:
            command = ["cmake", "--build", str(self.build), "--target", *headers, "-j", str(self.jobs)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                self.stamp.unlink()  # a sample that was being built may be the reason
                raise Stop(f"a precompiled header does not build: {first_error(done.stdout + done.stderr)}")

    def draw(self, quota, found):
        """[mutants]: quota {file: number} of found {file: mutants in the order of drawing}."""
        checker = self.checker(list(found))
        self.precompile(checker.commands)

        def of_file(name):
            data = (self.root / name).read_bytes()

            def check(mutants):
                return [each for _, each in checker.good(name, data, list(enumerate(mutants, 1)))]

            return sample.pick(found[name], quota[name], check)

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            drawn_mutants = [each for drawn in pool.map(of_file, sorted(found)) for each in drawn]
        checker.save()
        return drawn_mutants

    # --- the build ---

    def write(self, numbered):
        by_file = collections.defaultdict(list)
        for number, mutant in numbered.items():
            by_file[mutant.file].append((number, mutant))
        texts = {name: schemata.render((self.root / name).read_bytes(), rows) for name, rows in by_file.items()}
        for name in tracked(self.root):
            data = texts.get(name) or (self.root / name).read_bytes()
            path = self.copy.tree / name
            if not path.is_file() or path.read_bytes() != data:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)

    def around(self, mutant):
        """The text of its function, roughly. Where `if (!VALIDATE) return;` is gone, the release build calls what it has
        not."""
        data = (self.root / mutant.file).read_bytes()
        begin, end = data.rfind(b"\n}\n", 0, mutant.start), data.find(b"\n}\n", mutant.end)
        return data[max(begin, 0) : end if end >= 0 else len(data)].decode()

    def make(self, numbered):
        """Builds the tree with these mutants. Removes from numbered those that only the whole build shows to be wrong."""
        for _ in range(4):
            self.write(numbered)
            command = ["cmake", "--build", str(self.build), "--target", *self.chosen.targets(), "-j", str(self.jobs)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return
            words = set(re.findall(r"undefined symbol: (\w+)", done.stdout))
            files = set(re.findall(r"((?:alloc|stress)/[\w/]+\.(?:cc|c|h)):\d+:\d+: error", done.stdout))
            bad = [
                number
                for number, each in numbered.items()
                if each.file in files
                or words & (set(re.findall(r"\w+", each.text + self.around(each))) - {each.function})
            ]
            if not bad:
                raise Stop(f"the tree does not build: {first_error(done.stdout)}")
            for number in bad:
                mutant = numbered.pop(number)
                self.note(f"{mutant.file}:{mutant.line}: {mutant.operator} does not build in every program; left out")
        raise Stop("the tree does not build with the mutants, after four attempts")

    # --- the tests ---

    def note(self, text):
        with self.saying:
            print(f"mutants: {text}", file=sys.stderr, flush=True)

    def measured(self, digest, files):
        """The tests, with their times and what they come to; kept for the next run with the same programs. The suites that
        lie nearest to these files come first, where there may not be time for all."""
        folder = self.work / f"reached.{self.set}"
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if not old.name.endswith(digest):
                old.unlink()
        times_file = self.work / f"times.{self.set}.json"
        times = json.loads(times_file.read_text(encoding="utf-8")) if times_file.is_file() else {}
        late, skipped = [], set()

        def last(test):
            return times.get(test.name, {}).get("last", 0)

        def one(test):
            file = folder / (hashlib.sha256(test.name.encode()).hexdigest()[:16] + "." + digest)
            seconds = times.get(test.name, {}).get(digest)
            if seconds is not None and file.is_file():
                test.seconds, test.reached = seconds, file.read_bytes()
                return test, None
            if self.deadline is not None and time.monotonic() + last(test) > self.deadline - CHANGED_SECONDS / 3:
                late.append(test.name)
                return test, "late"
            why = trial.measure(test, file)
            if why is None:
                file.write_bytes(test.reached)
            return test, why

        def all_of(tests):
            good = []
            for test, why in pool.map(one, sorted(tests, key=last)):
                if why is None:
                    good.append(test)
                    times[test.name] = {digest: test.seconds, "last": test.seconds}
                elif why == trial.SKIPPED:
                    skipped.add(test.name)
                elif why != "late":
                    self.note(f"{test.name} is not used: {why}")
            return good

        def usable_of(every):
            usable = all_of(test for test in every if last(test) <= SPLIT_SECONDS)
            known = [test for test in every if last(test) > SPLIT_SECONDS]
            slow = known + [test for test in usable if test.seconds > SPLIT_SECONDS]
            usable = [test for test in usable if test.seconds <= SPLIT_SECONDS]
            cases = {test.name: found for test in slow if len(found := trial.parts(test)) > 1}
            good = all_of(part for found in cases.values() for part in found)
            alone = {part.name for part in good} | skipped
            # A case that fails alone may need the ones before it: then the whole runs, too.
            whole = [test for test in slow if any(part.name not in alone for part in cases.get(test.name, [test]))]
            return usable + good + all_of(whole)

        every = trial.read_tests(self.build, self.chosen.names())
        near = sample.near_suites(self.root, files) if self.deadline is not None else set()
        first = [test for test in every if near & set(re.split(r"[/.]", test.name))]
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            usable = usable_of(first) + usable_of([test for test in every if test not in first])
        self.left_out = len(late)
        if late:
            self.note(f"{len(late)} tests or their cases are left out, to end in time; they may see what survives")
        times_file.write_text(json.dumps(times), encoding="utf-8")
        if not usable:
            raise Stop(f"no test of {self.build} can be used")
        return sorted(usable, key=lambda test: test.seconds)

    # --- the trial ---

    def is_late(self):
        return self.deadline is not None and time.monotonic() > self.deadline

    def compiles_alike(self, mutant):
        """Whether the compiler turns the mutant into the code of the original, in every program."""
        data = (self.root / mutant.file).read_bytes()
        commands = self.checker([mutant.file]).commands.get(mutant.file, [])
        if mutant.file.endswith(".h") or not commands:
            return False
        language = "c" if mutant.file.endswith(".c") else "c++"
        for command in commands:
            words = [word for word in command[:-1] if not word.startswith("-flto")]
            made = [
                subprocess.run(
                    [*words, "-w", "-O2", "-S", "-x", language, "-o", "-", "-"],
                    cwd=self.build,
                    input=text,
                    capture_output=True,
                    check=False,
                ).stdout
                for text in (data, schemata.alone(data, mutant))
            ]
            if made[0] != made[1] or not made[0]:
                return False
        return True

    def say(self, done, count, mutant, row):
        with self.saying:
            place = f"{mutant.file}:{mutant.line}"
            print(
                f"{done:>4}/{count:<4} {place:<38} {mutant.operator:<17} {row['verdict']:<10} {row['seconds']:>5.0f} s  {row['what']}",
                flush=True,
            )
            if row["verdict"] == "SURVIVED":
                print("\n".join("       " + line for line in shown(mutant, self.root)), flush=True)

    def try_all(self, numbered, tests, digest, known):
        """The rows of the mutants, tried by several workers at once; known ones are not tried again."""
        rows = dict(known)

        def end(mutant, verdict, what, seconds):
            row = {
                "key": mutant.key,
                "hash": mutant.function_hash,
                "tree": digest,
                "seed": self.seed,
                "file": mutant.file,
                "line": mutant.line,
                "function": mutant.function,
                "operator": mutant.operator,
                "verdict": verdict,
                "what": what,
                "seconds": round(seconds, 1),
            }
            rows[mutant.key] = row
            with self.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(row) + "\n")
            self.say(len(rows), len(numbered), mutant, row)

        def one(number):
            begin = time.monotonic()
            mutant = numbered[number]
            if self.left_out and not any(test.comes_to(number) for test in tests):
                self.note(
                    f"{mutant.file}:{mutant.line} {mutant.operator} is not tried: no test that there was time for comes to it"
                )
                return number, "", "", [], 0
            verdict = self.judge.alone(number, tests, lambda: self.compiles_alike(mutant))
            return number, *verdict, time.monotonic() - begin

        left = [number for number, mutant in numbered.items() if mutant.key not in known]
        for at in range(0, len(left), CHUNK):
            waiting = {}
            with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
                parts = [pool.submit(one, number) for number in left[at : at + CHUNK]]
                for each in concurrent.futures.as_completed(parts):
                    number, verdict, what, slow, seconds = each.result()
                    if verdict:
                        end(numbered[number], verdict, what, seconds)
                    elif slow:
                        waiting[number] = slow
                        mutant = numbered[number]
                        self.note(
                            f"{mutant.file}:{mutant.line} {mutant.operator} passes {what}; {len(slow)} slow ones wait"
                        )
            begin = time.monotonic()
            for number, (verdict, what) in self.judge.together(waiting, lambda number: numbered[number].file).items():
                end(numbered[number], verdict, what, (time.monotonic() - begin) / len(waiting))
        return rows

    # --- the commands ---

    def begin(self):
        self.work.mkdir(parents=True, exist_ok=True)
        load_parsers(self.venv)
        self.copy.tree.mkdir(parents=True, exist_ok=True)
        if not self.build.exists():
            self.copy.make()
        self.configure(self.has_followed())

    def run(self, drawn, digest, retry=False):
        excused = {row.key: row for row in equivalents.read(self.root)[0]}
        numbered = dict(enumerate((each for each in drawn if each.key not in excused), 1))
        asked = len(drawn) - len(numbered)
        begin = time.monotonic()
        self.make(numbered)
        if self.deadline is not None:  # on a busy machine the build alone may take as long: the tests get a half
            self.deadline = max(self.deadline, time.monotonic() + CHANGED_SECONDS / 2)
        built = hashlib.sha256((digest + "".join(each.key for each in numbered.values())).encode()).hexdigest()[:16]
        tests = self.measured(built, {each.file for each in numbered.values()})
        before_s = time.monotonic() - begin
        keys = {each.key for each in numbered.values()}
        known = {
            row["key"]: row
            for row in self.rows()
            if row["key"] in keys and (row["tree"] == digest and not retry or retry and row["verdict"] == "killed")
        }
        begin = time.monotonic()
        rows = self.try_all(numbered, tests, digest, known)
        seconds = time.monotonic() - begin
        tried = len(rows) - len(known)
        print(
            f"{len(tests)} tests; build and tests without a mutant {before_s:.0f} s; {tried} mutants tried in {seconds:.0f} s"
            + (f", {3600 * tried / seconds:.0f} an hour" if tried and seconds > 1 else "")
        )
        return [rows[each.key] for each in numbered.values() if each.key in rows], asked


def shown(mutant, root):
    data = (pathlib.Path(root) / mutant.file).read_bytes()
    old = data[mutant.start : mutant.end].decode()
    return [f"- {line}" for line in old.splitlines()] + [f"+ {line}" for line in mutant.text.splitlines()]


def table(rows, column):
    counts = collections.defaultdict(collections.Counter)
    for row in rows:
        counts[row[column]][row["verdict"]] += 1
    print(f"{column:<32} {'killed':>7} {'survived':>9}")
    for name in sorted(counts):
        print(f"{name:<32} {counts[name]['killed']:>7} {counts[name]['SURVIVED']:>9}")


def verdict(rows, asked, least, head):
    counted = [row for row in rows if row["verdict"] in ("killed", "SURVIVED")]
    killed = sum(row["verdict"] == "killed" for row in counted)
    survivors = [row for row in counted if row["verdict"] == "SURVIVED"]
    if survivors:
        print(f"Survivors. Each needs a test, or a row of {equivalents.FILE}: this line and the reason.")
    for row in survivors:
        print(
            f"{row['key']} {row['hash']} {row['file']} {row['function']} {row['operator']} (line {row['line']}: {row['what']})"
        )
    for column in ("operator", "file"):
        table(counted, column)
    print(
        f"{len(counted)} {head}: {killed} killed, {len(counted) - killed} not: "
        f"{100 * killed / max(len(counted), 1):.1f} %, and {100 * least:.0f} % are asked; "
        f"{len(rows) - len(counted)} the same code, {asked} equivalent by {equivalents.FILE}"
    )
    return 0 if killed >= least * len(counted) else 1


def run(general, count, retry):
    general.rows()
    general.begin()
    found = {
        name: sample.in_turn(each, general.seed)
        for name, each in sample.all_mutants(general.chosen, general.root).items()
    }
    if not found:
        raise Stop(f"there is no mutant in {', '.join(general.chosen.folders)}")
    quota = sample.shares({name: len(each) for name, each in found.items()}, count)
    drawn = general.draw(quota, {name: each for name, each in found.items() if quota[name] > 0})
    if not drawn:
        raise Stop("none of the mutants compiles: see compile_commands.json of the copy")
    rows, asked = general.run(drawn, general.digest(), retry)
    return verdict(rows, asked, general.chosen.least, f"mutants of {general.set}, seed {general.seed}")


def run_changed(general, commit):
    lines = sample.changed_lines(general.root, commit)
    general.begin()
    general.deadline = time.monotonic() + CHANGED_SECONDS
    found = {
        name: sample.in_turn(touched, general.seed)
        for name, mutants in sample.all_mutants(general.chosen, general.root).items()
        if (touched := [each for each in mutants if each.line in lines[name]])
    }
    if not found:
        print(f"no line of {', '.join(general.chosen.folders)} that has mutants differs from {commit}")
        return 0
    whole, general.chosen = general.chosen, general.chosen.for_changed(found)
    for tests in whole.tests:
        if tests not in general.chosen.tests:
            general.note(f"left out, since their build takes long: tests {tests.names}")
    sizes = {name: len(each) for name, each in found.items()}
    drawn = general.draw(sample.shares(sizes, min(sum(sizes.values()), 150)), found)
    rows, asked = general.run(drawn, general.digest())
    print(f"{len(rows)} of the {sum(sizes.values())} mutants of lines that differ from {commit} were tried")
    return verdict(rows, asked, general.chosen.least, "mutants")
