import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.emulator.token import Token

tokens = st.builds(Token, st.integers(0, 10**15 - 1), st.integers(0, 999), st.integers(0, 999))


@given(tokens, tokens)
def test_order_as_text_is_order_as_numbers(one: Token, other: Token):
    assert (one < other) == (str(one) < str(other))


@given(tokens)
def test_the_text_form_reads_back(token: Token):
    assert token == Token.parse(str(token))


def test_the_text_form_has_a_fixed_width():
    assert "000001790000000.001.002" == str(Token(1_790_000_000, 1, 2))


@pytest.mark.parametrize(
    "text", ["", "1.1.1", "000001790000000.001", "00000179000000x.001.001", " 000001790000000.001.001"]
)
def test_anything_else_is_not_a_token(text: str):
    with pytest.raises(ValueError, match="not a token"):
        Token.parse(text)


@pytest.mark.parametrize("parts", [(10**15, 0, 0), (-1, 0, 0), (0, 1000, 0), (0, 0, 1000)])
def test_numbers_beyond_the_width_are_refused(parts: tuple[int, int, int]):
    with pytest.raises(ValueError, match="expected 0 to"):
        Token(*parts)
