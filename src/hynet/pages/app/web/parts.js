// Small parts of the page. Text from outside only ever becomes text, never HTML.

export const $ = (selector, inside = document) => inside.querySelector(selector);

export function make(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties))
    if (name in made && name !== "list" && name !== "form") made[name] = value; else made.setAttribute(name, value);
  made.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return made;
}

export const count = number => number.toLocaleString("en");

export const milliseconds = seconds =>
  seconds >= 10 ? `${seconds.toFixed(0)} s` : seconds >= 1 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds * 1000)} ms`;

const problem = $("#problem");
$("button", problem).onclick = () => { problem.hidden = true; };

export function complain(error) {
  problem.hidden = !error;
  if (error) $("span", problem).textContent = error.message ?? error;
}

export function save(content, name, type) {
  const blob = content instanceof Blob ? content : new Blob([content], {type});
  const link = make("a", {href: URL.createObjectURL(blob), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// A command or a snippet to copy.
export function code(title, text) {
  const button = make("button", {type: "button", className: "small", textContent: "Copy"});
  button.onclick = async () => {
    const shown = button.closest("details").querySelector("code");
    try {
      await navigator.clipboard.writeText(shown.textContent);
      button.textContent = "Copied";
    } catch { // no clipboard without https
      getSelection().selectAllChildren(shown);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  return make("details", {className: "code"}, make("summary", {}, title), make("pre", {}, make("code", {textContent: text})), button);
}

// The end of a path that no other of the choices has.
function called(value, others) {
  const steps = value.split("/"), end = (path, length) => path.split("/").slice(-length).join("/");
  const length = steps.findIndex((_, k) => !others.some(other => other !== value && end(other, k + 1) === end(value, k + 1))) + 1;
  return end(value, length || steps.length);
}

export function select(label, name, choices, chosen) {
  const named = Array.isArray(choices) ? Object.fromEntries(choices.map(choice => [choice, ""])) : choices;
  const options = Object.entries(named).map(([value, about]) =>
    make("option", {value, textContent: called(value, Object.keys(named)), title: about, selected: value === chosen}));
  return make("label", {className: "field"}, make("span", {}, label), make("select", {name}, options));
}

// A slider; with `automatic` it stands aside until it is touched, and a button puts it aside again.
export function slider(label, name, {min, max, step, value, automatic = false, unit = "", onchange}) {
  const input = make("input", {type: "range", name, min, max, step, value, "aria-label": label});
  const output = make("output");
  const back = make("button", {type: "button", className: "small", textContent: "auto", title: "as suits the model"});
  const field = make("label", {className: "field slider"}, make("span", {}, label, " ", output, automatic ? back : null), input);
  let own = !automatic;
  const show = () => {
    output.textContent = `${(+input.value).toLocaleString("en", {maximumFractionDigits: 2})}${unit}`;
    field.classList.toggle("automatic", !own);
    back.hidden = !own;
  };
  input.oninput = () => { own = true; show(); onchange(); };
  back.onclick = event => { event.preventDefault(); own = false; show(); onchange(); };
  show();
  return {
    field, input,
    get value() { return own ? +input.value : null; },
    suggest(number) { if (!own && number !== null && number !== undefined) { input.value = number; show(); } },
  };
}
