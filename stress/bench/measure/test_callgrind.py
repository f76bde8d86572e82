"""Tests the readers of callgrind's files and strace's logs on samples."""

import os
import unittest

from measure import callgrind, strace

# Two libraries. The program's main calls malloc, and malloc calls a function of libc: 700 and 70 are inclusive costs.
SAMPLE = """# callgrind format
version: 1
cmd:  ./program
desc: I1 cache: 32768 B, 64 B, 8-way associative

positions: line
events: Ir Dr Bc
summary: 1000 100 10

ob=(1) /bin/program
fl=(1) main.c
fn=(1) main
10 100 7
+2 3
cob=(2) /lib/libmine.so
cfi=(2) malloc.c
cfn=(2) malloc
calls=5 20
* 700 70 7
-1 1 0 1

ob=(2)
fl=(2)
fn=(2)
20 30 20 10
fi=(3) inline.h
+5 4 2 1
fe=(2)
* 6
cob=(3) /lib/libc.so.6
cfn=(3) sbrk
calls=1 40
21 70
22 1 1 1

ob=(3)
fn=(3)
40 70 8

ob=(2)
fl=(2)
fn=(4) free
30 9 3 2
"""


class Callgrind(unittest.TestCase):
    def test_own_costs_by_library(self):
        self.assertEqual(
            callgrind.parse(SAMPLE.splitlines()),
            {
                "/bin/program": {"Ir": 104, "Dr": 7, "Bc": 1},
                "/lib/libmine.so": {"Ir": 50, "Dr": 26, "Bc": 14},
                "/lib/libc.so.6": {"Ir": 70, "Dr": 8, "Bc": 0},
            },
        )

    def test_each_position_of_a_line_is_left_out(self):
        lines = ["positions: instr line", "events: Ir", "ob=(1) /lib/a.so", "fn=(1) f", "0x400 7 5", "+3 * 2"]
        self.assertEqual(callgrind.parse(lines), {"/lib/a.so": {"Ir": 7}})

    def test_jumps_cost_nothing(self):
        lines = ["events: Ir", "ob=(1) /lib/a.so", "fn=(1) f", "5 2", "jcnd=3/4 +8", "5", "jump=2 -4", "+1", "6 1"]
        self.assertEqual(callgrind.parse(lines), {"/lib/a.so": {"Ir": 3}})

    def test_own_events_of_several_libraries(self):
        wanted = (os.path.realpath("/lib/libmine.so"), os.path.realpath("/lib/libc.so.6"))
        self.assertEqual(callgrind.own_events(SAMPLE.splitlines(), wanted), {"Ir": 120, "Dr": 34, "Bc": 14})

    def test_unnamed_code_only_on_request(self):
        lines = ["events: Ir", "ob=(1) /lib/a.so", "fn=(1) f", "5 2", "ob=(2) ???", "fn=(2) 0x1", "0 40"]
        wanted = (os.path.realpath("/lib/a.so"),)
        self.assertEqual(callgrind.own_events(lines, wanted), {"Ir": 2})
        self.assertEqual(callgrind.own_events(lines, wanted, unnamed=True), {"Ir": 42})

    def test_roles(self):
        lines = """events: Ir
ob=(1) /lib/a.so
fn=(1) refill
5 2
cfn=(2) remote_drain_some.llvm.12
calls=3 1
5 11
cob=(2) /lib/libc.so.6
cfn=(3) mmap
calls=1 1
5 100
cfn=(2)
calls=1 1
5 4
ob=(3) /bin/program
fn=(4) main
1 7
cob=(1)
cfn=(5) malloc
calls=9 1
1 300
cfn=(4)
calls=1 1
1 999
cob=(1)
cfn=(6) operator delete(void*)
calls=9 1
1 40
cob=(1)
cfn=(7) operator new(unsigned long)
calls=9 1
1 5""".splitlines()
        own = callgrind.Own((os.path.realpath("/lib/a.so"),), False)
        found = callgrind.roles_of(callgrind.read(lines), own)
        self.assertEqual(found, {"malloc": 305, "free": 40, "drain": 15})

    def test_what_is_no_callgrind_file_is_refused(self):
        for lines in ([], ["events: Ir", "ob=(7)", "1 2"], ["events: Ir", "ob=(1) /a", "1 2 3"], ["ob=(1) /a", "1 2"]):
            with self.assertRaises(callgrind.FormatError):
                callgrind.parse(lines)
        with self.assertRaises(callgrind.FormatError):
            callgrind.own_events(SAMPLE.splitlines(), ("/lib/other.so",))


LOG = """1.0 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000100000
1.1 mmap(NULL, 8392704, PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS|MAP_STACK, -1, 0) = 0x7f0000200000
2.0 prctl(PR_SET_NAME, "timed") = 0
2.1 madvise(0x7f0000100000, 4096, MADV_DONTNEED) = 0
2.2 madvise(0x7f0000210000, 4096, MADV_DONTNEED) = 0
2.3 mprotect(0x7f0000200000, 4096, PROT_NONE) = 0
2.4 mmap(NULL, 8392704, PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS|MAP_STACK, -1, 0) = 0x7f0001200000
2.5 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0002000000
2.6 munmap(0x7f0002000000, 4096) = 0
2.7 brk(NULL) = 0x55550000
2.8 brk(0x55560000) = 0x55560000
--- SIGCHLD {si_signo=SIGCHLD} ---
3.0 prctl(PR_SET_NAME, "ended") = 0
3.1 munmap(0x7f0000100000, 4096) = 0
+++ exited with 0 +++
""".splitlines()


class Strace(unittest.TestCase):
    def test_calls_of_the_timed_part_that_are_not_about_stacks(self):
        self.assertEqual(
            strace.count([LOG]), {"madvise": 1, "mmap": 1, "munmap": 1, "mremap": 0, "brk": 2, "mprotect": 0}
        )

    def test_the_timed_part_of_several_threads_is_where_all_are_in_it(self):
        other = ['2.15 prctl(PR_SET_NAME, "timed") = 0', '2.65 prctl(PR_SET_NAME, "ended") = 0']
        self.assertEqual(
            strace.count([LOG, other]), {"madvise": 0, "mmap": 1, "munmap": 1, "mremap": 0, "brk": 0, "mprotect": 0}
        )

    def test_where_a_stack_was_the_malloc_may_map(self):
        more = ["2.81 munmap(0x7f0000200000, 8392704) = 0", "2.82 madvise(0x7f0000210000, 4096, MADV_DONTNEED) = 0"]
        self.assertEqual(strace.count([LOG, more])["madvise"], 2)
        self.assertEqual(strace.count([LOG, more])["munmap"], 1)

    def test_a_log_without_a_timed_part_is_refused(self):
        for log in ([], LOG[:5], LOG[3:]):
            with self.assertRaises(strace.FormatError):
                strace.count([log])


if __name__ == "__main__":
    unittest.main()
