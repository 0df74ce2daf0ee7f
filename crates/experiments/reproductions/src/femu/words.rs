//! Fig. 6b: counting words over several drives whose collections differ.

use anyhow::{Context, Result};
use stasis_experiment::DriveSpec;
use stasis_report::page::{Block, Section};
use stasis_report::published_vs_measured::Figure;

use super::collection::drive;
use super::setup::experiment;
use crate::bench::{Runs, Trial};
use crate::experiments::Settings;
use crate::published_data::figure;

/// (name of the run, unit that a collection blocks).
const RUNS: [(&str, &str); 3] =
    [("words-controller", "controller"), ("words-channel", "channel"), ("words-plane", "plane")];
/// Drives that the text is on.
const DRIVES: usize = 4;
/// Size of a drive: the least power of two at which over-provisioning of 15 % has room for the open
/// blocks of 64 planes.
const SIZE: u64 = 1 << 30;
/// Memory of the guest.
const MEMORY: u64 = 1 << 30;
/// The file with the count of words and the time it took.
const TIMES: &str = "words.txt";

pub fn trials(settings: &Settings) -> Result<Vec<Trial>> {
    let megabytes = if settings.quick { 2 } else { 8 };
    // The text is striped over the drives by md; its words are counted while
    // something else writes, so that there is garbage to collect.
    let script = format!(
        "mdadm --create /dev/md0 --run --level=0 --chunk=64 --raid-devices={DRIVES} \
             $(seq -f /dev/nvme%gn1 0 {last}) 2>/results/mdadm.txt
         seq 1 100000000 | head -c {megabytes}M | dd of=/dev/md0 bs=1M oflag=direct iflag=fullblock 2>/dev/null
         fio --name=other --filename=/dev/md0 --offset=256M --size=512M --rw=randwrite --bs=4k --direct=1 \
             --ioengine=libaio --iodepth=16 --rate_iops=4000 --time_based --runtime=20 --norandommap=1 --output=/results/other.txt &
         other=$!
         sleep 0.2
         start=$(date +%s%N)
         words=$(dd if=/dev/md0 bs=1M count={megabytes} iflag=direct 2>/dev/null | wc -w)
         end=$(date +%s%N)
         kill $other 2>/dev/null || true
         wait $other || true
         mdadm --stop /dev/md0 2>>/results/mdadm.txt || true
         echo $words $((end - start)) > /results/{TIMES}",
        last = DRIVES - 1
    );
    RUNS.into_iter()
        .map(|(id, blocking)| {
            let drives = (0..DRIVES).map(|index| {
                let word = format!("name=drive{index},model=null,medium=ram:{SIZE}");
                let mut spec = DriveSpec::parse(&word)?;
                spec.model = serde_json::from_value(drive(blocking)).context("the model")?;
                anyhow::Ok(spec)
            });
            let drives = drives.collect::<Result<_>>()?;
            let experiment = experiment(settings, 4, MEMORY, drives, &script);
            let description = format!("Fig. 6b: word count over 4 drives, {blocking}-blocking");
            Ok(Trial { id, description, experiment, disk_size: None, timed: None })
        })
        .collect()
}

/// Words, and the time to count them (ns).
fn read(runs: &Runs, id: &str) -> Option<(f64, f64)> {
    let text = std::fs::read_to_string(runs.get(id)?.folder.join(TIMES)).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

pub fn findings(runs: &Runs) -> Result<(Section, Vec<Figure>)> {
    let mut figures = Vec::new();
    let fastest = read(runs, RUNS[2].0).map(|(_, time)| time);
    for (id, blocking) in RUNS {
        let run = read(runs, id);
        let rate = run.map(|(words, time)| words / (time / 1e9) / 1e6);
        let title = format!("{blocking}-blocking: words counted");
        figures.push(figure("Fig. 6b", title, "million/s", None, rate));
        let slower = run.zip(fastest).map(|((_, time), fastest)| time / fastest);
        let title = format!("{blocking}-blocking: time against plane-blocking");
        figures.push(figure("Fig. 6b", title, "times", None, slower));
    }
    let section = Section::new("Fig. 6b Word count over several drives").with(Block::Prose(
        "A text striped over four drives (Linux md, RAID 0) in one guest, its words counted while \
         another program writes at random places, for three ways to collect garbage. The \
         publication counts with Hadoop on several machines; as there, large I/Os over many \
         channels make channel- and plane-blocking more alike than small reads do."
            .into(),
    ));
    Ok((section, figures))
}
