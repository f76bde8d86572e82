"""Calls ci/replay, for its tests. If a call takes too long, it is ended with everything that it has started."""

import glob
import os
import signal
import subprocess

REPLAY = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../ci/replay"))


def knows(option):
    """Whether ci/replay has an option, according to its help, which is the head of the script."""
    with open(REPLAY, encoding="utf-8") as file:
        return option in file.read()


def descendants(pid):
    """All descendants of a process."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path, encoding="utf-8") as file:
                children = [int(word) for word in file.read().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def end(process):
    kill([*descendants(process.pid), process.pid])
    process.wait()


def end_with_children(number, _frame):
    """A handler for SIGTERM, which ctest and timeout send: also ends everything that this test has started."""
    kill(descendants(os.getpid()))
    raise SystemExit(128 + number)


def call(words, seconds_max, **more):
    """Exit status (None: it took too long), standard output, standard error."""
    process = subprocess.Popen(
        [REPLAY, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    )
    try:
        out, err = process.communicate(timeout=seconds_max)
        status = process.returncode
    except subprocess.TimeoutExpired:
        end(process)
        out, err = process.communicate()
        status = None
    except BaseException:
        end(process)
        raise
    return status, out.decode(errors="replace"), err.decode(errors="replace")
