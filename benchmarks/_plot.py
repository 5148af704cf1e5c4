"""Charts as SVG files, written with the standard library only.

A chart has its own background, light or dark according to the reader's system, so that it is readable anywhere. Series
differ in shape as well as in colour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

# Colours that people with any kind of colour blindness can tell apart (after Okabe and Ito).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "10 4", "1 2")
_WIDTH, _HEIGHT = 760, 420
_LEFT, _TOP, _BOTTOM = 76, 52, 64
_LEGEND = 200

_STYLE = """
  .back { fill: #ffffff } .grid { stroke: #d8dee4 } .axis { stroke: #59636e }
  text { fill: #1f2328; font: 13px system-ui, -apple-system, "Segoe UI", sans-serif }
  .title { font-size: 16px; font-weight: 600 } .small { font-size: 11px }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117 } .grid { stroke: #2f353d } .axis { stroke: #9198a1 } text { fill: #f0f6fc }
  }
"""


@dataclass(frozen=True)
class Axis:
    """A scale from values to positions along an axis, with its marks."""

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        """Return the position of a value: 0 at the low end, 1 at the high end."""
        if self.log:
            return (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return (value - self.low) / (self.high - self.low)


def axis(values: Sequence[float], log: bool = False, from_zero: bool = False) -> Axis:
    """Return an axis that contains all values and ends on round numbers."""
    if log and min(values) <= 0:
        raise ValueError(f"a logarithmic axis needs values above 0, got {min(values):g}")
    if log:
        return _log_axis(min(values), max(values))
    low, high = min(values), max(values)
    return _linear_axis(min(0.0, low) if from_zero else low, high)


def _linear_axis(low: float, high: float) -> Axis:
    if high - low <= 1e-9 * max(1e-200, abs(low), abs(high)):
        low, high = low - 0.5, high + 0.5
    step = _round_step((high - low) / 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(number * step for number in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], False, ticks)


def _round_step(wanted: float) -> float:
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= wanted * 0.999)


def _log_axis(low: float, high: float) -> Axis:
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    last = max(last, first + 1)
    factors = (1,) if last - first > 2 else (1, 2, 5)
    inner = [factor * 10.0**power for power in range(first, last) for factor in factors]
    return Axis(10.0**first, 10.0**last, True, (*inner, 10.0**last))


@dataclass(frozen=True)
class _Frame:
    """The drawing area; the y axis points up, pixels count down."""

    y: Axis
    right: int

    @property
    def width(self) -> int:
        return self.right - _LEFT

    @property
    def height(self) -> int:
        return _HEIGHT - _TOP - _BOTTOM

    def down(self, value: float) -> float:
        return _TOP + self.height * (1 - self.y.at(value))

    def across(self, share: float) -> float:
        return _LEFT + self.width * share


def line_chart(
    path: str | Path,
    title: str,
    x_label: str,
    y_label: str,
    series: dict[str, list[tuple[float, float]]],
    log_x: bool = False,
    log_y: bool = False,
) -> None:
    """Write a chart with a line for each series of (x, y) points."""
    points = [point for line in series.values() for point in line]
    if not points:
        raise ValueError("a line chart needs at least one point")
    x = axis([one for one, _ in points], log_x)
    frame = _Frame(axis([one for _, one in points], log_y), _WIDTH - _LEGEND)
    parts = _framed(frame, title, y_label)
    parts += _x_ticks(frame, x, x_label)
    for number, line in enumerate(series.values()):
        parts += _line(number, [(frame.across(x.at(a)), frame.down(b)) for a, b in sorted(line)])
    parts += _legend(list(series), dashed=True)
    _write(path, title, parts)


def bar_chart(
    path: str | Path, title: str, groups: list[str], series: dict[str, list[float]], y_label: str = ""
) -> None:
    """Write a chart with a bar for each series in each group; none where a value is not a number.

    A group's name may have two lines.
    """
    values = [value for row in series.values() for value in row if not math.isnan(value)]
    if not values or any(len(row) != len(groups) for row in series.values()):
        raise ValueError(f"a bar chart needs one value of each series for each of its {len(groups)} groups")
    frame = _Frame(axis([0.0, *values], from_zero=True), _WIDTH - _LEGEND)
    parts = _framed(frame, title, y_label)
    slot = frame.width / len(groups)
    for place, group in enumerate(groups):
        middle = frame.across((place + 0.5) / len(groups))
        parts += [
            _text(middle, _HEIGHT - _BOTTOM + 20 + 16 * number, line, "middle")
            for number, line in enumerate(group.split("\n"))
        ]
        parts += _bars(frame, middle, slot * 0.84, [row[place] for row in series.values()])
    parts += _legend(list(series), dashed=False)
    _write(path, title, parts)


def _bars(frame: _Frame, middle: float, room: float, values: list[float]) -> list[str]:
    wide, zero, parts = room / len(values), frame.down(0.0), []
    for number, value in enumerate(values):
        if math.isnan(value):
            continue
        left, top = middle - room / 2 + number * wide, frame.down(value)
        parts.append(
            f'<rect x="{left:.1f}" y="{min(top, zero):.1f}" width="{wide * 0.9:.1f}" '
            f'height="{abs(zero - top):.1f}" fill="{_colour(number)}"/>'
        )
        if wide >= 22:
            parts.append(_text(left + wide * 0.45, min(top, zero) - 4, _short(value), "middle", "small"))
    return parts


def _framed(frame: _Frame, title: str, y_label: str) -> list[str]:
    parts = [_text(_LEFT, 28, title, "start", "title")]
    for tick in frame.y.ticks:
        y = frame.down(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{frame.right}" y2="{y:.1f}"/>')
        parts.append(_text(_LEFT - 8, y + 4, _number(tick), "end", "small"))
    low = _HEIGHT - _BOTTOM
    parts.append(f'<line class="axis" x1="{_LEFT}" y1="{low}" x2="{frame.right}" y2="{low}"/>')
    if y_label:
        middle = _TOP + frame.height / 2
        parts.append(
            f'<text transform="translate(20 {middle:.1f}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>'
        )
    return parts


def _x_ticks(frame: _Frame, x: Axis, label: str) -> list[str]:
    low, parts = _HEIGHT - _BOTTOM, []
    for tick in x.ticks:
        across = frame.across(x.at(tick))
        parts.append(f'<line class="axis" x1="{across:.1f}" y1="{low}" x2="{across:.1f}" y2="{low + 5}"/>')
        parts.append(_text(across, low + 20, _number(tick), "middle", "small"))
    parts.append(_text(frame.across(0.5), _HEIGHT - 16, label, "middle"))
    return parts


def _line(number: int, points: list[tuple[float, float]]) -> list[str]:
    where = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    colour = _colour(number)
    parts = [
        f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="2.2" '
        f'stroke-dasharray="{_DASHES[number % len(_DASHES)]}"/>'
    ]
    if len(points) <= 40:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    return parts


def _legend(names: list[str], dashed: bool) -> list[str]:
    left, parts = _WIDTH - _LEGEND + 18, []
    for number, name in enumerate(names):
        y = _TOP + 12 + number * 24
        if dashed:
            parts.append(
                f'<line x1="{left}" y1="{y}" x2="{left + 24}" y2="{y}" stroke="{_colour(number)}" '
                f'stroke-width="2.2" stroke-dasharray="{_DASHES[number % len(_DASHES)]}"/>'
            )
        else:
            parts.append(f'<rect x="{left + 6}" y="{y - 7}" width="14" height="14" fill="{_colour(number)}"/>')
        parts.append(_text(left + 32, y + 4, name, "start"))
    return parts


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:g}"


def _short(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:,.0f}"


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _write(path: str | Path, title: str, parts: list[str]) -> None:
    body = "\n".join(f"  {part}" for part in parts)
    Path(path).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" role="img">\n  <title>{escape(title)}</title>\n  <style>{_STYLE}</style>\n'
        f'  <rect class="back" width="{_WIDTH}" height="{_HEIGHT}" rx="8"/>\n{body}\n</svg>\n',
        encoding="utf-8",
    )


def stack_charts(path: str | Path, title: str, charts: Sequence[str | Path]) -> None:
    """Write one chart that shows several others below each other."""
    panels = [
        Path(chart).read_text(encoding="utf-8").replace("<svg ", f'<svg y="{number * _HEIGHT}" ', 1)
        for number, chart in enumerate(charts)
    ]
    height = _HEIGHT * len(panels)
    Path(path).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" role="img">\n<title>{escape(title)}</title>\n{"".join(panels)}</svg>\n',
        encoding="utf-8",
    )
