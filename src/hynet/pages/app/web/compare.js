// Two models on the same pair, beside each other: what only one of them finds is marked.
import {$, make, count, select} from "./parts.js";
import {Picture} from "./picture.js";
import * as visit from "./visit.js";
import {pair, settings, looks, describe, stages, suggest} from "./match.js";

const panel = $("#compare"), beside = $(".beside", panel), detail = $(".detail", panel);
const COLOURS = ["rgb(255, 158, 64)", "rgb(226, 104, 255)"], SHARED = "rgb(225, 230, 235)";
let sides = [];

export function start(offers, refresh) {
  const names = Object.keys(offers.models);
  const first = [offers.usual.model, ["rootsift", "sift"].find(name => names.includes(name)) ?? names.at(-1)];
  sides = first.map((model, side) => {
    const field = select(side ? "Second model" : "First model", `model-${side}`, offers.models, model);
    const canvas = make("canvas", {tabIndex: 0}), caption = make("figcaption", {className: "verdict"}), times = make("div");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "Matches of one model; arrow keys go from match to match");
    const stage = make("figure", {className: "stage", hidden: true}, make("div", {}, canvas), caption);
    const each = {model: $("select", field), stage, caption, times, told: null, column: make("div", {className: `side side-${side}`}, field, stage, times)};
    each.picture = new Picture(canvas, k => describe(detail, each.told, k));
    each.model.onchange = () => refresh();
    return each;
  });
  beside.replaceChildren(...sides.map(each => each.column));
}

export async function run() {
  sides.forEach(each => {
    each.stage.hidden = detail.hidden = false;
    each.stage.classList.add("busy");
    if (each.bitmaps !== pair.bitmaps) { each.told = null; each.picture.mark([]); } // of the pair before
    each.bitmaps = pair.bitmaps;
    each.picture.show(pair.bitmaps, pair.sizes);
    each.picture.draw();
  });
  try {
    for (const each of sides) each.told = await visit.again(() => visit.post("match", {...settings(), model: each.model.value}));
    draw();
  } finally {
    sides.forEach(each => each.stage.classList.remove("busy"));
  }
}

// By their places: the same keypoint may be turned for one model and not for the other.
const place = point => point.map(value => value.toFixed(1)).join(" ");

export function draw() {
  if (sides.some(each => !each.told)) return;
  const {lines, confidence} = looks();
  const inliers = sides.map(({told}) => new Set(told.points.filter((_, k) => told.is_inlier[k]).map(place)));
  sides.forEach(({told, picture, caption, times}, side) => {
    suggest(told);
    const other = inliers[1 - side], shared = [...inliers[side]].filter(key => other.has(key)).length;
    picture.lines = lines;
    picture.mark(told.points.map((point, k) => {
      const [x1, y1, x2, y2] = point, both = other.has(place(point));
      return {x1, y1, x2, y2, kind: both ? "shared" : "only", colour: both ? SHARED : COLOURS[side], order: told.distances[k],
        shown: told.is_inlier[k] && (told.confidence === null || told.confidence[k] >= confidence)};
    }));
    const mark = colour => { const made = make("i", {className: "mark"}); made.style.background = colour; return made; };
    const found = told.geometry === "none" ? [make("b", {}, `${count(told.matches)} matches`), ", not verified: "] :
      [make("b", {}, `${count(told.inliers)} inliers`), ` of ${count(told.matches)} matches: `];
    caption.replaceChildren(...found,
      mark(COLOURS[side]), `${count(inliers[side].size - shared)} only here, `, mark(SHARED), `${count(shared)} in both`);
    times.replaceChildren(...stages(told));
  });
  const [a, b] = sides.map(each => each.told.inliers), [one, several] = sides[0].told.geometry === "none" ? ["match", "matches"] : ["inlier", "inliers"];
  $("#results").replaceChildren(make("h3", {}, "Found"), make("p", {}, a === b ? `Both find the same number of ${several}.` :
    make("span", {}, make("b", {}, (a > b ? sides[0] : sides[1]).model.selectedOptions[0].textContent), ` finds ${count(Math.abs(a - b))} more ${Math.abs(a - b) > 1 ? several : one}.`)),
  make("p", {className: "faint"}, "One pair says little about which is better; hynet evaluate compares on many."));
}
