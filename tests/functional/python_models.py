"""Trains modules of PyTorch as a user would, for test_python.py, which runs this with a Python that has torch.

Usage: python_models.py CASE [JSON of train()'s arguments]; prints one JSON object.
"""
import json
import os
import sys
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "contrib", "python"))
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import quern  # noqa: E402
from quern.shapes import NAMES, SIDE, shapes  # noqa: E402


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.norm = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.out = nn.Linear(32, len(NAMES))
        self.register_buffer("scale", torch.full((1, 32), 2.0))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv1(x))), 2)
        return self.out((x + F.relu(self.norm2(self.conv2(x)))).mean((2, 3)) * self.scale)


class Tied(nn.Module):
    """The next token by an embedding that is the output layer too."""

    def __init__(self, vocabulary=24, size=32):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        self.hidden = nn.Linear(size, size)
        self.head = nn.Linear(size, vocabulary, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(torch.tanh(self.hidden(self.embedding(tokens))))


class Unknown(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, 1)


def images(count, seed):
    pixels, labels = shapes(count, seed)
    values = torch.tensor(list(pixels), dtype=torch.float32).reshape(count, 1, SIDE, SIDE)
    return values / 128 - 1, torch.tensor(list(labels))


def cnn(**how):
    torch.manual_seed(1)
    module, events = Cnn(), []
    before = {name: value.clone() for name, value in module.state_dict().items()}
    onnx = os.path.join(how["directory"], "trained.onnx")
    trained = quern.train(module, images(512, 1), lr=1e-2, on_event=lambda event: events.append(dict(event)), onnx=onnx, **how)
    untouched = module.training and all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    module.load_state_dict(trained)
    module.eval()
    inputs, labels = images(256, 2)
    with torch.no_grad():
        outputs = module(inputs)
    with open(onnx, "rb") as file:
        content = file.read()
    places = {name: content[begin:end] for name, (begin, end) in quern.training.initializers_of(content).items()}
    same = [name for name, value in trained.items() if value.dtype == torch.float32 and places[name] == value.numpy().tobytes()]
    return {"events": events, "untouched": untouched, "names": sorted(trained), "exported": sorted(same),
            "scale": trained["scale"].tolist()[0][:2], "moved": bool((trained["norm.running_mean"] != 0).any()),
            "loss": F.cross_entropy(outputs, labels).item(),
            "accuracy": (outputs.argmax(1) == labels).float().mean().item()}


def tied(**how):
    torch.manual_seed(1)
    module = Tied()
    tokens = torch.arange(2001) * 5 % 24  # each token says the next
    trained = quern.train(module, tokens, context=16, lr=1e-2, **how)
    same = torch.equal(trained["embedding.weight"], trained["head.weight"])
    module.load_state_dict(trained)
    with torch.no_grad():
        right = (module(tokens[:-1]).argmax(-1) == tokens[1:]).float().mean().item()
    return {"same": same, "moved": not torch.equal(trained["embedding.weight"], Tied().embedding.weight), "right": right}


def line(**how):
    """A regression of one layer: how far it is off before and after."""
    torch.manual_seed(1)
    inputs, slope = torch.randn(256, 8), torch.randn(8, 1)
    targets, losses = inputs @ slope, {}
    for name, each, loss in (("numbers", targets, ""), ("whole", (4 * targets).round().long(), "mse")):
        module = nn.Linear(8, 1)
        before = F.mse_loss(module(inputs), each.float()).item()
        module.load_state_dict(quern.train(module, (inputs, each), loss=loss, lr=0.1, local=True, **how))
        losses[name] = [before, F.mse_loss(module(inputs), each.float()).item()]
    return losses


def interrupted(directory):
    """Three calls with one directory, of modules with weights of their own: the first ends early, the others do not."""

    class Ended(Exception):
        pass

    def end(event):
        if event["event"] == "progress":
            raise Ended

    def call(seed, module=None, **how):
        torch.manual_seed(seed)
        return quern.train(module or Cnn(), images(128, 1), steps=200, local=True, directory=directory, **how)

    events, other = [], ""
    try:
        call(1, on_event=end)
        return {}
    except Ended:
        pass
    try:
        call(1, module=nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, len(NAMES))))
    except quern.TrainError as error:
        other = error.name
    call(2, on_event=lambda event: events.append(event["event"]))
    again = call(1)
    try:
        call(3)
    except quern.TrainError as error:
        return {"events": events, "names": sorted(again), "other": other, "name": error.name}
    return {}


def refused(**how):
    inputs, labels = images(32, 1)
    dataset = {"": (inputs, labels), "short": (inputs, labels[:31]), "arrays": (inputs.numpy(), labels.numpy()),
               "classes": (inputs, labels + 1)}[how.pop("dataset", "")]
    try:
        quern.train(Unknown() if how.pop("unknown", False) else Cnn(), dataset, **how)
    except quern.TrainError as error:
        return {"name": error.name, "detail": error.detail}
    except (TypeError, ValueError) as error:
        return {"name": type(error).__name__, "detail": str(error)}
    return {}


if __name__ == "__main__":
    case = {"cnn": cnn, "tied": tied, "interrupted": interrupted, "line": line, "refused": refused}[sys.argv[1]]
    print(json.dumps(case(**json.loads(sys.argv[2]))))
