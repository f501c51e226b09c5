#!/usr/bin/env python3
"""Runs test programs and sums their counts into one line, "N passed, N failed[, N skipped]".

Test programs are build/<preset>/bin/test_* (GoogleTest), tests/lint/lint.py and tests/functional/test_*.py. A program that
crashes, hangs or reports nothing counts as one failure. Unit tests run side by side, then tests that wait most of their time
(PATIENT_UNITS, PATIENT), more of them at once, then the others one after the other: they are about time, and each keeps the
machine busy. A test that failed beside others runs AGAIN_TIMES more, alone: if it passes each time it counts as passed, and
the summary calls it unsteady and repeats what it said. Not so a program that crashed (every finding of a sanitizer is a
crash) or hung, nor more than AGAIN_TESTS tests of one call.
Says why tests were skipped and which took longest.
"""
import argparse
import concurrent.futures
import dataclasses
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from quern.processes import TIMEOUT_FACTOR, Ended, end_on_signals, popen

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNIT_TIMEOUT_S = 1200 * TIMEOUT_FACTOR
FUNCTIONAL_TIMEOUT_S = 1200 * TIMEOUT_FACTOR
SLOWEST = 15
AGAIN_TIMES = 2
AGAIN_TESTS = 4
EXCERPT = 1500  # characters shown of a failure
TAIL = 12000  # characters shown of the output of a program that crashed or hung
# Functional tests that wait for most of their time, the longest first.
PATIENT = ["test_tolerance.py", "test_accusers.py", "test_disputes.py", "test_custodians.py", "test_slow_links.py",
           "test_uris.py", "test_plans.py", "test_outcomes.py", "test_held_share.py", "test_stacked.py",
           "test_forced_errors.py", "test_images.py", "test_train.py", "test_statements.py", "test_tranches.py",
           "test_network_market.py", "test_main_job.py", "test_network_staking.py", "test_network_signing.py"]
PATIENT_PER_CPU = 2
# Unit tests with threads, sockets and deadlines of their own. What the others say depends on no clock, so that they may run
# where they get only the time that nobody else wants.
TIMED = {"test_base", "test_compute_client", "test_compute_transfer", "test_compute_worker", "test_node", "test_p2p", "test_rpc"}
# Unit tests that wait for most of their time: they go before functional tests that do.
PATIENT_UNITS = {"test_compute_worker", "test_fuzz_corpus", "test_node", "test_p2p", "test_rpc"}
NEEDS_FIXTURES = {"test_vectors"}  # official vectors are run by CI, which has them
PLAIN_LINE = re.compile(r"^(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)
# Instrumented code is ten times slower; the testing build runs all of these. That planted bugs are found says how good the
# simulator is, a hundred thousand draws how even they are, thousands of finite differences what a gradient is, and none of
# these anything about memory.
SANITIZER_LOAD = {"QUERN_PROPERTY_RUNS": "150",
                  "GTEST_FILTER": "-*PlantedBugs*:GradientTable.*_of_differences:*finite_difference_gradient:"
                                  "Draws.nobody_who_knows_the_beacon_moves_anybody:"
                                  "Draws.tables_are_what_was_bonded_when_their_epoch_began"}
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONPATH": os.path.join(ROOT, "contrib", "python"),
    "PYTHONUNBUFFERED": "1",
}


@dataclasses.dataclass
class Job:
    label: str
    command: list
    timeout: float
    environment: dict
    single: bool = False  # its exit status is all that it reports
    alone: bool = False  # nothing runs beside it, or, of those that wait, another of these alone
    waits: bool = False


@dataclasses.dataclass
class Result:
    job: Job
    passed: int
    failed: int
    skipped: int
    seconds: float
    cpu_seconds: float
    output: str
    status: int = 0  # of the program; below 0: minus the signal that ended it
    unsteady: list = dataclasses.field(default_factory=list)  # (test, what it said when it failed)


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


def skip_reasons(output):
    """(test, reason) of what unittest and GoogleTest say they skipped; a plain "skipped: reason" line counts too."""
    found = [(test, reason) for test, reason in re.findall(r"^(\w+) \(.*?\) \.\.\. skipped ['\"](.*)['\"]$", output, re.M)]
    found += [(test, reason.strip()) for reason, test in
              re.findall(r": Skipped\n(.*(?:\n(?!\[).+)*)\n+\[  SKIPPED \] ([\w./]+)", output)]
    found += [("all", reason) for reason in re.findall(r"^skipped: (.+)$", output, re.M)]
    return found


def failures(output):
    """(test, what it said) of what unittest and GoogleTest say failed, at most EXCERPT characters each."""
    found = re.findall(r"^(?:FAIL|ERROR): (.+)\n-+\n((?:.*\n)*?)(?=\n?(?:=|-){20})", output, re.M)
    found += [(test, said) for said, test in
              re.findall(r"^\[ RUN      \] .+\n((?:(?!\[ RUN ).*\n)*?)\[  FAILED  \] (\w[\w/]*\.[\w./]+).*\(\d+ ms\)$",
                         output, re.M)]
    if not found and (ended := re.search(r"^\[ RUN      \] (.+)\n((?:(?!\[ RUN |\[ {7}OK ).*\n?)*)\Z", output, re.M)):
        return [(ended.group(1), ended.group(2).strip()[:EXCERPT])]  # a program that a sanitizer or a signal ended
    return [(test, said.strip()[-EXCERPT:]) for test, said in found] or [("?", output.strip()[-EXCERPT:])]


def only(job, test):
    """The job that runs nothing but one test of `job`, named as `failures` names it; None where that cannot be said."""
    if unit := re.fullmatch(r"\w+ \(__main__\.(\w+\.\w+)\)", test):
        arguments = [unit.group(1)]
    elif re.fullmatch(r"\w[\w/]*\.[\w./]+", test):
        arguments = [f"--gtest_filter={test}"]
    else:
        return None
    return dataclasses.replace(job, label=f"{job.label} {arguments[0]}", command=[*job.command, *arguments])


def keep_idle(child):
    """Where each session is a group of its own to the scheduler, what runs for idle time alone says so of a child's, too."""
    if os.sched_getscheduler(0) != os.SCHED_IDLE:
        return
    try:
        with open(f"/proc/{child.pid}/autogroup", "w") as file:
            file.write("19")
    except OSError:
        pass  # no such groups here


class Runner:
    def __init__(self):
        self.lock = threading.Lock()
        self.children = set()
        self.ending = False

    def run(self, job):
        """One program's result, or None when all is ending."""
        started = time.monotonic()
        with tempfile.TemporaryFile() as log:
            with self.lock:
                if self.ending:
                    return None
                child = popen(job.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT,
                              env={**os.environ, **ENVIRONMENT, **job.environment}, start_new_session=True)
                self.children.add(child)
            keep_idle(child)
            timer = threading.Timer(job.timeout, self.end_group, [child, signal.SIGKILL])
            timer.start()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            timed_out = not timer.is_alive()
            timer.cancel()
            with self.lock:
                self.children.discard(child)
                if self.ending:
                    return None
            log.seek(0)
            output = log.read().decode(errors="replace")
        if timed_out:
            output += f"\ntimed out after {job.timeout} s\n"
        seconds = time.monotonic() - started
        status = -signal.SIGKILL if timed_out else child.returncode
        result = Result(job, *count(output, status, job.single), seconds, usage.ru_utime + usage.ru_stime, output, status)
        with self.lock:
            self.show(result)
        return result

    @staticmethod
    def show(result):
        print(f"{'ok  ' if result.failed == 0 else 'FAIL'} {result.job.label}: {result.passed} passed, {result.failed} failed, "
              f"{result.skipped} skipped ({result.seconds:.1f} s, {result.cpu_seconds:.1f} on a CPU)", flush=True)
        if result.skipped:
            for test, reason in skip_reasons(result.output) or [("?", "it gives no reason")]:
                print(f"     skipped {test}: {reason}", flush=True)
        if result.failed:
            failed = failures(result.output)
            print(f"     failed {', '.join(test for test, _ in failed)} (exit status {result.status})", flush=True)
            for test, said in failed:
                print(f"--- {test}\n{said}", flush=True)
            if result.status != 1:
                print(f"--- the end of its output\n{result.output[-TAIL:]}", flush=True)

    def run_again(self, results):
        """Runs what failed beside others alone; moves what passes then to the results' `unsteady`."""
        left = AGAIN_TESTS
        for result in results:
            failed = failures(result.output) if result.failed and result.status == 1 and not result.job.single else []
            jobs = [only(result.job, test) for test, _ in failed]
            if not jobs or None in jobs or len(jobs) != result.failed or len(jobs) > left:
                continue
            left -= len(jobs)
            for job, failure in zip(jobs, failed):
                tries = [self.run(job) for _ in range(AGAIN_TIMES)]
                if all(each and (each.passed, each.failed, each.status) == (1, 0, 0) for each in tries):
                    result.unsteady.append(failure)
            result.passed += len(result.unsteady)
            result.failed -= len(result.unsteady)

    @staticmethod
    def end_group(child, how):
        try:
            os.killpg(child.pid, how)
        except ProcessLookupError:
            pass

    def end(self):
        """Asks everything that runs to end, and sees to it."""
        with self.lock:
            self.ending = True
            left = set(self.children)
        for child in left:
            self.end_group(child, signal.SIGTERM)
        end = time.monotonic() + 40
        while self.children and time.monotonic() < end:
            time.sleep(0.05)
        for child in set(self.children):
            self.end_group(child, signal.SIGKILL)

    def run_all(self, jobs, at_once):
        results = []
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool, \
                concurrent.futures.ThreadPoolExecutor(at_once * PATIENT_PER_CPU) as patient:
            try:
                results += pool.map(self.run, [job for job in jobs if not job.alone and not job.waits])
                results += patient.map(self.run, [job for job in jobs if job.waits])
                for job in jobs:
                    if job.alone and not job.waits:
                        results += pool.map(self.run, [job])
                results = [result for result in results if result]
                self.run_again(results)
            except Ended:
                self.end()
                pool.shutdown(cancel_futures=True)
                patient.shutdown(cancel_futures=True)
                raise
        return results


def all_jobs(options):
    jobs = []
    environment = {"QUERN_BIN": os.path.join(ROOT, options.build[0], "bin")} if options.build else {}
    for build in options.build:
        for program in sorted(glob.glob(os.path.join(ROOT, build, "bin", "test_*"))):
            if os.path.basename(program) in NEEDS_FIXTURES:
                continue
            if options.timed and (options.timed == "only") != (os.path.basename(program) in TIMED):
                continue
            label = f"{os.path.basename(build)}/{os.path.basename(program)}"
            load = SANITIZER_LOAD if "san" in os.path.basename(build) else {}
            patience = 3 if options.timed == "without" else 1
            jobs.append(Job(label, [program], UNIT_TIMEOUT_S * patience, {**environment, **load},
                            waits=not load and os.path.basename(program) in PATIENT_UNITS))
    if options.functional:
        simulator = os.path.join(ROOT, options.build[0] if options.build else "", "bin", "quern-sim")
        if os.path.exists(simulator):
            jobs.append(Job("simulation", [simulator, "-n", "1000", "--first-seed", "1"], UNIT_TIMEOUT_S, {}, single=True))
        lint = [sys.executable, os.path.join(ROOT, "tests", "lint", "lint.py")]
        jobs.append(Job("lint", lint, UNIT_TIMEOUT_S, {}, single=True))
        jobs.append(Job("lint --self-test", [*lint, "--self-test"], UNIT_TIMEOUT_S, {}, single=True))
        scripts = sorted(glob.glob(os.path.join(ROOT, "tests", "functional", "test_*.py")), key=os.path.basename)
        for script in sorted(scripts, key=lambda path: [*PATIENT, os.path.basename(path)].index(os.path.basename(path))):
            jobs.append(Job(f"functional/{os.path.basename(script)}", [sys.executable, script], FUNCTIONAL_TIMEOUT_S,
                            environment, alone=True, waits=os.path.basename(script) in PATIENT))
    wanted = re.compile(options.filter)
    return [job for job in jobs if wanted.search(job.label)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", action="append", default=[], help="a build directory; its bin/test_* are run")
    parser.add_argument("--functional", action="store_true", help="also lint and functional tests, on the first build")
    parser.add_argument("--filter", default=".", help="regular expression on the names")
    parser.add_argument("--timed", choices=("only", "without"), help="of the unit tests only those with deadlines, or the others")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="unit tests at once (default: one per CPU)")
    options = parser.parse_args()
    end_on_signals()
    started = time.monotonic()
    try:
        results = Runner().run_all(all_jobs(options), max(1, options.jobs))
    except Ended as ended:
        print(f"ended by {ended}", flush=True)
        return ended.status
    if len(results) > 1:
        print(f"the slowest, of {time.monotonic() - started:.0f} s in all (seconds, of them on a CPU):")
        for result in sorted(results, key=lambda result: -result.seconds)[:SLOWEST]:
            print(f"  {result.seconds:7.1f}  {result.cpu_seconds:7.1f}  {result.job.label}")
    for result in results:
        for test, said in result.unsteady:
            print(f"UNSTEADY {result.job.label}: {test}: it failed beside others and passed {AGAIN_TIMES} times alone\n  " +
                  said.replace("\n", "\n  "))
        if result.failed and len(results) > 1:
            steady = [failure for failure in failures(result.output) if failure not in result.unsteady]
            for test, said in steady:
                print(f"FAILED {result.job.label}: {test}\n  " + said.replace("\n", "\n  "))
    passed, failed, skipped = (sum(getattr(result, what) for result in results) for what in ("passed", "failed", "skipped"))
    if passed + failed + skipped == 0:
        failed = 1
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
