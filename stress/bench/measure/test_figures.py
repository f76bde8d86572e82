"""Tests the arithmetic on figures: ratios and their spread, differences of run lengths, targets and bounds, tables."""

import contextlib
import html
import io
import json
import pathlib
import re
import tempfile
import unittest

from measure import counts, figures, options, ratios, rss, syscalls, times
from measure.fault import Broken
from measure.subjects import Subject
from measure.table import format_table


DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"


def luminance(color):
    """Of #rrggbb, by the rules for contrast of WCAG 2."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


class Groups(unittest.TestCase):
    def test_each_group_has_a_figure(self):
        self.assertEqual({*options.GROUPS, *options.OTHERS}, {*figures.FIGURES, "surface"})

    def test_contention_draws_a_malloc_that_fails_with_many_threads(self):
        if figures.load() is None:
            self.skipTest("no matplotlib (Debian: python3-matplotlib)")
        ours = {"2": {"transfers": 0.1}, "64": {"transfers": 1.5}}
        data = {"figures": {row: {"hakmem": ours, "other": {**ours, "64": None}} for row in "abcd"}}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "contention.svg"
            self.assertTrue(figures.draw("contention", data, path))
            self.assertIn("transfers of lines", path.read_text(encoding="utf-8"))


class Drawing(unittest.TestCase):
    """docs/counts.svg, which `ci/bench counts` drew."""

    def setUp(self):
        self.svg = (DOCS / "counts.svg").read_text(encoding="utf-8")

    def test_every_colour_has_another_on_dark_pages(self):
        rules = dict(
            re.findall(r'\[style\*="((?:fill|stroke): #\w+)"\]\{(?:fill|stroke):(#\w+) !important\}', self.svg)
        )
        used = set(re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", re.sub(r"(?s)<style.*?</style>", "", self.svg)))
        self.assertGreater(len(used), 6)
        self.assertEqual(used - rules.keys(), set())
        self.assertIn("text{fill:#e5e7eb}", self.svg)

    def test_bars_can_be_told_from_the_page(self):
        for color in [figures.OURS_COLOR, *figures.COLORS]:
            self.assertGreater(contrast(color, "#ffffff"), 3, color)
            self.assertGreater(contrast(figures.DARK[color], figures.DARK["#ffffff"]), 3, color)

    def test_numbers_are_those_of_the_table(self):
        (drawn,) = re.findall(r"<dc:description>(.*?)</dc:description>", self.svg, re.DOTALL)
        drawn = json.loads(html.unescape(drawn))
        section = (DOCS / "bench.md").read_text(encoding="utf-8").split("## Results: counts")[1].split("\n## ")[0]
        rows = re.findall(r"(?m)^\| `([\w-]+)` \|[^|]*\|([\d.| ]+)\|$", section.split("Threads that take turns")[0])
        self.assertEqual({row for row, _ in rows}, drawn.keys())
        for row, cells in rows:
            told = [f"{figures['instructions']:.1f}" for figures in drawn[row].values()]
            self.assertEqual([cell.strip() for cell in cells.split("|")], told, row)


class Pages(unittest.TestCase):
    def test_quoted_figures_are_in_the_tables(self):
        """Each number in the tables of README.md and docs/compare.md that quote is a cell of docs/bench.md or docs/security.md."""
        known = set()
        for name in "bench.md", "security.md":
            for line in (DOCS / name).read_text(encoding="utf-8").splitlines():
                known.update(re.findall(r"\d[\d.]*\d|\d", line) if line.startswith("| ") else [])
        for page, heading in (DOCS / "compare.md", "## Figures"), (DOCS.parent / "README.md", "## Three numbers"):
            section = page.read_text(encoding="utf-8").split(heading)[1].split("\n## ")[0]
            rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")][2:]
            self.assertGreaterEqual(len(rows), 3)
            for what, *cells in rows:
                for number in re.findall(r"\d[\d.]*\d|\d", re.sub(r"\(.*?\)", "", " ".join(cells))):
                    self.assertTrue(number in known, f"{page.name}: {what}: {number} is in no table")


class Ratios(unittest.TestCase):
    def test_a_ratio_is_within_a_round(self):
        # In one round the machine is three times slower, for both.
        found = ratios.compare([20, 60, 20, 21, 20], [10, 30, 10, 10, 10])
        self.assertEqual(found, {"median": 2, "low": 2, "high": 2, "verdict": "faster"})
        self.assertEqual(ratios.compare([5, 5, 5], [10, 10, 10])["verdict"], "slower")

    def test_inconclusive_where_the_spread_is_as_wide_as_the_distance_to_one(self):
        self.assertEqual(ratios.compare([9, 10.5, 12], [10, 10, 10])["verdict"], "inconclusive")
        self.assertEqual(ratios.compare([10.9, 11, 11.1], [10, 10, 10])["verdict"], "faster")
        self.assertEqual(ratios.compare([10, 10, 10], [10, 10, 10])["verdict"], "inconclusive")
        # The quartiles 1.25 and 1.75 around 1.5 are as far apart as 1.5 is from 1.
        self.assertEqual(ratios.compare([10, 12.5, 15, 17.5, 20], [10] * 5)["verdict"], "inconclusive")
        self.assertEqual(ratios.compare([10, 12.6, 15, 17.5, 20], [10] * 5)["verdict"], "faster")

    def test_inconclusive_with_few_rounds(self):
        self.assertEqual(ratios.compare([20, 20], [10, 10])["verdict"], "inconclusive")
        self.assertEqual(ratios.compare([20], [10])["median"], 2)

    def test_rounds_must_agree_in_number(self):
        with self.assertRaises(ValueError):
            ratios.compare([1, 2], [1])

    def test_best_is_by_median(self):
        self.assertEqual(ratios.best({"a": [1, 9, 9], "b": [5, 5, 100]}), "b")
        self.assertIsNone(ratios.best({}))

    def test_geometric_mean(self):
        self.assertAlmostEqual(ratios.geometric_mean([2, 0.5, 8]), 2)
        self.assertIsNone(ratios.geometric_mean([]))

    def test_a_case_is_judged_against_each_and_the_best(self):
        case = {"ns": {"hakmem": [10, 10, 10], "a": [30, 30, 30], "b": [20, 20, 20]}}
        judged = times.judge(case, "hakmem", ["a", "b"])
        self.assertEqual(judged["best"], "b")
        self.assertEqual(judged["against_best"]["median"], 2)
        self.assertEqual(judged["each"]["a"]["median"], 3)
        mean = times.means([judged, judged], ["a", "b"])
        self.assertAlmostEqual(mean["best"], 2)
        self.assertAlmostEqual(mean["a"], 3)

    def test_another_malloc_that_crashes_is_out_of_the_case_and_of_no_other(self):
        class Runner:
            rows = {"row": {"ops": 1000}}

            def time(self, subject, row, threads, ops, **more):
                if (subject.name, threads) == ("a", 2) and more.get("round") == 2:
                    raise Broken("signal 11 of: bench")
                return {"seconds": 1, "ns_per_pair": {"hakmem": 10, "a": 20, "b": 30}[subject.name]}

        subjects = [Subject(name) for name in ("hakmem", "a", "b")]
        with contextlib.redirect_stderr(io.StringIO()) as said:
            found = times.measure(Runner(), subjects, [("row", 1), ("row", 2)], 3, None, "times")
        self.assertIn("a is out of row with 2 threads: signal 11 of: bench", said.getvalue())
        self.assertEqual([sorted(case["ns"]) for case in found], [["a", "b", "hakmem"], ["b", "hakmem"]])
        judged = [times.judge(case, "hakmem", ["a", "b"]) for case in found]
        self.assertEqual([one["best"] for one in judged], ["a", "b"])
        mean = times.means(judged, ["a", "b"])
        self.assertAlmostEqual(mean["a"], 2)
        self.assertAlmostEqual(mean["b"], 3)
        table = times.show(found, ["hakmem", "a", "b"], ["hakmem"], {"hakmem": judged})
        self.assertRegex(table.splitlines()[-1], r"^row +2 +10\.00 +failed +30\.00 +b +3\.00")

    def test_ours_that_crashes_ends_it(self):
        class Runner:
            rows = {"row": {"ops": 1000}}

            def time(self, *_, **__):
                raise Broken("signal 11 of: bench")

        with self.assertRaises(Broken):
            times.measure(Runner(), [Subject("hakmem")], [("row", 1)], 3, None, "times")

    def test_two_digits(self):
        self.assertEqual([times.two_digits(number) for number in (7, 99, 1234, 98765.4)], [7, 99, 1200, 98000])


class Counts(unittest.TestCase):
    SHORT = (1000, {"instructions": 50000, "branches": 900, "mispredicted": 10, "loads_stores": 0, "l1_misses": 7})
    LONG = (3000, {"instructions": 110000, "branches": 8900, "mispredicted": 10, "loads_stores": 0, "l1_misses": 27})

    def test_the_difference_of_two_run_lengths(self):
        self.assertEqual(
            counts.per_pair(self.SHORT, self.LONG),
            {"instructions": 30, "branches": 4, "mispredicted": 0, "loads_stores": 0, "l1_misses": 0.01},
        )
        with self.assertRaises(Broken):
            counts.per_pair(self.LONG, self.LONG)

    def test_targets_and_recorded_figures(self):
        entry = {"target": {"instructions": 33, "l1_misses": 0.3}, "recorded": {"instructions": 30, "branches": 4}}
        good = {"instructions": 30.5, "branches": 4.1, "l1_misses": 0.3}
        self.assertEqual(counts.missed(good, entry) + counts.grown("tight-64", good, entry), [])
        self.assertEqual(len(counts.missed({**good, "instructions": 33.01}, entry)), 1)
        self.assertEqual(len(counts.missed({**good, "l1_misses": 0.31}, entry)), 1)
        self.assertEqual(counts.missed({**good, "l1_misses": 0.3049}, entry), [])  # shown as 0.30
        self.assertEqual(len(counts.grown("tight-64", {**good, "instructions": 30.51}, entry)), 1)
        self.assertEqual(len(counts.grown("tight-64", {**good, "branches": 4.11}, entry)), 1)

    def test_rows_with_threads_have_a_share_as_slack_and_roles_count(self):
        entry = {"recorded": {"instructions": 100, "malloc": 60, "free": 2, "l1_misses": 1}}
        good = {"instructions": 101.9, "malloc": 61.1, "free": 3, "l1_misses": 50}
        self.assertEqual(counts.grown("larson/2", good, entry), [])
        for event, figure in (("instructions", 102.1), ("malloc", 61.3), ("free", 3.1)):
            self.assertEqual(len(counts.grown("larson/2", {**good, event: figure}, entry)), 1, event)
        self.assertEqual(len(counts.grown("larson", good, entry)), 1)  # one thread: instructions are held to 0.5

    def test_every_row_of_the_file_has_figures(self):
        for row, entry in counts.expectations().items():
            self.assertTrue(set(entry.get("target", {})) <= set(counts.EVENTS), row)
            self.assertTrue({"instructions", "branches", *counts.ROLES} <= set(entry["recorded"]), row)
            name, threads = counts.split(row)
            self.assertTrue(threads == 1 or threads in counts.THREADS[name], row)


class Memory(unittest.TestCase):
    FIGURES = {
        "small-freed": {"hakmem": {"later": 16 << 10}, "tcmalloc": {"later": 99 << 10}},
        "larson-8": {"hakmem": {"peak": 1100}, "tcmalloc": {"peak": 1000}},
        "larson-8-overlap": {"hakmem": {"peak": 2000}, "tcmalloc": {"peak": 1000}},
        "tiny": {"hakmem": {"end": 896}, "system": {"end": 800}},
        "free-only": {"hakmem": {"peak": 2000, "live": 1000}},
    }

    def test_at_the_bounds(self):
        self.assertEqual(rss.judge(self.FIGURES, ["hakmem"]), ([], []))

    def test_above_each_bound(self):
        moments = {"larson-8": "peak", "larson-8-overlap": "peak", "free-only": "peak", "tiny": "end"}
        for row in self.FIGURES:
            moment = moments.get(row, "later")
            of_row = self.FIGURES[row]
            worse = {**of_row, "hakmem": {**of_row["hakmem"], moment: of_row["hakmem"][moment] + 1}}
            faults, _ = rss.judge({**self.FIGURES, row: worse}, ["hakmem"])
            self.assertEqual([fault.split(":")[0] for fault in faults], [f"hakmem, {row}"])

    def test_the_worst_round_is_judged_by_its_own_figures(self):
        rounds = [{"peak": 2100, "live": 1000}, {"peak": 2090, "live": 1100}]
        self.assertEqual(rss.worst(rounds, "peak"), rounds[0])
        self.assertEqual(len(rss.judge({"free-only": {"hakmem": rss.worst(rounds, "peak")}}, ["hakmem"])[0]), 1)

    def test_without_what_it_is_compared_with_a_row_is_not_judged(self):
        faults, open_ends = rss.judge({"larson-8": {"hakmem": {"peak": 1 << 30}}}, ["hakmem"])
        self.assertEqual(faults, [])
        self.assertEqual(open_ends, ["hakmem, larson-8: not judged, there is no tcmalloc here"])


class Syscalls(unittest.TestCase):
    def test_a_million_pairs(self):
        calls = dict.fromkeys(["madvise", "mmap", "munmap", "mremap", "brk", "mprotect", "faults"], 5)
        found = syscalls.per_million((1000, calls), (3000, {**calls, "mmap": 7, "brk": 1, "faults": 25}))
        self.assertEqual((found["mmap"], found["brk"], found["madvise"]), (1000, -2000, 0))
        self.assertEqual(syscalls.total(found), 1000)
        self.assertEqual(syscalls.faults_a_pair(found), 0.01)
        self.assertEqual(syscalls.faults_a_pair({"faults": -1}), 0)


class Table(unittest.TestCase):
    def test_columns(self):
        self.assertEqual(
            format_table(["row", "n", "why"], [["a", 1.0, "x"], ["bb", None, "yy"]], last_left=True),
            "row     n  why\na    1.00  x\nbb      -  yy",
        )


if __name__ == "__main__":
    unittest.main()
