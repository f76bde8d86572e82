"""What ci/stress runs: see ci/stress --help. The runs, the comparison and the page are those of hakmem-stress all."""

import argparse
import os
import pathlib
import random
import shutil
import sys

from allocators import PEERS, find_peer

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/hakmem-stress"
RESULTS = ROOT / "build/stress"
SURFACE = ROOT / "build/bench/surface.svg"
COMPARED = ["system", "hakmem", "validate"]


def above_zero(kind):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not 0 < value < 1e7:
            raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
        return value

    return parse


def seed(text):
    if not text.isdecimal() or int(text) >= 1 << 64:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 0 to 2^64 - 1")
    return int(text)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"stress: {message} (see --help)", file=sys.stderr)
        sys.exit(2)


def parse_options():
    parser = Parser(prog="stress", add_help=False, allow_abbrev=False)
    parser.add_argument("--rounds", type=above_zero(int), default=3)
    parser.add_argument("--seconds", type=above_zero(float), default=1)
    parser.add_argument("--threads", type=above_zero(int), default=2)
    parser.add_argument("--seed", type=seed)
    parser.add_argument("--allocator", action="append", default=[])
    parser.add_argument("--only-check-options", action="store_true")
    return parser, parser.parse_args()


def library(name, parser, only_check):
    """The value of --allocator for a malloc that the user named. hakmem-stress judges the library itself."""
    if name in PEERS:
        found = find_peer(name)
        if not found and not only_check:  # setup may yet install it
            parser.error(f"--allocator: {name} is not installed ({PEERS[name]})")
        return found or name
    if "/" not in name and ".so" not in name:
        parser.error(f"--allocator: '{name}' is neither one of {', '.join(PEERS)} nor the path of a .so")
    if not os.access(name, os.R_OK):
        parser.error(f"--allocator: cannot read '{name}'")
    return str(pathlib.Path(name).resolve())


def main():
    parser, options = parse_options()
    libraries = [library(name, parser, options.only_check_options) for name in options.allocator]
    if options.only_check_options:
        return
    (RESULTS / "report").mkdir(parents=True, exist_ok=True)
    if SURFACE.is_file():
        shutil.copy(SURFACE, RESULTS / "report")  # the page shows it
    chosen = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    command = [str(PROGRAM), "all", "--schedule", "both", "--speed", "--rounds", str(options.rounds)]
    command += ["--threads", str(options.threads), "--seconds", f"{options.seconds:g}", "--seed", str(chosen)]
    command += ["--report", str(RESULTS / "report"), "--json", str(RESULTS / "all.json"), "--list-skips"]
    for name in COMPARED + libraries:
        command += ["--allocator", name]
    os.execv(PROGRAM, command)


main()
