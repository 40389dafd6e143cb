"""What a model is told of its acts on a real Win32 desktop: in Notepad, in a dialog, and in the Save dialog."""

from __future__ import annotations

import unittest
from typing import Any, ClassVar

from rig import Desktop, Driver, Form, until

ITEMS: list[dict[str, Any]] = [
    {"kind": "label", "name": "Name:", "rect": [20, 20, 80, 20]},
    {"kind": "edit", "name": "Name", "rect": [110, 18, 300, 24]},
    {"kind": "label", "name": "PIN:", "rect": [20, 60, 80, 20]},
    {"kind": "password", "name": "PIN", "rect": [110, 58, 300, 24]},
    {"kind": "checkbox", "name": "&Match case", "rect": [20, 100, 200, 20]},
    {"kind": "radio", "name": "U&p", "rect": [20, 130, 100, 20]},
    {"kind": "radio", "name": "&Down", "rect": [140, 130, 100, 20]},
    {"kind": "button", "name": "&Find Next", "rect": [20, 170, 120, 28]},
]


class Told(unittest.TestCase):
    """One desktop for all: Notepad and a form, and an engine that holds each act against what Windows knows."""

    desktop: ClassVar[Desktop]
    driver: ClassVar[Driver]
    form: ClassVar[Form]

    @classmethod
    def setUpClass(cls) -> None:
        cls.desktop = Desktop((1280, 720))
        cls.desktop.__enter__()
        cls.addClassCleanup(cls.desktop.__exit__, None, None, None)
        cls.form = Form(cls.desktop, "Find", ITEMS)
        cls.driver = Driver(cls.desktop, "engine_driver.py")
        cls.driver.ask("begin", controls="check")
        cls.addClassCleanup(cls.driver.ask, "end")

    def do(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.driver.ask("do", tool=tool, reasoning="next", **arguments)

    def click(self, name: str, said: str = "") -> str:
        """What is told of a click on an item of the form."""
        told = self.do(
            "click_screen_element", element_name=said or name, position=self.form.middle(name)
        )
        self.assertFalse(told["refused"], told)
        return str(told["result"])

    def type(self, text: str) -> dict[str, Any]:
        return self.do("type_text_input", text=text)

    def front(self, title: str) -> list[list[Any]]:
        """The controls in front, once that window is there."""

        def listed() -> Any:
            answer = self.driver.ask("listed")
            return answer["controls"] if title in answer["title"] else None

        found: list[list[Any]] = until(f"{title} is in front", listed, 30)
        return found

    def bring(self, title: str) -> None:
        self.do("focus_window", title=title)
        self.front(title)


class TheDialog(Told):
    def setUp(self) -> None:
        self.bring("Find")

    def test_a_checkbox_tells_its_name_and_what_it_is_now(self) -> None:
        name = "&Match case"
        hit = "Clicked 'Match case' (checkbox)"
        self.assertEqual(self.click(name, "Match case"), f"{hit}; it is checked now")
        self.assertEqual(self.click(name, "Match case"), f"{hit}; it is not checked now")

    def test_of_the_radio_buttons_the_one_that_was_clicked_is_on(self) -> None:
        for name in ("Up", "Down"):
            item = {"Up": "U&p", "Down": "&Down"}[name]
            told = self.click(item, name)
            self.assertEqual(told, f"Clicked '{name}' (radio button); it is checked now")

    def test_a_button_tells_its_name_and_where_the_model_was_wrong(self) -> None:
        told = self.click("&Find Next", "the search button")
        self.assertEqual(told, "Clicked 'Find Next' (button), not 'the search button'")

    def test_a_field_tells_what_it_holds(self) -> None:
        self.click("Name", "Name")
        told = self.type("Zoë & Åse, 5 €")
        self.assertIn('; the field now holds "Zoë & Åse, 5 €"', told["result"])
        self.assertIn('which holds "Zoë & Åse, 5 €"', told["facts"][0])

    def test_a_password_is_refused_and_nothing_of_it_told(self) -> None:
        self.click("PIN", "PIN")
        told = self.type("4711")
        self.assertEqual((told["refused"], told["facts"]), ("password_field", []))


class InNotepad(Told):
    def test_typing_is_told_and_the_save_dialogs_field_and_button(self) -> None:
        self.do("open_app", name="notepad")
        self.front("Notepad")
        told = self.type("A line with ümläuts")
        self.assertIn('; the field now holds "A line with ümläuts"', told["result"])
        self.do("press_keyboard_key", key="ctrl+s")
        self.front("Save")
        told = self.type("C:\\a note.txt")
        self.assertIn("the field now holds", told["result"])
        (cancel,) = [row for row in self.front("Save") if row[:2] == ["Cancel", "button"]]
        left, top, width, height = cancel[2:]
        place = [left + width // 2, top + height // 2]
        told = self.do("click_screen_element", element_name="Cancel", position=place)
        self.assertEqual(told["result"], "Clicked 'Cancel' (button)")


if __name__ == "__main__":
    unittest.main()
