//! The command line of `stasis-client`.

use std::time::Duration;

use super::protocol::{Login, Protocol};
use super::protocols::PROTOCOLS;
use super::wire::Address;
use super::words;

pub(super) const HELP: &str = "\
Asks servers over connections that stay, and tells what they answered.

Usage: stasis-client PROTOCOL SERVER[:PORT][,SERVER...] [OPTIONS] [OPERATION...]

  redis       a command: SET key1 \"a b\". Several with ` ; ` between: the last one's answer counts
  postgresql  a statement
  mysql       a statement
  http        METHOD /path [BODY]
  lines       a line, which a line answers

Without OPERATION, each line of the standard input is one. {} in an operation is its number, {:04}
the same with leading zeroes. What was not sent goes to the next server until --timeout; after an
operation that is not done, the next server is asked. A history is written, two lines an operation:
`invoke`, and `ok` (done), `fail` (not done) or `info` (nobody knows).

Operations:
  --file FILE          read them from there
  --repeat N | A..B    do the operation for each number from 1 to N, or A to B
  --every TIME         begin one so long after the last one began: 20ms, 1.5s
  --timeout TIME       wait so long for an answer, connecting included [1s]
  --ok ANSWER          only this is `ok`, other answers are `info`; may be given several times
  --until-ok           repeat an operation until it is done, and write no history
  --until ANSWER       the same, until this is the answer or a line of it; * at an end is anything
  --stop               end with 1 after an operation that is not done

What is told:
  --print              answers, and no history; columns have a tab between them
  --quiet              nothing
  --f NAME             kind of the operations in the history [the first word]
  --process NAME       who does them [0]

What must stay:
  --outcomes FILE      note there how each operation ended; those that FILE has are not done again
  --check OPERATION    at the end, ask by this for each operation that was done, also of FILE
  --expect ANSWER      the answer to --check, as for --until [{}]; ends with 3 where it is another,
                       with 4 where nothing was done

Session: --user NAME, --password WORD, --database NAME, --header 'NAME: VALUE' (http), --greeting N
(lines that a server of `lines` begins with)
";

#[derive(Default)]
pub(super) struct Options {
    pub protocol: Option<&'static Protocol>,
    pub servers: Vec<Address>,
    pub operations: Vec<String>,
    pub file: Option<String>,
    /// The first number and the last.
    pub repeat: Option<(u64, u64)>,
    pub every: Duration,
    pub timeout: Duration,
    pub ok: Vec<String>,
    pub until: Option<String>,
    pub stop: bool,
    pub print: bool,
    pub quiet: bool,
    pub f: Option<String>,
    pub process: String,
    pub outcomes: Option<String>,
    pub check: Option<String>,
    pub expect: String,
    pub login: Login,
}

impl Options {
    pub(super) fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            timeout: Duration::from_secs(1),
            process: "0".into(),
            expect: "{}".into(),
            ..Self::default()
        };
        let mut plain = Vec::new();
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            if !word.starts_with("--") {
                plain.push(word);
                continue;
            }
            if let Some(flag) = options.flag(&word) {
                *flag = true;
                continue;
            }
            match word.as_str() {
                "--until-ok" => options.until = Some("*".into()),
                "--" => plain.extend(words.by_ref()),
                _ => {
                    let value = words.next().ok_or(format!("{word} needs a value, or is none"))?;
                    options.set(&word, value)?;
                }
            }
        }
        let mut plain = plain.into_iter();
        let name = plain.next().ok_or("name a protocol and a server")?;
        let protocol = PROTOCOLS.iter().find(|one| one.name == name).ok_or_else(|| {
            let names: Vec<_> = PROTOCOLS.iter().map(|one| one.name).collect();
            format!("there is no protocol `{name}`; there are: {}", names.join(", "))
        })?;
        let servers = plain.next().ok_or(format!("name a server: {name} SERVER"))?;
        let servers = servers.split(',').map(|word| Address::read(word, protocol.port));
        options.servers = servers.collect::<Result<_, _>>()?;
        options.protocol = Some(protocol);
        options.operations = plain.collect();
        options.consistent()
    }

    fn flag(&mut self, word: &str) -> Option<&mut bool> {
        match word {
            "--stop" => Some(&mut self.stop),
            "--print" => Some(&mut self.print),
            "--quiet" => Some(&mut self.quiet),
            _ => None,
        }
    }

    fn set(&mut self, word: &str, value: String) -> Result<(), String> {
        let time =
            || words::time(&value).ok_or(format!("{word}: `{value}` is no time, as 20ms is"));
        match word {
            "--file" => self.file = Some(value),
            "--repeat" => self.repeat = Some(range(&value)?),
            "--every" => self.every = time()?,
            "--timeout" => self.timeout = time()?,
            "--ok" => self.ok.push(value),
            "--until" => self.until = Some(value),
            "--f" => self.f = Some(value),
            "--process" => self.process = value,
            "--outcomes" => self.outcomes = Some(value),
            "--check" => self.check = Some(value),
            "--expect" => self.expect = value,
            "--user" => self.login.user = Some(value),
            "--password" => self.login.password = value,
            "--database" => self.login.database = Some(value),
            "--header" if value.contains(['\r', '\n']) => return Err("a header is a line".into()),
            "--header" => self.login.headers.push(value),
            "--greeting" => {
                let number = value.parse().map_err(|_| format!("`{value}` is no number"))?;
                self.login.greeting = number;
            }
            _ => return Err(format!("there is no option {word}: --help lists them")),
        }
        Ok(())
    }

    fn consistent(self) -> Result<Self, String> {
        let login = &self.login;
        let session = [&login.user, &login.database].iter().any(|word| word.is_some());
        if [login.user.as_deref(), Some(&login.password), login.database.as_deref()]
            .iter()
            .any(|word| word.is_some_and(|word| word.contains('\0')))
        {
            return Err("no byte 0 in a name or a password".into());
        }
        let name = self.protocol.map_or("", |protocol| protocol.name);
        match name {
            "http" | "lines" if session || !login.password.is_empty() => {
                Err(format!("{name} has no --user, --password or --database"))
            }
            _ if self.repeat.is_some() && self.operations.len() != 1 => {
                Err("--repeat needs one OPERATION".into())
            }
            _ if self.file.is_some() && !self.operations.is_empty() => {
                Err("--file or OPERATION, one of both".into())
            }
            _ if self.timeout.is_zero() => Err("--timeout needs some time".into()),
            _ => Ok(self),
        }
    }
}

fn range(word: &str) -> Result<(u64, u64), String> {
    let (from, to) = word.split_once("..").unwrap_or(("1", word));
    let both = from.parse().ok().zip(to.parse().ok());
    both.ok_or(format!("--repeat: `{word}` is neither N nor A..B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        Options::read(words::split(line).unwrap().into_iter())
    }

    #[test]
    fn command_lines_are_read() {
        let options = read("redis a,b:7 --repeat 3..9 'SET k{} {}' --every 20ms --stop").unwrap();
        let ports: Vec<_> = options.servers.iter().map(|server| server.port).collect();
        assert_eq!((ports, options.repeat), (vec![6379, 7], Some((3, 9))));
        assert_eq!(options.operations, ["SET k{} {}"]);
        assert!(options.stop && !options.print && options.every == Duration::from_millis(20));
        assert_eq!(read("http a --until-ok").unwrap().until.as_deref(), Some("*"));
        assert_eq!(read("lines a:1 -- --x").unwrap().operations, ["--x"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (line, why) in [
            ("", "name a protocol"),
            ("amqp a", "`amqp`; there are: redis, postgresql, mysql, http, lines"),
            ("redis", "redis SERVER"),
            ("lines a", "needs a port"),
            ("redis a --evry 1s", "no option --evry"),
            ("redis a --every", "--every needs a value"),
            ("redis a --every 20", "`20` is no time"),
            ("redis a --repeat x PING", "`x` is neither"),
            ("redis a --repeat 3", "one OPERATION"),
            ("redis a --file f PING", "one of both"),
            ("http a --user me", "http has no --user"),
            ("redis a --timeout 0s PING", "some time"),
        ] {
            let error = read(line).err().unwrap();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    #[test]
    fn the_help_names_every_option_and_protocol() {
        let names = PROTOCOLS.iter().map(|protocol| protocol.name);
        for name in names.chain(["--until-ok", "--greeting", "--header", "--expect", "--f "]) {
            assert!(HELP.contains(name), "{name}");
        }
        assert!(HELP.lines().all(|line| line.len() <= 100));
    }
}
