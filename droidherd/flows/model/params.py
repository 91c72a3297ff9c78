"""What a submitter may say: declared by the flow, checked before anything is queued, put into steps as data."""

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, JsonValue, model_validator

from droidherd.domain.errors import BadParametersError, FlowError
from droidherd.domain.text import nearest
from droidherd.flows import patterns
from droidherd.flows.model.part import FlowPart

NAME_PATTERN = r"^[a-z][a-z0-9_]{0,47}$"
ACCOUNT = "account"
"""The parameter that is the task's account. A flow need not declare it, and nobody can set it otherwise."""
INTEGER_MAX = 2**53
"""Beyond this, JSON readers round."""
_PLACEHOLDER = re.compile(r"\$\$|\$\{([^}]*)\}")
_VARIANTS = r"(-([a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*"
_LOCALE = re.compile(rf"([a-z]{{2,3}})(-[A-Z][a-z]{{3}})?(-([A-Z]{{2}}|[0-9]{{3}}))?{_VARIANTS}")
_LANGUAGES = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo
es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik in io is it iu iw ja ji
jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne
ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st
su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu agq ast asa bem bez
bgc bho brx ccp ceb cgg chr ckb dav dje doi dsb dua dyo ebu ewo fil fur gsw guz haw hsb jgo jmc kab kam kde kea kgp
khq kln kok ksb ksf ksh lag lij lkt lrc luo luy mai mas mer mfe mgh mgo mni mua mzn naq nds nmg nnh nus nyn pcm prg
rof rwk sah saq sat sbp seh ses shi smn syr teo twq tzm vai vun wae xog yav yrl yue zgh
"""
LANGUAGES = frozenset(_LANGUAGES.split())
"""Of ISO 639: those of two letters, also old ones that Android still says, and those of three letters it knows."""
_REGIONS = """
AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC
CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD
GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH
KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW
MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC
SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY
UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW
"""
REGIONS = frozenset(_REGIONS.split())
"""Of ISO 3166-1, and Kosovo."""
AREAS = frozenset({"001", "150", "419"})
"""The world, Europe and Latin America: the areas that stand for a region in locales."""


def time_zone_problem(text: str) -> str:
    """Empty, or why it is none."""
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "is not a time zone: write one as in Asia/Tokyo, or UTC"
    return ""


def locale_problem(text: str) -> str:
    """Empty, or why it is none."""
    found = _LOCALE.fullmatch(text)
    if found is None:
        return "is not a locale: write one as in ja-JP, or zh-Hant-TW"
    if found[1] not in LANGUAGES:
        return f"names no language: {found[1]}"
    if found[4] is not None and found[4] not in REGIONS | AREAS:
        return f"names no region: {found[4]}"
    return ""


FORMATS = MappingProxyType({"time_zone": time_zone_problem, "locale": locale_problem})
"""What a text can have to name, as Android understands it, so that nobody sets an emulator to a place that is none."""


class Param(FlowPart):
    """One parameter. Without a default it has to be given."""

    type: Literal["string", "integer", "number", "boolean"] = "string"
    default: str | int | float | bool | None = None
    example: str | int | float | bool | None = Field(default=None, description="stands in when the flow is checked")
    about: str = Field(default="", max_length=500)
    min: float | None = None
    max: float | None = None
    pattern: str | None = Field(default=None, max_length=200, description="of the whole text")
    choices: tuple[str | int | float, ...] | None = Field(default=None, min_length=1, max_length=100)
    format: Literal["time_zone", "locale"] | None = Field(default=None, description="of a text: it has to name one")
    max_length: int = Field(default=1000, ge=1, le=10_000)

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        numeric = self.type in {"integer", "number"}
        if not numeric and (self.min is not None or self.max is not None):
            raise ValueError(f"min and max go with numbers, not with {self.type}")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"nothing is at least {self.min:g} and at most {self.max:g}")
        textual = self.pattern is not None or self.format is not None or "max_length" in self.model_fields_set
        if self.type != "string" and textual:
            raise ValueError(f"pattern, format and max_length go with strings, not with {self.type}")
        if self.pattern is not None:
            try:
                patterns.compile_pattern(self.pattern)
            except ValueError as error:
                raise ValueError(f"the pattern {error}") from error
        for value in (*(self.choices or ()), self.default, self.example):
            if value is None:
                continue
            if problem := self.problem(value):
                raise ValueError(f"{value!r} does not fit the parameter itself: {problem}")
        return self

    def problem(self, value: JsonValue) -> str:
        """Empty, or what is wrong with a value. Never quotes it: it may be a secret."""
        wrong = self._wrong_type(value)
        if wrong:
            return wrong
        if self.choices is not None and value not in self.choices:
            return f"must be one of {', '.join(str(choice) for choice in self.choices)}"
        return self._wrong_text(value) if isinstance(value, str) else self._wrong_number(value)

    def sample(self) -> JsonValue:
        """Some value that fits as far as one can be made up, for checking the flow itself."""
        given = self.default if self.example is None else self.example
        if given is not None:
            return given
        if self.choices is not None:
            return self.choices[0]
        if self.type == "boolean":
            return True
        if self.type == "string":
            return "sample"
        low = self.min if self.min is not None else min(1.0, self.max if self.max is not None else 1.0)
        return math.ceil(low) if self.type == "integer" else low

    def _wrong_type(self, value: JsonValue) -> str:
        good = {
            "string": isinstance(value, str),
            "boolean": isinstance(value, bool),
            "integer": _is_integer(value),
            "number": _is_integer(value) or (isinstance(value, float) and math.isfinite(value)),
        }[self.type]
        article = "an" if self.type == "integer" else "a"
        return "" if good else f"must be {article} {self.type}"

    def _wrong_text(self, value: str) -> str:
        if len(value) > self.max_length:
            return f"has {len(value)} characters, at most {self.max_length} are allowed"
        if any(unicodedata.category(char) in {"Cc", "Cs"} for char in value):
            return "contains a control character"
        if self.pattern is not None and (problem := _unlike(self.pattern, value)):
            return problem
        return FORMATS[self.format](value) if self.format is not None else ""

    def _wrong_number(self, value: JsonValue) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return ""
        if self.min is not None and value < self.min:
            return f"must be at least {self.min:g}"
        if self.max is not None and value > self.max:
            return f"must be at most {self.max:g}"
        return "" if abs(value) <= INTEGER_MAX else "is too large"


def for_account(given: Mapping[str, JsonValue], account: str) -> dict[str, JsonValue]:
    """The parameters of a flow that acts for an account, with that account among them.

    BadParametersError: there is none, or they name another one.
    """
    named = given.get(ACCOUNT, account)
    if named != account:
        task_account = f"account {account}" if account else "no account"
        what = f"names {str(named)[:80]!r}, and the task acts for {task_account}"
        raise BadParametersError(what, to=f"params.{ACCOUNT}", remedy=f"leave it out, and set the task's `{ACCOUNT}`")
    if not account:
        raise BadParametersError("is missing: this task type acts for one", to=ACCOUNT, remedy="name the account")
    return {**given, ACCOUNT: account}


def checked_params(declared: Mapping[str, Param], given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Every declared parameter with its value. BadParametersError names the field."""
    for name in given:
        if name not in declared:
            near = nearest(name, declared)
            hint = f"did you mean {near}?" if near else f"known are: {', '.join(sorted(declared)) or 'none'}"
            raise BadParametersError("is not a parameter of this task type", to=f"params.{name[:60]}", remedy=hint)
    values: dict[str, JsonValue] = {}
    for name, param in declared.items():
        value = given.get(name, param.default)
        if value is None and name not in given:
            raise BadParametersError("is missing", to=f"params.{name}", remedy=param.about or f"a {param.type}")
        if problem := param.problem(value):
            raise BadParametersError(problem, to=f"params.{name}")
        values[name] = value
    return values


def placeholders(text: str) -> Iterator[str]:
    """The names asked for by `${name}`; `$$` is a dollar sign."""
    return (found[1] for found in _PLACEHOLDER.finditer(text) if found[1] is not None)


def is_unclosed(text: str) -> bool:
    """Whether it has a `${` that nothing closes."""
    return "${" in _PLACEHOLDER.sub(" ", text)


def substitute(value: JsonValue, params: Mapping[str, JsonValue]) -> JsonValue:
    """Put the parameters into every text inside `value`. Values go in as they are and are not read again."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: "$" if found[1] is None else _text(params[found[1]]), value)
    if isinstance(value, list):
        return [substitute(item, params) for item in value]
    if isinstance(value, dict):
        return {key: substitute(item, params) for key, item in value.items()}
    return value


def _unlike(pattern: str, value: str) -> str:
    try:
        return "" if patterns.fullmatch(patterns.compile_pattern(pattern), value) else f"must match {pattern}"
    except FlowError as error:
        return str(error)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _is_integer(value: object) -> bool:
    """And one that any shell, screen or JSON reader can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INTEGER_MAX
