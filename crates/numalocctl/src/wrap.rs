//! Texts in lines of bounded width.

/// A text in lines of at most `width` characters, broken between words, and within a word only if that is longer than a
/// line. A line break of the text is kept, and so are spaces at the beginning of a line, which its continuation has as
/// well.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    text.lines().flat_map(|line| one(line, width.max(1))).collect()
}

fn one(line: &str, width: usize) -> Vec<String> {
    let indent: String = line.chars().take_while(|c| *c == ' ').take(width / 2).collect();
    let (mut lines, mut current, mut length) = (Vec::new(), indent.clone(), indent.len());
    let mut is_begun = false;
    // Tables keep their spaces as long as they fit.
    if line.chars().count() <= width {
        return vec![line.to_owned()];
    }
    for word in line.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if is_begun && length + 1 + word.len() > width {
            lines.push(std::mem::replace(&mut current, indent.clone()));
            (length, is_begun) = (indent.len(), false);
        }
        if is_begun {
            current.push(' ');
            length += 1;
        }
        while length + word.len() > width {
            let rest = word.split_off(width - length);
            current.extend(word);
            lines.push(std::mem::replace(&mut current, indent.clone()));
            (length, word) = (indent.len(), rest);
        }
        length += word.len();
        current.extend(word);
        is_begun = true;
    }
    if is_begun || lines.is_empty() {
        lines.push(current);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a  b", 7), ["a  b"], "what fits stays as it is");
        assert_eq!(wrapped("  stays: 5 MiB", 10), ["  stays: 5", "  MiB"]);
        assert_eq!(wrapped("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrapped("a\n\nb", 5), ["a", "", "b"]);
        assert_eq!(wrapped("", 5), [""; 0]);
        for width in 0..20 {
            let text = "    no line is longer than it may be, whatever its words are";
            for line in wrapped(text, width) {
                assert!(line.chars().count() <= width.max(1), "{width}: {line:?}");
            }
        }
    }
}
