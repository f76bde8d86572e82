"""Ends the fuzzers on Ctrl-C or SIGTERM. No exception is raised, so everything is kept and summed up.

Each fuzzer has its own session, so that it and its children get Ctrl-C only once, from here. It is asked again every
second until it has ended, because libFuzzer's -fork ignores the signal while a child merges, and starts the next job.
"""

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
    """Starts a fuzzer as a child. It ends at once if that was requested before it started."""
    process = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, **how)
    _running.append(process)
    if requested:
        _stop()
    return process


def end(process):
    """Waits for a child that was asked to end; returns its exit status."""
    _tell(process)
    return wait(process)


def wait(process):
    status = process.wait()
    _running.remove(process)
    return status
