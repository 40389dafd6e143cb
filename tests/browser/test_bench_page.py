"""The page of a bench, as a person sees it: on a telephone and on a screen, light and dark."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

from chrome import Chrome  # noqa: E402 - both lie elsewhere, and this folder is no package

from tests.bench import asking, figures, leaflet  # noqa: E402
from tests.bench_faults import FALLING, WHOLE, Faulty  # noqa: E402

SHOTS = os.environ.get("PANEL_SHOTS")  # a folder: pictures of the pages are kept there
ABOUT = {"model": "qwen3-vl-4b-instruct", "size": "1536x864", "profiles": ["planner", "native"]}


class BenchPage(unittest.TestCase):
    chrome: Chrome
    page: Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        bench = asking.Bench(Faulty(2, hits=FALLING, prose=0.1), WHOLE, "tools", draws=False)
        lines = [bench.measure(item) for item in asking.bench_items(asking.BENCH_WHOLE, 2, WHOLE)]
        result = figures.bench_result(ABOUT, lines)
        cls.page = Path(folder.name, "bench.html")
        cls.page.write_text(leaflet.bench_page(result, lines, figures.bench_advice(result, 4096)))
        cls.chrome = Chrome()
        cls.addClassCleanup(cls.chrome.close)

    def test_nothing_stands_beside_the_page_and_nothing_is_complained_of(self) -> None:
        for width in (390, 1280):
            for dark in (False, True):
                self.chrome.look(width, 900, dark)
                self.chrome.open(self.page.as_uri())
                wide = self.chrome.run("return document.documentElement.scrollWidth")
                self.assertLessEqual(wide, width)
                self.assertEqual(self.chrome.complaints(), [])
                if SHOTS:
                    name = f"bench_{width}_{'dark' if dark else 'light'}.png"
                    Path(SHOTS, name).write_bytes(self.chrome.screenshot())

    def test_it_is_dark_for_those_who_like_it_dark(self) -> None:
        grounds = []
        for dark in (False, True):
            self.chrome.look(1280, 900, dark)
            self.chrome.open(self.page.as_uri())
            grounds.append(
                self.chrome.run("return getComputedStyle(document.body).backgroundColor")
            )
        self.assertEqual(grounds, ["rgb(244, 246, 249)", "rgb(16, 21, 28)"])

    def test_bars_and_clicks_lie_inside_their_drawings(self) -> None:
        self.chrome.look(390, 900)
        self.chrome.open(self.page.as_uri())
        outside = self.chrome.run(
            "return [...document.querySelectorAll('svg *')].filter((part) => {"
            " const at = part.getBoundingClientRect();"
            " const all = part.closest('svg').getBoundingClientRect();"
            " return at.left < all.left - 3 || at.right > all.right + 3"
            " || at.top < all.top - 3 || at.bottom > all.bottom + 3; }).length"
        )
        self.assertEqual(outside, 0)


if __name__ == "__main__":
    unittest.main()
