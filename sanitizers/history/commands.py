"""The work of ci/history, whose --help says what each option does."""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import time

import judge
import matrix
import rows as table
import versions

# Of three projects and four kinds, each found by another check. They need four builds in C and two wheels: rows share
# versions, and none is snmalloc, which takes ten times as long to compile.
QUICK = ("mimalloc-121", "mimalloc-b2419108", "rpmalloc-pvalloc", "rpmalloc-98", "rpmalloc-null", "tbbmalloc-838")


def say(text):
    print(text, flush=True)


def complain(text):
    print(f"history: {text}", file=sys.stderr)


class Runner:
    def __init__(self, options, store):
        self.stress, self.budget, self.offline, self.store = options.stress, options.budget, options.offline, store

    def row(self, row):
        """{result, by, seconds, reason}, and whether the reason is a registry out of reach."""
        seen = []
        for version in (row.broken, row.mended):
            try:
                library = self.store.library(version, not self.offline)
            except versions.OutOfReach as fault:
                return dict(result="not run", by="", seconds=0.0, reason=f"{version}: {fault}"), True
            except versions.Unavailable as fault:
                return dict(result="cannot", by="", seconds=0.0, reason=f"{version}: {fault}"), False
            seen.append(judge.run_tries(self.stress, row, library, self.budget))
        return judge.verdict(*seen), False

    def all(self, rows, jobs, out):
        results, unreached = {}, 0
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            waiting = {pool.submit(self.row, row): row for row in rows}
            for done in concurrent.futures.as_completed(waiting):
                row, (result, far) = waiting[done], done.result()
                unreached += far
                results[row.name] = result
                what = result["by"] or result["reason"]
                say(f"{result['result']:9} {row.name:24} {result['seconds']:6.1f} s  {what}")
                if out:
                    write_results(out, results)
        return results, unreached


def write_results(path, results):
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    beside.replace(path)


def read_results(path):
    try:
        results = json.loads(path.read_text())
        for name, result in results.items():
            if result["result"] not in table.RESULTS or not isinstance(result["seconds"], (int, float)):
                raise ValueError(name)
            result["by"], result["reason"] = (
                str(result["by"]),
                str(result["reason"]).replace("\t", " ").splitlines()[:1],
            )
            result["reason"] = (result["reason"] or [""])[0]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"{path}: no results of ci/history --out ({fault}); run it again") from None
    return results


def recall(rows):
    count = collections.Counter(row.result for row in rows)
    ran = count["found"] + count["missed"] + count["unclear"]
    projects = len({row.project for row in rows})
    say(f"finds {count['found']} of {ran} bugs that were run, of {len(rows)} rows of {projects} projects")
    for result in table.RESULTS[1:]:
        if count[result]:
            say(f"  {count[result]:3} {result}")
    by_kind = collections.defaultdict(collections.Counter)
    for row in rows:
        by_kind[row.kind][row.result] += 1
    say("\nkind         found  of run")
    for kind, seen in sorted(by_kind.items()):
        say(f"{kind:12} {seen['found']:5}  {seen['found'] + seen['missed'] + seen['unclear']:6}")
    for result in ("missed", "unclear", "cannot", "out of reach"):
        for row in rows:
            if row.result == result:
                say(f"\n{result}: {row.name}: {row.bug} [{row.reference}]\n  {row.command}\n  {row.reason}")


def fetch(rows, store, jobs):
    wanted = list(dict.fromkeys(version for row in rows for version in (row.broken, row.mended)))
    failed = 0

    def one(version):
        started = time.monotonic()
        try:
            return f"{store.library(version).stat().st_size:9} bytes", time.monotonic() - started
        except versions.Unavailable as fault:
            return f"cannot: {fault}", time.monotonic() - started

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for version, (text, seconds) in zip(wanted, pool.map(one, wanted)):
            failed += text.startswith("cannot")
            say(f"{version}: {text}, {seconds:.1f} s")
    say(f"{len(wanted) - failed} of {len(wanted)} versions are in {store.root}/lib")
    return 0


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise ValueError(f"{message} (see --help)")


def parse(arguments):
    parser = Parser(prog="ci/history", add_help=False)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--stress", type=pathlib.Path)
    parser.add_argument("--store", type=pathlib.Path)
    parser.add_argument("--row", action="append", default=[])
    parser.add_argument("--cell", nargs=2)
    parser.add_argument("--page", type=pathlib.Path)
    for flag in ("quick", "all", "list", "recall", "fetch", "offline", "matrix"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--merge", type=pathlib.Path, nargs="+", default=[])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--budget", type=float, default=120)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--kind")
    options = parser.parse_args(arguments)
    if options.jobs < 1 or options.budget <= 0:
        raise ValueError("--jobs and --budget must be above 0")
    return options


def chosen(options, rows):
    names = QUICK if options.quick else options.row
    known = {row.name: row for row in rows}
    for name in names:
        if name not in known:
            raise ValueError(f"there is no row '{name}'; ci/history --list shows all")
    if options.kind and options.kind not in table.KINDS:
        raise ValueError(f"there is no kind '{options.kind}'; there are {', '.join(table.KINDS)}")
    picked = [known[name] for name in names] if names else rows
    return [row for row in picked if options.kind in (None, row.kind)]


def suite_of(options):
    stress = options.stress or options.root / "build/release/hakmem-stress"
    if not stress.is_file():
        raise ValueError(f"{stress} is missing: cmake --build --preset release --target hakmem-stress")
    return stress.resolve()


def run_matrix(options, store):
    """What versions.tsv has and no line answers yet, and then the page."""
    known = matrix.read_versions(options.root / "sanitizers/versions.tsv")
    words = ["git", "-C", str(options.root), "describe", "--always", "--dirty", "--abbrev=12"]
    commit = subprocess.run(words, capture_output=True, text=True).stdout.strip() or "unknown"
    runner = matrix.Runner(suite_of(options), store, store.root / "matrix.ndjson", options.offline, commit)
    unreached = matrix.run_all(known, runner, options.jobs, say)
    for file in matrix.write_page(options.root, known, runner.out) if runner.seen else ():
        say(f"wrote {file}")
    if unreached:
        say(f"skipped: {unreached}")
    return 77 if unreached and not runner.seen else 0


def run_cell(options, store):
    version, check = options.cell
    versions.builder_of(version)
    try:
        library = store.library(version, not options.offline)
    except versions.Unavailable as fault:
        say(f"skipped: {version}: {fault}")
        return 77
    command, text, failed = matrix.cell(suite_of(options), library, check)
    say(f"{command}\n{text}")
    return 2 if failed is None else int(failed)


def run(options):
    path = options.root / "sanitizers/history.tsv"
    comments, rows = table.read(path)
    if options.merge:
        results = {}
        for file in options.merge:
            results.update(read_results(file))
        unknown = set(results) - {row.name for row in rows}
        if unknown:
            raise ValueError(f"results of rows that {path.name} does not have: {', '.join(sorted(unknown))}")
        rows = table.merged(rows, results)
        table.write(path, comments, rows)
        recall(rows)
        return 0
    picked = chosen(options, rows)
    if options.list:
        for row in picked:
            say(f"{row.result:12} {row.name:24} {row.kind:12} {row.bug} [{row.reference}]")
        return 0
    if options.recall:
        recall(picked)
        return 0
    if options.page:
        known = matrix.read_versions(options.root / "sanitizers/versions.tsv")
        for file in matrix.write_page(options.root, known, options.page):
            say(f"wrote {file}")
        return 0
    store = versions.Store(options.store or options.root / "build/history")
    if options.matrix:
        return run_matrix(options, store)
    if options.cell:
        return run_cell(options, store)
    if options.fetch:
        return fetch(picked, store, options.jobs)
    if not (options.quick or options.all or options.row):
        raise ValueError("say which rows: --quick, --all or --row NAME")
    stress = suite_of(options)
    if options.out and not options.out.resolve().parent.is_dir():
        raise ValueError(f"--out {options.out}: there is no such directory")
    options.stress = stress
    results, unreached = Runner(options, store).all(picked, options.jobs, options.out)
    found = sum(result["result"] == "found" for result in results.values())
    say(f"found {found} of {len(picked)}; {unreached} not run, since a registry is out of reach")
    if unreached:
        reason = next(result["reason"] for result in results.values() if result["result"] == "not run")
        say(f"skipped: {reason}")
    if 0 < unreached < len(picked):  # in the words of unittest: ci/lib/suite_skips.py counts them
        say("rows ... ok")
        for name, result in sorted(results.items()):
            if result["result"] == "not run":
                say(f"{name} ... skipped '{result['reason']}'")
    lost = [row for row in picked if row.result == "found" and results[row.name]["result"] not in ("found", "not run")]
    for row in lost:
        complain(
            f"{row.name} was found by {row.by}, and now: {results[row.name]['reason']}; ci/history --row {row.name}"
        )
    return 1 if lost else 77 if unreached == len(picked) else 0


def main(arguments):
    try:
        return run(parse(arguments))
    except (ValueError, OSError) as fault:
        complain(fault)
        return 2
