"""How a run ends that somebody said no to, or in which nothing was done: words alone prove nothing then."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import unittest
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import agent
from tests.scripted import PROOF, EngineCase, call, qwen, role_of, text, user_text
from tests.seams import person_at_main, person_says, person_there
from tests.servers import Answering, reply
from tests.test_main import CommandLineCase
from tests.test_report import run_of

CLICK = call("click_screen_element", element_name="Button", position=[500, 500])
DELETE = call("click_screen_element", element_name="Delete", position=[500, 500])
CLOSE = call("press_keyboard_key", key="alt+f4")
DONE = call("report_mission_complete", evidence=PROOF)
REFUSED = "Alt+F4 in Plain"


class SaysYes:
    """What a model says that believes everything; the acts may be called for, so that something happens."""

    def __init__(self, acts: tuple[Any, ...], checks: tuple[str, ...], wants: str = "DEED") -> None:
        self.acts, self.checks, self.wants = list(acts), checks, wants

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        who = role_of(request)
        if who == "examiner":
            return text(self.wants)
        if who == "verifier":
            lines = [f"{number} YES: it is" for number, _ in enumerate(self.checks, 1)]
            return text("\n".join(lines))
        if who == "executor":
            act = self.acts.pop(0) if self.acts else DONE
            return dict(act() if callable(act) else act)
        given = {"instructions": "Do it.", "reasoning": "first", "done_when": [*self.checks]}
        return call("update_execution_plan", **given)


class Ends(EngineCase):
    def ends(
        self,
        *acts: Any,
        task: str = "Close it",
        checks: tuple[str, ...] = ("It is closed.",),
        wants: str = "DEED",
        person: bool | None = None,
        shows: Callable[[Any], object] = lambda desktop: None,
        **settings: Any,
    ) -> agent.Outcome:
        """The end of these acts and a claim; no act is allowed, and the person says this of the end."""
        self.asked: list[str] = []
        self.made = self.trial(SaysYes(acts, checks, wants), **settings)
        self.made.server.deeds = False
        self.made.ask(lambda question: False)
        self.made.engine.actuator.person.vouches = lambda question: (
            self.asked.append(question) or person
        )
        shows(self.made.desktop)
        self.made.state.task = task
        self.begin(self.made, task)
        return self.made.run()

    def test_without_a_fact_and_a_person_it_is_not_proven(self) -> None:
        outcome = self.ends(CLICK, CLOSE)
        self.assertEqual(outcome[:2], ("not_proven", f"nobody allowed {REFUSED}"))
        outcome = self.ends(DELETE, CLOSE, CLOSE)
        refused = f'click "Delete" in Plain; {REFUSED}'
        self.assertEqual(outcome[:2], ("not_proven", f"nobody allowed {refused}"))
        self.assertEqual(self.ends(CLICK).kind, "completed")  # nothing was refused

    def test_the_person_has_the_last_word_and_is_asked_once(self) -> None:
        question = f"You did not allow {REFUSED}. Is the task done all the same?"
        for person, kind in ((True, "completed"), (False, "not_proven")):
            outcome = self.ends(CLICK, CLOSE, CLOSE, person=person)
            self.assertEqual((outcome.kind, self.asked), (kind, [question]))
            self.assertIn("You say" if person else "You did not say", outcome.text)

    def test_a_last_look_of_a_run_that_gave_up_is_worth_no_more(self) -> None:
        stuck = {"max_steps": 2, "last_look": True}
        self.assertEqual(self.ends(CLICK, CLOSE, CLOSE, **stuck).kind, "not_proven")
        self.assertEqual(self.ends(CLICK, CLICK, CLOSE, **stuck).kind, "completed")

    def test_no_yes_is_believed_of_a_text_that_nobody_typed_and_windows_shows_nowhere(self) -> None:
        types = call("type_text_input", text="hello")
        key = call("press_keyboard_key", key="h")
        told = "Open it and type hello", "It is open and 'hello' is typed in."
        for task, check, acts, kind in (
            (*told, [CLICK], "not_proven"),
            ("Schreib hello hinein", "The window has the text „hello“.", [CLICK], "not_proven"),
            (*told, [CLICK, types], "completed"),
            (*told, [CLICK, key], "completed"),
            ("Open it", "It shows 'hello'.", [CLICK], "completed"),  # which nobody was to type
            ("Type Plain", "'Plain' is typed in.", [CLICK], "completed"),  # the window's title
        ):
            with self.subTest(task, acts=acts):
                self.assertEqual(self.ends(*acts, task=task, checks=(check,)).kind, kind)
                stuck = {"max_steps": len(acts), "last_look": True}
                ended = self.ends(*acts, task=task, checks=(check,), **stuck)
                self.assertEqual(ended.kind == "completed", kind == "completed")

    def test_so_it_is_of_what_the_task_alone_says_to_type_where_windows_tells_what_fields_hold(
        self,
    ) -> None:
        for value, task, kind in (
            ("", "Open it and write hi", "not_proven"),
            ("hi", "Open it and write hi", "completed"),
            (None, "Open it and write hi", "completed"),  # nobody knows
            ("", "Open hi", "completed"),
        ):
            page = agent.Control("Page", "document", agent.Rect(1, 1, 9, 9), value=value, window=1)

            def shows(desktop: Any, page: agent.Control = page) -> None:
                desktop.control_source = agent.KnownControls([page])

            ended = self.ends(CLICK, task=task, checks=("Plain shows hi",), shows=shows)
            self.assertEqual(ended.kind, kind, (value, task))

    def test_a_text_that_a_task_certainly_bids_has_to_be_typed_or_shown(self) -> None:
        """Rows: the task, what is typed (None: a click on a list), what the field shows, the end."""
        colon, exactly = "Open it and write: hello", 'Write exactly "hello"'
        for task, typed, value, kind in (
            (colon, "goodbye", "goodbye", "not_proven"),
            (colon, "hello", "hello", "completed"),
            (colon, "Well, hello there", "Well, hello there", "not_proven"),
            (colon, "hello", "What was there: hello", "completed"),
            (colon, "hello", "", "completed"),  # it was sent
            (exactly, "hello hello hello", "hello hello hello", "not_proven"),
            (exactly, "hello", "hello", "completed"),
            ('Write "hello"', "goodbye", "goodbye", "not_proven"),
            ('Write "hello"', "hello hello", "hello hello", "completed"),
            ('Write "hello"', "bye", "Hello, bye", "completed"),
            ('Write "1 March 2026"', "01.03.2026", "01.03.2026", "completed"),
            ('Do not write "hello"', "bye", "bye", "completed"),
            ("Write hello", "bye", "bye", "completed"),  # where does it end?
            ('Enter "hello" as the city', None, "", "completed"),
        ):
            page = agent.Control("Page", "document", agent.Rect(1, 1, 9, 9), value=value, window=1)

            def shows(desktop: Any, page: agent.Control = page) -> None:
                desktop.control_source = agent.KnownControls([page])

            act = call("click_screen_element", element_name="hello", position=[500, 500])
            if typed:
                act = call("type_text_input", text=typed)
            ended = self.ends(CLICK, act, task=task, checks=("All is well",), shows=shows)
            self.assertEqual(ended.kind, kind, (task, typed, value))

    def test_what_changed_nothing_is_nothing_done(self) -> None:
        """Rows: the task, the keys, and the end where they change nothing that can be seen."""
        text = "nothing that was done changed what can be seen"
        still = partial(self.ends, shows=lambda desktop: setattr(desktop, "dead", True))
        for task, keys, kind in (
            ("Write a letter to Anna and mail it", "shift", "not_proven"),
            ("Write the word more into Notepad", "ctrl+end", "not_proven"),
            ("Copy the text", "ctrl+c", "completed"),
            ("Mail it to Anna", "ctrl+c", "not_proven"),
            ("Mute it", "volumemute", "completed"),
            ("Go on with the music", "mediaplay", "completed"),
            ("Press Strg + F5", "ctrl+f5", "completed"),
            ("Save the document", "ctrl+s", "completed"),
        ):
            with self.subTest(task):
                act = call("press_keyboard_key", key=keys)
                ended = still(act, task=task)
                self.assertEqual(ended.kind, kind)
                self.assertEqual(ended.text == text, kind == "not_proven", ended.text)
        self.assertEqual(still(CLICK, task="Tidy up").kind, "not_proven")
        question = "Nothing that was done changed what can be seen in this run."
        self.assertEqual(still(CLICK, task="Tidy up", person=True).kind, "completed")
        self.assertEqual(self.asked, [f"{question} Is the task done all the same?"])
        self.assertEqual(still(CLICK, task="What is open?", wants="ANSWER").kind, "answered")

    def test_what_comes_of_an_act_after_its_screen_was_at_rest_is_seen_all_the_same(self) -> None:
        def later() -> dict[str, Any]:
            self.made.desktop.dead = False
            return DONE

        still = partial(self.ends, shows=lambda desktop: setattr(desktop, "dead", True))
        self.assertEqual(still(CLICK, later, task="Tidy up").kind, "completed")
        self.assertEqual(still(CLICK, task="Tidy up").kind, "not_proven")

    def test_the_end_says_what_proves_it_and_whose_words_the_rest_is(self) -> None:
        look = "by the model's own fresh look, which no fact contradicts. The model says: "
        outcome = self.ends(CLICK)
        self.assertEqual(outcome.text, f"Confirmed {look}{PROOF}")
        path = Path(self.folder, "a.txt")
        path.write_text("hello")
        holds = f'{path} holds "hello".'
        outcome = self.ends(CLICK, checks=(holds, "It is closed."))
        self.assertEqual(outcome.text, f"Confirmed 1 of 2 checks by files, else {look}{PROOF}")
        outcome = self.ends(CLICK, checks=(holds,))
        self.assertEqual(outcome.text, f"Proven by files. The model says: {PROOF}")
        outcome = self.ends(CLICK, verify_completion=False)
        self.assertEqual(outcome.text, f"Not checked. The model says: {PROOF}")

    def test_a_dry_run_has_an_end_of_its_own(self) -> None:
        outcome = self.ends(CLICK, dry_run=True)
        self.assertEqual(outcome, ("dry_run", f"The model says: {PROOF}", ()))

    def test_who_thinks_better_of_it_has_refused_nothing(self) -> None:
        self.ends(CLICK, CLOSE)
        actuator, close = self.made.engine.actuator, self.act("press_key", key="alt+f4")
        self.assertEqual(actuator.refusals, [REFUSED])
        self.made.ask(lambda question: True)
        actuator.perform(close, self.made.look(9).frame)
        self.assertEqual(self.made.state.refusals, [])

    def act(self, name: str, **arguments: Any) -> agent.Act:
        return agent.Vocabulary({name: name}).parse(agent.ToolCall(name, arguments))

    def test_the_verifier_is_told_and_the_journal_keeps_it(self) -> None:
        self.ends(CLICK, CLOSE)
        asked = [user_text(one) for one in self.made.requests if role_of(one) == "verifier"]
        self.assertIn(f"Not allowed, and not done: {REFUSED}.", asked[0])
        self.assertEqual(self.made.records("state")[-1]["refusals"], [REFUSED])

    def test_what_was_done_by_nobody_is_not_done(self) -> None:
        self.assertEqual(self.ends()[:2], ("not_proven", "nothing was done"))
        question = "Nothing was done in this run. Is the task done all the same?"
        self.assertEqual(self.ends(person=True).kind, "completed")
        self.assertEqual(self.asked, [question])
        # Who says yes to everything says it here, too; and what is not to be checked is not.
        self.assertEqual(self.ends(wants="1 YES: it does").kind, "not_proven")
        self.assertEqual(self.ends(wants="ANSWER or DEED").kind, "not_proven")
        self.assertEqual(self.ends(verify_completion=False).kind, "completed")

    def test_a_screen_that_is_locked_in_the_end_proves_nothing(self) -> None:
        def lock(_: Any) -> None:
            look = self.made.engine.eyes.look

            def locked(name: str = "") -> agent.Look:
                if name.endswith("_facts"):
                    raise agent.Win32Error("The desktop is locked.")
                return look(name)

            self.made.engine.eyes.look = locked

        outcome = self.ends(CLICK, CLOSE, shows=lock)
        self.assertEqual(outcome[:2], ("not_proven", f"nobody allowed {REFUSED}"))

    def test_what_was_refused_in_a_turn_without_its_record_is_known_when_it_is_resumed(
        self,
    ) -> None:
        self.ends(CLICK)
        state = self.made.state
        state.take(agent.EndRecord(outcome="stopped", refusals=[REFUSED]))
        self.assertEqual(state.refusals, [REFUSED])
        state.take(agent.RECORDS["resume"](task="Another one"))
        self.assertEqual(state.refusals, [])

    def test_a_server_that_is_gone_when_its_last_word_is_wanted_changes_no_end(self) -> None:
        class Gone(SaysYes):
            def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
                if role_of(request) == "examiner":
                    raise agent.ModelError("The server has too little memory.", "memory")
                return super().__call__(request)

        trial = self.trial(Gone((), ("It is open.",)))
        trial.server.deeds = False
        trial.engine.actuator.person.vouches = lambda question: True
        self.begin(trial, "What is open?")
        outcome = trial.run()
        self.assertEqual(outcome.kind, "completed")
        self.assertIn("You say that it is done", outcome.text)

    def test_what_is_done_again_without_a_model_asks_none_in_the_end_either(self) -> None:
        def acts_end(run: Any) -> Any:
            raise agent.End(agent.Outcome("not_proven", "Nobody looked."))

        for name, asked in (
            ("none", 0),
            ("scripted", 4),
        ):  # as where none answers, and where one does
            trial = self.trial(SaysYes((), ("It is open.",)))
            trial.choose(agent.ModelInfo(name))
            trial.state.done_when = ["It is open."]
            trial.state.touched = 1
            outcome = agent.run_agent(trial.engine, acts_end)
            self.assertEqual(len(trial.requests), asked)
            self.assertEqual(outcome.text == "Nobody looked.", name == "none")

    def test_a_question_is_answered_with_nothing_done_but_not_over_a_no(self) -> None:
        for wants in ("ANSWER", "1. An answer."):
            self.assertEqual(self.ends(task="What is open?", wants=wants).kind, "answered")
        self.assertEqual(self.asked, [])
        self.assertEqual(self.ends(CLOSE, wants="ANSWER").kind, "not_proven")

    def test_a_file_that_says_so_is_enough(self) -> None:
        path = Path(self.folder, "a.txt")
        for written, kind in (("hello", "completed"), ("hullo", "not_proven")):
            path.unlink(missing_ok=True)

            def save(written: str = written) -> dict[str, Any]:
                path.write_text(written)
                return CLICK

            checks = (f'{path} holds "hello".', "It is closed.")
            said = {"task": f"Save it as {path} and close it", "checks": checks}
            self.assertEqual(self.ends(save, CLOSE, **said).kind, kind, written)

    def test_windows_and_fields_that_say_so_are_enough_if_every_check_is_about_one(self) -> None:
        task = 'Write "Olten" into City of "Plain form" and send it'
        city = agent.Control("City:", "edit", agent.Rect(1, 1, 9, 9), value="Olten", window=1)

        def shows(desktop: Any) -> None:
            desktop.title = "Plain form"
            desktop.control_source = agent.KnownControls([city])

        for checks, kind in (
            (('The City field holds "Olten".',), "completed"),
            (('The window title is "Plain form"', 'City says "olten"'), "completed"),
            (('A window titled "Plain form" is open.',), "completed"),
            (('The Street field holds "Olten".',), "not_proven"),
            (('The City field does not hold "Olten".',), "not_proven"),
            (('The window "Plain form" is closed.',), "not_proven"),
            (('The City field holds "Olten".', "The form is sent."), "not_proven"),
            (('The City field holds "Olte".',), "not_proven"),
        ):
            with self.subTest(checks):
                self.assertEqual(self.ends(CLOSE, task=task, checks=checks, shows=shows).kind, kind)
        # What the task does not name may be there for any reason.
        checks = ('The window title is "Plain form"',)
        self.assertEqual(self.ends(CLOSE, checks=checks, shows=shows).kind, "not_proven")


class Model(Answering):
    name = "qwen3-vl-2b-instruct"

    def __init__(self, decide: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        super().__init__()
        self.decide = decide

    def respond(self, path: str, body: bytes) -> tuple[int, bytes]:
        if not body:
            return 200, json.dumps({"data": [{"id": self.name}]}).encode()
        said = reply()
        said["choices"][0]["message"] = self.decide(json.loads(body))
        return 200, json.dumps(said).encode()


class Told(CommandLineCase):
    """What the person reads in the end."""

    def told(self, *acts: Any, wants: str = "DEED", stdin: Any = b"") -> tuple[int, str]:
        decide = SaysYes(acts, ("It is done.",), wants)
        with self.drawn(), Model(decide) as server:
            code, out, _ = self.main("Tidy up", "--endpoint", server.url, stdin=stdin)
        return code, out[out.rindex("Mission complete") :].partition("\n")[2]

    def test_a_next_task_of_the_same_words_is_told_from_one_that_goes_on(self) -> None:
        answers = ["Tidy up", "Tidy up", ""]

        def says(_: Any, question: str, *words: Any) -> str:
            return answers.pop(0) if question.startswith(("Task", "Anything else")) else "n"

        decide = SaysYes((CLICK,), ("It is done.",))
        with self.drawn(), Model(decide) as server, person_there(), person_says(says):
            self.main("--endpoint", server.url)
        begun = [one for one in self.records() if one["kind"] in ("run", "resume")]
        told = [(one["kind"], one["task"], one.get("is_next")) for one in begun]
        self.assertEqual(told, [("run", "Tidy up", None), ("resume", "Tidy up", True)])

    def test_who_resumes_a_run_without_turns_as_it_says_has_as_many_again(self) -> None:
        with self.drawn(), Model(SaysYes((CLICK,) * 9, ("It is done.",))) as server:
            words = ("--endpoint", server.url, "--set", "last_look=false")
            _, out, _ = self.main("Tidy up", *words, "--max-steps", "2")
            said = re.search(r" To go on: python agent\.py (.+)\n", out)
            assert said
            self.main(*said[1].split(), *words)
        turns = {one["turn"] for one in self.records() if one["kind"] == "action"}
        self.assertEqual(len(turns), 4)

    def test_a_run_with_a_refusal_is_never_plainly_completed(self) -> None:
        code, out = self.told(CLICK, DELETE)
        lines = r'not proven: nobody allowed click "Delete" in Desktop\n  not allowed: click "Dele'
        self.assertRegex(out, f"^{lines}")
        self.assertEqual((code, self.records()[-1]["refusals"]), (1, ['click "Delete" in Desktop']))
        _, out, _ = self.main("--runs")
        self.assertIn("Tidy up (1 act not allowed)", " ".join(out.split()))

        def types(out: str) -> str | None:
            if out.endswith("the next task, or press Enter to end.\n"):
                return ""
            if not out.endswith(" s does not.\n"):
                return None
            return "y" if "all the same" in out else "n"

        with person_at_main(types) as keyboard:
            code, out = self.told(CLICK, DELETE, stdin=keyboard)
            keyboard.end()
        self.assertIn("Is the task done all the same?\n", out)
        self.assertIn("\ncompleted, but not all was allowed: You say that it is done.", out)
        self.assertIn('\n  not allowed: click "Delete" in Desktop\n', out)
        self.assertEqual(code, 0)

    def test_a_model_made_for_screens_has_the_profile_that_fits_unless_one_is_chosen(self) -> None:
        native = "GUI-Owl-1.5-2B-Instruct is asked in the grammar gui-owl-1.5 by profile native."
        done = SaysYes((qwen("terminate", "It is done", status="success"),), ("It is done.",))
        for number, words in enumerate(([], ["--profile", "planner"]), 1):
            with self.drawn(), Model(done) as server:
                server.name = "GUI-Owl-1.5-2B-Instruct"
                _, out, _ = self.main(
                    "Tidy up", "--max-steps", "1", "--endpoint", server.url, *words
                )
            self.assertEqual(native in out, number == 1, out)
            profile = self.records(number)[0]["profile"]
            self.assertEqual(profile, "native" if number == 1 else "planner")

    def test_a_run_that_was_stopped_names_how_to_go_on(self) -> None:
        def stop() -> dict[str, Any]:
            os.kill(os.getpid(), signal.SIGINT)
            return CLICK

        with self.drawn(), Model(SaysYes((stop,), ("It is done.",))) as server:
            code, out, _ = self.main("Tidy up", "--endpoint", server.url)
        self.assertEqual(code, 130)
        self.assertIn("\nstopped: Ctrl+C. To go on: python agent.py --resume 0001\n", out)

    def test_no_report_is_named_that_is_none(self) -> None:
        def spoil() -> dict[str, Any]:
            (self.run_folder() / "report.html").mkdir()
            return CLICK

        _, out = self.told(spoil)
        self.assertRegex(
            out, r"act, 0 refused, [\d.]+ s; .*report.html cannot be written: is no ord"
        )
        self.assertNotIn("see ", out)

    def test_claims_that_nothing_confirmed_are_counted_beside_the_acts(self) -> None:
        for profile, acts, told in (
            ("planner", (), r"\n5 turns, 5 plans, 0 acts, 0 refused, 5 claims not proven, "),
            ("planner", (CLICK,), r"\n2 turns, 1 plan, 1 act, 0 refused, \d"),
        ):
            shutil.rmtree(self.folder / "dumps", ignore_errors=True)

            def says(request: dict[str, Any], acts: tuple[Any, ...] = acts) -> Any:
                if role_of(request) == "verifier" and not acts:
                    return text("1 NO: it is not")
                return self.model(request)

            self.model = SaysYes(acts, ("It is done.",))
            with self.drawn(), Model(says) as server:
                _, out, _ = self.main("Tidy up", "--endpoint", server.url, "--profile", profile)
            self.assertRegex(out, told)

    def test_turns_are_those_of_max_steps(self) -> None:
        with self.drawn(), Model(SaysYes((CLICK,) * 9, ("It is done.",))) as server:
            _, out, _ = self.main(
                "Tidy up", "--endpoint", server.url, "--max-steps", "3", "--set", "last_look=false"
            )
        self.assertIn("Not completed within 3 turns.", out)
        self.assertRegex(out, r"\n3 turns, 1 plan, \d acts, ")

    def test_nothing_and_last_mean_the_latest_run(self) -> None:
        self.told(CLICK)
        self.told(CLICK, DELETE)
        for words in (("--stats",), ("--stats", "last"), ("--stats", "2")):
            first, *rows = self.main(*words)[1].splitlines()
            self.assertIn("run_0002: not_proven", first)
            figures = [row for row in rows if "not told" not in row]
            self.assertEqual({len(row) for row in figures}, {43}, "they stand in a column")
        for words in (("--report",), ("--report", "last")):
            self.assertIn("run_0002", self.main(*words)[1])
        target = str(self.folder / "one.html")
        self.assertIn("one.html", self.main("--report", "last", target)[1])
        for words in (("--replay",), ("--replay", "last")):
            with self.drawn():
                self.assertIn("Dry run of 1 act.", self.main(*words, "--dry-run")[1])

    def test_what_was_only_asked_is_answered(self) -> None:
        code, out = self.told(wants="ANSWER")
        self.assertRegex(out, f"answered; nothing was done: Confirmed .* The model says: {PROOF}")
        self.assertEqual((code, self.records()[-1]["outcome"]), (0, "answered"))
        report = (self.run_folder() / "report.html").read_text(encoding="utf-8")
        self.assertEqual(run_of(report)["tone"], "good")
        code, _, err = self.main("--resume")
        self.assertIn("run_0001 was answered; give it a next task with --task.", err)
        code, out = self.told()
        self.assertTrue(out.startswith("not proven: nothing was done\n"), out)
        self.assertEqual(code, 1)


if __name__ == "__main__":
    unittest.main()
