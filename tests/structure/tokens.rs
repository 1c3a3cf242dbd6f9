//! Rust as words and signs, without comments and without what is in texts.

use proc_macro2::{TokenStream, TokenTree};

/// Words, numbers, `::` and single signs, in order. A text or character is one token, `""`.
///
/// # Panics
/// If the text is not Rust.
pub fn tokens(text: &str) -> Vec<String> {
    let stream: TokenStream = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    tokens
}

fn flatten(stream: TokenStream, tokens: &mut Vec<String>) {
    use proc_macro2::{Delimiter::*, Spacing::Joint};
    let mut stream = stream.into_iter().peekable();
    while let Some(token) = stream.next() {
        match token {
            TokenTree::Group(group) => {
                let [open, close] = match group.delimiter() {
                    Parenthesis => ["(", ")"],
                    Brace => ["{", "}"],
                    Bracket => ["[", "]"],
                    None => ["", ""],
                };
                tokens.push(open.to_owned());
                flatten(group.stream(), tokens);
                tokens.push(close.to_owned());
            }
            TokenTree::Punct(sign) if sign.as_char() == ':' && sign.spacing() == Joint => {
                let is_second = |next: &TokenTree| matches!(next, TokenTree::Punct(sign) if sign.as_char() == ':');
                let is_path = stream.next_if(is_second).is_some();
                tokens.push(if is_path { "::" } else { ":" }.to_owned());
            }
            TokenTree::Literal(literal) => {
                let literal = literal.to_string();
                let is_text = literal.contains(['"', '\'']);
                tokens.push(if is_text { "\"\"".to_owned() } else { literal });
            }
            word_or_sign => tokens.push(word_or_sign.to_string()),
        }
    }
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
        check("a:::b", "a :: : b");
    }

    #[test]
    fn comments_and_texts_have_nothing_in_them() {
        check("a // crate::b\nc /* d /* e */ f */ g //", "a c g");
        check(r#"a("crate::b \" unsafe // c") d"#, r#"a ( "" ) d"#);
        check("r#\"a \" b\"# c", r#""" c"#);
        check("f('\"', '\\'', b'{', 7) g", "f ( \"\" , \"\" , \"\" , 7 ) g");
    }

    #[test]
    fn lifetimes_are_not_characters() {
        check("&'a str, 'out: loop", "& ' a str , ' out : loop");
    }
}
