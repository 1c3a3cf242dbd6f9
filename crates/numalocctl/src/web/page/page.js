
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
    return el("div", { class: "node" }, el("p", {}, el("b", {}, title(node)), `${size(node.free_bytes)} of ${size(node.total_bytes)} free`),
      meter([["used", used], ["cache", node.reclaimable_bytes]], node.total_bytes, words),
      el("span", { class: "quiet" }, flows.join(", ")));
  }));
  fill($("node-legend"), legend([["used", "used"], ["cache", "page cache that can be dropped"], ["free", "free"]]));
}

/** What the looks of bars mean: pairs of a class and words. */
const legend = (pairs) => el("span", { class: "legend" }, ...pairs.map(([kind, words]) => el("span", {}, el("i", { class: kind }), words)));

/** What was remote in an earlier report, in the rows that are listed and in those that are gone. */
function comparison() {
  if (!report || !report.before) return null;
  const before = report.before.view, all = before.top[tab], gone = all.filter((row) => row.remote_bytes && !rowOf(keyOf(row)));
  const host = before.host.name === view.host.name ? "" : ` on ${before.host.name}`;
  const ended = gone.length ? `, of it ${size(sum(gone.map((row) => row.remote_bytes)))} in ${gone.length} that ${gone.length === 1 ? "has" : "have"} ended` : "";
  return el("span", {}, `; before (${stamp(before.top.time)}${host}): ${size(sum(all.map((row) => row.remote_bytes || 0)))}${ended}`);
}

function drawSummary() {
  const count = (number, what) => `${number} ${number === 1 ? what : what + "s"}`;
  if (!isTable()) return fill($("summary"));
  if (hasRecords()) return fill($("summary"), tab === "jobs" ? `${count(rows.length, "job")}, ${rows.filter(isOpen).length} open` : `${count(rows.length, "schedule")}, ${rows.filter((each) => each.paused).length} paused`);
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
    within != null && tab === "processes" ? ` of ${within}` : "", comparison(), more.length ? el("span", { class: "quiet" }, `; processes: ${more.join(", ")}`) : null,
    view.top.traffic ? el("span", { class: "quiet" }, `; memory traffic ${rate(view.top.traffic.local_bytes_per_second + view.top.traffic.remote_bytes_per_second)}, remote ${rate(view.top.traffic.remote_bytes_per_second)}`) : null,
    within != null && tab === "processes" ? button("All processes", () => { within = null; drawTable(); drawSummary(); }) : null,
    legend([["local", "local"], rows.some((row) => row.near_bytes) && ["near", "near"], ["remote", "remote"], rows.some((row) => row.is_unpinned) && ["any", "may run on any node"], rows.some((row) => row.demoted_bytes) && ["demoted", "demoted"]].filter(Boolean)));
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
  const daemon = view.status && view.status.version ? `, numalocd ${view.status.version}` : "";
  $("state").textContent = report ? `report of ${stamp(view.top.time)}, numalocctl ${view.host.version}${daemon}: numalocctl ${report.command}` : `${clock(view.top.time)} ${by}${view.host.is_read_only ? ", read-only" : ""}, numalocctl ${view.host.version}`;
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
