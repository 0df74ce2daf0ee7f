//! Which files use which, and the knots that they form.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::source::{Name, RegistrationTable, Sources};

/// A set of files each of which uses each other, over others perhaps.
#[derive(Debug, PartialEq, Eq)]
pub struct Knot {
    /// The files, below the folder of the crates.
    pub files: Vec<PathBuf>,
    /// Each arrow: which file uses which, and the used names.
    pub arrows: Vec<String>,
}

/// The target of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Module(usize),
    File(usize),
}

impl Target {
    fn module(self) -> Option<usize> {
        match self {
            Self::Module(module) => Some(module),
            Self::File(_) => None,
        }
    }
}

/// The way to a target, so that names that import one another end.
type Visited = BTreeSet<(usize, Vec<String>)>;

impl Sources {
    /// Resolves `path` in `module`.
    fn resolve(&self, module: usize, path: &[String], visited: &mut Visited) -> BTreeSet<Target> {
        if !visited.insert((module, path.to_vec())) {
            return BTreeSet::new();
        }
        let (mut at, mut rest) = (module, path);
        while let Some(first) = rest.first() {
            match (first.as_str(), self.modules[at].parent) {
                ("self", _) => {}
                ("super", Some(parent)) => at = parent,
                ("crate", _) => {
                    while let Some(parent) = self.modules[at].parent {
                        at = parent;
                    }
                }
                _ => break,
            }
            rest = &rest[1..];
        }
        if rest.is_empty() {
            return BTreeSet::from([Target::Module(at)]);
        }
        self.lookup(at, rest, visited)
    }

    /// Resolves a `path` whose first word is a name in `module`; a re-export is followed.
    fn lookup(&self, module: usize, path: &[String], visited: &mut Visited) -> BTreeSet<Target> {
        let here = &self.modules[module];
        let Some(names) = here.names.get(&path[0]) else {
            let inside = |glob: &Vec<String>, visited: &mut Visited| {
                let modules = self.resolve(module, glob, visited).into_iter();
                let inner = modules.filter_map(|target| target.module());
                inner.flat_map(|inner| self.lookup(inner, path, visited)).collect::<Vec<_>>()
            };
            return here.globs.iter().flat_map(|glob| inside(glob, visited)).collect();
        };
        let mut found = BTreeSet::new();
        for name in names {
            match name {
                Name::Item => drop(found.insert(Target::File(here.file))),
                Name::Module(inner) => drop(found.insert(Target::Module(*inner))),
                Name::Import { path, .. } => found.extend(self.resolve(module, path, visited)),
            }
        }
        let inner: Vec<_> = found.iter().filter_map(|target| target.module()).collect();
        if path.len() == 1 || inner.is_empty() {
            return found;
        }
        let inside = |inner: usize| {
            let found = self.lookup(inner, &path[1..], visited);
            match found.is_empty() {
                // A macro has made it there.
                true => BTreeSet::from([Target::File(self.modules[inner].file)]),
                false => found,
            }
        };
        inner.into_iter().flat_map(inside).collect()
    }

    /// Which file uses which, and one name by which.
    fn arrows(&self) -> BTreeMap<(usize, usize), String> {
        let mut arrows = BTreeMap::new();
        for (number, module) in self.modules.iter().enumerate() {
            let mut uses = |path: &[String]| {
                for target in self.resolve(number, path, &mut Visited::new()) {
                    if let Target::File(file) = target {
                        let text = || path.join("::");
                        arrows.entry((module.file, file)).or_insert_with(text);
                    }
                }
            };
            let is_used = |name: &String| module.paths.iter().any(|path| path[0] == *name);
            for (name, is) in &module.names {
                for is in is {
                    let Name::Import { path, public } = is else { continue };
                    // A trait is used without its name. A name that is only exported is not used
                    // here.
                    let counts = match public {
                        true => is_used(name),
                        false => is_used(name) || !module.tabled.contains(name),
                    };
                    if counts {
                        uses(path);
                    }
                }
            }
            for path in &module.paths {
                uses(path);
            }
        }
        self.method_arrows(&mut arrows);
        arrows.retain(|(from, to), _| from != to);
        arrows
    }

    /// The type at the end of `path` in `module`: its file, and its name.
    fn type_of(&self, module: usize, path: &[String]) -> Option<(usize, String)> {
        let name = path.last()?.clone();
        let files = self.resolve(module, path, &mut Visited::new());
        files.into_iter().find_map(|target| match target {
            Target::File(file) => Some((file, name.clone())),
            Target::Module(_) => None,
        })
    }

    /// Adds which file calls a method that an `impl` in another defines, of `self` or of a field
    /// whose type is known by its name.
    fn method_arrows(&self, arrows: &mut BTreeMap<(usize, usize), String>) {
        let mut methods: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        let mut fields = BTreeMap::new();
        for (number, module) in self.modules.iter().enumerate() {
            for part in &module.impls {
                let Some(owner) = self.type_of(number, &part.type_path) else { continue };
                for method in &part.methods {
                    methods.entry((owner.clone(), method)).or_default().push(module.file);
                }
            }
            for (name, types) in &module.fields {
                for (field, path) in types {
                    if let Some(owner) = self.type_of(number, path) {
                        fields.insert(((module.file, name.clone()), field), owner);
                    }
                }
            }
        }
        for (number, module) in self.modules.iter().enumerate() {
            for part in &module.impls {
                let Some(owner) = self.type_of(number, &part.type_path) else { continue };
                for chain in &part.calls {
                    let Some((method, way)) = chain.split_last() else { continue };
                    let mut way = way.iter();
                    let at =
                        way.try_fold(owner.clone(), |at, field| fields.get(&(at, field)).cloned());
                    let Some(at) = at else { continue };
                    let name = format!("{}::{method}", at.1);
                    for file in methods.get(&(at, method)).into_iter().flatten() {
                        arrows.entry((module.file, *file)).or_insert_with(|| name.clone());
                    }
                }
            }
        }
    }

    /// The files that can be reached from `file`.
    fn reached(file: usize, arrows: &BTreeMap<(usize, usize), String>) -> BTreeSet<usize> {
        let (mut reached, mut pending) = (BTreeSet::new(), vec![file]);
        while let Some(file) = pending.pop() {
            for ((_, to), _) in arrows.range((file, 0)..(file + 1, 0)) {
                if reached.insert(*to) {
                    pending.push(*to);
                }
            }
        }
        reached
    }
}

/// The knots of the crate in `folder`, the largest first.
pub fn knots(folder: &Path, tables: &[RegistrationTable]) -> Vec<Knot> {
    let crates = folder.parent().and_then(Path::parent).unwrap();
    let mut sources = Sources::default();
    let programs = std::fs::read_dir(folder.join("src/bin")).into_iter().flatten();
    let mut roots: Vec<_> = programs.map(|entry| entry.unwrap().path()).collect();
    roots.extend([folder.join("src/lib.rs"), folder.join("src/main.rs")]);
    for root in roots.iter().filter(|root| root.is_file()) {
        sources.read(root, crates, tables);
    }
    let arrows = sources.arrows();
    let reached: Vec<_> =
        (0..sources.files.len()).map(|file| Sources::reached(file, &arrows)).collect();
    let shown = |file: usize| sources.files[file].strip_prefix(crates).unwrap().to_owned();
    let mut knots = Vec::new();
    for file in 0..sources.files.len() {
        let both = |other: &usize| reached[file].contains(other) && reached[*other].contains(&file);
        let knot: BTreeSet<_> = (0..sources.files.len()).filter(both).collect();
        if knot.first() == Some(&file) {
            let within = arrows.iter().filter(|((a, b), _)| knot.contains(a) && knot.contains(b));
            let arrow = |((from, to), name): (&(usize, usize), &String)| {
                format!("{} uses {name} of {}", shown(*from).display(), shown(*to).display())
            };
            let files = knot.iter().map(|file| shown(*file)).collect();
            knots.push(Knot { files, arrows: within.map(arrow).collect() });
        }
    }
    knots.sort_by_key(|knot| std::cmp::Reverse(knot.files.len()));
    knots
}
