"""Runs hakmem-bench, and keeps each run with the command line that repeats it."""

import json
import shlex
import subprocess

from measure.fault import BadInput, Broken
from measure.options import say

TIMEOUT_S = 600


def leave_out(case, subject, where, fault, results):
    """A malloc that is not ours and does not survive a run is left out of the case, with a line. results is the case's
    dictionary of results by malloc. Raises the fault where the malloc is ours."""
    if subject.ours:
        raise fault
    say(f"{subject.name} is out of {where}: {fault}")
    case["failed"][subject.name] = str(fault)
    results.pop(subject.name)


class Runner:
    """Runs programs of the tree `build`; `runs` has all runs, in order."""

    def __init__(self, build):
        self.program = build / "hakmem-bench"
        if not self.program.is_file():
            raise BadInput(f"there is no {self.program}: build it, or leave out --build")
        self.runs = []
        listed = json.loads(self.execute([str(self.program), "list", "--json"], None)[0])
        self.rows = {row["name"]: row for row in listed["run"]}
        self.cells = listed["cells"]
        self.rss_rows = {row["name"]: row for row in listed["rss"]}

    def execute(self, command, subject, **more):
        """Runs a command with a subject preloaded; returns its stdout and the record of the run. Raises Broken if it
        fails. Several threads may call it at the same time."""
        shown = shlex.join([*(subject.command_prefix() if subject else []), *command])
        try:
            done = subprocess.run(
                command,
                env=subject.environment() if subject else None,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise Broken(f"did not end in {TIMEOUT_S} s: {shown}") from None
        except OSError as error:
            raise Broken(f"cannot run {command[0]}: {error.strerror}") from None
        if done.returncode != 0:
            how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise Broken(f"{how} of: {shown}: {said}")
        record = {"allocator": subject.name if subject else None, "command": shown, **more}
        if subject:
            self.runs.append(record)
        return done.stdout, record

    def row_command(self, row, threads, ops):
        return [str(self.program), "run", row, "--threads", str(threads), "--ops", str(ops)]

    def time(self, subject, row, threads, ops, **more):
        """The JSON object of one run of a row."""
        return self.object(self.row_command(row, threads, ops), subject, **more)

    def memory(self, subject, row, **more):
        """{moment: KiB} of one memory row."""
        return self.object([str(self.program), "rss", row], subject, **more)["kib"]

    def object(self, command, subject, **more):
        """The JSON object that a command prints."""
        said, record = self.execute(command, subject, **more)
        try:
            record["result"] = json.loads(said)
        except ValueError:
            raise Broken(f"no JSON from: {record['command']}") from None
        return record["result"]
