"""Puts the executables into the wheel, under the tag of the platforms that they run on, and describes the package.

What a wheel is made of is the folder ``python`` of a checkout, or a source distribution, which has the executables and
the version beside this file."""

import os
import re
import struct
import subprocess
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# Offsets and values of the ELF-64 object file format, version 1.5 draft 2, and e_machine of
# the System V ABI supplements for x86-64 and AArch64.
MACHINES = {62: "x86_64", 183: "aarch64"}
INTERPRETER = 3

#: Programs beside the main one, which are put in where they are built.
BESIDE = ("stasis-reproduce", "stasis-function", "stasis-coordinate")


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


#: Folder of a source distribution with what is the checkout's.
CARRIED = "carried"


def version() -> str:
    """The version of the program, by the checkout's ``Cargo.toml``, or as a source distribution carries it."""
    here = Path(__file__).resolve().parent
    carried = here / CARRIED / "version"
    if carried.is_file():
        return carried.read_text(encoding="utf-8").strip()
    found = re.search(r'(?m)^version = "([^"]+)"$', (here.parent / "Cargo.toml").read_text(encoding="utf-8"))
    if found is None:
        raise SystemExit("Cargo.toml has no version")
    return found[1]


def built(root: Path) -> Path:
    """What `make build` has made in the sources that ``root`` is a folder of, or what a source distribution has."""
    carried = root / CARRIED / "stasis"
    if carried.is_file():
        return carried
    target = Path(os.environ.get("CARGO_TARGET_DIR") or root.parent / "target")
    executable = target / "x86_64-unknown-linux-gnu" / "release" / "stasis"
    if not executable.is_file():
        raise SystemExit(
            f"there is no {executable}: build it first (`make build`), or name an executable by STASIS_EXECUTABLE"
        )
    return executable


def stripped(executable: Path, folder: Path) -> Path:
    """A copy without debugging information, a tenth of the size; the file itself where nothing strips it."""
    copy = folder / executable.name
    try:
        subprocess.run(["strip", "-o", copy, executable], check=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return executable
    return copy


def described(text: str, address: str) -> str:
    """README.md as an index shows it, which has none of its files: pictures from ``address``, the repository's files
    on the web; without one no pictures."""
    picture = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)]*)\)")
    if not address:
        # With the sentence that leads to it.
        return re.sub(r"[^\n]+:\n\n" + picture.pattern + r"\n\n", "", text)
    return picture.sub(lambda found: f"![{found[1]}]({address.rstrip('/')}/python/{found[2]})", text)


def addresses(repository: str) -> dict[str, str]:
    """The addresses that an index shows, of a repository on the web; none without one."""
    if not repository:
        return {}
    at = repository.rstrip("/")
    pages = {"Repository": "", "Documentation": "/blob/main/docs/README.md", "Issues": "/issues"}
    return {name: at + page for name, page in {**pages, "Changelog": "/blob/main/CHANGELOG.md"}.items()}


class DescriptionHook(MetadataHookInterface):
    """`STASIS_FILES` is the address of the repository's files, from which an index shows the README's picture, and
    `STASIS_REPOSITORY` that of the repository: a checkout does not know where it is published."""

    def update(self, metadata: dict) -> None:
        metadata["urls"] = addresses(os.environ.get("STASIS_REPOSITORY", ""))
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = described(text, os.environ.get("STASIS_FILES", ""))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class ExecutableHook(BuildHookInterface):
    """`STASIS_EXECUTABLE` names the file, by default what `make build` has made; an editable installation goes without."""

    def initialize(self, version: str, build_data: dict) -> None:
        named = os.environ.get("STASIS_EXECUTABLE")
        if not named and version == "editable":
            return
        executable = Path(named).resolve() if named else built(Path(self.root))
        found = {"stasis": executable, **{name: executable.with_name(name) for name in BESIDE}}
        found = {name: path for name, path in found.items() if path.is_file()}
        (platform,) = {platforms(path) for path in found.values()}
        # The licences of what they are linked from.
        notices = executable.with_name("third-party.txt")
        self.folder = tempfile.TemporaryDirectory()
        if not named:
            found = {name: stripped(path, Path(self.folder.name)) for name, path in found.items()}
        if self.target_name == "sdist":
            said = Path(self.folder.name) / "version"
            said.write_text(self.metadata.version + "\n", encoding="utf-8")
            carried = {said: "version", **{path: name for name, path in found.items()}}
            carried.update({notices: notices.name} if notices.is_file() else {})
            build_data["force_include"].update({str(path): f"{CARRIED}/{name}" for path, name in carried.items()})
            return
        build_data["shared_scripts"].update({str(path): name for name, path in found.items()})
        if notices.is_file():
            build_data["force_include"][str(notices)] = "stasis/third-party.txt"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
