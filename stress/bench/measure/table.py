"""Tables for people: the first column is aligned left, the others right."""


def text(value):
    if value is None:
        return "-"
    if isinstance(value, float):
        value = 0.0 if abs(value) < 0.005 else value  # a difference of two runs may be slightly negative
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"
    return str(value)


def format_table(header, lines, left=1, last_left=False):
    """Formats lines of cells. The first `left` columns are aligned left, and the last one too if last_left is set."""
    cells = [[text(cell) for cell in line] for line in [header, *lines]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    out = []
    for line in cells:
        parts = [
            cell.ljust(width) if i < left or last_left and i == len(line) - 1 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths))
        ]
        out.append("  ".join(parts).rstrip())
    return "\n".join(out)
