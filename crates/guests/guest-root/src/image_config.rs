//! The configuration of a container image: what runs in it, and how (OCI Image Format 1.1, config.md;
//! `Healthcheck` is Docker's: moby, image/spec/spec.md).

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::tree::text;
use crate::RootError;

/// Limit on the words of a command, and on variables, volumes and ports.
const MAX_ITEMS: usize = 4096;
/// Docker's times of a health check (moby, daemon/health.go: `defaultProbeInterval` and so on).
const INTERVAL: u64 = 30_000_000_000;
const START_INTERVAL: u64 = 5_000_000_000;
const RETRIES: u32 = 3;

/// The settings by which an image's files become a running program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageConfig {
    /// Program and first arguments.
    pub entrypoint: Vec<String>,
    /// Further arguments, or the program where there is no entry point.
    pub command: Vec<String>,
    /// Environment.
    pub environment: BTreeMap<String, String>,
    /// `USER`, `UID`, `USER:GROUP` and so on; empty: root.
    pub user: String,
    /// Absolute path of the folder that the program starts in; empty: `/`.
    pub working_directory: String,
    /// Absolute paths of the folders whose files outlive a container.
    pub volumes: Vec<String>,
    /// Ports that the program listens to, such as `5432/tcp`.
    pub ports: Vec<String>,
    /// Signal that asks the program to end.
    pub stop_signal: Option<String>,
    /// Command that tells whether the program works.
    pub health: Option<HealthCheck>,
}

/// A check of a program's health.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCheck {
    /// Program and arguments: status 0 means healthy.
    pub test: Vec<String>,
    /// Time from the start, or from the end of a check, to the next (ns).
    pub interval: u64,
    /// Time after which a check counts as failed (ns).
    pub timeout: u64,
    /// Time from the start within which failures do not count (ns).
    pub start_period: u64,
    /// The interval within that time (ns).
    pub start_interval: u64,
    /// Failures one after the other that make it unhealthy.
    pub retries: u32,
}

impl HealthCheck {
    /// A check by a command, with Docker's times.
    pub fn new(test: Vec<String>) -> Self {
        Self {
            test,
            interval: INTERVAL,
            timeout: INTERVAL,
            start_period: 0,
            start_interval: START_INTERVAL,
            retries: RETRIES,
        }
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    architecture: Option<String>,
    #[serde(default)]
    os: Option<String>,
    #[serde(default)]
    config: Option<Raw>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Raw {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    volumes: Option<BTreeMap<String, serde::de::IgnoredAny>>,
    exposed_ports: Option<BTreeMap<String, serde::de::IgnoredAny>>,
    stop_signal: Option<String>,
    healthcheck: Option<RawHealth>,
}

/// Times are in nanoseconds; 0 stands for the default.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct RawHealth {
    test: Option<Vec<String>>,
    interval: i64,
    timeout: i64,
    start_period: i64,
    start_interval: i64,
    retries: i64,
}

impl ImageConfig {
    /// Reads the file that an image has for it; `origin` is the image.
    pub(crate) fn read(bytes: &[u8], origin: &Path) -> Result<Self, RootError> {
        // serde takes a list of nothing for an object of defaults.
        let begin = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        let file: Result<File, _> = serde_json::from_slice(bytes);
        let config = match (begin, file) {
            (Some(b'{'), Ok(file)) => Self::of_file(file),
            (_, Ok(_)) => Err("is damaged: it is no object".to_owned()),
            (_, Err(error)) => Err(format!("is damaged: {error}")),
        };
        config.map_err(|cause| {
            let cause: String = cause.chars().take(1000).collect();
            RootError::unusable(origin, format!("its configuration {cause}"))
        })
    }

    fn of_file(file: File) -> Result<Self, String> {
        for (found, wanted) in [(file.architecture, "amd64"), (file.os, "linux")] {
            if let Some(found) = found.filter(|found| !found.is_empty() && found != wanted) {
                return Err(format!("is for {}, not for linux/amd64", text(found.as_bytes())));
            }
        }
        let raw = file.config.unwrap_or_default();
        let mut environment = BTreeMap::new();
        for variable in some("Env", raw.env)? {
            let (name, value) =
                variable.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
                    format!("has a variable without a name and a value: {variable:?}")
                })?;
            environment.insert(name.to_owned(), value.to_owned());
        }
        let health = raw.healthcheck.map(health).transpose()?.flatten();
        let user = one("User", raw.user)?;
        let folder = one("WorkingDir", raw.working_dir)?;
        let volumes = some("Volumes", raw.volumes.map(|all| all.into_keys().collect()))?;
        let volumes: Vec<_> = volumes.iter().map(|path| absolute(path)).collect();
        if volumes.iter().any(|path| path == "/") {
            return Err("has / as a volume".into());
        }
        Ok(Self {
            entrypoint: some("Entrypoint", raw.entrypoint)?,
            command: some("Cmd", raw.cmd)?,
            environment,
            user,
            working_directory: if folder.is_empty() { folder } else { absolute(&folder) },
            volumes,
            ports: some("ExposedPorts", raw.exposed_ports.map(|all| all.into_keys().collect()))?,
            stop_signal: Some(one("StopSignal", raw.stop_signal)?).filter(|name| !name.is_empty()),
            health,
        })
    }
}

/// A path from the root on, without empty names and `.`.
fn absolute(path: &str) -> String {
    let names: Vec<_> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    format!("/{}", names.join("/"))
}

fn one(key: &str, text: Option<String>) -> Result<String, String> {
    let text = text.unwrap_or_default();
    match text.contains('\0') {
        true => Err(format!("has a zero byte in {key}")),
        false => Ok(text),
    }
}

fn some(key: &str, list: Option<Vec<String>>) -> Result<Vec<String>, String> {
    let list = list.unwrap_or_default();
    if list.len() > MAX_ITEMS {
        return Err(format!("has {} items in {key}, more than {MAX_ITEMS}", list.len()));
    }
    match list.iter().any(|word| word.contains('\0')) {
        true => Err(format!("has a zero byte in {key}")),
        false => Ok(list),
    }
}

fn health(raw: RawHealth) -> Result<Option<HealthCheck>, String> {
    let test = some("Healthcheck", raw.test)?;
    let words = test.split_first().map(|(kind, words)| (kind.as_str(), words));
    let command = match words {
        // The first says that the image it was made from has none, the second that there is none.
        None | Some(("NONE", _)) => return Ok(None),
        Some(("CMD", words)) if !words.is_empty() => words.to_vec(),
        Some(("CMD-SHELL", [line])) => ["/bin/sh", "-c", line].map(String::from).to_vec(),
        Some((kind, words)) => {
            let kind = text(kind.as_bytes());
            return Err(format!("has a health check of {kind} with {} words", words.len()));
        }
    };
    let mut check = HealthCheck::new(command);
    for (from, to) in [
        (raw.interval, &mut check.interval),
        (raw.timeout, &mut check.timeout),
        (raw.start_period, &mut check.start_period),
        (raw.start_interval, &mut check.start_interval),
    ] {
        match u64::try_from(from) {
            Ok(0) => {}
            Ok(time) => *to = time,
            Err(_) => return Err(format!("has a health check with the time {from}")),
        }
    }
    if raw.retries != 0 {
        let retries = u32::try_from(raw.retries);
        check.retries =
            retries.map_err(|_| format!("has a health check with {} retries", raw.retries))?;
    }
    Ok(Some(check))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<ImageConfig, String> {
        ImageConfig::read(json.as_bytes(), Path::new("image")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_configuration_is_read_as_engines_write_it() {
        // As `docker inspect` has it of PostgreSQL's image, shortened.
        let config = read(
            r#"{"architecture":"amd64","os":"linux","config":{"Hostname":"","User":"postgres:999",
            "ExposedPorts":{"5432/tcp":{}},"Env":["PATH=/usr/bin:/bin","PGDATA=/data=x","EMPTY="],
            "Cmd":["postgres"],"Healthcheck":{"Test":["CMD-SHELL","pg_isready || exit 1"],
            "Interval":1000000000,"Retries":5},"Volumes":{"/data":{}},"WorkingDir":"/srv//app/",
            "Entrypoint":["docker-entrypoint.sh"],"OnBuild":null,"StopSignal":"SIGINT"},
            "history":[],"rootfs":{"type":"layers","diff_ids":[]}}"#,
        )
        .unwrap();
        let environment = [("EMPTY", ""), ("PATH", "/usr/bin:/bin"), ("PGDATA", "/data=x")];
        let mut check =
            HealthCheck::new(["/bin/sh", "-c", "pg_isready || exit 1"].map(String::from).to_vec());
        (check.interval, check.retries) = (1_000_000_000, 5);
        let expected = ImageConfig {
            entrypoint: vec!["docker-entrypoint.sh".into()],
            command: vec!["postgres".into()],
            environment: environment.map(|(name, value)| (name.into(), value.into())).into(),
            user: "postgres:999".into(),
            working_directory: "/srv/app".into(),
            volumes: vec!["/data".into()],
            ports: vec!["5432/tcp".into()],
            stop_signal: Some("SIGINT".into()),
            health: Some(check),
        };
        assert_eq!(config, expected);
        for empty in ["{}", r#"{"config":null}"#, r#"{"config":{"Cmd":null,"Env":null}}"#] {
            assert_eq!(read(empty), Ok(ImageConfig::default()), "{empty}");
        }
        for none in [r#"[]"#, r#"["NONE"]"#, "null"] {
            let json = format!(r#"{{"config":{{"Healthcheck":{{"Test":{none}}}}}}}"#);
            assert_eq!(read(&json), Ok(ImageConfig::default()), "{none}");
        }
    }

    #[test]
    fn a_configuration_that_cannot_hold_is_refused_by_name() {
        let many = vec!["a"; MAX_ITEMS + 1];
        let many = format!(r#"{{"config":{{"Cmd":{}}}}}"#, serde_json::json!(many));
        for (json, expected) in [
            ("", "damaged"),
            ("[1]", "damaged"),
            (r#"{"config":{"Cmd":"a string"}}"#, "damaged"),
            (r#"{"architecture":"arm64"}"#, "arm64"),
            (r#"{"os":"windows"}"#, "windows"),
            (r#"{"config":{"Env":["PATH"]}}"#, "PATH"),
            (r#"{"config":{"Env":["=a"]}}"#, "=a"),
            (r#"{"config":{"Entrypoint":["a\u0000b"]}}"#, "zero byte in Entrypoint"),
            (r#"{"config":{"User":"\u0000"}}"#, "zero byte in User"),
            (r#"{"config":{"Volumes":{"/./":{}}}}"#, "/ as a volume"),
            (r#"{"config":{"Healthcheck":{"Test":["CMD"]}}}"#, "CMD with 0 words"),
            (r#"{"config":{"Healthcheck":{"Test":["OTHER","x"]}}}"#, "OTHER"),
            (r#"{"config":{"Healthcheck":{"Test":["CMD","x"],"Interval":-1}}}"#, "time -1"),
            (r#"{"config":{"Healthcheck":{"Test":["CMD","x"],"Retries":-1}}}"#, "-1 retries"),
            (r#"{"config":{"Healthcheck":{"Interval":1e300}}}"#, "damaged"),
            (&many, "4097 items in Cmd"),
        ] {
            let error = read(json).unwrap_err();
            assert!(
                error.contains(expected) && error.contains("the root image"),
                "{json}: {error}"
            );
        }
    }
}
