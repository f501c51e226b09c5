#!/usr/bin/python3
"""Writes GPT-2 as an ONNX file, with random weights and the names that Hugging Face's GPT2LMHeadModel gives them.

Usage: gpt2.py [--layers 12] [--size 768] [--heads 12] [--vocabulary 50257] [--context 128] --out gpt2.onnx
The defaults are the smallest model, 124 million parameters, for windows of 128 tokens: 510 MB. Then, for example:

  quern-train --model gpt2.onnx --data tokens.u16 --steps 100 --batch 4 --local --out trained.safetensors

Needs Debian's python3-torch.
"""
import argparse
import math
import warnings

import torch
import torch.nn as nn

warnings.filterwarnings("ignore")


class Conv1D(nn.Module):
    """A linear layer whose weight lies [inputs, outputs]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) * 0.02)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        rows = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return rows.view(x.size()[:-1] + (self.bias.size(0),))


class Attention(nn.Module):
    def __init__(self, size, heads, context):
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = Conv1D(size, 3 * size), Conv1D(size, size)
        self.attn_dropout, self.resid_dropout = nn.Dropout(0.1), nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones((context, context), dtype=torch.uint8)).view(1, 1, context, context))

    def split(self, x):
        return x.view(x.size()[:-1] + (self.heads, x.size(-1) // self.heads)).permute(0, 2, 1, 3)

    def forward(self, x):
        query, key, value = (self.split(part) for part in self.c_attn(x).split(x.size(-1), dim=2))
        scores = torch.matmul(query, key.transpose(-1, -2)) / (value.size(-1) ** 0.5)
        mask = self.bias[:, :, key.size(-2) - query.size(-2):key.size(-2), :key.size(-2)].to(torch.bool)
        scores = torch.where(mask, scores, torch.full([], torch.finfo(scores.dtype).min))
        mixed = torch.matmul(self.attn_dropout(torch.softmax(scores, dim=-1)), value).permute(0, 2, 1, 3).contiguous()
        return self.resid_dropout(self.c_proj(mixed.view(mixed.size()[:-2] + (x.size(-1),))))


class Mlp(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.c_fc, self.c_proj, self.dropout = Conv1D(size, 4 * size), Conv1D(4 * size, size), nn.Dropout(0.1)

    def forward(self, x):
        x = self.c_fc(x)
        x = 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
        return self.dropout(self.c_proj(x))


class Block(nn.Module):
    def __init__(self, size, heads, context):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(size), Attention(size, heads, context)
        self.ln_2, self.mlp = nn.LayerNorm(size), Mlp(size)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, size, heads, layers, context):
        super().__init__()
        self.transformer = nn.Module()
        self.transformer.wte, self.transformer.wpe = nn.Embedding(vocabulary, size), nn.Embedding(context, size)
        self.transformer.drop = nn.Dropout(0.1)
        self.transformer.h = nn.ModuleList(Block(size, heads, context) for _ in range(layers))
        self.transformer.ln_f = nn.LayerNorm(size)
        nn.init.normal_(self.transformer.wte.weight, std=0.02)
        nn.init.normal_(self.transformer.wpe.weight, std=0.01)
        self.lm_head = nn.Linear(size, vocabulary, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, tokens):
        places = torch.arange(tokens.size(-1)).unsqueeze(0)
        x = self.transformer.drop(self.transformer.wte(tokens) + self.transformer.wpe(places))
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("layers", 12), ("size", 768), ("heads", 12), ("vocabulary", 50257), ("context", 128), ("seed", 1)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    model = Gpt2(options.vocabulary, options.size, options.heads, options.layers, options.context)
    example = torch.randint(0, options.vocabulary, (2, options.context))
    torch.onnx.export(model, example, options.out, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      input_names=["input_ids"], output_names=["logits"], opset_version=13,
                      dynamic_axes={"input_ids": {0: "batch"}})
    print(f"{options.out}: {sum(each.numel() for each in model.parameters())} parameters")


if __name__ == "__main__":
    main()
