"""Secrets: typed by name, and in nothing that is written, sent or shown."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import sys
import tempfile
import time
import traceback
import unittest
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests.fakes import FakeWin32, Foreground, VirtualClock
from tests.scripted import PLAN, PROOF, EngineCase, PlainDesktop, Trial, call, role_of, text
from tests.seams import act, clock_of_main, person_there, windows_of_main
from tests.servers import ScriptedServer, Step, answer, hang_up, http, raw, reply

CANARY = 'c4nary-päß "quoted" \\back/slash\''
PLAIN = "hunter2hunter2"
# The processor's time of this thread, so that what else the machine does counts little; Windows counts it too coarsely.
NOW = time.perf_counter if os.name == "nt" else time.thread_time
SPELLINGS = {
    spelling
    for value in (CANARY, PLAIN)
    for written in (json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value))
    for spelling in (value, written[1:-1])
}


class Values(unittest.TestCase):
    def setUp(self) -> None:
        self.secrets = agent.Secrets({"PIN": "4711x", "LONG": "4711xyz"})

    def test_names_are_filled_in_and_unknown_ones_stay(self) -> None:
        filled = self.secrets.fill("a {{PIN}} b {{ LONG }} c {{OTHER}} {PIN} {{PIN")
        self.assertEqual(filled, "a 4711x b 4711xyz c {{OTHER}} {PIN} {{PIN")
        self.assertEqual(self.secrets.unknown("{{ PIN }} {{ a.b }} {{}} {{ {{OTHER}}"), ["OTHER"])

    def test_values_are_hidden_the_longest_first_in_data_of_any_depth(self) -> None:
        value = {"4711x": ["say 4711xyz!", ("4711x", 4711, None)], "n": {"m": "none"}}
        hidden = {"{{PIN}}": ["say {{LONG}}!", ["{{PIN}}", 4711, None]], "n": {"m": "none"}}
        self.assertEqual(self.secrets.hide(value), hidden)
        # A short one as a word only.
        hidden_words = agent.Secrets({"PIN": "4711"}).hide("4711 of 47112, 04711 or x4711; 4711.")
        self.assertEqual(hidden_words, "{{PIN}} of 47112, 04711 or x4711; {{PIN}}.")

    def test_a_value_is_found_however_it_is_spelled_and_where_it_was_cut(self) -> None:
        written = json.dumps({"a": CANARY}, ensure_ascii=False)
        for spelling in (CANARY, json.dumps(CANARY), written, repr(CANARY)):
            hidden = agent.Secrets({"X": CANARY}).hide(f"<{spelling}>")
            self.assertEqual(("{{X}}" in hidden, "quoted" in hidden), (True, False))
        for shown in range(8, len(PLAIN)):
            line = agent.cut(f"{'y' * 20} {PLAIN} and more", 21 + shown + 3)
            self.assertTrue(line.endswith(PLAIN[:shown] + "..."), line)
            told = agent.Secrets({"PASSWORD": PLAIN}).hide({"title": line})
            self.assertEqual(told, {"title": "y" * 20 + " {{PASSWORD}}..."})

    def test_a_longer_value_is_found_in_capitals_in_groups_and_in_other_codes(self) -> None:
        iban, password = "DE89370400440532013000", "Grün&Blau 4711"
        hide = agent.Secrets({"IBAN": iban, "PW": password, "PIN": "4711"}).hide
        zeros = password.encode("utf-16-le").decode("latin-1")
        for written in (
            "DE89 3704 0044 0532 0130 00",
            "de89-3704-0044-0532-0130-00",
            "D E 8 9 3 7 0 4 0 0 4 4 0 5 3 2 0 1 3 0 0 0",
            "".join(chr(ord(char) + 0xFEE0) for char in iban),
            "GRÜN&BLAU 4711",
            "gr%c3%bcn%26blau%204711",
            "Gr%C3%BCn%26Blau+4711",
            "%47r%C3%BCn%26Blau%204711",
            "Gr&#252;n&amp;Blau&nbsp;4711",
            json.dumps(password),
            json.dumps(json.dumps(password)),
            zeros,
            repr(zeros),
            "Gr\u200bün & Blau\n4711",
        ):
            hidden = hide(f"<{written}>")
            self.assertRegex(hidden, r"^<\W*\{\{(IBAN|PW)\}\}\W*(x00)?\W*>$", written)
        for written in (
            "DE89 3704 0044",
            "[47, 11]",
            "14711",
            "Grün",
            "47 11",
            "data:image/png;base64,AA4711",
        ):
            self.assertEqual(hide(written), written)

    def test_signs_of_other_scripts_in_a_value_may_be_written_in_codes_too(self) -> None:
        hide = agent.Secrets({"PW": "pass€word–99", "KEY": "50%def&100 7x"}).hide
        for written in (
            json.dumps("pass€word–99")[1:-1],
            "pass&#8364;word&#8211;99",
            "PASS%E2%82%ACword%E2%80%9399",
            "50%def&100 7x",
            "50%25def%26100%207x",
            "50%def&amp;100 7x",
        ):
            self.assertRegex(hide(f"<{written}>"), r"^<\{\{(PW|KEY)\}\}>$", written)

    def test_a_text_that_begins_as_a_value_and_goes_on_otherwise_is_read_at_once(self) -> None:
        """As what a field of few letters took of it, or a title that was cut."""
        for value in (
            "correct horse battery staple",
            "sk-lm-AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGhIjKl",
            "пароль, который никто не угадает",
            "a" * 40,
            "1111-1111-1111-1111-1112",
        ):
            hide = agent.Secrets({"X": value}).hide
            coded = "".join(f"&#{ord(char)};" for char in value[:-1])
            for begin in (value[:-1], value[:-1].upper(), value[:-4] + "...", coded):
                began = NOW()
                hide(f"The field holds '{begin}' and not what was typed into it there")
                self.assertLess(NOW() - began, 0.2, begin)

    def test_among_hundreds_of_values_as_a_table_has_each_is_found_and_the_others_cost_nothing(
        self,
    ) -> None:
        numbers = [f"DE{number * 7_919_331_977 + 10**19:020}" for number in range(500)]
        began = NOW()
        secrets = agent.Secrets()
        secrets.hide_more((f"N{at}", number) for at, number in enumerate(numbers))
        for _ in range(10):
            secrets.hide("The list shows 4711 names, 0815 places and & 50% of the others. " * 60)
        for at in (0, 250, 499):
            written = "".join(f"%{ord(char):02X}" for char in numbers[at])
            shown = secrets.hide({"a": f"x {numbers[at]}", "b": [f"y={written}&z"]})
            self.assertEqual(shown, {"a": f"x {{{{N{at}}}}}", "b": [f"y={{{{N{at}}}}}&z"]})
        self.assertLess(NOW() - began, 4)

    def test_of_a_value_that_was_cut_no_spelling_of_its_beginning_is_left(self) -> None:
        hide = agent.Secrets(
            {
                "IBAN": "DE89370400440532013000",
                "OLD": "DE89370400440532999999",
                "PW": "Hunter2-Blue-Sky!",
            }
        ).hide
        for written, name in (
            ("DE89 3704 0044 0532 0130 00", "IBAN"),
            ("de89-3704-0044-0532-9999-99", "OLD"),
            ("https://a.b/?p=Hunter2%2DBlue%2DSky%21", "PW"),
            (json.dumps(json.dumps("hunter2-blue-sky!")), "PW"),
        ):
            line = f"to {written} and more words"
            begins = re.search("(?i)de89|hunter2", line)
            assert begins
            for shown in range(begins.start() + 12, len(f"to {written}")):
                told = hide(agent.cut(line, shown + 3))
                self.assertRegex(told, r"^to \S*\{\{(IBAN|OLD|PW)\}\}2?\W*$", line[:shown])
            self.assertIn(f"{{{{{name}}}}}", told)
        self.assertEqual(hide("DE89 370... Hunter..."), "DE89 370... Hunter...")

    def test_of_a_text_only_the_data_of_a_picture_at_its_beginning_is_passed_over(self) -> None:
        hide = agent.Secrets({"PW": "hunter2-secret"}).hide
        picture = f"data:image/png;base64,{'A' * 64}"
        self.assertEqual(hide(picture), picture)
        for begin in (
            "data:image/ ",
            "data:image/png;base64,AAAA ",
            f"{picture} ",
            f"a {picture} ",
        ):
            self.assertEqual(hide(f"{begin}hunter2-secret"), f"{begin}{{{{PW}}}}")

    def test_what_is_hidden_in_any_case_may_be_no_word_of_the_files_in_any_case(self) -> None:
        for value, refused in (
            ("EXECUTION-Instructions", True),
            ("ClickHere", True),
            ("--..--..", False),
            ("Qwertzuiop", False),
        ):
            with mock.patch.dict(os.environ, {"A": value}), mock.patch.object(sys, "stdin", None):
                raised = contextlib.nullcontext()
                if refused:
                    raised = self.assertRaises(agent.ConfigError)  # type: ignore[assignment]
                with raised:
                    agent.read_secrets(["A"])


class AtTheExit(EngineCase):
    """Wherever a value comes from, it leaves in no request and stands in no line."""

    VALUE = "hunter2-hunter2"

    def test_a_control_s_name_a_title_an_answer_and_a_correction_hold_none(self) -> None:
        replies = iter([PLAN, call("ask_person", question="Which one?")])
        click = call("click_screen_element", element_name="Other", position=[500, 500])
        trial = self.trial(lambda request: next(replies, click), max_steps=4, controls="list")
        trial.hidden = agent.Secrets({"PW": self.VALUE})
        shown = self.VALUE.upper().replace("-", " ")
        named = agent.Control(shown, "button", agent.Rect(20, 10, 40, 20), window=1)
        trial.desktop.control_source = agent.KnownControls([named])
        trial.desktop.title = f"Key {shown}"
        trial.engine.actuator.person.answers = lambda question: f"it is {shown}"
        told: list[Any] = []
        trial.listen(told.append)
        self.begin(trial)
        trial.state.plan = trial.state.execution_instructions = f"Type {shown}"
        trial.run()
        files = [
            path.read_text()
            for path in (trial.folder / "turns.jsonl", trial.folder / "execution_log.txt")
        ]
        for where in (str(trial.requests), *files):
            self.assertNotRegex(where, "(?i)hunter2.hunter2")
        self.assertIn("it is {{PW}}", str(trial.requests))
        self.assertNotRegex(
            str([getattr(item, "text", "") for item in told]), "(?i)hunter2.hunter2"
        )

    def test_no_file_that_holds_one_in_any_code_is_kept(self) -> None:
        trial = self.trial(lambda request: PLAN)
        trial.hidden = agent.Secrets({"PW": "пароль-4711"})
        known = {}
        for number, code in enumerate(("utf-8", "utf-16", "utf-16-le", "utf-16-be")):
            known[f"C:/{number}.txt"] = ("exists", "my ПАРОЛЬ 4711 here".encode(code), 0.0)
        known["C:/other.txt"] = ("exists", "nothing in it".encode("utf-16"), 0.0)
        kept = agent.keep_files(known, trial.engine.logger)
        self.assertEqual([name[-9:] for name in kept], ["other.txt"])

    def test_a_file_in_which_nobody_could_find_one_is_kept_where_there_is_none(self) -> None:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as document:
            document.writestr("word/document.xml", f"<w:t>{self.VALUE}</w:t>" * 9)
        files = {
            "a.docx": packed.getvalue(),
            "b.pdf": b"%PDF-1.7\n" + zlib.compress(self.VALUE.encode() * 9),
            "c.txt": "Grüße".encode("utf-16"),
        }
        for name, data in files.items():
            (self.folder / name).write_bytes(data)
        for hidden, kept in (({}, [*files]), ({"PW": self.VALUE}, ["c.txt"])):
            trial = self.trial(lambda request: PLAN, max_steps=1)
            trial.hidden = agent.Secrets(hidden)
            trial.state.task = " and ".join(f'"{self.folder / name}"' for name in files)
            trial.run()
            names = sorted(path.name for path in trial.folder.glob("kept_*"))
            self.assertEqual([name.split("_")[-1] for name in names], kept)

    def test_copying_from_a_window_that_a_secret_went_into_asks(self) -> None:
        for name, given, asks in (
            ("press_key", {"key": "ctrl+c"}, True),
            ("press_key", {"key": "ctrl+x"}, True),
            ("press_key", {"key": "ctrl+insert"}, True),
            ("click", {"element_name": "Copy", "position": [500, 500]}, True),
            ("click", {"element_name": "Kopieren", "position": [500, 500]}, True),
            ("press_key", {"key": "ctrl+a"}, False),
            ("click", {"element_name": "Next", "position": [500, 500]}, False),
        ):
            for filled in (True, False):
                with self.subTest(name, filled=filled, **given):
                    trial = self.trial(lambda request: PLAN)
                    asked: list[str] = []
                    trial.ask(lambda question, asked=asked: bool(asked.append(question)))
                    if filled:
                        trial.blank()
                    trial.perform(act(name, **given), trial.look())
                    self.assertEqual(bool(asked), asks and filled, asked)
                    trial.close()


class Reading(unittest.TestCase):
    def test_a_value_comes_from_the_environment_or_is_asked_for_without_an_echo(self) -> None:
        asked = mock.patch("getpass.getpass", lambda prompt: prompt + "secret")
        with mock.patch.dict(os.environ, {"MY_PASSWORD": "correct horse"}), person_there(), asked:
            values = agent.read_secrets(["MY_PASSWORD", "NOT_SET"]).values
        self.assertEqual(values, {"MY_PASSWORD": "correct horse", "NOT_SET": "NOT_SET: secret"})
        ended = mock.patch("getpass.getpass", side_effect=EOFError)
        with person_there(), ended, self.assertRaisesRegex(agent.ConfigError, "--secret NOT_SET"):
            agent.read_secrets(["NOT_SET"])

    def test_keys_that_a_hidden_prompt_of_windows_takes_for_signs_are_in_no_secret(self) -> None:
        """Ctrl+V, Shift+Insert and then the value, an arrow, Delete, F5; and what is one."""
        keys = {"\x16": False, "àRhunter2": False, "hunterà2K": True, "hunàKter2": False}
        for typed, taken in {**keys, "hunteràS2": False, "\0?hunter2": False}.items():
            said = mock.patch("getpass.getpass", lambda _, typed=typed: typed)
            with person_there(), said, contextlib.ExitStack() as undo:
                if not taken:
                    told = undo.enter_context(self.assertRaises(agent.ConfigError))
                values = agent.read_secrets(["NOT_SET"]).values
                self.assertEqual(values, {"NOT_SET": typed})
            if not taken:
                self.assertIn("paste by the right mouse button", str(told.exception))

    def test_what_cannot_be_a_secret_is_refused_without_showing_it(self) -> None:
        names = (("A B", "value1"), ("", "value1"), ("B", "value1"))
        values = ["", "abc", "two\nlines", "assistant"]
        values += [*agent.SETTINGS, *agent.RECORDS, *agent.TOOLS]
        values += [field for kind in agent.RECORDS.values() for field in kind.hints]
        for profile in agent.PROFILES.values():
            values += profile.vocabulary.tools.values()
        for name, value in (*names, *(("A", value) for value in values)):
            with mock.patch.dict(os.environ, {"A": value}), mock.patch.object(sys, "stdin", None):
                with self.assertRaises(agent.ConfigError) as caught:
                    agent.read_secrets([name])
                if value in ("value1", "abc", "two\nlines"):
                    self.assertNotIn(value, str(caught.exception))
                advised = "Set an environment variable of that name." in str(caught.exception)
                self.assertEqual(advised, name == "B" or not value, "which is not set")


class Hints(EngineCase):
    def test_a_secret_in_a_hint_of_the_person_is_hidden(self) -> None:
        trial = self.trial(lambda request: call("none"), max_steps=1)
        trial.hidden = agent.Secrets({"PIN": "4711"})
        trial.hear("it is 4711")
        heard: list[object] = []
        trial.listen(heard.append)
        trial.run()
        self.assertNotIn("4711", (trial.folder / "turns.jsonl").read_text())
        watched = [getattr(item, "text", "") for item in heard]
        self.assertIn("it is {{PIN}}", watched)
        self.assertNotIn("4711", str(watched))
        (hint,) = trial.records("hint")
        self.assertEqual((hint["text"], hint["turn"]), ("it is {{PIN}}", 1))


class Blanking(EngineCase):
    def typed(
        self, *windows: agent.Window, known: Sequence[agent.Control] = ()
    ) -> tuple[Trial, list[agent.Window], agent.Deed]:
        """A secret that is typed where the last of some windows is in front."""
        trial, there = self.trial(lambda r: text("-"), confirm="never"), list(windows)
        trial.hidden = agent.Secrets({"PASSWORD": PLAIN})
        trial.desktop.control_source = agent.KnownControls(known)
        trial.desktop.foreground = lambda: there[-1] if there else None
        trial.desktop.window = lambda handle: {w.handle: w for w in there}.get(handle)
        typing = agent.ToolCall("type_text_input", {"text": "{{PASSWORD}}"})
        deed = trial.perform(trial.profile.vocabulary.parse(typing), trial.look(1), 1)
        return trial, there, deed

    def test_where_a_secret_was_typed_pictures_are_grey_until_that_window_is_gone(self) -> None:
        screen = PlainDesktop(VirtualClock()).screen()
        trial, windows, _ = self.typed(agent.Window(1, "Login", "plain.exe", screen))
        # A square that the typing made.
        bright = trial.engine.eyes.capture().pixels.index(b"\xff\xff\xff")

        def shown() -> bytes:
            return trial.look(2).frame.pixels[bright : bright + 3]

        for rect in (agent.Rect(0, 0, 2, 2), agent.Rect(-5, -5, 4, 4), screen):  # uncovers nothing
            windows.append(agent.Window(2, "Save as", "plain.exe", rect))
            self.assertEqual(shown(), b"\x80\x80\x80")
        windows[0] = replace(windows[0], handle=3)
        self.assertEqual(shown(), b"\xff\xff\xff")

    def test_it_stays_grey_where_its_window_gets_another_size(self) -> None:
        """A form may hang at the left, at the right, or stand in the middle; or its scale is another one."""
        small, large, box = (
            agent.Rect(10, 4, 20, 12),
            agent.Rect(0, 0, 60, 36),
            agent.Rect(15, 8, 6, 2),
        )
        for then, now, places in (
            (small, large, [(5, 4), (45, 28), (25, 16), (15, 12)]),
            (large, small, [(20, 12), (15, 8)]),
            (small, small.moved(-5, 9), [(10, 17)]),
            (
                small.moved(20, 0),
                small.moved(20, 0),
                [(15, 8)],
            ),  # the field is in what drops out of it
            (small, agent.Rect(0, 0, 0, 0), []),  # it is on another desktop of Windows
        ):
            trial = self.trial(lambda request: text("-"), screen_capture_h=36)
            desktop = trial.desktop
            desktop.glance = lambda area, w, h: bytes((1, 2, 3, 0)) + bytes(w * h * 4 - 4)
            desktop.window = lambda handle, now=now: agent.Window(handle, "Login", rect=now)
            secret = agent.SecretRecord(place=1, handle=1, window=then, box=box)
            trial.engine.eyes.secrets[1] = secret
            frame = trial.look(1).frame
            for left, top in places:
                for x, y in ((left, top), (left + box.width - 1, top + box.height - 1)):
                    at = (y * frame.width + x) * 4
                    self.assertEqual(frame.pixels[at : at + 3], b"\x80\x80\x80", (now, x, y))
            grey = frame.pixels.count(b"\x80\x80\x80")
            self.assertEqual(grey > 0, bool(places), "else nothing hides what is there")

    def test_what_a_field_made_of_it_is_told_by_no_later_run_of_a_client_or_a_resumed_one(
        self,
    ) -> None:
        """A field may take a part of it only, and hold that in a form in which it cannot be found."""
        card = agent.Control(
            "Card", "edit", agent.Rect(9, 9, 40, 9), value="hunter2hun", focused=True, window=1
        )
        other = replace(card, name="Note", value="a note")
        login = agent.Window(1, "Login", "plain.exe", PlainDesktop(VirtualClock()).screen())
        for known in (True, False):  # before it is typed
            trial, _, _ = self.typed(login, known=[card] * known)
            trial.desktop.control_source = agent.KnownControls([card])
            trial.engine.controls.has_secret(card, "{{PASSWORD}}")  # as it is read back
            resumed = agent.Actuator(trial.desktop, trial.config, trial.clock, trial.stop)
            for record in agent.read_journal(trial.folder).records:
                if isinstance(record, agent.SecretRecord):
                    resumed.secret_places[record.place] = record
            for hands in (trial.engine.actuator, resumed)[: 1 + known]:
                told = agent.ControlCheck(hands).facts()
                self.assertEqual(told, ["The keyboard is in 'Card' (edit)."])
            trial.desktop.control_source = agent.KnownControls([other])
            (fact,) = agent.ControlCheck(resumed).facts()
            self.assertIn("a note", fact)

    def test_where_no_window_has_the_keyboard_it_is_not_typed(self) -> None:
        trial, _, deed = self.typed()
        self.assertEqual((deed.refused, trial.desktop.inputs), ("no_field", []))


class Leaky(ScriptedServer):
    """A model that has the secrets and says them everywhere, in errors too; typing is by name and by value."""

    def __init__(self) -> None:
        super().__init__(hang_up)
        said = f"I see {CANARY} and {PLAIN}."
        self.turn = 0
        place = {"element_name": f"the {PLAIN} field", "position": [300, 400]}
        status = {"goal_identifier": CANARY, "completion_status": "IN_PROGRESS"}
        self.steps_ = [
            call("type_text_input", text="{{PASSWORD}}"),
            call("type_text_input", text=f"{CANARY}{PLAIN}"),
            call("click_screen_element", **place, reasoning=CANARY),
            call("press_keyboard_key", key=PLAIN),
            call(PLAIN, text=CANARY),
            text(said + " No call."),
            call("report_goal_status", **status, evidence=PLAIN),
        ]
        cut = "y" * 100 + PLAIN  # where an error is shortened, too
        self.failures = [
            answer(500, {"error": said}),
            raw(http(200, said.encode())),
            answer(500, {"error": cut}),
            answer(404, {"error": {"message": said}}),
        ]
        self.said = said

    def _step(self) -> Step:
        head, _, body = self.requests[-1].partition(b"\r\n\r\n")
        if head.startswith(b"GET"):
            model = {"id": "qwen3-vl-2b-instruct", "type": "vlm", "state": "loaded"}
            if b"/api/v0/models" in head:
                return answer(200, {"data": [model]})
            return answer(404, {"error": f"No page {CANARY}"})
        if self.failures and self.turn in (2, 4, 6, 8):
            self.turn += 1
            return self.failures.pop(0)
        role = role_of(json.loads(body))
        self.turn += role == "executor"
        plan = {"instructions": self.said, "reasoning": self.said}
        end = call("report_mission_complete", evidence=PROOF + self.said)
        if role == "executor":
            message = self.steps_.pop(0) if self.steps_ else end
        else:
            plans = role == "planner"
            message = call("update_execution_plan", **plan) if plans else text("YES " + self.said)
        words = message.get("content") or self.said
        message = {**message, "content": words, "reasoning_content": self.said}
        choices = [{"message": message, "finish_reason": "stop"}]
        return answer(200, reply(choices=choices, model=PLAIN))


class Canary(unittest.TestCase):
    def run_everywhere(self) -> tuple[dict[str, bytes], FakeWin32, list[bytes]]:
        """Everything that a run with leaks on all sides wrote and sent, by where it stands."""
        stop = agent.Stop()
        clock = VirtualClock(stop)
        window = Foreground(f"{PLAIN} - Login {CANARY}")
        world, out, err = FakeWin32(clock=clock, window=window), io.StringIO(), io.StringIO()
        environ = {"PASSWORD": CANARY, "TOKEN": PLAIN}
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            model = stack.enter_context(Leaky())
            settings = f"""screen_capture_w=64 screen_capture_h=64 confirm=never controls=off
                dump_dir={folder}/dumps request_retries=1 model_failures=5""".split()
            arguments = [part for item in settings for part in ("--set", item)]
            arguments += ["--endpoint", model.url]
            arguments += ["--secret", "PASSWORD", "--secret", "TOKEN"]
            stack.enter_context(windows_of_main(world))
            stack.enter_context(clock_of_main(lambda _stop: clock))
            stack.enter_context(mock.patch.object(sys, "stdin", None))
            stack.enter_context(mock.patch.dict(os.environ, environ))
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(contextlib.redirect_stderr(err))
            try:
                agent.main([*arguments, f"Log in with {CANARY} or {{{{TOKEN}}}} or {PLAIN}"])
            finally:
                paths = list(Path(folder).rglob("*"))
                self.files = files = {str(p): p.read_bytes() for p in paths if p.is_file()}
                files |= {f"{path} (name)": str(path).encode() for path in paths}
        files |= {"stdout": out.getvalue().encode(), "stderr": err.getvalue().encode()}
        return files, world, model.requests

    def hits(self, texts: dict[str, bytes]) -> list[str]:
        spelled = [spelling.encode() for spelling in (*SPELLINGS, "hunter2")]
        return [where for where, data in texts.items() if any(said in data for said in spelled)]

    def test_a_canary_on_every_side_of_the_run_is_in_no_file_no_output_and_no_request(self) -> None:
        files, world, requests = self.run_everywhere()
        self.assertEqual(world.typed, CANARY + CANARY + PLAIN)
        self.assertGreater(len(files), 8)
        self.assertGreater(len(requests), 12)
        self.assertEqual(self.hits(files), [])
        self.assertEqual(self.hits({f"request {i}": data for i, data in enumerate(requests)}), [])
        (log,) = [data for name, data in files.items() if name.endswith("execution_log.txt")]
        self.assertIn(b"{{PASSWORD}}", log)
        self.assertIn("{{TOKEN}} - Login {{PASSWORD}}", b"".join(requests).decode())

    def test_a_bug_that_shows_a_value_is_reported_and_logged_without_it(self) -> None:
        calls = itertools.count()
        sleep = VirtualClock.sleep

        def bug(clock: VirtualClock, seconds: float) -> None:
            sleep(clock, seconds)
            if next(calls) > 20:
                raise ZeroDivisionError(f"{PLAIN} by zero")

        buggy = mock.patch.object(VirtualClock, "sleep", bug)
        with buggy, self.assertRaises(RuntimeError) as caught:
            self.run_everywhere()
        told = "".join(traceback.format_exception(caught.exception))
        self.assertEqual(self.hits({**self.files, "error": told.encode()}), [])
        (log,) = [data for name, data in self.files.items() if name.endswith("execution_log.txt")]
        self.assertIn("ZeroDivisionError: {{TOKEN}} by zero", log.decode())
