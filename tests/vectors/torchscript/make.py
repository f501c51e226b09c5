#!/usr/bin/python3
"""Makes the files of this folder with PyTorch, of the models of ../onnx/make.py: NAME-script.pt (torch.jit.script) and
NAME-trace.pt (torch.jit.trace), both of the model in training mode, NAME-eval.pt (script, evaluation mode), and
NAME.safetensors, what PyTorch itself computes (../onnx/make.py says what is in it). bad-*.pt are archives that no one
should have written: what each does stands beside it below.

Needs Debian's python3-torch (1.13.1). Run: /usr/bin/python3 make.py
"""
import io
import os
import pickle
import sys
import threading
import types
import warnings
import zipfile

import torch
import torch.nn as nn


def load(name, path):
    """A module of a source file that is called as it is from tests/vectors: archives say where their source was."""
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), module.__dict__)
    return module


class Small(nn.Module):
    """Frozen layers, tied weights, buffers, changes in place, and what later tests damage."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, 8, bias=False)
        self.again = nn.Linear(8, 8, bias=False)
        self.out = nn.Linear(8, 3)
        self.again.weight = self.second.weight
        self.first.weight.requires_grad_(False)
        self.register_buffer("scale", torch.rand(8) + 0.5)

    def forward(self, x):
        y = torch.relu_(self.first(x)) * self.scale
        z = y.clone()
        z += self.second(y)
        z.mul_(0.5)
        return self.out(y + self.again(z))


class Forever(nn.Module):
    def forward(self, x):
        i = 0
        while i < 1:
            i = i - 1
        return x + i


class Terabyte(nn.Module):
    def forward(self, x):
        return x + torch.ones([1000000, 1000000]).sum()


class OfData(nn.Module):
    def forward(self, x):
        while bool(x.sum() > 0):
            x = x - 1
        return x


class Raises(nn.Module):
    def forward(self, x):
        if x.size(1) != 7:
            raise ValueError("seven it must be")
        return x


class Unknown(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x).real


class Restored(nn.Module):
    """Code that runs when it is loaded."""

    def __init__(self):
        super().__init__()
        self.number = 1

    @torch.jit.export
    def __getstate__(self):
        return self.number

    @torch.jit.export
    def __setstate__(self, number: int):
        while number > 0:
            number = number + 1 - 1
        self.number = number
        self.training = False

    def forward(self, x):
        return x * self.number


def bytes_of(module):
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(module), buffer)
    return buffer.getvalue()


def changed(archive, change, packed=()):
    """The archive with change(name, bytes) in place of each record's bytes."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(result, "w") as target:
        for info in source.infolist():
            data = change(info.filename, source.read(info))
            is_packed = any(info.filename.endswith(end) for end in packed)
            target.writestr(info.filename, data, zipfile.ZIP_DEFLATED if is_packed else zipfile.ZIP_STORED)
    assert result.getvalue() != archive
    return result.getvalue()


class Command:
    def __reduce__(self):
        return os.system, ("touch /tmp/quern-torchscript-ran",)


def write_bad():
    small = bytes_of(Small().eval())

    def replaced(end, old, new):
        assert any(name.endswith(end) for name in zipfile.ZipFile(io.BytesIO(small)).namelist()), end

        def change(name, data):
            if not name.endswith(end):
                return data
            assert old in data, (name, old)
            return data.replace(old, new)
        return changed(small, change)

    def put(end, new, packed=()):
        assert any(name.endswith(end) for name in zipfile.ZipFile(io.BytesIO(small)).namelist()), end
        return changed(small, lambda name, data: new if name.endswith(end) else data, packed)

    def renamed(old, new, archive=small, within=False):
        result = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(result, "w") as target:
            for info in source.infolist():
                data = source.read(info)
                target.writestr(info.filename.replace(old, new),
                                data.replace(old.encode(), new.encode()) if within else data)
        return result.getvalue()

    restored = bytes_of(Restored())

    bad = {
        "forever": bytes_of(Forever()),
        "terabyte": bytes_of(Terabyte()),
        "of-data": bytes_of(OfData()),
        "raises": bytes_of(Raises()),
        "unknown": bytes_of(Unknown()),
        "setstate": restored,
        # libtorch finds records in either case, and lists names of 511 bytes.
        "setstate-case": renamed("/code/", "/CODE/", restored),
        "setstate-ending": renamed(".py", ".Py", restored),
        "setstate-long": renamed("modules", "m" * 520, restored, within=True),
        "model-json": renamed("data.pkl", "model.json"),
        # Evaluated when the method is compiled.
        "default": replaced("__torch__/modules.py", b"    x: Tensor) -> Tensor:",
                            b"    x: Tensor,\n    n: Tensor=torch.ones([1000, 1000])) -> Tensor:"),
        "command": put("data.pkl", pickle.dumps(Command(), protocol=2)),
        "deep": replaced("__torch__/modules.py", b"    return ",
                         b"    deep = " + b"(" * 20000 + b"1" + b")" * 20000 + b"\n    return "),
        # Twice as many bytes as there are.
        "wide-words": replaced("data.pkl", b"FloatStorage", b"DoubleStorage"),
        "bomb": put("__torch__/modules.py", b"#" * (65 << 20), ("modules.py",)),
        "path": renamed("data.pkl", "../../data.pkl"),
        "pickle-of-pickles": put("data.pkl", b"\x80\x02" + b"]" * 50000 + b"a" * 49999 + b"."),
    }
    for name, data in bad.items():
        with open(f"torchscript/bad-{name}.pt", "wb") as file:
            file.write(data)


def make(models, name, model, x, classes):
    model.train()
    torch.jit.script(model).save("torchscript/" + name + "-script.pt")
    # Tracing runs it: running statistics begin as they do in the other files.
    state = {key: value.clone() for key, value in model.state_dict().items()}
    traced = torch.jit.trace(model, x, check_trace=False)
    traced.load_state_dict(state)
    traced.save("torchscript/" + name + "-trace.pt")
    model.load_state_dict(state)
    model.eval()
    torch.jit.script(model).save("torchscript/" + name + "-eval.pt")
    models.write_numbers("torchscript/" + name, model, x, classes)


def main():
    models = load("models", "onnx/make.py")
    batch = models.BATCH
    torch.manual_seed(11)
    make(models, "resnet", models.ResNet(), torch.randn(batch, 3, 16, 16), 4)
    make(models, "zoo", models.Zoo(), torch.randn(batch, 6, 9, 8), 3)
    make(models, "gpt", models.Gpt(), torch.randint(0, 40, (batch, 16)), 40)
    make(models, "encoder", models.Encoder(), torch.randint(0, 40, (batch, 12)), 3)
    make(models, "lstm", models.Lstm(), torch.randint(0, 30, (batch, 10)), 30)
    make(models, "gru", models.Gru(), torch.randn(batch, 30), 2)
    torch.jit.script(Small()).save("torchscript/small.pt")
    write_bad()


if __name__ == "__main__":
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    warnings.filterwarnings("ignore")
    # In a thread, whose stack does not begin in this file under its absolute name.
    threading.Thread(target=load("modules", "torchscript/make.py").main).start()
