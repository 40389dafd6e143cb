"""No change of behaviour goes unseen: what comes of each case is what somebody looked at last."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tests import kept
from tests.samples import sample


class Kept(unittest.TestCase):
    def test_what_comes_of_each_case_is_as_it_was(self) -> None:
        came = "These came to something else. `python -m tests.kept` at a console shows how, and"
        keep = "writes them anew if that is meant; `python -m tests.kept NAME` takes some of them."
        part = sample(False, True)
        differing = kept.differing(part)
        self.assertEqual(differing, [], f"{came} {keep}")
        tried = {seam: len(cases) for seam, cases in kept.now(part).items()}
        self.assertGreaterEqual(tried.pop("demos"), len(kept.PART_DEMOS))
        self.assertGreaterEqual(tried.pop("runs"), len(kept.PART_RUNS))
        self.assertGreater(min(tried.values()), 20)


class Keeping(unittest.TestCase):
    """What somebody is shown and asked before the file is written."""

    def keep(self, *names: str, answer: str | None = None) -> tuple[str, dict[str, str]]:
        """(what is said, the runs of the file then); an answer is given at a console."""
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        file = Path(made.name, "kept.json")
        file.write_text(json.dumps({"runs": {"same": "1", "one": "1", "two": "1", "gone": "1"}}))
        console = mock.Mock(isatty=lambda: answer is not None)
        with (
            mock.patch.object(kept, "FILE", file),
            mock.patch.object(
                kept, "now", lambda part: {"runs": {"same": "1", "one": "2", "two": "2"}}
            ),
            mock.patch.object(kept, "differences", lambda cases: [f"how {c}" for c in cases]),
            mock.patch("sys.stdin", console),
            mock.patch("builtins.input", lambda question: print(question) or answer),
            contextlib.redirect_stdout(io.StringIO()) as said,
        ):
            kept.keep([*names])
        return said.getvalue(), json.loads(file.read_text())["runs"]

    def test_at_a_console_it_shows_and_asks_first(self) -> None:
        said, runs = self.keep(answer="n")
        self.assertRegex(said, "(?s)^runs one\nruns two\nruns gone\nhow runs one.*Keep .*$")
        self.assertEqual(runs["one"], "1")
        self.assertEqual(self.keep(answer="y")[1], {"same": "1", "one": "2", "two": "2"})

    def test_a_name_keeps_that_case_alone(self) -> None:
        said, runs = self.keep("two")
        self.assertEqual((runs["one"], runs["two"]), ("1", "2"))
        self.assertEqual(said, "runs two\nhow runs two\n")

    def test_where_nobody_can_be_asked_it_shows_what_it_writes(self) -> None:
        names = ["runs one", "runs two", "runs gone"]
        shown = [*names, *(f"how {name}" for name in names)]
        self.assertEqual(self.keep()[0].splitlines(), shown)
        self.assertEqual(self.keep("three"), ("Nothing differs.\n", self.keep("three")[1]))


if __name__ == "__main__":
    unittest.main()
