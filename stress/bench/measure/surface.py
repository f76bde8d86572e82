"""The whole surface: every pattern of calls at every size with some threads (hakmem-bench cell), each cell beside every
malloc, and the cells where ours is furthest behind the best other. A killed run continues where it was."""

import hashlib
import json
import pathlib
import shutil
import statistics
import tempfile
import time

from measure import strace
from measure.fault import BadInput, Broken
from measure.options import say
from measure.table import format_table

WORST_SHOWN = 20
WHOLE_MS, QUICK_MS, STRACE_MS = 40, 10, 5  # of a run; strace makes a system call a hundred times as dear
# Name: (title, unit, what is added to both sides of a ratio: below that a difference means nothing). Of faults and system
# calls it is a number for the whole cell.
METRICS = {
    "cpu_ns": ("processor time", "ns a pair", 10),
    "wall_ns": ("wall clock", "ns a pair", 10),
    "peak_kib": ("peak memory", "KiB", 2048),
    "last_kib": ("last memory", "KiB", 2048),
    "faults": ("page faults", "a pair", 64),
    "system_calls": ("system calls for memory", "a pair", 16),
    "worst_ns": ("worst single call", "ns", 20000),
}
# The other two depend on what else the machine does.
STEADY = ("cpu_ns", "peak_kib", "last_kib", "faults", "system_calls")


def size_name(size):
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def cell_name(cell):
    return f"{cell[0]}/{size_name(cell[1])}/{cell[2]}"


def parse_cell(text):
    """PATTERN/SIZE/THREADS, as in cell_name. hakmem-bench checks whether there is such a cell."""
    pattern, *numbers = text.split("/")
    try:
        size, threads = numbers
        unit = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
        return pattern, int(size if unit == 1 else size[:-1]) * unit, int(threads)
    except ValueError:
        raise BadInput(f"--cell {text}: must be PATTERN/SIZE/THREADS, such as replace/300K/1") from None


def cell_command(runner, cell, span_ms):
    command = [str(runner.program), "cell", cell[0], "--size", str(cell[1]), "--threads", str(cell[2])]
    return [*command, "--span-ms", str(span_ms)]


def known_rows(runner):
    return list(dict.fromkeys(pattern for pattern, _, _ in runner.cells["whole"]))


usual_rows = known_rows


def chosen_cells(runner, options, rows):
    if options.cells:
        cells = [parse_cell(text) for text in options.cells]
        for text, cell in zip(options.cells, cells):
            try:
                runner.execute(cell_command(runner, cell, 1), None)
            except Broken as error:
                raise BadInput(f"--cell {text}: {error}") from None
        return cells
    grid = runner.cells["quick" if options.quick else "whole"]
    found = [tuple(cell) for cell in grid if cell[0] in rows and (not options.threads or cell[2] in options.threads)]
    if not found:
        raise BadInput("--rows, --threads: there is no such cell")
    return found


def stem(options):
    """Of the files of results. A part of the grid does not replace those of the whole grid."""
    part = options.cells or options.rows or options.threads
    return "surface-part" if part else "surface-quick" if options.quick else "surface"


def worst_call(result):
    return max(result["worst_malloc_ns"], result["worst_free_ns"])


def system_calls(runner, subject, command):
    """Calls for memory a pair, in the timed part."""
    with tempfile.TemporaryDirectory(prefix="hakmem-bench.") as folder:
        tracer = ["strace", "-ff", "--seccomp-bpf", "-ttt", "-qq", "-o", f"{folder}/log"]
        traced = ["-e", f"trace={','.join(strace.CALLS)},prctl"]
        result = runner.object([*tracer, *traced, *command], subject)
        try:
            logs = [path.read_text(errors="replace").splitlines() for path in pathlib.Path(folder).iterdir()]
            return sum(strace.count(logs).values()) / result["pairs"]
        except (OSError, ValueError, strace.FormatError) as error:
            raise Broken(f"strace: {error}") from None


def measure(runner, subjects, cell, rounds, span_ms):
    """{"cell", "pairs", "figures": {malloc: {metric: number}}, "failed": {malloc: why}}. Mallocs take turns, and another
    one begins each round."""
    command = cell_command(runner, cell, span_ms)
    runs = {subject.name: {metric: [] for metric in METRICS} for subject in subjects}
    found = {"cell": cell, "pairs": 0, "figures": {}, "failed": {}}
    kept = len(runner.runs)
    for number in range(rounds):
        turn = number % len(subjects)
        for subject in subjects[turn:] + subjects[:turn]:
            if subject.name in found["failed"]:
                continue
            try:
                result = runner.object(command, subject)
                result["worst_ns"] = worst_call(runner.object([*command, "--calls"], subject))
                if number == 0:
                    result["system_calls"] = system_calls(runner, subject, cell_command(runner, cell, STRACE_MS))
            except Broken as error:
                # Ours too: a cell that it does not survive ends no run of hours. The verdict has it.
                say(f"{subject.name} is out of {cell_name(cell)}: {error}")
                found["failed"][subject.name] = str(error)
                continue
            found["pairs"] = result["pairs"]
            for metric in set(METRICS) & set(result):
                runs[subject.name][metric].append(result[metric])
    del runner.runs[kept:]  # thousands, and each follows from the cell's name
    # The least of the worst calls: the others were interrupted.
    found["figures"] = {
        name: {metric: min(got) if metric == "worst_ns" else statistics.median(got) for metric, got in of_name.items()}
        for name, of_name in runs.items()
        if name not in found["failed"]
    }
    return found


def identity(runner, subjects, cells, rounds):
    """What a run is of. Another one must not continue it."""
    files = [runner.program, *(pathlib.Path(path) for subject in subjects for path in sorted(subject.objects))]
    sums = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    names = [subject.name for subject in subjects]
    return {"mallocs": names, "sha256": sums, "cells": [cell_name(cell) for cell in cells], "rounds": rounds}


def resumed(journal, about):
    """{cell: what was found} of a run that did not end; begins the journal if there is no such run."""
    lines = []
    try:
        for line in journal.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):  # the last one may be torn
                lines.append(json.loads(line))
    except (OSError, ValueError):
        pass
    if not lines or lines[0] != about:
        if lines:
            say(f"surface: {journal} is of other mallocs, cells or rounds: kept as {journal.name}.old, beginning again")
            journal.replace(f"{journal}.old")
        lines = [about]
    # Written again, without a torn line.
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return {tuple(found["cell"]): found for found in lines[1:]}


def measure_all(runner, subjects, cells, rounds, span_ms, journal):
    """The cells in order, as from measure(). The journal gets each at once, and goes when all are there."""
    done = resumed(journal, identity(runner, subjects, cells, rounds))
    left = [cell for cell in cells if cell not in done]
    if len(left) < len(cells):
        say(f"surface: continuing: {len(cells) - len(left)} of {len(cells)} cells are in {journal}")
    began = said = time.monotonic()
    for number, cell in enumerate(left):
        now = time.monotonic()
        if number and now - said >= 30:
            said = now
            minutes = (now - began) / number * (len(left) - number) / 60
            say(f"surface: {len(cells) - len(left) + number} of {len(cells)} cells, about {minutes:.0f} minutes left")
        done[cell] = measure(runner, subjects, cell, rounds, span_ms)
        with journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps(done[cell]) + "\n")
    journal.unlink()
    return [done[cell] for cell in cells]


def judged_name(subjects, options):
    """The malloc that the map is of: one that was given by its path, ours, or the first."""
    names = [subject.name for subject in subjects]
    by_path = [text.partition("=")[0] for text in options.allocators if "=" in text]
    return by_path[0] if by_path else "hakmem" if "hakmem" in names else names[0]


def ratios_of(found, judged):
    """{metric: (ratio to the best other, its name)}"""
    ratios = {}
    others = {name: figures for name, figures in found["figures"].items() if name != judged}
    if judged not in found["figures"] or not others:
        return ratios
    for metric, (_, _, slack) in METRICS.items():
        if metric in ("faults", "system_calls"):
            slack = max(slack / found["pairs"], 0.01)
        best = min(others, key=lambda name: others[name][metric])
        ratio = (found["figures"][judged][metric] + slack) / (others[best][metric] + slack)
        ratios[metric] = (ratio, best)
    return ratios


def worst_cells(cells, judged):
    """[(ratio, metric, best, found)]: each cell with its worst steady measure, the worst first."""
    found = []
    for cell in cells:
        ratios = ratios_of(cell, judged)
        steady = [(ratios[metric][0], metric, ratios[metric][1]) for metric in STEADY if metric in ratios]
        if steady:
            found.append((*max(steady), cell))
    return sorted(found, key=lambda one: one[0], reverse=True)


def show_cell(found, judged):
    ratios = ratios_of(found, judged)
    lines = [
        [f"{title}, {unit}", *(float(figures[metric]) for figures in found["figures"].values())]
        + ([f"{ratios[metric][0]:.2f}"] if ratios else [])
        for metric, (title, unit, _) in METRICS.items()
    ]
    header = [cell_name(found["cell"]), *found["figures"], *([f"{judged} by the best other"] if ratios else [])]
    return format_table(header, lines)


def show_worst(cells, judged):
    lines = []
    for ratio, metric, best, found in worst_cells(cells, judged)[:WORST_SHOWN]:
        figures = [float(found["figures"][name][metric]) for name in (judged, best)]
        title, unit, _ = METRICS[metric]
        others = {other: one[0] for other, one in ratios_of(found, judged).items() if other != metric and one[0] >= 2}
        also = ", ".join(f"{METRICS[other][0]} {one:.1f}" for other, one in others.items())
        cell = f"--cell {cell_name(found['cell'])}"
        lines.append([cell, f"{title}, {unit}", f"{ratio:.1f}", *figures, best, also])
    header = ["ci/bench surface", "worst in", "ratio", judged, "best other", "", "also above 2"]
    return f"The worst cells of {judged}:\n" + format_table(header, lines, left=2, last_left=True)


def run(runner, subjects, options, rows):
    if shutil.which("strace") is None:
        raise Broken("strace is not installed: run ci/setup --bench")
    cells, rounds = chosen_cells(runner, options, rows), options.rounds or (1 if options.quick else 3)
    judged = judged_name(subjects, options)
    say(f"surface: {len(cells)} cells, {len(subjects)} mallocs, rounds: {rounds}")
    span_ms = QUICK_MS if options.quick else WHOLE_MS
    found = measure_all(runner, subjects, cells, rounds, span_ms, options.out / f"{stem(options)}.jsonl")
    texts = [show_cell(one, judged) for one in found] if options.cells else []
    if len(subjects) > 1 and not options.cells:
        texts.append(show_worst(found, judged))
    failed = [(name, f"{name} failed in {cell_name(one['cell'])}") for one in found for name in one["failed"]]
    texts += [line for name, line in failed if name != judged]
    faults = [line for name, line in failed if name == judged]
    data = {"judged": judged, "date": time.strftime("%Y-%m-%d"), "rounds": rounds, "cells": found}
    return data, "\n".join(texts), faults or None
