//! The named flash SSDs.

use serde_json::{json, Value};
use stasis_flash::Spec;

use super::NamedModel;
use crate::kinds::ModelKind;

/// Of the table that an experiment would write.
fn ssd(table: Value) -> ModelKind {
    // A test reads every table.
    ModelKind::of(serde_json::from_value::<Spec>(table).unwrap_or_default())
}

/// A drive without a fixed size.
const ANY_SIZE: &str = "blocks are as many as the drive's size and 7 % over-provisioning need";

/// Every flash SSD with a name.
pub(super) const FLASH: [NamedModel; 4] = [
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
];

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
