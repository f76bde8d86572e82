"""A crash report as ci/replay uses it: read through hakmem-stress report --json, and checked against the files that it
names. Bad input raises BadInput, whose text is one line for the user."""

import json
import os
import re
import subprocess

SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 11: "SIGSEGV"}


class BadInput(Exception):
    """The user's input cannot be used; the text says why, and how to correct it."""


class Report:
    """The record, as Python values: numbers for addresses."""

    def __init__(self, path, data):
        self.path, self.data = path, data
        self.signal = data["signal"]["number"]
        self.code = data["signal"]["code"]
        self.fault = number(data["signal"]["fault_address"])
        self.frames = data["frames"]
        self.program = data["program"]["path"] or ""
        self.library = data["library"]["path"] or ""
        self.version = data["library"]["version"] or ""
        self.arguments = data["arguments"]
        self.environment = data["environment"]
        self.directory = data["directory"] or ""
        self.standard_input = data.get("standard_input") or ""
        self.forked = bool(data.get("forked")) if data.get("forked") is not None else None
        self.sender = data["signal"].get("sender", data.get("signal_sender"))
        self.registers = {name: number(value) for name, value in data["registers"].items()}
        suspect = data["suspect"]
        self.suspect = suspect and {
            "address": number(suspect["address"]),
            "value": number(suspect["value"]),
            "text": suspect["text"],
            "copies": [number(copy) for copy in suspect["copies"]],
        }
        self.failfast = data.get("failfast")
        self.guards = data["guards"]

    def signal_name(self):
        return SIGNALS.get(self.signal, f"signal {self.signal}")

    def signature(self):
        """What a re-run must repeat: the signal, and the instruction at which it came."""
        frame = self.frames[0] if self.frames else {"module": "", "offset": "0x0"}
        module = os.path.realpath(frame["module"]) if frame["module"] else ""
        return {"signal": self.signal, "module": module, "offset": number(frame["offset"])}

    def where(self):
        frame = self.frames[0] if self.frames else {"function": "", "module": "", "offset": "?"}
        if not frame["module"]:
            return f"no module, at {frame.get('pc', '?')}"
        return f"{frame['function'] or '?'} ({os.path.basename(frame['module'])}+{frame['offset']})"

    def stack(self):
        """The frames in the form of the rest of ci/replay; each inlined function is a separate frame."""
        return [row for frame in self.frames for row in rows_of(frame)]

    def is_validate(self):
        return self.version.endswith("validate")

    def is_suite(self):
        return os.path.basename(self.program) == "hakmem-stress"

    def is_seeded(self):
        return self.data["schedule_hash"] is not None

    def damaged_word(self):
        """The word that a failed check found to be overwritten, or None."""
        bad = number(self.failfast.get("bad_address")) if self.failfast else None
        return bad & ~7 if bad else None

    def damages_program(self):
        """Whether that word belongs to the program or to a frame, and is not a link of a free list."""
        return self.damaged_word() is not None and self.failfast["kind"].startswith("write_")

    def failfast_start(self):
        """The start of the block that a failed check was about; None if unknown."""
        return number(self.failfast["block_start"]) if self.failfast else None

    def words_to_read(self, again):
        """Addresses whose words matter at the crash, in a run whose record is `again`."""
        if again is None:
            return []
        return [word for word in (again.damaged_word(), again.suspect and again.suspect["address"]) if word]

    def rerun_arguments(self):
        """argv for the re-run. If hakmem-stress drew its own seed, the re-run gets the seed of the record."""
        arguments = list(self.arguments)
        seed = self.data["seed"]
        is_told = any(one == "--seed" or one.startswith("--seed=") for one in arguments)
        if self.is_suite() and seed is not None and not is_told:
            arguments += ["--seed", str(seed)]
        return arguments

    def wants_input(self):
        """Whether the program had a standard input that a re-run does not get by itself."""
        return self.standard_input.startswith(("pipe:", "socket:", "/dev/pts", "/dev/tty"))


def rows_of(frame):
    """A frame of the record as rows {pc, function, file, line, module, offset}."""
    base = {
        "pc": number(frame["pc"]),
        "module": os.path.realpath(frame["module"]) if frame["module"] else "",
        "offset": number(frame["offset"]),
    }
    lines = frame["lines"] or [{"function": frame["function"], "file": "", "line": 0}]
    return [{**base, "function": line["function"], "file": line["file"], "line": line["line"]} for line in lines]


def number(text):
    return None if text is None else int(text, 16) if isinstance(text, str) else text


def read(path, stress):
    """The Report of a file. Raises BadInput."""
    if not os.path.exists(path):
        raise BadInput(f"'{path}' is not there; name a file HAKMEM_CRASH_DIR/hakmem-PID-TID-N.crash")
    try:
        done = subprocess.run([stress, "report", path, "--json", "-"], capture_output=True, timeout=60, check=False)
    except FileNotFoundError:
        raise BadInput(
            f"'{stress}' is not there; build it (cmake --preset release && cmake --build --preset release), "
            "or name the tree by --build DIR"
        ) from None
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise BadInput(lines[0].removeprefix("hakmem-stress: ") if lines else f"'{path}' cannot be read as a report")
    return Report(path, json.loads(done.stdout.decode(errors="surrogateescape")))


def build_id(path):
    """The GNU build id of a file, or '' if it has none."""
    done = subprocess.run(
        ["readelf", "-n", path], capture_output=True, text=True, timeout=60, check=False, errors="replace"
    )
    match = re.search(r"Build ID: ([0-9a-f]+)", done.stdout)
    return match[1] if match else ""


def check_file(what, known):
    """known: path and build id, and in newer records also the size and the time of the last change."""
    path, identity = known["path"], known["build_id"]
    if not os.path.exists(path):
        raise BadInput(f"the {what} '{path}' of the report is not there any more; put it back where it was")
    now = build_id(path)
    if identity and now != identity:
        raise BadInput(
            f"the {what} '{path}' is not the one that crashed: its build id is {now[:16] or 'none'}, the "
            f"report's {identity[:16]}; put that build back"
        )
    if identity or known.get("size_bytes") is None:
        return
    status = os.stat(path)
    if status.st_size != known["size_bytes"] or status.st_mtime_ns != known["mtime_ns"]:
        raise BadInput(
            f"the {what} '{path}' has changed since the crash (it has no build id, and its size or time differ); "
            "put that build back with its time, as cp -p does, or link with -Wl,--build-id"
        )


def check(report, input_path):
    """Checks that the report can be run again: raises BadInput if a file has changed or a part of the report was
    cut."""
    if not report.program:
        raise BadInput(f"'{report.path}' does not say which program it is of: it cannot be run again")
    check_file("program", report.data["program"])
    if report.library and report.library != report.program:
        check_file("library", report.data["library"])
    if not os.path.isdir(report.directory):
        raise BadInput(f"the directory '{report.directory}' in which the program ran is not there any more; make it")
    cut = [name for name in ("arguments", "environment") if name in report.data["cut"]]
    if cut or not report.arguments:
        raise BadInput(f"the report's {' and '.join(cut) or 'arguments'} were cut: the program cannot be run as it was")
    if not report.frames:
        raise BadInput("the report has no program counter: nothing to compare a re-run with")
    if input_path and not os.path.isfile(input_path):
        raise BadInput(f"--stdin '{input_path}' is no file; name one that holds what the program read")


def value_class(value):
    """A word for what a bad value looks like. It is the same in each run, whatever the addresses."""
    if value is None:
        return "none"
    text = value.to_bytes(8, "little")
    if value < 4096:
        return "small"
    if all(32 <= byte < 127 for byte in text):
        return "text"
    if 0 < value >> 47 < 0x1FFFF:
        return "no address"
    return "address"
