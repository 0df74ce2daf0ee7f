//! The symbols of a guest's kernel, for gdb and profiles: those that the kernel itself lists in
//! `/proc/kallsyms`, as an ELF file that has besides how the kernel's stacks are unwound.

mod btf;
mod programs;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use stasis_experiment::{Engine, Experiment};
use stasis_guest_image::Guest;
use stasis_layout::FromBytes;
use stasis_results::Ios;
use stasis_run_events::{
    BioPlaces, KernelPlaces, MapleNode, Maps, ModuleOrc, ModuleSymbols, Modules, Orc, Tasks,
    Threads, WriteEntry,
};
use stasis_runner::{Call, Event, Runner};
use stasis_unwind::{orc, symbol_file, Symbol};

use btf::Btf;
pub use programs::Programs;

/// Files beside the guest's kernel: what the kernel lists, and the same for gdb.
const LIST: &str = "kallsyms";
const FILE: &str = "symbols-and-frames.elf";

/// The symbols of a kernel.
#[derive(Debug)]
pub struct Symbols {
    /// The file for gdb.
    pub file: PathBuf,
    /// The kernel, with its type information where it carries any.
    vmlinux: PathBuf,
    /// The functions of the guest's programs.
    programs: Arc<Programs>,
    release: String,
    all: Vec<Symbol>,
}

impl Symbols {
    /// The guest's programs.
    pub fn programs(&self) -> Arc<Programs> {
        Arc::clone(&self.programs)
    }

    /// The functions, for a profile.
    pub fn functions(&self) -> stasis_results::Symbols {
        let code = |symbol: &&Symbol| matches!(symbol.kind.to_ascii_lowercase(), 't' | 'w');
        let pair = |symbol: &Symbol| (symbol.address, symbol.name.clone());
        let kernel = self.all.iter().filter(code).map(pair).collect();
        stasis_results::Symbols::new(kernel).with_programs(Arc::clone(&self.programs) as _)
    }

    /// The places in the guest's kernel by which its agent is called.
    ///
    /// # Errors
    /// Names the place that the kernel does not have.
    pub fn call(&self) -> Result<Call> {
        let address = |name: &str| {
            self.address(name).with_context(|| {
                format!(
                    "the guest's kernel has no {name} (/proc/kallsyms): no branch can begin in it"
                )
            })
        };
        Ok(Call { callback: address(Call::CALLBACK)?, function: address(Call::FUNCTION)? })
    }

    /// Returns the kernel's tables for unwinding stacks, if it has any.
    pub fn orc(&self) -> Option<Orc> {
        Some(Orc {
            addresses: self.address("__start_orc_unwind_ip")?,
            addresses_end: self.address("__stop_orc_unwind_ip")?,
            entries: self.address("__start_orc_unwind")?,
            from_6_4: version(&self.release) >= FROM_6_4,
        })
    }

    /// Returns the place of the tasks on the kernel's processors, and of its modules.
    ///
    /// # Errors
    /// If its file cannot be read, or has one of the places of I/Os under no name that is known.
    pub fn layout(&self, wants_places: bool) -> Result<Layout> {
        let vmlinux = std::fs::read(&self.vmlinux)
            .with_context(|| format!("cannot read {}", self.vmlinux.display()))?;
        let btf = btf::section(&vmlinux, ".BTF").and_then(Btf::parse);
        let offset = |structure: &str, member: &str| btf.as_ref()?.offset(structure, member);
        let current = self.current(&offset);
        let threads = |(current, _): &(u64, u64)| {
            let comm = offset("task_struct", "comm")?;
            Some(Threads { current: *current, comm, maps: maps(&offset) })
        };
        Ok(Layout {
            threads: current.as_ref().ok().and_then(threads),
            modules: self.modules_of(&offset),
            places: match wants_places {
                true => {
                    let places = self.places(current?, offset("task_struct", "comm"))?;
                    let tasks = btf.as_ref().and_then(|btf| self.tasks_of(btf));
                    Some(KernelPlaces { bios: self.bios(&offset), tasks, ..places })
                }
                false => None,
            },
        })
    }

    /// Returns the places of the kernel's tasks and modules, if its types describe them.
    pub fn tasks_and_modules(&self) -> (Option<Tasks>, Option<Modules>) {
        let Ok(vmlinux) = std::fs::read(&self.vmlinux) else { return (None, None) };
        let Some(btf) = btf::section(&vmlinux, ".BTF").and_then(Btf::parse) else {
            return (None, None);
        };
        let offset = |structure: &str, member: &str| btf.offset(structure, member);
        (self.tasks_of(&btf), self.modules_of(&offset))
    }

    fn modules_of(&self, offset: &dyn Fn(&str, &str) -> Option<u64>) -> Option<Modules> {
        // Linux 6.4 has parts by kind, of which the first is the code.
        let (member, structure) = match offset("module", "mem") {
            Some(member) => (member, "module_memory"),
            None => (offset("module", "core_layout")?, "module_layout"),
        };
        Some(Modules {
            head: self.address("modules")?,
            list: offset("module", "list")?,
            name: offset("module", "name")?,
            base: member + offset(structure, "base")?,
            size: member + offset(structure, "size")?,
            symbols: module_symbols(offset),
            orc: module_orc(offset, version(&self.release) >= FROM_6_4),
        })
    }

    fn tasks_of(&self, btf: &Btf) -> Option<Tasks> {
        let offset = |structure: &str, member: &str| btf.offset(structure, member);
        let own = |member: &str| offset("task_struct", member);
        let (current, _) = self.current(&offset).ok()?;
        Some(Tasks {
            threads: Threads { current, comm: own("comm")?, maps: maps(&offset) },
            first: self.address("init_task")?,
            list: own("tasks")?,
            signal: own("signal")?,
            head: offset("signal_struct", "thread_head")?,
            node: own("thread_node")?,
            pid: own("pid")?,
            group: own("tgid")?,
            state: own("__state")?,
            exit_state: own("exit_state")?,
            runs: own("on_cpu")?,
            stack: own("thread")? + offset("thread_struct", "sp")?,
            space: own("mm")?,
            table: offset("mm_struct", "pgd")?,
        })
    }

    /// Returns the place where the kernel gives I/Os to its block layer, if its types describe it.
    fn bios(&self, offset: &dyn Fn(&str, &str) -> Option<u64>) -> Option<BioPlaces> {
        let iterator = offset("bio", "bi_iter")?;
        Some(BioPlaces {
            submit: self.address("blk_mq_submit_bio")?,
            device: offset("bio", "bi_bdev")?,
            disk: offset("block_device", "bd_disk")?,
            sector: iterator + offset("bvec_iter", "bi_sector")?,
            size: iterator + offset("bvec_iter", "bi_size")?,
        })
    }

    /// From a processor's GS base to the pointer to its thread, and to its count of preemptions.
    fn current(&self, offset: &dyn Fn(&str, &str) -> Option<u64>) -> Result<(u64, u64)> {
        // Linux 6.2 to 6.14 have both in one structure.
        let Some(hot) = self.address("pcpu_hot") else {
            return Ok((self.place("current_task")?, self.place("__preempt_count")?));
        };
        let place = |member: &str| {
            let missing = "the guest's kernel does not tell the layout of its pcpu_hot (BTF)";
            Ok::<_, anyhow::Error>(hot + offset("pcpu_hot", member).context(missing)?)
        };
        Ok((place("current_task")?, place("preempt_count")?))
    }

    fn place(&self, name: &str) -> Result<u64> {
        let missing = || format!("the guest's kernel lists no {name} in /proc/kallsyms");
        self.address(name).with_context(missing)
    }

    /// The places that tell the time of I/Os in the kernel.
    fn places(
        &self,
        (current, preempt_count): (u64, u64),
        comm: Option<u64>,
    ) -> Result<KernelPlaces> {
        let after = self.place("entry_SYSCALL_64_after_hwframe")?;
        let ends = self.all.iter().map(|symbol| symbol.address).filter(|address| *address > after);
        Ok(KernelPlaces {
            system_call: self.place("entry_SYSCALL_64")?,
            system_call_end: ends.min().unwrap_or(after + 1),
            wake_up: self.place("try_to_wake_up")?,
            switch: self.place("__switch_to_asm")?,
            current,
            preempt_count,
            comm,
            bios: None,
            tasks: None,
        })
    }

    /// The kernel's entries by which programs write.
    pub fn writes(&self) -> Vec<WriteEntry> {
        // Linux, arch/x86/include/asm/syscall_wrapper.h; a vector of 32 bits has one of its own before 5.10.
        const ENTRIES: [(&str, bool, bool); 5] = [
            ("__x64_sys_write", false, false),
            ("__x64_sys_writev", true, false),
            ("__ia32_sys_write", false, true),
            ("__ia32_sys_writev", true, true),
            ("__ia32_compat_sys_writev", true, true),
        ];
        let entry = |(name, is_vector, is_compat)| {
            Some(WriteEntry { address: self.address(name)?, is_vector, is_compat })
        };
        ENTRIES.into_iter().filter_map(entry).collect()
    }

    /// The address of a function.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.all.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.address)
    }
}

/// Returns the place of programs' mappings, from Linux 6.1 on.
fn maps(offset: &dyn Fn(&str, &str) -> Option<u64>) -> Option<Maps> {
    let node = |structure: &str| {
        Some(MapleNode { pivots: offset(structure, "pivot")?, slots: offset(structure, "slot")? })
    };
    let mapping = |member: &str| offset("vm_area_struct", member);
    let name = offset("dentry", "d_name")?;
    Some(Maps {
        space: offset("task_struct", "mm")?,
        root: offset("mm_struct", "mm_mt")? + offset("maple_tree", "ma_root")?,
        ranges: node("maple_range_64")?,
        gaps: node("maple_arange_64")?,
        begin: mapping("vm_start")?,
        end: mapping("vm_end")?,
        flags: mapping("vm_flags")?,
        page: mapping("vm_pgoff")?,
        file: mapping("vm_file")?,
        entry: offset("file", "f_path")? + offset("path", "dentry")?,
        parent: offset("dentry", "d_parent")?,
        hash: name + offset("qstr", "hash_len")?,
        name: name + offset("qstr", "name")?,
    })
}

/// Returns the place of a module's symbols.
fn module_symbols(offset: &dyn Fn(&str, &str) -> Option<u64>) -> Option<ModuleSymbols> {
    Some(ModuleSymbols {
        list: offset("module", "kallsyms")?,
        table: offset("mod_kallsyms", "symtab")?,
        count: offset("mod_kallsyms", "num_symtab")?,
        strings: offset("mod_kallsyms", "strtab")?,
    })
}

/// Returns the place of a module's tables for unwinding stacks.
fn module_orc(offset: &dyn Fn(&str, &str) -> Option<u64>, from_6_4: bool) -> Option<ModuleOrc> {
    let own = offset("module", "arch")?;
    let place = |member: &str| Some(own + offset("mod_arch_specific", member)?);
    Some(ModuleOrc {
        count: place("num_orcs")?,
        addresses: place("orc_unwind_ip")?,
        entries: place("orc_unwind")?,
        from_6_4,
    })
}

/// Places in the kernel from which samples and the times of I/Os are read.
#[derive(Debug)]
pub struct Layout {
    /// The names of threads.
    pub threads: Option<Threads>,
    /// Its modules.
    pub modules: Option<Modules>,
    /// The places that tell the time of I/Os, where they are wanted.
    pub places: Option<KernelPlaces>,
}

/// The first release that numbers the kinds of frames as it does today.
const FROM_6_4: (u32, u32) = (6, 4);

/// The kernel's tables for unwinding stacks as a `.debug_frame`; empty where its file has none.
fn frames(vmlinux: &[u8], symbols: &[Symbol], from_6_4: bool) -> Vec<u8> {
    let place = |name: &str| symbols.iter().find(|one| one.name == name).map(|one| one.address);
    let read = || {
        let offsets = btf::section(vmlinux, ".orc_unwind_ip")?;
        let entries = <[orc::Entry]>::ref_from_bytes(btf::section(vmlinux, ".orc_unwind")?).ok()?;
        let start = place("__start_orc_unwind_ip")?;
        // Each is relative to its own place.
        let address = |(number, bytes): (u64, &[u8; 4])| {
            (start + 4 * number).wrapping_add_signed(i32::from_le_bytes(*bytes).into())
        };
        let addresses: Vec<u64> = (0..).zip(offsets.as_chunks().0).map(address).collect();
        let end = place("_end")?;
        addresses.is_sorted().then(|| orc::debug_frame(&addresses, entries, end, from_6_4))
    };
    read().unwrap_or_default()
}

/// The first two numbers of a kernel's release, such as 6.1.0-40-cloud-amd64.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    (next(), next())
}

/// The symbols of the experiment's kernel. The kernel is asked the first time, which takes
/// some seconds.
///
/// # Errors
/// If the guest cannot be made or does not run, or tells no addresses.
pub fn of_guest(experiment: &Experiment, base: &Path, stop: &Arc<AtomicBool>) -> Result<Symbols> {
    let recipe = stasis_runner::guest::recipe_of(experiment);
    let guest: Guest = stasis_terminal::ensure_guest(&recipe, stop)?;
    let kept = |name: &str| guest.vmlinux.with_file_name(name);
    let (list, file) = (kept(LIST), kept(FILE));
    let keep = |path: &Path, bytes: &[u8]| {
        write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    };
    let all = match std::fs::read_to_string(&list) {
        Ok(text) => parse(&text),
        Err(_) => {
            let text = ask(experiment, base, stop)?;
            keep(&list, text.as_bytes())?;
            parse(&text)
        }
    };
    if !file.exists() {
        let vmlinux = std::fs::read(&guest.vmlinux)
            .with_context(|| format!("cannot read {}", guest.vmlinux.display()))?;
        let from_6_4 = version(&guest.kernel_release) >= FROM_6_4;
        keep(&file, &elf(&all, &frames(&vmlinux, &all, from_6_4)))?;
    }
    // They lie in /root there.
    let files = experiment.guest.files.iter().map(|file| {
        let name = Path::new(file).file_name().unwrap_or_default().to_string_lossy();
        (format!("/root/{name}"), base.join(file))
    });
    let in_place = guest.lower()?.map(|(_, lower)| lower);
    let (vmlinux, release) = (guest.vmlinux.clone(), guest.kernel_release.clone());
    let programs = Programs::new(guest.root.clone(), files.collect()).with(in_place, guest);
    Ok(Symbols { file, vmlinux, programs: Arc::new(programs), release, all })
}

/// Whole, or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut file, bytes)?;
    file.persist(path)?;
    Ok(())
}

/// The list of the kernel, by a guest that does nothing else.
fn ask(experiment: &Experiment, base: &Path, stop: &Arc<AtomicBool>) -> Result<String> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let mut asking = Experiment {
        guest: experiment.guest.clone(),
        engine: Engine::Exact,
        command: vec!["cat".into(), "/proc/kallsyms".into()],
        results: Some(folder.path().join("results")),
        ..Experiment::default()
    };
    asking.guest.stdin = None;
    asking.finish()?;
    let mut text = Vec::new();
    let run =
        Runner::new(&asking).base(base).stop(stop).ios(Ios::None).run(&mut |event: Event| {
            if let Event::Output(bytes) = event {
                text.extend_from_slice(bytes);
            }
            Ok(())
        })?;
    let text = String::from_utf8_lossy(&text).into_owned();
    if run.status != 0 || parse(&text).is_empty() {
        bail!(
            "the guest's kernel lists no symbols (/proc/kallsyms): name a vmlinux by --symbols FILE"
        );
    }
    Ok(text)
}

/// The symbols of the kernel itself, without those of its modules, whose places differ.
pub fn parse(text: &str) -> Vec<Symbol> {
    let symbol = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let kind = words.next()?.chars().next()?;
        let name = words.next()?.to_owned();
        (words.next().is_none() && address != 0).then_some(Symbol { address, kind, name })
    };
    text.lines().filter_map(symbol).collect()
}

/// The symbols and the frames of a kernel as a file for gdb.
fn elf(symbols: &[Symbol], frames: &[u8]) -> Vec<u8> {
    let place = |name: &str| symbols.iter().find(|one| one.name == name).map(|one| one.address);
    let begin = place("_text").or(place("_stext")).unwrap_or(0);
    let code_end = place("_etext").unwrap_or(begin).max(begin);
    let end = place("_end").unwrap_or(code_end).max(code_end);
    symbol_file(symbols, begin..code_end, code_end..end, frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const TEXT: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000040 t local_one
ffffffff81543ae0 T submit_bio
ffffffff81c01000 T _etext
ffffffff82a079c0 D jiffies
ffffffff83000000 B _end
ffffffffc0001000 t of_a_module\t[ext4]
";

    #[test]
    fn a_release_has_a_version() {
        assert_eq!(version("6.12.9+deb13-cloud-amd64"), (6, 12));
        assert_eq!(version("7.0-rc1"), (7, 0));
        assert_eq!(version(""), (0, 0));
    }

    #[test]
    fn a_kernels_own_symbols_are_kept() {
        let symbols = parse(TEXT);
        assert_eq!(symbols.len(), 6);
        assert_eq!(symbols[2].name, "submit_bio");
        assert!(parse("not a symbol\n0 T\n").is_empty());
    }

    /// nm is the second opinion.
    #[test]
    fn nm_reads_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("symbols.elf");
        write(&path, &elf(&parse(TEXT), &[])).unwrap();
        let nm = Command::new("nm").arg("-n").arg(&path).output().unwrap();
        let text = String::from_utf8(nm.stdout).unwrap();
        for line in ["ffffffff81000040 t local_one", "ffffffff82a079c0 D jiffies"] {
            let (address, name) = (&line[..16], &line[19..]);
            assert!(
                text.lines().any(|one| one.starts_with(address) && one.ends_with(name)),
                "{text}"
            );
        }
    }
}
