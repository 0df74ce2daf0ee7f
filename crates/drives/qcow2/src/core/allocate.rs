//! New clusters: written before the tables point to them.

use std::io;

use stasis_block::{Command, Operation};
use stasis_qcow2_format::entries::Cluster;

use super::Core;
use crate::disk::Source;
use crate::turns::{Subject, Turn};

/// Clusters of the disk that a write is about to get, one behind the other in the file.
#[derive(Debug)]
struct Run {
    /// First byte of the write in the file.
    at: u64,
    /// Bytes of the write that they take.
    length: u64,
    clusters: Vec<NewCluster>,
}

/// A place for a cluster of the disk.
#[derive(Debug, Clone, Copy)]
struct NewCluster {
    /// First byte in the disk.
    offset: u64,
    /// First byte in the file.
    at: u64,
    origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The tables point to it, and it can be changed in place.
    Mapped,
    /// The image had it without data.
    Kept,
    /// The cluster was free.
    Taken,
}

impl Core {
    fn cluster_size(&self) -> u64 {
        self.shared.lock().disk.tables.size() as u64
    }

    /// Writes data, in new clusters where the image has none of its own.
    pub(super) async fn write_new(&self, mut offset: u64, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let length = data.len() as u64;
            let found = self.look(|disk| disk.tables.look_up(offset, length)).await?;
            if let (Cluster::Data { at, own: true }, count) = found {
                if count == length {
                    let command = Command::new(Operation::Write, at, length);
                    return self.shared.io(command, data.to_vec()).await.map(drop);
                }
            }
            let (index, rest) = {
                let tables = &self.shared.lock().disk.tables;
                (tables.l1_index(offset), tables.rest_of_table(offset))
            };
            let turn = self.turns.alone(Subject::L2(index)).await;
            let piece = &data[..rest.min(length) as usize];
            let written = self.write_run(turn, offset, piece).await?;
            data = &data[written as usize..];
            offset += written;
        }
        Ok(())
    }

    /// Writes the first part of data within one L2 table, to whose new mappings the caller has the
    /// turn; returns how many bytes of it.
    async fn write_run(&self, turn: Turn<'_>, offset: u64, data: &[u8]) -> io::Result<u64> {
        let mut run = Run { at: 0, length: 0, clusters: Vec::new() };
        let outcome = match self.fill_run(&mut run, offset, data.len() as u64).await {
            Ok(()) => self.finish_run(&run, turn, offset, data).await,
            Err(error) => Err(error),
        };
        if outcome.is_err() {
            let tables = &mut self.shared.lock().disk.tables;
            let size = tables.size() as u64;
            for cluster in run.clusters.iter().filter(|cluster| cluster.origin == Origin::Taken) {
                tables.free(cluster.at / size, 1);
            }
        }
        outcome.map(|()| run.length)
    }

    /// Finds clusters for a write of `length` bytes, with the content that the write leaves there.
    async fn fill_run(&self, run: &mut Run, offset: u64, length: u64) -> io::Result<()> {
        let size = self.cluster_size();
        while run.length < length {
            let at = offset + run.length;
            let within = at % size;
            let count = (size - within).min(length - run.length);
            let next = run.clusters.last().map(|last| last.at + size);
            let Some(cluster) = self.place(at - within, next).await? else { break };
            if run.clusters.is_empty() {
                run.at = cluster.at + within;
            }
            run.clusters.push(cluster);
            if cluster.origin != Origin::Mapped {
                self.copy_rest(cluster, within..within + count).await?;
            }
            run.length += count;
        }
        Ok(())
    }

    /// Writes the data, and then has the tables point to it.
    async fn finish_run(
        &self,
        run: &Run,
        turn: Turn<'_>,
        offset: u64,
        data: &[u8],
    ) -> io::Result<()> {
        let new = || run.clusters.iter().filter(|cluster| cluster.origin != Origin::Mapped);
        // In place, it waits for nobody and holds nobody up.
        let _turn = new().next().map(|_| turn);
        let command = Command::new(Operation::Write, run.at, run.length);
        self.shared.io(command, data[..run.length as usize].to_vec()).await?;
        if new().next().is_some() {
            let table = self.look(|disk| disk.tables.own_table(offset)).await?;
            let tables = &mut self.shared.lock().disk.tables;
            new().for_each(|cluster| tables.put(table, cluster.offset, cluster.at));
        }
        Ok(())
    }

    /// Finds a place for a cluster of the disk, at `wanted` in the file if that is told; `None` if
    /// that place is taken.
    async fn place(&self, offset: u64, wanted: Option<u64>) -> io::Result<Option<NewCluster>> {
        self.look(|disk| disk.tables.own_table(offset)).await?;
        let size = self.cluster_size();
        let cluster = self.look(|disk| disk.tables.whole(offset)).await?;
        let place = |at, origin| Ok(Some(NewCluster { offset, at, origin }));
        match cluster {
            Cluster::Data { at, own: true } if wanted.is_none_or(|wanted| wanted == at) => {
                return place(at, Origin::Mapped);
            }
            Cluster::Data { own: true, .. } => return Ok(None),
            Cluster::Zero { at: at @ 1.., own: true }
                if wanted.is_none_or(|wanted| wanted == at) =>
            {
                return place(at, Origin::Kept);
            }
            _ => {}
        }
        let tables = &mut self.shared.lock().disk.tables;
        match wanted {
            Some(at) if tables.take_at(at / size) => place(at, Origin::Taken),
            Some(_) => Ok(None),
            None => {
                let cluster = tables.take(1).ok_or(io::ErrorKind::StorageFull)?;
                place(cluster * size, Origin::Taken)
            }
        }
    }

    /// Writes the present content of a cluster of the disk to its new place, but for what `written`
    /// covers of it from its begin or up to its end, which is written afterwards.
    async fn copy_rest(
        &self,
        cluster: NewCluster,
        written: std::ops::Range<u64>,
    ) -> io::Result<()> {
        let size = self.cluster_size();
        let rest = match (written.start, written.end) {
            (0, end) => end..size,
            (start, end) if end == size => 0..start,
            _ => 0..size,
        };
        if rest.is_empty() {
            return Ok(());
        }
        let mut data = vec![0; (rest.end - rest.start) as usize];
        self.read(cluster.offset + rest.start, &mut data).await?;
        let command = Command::new(Operation::Write, cluster.at + rest.start, data.len() as u64);
        self.shared.io(command, data).await.map(drop)
    }

    /// Makes a part of the disk zeroes that is none yet, in an image that has clusters of zeroes.
    /// Nobody else has a turn at the mappings.
    pub(super) async fn zero(&self, offset: u64, length: u64) -> io::Result<()> {
        let size = self.cluster_size();
        let (disk, end) = (self.shared.lock().disk.size, offset + length);
        // A cluster that the disk ends in is whole with what the disk has of it.
        let last = if end == disk { end.next_multiple_of(size) } else { end / size * size };
        let first = offset.next_multiple_of(size);
        if first >= last {
            return self.zero_parts(offset, end).await;
        }
        self.zero_parts(offset, first).await?;
        self.zero_parts(last, end).await?;
        for at in (first..last).step_by(size as usize) {
            self.zero_cluster(at, false).await?;
        }
        Ok(())
    }

    async fn zero_cluster(&self, offset: u64, keep: bool) -> io::Result<()> {
        let table = self.look(|disk| disk.tables.own_table(offset)).await?;
        self.shared.lock().disk.tables.clear(table, offset, keep);
        Ok(())
    }

    /// Makes parts of one or two clusters zeroes. Where a cluster has other data, it stays and
    /// zeroes are written.
    async fn zero_parts(&self, offset: u64, end: u64) -> io::Result<()> {
        let size = self.cluster_size();
        let disk = self.shared.lock().disk.size;
        let mut written = end..end;
        for start in (offset / size * size..end).step_by(size as usize) {
            let part = offset.max(start)..end.min(start + size);
            let stop = (start + size).min(disk);
            if self.is_zero(start, part.start).await? && self.is_zero(part.end, stop).await? {
                self.zero_cluster(start, true).await?;
            } else {
                written = written.start.min(part.start)..part.end;
            }
        }
        self.write_new(written.start, &vec![0; (written.end - written.start) as usize]).await
    }

    async fn is_zero(&self, mut at: u64, end: u64) -> io::Result<bool> {
        while at < end {
            let (Source::Zero { .. }, count) = self.locate(at, end - at).await? else {
                return Ok(false);
            };
            at += count;
        }
        Ok(true)
    }
}
