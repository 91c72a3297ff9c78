"""The shell lines through which everything is done to an emulator under a lease. Pure: text in, text out.

Each line guards, acts and answers in one round trip, because what is decided on the host may be stale when the
emulator gets to it. The first line of the answer starts with a marker, `dh:<word>`; return codes alone would be
confused with those of the act. Only what mksh, dash, bash and the virtual emulator share is used, and numbers
above 31 bits are compared as text of fixed width.
"""

import base64
import re
from dataclasses import dataclass
from typing import NoReturn

from droidherd.adb.quote import quote
from droidherd.adb.shell import ShellResult
from droidherd.domain.errors import (
    BadParametersError,
    DiskFullError,
    EmulatorLostError,
    FencedError,
    InfrastructureError,
    LateError,
    NotReleasedError,
    NotSentError,
    UnknownOutcomeError,
)
from droidherd.domain.task.things import OWN_FOLDER
from droidherd.emulator import acts
from droidherd.emulator.token import Token

TOKEN_PROPERTY = "debug.droidherd.token"  # noqa: S105 - the name of a property
FREE_PROPERTY = "debug.droidherd.free"
NAME_PROPERTY = "debug.droidherd.name"
"""The `emulator_id` under which it passed the boot gate: who it is, whatever its address and serial number say."""
UPTIME_LIMIT_S = 2**31 - 1
"""A deadline no emulator lives to see."""

_KEY = re.compile(r"[A-Za-z0-9._-]{1,200}")
_VALUE = re.compile(r"=[A-Za-z0-9_-]{0,800}[.]")
_EFFECT = re.compile(r"[A-Za-z0-9._#/-]{1,64}")


def is_key(text: str) -> bool:
    """Whether it can name a journal."""
    return bool(_KEY.fullmatch(text)) and not text.startswith(".")


@dataclass(frozen=True, slots=True)
class DevicePaths:
    """Where things are on an emulator. Tests run the very lines elsewhere."""

    root: str = OWN_FOLDER
    uptime: str = "/proc/uptime"
    boot_id: str = "/proc/sys/kernel/random/boot_id"
    processes: str = "/proc"

    @property
    def journals(self) -> str:
        return f"{self.root}/j"

    @property
    def uploads(self) -> str:
        """Files on their way. Whatever is in there when a try begins to send some is of nobody."""
        return f"{self.root}/in"

    def journal(self, key: str) -> str:
        if not is_key(key):
            raise BadParametersError(f"{key!r} cannot name a journal")
        return f"{self.journals}/{key}"


ON_ANDROID = DevicePaths()


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One effect in the journal of one try: where it is written down, under which token, until when."""

    key: str
    effect: str
    token: Token
    deadline_uptime_s: int
    begun: bool = False
    """A step of its stage stands in the journal: without one, that journal is lost, and this is no beginning."""

    def __post_init__(self) -> None:
        """Refuse what could be read as more than one word of the journal."""
        if not _EFFECT.fullmatch(self.effect):
            raise BadParametersError(f"{self.effect!r} cannot name an effect")


def seize(token: Token, *, deck: bool, after: int = 0, journal: str = "", places: DevicePaths = ON_ANDROID) -> str:
    """Take the emulator. On deck, only from a lease that said here that it ended, and not before lease `after`.

    Says, once nobody older can write any more, whether there is a `journal` already, and whether a step of the
    token's stage stands in it.
    """
    refuse = 'then echo "dh:held $t"; exit 76; fi\n'
    held = f'  if [ "$(getprop {FREE_PROPERTY})" != "${{t%%.*}}" ]; {refuse}' if deck else ""
    if after:
        held += f'  if [ "${{t%%.*}}" \\< {Token(after).lease_text} ]; {refuse}'
    return (
        f"m={token}; t=$(getprop {TOKEN_PROPERTY})\n"
        'if [ -z "$t" ]; then echo dh:unset; exit 74; fi\n'
        'if [ "$t" \\> "$m" ]; then echo "dh:fenced $t"; exit 75; fi\n'
        + (f'if [ "${{t%%.*}}" != {token.lease_text} ]; then\n{held}fi\n' if held else "")
        + f'if [ "$t" != "$m" ]; then setprop {TOKEN_PROPERTY} "$m"; fi\n'
        f"b=$(getprop {TOKEN_PROPERTY})\n"
        'if [ "$b" != "$m" ]; then echo "dh:fenced $b"; exit 75; fi\n'
        + (_look_for(places.journal(journal), token.stage) if journal else "j=old\n")
        + f"read u x <{quote(places.uptime)}; read i <{quote(places.boot_id)}\n"
        'echo "dh:seized $t $u $i $j"'
    )


def check_name(name: str) -> str:
    """Stop here on an emulator that was introduced by another name: its address led to the wrong one."""
    return _stranger_guard(name) if name else ""


def introduce(name: str, was: str = "") -> str:
    """Give the emulator its name, for what stands behind this line. `was`: a name it may give up for it."""
    if not name:
        return ""
    return _stranger_guard(name, was) + f'if [ "$n" != {_id(name)} ]; then setprop {NAME_PROPERTY} {_id(name)}; fi\n'


def effect(entry: JournalEntry, act: str, places: DevicePaths = ON_ANDROID, value: str = "") -> str:
    """Guard, look into the journal, write the intent, guard again, act, write the result.

    The second guard makes two tries exclude each other: each first says what it is about to do and then looks
    whether the other was there (I write my intent and read the token; the other sets the token and reads intents).
    It also counts the time that writing took. An intent that it stops stays, and somebody will look.

    `value` is one word that is kept with the result.
    """
    if value and not _VALUE.fullmatch(value):
        raise BadParametersError("the value of an effect is one word of letters and digits")
    return (
        _opening(entry, places)
        + 'case "$s" in\n'
        + 'done*|settled*) echo "dh:again $s"; exit 77;;\n'
        + "''|forgotten*) ;;\n"
        + '*) echo "dh:unknown $s"; exit 78;;\n'
        + "esac\n"
        + (_lost_guard(entry) if entry.begun else "")
        + _append("begin $m $$ $i", places)
        # The intent must outlive a crash of the whole emulator; where there is no fsync it is as good as the disk.
        + 'fsync "$f" >/dev/null 2>&1\n'
        + _token_guard(entry.token)
        + _deadline_guard(entry, places)
        + f"o=$({act} </dev/null 2>&1); r=$?\n"
        # Android's services are not up, or not yet again: the act reached nobody.
        + 'case "$r $o" in\n"0 "*) ;;\n'
        + f'*"{NOBODY_THERE}"*) echo "$e forgotten" >>"$f"; echo dh:nobody; exit 80;;\n'
        + "esac\n"
        + f'echo "$e done $r{" " if value else ""}{value}" >>"$f"\n'
        + 'echo "dh:acted $r"; echo "$o"'
    )


def settle(entry: JournalEntry, places: DevicePaths = ON_ANDROID) -> str:
    """Write down that an effect without result happened. One with a result stays as it is."""
    return _append_if_begun(entry, "settled", "", places)


def forget(entry: JournalEntry, places: DevicePaths = ON_ANDROID) -> str:
    """Write down that an effect without result did not happen. One with a result stays as it is.

    A line whose caller gave up may still be at work between intent and act; then nothing can be said yet.
    """
    running = (
        "p=${s#begin * }; q=${p#* }; p=${p%% *}\n"
        f'if [ "$q" = "$i" ] && [ -d {quote(places.processes)}/"$p" ]; then echo "dh:running $s"; exit 78; fi\n'
    )
    return _append_if_begun(entry, "forgotten", running, places)


def recall(entry: JournalEntry, stage: int, places: DevicePaths = ON_ANDROID) -> str:
    """What the journal says about all effects of a stage. No journal: nothing was ever begun."""
    return (
        _token_guard(entry.token)
        + f"f={quote(places.journal(entry.key))}; echo dh:recalled\n"
        + f'if [ -f "$f" ]; then grep {quote(f"^{stage}/")} "$f"; [ "$?" -le 1 ] || exit 78; fi\n'
        + "exit 0"
    )


def ask(token: Token, question: str) -> str:
    """Ask something while the token stands. What comes after the marker, and the return code, are the question's."""
    return _token_guard(token) + f"echo dh:asked\n{{ {question}\n}} </dev/null"


def quiet(token: Token, task: str, places: DevicePaths = ON_ANDROID) -> str:
    """Say whether a line of this task, of whatever run or lease, is still at work here.

    Lines of one task follow each other, so only the last effect of each of its journals can be.
    """
    if not _KEY.fullmatch(task):
        raise BadParametersError(f"{task!r} cannot name a journal")
    return (
        _token_guard(token)
        + f"read i <{quote(places.boot_id)}\n"
        + f"for f in {quote(places.journals)}/{quote(task)}.*; do\n"
        + '  s=$(tail -n 1 "$f" 2>/dev/null); s=${s#* }\n'
        + '  case "$s" in\n'
        + "  begin*)\n"
        + "    p=${s#begin * }; q=${p#* }; p=${p%% *}\n"
        + f'    if [ "$q" = "$i" ] && [ -d {quote(places.processes)}/"$p" ]; then echo "dh:running $s"; exit 78; fi;;\n'
        + "  esac\n"
        + "done\n"
        + "echo dh:quiet"
    )


def guard(token: Token, act: str) -> str:
    """Act while the token stands, without a journal: for what may be repeated."""
    return _token_guard(token) + f"o=$({act} </dev/null 2>&1); r=$?\n" + 'echo "dh:acted $r"; echo "$o"'


def release(token: Token, places: DevicePaths = ON_ANDROID) -> str:
    """Say on the emulator that this lease ended. Only its last try may: a newer one is at work.

    A keyboard that was changed for typing is brought back, should whoever changed it have died.
    """
    return (
        _token_guard(token) + acts.restore_keyboard(places.root) + f"setprop {FREE_PROPERTY} {token.lease_text}\n"
        f'if [ "$(getprop {FREE_PROPERTY})" != {token.lease_text} ]; then echo "dh:refused"; exit 79; fi\n'
        "echo dh:released"
    )


def fence(token: Token) -> str:
    """Shut out everybody below `token`, whoever holds the emulator."""
    return (
        f"m={token}; t=$(getprop {TOKEN_PROPERTY})\n"
        'if [ -z "$t" ]; then echo dh:unset; exit 74; fi\n'
        f'if [ "$t" \\< "$m" ]; then setprop {TOKEN_PROPERTY} "$m"; t=$(getprop {TOKEN_PROPERTY}); fi\n'
        'if [ "$t" \\< "$m" ]; then echo dh:refused; exit 79; fi\n'
        'echo "dh:token $t"'
    )


def floor(token: Token) -> str:
    """After a boot: nobody may act below `token`, and whoever is next finds the emulator free."""
    return (
        f"m={token}; t=$(getprop {TOKEN_PROPERTY})\n"
        'if [ -z "$t" ]; then\n'
        f"  setprop {FREE_PROPERTY} {token.lease_text}; setprop {TOKEN_PROPERTY} $m; t=$(getprop {TOKEN_PROPERTY})\n"
        "fi\n"
        'if [ -z "$t" ]; then echo dh:refused; exit 79; fi\n'
        'echo "dh:token $t"'
    )


def _look_for(path: str, stage: int) -> str:
    """Whether there is a journal (`new`: none), and in it a step of this stage (`old`) or none (`bare`)."""
    file, steps = quote(path), quote(f"^{stage}/[0-9]")
    return f"j=new; if [ -f {file} ]; then j=bare; if grep {steps} {file} >/dev/null; then j=old; fi; fi\n"


def _stranger_guard(*names: str) -> str:
    known = "|".join(_id(name) for name in names if name)
    return f'n=$(getprop {NAME_PROPERTY})\ncase "$n" in ""|{known}) ;; *) echo "dh:stranger $n"; exit 73;; esac\n'


def _id(name: str) -> str:
    if not _KEY.fullmatch(name):
        raise BadParametersError(f"{name!r} cannot name an emulator")
    return quote(name)


def _opening(entry: JournalEntry, places: DevicePaths) -> str:
    """Guard by token and deadline, then read the last words of the journal about this effect into `$s`.

    A journal that cannot be read must not pass for one that says nothing. Reading it with the shell's own `read`
    would take as long as all effects before together.
    """
    if not 0 <= entry.deadline_uptime_s <= UPTIME_LIMIT_S:
        raise BadParametersError(f"{entry.deadline_uptime_s} is not an uptime")
    return (
        _token_guard(entry.token)
        + _deadline_guard(entry, places)
        + f"read i <{quote(places.boot_id)}\n"
        + f"f={quote(places.journal(entry.key))}; e={quote(entry.effect)}; s=\n"
        + 'if [ -f "$f" ]; then\n'
        + f'  s=$(grep {quote("^" + entry.effect.replace(".", "[.]") + " ")} "$f"); r=$?\n'
        + '  if [ "$r" -gt 1 ]; then echo dh:unreadable; exit 78; fi\n'
        + "  n='\n'\n"
        + '  s=${s##*"$n"}; s=${s#* }\n'
        + "fi\n"
    )


def _token_guard(token: Token) -> str:
    return (
        f"m={token}; t=$(getprop {TOKEN_PROPERTY})\n"
        'if [ "$t" != "$m" ]; then\n'
        '  if [ -z "$t" ]; then echo dh:unset; exit 74; fi\n'
        '  echo "dh:fenced $t"; exit 75\n'
        "fi\n"
    )


def _deadline_guard(entry: JournalEntry, places: DevicePaths) -> str:
    return (
        f"read u x <{quote(places.uptime)}\n"
        f'if [ "${{u%%.*}}" -gt {entry.deadline_uptime_s} ]; then echo "dh:late $u"; exit 76; fi\n'
    )


def _lost_guard(entry: JournalEntry) -> str:
    """A journal that began anew amid a stage would say of its first steps that nothing was done."""
    steps = quote(f"^{entry.token.stage}/[0-9]")
    return f'if ! grep {steps} "$f" >/dev/null 2>&1; then echo dh:lost; exit 79; fi\n'


def _append(words: str, places: DevicePaths) -> str:
    """Write to the journal or stop; its folder may have been swept away together with all temporary files."""
    line = f'echo "$e {words}"'
    return (
        f'if {line} 2>/dev/null >>"$f"; then :\n'
        f'elif mkdir -p {quote(places.journals)} && {line} >>"$f"; then :\n'
        "else echo dh:unwritten; exit 79; fi\n"
    )


def _append_if_begun(entry: JournalEntry, word: str, unless: str, places: DevicePaths) -> str:
    return (
        _opening(entry, places)
        + 'case "$s" in\n'
        + "begin*)\n"
        + unless
        + _append(word, places)
        + ";;\n"
        + "esac\n"
        + 'echo "dh:written $s"'
    )


# --- values kept in the journal: one word each, which says by itself when it broke off. `=` begins it and `.` ends it;
# between them stands the text, as UTF-8 in base 64 for URLs.

VALUE_MAX = 100
"""Characters: a line of a journal is read again and again."""


def word_of(value: str) -> str:
    """The word that keeps a value; none for the empty value."""
    if not value:
        return ""
    if len(value) > VALUE_MAX:
        raise BadParametersError(f"a value of {len(value)} characters is too long for a journal, {VALUE_MAX} are not")
    return f"={base64.urlsafe_b64encode(value.encode()).decode().rstrip('=')}."


def value_of(word: str) -> str | None:
    """The value that a word keeps; none when it broke off."""
    if not word:
        return ""
    if not (word.startswith("=") and word.endswith(".")):
        return None
    text = word[1:-1]
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except ValueError:  # not ASCII, not base 64, or not UTF-8
        return None


# --- what the lines answered, and which error that is

MARK = "dh:"
REPLY_MAX = 4_000
"""Characters of the line that begins with it."""
NOBODY_THERE = "Can't find service"
"""What a command says that reached nobody: Android's services are not up, or not yet again."""


@dataclass(frozen=True, slots=True)
class ShellReply:
    """The marker, the words after it, and what the act itself printed."""

    word: str
    rest: tuple[str, ...]
    output: str
    error_output: str

    @classmethod
    def of(cls, result: ShellResult, to: str) -> "ShellReply":
        """Only a line that got as far as its marker said anything; without one nobody knows what it did."""
        first, _, output = result.text.replace("\r\n", "\n").partition("\n")
        words = first.removeprefix(MARK).split() if first.startswith(MARK) and len(first) <= REPLY_MAX else []
        if not words:
            shown = (first or result.error_text).strip()[:200]
            raise UnknownOutcomeError(f"the emulator's shell answered {shown!r}, rc {result.rc}", to=to)
        return cls(words[0], tuple(words[1:]), output.strip(), result.error_text.strip())

    def refuse(self, to: str) -> NoReturn:
        """Raise what a marker that is not success means."""
        detail = " ".join(self.rest)
        _refuse_who(self.word, detail, to)
        match self.word:
            case "nobody":
                raise NotSentError("its services are not up", to=to)
            case "late":
                raise LateError(f"the deadline had passed at uptime {detail}", to=to)
            case "unknown":
                raise UnknownOutcomeError(f"the journal holds an intent without a result: {detail}", to=to)
            case "unreadable":
                raise UnknownOutcomeError(f"the journal cannot be read: {self.error_output}", to=to)
            case "running":
                raise UnknownOutcomeError("the emulator is still carrying it out", to=to)
            case "lost":
                raise InfrastructureError("the journal of this stage was removed while it ran", to=to)
            case "unwritten":
                raise DiskFullError(
                    f"the journal cannot be written: {self.error_output or 'no reason given'}",
                    to=to,
                    remedy="free space on the emulator",
                )
            case _:
                raise InfrastructureError(f"the emulator answered {self.word} {detail}".strip(), to=to)


def _refuse_who(word: str, detail: str, to: str) -> None:
    """Not this emulator, or not by this token."""
    match word:
        case "stranger":
            raise EmulatorLostError(f"{detail} answers in its place", to=to)
        case "unset":
            raise FencedError("the emulator has no token: it was restarted", to=to)
        case "fenced":
            raise FencedError(f"token {detail} holds the emulator", to=to)
        case "held":
            raise NotReleasedError(f"token {detail} has not said that it ended", to=to)
        case _:
            pass
