//! Commands in Markdown: the lines of its `sh` blocks and of its indented ones.

/// The commands in `text`, continued lines joined, without comments.
pub fn of(text: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let (mut fenced, mut goes_on) = (false, false);
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = line == "```sh";
            continue;
        }
        let indented = line.starts_with("    stasis ");
        if !fenced && !indented && !goes_on {
            continue;
        }
        let line = line.trim();
        let more = line.strip_suffix('\\');
        let part = more.unwrap_or(line).trim_end();
        match commands.last_mut().filter(|_| goes_on) {
            Some(command) => *command += &format!(" {part}"),
            None => commands.push(part.to_owned()),
        }
        goes_on = more.is_some();
    }
    commands.iter().map(|command| without_comment(command)).filter(|c| !c.is_empty()).collect()
}

fn without_comment(command: &str) -> String {
    match command.split_once("  #") {
        Some((before, _)) => before.trim_end().to_owned(),
        None if command.starts_with('#') => String::new(),
        None => command.to_owned(),
    }
}

/// The words of a command up to its first operator, as sh(1) has them without expansions.
#[allow(dead_code)] // one of the two tests runs whole lines
pub fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '|' | '>' | '<' | '&' | ';') => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
