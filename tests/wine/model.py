"""Model servers for runs on the real desktop: one that follows a script, and one that looks.

They speak LM Studio's API. The one that looks decides each step of a task from the PNG that it is sent: on an empty Wine
desktop Start, Run, notepad, type a text, Ctrl+S, type the path, Enter. It knows windows by their captions, fields by
their white boxes and text by its ink. Nobody tells it anything about the screen.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import agent
from tests.scripted import PROOF, call, role_of, text
from tests.servers import Answering

Json = dict[str, Any]
Message = dict[str, Any]
MODEL = {
    "id": "qwen3-vl-4b-instruct",
    "type": "vlm",
    "arch": "qwen3vl",
    "state": "loaded",
    "max_context_length": 262144,
    "loaded_context_length": 16384,
    "capabilities": ["tool_use"],
}  # as LM Studio lists it

##########################################################################
# The server
##########################################################################


class Server(Answering):
    """`reply` says a message, one request at a time; `requests` came, `errors` those that it could not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Json] = []
        self.errors: list[str] = []
        self.lock = threading.Lock()

    def respond(self, path: str, body: bytes) -> tuple[int, bytes]:
        if not body:
            return 200, json.dumps({"data": [MODEL]}).encode()
        with self.lock:
            request = json.loads(body)
            self.requests.append(request)
            try:
                reply = self.reply(request)
            except Exception as error:  # the test has to hear of it
                self.errors.append(repr(error))
                return 500, b"{}"
        choice = {
            "message": reply,
            "finish_reason": "tool_calls" if reply.get("tool_calls") else "stop",
        }
        usage = {"prompt_tokens": 3000, "completion_tokens": 30}
        answer = {"model": MODEL["id"], "choices": [choice], "usage": usage}
        return 200, json.dumps(answer).encode()

    @property
    def roles(self) -> list[str]:
        return list(map(self.role, self.requests))

    def role(self, request: Json) -> str:
        """planner, executor, or verifier for all who are offered no tool."""
        return role_of(request) if request.get("tools") else "verifier"

    def reply(self, request: Json) -> Message:
        raise NotImplementedError


class Scripted(Server):
    """A plan, then these calls one after the other, then the report, which it confirms.

    `before(number)` runs before the executor's reply of that number, from 1, is sent.
    """

    def __init__(
        self, calls: Iterable[Message], before: Callable[[int], None] = lambda number: None
    ) -> None:
        super().__init__()
        self.calls, self.before, self.asked = list(calls), before, 0

    def reply(self, request: Json) -> Message:
        role = self.role(request)
        if role == "verifier":
            return text("YES: it is.")
        if role == "planner":
            return call("update_execution_plan", instructions="Go on.", reasoning="-")
        self.asked += 1
        self.before(self.asked)
        return self.calls.pop(0) if self.calls else call("report_mission_complete", evidence=PROOF)


##########################################################################
# Seeing: captions, white boxes, ink. Sizes are in pixels of a 1536x864 frame of a 1920x1080 desktop.
##########################################################################


class Box(NamedTuple):
    """The last column and row are not in it."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        return self.right - self.left

    @property
    def height(self) -> int:
        return self.bottom - self.top

    @property
    def centre(self) -> tuple[int, int]:
        return (self.left + self.right) // 2, (self.top + self.bottom) // 2


class Sight:
    """What can be measured in one picture. A mask has one byte a pixel: 1 where it has a colour."""

    def __init__(self, png: bytes) -> None:
        self.rgb, self.width, self.height = agent.png_to_rgb(png)
        self.white = self.mask((255, 255, 255), 6)
        # A field, also where its text is selected: white, the selection's blue and every blend of the two.
        self.paper = self.rgb[2::3].translate(bytes(value >= 248 for value in range(256)))
        self.blue = self.mask((50, 150, 250), 12)
        self.bottom = self.height - 1 - self.down(self.white, self.width - 3, self.height - 2, -1)

    def pixel(self, x: int, y: int) -> tuple[int, ...]:
        at = (y * self.width + min(max(x, 0), self.width - 1)) * 3
        return tuple(self.rgb[at : at + 3])

    def mask(self, colour: Sequence[int], tolerance: int) -> bytes:
        both = -1
        for channel, wanted in enumerate(colour):
            near = bytes(abs(value - wanted) <= tolerance for value in range(256))
            both &= int.from_bytes(self.rgb[channel::3].translate(near), "big")
        return both.to_bytes(self.width * self.height, "big")

    def row(self, mask: bytes, y: int, left: int = 0, right: int | None = None) -> bytes:
        end = self.width if right is None else min(right, self.width)
        return mask[y * self.width + max(left, 0) : y * self.width + end]

    def down(self, mask: bytes, x: int, y: int, step: int = 1) -> int:
        """How many pixels from (x, y) on are set."""
        count = 0
        while 0 <= y + step * count < self.height and mask[(y + step * count) * self.width + x]:
            count += 1
        return count

    def boxes(self, mask: bytes, inside: Box, least: int) -> list[Box]:
        """Upright rectangles at least so wide, by their first row and the tallest of some columns: text covers any."""
        found: list[Box] = []
        for y in range(inside.top, inside.bottom):
            row = self.row(mask, y, inside.left, inside.right)
            for run in re.finditer(rb"\x01{%d,}" % least, row):
                left, right = run.start() + inside.left, run.end() + inside.left
                if any(y < b.bottom and left < b.right and right > b.left for b in found):
                    continue
                columns = [*range(left, right, max(1, (right - left) // 9)), right - 1]
                height = max(self.down(mask, x, y) for x in columns)
                found.append(Box(left, y, right, y + height))
        return found

    def written(self, box: Box) -> bool:
        """Whether a text stands there: a text cursor alone is one or two columns of ink."""
        starts = range(box.top * self.width, box.bottom * self.width, self.width)
        rows = [self.rgb[(at + box.left) * 3 + 1 : (at + box.right) * 3 : 3] for at in starts]
        ground = Counter(b"".join(rows)).most_common(1)[0][0]
        inked = [any(abs(v - ground) > 55 for v in column) for column in zip(*rows, strict=True)]
        return sum(inked) > 3

    def filled(self, field: Box) -> bool:
        """A text that is not selected; a selected one is a suggestion that typing replaces."""
        inside = Box(field.left, field.top, field.right - 22, field.bottom)
        rows = range(inside.top, inside.bottom)
        blue = sum(sum(self.row(self.blue, y, inside.left, inside.right)) for y in rows)
        return blue < 20 and self.written(inside)

    def menu(self) -> Box | None:
        """The Start menu: the white popup that stands on the taskbar in the left corner."""
        bottom = self.bottom - 2
        run = re.match(rb"\x00{0,3}(\x01{50,400})\x00", self.row(self.white, bottom))
        tall = self.down(self.paper, 6, bottom, -1) if run else 0
        return Box(run.start(1), bottom - tall, run.end(1), bottom) if run and tall > 17 else None

    def windows(self) -> list[tuple[Box, bool]]:
        """Each window's caption bar, the active one first, and whether it has the three buttons of a program's."""
        grey, screen = self.mask((128, 128, 128), 6), Box(0, 0, self.width, self.bottom)
        bars = [bar for mask in (self.blue, grey) for bar in self.boxes(mask, screen, 110)]
        found = []
        for bar in bars:
            middle = min(bar.centre[1], self.height - 1)
            zone = range(bar.right - 57, bar.right)
            light = [x for x in zone if min(self.pixel(x, middle)) > 215]
            # The light buttons tell a caption from a selected line.
            if 8 <= bar.height <= 30 and len(light) >= 6 and light[-1] > bar.right - 9:
                found.append((bar, light[0] < bar.right - 25))
        return found

    def inside(self, bar: Box, dialog: bool) -> Box:
        """What lies below a caption bar: a dialog's face, or all there is."""
        face, top = self.mask((245, 245, 245), 3), bar.bottom + 2
        high = self.down(face, bar.left + 1, top) if dialog else self.bottom - top
        return Box(bar.left, top, bar.right, top + high)


##########################################################################
# Deciding
##########################################################################


class Task(NamedTuple):
    text: str  # what cp1252 has, which is what Notepad writes
    path: str

    @property
    def file_bytes(self) -> bytes:
        return self.text.encode("cp1252")

    @property
    def words(self) -> str:
        return f"Open Notepad, write the line {self.text!r} and save it with Ctrl+S as {self.path}"


class Step(NamedTuple):
    """What to do next; `place` is on the grid of 0..1000, `more` are arguments that a tool may do without."""

    action: str  # click, type, key, open, look, done
    why: str
    target: str = ""
    place: tuple[int, int] = (0, 0)
    text: str = ""
    key: str = ""
    more: Json = {}


# Where there is no tool for it, Shift is pressed, which does nothing by itself.
WAIT = Step("wait", "The screen is not complete yet; look again.", key="shift")
STARTED = "The Run dialog holds a name; Enter starts it."
PLAN = "Start notepad from the Start menu's Run, type the given line, save it with Ctrl+S and report completion."
SAVED = "The line stands on the page, the Save dialog took the path and is closed, and no question is open any more."

# An action's tool by the names that profiles give it: the first that is offered.
TOOLS = {
    "click": "click_screen_element click_element",
    "type": "type_text_input type_text",
    "key": "press_keyboard_key press_key",
    "open": "open_app",
    "wait": "wait press_keyboard_key press_key",
    "done": "report_mission_complete report_completion",
    "look": "observe_screen",
    "plan": "update_execution_plan spawn_operator",
}
REASONS = ("reasoning", "justification", "rationale")
MARKS = {
    "red": (224, 32, 32),
    "green": (32, 160, 64),
    "blue": (32, 64, 224),
    "orange": (240, 144, 16),
    "black": (16, 16, 16),
}  # what these words mean, within 40


def texts(request: Json) -> Iterator[str]:
    """Every text of a request."""
    for message in request["messages"]:
        content = message.get("content") or ""
        parts = [{"text": content}] if isinstance(content, str) else content
        yield from (part["text"] for part in parts if "text" in part)


def picture(request: Json) -> bytes | None:
    """The last picture, unless something was done since it was taken (a chat that must look again)."""
    for message in reversed(request["messages"]):
        content = message.get("content")
        for part in reversed(content if isinstance(content, list) else []):
            if "image_url" in part:
                return base64.b64decode(part["image_url"]["url"].partition(",")[2], validate=True)
        called = [each["function"]["name"] for each in message.get("tool_calls") or []]
        if any(name != TOOLS["look"] for name in called):
            return None
    return None


def spoken(step: Step, request: Json) -> Message:
    """A step as a call of the tool that the request offers for it, or in words where there is none."""
    offered = {each["function"]["name"]: each["function"] for each in request["tools"]}
    name = next((name for name in TOOLS[step.action].split() if name in offered), None)
    if name is None:
        return text(f"DONE: {step.why}" if step.action == "done" else step.why)
    place = list(step.place)
    known = {"position": place, "box": place, "x": place[0], "y": place[1], "name": step.text}
    known |= {"element_name": step.target, "label": step.target, "text": step.text, "key": step.key}
    known |= {"instructions": step.text, "operator_instructions": step.text, **step.more}
    schema = offered[name]["parameters"]
    wanted = {*schema["required"], *REASONS, *step.more} & {*schema["properties"]}
    return call(name, **{argument: known.get(argument, step.why) for argument in wanted})


def squares(png: bytes, asked: str) -> Message:
    """The centre of each coloured square for which a calibration asks, on the grid."""
    sight, found = Sight(png), {}
    for name in (name for name in MARKS if f"the {name} square" in asked):
        mask = sight.mask(MARKS[name], 40)
        rows = [y for y in range(sight.height) if 1 in sight.row(mask, y)]
        row = sight.row(mask, rows[len(rows) // 2])
        x, y = (row.find(1) + row.rfind(1)) / 2, (rows[0] + rows[-1]) / 2
        found[name] = [round(1000 * x / sight.width), round(1000 * y / sight.height)]
    return text(json.dumps(found))


class PixelModel(Server):
    """Decides from the pixels, and knows whether it has typed the text and pressed Enter in the Save dialog.

    A `quick` one uses the tools that save turns, where they are offered.
    """

    def __init__(self, task: Task, quick: bool = False) -> None:
        super().__init__()
        self.task, self.quick = task, quick
        self.steps: list[Step] = []
        self.before = WAIT  # the last step that was not a wait
        self.waits = 0
        self.typed = self.saved = False  # the text, and the path with Enter

    def reply(self, request: Json) -> Message:
        said: Message = getattr(self, self.role(request))(request)
        return said

    def planner(self, request: Json) -> Message:
        return spoken(Step("plan", "This is the shortest way to the goal.", text=PLAN), request)

    def verifier(self, request: Json) -> Message:
        png, asked = picture(request), "\n".join(texts(request))
        if png is None:
            return text("Ready.")
        if " square" in asked:
            return squares(png, asked)
        return text(self.verdict(Sight(png)))

    def verdict(self, sight: Sight) -> str:
        step = self.decide(sight)
        return f"{'YES' if step.action == 'done' else 'NO'}: {step.why}"

    def executor(self, request: Json) -> Message:
        order = re.search(r"\bPress the key (\w+)\.", "\n".join(texts(request)))
        if order and len(request["tools"]) == 1:  # the doctor's test of tool calls
            return spoken(Step("key", "-", key=order[1]), request)
        png = picture(request)
        if png is None:
            return spoken(Step("look", "There is no picture here."), request)
        step = self.next_step(Sight(png), "open_app" in json.dumps(request["tools"]))
        return spoken(step, request)

    def next_step(self, sight: Sight, offers_more: bool = False) -> Step:
        step = self.patient(self.decide(sight))
        if offers_more and self.quick:
            step = self.quicker(step)
        self.steps.append(step)
        if step != WAIT:
            self.before = step
        return step

    def quicker(self, step: Step) -> Step:
        """The same with a tool that does more in one turn."""
        if step.target == "Start button":
            return Step("open", "Notepad is not open.", text="notepad")
        if step.target == "File name field":
            self.saved = True
            return step._replace(more={"submit": True})
        return step

    def patient(self, step: Step) -> Step:
        """Waits where a picture right after an act cannot show its effect yet: a program starts, a text is drawn."""
        starting = self.before.why == STARTED and step.target == "Start button"
        same = (step.action, step.target, step.key) == self.before[:1] + (
            self.before.target,
            self.before.key,
        )
        again = same and step.action != "click"
        if self.waits < (8 if starting else 1 if again else 0):
            self.waits += 1
            return WAIT
        self.waits = 0
        if again and step.action == "type":  # the field has not got the keyboard
            return step._replace(action="click") if step.place != (0, 0) else step
        return step

    def decide(self, sight: Sight) -> Step:
        """The next step of the task, from the pixels alone."""

        def grid(x: int, y: int) -> tuple[int, int]:
            return (2 * x + 1) * 500 // sight.width, (2 * y + 1) * 500 // sight.height

        windows, menu = sight.windows(), sight.menu()
        for bar, is_program in windows:
            if is_program:
                continue
            inside = sight.inside(bar, dialog=True)
            white = sight.boxes(sight.paper, inside, 30)
            lists = [box for box in white if box.height > 80 and box.width > 200]
            fields = [box for box in white if 9 <= box.height <= 24 and box.width > 120]
            fields = [field for field in fields if not lists or field.top >= lists[0].bottom]
            if not fields or (lists and len(fields) < 3):  # it is not drawn to the end
                return WAIT
            place = grid(*fields[0].centre)
            if sight.filled(fields[0]):
                self.saved |= bool(lists)
                return Step(
                    "key", "The path is typed; Enter saves." if lists else STARTED, key="enter"
                )
            if lists:
                why = "The Save As dialog waits for a file name."
                return Step("type", why, "File name field", text=self.task.path)
            why = "The Run dialog waits for a program's name."
            return Step("type", why, "Open field", place, "notepad")
        if windows:
            return self.in_notepad(sight, windows[0][0], grid, menu is not None)
        if menu:
            why = "The Start menu is open; Run is its last entry."
            return Step("click", why, "Run...", grid(menu.left + 24, menu.bottom - 5))
        why = "The desktop is empty; programs start at the Start button."
        return Step("click", why, "Start button", grid(23, (sight.bottom + sight.height) // 2))

    def in_notepad(
        self, sight: Sight, bar: Box, grid: Callable[[int, int], tuple[int, int]], menu: bool
    ) -> Step:
        papers = sight.boxes(sight.white, sight.inside(bar, dialog=False), 200)
        pages = [box for box in papers if box.height > 40]
        if not pages:
            return WAIT
        page = pages[0]._replace(left=bar.left + 5, right=bar.right - 20)
        place = grid(*page.centre)
        if menu:  # Wine leaves it open whatever is clicked if a program starts meanwhile
            why = "The Start menu is open beside Notepad and not needed."
            return Step("click", why, "Notepad page", place)
        written = sight.written(page._replace(bottom=min(page.bottom, page.top + 60)))
        if not (written and self.typed):
            self.typed = True
            why = "Notepad is open and its page is empty."
            return Step("type", why, "Notepad page", place, self.task.text)
        if not self.saved:
            return Step("key", "The text is on the page and not saved.", key="ctrl+s")
        return Step("done", SAVED)
