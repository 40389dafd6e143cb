"""Secrets in pictures: a window that shows what is typed into it, late, moved, broken off, or after --resume.

Each attack types a secret and says whether a picture that the model would get shows any of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests.scripted import EngineCase, PlainDesktop, text

SECRET = "hunter2hunter2"
WIDTH, HEIGHT = 224, 128
INK = b"\x10\x20\x30\x00"
PAPER = b"\xf0\xf0\xf0\x00"
GROUND = b"\x80\x80\x80\x00"
LINE = 12  # rows


class Page(PlainDesktop):
    """A window on a larger screen that shows what was typed into it, each letter a bar."""

    def __init__(self, clock: agent.Clock) -> None:
        super().__init__(clock)
        self.typed = ""
        self.late_s = 0.0  # from typing to its being shown
        self.rect = agent.Rect(20, 10, 180, 100)
        self.closed = False
        self.breaks_after = 1000  # texts
        self.how = agent.Win32Error("SendInput failed.")
        self.typed_at = 0.0

    def screen(self) -> agent.Rect:
        return agent.Rect(0, 0, WIDTH, HEIGHT)

    def foreground(self) -> agent.Window:
        return agent.Window(7, "Login", "login.exe", self.rect)

    def window(self, handle: int) -> agent.Window | None:
        return None if self.closed else super().window(handle)

    def text(self, text: str) -> None:
        self.breaks_after -= 1
        if self.breaks_after < 0:
            raise self.how
        self.typed += text
        self.typed_at = self.clock.now()

    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        """The screen, or some of its pixels."""
        rows = [bytearray(GROUND * WIDTH) for _ in range(HEIGHT)]
        window = self.foreground().rect
        for row in rows[window.top : window.bottom]:
            row[window.left * 4 : window.right * 4] = PAPER * window.width
        shown = self.typed if self.clock.now() >= self.typed_at + self.late_s else ""
        for place in range(len(shown)):
            line, column = divmod(place, 20)
            left, top = window.left + 6 + 8 * column, window.top + 40 + LINE * line
            for row in rows[top : min(top + 8, window.bottom)]:
                row[left * 4 : left * 4 + 24] = INK * 6
        rows[0][:4] = b"\x01\x02\x03\x00"
        if (*area, width, height) == (*self.screen(), WIDTH, HEIGHT):
            return b"".join(rows)
        columns = [(area.left + x * area.width // width) * 4 for x in range(width)]
        picked = [rows[area.top + y * area.height // height] for y in range(height)]
        return b"".join(row[at : at + 4] for row in picked for at in columns)


class Stage:
    """An engine in front of the page, and what the model gets to see."""

    def __init__(self, case: EngineCase, old: Path | None = None, page: Page | None = None) -> None:
        with mock.patch.object(case, "desktop_type", lambda clock: page or Page(clock)):
            self.trial = case.trial(
                lambda request: text("-"),
                old=old,
                screen_capture_w=WIDTH,
                screen_capture_h=HEIGHT,
                confirm="never",
                text_batch_events=4,
            )
        self.trial.hidden = agent.Secrets({"PASSWORD": SECRET})
        self.page: Any = self.trial.desktop
        self.page.clock = self.trial.clock
        self.turn = 0

    def act(self, tool: str, **arguments: Any) -> None:
        self.turn += 1
        act = self.trial.profile.vocabulary.parse(agent.ToolCall(tool, arguments))
        look = self.trial.look(self.turn)
        with suppress(agent.Stopped):
            self.trial.perform(act, look, self.turn)

    def type_secret(self) -> None:
        self.act("type_text_input", text="{{PASSWORD}}")

    def seen(self) -> bytes:
        """The next picture; a new frame is taken for it."""
        self.trial.clock.sleep(0.3)
        return self.trial.look(self.turn).frame.pixels

    def shows_ink(self) -> bool:
        """Whether the next picture has any of what was typed."""
        self.turn += 1
        pixels = self.seen()
        return INK in {pixels[at : at + 4] for at in range(0, len(pixels), 4)}

    def grey_share(self) -> float:
        """The share of the page that is grey."""
        pixels, window = self.seen(), self.page.foreground().rect
        grey = 0
        for y in range(window.top, window.bottom):
            row = pixels[(y * WIDTH + window.left) * 4 : (y * WIDTH + window.right) * 4]
            grey += sum(row[at : at + 3] == GROUND[:3] for at in range(0, len(row), 4))
        return grey / (window.width * window.height)


def attack_on_what_is_typed(case: EngineCase) -> bool:
    """The window shows the secret at once, or was put elsewhere before anybody looked, or is moved again and again."""
    stage = Stage(case)
    stage.type_secret()
    stage.page.rect = stage.page.rect.moved(10, 5)
    seen = [stage.shows_ink()]
    for place in (agent.Point(30, 20), agent.Point(0, 0), agent.Point(40, 25)):
        stage.page.rect = stage.page.rect._replace(left=place.x, top=place.y)
        seen.append(stage.shows_ink())
    return any(seen)


def attack_on_what_is_shown_late(case: EngineCase) -> bool:
    """The window shows it five seconds after it was typed, maybe after another act, or has become larger by then."""
    whole = agent.Rect(0, 0, WIDTH, HEIGHT)
    happens: tuple[Callable[[Stage], Any], ...] = (
        lambda stage: None,
        lambda stage: stage.act("press_keyboard_key", key="tab"),
        lambda stage: setattr(stage.page, "rect", whole),
    )
    seen = []
    for meanwhile in happens:
        stage = Stage(case)
        stage.page.late_s = 5.0
        stage.type_secret()
        seen.append(stage.shows_ink())
        meanwhile(stage)
        stage.trial.clock.sleep(6)
        seen.append(stage.shows_ink())
    return any(seen)


def attack_by_breaking_off(case: EngineCase) -> bool:
    """Windows refuses the fourth piece of the secret, or the person stops the run there."""
    seen = []
    for error in (agent.Win32Error("SendInput failed."), agent.Stopped("Stopped.")):
        stage = Stage(case)
        stage.page.breaks_after, stage.page.how = 3, error
        stage.type_secret()
        stopped = isinstance(error, agent.Stopped)
        seen.append((resumed(case, stage) if stopped else stage).shows_ink())
    return any(seen)


def attack_by_resuming(case: EngineCase) -> bool:
    """The run is broken off and resumed: the window still shows the secret."""
    first = Stage(case)
    first.type_secret()
    first.shows_ink()
    return resumed(case, first).shows_ink()


def resumed(case: EngineCase, first: Stage) -> Stage:
    """A new program that goes on in the folder of the first one, on the same screen."""
    first.trial.close()
    second = Stage(case, first.trial.folder, first.page)
    second.trial.resume()
    return second
