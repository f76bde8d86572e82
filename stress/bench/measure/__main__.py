"""Runs the groups of ci/bench, one after another. Exit status: 0; 1 if a target is missed or a run failed; 2 for bad
input."""

import json
import pathlib
import sys

# Run as a folder, so the package itself is not in the path.
sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from measure import (
    against,
    apps,
    contention,
    counts,
    figures,
    machine,
    rss,
    scale,
    subjects,
    surface,
    syscalls,
    tails,
    times,
)
from measure.fault import BadInput, Broken
from measure.options import ROOT, parse
from measure.runner import Runner

MODULES = {
    "counts": counts,
    "times": times,
    "rss": rss,
    "scale": scale,
    "syscalls": syscalls,
    "apps": apps,
    "tails": tails,
    "surface": surface,
    "contention": contention,
}


def rows_of(options, runner):
    """{group: rows}. With several groups, a row applies to those groups that know it."""
    modules = {group: MODULES[group] for group in options.groups}
    known = {group: module.known_rows(runner) for group, module in modules.items()}
    every = list(dict.fromkeys(row for rows in known.values() for row in rows))
    for row in options.rows:
        if row not in every:
            raise BadInput(f"--rows: {', '.join(modules)} has no row '{row}'; there are {', '.join(every)}")
    chosen = {}
    for group, module in modules.items():
        usual = times.GATE_ROWS if options.gate else module.usual_rows(runner)
        wanted = [row for row in options.rows if row in known[group]] if options.rows else usual
        if wanted:
            chosen[group] = wanted
    if options.threads:
        for group in ("times", "scale"):
            if group in chosen:
                times.cases(runner, chosen[group], options.threads)
    return chosen


def shown_path(path):
    path = path.resolve()
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def run_group(group, rows, runner, chosen, options, about):
    """Runs one group and prints its table; returns (results, faults or None)."""
    before, first = machine.moment(), len(runner.runs)
    try:
        data, text, faults = MODULES[group].run(runner, chosen, options, rows)
        print(f"\n{text}", flush=True)
    except Broken as error:
        data, faults = None, [str(error)]
    results = {
        "group": group,
        **about,
        "before": before,
        "after": machine.moment(),
        "data": data,
        "faults": faults,
        "runs": runner.runs[first:],
    }
    stem = surface.stem(options) if group == "surface" else group
    file = options.out / f"{stem}.json"
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    written = [file]
    if data is not None and figures.draw(group, data, options.out / f"{stem}.svg"):
        written.append(options.out / f"{stem}.svg")
    return results, faults, written


def verdict(faults_of, written):
    """Prints the last lines, and returns the exit status."""
    print(f"\nresults: {' '.join(str(shown_path(path)) for path in written)}")
    judged = {group: faults for group, faults in faults_of.items() if faults is not None}
    for group, faults in judged.items():
        for fault in faults:
            print(f"missed: {group}: {fault}")
    if any(judged.values()):
        print(f"FAIL: {', '.join(group for group, faults in judged.items() if faults)}")
        return 1
    if judged:
        print(f"PASS: {', '.join(judged)}")
    return 0


def main(arguments):
    options = parse(arguments)
    named = subjects.check_names(options.allocators, options.build)
    if options.update and named and "hakmem" not in [name for name, _ in named]:
        raise BadInput("--update records hakmem: name it too, or leave out --allocator")
    if options.against:
        against.full_name(options.against)
    if options.only_check_options:
        return 0
    runner = Runner(options.build)
    is_loaded = options.groups == ["contention"]  # by the program itself: nothing is preloaded
    chosen = (contention if is_loaded else subjects).choose(options.allocators, options.build)
    rows = rows_of(options, runner)
    if options.against:
        chosen.append(against.subject(options.against))
    if not is_loaded:
        for subject in chosen:
            subjects.prove(subject, runner.program)
        subjects.say_absent(options.allocators, options.build)  # not before: a refusal is one line
    options.out.mkdir(parents=True, exist_ok=True)
    about = {
        "machine": machine.describe(),
        "allocators": {
            subject.name: {"path": subject.path, "libraries": sorted(subject.objects)} for subject in chosen
        },
    }
    print(
        f"{about['machine']['cpu']}, {about['machine']['cpus']} cores; "
        + ", ".join(f"{subject.name} {sorted(subject.objects)[0]}" for subject in chosen),
        flush=True,
    )
    everything, faults_of, written = [], {}, []
    for group, of_group in rows.items():
        results, faults_of[group], files = run_group(group, of_group, runner, chosen, options, about)
        everything.append(results)
        written += files
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
        written.append(options.json)
    return verdict(faults_of, written)


try:
    sys.exit(main(sys.argv[1:]))
except BadInput as error:
    print(f"bench: {error} (see ci/bench --help)", file=sys.stderr)
    sys.exit(2)
except (Broken, OSError) as error:
    print(f"bench: {error}", file=sys.stderr)
    sys.exit(1)
except KeyboardInterrupt:
    sys.exit(130)
