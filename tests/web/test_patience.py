"""What `Retry-After` asks for."""

import pytest

from droidherd.web.client import patience_s

NOW = 1_700_000_000.0
"""Tue, 14 Nov 2023 22:13:20 GMT."""


@pytest.mark.parametrize(
    ("header", "date", "expected"),
    [
        ("7", "", 7.0),
        (" 120 ", "", 120.0),
        ("0", "", 0.0),
        ("Tue, 14 Nov 2023 22:14:20 GMT", "", 60.0),
        ("Tue, 14 Nov 2023 22:14:20 GMT", "Tue, 14 Nov 2023 22:14:05 GMT", 15.0),
        ("Tue, 14 Nov 2023 22:14:20 -0000", "", 60.0),
        ("Tue, 14 Nov 2023 22:12:00 GMT", "", 0.0),
        ("", "", 0.0),
        ("soon", "", 0.0),
        ("-5", "", 0.0),
        ("\u0667", "", 0.0),
        ("Tue, 99 Nov 2023 22:14:20 GMT", "", 0.0),
        ("Tue, 14 Nov 2023 22:14:20 GMT", "nonsense", 60.0),
    ],
)
def test_seconds_and_moments_are_understood_and_nothing_else(header: str, date: str, expected: float):
    assert expected == patience_s(header, date, NOW)
