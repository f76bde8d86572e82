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
SECONDS = 900  # for conform, and for the scenarios


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
    """{version: what was seen}; a later line of one version wins. A line that was cut is left out."""
    seen = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            result = json.loads(line)
            seen[result["version"]] = result
        except (ValueError, KeyError, TypeError):
            continue
    return seen


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


def part(stress, library, words, option, read):
    """{passed: [], failed: {name: [times, runs, how]}, skipped: {name: why}}; what failed is run once more."""
    result, fault = run_json(stress, words, library)
    if result is None:
        return dict(fault=fault)
    seen = read(result)
    failed = {name: [1, 1, judge.shown(how)] for name, (status, how) in seen.items() if status in judge.FAILED}
    if failed:
        again = [word for name in failed for word in (option, name)]
        result, _ = run_json(stress, [*words, *again], library)
        for name, (status, _) in (read(result) if result else {}).items():
            if name in failed:
                failed[name][0] += status in judge.FAILED
                failed[name][1] += 1
    passed = [name for name, (status, _) in seen.items() if status == "pass"]
    skipped = {name: judge.shown(how) for name, (status, how) in seen.items() if status not in ("pass", *judge.FAILED)}
    return dict(passed=passed, failed=failed, skipped=skipped)


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
        self.lock, self.seen = threading.Lock(), read_lines(out)
        self.suite = hashlib.sha256(stress.read_bytes()).hexdigest()[:16]
        if out.is_file() and out.read_bytes()[-1:] not in (b"", b"\n"):  # a run was cut
            with open(out, "a", encoding="utf-8") as file:
                file.write("\n")
        self.running = collections.defaultdict(
            threading.Lock
        )  # by digest: two equal libraries do not run beside each other

    def result(self, version):
        """What was seen of one version, also kept in the file. Raises versions.OutOfReach."""
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
            mine = self.running[digest]
        with mine:
            for other in list(self.seen.values()):
                if other.get("library") == digest and other["suite"] == self.suite:
                    same = other.get("same_as") or other["version"]
                    return self.keep({**other, "version": version, "same_as": same})
            result = dict(version=version, library=digest, suite=self.suite, commit=self.commit)
            result.update(machine=machine(), day=str(datetime.date.today()))
            result["conform"] = part(self.stress, library, CHECKS.split(), "--only", of_checks)
            result["scenarios"] = part(self.stress, library, SCENARIOS.split(), "--scenario", of_runs)
            return self.keep(result)

    def keep(self, result):
        with self.lock:
            self.seen[result["version"]] = result
            with open(self.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(result, sort_keys=True) + "\n")
        return result


def shown(result):
    if "cannot" in result:
        return f"cannot: {result['cannot']}"
    words = [f"the same library as {short(result['same_as'])}"] if "same_as" in result else []
    for name in ("conform", "scenarios"):
        seen = result[name]
        words.append(f"{name}: " + (seen.get("fault") or f"{len(seen['passed'])} pass, {len(seen['failed'])} fail"))
    return "; ".join(words)


def run_all(rows, runner, jobs, say):
    """Runs what has no line yet. Returns the first reason why a registry is out of reach, or ""."""
    waiting, unreached = [row.version for row in rows if row.version not in runner.seen], []

    def one(version):
        started = time.monotonic()
        try:
            say(f"{version}: {shown(runner.result(version))}; {time.monotonic() - started:.0f} s")
        except versions.OutOfReach as fault:
            unreached.append(f"{version}: {fault}")
            say(f"{version}: not run: {fault}")

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, waiting))
    return unreached[0] if unreached else ""


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
    return command, f"{status}: {how}" if how else status, status in judge.FAILED
