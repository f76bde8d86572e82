"""usage: select_tests_self_test.py

Tests which tests a change and a tier select. Exit status 1 if one is wrong.
"""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "lint"))

import lint
import select_tests


class Tiers(unittest.TestCase):
    TABLE = [select_tests.Row("default release soak[.]  a row"), select_tests.Row("all release slow$ another row")]

    def tier(self, name, labels=()):
        return select_tests.tier_of(self.TABLE, "release", name, set(labels))

    def test_the_first_row_that_fits_decides(self):
        self.assertEqual(
            [self.tier("soak.slow"), self.tier("slow"), self.tier("slower")], ["default", "all", "default"]
        )

    def test_no_row_brings_a_soak_into_the_default_tier(self):
        self.assertEqual([self.tier("soak.one", ["soak"]), self.tier("soak.two", ["nightly"])], ["all", "all"])


class Changes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hakmem-select-")
        self.addCleanup(folder.cleanup)
        of_caller = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("GIT_")}  # in a hook
        self.addCleanup(os.environ.update, of_caller)
        self.root, before = pathlib.Path(folder.name), select_tests.ROOT
        self.addCleanup(setattr, select_tests, "ROOT", before)
        select_tests.ROOT = self.root
        self.git("init", "--quiet")
        self.write("stress/crash/moved.c", "int moved;\n" * 50)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "first")

    def git(self, *words):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", self.root, *who, *words], check=True, stdin=subprocess.DEVNULL)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def changed(self):
        """The targets, the expression for names, and the paths."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertEqual(select_tests.changed("HEAD"), 0)
        return said.getvalue().splitlines()

    def test_a_file_that_is_not_committed(self):
        self.write("alloc/guard/new.c", "")
        targets, match, paths = self.changed()
        self.assertIn("guard-program", targets.split())
        self.assertIn("crash[.]guard$", match)
        self.assertEqual(paths, "alloc/guard/new.c")

    def test_lints_of_changed_files(self):
        """A file that differs or is new, and every file if a rule changed."""
        names = ["new.c", "stress/crash/moved.c", "rule"]
        chosen = lambda: lint.changed_files(self.root, names, "HEAD", ["rule"])
        self.assertEqual(chosen(), [])
        self.write("new.c", "")
        self.assertEqual(chosen(), ["new.c"])
        self.write("stress/crash/moved.c", "")
        self.assertEqual(chosen(), names[:2])
        self.write("rule", "")
        self.assertEqual(chosen(), names)

    def test_a_moved_file_concerns_both_folders(self):
        (self.root / "fuzz").mkdir()
        self.git("mv", "stress/crash/moved.c", "fuzz/moved.c")
        targets, _, paths = self.changed()
        self.assertEqual(paths, "fuzz/moved.c stress/crash/moved.c")
        self.assertLessEqual({"fuzz-test", "crash-program"}, set(targets.split()))

    def test_a_line_of_the_heap_runs_what_the_default_tier_runs(self):
        """What is left to --all is run only for a change in the folder that it tests."""
        names = {
            "unit-release/Profile.seeds": None,
            "unit-release/pages.16384": "alloc/os/new.c",
            "override/modules-pprof": "alloc/profile/new.c",
            "unit/ForkEveryStep.all": None,
            "lint.workflows": ".github/new.yml",
            "unit/ForkEveryStep": "alloc/slab/new.c",
            "lint.growth": None,
            "lint.bench_counts": None,
            "lint.contention": None,
            "lint.bench_few": "alloc/slab/new.c",
            "override/hakmem": "alloc/slab/new.c",
            "override/hakmem-filter": ("alloc/os/new.c", "alloc/profile/new.c", "alloc/heap/new.c"),
            "override/modules": ("alloc/os/new.c", "alloc/profile/new.c"),
            "override/interpose": ("alloc/os/new.c", "alloc/profile/new.c", "alloc/heap/new.c", "alloc/cache/new.c"),
            "conform.hakmem": ("alloc/heap/new.c", "stress/conform/new.cc"),
            "conform-unit.Conform.PassesWithoutABug": "stress/conform/new.cc",
            "explore.two_threads": None,
            "lint.words": "docs/new.md",
            "lint.words_self_test": "ci/lint/new",
            "lint.orders_judging": "ci/lint/new",
        }
        for path in (
            "alloc/slab/new.c",
            "alloc/profile/new.c",
            "alloc/os/new.c",
            "alloc/heap/new.c",
            "alloc/cache/new.c",
            "stress/conform/new.cc",
            ".github/new.yml",
            "docs/new.md",
            "ci/lint/new",
        ):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            self.write(path, "")
            _, match, paths = self.changed()
            self.assertEqual(paths, path)
            chosen = {name for name in names if re.search(match, name)}
            wanted = {name for name, of in names.items() if path in ([of] if isinstance(of, str) else of or ())}
            wanted |= {"lint.words"}
            if path.startswith("alloc/"):
                wanted |= {name for name, of in names.items() if of == "alloc/slab/new.c"}
            self.assertEqual(chosen, wanted, path)
            (self.root / path).unlink()


unittest.main()
