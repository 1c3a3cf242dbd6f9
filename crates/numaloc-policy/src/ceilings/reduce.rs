//! What is left of what pods ask for beyond a ceiling.

use crate::Settings;
use numaloc_api::{Ceilings, Excess};
use numaloc_core::{Compact, HugetlbSource, MakeRoom, NumaBalancing, Offload};

/// Lowers what is asked for to the ceiling. Names of nodes stay: nothing is moved then.
pub fn lower(excess: Excess, ceilings: &Ceilings, settings: &mut Settings) {
    let (policy, limits, most) = (&mut settings.policy, &mut settings.limits, ceilings.pace());
    let options = &mut policy.options;
    let workers = |asked: usize| asked.min(ceilings.workers);
    match excess {
        Excess::NodesTo | Excess::NodesFrom | Excess::Cache => {}
        Excess::IncludeShared => options.include_shared = false,
        Excess::IncludeNetwork => options.include_network = false,
        Excess::IncludeBound => options.include_bound = false,
        Excess::IncludeGigantic => options.include_gigantic = false,
        Excess::ReserveBytes => options.reserve_bytes = None,
        Excess::Compact => options.compact = Compact::Auto,
        Excess::FreshHugetlb => options.hugetlb = HugetlbSource::Pool,
        Excess::MoveCache | Excess::Exchange => options.make_room = MakeRoom::Cache,
        Excess::PauseNumaBalancing => policy.numa_balancing = NumaBalancing::Warn,
        Excess::Offload => policy.offload = Offload::Auto,
        Excess::QosClass => policy.qos_class = Some(ceilings.qos_class),
        Excess::Profile => options.pacing.profile = ceilings.profile,
        Excess::MaxStall => options.pacing.max_stall = Some(most.max_stall),
        Excess::BatchBytes => limits.batch_bytes = Some(most.batch_bytes),
        Excess::Workers => {
            options.pacing.workers = options.pacing.workers.map(workers);
            limits.workers = limits.workers.map(workers);
        }
        Excess::Rate => limits.rate_bytes_per_second = ceilings.rate_bytes_per_second,
        Excess::Timeout => limits.timeout = ceilings.timeout,
    }
}

/// What that means for the pod, as text for people.
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
        Excess::ReserveBytes => "as much is kept free on each node as by default",
        Excess::Compact => "a node is compacted only where the profile does that",
        Excess::FreshHugetlb => "hugetlb pages come from the node's pool alone",
        Excess::MoveCache => "page cache makes room by being dropped",
        Excess::Exchange => "memory of other containers stays where it is",
        Excess::PauseNumaBalancing => "the kernel's NUMA balancing is not switched off",
        Excess::Offload => "a DMA engine copies only where the node's operator has it copy",
        Excess::QosClass => {
            return format!("the class is {}, that of the container", ceilings.qos_class.name());
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
