"""Experiments as dataclasses: the tables and keys of an experiment file.

A field that is ``None`` is left to the program, which has the default. Names are those of the file
with ``_`` for ``-``; lists of tables have the plural. ``described()`` of each table says what each key means.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Optional, TypeVar, Union

import tomli_w

from ._schema import described
from ._toml import tomllib
from .errors import ExperimentError
from .frame import Frame

__all__ = [
    "Disk",
    "Drive",
    "Expectation",
    "Experiment",
    "Explore",
    "Fault",
    "FaultSpace",
    "Guest",
    "KeyValue",
    "Limits",
    "Link",
    "Machine",
    "Medium",
    "Metadata",
    "Model",
    "Network",
    "Ocssd",
    "Outside",
    "Red",
    "Serve",
    "Size",
    "Table",
    "Workload",
    "Zones",
    "Zrwa",
]

#: Bytes, or a number with a unit: ``"1GiB"``.
Size = Union[int, str]
#: A model: a word (``"samsung-980-pro"``) or a table, as `model` gives one.
Model = Union[str, Mapping[str, Any]]
#: A medium: a word (``"ram:1GiB"``) or a table (``{"ram": "1GiB"}``).
Medium = Union[str, Mapping[str, Any]]

T = TypeVar("T", bound="Table")


def _table(table: str, *, name: Optional[str] = None, many: bool = False) -> Any:
    """A field that holds a table, or a list of tables."""
    metadata = {"table": table, "name": name}
    if many:
        return field(default_factory=list, metadata=metadata)
    return field(default=None, metadata=metadata)


class Table:
    """A table of the experiment file."""

    #: The table's name in messages.
    PLACE: ClassVar[str] = ""
    #: Former names of keys, which a file may have, as the program reads them.
    OLDER: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def key_fields(cls) -> dict[str, dataclasses.Field[Any]]:
        """The keys in the file, and the field that holds each."""
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        return {
            each.metadata.get("name") or each.name.replace("_", "-"): each
            for each in fields
            if not each.metadata.get("private")
        }

    @classmethod
    def described(cls) -> Frame:
        """The table's keys as the program describes them, a row for each: ``field``, its name here;
        ``key``, its name in a file; ``meaning``, with unit and form; ``default`` as JSON, empty where
        there is none or it depends on others.

        Raises `ProgramError` and `ProgramNotFound`.
        """
        return described(cls)

    @classmethod
    def from_dict(cls: type[T], values: Mapping[str, Any]) -> T:
        """Reads the values of a TOML file.

        Raises ``ExperimentError`` for an unknown key.
        """
        keys = cls.key_fields()
        found: dict[str, Any] = {}
        for given, value in values.items():
            key = cls.OLDER.get(given, given)
            if key not in keys:
                raise ExperimentError(unknown_key(key, keys, cls.PLACE))
            name = keys[key].metadata.get("table")
            found[keys[key].name] = _read(name, value) if name else value
        missing = [
            key
            for key, each in keys.items()
            if each.default is dataclasses.MISSING
            and each.default_factory is dataclasses.MISSING
            and each.name not in found
        ]
        if missing:
            raise ExperimentError(f"{cls.PLACE} has no `{missing[0]}`; add one")
        return cls(**found)

    def to_dict(self) -> dict[str, Any]:
        """The table as in the TOML file, without fields that are left to the program."""
        table = {}
        for key, each in self.key_fields().items():
            value = plain(getattr(self, each.name))
            # An empty list is left out, but where leaving it out means something else.
            if value is not None and (value != [] or each.default is None):
                table[key] = value
        return table


def unknown_key(key: str, keys: Mapping[str, Any], place: str) -> str:
    """The message about an unknown key, with the nearest valid one."""
    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.5)
    hint = f"did you mean `{near[0]}`?" if near else f"it has {', '.join(sorted(keys))}"
    return f"{place} has no key `{key}`; {hint}"


def _read(name: str, value: Any) -> Any:
    table = TABLES[name]
    if isinstance(value, Mapping):
        return table.from_dict(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_read(name, each) for each in value]
    # A word, such as `scheduler = "bfq"`.
    return value


def plain(value: Any) -> Any:
    """A value as TOML has it."""
    if isinstance(value, Table):
        return value.to_dict()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


@dataclass
class Zrwa(Table):
    """Zone random write areas."""

    PLACE: ClassVar[str] = "[drive.zones.zrwa]"

    size: Size
    granularity: Size
    count: int


@dataclass
class Zones(Table):
    """The zones of a zoned namespace."""

    PLACE: ClassVar[str] = "[drive.zones]"

    size: Size
    capacity: Optional[Size] = None
    max_open: Optional[int] = None
    max_active: Optional[int] = None
    extension_size: Optional[Size] = None
    zrwa: Optional[Zrwa] = _table("Zrwa")
    reads_cross_zones: Optional[bool] = None


@dataclass
class KeyValue(Table):
    """Pairs of keys and values in place of blocks."""

    PLACE: ClassVar[str] = "[drive.key-value]"

    segment: Optional[Size] = None
    spare_percent: Optional[int] = None
    max_keys: Optional[int] = None
    index_cache: Optional[Size] = None


@dataclass
class Namespace(Table):
    """A namespace of an NVMe drive whose namespaces are not all alike."""

    PLACE: ClassVar[str] = "[[drive.namespace]]"

    size: Optional[Size] = None
    block_size: Optional[Size] = None
    zones: Optional[Zones] = _table("Zones")
    key_value: Optional[KeyValue] = _table("KeyValue")
    endurance_group: Optional[int] = None
    nvm_set: Optional[int] = None
    placement: Optional[str] = None


@dataclass
class Programs(Table):
    """Computational programs that an NVMe drive runs, on a memory of its own."""

    PLACE: ClassVar[str] = "[drive.programs]"

    processors: Optional[int] = None
    instructions_per_second: Optional[int] = None
    memory: Optional[Size] = None
    memory_rate: Optional[str] = None
    max_instructions: Optional[int] = None


@dataclass
class Metadata(Table):
    """Metadata of each logical block of an NVMe drive, and protection information in it."""

    PLACE: ClassVar[str] = "[drive.metadata]"

    size: Size
    extended: Optional[bool] = None
    protection: Optional[int] = None
    guard: Optional[int] = None
    first: Optional[bool] = None


@dataclass
class Ocssd(Table):
    """The geometry of an Open-Channel 2.0 drive."""

    PLACE: ClassVar[str] = "[drive.ocssd]"

    groups: int
    units: int
    chunks: int
    sectors: int
    write_min: Optional[int] = None
    write_optimal: Optional[int] = None
    cached: Optional[int] = None
    max_open: Optional[int] = None
    max_open_per_unit: Optional[int] = None
    endurance: Optional[int] = None


@dataclass
class Limits(Table):
    """Limits on I/Os and bytes a second, with bursts. A size or a rate is text: ``"125MiB/s"``."""

    PLACE: ClassVar[str] = "[drive.limits]"

    iops: Optional[int] = None
    burst_iops: Optional[int] = None
    bandwidth: Optional[str] = None
    burst_bandwidth: Optional[str] = None
    burst: Optional[str] = None
    io_size: Optional[Size] = None


@dataclass
class Drive(Table):
    """A drive: its model sets when a command completes, its medium holds the data."""

    PLACE: ClassVar[str] = "[[drive]]"
    OLDER: ClassVar[Mapping[str, str]] = {"physical": "ocssd"}

    model: Model
    medium: Medium
    name: Optional[str] = None
    interface: Optional[str] = None
    barrier: Optional[str] = None
    delay: Optional[str] = None
    queues: Optional[int] = None
    doorbells: Optional[str] = None
    block_size: Optional[Size] = None
    state: Optional[str] = None
    namespaces: Optional[int] = None
    controllers: Optional[int] = None
    namespace: list[Namespace] = _table("Namespace", many=True)
    placement: Optional[str] = None
    scheduler: Optional[Union[str, Mapping[str, Any]]] = None
    serial: Optional[str] = None
    limits: Optional[Limits] = _table("Limits")
    path: Optional[str] = None
    zones: Optional[Zones] = _table("Zones")
    metadata: Optional[Metadata] = _table("Metadata")
    ocssd: Optional[Ocssd] = _table("Ocssd")
    key_value: Optional[KeyValue] = _table("KeyValue")
    power_states: Optional[str] = None
    memory_buffer: Optional[Size] = None
    programs: Optional[Programs] = _table("Programs")


@dataclass
class Disk(Table):
    """A machine's virtual disk on a shared drive."""

    PLACE: ClassVar[str] = "[[machine.disk]]"

    on: str
    offset: Optional[Size] = None
    size: Optional[Size] = None
    image: Optional[Union[str, Path]] = None
    durability: Optional[str] = None
    max_lag: Optional[str] = None
    max_lag_bytes: Optional[Size] = None
    name: Optional[str] = None
    interface: Optional[str] = None
    queues: Optional[int] = None
    doorbells: Optional[str] = None
    serial: Optional[str] = None
    limits: Optional[Limits] = _table("Limits")
    weight: Optional[int] = None
    ioprio: Optional[str] = None


@dataclass
class Health(Table):
    """A check of a command's health."""

    PLACE: ClassVar[str] = "[machine.container.health]"

    #: Program and arguments; by default the image's.
    test: list[str] = field(default_factory=list)
    interval: Optional[str] = None
    timeout: Optional[str] = None
    retries: Optional[int] = None
    start_period: Optional[str] = None
    start_interval: Optional[str] = None


@dataclass
class Container(Table):
    """The container that a machine's command runs as: what differs from its image."""

    PLACE: ClassVar[str] = "[machine.container]"

    image: Optional[str] = None
    entrypoint: Optional[list[str]] = None
    environment: Optional[dict[str, str]] = None
    user: Optional[str] = None
    working_directory: Optional[str] = None
    #: Folders whose files are on a drive, by its name, or in ``"memory"``.
    volumes: Optional[dict[str, str]] = None
    #: Files for this machine alone.
    files: list[Union[str, Path]] = field(default_factory=list)
    #: Texts of files for this machine alone, by the files' paths.
    texts: Optional[dict[str, str]] = None
    health: Optional[Health] = _table("Health")
    #: Machines whose commands are ``"started"``, ``"healthy"`` or ``"completed"`` before this one's begins.
    depends_on: Optional[dict[str, str]] = None


@dataclass
class Machine(Table):
    """A machine: the only one, or one of several on one timeline."""

    PLACE: ClassVar[str] = "[machine]"
    OLDER: ClassVar[Mapping[str, str]] = {"slice": "quantum"}

    vcpus: Optional[int] = None
    memory: Optional[Size] = None
    cpu_speed: Optional[str] = None
    name: Optional[str] = None
    command: list[str] = field(default_factory=list)
    #: Texts by name, for the command's environment and, as ``{{machine.NAME}}``, for templates.
    variables: Optional[dict[str, str]] = None
    #: What differs from a container image.
    container: Optional[Container] = _table("Container")
    wait: Optional[bool] = None
    count: Optional[int] = None
    guest_scheduler: Optional[str] = None
    coordinate: Optional[bool] = None
    drives: list[Drive] = _table("Drive", name="drive", many=True)
    disks: list[Disk] = _table("Disk", name="disk", many=True)
    kernel_command_line: Optional[str] = None
    log_level: Optional[int] = None
    quantum: Optional[str] = None
    schedule: Optional[str] = None
    threads: Optional[int] = None
    rewind: Optional[bool] = None
    random: Optional[bool] = None
    randomize: Optional[bool] = None
    boots_again: Optional[bool] = None


@dataclass
class Guest(Table):
    """The guest's system."""

    PLACE: ClassVar[str] = "[guest]"

    packages: list[str] = field(default_factory=list)
    #: Modules of the kernel beside those for storage.
    modules: list[str] = field(default_factory=list)
    #: A folder, a tar archive, a container image, a disk image, or ``"host"``, in place of packages.
    root: Optional[Union[str, Path]] = None
    #: A container image: a name that podman, docker or skopeo knows, or a path with ``./`` in front.
    image: Optional[str] = None
    kernel: Optional[str] = None
    suite: Optional[str] = None
    files: list[Union[str, Path]] = field(default_factory=list)
    #: Text files in which each machine has the values of its variables.
    templates: list[Union[str, Path]] = field(default_factory=list)
    stdin: Optional[Union[str, Path]] = None


@dataclass
class Serve(Table):
    """Settings of ``stasis serve``."""

    PLACE: ClassVar[str] = "[serve]"

    sockets: Optional[Union[str, Path]] = None
    poll: Optional[str] = None
    threads: Optional[int] = None
    control: Optional[Union[str, Path]] = None
    metrics: Optional[str] = None
    ublk: list[str] = field(default_factory=list)
    nvme_tcp: Optional[str] = None
    vfio_user: Optional[Union[str, Path]] = None
    hosts: list[str] = field(default_factory=list)
    #: Files with secrets, by the hosts' NVMe Qualified Names.
    host_secrets: dict[str, Union[str, Path]] = field(default_factory=dict)
    dh_groups: list[str] = field(default_factory=list)
    user: Optional[str] = None
    unconfined: Optional[bool] = None


@dataclass
class Workload(Table):
    """A workload of the host on a drive while the machines' commands run."""

    PLACE: ClassVar[str] = "[[workload]]"

    name: Optional[str] = None
    drive: Optional[str] = None
    pattern: Optional[str] = None
    job: Optional[str] = None
    job_file: Optional[Union[str, Path]] = None
    offset: Optional[Size] = None
    size: Optional[Size] = None
    weight: Optional[int] = None
    ioprio: Optional[str] = None
    group_weight: Optional[int] = None
    limits: Optional[Limits] = _table("Limits")


@dataclass
class Link(Table):
    """Links of a network whose conditions differ from the network's."""

    PLACE: ClassVar[str] = "[[network.link]]"

    from_: Optional[str] = field(default=None, metadata={"name": "from"})
    to: Optional[str] = None
    both_ways: Optional[bool] = None
    begin: Optional[str] = None
    end: Optional[str] = None
    bandwidth: Optional[str] = None
    queue: Optional[Size] = None
    delay: Optional[str] = None
    jitter: Optional[str] = None
    loss: Optional[float] = None
    duplicate: Optional[float] = None
    reorder: Optional[float] = None
    corrupt: Optional[float] = None
    red: Optional[Red] = _table("Red")


@dataclass
class Network(Table):
    """A network between several machines."""

    PLACE: ClassVar[str] = "[[network]]"

    name: Optional[str] = None
    machines: Optional[Sequence[str]] = None
    subnet: Optional[str] = None
    mtu: Optional[int] = None
    bandwidth: Optional[str] = None
    queue: Optional[Size] = None
    capture: Optional[Size] = None
    delay: Optional[str] = None
    jitter: Optional[str] = None
    loss: Optional[float] = None
    duplicate: Optional[float] = None
    reorder: Optional[float] = None
    corrupt: Optional[float] = None
    links: list[Link] = _table("Link", name="link", many=True)
    outside: list[Outside] = _table("Outside", many=True)
    red: Optional[Red] = _table("Red")


@dataclass
class Red(Table):
    """Random early detection: a queue that drops or marks frames before it is full."""

    PLACE: ClassVar[str] = "[network.red]"

    min: Optional[Size] = None
    max: Optional[Size] = None
    probability: Optional[float] = None
    weight: Optional[float] = None
    ecn: Optional[bool] = None


@dataclass
class Outside(Table):
    """A port of a network that leads out of the experiment."""

    PLACE: ClassVar[str] = "[[network.outside]]"

    name: Optional[str] = None
    socket: Optional[Union[str, Path]] = None


@dataclass
class Fault(Table):
    """A fault of a drive or a machine."""

    PLACE: ClassVar[str] = "[[fault]]"

    kind: Optional[str] = None
    name: Optional[str] = None
    drive: Optional[str] = None
    controller: Optional[int] = None
    namespace: Optional[int] = None
    size: Optional[Size] = None
    machine: Optional[str] = None
    at: Optional[str] = None
    at_io: Optional[str] = None
    at_packet: Optional[str] = None
    at_output: Optional[str] = None
    output_of: Optional[str] = None
    when: Optional[str] = None
    within: Optional[str] = None
    restart: Optional[str] = None
    leaves: Optional[str] = None
    loses: Optional[Sequence[int]] = None
    begin: Optional[str] = None
    end: Optional[str] = None
    rate: Optional[float] = None
    first: Optional[int] = None
    times: Optional[int] = None
    offset: Optional[Size] = None
    length: Optional[Size] = None
    operations: Optional[Sequence[str]] = None
    factor: Optional[float] = None
    delay: Optional[str] = None
    space: Optional[Size] = None
    process: Optional[str] = None
    memory: Optional[Size] = None
    by: Optional[str] = None
    ppm: Optional[int] = None
    machines: Optional[Sequence[str]] = None
    peers: Optional[Sequence[str]] = None
    network: Optional[str] = None
    one_way: Optional[bool] = None


@dataclass
class FaultSpace(Table):
    """Faults that can happen, of which the seed draws some."""

    PLACE: ClassVar[str] = "[fault-space]"

    draws: Optional[int] = None
    begin: Optional[str] = None
    within: Optional[str] = None
    shortest: Optional[str] = None
    longest: Optional[str] = None
    machines: Optional[Sequence[str]] = None
    drives: Optional[Sequence[str]] = None
    faults: list[Fault] = _table("Fault", name="fault", many=True)


@dataclass
class Explore(Table):
    """Failures that ``stasis explore`` looks for."""

    PLACE: ClassVar[str] = "[explore]"

    never: Optional[Sequence[str]] = None
    once: Optional[Sequence[str]] = None
    history: Optional[Sequence[str]] = None
    isolation: Optional[str] = None
    progress: Optional[str] = None


@dataclass
class Expectation(Table):
    """A threshold of the run, such as ``read.p99 < 1ms``."""

    PLACE: ClassVar[str] = "[[expect]]"

    that: str
    name: Optional[str] = None


@dataclass
class Experiment(Table):
    """An experiment: the command in the guest, the drives, the machine, and the limits."""

    PLACE: ClassVar[str] = "the experiment"

    command: list[str] = field(default_factory=list)
    drives: list[Drive] = _table("Drive", name="drive", many=True)
    engine: Optional[str] = None
    seed: Optional[int] = None
    check: Optional[str] = None
    results: Optional[Union[str, Path]] = None
    virtual_limit: Optional[str] = None
    wall_limit: Optional[str] = None
    check_limit: Optional[str] = None
    strict: Optional[bool] = None
    history: Optional[bool] = None
    machine: Optional[Union[Machine, list[Machine]]] = _table("Machine")
    guest: Optional[Guest] = _table("Guest")
    serve: Optional[Serve] = _table("Serve")
    workloads: list[Workload] = _table("Workload", name="workload", many=True)
    networks: list[Network] = _table("Network", name="network", many=True)
    faults: list[Fault] = _table("Fault", name="fault", many=True)
    fault_space: Optional[FaultSpace] = _table("FaultSpace")
    explore: Optional[Explore] = _table("Explore")
    expectations: list[Expectation] = _table("Expectation", name="expect", many=True)
    #: The folder that relative paths start from; the current one where it is ``None``.
    base: Optional[Path] = field(default=None, metadata={"private": True}, compare=False)

    @classmethod
    def read(cls, path: Union[str, Path]) -> Experiment:
        """Reads an experiment file at ``path``; its relative paths start at its folder.

        Raises ``ExperimentError`` with the place.
        """
        path = Path(path)
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
            experiment = cls.from_dict(values)
        except OSError as error:
            raise ExperimentError(f"cannot read {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, ExperimentError) as error:
            raise ExperimentError(f"{path}: {error}") from error
        experiment.base = path.resolve().parent
        return experiment

    def to_toml(self) -> str:
        """The experiment file's text."""
        return tomli_w.dumps(self.to_dict())


TABLES: dict[str, type[Table]] = {
    each.__name__: each
    for each in (
        Container,
        Disk,
        Drive,
        Expectation,
        Explore,
        Fault,
        FaultSpace,
        Guest,
        Health,
        KeyValue,
        Limits,
        Link,
        Machine,
        Metadata,
        Namespace,
        Network,
        Ocssd,
        Outside,
        Programs,
        Red,
        Serve,
        Workload,
        Zones,
        Zrwa,
    )
}
