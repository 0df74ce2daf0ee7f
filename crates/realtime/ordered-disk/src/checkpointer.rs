//! The thread that checkpoints the log to the disk's own file, and the end of it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::checkpoint::{Checkpoint, Stage};
use crate::host::HostFile;
use crate::shared::{Guard, Shared};
use crate::state::CheckpointPlan;
use crate::superblock::Superblock;
use crate::DiskError;

/// Part of the log that is checkpointed at once (bytes): enough for data that is written again
/// and again to be checkpointed once, little enough that a full log has room soon.
const PART: u64 = 64 << 20;

/// After this time without a write the log is emptied, so that the next opening
/// has little to do.
const IDLE: Duration = Duration::from_secs(2);

/// Extents that are forgotten without letting others at the disk.
const FORGET: usize = 256;

/// Carries where the log is half full or nobody writes, until the disk is
/// closed. `last_end`: end of the log before this thread began.
pub(crate) fn run<L: HostFile, D: HostFile>(shared: &Shared<L, D>, mut last_end: u64) {
    let mut inner = shared.lock();
    while !inner.stopping {
        let pressed = inner.state.used() > shared.ring / 2 || inner.waiting;
        let idle = inner.state.used() > 0 && inner.state.end() == last_end;
        let retry = inner.failure.is_none() || inner.waiting;
        if inner.lost.is_none() && (pressed || idle) && retry {
            (inner, last_end) = pass(shared, inner, pressed);
            if inner.failure.is_none() && pressed {
                continue;
            }
        }
        last_end = inner.state.end();
        let waited = shared.checkpoint.wait_timeout_while(inner, IDLE, |inner| {
            let pressed = inner.state.used() > shared.ring / 2 && inner.failure.is_none();
            !inner.stopping && (inner.lost.is_some() || !(pressed || inner.waiting))
        });
        let timed_out;
        (inner, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
        if timed_out.timed_out() {
            // One more try may succeed.
            inner.failure = None;
        }
    }
    // Nobody is to wait for a thread that has ended.
    shared.room.notify_all();
}

fn pass<'a, L: HostFile, D: HostFile>(
    shared: &'a Shared<L, D>,
    mut inner: Guard<'a>,
    pressed: bool,
) -> (Guard<'a>, u64) {
    let end = inner.state.end();
    if pressed && inner.state.boundary() == inner.state.tail() {
        inner.state.forced_orders += 1;
        inner.state.order(shared.now());
    }
    let boundary = inner.state.boundary();
    let little = inner.state.whole() - inner.state.tail() < PART;
    if inner.state.whole() < boundary && little {
        inner = shared.sync_once(inner);
    }
    let part = PART.min(shared.ring / 4);
    let Some(plan) = inner.state.plan(part) else { return (inner, end) };
    drop(inner);
    let result = checkpoint(shared, plan);
    let mut inner = shared.lock();
    inner.waiting = false;
    match result {
        Ok(()) => inner.failure = None,
        Err(error) => {
            inner.failures += 1;
            inner.failure = Some(error);
        }
    }
    shared.room.notify_all();
    (inner, end)
}

fn checkpoint<L: HostFile, D: HostFile>(
    shared: &Shared<L, D>,
    plan: CheckpointPlan,
) -> Result<(), DiskError> {
    let mut checkpoint = Checkpoint::new(plan);
    while checkpoint.stage() != Stage::Done {
        let stage = checkpoint.stage();
        if stage == Stage::Forget {
            for extents in checkpoint.plan().extents.chunks(FORGET) {
                shared.lock().state.forget(checkpoint.plan(), extents);
            }
        }
        checkpoint.step(&shared.log, &shared.disk).map_err(|source| {
            let (path, action) = match stage {
                Stage::WriteSuperblock | Stage::SyncLog => {
                    (&shared.log_name, "writing its superblock")
                }
                Stage::SyncDisk => (&shared.disk_name, "making it durable"),
                _ => (&shared.disk_name, "writing it"),
            };
            DiskError::Host { path: path.clone(), action, source: Arc::new(source) }
        })?;
    }
    let bytes = checkpoint.plan().extents.iter().map(|extent| extent.length).sum();
    shared.checkpointed_bytes.fetch_add(bytes, Relaxed);
    shared.lock().state.freed(checkpoint.plan());
    Ok(())
}

/// Empties the log and records this in its superblock.
pub(crate) fn close<L: HostFile, D: HostFile>(shared: &Shared<L, D>) -> Result<(), DiskError> {
    let mut inner = shared.lock();
    let target = inner.state.order(shared.now());
    inner = shared.sync_until(inner, target)?;
    while let Some(plan) = inner.state.plan(u64::MAX) {
        drop(inner);
        checkpoint(shared, plan)?;
        inner = shared.lock();
    }
    let superblock = Superblock {
        generation: inner.state.superblock().generation + 1,
        clean: true,
        ..*inner.state.superblock()
    };
    let written = shared.log.write(superblock.place(), &[&superblock.encode()]);
    let result = written.and_then(|()| shared.log.sync());
    result.map_err(|source| shared.log_error("writing its superblock", source))
}
