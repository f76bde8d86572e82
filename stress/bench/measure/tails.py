"""Times of single calls of malloc and free: what hakmem-stress measures in runs without checks, rounds interleaved."""

import json
import statistics

from measure import ratios
from measure.fault import BadInput, Broken
from measure.options import say
from measure.runner import leave_out
from measure.table import format_table

ROUNDS = 3
SECONDS = 1
THREADS = [2]
ROWS = {"mixed": "random-mixed", "larson": "larson", "remote-free": "remote-free"}
CALLS = ("malloc", "free")
POINTS = {"p50": "p50", "p99": "p99", "p999": "p99.9", "p9999": "p99.99", "max": "worst"}
JUDGED = "p9999"
FIELD_MIN = 10000  # timed calls in a run; with fewer, p99.99 is the worst call


def known_rows(_runner):
    return list(ROWS)


usual_rows = known_rows


def attempt(runner, subject, case, seconds, number):
    """One run. A malloc that is not ours and does not survive it is left out of the case."""
    if subject.name in case["failed"]:
        return
    stress = runner.program.parent / "hakmem-stress"
    if not stress.is_file():
        raise BadInput(f"there is no {stress}: build it, or leave out --build")
    command = [str(stress), ROWS[case["row"]], "--allocator", subject.path or "system", "--no-check", "--latency"]
    command += ["--threads", str(case["threads"]), "--seconds", str(seconds), "--seed", str(number), "--json", "-"]
    try:
        said, record = runner.execute(command, None)
        latency = json.loads(said[said.index("{") :])["latency_ns"]
    except Broken as fault:
        leave_out(case, subject, case["row"], fault, case["ns"])
        return
    except (ValueError, KeyError):
        raise Broken(f"no latencies from: {' '.join(command)}") from None
    found = {call: latency[call] for call in CALLS}
    runner.runs.append({**record, "allocator": subject.name, "round": number, "result": found})
    for call in CALLS:
        if found[call]["count"] < FIELD_MIN:
            say(f"tails: {subject.name}, {case['row']}: {call} was timed {found[call]['count']} times only")
    case["ns"][subject.name].append(found)


def median(case, name, call, point):
    """Of the rounds, in ns; "failed" if the malloc did not survive the case."""
    if name not in case["ns"]:
        return "failed"
    return int(statistics.median(one[call][point] for one in case["ns"][name]))


def judge(case, name, others, call):
    """The best other's p99.99 by ours within a round."""
    times = {other: [max(1, one[call][JUDGED]) for one in case["ns"][other]] for other in others if other in case["ns"]}
    best = ratios.best(times)
    ours = [max(1, one[call][JUDGED]) for one in case["ns"][name]]
    return {"best": best, **ratios.compare(times[best], ours)} if best else None


def show(cases, names, judged):
    lines = []
    for case in cases:
        for call in CALLS:
            for name in names:
                line = [
                    case["row"],
                    case["threads"],
                    call,
                    name,
                    *(median(case, name, call, point) for point in POINTS),
                ]
                one = judged.get((case["row"], case["threads"], call, name))
                line.append(f"{one['median']:.2f} ({one['low']:.2f}-{one['high']:.2f}) {one['best']}" if one else "")
                lines.append(line)
    header = ["row", "threads", "call", "malloc", *POINTS.values(), "best other's p99.99 by ours"]
    return "Nanoseconds of a single call, medians of the rounds; one call in 61 is timed:\n" + format_table(
        header, lines
    )


def run(runner, subjects, options, rows):
    rounds = options.rounds or ROUNDS
    cases = [
        {"row": row, "threads": threads, "ns": {subject.name: [] for subject in subjects}, "failed": {}}
        for row in rows
        for threads in options.threads or THREADS
    ]
    for number in range(1, rounds + 1):
        say(f"tails: round {number} of {rounds}, {len(cases)} cases of {len(subjects)} mallocs")
        for case in cases:
            turn = number % len(subjects)
            for subject in subjects[turn:] + subjects[:turn]:
                attempt(runner, subject, case, SECONDS, number)
    names = [subject.name for subject in subjects]
    ours = [subject.name for subject in subjects if subject.ours]
    others = [name for name in names if name not in ours]
    judged = {
        (case["row"], case["threads"], call, name): judge(case, name, others, call)
        for case in cases
        for call in CALLS
        for name in ours
    }
    data = {
        "rounds": rounds,
        "cases": cases,
        "judged": [dict(zip(("row", "threads", "call", "allocator"), key), ratio=one) for key, one in judged.items()],
    }
    return data, show(cases, names, judged), None
