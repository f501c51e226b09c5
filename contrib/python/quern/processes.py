"""Child processes with a log file each, stopped cleanly or killed, and never left behind unless they are meant to be."""
import atexit
import os
import queue
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time

# What is waited for may take so many times as long: instrumented programs are slow.
TIMEOUT_FACTOR = float(os.environ.get("QUERN_TIMEOUT_FACTOR", "1"))
_running: list = []


# --- ends ---------------------------------------------------------------------------------------------------------------
class Ended(KeyboardInterrupt):
    """A signal asked this program to end. A KeyboardInterrupt, so that nothing takes it for a failure and goes on."""

    def __init__(self, number):
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


def at_end(function, *arguments):
    """Has function(*arguments) called when this program ends, unless what is returned is called before; once at most."""
    waiting = [True]

    def once():
        if waiting:
            waiting.clear()
            atexit.unregister(once)
            function(*arguments)

    atexit.register(once)
    return once


def kill_all():
    """SIGKILL to all that this program has started and that does not outlive it."""
    for process in list(_running):
        process.kill()


_starting = False  # the main thread is having a process started
_put_off = None  # the signal that came meanwhile


def _end(number, _frame):
    global _put_off
    if _starting:
        _put_off = number
        return
    for other in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)  # a closing terminal and its shell send several; the first one counts
    signal.signal(signal.SIGINT, _end_at_once)
    if number == signal.SIGHUP:
        _let_go_of_terminal()
    raise Ended(number)


def _end_at_once(number, _frame):
    """A second Ctrl-C: without waiting for anybody."""
    for process in list(_running):
        process.signal(signal.SIGKILL)
    os._exit(128 + number)


def _let_go_of_terminal():
    """What is still said while ending must not fail because nobody can read it."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # isatty() denies a terminal that is gone
            os.dup2(null, descriptor)
    os.close(null)


def hang_up():
    """For one who cannot write to the terminal any more, before the signal says so: as the signal."""
    if threading.current_thread() is threading.main_thread():
        _end(signal.SIGHUP, None)


def end_on_signals():
    """From now on SIGTERM, SIGHUP (a closed terminal) and Ctrl-C raise Ended, so that what was started is stopped too.
    A SIGHUP that the caller has ignored, as nohup does, stays ignored. Main thread only."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)


atexit.register(kill_all)


# --- starts -------------------------------------------------------------------------------------------------------------
_starts: queue.SimpleQueue = queue.SimpleQueue()
_starter_lock = threading.Lock()
_starter = None


def _start_forever():
    while True:
        work, done = _starts.get()
        try:
            done.put((work(), None))
        except Exception as error:  # for who asked; after a signal it may have closed its files
            done.put((None, error))


def _from_lasting_thread(work):
    """Runs work() on a thread that ends with this program only: the kernel tells children of the death of the *thread*
    that started them. A signal that asks this program to end is put off until then: a start is whole or is none."""
    global _starter, _starting
    with _starter_lock:
        if _starter is None:
            _starter = threading.Thread(target=_start_forever, daemon=True)
            _starter.start()
    done = queue.SimpleQueue()
    main = threading.current_thread() is threading.main_thread()
    if main:
        _starting = True
    _starts.put((work, done))
    child, error = done.get()
    if main:
        _starting = False
        if _put_off is not None:
            _end(_put_off, None)
    if error is not None:
        raise error
    return child


def popen(arguments, begun=lambda child: None, **options):
    """subprocess.Popen of a child that the kernel kills when this program is gone, however it went. begun(child) is called
    even if a signal ends this call before it returns."""
    prefix = []
    if shutil.which("setpriv"):
        # The shell looks whether this program was still there when the kernel was told.
        prefix = ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", f'[ "$PPID" = {os.getpid()} ] && exec "$@"', "sh"]

    def start():
        child = subprocess.Popen(prefix + list(arguments), **options)
        begun(child)
        return child

    return _from_lasting_thread(start)


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
        self.log_start = 0  # where in the log the last start's output begins
        self.started_at = 0.0

    def start(self):
        with open(self.log, "ab") as output:
            self.log_start = output.tell()
            options = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT, "start_new_session": True}
            if self.detached:
                _from_lasting_thread(lambda: self._begun(subprocess.Popen(self.arguments, **options)))
            else:
                popen(self.arguments, self._begun, **options)
        return self

    def _begun(self, child):
        self.child = child
        self.adopted = None
        self.started_at = time.monotonic()
        self.wanted = True
        if not self.detached:
            _running.append(self)

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
        return self._end(signal.SIGTERM, timeout * TIMEOUT_FACTOR)

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

    def last_line(self):
        """The last thing that it said since its last start, or ""."""
        try:
            with open(self.log, "rb") as text:
                text.seek(max(self.log_start, os.path.getsize(self.log) - 65536))
                lines = text.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def wait_until(condition, timeout, what, every=0.1, alive=(), supervised=False):
    """Waits for condition() to be true and returns its value; fails early when a process in `alive` has ended. The
    timeout is for programs as they are shipped: TIMEOUT_FACTOR lengthens it.

    alive: processes, or a function that gives them. supervised: somebody restarts them, so that is no failure.
    """
    timeout *= TIMEOUT_FACTOR
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
