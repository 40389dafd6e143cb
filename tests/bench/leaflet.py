"""The files that a bench leaves, and several of them side by side."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agent import (
    ANSWER_BYTES_MOST,
    PAGE,
    AgentError,
    ConfigError,
    JsonDict,
    JsonObject,
    cut,
    json_list,
    json_object,
    open_ordinary,
    printable,
    strict_json,
    write_run_file,
)
from tests.bench.asking import BenchLine
from tests.bench.figures import Advice, BenchResult, Share, size_name
from tests.bench.keeping import BENCH_RESULT, BENCH_SETTINGS, _bench_number, bench_folders
from tests.bench.targets import BENCH_SIZES


def bench_json(result: BenchResult, advice: Sequence[Advice]) -> JsonDict:
    """What bench.json holds."""
    shares: JsonDict = {}
    for name, share in result.shares.items():
        shares[name] = {
            **share._asdict(),
            "low": share.low,
            "high": share.high,
        }
    lines: JsonDict = {}
    for axis, fit in result.lines.items():
        lines[axis] = fit._asdict()
    return {
        "about": result.about,
        "rows": result.rows(),
        "shares": shares,
        "numbers": result.numbers,
        "errors": result.errors,
        "lines": lines,
        "advice": [item.text for item in advice],
    }


def bench_settings(result: BenchResult, advice: Sequence[Advice]) -> JsonDict:
    """What --config takes, from the advice."""
    settings: JsonDict = {"lmstudio_model": result.about.get("model", "")}
    for item in advice:
        settings |= item.settings
    return settings


def keep_result(
    folder: Path, result: BenchResult, lines: Sequence[BenchLine], advice: Sequence[Advice]
) -> None:
    """Writes the settings, the page and, last, bench.json, which says that the bench is finished.

    Raises AgentError if the folder cannot be written.
    """
    settings = bench_settings(result, advice)
    texts = {
        BENCH_SETTINGS: json.dumps(settings, indent=1),
        "bench.html": bench_page(result, lines, advice),
        BENCH_RESULT: json.dumps(bench_json(result, advice), indent=1),
    }
    try:
        for name, text in texts.items():
            write_run_file(folder, name, text.encode())
    except OSError as error:
        raise AgentError(
            f"The result cannot be written to {folder} ({error.strerror}); free space and start"
            " the bench again, which asks nothing twice."
        ) from None


BENCH_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
{colours}
* {{ box-sizing: border-box; min-width: 0 }}
body {{ margin: 0; padding: 16px var(--side) 40px; background: var(--ground); color: var(--ink);
font: 15px/1.5 system-ui; overflow-wrap: break-word }}
main {{ display: grid; gap: 16px; grid-template-columns: repeat(2, 1fr) }}
section {{ background: var(--card); border: 1px solid var(--line); border-radius: 10px;
padding: 12px 16px }}
.whole {{ grid-column: 1 / -1 }}
@media (max-width: 800px) {{ section {{ grid-column: 1 / -1 }} }}
h1 {{ font-size: 22px; margin: 0 0 12px }}
h2 {{ font-size: 15px; margin: 0 0 8px }}
ul {{ margin: 0; padding-left: 20px }}
dl {{ display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 0 }}
dl div {{ display: flex; gap: 6px }}
dd {{ margin: 0 }}
dt, small {{ color: var(--soft) }}
small {{ display: block; margin-top: 6px }}
pre {{ overflow-x: auto; margin: 0; font: 13px/1.5 ui-monospace, monospace }}
table {{ border-collapse: collapse; width: 100% }}
td {{ padding: 3px 12px 3px 0; border-bottom: 1px solid var(--line); vertical-align: top;
font-variant-numeric: tabular-nums }}
svg {{ display: block; width: 100%; max-width: 400px; height: auto; margin: 0 auto }}
text {{ font-size: 12px; fill: var(--soft); text-anchor: middle }}
.axis {{ stroke: var(--line); fill: none }}
.bar {{ fill: var(--blue) }}
.reach {{ stroke: var(--ink); stroke-width: 2; fill: none }}
.hit {{ fill: var(--green) }}
.miss {{ fill: var(--red) }}
</style></head><body><h1>{title}</h1><main>
<section class="whole"><dl>{about}</dl></section>
<section class="whole"><h2>What to do about it</h2><ul>{advice}</ul></section>
<section><h2>Targets hit, by their size</h2>{bars}
<small>Pixels of the shorter side; the lines are intervals of 95 %.</small></section>
<section><h2>Where the clicks went around their targets</h2>{scatter}
<small>Grid units, {reach:.0f} to each side; what is farther away stands at the rim. Green: hit,
red: missed.</small></section>
<section class="whole"><h2>Figures, with intervals of 95 %, lines of 99 %</h2>
<table>{rows}</table></section>
<section class="whole"><h2>Settings that follow, for --config</h2><pre>{settings}</pre></section>
</main></body></html>
"""
BAR_WIDTH = 60  # units of the drawing, with its gap
BAR_HEIGHT = 160
BAR_LEFT = 44  # for the scale
BAR_TOP = 24  # for the figure of a full bar
SCATTER_SIDE = 240
SCATTER_POINT = 3  # the radius of a point
SCATTER_REACH = 40.0  # grid units from the middle to each side


def page_colours() -> str:
    """The colours of the report's page, light and dark."""
    begin = PAGE.index(":root {")
    return PAGE[begin : PAGE.index(".good {", begin)]


def in_html(value: object) -> str:
    """A text as a page shows it."""
    shown = printable(str(value))
    for char, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        shown = shown.replace(char, name)
    return shown


def bench_page(result: BenchResult, lines: Sequence[BenchLine], advice: Sequence[Advice]) -> str:
    """The page of a bench: no script, nothing from elsewhere, every text escaped."""
    listed: list[str] = []
    for item in advice:
        listed.append(f"<li>{in_html(item.text)}</li>")
    rows: list[str] = []
    for name, value in result.rows():
        cells = f"<td>{in_html(name)}</td><td>{in_html(value)}</td>"
        rows.append(f"<tr>{cells}</tr>")
    settings = bench_settings(result, advice)
    return BENCH_PAGE.format(
        title=in_html(f"Bench of {result.about.get('model', '')}"),
        colours=page_colours(),
        about=_about_list(result.about),
        advice="".join(listed) or "<li>Nothing.</li>",
        bars=_bars(result),
        scatter=_scatter(lines),
        reach=SCATTER_REACH,
        rows="".join(rows),
        settings=in_html(json.dumps(settings, indent=1)),
    )


def _about_list(about: JsonObject) -> str:
    """What was measured, as terms and what they are."""
    parts: list[str] = []
    for name, value in about.items():
        shown = value
        if isinstance(value, list):
            shown = ", ".join(map(str, value))
        if shown != "":
            parts.append(f"<div><dt>{in_html(name)}</dt><dd>{in_html(shown)}</dd></div>")
    return "".join(parts)


def _bars(result: BenchResult) -> str:
    """A bar for each size, with the line of its interval and its figure."""
    width = BAR_LEFT + BAR_WIDTH * len(BENCH_SIZES)
    bottom = BAR_TOP + BAR_HEIGHT
    parts: list[str] = []
    for percent in (0, 50, 100):
        y = bottom - BAR_HEIGHT * percent / 100
        parts.append(f'<path class="axis" d="M{BAR_LEFT} {y:.1f}H{width}"/>')
        parts.append(f'<text x="{BAR_LEFT / 2:.0f}" y="{y + 4:.1f}">{percent} %</text>')
    for place, size in enumerate(BENCH_SIZES):
        share = result.shares[size_name(size)]
        middle = BAR_LEFT + place * BAR_WIDTH + BAR_WIDTH / 2
        parts.append(_bar(share, middle))
        parts.append(f'<text x="{middle:.0f}" y="{bottom + 16}">{size}</text>')
        parts.append(f'<text x="{middle:.0f}" y="{bottom + 32}">n {share.of}</text>')
    return _drawing("Targets hit by size", width, bottom + 40, parts)


def _bar(share: Share, middle: float) -> str:
    """One bar, empty where nothing was measured."""
    if not share.of:
        return ""
    bottom = BAR_TOP + BAR_HEIGHT
    height = share.rate * BAR_HEIGHT
    high = bottom - BAR_HEIGHT * share.high
    low = bottom - BAR_HEIGHT * share.low
    box = f'x="{middle - 20:.0f}" y="{bottom - height:.1f}" width="40" height="{height:.1f}"'
    reach = f'd="M{middle:.0f} {high:.1f}V{low:.1f}"'
    figure = f'<text x="{middle:.0f}" y="{high - 5:.1f}">{100 * share.rate:.0f} %</text>'
    return f'<rect class="bar" {box}/><path class="reach" {reach}/>{figure}'


def _drawing(name: str, width: float, height: float, parts: Iterable[str]) -> str:
    """A drawing that takes the width that there is."""
    box = f'viewBox="0 0 {width} {height}"'
    return f'<svg role="img" aria-label="{name}" {box}>{"".join(parts)}</svg>'


def _scatter(lines: Sequence[BenchLine]) -> str:
    """A point for each click; one farther away stands at the rim."""
    side = SCATTER_SIDE
    middle = side / 2
    cross = f"M{middle} 0V{side}M0 {middle}H{side}M0 0H{side}V{side}H0Z"
    parts = [f'<path class="axis" d="{cross}"/>']
    for line in lines:
        if line.part != "pointing" or line.x < 0:
            continue
        x = _scatter_place(line.x - line.true_x)
        y = _scatter_place(line.y - line.true_y)
        kind = "hit" if line.right else "miss"
        radius = SCATTER_POINT
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>')
    return _drawing("Clicks around their targets", side, side, parts)


def _scatter_place(away: float) -> float:
    """Where on the scatter a distance along one axis stands; a point at the rim is seen whole."""
    reach = max(away, -SCATTER_REACH)
    reach = min(reach, SCATTER_REACH)
    middle = SCATTER_SIDE / 2
    return middle + (middle - SCATTER_POINT) * reach / SCATTER_REACH


# -- comparison


def read_result(root: Path, name: str) -> JsonDict:
    """A bench.json by its number, folder or path; raises ConfigError."""
    path = Path(name)
    number = name.removeprefix("bench_").lstrip("0")
    try:
        for folder in bench_folders(root):
            if str(_bench_number(folder)) == number:
                path = folder
        if path.is_dir():
            path = path / BENCH_RESULT
        with open(path, "rb", opener=open_ordinary) as stream:
            return json_object(strict_json(stream.read(ANSWER_BYTES_MOST)))
    except (OSError, ValueError) as error:
        reason = f" ({getattr(error, 'strerror', None) or error})"
        if isinstance(error, FileNotFoundError):
            reason = ""
        raise ConfigError(
            f"There is no result of a bench at {path}{reason};"
            " give its number, its folder or its bench.json."
        ) from None


COMPARED = ("model", "size", "grammar", "thinking", "server")  # the head of a column


CELL_WIDTH = 54  # the line along an axis with its number of answers is the longest figure


def compare_benches(results: Sequence[JsonObject]) -> Iterator[str]:
    """A table of several results side by side; what one lacks stays empty."""
    columns = [_column_of(result) for result in results]
    names: dict[str, None] = {}
    for column in columns:
        names |= dict.fromkeys(column)
    for name in names:
        row = f"{cut(name, 42):<42}"
        for column in columns:
            cell = cut(column.get(name, ""), CELL_WIDTH)
            row += f"  {cell:<{CELL_WIDTH}}"
        yield row.rstrip()


def _column_of(result: JsonObject) -> dict[str, str]:
    """A result as (figure, value), whatever its file holds."""
    about = json_object(result.get("about"))
    column: dict[str, str] = {}
    for name in COMPARED:
        column[name] = printable(str(about.get(name, "")))
    for row in json_list(result.get("rows")):
        cells = json_list(row)
        if len(cells) == 2:
            name, value = cells
            column[printable(str(name))] = printable(str(value))
    return column
