"""ci/history --matrix: each check of conform and each scenario of a short `all`, on each version of versions.tsv.

Each version's answers are one JSON line in build/history/matrix.ndjson, so that a run that was cut continues with the
next version. matrix_page.py draws them.
"""

import collections
import concurrent.futures
import datetime
import hashlib
import json
import os
import pathlib
import platform
import subprocess
import threading
import time

import judge
import matrix_page
import versions
from matrix_page import short

COLUMNS = "project version date".split()
Version = collections.namedtuple("Version", COLUMNS)
CHECKS = "conform --memory-cap 2048"
SCENARIOS = "all --ops 10000 --threads 4 --seed 1"
SECONDS = 3600  # for one part of one version
PARTS = ("quick", "scenarios", "slow")  # the page has each version early
ANSWERS = ("conform", "scenarios")
ABOUT = (
    "library",
    "suite",
    "commit",
    "machine",
    "day",
)  # cells of a line that a version with the same library takes over
# The checks of conform that take half a second or more.
SLOW = """
realloc-too-large-keeps-block realloc-of-aligned calloc-after-dirty-free calloc-to-the-last-byte calloc-slack
calloc-after-trim calloc-with-huge-pages calloc-after-shrink calloc-after-grow calloc-after-remote-free
free-after-owner-ended caches-of-ended-threads late-free-of-large key-above-32 small-stack
fork-while-a-stream-is-held malloc-in-atfork-handlers fork-while-getting-memory fork-while-giving-back-memory
fork-child-forks fork-from-a-thread tls-of-a-module static-tls-left no-files-left munmap-fails mapping-limit
purge-of-one-page small-out-of-data large-out-of-data small-out-of-address-space large-out-of-address-space
phases-of-other-sizes realloc-retention trim-gives-back lost-frees lost-frees-of-others lost-in-bursts
last-and-first-moments one-class-at-once waits-that-signals-end held-up-by-a-signal more-than-16-bits settings
helpers-mask-signals no-cancellation-point signals-all-the-time beside-a-wait-for-memory
""".split()


def read_versions(path):
    """In the order of the file: the newest of a project first."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#") or not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise ValueError(f"{path.name}:{number}: {len(cells)} columns, not {len(COLUMNS)} with tabs between them")
        versions.builder_of(cells[1]), versions.parts_of(cells[1])
        found.append(Version(*cells))
    return found


def read_lines(path):
    """{version: what was seen}, its parts together. A line that was cut is left out."""
    seen = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            add_line(seen, json.loads(line))
        except (ValueError, KeyError, TypeError):
            continue
    return seen


def add_line(seen, line):
    version = line["version"]
    if "cannot" in line or version not in seen or "cannot" in seen[version]:
        seen[version] = line
        return
    before = seen[version]
    seen[version] = {**before, **line, "parts": before["parts"] + line["parts"]}
    for kind in ANSWERS:
        if kind in before and kind in line:
            one, two = before[kind], line[kind]
            seen[version][kind] = {
                key: one[key] + two[key] if key == "passed" else {**one[key], **two[key]} for key in one
            }
        elif kind in before:
            seen[version][kind] = before[kind]
    seen[version]["faults"] = before["faults"] + line["faults"]


def run_json(stress, words, library):
    """What one command of the suite wrote as JSON, or None and why it wrote none."""
    result, _, fault, _ = judge.run_words(stress, words, library, SECONDS)
    return (None, fault) if result is None else (json.loads(result), "")


def of_checks(result):
    return {check["id"]: (check["status"], check.get("detail", "")) for check in result["checks"]}


def of_runs(result):
    return {
        run["scenario"]: (run["verdict"], (run["failures"] or [{}])[0].get("rule", "") or run.get("skip_reason", ""))
        for run in result["runs"]
    }


def answers(stress, library, words, option, read, names):
    """({passed: [], failed: {name: [times, runs, how]}, skipped: {name: why}}, fault); what failed runs once more."""
    result, fault = run_json(stress, [*words, *(word for name in names for word in (option, name))], library)
    seen = read(result) if result else {}
    failed = {name: [1, 1, judge.shown(how)] for name, (status, how) in seen.items() if status == "fail"}
    if failed:
        again, _ = run_json(stress, [*words, *(word for name in failed for word in (option, name))], library)
        for name, (status, _) in (read(again) if again else {}).items():
            failed[name][0] += status == "fail"
            failed[name][1] += 1
    passed = [name for name, (status, _) in seen.items() if status == "pass"]
    skipped = {
        name: judge.shown(how) for name, (status, how) in seen.items() if status not in ("pass", "fail")
    }  # the memory cap, too
    return dict(passed=passed, failed=failed, skipped=skipped), fault


def only(seen, names):
    return {
        key: [n for n in cells if n in names] if key == "passed" else {n: cells[n] for n in cells if n in names}
        for key, cells in seen.items()
    }


def checks_of(stress):
    """{part: names}: the quick checks of conform, and the slow ones."""
    done = subprocess.run([str(stress), "conform", "--list"], capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in done.stdout.splitlines() if line.strip() and not line.startswith(" ")]
    return dict(quick=[name for name in names if name not in SLOW], slow=[name for name in names if name in SLOW])


def digest_of(folder):
    """Of a library and of those beside it: some proxies load the malloc itself from there."""
    parts = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())]
    return parts[0][:16] if len(parts) == 1 else hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


def machine():
    names = [line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    name = names[0].split(":")[1].strip() if names else platform.machine()
    return f"{name}, {os.cpu_count()} cores, {' '.join(platform.libc_ver())}"


class Runner:
    def __init__(self, stress, store, out, offline, commit):
        self.stress, self.store, self.out, self.offline, self.commit = stress, store, out, offline, commit
        self.lock, self.seen, self.checks = threading.Lock(), read_lines(out), checks_of(stress)
        self.suite = hashlib.sha256(stress.read_bytes()).hexdigest()[:16]
        if out.is_file() and out.read_bytes()[-1:] not in (b"", b"\n"):  # a run was cut
            with open(out, "a", encoding="utf-8") as file:
                file.write("\n")
        self.running = collections.defaultdict(threading.Lock)  # by digest: equal libraries run one after the other

    def has(self, version, part):
        seen = self.seen.get(version, {})
        return "cannot" in seen or part in seen.get("parts", ())

    def result(self, version, part):
        """The line of one part of one version, also kept in the file. Raises versions.OutOfReach."""
        try:
            library = self.store.library(version, not self.offline)
        except versions.OutOfReach:
            raise
        except versions.Cut as fault:
            return dict(version=version, cannot=str(fault))  # not kept: another time it may succeed
        except versions.Unavailable as fault:
            return self.keep(dict(version=version, cannot=str(fault)))
        digest = digest_of(library.parent)
        with self.lock:
            mine, line = self.running[digest, part], dict(version=version, parts=[part], faults=[])
        kind = "scenarios" if part == "scenarios" else "conform"
        with mine:
            for other in list(self.seen.values()):
                if other.get("library") == digest and other["suite"] == self.suite and part in other["parts"]:
                    same = other.get("same_as") or other["version"]
                    line.update({key: other[key] for key in ABOUT}, same_as=same, faults=other["faults"])
                    line[kind] = other[kind] if part == "scenarios" else only(other[kind], self.checks[part])
                    return self.keep(line)
            line.update(library=digest, suite=self.suite, commit=self.commit, machine=machine())
            line["day"] = str(datetime.date.today())
            how = (
                (SCENARIOS.split(), "--scenario", of_runs, [])
                if part == "scenarios"
                else (CHECKS.split(), "--only", of_checks, self.checks[part])
            )
            line[kind], fault = answers(self.stress, library, *how)
            line["faults"] += [f"{part}: {fault}"] if fault else []
            return self.keep(line)

    def keep(self, line):
        with self.lock:
            add_line(self.seen, line)
            with open(self.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(line, sort_keys=True) + "\n")
        return line


def shown(line):
    if "cannot" in line:
        return f"cannot: {line['cannot']}"
    words = [f"the same library as {short(line['same_as'])}"] if "same_as" in line else []
    for kind in ANSWERS:
        if kind in line:
            words.append(f"{len(line[kind]['passed'])} pass, {len(line[kind]['failed'])} fail")
    return "; ".join([*words, *line["faults"]])


def run_all(rows, runner, jobs, say):
    """Runs the parts that have no line yet, the quick checks of all versions first. Returns the first reason why a
    registry is out of reach, or ""."""
    unreached = {}

    def one(job):
        part, version = job
        started = time.monotonic()
        try:
            if version not in unreached and not runner.has(version, part):
                say(f"{version}: {part}: {shown(runner.result(version, part))}; {time.monotonic() - started:.0f} s")
        except versions.OutOfReach as fault:
            unreached[version] = f"{version}: {fault}"
            say(f"{version}: not run: {fault}")

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, [(part, row.version) for part in PARTS for row in rows]))
    return next(iter(unreached.values()), "")


def write_page(rows, data):
    """Writes the page beside the data. Returns its paths."""
    seen, paths = read_lines(data), []
    for suffix, draw in ((".html", matrix_page.page), (".svg", matrix_page.svg)):
        path = data.with_suffix(suffix)
        path.write_text(draw(rows, seen, f"ci/history --page {data.name}"), encoding="utf-8")
        paths.append(path)
    return paths


def cell(stress, library, check):
    """(command, text, failed): one check or scenario on one library."""
    words, option, read = CHECKS.split(), "--only", of_checks
    if check.startswith("all:"):
        check = check[len("all:") :]
        words, option, read = SCENARIOS.split(), "--scenario", of_runs
    result, fault = run_json(stress, [*words, option, check], library)
    command = " ".join(["hakmem-stress", *words, option, check, "--allocator", str(library)])
    if result is None:
        return command, fault, None
    status, how = read(result)[check]
    return command, f"{status}: {how}" if how else status, status == "fail"
