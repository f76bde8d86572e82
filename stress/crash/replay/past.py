"""For scripts that gdb runs: values that registers had earlier in a function, reckoned from the registers and the
memory at the stop. At -O0 a value goes through stack slots, and a load often destroys its own base (mov
0x8(%rax),%rax)."""

import forms
import inside
from instructions import NARROW, OPERAND, address_of, is_memory, is_register, load_bytes, parts_of, split, whole

DEPTH_MAX = 16
CALLER_KEEPS = {"rbx", "rbp", "rsp", "r12", "r13", "r14", "r15"}
ARITHMETIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "shl": lambda a, b: a << (b & 63),
    "shr": lambda a, b: a >> (b & 63),
}

changed = {}  # address: (size, value) from before the store after which the program has stopped; value None: not known


class Past:
    """rows: of the function; stop: the index of the row at which the frame is; is_caller: the frame is waiting for a
    call; set_at, sets: of flow.py."""

    def __init__(self, frame, rows, ways, stop, is_caller, set_at, sets):
        self.frame, self.rows, self.ways, self.stop = frame, rows, ways, stop
        self.is_caller, self.set_at, self.sets = is_caller, set_at, sets

    def register(self, name, place, depth=0):
        """The value before a row; None: not known."""
        name = whole(name)
        later = self.rows[place : self.stop] if place <= self.stop else self.rows[place:] + self.rows[: self.stop]
        if (not self.is_caller or name in CALLER_KEEPS) and not any(self.sets(row, name) for row in later):
            return inside.register(self.frame, name)
        if depth > DEPTH_MAX:
            return None
        places = self.set_at(self.rows, self.ways, place, name)
        set_by = places.pop() if len(places) == 1 else -1
        return self.result(set_by, depth + 1) if 0 <= set_by < place else None

    def address(self, place, operand, depth=0):
        """The address of a row's memory operand, as it was then."""
        return address_of(self.rows[place], operand, self.frame, lambda name: self.register(name, place, depth))

    def read(self, place, operand, size, depth=0):
        """What a row read from memory; None: not known, or overwritten since."""
        address = self.address(place, operand, depth)
        if address is None:
            return None
        if address in changed:
            bytes_known, before = changed[address]
            return None if before is None or bytes_known < size else before & (1 << 8 * size) - 1
        for row in self.rows[place + 1 : self.stop]:
            mnemonic, operands = split(row)
            if operands and operands[-1] == operand and not mnemonic.startswith(("cmp", "test", "call", "lea", "push")):
                return None
        return inside.read(address, size)

    def value(self, place, operand, depth, size=8):
        if operand.startswith("$"):
            return int(operand[1:], 16)
        if is_memory(operand):
            return self.read(place, operand, size, depth)
        return self.register(operand, place, depth) if is_register(operand) else None

    def result(self, place, depth):
        """What a row left in the register that it sets."""
        mnemonic, operands = split(self.rows[place])
        if mnemonic == "cltq":
            return signed(self.register("rax", place, depth), 4)
        if len(operands) != 2 or not is_register(operands[1]):
            return None
        mask = (1 << 32) - 1 if operands[1].lstrip("%") in NARROW else inside.WORD
        if mnemonic.startswith("lea"):
            found = self.address(place, operands[0], depth)
        elif mnemonic.startswith(("movz", "movs", "mov")):
            size = min(load_bytes(mnemonic, operands[1]), 8)
            found = self.value(place, operands[0], depth, size)
            if mnemonic.startswith("movs") and len(mnemonic) > 4:
                found = signed(found, size if is_memory(operands[0]) else 4)
        elif mnemonic.startswith("xor") and operands[0] == operands[1]:
            found = 0
        else:
            does = next((ARITHMETIC[name] for name in ARITHMETIC if mnemonic.startswith(name)), None)
            one, other = (self.value(place, operand, depth, 4 if mask >> 32 == 0 else 8) for operand in operands)
            found = None if does is None or one is None or other is None else does(other & mask, one)
        return None if found is None else found & mask

    def terms(self, place, value):
        """The registers that a row added to make this value, and what else it added, as forms.suspects takes them; ({}, []):
        it did not. Compilers that do not optimise add a pointer and an index before they use the sum."""
        mnemonic, operands = split(self.rows[place])
        parts = None
        if mnemonic.startswith("add") and all(is_register(one) for one in operands):
            factors = {whole(one): 2 if self.is_scaled(whole(one), place) else 1 for one in operands}
            values = {name: self.register(name, place) for name in factors}
            if None not in values.values() and sum(values.values()) & inside.WORD == value:
                parts = {name: (values[name], factors[name]) for name in factors}, []
        elif mnemonic.startswith("lea") and self.address(place, operands[0]) == value:
            parts = parts_of(operands[0], self.frame, lambda name: self.register(name, place))
        if parts is None or len(parts[0]) < 2 and all(inside.access(one) != forms.OBJECT for one in parts[1]):
            return {}, []
        return parts

    def base_of_sum(self, place, value):
        """The register and value of the pointer, if the row added an index to it and it points nowhere; otherwise None."""
        registers, fixed = self.terms(place, value)
        bases = [name for name, part in forms.suspects(registers, fixed, inside.access) if part == "base"]
        return (bases[0], registers[bases[0]][0]) if len(bases) == 1 else None

    def source(self, place, value):
        """The register from which alone a row makes this value, what it held, and whether the row does more than to move or
        multiply it; None: it makes it from several, or from one that is not known."""
        mnemonic, operands = split(self.rows[place])
        names = ["rax"] if mnemonic == "cltq" else []
        if mnemonic.startswith("lea"):
            names = list(forms.factors(operands[0]))
        elif mnemonic.startswith("mov") and is_register(operands[0]):
            names = [whole(operands[0])]
        elif len(operands) == 2 and operands[0].startswith("$") and is_register(operands[1]):
            names = [whole(operands[1])]
        held = self.register(names[0], place) if len(names) == 1 else None
        if held is None or self.result(place, 1) != value:
            return None
        return names[0], held, not mnemonic.startswith(("lea", "mov", "shl", "cltq"))

    def is_scaled(self, name, place):
        """Whether the register was last set as an index: multiplied or widened."""
        places = self.set_at(self.rows, self.ways, place, name)
        if len(places) != 1 or min(places) < 0:
            return False
        mnemonic, operands = split(self.rows[places.pop()])
        match = OPERAND.fullmatch(operands[0]) if operands and mnemonic.startswith("lea") else None
        return mnemonic.startswith(("shl", "sal", "imul", "movslq", "cltq")) or bool(
            match and match[4] and not match[3]
        )


def signed(value, size):
    if value is None:
        return None
    value &= (1 << 8 * size) - 1
    return (value - (1 << 8 * size) if value >> 8 * size - 1 else value) & inside.WORD
