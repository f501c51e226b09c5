"""What contrib/check-code.sh runs: clang-format, a clang build of src with thread-safety analysis, clang-tidy,
the form of commits."""
import concurrent.futures
import hashlib
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
# Boost 1.74 does not see clang's coroutines by itself.
COROUTINES = ["-DBOOST_ASIO_HAS_CO_AWAIT", "-DBOOST_ASIO_HAS_STD_COROUTINE"]
CLANG = ["-fsyntax-only", "-Werror", "-Wthread-safety"]
# Left out: clang 14 takes libtorch as C++17 alone.
WITH_TORCH = ("src/compute/torch/", "src/compute/torchscript/", "src/bin/quern_torchscript.cpp")
# What clang is given, for clang-tidy to read.
CLANG_BUILD = "build/clang"
# Headers that most sources read: clang reads them once, for all of its looks at the sources. What a source forgets to include
# is g++'s to say, which knows nothing of this.
PRECOMPILED = ["algorithm", "array", "atomic", "chrono", "cstdint", "filesystem", "functional", "map", "memory", "mutex",
               "optional", "random", "set", "span", "string", "string_view", "thread", "unordered_map", "variant", "vector"]
NEWEST = 20  # commits
MAX_SUBJECT = 72
SUBJECT = re.compile(r"[a-z][a-z0-9_./, -]*: \S.*[^.]")
# Where the page of long runs tells which commit the last full clang-tidy saw.
FULL_TIDY = re.compile(r"^\| full clang-tidy \| `([0-9a-f]{7,40})`", re.M)


def tracked(*folders):
    out = subprocess.run(["git", "ls-files", "-z", *folders], capture_output=True, check=True, text=True).stdout
    return [path for path in out.split("\0") if path.endswith(SOURCES) and os.path.exists(path)]


class Passed:
    """Which checks passed before on the same bytes, as ccache knows of compilations: a file in the user's cache for each key,
    of the tool, its arguments and every file that a source includes. Sources without a known list are checked each time."""

    FOLDER = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "quern-checks")
    LARGEST = 20_000  # files; more are thrown away, the oldest first

    def __init__(self, *tools):
        self.includes = included_files()
        self.hashes = {}
        self.tools = "\0".join(subprocess.run([tool, "--version"], capture_output=True, text=True).stdout for tool in tools)
        os.makedirs(self.FOLDER, exist_ok=True)
        kept = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(self.FOLDER))
        for _, path in kept[:max(0, len(kept) - self.LARGEST)]:
            os.unlink(path)

    def hash_of(self, path):
        if path not in self.hashes:
            with open(path, "rb") as file:
                self.hashes[path] = hashlib.sha256(file.read()).hexdigest()
        return self.hashes[path]

    def file(self, label, command, more=()):
        """Where it is written that this passed; None where that cannot be said. `more`: other files that it reads."""
        if not self.includes.get(label):
            return None
        words = [word.replace(os.getcwd(), ".") for word in command]
        try:
            read = [self.hash_of(path) for path in [*self.includes[label], *more]]
        except OSError:
            return None
        key = hashlib.sha256("\0".join([self.tools, *words, *read]).encode()).hexdigest()
        return os.path.join(self.FOLDER, key)


def included_files():
    """Source -> what its compilation read, as the testing build knows it."""
    said = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], capture_output=True, text=True).stdout
    found = {}
    for block in said.split("\n\n"):
        paths = [os.path.normpath(os.path.join(BUILD, line.strip())) for line in block.splitlines()[1:]]
        if paths and block.splitlines()[0].rstrip().endswith("(VALID)"):
            found[os.path.relpath(paths[0])] = paths
    return found


def run_all(name, jobs):
    """jobs: (label, command, folder[, file of Passed]). Runs as many at a time as there are CPUs; prints what fails; gives the
    exit code."""
    failed = 0

    def run(job):
        label, command, folder, *passed = job
        mark = passed[0] if passed else None
        if mark and os.path.exists(mark):
            os.utime(mark)
            return label, 0, ""
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if mark and done.returncode == 0:
            with open(mark, "w", encoding="utf-8") as file:
                file.write(label)
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


def clang_arguments(entries):
    """`entries`: path -> (folder, arguments). The same with what clang is given besides: PRECOMPILED, but where a file is for
    other processors than the rest."""
    os.makedirs(CLANG_BUILD, exist_ok=True)
    header = os.path.abspath(os.path.join(CLANG_BUILD, "precompiled.h"))
    with open(header, "w", encoding="utf-8") as file:
        file.writelines(f"#include <{name}>\n" for name in PRECOMPILED)
    made = {}  # the arguments that matter -> the compiled header, or None where clang refuses
    result = {}
    for path, (folder, arguments) in entries.items():
        arguments = [*arguments, *COROUTINES, "-Wno-unused-command-line-argument"]
        if any(word.startswith("-m") for word in arguments):
            result[path] = (folder, arguments)
            continue
        key = tuple(sorted({word for word in arguments if word.startswith(("-std", "-f", "-D", "-pthread"))}))
        if key not in made:
            out = os.path.abspath(os.path.join(CLANG_BUILD, f"precompiled{len(made)}.pch"))
            done = subprocess.run(["clang++", *arguments, "-x", "c++-header", header, "-o", out], cwd=folder,
                                  capture_output=True)
            made[key] = out if done.returncode == 0 else None
        use = ["-include-pch", made[key]] if made[key] else []
        result[path] = (folder, [*arguments, *use])
    return result


def clang():
    entries = {path: entry for path, entry in sorted(commands().items())
               if path.startswith("src/") and not path.startswith(WITH_TORCH)}
    passed = Passed("clang++")
    jobs = []
    for path, (folder, arguments) in clang_arguments(entries).items():
        command = ["clang++", *arguments, *CLANG, os.path.abspath(path)]
        jobs.append((path, command, folder, passed.file(path, command, [__file__])))
    return run_all("clang", jobs)


def git(*arguments):
    """What git says, or None when it refuses."""
    done = subprocess.run(["git", *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def base_commit():
    """The commit since which changes are looked at: $QUERN_BASE; or where this branch left origin/main; or, on main itself
    and in a fresh clone of it, the commit of the last full run; or the oldest of the newest 20 commits that are here."""
    if given := os.environ.get("QUERN_BASE"):
        return given
    head = git("rev-parse", "HEAD")
    fork = git("merge-base", "HEAD", "origin/main")
    if fork and fork != head:
        return fork
    with open("doc/long-runs.md", encoding="utf-8") as file:
        full = FULL_TIDY.search(file.read())
    if full and git("merge-base", "--is-ancestor", full.group(1), "HEAD") is not None:
        return full.group(1)
    newest = (git("rev-list", "--first-parent", "-n", str(NEWEST), "HEAD") or "").split()
    return newest[-1] if newest else None


def sources_of(changed, known):
    """The source files whose compilation shows the changed ones: themselves, and for a header its own file or one that
    includes it."""
    found = {path for path in changed if path in known}
    for path in changed:
        if not path.endswith((".h", ".inc")):
            continue
        own = os.path.splitext(path)[0] + ".cpp"
        if own in known:
            found.add(own)
            continue
        line = f'#include "{path[len("src/"):]}"'
        for source in sorted(known):
            with open(source, encoding="utf-8") as file:
                if line in file.read():
                    found.add(source)
                    break
    return found


def tidy(everything):
    known = commands()
    paths = {path for path in known if path.startswith("src/") and not path.startswith(WITH_TORCH)
             and os.path.exists(path)}
    if not everything:
        base = base_commit()
        changed = git("diff", "--name-only", "--diff-filter=d", base, "--", "src") if base else None
        if changed is None:
            print(f"FAIL tidy: no commit {base} here")
            print("0 passed, 1 failed")
            return 1
        paths = sources_of(changed.split(), paths)
        print(f"tidy: {len(paths)} files, changed since {base[:12]}")
    entries = clang_arguments({path: known[path] for path in sorted(paths)})
    with open(os.path.join(CLANG_BUILD, "compile_commands.json"), "w", encoding="utf-8") as file:
        json.dump([{"directory": folder, "file": os.path.abspath(path),
                    "arguments": ["clang++", *arguments, "-c", os.path.abspath(path)]}
                   for path, (folder, arguments) in entries.items()], file)
    passed = Passed("clang-tidy", "clang++")
    jobs = []
    for path, (_, arguments) in entries.items():
        mark = passed.file(path, ["clang-tidy", *arguments], [".clang-tidy", __file__])
        jobs.append((path, ["clang-tidy", "--quiet", "-p", CLANG_BUILD, path], ".", mark))
    return run_all("tidy", jobs)


def commits():
    """The subjects of this branch's commits, on main of the newest ones: "area: imperative", at most 72 characters."""
    base = base_commit()
    lines = (git("log", "--no-merges", "--format=%h%x09%s%x09%b%x00", f"{base}..HEAD") or "").split("\0")
    jobs = 0
    failed = 0
    for line in lines:
        if not line.strip():
            continue
        short, subject, body = line.strip("\n").split("\t", 2)
        jobs += 1
        if not SUBJECT.fullmatch(subject) or len(subject) > MAX_SUBJECT or not body.strip():
            failed += 1
            print(f"FAIL commits: {short} {subject}: area, colon, imperative, at most {MAX_SUBJECT} characters, and a body")
    print(f"{jobs - failed} passed, {failed} failed")
    return 1 if failed else 0


def main():
    arguments = sys.argv[1:]
    if arguments == ["format"]:
        return clang_format()
    if arguments == ["clang"]:
        return clang()
    if arguments == ["commits"]:
        return commits()
    if arguments in (["tidy"], ["tidy", "--all"]):
        return tidy("--all" in arguments)
    if arguments in (["-h"], ["--help"]):
        print(open("contrib/check-code.sh", encoding="utf-8").read().split("set -euo")[0])
        return 0
    print("check-code: one of format, clang, commits, tidy [--all]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
