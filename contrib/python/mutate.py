"""What contrib/mutate.sh runs: seeded mutants by plain edits, built and tested in a copy of the tree."""
import argparse
import collections
import os
import random
import re
import signal
import subprocess
import sys
import time

COPY = "build/mutate"
DEFAULT_FOLDERS = ["chain/consensus/sdbft", "chain/exec", "compute/core", "p2p"]
KILLED_AT_LEAST = 0.9
# A mutant that does not end: so many times as long as the program takes as it is, on a machine that may get busy.
TEST_TIMEOUT_FACTOR = 4
TEST_TIMEOUT_S = 120  # at least
FIRST_TEST_TIMEOUT_S = 1200
BUILD_TIMEOUT_S = 1800

# Which test programs look at a folder: its own, the longest matching line. More than one where a folder is mostly tested
# through another.
TESTS = {
    "base": ["test_base"],
    "crypto": ["test_crypto"],
    "chain/types": ["test_chain_types"],
    "chain/params": ["test_chain_params", "test_chain_exec"],
    "chain/market": ["test_chain_market", "test_chain_exec"],
    "chain/store": ["test_chain_store", "test_node"],
    "chain/state": ["test_chain_state", "test_node"],
    "chain/evm": ["test_chain_evm"],
    "chain/statetest": ["test_chain_statetest"],
    "chain/exec": ["test_chain_exec"],
    "chain/consensus/sdbft": ["test_chain_consensus_sdbft", "test_sim"],
    "chain/consensus": ["test_chain_consensus", "test_chain_consensus_sdbft"],
    "chain/mempool": ["test_chain_mempool", "test_node"],
    "compute/core": ["test_compute_core", "test_chain_exec"],
    "compute/program": ["test_compute_program"],
    "compute/worker": ["test_compute_worker"],
    "content": ["test_content"],
    "node": ["test_node"],
    "node/agree": ["test_node", "test_sim"],
    "p2p": ["test_p2p", "test_node"],
    "rpc": ["test_rpc"],
    "vm/tensor": ["test_vm_tensor"],
    "wallet": ["test_wallet"],
}

# (name, pattern, replacement): what a tired programmer would write. Applied to code without comments and strings.
EDITS = [
    ("drop check", re.compile(r"^(\s*)QUERN_CHECK\(.*\);$"), r"\1;"),
    ("never refuse", re.compile(r"^(\s*)(?:\} else )?if \((.*)\) return (?:fail|fault|busy)\b(.*)$"), None),
    ("never refuse", re.compile(r"^(\s*)(?:\} else )?if \((.*)\) return (?:misbehaved|halt)\b(.*)$"), None),
    ("never return", re.compile(r"^(\s*)if \((.*)\) return;$"), None),
    ("off by one", re.compile(r"(?<![<>=!-])<(?![<=])(?= )"), "<="),
    ("off by one", re.compile(r" <= "), " < "),
    ("off by one", re.compile(r" >= "), " > "),
    ("off by one", re.compile(r"(?<![->])>(?![>=])(?= \d| k| [a-z_]+\()"), ">="),
    ("negate", re.compile(r" == "), " != "),
    ("negate", re.compile(r" != "), " == "),
    ("and or", re.compile(r" && "), " || "),
    ("or and", re.compile(r" \|\| "), " && "),
    ("sign", re.compile(r" \+ 1\b"), " + 0"),
    ("sign", re.compile(r" - 1\b"), " - 0"),
    ("plus minus", re.compile(r" \+= "), " -= "),
    ("drop call", re.compile(r"^(\s+)[a-z_]+(?:_|\.|->)[a-z_.>()-]*\([^;{}]*\);$"), r"\1;"),
    ("constant", re.compile(r"\breturn true;"), "return false;"),
    ("constant", re.compile(r"\breturn false;"), "return true;"),
]
SKIP = re.compile(r"hooks\.|^\s*(?://|#|namespace|using|template|static_assert|log::|\[\[)|log::(?:debug|info|warning|error)|"
                  r"\.reserve\(|operator|static_cast<[^>]*>$")


def code_only(line):
    """The line with strings and its comment blanked, of the same length."""
    out, quote, i = [], None, 0
    while i < len(line):
        c = line[i]
        if quote:
            out.append(" ")
            if c == "\\":
                out.append(" ")
                i += 1
            elif c == quote:
                quote = None
        elif line.startswith("//", i):
            out.append(" " * (len(line) - i))
            break
        elif c == '"':
            quote = c
            out.append(" ")
        else:
            out.append(c)
        i += 1
    return "".join(out)[:len(line)]


def mutants_of(text):
    """(line number, what, new line) of each edit that applies."""
    found = []
    for number, line in enumerate(text.split("\n")):
        if SKIP.search(line):
            continue
        bare = code_only(line)
        if "<" in bare and re.search(r"\b(?:vector|map|set|optional|span|array|pair|function|Expected|unique_ptr|shared_ptr"
                                     r"|variant|tuple|deque|is_same_v|get_if|get|make_unique|make_shared|\w+_cast)<", bare):
            bare = re.sub(r"[<>]", " ", bare)
        for what, pattern, replacement in EDITS:
            for match in pattern.finditer(bare):
                if replacement is None:
                    begin = line.index("if (")
                    new = line[:begin] + "if (false && (" + line[begin + 4:].replace(") return", ")) return", 1)
                elif pattern.pattern.startswith("^"):
                    new = match.expand(replacement)
                else:
                    new = line[:match.start()] + replacement + line[match.end():]
                found.append((number, what, new))
    return found


def tests_of(path):
    below = path[len("src/"):]
    best = max((folder for folder in TESTS if below.startswith(folder + "/")), key=len, default=None)
    return TESTS[best] if best else []


def run(command, timeout, folder=COPY):
    """(exit status, output); 124 when it took too long. Nothing that it started outlives it."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return 124, f"not done after {timeout:.0f} s"
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def default_folders():
    changed = subprocess.run(["git", "diff", "--name-only", "HEAD~1", "--", "src"], capture_output=True, text=True).stdout
    files = [path for path in changed.split() if path.endswith(".cpp") and tests_of(path)]
    return files or DEFAULT_FOLDERS


def files_of(names):
    out = subprocess.run(["git", "ls-files", "src"], capture_output=True, text=True, check=True).stdout.split()
    found, untested = [], []
    for name in names:
        wanted = (name if name.startswith("src/") else "src/" + name).rstrip("/")
        below = [path for path in out if path.endswith(".cpp") and (path == wanted or path.startswith(wanted + "/"))]
        if not below:
            sys.exit(f"mutate: no C++ file in {name}")
        untested += [path for path in below if not tests_of(path)]
        found += [path for path in below if tests_of(path) and path not in found]
    if untested:
        print(f"mutate: {len(untested)} files are left out, TESTS names no program for {untested[0]}", flush=True)
    if not found:
        sys.exit(1)
    return found


def prepare():
    """A copy of the tree with a build of its own; the objects come from ccache where they can. What is the same stays
    as it is, so that only what changed is built again; what an interrupted run broke is put right."""
    out = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True).stdout.decode()
    tracked = {path for path in out.split("\0") if path and os.path.isfile(path)}
    for path in tracked:
        place = os.path.join(COPY, path)
        with open(path, "rb") as file:
            content = file.read()
        if os.path.isfile(place):
            with open(place, "rb") as file:
                if file.read() == content:
                    continue
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(content)
        os.chmod(place, os.stat(path).st_mode)
    for folder, folders, names in os.walk(COPY):
        if folder == COPY:
            folders[:] = [each for each in folders if each != "build"]
        for name in names:
            if os.path.relpath(os.path.join(folder, name), COPY) not in tracked:
                os.remove(os.path.join(folder, name))
    os.environ.update(CCACHE_BASEDIR=os.path.abspath(COPY), CCACHE_NOHASHDIR="1")
    code, output = run(["cmake", "--preset", "testing", "-DQUERN_WITH_TORCH=OFF"], BUILD_TIMEOUT_S)
    if code != 0:
        sys.exit(output)


def build(programs, jobs):
    return run(["ninja", "-C", "build/testing", "-j", str(jobs), *programs], BUILD_TIMEOUT_S)


def test(program, timeout):
    return run([os.path.join("build/testing/bin", program), "--gtest_fail_fast", "--gtest_brief=1"], timeout)


def how_long_they_take(programs, jobs):
    """Builds and runs the test programs as they are; seconds after which each counts as one that does not end."""
    code, output = build(programs, jobs)
    if code != 0:
        sys.exit(f"mutate: the tree does not build as it is\n{output[-2000:]}")
    limits = {}
    for program in programs:
        began = time.monotonic()
        code, output = test(program, FIRST_TEST_TIMEOUT_S)
        if code != 0:
            sys.exit(f"mutate: {program} does not pass as it is: {code}\n{output[-2000:]}")
        seconds = time.monotonic() - began
        limits[program] = max(TEST_TIMEOUT_S, TEST_TIMEOUT_FACTOR * seconds)
        print(f"mutate: {program} passes in {seconds:.0f} s", flush=True)
    return limits


def judge(programs, limits, jobs):
    """'killed', 'survived' or 'no build', and what killed it."""
    code, output = build(programs, jobs)
    if code == 124:
        sys.exit(f"mutate: the build is {output}")
    if code != 0:
        return "no build", ""
    for program in programs:
        code, output = test(program, limits[program])
        if code == 124:
            return "killed", f"{program}, {output}"
        if code != 0:
            failed = re.search(r"\[  FAILED  \] (\S+)", output)
            return "killed", f"{program} {failed.group(1).rstrip(',') if failed else f'(exit status {code})'}"
    return "survived", ""


def main():
    parser = argparse.ArgumentParser(
        prog="contrib/mutate.sh", description="Breaks one line at a time in a copy of the tree (build/mutate) and sees "
        "whether the tests of its folder notice. Exit status 0 when at least 90 % were killed.")
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    parser.add_argument("--seed", type=int, default=int(head[:8] or "1", 16), metavar="N",
                        help="which lines are broken, and how (default: the commit's own number)")
    parser.add_argument("--count", type=int, default=40, metavar="N", help="how many mutants (default: 40)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="compilers at once")
    parser.add_argument("names", nargs="*", metavar="FOLDER|FILE",
                        help="below src (default: what changed since the commit before; else "
                        + ", ".join(DEFAULT_FOLDERS) + ")")
    options = parser.parse_args()
    rng = random.Random(options.seed)

    prepare()
    # Of the copy: the tree may go on changing.
    texts = {}
    for path in files_of(options.names or default_folders()):
        with open(os.path.join(COPY, path), encoding="utf-8") as file:
            texts[path] = file.read()
    candidates = [(path, *mutant) for path, text in texts.items() for mutant in mutants_of(text)]
    rng.shuffle(candidates)
    print(f"mutate: seed {options.seed}, {len(candidates)} possible mutants", flush=True)
    limits = how_long_they_take(sorted({program for path in texts for program in tests_of(path)}), options.jobs)

    verdicts = collections.defaultdict(collections.Counter)  # by folder
    survivors, tried, counted, unbuilt = [], set(), 0, 0
    for path, number, what, new in candidates:
        if counted >= options.count:
            break
        if (path, number) in tried:
            continue
        tried.add((path, number))
        place = os.path.join(COPY, path)
        lines = texts[path].split("\n")
        old, lines[number] = lines[number], new
        with open(place, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        try:
            verdict, detail = judge(tests_of(path), limits, options.jobs)
        finally:
            with open(place, "w", encoding="utf-8") as file:
                file.write(texts[path])
        if verdict == "no build":
            unbuilt += 1
            continue
        counted += 1
        verdicts[os.path.dirname(path)][verdict] += 1
        print(f"{verdict:8} {path}:{number + 1} {what}" + (f" by {detail}" if detail else ""), flush=True)
        if verdict == "survived":
            survivors.append(f"{path}:{number + 1} {what}\n  - {old.strip()}\n  + {new.strip()}")
            print(f"  - {old.strip()}\n  + {new.strip()}", flush=True)
    killed = counted - len(survivors)
    print(f"\nmutate: seed {options.seed}, {unbuilt} more did not compile")
    for folder, each in sorted(verdicts.items()):
        print(f"  {folder}: {each['killed']} of {each.total()} killed")
    if survivors:
        print("survived:\n" + "\n".join(survivors))
    print(f"{killed} passed, {len(survivors)} failed")
    return 0 if counted and killed >= KILLED_AT_LEAST * counted else 1


if __name__ == "__main__":
    sys.exit(main())
