"""Elements of a screen as targets: each target means one element, and it is the right one."""

from droidherd.domain.ports import Frame
from droidherd.flows.model.steps.registry import STEPS
from droidherd.flows.model.targets import Target
from droidherd.flows.run.finder import find_element
from droidherd.flows.run.look import Look
from droidherd.flowtools.elements import inspect_elements, written_target
from droidherd.vision.tree import parse

NODES = (
    ("[0,0][1280,720]", "android.widget.FrameLayout", "", "", "", "false"),
    ("[100,100][300,200]", "android.widget.Button", "com.a:id/ok", "OK", "", "true"),
    ("[100,300][300,400]", "android.widget.Button", "com.a:id/row", "Claim", "", "true"),
    ("[100,500][300,600]", "android.widget.Button", "com.a:id/row", "Claim", "", "true"),
    ("[500,500][600,600]", "android.widget.ImageView", "", "", "5 $ off", "true"),
    ("[700,500][800,600]", "android.view.View", "", "", "", "true"),
    ("[0,0][0,0]", "android.view.View", "com.a:id/unseen", "hidden", "", "true"),
)
DUMP = "<hierarchy>{}</hierarchy>".format(
    "".join(
        f'<node bounds="{bounds}" class="{kind}" resource-id="{id_}" text="{text}" content-desc="{about}" '
        f'clickable="{clickable}"/>'
        for bounds, kind, id_, text, about, clickable in NODES
    )
)


def test_each_element_with_a_mark_has_a_target_of_its_own():
    found = inspect_elements(DUMP)
    assert [
        "{ui: {id: ok}}",
        "{ui: {id: row, index: 0}}",
        "{ui: {id: row, index: 1}}",
        "{ui: {description: 5 $$ off}}",
        "{ui: {class: View}}",
    ] == [written_target(one.target) for one in found]
    assert (15.64, 20.86, "Button", "OK") == (*found[0].place, found[0].kind, found[0].words)
    look = Look(Frame(1280, 720, bytes(1280 * 720 * 4), 0.0), lambda: DUMP)
    for one in found:
        wanted = Target.model_validate({"ui": dict(one.target)}).ui
        assert wanted is not None
        box = find_element(look, wanted, None).box
        assert one.attributes["bounds"] == f"[{box.x},{box.y}][{box.x + box.width},{box.y + box.height}]"
    assert STEPS.validate_python([{"tap": {"ui": dict(one.target)}} for one in found])
    assert () == inspect_elements("<hierarchy></hierarchy>")
    assert 7 == len(parse(DUMP))
