//! sqlite and fio in a guest under stock QEMU, each on an ordered disk and on
//! QEMU's own qcow2 images with cache=writeback and cache=unsafe, in turns.
//!
//! `guest FOLDER [ROUNDS [STASIS]]`: images are made in FOLDER. The ordered disk is
//! served by `STASIS serve` to QEMU's vhost-user-blk, or without STASIS by the
//! example `nbd`, which must have been built, to QEMU's NBD client. Needs QEMU and a guest (`stasis guest build`), and prints operations a second of
//! each, medians of the rounds, and their ratios.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use stasis_guest_image::{build, default_cache, Guest, Recipe};
use stasis_qemu_vm::{Backend, Cache, Config, Drive, Vm};

const KINDS: [&str; 3] = ["ordered", "writeback", "unsafe"];

/// Prints `NAME OPERATIONS SECONDS` for each load.
const SCRIPT: &str = r#"
mkfs.ext4 -q -F /dev/vda && mkdir -p /tmp/m && mount /dev/vda /tmp/m && cd /tmp/m || exit 1
now() { date +%s.%N; }
for mode in delete wal; do
    echo "pragma journal_mode=$mode; pragma synchronous=full; create table t(k integer primary key, v text);" >/tmp/inserts
    i=0; while [ $i -lt 600 ]; do echo "insert into t(v) values('$i-0123456789012345678901234567890123456789012345678901234567890123456789');"; i=$((i+1)); done >>/tmp/inserts
    begin=$(now)
    sqlite3 $mode.db </tmp/inserts >/dev/null || exit 1
    echo "RESULT sqlite-$mode 600 $begin $(now)"
done
dd if=/dev/zero of=/tmp/m/file bs=1M count=64 conv=fsync 2>/dev/null
for size in 4k 64k; do for sync in fsync fdatasync; do
    fio --name=f --filename=/tmp/m/file --size=64m --rw=randwrite --bs=$size --$sync=1 --overwrite=1 --ioengine=psync \
        --number_ios=1500 --output-format=json >/tmp/fio || exit 1
    ms=$(sed -n '/"write"/,/"trim"/p' /tmp/fio | sed -n 's/.*"runtime" : \([0-9]*\).*/\1/p' | head -1)
    echo "RESULT fio-$size-$sync 1500 0 $(echo $ms | sed 's/\(...\)$/.\1/')"
done; done
cd /; umount /tmp/m
"#;

fn guest() -> Result<Guest, Box<dyn Error>> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--release", "-p", "stasis-guest-agent", "--example", "init"]);
    if !command.status()?.success() {
        return Err("the guest's agent does not build".into());
    }
    let cache = default_cache().ok_or("no folder for a cache; set XDG_CACHE_HOME")?;
    Ok(build(&Recipe::default(), &beside("init")?, &cache, &Default::default(), &mut |_| {})?)
}

/// Another example of the workspace.
fn beside(name: &str) -> Result<PathBuf, Box<dyn Error>> {
    Ok(std::env::current_exe()?.with_file_name(name))
}

fn serve(folder: &Path, socket: &Path, stasis: Option<&str>) -> Result<Child, Box<dyn Error>> {
    let _ = std::fs::remove_file(socket);
    let image = folder.join("ordered.img");
    let mut child = match stasis {
        Some(stasis) => {
            if !image.exists() {
                stasis_ordered_disk::OrderedDisk::create(&image, 2 << 30)?;
            }
            let drive = format!("name=ordered,model=null,medium=ordered:{}", image.display());
            let mut command = Command::new(stasis);
            command.args(["serve", "--drive", &drive, "--sockets"]).arg(folder).spawn()?
        }
        None => Command::new(beside("nbd")?)
            .arg(image)
            .arg(socket)
            .args(["2048", "ordered"])
            .stdin(Stdio::piped())
            .spawn()?,
    };
    while !socket.exists() {
        if let Some(status) = child.try_wait()? {
            return Err(format!("nbd: {status}").into());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Ok(child)
}

fn drive(kind: &str, folder: &Path, socket: &Path, user: bool) -> Result<Drive, Box<dyn Error>> {
    let cache = match kind {
        "ordered" if user => {
            return Ok(Drive::new(Backend::VhostUser { socket: socket.into() }));
        }
        "ordered" => {
            let path = socket.display();
            return Ok(Drive::new(Backend::Other(format!(
                "driver=nbd,server.type=unix,server.path={path}"
            ))));
        }
        "writeback" => Cache::Writeback,
        _ => Cache::Unsafe,
    };
    let path = folder.join(format!("{kind}.qcow2"));
    if !path.exists() {
        let mut make = Command::new("qemu-img");
        make.args(["create", "-q", "-f", "qcow2"]).arg(&path).arg("2G");
        if !make.status()?.success() {
            return Err("qemu-img".into());
        }
    }
    Ok(Drive::new(Backend::Qcow2 { path, cache }))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("use: guest FOLDER [ROUNDS]")?);
    let rounds = arguments.next().map_or(Ok(3), |text| text.parse::<usize>())?;
    let folder = folder.canonicalize()?;
    let stasis = arguments.next();
    let guest = guest()?;
    let mut figures: BTreeMap<String, [Vec<f64>; 3]> = BTreeMap::new();
    for _ in 0..rounds {
        for (index, kind) in KINDS.into_iter().enumerate() {
            let socket = folder.join("ordered.sock");
            let mut server = match kind {
                "ordered" => Some(serve(&folder, &socket, stasis.as_deref())?),
                _ => None,
            };
            let mut config = Config::new(guest.clone());
            config.drives = vec![drive(kind, &folder, &socket, stasis.is_some())?];
            config.shared_memory = stasis.is_some();
            let mut vm = Vm::start(&config)?;
            let (outcome, output) = vm.shell(SCRIPT)?;
            let output = String::from_utf8_lossy(&output);
            if outcome.status != 0 {
                return Err(format!("{kind}: {outcome:?}: {output}").into());
            }
            vm.stop()?;
            if let Some(server) = &mut server {
                // The end of its input is the example's end.
                drop(server.stdin.take());
                if stasis.is_some() {
                    server.kill()?;
                }
                server.wait()?;
            }
            for line in output.lines().filter_map(|line| line.strip_prefix("RESULT ")) {
                let words: Vec<&str> = line.split(' ').collect();
                let [name, count, begin, end] = words[..] else { continue };
                let seconds = end.parse::<f64>()? - begin.parse::<f64>()?;
                let rate = count.parse::<f64>()? / seconds;
                eprintln!("{kind} {name}: {rate:.0}");
                figures.entry(name.into()).or_default()[index].push(rate);
            }
        }
    }
    println!("| load | ordered | writeback | unsafe | / writeback | / unsafe |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (name, mut rates) in figures {
        let [ours, writeback, lost] = [0, 1, 2].map(|kind: usize| {
            rates[kind].sort_by(f64::total_cmp);
            rates[kind][rates[kind].len() / 2]
        });
        println!(
            "| {name} | {ours:.0} | {writeback:.0} | {lost:.0} | {:.1} | {:.2} |",
            ours / writeback,
            ours / lost
        );
    }
    Ok(())
}
