//! Container images as guests: their programs run as the images say, on the drives that the experiment says.
//! Forms of images are tested in the crate `guest-root`; here they are made of this machine's programs.

use std::fs;
use std::path::Path;

use serde_json::{json, Value};
use stasis_guest_root::sha256;

use crate::root::make_with;
use crate::support::Bench;

/// Programs of the images.
const PROGRAMS: [&str; 11] = [
    "/bin/sh",
    "/bin/cat",
    "/usr/bin/id",
    "/usr/bin/env",
    "/usr/bin/stat",
    "/bin/sleep",
    "/usr/bin/touch",
    "/usr/bin/test",
    "/bin/sync",
    "/bin/ls",
    "/usr/bin/sort",
];

/// One layer with these programs and, by path, owner, mode and content, files; a folder has no content.
fn layer(folder: &Path, files: &[(&str, u64, u32, Option<&str>)]) -> Vec<u8> {
    make_with(folder, &PROGRAMS);
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all(".", folder).unwrap();
    for (path, owner, mode, content) in files {
        let mut header = tar::Header::new_gnu();
        let bytes = content.unwrap_or_default().as_bytes();
        header.set_entry_type(match content {
            Some(_) => tar::EntryType::Regular,
            None => tar::EntryType::Directory,
        });
        header.set_size(bytes.len() as u64);
        header.set_mode(*mode);
        header.set_uid(*owner);
        header.set_gid(*owner);
        header.set_mtime(1_700_000_000);
        tar.append_data(&mut header, path, bytes).unwrap();
    }
    tar.into_inner().unwrap()
}

fn configuration(config: &Value) -> Vec<u8> {
    json!({ "architecture": "amd64", "os": "linux", "config": config }).to_string().into_bytes()
}

/// Writes an archive as `docker save` does, and gives its path.
pub fn save(bench: &Bench, name: &str, config: &Value, files: &[(&str, u64, u32, Option<&str>)]) {
    let layer = layer(&bench.path(&format!("{name}.files")), files);
    let list = json!([{ "Config": "c.json", "RepoTags": [name], "Layers": ["1/layer.tar"] }]);
    let mut tar = tar::Builder::new(fs::File::create(bench.path(&format!("{name}.tar"))).unwrap());
    for (path, bytes) in [
        ("1/layer.tar", layer),
        ("c.json", configuration(config)),
        ("manifest.json", list.to_string().into_bytes()),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, path, &bytes[..]).unwrap();
    }
    tar.finish().unwrap();
}

/// Writes an OCI layout with several images of one layer, by their names and commands.
fn layout(bench: &Bench, name: &str, images: &[(&str, &str)]) {
    let blobs = bench.path(name).join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let blob = |bytes: &[u8]| {
        let digest = sha256::digest(bytes);
        fs::write(blobs.join(&digest), bytes).unwrap();
        json!({ "digest": format!("sha256:{digest}"), "size": bytes.len() })
    };
    let layer = blob(&layer(&bench.path("layer"), &[]));
    let image = |(name, command): &(&str, &str)| {
        let config = blob(&configuration(&json!({ "Cmd": ["sh", "-c", command] })));
        let manifest = json!({ "schemaVersion": 2, "config": config, "layers": [layer] });
        let mut described = blob(manifest.to_string().as_bytes());
        described["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
        described
    };
    let index =
        json!({ "schemaVersion": 2, "manifests": images.iter().map(image).collect::<Vec<_>>() });
    fs::write(bench.path(name).join("index.json"), index.to_string()).unwrap();
    fs::write(bench.path(name).join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
}

/// An image of a server that is ready after 3 s, with all that an image can say.
fn server(bench: &Bench) {
    let enter = "#!/bin/sh\necho \"$1 by $(id -un):$(id -gn) $(id -G) in $PWD\"\nexec \"$@\"\n";
    let serve = "#!/bin/sh\nsleep 3; touch /run/app/ready; echo ready; sleep 1000\n";
    let config = json!({
        "Entrypoint": ["/enter"], "Cmd": ["show"], "User": "app", "WorkingDir": "/srv/made",
        "Env": ["PATH=/opt:/bin:/usr/bin", "FROM=image", "KEPT=yes"], "Volumes": { "/data": {} },
        "ExposedPorts": { "80/tcp": {} }, "StopSignal": "SIGQUIT",
        "Healthcheck": { "Test": ["CMD-SHELL", "test -e /run/app/ready"], "Interval": 1_000_000_000 },
    });
    let show =
        "#!/bin/sh\nenv | sort\ncat /data/first; stat -c '%n %U %a' /data /data/first /run/app\n\
        echo direct >/dev/stdout\necho more >>/data/first; echo kept >/results/file\n";
    let files = [
        ("enter", 0, 0o755, Some(enter)),
        ("opt", 0, 0o755, None),
        ("opt/show", 0, 0o755, Some(show)),
        ("opt/serve", 0, 0o755, Some(serve)),
        ("etc/passwd", 0, 0o644, Some("root:x:0:0::/root:/bin/sh\napp:x:7:7::/home/app:/bin/sh\n")),
        ("etc/group", 0, 0o644, Some("root:x:0:\napp:x:7:\nmore:x:9:app\n")),
        ("data", 7, 0o700, None),
        ("data/first", 7, 0o600, Some("first\n")),
        ("run", 0, 0o755, None),
        ("run/app", 7, 0o755, None),
    ];
    save(bench, "server", &config, &files);
}

#[test]
fn an_image_runs_as_it_says() {
    let bench = Bench::new();
    server(&bench);
    let shown = "show by app:app 7 9 in /srv/made
FROM=image
HOME=/home/app
HOSTNAME=stasis
KEPT=yes
PATH=/opt:/bin:/usr/bin
PWD=/srv/made
first
/data app 700
/data/first app 600
/run/app app 755
direct
";
    let run = bench.run(&["--engine=exact", "--root=server.tar"]);
    run.expect(0);
    assert_eq!(run.stdout, shown, "{}", run.stderr);
    assert_eq!(bench.text("results/file"), "kept\n");
    let summary = bench.json("results/summary.json");
    assert_eq!(summary["command"], json!(["/enter", "show"]));
    // The same by its name's path, with other words, and another user.
    let text = "engine = 'exact'\ncommand = ['sh', '-c', 'echo $FROM $KEPT $PWD; id -u; cat /srv/own']\n\
        [guest]\nimage = './server.tar'\n\
        [machine.container]\nenvironment = { FROM = 'here' }\nworking-directory = '/data'\nuser = '0:more'\n\
        files = ['own:/srv/own']\n";
    fs::write(bench.path("e.toml"), text).unwrap();
    fs::write(bench.path("own"), "of this machine\n").unwrap();
    let run = bench.run(&["e.toml"]);
    run.expect(0);
    let expected = "sh by root:more 9 in /data\nhere yes /data\n0\nof this machine\n";
    assert_eq!(run.stdout, expected, "{}", run.stderr);
    // Without its entry point; without anything to run.
    let entrypoint =
        text.replace("user = '0:more'", "entrypoint = ['/bin/cat', '/data/first']\nuser = 'app'");
    let entrypoint = entrypoint.replacen("command", "seed = 1 #", 1);
    fs::write(bench.path("e.toml"), entrypoint).unwrap();
    let run = bench.run(&["e.toml"]);
    run.expect(0);
    assert_eq!(run.stdout, "first\n", "{}", run.stderr);
    // A user or a group that is not there is named.
    for (key, value, words) in [
        ("user", "nobody", "the user \"nobody\" is not in the guest's /etc/passwd"),
        ("user", "app:none", "the group \"none\" is not in the guest's /etc/group"),
    ] {
        let text = format!("engine = 'exact'\n[guest]\nimage = './server.tar'\n[machine.container]\n{key} = '{value}'\n");
        fs::write(bench.path("e.toml"), text).unwrap();
        let run = bench.run(&["e.toml"]);
        run.expect(126).says(&[words]);
    }
}

#[test]
fn a_volume_is_a_drives_file_system_and_lasts() {
    let bench = Bench::new();
    server(&bench);
    bench.image("disk.img", 64 << 20);
    let text = "engine = 'exact'\n[guest]\nimage = './server.tar'\n\
        [machine.container]\nvolumes = { '/data' = 'db' }\n\
        [[drive]]\nname = 'db'\nmodel = 'fixed:100us'\nmedium = 'file:disk.img'\n";
    fs::write(bench.path("e.toml"), text).unwrap();
    let first = bench.run(&["e.toml"]);
    first.expect(0);
    assert!(first.stdout.contains("\nfirst\n/data app 700\n"), "{}", first.stdout);
    // The drive keeps what the command has written.
    let second = bench.run(&["e.toml"]);
    second.expect(0);
    assert!(second.stdout.contains("\nfirst\nmore\n/data app 700\n"), "{}", second.stdout);
    assert_eq!(second.stderr.matches("volume").count(), 0, "{}", second.stderr);
    // A volume without a drive is told of, unless that is wanted.
    let other = text.replace("'db' }", "'memory' }");
    fs::write(bench.path("e.toml"), &other).unwrap();
    let run = bench.run(&["e.toml"]);
    assert!(!run.stderr.contains("volume /data"), "{}", run.stderr);
    fs::write(bench.path("e.toml"), other.replace("volumes = { '/data' = 'memory' }\n", ""))
        .unwrap();
    bench.run(&["e.toml"]).expect(0).says_warning("volume /data is in memory");
    // A drive with anything else is not touched.
    let noise = [7; 4096];
    fs::write(bench.path("disk.img"), noise.repeat(1024)).unwrap();
    fs::write(bench.path("e.toml"), text).unwrap();
    let run = bench.run(&["e.toml"]);
    run.expect(126).says(&["use as a volume", "neither zeroes nor a file system"]);
    assert_eq!(bench.bytes("disk.img"), noise.repeat(1024));
}

#[test]
#[ignore = "boots a machine twice: make slow-test"]
fn a_power_cut_leaves_a_volume_that_comes_back() {
    let bench = Bench::new();
    server(&bench);
    let script = "echo boot $STASIS_BOOT >>/data/first; sync; echo written; [ $STASIS_BOOT = 2 ] || sleep 100; cat /data/first";
    let text = format!(
        "engine = 'exact'\ncommand = ['sh', '-c', '{script}']\n[guest]\nimage = './server.tar'\n\
         [machine.container]\nvolumes = {{ '/data' = 'db' }}\n\
         [[drive]]\nname = 'db'\nmodel = 'samsung-980-pro'\nmedium = 'ram:64MiB'\n\
         [[fault]]\nkind = 'power-cut'\nat-output = 'written'\nrestart = '100ms'\n"
    );
    fs::write(bench.path("e.toml"), text).unwrap();
    let run = bench.run(&["e.toml"]);
    run.expect(0);
    assert!(run.stdout.ends_with("written\nfirst\nboot 1\nboot 2\n"), "{run:#?}");
}

#[test]
#[ignore = "boots two machines twice: make slow-test"]
fn machines_have_images_of_their_own_and_wait_for_each_other() {
    let bench = Bench::new();
    server(&bench);
    let web = json!({ "Cmd": ["sh", "-c", "echo web; cat /proc/uptime; [ ! -e /enter ] && cat /etc/hosts"] });
    save(&bench, "web", &web, &[]);
    let text = "engine = 'exact'\n\
        [[machine]]\nname = 'db'\nwait = false\ncommand = ['serve']\ncontainer = { image = './server.tar' }\n\
        [[machine]]\nname = 'web'\n[machine.container]\nimage = './web.tar'\ndepends-on = { db = 'healthy' }\n\
        [[network]]\n";
    fs::write(bench.path("e.toml"), text).unwrap();
    let run = bench.run(&["e.toml", "--results=one"]);
    run.expect(0);
    let lines: Vec<&str> = run.stdout.lines().collect();
    let at = |text: &str| {
        lines
            .iter()
            .position(|line| line.contains(text))
            .unwrap_or_else(|| panic!("{text}: {run:#?}"))
    };
    assert!(at("[db] serve by app:app") < at("[db] ready") && at("[db] ready") < at("[web] web"));
    assert!(at("127.0.0.1 localhost") < at("[web] 10.0.0.1 db"));
    assert!(run.stderr.contains("the image's stop signal SIGQUIT is not sent"), "{}", run.stderr);
    let again = bench.run(&["e.toml", "--results=two"]);
    assert_eq!(again.stdout, run.stdout, "to the byte");
    // Nobody waits for what cannot come any more.
    for (from, to, words) in [
        ("'serve'", "'true'", "it depends on db, whose command has ended before it was healthy"),
        ("'serve'", "'sleep', '1000'", "it depends on db, whose command is not healthy"),
        ("'healthy'", "'completed'", "it depends on db, whose command has failed"),
    ] {
        let text = text.replace(from, to).replace("command = ['serve']", "command = ['false']");
        fs::write(bench.path("e.toml"), text).unwrap();
        bench.run(&["e.toml"]).expect(126).says_warning(words);
    }
    // The image is asked for a check before anything boots.
    let text = text
        .replace("container = { image = './server.tar' }", "container = { image = './web.tar' }");
    fs::write(bench.path("e.toml"), text).unwrap();
    bench.run(&["e.toml"]).expect(125).says(&["until db is healthy", "has a check"]);
}

#[test]
#[ignore = "boots a machine twice: make slow-test"]
fn an_image_is_found_by_its_name() {
    let bench = Bench::new();
    layout(&bench, "store", &[("one:1", "echo one"), ("two:1", "echo two")]);
    let run = bench.run(&["--engine=exact", "--image=./store:two:1"]);
    run.expect(0);
    assert_eq!(run.stdout, "two\n", "{}", run.stderr);
    let run = bench.run(&["--image=./store"]);
    run.expect(125).says(&["2 images (one:1, two:1)"]);
    // Programs that have images, as this computer may have them.
    save(&bench, "stored", &json!({ "Cmd": ["sh", "-c", "echo stored"] }), &[]);
    let tools = bench.path("tools");
    fs::create_dir(&tools).unwrap();
    let with_tools = |words: &[&str]| {
        let mut command = bench.command(&[&["run", "--engine=exact"], words].concat());
        command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", tools.display()));
        command.env("ARCHIVE", bench.path("stored.tar"));
        bench.finish(command)
    };
    let program = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt;
        let path = tools.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("podman", "echo 'Error: no such image' >&2; exit 125");
    program(
        "docker",
        "[ \"$5\" = app:7 ] || exit 1
        case $2 in inspect) echo sha256:0123;; save) cat \"$ARCHIVE\" >\"$4\";; *) exit 1;; esac",
    );
    let run = with_tools(&["--image=app:7"]);
    run.expect(0);
    assert_eq!(run.stdout, "stored\n", "{}", run.stderr);
    // A name that none has, and one that can be none.
    let run = with_tools(&["--image=app:8"]);
    run.expect(125).says(&["no container image app:8", "podman: Error: no such image", "docker:"]);
    with_tools(&["--image=-x"]).expect(125).says(&["is not the name of a container image"]);
    with_tools(&["--image=./stored.files"])
        .expect(125)
        .says(&["is no container image", "say `root`"]);
}
