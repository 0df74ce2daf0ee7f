//! Container images: the layers of one, from what `docker save` or `podman save` writes, or from
//! an OCI image layout (OCI Image Format 1.1, image-layout.md), as an archive or a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::content::{ReadAt, Span};
use crate::tree::{text, Limits, Tree};
use crate::{compressed, layer, ImageConfig, RootError};

/// The largest list or description of an image that is read.
const JSON: u64 = 4 << 20;
/// Limit on the layers of an image; container engines stack 127.
const LAYERS: usize = 1000;
/// Largest depth of lists of images.
const DEPTH: u32 = 4;
const OCI_INDEX: &str = "index.json";
const OCI_MARK: &str = "oci-layout";
const DOCKER_LIST: &str = "manifest.json";

/// The files of an image, by name.
pub(crate) enum Files {
    Archive(BTreeMap<String, Part>),
    Folder(PathBuf),
}

/// A file of an archive.
pub(crate) enum Part {
    Bytes(Span),
    /// Docker writes a layer that it has written before as a link.
    Link(String),
}

impl Files {
    /// The entries of an archive, if it is one of a container image.
    pub(crate) fn of_archive(span: &Span, origin: &Path) -> Result<Option<Self>, RootError> {
        /// Enough of an image's files; a root has more, which distinguishes it.
        const MAX_FILES: usize = 10_000;
        let mut parts = BTreeMap::new();
        let damaged = |cause: String| RootError::unusable(origin, cause);
        layer::each(span, &damaged, |entry| {
            let name = String::from_utf8_lossy(&entry.head.path);
            let name = name.trim_start_matches("./").to_owned();
            if parts.len() >= MAX_FILES {
                return Ok(());
            }
            if entry.head.kind.is_symlink() || entry.head.kind.is_hard_link() {
                let target = String::from_utf8_lossy(&entry.head.target).into_owned();
                parts.insert(name, Part::Link(target));
            } else if let Some(part) = span.part(entry.start, entry.length) {
                parts.insert(name, Part::Bytes(part));
            }
            Ok(())
        })?;
        let has = |name: &str| parts.contains_key(name);
        let image = has(OCI_INDEX) && has(OCI_MARK) || has(DOCKER_LIST) && !has("bin/sh");
        Ok(image.then_some(Self::Archive(parts)))
    }

    /// A folder with an image layout.
    pub(crate) fn of_folder(folder: &Path) -> Option<Self> {
        let layout = [OCI_INDEX, OCI_MARK].iter().all(|name| folder.join(name).is_file());
        layout.then(|| Self::Folder(folder.into()))
    }

    fn span(&self, name: &str) -> Option<Span> {
        match self {
            Self::Folder(folder) => {
                let inside = name.split('/').all(|part| !part.is_empty() && part != "..");
                inside.then(|| crate::lower::open(&folder.join(name)).ok())?
            }
            Self::Archive(parts) => match parts.get(name)? {
                Part::Bytes(span) => Some(span.clone()),
                Part::Link(target) => {
                    // Beside the link, one folder up and down again.
                    let target = target.trim_start_matches("../");
                    let beside =
                        name.rsplit_once('/').map(|(folder, _)| format!("{folder}/{target}"));
                    let names = [Some(target.to_owned()), beside];
                    names.into_iter().flatten().find_map(|name| match parts.get(&name)? {
                        Part::Bytes(span) => Some(span.clone()),
                        Part::Link(_) => None,
                    })
                }
            },
        }
    }
}

/// An entry of Docker's list (moby, image/spec/v1.2.md, "Combined Image JSON + Filesystem Changeset
/// Format").
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    #[serde(default)]
    config: Option<String>,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

impl DockerImage {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.repo_tags.iter().flatten().map(String::as_str)
    }
}

/// A list of images, or an image's description (image-index.md, manifest.md).
#[derive(Deserialize)]
struct Oci {
    #[serde(default)]
    manifests: Vec<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    #[serde(default)]
    config: Option<Descriptor>,
}

#[derive(Deserialize, Clone)]
struct Descriptor {
    digest: String,
    #[serde(default)]
    platform: Option<Platform>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize, Clone)]
struct Platform {
    architecture: String,
    os: String,
}

impl Descriptor {
    /// Signatures and the like lie among images as `unknown`.
    fn is_image(&self) -> bool {
        self.platform.as_ref().is_none_or(|platform| platform.architecture != "unknown")
    }

    /// Names by which engines know it: by the specification (annotations.md), and containerd's.
    fn names(&self) -> impl Iterator<Item = &str> {
        let keys = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
        keys.into_iter().filter_map(|key| self.annotations.get(key).map(String::as_str))
    }

    fn fits(&self) -> bool {
        let fits = |platform: &Platform| platform.os == "linux" && platform.architecture == "amd64";
        self.platform.as_ref().is_none_or(fits)
    }
}

/// Returns whether a name in an image's files is the one that is asked for, as engines complete both
/// (distribution/reference, `ParseDockerRef`).
fn is_named(found: &str, asked: &str) -> bool {
    let whole = |name: &str| {
        let name = name.strip_prefix("docker.io/").unwrap_or(name);
        let name = name.strip_prefix("library/").unwrap_or(name);
        match name.rsplit('/').next().is_some_and(|last| last.contains([':', '@'])) {
            true => name.to_owned(),
            false => format!("{name}:latest"),
        }
    };
    found == asked || whole(found) == whole(asked)
}

struct Image<'a> {
    files: &'a Files,
    origin: &'a Path,
    /// Name of the one image of several.
    name: Option<&'a str>,
}

/// The layers of an image, in order, and its configuration.
type Parts = (Vec<Span>, ImageConfig);

/// Reads the root that the layers of an image make, and the image's configuration. `name` is the
/// image's among several.
pub(crate) fn read(
    files: &Files,
    (origin, name): (&Path, Option<&str>),
    work: &Path,
    limits: Limits,
) -> Result<(Tree, ImageConfig), RootError> {
    let image = Image { files, origin, name };
    let (layers, config) = match files.span(DOCKER_LIST) {
        Some(list) => image.docker(&list)?,
        None => image.oci()?,
    };
    if layers.len() > LAYERS {
        return Err(image.fail(format!("it has more than {LAYERS} layers")));
    }
    let mut tree = Tree::new(origin, limits);
    // Files that later layers remove may take as many bytes as those that stay.
    let mut budget = limits.bytes.saturating_mul(2);
    for (layer, span) in (1..).zip(&layers) {
        let most = Limits { bytes: budget.min(limits.bytes), ..limits };
        let plain = compressed::plain(span, work, most).map_err(|cause| image.fail(cause))?;
        budget -= plain.length.min(budget);
        layer::apply(&mut tree, &plain, layer, true)?;
    }
    Ok((tree, config))
}

impl Image<'_> {
    fn fail(&self, cause: impl Into<String>) -> RootError {
        RootError::unusable(self.origin, cause)
    }

    fn json<'a, T: Deserialize<'a>>(&self, name: &str, bytes: &'a [u8]) -> Result<T, RootError> {
        serde_json::from_slice(bytes).map_err(|e| self.fail(format!("its {name} is damaged: {e}")))
    }

    fn text(&self, name: &str, span: &Span) -> Result<Vec<u8>, RootError> {
        span.read_all(JSON).map_err(|e| self.fail(format!("cannot read its {name}: {e}")))
    }

    fn docker(&self, list: &Span) -> Result<Parts, RootError> {
        let bytes = self.text(DOCKER_LIST, list)?;
        let images: Vec<DockerImage> = self.json(DOCKER_LIST, &bytes)?;
        let asked = |image: &&DockerImage| {
            self.name.is_none_or(|name| image.names().any(|found| is_named(found, name)))
        };
        let fitting: Vec<_> = images.iter().filter(asked).collect();
        let [image] = fitting[..] else {
            return Err(self.several(fitting.len(), images.iter().flat_map(DockerImage::names)));
        };
        let file = |kind: &str, name: &str| {
            let missing = || self.fail(format!("its {kind} {} is missing", text(name.as_bytes())));
            self.files.span(name).ok_or_else(missing)
        };
        let layers: Result<_, _> = image.layers.iter().map(|name| file("layer", name)).collect();
        let config = image.config.as_ref().map(|name| self.config(&file("configuration", name)?));
        Ok((layers?, config.transpose()?.unwrap_or_default()))
    }

    fn config(&self, span: &Span) -> Result<ImageConfig, RootError> {
        ImageConfig::read(&self.text("configuration", span)?, self.origin)
    }

    /// The error where not one of the images is meant but `count`, of all those with these names.
    fn several<'n>(&self, count: usize, names: impl Iterator<Item = &'n str>) -> RootError {
        let names: Vec<_> = names.map(|name| text(name.as_bytes())).collect();
        let list =
            if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        self.fail(match self.name {
            Some(name) if count == 0 => {
                format!("it has no image {}{list}", text(name.as_bytes()))
            }
            _ => format!(
                "it holds {count} images{list}, and a root is one: put the name of one behind the path, \
                 as in PATH:NAME"
            ),
        })
    }

    fn oci(&self) -> Result<Parts, RootError> {
        let span = self.files.span(OCI_INDEX);
        let span = span.ok_or_else(|| self.fail(format!("its {OCI_INDEX} is missing")))?;
        let mut bytes = self.text(OCI_INDEX, &span)?;
        // Names are those of the layout's own list.
        let mut name = self.name;
        for _ in 0..DEPTH {
            let list: Oci = self.json(OCI_INDEX, &bytes)?;
            if !list.layers.is_empty() {
                let layers = list.layers.iter().map(|layer| self.blob(&layer.digest));
                let layers: Result<_, _> = layers.collect();
                let config = list.config.map(|config| self.config(&self.blob(&config.digest)?));
                return Ok((layers?, config.transpose()?.unwrap_or_default()));
            }
            let images: Vec<_> = list.manifests.iter().filter(|one| one.is_image()).collect();
            let asked = name.take();
            let named = |one: &&&Descriptor| {
                asked.is_none_or(|name| one.names().any(|found| is_named(found, name)))
            };
            let named: Vec<_> = images.iter().filter(named).collect();
            let fitting: Vec<_> = named.iter().filter(|one| one.fits()).collect();
            bytes = match fitting[..] {
                [one] => self.text(&one.digest, &self.blob(&one.digest)?)?,
                [] if named.is_empty() && asked.is_some() => {
                    return Err(self.several(0, images.iter().flat_map(|one| one.names())));
                }
                [] => {
                    let platforms = images.iter().filter_map(|one| one.platform.as_ref());
                    let others: Vec<_> =
                        platforms.map(|p| format!("{}/{}", p.os, p.architecture)).collect();
                    let others = others.join(", ");
                    return Err(
                        self.fail(format!("it has no image for linux/amd64 (it has {others})"))
                    );
                }
                _ => {
                    let names = fitting.iter().flat_map(|one| one.names());
                    return Err(self.several(fitting.len(), names));
                }
            };
        }
        Err(self.fail("its lists of images have no layers"))
    }

    /// A blob, whose content matches its digest.
    fn blob(&self, digest: &str) -> Result<Span, RootError> {
        let bad = |cause: &str| self.fail(format!("its blob {} {cause}", text(digest.as_bytes())));
        let hex = digest.strip_prefix("sha256:").ok_or_else(|| bad("is not named by SHA-256"))?;
        let span =
            self.files.span(&format!("blobs/sha256/{hex}")).ok_or_else(|| bad("is missing"))?;
        let mut hash = Sha256::new();
        let mut piece = vec![0; 1 << 20];
        let mut at = 0;
        while at < span.length {
            let length = (span.length - at).min(piece.len() as u64) as usize;
            span.read_at(&mut piece[..length], at)
                .map_err(|e| bad(&format!("cannot be read: {e}")))?;
            hash.update(&piece[..length]);
            at += length as u64;
        }
        match crate::sha256::hex(&hash.finalize()) == hex {
            true => Ok(span),
            false => Err(bad("is not what its digest says")),
        }
    }
}
