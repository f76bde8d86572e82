"""Tracers that go back in time: a session of reverse_script.py under rr's recording of a run (rr.py), or under gdb's
own recording (record full). They answer the same questions as rerun.Rerun."""

import json
import os
import shutil
import socket
import subprocess
import tempfile

from history import History
from launch import HERE, NotFound, end_group, last_line
from rerun import Rerun
from symbols import Symbols

# gdb cannot record AVX, which the C library and the dynamic linker's lazy binding use if the processor has it.
PLAIN = (
    "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX,-AVX_Fast_Unaligned_Load,-ERMS,-XSAVE,-XSAVEC,-AVX512VL,"
    "-AVX2_Usable,-AVX_Usable",
    "LD_BIND_NOW=1",
)


CRASHES = "SIGSEGV SIGBUS SIGABRT SIGFPE SIGILL"


class Session:
    """A tracer. command, environment: start gdb with reverse_script.py as its -x script. again: the record of the run
    that the session replays, or of a run at the same addresses."""

    can_note_unmaps = False

    def __init__(self, name, report, again, launcher, start, plain, stress):
        """plain: a launcher for separate runs."""
        self.plain, self.stress, self.runs = plain, stress, None
        self.name, self.report, self.again, self.launcher, self.start = name, report, again, launcher, start
        self.budget = launcher.budget
        self.log = self.crash = self.process = self.stream = None
        self.at_crash = False
        self.moves = []

    def open(self, command, environment):
        self.folder = tempfile.mkdtemp(prefix="s.", dir="/tmp")  # the path of a socket must be short
        try:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(self.folder + "/s")
            listener.listen(1)
            path = os.path.join(self.launcher.folder, "session.task.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(
                    {
                        "socket": self.folder + "/s",
                        "expect": self.report.signature(),
                        "fault": self.fault(),
                        "read": self.report.words_to_read(self.again),
                        "start": self.start,
                        "allocator": self.allocator(),
                    },
                    file,
                )
            self.log_path = os.path.join(self.launcher.folder, "session.log")
            with open(self.log_path, "wb") as log:
                self.process = subprocess.Popen(
                    command,
                    env={**environment, "HAKMEM_REPLAY_TASK": path},
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            self.connect(listener)
            self.go_to_crash()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)  # whether or not the socket exists

    def allocator(self):
        return os.path.realpath(self.report.library) if self.report.library else ""

    def fault(self):
        return self.again.fault if self.again else None

    def connect(self, listener):
        listener.settimeout(1)
        self.budget.doing(f"{self.name} starts")
        with listener:
            while True:
                try:
                    line = listener.accept()[0]
                    self.stream, self.line = line.makefile("rw", encoding="utf-8", errors="surrogateescape"), line
                    return
                except TimeoutError:
                    if self.process.poll() is not None:
                        raise NotFound("gdb did not start: " + last_line(self.log_path)) from None
                    self.budget.left()

    def ask(self, what, **question):
        self.budget.doing(f"{self.name} {what}")
        self.line.sendall((json.dumps(question) + "\n").encode())
        self.line.settimeout(1)
        text = b""
        while not text.endswith(b"\n"):
            try:
                more = self.line.recv(1 << 20)
            except TimeoutError:
                self.budget.left()
                continue
            if not more:
                raise NotFound("gdb ended: " + last_line(self.log_path))
            text += more
        answer = json.loads(text)
        if isinstance(answer, dict) and "failed" in answer:
            about = "gdb's recording, of one thread and not of every instruction, failed: "
            raise NotFound(
                (about if self.start == "record" and "record" in answer["failed"] else "") + answer["failed"]
            )
        return answer

    def go_to_crash(self):
        log = self.ask("goes to the crash", do="crash")
        if log["crash"] is None:
            raise NotFound(log["ended"])
        if self.log is None:
            self.log, self.crash = log, log["crash"]
        self.at_crash, self.moves = True, []

    def last_store(self, cell, bound=None):
        """The last store of its value into a cell before the hit `bound`, or else before the crash. None: there is
        none."""
        self.go_to(bound)
        self.at_crash = False
        hit = self.ask(
            f"goes back to the last store to {cell['address']:#x}",
            do="store",
            cell=cell,
            same=False,
            below=(bound or {}).get("calls_below"),
        )
        if hit is not None:
            hit["bound"] = bound
        self.moves.append(hit)
        return hit

    def settle(self, cell, hit, bound=None):
        """A store of the value that the cell already had, after the last store that changed it (hit, or None); and
        whether all such stores were seen."""
        try:
            self.go_to(bound)
            self.at_crash, self.moves = False, [None]
            last = self.ask(
                f"goes back through the accesses to {cell['address']:#x}",
                do="store",
                cell=cell,
                same=True,
                below=(bound or {}).get("calls_below"),
            )
        except NotFound as reason:
            self.budget.say(str(reason))
            return None, False
        if last is None or "unsettled" in last:
            return None, last is None
        last.update(bound=bound, is_same=True)
        return (
            None
            if hit is not None and last["calls"] == hit["calls"] and last["stack"][0]["pc"] == hit["stack"][0]["pc"]
            else last,
            True,
        )

    def go_to(self, bound):
        """Goes to the crash, or to the hit `bound`. If the session has moved since that hit, goes the way back
        again."""
        if bound is not None and "calls_below" in bound:
            bound = None
        if bound is None and not self.at_crash or bound is not None and self.moves[-1:] != [bound]:
            self.go_to_crash()
            for hit in self.path_to(bound):
                self.ask("goes back", do="store", cell=hit["cell"], same=hit.get("is_same", False), below=None)
                self.at_crash = False

    @staticmethod
    def path_to(bound):
        path = []
        while bound is not None:
            path.insert(0, bound)
            bound = bound.get("bound")
        return path

    def loads(self, pc):
        """What the last runs of an instruction read, first to last: [address, value, registers]; and the origin of the last
        one's pointer, or None."""
        answer = self.go_through(pc)
        return [row for row in answer["rows"] if row[0] is not None], answer["origin"]

    def go_through(self, pc):
        if not self.at_crash:
            self.go_to_crash()
        self.at_crash, self.moves = False, [None]
        return self.ask("goes back through a loop", do="loads", pc=pc)

    def held(self, pc):
        """As Rerun.held."""
        return [[address, held] for address, _, held in self.go_through(pc)["rows"]]

    def changed(self, variable, address=None):
        """Like rerun.Rerun.changed: makes plain runs under gdb if those repeat the crash; otherwise raises NotFound."""
        if self.runs is None:
            self.runs = Rerun(self.report, self.plain, self.stress, 1, self.budget.say)
        return self.runs.changed(variable, address)

    def calls(self):
        return self.launcher.calls

    def history(self):
        return History(self.launcher.calls)

    def symbols(self):
        return Symbols(self.log["maps"])

    def close(self):
        if self.process is None:
            return
        if self.stream is not None:
            self.line.close()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            pass
        end_group(self.process)


def of_gdb(report, again, launcher, plain, stress):
    """A session on one run of the program, in which gdb records each instruction."""
    launcher.clear()
    launcher.runs += 1
    session = Session("gdb", report, again, launcher, "record", plain, stress)
    session.open(launcher.gdb_command("reverse_script.py"), launcher.gdb_environment(""))
    return session


def of_rr(report, again, launcher, rr, plain, stress):
    """A session on rr's recording. rr: the command that replays it, up to gdb's arguments. rr connects gdb before the
    first -ex; a script given by itself would run earlier."""
    session = Session("rr", report, again, launcher, "", plain, stress)
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": os.environ.get("HOME", "/"),
        "LC_ALL": "C.UTF-8",
    }
    session.open(
        [
            *rr,
            "--",
            "-nx",
            "-batch",
            "-ex",
            "handle all nostop noprint pass",
            "-ex",
            f"handle {CRASHES} stop print pass",
            "-ex",
            "continue",
            "-x",
            os.path.join(HERE, "reverse_script.py"),
        ],
        environment,
    )
    return session
