//! Limits for the lines of a file and the methods of a trait. Clippy checks functions, parameters and nesting.

use super::{
    Problem, Source,
    exceptions::Exception,
    source::{is_word, item_length, words},
};

const FILE_LINES: usize = 400;
const TRAIT_METHODS: usize = 6;

struct Size {
    place: String,
    amount: usize,
    limit: usize,
    unit: &'static str,
}

pub(super) fn check(sources: &[Source], exceptions: &[Exception]) -> Vec<Problem> {
    let ours = sources.iter().filter(|source| is_ours(&source.path));
    let sizes: Vec<Size> = ours.flat_map(sizes_of).collect();
    let mut problems: Vec<Problem> = sizes.iter().filter_map(|size| problem(size, exceptions)).collect();
    for exception in exceptions {
        if !sizes.iter().any(|size| size.place == exception.place) {
            problems.push(Problem::new(exception.place, "has an exception, but does not exist"));
        }
    }
    problems
}

fn is_ours(path: &str) -> bool {
    let mut parts = path.split('/');
    match parts.next() {
        Some("crates") => parts.nth(1) == Some("src"),
        Some("testkit" | "xtask" | "bench") => parts.next() == Some("src"),
        _ => false,
    }
}

fn problem(size: &Size, exceptions: &[Exception]) -> Option<Problem> {
    let Size { place, amount, limit, unit } = size;
    let exception = exceptions.iter().find(|exception| exception.place == place);
    let what = match exception {
        None if amount > limit => format!("{amount} {unit}; the limit is {limit}"),
        Some(exception) if *amount > exception.limit => {
            let Exception { limit, reason, .. } = exception;
            format!("{amount} {unit}; the limit of its exception ({reason}) is {limit}")
        }
        Some(_) if amount <= limit => format!("{amount} {unit}; its exception is no longer needed"),
        None | Some(_) => return None,
    };
    Some(Problem::new(place, what))
}

fn sizes_of(source: &Source) -> Vec<Size> {
    let mut sizes = vec![Size {
        place: source.path.clone(),
        amount: source.lines,
        limit: FILE_LINES,
        unit: "lines without tests",
    }];
    for (name, methods) in traits(&source.shipped) {
        let place = format!("{} trait {name}", source.path);
        sizes.push(Size { place, amount: methods, limit: TRAIT_METHODS, unit: "methods" });
    }
    sizes
}

/// The traits of a file, each with its number of methods.
fn traits(code: &str) -> Vec<(&str, usize)> {
    let mut traits = Vec::new();
    for at in words(code, "trait ") {
        let item = &code[at..at + item_length(&code[at..])];
        let name = item["trait ".len()..].split(|c| !is_word(c)).next().unwrap_or_default();
        traits.push((name, methods(item)));
    }
    traits
}

/// The number of methods of the trait itself; functions inside a default method do not count.
fn methods(item: &str) -> usize {
    let depth_at = |at: usize| item[..at].matches('{').count() - item[..at].matches('}').count();
    words(item, "fn ").filter(|at| depth_at(*at) == 1).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(path: &str, text: &str, exceptions: &[Exception]) -> Vec<String> {
        check(&[Source::new(path, text)], exceptions).iter().map(Problem::to_string).collect()
    }

    fn exception(place: &'static str, limit: usize) -> Exception {
        Exception { place, limit, reason: "a table" }
    }

    #[test]
    fn a_file_has_at_most_400_lines_without_its_tests() {
        let long = "fn a() {}\n".repeat(401);
        assert_eq!(
            reported("crates/x/src/y.rs", &long, &[]),
            ["crates/x/src/y.rs: 401 lines without tests; the limit is 400"]
        );
        assert!(reported("crates/x/tests/y.rs", &long, &[]).is_empty());
        let tested = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert!(reported("crates/x/src/y.rs", &tested, &[]).is_empty());
    }

    #[test]
    fn a_trait_has_at_most_6_methods() {
        let wide = format!("pub trait Drawer: Send {{\n{}}}\n", "    fn a(&self) -> u8;\n".repeat(7));
        assert_eq!(
            reported("testkit/src/y.rs", &wide, &[]),
            ["testkit/src/y.rs trait Drawer: 7 methods; the limit is 6"]
        );
    }

    #[test]
    fn only_a_traits_own_methods_count() {
        let code = "trait A { type B; fn c(&self); fn d() { fn e() {} } }\ntrait F: A {}\nfn g() {}";
        assert_eq!(traits(code), [("A", 2), ("F", 0)]);
    }

    #[test]
    fn exception_raises_a_limit_and_must_be_needed() {
        let path = "xtask/src/y.rs";
        let lines = |count| "fn a() {}\n".repeat(count);
        assert!(reported(path, &lines(410), &[exception(path, 420)]).is_empty());
        assert_eq!(
            reported(path, &lines(430), &[exception(path, 420)]),
            ["xtask/src/y.rs: 430 lines without tests; the limit of its exception (a table) is 420"]
        );
        assert_eq!(
            reported(path, &lines(400), &[exception(path, 420)]),
            ["xtask/src/y.rs: 400 lines without tests; its exception is no longer needed"]
        );
        assert_eq!(reported(path, "", &[exception("xtask/src/z.rs", 420)]).len(), 1);
    }
}
