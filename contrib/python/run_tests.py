#!/usr/bin/env python3
"""Runs test programs and sums their counts into one line, "N passed, N failed[, N skipped]".

Test programs are build/<preset>/bin/test_* (GoogleTest), tests/lint/lint.py and tests/functional/test_*.py. A program that
crashes, hangs or reports nothing counts as one failure.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNIT_TIMEOUT_S = 600
FUNCTIONAL_TIMEOUT_S = 1200
NEEDS_FIXTURES = {"test_vectors"}  # official vectors are run by CI, which has them
PLAIN_LINE = re.compile(r"^(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)
SANITIZER_LOAD = {"QUERN_PROPERTY_RUNS": "500"}  # instrumented code is ten times slower; the release build runs them all
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONPATH": os.path.join(ROOT, "contrib", "python"),
    "PYTHONUNBUFFERED": "1",
}


def count(output, status, single):
    """(passed, failed, skipped) of one program's output and exit status; `single`: the status is all there is."""
    if single:
        return (1, 0, 0) if status == 0 else (0, 1, 0)
    if lines := PLAIN_LINE.findall(output):
        passed, failed, skipped = (int(n or 0) for n in lines[-1])
    else:
        number = lambda pattern: sum(int(n) for n in re.findall(pattern, output, re.M))
        passed = number(r"^\[  PASSED  \] (\d+) tests?\.")
        failed = number(r"^\[  FAILED  \] (\d+) tests?, listed below")
        skipped = number(r"^\[  SKIPPED \] (\d+) tests?, listed below")
    if status != 0 and failed == 0:
        failed = 1
    if passed + failed + skipped == 0:
        failed = 1
    return passed, failed, skipped


def run(label, command, timeout, environment, single):
    started = time.monotonic()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=timeout, env={**os.environ, **ENVIRONMENT, **environment}, cwd=ROOT)
        output, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired as expired:
        output = (expired.stdout or b"").decode(errors="replace") + f"\ntimed out after {timeout} s\n"
        status = -1
    result = count(output, status, single)
    seconds = time.monotonic() - started
    print(f"{'ok  ' if result[1] == 0 else 'FAIL'} {label}: {result[0]} passed, {result[1]} failed, {result[2]} skipped "
          f"({seconds:.1f} s)", flush=True)
    if result[1] != 0:
        print(output[-20000:], flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", action="append", default=[], help="a build directory; its bin/test_* are run")
    parser.add_argument("--functional", action="store_true", help="also lint and functional tests, on the first build")
    parser.add_argument("--filter", default=".", help="regular expression on the names")
    options = parser.parse_args()
    wanted = re.compile(options.filter)
    jobs = []
    for build in options.build:
        for program in sorted(glob.glob(os.path.join(ROOT, build, "bin", "test_*"))):
            if os.path.basename(program) in NEEDS_FIXTURES:
                continue
            label = f"{os.path.basename(build)}/{os.path.basename(program)}"
            jobs.append((label, [program], UNIT_TIMEOUT_S, SANITIZER_LOAD if "san" in os.path.basename(build) else {}))
    if options.functional:
        simulator = os.path.join(ROOT, options.build[0] if options.build else "", "bin", "quern-sim")
        if os.path.exists(simulator):
            jobs.append(("simulation", [simulator, "-n", "1000", "--first-seed", "1"], UNIT_TIMEOUT_S, {}))
        lint = os.path.join(ROOT, "tests", "lint", "lint.py")
        jobs.append(("lint", [sys.executable, lint], UNIT_TIMEOUT_S, {}))
        jobs.append(("lint --self-test", [sys.executable, lint, "--self-test"], UNIT_TIMEOUT_S, {}))
        for script in sorted(glob.glob(os.path.join(ROOT, "tests", "functional", "test_*.py"))):
            jobs.append((f"functional/{os.path.basename(script)}", [sys.executable, script], FUNCTIONAL_TIMEOUT_S, {}))
    environment = {"QUERN_BIN": os.path.join(ROOT, options.build[0], "bin")} if options.build else {}
    total = [0, 0, 0]
    for label, command, timeout, load in jobs:
        if wanted.search(label):
            total = [a + b for a, b in zip(total, run(label, command, timeout, {**environment, **load}, label.startswith(("lint", "simulation"))))]
    if sum(total) == 0:
        total[1] = 1
    print(f"{total[0]} passed, {total[1]} failed" + (f", {total[2]} skipped" if total[2] else ""), flush=True)
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
