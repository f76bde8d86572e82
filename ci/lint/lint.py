"""What the lints in this folder share: the files of the tree, C without comments, the command line and the self-test.

A lint is a function check(root) or check(root, options), which returns its violations as lines, and what it has counted.
Its self-test plants one change at a time in a small clean tree, {name: text}. A case is (name, old, new, report...): `new`
replaces `old` in the file `name`, or the whole file if `old` is None, or comes behind it if `old` is "". A dict as `new` has
files to add, to an empty tree if `name` is None. check() must then find as many violations as there are reports, and each
report must be a part of one.
"""

import argparse
import inspect
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
C_SUFFIXES = (".c", ".h", ".cc", ".cpp", ".hpp")
C_TOKEN = re.compile(r"(//[^\n]*|/\*.*?\*/)|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.DOTALL)


def read(root, name):
    return (root / name).read_text(encoding="utf-8")


def tracked(root, paths=()):
    """The names of the files that git tracks, or would add."""
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths]
    listed = os.fsdecode(subprocess.run(command, capture_output=True, check=True).stdout)
    return sorted(name for name in set(listed.split("\0")) if name and (root / name).is_file())


def changed_files(root, names, commit, rules=()):
    """Those of the names that differ from the commit or are new; all, if one of the rules does, for which every file counts."""
    git = ["git", "-C", root]
    listed = subprocess.run([*git, "diff", "-z", "--name-only", commit], capture_output=True, check=True).stdout
    listed += subprocess.run(
        [*git, "ls-files", "-z", "-o", "--exclude-standard"], capture_output=True, check=True
    ).stdout
    changed = set(os.fsdecode(listed).split("\0"))
    return names if changed & set(rules) else [name for name in names if name in changed]


def files_of(root, folder, *suffixes):
    """(name relative to the folder, text) of its files with these suffixes."""
    for path in sorted(path for path in (root / folder).rglob("*") if path.name.endswith(suffixes) and path.is_file()):
        yield path.relative_to(root / folder).as_posix(), path.read_text(encoding="utf-8")


def code_of(text, strings=None):
    """C without comments, on the same lines; `strings` stands for each string and character, if given."""

    def shown(match):
        if match[1] or strings is None:
            return "\n" * match[0].count("\n") or " " if match[1] else match[0]
        return strings

    return C_TOKEN.sub(shown, text)


# A definition begins at the start of a line, has ( after the name and no ; before its body.
DEFINITION = re.compile(
    r"^(?P<head>[A-Za-z_][^;{}()#=]*?(?:\(\((?:[^()]|\([^()]*\))*\)\))?[^;{}()#=]*?)\b(?P<name>\w+)"
    r"\([^;{}]*?\)\s*(?:noexcept\s*)?\{(?P<body>.*?)^\}",
    re.MULTILINE | re.DOTALL,
)


def functions_of(text):
    """(name, what stands before the name, body) of each function that the C text defines, without comments and strings."""
    text = re.sub(r"^[ \t]*#[^\n]*(?:\\\n[^\n]*)*", "", code_of(text, ""), flags=re.MULTILINE)
    return [(match["name"], match["head"], match["body"]) for match in DEFINITION.finditer(text)]


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def plant(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
        (root / name).chmod(0o755)


def self_test(check, clean, cases):
    wrong = 0
    for name, old, new, *reports in [("", None, {}), *cases]:
        files = {**({} if name is None else clean), **(new if isinstance(new, dict) else {})}
        if name and not isinstance(new, dict):
            assert not old or old in clean[name], (name, old)
            files[name] = new if old is None else clean[name].replace(old, new, 1) if old else clean.get(name, "") + new
        with tempfile.TemporaryDirectory(prefix="hakmem-lint.") as folder:
            (pathlib.Path(folder) / ".git/objects").mkdir(parents=True)  # as git init makes it, without a process
            (pathlib.Path(folder) / ".git/refs").mkdir()
            plant(pathlib.Path(folder), {".git/HEAD": "ref: refs/heads/main\n", **files})
            found = [line.replace(folder, "ROOT") for line in check(pathlib.Path(folder))[0]]
        if len(found) != len(reports) or not all(any(report in line for line in found) for report in reports):
            wrong += 1
            print(f"self-test: {name}: {old!r} -> {new!r}: expected {reports}, found {found}")
    print(f"self-test: {len(cases) + 1} trees, {wrong} wrong")
    return 1 if wrong else 0


def bad_input(text):
    print(f"{pathlib.Path(sys.argv[0]).name}: {text}", file=sys.stderr)
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    """One line for a mistake, and also for an empty argument, which a script may have taken from a variable that is not set."""

    def error(self, message):
        bad_input(message)

    def parse_args(self, args=None, namespace=None):
        words = sys.argv[1:] if args is None else args
        for before, word in zip(["", *words], words):
            name = word[:-1] if re.fullmatch("--[a-z-]+=", word) else before
            if not word or name != before:
                self.error(f"{name}: an argument is empty: give a value, or leave it out".removeprefix(": "))
        return super().parse_args(words, namespace)


def parser_of(doc):
    """Of a script that has this text. argparse adds the options to it for --help."""
    usage, _, description = doc.partition("\n\n")
    form = argparse.RawDescriptionHelpFormatter
    return Parser(
        usage=usage.removeprefix("usage: "), description=description, formatter_class=form, allow_abbrev=False
    )


def main(doc, check, clean, cases, needs=("alloc",), arguments=lambda parser: None):
    """The command line of a lint; its exit status. needs: what a checkout has. arguments(parser) adds options."""
    parser = parser_of(doc)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--self-test", action="store_true")
    arguments(parser)
    options = parser.parse_args()
    if options.self_test:
        return self_test(check, clean, cases)
    for name in needs:
        if not (options.root / name).exists():
            bad_input(f"--root {options.root}: has no {name}; it should be a checkout")
    root = options.root.resolve()
    violations, counted = check(root, options) if len(inspect.signature(check).parameters) > 1 else check(root)
    for line in violations:
        print(line)
    print(f"{pathlib.Path(sys.argv[0]).name}: {counted}, {len(violations)} violations")
    return 1 if violations else 0
