"""Sits at a pseudo terminal before `stasis shell --at 100ms`, whose words are this program's."""

import sys

from terminal import Session

session = Session(sys.argv[1:], 40, 100)
session.expect(b"from here on it is another run")
# Before the writes of the run's command, which goes on beside the shell.
session.ask(b"awk '{print \"wrote\", $5, \".\"}' /sys/block/nvme0n1/stat", b"wrote 0 .")
session.ask(b"stty size", b"40 100")
session.ask(b"sleep 1; awk '{print \"wrote\", $5, \".\"}' /sys/block/nvme0n1/stat", b"wrote 50 .")
session.send(b"exit 3\r")
session.end(3)
