"""Packages from npm for functional tests, pinned by lock files. A test is skipped where npm cannot fetch them, unless CI is
set."""
import os
import shutil
import subprocess
import unittest

NPM_TIMEOUT_S = 600


def without_npm(reason):
    if os.environ.get("CI"):
        raise RuntimeError(reason)
    raise unittest.SkipTest(reason)


def install(source):
    """What the lock file of the folder names, exactly; a finished installation is used again."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        without_npm("npm or node is missing")
    lock = os.path.join(source, "package-lock.json")
    stamp = os.path.join(source, "node_modules", ".quern-installed")
    with open(lock, "rb") as file:
        wanted = file.read()
    if os.path.exists(stamp):
        with open(stamp, "rb") as file:
            if file.read() == wanted:
                return
    try:
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=source, timeout=NPM_TIMEOUT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except subprocess.TimeoutExpired:
        without_npm(f"npm ci took more than {NPM_TIMEOUT_S} s")
    if done.returncode != 0:
        without_npm("npm ci failed:\n" + done.stdout[-2000:])
    with open(stamp, "wb") as file:
        file.write(wanted)
