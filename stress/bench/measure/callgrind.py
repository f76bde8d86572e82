"""Reads the files of callgrind: the events that happened in a library's own code.

A file is lines. `ob=`, `fl=`, `fi=`, `fe=`, `fn=` say where the cost lines after them belong; a name comes once as
`(number) name` and later as `(number)`, and `ob=` and `cob=` share their numbers. `calls=` is followed by a cost line
that holds what the callee did, all of it; the callee's own part stands at its own function, so that line does not
count. A cost line is one position for each name in `positions:`, absolute or relative (`+3`, `-2`, `*`), and then the
events in the order of `events:`; zeros at its end are left out.
"""

import os
import re

UNNAMED = "???"  # valgrind's object of code that it finds in no library's .text
NAME = re.compile(r"\((\d+)\)(?: (.*))?$")
COST = re.compile(r"[0-9+*-]")


class FormatError(Exception):
    """The text is no callgrind file."""


class Parser:
    def __init__(self):
        self.names = {}
        self.positions = 1
        self.events = []
        self.object = None
        self.totals = {}  # {object: [cost of each event]}
        self.skip = False  # the next cost line is a callee's

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
    """{object: {event: count}} of the objects' own code."""
    parser = Parser()
    for line in lines:
        parser.line(line.rstrip("\n"))
    if not parser.events:
        raise FormatError("no line 'events:'")
    return {name: dict(zip(parser.events, totals)) for name, totals in parser.totals.items()}


def own_events(lines, objects, unnamed=False):
    """{event: count} in the given libraries, by their real paths, and with `unnamed` also in code of no library; raises
    FormatError where none of them ran."""
    total = {}
    for name, events in parse(lines).items():
        if name is not None and (os.path.realpath(name) in objects or unnamed and name == UNNAMED):
            for event, count in events.items():
                total[event] = total.get(event, 0) + count
    if not total:
        raise FormatError(f"no code of {', '.join(objects)} ran")
    return total
