"""Memory operands, in AT&T syntax, and which register made an address bad. Imports nothing of gdb, so that a test can
try every form.

  address = base of the segment + displacement + base + index * scale
"""

import re

OPERAND = re.compile(r"(?:%(\w\w):)?(-?0x[0-9a-f]+)?\((%\w+)?(?:,(%\w+)(?:,(\d))?)?\)")
NO_REGISTERS = {"rip", "riz", "eiz"}  # rip belongs to what is fixed, and riz is always 0
WORD = (1 << 64) - 1
NUMBERS_BELOW = 1 << 16  # as a pointer, a smaller value is NULL, or a field of it
NUMBERS_FROM = WORD - (1 << 31)  # negative numbers
USER_END = 1 << 47

NOWHERE, NO_ACCESS, OBJECT = range(3)  # what is at an address: nothing, memory without access, or memory to be read


def factors(operand):
    """The registers of a memory operand, each with what it is multiplied by. A register that stands twice is an index."""
    match, found = OPERAND.search(operand), {}
    for name, factor in ((match[3], 1), (match[4], int(match[5] or 1))) if match else ():
        if name and name[1:] not in NO_REGISTERS:
            found[name[1:]] = found.get(name[1:], 0) + factor
    return found


def address(registers, fixed):
    return sum(value * factor for value, factor in registers.values()) + sum(fixed) & WORD


def likeness(value):
    """How much a value that leads nowhere is like a pointer: an address most, then NULL, then another number."""
    return 1 if value == 0 else 2 if is_pointer(value) else 0


def is_pointer(value):
    """Whether a value is a pointer, or garbage in the place of one, rather than NULL or a number."""
    return NUMBERS_BELOW <= value < NUMBERS_FROM


def is_address(value):
    """Whether something could be at an address."""
    return NUMBERS_BELOW <= value < USER_END


def suspects(registers, fixed, access):
    """The registers that can have made an address bad, as (name, part), the likeliest first. part: "base", a pointer
    that leads nowhere, or "index", a number that leads away from a pointer or a table. Each of them explains the address
    by itself, so more than one needs other evidence.

    registers: {name: (value, factor)}, see factors(); fixed: what the address has besides, such as a displacement or the
    base of a segment; access: of an address, such as OBJECT.

    A pointer to memory that can be read is innocent, and so is an index of 0. Nothing may be at the start of a sparse
    table, so a base that is an address but leads nowhere may be right, and the index wrong."""
    moving, bad = [name for name, (value, _) in registers.items() if value], address(registers, fixed)
    if any(access(place) == OBJECT for place in fixed):
        far = [name for name in moving if access(bad - address({name: registers[name]}, []) & WORD) == OBJECT]
        return [(name, "index") for name in far or moving or registers]
    pointers = [name for name, (value, factor) in registers.items() if factor == 1 and access(value) == OBJECT]
    if pointers:
        others = [(name, "index") for name in reversed(moving) if any(one != name for one in pointers)]
        return others or [(pointers[0], "base")]
    single = {name: value for name, (value, factor) in registers.items() if factor == 1}
    if not single:
        return [(name, "index") for name in registers]
    best = max(likeness(value) for value in single.values())
    bases = [name for name, value in single.items() if likeness(value) == best]
    more = moving if is_address(single[bases[0]]) else []
    return [(name, "base") for name in bases] + [(name, "index") for name in more if name not in bases]


def pointer(registers, fixed, access):
    """The register by which an instruction reached memory; None: it is a table at a fixed address, or not known."""
    if any(access(place) == OBJECT for place in fixed):
        return None
    single = [name for name, (_, factor) in registers.items() if factor == 1]
    return max(single, key=lambda name: (access(registers[name][0]), likeness(registers[name][0])), default=None)
