"""Finds out whether programs can be watched here, for the tests of ci/replay."""

import os
import re
import shutil
import subprocess
import sys


def refused():
    """Why gdb cannot watch programs, in one line; '' if it can. ptrace may be forbidden, or debug registers in use."""
    for name in ("gdb", "setarch", "addr2line", "readelf"):
        if not shutil.which(name):
            return f"{name} is not installed"
    command = [
        "gdb",
        "-nx",
        "-batch",
        "-ex",
        "starti",
        "-ex",
        "watch -l *(long *)($sp - 64)",
        "-ex",
        "continue",
        "/bin/true",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
    said = done.stdout + done.stderr
    if re.search(r"^Hardware watchpoint \d+: ", said, re.MULTILINE) and "Could not insert" not in said:
        return ""
    faults = re.findall(r"^.*(?:ptrace|not permitted|not insert|Error|Cannot|failed).*$", said, re.MULTILINE)
    return "gdb cannot watch a program here: " + (faults[0] if faults else f"exit status {done.returncode}")


def rr_refused():
    """Why the rr in PATH cannot record here; '' if it can."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "replay"))
    import rr  # pylint: disable=import-outside-toplevel

    return rr.Command(None, None).probe()
