"""Fuzz the parsers.

python -m tests.fuzz                       every parser, an hour each (`make fuzz`)
python -m tests.fuzz --seconds 60 apk      one of them, for a minute
"""

import argparse
import json
import sys

from tests.fuzz import driver


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parser", nargs="*", help="only these")
    parser.add_argument("--seconds", type=float, default=3_600.0, help="for each")
    parser.add_argument("--inputs", type=int, default=0, help="so many mutations of fixed seeds instead of a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--own", action="store_true", help="without atheris, though it is there")
    parser.add_argument("--keep", action="store_true", help="put what reached new code into tests/fuzz/corpus")
    options = parser.parse_args()
    guided = driver.has_atheris() and not options.own
    if not options.inputs:
        sys.stderr.write("with atheris\n" if guided else "without atheris (pip install -e '.[fuzz]'): own driver\n")
    findings = 0
    for one in driver.chosen(options.parser):
        if options.inputs:
            with driver.limits():
                outcome = driver.run_fixed(one, options.inputs, options.seed)
        elif guided:
            outcome = driver.run_atheris(one, options.seconds, options.seed)
        else:
            with driver.limits():
                outcome = driver.run_guided(one, options.seconds, options.seed)
        kept = driver.keep(one, outcome.kept) if options.keep else 0
        line = {"parser": one.name, "inputs": outcome.inputs, "new": len(outcome.kept), "kept": kept,
                "slowest_s": round(outcome.slowest_s, 3), "findings": len(outcome.findings)}  # fmt: skip
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        for finding in outcome.findings:
            sys.stdout.write(f"  {finding}\n")
        findings += len(outcome.findings)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
