//! Scripts that run in the guest besides a function's own.

use std::path::Path;

use stasis_guest_root::Pack;
use stasis_qemu_vm::Job;

use crate::definition::GuestFile;
use crate::{Error, Instance, Polling};

/// Time for which a socket's reader looks at the network card before it waits, in us:
/// the kernel's own recommendation (Documentation/admin-guide/sysctl/net.rst,
/// `busy_read` and `busy_poll`).
const BUSY_US: u32 = 50;

/// The script that brings the network up.
pub fn network(instance: &Instance) -> String {
    let (guest, host, prefix) = instance.network.addresses();
    let mut text = "set -e\nmodprobe virtio_net\n\
        for link in /sys/class/net/*; do link=${link##*/}; [ \"$link\" = lo ] || break; done\n"
        .to_owned();
    if instance.polling != Polling::Never {
        text +=
            &format!("sysctl -q -w net.core.busy_poll={BUSY_US} net.core.busy_read={BUSY_US}\n");
    }
    text += &format!(
        "ip address add {guest}/{prefix} dev \"$link\"\nip link set \"$link\" up\n\
         ip route add default via {host}\nset +e\n"
    );
    text
}

/// The job that starts the function.
pub(crate) fn init(instance: &Instance, has_input: bool) -> Job {
    let script = format!("{}\n(\n{}\n)", network(instance), instance.definition.init);
    let mut job = job(instance, &script, instance.definition.init_deadline);
    job.has_input = has_input;
    job.hostname = instance.name.chars().filter(|c| *c != '_').collect();
    // Seconds and below of the host's clock: services take keys from it.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    job.seed = now.map_or(1, |now| now.as_nanos() as u64);
    job
}

/// A job of the function; processes that it leaves running continue.
pub(crate) fn job(instance: &Instance, script: &str, limit: std::time::Duration) -> Job {
    let mut job = Job::new(vec!["sh".into(), "-c".into(), script.into()]);
    job.environment = instance.definition.settings.clone();
    job.environment.insert("FUNCTION".into(), instance.name.clone());
    job.keep_processes = true;
    job.send_results = false;
    job.limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1);
    job
}

/// The function's files as a tar stream.
pub(crate) fn archive(files: &[GuestFile], base: &Path) -> Result<Vec<u8>, Error> {
    let mut pack = Pack::default();
    for file in files {
        let content = match (&file.content, &file.source) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(source)) => {
                let path = base.join(source);
                std::fs::read(&path).map_err(Error::file("read", &path))?
            }
            (None, None) => Vec::new(),
        };
        let mode = u32::from_str_radix(&file.mode, 8).unwrap_or(0o644);
        let inside = file.path.strip_prefix("/").unwrap_or(&file.path);
        pack.add_bytes(inside, mode, &content).map_err(Error::file("pack", &file.path))?;
    }
    pack.whole().map_err(|source| Error::System { action: "pack the guest's files", source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::tests::sample;

    #[test]
    fn the_network_is_polled_where_anything_is() {
        let mut instance = sample("nfs");
        let script = init(&instance, true).command[2].clone();
        assert!(script.contains("net.core.busy_poll=50 net.core.busy_read=50"));
        assert!(script.contains("ip address add 10.0.2.15/24"));
        instance.polling = Polling::Never;
        assert!(!init(&instance, true).command[2].contains("busy"));
        let status = std::process::Command::new("sh").args(["-n", "-c", &script]).status();
        assert!(status.unwrap().success());
    }

    #[test]
    fn files_are_packed_with_their_modes() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("here"), "from a file").unwrap();
        let file = |path: &str, content: Option<&str>, source: Option<&str>| GuestFile {
            path: path.into(),
            content: content.map(String::from),
            source: source.map(Into::into),
            mode: "0755".into(),
        };
        let files = [file("/etc/a", Some("text"), None), file("/b", None, Some("here"))];
        let bytes = archive(&files, folder.path()).unwrap();
        let mut packed = Vec::new();
        for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            std::io::Read::read_to_string(&mut entry, &mut text).unwrap();
            let path = entry.path().unwrap().display().to_string();
            packed.push((path, text, entry.header().mode().unwrap()));
        }
        assert_eq!(
            packed,
            [("etc/a".into(), "text".into(), 0o755), ("b".into(), "from a file".into(), 0o755)]
        );
        let missing = [file("/c", None, Some("gone"))];
        let error = archive(&missing, folder.path()).unwrap_err().to_string();
        assert!(error.contains("gone"), "{error}");
    }
}
