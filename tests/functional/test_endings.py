#!/usr/bin/env python3
"""What a person started ends with them: a closed terminal, Ctrl-C, kill -9, a full disk."""
import glob
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import framework
from quern.devnet import Devnet
from quern.processes import Process, at_end, wait_until

DEMO = [sys.executable, "-m", "quern.demo", "--validators=1"]
TESTS = [sys.executable, os.path.join(framework.ROOT, "contrib", "python", "run_tests.py"), "--functional", "--filter",
         "functional/test_websocket.py"]
STARTED = re.compile(rb"bonded.*bonded.*bonded", re.S)  # several workers are there


def processes_of(directory):
    """pid -> command line of those that have `directory` in it."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if directory in line:
            found[int(path.split("/")[2])] = line
    return found


class Terminal:
    """A program in a terminal of its own, as its session's leader; closing the terminal hangs up."""

    def __init__(self, command, directory):
        environment = {**os.environ, "TMPDIR": directory, "PYTHONPATH": os.path.join(framework.ROOT, "contrib", "python")}
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, environment)
        self.text = b""
        self.status = None

    def read_until(self, condition, timeout):
        """Reads what it says until condition() holds; returns whether it came to that."""
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end or self.ended():
                return condition()
            if select.select([self.descriptor], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.descriptor, 65536)
                except OSError:  # nobody holds the other side any more
                    time.sleep(0.05)
        return True

    def ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status is not None

    def close(self):
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def tidy(self):
        self.close()
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)


class EndingsTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="quern-endings-")
        self.addCleanup(at_end(self.tidy))

    def tidy(self):
        for pid in processes_of(self.directory):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.directory, ignore_errors=True)

    def start_demo(self):
        terminal = Terminal(DEMO, self.directory)
        self.addCleanup(terminal.tidy)
        self.assertTrue(terminal.read_until(lambda: STARTED.search(terminal.text), 120),
                        terminal.text[-3000:].decode(errors="replace"))
        wait_until(lambda: len(processes_of(self.directory)) >= 4, 10, "the node and three workers to run")
        return terminal

    def assert_nothing_runs(self, timeout=40):
        wait_until(lambda: not processes_of(self.directory), timeout, f"the end of {processes_of(self.directory)}")

    def assert_nothing_left(self):
        self.assert_nothing_runs()
        wait_until(lambda: not os.listdir(self.directory), 10, f"{os.listdir(self.directory)} to be removed")

    def test_a_closed_terminal_ends_the_demo_and_removes_its_directory(self):
        terminal = self.start_demo()
        terminal.close()
        wait_until(terminal.ended, 60, "the end of the demo")
        self.assertEqual(terminal.status, 128 + signal.SIGHUP)
        self.assert_nothing_left()

    def test_ctrl_c_ends_the_demo_without_a_traceback(self):
        terminal = self.start_demo()
        os.write(terminal.descriptor, b"\x03")
        self.assertTrue(terminal.read_until(terminal.ended, 60))
        self.assertEqual(terminal.status, 128 + signal.SIGINT)
        self.assertNotIn(b"Traceback", terminal.text)
        self.assertIn(b"ended by SIGINT", terminal.text)
        self.assert_nothing_left()

    def test_kill_9_of_the_demo_takes_its_processes_along(self):
        terminal = self.start_demo()
        os.kill(terminal.pid, signal.SIGKILL)
        self.assert_nothing_runs()

    def test_a_closed_terminal_ends_the_tests(self):
        terminal = Terminal(TESTS, self.directory)
        self.addCleanup(terminal.tidy)
        self.assertTrue(terminal.read_until(lambda: any("quernd" in line for line in
                                                        processes_of(self.directory).values()), 60), terminal.text)
        time.sleep(1)
        terminal.close()
        wait_until(terminal.ended, 60, "the end of the tests")
        self.assert_nothing_left()

    def test_sigterm_inside_a_test_ends_all_of_them(self):
        script = os.path.join(self.directory, "two_tests.py")
        with open(script, "w") as file:
            file.write("import framework, os, signal, time, unittest\n"
                       "class Two(unittest.TestCase):\n"
                       "    def test_a(self):\n"
                       "        os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)\n"
                       "    def test_b(self):\n"
                       "        print('went on')\n"
                       "framework.main()\n")
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))})
        self.assertEqual(done.returncode, 128 + signal.SIGTERM, done.stderr)
        self.assertNotIn("went on", done.stdout)
        self.assertNotIn("Traceback", done.stderr)

    def test_a_signal_while_a_process_is_started_ends_all_the_same(self):
        script = ("import os, signal, sys, threading, time\n"
                  "from quern.processes import Ended, Process, end_on_signals\n"
                  "end_on_signals()\n"
                  "def end():\n"
                  "    time.sleep(float(sys.argv[2]))\n"
                  "    os.kill(os.getpid(), signal.SIGTERM)\n"
                  "threading.Thread(target=end).start()\n"
                  "try:\n"
                  "    while True:\n"
                  "        Process('sleeper', ['sleep', '60'], sys.argv[1]).start()\n"
                  "except Ended as ended:\n"
                  "    sys.exit(ended.status)\n")
        environment = {**os.environ, "PYTHONPATH": os.path.join(framework.ROOT, "contrib", "python")}
        for attempt in range(12):
            command = [sys.executable, "-c", script, os.path.join(self.directory, "log"), f"{0.02 + attempt * 0.0037:.4f}"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=environment)
            except subprocess.TimeoutExpired:
                self.fail(f"attempt {attempt} did not end")
            self.assertEqual(done.returncode, 128 + signal.SIGTERM, done.stderr)
        self.assert_nothing_runs()

    def test_children_started_from_threads_that_end_live_on(self):
        process = Process("sleeper", ["sleep", "60"], os.path.join(self.directory, "log"))
        thread = threading.Thread(target=process.start)
        thread.start()
        thread.join()
        time.sleep(0.5)
        self.assertTrue(process.running())
        process.kill()


class SupervisorTest(unittest.TestCase):
    def setUp(self):
        self.directory = framework.temporary_directory("quern-supervised-")
        self.net = Devnet(self.directory, {"alice": 1}, [])
        self.addCleanup(self.net.stop)
        self.told = []

    def supervise(self, *command):
        self.process = self.net.workers["worker"] = Process("worker", command, os.path.join(self.directory, "worker.log"))
        self.net.supervise(lambda name, why: self.told.append((name, why)))
        self.process.start()

    def test_gives_up_on_what_ends_again_and_again_and_says_its_last_words(self):
        self.supervise("sh", "-c", "echo first; echo the reason is this; exit 3")
        started = time.monotonic()
        with self.assertRaisesRegex(RuntimeError, r"worker ended 5 times in a row: exit 3, it said: the reason is this"):
            self.net.wait_until(lambda: False, 60, "the end of patience")
        self.assertGreater(time.monotonic() - started, 5, "no pauses between the starts")
        self.assertEqual(len(self.told), 4)
        count = self.net.restarts.count("worker")
        time.sleep(1)
        self.assertEqual((count, self.net.restarts.count("worker")), (4, 4))

    def test_a_node_that_is_given_up_is_not_asked_for_a_minute(self):
        self.supervise("sh", "-c", "exit 1")
        wait_until(lambda: self.net.given_up, 60, "the supervisor to give up")
        started = time.monotonic()
        with self.assertRaises(OSError):
            self.net.node.height()
        self.assertLess(time.monotonic() - started, 5)

    def test_brings_back_what_was_killed_however_often(self):
        self.supervise("sleep", "60")
        for count in range(1, 8):
            self.process.signal(signal.SIGKILL)
            wait_until(lambda: len(self.told) == count and self.process.running(), 10, "the new start")
        self.assertIsNone(self.net.given_up)
        self.assertEqual(self.told[0], ("worker", "SIGKILL"))

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("mount"), "a disk of its own, to be filled, needs root")
    def test_the_demo_on_a_full_disk_says_so_and_ends(self):
        disk = os.path.join(self.directory, "disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk], check=False).returncode != 0:
            self.skipTest("this system lets nobody mount a disk to fill")
        self.addCleanup(at_end(subprocess.run, ["umount", "-l", disk]))
        demo = subprocess.Popen([*DEMO, f"--directory={disk}/net"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, env={**os.environ, "PYTHONPATH": os.path.join(framework.ROOT, "contrib", "python")})
        self.addCleanup(demo.kill)
        wait_until(lambda: os.path.exists(f"{disk}/net/node0/chaindata"), 60, "the node to run")
        with open(f"{disk}/filler", "wb") as filler:
            try:
                while True:
                    filler.write(bytes(65536))
                    filler.flush()
            except OSError:
                pass
        output, _ = demo.communicate(timeout=150)
        self.assertEqual(demo.returncode, 1, output)
        self.assertNotIn("Traceback", output)
        self.assertRegex(output, r"failed: .*(disk of .* is full|No space left)")
        self.assertFalse(processes_of(disk))


if __name__ == "__main__":
    framework.main()
