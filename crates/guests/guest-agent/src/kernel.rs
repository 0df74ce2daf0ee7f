//! Settings of the guest's kernel: time, randomness, modules, names.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::errno::Errno;
use nix::kmod::{finit_module, ModuleInitFlags};
use nix::sys::time::TimeSpec;
use nix::time::{clock_settime, ClockId};
use stasis_channel::Call;

use crate::AgentError;

/// The folder of the kernel's modules, and of the lists of those to load.
pub(crate) fn modules() -> &'static Path {
    Path::new("/modules")
}

/// Sets `CLOCK_REALTIME` (ns since 1970-01-01 00:00 UTC), unless to 0: the
/// kernel refuses a time that is less than its uptime.
pub(crate) fn set_clock(realtime_ns: u64) -> Result<(), AgentError> {
    if realtime_ns == 0 {
        return Ok(());
    }
    const SECOND: u64 = 1_000_000_000;
    // Both fit: u64::MAX ns are 18 446 744 073 s.
    let time = TimeSpec::new((realtime_ns / SECOND) as i64, (realtime_ns % SECOND) as i64);
    clock_settime(ClockId::CLOCK_REALTIME, time)
        .map_err(|e| AgentError::new("set", "the real-time clock", e))
}

/// Gives the kernel's random number generator 256 bits that follow from
/// `seed`, so that it is ready at once and the same in every run of one seed.
pub(crate) fn seed_random(seed: u64) -> Result<(), AgentError> {
    add_entropy(seed).map(drop)
}

/// Seeds a generator that works already: its further numbers follow from `seed`.
pub(crate) fn reseed_random(seed: u64) -> Result<(), AgentError> {
    /// `RNDRESEEDCRNG` of linux/random.h: `_IO('R', 0x07)`.
    const RESEED: libc::c_ulong = 0x5207;
    let device = add_entropy(seed)?;
    // SAFETY: the ioctl has no argument.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), RESEED as _) };
    Errno::result(result).map(drop).map_err(|e| AgentError::new("reseed", "/dev/random", e))
}

fn add_entropy(seed: u64) -> Result<File, AgentError> {
    /// `struct rand_pool_info` of linux/random.h with room for 256 bits.
    #[repr(C)]
    struct Pool {
        entropy_bits: libc::c_int,
        bytes: libc::c_int,
        words: [u64; 4],
    }
    /// `RNDADDENTROPY` of linux/random.h: `_IOW('R', 0x03, int[2])`.
    const ADD_ENTROPY: libc::c_ulong = 0x4008_5203;
    let error = |e: io::Error| AgentError::new("seed", "/dev/random", e);
    let device = OpenOptions::new().write(true).open("/dev/random").map_err(error)?;
    let pool = Pool { entropy_bits: 256, bytes: 32, words: expand(seed) };
    // SAFETY: the ioctl reads a `Pool`, whose lengths are right.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), ADD_ENTROPY as _, &pool) };
    Errno::result(result).map_err(|e| error(e.into()))?;
    Ok(device)
}

/// Returns whether all of the machine's processors came online: without one, Linux boots all the
/// same. 0: their number is unknown.
pub(crate) fn count_processors(vcpus: u32) -> Result<(), AgentError> {
    let vcpus = vcpus as usize;
    let counted = std::thread::available_parallelism();
    let online = counted.map_err(|e| AgentError::new("count", "the processors", e))?.get();
    if vcpus > 0 && online != vcpus {
        return Err(AgentError::Processors { online, vcpus });
    }
    Ok(())
}

/// Four words from one by SplitMix64 (Steele, Lea, Flood: "Fast splittable
/// pseudorandom number generators", OOPSLA 2014, figure 19).
fn expand(seed: u64) -> [u64; 4] {
    let mut state = seed;
    std::array::from_fn(|_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    })
}

/// Loads the modules of `folder/order-drives`, and of `folder/order-VENDOR` for each vendor of PCI
/// devices here.
pub(crate) fn load_drives(folder: &Path, vendors: &BTreeSet<u16>) -> Result<(), AgentError> {
    load_list(folder, "order-drives")?;
    vendors.iter().try_for_each(|vendor| load_list(folder, &format!("order-{vendor:04x}")))
}

/// Loads the modules that one list names, one file name a line, if there is such a list.
pub(crate) fn load_list(folder: &Path, list: &str) -> Result<(), AgentError> {
    let list = folder.join(list);
    let list = match fs::read_to_string(&list) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(AgentError::new("read", list.display().to_string(), e)),
    };
    for name in list.lines() {
        let error = |e: io::Error| AgentError::new("load the module", name, e);
        let file = File::open(folder.join(name)).map_err(error)?;
        let parameters = parameters(name, |key| std::env::var(key).ok());
        match finit_module(&file, &parameters, ModuleInitFlags::empty()) {
            // Loaded already, or built in after all.
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(e) => return Err(error(e.into())),
        }
    }
    Ok(())
}

/// The modules that a user wants beside a root, where it has no program to load them: theirs would
/// be out of reach once the root is entered.
#[derive(Debug)]
pub(crate) struct Asked(Option<File>);

impl Asked {
    /// Finds the list, if there is one.
    pub(crate) fn find() -> Result<Self, AgentError> {
        let folder = modules();
        if !folder.join(Self::LIST).exists() {
            return Ok(Self(None));
        }
        let open = File::open(folder);
        open.map(|folder| Self(Some(folder))).map_err(|e| AgentError::new("open", "/modules", e))
    }

    /// Loads them in a root that has no program for it.
    pub(crate) fn load(self) -> Result<(), AgentError> {
        /// The program that the kernel starts (Documentation/admin-guide/sysctl/kernel.rst, `modprobe`).
        const PROGRAM: &str = "/sbin/modprobe";
        match self.0 {
            Some(folder) if !Path::new(PROGRAM).exists() => {
                let place = format!("/proc/self/fd/{}", folder.as_raw_fd());
                load_list(Path::new(&place), Self::LIST)
            }
            _ => Ok(()),
        }
    }

    const LIST: &str = "order-asked";
}

/// The parameters of a module's file: `STASIS_MODULE_name=...` on the kernel's
/// command line, which becomes the environment (`virtio_blk.poll_queues=1` would
/// not: the kernel takes it for a module's and forgets it).
fn parameters(file: &str, environment: impl FnOnce(&str) -> Option<String>) -> CString {
    let name = file.split(".ko").next().unwrap_or(file);
    let text = environment(&format!("STASIS_MODULE_{name}")).unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// Puts an I/O scheduler before a drive, a name below `/dev`; the kernel loads
/// its module.
pub(crate) fn set_scheduler(drive: &str, scheduler: &str) -> Result<(), AgentError> {
    let file = format!("/sys/block/{drive}/queue/scheduler");
    fs::write(&file, scheduler).map_err(|e| {
        AgentError::new("choose the I/O scheduler", format!("{scheduler} in {file}"), e)
    })
}

/// Gives this process, and none that it starts, priority over every other whenever it has something
/// to do: the process that writes to its pipe continues after the piece has been sent.
pub(crate) fn come_first() -> Result<(), AgentError> {
    // SAFETY: all zeroes is a valid `sched_param`.
    let mut priority: libc::sched_param = unsafe { std::mem::zeroed() };
    priority.sched_priority = 1;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the call reads a `sched_param`.
    let result = unsafe { libc::sched_setscheduler(0, policy, &priority) };
    Errno::result(result)
        .map(drop)
        .map_err(|e| AgentError::new("set", "the priority of the guest's agent", e))
}

/// Has Ctrl-Alt-Del be a signal to this process (reboot(2)), by which the machine calls.
pub(crate) fn take_calls() -> Result<(), AgentError> {
    nix::sys::reboot::set_cad_enabled(false)
        .map_err(|e| AgentError::new("set", "the meaning of Ctrl-Alt-Del", e))
}

/// The places in the kernel by which the machine calls, if the kernel lists them.
pub(crate) fn call() -> Result<Option<Call>, AgentError> {
    const LIST: &str = "/proc/kallsyms";
    let list = File::open(LIST).map_err(|e| AgentError::new("read", LIST, e))?;
    // A piece as long as the kernel gives at once.
    places(BufReader::with_capacity(64 << 10, list)).map_err(|e| AgentError::new("read", LIST, e))
}

/// Finds the places in a list such as `/proc/kallsyms` (kallsyms(9)): an address, a letter and a
/// name.
fn places(mut list: impl BufRead) -> io::Result<Option<Call>> {
    let (mut callback, mut function) = (None, None);
    let mut line = Vec::new();
    while callback.is_none() || function.is_none() {
        line.clear();
        if list.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        let address = || {
            let text = std::str::from_utf8(line.get(..16)?).ok()?;
            // Zeroes stand for an address that is hidden.
            u64::from_str_radix(text, 16).ok().filter(|address| *address > 0)
        };
        let is = |name: &str| {
            let behind = line.trim_ascii_end().strip_suffix(name.as_bytes());
            let length = "ffffffff81000000 T ".len();
            behind.is_some_and(|before| before.len() == length && before.ends_with(b" "))
        };
        if is(Call::CALLBACK) {
            callback = address();
        } else if is(Call::FUNCTION) {
            function = address();
        }
    }
    Ok(callback.zip(function).map(|(callback, function)| Call { callback, function }))
}

/// Sets the host name.
pub(crate) fn set_hostname(name: &str) -> Result<(), AgentError> {
    nix::unistd::sethostname(name).map_err(|e| AgentError::new("set the host name to", name, e))
}

/// Sets the level below which the kernel's messages reach its console
/// (Documentation/admin-guide/sysctl/kernel.rst, `printk`).
pub(crate) fn set_log_level(level: u8) -> Result<(), AgentError> {
    const FILE: &str = "/proc/sys/kernel/printk";
    fs::write(FILE, level.to_string()).map_err(|e| AgentError::new("write", FILE, e))
}

#[cfg(test)]
mod tests {
    use super::{expand, parameters, places, Call};

    #[test]
    fn a_module_has_the_parameters_that_bear_its_name() {
        let given = |key: &str| (key == "STASIS_MODULE_virtio_blk").then(|| "poll_queues=1".into());
        assert_eq!(parameters("virtio_blk.ko", given).as_c_str(), c"poll_queues=1");
        assert_eq!(parameters("virtio.ko", given).as_c_str(), c"");
    }

    #[test]
    fn the_kernels_list_has_the_places_of_a_call() {
        let list = "ffffffff8100a000 t not_ctrl_alt_del\nffffffff810b1230 T ctrl_alt_del\n\
             ffffffff82a00048 D x86_platform_ipi_callback\nno line\n";
        let places_in = |list: &str| places(list.as_bytes()).unwrap();
        let call = Call { callback: 0xffff_ffff_82a0_0048, function: 0xffff_ffff_810b_1230 };
        assert_eq!(places_in(list), Some(call));
        assert_eq!(
            places_in(&list.replace("ffffffff82a00048", "0000000000000000")),
            None,
            "hidden"
        );
        assert_eq!(places_in(&list.replace(" D ", " d_")), None);
        assert_eq!(places_in("x\n\n"), None);
    }

    #[test]
    fn expansion_is_splitmix64() {
        // The published reference sequence of SplitMix64 for the seed 1234567.
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
        ];
        assert_eq!(expand(1_234_567), expected);
    }
}
