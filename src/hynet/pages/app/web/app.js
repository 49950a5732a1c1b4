// The page: its tabs, and who is asked when something changes.
import {$, complain} from "./parts.js";
import * as visit from "./visit.js";
import * as match from "./match.js";
import * as compare from "./compare.js";
import * as many from "./many.js";

const tabs = [...document.querySelectorAll("[role=tab]")];
let chosen = "match", busy = false, waiting = false;

function open(name, focus = false) {
  chosen = name;
  for (const tab of tabs) {
    const on = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", on);
    tab.tabIndex = on ? 0 : -1;
    if (on && focus) tab.focus();
  }
  $("#pair").hidden = name === "many";
  $("#many").hidden = name !== "many";
  $("#match").hidden = name !== "match";
  $("#compare").hidden = name !== "compare";
  document.body.dataset.tab = name;
  history.replaceState(null, "", `#${name}`);
  if (name !== "many" && match.ready()) refresh();
}

// Only the newest settings count: while the server works, later changes wait as one.
async function refresh(what) {
  if (what === "looks") return chosen === "compare" ? compare.draw() : undefined;
  if (!match.ready()) return;
  if (busy) { waiting = true; return; }
  busy = true;
  do {
    waiting = false;
    try {
      await (chosen === "compare" ? compare : match).run();
      complain(null);
    } catch (error) {
      complain(error);
    }
  } while (waiting);
  busy = false;
  document.body.dataset.runs = +(document.body.dataset.runs ?? 0) + 1;
}

for (const [k, tab] of tabs.entries()) {
  tab.onclick = () => open(tab.id.slice(4));
  tab.onkeydown = event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (step) open(tabs[(k + step + tabs.length) % tabs.length].id.slice(4), true);
  };
}

try {
  const offers = await visit.begin();
  match.start(offers, refresh);
  compare.start(offers, refresh);
  many.start(offers);
  $("#where").textContent = offers.everywhere ? `on ${location.hostname}` : "on this computer";
  $("#footer").textContent = `hynet ${offers.version}. Photos ${offers.everywhere ? `go to ${location.hostname}` : "stay on this computer"} and are gone when this page is closed.`;
  open(["match", "compare", "many"].find(name => location.hash === `#${name}`) ?? "match");
} catch (error) {
  complain(error);
}
