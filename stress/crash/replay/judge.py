"""Says which module a frame belongs to, who owned a block, and what a store did to it: from stacks, and from the log of
calls (history.py)."""

import os
import re

RUNTIME = re.compile(
    r"(lib(c|pthread|m|dl|stdc\+\+|gcc_s|c\+\+|c\+\+abi|rrpreload|rrpage)[.-][^/]*|librr[a-z]*\.so|"
    r"ld-linux[^/]*|ld-[0-9.]+\.so|libreplay-calls\.so|vgpreload[^/]*|\[vdso\])$"
)
ENTRIES = {
    "malloc",
    "free",
    "calloc",
    "realloc",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "reallocarray",
    "valloc",
    "pvalloc",
    "free_sized",
    "free_aligned_sized",
    "cfree",
    "malloc_usable_size",
}
OPERATORS = ("hak_", "operator new", "operator delete")
# Code from the compiler, or from its headers.
GENERATED = ("__clang_call_terminate", "std::", "__gnu_cxx::", "__cxxabiv1::")
HEADERS = ("/usr/include/", "/usr/lib/", "/usr/local/include/c++")
NEAR_BYTES = 4096
HOPS_MAX = 16  # copies of a value that are followed
SMALL = 4096  # smaller values are NULL with an offset


def name_of(frame):
    return re.sub(r"@.*|\(.*", "", frame["function"])


class Judge:
    """allocator: path of the module that contains the malloc; '' if it is not known, or is the program itself."""

    def __init__(self, report, history, symbols):
        self.allocator = os.path.realpath(report.library) if report.library else ""
        self.is_static = self.allocator == os.path.realpath(report.program)
        if self.is_static:
            self.allocator = ""
        self.history, self.symbols = history, symbols

    # --- frames ------------------------------------------------------------------------------------------------------

    def is_foreign(self, frame):
        """Whether a frame is not the program's own, but the malloc's, the C or C++ library's, or from a library that
        ci/replay preloaded."""
        module, name = os.path.realpath(frame["module"] or ""), name_of(frame)
        return (
            module == self.allocator
            and self.allocator != ""
            or bool(RUNTIME.search(module))
            or name in ENTRIES
            or name.startswith((*OPERATORS, *GENERATED))
            or frame["file"].startswith(HEADERS)
        )

    def entry_level(self, stack):
        """In a program that contains the malloc itself: the outermost of the leading frames that belong to malloc's
        functions."""
        levels = [
            level
            for level, frame in enumerate(stack[:10])
            if name_of(frame) in ENTRIES or name_of(frame).startswith(OPERATORS)
        ]
        return max(levels, default=-1)

    def in_allocator(self, stack):
        """Whether a stack is in code that the malloc runs, perhaps through memcpy."""
        if self.is_static:
            return self.entry_level(stack) >= 0
        for frame in stack:
            if (
                os.path.realpath(frame["module"] or "") == self.allocator
                and self.allocator
                or name_of(frame) in ENTRIES
            ):
                return True
            if not self.is_foreign(frame):
                return False
        return False

    def culprit(self, stack):
        """The innermost frame of the program's own."""
        first = self.entry_level(stack) + 1 if self.is_static else 0
        return next(
            (frame for frame in stack[first:] if frame["module"].startswith("/") and not self.is_foreign(frame)), None
        )

    def prefix(self, stack):
        """Names of the foreign frames above the program's first one."""
        names = []
        for frame in stack:
            if frame["module"].startswith("/") and not self.is_foreign(frame):
                break
            names.append(name_of(frame))
        return names

    def frame_of(self, call):
        """The program's function that called malloc or free, by its return address, as far as that is known."""
        rows = self.symbols.callers(call.caller)
        return next((row for row in rows if not self.is_foreign(row)), rows[0])

    def caller_in(self, stack):
        """The function that called free, by its stack: not the destructor that the compiler calls for `delete`, but the
        function that deletes."""
        own = [frame for frame in stack if frame["module"].startswith("/") and not self.is_foreign(frame)]
        if len(own) > 1 and "~" in own[0]["function"] and any("delete" in name for name in self.prefix(stack)):
            return own[1]
        return own[0] if own else None

    # --- blocks ------------------------------------------------------------------------------------------------------

    def describe(self, block, address):
        """A block in the form of the output; None: no block."""
        if block is None:
            return None
        return {
            "start": block.start,
            "bytes": block.bytes,
            "usable_bytes": block.usable_bytes,
            "offset": address - block.start,
            "state": "live" if block.freed is None else "free",
            "allocated_by": self.frame_of(block.allocated),
            "freed_by": self.frame_of(block.freed) if block.freed else None,
        }

    def owned(self, hit, target):
        """The block to which the storing function had a pointer, and whether the pointer that the store used shows it.
        It is `target` itself, or another block that begins below the word. Otherwise judges by the other registers."""
        word = hit["cell"]["address"]
        for base in hit["bases"]:
            block = self.history.block_at(base, hit["calls"])
            if block is not None and block.start <= word:
                return block, True
        blocks = self.history.blocks(hit["calls"]).values()
        near = [
            block
            for block in blocks
            if block.freed is None and block.start <= word < block.start + block.usable_bytes + NEAR_BYTES
        ]
        held = [
            block
            for block in near
            if any(block.start <= value < block.start + block.usable_bytes for value in hit["pointers"])
        ]
        return max(held, key=lambda block: block.start, default=target), False

    def neighbour(self, hit, target):
        """The live block that ends where the target begins, if the storing function had a pointer to it."""
        if target.start != hit["cell"]["address"] or hit["store"]["kind"] == "bulk" and target.start in hit["bases"]:
            return None
        before = [
            block
            for block in self.history.blocks(hit["calls"]).values()
            if block.freed is None and block.start + block.usable_bytes == target.start
        ]
        return before[0] if before and before[0].start in hit["pointers"] else None

    def freed_by_this_call(self, hit):
        """The block that the current call frees, if it contains the word."""
        block = self.history.block_at(hit["cell"]["address"], hit["calls"])
        if block is None or block.freed is None or block.freed.thread != hit["lwp"]:
            return None
        names = [name_of(frame) for frame in hit["stack"][:8]]
        return block if any("free" in name or "realloc" in name or "delete" in name for name in names) else None
