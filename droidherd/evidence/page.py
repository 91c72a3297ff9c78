"""Evidence as one HTML page that opens from a disk: pictures inside, no script, nothing from elsewhere. Pure."""

from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape

from droidherd.domain.ports import Box
from droidherd.domain.text import visible
from droidherd.evidence.trace import Search, SearchRow

Mask = Callable[[str], str]
MARGIN = 0.6
"""Of a place's size, around it, in a close-up."""
CLOSE_UPS_MAX = 6
LABELS_PER_SIDE = 60
"""How small the words on a frame are: so many of their lines would make its longer side."""

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --good: #1a9c4b; --bad: #d92f2f; --other: #2f7de1;
  --differs: #d127c4; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 1180px; padding: 20px; }
h1 { font-size: 21px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 28px 0 8px; }
.error { border-left: 4px solid var(--bad); background: var(--soft); padding: 8px 12px; margin: 12px 0;
  overflow-wrap: anywhere; }
.error p { margin: 4px 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 12px 0; }
dt { opacity: .7; } dd { margin: 0; overflow-wrap: anywhere; }
svg, img.frame { width: 100%; height: auto; display: block; border: 1px solid var(--line); background: #000; }
svg { max-height: 92vh; }
rect { fill: none; stroke-width: 3; vector-effect: non-scaling-stroke; }
text { paint-order: stroke; stroke: #000c; stroke-width: 3px; vector-effect: non-scaling-stroke; }
text.best { fill: #ff8a8a; } text.found { fill: #7ee2a0; }
rect.best { stroke: var(--bad); } rect.found { stroke: var(--good); }
.other { stroke: var(--other); stroke-dasharray: 7 5; }
.differs { stroke: var(--differs); stroke-dasharray: 2 3; }
.key span { display: inline-block; width: 14px; height: 10px; margin: 0 6px 0 16px; border: 3px solid; }
.k-found { color: var(--good); } .k-best { color: var(--bad); } .k-other { color: var(--other); }
.k-differs { color: var(--differs); }
.close, .pair { display: flex; flex-wrap: wrap; gap: 16px; } .pair { flex-wrap: nowrap; }
.pair figure { margin: 0; width: 270px; }
.close img { max-width: 100%; image-rendering: pixelated; border: 1px solid var(--line); display: block; }
figcaption { font-size: 13px; overflow-wrap: anywhere; } .frames { display: grid; gap: 16px;
  grid-template-columns: repeat(auto-fill, minmax(330px, 1fr)); } .frames figure { margin: 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13px; }
td, th { text-align: left; padding: 3px 10px 3px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td:last-child { overflow-wrap: anywhere; min-width: 120px; }
.no { color: var(--bad); } .yes { color: var(--good); } .none { opacity: .7; }
pre { background: var(--soft); padding: 10px; overflow: auto; max-height: 460px; font-size: 12.5px; margin: 0; }
"""


@dataclass(frozen=True, slots=True)
class EvidenceFrame:
    """A JPEG, when it was taken, and what was searched on it."""

    at: float
    """Seconds since 1970."""
    width: int
    height: int
    content: bytes
    searches: tuple[Search, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything the page shows. Texts may hold secrets until they are masked."""

    title: str
    facts: tuple[tuple[str, str], ...]
    """What, in which order people want to read it."""
    error: str
    remedy: str
    step: str
    annotated: EvidenceFrame | None = None
    """The frame that was searched last."""
    templates: dict[str, bytes] = field(default_factory=dict)
    """The images that were searched on it, as PNG."""
    pictures: tuple[EvidenceFrame, ...] = ()
    rows: tuple[SearchRow, ...] = ()
    offset_s: float = 0.0
    """From the clock of the rows to the calendar's."""
    log: tuple[str, ...] = ()
    app_log: str = ""


def page(evidence: Evidence, mask: Mask) -> str:
    """The whole page. Every text goes through `mask` before it becomes HTML, and shows what a terminal would obey."""

    def text(value: str) -> str:
        return escape(visible(mask(value)))

    parts = [
        f"<h1>{text(evidence.title)}</h1>",
        _head(evidence, text),
        _annotate(evidence, text),
        _frames(evidence.pictures, text),
        _table(evidence, text),
        _lines("What the worker noted", "".join(f"{line}\n" for line in evidence.log), text),
        _lines("What the app logged", evidence.app_log, text),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">"
        f"<title>{text(evidence.title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _head(evidence: Evidence, text: Mask) -> str:
    remedy = f"<p>{text(evidence.remedy)}</p>" if evidence.remedy else ""
    facts = [*evidence.facts, ("step", evidence.step)]
    rows = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in facts if value)
    return f'<div class="error"><p><strong>{text(evidence.error)}</strong></p>{remedy}</div>\n<dl>{rows}</dl>'


def _annotate(evidence: Evidence, text: Mask) -> str:
    shown = evidence.annotated
    if shown is None:
        return '<h2>What was searched</h2>\n<p class="none">The stage ended before it saw a frame.</p>'
    boxes = "".join(_boxes(one.match.found, _places(one), text(one.what)) for one in shown.searches)
    labels = "".join(_label(one, shown, text) for one in shown.searches)
    key = "".join(
        f'<span class="k-{name}"></span>{what}'
        for name, what in (
            ("found", "found"), ("best", "best place, not good enough"), ("other", "runner-up"),
            ("differs", "looks alike, differs here"),
        )
    )  # fmt: skip
    frame = (
        f'<svg viewBox="0 0 {shown.width} {shown.height}" role="img" aria-label="the last frame, annotated">'
        f'<image id="frame" width="{shown.width}" height="{shown.height}" href="{_jpeg(shown.content)}"/>'
        f"{boxes}{labels}</svg>"
    )
    near = "".join(_close_up(one, evidence.templates, text) for one in shown.searches[:CLOSE_UPS_MAX])
    return (
        f"<h2>What was searched</h2>\n<p>{_moment(shown.at)}</p>\n{frame}\n"
        f'<p class="key">{key}</p>\n<div class="close">{near}</div>'
    )


def _places(one: Search) -> list[tuple[str, Box]]:
    match = one.match
    found = [("found" if match.found else "best", match.box)]
    found += [("other", match.runner_up_box)] if match.runner_up_box else []
    found += [("differs", match.differs)] if match.differs else []
    return [(kind, box) for kind, box in found if box.width > 0 and box.height > 0]


def _boxes(found: bool, places: Iterable[tuple[str, Box]], what: str) -> str:
    state = "found" if found else "not found"
    return "".join(
        f'<rect class="{kind}" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}">'
        f"<title>{what}: {state}</title></rect>"
        for kind, box in places
    )


def _label(one: Search, shown: EvidenceFrame, text: Mask) -> str:
    """What was searched and its score, above its place, or below where no room is. What fills the frame has none."""
    box, size = one.match.box, max(shown.width, shown.height) / LABELS_PER_SIDE
    if not 0 < box.width < shown.width or not 0 < box.height < shown.height:
        return ""
    above = box.y - size / 3
    down = above if above > size else min(box.y + box.height + size, shown.height - size / 3)
    kind = "found" if one.match.found else "best"
    return (
        f'<text class="{kind}" x="{box.x}" y="{down:.0f}" font-size="{size:.0f}">'
        f"{text(one.what)} {one.match.score:.2f}</text>"
    )


def _close_up(one: Search, templates: dict[str, bytes], text: Mask) -> str:
    """What was searched beside what is there."""
    box = one.match.box
    across, down = max(8, round(box.width * MARGIN)), max(8, round(box.height * MARGIN))
    view = f"{box.x - across} {box.y - down} {box.width + 2 * across} {box.height + 2 * down}"
    drawn = _boxes(one.match.found, _places(one), text(one.what))
    there = f'<svg viewBox="{view}"><use href="#frame"/>{drawn}</svg>' if box.width and box.height else ""
    searched = "".join(
        f'<figure><img alt="{text(name)}" src="data:image/png;base64,{b64encode(content).decode()}">'
        f"<figcaption>searched: {text(name)}</figcaption></figure>"
        for name, content in templates.items()
        if name in one.what
    )
    result = _result_of(one)
    return (
        f'<div class="pair">{searched}<figure>{there}<figcaption>'
        f"step {text(one.path)}: {text(one.what)}<br>{text(result)}</figcaption></figure></div>"
    )


def _result_of(one: Search) -> str:
    match = one.match
    if not (match.box.width and match.box.height):
        return "nowhere to be seen"
    words = [f"{'found' if match.found else 'not found'}, score {match.score:.3f} at {_at(match.box)}"]
    where = f" at {_at(match.runner_up_box)}" if match.runner_up_box else ""
    words.append(f"runner-up {match.runner_up:.3f}{where}")
    words += [f"differs at {_at(match.differs)}"] if match.differs else []
    words += [f"read: {match.text}"] if match.text else []
    return "; ".join(words)


def _frames(pictures: tuple[EvidenceFrame, ...], text: Mask) -> str:
    if not pictures:
        return ""
    figures = "".join(
        f'<figure><img class="frame" alt="frame" src="{_jpeg(one.content)}">'
        f"<figcaption>{_moment(one.at)}{_steps(one, text)}</figcaption></figure>"
        for one in pictures
    )
    title = f"The last {len(pictures)} frames, oldest first" if len(pictures) > 1 else "The last frame"
    return f'<h2>{title}</h2>\n<div class="frames">{figures}</div>'


def _steps(one: EvidenceFrame, text: Mask) -> str:
    targets = dict.fromkeys(f"step {search.path}: {search.what}" for search in one.searches)
    return "".join(f"<br>{text(line)}" for line in list(targets)[:CLOSE_UPS_MAX])


def _table(evidence: Evidence, text: Mask) -> str:
    if not evidence.rows:
        return ""
    rows = "".join(
        f"<tr><td>{_when(row, evidence.offset_s)}</td><td>{text(one.path)}</td><td>{text(one.what)}</td>"
        f'<td class="{"yes" if one.match.found else "no"}">{"found" if one.match.found else "not found"}</td>'
        f"<td>{row.looks}</td>"
        f"<td>{one.match.score:.3f}</td><td>{one.match.runner_up:.3f}</td><td>{text(_at(one.match.box))}</td>"
        f"<td>{text(one.match.text)}</td></tr>"
        for row in evidence.rows
        for one in (row.last,)
    )
    names = ("when", "step", "what", "", "looks", "score", "runner-up", "place", "read")
    head = "".join(f"<th>{name}</th>" for name in names)
    return (
        f"<h2>The way there: the last {len(evidence.rows)} things searched</h2>\n"
        f'<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>'
    )


def _when(row: SearchRow, offset_s: float) -> str:
    first, last = _moment(row.since_s + offset_s), _moment(row.last.at_s + offset_s)
    return first if row.looks == 1 else f"{first}<br>to {last}"


def _lines(title: str, content: str, text: Mask) -> str:
    shown = f"<pre>{text(content)}</pre>" if content else '<p class="none">Nothing.</p>'
    return f"<h2>{title}</h2>\n{shown}"


def _at(box: Box) -> str:
    return f"{box.x},{box.y} ({box.width}x{box.height})"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def _jpeg(content: bytes) -> str:
    return f"data:image/jpeg;base64,{b64encode(content).decode()}"
