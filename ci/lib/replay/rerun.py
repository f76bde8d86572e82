"""The method rerun: the program again under gdb, always at the same addresses. The first run learns where the crash is
now; each further one watches the word that held the bad value, and a move by the malloc leads to the word before."""

import os

from judge import Judge
from history import History
from report import read as read_report, value_class
from symbols import Symbols

HOPS_MAX = 8
WORDS_MAX = 4  # debug registers of the processor


class NotFound(Exception):
    """The text says why, in one line."""


class Rerun:
    def __init__(self, report, launcher, stress, tries, log):
        self.report, self.launcher, self.stress, self.tries, self.log = report, launcher, stress, tries, log
        self.allocator = report.library and os.path.realpath(report.library)
        self.crash = None
        self.hops, self.loads = [], []

    def run(self, words, bad, load=None, go_on=False):
        """A run that crashes as the report tells. Others are refused, and tried again."""
        task = {"words": words, "bad": bad, "load": load, "go_on": go_on, "allocator": self.allocator,
                "expect": self.report.signature()}
        reason = ""
        for number in range(1, self.tries + 1):
            result = self.launcher.run("watch_script.py", task)
            reason = self.refusal(result)
            if not reason:
                return result
            self.log(f"run {self.launcher.runs} refused (try {number} of {self.tries}): {reason}")
        raise NotFound(f"no run of {self.tries} repeated the crash; the last: {reason}")

    def refusal(self, result):
        """Why a run does not count; '' where it does. The first that counts sets what the others must repeat."""
        if "failed" in result:
            return result["failed"]
        if result["errors"]:
            return "the watch failed: " + result["errors"][0]
        crash = result["crash"]
        if crash is None:
            other = result.get("other")
            return result["ended"] + (f"; signal {other['signal']} at {other['module']}+{other['offset']:#x} instead"
                                      if other else "")
        if self.crash is None:
            return self.refuse_value(crash)
        for key in ("pc", "bad", "words", "load"):
            if crash.get(key) != self.crash.get(key):
                return f"it diverged: {key} is {crash.get(key)}, and was {self.crash.get(key)}"
        return ""

    def refuse_value(self, crash):
        """The bad value of the report must look alike."""
        name = crash.get("register")
        if name is None or name not in self.report.registers:
            return ""
        before, now = value_class(self.report.registers[name]), value_class(crash["bad"])
        return "" if before == now else f"%{name} is {now} and not {before} as in the report"

    def learn(self):
        result = self.run([], None, go_on=True)
        self.crash = result["crash"]
        path = self.launcher.new_record()
        again = read_report(path, self.stress) if path else None
        return result, again

    def suspects(self, judge, again):
        """The words to watch, the bad value, and how they are known. Words may be empty."""
        crash, suspect = self.crash, again.suspect if again else None
        of_heap = ([suspect["address"]], suspect["value"], f"the heap says: {suspect['text']}") if suspect else None
        if of_heap and not judge.crash_in_program(crash):
            return of_heap
        if crash["words"]:
            return crash["words"], crash["bad"], crash["how"]
        if crash["load"]:
            result = self.run([], None, load=crash["load"])
            loads = [load for load in result["loads"] if load[0] == result["crash"]["thread"]]
            if loads and loads[-1][2] == crash["bad"]:
                self.loads = [address for _, address, _ in loads]
                return self.loads[-1:], crash["bad"], "the bad pointer was loaded from it"
        return of_heap or ([], None, "")

    def last_hit(self, result, words, bound):
        """The last store of the bad value into one of the words; before the hop `bound`, where there is one."""
        hits = result["hits"]
        if bound is not None:
            ends = [hit["order"] for hit in hits if hit["word"] == bound["word"] and hit["number"] == bound["number"]]
            if not ends:
                raise NotFound("a store that one run saw was not seen in the next one")
            hits = [hit for hit in hits if hit["order"] < ends[0]]
        return next((hit for hit in reversed(hits) if hit["word"] in words), None)

    def follow(self, words, bad):
        """Follows the bad value through the malloc's moves. The hit that ends it, and its run's judge."""
        bound = None
        for _ in range(HOPS_MAX + 1):
            watched = (words + ([bound["word"]] if bound and bound["word"] not in words else []))[:WORDS_MAX]
            result = self.run(watched, bad)
            judge = self.judge(result)
            hit = self.last_hit(result, words, bound)
            if hit is None:
                raise NotFound(f"no instruction was seen to store {bad:#x} in {words[0]:#x}: a system call wrote it, "
                               "or it stood there from the start")
            self.hops.append(hit)
            if not judge.in_allocator(hit["stack"]) or judge.ends_here(hit, result["crash"]) or not hit["sources"]:
                return hit, judge
            self.log(f"hop {len(self.hops)}: {name_of(hit['stack'])} moved it to {hit['word']:#x} from "
                     f"{hit['sources'][0]:#x} ({hit['how']})")
            words, bound = hit["sources"], hit
        raise NotFound(f"the value was moved more than {HOPS_MAX} times")

    def judge(self, result):
        return Judge(self.allocator, History(self.launcher.calls), Symbols(result["maps"]))

    def find(self):
        """The verdict. Raises NotFound."""
        result, again = self.learn()
        judge = self.judge(result)
        if self.report.signal == 6:
            verdict = judge.judge_stack(self.crash)
            return {**verdict, "bad": None, "how": "", "hops": 0}
        words, bad, how = self.suspects(judge, again)
        if not words:
            raise NotFound("the word that held the bad value is not known: the heap names none, and no load of the "
                           "register was found before the fault")
        self.log(f"suspect word {words[0]:#x} holds {bad:#x}: {how}")
        known = {"bad": bad, "how": how, "suspect": words[0]}
        try:
            hit, judge = self.follow(words[:3], bad)
        except NotFound:
            verdict = judge.judge_loads(self.loads, self.crash)
            if verdict is None:
                raise
            return {**verdict, **known, "bad": None, "hops": 0}
        verdict = judge.judge_store(hit, self.crash)
        return {**verdict, **known, "hops": len(self.hops) - 1, "thread": hit["thread"]}


def name_of(stack):
    return next((frame["function"] for frame in stack if frame["function"]), "?")
