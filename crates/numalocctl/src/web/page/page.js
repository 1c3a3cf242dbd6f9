// The page of numalocctl web. It draws what the program sends; all text of others (names, cgroups, messages) is set as text, never as
// markup. In a report the data is in the page, and nothing is asked for.
"use strict";
(() => {
const $ = (id) => document.getElementById(id);
const report = $("report") ? JSON.parse($("report").textContent) : null;

// What is shown.
let view = null;
let tab = "workloads";
let within = null;            // a cgroup, whose processes are listed
const sorts = {};             // by tab: [column, whether in the reverse order]
let filter = "";
let selected = null;          // key of the row that is selected
let opened = null;            // key of the row that is opened
let advice = null;
let pictures = new Map();     // by pid
const OLD_SECONDS = 30;         // rows that were read before are pale
let shownPlan = 0;            // the migration whose dialog is open
let begunPlan = 0;            // the last one that was confirmed
let token = "";

// Elements ------------------------------------------------------------------------------------------------------------------------

/** An element; text of others goes into children only, which become text. */
function el(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}
const fill = (element, ...children) => element.replaceChildren(...children.filter((child) => child != null));
const button = (text, run, attributes) => el("button", { type: "button", onclick: run, ...attributes }, text);

// Numbers -------------------------------------------------------------------------------------------------------------------------

function size(bytes) {
  if (bytes == null) return "-";
  let value = Number(bytes), unit = 0;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  while (value >= 1024 && unit < 5) { value /= 1024; unit++; }
  return (unit ? value.toFixed(1) : value) + "\u00a0" + units[unit];
}
const rate = (bytes) => (bytes == null ? "-" : size(bytes) + "/s");
const percent = (value) => (value == null ? "-" : value.toFixed(1) + "\u00a0%");
const list = (nodes) => (nodes && nodes.length ? nodes.join(",") : "-");
const sum = (values) => values.reduce((all, value) => all + value, 0);
const clock = (text) => (text ? new Date(text).toLocaleTimeString([], { hour12: false }) : "");

/** A bar of shares, each [class, bytes, words]. */
function meter(parts, all, words) {
  const bar = el("div", { class: "meter", role: "img", "aria-label": words, title: words });
  for (const [kind, bytes] of parts) {
    if (bytes <= 0) continue;
    const part = el("i", { class: kind });
    part.style.width = (100 * bytes) / Math.max(all, 1) + "%";
    bar.append(part);
  }
  return bar;
}

/** What memory on a node is to a row. */
const placeOf = (row, node) => (row.home_nodes.includes(node) ? (row.is_unpinned ? "any" : "local") : (row.near_nodes || []).includes(node) ? "near" : view.top.nodes.some((each) => each.node === node && each.is_lower_tier) ? "demoted" : "remote");

/** Where a row's memory is: home first, then near and other remote nodes, then lower tiers. */
function where(row) {
  const order = ["local", "any", "near", "remote", "demoted"];
  const nodes = row.by_node.filter((node) => node.bytes > 0).map((node) => ({ ...node, place: placeOf(row, node.node) }));
  nodes.sort((a, b) => order.indexOf(a.place) - order.indexOf(b.place) || a.node - b.node);
  const words = nodes.map((node) => `node ${node.node}${node.place === "local" || node.place === "any" ? "" : ` (${node.place})`}: ${size(node.bytes)}`).join(", ");
  return meter(nodes.map((node) => [node.place, node.bytes]), sum(nodes.map((node) => node.bytes)), words || "not read yet");
}

// Requests ------------------------------------------------------------------------------------------------------------------------

async function ask(path, body, by = token) {
  const headers = { Authorization: "Bearer " + by };
  const request = { headers, cache: "no-store" };
  if (body) {
    headers["Content-Type"] = "application/json";
    Object.assign(request, { method: "POST", body: JSON.stringify(body) });
  }
  const answer = await fetch("api/" + path, request);
  const document = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(document.error), { status: answer.status });
  return document;
}

/** Asks, and shows why it failed. */
async function tryTo(path, body) {
  try { return await ask(path, body); } catch (error) { message("It did not work", error.message); return undefined; }
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** Asks for view after view. A program that does not answer is asked again. */
async function follow() {
  for (;;) {
    try {
      const next = await ask("view?seen=" + (view ? view.serial : 0));
      lost = null;
      take(next);
    } catch (error) {
      lost = error.status === 401 || error.status === 403
        ? error.message
        : "Reconnecting: " + gone;
      banner();
      await pause(1000);
    }
  }
}
let lost = null;
const gone = "numalocctl web does not answer. It may have ended; start it again and open the address that it prints.";

/** The token in the address, behind the # that no browser sends, opens the page once. What it is exchanged for stays in this tab, also over
    reloads, and is in no address. */
async function enter() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  token = sessionStorage.getItem("token") || "";
  while (given) {
    try {
      // The address may have been opened again in the tab that has the page.
      const isKnown = token && await ask("view?seen=0").then(() => true, (error) => { if (!error.status) throw error; });
      if (!isKnown) token = (await ask("session", {}, given)).token;
      sessionStorage.setItem("token", token);
      break;
    } catch (error) {
      lost = error.status ? error.message : gone;
      banner();
      if (error.status) return;
      await pause(1000);
    }
  }
  if (given) history.replaceState(null, "", location.pathname);
  follow();
}

const canChange = () => !report && !view.host.is_read_only;

function take(next) {
  view = next;
  $("main").hidden = false;
  draw();
}

// Lists ---------------------------------------------------------------------------------------------------------------------------

const keyOf = (row) => (row.pid != null ? `p${row.pid}.${row.start_time_ticks}` : row.state != null ? row.name : "c" + row.cgroup);
const tail = (path) => path.slice(path.lastIndexOf("/") + 1) || "/";
const parent = (path) => (path === "/" ? "" : path.slice(0, path.lastIndexOf("/")) || "/");
const word = (name, prefix) => (name || "").replace(prefix, "").toLowerCase().replaceAll("_", " ");
const isOpen = (job) => /QUEUED|PLANNING|RUNNING|PAUSED|SUSPENDED/.test(job.state);

function nameCell(row) {
  const [name, more] = row.pid != null ? [row.comm, `${row.pid} ${row.cgroup || ""}`] : [tail(row.cgroup), parent(row.cgroup)];
  return [name + " ", el("span", { class: "quiet" }, more)];
}

const shareCell = (row) => (row.is_hidden ? "hidden" : row.is_unpinned ? "any node" : percent(row.local_percent));
const rowColumns = [
  { id: "name", title: "Name", cell: nameCell, by: (row) => (row.comm || tail(row.cgroup || "")).toLowerCase() },
  { id: "processes", down: true, title: "Processes", number: true, cell: (row) => row.process_count, by: (row) => -row.process_count, only: "workloads" },
  { id: "home", title: "Home", cell: (row) => list(row.home_nodes), by: (row) => list(row.home_nodes) },
  { id: "memory", down: true, title: "Memory", number: true, cell: (row) => size(row.resident_bytes), by: (row) => -(row.resident_bytes ?? -1) },
  { id: "cache", down: true, title: "Cache", number: true, only: "workloads", has: (row) => row.cache_bytes, cell: (row) => size(row.cache_bytes), by: (row) => -(row.cache_bytes ?? -1) },
  { id: "remote", down: true, title: "Remote", number: true, cell: (row) => size(row.remote_bytes), by: (row) => -(row.remote_bytes ?? -1) },
  { id: "demoted", down: true, title: "Demoted", number: true, has: (row) => row.demoted_bytes, cell: (row) => size(row.demoted_bytes), by: (row) => -(row.demoted_bytes ?? -1) },
  { id: "near", down: true, title: "Near", number: true, has: (row) => row.near_bytes, cell: (row) => size(row.near_bytes), by: (row) => -(row.near_bytes ?? -1) },
  { id: "share", title: "Local", number: true, cell: shareCell, by: (row) => row.local_percent ?? 101 },
  { id: "where", down: true, title: "Where", cell: (row) => [where(row)], by: (row) => -Math.max(0, ...row.by_node.map((node) => node.bytes)) },
  { id: "cpu", down: true, title: "CPU", number: true, cell: (row) => percent(row.cpu_percent), by: (row) => -(row.cpu_percent ?? -1) },
  { id: "moved", down: true, title: "Moved", number: true, has: (row) => row.moved_bytes, cell: (row) => (row.moved_bytes ? size(row.moved_bytes) : ""), by: (row) => -row.moved_bytes },
  { id: "traffic", down: true, title: "Traffic", number: true, only: "workloads", has: (row) => row.traffic_bytes_per_second, cell: (row) => rate(row.traffic_bytes_per_second), by: (row) => -(row.traffic_bytes_per_second ?? -1) },
  { id: "job", title: "Job", has: (row) => row.job, cell: (row) => [row.job, row.held_back].filter(Boolean).join(": "), by: (row) => row.job || "~" },
];

const targetOf = (job) => view.job_targets[job.name] || "-";
function progressOf(job) {
  const account = (job.outcome || {}).account, progress = job.progress;
  // The API's JSON has whole numbers as text.
  if (account) return [Number(account.moved_bytes || 0), Number(account.found_bytes || 0)];
  return progress ? [Number(progress.moved_bytes || 0), Number(progress.planned_bytes || 0)] : null;
}
function stateCell(job) {
  const state = word(job.state, "JOB_STATE_"), progress = isOpen(job) && progressOf(job);
  return progress && progress[1] ? `${state}, ${Math.floor((100 * progress[0]) / progress[1])}\u00a0%` : state;
}
function progressCell(job) {
  const progress = progressOf(job);
  return progress ? `${size(progress[0])} of ${size(progress[1])}` : "-";
}
const jobColumns = [
  { id: "id", down: true, title: "Job", cell: (job) => job.name, by: (job) => -Number(job.name.slice(5)) || job.name },
  { id: "state", title: "State", cell: stateCell, by: (job) => job.state },
  { id: "name", title: "Target", cell: targetOf, by: targetOf },
  { id: "progress", down: true, title: "Moved", number: true, cell: progressCell, by: (job) => -((progressOf(job) || [0])[0]) },
  { id: "created", down: true, title: "Created", cell: (job) => (job.create_time ? new Date(job.create_time).toLocaleString() : "-"), by: (job) => -Date.parse(job.create_time) || 0 },
  { id: "act", title: "", cell: (job) => (!canChange() || !isOpen(job) ? "" : [button("Cancel", (event) => { event.stopPropagation(); cancelJob(job.name); }, { tabindex: -1 })]) },
];

function tabs() {
  const all = [["workloads", "Workloads"], ["processes", "Processes"]];
  if (view.host.has_jobs) all.push(["jobs", "Jobs"]);
  all.push(["advice", "Advice"]);
  if (report && report.pictures.length) all.push(["pictures", "Pictures"]);
  return all;
}
const isTable = () => tab !== "advice" && tab !== "pictures";
const listOf = () => (tab === "jobs" ? view.jobs || [] : tab === "workloads" ? view.top.workloads : view.top.processes);

/** The columns of a list. A column that says nothing of any row leaves its room to the names. */
function columns() {
  const isShown = (column) => (!column.only || column.only === tab) && (!column.has || sortOf()[0] === column.id || listOf().some(column.has));
  return tab === "jobs" ? jobColumns : rowColumns.filter(isShown);
}
const sortOf = () => sorts[tab] || (sorts[tab] = [tab === "jobs" ? "id" : "remote", false]);

function rowsNow() {
  const wanted = filter.toLowerCase();
  const passes = (row) => (tab === "jobs" ? [row.name, targetOf(row), row.state] : [row.comm, row.cgroup, row.pid]).some((text) => String(text ?? "").toLowerCase().includes(wanted));
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
const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 34;

function drawTable() {
  rows = rowsNow();
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
  if (tab === "jobs") return view.jobs ? "The daemon has no jobs." : "The daemon's jobs are not known yet.";
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
    // What was read long ago may have moved since.
    const isOld = row.age_seconds > OLD_SECONDS;
    return el("tr", { class: isOld ? "old" : null, title: isOld ? `read ${Math.round(row.age_seconds)} s ago` : null, id: "row-" + place, "aria-rowindex": place + 2, "aria-selected": String(key === selected), onclick: () => { select(place); open(key); } }, ...cells);
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
  const isJob = row.state != null;
  if (key === "m" && !isJob && canChange()) plan(row);
  else if (key === "x" && isJob && canChange() && isOpen(row)) cancelJob(row.name);
  else if (key === "p" && !isJob && row.pid == null) listWithin(row.cgroup);
  else return false;
  return true;
}

// What is opened ------------------------------------------------------------------------------------------------------------------

const rowOf = (key) => [...view.top.workloads, ...view.top.processes, ...(view.jobs || [])].find((row) => keyOf(row) === key);
let jobText = null;
let wantsFocus = false;

async function open(key, focuses) {
  opened = key;
  wantsFocus = Boolean(focuses);
  jobText = null;
  const row = rowOf(key);
  drawDetail();
  if (report || !row) return;
  if (row.pid != null) await ask("watch", { pid: row.pid, start: row.start_time_ticks }).catch(() => {});
  if (row.state != null) {
    const answer = await tryTo("job?name=" + row.name);
    if (opened === key && answer) { jobText = answer.text; drawDetail(); }
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
    if (row && row.state == null && canChange()) actions.push(button("Migrate…", () => plan(rowOf(opened) || row), { class: "main", "aria-keyshortcuts": "m" }));
    if (row && row.pid != null && (report ? pictures.has(row.pid) : view.host.has_pictures)) actions.push(button("Draw by address", () => picture(row)));
    if (row && row.pid == null && row.state == null) actions.push(button("Its processes", () => listWithin(row.cgroup)));
    if (row && row.state != null && isOpen(row) && canChange()) actions.push(button("Cancel job…", () => cancelJob(row.name), { class: "main" }));
    actions.push(button("Close", close, { "aria-keyshortcuts": "Escape" }));
    fill(box, el("h2", {}), el("div", { class: "actions" }, ...actions), el("div", { class: "facts" }));
    detailKey = opened;
    box.scrollTop = 0;
  }
  const [title, , facts] = box.children;
  // What somebody is about to copy stays as it is.
  const marked = getSelection();
  if (!isNew && !marked.isCollapsed && box.contains(marked.anchorNode)) return;
  title.textContent = row ? (row.state != null ? row.name : row.pid != null ? `${row.comm} (${row.pid})` : row.cgroup) : "It has ended.";
  fill(facts, ...(row ? (row.state != null ? jobFacts(row) : rowFacts(row)) : []));
  if (wantsFocus) { wantsFocus = false; (box.querySelector("button") || box).focus(); }
}

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value != null && value !== "");
  return el("dl", {}, ...shown.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function jobFacts(job) {
  if (jobText) return [el("pre", {}, jobText)];
  return [facts([["State", word(job.state, "JOB_STATE_")], ["Target", targetOf(job)], ["Moved", progressCell(job)], ["Message", job.state_message], ["By", job.creator]])];
}

function rowFacts(row) {
  const parts = [facts([
    ["Cgroup", row.pid != null ? row.cgroup : null], ["Processes", row.pid == null ? String(row.process_count) : null], ["Home", "node " + list(row.home_nodes)],
    ["Memory", size(row.resident_bytes)], ["Page cache", row.cache_bytes ? `${size(row.cache_bytes)}, not mapped` : null], ["Local", `${size(row.local_bytes)}, ${shareCell(row)}`], ["Remote", size(row.remote_bytes)],
    ["Of this near", row.near_bytes ? size(row.near_bytes) : null], ["Demoted, on a lower tier", row.demoted_bytes ? size(row.demoted_bytes) : null],
    ["Demoted by the kernel so far", row.kernel_demoted_pages ? size(row.kernel_demoted_pages * view.top.page_bytes) : null], ["Promoted by the kernel so far", row.kernel_promoted_pages ? size(row.kernel_promoted_pages * view.top.page_bytes) : null],
    ["CPU", percent(row.cpu_percent)], ["Seen", row.age_seconds == null ? (row.is_hidden ? "its page map may not be read" : "not yet") : row.age_seconds.toFixed(1) + " s ago"],
    ["Moved", row.moved_bytes ? size(row.moved_bytes) : null],
    ["Memory traffic", row.traffic_bytes_per_second == null ? null : `${rate(row.traffic_bytes_per_second)}, remote ${rate(row.remote_traffic_bytes_per_second)}`],
    ["Moved by NUMA balancing", row.kernel_migrated_pages ? size(row.kernel_migrated_pages * view.top.page_bytes) : null], ["Job", [row.job, row.held_back].filter(Boolean).join(": ")],
  ])];
  if (row.by_node.length) {
    const words = { local: "home", any: "home", near: "near", remote: "remote", demoted: "demoted" };
    parts.push(where(row), table(["Node", "", "Memory"], row.by_node.map((node) => [String(node.node), words[placeOf(row, node.node)], size(node.bytes)])));
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

// Pictures ------------------------------------------------------------------------------------------------------------------------

async function picture(row) {
  const title = `${row.comm} (${row.pid})`, close = button("Close", dismiss, { autofocus: true });
  if (!report) {
    dialog(title, [el("p", { class: "quiet", role: "status" }, "Reading the page map…")], [close]);
    const drawn = await tryTo(`map?pid=${row.pid}&start=${row.start_time_ticks}`);
    if (!drawn || !$("dialog").open) return;
    pictures.set(row.pid, drawn);
  }
  const box = el("div", { class: "picture", tabindex: 0 });
  drawPicture(box, pictures.get(row.pid));
  dialog(title, [box], [close]);
  $("dialog").classList.add("wide");
  close.focus();
}

/** As an image, which can neither run a script nor load anything. */
function drawPicture(box, drawn) {
  const source = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(drawn.svg);
  const words = `Where the memory of ${drawn.comm} (${drawn.pid}) is, by address`;
  fill(box, el("img", { src: source, alt: words }), el("p", { class: "save" }, el("a", { href: source, download: `numaloc-${drawn.pid}.svg` }, "Save the picture")));
}

// Advice --------------------------------------------------------------------------------------------------------------------------

async function drawAdvice(again) {
  const box = $("list");
  frame = null;
  if (!report && (again || !advice)) {
    fill(box, el("p", { class: "empty", role: "status" }, "Looking at the host for two seconds…"));
    try { advice = await ask("advice"); } catch (error) { advice = { findings: [], end: error.message }; }
    if (tab !== "advice") return;
  }
  const found = advice || { findings: [], end: "The report has no advice." };
  const finding = (each, number) => el("article", { class: "finding" },
    el("h2", {}, `${number + 1}. ${each.what}`), el("p", { class: "quiet" }, each.brings),
    each.commands.length ? el("pre", {}, each.commands.join("\n")) : null,
    report || !each.commands.length ? null : el("div", { class: "actions" }, button("Copy the commands", (event) => copy(event.target, each.commands.join("\n")))));
  fill(box, ...found.findings.map(finding), el("p", { class: "end" }, found.end.trim()),
    report ? null : el("div", { class: "actions finding" }, button("Look again", () => drawAdvice(true))));
}

async function copy(from, text) {
  try { await navigator.clipboard.writeText(text); from.textContent = "Copied"; } catch { from.textContent = "The browser does not allow it"; }
}

// Changes, each confirmed ---------------------------------------------------------------------------------------------------------

function dialog(title, content, buttons) {
  const box = $("dialog");
  fill(box, el("h2", { id: "dialog-title" }, title), ...content, el("div", { class: "actions" }, ...buttons));
  box.classList.remove("wide");
  if (!box.open) box.showModal();
}
const dismiss = () => $("dialog").close();
const message = (title, text) => dialog(title, [el("pre", { class: "wrapped" }, text)], [button("Close", dismiss, { autofocus: true })]);

async function plan(row) {
  if (view.migration && view.migration.stage === "running") return showMigration();
  const body = row.pid != null ? { pid: row.pid, start: row.start_time_ticks } : { cgroup: row.cgroup };
  dialog("Planning…", [el("p", {}, row.comm || row.cgroup)], [button("Close", dismiss)]);
  const begun = await tryTo("plan", body);
  if (begun === undefined) return;
  if (!$("dialog").open) return forget();
  // Views of an earlier plan may still come.
  shownPlan = begun.plan;
  drawMigration();
}

/** Gives up a plan that nobody looks at. */
const forget = () => tryTo("migration/cancel", { confirmed: true });

// The dialog of the migration follows its stages. It is built again only when the stage changes, so that the focus stays.
let dialogStage = "";
function drawMigration() {
  const migration = view.migration;
  if (!migration || migration.plan !== shownPlan || !$("dialog").open) return;
  const stage = migration.plan + migration.stage;
  if (stage !== dialogStage) {
    dialogStage = stage;
    const title = { planning: "Planning", asked: "Migrate", running: "Migrating", ended: "Result" }[migration.stage] + ": " + migration.target;
    const begin = () => {
      begunPlan = migration.plan;
      return tryTo("migrate", { plan: migration.plan, profile: $("dialog").querySelector("input:checked").value, confirmed: true });
    };
    const profile = (each) => el("label", {}, el("input", { type: "radio", name: "profile", value: each.name, checked: each.name === "balanced" }), ` ${each.name}: about ${each.takes} `);
    const end = () => { forget(); if (view.migration && view.migration.stage !== "running") dismiss(); };
    if (migration.stage === "planning") dialog(title, [el("p", { role: "status" }, "Looking where its memory is…")], [button("Cancel", end)]);
    if (migration.stage === "asked") dialog(title, [el("pre", { tabindex: 0 }, migration.text), el("fieldset", {}, el("legend", {}, "Profile"), ...migration.profiles.map(profile))], [button("Move it", begin, { class: "main", autofocus: true }), button("Do not move it", end)]);
    if (migration.stage === "running") dialog(title, [el("p", { role: "status" }), el("div")], [button("End it after the current batches", end), button("Leave it running", dismiss, { autofocus: true })]);
    if (migration.stage === "ended") dialog(title, [el("pre", { class: "wrapped", tabindex: 0 }, migration.text)], [button("Close", dismiss, { class: "main", autofocus: true })]);
    const first = $("dialog").querySelector("[autofocus]") || $("dialog").querySelector("button");
    if (first) first.focus();
  }
  if (migration.stage === "running") {
    const [, words, bar] = $("dialog").children;
    const how = migration.is_cancelled ? "ending" : migration.job || "beginning";
    words.textContent = `${how}: ${size(migration.settled_bytes)} of ${size(migration.planned_bytes)}${migration.held_back ? "; throttled: " + migration.held_back : ""}`;
    fill(bar, meter([["local", migration.settled_bytes]], migration.planned_bytes, "progress"));
  }
}

function showMigration() {
  shownPlan = view.migration.plan;
  dialogStage = "";
  $("dialog").showModal();
  drawMigration();
}

function cancelJob(name) {
  const yes = async () => { if ((await tryTo("job/cancel", { job: name, confirmed: true })) !== undefined) dismiss(); };
  dialog(`Cancel ${name}?`, [el("p", {}, "It ends after its current batches. What has moved stays where it is.")], [button("Cancel the job", yes, { class: "main" }), button("Let it continue", dismiss, { autofocus: true })]);
}

function help() {
  const keys = [["1 2 3 4", "workloads, processes, jobs, advice"], ["/", "filter"], ["↑ ↓ PageUp PageDown Home End", "select a row"], ["Enter", "open the row"],
    ["p", "the processes of a workload"], ["m", "plan a migration, which asks before it moves anything"], ["x", "cancel a job, after asking"], ["Esc", "close, clear the filter, back"], ["?", "this help"]].filter(([key]) => canChange() || !"mx".includes(key));
  dialog("Keys", [table(["Key", "What it does"], keys.map(([key, what]) => [el("kbd", {}, key), what])),
    el("p", { class: "quiet" }, "Solid: memory on a home node, which is a node of the CPUs that the process may run on. Hatched: remote memory, lighter where the node is near to home. Dotted: memory on a lower tier.")], [button("Close", dismiss, { autofocus: true })]);
}

// The page ------------------------------------------------------------------------------------------------------------------------

function banner() {
  const trouble = lost || (view && view.trouble && "Reconnecting: " + view.trouble);
  const missing = report ? report.missing : [], more = missing.length > 1 ? ` (and ${missing.length - 1} more)` : "";
  const text = trouble || (view && view.note) || (missing.length ? `Not in this report: ${missing[0]}${more}` : "");
  $("trouble").hidden = !text;
  $("trouble").className = trouble ? "trouble" : "note";
  if ($("trouble").textContent !== text) $("trouble").textContent = text;
}

function drawNodes() {
  const title = (node) => `Node ${node.node}` + (!node.kind || node.kind === "dram" ? "" : ` (${node.kind.replace("_", " ")})`);
  fill($("nodes"), ...view.top.nodes.map((node) => {
    const used = Math.max(0, node.total_bytes - node.free_bytes - node.reclaimable_bytes);
    const words = `used ${size(used)}, page cache that can be dropped ${size(node.reclaimable_bytes)}, free ${size(node.free_bytes)}`;
    const cpus = node.cpu_percent == null ? "" : `CPUs ${percent(node.cpu_percent)} busy`;
    const flows = [`cache ${size(node.reclaimable_bytes)}`, cpus, node.traffic_bytes_per_second == null ? "" : `${node.traffic_is_lower_bound ? "more than " : ""}${rate(node.traffic_bytes_per_second)}`, node.moved_in_bytes ? `moved in ${size(node.moved_in_bytes)}` : "", node.moved_out_bytes ? `moved out ${size(node.moved_out_bytes)}` : ""].filter(Boolean);
    return el("div", { class: "node" }, el("b", {}, title(node)), `${size(node.free_bytes)} of ${size(node.total_bytes)} free`,
      meter([["used", used], ["cache", node.reclaimable_bytes]], node.total_bytes, words),
      el("span", { class: "quiet" }, flows.join(", ")));
  }));
}

function drawSummary() {
  const count = (number, what) => `${number} ${number === 1 ? what : what + "s"}`;
  if (!isTable()) return fill($("summary"));
  if (tab === "jobs") return fill($("summary"), `${count(rows.length, "job")}, ${rows.filter(isOpen).length} open`);
  const one = tab === "workloads" ? "workload" : "process", many = tab === "workloads" ? "workloads" : "processes";
  const remote = rows.filter((row) => row.remote_bytes > 0);
  // Each byte is in one row: what is in the rows of cgroups below another one is taken out of its own.
  const bytes = sum(rows.map((row) => row.remote_bytes || 0));
  const more = [];
  const unpinned = rows.filter((row) => row.is_unpinned && row.pid != null).length;
  if (unpinned) more.push(`${unpinned} may run on any node`);
  if (view.top.unseen_count) more.push(`${view.top.unseen_count} not read yet`);
  if (view.top.hidden_count) more.push(`${view.top.hidden_count} that may not be read`);
  if (view.top.left_out_count) more.push(`${view.top.left_out_count} left out by the daemon`);
  fill($("summary"), el("b", {}, `${view.top.unseen_count ? "at least " : ""}${size(bytes)} remote`), ` in ${remote.length} of ${rows.length} ${rows.length === 1 ? one : many}`,
    within != null && tab === "processes" ? ` of ${within}` : "", more.length ? el("span", { class: "quiet" }, `; processes: ${more.join(", ")}`) : null,
    view.top.traffic ? el("span", { class: "quiet" }, `; memory traffic ${rate(view.top.traffic.local_bytes_per_second + view.top.traffic.remote_bytes_per_second)}, remote ${rate(view.top.traffic.remote_bytes_per_second)}`) : null,
    within != null && tab === "processes" ? button("All processes", () => { within = null; drawTable(); drawSummary(); }) : null,
    el("span", { class: "legend" }, el("i", { class: "local" }), "local", rows.some((row) => row.near_bytes) ? [el("i", { class: "near" }), "near"] : null, el("i", { class: "remote" }), "remote", rows.some((row) => row.is_unpinned) ? [el("i", { class: "any" }), "may run on any node"] : null, rows.some((row) => row.demoted_bytes) ? [el("i", { class: "demoted" }), "demoted"] : null));
}

/** A migration whose dialog was left. */
function drawRunning() {
  const migration = view.migration, isShown = migration && migration.stage === "running" && !$("dialog").open;
  $("running").hidden = !isShown;
  if (isShown) $("running").textContent = `Migrating ${migration.target}: ${size(migration.settled_bytes)} of ${size(migration.planned_bytes)}`;
}

function drawTabs() {
  const all = tabs();
  if ($("tabs").children.length !== all.length) {
    fill($("tabs"), ...all.map(([id, title]) => button(title, () => choose(id, true), { role: "tab", id: "tab-" + id, "aria-controls": "list", onkeydown: tabKey })));
  }
  for (const [id] of all) {
    $("tab-" + id).setAttribute("aria-selected", String(id === tab));
    $("tab-" + id).tabIndex = id === tab ? 0 : -1;
  }
  $("list").setAttribute("aria-labelledby", "tab-" + tab);
}

function tabKey(event) {
  const all = tabs().map(([id]) => id), step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  choose(all[(all.indexOf(tab) + step + all.length) % all.length]);
  $("tab-" + tab).focus();
}

function choose(id, focuses) {
  if (opened != null && !report) ask("watch", {}).catch(() => {});
  opened = null;
  if (id !== "processes") within = null;
  tab = id;
  selected = null;
  frame = null;
  $("search").hidden = !isTable();
  draw(true);
  if (focuses && isTable()) frame.table.focus();
}

function draw(isOther) {
  $("host").textContent = view.host.name;
  document.title = `numaloc: ${view.host.name}`;
  const by = view.top.source === "daemon" ? "by the daemon" : "by this program";
  $("state").textContent = report ? `report of ${view.top.time ? new Date(view.top.time).toLocaleString() : ""}, numalocctl ${view.host.version}` : `${clock(view.top.time)} ${by}${view.host.is_read_only ? ", read-only" : ""}, numalocctl ${view.host.version}`;
  banner();
  drawNodes();
  drawTabs();
  if (isTable()) drawTable();
  else if (tab === "advice" && isOther) drawAdvice(false);
  else if (tab === "pictures" && isOther) fill($("list"), ...report.pictures.map((each) => { const box = el("div", { class: "finding picture" }); drawPicture(box, each); box.prepend(el("h2", {}, `${each.comm} (${each.pid})`)); return box; }));
  drawSummary();
  drawDetail();
  drawMigration();
  drawRunning();
}

document.addEventListener("keydown", (event) => {
  if (!view || $("dialog").open || event.ctrlKey || event.altKey || event.metaKey) return;
  const isWriting = event.target === $("filter");
  if (event.key === "Escape") {
    if (isWriting && filter) { filter = $("filter").value = ""; draw(); }
    else if (opened != null) close();
    else if (filter) { filter = $("filter").value = ""; draw(); }
    else if (within != null) choose("workloads", true);
    if (isTable()) frame.table.focus();
    return;
  }
  if (isWriting) {
    if (event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); frame.table.focus(); select(0); }
    return;
  }
  const number = tabs()[Number(event.key) - 1];
  if (number) choose(number[0], true);
  else if (event.key === "/" && isTable()) { $("filter").focus(); $("filter").select(); }
  else if (event.key === "?") help();
  else if (opened == null || !$("detail").contains(event.target) || !rowKey(event.key, rowOf(opened))) return;
  event.preventDefault();
});
$("filter").addEventListener("input", () => { filter = $("filter").value; $("list").scrollTop = 0; draw(); });
$("list").addEventListener("scroll", () => { if (isTable() && frame) requestAnimationFrame(() => frame && drawRows()); });
window.addEventListener("resize", () => { if (view && isTable() && frame) drawRows(); });
$("keys").addEventListener("click", () => { if (view) help(); });
$("running").addEventListener("click", showMigration);
$("dialog").addEventListener("close", () => {
  const migration = view && view.migration;
  const waits = migration && migration.plan === shownPlan && migration.plan !== begunPlan && ["planning", "asked"].includes(migration.stage);
  if (waits) forget();
  dialogStage = "";
  shownPlan = 0;
  drawRunning();
  if (isTable() && frame && opened == null) frame.table.focus();
});

if (report) {
  report.pictures.forEach((each) => pictures.set(each.pid, each));
  advice = report.advice;
  take(report.view);
} else {
  enter();
}
})();
