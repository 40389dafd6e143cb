"""The profile planner with --described against its description, a row a point with its line."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

from tests.described.exchange import Exchange, arguments, call_names, said
from tests.scripted import PROOF, EngineCase, text

REPORT = "LAST_ACTION_RESULT: worked\nCURRENT_GOAL: press\nSUCCESS_CRITERIA: it is pressed\n\
SCREEN_SHOWS: a button\nNEXT_STEP: click"
WHY = "it is next"
PLACE = [500, 500]
THING = {"element_name": "Button", "position": PLACE, "reasoning": WHY}

# Each with its turn; in turns 7 and 14 nobody is asked.
REPLIES = [
    said("First press it.", "update_execution_plan", instructions="Press it.", reasoning=WHY),  # 1
    said(REPORT, "click_screen_element", **THING),  # 2
    said(REPORT, "type_text_input", text="hello", reasoning=WHY),
    said(REPORT, "press_keyboard_key", key="enter", reasoning=WHY),
    said(REPORT, "scroll_screen_down", reasoning=WHY),
    said(
        REPORT, "report_goal_status", goal_identifier="g", completion_status="DONE", evidence="e"
    ),  # 6
    said("Now the rest.", "update_execution_plan", instructions="Go on.", reasoning=WHY),  # 8
    text("I am not sure."),  # 9
    said(REPORT, "report_mission_complete", evidence="done"),  # 10
    said(REPORT, "double_click_screen_element", **THING),
    said(REPORT, "right_click_screen_element", **THING),
    said(
        REPORT,
        "drag_screen_element",
        element_name="Button",
        start=[100, 100],
        end=[900, 900],
        reasoning=WHY,
    ),  # 13
    said(
        "",
        "archive_completed_actions",
        summary="pressed it",
        patterns_detected="none",
        archived_turns=[2, 3, 4],
    ),  # 15
    said("The end.", "update_execution_plan", instructions="Report.", reasoning=WHY),  # 16
    said(REPORT, "scroll_screen_up", reasoning=WHY),  # 17
    said(REPORT, "report_mission_complete", evidence=PROOF),  # 18
]
PLAN, FIRST, SECOND, REVIEW, SILENT, AGAIN, LAST_PLAN, LAST = 1, 2, 3, 7, 9, 14, 14, 16

SETTINGS = (
    ("`lmstudio_timeout`: 240 seconds for API calls", "lmstudio_timeout", 240),
    ("0.5 for executor", "lmstudio_temperature", 0.5),
    ("0.35 for planner", "planner_temperature", 0.35),
    ("`planner_max_tokens`: 1800 tokens maximum response", "planner_max_tokens", 1800),
    ("`executor_max_tokens`: 1400 tokens maximum response", "executor_max_tokens", 1400),
    ("1536x864 downscaled resolution", "screen_capture_w", 1536),
    ("1536x864 downscaled resolution", "screen_capture_h", 864),
    ("`max_steps`: 50 turn hard limit", "max_steps", 50),
    ("`ui_settle_delay`: 0.3s for UI state stabilization", "ui_settle_delay", 0.3),
    ("`turn_delay`: 1.5s between agent turns", "turn_delay", 1.5),
    ("`char_input_delay`: 0.01s between character inputs", "char_input_delay", 0.01),
    ("`review_interval`: 7 turns between forced planning reviews", "review_interval", 7),
    ("12 active actions before compression required", "memory_compression_threshold", 12),
    ("`loop_recovery_cooldown`: 3 turns between recovery attempts", "loop_recovery_cooldown", 3),
    ("`enable_loop_recovery` config flag enabled", "enable_loop_recovery", True),
    ("Unicode keyboard events batched in 100-event chunks", "text_batch_events", 100),
    ("15-step interpolated movement with button hold", "drag_steps", 15),
    ("Fixed delays (0.3s settle, 1.5s turn) instead of adaptive", "settle_cap_ms", 0),
    ("Relies on urllib exceptions (no explicit catch in function)", "request_retries", 0),
)


def wheel(run: Exchange) -> list[Any]:
    return [event[1] for event in run.desktop.inputs if event[0] == "wheel"]


EXECUTOR_TOOLS = [
    "click_screen_element",
    "double_click_screen_element",
    "right_click_screen_element",
    "drag_screen_element",
    "type_text_input",
    "press_keyboard_key",
    "scroll_screen_down",
    "scroll_screen_up",
    "report_goal_status",
    "report_mission_complete",
]
POINTS: tuple[tuple[str, Callable[[Exchange], Any], Any], ...] = (
    # -- order of the requests
    ("Mode switching between planner and executor", lambda run: run.left, 0),
    (
        "Turn divisible by review_interval (7) ... Switch to PLANNING, ... continue",
        lambda run: run.roles,
        ["planner"]
        + ["executor"] * 5  # turns 2 to 6; 7 is the review's
        + ["planner"]
        + ["executor"] * 5  # 9 to 13; 14 is the review's
        + ["planner"] * 2
        + ["executor"] * 2,
    ),
    (
        "If no tool_call returned: sleep and continue",
        lambda run: len(run.requests[SILENT - 1]["messages"]),
        2,
    ),
    # -- tools
    (
        "Tools: PLANNER_TOOLS (2 tools)",
        lambda run: call_names(run.requests[0]),
        ["update_execution_plan", "archive_completed_actions"],
    ),
    (
        "Executor Tools",
        lambda run: sorted(call_names(run.requests[FIRST - 1])),
        sorted(EXECUTOR_TOOLS),
    ),
    (
        "`TypeTextArgs`: reasoning, text",
        lambda run: arguments(run.requests[FIRST - 1], "type_text_input")[0],
        {"reasoning", "text"},
    ),
    (
        "`PressKeyArgs`: reasoning, key",
        lambda run: arguments(run.requests[FIRST - 1], "press_keyboard_key")[0],
        {"reasoning", "key"},
    ),
    (
        "`ClickArgs`: reasoning, element_name, position(Coordinate)",
        lambda run: arguments(run.requests[FIRST - 1], "click_screen_element")[0],
        {"reasoning", "element_name", "position"},
    ),
    (
        "`DragArgs`: reasoning, element_name, start(Coordinate), end(Coordinate)",
        lambda run: arguments(run.requests[FIRST - 1], "drag_screen_element")[0],
        {"reasoning", "element_name", "start", "end"},
    ),
    (
        "`UpdatePlanArgs`: instructions, reasoning",
        lambda run: arguments(run.requests[0], "update_execution_plan")[0],
        {"instructions", "reasoning"},
    ),
    (
        "`ArchiveHistoryArgs`: summary, patterns_detected, archived_turns(tuple[int])",
        lambda run: arguments(run.requests[0], "archive_completed_actions")[0],
        {"summary", "patterns_detected", "archived_turns"},
    ),
    (
        "`ReportProgressArgs`: goal_identifier, completion_status, evidence",
        lambda run: arguments(run.requests[FIRST - 1], "report_goal_status")[0],
        {"goal_identifier", "completion_status", "evidence"},
    ),
    # -- requests
    ("Tool choice: auto", lambda run: {one["tool_choice"] for one in run.requests}, {"auto"}),
    ("Temperature: 0.35", lambda run: run.requests[0]["temperature"], 0.35),
    ("Max tokens: 1800", lambda run: run.requests[0]["max_tokens"], 1800),
    ("Temperature: 0.5", lambda run: run.requests[FIRST - 1]["temperature"], 0.5),
    ("Max tokens: 1400", lambda run: run.requests[FIRST - 1]["max_tokens"], 1400),
    (
        "Constructs multimodal message with text + image_url",
        lambda run: run.parts(FIRST),
        ["text", "image_url"],
    ),
    ("Planner: text only", lambda run: run.parts(PLAN), ["text"]),
    # -- texts
    ("Identity: Computer Task Planner", lambda run: "Computer Task Planner" in run.system(1), True),
    (
        "Identity: Computer Task Executor",
        lambda run: "Computer Task Executor" in run.system(2),
        True,
    ),
    ("Review frequency: Every 7 turns", lambda run: "every 7 turns" in run.system(1), True),
    (
        "Use .format() for variable injection (task, instructions, etc.)",
        lambda run: ("TASK: Press the button" in run.system(2), "Press it." in run.system(2)),
        (True, True),
    ),
    (
        "LEFT: 0-300, RIGHT: 700-1000, TOP: 0-300, BOTTOM: 700-1000",
        lambda run: [
            side in run.system(2)
            for side in ("LEFT: x 0-300", "RIGHT: x 700-1000", "TOP: y 0-300", "BOTTOM: y 700-1000")
        ],
        [True] * 4,
    ),
    (
        "Corner positions explicitly stated",
        lambda run: [
            corner in run.system(2)
            for corner in ("[0, 0]", "[1000, 0]", "[0, 1000]", "[1000, 1000]")
        ],
        [True] * 4,
    ),
    (
        "LAST_ACTION_RESULT ... CURRENT_GOAL ... SUCCESS_CRITERIA ... SCREEN_SHOWS ... NEXT_STEP",
        lambda run: [f"{line.split(':')[0]}:" in run.system(2) for line in REPORT.splitlines()],
        [True] * 5,
    ),
    (
        "TASK: {task} CURRENT_PLAN: OPERATING_MODE: {mode} CURRENT_TURN: {turn} {memory_context}",
        lambda run: run.user(SECOND).split("\n\n")[:4],
        [
            "TASK: Press the button",
            "CURRENT_PLAN:\nFirst press it.",
            "OPERATING_MODE: EXECUTION",
            "CURRENT_TURN: 3",
        ],
    ),
    (
        "OPERATING_MODE: {mode}",
        lambda run: "OPERATING_MODE: PLANNING" in run.user(REVIEW),
        True,
    ),
    (
        "RECENT_ACTIONS (count=X): Turn_N: tool_name -> result... Response: response_text...",
        lambda run: run.user(SECOND).split("\n\n")[4].splitlines()[:3],
        [
            "RECENT_ACTIONS (count=1):",
            "  Turn_2: click_screen_element -> Clicked: Button",
            "    Response: LAST_ACTION_RESULT: worked CURRENT_GOAL: press SUCCESS_CRITERIA: it is"
            " pressed SCREEN_SHOWS: a button NEXT_STEP: click",
        ],
    ),
    (
        "Shows last 8 active actions",
        lambda run: (
            "(count=10)" in run.user(LAST_PLAN - 1),
            run.user(LAST_PLAN - 1).count("\n  Turn_"),
        ),
        (True, 8),
    ),
    (
        "COMPLETED_WORK: Archive_N: summary... Patterns: patterns...",
        lambda run: "COMPLETED_WORK:\n  Archive_1: pressed it\n    Patterns: none" in run.user(15),
        True,
    ),
    (
        "Marks old actions as archived",
        lambda run: [f"Turn_{turn}:" in run.user(LAST) for turn in (2, 3, 4, 5, 6)],
        [False, False, False, True, True],
    ),
    ('First turn: "No previous action"', lambda run: "No previous action" in run.user(2), True),
    (
        "Tool name, Action description with coordinates/text, Original reasoning, Expected result",
        lambda run: run.user(SECOND).split("LAST_ACTION: ")[1].splitlines()[:3],
        [
            'click_screen_element "Button" (500, 500)',
            "REASONING: it is next",
            "EXPECTED_RESULT: it is pressed",
        ],
    ),
    ("Prompt: no judge besides", lambda run: "WINDOW" in str(run.requests), False),
    # -- acts
    ("MOUSEEVENTF_WHEEL with ±120 delta", wheel, [-120, 120]),
    (
        "Moves mouse to screen center (sw//2, sh//2)",
        lambda run: [
            before
            for before, event in zip(run.desktop.inputs, run.desktop.inputs[1:], strict=False)
            if event[0] == "wheel"
        ],
        [("move", 32, 18)] * 2,
    ),
    ('Returns: "Typed: {text[:50]}"', lambda run: "-> Typed: hello" in run.user(4), True),
    ('Returns: "Pressed key: {key}"', lambda run: "-> Pressed key: enter" in run.user(5), True),
    ('Returns: "Scrolled down/up"', lambda run: "-> Scrolled down" in run.user(6), True),
    (
        'Returns: "Goal status: {goal_identifier} -> {completion_status}"',
        lambda run: "-> Goal status: g -> DONE" in run.user(REVIEW),
        True,
    ),
    # -- time
    ("Turn Delay: Sleep 1.5s before next iteration", lambda run: run.times[1] - run.times[0], 1.5),
    (
        "ui_settle_delay (0.3s) after every action, turn_delay (1.5s) between turns",
        lambda run: 1.8 <= round(run.times[2] - run.times[1], 3) < 2.1,
        True,
    ),
    # -- end and files
    (
        'Returns "Mission completed in {turn} turns"',
        lambda run: (run.outcome[0], run.outcome[1]),
        ("completed", "Mission completed in 18 turns"),
    ),
    ("Saves as turn_0000.png", lambda run: run.screenshots()[0], "turn_0000.png"),
    (
        "turn_NNNN.png",
        lambda run: [f"turn_{turn:04d}.png" in run.screenshots() for turn in (2, 7, 14, 18)],
        [True] * 4,
    ),
    (
        "Mode: PLANNING: no screenshot",
        lambda run: [f"turn_{turn:04d}.png" in run.screenshots() for turn in (1, 8, 15, 16)],
        [False] * 4,
    ),
    ("Logs execution section header", lambda run: "TURN 7 - EXECUTION" in run.log, True),
    ("Logs planning section", lambda run: "TURN 8 - PLANNING" in run.log, True),
    (
        "Replaces base64-encoded image data with length metadata",
        lambda run: ("base64 characters" in run.log, "iVBORw0KGgo" in run.log),
        (True, False),
    ),
)


class AsDescribed(EngineCase):
    def test_each_point_of_the_description_holds_in_a_run(self) -> None:
        run = Exchange(self, "planner", REPLIES)
        for quote, found, wanted in POINTS:
            with self.subTest(quote):
                self.assertEqual(found(run), wanted)

    def test_each_described_value_is_set(self) -> None:
        config = Exchange(self, "planner", [REPLIES[0], REPLIES[-1]]).config
        for quote, name, value in SETTINGS:
            with self.subTest(quote):
                self.assertEqual(getattr(config, name), value)

    def test_the_end_of_the_turns_is_told_as_described(self) -> None:
        """Returns "Max steps reached (50)"."""
        run = Exchange(self, "planner", [REPLIES[0], REPLIES[1]], "--max-steps", "2")
        self.assertEqual(run.outcome, ("max_steps", "Max steps reached (2)"))

    def test_twelve_actions_lead_to_the_planner_which_is_to_archive(self) -> None:
        """OR memory.needs_compression (12+ active actions)."""
        plan = REPLIES[0]
        keys = [said("", "press_keyboard_key", key=key, reasoning=WHY) for key in "abcdefghijkl"]
        replies = [plan, *keys[:5], plan, *keys[5:10], plan, *keys[10:], REPLIES[12]]
        run = Exchange(self, "planner", replies, "--max-steps", "19")
        self.assertEqual((run.roles[-1], run.left), ("planner", 0))
        self.assertIn("ARCHIVE_NOW", run.user(len(run.requests)))
        self.assertNotIn("ARCHIVE_NOW", run.user(13))

    def test_a_blocked_goal_leads_to_a_review(self) -> None:
        """Status "BLOCKED": set needs_review flag."""
        blocked = said(
            "", "report_goal_status", goal_identifier="g", completion_status="BLOCKED", evidence="e"
        )
        run = Exchange(self, "planner", [REPLIES[0], blocked, REPLIES[6]], "--max-steps", "4")
        self.assertEqual(run.roles, ["planner", "executor", "planner"])


class Kept(EngineCase):
    """Rows of the table that stay as ours even so."""

    def click(self, position: list[float]) -> Exchange:
        clicked = said("", "click_screen_element", **{**THING, "position": position})
        return Exchange(self, "planner", [REPLIES[0], clicked], "--max-steps", "2")

    def test_a_place_outside_the_grid_is_refused_instead_of_clamped(self) -> None:
        """normalized_x = clamp(x, 0, 1000)."""
        self.assertEqual(self.click([1200, 500]).desktop.inputs, [])
        self.assertNotEqual(self.click([1000, 500]).desktop.inputs, [])

    def test_half_a_step_of_the_grid_is_read_as_a_whole_one(self) -> None:
        """pixel_x = round((normalized_x / 1000.0) * screen_width)."""
        self.assertIn('TOOL click "Button" (501, 500)', self.click([500.5, 500]).log)

    def test_a_planner_that_never_instructs_does_not_spin(self) -> None:
        """If instructions returned: ... Switches mode to EXECUTION."""
        silent = text("Let me think.")
        run = Exchange(self, "planner", [silent] * 200)
        self.assertEqual(run.outcome[0], "stuck")
        self.assertNotIn("planner planner planner", " ".join(run.roles))
        self.assertIn("executor", run.roles)
        self.assertEqual([len(request["messages"]) for request in run.requests[:2]], [2, 2])

    def test_the_next_request_tells_of_evidence_that_was_too_short(self) -> None:
        """If insufficient: log warning, sleep, continue."""
        short = said("", "report_mission_complete", evidence="done")
        run = Exchange(self, "planner", [REPLIES[0], short, REPLIES[1]], "--max-steps", "3")
        self.assertIn("Evidence has 4 characters", run.user(3))


if __name__ == "__main__":
    unittest.main()
