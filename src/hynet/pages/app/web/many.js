// Many photos: what becomes of them on their way to a 3-D model.
import {$, make, count, complain, select, slider} from "./parts.js";
import {droppable} from "./match.js";
import * as visit from "./visit.js";

const panel = $("#many");
const PHOTO = /\.(jpe?g|png|ppm|pgm|pnm|tiff?|webp|bmp|gif|heic)$/i;
let offers, album = new Map(), parts = {}, keypoints, running = false; // album: name on the server -> {file, tile}

export function start(told) {
  offers = told;
  const files = make("input", {type: "file", multiple: true, accept: "image/*", hidden: true});
  const folder = make("input", {type: "file", hidden: true});
  folder.webkitdirectory = true;
  files.onchange = folder.onchange = event => { add([...event.target.files]); event.target.value = ""; };
  const press = (label, action, className = "") => make("button", {type: "button", textContent: label, className, onclick: action});
  keypoints = slider("Keypoints per photo", "many-keypoints", {min: 256, max: told.keypoints[1], step: 256, value: told.keypoints[1], onchange() {}});
  parts = {
    empty: make("div", {className: "empty"}, make("h1", {}, "From photos to a 3-D model"),
      make("p", {}, "Drop a folder of photos that were taken around one thing or place, each overlapping with its neighbours. Ten to fifty are a good start.")),
    drop: make("div", {className: "drop"}, press("Choose a folder", () => folder.click(), "primary"), press("Choose photos", () => files.click()),
      make("span", {className: "faint"}, "or drop them here"), files, folder),
    settings: make("form", {className: "row"}, select("Model", "many-model", told.models, told.usual.model),
      select("Detector", "many-detector", told.detectors, told.usual.detector), select("Orientation", "many-orientation", told.orientations, "auto"), keypoints.field),
    go: press("Reconstruct", go, "primary"), stop: press("Cancel", stop), clear: press("Remove all", clear),
    state: make("span", {className: "faint"}),
    tiles: make("div", {className: "album"}),
    steps: make("div", {className: "steps", hidden: true}), outcome: make("div", {hidden: true}),
  };
  parts.state.setAttribute("aria-live", "polite");
  parts.settings.onsubmit = event => event.preventDefault();
  const actions = make("div", {className: "buttons"}, parts.go, parts.stop, parts.clear, parts.state);
  panel.replaceChildren(parts.empty, ...(told.no_reconstruction ? [make("p", {className: "warn"}, `${told.no_reconstruction}.`)] :
    [parts.drop, parts.settings, actions, parts.steps, parts.outcome, parts.tiles]));
  if (told.no_reconstruction) return;
  droppable(panel, async (dropped, target, transfer) => add(await inside(transfer) ?? dropped));
  visit.listen(heard);
  visit.restoring(async () => { for (const {file} of album.values()) await visit.upload("album", file); });
  buttons();
}

// Dropped folders are walked through; null where the browser cannot.
async function inside(transfer) {
  const entries = [...transfer.items].map(item => item.webkitGetAsEntry?.()).filter(entry => entry);
  if (!entries.length) return null;
  const found = [];
  const walk = async entry => {
    if (entry.isFile) found.push(await new Promise((resolve, reject) => entry.file(resolve, reject)));
    else {
      const reader = entry.createReader();
      for (let some; (some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject))).length;) for (const each of some) await walk(each);
    }
  };
  for (const entry of entries) await walk(entry);
  return found;
}

async function add(files) {
  complain(null);
  const photos = files.filter(file => PHOTO.test(file.name) && !file.name.startsWith(".")), problems = [];
  if (files.length && !photos.length) return complain("There are no photos among these files.");
  running = true;
  buttons();
  for (const [k, file] of photos.entries()) {
    parts.state.textContent = `uploading ${k + 1} of ${photos.length}`;
    try {
      const {name} = await visit.again(() => visit.upload("album", file));
      album.set(name, {file, tile: tile(name, file)});
    } catch (error) {
      problems.push(error.message);
      if (problems.length > 5) break;
    }
  }
  running = false;
  parts.state.textContent = "";
  buttons();
  if (problems.length) complain(problems.join(" "));
}

function tile(name, file) {
  const image = make("img", {alt: "", loading: "lazy", src: URL.createObjectURL(file)});
  const made = make("figure", {title: name}, image, make("figcaption", {}, name));
  parts.tiles.append(made);
  return made;
}

function buttons() {
  parts.go.hidden = parts.clear.hidden = running || !album.size;
  parts.go.disabled = album.size < 2;
  parts.stop.hidden = !parts.steps.dataset.on;
  parts.settings.hidden = !album.size;
  parts.empty.hidden = album.size > 0;
  parts.drop.classList.toggle("slim", album.size > 0);
  parts.drop.hidden = Boolean(parts.steps.dataset.on);
  if (!running && album.size) parts.state.textContent = album.size > 1 ? `${count(album.size)} photos` : "one photo";
}

async function go() {
  complain(null);
  parts.outcome.hidden = true;
  for (const {tile} of album.values()) tile.className = "";
  const chosen = name => parts.settings.elements.namedItem(name).value;
  const asked = {model: chosen("many-model"), detector: chosen("many-detector"), orientation: chosen("many-orientation"), keypoints: keypoints.value};
  try {
    await visit.again(() => visit.post("reconstruct", asked));
  } catch (error) {
    complain(error);
  }
}

const stop = () => visit.post("cancel").catch(complain);

async function clear() {
  await visit.post("album/empty").catch(() => {}); // forgotten already is as well
  album.clear();
  parts.tiles.replaceChildren();
  parts.outcome.hidden = parts.steps.hidden = true;
  parts.state.textContent = "";
  buttons();
}

// --- What the server tells ---

const STEPS = {features: "Features", matching: "Pairs", mapping: "Model"};

function heard(news) {
  if (!album.size || news.stage === "idle") return;
  const active = news.stage === "waiting" || news.stage in STEPS;
  if (news.stage === "lost" && parts.steps.dataset.on) complain("The server has forgotten this page; press Reconstruct to begin again.");
  parts.steps.dataset.on = active ? "1" : "";
  parts.steps.hidden = !active;
  running = active;
  buttons();
  if (news.stage === "waiting") { parts.pairs = null; steps(news); parts.state.textContent = news.ahead ? `waiting; ${news.ahead} before you when you asked` : "starting"; }
  if (news.stage in STEPS) { steps(news); parts.state.textContent = ""; }
  if (news.photo) album.get(news.photo)?.tile.classList.add("described");
  if (news.pairs?.length) { parts.pairs = news.pairs; matrix(); }
  if (news.stage === "cancelled") parts.state.textContent = "cancelled";
  if (news.stage === "failed") { complain(news.problem); outcome(news); }
  if (news.stage === "done") outcome(news);
}

function steps(news) {
  const order = Object.keys(STEPS), now = order.indexOf(news.stage);
  const rows = order.map((stage, k) => {
    const bar = make("progress", {max: 1});
    if (k < now) bar.value = 1;
    else if (k > now || now < 0) bar.value = 0;
    else if (news.done) bar.value = news.done / news.total; // without a value it shows that nobody knows
    const words = k < now ? "done" : k > now ? "" : news.done ? `${count(news.done)} of ${count(news.total)}` : "working";
    return make("div", {className: k === now ? "now" : k < now ? "past" : "faint"}, make("b", {}, STEPS[stage]), bar, make("span", {}, words));
  });
  const chart = $("canvas", parts.steps) ?? make("canvas", {className: "matrix", hidden: true});
  parts.steps.replaceChildren(make("div", {className: "rows"}, rows), chart);
}

// Every pair of photos, brighter with more inliers.
function matrix() {
  const chart = $("canvas", parts.steps);
  if (!chart) return;
  chart.hidden = false;
  chart.title = "pairs of photos, stronger with more inliers";
  const names = [...album.keys()].sort(), row = new Map(names.map((name, k) => [name, k])), cell = Math.max(2, Math.floor(176 / names.length));
  chart.width = chart.height = cell * names.length;
  const pen = chart.getContext("2d"), most = Math.max(30, ...parts.pairs.map(pair => pair[3]));
  for (const [first, second, , inliers] of parts.pairs) {
    pen.fillStyle = inliers ? `rgba(40, 170, 200, ${0.25 + 0.75 * Math.sqrt(inliers / most)})` : "rgba(200, 90, 80, .25)";
    for (const [a, b] of [[row.get(first), row.get(second)], [row.get(second), row.get(first)]]) pen.fillRect(a * cell, b * cell, cell - 1, cell - 1);
  }
}

function outcome(news) {
  const registered = new Set(news.registered ?? []), found = news.doctor?.findings ?? [];
  for (const [name, {tile}] of album) {
    tile.className = registered.has(name) ? "in" : "out";
    tile.title = found.find(each => each.photo === name)?.sentence ?? name;
  }
  const fact = (number, words) => make("div", {className: "tile"}, make("b", {}, number), make("span", {}, words));
  const table = news.table, result = (name, query = "") => visit.at(`results/${name}${query}`);
  const link = (name, label) => make("a", {className: "button", href: result(name, "?save"), download: name, textContent: label});
  const frame = () => {
    const made = make("iframe", {src: result("view.html"), title: "The model in 3-D: drag to turn, pinch or wheel to zoom"});
    made.setAttribute("sandbox", "allow-scripts");
    return made;
  };
  parts.outcome.hidden = false;
  parts.outcome.replaceChildren(...[
    table && make("div", {className: "tiles wide-tiles"}, fact(`${table.registered} of ${table.photos}`, "photos in the model"), fact(count(table.points), "3-D points"),
      fact(table.track_length.toFixed(2), "photos per point"), fact(`${table.reprojection_error.toFixed(2)} px`, "reprojection error")),
    table && frame(),
    table && make("div", {className: "buttons"}, link("model.zip", "COLMAP model"), link("view.html", "3-D page"), link("doctor.html", "Doctor's report")),
    news.doctor && doctor(news.doctor)].filter(part => part));
}

function doctor({summary, notes, findings}) {
  const reasons = new Map();
  for (const each of findings) reasons.set(each.reason, [...(reasons.get(each.reason) ?? []), each]);
  return make("section", {className: "doctor"}, make("h2", {}, findings.length ? "Why photos are missing" : "No photos are missing"),
    make("p", {className: "faint"}, summary), notes.map(note => make("p", {className: "warn"}, note)),
    [...reasons].map(([reason, lost]) => [make("h3", {}, `${count(lost.length)} ${lost.length > 1 ? "photos" : "photo"}: ${reason}`),
      make("ul", {}, lost.slice(0, 12).map(each => make("li", {}, make("b", {}, each.photo), ` – ${each.sentence}`)), lost.length > 12 ? make("li", {}, `and ${lost.length - 12} more`) : null),
      make("p", {}, "To try:"), make("ul", {}, lost[0].advice.map(line => make("li", {}, command(line))))]));
}

function command(line) {
  const at = line.indexOf("hynet ");
  return at < 0 ? line : make("span", {}, line.slice(0, at), make("code", {}, line.slice(at)));
}
