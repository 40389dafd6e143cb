"""The table of deviations, --described as a layer, and what is kept of ours."""

from __future__ import annotations

import unittest
from dataclasses import fields
from typing import Any

import agent
from tests.described.exchange import Exchange, rows, said
from tests.scripted import text
from tests.test_main import CommandLineCase

SETTINGS = {spec.name for spec in fields(agent.Config)}
DESCRIBED = "planner commander chat pointer story".split()
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
        for row in rows("values.jsonl"):
            name = row.pop("setting")
            for profile, value in row.items():
                found = getattr(self.config("--profile", profile, "--described"), name)
                for role in agent.PROFILES[
                    profile
                ].roles.values():  # which has its own where it is unset
                    for called, setting in role.settings.items():
                        if found is None and setting == name:
                            found = getattr(role, called)
                self.assertEqual(found, value, (profile, name))

    def test_each_described_value_changes_its_profile_and_no_kept_one_does(self) -> None:
        for profile in DESCRIBED:
            plain = self.config("--profile", profile)
            laid = self.config("--profile", profile, "--described")
            wanted = {"described": "True"}
            for row in agent.DESCRIBED:
                if row.what in SETTINGS and profile in row.profiles.split() and not kept(row):
                    self.assertNotIn(row.what, wanted)
                    wanted[row.what] = row.described
                    alone = agent.load_config({"p": vars(plain), "d": {row.what: row.described}})
                    self.assertNotEqual(plain, alone, (profile, row.what))
            with self.subTest(profile):
                self.assertEqual(laid, agent.load_config({"p": vars(plain), "d": wanted}))

    def test_the_help_tells_each_row(self) -> None:
        code, out, _ = self.main("--help", "described")
        words = " ".join(out.split())
        self.assertEqual(code, 0)
        for row in agent.DESCRIBED:
            self.assertIn(f"described: {row.described}; ours: ", words)
            self.assertIn(row.why, words)


def acted(name: str, **given: Any) -> Exchange:
    """A planner's run in which the executor makes this call."""
    return Exchange("planner", [PLAN, said("", name, **given, **WHY)], "max_steps=2")


def click(x: float) -> Exchange:
    return acted("click_screen_element", element_name="Button", position=[x, 500])


class Kept(unittest.TestCase):
    """Rows that the reading of a described call could undo; the others are ours in every run."""

    def test_a_key_that_is_not_described_is_pressed_where_it_is_known_for_certain(self) -> None:
        """VK_MAP: a-z, 0-9, f1-f12, special keys. "No user confirmation, no sandbox": what asks is refused."""
        for key, pressed in (("insert", 1), ("f13", 0), ("any key", 0), ("alt+f4", 0)):
            done = acted("press_keyboard_key", key=key).inputs
            self.assertEqual(done, [("key", key, True), ("key", key, False)] * pressed)

    def test_a_place_is_the_nearest_pixel_a_whole_step_and_refused_outside_the_grid(self) -> None:
        """int(x / 1000 * (width - 1)); normalized_x = clamp(x, 0, 1000)."""
        for x, moved in ((500, [("move", 32, 18)]), (1200, []), (1000, [("move", 63, 18)])):
            self.assertEqual(click(x).inputs[:1], moved)
        self.assertIn('TOOL click "Button" (501, 500)', click(500.5).log)

    def test_who_wants_a_judge_besides_gets_one(self) -> None:
        """--set lies over the description, too."""
        done = said("", "report_mission_complete", evidence="It is pressed. " * 10)
        replies = [PLAN, done, text("1 YES: it is pressed")]
        judged = Exchange("planner", replies, "verify_completion=true")
        self.assertEqual(judged.roles, "peve")  # the last is asked since nothing was done
