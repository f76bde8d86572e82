"""Finds the guilty free: a part of analyse.Analysis. A free is guilty if the program gets further without it."""

import known
import verdict as verdicts
from history import CALL
from judge import HOPS_MAX, Judge
from launch import Lost, NotFound
from report import value_class
from verdict import FOUND, LIKELY

KEPT_MAX = 63  # of calls.c
FREES_TRIED = 4  # frees tried at one place: this many of the last, and the first two


class Frees:
    def freed(self, grade, cause, call, why, **more):
        """A verdict on a call of free: by its whole stack if that can be seen."""
        frame, stack = self.judge.frame_of(call), [self.judge.frame_of(call)]
        log = self.crash.get("log")
        if log is not None and self.judge.history.is_whole:
            try:
                hit = self.tracer.last_store({"address": log + CALL.size * (1 + call.index), "size": 8, "value": None})
            except NotFound:
                hit = None
            by = self.judge.caller_in(hit["stack"]) if hit else None
            if by is not None and hit["calls"] == call.index:
                first = next(
                    (
                        number
                        for number, row in enumerate(hit["stack"])
                        if not row["module"].endswith("libreplay-calls.so")
                    ),
                    0,
                )
                frame, stack = by, hit["stack"][first:]
        if len(stack) == 1 and self.is_destructor(call):  # perhaps the compiler's, which frees the object itself
            grade = LIKELY
            more["alternatives"] = [*more.get("alternatives", []), (None, "the function that destroyed the object")]
        return self.make(grade, cause, frame, why, stack, **more)

    def used_after_free(self, address, why, is_walk=False, **more):
        """The block at an address was freed, and then used. The memory may have had several owners, one after another.
        The guilty free is the one without which the program does not crash. is_walk: as in guilty_free."""
        blocks = [block for block in self.judge.history.blocks_at(address, self.crash["calls"]) if block.freed]
        block, is_proved = self.guilty_free(blocks, is_walk)
        more.setdefault("block_hit", self.judge.describe(block, address))
        others = []
        if not is_proved:
            others = [
                (self.judge.frame_of(other.freed), "it freed a block that was there too")
                for other in reversed(blocks)
                if other is not block
            ][:2]
        return self.freed(
            FOUND if is_proved else LIKELY, "use_after_free", block.freed, why, alternatives=others, **more
        )

    def used_after_free_of(self, blocks, address, why, by):
        block, is_proved = self.guilty_free(blocks)
        if not is_proved:
            return None
        return self.freed(
            FOUND,
            "use_after_free",
            block.freed,
            why,
            store=by,
            block_hit=self.about.get("block_hit") or self.judge.describe(block, address),
        )

    def guilty_free(self, blocks, is_walk=False):
        """Among blocks that were freed at one place, the last first: the block whose free is guilty, and whether that
        is proved. is_walk: an earlier walk along pointers read the block. The crash's pointer then does not say which
        block was meant, so that only a run that gets further without the free proves it."""
        if not self.judge.history.is_whole and len(blocks) > 1:
            raise Lost(
                f"the memory had {len(blocks)} known owners, one after another, and the first calls of malloc are "
                "no longer in the log"
            )
        tried, results = list(dict.fromkeys([*reversed(blocks[-FREES_TRIED:]), *blocks[:2]])), {}
        for block in tried:
            results[block] = self.without_frees([block])
            if results[block] is None:
                break
        helps = [block for block in tried if results.get(block) == "gone"]
        if helps and len(blocks) == 1:
            return blocks[0], True
        meant = None if is_walk else self.meant(blocks)
        if meant is not None:
            return meant, meant in helps or meant in blocks and results.get(meant, "else") == "else" and not helps
        is_only = len(helps) == 1 and len(results) == len(blocks) and None not in results.values()
        if helps:
            return helps[0], is_only
        is_other = len(blocks) == 1 and "same" not in results.values() and self.judge.history.is_whole
        return blocks[-1], is_other and not is_walk

    def without_frees(self, blocks):
        """Runs the program without the frees of some blocks. "gone": the program gets further; "same": it crashes as
        before; "else": it crashes earlier. None: the program cannot be run in this way."""
        numbers = ",".join(str(block.freed.index + 1) for block in blocks[-KEPT_MAX:])
        self.say(f"runs with {len(blocks[-KEPT_MAX:])} frees of the block left out")
        try:
            crash = self.tracer.changed("HAKMEM_REPLAY_KEEP=" + numbers)
        except NotFound as reason:
            self.say(str(reason))
            return None
        if crash is None or (crash["calls"] or 0) > (self.crash["calls"] or 0):
            return "gone"
        same = crash["pc"] == self.crash["pc"] and value_class(crash["bad"]) == value_class(self.tracer.crash["bad"])
        if not same or crash["calls"] != self.crash["calls"]:
            return "else"
        self.without = crash
        return "same"

    def meant(self, blocks):
        """Of the blocks that were at one place, the one that the pointer meant by which the bad value was read: the
        block that was there when the pointer was stored, or that was allocated by the function that returned it. None:
        not known."""
        origin = (self.crash["origin"] or {}).get("base_origin") or {}
        return self.meant_by(origin, None, blocks)

    def meant_by(self, origin, bound, blocks):
        """The block that the program meant by a pointer with this origin: the last of the blocks at the moment when
        it got the pointer, before which it only copied it. bound: the store, or the crash (None), for which it used
        the pointer."""
        moment = None
        for _ in range(HOPS_MAX):
            cell = (origin or {}).get("cell")
            if cell is None or origin.get("ambiguous") or moment is not None and moment <= blocks[0].allocated.index:
                break
            settled = self.is_settled
            try:
                hit = self.last_store(cell, bound)
            except NotFound as reason:
                self.say(str(reason))
                return None
            if hit is None or not self.is_settled:
                self.is_settled = settled
                return None
            self.refresh()
            moment, origin, bound = hit["calls"], hit["store"], hit
        if (origin or {}).get("kind") == "call" and origin.get("callee") and moment is None:
            there = [block for block in blocks if self.judge.frame_of(block.allocated)["function"] == origin["callee"]]
            return there[0] if len(there) == 1 else None
        there = [block for block in blocks if moment is not None and block.allocated.index < moment]
        return there[-1] if there else None

    def double_free(self):
        """A block that was freed twice before the crash. It is `found` if the heap stumbled over exactly this block."""
        self.refresh()
        doubles = self.judge.history.double_frees(self.crash["calls"])
        if not doubles:
            return None
        places = [self.about.get("suspect"), self.about.get("bad"), self.crash["bad"]]
        for second, first, start in doubles:
            block = self.judge.history.block_at(start, self.crash["calls"])
            if any(place is not None and block is not None and block.holds(place) for place in places):
                return self.of_double(FOUND, second, first, block)
        second, first, start = doubles[0]
        return self.of_double(LIKELY, second, first, self.judge.history.block_at(start, self.crash["calls"]))

    def of_double(self, grade, second, first, block):
        meant = self.judge.history.meant_first(second, first, lambda call: self.judge.frame_of(call)["function"])
        if meant is not None:
            second, first = meant
            block = next((one for one in self.judge.history.all_blocks(None) if one.freed is first), block)
        before = self.judge.frame_of(first)
        hit = self.judge.describe(block, block.start)
        if meant is not None or self.is_destructor(second) and not self.is_destructor(first):
            return self.freed(
                LIKELY,
                "double_free",
                first,
                f"it freed a block that {self.judge.frame_of(second)['function'] or 'another'} freed again",
                alternatives=[(self.judge.frame_of(second), "it freed the block a second time")],
                block_hit=hit,
            )
        name = before["function"] or "another"
        why = f"it freed the block a second time, after {name} had; malloc then gave it to two owners"
        return self.freed(grade, "double_free", second, why, alternatives=known.first_free(before), block_hit=hit)

    def is_destructor(self, call):
        """Whether a free belongs to a destructor: it frees what its object owns, so another free is one too many."""
        own = [row for row in self.judge.symbols.callers(call.caller) if not self.judge.is_foreign(row)]
        return bool(own) and "~" in own[0]["function"]

    def freed_by_two_threads(self):
        """Two threads freed one block: the log of the run shows both calls, whatever crashed then."""
        self.refresh()
        rows = self.judge.history.of_two_threads()
        if rows is None:
            return None
        judge = self.judge
        if hasattr(self.tracer, "with_stacks"):
            history = self.tracer.with_stacks()
            if history.of_two_threads():  # a race need not come again
                judge = Judge(self.report, history, self.tracer.symbols())
        return of_two_threads(judge, judge.history.of_two_threads())


def of_two_threads(judge, rows):
    """rows: the second free, and the first."""
    second, first = rows
    block = judge.history.block_at(second.block, None)
    by, before = judge.frame_of(second), judge.frame_of(first)
    stack, other = ([row for at in judge.history.stack_of(call) for row in judge.symbols.callers(at)] for call in rows)
    return verdicts.make(
        FOUND,
        "double_free",
        by,
        f"it freed the block a second time, after {before['function'] or 'another'} had in another thread",
        stack,
        alternatives=[] if by["function"] == before["function"] else known.first_free(before),
        block_hit=judge.describe(block, block.start),
        other_stack=other,
        thread=second.thread,
    )
