"""For scripts that gdb runs: finds the instruction that used, loaded or stored a value, by reading backwards from where
the program has stopped. x86-64, AT&T syntax. Every answer is checked against the registers and memory at the stop; an
answer that does not agree is dropped.

A cell is a place in memory with the wanted value: {"address", "size", "value"}. An origin says where the value of a
register came from:

  kind      load      from the cell in "cell"; without "cell": by the instruction at "pc", from an address that is no
            longer known
            constant  contained in an instruction
            computed  by arithmetic
            call      returned by the function in "callee"
            sum       of the registers in "suspects": (name, value, part)
            unknown   the search found nothing
  function, pc, asm   the instruction
  ambiguous           another instruction may have set the register, on another path to its use
  made                the value was made of the cell's by arithmetic
  candidates          addresses of the instructions of which one did; which one did, only another run can tell
  (`preferred`)
"""

import re

import gdb

import forms
import inside
import past
from instructions import (
    OPERAND,
    address_of,
    before,
    cell,
    decode,
    is_memory,
    is_register,
    load_bytes,
    parts_of,
    split,
    whole,
)

SAVED_BY_CALLEE = {"rbx", "rbp", "r12", "r13", "r14", "r15"}
ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
FRAMES_MAX = 6  # counted upward from the instruction
STEPS_MAX = 60  # copies between registers of one function
BYTES_BEHIND = 1024  # bytes decoded after an instruction of interest, since a path may lead back from there
ENDS = re.compile(
    r"^(notrack )?(jmp|ret|ud2|hlt)|^call.*<(abort|_?exit|_Exit|__assert_fail|__stack_chk_fail|__cxa_throw|"
    r"_Unwind_Resume)[@>+]"
)  # the program does not continue after these
JUMP = re.compile(r"(?:notrack |bnd )?j\w+\s+(0x[0-9a-f]+)")


# --- where a register's value came from ----------------------------------------------------------------------------


def result(kind, frame, row, **more):
    about = {
        "kind": kind,
        "function": frame.name() or inside.name_at(row["addr"]) if row else "",
        "pc": row["addr"] if row else 0,
        "asm": row["asm"].split("#")[0].strip() if row else "",
    }
    about.update(more)
    return about


preferred = set()  # of instructions that may have set a register, those that are known to have done so
_state = {"candidates": None}


def loaded(frame, row, operands, value, mnemonic, earlier=None, place=0):
    """earlier: past.Past of the function, and the row's place in it; None: the registers are as they were at the
    row."""
    size = min(load_bytes(mnemonic, operands[1]), 8)
    address = earlier.address(place, operands[0]) if earlier else address_of(row, operands[0], frame)
    held = (
        earlier.read(place, operands[0], size) if earlier else None if address is None else inside.read(address, size)
    )
    if held is not None and held == value & (1 << 8 * size) - 1:
        return result(
            "load",
            frame,
            row,
            cell=cell(address, value, size),
            symbol=inside.static_symbol(address),
            stack="live" if is_own(frame, operands[0]) else inside.stack_part(address),
            base=base_of(row, operands[0], frame, earlier and (lambda name: earlier.register(name, place))),
        )
    return result("load", frame, row, size=size, value=value & (1 << 8 * size) - 1)


def is_own(frame, operand):
    """Whether an operand is in the frame itself: relative to %rsp, or to %rbp as a frame pointer, above %rsp. The
    variables of a function that calls nothing may be below %rsp."""
    if not operand.endswith("(%rbp)"):
        return operand.endswith("(%rsp)")
    pointer, base = (inside.register(frame, name) or 0 for name in ("rsp", "rbp"))
    mapping = inside.mapping_of(pointer)
    return mapping is not None and pointer <= base < mapping[1]


def base_of(row, operand, frame, value_of=None):
    """Register, value and place of use of the pointer by which an operand is reached; None: by none."""
    parts = parts_of(operand, frame, value_of)
    name = forms.pointer(*parts, inside.access) if parts else None
    return [name, parts[0][name][0], row["addr"]] if name and name != "rsp" else None


def constant(frame, row, operand, value):
    try:
        number = int(operand.lstrip("$"), 16) & inside.WORD
    except ValueError:
        return None
    if number == value or number & 0xFFFFFFFF == value:
        return result("constant", frame, row)
    return None


def in_rows(frame, rows, name, value, is_caller=False, part=""):
    """The origin of a register as set by these rows of one function; ("argument", name, is_ambiguous, value, is_made) if
    it was set before them. It is ambiguous if the program may have come by another path, on which the register was set
    elsewhere. is_caller: the frame waits for a call, so that other registers than those that a call keeps are not its
    own. part "index": the value is a number, which may be made of one other value, such as a bad pointer; not of a good
    one, for then the making is the fault. part "base": the value is a bad pointer; if it is the sum of a pointer and an
    index that may be bad, the kind is "sum"."""
    last = max(rows[-1]["addr"], frame.pc() if rows and rows[0]["addr"] <= frame.pc() else 0) if rows else 0
    around = decode(rows[0]["addr"], last + BYTES_BEHIND) if rows else []
    ways, place, is_ambiguous, is_made = ways_to(around), len(rows), False, False
    stop = next((number for number, row in enumerate(around) if row["addr"] == frame.pc()), place)
    earlier = past.Past(frame, around, ways, stop, is_caller, set_at, sets)
    for _ in range(STEPS_MAX):
        places = [one for one in set_at(around, ways, place, name) if not is_other_constant(around, one, value)]
        if not around:
            return ("argument", name, is_ambiguous, value, is_made)  # at the function's first instruction
        known = [one for one in places if around[max(one, 0)]["addr"] in preferred]
        places = known if len(known) == 1 else places
        if len(places) > 1 and _state["candidates"] is None:
            _state["candidates"] = sorted(around[max(one, 0)]["addr"] for one in places)
        is_ambiguous = is_ambiguous or len(places) > 1
        loads = [one for one in places if one >= 0 and is_load(around[one])] if len(places) > 1 else []
        places = loads or places  # the likelier ones, until it is decided
        place = max((one for one in places if one < place), default=max(places, default=-1))
        made_of = earlier.source(place, value) if part == "index" and place >= 0 else None
        if made_of is not None and inside.access(made_of[1]) != forms.OBJECT:
            name, value, is_made = *made_of[:2], is_made or made_of[2]
            continue
        terms, fixed = earlier.terms(place, value) if part == "base" and place >= 0 else ({}, [])
        parts = forms.suspects(terms, fixed, inside.access)
        if "index" in dict(parts).values():
            return result("sum", frame, around[place], suspects=[(one, terms[one][0], is_a) for one, is_a in parts])
        found = ("argument", name) if place < 0 else at_row(frame, around[place], name, value, earlier, place)
        if isinstance(found, tuple) and len(found) == 3:
            _, name, value = found  # copied from another register
            continue
        if isinstance(found, tuple):
            return (*found, is_ambiguous, value, is_made)
        found = {**found, "made": True} if is_made else found
        return {**found, "ambiguous": True} if is_ambiguous else found
    return ("argument", name, True, value, is_made)


def ways_to(rows):
    """For each row, the indices of the rows from which the program can reach it; -1: from before the first row."""
    places = {row["addr"]: place for place, row in enumerate(rows)}
    ways = {0: [-1]}
    for place, row in enumerate(rows):
        if not ENDS.search(row["asm"]):
            ways.setdefault(place + 1, []).append(place)
        target = JUMP.match(row["asm"])
        if target and int(target[1], 16) in places:
            ways.setdefault(places[int(target[1], 16)], []).append(place)
    return ways


def set_at(rows, ways, place, name):
    """The indices of the rows that may have set a register last, before a given row; -1: none of them did."""
    found, known, more = set(), set(), list(ways.get(place, ()))
    while more:
        one = more.pop()
        if one in known:
            continue
        known.add(one)
        if one < 0 or sets(rows[one], name):
            found.add(one)
        else:
            more += ways.get(one, ())
    return found


def sets(row, name):
    mnemonic, operands = split(row)
    if mnemonic.startswith("call"):
        return name not in SAVED_BY_CALLEE and name != "rsp"
    if mnemonic in ("cltq", "cqto", "cltd", "leave"):
        return name in {"cltq": ("rax",), "leave": ("rbp", "rsp")}.get(mnemonic, ("rdx",))
    if mnemonic.startswith(("div", "idiv", "mul")) or mnemonic.startswith("imul") and len(operands) == 1:
        return name in ("rax", "rdx")
    if not operands or mnemonic.startswith(("test", "cmp", "j", "push", "nop", "bt", "ucomis", "comis", "endbr")):
        return False
    return is_register(operands[-1]) and whole(operands[-1]) == name


def is_load(row):
    mnemonic, operands = split(row)
    return mnemonic.startswith("mov") and len(operands) == 2 and is_memory(operands[0])


def is_other_constant(rows, place, value):
    """Whether a row sets a register to a constant other than the value."""
    mnemonic, operands = split(rows[place]) if place >= 0 else ("", [])
    if len(operands) != 2 or not is_register(operands[1]):
        return False
    if mnemonic.startswith("xor") and operands[0] == operands[1]:
        return value != 0
    return (
        mnemonic.startswith("mov")
        and operands[0].startswith("$")
        and constant(gdb.selected_frame(), rows[place], operands[0], value) is None
    )


def at_row(frame, row, name, value, earlier=None, place=0):
    """The origin of a register that this row sets; or ("argument", name); or ("passed", name, value): copied from
    another register."""
    mnemonic, operands = split(row)
    if mnemonic.startswith("call"):
        if name == "rax":
            return result(
                "call", frame, row, callee=callee_of(row), target=target_of(row), back=row["addr"] + row["length"]
            )
        return result("unknown", frame, row)  # the call changed it, so the code must have jumped around the call
    if mnemonic.startswith("pop") or mnemonic == "leave":
        return ("argument", name)
    if not operands:
        return result("computed", frame, row)
    step = constant_step(mnemonic, operands)
    if step is not None:
        return ("passed", step[0], (value - step[1]) & inside.WORD)
    base = earlier.base_of_sum(place, value) if earlier else None
    if base is not None:
        return ("passed", *base)
    if mnemonic.startswith("xor") and operands[0] == operands[-1]:
        return result("constant", frame, row) if value == 0 else result("unknown", frame, row)
    if mnemonic == "cltq":
        return ("passed", "rax", value)
    if mnemonic.startswith(("mov", "vmov")) and len(operands) == 2:
        if is_register(operands[0]):
            return ("passed", whole(operands[0]), value)
        if is_memory(operands[0]):
            return loaded(frame, row, operands, value, mnemonic, earlier, place)
        return constant(frame, row, operands[0], value) or result("unknown", frame, row)
    if mnemonic.startswith("cmov") and is_register(operands[0]):
        return result("unknown", frame, row)
    return result("computed", frame, row)


def constant_step(mnemonic, operands):
    """The register's previous value and the constant that was added to it; None if the instruction does not add a
    constant."""
    try:
        if mnemonic.startswith(("inc", "dec")):
            return whole(operands[0]), 1 if mnemonic.startswith("inc") else -1
        if mnemonic.startswith(("add", "sub")) and operands[0].startswith("$"):
            number = int(operands[0][1:], 16)
            return whole(operands[1]), number if mnemonic.startswith("add") else -number
    except ValueError:
        return None
    match = OPERAND.fullmatch(operands[0]) if mnemonic.startswith("lea") else None
    if match and match[3] and match[3] != "%rip" and not match[4]:
        return whole(match[3]), int(match[2] or "0", 16)
    return None


def callee_of(row):
    match = re.search(r"<([^>+@]*)", row["asm"])
    return match[1] if match else ""


def origin(name, value, pc=None, start=0, part=""):
    """The origin of a register's value that the frame `start` uses at pc, or where it has stopped. Follows it through
    the callers as long as it was passed on. "level" in the answer is the frame's. part: see in_rows.
    """
    name = whole(name)
    _state["candidates"] = None
    last = {"kind": "unknown", "function": "", "pc": 0, "asm": "", "level": start}
    is_ambiguous = is_made = False
    rows_of = inside.frames(start + FRAMES_MAX)
    for level, frame in enumerate(rows_of[start:]):
        frame.select()
        here = frame.pc() if level or pc is None else pc
        if not level and is_library(here):
            found = in_rows(frame, before(here), name, value)
            if isinstance(found, tuple) or found["kind"] != "load":
                _state["candidates"] = None
                found = {**of_arguments(rows_of, start, name, value), "level": start + 1}
            more = {"candidates": _state["candidates"] or []} if found.get("ambiguous") else {}
            rows_of[0].select()
            return {"level": start, **found, **more}
        rows = before(here)
        if (level or start and pc is None) and rows and rows[-1]["asm"].startswith("call"):
            rows = rows[:-1]  # for the call itself, values that went in matter, not values that come out
        found = in_rows(frame, rows, name, value, bool(level or start), part)
        if not isinstance(found, tuple):
            rows_of[0].select()
            is_ambiguous = is_ambiguous or found.get("ambiguous", False)
            more = {"ambiguous": True, "candidates": _state["candidates"] or []} if is_ambiguous else {}
            return {**found, "level": start + level, **({"made": True} if is_made else {}), **more}
        name, is_ambiguous, value, is_made = (found[1], is_ambiguous or found[2], found[3], is_made or found[4])
        if name not in SAVED_BY_CALLEE and name not in ARGUMENTS:
            break
    if rows_of:
        rows_of[0].select()
    return last


def is_library(pc):
    return bool(re.search(r"/(libc|libstdc\+\+|libc\+\+|ld-linux[^/]*|libm)[.-][^/]*$", inside.module_of(pc)))


def of_arguments(rows_of, start, name, value):
    """The C library uses its registers in many ways, so this looks for the value among the arguments of the first call
    made by a function that is not the library's."""
    best = {"kind": "unknown", "function": "", "pc": 0, "asm": ""}
    for level, frame in enumerate(rows_of[start:]):
        if is_library(frame.pc()):
            continue
        frame.select()
        rows = before(frame.pc())[:-1]
        for one in (name, *ARGUMENTS[:3]):
            found = in_rows(frame, rows, one, value, True)
            if isinstance(found, tuple):
                _, passed, is_ambiguous, held, _ = found
                found = origin(passed, held, None, start + level + 1) if passed in ARGUMENTS else None
                if found and is_ambiguous:
                    found = {**found, "ambiguous": True}
            if found and (found["kind"] == "constant" or found.get("cell")):
                rows_of[0].select()
                return found
            if found and found["kind"] == "load" and best["kind"] == "unknown":
                best = found  # through registers whose values are no longer known
        break
    rows_of[0].select()
    return best


def target_of(row):
    """The address that a call goes to; None: a register or a word says it."""
    match = re.match(r"(?:notrack |bnd )?call\w*\s+(0x[0-9a-f]+)", row["asm"])
    return int(match[1], 16) if match else None


def of_first_argument(value):
    """The origin of the first argument of the call by which the program went into the C library."""
    rows_of = inside.frames(FRAMES_MAX)
    for level, frame in enumerate(rows_of):
        if not is_library(frame.pc()):
            return origin("rdi", value, None, level)
    return None


# --- the instruction that crashed ----------------------------------------------------------------------------------


def used(frame, row, fault):
    """The memory operand with which an instruction faulted: {"registers", "fixed", "address", "writes"}, the first two as
    of instructions.parts_of; None: it does not use memory."""
    _, operands = split(row)
    best = None
    for operand in operands:
        address = address_of(row, operand, frame) if is_memory(operand) else None
        if address is None:
            continue
        registers, fixed = parts_of(operand, frame)
        writes = operand is operands[-1] and len(operands) > 1
        one = {"registers": registers, "fixed": fixed, "address": address, "writes": writes}
        if fault is not None and address <= fault < address + 64:
            return one
        if best is None or inside.read(best["address"], 1) is not None:
            best = one
    return best
