"""Crashes in the malloc, and finds of the validate library: a part of analyse.Analysis. Traces the bad link or the bad
bytes back, through the malloc's own moves, to the code that wrote them."""

import forms
import known
from judge import HOPS_MAX, name_of
from launch import NotFound
from report import number
from verdict import FOUND, LIKELY


class InMalloc:
    def damaged_bytes(self):
        """Finds the last write to the bytes that a check found changed."""
        word, find, self.is_direct = self.again.damaged_word(), self.again.failfast, True
        bad = number(find["bad_address"])  # only this byte: its neighbours in the word may have been written rightly
        cell = {"address": bad, "size": 1, "value": None}
        self.say(f"watches the bytes that were overwritten, at {find['bad_address']}")
        hit = self.tracer.last_store(cell)
        if hit is None:
            raise NotFound(f"no instruction was seen to write to {word:#x}: a system call wrote it")
        self.hits.append(hit)
        self.refresh()
        block = (
            self.judge.describe(self.judge.history.block_at(self.again.failfast_start(), self.crash["calls"]), word)
            if self.again.failfast_start()
            else None
        )
        self.about = {
            "word": word,
            "bad": hit["cell"]["value"],
            "suspect": word,
            "how": find["text"],
            "block_hit": block,
        }
        by = self.judge.culprit(hit["stack"])
        if self.judge.in_allocator(hit["stack"]):
            raise NotFound("the last to write to the bytes was the malloc itself")
        if find["kind"] == "write_after_free":
            return self.make(
                FOUND,
                "use_after_free",
                by,
                "it wrote into a block that had been freed",
                hit["stack"],
                alternatives=known.first_free((block or {}).get("freed_by")),
            )
        where = "past the end of its block" if find["kind"] == "write_after" else "before its block"
        return self.make(FOUND, "overflow", by, f"it wrote {where}", hit["stack"])

    def in_malloc(self):
        """A list of free blocks is broken: finds the code that wrote the bad link, or that freed a block twice."""
        self.about = self.suspected()
        if self.about is None:
            self.about = {}
            verdict = self.double_free()
            if verdict:
                return verdict
            if self.crash.get("given"):
                given = self.crash["given"]  # on a copy, because further runs are compared with the original crash
                self.crash = {**self.crash, "bad": given["value"], "origin": given["origin"]}
                self.about = {"suspect": None, "used_by": self.user}
                return self.from_cell(self.crash["origin"], False)
            raise NotFound(
                "the word that held the bad value is not known: the heap names none, and no load of the "
                "register was found before the fault"
            )
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
                return {
                    "suspect": word,
                    "bad": held,
                    "how": f"the validate library says: {self.again.failfast['text']}",
                }
        origin = self.crash["origin"]
        cell = (origin or {}).get("cell")
        if cell is None and origin and origin["kind"] == "load" and not self.crash.get("given"):
            cell = self.loaded_from(origin)
        if cell is None or cell["size"] != 8:
            return None
        how = "the bad pointer was loaded from it: " + origin["asm"]
        return {"suspect": cell["address"], "bad": cell["value"], "how": how}

    def loaded_from(self, origin):
        """The cell of a value that was loaded; None: not known. The malloc's loops run so often that to stop in each changes
        what it does, which depends on the time. So if only one word holds the value, it is that one."""
        if origin["size"] == 8 and forms.is_address(origin["value"]) and hasattr(self.tracer, "words"):
            words = self.tracer.words(origin["value"])
            if len(words) == 1:
                self.is_guess = True
                return {"address": words[0], "size": 8, "value": origin["value"]}
        return self.located(origin)[1]

    def follow_moves(self, cell):
        """Follows the malloc's moves of a value back to a store that was not a move."""
        bound, cells = None, [cell]
        for _ in range(HOPS_MAX + 1):
            hit = None
            for one in cells:
                hit = self.tracer.last_store(one, bound)
                if hit is not None:
                    break
            if hit is None:
                raise NotFound(
                    f"no instruction was seen to store {cell['value']:#x} in {cells[0]['address']:#x}: a system "
                    "call wrote it, or it stood there from the start"
                )
            self.hits.append(hit)
            self.refresh()
            if not self.judge.in_allocator(hit["stack"]) or not hit["sources"]:
                return hit
            self.say(
                f"hop {len(self.hits)}: {name_of(hit['stack'][0])} moved it to {hit['cell']['address']:#x} from "
                f"{hit['sources'][0]:#x} ({hit['how']})"
            )
            cells = [{**cell, "address": address} for address in hit["sources"]]
            bound = hit
        raise NotFound(f"the value was moved more than {HOPS_MAX} times")

    def judge_store(self, hit):
        """Judges a store by the program into the heap's own links."""
        word = hit["cell"]["address"]
        target = self.judge.history.block_at(word, hit["calls"])
        by = self.judge.culprit(hit["stack"])
        self.about.update(word=word, block_hit=self.judge.describe(target, word))
        if self.judge.in_allocator(hit["stack"]):
            verdict = self.double_free()
            if verdict:
                return verdict
            raise NotFound("the last store is the malloc's own, and the origin of its value is not known")
        if not self.judge.history.calls:
            return self.make(
                LIKELY,
                "wild_write",
                by,
                "it made the store that led to the crash; calls of malloc were not logged",
                hit["stack"],
            )
        if target is None:
            return self.make(
                FOUND,
                "wild_write",
                by,
                "it wrote where no block is: into the heap's own data, or others' memory",
                hit["stack"],
            )
        second, first = self.judge.history.second_free(target.start, hit["calls"])
        if second is not None:
            return {**self.of_double(FOUND, second, first, target), "store": by, "word": word}
        owned, is_sure = self.judge.owned(hit, target)
        self.about["block_owned"] = self.judge.describe(owned, word)
        if owned is not None and owned.start != target.start:
            state = "a free one" if target.freed is not None else "another one"
            return self.make(
                FOUND if is_sure or target.freed is not None else LIKELY,
                "overflow",
                by,
                f"it wrote past the end of its block, into {state}",
                hit["stack"],
            )
        if target.freed is not None:
            return self.into_freed(hit, target, by)
        return self.into_live(hit, target, by)

    def into_freed(self, hit, target, by):
        """A store into a free block, through a pointer into it; a moving pointer may have come from the block
        before."""
        before = self.judge.neighbour(hit, target)
        if before is not None:
            self.about["block_owned"] = self.judge.describe(before, hit["cell"]["address"])
            return self.make(
                FOUND,
                "overflow",
                by,
                "it wrote past the end of its block, into a free one; or into one that "
                "had been freed: it held pointers to both",
                hit["stack"],
            )
        return self.make(
            FOUND,
            "use_after_free",
            by,
            "it wrote into a block that had been freed",
            hit["stack"],
            alternatives=known.first_free(self.judge.frame_of(target.freed)),
        )

    def into_live(self, hit, target, by):
        """A store into a live block whose word later became a free block's link, through a pointer to that block."""
        allocator = self.judge.frame_of(target.allocated)["function"]
        earlier = self.judge.history.last_free(target.start, target.allocated.index)
        if earlier is not None and allocator in [frame["function"] for frame in hit["stack"]]:
            return self.freed(
                LIKELY,
                "use_after_free",
                earlier,
                "it freed a block that was still in use, which malloc then "
                f"gave to {(by or {}).get('function') or 'another'}",
                store=by,
                alternatives=[(by, "it wrote into a block that malloc had given it")],
            )
        return self.make(
            LIKELY,
            "bad_value_stored",
            by,
            f"it wrote into a block that {allocator or 'another'} had allocated",
            hit["stack"],
        )
