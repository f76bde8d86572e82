"""The log of libreplay-calls.so (calls.c): which blocks were live at a moment, and who allocated and freed them. A moment is
a number of calls: those before it are done."""

import struct

CALL = struct.Struct("<6Q")
CALLS_MAX = 1 << 20
ALLOCATED, FREED, ALLOCATED_ZEROED = 1, 2, 3


class Call:
    def __init__(self, index, fields):
        self.index = index
        self.operation, self.thread, self.block, self.size_bytes, self.usable_bytes, self.caller = fields


class Block:
    """A block from one allocation to its free, if that came."""

    def __init__(self, allocated):
        self.start, self.bytes, self.usable_bytes = allocated.block, allocated.size_bytes, allocated.usable_bytes
        self.allocated, self.freed = allocated, None
        self.is_zeroed = allocated.operation == ALLOCATED_ZEROED

    def holds(self, address):
        return self.start <= address < self.start + max(self.usable_bytes, 1)


def count_of(path):
    """Calls that a log has seen; 0: there is none."""
    try:
        with open(path, "rb") as file:
            return CALL.unpack(file.read(CALL.size))[0]
    except (OSError, struct.error):
        return 0


class History:
    def __init__(self, path):
        self.calls, self.moments, self.is_whole, self.count = [], {}, False, count_of(path)
        count = self.count
        if count == 0:
            return
        with open(path, "rb") as file:
            file.seek(CALL.size)
            ring = file.read(CALL.size * min(count, CALLS_MAX))
        self.is_whole = 0 < count <= CALLS_MAX
        for index in range(max(0, count - CALLS_MAX), count):
            fields = CALL.unpack_from(ring, index % CALLS_MAX * CALL.size)
            if fields[0] in (ALLOCATED, FREED, ALLOCATED_ZEROED):
                self.calls.append(Call(index, fields))

    def before(self, moment):
        return [call for call in self.calls if moment is None or call.index < moment]

    def all_blocks(self, moment):
        """Every block until a moment, in the order of allocation."""
        if moment not in self.moments:
            rows, last = [], {}
            for call in self.before(moment):
                if call.operation != FREED:
                    last[call.block] = Block(call)
                    rows.append(last[call.block])
                elif call.block in last and last[call.block].freed is None:
                    last[call.block].freed = call
            self.moments[moment] = rows
        return self.moments[moment]

    def blocks(self, moment):
        """The last block at each address that began one, by its start."""
        return {block.start: block for block in self.all_blocks(moment)}

    def blocks_at(self, address, moment):
        """The blocks that held an address, one after the other, by allocation."""
        return [block for block in self.all_blocks(moment) if block.holds(address)]

    def block_at(self, address, moment):
        """The block that holds an address: the one allocated last, live or freed. None: no block that is known."""
        return next(iter(self.blocks_at(address, moment)[-1:]), None)

    def double_frees(self, moment):
        """Frees of blocks that were free already: [the second call, the first, its block], the last one first."""
        found, last, freed = [], {}, {}
        for call in self.before(moment):
            if call.operation != FREED:
                last[call.block] = call
                freed.pop(call.block, None)
            elif call.block in freed:
                found.insert(0, (call, freed[call.block], call.block))
            elif call.block in last:
                freed[call.block] = call
        return found

    def second_free(self, start, moment):
        """The last free of a block that was free already, while nothing else was allocated there, and the free before it;
        (None, None)."""
        return next(
            ((second, first) for second, first, block in self.double_frees(moment) if block == start), (None, None)
        )

    def last_free(self, start, moment):
        """The last call before a moment that freed a block."""
        frees = [call for call in self.before(moment) if call.block == start and call.operation == FREED]
        return frees[-1] if frees else None
