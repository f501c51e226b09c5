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
    trained = quern.train(module, images(512, 1), lr=1e-2, on_event=lambda event: events.append(dict(event)), **how)
    untouched = module.training and all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    module.load_state_dict(trained)
    module.eval()
    inputs, labels = images(256, 2)
    with torch.no_grad():
        outputs = module(inputs)
    return {"events": events, "untouched": untouched, "names": sorted(trained),
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


def refused(**how):
    try:
        quern.train(Unknown() if how.pop("unknown", False) else Cnn(), images(32, 1), **how)
    except quern.TrainError as error:
        return {"name": error.name, "detail": error.detail}
    except ValueError as error:
        return {"name": "ValueError", "detail": str(error)}
    return {}


if __name__ == "__main__":
    case = {"cnn": cnn, "tied": tied, "refused": refused}[sys.argv[1]]
    print(json.dumps(case(**json.loads(sys.argv[2]))))
