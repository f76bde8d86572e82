"""usage: main.py ROOT [--lines PERCENT] [--branches PERCENT] [--partial]

Makes the report of ci/coverage from ROOT/build/coverage/raw, which the tests have written. --partial: only some tests
ran, so missed lines are not listed, and only limits on the command line are judged. Exit status 1 below a limit, or if
a mark is stale.
"""

import argparse
import pathlib
import re
import subprocess
import sys

import counts
import reasons

# Those that validate come first: if a function is in two builds, the pages show it from the first.
OBJECTS = [
    "alloc-tests",
    "libhakmem-validate.so",
    "alloc-tests-fresh",
    "libhakmem.so",
    "alloc-tests-release",
    "alloc-tests-fresh-release",
]
LINES, BRANCHES = 95.0, 85.0  # percent
TESTS = re.compile(r"_test\.cc$|test_support\.h$")  # code in these files is not counted


class Trouble(Exception):
    """The reason why there can be no report."""


def tool(*command, text=""):
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    errors = done.stderr.decode(errors="replace")
    if done.returncode != 0:
        raise Trouble(f"{' '.join(command[:2])} ended with {done.returncode}: {errors.strip()}")
    return done.stdout.decode(errors="replace"), errors


def lost(messages):
    """Functions whose counts llvm-cov could not use. Functions without code in one object (hash 0) belong to
    another."""
    found = re.findall(r"^hash-mismatch: .*'(.*)' with hash = 0x([0-9a-fA-F]+)$", messages, re.MULTILINE)
    return [name for name, code in found if int(code, 16) != 0]


def collect(raw, objects, sources, report):
    """Merges the profiles of a folder and exports each object: returns pairs of texts, lcov and JSON, and writes HTML
    into report."""
    profiles = sorted(str(path) for path in raw.glob("*.profraw") if path.stat().st_size > 0)
    if not profiles:
        raise Trouble(f"no counts in {raw}: no test ran what is instrumented")
    profile = str(raw / "all.profdata")
    # A process that may not write files leaves an unreadable one: it is reported and left out.
    _, messages = tool("llvm-profdata-19", "merge", "-failure-mode=all", "-o", profile, *profiles)
    unread = len(re.findall(r"^warning: .*\.profraw: ", messages, re.MULTILINE))
    if unread:
        print(f"counts of {unread} processes of {len(profiles)} were not written, and are left out")
    exports = []
    for path in objects:
        what = [str(path), f"-instr-profile={profile}", str(sources)]
        lcov, messages = tool("llvm-cov-19", "export", "-dump", "-format=lcov", *what)
        if lost(messages):
            raise Trouble(
                f"counts of another build, of {', '.join(sorted(set(lost(messages))))}: "
                "two objects have different code by that name, or build/coverage/raw is old"
            )
        export, _ = tool("llvm-cov-19", "export", "-format=text", *what)
        exports.append((lcov, tool("llvm-cxxfilt-19", text=export)[0]))
    tool(
        "llvm-cov-19",
        "show",
        "-format=html",
        f"-output-dir={report}",
        "-show-branches=count",
        "-show-instantiations=false",
        str(objects[0]),
        *[f"-object={path}" for path in objects[1:]],
        f"-instr-profile={profile}",
        str(sources),
    )
    return exports


def percent(part, whole):
    return 100.0 * part / whole if whole else 100.0


def cells(part, whole):
    return f"{whole:6} {whole - part:6} {percent(part, whole):6.1f}%"


def table(files):
    """The lines of the table, and the totals: percent of lines, percent of branches."""
    width = max(map(len, files))
    text = [f"{'file':{width}}  {'lines':>6} {'missed':>6} {'hit':>7} {'branches':>9} {'missed':>6} {'hit':>7}"]
    total = [0, 0, 0, 0]
    for path, file in [*files.items(), ("total", None)]:
        figures = total
        if file is not None:
            figures = [file.lines_hit(), len(file.lines), file.branches_hit(), file.branches_all()]
        text.append(f"{path:{width}}  {cells(*figures[:2])}   {cells(*figures[2:])}")
        if file is not None:
            total = [sum(pair) for pair in zip(total, figures)]
    return text, percent(*total[:2]), percent(*total[2:])


def missed_branches(files, sources):
    for path, file in files.items():
        for chain, (true, false) in sorted(file.branches.items()):
            if true == 0 or false == 0:
                never = "reached" if true == false else "true" if true == 0 else "false"
                line, column = chain[0][:2]
                yield f"alloc/{path}:{line}:{column}: never {never}: {sources[path][line - 1].strip()}"


def missed_lines(missed):
    """The text of the list, by file, and its length."""
    for span in missed:
        lines = f"{span.first}" if span.first == span.last else f"{span.first}-{span.last}"
        yield f"alloc/{span.path}:{lines} {span.function}: {span.reason or 'NO REASON'}"
    without = [span for span in missed if not span.reason]
    yield (
        f"{len(missed)} ranges of {sum(span.lines for span in missed)} lines not reached; "
        f"{len(without)} of {sum(span.lines for span in without)} lines have no reason"
    )


def verdict(lines, branches, limits, stale):
    """What is wrong, one line for each. limits: for lines and branches, a percentage or None."""
    wrong = [f"FAILED: stale mark: {text}" for text in stale]
    for what, value, limit in (("lines", lines, limits[0]), ("branches", branches, limits[1])):
        if limit is not None and value < limit:
            wrong.append(f"FAILED: {value:.2f}% of the {what} are reached, and {limit:g}% must be")
    return wrong


def report(root, limits, partial):
    tree, alloc = root / "build/coverage", root / "alloc"
    folder = tree / "report"
    exports = collect(tree / "raw", [tree / name for name in OBJECTS], alloc, folder)
    found = counts.read(exports, f"{alloc}/")
    files = {path: file for path, file in found.items() if not TESTS.search(path)}
    if not files:
        raise Trouble(f"no file of {alloc} was counted")
    sources = {path: (alloc / path).read_text(encoding="utf-8").splitlines() for path in files}
    (folder / "lcov.info").write_text(counts.lcov(files, f"{alloc}/"), encoding="utf-8")
    (folder / "missed-branches.txt").write_text("\n".join([*missed_branches(files, sources), ""]), encoding="utf-8")
    text, lines, branches = table(files)
    stale = []
    if not partial:
        missed = [span for path, file in files.items() for span in reasons.ranges(path, file)]
        given = [mark for path, text in sources.items() for mark in reasons.marks(path, "\n".join(text))]
        stale = reasons.explain(missed, given, files)
        text = [*missed_lines(missed), "", *text]
    wrong = verdict(lines, branches, limits, stale)
    print("\n".join([*text, f"report: {folder}/index.html, lcov.info, missed-branches.txt", *wrong]))
    if partial and limits == (None, None):
        print("not judged: --only, and no --lines or --branches")
    elif not wrong:
        print(f"PASS: {lines:.2f}% of the lines, {branches:.2f}% of the branches")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n", 1)[0][7:])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--lines", type=float)
    parser.add_argument("--branches", type=float)
    parser.add_argument("--partial", action="store_true")
    given = parser.parse_args()
    limits = (given.lines, given.branches)
    if not given.partial:
        limits = (LINES if given.lines is None else given.lines, BRANCHES if given.branches is None else given.branches)
    try:
        return report(given.root, limits, given.partial)
    except (Trouble, FileNotFoundError) as trouble:
        print(f"coverage: {trouble}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
