import json
import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.flows.loading.document import DEPTH_MAX, SIZE_MAX, BadYamlError, parse_document
from droidherd.flows.model.scalars import format_duration, parse_duration

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_every_value_knows_its_line() -> None:
    document = parse_document(b"flow: a\nstages:\n  - stage: one\n    steps:\n      - tap:\n          image: x.png\n")
    assert 1 == document.line_of(("flow",))
    assert 4 == document.line_of(("stages", 0, "steps"))
    assert 6 == document.line_of(("stages", 0, "steps", 0, "tap", "image"))


def test_what_is_missing_is_reported_where_it_belongs() -> None:
    document = parse_document(b"flow: a\nstages:\n  - stage: one\n")
    assert 3 == document.line_of(("stages", 0, "steps", 7, "tap"))
    assert 1 == document.line_of(("nothing",))


def test_an_alias_stands_for_its_value_at_each_place() -> None:
    document = parse_document(b"a: &x [1, 2]\nb: *x\n")
    assert {"a": [1, 2], "b": [1, 2]} == document.data


@pytest.mark.parametrize(
    ("line", "what", "text"),
    [
        (2, "key 'a' stands here twice", "a: 1\na: 2\n"),
        (3, "key 'x' stands here twice", "b:\n  x: 1\n  x: 2\n"),
        (1, "is empty", ""),
        (1, "is empty", "# nothing\n"),
        (2, "reads as a timestamp, which a flow cannot hold", "a: 1\nb: 2020-01-01\n"),
        (1, "a number must be finite", "a: .inf"),
        (1, "a key must be text", "1: a"),
        (1, "a key must be text", "on: a"),
        (1, "a key must be text", "? [a]\n: 1"),
        (1, "merge keys are not supported", "<<: {a: 1}"),
        (1, "reads as a !python/object:os.system, which a flow cannot hold", "a: !python/object:os.system x"),
        (1, "tag !thing is not supported", "a: !thing {b: 1}"),
        (1, "unfolds into too much", "a: &a [*a]"),
        (1, "'x' does not fit its tag", "!!int x"),
        (1, "contains half a character", r'"\ud800"'),
        (2, "is not YAML: mapping values are not allowed here", "a: 1\nb: c: d\n"),
        (1, f"more than {DEPTH_MAX} levels deep", "[" * 5000),
        (1, f"more than {SIZE_MAX} bytes", "a" * (SIZE_MAX + 1)),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(line: int, what: str, text: str) -> None:
    with pytest.raises(BadYamlError) as caught:
        parse_document(text.encode())
    assert (line, what) == (caught.value.line, caught.value.what)


def test_aliases_that_unfold_into_millions_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(BadYamlError, match="unfolds into too much"):
        parse_document("\n".join(lines).encode())


def test_a_file_that_is_not_utf8_is_refused_with_its_line() -> None:
    with pytest.raises(BadYamlError, match="is not UTF-8") as caught:
        parse_document(b"a: 1\nb: \xff\n")
    assert 2 == caught.value.line


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_arbitrary_content_is_read_or_refused_and_nothing_else(content: str | bytes) -> None:
    whole = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    try:
        document = parse_document(whole)
    except BadYamlError as error:
        line = error.line
    else:
        json.dumps(document.data, allow_nan=False).encode()
        line = 1
    assert line >= 1


@settings(max_examples=150, deadline=None)
@given(st.text("[]{}:,-*&!|>?#'\"%@ \n\tab1.<", max_size=60))
def test_text_made_of_yamls_own_characters_is_read_or_refused(text: str) -> None:
    try:
        document = parse_document(text.encode())
    except BadYamlError as error:
        line = error.line
    else:
        json.dumps(document.data, allow_nan=False)
        line = 1
    assert line >= 1


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_what_json_can_say_survives_yaml(value: object) -> None:
    text = yaml.safe_dump(value)
    assert value == parse_document(text.encode()).data


@given(st.integers(1, 10**8), st.sampled_from([("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)]))
def test_a_duration_is_its_number_times_its_unit(number: int, unit: tuple[str, float]) -> None:
    assert math.isclose(number * unit[1], parse_duration(f"{number}{unit[0]}"))


@given(st.integers(0, 10**9))
def test_a_duration_that_is_written_reads_back_to_the_millisecond(thousandths: int) -> None:
    assert math.isclose(thousandths / 1000, parse_duration(format_duration(thousandths / 1000)), abs_tol=1e-9)


@pytest.mark.parametrize(
    "text", ["", "10", "s", "-1s", "1d", "1e3s", "1 s", "\u0661s", "1.2345s", "nan s", "1s2s", "10S"]
)
def test_what_is_no_duration_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write a number and a unit, as in 500ms, 10s, 2m or 1h"):
        parse_duration(text)


@given(st.text(max_size=30))
def test_arbitrary_text_is_a_duration_or_a_value_error(text: str) -> None:
    try:
        assert parse_duration(text) >= 0
    except ValueError as error:
        words = str(error)
    else:
        return
    assert "is not a duration" in words
