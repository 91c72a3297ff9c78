"""Which time zones and locales there are."""

import pytest

from droidherd.flows.model.params import locale_problem, time_zone_problem


@pytest.mark.parametrize("text", ["UTC", "Asia/Tokyo", "America/Argentina/Buenos_Aires", "Etc/GMT+8"])
def test_a_time_zone_is_known(text: str):
    assert "" == time_zone_problem(text)


@pytest.mark.parametrize(
    "text", ["", "Mars/Olympus", "Asia", "Asia/Tokio", "../../etc/passwd", "/etc/localtime", "a\0b"]
)
def test_what_is_no_time_zone_is_refused(text: str):
    assert "is not a time zone" in time_zone_problem(text)


@pytest.mark.parametrize("text", ["de", "ja-JP", "zh-Hant-TW", "es-419", "fil-PH", "ca-ES-valencia", "en-001", "iw-IL"])
def test_a_locale_is_known(text: str):
    assert "" == locale_problem(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("xx-JP", "names no language: xx"),
        ("ja-XX", "names no region: XX"),
        ("en-999", "names no region: 999"),
        ("ja_JP", "is not a locale"),
        ("JA-jp", "is not a locale"),
        ("Tokyo", "is not a locale"),
        ("ja-JP,en-US", "is not a locale"),
        ("", "is not a locale"),
    ],
)
def test_what_is_no_locale_is_refused_with_what_is_wrong(text: str, problem: str):
    assert problem in locale_problem(text)
