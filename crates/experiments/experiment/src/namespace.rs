//! A namespace of an NVMe drive, as a `[[drive.namespace]]` table describes it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::units;
use stasis_config::Mistake;
use stasis_nvme::{EnduranceGroup, KeyValue, OptionalKind, Placement, Zones};

/// A namespace of a drive whose namespaces are not all alike.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NamespaceSpec {
    /// Size in bytes, of which whole units of 4096 bytes are used, or whole zones. By default an equal
    /// part of what the others leave of the drive.
    #[serde(default, with = "units::size_option")]
    pub size: Option<u64>,
    /// Logical block size in bytes: 512, 4096 or 16384. By default the drive's.
    #[serde(default, with = "units::size_option")]
    pub block_size: Option<u64>,
    /// Zones, for a namespace of the Zoned Namespace command set.
    #[serde(default)]
    pub zones: Option<Zones>,
    /// Pairs of keys and values in place of blocks, for one of the Key Value command set.
    #[serde(default)]
    pub key_value: Option<KeyValue>,
    /// Its endurance group, 1 to 65534, which has flash of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65534))]
    pub endurance_group: Option<u16>,
    /// Its NVM set, 1 to 65534: a part of its endurance group with flash of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65534))]
    pub nvm_set: Option<u16>,
    /// Data placement of its endurance group: Flexible Data Placement, or none. By default the
    /// drive's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}

/// Unit of the places and sizes of namespaces (bytes).
pub(crate) const STEP: u64 = 4096;

impl NamespaceSpec {
    /// Checks values and combinations that serde does not.
    pub(crate) fn check(&self) -> Result<(), Mistake> {
        if let Some(size) = self.block_size.filter(|size| !matches!(size, 512 | 4096 | 16384)) {
            let message = format!("block-size is {size}, but must be 512, 4096 or 16384");
            return Err(Mistake::at("block-size", message));
        }
        let built = OptionalKind::KEY_VALUE.check(self.key_value.is_some());
        built.map_err(|absent| Mistake::at("key-value", absent.to_string()))?;
        if self.zones.is_some() && self.key_value.is_some() {
            let message = "zones and key-value exclude each other; leave one";
            return Err(Mistake::at("key-value", message));
        }
        if self.endurance_group.is_none() {
            for (is_set, key) in
                [(self.nvm_set.is_some(), "nvm-set"), (self.placement.is_some(), "placement")]
            {
                if is_set {
                    let message =
                        format!("{key} is of an endurance group: say endurance-group too");
                    return Err(Mistake::at(key, message));
                }
            }
        }
        if matches!(self.placement, Some(Placement::Streams { .. })) {
            let message = "placement is streams, which are of the drive: say fdp:8x64MiB, say";
            return Err(Mistake::at("placement", message));
        }
        Ok(())
    }

    /// Returns the number of `bytes` bytes that it uses.
    fn whole(&self, bytes: u64) -> u64 {
        let step = self.zones.as_ref().map_or(STEP, |zones| zones.size.max(1));
        bytes / step * step
    }
}

/// The endurance groups of such namespaces, in the order of their first ones, of a drive with this
/// placement: none if none is in a group.
///
/// # Errors
/// Namespaces of a group say different things of its placement.
pub fn endurance_groups(
    namespaces: &[NamespaceSpec],
    placement: Placement,
) -> Result<Vec<EnduranceGroup>, Mistake> {
    let mut groups: Vec<(u16, Option<Placement>)> = Vec::new();
    for (number, one) in namespaces.iter().enumerate() {
        let Some(id) = one.endurance_group else { continue };
        let Some((_, known)) = groups.iter_mut().find(|(other, _)| *other == id) else {
            groups.push((id, one.placement));
            continue;
        };
        match (*known, one.placement) {
            (Some(known), Some(other)) if known != other => {
                let message = format!(
                    "namespaces of endurance group {id} have different placements: say one"
                );
                return Err(Mistake::at("placement", message).inside(number).inside("namespace"));
            }
            (None, other) => *known = other,
            _ => {}
        }
    }
    let of_drive = match placement {
        Placement::Fdp { .. } => placement,
        _ => Placement::None,
    };
    let group = |(id, own): (u16, Option<Placement>)| EnduranceGroup {
        id,
        placement: own.unwrap_or(of_drive),
    };
    Ok(groups.into_iter().map(group).collect())
}

/// First byte and length of each namespace on a drive of `capacity` bytes.
///
/// # Errors
/// The namespaces have no room there.
pub fn places(namespaces: &[NamespaceSpec], capacity: u64) -> Result<Vec<(u64, u64)>, String> {
    let named = namespaces.iter().filter_map(|one| one.size);
    let taken = named.clone().try_fold(0u64, u64::checked_add).filter(|&taken| taken <= capacity);
    let Some(taken) = taken else {
        return Err(format!(
            "its namespaces are larger than its medium of {}: give them smaller sizes",
            units::format_size(capacity)
        ));
    };
    let open = (namespaces.len() - named.count()) as u64;
    let each = (capacity - taken).checked_div(open).unwrap_or(0);
    let mut start = 0;
    let place = |(number, one): (usize, &NamespaceSpec)| {
        let bytes = one.whole(one.size.unwrap_or(each) / STEP * STEP);
        if bytes == 0 {
            let least = one.zones.as_ref().map_or(STEP, |zones| zones.size);
            return Err(format!(
                "namespace[{number}] has less than {least} bytes of the medium's {capacity}: give it \
                 more, or the others less"
            ));
        }
        let place = (start, bytes);
        start += bytes.next_multiple_of(STEP);
        Ok(place)
    };
    namespaces.iter().enumerate().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_share_what_is_left() {
        let sized = |size| NamespaceSpec { size, ..NamespaceSpec::default() };
        let zoned = NamespaceSpec { zones: Some(Zones::new(1 << 20)), ..sized(None) };
        let list = [sized(Some(10_000)), sized(None), zoned.clone()];
        let all = places(&list, 8 << 20).unwrap();
        // The rest is some 4189304 bytes for each of the two.
        assert_eq!(all, [(0, 8192), (8192, 4_186_112), (4_194_304, 3 << 20)]);
        assert_eq!(places(&[sized(Some(8192))], 8192), Ok(vec![(0, 8192)]));
        let text = |list: &[NamespaceSpec], capacity| places(list, capacity).unwrap_err();
        assert!(text(&[sized(Some(8193))], 8192).contains("larger than its medium of 8KiB"));
        assert!(text(&[sized(Some(u64::MAX)), sized(Some(1))], 8192).contains("larger"));
        assert!(text(&[sized(Some(8192)), sized(None)], 8192)
            .contains("namespace[1] has less than 4096"));
        assert!(text(&[zoned], 8192).contains("namespace[0] has less than 1048576 bytes"));
    }
}
