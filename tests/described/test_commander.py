"""The profile commander with --described against its description, a row a point with its line."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

from tests.described.exchange import Exchange, arguments, call_names, said
from tests.scripted import PROOF, EngineCase

SITREP = "OBJ: press\nDOD: it is pressed\nOBS: a button\nACT: click"
WHY = "it is next"
THING = {"label": "Button", "position": [500, 500], "justification": WHY}


def report(status: str) -> dict[str, Any]:
    return said(SITREP, "report_progress", objective_id="o", status=status, evidence="e")


# Each with its turn; in turns 5 and 8 nobody is asked.
REPLIES = [
    said("Press it.", "spawn_operator", operator_instructions="Press it.", rationale=WHY),  # 1
    said(SITREP, "click_element", **THING),  # 2
    said(SITREP, "type_text", text="hello", justification=WHY),
    said(SITREP, "press_key", key="enter", justification=WHY),  # 4
    said("On.", "spawn_operator", operator_instructions="Go on.", rationale=WHY),  # 6
    report("BLOCKED"),  # 7
    said(
        "", "compress_memory", compression_summary="s", loop_analysis="none", archived_turns=[2, 3]
    ),  # 9
    said("New way.", "spawn_operator", operator_instructions="By keys.", rationale=WHY),  # 10
    said(SITREP, "report_completion", evidence=PROOF),  # 11
]
OPERATOR_TOOLS = (
    "click_element double_click_element right_click_element drag_element type_text press_key"
    " scroll_down scroll_up report_progress report_completion"
)

SETTINGS = (
    ("lmstudio_timeout: 240", "lmstudio_timeout", 240),
    ("lmstudio_temperature: 0.5  # Operator", "lmstudio_temperature", 0.5),
    ("lmstudio_max_tokens: 1024  # Operator", "executor_max_tokens", 1024),
    ("Temperature: 0.35 (deterministic strategic thinking)", "planner_temperature", 0.35),
    ("Max Tokens: 1200", "planner_max_tokens", 1200),
    ("screen_capture_w: 1536", "screen_capture_w", 1536),
    ("screen_capture_h: 864", "screen_capture_h", 864),
    ("max_steps: 30", "max_steps", 30),
    ("team_review_interval: 5", "review_interval", 5),
    ("memory_compression_threshold: 8", "memory_compression_threshold", 8),
    ("ui_settle_delay: 0.3", "ui_settle_delay", 0.3),
    ("turn_delay: 1.5", "turn_delay", 1.5),
    ("char_input_delay: 0.01", "char_input_delay", 0.01),
    ("enable_loop_recovery: True", "enable_loop_recovery", True),
    ("loop_recovery_cooldown: 3", "loop_recovery_cooldown", 3),
    ("wheel scroll (delta ±120)", "scroll_ticks", 1),
    ("API Failures: Unhandled - will raise exception and terminate", "model_failures", 0),
)
POINTS: tuple[tuple[str, Callable[[Exchange], Any], Any], ...] = (
    ("Decision Points: Turn 1, every 5 turns, operator blocker", lambda run: run.left, 0),
    (
        "needs_review flag set (objective DONE/BLOCKED)",
        lambda run: run.roles,
        [
            "planner",
            "executor",
            "executor",
            "executor",
            "planner",
            "executor",
            "planner",
            "planner",
            "executor",
        ],
    ),
    (
        "Tools: spawn_operator, compress_memory",
        lambda run: call_names(run.requests[0]),
        ["spawn_operator", "compress_memory"],
    ),
    (
        "Tools (10 total)",
        lambda run: sorted(call_names(run.requests[1])),
        sorted(OPERATOR_TOOLS.split()),
    ),
    (
        "ClickArgs: justification, label, position(Coordinate)",
        lambda run: arguments(run.requests[1], "click_element")[0],
        {"justification", "label", "position"},
    ),
    (
        "DragArgs: justification, label, start(Coordinate), end(Coordinate)",
        lambda run: arguments(run.requests[1], "drag_element")[0],
        {"justification", "label", "start", "end"},
    ),
    (
        "TypeTextArgs: justification, text",
        lambda run: arguments(run.requests[1], "type_text")[0],
        {"justification", "text"},
    ),
    (
        "PressKeyArgs: justification, key",
        lambda run: arguments(run.requests[1], "press_key")[0],
        {"justification", "key"},
    ),
    (
        "ScrollArgs: justification",
        lambda run: arguments(run.requests[1], "scroll_down")[0],
        {"justification"},
    ),
    (
        "ReportProgressArgs: objective_id, status, evidence",
        lambda run: arguments(run.requests[1], "report_progress")[0],
        {"objective_id", "status", "evidence"},
    ),
    (
        "CompressMemoryArgs: compression_summary, loop_analysis, archived_turns",
        lambda run: arguments(run.requests[0], "compress_memory")[0],
        {"compression_summary", "loop_analysis", "archived_turns"},
    ),
    (
        "SpawnOperatorArgs: operator_instructions, rationale",
        lambda run: arguments(run.requests[0], "spawn_operator")[0],
        {"operator_instructions", "rationale"},
    ),
    ('"tool_choice": "auto"', lambda run: {one["tool_choice"] for one in run.requests}, {"auto"}),
    (
        '"content": [ {"type": "text", ...}, {"type": "image_url", ...} ]',
        lambda run: run.parts(2),
        ["text", "image_url"],
    ),
    ("POST to LLM (no screenshot)", lambda run: run.parts(1), ["text"]),
    (
        "Identity: SOF desktop automation unit leader",
        lambda run: "SOF desktop automation unit" in run.system(1),
        True,
    ),
    (
        "Identity: SOF Operator specialist",
        lambda run: "SOF Operator specialist" in run.system(2),
        True,
    ),
    (
        "Mission: <user_task>",
        lambda run: "MISSION: Press the button" in run.system(1),
        True,
    ),
    (
        "Plan Section: <current_plan (500 chars)>",
        lambda run: "PLAN: Press it." in run.system(5),
        True,
    ),
    (
        "Current Brief: <operator_instructions>",
        lambda run: [
            f"CURRENT_BRIEF: {brief}\n" in run.system(number)
            for number, brief in ((2, "Press it."), (6, "Go on."), (9, "By keys."))
        ],
        [True] * 3,
    ),
    (
        "Mode Switching Rules: EVALUATION vs EXECUTION",
        lambda run: ("EVALUATION" in run.system(1), "EXECUTION" in run.system(1)),
        (True, True),
    ),
    ("review every N turns", lambda run: "every 5 turns" in run.system(1), True),
    (
        "SITREP Format: OBJ, DOD, OBS, ACT (structured reporting)",
        lambda run: [f"\n{name}: " in run.system(2) for name in ("OBJ", "DOD", "OBS", "ACT")],
        [True] * 4,
    ),
    (
        'mode: str  # "EVALUATION" | "EXECUTION"',
        lambda run: (
            "OPERATING_MODE: EVALUATION" in run.user(1),
            "OPERATING_MODE: EXECUTION" in run.user(2),
        ),
        (True, True),
    ),
    (
        "Active history: Last 8 actions with tool/result/sitrep",
        lambda run: run.user(3).split("RECENT_ACTIONS ")[1].splitlines()[:3],
        [
            "(count=1):",
            "  Turn_2: click_element -> Clicked: Button",
            "    Response: OBJ: press DOD: it is pressed OBS: a button ACT: click",
        ],
    ),
    (
        "Compressed snapshots: Summary (180 chars) + loop pattern (120 chars)",
        lambda run: "Archive_1: s\n    Patterns: none" in run.user(9),
        True,
    ),
    (
        "Archived turns removed from context",
        lambda run: [f"Turn_{turn}:" in run.user(9) for turn in (2, 3, 4, 7)],
        [False, False, True, True],
    ),
    ("9. Sleep(turn_delay)", lambda run: 1.8 <= round(run.times[2] - run.times[1], 3) < 2.1, True),
    ("if report_completion → TERMINATE", lambda run: run.outcome[0], "completed"),
    (
        "TURN N - EVALUATION (text-only reasoning)",
        lambda run: "TURN 6 - EVALUATION" in run.log,
        True,
    ),
    ("TURN N - EXECUTION (vision-based action)", lambda run: "TURN 7 - EXECUTION" in run.log, True),
    ("API REQUEST/RESPONSE (redacted)", lambda run: "iVBORw0KGgo" in run.log, False),
    (
        "screenshots/: PNG archive per turn (turn_NNNN.png)",
        lambda run: [f"turn_{turn:04d}.png" in run.screenshots() for turn in (2, 5, 8, 11)],
        [True] * 4,
    ),
    ("Initial screenshot", lambda run: run.screenshots()[0], "turn_0000.png"),
)


class AsDescribed(EngineCase):
    def test_each_point_of_the_description_holds_in_a_run(self) -> None:
        run = Exchange(self, "commander", REPLIES)
        for quote, found, wanted in POINTS:
            with self.subTest(quote):
                self.assertEqual(found(run), wanted)

    def test_each_described_value_is_set(self) -> None:
        config = Exchange(self, "commander", [REPLIES[0], REPLIES[-1]]).config
        for quote, name, value in SETTINGS:
            with self.subTest(quote):
                self.assertEqual(getattr(config, name), value)

    def test_eight_actions_lead_to_the_leader_which_is_to_compress(self) -> None:
        """Compression Trigger: Active history >= `memory_compression_threshold` (default: 8)."""
        brief = REPLIES[0]
        keys = [said("", "press_key", key=key, justification=WHY) for key in "abcdefgh"]
        # Turns 5, 10 and 14 are looks alone.
        replies = [brief, *keys[:3], brief, *keys[3:6], brief, *keys[6:], REPLIES[6]]
        run = Exchange(self, "commander", replies, "--max-steps", "15")
        self.assertEqual((run.roles[-1], run.left), ("planner", 0))
        self.assertIn("ARCHIVE_NOW", run.user(len(run.requests)))


if __name__ == "__main__":
    unittest.main()
