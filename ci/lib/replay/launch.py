"""Starts the program of a report under gdb, with the environment, the arguments and the directory of the record, always
at the same addresses. Each run has a task (see watch_script.py) and gives its result as a dictionary."""

import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CALLS_BYTES = 48 * ((1 << 20) + 1)

# Replaces the debugger's child by the program: gdb's own way to set arguments goes through a shell.
WRAPPER = """#!{python} -ISE
import json, os, sys
with open({path!r}, encoding="utf-8") as file:
    start = json.load(file)
os.chdir(start["directory"])
bytes_of = lambda text: text.encode("utf-8", "surrogateescape")
os.closerange(3, 256)
os.execve(sys.argv[1], [bytes_of(one) for one in start["arguments"]],
          dict(bytes_of(one).split(b"=", 1) for one in start["environment"] if "=" in one))
"""


class Launcher:
    """Runs of one report's program. folder keeps what they leave; library_calls is libreplay-calls.so or None."""

    def __init__(self, report, arguments, folder, library_calls, seconds_max, added=()):
        self.report, self.arguments, self.folder = report, arguments, folder
        self.seconds_max, self.runs, self.library_calls = seconds_max, 0, library_calls
        self.added = list(added)
        self.records = os.path.join(folder, "records")
        self.calls = os.path.join(folder, "hakmem-replay-calls")
        os.makedirs(self.records, exist_ok=True)
        self.wrapper = os.path.join(folder, "start")
        self.write_wrapper()

    def environment(self):
        """The report's, with the calls' log preloaded, and records in this folder. What is to be added comes last."""
        kept, preload = [], ""
        for one in self.report.environment:
            if one.startswith("LD_PRELOAD="):
                preload = one.split("=", 1)[1]
            elif not one.startswith(("HAKMEM_CRASH_DIR=", "HAKMEM_REPLAY_")):
                kept.append(one)
        preload = ":".join(part for part in (self.library_calls, preload) if part)
        if preload:
            kept.append("LD_PRELOAD=" + preload)
        return kept + ["HAKMEM_CRASH_DIR=" + self.records, "HAKMEM_REPLAY_CALLS=" + self.calls] + self.added

    def write_wrapper(self):
        start = os.path.join(self.folder, "start.json")
        with open(start, "w", encoding="utf-8") as file:
            json.dump({"arguments": self.arguments, "environment": self.environment(),
                       "directory": self.report.directory}, file)
        python = os.path.realpath(sys.executable)
        with open(self.wrapper, "w", encoding="utf-8") as file:
            file.write(WRAPPER.format(python=python, path=start))
        os.chmod(self.wrapper, 0o700)

    def clear(self):
        """Each run finds the same files: none of the runs before may change what the next one does."""
        shutil.rmtree(self.records)
        os.mkdir(self.records)
        with open(self.calls, "wb") as file:
            file.truncate(CALLS_BYTES)

    def run(self, script, task):
        """One run under gdb; the result of the script, or {'failed': TEXT}."""
        self.runs += 1
        self.clear()
        base = os.path.join(self.folder, f"run{self.runs}")
        task = {"out": base + ".result.json", **task}
        with open(base + ".task.json", "w", encoding="utf-8") as file:
            json.dump(task, file)
        command = ["setarch", "-R", "gdb", "-nx", "-batch", "-ex", "set startup-with-shell on",
                   "-ex", f"set exec-wrapper {self.wrapper}", "-ex", "set disable-randomization on",
                   "-x", os.path.join(HERE, script), "--", self.report.program]
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": self.folder, "LC_ALL": "C.UTF-8",
                       "SHELL": "/bin/sh", "HAKMEM_REPLAY_TASK": base + ".task.json"}
        with open(base + ".log", "wb") as log:
            failed = call(command, environment, log, self.seconds_max)
        if os.path.exists(task["out"]):
            with open(task["out"], encoding="utf-8", errors="surrogateescape") as file:
                return json.load(file)
        return {"failed": failed or "gdb gave no result: " + last_line(base + ".log")}

    def new_record(self):
        """Path of the record that the last run wrote, or None."""
        found = sorted(os.listdir(self.records))
        found = [name for name in found if name.endswith(".crash")]
        return os.path.join(self.records, found[-1]) if found else None


def last_line(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def call(command, environment, log, seconds_max, folder=None):
    """Runs a command in a process group of its own, and ends that when the time is over. '' or what went wrong."""
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                               start_new_session=True, cwd=folder)
    try:
        process.wait(timeout=seconds_max)
        return ""
    except subprocess.TimeoutExpired:
        return f"it did not end within {seconds_max} s"
    finally:
        end_group(process)


def end_group(process):
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        pass
    process.wait()
