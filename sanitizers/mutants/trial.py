"""Runs the tests of a build tree one by one, without ctest: which mutants each comes to, how long it takes, and whether it
fails with a mutant. A slow test whose program can run one of its cases alone is run case by case (parts)."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile
import threading
import time

from mutant_copy import Stop, by_what, end_session

MUTANTS_MAX = 65536  # mutant_id.h
HANG_FACTOR, HANG_SECONDS_MIN = 8, 4.0
TRIES = 3
SKIPPED = "it is skipped"


@dataclasses.dataclass
class Test:
    name: str
    command: list
    folder: str
    variables: dict
    properties: dict
    seconds: float = 0.0
    reached: bytes = b""  # byte N: whether it came to mutant N; empty: not known
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def limit_s(self):
        return max(HANG_SECONDS_MIN, HANG_FACTOR * self.seconds)

    def comes_to(self, number):
        return not self.reached or self.reached[number] != 0

    def part(self, name, command):
        return dataclasses.replace(self, name=f"{self.name}:{name}", command=command, lock=threading.Lock())


def read_tests(tree, selected):
    """The tests of a build tree whose names fit the expression."""
    done = subprocess.run(
        ["ctest", "--test-dir", str(tree), "--show-only=json-v1"], capture_output=True, text=True, check=False
    )
    try:
        rows = json.loads(done.stdout)["tests"]
    except (ValueError, KeyError) as error:
        raise Stop(f"ctest lists no tests of {tree}: {done.stderr.strip()[:200]}") from error
    found = []
    for row in rows:
        properties = {each["name"]: each["value"] for each in row["properties"]}
        if not re.search(selected, row["name"]) or not row.get("command"):
            continue
        variables = dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
        found.append(Test(row["name"], row["command"], properties["WORKING_DIRECTORY"], variables, properties))
    return found


def output_of(test, command):
    done = subprocess.run(
        command, cwd=test.folder, env={**os.environ, **test.variables}, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def gtest_parts(test):
    at = next((at for at, word in enumerate(test.command) if word.startswith("--gtest_filter=")), None)
    if at is None:
        return []
    found, suite = [], ""
    for line in output_of(test, [*test.command, "--gtest_list_tests"]).splitlines():
        name = line.partition("#")[0].strip()
        if line.startswith("  ") and not name.startswith("DISABLED_"):
            command = [*test.command[:at], f"--gtest_filter={suite}{name}", *test.command[at + 1 :]]
            found.append(test.part(suite + name, command))
        elif not line.startswith(" ") and name.endswith("."):
            suite = name
    return found


def conform_parts(test):
    if test.command[1:2] != ["conform"] or "--only" in test.command:
        return []
    listed = output_of(test, [*test.command, "--list"]).splitlines()
    ids = [line.split()[0] for line in listed if re.match(r"[a-z0-9]+(-[a-z0-9]+)* {2,}\S", line)]
    return [test.part(each, [*test.command, "--only", each]) for each in ids]


def explore_parts(test):
    words = test.command
    if pathlib.Path(words[0]).name != "hakmem-explore" or "--scenario" in words:
        return []
    if "--visits" in words:  # a file that all cases would write
        at = words.index("--visits")
        words = words[:at] + words[at + 2 :]
    names = re.findall(r"(?m)^(\S+) +\d", output_of(test, [words[0], "--list"]))
    return [test.part(each, [*words, "--scenario", each]) for each in names]


def unittest_parts(test):
    script = next((word for word in test.command if word.endswith("_test") and pathlib.Path(word).is_file()), None)
    if script is None or "-k" in test.command:
        return []
    text = pathlib.Path(script).read_bytes()
    if not text.startswith(b"#!/usr/bin/env python3") or b"unittest.main(" not in text:
        return []
    names = [each.decode() for each in re.findall(rb"(?m)^    def (test_\w+)\(", text)]
    return [test.part(name, [*test.command, "-k", f"*.{name}"]) for name in names]


def parts(test):
    """The cases of a test as tests of their own; none where its program cannot run one alone."""
    if test.properties.get("PASS_REGULAR_EXPRESSION") or test.properties.get("WILL_FAIL"):
        return []
    return gtest_parts(test) or conform_parts(test) or explore_parts(test) or unittest_parts(test)


def prepare():
    """In the test's process: no core files, and the signals that a shell ignores for what it starts in the background."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for each in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(each, signal.SIG_DFL)


def run(test, variables, limit_s):
    """(None if the test passed, else by what it failed; seconds; whether it was skipped)."""
    environment = {**os.environ, **test.variables, **variables, "GTEST_FAIL_FAST": "1"}
    begin = time.monotonic()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory(prefix="hakmem-mutant-") as folder:
        environment["TMPDIR"] = folder
        try:
            process = subprocess.Popen(
                test.command,
                cwd=test.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=prepare,
            )
        except OSError as error:
            return str(error), 0.0, False
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        seconds = time.monotonic() - begin
        if status is None or status < 0:
            end_session(process.pid)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        output.seek(0)
        text = output.read(1 << 20).decode(errors="replace")
    if status is None:
        return "hangs", seconds, False
    expected = test.properties.get("PASS_REGULAR_EXPRESSION")
    refused = test.properties.get("FAIL_REGULAR_EXPRESSION", [])
    skips = test.properties.get("SKIP_REGULAR_EXPRESSION", [])
    if status == test.properties.get("SKIP_RETURN_CODE", -1000) or any(re.search(each, text) for each in skips):
        return None, seconds, True
    # ctest splits an expression at a semicolon, and a dot fits an end of line
    passed = re.search(";".join(expected), text, re.DOTALL) is not None if expected else status == 0
    if any(re.search(each, text) for each in refused):
        passed = False
    if test.properties.get("WILL_FAIL"):
        passed = not passed
    if passed:
        return None, seconds, False
    if status < 0:
        names = {each.value: each.name for each in signal.Signals}  # a real-time signal has none
        return names.get(-status, f"signal {-status}"), seconds, False
    return by_what(text), seconds, False


def measure(test, file):
    """Fills in a test's time and what it comes to. None, or why it cannot be used."""
    file.write_bytes(bytes(MUTANTS_MAX))
    limit_s = float(test.properties.get("TIMEOUT", 300))
    failed, test.seconds, skipped = run(test, {"HAKMEM_MUTANTS_REACHED": str(file)}, limit_s)
    if skipped:
        return SKIPPED
    test.reached = file.read_bytes()
    if failed is None:
        return None
    first = failed
    failed, test.seconds, skipped = run(test, {}, limit_s)
    if failed is not None or skipped:
        return f"it fails without a mutant: {failed or first}"
    test.reached = b""  # recording disturbs it, so it tries every mutant
    return None


def free_first(tests):
    """The tests in their order, but those that another worker runs at the moment wait for the next that is free."""
    left = list(tests)
    while left:
        at = next((at for at, test in enumerate(left) if not test.lock.locked()), 0)
        yield left.pop(at)


def killed_by(numbers, tests, note, is_late=lambda: False):
    """The first test that fails with the mutants, passes without them at once, and why it failed; (None, "") if none does;
    (None, "late") if that is not known in time."""
    chosen = ",".join(map(str, numbers))
    for test in free_first(tests):
        if is_late():
            return None, "late"
        with test.lock:
            for _ in range(TRIES):
                failed, _, skipped = run(test, {"HAKMEM_MUTANT": chosen}, test.limit_s())
                if failed is None or skipped:
                    break
                without, _, _ = run(test, {}, test.limit_s())
                if without is None:
                    return test.name, failed
                note(f"{test.name} also fails without a mutant ({without}); it is tried again")
    return None, ""
