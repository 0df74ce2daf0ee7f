//! Compose files of the kinds that projects publish, each as an experiment or refused by name.

use std::collections::BTreeMap;

use stasis_compose::{import, Imported};

/// Files of the kinds that projects publish.
const FILES: [(&str, &str); 5] = [
    ("postgresql", include_str!("files/postgresql.yaml")),
    ("etcd", include_str!("files/etcd.yaml")),
    ("redis-sentinel", include_str!("files/redis-sentinel.yaml")),
    ("rabbitmq", include_str!("files/rabbitmq.yaml")),
    ("nginx", include_str!("files/nginx.yaml")),
];

fn of(name: &str, surroundings: &[(&str, &str)]) -> Imported {
    let (_, text) = FILES.iter().find(|(own, _)| *own == name).unwrap();
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let surroundings: BTreeMap<_, _> = surroundings.iter().map(pair).collect();
    import(text, &surroundings).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn table(imported: &Imported) -> toml::Table {
    let text = &imported.experiment;
    text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The value at a path of keys and places.
fn at<'a>(table: &'a toml::Table, path: &str) -> &'a toml::Value {
    let mut words = path.split('/');
    let mut value = &table[words.next().unwrap()];
    for word in words {
        value = match word.parse::<usize>() {
            Ok(place) => &value[place],
            Err(_) => &value[word],
        };
    }
    value
}

#[track_caller]
fn has(table: &toml::Table, expected: &[(&str, &str)]) {
    for (path, value) in expected {
        assert_eq!(at(table, path).to_string(), *value, "{path}");
    }
}

/// Each note is one of these, and each of these is there.
#[track_caller]
fn notes(imported: &Imported, expected: &[&str]) {
    for (note, words) in imported.notes.iter().zip(expected) {
        assert!(note.contains(words), "{note} has not {words:?}");
    }
    assert_eq!(imported.notes.len(), expected.len(), "{:#?}", imported.notes);
}

#[test]
fn a_primary_with_a_replica() {
    let imported = of("postgresql", &[("DB_PASSWORD", "its own")]);
    let table = table(&imported);
    has(
        &table,
        &[
            ("virtual-limit", "\"60s\""),
            ("fault/0/machine", "\"primary\""),
            ("machine/0/name", "\"primary\""),
            ("machine/0/wait", "false"),
            ("machine/0/command/1", "\"-c\""),
            ("machine/0/command/2", "\"wal_level=replica\""),
            ("machine/0/drive/0/name", "\"primary-data\""),
            ("machine/0/drive/0/medium/ram", "\"4GiB\""),
            ("machine/0/container/image", "\"postgres:16-alpine\""),
            ("machine/0/container/user", "\"postgres\""),
            ("machine/0/container/environment/POSTGRES_PASSWORD", "\"its own\""),
            ("machine/0/container/volumes", "{ \"/var/lib/postgresql/data\" = \"primary-data\" }"),
            ("machine/0/container/health/test/2", "\"pg_isready -U user --dbname=postgres\""),
            ("machine/0/container/health/interval", "\"10000000000ns\""),
            ("machine/1/command/0", "\"bash\""),
            ("machine/1/container/depends-on/primary", "\"healthy\""),
            ("network/0/machines", "[\"primary\", \"replica\"]"),
        ],
    );
    let script = at(&table, "machine/1/command/2").as_str().unwrap();
    assert!(
        script.starts_with("\nuntil pg_basebackup") && script.contains("echo 'Waiting"),
        "{script}"
    );
    let ports = "ports is left out: ports are reached from machines";
    let restart = "restart is left out";
    notes(&imported, &[ports, restart, ports, restart]);
}

#[test]
fn three_of_a_cluster() {
    let imported = of("etcd", &[]);
    let table = table(&imported);
    for (place, name) in ["etcd1", "etcd2", "etcd3"].iter().enumerate() {
        let value = |path: &str| at(&table, &format!("machine/{place}/{path}")).clone();
        assert_eq!(value("name").as_str(), Some(*name));
        assert_eq!(value("command").as_array().unwrap().len(), 6);
        assert_eq!(value("container/entrypoint").to_string(), "[\"/usr/local/bin/etcd\"]");
        assert_eq!(value("container/environment/ETCD_HEARTBEAT_INTERVAL").as_str(), Some("100"));
        assert_eq!(value("drive/0/model").as_str(), Some("fixed:100us"));
        assert_eq!(
            value("container/volumes").to_string(),
            format!("{{ \"/etcd-data\" = \"{name}\" }}")
        );
    }
    has(&table, &[("network/0/subnet", "\"172.20.0.0/24\""), ("network/0/delay", "\"200us\"")]);
    notes(&imported, &["the run lasts until the commands of etcd1, etcd2, etcd3 have ended"]);
}

#[test]
fn sentinels() {
    let imported = of("redis-sentinel", &[]);
    let table = table(&imported);
    has(
        &table,
        &[
            ("machine/0/command/2", "\"str0ng pass\""),
            ("machine/0/container/volumes", "{ \"/data\" = \"memory\" }"),
            ("machine/0/container/health/test", "[\"redis-cli\", \"-a\", \"str0ng pass\", \"ping\"]"),
            ("machine/1/count", "2"),
            ("machine/1/wait", "false"),
            ("machine/2/count", "3"),
            (
                "machine/2/container/depends-on",
                "{ redis-master = \"healthy\", redis-slave1 = \"started\", redis-slave2 = \"started\" }",
            ),
            (
                "network/0/machines",
                "[\"redis-master\", \"redis-slave1\", \"redis-slave2\", \"sentinel1\", \"sentinel2\", \"sentinel3\"]",
            ),
        ],
    );
    let texts = at(&table, "machine/2/container/texts").as_table().unwrap();
    assert!(texts["/etc/sentinel.conf"].as_str().unwrap().contains("auth-pass mymaster"));
    notes(
        &imported,
        &[
            "`restart` has no effect",
            "volume redis-data is in memory",
            "its machines are redis-slave1, redis-slave2",
            "its machines are sentinel1, sentinel2, sentinel3",
            "lasts until the commands of sentinel1, sentinel2, sentinel3",
        ],
    );
}

#[test]
fn brokers() {
    let text = "A=1\nRABBITMQ_DEFAULT_USER=other\n";
    let imported = of("rabbitmq", &[("RABBITMQ_ERLANG_COOKIE", "secret"), ("./.rabbit", text)]);
    let table = table(&imported);
    has(
        &table,
        &[
            // A file comes behind `environment`.
            (
                "machine/0/container/environment",
                "{ A = \"1\", RABBITMQ_DEFAULT_USER = \"guest\", RABBITMQ_ERLANG_COOKIE = \"secret\" }",
            ),
            ("machine/0/container/texts", "{ \"/run/secrets/cookie\" = \"secret\" }"),
            ("machine/0/container/health/start-period", "\"90000000000ns\""),
            (
                "machine/1/container/files",
                "[\"./cluster-entrypoint.sh:/usr/local/bin/cluster-entrypoint.sh\"]",
            ),
        ],
    );
    notes(&imported, &["ports is left out", "cluster-entrypoint.sh is copied", "the run lasts"]);
}

#[test]
fn an_application_behind_a_proxy() {
    let imported = of("nginx", &[]);
    let table = table(&imported);
    has(
        &table,
        &[
            ("machine/1/vcpus", "2"),
            ("machine/1/memory", "\"512MiB\""),
            ("machine/1/container/working-directory", "\"/code\""),
            ("machine/1/container/user", "\"1000:1000\""),
            ("machine/1/container/environment", "{ FLASK_DEBUG = \"1\", PORT = \"8000\" }"),
            ("machine/1/container/volumes", "{ \"/tmp/cache\" = \"memory\" }"),
            ("machine/1/container/files", "[\"db/password.txt:/run/secrets/db-password\"]"),
            ("machine/1/container/depends-on/db", "\"healthy\""),
            ("network/0/machines", "[\"backend\", \"db\"]"),
            ("network/1/machines", "[\"proxy\", \"backend\"]"),
        ],
    );
    let test = at(&table, "machine/2/container/health/test/2").as_str().unwrap();
    assert!(test.contains("\"$(cat /run/secrets"), "{test}");
    assert_eq!(table["machine"].as_array().unwrap().len(), 3);
    notes(
        &imported,
        &[
            "ports is left out",
            "init is left out",
            "`build`: nothing is built",
            "restart is left out",
            "service adminer is left out: it is of the profiles debug",
            "volume db-data is in memory",
            "lasts until the commands of proxy",
        ],
    );
}

/// A key that changes what a service does is a mistake with its line.
#[test]
fn what_cannot_be_taken_is_refused_by_name() {
    let service = |lines: &str| format!("services:\n  a:\n    image: x\n    {lines}\n");
    for (text, expected) in [
        (service("network_mode: host"), "line 4: service a: network_mode: this key cannot be taken"),
        (service("imgae: y"), "line 4: service a: imgae: this key cannot be taken"),
        (service("extends: { service: b }"), "extends: this key"),
        (service("pid: host"), "pid: this key"),
        (service("devices: [/dev/fuse]"), "devices: this key"),
        (service("links: ['a:b']"), "no other name, as `b`"),
        (service("networks: { default: { aliases: [b] } }"), "no other names (aliases)"),
        (service("networks: { default: { ipv4_address: 10.0.0.2 } }"), "`ipv4_address` cannot be taken"),
        (service("networks: [none]"), "there is no network none"),
        (service("volumes: ['data:/data']"), "there is no volume data"),
        (service("volumes: ['/var/run/docker.sock:/var/run/docker.sock']"), "the socket"),
        (service("volumes: [{ type: npipe, target: /x }]"), "type npipe"),
        (service("depends_on: [b]"), "there is no service b"),
        (service("depends_on: { a: { condition: ready } }"), "there is no condition ready"),
        (service("platform: linux/arm64"), "not of linux/arm64"),
        (service("environment: { A: 1.10 }"), "put it in quotes"),
        (service("environment: { A: 0x10 }"), "put it in quotes"),
        (service("command: []"), "an empty command"),
        (service("command: \"a 'b\""), "a quote has no end"),
        (service("healthcheck: { interval: 10 }"), "is no time"),
        (service("healthcheck: { test: [EXEC, a] }"), "neither with CMD"),
        (service("env_file: none.env"), "there is no file none.env"),
        (service("configs: [none]"), "there is no none"),
        (service("deploy: { replicas: 0 }"), "replicas are 1 to 32"),
        (service("deploy: { mode: global }"), "`mode` cannot be taken"),
        (service("user: ${WHO:?must be}"), "the variable WHO has no value: must be"),
        ("services: { a: { build: . } }".into(), "Stasis builds no images"),
        ("services: { a: { command: b } }".into(), "it has no `image`"),
        ("services: { a: [] }".into(), "should be a map"),
        ("{}".into(), "there is no service"),
        ("include: [b.yaml]\nservices: { a: { image: x } }".into(), "line 1: `include` cannot be taken"),
        ("services: { a: { image: x } }\nnetworks: { n: { driver: macvlan } }".into(), "none of bridge"),
        ("services: { a: { image: x } }\nvolumes: { v: { driver_opts: { type: nfs } } }".into(), "`driver_opts`"),
        ("services: { a: { image: x } }\nvolumes: { v: { x-stasis: { drive: {} } } }".into(), "has no `model`"),
        ("services: { a: { image: x } }\nsecrets: { s: { external: true } }".into(), "`external` cannot be taken"),
        (
            "services: { a: { image: x, volumes: ['v:/v'] }, b: { image: x, volumes: ['v:/v'] } }\nvolumes: { v: }".into(),
            "volume v: a and b have it",
        ),
        (
            "services: { a: { image: x, depends_on: { b: { condition: service_healthy } } }, b: { image: x, healthcheck: { disable: true } } }".into(),
            "b has no health check",
        ),
        ("services: { a: { image: x, x-stasis: { command: [y] } } }".into(), "says elsewhere"),
        ("services: [".into(), "no YAML"),
    ] {
        let error = import(&text, &BTreeMap::new()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

proptest::proptest! {
    /// Whatever a file has, it is taken or refused; what is taken is TOML.
    #[test]
    fn damaged_files_are_taken_or_refused(at in 0usize..4000, with in "[ -~\n]{0,3}", file in 0usize..5) {
        let mut text = FILES[file].1.to_owned();
        let at = at % text.len();
        if text.is_char_boundary(at) && text.is_char_boundary(at + 1) {
            text.replace_range(at..at + 1, &with);
        }
        if let Ok(imported) = import(&text, &BTreeMap::new()) {
            imported.experiment.parse::<toml::Table>().unwrap();
        }
    }
}
