"""Arithmetic on times: ratios within a round, their spread, and when they are inconclusive."""

import math
import statistics

ROUNDS_MIN = 3  # with fewer rounds, the spread means nothing


def quartiles(values):
    """(first quartile, median, third quartile)"""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def compare(other, ours):
    """How many times as long as ours the other takes, from the times of each round: {"median", "low", "high",
    "verdict"}.

    Machines drift, so each ratio compares times of one round. The result is inconclusive if its interquartile range is
    as wide as its distance to 1, or if there are too few rounds.
    """
    if len(other) != len(ours):
        raise ValueError(f"{len(other)} and {len(ours)} rounds")
    low, median, high = quartiles([theirs / mine for theirs, mine in zip(other, ours)])
    if len(ours) < ROUNDS_MIN or high - low >= abs(median - 1):
        verdict = "inconclusive"
    else:
        verdict = "faster" if median > 1 else "slower"
    return {"median": median, "low": low, "high": high, "verdict": verdict}


def best(times):
    """The name with the smallest median in {name: [ns of each round]}; None if it is empty."""
    return min(times, key=lambda name: statistics.median(times[name]), default=None)


def geometric_mean(values):
    """None of nothing."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else None
