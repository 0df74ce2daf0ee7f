"""Sits at a pseudo terminal before `stasis shell`, whose words are this program's.

Prints what was seen, and ends with status 0 if all of it was as expected.
"""

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time

# The whole test's patience: a slow machine under other load.
LIMIT = time.monotonic() + 480


class Session:
    """A program at a terminal."""

    def __init__(self, words, rows, columns):
        self.master, self.slave = os.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        self.process = subprocess.Popen(
            words,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, text):
        os.write(self.master, text)

    def expect(self, text):
        """Waits until `text` has been written since the last time; returns what came before it."""
        while text not in self.seen:
            left = LIMIT - time.monotonic()
            ready, _, _ = select.select([self.master], [], [], max(left, 0))
            if not ready:
                sys.exit(f"{text!r} did not come; the last that came is {self.seen[-2000:]!r}")
            piece = os.read(self.master, 65536)
            sys.stdout.buffer.write(piece)
            self.seen += piece
        before, self.seen = self.seen.split(text, 1)
        return before

    def ask(self, command, answer):
        # What is typed is echoed: the answer must not be in it.
        assert answer not in command
        self.send(command + b"\r")
        self.expect(answer)
        self.expect(b"# ")

    def end(self, status):
        while self.process.poll() is None:
            ready, _, _ = select.select([self.master], [], [], 0.1)
            if ready:
                sys.stdout.buffer.write(os.read(self.master, 65536))
            if time.monotonic() > LIMIT:
                sys.exit("it does not end")
        assert self.process.returncode == status, self.process.returncode
        after = termios.tcgetattr(self.slave)
        assert after == self.before, f"the terminal is left as {after}, not {self.before}"


def a_session(words):
    session = Session(words, 33, 111)
    session.expect(b"# ")
    session.ask(b"stty size", b"33 111\r\n")
    session.ask(b"echo $TE''RM; tty", b"/dev/pts/")
    # Ctrl-C interrupts what runs, and the shell goes on.
    session.send(b"sleep 100\r")
    session.expect(b"\r\n")
    time.sleep(0.5)
    session.send(b"\x03")
    session.expect(b"# ")
    session.ask(b"echo interrupted $?", b"interrupted 130\r\n")
    # Job control.
    session.send(b"sleep 200\r")
    session.expect(b"\r\n")
    time.sleep(0.5)
    session.send(b"\x1a")
    session.expect(b"Stopped")
    session.expect(b"# ")
    session.ask(b"kill %1; fg 2>/dev/null; jobs | wc -l", b"0\r\n")
    # A new size is the guest's.
    session.resize(44, 122)
    time.sleep(0.2)
    session.ask(b"stty size", b"44 122\r\n")
    # An idle guest's time is no faster than the wall clock's.
    begun = time.monotonic()
    session.ask(b"sleep 2; echo sl''ept", b"slept\r\n")
    passed = time.monotonic() - begun
    assert passed >= 1.9, f"2 s of an idle guest passed in {passed} s"
    # What a drive does takes its own time: four times half a second. Under a software host that is
    # busy, dd's own start takes some of the guest's time too.
    session.send(b"dd if=/dev/nvme0n1 of=/dev/null bs=4k count=4 iflag=direct\r")
    session.expect(b"copied, ")
    took = float(session.expect(b" s,"))
    assert 2.0 <= took < 2.5, f"four reads of 500 ms took {took} s"
    session.expect(b"# ")
    session.send(b"exit 7\r")
    session.end(7)


def a_session_that_is_stopped(words):
    session = Session(words, 24, 80)
    session.expect(b"# ")
    assert termios.tcgetattr(session.slave) != session.before, "the terminal is not the guest's"
    session.process.send_signal(signal.SIGTERM)
    session.end(130)


if __name__ == "__main__":
    a_session(sys.argv[1:])
    # Its end is the program's own, whatever the engine.
    if "softkvm" not in sys.argv:
        a_session_that_is_stopped(sys.argv[1:])
