"""Run by gdb (-x): starts the program of a task, watches words of its memory with the processor's debug registers, and
writes what it saw, up to the crash, as JSON. The task is the JSON file that HAKMEM_REPLAY_TASK names:

  words      addresses to watch, at most 4
  bad        the value that is looked for; a store of another one is only counted
  expect     of the crash: signal, module, offset; another stop is passed to the program. None: the first stop is it
  load       address of an instruction: note what it reads, the last ones
  go_on      let the program's own handler run afterwards, which writes a new record
  allocator  path of the module that holds the malloc
  out        where the result goes
"""

import os
import sys

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import inside  # noqa: E402  (gdb's Python does not know this folder before)
import seen  # noqa: E402

HITS_KEPT = 64
LOADS_KEPT = 1000


class Watch(gdb.Breakpoint):
    """A write watchpoint: gdb calls stop() when the word has changed."""

    def __init__(self, word, log, bad, allocator):
        super().__init__(f"*(unsigned long *){word:#x}", gdb.BP_WATCHPOINT, gdb.WP_WRITE)
        self.word, self.log, self.bad, self.allocator = word, log, bad, allocator
        self.bad_stores = 0

    def stop(self):
        try:
            self.note()
        except Exception as error:  # noqa: BLE001  (gdb would print it and stop the program)
            self.log["errors"].append(repr(error))
        return False

    def note(self):
        self.log["stores"] += 1
        if inside.read_word(self.word) != self.bad:
            return
        self.bad_stores += 1
        hit = seen.hit(self.word, self.bad, self.allocator, behind=True)
        hit.update(order=self.log["stores"], number=self.bad_stores)
        self.log["hits"].append(hit)
        del self.log["hits"][:-HITS_KEPT]


class Load(gdb.Breakpoint):
    """Stands at an instruction and keeps what it is about to read: thread, address, value."""

    def __init__(self, pc, log):
        # By a debug register: an ordinary breakpoint cannot stand where nothing is mapped yet.
        super().__init__(f"*{pc:#x}", gdb.BP_HARDWARE_BREAKPOINT)
        self.log = log

    def stop(self):
        frame = gdb.newest_frame()
        row = frame.architecture().disassemble(frame.pc())[0]
        address = inside.operand_address(inside.split(row)[1][0], frame)
        value = None if address is None else inside.read_word(address)
        self.log["loads"].append([gdb.selected_thread().num, address, value])
        del self.log["loads"][:-LOADS_KEPT]
        return False


def run(task):
    log = seen.new_log()
    watches = [Watch(word, log, task["bad"], task["allocator"]) for word in task["words"]]
    if task.get("load"):
        gdb.execute("starti", to_string=True)  # gdb asks the process whether it has debug registers
        Load(task["load"], log)
        gdb.execute("continue", to_string=True)
    else:
        gdb.execute("run", to_string=True)
    seen.go_to_crash(task, log)
    if log["crash"] is None:
        return log
    for watch in watches:
        watch.delete()
    if task["go_on"]:
        gdb.execute("continue", to_string=True)
    return log


seen.main(run)
