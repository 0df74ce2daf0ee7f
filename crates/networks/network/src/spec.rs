//! A network as a user describes it.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Random, Rate};
use stasis_config::Mistake;

use crate::red::RedSpec;
use crate::stage::Stage;
use crate::subnet::Subnet;

/// Minimum delay of a link, jitter included (ns): machines run at most so far ahead of each other,
/// and a step of each costs the host a few us.
pub const MIN_DELAY: Nanos = 1_000;
/// Limit on the delay of a link (ns): an hour.
const MAX_DELAY: Nanos = 3_600_000_000_000;
/// Limit on a network's transfer unit: that of jumbo frames as most switches have it.
const MAX_MTU: u16 = 9_216;
/// Minimum of a network's transfer unit: IPv6's (RFC 8200, section 5).
const MIN_MTU: u16 = 1_280;

/// Delay of a link where none is given (ns): that between two machines of one data centre.
const USUAL_DELAY: Nanos = 50_000;

/// Defines a table with keys of its own, and behind them those of the links' conditions. Serde's
/// `flatten` would lose the place and the range of a wrong value.
macro_rules! with_conditions {
    ($(#[$attribute:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$attribute])*
        pub struct $name {
            $($own)*
            /// Time that a frame takes from machine to machine, beside its time on the wire.
            #[serde(with = "units::duration_option")]
            pub delay: Option<Nanos>,
            /// Limit on what is added to or subtracted from the delay, at random; frames keep their
            /// order.
            #[serde(with = "units::duration_option")]
            pub jitter: Option<Nanos>,
            /// Share of the frames that are lost, 0 to 1.
            #[schemars(range(min = 0.0, max = 1.0))]
            pub loss: Option<f64>,
            /// Share of the frames that come twice, 0 to 1.
            #[schemars(range(min = 0.0, max = 1.0))]
            pub duplicate: Option<f64>,
            /// Share of the frames that take twice the delay, so that later ones overtake them,
            /// 0 to 1.
            #[schemars(range(min = 0.0, max = 1.0))]
            pub reorder: Option<f64>,
            /// Share of the frames in which one bit behind the Ethernet header is changed, 0 to 1.
            #[schemars(range(min = 0.0, max = 1.0))]
            pub corrupt: Option<f64>,
        }

        impl $name {
            fn over(&self, under: Conditions) -> Conditions {
                Conditions {
                    delay: self.delay.unwrap_or(under.delay),
                    jitter: self.jitter.unwrap_or(under.jitter),
                    loss: self.loss.unwrap_or(under.loss),
                    duplicate: self.duplicate.unwrap_or(under.duplicate),
                    reorder: self.reorder.unwrap_or(under.reorder),
                    corrupt: self.corrupt.unwrap_or(under.corrupt),
                    ..under
                }
            }
        }
    };
}

with_conditions! {
    /// A network between machines. The conditions are those of every link that no `link` excepts.
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
    pub struct NetworkSpec {
        /// Name in the results; by default `net0`, ...
        pub name: Option<String>,
        /// Machines on the network; by default all. Their addresses count in this order.
        pub machines: Vec<String>,
        /// Addresses of the machines; by default 10.0.N.0/24 of network N.
        pub subnet: Option<Subnet>,
        /// Limit on a packet's bytes, 1280 to 9216; by default 1500.
        #[schemars(range(min = 1280, max = 9216))]
        pub mtu: Option<u16>,
        /// Rate of each machine's port, in each direction; without one, frames take no time on the
        /// wire.
        pub bandwidth: Option<Rate>,
        /// Bytes that may wait before a machine's port of the switch; by default 1 MiB. More are
        /// dropped.
        #[serde(with = "units::size_option")]
        pub queue: Option<u64>,
        /// Random early detection before the machines' ports; by default frames are dropped where a
        /// queue is full only.
        pub red: Option<RedSpec>,
        /// Capture of the frames in the results, and the largest number of bytes of each; by
        /// default all.
        #[serde(with = "units::size_option")]
        pub capture: Option<u64>,
        /// Links whose conditions differ.
        #[serde(rename = "link")]
        pub links: Vec<LinkSpec>,
        /// Ports that lead out of the experiment.
        pub outside: Vec<OutsideSpec>,
    }
}

/// A port of a network that leads out of the experiment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct OutsideSpec {
    /// Name of the port, by which links and faults mean it; by default `outside`.
    pub name: Option<String>,
    /// Unix socket of a program that takes and gives frames, each behind its length, as passt and
    /// QEMU's `-netdev stream` do.
    pub socket: PathBuf,
}

with_conditions! {
    /// Links whose conditions differ from the network's.
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
    pub struct LinkSpec {
        /// Machine at which the link begins; by default any.
        pub from: Option<String>,
        /// Machine at which the link ends; by default any.
        pub to: Option<String>,
        /// True if the conditions hold in the opposite direction as well.
        pub both_ways: bool,
        /// Time at which the conditions begin, in virtual time after the commands' start; by
        /// default they hold during the boot as well.
        #[serde(with = "units::duration_option")]
        pub begin: Option<Nanos>,
        /// Time at which the conditions end, in virtual time after the commands' start; by default
        /// never.
        #[serde(with = "units::duration_option")]
        pub end: Option<Nanos>,
        /// Rate of the link itself, beside that of the ports.
        pub bandwidth: Option<Rate>,
        /// Bytes that may wait before the link, if it has a bandwidth; by default the network's.
        #[serde(with = "units::size_option")]
        pub queue: Option<u64>,
        /// Random early detection before the link, if it has a bandwidth; by default the network's.
        pub red: Option<RedSpec>,
    }
}

/// The conditions of one direction of a link, resolved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// Delay (ns).
    pub delay: Nanos,
    /// Limit on the delay's deviation (ns).
    pub jitter: Nanos,
    /// Share of lost frames.
    pub loss: f64,
    /// Share of doubled frames.
    pub duplicate: f64,
    /// Share of frames that others overtake.
    pub reorder: f64,
    /// Share of changed frames.
    pub corrupt: f64,
    /// Rate of the link itself, if it has one.
    pub bandwidth: Option<Rate>,
    /// Bytes that may wait before the link.
    pub queue: u64,
    /// Random early detection before the link.
    pub red: Option<RedSpec>,
}

impl OutsideSpec {
    /// Name of the port.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("outside")
    }
}

impl NetworkSpec {
    /// Names of its ports: of its machines, and of those that lead outside.
    pub fn ports(&self) -> Vec<&str> {
        let outside = self.outside.iter().map(OutsideSpec::name);
        self.machines.iter().map(String::as_str).chain(outside).collect()
    }

    /// Bytes that may wait before a port.
    pub fn queue_bytes(&self) -> u64 {
        self.queue.unwrap_or(1 << 20)
    }

    /// Limit on a packet's bytes.
    pub fn transfer_unit(&self) -> u16 {
        self.mtu.unwrap_or(1_500)
    }

    /// The conditions from machine `from` to machine `to` at `at` after the commands' start, before
    /// which it is `None`: the network's, and over those the ones of each link that means the two,
    /// in their order.
    pub fn conditions(&self, from: &str, to: &str, at: Option<Nanos>) -> Conditions {
        let usual = Conditions {
            delay: USUAL_DELAY,
            jitter: 0,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
            bandwidth: None,
            queue: self.queue_bytes(),
            red: self.red,
        };
        let mut conditions = self.over(usual);
        let links = self.links.iter().filter(|link| link.is_between(from, to) && link.holds(at));
        for link in links {
            conditions = link.over(conditions);
            conditions.bandwidth = link.bandwidth.or(conditions.bandwidth);
            conditions.queue = link.queue.unwrap_or(conditions.queue);
            conditions.red = link.red.or(conditions.red);
        }
        conditions
    }

    /// Every time after the commands' start at which conditions from machine `from` to machine `to`
    /// begin or end, and the start itself, in order.
    pub fn changes(&self, from: &str, to: &str) -> Vec<Nanos> {
        let links = self.links.iter().filter(|link| link.is_between(from, to));
        let times = links.flat_map(|link| [link.begin, link.end]).flatten();
        let mut times: Vec<Nanos> = times.chain([0]).collect();
        times.sort_unstable();
        times.dedup();
        times
    }

    /// Checks the network between its ports.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn check(&self) -> Result<(), Mistake> {
        let ports = &self.ports()[..];
        check_red(self.red)?;
        let links = self.links.iter().any(|link| link.bandwidth.is_some());
        if self.red.is_some() && self.bandwidth.is_none() && !links {
            return Err(Mistake::at("red", "red needs bandwidth: without it, nothing waits"));
        }
        for (index, outside) in self.outside.iter().enumerate() {
            let name = outside.name();
            let at_outside =
                |key, message| Mistake::at(key, message).inside(index).inside("outside");
            if ports[..self.machines.len() + index].contains(&name) {
                return Err(at_outside("name", format!("two of its ports have the name `{name}`")));
            }
            if outside.socket.as_os_str().is_empty() {
                let message = format!("outside `{name}`: give it the `socket` of a program");
                return Err(at_outside("socket", message));
            }
        }
        let mtu = self.transfer_unit();
        if !(MIN_MTU..=MAX_MTU).contains(&mtu) {
            let message = format!("mtu is {mtu}, but must be {MIN_MTU} to {MAX_MTU}");
            return Err(Mistake::at("mtu", message));
        }
        let count = self.machines.len();
        if let Some(subnet) = self.subnet.filter(|subnet| subnet.host(count - 1).is_none()) {
            let room = subnet.hosts();
            let message = format!("subnet {subnet} has room for {room} of {count} machines");
            return Err(Mistake::at("subnet", message));
        }
        for (index, link) in self.links.iter().enumerate() {
            let at_link = |mistake: Mistake| mistake.said_of("link").inside(index).inside("link");
            for (key, name) in [("from", &link.from), ("to", &link.to)] {
                let Some(name) = name.as_deref().filter(|name| !ports.contains(name)) else {
                    continue;
                };
                let names = ports.join(", ");
                let message = format!("{key} is `{name}`, but its ports are {names}");
                return Err(at_link(Mistake::at(key, message)));
            }
            if link.from.is_some() && link.from == link.to {
                return Err(at_link(Mistake::at("to", "from and to are one machine")));
            }
            units::check_span(link.begin, link.end)
                .map_err(|error| at_link(Mistake::at("end", error)))?;
            for (key, given) in [("queue", link.queue.is_some()), ("red", link.red.is_some())] {
                if given && link.bandwidth.is_none() {
                    let message = format!("{key} needs bandwidth: without it, nothing waits");
                    return Err(at_link(Mistake::at(key, message)));
                }
            }
            check_red(link.red).map_err(at_link)?;
        }
        for from in ports {
            for to in ports.iter().filter(|to| *to != from) {
                let changes = self.changes(from, to);
                for at in [None].into_iter().chain(changes.into_iter().map(Some)) {
                    let checked = self.conditions(from, to, at).check();
                    checked.map_err(|(key, message)| {
                        let mistake = Mistake::at(key, message);
                        match self.link_with(key, (from, to), at) {
                            Some(link) => mistake.inside(link).inside("link"),
                            None => mistake,
                        }
                        .said_of(format_args!("from {from} to {to}"))
                    })?;
                }
            }
        }
        Ok(())
    }

    /// The last link from one machine to another that sets this condition at `at`: its value holds.
    fn link_with(&self, key: &str, ends: (&str, &str), at: Option<Nanos>) -> Option<usize> {
        let is = |link: &LinkSpec| {
            link.is_between(ends.0, ends.1) && link.holds(at) && link.sets().contains(&key)
        };
        self.links.iter().rposition(is)
    }
}

fn check_red(red: Option<RedSpec>) -> Result<(), Mistake> {
    red.map_or(Ok(()), |red| red.check()).map_err(|mistake| mistake.inside("red"))
}

impl LinkSpec {
    /// Conditions that it sets.
    fn sets(&self) -> Vec<&'static str> {
        let all = [
            ("delay", self.delay.is_some()),
            ("jitter", self.jitter.is_some()),
            ("loss", self.loss.is_some()),
            ("duplicate", self.duplicate.is_some()),
            ("reorder", self.reorder.is_some()),
            ("corrupt", self.corrupt.is_some()),
        ];
        all.into_iter().filter_map(|(key, set)| set.then_some(key)).collect()
    }

    fn is_between(&self, from: &str, to: &str) -> bool {
        let is = |name: &Option<String>, other| name.as_deref().is_none_or(|name| name == other);
        is(&self.from, from) && is(&self.to, to)
            || self.both_ways && is(&self.from, to) && is(&self.to, from)
    }

    fn holds(&self, at: Option<Nanos>) -> bool {
        match at {
            None => self.begin.is_none(),
            Some(at) => {
                self.begin.is_none_or(|begin| at >= begin) && self.end.is_none_or(|end| at < end)
            }
        }
    }
}

impl Conditions {
    /// The link's part that has a bandwidth.
    pub(crate) fn stage(&self, early: Random) -> Stage {
        Stage::new(self.bandwidth, self.queue).with(self.red.as_ref(), early)
    }

    /// Shortest time that a frame takes (ns), beside its time on the wire.
    pub(crate) fn shortest(&self) -> Nanos {
        self.delay - self.jitter
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The key of the invalid value, and its allowed values.
    fn check(&self) -> Result<(), (&'static str, String)> {
        let Self { delay, jitter, .. } = *self;
        let show = units::format_duration;
        if delay > MAX_DELAY {
            let (found, most) = (show(delay), show(MAX_DELAY));
            return Err(("delay", format!("delay is {found}, but must be at most {most}")));
        }
        if delay < jitter.saturating_add(MIN_DELAY) {
            let key = if jitter == 0 { "delay" } else { "jitter" };
            let message = format!(
                "delay is {} and jitter {}, but delay less jitter must be at least {}",
                show(delay),
                show(jitter),
                show(MIN_DELAY)
            );
            return Err((key, message));
        }
        let shares = [
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("corrupt", self.corrupt),
        ];
        match shares.into_iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            Some((key, share)) => Err((key, format!("{key} is {share}, but must be 0 to 1"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> NetworkSpec {
        let machines = ["a", "b", "c"].map(String::from).to_vec();
        NetworkSpec { machines, ..toml::from_str(text).unwrap() }
    }

    #[test]
    fn a_key_is_read_if_it_is_in_the_schema() {
        assert_eq!(stasis_config::keys_agree::<NetworkSpec>(), Ok(()));
        assert_eq!(stasis_config::keys_agree::<LinkSpec>(), Ok(()));
        assert_eq!(stasis_config::keys_agree::<OutsideSpec>(), Ok(()));
        assert_eq!(stasis_config::keys_agree::<RedSpec>(), Ok(()));
    }

    #[test]
    fn later_links_are_over_earlier_ones() {
        let spec = read(
            "delay = '10us'\nloss = 0.5\nbandwidth = '10Gbit/s'\n\
             [[link]]\nfrom = 'a'\ndelay = '1ms'\nbandwidth = '1Gbit/s'\nqueue = '64KiB'\n\
             [[link]]\nto = 'b'\nloss = 0\n\
             [[link]]\nfrom = 'b'\nto = 'c'\nboth-ways = true\njitter = '2us'\n",
        );
        assert_eq!(spec.check(), Ok(()));
        let conditions_of = |from, to| {
            let all = spec.conditions(from, to, None);
            (all.delay, all.jitter, all.loss, all.bandwidth.map(Rate::bytes_per_second), all.queue)
        };
        assert_eq!(conditions_of("a", "b"), (1_000_000, 0, 0.0, Some(125_000_000), 65_536));
        assert_eq!(conditions_of("b", "a"), (10_000, 0, 0.5, None, 1 << 20));
        assert_eq!(conditions_of("c", "b"), (10_000, 2_000, 0.0, None, 1 << 20));
        assert_eq!(conditions_of("b", "c"), (10_000, 2_000, 0.5, None, 1 << 20));
        assert_eq!(NetworkSpec::default().conditions("a", "b", Some(7)).delay, 50_000);
    }

    #[test]
    fn conditions_begin_and_end() {
        let spec = read(
            "[[link]]\nfrom = 'a'\nboth-ways = true\nbegin = '1ms'\nend = '3ms'\nloss = 1\n\
             [[link]]\nto = 'b'\nend = '2ms'\ndelay = '9us'\n",
        );
        assert_eq!(spec.check(), Ok(()));
        assert_eq!(spec.changes("a", "b"), [0, 1_000_000, 2_000_000, 3_000_000]);
        assert_eq!(spec.changes("b", "a"), [0, 1_000_000, 3_000_000]);
        let conditions_at = |at| {
            let all = spec.conditions("a", "b", at);
            (all.loss, all.delay)
        };
        assert_eq!(conditions_at(None), (0.0, 9_000));
        assert_eq!(conditions_at(Some(999_999)), (0.0, 9_000));
        assert_eq!(conditions_at(Some(1_000_000)), (1.0, 9_000));
        assert_eq!(conditions_at(Some(2_000_000)), (1.0, 50_000));
        assert_eq!(conditions_at(Some(3_000_000)), (0.0, 50_000));
    }

    #[test]
    fn impossible_networks_are_refused_by_name() {
        for (text, expected) in [
            ("mtu = 576", "1280 to 9216"),
            ("delay = '999ns'", "at least 1us"),
            ("delay = '20us'\njitter = '20us'", "at least 1us"),
            ("delay = '2h'", "at most"),
            ("loss = 1.5", "loss is 1.5, but must be 0 to 1"),
            ("corrupt = nan", "corrupt is NaN"),
            ("subnet = '10.0.0.0/30'", "room for 2 of 3"),
            ("[[link]]\nfrom = 'd'", "from is `d`, but its ports are a, b, c"),
            ("[[link]]\nfrom = 'a'\nred = { min = '1KiB' }", "red needs bandwidth"),
            ("red = { min = '1KiB' }", "red needs bandwidth"),
            ("bandwidth = '1Gbit/s'\nred = {}", "red: give it `min`"),
            (
                "bandwidth = '1Gbit/s'\nred = { min = '2KiB', max = '1KiB' }",
                "max is 1KiB, but min is 2KiB",
            ),
            ("bandwidth = '1Gbit/s'\nred = { min = '2KiB', weight = 0.0 }", "weight is 0"),
            (
                "bandwidth = '1Gbit/s'\nred = { min = '2KiB', probability = 1.5 }",
                "probability is 1.5",
            ),
            ("outside = [{}]", "outside `outside`: give it the `socket`"),
            ("outside = [{ name = 'b', socket = 's' }]", "two of its ports have the name `b`"),
            ("outside = [{ socket = 's' }, { socket = 't' }]", "two of its ports"),
            ("[[link]]\nfrom = 'a'\nto = 'a'", "one machine"),
            ("[[link]]\nbegin = '2s'\nend = '2s'", "it ends at 2s, but begins at 2s"),
            ("[[link]]\nend = '0s'", "it ends at"),
            ("[[link]]\nbegin = '2s'\ndelay = '1ns'", "at least 1us"),
            ("[[link]]\nfrom = 'a'\nqueue = '1KiB'", "queue needs bandwidth"),
            ("[[link]]\nfrom = 'a'\nto = 'c'\ndelay = 0", "from a to c"),
        ] {
            let error = read(text).check().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
