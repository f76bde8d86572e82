"""The command line of ci/bench."""

import argparse
import dataclasses
import pathlib
import sys

from measure.fault import BadInput

ROOT = pathlib.Path(__file__).resolve().parents[3]
GROUPS = ["counts", "times", "rss", "scale", "syscalls"]
OTHERS = ["apps", "tails", "surface", "contention"]  # not in `all`: they need real programs, other builds, or hours
NUMBER_MAX = 10**12


@dataclasses.dataclass
class Options:
    groups: list
    allocators: list
    rounds: int
    ops: int
    rows: list
    threads: list
    json: pathlib.Path
    out: pathlib.Path
    build: pathlib.Path
    update: bool
    gate: bool
    quick: bool
    cells: list
    against: str
    only_check_options: bool


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise BadInput(message)


def whole_number(text):
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) <= NUMBER_MAX:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {NUMBER_MAX}, not '{text}'")
    return int(text)


def words(text):
    found = [word.strip() for word in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"must be words with commas in between, not '{text}'")
    return found


def numbers(text):
    found = sorted({whole_number(word) for word in words(text)})
    if found[-1] > 1024:
        raise argparse.ArgumentTypeError(f"at most 1024 threads, not {found[-1]}")
    return found


def parse(arguments):
    parser = Parser(prog="bench", add_help=False, allow_abbrev=False)
    parser.add_argument("group", nargs="?", default="all")
    parser.add_argument("--allocator", action="append", default=[], dest="allocators")
    parser.add_argument("--rounds", type=whole_number)
    parser.add_argument("--ops", type=whole_number)
    parser.add_argument("--rows", type=words, default=[])
    parser.add_argument("--threads", type=numbers, default=[])
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/bench")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cell", action="append", default=[], dest="cells")
    parser.add_argument("--against")
    parser.add_argument("--only-check-options", action="store_true")
    found = vars(parser.parse_args(arguments))
    group = found.pop("group")
    if group not in [*GROUPS, *OTHERS, "all"]:
        raise BadInput(f"there is no group '{group}'; there are {', '.join(GROUPS + OTHERS)} and all")
    options = Options(groups=GROUPS if group == "all" else [group], **found)
    if options.update and group != "counts":
        raise BadInput("--update: only counts are recorded: ci/bench counts --update")
    if options.update and (options.rows or options.ops):
        raise BadInput("--update records all rows at the usual length: leave out --rows and --ops")
    if options.gate and group != "times":
        raise BadInput("--gate: only times has one: ci/bench times --gate")
    if options.against and group not in ("counts", "times"):
        raise BadInput("--against: ci/bench counts or ci/bench times compares with an older commit")
    if (options.quick or options.cells) and group != "surface":
        raise BadInput("--quick, --cell: only the surface has them: ci/bench surface")
    if options.cells and (options.rows or options.threads or options.quick):
        raise BadInput("--cell names whole cells: leave out --rows, --threads and --quick")
    check_files(options)
    return options


def check_files(options):
    """Reports before any measurement that results cannot be written."""
    if options.json and (options.json.is_dir() or not options.json.absolute().parent.is_dir()):
        raise BadInput(f"--json {options.json}: it is a folder, or its folder is not there")
    for part in [options.out, *options.out.parents]:
        if part.exists():
            if not part.is_dir():
                raise BadInput(f"--out {options.out}: {part} is no folder")
            return


def say(text):
    """Prints progress, apart from the tables."""
    print(f"bench: {text}", file=sys.stderr, flush=True)
