"""Starts and ends the processes of ci/replay: gdb with the program of a report, always at the same addresses, with the
environment, arguments, directory and standard input of the record; and, by call(), rr and valgrind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

from worker import BEGIN, PROGRESS

HERE = os.path.dirname(os.path.abspath(__file__))
CALLS_BYTES = 48 * ((1 << 20) + 1) + 64 * (1 << 20)  # the calls, and their stacks; mostly a hole
RUNS_MIN = 3  # one run may take this part of the seconds at most

# Replaces the debugger's child by the program, because gdb's own way to set arguments uses a shell.
WRAPPER = """#!{python} -ISE
import json, os, sys
with open({path!r}, encoding="utf-8") as file:
    start = json.load(file)
os.chdir(start["directory"])
os.dup2(os.open(start["input"], os.O_RDONLY), 0)
bytes_of = lambda text: text.encode("utf-8", "surrogateescape")
os.closerange(3, 256)
os.execve(sys.argv[1], [bytes_of(one) for one in start["arguments"]],
          dict(bytes_of(one).split(b"=", 1) for one in start["environment"] if "=" in one))
"""


class NotFound(Exception):
    """Why a method found nothing, in one line."""


class Lost(NotFound):
    """The evidence is gone, so no other method can find it either."""


class Unseen(NotFound):
    """A value got into memory without a visible store, after a number of calls of malloc."""

    def __init__(self, address, calls):
        super().__init__(
            f"no instruction was seen to write the last value to {address:#x}: a system call such as read did"
        )
        self.calls = calls


class Raced(NotFound):
    """No run repeats the crash, but one shows two threads that free one block."""

    def __init__(self, history, symbols, rows):
        super().__init__("two threads freed one block")
        self.history, self.symbols, self.rows = history, symbols, rows


class Budget:
    """The seconds that all methods share. Tells worker.PROGRESS what is being done."""

    def __init__(self, seconds, say):
        now = time.monotonic()
        self.end, self.say = max(BEGIN, now - seconds / 2) + seconds, say
        self.share = seconds / RUNS_MIN
        self.doing("reads the record")

    def doing(self, text):
        PROGRESS.doing(text, end=self.end)

    def left(self):
        left = self.end - time.monotonic()
        if left <= 0:
            raise NotFound("the time is over; --seconds gives more")
        return left

    def of_run(self):
        """The seconds that one run may take."""
        return min(self.left(), self.share)


# --- processes and their ends ------------------------------------------------------------------------------------------


def end_children():
    """Ends every process below this one, including orphans that it has adopted."""
    for _ in range(100):
        below = descendants(os.getpid())
        if not below:
            return
        for process in below:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        time.sleep(0.01)


def descendants(root):
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                pass
    found, more = set(), {root}
    while more:
        more = {process for process, parent in parents.items() if parent in more} - found
        found |= more
    return found


def call(command, environment, log, seconds_max, folder=None, input_path=os.devnull):
    """Runs a command in its own process group, and ends the group when the time is over. Returns '' or what went
    wrong."""
    with open(input_path, "rb") as standard_input:
        process = subprocess.Popen(
            command, env=environment, stdin=standard_input, stdout=log, stderr=log, start_new_session=True, cwd=folder
        )
    try:
        process.wait(timeout=seconds_max)
        return ""
    except subprocess.TimeoutExpired:
        return f"it did not end within {seconds_max:.0f} s"
    finally:
        end_group(process)


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def last_line(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().strip().splitlines()
    return lines[-1] if lines else "it said nothing"


# --- the program of a report -----------------------------------------------------------------------------------------


class Launcher:
    """Runs of one report's program. folder: keeps their files; library_calls: libreplay-calls.so or None; input_path:
    the file for standard input; added: variables for the environment."""

    def __init__(self, report, folder, library_calls, budget, input_path=os.devnull, added=()):
        self.report, self.arguments, self.folder = report, report.rerun_arguments(), folder
        self.budget, self.runs, self.library_calls, self.was_slow = budget, 0, library_calls, False
        self.input_path, self.added = input_path, list(added)
        self.records = os.path.join(folder, "records")
        self.calls = os.path.join(folder, "hakmem-replay-calls")
        os.makedirs(self.records, exist_ok=True)
        self.wrapper = os.path.join(folder, "start")
        self.write_wrapper()

    def environment(self):
        """The report's environment, with the log of calls preloaded, and crash records in this folder. Added variables
        come last."""
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

    def write_wrapper(self, more=()):
        """more: variables for the next runs only."""
        start = os.path.join(self.folder, "start.json")
        with open(start, "w", encoding="utf-8") as file:
            json.dump(
                {
                    "arguments": self.arguments,
                    "environment": self.environment() + list(more),
                    "directory": self.report.directory,
                    "input": os.path.abspath(self.input_path),
                },
                file,
            )
        python = os.path.realpath(sys.executable)
        with open(self.wrapper, "w", encoding="utf-8") as file:
            file.write(WRAPPER.format(python=python, path=start))
        os.chmod(self.wrapper, 0o700)

    def clear(self):
        """Each run finds the same files: no earlier run may change what a later one does."""
        shutil.rmtree(self.records)
        os.mkdir(self.records)
        with open(self.calls, "wb") as file:
            file.truncate(CALLS_BYTES)

    def gdb_command(self, script):
        return [
            "setarch",
            "-R",
            "gdb",
            "-nx",
            "-batch",
            "-ex",
            "set startup-with-shell on",
            "-ex",
            f"set exec-wrapper {self.wrapper}",
            "-ex",
            "set disable-randomization on",
            "-x",
            os.path.join(HERE, script),
            "--",
            self.report.program,
        ]

    def gdb_environment(self, task):
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": self.folder,
            "LC_ALL": "C.UTF-8",
            "SHELL": "/bin/sh",
            "HAKMEM_REPLAY_TASK": task,
        }

    def run(self, script, task, what):
        """One run under gdb; returns the script's result, or {'failed': TEXT}. what: shown to the user if the run takes
        long."""
        self.runs += 1
        self.clear()
        base = os.path.join(self.folder, f"run{self.runs}")
        task = {"out": base + ".result.json", **task}
        with open(base + ".task.json", "w", encoding="utf-8") as file:
            json.dump(task, file)
        self.budget.doing(f"run {self.runs}: {what}")
        with open(base + ".log", "wb") as log:
            failed = call(
                self.gdb_command(script), self.gdb_environment(base + ".task.json"), log, self.budget.of_run()
            )
        self.was_slow = failed != ""
        self.budget.doing("thinks about what was seen")
        if os.path.exists(task["out"]):
            with open(task["out"], encoding="utf-8", errors="surrogateescape") as file:
                return json.load(file)
        return {"failed": failed or "gdb gave no result: " + last_line(base + ".log")}

    def new_record(self):
        """Path of the record that the last run wrote, or None. Of several, the first, since later ones may be
        consequences."""
        found = [os.path.join(self.records, name) for name in os.listdir(self.records) if name.endswith(".crash")]
        return min(found, key=lambda path: os.stat(path).st_mtime_ns, default=None)
