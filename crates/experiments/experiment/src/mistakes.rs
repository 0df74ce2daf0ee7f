//! Mistakes of meaning in a file: each has the line of the key at fault, or of its table.

use std::path::Path;

use proptest::strategy::Strategy;

use crate::{DriveSpec, Expectation, Experiment, ExperimentError};

/// End of the line at which the mistake is to be.
const HERE: &str = "#!";

/// Beginnings of experiments, for the mistakes behind them.
const ONE: &str = "command = ['true']\n";
const DRIVE: &str = "[[drive]]\nname = 'd'\nmodel = 'null'\nmedium = 'ram:8MiB'\n";
const TWO: &str = "command = ['true']\n[[machine]]\nname = 'a'\n[[machine]]\nname = 'b'\n";
const LAN: &str = "[[network]]\nname = 'lan'\n";
const TIMES: &str = "draws = 1\nwithin = '1s'\nlongest = '1s'\n";

fn read(text: &str) -> Result<Experiment, ExperimentError> {
    Experiment::of_text(Path::new("e.toml"), text)
}

fn finish(text: &str) -> Result<Experiment, ExperimentError> {
    let mut experiment = read(text)?;
    experiment.finish().map(|()| experiment)
}

/// The error's line, and its sentence.
fn refused(text: &str) -> (Option<usize>, String) {
    match finish(text) {
        Err(ExperimentError::File { error, .. }) => (Some(error.line), error.error.to_string()),
        Err(error) => (None, error.to_string()),
        Ok(_) => panic!("nothing is refused:\n{text}"),
    }
}

fn check(before: &str, cases: &[(&str, &str)]) {
    for (text, sentence) in cases {
        let text = format!("{before}{text}");
        let wanted = text.lines().position(|line| line.ends_with(HERE)).map(|line| line + 1);
        let (line, found) = refused(&text);
        assert_eq!(line, wanted, "{found}\n{text}");
        assert!(found.contains(sentence), "{sentence}: {found}\n{text}");
    }
}

#[test]
fn of_the_whole() {
    check(
        "",
        &[
            ("", "no command: say what to run"),
            ("seed = 1\n[machine]\nmemory = '1GiB'\n", "no command: say what to run"),
            ("command = ['{{machine.name}}'] #!\n", "word 1, line 1"),
            ("command = [\n'true',\n'{{machine.name}}', #!\n]\n", "word 2, line 1"),
        ],
    );
    check(
        ONE,
        &[
            ("[guest]\nroot = 'host'\npackages = ['fio'] #!\n", "packages: they make"),
            ("history = true #!\n", "history: it is of several machines"),
            ("[[network]] #!\n", "joins several machines"),
            ("[[expect]]\nthat = 'read.p99 < 1h'\n[[expect]]\nthat = 'what < 1' #!\n", "what"),
            ("[[expect]]\nname = 'x'\nthat = 'e.read.p99 < 1ms' #!\n", "no drive or job"),
            ("expect = [\n{ that = 'read.p99 < 1ms' },\n{ that = 'x' }, #!\n]\n", "x"),
        ],
    );
}

#[test]
fn of_machines() {
    check(
        ONE,
        &[
            ("[machine]\nmemory = '1MiB' #!\n", "memory is 1MiB"),
            ("[machine]\nquantum = '0s' #!\n", "quantum is 0"),
            ("machine.quantum = '0s' #!\n", "quantum is 0"),
            ("machine = { vcpus = 2, quantum = '0s' } #!\n", "quantum is 0"),
            // An older name of the key: the table.
            ("[machine] #!\nslice = '0s'\n", "quantum is 0"),
            ("[machine]\nthreads = 0 #!\n", "threads is 0"),
            ("[machine]\ncoordinate = true #!\n", "coordinate needs"),
            ("[machine]\nname = 'a' #!\n", "[machine] is one machine"),
            ("[machine]\ncount = 2 #!\n", "[machine] is one machine"),
            ("[machine]\nwait = false #!\n", "[machine] is one machine"),
            ("[machine]\ncommand = ['true'] #!\n", "[machine] is one machine"),
            ("[machine.variables] #!\na = 'b'\n", "[machine] is one machine"),
            (
                "[machine]\n[[machine.drive]] #!\nmodel = 'null'\nmedium = 'ram:1MiB'\n",
                "its own [[machine.drive]]",
            ),
            ("[machine]\n[[machine.disk]] #!\non = 'd'\n", "its own [[machine.drive]]"),
            (
                "[[drive]]\nmodel = 'null'\nmedium = 'ram:1MiB'\n\
                 [[drive]]\nmodel = 'null'\nmedium = 'ram:1MiB'\ncontrollers = 5\n\
                 memory-buffer = '64MiB' #!\n[[drive]]\nmodel = 'null'\nmedium = 'ram:1MiB'\n",
                "memory buffers of 320MiB",
            ),
        ],
    );
    let many: String = (0..4)
        .map(|_| "[[drive]]\nmodel = 'null'\nmedium = 'ram:1MiB'\ncontrollers = 8\n")
        .collect();
    let last = "[[drive]] #!\nmodel = 'null'\nmedium = 'ram:1MiB'\n";
    check(ONE, &[(&format!("{many}{last}"), "controllers of drives")]);
    check(
        TWO,
        &[
            ("[[machine]]\nmemory = '1MiB' #!\n", "machine machine2: memory is 1MiB"),
            ("[[machine]]\nname = 'a' #!\n", "two machines have the name `a`"),
            ("[[machine]]\nname = 'd/b' #!\n", "letters, digits"),
            ("[[machine]]\nrewind = true #!\n", "rewind is for one machine alone"),
            ("quantum = '1us' #!\n", "the same for all machines"),
            ("cpu-speed = '1GHz' #!\n", "the same for all machines"),
            ("[[machine]]\nvariables = { name = 'x' } #!\n", "`name` is there already"),
            ("[machine.variables]\nx = 'y'\n'1x' = 'y' #!\n", "is no variable's name"),
            ("[machine.variables]\nx = \"\\u0000\" #!\n", "has a zero byte"),
            ("command = ['{{machine.nam}}'] #!\n", "machine b: command: word 1"),
            ("[[machine]]\ncount = 2\n[[machine]]\nmemory = '1MiB' #!\n", "memory is 1MiB"),
            ("[[machine]]\nname = 'c'\ncount = 3\nmemory = '1MiB' #!\n", "machine c1: memory is"),
            (
                "[[machine]]\nname = 'c'\ncount = 2\n[[machine]]\nname = 'c1' #!\n",
                "two machines have the name `c1`",
            ),
        ],
    );
    check(
        "command = ['{{machine.role}}'] #!\n",
        &[("[[machine]]\nname = 'a'\n[[machine]]\nname = 'b'\n", "machine a: command: word 1")],
    );
    check(
        ONE,
        &[
            (
                "[[machine]]\nwait = false #!\n[[machine]]\nwait = false\n",
                "no machine is waited for",
            ),
            ("[[machine]]\n[[machine]]\nthreads = 2 #!\n", "the same for all machines"),
            ("[[machine]]\nthreads = 2\n[[machine]] #!\n", "the same for all machines"),
        ],
    );
    let drives: String = (0..5)
        .map(|_| "[[machine.drive]]\nmodel = 'null'\nmedium = 'ram:1MiB'\ncontrollers = 8\n")
        .collect();
    let text = format!("{} #!\n", drives.trim_end());
    check(TWO, &[(&text, "b: 40 controllers of drives")]);
}

#[test]
fn of_drives() {
    check(
        &format!("{ONE}{DRIVE}"),
        &[
            ("block-size = 1024 #!\n", "drive 0: block-size is 1024"),
            ("serial = '12345678901234567890123456789' #!\n", "1 to 20 printable ASCII"),
            ("interface = 'virtio-blk'\nserial = '' #!\n", "serial is ``"),
            ("serial = \"\\u00e9\" #!\n", "1 to 20 printable ASCII"),
            ("interface = 'virtio-blk'\nblock-size = 16384 #!\n", "512 or 4096"),
            ("metadata = { size = 16 } #!\n", "8 with a guard of 16 bits"),
            ("[drive.metadata] #!\nsize = 8\nfirst = true\n", "`first` is of protection"),
            ("scheduler = 'bfq'\nmetadata = { size = 8 } #!\n", "no scheduler"),
            ("interface = 'virtio-blk'\ncontrollers = 2 #!\n", "interface=nvme only"),
            ("interface = 'virtio-blk'\nnamespaces = 2 #!\n", "interface=nvme only"),
            ("placement = 'streams:2' #!\ninterface = 'virtio-blk'\n", "interface=nvme only"),
            ("controllers = 2\npower-states = '8W/idle:50mW:2ms:1500us' #!\n", "one controller"),
            ("power-states = '8W/idle:1W' #!\ninterface = 'virtio-blk'\n", "interface nvme"),
            ("limits = { burst-iops = 9 } #!\n", "limits: burst-iops needs iops"),
            ("[drive.limits]\niops = 5\nburst-iops = 4 #!\n", "must be more than iops"),
            ("[drive.limits]\niops = 5\nburst-iops = 9 #!\n", "burst-iops needs burst"),
            ("[drive.limits]\nburst = '1s' #!\niops = 5\n", "burst needs burst-iops"),
            ("[drive.limits]\niops = 5\nio-size = 0 #!\n", "io-size must be"),
            ("[drive.limits]\nbandwidth = '1MB/s'\nio-size = 9 #!\n", "io-size needs iops"),
            ("interface = 'virtio-blk'\nzones = { size = '1MiB' } #!\n", "need the interface nvme"),
            ("[drive.zones]\nsize = '1MiB'\n[drive.key-value] #!\n", "exclude each other"),
            ("interface = 'virtio-blk'\nprograms = {} #!\n", "programs need the interface nvme"),
            ("programs = {}\nnamespaces = 127 #!\n", "at most 126"),
            ("[drive.programs] #!\nmemory = '2GiB'\n", "up to 1GiB"),
            ("memory-buffer = '3MiB' #!\n", "power of two"),
            ("interface = 'virtio-blk'\nmemory-buffer = '2MiB' #!\n", "interface nvme"),
            (
                "[[drive.namespace]]\n[[drive.namespace]]\nblock-size = 8192 #!\n",
                "namespace[1].block",
            ),
            ("interface = 'virtio-blk'\n[[drive.namespace]] #!\n", "namespace needs the interface"),
            ("namespaces = 2 #!\n[[drive.namespace]]\n", "leave `namespaces` or"),
            ("zones.size = '1MiB' #!\n[[drive.namespace]]\n", "leave `zones` or"),
            (
                "[[drive.namespace]]\nzones = { size = '1MiB' }\nkey-value = {} #!\n",
                "namespace[0].zones and key-value exclude",
            ),
            ("[[drive.namespace]]\nnvm-set = 1 #!\n", "say endurance-group too"),
            (
                "[[drive.namespace]]\nendurance-group = 1\n[[drive.namespace]] #!\n",
                "namespace[1] has no endurance-group",
            ),
            (
                "[[drive.namespace]]\nendurance-group = 1\nplacement = 'none'\n\
                 [[drive.namespace]]\nendurance-group = 1\nplacement = 'fdp:8x64MiB' #!\n",
                "different placements",
            ),
            (
                "[[drive.namespace]]\nendurance-group = 1\nplacement = 'streams:2' #!\n",
                "which are of the drive",
            ),
            (
                "placement = 'streams:2' #!\n\
                 [[drive.namespace]]\nendurance-group = 1\nplacement = 'fdp:8x64MiB'\n",
                "exclude each other",
            ),
            (
                "scheduler = 'bfq' #!\n[[drive.namespace]]\nendurance-group = 1\n",
                "without scheduler and limits",
            ),
            ("[[drive]]\nname = 'd' #!\nmodel = 'null'\nmedium = 'ram:1MiB'\n", "two drives"),
        ],
    );
    for name in ["a/b", "../x", "a\\\\b", "", ".x", "a b", "a\\nb", "\u{e9}", &"x".repeat(201)] {
        let drive = format!("name = \"{name}\" #!\nmodel = 'null'\nmedium = 'ram:1MiB'\n");
        check(ONE, &[(&format!("[[drive]]\n{drive}"), "drive 0: its name is")]);
        check(TWO, &[(&format!("[[machine.drive]]\n{drive}"), "1 to 200 letters, digits")]);
    }
    check(
        ONE,
        &[(
            "[[drive]]\nmedium = 'ram:1GiB'\nkey-value = {}\nmodel = { kind = 'flash', state = 's' } #!\n",
            "the drive loses its pairs",
        )],
    );
    let namespaces = "[[drive.namespace]]\n".repeat(128);
    check(
        &format!("{ONE}{DRIVE}{namespaces}"),
        &[("[[drive.namespace]] #!\n", "there can be 128 namespaces")],
    );
    check(
        TWO,
        &[
            (
                "[[machine.drive]]\nmodel = 'null'\nmedium = 'ram:1MiB'\nblock-size = 7 #!\n",
                "machine 1, drive 0: block-size is 7",
            ),
            (
                "[[machine.drive]]\nmodel = 'null'\nmedium = 'ram:1MiB'\nname = 'd'\n\
                 [[machine.drive]]\nname = 'd' #!\nmodel = 'null'\nmedium = 'ram:1MiB'\n",
                "two drives have the name `d`",
            ),
            (
                "[[machine.drive]]\nmodel = 'null'\nmedium = 'ram:1MiB'\n\
                 limits = { iops = 9 } #!\n",
                "limits of a drive are those of the one machine",
            ),
            ("[[drive]] #!\nmodel = 'null'\nmedium = 'ram:1MiB'\n", "nothing is on it"),
        ],
    );
}

#[test]
fn of_tenants() {
    check(
        &TWO.replacen(ONE, &format!("{ONE}{DRIVE}"), 1),
        &[
            ("[[machine.disk]]\non = 'e' #!\n", "machine b: there is no drive `e` to share"),
            ("[[machine.disk]]\non = 'd'\nioprio = 'idel' #!\n", "did you mean `idle`?"),
            ("[[machine.disk]]\non = 'd'\nioprio = 'idle/9' #!\n", "must be 0 to 7"),
            ("[[machine.disk]]\non = 'd'\nlimits = { burst-iops = 1 } #!\n", "needs iops"),
            ("[[machine.disk]]\non = 'd'\nimage = 'i'\nsize = '1MiB' #!\n", "leave `size` out"),
            ("[[machine.disk]]\non = 'd'\ndurability = 'ordered' #!\n", "are of images"),
            ("[[machine.disk]]\non = 'd'\nmax-lag = '1s' #!\n", "are of images"),
            ("[[machine.disk]]\nname = 'd' #!\non = 'd'\n", "two drives have the name `d`"),
            (
                "[[machine.disk]]\non = 'd'\n[[machine.disk]] #!\non = 'd'\n",
                "two drives have the name `b.d`",
            ),
            ("[[machine.disk]]\non = 'd'\nname = '../x' #!\n", "machine b: its name is `../x`"),
            ("[[workload]]\nname = 'a/b' #!\npattern = '1r-seq'\n", "letters, digits"),
            ("[[workload]] #!\n", "by one of pattern, job and job-file"),
            ("[[workload]]\npattern = '1r-seq'\njob = 'x' #!\n", "by one of pattern"),
            ("[[workload]]\npattern = '1r-sec' #!\n", "pattern is `1r-sec`"),
            ("[[workload]]\npattern = '1r-seq'\ndrive = 'e' #!\n", "there is no drive `e`"),
            ("[[workload]]\npattern = '1r-seq'\nioprio = 'x' #!\n", "unknown ioprio"),
            (
                "[[workload]]\npattern = '1r-seq'\n[workload.limits]\nburst-iops = 2 #!\n",
                "limits: burst-iops needs iops",
            ),
            (
                "[[workload]]\npattern = '1r-seq'\nname = 'w'\n\
                 [[workload]]\npattern = '1r-seq'\nname = 'w' #!\n",
                "two workloads have the name `w`",
            ),
        ],
    );
    check(ONE, &[("[[workload]] #!\npattern = '1r-seq'\n", "say which drive it is on")]);
}

#[test]
fn of_networks() {
    check(
        &format!("{TWO}{LAN}"),
        &[
            ("[[network]]\nname = 'lan' #!\n", "two networks have the name"),
            ("[[network]]\nname = 'l n' #!\n", "letters, digits"),
            ("machines = ['a', 'c'] #!\n", "there is no machine `c`"),
            ("machines = [\n'a',\n'c', #!\n]\n", "there is no machine `c`"),
            ("machines = [\n'a',\n'a', #!\n]\n", "is on it twice"),
            ("[[network.outside]]\nname = 'a' #!\nsocket = 's'\n", "be no machine's"),
            ("[[network.outside]] #!\nname = 'x'\n", "give it the `socket`"),
            (
                "outside = [{ socket = 'x' },\n{ socket = 'y' }] #!\n",
                "two of its ports have the name `outside`",
            ),
            ("[[network]]\nsubnet = '10.0.0.0/16' #!\n", "addresses of the network lan"),
            ("subnet = '10.0.0.0/31' #!\n", "subnet"),
            ("delay = '10ns' #!\n", "from a to b: delay is 10ns"),
            ("delay = '2h' #!\n", "at most"),
            ("delay = '20us'\njitter = '20us' #!\n", "delay less jitter"),
            ("loss = 2.0 #!\n", "loss is 2"),
            (
                "corrupt = 0.5\n[[network.link]]\nloss = 0.1\n[[network.link]]\ncorrupt = 7.5 #!\n",
                "7.5",
            ),
            ("loss = 0.1\n[[network.link]]\nfrom = 'b'\njitter = '1s' #!\n", "from b to a: delay"),
            ("red = {} #!\n", "red: give it `min`"),
            ("[network.red]\nmin = 100\nmax = 10 #!\n", "red: max is"),
            ("[network.red]\nmin = 100\nprobability = 2.0 #!\n", "red: probability is 2"),
            ("[network.red]\nmin = 100\nweight = 2.0 #!\n", "red: weight is 2"),
            ("red = { min = 100 } #!\n", "red needs bandwidth"),
            ("[[network.link]]\nto = 'c' #!\n", "link: to is `c`"),
            ("[[network.link]]\nfrom = 'a'\nto = 'a' #!\n", "from and to are one machine"),
            ("[[network.link]]\nbegin = '2s'\nend = '1s' #!\n", "link: it ends at 1s"),
            ("[[network.link]]\nqueue = '1KiB' #!\n", "link: queue needs bandwidth"),
            (
                "[[network.link]]\nbandwidth = '1Gbit/s'\nred = { max = 1 } #!\n",
                "link: red: give it `min`",
            ),
        ],
    );
    // A machine has room for fewer.
    let networks = "[[network]]\nmachines = ['a']\n[[network]]\nmachines = ['b']\n".repeat(16);
    check(
        &format!("{TWO}{networks}"),
        &[("[[network]] #!\nmachines = ['a']\n", "33 networks, but there can be 32")],
    );
    let networks = "[[network]]\n".repeat(31);
    check(
        "",
        &[(
            &format!("{TWO}{networks}").replacen("[[machine]]", "[[machine]] #!", 1),
            "a: 0 controllers",
        )],
    );
}

#[test]
fn of_faults_of_drives() {
    check(
        &format!("{ONE}{DRIVE}[[fault]]\n"),
        &[
            ("kind = 'read-error'\n[[fault]] #!\n", "fault 1: it has no kind"),
            ("kind = 'stall'\ndrive = 'e' #!\n", "there is no drive `e`"),
            ("kind = 'stall'\nmachines = ['x'] #!\n", "machines is for the kind"),
            ("kind = 'stall'\nbegin = '2s'\nend = '1s' #!\n", "it ends at 1s"),
            ("kind = 'slow' #!\n", "slow needs factor or delay"),
            ("kind = 'namespace-resized' #!\n", "needs a size"),
            ("kind = 'namespace-resized'\nsize = 5000 #!\n", "multiple of 4096"),
            ("kind = 'read-error'\nrate = 7.5 #!\n", "rate is 7.5"),
            ("kind = 'slow'\nfactor = 0.5 #!\n", "factor is 0.5"),
            ("kind = 'bit-rot'\ntimes = 100000000000 #!\n", "of bit-rot at most"),
            ("kind = 'read-error'\nlength = 0 #!\n", "at least one byte"),
            ("kind = 'namespace-detached'\nnamespace = 2 #!\n", "one of the drive's, 1 to 1"),
            ("kind = 'gone'\ncontroller = 2 #!\n", "one of the drive's, 1 to 1"),
            ("kind = 'path-inaccessible' #!\n", "say `controllers = 2`"),
            ("kind = 'gone'\n[[fault]] #!\nkind = 'gone'\n", "fault 1: it is during fault 0"),
            (
                "kind = 'gone'\n[[fault]]\nkind = 'gone'\nbegin = '1s' #!\n",
                "fault 1: it is during fault 0",
            ),
            ("kind = 'stall'\nat-io = 'd' #!\n", "must be a drive's name"),
            ("kind = 'stall'\nat-io = 'e:1' #!\n", "there is no drive `e`"),
            ("kind = 'stall'\nat-packet = 'lan' #!\n", "a network's name"),
            ("kind = 'stall'\nat-packet = 'lan:1' #!\n", "at-packet needs a network"),
            ("kind = 'stall'\nat-output = '(' #!\n", "no regular expression"),
            ("kind = 'stall'\nat-output = 'x'\noutput-of = 'a' #!\n", "leave output-of out"),
            ("kind = 'stall'\noutput-of = 'a' #!\n", "output-of says whose output"),
            ("kind = 'read-error'\ntimes = 0 #!\n", "times is 0"),
            ("kind = 'stall'\nname = 'x' #!\n", "name is for a fault with"),
            ("kind = 'stall'\nwhen = 'asked'\nname = 'a b' #!\n", "its name is `a b`"),
            ("kind = 'stall'\nat-io = 'd:1'\nwhen = 'asked' #!\n", "at-io and when are given"),
            (
                "kind = 'stall'\nwhen = 'asked'\nname = 'x' #!\n\
                 [[fault]]\nkind = 'stall'\nwhen = 'asked'\nname = 'x'\n",
                "another fault has the name `x`, too",
            ),
            (
                "kind = 'stall'\nat-io = 'd:1' #!\n[[workload]]\npattern = '1r-seq'\n",
                "drive d is shared",
            ),
        ],
    );
    for keys in ["kind = 'stuck-queue' #!\n", "kind = 'gone' #!\n"] {
        check(
            &format!("{ONE}{DRIVE}interface = 'virtio-blk'\n[[fault]]\n"),
            &[(keys, "drive d has no")],
        );
    }
    check(
        &format!("{ONE}{DRIVE}[[drive]]\nmodel = 'null'\nmedium = 'ram:1MiB'\n"),
        &[("[[fault]] #!\nkind = 'stall'\n", "give it a drive: there are `d`, `drive1`")],
    );
    check(ONE, &[("[[fault]] #!\nkind = 'stall'\n", "no drive that it can befall")]);
    check(
        &format!("{ONE}{DRIVE}[machine]\nrewind = true\n"),
        &[("[[fault]] #!\nkind = 'gone'\n", "a machine with rewind")],
    );
    let faults = "[[fault]]\nkind = 'read-error'\n".repeat(1024);
    check(
        &format!("{ONE}{DRIVE}{faults}"),
        &[("[[fault]] #!\nkind = 'read-error'\n", "1025 faults, but there can be 1024")],
    );
}

#[test]
fn of_faults_of_machines_and_networks() {
    check(
        &format!("{TWO}{LAN}[[fault]]\n"),
        &[
            ("kind = 'pause'\nmachine = 'c' #!\n", "there is no machine `c`"),
            (
                "kind = 'kill'\nmachine = 'a'\nat-output = 'x'\noutput-of = 'c' #!\n",
                "no machine `c`",
            ),
            ("kind = 'reset'\nmachine = 'a'\nat = '1s'\nat-packet = 'lan:1' #!\n", "are given"),
            (
                "kind = 'reset'\nmachine = 'a'\nat-packet = 'van:1' #!\n",
                "there is no network `van`",
            ),
            ("kind = 'reset'\nmachine = 'a'\nat = '1s'\ntimes = 2 #!\n", "counts the lines"),
            (
                "kind = 'pause'\nmachine = 'a'\nend = '2s'\n\
                 [[fault]]\nkind = 'pause'\nmachine = 'a'\nbegin = '1s' #!\nend = '3s'\n",
                "fault 1: it is during fault 0",
            ),
            ("kind = 'kill'\nmachine = 'a'\nat = '1s'\nprocess = '' #!\n", "give it `process`"),
            ("kind = 'memory-shortage'\nmachine = 'a'\nmemory = 0 #!\n", "give it `memory`"),
            ("kind = 'memory-shortage'\nmachine = 'a'\nmemory = '1GiB' #!\n", "has 1GiB in all"),
            ("kind = 'clock-jump'\nmachine = 'a'\nat = '1s'\nby = '5' #!\n", "needs a unit"),
            ("kind = 'clock-jump'\nmachine = 'a'\nat = '1s'\nby = '4000000h' #!\n", "too far"),
            ("kind = 'clock-drift'\nmachine = 'a'\nppm = 100001 #!\n", "must be -100000"),
            ("kind = 'partition'\nmachines = ['a']\nnetwork = 'van' #!\n", "no network `van`"),
            ("kind = 'partition'\nmachines = ['a',\n'c'] #!\n", "there is no machine `c`"),
            ("kind = 'partition'\nmachines = ['a']\npeers = ['c'] #!\n", "there is no machine `c`"),
            (
                "kind = 'partition'\nmachines = ['a']\npeers = ['a'] #!\n",
                "among machines and peers",
            ),
            ("kind = 'partition'\nmachines = ['a', 'b'] #!\n", "no network joins"),
            ("kind = 'partition'\nmachines = ['a']\nrate = 7.5 #!\n", "rate is 7.5"),
        ],
    );
    check(
        &format!("{TWO}{LAN}[[fault]] #!\n"),
        &[
            ("kind = 'pause'\n", "give it a machine"),
            ("kind = 'pause'\nmachine = 'a'\n", "give the pause an end"),
            ("kind = 'reset'\nmachine = 'a'\n", "say when it happens"),
            ("kind = 'hang'\nmachine = 'a'\nat = '1s'\n", "give the fault a `restart`"),
            ("kind = 'kill'\nmachine = 'a'\nprocess = 'x'\n", "say when it happens"),
            ("kind = 'clock-jump'\nmachine = 'a'\nat = '1s'\n", "give it `by`"),
            ("kind = 'clock-drift'\nmachine = 'a'\n", "give it `ppm`"),
            ("kind = 'partition'\n", "give it `machines`"),
            ("kind = 'slow-network'\nmachines = ['a']\n", "give it `delay`"),
        ],
    );
    check(
        ONE,
        &[
            ("[[fault]]\nkind = 'partition' #!\nmachines = ['a']\n", "no [[network]] joins any"),
            ("[[fault]]\nkind = 'pause'\nmachine = 'a' #!\n", "leave machine out"),
            (
                "[machine]\nrewind = true\n[[fault]] #!\nkind = 'reset'\nat = '1s'\n",
                "a machine with rewind",
            ),
        ],
    );
    check(
        &format!("{ONE}{DRIVE}ocssd = '2x2x4x64'\nblock-size = 4096\n"),
        &[(
            "[[fault]]\nat = '1s'\nrestart = '1s'\nkind = 'power-cut' #!\n",
            "drive d cannot fail with its machine",
        )],
    );
}

#[test]
fn of_spaces_of_faults() {
    let space = format!("{ONE}{DRIVE}[fault-space]\n");
    let timed = format!("{space}{TIMES}");
    check(
        &timed,
        &[
            ("machines = ['x'] #!\nfault = [{ kind = 'pause' }]\n", "there is no machine"),
            ("drives = ['d',\n'e'] #!\nfault = [{ kind = 'stall' }]\n", "there is no drive `e`"),
            ("[[fault-space.fault]] #!\n", "fault-space: fault 0: it has no kind"),
            ("[[fault-space.fault]]\nkind = 'pause'\nbegin = '1s' #!\n", "a space draws"),
            ("[[fault-space.fault]]\nkind = 'stall'\ndrive = 'e' #!\n", "there is no drive `e`"),
            (
                "[[fault-space.fault]]\nkind = 'stall'\n[[fault-space.fault]]\nkind = 'slow' #!\n",
                "fault-space: fault 1: slow needs",
            ),
            ("[[fault-space.fault]] #!\nkind = 'kill'\n", "fault 0: say which process"),
            ("shortest = '2s' #!\nfault = [{ kind = 'pause' }]\n", "shortest is 2s"),
        ],
    );
    check(
        &format!("{ONE}{DRIVE}[fault-space] #!\n"),
        &[
            ("within = '1s'\n", "draws is 0"),
            ("draws = 1\n", "give it `within`"),
            (TIMES, "it has no fault"),
            (
                "draws = 1\nwithin = '1s'\nfault = [{ kind = 'pause' }]\n",
                "give the space `longest`",
            ),
        ],
    );
    check(
        &space,
        &[(
            "draws = 9 #!\nwithin = '1s'\nshortest = '1s'\nlongest = '1s'\n\
             fault = [{ kind = 'pause' }]\n",
            "do not fit into 1s",
        )],
    );
    check(
        &format!("{ONE}[fault-space]\n{TIMES}"),
        &[("fault = [{ kind = 'gone' }] #!\n", "no drive that it can befall")],
    );
    let faults = "[[fault]]\nkind = 'read-error'\n".repeat(1024);
    check(
        &format!("{ONE}{DRIVE}{faults}[fault-space]\nwithin = '1s'\nlongest = '1s'\n"),
        &[("fault = [{ kind = 'stall' }]\ndraws = 2 #!\n", "1026 faults, but there can be 1024")],
    );
}

#[test]
fn a_mistake_is_shown_as_a_wrong_value_is() {
    let Err(error) = finish(&format!("{ONE}[[machine]]\nname = 'a'\n\tquantum = '0s'\n")) else {
        panic!("a quantum of nothing");
    };
    assert_eq!(
        error.to_string(),
        "e.toml: line 4, column 12: machine a: quantum is 0, but must be some time, for example 20us\n \
         4 | \tquantum = '0s'\n   | \t          ^^^^"
    );
}

#[test]
fn what_an_option_says_has_no_line() {
    let text = format!("{ONE}[machine]\nvcpus = 2\n[[expect]]\nthat = 'read.p99 < 1ms'\n{DRIVE}");
    let drive = || DriveSpec::parse("name=d,model=null,medium=ram:1MiB").unwrap();
    type Change<'a> = &'a dyn Fn(&mut Experiment);
    let changes: [(Change, &str); 5] = [
        (&|e| e.machine.vcpus = 0, "vcpus is 0, but must be 1 to 64"),
        (&|e| e.machine.memory = 1, "memory is 1B, but"),
        (&|e| e.drives.push(drive()), "two drives have the name `d`"),
        (&|e| e.expectations.push(Expectation::of("x < 1")), "x"),
        (&|e| e.command = vec!["{{machine.name}}".into()], "command: word 1, line 1"),
    ];
    for (change, sentence) in changes {
        let mut experiment = read(&text).unwrap();
        experiment.clone().finish().unwrap();
        change(&mut experiment);
        let error = experiment.finish().unwrap_err();
        assert!(
            matches!(&error, ExperimentError::Value(message) if message.contains(sentence)),
            "{error}"
        );
    }
    // The file's own mistakes keep their lines beside it.
    let mut experiment = read(&text.replace("vcpus = 2", "quantum = '0s'")).unwrap();
    experiment.machine.vcpus = 3;
    let error = experiment.finish().unwrap_err().to_string();
    assert!(error.starts_with("e.toml: line 3, column 11: quantum is 0"), "{error}");
}

#[test]
fn the_file_is_no_part_of_what_an_experiment_says() {
    let text = format!("{TWO}{DRIVE}[[workload]]\npattern = '1r-seq'\n");
    let of_file = finish(&text).unwrap();
    let mut alone: Experiment = stasis_config::read_text(&text).unwrap();
    alone.finish().unwrap();
    assert_eq!(of_file, alone);
    assert_eq!(serde_json::to_value(&of_file).unwrap(), serde_json::to_value(&alone).unwrap());
}

proptest::proptest! {
    #[test]
    fn a_line_is_within_the_file(lines in proptest::collection::vec(line(), 0..24), rest in ".{0,20}") {
        let text = format!("{}{rest}", lines.concat());
        let mistakes = [ONE, TWO, DRIVE].map(|begin| format!("{begin}{text}"));
        for text in mistakes.iter().chain([&text]) {
            let result = read(text).and_then(|mut experiment| experiment.finish());
            if let Err(ExperimentError::File { error, .. }) = result {
                let lines = text.split('\n').count();
                proptest::prop_assert!((1..=lines).contains(&error.line), "{error}: {text}");
            }
        }
    }
}

/// A line of an experiment that may not go with others.
fn line() -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        "[machine]\n",
        "[[machine]]\n",
        "[[machine.drive]]\nmodel = 'null'\nmedium = 'ram:1MiB'\n",
        "[[machine.disk]]\non = 'd'\n",
        "[[drive]]\nmodel = 'null'\nmedium = 'ram:1MiB'\n",
        "[[network]]\n",
        "[[network.link]]\nfrom = 'a'\n",
        "[[workload]]\npattern = '1r-seq'\n",
        "[[fault]]\nkind = 'pause'\n",
        "[[fault]]\nkind = 'gone'\n",
        "[[fault]]\nkind = 'partition'\n",
        "[fault-space]\ndraws = 1\nwithin = '1s'\n",
        "[[fault-space.fault]]\nkind = 'reset'\n",
        "[[expect]]\nthat = 'x < 1'\n",
        "name = 'd'\n",
        "count = 2\n",
        "quantum = '0s'\n",
        "machine = 'a'\n",
        "machines = ['a', 'b']\n",
        "interface = 'virtio-blk'\n",
        "controllers = 2\n",
        "limits = { burst-iops = 1 }\n",
        "begin = '1s'\nend = '2s'\n",
        "longest = '1s'\n",
        "delay = '1ns'\n",
        "wait = false\n",
        "# é\r\n",
    ])
    .prop_map(str::to_owned)
}
