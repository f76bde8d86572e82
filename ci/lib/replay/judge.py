"""Who is guilty: from the last store of the bad value that was no move, or the crash's own stack, and the log of calls.

A store into a block by the function that owns it is innocent: then the harm was done by whoever freed the block while
somebody else still used it. The order of the rules is that of judge_store()."""

import os
import re

RUNTIME = re.compile(r"(lib(c|pthread|m|dl|stdc\+\+|gcc_s|c\+\+|c\+\+abi)[.-][^/]*|ld-linux[^/]*|ld-[0-9.]+\.so|"
                     r"libreplay-calls\.so|vgpreload[^/]*)$")
ENTRIES = {"malloc", "free", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign", "reallocarray",
           "valloc", "pvalloc", "free_sized", "free_aligned_sized", "cfree", "malloc_usable_size"}
NEAR_BYTES = 4096


class Judge:
    def __init__(self, allocator, history, symbols):
        self.allocator, self.history, self.symbols = allocator, history, symbols

    def is_foreign(self, frame):
        """A frame that cannot be the culprit: of the malloc, the C library, or what ci/replay preloaded."""
        module, name = os.path.realpath(frame["module"] or ""), frame["function"]
        return module == self.allocator and self.allocator != "" or bool(RUNTIME.search(module)) or name in ENTRIES or \
            name.startswith(("hak_", "operator new", "operator delete"))

    def in_allocator(self, stack):
        """Whether a stack is of code that the malloc runs, perhaps through memcpy."""
        for frame in stack:
            if os.path.realpath(frame["module"] or "") == self.allocator or frame["function"] in ENTRIES:
                return True
            if not self.is_foreign(frame):
                return False
        return False

    def culprit(self, stack):
        return next((frame for frame in stack if frame["module"] and not self.is_foreign(frame)), None)

    def frame_of(self, call):
        return self.symbols.caller(call.caller)

    def describe(self, block, address):
        """A block as the output has it; None: no block."""
        if block is None:
            return None
        row = {"start": block.start, "bytes": block.bytes, "usable_bytes": block.usable_bytes,
               "offset": address - block.start, "state": "live" if block.freed is None else "free",
               "allocated_by": self.frame_of(block.allocated),
               "freed_by": self.frame_of(block.freed) if block.freed else None}
        return row

    def owned(self, hit, target):
        """The block that the storing function had a pointer to: target itself, or another one that begins below the
        word. By the pointer that the store went by, else by what else the registers held. None: not known."""
        for base in hit["bases"]:
            block = self.history.block_at(base, hit["calls"])
            if block is not None and block.start <= hit["word"]:
                return block
        blocks = self.history.blocks(hit["calls"]).values()
        near = [block for block in blocks if block.freed is None and
                block.start <= hit["word"] < block.start + block.usable_bytes + NEAR_BYTES]
        held = [block for block in near
                if any(block.start <= value < block.start + block.usable_bytes for value in hit["pointers"])]
        return max(held, key=lambda block: block.start, default=target)

    def crash_in_program(self, crash):
        return not self.in_allocator(crash["stack"])

    def freed_by_this_call(self, hit):
        """The block that the call in progress frees, if the word is in it."""
        block = self.history.block_at(hit["word"], hit["calls"])
        if block is None or block.freed is None or block.freed.thread != hit["lwp"]:
            return None
        return block if any(self.names_free(frame) for frame in hit["stack"][:8]) else None

    @staticmethod
    def names_free(frame):
        return "free" in frame["function"] or "realloc" in frame["function"] or "delete" in frame["function"]

    def ends_here(self, hit, crash):
        """Whether a store by the malloc is what broke the program, and not a move of something broken."""
        return self.crash_in_program(crash) and self.freed_by_this_call(hit) is not None

    def judge_store(self, hit, crash):
        """A verdict: culprit's frame, its stack, the blocks, and why. culprit None: not known, and why says so."""
        target = self.history.block_at(hit["word"], hit["calls"])
        verdict = {"culprit": self.culprit(hit["stack"]), "stack": hit["stack"], "word": hit["word"],
                   "block_hit": self.describe(target, hit["word"]), "block_owned": None, "store": None, "why": ""}
        if self.in_allocator(hit["stack"]):
            return self.of_allocator(verdict, hit, crash)
        if not self.history.calls:
            verdict["why"] = "it made the store that the crash came of; calls of malloc were not written down"
            return verdict
        if target is None:
            verdict["why"] = "it wrote where no block is: into the heap's own data, or memory of others"
            return verdict
        second, first = self.history.second_free(target.start, hit["calls"])
        if second is not None:
            name = self.frame_of(first)["function"] or "another"
            return self.by_free(verdict, second, f"it freed the block a second time, after {name} had; malloc then "
                                "gave it to two owners")
        owned = self.owned(hit, target)
        verdict["block_owned"] = self.describe(owned, hit["word"])
        if owned is not None and owned.start != target.start:
            state = "a free one" if target.freed is not None else "another one"
            verdict["why"] = f"it wrote past the end of its block, into {state}"
        elif target.freed is not None:
            self.of_free(verdict, hit, target)
        else:
            return self.of_live(verdict, hit, target)
        return verdict

    def of_free(self, verdict, hit, target):
        """A store into a free block, by a pointer into it: a running one may have come there from the block before."""
        before = [block for block in self.history.blocks(hit["calls"]).values()
                  if block.freed is None and block.start + block.usable_bytes == target.start]
        if before and before[0].start in hit["pointers"] and target.start == hit["word"]:
            verdict["block_owned"] = self.describe(before[0], hit["word"])
            verdict["why"] = "it wrote past the end of its block, into a free one; or into one that had been freed: " \
                             "it held pointers to both"
        else:
            verdict["why"] = "it wrote into a block that had been freed"

    def of_live(self, verdict, hit, target):
        """A store into a live block, by a pointer to that block."""
        allocator = self.frame_of(target.allocated)["function"]
        earlier = self.history.last_free(target.start, target.allocated.index)
        if earlier is not None and allocator in [frame["function"] for frame in hit["stack"]]:
            return self.by_free(verdict, earlier, "it freed a block that was still in use, which malloc then gave to "
                                f"{(verdict['culprit'] or {}).get('function') or 'another'}")
        verdict["why"] = f"it wrote into a block that {allocator or 'another'} had allocated"
        return verdict

    def judge_loads(self, loads, crash):
        """Where a program followed pointers out of what is live, the free of the first such block is the harm. loads:
        the addresses that its loop read, the last ones. None: it did not."""
        first = None
        for address in reversed(loads):
            block = self.history.block_at(address, crash["calls"]) if address is not None else None
            if block is not None and block.freed is None or address is None:
                break
            first = (address, block)
        if first is None or first[1] is None:
            return None
        address, block = first
        verdict = {"culprit": None, "word": address, "block_hit": self.describe(block, address), "block_owned": None}
        return self.by_free(verdict, block.freed, "it freed a block that the program still led to, and whose first "
                            "words are then the heap's")

    def by_free(self, verdict, call, why):
        """The harm is a free: the store that came out of it is innocent."""
        verdict.update(store=verdict["culprit"], culprit=self.frame_of(call), stack=[self.frame_of(call)], why=why)
        return verdict

    def of_allocator(self, verdict, hit, crash):
        block = self.freed_by_this_call(hit)
        if block is not None and self.crash_in_program(crash):
            verdict["why"] = "it freed a block that was still in use; the heap then keeps a link there"
        else:
            verdict.update(culprit=None, why="the last store is the malloc's own, and where it had the value from is "
                           "not known")
        return verdict

    def judge_stack(self, crash):
        """Where the malloc, or the C library, stopped the program itself."""
        culprit = self.culprit(crash["stack"])
        return {"culprit": culprit, "stack": crash["stack"], "word": None, "block_hit": None, "block_owned": None,
                "store": None, "why": "the malloc stopped the program in a call that it made" if culprit else
                "no frame of the stack is the program's"}
