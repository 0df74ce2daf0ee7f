//! Opens a drive on its thread, behind a socket or as a block device.

use std::sync::Arc;
use std::time::Instant;

use crate::backend::GRACE;
use crate::endpoint::{Endpoint, SocketName};
use crate::new_drive::NewDrive;
use crate::nvme_tcp::{self, NvmeTcp};
use crate::store::{OpenStore, Store};
use crate::transport::Transport;
use crate::ublk;
use crate::vfio_user::{self, VfioUser};
use crate::vhost_user::served::Served;
use crate::vhost_user::session::Target;
use crate::vhost_user::socket::Socket;
use crate::worker::{DriveId, Worker};
use crate::ServeError;

/// A drive on a socket.
pub(super) fn socket(
    new: NewDrive,
    id: DriveId,
    worker: &Arc<Worker>,
) -> Result<Endpoint, ServeError> {
    let NewDrive { name, path, listener, own, config, record, open, .. } = new;
    let listener = match listener {
        Some(listener) => listener,
        None => crate::vhost_user::socket::listen(&path)?,
    };
    let (queues, queue_size) = (config.queues, config.queue_size);
    let shared: Arc<str> = name.as_str().into();
    let label = Arc::clone(&shared);
    let opened = worker.call(move |state| {
        let store = opened(open, &label)?;
        let mut config = config;
        let block = u64::from(config.block_size);
        let of_store = store.properties();
        config.capacity = of_store.capacity / block * block;
        config.discard_zeroes = of_store.discard_zeroes;
        let record = record.and_then(|make| make());
        let served = Served::new(label, config, store, record, state.epoll.clone())?;
        state.drives.insert(id, Transport::Socket(Box::new(served)));
        Ok(())
    });
    match opened {
        Some(Ok(())) => {}
        Some(Err(error)) => {
            if own {
                let _ = std::fs::remove_file(&path);
            }
            return Err(error);
        }
        None => return Err(ServeError::Missing(name)),
    }
    let target = Target { worker: worker.clone(), drive: id, name: shared, queues, queue_size };
    match Socket::start(listener, path.clone(), own, target) {
        Ok(socket) => Ok(Endpoint::Socket(socket)),
        Err(error) => {
            worker.finish(vec![id], Instant::now() + GRACE);
            if own {
                let _ = std::fs::remove_file(&path);
            }
            Err(error)
        }
    }
}

/// A drive as a block device of the host's.
pub(super) fn device(
    new: NewDrive,
    id: DriveId,
    worker: &Arc<Worker>,
) -> Result<Endpoint, ServeError> {
    let NewDrive { name, path, config, record, open, .. } = new;
    let wanted = ublk::Wanted {
        name: name.as_str().into(),
        link: path,
        queues: config.queues,
        block: config.block_size,
        read_only: config.read_only,
    };
    let opened = worker.call(move |state| {
        let store = opened(open, &wanted.name)?;
        let record = record.and_then(|make| make());
        let (device, transport) = ublk::open(&wanted, store, record, state.epoll.clone())?;
        state.drives.insert(id, Transport::Ublk(Box::new(transport)));
        Ok(device)
    });
    let device = opened.ok_or(ServeError::Missing(name))??;
    if let Err(error) = device.start() {
        device.stop();
        worker.finish(vec![id], Instant::now() + GRACE);
        device.remove();
        return Err(error);
    }
    Ok(Endpoint::Ublk(device))
}

/// A drive as an NVMe/TCP target.
pub(super) fn nvme_tcp(
    new: NewDrive,
    settings: NvmeTcp,
    id: DriveId,
    worker: &Arc<Worker>,
) -> Result<Endpoint, ServeError> {
    let NewDrive { name, record, open, .. } = new;
    let addresses: std::io::Result<_> =
        settings.listeners.iter().map(std::net::TcpListener::local_addr).collect();
    let addresses = addresses.map_err(|source| ServeError::System { action: "listen", source })?;
    let shared: Arc<str> = name.as_str().into();
    let opened = worker.call(move |state| {
        let store = opened(open, &shared)?;
        let record = record.and_then(|make| make());
        let served = nvme_tcp::Served::new(shared, settings, store, record, state.epoll.clone())?;
        state.drives.insert(id, Transport::NvmeTcp(Box::new(served)));
        Ok(())
    });
    opened.ok_or(ServeError::Missing(name))??;
    Ok(Endpoint::NvmeTcp(addresses))
}

/// A drive as vfio-user devices, of which each has a socket.
pub(super) fn vfio_user(
    new: NewDrive,
    settings: VfioUser,
    id: DriveId,
    worker: &Arc<Worker>,
) -> Result<Endpoint, ServeError> {
    let NewDrive { name, path, listener, own, record, open, .. } = new;
    let mut listeners = vec![match listener {
        Some(listener) => listener,
        None => crate::vhost_user::socket::listen(&path)?,
    }];
    let mut sockets = vec![SocketName { path, own }];
    for path in &settings.further {
        listeners.push(crate::vhost_user::socket::listen(path)?);
        sockets.push(SocketName { path: path.clone(), own: true });
    }
    let shared: Arc<str> = name.as_str().into();
    let opened = worker.call(move |state| {
        let store = opened(open, &shared)?;
        let record = record.and_then(|make| make());
        let epoll = state.epoll.clone();
        let served = vfio_user::Served::new(shared, settings, listeners, store, record, epoll)?;
        state.drives.insert(id, Transport::VfioUser(Box::new(served)));
        Ok(())
    });
    opened.ok_or(ServeError::Missing(name))??;
    Ok(Endpoint::VfioUser(sockets))
}

fn opened(open: OpenStore, name: &str) -> Result<Store, ServeError> {
    open().map_err(|message| ServeError::Store { name: name.into(), message })
}
