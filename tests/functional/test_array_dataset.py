#!/usr/bin/env python3
"""quern-compile dataset --npy, --safetensors and --csv, on files that are written here, by NumPy where it is installed."""
import json
import os
import shutil
import struct
import subprocess
import unittest

import framework
from quern.devnet import program

PYTHON = framework.python_with("numpy")
# What NumPy saves, and the words of it that a data tensor has.
SAVE = """
import sys
import numpy
for dtype, words in (("<f4", "<f4"), ("<i4", "<i4"), ("u1", "u1"), ("i1", "i1"), ("<u2", "<u2"), ("<f8", "<f4"), ("<i8", "<i4")):
    array = (numpy.arange(24) * 3 - (30 if dtype[-2] != "u" else 0)).reshape(4, 3, 2).astype(dtype)
    numpy.save(f"{sys.argv[1]}/{dtype}.npy", array)
    array.astype(words).tofile(f"{sys.argv[1]}/{dtype}.words")
for version in (1, 2, 3):
    with open(f"{sys.argv[1]}/version-{version}.npy", "wb") as file:
        numpy.lib.format.write_array(file, numpy.array([[1.5]], dtype="<f4"), version=(version, 0))
numpy.save(f"{sys.argv[1]}/fortran.npy", numpy.asfortranarray(numpy.ones((2, 3), dtype="<f4")))
numpy.save(f"{sys.argv[1]}/big.npy", numpy.ones(3, dtype=">f4"))
"""


def npy(dtype, shape, content):
    header = str({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def safetensors(tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class ArrayDataset(unittest.TestCase):
    def setUp(self):
        self.directory = framework.temporary_directory("quern-array-dataset-")
        self.addCleanup(shutil.rmtree, self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def put(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def run_program(self, *arguments, code=0):
        done = subprocess.run([program("quern-compile"), *arguments], capture_output=True, text=True, timeout=60, check=False,
                              cwd=self.directory)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if code else json.loads(done.stdout)

    def dataset(self, *arguments, code=0):
        return self.run_program("dataset", "--out", "out", *arguments, code=code)

    def refused(self, *arguments):
        """What is said; nothing is written."""
        before = sorted(os.listdir(self.directory))
        said = self.dataset(*arguments, code=1)
        self.assertEqual(sorted(os.listdir(self.directory)), before)
        return said

    def trains(self, layers, outputs, loss, features, data):
        """The architecture's compiler takes what was printed, and evaluation reads the files."""
        with open(self.path("arch.json"), "w", encoding="utf-8") as file:
            json.dump({"format": "quern-arch-1",
                       "model": {"type": "layers", "input": {"features": features}, "layers": layers, "outputs": outputs, "loss": loss},
                       "data": [{key: of[key] for key in ("dtype", "elements")} for of in (data, data["targets"])],
                       "batch": 1, "optimizer": {"type": "sgd", "lr": 0.1}}, file)
        self.run_program("program", "--arch", "arch.json", "--out", "program.bin")
        self.run_program("init", "--arch", "arch.json", "--out", "state.safetensors")
        found = self.run_program("evaluate", "--arch", "arch.json", "--program", "program.bin", "--state", "state.safetensors",
                                 "--data", "out", "targets")
        self.assertEqual(found["examples"], data["shape"][0])

    def test_npy_files_become_inputs_and_targets(self):
        self.put("x.npy", npy("<f8", (2, 3), struct.pack("<6d", 0, 0.1, -2, 3, 4, 1e-3)))
        self.put("y.npy", npy("<i8", (2,), struct.pack("<2q", 1, 0)))
        made = self.dataset("--npy", "x.npy", "y.npy", "--labels", "targets")
        roots = made.pop("data_roots")
        self.assertEqual(made, {"format": "quern-arrays-1", "dtype": "f32", "elements": 6, "shape": [2, 3],
                                "targets": {"dtype": "i32", "elements": 2, "shape": [2]}})
        self.assertEqual(json.loads(self.read("out.json")), made)
        self.assertEqual(self.read("out"), struct.pack("<6f", 0, 0.1, -2, 3, 4, 1e-3))
        self.assertEqual(self.read("targets"), struct.pack("<2i", 1, 0))
        self.assertEqual(len(roots), 2)
        self.assertRegex(roots[0], "^0x[0-9a-f]{64}$")
        self.assertNotEqual(*roots)
        self.trains([{"type": "linear", "size": 2}], 2, "cross_entropy", 3, made)
        self.assertEqual(self.dataset("--npy", "y.npy")["data_roots"], roots[1:])

    @unittest.skipIf(PYTHON is None, "NumPy is not installed")
    def test_what_numpy_saves(self):
        subprocess.run([PYTHON, "-c", SAVE, self.path("")], check=True)
        for dtype, name in (("<f4", "f32"), ("<i4", "i32"), ("u1", "u8"), ("i1", "i8"), ("<u2", "u16"), ("<f8", "f32"), ("<i8", "i32")):
            made = self.dataset("--npy", f"{dtype}.npy")
            self.assertEqual((made["dtype"], made["shape"]), (name, [4, 3, 2]))
            self.assertEqual(self.read("out"), self.read(f"{dtype}.words"))
        for version in (1, 2, 3):
            self.assertEqual(self.dataset("--npy", f"version-{version}.npy")["shape"], [1, 1])
        self.assertIn("npy.fortran_order: fortran.npy: ", self.dataset("--npy", "fortran.npy", code=1))
        self.assertIn("npy.unsupported_dtype", self.dataset("--npy", "big.npy", code=1))

    def test_tensors_of_a_safetensors_file(self):
        self.put("data.safetensors", safetensors({
            "y": ("U8", [2], b"\x01\x00"), "flags": ("BOOL", [2], b"\x01\x00"), "half": ("F16", [2, 2], struct.pack("<4e", 1, -2, 0.5, 6e-8)),
            "brain": ("BF16", [2], b"\x80\x3f\x00\xc0")}))
        made = self.dataset("--safetensors", "data.safetensors", "--tensor", "half", "y", "--labels", "targets")
        self.assertEqual(made["targets"], {"dtype": "u8", "elements": 2, "shape": [2]})
        self.assertEqual(self.read("out"), struct.pack("<4f", 1, -2, 0.5, 2.0 ** -24))
        self.assertEqual(self.read("targets"), b"\x01\x00")
        self.trains([{"type": "linear", "size": 2}], 2, "cross_entropy", 2, made)
        self.dataset("--safetensors", "data.safetensors", "--tensor", "brain")
        self.assertEqual(self.read("out"), struct.pack("<2f", 1, -2))
        for name, error in (("flags", "unsupported_dtype"), ("none", "no_such_tensor")):
            self.assertIn(f"safetensors.{error}: data.safetensors: {name}",
                          self.dataset("--safetensors", "data.safetensors", "--tensor", name, code=1))

    def test_a_table_with_classes(self):
        self.put("iris.csv", b'length,species,"width, cm"\r\n5.1,setosa,0.2\r\n7.0,"versi""color",1.4\r\n6.3,setosa,2.5\r\n')
        made = self.dataset("--csv", "iris.csv", "--targets", "species", "--labels", "targets")
        self.assertEqual(len(made.pop("data_roots")), 2)
        self.assertEqual(made, {"format": "quern-arrays-1", "dtype": "f32", "elements": 6, "shape": [3, 2], "columns": ["length", "width, cm"],
                                "targets": {"dtype": "u8", "elements": 3, "shape": [3], "columns": ["species"],
                                            "classes": ["setosa", 'versi"color']}})
        self.assertEqual(json.loads(self.read("out.json")), made)
        self.assertEqual(self.read("out"), struct.pack("<6f", 5.1, 0.2, 7.0, 1.4, 6.3, 2.5))
        self.assertEqual(self.read("targets"), b"\0\1\0")
        self.trains([{"type": "linear", "size": 2}], 2, "cross_entropy", 2, made)

    def test_a_table_with_numbers(self):
        self.put("t.csv", b"a,b,c,d\n1,2,3,4\n5,6,7.5,8\n")
        made = self.dataset("--csv", "t.csv", "--targets", "c,a", "--labels", "targets")
        self.assertEqual(made["targets"], {"dtype": "f32", "elements": 4, "shape": [2, 2], "columns": ["c", "a"]})
        self.assertEqual(self.read("targets"), struct.pack("<4f", 3, 1, 7.5, 5))
        self.assertEqual(self.read("out"), struct.pack("<4f", 2, 4, 6, 8))
        self.trains([{"type": "linear", "size": 2}], 2, "mse", 2, made)
        made = self.dataset("--csv", "t.csv", "--targets", "a", "--labels", "targets")
        self.assertEqual(made["targets"]["dtype"], "i32")
        self.trains([{"type": "linear", "size": 1}], 1, "mse", 3, made)

    def test_names_what_is_wrong_and_writes_nothing(self):
        good = npy("<f4", (2,), struct.pack("<2f", 1, 2))
        self.put("x.npy", good)
        self.put("y.npy", npy("|u1", (3,), b"\0\1\2"))
        self.put("short.npy", good[:-1])
        self.put("huge.npy", npy("<f4", (1 << 32, 1 << 32), b"\0" * 8))
        self.put("nan.npy", npy("<f4", (1,), b"\0\0\xc0\x7f"))
        self.put("t.csv", b"a,b\n1,2\nx,2\n")
        self.put("t.safetensors", struct.pack("<Q", 1 << 40))
        for arguments, error in ((["--npy", "short.npy"], "npy.wrong_size: short.npy: "), (["--npy", "huge.npy"], "npy.wrong_size: huge.npy: "),
                                 (["--npy", "nan.npy"], "array.not_finite: nan.npy: element 0"), (["--npy", "t.csv"], "npy.bad_magic"),
                                 (["--npy", "x.npy", "y.npy", "--labels", "l"], "array.different_counts"),
                                 (["--npy", "x.npy", "x.npy", "--labels", "out.json"], "array.same_output"),
                                 (["--npy", "x.npy", "x.npy"], "compile.labels_file"),
                                 (["--npy", "x.npy", "--labels", "l"], "compile.labels_file"),
                                 (["t.csv", "--labels", "l"], "compile.labels_file"),
                                 (["--safetensors", "t.safetensors", "--tensor", "x"], "safetensors.header_too_large: t.safetensors: "),
                                 (["--csv", "t.csv", "--targets", "b", "--labels", "l"], "csv.bad_number: t.csv: line 3: a: 'x'"),
                                 (["--csv", "t.csv", "--targets", "c", "--labels", "l"], "csv.no_such_column"),
                                 (["--npy", "none.npy"], "fs.not_found")):
            self.assertIn(error, self.refused(*arguments))

    def test_options_go_together(self):
        for arguments, word in ((["--npy", "x", "--csv", "y", "--targets", "z"], "excludes"), (["--csv", "y"], "--targets"),
                                (["--targets", "y"], "--csv"), (["--tensor", "y"], "--safetensors"), (["--safetensors", "y"], "--tensor"),
                                (["--npy", "x", "--vocab-size", "300"], "excludes"), (["--npy", "x", "--images", "y", "--size", "1x1", "--labels", "l"], "excludes")):
            said = self.dataset(*arguments, code=2)
            self.assertIn(word, said)


if __name__ == "__main__":
    framework.main()
