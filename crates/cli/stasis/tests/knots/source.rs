//! The names in a file of Rust: its modules and items, its imports, and the paths in its code. Code
//! of tests is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A constant whose value names files that name the constant's file, as each entry is registered.
#[derive(Debug, Clone, Copy)]
pub struct RegistrationTable {
    /// The file, below the folder of the crates.
    pub file: &'static str,
    pub constant: &'static str,
    /// Why its arrows do not count.
    pub reason: &'static str,
}

/// The meaning of a name in a module.
#[derive(Debug, Clone)]
pub enum Name {
    /// The module of this number.
    Module(usize),
    /// Something that the module's file defines.
    Item,
    /// An import.
    Import { path: Vec<String>, public: bool },
}

/// A module, in a separate file or within one.
#[derive(Debug, Default)]
pub struct Module {
    /// The number of its file.
    pub file: usize,
    pub parent: Option<usize>,
    pub names: BTreeMap<String, Vec<Name>>,
    /// Modules of which all names are imported.
    pub globs: Vec<Vec<String>>,
    /// The paths in its code, imports and registration tables apart.
    pub paths: BTreeSet<Vec<String>>,
    /// The first names of paths in registration tables.
    pub tabled: BTreeSet<String>,
    /// The implementations of types.
    pub impls: Vec<Impl>,
    /// The fields of its types, and the path of each field's type.
    pub fields: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// Methods of a type in one place.
#[derive(Debug, Default)]
pub struct Impl {
    /// The path of the type.
    pub type_path: Vec<String>,
    /// The methods it defines; none of those of a trait.
    pub methods: BTreeSet<String>,
    /// The methods that its functions call of `self`, or of a field of a field of it: the fields'
    /// names, and the method's.
    pub calls: BTreeSet<Vec<String>>,
}

/// A crate's modules and files.
#[derive(Debug, Default)]
pub struct Sources {
    pub modules: Vec<Module>,
    pub files: Vec<PathBuf>,
    tables: Vec<(PathBuf, &'static str)>,
}

impl Sources {
    /// Reads the library or program of which `root` is the first file, such as `src/lib.rs`.
    pub fn read(&mut self, root: &Path, crates: &Path, tables: &[RegistrationTable]) {
        self.tables.extend(tables.iter().map(|table| (crates.join(table.file), table.constant)));
        self.file(root.to_owned(), root.parent().unwrap().to_owned(), None);
    }

    /// Reads a file; its modules' files are below `folder`.
    fn file(&mut self, path: PathBuf, folder: PathBuf, parent: Option<usize>) -> usize {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let tokens = text.parse().unwrap_or_else(|error| panic!("{path:?}: {error}"));
        self.files.push(path);
        self.module(tokens, self.files.len() - 1, &folder, parent)
    }

    fn module(
        &mut self,
        tokens: TokenStream,
        file: usize,
        folder: &Path,
        parent: Option<usize>,
    ) -> usize {
        self.modules.push(Module { file, parent, ..Module::default() });
        let module = self.modules.len() - 1;
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut rest = &tokens[..];
        while !rest.is_empty() {
            let item = Item::split(&mut rest);
            if !item.is_left_out {
                self.item(module, item, folder);
            }
        }
        module
    }

    fn item(&mut self, module: usize, item: Item<'_>, folder: &Path) {
        let file = self.modules[module].file;
        match (item.keyword.as_str(), item.name) {
            ("mod", Some(name)) => {
                let inside = folder.join(&name);
                let child = match item.tokens.last() {
                    Some(TokenTree::Group(body)) => {
                        self.module(body.stream(), file, &inside, Some(module))
                    }
                    _ => {
                        let plain = folder.join(format!("{name}.rs"));
                        let path = match item.path {
                            Some(path) => self.files[file].parent().unwrap().join(path),
                            None if plain.exists() => plain,
                            None => inside.join("mod.rs"),
                        };
                        self.file(path, inside, Some(module))
                    }
                };
                self.name(module, name, Name::Module(child));
            }
            ("use", _) => self.import(module, Vec::new(), item.tokens, item.is_public),
            ("const" | "static", Some(name)) if self.is_table(file, &name) => {
                let firsts = paths(item.tokens).into_iter().map(|path| path[0].clone());
                self.modules[module].tabled.extend(firsts);
                self.name(module, name, Name::Item);
            }
            (_, name) => {
                match (item.keyword.as_str(), &name) {
                    ("impl", _) => self.modules[module].impls.extend(Impl::read(item.tokens)),
                    ("struct", Some(name)) => {
                        let fields = fields(item.tokens);
                        self.modules[module].fields.insert(name.clone(), fields);
                    }
                    _ => {}
                }
                if let Some(name) = name {
                    self.name(module, name, Name::Item);
                }
                self.code(module, item.tokens);
            }
        }
    }

    fn is_table(&self, file: usize, name: &str) -> bool {
        self.tables.iter().any(|(path, constant)| *path == self.files[file] && *constant == name)
    }

    fn name(&mut self, module: usize, name: String, is: Name) {
        self.modules[module].names.entry(name).or_default().push(is);
    }

    /// The paths of a function or a type, and its own imports.
    fn code(&mut self, module: usize, tokens: &[TokenTree]) {
        self.modules[module].paths.extend(paths(tokens));
        self.inner_imports(module, tokens);
    }

    fn inner_imports(&mut self, module: usize, tokens: &[TokenTree]) {
        let mut place = 0;
        while let Some(token) = tokens.get(place) {
            match token {
                TokenTree::Ident(word) if word == "use" => {
                    let rest = &tokens[place + 1..];
                    let end = rest.iter().position(|token| is_punct(token, ';'));
                    let end = end.unwrap_or(rest.len());
                    self.import(module, Vec::new(), &rest[..end], false);
                    place += end;
                }
                TokenTree::Group(group) => {
                    let inside: Vec<_> = group.stream().into_iter().collect();
                    self.inner_imports(module, &inside);
                }
                _ => {}
            }
            place += 1;
        }
    }

    /// Takes down what follows `prefix` in an import.
    fn import(&mut self, module: usize, mut path: Vec<String>, tree: &[TokenTree], public: bool) {
        let mut alias = None;
        for (place, token) in tree.iter().enumerate() {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    alias = tree.get(place + 1).map(ToString::to_string);
                    break;
                }
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Group(group) => {
                    let inside: Vec<_> = group.stream().into_iter().collect();
                    for part in inside.split(|token| is_punct(token, ',')) {
                        if !part.is_empty() {
                            self.import(module, path.clone(), part, public);
                        }
                    }
                    return;
                }
                token if is_punct(token, '*') => {
                    self.modules[module].globs.push(path);
                    return;
                }
                _ => {}
            }
        }
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = alias.or_else(|| path.last().cloned());
        if let Some(name) = name {
            self.name(module, name, Name::Import { path, public });
        }
    }
}

impl Impl {
    /// Reads an implementation from its keyword on; `None` for what is no type by its name.
    fn read(tokens: &[TokenTree]) -> Option<Self> {
        let (TokenTree::Group(body), header) = tokens.split_last()? else { return None };
        let header = header.get(1..)?;
        let is_word = |token: &&TokenTree, word: &str| token.to_string() == word;
        let head = header.split(|token| is_word(&token, "where")).next()?;
        let of_trait = head.iter().position(|token| is_word(&token, "for"));
        let path = match of_trait {
            Some(place) => &head[place + 1..],
            None => after_generics(head),
        };
        let mut this = Self { type_path: first_path(path), ..Self::default() };
        let inside: Vec<_> = body.stream().into_iter().collect();
        let mut rest = &inside[..];
        while !rest.is_empty() {
            let item = Item::split(&mut rest);
            if item.is_left_out {
                continue;
            }
            let mut flat = Vec::new();
            flatten(item.tokens, &mut flat);
            calls(&flat, &mut this.calls);
            if item.keyword == "fn" && of_trait.is_none() {
                this.methods.extend(item.name);
            }
        }
        (!this.type_path.is_empty()).then_some(this)
    }
}

/// The words after `<..>` at the front.
fn after_generics(tokens: &[TokenTree]) -> &[TokenTree] {
    let mut depth = 0;
    for (place, token) in tokens.iter().enumerate() {
        // The arrow of a function's type is no bracket.
        let arrow = place > 0 && is_punct(&tokens[place - 1], '-');
        depth += i32::from(is_punct(token, '<')) - i32::from(is_punct(token, '>') && !arrow);
        if depth == 0 {
            return &tokens[if is_punct(token, '>') { place + 1 } else { place }..];
        }
    }
    &[]
}

/// The path of a type, without references and arguments; empty where the type is none by its name.
fn first_path(tokens: &[TokenTree]) -> Vec<String> {
    let mut flat = Vec::new();
    flatten(tokens, &mut flat);
    let mut words = flat.iter().map(String::as_str).peekable();
    while let Some(mark) = words.next_if(|word| matches!(*word, "&" | "mut" | "'")) {
        // A lifetime's name follows its mark.
        if mark == "'" {
            words.next();
        }
    }
    let mut path = Vec::new();
    let is_name = |word: &str| word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    while let Some(word) = words.next().filter(|word| is_name(word)) {
        path.push(word.to_owned());
        if words.next() != Some("::") {
            break;
        }
    }
    path
}

/// The fields of a `struct`, and the paths of their types.
fn fields(tokens: &[TokenTree]) -> BTreeMap<String, Vec<String>> {
    let Some(TokenTree::Group(body)) = tokens.last() else { return BTreeMap::new() };
    let inside: Vec<_> = body.stream().into_iter().collect();
    let mut fields = BTreeMap::new();
    for field in inside.split(|token| is_punct(token, ',')) {
        let Some(colon) = field.iter().position(|token| is_punct(token, ':')) else { continue };
        if let Some(TokenTree::Ident(name)) = colon.checked_sub(1).map(|place| &field[place]) {
            fields.insert(name.to_string(), first_path(&field[colon + 1..]));
        }
    }
    fields
}

/// Adds the methods that are called of `self` and of its fields, or as `Self::method`.
fn calls(flat: &[String], found: &mut BTreeSet<Vec<String>>) {
    for (place, word) in flat.iter().enumerate() {
        let mark = match word.as_str() {
            "self" => ".",
            "Self" => "::",
            _ => continue,
        };
        let mut chain = Vec::new();
        let mut rest = flat[place + 1..].iter().map(String::as_str);
        while rest.next() == Some(mark) {
            let Some(name) = rest.next() else { break };
            chain.push(name.to_owned());
            if matches!(rest.clone().next(), Some("(" | "::")) {
                found.insert(chain);
                break;
            }
        }
    }
}

/// One item of a module.
struct Item<'a> {
    is_left_out: bool,
    is_public: bool,
    /// The path of `#[path = ".."]`.
    path: Option<String>,
    /// The keyword of the item; empty where none does.
    keyword: String,
    name: Option<String>,
    /// All that follows attributes, visibility and keyword.
    tokens: &'a [TokenTree],
}

/// Words before an item's keyword.
const QUALIFIERS: [&str; 5] = ["unsafe", "async", "extern", "auto", "default"];

impl<'a> Item<'a> {
    /// Takes an item off the front.
    fn split(rest: &mut &'a [TokenTree]) -> Self {
        let (mut is_left_out, mut is_public, mut path) = (false, false, None);
        let mut at = 0;
        loop {
            match &rest[at..] {
                [hash, bang, TokenTree::Group(_), ..]
                    if is_punct(hash, '#') && is_punct(bang, '!') =>
                {
                    at += 3;
                }
                [hash, TokenTree::Group(attribute), ..] if is_punct(hash, '#') => {
                    let text = attribute.stream().to_string();
                    let words: Vec<_> = text.split(|c: char| !c.is_alphanumeric()).collect();
                    // The program that is read has all features, and no tests.
                    let has = |word: &str| words.contains(&word);
                    is_left_out |= words[0] == "cfg"
                        && (has("test") && !has("not") || has("not") && has("feature"));
                    if words[0] == "path" {
                        path = text.split('"').nth(1).map(str::to_owned);
                    }
                    at += 2;
                }
                [TokenTree::Ident(word), TokenTree::Group(group), ..]
                    if word == "pub" && group.delimiter() == Delimiter::Parenthesis =>
                {
                    (is_public, at) = (true, at + 2);
                }
                [TokenTree::Ident(word), ..] if word == "pub" => (is_public, at) = (true, at + 1),
                _ => break,
            }
        }
        let end = at + length(&rest[at..]);
        let mut words =
            rest[at..end].iter().filter(|token| !matches!(token, TokenTree::Literal(_)));
        let mut word = || words.next().map(ToString::to_string).unwrap_or_default();
        let mut keyword = word();
        while QUALIFIERS.contains(&keyword.as_str()) {
            keyword = word();
        }
        let mut name = word();
        while keyword == "const" && (name == "fn" || QUALIFIERS.contains(&name.as_str())) {
            (keyword, name) = (if name == "fn" { name } else { keyword }, word());
        }
        if keyword == "macro_rules" {
            name = word();
        }
        let named = ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod"];
        let is_named = named.contains(&keyword.as_str()) || keyword == "macro_rules";
        if keyword == "static" && name == "mut" {
            name = word();
        }
        let start = if keyword == "use" { at + 1 } else { at };
        let item = Self {
            is_left_out,
            is_public,
            path,
            keyword,
            name: is_named.then_some(name),
            tokens: &rest[start.min(end)..end],
        };
        *rest = &rest[end..];
        item
    }
}

/// Tokens to an item's end.
fn length(tokens: &[TokenTree]) -> usize {
    let is =
        |place: usize, text: &str| tokens.get(place).is_some_and(|one| one.to_string() == text);
    let is_function = |from: usize| (from..from + 4).any(|place| is(place, "fn"));
    let to_semicolon = is(0, "use")
        || is(0, "static")
        || is(0, "type")
        || is(0, "const") && !is_function(1)
        || is(0, "extern") && is(1, "crate");
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => !to_semicolon && group.delimiter() == Delimiter::Brace,
        token => is_punct(token, ';'),
    };
    tokens.iter().position(ends).map_or(tokens.len(), |end| end + 1)
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

/// The paths in `tokens`; of those of one word, only what looks like a type, a constant, or
/// something that is called.
fn paths(tokens: &[TokenTree]) -> BTreeSet<Vec<String>> {
    let mut flat = Vec::new();
    flatten(tokens, &mut flat);
    let is_word = |word: &str| word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut paths = BTreeSet::new();
    let mut place = 0;
    while place < flat.len() {
        let before = |back: usize| place.checked_sub(back).map_or("", |at| flat[at].as_str());
        let is_field = before(1) == "." && before(2) != ".";
        let skipped = is_field || matches!(before(1), "::" | "'" | "fn" | "use");
        if !is_word(&flat[place]) || skipped {
            place += 1;
            continue;
        }
        let mut path = vec![flat[place].clone()];
        place += 1;
        while place + 1 < flat.len() && flat[place] == "::" && is_word(&flat[place + 1]) {
            path.push(flat[place + 1].clone());
            place += 2;
        }
        let next = flat.get(place).map_or("", String::as_str);
        let is_capital = path[0].starts_with(char::is_uppercase);
        if path.len() > 1 || is_capital || matches!(next, "(" | "!" | "::") {
            paths.insert(path);
        }
    }
    paths
}

/// Tokens without groups; `::` is one.
fn flatten(tokens: &[TokenTree], flat: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                flat.push(
                    if group.delimiter() == Delimiter::Parenthesis { "(" } else { "{" }.into(),
                );
                let inside: Vec<_> = group.stream().into_iter().collect();
                flatten(&inside, flat);
                flat.push("}".into());
            }
            token if is_punct(token, ':') && flat.last().is_some_and(|last| last == ":") => {
                *flat.last_mut().unwrap() = "::".into();
            }
            token => flat.push(token.to_string()),
        }
    }
}
