from pathlib import Path

import pytest

from droidherd.flows.lint.judge import lint
from tests.flows.test_lint import HEAD, flow_at, png


@pytest.mark.parametrize(
    ("step", "picture", "expected"),
    [
        (
            "tap: {image: a.png}",
            png(flat=True),
            "a.png: is nearly uniform and would fit anywhere (cut a piece with detail)",
        ),
        ("tap: {image: a.png}", png(5, 5), "a.png: 5x5 pixels are too few (cut a larger piece)"),
        (
            "tap: {image: a.png}",
            png(1300, 40),
            "a.png: 1300x40 does not fit into a screen of 1280x720 (correct `recorded`)",
        ),
        (
            "tap: {image: a.png, area: [0, 0, 10, 2]}",
            png(),
            "a.png: 20x20 does not fit into its area: 128x14 of 1280x720 (cut a smaller piece or widen the area)",
        ),
        (
            "wait: {gone: a.png, expect: [50, 50, 51, 51], area: [0, 0, 100, 100], within: 1s}",
            png(60, 20),
            "a.png: 60x20 does not fit into its expect: 37x31 of 1280x720 (cut a smaller piece or widen the expect)",
        ),
        (
            "tap: {feature: a.png}",
            png(7, 7),
            (
                "a.png: has 0 features, at least 12 are needed "
                "(cut a larger piece with more detail, or seek it as an image)"
            ),
        ),
        (
            "tap: {image: a.png}",
            png()[:50],
            "a.png: cannot be decoded: a PNG that ends in the middle (save it as PNG)",
        ),
    ],
)
def test_an_image_that_no_look_could_find_is_an_error_before_anything_runs(
    tmp_path: Path, step: str, picture: bytes, expected: str
) -> None:
    folder = flow_at(tmp_path / "demo", HEAD.replace("stages", "recorded: 1280x720\nstages") + f"      - {step}\n")
    (folder / "a.png").write_bytes(picture)
    assert [f"{folder}/flow.yaml:7: error: {expected}"] == [str(one) for one in lint([folder])]


def test_an_image_is_judged_also_where_something_else_is_wrong(tmp_path: Path) -> None:
    folder = flow_at(tmp_path / "demo", f"{HEAD}      - tap: {{image: a.png}}\n      - tpa: {{}}\n")
    (folder / "a.png").write_bytes(png(flat=True))
    assert [6, 7] == [one.line for one in lint([folder])]


def test_an_image_fits_the_screen_that_its_name_says(tmp_path: Path) -> None:
    text = HEAD.replace("stages", "recorded: 320x180\nstages") + "      - tap: {image: a@1280x720.png}\n"
    folder = flow_at(tmp_path / "demo", text)
    (folder / "a@1280x720.png").write_bytes(png(400, 40))
    assert [] == lint([folder])
