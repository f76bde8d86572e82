"""Whether the tests that come to a mutant kill it: the quick ones with the mutant alone, the slow ones with many mutants.

What the first QUICK_SECONDS of tests do not kill waits. Then each slow test runs with up to TOGETHER such mutants at
once, and where it fails, with each half of them, down to the one that is killed. A mutant may hide what another does, so
this can lose a kill; it cannot invent one. Mutants of one file are kept apart: of one statement only one can take effect.
"""

import collections
import concurrent.futures
import threading

import trial

QUICK_SECONDS = 10
TOGETHER = 16  # at most MUTANTS_TOGETHER_MAX of mutant_id.h


class Judge:
    def __init__(self, jobs, note, is_late):
        self.jobs, self.note, self.is_late = jobs, note, is_late
        self.kills = collections.Counter()

    def promise(self, test):
        """Tried first: a quick test, one that comes to few mutants, one that has killed some."""
        return test.seconds * (1 + test.reached.count(1)) / (1 + self.kills[test.name])

    def alone(self, number, tests, is_same_code):
        """(verdict, by what, the tests that are left). The verdict is "" if there is no time, or if slow tests are left."""
        come = [test for test in tests if test.comes_to(number)]
        if not come:  # perhaps since the code is another system's
            alike = is_same_code()
            return ("same", "not compiled here", []) if alike else ("SURVIVED", "no test comes to it", [])
        come.sort(key=self.promise)
        quick, slow = self.quick_and_slow(come)
        name, why = trial.killed_by([number], quick, self.note, self.is_late)
        if why == "late":
            return "", "", []
        if name is not None:
            self.kills[name] += 1
            return "killed", f"{name}: {why}", []
        # Asked before the slow tests, since to compile a file takes less than they do.
        if is_same_code():
            return "same", "the compiler makes the same code", []
        return ("" if slow else "SURVIVED"), f"{len(quick)} tests come to it", slow

    @staticmethod
    def groups(numbers, place):
        """Of at most TOGETHER numbers each, no two of one place."""
        found = []
        for number in numbers:
            for places, group in found:
                if len(group) < TOGETHER and place(number) not in places:
                    break
            else:
                places, group = set(), []
                found.append((places, group))
            places.add(place(number))
            group.append(number)
        return [group for _, group in found]

    def together(self, waiting, place):
        """{number: (verdict, by what)} of {number: slow tests}: each test with many mutants at once. place(number): of the
        mutants of one place only one may run."""
        verdicts, left = {}, {number: len(slow) for number, slow in waiting.items()}
        changing = threading.Lock()
        of_test = collections.defaultdict(list)
        for number, slow in waiting.items():
            for test in slow:
                of_test[test.name].append(number)
        tests = {test.name: test for slow in waiting.values() for test in slow}

        def killed(test, numbers):
            with changing:
                numbers = [number for number in numbers if number not in verdicts]
            if not numbers or self.is_late():
                return
            name, why = trial.killed_by(numbers, [test], self.note, self.is_late)
            if name is not None and len(numbers) == 1:
                with changing:
                    verdicts.setdefault(numbers[0], ("killed", f"{name}: {why}"))
                    self.kills[name] += 1
            elif name is not None:
                half = len(numbers) // 2
                killed(test, numbers[:half])
                killed(test, numbers[half:])

        def one(name):
            numbers = of_test[name]
            for group in self.groups(numbers, place):
                killed(tests[name], group)
            if not self.is_late():
                with changing:
                    for number in numbers:
                        left[number] -= 1

        order = sorted(of_test, key=lambda name: -tests[name].seconds * len(of_test[name]))
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(one, order))
        for number, slow in waiting.items():
            if left[number] == 0:
                longest = max(slow, key=lambda test: test.seconds)
                what = f"{len(slow)} slow tests, to {longest.name}, come to it too, tried with {len(waiting)} mutants"
                verdicts.setdefault(number, ("SURVIVED", what))
        return verdicts

    @staticmethod
    def quick_and_slow(tests):
        """The first QUICK_SECONDS of the tests, and the rest."""
        count, seconds = 0, 0.0
        while count < len(tests) and seconds < QUICK_SECONDS:
            seconds += tests[count].seconds
            count += 1
        return tests[:count], tests[count:]
