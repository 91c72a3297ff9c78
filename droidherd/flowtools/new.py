"""A new flow: a folder that lints clean and says how to go on."""

import os
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from droidherd.domain.errors import BadParametersError
from droidherd.flows.loading.folder import FILE
from droidherd.flows.model.params import NAME_PATTERN
from droidherd.flows.model.schema import schema_text
from droidherd.flows.model.steps.apps import App
from droidherd.flowtools.words import is_name

_APP: TypeAdapter[str] = TypeAdapter(App)
SCHEMA = "flow.schema.json"
SCREEN = "screen.png"
"""Where a picture of the screen to cut images from is kept: beside the flows, since it is no image of the flow."""

_TEXT = """\
# yaml-language-server: $schema=../{schema}
# What a flow can say: docs/flows.md. Your editor knows it too, by the line above.
flow: {name}
about: Say in one sentence what it does.
app: {app}
{recorded}\
policy: {{time_limit: 3m, retries: 1}}
stages:
  # A stage is never run again once it completed. Make one of what belongs together.
  - stage: open
    on_ambiguous: repeat                 # when nobody can tell whether an act happened: ask, fail or repeat
    steps:
      - start_app: {{}}                  # with an image: start_app: {{then: {{image: title.png, within: 30s}}}}
      - screenshot: {{name: opened}}          # a picture that is kept
      # Put images beside this file, and go on like this:
      # - tap: {{image: gift.png, then: {{image: ok.png, within: 10s}}}}
      # - repeat: {{while: {{image: claim.png}}, at_most: 20, do: [{{tap: {{image: claim.png}}}}]}}
  # - stage: collect
  #   steps:
  #     - start_app: {{}}                # cleanup closes the app at a pause and before a retry
cleanup:
  - stop_app: {{}}
"""


def write(root: Path, name: str, app: str = "com.example.herd", recorded: tuple[int, int] | None = None) -> Path:
    """Make the flow's folder below `root`, and put the schema beside it. Returns the flow's file."""
    check_name(name)
    check_app(app)
    file = root / name / FILE
    if file.exists():
        raise BadParametersError("is there already", to=str(file), remedy="choose another name")
    file.parent.mkdir(parents=True, exist_ok=True)
    lay_schema(root)
    screen = f"recorded: {recorded[0]}x{recorded[1]}" if recorded else ""
    size = f"{screen:<38} # the screen that images are cut from\n" if recorded else ""
    file.write_text(_TEXT.format(schema=SCHEMA, name=name, app=app, recorded=size), encoding="utf-8")
    return file


def lay_schema(root: Path) -> Path:
    """Editors find it there, also offline; written again when it is another one."""
    path, text = root / SCHEMA, schema_text()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        draft = path.with_name(f".{SCHEMA}-{os.getpid()}")
        draft.write_text(text, encoding="utf-8", newline="\n")
        draft.replace(path)
    return path


def check_name(name: str) -> None:
    if not is_name(name):
        remedy = "lower case letters, digits and _, beginning with a letter"
        raise BadParametersError(f"{name[:60]!r} is not a name ({NAME_PATTERN})", to="flow", remedy=remedy)


def check_app(app: str) -> None:
    try:
        _APP.validate_python(app)
    except ValidationError as error:
        remedy = "a package as in com.example.game, or package/activity"
        raise BadParametersError(f"{app[:60]!r} is not an app", to="--app", remedy=remedy) from error
