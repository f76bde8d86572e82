"""Counts system calls for memory per million pairs in the steady state, and in rows of large blocks page faults too:
the difference between the timed parts of two runs, one longer than the other."""

import pathlib
import shutil
import tempfile

from measure import strace
from measure.fault import Broken
from measure.options import say
from measure.table import format_table

OPS = 500000  # pairs of the shorter run; the other is three times as long
FEWER_OPS = {"huge-2-32m": 10000}  # its pairs take longer
LONGER = 3
WARM_UP = {"large-32k-2m": 3}  # this many times as long, because its longest swings are rare
FAULTS = ("mid-8-32k", "huge-2-32m")  # rows that write whole blocks; one thread, so that no stack is new
FAULTS_MOST = 0.01  # for a pair: now and then a block reaches further into its mapping than any before
LEFT_OUT = ("all-remote", "mstress")  # their live sets grow and shrink as threads take turns


def known_rows(runner):
    return [name for name in runner.rows if name not in LEFT_OUT]


usual_rows = known_rows


def totals(runner, subject, row, ops):
    """(pairs, {call or "faults": number}) for one run with the row's own number of threads."""
    with tempfile.TemporaryDirectory(prefix="hakmem-bench.") as folder:
        result = runner.object(
            [
                "strace",
                "-ff",
                "-ttt",
                "-qq",
                "-o",
                f"{folder}/log",
                "-e",
                f"trace={','.join(strace.CALLS)},prctl",
                *runner.row_command(row, runner.rows[row]["threads"], ops),
            ],
            subject,
        )
        try:
            logs = [path.read_text(errors="replace").splitlines() for path in sorted(pathlib.Path(folder).iterdir())]
            return result["ops"], {**strace.count(logs), "faults": result["faults"] if row in FAULTS else 0}
        except (OSError, ValueError, strace.FormatError) as error:
            raise Broken(f"strace on {subject.name}, {row}: {error}") from None


def per_million(short, long):
    """Calls and faults per million pairs, from (pairs, calls) of two run lengths."""
    pairs = long[0] - short[0]
    return {what: (long[1][what] - short[1][what]) * 1e6 / pairs for what in short[1]}


def total(figures):
    """The sum of the differences above zero: a call that the longer run happens to save does not make up for
    another."""
    return sum(max(0, figures[call]) for call in strace.CALLS)


def faults_a_pair(figures):
    return max(0, figures["faults"]) / 1e6


def show(figures, names, ours):
    lines = []
    for row, of_row in figures.items():
        line = [row, *(total(of_row[name]) for name in names)]
        line += [
            "; ".join(f"{call} {of_row[name][call]:.2f}" for call in strace.CALLS if of_row[name][call] > 0) or "none"
            for name in ours
        ]
        lines.append(line)
    table = format_table(["row", *names, *(f"{name}, target none" for name in ours)], lines)
    text = f"Calls of {', '.join(strace.CALLS)} in a million pairs of malloc and free:\n{table}"
    faults = [[row, *(faults_a_pair(figures[row][name]) for name in names)] for row in figures if row in FAULTS]
    if not faults:
        return text
    table = format_table(["row", *names], faults)
    return f"{text}\n\nPage faults for a pair, target for ours at most {FAULTS_MOST:g}:\n{table}"


def run(runner, subjects, options, rows):
    if shutil.which("strace") is None:
        raise Broken("strace is not installed: run ci/setup --bench")
    ops = {row: options.ops or FEWER_OPS.get(row, OPS) for row in rows}
    say(
        f"syscalls: {len(rows)} rows, {len(subjects)} mallocs, "
        f"{', '.join(f'{few} and {few * LONGER}' for few in sorted(set(ops.values())))} pairs under strace"
    )
    figures = {
        row: {
            subject.name: per_million(
                *(totals(runner, subject, row, length * ops[row] * WARM_UP.get(row, 1)) for length in (1, LONGER))
            )
            for subject in subjects
        }
        for row in rows
    }
    names = [subject.name for subject in subjects]
    ours = [subject.name for subject in subjects if subject.ours]
    faults = [
        f"{name}, {row}: {total(figures[row][name]):.2f} calls in a million pairs, target 0"
        for row in rows
        for name in ours
        if total(figures[row][name]) > 0
    ]
    faults += [
        f"{name}, {row}: {faults_a_pair(figures[row][name]):.3f} page faults a pair, target {FAULTS_MOST:g}"
        for row in rows
        for name in ours
        if faults_a_pair(figures[row][name]) > FAULTS_MOST
    ]
    return {"ops": ops, "figures": figures}, show(figures, names, ours), faults if ours else None
