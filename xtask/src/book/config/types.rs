//! The serde types of `lango.toml`, parsed from their source: keys, kinds of values, and doc comments.

use super::super::is_rust;
use std::collections::BTreeMap;
use syn::{
    Attribute, Expr, Fields, GenericArgument, Ident, Item, ItemEnum, ItemStruct, Lit, LitStr, Meta,
    PathArguments, Token, Type, UseTree,
};

/// The directory of the types.
const CONFIG: &str = "crates/cli/src/config/";

pub(super) struct Types {
    /// The files of the configuration module, by module name.
    modules: BTreeMap<String, syn::File>,
    /// All other source files of product crates: types of other crates that the configuration uses.
    others: Vec<String>,
}

/// One key of a table.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) key: String,
    pub(super) kind: KeyKind,
    pub(super) docs: Docs,
    pub(super) is_required: bool,
    /// For a table whose type is in another crate: the keys that its doc comment must name.
    pub(super) foreign_keys: Vec<String>,
}

/// The kind of value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// A value, with a short description.
    Value(String),
    /// One of a few words.
    Words(String),
    List(Box<KeyKind>),
    /// A table with its own keys: the module and the name of its type.
    Table(String, String),
    /// A table whose keys are names that the user chooses.
    Map(Box<KeyKind>),
}

/// A doc comment, with its labelled lines separated.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Docs {
    pub(super) text: String,
    pub(super) default: Option<String>,
    pub(super) environment: Option<String>,
    /// The placeholder for a chosen name in the heading of a table.
    pub(super) name: Option<String>,
}

#[derive(Default)]
struct Serde {
    rename: Option<String>,
    rename_all: Option<String>,
    has_default: bool,
    is_flattened: bool,
    is_untagged: bool,
}

impl Types {
    pub(super) fn parse(files: &[(String, String)]) -> Result<Self, String> {
        let (mut modules, mut others) = (BTreeMap::new(), Vec::new());
        for (path, text) in files.iter().filter(|(path, _)| is_rust(path) && path.starts_with("crates/")) {
            if let Some(name) = path.strip_prefix(CONFIG).and_then(|name| name.strip_suffix(".rs")) {
                let file = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
                modules.insert(name.to_owned(), file);
            } else if text.contains("Deserialize") {
                others.push(text.clone());
            }
        }
        Ok(Self { modules, others })
    }

    pub(super) fn module(&self, name: &str) -> Result<&syn::File, String> {
        self.modules.get(name).ok_or_else(|| format!("{CONFIG}{name}.rs does not exist"))
    }

    /// The keys of a table, in the order of the source.
    pub(super) fn fields(&self, module: &str, name: &str) -> Result<Vec<Field>, String> {
        let Some(Item::Struct(table)) = self.module(module)?.items.iter().find(|item| is_named(item, name))
        else {
            return Err(format!("{CONFIG}{module}.rs has no struct {name}"));
        };
        let all = serde(&table.attrs);
        let mut fields = Vec::new();
        for field in &table.fields {
            let own = serde(&field.attrs);
            let Some(ident) = field.ident.as_ref().filter(|_| !own.is_flattened) else { continue };
            let kind =
                self.kind(module, &field.ty).map_err(|why| format!("{CONFIG}{module}.rs {ident}: {why}"))?;
            let is_optional = outer(&field.ty).is_some_and(|(name, _)| name == "Option");
            fields.push(Field {
                key: key(ident, &own, all.rename_all.as_deref()),
                docs: docs(&field.attrs),
                is_required: !(is_optional || own.has_default || all.has_default),
                foreign_keys: self.foreign_keys(&field.ty),
                kind,
            });
        }
        Ok(fields)
    }

    fn kind(&self, module: &str, ty: &Type) -> Result<KeyKind, String> {
        let (name, arguments) = outer(ty).ok_or("its type is not supported by the reference")?;
        let value = |text: &str| Ok(KeyKind::Value(text.to_owned()));
        let inner = || arguments.last().ok_or_else(|| format!("{name} has no type argument"));
        match name.as_str() {
            "Option" => self.kind(module, inner()?),
            "Vec" => Ok(KeyKind::List(Box::new(self.kind(module, inner()?)?))),
            "BTreeMap" => Ok(KeyKind::Map(Box::new(self.kind(module, inner()?)?))),
            "String" => value("string"),
            "PathBuf" => value("path"),
            "bool" => value("boolean"),
            "u8" | "u16" | "u32" | "NonZeroU32" | "u64" | "usize" | "i64" => value("integer"),
            "f64" => value("number"),
            "Seconds" => value("seconds"),
            "SocketAddr" => value("`\"address:port\"`"),
            "Value" => value("any value"),
            "Map" => value("table"),
            _ => self.own_kind(module, ty, &name),
        }
    }

    fn own_kind(&self, module: &str, ty: &Type, name: &str) -> Result<KeyKind, String> {
        let Some((module, item)) = self.resolve(module, ty, name) else {
            return match self.foreign(name) {
                Some(Item::Enum(words)) => self.words("", &words),
                Some(Item::Struct(_)) => Ok(KeyKind::Value("table".to_owned())),
                _ => Err(format!("the type {name} is not found")),
            };
        };
        match item {
            Item::Enum(words) => self.words(&module, words),
            _ => Ok(KeyKind::Table(module, name.to_owned())),
        }
    }

    /// The module of the configuration that a type is in, and the type.
    fn resolve(&self, module: &str, ty: &Type, name: &str) -> Option<(String, &Item)> {
        let Type::Path(path) = ty else { return None };
        let qualified = path.path.segments.iter().rev().nth(1).map(|segment| segment.ident.to_string());
        let candidates = [qualified, Some(module.to_owned()), imported_from(self.modules.get(module)?, name)];
        candidates.into_iter().flatten().find_map(|candidate| {
            let item = self.modules.get(&candidate)?.items.iter().find(|item| is_named(item, name))?;
            Some((candidate, item))
        })
    }

    fn words(&self, module: &str, words: &ItemEnum) -> Result<KeyKind, String> {
        let attributes = serde(&words.attrs);
        if !attributes.is_untagged {
            let case = |ident: &Ident| match attributes.rename_all.as_deref() {
                Some("snake_case") => snake(&ident.to_string()),
                _ => ident.to_string().to_lowercase(),
            };
            let all: Vec<String> =
                words.variants.iter().map(|variant| format!("`\"{}\"`", case(&variant.ident))).collect();
            return Ok(KeyKind::Words(or(&all)));
        }
        let mut all = Vec::new();
        for variant in &words.variants {
            let Fields::Unnamed(fields) = &variant.fields else {
                return Err("a variant without a type".into());
            };
            let field = fields.unnamed.first().ok_or("a variant without a type")?;
            all.push(match self.kind(module, &field.ty)? {
                KeyKind::Table(module, name) => {
                    let keys: Vec<String> =
                        self.fields(&module, &name)?.into_iter().map(|field| field.key).collect();
                    format!("`{{ {} }}`", keys.join(", "))
                }
                kind => kind.to_string(),
            });
        }
        Ok(KeyKind::Value(or(&all)))
    }

    /// A type of another crate.
    fn foreign(&self, name: &str) -> Option<Item> {
        let is_there = |text: &&String| {
            ["struct", "enum"].iter().any(|word| text.contains(&format!("pub {word} {name} {{")))
        };
        let file = self.others.iter().find(is_there).and_then(|text| syn::parse_file(text).ok())?;
        file.items.into_iter().find(|item| is_named(item, name))
    }

    /// The keys of a table of another crate.
    fn foreign_keys(&self, ty: &Type) -> Vec<String> {
        let Some((name, arguments)) = outer(ty) else { return Vec::new() };
        if name == "Option" {
            return arguments.first().map(|inner| self.foreign_keys(inner)).unwrap_or_default();
        }
        let is_ours = self.modules.values().any(|file| file.items.iter().any(|item| is_named(item, &name)));
        match self.foreign(&name).filter(|_| !is_ours) {
            Some(Item::Struct(table)) => keys(&table),
            _ => Vec::new(),
        }
    }
}

impl std::fmt::Display for KeyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(text) | Self::Words(text) => f.write_str(text),
            Self::List(inner) => write!(f, "list{}", each(inner)),
            Self::Map(inner) => write!(f, "table{}", each(inner)),
            Self::Table(..) => f.write_str("table"),
        }
    }
}

/// The suffix for the elements: ` of strings`, or `; each …`.
fn each(kind: &KeyKind) -> String {
    match kind {
        KeyKind::Value(text) if text.chars().all(char::is_alphabetic) => format!(" of {text}s"),
        KeyKind::Value(_) | KeyKind::Words(_) | KeyKind::List(_) | KeyKind::Map(_) | KeyKind::Table(..) => {
            format!("; each {kind}")
        }
    }
}

fn keys(table: &ItemStruct) -> Vec<String> {
    let all = serde(&table.attrs);
    let own =
        table.fields.iter().map(|field| (field, serde(&field.attrs))).filter(|(_, own)| !own.is_flattened);
    own.filter_map(|(field, own)| Some(key(field.ident.as_ref()?, &own, all.rename_all.as_deref()))).collect()
}

fn is_named(item: &Item, name: &str) -> bool {
    match item {
        Item::Struct(table) => table.ident == name,
        Item::Enum(words) => words.ident == name,
        _ => false,
    }
}

/// The last name of a type's path, and its type arguments.
fn outer(ty: &Type) -> Option<(String, Vec<&Type>)> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let arguments = match &last.arguments {
        PathArguments::AngleBracketed(all) => all.args.iter().filter_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        }),
        _ => return Some((last.ident.to_string(), Vec::new())),
    };
    Some((last.ident.to_string(), arguments.collect()))
}

/// The module that a name is imported from.
fn imported_from(file: &syn::File, name: &str) -> Option<String> {
    fn find(tree: &UseTree, parent: &str, name: &str) -> Option<String> {
        match tree {
            UseTree::Path(path) => find(&path.tree, &path.ident.to_string(), name),
            UseTree::Group(group) => group.items.iter().find_map(|tree| find(tree, parent, name)),
            UseTree::Name(own) => (own.ident == name).then(|| parent.to_owned()),
            _ => None,
        }
    }
    file.items.iter().find_map(|item| match item {
        Item::Use(import) => find(&import.tree, "", name),
        _ => None,
    })
}

fn key(ident: &Ident, own: &Serde, rename_all: Option<&str>) -> String {
    let name = ident.to_string();
    own.rename.clone().unwrap_or_else(|| if rename_all == Some("camelCase") { camel(&name) } else { name })
}

fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |key, part| {
        let (head, tail) = part.split_at(part.len().min(1));
        key + &head.to_uppercase() + tail
    })
}

fn snake(name: &str) -> String {
    let mut written = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !written.is_empty() {
            written.push('_');
        }
        written.extend(letter.to_lowercase());
    }
    written
}

fn or(all: &[String]) -> String {
    match all {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => all.join(""),
    }
}

fn serde(attributes: &[Attribute]) -> Serde {
    let mut found = Serde::default();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        // The compiler reports attributes that cannot be parsed.
        let _ = attribute.parse_nested_meta(|meta| {
            let value = if meta.input.peek(Token![=]) {
                Some(meta.value()?.parse::<LitStr>()?.value())
            } else {
                None
            };
            match meta.path.get_ident().map(ToString::to_string).as_deref() {
                Some("rename") => found.rename = value,
                Some("rename_all") => found.rename_all = value,
                Some("default") => found.has_default = true,
                Some("flatten") => found.is_flattened = true,
                Some("untagged") => found.is_untagged = true,
                _ => {}
            }
            Ok(())
        });
    }
    found
}

pub(super) fn docs(attributes: &[Attribute]) -> Docs {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    let mut docs = Docs::default();
    for line in lines {
        let line = line.trim();
        if let Some(default) = line.strip_prefix("Default: ") {
            docs.default = Some(default.to_owned());
        } else if let Some(environment) = line.strip_prefix("Environment: ") {
            docs.environment = Some(environment.to_owned());
        } else if let Some(name) = line.strip_prefix("Name: ") {
            docs.name = Some(name.trim_matches('`').to_owned());
        } else if !line.is_empty() {
            let space = if docs.text.is_empty() { "" } else { " " };
            docs.text = format!("{}{space}{line}", docs.text);
        }
    }
    docs
}
