// The page of a world: it draws the state that the server tells of, and sends what is to be done. What the server says is
// text and stays text: nothing of it is ever read as HTML.
"use strict";

const $ = id => document.getElementById(id);

// make makes an element with attributes, and with texts or elements in it.
function make(tag, attributes = {}, ...within) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") {
      element.addEventListener("click", value);
    } else if (value !== null && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...within);
  return element;
}

// fill puts rows into a place, and the focus back to where it was: each thing that can have it has a data-key.
function fill(place, rows) {
  const key = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  place.replaceChildren(...rows);
  if (key !== undefined) {
    [...place.querySelectorAll("[data-key]")].find(e => e.dataset.key === key)?.focus({ preventScroll: true });
  }
}

// choices puts options into a select, and leaves chosen what was, if it is still there.
function choices(select, options) {
  const was = select.value;
  if ([...select.options].map(o => o.value + o.text).join("\n") === options.map(o => o.value + o.text).join("\n")) {
    return;
  }
  select.replaceChildren(...options.map(o => make("option", { value: o.value }, o.text)));
  select.value = options.some(o => o.value === was) ? was : options[0]?.value ?? "";
}

// ---- what is to be done

let running = false;

// send has the server do something, and says what came of it. It returns what was done, or null.
async function send(path, body = "") {
  let reply;
  try {
    reply = await fetch(path, { method: "POST", body });
  } catch {
    say("volsim serve does not answer: does it still run?", true);
    return null;
  }
  if (!reply.ok) {
    say((await reply.text()).trim(), true);
    return null;
  }
  const done = await reply.json();
  say(done.told.trim(), false);
  return done;
}

function say(words, wrong) {
  $("said").textContent = words;
  $("said").classList.toggle("wrong", wrong);
  $("said").hidden = words === "";
  $("said").scrollTop = $("said").scrollHeight; // how it ended matters most
}

// act does operations one after the other, until one goes wrong. Somebody acts: nothing runs any more.
async function act(...ops) {
  pause();
  for (const op of ops) {
    if (await send("/do", op) === null) {
      return;
    }
  }
}

// run takes a step, waits, and takes another one, until nothing moves or somebody pauses.
async function run() {
  running = true;
  $("run").disabled = true;
  $("pause").disabled = false;
  while (running) {
    const done = await send("/do", "step");
    if (done === null || !done.moved) {
      break;
    }
    await new Promise(over => setTimeout(over, 1000 / 2 ** Number($("speed").value)));
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
$("back").onclick = () => { pause(); send("/back"); };
$("again").onclick = () => { pause(); send("/again"); };
$("hand").onsubmit = async event => {
  event.preventDefault();
  pause();
  if (await send("/do", $("op").value) !== null) {
    $("op").value = "";
  }
};
for (const example of $("begin").querySelectorAll("button")) {
  example.onclick = () => act(example.textContent);
}
$("fail").onsubmit = event => {
  event.preventDefault();
  act(`fail ${$("fail-kind").value} ${$("fail-part").value}`.trim());
};

// ---- how things are

const seen = new Map(); // the version of each object when it was drawn last

function drawObjects(objects) {
  const rows = [];
  for (const o of objects) {
    const changed = seen.size > 0 && seen.get(o.name) !== o.version;
    rows.push(make("tr", { class: changed ? "object changed" : "object" },
      make("td", { class: "name" }, o.name), make("td", {}, o.state === "none" ? "is gone" : o.state), make("td", { class: "version" }, o.version ? `rv ${o.version}` : "")));
    for (const b of o.beliefs) {
      const what = b.version ? [make("td", {}, `${b.part} believes`), make("td", {}, b.state), make("td", { class: "version" }, `rv ${b.version}`)]
        : [make("td", { colspan: 3 }, `${b.part} has not heard of it`)];
      rows.push(make("tr", { class: "belief" }, ...what));
    }
  }
  seen.clear();
  objects.forEach(o => seen.set(o.name, o.version));
  fill($("objects"), rows);
  $("nothing").hidden = objects.length > 0;
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
      ? make("button", { type: "button", class: "small", "data-key": `hold ${o.actor}`, title: "not before it is released", onclick: () => act(`hold ${o.actor}`) }, "hold")
      : make("button", { type: "button", class: "small", "data-key": `hold ${o.actor}`, onclick: () => act(`release ${o.held}`) }, "release");
    const row = make("li", { class: o.held !== "" ? "held" : i === first ? "first" : null },
      make("button", { type: "button", class: "act", "data-key": `step ${o.actor}`, title: `step ${o.actor}`, onclick: () => act(`step ${o.actor}`) },
        make("span", { class: "who" }, o.who), " ", o.words, o.held !== "" ? " (held)" : ""), hold);
    if (o.faults.length > 0) {
      row.insertBefore(wrongs(o), hold);
    }
    return row;
  }));
  $("still").hidden = options.length > 0;
}

// wrongs lets the call of an option go wrong.
function wrongs(option) {
  const part = option.actor.split("/")[0];
  const select = make("select", { class: "small", "data-key": `wrong ${option.actor}`, "aria-label": "how it goes wrong" },
    make("option", { value: "" }, "goes wrong…"), ...option.faults.map(f => make("option", { value: f }, f)));
  select.onchange = () => act(`fail ${select.value} ${part}`, `step ${option.actor}`);
  return select;
}

const opened = new Set(); // parts of which all is shown

function drawParts(hand) {
  fill($("parts"), hand.parts.map(p => {
    const operation = op => {
      const words = op.replace(` ${p.name}`, "").replace(/ (driver)\(.*\)/, " $1");
      return make("button", { type: "button", class: "small", "data-key": op, title: op, onclick: () => act(op) }, words);
    };
    const plain = p.ops.filter(op => !/ behind$|^replicate |^relist /.test(op));
    const rest = p.ops.filter(op => !plain.includes(op));
    const buttons = plain.map(operation);
    if (p.part) {
      const op = `${p.held ? "release" : "hold"} ${p.name}`;
      buttons.unshift(make("button", { type: "button", class: "small", "data-key": `hold ${p.name}`, title: op, onclick: () => act(op) }, p.held ? "release" : "hold"));
    }
    if (rest.length > 0 && opened.has(p.name)) {
      buttons.push(...rest.map(operation));
    } else if (rest.length > 0) {
      const open = () => { opened.add(p.name); drawParts(hand); };
      buttons.push(make("button", { type: "button", class: "small", "data-key": `more ${p.name}`, title: `what else can befall ${p.name}`, onclick: open }, "…"));
    }
    const down = p.ops.some(op => op === `start ${p.name}` || op === `recover ${p.name}`);
    return make("tr", { class: (down ? "down " : "") + (p.held ? "held" : "") },
      make("td", { class: "name" }, p.name + (down ? " is down" : "") + (p.held ? " is held" : "")), make("td", { class: "can" }, ...buttons));
  }));
  fill($("other"), hand.other.map(op => make("button", { type: "button", class: "small", "data-key": op, title: meaning(op), onclick: () => act(op) }, op)));
  choices($("fail-part"), [{ value: "", text: "anybody" }, ...hand.parts.filter(p => p.part).map(p => ({ value: p.name, text: p.name }))]);
  choices($("fail-kind"), hand.failures.map(f => ({ value: f, text: f })));
  $("failing").textContent = hand.failing ? `The next call that can will go wrong: ${hand.failing}` : "";
  $("failing").hidden = hand.failing === "";
}

function meaning(op) {
  if (op === "tick") {
    return "the clock goes on to the next timer, although something else could happen";
  }
  return op.startsWith("expire ") ? "the server forgets old events: whoever is behind has to list again" : op;
}

function drawStory(story) {
  const panel = $("story-panel");
  const follow = atEnd(panel);
  $("story").replaceChildren(...story.split(/(?<=\n)/).map(line => {
    if (line.startsWith("> ")) {
      return make("span", { class: "op" }, line);
    }
    return line.includes("!! broken:") ? make("span", { class: "broken" }, line) : line;
  }));
  if (follow) {
    panel.scrollTop = panel.scrollHeight;
  }
}

function atEnd(panel) {
  return panel.scrollHeight - panel.scrollTop - panel.clientHeight < 60;
}

function draw(state) {
  const hand = state.hand;
  $("made").textContent = state.made;
  $("time").textContent = state.time ? `${state.time} since the world began` : "";
  for (const id of ["hand", "next-panel", "parts-panel", "who-believes", "tab-story"]) {
    $(id).hidden = !hand;
  }
  $("live").hidden = Boolean(hand);
  document.querySelector("main").classList.toggle("live", !hand);
  if (!hand && $("live-events").hidden) { // there is room for them beside the objects
    $("live-events").hidden = false;
    $("live-events").append(...$("events-panel").children);
    $("tab-events").hidden = true;
  }
  drawObjects(state.objects);
  drawEvents(state.events);
  if (hand) {
    drawNext(hand.next);
    drawParts(hand);
    drawStory(hand.story);
    $("back").disabled = $("again").disabled = hand.ops.length === 0;
    $("begin").hidden = hand.ops.length > 0;
    $("diagram").hidden = hand.ops.length === 0;
    $("broken").textContent = hand.broken ? `A rule is broken: ${hand.broken}` : "";
    $("broken").hidden = hand.broken === "";
  }
  document.body.dataset.version = state.version;
}

// ---- the diagram

const canvas = $("diagram").attachShadow({ mode: "open" });

// drawDiagram fetches the diagram and puts it in, its style beside it.
async function drawDiagram() {
  const query = new URLSearchParams({ records: $("records").value, about: $("about").value, strands: $("strands").checked });
  const reply = await fetch(`/diagram.svg?${query}`);
  if (!reply.ok) {
    say((await reply.text()).trim(), true);
    return;
  }
  const [, before, style, after] = (await reply.text()).match(/^([^]*?)<style>([^]*?)<\/style>([^]*)$/);
  const picture = new DOMParser().parseFromString(before.replace(/ style="[^"]*"/, "") + after, "image/svg+xml").documentElement;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`${style} svg { display: block; } .heads { position: sticky; top: -8px; }`);
  canvas.adoptedStyleSheets = [sheet];
  const panel = $("diagram-panel");
  const follow = atEnd(panel);
  canvas.replaceChildren(heads(picture), document.importNode(picture, true)); // in this order: heads takes its part away
  if (follow) {
    panel.scrollTop = panel.scrollHeight;
  }
}

// heads cuts the names above the lanes off a picture, so that they stay in sight when it is scrolled.
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

for (const id of ["records", "about", "strands"]) {
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
      const there = tabs.filter(t => !$(`tab-${t}`).hidden);
      const to = there[(there.indexOf(tab) + by + there.length) % there.length];
      show(to);
      $(`tab-${to}`).focus();
    }
  };
}
show("diagram");

// ---- what is new

let drawing = false, stale = false;

// refresh draws what is so now. What changes meanwhile is drawn next: never two at once, and never more often than can be seen.
async function refresh() {
  stale = true;
  if (drawing) {
    return;
  }
  drawing = true;
  while (stale) {
    stale = false;
    try {
      const reply = await fetch("/state");
      if (reply.ok) {
        draw(await reply.json());
        await drawDiagram();
      }
    } catch {
      break; // the server is gone: the stream of changes says so
    }
    await new Promise(over => setTimeout(over, 50));
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
