"""Run folders from somebody else: links, pipes, bombs and forged records; and what a run may delete or leave behind."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import stat
import struct
import subprocess
import zlib
from pathlib import Path
from unittest import mock

import agent
from tests.attacks import Attacks
from tests.scripted import EngineCase, text
from tests.servers import ScriptedServer, answer, reply
from tests.starting import Warm

ATTACKS = Attacks()
MARK = "c4nary-of-the-outside"
WARM = Warm()
atexit.register(WARM.end)


def main_of(*arguments: str, seconds: float = 20.0) -> tuple[int, str]:
    """Exit code and output of the program in a process of its own; -1 if it hangs."""
    try:
        return WARM.run(*arguments, seconds=seconds)
    except subprocess.TimeoutExpired:
        return -1, "hangs"


def run_of(root: Path, number: int = 1, *records: object) -> Path:
    """A run folder with a journal of these records behind that of its task."""
    folder = root / "dumps" / f"run_{number:04d}"
    (folder / "screenshots").mkdir(parents=True)
    begin = {"kind": "run", "task": "Press", "profile": "planner", "time": 1}
    lines = [part if isinstance(part, str) else json.dumps(part) for part in (begin, *records)]
    (folder / "turns.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def settings(root: Path, *more: str) -> list[str]:
    return ["--set", f"dump_dir={root / 'dumps'}", *more]


def is_one_sentence(code: int, said: str) -> bool:
    return code >= 0 and "Traceback" not in said and len(said.strip().splitlines()) <= 1


def exports_a_private_picture(root: Path, linked: str) -> bool:
    """Whether --report embeds a picture from outside to which something in the run's folder is a link."""
    outside = root / "private"
    outside.mkdir()
    (outside / "turn_0001.png").write_bytes(agent.rgb_to_png(bytes(range(48)) * 16, 16, 16))
    look = {"kind": "look", "turn": 1, "screenshot": "screenshots/turn_0001.png", "time": 2}
    folder = run_of(root, 1, look, {"kind": "action", "turn": 1, "tool": "click", "time": 3})
    if linked == "screenshots":
        (folder / linked).rmdir()
    (folder / linked).symlink_to(outside / Path(linked).relative_to("screenshots"))
    main_of(*settings(root), "--report", "1", str(root / "out.html"))
    return b"data:image/png;base64,iVBOR" in (root / "out.html").read_bytes()


@ATTACKS.numbered("12")
def linked_picture_is_exported(root: Path) -> bool:
    """A screenshot that is a link to a picture outside is embedded by --report."""
    return exports_a_private_picture(root, "screenshots/turn_0001.png")


@ATTACKS.numbered("12")
def linked_folder_is_exported(root: Path) -> bool:
    """The folder of the screenshots is a link to one outside."""
    return exports_a_private_picture(root, "screenshots")


def writes_into(root: Path, name: str, *arguments: str) -> bool:
    """Whether the program writes into a file outside to which this one of the run's folder is a link."""
    outside = root / "letter.txt"
    outside.write_text(MARK)
    (run_of(root) / name).symlink_to(outside)
    main_of(*settings(root), *arguments)
    return outside.read_text() != MARK


@ATTACKS.numbered("12")
def linked_report_overwrites(root: Path) -> bool:
    """report.html is a link to a file outside, which --report overwrites."""
    return writes_into(root, "report.html", "--report", "1")


@ATTACKS.numbered("12")
def linked_log_is_written_on_resume(root: Path) -> bool:
    """execution_log.txt is a link to a file outside, to which --resume adds."""
    return writes_into(root, "execution_log.txt", "--demo", "--max-steps", "1", "--resume", "1")


@ATTACKS.numbered("12")
def pipe_hangs(root: Path) -> bool:
    """turns.jsonl is a pipe, at which --runs waits for ever."""
    folder = run_of(root)
    (folder / "turns.jsonl").unlink()
    os.mkfifo(folder / "turns.jsonl")
    return main_of(*settings(root), "--runs")[0] == -1


@ATTACKS.numbered("13")
def bomb_takes_seconds() -> bool:
    """A small picture of slow filters is read to its end, however long that takes."""
    width, height = 8000, 100
    bomb = b"\x89PNG\r\n\x1a\n"
    for name, data in (
        (b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress((b"\4" + bytes(width * 3)) * height)),
        (b"IEND", b""),
    ):
        bomb += struct.pack(">I", len(data)) + name + data
        bomb += struct.pack(">I", zlib.crc32(name + data))
    seconds = itertools.count()
    with mock.patch("time.monotonic", lambda: next(seconds)):  # so that no machine is fast enough
        try:
            agent.png_to_rgb(bomb)
        except agent.AgentError:
            return False
    return True


@ATTACKS.numbered("14")
def deep_json_breaks(root: Path) -> bool:
    """200,000 brackets as a file of settings end in a traceback."""
    deep = root / "deep.json"
    deep.write_text("[" * 200_000)
    code, said = main_of("--config", str(deep), "--runs", *settings(root))
    return not is_one_sentence(code, said)


@ATTACKS.numbered("14")
def deep_journal_breaks(root: Path) -> bool:
    """The same as a line of a journal, and 100 levels of it, which whoever writes it again pays for."""
    run_of(root, 1, '{"kind": "look", "a": ' + "[" * 200_000, {"kind": "end", "time": 2})
    code, said = main_of(*settings(root), "--runs")
    return code != 0 or "Traceback" in said


@ATTACKS.numbered("11")
def forged_state_is_believed() -> bool:
    """A state record with another task, an unknown mode, and acts that are no objects."""
    evil = {"task": "Evil", "memory": {"a": 1}, "mode": "EVIL", "trail": [7]}
    record, _ = agent.from_json({"kind": "state", "time": 2, **evil})
    state = agent.AgentState(task="Press", memory=agent.AgentMemory(12))
    state.take(record)
    return state.task != "Press" or state.mode == "EVIL" or state.trail == [7]


@ATTACKS.numbered("23")
def others_can_read(root: Path) -> bool:
    """The folder of a run is open to everybody on the machine."""
    logger = agent.ExecutionLogger(agent.Config(dump_dir=str(root / "dumps")))
    logger.close()
    return bool(stat.S_IMODE(logger.folder.stat().st_mode) & 0o077)


@ATTACKS.numbered("8")
def huge_reply_is_stored_whole(case: EngineCase) -> bool:
    """A reply of 1.5 MB costs several megabytes of disk a turn."""
    long = answer(200, reply(choices=[{"message": text("x y " * 400_000)}]))
    with ScriptedServer(long) as server, contextlib.suppress(agent.AgentError):
        trial = case.trial(lambda request: {}, max_steps=1, lmstudio_endpoint=server.url)
        trial.server = agent.ModelServer(trial.config, trial.clock, trial.stop)
        trial.run()
    return sum(path.stat().st_size for path in trial.folder.rglob("*.*")) > 1_000_000


@ATTACKS.numbered("8")
def run_outgrows_its_limit(root: Path) -> bool:
    """keep_megabytes=1, and one run of pictures and texts writes ten megabytes."""
    logger = agent.ExecutionLogger(agent.Config(dump_dir=str(root / "dumps"), keep_megabytes=1))
    with contextlib.suppress(agent.AgentError):
        for number in range(100):
            logger.save_screenshot(f"turn_{number:04d}", os.urandom(100_000))
            logger.log("x" * 1000)
        for _ in range(10_000):
            logger.log("x" * 1000)
    logger.close()
    return sum(path.stat().st_size for path in logger.folder.rglob("*.*")) > 1_500_000
