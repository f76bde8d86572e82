"""From a crash to who did it: follows the bad value back, by the questions that a tracer answers (rerun.py, reverse.py),
and says what was seen. A verdict is `found` only where the store that made the value was seen and nothing else explains
it; where something else fits too it is `likely`, with the alternatives.

The last store of a value is not always its origin: a copy is followed to where it was copied from. A store by the C
library is its caller's. A store into a block by the function that owns it is innocent where the reader's pointer is older
than the block: then the function did the harm that freed the block while the reader still used it."""

import known
import verdict as verdicts
from history import CALL, FREED, count_of
from judge import Judge, name_of
from launch import NotFound, Unseen
from report import number, value_class
from verdict import FOUND, LIKELY

HOPS_MAX = 8
SMALL = 4096  # values below are NULL with an offset
FILLING = 0xd1d1d1d1d1d1d1d1
STORES = ("null_stored", "bad_value_stored", "never_set", "overflow", "wild_write", "bad_function_pointer", "uninitialised")
KEPT_MAX = 63  # of calls.c
NEAR_BYTES = 64  # from where memory begins: a loop that comes from below crashes there
FREES_TRIED = 4  # of the last ones at a place; and the first two
HARM = ("overflow", "use_after_free", "double_free", "use_after_return")


class Analysis:
    def __init__(self, report, tracer, say):
        self.report, self.tracer, self.say = report, tracer, say
        self.again = tracer.again or report
        self.crash = tracer.crash
        self.judge = Judge(report, tracer.history(), tracer.symbols())
        self.hits, self.about, self.is_settled = [], {}, True
        self.is_direct = False  # what was written is known by the validate library, not by whose block it was
        self.is_guess = False  # the word that the bad value was loaded from
        self.user = self.judge.culprit(self.crash["stack"])

    def refresh(self):
        """After a run: its log of calls, which is the one before where as many calls are in it."""
        if count_of(self.tracer.calls()) != self.judge.history.count:
            self.judge = Judge(self.report, self.tracer.history(), self.tracer.symbols())

    def make(self, grade, cause, culprit, why, stack, **more):
        if culprit is None and grade != verdicts.NOT_FOUND:
            raise NotFound(f"what did it was no code of the program: {why}")
        more = {**self.about, "hops": max(0, len(self.hits) - 1), **more}
        if self.hits:
            more.setdefault("thread", self.hits[-1]["thread"])
        if grade == FOUND and not self.is_direct and not self.judge.history.is_whole and (more.get("block_hit") or cause in STORES):
            grade = LIKELY
            more["alternatives"] = [(None, "who freed the memory before: not all calls of malloc were written down")]
        if grade == FOUND and self.is_guess and cause not in ("use_after_free", "double_free"):  # they are proved by a run
            grade = LIKELY
            more["alternatives"] = [*more.get("alternatives", []), (self.user, "it may have had the bad value from elsewhere")]
        if grade == FOUND and not self.is_settled and cause in ("null_stored", "bad_value_stored", "never_set"):
            grade = LIKELY
            more["alternatives"] = [(None, "a later store of the same value: the word was used too often to see all of them")]
        return verdicts.make(grade, cause, culprit, why, stack, **more)

    def freed(self, grade, cause, call, why, **more):
        """A verdict on a call of free: by its whole stack, where that can be seen."""
        frame, stack = self.judge.frame_of(call), [self.judge.frame_of(call)]
        log = self.crash.get("log")
        if log is not None and self.judge.history.is_whole:
            try:
                hit = self.tracer.last_store({"address": log + CALL.size * (1 + call.index), "size": 8, "value": None})
            except NotFound:
                hit = None
            by = self.judge.caller_in(hit["stack"]) if hit else None
            if by is not None and hit["calls"] == call.index:
                first = next((number for number, row in enumerate(hit["stack"])
                              if not row["module"].endswith("libreplay-calls.so")), 0)
                frame, stack = by, hit["stack"][first:]
        return self.make(grade, cause, frame, why, stack, **more)

    def used_after_free(self, address, why, **more):
        """The block at an address was freed, and used. The memory may have had several owners, one after the other: the free
        that did it is the one without which the crash does not come."""
        blocks = [block for block in self.judge.history.blocks_at(address, self.crash["calls"]) if block.freed]
        block, is_proved = self.guilty_free(blocks)
        more.setdefault("block_hit", self.judge.describe(block, address))
        others = []
        if not is_proved:
            others = [(self.judge.frame_of(other.freed), "it freed a block that was there too")
                      for other in reversed(blocks) if other is not block][:2]
        return self.freed(FOUND if is_proved else LIKELY, "use_after_free", block.freed, why, alternatives=others, **more)

    def guilty_free(self, blocks):
        """Of blocks that were freed at one place, the last first: the one whose free did it, and whether that is proved."""
        if not self.judge.history.is_whole and len(blocks) > 1:
            raise NotFound(f"the memory had {len(blocks)} owners one after the other that are known, and the first calls of "
                           "malloc are not written down any more")
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
        """A run in which the frees of some blocks are left out: "gone", the program comes further; "same": it crashes as
        before; "else": before that. None: the program cannot be run so."""
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
        """Which of the blocks that were at one place the pointer meant by which the bad value was read: the one that was there
        when the pointer was stored, or that was allocated by the function that returned it. None: not known."""
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

    # --- which kind of crash -----------------------------------------------------------------------------------------

    def find(self):
        crash, stack = self.crash, self.crash["stack"]
        if self.again.damages_program():
            return self.damaged_bytes()
        if self.judge.in_allocator(stack) and (crash["signal"] != 6 or self.again.suspect or self.again.damaged_word()):
            return self.in_malloc()
        if crash["signal"] == 6:
            return self.stopped()
        if crash["stack_overflow"]:
            rows = [known.of_recursion(self.judge, self.again, stack, True),
                    known.of_large_frame(self.judge, self.again, stack, crash["frame_sizes"])]
            verdict = next((row for row in rows if row and row["grade"] == FOUND), rows[0] or rows[1])
            if verdict:
                return verdict
        if crash["access"] == "divisor":
            return self.divided()
        if crash["access"] == "none":
            verdict = known.of_record(self.judge, self.again)
            if verdict:
                return verdict
            raise NotFound("the instruction that crashed used no memory")
        return self.in_program()

    def divided(self):
        """By zero: that is the dividing function's, unless the zero came of harm to the memory that it was read from."""
        origin, why = self.crash["origin"], "it divided an integer by zero"
        by = self.user
        if origin["kind"] == "load":
            self.is_jump = False
            try:
                verdict = self.from_cell(origin, False)
            except NotFound as reason:
                self.say(str(reason))
                return self.make(LIKELY, "division_by_zero", by, why, self.crash["stack"],
                                 alternatives=[(None, "the function that stored the zero")])
            if verdict["cause"] in HARM:
                return verdict
            if verdict["grade"] == FOUND:
                other = (verdict["culprit"] or {}).get("function")
                why += f", which {other} left there" if other else ""
            else:
                return self.make(LIKELY, "division_by_zero", by, why, self.crash["stack"],
                                 alternatives=[(verdict["culprit"], verdict["why"])])
        self.about, self.hits = {}, []
        return self.make(FOUND if origin["kind"] in ("load", "constant", "computed", "call") else LIKELY, "division_by_zero",
                         by, why, self.crash["stack"])

    def stopped(self):
        """Where the malloc, or the C library, or the program stopped it."""
        verdict = known.of_abort(self.judge, self.crash["stack"])
        if verdict and verdict["cause"] == "uncaught_exception" and verdict["grade"] == LIKELY and \
                known.UNWINDERS & set(self.judge.prefix(self.crash["stack"])):
            return self.thrown(verdict)
        verdict = verdict or known.of_failfast(self.judge, self.again)
        if verdict:
            return verdict
        verdict = self.double_free()
        if verdict:
            return verdict
        return self.make(LIKELY, "bad_free", self.user, "the malloc stopped the program in a call that it made",
                         self.crash["stack"])

    def thrown(self, verdict):
        """std::terminate, after the stack was unwound up to a function that may not throw: who threw?"""
        stack = self.tracer.thrown() if hasattr(self.tracer, "thrown") else None
        by = self.judge.culprit(stack or [])
        if by is None:
            return verdict
        name = verdict["culprit"]["function"]
        return self.make(FOUND, "uncaught_exception", by, f"it threw an exception that left {name}, which may not throw", stack,
                         used_by=verdict["culprit"])

    # --- what the validate library found -----------------------------------------------------------------------------

    def damaged_bytes(self):
        """The last to write to the bytes that a check found changed."""
        word, find, self.is_direct = self.again.damaged_word(), self.again.failfast, True
        bad = number(find["bad_address"])  # the byte alone: those beside it in its word may be rightly written
        cell = {"address": bad, "size": 1, "value": None}
        self.say(f"watches the bytes that were overwritten, at {find['bad_address']}")
        hit = self.tracer.last_store(cell)
        if hit is None:
            raise NotFound(f"no instruction was seen to write to {word:#x}: a system call wrote it")
        self.hits.append(hit)
        self.refresh()
        block = self.judge.describe(self.judge.history.block_at(self.again.failfast_start(), self.crash["calls"]), word) \
            if self.again.failfast_start() else None
        self.about = {"word": word, "bad": hit["cell"]["value"], "suspect": word, "how": find["text"], "block_hit": block}
        by = self.judge.culprit(hit["stack"])
        if self.judge.in_allocator(hit["stack"]):
            raise NotFound("the last to write to the bytes was the malloc itself")
        if find["kind"] == "write_after_free":
            return self.make(FOUND, "use_after_free", by, "it wrote into a block that had been freed", hit["stack"],
                             alternatives=known.first_free((block or {}).get("freed_by")))
        where = "past the end of its block" if find["kind"] == "write_after" else "before its block"
        return self.make(FOUND, "overflow", by, f"it wrote {where}", hit["stack"])

    # --- a crash in the malloc ---------------------------------------------------------------------------------------

    def in_malloc(self):
        """A list of free blocks is broken: who wrote the bad link, or freed a block twice."""
        self.about = self.suspected()
        if self.about is None:
            self.about = {}
            verdict = self.double_free()
            if verdict:
                return verdict
            raise NotFound("the word that held the bad value is not known: the heap names none, and no load of the "
                           "register was found before the fault")
        cell = {"address": self.about["suspect"], "size": 8, "value": self.about["bad"]}
        self.say(f"suspect word {cell['address']:#x} holds {cell['value']:#x}: {self.about['how']}")
        try:
            hit = self.follow_moves(cell)
        except NotFound:
            verdict = self.double_free()
            if verdict is None:
                raise
            return verdict
        return self.judge_store(hit)

    def suspected(self):
        suspect = self.again.suspect
        if suspect:
            return {"suspect": suspect["address"], "bad": suspect["value"], "how": f"the heap says: {suspect['text']}"}
        word = self.again.damaged_word()
        if word:
            held = dict(self.crash["read"]).get(word)
            if held is not None:
                return {"suspect": word, "bad": held, "how": f"the validate library says: {self.again.failfast['text']}"}
        origin = self.crash["origin"]
        if origin and origin.get("cell") and origin["cell"]["size"] == 8:
            return {"suspect": origin["cell"]["address"], "bad": origin["cell"]["value"],
                    "how": "the bad pointer was loaded from it: " + origin["asm"]}
        return None

    def follow_moves(self, cell):
        """Through the malloc's moves of a value to the store that was none."""
        bound, cells = None, [cell]
        for _ in range(HOPS_MAX + 1):
            hit = None
            for one in cells:
                hit = self.tracer.last_store(one, bound)
                if hit is not None:
                    break
            if hit is None:
                raise NotFound(f"no instruction was seen to store {cell['value']:#x} in {cells[0]['address']:#x}: a system "
                               "call wrote it, or it stood there from the start")
            self.hits.append(hit)
            self.refresh()
            if not self.judge.in_allocator(hit["stack"]) or not hit["sources"]:
                return hit
            self.say(f"hop {len(self.hits)}: {name_of(hit['stack'][0])} moved it to {hit['cell']['address']:#x} from "
                     f"{hit['sources'][0]:#x} ({hit['how']})")
            cells = [{**cell, "address": address} for address in hit["sources"]]
            bound = hit
        raise NotFound(f"the value was moved more than {HOPS_MAX} times")

    def double_free(self):
        """A block that was freed twice before the crash; found where it is the one that the heap stumbled over."""
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
        return self.freed(grade, "double_free", second, why, alternatives=known.first_free(before),
                          block_hit=self.judge.describe(block, block.start))

    def judge_store(self, hit):
        """A store into the heap's own links, by the program."""
        word = hit["cell"]["address"]
        target = self.judge.history.block_at(word, hit["calls"])
        by = self.judge.culprit(hit["stack"])
        self.about.update(word=word, block_hit=self.judge.describe(target, word))
        if self.judge.in_allocator(hit["stack"]):
            verdict = self.double_free()
            if verdict:
                return verdict
            raise NotFound("the last store is the malloc's own, and where it had the value from is not known")
        if not self.judge.history.calls:
            return self.make(LIKELY, "wild_write", by, "it made the store that the crash came of; calls of malloc were not "
                             "written down", hit["stack"])
        if target is None:
            return self.make(FOUND, "wild_write", by, "it wrote where no block is: into the heap's own data, or memory of "
                             "others", hit["stack"])
        second, first = self.judge.history.second_free(target.start, hit["calls"])
        if second is not None:
            return {**self.of_double(FOUND, second, first, target), "store": by, "word": word}
        owned, is_sure = self.judge.owned(hit, target)
        self.about["block_owned"] = self.judge.describe(owned, word)
        if owned is not None and owned.start != target.start:
            state = "a free one" if target.freed is not None else "another one"
            return self.make(FOUND if is_sure or target.freed is not None else LIKELY, "overflow", by,
                             f"it wrote past the end of its block, into {state}", hit["stack"])
        if target.freed is not None:
            return self.into_freed(hit, target, by)
        return self.into_live(hit, target, by)

    def into_freed(self, hit, target, by):
        """A store into a free block, by a pointer into it: a running one may have come there from the block before."""
        before = self.judge.neighbour(hit, target)
        if before is not None:
            self.about["block_owned"] = self.judge.describe(before, hit["cell"]["address"])
            return self.make(FOUND, "overflow", by, "it wrote past the end of its block, into a free one; or into one that "
                             "had been freed: it held pointers to both", hit["stack"])
        return self.make(FOUND, "use_after_free", by, "it wrote into a block that had been freed", hit["stack"],
                         alternatives=known.first_free(self.judge.frame_of(target.freed)))

    def into_live(self, hit, target, by):
        """A store into a live block that has later become a free one's link, by a pointer to that block."""
        allocator = self.judge.frame_of(target.allocated)["function"]
        earlier = self.judge.history.last_free(target.start, target.allocated.index)
        if earlier is not None and allocator in [frame["function"] for frame in hit["stack"]]:
            return self.freed(LIKELY, "use_after_free", earlier, "it freed a block that was still in use, which malloc then "
                              f"gave to {(by or {}).get('function') or 'another'}", store=by, alternatives=[(by, "it wrote into a block that it had from malloc")])
        return self.make(LIKELY, "bad_value_stored", by, f"it wrote into a block that {allocator or 'another'} had allocated",
                         hit["stack"])

    # --- a crash in the program --------------------------------------------------------------------------------------

    def in_program(self):
        crash = self.crash
        self.about = {"suspect": None, "used_by": self.user}
        is_jump = crash["access"] == "jump"
        verdict = self.gone(crash["address"]) or (None if crash["bad"] == crash["address"] else self.gone(crash["bad"]))
        if verdict:
            return verdict
        if crash["part"] == "index":
            return self.out_of_range()
        origin = crash["origin"]
        if origin["kind"] == "load":
            return self.from_cell(origin, is_jump)
        return self.from_code(origin)

    def gone(self, address):
        """The memory was there, and was taken away: a block that was freed, or a mapping."""
        if address is None or address < SMALL * 16 or value_class(address) == "no address":
            return None
        block = self.judge.history.block_at(address, self.crash["calls"])
        if block is not None and block.freed is not None:
            return self.unless_overrun(block.start, self.used_after_free(
                address, "it freed a block that was used afterwards", word=address))
        if not self.tracer.can_note_unmaps or value_class(address) != "address":
            return None
        is_here = address == self.crash["address"] and self.crash["protection"].startswith("r")
        rows = self.tracer.unmaps(address)
        if is_here:
            rows = [row for row in rows if row["call"] in ("mprotect", "ftruncate")]
            if not rows and self.crash.get("writes") and self.crash["signal"] == 11:
                return self.make(FOUND, "wild_write", self.user, "it wrote to memory that is mapped for reading only",
                                 self.crash["stack"], word=address)
        rows = [row for row in rows if row["call"] != "ftruncate"] or (rows if self.crash["signal"] == 7 else [])
        if not rows or self.judge.in_allocator(rows[-1]["stack"]):
            return None
        row, by = rows[-1], self.judge.culprit(rows[-1]["stack"])
        if by is None:
            return None
        grade = FOUND if row["call"] != "ftruncate" else LIKELY
        return self.unless_overrun(row["start"], self.make(
            grade, "unmapped", by, f"its {row['call']} took away the memory that was used afterwards", row["stack"], word=address))

    def unless_overrun(self, start, verdict):
        """A verdict on memory that is gone, which began at start. It is likely only, where the program may have come there
        from the memory below: by an index, or by a pointer that runs."""
        origin, address = self.crash["origin"] or {}, self.crash["address"]
        is_direct = origin.get("kind") in ("load", "call", "constant") and not origin.get("ambiguous")
        if verdict["grade"] != FOUND or self.crash["part"] != "index" and (is_direct or not 0 <= address - start < NEAR_BYTES):
            return verdict
        return {**verdict, "grade": LIKELY, "alternatives": [*verdict["alternatives"], (
            self.user, "it went past the end of the memory below, which is its own")]}

    def out_of_range(self):
        """The base can be read, base plus index cannot. Who made the index is not always known."""
        crash, origin = self.crash, self.crash["origin"]
        why = f"its index leads out of what is mapped: %{crash['register']} is {crash['bad']:#x}"
        if origin.get("cell"):
            try:
                verdict = self.from_cell(origin, False)
            except NotFound as reason:
                self.say(str(reason))
                return self.make(LIKELY, "out_of_range", self.user, why, crash["stack"], bad=crash["bad"],
                                 alternatives=[(None, "the function that stored the index")])
            if verdict["cause"] in HARM or verdict["grade"] == LIKELY:
                return verdict
            if verdict["cause"] != "uninitialised":
                why += f", which {(verdict['culprit'] or {}).get('function') or 'another'} stored"
            return self.make(FOUND, "out_of_range", self.user, why, crash["stack"], bad=crash["bad"])
        if origin["kind"] == "constant" and not origin.get("ambiguous"):
            return self.make(FOUND, "out_of_range", self.user, why, crash["stack"], bad=crash["bad"])
        return self.make(LIKELY, "out_of_range", self.user, why, crash["stack"], bad=crash["bad"],
                         alternatives=[(None, "a store of the values that the index was computed from")])

    def store_before(self, cell):
        try:
            hit = self.tracer.last_store(cell)
        except NotFound as reason:
            self.say(str(reason))
            return None
        self.refresh()
        return hit

    def from_code(self, origin):
        """The bad address did not come from memory, or from where is not known."""
        crash, bad = self.crash, self.crash["bad"]
        frame = next((row for row in crash["stack"] if row["function"] == origin["function"] and row["function"]), None)
        by = frame if frame is not None and not self.judge.is_foreign(frame) else self.user
        is_null = bad is None or bad < SMALL
        cause = "null_stored" if is_null else "wild_write" if crash.get("writes") else "wild_read"
        if crash["access"] == "jump":
            cause = "bad_function_pointer"
        if origin["kind"] == "constant" and not origin.get("ambiguous"):
            what = "NULL" if is_null else f"the address {bad:#x}" if bad else "an address"
            return self.make(FOUND, cause, by, f"it uses {what}, which its own code holds", crash["stack"], bad=bad)
        if origin["kind"] == "call":
            name = origin.get("callee") or "a function"
            cause = "null_returned" if is_null else "bad_value_returned"
            return self.make(LIKELY, cause, by, f"it used what {name} returned: {bad:#x}", crash["stack"], bad=bad,
                             alternatives=[(None, f"{name}, which returned it")])
        why = "it made the address up by arithmetic" if origin["kind"] == "computed" else \
            "it used a bad pointer, and where it had that from is not known"
        return self.make(LIKELY, cause, by, why, crash["stack"], bad=bad,
                         alternatives=[(None, "the function that gave it the values")])

    # --- a bad pointer that was loaded -------------------------------------------------------------------------------

    def from_cell(self, origin, is_jump):
        loads = []
        cell = origin.get("cell")
        if cell is None or origin.get("ambiguous"):
            size, value = (origin["size"], origin["value"]) if cell is None else (cell["size"], cell["value"])
            loads, base = self.tracer.loads(origin["pc"])
            is_read = bool(loads) and loads[-1][1] is not None and loads[-1][1] & (1 << 8 * size) - 1 == value
            if not is_read and cell is None:
                return self.from_code({**origin, "kind": "unknown"})
            if is_read:
                cell = {"address": loads[-1][0], "size": size, "value": value}
                origin = self.crash["origin"] = {**origin, "base_origin": base, "stack": self.stack_part(cell["address"])}
            else:
                self.is_guess, loads = True, []
        self.about.update(suspect=cell["address"], bad=cell["value"], how="the bad pointer was loaded from it: " +
                          origin["asm"], word=cell["address"])
        self.say(f"the bad pointer {cell['value']:#x} was loaded from {cell['address']:#x}: {origin['asm']}")
        self.is_jump = is_jump
        if origin.get("stack") == "gone":
            return self.of_gone_frame(origin)
        return self.of_loads([row[0] for row in loads]) or self.trace(cell, None)

    def stack_part(self, address):
        """As inside.stack_part."""
        start, pointer, end = self.crash["stack_range"] or (0, 0, 0)
        return "" if not start <= address < end else "live" if address >= pointer else "gone"

    def of_gone_frame(self, origin):
        """The pointer was read from a local variable of a function that has returned."""
        held = (origin.get("base_origin") or {}).get("cell")
        hit = self.store_before(held) if held else None
        by = self.judge.culprit(hit["stack"]) if hit else None
        why = "it kept the address of a local variable of a function that has returned"
        if by is None:
            why = "it read a local variable of a function that has returned"
        return self.make(LIKELY, "use_after_return", by or self.user, why, hit["stack"] if by else self.crash["stack"],
                         alternatives=[(None, "the function that took the variable's address")])

    def of_loads(self, addresses):
        """Where a program followed pointers out of what is live, the free of the first such block is the harm. addresses:
        those that its loop read, the last ones."""
        first = None
        for address in reversed(addresses):
            block = self.judge.history.block_at(address, self.crash["calls"])
            if block is not None and block.freed is None or address is None:
                break
            first = (address, block)
        if first is None or first[1] is None:
            return None
        return self.used_after_free(first[0], "it freed a block that the program still led to, and whose first words are then "
                                    "the heap's", word=first[0], bad=None)

    def trace(self, cell, bound):
        """Who made a cell hold its value: a store, through copies; or nobody since its block was allocated."""
        word = cell["address"]
        moment = self.crash["calls"] if bound is None else bound["calls"]
        block = self.judge.history.block_at(word, moment)
        self.about.update(word=word, block_hit=self.judge.describe(block, word))
        if block is not None and block.freed is not None:
            return self.used_after_free(word, "it freed a block that was still in use; the heap then keeps a link there, or "
                                        "gives it to others")
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
            raise NotFound("the last store is the malloc's own, and where it had the value from is not known")
        if hit["sources"] and len(self.hits) <= HOPS_MAX:
            verdict = self.copied(hit, cell)
            if verdict:
                return verdict
        return self.stored(hit, cell, block)

    def moved_from(self, cell, block, hit):
        """The cell of the block before, from which realloc copied; None: it did not."""
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
        return self.make(FOUND, cause, by, f"it stored {'NULL' if value == 0 else f'{value:#x}'} in a block that realloc moved "
                         "later, which was used as a pointer then", earlier["stack"])

    def last_store(self, cell, bound, block=None):
        """Also one of the value that was there already. block: the one that the cell is in."""
        try:
            hit = self.tracer.last_store(cell, bound)
        except Unseen as reason:
            if block is None or reason.calls > block.allocated.index:
                raise
            hit = None  # before it was allocated: the system may have taken the memory, and given it back as zeroes
        if cell["value"] is None:
            return hit
        same, is_settled = self.tracer.settle(cell, hit, bound)
        self.is_settled = self.is_settled and is_settled
        return same or hit

    def copied(self, hit, cell):
        """The verdict on where a copy came from, None where the copy is all that is known."""
        about, hits = dict(self.about), list(self.hits)
        self.say(f"hop {len(hits)}: {name_of(hit['stack'][0])} copied it to {cell['address']:#x} from "
                 f"{hit['sources'][0]:#x} ({hit['how']})")
        try:
            verdict = self.trace({**cell, "address": hit["sources"][0]}, hit)
            here, there = self.judge.culprit(hit["stack"]) or {}, verdict["culprit"] or {}
            is_spill = (here.get("function"), here.get("module")) == (there.get("function"), there.get("module")) and \
                verdict["cause"] in ("null_stored", "bad_value_stored")
            if hit["store"].get("ambiguous") and verdict["grade"] == FOUND:
                verdict = {**verdict, "grade": LIKELY, "alternatives": [*verdict["alternatives"], (
                    self.judge.culprit(hit["stack"]), "it may have had the value from elsewhere, on another path")]}
            if verdict["cause"] != "never_set" and not is_spill:
                return verdict
        except NotFound as reason:
            self.say(f"not further: {reason}")
        self.about, self.hits = about, hits
        return None

    def stored(self, hit, cell, block):
        """A store by the program, of a value that it made or had from elsewhere."""
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
            return self.make(FOUND, cause, by, f"it stored {what}, which was used as a pointer later", stack)
        return self.reused(hit, cell, block, earlier[-1], (by, cause, what))

    def reused(self, hit, cell, block, earlier, store):
        """The word belonged to another block before: does the reader's pointer mean that one?"""
        by, cause, what = store
        second, first = self.judge.history.second_free(block.start, hit["calls"])
        if second is not None:
            return {**self.of_double(FOUND, second, first, block), "store": by, "word": cell["address"]}
        blocks = [one for one in self.judge.history.blocks_at(cell["address"], block.allocated.index) if one.freed]
        changed = self.without_frees(blocks)
        is_new = changed == "same" and ((self.without["origin"] or {}).get("cell") or {}).get("address") != cell["address"]
        meant = None if is_new or changed == "gone" else self.meant([*blocks, block])
        if is_new or meant is block:
            return self.make(FOUND, cause, by, f"it stored {what}, which was used as a pointer later", hit["stack"])
        if self.came_over(hit, block):
            return self.make(LIKELY, "overflow", by, "it wrote on from the end of the block before", hit["stack"],
                             alternatives=[(self.judge.frame_of(earlier.freed), "it freed the block that was there before: too "
                                            "early, if the writer still meant that one")])
        if changed == "gone" or meant is not None:
            why = f"it freed a block that was still in use, which malloc then gave to {(by or {}).get('function') or 'another'}"
            verdict = self.used_after_free_of(blocks, cell["address"], why, by)
            if verdict:
                return verdict
        return self.make(LIKELY, cause, by, f"it stored {what}, which was used as a pointer later", hit["stack"],
                         alternatives=[(self.judge.frame_of(earlier.freed), "it freed the block that was there before: too "
                                        "early, if the reader still meant that one")])

    def came_over(self, hit, block):
        """Whether the function that stored wrote the word in front of the block too, with no call of malloc in between."""
        try:
            before = self.tracer.last_store({"address": block.start - 8, "size": 8, "value": None}, hit)
        except NotFound:
            return False
        return before is not None and before["calls"] == hit["calls"] and \
            before["stack"][0]["function"] == hit["stack"][0]["function"]

    def used_after_free_of(self, blocks, address, why, by):
        block, is_proved = self.guilty_free(blocks)
        if not is_proved:
            return None
        return self.freed(FOUND, "use_after_free", block.freed, why, store=by,
                          block_hit=self.about.get("block_hit") or self.judge.describe(block, address))

    def stored_static(self, hit, cell, by, cause, what):
        here = next((row for row in [hit.get("cell_symbol")] if row), None)
        bases = [row for row in hit["base_symbols"] if row]
        if here and bases and bases[0][1] != here[1] and hit["store"]["kind"] != "load":
            return self.make(FOUND, "overflow", by, f"it wrote past the end of {bases[0][0]}, into {here[0]}", hit["stack"])
        if hit["store"]["kind"] == "bulk" and hit["bases"] and cell["address"] - min(hit["bases"]) > 0 and here and \
                min(hit["bases"]) < here[1]:
            return self.make(FOUND, "overflow", by, f"it wrote on from {min(hit['bases']):#x} into {here[0]}", hit["stack"])
        if self.is_jump:
            cause = "bad_function_pointer"
        if hit["store"]["kind"] == "call":
            name = hit["store"].get("callee") or "a function"
            return self.make(FOUND, cause, by, f"it stored {what}, which {name} had returned", hit["stack"])
        where = f" in {here[0]}" if here else ""
        return self.make(FOUND, cause, by, f"it stored {what}{where}, which was used as a pointer later", hit["stack"])

    # --- nobody wrote it ---------------------------------------------------------------------------------------------

    def never_written(self, cell, block, earlier):
        """No store was seen: of a block since its allocation, of a variable ever."""
        if block is None:
            if self.crash["origin"].get("stack"):
                return self.make(LIKELY, "uninitialised", self.user, "it used a variable of its own that nothing was seen to "
                                 "set", self.crash["stack"])
            where = f" {self.crash['origin']['symbol'][0]}" if self.crash["origin"].get("symbol") else ""
            if cell["value"] != 0:
                return self.make(LIKELY, "never_set", self.user, f"it used the variable{where}, which no instruction was seen "
                                 f"to set to {cell['value']:#x}", self.crash["stack"],
                                 alternatives=[(None, "a system call that wrote it, such as read")])
            return self.make(FOUND, "never_set", self.user, f"it used the variable{where}, which nothing had set",
                             self.crash["stack"])
        frame = self.judge.frame_of(block.allocated)
        left = self.judge.culprit(earlier["stack"]) if earlier else None
        if block.is_zeroed:
            others = [] if self.is_settled else [(None, "a store of NULL: the word was used too often to see all of them")]
            return self.make(FOUND if self.is_settled else LIKELY, "uninitialised", frame, "it allocated the block, zeroed; "
                             f"byte {cell['address'] - block.start} was never written since", [frame], alternatives=others)
        proof = self.prove_uninitialised(cell, block)
        if proof == "written":
            return self.make(LIKELY, "null_stored", self.user, "it used a NULL that the program stored where NULL was before",
                             self.crash["stack"], alternatives=[(frame, "it allocated the block")])
        why = f"byte {cell['address'] - block.start} of the block that it allocated was never written since"
        if left is not None:
            why += f"; its value was left by {left['function'] or 'the block before'}"
        others = [] if proof == "filled" else [(None, "a store of the value that was there already, which no watchpoint sees")]
        return self.make(FOUND if proof == "filled" else LIKELY, "uninitialised", frame, why, [frame], alternatives=others)

    def prove_uninitialised(self, cell, block):
        """Runs with the block filled when it was allocated. "filled": the filling was used; "written": the program had
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
        same = all(crash.get(key) == self.crash.get(key) for key in ("pc", "bad"))
        return "written" if same else ""


def analyse(report, tracer, say):
    """The verdict on a crash. Raises NotFound."""
    return Analysis(report, tracer, say).find()
