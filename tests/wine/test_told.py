"""What a model is told of its acts on a real Win32 desktop: in a dialog, in Notepad, and in its Save dialog."""

from __future__ import annotations

import unittest
from typing import Any, ClassVar

from tests.wine.rig import Desktop, Driver, Window, shared_desktop, until

ITEMS: list[dict[str, Any]] = [
    {"kind": "label", "name": "Name:", "rect": [20, 20, 80, 20]},
    {"kind": "edit", "name": "Name", "rect": [110, 18, 300, 24]},
    {"kind": "label", "name": "PIN:", "rect": [20, 60, 80, 20]},
    {"kind": "password", "name": "PIN", "rect": [110, 58, 300, 24]},
    {"kind": "checkbox", "name": "&Match case", "rect": [20, 100, 200, 20]},
    {"kind": "radio", "name": "U&p", "rect": [20, 130, 100, 20]},
    {"kind": "radio", "name": "&Down", "rect": [140, 130, 100, 20]},
    {"kind": "button", "name": "&Find Next", "rect": [20, 170, 120, 28]},
    {"kind": "button", "name": "Close", "rect": [150, 170, 120, 28]},
]

# Controls as old programs have them: Ctrl+A selects nothing in a field.
CUSTOMER: list[dict[str, Any]] = [
    {"kind": "label", "name": "Name:", "rect": [20, 20, 80, 20]},
    {"kind": "edit", "name": "Name", "rect": [110, 18, 300, 24]},
    {"kind": "label", "name": "Street:", "rect": [20, 60, 80, 20]},
    {"kind": "edit", "name": "Street", "rect": [110, 58, 300, 24]},
    {"kind": "label", "name": "Country:", "rect": [20, 100, 80, 20]},
    {
        "kind": "list",
        "name": "Country",
        "rect": [110, 98, 200, 120],
        "entries": ["Austria", "Malta"],
    },
]


AGAIN = (
    "Not done: You have just done this, and it changed what is there: look at what is there now."
    " If it is meant once more, say the same again. Nothing was done."
)


class Told(unittest.TestCase):
    """Notepad and a form, and an engine that holds each act against what Windows knows."""

    desktop: ClassVar[Desktop]
    driver: ClassVar[Driver]
    form: ClassVar[Window]

    @classmethod
    def setUpClass(cls) -> None:
        cls.desktop = shared_desktop((1280, 720))
        cls.form = Window(cls.desktop, "Find", (120, 80, 700, 320), ITEMS)
        cls.driver = Driver(cls.desktop)
        cls.driver.ask("begin")
        cls.addClassCleanup(cls.end)

    @classmethod
    def end(cls) -> None:
        if not cls.driver.ask("end")["ended"]:
            raise AssertionError("the process that knows the controls has not ended")

    def setUp(self) -> None:
        self.do("focus_window", title="Find")
        self.front("Find")

    def do(self, tool: str, **arguments: Any) -> dict[str, Any]:
        for _ in range(3):
            told = self.driver.ask("do", tool=tool, **arguments)
            # On a busy machine Wine puts the mouse back to an earlier place.
            if "Somebody moved the mouse" not in str(told["result"]):
                break
        return told

    def click(self, name: str, said: str) -> dict[str, Any]:
        """What is told of a click on an item of the form."""
        place = self.form.pixel(name)
        return self.do("click_screen_element", element_name=said, position=place)

    def front(self, title: str) -> list[list[Any]]:
        """The controls in front, once that window is there."""

        def listed() -> Any:
            answer = self.driver.ask("listed")
            return answer if title in answer["title"] else None

        found: list[list[Any]] = until(f"{title} is in front", listed, 30)["controls"]
        return found

    def known(self, place: list[int] | None) -> dict[str, Any]:
        """The control there, once it is told: on a busy machine that takes more than a query's deadline."""

        def told() -> Any:
            return self.driver.ask("known", place=place)["control"]

        control: dict[str, Any] = until("a control is told", told, 180)
        return control

    def test_an_item_tells_its_name_and_what_it_is_now(self) -> None:
        for name, said, told in (
            ("&Match case", "Match case", "Clicked 'Match case' (checkbox); it is checked now"),
            ("&Match case", "Match case", AGAIN),
            ("&Match case", "Match case", "Clicked 'Match case' (checkbox); it is not checked now"),
            ("U&p", "Up", "Clicked 'Up' (radio button); it is checked now"),
            ("&Down", "Down", "Clicked 'Down' (radio button); it is checked now"),
            (
                "&Find Next",
                "the search button",
                "Clicked 'Find Next' (button), not 'the search button'",
            ),
        ):
            with self.subTest(told):
                self.assertEqual(self.click(name, said)["result"], told)

    def test_a_click_beside_the_button_that_it_names_is_told_as_what_it_hit(self) -> None:
        """A model that can be asked once more is asked before: tests/test_control_check.py."""
        told = self.click("Close", "Find Next")
        self.assertEqual(told["result"], "Clicked 'Close' (button), not 'Find Next'")

    def test_a_field_tells_what_it_holds_and_a_password_is_refused_and_nothing_of_it_told(
        self,
    ) -> None:
        self.click("Name", "Name")
        told = self.do("type_text_input", text="Zoë & Åse, 5 €")
        self.assertIn('; the field now holds "Zoë & Åse, 5 €"', told["result"])
        self.assertIn('which holds "Zoë & Åse, 5 €"', told["facts"][0])
        self.click("PIN", "PIN")
        told = self.do("type_text_input", text="4711")
        self.assertEqual((told["refused"], told["facts"]), ("password_field", []))

    def test_a_form_of_old_controls_is_filled_in_and_no_text_goes_into_a_wrong_field(self) -> None:
        form = Window(self.desktop, "Customer", (160, 120, 620, 260), CUSTOMER, "Name")
        self.addCleanup(form.order, "quit")
        rows = self.front("Customer")
        names = [name for name, role, *_ in rows if role in ("edit", "combo box")]
        self.assertEqual(names, ["Name:", "Street:", "Country:"])
        for name, text in (("Name", "Ann"), ("Street", "Lane 4"), ("Name", "New Name")):
            place = form.pixel(name)
            self.assertEqual(self.known(place)["name"], f"{name}:")
            told = self.do(
                "type_text_input", text=text, element_name=name, position=place, clear=True
            )
            self.assertTrue(told["result"].endswith(f'the field now holds "{text}"'), told)
            self.assertEqual(self.known(None)["name"], f"{name}:")
        beside = form.pixel("Street")
        beside[1] += 20  # between two fields
        for place, refusal in (
            (
                beside,
                "keyboard is in 'Name:' (edit), not what was clicked (without a position the text goes to it)",
            ),
            (form.pixel("Country", down=0.1), "'Country:' (combo box) is a list that drops down"),
        ):
            told = self.do("type_text_input", text="Malta", element_name="It", position=place)
            self.assertEqual(told["refused"], "no_field", told)
            self.assertIn(refusal, told["result"])
        values = {
            name: self.known(form.pixel(name, down=0.1))["value"]
            for name in form.items
            if ":" not in name
        }
        self.assertEqual(values, {"Name": "New Name", "Street": "Lane 4", "Country": "Austria"})

    def test_programs_are_opened_by_name_and_windows_changed_by_title(self) -> None:
        self.addCleanup(self.desktop.close, "notepad.exe", "winemine.exe")
        for name, title in (("notepad", "Notepad"), ("winemine", "WineMine")):
            self.assertIn(f"Opened: {name}", self.do("open_app", name=name)["result"])
            self.front(title)
        for title in ("Notepad", "WineMine", "notepad"):
            self.assertIn("In front: ", self.do("focus_window", title=title)["result"])
            self.front(title.title() if title.islower() else title)

    def test_in_notepad_typing_is_told_the_clipboard_and_the_save_dialogs_field_and_button(
        self,
    ) -> None:
        self.addCleanup(self.desktop.close, "notepad.exe")
        self.do("open_app", name="notepad")
        self.front("Notepad")
        line = "A line with ümläuts"
        told = self.do("type_text_input", text=line)
        self.assertIn(f'; the field now holds "{line}"', told["result"])
        rows = self.front("Notepad")
        self.assertEqual({role for _, role, *_ in rows}, {"edit", "status bar"})
        (middle,) = [[x + w // 2, y + h // 2] for _, role, x, y, w, h in rows if role == "edit"]
        for place in (middle, None):
            field = self.known(place)
            known = field["role"], field["value"], field["program"]
            self.assertEqual(known, ("edit", line, "notepad.exe"))
        said, _, problems = self.driver.ask("report")["said"]
        self.assertIn("2 controls ", said)
        # Wine has none.
        self.assertIn("CoCreateInstance answers 0x80040154", problems)
        self.driver.ask("kill_controls")
        self.assertIsNone(self.driver.ask("known", place=middle)["control"])
        self.assertEqual(self.known(middle), field)
        for key in ("ctrl+a", "ctrl+c"):
            self.do("press_keyboard_key", key=key)
        self.assertEqual(self.driver.ask("copied")["length"], len(line))
        self.do("press_keyboard_key", key="ctrl+s")
        self.front("Save")
        told = self.do("type_text_input", text="C:\\a note.txt")
        self.assertIn("the field now holds", told["result"])
        (cancel,) = [row for row in self.front("Save") if row[:2] == ["Cancel", "button"]]
        left, top, width, height = cancel[2:]
        place = [left + width // 2, top + height // 2]
        told = self.do("click_screen_element", element_name="Cancel", position=place)
        self.assertEqual(told["result"], "Clicked 'Cancel' (button)")


if __name__ == "__main__":
    unittest.main()
