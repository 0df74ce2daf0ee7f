//! The named flash SSDs.

use serde_json::{json, Value};
use stasis_flash::Spec;

use super::model::{sold_as, NamedModel};
use crate::kinds::ModelKind;
use stasis_block::Link;

/// Makes the model of the table that an experiment would write.
fn ssd(table: Value) -> ModelKind {
    // A test reads every table.
    ModelKind::of(stasis_config::read::<Spec>(table).unwrap_or_default())
}

/// A drive without a fixed size.
const ANY_SIZE: &str = "blocks are as many as the drive's size and 7 % over-provisioning need";

/// Every flash SSD with a name.
pub(super) const FLASH: [NamedModel; 8] = [
    NamedModel {
        name: "flash-tlc",
        summary: "a TLC drive of today's kind: 8 channels, 32 LUNs, write buffer",
        figures: &[
            ("channels x LUNs x planes", "8 x 4 x 2"),
            ("page", "16 KiB, mapped in units of 4 KiB"),
        ],
        link: None,
        capacity: None,
        year: None,
        source: "times of the cells: SimpleSSD's TLC, see `cells` in docs/reference/models.md",
        assumptions: ANY_SIZE,
        ends: "all cells are TLC: no part of them is an SLC cache",
        make: || ssd(json!({})),
    },
    NamedModel {
        name: "femu-ocssd",
        summary: "the OpenChannel SSD (CNEX) that FEMU's advanced model stands for",
        figures: &[
            ("page types", "LLLLLuLLu(LLuu)*, 512 pages"),
            ("read, lower and upper page", "48 and 64 us"),
            ("program, lower and upper page", "900 and 2400 us"),
            ("erase", "3 ms"),
            ("channel, 16 KiB", "52.4 us"),
        ],
        link: None,
        capacity: None,
        year: Some(2018),
        source: "Li et al., \"The CASE of FEMU\", FAST 2018, section 3.2.3 (cells); FEMU's \
                 emulator (channel, erase); Bjorling et al., \"LightNVM\", FAST 2017, table 1 \
                 (16 channels of 8 LUNs of 4 planes, 16 KiB pages)",
        assumptions: "16 KiB at 312.5 MB/s take the 52.4 us; the mapping is the drive's own, page \
                      by page, writes go through; blocks are as many as the size needs",
        ends: "the chip level: the host's own FTL is not part of it",
        make: || {
            ssd(json!({
                "channels": 16, "luns": 8, "planes": 4, "pages": 512, "page_size": "16KiB",
                "oob_size": "64B", "cells": "LLLLLuLLu(LLuu)*", "registers": 2,
                "mapping_unit": "16KiB", "buffer": "0", "controller": "0ns",
                "timing": {
                    "read": { "L": "48us", "u": "64us" },
                    "program": { "L": "900us", "u": "2400us" },
                    "erase": "3ms", "bus": "312.5MB/s",
                },
            }))
        },
    },
    NamedModel {
        name: "femu-basic",
        summary: "FEMU's black-box drive: one register, one time for all pages",
        figures: &[("channels x LUNs", "8 x 8"), ("read, program, erase", "40 us, 200 us, 2 ms")],
        link: None,
        capacity: None,
        year: Some(2018),
        source: "Li et al., \"The CASE of FEMU\", FAST 2018, section 3.2.2 (form); FEMU's \
                 emulator, its usual settings of a black-box drive (figures)",
        assumptions: "the channel takes no time, as there; blocks are as many as the size needs",
        ends: "transfers take no time, so more than one command at a time is bounded by the LUNs alone",
        make: || {
            ssd(json!({
                "channels": 8, "luns": 8, "planes": 1, "pages": 256, "page_size": "4KiB",
                "oob_size": "16B", "cells": "slc", "registers": 1,
                "mapping_unit": "4KiB", "buffer": "0", "controller": "0ns",
                "timing": { "read": "40us", "program": "200us", "erase": "2ms", "bus": "1000GB/s" },
                "gc": { "blocking": "channel" },
            }))
        },
    },
    NamedModel {
        name: "mqsim-mlc",
        summary: "the MLC drive of MQSim's usual settings",
        figures: &[
            ("channels x chips x dies x planes", "8 x 4 x 2 x 2"),
            ("read, program, erase", "75 us, 750 us, 3.8 ms"),
            ("channel", "333 MB/s"),
        ],
        link: None,
        capacity: None,
        year: Some(2018),
        source: "MQSim (Tavakkol et al., FAST 2018), its ssdconfig.xml",
        assumptions: "a chip of 2 dies of 2 planes is one LUN that does one operation at a time, as MQSim's \
                      scheduler sends a chip one command and the next when it is idle and no data waits for its \
                      channel; whole pages are mapped, and a write of a part of one programs a page; the map is in \
                      memory (Ideal_Mapping_Table; `ftl = \"dftl\"` keeps it in flash); nothing is suspended \
                      (CMD_Suspension_Support is ERASE alone); 1 MiB of buffer, a page of each plane, which MQSim has \
                      on its way to flash at most (its cache of 256 MiB holds what is written again and again); \
                      memory and PCIe as its formulas have them for 4 and 8 KiB",
        ends: "against MQSim's program (the test `mqsim` has the figures) reads of 4 to 64 KiB are within 2 % and \
               writes of 4 and 8 KiB within 1 % up to queue depth 64, half reads and half writes 0 to 4 % below it: \
               MQSim programs while data enter the memory, and transfers a part of a page; of longer writes its formula \
               of the memory counts half (16 KiB as 8); what is written again and again goes to the cells here",
        make: || {
            ssd(json!({
                "channels": 8, "luns": 4, "planes": 4, "pages": 256, "page_size": "8KiB",
                "plane_mode": "lockstep",
                "oob_size": "448B", "cells": "mlc", "registers": 1,
                "mapping_unit": "8KiB", "buffer": "1MiB", "buffer_rate": "199750kB/s",
                "interface_rate": "3282MB/s", "controller": "58ns",
                "suspensions": 0, "scheduling": "read-first", "channel_order": "data-first",
                "timing": { "read": "75us", "program": "750us", "erase": "3800us", "bus": "333MB/s",
                            "command": "290ns" },
            }))
        },
    },
    NamedModel {
        name: "samsung-970-evo-250gb",
        summary: "Samsung 970 EVO 250 GB, NVMe, TLC, from its cells up with its SLC cache",
        figures: &[
            ("sequential read", "3400 MB/s"),
            ("sequential write", "1500 MB/s"),
            ("sequential write, cache full", "300 MB/s"),
            ("SLC cache, empty drive", "13 GB"),
        ],
        link: Link::new(3, 4),
        capacity: sold_as(250),
        year: Some(2018),
        source: SOURCE_970_EVO,
        assumptions: EVO_970,
        ends: EMPTY_DRIVE,
        make: || evo_970(1, "1500MB/s", [4.0 / 250.0, 9.0 / 250.0]),
    },
    NamedModel {
        name: "samsung-970-evo-500gb",
        summary: "Samsung 970 EVO 500 GB, NVMe, TLC, from its cells up with its SLC cache",
        figures: &[
            ("sequential read", "3400 MB/s"),
            ("sequential write", "2300 MB/s"),
            ("sequential write, cache full", "600 MB/s"),
            ("SLC cache, empty drive", "22 GB"),
        ],
        link: Link::new(3, 4),
        capacity: sold_as(500),
        year: Some(2018),
        source: SOURCE_970_EVO,
        assumptions: EVO_970,
        ends: EMPTY_DRIVE,
        make: || evo_970(2, "2300MB/s", [4.0 / 500.0, 18.0 / 500.0]),
    },
    NamedModel {
        name: "samsung-970-evo-1tb",
        summary: "Samsung 970 EVO 1 TB, NVMe, TLC, from its cells up with its SLC cache",
        figures: &[
            ("sequential read", "3400 MB/s"),
            ("sequential write", "2500 MB/s"),
            ("sequential write, cache full", "1200 MB/s"),
            ("SLC cache, empty drive", "42 GB"),
        ],
        link: Link::new(3, 4),
        capacity: sold_as(1_000),
        year: Some(2018),
        source: SOURCE_970_EVO,
        assumptions: EVO_970,
        ends: EMPTY_DRIVE,
        make: || evo_970(4, "2500MB/s", [6.0 / 1_000.0, 36.0 / 1_000.0]),
    },
    NamedModel {
        name: "samsung-870-qvo-4tb",
        summary: "Samsung 870 QVO 4 TB, SATA, QLC, from its cells up with its SLC cache",
        figures: &[
            ("interface", "SATA 6 Gb/s"),
            ("sequential read", "560 MB/s"),
            ("sequential write", "530 MB/s"),
            ("sequential write, cache full", "160 MB/s"),
            ("SLC cache, empty drive", "78 GB"),
        ],
        link: None,
        capacity: sold_as(4_000),
        year: Some(2020),
        source: "KitGuru, \"Samsung SSD 870 QVO 4TB Review\" (2020), conclusion: Samsung's figures of writes in the cache and \
                 past it, 6 GB of cache by default and 72 GB more; it measured 487 and 169 MB/s. Sequential read: \
                 PC Gamer, \"Samsung 870 QVO 1TB SSD review\" (the same for the series)",
        assumptions: "8 channels of 4 LUNs of 2 planes; a page is programmed in 6.55 ms and read in 140 us, a page in SLC mode \
                      in 175 us and in 25 us: the first of them is fitted to the write rate past the cache, the others are of \
                      the size that is usual; 64 MiB of the drive's memory are for writes, which they take at 530 MB/s",
        ends: "the published sizes are those of an empty drive (`precondition = \"none\"`), and of this one's: on one that is full the \
               dynamic part has only the free blocks of the over-provisioning. The rate past the cache follows the dies, of \
               which a smaller drive has fewer: Samsung gives the 2 TB drive the same 160 MB/s, and this description with half \
               of the dies would have 80",
        make: || {
            ssd(json!({
                "channels": 8, "luns": 4, "planes": 2, "cells": "qlc",
                "buffer": "64MiB", "buffer_rate": "530MB/s", "interface_rate": "560MB/s",
                "controller": "5us",
                "slc_cache": { "static": 6.0 / 4_000.0, "dynamic": 72.0 / 4_000.0, "program": "175us" },
                "timing": { "read": "140us", "program": "6550us", "erase": "10ms", "bus": "800MB/s" },
            }))
        },
    },
];

/// Source of the figures of the 970 EVO.
const SOURCE_970_EVO: &str =
    "Techgage, \"Samsung Reveals the 970 PRO & 970 EVO Generation M.2 SSDs\" (2018), table of specifications: rates \
     in the SLC cache and of the bare TLC, sizes of the cache; The FPS Review, \"Samsung 970 EVO 1TB M.2 NVMe SSD \
     Review\" (2020): its fixed part and its dynamic part, dies of 256 Gbit; TechPowerUp, \"Samsung 970 EVO 500 GB \
     Review\" (2018), write intensive usage: well over 2 GB/s, after around 22 GB a bit above 600 MB/s";

/// Figures of the 970 EVO that its sources do not give.
const EVO_970: &str =
    "8 channels of 800 MB/s with as many dies as hold the capacity, of 2 planes with pages of 16 KiB; the same cells in \
     each size: a page is programmed in 874 us, in SLC mode in 175 us, which are fitted to the rates of the 250 GB drive \
     (16 planes) and give those of the others past the cache; reads of 60 us, in SLC mode 25 us; in the cache the larger \
     drives are as fast as their memory takes writes (buffer_rate); 64 MiB of it are for writes";

/// Up to where the drives with an SLC cache are as published.
const EMPTY_DRIVE: &str =
    "the published sizes are those of an empty drive (`precondition = \"none\"`): on one that is full the dynamic part has \
     only the free blocks of the over-provisioning. A drive of another size has the same shares of its capacity as cache";

/// A 970 EVO of so many LUNs of each channel: the rate of its memory, and its SLC cache's parts, static
/// and dynamic, as shares of its capacity.
fn evo_970(luns: u32, rate: &str, [fixed, dynamic]: [f64; 2]) -> ModelKind {
    ssd(json!({
        "channels": 8, "luns": luns, "planes": 2, "cells": "tlc",
        "buffer": "64MiB", "buffer_rate": rate, "interface_rate": "3400MB/s",
        "slc_cache": { "static": fixed, "dynamic": dynamic, "program": "175us" },
        "timing": { "read": "60us", "program": "874us", "erase": "5ms", "bus": "800MB/s" },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_read_and_is_a_drive() {
        for named in &FLASH {
            let kind = named.kind();
            let spec = kind.get::<Spec>().unwrap();
            for capacity in [1 << 30, 64 << 30] {
                spec.check(capacity).unwrap_or_else(|error| panic!("{}: {error}", named.name));
            }
            // A description that cannot be read would be the default.
            assert_eq!(*spec == Spec::default(), named.name == "flash-tlc");
        }
    }
}
