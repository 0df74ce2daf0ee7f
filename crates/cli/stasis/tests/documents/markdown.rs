//! Markdown as the tests need it: links, headings, code.

/// The lines of `text` outside its fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The contents of the fenced blocks of a language; a block with more words after the language's
/// name is something else.
pub fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<(bool, String)> = None;
    for line in text.lines() {
        match (&mut block, line.trim_start().strip_prefix("```")) {
            (Some(_), Some(_)) => {
                let (wanted, content) = block.take().unwrap();
                blocks.extend(wanted.then_some(content));
            }
            (None, Some(word)) => block = Some((word == language, String::new())),
            (Some((_, content)), None) => *content += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    blocks
}

/// `line` without the texts in backticks, and those texts.
fn apart(line: &str) -> (String, Vec<String>) {
    let (mut words, mut code) = (String::new(), Vec::new());
    for (index, part) in line.split('`').enumerate() {
        if index % 2 == 0 {
            words += part;
        } else {
            code.push(part.to_owned());
        }
    }
    (words, code)
}

/// Returns the targets of the links and pictures of `text`.
pub fn links(text: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let (words, _) = apart(line);
        let parts = words.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        parts.map(str::to_owned).collect::<Vec<_>>()
    };
    prose(text).flat_map(of_line).collect()
}

/// The names by which links find the headings of `text`, as GitHub and mdBook make them.
pub fn headings(text: &str) -> Vec<String> {
    let title = |line: &str| line.starts_with('#').then(|| line.trim_start_matches('#').to_owned());
    let anchor = |title: String| {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let kept: String = title.trim().to_lowercase().chars().filter(kept).collect();
        kept.replace(' ', "-")
    };
    prose(text).filter_map(title).map(anchor).collect()
}

/// The texts in backticks in `text`.
pub fn code(text: &str) -> Vec<String> {
    prose(text).flat_map(|line| apart(line).1).collect()
}

/// The experiments that a block shows: one, or where it lists values of one of a drive's keys,
/// a drive with each.
pub fn experiments(block: &str) -> Vec<String> {
    let key = |line: &str| line.split_once('=').map(|(key, _)| key.trim().to_owned());
    let of_a_drive = ["model", "medium", "scheduler", "barrier", "placement", "zones"];
    let first = block.lines().next().and_then(key).unwrap_or_default();
    if !of_a_drive.contains(&first.as_str()) {
        return vec![block.to_owned()];
    }
    let with_the_rest = |line: &str| {
        let others = [("model", "'null'"), ("medium", "'ram:1GiB'")];
        let others = others.iter().filter(|(name, _)| key(line).as_deref() != Some(*name));
        let others = others.map(|(name, value)| format!("{name} = {value}\n"));
        format!("[[drive]]\n{}{line}\n", others.collect::<String>())
    };
    block.lines().filter(|line| key(line).is_some()).map(with_the_rest).collect()
}
