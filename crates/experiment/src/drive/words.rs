//! `KEY=VALUE,...` as `--drive` takes it.

use stasis_block::units;
use stasis_clock::Nanos;
use stasis_media::{Durability, MediumSpec};
use stasis_models::ModelSpec;
use stasis_scheduler::SchedulerSpec;

use super::{default_block_size, default_namespaces, Doorbells, DriveSpec, Interface};
use crate::error::nearest;
use crate::layout::{PhysicalSpec, ZoneWords};
use crate::placement::PlacementSpec;

/// What was said so far.
struct Words {
    name: Option<String>,
    interface: Interface,
    model: Option<ModelSpec>,
    medium: Option<MediumSpec>,
    size: Option<u64>,
    durability: Option<Durability>,
    max_lag: Option<Nanos>,
    barrier: Option<Nanos>,
    delay: Nanos,
    queues: Option<u16>,
    doorbells: Doorbells,
    block_size: u64,
    namespaces: u32,
    placement: PlacementSpec,
    scheduler: Option<SchedulerSpec>,
    serial: Option<String>,
    path: Option<Nanos>,
    physical: Option<PhysicalSpec>,
    zones: ZoneWords,
}

/// Takes the value of a key.
type Take = fn(&mut Words, &str) -> Result<(), String>;

/// Every key, with what takes its value: help lists them from here.
static KEYS: [(&str, Take); 22] = [
    ("model", |words, value| put(&mut words.model, ModelSpec::parse(value))),
    ("medium", |words, value| put(&mut words.medium, MediumSpec::parse(value))),
    ("size", |words, value| put(&mut words.size, units::parse_size(value))),
    ("durability", |words, value| {
        words.durability = Some(durability(value)?);
        Ok(())
    }),
    ("max-lag", |words, value| put(&mut words.max_lag, units::parse_duration(value))),
    ("barrier", |words, value| put(&mut words.barrier, units::parse_duration(value))),
    ("delay", |words, value| {
        words.delay = units::parse_duration(value).map_err(|error| error.to_string())?;
        Ok(())
    }),
    ("name", |words, value| {
        words.name = Some(value.to_owned());
        Ok(())
    }),
    ("interface", |words, value| {
        words.interface = Interface::parse(value)?;
        Ok(())
    }),
    ("queues", |words, value| {
        let wrong = |_| format!("queues is `{value}`, but must be a number from 1 to 64");
        words.queues = Some(value.parse().map_err(wrong)?);
        Ok(())
    }),
    ("doorbells", |words, value| {
        words.doorbells = doorbells(value)?;
        Ok(())
    }),
    ("block-size", |words, value| {
        words.block_size = units::parse_size(value).map_err(|error| error.to_string())?;
        Ok(())
    }),
    ("namespaces", |words, value| {
        let wrong = |_| format!("namespaces is `{value}`, but must be a number from 1 to 128");
        words.namespaces = value.parse().map_err(wrong)?;
        Ok(())
    }),
    ("placement", |words, value| {
        words.placement = PlacementSpec::parse(value)?;
        Ok(())
    }),
    ("scheduler", |words, value| put(&mut words.scheduler, SchedulerSpec::parse(value))),
    ("serial", |words, value| {
        words.serial = Some(value.to_owned());
        Ok(())
    }),
    ("path", |words, value| put(&mut words.path, units::parse_duration(value))),
    ("physical", |words, value| put(&mut words.physical, PhysicalSpec::parse(value))),
    ("zone-size", |words, value| words.zones.size(value)),
    ("zone-capacity", |words, value| words.zones.capacity(value)),
    ("max-open-zones", |words, value| words.zones.max_open(value)),
    ("max-active-zones", |words, value| words.zones.max_active(value)),
];

/// The keys alone.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|(key, _)| *key)
}

fn put<T, E: ToString>(place: &mut Option<T>, value: Result<T, E>) -> Result<(), String> {
    *place = Some(value.map_err(|error| error.to_string())?);
    Ok(())
}

fn durability(value: &str) -> Result<Durability, String> {
    Durability::parse(value).ok_or_else(|| {
        let nearest = nearest(value, Durability::ALL.map(Durability::name).into_iter());
        format!(
            "durability is `{value}`, but must be flush, barrier or ordered; did you mean `{nearest}`?"
        )
    })
}

fn doorbells(value: &str) -> Result<Doorbells, String> {
    match value {
        "exact" => Ok(Doorbells::Exact),
        "lazy" => Ok(Doorbells::Lazy),
        _ => {
            let nearest = nearest(value, ["exact", "lazy"].into_iter());
            Err(format!(
                "doorbells is `{value}`, but must be exact or lazy; did you mean `{nearest}`?"
            ))
        }
    }
}

/// The drive that the words describe, or what is wrong with them.
pub(super) fn parse(text: &str) -> Result<DriveSpec, String> {
    let mut words = Words {
        name: None,
        interface: Interface::default(),
        model: None,
        medium: None,
        size: None,
        durability: None,
        max_lag: None,
        barrier: None,
        delay: 0,
        queues: None,
        doorbells: Doorbells::default(),
        block_size: default_block_size(),
        namespaces: default_namespaces(),
        placement: PlacementSpec::default(),
        scheduler: None,
        serial: None,
        path: None,
        physical: None,
        zones: ZoneWords::default(),
    };
    for pair in text.split(',') {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(format!(
                "`{pair}` is not KEY=VALUE; for example model=fixed:100us,medium=ram:1GiB"
            ));
        };
        let Some((_, take)) = KEYS.iter().find(|(name, _)| *name == key) else {
            let nearest = nearest(key, DriveSpec::keys());
            return Err(format!("unknown key `{key}`; did you mean `{nearest}`?"));
        };
        take(&mut words, value)?;
    }
    words.finish()
}

impl Words {
    fn finish(self) -> Result<DriveSpec, String> {
        let model = self.model.ok_or("model is missing; for example model=fixed:100us")?;
        let mut medium = self.medium.ok_or("medium is missing; for example medium=ram:1GiB")?;
        match &mut medium {
            MediumSpec::File { size, .. } | MediumSpec::Ordered { size, .. } => *size = self.size,
            _ if self.size.is_some() => {
                return Err(
                    "size is that of a new raw image; write medium=file:PATH, or medium=ram:SIZE"
                        .into(),
                )
            }
            _ => {}
        }
        match &mut medium {
            MediumSpec::Qcow2 { settings, .. } | MediumSpec::Ordered { settings, .. } => {
                settings.durability = self.durability.unwrap_or(settings.durability);
                settings.max_lag = self.max_lag.unwrap_or(settings.max_lag);
            }
            _ if self.durability.is_some() || self.max_lag.is_some() => {
                return Err(
                    "durability and max-lag are for images; write medium=qcow2:PATH or medium=ordered:PATH"
                        .into(),
                )
            }
            _ => {}
        }
        Ok(DriveSpec {
            barrier: self.barrier,
            name: self.name,
            interface: self.interface,
            model,
            medium,
            delay: self.delay,
            queues: self.queues,
            doorbells: self.doorbells,
            block_size: self.block_size,
            namespaces: self.namespaces,
            placement: self.placement,
            scheduler: self.scheduler,
            serial: self.serial,
            path: self.path,
            zones: self.zones.finish()?,
            physical: self.physical,
        })
    }
}
