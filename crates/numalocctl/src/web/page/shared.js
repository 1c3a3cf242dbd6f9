// The script of the page of numalocctl web, whose files are one module in the order that report.rs names. It draws what the program sends;
// all text of others (names, cgroups, messages) is set as text, never as markup. In a report the data is in the page, and nothing is asked for.

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
const OLD_SECONDS = 30;       // rows that were read before are pale
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
/** 2026-11-30 15:12:27 UTC: the same for each reader, and as the command line has it. */
const stamp = (text) => (text ? new Date(text).toISOString().replace("T", " ").replace(/\..*/, " UTC") : "");
const clock = (text) => stamp(text).slice(11);

/** A span of time in its largest unit: 41 s, 4 min. */
function span(seconds) {
  const [unit, name] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([unit]) => seconds >= unit) || [1, "s"];
  return Math.max(0, Math.floor(seconds / unit)) + "\u00a0" + name;
}
/** Seconds from a moment to that of the view, by the clock of the host. */
const since = (text) => (Date.parse(view.top.time) - Date.parse(text)) / 1000;
const ago = (text) => (text ? span(since(text)) + " ago" : "-");

/** Text, with the moment that it is about as its title. */
const timed = (words, text) => el("span", { title: stamp(text) }, words);

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
function where(row, most) {
  const order = ["local", "any", "near", "remote", "demoted"];
  const nodes = row.by_node.filter((node) => node.bytes > 0).map((node) => ({ ...node, place: placeOf(row, node.node) }));
  nodes.sort((a, b) => order.indexOf(a.place) - order.indexOf(b.place) || a.node - b.node);
  const words = nodes.map((node) => `node ${node.node}${node.place === "local" || node.place === "any" ? "" : ` (${node.place})`}: ${size(node.bytes)}`).join(", ");
  const bytes = sum(nodes.map((node) => node.bytes)), bar = meter(nodes.map((node) => [node.place, node.bytes]), bytes, words || "not read yet");
  // The length of a bar in a list is the square root of its memory: 1 GiB is twice as long as 256 MiB.
  if (most && !bytes) return "-";
  if (most) bar.style.width = Math.max(4, 100 * Math.sqrt(bytes / most)) + "%";
  return bar;
}
