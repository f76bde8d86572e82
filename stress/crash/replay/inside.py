"""For scripts that gdb runs: memory, registers, stacks, modules and signals of the program that it has stopped, as
plain values. x86-64. Imported only inside gdb. Nothing here is thread-safe, because gdb's Python has one thread.

Nothing here writes to the program, reads /proc, or evaluates $_siginfo. Under rr, the process that /proc shows is not
the recorded one, and the other two leave the recorded run.
"""

import os
import re

import gdb

from forms import NO_ACCESS, NOWHERE, OBJECT

REGISTERS = ("rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15").split()
WORD = (1 << 64) - 1
SIGNAL_NUMBERS = {"SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9, "SIGSEGV": 11}
CRASHES = "SIGSEGV SIGBUS SIGABRT SIGFPE SIGILL"
TYPES = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long"}  # by size

MAPPING = re.compile(
    r"\s*(0x[0-9a-f]+)\s+(0x[0-9a-f]+)\s+0x[0-9a-f]+\s+(0x[0-9a-f]+)\s+(?:([r-][w-][x-][ps])(?:\s+|$))?(.*)$"
)

SEARCH_BYTES = 1 << 18  # read at a time: gdb's own search takes four times as long
OUTERMOST = ("_start", "clone", "clone3")

_maps = {}
_state = {"signal": 0}


def settings():
    """For every session; call it before the program runs."""
    for command in (
        "set pagination off",
        "set confirm off",
        "set width 0",
        "set print thread-events off",
        "set print inferior-events off",
        "set auto-solib-add on",
        "set debuginfod enabled off",
        "handle all nostop noprint pass",
        f"handle {CRASHES} stop print pass",
        "handle SIGTRAP stop print nopass",
        "set disassembly-flavor att",
    ):
        try:
            gdb.execute(command, to_string=True)
        except gdb.error:
            pass  # a setting that this gdb does not have
    gdb.events.stop.connect(on_stop)


def on_stop(event):
    """Keeps the signal of each stop."""
    name = event.stop_signal if isinstance(event, gdb.SignalEvent) else ""
    _state["signal"] = SIGNAL_NUMBERS.get(name, 0)


def at_signal(number):
    """Sets the signal of a stop that came before settings()."""
    _state["signal"] = number


def signal_number():
    """The signal at which the program has stopped; 0: none."""
    return _state["signal"]


def read(address, size_bytes):
    """Bytes at an address as a number, or None if they cannot be read."""
    try:
        return int.from_bytes(bytes(gdb.selected_inferior().read_memory(address, size_bytes)), "little")
    except (gdb.error, OverflowError):
        return None


def read_word(address):
    return read(address, 8)


def register(frame, name):
    try:
        return int(frame.read_register(name)) & WORD
    except (gdb.error, ValueError):
        return None


def registers(frame):
    values = {name: register(frame, name) for name in REGISTERS}
    return {name: value for name, value in values.items() if value is not None}


# --- mappings and modules ------------------------------------------------------------------------------------------


def maps():
    """Mappings as [start, end, offset, path, protection], from the debugger, which under rr knows those of the recorded
    process. Read once, until forget()."""
    if not _maps:
        rows = []
        for line in gdb.execute("info proc mappings", to_string=True).splitlines():
            match = MAPPING.match(line)
            if match:
                start, end, offset = (int(match[group], 16) for group in (1, 2, 3))
                rows.append([start, end, offset, match[5].strip(), match[4] or "rwxp"])
        _maps["all"] = rows
    return _maps["all"]


def forget():
    _maps.clear()


def mapping_of(address):
    return next((row for row in maps() if row[0] <= address < row[1]), None)


def access(address):
    """What is at an address. The debugger can also read what the program cannot."""
    mapping, is_read = mapping_of(address), read(address, 1) is not None
    if mapping is None:
        return OBJECT if is_read else NOWHERE
    return OBJECT if is_read and mapping[4].startswith("r") else NO_ACCESS


def module_of(pc):
    for start, end, _, path, _ in maps():
        if start <= pc < end:
            return os.path.realpath(path) if path.startswith("/") else path
    name = gdb.solib_name(pc)
    return os.path.realpath(name) if name else ""


def module_base(path):
    starts = [row[0] for row in maps() if row[3] and os.path.realpath(row[3]) == path]
    return min(starts) - linked_at(path) if starts else 0


_linked = {}


def linked_at(path):
    """The address for which the first segment of a file was linked: 0, except for programs with a fixed address."""
    if path not in _linked:
        _linked[path] = 0
        try:
            with open(path, "rb") as file:
                head = file.read(64)
                file.seek(int.from_bytes(head[32:40], "little"))
                size, count = (int.from_bytes(head[at : at + 2], "little") for at in (54, 56))
                rows = [file.read(size) for _ in range(count)]
        except OSError:
            return 0
        loads = [int.from_bytes(row[16:24], "little") for row in rows if row[:4] == b"\1\0\0\0"]
        _linked[path] = min(loads, default=0) & ~4095
    return _linked[path]


# --- frames --------------------------------------------------------------------------------------------------------


def name_at(pc):
    """The name of the function at an address: its symbol, demangled, without parameters; '' if there is none."""
    text = gdb.execute(f"info symbol {pc:#x}", to_string=True)
    match = re.match(r"(.+?)(?: \+ \d+)? in section", text)
    return re.sub(r"@.*|\(.*\)( const)?$", "", match[1]) if match else ""


def frame_facts(frame, is_caller):
    """is_caller: the frame's pc is a return address, so its line is that of the call before it."""
    pc = frame.pc()
    path = module_of(pc)
    row = {
        "pc": pc,
        "function": frame.name() or "",
        "file": "",
        "line": 0,
        "module": path,
        "offset": pc - module_base(path) if path else 0,
    }
    sal = frame.find_sal()
    if sal.symtab:
        row.update(file=sal.symtab.fullname(), line=sal.line)
    if is_caller and not row["function"]:
        row["function"] = name_at(pc - 1)
    return row


def line_before(row):
    """For a watchpoint, which stops after the store: the frame's facts for the previous instruction."""
    pc = row["pc"] - 1
    sal, block = gdb.find_pc_line(pc), gdb.block_for_pc(pc)
    while block is not None and block.function is None:
        block = block.superblock
    if sal.symtab:
        row.update(file=sal.symtab.fullname(), line=sal.line)
    if block is not None:
        row["function"] = block.function.name


def stack(limit=48, behind=False):
    """Frames as dictionaries, innermost first; each inlined function is a separate frame. behind: the first frame has
    stopped after the instruction that matters."""
    rows, is_caller = [], False
    try:
        frame = gdb.newest_frame()
        while frame is not None and len(rows) < limit:
            rows.append(frame_facts(frame, is_caller))
            if rows[-1]["function"] in OUTERMOST:
                break  # what follows is not a real frame
            is_caller = frame.type() == gdb.NORMAL_FRAME
            frame = frame.older()
    except (gdb.error, gdb.MemoryError):
        pass  # the stack is broken; keep what was found of it
    if behind and rows:
        line_before(rows[0])
    return rows


def frames(limit=8):
    """Real frames, not those of inlined functions, innermost first."""
    rows = []
    try:
        frame = gdb.newest_frame()
        while frame is not None and len(rows) < limit:
            if frame.type() != gdb.INLINE_FRAME:
                rows.append(frame)
            frame = frame.older()
    except (gdb.error, gdb.MemoryError):
        pass
    return rows


def static_symbol(address):
    """[name, start] of the variable that contains an address, from the symbol table; None if there is none."""
    text = gdb.execute(f"info symbol {address:#x}", to_string=True)
    match = re.match(r"(\S+)(?: \+ (\d+))? in section", text)
    return [match[1], address - int(match[2] or 0)] if match else None


def stack_part(address):
    """ "live": on the stack of the selected thread, in an existing frame; "gone": below the frames; "": elsewhere."""
    pointer = register(gdb.newest_frame(), "rsp")
    mapping = mapping_of(address)
    if pointer is None or mapping is None or not mapping[0] <= pointer < mapping[1]:
        return ""
    return "live" if address >= pointer else "gone"


def frame_ends():
    """[function, the address of its frame's end] of the first real frames."""
    rows = frames(24)
    return [[row.name() or "", register(before, "rsp") or 0] for row, before in zip(rows, rows[1:])]


def frame_sizes():
    """The size of each of the first real frames: from its stack pointer to the caller's."""
    pointers = [register(frame, "rsp") or 0 for frame in frames(8)]
    return [after - before for before, after in zip(pointers, pointers[1:])]


def search(value, but, limit=4):
    """Addresses of aligned words that hold a value, in writable memory except stacks; None: more than limit."""
    found = []
    pattern = value.to_bytes(8, "little")
    inferior = gdb.selected_inferior()
    stack_pointer = register(gdb.newest_frame(), "rsp") or 0
    for start, end, _, path, protection in maps():
        if (
            not protection.startswith("rw")
            or path.startswith(("[stack", "[v"))
            or start <= stack_pointer < end
            or "hakmem-replay" in path
        ):
            continue
        for at in range(start, end, SEARCH_BYTES):
            try:
                text = bytes(inferior.read_memory(at, min(SEARCH_BYTES, end - at)))
            except gdb.error:
                break
            place = text.find(pattern)
            while place >= 0:
                if place % 8 == 0 and at + place not in but:
                    found.append(at + place)
                    if len(found) > limit:
                        return None
                place = text.find(pattern, place + 1)
    return found
