
// Lists ---------------------------------------------------------------------------------------------------------------------------

/** What a row is: a record of the daemon has a state, and its name begins with what it is. */
const isRecord = (row) => row.state != null;
const isJob = (row) => isRecord(row) && row.name.startsWith("jobs/");
const keyOf = (row) => (row.pid != null ? `p${row.pid}.${row.start_time_ticks}` : isRecord(row) ? row.name : "c" + row.cgroup);
const tail = (path) => path.slice(path.lastIndexOf("/") + 1) || "/";
const parent = (path) => (!path.includes("/") || path === "/" ? "" : path.slice(0, path.lastIndexOf("/")) || "/");
const word = (name, prefix) => (name || "").replace(prefix, "").toLowerCase().replaceAll("_", " ");
const isOpen = (job) => isJob(job) && /QUEUED|PLANNING|RUNNING|PAUSED|SUSPENDED/.test(job.state);

function nameCell(row) {
  const of = row.container || row.cgroup || "/";
  const [name, more] = row.pid != null ? [row.comm, `${row.pid} ${row.container || row.cgroup || ""}`] : [tail(of), parent(of)];
  return [name + " ", el("span", { class: "quiet" }, more)];
}

const shareCell = (row) => (row.is_hidden ? "hidden" : row.is_unpinned ? "any node" : percent(row.local_percent));
const rowColumns = [
  { id: "name", title: "Name", cell: nameCell, by: (row) => (row.comm || tail(row.container || row.cgroup || "")).toLowerCase() },
  { id: "processes", down: true, title: "Processes", number: true, cell: (row) => row.process_count, by: (row) => -row.process_count, only: "workloads" },
  { id: "home", title: "Home", cell: (row) => list(row.home_nodes), by: (row) => list(row.home_nodes) },
  { id: "memory", down: true, title: "Memory", number: true, cell: (row) => size(row.resident_bytes), by: (row) => -(row.resident_bytes ?? -1) },
  { id: "cache", down: true, title: "Cache", number: true, only: "workloads", has: (row) => row.cache_bytes, cell: (row) => size(row.cache_bytes), by: (row) => -(row.cache_bytes ?? -1) },
  { id: "remote", down: true, title: "Remote", number: true, cell: (row) => size(row.remote_bytes), by: (row) => -(row.remote_bytes ?? -1) },
  { id: "demoted", down: true, title: "Demoted", number: true, has: (row) => row.demoted_bytes, cell: (row) => size(row.demoted_bytes), by: (row) => -(row.demoted_bytes ?? -1) },
  { id: "near", down: true, title: "Near", number: true, has: (row) => row.near_bytes, cell: (row) => size(row.near_bytes), by: (row) => -(row.near_bytes ?? -1) },
  { id: "before", down: true, title: "Before", number: true, has: () => report && report.before, cell: (row) => size(remoteBefore(row)), by: (row) => -(remoteBefore(row) ?? -1) },
  { id: "share", title: "Local", number: true, cell: shareCell, by: (row) => row.local_percent ?? 101 },
  { id: "where", down: true, title: "Where", cell: (row) => [where(row, mostBytes)], by: (row) => -Math.max(0, ...row.by_node.map((node) => node.bytes)) },
  { id: "scanned", down: true, title: "Scanned", number: true, has: isOld, cell: (row) => (row.age_seconds == null ? "" : span(row.age_seconds) + " ago"), by: (row) => -(row.age_seconds ?? -1) },
  { id: "cpu", down: true, title: "CPU", number: true, cell: (row) => percent(row.cpu_percent), by: (row) => -(row.cpu_percent ?? -1) },
  { id: "moved", down: true, title: "Moved", number: true, has: (row) => row.moved_bytes, cell: (row) => (row.moved_bytes ? size(row.moved_bytes) : ""), by: (row) => -row.moved_bytes },
  { id: "traffic", down: true, title: "Traffic", number: true, only: "workloads", has: (row) => row.traffic_bytes_per_second, cell: (row) => rate(row.traffic_bytes_per_second), by: (row) => -(row.traffic_bytes_per_second ?? -1) },
  { id: "job", title: "Job", has: (row) => row.job, cell: (row) => [row.job, row.held_back].filter(Boolean).join(": "), by: (row) => row.job || "~" },
];

// What was read long ago may have moved since.
function isOld(row) { return row.age_seconds > OLD_SECONDS; }

/** The remote memory of a row in the report that this one is compared with. */
const remoteBefore = (row) => (earlier.get(keyOf(row)) || {}).remote_bytes;
const earlier = new Map(report && report.before ? [...report.before.view.top.workloads, ...report.before.view.top.processes].map((row) => [keyOf(row), row]) : []);

const targetOf = (record) => view.targets[record.name] || "-";
function progressOf(job) {
  const account = (job.outcome || {}).account, progress = job.progress;
  // The API's JSON has whole numbers as text.
  if (account) return [Number(account.moved_bytes || 0), Number(account.found_bytes || 0)];
  return progress ? [Number(progress.moved_bytes || 0), Number(progress.planned_bytes || 0)] : null;
}
const stateOf = (record) => word(record.state, /^(JOB|SCHEDULE)_STATE_/);
/** A state with a dot in the colour of its kind, and the progress of a job that is under way. */
function stateCell(record) {
  const state = stateOf(record), progress = isOpen(record) && progressOf(record);
  const kind = /failed|interrupted/.test(state) ? "bad" : /partial|cancelled|paused|suspended|gone/.test(state) ? "warning" : /succeeded|running|active|completed/.test(state) ? "good" : "idle";
  const part = progress && progress[1] ? Math.floor((100 * progress[0]) / progress[1]) : null;
  const bar = part == null ? null : meter([["local", part]], 100, `${part} % of what is to move`);
  return [el("span", { class: "state" }, el("i", { class: "dot " + kind }), part == null ? state : `${state}, ${part}\u00a0%`), bar, el("span", { class: "quiet narrow" }, record.name)].filter(Boolean);
}
function progressCell(job) {
  const progress = progressOf(job);
  return progress && (progress[1] || !isOpen(job)) ? `${size(progress[0])} of ${size(progress[1])}` : "-";
}
/** The local part of the movable memory before a job and after it, or why it waits. */
function resultCell(job) {
  const share = (side) => ((job.outcome || {})[side] || {}).local_percent;
  const [before, after] = [share("movable_before"), share("movable_after")];
  if (isOpen(job)) return (job.progress || {}).held_back || job.state_message || "";
  if (before == null || after == null || /FAILED|INTERRUPTED|SKIPPED/.test(job.state)) return job.state_message || "";
  return before === after ? `${percent(after)} local` : `${percent(before)} → ${percent(after)} local`;
}
/** Both in the room of a phone. */
function shortProgress(job) {
  const result = resultCell(job), hasShare = result.endsWith(" local");
  return isOpen(job) ? result || progressCell(job) : hasShare ? `${size(progressOf(job)[0])}, ${result.replace(/.*→ /, "")}` : result || progressCell(job);
}
/** The target of a record; on a phone with what wide lists have in columns of their own. */
const targetCell = (record, more) => [targetOf(record), el("span", { class: "quiet narrow" }, more.filter((part) => part && part !== "-").join(", "))];
const jobColumns = [
  { id: "id", down: true, title: "Job", cell: (job) => job.name, by: (job) => -Number(job.name.slice(5)) || job.name },
  { id: "state", title: "State", cell: stateCell, by: (job) => job.state },
  { id: "name", title: "Target", cell: (job) => targetCell(job, [shortProgress(job)]), by: targetOf },
  { id: "progress", down: true, title: "Moved", number: true, cell: progressCell, by: (job) => -((progressOf(job) || [0])[0]) },
  { id: "result", title: "Result", cell: resultCell, by: resultCell },
  { id: "by", title: "By", cell: (job) => job.creator || "-", by: (job) => job.creator },
  { id: "age", title: "Age", number: true, cell: (job) => (job.create_time ? [timed(span(since(job.create_time)), job.create_time)] : "-"), by: (job) => -Date.parse(job.create_time) || 0 },
  { id: "act", title: "Change", cell: (job) => (!canChange() || !isOpen(job) ? "" : [button("Cancel", (event) => { event.stopPropagation(); cancelJob(job.name); }, { tabindex: -1 })]) },
];

const every = (schedule) => (parseFloat(schedule.interval) ? "every " + span(parseFloat(schedule.interval)) : "once");
const dueCell = (schedule) => {
  const due = schedule.next_run_time && -since(schedule.next_run_time);
  return !schedule.next_run_time ? "-" : [timed(due >= 1 ? "in " + span(due) : "now", schedule.next_run_time)];
};
const scheduleColumns = [
  { id: "schedule", title: "Schedule", cell: (each) => each.name, by: (each) => Number(each.name.slice(10)) || each.name },
  { id: "state", title: "State", cell: stateCell, by: (each) => each.state },
  { id: "name", title: "Target", cell: (each) => targetCell(each, [every(each), each.last_job]), by: targetOf },
  { id: "every", title: "Interval", cell: every, by: (each) => parseFloat(each.interval) || 0 },
  { id: "last", title: "Last job", cell: (each) => each.last_job || "-", by: (each) => each.last_job || "" },
  { id: "ran", title: "Last run", number: true, cell: (each) => (each.last_run_time ? [timed(ago(each.last_run_time), each.last_run_time)] : "-"), by: (each) => -Date.parse(each.last_run_time) || 0 },
  { id: "due", title: "Next run", number: true, cell: dueCell, by: (each) => Date.parse(each.next_run_time) || Infinity },
];

function tabs() {
  const all = [["workloads", "Workloads"], ["processes", "Processes"]];
  if (view.host.has_jobs) all.push(["jobs", "Jobs"], ["schedules", "Schedules"]);
  all.push(["advice", "Advice"]);
  if (report && report.pictures.length) all.push(["pictures", "Pictures"]);
  return all;
}
const isTable = () => tab !== "advice" && tab !== "pictures";
const hasRecords = () => tab === "jobs" || tab === "schedules";
const listOf = () => (hasRecords() ? view[tab] || [] : tab === "workloads" ? view.top.workloads : view.top.processes);

/** The columns of a list. A column that says nothing of any row leaves its room to the names. */
function columns() {
  const isShown = (column) => (!column.only || column.only === tab) && (!column.has || sortOf()[0] === column.id || listOf().some(column.has));
  return tab === "jobs" ? jobColumns : tab === "schedules" ? scheduleColumns : rowColumns.filter(isShown);
}
const sortOf = () => sorts[tab] || (sorts[tab] = [tab === "jobs" ? "id" : tab === "schedules" ? "schedule" : "remote", false]);

function rowsNow() {
  const wanted = filter.toLowerCase();
  const passes = (row) => (hasRecords() ? [row.name, targetOf(row), stateOf(row)] : [row.comm, row.container, row.cgroup, row.pid]).some((text) => String(text ?? "").toLowerCase().includes(wanted));
  const rows = listOf().filter((row) => (tab !== "processes" || within == null || row.cgroup === within) && (!wanted || passes(row)));
  const [id, reverse] = sortOf();
  const by = columns().find((column) => column.id === id).by;
  const keyed = rows.map((row) => [by(row), row.resident_bytes ?? 0, row]);
  keyed.sort((a, b) => ((a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) * (reverse ? -1 : 1)) || b[1] - a[1]);
  return keyed.map((entry) => entry[2]);
}

// The table holds only the rows that are in sight, and spaces above and below them: a thousand rows cost what twenty do.
let rows = [];
let frame = null;
let mostBytes = 0;            // of all rows of the list, so that filters change no bar
const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 34;

function drawTable() {
  rows = rowsNow();
  mostBytes = hasRecords() ? 0 : Math.max(1, ...listOf().map((row) => sum(row.by_node.map((node) => node.bytes))));
  const listed = columns(), kind = [tab, within, ...listed.map((column) => column.id)].join(" ");
  if (!frame || frame.kind !== kind) {
    const head = el("tr", {}, ...listed.map((column) => el("th", { class: `c-${column.id}${column.number ? " n" : ""}`, scope: "col" },
      column.by ? button(column.title, () => sortBy(column.id)) : el("span", {}, column.title))));
    const body = el("tbody");
    const table = el("table", { role: "grid", tabindex: 0, id: "grid", "aria-label": tab, onkeydown: gridKey }, el("thead", {}, head), body);
    const hadFocus = frame && document.activeElement === frame.table, isOther = !frame || frame.tab !== tab + within;
    frame = { kind, tab: tab + within, head, body, table };
    fill($("list"), table, el("p", { class: "empty" }));
    if (isOther) $("list").scrollTop = 0;
    if (hadFocus) table.focus();
  }
  const [id, reverse] = sortOf();
  listed.forEach((column, index) => {
    if (!column.by) return;
    const isSorted = column.id === id, isDown = Boolean(column.down) !== reverse, head = frame.head.children[index];
    head.setAttribute("aria-sort", !isSorted ? "none" : isDown ? "descending" : "ascending");
    head.firstChild.textContent = column.title + (!isSorted ? "" : isDown ? " ▼" : " ▲");
  });
  frame.table.setAttribute("aria-rowcount", rows.length + 1);
  const empty = frame.table.nextSibling;
  empty.hidden = rows.length > 0;
  empty.textContent = nothing();
  drawRows();
}

function nothing() {
  if (filter) return `Nothing matches "${filter}": Esc clears the filter.`;
  if (hasRecords()) return view[tab] ? `The daemon has no ${tab}.` : `The daemon's ${tab} are not known yet.`;
  return view.top.unseen_count ? "Not read yet." : "Nothing to show.";
}

function drawRows() {
  const height = rowHeight(), box = $("list"), listed = columns();
  const first = Math.max(0, Math.floor(box.scrollTop / height) - 5);
  const last = Math.min(rows.length, Math.ceil((box.scrollTop + box.clientHeight) / height) + 5);
  const space = (count) => { const tr = el("tr", { "aria-hidden": "true" }); tr.style.height = count * height + "px"; return tr; };
  const shown = rows.slice(first, last).map((row, index) => {
    const key = keyOf(row), place = first + index;
    const cells = listed.map((column) => {
      const cell = column.cell(row);
      const td = el("td", { role: "gridcell", class: `c-${column.id}${column.number ? " n" : ""}` }, ...(Array.isArray(cell) ? cell : [String(cell ?? "")]));
      if (column.id === "name") td.title = td.textContent;
      return td;
    });
    return el("tr", { class: isOld(row) ? "old" : null, id: "row-" + place, "aria-rowindex": place + 2, "aria-selected": String(key === selected), onclick: () => { select(place); open(key); } }, ...cells);
  });
  fill(frame.body, first ? space(first) : null, ...shown, last < rows.length ? space(rows.length - last) : null);
  const place = rows.findIndex((row) => keyOf(row) === selected);
  if (place >= first && place < last) frame.table.setAttribute("aria-activedescendant", "row-" + place);
  else frame.table.removeAttribute("aria-activedescendant");
}

function sortBy(id) {
  const sort = sortOf();
  sorts[tab] = [id, sort[0] === id ? !sort[1] : false];
  drawTable();
}

function select(place) {
  if (!rows.length) return;
  place = Math.min(Math.max(place, 0), rows.length - 1);
  selected = keyOf(rows[place]);
  const height = rowHeight(), box = $("list"), head = frame.head.offsetHeight, top = place * height;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + height + head > box.scrollTop + box.clientHeight) box.scrollTop = top + height + head - box.clientHeight;
  drawRows();
}

function gridKey(event) {
  if (event.target !== frame.table || event.ctrlKey || event.altKey || event.metaKey) return;
  const place = rows.findIndex((row) => keyOf(row) === selected);
  const page = Math.max(1, Math.floor($("list").clientHeight / rowHeight()) - 2);
  const steps = { ArrowDown: place + 1, ArrowUp: place < 0 ? 0 : place - 1, PageDown: place + page, PageUp: place - page, Home: 0, End: rows.length - 1 };
  if (event.key in steps) select(steps[event.key]);
  else if (event.key === "Enter" && place >= 0) open(selected, true);
  else if (!rowKey(event.key, rows[place])) return;
  event.preventDefault();
}

// The keys of a row: in the list, and where its details have the focus.
function rowKey(key, row) {
  if (!row) return false;
  if (key === "m" && !isRecord(row) && canChange()) plan(row);
  else if (key === "x" && canChange() && isOpen(row)) cancelJob(row.name);
  else if (key === "p" && !isRecord(row) && row.pid == null) listWithin(row.cgroup);
  else return false;
  return true;
}
