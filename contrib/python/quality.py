"""What contrib/quality.sh runs: trainings measured on held-out data, and the tables and plots of doc/quality.md."""
from __future__ import annotations

import argparse
import dataclasses
import glob
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from typing import Any, Callable, Mapping, Sequence

from quern.devnet import ROOT, program, run
from quern.processes import Ended, end_on_signals, popen

HELP_FOLDERS = "/usr/share/cmake-*/Help"  # of Debian's cmake-data, which building needs anyway
HELD_OUT_EACH = 37  # of the text's files one of so many
SEEDS = (1, 2, 3)
POLL_S = 0.5
LOCKED = "fs.locked"
KEPT = os.path.join("doc", "quality")  # logs of complete runs, from which the page's tables and pictures are made again
BEGIN, END = "<!-- figures of contrib/quality.sh -->", "<!-- end -->"


# --- what is trained ----------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Size:
    """How much of everything: the full runs, or small ones that show that all of it works."""

    layers: int
    width: int
    context: int
    batch: int
    text_steps: int
    text_interval: int
    windows: int  # held out
    images: int
    images_held_out: int
    image_steps: int
    image_interval: int


FULL = Size(layers=4, width=128, context=128, batch=32, text_steps=3000, text_interval=100, windows=256, images=8000,
            images_held_out=2000, image_steps=2000, image_interval=100)
QUICK = Size(layers=2, width=32, context=32, batch=8, text_steps=60, text_interval=20, windows=32, images=320,
             images_held_out=160, image_steps=60, image_interval=20)


@dataclasses.dataclass(frozen=True)
class Run:
    subject: str  # text, swiglu, images
    how: str  # f32, int8, torch
    seed: int

    @property
    def name(self) -> str:
        return f"{self.subject}-{self.how}-{self.seed}"

    @property
    def is_text(self) -> bool:
        return self.subject != "images"


# The most telling first.
RUNS = [Run("text", "f32", 1), Run("text", "int8", 1), Run("text", "torch", 1),
        *(Run("images", how, seed) for seed in SEEDS for how in ("f32", "torch")),
        Run("swiglu", "f32", 1), Run("swiglu", "int8", 1),
        *(Run("text", how, seed) for seed in SEEDS[1:] for how in ("f32", "int8")),
        Run("text", "torch", 2), Run("text", "torch", 3), Run("swiglu", "torch", 1)]


def transformer(size: Size, run_: Run, vocabulary: int, elements: int) -> Mapping[str, Any]:
    """The reference transformer, as GPT-2 or with SwiGLU; the latter's MLP is narrower, as it has a third matrix."""
    gated = run_.subject == "swiglu"
    return {"format": "quern-arch-1",
            "model": {"type": "char_transformer", "layers": size.layers, "d_model": size.width, "heads": 4, "context": size.context,
                      "mlp_ratio": 3 if gated else 4, "vocab": vocabulary, "activation": "swiglu" if gated else "gelu",
                      "precision": "int8" if run_.how == "int8" else "f32"},
            "data": {"dtype": "u8", "elements": elements}, "batch": size.batch,
            "optimizer": {"type": "adamw", "lr": 3e-3, "betas": [0.9, 0.99], "weight_decay": 0.1, "grad_clip": 1.0,
                          "warmup": size.text_steps // 30, "total_steps": size.text_steps, "schedule": "cosine"}}


def convolutions(size: Size) -> Mapping[str, Any]:
    """No biases before the norms: their gradients are rounding alone (doc/torch.md)."""
    def block(channels: int) -> list[Mapping[str, Any]]:
        return [{"type": "conv2d", "channels": channels, "kernel": 3, "padding": 1, "bias": False}, {"type": "batch_norm"},
                {"type": "relu"}, {"type": "max_pool2d", "kernel": 2}]
    return {"format": "quern-arch-1",
            "model": {"type": "layers", "input": {"height": SIDE, "width": SIDE, "channels": 1, "scale": 1 / 128, "shift": -1},
                      "layers": [*block(32), *block(32), *block(64), {"type": "global_avg_pool2d"},
                                 {"type": "linear", "size": len(SHAPES)}],
                      "outputs": len(SHAPES), "loss": "cross_entropy"},
            "data": [{"dtype": "u8", "elements": size.images * SIDE * SIDE}, {"dtype": "u8", "elements": size.images}],
            "batch": 32,
            "optimizer": {"type": "adamw", "lr": 3e-3, "weight_decay": 0.01, "warmup": size.image_steps // 20,
                          "total_steps": size.image_steps, "schedule": "cosine"}}


# --- data ---------------------------------------------------------------------------------------------------------------
SIDE = 24
# Whether a place is drawn, in eighths of the shape's half width from its middle.
SHAPES: Mapping[str, Callable[[int, int], bool]] = {
    "disk": lambda y, x: y * y + x * x <= 64,
    "ring": lambda y, x: 25 <= y * y + x * x <= 64,
    "square": lambda y, x: max(abs(y), abs(x)) <= 7,
    "frame": lambda y, x: 5 <= max(abs(y), abs(x)) <= 7,
    "diamond": lambda y, x: abs(y) + abs(x) <= 8,
    "triangle": lambda y, x: -8 <= y <= 8 and 2 * abs(x) <= y + 8,
    "plus": lambda y, x: min(abs(y), abs(x)) <= 2 and max(abs(y), abs(x)) <= 8,
    "cross": lambda y, x: min(abs(y - x), abs(y + x)) <= 3 and max(abs(y), abs(x)) <= 7,
    "lying bars": lambda y, x: max(abs(y), abs(x)) <= 7 and y % 5 < 3,
    "upright bars": lambda y, x: max(abs(y), abs(x)) <= 7 and x % 5 < 3,
}


def draw(count: int, seed: int) -> tuple[bytes, bytes]:
    """So many images of SIDE x SIDE gray pixels and their classes: a shape somewhere, larger or smaller, brighter or darker
    than what is around it, under noise that leaves some of them in doubt. Whole numbers alone: the same bytes everywhere."""
    lot, images, labels = random.Random(seed), bytearray(), bytearray()
    kinds = list(SHAPES.values())
    for _ in range(count):
        label, half = lot.randrange(len(kinds)), lot.randrange(4, 9)
        row, column = lot.randrange(half, SIDE - half), lot.randrange(half, SIDE - half)
        ground, contrast, noise = lot.randrange(90, 166), lot.choice((-1, 1)) * lot.randrange(30, 90), lot.randrange(10, 60)
        for y in range(SIDE):
            for x in range(SIDE):
                drawn = kinds[label]((y - row) * 8 // half, (x - column) * 8 // half)
                value = ground + (contrast if drawn else 0) + lot.randrange(-noise, noise + 1)
                images.append(min(255, max(0, value)))
        labels.append(label)
    return bytes(images), bytes(labels)


def text_files() -> list[str]:
    """CMake's manual, in the order of the names' bytes."""
    folders = sorted(glob.glob(HELP_FOLDERS))
    if not folders:
        raise SystemExit(f"quality: {HELP_FOLDERS} is missing: install cmake-data")
    found = [os.path.join(folder, name) for folder, _, names in os.walk(folders[-1]) for name in names if name.endswith(".rst")]
    return sorted(found, key=os.fsencode)


class Data:
    """Files in FOLDER/data; what is there is taken as it is."""

    def __init__(self, folder: str, size: Size) -> None:
        self.folder, self.size = os.path.join(folder, "data"), size
        self.made = os.path.join(self.folder, "made.json")
        if not os.path.exists(self.made):
            shutil.rmtree(self.folder, ignore_errors=True)
            os.makedirs(self.folder)
            text = self._text()
            self._images()
            write(self.made, json.dumps(text, indent=2) + "\n")
        with open(self.made, encoding="utf-8") as file:
            self.text: Mapping[str, Any] = json.load(file)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _text(self) -> Mapping[str, Any]:
        """One file in 37 is held out, and of those as many windows as are measured; the vocabulary is that of both."""
        files = text_files()
        parts = {"train": [file for i, file in enumerate(files) if i % HELD_OUT_EACH], "held-out": files[::HELD_OUT_EACH]}
        everything = json.loads(run("quern-compile", "dataset", "--out", self.path("all.u8"), *files))
        made = {"files": len(files), "vocab": everything["vocab"]}
        for part, names in parts.items():
            out = self.path(f"{part}.u8")
            done = json.loads(run("quern-compile", "dataset", "--vocabulary-of", self.path("all.u8"), "--out", out, *names))
            made[part] = {"elements": done["elements"]}
        wanted = self.size.windows * self.size.context + 1
        if made["held-out"]["elements"] < wanted:
            raise SystemExit(f"quality: {made['held-out']['elements']} tokens are held out, {wanted} are measured on")
        os.truncate(self.path("held-out.u8"), wanted)
        made["held-out"]["elements"] = wanted
        return made

    def _images(self) -> None:
        for name, count, seed in (("train", self.size.images, 1), ("held-out", self.size.images_held_out, 2)):
            for kind, content in zip(("images", "labels"), draw(count, seed)):
                with open(self.path(f"{kind}-{name}.u8"), "wb") as file:
                    file.write(content)

    def files(self, run_: Run, part: str) -> list[str]:
        if run_.is_text:
            return [self.path(f"{part}.u8")]
        return [self.path(f"images-{part}.u8"), self.path(f"labels-{part}.u8")]

    def architecture(self, run_: Run) -> Mapping[str, Any]:
        if run_.is_text:
            return transformer(self.size, run_, self.text["vocab"], self.text["train"]["elements"])
        return convolutions(self.size)


def write(path: str, text: str) -> None:
    """Whole, or as it was."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


# --- runs ---------------------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Row:
    step: int
    loss: float
    accuracy: float


def rows_of(log: str) -> list[Row]:
    try:
        with open(log, encoding="utf-8") as file:
            lines = [line.split(",") for line in file.read().splitlines()[1:]]
    except FileNotFoundError:
        return []
    return [Row(int(step), float(loss), float(accuracy)) for step, _, loss, accuracy in lines]


class Study:
    def __init__(self, folder: str, size: Size) -> None:
        self.folder, self.size = os.path.abspath(folder), size
        self.kept: str | None = None  # where logs of runs lie that this folder has not; none while runs are made
        os.makedirs(self.folder, exist_ok=True)
        os.makedirs(self.path("runs"), exist_ok=True)

    def path(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    def steps(self, run_: Run) -> int:
        return self.size.text_steps if run_.is_text else self.size.image_steps

    def interval(self, run_: Run) -> int:
        return self.size.text_interval if run_.is_text else self.size.image_interval

    def own_log(self, run_: Run) -> str:
        """Where it is once all of it has been trained in this folder, else empty."""
        log = self.path("runs", run_.name, "log.csv")
        rows = rows_of(log)
        return log if rows and rows[-1].step >= self.steps(run_) else ""

    def rows(self, run_: Run) -> list[Row]:
        kept = rows_of(os.path.join(self.kept, run_.name + ".csv")) if self.kept and not self.own_log(run_) else []
        return kept or rows_of(self.path("runs", run_.name, "log.csv"))

    def done(self, run_: Run) -> int:
        rows = self.rows(run_)
        return rows[-1].step if rows else 0

    def is_complete(self, run_: Run) -> bool:
        return self.done(run_) >= self.steps(run_)

    def start(self, run_: Run, data: Data) -> subprocess.Popen[Any]:
        arch = self.path("runs", run_.name + ".json")
        write(arch, json.dumps(data.architecture(run_), indent=1) + "\n")
        arguments = [program("quern-measure"), "--arch", arch, "--data", *data.files(run_, "train"),
                     "--held-out", *data.files(run_, "held-out"), "--out", self.path("runs", run_.name),
                     "--steps", str(self.steps(run_)), "--interval", str(self.interval(run_)), "--seed", str(run_.seed),
                     "--threads", "1", "--backend", "torch" if run_.how == "torch" else "canonical"]
        with open(self.path("runs", run_.name + ".out"), "wb") as out:
            return popen(arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                         env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ})

    def last_words(self, run_: Run) -> str:
        with open(self.path("runs", run_.name + ".out"), encoding="utf-8", errors="replace") as file:
            return (file.read().strip().splitlines() or ["it said nothing"])[-1]

    def tell(self, run_: Run) -> str:
        rows = self.rows(run_)
        said = f"{run_.name:16} step {rows[-1].step if rows else 0:5} of {self.steps(run_)}"
        if rows:
            said += f"  held-out loss {rows[-1].loss:.4f}  accuracy {100 * rows[-1].accuracy:.2f} %"
        return said

    def train(self, runs: Sequence[Run], jobs: int, data: Data) -> list[str]:
        """The runs that are not complete, in their order, `jobs` at a time. Which failed, and why. A run that another
        command on this folder is at is left to it."""
        waiting = [run_ for run_ in runs if not self.is_complete(run_)]
        running: dict[Run, Any] = {}
        told = {run_: self.done(run_) for run_ in waiting}
        failed = []
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    run_ = waiting.pop(0)
                    running[run_] = self.start(run_, data)
                time.sleep(POLL_S)
                for run_, child in list(running.items()):
                    ended = child.poll() is not None
                    if self.done(run_) != told[run_]:
                        told[run_] = self.done(run_)
                        print(self.tell(run_), flush=True)
                    if not ended:
                        continue
                    del running[run_]
                    if child.returncode == 0:
                        continue
                    if LOCKED in self.last_words(run_):
                        print(f"{run_.name}: another command is at it", flush=True)
                    else:
                        failed.append(f"{run_.name}: {self.last_words(run_)}")
                        print(failed[-1], flush=True)
        finally:  # whatever ends it: each saves where it is
            for child in running.values():
                child.terminate()
            for child in running.values():
                child.wait()
        return failed


# --- tables -------------------------------------------------------------------------------------------------------------
def common(study: Study, a: Run, b: Run) -> tuple[Row, Row] | None:
    """The rows of the last step that both have."""
    theirs = {row.step: row for row in study.rows(b)}
    return next(((row, theirs[row.step]) for row in reversed(study.rows(a)) if row.step in theirs), None)


def percent(a: float, b: float) -> float:
    """By how much b is more than a."""
    return 100 * (b - a) / a


def noise_of(study: Study, subject: str) -> tuple[float, float, int] | None:
    """Mean and standard deviation of the final losses in f32 over the seeds that are complete, and how many."""
    losses = [study.rows(run_)[-1].loss for run_ in RUNS
              if run_.subject == subject and run_.how == "f32" and study.is_complete(run_)]
    return (statistics.fmean(losses), statistics.stdev(losses), len(losses)) if len(losses) > 1 else None


def cell(study: Study, run_: Run) -> str:
    """The newest loss, and of which step where it is not the last."""
    rows = study.rows(run_)
    if not rows or run_ not in RUNS:
        return ""
    return f"{rows[-1].loss:.4f}" + ("" if study.is_complete(run_) else f" (step {rows[-1].step:,})")


def difference(study: Study, base: Run, other: Run) -> str:
    both = common(study, base, other)
    if both is None:
        return ""
    said = f"{percent(both[0].loss, both[1].loss):+.2f} %"
    return said if study.is_complete(base) and study.is_complete(other) else f"{said} (step {both[0].step:,})"


def text_table(study: Study) -> list[str]:
    lines = ["| model | seed | f32 | libtorch | against f32 | int8 | against f32 |", "|---|---:|---:|---:|---:|---:|---:|"]
    for subject, title in (("text", "GELU"), ("swiglu", "SwiGLU")):
        for seed in SEEDS:
            base, torch, int8 = (Run(subject, how, seed) for how in ("f32", "torch", "int8"))
            if base in RUNS:
                lines.append(f"| {title} | {seed} | {cell(study, base)} | {cell(study, torch)} | {difference(study, base, torch)} | "
                             f"{cell(study, int8)} | {difference(study, base, int8)} |")
    return lines


def image_table(study: Study) -> list[str]:
    lines = ["| seed | loss, f32 | libtorch | accuracy, f32 | libtorch |", "|---:|---:|---:|---:|---:|"]
    for seed in SEEDS:
        both = [Run("images", how, seed) for how in ("f32", "torch")]
        accuracies = [f"{100 * rows[-1].accuracy:.2f} %" if (rows := study.rows(run_)) else "" for run_ in both]
        lines.append(f"| {seed} | {cell(study, both[0])} | {cell(study, both[1])} | {accuracies[0]} | {accuracies[1]} |")
    return lines


def judged(study: Study, subject: str, how: str) -> list[tuple[Run, Row, Row]]:
    """Pairs of complete runs, f32 and the other."""
    pairs = []
    for run_ in RUNS:
        base = Run(run_.subject, "f32", run_.seed)
        if run_.subject == subject and run_.how == how and study.is_complete(run_) and study.is_complete(base):
            pairs.append((run_, study.rows(base)[-1], study.rows(run_)[-1]))
    return pairs


def verdicts(study: Study) -> list[str]:
    """What the figures say of what was asked, of complete runs alone."""
    lines = []
    for subject, title in (("text", "text, GELU"), ("images", "images")):
        noise = noise_of(study, subject)
        if noise is None:
            continue
        mean, deviation, count = noise
        lines.append(f"* {title}: seeds differ by {deviation:.4f} (standard deviation of {count} final losses in f32, "
                     f"{100 * deviation / mean:.2f} % of their mean {mean:.4f}).")
        pairs = judged(study, subject, "torch")
        if pairs:
            gap = statistics.fmean(b.loss - a.loss for _, a, b in pairs)
            most = max(abs(b.loss - a.loss) for _, a, b in pairs)
            word = "within" if abs(gap) <= deviation else "outside"
            lines.append(f"* {title}: libtorch's final loss differs from the canonical machine's by {gap:+.5f} on average of "
                         f"{len(pairs)} seed{'s'[:len(pairs) > 1]} ({most:.5f} at most): {word} the noise between seeds.")
    for subject, title in (("text", "GELU"), ("swiglu", "SwiGLU")):
        pairs = judged(study, subject, "int8")
        if pairs:
            gaps = [percent(a.loss, b.loss) for _, a, b in pairs]
            word = "within" if max(map(abs, gaps)) <= 1 else "outside"
            lines.append(f"* int8, {title}: {statistics.fmean(gaps):+.2f} % on average of {len(gaps)} seed{'s'[:len(gaps) > 1]}, "
                         f"at most {max(gaps, key=abs):+.2f} %: {word} 1 %.")
    left = [run_ for run_ in RUNS if not study.is_complete(run_)]
    if left:
        lines.append("* Not complete: " + ", ".join(f"{run_.name} ({study.done(run_):,} of {study.steps(run_):,} steps)"
                                                    for run_ in left) + ".")
    return lines


def report(study: Study) -> str:
    return "\n".join(["", "**Text**, held-out loss at the last step:", "", *text_table(study), "",
                      "**Images**, held-out loss and accuracy at the last step:", "", *image_table(study), "", *verdicts(study), ""])


# --- plots --------------------------------------------------------------------------------------------------------------
COLOURS = {"f32": "#1f5fa8", "torch": "#3c8d40", "int8": "#d9772b", "noise": "#999999"}
PICTURES = ("text", "int8", "torch", "images")
TITLES = {"f32": "canonical, f32", "torch": "libtorch", "int8": "canonical, int8"}
STYLE = """set terminal pngcairo size 760,430 font "DejaVu Sans,10" background rgb "white"
set border 3 lc rgb "#666666"
set tics nomirror
set grid lc rgb "#e4e4e4" lt 1
set key top right reverse Left samplen 2 spacing 1.1
set xlabel "step"
"""
Line = tuple[str, str, str, list[tuple[int, float]]]  # title, colour, further style, points


def name_of(study: Study, run_: Run) -> str:
    model = {"text": "GELU", "swiglu": "SwiGLU", "images": ""}[run_.subject]
    return ", ".join(filter(None, (TITLES[run_.how], model, f"seed {run_.seed}"))) + f" ({study.done(run_):,} steps)"


def plot(study: Study, name: str, ylabel: str, lines: Sequence[Line], extra: Sequence[str] = (), settings: str = "") -> str:
    """The commands of one picture; its points go into a file beside them."""
    parts = []
    for number, (title, colour, style, points) in enumerate(lines):
        path = study.path("plots", f"{name}-{number}.csv")
        write(path, "".join(f"{step},{value!r}\n" for step, value in points))
        parts.append(f'"{path}" using 1:2 with lines {style} lc rgb "{colour}" title "{title}"')
    out = study.path("plots", f"quality-{name}.png")
    return (f'reset\n{STYLE}set datafile separator ","\nset output "{out}"\nset ylabel "{ylabel}"\n{settings}plot '
            + ", \\\n".join([*parts, *extra]) + "\n")


def differences(study: Study, how: str) -> list[Line]:
    """Of each pair of runs by step, and in grey what seeds differ by from their mean."""
    lines: list[Line] = []
    seeds = [run_ for run_ in RUNS if run_.subject == "text" and run_.how == "f32" and study.is_complete(run_)]
    bases = [rows for rows in map(study.rows, seeds) if len(rows) > 1]
    if len(bases) > 1:
        for number, rows in enumerate(bases):
            points = []
            for place, row in enumerate(rows):
                mean = statistics.fmean(other[place].loss for other in bases)
                points.append((row.step, percent(mean, row.loss)))
            lines.append(("" if number else "seeds of f32 from their mean", COLOURS["noise"], "lw 1", points))
    for run_ in RUNS:
        if run_.how != how or not run_.is_text:
            continue
        base = {row.step: row.loss for row in study.rows(Run(run_.subject, "f32", run_.seed))}
        points = [(row.step, percent(base[row.step], row.loss)) for row in study.rows(run_) if row.step in base]
        if len(points) > 1:  # of some runs the last row is all that was kept
            dash = "dt 2 " if run_.subject == "swiglu" else ""
            lines.append((name_of(study, run_), COLOURS[how], f"{dash}lw {1 + 0.5 * run_.seed}", points))
    return lines


def curves(study: Study, subjects: Sequence[str], value: Callable[[Row], float]) -> list[Line]:
    lines: list[Line] = []
    for run_ in RUNS:
        rows = study.rows(run_)
        if run_.subject in subjects and len(rows) > 1:
            dash = "dt 2 " if run_.how == "torch" else ""
            width = 1.5 if run_.subject != "swiglu" else 2.5
            lines.append((name_of(study, run_), COLOURS[run_.how], f"{dash}lw {width}", [(row.step, value(row)) for row in rows]))
    return lines


def draw_plots(study: Study) -> list[str]:
    """FOLDER/plots/quality-*.png of what there is; their paths."""
    shutil.rmtree(study.path("plots"), ignore_errors=True)
    os.makedirs(study.path("plots"))
    bounds = ['1 with lines dt 3 lc rgb "#b52a2a" title "1 %"', '-1 with lines dt 3 lc rgb "#b52a2a" notitle']
    small = 'set key font ",8"\n'
    wanted = [("text", "held-out loss", curves(study, ("text", "swiglu"), lambda row: row.loss), [], small),
              ("int8", "int8 against f32, %", differences(study, "int8"), bounds, small + "set yrange [-2:2]\n"),
              ("torch", "libtorch against canonical, %", differences(study, "torch"), [], small),
              ("images", "held-out accuracy, %", curves(study, ("images",), lambda row: 100 * row.accuracy), [],
               small + "set key bottom right\n")]
    present = [(name, ylabel, lines, extra, settings) for name, ylabel, lines, extra, settings in wanted if lines]
    script = study.path("plots", "plots.gp")
    write(script, "".join(plot(study, name, ylabel, lines, extra, settings) for name, ylabel, lines, extra, settings in present))
    subprocess.run(["gnuplot", script], check=True)
    return [study.path("plots", f"quality-{name}.png") for name, *_ in present]


def publish(study: Study, text: str, pictures: Sequence[str]) -> None:
    for run_ in RUNS:
        if study.kept and study.own_log(run_):
            shutil.copy(study.own_log(run_), os.path.join(study.kept, run_.name + ".csv"))
    page = os.path.join(ROOT, "doc", "quality.md")
    with open(page, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
    images = os.path.join(ROOT, "doc", "images")
    for picture in pictures:
        shutil.copy(picture, images)
    # Those, too, that are not drawn anew.
    names = [name for name in (f"quality-{each}" for each in PICTURES) if os.path.exists(os.path.join(images, name + ".png"))]
    shown = "".join(f"![{name}](images/{name}.png)\n\n" for name in names)
    write(page, before + BEGIN + "\n" + text + "\n" + shown + END + rest.split(END)[1])


# --- command line -------------------------------------------------------------------------------------------------------
def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="contrib/quality.sh", description=__doc__)
    parser.add_argument("--folder")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--plots", action="store_true")
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error("--jobs: 1 at least")
    if options.folder is None:
        options.folder = os.path.join(ROOT, "build", "quality-quick" if options.quick else "quality")
    options.runs = [run_ for run_ in RUNS if options.only.search(run_.name)]
    if not options.runs:
        parser.error("--only: no run has such a name; --list shows them")
    return options


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    study = Study(options.folder, QUICK if options.quick else FULL)
    if options.list:
        print("\n".join(map(study.tell, options.runs)))
        return 0
    failed = []
    if not options.plots:
        end_on_signals()
        failed = study.train(options.runs, options.jobs, Data(study.folder, study.size))
    if not options.quick:
        study.kept = os.path.join(ROOT, KEPT)
    text = report(study)
    write(study.path("report.md"), text)
    pictures = draw_plots(study)
    if options.publish:
        publish(study, text, pictures)
    print(text)
    print(f"{study.path('report.md')}, {study.path('plots')}")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Ended as ended:
        print("\nstopped; the same command goes on", file=sys.stderr)
        sys.exit(ended.status)
