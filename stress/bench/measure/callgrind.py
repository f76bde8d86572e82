"""Reads callgrind's files and counts the events in a library's own code.

A file consists of lines. `ob=`, `fl=`, `fi=`, `fe=`, `fn=` say which code the cost lines after them belong to. A name
comes first as `(number) name` and later as `(number)`; `ob=` and `cob=` share their numbers. The cost line after
`calls=` is the inclusive cost of the callee. The callee's own cost is also listed at its own function, so that line
counts only for the sums by callee. A cost line is one position for each name in `positions:`, absolute or relative (`+3`, `-2`, `*`), then
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
        self.functions = {}
        self.callee = (None, None)  # (object, function) of the next calls= line
        self.calls = {}  # {(caller's object, callee's object, function): [inclusive cost of each event]}
        self.positions = 1
        self.events = []
        self.object = None
        self.totals = {}  # {object: [cost of each event]}
        self.skip = False  # the next cost line belongs to a callee

    @staticmethod
    def name_of(value, names, what):
        match = NAME.match(value)
        if not match:
            return value
        number, name = match.groups()
        if name is not None:
            names[number] = name
        if number not in names:
            raise FormatError(f"{what} ({number}) has no name yet")
        return names[number]

    def object_name(self, value):
        return self.name_of(value, self.names, "object")

    def cost_line(self, line):
        costs = line.split()[self.positions :]
        if self.skip:
            self.skip = False
            totals = self.calls.setdefault((self.object, *self.callee), [0] * len(self.events))
            for i, cost in enumerate(costs[: len(totals)]):
                totals[i] += int(cost)
            self.callee = (self.object, None)
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
                self.callee = (name, None)
            else:
                self.callee = (name, None)
        elif equals and key == "fn":
            self.name_of(value, self.functions, "function")
            self.callee = (self.object, None)
        elif equals and key == "cfn":
            self.callee = (self.callee[0], self.name_of(value, self.functions, "function"))
        elif equals and key == "calls":
            self.skip = True
        elif not equals or ":" in key:
            header, _, value = line.partition(":")
            if header == "events":
                self.events = value.split()
            elif header == "positions":
                self.positions = len(value.split())


def read(lines):
    parser = Parser()
    for line in lines:
        parser.line(line.rstrip("\n"))
    if not parser.events:
        raise FormatError("no line 'events:'")
    return parser


def parse(lines):
    """{object: {event: count}} for the objects' own code."""
    parser = read(lines)
    return {name: dict(zip(parser.events, totals)) for name, totals in parser.totals.items()}


class Own:
    """Which objects of a file are the given libraries, by their real paths; with `unnamed`, code of no library too."""

    def __init__(self, objects, unnamed):
        self.objects, self.unnamed = objects, unnamed

    def has(self, name):
        return name is not None and (os.path.realpath(name) in self.objects or self.unnamed and name == UNNAMED)


def own_events(lines, objects, unnamed=False):
    """{event: count} for the given libraries. Raises FormatError if none of them ran."""
    return events_of(read(lines), Own(objects, unnamed))


def events_of(parser, own):
    total = {}
    for name, totals in parser.totals.items():
        if own.has(name):
            for event, count in zip(parser.events, totals):
                total[event] = total.get(event, 0) + count
    if not total:
        raise FormatError(f"no code of {', '.join(own.objects)} ran")
    return total


def roles_of(parser, own):
    """{"malloc", "free", "drain": instructions}: in calls from outside of the libraries that allocate or free, with all
    that these call, and in calls of remote_drain_some, which only ours has. mallocs name their functions as they like, so each
    entry whose name does not say that it frees allocates."""
    found = dict.fromkeys(("malloc", "free", "drain"), 0)
    at = parser.events.index("Ir")
    for (caller, callee, function), totals in parser.calls.items():
        if function is None or not own.has(callee):
            continue
        if not own.has(caller):
            frees = any(word in function for word in ("free", "delete", "dealloc"))
            found["free" if frees else "malloc"] += totals[at]
        elif function.split(".")[0].split("'")[0] == "remote_drain_some":
            found["drain"] += totals[at]
    return found
