"""What becomes of a bench's measurements where its folder cannot be read or written."""

from __future__ import annotations

import errno
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO
from unittest import mock

import agent

ITEMS = agent.cost_items()


def answer(*_asked: object) -> agent.BenchLine:
    return agent.BenchLine("cost", "one", requests=1)


class BenchJournals(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = agent.bench_folder(Path(folder.name), {"model": "tiny"})
        self.journal = self.folder / "bench.jsonl"
        self.bench = mock.Mock(measure=answer)

    def run_bench(self, items: Sequence[agent.BenchItem] = ITEMS) -> list[agent.BenchLine]:
        return list(agent.run_bench(self.bench, items, self.folder, lambda _: None))

    def test_a_journal_that_cannot_be_read_for_a_moment_loses_nothing(self) -> None:
        self.run_bench()
        before = self.journal.read_bytes()
        self.assertGreater(before.count(b"\n"), 1)
        locked = PermissionError(errno.EACCES, "is used by another program")
        with (
            mock.patch.object(agent, "read_run_file", side_effect=locked),
            self.assertRaisesRegex(agent.AgentError, "used by another program"),
        ):
            self.run_bench()
        self.assertEqual(self.journal.read_bytes(), before)

    def test_a_full_disk_ends_a_bench_with_one_sentence(self) -> None:
        opened = agent.open_log

        def full(path: Path) -> TextIO:
            stream = opened(path)
            broken = OSError(errno.ENOSPC, "No space left on device")
            write = mock.Mock(side_effect=broken)
            return mock.Mock(wraps=stream, write=write, close=stream.close)

        with (
            mock.patch.object(agent, "open_log", full),
            self.assertRaisesRegex(agent.AgentError, "No space left.*start --bench again"),
        ):
            self.run_bench()


if __name__ == "__main__":
    unittest.main()
