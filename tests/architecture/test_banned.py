import textwrap

import pytest

from tests.architecture import banned
from tests.architecture.imports import imports
from tests.architecture.source import Module, parse, product

BREACHES = [
    ("workflows/a.py", "from datetime import datetime\nx = datetime.now()", "workflow.now()"),
    ("workflows/a.py", "import datetime as dt\nx = dt.datetime.now(dt.UTC)", "workflow.now()"),
    ("workflows/a.py", "import time\ntime.sleep(1)", "workflow.sleep()"),
    ("workflows/a.py", "from time import time as now\nnow()", "workflow.time()"),
    ("workflows/a.py", "import random\nrandom.choice([1])", "workflow.random()"),
    ("workflows/a.py", "import random\nr = random.Random(4)", "workflow.random()"),
    ("workflows/a.py", "from secrets import token_hex", "workflow.random()"),
    ("droidherd/domain/a.py", "from random import Random", "a value the caller passes in"),
    ("workflows/a.py", "import uuid\nuuid.uuid4()", "workflow.uuid4()"),
    ("workflows/a.py", "open('x')", "an activity"),
    (
        "workflows/a.py",
        "from temporalio import workflow\nworkflow.start_activity('x', result_type=str)",
        "workflows.calls",
    ),
    ("workflows/a.py", "from temporalio.workflow import execute_local_activity as do\ndo('x')", "workflows.calls"),
    ("workflows/a.py", "import temporalio.workflow as w\nw.start_child_workflow('x')", "workflows.calls"),
    ("workflows/a.py", "print('x')", "workflow.logger"),
    ("workflows/a.py", "import asyncio\nasyncio.wait([])", "workflow.wait()"),
    ("workflows/a.py", "for x in {'a', 'b'}:\n    pass", "sorted"),
    ("workflows/a.py", "y = [x for x in set('ab')]", "sorted"),
    ("workflows/a.py", "y = list({x for x in 'ab'})", "sorted"),
    ("droidherd/domain/a.py", "y = [*set('ab')]", "sorted"),
    ("droidherd/domain/a.py", "for n, x in enumerate(set('ab') - {'a'}):\n    pass", "sorted"),
    ("droidherd/domain/a.py", "for x in a.union(b):\n    pass", "sorted"),
    ("droidherd/domain/a.py", "import time\ntime.time()", "a value the caller passes in"),
    ("droidherd/domain/a.py", "import random\nrandom.random()", "a value the caller passes in"),
    ("droidherd/domain/a.py", "hash('x')", "a stable digest"),
    ("workflows/a.py", "import os\nx = os.environ['A']", "composition roots"),
    ("droidherd/adb/a.py", "from os import environ\nx = environ['A']", "composition roots"),
    ("droidherd/adb/a.py", "import os\nx = os.getenv('A')", "composition roots"),
    ("droidherd/adb/a.py", "import subprocess\nsubprocess.run('x', shell=True)", "start a process from a list"),
    ("droidherd/adb/a.py", "import subprocess\nsubprocess.run('x', shell=yes)", "start a process from a list"),
    ("droidherd/adb/a.py", "import asyncio\nasyncio.get_event_loop()", "get_running_loop"),
    ("droidherd/adb/a.py", "try:\n    f()\nexcept Exception:\n    g()", "broad except"),
    ("droidherd/adb/a.py", "try:\n    f()\nexcept:\n    g()", "broad except"),
    ("droidherd/adb/a.py", "try:\n    f()\nexcept (OSError, BaseException):\n    g()", "broad except"),
    ("droidherd/adb/a.py", "assert x", "verdict"),
    ("workflows/a.py", "async def f(h):\n    h.signal('x')", "is not awaited"),
    ("workflows/a.py", "async def f():\n    workflow.get_external_workflow_handle('x').cancel()", "is not awaited"),
    ("workflows/a.py", "async def f(h):\n    await asyncio.gather(h.signal('a'), h.signal('b'))", "arrive swapped"),
    ("workflows/a.py", "async def f(h):\n    asyncio.create_task(h.signal('a'))", "arrive swapped"),
    ("api/routes/a.py", "from temporalio.client import Client", "use droidherd.engine"),
    ("activities/other.py", "from temporalio import client", "use droidherd.engine"),
    ("droidherd/flows/a.py", "import temporalio.client", "use droidherd.engine"),
]

HARMLESS = [
    ("workflows/a.py", "from temporalio import workflow\nx = workflow.now()"),
    ("workflows/a.py", "for x in sorted({'a', 'b'}):\n    pass"),
    ("workflows/calls.py", "from temporalio import workflow\nworkflow.start_activity('x')"),
    ("workflows/a.py", "async def f(h):\n    await h.signal('x')"),
    ("workflows/a.py", "def f(task):\n    task.cancel()"),
    ("workflows/a.py", "if 'a' in {'a', 'b'}:\n    pass"),
    ("workflows/a.py", "import datetime\nx: datetime.datetime"),
    ("droidherd/adb/a.py", "import time\ntime.sleep(1)"),
    ("droidherd/adb/a.py", "for x in {'a', 'b'}:\n    pass"),
    ("droidherd/adb/a.py", "try:\n    f()\nexcept OSError:\n    g()"),
    ("droidherd/cli/local/start.py", "import os\nx = os.environ['A']"),
    ("activities/errors.py", "try:\n    f()\nexcept Exception:\n    g()"),
    ("droidherd/engine/tasks.py", "from temporalio.client import Client"),
]


@pytest.mark.parametrize(("path", "text", "expected"), BREACHES)
def test_a_breach_is_found_and_its_replacement_named(path: str, text: str, expected: str):
    found = [one.message for one in banned.findings([parse(path, textwrap.dedent(text))])]
    assert len(found) >= 1
    assert expected in " ".join(found)


@pytest.mark.parametrize(("path", "text"), HARMLESS)
def test_what_is_allowed_is_left_alone(path: str, text: str):
    assert [] == [str(one) for one in banned.findings([parse(path, text)])]


def test_the_product_calls_nothing_banned():
    assert "" == "\n".join(sorted(str(one) for one in banned.findings(product())))


def test_the_ratchet_of_clients_has_no_slack():
    with_client = {module.path for module in product() if "temporalio.client" in {n for _, n in client_imports(module)}}
    assert [] == [path for path in banned.CLIENT_RATCHET if path not in with_client]


def client_imports(module: Module) -> list[tuple[int, str]]:
    return [(line, name.rpartition(".")[0]) for line, name in imports(module)]
