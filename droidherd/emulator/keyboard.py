"""Text that `input text` cannot type: by a keyboard app that takes it as a broadcast. Pure: words for the shell.

`input text` sends key presses, and most characters have no key. The clipboard cannot be set from a shell. What is left
is an input method that commits a text it is sent; ADBKeyBoard is the one in wide use, and its broadcast is spoken here.
It is the current keyboard for the moment of typing only. What was there before is written down on the emulator first,
so that it comes back also when whoever typed is gone: whoever lets the emulator go brings it back.
"""

import base64

from droidherd.adb.quote import quote
from droidherd.domain.things import OWN_FOLDER

KEYBOARD = "com.android.adbkeyboard/.AdbIME"
TYPING_S = 10.0
"""How long changing the keyboard, waiting for it and changing back may take."""
LOOKS = 20
LOOK_EVERY_S = 0.1
NO_KEYBOARD = 3
NOT_SHOWN = 4
NOT_TAKEN = 5

_CURRENT = "$(settings get secure default_input_method)"


def typing(text: str, root: str = OWN_FOLDER) -> str:
    """Type a text of any characters into the field that has the focus, with the keyboard as it was afterwards."""
    content = base64.b64encode(text.encode()).decode()
    return (
        f"{{ k={quote(KEYBOARD)}; w={quote(_note(root))}\n"
        f"{_must_be_there()}{_take(root)}"
        f'b=$(am broadcast -a ADB_INPUT_B64 -p "${{k%%/*}}" --es msg {quote(content)} 2>&1)\n'
        f"{_back()}"
        'case "$b" in *"Broadcast completed"*) ;;\n'
        f"*) echo 'the keyboard did not take the text'; exit {NOT_TAKEN};; esac; }}"
    )


def back(root: str = OWN_FOLDER) -> str:
    """Bring back the keyboard that was there before; nothing when it is there. A line of its own that cannot fail."""
    return f"k={quote(KEYBOARD)}; w={quote(_note(root))}\n{_back()}"


def _note(root: str) -> str:
    """Where the keyboard before is written down, and whether ours was enabled for this."""
    return f"{root}/keyboard"


def _must_be_there() -> str:
    name = KEYBOARD.partition("/")[0]
    return (
        "n='\n'\n"
        'case "$n$(ime list -a -s)$n" in *"$n$k$n"*) ;;\n'
        f"*) echo 'no keyboard here types text beyond ASCII: install ADBKeyBoard ({name}) on this emulator'\n"
        f"exit {NO_KEYBOARD};; esac\n"
    )


def _take(root: str) -> str:
    """Make ours the current one, and wait until a text field has it."""
    return (
        f'p={_CURRENT}; e=; case "$n$(ime list -s)$n" in *"$n$k$n"*) ;; *) e=new;; esac\n'
        f'if [ ! -s "$w" ]; then mkdir -p {quote(root)} && echo "$p $e" >"$w" || exit 1; fi\n'
        'ime enable "$k" >/dev/null 2>&1; ime set "$k" >/dev/null 2>&1\n'
        "i=0; while :; do\n"
        "d=$(dumpsys input_method)\n"
        # Which of these names stands there, and with or without a first letter, depends on the version.
        'case "$d" in *urId="$k"*|*urMethodId="$k"*|*electedMethodId="$k"*)\n'
        'case "$d" in *InputShown=true*|*InputViewShown=true*) break;; esac;; esac\n'
        f"i=$((i + 1)); if [ $i -ge {LOOKS} ]; then\n{_back()}"
        "echo 'the keyboard is not shown: no text field has the focus, or show_ime_with_hard_keyboard is off'\n"
        f"exit {NOT_SHOWN}; fi\nsleep {LOOK_EVERY_S}\ndone\n"
    )


def _back() -> str:
    """The one that is gone meanwhile cannot come back: then Android's own choice."""
    return (
        'if [ -s "$w" ]; then\n'
        'read p e <"$w"; ime set "$p" >/dev/null 2>&1\n'
        f'if [ "{_CURRENT}" != "$p" ]; then ime reset >/dev/null 2>&1; fi\n'
        'if [ "$e" = new ]; then ime disable "$k" >/dev/null 2>&1; fi\n'
        'rm -f "$w"\n'
        "fi\n"
    )
