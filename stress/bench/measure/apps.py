"""Real programs, each preloaded with each malloc in turn: time, memory, page faults, and tails of servers. Every figure is
compared with libc's malloc within a round."""

import pathlib
import platform
import statistics
import tempfile

from measure import process, programs, ratios
from measure.fault import BadInput, Broken
from measure.options import say
from measure.runner import leave_out
from measure.subjects import SYSTEM
from measure.table import format_table

ROUNDS = 3
METRICS = {
    "seconds": "time from start to end; of a server: of all requests of its client",
    "cpu_seconds": "processor time, user and system",
    "peak_kib": "peak resident memory",
    "end_kib": "resident memory at the end; of a server: a second after everything was deleted",
    "faults": "minor page faults",
    "p99_ms": "latency of a request, 99th percentile",
    "p999_ms": "latency of a request, 99.9th percentile",
}


def known_rows(_runner):
    return [program.name for program in programs.programs()]


def usual_rows(_runner):
    """The programs that are installed. The others are printed."""
    every = programs.programs()
    absent = [program.name for program in every if programs.missing(program)]
    if absent:
        say(f"apps: skipped {len(absent)} programs that are not installed (ci/setup --apps): {', '.join(absent)}")
    return [program.name for program in every if program.name not in absent]


def choose(rows):
    found = [program for program in programs.programs() if program.name in rows]
    for program in found:
        if programs.missing(program):
            raise BadInput(f"--rows {program.name}: {programs.missing(program)} is not installed: ci/setup --apps")
    return found


def prepare(found, folder):
    """Makes the inputs; programs that share a function share a folder. Returns {program: folder}."""
    folders, made = {}, {}
    for program in found:
        if program.prepare not in made or program.server:
            place = folder / f"{len(folders)}"
            place.mkdir()
            if program.prepare:
                say(f"apps: making the input of {program.name}")
                program.prepare(place)
            made[program.prepare] = place
        folders[program.name] = made[program.prepare]
    return folders


def variables(subject, program):
    """For libc's malloc libc itself is preloaded: Debian's redis-server is linked with jemalloc, which would come first."""
    libc = {"LD_PRELOAD": "libc.so.6"} if not subject.path and platform.libc_ver()[0] == "glibc" else {}
    return {**libc, **program.environment}


def attempt(runner, case, program, subject, folder, number):
    """One run. A malloc that is not ours and does not survive is left out of the case."""
    if subject.name in case["failed"]:
        return
    command = program.words(folder)
    added = variables(subject, program)
    try:
        result = process.run(
            command, {**subject.environment(), **added}, subject.path, folder, program.stdin, program.server
        )
    except Broken as fault:
        if subject.ours:
            fault = Broken(f"{program.name} on {subject.name}: {fault}")
        leave_out(case, subject, program.name, fault, case["runs"])
        return
    case["runs"][subject.name].append(result)
    settings = [f"{name}={value}" for name, value in added.items()]
    runner.runs.append(
        {
            "allocator": subject.name,
            "round": number,
            "command": " ".join([*subject.command_prefix(), *settings, *command]),
            "result": result,
        }
    )


def measure(runner, subjects, found, rounds):
    """[{"program", "what", "runs": {allocator: [result of each round]}, "failed": {allocator: why}}]"""
    cases = [
        {
            "program": program.name,
            "what": program.what,
            "runs": {subject.name: [] for subject in subjects},
            "failed": {},
        }
        for program in found
    ]
    with tempfile.TemporaryDirectory(prefix="hakmem-apps.") as name:
        folders = prepare(found, pathlib.Path(name))
        for number in range(1, rounds + 1):
            say(f"apps: round {number} of {rounds}, {len(found)} programs of {len(subjects)} mallocs")
            for case, program in zip(cases, found):
                turn = number % len(subjects)  # nobody is always first
                for subject in subjects[turn:] + subjects[:turn]:
                    attempt(runner, case, program, subject, folders[program.name], number)
    return cases


def values(case, name, metric):
    """The figure of each round; None where there is none."""
    found = [run[metric] for run in case["runs"].get(name, []) if metric in run]
    return found or None


def compare(case, name, base, metric):
    """{"low", "median", "high"} of the ratio to the base, within a round; None where a figure lacks."""
    mine, theirs = values(case, name, metric), values(case, base, metric)
    if not mine or not theirs or min(theirs) <= 0:
        return None
    low, median, high = ratios.quartiles([one / other for one, other in zip(mine, theirs)])
    return {"low": low, "median": median, "high": high}


def judge(cases, names, base):
    """{metric: {program: {allocator: ratio}}}, and {metric: {allocator: geometric mean}}"""
    judged = {
        metric: {
            case["program"]: {name: compare(case, name, base, metric) for name in names if name != base}
            for case in cases
        }
        for metric in METRICS
    }
    means = {}
    for metric, of_metric in judged.items():
        means[metric] = {}
        for name in names:
            medians = [of_case[name]["median"] for of_case in of_metric.values() if of_case.get(name)]
            if medians and min(medians) > 0:
                means[metric][name] = ratios.geometric_mean(medians)
    return judged, means


def figure(case, base, metric):
    found = values(case, base, metric)
    if not found:
        return "failed" if base in case["failed"] else None
    median = statistics.median(found)
    return median / 1024 if metric.endswith("_kib") else float(median) if metric != "faults" else int(median)


def cell(ratio):
    return f"{ratio['median']:.2f} ({ratio['low']:.2f}-{ratio['high']:.2f})" if ratio else "-"


def show_metric(metric, cases, judged, means, names, base):
    others = [name for name in names if name != base]
    unit = {"seconds": "s", "cpu_seconds": "s", "faults": "number"}.get(
        metric, "MiB" if metric.endswith("_kib") else "ms"
    )
    lines = [
        [case["program"], figure(case, base, metric), *(cell(judged[metric][case["program"]][name]) for name in others)]
        for case in cases
        if values(case, base, metric)
    ]
    if not lines:
        return ""
    lines.append(
        ["geometric mean", None, *(f"{means[metric][name]:.2f}" if name in means[metric] else "-" for name in others)]
    )
    header = ["program", f"{base}, {unit}", *others]
    return f"{metric}: {METRICS[metric]}\n" + format_table(header, lines)


def run(runner, subjects, options, rows):
    names = [subject.name for subject in subjects]
    base = SYSTEM if SYSTEM in names else names[0]
    rounds = options.rounds or ROUNDS
    cases = measure(runner, subjects, choose(rows), rounds)
    judged, means = judge(cases, names, base)
    tables = [show_metric(metric, cases, judged, means, names, base) for metric in METRICS]
    text = (
        f"{rounds} rounds. The figure of {base}, and of each other malloc the ratio to it within a round: median "
        "(quartiles), below 1 is less.\n\n" + "\n\n".join(filter(None, tables))
    )
    data = {"rounds": rounds, "base": base, "cases": cases, "judged": judged, "means": means}
    return data, text, None
