#!/usr/bin/env python3
"""How often limits refuse an honest training, by rules for them: quern-profile measures the first segments of the demo's
transformer from many seeds, each with its own parameters and its own order of the data; the limits of each are held
against all others. The table of doc/tolerance.md, "False rejections"."""
import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("QUERN_BIN", os.path.join(ROOT, "build", "testing", "bin"))
JUDGED = ("l2", "linf", "moments", "rest")
LEAST = 2**-18
SEGMENTS, STEPS = 8, 4
Segment = dict[str, float]
Rule = Callable[[Sequence[float]], float]


def median(values: Sequence[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def robust(values: Sequence[float]) -> float:
    middle = median(values)
    return middle + 6 * median([abs(value - middle) for value in values])


# Of a profiler's segments, and how many times that.
RULES: list[tuple[str, Rule, float]] = [
    ("median + 6 deviations, 32 times", robust, 32), ("median + 6 deviations, 256 times", robust, 256),
    ("the largest, 32 times", max, 32), ("the largest, 256 times", max, 256)]


def run(*arguments: str) -> str:
    return subprocess.run([os.path.join(BIN, arguments[0]), *arguments[1:]], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def profile(folder: str, arch: str, data: str, seed: int) -> list[Segment]:
    path = os.path.join(folder, f"{seed}.jsonl")
    if not os.path.exists(path):
        told = run("quern-profile", "--arch", arch, "--data", data, "--tolerance", str(STEPS), "--segments", str(SEGMENTS),
                   "--limits", os.path.join(folder, "limits.f32"), "--seed", str(seed), "--range", "1000", "--threads", "1")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(told)
        os.replace(path + ".new", path)
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [line for line in lines if line.get("profiler") == "f32, one thread"]


def refused(limits: Segment, segments: Sequence[Segment]) -> set[str]:
    return {name for name in JUDGED if any(segment[name] > limits[name] for segment in segments)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", help="what the model is trained on")
    parser.add_argument("folder", help="where profiles lie; those that are there are not made again")
    parser.add_argument("--seeds", type=int, default=60)
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    data, arch = (os.path.join(options.folder, name) for name in ("data.u8", "arch.json"))
    made = json.loads(run("quern-compile", "dataset", "--out", data, options.text))
    with open(arch, "w", encoding="utf-8") as file:
        json.dump({"format": "quern-arch-1",
                   "model": {"type": "char_transformer", "layers": 2, "d_model": 64, "heads": 4, "context": 64,
                             "mlp_ratio": 4, "vocab": made["vocab"]},
                   "data": {"dtype": made["dtype"], "elements": made["elements"]}, "batch": 16,
                   "optimizer": {"type": "adamw", "lr": 3e-3, "total_steps": 300, "warmup": 20}}, file)
    found = []
    for seed in range(1, options.seeds + 1):
        found.append(profile(options.folder, arch, data, seed))
        print(f"seed {seed} of {options.seeds}", file=sys.stderr)
    print("| | first segment: median | largest | later ones' largest: median | largest |\n|---|---:|---:|---:|---:|")
    for name in JUDGED:
        first = [each[0][name] for each in found]
        later = [max(segment[name] for segment in each[1:]) for each in found]
        print(f"| {name} | {statistics.median(first):.1e} | {max(first):.1e} | {statistics.median(later):.1e} | {max(later):.1e} |")
    print("\n| limits from | refused | by linf | by l2 | by others |\n|---|---:|---:|---:|---:|")
    for title, rule, margin in RULES:
        counts = dict.fromkeys(("any", "linf", "l2", "others"), 0)
        pairs = 0
        for profiled in found:
            limits = {name: max(LEAST, margin * rule([each[name] for each in profiled])) for name in JUDGED}
            for other in found:
                if other is not profiled:
                    pairs += 1
                    by = refused(limits, other)
                    for name in counts:
                        counts[name] += {"any": bool(by), "others": bool(by & {"moments", "rest"})}.get(name, name in by)
        print(f"| {title} | " + " | ".join(f"{100 * count / pairs:.1f} %" for count in counts.values()) + " |")
    print(f"\n{len(found)} seeds, {pairs:,} pairs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
