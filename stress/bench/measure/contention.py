"""Counts what the threads of a malloc cost each other, by hakmem-order contention: transfers of cache lines, read-modify-writes
(rmws) and those that fail (failed_cas) an operation. Ours is build/libhakmem-ordered.so; others are given as NAME=PATH.so,
compiled by clang with -fsanitize=thread. One seed makes one run, so other work on the machine changes nothing. Rows that depend
on who takes over which heap, or who posts first, are means over seeds: of one seed, larson with 8 threads has 0.36 to 1.09
transfers (60 seeds, standard deviation 0.17), so that its mean of 12 seeds is 9% off by chance, of 120 seeds 2.4%."""

import json
import pathlib
import statistics

from measure.fault import BadInput, Broken
from measure.options import ROOT, say
from measure.subjects import Subject, check_names
from measure.table import format_table

THREADS = [2, 8, 64, 256]
FILE = ROOT / "ci/lint/contention.json"
GATE_THREADS = (8, 64)
GROWTH, SLACK = 1.1, 0.02  # a change of code far away moves slabs, and with them which lines are shared
FIRST_SEED = 42
SEEDS = {"larson": 12, "remote-free": 12, "churn": 12, "huge": 12}  # others: one
SEEDS_OF_FEW_THREADS, FEW_THREADS = {"larson": 120}, 8
KINDS = ("transfers", "failed_cas", "waits")


def choose(texts, build):
    subjects = []
    named = check_names(texts, build)
    for name, path in named:
        if path is None and name != "hakmem":
            raise BadInput(f"--allocator {name}: contention needs NAME=PATH.so, compiled with -fsanitize=thread")
        if path is not None:
            subjects.append(Subject(name, path, objects=(path,)))
    ours = str(build / "libhakmem-ordered.so")
    if not named or any(path is None for _, path in named):
        if not pathlib.Path(ours).is_file():
            raise BadInput(f"there is no {ours}: it needs clang (cmake --preset release)")
        subjects.insert(0, Subject("hakmem", ours, objects=(ours,)))
    return subjects


def program(runner):
    return str(runner.program.with_name("hakmem-order"))


def known_rows(runner):
    listed = runner.execute([program(runner), "contention", "--list"], None)[0]
    return [line.split()[0] for line in listed.splitlines()]


usual_rows = known_rows


def count_seed(runner, subject, row, threads, seed):
    command = [program(runner), "contention", "--allocator", subject.path, "--pattern", row, "--seed", str(seed)]
    command += ["--threads", str(threads), "--json", "-"]
    said, record = runner.execute(command, None)
    try:
        record["result"] = json.loads(said)
    except ValueError:
        raise Broken(f"no JSON from: {record['command']}") from None
    runner.runs.append({**record, "allocator": subject.name})
    for one in record["result"]:
        each = {name: one[name] / one["operations"] for name in ("rmws", "failed_cas", "waits", "accesses")}
        each["transfers"] = (one["fetches"] + one["upgrades"]) / one["operations"]
        each["program"] = (one["program_fetches"] + one["program_upgrades"]) / one["operations"]
        return each
    return None


def count(runner, subject, row, threads):
    """{threads: figures an operation}; empty: the malloc has not what the row needs."""
    found = {}
    for number in threads:
        seeds = {**SEEDS, **(SEEDS_OF_FEW_THREADS if number <= FEW_THREADS else {})}.get(row, 1)
        every = [count_seed(runner, subject, row, number, FIRST_SEED + seed) for seed in range(seeds)]
        if every[0]:
            found[str(number)] = {name: statistics.mean(one[name] for one in every) for name in every[0]}
    return found


def show(figures, names, threads):
    lines = []
    for row, of_row in figures.items():
        for name in names:
            if not of_row[name]:
                continue
            each = [of_row[name][str(number)] for number in threads]
            line = [row, name, *(f"{one['transfers']:.2f}" for one in each)]
            lines.append([*line, *(f"{each[-1][kind]:.2f}" for kind in ("program", "rmws", "failed_cas", "waits"))])
    last = f"at {threads[-1]}:"
    header = ["row", "malloc", *map(str, threads), f"{last} the program's", "rmws", "failed_cas", "waits"]
    return "Transfers of cache lines an operation, by the malloc, by threads:\n" + format_table(header, lines, left=2)


def expectations():
    return json.loads(FILE.read_text(encoding="utf-8"))["patterns"]


def judge(row, figures, expected):
    """What is wrong with {threads: figures} of one pattern, as lines."""
    faults = []
    for threads, recorded in expected.items():
        for kind in KINDS:
            most, found = recorded[kind] * GROWTH + SLACK, figures[threads][kind]
            if found > most:
                faults.append(f"{row}, {threads} threads: {found:.3f} {kind} an operation, at most {most:.3f}")
    return faults


def run(runner, subjects, options, rows):
    threads = options.threads or THREADS
    say(f"contention: {len(rows)} rows, {len(subjects)} mallocs, threads: {', '.join(map(str, threads))}")
    figures = {row: {subject.name: count(runner, subject, row, threads) for subject in subjects} for row in rows}
    faults = []
    for row, expected in expectations().items():
        ours = figures.get(row, {}).get("hakmem", {})
        faults += judge(row, ours, {number: of for number, of in expected.items() if number in ours})
    names = [subject.name for subject in subjects]
    return {"figures": figures}, show(figures, names, threads), faults if "hakmem" in names else None
