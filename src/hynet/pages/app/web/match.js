// Two photos: choosing them, the settings, the matches and what can be taken away.
import {$, make, count, milliseconds, complain, save, code, select, slider} from "./parts.js";
import {Picture, patch} from "./picture.js";
import * as visit from "./visit.js";

export const pair = {files: [null, null], example: false, names: [], sizes: [], bitmaps: []};
const panel = $("#match"), stage = $(".stage", panel), detail = $(".detail", panel), aside = $("#settings");
const slots = [...document.querySelectorAll(".slot")];
let offers, fields, shown = null, redo = () => {};

export const settings = () => ({
  detector: fields.detector.value, model: fields.model.value, orientation: fields.orientation.value, geometry: fields.geometry.value,
  keypoints: fields.keypoints.value, ratio: fields.ratio.value, threshold: fields.threshold.value,
});
export const looks = () => ({lines: fields.lines.value, rejected: fields.rejected.checked, confidence: fields.confidence.value ?? 0});
export const ready = () => pair.bitmaps.length === 2;

// refresh: called when something must be matched anew.
export function start(told, refresh) {
  offers = told;
  redo = refresh;
  visit.restoring(restore);
  const changed = () => refresh(), redraw = () => { if (shown) draw(); refresh("looks"); };
  const [fewest, most] = told.keypoints, usual = told.usual;
  const make_select = (label, name, choices) => {
    const field = select(label, name, choices, usual[name]);
    $("select", field).onchange = changed;
    return field;
  };
  const sliders = {
    keypoints: slider("Keypoints per photo", "keypoints", {min: fewest, max: most, step: 64, value: usual.keypoints, onchange: changed}),
    ratio: slider("Ratio", "ratio", {min: 0.5, max: 1, step: 0.01, value: 0.9, automatic: true, onchange: changed}),
    threshold: slider("Inlier threshold", "threshold", {min: 0.25, max: 10, step: 0.25, value: 1, automatic: true, unit: " px", onchange: changed}),
    confidence: slider("Confidence at least", "confidence", {min: 0, max: 1, step: 0.01, value: 0, onchange: redraw}),
  };
  const lines = select("Lines", "lines", {some: "120 of them", all: "every match", none: "only the points"}, "some");
  const rejected = make("label", {className: "check"}, make("input", {type: "checkbox", name: "rejected"}), "show rejected");
  const form = $("form", aside);
  form.replaceChildren(
    make_select("Model", "model", told.models), make_select("Detector", "detector", told.detectors),
    make_select("Orientation", "orientation", told.orientations), make_select("Geometry", "geometry", told.geometries),
    sliders.keypoints.field, sliders.ratio.field, sliders.threshold.field, sliders.confidence.field, lines, rejected);
  sliders.confidence.field.hidden = true;
  $("select", lines).onchange = redraw;
  $("input", rejected).onchange = redraw;
  form.onsubmit = event => event.preventDefault();
  const named = name => form.elements.namedItem(name);
  fields = {...sliders, lines: named("lines"), rejected: named("rejected"),
    ...Object.fromEntries(["detector", "model", "orientation", "geometry"].map(name => [name, named(name)]))};
  $("#example small").textContent = told.example;
  $("#example button").onclick = () => take([], true);
  for (const [side, slot] of slots.entries()) {
    const input = $("input", slot);
    input.onchange = () => { choose([...input.files], side); input.value = ""; };
  }
  droppable($("#pair"), (files, target) => choose(files, Math.max(0, slots.indexOf(target.closest?.(".slot")))));
}

export function droppable(area, drop) {
  const over = on => area.classList.toggle("over", on);
  area.addEventListener("dragover", event => { event.preventDefault(); over(true); });
  area.addEventListener("dragleave", event => { if (!area.contains(event.relatedTarget)) over(false); });
  area.addEventListener("drop", event => { event.preventDefault(); over(false); drop([...event.dataTransfer.files], event.target, event.dataTransfer); });
}

// One file goes where it was dropped; two are the pair.
const choose = (files, side) => { if (files.length) take(files, false, files.length > 1 ? null : side); };

// One after the other: a second photo may be dropped while the first is on its way.
let taking = Promise.resolve();
const take = (...asked) => (taking = taking.then(() => bring(...asked)));

async function bring(files, example, only = null) {
  complain(null);
  if (only !== null) {
    const kept = pair.example ? [null, null] : [...pair.files];
    kept[only] = files[0];
    files = kept;
  }
  Object.assign(pair, {files: example ? [null, null] : files.slice(0, 2), example, bitmaps: []});
  files = pair.files;
  shown = null;
  slots.forEach((slot, side) => preview(slot, files[side]));
  document.body.classList.add("working");
  try {
    await visit.again(async () => {
      if (example) return told(await visit.post("example"));
      for (const [side, file] of files.entries()) {
        if (!file || (only !== null && side !== only)) continue;
        told(await bringOne(side, file));
      }
    });
    if (complete()) await look();
  } catch (error) {
    complain(error);
  } finally {
    if (!complete()) document.body.classList.remove("paired");
    document.body.classList.remove("working");
  }
}

// What the server refuses is not kept.
async function bringOne(side, file) {
  try {
    return await visit.upload(`photos/${side}`, file);
  } catch (error) {
    if (!(error instanceof visit.Gone)) { pair.files[side] = null; preview(slots[side], null); }
    throw error;
  }
}

const complete = () => pair.example || pair.files.every(file => file);

async function restore() {
  if (pair.example) await visit.post("example");
  else for (const [side, file] of pair.files.entries()) if (file) await bringOne(side, file);
}

function preview(slot, file) {
  const image = $("img", slot), name = $(".slot-name", slot);
  URL.revokeObjectURL(image.src);
  image.hidden = true;
  image.onload = () => { image.hidden = false; };
  image.src = file ? URL.createObjectURL(file) : "";
  name.textContent = file ? file.name : "";
  slot.classList.toggle("filled", Boolean(file));
}

function told({photos}) {
  pair.names = photos.map(photo => photo?.name);
  pair.sizes = photos.map(photo => photo?.size);
}

async function look() {
  pair.bitmaps = await Promise.all([0, 1].map(async side => createImageBitmap(await (await fetch(visit.at(`photos/${side}`))).blob())));
  if (pair.example) slots.forEach((slot, side) => {
    $("img", slot).src = visit.at(`photos/${side}?${Date.now()}`);
    $(".slot-name", slot).textContent = pair.names[side];
    slot.classList.add("filled");
  });
  document.body.classList.add("paired");
  aside.hidden = false;
  stage.hidden = detail.hidden = false;
  picture.show(pair.bitmaps, pair.sizes);
  picture.mark([]);
  redo();
}

// --- What was found ---

const picture = new Picture($("canvas", stage), k => describe(detail, shown, k));

export async function run() {
  stage.classList.add("busy");
  try {
    shown = await visit.again(() => visit.post("match", settings()));
    draw();
  } finally {
    stage.classList.remove("busy");
  }
}

export function suggest(told) {
  fields.ratio.suggest(told.ratio ?? 1);
  fields.threshold.suggest(told.threshold);
  fields.confidence.field.hidden = told.confidence === null;
}

export function draw() {
  suggest(shown);
  const {lines, rejected, confidence} = looks();
  picture.lines = lines;
  picture.mark(shown.points.map(([x1, y1, x2, y2], k) => ({
    x1, y1, x2, y2, kind: shown.is_inlier[k] ? "good" : "bad", order: shown.distances[k],
    shown: (shown.is_inlier[k] || rejected) && (shown.confidence === null || shown.confidence[k] >= confidence),
  })));
  $(".verdict", stage).replaceChildren(...verdict(shown));
  results();
}

const GEOMETRIES = {fundamental: "a fundamental matrix", essential: "an essential matrix", homography: "a homography", "shared-focal": "two cameras of one focal length"};

function verdict(told) {
  const inliers = told.geometry === "none" ? make("b", {}, "not verified") : make("b", {className: told.overlap >= .5 ? "good" : told.inliers ? "" : "bad"}, `${count(told.inliers)} inliers`);
  const why = told.why ? ` (${told.why})` : "";
  const probability = told.overlap === null ? "" : ` (probability ${told.overlap.toFixed(2)})`;
  const place = make("span", {className: "faint"}, `; ${told.place}${probability}`);
  return [make("b", {}, `${count(told.matches)} matches`), ", ", inliers, place,
    told.geometry === "none" ? "" : make("span", {className: "faint"}, `. Inliers of ${GEOMETRIES[told.geometry] ?? told.geometry}${why}.`)];
}

export function describe(detail, told, k) {
  if (!told || k === null) {
    detail.replaceChildren(make("p", {className: "faint"}, "Point at a match, tap it, or step through them with the arrow keys to see what was compared."));
    return;
  }
  const [x1, y1, x2, y2] = told.points[k], shapes = told.shapes[k];
  const colour = [patch(pair.bitmaps[0], told.sizes[0], x1, y1, shapes.slice(0, 4), told.support),
    patch(pair.bitmaps[1], told.sizes[1], x2, y2, shapes.slice(4), told.support)];
  const seen = make("img", {className: "seen", alt: "both patches as the model sees them", src: visit.at(`patches/${told.run}/${k}`)});
  const facts = [
    ["distance", told.distances[k].toFixed(3)],
    told.confidence ? ["probability", `${(100 * told.confidence[k]).toFixed(1)}%`] : null,
    ["geometry", told.geometry === "none" ? "not checked" : told.is_inlier[k] ? "inlier" : "rejected"],
    ["first photo", `${x1.toFixed(1)}, ${y1.toFixed(1)}`], ["second photo", `${x2.toFixed(1)}, ${y2.toFixed(1)}`],
  ].filter(fact => fact);
  detail.replaceChildren(
    make("figure", {}, make("div", {className: "patches"}, colour), make("figcaption", {}, "in the photos")),
    make("figure", {}, seen, make("figcaption", {}, "as the model sees them")),
    make("dl", {}, facts.map(([name, value]) => [make("dt", {}, name), make("dd", {className: value === "inlier" ? "good" : value === "rejected" ? "bad" : ""}, value)])));
}

// --- What can be taken away ---

export function stages(told) {
  const spent = Object.entries(told.seconds), worked = new Set(told.worked);
  const bar = make("div", {className: "stages"}, spent.map(([stage, seconds], k) => {
    const part = make("i", {title: `${stage}: ${milliseconds(seconds)}`});
    part.style.flexGrow = worked.has(stage) ? Math.max(1, 1000 * seconds) : 0;
    part.style.background = `var(--c${k})`;
    return part;
  }));
  const rows = spent.map(([stage, seconds], k) => {
    const mark = make("i");
    mark.style.background = `var(--c${k})`;
    return make("li", {className: worked.has(stage) ? "" : "faint"}, mark, make("span", {}, stage), make("b", {}, worked.has(stage) ? milliseconds(seconds) : "kept"));
  });
  return [bar, make("ul", {className: "times"}, rows)];
}

export function results() {
  const tile = (number, words) => make("div", {className: "tile"}, make("b", {}, number), make("span", {}, words));
  const button = (label, action) => make("button", {type: "button", textContent: label, onclick: action});
  $("#results").replaceChildren(
    make("h3", {}, "Found"),
    make("div", {className: "tiles"}, tile(shown.keypoints.map(count).join(" + "), "keypoints"), tile(count(shown.matches), "matches"),
      tile(shown.geometry === "none" ? "–" : count(shown.inliers), "inliers")),
    make("h3", {}, "Time"), ...stages(shown),
    make("h3", {}, "Download"),
    make("div", {className: "buttons"},
      button("Picture", async () => save(await picture.file($(".verdict", stage).textContent), "matches.png")),
      button("CSV", () => save(csv(shown), "matches.csv", "text/csv")),
      button("JSON", () => save(JSON.stringify(json(shown), null, 1), "matches.json", "application/json"))),
    code("The same in Python", shown.python), code("The same as a command", shown.command));
}

const csv = told => ["x1,y1,x2,y2,distance,inlier" + (told.confidence ? ",confidence" : ""), ...told.points.map((point, k) =>
  [...point, told.distances[k], +told.is_inlier[k], ...(told.confidence ? [told.confidence[k]] : [])].join(","))].join("\n") + "\n";

// As `hynet match --json` has it, with the settings.
const json = told => ({
  photos: pair.names, settings: settings(), keypoints: told.keypoints, matches: told.matches, inliers: told.inliers, geometry: told.geometry,
  model: told.model, overlap: told.overlap, points: told.points.filter((_, k) => told.is_inlier[k]), seconds: told.seconds,
  all: told.points.map((point, k) => ({point, distance: told.distances[k], inlier: told.is_inlier[k], ...(told.confidence ? {confidence: told.confidence[k]} : {})})),
});

describe(detail, null, null);
