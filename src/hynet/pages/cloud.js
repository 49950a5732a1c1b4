// A point cloud and its cameras in WebGL: drag to turn, shift-drag (or right button) to move, wheel or pinch to zoom;
// arrow keys, + and - too.
// The model comes in #model as JSON: centred, z up, about as large as 1; see view.py.
const model = JSON.parse(document.getElementById("model").textContent);
const canvas = document.querySelector("canvas"), label = document.getElementById("label");
const gl = canvas.getContext("webgl", {antialias: true});
if (!gl) document.getElementById("help").textContent = "This browser shows no WebGL, so there is no picture.";
else start();

function start() {
  const bytes = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const points = new Float32Array(bytes(model.points).buffer), colours = bytes(model.colours);
  const corners = new Float32Array(bytes(model.frusta).buffer); // camera after camera: its centre, then four corners
  const count = points.length / 3, cameras = model.names.length;
  const EDGES = [0, 1, 0, 2, 0, 3, 0, 4, 1, 2, 2, 3, 3, 4, 4, 1, 1, 2]; // the upper edge, 1-2, twice: it marks the top
  const lines = new Float32Array(cameras * EDGES.length * 6); // centre, then the way from it to the vertex
  for (let c = 0, at = 0; c < cameras; c++) for (const corner of EDGES) {
    for (let k = 0; k < 3; k++, at++) lines[at] = corners[15 * c + k];
    for (let k = 0; k < 3; k++, at++) lines[at] = corners[15 * c + 3 * corner + k] - corners[15 * c + k];
  }

  const cloud = program(
    `attribute vec3 xyz; attribute vec3 rgb; attribute float apart; uniform mat4 view; uniform float size; uniform float dense;
     varying vec3 colour; // as large as the gaps between points, within reason
     void main() { gl_Position = view * vec4(xyz, 1.); gl_PointSize = dense * clamp(.8 * size * apart / gl_Position.w, 1.5, 6.); colour = rgb; }`,
    `precision mediump float; varying vec3 colour;
     void main() { if (length(gl_PointCoord - .5) > .5) discard; gl_FragColor = vec4(colour, 1.); }`);
  const frame = program(
    `attribute vec3 centre; attribute vec3 way; uniform mat4 view; uniform float size;
     void main() { gl_Position = view * vec4(centre + size * way, 1.); }`,
    `precision mediump float; uniform vec3 ink; void main() { gl_FragColor = vec4(ink, 1.); }`);
  const picture = program(
    `attribute vec3 centre; attribute vec3 way; attribute vec2 at; uniform mat4 view; uniform float size; varying vec2 place;
     void main() { gl_Position = view * vec4(centre + size * way, 1.); place = at; }`,
    `precision mediump float; uniform sampler2D atlas; varying vec2 place; void main() { gl_FragColor = texture2D(atlas, place); }`);
  const thumbnails = model.thumbnails, quads = [];
  if (thumbnails) thumbnails.cells.forEach((cell, c) => {
    if (cell < 0) return;
    const column = cell % thumbnails.columns, row = Math.floor(cell / thumbnails.columns), edge = 0.01; // not the neighbour's
    const places = [[edge, edge], [1 - edge, edge], [1 - edge, 1 - edge], [edge, 1 - edge]];
    for (const k of [0, 1, 2, 0, 2, 3]) {
      const centre = corners.subarray(15 * c, 15 * c + 3), corner = corners.subarray(15 * c + 3 * (k + 1), 15 * c + 3 * (k + 2));
      quads.push(...centre, ...corner.map((value, axis) => value - centre[axis]),
        (column + places[k][0]) / thumbnails.columns, (row + places[k][1]) / thumbnails.rows);
    }
  });
  const buffers = [points, colours, lines, bytes(model.spacing), new Float32Array(quads)].map(data => {
    const buffer = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
    return buffer;
  });
  gl.enable(gl.DEPTH_TEST);
  const atlas = new Image();
  let textured = false;
  if (thumbnails) {
    atlas.onload = () => {
      gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGB, gl.RGB, gl.UNSIGNED_BYTE, atlas);
      for (const [name, value] of [["MIN_FILTER", "LINEAR"], ["MAG_FILTER", "LINEAR"], ["WRAP_S", "CLAMP_TO_EDGE"], ["WRAP_T", "CLAMP_TO_EDGE"]])
        gl.texParameteri(gl.TEXTURE_2D, gl[`TEXTURE_${name}`], gl[value]);
      textured = true;
      redraw();
    };
    atlas.src = thumbnails.picture;
  }

  const FOCAL = 1 / Math.tan(Math.PI / 8);
  let eye, pointSize = 1, cameraSize = 1, hovered = -1, waiting = false;
  const home = () => { // where all but the farthest points and cameras fill the page
    eye = {target: [0, 0, 0], yaw: model.yaw, pitch: 0.35, distance: 2.2 * model.reach};
    const [right, up, back] = axes(), dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    const placed = (values, stride, step) => Array.from({length: Math.ceil(values.length / stride / step)}, (_, k) => {
      const place = values.subarray(stride * step * k, stride * step * k + 3);
      return [right, up, back].map(axis => dot(axis, place));
    });
    const all = [[placed(points, 3, Math.max(1, Math.floor(count / 3000))), 0.93], [placed(corners, 15, 1), 0.8]];
    const groups = all.filter(([group]) => group.length); // and the share of each that must be in sight
    const middle = [0, 1].map(k => {
      const ends = groups.map(([group, share]) => quantiles(group.map(place => place[k]), 1 - share, share));
      return (Math.min(...ends.map(end => end[0])) + Math.max(...ends.map(end => end[1]))) / 2;
    });
    const aspect = canvas.clientWidth / canvas.clientHeight, wide = Math.min(1, aspect);
    const half = [aspect / (FOCAL * wide), 1 / (FOCAL * wide)].map(value => 0.9 * value); // of the page, at a distance of 1
    const needed = place => Math.max(Math.abs(place[0] - middle[0]) / half[0], Math.abs(place[1] - middle[1]) / half[1]) + place[2];
    const far = Math.max(...groups.map(([group, share]) => quantiles(group.map(needed), share)[0]));
    eye.target = [0, 1, 2].map(k => middle[0] * right[k] + middle[1] * up[k]);
    eye.distance = Math.min(6 * model.reach, Math.max(0.05, far));
  };
  const quantiles = (values, ...shares) => {
    const sorted = [...values].sort((a, b) => a - b);
    return shares.map(share => sorted[Math.floor(share * (sorted.length - 1))]);
  };
  const redraw = () => { if (!waiting) { waiting = true; requestAnimationFrame(draw); } };

  const screenFromModel = () => multiply(perspective(canvas.clientWidth / canvas.clientHeight), lookAt());

  function draw() {
    waiting = false;
    if (!canvas.clientWidth || !canvas.clientHeight) return;
    const dense = window.devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * dense;
    canvas.height = canvas.clientHeight * dense;
    gl.viewport(0, 0, canvas.width, canvas.height);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    gl.clearColor(...(dark ? [0.07, 0.08, 0.09] : [1, 1, 1]), 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const matrix = screenFromModel();

    gl.useProgram(cloud);
    attribute(cloud, "xyz", buffers[0], 3, gl.FLOAT, 0, 0);
    attribute(cloud, "rgb", buffers[1], 3, gl.UNSIGNED_BYTE, 0, 0);
    gl.uniformMatrix4fv(gl.getUniformLocation(cloud, "view"), false, matrix);
    attribute(cloud, "apart", buffers[3], 1, gl.UNSIGNED_BYTE, 0, 0);
    const pixels = canvas.clientHeight / 2 * FOCAL * Math.min(1, canvas.clientWidth / canvas.clientHeight); // of 1, at a distance of 1
    gl.uniform1f(gl.getUniformLocation(cloud, "size"), pointSize * model.sparse * pixels);
    gl.uniform1f(gl.getUniformLocation(cloud, "dense"), dense * Math.min(1.5, Math.max(1, pointSize)));
    gl.drawArrays(gl.POINTS, 0, count);

    if (textured && cameraSize > 0) {
      gl.useProgram(picture);
      attribute(picture, "centre", buffers[4], 3, gl.FLOAT, 32, 0);
      attribute(picture, "way", buffers[4], 3, gl.FLOAT, 32, 12);
      attribute(picture, "at", buffers[4], 2, gl.FLOAT, 32, 24);
      gl.uniformMatrix4fv(gl.getUniformLocation(picture, "view"), false, matrix);
      gl.uniform1f(gl.getUniformLocation(picture, "size"), cameraSize);
      gl.drawArrays(gl.TRIANGLES, 0, quads.length / 8);
    }

    gl.useProgram(frame);
    attribute(frame, "centre", buffers[2], 3, gl.FLOAT, 24, 0);
    attribute(frame, "way", buffers[2], 3, gl.FLOAT, 24, 12);
    gl.uniformMatrix4fv(gl.getUniformLocation(frame, "view"), false, matrix);
    gl.uniform1f(gl.getUniformLocation(frame, "size"), cameraSize);
    gl.uniform3fv(gl.getUniformLocation(frame, "ink"), dark ? [0.42, 0.69, 1] : [0.04, 0.39, 0.77]);
    if (cameraSize > 0) gl.drawArrays(gl.LINES, 0, cameras * EDGES.length);
    if (hovered >= 0) {
      gl.disable(gl.DEPTH_TEST);
      gl.uniform1f(gl.getUniformLocation(frame, "size"), Math.max(cameraSize, 0.5) * 1.6);
      gl.uniform3fv(gl.getUniformLocation(frame, "ink"), [1, 0.5, 0.1]);
      gl.drawArrays(gl.LINES, hovered * EDGES.length, EDGES.length);
      gl.enable(gl.DEPTH_TEST);
    }
  }

  function program(vertex, fragment) {
    const made = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(made, shader);
    }
    gl.linkProgram(made);
    return made;
  }

  function attribute(user, name, buffer, size, type, stride, offset) {
    const place = gl.getAttribLocation(user, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, size, type, type === gl.UNSIGNED_BYTE, stride, offset);
  }

  // Unit vectors of the screen in the model: right, up, and from the target towards the eye.
  function axes() {
    const [cy, sy, cp, sp] = [Math.cos(eye.yaw), Math.sin(eye.yaw), Math.cos(eye.pitch), Math.sin(eye.pitch)];
    return [[-sy, cy, 0], [-sp * cy, -sp * sy, cp], [cp * cy, cp * sy, sp]];
  }

  function lookAt() { // matrices are column after column, as WebGL wants them
    const [right, up, back] = axes(), dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    const rows = [right, up, back].map(axis => [...axis, -dot(axis, eye.target)]);
    rows[2][3] -= eye.distance;
    return [0, 1, 2, 3].flatMap(k => [rows[0][k], rows[1][k], rows[2][k], k === 3 ? 1 : 0]);
  }

  function perspective(aspect) {
    const f = FOCAL, near = eye.distance / 100, far = eye.distance + 100;
    const wide = Math.min(1, aspect); // in a narrow window the width decides
    return [f * wide / aspect, 0, 0, 0, 0, f * wide, 0, 0, 0, 0, (far + near) / (near - far), -1, 0, 0, 2 * far * near / (near - far), 0];
  }

  function multiply(a, b) {
    const product = new Float32Array(16);
    for (let c = 0; c < 4; c++) for (let r = 0; r < 4; r++) for (let k = 0; k < 4; k++)
      product[4 * c + r] += a[4 * k + r] * b[4 * c + k];
    return product;
  }

  function cameraAt(x, y, nearest = 14) { // the camera whose centre is nearest to a place on the screen, if one is near
    const matrix = screenFromModel();
    let found = -1;
    for (let c = 0; c < cameras; c++) {
      const [X, Y, Z] = corners.subarray(15 * c, 15 * c + 3);
      const [px, py, , w] = [0, 1, 2, 3].map(r => matrix[r] * X + matrix[4 + r] * Y + matrix[8 + r] * Z + matrix[12 + r]);
      if (w <= 0) continue;
      const away = Math.hypot((px / w + 1) / 2 * canvas.clientWidth - x, (1 - py / w) / 2 * canvas.clientHeight - y);
      if (away < nearest) [found, nearest] = [c, away];
    }
    return found;
  }

  function lookThrough(c) {
    const at = [...corners.subarray(15 * c, 15 * c + 3)];
    const middle = [0, 1, 2].map(k => [1, 2, 3, 4].reduce((sum, corner) => sum + corners[15 * c + 3 * corner + k], 0) / 4);
    const way = middle.map((value, k) => value - at[k]), length = Math.hypot(...way);
    const distance = model.depths[c];
    const ahead = way.map(value => value / length);
    eye = {target: at.map((value, k) => value + distance * ahead[k]), distance,
      yaw: Math.atan2(-ahead[1], -ahead[0]), pitch: Math.asin(-ahead[2])};
    [label.hidden, hovered] = [true, -1];
    redraw();
  }

  function hover(x, y) {
    const c = cameraAt(x, y);
    label.hidden = c < 0;
    if (c >= 0) {
      label.querySelector("span").textContent = `${model.names[c]} (${model.seen[c].toLocaleString()} points)`;
      showThumbnail(c);
      label.style.transform = `translate(${Math.min(x + 14, canvas.clientWidth - label.offsetWidth - 8)}px, ${y + 14}px)`;
    }
    if (c !== hovered) { hovered = c; redraw(); }
  }

  function showThumbnail(c) {
    const small = label.querySelector("canvas"), cell = textured ? thumbnails.cells[c] : -1;
    small.hidden = cell < 0;
    if (cell < 0) return;
    const [width, height] = [atlas.width / thumbnails.columns, atlas.height / thumbnails.rows], aspect = thumbnails.aspects[c];
    [small.width, small.height] = aspect > 1 ? [2 * width, 2 * height / aspect] : [2 * width * aspect, 2 * height];
    small.getContext("2d").drawImage(atlas, cell % thumbnails.columns * width, Math.floor(cell / thumbnails.columns) * height,
      width, height, 0, 0, small.width, small.height);
  }

  function move(dx, dy) {
    const [right, up] = axes(), reach = eye.distance * 0.83 / Math.min(canvas.clientHeight, canvas.clientWidth);
    eye.target = eye.target.map((value, k) => value - reach * (dx * right[k] - dy * up[k]));
  }

  const zoom = factor => { eye.distance = Math.min(50, Math.max(0.01, eye.distance * factor)); redraw(); };
  const held = new Map(); // pointers that are down: id -> last place
  let travelled = 0;
  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, [event.clientX, event.clientY]);
    travelled = 0;
  });
  canvas.addEventListener("pointermove", event => {
    const last = held.get(event.pointerId), here = [event.clientX, event.clientY];
    if (!last) return hover(...here);
    const [dx, dy] = [here[0] - last[0], here[1] - last[1]];
    travelled += Math.hypot(dx, dy);
    if (held.size === 2) {
      const other = [...held].find(([id]) => id !== event.pointerId)[1];
      const apart = place => Math.hypot(place[0] - other[0], place[1] - other[1]);
      zoom(apart(last) / Math.max(1, apart(here)));
      move(dx / 2, dy / 2);
    } else if (event.shiftKey || event.buttons & 6) move(dx, dy);
    else {
      eye.yaw -= dx * 0.006;
      eye.pitch = Math.min(1.55, Math.max(-1.55, eye.pitch + dy * 0.006));
    }
    held.set(event.pointerId, here);
    redraw();
  });
  canvas.addEventListener("pointerup", event => {
    held.delete(event.pointerId);
    const finger = event.pointerType === "touch", c = cameraAt(event.clientX, event.clientY, finger ? 30 : 14);
    if (travelled < (finger ? 12 : 4) && c >= 0) lookThrough(c);
  });
  canvas.addEventListener("pointercancel", event => held.delete(event.pointerId));
  canvas.addEventListener("wheel", event => { event.preventDefault(); zoom(Math.exp(event.deltaY * 0.001)); }, {passive: false});
  canvas.addEventListener("contextmenu", event => event.preventDefault());
  document.getElementById("points").addEventListener("input", event => { pointSize = +event.target.value; redraw(); });
  document.getElementById("cameras").addEventListener("input", event => { cameraSize = +event.target.value; redraw(); });
  document.getElementById("home").addEventListener("click", () => { home(); redraw(); });
  addEventListener("keydown", event => {
    const turns = {ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1]}[event.key];
    if (event.target.tagName === "INPUT" || !turns && !"+-".includes(event.key)) return;
    if (turns) [eye.yaw, eye.pitch] = [eye.yaw + turns[0], Math.min(1.55, Math.max(-1.55, eye.pitch + turns[1]))];
    else zoom(event.key === "+" ? 0.9 : 1.1);
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("resize", () => { if (!(eye.distance > 0)) home(); redraw(); }); // it may have begun in a hidden frame
  home();
  redraw();
}
