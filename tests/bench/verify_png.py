"""Whether independent readers agree with the encoder: 400 odd sizes, single frames and sequences of changing ones.

    python tests/bench/verify_png.py [--sizes 400]

Needs Pillow (pip) for the pixels and pngcheck (apt-get install pngcheck) for the format; says which of them is missing.
"""

from __future__ import annotations

import argparse
import base64
import io
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import frames
from frames import agent


def pictures(dice: random.Random, width: int, height: int) -> list[bytes]:
    """Noise, a soft picture, windows, and each of them with a small change."""
    kinds = [dice.randbytes(width * height * 4), frames.photo(width, height, width)]
    canvas = agent.Canvas(width, height)
    canvas.fill(agent.Rect(0, 0, width, height), dice.randrange(1 << 24))
    canvas.fill(
        agent.Rect(width // 4, height // 4, width // 2, height // 2), dice.randrange(1 << 24)
    )
    kinds.append(bytes(canvas.pixels))
    changed = []
    for pixels in kinds:
        canvas = agent.Canvas(width, height, pixels)
        canvas.fill(
            agent.Rect(dice.randrange(width), dice.randrange(height), 9, 9), dice.randrange(1 << 24)
        )
        changed += [pixels, bytes(canvas.pixels), bytes(canvas.pixels)]
    return changed


parser = argparse.ArgumentParser()
parser.add_argument("--sizes", type=int, default=400)
count = parser.parse_args().sizes
try:
    from PIL import Image
except ImportError:
    sys.exit("Pillow is missing: pip install pillow")
pngcheck = shutil.which("pngcheck") or sys.exit("pngcheck is missing: apt-get install pngcheck")
dice, seen = random.Random(7), 0
with tempfile.TemporaryDirectory() as folder:
    for _ in range(count):
        width, height = dice.randint(1, 300), dice.choice([1, 31, 32, 33, 64, dice.randint(1, 200)])
        encoder, files = agent.PngEncoder(), []
        for pixels in pictures(dice, width, height):
            picture = encoder.encode(pixels, width, height)
            assert base64.b64decode(picture.base64, validate=True) == picture.png, (width, height)
            with Image.open(io.BytesIO(picture.png)) as image:
                assert image.mode == "RGB" and image.size == (width, height)
                assert image.tobytes() == bytes(agent.bgrx_to_rgb(pixels)), (width, height)
            files.append(Path(folder, f"{len(files)}.png"))
            files[-1].write_bytes(picture.png)
        subprocess.run([pngcheck, "-q", *map(str, files)], check=True)
        seen += len(files)
print(f"{seen} pictures of {count} sizes: Pillow reads the same pixels, pngcheck finds no error")
