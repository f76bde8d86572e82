"""A find: reduces it, prints it, and saves it with the command that reproduces it."""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MINIMISE_SECONDS = 60
REPORT_LINES = 24
RUN_SECONDS_MAX = 120

# Patterns for the part of a report that says what broke, in order: the first match counts. Its groups form the rule's
# name, and its whole text is in the report of every input that fails in the same way.
RULES = (
    re.compile(r"^find: (\w+):", re.MULTILINE),
    re.compile(r"^hakmem: failfast: (\w+)", re.MULTILINE),
    re.compile(r"SUMMARY: \w+Sanitizer: ([\w-]+)"),
    re.compile(r"libFuzzer: ([\w-]+)"),
)


class Report:
    """What a run left behind: the input, and the output."""

    def __init__(self, data, text):
        self.data = data
        self.text = text


def rule_of(text):
    """(name of the broken rule, text that every such report contains)."""
    for pattern in RULES:
        match = pattern.search(text)
        if match is not None:
            return re.sub(r"\W", "_", match[1].lower()), match[0]
    return "exit_status", ""


def run(target, data):
    """(whether the input fails, the output)."""
    with tempfile.TemporaryDirectory(prefix="hakmem-fuzz.") as folder:
        path = Path(folder, "input")
        path.write_bytes(data)
        try:
            done = subprocess.run(
                [*target.runner, str(path)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=RUN_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired as late:
            return True, (late.stdout or b"").decode(errors="replace") + "\nlibFuzzer: timeout\n"
        return done.returncode != 0, done.stdout


def minimise_bytes(target, data, says):
    """libFuzzer's own reduction, to fewer bytes. Takes only inputs that fail in the same way."""
    with tempfile.TemporaryDirectory(prefix="hakmem-fuzz.") as folder:
        path = Path(folder, "input")
        path.write_bytes(data)
        command = [
            str(target.libfuzzer),
            "-minimize_crash=1",
            f"-max_total_time={MINIMISE_SECONDS}",
            f"-artifact_prefix={folder}/",
            str(path),
        ]
        subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder
        )
        # libFuzzer accepts any crash on its way, so take the smallest input that still fails in the first way.
        for candidate in sorted(Path(folder).glob("minimized-from-*"), key=lambda one: one.stat().st_size):
            small = candidate.read_bytes()
            fails, text = run(target, small)
            if len(small) <= len(data) and fails and says in text:
                return small
    return data


def reduce_ops(target, data, says):
    """Reduces op by op; returns (smaller input, its text program)."""
    with tempfile.TemporaryDirectory(prefix="hakmem-fuzz.") as folder:
        path, out = Path(folder, "input"), Path(folder, "small")
        path.write_bytes(data)
        environment = dict(os.environ)
        # A symbolizer would take most of the time of hundreds of runs, and prints nothing that is compared.
        environment["ASAN_OPTIONS"] = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "symbolize=0")))
        environment["UBSAN_OPTIONS"] = ":".join(filter(None, (os.environ.get("UBSAN_OPTIONS"), "symbolize=0")))
        tool = target.build / "fuzz-op-reduce"
        done = subprocess.run(
            [
                str(tool),
                str(path),
                "--shape",
                target.shape,
                "--run",
                target.runner[0],
                "--has",
                says,
                "--out",
                str(out),
                "--seconds",
                str(MINIMISE_SECONDS),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=folder,
        )
        if done.returncode == 0 and out.is_file():
            return out.read_bytes(), done.stdout
        print(f"fuzz: {target.name}: not made smaller: {done.stderr.strip()}", file=sys.stderr)
        return data, program_of(target, data)


def program_of(target, data):
    """The input as a text program."""
    with tempfile.NamedTemporaryFile(prefix="hakmem-fuzz.") as file:
        file.write(data)
        file.flush()
        return subprocess.run(
            [str(target.build / "fuzz-op-reduce"), file.name, "--shape", target.shape],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout


def note_of(target, name, program, report, command):
    shown = "\n".join(line for line in report.splitlines() if line.strip())
    lines = [
        f"# {name}",
        "",
        f"Target: {target.name}",
        "",
        f"Reproduce: `{command}`",
        "",
        "Cause: (not known yet: write it here)",
        "",
    ]
    if program:
        lines += ["```", program.rstrip(), "```", ""]
    start = first_line(shown)
    lines += ["```", *(line[:200] for line in shown.splitlines()[start : start + REPORT_LINES]), "```", ""]
    return "\n".join(lines)


def first_line(report):
    """Index of the line at which the report begins, after the fuzzer's own lines."""
    for index, line in enumerate(report.splitlines()):
        if re.search(r"^find: |^hakmem: failfast|ERROR: |runtime error: |^=+$", line):
            return index
    return 0


# Frames of the fuzzer and of libc's abort, and libFuzzer's advice.
NOISE = re.compile(
    r"in fuzzer::|libc_start|in _start |libc\.so|/nptl/|nptl/|raise\.c|abort\.c|__sanitizer_print_stack|^NOTE: |^ +Combine "
)


def plain(text, target, options):
    """The report without parts that differ between runs and machines."""
    text = re.sub(r"==\d+==\s*", "", text)
    text = re.sub(r" *\(BuildId: \w+\)", "", re.sub(r"/tmp/hakmem-fuzz\.\w+/", "", text))
    text = text.replace(str(target.build) + "/", "").replace(str(options.root) + "/", "")
    return "\n".join(line for line in text.splitlines() if not NOISE.search(line))


def handle(target, report, options, rules):
    """Reduces the find, prints it, and writes NAME.bin and NAME.md, unless its rule is already in `rules`; then adds
    the rule."""
    fails, text = run(target, report.data)
    if not fails:
        # It may need earlier runs in the same process; it is a find all the same.
        text = report.text
    rule, says = rule_of(text)
    if rule in rules:
        return
    rules.add(rule)
    data, program = report.data, ""
    if fails and target.shape:
        data, program = reduce_ops(target, data, says)
    elif target.shape:
        program = program_of(target, data)
    elif fails:
        data = minimise_bytes(target, data, says)
    if fails:
        text = run(target, data)[1]
    name = f"{target.name}_{rule}_{hashlib.sha256(data).hexdigest()[:8]}"
    options.finds.mkdir(parents=True, exist_ok=True)
    path = options.finds / f"{name}.bin"
    path.write_bytes(data)
    tree = os.path.relpath(target.runner[0], options.root)
    program_word = tree if not tree.startswith("..") else target.runner[0]
    input_word = os.path.relpath(path, options.root)
    command = f"{program_word} {input_word if not input_word.startswith('..') else path}"
    note = note_of(target, name, program, plain(text, target, options), command)
    (options.finds / f"{name}.md").write_text(note, encoding="utf-8")
    print(f"{target.name}: FIND: {rule}: {path} ({len(data)} bytes)" + ("" if fails else ", which does not fail alone"))
    print(program or data[:256].hex(), end="" if program.endswith("\n") else "\n")
    print(f"reproduce: {command}", flush=True)
