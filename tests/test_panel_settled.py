"""What whoever watches a run is told once, and the picture of the screen at rest after an act."""

from __future__ import annotations

import base64
import unittest
from typing import Any
from unittest import mock

import agent
from tests.scripted import EngineCase, Trial, call
from tests.test_main import CommandLineCase
from tests.test_panel import PICTURE, PanelTest, act, head, publish, show, turn


class SaidOnce(CommandLineCase):
    def test_the_answer_that_ends_a_chat_stands_at_the_end_and_not_in_its_row_too(self) -> None:
        for number, profile in enumerate(("chat", "pointer"), 1):
            code, out, _ = self.main("--demo", "--profile", profile)
            words = "Notes shows its green mark, so the text is saved."
            self.assertEqual((code, out.count(words)), (0, 1), out)
            self.assertIn(f"\ncompleted: {words}\n", out)
            self.assertRegex(out, r"final_answer +Mission complete")
            action = next(row for row in self.records(number)[::-1] if row["kind"] == "action")
            self.assertEqual(action["response_text"], words)


PLACE = {"x": 10, "y": 20}
MARK = {"name": "click", "x1": 10, "y1": 20}
FRAME = agent.Frame(
    number=1,
    width=32,
    height=16,
    pixels=bytes(32 * 16 * 4),
    clean=bytes(32 * 16 * 4),
    area=agent.Rect(0, 0, 32, 16),
    screen=agent.Rect(0, 0, 32, 16),
    taken_at=0.0,
)


class AfterAnAct(PanelTest):
    def marked(self) -> list[Any]:
        state = self.state()
        return [state[name] for name in ("settled", "actions", "trail", "bboxes")]

    def test_the_screen_at_rest_is_the_newest_picture_and_frames_what_changed(self) -> None:
        done = act("click", True, position=PLACE) | {"region": (1, 2, 3, 4)}
        show(self.panel, PICTURE, 2)
        publish(self.panel, [head(), turn(2, done)])
        self.assertEqual(self.marked(), [False, [MARK], [], []])
        before = self.state()["msg_id"]
        self.panel.take(agent.Settled(FRAME))
        self.assertEqual(
            self.marked(), [True, [], [[MARK]], [{"x1": 1, "y1": 2, "x2": 3, "y2": 4}]]
        )
        state = self.state()
        self.assertEqual(state["msg_id"], before + 1)
        rgb, width, height = agent.png_to_rgb(base64.b64decode(state["raw_b64"]))
        self.assertEqual((rgb, width, height), (bytes(32 * 16 * 3), 32, 16))

    def test_an_act_after_it_is_marked_on_it_and_a_new_look_begins_anew(self) -> None:
        clicks = [act("click", True, position=PLACE), act("click", True, position=PLACE)]
        publish(self.panel, [head(), turn(2, clicks[0])])
        self.panel.take(agent.Settled(FRAME))
        publish(self.panel, [head(), turn(2, *clicks)])
        self.assertEqual(self.marked(), [True, [MARK], [[MARK]], []])
        show(self.panel, PICTURE, 3)
        publish(self.panel, [head(), turn(2, *clicks), turn(3)])
        self.assertEqual(self.marked(), [False, [], [[MARK, MARK]], []])

    def test_what_nobody_asks_for_is_never_packed(self) -> None:
        with mock.patch.object(agent.PngEncoder, "encode") as encode:
            self.panel.take(agent.Settled(FRAME))
            self.panel.news(-1)
            show(self.panel, PICTURE, 3)
            self.assertEqual(base64.b64decode(self.state()["raw_b64"]), PICTURE)
        encode.assert_not_called()

    def test_an_act_is_marked_while_it_is_done_and_not_if_it_was_refused(self) -> None:
        show(self.panel, PICTURE, 2)
        self.panel.book.empty = False
        records = (
            agent.IntentRecord(2, "click", {"position": PLACE}),
            agent.ResultRecord(2, "Not done.", refused="risky"),
        )
        for record, marks in zip(records, ([MARK], []), strict=True):
            self.panel.book.take(record)
            self.panel.take(record)
            self.assertEqual(self.state()["actions"], marks)


class InARun(EngineCase):
    def typed(self, text: str) -> tuple[list[agent.Item], Trial]:
        """What a run publishes of one act."""
        trial = self.trial(lambda request: call("none"), confirm="never")
        trial.hidden = agent.Secrets({"PASSWORD": "battery"})
        items: list[agent.Item] = []
        trial.listen(items.append)
        look = trial.look(1)
        typing = agent.ToolCall("type_text_input", {"text": text})
        trial.perform(trial.profile.vocabulary.parse(typing), look, 1)
        return items, trial

    def test_the_frame_that_an_act_took_anyway_is_shown_before_its_result_and_no_other(
        self,
    ) -> None:
        items, trial = self.typed("hello")
        kinds = [type(item).__name__ for item in items if not isinstance(item, agent.Phase)]
        self.assertEqual(kinds[-3:], ["IntentRecord", "Settled", "ResultRecord"])
        (shown,) = [item for item in items if isinstance(item, agent.Settled)]
        captures = trial.desktop.number
        self.assertIs(trial.look(2).frame, shown.frame)
        self.assertEqual((captures, trial.desktop.number), (2, 2))

    def test_where_a_secret_was_typed_only_a_look_shows_the_screen(self) -> None:
        items, _ = self.typed("{{PASSWORD}}")
        self.assertFalse([item for item in items if isinstance(item, agent.Settled)])


if __name__ == "__main__":
    unittest.main()
