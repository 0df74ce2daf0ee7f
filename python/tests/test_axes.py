"""Which points a study has, without running any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stasis
from stasis import Study, StudyError
from stasis._toml import tomllib
from stasis.study.axes import flattened, values_of
from stasis.study.points import points_with_keys
from stasis.study.where import Condition

SIMULATE = {"model": "flash-tlc", "workload": "job.fio"}


def study(**options: Any) -> Study:
    return Study("s", simulate=options.pop("simulate", SIMULATE), **options)


@pytest.mark.parametrize(
    ("said", "values"),
    [
        ("1..4", [1, 2, 3, 4]),
        ("0..10..5", [0, 5, 10]),
        ("0..0.3..0.1", [0.0, 0.1, 0.2, 0.3]),
        (["a", "2..3", True], ["a", 2, 3, True]),
        (range(2), [0, 1]),
        (7, [7]),
        ("greedy", ["greedy"]),
    ],
)
def test_values_of_an_axis(said: Any, values: list[Any]) -> None:
    assert values_of("x", said, Path()) == values


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ([], "no values"),
        ("4..1", r"4\.\.1, which ends before it begins; write FIRST..LAST"),
        ("1..9..0", "has the step 0; write FIRST..LAST"),
        ("1..99999999999", "has more than 1,000,000 values"),
        ([1, 2, 1], "value 1 twice"),
        ([1, "1"], "value '1' twice"),
        ({"files": "none/*.fio"}, r"`none/\*.fio`, but there is none"),
    ],
)
def test_values_that_are_wrong(said: Any, message: str) -> None:
    with pytest.raises(StudyError, match=rf"the axis `x`.*{message}"):
        values_of("x", said, Path())


def test_files_are_values(here: Path) -> None:
    for name in ("b.fio", "a.fio"):
        (here / "jobs").mkdir(exist_ok=True)
        (here / "jobs" / name).touch()
    assert values_of("x", {"files": "jobs/*.fio"}, here) == ["jobs/a.fio", "jobs/b.fio"]
    assert values_of("x", {"files": [str(here / "jobs" / "*.fio")]}, Path()) == [f"{here}/jobs/{n}.fio" for n in "ab"]


def test_dotted_keys_of_toml_are_one_axis() -> None:
    axes = tomllib.loads('drive.ssd.model.gc.policy = ["a"]\nseed = "1..2"\nx = { files = "*" }')
    assert flattened(axes) == {"drive.ssd.model.gc.policy": ["a"], "seed": "1..2", "x": {"files": "*"}}


def test_points_are_the_grid_with_each_listed_point(here: Path) -> None:
    (here / "points.csv").write_text("size,block-size\n1GiB,512\n2GiB,4096\n")
    found = study(axes={"seed": "1..2"}, points="points.csv").values()
    assert found[1] == {"size": "1GiB", "block-size": 512, "seed": 2}
    assert len(found) == 4
    assert len(study(axes={"seed": "1..2"}, points=[{"model": {"gc": {"policy": "greedy"}}}]).values()) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed\n", "no points"),
        ("seed,seed\n1,2\n", "has the key `seed` twice"),
        ("seed,\n1,2\n", "has an empty key"),
        ("seed,size\n1\n", "row 2 has 1 of the 2 values"),
        ("seed,size\n1,1GiB\n1,1GiB\n", "point 2 is point 1 again"),
    ],
)
def test_a_csv_of_points_that_is_wrong(here: Path, text: str, message: str) -> None:
    (here / "points.csv").write_text(text)
    with pytest.raises(StudyError, match=rf"points\.csv.*{message}"):
        study(points="points.csv").values()


def test_points_that_contradict_each_other(here: Path) -> None:
    with pytest.raises(StudyError, match=r"`seed` is 1 in the points, and one of \[2, 3\] by the axis `seed`"):
        study(axes={"seed": "2..3"}, points=[{"seed": 1}]).values()
    with pytest.raises(StudyError, match="point 2 and point 1 do not both have `s"):
        study(points=[{"seed": 1}, {"size": "1GiB"}]).values()
    with pytest.raises(StudyError, match="lists no points"):
        study(points=[]).values()
    drives = [stasis.Drive("null", "ram:1MiB", name="ssd")]
    twice = Study(
        "s",
        experiment=stasis.Experiment(drives=drives),
        axes={"drive.ssd.queues": [1], "drive.0.queues": [2]},
    )
    with pytest.raises(StudyError, match=r"`drive\.ssd\.queues` and `drive\.0\.queues` set the same"):
        twice.contradictions(twice.values()[0])


def test_two_points_that_ask_the_same_are_refused(here: Path, program: Path) -> None:
    same = study(axes={"size": ["1GiB"], "variable.UNUSED": [1, 2]})
    assert len(points_with_keys(same, program)) == 2
    (here / "copy.fio").write_text((here / "job.fio").read_text())
    (here / "a").mkdir()
    (here / "a" / "job.fio").write_text((here / "job.fio").read_text())
    with pytest.raises(StudyError, match=r"ask the same: workload = job\.fio, and workload = a/job\.fio"):
        points_with_keys(study(axes={"workload": ["job.fio", "a/job.fio"]}), program)


def test_where_leaves_points_out() -> None:
    axes = {"seed": "1..4", "model.gc.policy": ["greedy", "cost-benefit"], "block-size": [512, 4096]}
    found = study(axes=axes, where="seed % 2 == 0 and policy == 'greedy' and not block_size > 512").values()
    assert [point["seed"] for point in found] == [2, 4]
    assert Condition("1 < seed <= 3 or model.gc.policy in ['a', 'b']", list(axes))({"seed": 9, "model.gc.policy": "b"})


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("sed < 3", "names `sed`, which is no axis; did you mean `seed`"),
        ("seed <", "cannot be read"),
        ("__import__('os').system('true')", "cannot have"),
        ("seed.real", "no axis"),
        ("[x for x in (1, 2)]", "cannot have"),
        ("seed < 'a'", "does not fit the point"),
        ("seed > 100", "leaves no point"),
    ],
)
def test_a_condition_that_is_wrong(where: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        study(axes={"seed": "1..3"}, where=where).values()


def test_values_reach_their_place() -> None:
    experiment = stasis.Experiment(
        command=["fio", "--iodepth=${DEPTH}", "${HOME}"],
        drives=[stasis.Drive("flash-tlc", "ram:1GiB", name="ssd"), stasis.Drive("null", "ram:1GiB")],
    )
    made = Study("s", experiment=experiment).job(
        {
            "machine.vcpus": 4,
            "machine.cpu-speed": "3GHz",
            "guest.kernel": "k",
            "drive.ssd.model.gc.policy": "greedy",
            "drive.drive1.model": "jpt39c",
            "drive.1.zones.size": "1MiB",
            "variable.DEPTH": 8,
        }
    )
    assert made["machine"] == {"vcpus": 4, "cpu-speed": "3GHz"}
    assert made["drive"][0]["model"] == {"base": "flash-tlc", "gc": {"policy": "greedy"}}
    assert made["drive"][1]["model"] == "jpt39c"
    assert made["drive"][1]["zones"] == {"size": "1MiB"}
    # The experiment itself is as it was.
    assert experiment.machine is None
    from stasis.study.jobs import with_variables

    assert with_variables(made)["command"] == ["fio", "--iodepth=8", "${HOME}"]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("machine.vcpu", "did you mean `vcpus`"),
        ("sed", "did you mean `seed`"),
        ("drive.disk.model", "there is no drive `disk`; there is `ssd`, `drive1`"),
        ("drive.2.model", "there is no drive `2`"),
        ("drive.ssd.medium.ram.size", "`medium.ram` is '1GiB'"),
        ("drive.ssd", "name a key in it"),
        ("seed.x", "has no `x` in it"),
        ("results", "no key `results`"),
        ("variable", "variable.NAME"),
    ],
)
def test_an_axis_that_names_no_key(key: str, message: str) -> None:
    drives = [stasis.Drive("null", {"ram": "1GiB"}, name="ssd"), stasis.Drive("null", "ram:1GiB")]
    made = Study("s", experiment=stasis.Experiment(drives=drives))
    with pytest.raises(StudyError, match=rf"the axis `{key}`: .*{message}"):
        made.job({key: 1})


def test_a_key_is_the_hash_of_all_that_decides(here: Path, program: Path, tmp_path: Path) -> None:
    def keys(where: Path = here, **options: Any) -> list[str]:
        made = Study("s", simulate=options.pop("simulate", SIMULATE), axes={"seed": "1..2"}, base=where, **options)
        return [point.key for point in points_with_keys(made, options.get("program", program))]

    first = keys()
    assert len(set(first)) == 2
    assert keys() == first
    # Where files are does not count, what is in them does.
    (here / "elsewhere").mkdir()
    (here / "elsewhere" / "job.fio").write_text((here / "job.fio").read_text())
    assert keys(here / "elsewhere") == first
    (here / "elsewhere" / "job.fio").write_text((here / "job.fio").read_text() + "# more\n")
    assert keys(here / "elsewhere") != first
    assert keys(ios="parquet") != first
    assert keys(simulate={**SIMULATE, "size": "1GiB"}) != first
    other = here / "other-program"
    other.write_bytes(b"other")
    made = Study("s", simulate=SIMULATE, axes={"seed": "1..2"}, base=here)
    assert [point.key for point in points_with_keys(made, other)] != first


def test_a_study_file_that_is_wrong(here: Path) -> None:
    for text, message in [
        ("[axis]\n", r"s\.toml: a study has no key `axis`; did you mean `axes`"),
        ("", r"s\.toml: .*either an `experiment` or a `simulate`"),
        ("[simulate]\nmodle = 'null'\n", r"s\.toml: \[simulate\] has no key `modle`; did you mean `model`"),
        ("ios = 'csv'\n[simulate]\n", r"s\.toml: ios is 'csv'"),
        ("name = 3\n[simulate]\n", r"s\.toml: `name` is 3; write a text"),
        ("axes = 3\n[simulate]\n", r"s\.toml: `axes` is 3; write a table"),
        ("simulate = 3\n", r"s\.toml: `simulate` is 3"),
        ("experiment = 3\n", r"s\.toml: `experiment` is 3"),
        ("where = true\n[simulate]\n", r"s\.toml: `where` is True; write a condition"),
        ("memory = true\n[simulate]\n", r"s\.toml: `memory` is True"),
        ("report = 'yes'\n[simulate]\n", r"s\.toml: `report` is 'yes'; write true or false"),
        ("points = 3\n[simulate]\n", r"s\.toml: `points` is 3"),
        ("points = [{seed = 1}, 3]\n[simulate]\n", r"s\.toml: `points` lists 3; each point is a table"),
        ("[simulate]\nwhere = 'x'\n", r"s\.toml: `where` is a key of the study, not of \[simulate\]: write it above"),
        ("experiment = 'none.toml'\n", r"s\.toml: cannot read .*none\.toml"),
        ("[", r"s\.toml: "),
    ]:
        (here / "s.toml").write_text(text)
        with pytest.raises(StudyError, match=message):
            Study.read("s.toml")
    with pytest.raises(StudyError, match=r"cannot read no\.toml"):
        Study.read("no.toml")
    with pytest.raises(StudyError, match="`where` is a key of the study, and no axis"):
        study(axes={"seed": [1], "where": "seed > 0"}).values()
    with pytest.raises(StudyError, match=r"cannot read the points in .*no\.csv: No such file"):
        study(points="no.csv").values()


def test_inputs_that_are_missing_are_named(here: Path, program: Path) -> None:
    with pytest.raises(StudyError, match=r"cannot read .*none\.fio"):
        points_with_keys(study(simulate={"model": "null", "workload": "none.fio"}), program)
    with pytest.raises(StudyError, match=r"no `model`"):
        points_with_keys(study(simulate={"workload": "job.fio"}), program)
    with pytest.raises(StudyError, match="memory is 'much'"):
        points_with_keys(study(memory="much"), program)
