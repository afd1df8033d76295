// The page of a world: it draws the state of the server and sends operations. Texts of the server are never
// interpreted as HTML.
"use strict";

const $ = id => document.getElementById(id);

// make creates an element with attributes and content.
function make(tag, attributes = {}, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") {
      element.addEventListener("click", value);
    } else if (value !== null && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...content);
  return element;
}

// fill replaces the rows of an element and preserves the focus. Focusable elements have a data-key.
function fill(parent, rows) {
  const key = parent.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  parent.replaceChildren(...rows);
  if (key !== undefined) {
    [...parent.querySelectorAll("[data-key]")].find(e => e.dataset.key === key)?.focus({ preventScroll: true });
  }
}

// choices replaces the options of a select and keeps the selected value if possible.
function choices(select, options) {
  const previous = select.value;
  if ([...select.options].map(o => o.value + o.text).join("\n") === options.map(o => o.value + o.text).join("\n")) {
    return;
  }
  select.replaceChildren(...options.map(o => make("option", { value: o.value }, o.text)));
  select.value = options.some(o => o.value === previous) ? previous : options[0]?.value ?? "";
}

// ---- operations

let running = false;

let sent = Promise.resolve(); // the last request

// send posts a request after the requests before it, and shows the resulting message. It returns
// the result, or null on error.
function send(path, body = "") {
  sent = sent.catch(() => null).then(() => post(path, body));
  return sent;
}

async function post(path, body) {
  let reply;
  try {
    reply = await fetch(path, { method: "POST", body });
  } catch {
    showMessage("no response from volsim serve: check that it is running", true);
    return null;
  }
  if (!reply.ok) {
    showMessage((await reply.text()).trim(), true);
    return null;
  }
  const result = await reply.json();
  showMessage(result.message.trim(), false);
  return result;
}

function showMessage(text, isError) {
  $("message").textContent = text;
  $("message").classList.toggle("error", isError);
  $("message").hidden = text === "";
  $("message").scrollTop = $("message").scrollHeight; // show the end
}

// act executes operations in order until one fails. It pauses a run.
async function act(...ops) {
  pause();
  for (const op of ops) {
    if (await send("/do", op) === null) {
      return;
    }
  }
}

// run executes steps at the chosen speed until nothing is left to do or the user pauses.
async function run() {
  running = true;
  $("run").disabled = true;
  $("pause").disabled = false;
  while (running) {
    const result = await send("/do", "step");
    if (result === null || !result.advanced) {
      break;
    }
    await new Promise(resolve => setTimeout(resolve, 1000 / 2 ** Number($("speed").value)));
  }
  pause();
}

function pause() {
  running = false;
  $("run").disabled = false;
  $("pause").disabled = true;
}

$("step").onclick = () => act("step");
$("rest").onclick = () => act("rest");
$("run").onclick = run;
$("pause").onclick = pause;
$("undo").onclick = () => { pause(); send("/undo"); };
$("reset").onclick = () => { pause(); send("/reset"); };
$("load").querySelector("input").onchange = async event => {
  pause();
  const [file] = event.target.files;
  if (file) {
    await send("/load", await file.text());
  }
  event.target.value = "";
};
$("controls").onsubmit = async event => {
  event.preventDefault();
  pause();
  const op = $("op").value;
  $("op").value = ""; // the next operation may be typed before this one is done
  if (await send("/do", op) === null && $("op").value === "") {
    $("op").value = op;
  }
};
for (const example of $("begin").querySelectorAll("button")) {
  example.onclick = () => act(example.textContent);
}
$("fail").onsubmit = event => {
  event.preventDefault();
  act(`fail ${$("fail-kind").value} ${$("fail-target").value}`.trim());
};

// ---- state

const drawn = new Map(); // last drawn version of each object

function drawObjects(objects) {
  const rows = [];
  for (const o of objects) {
    const changed = drawn.size > 0 && drawn.get(o.name) !== o.version;
    rows.push(make("tr", { class: changed ? "object changed" : "object" },
      make("td", { class: "name" }, o.name), make("td", {}, o.state === "none" ? "deleted" : o.state), make("td", { class: "version" }, o.version ? `rv ${o.version}` : "")));
    for (const reason of o.reasons) {
      rows.push(make("tr", { class: "reason" }, make("td", { colspan: 3 }, reason)));
    }
    for (const c of o.stale) {
      const cells = c.version ? [make("td", {}, `stale in ${c.component}`), make("td", {}, c.state), make("td", { class: "version" }, `rv ${c.version}`)]
        : [make("td", { colspan: 3 }, `not in the cache of ${c.component}`)];
      rows.push(make("tr", { class: "stale" }, ...cells));
    }
  }
  drawn.clear();
  objects.forEach(o => drawn.set(o.name, o.version));
  fill($("objects"), rows);
  $("no-objects").hidden = objects.length > 0;
  choices($("about"), [{ value: "", text: "all objects" }, ...objects.filter(o => o.key).map(o => ({ value: o.key, text: o.name }))]);
}

function drawEvents(events) {
  fill($("events"), events.map(e => make("tr", { class: e.warning ? "warning" : null },
    make("td", {}, `${e.ago} ago`), make("td", {}, e.reason), make("td", {}, e.object),
    make("td", {}, e.message + (e.count > 1 ? ` (${e.count} times)` : "")), make("td", {}, e.by))));
  $("no-events").hidden = events.length > 0;
  $("events-count").textContent = events.length > 0 ? `(${events.length})` : "";
}

function drawNext(options) {
  const first = options.findIndex(o => o.held === "");
  fill($("next"), options.map((o, i) => {
    const hold = o.held === ""
      ? make("button", { type: "button", class: "small", "data-key": `hold ${o.task}`, title: "do not schedule until released", onclick: () => act(`hold ${o.hold}`) }, "hold")
      : make("button", { type: "button", class: "small", "data-key": `hold ${o.task}`, onclick: () => act(`release ${o.held}`) }, "release");
    const row = make("li", { class: o.held !== "" ? "held" : i === first ? "first" : null },
      make("button", { type: "button", class: "act", "data-key": `step ${o.task}`, title: `step ${o.task}`, onclick: () => act(`step ${o.task}`) },
        make("span", { class: "task" }, o.label), " ", o.description, o.held !== "" ? " (held)" : ""), hold);
    if (o.faults.length > 0) {
      row.insertBefore(faultSelect(o), hold);
    }
    return row;
  }));
  $("no-steps").hidden = options.length > 0;
}

// faultSelect returns a select that injects a fault into the call of an option.
function faultSelect(option) {
  const component = option.task.split("/")[0];
  const select = make("select", { class: "small", "data-key": `fault ${option.task}`, "aria-label": "fault" },
    make("option", { value: "" }, "fail…"), ...option.faults.map(f => make("option", { value: f }, f)));
  select.onchange = () => act(`fail ${select.value} ${component}`, `step ${option.task}`);
  return select;
}

const expanded = new Set(); // targets with all operations visible

// drawTargets draws components and nodes with their events. Only those of a stepped world can be held.
function drawTargets(targets, stepped) {
  fill($("targets"), targets.map(t => {
    const operation = op => {
      const label = op.replace(` ${t.name}`, "").replace(/ (driver)\(.*\)/, " $1");
      return make("button", { type: "button", class: "small", "data-key": op, title: op, onclick: () => act(op) }, label);
    };
    const common = t.ops.filter(op => !/ behind$|^replicate |^relist /.test(op));
    const others = t.ops.filter(op => !common.includes(op));
    const buttons = common.map(operation);
    if (t.component && stepped) {
      const op = `${t.held ? "release" : "hold"} ${t.name}`;
      buttons.unshift(make("button", { type: "button", class: "small", "data-key": `hold ${t.name}`, title: op, onclick: () => act(op) }, t.held ? "release" : "hold"));
    }
    if (others.length > 0 && expanded.has(t.name)) {
      buttons.push(...others.map(operation));
    } else if (others.length > 0) {
      const open = () => { expanded.add(t.name); drawTargets(targets, stepped); };
      buttons.push(make("button", { type: "button", class: "small", "data-key": `more ${t.name}`, title: `more events of ${t.name}`, onclick: open }, "…"));
    }
    const down = t.ops.some(op => op === `start ${t.name}` || op === `recover ${t.name}`);
    return make("tr", { class: (down ? "down " : "") + (t.held ? "held" : "") },
      make("td", { class: "name" }, t.name + (down ? " is down" : "") + (t.held ? " is held" : "")), make("td", { class: "can" }, ...buttons));
  }));
}

function drawFaults(controls) {
  drawTargets(controls.targets, true);
  fill($("other"), controls.other.map(op => make("button", { type: "button", class: "small", "data-key": op, title: meaning(op), onclick: () => act(op) }, op)));
  choices($("fail-target"), [{ value: "", text: "any component" }, ...controls.targets.filter(t => t.component).map(t => ({ value: t.name, text: t.name }))]);
  choices($("fail-kind"), controls.faults.map(f => ({ value: f, text: f })));
  $("next-fault").textContent = controls.nextFault ? `Fault of the next matching call: ${controls.nextFault}` : "";
  $("next-fault").hidden = controls.nextFault === "";
}

function meaning(op) {
  if (op === "tick") {
    return "advance the clock to the next timer, before other steps";
  }
  return op.startsWith("expire ") ? "compact the server's watch history: clients that lag behind must list again" : op;
}

function drawStory(story) {
  const panel = $("story-panel");
  const follow = atEnd(panel);
  $("story").replaceChildren(...story.split(/(?<=\n)/).map(line => {
    if (line.startsWith("> ")) {
      return make("span", { class: "op" }, line);
    }
    return line.includes("!! violation:") ? make("span", { class: "violation" }, line) : line;
  }));
  if (follow) {
    panel.scrollTop = panel.scrollHeight;
  }
}

function atEnd(panel) {
  return panel.scrollHeight - panel.scrollTop - panel.clientHeight < 60;
}

function draw(state) {
  const controls = state.controls;
  $("setup").textContent = state.setup;
  $("time").textContent = state.time ? `${state.time} since the start` : "";
  for (const id of ["next-panel", "stale-heading", "tab-story"]) {
    $(id).hidden = !controls;
  }
  $("controls").hidden = $("faults-panel").hidden = false;
  $("live").hidden = Boolean(controls);
  if (!controls && $("live-events").hidden) { // there is room next to the objects
    $("live-events").hidden = false;
    $("live-events").append(...$("events-panel").children);
    $("tab-events").hidden = true;
    $("faults-heading").textContent = "Components and nodes";
    document.querySelectorAll(".stepped").forEach(e => { e.hidden = true; });
    document.querySelectorAll("option.stepped").forEach(e => e.remove());
  }
  drawObjects(state.objects);
  drawEvents(state.events);
  if (!controls) {
    drawTargets(state.targets, false);
  } else {
    drawNext(controls.next);
    drawFaults(controls);
    drawStory(controls.story);
    $("undo").disabled = $("reset").disabled = controls.ops.length === 0;
    $("begin").hidden = controls.ops.length > 0;
    $("diagram").hidden = controls.ops.length === 0;
    $("violation").textContent = controls.violation ? `Invariant violated: ${controls.violation}` : "";
    $("violation").hidden = controls.violation === "";
  }
  document.body.dataset.version = state.version;
}

// ---- the diagram

const canvas = $("diagram").attachShadow({ mode: "open" });

const narrow = 700; // in pixels: below, the words of the diagram are below its rows

// narrowWidth returns the width of a narrow page's diagram, "" if there is room for the default.
function narrowWidth() {
  const width = Math.floor($("record").clientWidth) - 24;
  return width < narrow ? Math.max(width, 1) : "";
}

let drawnWidth = "";

window.addEventListener("resize", () => {
  if (narrowWidth() !== drawnWidth) {
    refresh();
  }
});

// drawDiagram fetches the diagram and inserts it, with its style as a separate style sheet.
async function drawDiagram() {
  drawnWidth = narrowWidth();
  const query = new URLSearchParams({ records: $("records").value, about: $("about").value, tasks: $("tasks").checked, width: drawnWidth });
  const reply = await fetch(`/diagram.svg?${query}`);
  if (!reply.ok) {
    showMessage((await reply.text()).trim(), true);
    return;
  }
  const [, before, style, after] = (await reply.text()).match(/^([^]*?)<style>([^]*?)<\/style>([^]*)$/);
  const picture = new DOMParser().parseFromString(before.replace(/ style="[^"]*"/, "") + after, "image/svg+xml").documentElement;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`${style} svg { display: block; } .heads { position: sticky; top: -8px; }`);
  canvas.adoptedStyleSheets = [sheet];
  const panel = $("diagram-panel");
  const follow = atEnd(panel);
  canvas.replaceChildren(heads(picture), document.importNode(picture, true)); // heads must run first: it cuts the picture
  if (follow) {
    panel.scrollTop = panel.scrollHeight;
  }
}

// heads moves the lane names to a separate picture, which stays visible during scrolling.
function heads(picture) {
  const [left, upper, width, whole] = picture.getAttribute("viewBox").split(" ").map(Number);
  const names = [...picture.querySelectorAll("text.text")];
  const first = Math.min(...names.map(n => Number(n.getAttribute("y"))));
  const lanes = Math.min(...[...picture.querySelectorAll("line.lane")].map(l => Number(l.getAttribute("y1"))));
  const copy = document.importNode(picture, false);
  copy.setAttribute("aria-hidden", true);
  if (!Number.isFinite(lanes)) {
    copy.setAttribute("height", 0);
    return copy;
  }
  const top = first - 14, height = lanes - top;
  const back = document.createElementNS(picture.namespaceURI, "rect");
  for (const [name, value] of Object.entries({ class: "page", x: left, y: top, width, height })) {
    back.setAttribute(name, value);
  }
  copy.append(back, ...names.filter(n => Number(n.getAttribute("y")) < lanes).map(n => document.importNode(n, true)));
  copy.setAttribute("viewBox", `${left} ${top} ${width} ${height}`);
  copy.setAttribute("height", height);
  copy.setAttribute("class", "volsim heads");
  picture.setAttribute("viewBox", `${left} ${lanes} ${width} ${upper + whole - lanes}`);
  picture.setAttribute("height", upper + whole - lanes);
  return copy;
}

for (const id of ["records", "about", "tasks"]) {
  $(id).onchange = () => refresh();
}

// ---- tabs

const tabs = ["diagram", "story", "events"];

function show(name) {
  for (const tab of tabs) {
    $(`tab-${tab}`).setAttribute("aria-selected", tab === name);
    $(`tab-${tab}`).tabIndex = tab === name ? 0 : -1;
    $(`${tab}-panel`).hidden = tab !== name;
  }
  $("drawn").hidden = name !== "diagram";
  if (name === "story") {
    $("story-panel").scrollTop = $("story-panel").scrollHeight;
  }
}

for (const tab of tabs) {
  $(`tab-${tab}`).onclick = () => show(tab);
  $(`tab-${tab}`).onkeydown = event => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by) {
      const visible = tabs.filter(t => !$(`tab-${t}`).hidden);
      const to = visible[(visible.indexOf(tab) + by + visible.length) % visible.length];
      show(to);
      $(`tab-${to}`).focus();
    }
  };
}
show("diagram");

// ---- changes

let drawing = false, outdated = false;

// refresh draws the current state. Changes in the meantime are drawn afterwards, with a minimum interval.
async function refresh() {
  outdated = true;
  if (drawing) {
    return;
  }
  drawing = true;
  while (outdated) {
    outdated = false;
    try {
      const reply = await fetch("/state");
      if (reply.ok) {
        draw(await reply.json());
        await drawDiagram();
      }
    } catch {
      break; // the stream of changes reports the lost connection
    }
    await new Promise(resolve => setTimeout(resolve, 50));
  }
  drawing = false;
}

const changes = new EventSource("/changes");
changes.onmessage = event => {
  if (event.data !== document.body.dataset.version) {
    refresh();
  }
};
changes.onopen = () => { $("lost").hidden = true; };
changes.onerror = () => { $("lost").hidden = false; pause(); };
