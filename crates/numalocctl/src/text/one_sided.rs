//! Prints which shared memory counts as local and is remote to some of its users.

use super::{first_lines::first_lines, table::list};
use crate::{clean::clean, units::size};
use numaloc_api::v1;
use numaloc_core::advise::quoted;

/// A line for each of the largest, with what spreads it.
pub fn one_sided(all: &[v1::OneSidedMemory]) -> String {
    first_lines("one-sided", all, line)
}

fn line(one: &v1::OneSidedMemory) -> String {
    let (bytes, all) = (size(one.bytes), size(one.total_bytes));
    let (name, node, nodes) = (clean(&one.name), one.node_id, list(&one.home_node_ids));
    let rule = |placement| quoted(&format!("{}={placement}:{nodes}", clean(&one.name)));
    let (divided, spread) = (rule("block"), rule("interleave"));
    format!(
        "one-sided: {bytes} of {all} of {name} are on node {node}, and {} processes of nodes {nodes} map it: --map {divided} divides it, --map {spread} spreads it\n",
        one.process_count
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_have_a_line_with_what_spreads_them() {
        let one = v1::OneSidedMemory {
            name: "/dev/shm/the window".to_owned(),
            home_node_ids: vec![0, 1],
            node_id: 0,
            bytes: 120 << 20,
            total_bytes: 128 << 20,
            process_count: 2,
        };
        insta::assert_snapshot!(one_sided(&vec![one; 6]));
        assert_eq!(one_sided(&[]), "");
    }
}
