"""The command ci/replay; see its --help. Exit status: 0 found; 3 likely; 1 not found; 2 bad input."""

import argparse
import gc
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

import known
import launch
import report as reports
import reverse
import rr
import verdict as verdicts
import worker
from analyse import analyse
from frees import of_two_threads
from history import History
from judge import Judge
from launch import NotFound
from rerun import Rerun
from symbols import Symbols
from valgrind import Memcheck
from worker import say

METHODS = ("record", "rerun", "rr", "gdb", "valgrind")  # by cost
COSTS = {
    "rerun": "some runs under gdb, mostly below a second each",
    "rr": "a recording, and its replay",
    "gdb": "a run of which gdb records each instruction, thousands of times slower",
    "valgrind": "a run under memcheck, some 30 times slower",
}
SECONDS_DEFAULT = 300
HERE = os.path.dirname(os.path.abspath(__file__))
INSTALLED = os.path.exists(os.path.join(HERE, "../hakmem-stress"))
BUILD = os.path.normpath(os.path.join(HERE, ".." if INSTALLED else "../../../build/release"))  # as in ci/replay
COMMAND = "hakmem-replay" if INSTALLED else "ci/replay"


class Options(argparse.ArgumentParser):
    def error(self, message):
        raise reports.BadInput(message + " (see --help)")


def parse(words):
    parser = Options(prog=COMMAND, add_help=False)
    parser.add_argument("report")
    parser.add_argument("--method", choices=("auto", *METHODS), default="auto")
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=SECONDS_DEFAULT)
    parser.add_argument("--stdin")
    parser.add_argument("--rr")
    parser.add_argument("--rr-options")
    parser.add_argument("--keep")
    parser.add_argument("--json")
    parser.add_argument("--build", type=os.path.abspath, default=BUILD)
    options = parser.parse_args(words)
    if not 1 <= options.tries <= 10000:
        raise reports.BadInput(f"--tries {options.tries} is not in 1..10000")
    if not 1 <= options.seconds <= 86400:
        raise reports.BadInput(f"--seconds {options.seconds} is not in 1..86400")
    if options.rr and not shutil.which(options.rr):
        raise reports.BadInput(f"--rr '{options.rr}' is no program that can be run; name the rr to use")
    return options


def need(*programs):
    """Why a method cannot be used here: a missing program, or another processor; '' if it can."""
    if "gdb" in programs and platform.machine() != "x86_64":
        return f"it reads x86-64 instructions, and this machine is {platform.machine()}"
    missing = [program for program in programs if not shutil.which(program)]
    return f"{missing[0]} is not installed: run ci/setup --replay" if missing else ""


class Replay:
    def __init__(self, options, report, folder, budget):
        self.options, self.report, self.folder, self.budget = options, report, folder, budget
        self.stress = os.path.join(options.build, "hakmem-stress")
        self.say, self.launcher = self.budget.say, None

    def input_path(self):
        if self.options.stdin:
            return os.path.abspath(self.options.stdin)
        recorded = self.report.standard_input
        return recorded if os.path.isfile(recorded) else os.devnull

    def launch(self, name, with_calls=True, added=()):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        calls = os.path.join(self.options.build, "libreplay-calls.so")
        with_calls = with_calls and not self.report.is_suite()  # the suite insists that malloc comes from the allocator
        if with_calls and not os.path.exists(calls):
            self.say(
                f"'{calls}' is not built: blocks will not be named, and nothing is found for certain; build it by "
                "cmake --build --preset release --target replay-calls"
            )
            with_calls = False
        self.launcher = launch.Launcher(
            self.report, folder, calls if with_calls else None, self.budget, self.input_path(), added
        )
        return self.launcher

    def with_tracer(self, tracer):
        try:
            return analyse(self.report, tracer, self.say)
        finally:
            tracer.close()

    def rerunner(self, launcher):
        return Rerun(self.report, launcher, self.stress, self.options.tries, self.say)

    def record(self):
        """What the record shows by itself."""
        verdict = known.of_record(Judge(self.report, History(""), Symbols([])), self.report)
        if verdict is None:
            raise NotFound("the record alone does not tell")
        return verdict

    def rerun(self):
        try:
            return self.with_tracer(self.rerunner(self.launch("rerun")))
        except launch.Raced as raced:
            return of_two_threads(Judge(self.report, raced.history, raced.symbols), raced.rows)

    def rr(self):
        command = rr.Command(self.options.rr, self.options.rr_options)
        refused = command.probe()
        if refused:
            raise NotFound(refused)
        plain = self.launch("rr-plain")
        recording = rr.Recording(self.report, self.launch("rr"), self.stress, self.options.tries, self.say, command)
        return self.with_tracer(recording.session(self.options.keep is not None, plain))

    def gdb(self):
        if self.report.forked:
            raise NotFound("gdb records the process that it starts, and the one that crashed was forked")
        plain, launcher = self.launch("gdb-plain"), self.launch("gdb", added=reverse.PLAIN)
        again = self.rerunner(launcher).again
        return self.with_tracer(reverse.of_gdb(self.report, again, launcher, plain, self.stress))

    def valgrind(self):
        launcher = self.launch("valgrind", with_calls=False)
        return Memcheck(self.report, launcher, Judge(self.report, History(launcher.calls), Symbols([]))).find()

    def one(self, method):
        programs = {
            "record": (),
            "rerun": ("gdb", "setarch", "readelf", "addr2line"),
            "rr": ("setarch", "gdb"),
            "gdb": ("gdb", "setarch", "addr2line"),
            "valgrind": ("valgrind",),
        }
        refused = need(*programs[method])
        if refused:
            raise NotFound(refused)
        if method in COSTS:
            self.say(f"{method}: {COSTS[method]}; at most {self.budget.left():.0f} s")
        return getattr(self, method)()

    def find(self):
        """Tries the methods in turn until one finds the cause; otherwise returns the best of the results that are
        likely. Results have the form of verdict.py."""
        methods = METHODS if self.options.method == "auto" else (self.options.method,)
        reasons, likely = [], None
        for method in methods:
            if likely and method in ("gdb", "valgrind"):
                break  # they see no more than the earlier ones
            self.launcher = None
            try:
                verdict = self.one(method)
            except NotFound as reason:
                if method != "record" or len(methods) == 1:
                    self.say(f"{method}: {reason}")
                    reasons.append(f"{method}: {reason}")
                if isinstance(reason, launch.Lost):
                    break
                continue
            result = self.result(method, verdict, verdict["why"])
            if verdict["grade"] == verdicts.FOUND:
                return result
            self.say(f"{method}: likely: {verdicts.place(verdict['culprit'])}: {verdict['why']}")
            if likely is None or likely["method"] == "record":
                likely = result  # a run knows more than the record
        return likely or self.result(methods[-1] if len(methods) == 1 else None, None, "; ".join(reasons))

    def result(self, method, verdict, why):
        extra = [] if self.options.build == BUILD else ["--build", self.options.build]
        for name in ("stdin", "rr", "rr_options"):
            value = getattr(self.options, name)
            extra += ["--" + name.replace("_", "-"), value] if value else []
        path = os.path.abspath(self.options.report)
        grade = verdict["grade"] if verdict else verdicts.NOT_FOUND
        return {
            "grade": grade,
            "found": grade == verdicts.FOUND,
            "cause": verdict["cause"] if verdict else None,
            "method": method,
            "why": why,
            "known": known.lines(self.report),
            "report": path,
            "program": self.report.program,
            "arguments": self.report.rerun_arguments(),
            "directory": self.report.directory,
            "signal": self.report.signal_name(),
            "crashed_in": self.report.where(),
            "runs": self.launcher.runs if self.launcher else 0,
            "verdict": verdict,
            "again": verdicts.again(COMMAND, path, method or "auto", extra),
        }


def write(result, path):
    """Writes the JSON to a file, and lines for people to stdout; for "-", only the JSON, to stdout."""
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


def announce(report, options):
    names = [one.split("=", 1)[0] for one in report.environment]
    preload = next((one for one in report.environment if one.startswith("LD_PRELOAD=")), "no LD_PRELOAD")
    say(f"{report.signal_name()} in {report.where()}")
    for line in known.lines(report):
        say("the record knows: " + line)
    say(f"runs again: {shlex.join(report.rerun_arguments())}")
    say(f"  program {report.program}, in {report.directory}, {preload}, {len(names)} variables of the report")
    if not report.is_seeded() and report.data["seed"] is not None:
        say("  the run was not of --schedule seeded: a re-run may differ")
    if report.wants_input() and not options.stdin:
        say(f"  its standard input was {report.standard_input}, and is empty now: --stdin FILE gives what it read")


def work(options):
    missing = need("readelf")
    if missing:
        raise reports.BadInput(missing)
    budget = launch.Budget(options.seconds, say)
    try:
        report = reports.read(options.report, os.path.join(options.build, "hakmem-stress"))
        reports.check(report, options.stdin)
    except subprocess.TimeoutExpired as slow:
        raise reports.BadInput(
            f"{slow.cmd[0]} did not end within {slow.timeout:.0f} s; is the machine overloaded?"
        ) from None
    announce(report, options)
    folder = options.keep or tempfile.mkdtemp(prefix="hakmem-replay.")
    try:
        os.makedirs(folder, exist_ok=True)
        if options.keep and os.path.dirname(os.path.abspath(options.report)) != os.path.abspath(folder):
            shutil.copy2(options.report, folder)
        result = Replay(options, report, os.path.abspath(folder), budget).find()
        write(result, options.json)
        return verdicts.STATUS[result["grade"]]
    except OSError as error:
        raise reports.BadInput(f"{error.filename or folder}: {error.strerror}") from None
    finally:
        launch.end_children()  # before the folder is removed, into which they may write
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


def main():
    sys.stdout.reconfigure(errors="backslashreplace")  # names of files are bytes
    sys.stderr.reconfigure(errors="backslashreplace")
    gc.disable()  # a collection among millions of logged calls takes seconds
    try:
        worker.let_signals_end()
        return work(parse(sys.argv[1:]))
    except worker.Ended as signalled:
        say(f"ended by {signal.Signals(signalled.number).name}")
        return 128 + signalled.number
    except reports.BadInput as wrong:
        say(str(wrong))
        return 2
