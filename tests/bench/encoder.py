"""How fast and how small the encoder is, as ratios to peers in the same process.

    python tests/bench/encoder.py [--rounds 7] [FOLDER OF PNGS]

Peers: the straightforward encoder (rgb_to_png: slices, no filter, zlib 6); with `pip install mss pillow` also
python-mss' tools.to_png and Pillow, default and level 1. Each figure is a median, rounds interleaved; the last
line is the geometric mean. Ratios above 1 mean that agent.py is faster. All outputs of the encoder are decoded.
"""

from __future__ import annotations

import argparse
import io
import platform
import statistics
import sys
import time
from collections.abc import Callable

import frames
from frames import HEIGHT, WIDTH, agent


def mss_png(pixels: bytes) -> bytes:
    rgb = bytearray(WIDTH * HEIGHT * 3)  # as mss.ScreenShot.rgb does
    rgb[0::3], rgb[1::3], rgb[2::3] = pixels[2::4], pixels[1::4], pixels[0::4]
    return mss.tools.to_png(bytes(rgb), (WIDTH, HEIGHT)) or b""


def pillow_png(level: int) -> Callable[[bytes], bytes]:
    def encode(pixels: bytes) -> bytes:
        out = io.BytesIO()
        image = Image.frombytes("RGB", (WIDTH, HEIGHT), pixels, "raw", "BGRX")
        image.save(out, "PNG", **({"compress_level": level} if level else {}))
        return out.getvalue()

    return encode


def straightforward(pixels: bytes) -> bytes:
    return agent.rgb_to_png(agent.bgrx_to_rgb(pixels), WIDTH, HEIGHT)


def after(pixels: bytes) -> Callable[[bytes], bytes]:
    """An encoder whose last frame was `pixels`; each call starts from there again."""
    encoder = agent.PngEncoder()
    encoder.encode(pixels, WIDTH, HEIGHT)
    start = vars(encoder).copy()

    def encode(frame: bytes) -> bytes:
        vars(encoder).update(start)
        return encoder.encode(frame, WIDTH, HEIGHT).png

    return encode


def measure(
    cases: dict[str, tuple[Callable[[bytes], bytes], bytes]], rounds: int
) -> dict[str, tuple[float, int]]:
    """Case -> (median seconds, bytes)."""
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    sizes = {}
    for _ in range(rounds):
        for name, (encode, pixels) in cases.items():
            start = clock()
            png = encode(pixels)
            seconds[name].append(clock() - start)
            sizes[name] = len(png)
    return {name: (statistics.median(values), sizes[name]) for name, values in seconds.items()}


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("folder", nargs="?")
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument(
    "--cpu", action="store_true", help="processor time of all threads: for a busy machine"
)
options = parser.parse_args()
clock = time.process_time if options.cpu else time.perf_counter
peers: dict[str, Callable[[bytes], bytes]] = {"plain": straightforward}
try:
    import mss.tools

    peers["mss"] = mss_png
except ImportError:
    print("mss is not installed: left out")
try:
    from PIL import Image

    peers |= {"Pillow": pillow_png(0), "Pillow1": pillow_png(1)}
except ImportError:
    print("Pillow is not installed: left out")

print(
    f"Python {platform.python_version()} on {sys.platform}, median of {options.rounds}; ms, then times as fast as agent.py"
)
ratios: dict[str, list[float]] = {}
for title, pixels in frames.read(options.folder).items():
    changed = frames.typed(pixels)
    cases = {name: (encode, pixels) for name, encode in peers.items()}
    cases["agent"] = (lambda frame: agent.PngEncoder().encode(frame, WIDTH, HEIGHT).png, pixels)
    cases["small"] = (after(pixels), changed)
    cases["same"] = (after(pixels), bytes(bytearray(pixels)))
    result = measure(cases, options.rounds)
    for frame in (pixels, changed):
        assert agent.png_to_rgb(after(pixels)(frame))[0] == agent.bgrx_to_rgb(frame), title
    own, plain = result["agent"], result["plain"]
    row = {name: result[name][0] / own[0] for name in peers}
    row |= {case: plain[0] / result[case][0] for case in ("small", "same")}
    row |= {f"bytes/{name}": own[1] / result[name][1] for name in peers}
    for name, value in row.items():
        ratios.setdefault(name, []).append(value)
    times = "  ".join(f"{name} {value[0] * 1000:.1f}" for name, value in result.items())
    print(
        f"{title:<12} {times}   " + "  ".join(f"{name} {value:.2f}" for name, value in row.items())
    )
print(
    "geometric mean: "
    + "  ".join(
        f"{name} {statistics.geometric_mean(values):.2f}" for name, values in ratios.items()
    )
)
