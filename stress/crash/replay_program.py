"""The crash programs of the folder programs/, for the tests of ci/replay: what the head of a source says (program.h),
runs of a program until it leaves a record, and whether an answer of ci/replay is right."""

import glob
import os
import re
import resource
import select
import signal
import subprocess
import time

import replay_marks

LIBRARIES = {"release": "libhakmem.so", "validate": "libhakmem-validate.so"}
GRADES = {"not_found": 0, "likely": 1, "found": 2}
PROGRAM_SECONDS_MAX = 60
STACK_BYTES = 8 << 20
SCRIPT = """#!/bin/sh
# What starts the program, with words that a shell must not take apart.
PROGRAM_MODE='a b=c' '{program}' --level 'the second one' ''
echo "status $?"
"""


class Program:
    """A source, and what its head says."""

    def __init__(self, source, build):
        self.source, self.name = source, os.path.splitext(os.path.basename(source))[0]
        self.path = os.path.join(build, "program-" + self.name)
        with open(source, encoding="utf-8") as file:
            head = re.findall(r"^// (\w+): (.*)$", file.read(), re.MULTILINE)
        self.stdin = "".join(text + "\n" for key, text in head if key == "stdin")
        self.run = next((text.split() for key, text in head if key == "run"), ["plain"])
        self.variables = dict(text.split("=", 1) for key, text in head if key == "set")
        self.options = [word for key, text in head if key == "build" for word in text.split()]
        self.expected = {}
        for text in (text for key, text in head if key == "expect"):
            words = dict(word.split("=") for word in text.split())
            for library in LIBRARIES if words["library"] == "both" else (words["library"],):
                self.expected[library] = (words["cause"].split(","), words["grade"], float(words.get("seconds", "inf")))


def limit_stack():
    """Sets the stack to the size that most machines have, so that a program that overflows its stack does so here
    too."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, hard))


def crash(program, library, build, folder):
    """Runs a program until all of its processes have ended. Returns its records, and how it ended."""
    os.makedirs(folder + "/records")
    with open(folder + "/stdin", "w", encoding="utf-8") as file:
        file.write(program.stdin)
    command = [program.path]
    if program.run[0] == "sh":
        with open(folder + "/start.sh", "w", encoding="utf-8") as file:
            file.write(SCRIPT.format(program=program.path))
        command = ["/bin/sh", folder + "/start.sh"]
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HAKMEM_CRASH_DIR": folder + "/records",
        "LD_PRELOAD": os.path.join(build, LIBRARIES[library]),
        **program.variables,
    }
    open_here, open_there = os.pipe()  # ends when the last process that holds it ends
    try:
        with open(folder + "/stdin", "rb") as given, open(folder + "/output", "wb") as out:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdin=given,
                stdout=out,
                stderr=out,
                pass_fds=(open_there,),
                preexec_fn=limit_stack,
            )
        os.close(open_there)
        if program.run[0] == "signal":
            send(process, program.run[1], folder + "/output")
        ended = select.select([open_here], [], [], PROGRAM_SECONDS_MAX)[0]
        if not ended:
            process.kill()
        status = process.wait()
    finally:
        os.close(open_here)
    return sorted(glob.glob(folder + "/records/*.crash")), status if ended else None


def send(process, name, path):
    deadline = time.monotonic() + PROGRAM_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        with open(path, encoding="utf-8") as file:
            if "ready" in file.read():
                process.send_signal(getattr(signal, name))
                return
        time.sleep(0.02)


def places(program, frame):
    """(function, file, line) that a frame may mean. A stripped program's frame is only an offset, which is looked up in
    the unstripped copy."""
    found = [(frame.get("function"), frame.get("file"), frame.get("line"))]
    symbols = program.path + ".symbols"
    if not os.path.exists(symbols) or os.path.realpath(frame.get("module") or "") != program.path:
        return found
    offset = frame.get("offset", 0)
    offset = int(offset, 16) if isinstance(offset, str) else offset
    lines = subprocess.run(
        ["addr2line", "-C", "-f", "-i", "-e", symbols, hex(offset), hex(max(offset - 1, 0))],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.splitlines()
    for function, place in zip(lines[::2], lines[1::2]):
        path, line = place.split(" ")[0].rsplit(":", 1)
        found.append((function, path, int(line) if line.isdigit() else 0))
    return found


def is_right(program, frame):
    return any(replay_marks.is_marked(program.source, *place) for place in places(program, frame))


def frame_text(frame):
    if frame is None:
        return "-"
    line = f":{frame['line']}" if frame.get("line") else f"+{frame.get('offset')}"
    return f"{replay_marks.plain(frame.get('function')) or '?'}{line}"


def judge(program, library, status, result):
    """(grade, cause, culprit's text, verdict's word, why the run fails or '')."""
    causes, least, _ = program.expected[library]
    if result is None:
        return "none", "-", "-", "missing", "ci/replay took too long" if status is None else f"exit status {status}"
    verdict = result.get("verdict") or {}
    grade = (result.get("grade") or ("found" if result.get("found") else "not found")).replace(" ", "_")
    cause = result.get("cause") or verdict.get("cause") or "-"
    frame = verdict.get("culprit")
    others = result.get("alternatives") or verdict.get("alternatives") or []
    others = [one.get("frame") or one.get("culprit") or one for one in others]
    text = frame_text(frame)
    if "grade" in result and status != {"found": 0, "likely": 3, "not_found": 1}[grade]:
        return grade, cause, text, "missing", f"exit status {status} and grade {grade}"
    right = frame is not None and is_right(program, frame)
    if grade == "found" and frame is not None and not right:
        return grade, cause, text, "WRONG", f"it names {text}"
    if not replay_marks.marks(program.source):  # no line of the program is at fault
        right = frame is None
    elif grade == "likely" and any(is_right(program, one) for one in others):
        right = True
    if GRADES[grade] < GRADES[least]:
        word = "weak" if right else "missing"
        return grade, cause, text, word, f"grade {grade} where {least} is expected: {result.get('why')}"
    if grade != "not_found" and not right:
        return grade, cause, text, "unsure", f"{text} and its alternatives are not marked"
    if cause != "-" and cause not in causes:
        return grade, cause, text, "right", f"the cause {cause} and not {' or '.join(causes)}"
    return grade, cause, text, "right", ""
