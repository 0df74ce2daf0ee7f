//! A client's messages to a drive (vhost-user specification, "Front-end message types").

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::{Queue, Session, PROTOCOL_FEATURES};
use crate::vhost_user::inflight::{self, Inflight};
use crate::vhost_user::memory::{GuestMemory, MemoryRegion, MAX_REGIONS};
use crate::vhost_user::protocol::{self, one, Body, Error, Message, Result, MAX_BODY};
use crate::ServeError;

/// Requests of clients, by their numbers.
mod request {
    pub(super) const GET_FEATURES: u32 = 1;
    pub(super) const SET_FEATURES: u32 = 2;
    pub(super) const SET_OWNER: u32 = 3;
    pub(super) const RESET_OWNER: u32 = 4;
    pub(super) const SET_MEM_TABLE: u32 = 5;
    pub(super) const SET_VRING_NUM: u32 = 8;
    pub(super) const SET_VRING_ADDR: u32 = 9;
    pub(super) const SET_VRING_BASE: u32 = 10;
    pub(super) const GET_VRING_BASE: u32 = 11;
    pub(super) const SET_VRING_KICK: u32 = 12;
    pub(super) const SET_VRING_CALL: u32 = 13;
    pub(super) const SET_VRING_ERR: u32 = 14;
    pub(super) const GET_PROTOCOL_FEATURES: u32 = 15;
    pub(super) const SET_PROTOCOL_FEATURES: u32 = 16;
    pub(super) const GET_QUEUE_NUM: u32 = 17;
    pub(super) const SET_VRING_ENABLE: u32 = 18;
    pub(super) const SET_BACKEND_REQ_FD: u32 = 21;
    pub(super) const GET_CONFIG: u32 = 24;
    pub(super) const SET_CONFIG: u32 = 25;
    pub(super) const GET_INFLIGHT_FD: u32 = 31;
    pub(super) const SET_INFLIGHT_FD: u32 = 32;
    pub(super) const RESET_DEVICE: u32 = 34;
    pub(super) const GET_MAX_MEM_SLOTS: u32 = 36;
    pub(super) const ADD_MEM_REG: u32 = 37;
    pub(super) const REM_MEM_REG: u32 = 38;
}

/// Features of the protocol (vhost-user specification, "Protocol features").
mod feature {
    pub(super) const MQ: u64 = 1;
    pub(super) const REPLY_ACK: u64 = 1 << 3;
    pub(super) const BACKEND_REQ: u64 = 1 << 5;
    pub(super) const CONFIG: u64 = 1 << 9;
    pub(super) const INFLIGHT_SHMFD: u64 = 1 << 12;
    pub(super) const RESET_DEVICE: u64 = 1 << 13;
    pub(super) const CONFIGURE_MEM_SLOTS: u64 = 1 << 15;
    pub(super) const ALL: u64 =
        MQ | REPLY_ACK | BACKEND_REQ | CONFIG | INFLIGHT_SHMFD | RESET_DEVICE | CONFIGURE_MEM_SLOTS;
}

/// Flag of a queue's number: no descriptor comes with it.
const NO_FILE: u64 = 1 << 8;

/// A reply of the request's own.
struct Reply {
    body: Vec<u8>,
    file: Option<File>,
}

fn number(value: u64) -> Option<Reply> {
    Some(Reply { body: value.to_ne_bytes().into(), file: None })
}

/// Returns whether the specification has a reply with content to this request.
fn has_reply(request: u32) -> bool {
    use request::*;
    matches!(
        request,
        GET_FEATURES
            | GET_VRING_BASE
            | GET_PROTOCOL_FEATURES
            | GET_QUEUE_NUM
            | GET_CONFIG
            | GET_INFLIGHT_FD
            | GET_MAX_MEM_SLOTS
    )
}

/// Returns whether descriptors may come with this request.
fn takes_files(request: u32) -> bool {
    use request::*;
    matches!(
        request,
        SET_MEM_TABLE
            | SET_VRING_KICK
            | SET_VRING_CALL
            | SET_VRING_ERR
            | SET_BACKEND_REQ_FD
            | SET_INFLIGHT_FD
            | ADD_MEM_REG
            | REM_MEM_REG
    )
}

/// The protocol feature that a client accepts before it makes this request; 0: none.
fn needed(request: u32) -> u64 {
    match request {
        request::GET_QUEUE_NUM => feature::MQ,
        request::SET_BACKEND_REQ_FD => feature::BACKEND_REQ,
        request::GET_CONFIG | request::SET_CONFIG => feature::CONFIG,
        request::GET_INFLIGHT_FD | request::SET_INFLIGHT_FD => feature::INFLIGHT_SHMFD,
        request::RESET_DEVICE => feature::RESET_DEVICE,
        request::GET_MAX_MEM_SLOTS | request::ADD_MEM_REG | request::REM_MEM_REG => {
            feature::CONFIGURE_MEM_SLOTS
        }
        _ => 0,
    }
}

fn region(body: &mut Body) -> Result<MemoryRegion> {
    let [guest, size, client, offset] = [body.u64()?, body.u64()?, body.u64()?, body.u64()?];
    let ends = |begin: u64| begin.checked_add(size).is_some();
    match size != 0 && [guest, client, offset].into_iter().all(ends) {
        true => Ok(MemoryRegion { guest, client, size, offset }),
        false => Err(Error::Invalid("it describes memory that is empty or too large")),
    }
}

/// A queue's number, and the descriptor that comes with it.
fn queue_and_file(body: &mut Body, files: Vec<File>) -> Result<(u32, Option<File>)> {
    let word = body.u64()?;
    let file = match word & NO_FILE {
        0 => Some(one(files)?),
        _ if files.is_empty() => None,
        _ => return Err(Error::Invalid("it comes with a descriptor, and denies it")),
    };
    Ok(((word & 0xff) as u32, file))
}

impl Session {
    /// Receives a message and serves it.
    pub(crate) fn serve(&mut self, stream: &UnixStream) -> Result<()> {
        let message = protocol::receive(stream)?;
        let (request, needs_reply) = (message.request, message.needs_reply);
        let served = self.answer(message);
        if let Ok(Some(Reply { body, file })) = &served {
            return protocol::reply(stream, request, body, file.as_ref());
        }
        let acknowledges = self.protocol_features & feature::REPLY_ACK != 0;
        if acknowledges && needs_reply && !has_reply(request) {
            let failed = u64::from(served.is_err());
            protocol::reply(stream, request, &failed.to_ne_bytes(), None)?;
        }
        served.map(drop)
    }

    fn answer(&mut self, message: Message) -> Result<Option<Reply>> {
        let Message { request, body, files, .. } = message;
        if !files.is_empty() && !takes_files(request) {
            return Err(Error::Invalid("it comes with a descriptor, and its request has none"));
        }
        if self.protocol_features & needed(request) != needed(request) {
            return Err(Error::Invalid("it needs a feature that the client has not accepted"));
        }
        let mut body = Body(&body);
        match request {
            request::GET_CONFIG => return self.get_config(&mut body),
            request::SET_CONFIG => return self.set_config(&mut body),
            request::SET_MEM_TABLE => return self.set_memory_table(&mut body, &files),
            request::GET_INFLIGHT_FD => return self.get_inflight(&mut body),
            request::SET_INFLIGHT_FD => return self.set_inflight(&mut body, &one(files)?),
            request::ADD_MEM_REG => return self.add_region(&mut body, &one(files)?),
            request::REM_MEM_REG => return self.remove_region(&mut body),
            _ => {}
        }
        if let Some(reply) = self.answer_for_queue(request, &mut body, files)? {
            return Ok(reply);
        }
        let value = match request {
            request::SET_FEATURES | request::SET_PROTOCOL_FEATURES => body.u64()?,
            _ => 0,
        };
        body.end()?;
        Ok(match request {
            request::SET_OWNER => None,
            request::RESET_OWNER | request::RESET_DEVICE => {
                self.reset_device()?;
                None
            }
            request::GET_FEATURES => {
                number(self.with(|served| served.device.features())? | PROTOCOL_FEATURES)
            }
            request::SET_FEATURES => {
                self.set_features(value)?;
                None
            }
            request::GET_PROTOCOL_FEATURES => number(feature::ALL),
            request::SET_PROTOCOL_FEATURES => {
                self.protocol_features = value;
                None
            }
            request::GET_QUEUE_NUM => number(self.target.queues.into()),
            request::GET_MAX_MEM_SLOTS => number(MAX_REGIONS as u64),
            _ => return Err(Error::Invalid("its request is unknown")),
        })
    }

    /// Answers a request about one queue; `None` for other requests. Descriptors for messages to
    /// the client are handled here as well, as they are taken like a queue's.
    fn answer_for_queue(
        &mut self,
        request: u32,
        body: &mut Body,
        mut files: Vec<File>,
    ) -> Result<Option<Option<Reply>>> {
        match request {
            request::SET_VRING_NUM => {
                let (index, size) = (body.u32()?, body.u32()?);
                body.end()?;
                self.set_queue_size(index, size)?;
            }
            request::SET_VRING_ADDR => {
                let (index, flags) = (body.u32()?, body.u32()?);
                let [descriptors, used, available, _log] =
                    [body.u64()?, body.u64()?, body.u64()?, body.u64()?];
                body.end()?;
                if flags > 1 || descriptors % 16 != 0 || available % 2 != 0 || used % 4 != 0 {
                    return Err(Error::Invalid("it names a queue's place that cannot be"));
                }
                self.queue(index)?.addresses = Some([descriptors, available, used]);
            }
            request::SET_VRING_BASE => {
                let (index, base) = (body.u32()?, body.u32()?);
                body.end()?;
                // Counts are modulo 2^16.
                self.queue(index)?.base = base as u16;
            }
            request::GET_VRING_BASE => {
                let (index, _) = (body.u32()?, body.u32()?);
                body.end()?;
                self.queue(index)?;
                let base = u32::from(self.stop(index as u16)?);
                let body = [index.to_ne_bytes(), base.to_ne_bytes()].concat();
                return Ok(Some(Some(Reply { body, file: None })));
            }
            request::SET_VRING_ENABLE => {
                let (index, enabled) = (body.u32()?, body.u32()?);
                body.end()?;
                if self.features & PROTOCOL_FEATURES == 0 || enabled > 1 {
                    return Err(Error::Invalid("it enables a queue in a way that is unknown"));
                }
                self.queue(index)?.enabled = enabled == 1;
                // One that is disabled is still there, and continues when it is enabled again.
                if enabled == 1 {
                    self.try_start(index as u16)?;
                }
            }
            request::SET_VRING_KICK => {
                let (index, file) = queue_and_file(body, files)?;
                body.end()?;
                self.queue(index)?;
                // Without one the client would want to be polled only, which nobody does.
                let kick = file.map(|file| self.bell(file)).transpose()?;
                self.queue(index)?.kick = kick;
                self.try_start(index as u16)?;
            }
            request::SET_VRING_CALL => {
                let (index, file) = queue_and_file(body, files)?;
                body.end()?;
                self.queue(index)?;
                let call = file.map(|file| self.bell(file)).transpose()?;
                self.with(move |served| served.set_call(index as u16, call))?;
            }
            request::SET_VRING_ERR => {
                queue_and_file(body, files)?;
                body.end()?;
            }
            request::SET_BACKEND_REQ_FD => {
                body.end()?;
                let back = files.pop().map(OwnedFd::from);
                let given = back.is_some();
                self.with(move |served| served.set_back(back))?;
                if !given {
                    return Err(Error::Invalid("it does not come with one descriptor"));
                }
            }
            _ => return Ok(None),
        }
        Ok(Some(None))
    }

    fn reset_device(&mut self) -> Result<()> {
        for index in 0..self.target.queues {
            self.stop(index)?;
            self.queues[usize::from(index)] = Queue::default();
        }
        Ok(())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        self.features = features;
        let wanted = features & !PROTOCOL_FEATURES;
        let name = self.target.name.clone();
        self.with(move |served| {
            if !served.accept(wanted) {
                let message = "the guest's driver accepts features that it was not offered, or is \
                               older than virtio 1.0; requests fail until it is another one";
                crate::log::warn(&name, message);
            }
        })
    }

    fn set_queue_size(&mut self, index: u32, size: u32) -> Result<()> {
        let most = self.target.queue_size;
        let queue = self.queue(index)?;
        match u16::try_from(size) {
            Ok(size) if size.is_power_of_two() && size <= most => {
                queue.size = size;
                Ok(())
            }
            _ => Err(self.refuse(&ServeError::QueueSize { size, most })),
        }
    }

    fn set_memory_table(&mut self, body: &mut Body, files: &[File]) -> Result<Option<Reply>> {
        let (count, zero) = (body.u32()? as usize, body.u32()?);
        if zero != 0 || count == 0 || count != files.len() {
            return Err(Error::Invalid("it does not come with one descriptor for each region"));
        }
        let mut memory = GuestMemory::default();
        for file in files {
            let region = region(body)?;
            memory = memory.with(region, file).map_err(|error| self.refuse(&error))?;
        }
        body.end()?;
        self.set_memory(memory)?;
        Ok(None)
    }

    fn add_region(&mut self, body: &mut Body, file: &File) -> Result<Option<Reply>> {
        body.u64()?;
        let region = region(body)?;
        body.end()?;
        let memory = self.memory.with(region, file).map_err(|error| self.refuse(&error))?;
        self.set_memory(memory)?;
        Ok(None)
    }

    fn remove_region(&mut self, body: &mut Body) -> Result<Option<Reply>> {
        body.u64()?;
        let region = region(body)?;
        body.end()?;
        let memory = self
            .memory
            .without(region.guest, region.size)
            .ok_or(Error::Invalid("it names memory that was not shared"))?;
        self.set_memory(memory)?;
        Ok(None)
    }

    /// Reads the place of a part of the configuration, whose bytes follow.
    fn config(body: &mut Body) -> Result<(u32, u32, u32)> {
        let [offset, size, flags] = [body.u32()?, body.u32()?, body.u32()?];
        let end = offset.checked_add(size).filter(|end| *end as usize <= MAX_BODY);
        match end.is_some() && size != 0 && size as usize == body.0.len() && flags < 4 {
            true => Ok((offset, size, flags)),
            false => Err(Error::Invalid("it names a part of the configuration that cannot be")),
        }
    }

    fn get_config(&mut self, body: &mut Body) -> Result<Option<Reply>> {
        let (offset, size, flags) = Self::config(body)?;
        let data = self.with(move |served| {
            let mut data = vec![0; size as usize];
            served.device.read_config(offset.into(), &mut data);
            data
        })?;
        let mut body: Vec<u8> =
            [offset, size, flags].into_iter().flat_map(u32::to_ne_bytes).collect();
        body.extend(data);
        Ok(Some(Reply { body, file: None }))
    }

    fn set_config(&mut self, body: &mut Body) -> Result<Option<Reply>> {
        let (offset, ..) = Self::config(body)?;
        let data = body.0.to_vec();
        self.with(move |served| served.device.write_config(offset.into(), &data))?;
        Ok(None)
    }

    /// Reads a description of the buffer of requests under way: size and place in the file, queues
    /// and entries of each. QEMU has four more bytes.
    fn inflight(body: &mut Body) -> Result<(u64, u16, u16)> {
        let (_size, offset) = (body.u64()?, body.u64()?);
        let (queues, entries) = (body.u16()?, body.u16()?);
        if !body.0.is_empty() {
            body.u32()?;
        }
        body.end()?;
        match queues != 0 && entries != 0 {
            true => Ok((offset, queues, entries)),
            false => Err(Error::Invalid("it describes a buffer of no requests")),
        }
    }

    fn get_inflight(&mut self, body: &mut Body) -> Result<Option<Reply>> {
        let length = body.0.len();
        let (_, queues, size) = Self::inflight(body)?;
        if queues > self.target.queues || size > self.target.queue_size {
            let message = format!("{queues} queues of {size} entries to track are not possible");
            return Err(self.refuse(&ServeError::Memory(message)));
        }
        let file = inflight::create(queues, size).map_err(|error| self.refuse(&error))?;
        let mut body = inflight::bytes(queues, size).to_ne_bytes().to_vec();
        body.extend(0u64.to_ne_bytes());
        body.extend(queues.to_ne_bytes());
        body.extend(size.to_ne_bytes());
        body.resize(length, 0);
        Ok(Some(Reply { body, file: Some(file) }))
    }

    fn set_inflight(&mut self, body: &mut Body, file: &File) -> Result<Option<Reply>> {
        let (offset, queues, size) = Self::inflight(body)?;
        let inflight =
            Inflight::map(file, offset, queues, size).map_err(|error| self.refuse(&error))?;
        self.with(move |served| served.set_inflight(Some(inflight)))?;
        Ok(None)
    }
}
