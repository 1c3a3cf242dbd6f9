//! Page cache that cgroups protect from reclaim (memory.min, memory.low), and that is therefore not counted as room.

/// A cgroup that protects memory, with what it has. In bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// The larger one of memory.min and memory.low. The kernel never takes what memory.min protects, and what memory.low protects
    /// only when nothing else is left (mm/vmscan.c, `shrink_node_memcgs`). For a move neither is taken.
    pub protected_bytes: u64,
    /// All memory that is charged to it and to those below it (memory.current).
    pub usage_bytes: u64,
    /// Whether there are cgroups below it that memory is charged to. The protection may then belong to some of them and not to
    /// others.
    pub is_divided: bool,
}

impl Protection {
    /// Upper bound of the protected part of `cache_bytes`, which are on a node and in the cgroup.
    ///
    /// The kernel protects memory of all nodes and kinds together. So of a cgroup with more memory than that some is taken, and it
    /// may all be of this cache. In a cgroup that is divided the whole of the protection may belong to what is cache on this node.
    pub fn of(self, cache_bytes: u64) -> u64 {
        let most = cache_bytes.min(self.protected_bytes);
        if self.is_divided {
            return most;
        }
        let unprotected_bytes = self.usage_bytes.saturating_sub(self.protected_bytes);
        most.min(cache_bytes.saturating_sub(unprotected_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_the_protection_may_be_cache() {
        let of = |protected_bytes, usage_bytes, cache| {
            Protection { protected_bytes, usage_bytes, is_divided: false }.of(cache)
        };
        assert_eq!(of(100, 80, 50), 50, "all is protected");
        assert_eq!(of(100, 120, 50), 30);
        assert_eq!(of(100, 200, 50), 0, "there is enough besides");
        assert_eq!(of(100, 200, 150), 50);
        assert_eq!(of(0, 200, 150), 0);
        assert_eq!(of(u64::MAX, 200, 150), 150, "max");
    }

    #[test]
    fn a_divided_cgroup_may_protect_just_this_cache() {
        let of = |protected_bytes, cache| {
            Protection { protected_bytes, usage_bytes: 1000, is_divided: true }.of(cache)
        };
        assert_eq!((of(100, 50), of(100, 150)), (50, 100));
    }
}
