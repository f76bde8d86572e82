"""Run by gdb, or by gdb under rr replay, where the program's past can be entered: from the crash it goes back to the
store of the bad value, through the malloc's moves, and writes what it saw as JSON. The task (see
watch_script.py) has also:

  suspect   [word, bad value] from the record of this very run, or None: as the crash tells
  prefer    whether the suspect goes before what the crash tells
  start     "": the program has been continued to its crash; "record": start it here and record each instruction
"""

import os
import sys

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import inside  # noqa: E402  (gdb's Python does not know this folder before)
import seen  # noqa: E402

HOPS_MAX = 8
STOPS_MAX = 2000


def back_to_store(word, bad):
    """Goes back to just before the store that made a word bad. False: the beginning came first."""
    watch = gdb.Breakpoint(f"*(unsigned long *){word:#x}", gdb.BP_WATCHPOINT, gdb.WP_WRITE)
    try:
        after = inside.read_word(word)
        for _ in range(STOPS_MAX):
            text = gdb.execute("reverse-continue", to_string=True)
            if "No more reverse-execution history" in text or gdb.selected_inferior().pid == 0:
                return False
            before = inside.read_word(word)
            if after == bad and before != bad:
                return True
            after = before
        return False
    finally:
        watch.delete()


def suspects(task, crash):
    told = ([task["suspect"][0]], task["suspect"][1]) if task["suspect"] else ([], None)
    of_crash = (crash["words"], crash["bad"])
    first, second = (told, of_crash) if task["prefer"] else (of_crash, told)
    return first if first[0] else second


def start():
    """To main, and on from there. gdb misses debug registers' watchpoints on its way back through its own recording."""
    gdb.execute("tbreak main", to_string=True)
    gdb.execute("run", to_string=True)
    for command in ("set record full insn-number-max unlimited", "set record full memory-query off",
                    "set can-use-hw-watchpoints 0", "record full", "continue"):
        gdb.execute(command, to_string=True)


def run(task):
    log = seen.new_log()
    if task["start"] == "record":
        start()
    seen.go_to_crash(task, log)
    if log["crash"] is None:
        return log
    words, bad = suspects(task, log["crash"])
    log.update(bad=bad, word=words[0] if words else None)
    while words and len(log["hits"]) <= HOPS_MAX:
        word = words[0]
        if inside.read_word(word) != bad:
            log["ended"] = f"{word:#x} does not hold the bad value"
            return log
        if not back_to_store(word, bad):
            log["ended"] = f"no store of the bad value to {word:#x} was found on the way back"
            return log
        hit = seen.hit(word, bad, task["allocator"], behind=False)
        log["hits"].append(hit)
        words = hit["sources"]
    if words:
        log["ended"] = f"the value was moved more than {HOPS_MAX} times"
    elif not log["hits"]:
        log["ended"] = "the word that held the bad value is not known"
    return log


seen.main(run)
