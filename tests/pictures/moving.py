"""A moving picture (APNG) of a run, from its screenshots: one frame a turn, with what was done and where.

python tests/pictures/moving.py dumps/run_0001 demo_run.png

The screenshots are what the model saw; an orange disc marks where it acted, the line below says what it did. The
pixels of a frame are means of those that it stands for, and of each frame only what differs from the last is stored.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

import agent  # noqa: E402  (it is found only now)
from tests.seams import chunk, rgb_of  # noqa: E402

WIDTH = 480  # pixels of the moving picture
CAPTION = 24  # pixels of the line below
LETTERS = 38  # that fit into it
TURN_MS = 1400
LAST_MS = 4000
DISC = 11  # pixels of its radius
ORANGE, WHITE, BLACK = 0xFF6400, 0xFFFFFF, 0x202020


class Turn(NamedTuple):
    """One act or report of a run: its screenshot, what was done, and where (0 to 1000, both ways)."""

    number: int
    screenshot: str
    words: str
    places: tuple[tuple[int, int], ...]


def turns_of(folder: Path) -> Iterator[Turn]:
    """The turns of a run that have a screenshot, from its journal."""
    places: tuple[tuple[int, int], ...] = ()
    for line in (folder / "turns.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["kind"] == "intent":
            points = [value for value in record["args"].values() if isinstance(value, dict)]
            places = tuple((point["x"], point["y"]) for point in points if "x" in point)
        if record["kind"] == "action" and record["screenshot"]:
            words = record["result"].splitlines()[0]
            yield Turn(record["turn"], record["screenshot"], words, places)
            places = ()


def smaller(rgb: bytes, width: int, height: int) -> tuple[bytes, int]:
    """The picture at WIDTH pixels, and its height then; each pixel is a mean of the lines and columns that it has."""
    shown = round(height * WIDTH / width)
    columns = [x * width // WIDTH for x in range(WIDTH + 1)]
    lines = [y * height // shown for y in range(shown + 1)]
    small = bytearray(WIDTH * shown * 3)
    for channel in range(3):
        values, means = rgb[channel::3], bytearray()
        for top, bottom in pairwise(lines):
            rows = [values[y * width : (y + 1) * width] for y in range(top, bottom)]
            sums = [0, *accumulate(map(sum, zip(*rows, strict=True)))]
            for start, end in pairwise(columns):
                means.append((sums[end] - sums[start]) // ((end - start) * (bottom - top)))
        small[channel::3] = means
    return bytes(small), shown


def frame_of(folder: Path, turn: Turn) -> tuple[bytes, int]:
    """One frame as RGB, and its height: the screenshot, the marks, the caption."""
    rgb, shown = smaller(*agent.png_to_rgb((folder / turn.screenshot).read_bytes()))
    height = shown + CAPTION
    bgrx = bytearray(WIDTH * height * 4)
    for channel in range(3):
        bgrx[2 - channel : WIDTH * shown * 4 : 4] = rgb[channel::3]
    canvas = agent.Canvas(WIDTH, height, bytes(bgrx))
    for x, y in turn.places:
        left = x * WIDTH // 1000 - DISC
        top = y * shown // 1000 - DISC
        box = agent.Rect(left, top, 2 * DISC, 2 * DISC)
        canvas.fill(box, ORANGE, radius=DISC, alpha=0.6)
    canvas.fill(agent.Rect(0, shown, WIDTH, CAPTION), BLACK)
    said = f"{turn.number:2} {turn.words}"
    if len(said) > LETTERS:
        said = said[: LETTERS - 3] + "..."
    canvas.text(6, shown + 3, said, WHITE)
    return rgb_of(canvas.pixels), height


def what_differs(before: bytes, after: bytes, height: int) -> tuple[tuple[int, ...], bytes]:
    """The smallest rectangle that holds all that changed, as (width, height, left, top), and its compressed rows.

    One pixel if nothing did. That no row is filtered suits flat windows best.
    """
    stride = WIDTH * 3
    starts = range(0, stride * height, stride)
    rows = [(before[at : at + stride], after[at : at + stride]) for at in starts]
    changed = [y for y, (one, other) in enumerate(rows) if one != other] or [0]
    top, bottom = changed[0], changed[-1] + 1
    differing = (
        at // 3
        for one, other in rows[top:bottom]
        for at, pair in enumerate(zip(one, other, strict=True))
        if pair[0] != pair[1]
    )
    columns = {*differing} or {0}
    left, right = min(columns), max(columns) + 1
    kept = b"".join(b"\0" + other[3 * left : 3 * right] for _, other in rows[top:bottom])
    return (right - left, bottom - top, left, top), zlib.compress(kept, 9)


def moving_picture(frames: Sequence[bytes], height: int) -> bytes:
    """The APNG: chunks acTL, fcTL and fdAT as the PNG specification, third edition, describes them."""
    header = struct.pack(">2I5B", WIDTH, height, 8, 2, 0, 0, 0)
    chunks = [chunk(b"IHDR", header), chunk(b"acTL", struct.pack(">2I", len(frames), 0))]
    sequence = 0
    shown = bytes(byte ^ 255 for byte in frames[0])  # all of the first frame differs from it
    for number, frame in enumerate(frames):
        place, data = what_differs(shown, frame, height)
        shown = frame
        delay = LAST_MS if number == len(frames) - 1 else TURN_MS
        control = struct.pack(">5I2H2B", sequence, *place, delay, 1000, 0, 0)
        chunks.append(chunk(b"fcTL", control))
        if number:
            chunks.append(chunk(b"fdAT", struct.pack(">I", sequence + 1) + data))
        else:
            chunks.append(chunk(b"IDAT", data))
        sequence += 2 if number else 1
    return b"".join([b"\x89PNG\r\n\x1a\n", *chunks, chunk(b"IEND", b"")])


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    folder, picture = map(Path, sys.argv[1:])
    made = [frame_of(folder, turn) for turn in turns_of(folder)]
    if not made:
        raise SystemExit(f"{folder} has no turn with a screenshot.")
    picture.write_bytes(moving_picture([frame for frame, _ in made], made[0][1]))
    print(f"{picture}: {len(made)} frames, {picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
