"""The journal after an end of any kind: reading it, going on from it, and keeping old runs to a number and a size."""

from __future__ import annotations

import builtins
import contextlib
import errno
import functools
import io
import itertools
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests import seams, starting
from tests.long.faults import sweep
from tests.long.kill import trial
from tests.samples import for_the_gate, sample, some
from tests.scripted import PLAN, PROOF, EngineCase, Trial, call, role_of, text, user_text
from tests.test_main import CommandLineCase, copy_folder

# What a process knows of its own screens and acts alone; the files are those of the run's beginning.
UNKEPT = {"began", "filled", "files", "idle", "screens", "tried", "last", "objected", "replaced"}


def facts(state: agent.Progress) -> dict[str, Any]:
    """Everything that a state is made of, but for UNKEPT."""
    memory = state.memory
    kept = {
        **{name: value for name, value in vars(state).items() if name not in UNKEPT},
        "memory": None,
        "time": 0.0,
        "history": [replace(record, time=0.0) for record in memory.active_history],
        "snapshots": [replace(snapshot, time=0.0) for snapshot in memory.all_snapshots],
    }
    return json.loads(json.dumps(kept, default=lambda value: value.__dict__))


class Journals(EngineCase):
    """A scripted run of many turns, cut off at every line of its journal."""

    def long_run(self) -> tuple[Trial, list[tuple[int, dict[str, Any]]]]:
        """The trial, and after each turn the number of journal lines and what the state was."""
        places, seen = itertools.count(), []

        def decide(request: dict[str, Any]) -> Any:
            if role_of(request) == "planner":
                return PLAN
            number = next(places)
            click = call("click_screen_element", element_name="x", position=[number % 900, 7])
            return click if number % 4 else text("?")

        trial = self.trial(decide, max_steps=20, review_interval=4, memory_compression_threshold=8)

        def noted(item: agent.Event) -> None:
            if getattr(item, "kind", "") == "state":
                lines = (trial.folder / "turns.jsonl").read_text().count("\n")
                seen.append((lines, facts(trial.state)))

        trial.listen(noted)
        trial.run()
        self.lines_of_run = (trial.folder / "turns.jsonl").read_text().splitlines(keepends=True)
        return trial, seen

    def resumed(self, lines: list[str], torn: str = "") -> tuple[agent.Progress, list[str], Path]:
        """The state with which a journal of these lines would go on, what is said, and its folder."""
        copies = self.folder / "copies"
        copy = copies / f"run_{len(list(copies.glob('*'))) + 1:04d}"
        copy.mkdir(parents=True)
        (copy / "turns.jsonl").write_text("".join(lines) + torn, encoding="utf-8")
        self.again = self.trial(lambda r: PLAN, old=copy)
        self.again.resume()
        return self.again.state, self.lines, copy

    def test_cut_off_anywhere_it_goes_on_with_what_it_had_and_after_its_last_act(self) -> None:
        _, seen = self.long_run()
        lines = self.lines_of_run
        self.assertGreater(len(seen), 20)
        self.assertTrue(any(state["snapshots"] for _, state in seen))
        for count, state in some(seen, 4):
            self.assertEqual(facts(self.resumed(lines[:count])[0]), state)
        for count in range(1, len(lines), sample(5, 20)):
            entries = [json.loads(line) for line in lines[:count]]
            intents = [entry["turn"] for entry in entries if entry["kind"] == "intent"]
            cut, _, copy = self.resumed(lines[:count], lines[count][: len(lines[count]) // 2])
            self.assertEqual(agent.read_journal(copy).damaged, [])  # the torn end is gone
            archived = [turn for snapshot in cut.memory.all_snapshots for turn in snapshot.turns]
            remembered = archived + [record.turn for record in cut.memory.active_history]
            self.assertEqual(len(remembered), len(set(remembered)))
            self.assertLessEqual(set(intents), set(remembered))
            self.assertEqual(cut.turn, max(entry.get("turn") or 0 for entry in entries))

    def test_an_act_without_a_result_is_unknown_to_memory_journal_and_model(self) -> None:
        args = {"element_name": "Run...", "position": {"x": 16, "y": 972}, "reasoning": "there"}
        intent = {"kind": "intent", "turn": 3, "tool": "click", "args": args}
        state, _, copy = self.resumed([json.dumps(intent) + "\n"])
        record = state.memory.get_last_action_for_validation()
        self.assertEqual((record.turn, record.tool, record.changed), (3, "click", None))
        self.assertRegex(record.result, "^Unknown: the program ended.*look before doing it again")
        self.assertEqual(agent.read_journal(copy).records[-1].result, record.result)
        with contextlib.suppress(agent.AgentError):
            self.again.run()
        shown = user_text(self.again.requests[0])  # as acts are, and not as JSON
        self.assertIn('Turn_3: click "Run..." (16, 972) -> Unknown: the program ended', shown)

    def test_damaged_and_changed_lines_are_told_and_do_no_harm(self) -> None:
        _, seen = self.long_run()
        lines = self.lines_of_run
        odd = ("\x00\x00", "{}}", "[1]", "7", "", '{"kind": ', "[" * 5000)
        for damage in (f"{line}\n" for line in odd):
            state, said, _ = self.resumed([*lines[:6], damage, *lines[7:]])
            self.assertIn("Damaged lines left out: 7.", said[0])
            self.assertEqual(state.turn, seen[-1][1]["turn"])
        changed = """{"kind": "state"}|{"kind": "state", "turn": "x"}|{"kind": "action", "turn": 1}
            |{"kind": "intent"}|{"kind": "archive", "summary": 1}|{"kind": []}
            |{"turn": null, "kind": "plan"}|{"kind": "action", "a": 1}"""
        state, _, _ = self.resumed([f"{line.strip()}\n" for line in changed.split("|")])
        self.assertEqual((state.turn, state.mode), (1, "EXECUTION"))
        self.assertEqual([record.tool for record in state.memory.active_history], ["", ""])


class SameState(EngineCase):
    """That a resumed run behaves as the one that ended would have."""

    def again(self, trial: Trial) -> Trial:
        trial.close()
        again = self.trial(lambda request: PLAN, old=trial.folder)
        again.resume()
        return again

    def test_each_field_of_the_state_is_kept_or_known_not_to_be(self) -> None:
        kept = {spec.name for spec in fields(agent.RECORDS["state"])}
        own = {spec.name for spec in fields(agent.Progress)}
        # The task and its first turn stand in another record, the memory's actions in theirs; a wait that was
        # interrupted begins anew, since nobody waited meanwhile.
        why = "a field that a resumed run needs goes into StateRecord, another one into UNKEPT"
        self.assertEqual(own - kept - UNKEPT, {"task", "memory", "waiting_since", "first"}, why)

    def test_a_next_task_has_the_plan_of_the_one_before_and_none_of_its_checks(self) -> None:
        trial = self.trial(lambda request: PLAN)
        lines: list[dict[str, Any]] = [
            {"kind": "run", "task": "Save it as a.txt"},
            {"kind": "state", "turn": 1, "plan": "Save it.", "done_when": ["a.txt exists"]},
            {"kind": "resume", "task": "Save it as b.txt"},
        ]
        trial.write(*map(agent.from_json, lines))
        state = self.again(trial).state
        told = (state.task, state.plan, state.done_when)
        self.assertEqual(told, ("Save it as b.txt", "Save it.", []))

    def test_a_next_task_of_the_same_words_begins_anew_and_a_resumed_one_does_not(self) -> None:
        for is_next, told in ((True, (0, 0, [])), (False, (30, 7, ["a.txt exists"]))):
            trial = self.trial(lambda request: PLAN)
            lines: list[dict[str, Any]] = [
                {"kind": "run", "task": "Save it"},
                {"kind": "state", "turn": 30, "touched": 7, "done_when": ["a.txt exists"]},
                {"kind": "end", "turn": 30, "outcome": "max_steps"},
                {"kind": "resume", "task": "Save it", "is_next": is_next},
            ]
            trial.write(*map(agent.from_json, lines))
            state = self.again(trial).state
            self.assertEqual((state.steps, state.touched, state.done_when), told)

    def test_patience_begins_anew_after_an_end_and_not_where_the_program_was_killed(self) -> None:
        claim = call("report_mission_complete", evidence=PROOF)
        click = call("click_screen_element", element_name="x", position=[5, 5])
        for said, kind, settings in (
            (click, "stuck", {"stall_stop": 4}),
            (claim, "not_proven", {"not_proven_most": 3}),
        ):
            for is_told in (True, False):
                with self.subTest(kind, is_told=is_told):

                    def decide(request: dict[str, Any], said: Any = said) -> Any:
                        role = role_of(request)
                        return {"planner": PLAN, "verifier": text("1 NO: not yet")}.get(role, said)

                    trial = self.trial(decide, max_steps=90, **settings)
                    trial.desktop.dead = True
                    self.begin(trial, trial.state.task)
                    self.assertEqual(trial.run().kind, kind)
                    turns = trial.state.steps
                    if is_told:
                        trial.write(seams.record("end", outcome=kind))
                    trial.close()
                    again = self.trial(decide, old=trial.folder, max_steps=90, **settings)
                    again.desktop.dead = True
                    again.resume()
                    self.assertEqual(again.run().kind, kind)
                    self.assertEqual(again.state.steps - turns, turns if is_told else 1)

    def test_the_recovery_keys_are_not_pressed_again_and_the_first_picture_is_kept(self) -> None:
        click = call("click_screen_element", element_name="x", position=[5, 5])
        trial = self.trial(lambda r: PLAN if role_of(r) == "planner" else click, max_steps=9)
        trial.desktop.dead = True  # so that no act leads anywhere
        self.begin(trial)
        trial.run()
        path = trial.folder / "screenshots" / "turn_0000.png"
        before = path.stat().st_mtime_ns
        again = self.again(trial)
        self.assertTrue(again.state.recovered)
        again.run()
        self.assertEqual([entry["tool"] for entry in again.records("intent")].count("recover"), 1)
        self.assertEqual(path.stat().st_mtime_ns, before)

    def test_a_window_that_holds_typed_text_is_still_known(self) -> None:
        trial = self.trial(lambda request: PLAN)
        look = trial.look(1, "turn_0001")
        trial.engine.progress.filled = 77
        trial.perform(seams.act("wait", seconds=1), look, 1)
        self.assertEqual(
            (trial.engine.progress.filled, self.again(trial).engine.progress.filled), (77, 77)
        )


class CommandLine(CommandLineCase):
    @for_the_gate
    def test_a_run_that_ran_out_of_turns_is_resumed_and_completed_in_its_own_folder(self) -> None:
        self.recorded("--max-steps", "3", "--profile", "commander")
        code, out, _ = self.main("--demo", "--resume", "run_0001", "-v")
        self.assertEqual(code, 0, out)
        self.assertIn("Going on with run_0001 after turn 4.", out)
        self.assertEqual([path.name for path in (self.folder / "dumps").iterdir()], ["run_0001"])
        records = self.records()
        about = [r["kind"] for r in records if r["kind"] in ("run", "resume", "end")]
        self.assertEqual(about, ["run", "end", "resume", "end"])
        turns = [r["turn"] for r in records if r["kind"] in ("plan", "action")]
        self.assertEqual(turns, sorted(set(turns)))
        self.assertEqual({r["profile"] for r in records if "profile" in r}, {"commander"})
        acts = [r for r in records if r["kind"] == "result" and r["changed"] is not None]
        self.assertIn(f", {len(acts)} acts,", out.splitlines()[-1])  # of its whole life
        self.main("--demo", "--max-steps", "2")
        _, out, _ = self.main("--demo", "--resume", "--max-steps", "3")  # the latest is meant
        self.assertIn("Going on with run_0002 after turn 3.", out)

    def test_what_kept_a_run_from_harm_does_so_when_it_goes_on_unless_something_else_is_said(
        self,
    ) -> None:
        """But nothing is permitted because it was permitted then."""
        guards = {
            "area": "0,0,1200,720",
            "dry_run": True,
            "confirm": "always",
            "blocked_windows": "*bank*",
            "allowed_windows": "*; demo",
            "blocked_keys": "win+l; f9",
            "risky_words": "merge",
        }
        words = [part for item in guards.items() for part in ("--set", "{}={}".format(*item))]
        self.main("--demo", *words, "--set", "allow_risky=close")

        def goes_on(*said: str) -> dict[str, Any]:
            code, out, err = self.main("--demo", "--resume", *said)
            self.assertIn("Going on with run_0001", out, err)
            self.assertLess(code, 2, out)
            configs = [one["config"] for one in self.records() if one["kind"] == "resume"]
            config: dict[str, Any] = configs[-1]
            return config

        found = goes_on()
        self.assertEqual({name: found[name] for name in guards}, guards)
        self.assertEqual(found["allow_risky"], "")
        acted = [one for one in self.records() if one["kind"] == "result" and one.get("changed")]
        self.assertEqual(acted, [])
        settings = self.folder / "settings.json"
        settings.write_text('{"blocked_windows": "*bank*; *mail*"}', "utf-8")
        said = ("--confirm", "never", "--set", "risky_words=", "--area", "primary")
        found = goes_on("--config", str(settings), *said)
        self.assertEqual(found["blocked_windows"], "*bank*; *mail*")
        self.assertEqual((found["confirm"], found["area"]), ("never", "primary"))
        found = goes_on("--set", "dry_run=false")
        self.assertEqual((found["confirm"], found["dry_run"]), ("risky", False))
        self.assertEqual(found["blocked_windows"], "*bank*; *mail*")

    def test_a_run_that_typed_a_secret_goes_on_only_where_that_can_be_hidden(self) -> None:
        self.recorded("--max-steps", "3")
        typed = {"kind": "intent", "turn": 2, "time": 3, "tool": "type_text"}
        lines = (
            typed | {"args": {"text": "{{PIN}} and {{OTHER}}, {{PIN}}"}},
            {"kind": "secret", "turn": 2, "time": 3, "place": 1, "handle": 7},
        )
        with (self.run_folder() / "turns.jsonl").open("a", encoding="utf-8") as journal:
            journal.writelines(json.dumps(line) + "\n" for line in lines)
        code, _, err = self.main("--demo", "--resume")
        said = "run_0001 typed what has to stay hidden: give --secret PIN --secret OTHER again."
        self.assertEqual((code, err), (2, f"agent.py: {said}\n"))
        with mock.patch.dict(os.environ, {"PIN": "geheim42", "OTHER": "geheim43"}):
            code, out, _ = self.main("--demo", "--resume", "--secret", "PIN", "--secret", "OTHER")
        self.assertEqual(code, 0, out)


BEGIN = b'{"kind": "run", "time": 1, "turn": 0, "task": "a", "profile": "planner"}\n'
TURN = b'{"kind": "look", "time": 1, "turn": 1}\n'
END = b'{"kind": "end", "time": 2, "turn": 1, "outcome": "completed"}\n'
QUOTED = b'{"kind": "call", "time": 1, "turn": 1, "name": "x", "arguments": {"kind": "end"}}\n'
# Folders by their names: what their journals hold, whether nobody wrote there for a day, and whether they stay.
FOLDERS = (
    ("run_0001", BEGIN + TURN, False, True),  # another program may be at it
    ("run_0002", BEGIN + TURN + END, False, False),
    ("run_0003", BEGIN + END + TURN, True, False),
    ("run_0004", BEGIN + TURN + END + TURN, False, True),
    ("run_0005", BEGIN + QUOTED, False, True),
    ("run_0006", BEGIN, False, True),
    ("run_0007", BEGIN, True, False),
    ("run_8", b"", True, True),  # somebody else's
    ("run_9", b"accuracy 0.9\n", True, True),
    ("run_10", b'{"kind": "end"}\n', True, True),
    ("run_11", TURN + BEGIN, True, True),
    *((name, BEGIN, True, True) for name in ("RUN_0099", "run_0001x", "notes", "run_", "run_-1", "old_run_0001")),
)  # fmt: skip


class Housekeeping(CommandLineCase):
    def make(self, *names: str, size: int = 10, journal: bytes = BEGIN, old: bool = True) -> Path:
        """Folders of runs; an old one is no run that another program may be at."""
        root, long_ago = self.folder / "dumps", time.time() - (24 * 60 * 60 + 60) * old
        for run in (root / name for name in names):
            (run / "screenshots").mkdir(parents=True, exist_ok=True)
            (run / "screenshots" / "a.png").write_bytes(bytes(size))
            (run / "turns.jsonl").write_bytes(journal)
            os.utime(run / "turns.jsonl", (long_ago, long_ago))
        return root

    def real_run(self, *argv: str, task: str = "Open Notes", mb: int = 0) -> None:
        """A run of one turn that is no demo, on a drawn desktop, with this limit."""
        words = [*filter(None, [task]), "--max-steps", "1"]
        words += ["--set", f"keep_megabytes={mb}"]
        with self.drawn() as endpoint:
            code, _, err = self.main(*words, "--endpoint", endpoint, *argv)
        self.assertEqual((code, err), (1, ""))

    def left(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "dumps").iterdir())

    def test_runs_beyond_the_count_go_oldest_first_by_number_not_by_name(self) -> None:
        numbers = range(9_903, 10_002)
        self.make(*(f"run_{number}" for number in numbers))
        self.real_run()
        self.assertEqual(len(self.left()), 100)  # up to so many nothing goes
        self.real_run()
        self.real_run()
        self.assertEqual(len(self.left()), 100)
        gone = {f"run_{number}" for number in numbers} - {*self.left()}
        self.assertEqual(gone, {"run_9903", "run_9904"})

    def test_a_name_in_braces_that_has_no_value_is_told(self) -> None:
        words = ("--max-steps", "1", "--set", "keep_megabytes=0")
        with self.drawn() as endpoint:
            _, out, _ = self.main("Type {{PIN}}", "--endpoint", endpoint, *words)
        self.assertIn("warning: {{PIN}} has no value, which --secret PIN gives.", out)

    def test_runs_beyond_the_size_go_but_never_the_one_that_is_written(self) -> None:
        root = self.make("run_0001", "run_0002", "run_0003", size=700_000)
        self.real_run(mb=2)
        self.assertEqual(self.left(), ["run_0002", "run_0003", "run_0004"])
        (root / "run_0004" / "big").write_bytes(bytes(5_000_000))
        self.make("run_0004")
        self.real_run(mb=2)
        self.assertEqual(self.left(), ["run_0005"])

    def test_a_run_that_another_program_still_has_stays_though_its_task_is_over(self) -> None:
        """A server waits in it for the next call, or a prompt for the next task."""
        for over in (BEGIN + TURN + END, BEGIN):
            root = self.make("run_0001", "run_0002", size=1 << 20, journal=over)
            held = agent.ExecutionLogger(agent.Config(dump_dir=str(root)), old=root / "run_0001")
            self.make("run_0001", size=1 << 20, journal=over)  # for a day nobody wrote there
            self.real_run(mb=1)
            self.assertEqual(self.left()[0], "run_0001")
            self.assertNotIn("run_0002", self.left())
            held.close()
            self.real_run(mb=1)
            self.assertNotIn("run_0001", self.left())
            shutil.rmtree(root)

    def test_a_run_beyond_the_size_keeps_no_further_pictures(self) -> None:
        config = agent.Config(dump_dir=str(self.folder / "dumps"), keep_megabytes=1)
        logger = agent.ExecutionLogger(config)
        for number in range(4):
            logger.save_screenshot(f"turn_{number}", bytes(360_000))
        logger.close()
        kept = sorted(path.name for path in (logger.folder / "screenshots").iterdir())
        self.assertEqual(kept, ["turn_0.png", "turn_1.png", "turn_2.png"])

    def test_what_may_go_on_or_is_somebody_elses_stays_and_no_link_is_followed(self) -> None:
        for name, journal, old, _ in FOLDERS:
            root = self.make(name, journal=journal, old=old, size=1 << 20)
        outside = self.folder / "outside"
        outside.mkdir()
        (outside / "keep").write_text("x")
        (root / "run_0012").write_text("a file")
        with contextlib.suppress(OSError):  # Windows lets only some people make links
            (root / "run_0013").symlink_to(outside, target_is_directory=True)
            (root / "run_0007" / "link").symlink_to(outside, target_is_directory=True)
        self.real_run(mb=1)
        staying = {name for name, _, _, stays in FOLDERS if stays}
        # One of them is the new run, as links could be made or not.
        links = {"run_0013", "run_0014"}
        self.assertEqual({*self.left()} - links, {*staying, "run_0012"})
        self.assertIn(f"run_{14 if root.joinpath('run_0013').is_symlink() else 13:04}", self.left())
        self.assertEqual((outside / "keep").read_text(), "x")

    @for_the_gate
    def test_a_run_that_is_resumed_or_repeated_is_not_deleted_though_it_is_old(self) -> None:
        for dry, left in ((["--dry-run"], 3), ([], 2)):
            self.real_run("--max-steps", "3")
            self.make("run_0001", journal=(self.run_folder() / "turns.jsonl").read_bytes())
            self.make("run_0002", "run_0003", size=1 << 20)
            with seams.desktop_of_main(agent.DemoDesktop):
                code, out, err = self.main("--replay", "1", *dry, "--set", "keep_megabytes=1")
            self.assertEqual((code, err), (0, ""), out)
            self.assertIn("run_0001", self.left())
            self.assertEqual(len(self.left()), left)
            self.real_run("--resume", "1", "--max-steps", "4", task="", mb=1)
            self.assertIn("run_0001", self.left())
            shutil.rmtree(self.folder / "dumps")

    def test_only_a_run_that_acts_deletes_old_ones(self) -> None:
        self.make("run_0001", "run_0002", "run_0003", size=1 << 20)
        self.real_run("--dry-run", mb=1)
        keep = ("--set", "keep_megabytes=1")
        self.main("--demo", "--max-steps", "1", *keep)
        for look in (["--runs"], ["--stats", "1"], ["--report", "1"]):
            self.main(*look, *keep)
        self.assertEqual(len(self.left()), 5)
        self.real_run(mb=1)
        self.assertEqual({*self.left()} & {"run_0001", "run_0002", "run_0003"}, set())


OPEN = open


def window(handle: int, title: str, program: str, own: bool = False) -> agent.Window:
    return agent.Window(handle, title, program, agent.Rect(0, 0, 64, 36), own=own)


class InFront(EngineCase):
    """A run that goes on, with its task or a next one, begins where it was, not at its own console."""

    CONSOLE = window(1, "agent", "cmd.exe", own=True)

    def brought(self, windows: list[agent.Window], **settings: Any) -> list[int]:
        """What came to the front of these windows, of which the first one is there now."""
        copy = self.folder / f"copy_{len(list(self.folder.iterdir()))}"
        copy.mkdir()
        looks = [("Letter - Notes", "notes.exe"), ("", "cmd.exe")]
        lines = [{"kind": "look", "title": title, "program": name} for title, name in looks]
        (copy / "turns.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        trial = self.trial(lambda r: PLAN, old=copy, **settings)
        came: list[agent.Window] = []
        trial.desktop.windows = lambda: windows
        trial.desktop.foreground = lambda: [None, *windows[:1], *came][-1]
        trial.desktop.bring_to_front = came.append
        trial.resume()
        trial.close()
        return [one.handle for one in came]

    def test_the_window_that_was_last_in_front_comes_there_if_the_console_is_there_now(
        self,
    ) -> None:
        notes, other = window(2, "Letter - Notes", "notes.exe"), window(3, "Mail", "mail.exe")
        saved = window(4, "* Saved - Notes", "notes.exe")
        for windows, settings, wanted in (
            ([self.CONSOLE, other, saved, notes], {}, [2]),
            ([self.CONSOLE, other, saved], {}, [4]),
            ([self.CONSOLE, other], {}, []),
            ([other, self.CONSOLE, notes], {}, []),
            ([self.CONSOLE, notes], {"blocked_windows": "notes.exe"}, []),
            ([self.CONSOLE, notes], {"dry_run": True}, []),
            ([], {}, []),
        ):
            with self.subTest(windows, **settings):
                self.assertEqual(self.brought(windows, **settings), wanted)


class Alone(CommandLineCase):
    def test_who_only_asks_whether_a_run_is_worked_on_keeps_nobody_from_it(self) -> None:
        self.main("--demo", "--max-steps", "1")
        held = PermissionError(errno.EACCES, "Permission denied")
        windows = mock.Mock(locking=mock.Mock(side_effect=[held, held, None]))
        with (
            mock.patch.object(sys, "platform", "win32"),
            mock.patch.dict(sys.modules, msvcrt=windows),
            mock.patch.object(time, "sleep"),
        ):
            agent.ExecutionLogger(agent.load_config({}), old=self.run_folder()).close()
        self.assertEqual(windows.locking.call_count, 3)

    @for_the_gate
    def test_a_run_that_another_process_works_on_is_not_resumed(self) -> None:
        self.main("--demo", "--max-steps", "1")
        journal = self.run_folder() / "turns.jsonl"
        before = journal.read_bytes()
        other = agent.ExecutionLogger(agent.load_config({}), old=self.run_folder())
        code, out, err = self.main("--resume", "1", "--max-steps", "20")
        self.assertEqual((code, journal.read_bytes()), (2, before), out)
        self.assertRegex(err, r"Another agent\.py works on .*run_0001; wait until it ends\.")
        other.close()
        self.assertEqual(self.main("--resume", "1", "--max-steps", "20")[0], 0)


class Unwritable(CommandLineCase):
    @for_the_gate
    def test_a_folder_in_which_a_picture_s_path_is_too_long_is_refused_at_the_beginning(
        self,
    ) -> None:
        """As Windows does beyond 259 characters; the paths of the logs are shorter."""

        def of_windows(path: Any, *how: Any, **more: Any) -> Any:
            if len(str(path)) > 259:
                raise FileNotFoundError(2, "No such file or directory")
            return OPEN(path, *how, **more)

        refused = []
        for length in range(195, 230, 5):
            folder = str(self.folder / "d").ljust(length, "d")
            with (
                seams.desktop_of_main(agent.DemoDesktop),
                mock.patch.object(builtins, "open", of_windows),
                mock.patch.object(io, "open", of_windows),
            ):
                code, out, err = self.main("--demo", "--set", f"dump_dir={folder}")
            self.assertIn(code, (0, 2), out + err)
            refused.append(code == 2)
            self.assertEqual(os.listdir(folder), [] if code else ["run_0001"])
        self.assertEqual(refused, sorted(refused))
        self.assertEqual({*refused}, {False, True})

    def test_a_folder_that_cannot_be_written_any_more_ends_the_run_before_the_act(self) -> None:
        """A picture, or the line of an act."""

        def full_at_an_intent(write: Any, line: str) -> int:
            if '"intent"' in line:
                raise OSError(28, "No space left on device")
            return write(line)

        def faulty(path: Any, *how: Any, **more: Any) -> Any:
            file = OPEN(path, *how, **more)
            if str(path).endswith("turns.jsonl"):
                file.write = functools.partial(full_at_an_intent, file.write)
            return file

        locked = mock.patch.object(Path, "write_bytes", side_effect=PermissionError(13, "Locked"))
        full = mock.patch.object(builtins, "open", faulty)
        for fault, reason in ((locked, "Locked"), (full, "No space left on device")):
            with seams.desktop_of_main() as opened, fault:
                code, out, err = self.main("--demo")
            self.assertEqual((code, err, opened[0].state), (1, "", agent.DemoState()))
            self.assertIn(f"cannot be written ({reason});", out)
            self.assertIn("error: The run's folder ", out)


class Faults(EngineCase):
    def test_some_faults_of_windows_and_files_end_as_they_should(self) -> None:
        # HTTP faults: test_model.py. A run that meets no fault, since it has fewer calls, shows nothing here.
        for kind, step, most in (("win32", 2203, 2700), ("files", 60, 80)):
            counts = sweep(kind, step, first=3, most=most)
            self.assertGreater(counts["tried"], 0, kind)
            self.assertEqual(counts["wrong"], 0, kind)


class Killed(EngineCase):
    def test_some_kills_are_survived_with_every_effect_brought_about_once(self) -> None:
        def started(words: list[str]) -> tuple[int, str]:
            """As kill.run, with the program imported already."""
            arguments = words[words.index("tests.long.kill") + 1 :]
            return starting.run(*arguments, seconds=60, main="tests.long.kill.demo")

        self.assertRegex(trial(110, run=started), "^resumed")


JOURNALS = Path(__file__).resolve().parent / "journals"
SIZE = {"AGENT_IMAGE_W": "768", "AGENT_IMAGE_H": "432"}  # of their pictures
LAST_TURN_KEPT = 3  # of a journal that is cut
UNKNOWN = {"of_tomorrow": {"kind": "text"}}


class Older(CommandLineCase):
    """tests/journals/PROFILE is a whole demo as the version before the events wrote it, without logs and report."""

    def in_each(
        self, words: str, turns: int = 99
    ) -> Iterator[tuple[int, str, list[dict[str, Any]]]]:
        """Exit code, what was said and the records, of a command on each journal of so many turns, as it is and as a
        version of tomorrow would write it."""
        each = [*itertools.product(("planner", "story"), (False, True))]
        for profile, unknown in some(each, 3):  # the first and the last
            with self.subTest(profile, unknown=unknown), seams.clock_of_main():
                shutil.rmtree(self.folder / "dumps", ignore_errors=True)
                copy_folder(JOURNALS / profile, self.run_folder())
                records = [record for record in self.records() if record["turn"] <= turns]
                if unknown:
                    records = [{**record, **UNKNOWN} for record in records]
                    records.insert(4, {"kind": "of_tomorrow", "time": 1.0, "turn": 1})
                text = "".join(json.dumps(record) + "\n" for record in records)
                (self.run_folder() / "turns.jsonl").write_text(text, encoding="utf-8")
                code, out, err = self.main(*words.split(), "--demo", environ=SIZE)
                self.assertEqual(err, "")
                yield code, out, self.records()

    def test_each_is_repeated_on_the_demo_desktop(self) -> None:
        for code, out, records in self.in_each("--replay 1"):
            done = sum(record["kind"] == "result" for record in records)
            self.assertEqual(code, 0, out)
            self.assertIn(f"completed: Repeated {done} acts.", out)

    @for_the_gate
    def test_each_goes_on_after_a_cut_and_comes_to_its_end(self) -> None:
        for code, out, records in self.in_each("--resume 1", LAST_TURN_KEPT):
            self.assertEqual(code, 0, out)
            begin = next(n for n, record in enumerate(records) if record["kind"] == "resume")
            self.assertGreater(records[-1]["turn"], LAST_TURN_KEPT)
            self.assertEqual(records[-1]["outcome"], "completed")
            middle = "Unknown: the program ended in the middle"  # takes no act for unfinished
            self.assertNotIn(middle, str(records[begin:]))
            turns = [record["turn"] for record in records[begin + 1 :]]
            self.assertEqual(turns, sorted(turns))
            self.assertIn(min(turns), (LAST_TURN_KEPT, LAST_TURN_KEPT + 1))
