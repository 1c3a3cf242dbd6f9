
// What is opened ------------------------------------------------------------------------------------------------------------------

const rowOf = (key) => [...view.top.workloads, ...view.top.processes, ...(view.jobs || []), ...(view.schedules || [])].find((row) => keyOf(row) === key);
let recordText = null;
let wantsFocus = false;

async function open(key, focuses) {
  opened = key;
  wantsFocus = Boolean(focuses);
  const row = rowOf(key);
  recordText = report ? report.texts[key] : null;
  drawDetail();
  if (report || !row) return;
  if (row.pid != null) await ask("watch", { pid: row.pid, start: row.start_time_ticks }).catch(() => {});
  if (isRecord(row)) {
    const answer = await tryTo(`${isJob(row) ? "job" : "schedule"}?name=${row.name}`);
    if (opened === key && answer) { recordText = answer.text; drawDetail(); }
  }
}

function close() {
  if (opened == null) return;
  opened = null;
  drawDetail();
  if (!report) ask("watch", {}).catch(() => {});
  if (isTable()) frame.table.focus();
}

function listWithin(cgroup) {
  within = cgroup;
  choose("processes", true);
}

let detailKey = null;
function drawDetail() {
  const box = $("detail"), row = opened == null ? null : rowOf(opened);
  box.hidden = opened == null;
  if (opened == null) { detailKey = null; return; }
  const isNew = detailKey !== opened;
  if (isNew) {
    // Buttons stay what they are while the numbers beside them change: a rebuilt one would lose the focus.
    const actions = [];
    if (row && !isRecord(row) && canChange()) actions.push(button("Migrate…", () => plan(rowOf(opened) || row), { class: "main", "aria-keyshortcuts": "m" }));
    if (row && row.pid != null && (report ? pictures.has(row.pid) : view.host.has_pictures)) actions.push(button("Draw by address", () => picture(row)));
    if (row && row.pid == null && !isRecord(row)) actions.push(button("Its processes", () => listWithin(row.cgroup)));
    if (row && isOpen(row) && canChange()) actions.push(button("Cancel job…", () => cancelJob(row.name), { class: "main" }));
    if (row && row.last_job) actions.push(button("Its last job", () => openJob(row.last_job)));
    actions.push(button("Close", close, { "aria-keyshortcuts": "Escape" }));
    fill(box, el("h2", {}), el("div", { class: "actions" }, ...actions), el("div", { class: "facts" }));
    detailKey = opened;
    box.scrollTop = 0;
  }
  const [title, , facts] = box.children;
  // What somebody is about to copy stays as it is.
  const marked = getSelection();
  if (!isNew && !marked.isCollapsed && box.contains(marked.anchorNode)) return;
  title.textContent = row ? (isRecord(row) ? row.name : row.pid != null ? `${row.comm} (${row.pid})` : row.container || row.cgroup) : "It has ended.";
  fill(facts, ...(row ? (isRecord(row) ? recordFacts(row) : rowFacts(row)) : []));
  if (wantsFocus) { wantsFocus = false; (box.querySelector("button") || box).focus(); }
}

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value != null && value !== "");
  return el("dl", {}, ...shown.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function recordFacts(record) {
  if (recordText) return [el("pre", { class: "wrapped" }, recordText)];
  return [facts([["State", stateOf(record)], ["Target", targetOf(record)], ["Moved", isJob(record) ? progressCell(record) : null], ["Message", record.state_message], ["By", record.creator]])];
}

/** Shows a job of a schedule, which may have been removed since. */
function openJob(name) {
  if (!rowOf(name)) return message(name, "It is not among the daemon's latest jobs.");
  choose("jobs");
  selected = name;
  drawTable();
  open(name, true);
}

function rowFacts(row) {
  const parts = [facts([
    ["Container", row.pid != null ? row.container : null], ["Cgroup", row.pid != null || row.container ? row.cgroup : null], ["Processes", row.pid == null ? String(row.process_count) : null], ["Home", "node " + list(row.home_nodes)],
    ["Memory", size(row.resident_bytes)], ["Page cache", row.cache_bytes ? `${size(row.cache_bytes)}, not mapped` : null], ["Local", `${size(row.local_bytes)}, ${shareCell(row)}`], ["Remote", size(row.remote_bytes)],
    ["Of this near", row.near_bytes ? size(row.near_bytes) : null], ["Demoted, on a lower tier", row.demoted_bytes ? size(row.demoted_bytes) : null],
    ["Demoted by the kernel so far", row.kernel_demoted_pages ? size(row.kernel_demoted_pages * view.top.page_bytes) : null], ["Promoted by the kernel so far", row.kernel_promoted_pages ? size(row.kernel_promoted_pages * view.top.page_bytes) : null],
    ["Remote before", report && report.before ? size(remoteBefore(row)) : null],
    ["CPU", percent(row.cpu_percent)], ["Scanned", row.age_seconds == null ? (row.is_hidden ? "its page map may not be read" : "not yet") : span(row.age_seconds) + " ago"],
    ["Moved", row.moved_bytes ? size(row.moved_bytes) : null],
    ["Memory traffic", row.traffic_bytes_per_second == null ? null : `${rate(row.traffic_bytes_per_second)}, remote ${rate(row.remote_traffic_bytes_per_second)}`],
    ["Moved by NUMA balancing", row.kernel_migrated_pages ? size(row.kernel_migrated_pages * view.top.page_bytes) : null], ["Faults by NUMA balancing", row.kernel_hint_faults ? row.kernel_hint_faults.toLocaleString("en") : null], ["Job", [row.job, row.held_back].filter(Boolean).join(": ")],
  ])];
  if (row.by_node.length) {
    const words = { local: "home", any: "home", near: "near", remote: "remote", demoted: "demoted" };
    parts.push(where(row), table(["Node", "Place", "Memory"], row.by_node.map((node) => [String(node.node), words[placeOf(row, node.node)], size(node.bytes)])));
  }
  const detail = view.detail;
  const isRead = detail && (detail.threads.length || detail.mappings.length);
  if (row.pid != null && !report && !isRead) parts.push(el("p", { class: "quiet" }, "Reading its mappings and threads…"));
  if (isRead && row.pid === detail.pid && row.start_time_ticks === detail.start_time_ticks) {
    const shown = detail.mappings.length, all = shown + detail.left_out_mappings;
    parts.push(el("h3", {}, `Mappings: ${shown < all ? `the ${shown} largest of ` : ""}${all}`), table(["Address", "Name", "Kind", "Resident", "Where"], detail.mappings.map((mapping) => [
      mapping.address, mapping.name || "(anonymous)", mapping.kind + (mapping.map_shared ? ", shared" : ""), size(sum(mapping.by_node.map((node) => node.bytes))), where({ ...row, by_node: mapping.by_node })])));
    parts.push(el("h3", {}, `Threads: ${detail.threads.length}`), table(["Id", "Name", "May run on", "Runs on", "CPU"], detail.threads.map((thread) => [
      String(thread.tid), thread.comm, list(thread.home_nodes), thread.node == null ? "-" : String(thread.node), percent(thread.cpu_percent)])));
  }
  return parts;
}

function table(titles, lines) {
  return el("table", {}, el("thead", {}, el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title)))),
    el("tbody", {}, ...lines.map((line) => el("tr", {}, ...line.map((cell) => el("td", {}, cell))))));
}
