"""The result of ci/replay: a verdict as a dictionary, as lines for people, or as JSON.

A verdict's grade:

  found      the fault was seen, and nothing else explains the crash
  likely     what was seen fits, but alternatives fit too
  not found  the text says what is known

`cause` is a word for programs (see CAUSES); `culprit` is the frame to look at first, or None if no line of the program
is at fault; `why` is a sentence for people."""

import json
import os
import shlex

STACK_SHOWN = 12
FOUND, LIKELY, NOT_FOUND = "found", "likely", "not found"
STATUS = {FOUND: 0, LIKELY: 3, NOT_FOUND: 1}

CAUSES = {
    "overflow": "a write past the end, or before the start, of a block or variable",
    "use_after_free": "a block was used after it was freed",
    "use_after_return": "a local variable was used after its function had returned",
    "double_free": "a block was freed twice",
    "bad_free": "free, or a related call, of a pointer that malloc did not return",
    "bad_size": "an allocation of a size that no block can have",
    "wild_write": "a write to memory that is not the writer's",
    "wild_read": "an access to an address that the program made up",
    "out_of_range": "an index or offset led outside of mapped memory",
    "null_stored": "the program stored the NULL that it used later",
    "bad_value_stored": "the program stored the bad pointer that it used later",
    "never_set": "a variable was used that nothing had set",
    "uninitialised": "memory was used that nobody had written since its allocation",
    "null_returned": "a function returned NULL, and its result was used",
    "bad_value_returned": "a function returned a bad pointer, and its result was used",
    "bad_function_pointer": "a call of a function through a bad pointer",
    "unmapped": "memory was used after the program gave it back to the system",
    "assertion": "the program's own assertion failed",
    "abort": "the program called abort",
    "uncaught_exception": "an exception that nobody caught, or std::terminate",
    "stack_overflow": "a thread used more stack than it has",
    "stack_smashed": "a function's buffer on the stack was overrun",
    "division_by_zero": "an integer was divided by zero",
    "trap": "an instruction that stops the program on purpose",
    "killed": "the signal was sent, by kill or raise",
}


def make(grade, cause, culprit, why, stack, **more):
    """A verdict; more: any of the keys below."""
    verdict = {
        "grade": grade,
        "cause": cause,
        "culprit": culprit,
        "why": why,
        "stack": stack,
        "word": None,
        "bad": None,
        "suspect": None,
        "how": "",
        "hops": 0,
        "block_hit": None,
        "block_owned": None,
        "store": None,
        "used_by": None,
        "alternatives": [],
        "thread": None,
        "other_stack": [],
    }
    verdict.update(more)
    return verdict


def short(path):
    """A path relative to the current folder, if it is below that."""
    return os.path.relpath(path) if path.startswith(os.getcwd() + os.sep) else path


def place(frame):
    """function file:line, or as much of it as is known."""
    if frame is None:
        return "?"
    module = f"{os.path.basename(frame['module'])}+{frame['offset']:#x}" if frame["module"] else f"{frame['pc']:#x}"
    where = f"{short(frame['file'])}:{frame['line']}" if frame["file"] else module
    return f"{frame['function'] or '?'} {where}"


def block_line(block):
    line = f"{block['start']:#x}, {block['bytes']} bytes, {block['state']}; the word is at byte {block['offset']}"
    line += f"\n  allocated by {place(block['allocated_by'])}"
    return line + (f"\n  freed by {place(block['freed_by'])}" if block["freed_by"] else "")


def text(result):
    verdict = result.get("verdict")
    if verdict is None:
        known = "".join(f"known: {line}\n" for line in result["known"])
        return f"not found: {result['why']}\n{known}method: {result['method'] or 'none'}\n"
    who = place(verdict["culprit"]) if verdict["culprit"] else "no line of the program"
    lines = [
        f"{verdict['grade']}: {who}",
        f"  {verdict['why']}",
        f"cause: {verdict['cause']}: {CAUSES[verdict['cause']]}",
        f"method: {result['method']}, {result['runs']} runs, {verdict['hops']} hops",
    ]
    for frame, why in verdict["alternatives"]:
        lines.append(f"or: {place(frame)}\n  {why}" if frame else f"or: {why}")
    if verdict["used_by"]:
        lines.append(f"used by: {place(verdict['used_by'])}")
    if verdict["word"] is not None and verdict["bad"] is not None:
        lines.append(f"word: {verdict['word']:#x} took the bad value {verdict['bad']:#x}")
    elif verdict["word"] is not None:
        lines.append(f"word: {verdict['word']:#x}")
    if verdict["suspect"] is not None and verdict["how"]:
        lines.append(f"  the search began at {verdict['suspect']:#x}: {verdict['how']}")
    if verdict["store"]:
        lines.append(f"stored by: {place(verdict['store'])}, which had the block from malloc")
    for key, title in (("block_owned", "block it owned"), ("block_hit", "block")):
        if verdict[key]:
            lines.append(f"{title}: {block_line(verdict[key])}")
    lines.append("stack:")
    lines += [f"  #{number} {place(frame)}" for number, frame in enumerate(verdict["stack"][:STACK_SHOWN])]
    if verdict["other_stack"]:
        lines.append("stack of the first free:")
        lines += [f"  #{number} {place(frame)}" for number, frame in enumerate(verdict["other_stack"][:STACK_SHOWN])]
    lines.append("again: " + result["again"])
    return "\n".join(lines) + "\n"


def hexadecimal(value, key=""):
    """Addresses as text, like hakmem-stress report --json."""
    if isinstance(value, dict):
        return {name: hexadecimal(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [hexadecimal(one) for one in value]
    if key in ("pc", "offset_in_module", "word", "bad", "start", "suspect") and isinstance(value, int):
        return hex(value)
    return value


def as_json(result):
    result = dict(result)
    if result["verdict"]:
        verdict = dict(result["verdict"])
        verdict["alternatives"] = [{"frame": frame, "why": why} for frame, why in verdict["alternatives"]]
        result["verdict"] = verdict
    return json.dumps(hexadecimal(result), indent=2) + "\n"


def again(script, report, method, extra):
    return shlex.join([script, report, "--method", method, *extra])
