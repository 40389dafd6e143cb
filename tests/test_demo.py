"""The drawn desktop behaves like one, and the built-in model finds its way by the pixels alone."""

import base64
import json
import unittest
import urllib.error
import urllib.request

import agent
from agent import DEMO_SIGNS, DEMO_TASK, DemoDesktop, DemoModel, Point, Rect
from tests.fakes import VirtualClock
from tests.samples import sample

NOTE = "Hello from agent.py"
XY = {"type": "array", "items": {"type": "integer"}}
# Tools as the profiles name them: {tool: {property: schema}}; all properties are required.
PLANNER = {
    "report_mission_complete": {"evidence": {}},
    "report_goal_status": {"goal_identifier": {}, "completion_status": {}, "evidence": {}},
    "click_screen_element": {"reasoning": {}, "element_name": {}, "position": XY},
    "double_click_screen_element": {"reasoning": {}, "element_name": {}, "position": XY},
    "type_text_input": {"reasoning": {}, "text": {}},
    "press_keyboard_key": {"reasoning": {}, "key": {}},
}
COMMANDER = {
    "click_element": {"justification": {}, "label": {}, "position": XY},
    "double_click_element": {"justification": {}, "label": {}, "position": XY},
    "type_text": {"justification": {}, "text": {}},
    "press_key": {"justification": {}, "key": {}},
    "report_progress": {"objective_id": {}, "status": {}, "evidence": {}},
    "report_completion": {"evidence": {}},
}
CHAT = {
    "observe_screen": {},
    "click_element": {"label": {}, "box": XY},
    "type_text": {"text": {}},
    "press_key": {"key": {}},
}
POINTER = {
    "take_screenshot": {},
    "move_mouse": {"x": {}, "y": {}},
    "click_mouse": {},
    "type_text": {"text": {}},
}
PLANS = {
    "planner": (
        {"update_execution_plan": {"instructions": {}, "reasoning": {}}},
        "update_execution_plan",
    ),
    "commander": (
        {"spawn_operator": {"operator_instructions": {}, "rationale": {}}},
        "spawn_operator",
    ),
}
ARCHIVES = {
    "archive_completed_actions": {"summary": {}, "patterns_detected": {}, "archived_turns": XY},
    "compress_memory": {"compression_summary": {}, "loop_analysis": {}, "archived_turns": XY},
}


def make_desktop() -> DemoDesktop:
    return DemoDesktop(VirtualClock())


def middle(desktop: DemoDesktop, name: str) -> Point:
    return agent.to_point(agent.Coordinate(500, 500), desktop.state.places()[name])


def click(desktop: DemoDesktop, name: str, times: int = 1, apart: float = 0.1) -> None:
    desktop.move(middle(desktop, name))
    for _ in range(times):
        desktop.button("left", True)
        desktop.button("left", False)
        desktop.clock.sleep(apart)


def notes_open(focus: bool = True) -> DemoDesktop:
    desktop = make_desktop()
    click(desktop, "Notes icon", 2)
    if focus:
        click(desktop, "text area")
    return desktop


def press(desktop: DemoDesktop, chord: str) -> None:
    keys = chord.split("+")
    for key in keys:
        desktop.key(key, True)
    for key in reversed(keys):
        desktop.key(key, False)


def picture(desktop: DemoDesktop) -> bytes:
    return desktop.glance(desktop.screen(), 1280, 720)


def screenshot(desktop: DemoDesktop, area=None, width=640, height=360) -> dict:
    frame = desktop.capture(area or desktop.screen(), width, height)
    png = agent.PngEncoder().encode(frame.pixels, width, height).png
    url = "data:image/png;base64," + base64.b64encode(png).decode()
    return {"type": "image_url", "image_url": {"url": url}}


def schemas(tools: dict) -> list:
    return [
        {
            "type": "function",
            "function": {"name": name, "parameters": {"properties": p, "required": list(p)}},
        }
        for name, p in tools.items()
    ]


def user(text: str, image: dict | None = None) -> dict:
    return {
        "role": "user",
        "content": ([image] if image else []) + [{"type": "text", "text": text}],
    }


class Controls(unittest.TestCase):
    def test_the_start_button_opens_and_closes_the_menu(self):
        desktop = make_desktop()
        click(desktop, "Start button")
        self.assertTrue(desktop.state.menu)
        click(desktop, "Start button")
        self.assertFalse(desktop.state.menu)

    def test_escape_a_click_elsewhere_and_the_windows_key_close_the_menu(self):
        for act in (
            lambda d: press(d, "escape"),
            lambda d: click(d, "desktop"),
            lambda d: press(d, "win"),
        ):
            desktop = make_desktop()
            press(desktop, "ctrl+escape")
            self.assertTrue(desktop.state.menu)
            act(desktop)
            self.assertFalse(desktop.state.menu)

    def test_a_click_on_the_menus_ground_leaves_it_open(self):
        desktop = make_desktop()
        click(desktop, "Start button")
        menu = desktop.state.places()["menu"]
        desktop.move(Point(menu.left + 5, menu.top + 5))
        desktop.button("left", True)
        desktop.button("left", False)
        self.assertTrue(desktop.state.menu)

    def test_the_menu_opens_notes(self):
        desktop = make_desktop()
        click(desktop, "Start button")
        click(desktop, "Notes in the menu")
        self.assertEqual((desktop.state.opened, desktop.state.menu), (True, False))

    def test_a_double_click_opens_notes_and_a_slow_one_does_not(self):
        desktop = make_desktop()
        click(desktop, "Notes icon", 2, apart=0.51)
        self.assertFalse(desktop.state.opened)
        desktop.clock.sleep(1)
        click(desktop, "Notes icon", 2, apart=0.5)
        self.assertTrue(desktop.state.opened)

    def test_a_button_released_elsewhere_and_other_buttons_do_nothing(self):
        desktop = make_desktop()
        desktop.move(middle(desktop, "Start button"))
        start = desktop.cursor()
        for pressed, released in ((start, Point(600, 300)), (Point(600, 300), start)):
            desktop.move(pressed)
            desktop.button("left", True)
            desktop.move(released)
            desktop.button("left", False)
        for name in ("right", "middle"):
            desktop.move(middle(desktop, "Start button"))
            desktop.button(name, True)
            desktop.button(name, False)
        self.assertEqual(desktop.state, agent.DemoState())

    def test_text_needs_the_focus(self):
        desktop = notes_open(focus=False)
        desktop.text("lost")
        press(desktop, "x")
        self.assertEqual(desktop.state.text, "")
        click(desktop, "text area")
        desktop.text("kept")
        self.assertEqual(desktop.state.text, "kept")

    def test_keys_write_and_erase(self):
        desktop = notes_open()
        for chord in (
            "shift+h",
            "i",
            "space",
            "1",
            "enter",
            "x",
            "backspace",
            "backspace",
            "backspace",
            "ctrl+x",
        ):
            press(desktop, chord)
        self.assertEqual(desktop.state.text, "Hi ")

    def test_saving_by_button_and_by_key_sets_title_status_and_saved_text(self):
        for save in (lambda d: click(d, "Save button"), lambda d: press(d, "ctrl+s")):
            desktop = notes_open()
            self.assertEqual(desktop.foreground().title, "Untitled - Notes")
            desktop.text("abc")
            self.assertEqual(desktop.foreground().title, "Untitled * - Notes")
            before = picture(desktop)
            save(desktop)
            self.assertEqual(
                (desktop.state.saved_text, desktop.foreground().title), ("abc", "Saved - Notes")
            )
            self.assertNotEqual(picture(desktop), before)
            desktop.text("d")
            self.assertEqual(
                (desktop.state.saved_text, desktop.foreground().title),
                ("abc", "Untitled * - Notes"),
            )

    def test_every_act_is_counted_in_order_and_held_input_is_known(self):
        desktop = make_desktop()
        desktop.move(Point(3, 4))
        desktop.button("left", True)
        desktop.key("ctrl", True)
        self.assertEqual(desktop.held, {"left", "ctrl"})
        desktop.key("ctrl", False)
        desktop.button("left", False)
        desktop.wheel(-120)
        desktop.wheel(120, horizontal=True)
        desktop.text("a b")
        acts = "move 3 4|button left down|key ctrl down|key ctrl up|button left up|wheel -120|wheel 120 horizontal"
        self.assertEqual(list(desktop.acts), [*acts.split("|"), "text a b"])
        self.assertEqual(desktop.held, set())


class Pictures(unittest.TestCase):
    def test_the_pointer_is_in_the_pixels_and_not_in_the_clean_picture(self):
        desktop = make_desktop()
        desktop.move(Point(200, 300))
        first = desktop.capture(desktop.screen(), 640, 360)
        desktop.move(Point(900, 500))
        second = desktop.capture(desktop.screen(), 640, 360)
        self.assertEqual(first.clean, second.clean)
        self.assertNotEqual(first.pixels, second.pixels)
        self.assertEqual(first.clean, desktop.glance(desktop.screen(), 640, 360))
        changed = [
            i // 4 for i, (a, b) in enumerate(zip(first.pixels, first.clean, strict=True)) if a != b
        ]
        self.assertEqual((changed[0] % 640, changed[0] // 640), (100, 150))

    def test_a_frame_says_what_it_shows(self):
        desktop = make_desktop()
        area = Rect(100, 50, 640, 360)
        first, second = desktop.capture(area, 320, 180), desktop.capture(area, 320, 180)
        self.assertEqual((first.number, second.number), (1, 2))
        self.assertEqual((len(first.pixels), len(first.clean)), (320 * 180 * 4, 320 * 180 * 4))
        self.assertEqual(
            (first.area, first.screen, first.taken_at),
            (area, Rect(0, 0, 1280, 720), desktop.clock.now()),
        )
        self.assertEqual(first.window.title, "Desktop")

    def test_a_part_is_the_same_part_of_the_whole(self):
        desktop = notes_open()
        whole, part = picture(desktop), desktop.glance(Rect(300, 90, 200, 100), 200, 100)
        rows = [whole[((90 + y) * 1280 + 300) * 4 :][: 200 * 4] for y in range(100)]
        self.assertEqual(part, b"".join(rows))

    def test_nothing_is_drawn_again_while_nothing_changes(self):
        desktop = notes_open()
        desktop.text("x")
        before = picture(desktop)
        desktop.wheel(120)
        desktop.move(Point(1, 1))
        self.assertEqual(picture(desktop), before)

    def test_a_long_text_shows_its_end(self):
        desktop = notes_open()
        desktop.text("w" * 5000)
        before = picture(desktop)
        desktop.text("\nend")
        self.assertNotEqual(picture(desktop), before)

    def test_each_sign_is_the_colour_of_one_thing_only(self):
        """In any state, a sign is seen exactly where its control is; none is the rotated bytes of another."""
        colours = {sign.colour.to_bytes(3, "big") for sign in DEMO_SIGNS.values()}
        rotated = {c[n:] + c[:n] for c in colours for n in (1, 2)} - {b"\xff\xff\xff"}
        self.assertFalse(rotated & colours)
        desktop = make_desktop()
        states = [
            desktop.state.after("Start button"),
            desktop.state.after("Notes icon"),
            notes_open().state,
        ]
        states += [
            states[2].typed("Hi"),
            states[2].typed("Hi").after("Save button").after("Start button"),
        ]
        for state in states:
            desktop.state = state
            frame = desktop.capture(desktop.screen(), 768, 432)
            sights = agent.demo_sights(agent.PngEncoder().encode(frame.pixels, 768, 432).png)
            for name, rect in state.places().items():
                if name in DEMO_SIGNS:
                    point = agent.to_point(sights[name], desktop.screen())
                    self.assertTrue(rect.contains(point), (name, point))
            self.assertEqual("Save button" in sights, state.opened)
            self.assertEqual("Notes in the menu" in sights, state.menu)
            self.assertEqual("caret" in sights, state.focus)
            self.assertEqual("text" in sights, bool(state.text))
            self.assertEqual("saved mark" in sights, state.clean)


class ClosedLoop(unittest.TestCase):
    """A small driver plays the agent's part: real PNGs over real HTTP, the answers carried out on the desktop."""

    def setUp(self):
        self.model, self.desktop = DemoModel(), make_desktop()
        self.addCleanup(self.model.close)
        self.open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def post(self, messages: list, tools: dict | None = None) -> dict:
        body = {
            "model": "demo-model",
            "messages": [{"role": "system", "content": 'You act. "Not this."'}, *messages],
        }
        if tools:
            body["tools"] = schemas(tools)
        with self.open(
            urllib.request.Request(self.model.endpoint, json.dumps(body).encode()), timeout=10
        ) as reply:
            self.answer = json.load(reply)
        return self.answer["choices"][0]["message"]

    def act(self, call: dict, area: Rect) -> dict:
        """Carries out one call the way an actuator would, two single clicks never as a double click."""
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        place = arguments.get("position") or arguments.get("box")
        place = place or ([arguments["x"], arguments["y"]] if "x" in arguments else None)
        if place:
            self.desktop.move(agent.to_point(agent.Coordinate(*place), area))
        for _ in range(2 if "double" in name else "click" in name):
            self.desktop.button("left", True)
            self.desktop.button("left", False)
        if "type" in name:
            self.desktop.text(arguments["text"])
        self.desktop.clock.sleep(1)
        return arguments

    def run_with(self, tools: dict, area: Rect, size=(640, 360)) -> list[str]:
        """The names of the tools called until a report, at most twelve."""
        called = []
        for _ in range(12):
            question = user(f"TASK: {DEMO_TASK}\nWhat next?", screenshot(self.desktop, area, *size))
            message = self.post([question], tools)
            call = message["tool_calls"][0]
            called.append(call["function"]["name"])
            self.assertEqual(set(json.loads(call["function"]["arguments"])), set(tools[called[-1]]))
            if called[-1].startswith("report"):
                self.assertGreaterEqual(
                    len(json.loads(call["function"]["arguments"])["evidence"]), 100
                )
                return called
            self.act(call, area)
        raise AssertionError(f"not finished: {called}")

    def test_planner_and_commander_tools_reach_the_saved_note(self):
        for tools in (PLANNER, COMMANDER):
            self.desktop = make_desktop()
            called = self.run_with(tools, self.desktop.screen())
            self.assertEqual(self.desktop.state.saved_text, NOTE)
            self.assertEqual(len(called), 5)
            self.assertIn("complet", called[-1])
            self.assertEqual(
                [act for act in self.desktop.acts if act.startswith("text")], [f"text {NOTE}"]
            )

    def test_it_works_at_other_sizes_and_in_a_part_of_the_screen(self):
        views = (
            (Rect(10, 20, 1100, 650), (1001, 700)),
            (Rect(0, 0, 1280, 720), (1024, 576)),
        )
        for area, size in sample(views, views[:1]):
            self.desktop = make_desktop()
            self.run_with(PLANNER, area, size)
            self.assertEqual(self.desktop.state.saved_text, NOTE)

    def test_it_goes_on_from_whatever_it_sees(self):
        for chords in ("win", "win+escape", "ctrl+escape"):
            self.desktop = make_desktop()
            press(self.desktop, chords)
            self.run_with(COMMANDER, self.desktop.screen())
            self.assertEqual(self.desktop.state.saved_text, NOTE)
        self.desktop = notes_open()
        self.desktop.text(NOTE)
        press(self.desktop, "win")
        self.assertNotIn("type_text", self.run_with(COMMANDER, self.desktop.screen()))

    def test_chat_tools_without_a_double_click_use_the_start_menu_and_end_in_words(self):
        messages = [user(DEMO_TASK)]
        for _ in range(12):
            message = self.post(messages, CHAT)
            messages.append(message)
            if "tool_calls" not in message:
                break
            call = message["tool_calls"][0]
            self.act(call, self.desktop.screen())
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": '{"ok": true}'})
            messages.append(user("The screen now:", screenshot(self.desktop)))
        self.assertEqual(self.desktop.state.saved_text, NOTE)
        self.assertEqual(messages[1]["tool_calls"][0]["function"]["name"], "observe_screen")
        self.assertTrue(messages[-1]["content"])

    def test_pointer_tools_move_then_click_and_look_again_after_each_act(self):
        messages = [user(DEMO_TASK)]
        for _ in range(30):
            message = self.post(messages, POINTER)
            messages.append(message)
            if "tool_calls" not in message:
                break
            call = message["tool_calls"][0]
            self.act(call, self.desktop.screen())
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": '{"ok": true}'})
            if call["function"]["name"] == "take_screenshot":
                messages.append(user("", screenshot(self.desktop)))
        self.assertEqual(self.desktop.state.saved_text, NOTE)
        self.assertNotIn("tool_calls", messages[-1])

    def test_the_planner_gets_one_plan_with_the_text_in_it(self):
        for tools, name in PLANS.values():
            message = self.post([user(f"TASK: {DEMO_TASK}")], tools | ARCHIVES)
            (call,) = message["tool_calls"]
            self.assertEqual(call["function"]["name"], name)
            arguments = json.loads(call["function"]["arguments"])
            self.assertEqual(set(arguments), set(tools[name]))
            self.assertIn(NOTE, next(iter(arguments.values())))

    def test_archiving_is_done_when_asked_with_the_turns_that_were_listed(self):
        text = f"TASK: {DEMO_TASK}\nCURRENT_TURN: 9\nTurn_3: click -> ok\nTurn_4: type -> ok\n%s\nWhat now?"
        for archive, fields in ARCHIVES.items():
            tools = PLANS["planner"][0] | {archive: fields}
            (call,) = self.post([user(text % "ARCHIVE_NOW")], tools)["tool_calls"]
            self.assertEqual(call["function"]["name"], archive)
            self.assertEqual(json.loads(call["function"]["arguments"])["archived_turns"], [3, 4])
            (call,) = self.post([user(text % "not ARCHIVE_NOW yet")], tools)["tool_calls"]
            self.assertEqual(call["function"]["name"], "update_execution_plan")

    def test_a_verification_is_answered_from_the_pixels(self):
        question = 'Is it done? Answer "YES: ..." or "NO: ...".'
        self.assertTrue(
            self.post([user(question, screenshot(self.desktop))])["content"].startswith("NO: ")
        )
        self.desktop = notes_open()
        press(self.desktop, "ctrl+s")
        self.assertTrue(
            self.post([user(question, screenshot(self.desktop))])["content"].startswith("YES: ")
        )

    def test_where_nothing_is_known_it_says_so(self):
        message = self.post(
            [user(DEMO_TASK, screenshot(self.desktop, Rect(500, 10, 64, 64), 64, 64))], PLANNER
        )
        call = message["tool_calls"][0]["function"]
        self.assertEqual(call["name"], "report_goal_status")
        arguments = json.loads(call["arguments"])
        self.assertEqual(arguments["completion_status"], "BLOCKED")
        self.assertIn("None of the known controls", arguments["evidence"])

    def test_usage_counts_the_text_and_every_image(self):
        for shots, least in ((1, 1296), (2, 2 * 1296)):
            self.post(
                [
                    user("A" * 4000, screenshot(self.desktop, width=1536, height=864))
                    for _ in range(shots)
                ],
                PLANNER,
            )
            tokens = self.answer["usage"]["prompt_tokens"] - least - shots * 1000
            self.assertTrue(0 < tokens < 1000, tokens)

    def test_models_are_listed_and_anything_else_is_a_plain_error(self):
        base = self.model.endpoint.removesuffix("/v1/chat/completions")
        for path in ("/v1/models", "/api/v0/models"):
            with self.open(base + path, timeout=10) as reply:
                self.assertEqual(json.load(reply)["data"][0]["type"], "vlm")
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.open(urllib.request.Request(base + "/other", b"{}"), timeout=10)
        self.assertEqual(caught.exception.code, 404)
        self.assertIn("message", json.load(caught.exception)["error"])
        caught.exception.close()


class Rows(unittest.TestCase):
    def test_tools_that_no_row_knows_are_left_alone_however_they_are_described(self):
        bare = {"type": "function", "function": {"name": "click_what_is_new"}}
        request = {
            "messages": [user("Go.", screenshot(make_desktop()))],
            "tools": [{"type": "function", "function": {"name": "focus_window"}}],
        }
        self.assertNotIn("tool_calls", agent.demo_reply(request))
        desktop = make_desktop()
        press(desktop, "win")
        request["messages"] = [user("Go.", screenshot(desktop))]
        request["tools"].append(bare)
        (call,) = agent.demo_reply(request)["tool_calls"]
        self.assertEqual(call["function"], {"name": "click_what_is_new", "arguments": "{}"})


if __name__ == "__main__":
    unittest.main()
