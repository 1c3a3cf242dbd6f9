//! Files of the kernel, one reader each, below roots that are passed in.

pub(crate) mod answering;
pub(crate) mod cache_search;
pub(crate) mod cached_file;
pub(crate) mod cached_piece;
pub(crate) mod error;
pub(crate) mod file_system;
pub(crate) mod fixed;
pub(crate) mod frames;
pub(crate) mod globs;
pub(crate) mod kernel_config;
pub(crate) mod kpage;
pub(crate) mod mapped_pages;
pub(crate) mod maps;
pub(crate) mod named_files;
pub(crate) mod numa_maps;
pub(crate) mod open_files;
pub(crate) mod pagemap;
pub(crate) mod preallocated;
pub(crate) mod procfs_mount;
pub mod read;
pub(crate) mod roots;
pub(crate) mod unix_socket;
pub(crate) mod vmstat;
pub(crate) mod wait;
pub(crate) mod zoneinfo;
