"""ci/replay's work: see its --help. Exit status 0: found; 1: not found; 2: bad input."""

import argparse
import os
import platform
import shlex
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import report as reports  # noqa: E402
import verdict as verdicts  # noqa: E402
from launch import Launcher  # noqa: E402
import reverse  # noqa: E402
import rr  # noqa: E402
from history import History  # noqa: E402
from judge import Judge  # noqa: E402
from rerun import NotFound, Rerun  # noqa: E402
from symbols import Symbols  # noqa: E402
from valgrind import Memcheck  # noqa: E402

METHODS = ("rr", "rerun", "gdb", "valgrind")
SECONDS_MAX = 300  # of one run
HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.normpath(os.path.join(HERE, "../../../build/release"))  # as in ci/replay


def say(text):
    print(f"replay: {text}", file=sys.stderr, flush=True)


class Options(argparse.ArgumentParser):
    def error(self, message):
        raise reports.BadInput(message + " (see --help)")


def parse(words):
    parser = Options(prog="ci/replay", add_help=False)
    parser.add_argument("report")
    parser.add_argument("--method", choices=("auto", *METHODS), default="auto")
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--keep")
    parser.add_argument("--json")
    parser.add_argument("--build", required=True)
    options = parser.parse_args(words)
    if not 1 <= options.tries <= 10000:
        raise reports.BadInput(f"--tries {options.tries} is not in 1..10000")
    return options


def need(*programs):
    """Why a method cannot be used here: a program that is missing, another processor; ''."""
    if "gdb" in programs and platform.machine() != "x86_64":
        return f"it reads x86-64 instructions, and this machine is {platform.machine()}"
    missing = [program for program in programs if not shutil.which(program)]
    return f"{missing[0]} is not installed: run ci/setup" if missing else ""


class Replay:
    def __init__(self, options, report, folder):
        self.options, self.report, self.folder = options, report, folder
        self.stress = os.path.join(options.build, "hakmem-stress")
        self.launcher = None

    def launch(self, name, with_calls=True, added=()):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        calls = os.path.join(self.options.build, "libreplay-calls.so")
        with_calls = with_calls and not reports.is_suite(self.report)  # it insists on a malloc that is the allocator's
        if with_calls and not os.path.exists(calls):
            say(f"'{calls}' is not built: blocks will not be named")
            with_calls = False
        arguments = reports.rerun_arguments(self.report)
        self.launcher = Launcher(self.report, arguments, folder, calls if with_calls else None, SECONDS_MAX, added)
        return self.launcher

    def rr(self):
        refused = need("setarch", "gdb") or rr.probe()
        if refused:
            raise NotFound(refused)
        return rr.Recording(self.report, self.launch("rr"), self.stress, self.options.tries, say).find()

    def gdb(self):
        refused = need("gdb", "setarch", "addr2line")
        if refused:
            raise NotFound(refused)
        launcher = self.launch("gdb", added=reverse.PLAIN)
        learnt = Rerun(self.report, launcher, self.stress, self.options.tries, say).learn()[1]
        return reverse.gdb_record(self.report, launcher, learnt)

    def valgrind(self):
        refused = need("valgrind")
        if refused:
            raise NotFound(refused)
        launcher = self.launch("valgrind", with_calls=False)
        judge = Judge(os.path.realpath(self.report.library), History(launcher.calls), Symbols([]))
        return Memcheck(self.report, launcher, judge).find()

    def rerun(self):
        refused = need("gdb", "setarch", "readelf", "addr2line")
        if refused:
            raise NotFound(refused)
        return Rerun(self.report, self.launch("rerun"), self.stress, self.options.tries, say).find()

    def one(self, method):
        return getattr(self, method)()

    def find(self):
        """Tries the methods in turn. A result as verdict.py takes it."""
        methods = METHODS if self.options.method == "auto" else (self.options.method,)
        reasons = []
        for method in methods:
            self.launcher = None
            try:
                verdict = self.one(method)
            except NotFound as reason:
                say(f"{method}: {reason}")
                reasons.append(f"{method}: {reason}")
                continue
            if verdict["culprit"] is None:
                say(f"{method}: {verdict['why']}")
                reasons.append(f"{method}: {verdict['why']}")
                continue
            return self.result(True, method, verdict, verdict["why"])
        return self.result(False, methods[-1] if len(methods) == 1 else None, None, "; ".join(reasons))

    def result(self, found, method, verdict, why):
        extra = [] if self.options.build == BUILD else ["--build", self.options.build]
        path = os.path.abspath(self.options.report)
        return {"found": found, "method": method, "why": why, "report": path, "program": self.report.program,
                "arguments": self.launcher.arguments if self.launcher else [], "directory": self.report.directory,
                "signal": self.report.signal_name(), "crashed_in": self.report.where(),
                "runs": self.launcher.runs if self.launcher else 0, "verdict": verdict,
                "again": verdicts.again("ci/replay", path, method or "auto", extra)}


def write(result, path):
    """The JSON to a file, or stdout for -; lines for people else to stdout."""
    if path == "-":
        sys.stdout.write(verdicts.as_json(result))
        return
    if path:
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(verdicts.as_json(result))
        except OSError as error:
            raise reports.BadInput(f"--json '{path}' cannot be written: {error.strerror}") from None
    sys.stdout.write(verdicts.text(result))


def announce(report):
    names = [one.split("=", 1)[0] for one in report.environment]
    preload = next((one for one in report.environment if one.startswith("LD_PRELOAD=")), "no LD_PRELOAD")
    say(f"{report.signal_name()} in {report.where()}")
    say(f"runs again: {shlex.join(reports.rerun_arguments(report))}")
    say(f"  program {report.program}, in {report.directory}, {preload}, {len(names)} variables of the report")
    if report.data["schedule_hash"] is None and report.data["seed"] is not None:
        say("  the run was not of --schedule seeded: a re-run may differ")


def main():
    options = parse(sys.argv[1:])
    report = reports.read(options.report, os.path.join(options.build, "hakmem-stress"))
    reports.check(report)
    announce(report)
    folder = options.keep or tempfile.mkdtemp(prefix="hakmem-replay.")
    try:
        os.makedirs(folder, exist_ok=True)
        result = Replay(options, report, os.path.abspath(folder)).find()
        write(result, options.json)
        return 0 if result["found"] else 1
    except OSError as error:
        raise reports.BadInput(f"{error.filename or folder}: {error.strerror}") from None
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except reports.BadInput as wrong:
        say(str(wrong))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
