"""The self-test of ci/mutants --general and --changed: every operator on a file of a few lines, many mutants in one
program, and each verdict in a project of a few lines."""

import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import types

import equivalents
import general_mutants
import judge
import operators
import sample
import schemata
import trial
from mutant_copy import Stop

EACH = r"""#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
enum { WORDS_MAX = 4 };
struct pair { int first, second; };
static _Atomic(int) word;
static int calls;
static void note(void) { calls++; }
static int each(struct pair *pair, int limit)
{
    struct pair copy = {.first = limit, .second = 2};
    pair->first = copy.first / 2;
    pair->second = copy.second;
    note();
    atomic_store_explicit(&word, pair->first, memory_order_release);
    for (int i = 0; i < limit; i++) calls += i;
    if (atomic_load_explicit(&word, memory_order_relaxed) > 2 && limit < WORDS_MAX) note();
    pair->second++;
    pair->first = calls;
    atomic_store_explicit(&word, 5, memory_order_release);
    calls += atomic_fetch_add_explicit(&word, 1, memory_order_relaxed);
    while (limit > 0 && calls < 100) calls += limit--;
    if (atomic_load_explicit(&word, memory_order_relaxed) > 2) {
        note();
        errno = ENOMEM;
        return -1;
    }
    return calls;
}
int main(void)
{
    struct pair pair = {0, 0};
    int sum = 0;
    for (int limit = 0; limit < 6; limit++) sum = 31 * sum + each(&pair, limit);
    printf("%d %d %d %d %d\n", sum, calls, word, pair.first, pair.second + errno);
    return 0;
}
"""
# For each operator a mutant that it must make: line, what is replaced ("" before a statement), by what.
EXPECTED = {
    "delete_call": (14, "note();", ""),
    "delete_statement": (18, "pair->second++;", ""),
    "swap_neighbours": (19, "pair->first = calls;\n    atomic_store_explicit(&word, 5, memory_order_release);", None),
    "drop_conjunct": (22, "limit > 0 && calls < 100", "!!(calls < 100)"),
    "drop_recheck": (23, "atomic_load_explicit(&word, memory_order_relaxed) > 2", "0"),
    "loop_first_pass": (22, "while (limit > 0 && calls < 100) calls += limit--;", None),
    "loop_loses_last": (16, "i < limit", "(i < limit) && ((i + 1) < limit)"),
    "forget_field": (13, "pair->second = copy.second;", ""),
    "rmw_load_store": (21, "atomic_fetch_add_explicit(&word, 1, memory_order_relaxed)", None),
    "publish_early": (19, "pair->first = calls;\n    atomic_store_explicit(&word, 5, memory_order_release);", None),
    "off_by_one": (17, "limit < WORDS_MAX", "limit <= WORDS_MAX"),
    "drop_divisor": (12, "copy.first / 2", "copy.first"),
    "forget_cleanup": (25, "errno = ENOMEM;", ""),
    "early_return": (14, "", "return -1;"),
}

TOY = """static int sum(int a, int b)
{
    int all = a + b;
    for (int i = 0; i < 0; i++) all = 0;
    if (all < 5) return -1;
    return all;
}

static int unseen(int a)
{
    if (a < 5) return -1;
    return a;
}

int main(int count, char **words)
{
    if (count == 2 && words[1][0] == 'r') return 1;
    int low = count == 2 && words[1][0] == 'l' ? sum(2, 3) : 5;
    if (count == 9) return unseen(words[1][0]);
    return sum(3, 3) != 6 || low != 5;
}
"""
# Nothing can be mapped when the program comes to its first mutant.
STARVE = """#include <sys/resource.h>
__attribute__((constructor)) static void starve(void) { setrlimit(RLIMIT_AS, &(struct rlimit){1, 1}); }
"""
TEST = "add_test(NAME unit/{0} COMMAND alloc-tests {0})\n"
CMAKE = (
    "cmake_minimum_required(VERSION 3.25)\nset(CMAKE_C_COMPILER clang-19)\nproject(toy C)\nenable_testing()\n"
    "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})\nset(CMAKE_EXPORT_COMPILE_COMMANDS ON)\n"
    "add_executable(alloc-tests alloc/toy.c)\ntarget_compile_options(alloc-tests PRIVATE -include ${CMAKE_SOURCE_DIR}/starve.h)\nadd_subdirectory(stress/crash)\n"
    f"foreach(name {' '.join(name for name in sample.SETS['alloc'].targets() if '/' not in name)})\n"
    "add_custom_target(${name} DEPENDS alloc-tests)\nendforeach()\n" + TEST.format("sum")
)
# The first run, by measure, passes; then it fails as often as it runs.
RED = "add_test(NAME unit/red COMMAND alloc-tests red)\n"
WEARS_OUT = 'add_test(NAME unit/wears_out COMMAND sh -c "echo >> worn; test $(wc -l < worn) -lt 2; exec $<TARGET_FILE:alloc-tests>")\n'
FILES = {
    "CMakeLists.txt": CMAKE,
    "CMakePresets.json": '{"version": 6, "configurePresets": [{"name": "release", "generator": "Ninja",'
    ' "binaryDir": "${sourceDir}/build/release"}]}\n',
    "alloc/toy.c": TOY,
    "starve.h": STARVE,
    "stress/crash/CMakeLists.txt": "",
    ".gitignore": "/build/\n",
}


def check_operators(problems):
    data = EACH.encode()
    found = operators.mutants_of("each.c", data)
    for name in operators.OPERATORS:
        line, before, after = EXPECTED[name]
        if not any(
            each.operator == name
            and each.line == line
            and (each.mode == "insert" or data[each.start : each.end].decode() == before)
            and after in (None, each.text)
            for each in found
        ):
            made = [(each.line, each.text) for each in found if each.operator == name]
            problems.append(f"{name}: not made at line {line}; made {made}")
    if len({each.key for each in found}) != len(found):
        problems.append("two mutants have one key")
    return found


ALIKE = """static int a, b;
int least(int x, int y)
{
    a = x > y ? x - y : 0;
    b = (int)(x + (sizeof x << 2));
    int any = 0, some = 0;
    any = 1;
    least(y, x);
    switch (some) {
    case 1: any = 2; break;
    default: any = 3; break;
    }
    return (x < y) ? x : any;
}
int within(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
int fields(struct pair *pair, int x)
{
    if (x > a) a = x;
    if (x < b) {
        b = x;
    }
    pair->low = x;
    pair->high = 2 * x;
    setvbuf(stdout, 0, 0, 0);
    return x;
}
unsigned long stores(struct pair *pair, int x)
{
    pair->low++;
    pair->high += x;
    STORE(pair->low, x);
    pair->high = 4;
    atomic_store_explicit(&a, x, memory_order_relaxed);
    return 1ul << x % 64;
}
static __attribute__((noreturn)) void finish(void)
{
    a = 3;
    b = 4;
    for (;;) { }
}
static uint64_t number_of(const void *of)
{
    return (uint64_t)(uintptr_t)of;
}
static void add(_Atomic(int) *word, int more)
{
    atomic_store_explicit(word, *word + more, memory_order_relaxed);
}
static int sum_of(struct pair *pair, int *more)
{
    return pair->first + *more;
}
int calls(struct pair *pair, int x)
{
    pair->low = number_of(pair);
    pair->high = 3;
    add(&pair->low, x);
    add(&pair->high, 2);
    pair->low = sum_of(pair, &pair->second);
    pair->high = sum_of(pair, &pair->first);
    return ASAN && x;
}
int builds(int x) { return VALIDATE && x && calls(0, x); }
int other_builds(int x) { return !VALIDATE || x; }
int as_int(unsigned long big) { return big < (unsigned long)INT_MAX ? (int)big : INT_MAX; }
"""
# What looks like the above, but means something else: what is replaced, and by what.
UNLIKE = """int as_byte(int wide, int most) { return wide < most ? (char)wide : most; }
int as_short(long wide) { return wide < INT_MAX ? (short)wide : INT_MAX; }
long cut(long wide) { return (int)wide < INT_MAX ? wide : INT_MAX; }
int negative(int wide) { return wide < (int)UINT_MAX ? wide : UINT_MAX; }
bool zero(int x, int *y) { return ASAN || MSAN || x == *y; }
bool level(int x) { return x >= (ASAN ? 1 : 2); }
bool other(int x) { return x || (VALIDATE && level(x)); }
static int high_of(struct pair *pair) { return pair->high; }
static int at(int *place) { return *place; }
static void put(int *place, int value) { *place = value; }
void order(struct pair *pair, int *from)
{
    pair->low = high_of(pair);
    pair->high = 1;
    atomic_store_explicit(&pair->high, 2, memory_order_release);
    unknown();
    pair->high = at(&pair->low);
    put(&pair->low, 5);
    pair->high = at(from);
    put(&pair->low, 6);
    for (struct pair *next; pair != NULL; pair = next) {
        next = pair->next;
        unknown();
    }
}
static void fill(struct pair *pair) { pair->low = 7; }
void whole(struct pair *pair, struct pair *out, int *from)
{
    struct pair here;
    fill(&here);
    out->kept = here;
    pair->items[0] = 8;
    pair->high = from[0];
}
"""
UNLIKE_MADE = (
    ("wide < most", "wide <= most"),
    ("wide < INT_MAX", "wide <= INT_MAX"),
    ("(int)wide < INT_MAX", "(int)wide <= INT_MAX"),
    ("wide < (int)UINT_MAX", "wide <= (int)UINT_MAX"),
    ("ASAN || MSAN || x == *y", "!!(ASAN || MSAN)"),
    ("x >= (ASAN ? 1 : 2)", "x > (ASAN ? 1 : 2)"),
    ("x || (VALIDATE && level(x))", "!!(x)"),
    ("pair != NULL", "(pair != NULL) && ((pair->next) != NULL)"),
    *(
        (f"{first}\n    {second}", f"{second} {first}")
        for first, second in (
            ("pair->low = high_of(pair);", "pair->high = 1;"),
            ("pair->high = 1;", "atomic_store_explicit(&pair->high, 2, memory_order_release);"),
            ("unknown();", "pair->high = at(&pair->low);"),
            ("fill(&here);", "out->kept = here;"),
            ("pair->items[0] = 8;", "pair->high = from[0];"),
            ("pair->high = at(&pair->low);", "put(&pair->low, 5);"),
            ("pair->high = at(from);", "put(&pair->low, 6);"),
        )
    ),
)

RANGE = """#include <initializer_list>
int sum(std::initializer_list<int> numbers)
{
    int all = 0;
    if (numbers.size() == 0) return -1;
    for (int each : numbers) {
        if (each == 2) continue;
        all += each;
    }
    return all;
}
int main()
{
    return sum({1, 2, 3});
}
"""
# The mutants of the loop, and the exit status with each.
RANGE_STATUS = {"delete_statement": 0, "loop_first_pass": 1, "early_return": 255}


def check_alike(problems):
    """Mutants that mean the same by the rules of the language are not made."""
    made = [each.text for each in operators.mutants_of("alike.c", ALIKE.encode())]
    bad = [
        text
        for text in made
        if text
        in (
            "x >= y",
            "x <= low",
            "x >= high",
            "x >= a",
            "x <= b",
            "return;",
            "x",
            "!!(x)",
            "!!(!VALIDATE)",
            "!!(VALIDATE)",
            "!!(ASAN)",
        )
        or text.startswith("big <=")
        or text.startswith(
            (
                "b = ",
                "least(y, x); any",
                "pair->high = 2 * x; pair",
                "pair->high = 3; pair",
                "pair->high = 4; ",
                "pair->high += x; ",
                "atomic",
                "add(&pair->high",
                "pair->high = sum_of",
            )
        )
    ]
    breaks = [
        each.line
        for each in operators.mutants_of("alike.c", ALIKE.encode())
        if each.text == "" and each.line in (10, 11)
    ]
    if bad or breaks != [10, 10, 11]:
        problems.append(f"made {bad} of {made}, deletions at lines {breaks}, which is what the original does")


def check_unlike(problems):
    data = UNLIKE.encode()
    made = [(data[each.start : each.end].decode(), each.text) for each in operators.mutants_of("unlike.c", data)]
    problems += [f"not made: {before} -> {after}" for before, after in UNLIKE_MADE if (before, after) not in made]


def output_of(program, mutant=0):
    try:
        done = subprocess.run(
            [program], capture_output=True, text=True, check=False, timeout=2, env={"HAKMEM_MUTANT": str(mutant)}
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    return done.returncode, done.stdout


def check_schemata(found, folder, problems):
    """Each mutant of one program does as the mutant alone does."""

    def compiled(text, name):
        (folder / f"{name}.c").write_bytes(text)
        subprocess.run(["cc", "-w", "-o", folder / name, folder / f"{name}.c"], check=True)
        return folder / name

    kept = []
    for each in found:
        if not any(schemata.conflicts(each, other) for other in kept):
            kept.append(each)
    data = EACH.encode()
    together = compiled(schemata.render(data, list(enumerate(kept, 1))), "together")
    if output_of(together) != output_of(compiled(data, "original")):
        problems.append("a program with mutants, of which none is chosen, differs from the original")
    for number, each in enumerate(kept, 1):
        if output_of(together, number) != output_of(compiled(schemata.alone(data, each), "alone")):
            problems.append(f"mutant {number}, {each.operator} at line {each.line}, differs from the mutant alone")
    bumped, noted = (
        next(number for number, each in enumerate(kept, 1) if (each.line, each.operator) == place)
        for place in ((18, "delete_statement"), (14, "delete_call"))
    )
    both = output_of(together, f"{bumped},{noted}")
    if both in (output_of(together), output_of(together, bumped), output_of(together, noted)):
        problems.append("HAKMEM_MUTANT=N,M does not choose both")
    if len(kept) < 30:
        problems.append(f"only {len(kept)} of {len(found)} mutants fit in one program")


def check_range(folder, problems):
    """A loop over a range of C++ has mutants, and each does what it says."""
    data = RANGE.encode()
    line = 1 + RANGE.partition("    for (")[0].count("\n")
    found = [each for each in operators.mutants_of("range.cc", data) if each.line == line]
    if sorted(each.operator for each in found) != sorted(RANGE_STATUS):
        problems.append(f"a loop over a range: {[(each.operator, each.text) for each in found]}")
    (folder / "range.cc").write_bytes(schemata.render(data, list(enumerate(found, 1))))
    subprocess.run(["c++", "-w", "-o", folder / "range", folder / "range.cc"], check=True)
    for number, each in enumerate(found, 1):
        status = output_of(folder / "range", number)[0]
        if status != RANGE_STATUS.get(each.operator):
            problems.append(f"{each.operator} of a loop over a range: exit status {status}")
    if output_of(folder / "range")[0] != 4:
        problems.append("a loop over a range, of whose mutants none is chosen, differs from the original")


def check_followed(root, work, problems):
    """The copy has what one sample wrote as long as no other set is tried and no file changes."""
    own = work / "general" / "tree" / "alloc" / "toy.c"

    def keeps(name):
        own.write_text("a sample", encoding="utf-8")
        options = types.SimpleNamespace(set=name, seed=1, jobs=1)
        general_mutants.General(root, work, options).has_followed()
        return own.read_text(encoding="utf-8") == "a sample"

    kept = [keeps(name) for name in ("alloc", "alloc", "suite", "suite", "alloc")]
    if kept[1:] != [True, False, True, False]:
        problems.append(f"alloc, alloc, suite, suite, alloc: the last sample stays: {kept}")


def check_precompiled(drive, root, work, problems):
    """A precompiled header that does not compile is named."""
    (root / "CMakeLists.txt").write_text(
        CMAKE + "target_precompile_headers(alloc-tests PRIVATE alloc/early.h)\n", encoding="utf-8"
    )
    (root / "alloc" / "early.h").write_text("#error too early\n", encoding="utf-8")
    (root / "alloc" / "new.c").unlink()  # no command compiles it: it would be taken for good
    shutil.rmtree(work / "general")
    done = drive("--general", "2")
    if done.returncode != 2 or len(done.stderr.splitlines()) != 1 or "too early" not in done.stderr:
        problems.append(f"a header that does not compile: exit status {done.returncode}, said {done.stderr!r}")


def rows_of(work):
    lines = (work / "general" / "alloc.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def verdicts(rows):
    return {(row["function"], row["operator"], row["line"]): row["verdict"] for row in rows}


def check_verdicts(drive, root, work, problems):
    done = drive("--general", "100", "--jobs", "2")
    rows = rows_of(work)
    seen = verdicts(rows)
    for place, expected in {
        ("sum", "early_return", 4): "killed",  # returns -1
        ("sum", "off_by_one", 5): "SURVIVED",  # no test has a sum of 5
        ("sum", "loop_loses_last", 4): "same",
        ("unseen", "off_by_one", 11): "SURVIVED",
    }.items():
        if seen.get(place) != expected:
            problems.append(f"{place}: expected {expected}, got {seen.get(place)}: {done.stdout}{done.stderr}")
    if done.returncode != 1 or "no test comes to it" not in done.stdout or "seed 1" not in done.stdout:
        problems.append(f"--general 100: exit status {done.returncode}, said {done.stdout}{done.stderr}")
    again = drive("--general", "100", "--jobs", "2")
    if rows_of(work) != rows or " 0 mutants tried" not in again.stdout:
        problems.append(f"the same again: tried one again: {again.stdout}{again.stderr}")
    (work / "general" / "alloc.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[3:]), encoding="utf-8")
    if " 3 mutants tried" not in drive("--general", "100").stdout:
        problems.append("an interrupted run did not continue with the 3 that were left")
    if (root / "alloc" / "toy.c").read_text(encoding="utf-8") != TOY:
        problems.append("the checkout was changed")


def check_retry(drive, root, work, problems):
    (root / "CMakeLists.txt").write_text(CMAKE + TEST.format("low") + RED, encoding="utf-8")
    done = drive("--general", "100", "--retry")
    if verdicts(rows_of(work)).get(("sum", "off_by_one", 5)) != "killed":
        problems.append(f"--retry with a test that kills: {done.stdout}{done.stderr}")
    if "unit/red is not used" not in done.stderr:
        problems.append(f"a red test was used: {done.stderr}")


def check_equivalents(drive, root, work, problems):
    row = next(row for row in rows_of(work) if row["function"] == "unseen" and row["operator"] == "off_by_one")
    line = next(line for line in drive("--general", "100").stdout.splitlines() if line.startswith(f"{row['key']} "))
    file = root / equivalents.FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    written = line.partition(" (line")[0] + " nobody calls it"
    file.write_text(f"# why\n{written}\n", encoding="utf-8")
    if equivalents.check(root):
        problems.append(f"a good row is refused: {equivalents.check(root)}")
    if f"1 equivalent by {equivalents.FILE}" not in drive("--general", "100", "--retry").stdout:
        problems.append("an equivalent was tried")
    (root / "alloc" / "toy.c").write_text(TOY.replace("if (a < 5)", "if (a < 4)"), encoding="utf-8")
    if not any("unseen in alloc/toy.c has changed" in each for each in equivalents.check(root)):
        problems.append("a row of a function that changed is kept")
    (root / "alloc" / "toy.c").write_text(TOY, encoding="utf-8")
    file.write_text("one two\n" + f"{written}\n" * 2, encoding="utf-8")
    if len(equivalents.check(root)) != 2:
        problems.append(f"a short row and a row twice: {equivalents.check(root)}")
    file.unlink()


def check_changed(drive, root, work, problems):
    git = ["git", "-C", str(root), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    done = drive("--changed", "HEAD")
    if done.returncode != 0 or "no line of alloc" not in done.stdout:
        problems.append(f"--changed without a change: {done.stdout}{done.stderr}")
    (root / "alloc" / "toy.c").write_text(
        TOY.replace("return all;", "if (all > 900) return 0;\n    return all;"), encoding="utf-8"
    )
    done = drive("--changed", "HEAD")
    if "of the 3 mutants of lines that differ from HEAD" not in done.stdout or "/alloc/toy.c:4" in done.stdout:
        problems.append(f"--changed: {done.stdout}{done.stderr}")
    (root / "alloc" / "new.c").write_text(
        "int one(int a)\n{\n    if (a < 5) return -1;\n    return a;\n}\n", encoding="utf-8"
    )
    (root / "CMakeLists.txt").write_text(
        (root / "CMakeLists.txt").read_text(encoding="utf-8").replace("alloc/toy.c)", "alloc/toy.c alloc/new.c)"),
        encoding="utf-8",
    )
    subprocess.run([*git, "add", "-A"], check=True)
    done = drive("--changed", "HEAD")
    if "alloc/new.c:3 " not in done.stdout:
        problems.append(f"--changed with a new file: {done.stdout}{done.stderr}")
    times = work / "general" / "times.alloc.json"
    times.write_text(
        json.dumps({**json.loads(times.read_text(encoding="utf-8")), "unit/low": {"last": 1000}}), encoding="utf-8"
    )
    (root / "alloc" / "new.c").write_text(
        "int one(int a)\n{\n    if (a < 6) return -1;\n    return a;\n}\n", encoding="utf-8"
    )
    done = drive("--changed", "HEAD")
    if "1 tests or their cases are left out" not in done.stderr or "alloc/new.c" in done.stdout:
        problems.append(f"--changed where a test takes too long: {done.stdout}{done.stderr}")
    done = drive("--changed", "nix")
    if done.returncode != 2 or len(done.stderr.splitlines()) != 1:
        problems.append(f"--changed nix: exit status {done.returncode}, said {done.stderr!r}")


def check_near(root, problems):
    """Which suites there is time for first."""
    texts = {"beside": "", "other/user": '#include "toy.h"\n', "other/mine": '#include "toy/toy.h"\n', "other/more": ""}
    for name, text in texts.items():
        file = root / "alloc" / f"{name}_test.cc"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{text}TEST({file.stem.title()}, A)\n", encoding="utf-8")
    found = sample.near_suites(root, {"alloc/toy.c", "alloc/unit/toy.c"})
    if found != {"Beside_Test", "User_Test"}:
        problems.append(f"the suites near alloc/toy.c: {found}")


def check_shares(problems):
    for sizes, count in (({"a": 90, "b": 9, "c": 1}, 10), ({"a": 5, "b": 5}, 3), ({"a": 2, "b": 50}, 60)):
        given = sample.shares(sizes, count)
        if sum(given.values()) != min(count, sum(sizes.values())) or any(given[name] > sizes[name] for name in sizes):
            problems.append(f"shares of {count} of {sizes}: {given}")
        if count >= len(sizes) and min(given.values()) < 1:
            problems.append(f"a file without a share of {count}: {given}")


def check_parts(folder, problems):
    """The cases of a test whose program lists them."""
    listed = "A.\n  One\n  DISABLED_Two\nB/0.\n  One/3  # GetParam() = 3\n"
    shell = "#!/bin/sh\ncase \"$*\" in *list*) cat <<'END'\n{}END\nesac\n"
    script = "#!/usr/bin/env python3\nclass A:\n    def test_one(self):\n    def test_two(self):\nunittest.main(1)\n"
    for name, text, words, cases in (
        ("tests", shell.format(listed), ["--gtest_filter=*"], ["A.One", "B/0.One/3"]),
        ("tests", shell.format(listed), [], []),
        (
            "suite",
            shell.format("one-rule      what\nanother       what  [x#1]\nnot listed\n"),
            ["conform"],
            ["one-rule", "another"],
        ),
        ("one_test", script, [], ["test_one", "test_two"]),
        ("hakmem-explore", shell.format("post-adopt  2 or 3 threads  what\n"), ["--visits", "f"], ["post-adopt"]),
        ("hakmem-explore", shell.format("post-adopt  2 or 3 threads  what\n"), ["--scenario", "post-adopt"], []),
    ):
        program = folder / name
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
        found = trial.parts(trial.Test("t", [str(program), *words], str(folder), {}, {}))
        if [each.name for each in found] != [f"t:{case}" for case in cases]:
            problems.append(f"cases of {name} {words}: {[each.name for each in found]}, not {cases}")
        if any(case not in each.command[-1] for each, case in zip(found, cases)):
            problems.append(f"commands of the cases of {name}: {[each.command for each in found]}")


def check_together(folder, problems):
    """A test that a mutant fails alone, one that only two fail, and a mutant that hides the one that is killed."""
    script = folder / "slow"
    script.write_text(
        '#!/bin/sh\ncase ",$HAKMEM_MUTANT," in *,9,*) ;; *,7,*) exit 1 ;; *,3,*,4,*) exit 1 ;; esac\n', encoding="utf-8"
    )
    script.chmod(0o755)
    test = trial.Test("slow", [str(script)], str(folder), {}, {}, seconds=1.0)
    judging = judge.Judge(2, problems.append, lambda: False)
    for numbers, killed, of_one in (
        (range(1, 9), [7], ()),
        ((3, 4), [], ()),
        ((7, 9), [], ()),
        ((7, 9), [7], (7, 9)),
        ([7], [7], ()),
    ):
        found = judging.together(
            {number: [test] for number in numbers}, lambda number, of_one=of_one: number in of_one or number
        )
        if sorted(found) != list(numbers) or [number for number in found if found[number][0] == "killed"] != killed:
            problems.append(f"mutants {list(numbers)} together: {found}, expected killed {killed}")


def check_signals(folder, problems):
    """A test can be interrupted also where the driver cannot, since a shell started it in the background."""
    command = [sys.executable, "-c", "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    found = trial.run(trial.Test("interrupted", command, str(folder), {}, {}), {}, 60)
    signal.signal(signal.SIGINT, before)
    if found[0] is not None:
        problems.append(f"a test of a driver that ignores SIGINT ignores it: {found}")


def run(driver_of, root_of_checkout):
    """Problems, as lines. driver_of(root) is the command that runs the driver there."""
    problems = []
    venv = pathlib.Path(root_of_checkout) / "build" / "mutants" / "venv"
    venv.parent.mkdir(parents=True, exist_ok=True)
    try:
        general_mutants.load_parsers(venv)
    except Stop as stop:
        return [str(stop)]
    check_shares(problems)
    found = check_operators(problems)
    check_alike(problems)
    check_unlike(problems)
    with tempfile.TemporaryDirectory(prefix="hakmem-general-") as folder:
        check_schemata(found, pathlib.Path(folder), problems)
        check_range(pathlib.Path(folder), problems)
        check_parts(pathlib.Path(folder), problems)
        check_together(pathlib.Path(folder), problems)
        check_signals(pathlib.Path(folder), problems)
        root, work = pathlib.Path(folder, "toy"), pathlib.Path(folder, "toy", "build", "mutants")
        for name, text in FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        subprocess.run(["git", "-C", str(root), "init", "-q"], check=True)
        work.mkdir(parents=True)
        (work / "venv").symlink_to(venv)
        drive = driver_of(root)
        check_verdicts(drive, root, work, problems)
        check_retry(drive, root, work, problems)
        check_equivalents(drive, root, work, problems)
        check_changed(drive, root, work, problems)
        check_near(root, problems)
        for bad in (["--general", "0"], ["--retry"], ["--general", "2", "--all"], ["--general", "2", "--set", "nix"]):
            done = drive(*bad)
            if done.returncode != 2 or len(done.stderr.splitlines()) != 1:
                problems.append(f"{' '.join(bad)}: exit status {done.returncode}, said {done.stderr!r}")
        (work / "general" / "alloc.jsonl").write_text("{\n", encoding="utf-8")
        done = drive("--general", "2")
        if done.returncode != 2 or len(done.stderr.splitlines()) != 1:
            problems.append(f"a damaged log: exit status {done.returncode}, said {done.stderr!r}")
        check_followed(root, work, problems)
        check_precompiled(drive, root, work, problems)
        shutil.rmtree(root / "build")
    return problems
