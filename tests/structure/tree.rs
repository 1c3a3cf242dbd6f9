//! Items of a file, as far as it matters which of them are tests.

/// The path of a module from its crate's root, which has an empty one.
pub type Path = Vec<String>;

/// The tokens without the items that only tests have, and the modules in files of their own among those.
pub fn without_tests(tokens: &[String]) -> (Vec<String>, Vec<String>) {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut modules, mut rest) = (Vec::new(), Vec::new(), tokens);
    while let [first, after @ ..] = rest {
        if rest.len() >= MARK.len() && rest.iter().zip(MARK).all(|(token, mark)| token == mark) {
            let item = &rest[MARK.len()..];
            let end = end(item);
            modules.extend(file_of(&item[..end]));
            rest = &item[end..];
        } else {
            kept.push(first.clone());
            rest = after;
        }
    }
    (kept, modules)
}

/// Number of tokens of the item that begins here: up to its `;` or its closing brace.
fn end(tokens: &[String]) -> usize {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "}" => {
                depth = depth.saturating_sub(1);
                // The braces of a `use` are followed by its end.
                let continues = tokens.get(index + 1).is_some_and(|next| next == ";");
                if depth == 0 && !continues {
                    return index + 1;
                }
            }
            ";" if depth == 0 => return index + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// The name of the module, if the item is `mod name;`.
fn file_of(item: &[String]) -> Option<String> {
    let words: Vec<&str> = item.iter().map(String::as_str).collect();
    match words.as_slice() {
        [.., "mod", name, ";"] => Some((*name).to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tokens;

    #[track_caller]
    fn check(text: &str, kept: &str, modules: &[&str]) {
        let (found, tests) = without_tests(&tokens(text));
        assert_eq!((found.join(" ").as_str(), tests.as_slice()), (kept, &own(modules)[..]));
    }

    fn own(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn tests_are_left_out() {
        check("a; #[cfg(test)] mod tests { use super::*; fn x() {} } b;", "a ; b ;", &[]);
        check("#[cfg(test)] mod tests; b;", "b ;", &["tests"]);
        check("#[cfg(test)] pub(crate) mod fixture; b;", "b ;", &["fixture"]);
        check("#[cfg(test)] #[allow(x)] fn a(b: [u8; 3]) -> c { d } e", "e", &[]);
        check("#[cfg(test)] use a::{b, c}; d", "d", &[]);
        check("#[cfg(unix)] mod a;", "# [ cfg ( unix ) ] mod a ;", &[]);
    }
}
