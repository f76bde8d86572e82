"""Reads the logs of strace -ff -ttt: the calls that a malloc makes for memory in the timed part of a run.

hakmem-bench names a thread "timed" before it waits for the others to start, and "ended" when it is through: the timed
part is from the last of the first to the first of the last. What comes before it differs from run to run, since how
memory has to be mapped to be aligned depends on where the kernel puts it.

A thread's stack is mapped, protected and given back by libc's pthread code, whatever the malloc: calls on such a range
do not count. They are told by the MAP_STACK with which the range was mapped.
"""

import re

CALLS = ["madvise", "mmap", "munmap", "mremap", "brk", "mprotect"]
LINE = re.compile(r"(\d+\.\d+) (\w+)\((.*)\)\s+= (-?\w+)")


class FormatError(Exception):
    """The text is no log of strace."""


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
        """Of the memory that it is about, or None."""
        text = self.result if self.name == "mmap" else self.arguments[0]
        return int(text, 16) if text.startswith("0x") else None


def parse(line):
    """A call, or None for a line that is none, such as a signal or the end of a thread."""
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
    """{call: number} over the logs of all threads, each a list of lines."""
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
            stacks.pop(address, None)  # what is mapped there later may be the malloc's
        if start <= call.time <= end and not of_stack:
            found[call.name] += 1
    return found
