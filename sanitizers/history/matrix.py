"""ci/history --matrix: each check of conform and each scenario of a short `all`, on each version of versions.tsv.

Each part of a version is one JSON line in build/history/matrix.ndjson, so that a run that was cut continues with the
next part. A part that had no answer is tried again. matrix_page.py draws the lines.
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
SECONDS = 7200  # for one part of one version
PARTS = ("conform", "scenarios")
ANSWERS = ("passed", "failed", "skipped", "capped")  # keys of a part; `passed` is a list, the others say how
ABOUT = ("library", "suite", "commit", "machine", "day")  # a version with the same library takes these over


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
    """{version: what was seen}, its parts together. A line that cannot be read, such as one that was cut, is left out."""
    seen = {}
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if is_line(line):
            add_line(seen, line)
    return seen


def is_line(line):
    if not isinstance(line, dict) or not isinstance(line.get("version"), str):
        return False
    if "cannot" in line:
        return isinstance(line["cannot"], str)
    types = dict(passed=list, failed=dict, skipped=dict, capped=dict)
    return (
        all(isinstance(line.get(key), str) for key in ABOUT)
        and isinstance(line.get("faults"), dict)
        and all(
            isinstance(line[part], dict)
            and all(isinstance(line[part].get(key), kind) for key, kind in types.items())
            and all(isinstance(how, list) and len(how) == 3 for how in line[part]["failed"].values())
            for part in PARTS
            if part in line
        )
    )


def add_line(seen, line):
    """A later answer to a check replaces an earlier one, and an answer replaces the part's fault."""
    version = line["version"]
    if "cannot" in line:
        seen[version] = line
        return
    before = seen.get(version, {})
    before = {} if "cannot" in before else before
    now = {**before, **line, "about": before.get("about", set()) | {tuple(line[key] for key in ABOUT)}}
    now["faults"] = {part: fault for part, fault in before.get("faults", {}).items() if part not in line} | line[
        "faults"
    ]
    for part in PARTS:
        if part in before and part in line:
            kept = only(before[part], names_of(before[part]) - names_of(line[part]))
            now[part] = {key: join(kept[key], line[part][key]) for key in ANSWERS}
    seen[version] = now


def join(one, two):
    return one + two if isinstance(one, list) else {**one, **two}


def names_of(part):
    return {name for key in ANSWERS for name in part.get(key, ())}


def only(part, names):
    return {
        key: [n for n in part[key] if n in names]
        if key == "passed"
        else {n: how for n, how in part[key].items() if n in names}
        for key in ANSWERS
    }


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


Part = collections.namedtuple("Part", "words option read")
RUNS = dict(
    conform=Part(f"conform --memory-cap {matrix_page.CAP_MIB}".split(), "--only", of_checks),
    scenarios=Part("all --ops 10000 --threads 4 --seed 1".split(), "--scenario", of_runs),
)


def answers(stress, library, part, names):
    """(what the part says of these names, all if there are none, or None; fault). What failed runs once more."""
    words, option, read = RUNS[part]
    result, fault = run_json(stress, [*words, *(word for name in names for word in (option, name))], library)
    if result is None:
        return None, fault
    said = dict(passed=[], failed={}, skipped={}, capped={})
    for name, (status, how) in read(result).items():
        if status == "pass":
            said["passed"].append(name)
        elif status == "fail":
            said["failed"][name] = [1, 1, judge.shown(how)]
        elif status == "memory cap":
            said["capped"][name] = judge.shown(how)
        else:
            said["skipped"][name] = judge.shown(how if status == "skip" else f"{status}: {how}")
    failed = said["failed"]
    if failed:
        again, _ = run_json(stress, [*words, *(word for name in failed for word in (option, name))], library)
        for name, (status, _) in (read(again) if again else {}).items():
            failed[name][0] += status == "fail"
            failed[name][1] += 1
    return said, ""


def checks_of(stress):
    done = subprocess.run([str(stress), "conform", "--list"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in done.stdout.splitlines() if line.strip() and not line.startswith(" ")]


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

    def lacks(self, version, part):
        """The names of a part that have no answer yet, or None if all have one. No name: all scenarios."""
        seen = self.seen.get(version, {})
        if "cannot" in seen:
            return None
        if part == "scenarios":
            return None if part in seen else []
        told = names_of(seen.get(part, {}))
        return [name for name in self.checks if name not in told] or None

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
            mine, line = self.running[digest, part], dict(version=version, faults={})
        names = self.lacks(version, part)
        with mine:
            for other in list(self.seen.values()):
                is_same = other.get("library") == digest and other["suite"] == self.suite and part in other
                if is_same and names_of(other[part]).issuperset(names):
                    same = other.get("same_as") or other["version"]
                    line.update({key: other[key] for key in ABOUT}, same_as=same)
                    line[part] = only(other[part], set(names) or names_of(other[part]))
                    return self.keep(line)
            line.update(library=digest, suite=self.suite, commit=self.commit, machine=machine())
            line["day"] = str(datetime.date.today())
            said, fault = answers(self.stress, library, part, names)
            line.update({"faults": {part: fault}} if said is None else {part: said})
            return self.keep(line)

    def keep(self, line):
        with self.lock:
            before = self.seen.get(line["version"], {}).get("faults", {})
            if line.get("faults") and line["faults"].items() <= before.items():
                return line  # the same fault as the time before
            add_line(self.seen, line)
            with open(self.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(line, sort_keys=True) + "\n")
        return line


def shown(line):
    if "cannot" in line:
        return f"cannot: {line['cannot']}"
    words = [f"the same library as {short(line['same_as'])}"] if "same_as" in line else []
    for part in PARTS:
        if part in line:
            words.append(f"{len(line[part]['passed'])} pass, {len(line[part]['failed'])} fail")
    return "; ".join([*words, *line["faults"].values()])


def in_turn(rows, seen):
    """What has no answer at all before what lacks only a new check, then the newest of each project, the next of
    each, and so on: a run that was cut has some of every project."""
    place, count = {}, collections.Counter()
    for row in rows:
        place[row] = (row.version in seen, count[row.project])
        count[row.project] += 1
    return sorted(rows, key=place.get)


def run_all(rows, runner, jobs, say):
    """Runs what has no answer yet, conform on all versions first. Returns the first reason why a registry is out of
    reach, or ""."""
    unreached = {}

    def one(job):
        part, version = job
        started = time.monotonic()
        try:
            if version not in unreached and runner.lacks(version, part) is not None:
                say(f"{version}: {part}: {shown(runner.result(version, part))}; {time.monotonic() - started:.0f} s")
        except versions.OutOfReach as fault:
            unreached[version] = f"{version}: {fault}"
            say(f"{version}: not run: {fault}")

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, [(part, row.version) for part in PARTS for row in in_turn(rows, runner.seen)]))
    return next(iter(unreached.values()), "")


def write_page(root, rows, data):
    """Writes the page beside the data. Returns its paths."""
    seen, paths = read_lines(data), []
    seen = {row.version: seen[row.version] for row in rows if row.version in seen}
    if not seen:
        raise ValueError(f"{data}: no line of ci/history --matrix about a version of sanitizers/versions.tsv")
    whole, root = data.resolve(), root.resolve()
    command = f"ci/history --page {whole.relative_to(root) if whole.is_relative_to(root) else data.name}"
    for suffix, draw in ((".html", matrix_page.page), (".svg", matrix_page.svg)):
        path = data.with_suffix(suffix)
        path.write_text(draw(rows, seen, command), encoding="utf-8")
        paths.append(path)
    return paths


def cell(stress, library, check):
    """(command, text, failed): one check or scenario on one library."""
    part = "scenarios" if check.startswith("all:") else "conform"
    words, option, read = RUNS[part]
    check = check.removeprefix("all:")
    result, fault = run_json(stress, [*words, option, check], library)
    command = " ".join(["hakmem-stress", *words, option, check, "--allocator", str(library)])
    if result is None:
        return command, fault, None
    status, how = read(result)[check]
    return command, f"{status}: {how}" if how else status, status == "fail"
