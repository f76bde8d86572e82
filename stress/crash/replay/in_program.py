"""Crashes in the program: a part of analyse.Analysis. Goes from the instruction to the cell from which its bad value
was loaded, or to the code that made the value."""

from judge import ENTRIES, SMALL
from launch import NotFound
from report import value_class
from verdict import FOUND, LIKELY

NEAR_BYTES = 64  # counted from where memory begins: a loop that comes from below crashes there
HARM = ("overflow", "use_after_free", "double_free", "use_after_return")


class InProgram:
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
        """The memory was there and was taken away: a freed block, or a mapping."""
        if address is None or address < SMALL * 16 or value_class(address) == "no address":
            return None
        block = self.judge.history.block_at(address, self.crash["calls"])
        if block is not None and block.freed is not None:
            return self.unless_overrun(
                block.start, self.used_after_free(address, "it freed a block that was used afterwards", word=address)
            )
        if not self.tracer.can_note_unmaps or value_class(address) != "address":
            return None
        is_here = address == self.crash["address"] and self.crash["protection"].startswith("r")
        rows = self.tracer.unmaps(address)
        if is_here:
            rows = [row for row in rows if row["call"] in ("mprotect", "ftruncate")]
            if not rows and self.crash.get("writes") and self.crash["signal"] == 11:
                return self.make(
                    FOUND,
                    "wild_write",
                    self.user,
                    "it wrote to memory that is mapped for reading only",
                    self.crash["stack"],
                    word=address,
                )
        rows = [row for row in rows if row["call"] != "ftruncate"] or (rows if self.crash["signal"] == 7 else [])
        if not rows or self.judge.in_allocator(rows[-1]["stack"]):
            return None
        row, by = rows[-1], self.judge.culprit(rows[-1]["stack"])
        if by is None:
            return None
        grade = FOUND if row["call"] != "ftruncate" else LIKELY
        return self.unless_overrun(
            row["start"],
            self.make(
                grade,
                "unmapped",
                by,
                f"its {row['call']} took away the memory that was used afterwards",
                row["stack"],
                word=address,
            ),
        )

    def unless_overrun(self, start, verdict):
        """A verdict on memory that is gone, which began at `start`. It is only likely if the program may have come from
        the memory below, by an index or a moving pointer."""
        origin, address = self.crash["origin"] or {}, self.crash["address"]
        is_direct = origin.get("kind") in ("load", "call", "constant") and not origin.get("ambiguous")
        is_near = 0 <= address - start < NEAR_BYTES
        if verdict["grade"] != FOUND or self.crash["part"] != "index" and not is_near:
            return verdict
        if self.crash["part"] != "index" and is_direct and not self.is_moved(origin):
            return verdict
        return {
            **verdict,
            "grade": LIKELY,
            "alternatives": [
                *verdict["alternatives"],
                (self.user, "it went past the end of the memory below, which is its own"),
            ],
        }

    def is_moved(self, origin):
        """Whether the pointer was in a local variable to which a computed value was stored last, such as that of a loop."""
        if origin["kind"] != "load" or origin.get("stack") != "live" or not origin.get("cell"):
            return False
        hit = self.store_before(origin["cell"])
        return hit is None or hit["store"]["kind"] not in ("load", "call", "constant")

    def out_of_range(self):
        """The base can be read; base plus index cannot. The code that made the index is not always known."""
        crash, origin = self.crash, self.crash["origin"]
        why = f"its index leads outside of mapped memory: %{crash['name']} is {crash['bad']:#x}"
        if origin["kind"] == "load":
            try:
                origin = self.located(origin)[0]
                verdict = self.from_cell(origin, False)
            except NotFound as reason:
                self.say(str(reason))
                return self.make(
                    LIKELY,
                    "out_of_range",
                    self.user,
                    why,
                    crash["stack"],
                    bad=crash["bad"],
                    alternatives=[(None, "the function that stored the index")],
                )
            if verdict["cause"] in HARM or verdict["grade"] == LIKELY:
                return verdict
            more, grade = {"bad": crash["bad"]}, LIKELY if origin.get("made") else FOUND
            if verdict["cause"] != "uninitialised":
                why += f", which {(verdict['culprit'] or {}).get('function') or 'another'} stored"
            if grade == LIKELY:
                more["alternatives"] = [(verdict["culprit"], "it stored the value that the index was made of")]
            return self.make(grade, "out_of_range", self.user, why, crash["stack"], **more)
        if origin["kind"] == "constant" and not origin.get("ambiguous"):
            return self.make(FOUND, "out_of_range", self.user, why, crash["stack"], bad=crash["bad"])
        return self.make(
            LIKELY,
            "out_of_range",
            self.user,
            why,
            crash["stack"],
            bad=crash["bad"],
            alternatives=[(None, "a store of the values that the index was computed from")],
        )

    def store_before(self, cell):
        try:
            hit = self.tracer.last_store(cell)
        except NotFound as reason:
            self.say(str(reason))
            return None
        self.refresh()
        return hit

    def from_code(self, origin):
        """The bad address did not come from memory, or its source is not known."""
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
        if origin["kind"] == "call" and self.is_refuted(origin, bad):
            origin = {**origin, "kind": "unknown"}
        if origin["kind"] == "call":
            verdict = self.of_result(origin, None, {"value": bad}) if not origin.get("ambiguous") else None
            if verdict:
                return verdict
            name = origin.get("callee") or "a function"
            cause = "null_returned" if is_null else "bad_value_returned"
            return self.make(
                LIKELY,
                cause,
                by,
                f"it used what {name} returned: {bad:#x}",
                crash["stack"],
                bad=bad,
                alternatives=[(None, f"{name}, which returned it")],
            )
        why = (
            "it made the address up by arithmetic"
            if origin["kind"] == "computed"
            else "it used a bad pointer, and the origin of that is not known"
        )
        return self.make(
            LIKELY,
            cause,
            by,
            why,
            crash["stack"],
            bad=bad,
            alternatives=[(None, "the function that gave it the values")],
        )

    def is_refuted(self, origin, value):
        """Whether the log of calls shows that this call of malloc did not return the value."""
        if origin.get("callee") not in ENTRIES or not self.judge.history.is_whole or value < SMALL:
            return False
        return not any(call.block == value and call.caller == origin.get("back") for call in self.judge.history.calls)

    def located(self, origin):
        """The origin of a value that was loaded, its cell, and what the instruction read up to then if another run had to
        see that: [address, value, registers]. Cell None: not known."""
        cell = origin.get("cell")
        if cell is not None and not origin.get("ambiguous"):
            return origin, cell, []
        size, value = (origin["size"], origin["value"]) if cell is None else (cell["size"], cell["value"])
        loads, base = self.tracer.loads(origin["pc"])
        if not loads or loads[-1][1] is None or loads[-1][1] & (1 << 8 * size) - 1 != value:
            self.is_guess = self.is_guess or cell is not None
            return origin, cell, []
        cell = {"address": loads[-1][0], "size": size, "value": value}
        more = {"cell": cell, "ambiguous": False, "base_origin": base, "stack": self.stack_part(cell["address"])}
        return {**origin, **more}, cell, loads

    def from_cell(self, origin, is_jump):
        origin, cell, loads = self.located(origin)
        if cell is None:
            return self.from_code({**origin, "kind": "unknown"})
        if loads:
            self.crash["origin"] = origin
        self.about.update(
            suspect=cell["address"],
            bad=cell["value"],
            how="the bad pointer was loaded from it: " + origin["asm"],
            word=cell["address"],
        )
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
        """The pointer was read from a local variable of a function that has already returned."""
        held = (origin.get("base_origin") or {}).get("cell")
        hit = self.store_before(held) if held else None
        by = self.judge.culprit(hit["stack"]) if hit else None
        if (
            by is not None and not by["function"]
        ):  # assembly that moves the stack pointer past its arguments, as libffi's
            by = None
        why = "it kept the address of a local variable of a function that has returned"
        if by is None:
            why = "it read a local variable of a function that has returned"
        return self.make(
            LIKELY,
            "use_after_return",
            by or self.user,
            why,
            hit["stack"] if by else self.crash["stack"],
            alternatives=[(None, "the function that took the variable's address")],
        )

    def of_loads(self, addresses, is_walk=False):
        """If a program followed pointers out of live memory, the free of the first such block is the fault. addresses:
        the last ones that its loop read. is_walk: as in guilty_free."""
        first = None
        for address in reversed(addresses):
            block = self.judge.history.block_at(address, self.crash["calls"])
            if block is not None and block.freed is None or address is None:
                break
            first = (address, block)
        if first is None or first[1] is None:
            return None
        return self.used_after_free(
            first[0],
            "it freed a block that the program still led to, and whose first words are then " "the heap's",
            is_walk=is_walk,
            word=first[0],
            bad=None,
        )

    def of_walk(self, hit):
        """The verdict if the store copied what a walk along pointers had read: one that began in live memory, went through a
        freed block, and on along the heap's own links."""
        store = hit["store"]
        if store["kind"] != "load" or not store.get("from_pc"):
            return None
        try:
            rows = self.tracer.loads(store["from_pc"])[0]
        except NotFound as reason:
            self.say(str(reason))
            return None
        addresses = [row[0] for row in rows]
        return self.of_loads(addresses, True) if addresses[-1:] == hit["sources"][:1] else None

    def divided(self):
        """Division by zero: the fault of the dividing function, unless the zero comes from damage to the memory that it
        was read from."""
        origin, why = self.crash["origin"], "it divided an integer by zero"
        by = self.user
        if origin["kind"] == "load":
            self.is_jump = False
            try:
                verdict = self.from_cell(origin, False)
            except NotFound as reason:
                self.say(str(reason))
                return self.make(
                    LIKELY,
                    "division_by_zero",
                    by,
                    why,
                    self.crash["stack"],
                    alternatives=[(None, "the function that stored the zero")],
                )
            if verdict["cause"] in HARM:
                return verdict
            block = self.judge.history.block_at(verdict["word"], self.crash["calls"]) if verdict["word"] else None
            # Storing a zero is no fault in itself, unless the store reached over from the block before.
            if verdict["grade"] != FOUND or block is not None and self.hits and self.came_over(self.hits[-1], block, 0):
                return self.make(
                    LIKELY,
                    "division_by_zero",
                    by,
                    why,
                    self.crash["stack"],
                    alternatives=[(verdict["culprit"], "it stored the zero")],
                )
        self.about, self.hits = {}, []
        return self.make(
            FOUND if origin["kind"] in ("load", "constant", "computed", "call") else LIKELY,
            "division_by_zero",
            by,
            why,
            self.crash["stack"],
        )
