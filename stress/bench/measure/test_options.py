"""Tests the command line of the program: bad input gives one line on stderr and exit status 2, and nothing is
measured."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from measure.subjects import preload_path


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-B", str(FOLDER), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


class Preload(unittest.TestCase):
    def test_path_with_a_space_or_colon(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": folder}):
            for path in (f"{folder}/a b", f"{folder}/a:b", f"{folder}/plain"):
                pathlib.Path(path).touch()
                found = preload_path(path)
                self.assertNotRegex(found, "[ :]")
                self.assertEqual(os.path.realpath(found), os.path.realpath(path))
                self.assertEqual(preload_path(path), found)
            self.assertEqual(found, path)


class Refused(unittest.TestCase):
    def refused(self, says, *arguments):
        done = run(*arguments, "--only-check-options")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done)
        self.assertIn(says, done.stderr)
        self.assertTrue(done.stderr.startswith("bench: "), done.stderr)

    def test_words(self):
        self.refused("there is no group 'speed'; there are counts, times", "speed")
        self.refused("--bogus", "--bogus")
        self.refused("'a,,b'", "--rows", "a,,b")
        self.refused("--ops", "--ops")

    def test_numbers(self):
        for bad in ("0", "-1", "1.5", "x", "1000000000001"):
            self.refused(f"not '{bad}'", "--rounds", bad)
            self.refused(f"not '{bad}'", f"--ops={bad}")
        self.refused("not 'x'", "--threads", "1,x")
        self.refused("at most 1024 threads", "--threads", "1,1025")

    def test_gate(self):
        self.refused("--gate: only times", "counts", "--gate")
        self.refused("--gate: only times", "--gate")
        self.refused("--against: ci/bench counts or", "rss", "--against", "HEAD")
        self.refused("--against no-such-commit: the checkout has no such", "times", "--against", "no-such-commit")

    def test_allocators(self):
        self.refused("neither NAME=PATH.so nor one of hakmem", "--allocator", "nomalloc")
        self.refused("there is no file /no/such.so", "--allocator", "mine=/no/such.so")
        self.refused("a name of its own", "--allocator", "system=/etc/passwd")
        self.refused("a name of its own", "--allocator", "=/etc/passwd")
        self.refused("named twice", "--allocator", "system", "--allocator", "system")

    def test_files(self):
        self.refused("is no folder", "--out", "/etc/passwd/x")
        self.refused("folder", "--json", "/no/such/folder/x")
        self.refused("folder", "--json", "/tmp")

    def test_update(self):
        self.refused("only counts", "times", "--update")
        self.refused("all rows", "counts", "--update", "--rows", "tight-64")
        self.refused("records hakmem", "counts", "--update", "--allocator", "system")

    def test_no_build(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("counts", "--build", folder, "--out", f"{folder}/out")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
            self.assertIn("hakmem-bench: build it", done.stderr)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])


class Accepted(unittest.TestCase):
    def test_each_option(self):
        done = run(
            "times",
            "--rounds",
            "3",
            "--ops",
            "1000",
            "--rows",
            "a,b",
            "--threads",
            "1,2",
            "--allocator",
            "hakmem",
            "--allocator",
            f"mine={sys.executable}",
            "--only-check-options",
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(run("--only-check-options").returncode, 0)


if __name__ == "__main__":
    unittest.main()
