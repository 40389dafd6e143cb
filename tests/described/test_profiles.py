"""Each profile with --described, point by point with the lines of its description, which docstrings and comments quote."""

from __future__ import annotations

import itertools
import json
import re
import unittest
from functools import cache
from typing import Any

import agent
from tests.described.exchange import TASK, Exchange, replies_of, rows, said
from tests.samples import for_the_gate, some
from tests.scripted import Message, text
from tests.seams import rgb_picture
from tests.test_main import CommandLineCase

BOX = {"x1": 100, "y1": 100, "x2": 300, "y2": 300}
CLICKS = [{"name": "Click", "x1": 500, "y1": 500}, {"name": "drag", **{**BOX, "x2": 900}}]
MOVE = {"name": "move", "x1": 100, "y1": 100}
END = text("End.")
CONVERSATIONS = ("chat", "pointer")
# Roles that are asked (planner, executor), pictures of each request, how it ends.
RUNS = {
    "planner": ("peeeeepeeeeeppee", "0111110111110011", "Mission completed in 18 turns"),
    "commander": ("peeepeppe", "011101001", None),
    "chat": ("eeeeeeeee", "112222222", "The button was pressed with click_element."),
    "pointer": ("eeeeeeee", "01122222", "The cursor is in the middle."),
    "story": ("eee", "111", None),
}
SENT = {
    **dict.fromkeys(list(RUNS)[:4], {"model", "messages", "tools", "tool_choice", "temperature", "max_tokens"}),
    "story": {"model", "messages", "temperature", "top_p", "max_tokens"},
}  # fmt: skip


def reply(observation: str = "", *actions: Any, **more: Any) -> Message:
    given = {"observation": observation, "bboxes": [], "actions": actions, **more}
    return text(json.dumps(given))


def story(*replies: Message, more: tuple[str, ...] = ()) -> Exchange:
    return Exchange("story", [*replies, END], f"max_steps={len(replies) + 1}", *more)


@cache
def run_of(profile: str) -> Exchange:
    if profile == "story":
        return story(reply("I see a button.", *CLICKS, bboxes=[BOX]), reply("It moved.", MOVE))
    return Exchange(profile, replies_of(profile))


def pictures(request: dict[str, Any]) -> list[Any]:
    """The contents with a picture."""
    contents = [message["content"] for message in request["messages"]]
    return [content for content in contents if isinstance(content, list)]


def told(request: dict[str, Any]) -> dict[str, Any]:
    """What the model of a conversation is told of its last call."""
    messages = [m for m in request["messages"] if m["role"] in ("tool", "user")]
    (*_, last) = [m["content"] for m in messages if isinstance(m["content"], str)]
    answer: dict[str, Any] = json.loads(last)
    return answer


class Requests(unittest.TestCase):
    def test_each_request_has_what_its_row_says_and_nothing_more(self) -> None:
        """Tools and their arguments; prompts; Temperature, Max tokens; what is told and what is archived."""
        for row in rows("requests.jsonl"):
            run, number = run_of(row["profile"]), row["request"]
            request = run.requests[number - 1]
            with self.subTest(row["profile"], number=number):
                system, user = run.system(number), run.user(number)
                missing = [words for words in row.get("system", []) if words not in system]
                missing += [words for words in row.get("user", []) if words not in user]
                self.assertEqual(missing, [])
                self.assertEqual([w for w in row.get("lacks", []) if w in system + user], [])
                self.assertEqual(request, request | row.get("sent", {}))
                roles = [message["role"] for message in request["messages"]]
                self.assertEqual(roles, row.get("roles", roles))
                if "tools" not in row:
                    continue
                functions = [item["function"] for item in request["tools"]]
                offered = {f["name"]: f["parameters"]["properties"].keys() for f in functions}
                more = "A tool that no description has belongs into EXTRA_TOOLS as well."
                self.assertEqual(offered.keys(), row["tools"].keys(), more)
                for name, given in row["tools"].items():  # a conversation has more of its own
                    self.assertLessEqual(set(given), set(offered[name]), name)
                    if row["profile"] not in CONVERSATIONS:
                        self.assertEqual(set(given), set(offered[name]), name)

    def test_each_role_is_asked_in_its_turns_with_its_pictures_and_nobody_judges(self) -> None:
        """Turn divisible by review_interval ... continue; planner: text only; keep last N images."""
        for profile, (roles, shown, end) in RUNS.items():
            run = run_of(profile)
            with self.subTest(profile):
                self.assertEqual((run.roles, run.left), (roles, 0))
                found = "".join(str(len(pictures(request))) for request in run.requests)
                self.assertEqual(found, shown)
                ended = "max_steps" if profile == "story" else "completed"
                self.assertEqual(run.outcome, (ended, end or run.outcome[1]))
        for profile, keys in SENT.items():
            for request in run_of(profile).requests:
                self.assertEqual(request.keys() - {"stream"}, keys)
        self.assertNotIn("WINDOW", str(run_of("planner").requests))

    def test_the_files_have_the_described_names_and_hold_no_pictures(self) -> None:
        """turn_NNNN.png; PLANNING: no screenshot; screen_0001.png; agent_run_YYYYMMDD_HHMMSS.log."""
        for profile, names, unseen, headers in (
            ("planner", "turn_0002 turn_0007 turn_0014 turn_0018", "turn_0001 turn_0008 turn_0015 turn_0016", "7 - EXECUTION|8 - PLANNING"),
            ("commander", "turn_0002 turn_0005 turn_0008 turn_0011", "", "6 - EVALUATION|7 - EXECUTION"),
            ("chat", "screen_0001 screen_0002 screen_0003 screen_0004", "screen_0005", "1"),
        ):  # fmt: skip
            run = run_of(profile)
            found = {path.stem for path in (run.folder / "screenshots").iterdir()}
            self.assertLessEqual({*names.split()}, found)
            self.assertFalse({*unseen.split()} & found)
            for header in headers.split("|"):
                self.assertIn(f"TURN {header}", run.log)
            (own,) = run.folder.glob("agent_run_*.log")
            self.assertRegex(own.name, r"^agent_run_\d{8}_\d{6}\.log$")
            # "Sanitized requests (images summarized)"
            self.assertNotIn("iVBORw0KGgo", run.log + own.read_text("utf-8"))
            self.assertIn("base64 characters", run.log)

    def test_each_turn_ends_in_the_described_delay(self) -> None:
        """Turn Delay: Sleep 1.5s; ui_settle_delay (0.3s) after every action; Sleep (step_delay)."""
        for profile in ("planner", "commander"):
            first, second, third, *_ = run_of(profile).times
            self.assertEqual(second - first, 1.5)
            self.assertTrue(1.8 <= round(third - second, 3) < 2.1)
        for profile in CONVERSATIONS:
            pairs = itertools.pairwise(run_of(profile).times)
            self.assertGreaterEqual(min(round(after - before, 3) for before, after in pairs), 0.4)

    def test_the_most_steps_are_the_described_ones(self) -> None:
        """Max steps limit (configurable, default 10); "Max steps reached (50)"."""
        for profile, look in (("chat", "observe_screen"), ("pointer", "take_screenshot")):
            run = Exchange(profile, [said("", look)] * 11)
            self.assertEqual((run.left, run.outcome[0]), (1, "max_steps"))
        run = Exchange("planner", replies_of("planner")[:2], "max_steps=2")
        self.assertEqual(run.outcome, ("max_steps", "Max steps reached (2)"))


class TwoAgents(unittest.TestCase):
    def test_a_goal_that_is_blocked_leads_to_the_planner(self) -> None:
        """needs_review flag set (DONE/BLOCKED)."""
        given = {"goal_identifier": "g", "completion_status": "BLOCKED", "evidence": "e"}
        first, again = (replies_of("planner")[number] for number in (0, 6))
        replies = [first, said("", "report_goal_status", **given), again]
        self.assertEqual(Exchange("planner", replies, "max_steps=4").roles, "pep")

    @for_the_gate
    def test_so_many_actions_lead_to_the_planner_which_is_to_archive(self) -> None:
        """OR memory.needs_compression (12+ active actions); commander: 8."""
        for profile, tool, groups, archive in (
            ("planner", "press_keyboard_key", ("abcde", "fghij", "kl"), 12),
            ("commander", "press_key", ("abc", "def", "gh"), 6),
        ):
            known, replies = replies_of(profile), list[Message]()
            for keys in groups:
                replies += [known[0], *(said("", tool, key=key) for key in keys)]
            run = Exchange(profile, [*replies, known[archive]], f"max_steps={len(replies) + 4}")
            self.assertEqual((run.roles[-1], run.left), ("p", 0))
            self.assertIn("ARCHIVE_NOW", run.user(len(run.requests)))
            self.assertNotIn("ARCHIVE_NOW", run.user(len(run.requests) - 3))

    @for_the_gate
    def test_why_a_call_failed_is_heard_by_the_one_who_made_it(self) -> None:
        """Returns descriptive error strings for missing arguments or unknown tools; unknown keys: return error."""
        why = {"reasoning": "it is next", "justification": "it is next"}
        for profile, click, press in (
            ("planner", "click_screen_element", "press_keyboard_key"),
            ("commander", "click_element", "press_key"),
        ):
            plan = replies_of(profile)[0]
            wrong: tuple[tuple[str, dict[str, Any], str], ...] = (
                (
                    click,
                    {"position": [1200, 500], "element_name": "B", "label": "B"},
                    "position must be",
                ),
                (click, {"element_name": "B", "label": "B"}, "The argument position is missing."),
                (press, {"key": "hyper"}, "There is no key 'hyper'"),
                ("fly", {}, "There is no tool 'fly'"),
            )
            for tool, given, heard in some(wrong, 3):
                run = Exchange(profile, [plan, said("", tool, **given, **why), plan], "max_steps=3")
                self.assertIn(f"Turn_2: no_call -> {heard}", run.user(3))
                self.assertIn(f"LAST_ACTION: no_call {heard}", run.user(3))
            run = Exchange(profile, [said("", click), plan, plan], "max_steps=3")
            self.assertEqual(run.roles, "ppe")
            self.assertIn(f"There is no tool '{click}'", run.user(2))


class Demos(CommandLineCase):
    def test_each_described_demo_is_completed_within_its_own_steps(self) -> None:
        own = {"planner": 50, "commander": 30, "chat": 10, "pointer": 10, "story": 50}
        for profile, most in some([*own.items()], 2):
            with self.subTest(profile):
                code, out, _ = self.main("--demo", "--described", "--profile", profile)
                self.assertEqual(code, 0, out)
                self.assertLessEqual(self.records()[-1]["turns"], most)

    def test_a_story_draws_its_triangle_with_the_mouse(self) -> None:
        """Python executes actions (WinAPI mouse events); the model sees the stroke pixels."""
        self.main("--demo", "--described", "--profile", "story")
        rgb, width, height = rgb_picture((self.run_folder() / "turn_0004_raw.png").read_bytes())
        ink = agent.DEMO_SIGNS["drawing"].to_bytes(3, "big")
        # The middle of each side, on a screen of 1280x720, and the middle of it all.
        for x, y, drawn in ((678, 441, 1), (610, 333, 1), (748, 333, 1), (678, 380, 0)):
            at = 3 * (y * height // 720 * width + x * width // 1280)
            self.assertEqual(ink in rgb[at - 12 : at + 15], bool(drawn), (x, y))

    def test_a_picture_has_exactly_that_share_of_the_areas_pixels(self) -> None:
        """25 means 25% of the post-crop pixel dimensions; 100 means no scaling; values <= 0 disable it."""
        for percent, area, size in (
            (25, (1680, 1050), (420, 262)),
            (29, (1000, 700), (290, 203)),
            (100, (1366, 768), (1366, 768)),
            (100, (3840, 2160), (3840, 2160)),
            (0, (1920, 1200), (1920, 1200)),
            (-5, (1920, 1200), (1920, 1200)),
        ):
            layer = {"described": True, "image_tokens": 65536, "capture_scale_percent": percent}
            config = agent.load_config({"x": layer})
            self.assertEqual(agent.frame_size(agent.Rect(0, 0, *area), config), size)

    def test_no_replies_of_a_story_spin(self) -> None:
        """Repeated calls that nobody offers; no act, no end."""
        for replies in ([reply("I type.", {"name": "type", "text": "a"})], [text("Hm.")]):
            run = Exchange("story", replies * 60)
            self.assertEqual((run.outcome[0], len(run.requests)), ("stuck", 9))


class Scenarios(CommandLineCase):
    def own(self, content: Any) -> str:
        path = self.folder / "own.json"
        path.write_text(json.dumps(content), "utf-8")
        return f"scenarios_file={path}"

    @for_the_gate
    def test_those_of_the_descriptions_and_ones_own_are_listed_and_run_by_number(self) -> None:
        """python main.py <scenario_num>; 1-based; Custom scenarios: append {name, task_prompt}."""
        own = self.own({"chat": [{"name": "Mine", "task_prompt": "Open Paint"}]})
        code, out, _ = self.main("--scenarios", "--set", own)
        self.assertEqual(code, 0)
        for profile, words in (
            ("chat", "Grok; Start menu; Notepad++; Open Paint"),
            ("pointer", "under it; centre; click; type"),
        ):
            for number, word in enumerate(words.split("; "), 1):
                with self.subTest(profile, number=number), self.drawn() as endpoint:
                    self.assertRegex(
                        " ".join(out.split()), f"{profile} +{number} .*{re.escape(word)}"
                    )
                    given = ("--profile", profile, "--scenario", str(number), "--set", own)
                    self.main(*given, "--endpoint", endpoint, "--max-steps", "1")
                    folder = max((self.folder / "dumps").iterdir())
                    first = (folder / "turns.jsonl").read_text("utf-8").splitlines()[0]
                    self.assertIn(word, json.loads(first)["task"])

    def test_a_number_that_there_is_not_and_a_file_that_is_none_are_said_in_one_sentence(
        self,
    ) -> None:
        for own, words, wanted in (
            ({}, "--scenario 1", "There is no prepared task '1' of profile planner"),
            ({}, "--profile chat --scenario 4", "There is no prepared task '4' of profile chat"),
            ({}, "--profile chat --scenario x", "There is no prepared task 'x'"),
            ({}, "--scenario 1 --scenarios", "do not go together"),
            ({"chat": 5}, "--scenarios", "a list of prepared tasks"),
            ({"chat": [{"name": "a"}]}, "--scenarios", "a list of prepared tasks"),
            (
                {"chess": [{"name": "a", "task_prompt": "b"}]},
                "--scenarios",
                "a list of prepared tasks",
            ),
            ([], "--scenarios", "it must hold one JSON object"),
        ):
            with self.subTest(words, own=own):
                code, _, err = self.main(*words.split(), "--set", self.own(own))
                self.assertEqual((code, err.count("\n")), (2, 1))
                self.assertIn(wanted, err)


class Conversations(unittest.TestCase):
    @for_the_gate
    def test_a_picture_follows_the_answer_of_the_tool_that_took_it(self) -> None:
        """{"type": "text", "text": "captured image data"}; file path and dimensions."""
        first = run_of("chat").requests[0]["messages"]
        self.assertIn(TASK, first[1]["content"])
        self.assertEqual(first[2]["tool_calls"][0]["function"]["name"], "observe_screen")
        request = run_of("pointer").requests[1]
        *_, answer, picture = request["messages"]
        self.assertEqual((answer["role"], answer["name"]), ("tool", "take_screenshot"))
        words, image = picture["content"]
        self.assertEqual(words, {"type": "text", "text": "captured image data"})
        self.assertTrue(image["image_url"]["url"].startswith("data:image/png;base64,"))
        of = told(request)
        self.assertEqual((of["file"], of["size"]), ("screenshots/screen_0001.png", [1344, 756]))

    def test_two_thoughts_are_kept(self) -> None:
        """Keep last N assistant messages with tags, strip from older."""
        messages = run_of("chat").requests[4]["messages"]
        self.assertEqual(str(messages).count("<think>"), 2)
        own = [message["content"] for message in messages if message["role"] == "assistant"]
        self.assertEqual([said.count("in the middle") for said in own], [0, 0, 0, 1, 1])

    @for_the_gate
    def test_the_mouse_clicks_in_the_middle_of_its_box_and_the_wheel_turns_one_notch(self) -> None:
        """Left-clicks at current cursor position; MOUSEEVENTF_WHEEL with +-120 delta."""
        click = [("move", 32, 18), ("button", "left", True), ("button", "left", False)]
        for profile in CONVERSATIONS:
            inputs = run_of(profile).inputs
            events = [event for event in inputs if event[0] in ("move", "button", "wheel")]
            self.assertEqual((events[:3], events[-1]), (click, ("wheel", -120, False)))
        # Of the planner it moves the mouse to the screen's center.
        pairs = itertools.pairwise(run_of("planner").inputs)
        turned = [(place, event[1]) for place, event in pairs if event[0] == "wheel"]
        self.assertEqual(turned, [(("move", 32, 18), -120), (("move", 32, 18), 120)])

    def test_all_of_the_final_response_is_printed(self) -> None:
        """Console: Final agent response (stripped of think tags)."""
        answer = "The window says: " + " ".join(str(n**3) for n in range(300))
        for profile in CONVERSATIONS:
            run = Exchange(profile, [text(f"<think>Done?</think>{answer}")])
            self.assertEqual(run.outcome, ("completed", answer.strip()))

    def test_one_measure_of_the_picture_alone_leaves_the_other_as_described(self) -> None:
        """AGENT_IMAGE_W, AGENT_IMAGE_H: 1536, 864."""
        run = Exchange("chat", [END], "screen_capture_w=960")
        png = (run.folder / "screenshots" / "screen_0001.png").read_bytes()
        self.assertEqual(agent.png_to_bgrx(png)[1:], (960, 864))

    def test_of_several_calls_chat_performs_the_first_and_pointer_none(self) -> None:
        """Excess calls rejected; pointer: if multiple tool_calls -> error (only 1 allowed)."""
        pressed = [("key", "a", True), ("key", "a", False)]
        for profile, first, more, done in (
            ("chat", said("", "press_key", key="a"), said("", "press_key", key="b"), pressed),
            ("pointer", said("", "click_mouse"), said("", "scroll_down"), []),
        ):
            both = {**first, "tool_calls": first["tool_calls"] + more["tool_calls"]}
            run = Exchange(profile, [both, END])
            self.assertEqual(run.inputs, done)
            self.assertEqual(told(run.requests[1])["error"]["type"], "too_many_tool_calls")


class Story(unittest.TestCase):
    def test_the_system_prompt_is_a_setting(self) -> None:
        own = story(more=('system_prompt=Only {"JSON"}.',))
        self.assertTrue(own.system(1).startswith('Only {"JSON"}.\n'))

    def test_a_saying_that_it_is_done_ends_nothing_and_nobody_judges(self) -> None:
        run = story(*[reply("Done.", {"name": "done"})] * 3)
        self.assertEqual((run.outcome[0], len(run.requests)), ("max_steps", 4))
        self.assertEqual(len({run.system(number) for number in (1, 2, 3, 4)}), 1)

    def test_an_action_that_is_not_described_or_off_the_grid_does_nothing(self) -> None:
        """That coordinates are clamped into [0..1000] is not followed: they are refused."""
        off = reply("Off.", {"name": "click", "x1": 1300, "y1": 500})
        run = story(off, reply("I type.", {"name": "key", "key": "a"}))
        self.assertIn("Off. Action 1 was not executed", run.user(2))
        self.assertEqual(run.inputs, [])

    def test_a_turn_leaves_the_described_files_and_records(self) -> None:
        """turn_0001_raw.png, turn_0001_annotated.png; Two records per turn."""
        run, stages = run_of("story"), ("raw", "annotated")
        for turn, stage in itertools.product((1, 2, 3), stages):
            self.assertTrue((run.folder / f"turn_000{turn}_{stage}.png").is_file())
        staged = [record for record in run.records if record["kind"] == "stage"]
        raw, marked = ([one for one in staged if one["stage"] == stage] for stage in stages)
        self.assertEqual((len(raw), len(marked)), (3, 3))
        wanted = {"turn": 2, "observation": "I see a button.", "bboxes": [BOX]}
        self.assertEqual(raw[1], raw[1] | wanted | {"raw_png": "turn_0002_raw.png"})
        self.assertEqual(raw[1]["actions"][0], {"name": "click", "x1": 500, "y1": 500})
        self.assertEqual(marked[1]["annotated_png"], "turn_0002_annotated.png")

    def test_the_marks_are_those_of_ui_config(self) -> None:
        """executed_heat: enabled, radius_scale, stops, trail_turns, trail_shrink; bbox_heat: enabled, border, border_width, fill_stops."""
        drag = {"name": "drag", "x1": 100, "y1": 250, "x2": 900, "y2": 250}
        box = {"x1": 300, "y1": 600, "x2": 700, "y2": 900}
        red = {"stops": [[0, "rgba(255,0,0,1)"]], "radius_scale": 0.03, "trail_shrink": 0.5}
        green = {
            "border": "rgba(0,255,0,1)",
            "border_width": 8,
            "fill_stops": [[0, "rgba(0,0,255,1)"]],
        }
        end, older, border, inside = (100, 250), (300, 250), (300, 750), (500, 750)
        for heat, boxes, turn, seen in (
            (red, green, 2, {end: 0, older: None, border: 1, inside: 2}),
            ({**red, "enabled": False}, {**green, "enabled": False}, 2, {end: None, border: None}),
            ({**red, "trail_turns": 1}, green, 3, {end: None, older: None, border: None}),
            ({**red, "trail_turns": 4}, green, 3, {end: None, older: 0}),
            ({**red, "stops": [[0, "rgba(0,255,0,1)"], [0.5, "rgba(255,0,0,1)"]]}, {}, 2, {end: 1}),
            (red, {**green, "border_width": 0}, 2, {border: 2}),
        ):
            with self.subTest(heat=heat, boxes=boxes):
                ui = json.dumps({"executed_heat": heat, "bbox_heat": boxes})
                size = ("screen_capture_w=320", "screen_capture_h=180", f"ui_config={ui}")
                run = story(reply("I drag.", drag, bboxes=[box]), reply("Hm."), more=size)
                pair = [
                    rgb_picture((run.folder / f"turn_{turn:04d}_{stage}.png").read_bytes())[0]
                    for stage in ("raw", "annotated")
                ]
                for (x, y), channel in seen.items():
                    at = 3 * (round(y * 179 / 1000) * 320 + round(x * 319 / 1000))
                    before, after = (rgb[at : at + 3] for rgb in pair)
                    levels = [200 * (number == channel) for number in range(3)]
                    if channel is None:
                        self.assertEqual(before, after, (x, y))
                    else:
                        close = [
                            abs(one - other) < 60 for one, other in zip(after, levels, strict=True)
                        ]
                        self.assertEqual(close, [True] * 3, ((x, y), [*after]))

    def test_marks_that_are_none_are_refused_in_one_sentence(self) -> None:
        for ui in (
            *(
                "5",
                "[]",
                "{",
                '{"executed": {}}',
                '{"executed_heat": 1}',
                '{"bbox_heat": {"border": "red"}}',
            ),
            *(
                '{"executed_heat": {"trail_turns": true}}',
                '{"executed_heat": {"radius_scale": 1e999}}',
            ),
            *(
                '{"executed_heat": {"stops": [[0]]}}',
                '{"bbox_heat": {"border_width": -1}}',
                "[" * 5000,
            ),
        ):
            with self.assertRaises(agent.ConfigError) as caught:
                agent.load_config({"file": {"ui_config": ui}})
            self.assertIn("ui_config", str(caught.exception))
        own = {"executed_heat": {"trail_turns": 1}}  # as it stands in a file of settings
        config = agent.load_config({"file": {"ui_config": own}})
        self.assertEqual(agent.marks_of(config.ui_config)["executed_heat"]["trail_turns"], 1)

    def test_scaling_comes_after_the_crop_and_zero_switches_it_off(self) -> None:
        """25 means 25% of the post-crop pixel dimensions; both > 0 fully specify output resolution."""
        for settings, size in (
            (("capture_scale_percent=0",), (64, 36)),
            (("capture_scale_percent=-1",), (64, 36)),
            (("capture_scale_percent=25",), (16, 9)),
            (("capture_scale_percent=50",), (32, 18)),
            (("screen_capture_w=50", "screen_capture_h=40"), (50, 40)),
        ):
            png = (story(more=settings).folder / "turn_0001_raw.png").read_bytes()
            self.assertEqual(agent.png_to_bgrx(png)[1:], size)


if __name__ == "__main__":
    unittest.main()
