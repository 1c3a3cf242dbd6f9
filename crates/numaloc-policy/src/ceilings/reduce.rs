//! Reduces pods' requests that exceed a ceiling.

use super::{bytes, threads};
use crate::Settings;
use numaloc_api::{Ceilings, Excess, v1};

/// Lowers a request to the ceiling. Names of nodes stay: nothing is moved then.
pub fn lower(excess: Excess, ceilings: &Ceilings, settings: &mut Settings) {
    let most = ceilings.pace();
    match excess {
        Excess::NodesTo | Excess::NodesFrom | Excess::Cache => {}
        Excess::IncludeShared => settings.policy().include_shared = false,
        Excess::IncludeNetwork => settings.policy().include_network = false,
        Excess::IncludeBound => settings.policy().include_bound = false,
        Excess::IncludeGigantic => settings.policy().include_gigantic = false,
        Excess::ReserveBytes => settings.policy().reserve_bytes = None,
        Excess::Compact => settings.policy().set_compact(v1::Compact::Auto),
        Excess::FreshHugetlb => settings.policy().set_hugetlb_source(v1::HugetlbSource::Pool),
        Excess::MoveCache | Excess::Exchange => {
            settings.policy().set_make_room(v1::MakeRoom::Cache);
        }
        Excess::PauseNumaBalancing => {
            settings.policy().set_numa_balancing(v1::NumaBalancingAction::Warn);
        }
        Excess::Offload => settings.policy().set_offload(v1::Offload::Auto),
        Excess::QosClass => settings.policy().set_qos_class(ceilings.qos_class.into()),
        Excess::Profile => settings.policy().set_profile(ceilings.profile.into()),
        Excess::MaxStall => settings.policy().max_stall = most.max_stall.try_into().ok(),
        Excess::BatchBytes => settings.limits().batch_bytes = Some(bytes(most.batch_bytes)),
        // A policy names threads among its limits alone.
        Excess::Workers => settings.limits().workers = Some(threads(ceilings.workers)),
        Excess::Rate => {
            settings.limits().rate_bytes_per_second = ceilings.rate_bytes_per_second.map(bytes);
        }
        Excess::Timeout => {
            settings.limits().timeout = ceilings.timeout.and_then(|time| time.try_into().ok());
        }
    }
}

/// The reduction's effect on the pod, as text for people.
pub fn note(excess: Excess, ceilings: &Ceilings) -> String {
    let what = match excess {
        Excess::NodesTo => {
            "nothing is moved, because pods may not name the nodes that memory goes to"
        }
        Excess::NodesFrom => {
            "nothing is moved, because pods may not name the nodes that memory comes from"
        }
        Excess::Cache => "nothing is moved, because pods may not place page cache",
        Excess::IncludeShared => "pages that other containers map stay where they are",
        Excess::IncludeNetwork => {
            "pages of files on network file systems and FUSE stay where they are"
        }
        Excess::IncludeBound => "memory that the application has bound stays where it is",
        Excess::IncludeGigantic => "hugetlb pages that take too long stay where they are",
        Excess::ReserveBytes => "each node keeps the default amount free",
        Excess::Compact => "a node is compacted only where the profile does that",
        Excess::FreshHugetlb => "hugetlb pages come from the node's pool alone",
        Excess::MoveCache => "page cache is dropped to make room",
        Excess::Exchange => "memory of other containers stays where it is",
        Excess::PauseNumaBalancing => "the kernel's NUMA balancing is not switched off",
        Excess::Offload => "a DMA engine copies only where the node's operator has it copy",
        Excess::QosClass => {
            return format!("the class is {}, the container's own", ceilings.qos_class.name());
        }
        Excess::Profile => return format!("the profile is {}", ceilings.profile.name()),
        Excess::MaxStall => {
            return format!("one call takes at most {:?}", ceilings.pace().max_stall);
        }
        Excess::BatchBytes => {
            return format!("one call moves at most {} bytes", ceilings.pace().batch_bytes);
        }
        Excess::Workers => {
            return format!("memory is moved by at most {} thread(s)", ceilings.workers);
        }
        Excess::Rate => {
            let most = ceilings.rate_bytes_per_second.unwrap_or(u64::MAX);
            return format!("the rate is {most} bytes per second");
        }
        Excess::Timeout => {
            let most = ceilings.timeout.unwrap_or_default();
            return format!("a run moves for at most {most:?}");
        }
    };
    what.to_owned()
}
