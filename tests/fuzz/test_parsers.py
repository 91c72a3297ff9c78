"""Nothing that an emulator, a flow, a file or the network says costs more than it may, or raises what nobody awaits."""

import re

import pytest

from tests.fuzz import driver
from tests.fuzz.parsers import PARSERS, Parser

INPUTS = 300


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_a_parser_refuses_nonsense_in_its_own_words_and_within_its_limits(parser: Parser):
    with driver.limits():
        outcome = driver.run_fixed(parser, INPUTS, seed=1)
    assert [] == [str(finding) for finding in outcome.findings]
    assert outcome.inputs > INPUTS


def test_what_a_parser_is_given_is_the_same_for_the_same_seed():
    parser = PARSERS[0]
    given: list[list[bytes]] = [[], []]
    for kept in given:
        spy = Parser(parser.name, kept.append, lambda: [b"seed"], ())
        driver.run_fixed(spy, 50, seed=3)
    assert given[0] == given[1]
    assert 40 < len(set(given[0]))


def test_the_driver_finds_what_is_slow_what_is_large_and_what_raises():
    def bad(data: bytes) -> None:
        if data == b"slow":
            while True:
                pass
        if data == b"large":
            bytearray(driver.MEMORY_MAX_BYTES * 2)
        if data == b"wrong":
            raise KeyError("x")

    parser = Parser("none", bad, lambda: [b"slow", b"large", b"wrong", b"good"], ())
    with driver.limits():
        outcome = driver.run_fixed(parser, 0, seed=1)
    assert [b"slow", b"large", b"wrong"] == [finding.data for finding in outcome.findings]
    assert ["TooSlowError", "MemoryError", "KeyError"] == [
        finding.error.partition(":")[0] for finding in outcome.findings
    ]


def test_the_driver_keeps_what_reaches_new_code():
    known = next(one for one in PARSERS if one.name == "tree")
    outcome = driver.run_guided(Parser("none", known.read, lambda: [b"<hierarchy><nodes a='1'/>"], ()), 1.5, seed=1)
    assert [] == outcome.findings
    assert outcome.kept


def test_every_file_of_the_corpus_belongs_to_a_parser_and_is_small():
    folders = {path.name: [*path.iterdir()] for path in driver.CORPUS.iterdir()}
    assert set(folders) <= {parser.name for parser in PARSERS}
    assert [] == [path for files in folders.values() for path in files if path.stat().st_size > driver.CORPUS_MAX_BYTES]
    assert max(len(files) for files in folders.values()) <= driver.CORPUS_MAX_FILES


def test_the_documented_table_names_every_parser():
    page = (driver.ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert [parser.name for parser in PARSERS] == re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE)
