"""usage: verdicts_self_test.py

Tests the exit statuses of ci/test, ci/judge and ci/apps/run for every outcome of their parts, alone and beside a part that
passes: they end with 0 only if each part has passed. cmake, ctest and hakmem-stress are small scripts here, in a copy of ci/.
Exit status 1 if one is wrong.
"""

import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

CI = pathlib.Path(__file__).resolve().parents[1]
TIERS = """\
tree one default
  what: a tree
tree two default
  what: another one
"""
CASE = '<testsuite><testcase name="unit/A" status="{}" time="0">{}</testcase></testsuite>'
PASSED = CASE.format("run", "")
# The outcome of a tree: what ctest leaves as junit.xml (None: nothing), its exit status, and whether ci/test should pass.
TREES = {
    "passes": (PASSED, 0, True),
    "skips": (CASE.format("notrun", '<skipped message="SKIP_RETURN_CODE=77"/>'), 0, True),
    "fails": (CASE.format("fail", '<failure message="no"/>'), 8, False),
    "cannot run": (CASE.format("notrun", '<skipped message="Unable to find executable"/>'), 8, False),
    "passes, but ctest fails": (PASSED, 1, False),
    "ctest leaves nothing": (None, 1, False),
    "runs nothing": ("<testsuite></testsuite>", 0, False),
    "has no test": (None, 0, True),  # with a label; beside another tree
    "does not build": (None, 0, False),
}
PASSES = "passes"


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/bash\n" + textwrap.dedent(text), encoding="utf-8")
    path.chmod(0o755)


class Verdicts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hakmem-verdicts-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        (self.root / "ci").mkdir()
        for name in ("test", "judge", "apps", "lib"):
            copy = shutil.copytree if (CI / name).is_dir() else shutil.copy
            copy(CI / name, self.root / "ci" / name)
        script(self.root / "ci/setup", "exit 0\n")
        script(self.root / "bin/renice", "exit 0\n")
        script(self.root / "bin/cmake", '[[ "$*" != *"--build"* ]] || [ ! -e "${2}/breaks" ]\n')

    def run_it(self, *words):
        """(exit status, the last line of stdout)"""
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            [str(self.root / words[0]), *words[1:]],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.root,
            env={**os.environ, "PATH": path, "TMPDIR": str(self.root)},
        )
        return done.returncode, (done.stdout.strip().splitlines() or [""])[-1]

    def trees(self, outcomes):
        """Makes the trees: each has a result of before, by which it passed."""
        (self.root / "ci/tiers").write_text(TIERS, encoding="utf-8")
        for tree, outcome in zip(("one", "two"), outcomes):
            folder = self.root / "build" / tree
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / "junit.xml").write_text(PASSED, encoding="utf-8")
            listed = "" if outcome == "has no test" else '{"name": "unit/A"}'
            (folder / "listed").write_text(f'{{"tests": [{listed}]}}', encoding="utf-8")
            junit, status, _ = TREES[outcome]
            if junit is not None:
                (folder / "leaves").write_text(junit, encoding="utf-8")
            (folder / "status").write_text(f"{status}\n", encoding="utf-8")
            if outcome == "does not build":
                (folder / "breaks").touch()
        script(
            self.root / "bin/ctest",
            """\
            if [ "$3" = --show-only=json-v1 ]; then exec cat "$2/listed"; fi
            if [ -e "$2/leaves" ]; then cat "$2/leaves" >"$2/junit.xml"; fi
            exit "$(cat "$2/status")"
            """,
        )

    def test_ci_test_passes_only_if_each_tree_has(self):
        second = ["does not build", "ctest leaves nothing", "has no test"]  # what is built beside another tree's tests
        alone = [(each, PASSES) for each in TREES] + [(PASSES, each) for each in second]
        for outcomes in [*alone, ("has no test", "has no test")]:
            self.trees(outcomes)
            good = all(TREES[each][2] for each in outcomes) and set(outcomes) != {"has no test"}
            with self.subTest(outcomes):
                self.assertEqual(self.run_it("ci/test")[0], 0 if good else 1)

    def test_ci_judge_ends_with_the_worst_of_both_parts(self):
        library = self.root / "malloc.so"
        library.touch()
        for conform, all_of_them in itertools.product((0, 1, 2, 139), repeat=2):
            script(
                self.root / "build/release/hakmem-stress",
                f"""\
                if [ "$1" = conform ]; then echo {{}} >"$5"; exit {conform}; fi
                exit {all_of_them}
                """,
            )
            expected = next((each for each in (conform, all_of_them) if each > 1), max(conform, all_of_them))
            with self.subTest(conform=conform, all=all_of_them):
                status, said = self.run_it("ci/judge", str(library))
                self.assertEqual(status, expected)
                self.assertEqual(said, {0: "PASS", 1: "FAIL"}.get(expected, ""))

    def test_an_app_passes_only_if_both_runs_leave_the_same_and_no_process_stays(self):
        library = self.root / "malloc.so"
        library.touch()
        runs = {
            "one": "echo 1 >a",
            "another": "echo 2 >a",
            "more": "echo 1 >a; echo 1 >b",
            "none": ":",
            "fails": "echo 1 >a; false",
        }
        for first, second in itertools.product(runs, repeat=2):
            script(
                self.root / "ci/apps/toy.sh",
                f"""\
                app_needs() {{ echo true; }}
                app_probe() {{ :; }}
                app_run() {{
                    sleep 60 >/dev/null 2>&1 &
                    echo $! >>{self.root}/sleepers
                    if [ -z "$preload" ]; then {runs[first]}; else {runs[second]}; fi
                }}
                """,
            )
            with self.subTest(libc=first, library=second):
                good = first == second and first not in ("none", "fails")
                self.assertEqual(self.run_it("ci/apps/run", "toy", str(library))[0], 0 if good else 1)
        self.assertEqual(list(self.root.glob("hakmem-apps.*")), [], "temporary folders")
        sleepers = (self.root / "sleepers").read_text(encoding="utf-8").split()
        self.assertGreater(len(sleepers), len(runs) ** 2)
        stay = [each for each in sleepers if pathlib.Path(f"/proc/{each}/stat").exists() and self.is_alive(each)]
        self.assertEqual(stay, [])

    def is_alive(self, process):
        stat = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
        return stat.rpartition(")")[2].split()[0] != "Z"


if __name__ == "__main__":
    sys.exit(unittest.main())
