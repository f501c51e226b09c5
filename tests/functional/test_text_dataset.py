#!/usr/bin/env python3
"""quern-compile dataset on text with a vocabulary of byte pairs, and the commands that use it."""
import collections
import json
import os
import re
import shutil
import struct
import subprocess
import unittest

import framework
from quern.devnet import program

TEXT = ("The quern is a mill. It grinds corn, and the corn that it grinds is the miller's: 12 sacks, 12 sacks more.\n"
        "  Who has a quern has flour; who has flour has bread.\n\nCaf\u00e9, na\u00efve, caf\u00e9.\t") * 3
WORD = re.compile(rb"[\s]+(?= [^\s])| ?(?:[A-Za-z\x80-\xff]+|[0-9]+|[^A-Za-z0-9\x80-\xff\s]+)|[\s]+")


def join(symbols, pair, token):
    joined = []
    for symbol in symbols:
        if joined and (joined[-1], symbol) == pair:
            joined[-1] = token
        else:
            joined.append(symbol)
    return joined


def learn(text, size):
    """Merges and tokens, as the documentation says it."""
    words = [list(word) for word in WORD.findall(text)]
    merges = []
    while 256 + len(merges) < size:
        counts = collections.Counter(pair for word in words for pair in zip(word, word[1:]))
        pair, count = min(counts.items(), key=lambda item: (-item[1], item[0]), default=(None, 0))
        if count < 2:
            break
        words = [join(word, pair, 256 + len(merges)) for word in words]
        merges.append(list(pair))
    return merges, [symbol for word in words for symbol in word]


class TextDataset(unittest.TestCase):
    def setUp(self):
        self.directory = framework.temporary_directory("quern-text-dataset-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.put("text", TEXT.encode())

    def path(self, name):
        return os.path.join(self.directory, name)

    def put(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def tokens(self, name):
        content = self.read(name)
        return list(struct.unpack(f"<{len(content) // 2}H", content))

    def run_program(self, *arguments, code=0):
        done = subprocess.run([program("quern-compile"), *arguments], capture_output=True, timeout=60, check=False,
                              cwd=self.directory)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr.decode() if code else done.stdout

    def dataset(self, *arguments):
        return json.loads(self.run_program("dataset", *arguments))

    def test_learns_and_encodes_as_documented(self):
        merges, tokens = learn(TEXT.encode(), 300)
        made = self.dataset("--vocab-size", "300", "--out", "data.u16", "text")
        root = made.pop("data_root")
        self.assertEqual(made, {"vocab": 300, "dtype": "u16", "elements": len(tokens)})
        self.assertEqual(json.loads(self.read("data.u16.json")),
                         {"format": "quern-bpe-1", "dtype": "u16", "elements": len(tokens), "merges": merges})
        self.assertEqual(self.tokens("data.u16"), tokens)
        self.assertEqual(self.dataset("--vocab-size", "300", "--out", "again.u16", "text")["data_root"], root)

    def test_takes_what_pairs_there_are(self):
        self.put("short", b"ab ab ab ab")
        self.assertEqual(self.dataset("--vocab-size", "1000", "--out", "data.u16", "short")["vocab"], 258)
        self.assertEqual(json.loads(self.read("data.u16.json"))["merges"], [[97, 98], [32, 256]])

    def test_encodes_other_text_with_a_vocabulary(self):
        self.dataset("--vocab-size", "300", "--out", "data.u16", "text")
        self.put("held", b"\x00\xff the other corn, the miller\n")
        pieces = [bytes([byte]) for byte in range(256)]
        for left, right in json.loads(self.read("data.u16.json"))["merges"]:
            pieces.append(pieces[left] + pieces[right])
        made = self.dataset("--vocab", "data.u16.json", "--out", "held.u16", "held")
        self.assertEqual((made["vocab"], made["elements"]), (300, len(self.tokens("held.u16"))))
        self.assertLess(made["elements"], len(self.read("held")))
        self.assertEqual(b"".join(pieces[token] for token in self.tokens("held.u16")), self.read("held"))
        same = self.dataset("--vocabulary-of", "data.u16", "--out", "same.u16", "held")
        self.assertEqual(same["data_root"], made["data_root"])

    def test_a_model_of_byte_pairs_samples_text(self):
        self.dataset("--vocab-size", "300", "--out", "data.u16", "text")
        self.run_program("arch", "--data", "data.u16", "--context", "8", "--out", "arch.json")
        architecture = json.loads(self.read("arch.json"))
        self.assertEqual(architecture["model"]["vocab"], 300)
        self.assertEqual(architecture["data"], {"dtype": "u16", "elements": len(self.tokens("data.u16"))})
        self.run_program("program", "--arch", "arch.json", "--out", "program.bin")
        self.run_program("init", "--arch", "arch.json", "--out", "state.safetensors")
        sample = ["sample", "--arch", "arch.json", "--program", "program.bin", "--state", "state.safetensors", "--data", "data.u16",
                  "--length", "20", "--prompt"]
        first = self.run_program(*sample, " the corn \u00e9\x01")
        self.assertGreaterEqual(len(first), 21)
        self.assertEqual(self.run_program(*sample, " the corn \u00e9\x01"), first)
        self.assertNotEqual(self.run_program(*sample, "flour"), first)

    def test_names_what_is_wrong(self):
        self.dataset("--vocab-size", "300", "--out", "data.u16", "text")
        self.dataset("--out", "data.u8", "text")
        left = sorted(os.listdir(self.directory))
        deep = [[97, 97]] + [[256 + i, 256 + i] for i in range(60)]
        for name, merges in (("deep", deep), ("loop", [[97, 256]]), ("twice", [[1, 2], [1, 2]]), ("text", "none")):
            self.put(name + ".json", json.dumps({"format": "quern-bpe-1", "dtype": "u16", "elements": 2, "merges": merges}).encode())
        for vocabulary, error in (("deep.json", "byte_pairs.too_long: deep.json: pair 7"), ("loop.json", "byte_pairs.bad_pair"),
                                  ("twice.json", "byte_pairs.duplicate_pair"), ("text.json", "dataset.not_byte_pairs"),
                                  ("data.u8.json", "dataset.not_byte_pairs"), ("data.u16", "dataset.not_a_text_data_set"),
                                  ("none", "fs.not_found")):
            self.assertIn(error, self.run_program("dataset", "--vocab", vocabulary, "--out", "out", "text", code=1))
        for name in ("deep", "loop", "twice", "text"):
            os.remove(self.path(name + ".json"))
        self.assertIn("compile.no_vocabulary: text.json is missing", self.run_program("arch", "--data", "text", "--out", "out", code=1))
        for size in ("256", "65537", "x"):
            self.assertIn("--vocab-size", self.run_program("dataset", "--vocab-size", size, "--out", "out", "text", code=2))
        self.assertIn("excludes", self.run_program("dataset", "--vocab-size", "300", "--vocab", "data.u16.json", "--out", "out",
                                                   "text", code=2))
        self.put("data.u16", self.read("data.u16")[:-2])
        self.assertIn("dataset.not_a_text_data_set: data.u16: ",
                      self.run_program("arch", "--data", "data.u16", "--out", "out", code=1))
        self.assertEqual(sorted(os.listdir(self.directory)), left)


if __name__ == "__main__":
    framework.main()
