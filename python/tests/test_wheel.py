"""What `python -m build` makes is installed with the program in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import stasis

FOLDER = Path(__file__).parent.parent


def test_the_wheel_of_a_source_distribution_has_the_program(program: Path, tmp_path: Path) -> None:
    # The folder alone: nothing beside it is read but the version and the program.
    checkout = tmp_path / "checkout"
    shutil.copytree(FOLDER, checkout / "python", ignore=shutil.ignore_patterns("tests", ".*", "dist"))
    shutil.copy(FOLDER.parent / "Cargo.toml", checkout)
    built = checkout / "target" / "x86_64-unknown-linux-gnu" / "release"
    built.mkdir(parents=True)
    for name in ("stasis", "stasis-reproduce"):
        (built / name).symlink_to(program.resolve())
    environment = {
        key: value for key, value in os.environ.items() if key not in ("STASIS_EXECUTABLE", "CARGO_TARGET_DIR")
    }
    environment["STASIS_REPOSITORY"] = "https://forge.example/storage/stasis"
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path / "dist"), "python"]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (text,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        about = Parser().parsestr(archive.read(text).decode())
    assert about["Version"] == re.search(r'version = "(.*)"', (FOLDER.parent / "Cargo.toml").read_text())[1]
    assert about["Author"] == "The Stasis authors"
    urls = dict(each.split(", ") for each in about.get_all("Project-URL"))
    assert urls["Issues"] == "https://forge.example/storage/stasis/issues"
    installed = tmp_path / "installed"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(installed), str(wheel)]
    subprocess.run(command, check=True)
    said = subprocess.run([installed / "bin" / "stasis", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("stasis ")
    assert (installed / "bin" / "stasis-reproduce").is_file()


def test_no_description_names_a_file_that_is_not_installed() -> None:
    for path in Path(stasis.__file__).parent.rglob("*.py"):
        named = re.findall(r"[\w/-]+\.(?:md|rs)\b|\bdocs/\S*", path.read_text(encoding="utf-8"))
        assert named == [], path
