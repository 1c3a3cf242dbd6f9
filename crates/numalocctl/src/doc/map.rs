//! The document of pictures: the numbers that they are drawn from.

use super::parts::{NodeBytes, ids, node_bytes};
use numaloc_api::{v1, value::Missing};
use numaloc_core::picture::{AreaRow, Cell, OtherAreas, Panel, Picture};
use numaloc_host::Source;
use serde::Serialize;

/// The document of `locality --draw`, which `-o json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct MapDoc {
    /// The source of page locations: `pagemap` or `move_pages`.
    pub source: &'static str,
    /// The file with the picture; null if none was asked for.
    pub file: Option<String>,
    /// Whether any number is an estimate from a part of the pages.
    pub sampled: bool,
    /// The largest processes, largest first.
    pub processes: Vec<PanelDoc>,
    /// The number of other processes.
    pub left_out_processes: u64,
    /// Their resident memory, by the kernel's own count.
    pub left_out_bytes: u64,
    /// The number of processes that ended during the scan.
    pub ended_processes: u64,
    /// Members of the target that are left out: none of the numbers include them.
    pub missing: Vec<v1::MissingMember>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PanelDoc {
    pub pid: i32,
    pub comm: String,
    /// Nodes where its memory belongs.
    pub home_nodes: Vec<u32>,
    /// Whether any of its numbers is an estimate.
    pub sampled: bool,
    #[serde(flatten)]
    pub total: CellDoc,
    /// Memory on other nodes than its home.
    pub remote_bytes: u64,
    /// The mappings that hold most, in the order that was asked for.
    pub mappings: Vec<RowDoc>,
    /// All others that hold anything.
    pub other: OtherDoc,
}

/// A mapping, or several of one name that touch.
#[derive(Clone, Debug, Serialize)]
pub struct RowDoc {
    /// First address, as in /proc/PID/maps.
    pub address: String,
    /// Length of its addresses in bytes.
    pub bytes: u64,
    /// Its backing, by the names of [`numaloc_core::Kind`].
    pub kind: &'static str,
    /// Path or name as in /proc/PID/maps.
    pub name: String,
    /// Whether it is mapped shared.
    pub map_shared: bool,
    /// Bytes of its addresses that were looked at.
    pub looked_bytes: u64,
    /// Addresses of a cell in bytes.
    pub cell_bytes: u64,
    /// In the order of their addresses.
    pub cells: Vec<CellDoc>,
}

/// Resident memory in a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CellDoc {
    pub nodes: Vec<NodeBytes>,
    /// Bytes on no known node.
    pub unplaced_bytes: u64,
    /// Bytes in huge pages, which `nodes` counts as well.
    pub huge_bytes: u64,
    /// Bytes that other processes map, too.
    pub shared_bytes: u64,
}

/// Mappings that have no row, because they are too small or too many.
#[derive(Clone, Debug, Serialize)]
pub struct OtherDoc {
    pub mappings: u64,
    /// Sum of their lengths in bytes, resident or not.
    pub bytes: u64,
    /// Bytes of their addresses that were looked at.
    pub looked_bytes: u64,
    /// Resident memory in them.
    #[serde(flatten)]
    pub total: CellDoc,
}

impl MapDoc {
    /// A picture, the file that it was drawn into, and the parts left out.
    pub fn new(
        picture: &Picture,
        source: Source,
        file: Option<String>,
        missing: &[Missing],
    ) -> Self {
        Self {
            source: match source {
                Source::Pagemap => "pagemap",
                Source::Query => "move_pages",
            },
            file,
            sampled: picture.is_sampled(),
            processes: picture.panels.iter().map(panel).collect(),
            left_out_processes: picture.left_out,
            left_out_bytes: picture.left_out_bytes,
            ended_processes: picture.ended,
            missing: missing.iter().map(Into::into).collect(),
        }
    }
}

fn panel(panel: &Panel) -> PanelDoc {
    let (side, total) = (&panel.before, panel.before.total());
    PanelDoc {
        pid: panel.pid,
        comm: panel.comm.clone(),
        home_nodes: ids(&panel.home),
        sampled: side.is_sampled(),
        remote_bytes: total.remote_bytes(&panel.home),
        total: (&total).into(),
        mappings: side.rows.iter().map(row).collect(),
        other: other(&side.other),
    }
}

fn row(row: &AreaRow) -> RowDoc {
    RowDoc {
        address: format!("{:x}", row.area.start),
        bytes: row.area.bytes(),
        kind: row.area.kind.name(),
        name: row.area.name.to_string(),
        map_shared: row.area.is_shared,
        looked_bytes: row.looked_bytes,
        cell_bytes: row.cell_bytes,
        cells: row.cells.iter().map(CellDoc::from).collect(),
    }
}

fn other(other: &OtherAreas) -> OtherDoc {
    OtherDoc {
        mappings: other.areas,
        bytes: other.range_bytes,
        looked_bytes: other.looked_bytes,
        total: (&other.cell).into(),
    }
}

impl From<&Cell> for CellDoc {
    fn from(cell: &Cell) -> Self {
        Self {
            nodes: node_bytes(&cell.nodes),
            unplaced_bytes: cell.unplaced_bytes,
            huge_bytes: cell.huge_bytes,
            shared_bytes: cell.shared_bytes,
        }
    }
}
