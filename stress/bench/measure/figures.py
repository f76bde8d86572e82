"""One SVG per group. Without matplotlib there is only that of the surface, and a line says so."""

import json
import math
import statistics

from measure import heatmap
from measure.options import say
from measure.rss import ROWS as RSS_ROWS, bound_kib
from measure.syscalls import total

OURS_COLOR = "#c2410c"
COLORS = ["#1d4ed8", "#0f766e", "#7c3aed", "#4b5563", "#a16207", "#be185d"]
# What stands for a colour where the reader's page is dark.
DARK = {
    "#ffffff": "#0d1117",
    "#000000": "#9ca3af",
    "#111827": "#e5e7eb",
    "#e5e7eb": "#2a313b",
    OURS_COLOR: "#fb923c",
    "#d6a98d": "#7c5a43",
    **dict(zip(COLORS, ["#60a5fa", "#2dd4bf", "#a78bfa", "#9ca3af", "#facc15", "#f472b6"])),
}


def load():
    """matplotlib.pyplot, or None."""
    try:
        import matplotlib

        matplotlib.use("svg")
        import matplotlib.pyplot as plot
    except ImportError:
        say("python3 has no matplotlib (Debian: python3-matplotlib): no figures")
        return None
    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#e5e7eb",
            "axes.axisbelow": True,
            "legend.frameon": False,
            "svg.hashsalt": "hakmem",
        }
    )
    return plot


def colors(names):
    """Ours has one colour, and each other malloc its own."""
    found, spare = {}, iter(COLORS * len(names))
    for name in names:
        found[name] = OURS_COLOR if name == "hakmem" else next(spare)
    return found


def grouped(axes, labels, series, unit):
    """Horizontal bars: a group for each label, a bar for each malloc. series: {name: [value or None]}."""
    paint, height = colors(list(series)), 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        places = [at + (number + 0.5) * height - 0.4 for at in range(len(labels))]
        axes.barh(places, [value or 0 for value in values], height, label=name, color=paint[name])
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(unit)


def bars(plot, panels):
    """A figure with a panel for each (labels, series, unit)."""
    tall = max(2.5, 0.6 + max(len(labels) * (0.25 + 0.11 * len(series)) for labels, series, _ in panels))
    figure, axes = plot.subplots(1, len(panels), figsize=(5.2 * len(panels), tall), squeeze=False, layout="constrained")
    for one, (labels, series, unit) in zip(axes[0], panels):
        grouped(one, labels, series, unit)
    axes[0][0].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    return figure


def counts(plot, data):
    figures = data["figures"]
    names = list(next(iter(figures.values())))
    events = [("instructions", "instructions for a pair"), ("branches", "conditional branches for a pair")]
    return bars(
        plot,
        [
            (list(figures), {name: [of_row[name][event] for of_row in figures.values()] for name in names}, unit)
            for event, unit in events
        ],
    )


def rss(plot, data):
    """A panel for each row; the line is the bound for ours."""
    figures = data["figures"]
    paint = colors(list(dict.fromkeys(name for of_row in figures.values() for name in of_row)))
    tall = -(-len(figures) // 3)
    figure, axes = plot.subplots(
        tall,
        min(3, len(figures)),
        figsize=(3.8 * min(3, len(figures)), 2.2 * tall),
        squeeze=False,
        layout="constrained",
    )
    for one in axes.flat[len(figures) :]:
        one.set_visible(False)
    for one, (row, of_row) in zip(axes.flat, figures.items()):
        one.barh(
            list(of_row),
            [kib[RSS_ROWS[row][0]] / 1024 for kib in of_row.values()],
            color=[paint[name] for name in of_row],
        )
        bound = bound_kib(row, figures, "hakmem") if "hakmem" in of_row else None
        if bound is not None:
            one.axvline(bound / 1024, color="#111827", linestyle="--", linewidth=0.8)
        one.set_title(row)
        one.set_xlabel("MiB")
        one.invert_yaxis()
        one.grid(axis="y", visible=False)
    return figure


def syscalls(plot, data):
    figures = data["figures"]
    names = list(next(iter(figures.values())))
    figure = bars(
        plot,
        [
            (
                list(figures),
                {name: [total(of_row[name]) for of_row in figures.values()] for name in names},
                "calls for memory in a million pairs",
            )
        ],
    )
    figure.axes[0].set_xscale("symlog", linthresh=1)
    return figure


def names_of(cases):
    """The mallocs of all cases; some cases may lack one."""
    return list(dict.fromkeys(name for case in cases for name in case["ns"]))


def ns_of(case, name):
    return statistics.median(case["ns"][name]) if name in case["ns"] else math.nan


def times(plot, data):
    """The ratio of the best other malloc to ours in each case; without ours, or without others, plain times."""
    labels = [f"{case['row']} x{case['threads']}" for case in data["cases"]]
    if not data["judged"]:
        return bars(
            plot,
            [
                (
                    labels,
                    {name: [ns_of(case, name) for case in data["cases"]] for name in names_of(data["cases"])},
                    "ns for a pair",
                )
            ],
        )
    judged = next(iter(data["judged"].values()))
    labels, judged = zip(*((label, one) for label, one in zip(labels, judged) if one["against_best"]))
    ratios = [one["against_best"] for one in judged]
    shades = {"faster": OURS_COLOR, "slower": "#4b5563", "inconclusive": "#d6a98d"}
    figure, axes = plot.subplots(figsize=(7, max(2.5, 0.8 + 0.2 * len(labels))))
    axes.barh(
        range(len(labels)),
        [one["median"] - 1 for one in ratios],
        left=1,
        color=[shades[one["verdict"]] for one in ratios],
        xerr=[[one["median"] - one["low"] for one in ratios], [one["high"] - one["median"] for one in ratios]],
        error_kw={"linewidth": 0.8, "ecolor": "#111827"},
    )
    axes.axvline(1, color="#111827", linewidth=0.8)
    axes.set_yticks(range(len(labels)), [f"{label} ({one['best']})" for label, one in zip(labels, judged)])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(
        f"time of the best other malloc by that of {next(iter(data['judged']))}, with quartiles; " "pale: inconclusive"
    )
    return figure


def scale(plot, data):
    rows = list(dict.fromkeys(case["row"] for case in data["cases"]))
    names = names_of(data["cases"])
    paint = colors(names)
    figure, axes = plot.subplots(1, len(rows), figsize=(3.2 * len(rows) + 0.5, 3), squeeze=False)
    for one, row in zip(axes[0], rows):
        of_row = [case for case in data["cases"] if case["row"] == row]
        for name in names:
            one.plot(
                [case["threads"] for case in of_row],
                [1e3 / ns_of(case, name) for case in of_row],
                marker="o",
                markersize=3,
                label=name,
                color=paint[name],
            )
        one.set_title(row)
        one.set_xscale("log", base=2)
        one.set_xticks([case["threads"] for case in of_row], [str(case["threads"]) for case in of_row])
        one.set_ylim(bottom=0)
        one.set_xlabel("threads")
    axes[0][0].set_ylabel("million pairs in a second")
    axes[0][-1].legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def contention(plot, data):
    """Transfers an operation by the malloc's code as threads are added, in each pattern."""
    patterns = list(data["figures"])
    names = list(dict.fromkeys(name for of_row in data["figures"].values() for name in of_row))
    paint = colors(names)
    across = min(3, len(patterns))
    figure, axes = plot.subplots(
        math.ceil(len(patterns) / across),
        across,
        figsize=(3.2 * across + 0.5, 3 * math.ceil(len(patterns) / across)),
        squeeze=False,
        layout="constrained",
    )
    for one in axes.flat[len(patterns) :]:
        one.set_axis_off()
    for one, pattern in zip(axes.flat, patterns):
        for name, of_name in data["figures"][pattern].items():
            counted = {int(number): each["transfers"] for number, each in of_name.items() if each}
            one.plot(list(counted), list(counted.values()), marker="o", markersize=3, label=name, color=paint[name])
        threads = sorted({int(number) for of_name in data["figures"][pattern].values() for number in of_name})
        one.set_title(pattern)
        one.set_xscale("log", base=2)
        one.set_xticks(threads, list(map(str, threads)))
        one.set_ylim(bottom=0)
        one.set_xlabel("threads")
    axes[0][0].set_ylabel("transfers of lines an operation")
    axes[0][-1].legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def apps(plot, data):
    """A panel for each of three figures: a row for each program, a point for each malloc, its ratio to the base."""
    cases, base = data["cases"], data["base"]
    names = [name for name in cases[0]["runs"] | cases[0]["failed"] if name != base]
    paint = colors(names)
    panels = [("seconds", "time"), ("peak_kib", "peak memory"), ("faults", "page faults")]
    figure, axes = plot.subplots(
        1, len(panels), figsize=(4.2 * len(panels), 1.2 + 0.42 * len(cases)), sharey=True, layout="constrained"
    )
    for one, (metric, title) in zip(axes, panels):
        for number, name in enumerate(names):
            found = [(at, data["judged"][metric][case["program"]][name]) for at, case in enumerate(cases)]
            found = [(at + 0.7 * (number + 0.5) / len(names) - 0.35, ratio) for at, ratio in found if ratio]
            one.errorbar(
                [ratio["median"] for _, ratio in found],
                [at for at, _ in found],
                xerr=[
                    [ratio["median"] - ratio["low"] for _, ratio in found],
                    [ratio["high"] - ratio["median"] for _, ratio in found],
                ],
                fmt="o",
                markersize=5 if name == "hakmem" else 3,
                linewidth=0.8,
                color=paint[name],
                label=name,
            )
        one.axvline(1, color="#111827", linewidth=0.8)
        if metric == "faults":
            one.set_xscale("log", base=2)
            one.xaxis.set_major_formatter("{x:g}")
        one.set_xlabel(f"{title} by {base}'s, with quartiles")
    axes[0].set_yticks(range(len(cases)), [case["program"] for case in cases])
    axes[0].invert_yaxis()
    axes[0].legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=6)
    return figure


def tails(plot, data):
    """A panel for each case and call: the distribution of each malloc, from the median to the worst call."""
    cases, calls, points = data["cases"], ("malloc", "free"), ("p50", "p99", "p999", "p9999", "max")
    paint = colors(names_of(cases))
    figure, axes = plot.subplots(
        len(calls), len(cases), figsize=(3.6 * len(cases) + 1, 5), squeeze=False, sharey=True, layout="constrained"
    )
    for of_call, call in zip(axes, calls):
        for one, case in zip(of_call, cases):
            for name, runs in case["ns"].items():
                values = [max(1, statistics.median(run[call][point] for run in runs)) for point in points]
                one.plot(range(len(points)), values, marker="o", markersize=3, label=name, color=paint[name])
            one.set_title(f"{call}, {case['row']} x{case['threads']}")
            one.set_yscale("log")
            one.set_xticks(range(len(points)), ["p50", "p99", "p99.9", "p99.99", "worst"])
        of_call[0].set_ylabel("ns for a call")
    axes[0][-1].legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def follow_the_page(text):
    """An SVG of matplotlib's, which has light colours, with a style sheet for dark pages."""
    rules = "".join(
        f'[style*="{what}: {light}"]{{{what}:{dark} !important}}'
        for light, dark in DARK.items()
        for what in ("fill", "stroke")
        if f"{what}: {light}" in text
    )
    sheet = f"@media (prefers-color-scheme:dark){{text{{fill:#e5e7eb}}{rules}}}"
    return text.replace("</style>", f"{sheet}</style>", 1)


FIGURES = {
    "counts": counts,
    "times": times,
    "rss": rss,
    "scale": scale,
    "syscalls": syscalls,
    "apps": apps,
    "tails": tails,
    "contention": contention,
}


def draw(group, data, path):
    """Draws the figure of a group; returns whether there is one."""
    if group == "surface":
        if len(data["cells"]) > 1 and any(len(cell["figures"]) > 1 for cell in data["cells"]):
            path.write_text(heatmap.svg(data), encoding="utf-8")
            return True
        return False
    plot = load()
    if plot is None:
        return False
    figure = FIGURES[group](plot, data)
    # The numbers are in the file too, so that a test can compare it with a table of the same run.
    numbers = json.dumps(data["figures"]) if group == "counts" else None
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None, "Description": numbers})
    path.write_text(follow_the_page(path.read_text(encoding="utf-8")), encoding="utf-8")
    plot.close(figure)
    return True
