from collections.abc import Callable, Iterable

import pytest

from tests.architecture import structure
from tests.architecture.source import Module, everything, parse, product

CEILINGS = {
    "doubles": 0,
    "fragments": 15,
    "loose": 3,
    "old_run_switches": 0,
    "inheritance": 0,
    "passed_through": 0,
}
"""Wanted: 10, 15, 4, 0, 0, 0. Lowered whenever the code allows it, and never raised."""

Count = Callable[[Iterable[Module]], Iterable[object]]
COUNTS: dict[str, Count] = {
    "doubles": structure.doubles,
    "fragments": structure.fragments,
    "loose": structure.loose,
    "old_run_switches": structure.old_run_switches,
    "inheritance": structure.inheritance,
    "passed_through": structure.passed_through,
}


@pytest.mark.parametrize("name", CEILINGS)
def test_the_structure_keeps_below_its_ceiling(name: str):
    found = sorted(map(str, COUNTS[name](product())))
    assert len(found) <= CEILINGS[name], "\n".join(found)


def test_the_name_of_a_test_fits_into_a_line():
    assert "" == "\n".join(sorted(map(str, structure.long_test_names(everything()))))


def test_a_class_name_that_is_defined_twice_is_found():
    modules = [parse("droidherd/a.py", "class One: ..."), parse("api/b.py", "class One: ...\nclass Two: ...")]
    assert {"One": ["droidherd/a.py", "api/b.py"]} == structure.doubles(modules)


def test_a_small_module_that_one_other_imports_is_found():
    modules = [
        parse("droidherd/x/__init__.py", ""),
        parse("droidherd/x/once.py", "A = 1"),
        parse("droidherd/x/twice.py", "B = 1"),
        parse("droidherd/x/long.py", "C = 1\n" * 100),
        parse("api/a.py", "from droidherd.x import long, once\nfrom droidherd.x.twice import B"),
        parse("api/b.py", "import droidherd.x.twice"),
    ]
    found = list(structure.fragments(modules))
    assert ["droidherd/x/once.py (1 lines) is imported by api.a alone"] == found


def test_a_module_beside_the_packages_is_found():
    paths = ["droidherd/__init__.py", "droidherd/settings.py", "droidherd/adb/client.py", "worker_main.py"]
    assert ["droidherd/settings.py"] == structure.loose([parse(path, "") for path in paths])


def test_a_switch_for_old_runs_is_found():
    text = "from temporalio import workflow\nif workflow.patched('x'): pass"
    assert 1 == len(list(structure.old_run_switches([parse("workflows/a.py", text)])))


def test_an_import_that_the_sandbox_does_not_look_into_is_found():
    text = "from temporalio import workflow\nwith workflow.unsafe.imports_passed_through():\n    import a"
    assert 1 == len(list(structure.passed_through([parse("workflows/a.py", text)])))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("class A: ...\nclass B(A): ...", 1),
        ("class A: ...\nclass B(A): ...\nclass C(B): ...", 2),
        ("class A(Exception): ...\nclass B(A): ...", 0),
        ("from enum import StrEnum\nclass A(StrEnum): ...\nclass B(A): ...", 0),
        ("from droidherd.contracts.base import Contract\nclass A(Contract): ...\nclass B(A): ...", 0),
        ("from typing import Protocol\nclass A(Protocol): ...\nclass B(A): ...", 0),
        ("from typing import Generic\nclass A(Generic[T]): ...\nclass B(A[int]): ...", 1),
    ],
)
def test_a_class_that_inherits_from_the_product_is_found(text: str, count: int):
    assert count == len(list(structure.inheritance([parse("droidherd/domain/a.py", text)])))
    assert [] == list(structure.inheritance([parse("droidherd/adb/a.py", text)]))


def test_a_long_name_of_a_test_is_found():
    module = parse("tests/a/test_b.py", f"def test_{'a' * 67}(): ...\ndef test_{'a' * 68}(): ...")
    assert [2] == [one.line for one in structure.long_test_names([module])]
