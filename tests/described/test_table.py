"""The table of deviations, --described as a layer, and what is kept of ours."""

from __future__ import annotations

import unittest
from dataclasses import fields
from typing import Any

import agent
from tests.described.exchange import Exchange, said
from tests.scripted import text
from tests.test_main import CommandLineCase

SETTINGS = {spec.name for spec in fields(agent.Config)}
DESCRIBED = "planner commander chat pointer story".split()
# What each description says of a setting, in this order; - where it says nothing.
VALUES = """
lmstudio_timeout              240   240   240   240   -
lmstudio_temperature          0.5   0.5   0.6   0.2   -
planner_temperature           0.35  0.35  -     -     -
planner_max_tokens            1800  1200  -     -     -
executor_max_tokens           1400  1024  2048  2048  -
screen_capture_w              1536  1536  1536  1344  0
screen_capture_h              864   864   864   756   0
max_steps                     50    30    10    10    -
ui_settle_delay               0.3   0.3   0.1   0.06  -
turn_delay                    1.5   1.5   0.4   0.4   -
char_input_delay              0.01  0.01  0.005 -     -
review_interval               7     5     -     -     -
memory_compression_threshold  12    8     -     -     -
enable_loop_recovery          True  True  -     -     -
text_batch_events             100   -     -     -     -
drag_steps                    15    -     -     -     -
settle_cap_ms                 0     -     -     -     -
scroll_ticks                  -     1     1     1     -
request_retries               0     -     0     0     0
model_failures                -     0     0     -     -
stall_stop                    -     -     0     -     0
verify_completion             -     -     False False -
dump_prefix                   -     -     screen_ screen_ -
dump_start                    -     -     1     1     -
keep_last_screenshots         -     -     2     2     -
capture_scale_percent         -     -     -     -     100
"""


WHY = {"reasoning": "it is next"}
PLAN = said("", "update_execution_plan", instructions="Press it.", **WHY)


def kept(row: Any) -> bool:
    return bool(row.why.startswith("kept: "))


class Table(CommandLineCase):
    def config(self, *argv: str, environ: dict[str, str] | None = None) -> agent.Config:
        options = agent.command_line().parse_args([*argv, "x"])
        options.profile = options.profile or "planner"
        return agent.read_config(options, environ or {})

    def test_each_profile_has_the_values_that_its_description_says(self) -> None:
        for line in VALUES.split("\n")[1:-1]:
            name, *wanted = line.split()
            for profile, value in zip(DESCRIBED, wanted, strict=True):
                if value != "-":
                    found = getattr(self.config("--profile", profile, "--described"), name)
                    kind = type(found)
                    self.assertEqual(found, value == "True" if kind is bool else kind(value), line)

    def test_each_row_names_its_profiles_once_both_values_and_the_reason(self) -> None:
        for row in agent.DESCRIBED:
            with self.subTest(row.what):
                self.assertLessEqual(set(row.profiles.split()), set(DESCRIBED))
                self.assertTrue(row.described and row.why and (row.ours or row.what in SETTINGS))
        found = [(name, row.what) for row in agent.DESCRIBED for name in row.profiles.split()]
        self.assertEqual(len(found), len(set(found)))

    def test_each_described_value_is_laid_over_its_profile_and_no_kept_one(self) -> None:
        for profile in DESCRIBED:
            plain = self.config("--profile", profile)
            laid = self.config("--profile", profile, "--described")
            wanted = {"described": "True"}
            for row in agent.DESCRIBED:
                if row.what in SETTINGS and profile in row.profiles.split() and not kept(row):
                    wanted[row.what] = row.described
            with self.subTest(profile):
                self.assertEqual(laid, agent.load_config({"p": vars(plain), "d": wanted}))

    def test_no_row_of_a_setting_says_what_holds_without_the_switch(self) -> None:
        for row in agent.DESCRIBED:
            for profile in row.profiles.split():
                if row.what in SETTINGS and not kept(row):
                    plain = self.config("--profile", profile)
                    laid = agent.load_config({"p": vars(plain), "d": {row.what: row.described}})
                    self.assertNotEqual(plain, laid, (profile, row.what))

    def test_the_help_tells_each_row(self) -> None:
        code, out, _ = self.main("--help", "described")
        words = " ".join(out.split())
        self.assertEqual(code, 0)
        for row in agent.DESCRIBED:
            self.assertIn(f"described: {row.described}; ours: ", words)
            self.assertIn(row.why, words)


def click(x: float = 500) -> Any:
    return said("", "click_screen_element", element_name="Button", position=[x, 500], **WHY)


def acted(reply: Any) -> Exchange:
    """A planner's run in which this reply is said by the executor."""
    return Exchange("planner", [PLAN, reply], "max_steps=2")


class Kept(unittest.TestCase):
    """Rows that the reading of a described call could undo; the others are ours in every run."""

    def test_a_key_that_is_not_described_is_pressed_where_it_is_known_for_certain(self) -> None:
        """VK_MAP: a-z, 0-9, f1-f12, special keys. "No user confirmation, no sandbox": what asks is refused."""
        for key, pressed in (("insert", 1), ("f13", 1), ("any key", 0), ("alt+f4", 0)):
            done = acted(said("", "press_keyboard_key", key=key, **WHY)).inputs
            self.assertEqual(done, [("key", key, True), ("key", key, False)] * pressed)

    def test_a_place_is_the_nearest_pixel_a_whole_step_and_refused_outside_the_grid(self) -> None:
        """int(x / 1000 * (width - 1)); normalized_x = clamp(x, 0, 1000)."""
        for x, moved in ((500, [("move", 32, 18)]), (1200, []), (1000, [("move", 63, 18)])):
            self.assertEqual(acted(click(x)).inputs[:1], moved)
        self.assertIn('TOOL click "Button" (501, 500)', acted(click(500.5)).log)

    def test_who_wants_a_judge_besides_gets_one(self) -> None:
        """--set lies over the description, too."""
        done = said("", "report_mission_complete", evidence="It is pressed. " * 10)
        replies = [PLAN, done, text("1 YES: it is pressed")]
        self.assertEqual(Exchange("planner", replies, "verify_completion=true").roles, "pev")
