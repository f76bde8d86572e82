"""For scripts that gdb runs: finds the instruction that stores into a cell (see flow.py), and the source of its
value."""

import gdb

import inside
import flow
import forms
from flow import origin, result
from instructions import address_of, at, before, decode, is_memory, parts_of, split, whole

FUNCTION_BYTES_MAX = 4096
KEPT = (
    "kind",
    "cell",
    "callee",
    "target",
    "back",
    "ambiguous",
    "candidates",
    "function",
    "level",
)  # of the origin of what is stored


def store_of(address, size, behind):
    """The instruction that stores into a word: the one at which, or after which, the program has stopped."""
    frame = gdb.newest_frame()
    if behind:
        rows = before(frame.pc())
        return rows[-1] if rows else None
    return at(frame.pc())


READERS = ("cmp", "test", "bt", "push", "ucomis", "comis", "vucomis", "vcomis", "prefetch", "nop")


def is_store_to(row, frame, address):
    """Whether an instruction writes to an address. If it is not understood, it counts as a store, so that it is looked
    at."""
    if row is None:
        return True
    mnemonic, operands = split(row)
    if (
        mnemonic.startswith(("stos", "movs"))
        and not mnemonic.startswith(("movsl", "movsb", "movsw", "movsx", "movss", "movsd"))
        or "%es:(%rdi)" in row["asm"]
    ):
        return True
    if not operands or mnemonic.startswith(READERS):
        return False
    if not is_memory(operands[-1]):
        return False
    start = address_of(row, operands[-1], frame)
    return start is None or start <= address < start + 64


def describe_store(target, behind):
    """What is stored into a cell, as {"kind", ...} of an origin; kind "bulk": by the C library, on behalf of its
    caller."""
    frame = gdb.newest_frame()
    row = store_of(target["address"], target["size"], behind)
    if row is None:
        return {"kind": "unknown", "function": "", "pc": 0, "asm": "", "bases": []}
    mnemonic, operands = split(row)
    about = result("unknown", frame, row)
    about["bases"] = bases(row, operands, frame)
    if mnemonic.startswith(("mov", "vmov")) and len(operands) == 2 and is_memory(operands[1]):
        about.update(moved(frame, row, operands, mnemonic, target))
    elif mnemonic.startswith(("movs", "stos", "rep")):
        about["kind"] = "bulk"
    elif operands and is_memory(operands[-1]):
        about["kind"] = "computed"
    elif mnemonic.startswith(("call", "push")):
        about["kind"] = "computed"
    return about


def bases(row, operands, frame):
    """Pointers that the store used. In the C library, memcpy and related functions keep the destination that they were
    given."""
    if "/libc" in inside.module_of(row["addr"]):
        return [value for value in (inside.register(frame, name) for name in ("rax", "rdi")) if value]
    parts = parts_of(operands[-1], frame) if operands and is_memory(operands[-1]) else None
    name = forms.pointer(*parts, inside.access) if parts else None
    return [parts[0][name][0]] if name else []


def base_origin(behind):
    """The origin of the pointer by which the instruction at the stop stores; in the C library, of the first argument
    of the call into it. None: not known."""
    frame = gdb.newest_frame()
    row = store_of(0, 0, behind)
    if row is None:
        return None
    if flow.is_library(row["addr"]):
        value = inside.register(frame, "rax")
        found = flow.of_first_argument(value) if value else None
    else:
        operands = split(row)[1]
        base = flow.base_of(row, operands[-1], frame) if operands else None
        found = flow.origin(*base) if base else None
    if found:
        found.pop("base", None)
    return found


def returns(store):
    """If what was stored is the result of a function of the program: where that function ends. The places are before
    the instructions that take its frame down, so that its registers are still there."""
    target = store.get("target") if store["kind"] == "call" else None
    name = inside.name_at(target) if target else ""
    if not target or not inside.module_of(target).startswith("/") or flow.is_library(target) or not name:
        return []
    rows, ends = decode(target, target + FUNCTION_BYTES_MAX), []
    for place, row in enumerate(rows):
        if inside.name_at(row["addr"]) != name:
            break
        if split(row)[0].startswith("ret"):
            while place > 0 and takes_frame_down(rows[place - 1]):
                place -= 1
            ends.append(rows[place]["addr"])
    return ends


def takes_frame_down(row):
    mnemonic, operands = split(row)
    return (
        mnemonic.startswith(("pop", "leave", "vzeroupper")) or mnemonic.startswith("add") and operands[-1:] == ["%rsp"]
    )


def moved(frame, row, operands, mnemonic, target):
    if "/libc" in inside.module_of(row["addr"]):
        return {"kind": "bulk"}
    if operands[0].startswith("$"):
        return {"kind": "constant"}
    name = whole(operands[0])
    if not name.startswith(("xmm", "ymm", "zmm")):
        found = origin(name, target["value"], row["addr"])
        return {key: found[key] for key in found if key in KEPT} | {"from": found["asm"], "from_pc": found["pc"]}
    start = address_of(row, operands[1], frame)
    for one in reversed(before(row["addr"])):
        words = split(one)
        if len(words[1]) < 2 or whole(words[1][-1]) != name:
            continue
        if "xor" in words[0]:
            return {"kind": "constant"} if target["value"] == 0 else {"kind": "unknown"}
        source = address_of(one, words[1][0], frame) if is_memory(words[1][0]) else None
        if source is None or start is None:
            return {"kind": "unknown"}
        source += target["address"] - start
        if inside.read(source, target["size"]) == target["value"]:
            return {"kind": "load", "cell": {**target, "address": source}, "from": one["asm"]}
        return {"kind": "unknown"}
    return {"kind": "unknown"}


def pointed_words(frame, value, but):
    """Addresses of words that hold a value, at or a little beyond the addresses in the frame's registers."""
    found = []
    for name, base in inside.registers(frame).items():
        if name == "rsp":
            continue
        for offset in (0, 8, 16, 24):
            address = base + offset
            if address % 8 == 0 and address not in but and address not in found and inside.read_word(address) == value:
                found.append(address)
    return found
