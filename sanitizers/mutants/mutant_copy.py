"""The copy of the checkout that ci/mutants works on, its build trees, and the results of tests. See ci/mutants.

The copy is made of the files that git knows or does not ignore, each written only where it differs, so that a build
tree of the copy compiles what a patch changes and no more.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess


class Stop(Exception):
    """Bad input: one line, exit status 2."""


def git(root, *arguments):
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)


def tracked(root):
    found = git(root, "ls-files", "-co", "--exclude-standard", "-z")
    if found.returncode != 0:
        raise Stop(f"{root} is no checkout of git: {found.stderr.strip()}")
    return [name for name in found.stdout.split("\0") if name and (pathlib.Path(root) / name).is_file()]


class Copy:
    def __init__(self, root, work):
        self.root, self.tree = pathlib.Path(root), pathlib.Path(work) / "tree"

    def sync(self, names):
        for name in names:
            source, target = self.root / name, self.tree / name
            data = source.read_bytes()
            if target.is_file() and target.read_bytes() == data:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            shutil.copymode(source, target)

    def make(self):
        """Makes the copy equal to the checkout: files that are gone there are removed here too."""
        names = tracked(self.root)
        self.sync(names)
        keep = set(names)
        for path in self.tree.rglob("*"):
            name = path.relative_to(self.tree).as_posix()
            if path.is_file() and not name.startswith("build/") and name not in keep:
                path.unlink()

    def apply(self, mutant):
        """Applies a patch. Git must not find the checkout around the copy. Returns its message if the patch does not apply."""
        done = subprocess.run(
            ["git", "apply", "-p1", str(mutant.path.resolve())],
            cwd=self.tree,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(self.tree.resolve().parent)},
        )
        return None if done.returncode == 0 else first_line(done.stderr)

    def folder(self, tree):
        return self.tree / "build" / tree

    def build(self, tree, targets):
        """None, or what went wrong."""
        folder = self.folder(tree)
        if not (folder / "build.ninja").exists():
            done = subprocess.run(
                ["cmake", "--preset", tree], cwd=self.tree, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                return first_line(done.stderr) or "cmake failed"
        if not targets:
            return None
        done = subprocess.run(
            ["cmake", "--build", str(folder), "--target", *targets], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return None
        return next((line for line in done.stdout.splitlines() if "error:" in line), "the build failed")

    def targets(self, mutant):
        """The files of the build tree that the test's commands name."""
        if mutant.targets:
            return mutant.targets
        folder = str(self.folder(mutant.tree).resolve())
        if mutant.kind == "run":
            words = [str(pathlib.Path(folder) / mutant.test[0])]
        else:
            # Not from ctest --show-only: that leaves out the command of a test whose program is not built yet.
            words = [
                line
                for path in self.folder(mutant.tree).rglob("CTestTestfile.cmake")
                for line in path.read_text(encoding="utf-8").splitlines()
                if (test := re.match(r'add_test\((?:\[=*\[|")?(.+?)(?:\]=*\]|")? "', line))
                and re.search(mutant.test, test[1])
            ]
        names = set()
        for word in words:
            for path in re.findall(re.escape(folder) + r"/([\w.+-]+)(?![\w.+/-])", word):
                names.add(re.sub(r"^lib(.*)\.so$", r"\1", path))
        return sorted(names)


def first_line(text):
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def end_session(leader):
    """Ends a test that hangs, and the processes that it started. ctest gives each test a process group of its own, but
    all of them are in the session that began with this process."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            session = int(stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[3])
            if session == leader:
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except (OSError, IndexError, ValueError):
            continue  # it has ended meanwhile


SIGNS = (
    r"WARNING: (ThreadSanitizer: [\w -]+)",
    r"ERROR: (AddressSanitizer: [\w-]+)",
    r"(hakmem: failfast: \w+)",
    r"\[  FAILED  \] ([\w./]+)",
    r"^FAILED: ([^\n]{,60})",
    r"\*\*\*(Timeout)",
    r"\*\*\*Exception: (\w+)",
    r"Subprocess (aborted|killed)",
)


def failed_test(output):
    """The first test in ctest's list of failed ones, or "" if it printed none."""
    failed = re.search(r"^\s*\d+ - (\S+) \(", output, re.MULTILINE)
    return failed[1] if failed else ""


def by_what(output):
    """The test that failed, and the first sign of why."""
    sign = next((match[1] for match in (re.search(sign, output, re.MULTILINE) for sign in SIGNS) if match), "")
    if sign == "Timeout":
        sign = "hangs"
    return ": ".join(part for part in (failed_test(output), sign) if part) or "exit status"
