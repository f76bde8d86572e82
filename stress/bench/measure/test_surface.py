"""Tests what is made of the figures of ci/bench surface: ratios, the worst cells, and the heat map."""

import contextlib
import io
import pathlib
import re
import tempfile
import types
import unittest
import xml.dom.minidom

from measure import heatmap, surface
from measure.fault import BadInput


def cell(name, failed=(), pairs=1000, **more):
    """mine as good as the other, but for `more`."""
    other = dict.fromkeys(surface.METRICS, 1000.0)
    figures = {"mine": {**other, **more}, "other": other}
    return {
        "cell": surface.parse_cell(name),
        "pairs": pairs,
        "figures": {name: of_name for name, of_name in figures.items() if name not in failed},
        "failed": dict.fromkeys(failed, "signal 11"),
    }


class Surface(unittest.TestCase):
    def test_names(self):
        for name in ("tight/1/1", "touched/1000/2", "replace/300K/8", "many-to-one/64M/9"):
            self.assertEqual(surface.cell_name(surface.parse_cell(name)), name)
        for bad in ("tight", "tight/64", "tight/x/1", "tight/K/1", "tight/64/", "tight/64/1/1", "tight/1KM/1"):
            self.assertRaises(BadInput, surface.parse_cell, bad)

    def test_ratios(self):
        slow = surface.ratios_of(cell("tight/64/1", cpu_ns=4030, last_kib=3048), "mine")
        self.assertEqual(slow["cpu_ns"], (4.0, "other"))
        self.assertEqual(slow["last_kib"][0], 5096 / 3048)
        self.assertEqual(slow["wall_ns"][0], 1)
        few = cell("tight/64/1", pairs=100000, faults=0.003)
        few["figures"]["other"] = {**few["figures"]["other"], "faults": 0.0}
        self.assertAlmostEqual(surface.ratios_of(few, "mine")["faults"][0], 1.3)
        for failed in (["mine"], ["other"]):
            self.assertEqual(surface.ratios_of(cell("tight/64/1", failed), "mine"), {})

    def test_the_worst_cells(self):
        cells = [
            cell("tight/64/1"),
            cell("lifo/64/1", faults=9000),
            cell("fifo/64/1", wall_ns=9e9),
            cell("queue/1K/8", ["mine"]),
        ]
        worst = surface.worst_cells(cells, "mine")
        self.assertEqual([one[1] for one in worst[:1]], ["faults"])
        self.assertEqual([surface.cell_name(one[3]["cell"]) for one in worst], ["lifo/64/1", "tight/64/1", "fifo/64/1"])
        self.assertIn("--cell lifo/64/1", surface.show_worst(cells, "mine").splitlines()[2])

    def test_the_malloc_that_is_judged(self):
        subjects = [types.SimpleNamespace(name=name) for name in ("hakmem", "system", "mine")]
        named = types.SimpleNamespace(allocators=["system", "mine=/x.so"])
        self.assertEqual(surface.judged_name(subjects, named), "mine")
        self.assertEqual(surface.judged_name(subjects, types.SimpleNamespace(allocators=[])), "hakmem")
        self.assertEqual(surface.judged_name(subjects[1:2], types.SimpleNamespace(allocators=["system"])), "system")

    def test_a_resumed_run_is_the_same_run(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        journal = pathlib.Path(folder) / "journal"
        self.assertEqual(surface.resumed(journal, {"of": 1}), {})
        with journal.open("a", encoding="utf-8") as file:
            file.write('{"cell": ["tight", 64, 1]}\n{"cell": ["ti')
        self.assertEqual(list(surface.resumed(journal, {"of": 1})), [("tight", 64, 1)])
        self.assertEqual(journal.read_text(encoding="utf-8").count("\n"), 2)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(surface.resumed(journal, {"of": 2}), {})
        self.assertIn("journal.old, beginning again", said.getvalue())
        self.assertIn("tight", pathlib.Path(f"{journal}.old").read_text(encoding="utf-8"))


class HeatMap(unittest.TestCase):
    CELLS = [
        cell("tight/64/1"),
        cell("tight/64M/1", ["mine"]),
        cell("tight/64/2", cpu_ns=1e7),
        cell("a-pattern-with-a-long-name/64/1", cpu_ns=3020),
    ]

    def setUp(self):
        self.map = heatmap.svg({"judged": "mine", "date": "2026-11-27", "cells": self.CELLS})

    def test_every_name_lies_inside(self):
        document = xml.dom.minidom.parseString(self.map)
        across, tall = (float(number) for number in document.documentElement.getAttribute("viewBox").split()[2:])
        words = [node for node in document.getElementsByTagName("text") if not node.getAttribute("transform")]
        self.assertGreater(len(words), 30)
        for node in words:
            text, x, y = node.firstChild.data, float(node.getAttribute("x")), float(node.getAttribute("y"))
            wide = len(text) * (8 if node.getAttribute("class") == "h" else heatmap.LETTER)
            left = {"start": x, "end": x - wide, "middle": x - wide / 2}[node.getAttribute("text-anchor")]
            self.assertTrue(0 <= left and left + wide <= across and 0 < y < tall, text)

    def test_colours_and_numbers(self):
        self.assertEqual([heatmap.step_of(ratio) for ratio in (0.5, 1, 1.25, 1.26, 2, 4, 10, 11)],
                         ["ahead", "level", "level", "a", "b", "c", "d", "e"])  # fmt: skip
        self.assertEqual([heatmap.number_of(ratio) for ratio in (1.9, 2, 99, 1000)], ["", "2", "99", "99+"])
        # In the first panel and in that of processor time; the failed cell in all eight.
        self.assertEqual(self.map.count(">99+<"), 2)
        self.assertEqual(self.map.count(">3<"), 2)
        self.assertEqual(self.map.count(">x<"), 8)

    def test_both_schemes_have_every_colour(self):
        light, dark = self.map.split("@media (prefers-color-scheme:dark)")
        for name in set(re.findall(r"var\((--\w+)\)", self.map)):
            self.assertIn(f"{name}:", light)
            self.assertIn(f"{name}:", dark.split("}}")[0])


if __name__ == "__main__":
    unittest.main()
