"""Counts events in the malloc's own code for a pair of malloc and free, under callgrind. Other work on the machine does
not change them. Each count is the difference of two run lengths, so that the start and end of the program do not
count."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import tempfile

from measure import callgrind
from measure.fault import Broken
from measure.options import ROOT, say
from measure.table import format_table

FILE = ROOT / "ci/lint/bench_counts.json"
OPS = 20000  # pairs of the shorter run; the other is three times as long
LONGER = 3
EVENTS = {
    "instructions": ["Ir"],
    "branches": ["Bc"],
    "mispredicted": ["Bcm"],
    "loads_stores": ["Dr", "Dw"],
    "l1_misses": ["D1mr", "D1mw"],
}
# Tolerance on recorded counts: how far they move when addresses do.
SLACK = {"instructions": 0.5, "branches": 0.1}
# Only these variables stay in the environment: its size moves the stack, and with it the cache lines that the stack
# uses.
VARIABLES = ("PATH", "LD_PRELOAD", "LC_ALL")
# The same caches on every machine; by default valgrind takes those of the machine it runs on.
VALGRIND = [
    "valgrind",
    "--tool=callgrind",
    "--cache-sim=yes",
    "--branch-sim=yes",
    "--I1=32768,8,64",
    "--D1=32768,8,64",
    "--LL=8388608,16,64",
]


def expectations():
    """{row: {"target": {event: most}, "recorded": {event: figure}}}"""
    return json.loads(FILE.read_text(encoding="utf-8"))["rows"]


def known_rows(runner):
    return [name for name, row in runner.rows.items() if row["threads"] == 1]


def usual_rows(_):
    return list(expectations())


def totals(runner, subject, row, ops, folder):
    """(pairs, {event: count}) for one run."""
    file = pathlib.Path(folder) / f"{subject.name}.{row}.{ops}"
    kept = [f"{name}={value}" for name, value in subject.environment().items() if name in VARIABLES]
    command = [*VALGRIND, f"--callgrind-out-file={file}", *runner.row_command(row, 1, ops)]
    result = runner.object(["env", "-i", *kept, *command], subject)
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:
            found = callgrind.own_events(lines, subject.objects, subject.has_unnamed_code)
    except (OSError, callgrind.FormatError) as error:
        raise Broken(f"callgrind on {subject.name}, {row}: {error}") from None
    sums = {name: sum(found.get(event, 0) for event in events) for name, events in EVENTS.items()}
    return result["ops"] + result["warm_ops"], sums


def per_pair(short, long):
    """Events per pair, from (pairs, counts) of two run lengths."""
    pairs = long[0] - short[0]
    if pairs <= 0:
        raise Broken("the longer run did no more pairs than the shorter one")
    return {name: (long[1][name] - short[1][name]) / pairs for name in EVENTS}


def measure(runner, subjects, rows, ops):
    """({row: {allocator: {event: figure}}}, {allocator: why it is left out}). Some mallocs do not run under valgrind; a
    failure of ours is Broken."""
    if shutil.which("valgrind") is None:
        raise Broken("valgrind is not installed: run ci/setup --bench")
    lengths = (ops, ops * LONGER)
    jobs = [(subject, row, length) for row in rows for subject in subjects for length in lengths]
    workers = min(4, len(os.sched_getaffinity(0)))
    found, left_out = {}, {}
    with tempfile.TemporaryDirectory(prefix="hakmem-bench.") as folder, concurrent.futures.ThreadPoolExecutor(
        workers
    ) as pool:
        futures = {job: pool.submit(totals, runner, *job, folder) for job in jobs}
        for (subject, row, length), future in futures.items():
            try:
                found[subject.name, row, length] = future.result()
            except Broken as fault:
                if subject.ours:
                    pool.shutdown(cancel_futures=True)
                    raise
                left_out.setdefault(subject.name, str(fault))
    for name, why in left_out.items():
        say(f"counts: {name} is left out, since it does not run under valgrind: {why}")
    names = [subject.name for subject in subjects if subject.name not in left_out]
    if not names:
        raise Broken("no malloc runs under valgrind")
    return {
        row: {name: per_pair(*(found[name, row, length] for length in lengths)) for name in names} for row in rows
    }, left_out


def missed(figures, entry):
    """Counts above their targets, as text. Compared in hundredths, as the table shows them."""
    return [
        f"{event} {figures[event]:.2f}, target at most {most:g}"
        for event, most in entry.get("target", {}).items()
        if round(figures[event], 2) > most
    ]


def grown(figures, entry):
    """Counts above the recorded ones by more than the tolerance, as text."""
    recorded = entry.get("recorded", {})
    return [
        f"{event} {figures[event]:.2f}, recorded {recorded[event]:.2f} (slack {slack:g})"
        for event, slack in SLACK.items()
        if event in recorded and figures[event] > recorded[event] + slack
    ]


def show(figures, expected, ours):
    """The table: one line for each row and malloc, with the verdict on ours."""
    lines = []
    for row, of_row in figures.items():
        target = expected.get(row, {}).get("target", {})
        for name, events in of_row.items():
            verdict = ""
            if name in ours and target:
                faults = missed(events, expected[row])
                verdict = f"missed: {'; '.join(faults)}" if faults else "met"
            lines.append([row, name, *(float(events[event]) for event in EVENTS), verdict])
    header = ["row", "malloc", "instructions", "branches", "mispredicted", "loads+stores", "L1 misses", "target"]
    table = format_table(header, lines, left=2, last_left=True)
    return f"Events for a malloc and a free, in the malloc's own code, one thread:\n{table}"


def update(figures):
    """Records the counts of our own build."""
    document = json.loads(FILE.read_text(encoding="utf-8"))
    for row, events in figures.items():
        recorded = {name: round(value, 3) + 0.0 for name, value in events.items()}
        document["rows"].setdefault(row, {})["recorded"] = recorded
    FILE.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def run(runner, subjects, options, rows):
    ops = options.ops or OPS
    say(f"counts: {len(rows)} rows, {len(subjects)} mallocs, {ops} and {ops * LONGER} pairs under callgrind")
    figures, left_out = measure(runner, subjects, rows, ops)
    expected = expectations()
    ours = [subject.name for subject in subjects if subject.ours]
    text = show(figures, expected, ours)
    if options.update:
        update({row: of_row["hakmem"] for row, of_row in figures.items()})
        text += f"\nrecorded in {FILE.relative_to(ROOT)}"
    faults = [
        f"{name}, {row}: {fault}"
        for row, of_row in figures.items()
        for name in ours
        for fault in missed(of_row[name], expected.get(row, {}))
    ]
    data = {"ops": [ops, ops * LONGER], "figures": figures, "expected": expected, "left_out": left_out}
    return data, text, faults if ours else None
