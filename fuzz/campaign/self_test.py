"""usage: self_test.py

Tests parts of ci/fuzz that need no fuzzer. Exit status 1 if one is wrong.
"""

import signal
import unittest

import find
import stop


class Stop(unittest.TestCase):
    def setUp(self):
        stop.install()
        self.addCleanup(setattr, stop, "requested", False)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)

    def test_a_fuzzer_that_starts_after_the_request_ends_too(self):
        stop.requested = True
        self.assertEqual(stop.wait(stop.start(["sleep", "20"])), -signal.SIGINT)

    def test_a_fuzzer_that_runs_is_asked_to_end(self):
        process = stop.start(["sleep", "20"])
        signal.raise_signal(signal.SIGTERM)
        self.assertTrue(stop.requested)
        self.assertEqual(stop.wait(process), -signal.SIGINT)


class Rules(unittest.TestCase):
    def test_what_broke_counts_before_how_the_run_ended(self):
        sanitizer = "SUMMARY: AddressSanitizer: heap-use-after-free /a.c:1 in main\n"
        hung = "libFuzzer: timeout\n"
        for said, rule in (
            (hung + sanitizer + "hakmem: failfast: double_free: text\nfind: overlap: a block\n", "overlap"),
            (hung + sanitizer + "hakmem: failfast: double_free: text\n", "double_free"),
            (hung + sanitizer, "heap_use_after_free"),
            (hung, "timeout"),
            ("a find: overlap: within a line\n", "exit_status"),
        ):
            found, says = find.rule_of(said)
            self.assertEqual(found, rule)
            self.assertIn(says, said)


unittest.main()
