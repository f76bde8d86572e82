"""Functions and lines for addresses of a program that ran, by its mappings and addr2line."""

import os
import subprocess


class Symbols:
    """maps: rows [start, end, offset, path] of the process that the addresses are from."""

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
            is_fixed = file.read(18)[16] == 2  # ET_EXEC: linked for its place
        return 0 if is_fixed else min(starts)

    def caller(self, address):
        """The frame of a call that returns to an address."""
        if address not in self.known:
            self.known[address] = self.look_up(address)
        return self.known[address]

    def look_up(self, address):
        path = self.module(address)
        frame = {"pc": address, "function": "", "file": "", "line": 0, "module": path, "offset": 0}
        if not path.startswith("/") or not os.path.exists(path):
            return frame
        frame["offset"] = address - self.base(path)
        done = subprocess.run(["addr2line", "-fCe", path, hex(frame["offset"] - 1)], capture_output=True, text=True,
                              timeout=60, check=False, errors="replace")
        lines = done.stdout.splitlines()
        if len(lines) >= 2:
            file, _, line = lines[1].split(" ")[0].rpartition(":")
            frame["function"] = "" if lines[0] == "??" else lines[0]
            if line.isdigit() and file != "??":
                frame.update(file=file, line=int(line))
        return frame
