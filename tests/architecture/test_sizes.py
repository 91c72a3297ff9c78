from types import MappingProxyType

import pytest

from tests.architecture import sizes
from tests.architecture.source import everything, parse, product

KNOWN_PARAMETERS = MappingProxyType[str, int](
    {
        "droidherd/emulator/lease.py::seize": 6,
        "droidherd/flows/run/interpreter.py::Interpreter.__init__": 6,
    }
)
"""Functions that may keep more than five parameters. Entries are only ever removed or lowered."""


def lines(count: int, indent: str = "    ") -> str:
    return "".join(f"{indent}x{n} = {n}\n" for n in range(count))


TOO_LONG = [
    ("droidherd/a.py", "def f():\n" + lines(71), "function f() has 71 lines, 70 allowed"),
    ("droidherd/a.py", "async def f():\n" + lines(71), "function f() has 71 lines, 70 allowed"),
    ("droidherd/a.py", "class A:\n  def f(self):\n" + lines(71), "function f() has 71 lines, 70 allowed"),
    ("activities/a.py", "@activity.defn(name='x')\ndef f():\n" + lines(26), "activity f() has 26 lines, 25 allowed"),
    ("api/routes/a.py", "@router.post('/x')\ndef f():\n" + lines(16), "route f() has 16 lines, 15 allowed"),
    ("workflows/a.py", "@workflow.run\nasync def run():\n" + lines(61), "workflow run run() has 61 lines, 60 allowed"),
    ("droidherd/a.py", "x = 1\n" * 801, "801 lines, 800 allowed: split by noun"),
]

FITS = [
    ("droidherd/a.py", "def f():\n" + lines(70)),
    ("activities/a.py", "@activity.defn\ndef f():\n    '''Said\n    at\n    length.'''\n" + lines(25)),
    ("droidherd/engine/gateway.py", "@cache.get\ndef f():\n" + lines(15)),
    ("workflows/a.py", "@workflow.run\nasync def run():\n" + lines(60)),
    ("droidherd/a.py", "x = 1\n" * 800),
]


@pytest.mark.parametrize(("path", "text", "expected"), TOO_LONG)
def test_what_is_too_long_is_found(path: str, text: str, expected: str):
    assert [expected] == [one.message for one in sizes.too_long([parse(path, text)])]


@pytest.mark.parametrize(("path", "text"), FITS)
def test_what_fits_is_left_alone(path: str, text: str):
    assert [] == [str(one) for one in sizes.too_long([parse(path, text)])]


def test_a_sixth_parameter_is_found():
    module = parse("droidherd/a.py", "class A:\n def f(self, a, b, c, *, d, e, g): pass")
    expected = "f() takes 6 parameters, 5 allowed: pass a model"
    assert [expected] == [one.message for one in sizes.too_many_parameters([module], {})]


def test_self_and_what_frameworks_fill_in_do_not_count():
    text = "class A:\n def f(self, a, b, c, d, e): pass\n@app.command()\ndef up(a, b, c, d, e, f): pass"
    assert [] == list(sizes.too_many_parameters([parse("droidherd/a.py", text)], {}))


def test_the_ratchet_lets_a_known_function_be_and_no_wider():
    module = parse("droidherd/a.py", "def f(a, b, c, d, e, g): pass")
    assert [] == list(sizes.too_many_parameters([module], {"droidherd/a.py::f": 6}))
    wider = parse("droidherd/a.py", "def f(a, b, c, d, e, g, h): pass")
    assert 1 == len(list(sizes.too_many_parameters([wider], {"droidherd/a.py::f": 6})))


def test_the_ratchet_knows_methods_by_their_class():
    module = parse("droidherd/a.py", "class A:\n def f(self, a, b, c, d, e, g): pass")
    assert [] == list(sizes.too_many_parameters([module], {"droidherd/a.py::A.f": 6}))
    assert 1 == len(list(sizes.too_many_parameters([module], {"droidherd/a.py::f": 6})))


def test_the_ratchet_tightens_when_a_function_improved():
    module = parse("droidherd/a.py", "def f(a): pass")
    expected = ["droidherd/a.py::f: 1 parameters now, 6 granted: tighten or remove the entry"]
    assert expected == list(sizes.slack([module], {"droidherd/a.py::f": 6}))


def test_everything_keeps_its_size():
    assert "" == "\n".join(sorted(str(one) for one in sizes.too_long(everything())))


def test_five_parameters_by_habit():
    assert "" == "\n".join(sorted(str(one) for one in sizes.too_many_parameters(product(), KNOWN_PARAMETERS)))


def test_the_ratchet_has_no_slack():
    assert [] == list(sizes.slack(product(), KNOWN_PARAMETERS))
