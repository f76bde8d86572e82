"""usage: orders_self_test.py

Tests how ci/orders judges a run of hakmem-order: what kills a weakened order, and what says nothing about it. Exit status 1
if it judges one wrongly.
"""

import importlib.machinery
import importlib.util
import pathlib
import tempfile
import unittest

COMMAND = pathlib.Path(__file__).resolve().parents[1] / "orders"
LOADER = importlib.machinery.SourceFileLoader("orders", str(COMMAND))
orders = importlib.util.module_from_spec(importlib.util.spec_from_loader("orders", LOADER))
LOADER.exec_module(orders)

FAILS_IN_8_S = """case "$*" in *"--seconds 8"*) echo "FAILED: in:pages: a race"; exit 1;; esac"""


class Judging(unittest.TestCase):
    def runner(self, script):
        """One whose hakmem-order is this script, with 4 s for each scenario."""
        folder = tempfile.TemporaryDirectory(prefix="hakmem-orders-")
        self.addCleanup(folder.cleanup)
        program = pathlib.Path(folder.name) / "hakmem-order"
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
        return orders.Runner(program, 4)

    def test_the_first_scenario_that_fails_kills(self):
        runner = self.runner('echo "FAILED: in:pages: a race"; exit 1')
        self.assertEqual(runner.judge("weak.so", ["in", "trim"]), "in:pages")

    def test_a_signal_kills_and_is_named(self):
        self.assertEqual(self.runner("kill -SEGV $$").judge("weak.so", ["in"]), "in, by signal 11")

    def test_a_scenario_that_does_not_exist_kills_nothing(self):
        with self.assertRaisesRegex(orders.Stop, "in:nix: hakmem-order ends with status 2.*there is no scenario"):
            self.runner("echo there is no scenario >&2; exit 2").judge("weak.so", ["in:nix"])

    def test_a_status_without_a_failure_kills_nothing(self):
        with self.assertRaisesRegex(orders.Stop, "status 1, and no scenario failed"):
            self.runner("exit 1").judge("weak.so", ["in"])

    def test_a_planted_order_has_twice_the_time_once(self):
        runner = self.runner(FAILS_IN_8_S)
        self.assertIsNone(runner.judge("weak.so", ["in"]))
        self.assertEqual(runner.judge_twice("weak.so", ["in"]), "in:pages")
        self.assertIsNone(self.runner("exit 0").judge_twice("weak.so", ["in"]))


unittest.main()
