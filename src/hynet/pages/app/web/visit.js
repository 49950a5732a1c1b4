// One open page, as the server knows it. When the page closes, the server throws everything away.

export class Problem extends Error {} // a sentence for people

let key = "", offers = null, source = null;
const listeners = [], restorers = [];

export const at = path => `/visits/${key}/${path}`;
export const listen = listener => listeners.push(listener);
export const restoring = restore => restorers.push(restore); // brings the server what it held of the page

export async function begin() {
  offers = await answer(await reach("/visits", {method: "POST"}));
  key = offers.visit;
  source?.close();
  source = new EventSource(at("events"));
  source.onmessage = event => tell(JSON.parse(event.data));
  source.onerror = () => { if (source.readyState === EventSource.CLOSED) tell({stage: "lost"}); };
  return offers;
}

const tell = news => listeners.forEach(listener => listener(news));

// The server forgets a page that was out of reach; all that it held is brought once more.
export async function again(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Gone)) throw error;
    await begin();
    for (const restore of restorers) await restore();
    return work();
  }
}

export const post = async (path, value) =>
  answer(await reach(at(path), {method: "POST", body: value === undefined ? null : JSON.stringify(value)}));

export async function upload(path, file) {
  if (file.size > offers.limits.bytes)
    throw new Problem(`${file.name} has ${Math.ceil(file.size / 1e6)} MB, and the page takes ${offers.limits.bytes / 1e6}; save it smaller.`);
  return answer(await reach(at(path), {method: "POST", body: file, headers: {"X-Name": encodeURIComponent(file.name)}}));
}

export class Gone extends Problem {} // the server has forgotten this page

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new Problem("The server does not answer; is hynet app still running?");
  }
}

async function answer(response) {
  const told = await response.json().catch(() => ({problem: `The server answered ${response.status}.`}));
  if (response.ok) return told;
  const sentence = told.problem.charAt(0).toUpperCase() + told.problem.slice(1);
  throw response.status === 410 ? new Gone(sentence) : new Problem(sentence);
}

// Not when the page is only put aside: a browser may bring it back as it was.
addEventListener("pagehide", event => { if (key && !event.persisted) navigator.sendBeacon(at("end")); });
