//! Sessions with small servers of each protocol.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use super::outcomes::{LOST, NOTHING_DONE};
use super::*;

/// A server that reads what its script expects and writes what it answers, a connection after
/// another.
struct Server {
    port: u16,
    done: JoinHandle<()>,
}

/// A step of a script.
enum Step {
    Reads(Vec<u8>),
    /// Writes this in pieces of so many bytes.
    Writes(usize, Vec<u8>),
    /// The connection ends, and there is another.
    Ends,
}

fn reads(bytes: impl AsRef<[u8]>) -> Step {
    Step::Reads(bytes.as_ref().to_vec())
}

fn writes(bytes: impl AsRef<[u8]>) -> Step {
    Step::Writes(usize::MAX, bytes.as_ref().to_vec())
}

fn splits(bytes: impl AsRef<[u8]>) -> Step {
    Step::Writes(1, bytes.as_ref().to_vec())
}

fn serve(script: Vec<Step>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let done = thread::spawn(move || {
        let mut stream = None::<TcpStream>;
        for step in script {
            let open = stream.get_or_insert_with(|| {
                let (stream, _) = listener.accept().unwrap();
                stream.set_nodelay(true).unwrap();
                stream
            });
            match step {
                Step::Reads(expected) => {
                    let mut bytes = vec![0; expected.len()];
                    open.read_exact(&mut bytes).unwrap();
                    let text = String::from_utf8_lossy;
                    assert_eq!(text(&bytes), text(&expected));
                }
                Step::Writes(size, bytes) => {
                    // A client hangs up within an answer that it does not understand.
                    let _ = bytes.chunks(size).try_for_each(|piece| open.write_all(piece));
                }
                Step::Ends => stream = None,
            }
        }
        // The client is the one to end the last connection.
        if let Some(mut stream) = stream {
            let _ = stream.read(&mut [0]);
        }
    });
    Server { port, done }
}

/// Runs a command line whose `PORT` is the server's, and gives the exit status and the output.
fn client(script: Vec<Step>, line: &str) -> (i32, String) {
    let server = serve(script);
    let line = line.replace("PORT", &server.port.to_string());
    let result = plain(&line);
    server.done.join().unwrap();
    result
}

fn plain(line: &str) -> (i32, String) {
    match try_plain(line) {
        Ok(result) => result,
        Err(why) => (MISTAKE, why),
    }
}

fn try_plain(line: &str) -> Result<(i32, String), String> {
    let options = Options::read(words::split(line)?.into_iter())?;
    let mut out = Vec::new();
    let status = run(&options, &mut out)?;
    Ok((status, String::from_utf8(out).unwrap()))
}

const SET: &str = "*3\r\n$3\r\nSET\r\n$2\r\nk1\r\n$1\r\n1\r\n";
const GET: &str = "*2\r\n$3\r\nGET\r\n$2\r\nk1\r\n";

#[test]
fn an_operation_is_two_lines_of_the_history() {
    let script = vec![reads(SET), splits("+OK\r\n"), reads(GET), splits("$3\r\na\"b\r\n")];
    let (status, out) = client(script, "redis 127.0.0.1:PORT 'SET k{} 1' 'GET k1'");
    assert_eq!(status, 0);
    let lines = [
        r#"{"type":"invoke","process":0,"f":"set","value":["k1",1]}"#,
        r#"{"type":"ok","process":0,"f":"set","value":["k1",1],"answer":"OK"}"#,
        r#"{"type":"invoke","process":0,"f":"get","value":["k1"]}"#,
        r#"{"type":"ok","process":0,"f":"get","value":["k1"],"answer":"a\"b"}"#,
    ];
    assert_eq!(out.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn redis_answers_are_told_apart() {
    let each = |answer: &str, operation: &str, expected: &str| {
        let words = words::split(operation).unwrap();
        let mut sent = String::new();
        for command in words.split(|word| word == ";") {
            sent.push_str(&format!("*{}\r\n", command.len()));
            command.iter().for_each(|w| sent.push_str(&format!("${}\r\n{w}\r\n", w.len())));
        }
        let line = format!("redis 127.0.0.1:PORT --timeout 5s '{operation}' --f x");
        let (_, out) = client(vec![reads(sent), writes(answer), Step::Ends], &line);
        assert!(out.contains(expected), "{answer}: {out}");
    };
    each("*2\r\n$-1\r\n*1\r\n:5\r\n", "KEYS *", r#""type":"ok","#);
    each("*2\r\n$-1\r\n*1\r\n:5\r\n", "KEYS *", r#""answer":"(nil)\n5""#);
    each("-READONLY no\r\n", "SET a b", r#""type":"fail","process":0,"f":"x","#);
    each("-ERR a part\r\n", "EVAL x 0", r#""type":"info""#);
    each("*2\r\n+OK\r\n-WRONGTYPE x\r\n", "EXEC", r#""type":"info""#);
    each("+OK\r\n:1\r\n", "SET a b ; WAIT 1 9", r#""answer":"1""#);
    each("-LOADING x\r\n:0\r\n", "SET a b ; WAIT 1 9", r#""type":"info""#);
    each("%1\r\n", "HELLO 3", "RESP3");
    each("$17000000\r\n", "GET a", r#""type":"info""#);
    each("$-7\r\n", "GET a", "not of the protocol: a length");
    each("?\r\n", "GET a", "not of the protocol");
    each(&"*1\r\n".repeat(20), "GET a", "arrays too deep");
    each(&"x".repeat(70_000), "GET a", "64 KiB");
    each("$9\r\nabc", "GET a", "the server has closed it");
}

/// A lost connection and a silent server leave an operation unknown; the next goes on.
#[test]
fn unknown_ends_are_told_and_the_client_connects_again() {
    let script = vec![reads(SET), Step::Ends, reads(SET), writes("+OK\r\n")];
    let (_, out) = client(script, "redis 127.0.0.1:PORT --repeat 2 --timeout 5s 'SET k1 1'");
    let kinds: Vec<_> = out.lines().map(|line| line.split('"').nth(3).unwrap()).collect();
    assert_eq!(kinds, ["invoke", "info", "invoke", "ok"]);
    let silent = vec![reads(SET)];
    let (status, out) =
        client(silent, "redis 127.0.0.1:PORT --timeout 50ms --stop 'SET k1 1' 'GET never'");
    assert_eq!(status, NOT_DONE);
    assert!(out.contains(r#""type":"info""#) && out.contains(r#""error":"no answer""#), "{out}");
    assert!(!out.contains("never"));
}

/// Nothing was sent: that is known.
#[test]
fn servers_that_are_away_fail_an_operation_and_the_next_one_is_asked() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (status, out) = plain(&format!("redis 127.0.0.1:{closed} --timeout 60ms 'SET k1 1'"));
    assert_eq!(status, 0);
    assert!(out.contains(r#""type":"fail""#) && out.contains("not sent: 127.0.0.1:"), "{out}");
    let script = vec![reads(SET), writes("+OK\r\n")];
    let line = format!("redis 127.0.0.1:{closed},127.0.0.1:PORT --timeout 5s 'SET k1 1'");
    let (_, out) = client(script, &line);
    assert!(out.contains(r#""type":"ok""#), "{out}");
    let (_, out) = plain("redis nobody.invalid --timeout 10ms PING");
    assert!(out.contains("no server `nobody.invalid`"), "{out}");
}

/// Bytes that nobody asked for belong to no answer.
#[test]
fn an_answer_is_the_one_to_its_question() {
    let script =
        vec![reads(SET), writes("+OK\r\n+STALE\r\n"), Step::Ends, reads(GET), writes("+fresh\r\n")];
    let (_, out) = client(script, "redis 127.0.0.1:PORT --print --every 20ms 'SET k1 1' 'GET k1'");
    assert_eq!(out, "OK\nfresh\n");
}

#[test]
fn what_was_done_must_be_there_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("outcomes");
    let get = |key: u8| format!("*2\r\n$3\r\nGET\r\n$1\r\n{key}\r\n");
    let put = |key: u8| format!("*3\r\n$3\r\nSET\r\n$1\r\n{key}\r\n$1\r\n{key}\r\n");
    let line = format!(
        "redis 127.0.0.1:PORT --outcomes {} --quiet --repeat 3 'SET {{}} {{}}'",
        file.display()
    );
    let answers = [(1, "+OK\r\n"), (2, "-ERR no\r\n"), (3, "+OK\r\n")];
    let script = answers.map(|(key, answer)| [reads(put(key)), writes(answer)]);
    assert_eq!(client(script.into_iter().flatten().collect(), &line), (0, String::new()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "1 ok\n2 fail\n3 ok\n");

    // A second call does no more than the rest, and asks until there is an answer.
    let line = format!("{} --check 'GET {{}}'", line.replace("--repeat 3", "--repeat 4"));
    let script = |last: &str| {
        vec![
            reads(put(4)),
            writes("+OK\r\n"),
            reads(get(1)),
            writes("-LOADING\r\n"),
            reads(get(1)),
            writes("$1\r\n1\r\n"),
            reads(get(3)),
            writes("$1\r\n3\r\n"),
            reads(get(4)),
            writes(last),
        ]
    };
    let kept = (0, "3 of 4 acknowledged, none lost\n".to_owned());
    assert_eq!(client(script("$1\r\n4\r\n"), &line), kept);
    std::fs::write(&file, "1 ok\n2 fail\n3 ok\n").unwrap();
    let lost = (LOST, "3 of 4 acknowledged, 1 lost: 4\n".to_owned());
    assert_eq!(client(script("$-1\r\n"), &line), lost);

    std::fs::write(&file, "1 fail\n").unwrap();
    let line = format!("redis 127.0.0.1:1 --outcomes {} --check 'GET {{}}'", file.display());
    let (status, out) = plain(&line);
    assert_eq!((status, out.as_str()), (NOTHING_DONE, "0 of 1 acknowledged, none lost\n"));
    std::fs::write(&file, "what\n").unwrap();
    assert!(plain(&line).1.contains("`what` is not `NUMBER OUTCOME`"));
}

#[test]
fn an_operation_is_repeated_until_its_answer_comes() {
    let ping = "*1\r\n$4\r\nPING\r\n";
    let script = vec![
        reads(ping),
        writes("-LOADING\r\n"),
        reads(ping),
        writes("+no\r\n"),
        reads(ping),
        writes("+PONG\r\n"),
    ];
    assert_eq!(client(script, "redis 127.0.0.1:PORT --until 'PO*' PING"), (0, String::new()));
    let script = vec![reads(SET), writes(":0\r\n"), reads(SET), writes(":2\r\n")];
    let line = "redis 127.0.0.1:PORT --repeat 2 --ok 1 --ok 2 'SET k1 1'";
    let (_, out) = client(script, line);
    assert!(out.contains(r#""type":"info""#) && out.contains(r#""type":"ok""#), "{out}");
    // The answer to a check is another one.
    let script = vec![reads(SET), writes("+OK\r\n"), reads(GET), writes("+1\r\n")];
    let line = "redis 127.0.0.1:PORT --quiet --ok OK 'SET k1 1' --check 'GET k{}'";
    assert_eq!(client(script, line), (0, "1 of 1 acknowledged, none lost\n".into()));
}

#[test]
fn operations_are_the_lines_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("operations");
    std::fs::write(&file, "SET k1 1\n\nGET k1\n").unwrap();
    let script = vec![reads(SET), writes("+OK\r\n"), reads(GET), writes("+1\r\n")];
    let line = format!("redis 127.0.0.1:PORT --print --file {}", file.display());
    assert_eq!(client(script, &line), (0, "OK\n1\n".into()));
}

/// A message of PostgreSQL.
fn pg(kind: &str, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [kind.as_bytes(), &length, body].concat()
}

fn pg_start() -> Vec<u8> {
    let words =
        b"\0\x03\0\0user\0postgres\0database\0postgres\0application_name\0stasis-client\0\0";
    pg("", words)
}

#[test]
fn postgresql_runs_statements() {
    let ready = pg("Z", b"I");
    let welcome = [pg("R", &[0; 4]), pg("S", b"a\0b\0"), ready.clone()].concat();
    let row = pg("D", b"\0\x02\0\0\0\x01a\xff\xff\xff\xff");
    let rows = [pg("T", b"\0\0"), row.clone(), row, pg("C", b"SELECT 2\0"), ready.clone()];
    let error = |severity: &str, code: &str| {
        let fields = format!("S{severity}\0V{severity}\0C{code}\0Mwhy\0\0");
        pg("E", fields.as_bytes())
    };
    let ask = |text: &str| reads(pg("Q", &[text.as_bytes(), &[0]].concat()));
    let script = vec![
        reads(pg_start()),
        splits(welcome.clone()),
        ask("insert"),
        splits([pg("N", b"\0"), pg("C", b"INSERT 0 1\0"), ready.clone()].concat()),
        ask("select"),
        writes(rows.concat()),
        ask("twice"),
        writes([error("ERROR", "23505"), ready.clone()].concat()),
        ask("maybe"),
        writes([error("ERROR", "40003"), ready].concat()),
        ask("end"),
        writes(error("FATAL", "57P01")),
        Step::Ends,
        reads(pg_start()),
        writes([pg("R", &[0; 4]), error("FATAL", "57P03")].concat()),
        Step::Ends,
        reads(pg_start()),
        writes(welcome),
        ask("copy"),
        writes(pg("G", b"")),
    ];
    let line = "postgresql 127.0.0.1:PORT --timeout 5s insert select twice maybe end copy";
    let (status, out) = client(script, line);
    assert_eq!((status, out.as_str()), (MISTAKE, "127.0.0.1: COPY"));
}

#[test]
fn postgresql_answers_are_told_apart() {
    let ready = pg("Z", b"I");
    let welcome = [pg("R", &[0; 4]), ready.clone()].concat();
    for (answer, expected) in [
        (
            pg("C", b"INSERT 0 1\0"),
            r#""type":"ok","process":0,"f":"x","value":null,"answer":"INSERT 0 1""#,
        ),
        (pg("D", b"\0\x02\0\0\0\x01a\xff\xff\xff\xff"), r#""answer":"a\u0009""#),
        (
            pg("E", b"VERROR\0C23505\0Mwhy\0\0"),
            r#""type":"fail","process":0,"f":"x","value":null,"error":"ERROR 23505: why""#,
        ),
        (pg("E", b"VERROR\0C40003\0Mwhy\0\0"), r#""type":"info""#),
        (pg("E", b"VFATAL\0C57P01\0Mwhy\0\0"), r#""type":"info""#),
        (pg("D", b"\0\x02\0\0\0\x09a"), "cut short"),
        (b"D\xff\xff\xff\xff".to_vec(), "a message's length"),
        (b"D\0\0\0\x01".to_vec(), "a message's length"),
        (pg("?", b""), "a message of an answer"),
    ] {
        let answer = [answer, ready.clone()].concat();
        let question = reads(pg("Q", b"x\0"));
        let script =
            vec![reads(pg_start()), writes(&welcome), question, splits(answer), Step::Ends];
        let (_, out) = client(script, "postgresql 127.0.0.1:PORT --timeout 5s x");
        assert!(out.contains(expected), "{out}");
    }
}

#[test]
fn postgresql_sessions_need_no_password_or_a_plain_one() {
    let done = [pg("R", &[0; 4]), pg("Z", b"I")].concat();
    let script = vec![
        reads(pg("", b"\0\x03\0\0user\0me\0database\0d\0application_name\0stasis-client\0\0")),
        writes(pg("R", &[0, 0, 0, 3])),
        reads(pg("p", b"word\0")),
        writes(done),
        reads(pg("Q", b"x\0")),
        writes([pg("I", b""), pg("Z", b"I")].concat()),
    ];
    let line = "postgresql 127.0.0.1:PORT --user me --database d --password word --print x";
    assert_eq!(client(script, line), (0, "\n".into()));
    for (method, name) in [(3, "--password"), (5, "MD5"), (10, "SCRAM"), (7, "GSSAPI")] {
        let script = vec![reads(pg_start()), writes(pg("R", &[0, 0, 0, method]))];
        let (status, out) = client(script, "postgresql 127.0.0.1:PORT x");
        assert!(status == MISTAKE && out.contains(name), "{out}");
    }
}

/// A packet of MySQL.
fn my(number: u8, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes()[..3], &[number], body].concat()
}

fn my_hello() -> Vec<u8> {
    let words = b"\x0a8.0\0\0\0\0\0aaaaaaaa\0\xff\xf7\x2d\x02\0\xff\x81\x15\0\0\0\0\0\0\0\0\0\0bbbbbbbbbbbb\0";
    my(0, &[&words[..], b"mysql_native_password\0"].concat())
}

fn my_login(proof: &[u8]) -> Vec<u8> {
    let head = b"\x01\xa2\x08\0\0\0\0\x01\x2d";
    let rest = [b"root\0", &[proof.len() as u8][..], proof, b"mysql_native_password\0"];
    my(1, &[&head[..], &[0; 23], &rest.concat()].concat())
}

#[test]
fn mysql_answers_are_told_apart() {
    let end = b"\xfe\0\0\x02\0";
    let rows = [
        my(1, b"\x02"),
        my(2, b"a"),
        my(3, b"b"),
        my(4, end),
        my(5, b"\x01x\xfb"),
        my(6, b"\xfc\x01\0y\0"),
        my(7, end),
    ];
    for (answer, expected) in [
        (
            my(1, b"\0\x01\0\x02\0\0\0"),
            r#""type":"ok","process":0,"f":"x","value":null,"answer":"1 affected""#,
        ),
        (rows.concat(), r#""answer":"x\u0009\ny\u0009""#),
        (
            my(1, b"\xff\x15\x04#23000why"),
            r#""type":"fail","process":0,"f":"x","value":null,"error":"1045: why""#,
        ),
        (my(1, b"\xff\x1d\x04#08S01why"), r#""type":"info""#),
        (my(1, b"\xfbfile"), "LOAD DATA LOCAL"),
        (my(1, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff"), "a number of columns"),
        (my(1, b"\xfc"), "cut short"),
        (my(1, b""), "cut short"),
        (b"\xff\xff\xff\0".to_vec(), "16 MiB"),
        ([my(1, b"\x01"), my(2, b"a"), my(3, end), my(4, b"\x09x")].concat(), "cut short"),
        ([my(1, b"\x01"), my(2, b"a"), my(3, b"b")].concat(), "the end of the columns"),
    ] {
        let script = vec![
            writes(my_hello()),
            reads(my_login(b"")),
            writes(my(2, b"\0\0\0\x02\0\0\0")),
            reads(my(0, b"\x03x")),
            splits(answer),
            Step::Ends,
        ];
        let (_, out) = client(script, "mysql 127.0.0.1:PORT --timeout 5s x");
        assert!(out.contains(expected), "{expected}: {out}");
    }
}

#[test]
fn mysql_sessions_prove_a_password_by_the_native_way() {
    // SHA1("p") XOR SHA1(salt, SHA1(SHA1("p"))), by Python's hashlib.
    const OF_A: &[u8] = &[
        0x9d, 0x13, 0x7d, 0xdd, 0xe0, 0xe2, 0x97, 0x5d, 0x40, 0x99, 0xc3, 0x21, 0xdb, 0xf3, 0xfa,
        0x68, 0xa6, 0x9b, 0xb7, 0x52,
    ];
    const OF_C: &[u8] = &[
        0x25, 0x46, 0xa5, 0x6e, 0x80, 0x21, 0x1f, 0xde, 0x1c, 0x6c, 0xe3, 0x27, 0x52, 0x9b, 0xdf,
        0x28, 0x52, 0xc3, 0xd7, 0xfe,
    ];
    let script = |switch: &[u8], answer: Vec<Step>| {
        let mut script = vec![writes(my_hello()), reads(my_login(OF_A)), writes(my(2, switch))];
        script.extend(answer);
        script
    };
    let line = "mysql 127.0.0.1:PORT --password p --print --timeout 5s x";
    let switched = vec![
        reads(my(3, OF_C)),
        writes(my(4, b"\0\0\0\x02\0\0\0")),
        reads(my(0, b"\x03x")),
        writes(my(1, b"\0\0\0\x02\0\0\0")),
    ];
    let switch = b"\xfemysql_native_password\0cccccccccccccccccccc\0";
    assert_eq!(client(script(switch, switched), line), (0, "0 affected\n".into()));
    let (status, out) = client(script(b"\xfecaching_sha2_password\0cc\0", vec![]), line);
    assert!(status == MISTAKE && out.contains("caching_sha2_password"), "{out}");
    let (_, out) = client(
        vec![writes(my(0, b"\xff\x10\x04Too many")), Step::Ends],
        "mysql 127.0.0.1:PORT --timeout 10ms x",
    );
    assert!(out.contains("Too many"), "{out}");
    let (_, out) = client(vec![writes(my(0, b"\x09"))], "mysql 127.0.0.1:PORT x");
    assert!(out.contains("version 9"), "{out}");
}

#[test]
fn http_answers_are_told_apart() {
    let sent = |port: &str| {
        format!("POST /a HTTP/1.1\r\nHost: {port}\r\nContent-Length: 7\r\nContent-Type: application/json\r\nA: b\r\n\r\n{{\"a\":1}}")
    };
    for (answer, expected) in [
        (
            "200 OK\r\nContent-Length: 3\r\n\r\nabc",
            r#""type":"ok","process":0,"f":"post","value":"/a {\"a\":1}","answer":"abc""#,
        ),
        (
            "200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;x\r\nab\r\n1\r\nc\r\n0\r\nT: t\r\n\r\n",
            r#""answer":"abc""#,
        ),
        ("200 OK\r\n\r\nuntil the end\n", r#""answer":"until the end""#),
        ("204 No Content\r\n\r\n", r#""type":"ok""#),
        ("100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", r#""type":"ok""#),
        (
            "404 Not Found\r\nContent-Length: 1\r\n\r\nx",
            r#""type":"fail","process":0,"f":"post","value":"/a {\"a\":1}","error":"404: x""#,
        ),
        ("503 Busy\r\nContent-Length: 0\r\n\r\n", r#""type":"info""#),
        ("101 Other\r\n\r\n", "another protocol"),
        ("200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "the encoding gzip"),
        ("200 OK\r\nContent-Length: 99999999999\r\n\r\n", "16 MiB"),
        ("200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length"),
        ("200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n", "16 MiB"),
        ("200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "a chunk's end"),
        ("2x0 OK\r\n\r\n", "a status line"),
        ("200 OK\r\nno field\r\n\r\n", "a field"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let thread = thread::spawn(move || {
            let (mut stream, address) =
                (listener.accept().unwrap().0, listener.local_addr().unwrap());
            let expected = sent(&address.to_string());
            let mut bytes = vec![0; expected.len()];
            stream.read_exact(&mut bytes).unwrap();
            assert_eq!(String::from_utf8_lossy(&bytes), expected);
            stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).unwrap();
        });
        let line = format!("http {host} --timeout 5s --header 'A: b' 'POST /a {{\"a\":1}}'");
        let (_, out) = plain(&line);
        thread.join().unwrap();
        assert!(out.contains(expected), "{answer}: {out}");
    }
    for wrong in ["GET", "GET x", "get /", "CONNECT /a"] {
        assert_eq!(plain(&format!("http 127.0.0.1:1 '{wrong}'")).0, MISTAKE, "{wrong}");
    }
}

#[test]
fn http_connections_stay_unless_the_server_ends_them() {
    let get = |port: u16| format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = thread::spawn(move || {
        let one = |answers: &[&str]| {
            let mut stream = listener.accept().unwrap().0;
            for answer in answers {
                stream.read_exact(&mut vec![0; get(port).len()]).unwrap();
                stream.write_all(format!("HTTP/1.1 200 OK\r\n{answer}").as_bytes()).unwrap();
            }
            stream
        };
        let first =
            one(&["Content-Length: 1\r\n\r\na", "Connection: close\r\nContent-Length: 1\r\n\r\nb"]);
        let second = one(&["Content-Length: 1\r\n\r\nc"]);
        drop((first, second));
    });
    let (_, out) = plain(&format!("http 127.0.0.1:{port} --print --repeat 3 'GET /'"));
    assert_eq!(out, "a\nb\nc\n");
    thread.join().unwrap();
}

#[test]
fn a_line_answers_a_line() {
    let script = vec![
        writes("hello\r\n"),
        reads("one\ttwo\n"),
        splits("done\r\n"),
        reads("two\n"),
        writes("more\nthan one\n"),
        Step::Ends,
        writes("hello\r\n"),
        reads("three\n"),
        writes("fine\n"),
    ];
    let line = r"lines 127.0.0.1:PORT --greeting 1 --print --every 20ms 'one\ttwo' two three";
    assert_eq!(client(script, line), (0, "done\nmore\nfine\n".into()));
}
