"""Wall-clock times, with rounds interleaved (A B C A B C ...), and the ratio of the best other malloc to ours."""

import statistics

from measure import against, ratios
from measure.fault import BadInput, Broken
from measure.options import say
from measure.runner import leave_out
from measure.table import format_table

ROUNDS = 5
GATE_ROWS = ["larson", "mixed-1024", "remote-free"]  # the loops of other people's benchmarks that users quote
GATE_ROUNDS = 9
GATE_THREADS = [1, 2, 4, 8]
THREADS = {
    "larson": [1, 2, 4, 8],
    "remote-free": [2, 4],
    "all-remote": [2, 4],
    "mstress": [2, 4],
    "rptest": [2, 4],
}
THREADS_USUAL = [1, 2]
# In some rows mallocs differ by a factor of twenty, and all do the same number of pairs. The fastest must run long
# enough to be timed, and the slowest must not run too long.
FASTEST_S, SLOWEST_S = 0.3, 1.2
TRIAL_S = 0.01


def known_rows(runner):
    return list(runner.rows)


def usual_rows(runner):
    """All but those of a million blocks, which take a gigabyte."""
    return [name for name, row in runner.rows.items() if not row["bulk"] or row["count"] < 10**6]


def thread_counts(runner, row, wanted):
    """Of the wanted numbers of threads, those that the row accepts."""
    counts = wanted or THREADS.get(row, [1] if runner.rows[row]["bulk"] else THREADS_USUAL)
    return [count for count in counts if count % runner.rows[row]["threads_step"] == 0]


def cases(runner, rows, wanted):
    found = [(row, count) for row in rows for count in thread_counts(runner, row, wanted)]
    if not found:
        raise BadInput(f"--threads: none of {', '.join(rows)} takes {', '.join(map(str, wanted))}")
    return found


def two_digits(number):
    """Rounded down to two digits."""
    unit = 10 ** max(0, len(str(int(number))) - 2)
    return int(number) // unit * unit


def attempt(runner, subject, case, ops, **more):
    """The result of a run. None if the malloc is not ours and does not survive the run; it is then left out of the
    case."""
    if subject.name in case["failed"]:
        return None
    try:
        return runner.time(subject, case["row"], case["threads"], ops, **more)
    except Broken as fault:
        leave_out(case, subject, f"{case['row']} with {case['threads']} threads", fault, case["ns"])
        return None


def calibrate(runner, subjects, case):
    """The number of pairs in a run, the same for all mallocs."""
    found = []
    for subject in subjects:
        ops = max(1000, runner.rows[case["row"]]["ops"] // 100)
        while (trial := attempt(runner, subject, case, ops, calibration=True)) is not None:
            if trial["seconds"] >= TRIAL_S or ops >= 1 << 40:
                found.append(max(trial["ns_per_pair"], 0.01))
                break
            ops *= 4
    if not found:
        raise Broken(f"no malloc survives {case['row']}")
    return max(1000, two_digits(min(FASTEST_S / min(found), SLOWEST_S / max(found)) * 1e9))


def measure(runner, subjects, wanted_cases, rounds, ops_wanted, group):
    """[{"row", "threads", "ops", "ns": {allocator: [ns per pair, for each round]}, "failed": {allocator: why}}]"""
    say(f"{group}: choosing the length of {len(wanted_cases)} cases")
    found = [
        {"row": row, "threads": threads, "ns": {subject.name: [] for subject in subjects}, "failed": {}}
        for row, threads in wanted_cases
    ]
    for case in found:
        case["ops"] = ops_wanted or calibrate(runner, subjects, case)
    for number in range(1, rounds + 1):
        say(f"{group}: round {number} of {rounds}, {len(found)} cases of {len(subjects)} mallocs")
        for case in found:
            for subject in subjects:
                result = attempt(runner, subject, case, case["ops"], round=number)
                if result is not None:
                    case["ns"][subject.name].append(result["ns_per_pair"])
    return found


def median(case, name):
    """The median of the rounds; "failed" if the malloc did not survive the case."""
    return float(statistics.median(case["ns"][name])) if name in case["ns"] else "failed"


def judge(case, name, others):
    """Compares our `name` in a case with each other malloc that survived it, and with the best of them."""
    times = {other: case["ns"][other] for other in others if other in case["ns"]}
    best = ratios.best(times)
    each = {other: ratios.compare(times[other], case["ns"][name]) for other in times}
    return {"best": best, "against_best": each.get(best), "each": each}


def means(judged, others):
    """Geometric means over the cases; each other malloc over those that it survived."""
    best = [one["against_best"]["median"] for one in judged if one["against_best"]]
    return {
        "best": ratios.geometric_mean(best),
        **{
            other: ratios.geometric_mean([one["each"][other]["median"] for one in judged if other in one["each"]])
            for other in others
        },
    }


def show(found, names, ours, judged):
    header = ["row", "threads", *names]
    for _ in ours:
        header += ["best other", "ratio", "quartiles", "ours is"]
    lines = []
    for number, case in enumerate(found):
        line = [case["row"], case["threads"], *(median(case, name) for name in names)]
        for name in ours:
            ratio = judged[name][number]["against_best"]
            line += (
                [
                    judged[name][number]["best"],
                    f"{ratio['median']:.2f}",
                    f"{ratio['low']:.2f}-{ratio['high']:.2f}",
                    ratio["verdict"],
                ]
                if ratio
                else ["-"] * 4
            )
        lines.append(line)
    return "Nanoseconds for a malloc and a free, medians of the rounds, all threads together:\n" + format_table(
        header, lines
    )


def show_means(judged, others):
    lines = []
    for name, of_name in judged.items():
        mean = means(of_name, others)
        survivors = [other for other in others if mean[other] is not None]
        if not survivors:
            continue
        lines.append(
            f"{name}, geometric mean over {len(of_name)} cases: the best other takes {mean['best']:.2f} "
            "times as long; " + ", ".join(f"{other} {mean[other]:.2f}" for other in survivors)
        )
        verdicts = [one["against_best"]["verdict"] for one in of_name if one["against_best"]]
        lines.append(
            f"{name} against the best other: "
            + ", ".join(f"{verdicts.count(word)} {word}" for word in ("faster", "slower", "inconclusive"))
        )
    return "\n".join(lines)


def show_gate(found, ours, names):
    """One line a case and build of ours: against the best rival, and against the library of an older commit."""
    rivals = [name for name in names if name not in ours and not against.is_older(name)]
    older = [name for name in names if against.is_older(name)]
    lines = []
    for name in ours:
        for case in found:
            line = [case["row"], case["threads"], name, median(case, name)]
            for group in (rivals, older):
                best = ratios.best({other: case["ns"][other] for other in group if other in case["ns"]})
                if best is None:
                    line += ["-", "-", "-"]
                    continue
                ratio = ratios.compare(case["ns"][best], case["ns"][name])
                line += [best, f"{ratio['median']:.2f}", f"{ratio['low']:.2f}-{ratio['high']:.2f}"]
            lines.append(line)
    header = ["row", "threads", "ours", "ns a pair", "best rival", "ratio", "quartiles", "older", "ratio", "quartiles"]
    return "The harnesses: time of the other by ours within a round, above 1 ours is faster:\n" + format_table(
        header, lines
    )


def run(runner, subjects, options, rows):
    names = [subject.name for subject in subjects]
    ours = [subject.name for subject in subjects if subject.ours]
    others = [name for name in names if name not in ours]
    rounds = options.rounds or (GATE_ROUNDS if options.gate else ROUNDS)
    threads = options.threads or (GATE_THREADS if options.gate else [])
    found = measure(runner, subjects, cases(runner, rows, threads), rounds, options.ops, "times")
    if options.gate:
        return {"rounds": rounds, "cases": found, "judged": {}, "means": {}}, show_gate(found, ours, names), None
    judged = {name: [judge(case, name, others) for case in found] for name in ours} if others else {}
    text = show(found, names, list(judged), judged)
    if judged:
        text += (
            "\nratio: the best other's time by ours within a round, median; above 1 ours is faster. inconclusive: "
            "the quartiles are\nas far apart as the ratio is from 1, or there are fewer than "
            f"{ratios.ROUNDS_MIN} rounds\n" + show_means(judged, others)
        )
    data = {
        "rounds": rounds,
        "cases": found,
        "judged": judged,
        "means": {name: means(of_name, others) for name, of_name in judged.items()},
    }
    return data, text, None
