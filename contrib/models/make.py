#!/usr/bin/python3
"""Makes shapes.onnx, the network that the demo trains: a small residual CNN over gray images of 12 x 12, written by
PyTorch's own exporter. Needs Debian's python3-torch and python3-onnx. Run: /usr/bin/python3 make.py"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class Shapes(nn.Module):
    def __init__(self, channels=32, classes=4):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.pool = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.drop = nn.Dropout(0.1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = x + F.relu(self.bn2(self.conv2(x)))
        return self.fc(self.drop(x.mean((2, 3))))


torch.manual_seed(1)
sys.stderr = open(os.devnull, "w")
torch.onnx.export(Shapes(), torch.randn(8, 1, 12, 12), os.path.join(os.path.dirname(os.path.abspath(__file__)), "shapes.onnx"),
                  training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=["input"],
                  output_names=["output"], opset_version=13, dynamic_axes={"input": {0: "batch"}})
