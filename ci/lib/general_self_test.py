"""The self-test of ci/mutants --general: a project of a few lines, and in place of universalmutator one that knows them."""

import json
import pathlib
import stat
import subprocess
import tempfile

TEST = 'add_test(NAME unit/{0} COMMAND alloc-tests {0})\n'
CMAKE = ("cmake_minimum_required(VERSION 3.25)\nproject(toy C)\nenable_testing()\n"
         "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})\n"
         "add_executable(alloc-tests alloc/toy.c)\nadd_executable(alloc-tests-release alloc/toy.c)\n"
         "add_custom_target(alloc-programs DEPENDS alloc-tests alloc-tests-release)\n"
         # One for each stage, since a stage without a test is an error.
         "add_test(NAME misuse COMMAND alloc-tests)\nset_tests_properties(misuse PROPERTIES LABELS misuse)\n"
         "add_test(NAME stress COMMAND alloc-tests)\nset_tests_properties(stress PROPERTIES LABELS stress)\n"
         "add_test(NAME crash.static COMMAND alloc-tests)\n" + TEST.format("sum"))
FILES = {
    "CMakeLists.txt": CMAKE,
    "CMakePresets.json": '{"version": 6, "configurePresets": [{"name": "release", "generator": "Ninja",'
                         ' "binaryDir": "${sourceDir}/build/release"}]}\n',
    "alloc/toy.c": "/* A comment is not drawn. */\n"
                   "static int sum(int a, int b) { return a + b; }\n"
                   "static int product(int a, int b) { return a * b; }\n"
                   "typedef int number;\n"
                   "enum { ONE = 1 };\n"
                   "int main(int count, char **words) { return count == 1 || words[1][0] == 's' ? sum(2, 3) != 5 : product(2, 3) != 6; }\n",
    ".gitignore": "/build/\n",
}
CHANGES = {2: ("a + b", "a - b"), 3: ("a * b", "a / b"), 4: ("int", "nix"), 5: ("1", "1u")}
VERDICTS = {2: "killed", 3: "SURVIVED", 4: "invalid", 5: "same", 6: "same"}
MUTATOR = f"""#!/usr/bin/env python3
import pathlib, sys
source, number, folder = sys.argv[1], int(pathlib.Path(sys.argv[5]).read_text()), sys.argv[7]
lines = pathlib.Path(source).read_text().splitlines(True)
old, new = {CHANGES!r}.get(number, ("", ""))
if old:
    lines[number - 1] = lines[number - 1].replace(old, new)
    pathlib.Path(folder, "mutant.c").write_text("".join(lines))
"""


def rows_of(work):
    return [json.loads(line) for line in (work / "general.jsonl").read_text(encoding="utf-8").splitlines()]


def check_sample(drive, root, work, problems):
    done = drive("--general", "12")
    rows = rows_of(work)
    wrong = [row for row in rows if row["verdict"] != VERDICTS.get(row["line"])]
    if wrong or {row["line"] for row in rows} != set(VERDICTS):
        problems.append(f"--general 12: not every line with its verdict: {wrong or rows}: {done.stdout}{done.stderr}")
    lived = sum(row["verdict"] == "SURVIVED" for row in rows)
    if done.returncode != 1 or f"12 general mutants, seed 1: {12 - lived} killed, {lived} not" not in done.stdout:
        problems.append(f"--general 12: exit status {done.returncode}, said {done.stdout}{done.stderr}")
    if drive("--general", "12").returncode != 1 or rows_of(work) != rows:
        problems.append("--general 12 again: tried one again")
    if drive("--general", "13").returncode != 1 or rows_of(work)[:len(rows)] != rows:
        problems.append("--general 13: did not go on from 12")
    if (root / "alloc" / "toy.c").read_text(encoding="utf-8") != FILES["alloc/toy.c"]:
        problems.append("--general: the checkout was changed")


def check_retry(drive, root, work, problems):
    (root / "CMakeLists.txt").write_text(CMAKE + TEST.format("product"), encoding="utf-8")
    done = drive("--general", "13", "--retry")
    if done.returncode != 0 or any(row["verdict"] == "SURVIVED" for row in rows_of(work)):
        problems.append(f"--retry with a test that kills: exit status {done.returncode}, said {done.stdout}{done.stderr}")
    (root / "CMakeLists.txt").write_text(CMAKE + TEST.format("product") + "add_test(NAME unit/red COMMAND false)\n",
                                         encoding="utf-8")
    done = drive("--general", "14")
    if done.returncode != 2 or "the tests fail without a mutant: unit/red" not in done.stderr:
        problems.append(f"--general with a red test: exit status {done.returncode}, said {done.stderr!r}")


def run(driver_of):
    """Problems, as lines. driver_of(root): what runs the driver there."""
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
        for bad in (["--general", "0"], ["--retry"], ["--general", "2", "--all"]):
            done = drive(*bad)
            if done.returncode != 2 or len(done.stderr.splitlines()) != 1:
                problems.append(f"{' '.join(bad)}: exit status {done.returncode}, said {done.stderr!r}")
        (work / "general.jsonl").write_text("{\n", encoding="utf-8")
        done = drive("--general", "2")
        if done.returncode != 2 or len(done.stderr.splitlines()) != 1:
            problems.append(f"a damaged log: exit status {done.returncode}, said {done.stderr!r}")
    return problems
