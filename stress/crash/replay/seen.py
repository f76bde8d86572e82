"""For scripts that gdb runs: collects the facts of a crash, and of a store into a cell (see flow.py). analyse.py judges
them, outside of gdb."""

import gdb

import flow
import forms
import inside
import instructions
import past
import storing

BESIDE_BYTES = 256
STOPS_MAX = 64  # signals that the program handles itself before the crash


def new_log():
    """A script's result: the stores that it saw, the crash, and why there is none."""
    return {"stores": [], "hits": [], "errors": [], "loads": [], "unmaps": [], "crash": None, "ended": "", "maps": []}


def go_to_crash(task, log):
    """Continues from the present stop to the crash that the task expects. Other signals go to the program."""
    for _ in range(STOPS_MAX):
        if gdb.selected_inferior().pid == 0:
            log["ended"] = "the program ended without the crash"
            return
        if inside.signal_number() != 0:
            crash = where()
            log["maps"] = [row[:4] for row in inside.maps()]
            if is_expected(crash, task["expect"]):
                log["crash"] = crash_facts(crash, task)
                return
            log["other"] = {key: crash.get(key) for key in ("signal", "module", "offset")}
            gdb.execute("continue", to_string=True)
        else:
            gdb.execute("stepi", to_string=True)  # a breakpoint at the instruction that crashes
    log["ended"] = f"{STOPS_MAX} other stops"


def is_expected(crash, expect):
    if expect is None or crash["signal"] != expect["signal"]:
        return expect is None
    if expect["module"] == "":
        return crash["module"] == ""  # a jump to an address outside of any module
    return crash["module"] == expect["module"] and crash["offset"] == expect["offset"]


_places = {}


def calls_so_far():
    """The number of calls of malloc and related functions so far; None: they are not counted."""
    if "count" not in _places:
        try:
            _places["count"] = int(gdb.parse_and_eval("(unsigned long)&'hakmem_replay_count'"))
        except gdb.error:
            return None  # the library is not loaded yet, or is not used
    return inside.read_word(_places["count"])


def stack_range():
    """(start of the mapping that the stack pointer is in, stack pointer, end of the mapping); None if there is none."""
    pointer = inside.register(gdb.newest_frame(), "rsp") or 0
    mapping = inside.mapping_of(pointer)
    return [mapping[0], pointer, mapping[1]] if mapping else None


def log_address():
    """The address of libreplay-calls.so's log; None: it is not there."""
    try:
        return int(gdb.parse_and_eval("(unsigned long)'hakmem_replay_log'")) or None
    except gdb.error:
        return None


def where():
    inside.forget()
    frame = gdb.newest_frame()
    thread = gdb.selected_thread()
    pc = frame.pc()
    path = inside.module_of(pc)
    return {
        "signal": inside.signal_number(),
        "thread": thread.num,
        "lwp": thread.ptid[1],
        "pc": pc,
        "module": path,
        "offset": pc - inside.module_base(path) if path.startswith("/") else 0,
    }


# --- a crash ---------------------------------------------------------------------------------------------------------


def crash_facts(crash, task):
    """Adds to where(): stack, calls, the words that the task asks for, and how an instruction got a bad address:

    access   "operand": the instruction used memory; "jump": it was fetched from nowhere; "divisor": it divided; "none"
    bad      the value that made the address bad; register: its register; part: "base" or "index"
    address  the address that was used; protection: of its mapping, such as r--p; "": it is not mapped
    origin   of the bad value, see flow.py
    suspects each register that explains the address by itself, the likeliest first: {name, bad, part, origin, at}, as it
             was at the instruction `at`
    stack_overflow   the stack pointer is below its stack
    """
    past.changed.clear()
    frame = gdb.newest_frame()
    crash.update(
        stack=inside.stack(),
        calls=calls_so_far(),
        access="none",
        bad=None,
        register=None,
        part="",
        suspects=[],
        address=None,
        origin=None,
        instruction="",
        stack_overflow=False,
        protection="",
        frame_sizes=inside.frame_sizes(),
        frames=inside.frame_ends(),
        log=log_address(),
        stack_range=stack_range(),
        read=[[at, inside.read_word(at)] for at in task["read"]],
        found=(inside.search(task["find"], set(), 3) or []) if task.get("find") else [],
    )
    row = instructions.at(crash["pc"])
    if crash["signal"] == 8 and row is not None:
        divisor_facts(crash, frame, row)
    if crash["signal"] not in (7, 11):
        return crash
    if row is None or not crash["module"]:
        jump_facts(crash)
        return crash
    crash["instruction"] = row["asm"].split("#")[0].strip()
    if row["asm"].startswith(("call", "jmp", "notrack")) and call_facts(crash, frame, row):
        return crash
    operand = flow.used(frame, row, task.get("fault"))
    pointer = inside.register(frame, "rsp") or 0
    crash["stack_overflow"] = below_stack(pointer, row, operand, task.get("fault"))
    if operand is not None and not crash["stack_overflow"]:
        operand_facts(crash, operand)
    if crash["module"] == task["allocator"]:
        given_facts(crash, task["allocator"])
    return crash


def given_facts(crash, allocator):
    """Where a program got the pointer that it passed to a function of malloc's, which crashed on it: the origin of the
    first argument, if it points nowhere and is still in a register that calls preserve."""
    for level, frame in enumerate(inside.frames(12)):
        path = inside.module_of(frame.pc())
        if path == allocator or path.endswith("libreplay-calls.so") or flow.is_library(frame.pc()):
            continue
        name = passed_as_first(frame.pc())
        value = inside.register(frame, name) if name in flow.SAVED_BY_CALLEE else None
        if value is None or value < 1 << 16 or inside.read(value, 1) is not None:
            return
        found = flow.origin(name, value, None, level)
        if found["kind"] == "load":
            base_facts(found)
            crash["given"] = {"value": value, "origin": found}
        return


def passed_as_first(pc):
    """The register that the call before pc passed as its first argument; None: no register."""
    for row in reversed(instructions.before(pc)[:-1]):
        mnemonic, operands = instructions.split(row)
        if mnemonic.startswith("call"):
            return None
        if flow.sets(row, "rdi"):
            is_move = mnemonic.startswith("mov") and len(operands) == 2 and instructions.is_register(operands[0])
            return instructions.whole(operands[0]) if is_move else None
    return None


def divisor_facts(crash, frame, row):
    """The origin of a division's zero."""
    mnemonic, operands = instructions.split(row)
    if not mnemonic.startswith(("div", "idiv")) or not operands:
        return
    crash["instruction"] = row["asm"].split("#")[0].strip()
    if instructions.is_register(operands[-1]):
        found = flow.origin(operands[-1], 0)
    else:
        address = instructions.address_of(row, operands[-1], frame)
        size = 4 if mnemonic.endswith("l") else 8
        if address is None or inside.read(address, size) != 0:
            return
        found = flow.result(
            "load",
            frame,
            row,
            cell=instructions.cell(address, 0, size),
            symbol=inside.static_symbol(address),
            stack=inside.stack_part(address),
            base=flow.base_of(row, operands[-1], frame),
            level=0,
        )
    base_facts(found)
    crash.update(access="divisor", bad=0, origin=found)


def call_facts(crash, frame, row):
    """A call or jump that faulted itself, because its target is not a valid address. False: it did not."""
    operand = instructions.split(row)[1][0].lstrip("*")
    register = instructions.is_register(operand)
    address = None if register else instructions.address_of(row, operand, frame)
    bad = inside.register(frame, operand[1:]) if register else None if address is None else inside.read_word(address)
    if bad is None or bad >> 47 in (0, 0x1FFFF):
        return False
    crash.update(access="jump", bad=bad, part="base", address=bad)
    crash["origin"] = (
        flow.origin(operand, bad)
        if register
        else flow.result(
            "load",
            frame,
            row,
            cell=instructions.cell(address, bad),
            symbol=inside.static_symbol(address),
            stack=inside.stack_part(address),
            base=flow.base_of(row, operand, frame),
            level=0,
        )
    )
    base_facts(crash["origin"])
    return True


def base_facts(origin):
    base = origin.pop("base", None)
    origin["returns"] = storing.returns(origin)
    if base:
        origin["base_origin"] = flow.origin(*base, origin.get("level", 0))


def below_stack(pointer, row, operand, fault):
    """Whether the instruction wrote below the end of the stack: the stack pointer is outside of mapped memory, or at
    its lower end, and the address is near it."""
    address = fault if fault is not None else operand["address"] if operand else pointer - 8
    mnemonic = instructions.split(row)[0]
    is_push = mnemonic.startswith(("push", "call")) or operand is None
    uses_stack = is_push or next(iter(operand["registers"]), None) in ("rsp", "rbp")
    mapping = inside.mapping_of(pointer)
    if mapping is None or "w" not in mapping[4]:
        return abs(address - pointer) < 1 << 24
    return (
        uses_stack
        and address < mapping[0]
        and pointer - address < 1 << 20
        and inside.mapping_of(address) is None
        or is_push
        and inside.read_word(pointer - 8) is None
    )


def operand_facts(crash, operand):
    mapping = inside.mapping_of(operand["address"])
    crash.update(access="operand", address=operand["address"], writes=operand["writes"])
    crash["protection"] = mapping[4] if mapping else ""
    rows = forms.suspects(operand["registers"], operand["fixed"], inside.access)
    for name, part in rows:
        bad = operand["registers"][name][0]
        found = flow.origin(name, bad, part=part)
        more = {"register": name, "name": name, "at": crash["pc"]}
        if found["kind"] != "sum":
            crash["suspects"].append({**suspect(bad, part, found), **more})
            continue
        more.update(register=None, at=found["pc"])  # that register may hold something else by now
        for one, value, is_a in found["suspects"]:
            of_one = flow.origin(one, value, found["pc"], found["level"], is_a)
            crash["suspects"].append({**suspect(value, is_a, of_one), **more, "name": one})
    if rows:
        crash.update(crash["suspects"][0])
        return
    crash["origin"] = {
        "kind": "constant",
        "function": crash["stack"][0]["function"],
        "pc": crash["pc"],
        "asm": crash["instruction"],
    }


def suspect(bad, part, found):
    """The facts of a value that explains a bad address. found: its origin."""
    base_facts(found)
    if found["kind"] == "unknown" and bad > 0xFFFF and part == "base":
        cells = inside.search(bad, set(), 3) or []
        if len(cells) == 1:
            found = {**found, "kind": "load", "cell": instructions.cell(cells[0], bad), "guessed": True}
    return {"bad": bad, "part": part, "origin": found}


def jump_facts(crash):
    """The program continued at an address without code: finds the call, and the origin of the address."""
    frame = gdb.newest_frame()
    crash.update(
        access="jump",
        bad=crash["pc"],
        part="base",
        address=crash["pc"],
        origin={"kind": "unknown", "function": "", "pc": 0, "asm": ""},
    )
    back = inside.read_word(inside.register(frame, "rsp") or 0)
    row = instructions.call_before(back) if back else None
    if row is None:
        return
    # The calling frame is missing if gdb cannot unwind from an address without code.
    if len(crash["stack"]) < 2 or crash["stack"][1]["pc"] != back:
        path = inside.module_of(back)
        sal = gdb.find_pc_line(back - 1)
        crash["stack"].insert(
            1,
            {
                "pc": back,
                "function": inside.name_at(back - 1),
                "module": path,
                "file": sal.symtab.fullname() if sal.symtab else "",
                "line": sal.line if sal.symtab else 0,
                "offset": back - inside.module_base(path),
            },
        )
    operand = instructions.split(row)[1][0].lstrip("*")
    about = flow.result("unknown", frame, row)
    about["function"] = crash["stack"][1]["function"]
    if instructions.is_register(operand):
        found = flow.in_rows(frame, instructions.before(row["addr"]), instructions.whole(operand), crash["pc"])
        if not isinstance(found, tuple):
            about = found
            about["function"] = crash["stack"][1]["function"]
    else:
        address = instructions.address_of(row, operand, frame)
        if address is not None and inside.read_word(address) == crash["pc"]:
            about.update(
                kind="load",
                cell=instructions.cell(address, crash["pc"]),
                symbol=inside.static_symbol(address),
                stack=inside.stack_part(address),
            )
    about.pop("base", None)
    crash["origin"] = about


def load(pc, is_last):
    """What the instruction at which the program has stopped is about to read, or to store into: [address, value, its
    registers], address None: nothing; is_last: also the origin of the pointer that it reads through.
    """
    inside.forget()
    frame = gdb.newest_frame()
    row = instructions.at(pc)
    mnemonic, operands = instructions.split(row)
    operand = next(filter(instructions.is_memory, operands), "")
    names = forms.factors(operand) or filter(instructions.is_register, operands)
    held = {name: inside.register(frame, name) for name in map(instructions.whole, names)}
    address = None if mnemonic.startswith("lea") else instructions.address_of(row, operand, frame)
    value = None if address is None else inside.read_word(address)
    base = flow.base_of(row, operand, frame) if is_last else None
    return [address, value, held], flow.origin(*base) if base else None


# --- a store ---------------------------------------------------------------------------------------------------------


SAME = "same"


def hit(cell, allocator, behind, before=SAME):
    """A store into a cell, in the form for analyse.py. behind: the program has stopped after the instruction; before:
    what the cell held before it; None: not known."""
    inside.forget()
    past.changed.clear()
    if behind and before != SAME:
        past.changed[cell["address"]] = (cell["size"], before)
    stack = inside.stack(behind=behind)
    store = storing.describe_store(cell, behind)
    seen = {
        "cell": cell,
        "stack": stack,
        "thread": gdb.selected_thread().num,
        "lwp": gdb.selected_thread().ptid[1],
        "calls": calls_so_far(),
        "store": store,
        "bases": store.pop("bases", []),
        "pointers": pointers(),
        "frames": inside.frame_ends(),
        "base_origin": storing.base_origin(behind),
        "returns": storing.returns(store),
        "sources": [],
        "how": "",
    }
    seen["cell_symbol"] = inside.static_symbol(cell["address"])
    seen["base_symbols"] = [inside.static_symbol(base) for base in seen["bases"]]
    in_malloc = any(frame["module"] == allocator for frame in stack[:8])
    if store.get("cell") and store["kind"] == "load":
        seen["sources"], seen["how"] = [store["cell"]["address"]], "loaded by " + store.get("from", "")
    elif in_malloc or store["kind"] == "bulk":
        guess_sources(seen, cell)
    return seen


def guess_sources(seen, cell):
    """Possible sources of a moved value, if the moving instruction does not tell. Words beside the cell that hold it
    too belong to the same copy, and memset copies from nowhere."""
    if cell["size"] != 8 or cell["value"] <= 0xFFFF or "set" in seen["stack"][0]["function"]:
        return
    beside = (
        set(range(cell["address"] - BESIDE_BYTES, cell["address"] + BESIDE_BYTES, 8))
        if seen["store"]["kind"] == "bulk"
        else {cell["address"]}
    )
    found = storing.pointed_words(gdb.newest_frame(), cell["value"], beside)
    if found:
        seen["sources"], seen["how"] = found[:3], "a register points to it"
        return
    seen["sources"] = inside.search(cell["value"], beside, 3) or []
    seen["how"] = "the only words that hold it"


def pointers():
    """Values of the registers of the first frames; among them are pointers to what the function works on."""
    values = []
    for frame in inside.frames(4):
        for value in inside.registers(frame).values():
            if value not in values:
                values.append(value)
    return values
