"""For scripts that gdb runs: memory, registers, stacks and instructions of the program that it has stopped, as plain
values. x86-64. Imported inside gdb only; nothing here is thread-safe, as gdb's Python is one thread."""

import os
import re

import gdb

REGISTERS = ("rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15").split()
WORD = (1 << 64) - 1
OPERAND = re.compile(r"(?:%(fs|gs):)?(-?0x[0-9a-f]+)?\((%\w+)?(?:,(%\w+)(?:,(\d))?)?\)")
ABSOLUTE = re.compile(r"%(fs|gs):(-?0x[0-9a-f]+)$")
PARTS = {f"e{name}": f"r{name}" for name in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")}
PARTS.update({f"r{number}d": f"r{number}" for number in range(8, 16)})
LOOK_BACK = 40  # instructions before one of interest


def settings():
    for command in ("set pagination off", "set confirm off", "set width 0", "set print thread-events off",
                    "set auto-solib-add on", "set debuginfod enabled off",
                    "handle all nostop noprint pass", "handle SIGSEGV SIGBUS SIGABRT stop print pass",
                    "handle SIGTRAP stop print nopass", "set disassembly-flavor att"):
        try:
            gdb.execute(command, to_string=True)
        except gdb.error:
            pass  # a setting that this gdb does not have


def read_word(address):
    """The 8 bytes at an address, or None where they cannot be read."""
    try:
        return int.from_bytes(bytes(gdb.selected_inferior().read_memory(address, 8)), "little")
    except (gdb.error, OverflowError):
        return None


def register(frame, name):
    try:
        return int(frame.read_register(name)) & WORD
    except (gdb.error, ValueError):
        return None


def registers(frame):
    values = {name: register(frame, name) for name in REGISTERS}
    return {name: value for name, value in values.items() if value is not None}


def module_of(pc):
    name = gdb.solib_name(pc)
    if name:
        return os.path.realpath(name)
    for start, end, _, path in maps():
        if start <= pc < end:
            return os.path.realpath(path) if path.startswith("/") else path
    return ""


_maps = {}


def maps():
    """Mappings as [start, end, offset, path]; read once at each count of stops that the caller makes by forget()."""
    if not _maps:
        rows = []
        pid = gdb.selected_inferior().pid
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                words = line.rstrip("\n").split(None, 5)
                start, end = (int(word, 16) for word in words[0].split("-"))
                rows.append((start, end, int(words[2], 16), words[5] if len(words) > 5 else "", words[1]))
        _maps["all"] = rows
    return [row[:4] for row in _maps["all"]]


def writable_maps():
    maps()
    return [row for row in _maps["all"] if row[4].startswith("rw") and row[3] != "[vsyscall]"]


def forget():
    _maps.clear()


def module_base(path):
    starts = [row[0] for row in maps() if row[3] and os.path.realpath(row[3]) == path]
    return min(starts) if starts else 0


def frame_facts(frame):
    pc = frame.pc()
    sal = frame.find_sal()
    path = module_of(pc)
    return {"pc": pc, "function": frame.name() or "", "file": sal.symtab.fullname() if sal.symtab else "",
            "line": sal.line if sal.symtab else 0, "module": path, "offset": pc - module_base(path) if path else 0}


def line_before(row):
    """For a watchpoint, which stops behind the store: the frame's facts for the instruction before."""
    pc = row["pc"] - 1
    sal, block = gdb.find_pc_line(pc), gdb.block_for_pc(pc)
    while block is not None and block.function is None:
        block = block.superblock
    if sal.symtab:
        row.update(file=sal.symtab.fullname(), line=sal.line)
    if block is not None:
        row["function"] = block.function.name


def stack(limit=32, behind=False):
    """Frames, innermost first, as dictionaries; what was inlined is a frame of its own. behind: the first one has
    stopped behind the instruction that matters."""
    rows = []
    try:
        frame = gdb.newest_frame()
        while frame is not None and len(rows) < limit:
            rows.append(frame_facts(frame))
            frame = frame.older()
    except (gdb.error, gdb.MemoryError):
        pass  # a stack that is broken; what was found of it stands
    if behind and rows:
        line_before(rows[0])
    return rows


def instructions_before(pc):
    """The instructions of the function up to and with the one at pc, at most LOOK_BACK of them, as dictionaries of
    gdb's. Empty without a symbol to begin from."""
    symbol = gdb.execute(f"info symbol {pc:#x}", to_string=True)
    match = re.match(r"(?:.*) \+ (\d+) in section|(\S+) in section", symbol)
    if not match:
        return []
    start = pc - int(match[1] or 0)
    try:
        rows = gdb.selected_frame().architecture().disassemble(start, pc)
    except gdb.error:
        return []
    return rows[-LOOK_BACK:]


def operand_address(text, frame):
    """The address of a memory operand as gdb prints it, by the registers of a frame; None: there is none."""
    match = OPERAND.search(text)
    if match:
        segment, displacement, base, index, scale = match.groups()
        address = int(displacement, 16) if displacement else 0
        for name, factor in ((base, 1), (index, int(scale or 1))):
            if name == "%rip":
                return None  # told by gdb's comment; callers take it from there
            if name:
                value = register(frame, name[1:])
                if value is None:
                    return None
                address += value * factor
    else:
        match = ABSOLUTE.search(text)
        if not match:
            return None
        segment, address = match[1], int(match[2], 16)
    if segment:
        address += register(frame, segment + "_base") or 0
    return address & WORD


def split(instruction):
    """Mnemonic and operands of a line of disassembly."""
    text = instruction["asm"].split("#")[0].split("<")[0].strip()
    words = text.split(None, 1)
    if len(words) < 2:
        return text, []
    return words[0], [part.strip() for part in re.split(r",(?![^(]*\))", words[1])]


def whole(name):
    name = name.lstrip("%")
    return PARTS.get(name, name)


def load_before(rows, name):
    """Among instructions, the last that set a register from memory, through moves between registers: that one, or
    None where something else made the value."""
    name = whole(name)
    for row in reversed(rows):
        mnemonic, operands = split(row)
        if len(operands) != 2 or whole(operands[1]) != name or not operands[1].startswith("%"):
            if mnemonic.startswith("pop") and operands and whole(operands[0]) == name:
                return None
            continue
        if mnemonic.startswith(("test", "cmp")):
            continue  # they only look at it
        if not mnemonic.startswith("mov"):
            return None
        if operands[0].startswith("%") and "(" not in operands[0] and ":" not in operands[0]:
            name = whole(operands[0])
            continue
        return row if "(" in operands[0] or ":" in operands[0] else None
    return None


def load_behind(pc, name):
    """As load_before, but among what follows: in a loop the load may stand below the use. Only a plain load counts."""
    try:
        rows = gdb.selected_frame().architecture().disassemble(pc, count=LOOK_BACK)
    except gdb.error:
        return None
    block = gdb.block_for_pc(pc)
    while block is not None and block.function is None:
        block = block.superblock
    for row in rows[1:]:
        mnemonic, operands = split(row)
        if block is not None and row["addr"] >= block.end or mnemonic.startswith("ret"):
            return None
        is_load = len(operands) == 2 and mnemonic.startswith("mov") and "(" in operands[0]
        if is_load and whole(operands[1]) == whole(name):
            return row
    return None


def pointed_words(frame, value, but):
    """Addresses of words that hold a value, where a register of the frame points or a little beyond it."""
    found = []
    for name, base in registers(frame).items():
        if name == "rsp":
            continue
        for offset in (0, 8, 16, 24):
            address = base + offset
            if address % 8 == 0 and address not in but and address not in found and read_word(address) == value:
                found.append(address)
    return found


def search(value, but, limit=4):
    """Addresses of aligned words in writable memory, stacks left out, that hold a value; None: more than limit."""
    found = []
    pattern = value.to_bytes(8, "little")
    inferior = gdb.selected_inferior()
    stack_pointer = register(gdb.newest_frame(), "rsp") or 0
    for start, end, _, path, _ in writable_maps():
        if path.startswith("[stack") or start <= stack_pointer < end or "hakmem-replay" in path:
            continue
        at = start
        while at < end:
            try:
                at = inferior.search_memory(at, end - at, pattern)
            except gdb.error:
                break
            if at is None:
                break
            if at % 8 == 0 and at not in but:
                found.append(at)
                if len(found) > limit:
                    return None
            at += 8 - at % 8
    return found
