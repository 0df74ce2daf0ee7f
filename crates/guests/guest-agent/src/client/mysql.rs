//! MySQL and MariaDB: the text protocol of 4.1 ("MySQL Source Code Documentation", Client/Server
//! Protocol: Connection Phase, COM_QUERY).

use super::protocol::{Login, Question, Reply};
use super::wire::{Bytes, Failure, Wire};

/// `CLIENT_LONG_PASSWORD`, `CLIENT_PROTOCOL_41`, `CLIENT_TRANSACTIONS`, `CLIENT_RESERVED2`
/// (an authentication of 4.1) and `CLIENT_PLUGIN_AUTH` (Capabilities Flags).
const CAPABILITIES: u32 = 1 | 1 << 9 | 1 << 13 | 1 << 15 | 1 << 19;
const CONNECT_WITH_DB: u32 = 1 << 3;
/// `utf8mb4_general_ci`.
const CHARACTER_SET: u8 = 45;
const PLUGIN: &str = "mysql_native_password";

/// Errors after which a statement may have happened: `ER_SERVER_SHUTDOWN`, `ER_ERROR_DURING_COMMIT`,
/// `ER_CONNECTION_KILLED` of MariaDB.
const UNKNOWN: [u64; 3] = [1053, 1180, 1927];

/// Limit on the columns of a row (MySQL 8.0, "Limits on Table Column Count").
const MAX_COLUMNS: u64 = 4096;

pub(super) fn greet(wire: &mut Wire, login: &Login) -> Result<(), Failure> {
    let (number, packet) = packet(wire)?;
    let mut body = Bytes(&packet);
    match body.little(1)? {
        10 => {}
        255 => return Err(Failure::Refused(error(&mut body)?.1)),
        other => return Err(Failure::Unsupported(format!("MySQL's handshake of version {other}"))),
    }
    body.text();
    body.take(4)?;
    let mut salt = body.take(8)?.to_vec();
    // A filler, capabilities, character set, status, capabilities, the salt's length, reserved.
    body.take(1 + 2 + 1 + 2 + 2 + 1 + 10)?;
    salt.extend_from_slice(body.take(12)?);

    let database = login.database.as_deref();
    let flags = CAPABILITIES | database.map_or(0, |_| CONNECT_WITH_DB);
    let mut answer = flags.to_le_bytes().to_vec();
    answer.extend_from_slice(&(16_u32 << 20).to_le_bytes());
    answer.push(CHARACTER_SET);
    answer.extend_from_slice(&[0; 23]);
    answer.extend_from_slice(login.user.as_deref().unwrap_or("root").as_bytes());
    answer.push(0);
    let proof = scramble(&login.password, &salt);
    answer.push(proof.len() as u8);
    answer.extend_from_slice(&proof);
    for word in database.into_iter().chain([PLUGIN]) {
        answer.extend_from_slice(word.as_bytes());
        answer.push(0);
    }
    wire.send(&framed(number.wrapping_add(1), &answer))?;
    let mut switched = false;
    loop {
        let (number, packet) = self::packet(wire)?;
        let mut body = Bytes(&packet);
        match body.little(1)? {
            0 => return Ok(()),
            255 => return Err(Failure::Refused(error(&mut body)?.1)),
            254 if !switched => {
                let plugin = body.text();
                let proof = match login.password.is_empty() {
                    true => Vec::new(),
                    false if plugin == PLUGIN => scramble(&login.password, body.take(20)?),
                    false => return Err(Failure::Unsupported(format!("{plugin} with a password"))),
                };
                wire.send(&framed(number.wrapping_add(1), &proof))?;
                switched = true;
            }
            _ => {
                return Err(Failure::Unsupported(format!("an authentication other than {PLUGIN}")))
            }
        }
    }
}

pub(super) fn ask(operation: &str, _: &str, _: &Login) -> Result<Question, String> {
    const COM_QUERY: u8 = 3;
    match operation.len() < MAX_PACKET - 1 {
        true => Ok(framed(0, &[&[COM_QUERY], operation.as_bytes()].concat()).into()),
        false => Err("a statement is longer than 16 MiB".into()),
    }
}

pub(super) fn answer(wire: &mut Wire, _: &Question) -> Result<Reply, Failure> {
    let (_, first) = packet(wire)?;
    let mut body = Bytes(&first);
    let columns = match first.first() {
        Some(0) => {
            body.take(1)?;
            return Ok(Reply::Ok(format!("{} affected", length(&mut body)?.unwrap_or(0))));
        }
        Some(255) => return failed(&first),
        Some(251) => return Err(Failure::Unsupported("LOAD DATA LOCAL".into())),
        _ => length(&mut body)?.unwrap_or(0),
    };
    if columns == 0 || columns > MAX_COLUMNS {
        return Err(Failure::malformed("a number of columns"));
    }
    for _ in 0..columns {
        packet(wire)?;
    }
    let is_end = |packet: &[u8]| packet.first() == Some(&254) && packet.len() < 9;
    if !is_end(&packet(wire)?.1) {
        return Err(Failure::malformed("the end of the columns"));
    }
    let mut rows = Vec::new();
    loop {
        let (_, packet) = packet(wire)?;
        if is_end(&packet) {
            return Ok(Reply::Ok(rows.join("\n")));
        }
        if packet.first() == Some(&255) {
            return failed(&packet);
        }
        let mut body = Bytes(&packet);
        let mut row = Vec::new();
        for _ in 0..columns {
            let column = length(&mut body)?.map(|length| body.take(length as usize)).transpose()?;
            row.push(String::from_utf8_lossy(column.unwrap_or_default()).into_owned());
        }
        rows.push(row.join("\t"));
    }
}

fn failed(packet: &[u8]) -> Result<Reply, Failure> {
    let (code, text) = error(&mut Bytes(packet.get(1..).unwrap_or_default()))?;
    Ok(if UNKNOWN.contains(&code) { Reply::Info(text) } else { Reply::Fail(text) })
}

/// Reads ERR_Packet behind its header.
fn error(body: &mut Bytes) -> Result<(u64, String), Failure> {
    let code = body.little(2)?;
    let text = body.text();
    // A sign and an SQLSTATE are before the message of a session.
    let text = text.strip_prefix('#').and_then(|text| text.get(5..)).unwrap_or(&text);
    Ok((code, format!("{code}: {text}")))
}

/// A length-encoded integer; none is NULL.
fn length(body: &mut Bytes) -> Result<Option<u64>, Failure> {
    Ok(match body.little(1)? {
        251 => None,
        252 => Some(body.little(2)?),
        253 => Some(body.little(3)?),
        254 => Some(body.little(8)?),
        255 => return Err(Failure::malformed("a length")),
        short => Some(short),
    })
}

/// A packet of this length goes on in the next one.
const MAX_PACKET: usize = (1 << 24) - 1;

fn packet(wire: &mut Wire) -> Result<(u8, Vec<u8>), Failure> {
    let head = wire.bytes(4)?;
    match Bytes(&head).little(3)? as usize {
        MAX_PACKET => Err(Failure::Unsupported("a row of 16 MiB".into())),
        length => Ok((head[3], wire.bytes(length)?)),
    }
}

fn framed(number: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_le_bytes();
    [&length[..3], &[number], body].concat()
}

/// The proof of `mysql_native_password`: SHA1(password) XOR SHA1(salt, SHA1(SHA1(password))).
fn scramble(password: &str, salt: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = sha1(password.as_bytes());
    let mask = sha1(&[salt, &sha1(&once)].concat());
    once.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect()
}

/// SHA-1 (FIPS 180-4, 6.1.2).
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    let mut hash = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded.chunks_exact(64) {
        let mut w = [0u32; 80];
        for (word, bytes) in w.iter_mut().zip(block.chunks_exact(4)) {
            *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for t in 16..80 {
            w[t] = (w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = hash;
        for (t, word) in w.iter().enumerate() {
            let (f, k) = match t / 20 {
                0 => (b & c | !b & d, 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = [a.rotate_left(5), f, e, k, *word].into_iter().fold(0, u32::wrapping_add);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (sum, part) in hash.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut bytes = [0; 20];
    for (to, word) in bytes.chunks_exact_mut(4).zip(hash) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        // FIPS 180-4's examples ("abc", 56 bytes).
        assert_eq!(hex(&sha1(b"abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
        let two = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(&sha1(two)), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    }
}
