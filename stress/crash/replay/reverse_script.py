"""Run by gdb, or by gdb under rr replay, which can go back in the program's past. Answers questions, one line of JSON
each, over the socket that the task (see watch_script.py) names as "socket":

  {"do": "crash"}                    go to the crash, also from a point before it
  {"do": "store", "cell": C}         go back from here to the last store that gave the cell its value; value None: any.
                                     "same": also a store of the value that the cell already had; "below": before that
                                     many calls of malloc
  {"do": "loads", "pc": P}           go back from here through the runs of an instruction: the [address, value] that
                                     each read

The task also has "start": "" if the program has already run to its crash; "record" to start it here and record each
instruction.
"""

import json
import os
import socket
import sys

import gdb

sys.dont_write_bytecode = True  # installed, a package would leave it behind
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import inside  # noqa: E402  (gdb's Python does not know this folder before)
import instructions  # noqa: E402
import seen  # noqa: E402
import storing  # noqa: E402


STOPS_MAX = 5000
LOADS_MAX = 300
ACCESSES_MAX = 1000


class Session:
    def __init__(self, task):
        self.task, self.crash = task, None

    def go_to_crash(self):
        if self.crash is not None:
            if self.task["start"] == "record":
                gdb.execute("record goto end", to_string=True)
                return self.crash
            gdb.execute("continue", to_string=True)
        log = seen.new_log()
        seen.go_to_crash(self.task, log)
        if self.crash is None:
            self.crash = log
        elif log["crash"] is None:
            return {"failed": "the crash was not reached again: " + log["ended"]}
        return self.crash

    def store(self, cell, same, below):
        """Goes back to just before the store. None: the beginning came first. same: also to a store of the value that
        was already there, which write watchpoints do not report; it is then searched among the last ACCESSES_MAX
        accesses."""
        address, size, wanted = cell["address"], cell["size"], cell["value"]
        after = inside.read(address, size)
        if wanted is not None and after != wanted and below is None:
            return {"failed": f"{address:#x} does not hold {wanted:#x} any more"}
        watch = gdb.Breakpoint(
            f"*({inside.TYPES[size]} *){address:#x}", gdb.BP_WATCHPOINT, gdb.WP_ACCESS if same else gdb.WP_WRITE
        )
        try:
            for _ in range(ACCESSES_MAX if same else STOPS_MAX):
                text = gdb.execute("reverse-continue", to_string=True)
                if "No more reverse-execution history" in text or "Reached" in text or gdb.selected_inferior().pid == 0:
                    return None
                now, frame = inside.read(address, size), gdb.newest_frame()
                is_same = (
                    same
                    and inside.signal_number() == 0
                    and storing.is_store_to(instructions.at(frame.pc()), frame, address)
                )
                is_late = below is not None and (seen.calls_so_far() or 0) >= below
                if (now != after or is_same) and (wanted is None or after == wanted) and not is_late:
                    return seen.hit({**cell, "value": after}, self.task["allocator"], behind=False)
                after = now
            return {"unsettled": True} if same else {"failed": f"the word was written {STOPS_MAX} times"}
        finally:
            watch.delete()

    def loads(self, pc):
        """What an instruction read, in this thread: the last LOADS_MAX pairs [address, value]. Skips other stops."""
        stop = gdb.Breakpoint(f"*{pc:#x}", gdb.BP_HARDWARE_BREAKPOINT, internal=True)
        stop.thread = gdb.selected_thread().num
        rows, last, first = [], None, None
        try:
            for _ in range(LOADS_MAX):
                text = gdb.execute("reverse-continue", to_string=True)
                frame = gdb.newest_frame()
                if "No more reverse-execution history" in text or frame.pc() != pc and last == frame.pc():
                    break
                last = frame.pc()
                if last == pc:
                    row, origin = seen.load(pc, not rows)
                    first = first or origin
                    rows.insert(0, row)
            return {"rows": rows, "origin": first}
        finally:
            stop.delete()

    def answer(self, question):
        if question["do"] == "crash":
            return self.go_to_crash()
        if question["do"] == "store":
            return self.store(question["cell"], question["same"], question["below"])
        return self.loads(question["pc"])


def start():
    """Runs to main, and continues from there. When gdb goes back through its own recording, it misses watchpoints in
    debug registers."""
    gdb.execute("tbreak main", to_string=True)
    gdb.execute("run", to_string=True)
    for command in (
        "set record full insn-number-max unlimited",
        "set record full memory-query off",
        "set can-use-hw-watchpoints 0",
        "record full",
        "continue",
    ):
        gdb.execute(command, to_string=True)


def main():
    with open(os.environ["HAKMEM_REPLAY_TASK"], encoding="utf-8") as file:
        task = json.load(file)
    inside.settings()
    inside.at_signal(task["expect"]["signal"])  # under rr: the stop came before this script ran
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(task["socket"])
        stream = line.makefile("rw", encoding="utf-8", errors="surrogateescape")
        session = Session(task)
        failed = ""
        try:
            if task["start"] == "record":
                start()
        except gdb.error as error:
            failed = str(error)
        for text in stream:
            try:
                answer = {"failed": failed} if failed else session.answer(json.loads(text))
            except Exception as error:  # noqa: BLE001  (told to the caller, which decides)
                answer = {"failed": f"{type(error).__name__}: {error}"}
            stream.write(json.dumps(answer) + "\n")
            stream.flush()
    try:
        gdb.execute("kill", to_string=True)
    except gdb.error:
        pass  # it has ended
    gdb.execute("quit 0")


main()
