// Patches of two photos -> descriptors -> mutual nearest neighbours that pass the ratio test, all on this machine.
import * as ort from "./node_modules/onnxruntime-web/dist/ort.wasm.min.mjs";

ort.env.wasm.wasmPaths = new URL("./node_modules/onnxruntime-web/dist/", import.meta.url).href;
ort.env.wasm.numThreads = 1; // more would need headers that a plain server does not send

const said = document.getElementById("said");
try {
  const pair = await (await fetch("pair.json")).json();
  const session = await ort.InferenceSession.create("model.onnx");
  const rows = [];
  for (const view of pair.views) rows.push(await describe(session, view, pair.side));
  const matches = matched(rows[0], rows[1], pair.ratio ?? 1);
  await draw(pair.views, matches);
  said.textContent = `${matches.length} matches of ${pair.views.map((view) => view.xy.length).join(" and ")} keypoints`;
  const numbers = rows.map(({ values, dim }) => ({ dim, values: Array.from(values, (value) => +value.toFixed(5)) }));
  document.getElementById("result").textContent = JSON.stringify({ matches, descriptors: numbers });
} catch (error) {
  said.textContent = `this did not work: ${error.message}`;
}

/** Unit rows, as one long array. */
async function describe(session, view, side) {
  const bytes = Uint8Array.from(atob(view.patches), (letter) => letter.charCodeAt(0));
  const patches = new ort.Tensor("uint8", bytes, [bytes.length / (side * side), side, side]);
  const { descriptors } = await session.run({ [session.inputNames[0]]: patches });
  return { values: descriptors.data, count: descriptors.dims[0], dim: descriptors.dims[1] };
}

/** [row of a, row of b] of each match. Distances of unit rows: d^2 = 2 - 2 cos. */
function matched(a, b, ratio) {
  const forward = nearest(a, b);
  const back = nearest(b, a);
  const squared = (cosine) => Math.max(0, 2 - 2 * cosine);
  return forward
    .map(({ best, cosine, runnerUp }, row) => ({ row, best, near: squared(cosine), far: squared(runnerUp) }))
    .filter(({ row, best, near, far }) => back[best].best === row && (ratio >= 1 || near < ratio * ratio * far))
    .map(({ row, best }) => [row, best]);
}

function nearest(a, b) {
  const found = [];
  for (let i = 0; i < a.count; i++) {
    let best = 0, cosine = -2, runnerUp = -2;
    for (let j = 0; j < b.count; j++) {
      let product = 0;
      for (let k = 0; k < a.dim; k++) product += a.values[i * a.dim + k] * b.values[j * b.dim + k];
      if (product > cosine) { runnerUp = cosine; cosine = product; best = j; }
      else if (product > runnerUp) runnerUp = product;
    }
    found.push({ best, cosine, runnerUp });
  }
  return found;
}

async function draw(views, matches) {
  const photos = await Promise.all(views.map((view) => loaded(view.photo)));
  const canvas = document.getElementById("picture");
  canvas.width = photos[0].width + photos[1].width;
  canvas.height = Math.max(photos[0].height, photos[1].height);
  const pen = canvas.getContext("2d");
  pen.drawImage(photos[0], 0, 0);
  pen.drawImage(photos[1], photos[0].width, 0);
  pen.strokeStyle = "rgba(64, 224, 130, 0.5)";
  for (const [i, j] of matches) {
    pen.beginPath();
    pen.moveTo(...views[0].xy[i]);
    pen.lineTo(views[1].xy[j][0] + photos[0].width, views[1].xy[j][1]);
    pen.stroke();
  }
}

function loaded(source) {
  return new Promise((resolve, reject) => {
    const photo = new Image();
    photo.onload = () => resolve(photo);
    photo.onerror = () => reject(new Error(`cannot read ${source}`));
    photo.src = source;
  });
}
