"""Reads the logs of strace -ff -ttt and counts the calls that a malloc makes for memory in the timed part of a run.

hakmem-bench names a thread "timed" before it waits for the others to start, and "ended" when it has finished. The timed
part begins when the last thread is named "timed" and ends when the first is named "ended". Earlier calls differ from
run to run, since mapping aligned memory depends on where the kernel puts it.

libc's pthread code maps, protects and unmaps each thread's stack, whatever the malloc. Calls on such a range do not
count; the range is recognised by the MAP_STACK with which it was mapped.
"""

import re

CALLS = ["madvise", "mmap", "munmap", "mremap", "brk", "mprotect"]
LINE = re.compile(r"(\d+\.\d+) (\w+)\((.*)\)\s+= (-?\w+)")


class FormatError(Exception):
    """The text is not a log of strace."""


class Call:
    def __init__(self, match):
        self.time = float(match[1])
        self.name = match[2]
        self.arguments = match[3].split(", ")
        self.result = match[4]

    @property
    def maps_stack(self):
        return self.name == "mmap" and "MAP_STACK" in self.arguments[3]

    @property
    def address(self):
        """The address of the memory that the call is about, or None."""
        text = self.result if self.name == "mmap" else self.arguments[0]
        return int(text, 16) if text.startswith("0x") else None


def parse(line):
    """The call in a line, or None if the line is something else, such as a signal or the end of a thread."""
    match = LINE.match(line)
    return Call(match) if match else None


def timed_part(calls):
    """(start, end) in seconds."""
    named = [
        (call.arguments[1].strip('"'), call.time)
        for call in calls
        if call.name == "prctl" and call.arguments[0] == "PR_SET_NAME"
    ]
    starts = [time for name, time in named if name == "timed"]
    ends = [time for name, time in named if name == "ended"]
    if not starts or len(starts) != len(ends) or max(starts) > min(ends):
        raise FormatError(f"no timed part: {len(starts)} starts and {len(ends)} ends in the log")
    return max(starts), min(ends)


def count(logs):
    """{call: number} over the logs of all threads; each log is a list of lines."""
    calls = sorted((call for log in logs for call in map(parse, log) if call), key=lambda call: call.time)
    start, end = timed_part(calls)
    stacks = {}  # {first address: the one after the last}
    found = dict.fromkeys(CALLS, 0)
    for call in calls:
        if call.name not in found:
            continue
        address = call.address
        if call.maps_stack and address is not None:
            stacks[address] = address + int(call.arguments[1])
        of_stack = address is not None and any(low <= address < high for low, high in stacks.items())
        if call.name == "munmap":
            stacks.pop(address, None)  # a later mapping at this place may be the malloc's
        if start <= call.time <= end and not of_stack:
            found[call.name] += 1
    return found
