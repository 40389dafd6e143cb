"""Another program's calls through real pipes and `main()`: the protocol, the acts and their gates, and every end."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests import samples
from tests.attacks import scenes
from tests.fakes import FakeWin32
from tests.scripted import PLAN, call, role_of
from tests.seams import clock_of_main, desktop_of_main, rgb_picture, windows_of_main
from tests.test_actuator import act
from tests.test_main import HASTY, QUICK, HastyClock

NEWEST, *SHAKEN = ("2026-07-28", "2025-11-25", "2025-06-18")
TOOLS = """observe click double_click right_click middle_click triple_click drag move type_text press_key
    scroll_down scroll_up scroll_at open_app focus_window wait run_task""".split()
META = "io.modelcontextprotocol/"
STATELESS = {f"{META}protocolVersion": NEWEST, f"{META}clientCapabilities": {}}
NOTES = {"element_name": "Notes", "position": [57, 96]}
TASK = 'Open Notes, write "Hello from agent.py" and save it.'
PARSE, REQUEST, REVISION = -32700, -32600, -32022
ERRORS = Path(__file__).with_name("data") / "mcp_errors.jsonl"  # and what is answered


class SkippingClock(HastyClock):
    """What it does not sleep counts as slept: a wait ends by its time, after few looks."""

    skipped_s = 0.0

    def now(self) -> float:
        return super().now() + self.skipped_s

    def sleep(self, seconds: float) -> None:
        before = self.now()
        super().sleep(seconds)
        self.skipped_s += max(0.0, before + seconds - self.now())


class Client:
    """The other end of main()'s pipes."""

    def __init__(self, source: int, target: int) -> None:
        self.source, self.target = os.fdopen(source, "rb"), os.fdopen(target, "wb", 0)
        self.number, self.told = 0, list[dict[str, Any]]()  # what came beside answers
        self.ended = threading.Event()  # main()

    def say(self, line: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.target.write(line + b"\n")

    def send(self, method: str, **more: Any) -> None:
        self.say(json.dumps({"jsonrpc": "2.0", "method": method, **more}).encode())

    def hear(self) -> Any:
        """The next message, {} at the end; each line must be JSON."""
        return json.loads(self.source.readline() or b"{}")

    def answer_to(self, known: Any) -> Any:
        while heard := self.hear():
            if heard.get("id", self) == known:
                return heard
            self.told.append(heard)
        raise AssertionError(f"no answer to {known}")

    def begin(self, method: str, **params: Any) -> int:
        self.number += 1
        self.send(method, id=self.number, params=params)
        return self.number

    def ask(self, method: str, **params: Any) -> Any:
        return self.answer_to(self.begin(method, **params))

    def shake(self, revision: Any = SHAKEN[0]) -> Any:
        self.send("notifications/initialized")
        return self.ask("initialize", protocolVersion=revision)["result"]

    def call(self, tool: str, /, **arguments: Any) -> tuple[dict[str, Any], bytes]:
        """What is answered, and the picture with it."""
        result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        text, *pictures = result["content"]
        answer = result["structuredContent"]
        assert json.loads(text["text"]) == answer and result["isError"] is not answer["ok"]
        return answer, base64.b64decode(pictures[0]["data"]) if pictures else b""


class ClientCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def serve(
        self,
        script: Callable[[Client], Any],
        *argv: str,
        demo: bool = True,
        clock: type[HastyClock] = HastyClock,
    ) -> int:
        """The exit code of main(), whose client follows the script and then ends; `self.said` is what it printed."""
        inward, outward = os.pipe(), os.pipe()
        client, faults = Client(outward[0], inward[1]), list[BaseException]()

        def follow() -> None:
            try:
                script(client)
            except BaseException as fault:
                faults.append(fault)
            finally:
                client.target.close()

        kept = os.dup(0), os.dup(1)
        os.dup2(inward[0], 0), os.dup2(outward[1], 1)
        os.close(inward[0]), os.close(outward[1])
        out, thread = io.StringIO(), threading.Thread(target=follow, daemon=True)
        environ = {"AGENT_DUMP_DIR": str(self.folder / "dumps"), **QUICK}
        words = ["--mcp", *["--demo", *HASTY] * demo, *argv]
        with (
            clock_of_main(clock),
            mock.patch.dict(os.environ, environ),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
        ):
            thread.start()
            try:
                code = agent.main(words)
            finally:
                client.ended.set()
                for number, end in enumerate(kept):
                    os.dup2(end, number)
                    os.close(end)
                thread.join(20)
        self.said = out.getvalue()
        self.assertFalse(thread.is_alive(), "an answer never came")
        client.source.close()
        if faults:
            raise faults[0]
        return code

    def kinds(self, kind: str, number: int = 1) -> list[dict[str, Any]]:
        lines = (self.folder / "dumps" / f"run_{number:04d}" / "turns.jsonl").read_text("utf-8")
        records = map(json.loads, lines.splitlines())
        return [record for record in records if record["kind"] == kind]


class Protocol(ClientCase):
    def test_each_revision_is_spoken_and_tools_say_what_they_take_and_may_change(self) -> None:
        def script(client: Client) -> None:
            for wanted in (*SHAKEN, "2024-11-05", NEWEST, None, 5):
                spoken = client.shake(wanted)["protocolVersion"]
                self.assertEqual(spoken, wanted if wanted in SHAKEN else SHAKEN[0])
            found = client.ask("server/discover", _meta=STATELESS)["result"]
            self.assertEqual(found["supportedVersions"], [NEWEST, *SHAKEN])
            self.assertEqual(found["resultType"], "complete")
            wrong = client.ask("tools/list", _meta={**STATELESS, f"{META}protocolVersion": "1900"})
            self.assertEqual(wrong["error"]["code"], REVISION)
            data = {"supported": [NEWEST, *SHAKEN], "requested": "1900"}
            self.assertEqual(wrong["error"]["data"], data)
            self.assertEqual(client.ask("ping")["result"], {})
            tools = client.ask("tools/list", _meta=STATELESS)["result"]["tools"]
            about = {tool["name"]: (tool["annotations"], tool["inputSchema"]) for tool in tools}
            self.assertEqual([*about], TOOLS)
            readers = [name for name, (hints, _) in about.items() if hints["readOnlyHint"]]
            self.assertEqual(readers, ["observe", "wait"])
            self.assertTrue(about["click"][0]["destructiveHint"])
            self.assertFalse(about["move"][0]["destructiveHint"])
            self.assertEqual(about["click"][1]["required"], ["element_name", "position"])
            self.assertEqual(about["drag"][1]["properties"]["look"]["type"], "boolean")
            self.assertEqual({*about["run_task"][1]["properties"]}, {"task", "profile"})

        self.assertEqual(self.serve(script), 0)
        self.assertFalse((self.folder / "dumps").exists())  # nothing was called

    def test_bad_input_gets_the_error_of_the_protocol_and_what_follows_is_answered(self) -> None:
        rows = [json.loads(row) for row in ERRORS.read_text("utf-8").splitlines()]
        rows += [{"line": "[" * 100_000, "code": PARSE}, {"line": "9" * 5000, "code": REQUEST}]

        def script(client: Client) -> None:
            for row in rows:
                client.say(row["line"].encode("latin-1"))
                heard = client.hear()
                found = (heard["error"]["code"], heard["id"])
                self.assertEqual(found, (row["code"], row.get("id")), row["line"][:80])
            for silent in ({"method": "none/such"}, {"method": "notifications/cancelled"}):
                client.send(**silent, params=[])
            client.say(b'{"jsonrpc": "2.0", "id": 3, "method": "' + b"x" * 10_000_000 + b'"}')
            while (heard := client.hear())["id"] is None:
                self.assertEqual(heard["error"]["code"], PARSE)
                if not client.number:
                    client.number = client.begin("ping")
            self.assertEqual(heard, {"jsonrpc": "2.0", "id": 1, "result": {}})
            client.shake()
            for name, given in (("fly", {}), (["click"], {}), (None, 5), ("click", [7])):
                result = client.ask("tools/call", name=name, arguments=given)["result"]
                self.assertTrue(result["isError"], result)
            self.assertFalse(client.call("click", element_name="x", position=[1, 2000])[0]["ok"])
            client.target.write(b'{"jsonrpc": "2.0", "id": 99, "method": "tools/call", "par')

        self.assertEqual(self.serve(script), 0)
        self.assertEqual(self.kinds("intent"), [])
        self.assertEqual(self.kinds("end")[0]["outcome"], "completed")

    def test_a_client_that_reads_nothing_is_given_up(self) -> None:
        def script(client: Client) -> None:
            os.set_blocking(client.target.fileno(), False)
            for _ in range(500):
                client.begin("tools/list", _meta=STATELESS)
            self.assertTrue(client.ended.wait(20))

        with mock.patch.object(agent, "MCP_PATIENCE_S", 0.2):
            self.assertEqual(self.serve(script), 130)
        self.assertIn("the client reads no answers", self.said)

    def told(self, *words: str) -> list[str]:
        """What clients are told to start the program with."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(agent.main(["--print-config", *words]), 0)
        found = []
        for part in out.getvalue().split("):\n")[1:]:
            (servers,) = json.loads(part[: part.rindex("}") + 1]).values()
            found.append(servers["desktop"]["args"])
            self.variables = servers["desktop"].get("env")
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0][:2], [str(Path(agent.__file__)), "--mcp"])
        return found[0]

    def test_what_clients_have_to_be_told_is_printed(self) -> None:
        words = self.told("--set", "dump_dir=x")
        self.assertIn(f"dump_dir={Path('x').absolute()}", words)
        self.assertIn("blocked_windows=LM Studio.exe; Claude.exe; Code.exe", words)

    def test_what_is_said_besides_stands_in_what_clients_are_told(self) -> None:
        settings = self.folder / "settings.json"
        settings.write_text('{"blocked_windows": "*bank*", "last_look": false}', "utf-8")
        words = self.told(
            *("--config", str(settings), "--confirm", "always", "--area", "0,0,640,480"),
            *("--no-vision", "--secret", "PIN"),
        )
        self.assertEqual(words[2], "--secret=PIN")
        self.assertEqual({*words[3::2]}, {"--set"})
        told = {
            *("area=0,0,640,480", "confirm=always", "controls=only", "last_look=False"),
            "blocked_windows=*bank*; LM Studio.exe; Claude.exe; Code.exe",
            f"dump_dir={Path('dumps').absolute()}",
        }
        self.assertEqual({*words[4::2]}, told)
        options = agent.command_line().parse_args(["--profile", "planner", *words[1:]])
        config = agent.read_config(options, {})
        self.assertEqual(
            (config.confirm, config.vision, config.last_look), ("always", False, False)
        )

    def test_switches_and_names_of_variables_stand_in_it_and_no_value_of_one(self) -> None:
        self.assertIsNone(self.told() and self.variables)
        far = ("--allow-remote", "--endpoint", "http://10.0.0.5:1234")
        with mock.patch.dict(os.environ, {"LMSTUDIO_API_KEY": "a key", "PIN": "geheim4711"}):
            words = self.told(*far, "--secret", "PIN")
        self.assertEqual(words[2:4], ["--secret=PIN", "--allow-remote"])
        self.assertEqual(self.variables, {"PIN": "", "LMSTUDIO_API_KEY": ""})
        self.assertIn("--demo", self.told("--demo"))

    def test_nothing_but_answers_is_written_where_a_client_reads(self) -> None:
        words = [sys.executable, agent.__file__, "--mcp", "--demo", "--secret", "PIN"]
        found = subprocess.run(
            words,
            input=b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n',
            env={**os.environ, "PIN": "4711"},
            cwd=self.folder,
            capture_output=True,
            timeout=60,
            check=True,
        )
        self.assertEqual([json.loads(line)["id"] for line in found.stdout.splitlines()], [1])
        self.assertIn(b"warning: --secret PIN has fewer than 8 characters", found.stderr)


class Acts(ClientCase):
    def test_the_demo_s_note_is_written_call_by_call_and_all_of_it_is_kept(self) -> None:
        def script(client: Client) -> None:
            client.shake()
            seen, picture = client.call("observe")
            self.assertEqual(seen["window"], "Desktop")
            opened, picture = client.call("double_click", **NOTES, look=True)
            self.assertEqual((opened["screen"], opened["window"]), ("changed", "Untitled - Notes"))
            self.assertEqual(agent.png_to_bgrx(picture)[1:], (512, 288))
            typed, _ = client.call("type_text", text="Hi", position=[530, 460], element_name="text")
            self.assertIn('the field now holds "Hi"', typed["result"])
            saved, _ = client.call("click", element_name="Save", position=[746, 766], look=True)
            self.assertEqual((saved["screen"], saved["window"]), ("changed", "Saved - Notes"))

        self.assertEqual(self.serve(script), 0)
        intents, results = self.kinds("intent"), self.kinds("result")
        self.assertEqual([one["tool"] for one in intents], ["double_click", "type_text", "click"])
        self.assertEqual(len(results), len(intents))
        (end,) = self.kinds("end")
        self.assertEqual((end["outcome"], end["text"]), ("completed", "All calls were answered."))
        report = (self.folder / "dumps" / "run_0001" / "report.html").read_text("utf-8")
        self.assertIn("screen_0002.png", report)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            words = ["--replay", "1", "--dry-run", "--set", f"dump_dir={self.folder}/dumps"]
            code = agent.main(words)
        self.assertEqual((code, "Dry run of 3 acts." in out.getvalue()), (0, True))

    def test_a_whole_task_is_a_run_of_its_own_which_tells_its_progress(self) -> None:
        def script(client: Client) -> None:
            client.shake()
            client.call("observe")
            for arguments in (
                {},
                {"task": " "},
                {"task": TASK, "profile": "x"},
                {"task": "Another one"},  # than the demo knows
            ):
                answer, _ = client.call("run_task", **arguments)
                self.assertFalse(answer["ok"], arguments)
                self.assertTrue(answer["error"]["type"], arguments)
            wanted = {"task": TASK, "profile": "chat"}
            result = client.ask(
                "tools/call", name="run_task", arguments=wanted, _meta={"progressToken": 0}
            )["result"]
            done = result["structuredContent"]
            self.assertEqual((done["ok"], done["outcome"]), (True, "completed"), done)
            steps = [told["params"] for told in client.told]
            self.assertEqual({step["progressToken"] for step in steps}, {0})
            numbers = [step["progress"] for step in steps]
            self.assertEqual(numbers, sorted(set(numbers)))
            self.assertIn("Clicked 'Save' (button)", " ".join(step["message"] for step in steps))
            self.assertEqual(client.call("observe")[0]["window"], "Saved - Notes")

        self.serve(script)
        runs = [self.kinds("run", number)[0] for number in (1, 2, 3)]
        self.assertEqual([run["profile"] for run in runs], ["mcp", "chat", "mcp"])
        self.assertEqual(runs[1]["task"], TASK)

    @samples.for_the_gate
    def test_one_call_runs_at_a_time_and_a_cancelled_one_is_not_answered(self) -> None:
        def script(client: Client) -> None:
            client.shake()
            client.call("observe")
            short = client.begin("tools/call", name="wait", arguments={"seconds": 1})
            for other in (short - 1, short + 7, str(short), None):
                client.send("notifications/cancelled", params={"requestId": other})
            free(client)
            self.assertIn(short, [told.get("id") for told in client.told])
            waiting = client.begin("tools/call", name="wait", arguments={"seconds": 60})
            self.assertEqual(client.ask("ping")["result"], {})
            busy = client.ask("tools/call", name="observe")
            self.assertEqual(busy["error"]["code"], REQUEST)
            client.send("notifications/cancelled", params={"requestId": waiting})
            self.assertFalse(free(client)["result"]["isError"])
            self.assertNotIn(waiting, [told.get("id") for told in client.told])

        def free(client: Client) -> Any:
            """The answer to the first call that is taken."""
            end = time.monotonic() + 20
            while "error" in (reply := client.ask("tools/call", name="observe")):
                self.assertLess(time.monotonic(), end)
            return reply

        self.serve(script)
        self.assertEqual(self.kinds("end")[0]["text"], "the client cancelled the call.")
        self.assertEqual(self.kinds("end", 2)[0]["text"], "All calls were answered.")

    def test_the_client_s_end_and_a_stop_end_what_runs(self) -> None:
        def script(client: Client) -> None:
            client.shake()
            client.call("observe")
            waiting = client.begin("tools/call", name="wait", arguments={"seconds": 60})
            self.assertEqual(client.ask("ping")["result"], {})
            if stops:
                signal.raise_signal(signal.SIGINT)
                answer = client.answer_to(waiting)["result"]["structuredContent"]
                self.assertEqual((answer["ok"], answer["text"]), (False, "Ctrl+C."))

        for number, stops in enumerate((False, True), 1):
            began = time.monotonic()
            self.assertEqual(self.serve(script), 130)
            self.assertLess(time.monotonic() - began, 15)
            (end,) = self.kinds("end", number)
            wanted = "Ctrl+C." if stops else "the client has ended."
            self.assertEqual((end["outcome"], end["text"]), ("stopped", wanted))

    def test_no_call_is_counted_as_a_step_and_a_task_s_minutes_end_the_task_alone(self) -> None:
        def script(client: Client) -> None:
            client.shake()
            for number in range(13):
                seen, _ = client.call("wait", seconds=1) if number % 2 else client.call("observe")
                self.assertTrue(seen["ok"], (number, seen))
            ended, _ = client.call("run_task", task=TASK)
            self.assertEqual((ended["ok"], ended["outcome"]), (False, "stopped"), ended)
            self.assertIn("lasted its 0.0001 minutes", ended["text"])
            self.assertTrue(client.call("observe")[0]["ok"])

        words = ("--max-steps", "2", "--set", "minutes_most=0.0001")
        self.serve(script, *words, clock=SkippingClock)
        runs = sorted(path.name for path in (self.folder / "dumps").iterdir())
        self.assertEqual(runs, ["run_0001", "run_0002", "run_0003"])
        by = [self.kinds("run", number)[0]["by_client"] for number in (1, 2, 3)]
        self.assertEqual(by, [False, True, False])

    def test_a_secret_is_typed_by_its_name_and_stays_grey_in_every_later_run(self) -> None:
        def script(client: Client) -> None:
            client.shake()
            client.call("observe")
            client.call("double_click", **NOTES, look=True)
            client.call("type_text", text="{{PIN}}", position=[530, 460], element_name="text")
            pictures.append(client.call("observe")[1])
            client.call("run_task", task=TASK, profile="x")  # ends the run of these calls
            pictures.append(client.call("observe")[1])

        pictures: list[bytes] = []
        with mock.patch.dict(os.environ, {"PIN": "hunter2-hunter2"}):
            self.serve(script, "--secret", "PIN", "--set", "allow_risky=secret")
        grey = [rgb_picture(png)[0].count(b"\x80" * 150) for png in pictures]
        self.assertGreater(grey[0], 100)
        self.assertEqual(*grey)
        for file in self.folder.rglob("*.*"):
            if file.is_file():
                self.assertNotIn(b"hunter2", file.read_bytes(), file)


# What a row has whose windows stay as they are and hold no controls.
PLAIN = set("name window steps settings outcome why harmless each".split())


def tools_of(row: dict[str, Any]) -> set[str]:
    return {step[0] if isinstance(step, list) else "change" for step in row["steps"]}


def gated(world: FakeWin32, clock: agent.Clock) -> Any:
    """The desktop of that simulated Windows, which knows the programs of the attacks."""
    desktop = agent.WindowsDesktop(world.api, clock)
    desktop.programs = lambda: scenes.PROGRAMS  # type: ignore[method-assign]
    return desktop


class Gates(ClientCase):
    def test_what_the_gates_keep_out_of_a_model_s_acts_they_keep_out_of_a_client_s(self) -> None:
        """No person answers the box on the screen, so that what is asked is refused."""
        rows = [row for row in scenes.ROWS if row.keys() <= PLAIN and tools_of(row) <= {*TOOLS}]
        self.assertGreater(len(rows), 150)
        for row in rows[:: samples.sample(3, 60)]:
            with self.subTest(row["name"]):
                self.assertEqual(self.carried_out(row), row["outcome"].replace("asked", "refused"))

    @samples.for_the_gate
    def test_a_program_that_a_client_s_task_names_is_asked_about_all_the_same(self) -> None:
        def ask(_path: str, body: bytes | None = None) -> tuple[Any, float]:
            if not body:
                return {"data": [{"id": "qwen3-vl-4b", "type": "vlm", "state": "loaded"}]}, 0.0
            opens = call("open_app", name="Paint", reasoning="as told")
            message = PLAN if role_of(json.loads(body)) == "planner" else opens
            return {"choices": [{"message": message}]}, 0.0

        def script(client: Client) -> None:
            client.shake()
            client.call("run_task", task="Open Paint and wait", max_steps=1)

        words = "--set confirm_wait=1 --set takeover_quiet=0 --set last_look=false --max-steps 1"
        dumps = ["--set", f"dump_dir={self.folder / 'dumps'}"]
        # Nor does it permit anything once the person goes on with it, however often.
        for times in range(3):
            world = FakeWin32()
            with (
                desktop_of_main(partial(gated, world)),
                windows_of_main(world),
                mock.patch.object(agent.ModelServer, "_ask", side_effect=ask),
            ):
                if times:
                    with contextlib.redirect_stdout(io.StringIO()), clock_of_main(HastyClock):
                        agent.main(["--resume", "1", *words.split()[:-1], str(1 + times), *dumps])
                else:
                    self.serve(script, *words.split(), demo=False)
            self.assertEqual(world.programs_opened, [])
        results = self.kinds("result")
        self.assertEqual([one["refused"] for one in results], ["not_allowed"] * 3)
        self.assertEqual([one["by_client"] for one in self.kinds("resume")], [True, True])

    def carried_out(self, row: dict[str, Any]) -> str:
        world = FakeWin32()
        world.window, world.others = scenes.window(*row["window"]), list(scenes.OTHERS)
        refused: list[str] = []

        def script(client: Client) -> None:
            client.shake()
            client.call("observe")
            for name, *given in row["steps"]:
                arguments = act(name, **(given[0] if given else {})).call.arguments
                answer, _ = client.call(name, **arguments, look=True)
                if not answer["ok"]:
                    refused.append(answer["error"]["type"])
                    return

        quick = {"settle_cap_ms": 1, "confirm_wait": 1, "takeover_quiet": 0}
        quick |= row.get("settings", {})
        settings = [f"{name}={value}" for name, value in quick.items()]
        words = [part for item in settings for part in ("--set", item)]

        with desktop_of_main(partial(gated, world)), windows_of_main(world):
            self.serve(script, *words, demo=False, clock=SkippingClock)
        self.assertEqual(world.leaks().count("mutex"), 0)
        return "refused" if refused else "passed"
