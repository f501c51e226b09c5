#!/usr/bin/env python3
"""quern-compile dataset --images, on folders of PNG files that are written here."""
import hashlib
import json
import os
import shutil
import struct
import subprocess
import unittest
import zlib

import framework
from quern.devnet import program


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, pixels):
    """An RGB image; pixels are a row's triples, row after row."""
    rows = b"".join(b"\0" + bytes(pixels[row * width * 3:(row + 1) * width * 3]) for row in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class ImageDataset(unittest.TestCase):
    def setUp(self):
        self.directory = framework.temporary_directory("quern-image-dataset-")
        self.addCleanup(shutil.rmtree, self.directory)
        # A striped image that is cropped to its middle columns, and images of one colour.
        for name, content in {"dog/b.png": png(4, 2, [9, 9, 9, 1, 2, 3, 4, 5, 6, 9, 9, 9] * 2), "dog/a.png": png(1, 1, [7, 8, 9]),
                              "cat/x.PNG": png(6, 6, [60, 120, 240] * 36)}.items():
            self.put(name, content)

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def put(self, name, content):
        os.makedirs(os.path.dirname(self.path("in", name)), exist_ok=True)
        with open(self.path("in", name), "wb") as file:
            file.write(content)

    def dataset(self, *arguments, code=0, size="2x2", out="images.u8"):
        done = subprocess.run([program("quern-compile"), "dataset", "--images", self.path("in"), "--size", size,
                               "--out", self.path(out), "--labels", self.path("labels.u8"), *arguments],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if code else json.loads(done.stdout)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def test_a_folder_becomes_two_data_tensors(self):
        made = self.dataset()
        self.assertEqual(self.read("images.u8"), bytes([60, 120, 240] * 4 + [7, 8, 9] * 4 + [1, 2, 3, 4, 5, 6] * 2))
        self.assertEqual(self.read("labels.u8"), bytes([0, 1, 1]))
        described = json.loads(self.read("images.u8.json"))
        self.assertEqual(described, {
            "format": "quern-images-1", "dtype": "u8", "elements": 36, "height": 2, "width": 2, "channels": 3, "count": 3,
            "classes": ["cat", "dog"], "labels": {"dtype": "u8", "elements": 3}})
        roots, skipped = made.pop("data_roots"), made.pop("skipped")
        self.assertEqual((made, skipped, len(roots)), (described, 0, 2))
        self.assertEqual(self.dataset()["data_roots"], roots)
        self.assertRegex(roots[0], "^0x[0-9a-f]{64}$")
        self.assertNotEqual(*roots)

    def test_the_same_folder_gives_the_same_bytes(self):
        self.dataset("--gray")
        first = hashlib.sha256(self.read("images.u8")).digest()
        shutil.move(self.path("in"), self.path("other"))
        for name in ("dog/a.png", "cat/x.PNG", "dog/b.png"):  # made in another order
            with open(self.path("other", name), "rb") as file:
                self.put(name, file.read())
        self.dataset("--gray", out="again.u8")
        self.assertEqual(hashlib.sha256(self.read("again.u8")).digest(), first)
        self.assertEqual(self.read("again.u8")[:4], bytes([(77 * 60 + 150 * 120 + 29 * 240 + 128) >> 8] * 4))

    def test_limit_and_other_files(self):
        self.put("dog/notes.txt", b"none")
        self.assertIn(f"image_data.unknown_file: {self.path('in', 'dog', 'notes.txt')}", self.dataset(code=1))
        made = self.dataset("--skip-others", "--limit", "1", size="1x1")
        self.assertEqual((made["count"], made["skipped"]), (2, 1))
        self.assertEqual(self.read("images.u8"), bytes([60, 120, 240, 7, 8, 9]))

    def test_a_bad_file_is_named_and_nothing_is_left(self):
        good = png(2, 2, range(12))
        for content, error in ((good[:-20], "image_data.bad_png"), (b"\xff\xd8\xff\xe0 no more", "image_data.bad_jpeg"),
                               (b"BM", "image_data.unknown_file"), (png(20_000, 1, b"\0" * 60_000), "image_data.too_large")):
            self.put("dog/c.png", content)
            self.assertIn(f"{error}: {self.path('in', 'dog', 'c.png')}: ", self.dataset(code=1))
            self.assertEqual(os.listdir(self.directory), ["in"])

    def test_options_go_together(self):
        text = self.path("text")
        with open(text, "w") as file:
            file.write("some text")
        for arguments, words in (([], "compile.no_data"), (["--images", self.path("in")], "--size"),
                                 (["--images", self.path("in"), "--size", "2x2"], "--labels"), (["--gray", text], "--images"),
                                 (["--images", self.path("in"), "--size", "2x2", "--labels", "l", text], "excludes"),
                                 (["--images", self.path("in"), "--size", "2", "--labels", "l"], "image_data.bad_size"),
                                 (["--images", self.path("in"), "--size", "2x2", "--labels", "l", "--limit", "0"], "--limit")):
            done = subprocess.run([program("quern-compile"), "dataset", "--out", self.path("o"), *arguments], capture_output=True,
                                  text=True, timeout=60, check=False, cwd=self.directory)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(words, done.stderr)
        self.assertEqual(sorted(os.listdir(self.directory)), ["in", "text"])


if __name__ == "__main__":
    framework.main()
