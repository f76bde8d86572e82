"""The page of ci/history --matrix: for each project a row for each check that failed on one of its versions, and a
column for each version, the newest first. As HTML whose rows unfold, and as one SVG."""

import collections
import html

STYLE = """{--card:#fff;--text:#1f2937;--dim:#5b6472;--pass:#bcd9c3;--fail:#c22f2f;--times:#f0a23c;--once:#b98ad0;
--capped:#8fb4e8;--skip:#e9ecf0;
font:13px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
@media (prefers-color-scheme:dark){%s{--card:#14181f;--text:#e5e7eb;--dim:#a3acba;--pass:#2d553a;--fail:#ee5a5a;--times:#d98c24;
--once:#9a6cb5;--capped:#3f6aa8;--skip:#2a303a}}
.pass{fill:var(--pass)}.fail{fill:var(--fail)}.times{fill:var(--times)}
.once{fill:var(--once)}.capped{fill:var(--capped)}.skip{fill:var(--skip)}
.none{fill:none;stroke:var(--dim);stroke-width:1px;vector-effect:non-scaling-stroke}
text{fill:var(--text);font-size:11px}.dim{fill:var(--dim)}
.h{font-weight:600;font-size:13px}.card{fill:var(--card)}"""
PAGE_STYLE = """body{margin:0 auto;padding:12px;max-width:1256px;background:var(--card);color:var(--text)}
h1{font-size:20px;margin:4px 0 8px}h2{font-size:16px;margin:26px 0 2px}p{margin:6px 0;max-width:900px}
table{border-collapse:collapse}td,th{padding:2px 0 2px 12px;text-align:right;font-weight:400}thead th{color:var(--dim)}
tbody th{text-align:left;padding-left:0}
summary{display:grid;grid-template-columns:minmax(124px,195px) 1fr;gap:8px;align-items:center;cursor:pointer;list-style:none}
summary::-webkit-details-marker{display:none}summary span{overflow-wrap:anywhere;line-height:1.2;padding:1px 0}
summary svg{width:100%;height:13px;display:block}summary:hover span,summary:focus span{text-decoration:underline}
ul{margin:2px 0 10px;padding-left:18px}code{font-size:12px;overflow-wrap:anywhere}.d{color:var(--dim)}
.l{display:inline-block;margin-right:12px}@media (max-width:480px){td,th{padding-left:6px;font-size:12px}}
.ends{display:grid;grid-template-columns:minmax(124px,195px) 1fr;gap:8px;color:var(--dim);font-size:12px}
.ends div{display:flex;justify-content:space-between;gap:14px;white-space:nowrap;min-width:min-content}a{color:inherit}"""
PARTS = ("conform", "scenarios")
CAP_MIB = 2048  # of memory, for one check of conform
WORDS = dict(
    fail="fails",
    times="fails at times",
    once="fails, without a second answer",
    capped="stopped at the memory cap",
    skip="skipped",
    **{"pass": "passes"},
)
LEGEND = (
    ("pass", "passes"),
    ("fail", "fails, and again when run once more"),
    ("times", "fails, but not when run once more"),
    ("once", "fails; the second run gave no answer"),
    ("capped", f"stopped at the memory cap of {CAP_MIB} MiB"),
    ("skip", "skipped"),
    ("none", "not run"),
)
FAILED = ("fail", "times", "once")


def short(version):
    """The version alone, without registry and package."""
    number = version.split("/", 2)[2]
    return number.split("-0-g")[0].split("-1-g")[0].removeprefix("1:")


def package(version):
    return version.split("/", 2)[1]


def kind_of(times, runs):
    """Of a cell that failed `times` of its `runs`."""
    return "once" if runs == 1 else "fail" if times == runs else "times"


class Project:
    """What was seen of one project. `cells` are {(check, index of a version): (kind, how)}. `versions` have a cell and
    thus a column, `rows` are all; `cannot` says why a version has none, `faults` why a part of a column is not run."""

    def __init__(self, name, rows, seen):
        self.name, self.rows, self.versions, self.cannot, self.faults, self.cells = name, rows, [], [], [], {}
        for row in rows:
            result = seen.get(row.version, dict(cannot="not run yet"))
            found = {(part, *cell) for part in PARTS for cell in self.read(result.get(part, {}))}
            if not found:
                why = result.get("cannot") or "; ".join(sorted(set(result["faults"].values()))) or "no answer"
                self.cannot.append((row.version, why))
                continue
            self.versions.append(row)
            self.faults += [(row.version, f"{part}: {why}") for part, why in result["faults"].items()]
            for part, check, kind, how in found:
                self.cells[(part, check), len(self.versions) - 1] = (kind, how)
        self.checks = sorted({check for check, _ in self.cells}, key=lambda check: (check[0] != "conform", check[1]))
        self.failed = [check for check in self.checks if any(kind in FAILED for kind, _ in self.of(check))]

    @staticmethod
    def read(part):
        """(check, kind, how) of each cell of one part of one version."""
        yield from ((check, "pass", "") for check in part.get("passed", ()))
        yield from ((check, kind_of(*seen), how) for check, (*seen, how) in part.get("failed", {}).items())
        yield from ((check, "skip", how) for check, how in part.get("skipped", {}).items())
        yield from ((check, "capped", how) for check, how in part.get("capped", {}).items())

    def of(self, check):
        """(kind, how) of each version, newest first."""
        return [self.cells.get((check, column), ("", "")) for column in range(len(self.versions))]

    def runs(self, check):
        """[(kind, newest column, oldest column, how)]: versions side by side with the same answer."""
        found = []
        for column, (kind, how) in enumerate(self.of(check)):
            if found and found[-1][0] == kind:
                found[-1][2] = column
            else:
                found.append([kind, column, column, how])
        return [run for run in found if run[0]]

    def turns(self, check):
        """[(what, version, others)]: where it broke or was mended, newest first. `others` are the versions between the
        one that differs and the one before that has an answer: the change may have come with any of them."""
        answer = {row: kind for (kind, _), row in zip(self.of(check), self.versions) if kind in ("pass", *FAILED)}
        told = [index for index, row in enumerate(self.rows) if row in answer]
        found = []
        for newer, older in zip(told, told[1:]):
            passes, passed = (answer[self.rows[index]] == "pass" for index in (newer, older))
            if passes != passed:
                others = [row.version for row in self.rows[newer + 1 : older]]
                found.append(("mended" if passes else "broken", self.rows[newer].version, others))
        return found


def turn_text(what, version, others):
    if len(others) > 1:
        return f"{what} in {short(version)} or one of the {len(others)} versions before it"
    return f"{what} in {' or '.join(short(one) for one in (version, *others))}"


def projects_of(rows, seen):
    return [
        Project(name, [row for row in rows if row.project == name], seen)
        for name in dict.fromkeys(r.project for r in rows)
    ]


def name_of(check):
    return check[1] if check[0] == "conform" else f"all: {check[1]}"


def command_of(check, version):
    return f"ci/history --cell {version} {'' if check[0] == 'conform' else 'all:'}{check[1]}"


def room(project):
    return f"max-width:{18 * len(project.versions)}px"


def strip(project, check):
    """One row as SVG: one unit a version, stretched to the width that there is."""
    parts = []
    for kind, first, last, how in project.runs(check):
        span = short(project.versions[first].version)
        if first != last:
            span += f" back to {short(project.versions[last].version)}"
        title = html.escape(f"{span}: {WORDS[kind]}" + (f": {how}" if how else ""))
        path = "".join(f"M{column + 0.06:g} 0h.88v1h-.88z" for column in range(first, last + 1))
        parts.append(f'<path class="{kind}" d="{path}"><title>{title}</title></path>')
    label = html.escape(f"{name_of(check)} on {len(project.versions)} versions")
    return (
        f'<svg viewBox="0 0 {len(project.versions)} 1" style="{room(project)}" preserveAspectRatio="none" role="img"'
        f' aria-label="{label}">' + "".join(parts) + "</svg>"
    )


def runs_list(project, check):
    lines = []
    for kind, first, last, how in project.runs(check):
        newest, oldest = project.versions[first], project.versions[last]
        span = html.escape(short(newest.version))
        if first != last:
            span += f" back to {html.escape(short(oldest.version))}, {last - first + 1} versions"
        text = f": {html.escape(how)}" if how else ""
        lines.append(
            f"<li>{span}: {WORDS[kind]}{text}<br><code>{html.escape(command_of(check, newest.version))}</code></li>"
        )
    turns = html.escape("; ".join(turn_text(*turn) for turn in project.turns(check)))
    head = f"<p class=d>{turns}</p>" if turns else ""
    return f"{head}<ul>{''.join(lines)}</ul>"


def counts(project):
    """(versions, checks that failed on one of them, that fail on the newest, that it was not asked, times mended, times
    broken)"""
    newest = [project.of(check)[0][0] for check in project.failed]
    turns = [what for check in project.failed for what, *_ in project.turns(check)]
    failing = sum(kind in FAILED for kind in newest)
    return len(project.versions), len(newest), failing, newest.count(""), turns.count("mended"), turns.count("broken")


def section(project):
    name = html.escape(project.name)
    parts = [f'<h2 id="{name}">{name}</h2>']
    if project.versions:
        ends = [
            f"<span>{html.escape(short(row.version))}<br>{row.date if row.date != '-' else ''}</span>"
            for row in dict.fromkeys((project.versions[0], project.versions[-1]))
        ]
        parts.append(
            f"<div class=ends><span>{len(project.failed)} of {len(project.checks)} checks</span>"
            f'<div style="{room(project)}">{"".join(ends)}</div></div>'
        )
    for check in project.failed:
        parts.append(
            f"<details><summary><span>{html.escape(name_of(check))}</span>{strip(project, check)}</summary>"
            f"{runs_list(project, check)}</details>"
        )
    for what, told in (("versions without a column", project.cannot), ("parts without an answer", project.faults)):
        lines = "".join(
            f"<li>{html.escape(package(version))} {html.escape(short(version))}: {html.escape(why)}</li>"
            for version, why in told
        )
        if told:
            head = f"<span class=d>{len(told)} {what}</span>"
            parts.append(f"<details><summary>{head}</summary><ul>{lines}</ul></details>")
    return "".join(parts)


def facts(projects, seen):
    """(versions with a column, different libraries of them, days, machines, commits of the suite)"""
    ran = [seen[row.version] for project in projects for row in project.versions]
    libraries = {result["library"] for result in ran}
    about = set().union(*(result["about"] for result in ran))
    commits, machines, days = (sorted({cells[index] for cells in about}) for index in (2, 3, 4))
    span = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "no day"
    return len(ran), len(libraries), span, "; ".join(machines), ", ".join(commits)


def capped_text(projects):
    """Which checks the cap stopped, and on how many versions."""
    names = collections.Counter(
        check[1] for project in projects for (check, _), (kind, _) in project.cells.items() if kind == "capped"
    )
    told = ", ".join(f"{name} on {count} version{'s' * (count > 1)}" for name, count in sorted(names.items()))
    return f" The cap stopped {told}." if told else ""


def page(rows, seen, command):
    projects = projects_of(rows, seen)
    ran, different, span, machines, commits = facts(projects, seen)
    legend = "".join(
        f'<span class=l><svg width="13" height="13" viewBox="0 0 1 1"><rect class="{kind}" width="1" height="1"/></svg> {words}</span> '
        for kind, words in LEGEND
    )
    table = "".join(
        f'<tr><th scope=row><a href="#{html.escape(project.name)}">{html.escape(project.name)}</a></th>'
        + "".join(f"<td>{number}</td>" for number in counts(project))
        + "</tr>"
        for project in projects
    )
    heads = "".join(
        f"<th scope=col>{word}</th>"
        for word in ("", "versions", "ever failed", "fail on the newest", "not run on it", "mended", "broken")
    )
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Versions of other mallocs</title><style>:root{STYLE % ":root"}
{PAGE_STYLE}</style>
<h1>Versions of other mallocs</h1>
<p>{ran} of {len(rows)} versions, with {different} different libraries: checks of <code>hakmem-stress conform</code> and scenarios of
<code>hakmem-stress all</code>. A column is a version, the newest at the left; a row is a check that failed on one of them. Open
a row for what it said and for the command of a cell: with another version in it, the command is that of another cell.</p>
<p>{legend}</p>
<p class=d>{span}, {html.escape(machines)}, suite of commit {html.escape(commits)}; drawn by <code>{html.escape(command)}</code>. The crates are built by
sanitizers/history/versions.py, not by the options of their users; what PyPI and Debian have was built by its makers. A check
that finds a bug by chance may pass on a version that has it: then the version in which it broke or was mended is wrong,
too. Rows say what a check saw, not how much it matters. A check takes {CAP_MIB} MiB at most.{html.escape(capped_text(projects))}</p>
<table><thead><tr>{heads}</tr></thead><tbody>{table}</tbody></table>
{"".join(section(project) for project in projects)}
</html>
"""


WIDE, LABEL, TALL, HEAD, GAP = 625, 190, 12, 48, 26  # of a panel in the SVG


def panel(project, x, y):
    width = min(14, (WIDE - LABEL) / max(1, len(project.versions)))
    parts = [f'<text class="h" x="{x}" y="{y + 14}">{html.escape(project.name)}</text>']
    room, last = width * len(project.versions), project.versions[-1]
    every = max(1, round(85 / width))
    for column, row in enumerate(project.versions):
        if column == 0 or (column % every == 0 and column * width < room - 170):
            left, name = x + LABEL + column * width, html.escape(short(row.version)[:13])
            parts.append(f'<text class="dim" x="{left:g}" y="{y + HEAD - 6}">{name}</text>')
    if last is not project.versions[0]:
        left, anchor, to = (x + LABEL + room, "end", "") if room > 160 else (x + LABEL + 84, "start", "to ")
        parts.append(
            f'<text class="dim" text-anchor="{anchor}" x="{left:g}" y="{y + HEAD - 6}">'
            f"{to}{html.escape(short(last.version)[:13])}</text>"
        )
    paths = {}
    for line, check in enumerate(project.failed):
        top = y + HEAD + line * TALL
        parts.append(f'<text x="{x}" y="{top + 9}">{html.escape(name_of(check))}</text>')
        for column, (kind, _) in enumerate(project.of(check)):
            if kind:
                paths.setdefault(kind, []).append(
                    f"M{x + LABEL + column * width:.4g} {top}h{width - 1:.3g}v{TALL - 1}h-{width - 1:.3g}z"
                )
    parts += [f'<path class="{kind}" d="{"".join(cells)}"/>' for kind, cells in paths.items()]
    return "".join(parts)


def svg(rows, seen, command):
    projects = [project for project in projects_of(rows, seen) if project.versions]
    ran, different, span, machines, commits = facts(projects, seen)
    bottoms, parts = [96, 96], []
    for project in projects:
        column = bottoms.index(min(bottoms))
        parts.append(panel(project, 10 + column * (WIDE + 10), bottoms[column]))
        bottoms[column] += HEAD + len(project.failed) * TALL + GAP
    head = [
        f'<text class="h" x="10" y="22">{ran} of {len(rows)} versions of other mallocs, {different} different libraries: checks of conform, and scenarios of a short all</text>',
        f'<text class="dim" x="10" y="40">The newest version at the left; only checks that failed on a version. {span}, {html.escape(machines)}, suite of commit {html.escape(commits)}: {html.escape(command)}</text>',
    ]
    x = 10
    for kind, words in LEGEND:
        head.append(
            f'<rect class="{kind}" x="{x}" y="54" width="12" height="12"/><text x="{x + 17}" y="64">{words}</text>'
        )
        x += 36 + 5.9 * len(words)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1280 {max(bottoms)}"><title>Versions of other mallocs</title>'
        f'<style>svg{STYLE % "svg"}</style><rect class="card" width="1280" height="{max(bottoms)}"/>{"".join(head)}{"".join(parts)}</svg>\n'
    )
