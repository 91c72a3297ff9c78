"""Every rule that the linter knows. A new rule is a function that is listed here.

What a single step says of itself is in its own `lint` (`model/steps`); `stages.steps` asks them all.
"""

from droidherd.flows.lint import screens, stages, uses, written
from droidherd.flows.lint.inspection import Rule

WRITTEN: tuple[Rule, ...] = (
    written.parameters,
    written.images,
    written.files,
    written.changes_by_value,
    written.nesting,
)
"""On the document, so that they speak also where it cannot be parsed."""

PARSED: tuple[Rule, ...] = (
    stages.name_of_folder,
    stages.needs_ocr,
    stages.misread,
    stages.names_of_stages,
    stages.times,
    stages.steps,
    stages.cleanup,
    stages.on_the_way,
    screens.screens,
    screens.routes,
    screens.interrupts,
    screens.names_of_screens,
)
"""On a flow whose every piece is sound by itself."""

LOADED: tuple[Rule, ...] = (uses.used_flows,)
"""On a flow without an error, together with those it uses."""
