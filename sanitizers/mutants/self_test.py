"""The self-test of ci/mutants: a project of a few lines, and a mutant for each verdict."""

import pathlib
import subprocess
import sys
import tempfile

import general_self_test

FILES = {
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.25)\nproject(toy C)\nenable_testing()\n"
    "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})\n"
    "add_executable(toy toy.c)\nadd_test(NAME sum COMMAND toy)\n"
    'add_test(NAME wears_out COMMAND sh -c "echo >> worn; test $(wc -l < worn) -lt 3"'
    " $<TARGET_FILE:toy>)\n"
    'add_test(NAME slow COMMAND sh -c "sleep 3; exec $<TARGET_FILE:toy>")\n'
    "add_test(NAME red COMMAND toy 1)\nadd_test(NAME skipped COMMAND toy 2)\n"
    "set_tests_properties(skipped PROPERTIES SKIP_RETURN_CODE 77)\n",
    "CMakePresets.json": '{"version": 6, "configurePresets": [{"name": "plain", "generator": "Ninja",'
    ' "binaryDir": "${sourceDir}/build/plain"}]}\n',
    "toy.c": "static int sum(int a, int b)\n{\n    return a + b;\n}\n\n"
    "int main(int count, char **words)\n{\n    (void)words;\n    for (volatile int i = 0; i < 3; i++) {}\n"
    "    if (count > 1) return words[1][0] == '2' ? 77 : 1;\n    return sum(2, 2) != 4;\n}\n",
    ".gitignore": "/build/\n",
}
HUNK = (
    "--- a/toy.c\n+++ b/toy.c\n@@ -1,4 +1,4 @@\n static int sum(int a, int b)\n {\n-    return a + b;\n"
    "+    NEW\n }\n"
)
LOOP = (
    "--- a/toy.c\n+++ b/toy.c\n@@ -6,5 +6,5 @@\n int main(int count, char **words)\n {\n     (void)words;\n"
    "-    for (volatile int i = 0; i < 3; i++) {}\n+    for (volatile int i = 0; i >= 0; i = 1) {}\n"
    "     if (count > 1) return words[1][0] == '2' ? 77 : 1;\n"
)


def hunk(new):
    """sum() with another line."""
    return HUNK.replace("NEW", new)


# Wrong from the third run on.
AT_RUN_3 = (
    'extern int open(const char *, int, ...); int runs = open("runs", 02101, 0600);'
    "extern long write(int, const void *, unsigned long), lseek(int, long, int);"
    'return write(runs, "", 1) == 1 && lseek(runs, 0, 1) < 3 ? a + b : 0;'
)

# Name, test, diff, verdict.
MUTANTS = [
    ("kills", "plain ctest -R '^sum$'", hunk("return a - b;"), "killed"),
    ("kills_run", "plain run toy", hunk("return a - b;"), "killed"),
    ("at_times", "plain run toy", hunk(AT_RUN_3), "killed"),
    ("hangs", "plain ctest -R '^sum$'", LOOP, "killed"),
    ("no_op", "plain ctest -R '^sum$'", hunk("return b + a;"), "SURVIVED"),
    ("no_sum", "plain ctest -R '^sum$'", hunk("return a * b;"), "SURVIVED"),
    ("does_not_apply", "plain ctest -R '^sum$'", hunk("return 0;").replace("a + b", "a / b"), "DOES NOT APPLY"),
    ("does_not_build", "plain ctest -R '^sum$'", hunk("return c;"), "DOES NOT BUILD"),
    ("wears_out", "plain ctest -R '^wears_out$'", hunk("return b + a;"), "TEST FAILS WITHOUT IT"),
    ("slow_10", "plain ctest -R '^slow$'", hunk("return a - b;"), "killed"),
    ("slow_2", "plain ctest -R '^slow$'", hunk("return a - b;"), "TEST FAILS WITHOUT IT"),
    ("red_before", "plain ctest -R '^red$'", hunk("return 0;"), "TEST FAILS WITHOUT IT"),
    ("skipped", "plain ctest -R '^skipped$'", hunk("return 0;"), "TEST FAILS WITHOUT IT"),
    ("no_such_test", "plain ctest -R '^none$'", hunk("return 0;"), "TEST FAILS WITHOUT IT"),
]
BAD_HEADS = {
    "no bug": "Found-by: test plain ctest -R x\nBudget: 5 s\n\n",
    "no test": "Bug: b\nBudget: 5 s\n\n",
    "another command": "Bug: b\nFound-by: test plain make\nBudget: 5 s\n\n",
    "no such tool": "Bug: b\nFound-by: luck x\nBudget: 5 s\n\n",
    "a tool twice": "Bug: b\nFound-by: fuzz x\nFound-by: fuzz y\n\n",
    "no name": "Bug: b\nFound-by: fuzz\n\n",
    "no budget": "Bug: b\nFound-by: test plain ctest -R x\n\n",
    "a budget in minutes": "Bug: b\nFound-by: test plain ctest -R x\nBudget: 5 min\n\n",
}

# Bad arguments, and the message for each.
BAD_ARGUMENTS = [
    (["nix"], "there is no nix.patch"),
    (["--since", "nix"], "--since nix: "),
    (["--all", "kills"], "exclude each other"),
    (["--nix"], "unrecognized arguments: --nix"),
    (["--sampl", "1"], "unrecognized arguments: --sampl"),
    (["--since"], "--since: expected one argument"),
    (["--sample", "-3"], "--sample: takes a whole number, from 0 on, not '-3'"),
    (["--general", "x"], "--general: takes a whole number"),
    (["--general", "0"], "from 1 on"),
    (["--seed", "1"], "--seed goes with --general"),
    (["--since", "HEAD", "--seed", "2"], "--seed goes with --general"),
    (["--all", "--sample", "3"], "--sample goes with --since"),
    (["kills", "--sample", "3"], "--sample goes with --since"),
    (["--general", "1", "--sample", "3"], "--sample goes with --since"),
    (["--all", "--retry"], "--retry goes with --general"),
    (["--list", "--all"], "--list and --self-test"),
    (["--list", "--sample", "1"], "--list and --self-test"),
]


def drive(driver, root, *arguments):
    return subprocess.run(
        [sys.executable, str(driver), "--root", str(root), *arguments], capture_output=True, text=True, check=False
    )


def write(root, name, killed_by, diff):
    folder = root / "sanitizers" / "planted"
    folder.mkdir(parents=True, exist_ok=True)
    budget = 10 if name == "slow_10" else 2
    head = f"Bug: planted\nFound-by: test {killed_by}\nBudget: {budget} s\n\n"
    (folder / f"{name}.patch").write_text(head + diff, encoding="utf-8")


def check_verdicts(driver, root, problems):
    for name, killed_by, diff, _ in MUTANTS:
        write(root, name, killed_by, diff)
    done = drive(driver, root, "--all")
    for name, _, _, verdict in MUTANTS:
        line = next((line for line in done.stdout.splitlines() if line.startswith(name + " ")), "")
        if f" {verdict} " not in line:
            problems.append(f"{name}: expected '{verdict}', got: {line or done.stdout + done.stderr}")
    if "at run 3\n" not in done.stdout:
        problems.append(f"at_times: killed at another run: {done.stdout}")
    if done.returncode != 1:
        problems.append(f"--all with a survivor: exit status {done.returncode}, should be 1")
    if (root / "toy.c").read_text(encoding="utf-8") != FILES["toy.c"]:
        problems.append("the checkout was changed")
    if drive(driver, root, "kills", "hangs").returncode != 0:
        problems.append("killed mutants alone: exit status should be 0")


def check_selection(driver, root, problems):
    git = ["git", "-C", str(root), "-c", "user.name=n", "-c", "user.email=e"]
    for name, _, _, verdict in MUTANTS:
        if verdict != "killed":
            (root / "sanitizers" / "planted" / f"{name}.patch").unlink()
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    if "0 of 5 mutants" not in drive(driver, root, "--since", "HEAD", "--sample", "0").stdout:
        problems.append("--since HEAD --sample 0: should choose none")
    if "2 of 5 mutants" not in drive(driver, root, "--since", "HEAD", "--sample", "2").stdout:
        problems.append("--since HEAD --sample 2: should choose two")
    (root / "toy.c").write_text(FILES["toy.c"] + "\n", encoding="utf-8")
    if "5 of 5 mutants" not in drive(driver, root, "--since", "HEAD", "--sample", "0").stdout:
        problems.append("--since HEAD with toy.c changed: should choose all five")


def check_arguments(driver, root, problems):
    """Bad arguments are reported before ci/setup runs; a program that leaves a mark replaces it here."""
    mark, work, setup = root / "build" / "mark", root / "build" / "other", root / "build" / "setup"
    setup.write_text(f"#!/bin/sh\necho >> {mark}\nexit $(wc -l < {mark})\n", encoding="utf-8")
    setup.chmod(0o755)
    before = ["--setup", str(setup), "--work", str(work)]
    for words, expected in BAD_ARGUMENTS:
        done = drive(driver, root, *before, *words)
        if done.returncode != 2 or len(done.stderr.splitlines()) != 1 or expected not in done.stderr or done.stdout:
            problems.append(f"{' '.join(words)}: exit status {done.returncode}, said {done.stdout}{done.stderr!r}")
        if mark.exists() or work.exists():
            problems.append(f"{' '.join(words)}: work was done")
            return
    done = drive(driver, root, *before, "--since", "HEAD", "--sample", "0")
    if done.returncode != 2 or not mark.exists() or work.exists() or "setup failed" not in done.stderr:
        problems.append(f"a setup that fails: exit status {done.returncode}, said {done.stderr!r}")
    for words in (["kills"], ["--general", "1"]):
        mark.unlink(missing_ok=True)
        drive(driver, root, *before, *words)
        if not mark.exists():
            problems.append(f"{' '.join(words)}: without setup")


def check_heads(driver, root, problems):
    for name, head in BAD_HEADS.items():
        path = root / "sanitizers" / "planted" / "bad.patch"
        path.write_text(head + hunk("return 0;"), encoding="utf-8")
        done = drive(driver, root, "--all")
        if done.returncode != 2 or not done.stderr.startswith("mutants: bad.patch: "):
            problems.append(f"a head with {name}: exit status {done.returncode}, said {done.stderr!r}")
        path.unlink()


def run(driver):
    problems = []
    with tempfile.TemporaryDirectory(prefix="hakmem-mutants-") as folder:
        root = pathlib.Path(folder)
        for name, text in FILES.items():
            (root / name).write_text(text, encoding="utf-8")
        subprocess.run(["git", "-C", folder, "init", "-q"], check=True)
        check_verdicts(driver, root, problems)
        check_heads(driver, root, problems)
        check_selection(driver, root, problems)
        check_arguments(driver, root, problems)
    problems += general_self_test.run(
        lambda root: lambda *arguments: drive(driver, root, *arguments), driver.parents[2]
    )
    for problem in problems:
        print(f"self-test: {problem}")
    print(
        f"self-test: {len(MUTANTS)} mutants, {len(BAD_HEADS)} bad heads, {len(BAD_ARGUMENTS)} bad arguments, {len(problems)} problems"
    )
    return 1 if problems else 0
