
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
    each.commands.length ? el("pre", { class: "wrapped" }, each.commands.join("\n")) : null,
    report || !each.commands.length ? null : el("div", { class: "actions" }, each.migrates && canChange() ? button("Migrate…", () => plan(each.migrates), { class: "main" }) : null, button("Copy the commands", (event) => copy(event.target, each.commands.join("\n")))));
  fill(box, ...found.findings.map(finding), el("p", { class: "end" }, found.end.trim()),
    report ? null : el("div", { class: "actions finding" }, button("Look again", () => drawAdvice(true))));
}

async function copy(from, text) {
  try { await navigator.clipboard.writeText(text); from.textContent = "Copied"; } catch { from.textContent = "The browser does not allow it"; }
}
