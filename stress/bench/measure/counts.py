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
OPS = 20000  # pairs of the shorter run; the other is three times as long. In bulk rows at least one round, of THREADS a
# share for each thread
LONGER = 3
EVENTS = {
    "instructions": ["Ir"],
    "branches": ["Bc"],
    "mispredicted": ["Bcm"],
    "loads_stores": ["Dr", "Dw"],
    "l1_misses": ["D1mr", "D1mw"],
}
ROLES = ("malloc", "free", "drain")  # instructions of each, with what they call
# Tolerance on recorded counts: how far they move when addresses do. Bulk and threads move more, with the pages that the
# start of the program has taken.
SLACK = {"instructions": 0.5, "branches": 0.1}
SLACK_SHARE = 0.02
# Rows with threads, which take turns (hakmem-bench run --turns), as ROW/THREADS.
THREADS = {"larson": (2, 4, 8), "remote-free": (2, 4, 8), "all-remote": (2, 4), "mstress": (2, 4), "rptest": (2, 4)}
HANDOVER = 1000  # pairs after which a thread of larson hands on
# Only these variables stay in the environment: its size moves the stack, and with it the cache lines that the stack
# uses.
VARIABLES = ("PATH", "LD_PRELOAD", "LC_ALL")
# Work that our library does when time has passed would make counts depend on the machine's speed.
STILL = "HAKMEM_PURGE_DELAY_MS=3600000"
VALGRIND = ["valgrind", "--tool=callgrind", "--branch-sim=yes"]
# The same caches on every machine; by default valgrind takes those of the machine it runs on. Simulating them is slow and adds
# only the counts of NEED_CACHES.
CACHES = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"]
NEED_CACHES = ("loads_stores", "l1_misses")


def expectations():
    """{row: {"target": {event: most}, "recorded": {event: figure}}}"""
    return json.loads(FILE.read_text(encoding="utf-8"))["rows"]


def known_rows(runner):
    alone = [name for name, row in runner.rows.items() if row["threads"] == 1]
    return alone + [f"{name}/{count}" for name, counts in THREADS.items() for count in counts]


def usual_rows(runner):
    """What has expectations, and all of bulk."""
    return list(dict.fromkeys([*expectations(), *(name for name, row in runner.rows.items() if row["bulk"])]))


def split(row):
    """(name, threads)"""
    name, _, threads = row.partition("/")
    return name, int(threads or 1)


def length(runner, row, ops):
    """Pairs of the shorter run."""
    name, threads = split(row)
    return max(ops * threads, runner.rows[name]["count"] if runner.rows[name]["bulk"] else 0)


def needs_caches(entry):
    """Whether a row of expectations() has a target that only the caches can tell."""
    return any(event in NEED_CACHES for event in entry.get("target", {}))


def command_of(runner, row, ops, caches):
    name, threads = split(row)
    turns = ["--turns", "--handover", str(HANDOVER)] if threads > 1 else []
    # With --fair-sched a thread that waits for its turn gets it from the others in order.
    return [*VALGRIND, *(CACHES if caches else []), "--fair-sched=yes"], [
        *runner.row_command(name, threads, ops),
        *turns,
    ]


def totals(runner, subject, row, ops, folder, caches):
    """(pairs, {event: count}) for one run; without `caches` none of NEED_CACHES."""
    file = pathlib.Path(folder) / f"{subject.name}.{row.replace('/', '-')}.{ops}"
    kept = [f"{name}={value}" for name, value in subject.environment().items() if name in VARIABLES]
    valgrind, program = command_of(runner, row, ops, caches)
    result = runner.object(["env", "-i", STILL, *kept, *valgrind, f"--callgrind-out-file={file}", *program], subject)
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:
            parser = callgrind.read(lines)
        own = callgrind.Own(subject.objects, subject.has_unnamed_code)
        found = callgrind.events_of(parser, own)
        roles = callgrind.roles_of(parser, own)
    except (OSError, ValueError, callgrind.FormatError) as error:
        raise Broken(f"callgrind on {subject.name}, {row}: {error}") from None
    sums = {
        name: sum(found.get(event, 0) for event in events)
        for name, events in EVENTS.items()
        if caches or name not in NEED_CACHES
    }
    return result["ops"] + result["warm_ops"], {**sums, **roles}


def per_pair(short, long):
    """Events per pair, from (pairs, counts) of two run lengths."""
    pairs = long[0] - short[0]
    if pairs <= 0:
        raise Broken("the longer run did no more pairs than the shorter one")
    return {name: (long[1][name] - short[1][name]) / pairs for name in short[1]}


def measure(runner, subjects, rows, ops, caches=None):
    """({row: {allocator: {event: figure}}}, {allocator: why it is left out}). Some mallocs do not run under valgrind; a
    failure of ours is Broken. caches: the rows that need loads, stores and misses; None: every row."""
    if shutil.which("valgrind") is None:
        raise Broken("valgrind is not installed: run ci/setup --bench")
    lengths = {row: (length(runner, row, ops), length(runner, row, ops) * LONGER) for row in rows}
    jobs = [(subject, row, one) for row in rows for subject in subjects for one in lengths[row]]
    workers = min(4, len(os.sched_getaffinity(0)))
    found, left_out = {}, {}
    with tempfile.TemporaryDirectory(prefix="hakmem-bench.") as folder, concurrent.futures.ThreadPoolExecutor(
        workers
    ) as pool:
        futures = {job: pool.submit(totals, runner, *job, folder, caches is None or job[1] in caches) for job in jobs}
        for (subject, row, one), future in futures.items():
            try:
                found[subject.name, row, one] = future.result()
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
        row: {name: per_pair(*(found[name, row, one] for one in lengths[row])) for name in names} for row in rows
    }, left_out


def missed(figures, entry):
    """Counts above their targets, as text. Compared in hundredths, as the table shows them."""
    return [
        f"{event} {figures[event]:.2f}, target at most {most:g}"
        for event, most in entry.get("target", {}).items()
        if round(figures[event], 2) > most
    ]


def slack(row, event, recorded):
    """How far a count may be above the recorded one; None if it is not compared."""
    if split(row)[1] == 1 and not row.startswith("bulk-"):
        return SLACK.get(event)
    return max(SLACK.get(event, 1.0), SLACK_SHARE * recorded) if event in SLACK or event in ROLES else None


def grown(row, figures, entry):
    """Counts above the recorded ones by more than the tolerance, as text."""
    found = []
    for event, recorded in entry.get("recorded", {}).items():
        most = slack(row, event, recorded)
        if most is not None and figures[event] > recorded + most:
            found.append(f"{event} {figures[event]:.2f}, recorded {recorded:.2f} (slack {most:.2g})")
    return found


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
            lines.append([row, name, *(events.get(event) for event in (*EVENTS, *ROLES)), verdict])
    header = ["row", "malloc", "instructions", "branches", "mispredicted", "loads+stores", "L1 misses"]
    table = format_table([*header, *(f"in {role}" for role in ROLES), "target"], lines, left=2, last_left=True)
    return (
        "Events for a malloc and a free, in the malloc's own code; ROW/THREADS takes turns; in malloc, in free, in drain: "
        f"instructions with all that they call:\n{table}"
    )


def update(figures):
    """Records the counts of our own build."""
    document = json.loads(FILE.read_text(encoding="utf-8"))
    for row, events in figures.items():
        if row not in document["rows"]:
            continue  # a million blocks: too long for every run
        recorded = {name: round(value, 3) + 0.0 for name, value in events.items()}
        document["rows"][row]["recorded"] = recorded
    rows = ",\n".join(f"    {json.dumps(row)}: {json.dumps(entry)}" for row, entry in document["rows"].items())
    text = f'{{\n  "about": {json.dumps(document["about"])},\n  "rows": {{\n{rows}\n  }}\n}}\n'  # a row a line
    FILE.write_text(text, encoding="utf-8")


def run(runner, subjects, options, rows):
    ops = options.ops or OPS
    say(f"counts: {len(rows)} rows, {len(subjects)} mallocs, {ops} and {ops * LONGER} pairs a thread under callgrind")
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
