"""Methods that go back in time: rr's recording of a run, and gdb's own (record full). Both end in reverse_script.py."""

import os

from history import History
from judge import Judge
from rerun import NotFound
from symbols import Symbols

# gdb records no AVX, which the C library and the dynamic linker's lazy binding use where the processor has it.
PLAIN = ("GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX,-AVX_Fast_Unaligned_Load,-ERMS,-XSAVE,-XSAVEC,-AVX512VL,"
         "-AVX2_Usable,-AVX_Usable", "LD_BIND_NOW=1")


def judged(report, log, calls):
    """The verdict on what reverse_script.py saw. Raises NotFound."""
    if "failed" in log:
        about = "gdb's recording, of one thread and not of every instruction, failed: "
        raise NotFound((about if "record" in log["failed"] else "") + log["failed"])
    if log["crash"] is None:
        raise NotFound(log["ended"])
    judge = Judge(os.path.realpath(report.library) if report.library else "", History(calls), Symbols(log["maps"]))
    if report.signal == 6:
        return {**judge.judge_stack(log["crash"]), "bad": None, "how": "", "hops": 0}
    hits = log["hits"]
    for number, hit in enumerate(hits):
        if not judge.in_allocator(hit["stack"]) or judge.ends_here(hit, log["crash"]):
            verdict = judge.judge_store(hit, log["crash"])
            return {**verdict, "bad": log["bad"], "suspect": log["word"], "how": "back from the crash", "hops": number,
                    "thread": hit["thread"]}
    raise NotFound(log["ended"] or "the last store is the malloc's own, and where it had the value from is not known")


def suspect_of(again):
    """Word and value of a record's suspect; and whether to prefer it to what the crash tells: if the malloc crashed."""
    if again is None or again.suspect is None:
        return None, False
    frame = again.frames[0] if again.frames else {"module": ""}
    in_malloc = bool(again.library) and os.path.realpath(frame["module"] or "") == os.path.realpath(again.library)
    return [again.suspect["address"], again.suspect["value"]], in_malloc


def task_of(report, again, start):
    suspect, prefer = suspect_of(again)
    return {"words": [], "bad": None, "allocator": os.path.realpath(report.library) if report.library else "",
            "expect": report.signature(), "suspect": suspect, "prefer": prefer, "start": start}


def gdb_record(report, launcher, again):
    """The method gdb: the program under `record full`. again: a record of a run at the same addresses."""
    log = launcher.run("reverse_script.py", task_of(report, again, "record"))
    return judged(report, log, launcher.calls)
