"""ci/mutants --general N: mutants that no person chose. universalmutator (PyPI) makes them, each of one line of alloc/.

Draws a line, and one of its mutants. A mutant that does not compile, or that leaves the unit tests' programs and the libraries
as they are, is drawn again. Each mutant is built in a copy and tried by the tests, the quick ones first, until one fails or
hangs. It counts as killed if the same test passes on the code without the mutant, within the same time limit. The log
build/mutants/general.jsonl lists the mutants that were tried, and these are not tried again: the same command continues where
it ended. With --retry the survivors are tried again first, with the tests as they are now.
"""

import difflib
import hashlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time
import venv

from mutant_copy import Copy, Stop, by_what, end_session, failed_test, first_line

TREE = "release"
LEAST_KILLED = 0.85
# Files that are in no program of that tree, and tests: no lines are drawn from them.
LEFT_OUT = re.compile(r"_test|test_support|litmus/|/include/|programs/|os/sanitizer|debug/sanitizer_report|os_fault")
# Tests of the suite itself: they run nothing of alloc/, or only libc's malloc.
OF_THE_SUITE = r"conform-unit|\.system$|override/libc|explore-unit\.(Explore[A-Z]|Arena|ZeroPage)"
# The targets that a stage builds, and the options of ctest that select its tests. No stage has the lints, which report
# any change of the hot path, the tests that need the network or a browser, or the tests of crash and inject that take
# minutes.
STAGES = (
    (("alloc-programs",), ("-R", "^(unit|unit-release)/")),
    (
        ("all",),
        (
            "-L",
            "^(unit|conform|misuse|explore)$",
            "-LE",
            "^inject$",
            "-E",
            f"^((unit|unit-release)/|stress-unit|model)|{OF_THE_SUITE}",
        ),
    ),
    (("all",), ("-L", "^(stress|fuzz)$", "-LE", "^(nightly|soak|unit|inject)$", "-E", OF_THE_SUITE)),
    (("all",), ("-R", r"^(crash\.(hakmem|hakmem-validate|static|guard|guard-static)|inject\.signals\..*)$")),
)
COUNTED = ("killed", "SURVIVED")  # "invalid" and "same" are no mutants
# Target and file. Together these contain every line that is drawn; only the libraries contain entry/malloc.c.
LOOKED_AT = {
    "alloc-tests": "alloc-tests",
    "alloc-tests-release": "alloc-tests-release",
    "hakmem": "libhakmem.so",
    "hakmem-validate": "libhakmem-validate.so",
}
TRIES = 3
HANG_FACTOR, HANG_SECONDS_MIN = 4, 60


def tool(work):
    """The program of universalmutator, in a virtual environment of its own."""
    program = work / "venv" / "bin" / "mutate"
    if not program.is_file():
        try:
            venv.create(work / "venv", with_pip=True, clear=True)
            subprocess.run(
                [work / "venv" / "bin" / "pip", "install", "-q", "universalmutator==1.14.1"],
                check=True,
                capture_output=True,
                text=True,
            )
        except (subprocess.CalledProcessError, OSError) as error:
            said = first_line((getattr(error, "stderr", "") or str(error)).replace("\n", " "))
            raise Stop(
                "universalmutator cannot be installed; it needs the package python3-venv and PyPI: " + said
            ) from error
    return program


def lines_of_code(tree):
    """[(file, number)] of the lines that are more than a comment, a brace or a directive."""
    found = []
    for path in sorted((tree / "alloc").rglob("*.[ch]")):
        name = path.relative_to(tree).as_posix()
        if LEFT_OUT.search(name):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"\w", line) and not re.match(r"\s*(/\*|\*|//|#)", line):
                found.append((name, number))
    return found


def mutants_of(program, tree, work, name, number):
    """The mutants of one line, each as the whole text of the file."""
    folder = work / "drawn"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (work / "line").write_text(f"{number}\n", encoding="utf-8")
    # A header's language cannot be told by its name.
    subprocess.run(
        [program, tree / name, "c", "--noCheck", "--lines", work / "line", "--mutantDir", folder],
        cwd=work,
        capture_output=True,
        check=False,
    )
    return sorted(path.read_text(encoding="utf-8") for path in folder.iterdir())


def fingerprint(copy):
    return [hashlib.sha256((copy.folder(TREE) / name).read_bytes()).hexdigest() for name in LOOKED_AT.values()]


def try_stage(copy, stage, limit_s):
    """(what failed or None, the test's name where there is one, seconds); limit_s None: no limit."""
    targets, selection = stage
    trouble = copy.build(TREE, targets)
    if trouble is not None:
        return f"does not build: {trouble}", "", 0.0
    begin = time.monotonic()
    command = [
        "ctest",
        "--test-dir",
        str(copy.folder(TREE)),
        *selection,
        "--output-on-failure",
        "--no-tests=error",
        "--stop-on-failure",
        "-j",
        str(os.cpu_count() or 1),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            end_session(process.pid)
            process.communicate()
            return "hangs", "", time.monotonic() - begin
    seconds = time.monotonic() - begin
    return (None, "", seconds) if process.returncode == 0 else (by_what(output), failed_test(output), seconds)


def remade(row, text):
    """The file's text with the row's change, made at the nearest place where its lines are now; None: there is none."""
    lines = text.splitlines()
    old = [line[1:] for line in row["diff"] if line.startswith("-")]
    new = [line[1:] for line in row["diff"] if line.startswith("+")]
    places = [at for at in range(len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
    if not places:
        return None
    at = min(places, key=lambda place: abs(place - (row["line"] - 1)))
    return "\n".join(lines[:at] + new + lines[at + len(old) :]) + "\n"


class General:
    def __init__(self, root, work, seed):
        self.work, self.seed = pathlib.Path(work), seed
        self.copy = Copy(root, self.work)
        self.log = self.work / "general.jsonl"
        self.limits = []

    def tried(self):
        if not self.log.is_file():
            return []
        try:
            rows = [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]
            return [row for row in rows if row["seed"] == self.seed]
        except (ValueError, KeyError, TypeError) as error:
            raise Stop(f"{self.log} is damaged: delete it, and the sample begins again") from error

    def begin(self):
        self.copy.make()
        self.program = tool(self.work)
        for stage in STAGES:
            what, _, seconds = try_stage(self.copy, stage, None)
            if what is not None:
                raise Stop(f"the tests fail without a mutant: {what}")
            self.limits.append(max(HANG_SECONDS_MIN, HANG_FACTOR * seconds))
        self.base = fingerprint(self.copy)

    def killed_by(self, name, text, stage, limit_s):
        """The test of the stage that fails with the mutant, which is in the copy now, and passes without it; None: there
        is none. Compares the test by itself if it also fails alone, else the whole stage, with the same limit."""
        for _ in range(TRIES):
            what, test, _ = try_stage(self.copy, stage, limit_s)
            if what is None or what.startswith("does not build"):
                return what
            same = stage
            if test:
                alone = stage[0], ("-R", f"^{re.escape(test)}( |$)")
                if try_stage(self.copy, alone, limit_s)[0] is not None:
                    same = alone
                else:
                    what += ", not by itself"
            self.copy.sync([name])
            without, _, _ = try_stage(self.copy, same, limit_s)
            if without is None:
                return what
            print(
                f"mutants: {name}: {what}; but without the mutant, too: {without}; it is tried again", file=sys.stderr
            )
            (self.copy.tree / name).write_text(text, encoding="utf-8")
        raise Stop(
            f"the tests fail without a mutant: {without}; {name} was tried {TRIES} times. Mend that; the same command "
            "continues from here"
        )

    def judge(self, name, text):
        """(verdict, by what). The verdict is one of COUNTED, "invalid" or "same"."""
        path = self.copy.tree / name
        path.write_text(text, encoding="utf-8")
        try:
            if self.copy.build(TREE, tuple(LOOKED_AT)) is not None:
                return "invalid", ""
            if fingerprint(self.copy) == self.base:
                return "same", ""
            for stage, limit_s in zip(STAGES, self.limits):
                killed = self.killed_by(name, text, stage, limit_s)
                if killed is not None:
                    return ("invalid", killed) if killed.startswith("does not build") else ("killed", killed)
            return "SURVIVED", ""
        finally:
            self.copy.sync([name])

    def say(self, number, row, seconds):
        place = f"{row['file']}:{row['line']}"
        print(f"{number:>4} {place:<40} {row['verdict']:<10} {seconds:>6.0f} s  {row['what']}", flush=True)
        if row["verdict"] == "SURVIVED":
            print("\n".join("     " + each for each in row["diff"]), flush=True)

    def retry(self):
        """The survivors, tried with the tests as they are now. A change whose line is gone does not count any more."""
        self.begin()
        every = (
            [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]
            if self.log.is_file()
            else []
        )
        number = 0
        for row in every:
            if row["seed"] != self.seed:
                continue
            number += row["verdict"] in COUNTED
            if row["verdict"] != "SURVIVED":
                continue
            begin = time.monotonic()
            path = self.copy.tree / row["file"]
            text = remade(row, path.read_text(encoding="utf-8")) if path.is_file() else None
            row["verdict"], row["what"] = self.judge(row["file"], text) if text is not None else ("gone", "its line is")
            self.say(number, row, time.monotonic() - begin)
            new = self.log.with_suffix(".new")
            new.write_text("".join(json.dumps(each) + "\n" for each in every), encoding="utf-8")
            new.replace(self.log)

    def run(self, count):
        rows = self.tried()
        if not self.limits:
            self.begin()
        draws, lines = random.Random(self.seed), lines_of_code(self.copy.tree)
        skip = len(rows)
        number = sum(row["verdict"] in COUNTED for row in rows)
        while number < count:
            name, line = draws.choice(lines)
            pick = draws.random()
            if skip > 0:
                skip -= 1
                continue
            texts = mutants_of(self.program, self.copy.tree, self.work, name, line)
            before = (self.copy.tree / name).read_text(encoding="utf-8")
            text = texts[int(pick * len(texts))] if texts else before
            begin = time.monotonic()
            verdict, what = ("same", "") if text == before else self.judge(name, text)
            diff = [each for each in difflib.unified_diff(before.splitlines(), text.splitlines(), lineterm="", n=0)][3:]
            row = {"seed": self.seed, "file": name, "line": line, "verdict": verdict, "what": what, "diff": diff}
            with self.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(row) + "\n")
            if verdict not in COUNTED:
                continue
            rows.append(row)
            number += 1
            self.say(number, row, time.monotonic() - begin)
        return rows


def run(general, count, retries):
    if retries:
        general.retry()
    rows = [row for row in general.run(count) if row["verdict"] in COUNTED]
    killed = sum(row["verdict"] == "killed" for row in rows)
    print(
        f"{len(rows)} general mutants, seed {general.seed}: {killed} killed, {len(rows) - killed} not: "
        f"{100 * killed / max(len(rows), 1):.1f} %, and {100 * LEAST_KILLED:.0f} % are asked"
    )
    return 0 if killed >= LEAST_KILLED * len(rows) else 1
