"""The command ci/replay as two processes, so that no process outlives it and it is never silent for long.

The process that the user started forks before it imports what the work needs. From then on it only waits, passes signals
on, and prints a line if none was printed for SILENT_SECONDS. Only this process prints such lines. So they come whatever
the other one does: start an interpreter, run gdb, or read millions of logged calls. The other process is the worker. It
adopts the processes that its children leave behind, and ends all of them (launch.end_children)."""

import mmap
import os
import signal
import struct
import sys
import time

SILENT_SECONDS = 3
LOOK_SECONDS = 0.2
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Ended(Exception):
    """A signal asks ci/replay to end."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


class Progress:
    """What the worker does, since when and until when at most, and when a line was last printed: in memory that both
    processes see. A new text goes into the row that is not shown, so that the other process reads no half of one."""

    ROW = struct.Struct("ddH400s")
    ROWS_AT = 16

    def __init__(self, begin, clock=time.monotonic):
        self.clock, self.memory = clock, mmap.mmap(-1, self.ROWS_AT + 2 * self.ROW.size)
        self.said(begin)
        self.doing("starts", begin)

    def said(self, now=None):
        struct.pack_into("d", self.memory, 0, self.clock() if now is None else now)

    def doing(self, text, begin=None, end=0.0):
        row = 1 - self.memory[8]
        data = text.encode(errors="replace")[:400]
        begin = self.clock() if begin is None else begin
        self.ROW.pack_into(self.memory, self.ROWS_AT + row * self.ROW.size, begin, end, len(data), data)
        self.memory[8] = row

    def line(self):
        """What to print now; None: a line was printed a short time ago."""
        now = self.clock()
        if now - struct.unpack_from("d", self.memory)[0] < SILENT_SECONDS:
            return None
        at = self.ROWS_AT + self.memory[8] * self.ROW.size
        begin, end, size, data = self.ROW.unpack_from(self.memory, at)
        most = f", at most {max(0, end - begin):.0f} s" if end else ""
        return f"{data[:size].decode(errors='ignore')}: {max(0, now - begin):.0f} s so far{most}"


def begin_of_process():
    """When this process began, in the time of the monotonic clock. On a busy machine the interpreter alone takes seconds
    to start."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    return time.monotonic() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


BEGIN = begin_of_process()
PROGRESS = Progress(BEGIN)


def say(text):
    PROGRESS.said()
    print(f"replay: {text}", file=sys.stderr, flush=True)


def tell(*_):
    """A handler, which may interrupt itself: so it does not use a stream of Python's."""
    line = PROGRESS.line()
    if line:
        PROGRESS.said()
        try:
            os.write(2, f"replay: {line}\n".encode(errors="backslashreplace"))
        except OSError:
            pass  # nobody reads


def become_worker():
    """Returns in the process that does the work. The other process ends here, with the worker's exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as a parent may leave it, no process tells how it ended
    # Blocked until the processes can act on them, so that no signal is lost between the two.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    first = os.getpid()
    worker = os.fork()
    if worker == 0:
        import ctypes  # pylint: disable=import-outside-toplevel

        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        for number in ENDING:
            signal.signal(number, end_once)
        if os.getppid() != first:
            os._exit(128 + signal.SIGTERM)
        return
    for number in ENDING:
        signal.signal(number, lambda number, _: os.kill(worker, number))
    signal.signal(signal.SIGALRM, tell)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*ENDING, signal.SIGALRM))
    signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
    status = os.waitpid(worker, 0)[1]
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def let_signals_end():
    """The worker calls this when it can act on the signals that end it; they wait until then."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def end_once(number, _):
    for other in ENDING:
        signal.signal(other, signal.SIG_IGN)
    raise Ended(number)
