#!/usr/bin/env python3
"""Checks what the compiler does not: who may include whom, file sizes, headers' form, what pure code must not use; and,
where mypy is at hand, the types of the Python package as contrib/python/pyproject.toml asks for them.

    tests/lint/lint.py [root]       checks the tree; prints "file:line: rule", exit code 1 when there is anything
    tests/lint/lint.py --self-test  feeds each rule a bad snippet and expects it to object
    tests/lint/lint.py --errors     lists the error names that no test names, by file
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

MAX_LINES = 700



def read_modules(root):
    """src/modules.txt: folder -> folders that it may include beside itself; None for those that wire everything."""
    allowed = {}
    with open(os.path.join(root, "src", "modules.txt"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("#") or not line.strip():
                continue
            folder, edges = line.split(":")
            names = edges.split()
            implied = [] if folder == "base" else ["base"] if folder == "crypto" else ["base", "crypto"]
            allowed[folder] = None if names == ["all"] else implied + names
    return allowed


ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ALLOWED = read_modules(ROOT)
# Same input, same output: nothing from outside may reach these.
PURE = ["vm/evm", "vm/tensor", "chain/types", "chain/params", "chain/market", "chain/state", "chain/evm", "chain/ethereum",
        "chain/exec", "chain/consensus", "compute/core", "compute/tolerance"]
# Rounding must be ours, not the C library's.
NO_LIBM = ["vm/tensor", "chain/market", "chain/exec", "compute/tolerance"]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
LIBM_CALL = re.compile(r"(?:\bstd\s*::\s*|(?<![\w:])::\s*)(?:sqrt|cbrt|exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|tanh|sinh"
                       r"|cosh|asin|acos|atan|atan2|erf|erfc|tgamma|lgamma|hypot|fma|floor|ceil|round|trunc|rint"
                       r"|nearbyint|fmod|remainder|ldexp|frexp)f?\s*\(")
RANDOM = re.compile(r"(?<![\w.>:])(?:std\s*::\s*)?(?:rand|srand|random|drand48|time|clock|gettimeofday|clock_gettime"
                    r"|getrandom|localtime|gmtime)\s*\(|\bstd\s*::\s*(?:random_device|mt19937(?:_64)?|chrono)\b|\bOsRng\b"
                    r"|\bSystemClock\b")
PURE_HEADERS = {"chrono", "random", "ctime", "time.h", "sys/time.h", "sys/random.h", "fstream", "iostream", "filesystem",
                "cstdio", "stdio.h", "fcntl.h", "unistd.h", "sys/file.h", "sys/stat.h", "sys/socket.h", "thread", "future",
                "base/fs.h", "base/clock.h", "base/http_client.h", "base/websocket_client.h"}
# The calls of files whose names a member function may have as well count when they are qualified; <fcntl.h> is refused.
ENVIRONMENT = re.compile(r"(?<![\w.>:])(?:std\s*::\s*)?(?:getenv|secure_getenv|setlocale|fopen|fsync|unlink)\s*\("
                         r"|(?<![\w:>])::\s*(?:open|openat|creat|read|write|close|rename|remove)\s*\(")
# Locks whose rules clang checks are those of base/mutex.h.
STD_LOCK = re.compile(r"\bstd\s*::\s*(?:recursive_|shared_|timed_)?(?:mutex|condition_variable(?:_any)?|lock_guard|unique_lock"
                      r"|scoped_lock|shared_lock)\b")
UNORDERED = re.compile(r"\bstd\s*::\s*(?:unordered_(?:multi)?(?:map|set)|locale)\b")
# A shared pointer of its own, and a deleter that also gives back a share.
OWN_POINTERS = {"chain/state/path_node.h", "p2p/answer_account.h"}
NEW = re.compile(r"(?<![\w.])new\s+(?:\([^)]*\)\s*)?[A-Za-z_:]+")
DELETE = re.compile(r"(?<!=)\s\bdelete\b(?:\[\])?\s+\w")
THROW = re.compile(r"(?<!\w)throw\b(?!;)")
CALLED_NAME = re.compile(r"(?<![\w.>])(?:fail|fault|busy)\(\"([^\"]*)\"")
STABLE_NAME = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+")
# Here names are geth's messages, on which wallets match.
GETH_NAMES = {"chain/exec/tx_executor.cpp", "node/serve/call_simulator.cpp"}
LIBM_HEADERS = {"cmath", "math.h", "complex", "tgmath.h"}
GENERATED = {"quern_version.h"}  # by CMake, into the build folder
# Node-making calls in compute/program: the builder's own but those that look, and functions that get the builder.
MAKES_NODES = (r"\bb_?\s*\.\s*(?!(?:shape|type|node|size|status|failed|is_barrier|finish)\b)\w+\s*\("
               r"|(?<![\w.])\w+\s*\(\s*b_?\s*,")
VALUE_FUNCTION = re.compile(r"^\s*Value\s+(\w+)\s*\(|\bconst auto (\w+) = \[[^\]]*\][^;]*\bb_?\.", re.MULTILINE)
LEFTOVER = re.compile(r"\b(?:TODO|FIXME|XXX)\b")


def module_of(path):
    """The module whose folder holds this path below src/, or None."""
    folder = path.rpartition("/")[0]
    return folder if folder in ALLOWED else None


def in_any(path, folders):
    return any(path.startswith(folder + "/") for folder in folders)


def without_comments(lines):
    """The code of each line: comments and string contents blanked, so that words in them do not count."""
    in_block = False
    result = []
    for line in lines:
        out = []
        i = 0
        quote = None
        while i < len(line):
            two = line[i:i + 2]
            c = line[i]
            if in_block:
                if two == "*/":
                    in_block = False
                    i += 1
            elif quote:
                if c == "\\":
                    i += 1
                elif c == quote:
                    quote = None
                    out.append(c)
            elif two == "//":
                break
            elif two == "/*":
                in_block = True
                i += 1
            elif c == '"' or (c == "'" and not (i and line[i - 1].isalnum())):  # 1'000 is a number
                quote = c
                out.append(c)
            else:
                out.append(c)
            i += 1
        result.append("".join(out))
    return result


def check_file(path, text):
    """path is relative to src/. Yields (line, rule)."""
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    if len(lines) > MAX_LINES:
        yield 1, f"file has {len(lines)} lines, at most {MAX_LINES}: what is the second concept?"
    if path.endswith(".h"):
        if not lines or not lines[0].startswith("//"):
            yield 1, "a header opens with a comment: what it is, who uses it, thread-safety"
        if "#pragma once" not in lines:
            yield 1, "header without #pragma once"
    module = module_of(path)
    if module is None:
        yield 1, "no module of the include table holds this file"
        return
    code = without_comments(lines)
    if module == "compute/program":
        yield from check_node_order("\n".join(code))
    for number, (line, bare) in enumerate(zip(lines, code), start=1):
        if LEFTOVER.search(line):
            yield number, "leftover marker; finish it or open an issue"
        include = INCLUDE.match(line)
        if include:
            quoted, target = include.group(1) == '"', include.group(2)
            yield from ((number, rule) for rule in check_include(path, module, quoted, target))
            continue
        if in_any(path, NO_LIBM) and LIBM_CALL.search(bare):
            yield number, "no calls of the C math library here: results differ between libraries"
        if in_any(path, PURE) and RANDOM.search(bare):
            yield number, "pure code has no clock and no randomness"
        if in_any(path, PURE) and ENVIRONMENT.search(bare):
            yield number, "pure code has no files and no environment"
        if path != "base/mutex.h" and STD_LOCK.search(bare):
            yield number, "a lock is one of base/mutex.h, which says what it guards"
        if in_any(path, PURE) and UNORDERED.search(bare):
            yield number, "pure code has no order by hash and no locale"
        if path not in OWN_POINTERS and (DELETE.search(bare) or NEW.search(bare) and not re.search(r"_ptr\b|Ptr\b", bare)):
            yield number, "what is made is owned: a value, unique_ptr or shared_ptr at once"
        if module != "bin" and THROW.search(bare):
            yield number, "no exception crosses a module's border: return an error"
        for name in CALLED_NAME.findall(line) if '"' in bare else []:
            if not STABLE_NAME.fullmatch(name) and path not in GETH_NAMES:
                yield number, f"'{name}' is no dotted error name"


def call_arguments(code):
    """(position, arguments) of each pair of parentheses behind a name."""
    opened = []
    for at, c in enumerate(code):
        if c in "([{":
            opened.append((c, at, [at + 1]))
        elif c == "," and opened:
            opened[-1][2].append(at + 1)
        elif c in ")]}" and opened:
            bracket, begin, starts = opened.pop()
            if bracket == "(" and re.search(r"\w\s*$", code[max(0, begin - 2):begin]):
                ends = [start - 1 for start in starts[1:]] + [at]
                yield begin, [code[start:end] for start, end in zip(starts, ends)]


def check_node_order(code):
    """Yields (line, rule): the order of nodes is part of a program's root, and that of arguments is the compiler's."""
    own = [name for names in VALUE_FUNCTION.findall(code) for name in names if name]
    makes = re.compile("|".join([MAKES_NODES] + [rf"(?<![\w.]){name}\s*\(" for name in sorted(set(own))]))
    for at, arguments in call_arguments(code):
        if sum(1 for argument in arguments if makes.search(argument)) > 1:
            yield code.count("\n", 0, at) + 1, "of a call's arguments at most one makes nodes: name the others"


def check_include(path, module, quoted, target):
    if target.startswith("rapidjson/") and path != "base/json.cpp":
        yield "RapidJSON only in base/json.cpp"
    if target in ("spng.h", "turbojpeg.h") and path != "compute/program/image_file.cpp":
        yield "decoders of images only in compute/program/image_file.cpp"
    if target.startswith(("onnx/", "google/protobuf/")) and path != "compute/program/onnx_file.cpp" and module != "compute/torchscript":
        yield "ONNX's messages only in compute/program/onnx_file.cpp and compute/torchscript"
    if target.startswith("curl/") and path != "compute/transfer/http_call.cpp":
        yield "libcurl only in compute/transfer/http_call.cpp, which checks each address"
    if target in ("gmp.h", "gmpxx.h") and path != "crypto/modexp.cpp":
        yield "GMP only in crypto/modexp.cpp, which bounds what it takes"
    if target in ("blst.h", "blst_aux.h", "blst.hpp") and path not in ("crypto/bls12_381.cpp", "crypto/kzg.cpp"):
        yield "blst only in crypto/bls12_381.cpp and crypto/kzg.cpp, which check points before they use them"
    if in_any(path, NO_LIBM) and target in LIBM_HEADERS:
        yield f"<{target}> is forbidden here: results differ between libraries"
    if in_any(path, PURE) and target in PURE_HEADERS:
        yield f"<{target}> has no place in pure code"
    if target.startswith("boost/beast") and module not in ("rpc", "rpc/websocket", "base"):
        yield "Boost.Beast only in rpc and base: it costs ten seconds a file"
    if target.startswith(("torch/", "ATen/", "caffe2/")) and module not in ("compute/torch", "compute/torchscript"):
        yield "libtorch only in compute/torch and compute/torchscript"
    if not quoted or target in GENERATED:
        return
    other = module_of(target)
    if "/" not in target or target.startswith("."):
        yield f'"{target}": includes are full paths from src/'
    elif other is None:
        yield f'"{target}" is in no module'
    elif other != module and ALLOWED[module] is not None and other not in ALLOWED[module]:
        yield f"{module} must not include {other}"


def check_table():
    """The table itself must have no cycle."""
    state = {}

    def visit(module, trail):
        if state.get(module) == "done":
            return
        if state.get(module) == "open":
            yield "include table has a cycle: " + " -> ".join(trail + [module])
            return
        state[module] = "open"
        for other in ALLOWED[module] or []:
            yield from visit(other, trail + [module])
        state[module] = "done"

    for module in ALLOWED:
        for other in ALLOWED[module] or []:
            if other not in ALLOWED:
                yield f"src/modules.txt: {module} names {other}, which has no line"
                return
        yield from visit(module, [])


def check_tree(root):
    offences = [("tests/lint/lint.py", 1, rule) for rule in check_table()]
    src = os.path.join(root, "src")
    for folder, folders, names in os.walk(src):
        folders.sort()
        for name in sorted(names):
            if not name.endswith((".h", ".cpp", ".cu", ".cuh", ".def")):
                continue
            full = os.path.join(folder, name)
            with open(full, encoding="utf-8") as file:
                text = file.read()
            path = os.path.relpath(full, src).replace(os.sep, "/")
            offences += [("src/" + path, line, rule) for line, rule in check_file(path, text)]
    return offences


ERROR_NAME = re.compile(r'\b(?:fail|fault|busy|refused|failed|malformed|retry)\(\s*"([a-z0-9_]+\.[a-z0-9_]+)"')


def unnamed_errors(root):
    """(file below src/, error name) of each error that src makes and nothing in tests/ names."""
    made = {}
    for folder, _, names in os.walk(os.path.join(root, "src")):
        for name in sorted(names):
            if name.endswith((".h", ".cpp")):
                full = os.path.join(folder, name)
                with open(full, encoding="utf-8") as file:
                    for error in ERROR_NAME.findall(file.read()):
                        made.setdefault(error, os.path.relpath(full, os.path.join(root, "src")))
    tests = []
    for folder, _, names in os.walk(os.path.join(root, "tests")):
        for name in names:
            if name.endswith((".h", ".cpp", ".py", ".mjs", ".js")):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    tests.append(file.read())
    text = "\n".join(tests)
    return len(made), sorted((path, error) for error, path in made.items() if error not in text)


def list_errors():
    total, unnamed = unnamed_errors(ROOT)
    for path, error in unnamed:
        print(f"src/{path}: {error}")
    print(f"lint: {len(unnamed)} of {total} errors are named by no test")
    return 0


# Each bad snippet with a word of the rule that must object; then good ones, to which none may.
BAD = [
    ("vm/evm/bad.cpp", "#include <gmp.h>\n", "GMP only"),
    ("vm/evm/bad.cpp", "#include <blst.h>\n", "blst only"),
    ("base/a.cpp", '#include "crypto/hash.h"\n', "must not include crypto"),
    ("crypto/a.cpp", '#include "chain/types/block.h"\n', "must not include chain/types"),
    ("chain/exec/handlers/a.cpp", '#include "chain/store/kv.h"\n', "must not include chain/store"),
    ("chain/exec/handlers/a.cpp", '#include "chain/exec/block_executor.h"\n', "must not include chain/exec"),
    ("node/net/a.cpp", '#include "node/serve/reader.h"\n', "must not include node/serve"),
    ("chain/types/a.cpp", '#include "chain/params/params.h"\n', "must not include chain/params"),
    ("rpc/methods/a.cpp", '  #  include "node/x.h"\n', "must not include node"),
    ("vm/tensor/a.cpp", '#include "compute/core/game.h"\n', "must not include compute/core"),
    ("chain/state/a.cpp", '#include "trie.h"\n', "full paths"),
    ("chain/state/a.cpp", '#include "../store/kv.h"\n', "full paths"),
    ("chain/state/a.cpp", '#include "strange/kv.h"\n', "in no module"),
    ("elsewhere/a.cpp", "int x;\n", "no module"),
    ("rpc/a.cpp", "#include <rapidjson/document.h>\n", "RapidJSON"),
    ("node/a.cpp", "#include <torch/torch.h>\n", "libtorch"),
    ("compute/program/a.cpp", "#include <spng.h>\n", "image_file.cpp"),
    ("wallet/a.cpp", "#include <turbojpeg.h>\n", "image_file.cpp"),
    ("compute/program/a.cpp", "#include <onnx/onnx_pb.h>\n", "onnx_file.cpp"),
    ("compute/worker/a.cpp", "#include <google/protobuf/message.h>\n", "onnx_file.cpp"),
    ("vm/tensor/a.cpp", "#include <cmath>\n", "forbidden"),
    ("chain/exec/a.cpp", "#include <math.h>\n", "forbidden"),
    ("vm/tensor/a.cpp", "float y = std::sqrt(x);\n", "math library"),
    ("vm/tensor/arith/a.cpp", "float y = ::expf (x);\n", "math library"),
    ("chain/exec/a.cpp", "auto t = time(nullptr);\n", "no clock"),
    ("compute/core/a.cpp", "int r = std::rand();\n", "no clock"),
    ("chain/consensus/a.cpp", "auto now = std::chrono::steady_clock::now();\n", "no clock"),
    ("chain/consensus/a.cpp", "#include <chrono>\n", "no place"),
    ("chain/exec/a.cpp", "OsRng rng;\n", "no clock"),
    ("chain/exec/a.cpp", "const char* home = std::getenv(name);\n", "no files"),
    ("chain/exec/a.cpp", "const int file = ::open(path, 0);\n", "no files"),
    ("chain/consensus/a.cpp", "#include <fcntl.h>\n", "no place"),
    ("chain/consensus/a.cpp", '#include "base/fs.h"\n', "no place"),
    ("node/a.cpp", "const std::lock_guard lock(mutex_);\n", "base/mutex.h"),
    ("p2p/a.cpp", "std::condition_variable changed_;\n", "base/mutex.h"),
    ("chain/exec/a.cpp", "std::unordered_map<Address, Uint256> payouts;\n", "order by hash"),
    ("node/a.cpp", "Chain* chain = new Chain(parts);\n", "owned"),
    ("node/a.cpp", "    delete chain;\n", "owned"),
    ("node/a.cpp", "if (bad) throw std::runtime_error(text);\n", "exception"),
    ("node/a.cpp", 'return fail("Insufficient bond: free 3");\n', "dotted"),
    ("node/a.cpp", 'return busy("late", text);\n', "dotted"),
    ("p2p/a.cpp", "#include <boost/beast/http.hpp>\n", "Beast"),
    ("compute/program/a.cpp", "return b.add(b.mul(x, y),\n             b.constant(1.0F));\n", "makes nodes"),
    ("compute/program/a.cpp", "x = b_.sub(b_.shape(x).rows(), mean(b_, x), sum(b_, x));\n", "makes nodes"),
    ("compute/program/a.cpp", "Value one();\nx = give(0, f(b_.neg(y)), one());\n", "makes nodes"),
    ("base/a.cpp", "int x;  // TODO later\n", "leftover"),
    ("base/a.cpp", "/* FIXME */ int x;\n", "leftover"),
    ("base/a.h", "#pragma once\nint x;\n", "opens with a comment"),
    ("base/a.h", "// What it is.\nint x;\n", "pragma once"),
    ("base/a.cpp", "int x;\n" * (MAX_LINES + 1), "lines"),
]
GOOD = [
    ("base/a.h", "// What it is.\n#pragma once\n#include <string>\n"),
    ("base/json.cpp", "#include <rapidjson/reader.h>\n"),
    ("compute/program/image_file.cpp", "#include <spng.h>\n#include <turbojpeg.h>\n"),
    ("compute/program/onnx_file.cpp", "#include <onnx/onnx_pb.h>\n"),
    ("compute/torchscript/a.cpp", "#include <onnx/onnx_pb.h>\n#include <torch/library.h>\n"),
    ("chain/exec/handlers/a.cpp", '#include "chain/exec/handlers/handler.h"\n#include "compute/core/game.h"\n'),
    ("node/a.cpp", '#include "rpc/server.h"\n#include <chrono>\n'),
    ("vm/tensor/a.cpp", "// not std::sqrt(x)\nauto y = soft::sqrt(x) + S::fma(x); /* std::exp(x) */ auto s = \"std::log(x)\";\n"),
    ("chain/exec/a.cpp", "auto t = block.time(3) + header->time(); auto n = 1'000'000; log::info(Category::exec, x);\n"),
    ("chain/state/a.h", "// What it is.\n#pragma once\nstatic Status open(const Options& options);\nvoid f() = delete;\n"),
    ("node/a.cpp", "std::unique_ptr<Chain> made(new Chain(parts));\nreturn fail(\"chain.broken\", text);\n"),
    ("chain/exec/tx_executor.cpp", 'return fail("out of gas", text);\n'),
    ("rpc/a.cpp", "#include <boost/beast/http.hpp>\n"),
    ("compute/program/a.cpp", "x = b.elementwise(op, {b.neg(x), one(b, y)}, 3) + f(b_.shape(x), b_.mul(x, b_.neg(y)));\n"),
    ("compute/core/a.cpp", "return b.add(b.mul(x, y), b.constant(1.0F));\n"),
    ("content/a.cpp", "auto now = std::chrono::steady_clock::now();\n"),
    ("base/a.cpp", "int x;\n" * MAX_LINES),
]


def check_types(root):
    """What mypy objects to in the Python package, as (path, line, rule); None where there is no mypy, which in CI is an
    offence: contrib/install-deps.sh brings it."""
    folder = os.path.join(root, "contrib", "python")
    mypy = shutil.which("mypy")
    if mypy is None:
        return [("contrib/python/pyproject.toml", 1, "there is no mypy to check types with")] if os.environ.get("CI") else None
    done = subprocess.run([mypy, "--cache-dir", os.devnull, "--no-error-summary", "--no-color-output"], cwd=folder,
                          capture_output=True, text=True, check=False)
    found = re.findall(r"^([^:\n]+):(\d+): error: (.*)$", done.stdout, re.M)
    if done.returncode != 0 and not found:
        return [("contrib/python/pyproject.toml", 1, f"mypy: {(done.stdout + done.stderr).strip()[-400:]}")]
    return [(f"contrib/python/{path}", int(line), f"mypy: {rule}") for path, line, rule in found]


def self_test():
    problems = []
    for path, text, word in BAD:
        rules = [rule for _, rule in check_file(path, text)]
        if not any(word in rule for rule in rules):
            problems.append(f"not caught: {path}: {text[:60]!r} (wanted {word!r}, got {rules})")
    for path, text in GOOD:
        rules = [rule for _, rule in check_file(path, text)]
        if rules:
            problems.append(f"wrongly caught: {path}: {text[:60]!r}: {rules}")
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "src/base"))
        with open(os.path.join(root, "src/base/bad.cpp"), "w", encoding="utf-8") as file:
            file.write('int x;\n#include "node/node.h"\n')
        if check_tree(root) != [("src/base/bad.cpp", 2, "base must not include node")]:
            problems.append(f"tree: {check_tree(root)}")
        os.makedirs(os.path.join(root, "tests"))
        with open(os.path.join(root, "src/base/errors.cpp"), "w", encoding="utf-8") as file:
            file.write('return fail("a.named"); return busy("a.unnamed", x);\n')
        with open(os.path.join(root, "tests/errors_test.cpp"), "w", encoding="utf-8") as file:
            file.write('EXPECT_EQ(name, "a.named");\n')
        if unnamed_errors(root) != (2, [("base/errors.cpp", "a.unnamed")]):
            problems.append(f"errors: {unnamed_errors(root)}")
    with tempfile.TemporaryDirectory() as root:
        package = os.path.join(root, "contrib/python/quern")
        os.makedirs(package)
        shutil.copy(os.path.join(ROOT, "contrib/python/pyproject.toml"), os.path.dirname(package))
        for name, text in (("__init__.py", "number: int = 'one'\n"), ("rpc.py", "def bare(x):\n    return x\n"),
                           ("demo.py", "def bare(x):\n    return x\n")):
            with open(os.path.join(package, name), "w", encoding="utf-8") as file:
                file.write(text)
        found = check_types(root)
        if found is not None and [path for path, _, _ in sorted(found)] != ["contrib/python/quern/__init__.py",
                                                                              "contrib/python/quern/rpc.py"]:
            problems.append(f"types: {found}")
    ALLOWED["base"].append("node_of_cycle")
    ALLOWED["node_of_cycle"] = ["crypto"]
    if not any("cycle" in rule for rule in check_table()):
        problems.append("a cycle in the table is not caught")
    del ALLOWED["node_of_cycle"]
    ALLOWED["base"].pop()
    for problem in problems:
        print("lint self-test:", problem)
    print(f"lint self-test: {len(BAD) + len(GOOD) + 4} checks, {len(problems)} failed")
    return 1 if problems else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:] == ["--errors"]:
        return list_errors()
    root = sys.argv[1] if len(sys.argv) > 1 else ROOT
    types = check_types(root)
    offences = check_tree(root) + (types or [])
    for path, line, rule in offences:
        print(f"{path}:{line}: {rule}")
    total, unnamed = unnamed_errors(root)
    print(f"lint: {len(unnamed)} of {total} errors are named by no test (--errors lists them)")
    if types is None:
        print("lint: no mypy, the Python package's types are not checked")
    print(f"lint: {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
