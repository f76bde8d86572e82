"""Counts system calls for memory per million pairs in the steady state: the difference between the timed parts of two
runs, one longer than the other."""

import pathlib
import shutil
import tempfile

from measure import strace
from measure.fault import Broken
from measure.options import say
from measure.table import format_table

OPS = 500000  # pairs of the shorter run; the other is three times as long
LONGER = 3
WARM_UP = {"large-32k-2m": 3}  # this many times as long, because its longest swings are rare
LEFT_OUT = ("all-remote", "mstress")  # their live sets grow and shrink as threads take turns


def known_rows(runner):
    return [name for name in runner.rows if name not in LEFT_OUT]


usual_rows = known_rows


def totals(runner, subject, row, ops):
    """(pairs, {call: number}) for one run with the row's own number of threads."""
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
            return result["ops"], strace.count(logs)
        except (OSError, ValueError, strace.FormatError) as error:
            raise Broken(f"strace on {subject.name}, {row}: {error}") from None


def per_million(short, long):
    """Calls per million pairs, from (pairs, calls) of two run lengths."""
    pairs = long[0] - short[0]
    return {call: (long[1][call] - short[1][call]) * 1e6 / pairs for call in strace.CALLS}


def total(figures):
    """The sum of the differences above zero: a call that the longer run happens to save does not make up for
    another."""
    return sum(max(0, figure) for figure in figures.values())


def show(figures, names, ours):
    lines = []
    for row, of_row in figures.items():
        line = [row, *(total(of_row[name]) for name in names)]
        line += [
            "; ".join(f"{call} {figure:.2f}" for call, figure in of_row[name].items() if figure > 0) or "none"
            for name in ours
        ]
        lines.append(line)
    table = format_table(["row", *names, *(f"{name}, target none" for name in ours)], lines)
    return f"Calls of {', '.join(strace.CALLS)} in a million pairs of malloc and free:\n{table}"


def run(runner, subjects, options, rows):
    if shutil.which("strace") is None:
        raise Broken("strace is not installed: run ci/setup --bench")
    ops = options.ops or OPS
    say(f"syscalls: {len(rows)} rows, {len(subjects)} mallocs, {ops} and {ops * LONGER} pairs under strace")
    figures = {
        row: {
            subject.name: per_million(
                *(totals(runner, subject, row, length * WARM_UP.get(row, 1)) for length in (ops, ops * LONGER))
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
    return {"ops": [ops, ops * LONGER], "figures": figures}, show(figures, names, ours), faults if ours else None
