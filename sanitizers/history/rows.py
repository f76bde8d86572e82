"""sanitizers/history.tsv: a row for each bug that a malloc shipped.

Columns, with tabs between them:

  name project broken mended kind reference bug command | result by seconds reason

The first eight were written before the suite ran on the row. A check that was added for a miss came into its command
later, and the versions of four rows changed after a run (README.md names them). `ci/history --merge` writes the last
four:

  found        the command fails on the broken version, by what `by` names, and not by that on the mended one; `reason`
               is what it says
  missed       it passes on both
  unclear      it fails on both, by the same rule: the newer version contains the fix and still fails. Or the broken one
               fails by another bug: by hand, and `reason` begins so
  cannot       one of the two does not build or load here, or no registry has it: `reason` begins so. The latter by hand
  out of reach no run of the suite can show the bug: `reason` says why. By hand
  not run
"""

import collections
import re

COLUMNS = "name project broken mended kind reference bug command result by seconds reason".split()
RESULTS = ("found", "missed", "unclear", "cannot", "out of reach", "not run")
KINDS = ("api", "concurrency", "fork", "loading", "memory", "numbers", "os", "threads", "zero")
Row = collections.namedtuple("Row", COLUMNS)


def read(path):
    """(comment lines, rows). Raises ValueError with the line that is wrong."""
    comments, rows, seen = [], [], set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#") or not line.strip():
            comments.append(line)
            continue
        cells = line.split("\t")
        where = f"{path.name}:{number}"
        if len(cells) != len(COLUMNS):
            raise ValueError(f"{where}: {len(cells)} columns, not {len(COLUMNS)} with tabs between them")
        row = Row(*cells)
        if row.name in seen:
            raise ValueError(f"{where}: a second row '{row.name}'")
        seen.add(row.name)
        if row.kind not in KINDS:
            raise ValueError(f"{where}: kind '{row.kind}' is none of {', '.join(KINDS)}")
        if row.result not in RESULTS:
            raise ValueError(f"{where}: result '{row.result}' is none of {', '.join(RESULTS)}")
        if row.result in ("missed", "unclear", "cannot", "out of reach") and row.reason == "-":
            raise ValueError(f"{where}: '{row.result}' needs its reason in the last column")
        if not re.match(
            r"conform (--only [a-z0-9-]+ ?)+(--deadline \d+)?$|inject (calls|space) [a-z-]+|[a-z-]+ .*--seed \d+",
            row.command,
        ):
            raise ValueError(
                f"{where}: '{row.command}' is no command: conform --only ID (--deadline N at the end), inject, or a scenario with --seed"
            )
        rows.append(row)
    return comments, rows


def write(path, comments, rows):
    lines = [*comments, *("\t".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


BY_HAND = {"out of reach": "", "cannot": "no registry has", "unclear": "another bug"}  # {result: how its reason begins}


def by_hand(row):
    return row.result in BY_HAND and row.reason.startswith(BY_HAND[row.result])


def merged(rows, results):
    """Rows with what was seen, where they ran. Cells written by hand stay: 'out of reach', 'no registry has', 'another
    bug', and the reason if the result is the same."""
    changed = []
    for row in rows:
        new = results.get(row.name)
        if new is None or new["result"] == "not run" or by_hand(row):
            changed.append(row)
            continue
        reason = new["reason"]
        if new["result"] == row.result and row.reason != "-" and new["result"] in ("missed", "unclear"):
            reason = row.reason
        changed.append(
            row._replace(
                result=new["result"], by=new["by"] or "-", seconds=f"{new['seconds']:.1f}", reason=reason or "-"
            )
        )
    return changed
