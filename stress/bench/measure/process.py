"""Runs one program and says what it took: time, faults and memory, of itself and the processes that it starts."""

import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time

from measure.fault import Broken

TIMEOUT_S = 300
SAMPLE_S = 0.005
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


def resident_kib(pid):
    """0 if the process is gone."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * PAGE_KIB
    except (OSError, IndexError, ValueError):
        return 0


def family(pid):
    """A process and its descendants."""
    found = [pid]
    for parent in found:
        try:
            for task in pathlib.Path(f"/proc/{parent}/task").iterdir():
                found += [int(word) for word in (task / "children").read_text(encoding="ascii").split()]
        except OSError:
            pass  # the process or one of its threads has ended
    return found


def maps_library(pid, path):
    try:
        return path in pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


class Watch(threading.Thread):
    """Samples resident memory until stop(). `end_kib` is what the process with the highest peak had last."""

    def __init__(self, pid, library):
        super().__init__(daemon=True)
        self.pid, self.library = pid, library
        self.peaks, self.last, self.preloaded = {}, {}, not library
        self.done = threading.Event()
        self.start()

    def run(self):
        while not self.done.wait(SAMPLE_S):
            for pid in family(self.pid):
                kib = resident_kib(pid)
                if kib:
                    self.last[pid] = kib
                    self.peaks[pid] = max(kib, self.peaks.get(pid, 0))
                    self.preloaded = self.preloaded or maps_library(pid, self.library)

    def stop(self):
        self.done.set()
        self.join()

    @property
    def end_kib(self):
        return self.last[max(self.peaks, key=self.peaks.get)] if self.peaks else 0


def run(command, environment, library, folder, stdin, server=None):
    """{"seconds", "cpu_seconds", "peak_kib", "end_kib", "faults"}, and "p99_ms", "p999_ms" of a server. Raises Broken if
    the program fails, or if the library was never mapped in it."""
    with tempfile.TemporaryFile() as errors, open(stdin or os.devnull, "rb") as source:
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=source,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        killer = threading.Timer(TIMEOUT_S, os.killpg, (process.pid, signal.SIGKILL))
        killer.start()
        watch = Watch(process.pid, library)
        measured = {}
        try:
            if server:
                measured = server(folder, lambda: resident_kib(process.pid))
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            killer.cancel()
            watch.stop()
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode != 0:
            errors.seek(0)
            said = errors.read()[-4000:].decode("utf-8", "replace").strip().splitlines() or ["it said nothing"]
            raise Broken(f"{command[0]} ended with {process.returncode} after {seconds:.1f} s: {said[-1][:200]}")
    if not watch.preloaded:
        raise Broken(f"{command[0]} never had {library} mapped: the preload takes no effect in it")
    return {
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_kib": usage.ru_maxrss,
        "end_kib": watch.end_kib,
        "faults": usage.ru_minflt,
        **measured,
    }
