//! Sizes of pages are values, because kernels of arm64 have base pages of 4, 16 or 64 KiB.

use crate::{source::Crate, tree};

/// The crates that count in pages, and their modules that describe one kernel: records and fakes for tests.
const COUNT: [&str; 5] =
    ["numaloc-core", "numaloc-sys", "numaloc-host", "numaloc-executor", "numaloc-engine"];
const RECORDED: [&str; 4] = ["samples", "fake", "fixture", "fuzz"];

/// Sizes of pages of 4 KiB and their huge pages as they are written, and the shifts by which one divides by them.
const SIZES: [&[&str]; 9] = [
    &["4096"],
    &["4_096"],
    &["4096u64"],
    &["2_097_152"],
    &["2", "<", "<", "20"],
    &["<", "<", "12"],
    &[">", ">", "12"],
    &["<", "<", "21"],
    &[">", ">", "21"],
];

/// Names that a size of pages would have as a constant.
const OF_PAGES: [&str; 4] = ["PAGE", "PAGE_SIZE", "HUGE", "PMD_SIZE"];

/// Such numbers, but for constants whose names say what else they count.
pub fn sizes_of_pages(krate: &Crate) -> Vec<String> {
    let modules = krate.modules.iter().filter(|_| COUNT.contains(&&*krate.name));
    let modules = modules.filter(|(path, _)| !is_recorded(path));
    let faults = modules.filter_map(|(_, module)| {
        let found = first_size(&module.tokens)?;
        Some(format!(
            "{}: {found} may be the size of a page: take page_size() or pmd_size(), or give a number of another kind a name \
             (const)",
            module.file
        ))
    });
    faults.collect()
}

fn is_recorded(path: &tree::Path) -> bool {
    path.iter().any(|name| RECORDED.contains(&&**name))
}

fn first_size(tokens: &[String]) -> Option<String> {
    let mut named = false;
    for (index, token) in tokens.iter().enumerate() {
        match &**token {
            // `const fn` has no name of a value.
            "const" => {
                let name = tokens.get(index + 1).map_or("", |name| &**name);
                named = name != "fn" && !OF_PAGES.contains(&name);
            }
            ";" => named = false,
            _ if named => {}
            _ => {
                let here = tokens[index..].iter().map(String::as_str);
                let found = SIZES
                    .iter()
                    .find(|size| here.clone().take(size.len()).eq(size.iter().copied()));
                if let Some(size) = found {
                    return Some(size.concat());
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tokens;

    #[track_caller]
    fn check(text: &str, expect: Option<&str>) {
        assert_eq!(first_size(&tokens(text)).as_deref(), expect, "{text}");
    }

    #[test]
    fn sizes_of_pages_are_found_where_nothing_names_them() {
        check("fn a(b: u64) -> u64 { b / 4096 }", Some("4096"));
        check("fn a(b: u64) -> u64 { b >> 12 }", Some(">>12"));
        check("const PAGE: u64 = 4096;", Some("4096"));
        check("const HUGE: u64 = 2 << 20;", Some("2<<20"));
        check("const fn a() -> u64 { 2 << 20 }", Some("2<<20"));
        check("const MOST: usize = 4096; fn a() { b(MOST) }", None);
        check("fn a(b: u64) -> u64 { b / page_size() * 12 << 20 }", None);
    }
}
