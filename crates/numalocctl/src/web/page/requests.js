
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
