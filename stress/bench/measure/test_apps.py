"""Tests of ci/bench apps and tails: what is made of the runs, and what a run of a program says."""

import pathlib
import platform
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from measure import apps, process, programs, servers, subjects, tails
from measure.fault import Broken


def run(seconds, **more):
    return {"seconds": seconds, "cpu_seconds": seconds, "peak_kib": 2048, "end_kib": 1024, "faults": 100, **more}


class Judge(unittest.TestCase):
    def setUp(self):
        self.cases = [
            {
                "program": "a",
                "runs": {"system": [run(1.0), run(2.0), run(4.0)], "x": [run(2.0), run(2.0), run(2.0)]},
                "failed": {},
            },
            {"program": "b", "runs": {"system": [run(1.0, p99_ms=4.0)]}, "failed": {"x": "it crashed"}},
        ]

    def test_ratios_are_of_one_round(self):
        judged, means = apps.judge(self.cases, ["system", "x"], "system")
        self.assertEqual(judged["seconds"]["a"]["x"], {"low": 0.75, "median": 1.0, "high": 1.5})
        self.assertIsNone(judged["seconds"]["b"]["x"])
        self.assertEqual(means["faults"], {"x": 1.0})
        self.assertEqual(means["p99_ms"], {})

    def test_table(self):
        judged, means = apps.judge(self.cases, ["system", "x"], "system")
        table = apps.show_metric("seconds", self.cases, judged, means, ["system", "x"], "system")
        self.assertIn("1.00 (0.75-1.50)", table)
        self.assertRegex(table, r"b +1\.00 +-")
        self.assertEqual(apps.show_metric("p999_ms", self.cases, judged, means, ["system", "x"], "system"), "")


class Tails(unittest.TestCase):
    def test_compares_with_the_best_other_within_a_round(self):
        def runs(*values):
            return [{call: {point: value for point in tails.POINTS} for call in tails.CALLS} for value in values]

        case = {
            "row": "larson",
            "threads": 2,
            "ns": {"hakmem": runs(100, 200, 0), "a": runs(200, 100, 100), "b": runs(900, 900, 900)},
            "failed": {"c": "it crashed"},
        }
        one = tails.judge(case, "hakmem", ["a", "b", "c"], "free")
        self.assertEqual((one["best"], one["median"]), ("a", 2.0))
        self.assertEqual(tails.median(case, "hakmem", "free", "p9999"), 100)
        table = tails.show([case], ["hakmem", "a", "c"], {("larson", 2, "free", "hakmem"): one})
        self.assertRegex(table, r"free +hakmem +100 .* 2\.00 \(1\.25-51\.00\) a")
        self.assertRegex(table, r"free +c +failed")


class Process(unittest.TestCase):
    def run_python(self, code, library=""):
        with tempfile.TemporaryDirectory() as folder:
            return process.run([sys.executable, "-c", code], {}, library, folder, "")

    def test_counts_memory_and_faults(self):
        # It waits until its memory was sampled, with the block and without, which takes a while on a busy machine.
        code = (
            "import os, time\ndef wait():\n  open('due', 'x')\n  while os.path.exists('due'): time.sleep(0.05)\n"
            "x = bytearray(b'x') * (48 << 20); wait(); del x; wait(); time.sleep(0.1)"
        )
        resident_kib = process.resident_kib

        def sampled(pid):
            due = pathlib.Path(f"/proc/{pid}/cwd/due")
            is_due = due.exists()
            kib = resident_kib(pid)
            if is_due:
                due.unlink()
            return kib

        small = self.run_python("pass")
        with unittest.mock.patch.object(process, "resident_kib", sampled):
            large = self.run_python(code)
        # Up to its exec a process has the memory of this one, which is its peak where it needs less itself.
        self.assertLess(small["peak_kib"], 44 << 10)
        self.assertGreater(large["peak_kib"], 48 << 10)
        self.assertGreater(large["seconds"], 0.1)
        self.assertLess(large["end_kib"], large["peak_kib"] - (40 << 10))

    def test_failure_names_the_last_line(self):
        with self.assertRaisesRegex(Broken, "ended with 3 .*: so it is"):
            self.run_python("import sys; print('so it is', file=sys.stderr); sys.exit(3)")

    def test_preload_without_effect(self):
        with self.assertRaisesRegex(Broken, "takes no effect"):
            self.run_python("import time; time.sleep(0.1)", library="/no/such/library.so")


class Programs(unittest.TestCase):
    def test_names_and_inputs(self):
        found = programs.programs()
        self.assertGreaterEqual(len(found), 12)
        self.assertEqual(len({program.name for program in found}), len(found))
        for program in found:
            for word in [*program.command, program.stdin]:
                if word.startswith(str(programs.ROOT)):
                    self.assertTrue(pathlib.Path(word).is_file(), word)

    def test_libc_comes_before_a_malloc_that_the_program_is_linked_with(self):
        python = programs.programs()[0]
        system = apps.variables(subjects.Subject("system"), python)
        self.assertEqual(system["PYTHONMALLOC"], "malloc")
        self.assertNotIn("LD_PRELOAD", apps.variables(subjects.Subject("x", "/x.so"), python))
        if platform.libc_ver()[0] == "glibc":
            done = subprocess.run(["/bin/true"], env=system, capture_output=True, check=True)
            self.assertEqual((system["LD_PRELOAD"], done.stderr), ("libc.so.6", b""))

    def test_latencies_of_redis_benchmark(self):
        section = (
            "====== SET ======\n0.000% <= 0.1 milliseconds\n99.219% <= 0.7 milliseconds\n100.000% <= 1.5 milliseconds\n"
        )
        self.assertEqual(servers.redis_percentile(section + section.replace("0.7", "0.9"), 99), 0.9)
        self.assertEqual(servers.redis_percentile(section, 99.9), 1.5)
        with self.assertRaises(Broken):
            servers.redis_percentile("====== SET ======\nnothing\n", 99)


if __name__ == "__main__":
    unittest.main()
