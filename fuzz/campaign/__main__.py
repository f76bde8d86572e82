"""ci/fuzz: campaigns. See ci/fuzz --help."""

import argparse
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import afl  # noqa: E402
import bugs  # noqa: E402
import find  # noqa: E402
import libfuzzer  # noqa: E402
import stop  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET_CALL = "fuzz_target("


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"fuzz: {message} (see --help)", file=sys.stderr)
        sys.exit(2)


def positive(text):
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10_000_000:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, not '{text}'")
    return int(text)


def parse(words):
    parser = Parser(prog="ci/fuzz", add_help=False, allow_abbrev=False)
    parser.add_argument("target")
    parser.add_argument("seconds", type=positive)
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("--engine", choices=("libfuzzer", "afl"), default="libfuzzer")
    parser.add_argument("--jobs", type=positive, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "fuzz" / "corpus")
    parser.add_argument("--finds", type=pathlib.Path, default=ROOT / "corpus" / "regress")
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--tries", type=positive, default=5)
    parser.add_argument("--bug", action="append", default=[])
    parser.add_argument("--only-check-options", action="store_true")
    options = parser.parse_args(words)
    options.root = ROOT
    known = target_names(options)
    if options.target not in ("all", "bugs") and options.target not in known:
        parser.error(f"there is no target '{options.target}': there are {', '.join(sorted(known))}, all and bugs")
    planted = bugs.planted(ROOT)
    for name in options.bug:
        if name not in planted:
            parser.error(f"there is no planted bug '{name}': there are {', '.join(sorted(planted))}")
    if options.build is not None and not (options.build / "fuzz" / "targets.json").is_file():
        parser.error(f"'{options.build}' is no tree with fuzz targets: cmake --preset fuzz makes one")
    return options


def target_names(options):
    """The names of the targets: from the tree if one is given, otherwise from fuzz/CMakeLists.txt."""
    try:
        return set(json.loads((options.build / "fuzz" / "targets.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        lines = (ROOT / "fuzz" / "CMakeLists.txt").read_text(encoding="utf-8").splitlines()
        return {
            line.strip()[len(TARGET_CALL) :].split()[0]
            for line in lines
            if line.strip().startswith(TARGET_CALL + "fuzz_")
        }


def settings_of(build):
    return json.loads((build / "fuzz" / "targets.json").read_text(encoding="utf-8"))


class Target:
    """A target of a tree, with its settings, programs and corpora."""

    def __init__(self, name, settings, options):
        self.name = name
        self.max_len = settings["max_len"]
        self.shape = settings["shape"]
        self.build = options.build.resolve()
        self.is_afl = options.engine == "afl"
        self.program = self.build / (f"{name}-afl" if self.is_afl else name)
        # Runs one input; its exit status judges it.
        self.runner = [str(self.build / f"{name}-replay" if self.is_afl else self.program)]
        self.libfuzzer = self.build / name  # for both engines: merges corpora and reduces finds
        self.dictionary = self.build / "fuzz" / f"{settings['dictionary']}.dict"
        self.committed = options.root / "corpus" / settings["corpus"]
        self.corpus = options.out.resolve() / name


def print_summary(summary):
    print(
        f"{summary['target']}: {summary['executions']} executions, {summary['rate']:.0f} a second, {summary['edges']} edges, "
        f"corpus of {summary['files']} files, {summary['bytes']} bytes, {summary['finds']} finds",
        flush=True,
    )


def fuzz_one(target, options, engine):
    """Fuzzes one target; returns its summary."""
    result = engine.campaign(target, options)
    rules = set()  # parallel processes may find the same thing
    for report in result.pop("reports"):
        find.handle(target, report, options, rules)
    files = [path for path in target.corpus.iterdir() if path.is_file()]
    if options.merge and not result["interrupted"]:
        libfuzzer.merge(target)
        files = [path for path in target.committed.iterdir() if path.is_file()]
    result.update(
        target=target.name, files=len(files), bytes=sum(path.stat().st_size for path in files), finds=len(rules)
    )
    return result


def main():
    options = parse(sys.argv[1:])
    if options.only_check_options:
        return 0
    if options.target == "bugs":
        options.settings_of = settings_of
        return bugs.run(options)
    stop.install()
    if options.build is None:
        options.build = ROOT / "build" / "fuzz"
    engine = afl if options.engine == "afl" else libfuzzer
    settings = settings_of(options.build)
    names = sorted(settings) if options.target == "all" else [options.target]
    summaries = []
    for name in names:
        summaries.append(fuzz_one(Target(name, settings[name], options), options, engine))
        if summaries[-1]["interrupted"]:
            break
    for summary in summaries:
        print_summary(summary)
    if any(summary["finds"] or summary["failed"] for summary in summaries):
        return 1
    return 130 if summaries[-1]["interrupted"] else 0


sys.exit(main())
