"""Tests the verdicts on growth."""

import unittest

from measure import growth


class Growth(unittest.TestCase):
    GOOD = {"ratio": 1.3, "dearest": 20000, "system_calls": 4}

    def test_each_bound(self):
        self.assertEqual(growth.judge("row", self.GOOD, {}), [])
        for measure, figure in (("ratio", 1.31), ("dearest", 20001), ("system_calls", 5)):
            self.assertEqual(len(growth.judge("row", {**self.GOOD, measure: figure}, {})), 1, measure)
            known = {"known": {measure: "why"}}
            self.assertEqual(growth.judge("row", {**self.GOOD, measure: figure}, known), [])

    def test_what_is_mended_is_no_longer_known(self):
        (line,) = growth.judge("row", self.GOOD, {"known": {"dearest": "why"}})
        self.assertIn("remove it from known", line)

    def test_the_file(self):
        for name, pattern in growth.patterns().items():
            self.assertLessEqual(set(pattern.get("known", {})), set(growth.MEASURES), name)
            self.assertTrue(all(pattern.get("known", {"ratio": "why"}).values()), name)
