//! A client's messages to a drive (vhost-user specification, "Front-end message types").

use std::fs::File;

use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
    VHOST_USER_CONFIG_SIZE,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use vhost::VhostUserMemoryRegionBase;

use super::{Queue, Session, PROTOCOL_FEATURES};
use crate::vhost_user::inflight::{self, Inflight};
use crate::vhost_user::memory::{GuestMemory, MemoryRegion, MAX_REGIONS};
use crate::ServeError;

impl VhostUserBackendReqHandlerMut for Session {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        for index in 0..self.target.queues {
            self.stop(index)?;
            self.queues[usize::from(index)] = Queue::default();
        }
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.with(|served| served.device.features())? | PROTOCOL_FEATURES)
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

    fn set_mem_table(
        &mut self,
        places: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        let mut memory = GuestMemory::default();
        for (region, file) in places.iter().zip(&files) {
            let place = MemoryRegion {
                guest: region.guest_phys_addr,
                client: region.user_addr,
                size: region.memory_size,
                offset: region.mmap_offset,
            };
            memory = memory.with(place, file).map_err(|error| self.refuse(&error))?;
        }
        self.set_memory(memory)?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let most = self.target.queue_size;
        let queue = self.queue(index)?;
        match u16::try_from(num) {
            Ok(size) if size.is_power_of_two() && size <= most => {
                queue.size = size;
                Ok(())
            }
            _ => Err(self.refuse(&ServeError::QueueSize { size: num, most })),
        }
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        self.queue(index)?.addresses = Some([descriptor, available, used]);
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        // Counts are modulo 2^16.
        self.queue(index)?.base = base as u16;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        self.queue(index)?;
        let base = self.stop(index as u16)?;
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.queue(index.into())?;
        // Without one the client would want to be polled only, which nobody does.
        let kick = file.map(|file| self.bell(file)).transpose()?;
        self.queue(index.into())?.kick = kick;
        self.try_start(index.into())
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.queue(index.into())?;
        let call = file.map(|file| self.bell(file)).transpose()?;
        self.with(move |served| served.set_call(index.into(), call))
    }

    fn set_vring_err(&mut self, _: u8, _: Option<File>) -> Result<()> {
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        use VhostUserProtocolFeatures as Features;
        Ok(Features::MQ
            | Features::CONFIG
            | Features::REPLY_ACK
            | Features::INFLIGHT_SHMFD
            | Features::RESET_DEVICE
            | Features::BACKEND_REQ
            | Features::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.target.queues.into())
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.queue(index)?.enabled = enable;
        match enable {
            true => self.try_start(index as u16),
            // It is still there, and continues when it is enabled again.
            false => Ok(()),
        }
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        if size > VHOST_USER_CONFIG_SIZE {
            return Err(Error::InvalidParam);
        }
        self.with(move |served| {
            let mut data = vec![0; size as usize];
            served.device.read_config(offset.into(), &mut data);
            data
        })
    }

    fn set_config(&mut self, offset: u32, data: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        let data = data.to_vec();
        self.with(move |served| served.device.write_config(offset.into(), &data))
    }

    fn get_inflight_fd(&mut self, wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (queues, size) = (wanted.num_queues, wanted.queue_size);
        if queues == 0 || queues > self.target.queues || size > self.target.queue_size {
            let message = format!("{queues} queues of {size} entries to track are not possible");
            return Err(self.refuse(&ServeError::Memory(message)));
        }
        let file = inflight::create(queues, size).map_err(|error| self.refuse(&error))?;
        Ok((VhostUserInflight::new(inflight::bytes(queues, size), 0, queues, size), file))
    }

    fn set_inflight_fd(&mut self, given: &VhostUserInflight, file: File) -> Result<()> {
        let VhostUserInflight { mmap_offset, num_queues, queue_size, .. } = *given;
        let inflight = Inflight::map(&file, mmap_offset, num_queues, queue_size)
            .map_err(|error| self.refuse(&error))?;
        self.with(move |served| served.set_inflight(Some(inflight)))
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(MAX_REGIONS as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        let place = MemoryRegion {
            guest: region.guest_phys_addr,
            client: region.user_addr,
            size: region.memory_size,
            offset: region.mmap_offset,
        };
        let memory = self.memory.with(place, &file).map_err(|error| self.refuse(&error))?;
        self.set_memory(memory)?;
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        match self.memory.without(region.guest_phys_addr, region.memory_size) {
            Some(memory) => self.set_memory(memory),
            None => Err(Error::InvalidParam),
        }
    }

    // Not offered, so that no client asks for them.

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        Err(Error::InvalidParam)
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        Err(Error::InvalidParam)
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(Error::InvalidParam)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(Error::InvalidParam)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(Error::InvalidParam)
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        Err(Error::InvalidParam)
    }
}
