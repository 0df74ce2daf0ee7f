//! The figures of one way of running the guest: its drive's, and those that its
//! clients see.

use std::time::Duration;

use anyhow::{bail, Context, Result};
use stasis_qemu_vm::Vm;

use super::super::blocks::Rate;
use super::super::measured::Variant;
use super::super::shell::{here, inside};
use super::super::steady::{Rounds, ROUNDS};
use super::super::subject::Subject;
use super::super::{blocks, files, shell};
use super::bench::{Bench, Sizes, PORT, THREADS, TRIES};

/// Time that fio may take to begin.
const START: Duration = Duration::from_secs(3);
/// Loads by fio: the operation and the number of threads.
const LOADS: [(&str, u32); 3] = [("randwrite", 1), ("randread", THREADS), ("randwrite", THREADS)];

impl Bench<'_> {
    /// The drive's figures. A rate that is no measurement (see [`Rounds`]) is taken
    /// again, and left out where it stays so.
    pub(super) fn drive(
        &mut self,
        vm: &mut Vm,
        device: &str,
        name: &str,
        polled: bool,
    ) -> Result<Variant> {
        let polls = inside(vm, &format!("cat /sys/block/{}/queue/io_poll", &device[5..]))?;
        if (polls.trim() == "1") != polled {
            bail!("{device}: whether the guest polls it is {} of 1", polls.trim());
        }
        let mut way = Variant::default();
        let mut rates = [None; 3];
        for (place, (kind, threads)) in LOADS.into_iter().enumerate() {
            let title = format!("{name}, {kind} by {threads}");
            rates[place] = self.steady(&title, polled, &mut way, |bench| {
                bench.rounds(vm, device, (kind, threads), polled)
            })?;
        }
        let [one, reads, writes] = rates;
        if let Some((_, rate, exits)) = one {
            way.exits = exits;
            way.write_us = Some(rate.latency_us);
            way.write_median_us = Some(rate.median_us);
        }
        way.iops = [reads, writes].map(|rate| rate.map(|(iops, ..)| iops));
        Ok(way)
    }

    /// A valid rate, with fio's output and the exits of each I/O; tried [`TRIES`] times.
    fn steady(
        &mut self,
        title: &str,
        polled: bool,
        way: &mut Variant,
        mut take: impl FnMut(&Self) -> Result<(Rounds, Rate)>,
    ) -> Result<Option<(f64, Rate, Option<f64>)>> {
        for tries_after in (0..TRIES).rev() {
            let (rounds, rate) = take(self)?;
            let judged = rounds.rate(polled);
            let exits = rounds.exits;
            way.rounds.push((title.to_owned(), rounds));
            match judged {
                Ok(iops) => return Ok(Some((iops, rate, exits))),
                Err(why) if tries_after > 0 => self.measured.again.push(format!("{title}: {why}")),
                Err(why) => self.measured.failed.push(format!("{title}: {why}")),
            }
        }
        Ok(None)
    }

    /// The rounds of one load, and exits from guest mode: in the midst of it, so that
    /// fio's own beginning and end do not count.
    fn rounds(
        &self,
        vm: &mut Vm,
        device: &str,
        (kind, threads): (&str, u32),
        polled: bool,
    ) -> Result<(Rounds, Rate)> {
        let round = self.sizes.round.as_secs();
        // fio also runs after the rounds for as long as the gap between two scripts may be.
        let runtime = START.as_secs() * 2 + round * ROUNDS as u64;
        let fio = blocks::fio_for(device, kind, threads, runtime, polled);
        inside(vm, &format!("({fio}) >/tmp/rounds.json </dev/null &"))?;
        std::thread::sleep(START);
        let before = shell::exits();
        let samples = inside(vm, &blocks::sampler(device, ROUNDS, round))?;
        let exits = before.zip(shell::exits()).map(|(before, after)| after.saturating_sub(before));
        let output =
            inside(vm, "while pgrep -x fio >/dev/null; do sleep 0.1; done; cat /tmp/rounds.json")?;
        let samples = blocks::rounds(&samples)?;
        let ios: f64 = samples.iter().map(|(ios, _)| ios).sum();
        let rounds = Rounds {
            rates: samples.iter().map(|(ios, seconds)| ios / seconds).collect(),
            exits: exits.map(|exits| exits as f64 / ios).filter(|exits| exits.is_finite()),
        };
        Ok((rounds, blocks::parse(&output)?))
    }

    /// The bare drive's figures, judged likewise: by fio itself, round by round, as a RAM
    /// disk counts nothing.
    pub(super) fn bare_drive(&mut self, device: &str) -> Result<Variant> {
        let mut way = Variant::default();
        let mut rates = [None; 3];
        for (place, (kind, threads)) in LOADS.into_iter().enumerate() {
            let title = format!("the bare drive, {kind} by {threads}");
            rates[place] = self.steady(&title, false, &mut way, |bench| {
                let ios = bench.sizes.ios;
                let take =
                    |_| blocks::parse(&here(&blocks::fio(device, kind, threads, ios, false))?);
                let mut all = (0..ROUNDS).map(take).collect::<Result<Vec<Rate>>>()?;
                let rates = all.iter().map(|rate| rate.iops).collect();
                all.sort_by(|a, b| a.iops.total_cmp(&b.iops));
                Ok((Rounds { rates, exits: None }, all[ROUNDS / 2]))
            })?;
        }
        let [one, reads, writes] = rates;
        way.write_us = one.map(|(_, rate, _)| rate.latency_us);
        way.write_median_us = one.map(|(_, rate, _)| rate.median_us);
        way.iops = [reads, writes].map(|rate| rate.map(|(iops, ..)| iops));
        Ok(way)
    }

    /// Measurements by clients of the guest: network or file server.
    pub(super) fn reached(&mut self, vm: &mut Vm, device: &str, trap: bool) -> Result<()> {
        if self.subject == Subject::Network {
            let serve =
                format!("/proc/1/exe controller-part serve {PORT} </dev/null >/dev/null 2>&1 &");
            inside(vm, &serve)?;
            let network = self.network("10.77.0.2")?;
            let way = if trap { &mut self.measured.trap } else { &mut self.measured.polled };
            (way.ping_us, way.requests) = (network.ping_us, network.requests);
            (way.send, way.receive) = (network.send, network.receive);
            return Ok(());
        }
        inside(vm, &files::start(device))?;
        inside(vm, files::DROP)?;
        let before = shell::exits();
        let read = here(&files::read("10.77.0.2", THREADS, self.sizes.reads))?;
        let exits = before.zip(shell::exits()).map(|(before, after)| after.saturating_sub(before));
        // Mounting counts as well, for a few of hundreds of reads.
        let reads = u64::from(THREADS) * self.sizes.reads;
        let way = if trap { &mut self.measured.trap } else { &mut self.measured.polled };
        way.read_exits = exits.map(|exits| exits as f64 / reads as f64);
        way.reads = Some(blocks::parse(&read)?.iops);
        inside(vm, files::STOP)?;
        Ok(())
    }

    /// The network's figures, from the client's side.
    pub(super) fn network(&self, address: &str) -> Result<Variant> {
        let Sizes { pings, seconds, .. } = *self.sizes;
        let program = self.program.display();
        let ping = here(&format!("ping -4 -n -f -q -c {pings} {address}"))?;
        let ask = |figure: &str| -> Result<f64> {
            let script = format!(
                "{program} controller-part send {figure} {address}:{PORT} --seconds {seconds}"
            );
            here(&script)?.trim().parse().with_context(|| format!("the figure of {figure}"))
        };
        Ok(Variant {
            ping_us: Some(round_trip(&ping)?),
            requests: Some(ask("rr")?),
            // Named from the guest's side: the client receives data that the guest sends.
            send: Some(ask("receive")?),
            receive: Some(ask("send")?),
            ..Variant::default()
        })
    }
}

/// The mean of ping's last line, `rtt min/avg/max/mdev = a/b/c/d ms`, in us.
fn round_trip(text: &str) -> Result<f64> {
    let line =
        text.lines().find_map(|line| line.strip_prefix("rtt ")).context("no answer to ping")?;
    let figures = line.split(" = ").nth(1).context("ping's last line")?;
    let mean = figures.split('/').nth(1).context("ping's last line")?;
    Ok(mean.parse::<f64>().context("ping's mean")? * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_mean_is_found() {
        let text = "--- x ping statistics ---\n9 packets transmitted, 9 received\n\n\
                    rtt min/avg/max/mdev = 0.010/0.021/0.100/0.005 ms, ipg/ewma 0.03/0.02 ms\n";
        assert_eq!(round_trip(text).unwrap(), 21.0);
        assert!(round_trip("9 packets transmitted, 0 received").is_err());
    }
}
