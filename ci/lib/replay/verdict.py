"""What ci/replay says: lines for people, or the same as JSON."""

import json
import os
import shlex

STACK_SHOWN = 12


def short(path):
    """A path from here, where it is below."""
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
    if not result["found"]:
        return f"not found: {result['why']}\nmethod: {result['method'] or 'none'}\n"
    lines = [f"found: {place(verdict['culprit'])}", f"  {verdict['why']}", f"method: {result['method']}, "
             f"{result['runs']} runs, {verdict.get('hops', 0)} hops through the malloc"]
    if verdict.get("word") is not None and verdict["bad"] is None:
        lines.append(f"word: {verdict['word']:#x}, from which the program went on into free blocks")
    elif verdict.get("word") is not None:
        lines.append(f"word: {verdict['word']:#x} took the bad value {verdict['bad']:#x}")
        if verdict.get("how"):
            lines.append(f"  the search began at {verdict['suspect']:#x}: {verdict['how']}")
    if verdict.get("store"):
        lines.append(f"stored by: {place(verdict['store'])}, which had the block from malloc")
    for key, title in (("block_owned", "block it owned"), ("block_hit", "block it hit")):
        if verdict.get(key):
            lines.append(f"{title}: {block_line(verdict[key])}")
    if verdict.get("word") is not None and not verdict.get("block_hit"):
        lines.append("block it hit: none that is known")
    lines.append("stack:")
    lines += [f"  #{number} {place(frame)}" for number, frame in enumerate(verdict["stack"][:STACK_SHOWN])]
    lines.append("again: " + result["again"])
    return "\n".join(lines) + "\n"


def hexadecimal(value, key=""):
    """Addresses as text, as in hakmem-stress report --json."""
    if isinstance(value, dict):
        return {name: hexadecimal(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [hexadecimal(one) for one in value]
    if key in ("pc", "offset_in_module", "word", "bad", "start", "suspect") and isinstance(value, int):
        return hex(value)
    return value


def as_json(result):
    return json.dumps(hexadecimal(result), indent=2) + "\n"


def again(script, report, method, extra):
    return shlex.join([script, report, "--method", method, *extra])
