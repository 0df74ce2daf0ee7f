//! The changes by which a run becomes another: which there can be, and what the machines make of them.

use anyhow::{bail, ensure, Context, Result};
use serde_json::Value;
use stasis_channel::{Branch, Call, Job};
use stasis_drive::{DriveFault, DriveFaultKind};

use crate::plan::{PlannedDrive, PlannedMachine, RunPlan};

/// Checks that a run of `base` can become one of `to` while it goes on.
///
/// # Errors
/// Names what it cannot become, and what the run must have for that.
pub fn check(base: &RunPlan, to: &RunPlan) -> Result<()> {
    for (machine, other) in base.machines.iter().zip(&to.machines) {
        check_machine(machine, other)?;
        for (drive, other) in machine.drives.iter().zip(&other.drives) {
            check_drive(drive, other, to.timeline).with_context(|| drive.name.clone())?;
        }
    }
    for (drive, other) in base.shared.iter().zip(&to.shared) {
        check_drive(drive, other, to.timeline).with_context(|| drive.name.clone())?;
        ensure!(
            other.faults.is_empty() || !drive.faults.is_empty(),
            "{}: a fault of a shared drive in a branch needs one of that drive in the run",
            drive.name
        );
    }
    ensure!(
        base.shared.len() == to.shared.len(),
        "a drive that has a scheduler, limits or a workload in a branch needs one in the run, be it \
         `scheduler = \"none\"`: without, nobody stands before it"
    );
    // All else must be the same.
    let (base, rest) = (table(base)?, table(&without_changes(base, to.clone()))?);
    match differing("", &base, &rest) {
        None => Ok(()),
        Some(path) => bail!("a branch cannot change {path}: the machines have begun with it"),
    }
}

/// The commands that begin in guests as a run of `base` becomes one of `to`, which call the agents so.
pub fn commands(base: &RunPlan, to: &RunPlan, call: Option<Call>) -> Vec<Branch> {
    let Some(call) = call else { return Vec::new() };
    let machines = base.machines.iter().zip(&to.machines).enumerate();
    let others = machines.filter(|(_, (one, other))| one.job.command != other.job.command);
    let branch = |(machine, (_, to)): (usize, (&PlannedMachine, &PlannedMachine))| {
        // The guest is set up already.
        let job = Job {
            environment: to.job.environment.clone(),
            working_directory: to.job.working_directory.clone(),
            container: to.job.container.clone(),
            prompt_output: to.job.prompt_output,
            ..Job::new(to.job.command.clone())
        };
        Branch { machine, job, call }
    };
    others.map(branch).collect()
}

fn table(plan: &RunPlan) -> Result<Value> {
    serde_json::to_value(plan).context("cannot write a plan")
}

/// `to` with all that can change as it is in `base`.
fn without_changes(base: &RunPlan, mut to: RunPlan) -> RunPlan {
    (to.seed, to.interleaving) = (base.seed, base.interleaving);
    to.virtual_limit = base.virtual_limit;
    (to.triggers, to.network_faults) = (base.triggers.clone(), base.network_faults.clone());
    let drive = |drive: &PlannedDrive, other: &mut PlannedDrive| {
        (other.faults, other.cuts) = (drive.faults.clone(), drive.cuts);
        other.spec.model = drive.spec.model.clone();
        other.spec.scheduler.clone_from(&drive.spec.scheduler);
        other.spec.limits = drive.spec.limits;
        if let (Some(one), Some(other)) = (&drive.on, &mut other.on) {
            other.tenant = one.tenant.clone();
        }
    };
    for (machine, other) in base.machines.iter().zip(&mut to.machines) {
        (other.pauses, other.failures) = (machine.pauses.clone(), machine.failures.clone());
        other.guest_faults = machine.guest_faults.clone();
        let (job, own) = (&mut other.job, &machine.job);
        (job.seed, job.prompt_output) = (own.seed, own.prompt_output);
        job.command.clone_from(&own.command);
        other.spec.command.clone_from(&machine.spec.command);
        // The planned drives are compared in their place.
        other.spec.drives.clone_from(&machine.spec.drives);
        other.spec.disks.clone_from(&machine.spec.disks);
        (job.asks, job.ordered) = (own.asks, own.ordered);
        other.spec.kernel_command_line.clone_from(&machine.spec.kernel_command_line);
        machine.drives.iter().zip(&mut other.drives).for_each(|(one, other)| drive(one, other));
    }
    base.shared.iter().zip(&mut to.shared).for_each(|(one, other)| drive(one, other));
    for (load, other) in base.workloads.iter().zip(&mut to.workloads) {
        other.place.tenant = load.place.tenant.clone();
        other.group_weight = load.group_weight;
    }
    to
}

/// The path of the first value that differs.
fn differing(path: &str, one: &Value, other: &Value) -> Option<String> {
    let below = |key: &dyn std::fmt::Display| format!("{path}/{key}");
    match (one, other) {
        (one, other) if one == other => None,
        (Value::Object(one), Value::Object(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().map(|(key, value)| (key, value, other.get(key)));
            pairs.find_map(|(key, value, other)| match other {
                Some(other) => differing(&below(key), value, other),
                None => Some(below(key)),
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.find_map(|(index, (one, other))| differing(&below(&index), one, other))
        }
        _ => Some(path.to_owned()),
    }
}

fn check_machine(base: &PlannedMachine, to: &PlannedMachine) -> Result<()> {
    for (needs, has, kind, why) in [
        (to.job.asks, base.job.asks, "with `when = \"asked\"`", "its guests have no way to ask"),
        (to.job.ordered, base.job.ordered, "inside a guest", "its agent does not look for them"),
        (
            to.spec.kernel_command_line != base.spec.kernel_command_line,
            false,
            "`panic`",
            "its kernel takes no such interrupt",
        ),
    ] {
        ensure!(
            !needs || has,
            "a fault {kind} in a branch needs one in the run, be it one that never comes: without, \
             {why}"
        );
    }
    Ok(())
}

fn check_drive(base: &PlannedDrive, to: &PlannedDrive, timeline: bool) -> Result<()> {
    ensure!(
        to.cuts <= base.cuts,
        "as many power cuts in a branch as in the run at most ({}), be they ones that never come: \
         from its start on a drive keeps what a cut can take",
        base.cuts
    );
    let has = |drive: &PlannedDrive, kind| drive.faults.iter().any(|fault| fault.kind == kind);
    let gone = |drive: &PlannedDrive| -> Vec<DriveFault> {
        let gone = drive.faults.iter().filter(|fault| fault.kind == DriveFaultKind::Gone);
        gone.cloned().collect()
    };
    let leaves = |fault: &DriveFault| {
        let is_of_controller =
            |other: &DriveFault| other.controller.is_none_or(|one| Some(one) == fault.controller);
        gone(base).iter().any(is_of_controller)
    };
    ensure!(
        gone(to).iter().all(leaves),
        "a fault `gone` in a branch needs one of this path in the run, be it one that never comes: \
         without, its slot is not made for that"
    );
    for (kind, why) in [
        (DriveFaultKind::Full, "nobody has counted what is taken"),
        (DriveFaultKind::StaleRead, "nobody keeps what was there before"),
    ] {
        ensure!(
            !has(to, kind) || has(base, kind),
            "a fault `{}` in a branch needs one of this drive in the run, be it one that never \
             comes: without, {why}",
            kind.name()
        );
    }
    ensure!(
        to.faults.is_empty() || !base.faults.is_empty() || to.links.is_empty(),
        "it is an image: a fault in a branch needs one of this drive in the run"
    );
    let change =
        base.spec.model.change(&to.spec.model, base.capacity).map_err(anyhow::Error::msg)?;
    ensure!(
        change != Some(stasis_models::ModelChange::Replaces) || !timeline,
        "a model that takes another's place has no tracks in a timeline: leave --timeline out"
    );
    Ok(())
}
