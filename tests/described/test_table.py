"""The table of deviations, and --described as a layer."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import agent
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
loop_recovery_cooldown        3     3     -     -     -
enable_loop_recovery          True  True  -     -     -
text_batch_events             100   -     -     -     -
drag_steps                    15    -     -     -     -
settle_cap_ms                 0     -     -     -     -
scroll_ticks                  -     1     1     1     -
request_retries               0     -     0     0     0
model_failures                -     0     0     -     -
stall_stop                    -     -     0     -     0
verify_completion             -     -     False False -
lmstudio_model                -     -     qwen3-vl-8b-instruct - -
dump_prefix                   -     -     screen_ screen_ -
dump_start                    -     -     1     1     -
keep_last_screenshots         -     -     2     2     -
keep_last_thinks              -     -     2     -     -
capture_scale_percent         -     -     -     -     100
"""


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
