"""Runs the suite on one version, and compares the broken one with the mended one."""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import tempfile
import time
import xml.etree.ElementTree


TRIES = {"concurrency": 3}  # by kind of bug
FAILED = ("fail", "memory cap")  # words of a check's "status" in the JSON of conform


class Seen:
    """What one command said of one library: the names of what failed and of what was skipped."""

    def __init__(self, failed=None, skipped=(), seconds=0.0, fault=""):
        self.details = failed or {}  # {what failed: how}
        self.failed, self.skipped, self.seconds, self.fault = set(self.details), set(skipped), seconds, fault


def of_conform(result):
    checks = json.loads(result)["checks"]
    failed = {check["id"]: check.get("detail", "") for check in checks if check["status"] in FAILED}
    return failed, [check["id"] for check in checks if check["status"] not in ("pass", *FAILED)]


def of_scenario(result):
    run = json.loads(result)
    skipped = [run["scenario"]] if run["verdict"] == "skip" else []
    return {failure["rule"]: failure.get("detail", "") for failure in run.get("failures", [])}, skipped


def of_inject(result):
    failed, skipped = {}, []
    for case in xml.etree.ElementTree.fromstring(result).iter("testcase"):
        if case.find("failure") is not None:
            text = case.find("failure").get("message") or ""
            failed[re.split(r"[:\s]", text, maxsplit=1)[0] or "fail"] = text
        if case.find("skipped") is not None:
            skipped.append(case.get("name"))
    return failed, skipped


def run_words(stress, words, library, seconds, option="--json"):
    """(result, seconds, fault, status): what a command of the suite wrote, or None and why it wrote nothing."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "result"
        words = [str(stress), *words, "--allocator", str(library), option, str(out)]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
        started = time.monotonic()
        child = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, cwd=folder, start_new_session=True
        )
        try:
            text = child.communicate(timeout=seconds)[0].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return None, seconds, f"ran past {seconds:.0f} s", None
        taken = time.monotonic() - started
        if child.returncode not in (0, 1) or not out.is_file():
            return None, taken, complaint(child.returncode, text), child.returncode
        return out.read_text(), taken, "", child.returncode


def run_suite(stress, command, library, seconds):
    words = shlex.split(command)
    reader, option = {"conform": (of_conform, "--json"), "inject": (of_inject, "--junit")}.get(
        words[0], (of_scenario, "--json")
    )
    if words[0] == "conform":
        words += ["--memory-cap", "2048"]
    result, taken, fault, status = run_words(stress, words, library, seconds, option)
    if result is None:
        return Seen(seconds=taken, fault=fault)
    failed, skipped = reader(result)
    if status == 1 and not failed:
        failed = {"fail": ""}
    return Seen(failed, skipped, taken)


def run_tries(stress, row, library, seconds):
    """A race comes by chance: such a row runs until it fails, three times at most. The mended version, which must pass,
    runs as often as one that was missed."""
    taken = 0.0
    for _ in range(TRIES.get(row.kind, 1)):
        seen = run_suite(stress, row.command, library, seconds)
        taken += seen.seconds
        if seen.failed or seen.fault:
            break
    seen.seconds = taken
    return seen


def complaint(status, text):
    """Why the suite could not run the library, without a path of this machine."""
    needs = re.search(r"version `([\w.]+)' not found", text)
    if needs:
        return f"it needs {needs[1]}, which this machine does not have"
    lines = [line for line in text.splitlines() if line.strip()] or ["no output"]
    return f"exit status {status}: {lines[-1].strip()[:160]}"


def shown(detail):
    """One line of how it failed, without addresses and folders of libraries, which differ from run to run."""
    line = re.sub(r"(?<![\w.~-])/(?:[\w.+~:-]+/)*(?=lib[\w.+~-]*\.so)", "", " ".join(detail.split()))
    return re.sub(r"0x[0-9a-f]{9,15}\b", "ADDRESS", line)[:150]


def verdict(broken, mended):
    """{result, by, seconds, reason} of a row, from what was seen of both versions."""
    seconds = broken.seconds + mended.seconds
    told = sorted(broken.failed - mended.failed - mended.skipped)
    if mended.fault and not broken.fault:
        return dict(result="cannot", by="", seconds=seconds, reason=f"the mended version: {mended.fault}")
    if broken.fault:
        return dict(result="cannot", by="", seconds=seconds, reason=f"the broken version: {broken.fault}")
    if told:
        return dict(result="found", by=", ".join(told), seconds=seconds, reason=shown(broken.details[told[0]]))
    if broken.failed & mended.failed:
        both = ", ".join(sorted(broken.failed & mended.failed))
        return dict(result="unclear", by="", seconds=seconds, reason=f"{both}: the mended version fails, too")
    if broken.failed:
        return dict(
            result="unclear", by="", seconds=seconds, reason=f"{', '.join(sorted(broken.failed))}: skipped when mended"
        )
    skipped = f"skipped: {', '.join(sorted(broken.skipped))}" if broken.skipped else "passes on both"
    return dict(result="missed", by="", seconds=seconds, reason=skipped)
