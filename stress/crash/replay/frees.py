"""Finds the guilty free: a part of analyse.Analysis. A free is guilty if the program gets further without it."""

import known
from history import CALL
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
        return self.make(grade, cause, frame, why, stack, **more)

    def used_after_free(self, address, why, **more):
        """The block at an address was freed, and then used. The memory may have had several owners, one after another.
        The guilty free is the one without which the program does not crash."""
        blocks = [block for block in self.judge.history.blocks_at(address, self.crash["calls"]) if block.freed]
        block, is_proved = self.guilty_free(blocks)
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

    def guilty_free(self, blocks):
        """Among blocks that were freed at one place, the last first: the block whose free is guilty, and whether that
        is proved."""
        if not self.judge.history.is_whole and len(blocks) > 1:
            raise Lost(
                f"the memory had {len(blocks)} known owners, one after another, and the first calls of malloc are "
                "no longer in the log"
            )
        innocent = []
        for block in dict.fromkeys([*reversed(blocks[-FREES_TRIED:]), *blocks[:2]]):
            changed = self.without_frees([block])
            if changed is None:
                break
            if changed == "gone":
                return block, True
            if changed == "same":
                innocent.append(block)
        meant = self.meant(blocks)
        if meant is not None:
            return meant, meant not in innocent
        return blocks[-1], len(blocks) == 1 and not innocent and self.judge.history.is_whole

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
        same = crash["pc"] == self.crash["pc"] and value_class(crash["bad"]) == value_class(self.crash["bad"])
        if not same or crash["calls"] != self.crash["calls"]:
            return "else"
        self.without = crash
        return "same"

    def meant(self, blocks):
        """Of the blocks that were at one place, the one that the pointer meant by which the bad value was read: the
        block that was there when the pointer was stored, or that was allocated by the function that returned it. None:
        not known."""
        origin = (self.crash["origin"] or {}).get("base_origin") or {}
        if origin.get("cell"):
            hit = self.store_before(origin["cell"])
            moment = hit["calls"] if hit else None
            there = [block for block in blocks if moment is not None and block.allocated.index < moment]
            return there[-1] if there and moment is not None else None
        if origin.get("callee"):
            there = [block for block in blocks if self.judge.frame_of(block.allocated)["function"] == origin["callee"]]
            return there[0] if len(there) == 1 else None
        return None

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
        before = self.judge.frame_of(first)
        name = before["function"] or "another"
        why = f"it freed the block a second time, after {name} had; malloc then gave it to two owners"
        return self.freed(
            grade,
            "double_free",
            second,
            why,
            alternatives=known.first_free(before),
            block_hit=self.judge.describe(block, block.start),
        )
