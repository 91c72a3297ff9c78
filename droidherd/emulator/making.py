"""How a thing is asked for and made what it is to be, as words for the emulator's shell. Pure: text in, text out.

Each act sees for itself that it succeeded, since `wm`, `pm` and `setprop` may fail with return code 0.
"""

import re
from dataclasses import dataclass

from droidherd.adb import parse
from droidherd.adb.quote import quote
from droidherd.adb.shell import ShellResult
from droidherd.contracts.changes import Thing
from droidherd.domain.errors import BadParametersError, FinalError, UnknownOutcomeError
from droidherd.domain.ports import Wanted
from droidherd.domain.task.things import ABSENT, State, problem_with, problem_with_value, spare_of

_FACTS = re.compile(r"file ([0-7]{3,5}) ([0-9]{1,18})\n")
FILES_MAX = 1_000
"""Of one package."""
_DIGEST = re.compile(r"([0-9a-f]{64})\b")
_MODE = re.compile(r"[0-7]{3,4}")
ANSWER_MAX_BYTES = 1 << 20
"""More than a value has that may be changed. It becomes a part of messages."""
_ANSWERS = {"folder": "is a folder", "link": "is a link", "odd": "is neither a file nor a folder"}


@dataclass(frozen=True, slots=True)
class PlainFile:
    """What can be said about a file without reading it."""

    mode: str
    size: int


def check_thing(thing: str, name: str) -> tuple[Thing, str]:
    """The kind, and the name as part of a shell line. Refuses what there is not."""
    if problem := problem_with(thing, name):
        raise BadParametersError(f"{name[:120]!r} {problem}", to=thing)
    return Thing(thing), quote(name)


# --- questions -----------------------------------------------------------------------------------------------


def question(thing: str, name: str) -> str:
    """What a thing is; the answer is for `value`, `file_facts` or `package_files`."""
    kind, word = check_thing(thing, name)
    match kind:
        case Thing.SETTING:
            namespace, key = name.split("/", 1)
            return f"settings get {namespace} {quote(key)}"
        case Thing.WM:
            return f"wm {name}"
        case Thing.PROPERTY:
            return f"getprop {word}"
        case Thing.PACKAGE:
            return f"pm path {word}"
        case Thing.FILE:
            return (
                f'f={word}; if [ -L "$f" ]; then echo link; elif [ -d "$f" ]; then echo folder\n'
                'elif [ -f "$f" ]; then stat -c "file %a %s" "$f"; elif [ -e "$f" ]; then echo odd\n'
                "else echo absent; fi"
            )


def value(thing: str, name: str, result: ShellResult) -> State | None:
    """The state of a setting, an override or a property; None: a setting that reads `null`, so nobody knows yet."""
    text = _text(result, f"{thing} {name}")
    if thing == Thing.SETTING:
        return None if text == "null\n" else State(text.removesuffix("\n"))
    if thing == Thing.PROPERTY:
        return State(text.removesuffix("\n")) if text.removesuffix("\n") else ABSENT
    override = parse.override_of(name, text)
    if override is None:
        raise UnknownOutcomeError(f"`wm {name}` answered {text[:200]!r}")
    return State(override) if override else ABSENT


def all_settings(name: str) -> str:
    return f"settings list {name.partition('/')[0]}"


def is_listed(name: str, result: ShellResult) -> bool:
    """Whether a setting that reads `null` is there, with just this text as its value."""
    text = _text(result, all_settings(name))
    return f"\n{name.partition('/')[2]}=" in f"\n{text}"


def file_facts(path: str, result: ShellResult) -> PlainFile | None:
    """None: there is no such file."""
    text = _text(result, f"file {path}")
    if found := _FACTS.fullmatch(text):
        return PlainFile(found[1], int(found[2]))
    word = text.strip()
    if word == "absent":
        return None
    if word in _ANSWERS:
        raise FinalError(_ANSWERS[word], to=path, remedy="only plain files are changed by value")
    raise UnknownOutcomeError(f"the emulator answered {text[:200]!r}", to=path)


def package_files(package: str, result: ShellResult) -> tuple[str, ...]:
    """Where the files of a package are; none: it is not installed."""
    if result.rc == 1 and not result.out.strip() and not result.err.strip():
        return ()
    lines = [line.strip() for line in _text(result, f"package {package}").splitlines() if line.strip()]
    if not 0 < len(lines) <= FILES_MAX or not all(line.startswith("package:/") for line in lines):
        raise UnknownOutcomeError(f"`pm path` answered {lines[:5]!r}"[:300], to=package)
    return tuple(line.removeprefix("package:") for line in lines)


def size_of(path: str) -> str:
    return f"stat -c %s {quote(path)}"


def digest_of(path: str) -> str:
    return f"sha256sum <{quote(path)}"


def size(result: ShellResult, path: str) -> int:
    text = _text(result, path).strip()
    found = parse.number(text)
    if found is None:
        raise UnknownOutcomeError(f"its size is {text[:100]!r}", to=path)
    return found


def digest(result: ShellResult, path: str) -> str:
    found = _DIGEST.match(_text(result, path))
    if found is None:
        raise UnknownOutcomeError("the emulator gave no digest", to=path)
    return found[1]


def _text(result: ShellResult, what: str) -> str:
    if len(result.out) > ANSWER_MAX_BYTES:
        raise UnknownOutcomeError(f"the emulator answered with {len(result.out)} bytes, which nothing prints", to=what)
    if result.rc:
        raise UnknownOutcomeError(
            f"cannot be read, rc {result.rc}: {(result.error_text or result.text)[:300]}", to=what
        )
    try:
        return result.out.decode()
    except UnicodeDecodeError as error:
        raise FinalError("its value is not text", to=what, remedy="change it by other means") from error


# --- acts ----------------------------------------------------------------------------------------------------


def making(wanted: Wanted, upload: str = "") -> str:
    """Make a thing what it is to be. `upload`: where the content of a file or a package waits."""
    kind, word = check_thing(wanted.thing, wanted.name)
    state = wanted.state
    valued = kind not in {Thing.FILE, Thing.PACKAGE} and state.there
    if valued and (problem := problem_with_value(kind, wanted.name, state.value)):
        raise BadParametersError(problem, to=wanted.name)
    match kind:
        case Thing.SETTING:
            return _setting(wanted.name, state)
        case Thing.WM:
            return _wm(wanted.name, state)
        case Thing.PROPERTY:
            dashes = "-- " if state.value.startswith("-") else ""
            after = quote(f"{state.value}\nx")
            act = f"setprop {dashes}{word} {quote(state.value)}"
            return f"{{ {act} && q=$(getprop {word} && echo x) && {_is(after)}; }}"
        case Thing.FILE:
            return _file(wanted, upload) if state.there else _no_file(wanted.name)
        case Thing.PACKAGE:
            return _package(wanted, upload) if state.there else _no_package(wanted.name)


def removal(paths: tuple[str, ...]) -> str:
    """Take away what was about to be moved into the places of these files."""
    return "rm -f " + " ".join(quote(spare_of(path)) for path in paths)


def _is(text: str) -> str:
    return f'{{ [ "$q" = {text} ] || {{ echo "it is $q"; false; }}; }}'


def _setting(name: str, state: State) -> str:
    """The added x keeps the line ends at the end of a value."""
    namespace, key = name.split("/", 1)
    place = f"{namespace} {quote(key)}"
    if not state.there:
        return f"{{ settings delete {place} && q=$(settings get {place}) && {_is('null')}; }}"
    after = quote(f"{state.value}\nx")
    return f"{{ settings put {place} {quote(state.value)} && q=$(settings get {place} && echo x) && {_is(after)}; }}"


def _wm(name: str, state: State) -> str:
    """The size of the panel itself is no override."""
    if not state.there:
        return f'{{ wm {name} reset && q=$(wm {name}) && case "$q" in *Override*) echo "$q"; false;; esac; }}'
    return (
        f'{{ wm {name} {state.value} && q=$(wm {name}) && case "$q" in\n'
        f'*"Override {name}: {state.value}") ;;\n'
        f'*Override*) echo "it is $q"; false;;\n'
        f'*"Physical {name}: {state.value}") ;;\n'
        '*) echo "it is $q"; false;;\n'
        "esac; }"
    )


def _file(wanted: Wanted, upload: str) -> str:
    """Beside its place first, which may be on another file system: then into it in one step."""
    if wanted.mode and not _MODE.fullmatch(wanted.mode):
        raise BadParametersError(f"{wanted.mode!r} is no mode", to=wanted.name)
    mode = wanted.mode or '$(stat -c %a "$f" 2>/dev/null || echo 644)'
    return (
        f"{{ f={quote(wanted.name)}; t={quote(upload)}; b={quote(spare_of(wanted.name))}\n"
        f'if [ -d "$f" ] || [ -L "$f" ]; then echo "is no plain file"; exit 1; fi\n'
        'if [ ! -d "${f%/*}/" ]; then echo "there is no folder ${f%/*}"; exit 1; fi\n'
        f"{_whole(wanted.state.value)}"
        f'm={mode}; mv -f "$t" "$b" && {{ chmod "$m" "$b" 2>/dev/null; mv -f "$b" "$f"; }}; }}'
    )


def _no_file(path: str) -> str:
    return (
        f'{{ f={quote(path)}; if [ -d "$f" ] || [ -L "$f" ]; then echo "is no plain file"; exit 1; fi\n'
        f'rm -f "$f" {quote(spare_of(path))} && [ ! -e "$f" ]; }}'
    )


def _whole(expected: str) -> str:
    """Nobody may have touched the upload since."""
    if not _DIGEST.fullmatch(expected):
        raise BadParametersError(f"{expected[:80]!r} is no digest")
    return f's=$(sha256sum <"$t"); if [ "${{s%% *}}" != {expected} ]; then echo "the upload is not whole"; exit 1; fi\n'


def _package(wanted: Wanted, upload: str) -> str:
    again = ""
    if wanted.restoring:
        refused = "*INSTALL_FAILED_VERSION_DOWNGRADE*|*INSTALL_FAILED_UPDATE_INCOMPATIBLE*"
        again = f'case "$p" in {refused}) pm uninstall {quote(wanted.name)}; p=$(pm install "$t" 2>&1);; esac\n'
    return (
        f"{{ t={quote(upload)}; {_whole(wanted.state.value)}"
        f'p=$(pm install -r -d "$t" 2>&1)\n{again}'
        'case "$p" in *Success*) rm -f "$t";; *) echo "$p"; exit 1;; esac; }'
    )


def _no_package(package: str) -> str:
    word = quote(package)
    return (
        f"{{ q=$(pm path {word} 2>&1); if [ $? = 0 ]; then\n"
        f'p=$(pm uninstall {word} 2>&1); case "$p" in *Success*) ;; *) echo "$p"; exit 1;; esac\n'
        f'if pm path {word} >/dev/null 2>&1; then echo "it is part of the system"; exit 1; fi\n'
        'elif [ -n "$q" ]; then echo "$q"; exit 1; fi; }'
    )
