//! Creates wrong scripts from correct ones: each condition is forced to be true, and to be false.

/// One change of one script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    /// The file without its extension.
    pub(super) file: &'static str,
    /// What is changed to what: `file: before -> after`, with a number if that is in the file more
    /// than once.
    pub(super) label: String,
    /// The whole file, changed.
    pub(super) text: String,
}

/// Returns all changes of a file.
pub(super) fn cuts(file: &'static str, text: &str) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        for (at, expression, kind) in expressions(line) {
            for changed in changes(expression, kind) {
                let (from, to) = (start + at, start + at + expression.len());
                let text = format!("{}{changed}{}", &text[..from], &text[to..]);
                // An expression inside another is found twice.
                if cuts.iter().any(|cut| cut.text == bounded(&text)) {
                    continue;
                }
                let before = line.trim();
                let after = line[..at].trim_start().to_owned()
                    + &changed
                    + line[at + expression.len()..].trim_end();
                let label = format!("{file}: {before} -> {after}");
                let same = cuts
                    .iter()
                    .filter(|cut| cut.label.trim_end_matches(is_number) == label);
                let label = match same.count() {
                    0 => label,
                    others => format!("{label} ({})", others + 1),
                };
                let text = bounded(&text);
                cuts.push(Cut { file, label, text });
            }
        }
        start += line.len();
    }
    cuts
}

/// Makes a script fail that would otherwise run for ever: a server does nothing else meanwhile.
fn bounded(text: &str) -> String {
    let bound = "for round = 1, 1000 do if round == 1000 then error('runs away') end";
    text.replace("while true do", bound)
}

fn is_number(letter: char) -> bool {
    matches!(letter, ' ' | '(' | ')' | '0'..='9')
}

/// The purpose of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpressionKind {
    /// It decides an `if`.
    Condition,
    /// It is a value that `and` and `or` select.
    Choice,
}

/// Returns the expressions of a line that decide something, and where they start.
fn expressions(line: &str) -> Vec<(usize, &str, ExpressionKind)> {
    let code = line.trim_start();
    let indent = line.len() - code.len();
    if code.starts_with("--") {
        return Vec::new();
    }
    for word in ["if ", "elseif "] {
        let condition = code
            .strip_prefix(word)
            .and_then(|rest| rest.trim_end().strip_suffix(" then"));
        if let Some(condition) = condition {
            return vec![(indent + word.len(), condition, ExpressionKind::Condition)];
        }
    }
    choices(line)
}

/// Returns the expressions with an `and`, and the return values with an `or`: the text between two
/// brackets or commas, or between an equals sign and the end of the line.
fn choices(line: &str) -> Vec<(usize, &str, ExpressionKind)> {
    let mut found = Vec::new();
    let mut open = vec![0];
    let mut ended = |start: usize, end: usize| {
        let piece = &line[start..end];
        let piece = piece.rsplit_once(" = ").map_or(piece, |(_, value)| value);
        let piece = piece
            .trim_start()
            .strip_prefix("return ")
            .unwrap_or(piece)
            .trim_start();
        let piece_start = start + (line[start..end].len() - piece.len());
        let piece = piece.trim_end();
        let words: Vec<_> = operands(piece)
            .iter()
            .map(|operand| operand.joined_by)
            .collect();
        let answer = line.trim_start().starts_with("return ") && start == 0;
        if words.contains(&"and") || answer && words.contains(&"or") {
            found.push((piece_start, piece, ExpressionKind::Choice));
        }
    };
    for (at, letter) in unquoted(line) {
        match letter {
            '(' | '{' | '[' => open.push(at + 1),
            ')' | '}' | ']' => {
                // A bracket of an earlier line ends what this line started with.
                let start = open.pop().unwrap_or(0);
                ended(start, at);
                if open.is_empty() {
                    open.push(at + 1);
                }
            }
            ',' => {
                let start = open.last_mut().expect("the line itself");
                ended(*start, at);
                *start = at + 1;
            }
            _ => {}
        }
    }
    ended(open.first().copied().unwrap_or(0), line.trim_end().len());
    found.sort_by_key(|(at, ..)| *at);
    found
}

/// One operand of an `and` or an `or`.
#[derive(Debug)]
struct Operand {
    from: usize,
    to: usize,
    /// The word that joins it to the previous one, empty for the first.
    joined_by: &'static str,
}

/// Splits an expression at its outermost `and` and `or`.
fn operands(expression: &str) -> Vec<Operand> {
    let mut operands = Vec::new();
    let (mut depth, mut from, mut joined_by) = (0, 0, "");
    for (at, letter) in unquoted(expression) {
        match letter {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            ' ' if depth == 0 => {
                for word in ["and", "or"] {
                    let rest = expression[at + 1..].strip_prefix(word);
                    if rest.is_some_and(|rest| rest.starts_with(' ')) {
                        operands.push(Operand {
                            from,
                            to: at,
                            joined_by,
                        });
                        (from, joined_by) = (at + word.len() + 2, word);
                    }
                }
            }
            _ => {}
        }
    }
    operands.push(Operand {
        from,
        to: expression.len(),
        joined_by,
    });
    operands
}

/// Returns the characters outside of quotes, and their positions.
fn unquoted(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quoted = false;
    text.char_indices().filter(move |(_, letter)| {
        quoted ^= *letter == '\'';
        !quoted
    })
}

/// Returns the changes of an expression: forced as a whole, and each operand by itself where that
/// is not the same.
fn changes(expression: &str, kind: ExpressionKind) -> Vec<String> {
    let mut all = Vec::new();
    if kind == ExpressionKind::Condition {
        all.extend(["true".to_owned(), "false".to_owned()]);
    }
    all.extend(changed_sides(expression, kind));
    all
}

fn changed_sides(expression: &str, kind: ExpressionKind) -> Vec<String> {
    let operands = operands(expression);
    let mut all = Vec::new();
    let words: Vec<_> = operands[1..]
        .iter()
        .map(|operand| operand.joined_by)
        .collect();
    let chooses = kind == ExpressionKind::Choice && words == ["and", "or"];
    for operand in &operands {
        let side = &expression[operand.from..operand.to];
        let with = |new: &str| {
            format!(
                "{}{new}{}",
                &expression[..operand.from],
                &expression[operand.to..]
            )
        };
        if let Some(inner) = side
            .strip_prefix('(')
            .and_then(|inner| inner.strip_suffix(')'))
        {
            all.extend(
                changed_sides(inner, kind)
                    .iter()
                    .map(|inner| with(&format!("({inner})"))),
            );
        }
        if operands.len() == 1 || chooses && operand.from > 0 {
            continue;
        }
        // If all operands are joined by the same word, forcing one of them one way forces the
        // whole.
        if kind == ExpressionKind::Choice || words.contains(&"and") {
            all.push(with("true"));
        }
        if kind == ExpressionKind::Choice || words.contains(&"or") {
            all.push(with("false"));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Vec<String> {
        let cuts = cuts("f", text);
        cuts.into_iter()
            .map(|cut| cut.label.replace("f: ", ""))
            .collect()
    }

    #[test]
    fn a_condition_is_forced_both_ways() {
        let cuts = cuts("f", "x()\nif a == ' and ' then\n  y()\nend\n");
        let texts: Vec<_> = cuts.iter().map(|cut| &*cut.text).collect();
        let expected = [
            "x()\nif true then\n  y()\nend\n",
            "x()\nif false then\n  y()\nend\n",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn each_side_is_forced_where_that_changes_more_than_the_whole() {
        let expected = [
            "elseif a and (b or c) then -> elseif true then",
            "elseif a and (b or c) then -> elseif false then",
            "elseif a and (b or c) then -> elseif true and (b or c) then",
            "elseif a and (b or c) then -> elseif a and (false or c) then",
            "elseif a and (b or c) then -> elseif a and (b or false) then",
            "elseif a and (b or c) then -> elseif a and true then",
        ];
        assert_eq!(labels("  elseif a and (b or c) then\n"), expected);
    }

    #[test]
    fn a_choice_is_forced_both_ways() {
        let expected = [
            "f(x, a == 1 and b or c) -> f(x, true and b or c)",
            "f(x, a == 1 and b or c) -> f(x, false and b or c)",
        ];
        assert_eq!(labels("f(x, a == 1 and b or c)\n"), expected);
        assert_eq!(labels("local x = y or 0\n"), [""; 0]);
        assert_eq!(labels("return a or b\n").len(), 4);
        assert_eq!(labels("-- this and that\n"), [""; 0]);
    }

    #[test]
    fn the_same_change_in_two_places_has_two_labels() {
        let labels = labels("if a then\nif a then\n");
        assert_eq!(labels[2], "if a then -> if true then (2)");
    }
}
