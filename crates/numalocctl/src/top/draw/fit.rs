//! Columns that fit on a screen, and their positions.

use crate::{
    columns::{Column, ShownColumn, slots},
    top::{rows::List, state::TopState},
};

/// Room of a name before less important columns get any.
const LONG_NAME: usize = 24;

fn width(slot: ShownColumn) -> usize {
    match slot {
        ShownColumn::One(column) => column.description().width,
        ShownColumn::Node(_) => slot.header().len().max(5),
    }
}

/// Properties of the rows that columns are chosen for.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// The length of the longest name.
    pub longest: usize,
    /// The length of the longest job.
    pub job: usize,
    /// Columns that are empty in all rows.
    pub empty: Vec<Column>,
}

/// The columns with the cell that each begins at and its width. The first cell of a line is for the mark of the
/// selected row.
pub fn fit(
    state: &TopState,
    nodes: &[u32],
    wide: usize,
    content: &Content,
) -> Vec<(ShownColumn, u16, u16)> {
    let columns = match &state.columns {
        Some(columns) => columns.clone(),
        None => worth(state, nodes, wide, content),
    };
    let slots = slots(&columns, nodes);
    let used: usize = slots.iter().map(|&slot| width(slot) + 1).sum();
    let mut spare = wide.saturating_sub(used.saturating_sub(1));
    let mut grown = |least: usize, wanted: usize| {
        let more = wanted.saturating_sub(least).min(spare);
        spare -= more;
        least + more
    };
    let has = |column| slots.contains(&ShownColumn::One(column));
    // A name of 300 characters must not push all numbers to the other edge of a wide screen.
    let most = match has(Column::Job) {
        true => wide / 3,
        false if wide >= 119 => wide / 2,
        false => wide,
    };
    let mut grow = |column: Column, wanted| match has(column) {
        true => grown(column.description().width, wanted),
        false => 0,
    };
    let name = grow(Column::Name, content.longest.min(most));
    let job = grow(Column::Job, content.job);
    let (mut x, mut fitted) = (1, Vec::new());
    for slot in slots {
        let width = match slot {
            ShownColumn::One(Column::Name) => name,
            ShownColumn::One(Column::Job) => job,
            slot => width(slot),
        };
        // Columns that were asked for are cut at the edge of the screen.
        let width = width.min((wide + 1).saturating_sub(x));
        if width == 0 {
            break;
        }
        let cells = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        fitted.push((slot, cells(x), cells(width)));
        x += width + 1;
    }
    fitted
}

fn worth(state: &TopState, nodes: &[u32], wide: usize, content: &Content) -> Vec<Column> {
    let has_pids = state.list != List::Workloads;
    let least = Column::Name.description().width;
    let long = content.longest.clamp(least, LONG_NAME) - least;
    let (mut used, mut columns) = (0, Vec::new());
    let mut by_rank = Column::ALL;
    by_rank.sort_by_key(|column| column.description().rank);
    for group in by_rank.chunk_by(|a, b| a.description().rank == b.description().rank) {
        let mut needed: usize = slots(group, nodes).iter().map(|&slot| width(slot) + 1).sum();
        let is_wanted = has_pids || !group.contains(&Column::Pid);
        let is_empty = group.iter().all(|column| content.empty.contains(column));
        if group == [Column::Name] && wide > 2 * LONG_NAME {
            needed += long;
        }
        // On the narrowest screens there are names alone.
        if is_wanted && !is_empty && (columns.is_empty() || used + needed <= wide + 1) {
            used += needed;
            columns.extend(group);
        }
    }
    columns.sort();
    columns
}

/// A path that is too long without its beginning, which many have in common: whole components where that leaves enough.
/// Long identifiers (of containers and pods) are cut before, because their first digits tell them apart.
pub fn path(path: &str, width: usize) -> String {
    let count = |text: &str| text.chars().count();
    if count(path) <= width {
        return path.to_owned();
    }
    let short: Vec<String> = path.split('/').map(identifier).collect();
    let tails = (0..short.len()).map(|first| match first {
        0 => short.join("/"),
        first => format!("~{}", short[first..].join("/")),
    });
    let all = short.join("/");
    let cut = || {
        let rest = all.chars().skip((count(&all) + 1).saturating_sub(width.max(1)));
        format!("~{}", rest.collect::<String>())
    };
    // A short name in a deep tree says little alone.
    let is_fit = |text: &String| (width / 2..=width).contains(&count(text));
    tails.into_iter().find(is_fit).unwrap_or_else(cut)
}

/// A component of a path with no more than eight digits of each long hexadecimal number in it.
fn identifier(part: &str) -> String {
    const LONG: usize = 16;
    const KEPT: usize = 8;
    let is_digit = |c: char| c.is_ascii_hexdigit() || matches!(c, '-' | '_');
    let (mut text, mut rest) = (String::new(), part);
    while let Some(begin) = rest.find(|c: char| c.is_ascii_hexdigit()) {
        let length = rest[begin..].find(|c| !is_digit(c)).unwrap_or(rest.len() - begin);
        // The last letters of a word that comes before it may look like digits.
        let first = rest[begin..begin + length].find(|c: char| c.is_ascii_digit()).unwrap_or(0);
        let word = rest[begin..begin + first].rfind(['-', '_']).map_or(0, |end| end + 1);
        let (number, after) = rest[begin + word..].split_at(length - word);
        text += &rest[..begin + word];
        let is_number = number.chars().filter(char::is_ascii_digit).count() * 4 > number.len();
        match is_number && number.len() >= LONG {
            true => text += &format!("{}~", &number[..KEPT]),
            false => text += number,
        }
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Sort;

    fn state(list: List) -> TopState {
        TopState::new(list, Sort { column: Column::Remote, reverse: false }, String::new(), None)
    }

    fn headers(state: &TopState, nodes: &[u32], wide: usize) -> String {
        let longest = if state.list == List::Workloads { 200 } else { 15 };
        let columns = fit(state, nodes, wide, &Content { longest, ..Content::default() });
        let last = columns.last().map_or(0, |&(_, x, width)| usize::from(x + width));
        assert!(last <= wide + 1, "{last} of {wide}");
        columns.iter().map(|(slot, ..)| slot.header()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_matters_most_stays() {
        let (workloads, processes) = (state(List::Workloads), state(List::Processes));
        assert_eq!(headers(&workloads, &[0, 1], 39), "NAME MEM REMOTE LOCAL% AGE");
        assert_eq!(
            headers(&processes, &[0, 1], 79),
            "PID NAME HOME MEM REMOTE LOCAL LOCAL% AGE NODE0 NODE1 CPU%"
        );
        assert_eq!(headers(&workloads, &[0, 1], 20), "NAME MEM");
        assert_eq!(headers(&workloads, &[0, 1], 10), "NAME");
        let all = headers(&processes, &[0, 1, 252], 299);
        assert_eq!(
            all,
            "PID NAME HOME MEM CACHE REMOTE NEAR DEMOTED LOCAL LOCAL% AGE NODE0 NODE1 NODE252 MOVED KERNEL TRAFFIC RTRAF CPU% JOB"
        );
    }

    #[test]
    fn columns_that_were_asked_for_are_cut_at_the_edge() {
        let mut state = state(List::Workloads);
        state.columns = Some(vec![Column::Memory, Column::Name, Column::Nodes]);
        assert_eq!(headers(&state, &[0, 1, 2, 3], 32), "MEM NAME NODE0 NODE1");
    }

    #[test]
    fn names_get_the_room_that_empty_columns_leave() {
        let state = state(List::Workloads);
        let name = |empty: &[Column]| {
            let content = Content { longest: 45, job: 30, empty: empty.into() };
            let columns = fit(&state, &[0, 1], 129, &content);
            columns[0].2
        };
        let full = name(&[]);
        let empty = [
            Column::Job,
            Column::Moved,
            Column::Near,
            Column::Demoted,
            Column::Cache,
            Column::Balanced,
        ];
        assert!(name(&empty) > full + Column::Job.description().width as u16);
    }

    #[test]
    fn of_a_path_the_end_is_kept_that_tells_it_apart() {
        assert_eq!(path("/system.slice/redis.service", 40), "/system.slice/redis.service");
        assert_eq!(path("/system.slice/redis.service", 20), "~redis.service");
        assert_eq!(path("/system.slice/redis.service", 8), "~service");
        let pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b4e28ba_2fa1_11d2_883f_b9a761bde3fb.slice/\
                   cri-containerd-3f29c8e0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c.scope";
        assert_eq!(path(pod, 36), "~cri-containerd-3f29c8e0~.scope");
        assert!(path(pod, 80).contains("burstable-pod1b4e28b~.slice/cri-containerd-3f29c8e0~"));
        for width in 0..200 {
            assert!(path(pod, width).chars().count() <= width.max(1));
        }
        assert_eq!(identifier("pod-of-a-cafe"), "pod-of-a-cafe");
    }
}
