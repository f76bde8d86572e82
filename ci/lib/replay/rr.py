"""The method rr: records the program with rr until it crashes as reported, packs the recording, and goes back in it."""

import json
import os
import shutil
import subprocess
import tempfile

from launch import HERE, call, last_line
from report import read as read_report
from rerun import NotFound
from reverse import judged, task_of

PROBE_SECONDS = 60


def probe():
    """Why rr cannot record here, in one line; '' where it can."""
    if not shutil.which("rr"):
        return "rr is not installed: run ci/setup"
    folder = tempfile.mkdtemp(prefix="hakmem-replay-probe.")
    try:
        log = os.path.join(folder, "log")
        with open(log, "wb") as file:
            process = subprocess.Popen(["rr", "record", "-o", os.path.join(folder, "probe"), "true"], stdout=file,
                                       stderr=file, stdin=subprocess.DEVNULL, start_new_session=True)
            try:
                code = process.wait(timeout=PROBE_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                return f"rr record true did not end within {PROBE_SECONDS} s"
        return "" if code == 0 else "rr cannot record here: " + reason(log)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def reason(log):
    """What rr said, shortened: its FATAL line without the place in its source."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    fatal = next((line for line in lines if line.startswith("[FATAL")), None)
    text = fatal.split("]", 1)[1].strip() if fatal else (lines[-1] if lines else "it said nothing")
    if "performance counter" in text:
        text += " (this machine shows no performance counters: a virtual machine without them, or a container)"
    return text


class Recording:
    def __init__(self, report, launcher, stress, tries, log):
        self.report, self.launcher, self.stress, self.log = report, launcher, stress, log
        self.is_seeded = report.data["schedule_hash"] is not None
        self.tries = 1 if self.is_seeded else tries
        self.trace = os.path.join(launcher.folder, "trace")

    def environment(self):
        """What rr itself runs with, and the options that give the rest to the program: rr is not to run on ours."""
        own, options = {}, []
        for one in self.launcher.environment():
            name, _, value = one.partition("=")
            if name.startswith(("LD_", "HAKMEM_")):
                options.append(f"--env={one}")
            else:
                own[name] = value
        own.setdefault("PATH", os.environ.get("PATH", "/usr/bin:/bin"))
        return own, options

    def command(self):
        options = self.environment()[1]
        chaos = [] if self.is_seeded else ["--chaos"]
        # By their paths: the PATH is the report's, which may not lead to them.
        return [shutil.which("setarch"), "-R", shutil.which("rr"), "record", *chaos, "-o", self.trace, *options,
                self.report.program, *self.launcher.arguments[1:]]

    def refusal(self):
        """Why a recording is not of the crash; '' where it is."""
        path = self.launcher.new_record()
        if path is None:
            return "it did not crash"
        again = read_report(path, self.stress)
        if again.signature() != self.report.signature():
            return f"it crashed elsewhere: {again.signal_name()} in {again.where()}"
        self.again = again
        return ""

    def record(self):
        why = ""
        for number in range(1, self.tries + 1):
            shutil.rmtree(self.trace, ignore_errors=True)
            self.launcher.clear()
            self.launcher.runs += 1
            path = os.path.join(self.launcher.folder, f"record{number}.log")
            with open(path, "wb") as file:
                failed = call(self.command(), self.environment()[0], file, self.launcher.seconds_max,
                              self.report.directory)
            why = failed or self.refusal()
            if not why:
                return
            self.log(f"rr: recording {number} of {self.tries} is not of the crash: {why}")
        raise NotFound(f"none of {self.tries} recordings is of the crash; the last: {why}")

    def pack(self):
        done = subprocess.run(["rr", "pack", self.trace], capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            self.log("rr pack failed: " + (done.stderr.strip().splitlines() or ["it said nothing"])[-1])

    def replay(self):
        """Goes back from the crash: a plain `continue` first, which rr's gdb needs."""
        task = {"out": os.path.join(self.launcher.folder, "replay.result.json"),
                **task_of(self.report, self.again, "")}
        path = os.path.join(self.launcher.folder, "replay.task.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(task, file)
        command = ["rr", "replay", self.trace, "--", "-nx", "-batch", "-ex", "continue", "-x",
                   os.path.join(HERE, "reverse_script.py")]
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": os.environ.get("HOME", "/"),
                       "LC_ALL": "C.UTF-8", "HAKMEM_REPLAY_TASK": path}
        log = os.path.join(self.launcher.folder, "replay.log")
        with open(log, "wb") as file:
            failed = call(command, environment, file, self.launcher.seconds_max)
        if not os.path.exists(task["out"]):
            raise NotFound("rr replay gave no result: " + (failed or last_line(log)))
        with open(task["out"], encoding="utf-8") as file:
            return json.load(file)

    def find(self):
        self.record()
        self.pack()
        return judged(self.report, self.replay(), self.launcher.calls)
