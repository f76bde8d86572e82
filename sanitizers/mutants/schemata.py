"""Puts many mutants into one text of a file, of which a process runs the one that its environment names (mutant_id.h)."""

import hashlib
import json
import pathlib
import re
import shlex
import subprocess

HEADER = pathlib.Path(__file__).resolve().parent / "mutant_id.h"


def conflicts(first, second):
    """Whether the regions cross: then one text cannot hold both."""
    low, high = sorted((first, second), key=lambda each: (each.start, -each.end))
    return low.start < high.start < low.end < high.end


def wrapped(mutant, number, inner):
    chosen = f"mutant_is({number})"
    if mutant.mode == "expr":
        return f"({chosen} ? ({mutant.text}) : ({inner}))"
    return f"{{ if ({chosen}) {{ {mutant.text} }} else {{ {inner} }} }}"


def render(data, numbered):
    """The text with these (number, mutant), as bytes. A mutant's own text has no other mutant in it."""

    def region(start, end, inside):
        parts, at = [], start
        while inside:
            outer = inside[0][1]
            if outer.mode == "insert":
                number, _ = inside.pop(0)
                parts.append(data[at : outer.start].decode())
                parts.append(f"if (mutant_is({number})) {{ {outer.text} }} ")
                at = outer.start
                continue
            same = [
                each
                for each in inside
                if (each[1].start, each[1].end) == (outer.start, outer.end) and each[1].mode != "insert"
            ]
            below = [each for each in inside if each not in same and each[1].start < outer.end]
            inside = [each for each in inside if each not in same and each not in below]
            text = region(outer.start, outer.end, below)
            for number, mutant in same:
                text = wrapped(mutant, number, text)
            parts += [data[at : outer.start].decode(), text]
            at = outer.end
        parts.append(data[at:end].decode())
        return "".join(parts)

    # An insertion stands before the statements that begin at its place.
    order = sorted(numbered, key=lambda each: (each[1].start, each[1].mode != "insert", -each[1].end))
    return f'#include "{HEADER}"\n#line 1\n{region(0, len(data), order)}'.encode()


def alone(data, mutant):
    """The text with this mutant instead of what it replaces, and nothing else."""
    end = mutant.start if mutant.mode == "insert" else mutant.end
    text = (
        mutant.text + " "
        if mutant.mode == "insert"
        else f"{{ {mutant.text} }}"
        if mutant.mode == "stmt"
        else f"({mutant.text})"
    )
    return data[: mutant.start] + text.encode() + data[end:]


class Checker:
    """Drops mutants that do not compile. commands: {file: [compile command, as words]}, each with the same folder."""

    def __init__(self, tree, commands, folder, cache):
        self.tree, self.commands, self.folder, self.cache = tree, commands, folder, cache
        self.known = json.loads(cache.read_text(encoding="utf-8")) if cache.is_file() else {}

    def save(self):
        self.cache.write_text(json.dumps(self.known), encoding="utf-8")

    def passes(self, name, data, numbered):
        """Asked once for a text and its commands. What the file includes does not count: the build shows that."""
        text = render(data, numbered) + repr(self.commands.get(name)).encode()
        key = hashlib.sha256(text).hexdigest()[:24]
        if key not in self.known:
            self.known[key] = self.compiles(name, data, numbered)
        return self.known[key]

    def compiles(self, name, data, numbered):
        path = self.tree / name
        original = path.read_bytes()
        path.write_bytes(render(data, numbered))
        try:
            return all(
                subprocess.run(
                    [*command, "-w", "-fsyntax-only"], cwd=self.folder, capture_output=True, check=False
                ).returncode
                == 0
                for command in self.commands.get(name, ())
            )
        finally:
            path.write_bytes(original)

    def good(self, name, data, numbered):
        """Those of numbered that compile together: halves what does not, until one is left."""
        if not numbered or self.passes(name, data, numbered):
            return numbered
        if len(numbered) == 1:
            return []
        half = len(numbered) // 2
        kept = self.good(name, data, numbered[:half]) + self.good(name, data, numbered[half:])
        return kept


def compile_commands(rows, tree, names):
    """{file: commands} from the rows of compile_commands.json: one for each set of macros that the file is compiled
    with. A header is compiled by itself, with the macros of C files and, since tests include it, as C++."""
    found, of_header = {}, {}
    for row in rows:
        path = pathlib.Path(row["file"])
        if not path.is_relative_to(tree):
            continue
        words = [word for word in shlex.split(row["command"]) if not word.endswith("ccache")]
        del words[words.index("-o") : words.index("-o") + 2]
        words.remove("-c")
        kind = tuple(word for word in words if re.search("VALIDATION=|FIBERS=", word))
        name = path.relative_to(tree).as_posix()
        found.setdefault(name, {}).setdefault(kind, words)
        if "/Unity/" in row["file"] and path.is_file():  # several files as one
            for part in re.findall(r'#include "(.+[.]cc)"', path.read_text(encoding="utf-8")):
                if pathlib.Path(part).is_relative_to(tree):
                    own = pathlib.Path(part).relative_to(tree).as_posix()
                    found.setdefault(own, {}).setdefault(kind, [*words[:-1], part])
        if name.startswith("alloc/") and name.endswith(".c") and any("VALIDATION=" in word for word in kind):
            of_header.setdefault(("c", kind), words[:-1])
        if "alloc-tests" in name and name.endswith(".cxx"):
            plain = words[: words.index("-Winvalid-pch")] if "-Winvalid-pch" in words else words[:-1]
            of_header.setdefault(("c++", kind), [*plain, "-include", "base/test_support.h"])
    result = {}
    for name in names:
        if name in found:
            result[name] = list(found[name].values())
        elif name.endswith(".h"):
            result[name] = [[*words, "-x", language, str(tree / name)] for (language, _), words in of_header.items()]
    return result
