"""Frames to measure with: drawn here, so that a benchmark needs nothing but the repository, or read from a folder."""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import agent
from agent import Canvas, Rect

WIDTH, HEIGHT = 1536, 864
WORDS = "the screen shows a window with text and every line of it is told by its own words so that nothing repeats".split()


def text_width(line: str, scale: int = 2) -> int:
    return Canvas(1, 1).text(0, 0, line, 0, scale)


def sentence(dice: random.Random, width: int, scale: int) -> str:
    line = ""
    while text_width(line, scale) < width - 120:
        line += (
            dice.choice(WORDS)[: dice.randint(2, 9)]
            + dice.choice(" , .-;" if dice.random() < 0.2 else " ")
            + " "
        )
    return line


def write_lines(
    canvas: Canvas, rect: Rect, colours: list[int], dice: random.Random, scale: int = 2
) -> None:
    for y in range(rect.top, rect.top + rect.height - 9 * scale, 11 * scale):
        x, line = rect.left, sentence(dice, rect.width, scale)
        for word in line.split(" "):
            x = canvas.text(x, y, word + " ", dice.choice(colours), scale)


def photo(width: int, height: int, seed: int = 1) -> bytes:
    """Soft shapes with a grain of a few levels, as a camera's picture has them."""
    dice, cell = random.Random(seed), 48
    across, down = width // cell + 2, height // cell + 2
    grid = [
        [[dice.randrange(40, 216) for _ in range(across)] for _ in range(down)] for _ in range(3)
    ]
    pixels = bytearray(width * height * 4)
    for channel in range(3):
        plane = bytearray()
        for y in range(height):
            row, part = divmod(y, cell)
            ends = [
                a * (cell - part) + b * part
                for a, b in zip(grid[channel][row], grid[channel][row + 1], strict=True)
            ]
            smooth = [
                (left * (cell - x) + right * x) // (cell * cell)
                for left, right in zip(ends, ends[1:], strict=False)
                for x in range(cell)
            ][:width]
            grain = dice.randbytes(width)
            plane += bytes(
                [value + (g & 7) + (g >> 6) - 4 for value, g in zip(smooth, grain, strict=True)]
            )
        pixels[channel::4] = plane
    return bytes(pixels)


def text() -> bytes:
    canvas, dice = Canvas(WIDTH, HEIGHT), random.Random(2)
    canvas.fill(Rect(0, 0, WIDTH, HEIGHT), 0xFFFFFF)
    canvas.fill(Rect(0, 0, WIDTH, 40), 0xE8EDF3)
    canvas.text(16, 10, "Document - Editor", 0x202020)
    write_lines(canvas, Rect(60, 70, WIDTH - 120, HEIGHT - 100), [0x1B2430], dice)
    return bytes(canvas.pixels)


def code() -> bytes:
    canvas, dice = Canvas(WIDTH, HEIGHT), random.Random(3)
    canvas.fill(Rect(0, 0, WIDTH, HEIGHT), 0x1E1E1E)
    canvas.fill(Rect(0, 0, 280, HEIGHT), 0x252526)
    write_lines(canvas, Rect(20, 60, 240, HEIGHT - 200), [0xCCCCCC], dice, 1)
    write_lines(
        canvas,
        Rect(320, 40, 1180, HEIGHT - 60),
        [0x9CDCFE, 0xC586C0, 0xDCDCAA, 0xD4D4D4, 0xCE9178],
        dice,
        1,
    )
    return bytes(canvas.pixels)


def paste(canvas: Canvas, pixels: bytes, rect: Rect) -> None:
    for row in range(rect.height):
        at = ((rect.top + row) * canvas.width + rect.left) * 4
        canvas.pixels[at : at + rect.width * 4] = pixels[
            row * rect.width * 4 : (row + 1) * rect.width * 4
        ]


def busy() -> bytes:
    """Windows over a picture: what a desktop in use looks like."""
    canvas, dice = Canvas(WIDTH, HEIGHT, photo(WIDTH, HEIGHT, 4)), random.Random(4)
    for left, top in ((60, 50), (420, 160), (820, 380)):
        canvas.fill(Rect(left, top, 620, 400), 0xF8FAFC, 8)
        canvas.fill(Rect(left, top, 620, 34), 0xD3DBE6, 8)
        write_lines(canvas, Rect(left + 20, top + 50, 580, 330), [0x1B2430, 0x2457D6], dice, 1)
        paste(canvas, photo(160, 120, left), Rect(left + 430, top + 250, 160, 120))
    canvas.fill(Rect(0, HEIGHT - 40, WIDTH, 40), 0x202830)
    return bytes(canvas.pixels)


def demo() -> bytes:
    desktop = agent.DemoDesktop(agent.SystemClock(agent.Stop()))
    return desktop.capture(desktop.screen(), WIDTH, HEIGHT).pixels


def typed(pixels: bytes, line: str = "Hello, a little text was typed.") -> bytes:
    """The same frame with one more line of text: a small change."""
    canvas = Canvas(WIDTH, HEIGHT, pixels)
    canvas.fill(Rect(400, 420, text_width(line), 18), 0xFFFFFF)
    canvas.text(400, 420, line, 0x1B2430)
    return bytes(canvas.pixels)


def drawn() -> dict[str, bytes]:
    """Five frames of 1536x864 as BGRX bytes."""
    return {
        "text": text(),
        "code": code(),
        "busy": busy(),
        "photo": photo(WIDTH, HEIGHT),
        "demo": demo(),
    }


def from_folder(folder: str) -> dict[str, bytes]:
    """Every PNG of a folder at 1536x864; palettes, filters and interlace need Pillow."""
    frames = {}
    for path in sorted(Path(folder).glob("*.png")):
        try:
            from PIL import Image

            with Image.open(path) as image:  # averaged like HALFTONE does it
                rgb = image.convert("RGB").resize((WIDTH, HEIGHT), Image.Resampling.BOX).tobytes()
            width, height = WIDTH, HEIGHT
        except ImportError:
            rgb, width, height = agent.png_to_rgb(path.read_bytes())
        pixels = bytearray(width * height * 4)
        pixels[0::4], pixels[1::4], pixels[2::4] = rgb[2::3], rgb[1::3], rgb[0::3]
        frames[path.stem] = agent.scale_bgrx(
            bytes(pixels), width, Rect(0, 0, width, height), WIDTH, HEIGHT
        )
    return frames


def read(folder: str | None) -> dict[str, bytes]:
    return from_folder(folder) if folder else drawn()
