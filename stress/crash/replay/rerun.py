"""The tracer of the method rerun: runs the program again under gdb, always at the same addresses. The first run learns
where the crash is now. Each question is another run, with watchpoints. A run that crashes elsewhere is not used."""

import os

from history import History
from launch import NotFound, Raced, Unseen
from report import read as read_report, value_class
from symbols import Symbols

CANDIDATES_MAX = 4  # debug registers
DECISIONS_MAX = 3  # instructions of one path that are decided on
CHILDREN_MAX = 8  # forks that are followed, one after another, until a child crashes
SETTLED = ("pc", "bad", "access", "address")  # facts of the crash that must be the same in each run


class Rerun:
    name = "rerun"
    can_note_unmaps = True

    def __init__(self, report, launcher, stress, tries, say):
        self.report, self.launcher, self.stress, self.tries, self.say = report, launcher, stress, tries, say
        self.crash = self.again = self.result = None
        self.follow = ["parent"] if report.forked is False else ["child", *map(str, range(1, CHILDREN_MAX + 1))]
        if report.forked is None:
            self.follow.insert(0, "parent")
        self.learn()

    def task(self, cells, **more):
        return {
            "cells": cells,
            "detail": None,
            "expect": self.report.signature(),
            "load": None,
            "load_detail": None,
            "find": None,
            "passes": [],
            "pass_until": None,
            "pass_detail": None,
            "prefer": [],
            "unmaps": None,
            "throws": False,
            "settle": None,
            "until": None,
            "below": None,
            "fault": self.again.fault if self.again else None,
            "follow": self.follow[0],
            "go_on": False,
            "read": self.report.words_to_read(self.again),
            "allocator": os.path.realpath(self.report.library) if self.report.library else "",
            **more,
        }

    def run(self, what, cells=(), **more):
        """A run that crashes as the report says. Other runs are dropped, and tried again."""
        reason, number = "", 0
        while number < self.tries:
            result = self.launcher.run("watch_script.py", self.task(list(cells), **more), what)
            reason = self.refusal(result)
            if not reason:
                self.result = result
                return result
            if self.crash is None and "crash" in result and len(self.follow) > 1:
                self.follow.pop(0)  # another of the processes that the program forks is the one that crashes
                continue
            number += 1
            self.look_for_race(result)
            if self.launcher.was_slow:
                raise NotFound(reason)
            self.say(f"run {self.launcher.runs} refused (try {number} of {self.tries}): {reason}")
        raise NotFound(f"no run of {self.tries} repeated the crash; the last: {reason}")

    def look_for_race(self, result):
        """A run that does not repeat the crash may still show two threads that free one block."""
        history = History(self.launcher.calls)
        rows = history.of_two_threads() if result.get("maps") else None
        if rows:
            raise Raced(history, Symbols(result["maps"]), rows)

    def refusal(self, result):
        """Why a run does not count; '' if it does. The first run that counts sets what the others must repeat."""
        if "failed" in result:
            return result["failed"]
        if result["errors"]:
            return "the watch failed: " + result["errors"][0]
        crash = result["crash"]
        if crash is None:
            other = result.get("other")
            return result["ended"] + (
                f"; signal {other['signal']} at {other['module']}+{other['offset']:#x} instead" if other else ""
            )
        if self.crash is None:
            return self.refuse_value(crash)
        for key in SETTLED:
            if crash.get(key) != self.crash.get(key):
                return f"it diverged: {key} is {crash.get(key)}, and was {self.crash.get(key)}"
        return ""

    def refuse_value(self, crash):
        """The bad value must look like the report's. An index need not: it may be how far it is to the end of memory."""
        name = crash.get("register")
        if name is None or name not in self.report.registers or crash.get("part") == "index":
            return ""
        before, now = value_class(self.report.registers[name]), value_class(crash["bad"])
        return "" if before == now else f"%{name} is {now} and not {before} as in the report"

    def learn(self):
        """Makes two runs. The second knows the address of the fault, from the record that the first one wrote."""
        result = self.run("to see the crash again", go_on=True)
        path = self.launcher.new_record()
        self.again = read_report(path, self.stress) if path else None
        if self.again and (self.again.fault is not None or self.report.words_to_read(self.again)):
            result = self.run("to see it once more, with its addresses")
        self.crash = result["crash"]
        self.decide_crash()

    def decide_crash(self):
        """If several instructions may have made the bad value, finds out which one did."""
        prefer = []
        for _ in range(DECISIONS_MAX):
            origin = self.crash["origin"] or (self.crash.get("given") or {}).get("origin") or {}
            pcs = origin.get("candidates") or []
            if not 1 < len(pcs) <= CANDIDATES_MAX:
                return
            try:
                passed = self.run("sees which instruction made the bad value", passes=pcs)["crash"]["passed"]
                if passed is None:
                    return
                prefer.append(passed["pc"])
                self.crash = self.run("goes back from there", prefer=prefer)["crash"]
            except NotFound as reason:
                self.say(str(reason))
                return

    def decide(self, cells, hit):
        """The same for the value that was stored; and the address of a load that has overwritten its own base."""
        prefer, number = [], hit["number"]
        for _ in range(DECISIONS_MAX):
            store = hit["store"]
            is_blind = store["kind"] == "load" and not store.get("cell")
            pcs = [store["from_pc"]] if is_blind else store.get("candidates") or []
            if not 0 < len(pcs) <= CANDIDATES_MAX - len(cells) or not is_blind and len(pcs) < 2:
                break
            result = self.run(
                "sees which instruction made the value", cells, detail=[[0, number]], passes=pcs, prefer=prefer
            )
            seen = self.hit(result, number)
            if seen is None or seen["passed"] is None:
                break
            passed = seen["passed"]
            if is_blind:
                size = hit["cell"]["size"]
                if passed["read"] and passed["read"][1] is not None:
                    if passed["read"][1] & (1 << 8 * size) - 1 == hit["cell"]["value"]:
                        cell = {**hit["cell"], "address": passed["read"][0]}
                        hit["store"]["cell"] = cell
                        hit.update(sources=[cell["address"]], how="loaded by " + store.get("from", ""))
                break
            prefer.append(passed["pc"])
            hit = self.hit(self.run("goes back from there", cells, detail=[[0, number]], prefer=prefer), number) or hit
        return hit

    def returned(self, of, cell=None, bound=None):
        """How a function of the program got what it returned: a moment like a hit, with the origin. of: the hit that
        stored the result into the cell, a moment that this function gave, or the origin of a crash. None: not known."""
        cells = self.bounded(cell, bound)[0] if cell else []
        pcs, at = of.get("returns") or [], of.get("pass")
        if not 0 < len(pcs) <= CANDIDATES_MAX - len(cells) - bool(at):
            return None
        what = "sees where the function returned"
        if at:
            passed = self.run(what, passes=[*pcs, at[0]], pass_until=at).get("passed_until")
        elif cell:
            seen = self.hit(self.run(what, cells, detail=[[0, of["number"]]], passes=pcs), of["number"])
            passed = seen and seen["passed"]
        else:
            passed = self.run(what, passes=pcs)["crash"]["passed"]
        if passed is None or passed["pc"] not in pcs:
            return None
        at = [passed["pc"], passed["number"]]
        found = self.run("sees what the function returned", passes=[at[0]], pass_detail=at).get("pass_origin")
        return found and {**found, "number": passed["number"], "pass": at, "rax": passed["rax"]}

    def last_store(self, cell, bound=None):
        """The last store of its value into a cell before the hit `bound`, or before a number of calls of malloc
        ({"calls_below": N}), or else before the crash. None: there is none."""
        cells, below = self.bounded(cell, bound)
        what = f"watches {cell['address']:#x}"
        result = self.run(what, cells, **self.passes(bound))
        rows = result["stores"]
        if len(cells) > 1 or self.passes(bound):
            ends = self.ends_of(rows, bound)
            if not ends:
                raise NotFound("a store that one run saw was not seen in the next one")
            rows = rows[: ends[0]]
        rows = [row[1:] for row in rows if row[0] == 0 and (below is None or row[2] < below)]
        if rows and rows[-1][0] is None:
            raise Unseen(cell["address"], rows[-1][1])
        numbers = [number for number, _ in rows if number is not None]
        if not numbers:
            return None
        hit = self.hit(result, numbers[-1])
        if hit is None:
            hit = self.hit(self.run(what, cells, detail=[[0, numbers[-1]]]), numbers[-1])
        if hit is None:
            raise NotFound("a store that one run saw was not seen in the next one")
        return self.decide(cells, hit)

    @staticmethod
    def ends_of(rows, bound):
        """The places of the bound among the stores of a run. gdb misses a store into one cell if the same instruction
        stores its old value into another one. If the run then has no store of this number, the only store with this
        number of calls of malloc is the bound. A store of this number with other calls is another one: no place."""
        ends = [place for place, row in enumerate(rows) if row[:2] == [1, bound["number"]]]
        if "pass" in bound or bound.get("calls") is None:
            return ends
        same = [place for place, row in enumerate(rows) if row[0] == 1 and row[1] and row[2] == bound["calls"]]
        if ends:
            return [place for place in ends if place in same]
        return same if len(same) == 1 else []

    @staticmethod
    def passes(bound):
        """What a task needs for a bound that is the run of an instruction."""
        at = (bound or {}).get("pass")
        return {"passes": [at[0]], "pass_until": at} if at else {}

    @staticmethod
    def bounded(cell, bound):
        """The cells to watch, of which the second belongs to the bound, and the number of calls if that is the bound.
        The run cannot wait for a store that changed nothing (number 0)."""
        if bound is None:
            return [cell], None
        if "pass" in bound:
            return [cell], None
        if "calls_below" in bound or bound["number"] == 0:
            return [cell], bound.get("calls_below", bound.get("calls"))
        return [cell, bound["cell"]], None

    def settle(self, cell, hit, bound=None):
        """A store of the value that the cell already had, after the last store that changed it (hit, or None); and
        whether all such stores were seen."""
        try:
            result = self.settled(cell, hit, bound)
        except NotFound as reason:
            self.say(str(reason))
            return None, False
        last = result["restores"][-1] if result["restores"] else None
        if last is not None:
            last["number"] = hit["number"] if hit else 0
            self.number_restore(last, cell, hit, bound)
        return last, not result["unsettled"]

    def settled(self, cell, hit, bound, more=()):
        cells, below = self.bounded(cell, bound)
        passes = self.passes(bound)
        return self.run(
            f"watches each access to {cell['address']:#x}",
            cells,
            settle=[0, hit["number"] if hit else 0],
            until=[1, bound["number"]] if len(cells) > 1 else None,
            below=below,
            **{**passes, "passes": [*passes.get("passes", ()), *more]},
        )

    def number_restore(self, last, cell, hit, bound):
        """Counts the runs of the instruction that stored a value again, so that it can be a bound like other stores."""
        if not last["store"]["pc"]:
            return
        try:
            again = self.settled(cell, hit, bound, [last["store"]["pc"]])["restores"]
        except NotFound as reason:
            self.say(str(reason))
            return
        passed = again[-1]["passed"] if again else None
        if passed is not None:
            last.update({"pass": [passed["pc"], passed["number"]], "number": passed["number"]})

    @staticmethod
    def hit(result, number):
        return next((hit for hit in result["hits"] if hit["index"] == 0 and hit["number"] == number), None)

    def loads(self, pc):
        """What the crashed thread's last runs of an instruction read, first to last: [address, value, registers]; and the
        origin of the last one's pointer, or None."""
        result = self.run("notes what an instruction reads", load=pc)
        rows = [row[1:] for row in result["loads"] if row[0] == result["crash"]["thread"] and row[2] is not None]
        if not rows:
            return [], None
        result = self.run("notes by which pointer it reads", load=pc, load_detail=rows[-1][0])
        return [row[1:] for row in rows], result.get("load_origin")

    def held(self, pc):
        """What the registers of an instruction held in the crashed thread's last runs of it, with the address that it used or
        None: [address, {name: value}]."""
        result = self.run("notes what an instruction used", load=pc)
        return [[row[2], row[4]] for row in result["loads"] if row[0] == result["crash"]["thread"]]

    def words(self, value):
        """Addresses of the words that hold a value at the crash; []: too many."""
        return self.run("looks for the words that hold it", find=value)["crash"]["found"]

    def thrown(self):
        """The stack of the last exception that the thread threw; None: there was none."""
        result = self.run("notes who throws", throws=True)
        return result["thrown"].get(str(result["crash"]["thread"]))

    def unmaps(self, address):
        """System calls that took away the memory at an address, first to last."""
        return self.run("notes which calls take memory away", unmaps=address)["unmaps"]

    def changed(self, variable, address=None):
        """The crash of a run in which libreplay-calls.so changes something (see calls.c), whatever the cause of that
        crash, with the word that is then at an address. None: the run ended without a crash."""
        self.launcher.write_wrapper([variable])
        try:
            task = self.task([], expect=None, read=[address] if address is not None else [])
            result = self.launcher.run("watch_script.py", task, "does otherwise, to see what changes")
        finally:
            self.launcher.write_wrapper()
        if "failed" in result:
            raise NotFound(result["failed"])
        return result["crash"]

    def with_stacks(self):
        """The log of another run, with the stack of each free."""
        try:
            self.changed("HAKMEM_REPLAY_STACKS=1")
        except NotFound as reason:
            self.say(str(reason))
        return History(self.launcher.calls)

    def calls(self):
        return self.launcher.calls

    def history(self):
        return History(self.launcher.calls)

    def symbols(self):
        return Symbols(self.result["maps"])

    def close(self):
        pass
