"""For scripts that gdb runs: what is known of the program where it crashed, and where it stores a bad value."""

import json
import os

import gdb

import inside

STOPS_MAX = 32


def new_log():
    """What a script gives back: the stores that it saw, the crash, and why there is none."""
    return {"stores": 0, "hits": [], "errors": [], "loads": [], "crash": None, "ended": "", "maps": []}


def go_to_crash(task, log):
    """From the stop where the program is, on to the crash that the task expects. Other signals are the program's."""
    for _ in range(STOPS_MAX):
        if gdb.selected_inferior().pid == 0:
            log["ended"] = "the program ended without the crash"
            return
        crash = fault()
        if task["expect"] is None or all(crash.get(key) == value for key, value in task["expect"].items()):
            crash["calls"] = calls_so_far()
            log.update(crash=crash, maps=inside.maps())
            return
        log["other"] = {key: crash.get(key) for key in ("signal", "module", "offset")}
        gdb.execute("continue", to_string=True)
    log["ended"] = f"{STOPS_MAX} other stops"


def main(run):
    """Reads the task, has run(task) do it, writes its log, ends the program and gdb."""
    with open(os.environ["HAKMEM_REPLAY_TASK"], encoding="utf-8") as file:
        task = json.load(file)
    inside.settings()
    try:
        log = run(task)
    except Exception as error:  # noqa: BLE001  (told to the caller, which decides)
        log = {"failed": f"{type(error).__name__}: {error}"}
    with open(task["out"], "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(log, file)
    try:
        gdb.execute("kill", to_string=True)
    except gdb.error:
        pass  # it has ended
    gdb.execute("quit 0")


def calls_so_far():
    try:
        return int(gdb.parse_and_eval("(unsigned long)'hakmem_replay_count'"))
    except gdb.error:
        return None


def until_store(frame, behind):
    """The instructions up to and with the one that stores; behind: the program has stopped after it, else before it."""
    rows = inside.instructions_before(frame.pc())
    return [row for row in rows if row["addr"] < frame.pc()] if behind else rows


def hit(word, bad, allocator, behind):
    """A store of the bad value, as judge.py takes it."""
    inside.forget()
    stack = inside.stack(behind=behind)
    seen = {"word": word, "stack": stack, "thread": gdb.selected_thread().num, "lwp": gdb.selected_thread().ptid[1],
            "calls": calls_so_far(), "pointers": pointers(), "bases": bases(behind), "sources": [], "how": ""}
    if any(frame["module"] == allocator for frame in stack[:8]):
        seen["sources"], seen["how"] = sources(word, bad, behind)
        if not seen["sources"]:
            seen["sources"] = inside.search(bad, {word}, 3) or [] if bad > 0xffff else []
            seen["how"] = "the only words that hold it"
    return seen


def sources(word, bad, behind):
    """Where a mover may have loaded the bad value from that it stores in word, best first, and how it is known."""
    frame = gdb.newest_frame()
    rows = until_store(frame, behind)
    if rows:
        _, operands = inside.split(rows[-1])
        if len(operands) == 2 and operands[0].startswith("%"):
            row = inside.load_before(rows[:-1], operands[0])
            if row is not None:
                address = inside.operand_address(inside.split(row)[1][0], frame)
                if address not in (None, word) and inside.read_word(address) == bad:
                    return [address], f"loaded by {row['asm'].split('#')[0].strip()}"
    found = inside.pointed_words(frame, bad, {word})
    if found:
        return found[:3], "a register points to it"
    return [], ""


def bases(behind):
    """The pointers that the store went by: the base of its operand; in the C library, where memcpy and its kin keep
    the destination that they were given."""
    frame = gdb.newest_frame()
    if "/libc" in inside.module_of(frame.pc()):
        return [inside.register(frame, name) for name in ("rax", "rdi")]
    rows = until_store(frame, behind)
    match = inside.OPERAND.search(rows[-1]["asm"]) if rows else None
    if not match or not match[3] or match[3] == "%rip":
        return []
    return [inside.register(frame, match[3][1:])]


def pointers():
    """Values of the registers of the first frames: among them are pointers to what the function works on."""
    values, frame = [], gdb.newest_frame()
    for _ in range(4):
        if frame is None:
            break
        for value in inside.registers(frame).values():
            if value not in values:
                values.append(value)
        frame = frame.older()
    return values


def signal_number():
    """The signal at which the program has stopped; 0: at none."""
    try:
        return int(gdb.parse_and_eval("$_siginfo.si_signo"))
    except gdb.error:
        return 0


def fault():
    """Signal, where it stopped, and, where an instruction used a bad address, which register held it."""
    inside.forget()
    frame = gdb.newest_frame()
    stack = inside.stack()
    crash = {"signal": signal_number(), "thread": gdb.selected_thread().num, "stack": stack, "bad": None, "words": [],
             "how": "", "load": None, "registers": inside.registers(frame), "instruction": ""}
    crash.update({key: stack[0][key] for key in ("pc", "module", "offset")} if stack else {})
    try:
        row = frame.architecture().disassemble(frame.pc())[0]
    except gdb.error:
        return crash  # a jump to nowhere
    crash["instruction"] = row["asm"].split("#")[0].strip()
    if crash["signal"] != 6:
        bad_register(crash, frame, row)
    return crash


def bad_register(crash, frame, row):
    """The register of the faulting instruction that makes its address bad, and the word that it was loaded from."""
    match = inside.OPERAND.search(row["asm"])
    if not match:
        return
    names = [name for name in (match[3], match[4]) if name and name not in ("%rip", "%rsp")]
    values = {name: inside.register(frame, name[1:]) for name in names}
    name = next((name for name in names if inside.read_word(values[name] or 0) is None), None)
    if name is None:
        return
    bad = crash["bad"] = values[name]
    crash["register"] = name[1:]
    while frame is not None and not crash["words"] and crash["load"] is None:
        frame.select()
        rows = [one for one in inside.instructions_before(frame.pc()) if one["addr"] < frame.pc()]
        load = inside.load_before(rows, name) or inside.load_behind(frame.pc(), name)
        if load is not None:
            address = inside.operand_address(inside.split(load)[1][0], frame)
            if address is not None and inside.read_word(address) == bad:
                crash["words"], crash["how"] = [address], "the bad pointer was loaded from it: " + load["asm"].strip()
            else:
                crash["load"] = load["addr"]
        if frame.level() >= 3:
            break
        frame = frame.older()
    if not crash["words"] and crash["load"] is None and bad > 0xffff:
        crash["words"] = inside.search(bad, set(), 3) or []
        crash["how"] = "it holds the bad pointer, and few words do"
