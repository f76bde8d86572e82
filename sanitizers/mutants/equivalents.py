"""sanitizers/equivalents.txt: mutants that no test can kill, each with its reason.

A row: KEY HASH FILE FUNCTION OPERATOR REASON. ci/mutants --general prints the first five for each survivor. HASH is of
the function's text; when that changes, the row is stale and the mutant is asked again. Needs no parser, so that
ci/lint/mutants can check the rows: a function's text begins after an empty line and ends with a brace in the first
column.
"""

import dataclasses
import hashlib
import pathlib

FILE = "sanitizers/equivalents.txt"


@dataclasses.dataclass(frozen=True)
class Equivalent:
    key: str
    hash: str
    file: str
    function: str
    operator: str
    reason: str
    line: int


def chunks(data):
    """[(start, end, hash)] of the parts of a file (bytes) that end with a brace in the first column."""
    found, at, start = [], 0, 0
    for line in data.splitlines(keepends=True):
        if line.strip() == b"" and b"\n{" not in data[start:at]:
            start = at + len(line)
        at += len(line)
        if line.startswith(b"}"):
            text = b" ".join(data[start:at].split())
            found.append((start, at, hashlib.sha256(text).hexdigest()[:12]))
            start = at
    return found


def chunk_hash(data, offset):
    """The hash of the part that holds this offset."""
    return next((each[2] for each in chunks(data) if each[0] <= offset < each[1]), "-")


def read(root):
    """(rows, complaints)."""
    path = pathlib.Path(root) / FILE
    rows, complaints = [], []
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split(None, 5)
        if len(words) < 6:
            complaints.append(f"{FILE}:{number}: a row is KEY HASH FILE FUNCTION OPERATOR REASON")
            continue
        rows.append(Equivalent(*words, number))
    return rows, complaints


def check(root):
    """Complaints about rows that do not fit the tree."""
    rows, complaints = read(root)
    seen = set()
    for row in rows:
        place = f"{FILE}:{row.line}"
        path = pathlib.Path(root) / row.file
        if row.key in seen:
            complaints.append(f"{place}: {row.key} has a row already")
        seen.add(row.key)
        if not path.is_file():
            complaints.append(f"{place}: there is no {row.file}")
        elif row.hash not in {each[2] for each in chunks(path.read_bytes())}:
            complaints.append(
                f"{place}: {row.function} in {row.file} has changed: remove the row, and try the mutant again"
            )
    return complaints
