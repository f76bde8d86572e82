"""Finds what gave a cell its value: a part of analyse.Analysis. It is the last store, followed through copies; or
nothing, because the block was allocated with that content, or the variable began with it."""

import known
from history import FREED
from judge import HOPS_MAX, name_of, SMALL
from launch import NotFound, Unseen
from verdict import FOUND, LIKELY

FILLING = 0xD1D1D1D1D1D1D1D1


class Stores:
    def trace(self, cell, bound):
        """Finds what gave a cell its value: a store, followed through copies; or nothing since its block was
        allocated."""
        word = cell["address"]
        moment = self.crash["calls"] if bound is None else bound["calls"]
        block = self.judge.history.block_at(word, moment)
        self.about.update(word=word, block_hit=self.judge.describe(block, word))
        if block is not None and block.freed is not None:
            return self.used_after_free(
                word,
                "it freed a block that was still in use; the heap then keeps a link there, or " "gives it to others",
            )
        hit = self.last_store(cell, bound, block)
        self.refresh()
        before = self.moved_from(cell, block, hit)
        if before is not None:
            self.hits.append(hit)
            self.say(f"realloc moved it to {word:#x} from {before['address']:#x}")
            return self.of_moved(cell, before, hit, block)
        if hit is None or block is not None and hit["calls"] is not None and hit["calls"] <= block.allocated.index:
            return self.never_written(cell, block, hit)
        self.hits.append(hit)
        if self.judge.in_allocator(hit["stack"]) and not hit["sources"]:
            if block is not None and block.is_zeroed:
                return self.never_written(cell, block, None)
            raise NotFound("the last store is the malloc's own, and the origin of its value is not known")
        if block is None and self.is_left_behind(word, hit, bound):
            return self.never_set(word, hit, bound)
        if len(self.hits) <= HOPS_MAX and not self.is_overflow(hit, block):
            verdict = self.copied(hit, cell) if hit["sources"] else self.of_result(hit, hit, cell, bound)
            if verdict:
                return verdict
        return self.stored(hit, cell, block)

    @staticmethod
    def frame_at(frames, address):
        """[function, end] of the frame that an address of the stack is in; None: it is in none."""
        return next((row for row in frames if address < row[1]), None)

    def is_left_behind(self, word, hit, bound):
        """Whether the word is in a frame that began after the store: an earlier function of the same stack made it."""
        start, _, end = self.crash["stack_range"] or (0, 0, 0)
        now = (bound or self.crash).get("frames") or []
        owner = self.frame_at(now, word)
        if not start <= word < end or owner is None or hit["thread"] != (bound or self.crash)["thread"]:
            return False
        is_whole = any(there >= owner[1] for _, there in hit["frames"])
        return is_whole and owner not in hit["frames"]

    def never_set(self, word, hit, bound):
        at = bound or self.crash
        name = self.frame_at(at["frames"], word)[0]
        frame = next((row for row in at["stack"] if row["function"] == name), None) or self.judge.culprit(at["stack"])
        name_of_left = (self.judge.culprit(hit["stack"]) or {}).get("function") or "another"
        return self.make(
            FOUND,
            "uninitialised",
            frame,
            f"it used a variable of its own that it had not set; {name_of_left} left the value",
            at["stack"],
        )

    def moved_from(self, cell, block, hit):
        """The cell in the previous block from which realloc copied; None: it did not copy."""
        if block is None or hit is None or hit["calls"] != block.allocated.index:
            return None
        calls = self.judge.history.before(block.allocated.index)
        last = calls[-1] if calls else None
        if last is None or last.operation != FREED or last.caller != block.allocated.caller:
            return None
        return {**cell, "address": last.block + cell["address"] - block.start}

    def of_moved(self, cell, before, hit, block):
        earlier = self.last_store(before, {"calls_below": hit["calls"]})
        self.refresh()
        if earlier is None or self.judge.in_allocator(earlier["stack"]):
            raise NotFound("realloc copied the value, and where it came from before is not known")
        self.hits.append(earlier)
        self.about["word"] = before["address"]
        by, value = self.judge.culprit(earlier["stack"]), cell["value"]
        cause = "null_stored" if value < SMALL else "bad_value_stored"
        return self.make(
            FOUND,
            cause,
            by,
            f"it stored {'NULL' if value == 0 else f'{value:#x}'} in a block that realloc moved "
            "later, which was used as a pointer then",
            earlier["stack"],
        )

    def last_store(self, cell, bound, block=None):
        """The last store, including one of a value that was already there. block: the block that contains the cell."""
        try:
            hit = self.tracer.last_store(cell, bound)
        except Unseen as reason:
            if block is None or reason.calls > block.allocated.index:
                raise
            hit = None  # before the allocation: the system may have taken the memory and returned it zeroed
        if cell["value"] is None:
            return hit
        same, is_settled = self.tracer.settle(cell, hit, bound)
        self.is_settled = self.is_settled and is_settled
        return same or hit

    def is_overflow(self, hit, block):
        """Whether a store went through a pointer to another block or variable than the one it wrote to. Wherever the
        value came from, that store is the fault."""
        if block is not None:
            owned, is_sure = self.judge.owned(hit, block)
            return is_sure and owned is not None and owned.start != block.start
        here, bases = hit.get("cell_symbol"), [row for row in hit["base_symbols"] if row]
        return bool(here and bases and bases[0][1] != here[1])

    def copied(self, hit, cell):
        """The verdict on the source of a copy; None if only the copy is known."""
        about, hits = dict(self.about), list(self.hits)
        self.say(
            f"hop {len(hits)}: {name_of(hit['stack'][0])} copied it to {cell['address']:#x} from "
            f"{hit['sources'][0]:#x} ({hit['how']})"
        )
        try:
            verdict = self.trace({**cell, "address": hit["sources"][0]}, hit)
            here, there = self.judge.culprit(hit["stack"]) or {}, verdict["culprit"] or {}
            is_spill = (here.get("function"), here.get("module")) == (
                there.get("function"),
                there.get("module"),
            ) and verdict["cause"] in ("null_stored", "bad_value_stored")
            if hit["store"].get("ambiguous") and verdict["grade"] == FOUND:
                verdict = {
                    **verdict,
                    "grade": LIKELY,
                    "alternatives": [
                        *verdict["alternatives"],
                        (self.judge.culprit(hit["stack"]), "it may have had the value from elsewhere, on another path"),
                    ],
                }
            if verdict["cause"] != "never_set" and not is_spill:
                return verdict
        except NotFound as reason:
            self.say(f"not further: {reason}")
            verdict = self.of_walk(hit)
            if verdict:
                return verdict
            hit["is_lost"] = True
        self.about, self.hits = about, hits
        return None

    def stored(self, hit, cell, block):
        """A store by the program, of a value that it made or got from elsewhere."""
        by, stack, value = self.judge.culprit(hit["stack"]), hit["stack"], cell["value"]
        cause = "null_stored" if value < SMALL else "bad_value_stored"
        what = "NULL" if value == 0 else f"{value:#x}"
        if block is None:
            return self.stored_static(hit, cell, by, cause, what)
        owned, is_sure = self.judge.owned(hit, block)
        if owned is not None and owned.start != block.start and is_sure:
            self.about["block_owned"] = self.judge.describe(owned, cell["address"])
            return self.make(FOUND, "overflow", by, "it wrote past the end of its block, into another one", stack)
        neighbour = self.judge.neighbour(hit, block)
        if neighbour is not None and value >= SMALL:
            self.about["block_owned"] = self.judge.describe(neighbour, cell["address"])
            return self.make(LIKELY, "overflow", by, "it wrote past the end of its block, into another one", stack)
        if self.is_jump:
            cause = "bad_function_pointer"
        earlier = [one for one in self.judge.history.blocks_at(cell["address"], block.allocated.index) if one.freed]
        if not earlier:
            return self.make_stored(hit, cause, by, f"it stored {what}, which was used as a pointer later")
        return self.reused(hit, cell, block, earlier[-1], (by, cause, what))

    def make_stored(self, hit, cause, by, why):
        """A verdict on the store that gave the word its bad value: only `likely` if the store copied the value from a
        place that is not known."""
        store = hit["store"]
        if hit.get("is_lost"):
            others = [(None, "the code that wrote the value where it was copied from")]
            return self.make(LIKELY, cause, by, why, hit["stack"], alternatives=others)
        if store["kind"] in ("constant", "computed", "bulk") or store.get("cell"):
            return self.make(FOUND, cause, by, why, hit["stack"])
        if store["kind"] == "call":
            name = store.get("callee") or "a function"
            grade = LIKELY if hit["returns"] else FOUND
            others = [(None, f"{name}, which returned it")] if hit["returns"] else []
            return self.make(grade, cause, by, f"{why}; {name} had returned it", hit["stack"], alternatives=others)
        others = [(None, "the function that gave it the value")]
        return self.make(LIKELY, cause, by, why, hit["stack"], alternatives=others)

    def reused(self, hit, cell, block, earlier, store):
        """The word belonged to another block before: decides whether the reader's pointer means that block."""
        by, cause, what = store
        second, first = self.judge.history.second_free(block.start, hit["calls"])
        if second is not None:
            return {**self.of_double(FOUND, second, first, block), "store": by, "word": cell["address"]}
        blocks = [one for one in self.judge.history.blocks_at(cell["address"], block.allocated.index) if one.freed]
        writer = self.meant_by(hit["base_origin"], hit, [*blocks, block])
        if writer is not None and writer is not block:
            return self.make(
                FOUND,
                "use_after_free",
                by,
                "it wrote through a pointer to a block that had been freed, and that another had since",
                hit["stack"],
                alternatives=known.first_free(self.judge.frame_of(writer.freed)),
            )
        changed = self.without_frees(blocks)
        is_new = (
            changed == "same" and ((self.without["origin"] or {}).get("cell") or {}).get("address") != cell["address"]
        )
        meant = None if is_new or changed == "gone" else self.meant([*blocks, block])
        if is_new or meant is block:
            return self.make_stored(hit, cause, by, f"it stored {what}, which was used as a pointer later")
        if self.came_over(hit, block):
            return self.make(
                LIKELY,
                "overflow",
                by,
                "it wrote on from the end of the block before",
                hit["stack"],
                alternatives=[
                    (
                        self.judge.frame_of(earlier.freed),
                        "it freed the block that was there before: too " "early, if the writer still meant that one",
                    )
                ],
            )
        if changed == "gone" or meant is not None:
            name = (by or {}).get("function") or "another"
            why = f"it freed a block that was still in use, which malloc then gave to {name}"
            verdict = self.used_after_free_of(blocks, cell["address"], why, by)
            if verdict:
                return verdict
        return self.make(
            LIKELY,
            cause,
            by,
            f"it stored {what}, which was used as a pointer later",
            hit["stack"],
            alternatives=[
                (
                    self.judge.frame_of(earlier.freed),
                    "it freed the block that was there before: too " "early, if the reader still meant that one",
                )
            ],
        )

    def came_over(self, hit, block, value=None):
        """Whether the storing function also wrote the word in front of the block, without a call of malloc in between.
        value: what it wrote there, if known; then a store that changed nothing counts as well."""
        try:
            before = self.last_store({"address": block.start - 8, "size": 8, "value": value}, hit)
        except NotFound:
            return False
        return (
            before is not None
            and before["calls"] == hit["calls"]
            and before["stack"][0]["function"] == hit["stack"][0]["function"]
        )

    def stored_static(self, hit, cell, by, cause, what):
        here = next((row for row in [hit.get("cell_symbol")] if row), None)
        bases = [row for row in hit["base_symbols"] if row]
        if here and bases and bases[0][1] != here[1] and hit["store"]["kind"] != "load":
            return self.make(
                FOUND, "overflow", by, f"it wrote past the end of {bases[0][0]}, into {here[0]}", hit["stack"]
            )
        if (
            hit["store"]["kind"] == "bulk"
            and hit["bases"]
            and cell["address"] - min(hit["bases"]) > 0
            and here
            and min(hit["bases"]) < here[1]
        ):
            return self.make(
                FOUND, "overflow", by, f"it wrote on from {min(hit['bases']):#x} into {here[0]}", hit["stack"]
            )
        if self.is_jump:
            cause = "bad_function_pointer"
        where = f" in {here[0]}" if here else ""
        return self.make_stored(hit, cause, by, f"it stored {what}{where}, which was used as a pointer later")

    def never_written(self, cell, block, earlier):
        """No store was seen: into a block since its allocation, or into a variable ever."""
        if block is None:
            if self.crash["origin"].get("stack") and self.stack_part(cell["address"]):
                return self.make(
                    LIKELY,
                    "uninitialised",
                    self.user,
                    "it used a variable of its own that nothing was seen to " "set",
                    self.crash["stack"],
                )
            where = f" {self.crash['origin']['symbol'][0]}" if self.crash["origin"].get("symbol") else ""
            if cell["value"] != 0:
                return self.make(
                    LIKELY,
                    "never_set",
                    self.user,
                    f"it used the variable{where}, which no instruction was seen " f"to set to {cell['value']:#x}",
                    self.crash["stack"],
                    alternatives=[(None, "a system call that wrote it, such as read")],
                )
            return self.make(
                FOUND,
                "never_set",
                self.user,
                f"it used the variable{where}, which nothing had set",
                self.crash["stack"],
            )
        frame = self.judge.frame_of(block.allocated)
        left = self.judge.culprit(earlier["stack"]) if earlier else None
        if block.is_zeroed:
            others = (
                [] if self.is_settled else [(None, "a store of NULL: the word was used too often to see all of them")]
            )
            return self.make(
                FOUND if self.is_settled else LIKELY,
                "uninitialised",
                frame,
                "it allocated the block, zeroed; " f"byte {cell['address'] - block.start} was never written since",
                [frame],
                alternatives=others,
            )
        proof = self.prove_uninitialised(cell, block)
        if proof == "written":
            return self.make(
                LIKELY,
                "null_stored",
                self.user,
                "it used a NULL that the program stored where NULL was before",
                self.crash["stack"],
                alternatives=[(frame, "it allocated the block")],
            )
        why = f"byte {cell['address'] - block.start} of the block that it allocated was never written since"
        if left is not None:
            why += f"; its value was left by {left['function'] or 'the block before'}"
        others = (
            []
            if proof == "filled"
            else [(None, "a store of the value that was there already, which no watchpoint sees")]
        )
        return self.make(
            FOUND if proof == "filled" else LIKELY, "uninitialised", frame, why, [frame], alternatives=others
        )

    def prove_uninitialised(self, cell, block):
        """Runs with the block filled at its allocation. "filled": the filling was used; "written": the program had
        written the word; "": neither was seen."""
        try:
            crash = self.tracer.changed(f"HAKMEM_REPLAY_FILL={block.allocated.index + 1}", cell["address"])
        except NotFound:
            return ""
        if crash is None:
            return ""
        mask = (1 << 8 * cell["size"]) - 1
        held = dict(crash["read"]).get(cell["address"])
        if held is not None and held & mask == FILLING & mask or crash["bad"] == FILLING & mask:
            return "filled"
        same = all(crash.get(key) == self.tracer.crash.get(key) for key in ("pc", "bad"))
        return "written" if same else ""
