"""Campaigns with AFL++ on the same targets, which are built as NAME-afl beside libFuzzer's."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import find
import libfuzzer
import stop

PROGRESS_SECONDS = 5
RUN_MS_MAX = 10_000
RSS_LIMIT = "none"  # AddressSanitizer maps more than any limit
SETTINGS = {
    "AFL_NO_UI": "1",
    "AFL_SKIP_CPUFREQ": "1",
    "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1",
    "AFL_NO_AFFINITY": "1",
    "AFL_BENCH_UNTIL_CRASH": "1",
    "AFL_FUZZER_STATS_UPDATE_INTERVAL": "2",
    "AFL_QUIET": "1",
    "ASAN_OPTIONS": "abort_on_error=1:symbolize=0:detect_leaks=0",
    "UBSAN_OPTIONS": "abort_on_error=1:halt_on_error=1:symbolize=0",
}


def stats_of(folder):
    """A fuzzer's statistics, from its file of NAME : VALUE lines."""
    try:
        lines = (folder / "fuzzer_stats").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def total(work, name):
    return sum(int(stats_of(folder).get(name, 0)) for folder in work.iterdir() if folder.is_dir())


def start(target, work, seeds, options):
    """Starts the fuzzers: the first is the main one, the others exchange inputs with it."""
    # afl-fuzz refuses sanitizer options that do not end as it expects, so the caller's are left out.
    environment = {name: value for name, value in os.environ.items() if not name.endswith("SAN_OPTIONS")} | SETTINGS
    if target.shape:
        environment["AFL_CUSTOM_MUTATOR_LIBRARY"] = str(target.build / f"{target.name}-mutator.so")
    processes = []
    for job in range(options.jobs):
        command = [
            "afl-fuzz",
            "-i",
            str(seeds),
            "-o",
            str(work),
            "-M" if job == 0 else "-S",
            f"job{job}",
            "-V",
            str(options.seconds),
            "-t",
            str(RUN_MS_MAX),
            "-m",
            RSS_LIMIT,
            "-G",
            str(target.max_len),
        ]
        if target.dictionary.is_file() and not target.shape:
            command += ["-x", str(target.dictionary)]
        log = open(work / f"job{job}.log", "wb")
        processes.append(
            stop.start([*command, "--", str(target.program)], stdout=log, stderr=subprocess.STDOUT, env=environment)
        )
    return processes


def wait(processes, work, target, options):
    """Waits until one fuzzer has ended (time is over, or it has a crash) or Ctrl-C; then ends the others."""
    begun = told = time.monotonic()
    while all(process.poll() is None for process in processes):
        time.sleep(0.2)
        if time.monotonic() - told >= PROGRESS_SECONDS:
            told = time.monotonic()
            print(
                f"{target.name}: {told - begun:.0f} of {options.seconds} s, {total(work, 'execs_done')} executions, "
                f"{total(work, 'corpus_count')} inputs",
                flush=True,
            )
    for process in processes:
        stop.end(process)


def keep_inputs(work, corpus):
    """Adds inputs with new coverage to the working corpus, named after their content as libFuzzer does."""
    for path in work.glob("*/queue/id:*"):
        data = path.read_bytes()
        (corpus / hashlib.sha1(data).hexdigest()).write_bytes(data)


def campaign(target, options):
    if shutil.which("afl-fuzz") is None:
        print("skipped: there is no afl-fuzz here (package afl++)", file=sys.stderr)
        sys.exit(77)
    libfuzzer.seed(target)
    with tempfile.TemporaryDirectory(prefix="hakmem-fuzz.") as folder:
        work, seeds = Path(folder, "work"), target.corpus
        work.mkdir()
        if not any(path.is_file() for path in seeds.iterdir()):
            (seeds / "first").write_bytes(b"\x01\x01\0\0" + bytes(16))
        began = time.monotonic()
        processes = start(target, work, seeds, options)
        wait(processes, work, target, options)
        took = max(time.monotonic() - began, 0.001)
        keep_inputs(work, target.corpus)
        reports = []
        for path in sorted(work.glob("*/crashes/id:*")) + sorted(work.glob("*/hangs/id:*")):
            reports.append(find.Report(path.read_bytes(), f"libFuzzer: {path.parent.name}\n"))
        executions = total(work, "execs_done")
        failed = executions == 0 and not stop.requested
        if failed:
            print((work / "job0.log").read_text(encoding="utf-8", errors="replace")[-4000:], file=sys.stderr)
            print(f"fuzz: afl-fuzz ran nothing of {target.name}", file=sys.stderr)
        edges = max((int(stats_of(one).get("edges_found", 0)) for one in work.iterdir() if one.is_dir()), default=0)
        # The first find ends a campaign, as with libFuzzer.
        return {
            "executions": executions,
            "rate": executions / took,
            "edges": edges,
            "interrupted": stop.requested,
            "failed": failed,
            "reports": reports[:1],
        }
