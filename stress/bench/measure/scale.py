"""Throughput as threads are added."""

import os
import statistics

from measure import times
from measure.table import format_table

ROUNDS = 3
ROWS = ["larson", "mixed-1024", "all-remote", "remote-free", "mstress"]
THREADS = [1, 2, 4, 8, 16]

known_rows = times.known_rows


def usual_rows(_):
    return ROWS


def usual_threads(cpus):
    """Up to twice the number of cores, but always 1 and 2."""
    return [count for count in THREADS if count <= max(2, 2 * cpus)]


def throughput(case, name):
    """Million pairs per second, median of the rounds; None if the malloc did not survive the case."""
    return 1e3 / statistics.median(case["ns"][name]) if name in case["ns"] else None


def show(found, names):
    lines = [[case["row"], case["threads"], *(throughput(case, name) or "failed" for name in names)] for case in found]
    return (
        "Million pairs of malloc and free in a second, all threads together, medians of the rounds:\n"
        + format_table(["row", "threads", *names], lines)
    )


def run(runner, subjects, options, rows):
    threads = options.threads or usual_threads(len(os.sched_getaffinity(0)))
    found = times.measure(
        runner, subjects, times.cases(runner, rows, threads), options.rounds or ROUNDS, options.ops, "scale"
    )
    return (
        {"rounds": options.rounds or ROUNDS, "cases": found},
        show(found, [subject.name for subject in subjects]),
        None,
    )
