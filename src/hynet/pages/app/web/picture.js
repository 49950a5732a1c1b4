// Two photos on a canvas with the matches between them: drawn here, in colour, on whatever screen there is.

const GAP = 6, DOT = 2.6, SOME = 120, NARROW = 620;
const STOPS = [[170, 240, 60], [50, 225, 130], [50, 190, 245]]; // from the top of the first photo to its foot
const REJECTED = "rgb(240, 72, 72)";

// Lime through turquoise to blue, so that the eye can follow a line.
export function green(height) {
  const at = Math.min(1, Math.max(0, height)) * 2, from = STOPS[Math.min(1, Math.floor(at))], to = STOPS[Math.min(1, Math.floor(at)) + 1];
  const part = at - Math.min(1, Math.floor(at));
  return `rgb(${from.map((value, k) => Math.round(value + part * (to[k] - value))).join(", ")})`;
}

export class Picture {
  // onpick(k or null): a match was pointed at, tapped or stepped to.
  constructor(canvas, onpick) {
    this.canvas = canvas;
    this.onpick = onpick;
    this.photos = [];
    this.matches = []; // {x1, y1, x2, y2, kind: "good" | "bad" | "shared" | "only", colour?, order}
    this.lines = "some";
    this.picked = null;
    this.pinned = false;
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
    canvas.addEventListener("pointermove", event => {
      if (event.pointerType === "mouse" && !this.pinned) this.pick(this.nearest(event, 14));
    });
    canvas.addEventListener("pointerleave", event => {
      if (event.pointerType === "mouse" && !this.pinned) this.pick(null);
    });
    canvas.addEventListener("click", event => { // a tap, or a click that keeps what the mouse has found
      const k = this.nearest(event, 26);
      this.pinned = k !== null && !(this.pinned && k === this.picked);
      this.pick(this.pinned ? k : null);
    });
    canvas.addEventListener("keydown", event => this.key(event));
  }

  show(photos, sizes) {
    this.photos = photos;
    this.sizes = sizes;
  }

  mark(matches) {
    this.matches = matches;
    this.picked = null;
    this.pinned = false;
    this.order = matches.map((_, k) => k).filter(k => matches[k].shown !== false).sort((a, b) => matches[a].order - matches[b].order);
    this.onpick(null);
    this.draw();
  }

  // Where the photos go: beside each other, or one above the other where they would be small and that makes them larger.
  layout(width, tallest) {
    const [[w1, h1], [w2, h2]] = this.sizes, [a1, a2] = [w1 / h1, w2 / h2];
    const height = Math.min(tallest, (width - GAP) / (a1 + a2));
    const below = Math.min(width, (1.3 * tallest - GAP) / (1 / a1 + 1 / a2));
    if ((width < NARROW || height < 200) && below * below * (1 / a1 + 1 / a2) > height * height * (a1 + a2)) {
      return [[0, 0, below, below / a1], [0, below / a1 + GAP, below, below / a2]];
    }
    return [[0, 0, height * a1, height], [height * a1 + GAP, 0, height * a2, height]];
  }

  place(side, x, y, boxes = this.boxes) {
    const [left, top, width, height] = boxes[side], [w, h] = this.sizes[side];
    return [left + (x + 0.5) / w * width, top + (y + 0.5) / h * height];
  }

  draw() {
    if (this.photos.length < 2) return;
    const width = this.canvas.parentElement.clientWidth;
    if (!width) return; // on a tab that is not shown
    this.boxes = this.layout(width, Math.max(260, Math.min(0.68 * innerHeight, 760)));
    const right = Math.max(...this.boxes.map(box => box[0] + box[2])), foot = Math.max(...this.boxes.map(box => box[1] + box[3]));
    const dense = Math.min(3, devicePixelRatio || 1);
    this.canvas.width = Math.round(right * dense);
    this.canvas.height = Math.round(foot * dense);
    this.canvas.style.width = `${right}px`;
    this.canvas.style.height = `${foot}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(dense, dense);
    this.paint(pen, this.boxes);
  }

  paint(pen, boxes) {
    pen.imageSmoothingQuality = "high";
    this.photos.forEach((photo, side) => pen.drawImage(photo, ...boxes[side]));
    const picked = this.picked !== null ? this.matches[this.picked] : null;
    if (picked) {
      pen.fillStyle = "rgba(10, 12, 16, .35)";
      boxes.forEach(box => pen.fillRect(...box));
    }
    const foot = boxes[0][1] + boxes[0][3];
    const size = Math.min(1, Math.max(0.75, (boxes[0][2] + boxes[1][2]) / 1000)); // smaller dots on a phone
    const drawn = this.matches.map((match, k) => {
      const from = this.place(0, match.x1, match.y1, boxes), to = this.place(1, match.x2, match.y2, boxes);
      return {k, match, from, to, ink: match.colour ?? (match.kind === "bad" ? REJECTED : green(from[1] / foot))};
    }).filter(({match}) => match.shown !== false);
    const step = this.lines === "all" ? 1 : Math.max(1, drawn.filter(({match}) => match.kind !== "bad").length / SOME);
    let place = 0;
    for (const good of [false, true]) for (const {match, from, to, ink} of drawn) {
      if ((match.kind !== "bad") !== good) continue;
      const lined = this.lines !== "none" && (!good || Math.floor(place / step) !== Math.floor((place - 1) / step));
      if (good) place++;
      const faint = picked ? 0.25 : 1;
      if (lined) {
        pen.globalAlpha = faint * (match.kind === "bad" ? 0.3 : match.kind === "shared" ? 0.4 : 0.8);
        pen.strokeStyle = ink;
        pen.lineWidth = match.kind === "bad" ? 0.8 : 1.4;
        pen.beginPath();
        pen.moveTo(...from);
        pen.lineTo(...to);
        pen.stroke();
      }
      pen.globalAlpha = faint * (match.kind === "bad" ? 0.7 : match.kind === "shared" ? 0.8 : 1);
      for (const end of [from, to]) dot(pen, end, size * DOT * (match.kind === "bad" || match.kind === "shared" ? 0.7 : 1), ink);
    }
    pen.globalAlpha = 1;
    if (picked) this.highlight(pen, drawn.find(({k}) => k === this.picked));
  }

  highlight(pen, {from, to, ink}) {
    for (const [colour, wide] of [["rgba(10, 12, 16, .8)", 5], ["#fff", 2.4]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = wide;
      pen.beginPath();
      pen.moveTo(...from);
      pen.lineTo(...to);
      pen.stroke();
    }
    for (const end of [from, to]) { dot(pen, end, 7, "#fff"); dot(pen, end, 4.5, ink); }
  }

  // The match with an end near the pointer, or whose line passes under it.
  nearest(event, reach) {
    if (!this.boxes) return null;
    const x = event.offsetX, y = event.offsetY;
    let found = null, best = reach;
    for (const k of this.order ?? []) {
      const match = this.matches[k], from = this.place(0, match.x1, match.y1), to = this.place(1, match.x2, match.y2);
      const away = Math.min(Math.hypot(from[0] - x, from[1] - y), Math.hypot(to[0] - x, to[1] - y),
        this.lines === "none" ? Infinity : 6 + 2 * fromLine([x, y], from, to));
      if (away < best) [found, best] = [k, away];
    }
    return found;
  }

  key(event) {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    if (event.key === "Escape") { this.pinned = false; this.pick(null); return; }
    if (!step || !this.order?.length) return;
    event.preventDefault();
    const place = this.order.indexOf(this.picked);
    this.pinned = true;
    this.pick(this.order[place < 0 ? 0 : (place + step + this.order.length) % this.order.length]);
  }

  pick(k) {
    if (k === this.picked) return;
    this.picked = k;
    this.onpick(k);
    this.draw();
  }

  // The picture as a file, with its caption: at 1,800 pixels or more, whatever the screen.
  async file(caption) {
    const boxes = this.layout(1800, 1200), strip = 52;
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(...boxes.map(box => box[0] + box[2]));
    canvas.height = Math.max(...boxes.map(box => box[1] + box[3])) + strip;
    const pen = canvas.getContext("2d"), picked = this.picked;
    pen.fillStyle = "#16181d";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    this.picked = null;
    this.paint(pen, boxes);
    this.picked = picked;
    pen.fillStyle = "#e8eaed";
    pen.font = "22px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillText(caption, 16, canvas.height - strip / 2);
    return new Promise(resolve => canvas.toBlob(resolve, "image/png"));
  }
}

function dot(pen, [x, y], radius, ink) {
  for (const [size, colour] of [[radius + 1, "rgba(10, 12, 16, .75)"], [radius, ink]]) { // a dark rim keeps neighbours apart
    pen.fillStyle = colour;
    pen.beginPath();
    pen.arc(x, y, size, 0, 2 * Math.PI);
    pen.fill();
  }
}

function fromLine([x, y], [x1, y1], [x2, y2]) {
  const [dx, dy] = [x2 - x1, y2 - y1], part = Math.min(1, Math.max(0, ((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - x1 - part * dx, y - y1 - part * dy);
}

// The region of a photo that a descriptor looks at, turned and scaled as it sees it.
export function patch(photo, [width, height], x, y, [a, b, c, d], support, side = 112) {
  const canvas = document.createElement("canvas"), dense = 2;
  canvas.className = "patch";
  canvas.width = canvas.height = side * dense;
  const pen = canvas.getContext("2d"), scale = support / (side * dense), area = (a * d - b * c) * scale || 1e-9;
  // From pixels of the photo to pixels of the patch: the inverse of [a b; c d] times the width of a pixel.
  const [m11, m12, m21, m22] = [d / area, -b / area, -c / area, a / area];
  const middle = side * dense / 2;
  pen.setTransform(m11, m21, m12, m22, middle - m11 * x - m12 * y, middle - m21 * x - m22 * y);
  pen.imageSmoothingQuality = "high";
  pen.drawImage(photo, -0.5, -0.5, width, height);
  return canvas;
}
