"""The log of libreplay-calls.so (calls.c): which blocks were live at a moment, and which code allocated and freed them.
A moment is a number of calls: the calls before it are done."""

import struct

CALL = struct.Struct("<6Q")
CALLS_MAX = 1 << 20
STACK = struct.Struct("<8Q")  # callers, innermost first, of each call; in runs with HAKMEM_REPLAY_STACKS
ALLOCATED, FREED, ALLOCATED_ZEROED = 1, 2, 3


class Call:
    def __init__(self, index, fields):
        self.index = index
        kind, self.thread, self.block, self.size_bytes, self.usable_bytes, self.caller = fields
        self.operation, self.process = kind & 0xFFFFFFFF, kind >> 32


class Block:
    """A block, from its allocation to its free if it was freed."""

    def __init__(self, allocated):
        self.start, self.bytes, self.usable_bytes = allocated.block, allocated.size_bytes, allocated.usable_bytes
        self.allocated, self.freed = allocated, None
        self.is_zeroed = allocated.operation == ALLOCATED_ZEROED

    def holds(self, address):
        return self.start <= address < self.start + max(self.usable_bytes, 1)


def count_of(path):
    """The number of calls in a log; 0: there is no log."""
    try:
        with open(path, "rb") as file:
            return CALL.unpack(file.read(CALL.size))[0]
    except (OSError, struct.error):
        return 0


class History:
    def __init__(self, path):
        self.calls, self.moments, self.is_whole, self.count, self.path = [], {}, False, count_of(path), path
        count = self.count
        if count == 0:
            return
        with open(path, "rb") as file:
            file.seek(CALL.size)
            ring = file.read(CALL.size * min(count, CALLS_MAX))
        self.is_whole = 0 < count <= CALLS_MAX
        for index in range(max(0, count - CALLS_MAX), count):
            fields = CALL.unpack_from(ring, index % CALLS_MAX * CALL.size)
            call = Call(index, fields)
            if call.operation in (ALLOCATED, FREED, ALLOCATED_ZEROED):
                self.calls.append(call)

    def stack_of(self, call):
        """The return addresses of a call, innermost first; at least its caller's."""
        with open(self.path, "rb") as file:
            file.seek(CALL.size * (1 + CALLS_MAX) + STACK.size * (call.index % CALLS_MAX))
            rows = [row for row in STACK.unpack(file.read(STACK.size)) if row]
        return rows[rows.index(call.caller) :] if call.caller in rows else [call.caller]

    def before(self, moment):
        return [call for call in self.calls if moment is None or call.index < moment]

    def all_blocks(self, moment):
        """Every block up to a moment, in the order of allocation."""
        if moment not in self.moments:
            rows, last = [], {}
            for call in self.before(moment):
                if call.operation != FREED:
                    block, before = Block(call), last.get(call.block)
                    if before and block.bytes > block.usable_bytes:
                        block.bytes = before.bytes  # realloc was refused, and the block stayed
                    last[call.block] = block
                    rows.append(block)
                elif call.block in last and last[call.block].freed is None:
                    last[call.block].freed = call
            self.moments[moment] = rows
        return self.moments[moment]

    def blocks(self, moment):
        """For each address at which a block began, the last such block."""
        return {block.start: block for block in self.all_blocks(moment)}

    def blocks_at(self, address, moment):
        """The blocks that contained an address, in the order of allocation."""
        return [block for block in self.all_blocks(moment) if block.holds(address)]

    def block_at(self, address, moment):
        """The block that contains an address: the one allocated last, live or freed. None: no known block does."""
        return next(iter(self.blocks_at(address, moment)[-1:]), None)

    def double_frees(self, moment):
        """Frees of blocks that were already free: [the second call, the first, its block], latest first. Both are by one
        process: processes that forked write to one log, and each may free what it inherited."""
        found, last, freed = [], {}, {}
        for call in self.before(moment):
            key = (call.process, call.block)
            if call.operation != FREED:
                last[call.block] = call
                freed.pop(key, None)
            elif key in freed:
                found.insert(0, (call, freed[key], call.block))
            elif call.block in last:
                freed[key] = call
        return found

    def of_two_threads(self):
        """The first block that two threads of a process freed: (the second call, the first); None: there is none."""
        rows = [(second, first) for second, first, _ in self.double_frees(None) if second.thread != first.thread]
        return rows[-1] if rows else None

    def meant_first(self, second, first, function_of):
        """Two frees of a block that was allocated once. If the first of them was made where only blocks from
        elsewhere are freed, as was the block that was here before, it meant that one: (the first, the free of that
        one). Otherwise None. function_of: of a call."""
        blocks = [block for block in self.all_blocks(None) if block.freed is not None]
        here = [block for block in blocks if block.start == first.block and block.allocated.index < first.index]
        if len(here) < 2:
            return None
        before, now = here[-2:]
        by, of_now, of_before = (function_of(call) for call in (first, now.allocated, before.allocated))
        usual = {
            function_of(block.allocated) for block in blocks if block is not now and function_of(block.freed) == by
        }
        if of_now == of_before or of_now in usual or of_before not in usual:
            return None
        return first, before.freed

    def second_free(self, start, moment):
        """The last free of a block that was already free, if nothing else was allocated there in between, and the free
        before it; otherwise (None, None)."""
        return next(
            ((second, first) for second, first, block in self.double_frees(moment) if block == start), (None, None)
        )

    def last_free(self, start, moment):
        """The last call before a moment that freed a block."""
        frees = [call for call in self.before(moment) if call.block == start and call.operation == FREED]
        return frees[-1] if frees else None
