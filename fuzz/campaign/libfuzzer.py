"""Campaigns with libFuzzer's own -fork, and merges."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import find
import stop

PROGRESS_SECONDS = 5
RUN_SECONDS_MAX = 60  # for one input; more is a find
RSS_MIB_MAX = 4096
# "#1234: cov: 56 ft: 78 corp: 9 exec/s: 10 oom/timeout/crash: 0/0/0 time: 11s job: 2 dft_time: 0"
LINE = re.compile(r"#(\d+): cov: (\d+) ft: (\d+) corp: (\d+) exec/s:? (\d+) .*time: (\d+)s")


def base_options(target):
    options = [f"-max_len={target.max_len}", f"-timeout={RUN_SECONDS_MAX}", f"-rss_limit_mb={RSS_MIB_MAX}"]
    return options + ([f"-dict={target.dictionary}"] if target.dictionary.is_file() else [])


def seed(target):
    """Fills the working corpus: its own inputs plus the committed ones."""
    target.corpus.mkdir(parents=True, exist_ok=True)
    if target.committed.is_dir():
        for path in target.committed.iterdir():
            if path.is_file() and not (target.corpus / path.name).exists():
                shutil.copy(path, target.corpus / path.name)


def measure(target):
    """The number of edges that the working corpus covers."""
    done = subprocess.run(
        [str(target.program), "-runs=0", *base_options(target), str(target.corpus)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    edges = re.findall(r"cov: (\d+)", done.stderr)
    return int(edges[-1]) if edges else 0


def artifacts(folder):
    return sorted((path for path in folder.iterdir() if path.is_file()), key=lambda path: path.stat().st_mtime)


def follow(process, target, seconds):
    """Reads the fuzzer's lines until it ends; returns (lines that are not progress, executions)."""
    kept, executions, told = [], 0, 0.0
    for line in process.stderr:
        match = LINE.match(line)
        if match is None:
            kept = kept[-4000:] + [line]
            continue
        executions = int(match[1])
        if time.monotonic() - told >= PROGRESS_SECONDS:
            told = time.monotonic()
            print(
                f"{target.name}: {match[6]} of {seconds} s, {match[1]} executions, {match[5]} a second, {match[2]} edges, "
                f"{match[4]} inputs",
                flush=True,
            )
    return kept, executions


def campaign(target, options):
    """Fuzzes until the time is over, a find, or Ctrl-C."""
    seed(target)
    with tempfile.TemporaryDirectory(prefix="hakmem-fuzz.") as folder:
        command = [
            str(target.program),
            f"-fork={options.jobs}",
            f"-max_total_time={options.seconds}",
            f"-artifact_prefix={folder}/",
            "-ignore_crashes=0",
            *base_options(target),
            str(target.corpus),
        ]
        started = time.monotonic()
        process = stop.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
        lines, executions = follow(process, target, options.seconds)
        status = stop.wait(process)
        took = max(time.monotonic() - started, 0.001)
        reports = []
        for path in artifacts(Path(folder)):
            kind, _, rest = path.name.partition("-")
            if rest and kind in ("crash", "timeout", "oom", "leak"):
                # If the run ended when its time was over, its output is missing, and only the kind of find is known.
                reports.append(find.Report(path.read_bytes(), "".join(lines) + f"libFuzzer: {kind}\n"))
        # Any other end is a failure too.
        failed = status != 0 and not stop.requested and not reports
        if failed:
            print("".join(lines[-40:]), file=sys.stderr)
            print(
                f"fuzz: {target.name} ended with exit status {status} and left no input: {' '.join(command)}",
                file=sys.stderr,
            )
        return {
            "executions": executions,
            "rate": executions / took,
            "edges": measure(target),
            "interrupted": stop.requested,
            "failed": failed,
            "reports": reports,
        }


def merge(target):
    """Rewrites the committed corpus: the fewest files that cover the edges of both it and the working corpus."""
    with tempfile.TemporaryDirectory(prefix="hakmem-fuzz.") as folder:
        # The order decides between files of equal size. A file that crashes is left out and reported.
        command = [
            str(target.libfuzzer),
            "-set_cover_merge=1",
            "-use_counters=0",
            *base_options(target),
            folder,
            str(target.corpus),
            str(target.committed),
        ]
        target.committed.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        merged = [path for path in Path(folder).iterdir() if path.is_file()]
        if done.returncode != 0 or not merged:
            print(done.stderr[-4000:], file=sys.stderr)
            sys.exit(f"fuzz: {target.name}: the merge failed, and the corpus stays as it was: {' '.join(command)}")
        for path in target.committed.iterdir():
            if path.is_file():
                path.unlink()
        for path in merged:
            shutil.copy(path, target.committed / path.name)
        print(f"{target.name}: merged: {len(merged)} files in {target.committed}", flush=True)
