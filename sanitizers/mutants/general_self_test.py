"""The self-test of ci/mutants --general: a project of a few lines, and a mutator that knows them, for universalmutator."""

import contextlib
import io
import json
import pathlib
import stat
import subprocess
import tempfile

import general_mutants
from mutant_copy import Stop

TEST = "add_test(NAME unit/{0} COMMAND alloc-tests {0})\n"
CMAKE = (
    "cmake_minimum_required(VERSION 3.25)\nproject(toy C)\nenable_testing()\n"
    "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})\n"
    "add_library(hakmem SHARED alloc/library.c)\nadd_library(hakmem-validate SHARED alloc/library.c)\n"
    "set_target_properties(hakmem hakmem-validate PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})\n"
    "foreach(tests alloc-tests alloc-tests-release)\nadd_executable(${tests} alloc/toy.c)\n"
    "target_link_libraries(${tests} hakmem)\nendforeach()\n"
    "add_custom_target(alloc-programs DEPENDS alloc-tests alloc-tests-release)\n"
    # One for each stage, since a stage without a test is an error.
    "add_test(NAME misuse COMMAND alloc-tests)\nset_tests_properties(misuse PROPERTIES LABELS misuse)\n"
    "add_test(NAME stress COMMAND alloc-tests)\nset_tests_properties(stress PROPERTIES LABELS stress)\n"
    "add_test(NAME crash.static COMMAND alloc-tests)\n" + TEST.format("sum")
)
# Tests that some cases add. The library is not part of a program; programs only load it.
FOR_THE_LIBRARY = TEST.format("library")
RED = "add_test(NAME unit/red COMMAND false)\n"
# Fails from its second run on, up to its N-th.
AT_TIMES = (
    """add_test(NAME unit/at_times COMMAND sh -c "echo >> runs; n=$(wc -l < runs); test $n -eq 1 -o $n -gt {0}")\n"""
)
# Fails three times, then does as the program does.
LATE = """add_test(NAME unit/late COMMAND sh -c "echo >> late; test $(wc -l < late) -gt 3 && exec $<TARGET_FILE:alloc-tests>")\n"""
SLOW = "add_test(NAME unit/slow COMMAND sleep 3)\n"
FILES = {
    "CMakeLists.txt": CMAKE,
    "CMakePresets.json": '{"version": 6, "configurePresets": [{"name": "release", "generator": "Ninja",'
    ' "binaryDir": "${sourceDir}/build/release"}]}\n',
    "alloc/toy.c": "/* A comment is not drawn. */\n"
    "static int sum(int a, int b) { return a + b; }\n"
    "static int product(int a, int b) { return a * b; }\n"
    "typedef int number;\n"
    "enum { ONE = 1 };\n"
    "int library(int a, int b);\n"
    "int main(int count, char **words) { return count == 1 || words[1][0] == 's' ? sum(2, 3) != 5 :"
    " words[1][0] == 'l' ? library(2, 3) != 5 : product(2, 3) != 6; }\n",
    "alloc/library.c": "int library(int a, int b) { return b + a; }\n",
    ".gitignore": "/build/\n",
}
# For each file and line the change and its verdict.
CHANGES = {
    ("toy.c", 2): ("a + b", "a - b"),
    ("toy.c", 3): ("a * b", "a / b"),
    ("toy.c", 4): ("int", "nix"),
    ("toy.c", 5): ("1", "1u"),
    ("library.c", 1): ("b + a", "b - a"),
}
VERDICTS = {
    ("alloc/toy.c", 2): "killed",
    ("alloc/toy.c", 3): "SURVIVED",
    ("alloc/toy.c", 4): "invalid",
    ("alloc/toy.c", 5): "same",
    ("alloc/toy.c", 6): "same",
    ("alloc/toy.c", 7): "same",
    ("alloc/library.c", 1): "SURVIVED",
}
MUTATOR = f"""#!/usr/bin/env python3
import pathlib, sys
source, number, folder = sys.argv[1], int(pathlib.Path(sys.argv[5]).read_text()), sys.argv[7]
lines = pathlib.Path(source).read_text().splitlines(True)
old, new = {CHANGES!r}.get((pathlib.Path(source).name, number), ("", ""))
if old:
    lines[number - 1] = lines[number - 1].replace(old, new)
    pathlib.Path(folder, "mutant.c").write_text("".join(lines))
"""


SEED = "2"  # no test sees the first two changes that count


def rows_of(work):
    return [json.loads(line) for line in (work / "general.jsonl").read_text(encoding="utf-8").splitlines()]


def wrong_rows(rows):
    return [row for row in rows if row["verdict"] != VERDICTS.get((row["file"], row["line"]))]


def check_sample(drive, root, work, problems):
    done = drive("--general", "12")
    rows = rows_of(work)
    wrong = wrong_rows(rows)
    if wrong or {(row["file"], row["line"]) for row in rows} != set(VERDICTS):
        problems.append(f"--general 12: not every line with its verdict: {wrong or rows}: {done.stdout}{done.stderr}")
    lived = sum(row["verdict"] == "SURVIVED" for row in rows)
    if done.returncode != 1 or f"12 general mutants, seed 1: {12 - lived} killed, {lived} not" not in done.stdout:
        problems.append(f"--general 12: exit status {done.returncode}, said {done.stdout}{done.stderr}")
    if drive("--general", "12").returncode != 1 or rows_of(work) != rows:
        problems.append("--general 12 again: tried one again")
    if drive("--general", "13").returncode != 1 or rows_of(work)[: len(rows)] != rows:
        problems.append("--general 13: did not go on from 12")
    if (root / "alloc" / "toy.c").read_text(encoding="utf-8") != FILES["alloc/toy.c"]:
        problems.append("--general: the checkout was changed")


def check_retry(drive, root, work, problems):
    (root / "CMakeLists.txt").write_text(CMAKE + TEST.format("product") + FOR_THE_LIBRARY, encoding="utf-8")
    done = drive("--general", "13", "--retry")
    if done.returncode != 0 or any(row["verdict"] == "SURVIVED" for row in rows_of(work)):
        problems.append(
            f"--retry with a test that kills: exit status {done.returncode}, said {done.stdout}{done.stderr}"
        )
    (root / "CMakeLists.txt").write_text(CMAKE + RED, encoding="utf-8")
    done = drive("--general", "14")
    if done.returncode != 2 or "the tests fail without a mutant: unit/red" not in done.stderr:
        problems.append(f"--general with a red test: exit status {done.returncode}, said {done.stderr!r}")


def check_belief(drive, root, work, problems):
    """A test that also fails without the mutant kills none."""
    runs = work / "tree" / "build" / "release" / "runs"
    (root / "CMakeLists.txt").write_text(CMAKE + AT_TIMES.format(4), encoding="utf-8")
    done = drive("--general", "1", "--seed", SEED)
    rows = [row for row in rows_of(work) if row["seed"] == int(SEED)]
    if wrong_rows(rows) or "SURVIVED" not in [row["verdict"] for row in rows] or "is tried again" not in done.stderr:
        problems.append(f"a test that fails for a while: {rows}, said {done.stdout}{done.stderr}")
    runs.unlink(missing_ok=True)
    (root / "CMakeLists.txt").write_text(CMAKE + AT_TIMES.format(1000), encoding="utf-8")
    done = drive("--general", "2", "--seed", SEED)
    if (
        done.returncode != 2
        or "the tests fail without a mutant: unit/at_times" not in done.stderr
        or [row for row in rows_of(work) if row["seed"] == int(SEED) and row["verdict"] == "killed"]
    ):
        problems.append(
            f"a test that fails from a time on: exit status {done.returncode}, said {done.stdout}{done.stderr}"
        )


def check_limits(root, work, problems):
    """With a limit of two seconds, since the driver's own is a minute or more. A test that is tried again must have
    the mutant."""
    (root / "CMakeLists.txt").write_text(CMAKE + SLOW + LATE, encoding="utf-8")
    general = general_mutants.General(root, work, 1)
    general.copy.make()
    name, line = "alloc/toy.c", "{ return a + b; }"
    for test, change, expected in (
        ("sum", "{ for (volatile int i = 0; i >= 0; i = 1) {} return a + b; }", "hangs"),
        ("sum", line, "None"),
        ("slow", line, "the tests fail without a mutant: hangs"),
        ("late", "{ return a - b; }", "unit/late"),
    ):
        text = FILES[name].replace(line, change)
        (general.copy.tree / name).write_text(text, encoding="utf-8")
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                got = str(general.killed_by(name, text, (("alloc-programs",), ("-R", f"^unit/{test}$")), 2))
        except Stop as stop:
            got = str(stop)
        if not got.startswith(expected):
            problems.append(f"{test} with {change}: expected {expected}, got {got}")
        general.copy.sync([name])


def run(driver_of):
    """Problems, as lines. driver_of(root) is the command that runs the driver there."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="hakmem-general-") as folder:
        root, work = pathlib.Path(folder, "toy"), pathlib.Path(folder, "toy", "build", "mutants")
        for name, text in FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        subprocess.run(["git", "-C", str(root), "init", "-q"], check=True)
        mutator = work / "venv" / "bin" / "mutate"
        mutator.parent.mkdir(parents=True)
        mutator.write_text(MUTATOR, encoding="utf-8")
        mutator.chmod(mutator.stat().st_mode | stat.S_IXUSR)
        drive = driver_of(root)
        check_sample(drive, root, work, problems)
        check_retry(drive, root, work, problems)
        check_belief(drive, root, work, problems)
        check_limits(root, work, problems)
        for bad in (["--general", "0"], ["--retry"], ["--general", "2", "--all"]):
            done = drive(*bad)
            if done.returncode != 2 or len(done.stderr.splitlines()) != 1:
                problems.append(f"{' '.join(bad)}: exit status {done.returncode}, said {done.stderr!r}")
        (work / "general.jsonl").write_text("{\n", encoding="utf-8")
        done = drive("--general", "2")
        if done.returncode != 2 or len(done.stderr.splitlines()) != 1:
            problems.append(f"a damaged log: exit status {done.returncode}, said {done.stderr!r}")
    return problems
