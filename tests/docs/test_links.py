"""Pages lead where they say, and every room of the code has a word for what it is."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "deploy/**/*.md", "tests/**/*.md", "bench/**/*.md")
    for path in ROOT.glob(pattern)
    if "node_modules" not in path.parts
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
IN_CODE = re.compile(r"```.*?```", re.DOTALL)
NAMED_FILE = re.compile(r"`((?:tests|docs|deploy|droidherd|workflows|activities|api)/[\w./-]+)`")


def _anchors(page: Path) -> set[str]:
    text = IN_CODE.sub("", page.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def dead_links(page: Path) -> list[str]:
    found: list[str] = []
    for target in LINK.findall(IN_CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            found.append(target)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path):
    assert [] == dead_links(page)


def test_a_dead_link_and_a_dead_anchor_are_seen(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# Here it is\n[a](#here-it-is) [b](#there) [c](none.md) [d](https://x) ```[e](none)```")
    assert ["#there", "none.md"] == dead_links(page)


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md", "docs/protocol.md", "docs/glossary.md"])
def test_every_file_a_page_names_is_there(page: str):
    named = NAMED_FILE.findall((ROOT / page).read_text(encoding="utf-8"))
    assert [] == [name for name in named if not (ROOT / name.rstrip("/")).exists()]


def test_every_module_the_glossary_names_is_there():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    named = [
        name for line in text.splitlines() if line.startswith("|") for name in re.findall(r"`([\w/]+(?:\.py|/))`", line)
    ]
    missing = [name for name in named if not any((base / name).exists() for base in (ROOT, ROOT / "droidherd"))]
    assert [] == missing


def test_every_package_stands_in_the_glossary():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    packages = {path.parent for path in (ROOT / "droidherd").glob("*/__init__.py")}
    packages |= {path.parent for path in (ROOT / "droidherd" / "domain").glob("*/__init__.py")}
    named = {str(package.relative_to(ROOT)) for package in packages}
    assert set() == {name for name in named if f"`{name}/" not in text}


def test_every_package_stands_in_the_table_of_the_architecture():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = {name.rstrip("/").split("/")[-1] for row in rows for name in re.findall(r"`([\w/.]+)`", row)}
    modules = {path.name for path in (ROOT / "droidherd").iterdir() if (path / "__init__.py").exists()}
    modules |= {path.name for path in (ROOT / "droidherd").glob("[a-z]*.py")}
    assert set() == modules - named


def test_every_page_stands_in_the_table_of_the_readme():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert set() == {page for page in pages if f"({page})" not in text}


def test_the_glossary_is_short_enough_to_be_read():
    """A word more means that another one goes: newcomers read this page whole."""
    rows = re.findall(r"^\| (\*\*.*?) \|", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    words = [word for row in rows for word in re.findall(r"\*\*([^*]+)\*\*", row)]
    assert len(words) == len(set(words))
    assert 85 >= len(words)


def test_adrs_are_numbered_without_a_double():
    numbers = [path.name[:4] for path in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))]
    assert sorted(set(numbers)) == numbers
