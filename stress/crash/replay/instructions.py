"""For scripts that gdb runs: instructions as gdb disassembles them, and their operands. x86-64, AT&T syntax."""

import re

import gdb

import forms
import inside
from forms import OPERAND

ABSOLUTE = re.compile(r"%(fs|gs):(-?0x[0-9a-f]+)$")
FIXED = re.compile(r"^\*?(0x[0-9a-f]+)$")
RIP_TARGET = re.compile(r"# (0x[0-9a-f]+)")
PARTS = {f"e{name}": f"r{name}" for name in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")}
PARTS.update({f"r{number}d": f"r{number}" for number in range(8, 16)})
NARROW = {f"e{name}" for name in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")} | {f"r{n}d" for n in range(8, 16)}
LOOK_BACK = 800  # decoded before an instruction of interest
BYTES_BEFORE = 160  # decoded before an address in a function without a symbol


def decode(start, end):
    try:
        return gdb.selected_frame().architecture().disassemble(start, end)
    except (gdb.error, gdb.MemoryError, OverflowError):
        return []


def before(pc):
    """The instructions of the function before pc, at most LOOK_BACK. Without a symbol, starts at a place from which
    decoding reaches pc; a wrong start gets into step after a few instructions."""
    text = gdb.execute(f"info symbol {pc:#x}", to_string=True)
    match = re.match(r"(?:.*?) \+ (\d+) in section|(\S.*) in section", text)
    if match:
        rows = decode(pc - int(match[1] or 0), pc - 1) if int(match[1] or 0) > 0 else []
        return [row for row in rows if row["addr"] < pc][-LOOK_BACK:]
    for back in range(BYTES_BEFORE, 8, -1):
        rows = decode(pc - back, pc - 1)
        if rows and rows[-1]["addr"] + rows[-1]["length"] == pc and "(bad)" not in str([row["asm"] for row in rows]):
            return rows[3:][-LOOK_BACK:]  # the first ones may be out of step
    return []


def at(pc):
    """The instruction at an address; None if there is none."""
    rows = decode(pc, pc)
    return rows[0] if rows else None


def call_before(pc):
    """The call that returns to an address; None: no call ends there."""
    rows = before(pc)
    if rows and rows[-1]["asm"].startswith("call") and rows[-1]["addr"] + rows[-1]["length"] == pc:
        return rows[-1]
    for length in range(2, 9):
        row = at(pc - length)
        if row and row["length"] == length and row["asm"].startswith("call"):
            return row
    return None


def split(instruction):
    """Mnemonic and operands of a line of disassembly."""
    text = re.sub(r"<[^>]*>", "", instruction["asm"].split("#")[0]).strip()
    while text.startswith(("rep ", "repz ", "repnz ", "lock ", "notrack ", "bnd ", "data16 ")):
        text = text.split(None, 1)[1]
    words = text.split(None, 1)
    if len(words) < 2:
        return text, []
    return words[0], [part.strip() for part in re.split(r",(?![^(]*\))", words[1])]


def whole(name):
    name = name.lstrip("%")
    return PARTS.get(name, name)


def is_register(operand):
    return operand.startswith("%") and "(" not in operand and ":" not in operand


def is_memory(operand):
    return "(" in operand or bool(ABSOLUTE.search(operand)) or bool(FIXED.match(operand))


def address_of(row, operand, frame, value_of=None):
    """The address of a memory operand, computed from the registers of a frame, or from value_of(name); None: a part
    of it is not known."""
    match = OPERAND.search(operand)
    if match and match[3] == "%rip":
        target = RIP_TARGET.search(row["asm"])
        behind = row["addr"] + row["length"]
        return int(target[1], 16) if target else (behind + int(match[2] or "0", 16)) & inside.WORD
    if match:
        parts = parts_of(operand, frame, value_of)
        return None if parts is None else forms.address(*parts)
    match = ABSOLUTE.search(operand)
    if match:
        return forms.address({}, [int(match[2], 16), inside.register(frame, match[1] + "_base") or 0])
    return int(operand.lstrip("*"), 16) if FIXED.match(operand) else None


def parts_of(operand, frame, value_of=None):
    """A memory operand's registers and the rest of its address, as forms.suspects takes them; None: a part is not
    known."""
    match, registers = OPERAND.search(operand), {}
    for name, factor in forms.factors(operand).items():
        value = value_of(name) if value_of else inside.register(frame, name)
        if value is None:
            return None
        registers[name] = (value, factor)
    fixed = [int(match[2], 16) & inside.WORD] if match and match[2] else []
    if match and match[1] in ("fs", "gs"):
        fixed.append(inside.register(frame, match[1] + "_base") or 0)
    return registers, fixed


def load_bytes(mnemonic, destination):
    """The number of bytes that a move reads from memory."""
    for ends, size in ((("bl", "bq", "bw"), 1), (("wl", "wq"), 2), (("slq", "lq"), 4)):
        if mnemonic.startswith(("movz", "movs")) and mnemonic.endswith(ends) and len(mnemonic) > 4:
            return size
    name = destination.lstrip("%")
    if name in NARROW:
        return 4
    if name.startswith(("xmm", "ymm", "zmm")):
        return {"x": 16, "y": 32, "z": 64}[name[0]] if "u" in mnemonic or "a" in mnemonic[3:4] else 8
    return 8


def cell(address, value, size=8):
    mask = (1 << 8 * size) - 1
    return {"address": address, "size": size, "value": value & mask}
