"""usage: test_table.py ROOT TREE...

The table of ci/test from build/TREE/junit.xml (by ctest) and build/TREE/ci-status (by ci/test: what went wrong outside
of a test). Counts a tree without a result as one failure. Exit 1 where anything failed.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as xml

SKIPS = ("SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION", "Disabled")


def reason(message, output):
    """Why a test was skipped: the line that it printed for it, else what ctest says."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if re.search(r": Skipped$", line) and index + 1 < len(lines):  # GTEST_SKIP() << reason
            return lines[index + 1]
    for line in reversed(lines):
        if re.search(r"\bskip", line, re.IGNORECASE) and not line.startswith("["):
            return re.sub(r"^.*?\bskipped:\s*", "", line)
    return f"{lines[-1]} ({message})" if lines else f"no reason given ({message})"


class Tree:
    def __init__(self, root, name):
        self.name = name
        self.seconds = 0.0
        self.passed = 0
        self.failed = []
        self.skipped = {}
        folder = root / "build" / name
        status = folder / "ci-status"
        trouble = status.read_text(encoding="utf-8").strip() if status.exists() else ""
        self.empty = trouble.startswith("none:")
        if (folder / "junit.xml").exists():
            for case in xml.parse(folder / "junit.xml").getroot().iter("testcase"):
                self.case(case)
        if trouble and not self.empty and not self.failed:
            self.failed.append(trouble)
        if not trouble and self.run() == 0:
            self.failed.append("no test ran")

    def case(self, case):
        name = case.get("name").split("  # ")[0]  # without the parameter that GoogleTest adds
        self.seconds += float(case.get("time") or 0)
        skip = case.find("skipped")
        message = skip.get("message") or "" if skip is not None else ""
        if case.get("status") == "run" and skip is None and case.find("failure") is None:
            self.passed += 1
        elif skip is not None and message.startswith(SKIPS):
            text = reason(message, case.findtext("system-out") or "")
            self.skipped.setdefault(text, []).append(name)
        else:
            failure = case.find("failure")
            text = failure.get("message") if failure is not None else message or case.get("status")
            self.failed.append(f"{name}: {text or 'failed'}")

    def skips(self):
        return sum(map(len, self.skipped.values()))

    def run(self):
        return self.passed + len(self.failed) + self.skips()


def main():
    root = pathlib.Path(sys.argv[1])
    trees = [Tree(root, name) for name in sys.argv[2:]]
    none_ran = all(tree.run() == 0 for tree in trees)
    print()
    print(f"{'tree':12} {'run':>5} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}  logs")
    for tree in trees:
        logs = f"build/{tree.name}/Testing" if not tree.empty else "no test with this label"
        print(f"{tree.name:12} {tree.passed + len(tree.failed):5} {tree.passed:7} {len(tree.failed):7} {tree.skips():8} "
              f"{tree.seconds:8.1f}  {logs}")
    for tree in trees:
        for text, names in sorted(tree.skipped.items()):
            print(f"skipped in {tree.name}, {len(names)}: {text}")
            print(f"    {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}")
    for tree in trees:
        for text in tree.failed:
            print(f"FAILED in {tree.name}: {text}")
    failed = sum(len(tree.failed) for tree in trees)
    if none_ran:
        print("FAILED: no tree has a test with this label")
        failed += 1
    print(f"{sum(tree.passed for tree in trees)} passed, {failed} failed, {sum(tree.skips() for tree in trees)} skipped")
    return 1 if failed else 0


sys.exit(main())
