// A point cloud and its cameras in WebGL: drag to turn, shift-drag (or right button) to move, wheel or pinch to zoom.
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
    `attribute vec3 xyz; attribute vec3 rgb; uniform mat4 view; uniform float size; varying vec3 colour;
     void main() { gl_Position = view * vec4(xyz, 1.); gl_PointSize = max(1., size * clamp(sqrt(2.5 / gl_Position.w), .4, 2.5)); colour = rgb; }`,
    `precision mediump float; varying vec3 colour;
     void main() { if (length(gl_PointCoord - .5) > .5) discard; gl_FragColor = vec4(colour, 1.); }`);
  const frame = program(
    `attribute vec3 centre; attribute vec3 way; uniform mat4 view; uniform float size;
     void main() { gl_Position = view * vec4(centre + size * way, 1.); }`,
    `precision mediump float; uniform vec3 ink; void main() { gl_FragColor = vec4(ink, 1.); }`);
  const buffers = [points, colours, lines].map(data => {
    const buffer = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
    return buffer;
  });
  gl.enable(gl.DEPTH_TEST);

  const home = () => ({target: [0, 0, 0], yaw: model.yaw, pitch: 0.35, distance: 2.2 * model.reach});
  let eye = home(), pointSize = model.size, cameraSize = 1, hovered = -1, waiting = false;
  const redraw = () => { if (!waiting) { waiting = true; requestAnimationFrame(draw); } };

  const screenFromModel = () => multiply(perspective(canvas.clientWidth / canvas.clientHeight), lookAt());

  function draw() {
    waiting = false;
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
    gl.uniform1f(gl.getUniformLocation(cloud, "size"), pointSize * dense);
    gl.drawArrays(gl.POINTS, 0, count);

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
    const f = 1 / Math.tan(Math.PI / 8), near = eye.distance / 100, far = eye.distance + 100;
    const wide = Math.min(1, aspect); // in a narrow window the width decides
    return [f * wide / aspect, 0, 0, 0, 0, f * wide, 0, 0, 0, 0, (far + near) / (near - far), -1, 0, 0, 2 * far * near / (near - far), 0];
  }

  function multiply(a, b) {
    const product = new Float32Array(16);
    for (let c = 0; c < 4; c++) for (let r = 0; r < 4; r++) for (let k = 0; k < 4; k++)
      product[4 * c + r] += a[4 * k + r] * b[4 * c + k];
    return product;
  }

  function cameraAt(x, y) { // the camera whose centre is nearest to a place on the screen, if one is near
    const matrix = screenFromModel();
    let found = -1, nearest = 14;
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
      label.textContent = `${model.names[c]} (${model.seen[c].toLocaleString()} points)`;
      label.style.transform = `translate(${Math.min(x + 14, canvas.clientWidth - label.offsetWidth - 8)}px, ${y + 14}px)`;
    }
    if (c !== hovered) { hovered = c; redraw(); }
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
    const c = cameraAt(event.clientX, event.clientY);
    if (travelled < 4 && c >= 0) lookThrough(c);
  });
  canvas.addEventListener("pointercancel", event => held.delete(event.pointerId));
  canvas.addEventListener("wheel", event => { event.preventDefault(); zoom(Math.exp(event.deltaY * 0.001)); }, {passive: false});
  canvas.addEventListener("contextmenu", event => event.preventDefault());
  document.getElementById("points").addEventListener("input", event => { pointSize = +event.target.value; redraw(); });
  document.getElementById("cameras").addEventListener("input", event => { cameraSize = +event.target.value; redraw(); });
  document.getElementById("home").addEventListener("click", () => { eye = home(); redraw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("resize", redraw);
  redraw();
}
