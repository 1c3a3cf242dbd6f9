//! Which columns fit on a screen, and where they begin.

use crate::{
    columns::{Column, ShownColumn, slots},
    top::{rows::List, state::TopState},
};

/// Columns that appear and disappear together, the most important ones first. A share is never without its age.
const BY_WORTH: [&[Column]; 10] = [
    &[Column::Name],
    &[Column::Share, Column::Age],
    &[Column::Memory],
    &[Column::Remote],
    &[Column::Pid],
    &[Column::Home],
    &[Column::Cpu],
    &[Column::Nodes],
    &[Column::Local],
    &[Column::Migrated],
];

/// The least width of a name.
const NAME: usize = 14;
/// The least width of a job.
const JOB: usize = 12;

fn width(slot: ShownColumn) -> usize {
    match slot {
        ShownColumn::One(Column::Name) => NAME,
        ShownColumn::One(Column::Job) => JOB,
        ShownColumn::One(Column::Pid) => 7,
        ShownColumn::One(Column::Home | Column::Memory | Column::Remote | Column::Local) => 5,
        ShownColumn::One(Column::Cpu) => 5,
        ShownColumn::One(Column::Share | Column::Age) => 4,
        ShownColumn::One(Column::Migrated) => 10,
        ShownColumn::One(Column::Nodes) => 0,
        ShownColumn::Node(_) => slot.header().len().max(5),
    }
}

/// The columns with the cell that each begins at and its width. The first cell of a line is for the mark of the selected row.
pub fn fit(
    state: &TopState,
    nodes: &[u32],
    wide: usize,
    longest: usize,
) -> Vec<(ShownColumn, u16, u16)> {
    let columns = match &state.columns {
        Some(columns) => columns.clone(),
        None => worth(state, nodes, wide),
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
    // A name of 300 characters must not push all numbers to the other edge.
    let name = if has(Column::Name) { grown(NAME, longest.min(wide / 3)) } else { 0 };
    let job = if has(Column::Job) { grown(JOB, usize::MAX) } else { 0 };
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

fn worth(state: &TopState, nodes: &[u32], wide: usize) -> Vec<Column> {
    let has_pids = state.list != List::Workloads;
    let (mut used, mut columns) = (0, Vec::new());
    let job: &[Column] = &[Column::Job];
    for group in BY_WORTH.into_iter().chain([job]) {
        let needed: usize = slots(group, nodes).iter().map(|&slot| width(slot) + 1).sum();
        let is_wanted = has_pids || !group.contains(&Column::Pid);
        // On the narrowest screens there are names alone.
        if is_wanted && (columns.is_empty() || used + needed <= wide + 1) {
            used += needed;
            columns.extend(group);
        }
    }
    columns.sort();
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Sort;

    fn state(list: List) -> TopState {
        TopState::new(list, Sort { column: Column::Remote, reverse: false }, String::new(), None)
    }

    fn headers(state: &TopState, nodes: &[u32], wide: usize) -> String {
        let columns = fit(state, nodes, wide, 200);
        let last = columns.last().map_or(0, |&(_, x, width)| usize::from(x + width));
        assert!(last <= wide + 1, "{last} of {wide}");
        columns.iter().map(|(slot, ..)| slot.header()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_matters_most_stays() {
        let (workloads, processes) = (state(List::Workloads), state(List::Processes));
        assert_eq!(headers(&workloads, &[0, 1], 39), "NAME MEM NRMEM N%L AGE");
        assert_eq!(
            headers(&processes, &[0, 1], 79),
            "PID NAME NHN MEM NRMEM NLMEM N%L AGE ND0 ND1 CPU%"
        );
        assert_eq!(headers(&workloads, &[0, 1], 20), "NAME MEM");
        assert_eq!(headers(&workloads, &[0, 1], 10), "NAME");
        let all = headers(&processes, &[0, 1, 252], 299);
        assert_eq!(all, "PID NAME NHN MEM NRMEM NLMEM N%L AGE ND0 ND1 ND252 NMIG CPU% JOB");
    }

    #[test]
    fn columns_that_were_asked_for_are_cut_at_the_edge() {
        let mut state = state(List::Workloads);
        state.columns = Some(vec![Column::Memory, Column::Name, Column::Nodes]);
        assert_eq!(headers(&state, &[0, 1, 2, 3], 32), "MEM NAME ND0 ND1");
    }
}
