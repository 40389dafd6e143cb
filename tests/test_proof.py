"""A completion is believed when each of its checks holds by a fresh look, and no fact says otherwise."""

from __future__ import annotations

import os
import random
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests.fakes import Foreground
from tests.samples import for_the_gate, sample
from tests.scripted import PROOF, EngineCase, PlainDesktop, call, role_of, text, user_text
from tests.seams import little_patience
from tests.test_actuator import Stage

DONE = call("report_mission_complete", evidence=PROOF)
CLICK = call("click_screen_element", element_name="Button", position=[500, 500])
CHECKS = ("Notepad shows hello.", "The title bar has no star.")


class Judged(EngineCase):
    """A run whose executor claims completion each turn."""

    hide: Any = None  # stands for the logger's own

    def claims(
        self,
        *verdicts: str,
        task: str = "Write hello",
        checks: tuple[str, ...] = CHECKS,
        happens: Callable[[], object] = list,
        **settings: Any,
    ) -> agent.Outcome:
        answers = iter(verdicts)
        plan = {"instructions": "Do it.", "reasoning": "first", "done_when": [*checks]}

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            who = role_of(request)
            if who == "verifier":
                return text(next(answers, verdicts[-1]))
            if who == "executor":
                happens()
                return DONE
            given = dict(plan)
            plan["done_when"] = ["Something was done"]  # those named first stay
            return call("update_execution_plan", **given)

        self.made = self.trial(decide, **settings)
        if self.hide:
            self.made.engine.logger.hide = self.hide
        self.made.state.task = task
        self.begin(self.made, task)
        return self.made.run()

    def asked(self, who: str) -> list[str]:
        requests = self.made.requests
        return [user_text(request) for request in requests if role_of(request) == who]


class Checks(Judged):
    """What a judge says, and what then follows, is tried in data/runs.jsonl."""

    def test_a_new_file_that_holds_what_a_check_quotes_needs_no_further_question(self) -> None:
        path = self.folder / "a.txt"
        settings = {"task": f"Save it as {path}", "second_opinion": True, "not_proven_most": 1}
        for before, after, asked, proven in (
            (None, "Grüße".encode("utf-16"), 1, True),
            (None, "Gruß".encode(), 1, False),
            # What was there before proves nothing, nor what may have been where none could read.
            ("", "Grüße".encode(), 4, True),
            ("Grüße", "Grüße".encode(), 4, True),
            ("Grüße", "Grüße!".encode(), 4, True),
        ):
            with self.subTest(before, after=after):
                path.unlink(missing_ok=True)
                if before:
                    path.write_text(before, encoding="utf-8")
                elif before is not None:
                    path.mkdir()

                def save(held: bytes = after) -> None:
                    if path.is_dir():
                        path.rmdir()
                    path.write_bytes(held)

                checks = (f'{path} holds "Grüße".', "The title bar has no star.")
                said = "1 YES: a\n2 YES: b"
                outcome = self.claims(said, checks=checks, happens=save, **settings)
                self.assertEqual(outcome.kind == "completed", proven)
                self.assertEqual(len(self.asked("verifier")), asked)

    def test_a_lead_of_four_yes_is_needed_over_all_claims_since_the_last_act(self) -> None:
        yes, no = "1 YES: a\n2 YES: b", "1 NO: a\n2 NO: b"
        for verdicts, asked in (
            ((yes,), 4),
            ((yes, no, yes), 6),
            ((no, yes), 6),  # refused, claimed again
            ((no, no, yes), 8),
            ((yes, no, no, yes), 8),
        ):
            with self.subTest(verdicts):
                settings = {"second_opinion": True, "not_proven_most": 9, "max_steps": 9}
                self.assertEqual(self.claims(*verdicts, **settings).kind, "completed")
                questions = self.asked("verifier")
                self.assertEqual(len(questions), asked)
                ways = {question.rpartition("\n\n")[2] for question in questions[:4]}
                self.assertEqual(len(ways), 4)

    def test_the_end_of_a_run_of_refused_claims_is_one_sentence(self) -> None:
        outcome = self.claims("1 YES: a\n2 NO: b", not_proven_most=2, last_look=False)
        self.assertEqual(outcome.kind, "not_proven")
        said = "Claimed to be done 2 times, which no fresh look confirmed: "
        self.assertTrue(outcome.text.startswith(said), outcome.text)
        self.assertNotIn("not yet", outcome.text)

    def test_an_act_ends_what_was_said_before_it(self) -> None:
        yes, no = "1 YES: a\n2 YES: b", "1 NO: a\n2 NO: b"
        acts = iter([DONE, CLICK, DONE])
        verdicts = iter([yes, yes, no, no, no, yes, yes, yes, yes])

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            who = role_of(request)
            if who == "planner":
                given = {"instructions": "Do it.", "reasoning": "first", "done_when": [*CHECKS]}
                return call("update_execution_plan", **given)
            return text(next(verdicts)) if who == "verifier" else next(acts)

        self.made = self.trial(decide, second_opinion=True)
        self.begin(self.made, "Write hello")
        self.assertEqual(self.made.run().kind, "completed")
        self.assertIsNone(next(verdicts, None))

    @for_the_gate
    def test_a_judge_that_is_wrong_in_fifteen_of_a_hundred_lets_no_false_claim_of_many_pass(
        self,
    ) -> None:
        chance = random.Random(7)
        passed = 0
        for _ in range(sample(300, 30)):
            wrong = iter(lambda: chance.random() < 0.15, None)
            verdicts = ("1 YES: a\n2 YES: b" if one else "1 NO: a\n2 NO: b" for one in wrong)
            most = {"not_proven_most": 2, "last_look": False}
            outcome = self.claims(*islice(verdicts, 60), second_opinion=True, **most)
            passed += outcome.kind == "completed"
            self.made.close()
            shutil.rmtree(self.made.folder)  # each run looks at all that are there
        self.assertEqual(passed, 0)

    def test_the_name_of_a_secret_keeps_its_braces_in_what_a_judge_says(self) -> None:
        outcome = self.claims("1 YES: {{PIN}} is seen\n2 YES - {{PIN}}")
        self.assertEqual([one.why for one in outcome.checks], ["{{PIN}} is seen", "{{PIN}}"])

    def test_those_named_first_stay_whatever_a_later_plan_names(self) -> None:
        no, yes = (f"1 YES: a\n2 {word}: b" for word in ("NO", "YES"))
        outcome = self.claims(no, no, yes, max_steps=9)
        self.assertGreater(len(self.asked("planner")), 1)
        self.assertEqual([one.check for one in outcome.checks], [*CHECKS])


# What a task says, and the path in it that is looked for; nothing, where nobody knows its end.
ENDS_OF_PATHS = r"""
Save it as "C:\Users\O'Brien\my note.txt". => C:\Users\O'Brien\my note.txt
Save it as 'C:\Users\O'Brien\my note.txt', then go on => C:\Users\O'Brien\my note.txt
Save it as C:\Users\O'Brien\note.txt, then go on => C:\Users\O'Brien\note.txt
Enregistre-le sous «C:\Liste d'achats\note.txt» => C:\Liste d'achats\note.txt
Save it as `C:\my note.txt`. => C:\my note.txt
Save it as ‘C:\my note.txt’, then go on => C:\my note.txt
Speichere es als »C:\my note.txt«. => C:\my note.txt
Save it as C:\note.txt—and go on => C:\note.txt
保存为 C:\报告\报告.docx。 => C:\报告\报告.docx
把它保存为C:\note.txt，然后关闭记事本 => C:\note.txt
保存到「C:\my note.txt」 => C:\my note.txt
C:\note.txtとして保存してください。 => C:\note.txt
C:\报告.v2最终版.docx => C:\报告.v2最终版.docx
메모장에 쓰고 C:\note.txt에 저장해 => C:\note.txt
C:\note.txt'ye kaydet => C:\note.txt
Tallenna C:\note.txt:iin => C:\note.txt
Open C:\my.files\v1.2 => C:\my.files\v1.2
C:\フォルダに保存
Mentsd ide: C:\note.txt-be
Save it as "C:\my note.txt and close
Press Win+R, type "C:\ping.exe -t" and press Enter
Press Win+R, type "C:\ping.exe /t" and press Enter
Type "C:\note.txt: done"
"""


class Facts(Judged):
    def judged(self, task: str, *checks: str, **more: Any) -> agent.Outcome:
        said = "\n".join(f"{number} YES: sure" for number in range(1, len(checks) + 1))
        return self.claims(said, task=task, checks=checks, not_proven_most=1, **more)

    def test_no_yes_is_believed_that_a_file_says_otherwise_of(self) -> None:
        """Rows: what the file holds when the run begins, what then becomes of it (None: nothing, "":
        it goes away), what is checked of it and whether that is believed."""
        utf16, rich = "hullo\r\n".encode("utf-16"), rb"{\rtf1 Gr\'fc\'dfe}"
        for name, before, after, check, believed in (
            ("a.txt", b"", None, "The file a.txt is saved.", False),
            ("b.txt", b"hello", b"hello", "The file b.txt is saved.", True),
            ("o.txt", b"hello", None, "The file o.txt is saved.", False),
            ("p.txt", b"hello", None, 'The file p.txt exists and holds "hello"', False),
            ("q.txt", b"", b"hello", 'The file q.txt exists and holds "bye"', False),
            ("r.txt", b"", b"hello", 'The file r.txt exists and holds "hello"', True),
            ("c.txt", b"", None, "The window shows hello.", False),
            ("d.txt", utf16, None, 'd.txt contains "hello"', False),
            ("e.txt", utf16, utf16, 'e.txt contains "Hullo."', True),
            ("f.txt", b"", b"hello", 'f.txt contains "none"', False),
            # What was there when the run began may be wanted away.
            ("g.txt", b"old", b"new", 'g.txt has no "old" in it', True),
            ("h.txt", b"new", b"new", 'h.txt has no "old" in it', True),
            # Only of a check that says nothing else a quote is certainly what the file holds.
            ("m.txt", b"new", b"new", 'after "Save" m.txt exists', True),
            ("n.txt", b"new", b"new", 'n.txt was saved by "Ctrl+S"', True),
            ("i.txt", b"old", b"", "i.txt is no longer there", True),
            # What no one can read has to be another one than then.
            ("j.docx", b"\0\1", None, 'j.docx contains "hello"', False),
            ("k.docx", b"\0\1", b"\0\2\3", 'k.docx contains "hello"', True),
            ("l.txt", b"", rich, 'l.txt contains "Gr\u00fc\u00dfe".', True),
        ):
            with self.subTest(name):
                path = self.folder / name
                if before:
                    path.write_bytes(before)

                def happens(path: Path = path, after: bytes | None = after) -> None:
                    if after:
                        path.write_bytes(after)
                        os.utime(path, (9e8, 9e8))  # another time than before, on any disk
                    elif after is not None and path.exists():
                        path.unlink()

                outcome = self.judged(f'Save it as "{path}"', check, happens=happens)
                self.assertEqual(outcome.kind == "completed", believed)
                there = path.exists()
                self.assertEqual(f"{path} does not exist." in self.asked("verifier")[0], not there)

    def test_a_task_may_name_more_files_than_a_run_has_checks(self) -> None:
        paths = [self.folder / f"{number}.txt" for number in range(8)]

        def happens() -> None:
            for path in paths:
                path.write_text("x")

        task = f"Save an empty note as {', '.join(map(str, paths[:6]))}."
        checks = [f"The file {path} is saved." for path in paths[5:]]
        outcome = self.judged(task, *checks, happens=happens, second_opinion=True)
        self.assertEqual(outcome.kind, "completed")

    def test_a_path_in_a_check_is_looked_up_like_one_in_the_task(self) -> None:
        """Rows: what the file holds in the end (None: there is none), what is said of it by the judge
        and in the check, and whether that is believed."""
        for name, held, said, check, believed in (
            ("a.txt", "", "YES", '{} contains the text "Rechnung 4711: 3 × 250"', False),
            ("b.txt", "Rechnung 4711: 3 × 250", "NO", '{} contains the text "Rechnung 4711"', True),
            ("c.txt", None, "YES", "The file {} exists.", False),
            ("d.txt", "x", "NO", "The file {} exists.", True),
            ("e.txt", "Hallo", "YES", 'Die Datei {} enthält die Zeile "Guten Tag"', False),
            ("f.txt", "hallo", "NO", '{} holds exactly "Hallo"', False),
            # These say something else, or nobody can tell: words decide.
            ("g.txt", None, "YES", "{} no longer exists", True),
            ("h.txt", "x", "YES", '{} was saved by "Ctrl+S"', True),
            ("i.txt", "new", "YES", '{} lacks the word "old"', True),
            ("j.txt", "x", "NO", "{} is saved", False),
        ):
            with self.subTest(check):
                path = self.folder / name
                if held is not None:
                    path.write_text(held, encoding="utf-8")
                checks = (check.format(path),)
                settings = {"checks": checks, "task": "Save it", "not_proven_most": 1}
                outcome = self.claims(f"1 {said}: sure", **settings)
                self.assertEqual(outcome.kind == "completed", believed)
                self.assertNotIn(f'holds "{held}"', self.asked("verifier")[0])

    def test_a_check_that_names_two_files_or_denies_one_is_decided_by_neither(self) -> None:
        one, other = (self.folder / name / "note.txt" for name in "ab")
        one.parent.mkdir()
        one.write_text("hello")
        exists, does_not = "the file exists", "the file does not exist"
        for check, why in (
            (f"{one} exists", exists),
            (f"After the move {one} exists", exists),
            (f"{other} exists", does_not),
            ("a/note.txt exists", exists),
            (r"A\NOTE.TXT exists", exists),
            ("The note.txt exists", "sure"),  # which of them?
            ('The note.txt contains "hello"', "sure"),
            (f"{one} and {other} exist", "sure"),
            (f"{other} and {one} exist", "sure"),
            (f"No file {other} exists", "sure"),
            (f"Neither is {one} kept, nor {other} exists", "sure"),
        ):
            for task in (f"Open {one}, {other}.", f"Open {other}, {one}."):
                rulings = self.judged(task, check).checks
                found = [ruling.why for ruling in rulings if ruling.check == check]
                self.assertEqual(found, [why], check)

    def believed(self, task: str, held: str, before: str | None = None) -> bool:
        """Whether a judge's YES is believed of a task about a file {} that holds this in the end."""
        path = self.folder / "note.txt"
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_text(before, encoding="utf-8")

        def happens() -> None:
            path.write_text(held, encoding="utf-8")
            os.utime(path, (9e8, 9e8))

        said = task.replace("{}", str(path))
        off = {"controls": "off", "happens": happens}  # so that the file alone decides
        self.ended = self.judged(said, "All is as wanted.", **off)
        return self.ended.kind == "completed"

    def test_a_file_has_to_hold_the_text_that_its_task_bids_to_write_into_it(self) -> None:
        """Rows: the task, what proves it false, and what does not."""
        for task, false, true in (
            ('Open it, write "hello" and save it as {}', "goodbye", "Hello\r\n"),
            ('Write "hello" and save it as {}', "hell", "oh hello, you"),
            ("Write: hello and save it as {}", "goodbye", "hello"),
            ("Write: hello. Save it as {}", "Well, hello there", "hello"),
            ('Write exactly "hello" and save it as {}', "hello hello, foo", "hello\n"),
            ('Type "hello" and nothing else, then save it as "{}".', "hello, foo", "hello."),
            ('Write "hello" into the new file {}', "x", "hello"),
            ("Write ‘hello’ in a new document. Then save it under {}", "x", "hello"),
            ("Schreibe nur „Grüße“ und speichere es unter {}", "Grüße Grüße", "Grüße"),
            ("Écris uniquement « salut » et enregistre le fichier sous {}", "salut toi", "salut"),
            ('Escribe sólo "hola" y guarda el archivo como {}', "hola hola", "hola"),
        ):
            self.assertFalse(self.believed(task, false), task)
            self.assertTrue(self.believed(task, true), task)
        # What a file proves is told as that.
        self.believed('Write "hello" and save it as {}', "hello")
        proven = f'{self.folder / "note.txt"} holds "hello"', True, "the file holds it"
        self.assertEqual(self.ended.checks[1:], [proven])
        self.assertTrue(self.ended.text.startswith("Confirmed 1 of 2 checks by files, else by"))
        exactly = 'Write exactly "bye" and save it as {}'
        self.assertTrue(self.believed(exactly, "hello\nbye", before="hello"))
        self.assertFalse(self.believed(exactly, "hello\nbye\nbye", before="hello"))

    def test_of_what_a_task_may_mean_otherwise_no_file_has_to_hold_anything(self) -> None:
        for task in (
            "Write hello and save it as {}",  # where does it end?
            "Write: salt and pepper and save it as {}",
            'Write "a" or "b" and save it as {}',
            'If it is empty, write "a" and save it as {}',
            'Do not write "a" and save it as {}',
            'Write "a", save it as {} and replace "a" by "b"',
            'Type "x x", press Enter, paste and save it as {}',
            'Choose the type "PDF" and save it as {}',
            'Write exactly "x" twice and save it as {}',
            'Write a poem, then write exactly "x" and save it as {}',
            r'Write "a\nb" and save it as {}',
            # A title or a label, or what is to become another text.
            "Write a 'Thank you' note and save it as {}",
            'Write the "Hello World" program into {}',
            'Type the "Invoice number" from the mail into {}',
            'Write the text "Invoice number" from the mail into {}',
            'Write the word "cat" in French and save it as {}',
            'Write "Hello [name]" where [name] is the name of the user into {}',
            'Write "Today is <date>" into {}',
            'Write "Total: X" in Notepad, X being the sum, and save it as {}',
            'Write "Total: X" into {}. X stands for the sum.',
            'Write down the "Build number" of Windows and save it as {}',
            'Gib die "Rechnungsnummer" aus der Mail ein und speichere es unter {}',
            'Ecris la "Conclusion" du rapport et enregistre le fichier sous {}',
            'Write a "TODO" list and save it as {}',
            'Enter "Display settings" and save it as {}',
            "Set the phone type: Mobile and save it as {}",
            "Write: cat in French and save it as {}",
            *[
                f'Write "SOS" {how} into {{}}'
                for how in ("in Morse code", "in reverse", "as ROT13")
            ],
            'Write "hello" into {} backwards',
            'Write "hello" into {}, encoded in Base64',
            'Write "hello" into {}, then write "bye" over it',
            'Write "hello" into {}, and put "bye" in its place',
        ):
            self.assertTrue(self.believed(task, "x x"), task)

    def test_a_quote_is_a_text_to_type_only_where_the_words_leave_no_doubt(self) -> None:
        for task in (
            "Write a 'Thank you' note to Bob in Notepad",
            'Type the "Invoice number" from the mail into cell B2',
            'Write the "Hello World" program in Python in Notepad',
            'Write the word "cat" in French in Notepad',
            'Write "Hello [name]" where [name] is the name of the user',
            'Write an "Out of office" reply',
            'Enter the "Total" shown on the page',
            'Write down the "Build number" of Windows',
            'Write the "Product ID" shown under About',
            'Gib die "Rechnungsnummer" aus der Mail ein',
            'Ecris la "Conclusion" du rapport',
            'Write a "TODO" list',
            'Enter "Display settings" and switch the night light on',
            "Enter the 'Documents' folder",
            "Set the phone type: Mobile",
            "Create a contact. Name: Bob. Type: Mobile",
            'Write "SOS" in Morse code',
            'Write "hello world" in reverse',
            'Write "hello world" as ROT13',
            'Write "Today is <date>"',
            'Write "Total: X" in Notepad, X being the sum',
            'Write "Total: X". X stands for the sum.',
            "Write: hello in French",
            'Tell me who can write "hello"',
            'Write "hello" twice',
        ):
            self.assertEqual(self.judged(task, "All is as wanted.").kind, "completed", task)
        for task in (
            'Write "hello"',
            'Open Notepad and type "hello".',
            'Open Notepad, write "hello" in it, then press Enter',
            'Enter "hello" into the "Name" field',
            'Enter the text "hello" and press Enter',
            'Write the word "hello" in a new document',
            "Gib „hello“ ein",
            "Öffne den Editor und schreibe „hello“ in den Editor",
            "Écris « hello » dans le Bloc-notes",
            'Escribe "hello" en el Bloc de notas',
            "Please type: hello",
            'Write exactly "hello" and nothing else into "C:\\a b\\note.txt"',
        ):
            outcome = self.judged(task, "All is as wanted.")
            said = [one.check for one in outcome.checks]
            self.assertTrue({'"hello" is written', "'hello' is written"}.intersection(said), task)

    def test_no_text_is_missed_in_a_file_of_an_unknown_code_page(self) -> None:
        path = self.folder / "note.txt"
        for wanted, page in (("Änderung", "cp437"), ("Привет", "cp1251")):
            for check in ("All is as wanted.", f'{path} contains "{wanted}"'):
                path.unlink(missing_ok=True)
                happens = partial(path.write_bytes, wanted.encode(page))
                task = f'Write "{wanted}" into {path}'
                outcome = self.judged(task, check, happens=happens, controls="off")
                self.assertEqual(outcome.kind, "completed", (wanted, check))

    def test_a_file_that_a_task_only_reads_or_may_spare_can_stay_as_it_was(self) -> None:
        for task, stays in (
            ("Open the report saved as {} and tell me its first word", True),
            ("Print the picture that was saved to {}", True),
            ("Load the settings exported to {} and close it", True),
            ("Save the page as {} unless it is there", True),
            ("Tell me how to save the page as {}", True),
            ("Save the page as {}", False),
            ("Speichere die Seite unter {}", False),
        ):
            path = self.folder / "a.txt"
            path.write_text("old", encoding="utf-8")
            outcome = self.judged(task.replace("{}", str(path)), "All is as wanted.")
            self.assertEqual(outcome.kind == "completed", stays, task)

    def test_a_file_that_is_to_be_absent_or_may_be_need_not_be_there(self) -> None:
        for task, absent in (
            ("Check whether {} exists", True),
            ("Find out: does {} exist?", True),
            ("Prüfe, ob {} da ist", True),
            ("Delete {}", True),
            ("Make sure that {} is gone", True),
            ("Create {} and rename it to b.txt", True),
            ("Save it as {}, then move the file to the folder Old", True),
            ("Save it as {}", False),
            ("Create the file {}", False),
        ):
            said = task.replace("{}", str(self.folder / "none.txt"))
            outcome = self.judged(said, "All is as wanted.")
            self.assertEqual(outcome.kind == "completed", absent, task)

    def test_a_check_of_a_file_whose_name_ends_as_another_one_is_decided_by_it(self) -> None:
        one, other = self.folder / "note.txt", self.folder / "Copy of note.txt"
        one.write_text("hello")
        for check, why in (
            (f"{other} exists", "the file does not exist"),
            ("Copy of note.txt exists", "the file does not exist"),
            (f'"{other}" contains "hello"', "the file does not exist"),
            (f"{one} exists", "the file exists"),
            (f"{one} and {other.name} exist", "sure"),
        ):
            for task in (f'Copy "{one}" to "{other}".', f'"{other}" is a copy of "{one}".'):
                rulings = self.judged(task, check).checks
                found = [ruling.why for ruling in rulings if ruling.check == check]
                self.assertEqual(found, [why], check)

    def test_what_was_on_a_drive_that_is_not_there_any_more_is_not_said_to_be_gone(self) -> None:
        path = self.folder / "del.txt"
        for drive_stays in (True, False):
            lost = None if drive_stays else path.anchor
            exists = mock.Mock(side_effect=lambda place, lost=lost: place != lost)
            for task in (f"Delete the file {path}", f"Move {path} to the folder Old"):
                path.write_text("old", encoding="utf-8")
                with mock.patch("os.path.exists", exists):
                    checks = self.judged(task, "All is as wanted.", happens=path.unlink).checks
                gone = [ruling.holds for ruling in checks if ruling.check == f"{path} is gone"]
                self.assertEqual(gone, [True] * drive_stays, task)
            # What was never there has to be made all the same.
            task = f"Save it as {self.folder / 'none.txt'}"
            with mock.patch("os.path.exists", exists):
                self.assertFalse(all(one.holds for one in self.judged(task, "Fine.").checks))

    def test_a_file_that_its_task_bids_away_has_to_be_gone(self) -> None:
        path = self.folder / "del.txt"
        stays = (
            "Do not delete {}",
            "If it is empty, delete {}",
            "Delete {} from the list of files",
            "Delete the word old from {}",
            "Move {} to the top of the list",
            "Delete {} and create it again",
            "Open Defender and exclude {}",
            "Open Defender and exclude the folder {}",
            "Open VLC, remove {} and play the next one",
            "Open the playlist and remove {}, then save the playlist",
            "In the mail, remove {}. Add another one.",
            "Stop sharing: in the dialog remove {}",
            "In the playlist, delete {} and close it",
            "Tell me how to delete {}",
            "Move {} to the top right corner of the desktop",
            f"Move {{}} to {self.folder}",
            f"Move {{}} to the folder {self.folder.name}",
            "Move {} to the folder Other and then copy it to the old folder",
        )
        for task in (
            "Delete the file {}",
            'Delete "{}" and close Explorer.',
            "Lösche die Datei {}.",
            "Die Datei {} löschen",
            "Supprime le fichier {}",
            "Borra el archivo {}",
            "Elimina il file {}",
            "Usuń plik {}",
            "Remove the file {}",
            "Remove {} permanently",
            "Удали файл {}",
            "Move {} to the folder Old",
            "Verschiebe die Datei {} in den Ordner Alt",
            "Déplace {} vers le dossier Vieux",
            *stays,
        ):
            for goes in (False, True):
                path.write_text("old", encoding="utf-8")
                happens = path.unlink if goes else list
                said = task.replace("{}", str(path))
                outcome = self.judged(said, "All is as wanted.", happens=happens)
                self.assertEqual(outcome.kind == "completed", goes or task in stays, (task, goes))

    def test_a_file_is_kept_as_it_was_beside_one_that_cannot_be_read(self) -> None:
        closed, path = self.folder / "closed.txt", self.folder / "note.txt"
        for file in (closed, path):
            file.write_text("hello", encoding="utf-8")
        read = Path.read_bytes

        def reading(place: Path) -> bytes:
            if place == closed:
                raise PermissionError(13, "in use")
            return read(place)

        task = f"Empty {closed} and {path}."
        with mock.patch.object(Path, "read_bytes", reading):
            outcome = self.judged(task, "note.txt is empty.", happens=path.unlink)
        self.assertIn("the run's folder has kept_0_1_note.txt.", outcome.text)
        self.assertEqual((self.made.folder / "kept_0_1_note.txt").read_text("utf-8"), "hello")

    @mock.patch.object(agent, "FILE_BYTES", 8)
    def test_files_are_kept_up_to_a_limit_for_all_and_one_named_twice_counts_once(self) -> None:
        paths = [self.folder / name for name in ("a.txt", "b.txt", "c.txt")]
        for path, words in zip(paths, ("hello", "worlds", "you"), strict=True):
            path.write_text(words, encoding="utf-8")
        named = f"{paths[0]}, {paths[0]}, {paths[0]}, {paths[1]}, {paths[2]}"
        self.judged(f"Look at {named}.", "a.txt is there.")
        kept = sorted(path.name for path in self.made.folder.glob("kept_*"))
        self.assertEqual(kept, ["kept_0_1_a.txt", "kept_0_2_c.txt"])

    def test_a_file_is_known_by_a_path_with_blanks_and_other_signs(self) -> None:
        for folder in ("My Files", "JOHN~1", "Files (x86)"):
            path = self.folder / folder / "my note.txt"
            path.parent.mkdir()
            path.write_text("abc", encoding="utf-8")
            for named in (path, f"{folder}/my note.txt", "my note.txt", "File:my note.txt"):
                outcome = self.judged(f'Open "{path}"', f'The file {named} contains "hello".')
                self.assertEqual(outcome.kind, "not_proven", named)

    def test_a_file_is_not_taken_for_one_whose_name_holds_its_name(self) -> None:
        for name, other in (("1.txt", "11.txt"), ("a.txt", "a.txt.bak"), ("c.txt", "d/c.txt")):
            path = self.folder / name
            path.write_text("hello", encoding="utf-8")
            (self.folder / other).parent.mkdir(exist_ok=True)
            (self.folder / other).write_text("bye", encoding="utf-8")
            for said, kind in (
                *((there, "completed") for there in (other, str(self.folder / other))),
                *((here, "not_proven") for here in (name, str(path).upper())),
                (f"{self.folder.name}/{name}", "not_proven"),
            ):
                self.assertEqual(self.judged(f"Open {path}", f'{said} says "bye"').kind, kind, said)

    def told(self, task: str, **settings: Any) -> list[str]:
        """What the verifier is told of the files that a task names."""
        self.claims("1 YES: a\n2 YES: b", task=task, not_proven_most=1, **settings)
        facts = self.asked("verifier")[0].partition("FACTS:\n")[2].partition("\n\n")[0]
        verbs = r" (exists|does not exist|cannot be looked at)\b"
        return [line for line in facts.splitlines() if re.search(verbs, line)]

    def test_files_are_those_whose_path_cannot_be_mistaken(self) -> None:
        two = r'Save as "C:\My files\a b.txt", then D:\x.txt. See https://a.b/c and \\srv\share\y'
        for task, paths in (
            ("Write hello", ""),
            (two, r"C:\My files\a b.txt|D:\x.txt"),
            ('Copy "C:/x y.txt" into the folder \\\\srv\\share', "C:/x y.txt"),
            (r"Save C:\a.txt as D:\b.txt and close it", r"C:\a.txt|D:\b.txt"),
            (r"Save it as C:\a.txt, then open notes.txt", r"C:\a.txt"),
            (r"Save C:\a.txt and e.g. wait", r"C:\a.txt"),
        ):
            wanted = [f"{path} does not exist." for path in paths.split("|") if path]
            self.assertEqual(self.told(task), wanted, task)
        for path in (
            r"C:\Users\John Smith\Desktop\note.txt",
            r"C:\Users\J. Smith\note.txt",
            r"C:\v1.2 files\note.txt",
        ):
            self.assertEqual(self.told(f"Save it as {path}, then go on"), [], path)
            self.assertEqual(self.told(f'Save it as "{path}".'), [f"{path} does not exist."])

    def test_a_path_ends_where_it_certainly_does_and_what_may_go_on_is_none(self) -> None:
        for row in ENDS_OF_PATHS.strip().splitlines():
            task, _, path = row.partition(" => ")
            with self.subTest(task):
                self.assertEqual(self.told(task), [f"{path} does not exist."] if path else [])

    def test_what_a_pipe_holds_is_not_known_a_code_pages_text_is_and_no_sign_is_cut(self) -> None:
        path = self.folder / "a.txt"
        for form in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"):
            path.write_bytes("Grüße".encode(form))
            self.assertTrue(self.told(f"Open {path}")[0].endswith('it holds "Grüße".'), form)
        path.write_bytes("é".encode() * 500)
        self.assertTrue(self.told(f"Open {path}")[0].endswith('it begins "' + "é" * 200 + '".'))
        if hasattr(os, "mkfifo"):
            pipe = self.folder / "pipe.txt"
            os.mkfifo(pipe)
            self.assertNotIn("it begins", self.told(f"Open {pipe}")[0])

    def test_a_path_that_may_lead_to_another_machine_is_not_even_asked_for(self) -> None:
        """Windows takes any two slashes at the front for the name of a machine."""
        for front in ("\\\\", "//", "\\/", "/\\"):
            asked: list[str] = []
            with (
                mock.patch.object(os.path, "expandvars", lambda path, f=front: f"{f}srv/a.txt"),
                self.stat(lambda path, asked=asked: asked.append(path)),
            ):
                path = r"%SHARE%\a.txt"
                self.assertEqual(self.told(f"Save it as {path}"), [f"{path} cannot be looked at."])
            self.assertEqual([path for path in asked if "srv" in path], [])

    def test_a_drive_that_never_answers_holds_nothing_up(self) -> None:
        gate = threading.Event()
        self.addCleanup(gate.set)
        far = self.stat(lambda path: "far.txt" in path and gate.wait(60))
        with far, little_patience():
            outcome = self.judged(r"Save it as Z:\far.txt", "All is saved.")
        self.assertEqual(outcome.kind, "completed")
        self.assertIn(r"Z:\far.txt cannot be looked at.", self.asked("verifier")[0])

    def stat(self, heard: Callable[[str], object]) -> Any:
        """Whoever asks for a file is heard first."""
        stat = Path.stat
        asked = lambda path, **more: (heard(str(path)), stat(path, **more))[1]  # noqa: E731
        return mock.patch.object(Path, "stat", asked)

    def test_secrets_in_a_file_are_hidden_and_no_part_of_one_is_left_where_it_is_cut(self) -> None:
        path = self.folder / "note.txt"
        self.hide = agent.Secrets({"PIN": "4711-4711"}).hide
        for held, told in (("the code is ", "the code is {{PIN}}"), ("x" * 195, "x{{PIN")):
            path.write_text(f"{held}4711-4711 and so on", encoding="utf-8")
            self.judged(f"Look into {path}", "It is saved")
            said = self.asked("verifier")[0]
            self.assertIn(told, said)
            self.assertNotIn("4711", said)


class Clipboard(Judged):
    def told(self, length: Any) -> str:
        """What the verifier is told on a desktop with so much on its clipboard."""

        class Copied(PlainDesktop):
            def clipboard_length(self) -> int | None:
                return length()  # type: ignore[no-any-return]

        self.desktop_type = Copied
        self.claims("1 YES: a\n2 YES: b", not_proven_most=1)
        return self.asked("verifier")[0]

    def test_the_verifier_is_told_how_much_text_it_holds_and_waits_for_no_program(self) -> None:
        self.assertIn("Characters of text on the clipboard: 11.", self.told(lambda: 11))
        self.assertNotIn("clipboard", self.told(lambda: None))
        gate = threading.Event()
        self.addCleanup(gate.set)
        with little_patience():
            self.assertNotIn("clipboard", self.told(lambda: gate.wait(60)))

    def test_windows_tells_the_length_and_it_is_closed_again_whatever_happens(self) -> None:
        stage = Stage()
        self.assertEqual(stage.desktop.clipboard_length(), 0)
        stage.world.clipboard = "secret"
        self.assertEqual(stage.desktop.clipboard_length(), 6)
        for refused, closed in (("GetClipboardData", 1), ("GlobalLock", 1), ("OpenClipboard", 0)):
            stage.world.arm(names={refused})
            self.assertIsNone(stage.desktop.clipboard_length())
            self.assertEqual(stage.world.calls.count("CloseClipboard"), closed, refused)
        stage.world.window = owner = replace(Foreground(), hung=True)
        stage.world.clipboard_owner = owner.handle
        stage.world.calls.clear()
        self.assertIsNone(stage.desktop.clipboard_length())
        self.assertNotIn("OpenClipboard", stage.world.calls)


class RealChecks(EngineCase):
    """What of a planner's or an examiner's words is a check."""

    def checks(self, *said: str) -> list[str]:
        plan = call("update_execution_plan", instructions="Go on.", done_when=[*said])
        trial = self.trial(lambda r: plan if role_of(r) == "planner" else text(""), max_steps=1)
        trial.state.task = "Open Notepad and type hello"
        trial.run()
        return [*trial.state.done_when]

    def test_what_tells_nothing_of_the_task_or_the_screen_is_none(self) -> None:
        for said in (
            "CURRENT_TURN: 2",
            "LAST_ACTION_RESULT: worked or failed",
            "Notepad open",
            "what proves the whole task done",
            "The task is completed successfully.",
            "  ",
        ):
            self.assertEqual(self.checks(said), [], said)
        for said in (
            'Notepad shows "hello"',
            "The text is in a window.",
            "the goal type is hello",  # words of the prompt, and of the task
            "The two options are set as asked",
            r"C:\out\note.txt exists now",
            r"C:\out\note.txt exists",
            "记事本显示“你好”",  # which has no blanks
        ):
            self.assertEqual(self.checks(said), [said])

    def test_the_numbers_and_dots_of_a_models_own_list_are_no_part_of_its_checks(self) -> None:
        first, second = 'Notepad shows "hello"', "2 windows are open: a and b"
        for said in (
            (f"1. {first}", f"2. {second}"),
            (f"1) {first}\n2) {second}",),
            (f"- {first}\n- {second}\n",),
            (f" * {first}", f"2: {second}"),
            (f"1. {first}\n\n2. {second}\n\n",),
        ):
            self.assertEqual(self.checks(*said), [first, second], said)
        house = "10. Downing Street is shown in the title"
        self.assertEqual(self.checks(house), [house])

    def test_one_sentence_of_an_examiner_is_a_check_and_an_answer_is_none(self) -> None:
        for said, wanted in (
            ("Notepad shows the word hello.", ["Notepad shows the word hello."]),
            ("1. Notepad is open.\n2. It shows hello.", ["Notepad is open.", "It shows hello."]),
            ("YES: Notepad shows hello.", ["Press the button"]),
            ("I think so.\nNotepad shows hello.", ["Press the button"]),
        ):
            says = {"examiner": said, "verifier": "1 NO: no"}
            trial = self.trial(
                lambda r, says=says: text(says[role_of(r)]) if role_of(r) != "executor" else DONE,
                "native",
                max_steps=1,
                executor_grammar="tools",
            )
            trial.run()
            self.assertEqual(trial.state.done_when, wanted)
