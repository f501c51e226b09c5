"""What contrib/mutate.sh runs: seeded mutants by plain edits, built and tested in a copy of the tree."""
import argparse
import os
import random
import re
import subprocess
import sys

COPY = "build/mutate"
DEFAULT_FOLDERS = ["chain/consensus/sdbft", "chain/exec", "compute/core", "p2p"]
KILLED_AT_LEAST = 0.9
TEST_TIMEOUT_S = 240
BUILD_TIMEOUT_S = 540

# Which test programs look at a folder: its own, the longest matching line. More than one where a folder is mostly tested
# through another.
TESTS = {
    "base": ["test_base"],
    "crypto": ["test_crypto"],
    "chain/types": ["test_chain_types"],
    "chain/params": ["test_chain_params", "test_chain_exec"],
    "chain/store": ["test_chain_store", "test_node"],
    "chain/state": ["test_chain_state", "test_node"],
    "chain/exec": ["test_chain_exec"],
    "chain/consensus/sdbft": ["test_chain_consensus_sdbft", "test_sim"],
    "chain/consensus": ["test_chain_consensus", "test_chain_consensus_sdbft"],
    "chain/mempool": ["test_chain_mempool", "test_node"],
    "compute/core": ["test_compute_core", "test_chain_exec"],
    "compute/program": ["test_compute_program"],
    "compute/worker": ["test_compute_worker"],
    "content": ["test_content"],
    "node": ["test_node"],
    "p2p": ["test_p2p"],
    "rpc": ["test_rpc"],
    "vm/tensor": ["test_vm_tensor"],
}

# (name, pattern, replacement): what a tired programmer would write. Applied to code without comments and strings.
EDITS = [
    ("drop check", re.compile(r"^(\s*)QUERN_CHECK\(.*\);$"), r"\1;"),
    ("never refuse", re.compile(r"^(\s*)(?:\} else )?if \((.*)\) return (?:fail|fault|busy)\b(.*)$"), None),
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
                if what == "never refuse":
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
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return 124, "timed out"


def default_folders():
    changed = subprocess.run(["git", "diff", "--name-only", "HEAD~1", "--", "src"], capture_output=True, text=True).stdout
    files = [path for path in changed.split() if path.endswith(".cpp") and tests_of(path)]
    return files or DEFAULT_FOLDERS


def files_of(names):
    out = subprocess.run(["git", "ls-files", "src"], capture_output=True, text=True, check=True).stdout.split()
    wanted = [name if name.startswith("src/") else "src/" + name for name in names]
    found = [path for path in out if path.endswith(".cpp") and tests_of(path)
             and any(path == each or path.startswith(each.rstrip("/") + "/") for each in wanted)]
    if not found:
        sys.exit(f"mutate: no C++ file with tests in {', '.join(names)}")
    return found


def prepare(jobs):
    """A copy of the tree with a build of its own; the objects come from ccache where they can."""
    os.makedirs(COPY, exist_ok=True)
    files = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True).stdout
    subprocess.run(["tar", "--null", "--no-recursion", "-T", "-", "-cf", "build/mutate.tar"], input=files, check=True)
    subprocess.run(["tar", "-xf", "../mutate.tar"], cwd=COPY, check=True)
    os.remove("build/mutate.tar")
    os.environ.update(CCACHE_BASEDIR=os.path.abspath(COPY), CCACHE_NOHASHDIR="1")
    code, output = run(["cmake", "--preset", "testing", "-DQUERN_WITH_TORCH=OFF"], BUILD_TIMEOUT_S)
    if code != 0:
        sys.exit(output)


def build_and_test(programs, jobs):
    """'killed', 'survived' or 'no build'."""
    code, output = run(["ninja", "-C", "build/testing", "-j", str(jobs), *programs], BUILD_TIMEOUT_S)
    if code != 0:
        return "no build", output
    for program in programs:
        code, output = run([os.path.join("build/testing/bin", program), "--gtest_fail_fast", "--gtest_brief=1"], TEST_TIMEOUT_S)
        if code != 0:
            return "killed", program
    return "survived", ""


def main():
    parser = argparse.ArgumentParser(prog="contrib/mutate.sh")
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    parser.add_argument("--seed", type=int, default=int(head[:8] or "1", 16))
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    rng = random.Random(options.seed)

    candidates = []
    for path in files_of(options.names or default_folders()):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        candidates += [(path, *mutant) for mutant in mutants_of(text)]
    rng.shuffle(candidates)
    print(f"mutate: seed {options.seed}, {len(candidates)} possible mutants", flush=True)
    prepare(options.jobs)
    programs = sorted({program for path, *_ in candidates for program in tests_of(path)})
    for program in programs:
        verdict, output = build_and_test([program], options.jobs)
        if verdict != "survived":
            sys.exit(f"mutate: {program} does not pass as it is: {verdict}\n{output[-2000:]}")

    killed, survived, tried = 0, 0, set()
    for path, number, what, new in candidates:
        if killed + survived >= options.count:
            break
        if (path, number) in tried:
            continue
        tried.add((path, number))
        place = os.path.join(COPY, path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        lines = text.split("\n")
        old, lines[number] = lines[number], new
        with open(place, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        verdict, detail = build_and_test(tests_of(path), options.jobs)
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)
        if verdict == "no build":
            continue
        killed += verdict == "killed"
        survived += verdict == "survived"
        print(f"{verdict:8} {path}:{number + 1} {what}" + (f" by {detail}" if detail else ""), flush=True)
        if verdict == "survived":
            print(f"  - {old.strip()}\n  + {new.strip()}", flush=True)
    total = killed + survived
    print(f"mutate: {killed} of {total} killed")
    print(f"{killed} passed, {survived} failed")
    return 0 if total and killed >= KILLED_AT_LEAST * total else 1


if __name__ == "__main__":
    sys.exit(main())
