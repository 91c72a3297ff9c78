"""The code blocks of README and docs, in the order in which a newcomer reads them, and what is said of each.

A comment directly above a block says what the block itself cannot: `<!-- not run: REASON -->`, or for JSON
`<!-- schema: NAME -->`. Comments do not show on the page.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "docs/flows.md": "tests/e2e/test_first_flow.py, tests/flows/test_lint.py",
    "docs/handlers.md": "tests/handlers/test_page.py",
    "docs/testing.md": "tests/testing/test_page.py",
    "CONTRIBUTING.md": "tests/docs/test_documented.py (these targets are the tests)",
}
"""Pages whose blocks other tests run, as they stand."""
DRAWINGS = ("mermaid",)
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>.+?) -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"\]\((docs/\w+\.md|\w+\.md)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    page: str
    line: int
    language: str
    text: str
    mark: str = ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def not_run(self) -> str:
        """Why not; empty: it is run."""
        return self.mark.partition("not run: ")[2]

    @property
    def schema(self) -> str:
        return self.mark.partition("schema: ")[2]

    def lines(self) -> Iterator[str]:
        """The commands of a shell block: one per line, unless a quote or a backslash goes on."""
        whole = ""
        for line in self.text.splitlines():
            whole = f"{whole}{line}"
            if whole.endswith("\\"):
                whole = whole[:-1]
                continue
            try:
                shlex.split(whole, comments=True)
            except ValueError:
                whole += "\n"
                continue
            if whole.strip():
                yield whole
            whole = ""


def pages() -> list[str]:
    """README, then what it links to in its order, then the rest."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = [name for name in _LINK.findall(readme) if (ROOT / name).exists()]
    rest = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md"))
    return list(dict.fromkeys(["README.md", *linked, *rest, "deploy/README.md"]))


def blocks_of(text: str, page: str) -> list[Block]:
    return [
        Block(
            page, text[: found.start("language")].count("\n") + 1, found["language"], found["text"], found["mark"] or ""
        )
        for found in _BLOCK.finditer(text)
    ]


def blocks(*, everywhere: bool = False) -> list[Block]:
    """All of them; without `everywhere` only those that no other test runs."""
    found = [block for page in pages() for block in blocks_of((ROOT / page).read_text(encoding="utf-8"), page)]
    chosen = found if everywhere else [one for one in found if one.page not in ELSEWHERE]
    return [one for one in chosen if one.language not in DRAWINGS]
