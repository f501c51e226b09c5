#!/usr/bin/python3
"""Makes the files of this folder with PyTorch: NAME.onnx as torch.onnx.export writes it in training mode, and
NAME.safetensors, what PyTorch itself computes: "input", "output" (training mode, dropout off), "evaluated" (evaluation
mode), "loss" (cross entropy with class or token number i % classes), "gradient.PARAMETER" of it, and "after.BUFFER", the
running statistics after that one pass in training mode. NAME-eval.onnx is the same model exported for inference, with
constants folded.

Needs Debian's python3-torch and python3-onnx (torch 1.13.1, onnx 1.12). Run: /usr/bin/python3 make.py
"""
import json
import os
import struct
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = 4


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if inputs != outputs or stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.pool = nn.MaxPool2d(2)
        self.layer1 = Block(8, 8, 1)
        self.layer2 = Block(8, 16, 2)
        self.drop = nn.Dropout(0.1)
        self.fc = nn.Linear(16, 4)

    def forward(self, x):
        x = self.layer2(self.layer1(self.pool(F.relu(self.stem(x)))))
        return self.fc(self.drop(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)))


class Zoo(nn.Module):
    """Operations that image models use and the one above does not."""

    def __init__(self):
        super().__init__()
        self.depthwise = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.grouped = nn.Conv2d(6, 12, (3, 1), padding=(1, 0), groups=3, dilation=(1, 1))
        self.norm = nn.GroupNorm(3, 12)
        self.squeeze = nn.Linear(12, 4)
        self.excite = nn.Linear(4, 12)
        self.prelu = nn.PReLU(12)
        self.line = nn.Conv1d(12, 5, 3, stride=2, padding=1)
        self.bn = nn.BatchNorm1d(25)
        self.out = nn.Linear(25, 3)

    def forward(self, x):
        x = F.hardswish(self.depthwise(x))
        x = F.silu(self.norm(self.grouped(x)))
        scale = torch.sigmoid(self.excite(F.leaky_relu(self.squeeze(x.mean((2, 3))), 0.1)))
        x = x * scale[:, :, None, None]
        x = torch.cat([self.prelu(x), F.elu(x) * 0.5], 1)
        x = x[:, ::2] + F.softplus(x[:, 1::2])
        x = F.avg_pool2d(F.pad(x, (1, 1, 0, 0)), 2)
        x = F.max_pool2d(x, 2, stride=1)
        x = self.line(x.flatten(2))
        x = torch.clamp(x, -2.0, 2.0) / torch.sqrt(torch.exp(-torch.abs(x)) + 1.0)
        x = torch.nn.functional.pad(x, (0, 5 - x.shape[2]))
        return self.out(F.hardtanh(self.bn(x.flatten(1))))


class Attention(nn.Module):
    def __init__(self, size, heads, length):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x):
        batch, length, size = x.size()
        q, k, v = self.qkv(x).split(size, dim=2)
        q, k, v = [t.view(batch, length, self.heads, size // self.heads).transpose(1, 2) for t in (q, k, v)]
        scores = (q @ k.transpose(-2, -1)) * (size // self.heads) ** -0.5
        scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
        mixed = F.softmax(scores, -1) @ v
        return self.out(mixed.transpose(1, 2).contiguous().view(batch, length, size))


class GptBlock(nn.Module):
    def __init__(self, size, heads, length):
        super().__init__()
        self.ln_1 = nn.LayerNorm(size)
        self.attn = Attention(size, heads, length)
        self.ln_2 = nn.LayerNorm(size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """A small GPT, its output layer tied to the embedding."""

    def __init__(self, vocabulary=40, size=32, heads=4, layers=2, length=16):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, size)
        self.wpe = nn.Embedding(length, size)
        self.h = nn.ModuleList([GptBlock(size, heads, length) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(size)
        nn.init.normal_(self.wte.weight, std=0.2)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(0, tokens.size(1)))
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.t()


class Encoder(nn.Module):
    """nn.MultiheadAttention, and attention that is split out of five dims, as vision transformers have it."""

    def __init__(self, vocabulary=40, size=32, length=12):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        self.positions = nn.Parameter(torch.randn(1, length, size) * 0.1)
        self.attention = nn.MultiheadAttention(size, 4, batch_first=True)
        self.norm = nn.LayerNorm(size)
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, 3)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions
        y, _ = self.attention(x, x, x, need_weights=False)
        x = self.norm(x + y)
        batch, length, size = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, 4, size // 4).permute(2, 0, 3, 1, 4)
        scores = torch.log_softmax(qkv[0] @ qkv[1].transpose(-2, -1) / 3.0, dim=-1).exp()
        x = x + (scores @ qkv[2]).transpose(1, 2).reshape(batch, length, size)
        return self.out(torch.amax(x, 1) + x.mean(1))


class Lstm(nn.Module):
    def __init__(self, vocabulary=30, size=16, hidden=20):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        self.lstm = nn.LSTM(size, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, vocabulary)

    def forward(self, tokens):
        return self.out(self.lstm(self.embedding(tokens))[0])


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(6, 12, batch_first=True, bidirectional=True)
        self.out = nn.Linear(24, 2)

    def forward(self, x):
        outputs, last = self.gru(x.view(-1, 5, 6))
        return self.out(outputs[:, -1] + torch.cat([last[0], last[1]], 1))


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, tensor in tensors.items():
        kind, code = ("F32", "f") if tensor.dtype == torch.float32 else ("I32", "i")
        values = tensor.detach().contiguous().flatten().tolist()
        data = struct.pack(f"<{len(values)}{code}", *values)
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def write_numbers(path, model, x, classes):
    """NAME.safetensors. The model is in training mode afterwards, its dropout off."""
    model.eval()
    evaluated = model(x)
    model.train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.eval()
    model.zero_grad()
    output = model(x)
    rows = output.reshape(-1, classes)
    loss = F.cross_entropy(rows, torch.arange(rows.size(0)) % classes)
    loss.backward()
    tensors = {"input": x if x.dtype == torch.float32 else x.int(), "output": output, "evaluated": evaluated,
               "loss": loss.reshape(1)}
    for parameter, value in model.named_parameters():
        # Of more than two dims, flattened behind the first: safetensors readers differ in how many dims they take.
        tensors["gradient." + parameter] = value.grad.reshape(value.size(0), -1) if value.dim() > 2 else value.grad
    tensors.update({"after." + name: value for name, value in model.named_buffers() if ".running_" in name})
    write_safetensors(path + ".safetensors", tensors)
    print(os.path.basename(path), sum(p.numel() for p in model.parameters()), "parameters, loss", loss.item())


def make(name, model, x, classes, opset):
    path = os.path.join(HERE, name)
    for eval_mode in (False, True):
        model.train(not eval_mode)
        mode = torch.onnx.TrainingMode.EVAL if eval_mode else torch.onnx.TrainingMode.TRAINING
        torch.onnx.export(model, x, path + ("-eval" if eval_mode else "") + ".onnx", training=mode,
                          do_constant_folding=eval_mode, input_names=["input"], output_names=["output"],
                          opset_version=opset, dynamic_axes={"input": {0: "batch"}})
    write_numbers(path, model, x, classes)


def main():
    torch.manual_seed(7)
    sys.stderr = open(os.devnull, "w")
    make("resnet", ResNet(), torch.randn(BATCH, 3, 16, 16), 4, 13)
    make("zoo", Zoo(), torch.randn(BATCH, 6, 9, 8), 3, 14)
    make("gpt", Gpt(), torch.randint(0, 40, (BATCH, 16)), 40, 13)
    make("encoder", Encoder(), torch.randint(0, 40, (BATCH, 12)), 3, 17)
    make("lstm", Lstm(), torch.randint(0, 30, (BATCH, 10)), 30, 11)
    make("gru", Gru(), torch.randn(BATCH, 30), 2, 9)


if __name__ == "__main__":
    main()
