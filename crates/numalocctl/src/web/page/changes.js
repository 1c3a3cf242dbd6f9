
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
  const body = row.pid != null ? { pid: row.pid, start: row.start ?? row.start_time_ticks } : { cgroup: row.cgroup };
  dialog("Planning…", [el("p", {}, row.comm || row.cgroup || `process ${row.pid}`)], [button("Close", dismiss)]);
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
  const keys = [[tabs().map((each, index) => index + 1).join(" "), tabs().map(([, title]) => title.toLowerCase()).join(", ")], ["/", "filter"], ["↑ ↓ PageUp PageDown Home End", "select a row"], ["Enter", "open the row"],
    ["p", "the processes of a workload"], ["m", "plan a migration, which asks before it moves anything"], ["x", "cancel a job, after asking"], ["Esc", "close, clear the filter, back"], ["?", "this help"]].filter(([key]) => canChange() || !"mx".includes(key));
  dialog("Keys", [table(["Key", "What it does"], keys.map(([key, what]) => [el("kbd", {}, key), what])),
    el("p", { class: "quiet" }, "Solid: memory on a home node, which is a node of the CPUs that the process may run on. Hatched: remote memory, lighter where the node is near to home. Dotted: memory on a lower tier.")], [button("Close", dismiss, { autofocus: true })]);
}
