//! A Compose file as it stands runs as an experiment, on images that are made here. Files of many kinds are tried
//! in the crate `compose`.

use std::fs;

use serde_json::json;

use crate::containers::save;
use crate::support::Bench;

const COMPOSE: &str = "services:
  db:
    image: ./db.tar
    environment: { GREETING: '${GREETING:-hello}' }
    restart: always
    volumes: ['data:/data']
    healthcheck: { test: test -e /run/ready, interval: 1s }
    secrets: [password]
  web:
    image: ./web.tar
    command: sh -c 'echo \"web of two words\" $$WHO; cat /etc/app.conf /etc/hosts'
    environment: [WHO=it]
    configs: [{ source: app, target: /etc/app.conf }]
    depends_on: { db: { condition: service_healthy } }
volumes:
  data:
    x-stasis: { drive: { model: 'fixed:100us', size: 64MiB } }
configs:
  app: { content: \"port 80\\n\" }
secrets:
  password: { file: ./password }
networks:
  default:
    ipam: { config: [{ subnet: 10.7.0.0/24 }] }
x-stasis: { engine: exact, seed: 7 }
";

#[test]
fn two_services_run_from_a_compose_file() {
    let bench = Bench::new();
    let serve = "echo $GREETING $(cat /run/secrets/password /data/first); \
                 cat /proc/mounts | while read on path kind rest; do [ $path = /data ] && echo $on $kind; done; \
                 sleep 2; touch /run/ready; echo ready; sleep 1000";
    save(
        &bench,
        "db",
        &json!({ "Cmd": ["sh", "-c", serve] }),
        &[
            ("data", 0, 0o700, None),
            ("data/first", 0, 0o600, Some("first\n")),
            ("run", 0, 0o755, None),
        ],
    );
    save(&bench, "web", &json!({ "Cmd": ["false"] }), &[]);
    fs::write(bench.path("compose.yaml"), COMPOSE).unwrap();
    fs::write(bench.path("password"), "secret\n").unwrap();
    let run = bench.run(&["compose.yaml", "--results=one"]);
    run.expect(0);
    let expected = "[db] hello secret first\n[db] /dev/nvme0n1 ext4\n[db] ready\n\
                    [web] web of two words it\n[web] port 80\n[web] 127.0.0.1 localhost\n";
    assert!(run.stdout.starts_with(expected), "{run:#?}");
    assert!(run.stdout.contains("[web] 10.7.0.1 db"), "{}", run.stdout);
    let note = "compose.yaml: line 5: service db: restart is left out: a command that ends is not started again";
    run.says_warning(note);
    let summary = bench.json("one/summary.json");
    assert_eq!((&summary["seed"], &summary["experiment"]["drive"]), (&json!(7), &json!([])));
    // The same as an experiment's file, which is written beside it alone, and over nothing.
    let import = |words: &[&str]| {
        bench.finish(bench.command(&[&["import", "compose.yaml"], words].concat()))
    };
    let imported = import(&["-o", "e.toml"]);
    imported.expect(0).says_warning(note);
    assert_eq!(import(&[]).stdout, bench.text("e.toml"));
    import(&["-o", "e.toml"]).expect(125).says(&["is there already"]);
    fs::create_dir(bench.path("folder")).unwrap();
    import(&["-o", "folder/e.toml"]).expect(125).says(&["begin where compose.yaml is"]);
    let again = bench.run(&["e.toml", "--results=two"]);
    again.expect(0);
    assert_eq!(again.stdout, run.stdout, "to the byte");
    // Nothing runs of a file that cannot be taken whole.
    fs::write(bench.path("compose.yaml"), COMPOSE.replace("restart: always", "network_mode: host"))
        .unwrap();
    let refused = bench.run(&["compose.yaml"]);
    refused
        .expect(125)
        .says(&["compose.yaml: line 5: service db: network_mode: this key cannot be taken"]);
    // A mistake that the experiment finds has the line of its text.
    fs::write(bench.path("compose.yaml"), COMPOSE.replace("fixed:100us", "fixed:100parsec"))
        .unwrap();
    let refused = bench.run(&["compose.yaml"]);
    refused.expect(125).says(&["compose.yaml (as stasis import writes it): line", "100parsec"]);
}
