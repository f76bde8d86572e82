"""How much memory a process keeps, in MiB, and the bounds for ours."""

from measure.options import say
from measure.subjects import SYSTEM, Subject
from measure.table import format_table

# Row: the moment that is judged, its description, and its bound.
ROWS = {
    "small-freed": ("later", "2 s after 256 MiB of small blocks were freed", "at most 16 MiB"),
    "small-freed-64th": ("later", "the same, each 64th block stays", "at most 140 MiB"),
    "larson-8": ("peak", "peak of larson with 8 threads", "at most 1.1 times tcmalloc's"),
    "larson-8-overlap": (
        "peak",
        "the same, each stays until its successor has done its part",
        "at most 2 times tcmalloc's",
    ),
    "tiny": ("end", "a C program with one block: the pages that it wrote", "at most 96 KiB above the system's"),
    "producer-consumer": ("peak", "peak, one thread allocates and one frees", "at most 2 times the live set"),
    "free-only": ("peak", "peak, one thread only frees", "at most 2 times the live set"),
}
# Row: the malloc that the bound refers to, how many times its memory, and KiB above that. 96 KiB for tiny are 24 pages:
# the library's variables and relocations take 9, the page map, the first superslab and the slab with their books 8.
COMPARED = {"larson-8": ("tcmalloc", 1.1, 0), "larson-8-overlap": ("tcmalloc", 2, 0), "tiny": (SYSTEM, 1, 96)}
FIXED_KIB = {"small-freed": 16 << 10, "small-freed-64th": 140 << 10}
LIVE_TIMES = 2


def known_rows(runner):
    return [row for row in runner.rss_rows if row in ROWS]


usual_rows = known_rows


def worst(runs, moment):
    return max(runs, key=lambda kib: kib[moment])


def bound_kib(row, figures, name):
    """The bound of a row for a malloc in KiB; None if the malloc that it refers to was not measured."""
    if row in FIXED_KIB:
        return FIXED_KIB[row]
    if row in COMPARED:
        other, times, more_kib = COMPARED[row]
        return figures[row][other][ROWS[row][0]] * times + more_kib if other in figures[row] else None
    return figures[row][name]["live"] * LIVE_TIMES


def judge(figures, ours):
    """(faults, what could not be judged), as text."""
    faults, open_ends = [], []
    for row, of_row in figures.items():
        for name in (name for name in ours if name in of_row):
            bound, kept = bound_kib(row, figures, name), of_row[name][ROWS[row][0]]
            if bound is None:
                open_ends.append(f"{name}, {row}: not judged, there is no {COMPARED[row][0]} here")
            elif kept > bound:
                faults.append(f"{name}, {row}: {kept / 1024:.2f} MiB, at most {bound / 1024:.2f}")
    return faults, open_ends


def show(figures, names, ours):
    lines = []
    for row, of_row in figures.items():
        moment, words, bound = ROWS[row]
        verdicts = []
        for name in ours:
            most = bound_kib(row, figures, name)
            verdicts.append("-" if most is None else "met" if of_row[name][moment] <= most else "missed")
        lines.append(
            [row, words, bound, *(of_row[name][moment] / 1024 if name in of_row else None for name in names), *verdicts]
        )
    table = format_table(
        ["row", "what", "bound for ours", *names, *(f"{name}'s bound" for name in ours)], lines, left=3
    )
    live = ", ".join(
        f"{row} {max(kib['live'] for kib in of_row.values()) / 1024:.0f} MiB"
        for row, of_row in figures.items()
        if row in ("producer-consumer", "free-only")
    )
    return "Resident memory in MiB:\n" + table + (f"\nlive set at its largest: {live}" if live else "")


def run(runner, subjects, options, rows):
    rounds = options.rounds or 1
    names = [subject.name for subject in subjects]
    figures = {}
    for row in rows:
        say(f"rss: {row}, {rounds} {'time' if rounds == 1 else 'times'}, {len(subjects)} mallocs")
        # The bound of `tiny` refers to libc, even if other mallocs were chosen.
        more = [Subject(SYSTEM)] if COMPARED.get(row, ("",))[0] == SYSTEM and SYSTEM not in names else []
        figures[row] = {
            subject.name: worst(
                [runner.memory(subject, row, round=number + 1) for number in range(rounds)], ROWS[row][0]
            )
            for subject in [*subjects, *more]
        }
    ours = [subject.name for subject in subjects if subject.ours]
    faults, open_ends = judge(figures, ours)
    text = "\n".join([show(figures, names, ours), *open_ends])
    return {"rounds": rounds, "figures": figures, "not_judged": open_ends}, text, faults if ours else None
