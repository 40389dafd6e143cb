"""Writes the README's pictures of panel and report, of a demo run: python tests/pictures/pages.py [FOLDER]"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

from chrome import Chrome, wait_for  # noqa: E402


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "agent.py", "--demo", "--panel"]
        command += ["--set", f"dump_dir={folder}", "--set", "turn_delay=2"]
        demo = subprocess.Popen(command, cwd=ROOT, stdin=-3, stdout=subprocess.PIPE, text=True)
        assert demo.stdout is not None
        line = next(line for line in demo.stdout if line.startswith("panel: "))
        chrome = Chrome()
        try:
            chrome.look(1440, 880)
            chrome.open(line.removeprefix("panel: ").strip())
            wait_for(lambda: "type_text" in chrome.text("#turns"), 60, "for the typing")
            chrome.click("#play")
            (target / "panel.png").write_bytes(chrome.screenshot())
            chrome.click("#play")
            next(line for line in demo.stdout if "report.html" in line)  # its last words
            chrome.open((Path(folder) / "run_0001" / "report.html").as_uri())
            (target / "report.png").write_bytes(chrome.screenshot())
        finally:
            chrome.close()
            demo.terminate()
            demo.wait(20)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
