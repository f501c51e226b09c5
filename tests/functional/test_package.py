#!/usr/bin/env python3
"""The Python package as pip installs it: alone, without network, of the tree's version."""
import json
import os
import shutil
import subprocess
import unittest

import framework

PACKAGE = os.path.join(framework.ROOT, "contrib", "python")
PIP = framework.python_with("setuptools, wheel, pip")  # in this order: pip brings distutils of its own
LOOK = """
import importlib.metadata, json, quern
about = importlib.metadata.metadata("quern")
print(json.dumps({"file": quern.__file__, "version": about["Version"], "python": about["Requires-Python"],
                  "needs": importlib.metadata.requires("quern") or [], "names": sorted(quern.__all__)}))
"""


@unittest.skipIf(PIP is None, "python3-pip is missing")
class PackageTest(unittest.TestCase):
    def test_pip_installs_it(self):
        directory = framework.temporary_directory("quern-package-")
        source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
        # setuptools builds in the folder itself.
        shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        done = subprocess.run([PIP, "-m", "pip", "--isolated", "install", "--no-index", "--no-build-isolation", "--no-deps",
                               "--no-cache-dir", "--target", target, source], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        ours = {name for name in os.listdir(os.path.join(PACKAGE, "quern")) if name.endswith((".py", ".typed"))}
        self.assertEqual({name for name in os.listdir(os.path.join(target, "quern")) if name != "__pycache__"}, ours)
        done = subprocess.run([PIP, "-c", LOOK], cwd=directory, env={**os.environ, "PYTHONPATH": target}, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(os.path.dirname(found["file"]), os.path.join(target, "quern"))
        with open(os.path.join(framework.ROOT, "VERSION")) as file:
            self.assertEqual(found["version"], file.read().strip())
        self.assertEqual(found["python"], ">=3.10")
        self.assertEqual([need for need in found["needs"] if "extra ==" not in need], [], "the standard library is enough")
        self.assertIn("train", found["names"])


if __name__ == "__main__":
    framework.main()
