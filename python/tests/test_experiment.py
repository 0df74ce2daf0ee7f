"""Experiments as dataclasses, held against the program and its documentation."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import stasis
from stasis._run import Place, _experiment_file
from stasis._toml import tomllib
from stasis.experiment import TABLES, Table

from .conftest import ROOT

#: A value for each key, that the program takes.
VALUES: dict[str, dict[str, Any]] = {
    "Experiment": {
        "engine": "exact", "seed": 1, "check": "true", "results": "r", "virtual_limit": "1s", "wall_limit": "1min",
        "check_limit": "5min", "strict": True, "history": True,
    },
    "Machine": {
        "vcpus": 2, "memory": "512MiB", "cpu_speed": "3GHz", "name": "m", "count": 1, "command": [], "wait": True,
        "variables": {"role": "first"},
        "guest_scheduler": "bfq", "coordinate": True, "log_level": 5, "kernel_command_line": "quiet", "quantum": "20us",
        "schedule": "random", "threads": 1, "rewind": False, "random": False, "randomize": True,
        "boots_again": True,
    },
    "Container": {
        "image": "postgres:16", "entrypoint": ["sh", "-c"], "environment": {"A": "1"}, "user": "1:2",
        "working_directory": "/srv", "volumes": {"/data": "memory"}, "files": ["job.fio"], "texts": {"/etc/x": "y"},
        "depends_on": {"m": "healthy"},
    },
    "Health": {
        "test": ["true"], "interval": "1s", "timeout": "1s", "retries": 3, "start_period": "1s",
        "start_interval": "1s",
    },
    "Guest": {
        "packages": ["stress-ng"], "modules": ["nfsd"], "root": "host", "image": "postgres:16",
        "kernel": "linux-image-cloud-amd64", "suite": "bookworm",
        "files": ["job.fio"], "templates": ["job.fio"],
        "stdin": "job.fio",
    },
    "Serve": {
        "sockets": "s", "poll": "never", "threads": 1, "control": "c", "metrics": "127.0.0.1:1", "ublk": ["a"],
        "user": "nobody", "unconfined": True,
        "nvme_tcp": "4420", "vfio_user": "d.sock", "hosts": ["nqn.2014-08.org.nvmexpress:uuid:1"],
        "host_secrets": {"nqn.2014-08.org.nvmexpress:uuid:1": "secret"}, "dh_groups": ["ffdhe3072"],
    },
    "Drive": {
        "model": {"kind": "fixed", "latency": "1us"}, "medium": {"ram": "1GiB"}, "interface": "nvme", "barrier": "1us",
        "delay": "1ms", "queues": 2, "doorbells": "lazy", "block_size": 4096, "namespaces": 1,
        "controllers": 1, "placement": "none",
        "scheduler": "none", "serial": "S", "path": "2us", "state": "keep",
        "power_states": "8W/idle:50mW:2ms:1500us", "memory_buffer": "2MiB",
    },
    "Disk": {
        "on": "d", "offset": 0, "size": "1MiB", "image": "i.qcow2", "durability": "flush", "max_lag": "1s",
        "max_lag_bytes": "1MiB", "name": "k", "interface": "nvme", "queues": 1, "doorbells": "exact", "serial": "x",
        "weight": 1, "ioprio": "idle",
    },
    "Workload": {
        "name": "w", "drive": "d", "pattern": "1r-seq", "job": "[a]", "job_file": "job.fio", "offset": 0,
        "size": "1MiB", "weight": 1, "ioprio": "idle", "group_weight": 1,
    },
    "Network": {
        "name": "n", "machines": ["m"], "subnet": "10.0.0.0/24", "mtu": 1500, "bandwidth": "10Gbit/s",
        "queue": "1MiB", "capture": 96, "delay": "50us", "jitter": "1us", "loss": 0.1, "duplicate": 0.1,
        "reorder": 0.1, "corrupt": 0.1,
    },
    "Fault": {
        "kind": "slow", "name": "f", "drive": "m", "controller": 2, "namespace": 1, "size": "1MiB",
        "machine": "o", "at": "1s", "at_io": "m:7",
        "at_packet": "n:7", "at_output": "ready",
        "output_of": "o", "when": "asked", "within": "1s", "restart": "2s", "leaves": "least",
        "loses": [0, 3], "begin": "1s",
        "end": "2s", "rate": 0.1, "first": 3, "times": 4,
        "offset": "4KiB", "length": "1MiB", "operations": ["read"], "factor": 2.0, "delay": "1ms",
        "space": "1MiB", "process": "etcd", "memory": "1MiB", "by": "-5s", "ppm": 100,
        "machines": ["m"], "peers": ["o"], "network": "n", "one_way": True,
    },
    "FaultSpace": {
        "draws": 1, "begin": "1s", "within": "1s", "shortest": "1ms", "longest": "1s", "machines": ["m1"],
        "drives": ["d"],
    },
    "Explore": {
        "never": ["lost"], "once": ["done"], "history": ["register"], "isolation": "snapshot", "progress": "10s",
    },
    "Expectation": {"that": "read.p99 < 1ms", "name": "quick"},
    "Link": {
        "from_": "m", "to": "o", "both_ways": True, "begin": "1s", "end": "2s", "bandwidth": "1Gbit/s",
        "queue": "64KiB", "delay": "1ms", "jitter": "1us", "loss": 0.1, "duplicate": 0.1, "reorder": 0.1,
        "corrupt": 0.1,
    },
    "Outside": {"name": "out", "socket": "cable.sock"},
    "Red": {"min": "10KiB", "max": "30KiB", "probability": 0.1, "weight": 0.1, "ecn": True},
    "Limits": {
        "iops": 3000, "burst_iops": 9000, "bandwidth": "125MiB/s", "burst_bandwidth": "250MiB/s", "burst": "30min",
        "io_size": "256KiB",
    },
    "Zrwa": {"size": "1MiB", "granularity": "16KiB", "count": 4},
    "Zones": {
        "size": "64MiB", "capacity": "48MiB", "max_open": 1, "max_active": 2, "extension_size": 64,
        "reads_cross_zones": True,
    },
    "KeyValue": {"segment": "1MiB", "spare_percent": 20, "max_keys": 1000, "index_cache": "64KiB"},
    "Namespace": {
        "size": "64MiB", "block_size": 4096, "endurance_group": 1, "nvm_set": 1, "placement": "fdp:8x64MiB",
    },
    "Programs": {
        "processors": 2, "instructions_per_second": 500_000_000, "memory": "16MiB", "memory_rate": "1GB/s",
        "max_instructions": 1000,
    },
    "Metadata": {"size": 16, "extended": True, "protection": 1, "guard": 64, "first": True},
    "Ocssd": {
        "groups": 4, "units": 2, "chunks": 64, "sectors": 1024, "write_min": 4, "write_optimal": 8, "cached": 4,
        "max_open": 32, "max_open_per_unit": 4, "endurance": 3000,
    },
}  # fmt: skip


def every_key() -> stasis.Experiment:
    """An experiment that says something for each key."""
    zones = stasis.Zones(**VALUES["Zones"], zrwa=stasis.Zrwa(**VALUES["Zrwa"]))
    limits = stasis.Limits(**VALUES["Limits"])
    red = stasis.Red(**VALUES["Red"])
    drives = [
        stasis.Drive(name="d", **VALUES["Drive"]),
        stasis.Drive(name="l", model="null", medium="ram:1GiB", limits=limits),
        stasis.Drive(name="z", model="null", medium="ram:1GiB", zones=zones),
        stasis.Drive(
            name="e", model="null", medium="ram:1GiB", block_size=4096, metadata=stasis.Metadata(**VALUES["Metadata"])
        ),
        stasis.Drive(name="p", model="null", medium="ram:1GiB", ocssd=stasis.Ocssd(**VALUES["Ocssd"])),
        stasis.Drive(name="k", model="null", medium="ram:1GiB", key_value=stasis.KeyValue(**VALUES["KeyValue"])),
        stasis.Drive(
            name="m", model="null", medium="ram:1GiB", namespace=[stasis.Namespace(**VALUES["Namespace"], zones=zones)]
        ),
        stasis.Drive(name="c", model="null", medium="ram:1GiB", programs=stasis.Programs(**VALUES["Programs"])),
    ]
    machine = stasis.Machine(
        **VALUES["Machine"],
        drives=[stasis.Drive("null", "ram:1MiB")],
        disks=[stasis.Disk(**VALUES["Disk"], limits=limits)],
        container=stasis.Container(**VALUES["Container"], health=stasis.Health(**VALUES["Health"])),
    )
    return stasis.Experiment(
        **VALUES["Experiment"],
        drives=drives,
        machine=[machine],
        guest=stasis.Guest(**VALUES["Guest"]),
        serve=stasis.Serve(**VALUES["Serve"]),
        workloads=[stasis.Workload(**VALUES["Workload"], limits=limits)],
        faults=[stasis.Fault(**VALUES["Fault"])],
        explore=stasis.Explore(**VALUES["Explore"]),
        expectations=[stasis.Expectation(**VALUES["Expectation"])],
        fault_space=stasis.FaultSpace(**VALUES["FaultSpace"], faults=[stasis.Fault(kind="pause")]),
        networks=[
            stasis.Network(
                **VALUES["Network"],
                red=red,
                links=[stasis.Link(**VALUES["Link"], red=red)],
                outside=[stasis.Outside(**VALUES["Outside"])],
            )
        ],
    )


def test_there_is_a_value_for_each_key_above() -> None:
    for name, table in {**TABLES, "Experiment": stasis.Experiment}.items():
        below = {each.name for each in table.key_fields().values() if each.metadata.get("table")}
        named = {each.name for each in table.key_fields().values()} - below - {"command", "name"}
        assert named <= set(VALUES[name]), name


def test_the_program_takes_every_key(here: Path, program: Path) -> None:
    (here / "e.toml").write_text(every_key().to_toml())
    done = subprocess.run([program, "run", "e.toml"], capture_output=True, text=True)
    # It has read the file, and says what only the whole can tell.
    assert "the guest has a root as well" in done.stderr


def test_an_experiment_is_read_as_it_is_written(here: Path) -> None:
    experiment = every_key()
    (here / "e.toml").write_text(experiment.to_toml())
    read = stasis.Experiment.read("e.toml")
    assert read == experiment
    assert read.base == here
    assert tomllib.loads(read.to_toml()) == experiment.to_dict()


def test_an_empty_entry_point_is_none(here: Path) -> None:
    machine = stasis.Machine(container=stasis.Container(entrypoint=[]))
    (here / "e.toml").write_text(stasis.Experiment(machine=machine).to_toml())
    read = stasis.Experiment.read("e.toml")
    assert read.to_dict()["machine"] == {"container": {"entrypoint": []}}


def test_former_names_of_keys_are_read(here: Path) -> None:
    drive = "[[drive]]\nmodel = 'null'\nmedium = 'ram:1GiB'\nphysical = '4x2x64x1024'\n"
    (here / "e.toml").write_text(f"{drive}[machine]\nslice = '20us'\n")
    experiment = stasis.Experiment.read("e.toml")
    assert experiment.to_dict()["drive"][0]["ocssd"] == "4x2x64x1024"
    assert experiment.to_dict()["machine"] == {"quantum": "20us"}


def test_the_examples_are_read() -> None:
    for path in sorted((ROOT / "examples").rglob("*.toml")):
        experiment = stasis.Experiment.read(path)
        assert experiment.to_dict() == tomllib.loads(path.read_text()), path


def documented() -> dict[str, set[str]]:
    """The keys of each table of docs/reference/experiment.md, by heading."""
    sections: dict[str, set[str]] = {}
    heading = ""
    for line in (ROOT / "docs" / "reference" / "experiment.md").read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("| `") and (first := line.split("|")[1]):
            sections.setdefault(heading, set()).update(re.findall(r"`([\w\[\].-]+)`", first))
    return sections


@pytest.mark.parametrize(
    ("heading", "table"),
    [
        ("Top-level keys", stasis.Experiment),
        ("`[machine]`", stasis.Machine),
        ("`[[machine]]`: several machines", stasis.Machine),
        ("`[[machine.disk]]`: virtual disks", stasis.Disk),
        ("`[[workload]]`", stasis.Workload),
        ("`[guest]`", stasis.Guest),
        ("`[[drive]]` and `--drive`", stasis.Drive),
    ],
)
def test_every_documented_key_is_a_field(heading: str, table: type[Table]) -> None:
    keys = {key.replace("[[machine.", "").strip("[]") for key in documented()[heading]}
    assert keys
    assert keys <= set(table.key_fields())


def test_the_program_and_the_dataclasses_have_the_same_keys(program: Path) -> None:
    done = subprocess.run([program, "schema"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("this program has no `stasis schema`")
    schema = json.loads(done.stdout)

    def properties(node: dict[str, Any]) -> set[str]:
        while "$ref" in node:
            node = definition(node["$ref"])
        found = set(node.get("properties", {}))
        for each in (*node.get("anyOf", []), *node.get("oneOf", []), *node.get("allOf", [])):
            found |= properties(each)
        if "items" in node:
            found |= properties(node["items"])
        return found

    def definition(reference: str) -> dict[str, Any]:
        node: Any = schema
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
        return node

    def compare(node: dict[str, Any], table: type[Table]) -> None:
        while "$ref" in node:
            node = definition(node["$ref"])
        for each in (*node.get("anyOf", []), *node.get("oneOf", []), *([node["items"]] if "items" in node else [])):
            compare(each, table)
        if "properties" not in node:
            return
        assert properties(node) - set(table.OLDER) == set(table.key_fields()), table.__name__
        for key, each in table.key_fields().items():
            if below := each.metadata.get("table"):
                compare(node["properties"][key], TABLES[below])

    compare(schema, stasis.Experiment)


def test_an_unknown_key_is_named_with_the_nearest(here: Path) -> None:
    (here / "e.toml").write_text("[machine]\nvcpu = 1\n")
    with pytest.raises(stasis.ExperimentError, match=r"e\.toml: \[machine\] has no key `vcpu`; did you mean `vcpus`"):
        stasis.Experiment.read("e.toml")
    (here / "e.toml").write_text("[[drive]]\nmodel = 'null'\n")
    with pytest.raises(stasis.ExperimentError, match=r"\[\[drive\]\] has no `medium`"):
        stasis.Experiment.read("e.toml")
    for text in ("[", "\x00"):
        (here / "e.toml").write_text(text)
        with pytest.raises(stasis.ExperimentError, match=r"e\.toml"):
            stasis.Experiment.read("e.toml")
    with pytest.raises(stasis.ExperimentError, match=r"cannot read nowhere\.toml"):
        stasis.Experiment.read("nowhere.toml")


def test_relative_paths_start_at_the_folder_of_the_experiment(here: Path) -> None:
    experiment = stasis.Experiment(
        drives=[
            stasis.Drive({"kind": "profile", "file": "p.json"}, {"file": "d.img"}),
            stasis.Drive("profile:q.json", "qcow2:e.qcow2"),
            stasis.Drive("null", {"ram": "1GiB"}),
        ],
        guest=stasis.Guest(files=["job.fio:/etc/job"], templates=["t"], stdin=Path("in")),
        base=Path("/base"),
    )
    table = tomllib.loads(_experiment_file(experiment, Place(here, "run")).read_text())
    assert table["drive"][0]["model"]["file"] == "/base/p.json"
    assert table["drive"][0]["medium"] == {"file": "/base/d.img"}
    assert table["drive"][1] == {"model": "profile:/base/q.json", "medium": "qcow2:/base/e.qcow2"}
    assert table["drive"][2]["medium"] == {"ram": "1GiB"}
    assert table["guest"] == {"files": ["/base/job.fio:/etc/job"], "templates": ["/base/t"], "stdin": "/base/in"}
