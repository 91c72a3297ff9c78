"""Dataclasses as compact text, and back. Generated from their fields: a new field is carried without a line here.

Equal fields of many values stand in one column, numbers as differences, each distinct text once; then zlib and base85.
So 10,000 waiting tasks with the longest ids take less than 1.5 MB, where 2 MB would wedge a workflow for ever. A column
in which everything has its default is left out.
"""

import base64
import dataclasses
import json
import re
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from itertools import accumulate, chain, pairwise
from types import NoneType, UnionType
from typing import Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

DERIVED = {"derived": True}
"""Metadata of a field that is not carried: whoever loads the value derives it again."""

RAW_MAX = 32 << 20
"""Bytes that a text stands for: a few of them could unpack to gigabytes."""

T = TypeVar("T")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_UUID_CHARS = 22
_PACKED = -1
"""The length that stands for a UUID, whose 36 characters are written as 22."""


def dump(value: object) -> str:
    """A dataclass as text."""
    texts = _Texts()
    columns = _column_of(type(value)).write([value], texts)
    written = json.dumps([texts.write(), columns], separators=(",", ":"), ensure_ascii=False)
    raw = written.encode("utf-8", "surrogatepass")
    packer = zlib.compressobj(6, strategy=zlib.Z_FILTERED)
    return base64.b85encode(packer.compress(raw) + packer.flush()).decode()


def load(text: str, kind: type[T]) -> T:
    """The dataclass that a text stands for. ValueError when it stands for none."""
    try:
        return _read(text, kind)
    except (TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, zlib.error) as error:
        raise ValueError(f"a snapshot that makes no sense: {type(error).__name__}: {str(error)[:200]}") from error


def _read(text: str, kind: type[T]) -> T:
    packed = zlib.decompressobj()
    raw = packed.decompress(base64.b85decode(text), RAW_MAX)
    if packed.unconsumed_tail or not packed.eof:
        raise ValueError(f"a snapshot that is broken, or has more than {RAW_MAX} bytes")
    lengths_and_texts, columns = json.loads(raw.decode("utf-8", "surrogatepass"))
    texts = _Texts.read(*lengths_and_texts)
    (value,) = _column_of(kind).read(columns, 1, texts)
    return value


class _Texts:
    """Each distinct text once, joined; ids are random, so what separates them would cost more than their lengths."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._index: dict[str, int] = {}

    def put(self, text: str) -> int:
        at = self._index.setdefault(text, len(self.all))
        if at == len(self.all):
            self.all.append(text)
        return at

    def write(self) -> list[Any]:
        packed = [_pack_uuid(text) if _UUID.fullmatch(text) else text for text in self.all]
        lengths = [_PACKED if one is not text else len(text) for one, text in zip(packed, self.all, strict=True)]
        return [_differences(lengths), "".join(packed)]

    @classmethod
    def read(cls, differences: list[int], joined: str) -> "_Texts":
        texts, at = cls(), 0
        for length in accumulate(differences):
            end = at + (_UUID_CHARS if length == _PACKED else length)
            texts.all.append(_unpack_uuid(joined[at:end]) if length == _PACKED else joined[at:end])
            at = end
        return texts


def _pack_uuid(uuid: str) -> str:
    return base64.urlsafe_b64encode(bytes.fromhex(uuid.replace("-", ""))).decode().rstrip("=")


def _unpack_uuid(packed: str) -> str:
    digits = base64.urlsafe_b64decode(packed + "==").hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _differences(values: list[int]) -> list[int]:
    return values[:1] + [b - a for a, b in pairwise(values)]


# --- columns --------------------------------------------------------------------------------------------------------


class _Column(Protocol):
    """Many values of one type."""

    def write(self, values: list[Any], texts: _Texts) -> Any: ...

    def read(self, data: Any, count: int, texts: _Texts) -> list[Any]: ...


class _Numbers:
    """Whole numbers, that mostly grow: the first, then by how much each differs from the one before."""

    def __init__(self, kind: type[int]) -> None:
        self._kind = kind

    def write(self, values: list[Any], texts: _Texts) -> Any:  # noqa: ARG002 - texts are interned by others
        return _differences([int(value) for value in values])

    def read(self, data: Any, count: int, texts: _Texts) -> list[Any]:  # noqa: ARG002
        return [self._kind(value) for value in accumulate(data)] if self._kind is not int else list(accumulate(data))


class _Floats:
    def write(self, values: list[Any], texts: _Texts) -> Any:  # noqa: ARG002
        return values

    def read(self, data: Any, count: int, texts: _Texts) -> list[Any]:  # noqa: ARG002
        return list(data)


class _Nothing:
    """The values of a dict that is used as an ordered set."""

    def write(self, values: list[Any], texts: _Texts) -> Any:  # noqa: ARG002
        return 0

    def read(self, data: Any, count: int, texts: _Texts) -> list[Any]:  # noqa: ARG002
        return [None] * count


class _Text:
    def __init__(self, kind: Callable[[str], Any]) -> None:
        self._kind = kind

    def write(self, values: list[Any], texts: _Texts) -> Any:
        return _differences([texts.put(str(value)) for value in values])

    def read(self, data: Any, count: int, texts: _Texts) -> list[Any]:  # noqa: ARG002
        found = [texts.all[at] for at in accumulate(data)]
        return found if self._kind is str else [self._kind(text) for text in found]


class _Optional:
    """Which of the values are there, and those."""

    def __init__(self, inner: _Column) -> None:
        self._inner = inner

    def write(self, values: list[Any], texts: _Texts) -> Any:
        there = [value for value in values if value is not None]
        return [_differences([int(value is not None) for value in values]), self._inner.write(there, texts)]

    def read(self, data: Any, count: int, texts: _Texts) -> list[Any]:  # noqa: ARG002
        flags = list(accumulate(data[0]))
        there = iter(self._inner.read(data[1], sum(flags), texts))
        return [next(there) if flag else None for flag in flags]


class _Many:
    """Lists: how long each is, and all their elements in one column."""

    def __init__(self, kind: Callable[[list[Any]], Any], inner: _Column) -> None:
        self._kind, self._inner = kind, inner

    def write(self, values: list[Any], texts: _Texts) -> Any:
        flat = list(chain.from_iterable(values))
        return [_differences([len(value) for value in values]), self._inner.write(flat, texts)]

    def read(self, data: Any, count: int, texts: _Texts) -> list[Any]:  # noqa: ARG002
        lengths = list(accumulate(data[0]))
        flat = self._inner.read(data[1], sum(lengths), texts)
        ends = list(accumulate(lengths))
        return [self._kind(flat[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


class _Dicts:
    def __init__(self, keys: _Column, values: _Column) -> None:
        self._keys, self._values = _Many(list, keys), _Many(list, values)

    def write(self, values: list[Any], texts: _Texts) -> Any:
        keys = self._keys.write([list(value) for value in values], texts)
        return [keys, self._values.write([list(value.values()) for value in values], texts)]

    def read(self, data: Any, count: int, texts: _Texts) -> list[Any]:
        keys, values = self._keys.read(data[0], count, texts), self._values.read(data[1], count, texts)
        return [dict(zip(*pair, strict=True)) for pair in zip(keys, values, strict=True)]


class _OneOf:
    """Values of several dataclasses: which one each is, and a column for each of them."""

    def __init__(self, kinds: tuple[type, ...]) -> None:
        self._columns = {kind.__name__: _column_of(kind) for kind in kinds}
        self._names = _Text(str)

    def write(self, values: list[Any], texts: _Texts) -> Any:
        by_name: dict[str, list[Any]] = {}
        for value in values:
            by_name.setdefault(type(value).__name__, []).append(value)
        names = self._names.write([type(value).__name__ for value in values], texts)
        return [names, {name: self._columns[name].write(those, texts) for name, those in by_name.items()}]

    def read(self, data: Any, count: int, texts: _Texts) -> list[Any]:
        names = self._names.read(data[0], count, texts)
        found = {name: iter(self._columns[name].read(one, names.count(name), texts)) for name, one in data[1].items()}
        return [next(found[name]) for name in names]


class _Records:
    """Values of one dataclass: a column for each field."""

    def __init__(self, kind: type, parameters: Mapping[Any, Any]) -> None:
        self._kind = kind
        hints = get_type_hints(kind)
        self._fields: list[tuple[str, _Column, Callable[[], Any] | None]] = [
            (one.name, _column_of(_bind(hints[one.name], parameters)), _default(one))
            for one in dataclasses.fields(kind)
            if not one.metadata.get("derived")
        ]

    def write(self, values: list[Any], texts: _Texts) -> Any:
        columns: dict[str, Any] = {}
        for name, column, default in self._fields:
            those = [getattr(value, name) for value in values]
            usual = default() if default is not None else None
            if default is None or any(one != usual for one in those):
                columns[name] = column.write(those, texts)
        return columns

    def read(self, data: Any, count: int, texts: _Texts) -> list[Any]:
        columns: list[list[Any]] = []
        for name, column, default in self._fields:
            if name in data or default is None:
                columns.append(column.read(data[name], count, texts))
            else:
                columns.append([default() for _ in range(count)])
        names = [name for name, _, _ in self._fields]
        if not columns:
            return [self._kind() for _ in range(count)]
        return [self._kind(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def _default(one: "dataclasses.Field[Any]") -> Callable[[], Any] | None:
    """What makes the field's default; None: it has none."""
    if one.default_factory is not dataclasses.MISSING:
        return one.default_factory
    value = one.default
    return None if value is dataclasses.MISSING else lambda: value


def _bind(kind: Any, parameters: Mapping[Any, Any]) -> Any:
    """The type with its type variables filled in."""
    if kind in parameters:
        return parameters[kind]
    open_ones = getattr(kind, "__parameters__", ())
    return kind[tuple(parameters[one] for one in open_ones)] if open_ones and parameters else kind


@cache
def _column_of(kind: Any) -> _Column:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _union(arguments)
    if origin in (list, tuple, deque):
        return _Many(origin, _column_of(arguments[0]))
    if origin in (dict, Mapping):
        return _Dicts(_column_of(arguments[0]), _column_of(arguments[1]))
    if dataclasses.is_dataclass(origin or kind):
        named = origin or kind
        return _Records(named, dict(zip(getattr(named, "__parameters__", ()), arguments, strict=False)))
    return _scalar(kind, origin)


def _union(kinds: tuple[Any, ...]) -> _Column:
    there = tuple(one for one in kinds if one is not NoneType)
    inner = _column_of(there[0]) if len(there) == 1 else _OneOf(there)
    return inner if there == kinds else _Optional(inner)


def _scalar(kind: Any, origin: Any) -> _Column:
    if kind in (int, bool):
        return _Numbers(kind)
    if kind is float:
        return _Floats()
    if kind is None:
        return _Nothing()
    if origin is Literal:
        return _Text(str)
    if isinstance(kind, type) and issubclass(kind, str):
        return _Text(kind)
    raise TypeError(f"a field of type {kind} cannot be carried: say in columns.py how, or mark it as derived")
