"""Training of models from Python: quern.train() of a torch module, on the market or on this machine, and a typed client.

The programs do the work (quern-compile, quern-train); this module writes what they read, follows what they say and gives
back what they bring. Nothing beyond the standard library is needed but for train() of a module, which needs torch.
"""
from __future__ import annotations

import copy
import json
import os
import shutil
import struct
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Callable, Iterator, Mapping, Sequence

from .printable import printable
from .rpc import BadAnswer, Node

if TYPE_CHECKING:
    import torch

Event = Mapping[str, Any]

INPUT, OUTPUT = "input", "output"  # what the exported network calls them
TRAINED = "trained.safetensors"
UNDER_WAY = ("local", "submitting", "following")  # stages of a job file
KEPT_WORDS = 1 << 16  # characters of what a program said last


class TrainError(Exception):
    """What a program refused or what came to nothing: `name` as in doc/training.md, "Errors", and `detail` for people."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(printable(f"{name}: {detail}" if detail else name))
        self.name = name
        self.detail = detail


@dataclass(frozen=True)
class Task:
    """A training task as the chain tells it; `raw` is all of task_get."""

    id: int
    state: str
    reason: str
    steps: int
    raw: Mapping[str, Any]


class Client:
    """A node, by its JSON-RPC port: `Client("http://127.0.0.1:8545")`. `rpc` takes any other method. `timeout`: seconds until
    an answer is there, all of it. Raises quern.RpcError where the node refuses, quern.BadAnswer where it says what is no
    answer, OSError and http.client.HTTPException where it does not answer."""

    def __init__(self, url: str = "http://127.0.0.1:8545", timeout: float = 30) -> None:
        host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
        if url.startswith("https://") or not host:
            raise ValueError(f"{url}: http://HOST:PORT of a node")
        self.url = url
        self.rpc = Node(int(port or 8545), host, timeout=timeout)

    def chain_id(self) -> int:
        return int(self.rpc.number("eth_chainId"))

    def height(self) -> int:
        """The number of the newest block."""
        return int(self.rpc.height())

    def balance(self, address: str) -> int:
        """In grains."""
        return int(self.rpc.number("eth_getBalance", address, "latest"))

    def task(self, number: int) -> Task | None:
        """None where there is no such task."""
        found = self.rpc.task_get(number)
        if found is None:
            return None
        wanted = {"stateName": str, "reason": str, "steps": int}
        if not isinstance(found, dict) or any(not isinstance(found.get(name), kind) for name, kind in wanted.items()):
            raise BadAnswer(f"task_get: {number}: no task")
        return Task(number, found["stateName"], found["reason"], found["steps"], found)


def program(name: str) -> str:
    """The path of one of Quern's programs: in $QUERN_BIN, beside this checkout's sources, or in $PATH."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "build")
    folders = [os.environ.get("QUERN_BIN", ""), *(os.path.join(root, kind, "bin") for kind in ("release", "testing"))]
    for folder in filter(None, folders):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name}: set QUERN_BIN to the folder of Quern's programs")
    return found


def compile_(*arguments: str) -> Any:
    """What `quern-compile ARGUMENTS` prints; raises TrainError with what it refuses."""
    ended = subprocess.run([program("quern-compile"), *arguments], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise _refusal(ended.stderr)
    return json.loads(ended.stdout)


def follow(arguments: Sequence[str]) -> Iterator[Event]:
    """The events of `quern-train ARGUMENTS --json`, as they come; raises TrainError at its end when it failed. Closing the
    iterator ends the program as Ctrl-C does: the same call goes on where it was."""
    with subprocess.Popen([program("quern-train"), *arguments, "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace") as child:
        assert child.stdout is not None and child.stderr is not None
        failed: TrainError | None = None
        said = [""]
        listener = threading.Thread(target=_listen, args=(child.stderr, said), daemon=True)  # else a full pipe stops it
        listener.start()
        try:
            for line in child.stdout:
                event = json.loads(line)
                if event["event"] == "error":
                    failed = TrainError(event["name"], event["detail"])
                else:
                    yield event
        finally:
            if child.poll() is None:
                child.terminate()
            for _ in child.stdout:
                pass
            listener.join()
            child.wait()
        if failed is not None or child.returncode != 0:
            raise failed or _refusal(said[0])


def _listen(stream: IO[str], said: list[str]) -> None:
    """All that comes, of which the end is kept."""
    while piece := stream.read(KEPT_WORDS):
        said[0] = (said[0] + piece)[-KEPT_WORDS:]


def _refusal(said: str) -> TrainError:
    """Of a program's last line, "quern-compile: onnx.not_onnx: detail"."""
    line = (said.strip().splitlines() or ["no word"])[-1].partition(": ")[2] or said.strip()
    name, _, detail = line.partition(": ")
    return TrainError(name, detail)


def read_safetensors(path: str) -> dict[str, tuple[tuple[int, ...], bytes]]:
    """Shape and little endian binary32 words of each tensor of a model file, by name."""
    with open(path, "rb") as file:
        content = file.read()
    (size,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            raise ValueError(f"{path}: {name} is {entry['dtype']}")
        begin, end = entry["data_offsets"]
        tensors[name] = (tuple(entry["shape"]), content[8 + size + begin:8 + size + end])
    return tensors


def initializers_of(onnx: bytes | bytearray) -> dict[str, tuple[int, int]]:
    """Of a network's initializers the names, and where in the file their raw data is (onnx.proto3: ModelProto.graph = 7,
    GraphProto.initializer = 5, TensorProto.name = 8, raw_data = 9)."""
    found = {}
    for graph in _fields(onnx, 7, 0, len(onnx)):
        for tensor in _fields(onnx, 5, *graph):
            for begin, end in _fields(onnx, 8, *tensor):
                found[bytes(onnx[begin:end]).decode()] = next(_fields(onnx, 9, *tensor), (0, 0))
    return found


def _fields(message: bytes | bytearray, wanted: int, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the fields of that number, of those that have a length, are in message[at:end]."""

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < end:
        field, kind = divmod(varint(), 8)
        if kind == 2:
            size = varint()
            if field == wanted:
                yield at, at + size
            at += size
        elif kind == 0:
            varint()
        else:
            at += {1: 8, 5: 4}[kind]


def _write_words(path: str, tensor: torch.Tensor) -> None:
    """f32, or whole numbers of 32 bits, little endian; images channels last."""
    import torch

    if tensor.dim() == 4:
        tensor = tensor.permute(0, 2, 3, 1)
    kind = torch.float32 if tensor.is_floating_point() else torch.int32
    values = tensor.detach().to("cpu", kind).contiguous()
    with open(path, "wb") as file:
        file.write(bytes(values.flatten().view(torch.uint8).numpy().tobytes()))
    with open(path + ".json", "w") as file:
        json.dump({"dtype": "f32" if kind == torch.float32 else "i32", "elements": values.numel()}, file)


def _tensors(dataset: Any) -> tuple[torch.Tensor, ...]:
    """(inputs, targets), or (tokens,): of tensors, or of a dataset whose items are such."""
    import torch

    if isinstance(dataset, torch.Tensor):
        return (dataset,)
    if isinstance(dataset, (tuple, list)) and all(isinstance(each, torch.Tensor) for each in dataset):
        if not 1 <= len(dataset) <= 2 or any(len(each) != len(dataset[0]) for each in dataset):
            raise ValueError(f"inputs and targets of as many examples, not {[tuple(each.shape) for each in dataset]}")
        return tuple(dataset)
    if isinstance(dataset, tuple) or not hasattr(dataset, "__getitem__"):
        raise TypeError(f"two tensors (torch.as_tensor makes one of an array), or a torch Dataset, not {type(dataset).__name__}")
    columns = zip(*(dataset[i] for i in range(len(dataset))))
    return tuple(torch.stack([torch.as_tensor(value) for value in column]) for column in columns)


def export(module: torch.nn.Module, example: torch.Tensor, path: str, opset: int = 13) -> set[str]:
    """Writes the module as quern-compile wants it: in training mode, names kept, any batch. The module stays as it is.
    Gives the names of its buffers that the network has."""
    import torch

    torch.onnx.export(copy.deepcopy(module), (example,), path, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, input_names=[INPUT], output_names=[OUTPUT], opset_version=opset,
                      dynamic_axes={INPUT: {0: "batch"}})
    # The exporter runs what it exports, which moves running statistics.
    with open(path, "rb") as file:
        content = bytearray(file.read())
    places, buffers = initializers_of(content), dict(module.named_buffers())
    kept = {name for name, value in buffers.items() if name in places and value.dtype == torch.float32}
    for name in kept:
        begin, end = places[name]
        words = buffers[name].detach().cpu().contiguous().numpy().tobytes()
        if end - begin == len(words):
            content[begin:end] = words
    with open(path, "wb") as file:
        file.write(content)
    return kept


def _place_model(module: torch.nn.Module, folder: str, new: str, model: str) -> None:
    """Puts an exported network in the place of an earlier one. Where a training of that one is under way it stays, if the
    two differ in their weights alone: a script that is run again makes its module with other random weights, and what
    was begun, and perhaps paid for, goes on with its own."""

    def without_weights(path: str) -> bytes:
        with open(path, "rb") as file:
            content = bytearray(file.read())
        places, weights = initializers_of(content), module.state_dict()
        for begin, end in (places[name] for name in places if name in weights):
            content[begin:end] = bytes(end - begin)
        return bytes(content)

    if _stage(folder) not in UNDER_WAY or not os.path.exists(model):
        os.replace(new, model)
        return
    same = without_weights(new) == without_weights(model)
    os.remove(new)
    if not same:
        raise TrainError("train.other_job", f"another network is trained in {folder}: choose another directory")


def _stage(folder: str) -> str | None:
    """What the job file in a folder of train() is at; None where there is none."""
    try:
        with open(os.path.join(folder, TRAINED + ".job.json")) as file:
            return str(json.load(file)["stage"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def train(module: torch.nn.Module, dataset: Any, *, steps: int, budget: str | None = None, loss: str = "",
          batch: int = 32, lr: float = 1e-3, precision: str = "", optimizer: Mapping[str, Any] | None = None,
          context: int | None = None, recompute: int = 0, held_out: Any = None, evaluate_every: int = 0,
          local: bool = False, node: str = "http://127.0.0.1:8545", keystore: str | None = None,
          password_file: str | None = None, seed: int = 1, directory: str | None = None, options: Sequence[str] = (),
          on_event: Callable[[Event], None] | None = None, onnx: str | None = None) -> dict[str, torch.Tensor]:
    """Trains a module and gives its `state_dict` after it: `module.load_state_dict(quern.train(module, ...))`.

    dataset     inputs [n, ...] and targets [n] (classes) or [n, outputs], as two tensors or as a torch Dataset; or one
                tensor of tokens for a model of the next token, whose windows have `context` tokens
    steps       updates of the optimizer
    budget      "5qrn": the most that the task may cost on the market; needs `keystore` and `password_file`
    local       on this machine instead, without chain and money; the same arithmetic, the same bits
    loss        cross_entropy, mse, binary_cross_entropy or next_token; "": next_token of tokens alone, mse of targets
                that are no whole numbers, else cross_entropy
    precision   of linear layers: f32 or int8; "": f32
    optimizer   fields of an architecture file's optimizer; default AdamW with rate `lr`
    recompute   parts of the model of which only the ends are kept for the backward pass, which computes the rest again:
                less memory, more work, the same bits; 0: all is kept
    held_out    as `dataset`: examples that nothing is trained by. The training evaluates the module on them, every
                `evaluate_every` updates or (0) at the end; what it finds is proved with it, and `evaluation` of events
    directory   where model, data and what quern-train keeps lie. With one given, the same call goes on where it was
                interrupted, with the weights that it began with, and never pays twice. Default: a temporary one
    options     more of quern-train's own
    on_event    is told each event (doc/training.md, "For scripts")
    onnx        a file to write as well: the network as it was exported, with what was trained

    Buffers of numbers are not trained. Raises TrainError; its names are in doc/training.md and doc/program-compiler.md.
    """
    import torch

    if not local and budget is None:
        raise ValueError("a budget for the market, or local=True")
    tensors = _tensors(dataset)
    tokens = len(tensors) == 1
    if not tokens:
        example = tensors[0][:2]
    elif context is None:
        raise ValueError("context: how many tokens a window of a model of the next token has")
    else:
        example = tensors[0][:2 * context].reshape(2, context).long()
    folder = directory or tempfile.mkdtemp(prefix="quern-train-")
    try:
        os.makedirs(folder, exist_ok=True)

        def path(name: str) -> str:
            return os.path.join(folder, name)

        frozen = export(module, example, path("exported.onnx"))
        _place_model(module, folder, path("exported.onnx"), path("model.onnx"))
        data = [path(name) for name in (("tokens",) if tokens else ("inputs", "targets"))]
        for place, tensor in zip(data, tensors, strict=True):
            _write_words(place, tensor)
        others = [] if held_out is None else _tensors(held_out)
        kept = [f"{file}.held-out" for file in data[:len(others)]]
        for place, tensor in zip(kept, others, strict=True):
            _write_words(place, tensor)
        more = (["--loss", loss] if loss else []) + (["--recompute", str(recompute)] if recompute else [])
        more += ["--precision", precision] if precision else []
        if kept:
            more += ["--held-out", *kept, "--evaluate-every", str(evaluate_every)]
        compile_("arch", "--model", path("model.onnx"), "--data", *data, "--batch", str(batch), "--lr", repr(float(lr)),
                 "--steps", str(steps), *more, "--out", path("arch.json"))
        with open(path("arch.json")) as text:
            architecture = json.load(text)
        architecture["model"]["frozen"] = sorted(frozen)
        if optimizer is not None:
            architecture["optimizer"] = dict(optimizer)
        with open(path("arch.json"), "w") as text:
            json.dump(architecture, text)

        arguments = ["--model", path("arch.json"), "--data", *data, *kept, "--out", path(TRAINED), "--steps",
                     str(steps), "--seed", str(seed), *options]
        arguments += ["--export", onnx] if onnx else []
        if local:
            arguments.append("--local")
        else:
            arguments += ["--budget", str(budget), "--node", node, "--yes"]
            arguments += ["--keystore", keystore] if keystore else []
            arguments += ["--password-file", password_file] if password_file else []
        for event in follow(arguments):
            if on_event is not None:
                on_event(event)
        return _state_dict(module, read_safetensors(path(TRAINED)), torch)
    finally:
        if directory is None:
            shutil.rmtree(folder, ignore_errors=True)


def _state_dict(module: torch.nn.Module, trained: Mapping[str, tuple[tuple[int, ...], bytes]], torch: Any) -> dict[str, Any]:
    """The module's own, with what was trained in place; weights that are tied have one name in the network."""
    old = module.state_dict()
    names: dict[int, list[str]] = {}
    for name, value in old.items():
        names.setdefault(value.data_ptr() if value.numel() else id(value), []).append(name)
    result = dict(old)
    for name, (_, content) in trained.items():
        if name not in old:
            continue
        value = torch.frombuffer(bytearray(content), dtype=torch.float32).reshape(old[name].shape).to(old[name].dtype)
        for each in names[old[name].data_ptr()]:
            if old[each].shape == old[name].shape:
                result[each] = value
    return result
