"""Child processes with a log file each, stopped cleanly or killed, and never left behind."""
import atexit
import os
import signal
import subprocess
import time

_running = []


@atexit.register
def _stop_all():
    for process in list(_running):
        process.kill()


class Process:
    """One program. Its output goes to <log>; start() after kill() or stop() starts it again with the same arguments."""

    def __init__(self, name, arguments, log):
        self.name, self.arguments, self.log = name, [str(a) for a in arguments], log
        self.child = None
        self.wanted = False  # whether a supervisor should bring it back

    def start(self):
        with open(self.log, "ab") as output:
            self.child = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL, stdout=output,
                                          stderr=subprocess.STDOUT, start_new_session=True)
        self.wanted = True
        _running.append(self)
        return self

    def running(self):
        return self.child is not None and self.child.poll() is None

    def kill(self):
        """SIGKILL, without a chance to tidy up."""
        self._end(signal.SIGKILL, 10)

    def stop(self, timeout=30):
        """SIGTERM and wait; returns the exit status. Raises TimeoutError when it does not end."""
        return self._end(signal.SIGTERM, timeout)

    def _end(self, how, timeout):
        self.wanted = False
        if self in _running:
            _running.remove(self)
        if not self.running():
            return self.child.returncode if self.child else None
        os.killpg(self.child.pid, how)
        try:
            return self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()
            raise TimeoutError(f"{self.name} did not stop within {timeout} s; see {self.log}") from None

    def log_tail(self, lines=20):
        try:
            with open(self.log, errors="replace") as text:
                return "".join(text.readlines()[-lines:])
        except FileNotFoundError:
            return ""


def wait_until(condition, timeout, what, every=0.1, alive=(), supervised=False):
    """Waits for condition() to be true and returns its value; fails early when a process in `alive` has ended.

    supervised: somebody restarts them, so that is no failure.
    """
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        for process in alive:
            if not process.running() and not supervised:
                raise RuntimeError(f"{process.name} ended while waiting for {what}:\n{process.log_tail()}")
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout} s for {what}")
        time.sleep(every)
