"""A small vision model that errs, for runs of the program on a real Win32 desktop.

What would be right it takes from the true state of the desktop (spy.py) and the rules of the task (tasks.py): it sees
perfectly, knows what to do next from any state that the rules know, and remembers nothing but the text of the request.
It serves any tool vocabulary, with or without a planner, tools that click where the mouse is, JSON stories, and the
grammar of Qwen3-VL. Then it errs, by these independent chances:

    prose           words and no call (7 of 22 executor replies in the public Qwen3-VL-2B log), in the three dresses seen there
    malformed       one of ten malformations (four of them readable); the planner errs by this one alone
    misclick        lands 5 to 40 px beside the target's rectangle (at 1536x864): this chance where its smaller side is under
                    24 px, half of it where it is larger, none where both sides are over 200 px
    wrong_target    the centre of another visible control, while element_name says the right one
    typo            one character of a typed text wrong or missing
    false_done      claims the goal (half) or the whole task (half) to be done although it is not
    repeat          sends its previous call again
    skip            does what comes after the next act
    verifier_error  YES for NO and the other way round

It uses what the request offers beyond clicks and keys: open_app, focus_window, typing at a field's place with clear and
submit; the planner says by which checks one can see that the task is done (exact words at half of the seeds, vague ones at
the others), and the verifier answers each check by its number. A closer picture it reads for what it is.

ASSUMPTIONS, not measurements, but for prose at 2b: the presets below; that errors are independent of each other, of the
prompt and of the picture (a real model errs again in the same place); that a model which errs would otherwise know what to
do, so that the planner's words do not matter. So a run shows what the program makes of errors, not what a prompt makes of
a model.
"""

from __future__ import annotations

import json
import math
import random
import re
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.servers import Answering
from tests.world.replies import (
    EVIDENCE,
    NATIVE_TOOLS,
    ROLE,
    Json,
    as_call,
    fill,
    in_words,
    malformed,
    native_text,
    pick,
)
from tests.world.tasks import MODEL_HEIGHT, MODEL_WIDTH, Screen, Task, decide, next_act

MODEL = {
    "id": "qwen3-vl-2b-instruct",
    "type": "vlm",
    "state": "loaded",
    "max_context_length": 262144,
    "capabilities": ["tool_use"],
}

KINDS = (
    "prose",
    "malformed",
    "misclick",
    "wrong_target",
    "typo",
    "false_done",
    "repeat",
    "skip",
    "verifier_error",
)
PRESETS = {
    "perfect": {},
    "8b": {
        "prose": 0.03,
        "malformed": 0.03,
        "misclick": 0.06,
        "wrong_target": 0.02,
        "typo": 0.01,
        "false_done": 0.02,
        "repeat": 0.03,
        "verifier_error": 0.05,
    },
    "4b": {
        "prose": 0.06,
        "malformed": 0.06,
        "misclick": 0.12,
        "wrong_target": 0.04,
        "typo": 0.02,
        "false_done": 0.04,
        "repeat": 0.06,
        "verifier_error": 0.10,
    },
    "2b": {
        "prose": 0.20,
        "malformed": 0.12,
        "misclick": 0.20,
        "wrong_target": 0.06,
        "typo": 0.03,
        "false_done": 0.08,
        "repeat": 0.10,
        "verifier_error": 0.15,
    },
}
NEAR, FAR, SMALL, LARGE = 5, 40, 24, 200  # pixels at 1536x864


def spy_ask(port, **order):
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as connection,
        connection.makefile("rwb") as stream,
    ):
        stream.write(json.dumps(order).encode() + b"\n")
        stream.flush()
        return json.loads(stream.readline() or b"{}")


def truth(task, spy, drive):
    values = (
        spy_ask(spy, do="registry", values=list(task.registry)).get("values")
        if task.registry
        else None
    )
    return task.check(drive, values)


class World(Answering):
    """The model's server; what it was asked and said goes into `log`, as JSON lines. `dumps` are the program's."""

    def __init__(
        self, task: Task, errors: dict[str, float], seed: int, place: Any, log: Path, dumps: Path
    ) -> None:
        super().__init__()
        self.task, self.errors, self.seed = task, errors, seed
        self.spy, self.drive = place.spy, place.drive
        self.log, self.dumps = log, dumps
        self.lock = threading.Lock()
        self.requests = self.acting = 0
        self.began = time.monotonic()
        self.answered: float | None = None
        self.part: list[int] | None = None  # of the screen, that a closer picture shows
        self.native = False
        self.moved: list[int] | None = None  # where the last call moved the mouse, if it did
        self.last: tuple[Json, bool] | None = None  # the last step that was meant

    def respond(self, path: str, body: bytes) -> tuple[int, bytes]:
        if not body:
            return 200, json.dumps({"object": "list", "data": [MODEL]}).encode()
        with self.lock:
            request = json.loads(body)
            self.requests += 1
            row, message = self.answer(request)
            with self.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(row, ensure_ascii=False) + "\n")
            said = len(json.dumps(message)) // 4
            usage = {"prompt_tokens": row["text"] // 4, "completion_tokens": said}
            finish = "tool_calls" if message.get("tool_calls") else "stop"
            choices = [{"index": 0, "message": message, "finish_reason": finish}]
            answer = {"model": MODEL["id"], "choices": choices, "usage": usage}
            self.answered = time.monotonic()
            return 200, json.dumps(answer).encode()

    # -- the request

    def answer(self, body: Json) -> tuple[Json, Json]:
        """What the log gets, and the message."""
        now = time.monotonic()
        tools = body.get("tools") or []
        system = text = seen = ""
        acted = looked = -1
        refused = pictured = False
        for place, m in enumerate(body["messages"]):
            content, calls = m.get("content"), m.get("tool_calls") or []
            if m.get("role") == "system" and isinstance(content, str):
                system += content
                continue
            words = content if isinstance(content, str) else ""
            for part in content if isinstance(content, list) else []:
                if part.get("type") == "text":
                    words += part["text"]
                elif part.get("type") == "image_url":
                    pictured = True
                    looked = place
            words += "".join(json.dumps(c.get("function"), ensure_ascii=False) for c in calls)
            if any(not re.search(ROLE["observe"], c["function"]["name"]) for c in calls):
                acted, refused = place, False
            if m.get("role") == "tool" and '"ok": false' in words and "stale_frame" not in words:
                refused = True
            text += words
            seen += words + "\n"
        whole = system + json.dumps(tools) + text
        between = None if self.answered is None else round(1000 * (now - self.answered))
        row = {
            "n": self.requests,
            "t": round(now - self.began, 3),
            "text": len(whole),
            "between_ms": between,
        }
        stale = acted > looked and not refused
        message = self.reply(row, tools, whole, seen, pictured, stale)
        row["world_s"] = round(time.monotonic() - now, 3)
        return row, message

    def reply(self, row, tools, whole, seen, pictured, stale):
        story = not tools and "actions" in whole and "bboxes" in whole
        self.native, self.part = (
            not tools and '"computer_use"' in whole and "<tool_call>" in whole,
            None,
        )
        if self.native:
            tools = NATIVE_TOOLS
        if not tools and not story:
            if not pictured and "1 to 3 numbered lines" in whole:
                return self.examine(row)
            return self.verify(row, seen)
        acts = bool(pick(tools, "click") or pick(tools, "complete")) and (
            pictured or pick(tools, "observe") or not pick(tools, "plan")
        )
        if not story and not acts:
            return self.plan(row, tools, seen)
        row["role"] = "story" if story else "native" if self.native else "executor"
        self.acting += 1
        rng = random.Random(f"{self.task.name}/{self.seed}/{self.acting}")
        draws = {kind: rng.random() for kind in KINDS}
        errs = {kind for kind in KINDS if draws[kind] < self.errors.get(kind, 0)}
        if pick(tools, "observe") and stale:  # the picture is older than the last act
            row["rule"] = "look"
            return self.dress(
                row, tools, story, {"do": "observe"}, rng, errs & {"prose", "malformed"}, Screen({})
            )

        def can(role: str) -> bool:
            return story or bool(pick(tools, role))

        screen = Screen(
            spy_ask(self.spy, do="state"),
            seen,
            can,
            lambda: truth(self.task, self.spy, self.drive),
            self.extras(tools),
        )
        rules = self.task.rules(screen)
        place, row["rule"], act = decide(rules)
        if "CLOSER LOOK:" in seen:
            self.part = row["part"] = self.closer()
            if (
                self.part
                and "rect" in act
                and not self.sees(
                    (act["rect"][0] + act["rect"][2]) / 2, (act["rect"][1] + act["rect"][3]) / 2
                )
            ):
                act, row["rule"] = (
                    {"do": "wait"} if pick(tools, "wait") else {"do": "key", "key": "shift"},
                    f"not in the closer picture: {row['rule']}",
                )
        if act["do"] == "key" and not story and not pick(tools, "key"):
            act = self.by_mouse(act["key"], screen) or act
        finished = act["do"] in ("complete", "done")
        row["front"] = screen.front["title"] if screen.front else None
        if "skip" in errs and not errs & {"prose", "malformed"}:
            name, after = next_act(rules, place)
            if after:
                act, row["rule"], row["error"] = after, f"{name} (skipped {row['rule']})", "skip"
        return self.dress(row, tools, story, act, rng, errs, screen, draws, finished)

    def extras(self, tools: list[Json]) -> frozenset[str]:
        """What it uses beyond clicks and keys, of what the request offers."""
        typing = (pick(tools, "type") or {}).get("parameters", {}).get("properties", {})
        found = {role for role in ("open", "focus") if pick(tools, role)}
        if {"position", "clear", "submit"} <= typing.keys():
            found.add("type_at")
        return frozenset(found)

    def closer(self) -> list[int] | None:
        """(left, top, width, height) in pixels of what a closer picture shows: a model sees it, this one asks the journal."""
        found = None
        for path in self.dumps.glob("run_*/turns.jsonl"):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                if '"look"' in line:
                    with suppress(ValueError):
                        found = json.loads(line).get("part") or found
        return found if found and found[2] else None

    def by_mouse(self, pressed, screen):
        """What does the work of a key where no tool presses keys; None where nothing does."""
        front = screen.front or {}
        if pressed == "enter":
            return {"do": "type", "text": "\n"}
        if pressed == "f2":  # a slow second click on what is selected
            item = next(
                (
                    i
                    for c in front.get("controls", [])
                    for i in c.get("items", [])
                    if i.get("selected")
                ),
                None,
            )
            return (
                {"do": "click", "rect": item["rect"], "name": f"{item['text']} file"}
                if item
                else None
            )
        if pressed == "ctrl+home":
            edit = next(
                (
                    c
                    for c in front.get("controls", [])
                    if c["kind"] == "edit" and c.get("multiline")
                ),
                None,
            )
            return (
                {
                    "do": "click",
                    "rect": [
                        edit["rect"][0],
                        edit["rect"][1],
                        edit["rect"][0] + 4,
                        edit["rect"][1] + 12,
                    ],
                    "name": "beginning of the text",
                }
                if edit
                else None
            )
        if pressed != "escape":
            return None
        if screen.menus or screen.menu_mode:
            place = screen.empty_desktop()
            return (
                {"do": "click", "rect": place["rect"], "name": "empty desktop"} if place else None
            )
        for wanted in ("Cancel", "Close", "No", "OK"):
            button = screen.control(front, "button", text=wanted)
            if button:
                return {"do": "click", "rect": button["rect"], "name": f"{wanted} button"}
        return None

    def sees(self, x, y):
        left, top, width, height = self.part or (0, 0, 1 << 20, 1 << 20)
        return left <= x < left + width and top <= y < top + height

    # -- what it does

    def dress(self, row, tools, story, act, rng, errs, screen, draws=None, finished=False):
        """The act as a reply, with the errors drawn."""
        if "prose" in errs:
            row["error"] = "prose"
            return in_words(self.prose(act, tools, story, rng))
        if "malformed" not in errs:
            if "repeat" in errs and self.last and self.last[1] == story:
                row["error"], row["act"] = "repeat", self.last[0]
                return self.send(row, tools, story, self.last[0], screen)
            if "false_done" in errs and not finished:
                row["error"] = "false_done"
                act = {
                    "do": "done"
                    if not story and pick(tools, "status") and rng.random() < 0.5
                    else "complete"
                }
        step = self.aim(row, act, rng, errs, screen, draws, tools)
        if "malformed" in errs:
            if story:
                return self.malformed_story(row, step, rng)
            clicker = pick(tools, "click")
            if (
                clicker
                and not self.native
                and step["do"] == "click"
                and self.moves_first(row, tools, clicker, step, screen)
            ):
                step = {**step, "do": "move"}
            return self.malformed(row, tools, step, rng)
        self.last = (step, story)
        return self.send(row, tools, story, step, screen)

    def aim(self, row, act, rng, errs, screen, draws, tools):
        """The act with its place on the 0..1000 grid, beside it if it errs."""
        step = {"why": EVIDENCE, **{k: v for k, v in act.items() if k != "rect"}}
        if act["do"] == "type" and "typo" in errs and act["text"]:
            at, row["error"] = rng.randrange(len(act["text"])), "typo"
            wrong = rng.choice(["", rng.choice("abcdefghijklmnopqrstuvwxyz1234567890")])
            step["text"] = act["text"][:at] + wrong + act["text"][at + 1 :]
        if act["do"] == "open" and "typo" in errs:
            at, row["error"] = rng.randrange(len(act["app"])), "typo"
            step["app"] = act["app"][:at] + act["app"][at + 1 :]
        others = (
            [
                w["title"]
                for w in screen.all
                if w["title"] and w["title"] != act.get("title") and w["controls"]
            ]
            if act["do"] == "focus"
            else []
        )
        if "wrong_target" in errs and others:
            step["title"], row["error"] = rng.choice(others), "wrong_target"
        if "rect" not in act:
            return step
        left, top, right, bottom = act["rect"]
        x, y = (left + right) / 2, (top + bottom) / 2
        pl, pt, pw, ph = self.part or (0, 0, screen.width, screen.height)  # what the picture shows
        scale = pw / MODEL_WIDTH
        sides = (right - left) / scale, (bottom - top) * MODEL_HEIGHT / ph
        chance = self.errors.get("misclick", 0) * (
            1 if min(sides) < SMALL else 0 if min(sides) > LARGE else 0.5
        )
        others = [
            (n, r)
            for n, r in screen.targets()
            if self.sees((r[0] + r[2]) / 2, (r[1] + r[3]) / 2)
            and not (left <= (r[0] + r[2]) / 2 < right and top <= (r[1] + r[3]) / 2 < bottom)
        ]
        row["target"], row["size"] = act["rect"], [round(s) for s in sides]
        if "wrong_target" in errs and others:
            name, r = rng.choice(others)
            x, y = (r[0] + r[2]) / 2, (r[1] + r[3]) / 2
            row["error"], row["hit"] = "wrong_target", name
        elif draws and draws["misclick"] < chance:
            for _ in range(100):
                angle, far = (
                    rng.random() * 2 * math.pi,
                    (NEAR + rng.random() * (FAR - NEAR)) * scale,
                )
                dx, dy = math.cos(angle), math.sin(angle)
                out = (
                    min(
                        (right - left) / 2 / max(abs(dx), 1e-9),
                        (bottom - top) / 2 / max(abs(dy), 1e-9),
                    )
                    + far
                )
                x, y = (left + right) / 2 + dx * out, (top + bottom) / 2 + dy * out
                if pl <= x < pl + pw and pt <= y < pt + ph:
                    break
            x, y = min(max(x, pl), pl + pw - 1), min(max(y, pt), pt + ph - 1)
            if row.get("error") == "typo":
                row["also"] = "typo"
            row["error"] = "misclick"
        step["at"] = [
            min(1000, round((x - pl) * 1000 / pw)),
            min(1000, round((y - pt) * 1000 / ph)),
        ]
        step["px"] = [round(x), round(y)]
        row["under"] = next(
            (n for n, r in screen.targets() if r[0] <= x < r[2] and r[1] <= y < r[3] and n), None
        )
        return step

    def send(self, row, tools, story, step, screen):
        """A step as a call, or as a story."""
        row["act"] = {k: v for k, v in step.items() if k not in ("why", "rect")}
        if story:
            return in_words(self.story(step, screen))
        if self.native:
            return in_words(native_text(step))
        do = {"done": "status"}.get(step["do"], step["do"])
        fn = (
            pick(tools, do)
            or (pick(tools, "complete") if do == "status" else None)
            or (pick(tools, "click") if "at" in step else None)
        )
        if fn is None:
            return in_words("The task is complete. " + EVIDENCE)
        if self.moves_first(row, tools, fn, step, screen):
            fn = pick(tools, "move")
        if not re.search(ROLE["observe"], fn["name"]):
            self.moved = step["px"] if fn is pick(tools, "move") else None
        row["tool"] = fn["name"]
        words = (
            f"LAST_ACTION_RESULT: the screenshot shows what it did.\nCURRENT_GOAL: {row['rule']}\nSUCCESS_CRITERIA: the screen shows it.\n"
            f"SCREEN_SHOWS: {row.get('front') or 'the desktop'} in front.\nNEXT_STEP: {fn['name']}"
            + (f" on {step['name']}" if step.get("name") else "")
        )
        arguments = json.dumps(fill(fn, step), ensure_ascii=False)
        return {**as_call(fn["name"], arguments, self.requests), "content": words}

    def moves_first(self, row, tools, fn, step, screen):
        """Whether a tool that acts where the pointer is needs that elsewhere first."""
        pointed = any(
            k in fn.get("parameters", {}).get("properties", {})
            for k in ("position", "x", "box", "coordinate", "point", "bbox", "x1")
        )
        if "at" not in step or pointed or not pick(tools, "move"):
            return False
        # while a menu is open, Wine tells the spy an old place; the model knows where it has just moved the pointer
        (x, y), (left, top, right, bottom) = (
            self.moved or screen.raw.get("cursor", [0, 0]),
            row["target"],
        )
        off = max(
            left - x, x - right, top - y, y - bottom
        )  # the pointer in the picture; beside the target it is taken for on it
        return off > (FAR * screen.width / MODEL_WIDTH if row.get("error") == "misclick" else 0)

    def story(self, step, screen):
        actions, do = [], step["do"]
        if "at" in step:
            name = {"double": "double_click", "right": "right_click"}.get(do, do)
            actions = [
                {
                    "name": name,
                    "x1": step["at"][0],
                    "y1": step["at"][1],
                    "label": step.get("name", ""),
                }
            ]
        elif do == "type":
            actions = [{"name": "type", "text": step["text"]}]
        elif do == "key":
            actions = [{"name": "key", "key": step["key"]}]
        elif do in ("complete", "done"):
            actions = [{"name": "done"}]
        known = (
            " The text is copied to the clipboard."
            if "Copy menu item" in screen.seen + step.get("name", "")
            or "text is copied" in screen.seen
            else ""
        )
        words = (
            EVIDENCE
            if do in ("complete", "done")
            else f"The last action worked. Now I do: {do} {step.get('name') or step.get('text') or step.get('key', '')}."
        )
        return json.dumps(
            {"observation": words + known, "bboxes": [], "actions": actions}, ensure_ascii=False
        )

    def prose(self, act, tools, story, rng):
        """Words without a call, as in the public log: the form filled in and then the prompt's rules, or a call in words."""
        what = f"{act['do']} {act.get('name') or act.get('text') or act.get('key') or 'the screen'}"
        if story or self.native:
            return f"I look at the screen. It shows the desktop with the windows that the task needs. The next step is to {what}."
        names = [t["function"]["name"] for t in tools]
        form = (
            f"LAST_ACTION_RESULT: Failed - the screen does not show what was expected.\nCURRENT_GOAL: {self.task.text}\nSUCCESS_CRITERIA: "
            "The task must be completed.\nSCREEN_SHOWS: The screenshot displays the desktop with the windows of the task, ready for the next step.\n"
        )
        rules = (
            "CRITICAL_RULES:\n1. Execute exactly ONE tool per turn - never call multiple tools in one turn\n2. Always validate the previous "
            "action first by looking at the screenshot\n3. If a previous action failed two times in a row, report the goal as BLOCKED\n"
            "AVAILABLE_TOOLS:\n" + "\n".join(f"- {n}" for n in names)
        )
        fn = pick(tools, {"done": "status"}.get(act["do"], act["do"]))
        step = f"NEXT_STEP: {fn['name'] if fn else what} -> {what} to go on with the task"
        return rng.choice(
            [
                form + rules,
                form + step,
                f"I can see the desktop. To go on with the task I will now {what}.",
            ]
        )

    def malformed(self, row, tools, step, rng):
        if self.native:
            good = native_text(step)
            name, content, readable = rng.choice(
                [
                    ("text only", "I look at the screen and go on with the task.", False),
                    ("empty", "", False),
                    ("truncated", good[: len(good) * 2 // 3], False),
                    (
                        "unknown action",
                        native_text(
                            {"do": "open", "name": "the program"},
                            {"action": "open_application", "text": "notepad"},
                        ),
                        False,
                    ),
                    ("missing arguments", native_text(step, {"action": "left_click"}), False),
                    ("unclosed", good.replace("\n</tool_call>", ""), True),
                    (
                        "fenced",
                        good.replace("<tool_call>", "```json").replace("</tool_call>", "```"),
                        True,
                    ),
                ]
            )
            row["error"], row["readable"] = f"malformed: {name}", readable
            return in_words(content)
        name, readable, message = malformed(tools, step, rng)
        row["error"], row["readable"] = f"malformed: {name}", readable
        return message

    def malformed_story(self, row, step, rng):
        good = self.story(step, Screen({}))
        kinds = [
            ("truncated", good[: len(good) * 2 // 3], False),
            ("fenced", f"```json\n{good}\n```", True),
            ("empty", "", False),
            (
                "unknown action",
                json.dumps(
                    {
                        "observation": "I open it.",
                        "bboxes": [],
                        "actions": [{"name": "open_application", "text": "notepad"}],
                    }
                ),
                False,
            ),
        ]
        name, content, readable = rng.choice(kinds)
        row["error"], row["readable"] = f"malformed: {name}", readable
        return in_words(content)

    # -- the other roles

    def done_when(self):
        """What a planner says proves the task done, in exact words or in vague ones."""
        return list(
            self.task.checks[random.Random(f"{self.task.name}/{self.seed}/checks").randrange(2)]
        )

    def examine(self, row):
        row["role"] = "examiner"
        checks = enumerate(self.done_when(), 1)
        return in_words("\n".join(f"{number}. {check}" for number, check in checks))

    def verify(self, row: Json, seen: str) -> Json:
        """YES or NO to all checks; where it errs on a task that is done, NO to one of them."""
        row["role"] = "verify"
        done, _ = truth(self.task, self.spy, self.drive)
        chance = random.Random(f"{self.task.name}/{self.seed}/verify/{self.requests}").random()
        wrong = chance < self.errors.get("verifier_error", 0)
        row["truth"], row["said"] = done, done != wrong
        if wrong:
            row["error"] = "verifier_error"
        missing = "The screenshot does not show the result that the task asks for."
        checks = re.search(r"CHECKS:\n((?:\d+\. .*\n?)+)", seen)
        number = len(checks[1].strip().splitlines()) if checks else 1
        odd = random.Random(f"{self.task.name}/{self.seed}/odd/{self.requests}").randrange(number)
        lines = []
        for place in range(number):
            holds = place != odd if done and wrong else row["said"]
            said = f"YES: {EVIDENCE}" if holds else f"NO: {missing}"
            lines.append(f"{place + 1} {said}")
        return in_words("\n".join(lines))

    def plan(self, row: Json, tools: list[Json], seen: str) -> Json:
        row["role"] = "planner"
        rng = random.Random(f"{self.task.name}/{self.seed}/plan/{self.requests}")
        order = "Carry out with one action a turn, looking at each result: {} When the screen shows that all is done, report completion."
        step: Json = {"at": [0, 0], "do": "plan", "why": order.format(self.task.text)}
        if "DONE_WHEN:" not in seen:
            step["done_when"] = self.done_when()
        count = re.search(r"count=(\d+)", seen)
        most = re.search(r"history count is (\d+) or more", seen)
        due = "ARCHIVE_NOW" in seen or (count and most and int(count[1]) >= int(most[1]))
        if due and pick(tools, "archive"):
            turns = sorted({int(turn) for turn in re.findall(r"Turn_(\d+)", seen)})
            why = "The turns before were steps of the task."
            if "Copy menu item" in seen:
                why += " The text is copied: Copy menu item."
            if re.search(r"(goal|status|report)[^\n]*DONE", seen):
                why += " Goal status: the task -> DONE."
            step = {"at": [0, 0], "do": "archive", "turns": turns[:-3] or turns, "why": why}
        if rng.random() < self.errors.get("malformed", 0):
            return self.malformed(row, tools, step, rng)
        tool = pick(tools, step["do"])
        row["tool"] = tool["name"]
        arguments = json.dumps(fill(tool, step), ensure_ascii=False)
        return as_call(tool["name"], arguments, self.requests)
