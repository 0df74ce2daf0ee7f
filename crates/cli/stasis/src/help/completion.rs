//! Completions of a shell: the values of an option where they are known, files where it takes a
//! file, and nothing else.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;
use stasis_crash::Fault;
use stasis_experiment::Engine;
use stasis_models::NAMED;
use stasis_results::Ios;

/// Completions for `shell`, of `command` and what is below it.
pub fn of(command: Command, shell: Shell) -> String {
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut with_values(command), name, &mut text);
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if shell == Shell::Bash {
        text += &BASH.replace("MODELS", &models().join(" "));
    }
    text
}

fn models() -> Vec<&'static str> {
    NAMED.iter().map(|named| named.name).collect()
}

fn with_values(command: Command) -> Command {
    // The returned command serves completion only, so a value that is not offered is no error.
    command.mut_args(completed).mut_subcommands(with_values)
}

fn completed(argument: Arg) -> Arg {
    let takes_value = argument.get_action().takes_values();
    let has_values = !argument.get_possible_values().is_empty();
    if !takes_value || has_values || argument.get_value_hint() != ValueHint::Unknown {
        return argument;
    }
    let name = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let values = values(argument.get_id().as_str());
    match name.as_deref() {
        _ if !values.is_empty() => argument.value_parser(PossibleValuesParser::new(values)),
        Some("DIR") => argument.value_hint(ValueHint::DirPath),
        Some("COMMAND") => argument,
        Some(name) if is_file(name) => argument.value_hint(ValueHint::AnyPath),
        _ => argument.value_hint(ValueHint::Other),
    }
}

/// The values of the argument with this identifier, where they are known.
fn values(id: &str) -> Vec<String> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    match id {
        "engine" => owned(&Engine::ALL.map(Engine::name)),
        "ios" => owned(&Ios::ALL.map(Ios::name)),
        "fault" => owned(&Fault::ALL.map(Fault::name)),
        "model" | "device" => owned(&models()),
        "drive" => {
            let whole = |name: &&str| format!("model={name},medium=ram:1GiB");
            models().iter().map(whole).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns whether a value of this name is a file.
fn is_file(name: &str) -> bool {
    let words = ["FILE", "PATH", "RESULTS", "FROM", "TO", "SOURCE", "FUNCTION", "ARGUMENTS"];
    let mut parts = name.split(['|', '[', '=', ',']);
    parts.any(|part| words.contains(&part))
        || name.contains(".toml")
        || name.contains(".fio")
        || name.contains(".json")
}

/// bash takes `=` for the end of a word: the value after `--drive model=` is completed here.
const BASH: &str = r#"
_stasis_of_drive() {
    local cur=${COMP_WORDS[COMP_CWORD]} at=$COMP_CWORD
    [[ $cur == = ]] && cur= && at=$((at + 1))
    if [[ ${COMP_WORDS[at - 3]} == --drive && ${COMP_WORDS[at - 2]} == model && ${COMP_WORDS[at - 1]} == = ]]; then
        COMPREPLY=($(compgen -W "MODELS" -- "$cur"))
        compopt -o nospace 2>/dev/null
        return 0
    fi
    _stasis "$@"
}
complete -F _stasis_of_drive -o bashdefault -o default stasis
"#;
