"""Child processes with a log file each, stopped cleanly or killed, and never left behind unless they are meant to be."""
import atexit
import os
import signal
import subprocess
import sys
import time

_running = []


@atexit.register
def _stop_all():
    for process in list(_running):
        process.kill()


def end_on_sigterm():
    """Lets SIGTERM end this program as an exception does, so that what it started is stopped too. Main thread only."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def start_time(pid):
    """When the process began, as "boot id/clock ticks", or None if there is none: tells a process from a later one with
    the same number. A zombie counts as none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else f"{boot}/{fields[19]}"


class Process:
    """One program. Its output goes to <log>; start() after kill() or stop() starts it again with the same arguments.

    detached: it outlives this Python process; identity() and adopt() find it again.
    """

    def __init__(self, name, arguments, log, detached=False):
        self.name, self.arguments, self.log, self.detached = name, [str(a) for a in arguments], log, detached
        self.child = None
        self.adopted = None  # (pid, start time) of a process that another run of Python started
        self.wanted = False  # whether a supervisor should bring it back

    def start(self):
        with open(self.log, "ab") as output:
            self.child = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL, stdout=output,
                                          stderr=subprocess.STDOUT, start_new_session=True)
        self.adopted = None
        self.wanted = True
        if not self.detached:
            _running.append(self)
        return self

    @property
    def pid(self):
        if self.child is not None:
            return self.child.pid
        return self.adopted[0] if self.adopted else None

    def identity(self):
        """What adopt() needs, fit for JSON; None when it does not run."""
        return [self.pid, start_time(self.pid)] if self.running() else None

    def adopt(self, identity):
        """Takes over a process that an earlier run started; nothing happens when it is gone."""
        if identity and start_time(identity[0]) == identity[1]:
            self.adopted = tuple(identity)
            self.wanted = True

    def running(self):
        if self.child is not None:
            return self.child.poll() is None
        return self.adopted is not None and start_time(self.adopted[0]) == self.adopted[1]

    def signal(self, how):
        """Sends a signal to the process and whatever it started."""
        if self.running():
            os.killpg(self.pid, how)

    def kill(self):
        """SIGKILL, without a chance to tidy up."""
        self._end(signal.SIGKILL, 10)

    def stop(self, timeout=30):
        """SIGTERM and wait; returns the exit status (None for an adopted process). Raises TimeoutError when it does not
        end."""
        return self._end(signal.SIGTERM, timeout)

    def wait(self, timeout):
        """Waits for the end; returns whether it came."""
        end = time.monotonic() + timeout
        while self.running() and time.monotonic() < end:
            time.sleep(0.02)
        return not self.running()

    def _end(self, how, timeout):
        self.wanted = False
        if self in _running:
            _running.remove(self)
        if self.running():
            self.signal(how)
            if not self.wait(timeout):
                self.signal(signal.SIGKILL)
                self.wait(10)
                raise TimeoutError(f"{self.name} did not stop within {timeout} s; see {self.log}")
        return self.child.returncode if self.child else None

    def log_tail(self, lines=20):
        try:
            with open(self.log, errors="replace") as text:
                return "".join(text.readlines()[-lines:])
        except FileNotFoundError:
            return ""


def wait_until(condition, timeout, what, every=0.1, alive=(), supervised=False):
    """Waits for condition() to be true and returns its value; fails early when a process in `alive` has ended.

    alive: processes, or a function that gives them. supervised: somebody restarts them, so that is no failure.
    """
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        for process in alive() if callable(alive) else alive:
            if not process.running() and not supervised:
                raise RuntimeError(f"{process.name} ended while waiting for {what}:\n{process.log_tail()}")
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout} s for {what}")
        time.sleep(every)
