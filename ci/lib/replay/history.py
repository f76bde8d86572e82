"""The log of libreplay-calls.so (calls.c): which blocks were live at a moment, and who allocated and freed them."""

import struct

CALL = struct.Struct("<6Q")
CALLS_MAX = 1 << 20
ALLOCATED, FREED = 1, 2


class Call:
    def __init__(self, index, fields):
        self.index = index
        self.operation, self.thread, self.block, self.size_bytes, self.usable_bytes, self.caller = fields


class Block:
    """A block at a moment: allocated by one call, and freed by another, or not yet."""

    def __init__(self, allocated):
        self.start, self.bytes, self.usable_bytes = allocated.block, allocated.size_bytes, allocated.usable_bytes
        self.allocated, self.freed = allocated, None

    def holds(self, address):
        return self.start <= address < self.start + max(self.usable_bytes, 1)


class History:
    def __init__(self, path):
        self.calls = []
        try:
            with open(path, "rb") as file:
                count = CALL.unpack(file.read(CALL.size))[0]
                ring = file.read(CALL.size * min(count, CALLS_MAX))
        except (OSError, struct.error):
            return
        first = max(0, count - CALLS_MAX)
        for index in range(first, count):
            fields = CALL.unpack_from(ring, index % CALLS_MAX * CALL.size)
            if fields[0] in (ALLOCATED, FREED):
                self.calls.append(Call(index, fields))

    def before(self, moment):
        return [call for call in self.calls if moment is None or call.index < moment]

    def blocks(self, moment):
        """The last block at each address that began one, by its start."""
        blocks = {}
        for call in self.before(moment):
            if call.operation == ALLOCATED:
                blocks[call.block] = Block(call)
            elif call.block in blocks and blocks[call.block].freed is None:
                blocks[call.block].freed = call
        return blocks

    def block_at(self, address, moment):
        """The block that holds an address: the one allocated last, live or freed. None: no block that is known."""
        found = [block for block in self.blocks(moment).values() if block.holds(address)]
        return max(found, key=lambda block: block.allocated.index, default=None)

    def of_block(self, start, moment):
        return [call for call in self.before(moment) if call.block == start]

    def second_free(self, start, moment):
        """The call that freed a block which was free already, or None; and the free before it."""
        was_allocated, last = False, None
        for call in self.of_block(start, moment):
            if call.operation == ALLOCATED:
                was_allocated, last = True, None
            elif was_allocated and last is not None:
                return call, last
            else:
                last = call
        return None, None

    def last_free(self, start, moment):
        """The last call before a moment that freed a block."""
        frees = [call for call in self.of_block(start, moment) if call.operation == FREED]
        return frees[-1] if frees else None
