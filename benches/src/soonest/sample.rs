//! Finds out where the pages of a process are at a price that the process does not feel: looks up some of its pages in its
//! pagemap.

use crate::{hold::Holder, movers::HOME};
use anyhow::{Result, ensure};
use numaloc_core::{NodeId, page_size};
use numaloc_host::{Entry, FrameNodes, Roots};
use std::{fs::File, os::unix::fs::FileExt};

/// Number of pages to look up: enough for a standard error under half a percent at 99%.
const PAGES: u64 = 512;

/// Some of a process's pages, which stand for all.
#[derive(Debug)]
pub struct Sample {
    pagemap: File,
    frames: FrameNodes,
    pages: Vec<u64>,
}

impl Sample {
    /// Takes one page from each of equal parts of the first region.
    pub fn open(holder: &Holder) -> Result<Self> {
        let part = holder.pages() / PAGES;
        ensure!(part > 0, "the region has fewer than {PAGES} pages");
        let first = holder.range.start / page_size();
        let pages = (0..PAGES).map(|index| first + index * part + fastrand::u64(..part)).collect();
        let pagemap = File::open(format!("/proc/{}/pagemap", holder.pid()))?;
        let frames = FrameNodes::read(&Roots::default())?;
        Ok(Self { pagemap, frames, pages })
    }

    /// The share of these pages on the home node. A page that is being moved is on no node.
    pub fn local(&self) -> Result<f64> {
        let mut local = 0;
        for page in &self.pages {
            let mut entry = [0; 8];
            self.pagemap.read_exact_at(&mut entry, page * 8)?;
            let entry = Entry(u64::from_ne_bytes(entry));
            let node = self.frames.node(entry.pfn()).filter(|_| entry.is_present());
            local += usize::from(node == Some(NodeId(HOME)));
        }
        Ok(local as f64 / self.pages.len() as f64)
    }
}
