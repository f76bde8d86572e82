"""Counts what one call costs with N and with 8 N of what a pattern grows: instructions of the malloc's own code for a call,
instructions of the dearest call, and its system calls. Other work on the machine changes none of them."""

import collections
import concurrent.futures
import json
import os
import pathlib
import tempfile

from measure import callgrind, counts
from measure.fault import Broken
from measure.options import ROOT

FILE = ROOT / "ci/lint/growth.json"
TIMES = 8
RATIO_MOST = 1.3
RATIO_SLACK = 5  # instructions a call: below that a ratio means nothing
DEAREST_MOST = 20000
SYSTEM_CALLS_MOST = 4
PART = 250  # calls from one mark to the next; only parts above DEAREST_MOST are looked into call by call
MEASURES = ("ratio", "dearest", "system_calls")

Figures = collections.namedtuple("Figures", "per_call dearest")


def patterns():
    """{pattern: {"live": N, "calls": P, "environment": {name: value}, "known": {measure: why it is above its bound}}}"""
    return json.loads(FILE.read_text(encoding="utf-8"))["patterns"]


def environment(subject, pattern, live):
    kept = [f"{name}={value}" for name, value in subject.environment().items() if name in counts.VARIABLES]
    own = [f"{name}={value.format(bytes=live << 20)}" for name, value in pattern.get("environment", {}).items()]
    return ["env", "-i", *([] if pattern.get("clock") else [counts.STILL]), *kept, *own]


def command(runner, name, pattern, live, *options):
    return [
        *(str(runner.program), "growth", name, "--live", str(live), "--calls", str(pattern.get("calls", 1000))),
        *map(str, options),
    ]


def parts(runner, subject, name, pattern, live, mark, first=0, last=None):
    """[instructions of the own code from one mark to the next]"""
    options = ["--mark", mark, "--from", first, *(["--to", last] if last is not None else [])]
    with tempfile.TemporaryDirectory(prefix="hakmem-bench.") as folder:
        out = pathlib.Path(folder) / "out"
        valgrind = [
            "valgrind",
            "--tool=callgrind",
            "--fair-sched=yes",
            "--instr-atstart=no",
            f"--callgrind-out-file={out}",
        ]
        runner.object(
            [*environment(subject, pattern, live), *valgrind, *command(runner, name, pattern, live, *options)], subject
        )
        files = sorted(pathlib.Path(folder).glob("out.*"), key=lambda file: int(file.suffix[1:]))
        if len(files) < 2:
            raise Broken(f"growth, {name}: {len(files)} marks: hakmem-bench was built without valgrind's headers")
        own = callgrind.Own(subject.objects, subject.has_unnamed_code)
        return [own_instructions(file, own) for file in files[1:]]  # the first is what came before


def own_instructions(file, own):
    with open(file, encoding="utf-8", errors="replace") as lines:
        parser = callgrind.read(lines)
    return sum(totals[0] for name, totals in parser.totals.items() if own.has(name))


def instructions(runner, subject, name, pattern, live):
    """The mean over all calls, and the dearest call: exact, since a part above the bound is counted call by call. A start of
    valgrind takes as long as 400 marks."""
    calls = live if pattern.get("each") else pattern.get("calls", 1000)
    if calls <= 2 * PART:
        every = parts(runner, subject, name, pattern, live, 1)
        return Figures(sum(every) / calls, max(every))
    coarse = parts(runner, subject, name, pattern, live, PART)
    dearest = 0
    for number in sorted(range(len(coarse)), key=coarse.__getitem__, reverse=True)[:2]:
        if coarse[number] > DEAREST_MOST:
            first = number * PART
            fine = parts(runner, subject, name, pattern, live, 1, first, min(first + PART, calls))
            dearest = max(dearest, *fine)
    return Figures(sum(coarse) / calls, dearest)


def system_calls(runner, subject, name, pattern, live):
    """The most between two marks."""
    with tempfile.TemporaryDirectory(prefix="hakmem-bench.") as folder:
        log = pathlib.Path(folder) / "log"
        runner.object(
            [
                *environment(subject, pattern, live),
                "strace",
                "-qq",
                "-o",
                str(log),
                *command(runner, name, pattern, live),
            ],
            subject,
        )
        most = found = 0
        marked = False
        for line in log.read_text(errors="replace").splitlines():
            if line.startswith('prctl(PR_SET_NAME, "mark"'):
                most, found, marked = max(most, found), 0, True
            elif marked and "(" in line:
                found += 1
    if not marked:
        raise Broken(f"growth, {name}: no mark in the log of strace")
    return most


def measure(runner, subject, chosen):
    """{pattern: {"small", "large": instructions a call, "ratio", "dearest", "system_calls"}}"""
    found = {}
    with concurrent.futures.ThreadPoolExecutor(min(4, len(os.sched_getaffinity(0)))) as pool:
        jobs = {}
        for name, pattern in chosen.items():
            low, high = pattern["live"], pattern["live"] * TIMES
            jobs[name] = (
                pool.submit(instructions, runner, subject, name, pattern, low),
                pool.submit(instructions, runner, subject, name, pattern, high),
                pool.submit(system_calls, runner, subject, name, pattern, high),
            )
        for name, (low, high, calls) in jobs.items():
            small, large = low.result(), high.result()
            found[name] = {
                "small": small.per_call,
                "large": large.per_call,
                "ratio": (large.per_call + RATIO_SLACK) / (small.per_call + RATIO_SLACK),
                "dearest": max(small.dearest, large.dearest),
                "system_calls": calls.result(),
            }
    return found


def above(figures):
    """{measure: text} of what is above its bound."""
    bounds = {"ratio": RATIO_MOST, "dearest": DEAREST_MOST, "system_calls": SYSTEM_CALLS_MOST}
    return {
        name: f"{name.replace('_', ' ')} {figures[name]:.{2 if name == 'ratio' else 0}f}, at most {most}"
        for name, most in bounds.items()
        if round(figures[name], 2) > most
    }


def judge(name, figures, pattern):
    """What is wrong, as lines: above a bound and not known, or known and mended."""
    known = pattern.get("known", {})
    found = above(figures)
    wrong = [f"{name}: {text}" for measure, text in found.items() if measure not in known]
    return wrong + [
        f"{name}: {measure} is within its bound now: remove it from known" for measure in known if measure not in found
    ]
