"""What a crash record shows by itself, before anything runs: a find of a check or of a sampled block, a program that
stopped itself, and other crashes that their own stack explains."""

import re
import subprocess
from collections import Counter

import verdict as verdicts
from judge import GENERATED
from report import number, rows_of
from verdict import FOUND, LIKELY

ASSERTIONS = {"__assert_fail", "__assert_fail_base", "__assert_perror_fail", "__assert", "g_assertion_message_expr"}
TERMINATORS = {
    "std::terminate",
    "__cxxabiv1::__terminate",
    "__cxa_call_terminate",
    "_ZSt9terminatev",
    "__cxa_throw",
    "__gnu_cxx::__verbose_terminate_handler",
    "__cxa_rethrow",
    "std::__terminate",
}
SENDERS = {
    "raise",
    "gsignal",
    "kill",
    "pthread_kill",
    "__pthread_kill",
    "__pthread_kill_implementation",
    "__pthread_kill_internal",
    "tgkill",
    "sigqueue",
    "pthread_sigqueue",
    "abort",
    "__GI_abort",
    "__GI_raise",
}
UNWINDERS = {
    "__cxa_call_terminate",
    "__clang_call_terminate",
    "__gxx_personality_v0",
    "_Unwind_RaiseException",
    "_Unwind_Resume",
}  # an exception is being thrown: this is not another caller of std::terminate
RECURSION_MIN = 12  # frames of one function among the first frames
NEAR_STACK_BYTES = 1 << 16
RED_ZONE_BYTES = 256
PAGE_BYTES = 4096
NO_ACCESS = 2  # SEGV_ACCERR: mapped, like the page at the end of a stack
LARGE_FRAME_BYTES = 1 << 16
FAILED_FREES = {
    "interior_pointer",
    "misaligned_pointer",
    "stack_pointer",
    "static_pointer",
    "unmapped_pointer",
    "foreign_pointer",
    "never_returned",
    "mismatched_delete",
    "wrong_size",
    "wrong_aligned_size",
    "wrong_alignment",
}
SIZE_CHECK = re.compile(r"__(mem|str|stp|wcs|wmem|read|recv|fgets|gets|getcwd)\w*_chk")  # neither longjmp nor printf
DIVIDES = 1  # FPE_INTDIV


def frames_of(event):
    """Rows for the frames of an allocation or a free in the record."""
    return [row for frame in (event or {}).get("frames", []) for row in rows_of(frame)]


def block_of(judge, start, size_bytes, address, state, allocated, freed):
    if not start:
        return None
    return {
        "start": start,
        "bytes": size_bytes,
        "usable_bytes": size_bytes,
        "offset": address - start,
        "state": state,
        "allocated_by": judge.culprit(frames_of(allocated)),
        "freed_by": judge.culprit(frames_of(freed)),
    }


def of_guard(judge, report):
    """A sampled block's find."""
    for guard in report.guards:
        start, address = number(guard["block_start"]), number(guard["address"])
        stack, by, freed = report.stack(), judge.culprit(report.stack()), frames_of(guard["freed"])
        state = "live" if guard["state"] == "live" else "free"
        block = block_of(judge, start, guard["block_bytes"], address, state, guard["allocated"], guard["freed"])
        more = {"word": address, "block_hit": block, "how": "a sampled block's find"}
        if guard["finding"] == "use_after" and judge.culprit(freed):
            return verdicts.make(
                FOUND,
                "use_after_free",
                judge.culprit(freed),
                "it freed a block that was used afterwards",
                freed,
                used_by=by,
                **more,
            )
        if guard["finding"] in ("past_end", "before") and by:
            where = "past the end of" if guard["finding"] == "past_end" else "before"
            return verdicts.make(FOUND, "overflow", by, f"it read or wrote {where} its block", stack, **more)
        if guard["finding"] == "freed_twice" and by:
            return verdicts.make(
                FOUND,
                "double_free",
                by,
                "it freed a block that had been freed",
                stack,
                alternatives=first_free(judge.culprit(freed)),
                **more,
            )
        if guard["finding"] == "freed_inside" and by:
            return verdicts.make(FOUND, "bad_free", by, "it freed a pointer that is no block's start", stack, **more)
    return None


def first_free(frame):
    return [(frame, "it freed the block first: too early, if the other free is right")] if frame else []


def of_failfast(judge, report):
    """A check of the validate library that names the bad call. A check that names bad bytes still needs their
    writer."""
    find = report.failfast
    by = judge.culprit(report.stack())
    if find is None or by is None or report.damages_program():
        return None
    kind, address = find["kind"], number(find["address"])
    block = block_of(
        judge,
        number(find["block_start"]),
        find["block_bytes"],
        address,
        "live" if find["state"] == "live" else "free",
        find["allocated"],
        find["freed"],
    )
    more = {"word": address, "block_hit": block, "how": "the validate library's check"}
    if kind in ("double_free", "realloc_freed"):
        first = judge.culprit(frames_of(find["freed"]))
        why = (
            "it freed a block that had been freed"
            if kind == "double_free"
            else "it resized a block that had been freed"
        )
        return verdicts.make(FOUND, "double_free", by, why, report.stack(), alternatives=first_free(first), **more)
    if kind in FAILED_FREES:
        return verdicts.make(
            FOUND,
            "bad_free",
            by,
            "the malloc stopped the program in a call that it made: " + find["text"],
            report.stack(),
            **more,
        )
    if kind == "size_overflow":
        return verdicts.make(FOUND, "bad_size", by, find["text"], report.stack(), **more)
    return None


def of_abort(judge, stack):
    """A program that stopped itself; None: the malloc stopped it, or it is not known."""
    by, names = judge.culprit(stack), {name.removeprefix("__GI_") for name in judge.prefix(stack)}
    if judge.in_allocator(stack):
        return None
    if by is None:
        return None
    # Checks of the C++ library are in headers, so they are the program's. Checks of the C library concern data that
    # others may have damaged.
    called = next(
        (name.removeprefix("__GI_") for name in reversed(judge.prefix(stack)) if not name.startswith(GENERATED)), ""
    )
    if called in ASSERTIONS:
        return verdicts.make(FOUND, "assertion", by, "its assertion failed", stack)
    if names & ASSERTIONS:
        return verdicts.make(
            LIKELY,
            "assertion",
            by,
            f"an assertion failed in {called}, which it called",
            stack,
            alternatives=[(None, f"a write to the data that {called} checked")],
        )
    if "__cxa_pure_virtual" in names:
        return verdicts.make(FOUND, "abort", by, "it called a pure virtual function", stack)
    if names & TERMINATORS:
        if "__cxa_throw" in names:
            return verdicts.make(FOUND, "uncaught_exception", by, "it threw an exception that nobody caught", stack)
        return verdicts.make(
            LIKELY,
            "uncaught_exception",
            by,
            "std::terminate: an exception left a function that may not " "throw, or a thread was not joined",
            stack,
            alternatives=[(None, "who threw the exception")],
        )
    if "__stack_chk_fail" in names:
        return verdicts.make(
            LIKELY, "stack_smashed", by, "a buffer on its stack was overrun: by it, or by what it called", stack
        )
    if names & {"__fortify_fail", "__chk_fail"} and any(SIZE_CHECK.fullmatch(name) for name in names):
        return verdicts.make(FOUND, "overflow", by, "the C library's check of its buffer's size failed", stack)
    if names & {"__fortify_fail", "__chk_fail"}:
        return verdicts.make(
            LIKELY,
            "overflow",
            by,
            "a check of the C library failed: of a buffer's size, a format with %n, or " "longjmp",
            stack,
        )
    if called == "abort":
        return verdicts.make(FOUND, "abort", by, "it called abort", stack)
    if "abort" in names:
        return verdicts.make(
            LIKELY,
            "abort",
            by,
            f"abort was called in {called}, which it called",
            stack,
            alternatives=[(None, f"a write to the data that {called} checked")],
        )
    return None


def of_sent(judge, report, stack):
    """A signal that was sent, not caused by a fault."""
    if report.code > 0 or report.code in (-6,) and report.signal == 6 and judge.in_allocator(stack):
        return None
    by, names = judge.culprit(stack), set(judge.prefix(stack))
    if by is not None and names & SENDERS:
        return verdicts.make(FOUND, "killed", by, f"it sent {report.signal_name()} itself", stack)
    if judge.in_allocator(stack):
        return None
    if names & SENDERS:
        why = f"{report.signal_name()} was sent from inside of the program, and the stack does not show by whom"
        others = [(None, "a write over the stack")]
        return verdicts.make(LIKELY, "killed", None, why, stack, alternatives=others)
    sender = f" by process {report.sender}" if report.sender else ""
    return verdicts.make(
        FOUND,
        "killed",
        None,
        f"{report.signal_name()} was sent{sender}; no instruction of the program " "faulted",
        stack,
    )


def is_trap(frame):
    """Whether a frame's instruction is one that compilers emit where the program must stop."""
    begin = frame["offset"]
    try:
        done = subprocess.run(
            ["objdump", "-d", f"--start-address={begin:#x}", f"--stop-address={begin + 2:#x}", frame["module"]],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return bool(re.search(rf"^ *{begin:x}:.*\t(ud2|ud1|udf|brk)\b", done.stdout, re.MULTILINE))


def of_recursion(judge, report, stack, is_certain=False):
    """A stack overflow. is_certain: the stack pointer is known to be outside of the stack."""
    pointer = report.registers.get("rsp") or report.registers.get("sp")
    near = report.fault is not None and pointer is not None and abs(report.fault - pointer) < NEAR_STACK_BYTES
    # An address above the stack pointer, beyond its page, may also be the other end of the stack.
    is_end = near and pointer - PAGE_BYTES <= report.fault <= pointer | PAGE_BYTES - 1
    own = [frame for frame in stack if frame["module"].startswith("/") and not judge.is_foreign(frame)]
    counts = Counter((frame["module"], frame["function"] or frame["offset"]) for frame in own)
    often = {key for key, count in counts.items() if count >= RECURSION_MIN}
    by = next((frame for frame in own if (frame["module"], frame["function"] or frame["offset"]) in often), None)
    if by is not None and (is_end or is_certain):
        return verdicts.make(
            FOUND, "stack_overflow", by, "it calls itself, perhaps through others, until the stack is full", stack
        )
    if own and near and report.code == NO_ACCESS and report.fault > pointer:
        return verdicts.make(
            FOUND,
            "stack_overflow",
            own[0],
            "its variables reach over the page that ends the stack, and lie " "below it",
            stack,
        )
    if own and near and -RED_ZONE_BYTES <= report.fault - pointer < RED_ZONE_BYTES:
        return verdicts.make(
            LIKELY,
            "stack_overflow",
            own[0],
            "its own variables, or a call that it made, are beyond the end " "of the stack",
            stack,
            alternatives=[(None, "a caller that left too little of the stack")],
        )
    return None


def of_large_frame(judge, report, stack, sizes):
    """A function whose variables do not fit into the rest of the stack. sizes: of the first frames, in bytes."""
    large = [number for number, size in enumerate(sizes) if size >= LARGE_FRAME_BYTES]
    by = judge.culprit(stack[large[0] :]) if large else None
    if by is not None:
        return verdicts.make(
            FOUND,
            "stack_overflow",
            by,
            f"its variables take {sizes[large[0]]} bytes, more than was left of " "the thread's stack",
            stack,
        )
    by = judge.culprit(stack)
    return by and verdicts.make(LIKELY, "stack_overflow", by, "the stack is full", stack)


def of_record(judge, report):
    """The verdict that needs no run, or None."""
    stack = report.stack()
    found = of_guard(judge, report) or of_failfast(judge, report)
    if found or not stack:
        return found
    if report.signal == 6:
        return of_abort(judge, stack) or (None if report.failfast else of_sent(judge, report, stack))
    if report.code <= 0:
        return of_sent(judge, report, stack)
    by = judge.culprit(stack)
    if report.signal == 8 and by:
        if report.code == DIVIDES:
            return verdicts.make(
                LIKELY,
                "division_by_zero",
                by,
                "it divided an integer by zero, or the smallest integer by -1",
                stack,
                alternatives=[(None, "the function that stored the divisor")],
            )
        return verdicts.make(FOUND, "trap", by, "its arithmetic trapped", stack)
    if report.signal == 4 and by and stack[0]["module"]:
        if is_trap(stack[0]):
            return verdicts.make(FOUND, "trap", by, "it ran into an instruction that stops the program", stack)
        return verdicts.make(
            LIKELY,
            "trap",
            by,
            "the processor does not know its instruction",
            stack,
            alternatives=[(None, "a jump through a bad pointer to where no instruction begins")],
        )
    return of_recursion(judge, report, stack)


def lines(report):
    """What the record shows, printed for the user at once."""
    said = []
    for guard in report.guards:
        said.append(
            f"a sampled block's find: {guard['text']}: {guard['offset']:+d} from the start of a block of "
            f"{guard['block_bytes']} bytes, {guard['state']}"
        )
        for what in ("allocated", "freed"):
            rows = frames_of(guard[what])
            if rows:
                said.append(
                    f"  {what} by thread {guard[what]['thread']} in "
                    + " < ".join(verdicts.place(row) for row in rows[:3])
                )
    if report.failfast:
        find = report.failfast
        said.append(
            f"a failed check: {find['kind']}: {find['text']}: a block of {find['block_bytes']} bytes at "
            f"{find['block_start']}, {find['state']}"
        )
        for what in ("allocated", "freed"):
            rows = frames_of(find[what])
            if rows:
                said.append(f"  {what} in " + " < ".join(verdicts.place(row) for row in rows[:3]))
    for place in report.data["places"]:
        if place["of"] == "fault" and place["kind"] != "none":
            said.append(
                f"the fault's address is in {place['kind']}: a block of {place['block_bytes']} bytes, "
                f"{place['state']}, at byte {place['offset']}"
            )
    if report.suspect:
        said.append(
            f"a free list's link at {report.suspect['address']:#x} holds {report.suspect['value']:#x}: "
            f"{report.suspect['text']}"
        )
    if report.fault is not None and not report.guards:
        inside = next(
            (
                module
                for module in report.data["modules"]
                if number(module["start"]) <= report.fault < number(module["end"])
            ),
            None,
        )
        if inside:
            said.append(
                f"the fault's address {report.fault:#x} is in {inside['path']}+"
                f"{report.fault - number(inside['base']):#x}"
            )
    return said
