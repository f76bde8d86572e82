"""The runs and the table of ci/stress: see ci/stress --help."""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys

from allocators import PEERS, find_peer

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/hakmem-stress"
RESULTS = ROOT / "build/stress"
REPORT = RESULTS / "report"
HARNESSES = ["larson", "random-mixed", "remote-free"]
BASELINE = "system"
OURS = ["hakmem", "validate"]
MIB = 1 << 20


def positive(kind):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if value <= 0:
            raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
        return value

    return parse


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"stress: {message} (see --help)", file=sys.stderr)
        sys.exit(2)


def parse_options():
    parser = Parser(prog="stress", add_help=False)
    parser.add_argument("--rounds", type=positive(int), default=3)
    parser.add_argument("--seconds", type=positive(float), default=2)
    parser.add_argument("--threads", type=positive(int), default=2)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--allocator", action="append", default=[])
    parser.add_argument("--only-check-options", action="store_true")
    return parser.parse_args()


def peer(name):
    """Label and value of --allocator for a malloc that the user named."""
    if name in PEERS:
        found = find_peer(name)
        if found:
            return name, found
        sys.exit(f"stress: {name} is not installed ({PEERS[name]})")
    path = pathlib.Path(name)
    if "/" not in name and ".so" not in name:
        sys.exit(f"stress: --allocator {name}: neither one of {', '.join(PEERS)} nor the path of a .so")
    if not path.is_file():
        sys.exit(f"stress: --allocator {name}: no such file")
    return path.name, str(path.resolve())


def words(failure):
    return ": ".join(map(str, failure.values())) if isinstance(failure, dict) else str(failure)


def run(harness, label, allocator, checked, round_number, seed, options):
    """One run: its result. Adds the failures that this driver notices to those that the run reports."""
    mode = "check" if checked else "speed"
    file = RESULTS / f"{harness}.{label}.{mode}.{round_number}.json"
    file.unlink(missing_ok=True)
    command = [
        str(PROGRAM),
        harness,
        "--threads",
        str(options.threads),
        "--seconds",
        f"{options.seconds:g}",
        "--seed",
        str(seed),
        "--allocator",
        allocator,
        "--json",
        str(file),
        "--check" if checked else "--no-check",
    ]
    limit = options.seconds * 10 + 120
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit,
        )
        status, said = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, said = None, (late.stdout or b"").decode(errors="replace")
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
        failures = [] if result["verdict"] == "pass" else [words(one) for one in result["failures"]] or ["failed"]
        result["ops_per_second"] = float(result["ops_per_second"])
    except (OSError, ValueError, KeyError) as error:
        result = {"ops_per_second": 0.0, "peak_rss_bytes": 0, "end_rss_bytes": 0}
        failures = [f"left no result in {file.name} ({type(error).__name__})"]
    if status is None:
        failures.append(f"did not end in {limit:g} s")
    elif status < 0:
        failures.append(f"ended by signal {-status}")
    elif (status == 0) != (not failures):
        failures.append(f"ended with exit status {status}")
    if not failures and result["ops_per_second"] <= 0:
        failures.append("did no op")
    if failures:
        print(f"FAIL: {' '.join(command)}")
        print("".join(f"    {line}\n" for line in failures + said.splitlines()[-15:]), end="", flush=True)
    result["failed"] = bool(failures)
    return result


def table(results, labels, rounds):
    width = max(map(len, labels)) + 1
    print()
    print(
        f"{'harness':13} {'malloc':{width}} {'verdict':8} {'M ops/s':>8} {'to libc':>8} {'(min-max)':>12} "
        f"{'peak RSS':>10} {'end RSS':>10}"
    )
    for harness in HARNESSES:
        for label in labels:
            speed = [results[harness, label, False, number] for number in range(rounds)]
            every = speed + [results[harness, label, True, number] for number in range(rounds)]
            base = [results[harness, BASELINE, False, number] for number in range(rounds)]
            ratios = [
                one["ops_per_second"] / other["ops_per_second"]
                for one, other in zip(speed, base)
                if other["ops_per_second"] > 0 and one["ops_per_second"] > 0
            ]
            verdict = "FAIL" if any(one["failed"] for one in every) else "pass"
            middle = f"{statistics.median(ratios):8.2f}" if ratios else f"{'-':>8}"
            spread = f"{min(ratios):.2f}-{max(ratios):.2f}" if ratios else "-"
            ops = statistics.median(one["ops_per_second"] for one in speed) / 1e6
            peak = statistics.median(one["peak_rss_bytes"] for one in speed) / MIB
            end = statistics.median(one["end_rss_bytes"] for one in speed) / MIB
            name = "libc" if label == BASELINE else label
            print(
                f"{harness:13} {name:{width}} {verdict:8} {ops:8.2f} {middle} {spread:>12} {peak:6.1f} MiB "
                f"{end:6.1f} MiB"
            )


def campaign(seed, options):
    """Runs every scenario once on our two builds, under both schedules, and makes a page of figures; returns whether
    all passed."""
    command = [
        str(PROGRAM),
        "all",
        "--schedule",
        "both",
        "--threads",
        str(options.threads),
        "--seconds",
        f"{options.seconds:g}",
        "--seed",
        str(seed),
        "--report",
        str(REPORT),
        "--list-skips",
    ]
    for name in OURS:
        command += ["--allocator", name]
    print(f"\nevery scenario, on {' and '.join(OURS)}, under both schedules:", flush=True)
    return subprocess.run(command, stdin=subprocess.DEVNULL).returncode == 0


def main():
    options = parse_options()
    mallocs = {BASELINE: BASELINE, **{name: name for name in OURS}}
    if options.only_check_options:
        for name in options.allocator:
            if name not in PEERS:
                peer(name)
        return 0
    for name in options.allocator:
        label, path = peer(name)
        if mallocs.get(label, path) != path:
            sys.exit(f"stress: two mallocs would be called {label}")
        mallocs[label] = path
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    seeds = [seed + number for number in range(options.rounds)]

    RESULTS.mkdir(parents=True, exist_ok=True)
    for old in RESULTS.glob("*.json"):
        old.unlink()
    print(
        f"seeds {' '.join(map(str, seeds))}; {options.threads} threads, {options.seconds:g} s a run, "
        f"{options.rounds} rounds",
        flush=True,
    )
    results = {}
    for number, one_seed in enumerate(seeds):
        for harness in HARNESSES:
            print(f"round {number + 1} of {options.rounds}: {harness}", file=sys.stderr, flush=True)
            for checked in (True, False):
                for label, allocator in mallocs.items():
                    results[harness, label, checked, number] = run(
                        harness, label, allocator, checked, number + 1, one_seed, options
                    )
    table(results, list(mallocs), options.rounds)
    failed = sum(one["failed"] for one in results.values())
    print(
        "\nops/s and RSS: medians of the unchecked runs; to libc: median of the ratios within a round, and their spread"
    )
    print(f"results: {RESULTS.relative_to(ROOT)}/*.json", flush=True)
    whole = campaign(seed, options)
    print(
        f"{'PASS' if whole and not failed else 'FAIL'}: side by side, {len(results) - failed} of {len(results)} runs "
        f"passed; every scenario, {'all' if whole else 'not all'} passed; repeat with --seed {seed}"
    )
    return 0 if whole and not failed else 1


sys.exit(main())
