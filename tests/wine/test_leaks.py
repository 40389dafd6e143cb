"""Every handle that looking at the screen takes is given back, also when a call fails in the middle."""

from __future__ import annotations

import unittest

from rig import Desktop, Driver


class GdiHandles(unittest.TestCase):
    def test_as_many_bitmaps_can_be_created_after_500_captures_and_500_failing_ones_as_before(
        self,
    ) -> None:
        # GetGuiResources answers 0 under Wine, so what is left is counted instead of what is used.
        with Desktop() as desktop:
            found = Driver(desktop).ask("leaks", captures=500, timeout=400)
        self.assertGreater(found["before"], 60_000)
        self.assertEqual(found["after_captures"], found["before"])
        self.assertEqual(found["after_failures"], found["before"])
        self.assertEqual(
            len(found["shapes"]), found["all_shapes"], "some cursors were never in the picture"
        )
        required = {
            "GetDC",
            "CreateDIBSection",
            "CreateCompatibleDC",
            "StretchBlt",
            "DrawIconEx",
            "GdiFlush",
            "GetCursorInfo",
            "SetStretchBltMode",
            "SetBrushOrgEx",
        }
        self.assertLessEqual(required, set(found["refused"]))


if __name__ == "__main__":
    unittest.main()
