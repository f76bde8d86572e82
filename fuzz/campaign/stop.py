"""Ctrl-C, or SIGTERM: the fuzzers are told to end, nothing is raised, and so everything is kept and summed up.

A fuzzer has a session of its own, so that it hears of Ctrl-C once, from here, and its children with it. It is told again
every second until it has ended: libFuzzer's -fork does not hear it while a child merges, and starts the next job."""

import os
import signal
import subprocess

AGAIN_SECONDS = 1.0
requested = False
_running = []


def _stop(*_):
    global requested
    requested = True
    for process in _running:
        _tell(process)
    if _running:
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)


def _tell(process):
    try:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
    except ProcessLookupError:
        pass


def install():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, _stop)


def start(command, **how):
    """A fuzzer as a child; it ends at once where that was asked for before it began."""
    process = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, **how)
    _running.append(process)
    if requested:
        _stop()
    return process


def end(process):
    """Waits for the child, told to end; its exit status."""
    _tell(process)
    return wait(process)


def wait(process):
    status = process.wait()
    _running.remove(process)
    return status
