"""Leads from a crash to the code that caused it. Follows the bad value back with the help of a tracer (rerun.py,
reverse.py), and says what was seen. A verdict is `found` only if the store that made the value was seen and nothing
else explains the crash. If something else fits too, it is `likely`, with the alternatives.

The last store of a value is not always its origin: a copy is followed to its source. A store by the C library counts as
its caller's. A store into a block by the function that owns it is innocent if the reader's pointer is older than the
block. The fault then lies with the function that freed the memory while the reader still used it."""

import known
import verdict as verdicts
from frees import Frees
from history import count_of
from in_malloc import InMalloc
from in_program import InProgram
from judge import Judge
from launch import NotFound
from returned import Returned
from stores import Stores
from suspects import Suspects
from verdict import FOUND, LIKELY

STORES = (
    "null_stored",
    "bad_value_stored",
    "never_set",
    "overflow",
    "wild_write",
    "bad_function_pointer",
    "uninitialised",
)


class Analysis(InMalloc, InProgram, Returned, Stores, Suspects, Frees):
    def __init__(self, report, tracer, say):
        self.report, self.tracer, self.say = report, tracer, say
        self.again = tracer.again or report
        self.crash = tracer.crash
        self.judge = Judge(report, tracer.history(), tracer.symbols())
        self.hits, self.about, self.is_settled = [], {}, True
        self.is_direct = False  # the validate library, not the block's owner, says what was written
        self.is_jump = False  # the bad value was called
        self.is_guess = False  # the word that the bad value was loaded from is a guess
        self.user = self.judge.culprit(self.crash["stack"])

    def refresh(self):
        """After a run: takes its log of calls. If the log has as many calls as the previous one, keeps the previous
        one."""
        if count_of(self.tracer.calls()) != self.judge.history.count:
            self.judge = Judge(self.report, self.tracer.history(), self.tracer.symbols())

    def make(self, grade, cause, culprit, why, stack, **more):
        if culprit is None and grade != verdicts.NOT_FOUND:
            raise NotFound(f"no code of the program did it: {why}")
        more = {**self.about, "hops": max(0, len(self.hits) - 1), **more}
        if self.hits:
            more.setdefault("thread", self.hits[-1]["thread"])
        if (
            grade == FOUND
            and not self.is_direct
            and not self.judge.history.is_whole
            and (more.get("block_hit") or cause in STORES)
        ):
            grade = LIKELY
            more["alternatives"] = [(None, "an earlier free of the memory: not all calls of malloc were logged")]
        if grade == FOUND and self.is_guess and cause not in ("use_after_free", "double_free"):  # a run proves them
            grade = LIKELY
            more["alternatives"] = [
                *more.get("alternatives", []),
                (self.user, "it may have had the bad value from elsewhere"),
            ]
        if grade == FOUND and not self.is_settled and cause in ("null_stored", "bad_value_stored", "never_set"):
            grade = LIKELY
            more["alternatives"] = [
                (None, "a later store of the same value: the word was used too often to see all of them")
            ]
        return verdicts.make(grade, cause, culprit, why, stack, **more)

    def find(self):
        crash, stack = self.crash, self.crash["stack"]
        verdict = self.freed_by_two_threads()
        if verdict:
            return verdict
        if self.again.damages_program():
            return self.damaged_bytes()
        if self.judge.in_allocator(stack) and (crash["signal"] != 6 or self.again.suspect or self.again.damaged_word()):
            return self.of_suspects(self.in_malloc)
        if crash["signal"] == 6:
            return self.stopped()
        if crash["stack_overflow"]:
            rows = [
                known.of_recursion(self.judge, self.again, stack, True),
                known.of_large_frame(self.judge, self.again, stack, crash["frame_sizes"]),
            ]
            verdict = next((row for row in rows if row and row["grade"] == FOUND), rows[0] or rows[1])
            if verdict:
                return verdict
        if crash["access"] == "divisor":
            return self.divided()
        if crash["access"] == "none":
            verdict = known.of_record(self.judge, self.again)
            if verdict:
                return verdict
            raise NotFound("the instruction that crashed used no memory")
        return self.of_suspects(self.in_program)

    def stopped(self):
        """The malloc, the C library, or the program itself stopped the program."""
        verdict = known.of_abort(self.judge, self.crash["stack"])
        if (
            verdict
            and verdict["cause"] == "uncaught_exception"
            and verdict["grade"] == LIKELY
            and known.UNWINDERS & set(self.judge.prefix(self.crash["stack"]))
        ):
            return self.thrown(verdict)
        verdict = verdict or known.of_failfast(self.judge, self.again)
        if verdict:
            return verdict
        verdict = self.double_free()
        if verdict:
            return verdict
        return self.make(
            LIKELY, "bad_free", self.user, "the malloc stopped the program in a call that it made", self.crash["stack"]
        )

    def thrown(self, verdict):
        """std::terminate, after the stack was unwound up to a function that must not throw: finds the function that
        threw."""
        stack = self.tracer.thrown() if hasattr(self.tracer, "thrown") else None
        by = self.judge.culprit(stack or [])
        if by is None:
            return verdict
        name = verdict["culprit"]["function"]
        return self.make(
            FOUND,
            "uncaught_exception",
            by,
            f"it threw an exception that left {name}, which may not throw",
            stack,
            used_by=verdict["culprit"],
        )


def analyse(report, tracer, say):
    """The verdict on a crash. Raises NotFound."""
    return Analysis(report, tracer, say).find()
