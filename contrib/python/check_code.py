"""What contrib/check-code.sh runs: clang-format, a clang build of src with thread-safety analysis, clang-tidy."""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

BUILD = "build/testing"
SOURCES = (".cpp", ".h", ".inc")
# What g++ is given and clang does not know, or what would make two objects of one source differ.
GCC_ONLY = {"-mgeneral-regs-only", "-Wno-maybe-uninitialized"}
CLANG = ["-O0", "-Werror", "-Wthread-safety", "-Wno-unused-command-line-argument",
         # Boost 1.74 does not see clang's coroutines by itself.
         "-DBOOST_ASIO_HAS_CO_AWAIT", "-DBOOST_ASIO_HAS_STD_COROUTINE"]
# Where the page of long runs tells which commit the last full clang-tidy saw.
FULL_TIDY = re.compile(r"^\| full clang-tidy \| `([0-9a-f]{7,40})`", re.M)


def tracked(*folders):
    out = subprocess.run(["git", "ls-files", "-z", *folders], capture_output=True, check=True, text=True).stdout
    return [path for path in out.split("\0") if path.endswith(SOURCES) and os.path.exists(path)]


def run_all(name, jobs):
    """jobs: (label, command, folder). Runs as many at a time as there are CPUs; prints what fails; gives the exit code."""
    failed = 0

    def run(job):
        label, command, folder = job
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        return label, done.returncode, done.stdout + done.stderr

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for label, code, output in pool.map(run, jobs):
            if code != 0:
                failed += 1
                print(f"FAIL {name}: {label}\n{output[-4000:]}")
    print(f"{len(jobs) - failed} passed, {failed} failed")
    return 1 if failed else 0


def commands():
    """Path below the root -> (folder, the compiler's arguments without compiler, cache, output and source)."""
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    found = {}
    for entry in entries:
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]))
        words = shlex.split(entry["command"])
        start = next(i for i, word in enumerate(words) if not word.startswith("-") and "ccache" not in word) + 1
        arguments, skip = [], False
        for word in words[start:]:
            if skip:
                skip = False
            elif word in ("-o", "-c"):
                skip = True
            elif word not in GCC_ONLY and not re.fullmatch(r"-O[0-3s]|-Werror", word):
                arguments.append(word)
        found.setdefault(path, (entry["directory"], arguments))
    return found


def clang_format():
    return run_all("format", [(path, ["clang-format", "--dry-run", "-Werror", path], ".") for path in tracked("src", "tests")])


def clang():
    jobs = []
    cache = ["ccache"] if subprocess.run(["sh", "-c", "command -v ccache"], capture_output=True).returncode == 0 else []
    for path, (folder, arguments) in sorted(commands().items()):
        if not path.startswith("src/") or path.startswith("src/compute/torch/"):
            continue
        out = os.path.abspath(os.path.join("build/clang", path + ".o"))
        os.makedirs(os.path.dirname(out), exist_ok=True)
        jobs.append((path, [*cache, "clang++", *arguments, *CLANG, "-o", out, "-c", os.path.abspath(path)], folder))
    return run_all("clang", jobs)


def changed_files():
    """Files of src that differ from the last full run's commit; all of them when it is not known."""
    try:
        with open("doc/long-runs.md", encoding="utf-8") as file:
            commit = FULL_TIDY.search(file.read())
    except FileNotFoundError:
        commit = None
    if not commit:
        return None
    done = subprocess.run(["git", "diff", "--name-only", commit.group(1), "--", "src"], capture_output=True, text=True)
    return set(done.stdout.split()) if done.returncode == 0 else None


def tidy(everything):
    changed = None if everything else changed_files()
    paths = [path for path in sorted(commands()) if path.startswith("src/") and not path.startswith("src/compute/torch/")]
    if changed is not None:
        paths = [path for path in paths if path in changed]
    jobs = [(path, ["clang-tidy", "--quiet", "-p", BUILD, "--extra-arg=-Wno-unknown-warning-option",
                    "--extra-arg=-DBOOST_ASIO_HAS_CO_AWAIT", "--extra-arg=-DBOOST_ASIO_HAS_STD_COROUTINE", path], ".")
            for path in paths]
    return run_all("tidy", jobs)


def main():
    arguments = sys.argv[1:]
    if arguments == ["format"]:
        return clang_format()
    if arguments == ["clang"]:
        return clang()
    if arguments in (["tidy"], ["tidy", "--all"]):
        return tidy("--all" in arguments)
    if arguments in (["-h"], ["--help"]):
        print(open("contrib/check-code.sh", encoding="utf-8").read().split("set -euo")[0])
        return 0
    print("check-code: one of format, clang, tidy [--all]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
