"""The heat map of the surface, as SVG: a panel for each measure, a row for each pattern and number of threads, a column for
each size. The colour, and from 2 on a number, is the ratio of one malloc to the best other."""

from measure import surface

# Up to this ratio: its class in the picture, and what the legend says.
STEPS = [
    (0.8, "ahead", "below 0.8"),
    (1.25, "level", "0.8 to 1.25"),
    (1.5, "a", "to 1.5"),
    (2, "b", "to 2"),
    (4, "c", "to 4"),
    (10, "d", "to 10"),
    (float("inf"), "e", "above 10"),
]
STYLE = """
svg{--card:#fff;--text:#1f2937;--dim:#6b7280;--ahead:#9cc9e8;--level:#e8eaee;--a:#f8e3a1;--b:#f6b95b;--c:#ec7a35;--d:#cf3030;
--e:#8a0f4d;--on:#fff;--failed:#111827;font:11px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
@media (prefers-color-scheme:dark){svg{--card:#14181f;--text:#e5e7eb;--dim:#9ca3af;--ahead:#275d80;--level:#2a303a;
--a:#5f5222;--b:#96691b;--c:#c9641f;--d:#ee4545;--e:#ff7ac0;--on:#101010;--failed:#f9fafb}}
.card{fill:var(--card)}text{fill:var(--text)}.h{font-weight:600;font-size:13px}.dim{fill:var(--dim)}.n{font-size:8.5px}
.on{fill:var(--on)}.failed{fill:var(--failed)}
""" + "".join(
    f".{name}{{fill:var(--{name})}}" for _, name, _ in STEPS
)
WIDE, TALL, LETTER = 18, 13, 6.6  # of a cell; of a letter, at most
HEAD, GAP, MARGIN = 58, 26, 20
ALL = "the worst of all but wall clock and single calls"
NOTES = (
    "Smaller is better everywhere. Beside a pattern: its threads.",
    "Empty: no such cell; hakmem-bench cell says why.",
)


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text(x, y, words, kind="", anchor="start", more=""):
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def step_of(ratio):
    return next(name for most, name, _ in STEPS if ratio <= most)


def number_of(ratio):
    return "" if ratio < 2 else f"{ratio:.0f}" if ratio < 99.5 else "99+"


class Panel:
    """At x, y; `rows` are (pattern, threads), where threads are None in the panel of all measures."""

    def __init__(self, x, y, rows, sizes, label):
        self.x, self.y, self.rows, self.sizes, self.label = x, y, rows, sizes, label

    def draw(self, title, ratios):
        """ratios: {(pattern, threads), size: ratio, or None if the malloc failed there}"""
        left, top = self.x + self.label, self.y + HEAD
        parts, paths = [text(left, self.y + 12, title, "h")], {}
        for column, size in enumerate(self.sizes):
            x = left + column * WIDE + WIDE / 2 + 4
            turn = f' transform="rotate(-60 {x:g} {top - 5:g})"'
            parts.append(text(x, top - 5, surface.size_name(size), "dim", more=turn))
        before = None
        for line, (pattern, threads) in enumerate(self.rows):
            y = top + line * TALL
            if pattern != before:
                parts.append(text(self.x, y + 10, pattern))
            if threads:
                parts.append(text(left - 6, y + 10, str(threads), "dim", "end"))
            before = pattern
            for column, size in enumerate(self.sizes):
                key, x = ((pattern, threads), size), left + column * WIDE
                if key not in ratios:
                    continue
                ratio = ratios[key]
                kind = "failed" if ratio is None else step_of(ratio)
                paths.setdefault(kind, []).append(f"M{x:g} {y:g}h{WIDE - 1}v{TALL - 1}h-{WIDE - 1}z")
                number = "x" if ratio is None else number_of(ratio)
                if number:
                    on = "n on" if kind in ("d", "e", "failed") else "n"
                    parts.append(text(x + (WIDE - 1) / 2, y + 9.5, number, on, "middle"))
        return [f'<path class="{kind}" d="{"".join(path)}"/>' for kind, path in paths.items()] + parts


def legend(x, y, judged, rivals, date):
    """Its elements, and the y below the last."""
    parts = [text(x, y, f"{judged} by the best other, in each cell", "h")]
    steps = [(kind, words) for _, kind, words in STEPS] + [("failed", "failed")]
    for kind, words in steps:
        y += 16
        parts.append(f'<rect class="{kind}" x="{x:g}" y="{y - 10:g}" width="{WIDE - 1}" height="{TALL - 1}"/>')
        parts.append(text(x + 26, y, words))
    y += 10
    for words in (*NOTES, f"Measured on {date}. The others:", *rivals):
        y += 15
        parts.append(text(x, y, words, "dim"))
    return parts, y


def ratios_by_metric(data):
    """{metric or "all": {(row, size): ratio or None}}"""
    found = {metric: {} for metric in ("all", *surface.METRICS)}
    for cell in data["cells"]:
        pattern, size, threads = cell["cell"]
        failed = data["judged"] in cell["failed"]
        ratios = surface.ratios_of(cell, data["judged"])
        for metric in surface.METRICS:
            if failed or metric in ratios:
                found[metric][(pattern, threads), size] = None if failed else ratios[metric][0]
        steady = [ratios[metric][0] for metric in surface.STEADY if metric in ratios]
        key = (pattern, None), size
        if failed or found["all"].get(key, 0) is None:
            found["all"][key] = None
        elif steady:
            found["all"][key] = max(found["all"].get(key, 0), *steady)
    return found


def svg(data):
    cells = [cell["cell"] for cell in data["cells"]]
    rows = list(dict.fromkeys((pattern, threads) for pattern, _, threads in cells))
    patterns = list(dict.fromkeys((pattern, None) for pattern, _, _ in cells))
    sizes = sorted({size for _, size, _ in cells})
    rivals = list(dict.fromkeys(name for cell in data["cells"] for name in {**cell["figures"], **cell["failed"]}))
    rivals.remove(data["judged"])
    ratios = ratios_by_metric(data)
    label = max(len(pattern) for pattern, _ in rows) * LETTER + 30
    names = max(map(len, (*NOTES, *rivals))) * LETTER
    wide = max(label + max(len(sizes) * WIDE, len(ALL) * 8), names, (len(data["judged"]) + 36) * 8) + GAP
    parts = Panel(MARGIN, MARGIN, patterns, sizes, label).draw(ALL, ratios["all"])
    explained, y = legend(MARGIN + wide, MARGIN + 12, data["judged"], rivals, data["date"])
    parts += explained
    y = max(y, MARGIN + HEAD + len(patterns) * TALL) + GAP
    for number, (metric, (title, _, _)) in enumerate(surface.METRICS.items()):
        if number > 0 and number % 2 == 0:
            y += HEAD + len(rows) * TALL + GAP
        parts += Panel(MARGIN + number % 2 * wide, y, rows, sizes, label).draw(title, ratios[metric])
    across, y = MARGIN + 2 * wide, y + HEAD + len(rows) * TALL + MARGIN
    title = f"{data['judged']} by the best other malloc, over patterns, sizes and threads"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across:.0f} {y:.0f}" width="{across:.0f}" '
        f'height="{y:.0f}" role="img"><title>{escape(title)}</title><style>{STYLE}</style>'
        f'<rect class="card" width="100%" height="100%"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
