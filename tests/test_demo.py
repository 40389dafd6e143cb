"""The drawn desktop behaves like one, and the built-in model finds its way by the pixels alone."""

import base64
import json
import unittest
import urllib.request
from dataclasses import replace

import agent
from agent import DEMO_SIGNS, DemoDesktop, DemoState, Point, Rect
from tests.fakes import VirtualClock

NOTE = "Hello from agent.py"
TASK = f'Open Notes, write "{NOTE}" and save it.'
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
    return agent.to_point(agent.Coordinate(500, 500), desktop.state.places()[name].rect)


def click(desktop: DemoDesktop, name: str, times: int = 1) -> None:
    desktop.move(middle(desktop, name))
    for _ in range(times):
        desktop.button("left", True)
        desktop.button("left", False)


def notes_open(focus: bool = True) -> DemoDesktop:
    desktop = make_desktop()
    click(desktop, "Notes icon", 2)
    if focus:
        click(desktop, "text area")
    return desktop


def picture(desktop: DemoDesktop) -> bytes:
    return desktop.glance(desktop.screen(), 1280, 720)


def screenshot(desktop: DemoDesktop, area=None, width=640, height=360) -> dict:
    frame = desktop.capture(area or desktop.screen(), width, height)
    png = agent.encode_png(frame.pixels, width, height)
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
    def test_a_click_or_two_open_notes(self):
        for times in (1, 2):
            desktop = make_desktop()
            click(desktop, "Notes icon", times)
            self.assertTrue(desktop.state.opened)

    def test_a_button_released_elsewhere_and_other_buttons_do_nothing(self):
        desktop = make_desktop()
        desktop.move(middle(desktop, "Notes icon"))
        icon = desktop.cursor()
        for pressed, released in ((icon, Point(600, 300)), (Point(600, 300), icon)):
            desktop.move(pressed)
            desktop.button("left", True)
            desktop.move(released)
            desktop.button("left", False)
        for name in ("right", "middle"):
            desktop.move(middle(desktop, "Notes icon"))
            desktop.button(name, True)
            desktop.button(name, False)
        self.assertEqual(desktop.state, DemoState())

    def test_text_needs_the_focus(self):
        desktop = notes_open(focus=False)
        desktop.text("lost")
        self.assertEqual(desktop.state.text, "")
        click(desktop, "text area")
        desktop.text("kept")
        self.assertEqual(desktop.state.text, "kept")

    def test_saving_sets_title_status_and_saved_text(self):
        desktop = notes_open()
        self.assertEqual(desktop.foreground().title, "Untitled - Notes")
        desktop.text("abc")
        self.assertEqual(desktop.foreground().title, "Untitled * - Notes")
        before = picture(desktop)
        click(desktop, "Save button")
        self.assertEqual(
            (desktop.state.saved_text, desktop.foreground().title), ("abc", "Saved - Notes")
        )
        self.assertNotEqual(picture(desktop), before)
        desktop.text("d")
        self.assertEqual(
            (desktop.state.saved_text, desktop.foreground().title),
            ("abc", "Untitled * - Notes"),
        )


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
        colours = {colour.to_bytes(3, "big") for colour in DEMO_SIGNS.values()}
        self.assertEqual(len(colours), len(DEMO_SIGNS))
        rotated = {c[n:] + c[:n] for c in colours for n in (1, 2)} - {b"\xff\xff\xff"}
        self.assertFalse(rotated & colours)
        desktop = make_desktop()
        states = [
            desktop.state,
            desktop.state.after("Notes icon"),
            DemoState(opened=True, focus=True),
            DemoState(opened=True, focus=True, text="Hi"),
            DemoState(opened=True, focus=True, text="Hi", saved_text="Hi"),
        ]
        for state in states:
            desktop.state = state
            frame = desktop.capture(desktop.screen(), 768, 432)
            sights = agent.demo_sights(agent.encode_png(frame.pixels, 768, 432))
            for name, place in state.places().items():
                if name in DEMO_SIGNS:
                    point = agent.to_point(sights[name], desktop.screen())
                    self.assertTrue(place.rect.contains(point), (name, point))
            self.assertEqual("Save button" in sights, state.opened)
            self.assertEqual("caret" in sights, state.focus)
            self.assertEqual("text" in sights, bool(state.text))
            self.assertEqual("saved mark" in sights, state.clean)


class Model(unittest.TestCase):
    """Whole runs of each profile are tried by main(); here are single requests."""

    def reply(self, text: str, desktop: DemoDesktop | None, tools: dict, area=None) -> dict:
        pictures = screenshot(desktop, area, 320, 180) if desktop else None
        messages = [{"role": "system", "content": 'You act. "Not this."'}, user(text, pictures)]
        request = (
            {"messages": messages, "tools": schemas(tools)} if tools else {"messages": messages}
        )
        return agent.demo_reply(json.loads(json.dumps(request)))

    def called(self, text: str, desktop: DemoDesktop | None, tools: dict, **more) -> tuple:
        """The name of the one call, and its arguments."""
        (call,) = self.reply(text, desktop, tools, **more)["tool_calls"]
        function = call["function"]
        return function["name"], json.loads(function["arguments"])

    def test_each_state_has_its_next_step(self):
        opened = DemoState(opened=True)
        focused = DemoState(opened=True, focus=True)
        written = replace(focused, text=NOTE)
        for state, tool, target in (
            (DemoState(), "double_click_screen_element", "Notes icon"),
            (opened, "click_screen_element", "text area"),
            (focused, "type_text_input", ""),
            (written, "click_screen_element", "Save button"),
            (opened.after("Save button"), "report_mission_complete", ""),
            (replace(written, saved_text="older"), "click_screen_element", "Save button"),
        ):
            desktop = make_desktop()
            desktop.state = state
            name, arguments = self.called(TASK, desktop, PLANNER)
            self.assertEqual((name, arguments.get("element_name", "")), (tool, target))
            self.assertEqual(set(arguments), set(PLANNER[tool]))
            if "position" in arguments:
                point = agent.to_point(agent.Coordinate(*arguments["position"]), desktop.screen())
                self.assertTrue(state.places()[target].rect.contains(point), point)

    def test_it_types_the_text_of_the_request(self):
        _, arguments = self.called('Write "Hi there" into Notes.', notes_open(), PLANNER)
        self.assertEqual(arguments["text"], "Hi there")

    def test_a_part_of_the_screen_is_read_as_well(self):
        desktop, area = make_desktop(), Rect(10, 20, 1100, 650)
        _, arguments = self.called(TASK, desktop, PLANNER, area=area)
        point = agent.to_point(agent.Coordinate(*arguments["position"]), area)
        self.assertTrue(desktop.state.places()["Notes icon"].rect.contains(point))

    def test_the_planner_gets_one_plan_with_the_text_in_it(self):
        for tools, name in PLANS.values():
            called, arguments = self.called(f"TASK: {TASK}", None, tools | ARCHIVES)
            self.assertEqual((called, set(arguments)), (name, set(tools[name])))
            self.assertIn(NOTE, next(iter(arguments.values())))

    def test_archiving_is_done_when_asked_with_the_turns_that_were_listed(self):
        text = f"TASK: {TASK}\nCURRENT_TURN: 9\nTurn_3: click -> ok\nTurn_4: type -> ok\n%s\nNow?"
        for archive, fields in ARCHIVES.items():
            tools = PLANS["planner"][0] | {archive: fields}
            name, arguments = self.called(text % "ARCHIVE_NOW", None, tools)
            self.assertEqual((name, arguments["archived_turns"]), (archive, [3, 4]))
            name, _ = self.called(text % "not ARCHIVE_NOW yet", None, tools)
            self.assertEqual(name, "update_execution_plan")

    def test_a_verification_is_answered_from_the_pixels(self):
        question = f"TASK: {TASK}\nIs it done?"
        desktop = notes_open()
        desktop.text(NOTE)
        self.assertRegex(self.reply(question, desktop, {})["content"], "^NO: ")
        click(desktop, "Save button")
        self.assertRegex(self.reply(question, desktop, {})["content"], "^YES: ")

    def test_where_nothing_is_known_it_says_so(self):
        area = Rect(500, 10, 64, 64)
        name, arguments = self.called(TASK, make_desktop(), PLANNER, area=area)
        self.assertEqual((name, arguments["completion_status"]), ("report_goal_status", "BLOCKED"))
        self.assertIn("None of the known controls", arguments["evidence"])

    def test_tools_that_it_does_not_know_are_left_alone_however_they_are_described(self):
        desktop = make_desktop()
        bare = [{"type": "function", "function": {"name": "focus_window"}}]
        request = {"messages": [user("Go.", screenshot(desktop))], "tools": bare}
        self.assertNotIn("tool_calls", agent.demo_reply(request))
        request["messages"] = [user("Go.", screenshot(desktop))]
        bare.append({"type": "function", "function": {"name": "click_what_is_new"}})
        (call,) = agent.demo_reply(request)["tool_calls"]
        self.assertEqual(call["function"], {"name": "click_what_is_new", "arguments": "{}"})


class Server(unittest.TestCase):
    def test_it_lists_its_model_and_counts_the_text_and_every_picture(self):
        model = agent.DemoModel()
        self.addCleanup(model.close)
        opened = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        with opened(model.endpoint.replace("chat/completions", "models"), timeout=10) as reply:
            self.assertEqual(json.load(reply)["data"][0]["type"], "vlm")
        for shots in (1, 2):
            messages = [user("A" * 4000, screenshot(make_desktop())) for _ in range(shots)]
            body = json.dumps({"messages": messages}).encode()
            with opened(urllib.request.Request(model.endpoint, body), timeout=10) as reply:
                tokens = json.load(reply)["usage"]["prompt_tokens"]
            self.assertTrue(0 < tokens - shots * (1000 + 900) < 200, tokens)


if __name__ == "__main__":
    unittest.main()
