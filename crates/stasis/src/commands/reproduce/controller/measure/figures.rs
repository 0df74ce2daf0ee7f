//! The figures of one way of running the guest: its drive's, and those that its
//! clients see.

use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use stasis_qemu::Vm;

use super::super::measured::Way;
use super::super::shell::{here, inside};
use super::super::{blocks, files, shell};
use super::{Bench, Sizes, PORT, THREADS};

/// For how long exits are counted.
const WINDOW: Duration = Duration::from_secs(3);

impl Bench<'_> {
    /// The drive's figures.
    pub(super) fn drive(&self, vm: &mut Vm, device: &str, polled: bool) -> Result<Way> {
        let polls = inside(vm, &format!("cat /sys/block/{}/queue/io_poll", &device[5..]))?;
        if (polls.trim() == "1") != polled {
            bail!("{device}: whether the guest polls it is {} of 1", polls.trim());
        }
        let exits = self.exits(vm, device, polled)?;
        let mut rate = |kind, threads| {
            let script = blocks::fio(device, kind, threads, self.sizes.ios, polled);
            blocks::parse(&inside(vm, &script)?)
        };
        let one = rate("randwrite", 1)?;
        Ok(Way {
            exits,
            write_us: Some(one.latency_us),
            write_median_us: Some(one.median_us),
            iops: [Some(rate("randread", THREADS)?.iops), Some(rate("randwrite", THREADS)?.iops)],
            ..Way::default()
        })
    }

    /// How often the guest leaves guest mode for a write: in the midst of them, so that
    /// fio's own beginning and end do not count.
    fn exits(&self, vm: &mut Vm, device: &str, polled: bool) -> Result<Option<f64>> {
        let fio = blocks::fio_for(device, 3 * WINDOW.as_secs(), polled);
        inside(vm, &format!("({fio}) >/tmp/exits.json </dev/null &"))?;
        let sample = || shell::exits().map(|exits| (exits, Instant::now()));
        std::thread::sleep(WINDOW);
        let begin = sample();
        std::thread::sleep(WINDOW);
        let end = sample();
        let said =
            inside(vm, "while pgrep -x fio >/dev/null; do sleep 0.1; done; cat /tmp/exits.json")?;
        let rate = blocks::parse(&said)?.iops;
        let (Some((before, begin)), Some((after, end))) = (begin, end) else { return Ok(None) };
        let exits = after.saturating_sub(before) as f64;
        Ok(Some(exits / (end - begin).as_secs_f64() / rate))
    }

    /// What clients of the guest see: network and file server.
    pub(super) fn reached(&mut self, vm: &mut Vm, device: &str, trap: bool) -> Result<()> {
        let serve =
            format!("/proc/1/exe controller-part serve {PORT} </dev/null >/dev/null 2>&1 &");
        inside(vm, &serve)?;
        let network = self.network("10.77.0.2")?;
        let way = if trap { &mut self.measured.trap } else { &mut self.measured.polled };
        (way.ping_us, way.requests) = (network.ping_us, network.requests);
        (way.send, way.receive) = (network.send, network.receive);
        inside(vm, &files::start(device))?;
        inside(vm, files::DROP)?;
        let before = shell::exits();
        let read = here(&files::read("10.77.0.2", THREADS, self.sizes.reads))?;
        let exits = before.zip(shell::exits()).map(|(before, after)| after.saturating_sub(before));
        // Mounting counts as well, for a few of hundreds of reads.
        let reads = u64::from(THREADS) * self.sizes.reads;
        way.read_exits = exits.map(|exits| exits as f64 / reads as f64);
        way.reads = Some(blocks::parse(&read)?.iops);
        inside(vm, files::STOP)?;
        Ok(())
    }

    /// The network's figures, from the client's side.
    pub(super) fn network(&self, address: &str) -> Result<Way> {
        let Sizes { pings, seconds, .. } = *self.sizes;
        let program = self.program.display();
        let ping = here(&format!("ping -4 -n -f -q -c {pings} {address}"))?;
        let ask = |what: &str| -> Result<f64> {
            let script = format!(
                "{program} controller-part send {what} {address}:{PORT} --seconds {seconds}"
            );
            here(&script)?.trim().parse().with_context(|| format!("the figure of {what}"))
        };
        Ok(Way {
            ping_us: Some(round_trip(&ping)?),
            requests: Some(ask("rr")?),
            // As the guest sees it: what the client receives it has sent.
            send: Some(ask("receive")?),
            receive: Some(ask("send")?),
            ..Way::default()
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
