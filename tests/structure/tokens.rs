//! Rust as words and signs. Comments are left out; texts and characters are kept as one token without what is in them.

use std::{iter::Peekable, str::Chars};

/// Words, numbers, `::` and single signs, in order.
pub fn tokens(text: &str) -> Vec<String> {
    let (mut tokens, mut rest) = (Vec::new(), text.chars().peekable());
    while let Some(next) = rest.next() {
        match next {
            _ if next.is_whitespace() => {}
            '/' if rest.peek() == Some(&'/') => skip_line(&mut rest),
            '/' if rest.peek() == Some(&'*') => skip_comment(&mut rest),
            '"' => {
                skip_text(&mut rest);
                tokens.push("\"\"".to_owned());
            }
            '\'' => tokens.push(quote(&mut rest)),
            ':' if rest.next_if_eq(&':').is_some() => tokens.push("::".to_owned()),
            _ if is_of_word(next) => {
                let word = word(next, &mut rest);
                match is_raw(&word, &rest) {
                    true => {
                        skip_raw(&mut rest);
                        tokens.push("\"\"".to_owned());
                    }
                    false => tokens.push(word),
                }
            }
            _ => tokens.push(next.to_string()),
        }
    }
    tokens
}

fn is_of_word(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

fn word(first: char, rest: &mut Peekable<Chars<'_>>) -> String {
    let mut word = first.to_string();
    while let Some(next) = rest.next_if(|&next| is_of_word(next)) {
        word.push(next);
    }
    word
}

fn skip_line(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|&next| next != '\n').is_some() {}
}

/// Comments may lie in each other.
fn skip_comment(rest: &mut Peekable<Chars<'_>>) {
    let mut depth = 0;
    let mut last = '/';
    for next in rest.by_ref() {
        match (last, next) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                last = next;
                continue;
            }
        }
        if depth == 0 {
            return;
        }
        // The same sign does not both end one and begin another.
        last = ' ';
    }
}

fn skip_text(rest: &mut Peekable<Chars<'_>>) {
    while let Some(next) = rest.next() {
        match next {
            '\\' => {
                rest.next();
            }
            '"' => return,
            _ => {}
        }
    }
}

/// Whether `r`, `br` or `cr` begins a raw text. A raw name (`r#match`) is none.
fn is_raw(word: &str, rest: &Peekable<Chars<'_>>) -> bool {
    let mut after = rest.clone().skip_while(|&next| next == '#');
    matches!(word, "r" | "br" | "cr") && after.next() == Some('"')
}

fn skip_raw(rest: &mut Peekable<Chars<'_>>) {
    let mut hashes = 0;
    while rest.next_if_eq(&'#').is_some() {
        hashes += 1;
    }
    rest.next();
    while let Some(next) = rest.next() {
        if next == '"'
            && rest.clone().take_while(|&next| next == '#').take(hashes).count() == hashes
        {
            for _ in 0..hashes {
                rest.next();
            }
            return;
        }
    }
}

/// After a `'`: a character, or a lifetime or label.
fn quote(rest: &mut Peekable<Chars<'_>>) -> String {
    let mut ahead = rest.clone();
    let (first, second) = (ahead.next(), ahead.next());
    if first == Some('\\') || second == Some('\'') {
        if rest.next() == Some('\\') {
            rest.next();
        }
        while rest.next().is_some_and(|next| next != '\'') {}
        return "''".to_owned();
    }
    "'".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(tokens(text).join(" "), expect, "{text}");
    }

    #[test]
    fn words_and_signs() {
        check("use crate::a_1::{B, c};", "use crate :: a_1 :: { B , c } ;");
        check("a: b::c", "a : b :: c");
    }

    #[test]
    fn comments_are_left_out() {
        check("a // crate::b\nc /* d /* e */ f */ g //", "a c g");
        check("a / b /*/ c */ d", "a / b d");
        check("/// unsafe\nfn x() {}", "fn x ( ) { }");
    }

    #[test]
    fn texts_have_nothing_in_them() {
        check(r#"a("crate::b \" unsafe // c") d"#, r#"a ( "" ) d"#);
        check("r#\"a \" b\"# c", r#""" c"#);
        check("br\"a\\\" b", r#""" b"#);
        check("\"a\nb\" c", r#""" c"#);
    }

    #[test]
    fn characters_are_no_lifetimes() {
        check("f('\"', '\\'', '{', '\\u{7f}') g", "f ( '' , '' , '' , '' ) g");
        check("&'a str, 'out: loop", "& ' a str , ' out : loop");
        check("r#match", "r # match");
    }
}
