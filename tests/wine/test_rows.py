"""A task in words for each row of a table on a real Win32 desktop, with a column that is a secret."""

from __future__ import annotations

import csv
import json
import time
from typing import Any

from tests.scripted import PROOF, call
from tests.wine.model import Server, click
from tests.wine.rig import ALONE, HERE, SCREEN, Desktop, Program, until, windows_path
from tests.wine.showing import FormPerson
from tests.wine.test_recording import Showing

TASK = "Enter the customer {name} with the account {{iban}}"
ROWS = (
    ("Meier, Anna", "CH93 0076 2011 6238 5295 7"),
    ("O'Hara; B", "DE89 3704 0044 0532 0130 00"),
    ("Alt, Ida", "FR76 3000 6000 0112 3456 7890 189"),
)


class Model(Server):
    """One that enters the first row, and says by which list it sees that.

    It goes by the journal: on a busy machine an act may have to be done once more.
    """

    def __init__(self, desktop: Desktop, acts: list[dict[str, Any]]) -> None:
        super().__init__()
        self.desktop, self.acts = desktop, [*acts, call("report_mission_complete", evidence=PROOF)]

    def act(self) -> dict[str, Any]:
        results = [entry["result"] for entry in self.desktop.journal("result")]
        return self.acts[sum(result.startswith(("Clicked", "Typed")) for result in results)]

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.role(request) == "planner":
            given = {"done_when": [f'The list shows "{ROWS[0][0]}"'], "reasoning": "-"}
            return call("update_execution_plan", instructions="Enter it.", **given)
        return super().reply(request)


class Words(FormPerson, Showing):
    def place(self, across: int, down: int) -> list[int]:
        pixel = self.at(across, down)
        return [round(1000 * at / (side - 1)) for at, side in zip(pixel, SCREEN, strict=True)]

    def test_the_model_does_the_first_row_and_a_secret_column_is_in_no_file_of_the_run(
        self,
    ) -> None:
        self.scale, self.corner = 20, (100, 100)
        words = (self.FILE, "100", "100", "20", "1", ROWS[2][0])
        form = Program(self.desktop, windows_path(HERE / "account.py"), *words)
        until("the form opens", lambda: "READY" in form.text)
        time.sleep(1)
        table = self.desktop.folder / "customers.csv"
        with table.open("w", encoding="utf-16", newline="") as stream:
            csv.writer(stream, delimiter="\t").writerows([["Name", "IBAN"], *ROWS])
        acts = [
            click("Name", *self.place(150, 18)),
            call("type_text_input", text=ROWS[0][0]),
            click("IBAN", *self.place(370, 118)),
            call("type_text_input", text="{{iban}}"),
            click("Save", *self.place(100, 91)),
        ]
        with Model(self.desktop, acts) as model:
            given = ("--endpoint", model.url, "--rows", windows_path(table), *ALONE)
            code, output = self.desktop.agent(TASK, *given, "--set", "allow_risky=secret").finish()
        output += "\n".join(str(entry["result"]) for entry in self.desktop.journal("result"))
        self.assertEqual((code, model.errors), (0, []), output)
        entered = [{"name": name, "iban": iban} for name, iban in ROWS[:2]]
        self.assertEqual(self.saved(), entered, output)
        results = self.desktop.run_folder / "results.csv"
        with results.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter="\t"))
        told = [(row["name"], row["iban"], row["outcome"], row["requests"] == "0") for row in rows]
        expected = [(name, "{{iban}}") for name, _ in ROWS]
        self.assertEqual([row[:2] for row in told], expected, output)
        self.assertEqual(
            [row[2:] for row in told], [("done", False), ("done", True), ("skipped", True)], output
        )
        written = [path for path in self.desktop.run_folder.rglob("*") if path.is_file()]
        known = [output, json.dumps(model.requests, ensure_ascii=False)]
        known += [
            path.read_bytes().decode("utf-8", "replace").replace("\0", "") for path in written
        ]
        for _, iban in ROWS:
            for spelling in (iban, iban.replace(" ", "")):
                self.assertFalse([text[:200] for text in known if spelling in text])
