"""Puts the executable into the wheel, under the tag of the platforms that it runs on."""

import os
import struct
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Offsets and values of the ELF-64 object file format, version 1.5 draft 2, and e_machine of
# the System V ABI supplements for x86-64 and AArch64.
MACHINES = {62: "x86_64", 183: "aarch64"}
INTERPRETER = 3


def platforms(executable: Path) -> str:
    """The platform tags of a static executable for Linux: it needs no C library, so any will do."""
    with executable.open("rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
            raise SystemExit(f"{executable} is no 64-bit ELF executable")
        machine = MACHINES.get(struct.unpack_from("<H", header, 0x12)[0])
        if machine is None:
            raise SystemExit(f"{executable} is for a processor that no wheel is made for")
        (table,) = struct.unpack_from("<Q", header, 0x20)
        size, count = struct.unpack_from("<HH", header, 0x36)
        for index in range(count):
            file.seek(table + index * size)
            if struct.unpack("<I", file.read(4))[0] == INTERPRETER:
                raise SystemExit(f"{executable} is linked dynamically: the wheel takes a static one")
    return ".".join(f"{name}_{machine}" for name in ("manylinux_2_17", "manylinux2014", "musllinux_1_1"))


class ExecutableHook(BuildHookInterface):
    """`STASIS_EXECUTABLE` names the file; an editable installation goes without one."""

    def initialize(self, version: str, build_data: dict) -> None:
        named = os.environ.get("STASIS_EXECUTABLE")
        if not named:
            if version == "editable":
                return
            raise SystemExit("STASIS_EXECUTABLE names no executable to pack; `make package` sets it")
        executable = Path(named).resolve()
        build_data["shared_scripts"][str(executable)] = "stasis"
        # The licences of what it is linked from.
        notices = executable.with_name("third-party.txt")
        if notices.is_file():
            build_data["force_include"][str(notices)] = "stasis/third-party.txt"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platforms(executable)}"
