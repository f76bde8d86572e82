"""Reads callgrind's files and counts the events in a library's own code.

A file consists of lines. `ob=`, `fl=`, `fi=`, `fe=`, `fn=` say which code the cost lines after them belong to. A name
comes first as `(number) name` and later as `(number)`; `ob=` and `cob=` share their numbers. The cost line after
`calls=` is the inclusive cost of the callee. The callee's own cost is also listed at its own function, so that line
does not count. A cost line is one position for each name in `positions:`, absolute or relative (`+3`, `-2`, `*`), then
the events in the order of `events:`; trailing zeros are left out.
"""

import os
import re

UNNAMED = "???"  # valgrind's object for code that is in no library's .text
NAME = re.compile(r"\((\d+)\)(?: (.*))?$")
COST = re.compile(r"[0-9+*-]")


class FormatError(Exception):
    """The text is not a callgrind file."""


class Parser:
    def __init__(self):
        self.names = {}
        self.positions = 1
        self.events = []
        self.object = None
        self.totals = {}  # {object: [cost of each event]}
        self.skip = False  # the next cost line belongs to a callee

    def object_name(self, value):
        match = NAME.match(value)
        if not match:
            return value
        number, name = match.groups()
        if name is not None:
            self.names[number] = name
        if number not in self.names:
            raise FormatError(f"object ({number}) has no name yet")
        return self.names[number]

    def cost_line(self, line):
        costs = line.split()[self.positions :]
        if self.skip:
            self.skip = False
            return
        if len(costs) > len(self.events) or not self.events:
            raise FormatError(f"{len(costs)} costs for {len(self.events)} events: {line}")
        totals = self.totals.setdefault(self.object, [0] * len(self.events))
        for i, cost in enumerate(costs):
            totals[i] += int(cost)

    def line(self, line):
        if COST.match(line):
            self.cost_line(line)
            return
        key, equals, value = line.partition("=")
        if equals and key in ("ob", "cob"):
            name = self.object_name(value)
            if key == "ob":
                self.object = name
        elif equals and key == "calls":
            self.skip = True
        elif not equals or ":" in key:
            header, _, value = line.partition(":")
            if header == "events":
                self.events = value.split()
            elif header == "positions":
                self.positions = len(value.split())


def parse(lines):
    """{object: {event: count}} for the objects' own code."""
    parser = Parser()
    for line in lines:
        parser.line(line.rstrip("\n"))
    if not parser.events:
        raise FormatError("no line 'events:'")
    return {name: dict(zip(parser.events, totals)) for name, totals in parser.totals.items()}


def own_events(lines, objects, unnamed=False):
    """{event: count} for the given libraries, by their real paths; with `unnamed`, includes code of no library. Raises
    FormatError if none of them ran."""
    total = {}
    for name, events in parse(lines).items():
        if name is not None and (os.path.realpath(name) in objects or unnamed and name == UNNAMED):
            for event, count in events.items():
                total[event] = total.get(event, 0) + count
    if not total:
        raise FormatError(f"no code of {', '.join(objects)} ran")
    return total
