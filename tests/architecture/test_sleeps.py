from tests.architecture import sleeps
from tests.architecture.source import everything, parse

CEILING = 10
TESTED = {
    "tests/workflows/test_guard.py": "who is heard first is decided by a head start",
    "tests/workflows/plays.py": "silence beyond a time-out is what these stand-ins play",
}

BREACHES = [
    "import time\ntime.sleep(0.1)",
    "from asyncio import sleep\nasync def f():\n    await sleep(1)",
    "import time\nWAIT_S = 2.0\ntime.sleep(WAIT_S)",
    "import time\ndef f(seconds):\n    time.sleep(seconds)",
]
HARMLESS = [
    "import time\ntime.sleep(0.05)",
    "import asyncio\nPOLL_S = 0.02\nasync def f():\n    await asyncio.sleep(POLL_S)",
]


def count(text: str, path: str = "tests/a/test_b.py") -> int:
    return len(list(sleeps.findings([parse(path, text)], {})))


def test_a_long_sleep_is_found_and_a_poll_is_not():
    assert [1] * len(BREACHES) == [count(text) for text in BREACHES]
    assert [0] * len(HARMLESS) == [count(text) for text in HARMLESS]
    assert 0 == count(BREACHES[0], "tests/chaos/test_b.py")


def test_make_test_hardly_sleeps():
    found = sorted(str(one) for one in sleeps.findings(everything(), TESTED))
    assert len(found) <= CEILING, "\n".join(found)
