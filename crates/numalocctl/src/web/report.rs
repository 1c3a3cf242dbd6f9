//! The page as it is served, and as one file that needs no server.

use super::{
    desk::Desk,
    doc::{BeforeDoc, ReportDoc},
    gate,
    look::Looks,
    records::Records,
};
use crate::{
    doc::{TopDoc, TopRowDoc},
    exit::Failure,
    signals,
    top::RowKey,
};
use numaloc_api::value::{JobId, ScheduleId};
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fs,
    path::Path,
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

const PAGE: &str = include_str!("page/index.html");
pub const STYLE: &str = include_str!("page/page.css");
pub const SCRIPT: &str = concat!(
    include_str!("page/shared.js"),
    include_str!("page/requests.js"),
    include_str!("page/lists.js"),
    include_str!("page/details.js"),
    include_str!("page/looks.js"),
    include_str!("page/changes.js"),
    include_str!("page/page.js"),
);
/// The mark in the page in place of its style and its script.
const HEAD: &str = "<!-- head -->";

/// What the data of a report follows.
const DATA: &str = "<script type=\"application/json\" id=\"report\">";

/// Processes that have a picture in a report at most.
const PICTURES: usize = 5;
/// The latest jobs that a report has in full.
const JOBS: usize = 20;
/// The largest report that is read.
const BEFORE_MAX: u64 = 64 << 20;
/// The longest time until all processes have been looked at.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two scans.
const TURN: Duration = Duration::from_millis(50);

/// The page as it is served.
pub fn served() -> String {
    let head = "<link rel=\"stylesheet\" href=\"page.css\"><script type=\"module\" src=\"page.js\"></script>";
    PAGE.replacen(HEAD, head, 1)
}

/// Reads a report, to compare a later one with it.
///
/// # Errors
/// The file cannot be read, or is not a report.
pub fn before(path: &Path) -> Result<BeforeDoc, Failure> {
    let failed =
        |why: &str| Failure::Usage(format!("cannot compare with {}: {why}", path.display()));
    let read = || {
        let is_too_large = fs::metadata(path)?.len() > BEFORE_MAX;
        Ok::<_, std::io::Error>(if is_too_large {
            String::new()
        } else {
            fs::read_to_string(path)?
        })
    };
    let page = read().map_err(|error| failed(&error.to_string()))?;
    let data = page.split_once(DATA).and_then(|(_, rest)| rest.split_once("</script>"));
    let none = "it is not a report of numalocctl web --report";
    let (data, _) = data.ok_or_else(|| failed(none))?;
    serde_json::from_str(data).map_err(|_| failed(none))
}

/// Scans until all visible memory is known, and returns a page with it, compared with an earlier report. The page names
/// missing information.
///
/// # Errors
/// Ctrl-C, or the document cannot be written as JSON.
pub fn write(
    mut desk: Desk,
    looks: &Looks,
    command: String,
    before: Option<BeforeDoc>,
) -> Result<String, Failure> {
    let interrupted = signals::interrupted()?;
    let begin = Instant::now();
    // CPU use takes two looks.
    let (mut is_known, mut due) = (false, begin + desk.delay);
    desk.feed.refresh();
    while !is_known && begin.elapsed() < PATIENCE {
        if interrupted.load(Relaxed) {
            return Err(Failure::Left("interrupted: no report was written".into()));
        }
        desk.feed.work();
        if Instant::now() >= due {
            desk.feed.refresh();
            desk.feed.work();
            desk.records.iter_mut().for_each(Records::take);
            is_known = desk.feed.view().unseen_count == 0;
            due += desk.delay.min(Duration::from_secs(1));
        }
        thread::sleep(TURN);
    }
    let mut missing = Vec::new();
    let mut tell = |what: &str, failure: Failure| missing.push(format!("{what}: {failure}"));
    let advice = looks.advice().map_err(|failure| tell("advice", failure)).ok();
    let view = desk.document(1, None, None);
    let mut pictures = Vec::new();
    for (row, name) in drawn(&view.top).into_iter().filter(|_| looks.roots.is_some()) {
        match looks.picture(&row) {
            Ok(picture) => pictures.push(picture),
            Err(failure) => tell(&format!("picture of {name}"), failure),
        }
    }
    let mut texts = BTreeMap::new();
    let jobs = view.jobs.unwrap_or_default().iter().filter_map(|job| JobId::from_name(&job.name));
    let schedules = view.schedules.unwrap_or_default().iter();
    let schedules = schedules.filter_map(|each| ScheduleId::from_name(&each.name));
    let jobs = jobs.take(JOBS).map(|id| (id.to_string(), looks.job(&id)));
    for (name, text) in
        jobs.chain(schedules.take(JOBS).map(|id| (id.to_string(), looks.schedule(&id))))
    {
        match text {
            Ok(text) => drop(texts.insert(name, text.text)),
            Err(failure) => tell(&name, failure),
        }
    }
    page(&ReportDoc { view, command, texts, before, advice, pictures, missing })
}

/// The processes that are drawn: those with most remote memory, and then the largest ones, so that a report after a
/// migration has them, too.
fn drawn(top: &TopDoc) -> Vec<(RowKey, String)> {
    let mut rows: Vec<_> = top.processes.iter().filter(|row| row.local_bytes.is_some()).collect();
    rows.sort_by_key(|row| Reverse((row.remote_bytes, row.resident_bytes)));
    let key = |row: &&TopRowDoc| {
        let pid = row.pid?;
        let name = format!("process {pid} ({})", row.comm.as_deref().unwrap_or_default());
        Some((RowKey::Process(pid, row.start_time_ticks?), name))
    };
    rows.iter().take(PICTURES).filter_map(key).collect()
}

/// One file. Its policy lets only its own script and style work, by an unpredictable number; names in the data cannot
/// end the element that they are in.
fn page(document: &ReportDoc<'_>) -> Result<String, Failure> {
    let nonce = gate::secret()?;
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; base-uri 'none'; form-action 'none'"
    );
    let data = serde_json::to_string(document)?.replace('<', "\\u003c");
    let head = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <style nonce=\"{nonce}\">\n{STYLE}</style>\n\
         {DATA}{data}</script>\n\
         <script type=\"module\" nonce=\"{nonce}\">\n{SCRIPT}</script>"
    );
    Ok(PAGE.replacen(HEAD, &head, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_with_remote_memory_are_drawn_first() {
        let row = |pid, remote, resident| TopRowDoc {
            pid: Some(pid),
            start_time_ticks: Some(1),
            local_bytes: remote,
            remote_bytes: remote,
            resident_bytes: Some(resident),
            ..TopRowDoc::default()
        };
        let mut processes = vec![row(1, None, 99), row(2, Some(0), 7), row(3, Some(5), 6)];
        processes.extend((10..20).map(|pid| row(pid, Some(0), 0)));
        let top = TopDoc { processes, ..TopDoc::default() };
        let keys: Vec<_> = drawn(&top).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys[..2], [RowKey::Process(3, 1), RowKey::Process(2, 1)]);
        assert_eq!(keys.len(), PICTURES, "what could not be read is not drawn");
    }

    #[test]
    fn the_page_has_one_place_for_its_head() {
        assert_eq!(PAGE.matches(HEAD).count(), 1);
        assert!(
            !served().contains(HEAD) && !SCRIPT.contains("</script") && !STYLE.contains("</style")
        );
    }

    #[test]
    fn a_report_is_compared_with_reports_alone() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = folder.path().join("a.html");
            fs::write(&path, text).unwrap();
            before(&path).map_err(|failure| failure.to_string())
        };
        for text in ["", "<html>", DATA, &format!("{DATA}{{}}</script>"), "\0"] {
            let why = read(text).expect_err(text);
            assert!(why.contains("is not a report of numalocctl web --report"), "{why}");
        }
        let why = before(Path::new("/no/such.html")).expect_err("it is missing").to_string();
        assert!(why.starts_with("cannot compare with /no/such.html: No such file"), "{why}");
        let data = r#"{"view": {"host": {"name": "db1"}, "top": {"time": null, "more": 1,
            "workloads": [{"cgroup": "/a", "remote_bytes": 7}], "processes": []}}}"#;
        let earlier = read(&format!("<head>{DATA}{data}</script>")).expect("a report").view;
        let row = &earlier.top.workloads[0];
        assert_eq!((row.cgroup.as_deref(), row.remote_bytes), (Some("/a"), Some(7)));
    }
}
