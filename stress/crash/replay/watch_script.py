"""Run by gdb (-x): starts the program of a task, watches cells of its memory (see flow.py) with the processor's debug
registers, and writes what it saw up to the crash as JSON. The task is the JSON file that HAKMEM_REPLAY_TASK names:

  cells      the cells to watch, at most 4; value None: any
  detail     [cell, number] of the stores whose facts are wanted, counted from 1; None: the first ones
  expect     the crash: signal, module, offset; other stops are passed to the program. None: the first stop is the crash
  fault      the address of the fault, or None
  read       addresses of words to read at the crash
  find       a value: which words hold it at the crash
  load       address of an instruction: note its last reads
  settle     [cell, number] of a store: after it, keep every store of the value to the first cell; None: keep none
  until      [cell, number] of the store at which this ends, or None
  below      or the number of calls of malloc at which this ends
  load_detail   number of the stop at `load` for which the pointer's origin is wanted, or None
  passes     addresses of instructions, at most 3 beside cells: note which of them each thread ran last
  pass_until [address, number]: the run of one of them at which stores of the first cell no longer count
  pass_detail  [address, number] of the run of one of them for which the origin of %rax is wanted
  prefer     instructions that are known to have set a register (flow.preferred)
  throws     whether to keep the stack of the last exception that was thrown
  unmaps     an address: note which calls took its memory away after it was mapped
  follow     "parent" or "child": which process to follow when the program forks; a number: only the child of that fork
  go_on      let the program's own handler run afterwards, which writes a new record
  allocator  path of the module that holds the malloc
  out        where the result goes
"""

import json
import os
import sys

import gdb

sys.dont_write_bytecode = True  # installed, a package would leave it behind
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import inside  # noqa: E402  (gdb's Python does not know this folder before)
import flow  # noqa: E402
import instructions  # noqa: E402
import seen  # noqa: E402
import storing  # noqa: E402

FIRST_HITS = 12  # for a cell; facts of later hits are asked for by number
STORES_MAX = 200000
LOADS_KEPT = 1000
ACCESSES_MAX = 3000
CALLS_MAX = 100000  # system calls that are looked at


class Watch(gdb.Breakpoint):
    """A write watchpoint: gdb calls stop() when the cell has changed."""

    def __init__(self, index, task, log):
        cell = task["cells"][index]
        super().__init__(f"*({inside.TYPES[cell['size']]} *){cell['address']:#x}", gdb.BP_WATCHPOINT, gdb.WP_WRITE)
        self.index, self.cell, self.wanted, self.log, self.count, self.last = index, cell, task, log, 0, None
        self.is_held = True  # whether it still has the value, as far as stores tell
        self.siblings = []

    def stop(self):
        self.noted()
        look_at(self.siblings)
        return len(self.log["stores"]) >= STORES_MAX or self.log["settled"] and not self.log["settling"]

    def noted(self):
        try:
            self.note()
        except Exception as error:  # noqa: BLE001  (gdb would print it and stop the program)
            self.log["errors"].append(repr(error))

    def note(self):
        value, before = inside.read(self.cell["address"], self.cell["size"]), self.last
        if value is not None and value == before:
            return  # look_at has noted this value, and gdb tells of it only now
        self.last = value
        if self.cell["value"] is not None and value != self.cell["value"]:
            if self.is_held:
                self.log["stores"].append([self.index, None, seen.calls_so_far() or 0])
            self.is_held = False
            return
        self.is_held = True
        self.count += 1
        self.log["stores"].append([self.index, self.count, seen.calls_so_far() or 0])
        if [self.index, self.count] == self.wanted["until"]:
            self.log["closed"] = True
        if [self.index, self.count] == self.wanted["settle"]:
            self.log["settled"] = True  # gdb may have told of the store into the other cell
        detail = self.wanted["detail"]
        if self.count <= FIRST_HITS if detail is None else [self.index, self.count] in detail:
            hit = seen.hit({**self.cell, "value": value}, self.wanted["allocator"], True, before)
            hit.update(index=self.index, number=self.count, passed=self.log["passed"].get(hit["thread"]))
            self.log["hits"].append(hit)


def look_at(watches):
    """gdb tells of one watchpoint at a stop, even if the instruction stored into two cells. Notes the others."""
    for watch in watches:
        if watch.last not in (None, inside.read(watch.cell["address"], watch.cell["size"])):
            watch.noted()


class Access(gdb.Breakpoint):
    """Stops at each access to a cell. A store of the value that the cell already has changes nothing, so write
    watchpoints do not report it."""

    def __init__(self, task, log):
        self.cell, self.wanted, self.log, self.count = task["cells"][0], task, log, 0
        super().__init__(
            f"*({inside.TYPES[self.cell['size']]} *){self.cell['address']:#x}", gdb.BP_WATCHPOINT, gdb.WP_ACCESS
        )

    def stop(self):
        self.count += 1
        below = self.wanted["below"]
        if self.log["closed"] or below is not None and (seen.calls_so_far() or 0) >= below:
            return False
        try:
            frame = gdb.newest_frame()
            rows = instructions.before(frame.pc())
            if (
                storing.is_store_to(rows[-1] if rows else None, frame, self.cell["address"])
                and inside.read(self.cell["address"], self.cell["size"]) == self.cell["value"]
            ):
                hit = seen.hit(self.cell, self.wanted["allocator"], behind=True)
                self.log["restores"].append({**hit, "passed": self.log["passed"].get(hit["thread"])})
                del self.log["restores"][:-4]
        except Exception as error:  # noqa: BLE001  (gdb would print it and stop the program)
            self.log["errors"].append(repr(error))
        if self.count == ACCESSES_MAX:
            self.log["unsettled"] = True
            self.enabled = False
        return False


class Load(gdb.Breakpoint):
    """Stops at an instruction and keeps what it is about to read: thread, address, value, registers; for one stop, given
    by number, also the origin of its pointer."""

    def __init__(self, pc, task, log):
        # Uses a debug register: an ordinary breakpoint cannot be set where nothing is mapped yet.
        super().__init__(f"*{pc:#x}", gdb.BP_HARDWARE_BREAKPOINT)
        self.log, self.detail, self.fault, self.count = (log, task["load_detail"], task["fault"], 0)

    def stop(self):
        self.count += 1
        row, origin = seen.load(gdb.newest_frame().pc(), self.count == self.detail)
        if row[0] is not None and (
            row[1] is None or row[0] == self.fault
        ):  # the debugger can also read memory without access
            self.enabled = False  # as in Pass
            return True
        if origin:
            self.log["load_origin"] = origin
        self.log["loads"].append([gdb.selected_thread().num, self.count, *row])
        del self.log["loads"][:-LOADS_KEPT]
        return False


class Pass(gdb.Breakpoint):
    """Notes each run of an instruction: which one its thread ran last, and what it was about to read."""

    def __init__(self, pc, task, log):
        super().__init__(f"*{pc:#x}", gdb.BP_HARDWARE_BREAKPOINT)
        self.pc, self.wanted, self.log, self.count = pc, task, log, 0

    def stop(self):
        self.count += 1
        frame, thread = gdb.newest_frame(), gdb.selected_thread().num
        row = instructions.at(self.pc)
        operands = instructions.split(row)[1] if row else []
        read = None
        if len(operands) == 2 and instructions.is_memory(operands[0]) and row["asm"].startswith("mov"):
            address = instructions.address_of(row, operands[0], frame)
            read = None if address is None else [address, inside.read_word(address)]
            if read and read[1] is None:
                self.enabled = False  # it is about to crash, which gdb does not report if it continues from here
                return True
        if self.wanted["pass_until"] == [self.pc, self.count]:
            self.log["stores"].append([1, self.count, seen.calls_so_far() or 0])
            self.log.update(closed=True, passed_until=self.log["passed"].get(thread))
        self.log["passed"][thread] = {
            "pc": self.pc,
            "number": self.count,
            "read": read,
            "rax": inside.register(frame, "rax"),
        }
        if self.wanted["pass_detail"] == [self.pc, self.count]:
            inside.forget()
            found = flow.origin("rax", inside.register(frame, "rax"))
            seen.base_facts(found)
            self.log["pass_origin"] = {
                "origin": found,
                "returns": storing.returns(found),
                "stack": inside.stack(),
                "calls": seen.calls_so_far(),
                "frames": inside.frame_ends(),
                "thread": thread,
                "lwp": gdb.selected_thread().ptid[1],
            }
        return False


class Throw(gdb.Breakpoint):
    """Keeps the stack of the last exception that each thread threw."""

    def __init__(self, log):
        super().__init__("__cxa_throw")
        self.log = log

    def stop(self):
        inside.forget()
        self.log["thrown"][gdb.selected_thread().num] = inside.stack()
        return False


def run_and_note_calls(task, log):
    """Runs the program with a stop at each call that can take memory away; notes those that take the address away."""
    gdb.execute("catch syscall mmap munmap mprotect mremap ftruncate", to_string=True)
    gdb.execute("run", to_string=True)
    for _ in range(CALLS_MAX):
        if gdb.selected_inferior().pid == 0 or inside.signal_number() != 0:
            return
        frame = gdb.newest_frame()
        number, first, second = (inside.register(frame, name) for name in ("orig_rax", "rdi", "rsi"))
        is_entry = inside.register(frame, "rax") == inside.WORD - 37  # -ENOSYS until the call is done
        result = inside.register(frame, "rax")
        if number == 9 and not is_entry and result <= task["unmaps"] < result + second:
            log["unmaps"].clear()  # there is memory again
        if number != 9 and is_entry and (number == 77 or first <= task["unmaps"] < first + second):
            inside.forget()
            log["unmaps"].append(
                {
                    "start": 0 if number == 77 else first,
                    "call": {11: "munmap", 10: "mprotect", 25: "mremap", 77: "ftruncate"}.get(number, "?"),
                    "stack": inside.stack(),
                    "calls": seen.calls_so_far(),
                }
            )
            del log["unmaps"][:-16]
        gdb.execute("continue", to_string=True)


class Fork(gdb.Breakpoint):
    """Stops at the C library's fork, and follows the child of one of its calls."""

    def __init__(self, number):
        super().__init__("fork")
        self.calls_left = number

    def stop(self):
        self.calls_left -= 1
        gdb.execute("set follow-fork-mode " + ("child" if self.calls_left == 0 else "parent"), to_string=True)
        return False


def follow(who):
    gdb.execute("set breakpoint pending on", to_string=True)
    if who.isdigit():
        Fork(int(who))
        who = "parent"
    gdb.execute("set follow-fork-mode " + who, to_string=True)


def settle(task, log, watches, begin):
    """From a given store on (number 0: from the start), stops at every access to the first cell."""
    if task["settle"][1] == 0:
        log["settling"] = True
        watches.append(Access(task, log))
        gdb.execute(begin, to_string=True)
        return
    gdb.execute(begin, to_string=True)
    if inside.signal_number() != 0 or gdb.selected_inferior().pid == 0:
        log["unsettled"] = True
        return
    log["settling"] = True
    watches.append(Access(task, log))
    gdb.execute("continue", to_string=True)


def run(task):
    log = seen.new_log()
    log.update(settled=False, settling=False, closed=False, restores=[], unsettled=False, thrown={}, passed={})
    flow.preferred.update(task["prefer"])
    follow(task["follow"])
    if task["throws"]:
        Throw(log)
    watches = [Watch(index, task, log) for index in range(len(task["cells"]))]
    for watch in watches:
        watch.siblings = [other for other in watches if other is not watch]
    begin = "run"
    if task["passes"]:
        gdb.execute("starti", to_string=True)
        begin = "continue"
        for pc in task["passes"]:
            Pass(pc, task, log)
    if task["load"]:
        gdb.execute("starti", to_string=True)  # gdb asks the process whether it has debug registers
        Load(task["load"], task, log)
        gdb.execute("continue", to_string=True)
    elif task["settle"]:
        settle(task, log, watches, begin)
    elif task["unmaps"] is not None:
        run_and_note_calls(task, log)
    else:
        gdb.execute(begin, to_string=True)
    if len(log["stores"]) >= STORES_MAX:
        return {"failed": f"the word was written {STORES_MAX} times"}
    seen.go_to_crash(task, log)
    if log["crash"] is None:
        return log
    log["crash"]["passed"] = log["passed"].get(log["crash"]["thread"])
    for watch in watches:
        watch.delete()
    if task["go_on"]:
        gdb.execute("continue", to_string=True)
    return log


def main():
    with open(os.environ["HAKMEM_REPLAY_TASK"], encoding="utf-8") as file:
        task = json.load(file)
    inside.settings()
    try:
        log = run(task)
    except Exception as error:  # noqa: BLE001  (told to the caller, which decides)
        log = {"failed": f"{type(error).__name__}: {error}"}
    with open(task["out"] + ".part", "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(log, file)
    os.rename(task["out"] + ".part", task["out"])
    try:
        gdb.execute("kill", to_string=True)
    except gdb.error:
        pass  # it has ended
    gdb.execute("quit 0")


main()
