//! /proc/zoneinfo: the zones of all nodes (mm/vmstat.c, `zoneinfo_show_print`).

use numaloc_core::NodeId;

/// A zone. Values that its text lacks are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Zone {
    pub(crate) node: NodeId,
    /// Whether it is the zone Movable, whose pages can all be moved.
    pub(crate) is_movable: bool,
    /// Pages that the kernel's allocator has of it.
    pub(crate) managed: u64,
    /// Free pages, as of the reading.
    pub(crate) free: u64,
    /// Pages that fragmentation adds to each watermark for a short time. The watermarks are shown with it.
    pub(crate) boost: u64,
    pub(crate) min: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
    /// Pages that the zone keeps from allocations that a higher zone of the node could serve, movable memory among them
    /// (mm/page_alloc.c, `setup_per_zone_lowmem_reserve`; vm.lowmem_reserve_ratio). 0 in the highest zone of a node.
    pub(crate) reserve: u64,
    /// Number of frames that it spans, holes included.
    pub(crate) spanned: u64,
    /// The frame number of its first page; `None` where the kernel does not print it.
    pub(crate) start_pfn: Option<u64>,
}

/// All zones, in the order of the file. Lines of per-CPU lists begin with `high:` and do not count.
pub(crate) fn zones(zoneinfo: &str) -> Vec<Zone> {
    let mut zones = Vec::new();
    let mut zone: Option<Zone> = None;
    for line in zoneinfo.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["Node", id, "zone", name] = words.as_slice() {
            zones.extend(zone.take());
            let node = id.trim_end_matches(',').parse().ok().map(NodeId);
            zone = node.map(|node| Zone {
                node,
                is_movable: *name == "Movable",
                managed: 0,
                free: 0,
                boost: 0,
                min: 0,
                low: 0,
                high: 0,
                reserve: 0,
                spanned: 0,
                start_pfn: None,
            });
            continue;
        }
        let Some(zone) = &mut zone else { continue };
        let (name, value) = match words.as_slice() {
            ["pages", "free", value] => (&"free", value),
            ["protection:", values @ ..] => {
                zone.reserve = reserve(values);
                continue;
            }
            [name, value] => (name, value),
            _ => continue,
        };
        let number = value.parse().ok();
        match *name {
            "free" => zone.free = number.unwrap_or(0),
            "boost" => zone.boost = number.unwrap_or(0),
            "min" => zone.min = number.unwrap_or(0),
            "low" => zone.low = number.unwrap_or(0),
            "high" => zone.high = number.unwrap_or(0),
            "managed" => zone.managed = number.unwrap_or(0),
            "spanned" => zone.spanned = number.unwrap_or(0),
            "start_pfn:" => zone.start_pfn = number,
            _ => {}
        }
    }
    zones.extend(zone);
    zones
}

/// The largest of the numbers of `(0, 2814, 31837, 31837)`, one for each zone that an allocation may prefer. They ascend.
fn reserve(values: &[&str]) -> u64 {
    let numbers = values.iter().map(|value| value.trim_matches(['(', ')', ',']).parse());
    numbers.filter_map(Result::ok).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_distinguished() {
        let text = "Node 0, zone      DMA
  pages free     2816
        boost    5
        min      44
        spanned  4095
        managed  3998
        protection: (0, 2814, 31837, 31837, 0)
  pagesets
    cpu: 0
              high:     4204
  start_pfn:           1
Node x, zone   Normal
        min      7
Node 64, zone   Movable
        high     150
";
        let [dma, normal] = zones(text)[..] else { panic!("{:?}", zones(text)) };
        assert_eq!((dma.node, dma.boost, dma.min, dma.high), (NodeId(0), 5, 44, 0));
        assert_eq!((dma.free, dma.reserve, normal.reserve), (2816, 31837, 0));
        assert_eq!((dma.spanned, dma.start_pfn), (4095, Some(1)));
        assert_eq!((dma.is_movable, dma.managed), (false, 3998));
        assert_eq!((normal.is_movable, normal.managed), (true, 0));
        assert_eq!((normal.node, normal.min, normal.high), (NodeId(64), 0, 150));
        assert_eq!((normal.boost, normal.start_pfn), (0, None), "nothing of another zone");
    }
}
