"""The method rr: records the program with rr until it crashes as reported, packs the recording, and steps back in
it."""

import os
import shlex
import shutil
import subprocess
import tempfile

import reverse
from launch import NotFound, call, last_line
from report import read as read_report

PROBE_SECONDS = 60


class Command:
    """The user's rr: --rr PATH, or else the one in PATH. The options go to both record and replay."""

    def __init__(self, path, options):
        self.path = shutil.which(path or "rr")
        self.options = shlex.split(options or "")

    def probe(self):
        """Why rr cannot record here and what to do about it, in one line; '' if it can."""
        if not self.path:
            return "rr is not installed: run ci/setup --replay, or name one by --rr PATH"
        folder = tempfile.mkdtemp(prefix="hakmem-replay-probe.")
        try:
            log = os.path.join(folder, "log")
            with open(log, "wb") as file:
                failed, code = run(
                    [self.path, "record", *self.options, "-o", os.path.join(folder, "probe"), "true"], file
                )
            if failed:
                return f"rr record true did not end within {PROBE_SECONDS} s"
            return "" if code == 0 else "rr cannot record here: " + reason(log)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def run(command, log):
    """Runs a command; returns whether it took too long, and the exit status."""
    process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        return False, process.wait(timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        return True, None
    finally:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass
        process.wait()


def reason(log):
    """rr's output, shortened, and a remedy: its FATAL line without the place in its source."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    fatal = next((line for line in lines if line.startswith("[FATAL")), None)
    text = fatal.split("]", 1)[1].strip() if fatal else (lines[-1] if lines else "it said nothing")
    everything = " ".join(lines)
    if "microarchitecture" in everything or "Unknown CPU" in everything or "cpuid" in everything.lower():
        return text + " (this rr does not know the processor: take a newer rr, and name it by --rr PATH)"
    if "perf_event_paranoid" in everything:
        return text + " (sysctl kernel.perf_event_paranoid=1 allows it)"
    if "performance counter" in everything or "perf_event_open" in everything:
        return (
            text
            + " (this machine shows no performance counters, as virtual machines and containers often do: take one "
            "that has them, or an rr that counts in software, by --rr PATH and --rr-options)"
        )
    return text


class Recording:
    def __init__(self, report, launcher, stress, tries, say, command):
        self.report, self.launcher, self.stress, self.say, self.rr = report, launcher, stress, say, command
        self.is_seeded = report.is_seeded()
        self.tries = 1 if self.is_seeded else tries
        self.trace = os.path.join(launcher.folder, "trace")
        self.again = None

    def environment(self):
        """The environment for rr itself, and options that give the other variables to the program: rr must not run on
        our malloc."""
        own, options = {}, []
        for one in self.launcher.environment():
            name, _, value = one.partition("=")
            if name.startswith(("LD_", "HAKMEM_", "GLIBC_", "MALLOC_")):
                options.append(f"--env={one}")
            elif name:
                own[name] = value
        own.setdefault("PATH", os.environ.get("PATH", "/usr/bin:/bin"))
        return own, options

    def command(self, chaos):
        options = self.environment()[1]
        # By full paths, because PATH is the report's and may not lead to them.
        return [
            shutil.which("setarch"),
            "-R",
            self.rr.path,
            "record",
            *self.rr.options,
            *(["--chaos"] if chaos else []),
            "-o",
            self.trace,
            *options,
            self.report.program,
            *self.launcher.arguments[1:],
        ]

    def refusal(self):
        """Why a recording does not show the crash; '' if it does."""
        path = self.launcher.new_record()
        if path is None:
            return "it did not crash"
        again = read_report(path, self.stress)
        if again.signature() != self.report.signature():
            return f"it crashed elsewhere: {again.signal_name()} in {again.where()}"
        self.again = again
        return ""

    def record(self):
        """The first try is plain, because most crashes do not need chaos mode, and chaos mode is slow."""
        why = ""
        for number in range(1, self.tries + 1):
            shutil.rmtree(self.trace, ignore_errors=True)
            self.launcher.clear()
            self.launcher.runs += 1
            path = os.path.join(self.launcher.folder, f"record{number}.log")
            self.launcher.budget.doing(f"rr: recording {number} of {self.tries}")
            with open(path, "wb") as file:
                failed = call(
                    self.command(number > 1 and not self.is_seeded),
                    self.environment()[0],
                    file,
                    self.launcher.budget.left(),
                    self.report.directory,
                    self.launcher.input_path,
                )
            why = failed or self.refusal()
            if not why:
                return
            if why == "it did not crash" and not os.path.exists(os.path.join(self.trace, "version")):
                why += ": rr: " + last_line(path)
            self.say(f"rr: recording {number} of {self.tries} is not of the crash: {why}")
        raise NotFound(f"none of {self.tries} recordings is of the crash; the last: {why}")

    def pack(self):
        """Makes the recording complete, so that it can be kept and copied."""
        done = subprocess.run(
            [self.rr.path, "pack", self.trace],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            self.say("rr pack failed: " + (done.stderr.strip().splitlines() or ["it said nothing"])[-1])

    def session(self, keeps, plain):
        """The tracer that goes back in the recording. keeps: the recording is kept; plain: a launcher for separate
        runs."""
        self.record()
        if keeps:
            self.pack()
        process = ["-f", str(self.again.data["process"])] if self.again.forked else []
        return reverse.of_rr(
            self.report,
            self.again,
            self.launcher,
            [self.rr.path, "replay", *self.rr.options, *process, self.trace],
            plain,
            self.stress,
        )
