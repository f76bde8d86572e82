"""Functions and lines for addresses of a process, from its mappings and addr2line."""

import os
import subprocess


class Symbols:
    """maps: rows [start, end, offset, path] of the process. Under rr, a mapped file may be gone; its functions then
    have no names."""

    def __init__(self, maps):
        self.maps, self.known = maps, {}

    def module(self, address):
        for start, end, _, path in self.maps:
            if start <= address < end:
                return path
        return ""

    def base(self, path):
        starts = [row[0] for row in self.maps if row[3] == path]
        with open(path, "rb") as file:
            is_fixed = file.read(18)[16] == 2  # ET_EXEC: linked for a fixed address
        return 0 if is_fixed else min(starts)

    def caller(self, address):
        """The frame of a call that returns to an address: the function that contains it."""
        return self.callers(address)[0]

    def callers(self, address):
        """The same, with the functions that it was inlined into, innermost first."""
        if address not in self.known:
            self.known[address] = self.look_up(address)
        return self.known[address]

    def look_up(self, address):
        path = self.module(address)
        frame = {"pc": address, "function": "", "file": "", "line": 0, "module": path, "offset": 0}
        if not path.startswith("/") or not os.path.exists(path):
            return [frame]
        frame["offset"] = address - self.base(path)
        done = subprocess.run(
            ["addr2line", "-ifCe", path, hex(frame["offset"] - 1)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            errors="replace",
        )
        lines, rows = done.stdout.splitlines(), []
        for function, place in zip(lines[::2], lines[1::2]):
            file, _, line = place.split(" ")[0].rpartition(":")
            row = {**frame, "function": "" if function == "??" else function.split("(")[0]}
            if line.isdigit() and file != "??":
                row.update(file=file, line=int(line))
            rows.append(row)
        return rows or [frame]
