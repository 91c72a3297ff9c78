"""Runs in Airtest's own environment: one question per line of input, one answer per line of output."""

# pyright: reportMissingImports=false

import json
import logging
import sys
import time

import cv2
import numpy as np
from airtest.core.cv import Template  # type: ignore[import-not-found]

logging.disable(logging.CRITICAL)


def main() -> None:
    """Until the input ends."""
    for line in sys.stdin:
        question = json.loads(line)
        screen = np.load(question["screen"])
        began_s = time.perf_counter()
        template = Template(question["template"], resolution=tuple(question["resolution"]))
        try:
            centre = template.match_in(screen)
        except cv2.error:
            # Some of its matchers do not expect that they found nothing. To its user that is no match.
            centre = None
        time_ms = (time.perf_counter() - began_s) * 1000
        words = {"centre": [float(one) for one in centre] if centre else None, "time_ms": time_ms}
        sys.stdout.write(json.dumps(words) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
