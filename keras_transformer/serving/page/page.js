// The page of the server. Texts of users and models are only ever inserted as text.

const MOST_TOKENS = 80; // of a side of the map; more cells make a page slow
const LONGEST_LABEL = 40;
const find = id => document.getElementById(id);
const form = find("form");

let models = [];
let methods = []; // of the server, such as "predict"
let running = null; // AbortController of the request that is being answered

// --- Server ---

class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function request(path, body) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const key = find("key").value;
  if (key) headers["Authorization"] = `Bearer ${key}`;
  const method = body === undefined ? "GET" : "POST";
  const signal = body === undefined ? undefined : running?.signal;
  return fetch(path, { method, headers, signal, body: body && JSON.stringify(body), cache: "no-store" });
}

// Returns the content of an answer. The server writes -Infinity and NaN, which JSON lacks.
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    const tokens = /"(?:[^"\\]|\\.)*"|-?Infinity|NaN/g;
    return JSON.parse(text.replace(tokens, token => (token.startsWith('"') ? token : "null")));
  }
}

async function errorOf(response) {
  let message = await response.text();
  try {
    message = parse(message).error ?? message;
  } catch {} // a proxy's error is no JSON
  const after = response.headers.get("Retry-After");
  const again = after ? ` Try again in ${after} s.` : "";
  return new ServerError(response.status, `${String(message).slice(0, 2000)} (status ${response.status})${again}`);
}

async function ask(path, body) {
  const response = await request(path, body);
  if (!response.ok) throw await errorOf(response);
  return parse(await response.text());
}

const modelPath = (model, method) => `v1/models/${encodeURIComponent(model.name)}:${method}`;

// Returns the outputs of a signature by name, also if there is only one.
async function predict(model, signature, inputs, only) {
  const body = { signature_name: signature, inputs };
  const { outputs } = await ask(modelPath(model, "predict"), body);
  return only ? { [only]: outputs } : outputs;
}

// Texts that are not UTF-8 are sent as base64.
function textOf(value) {
  if (typeof value === "string") return value;
  if (typeof value?.b64 !== "string") return "";
  const bytes = Uint8Array.from(atob(value.b64), each => each.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}

// Yields the data of the events of a stream.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += done ? "\n\n" : value;
    const parts = rest.split(/\r?\n\r?\n/);
    rest = parts.pop();
    for (const part of parts) {
      const lines = part.split(/\r?\n/);
      const field = name =>
        lines.filter(line => line.startsWith(`${name}:`)).map(line => line.slice(name.length + 1).replace(/^ /, ""));
      const data = field("data").join("\n");
      if (data) yield { name: field("event")[0] ?? "message", content: parse(data) };
    }
    if (done) return;
  }
}

// --- Elements ---

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// Returns a text in which characters without a picture, such as those that turn the direction of
// writing, are written as numbers.
function visible(text) {
  const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
  return text.replace(invisible, each => `\\u{${each.codePointAt(0).toString(16)}}`);
}

function label(token) {
  const [, mark, rest] = /^(▁*|##)(.*)$/su.exec(token);
  const text = visible(mark.replaceAll("▁", "␣") + rest);
  return text.length > LONGEST_LABEL ? `${text.slice(0, LONGEST_LABEL - 1)}…` : text;
}

function header(token, scope) {
  const made = element("th", undefined, { scope });
  made.append(element("bdi", label(token)));
  return made;
}

const number = (value, digits = 3) => (Number.isFinite(value) ? value.toFixed(digits) : "–");

function fill(select, options, chosen) {
  select.replaceChildren(
    ...options.map(([value, text]) => {
      const made = element("option", text, { value });
      made.selected = value === chosen;
      return made;
    }),
  );
}

function show(...ids) {
  for (const id of ["streamed", "texts", "attention", "classes", "similarity"]) find(id).hidden = !ids.includes(id);
}

// Shows a status; screen readers also read what is spoken, which is shown elsewhere.
function say(text, spoken = "") {
  find("status").replaceChildren(element("span", spoken, { class: "hidden" }), text);
}

// --- Models and tasks ---

const TASKS = {
  translate: { title: "Translate", label: "Text", sampling: true, run: write, running: "Translating …" },
  continue: { title: "Continue", label: "Beginning of the text", sampling: true, run: write, running: "Writing …" },
  classify: { title: "Classify", label: "Text", run: classify, running: "Classifying …" },
  compare: { title: "Compare two texts", label: "First text", second: true, run: compare, running: "Comparing …" },
};

function tasksOf(model) {
  const has = name => model.signatures.includes(name);
  const tasks = [];
  if (model.kind !== "TextEncoder" && has("serving_default")) {
    tasks.push(model.kind === "LanguageModel" ? "continue" : "translate");
  }
  if (has("classify")) tasks.push("classify");
  if (has("encode")) tasks.push("compare");
  return tasks;
}

const chosenModel = () => models.find(model => model.name === find("model").value);

function chooseModel() {
  const model = chosenModel();
  const tasks = model ? tasksOf(model) : [];
  fill(find("task"), tasks.map(name => [name, TASKS[name].title]), tasks[0]);
  find("send").disabled = !tasks.length;
  const reason = model && !model.versions.length ? "no version of this model is available" : "";
  say(tasks.length || !model ? "" : `This page has no task for this model${reason && `: ${reason}`}.`);
  chooseTask();
}

function chooseTask() {
  const task = TASKS[find("task").value];
  show();
  find("error").textContent = "";
  if (!task) return;
  find("text-label").textContent = task.label;
  find("second-field").hidden = !task.second;
  find("sampling").hidden = !(task.sampling && chosenModel().signatures.includes("sample"));
}

async function loadModels() {
  const wanted = find("model").value || new URLSearchParams(location.hash.slice(1)).get("model");
  find("error").textContent = "";
  try {
    ({ models, methods } = await ask("models"));
  } catch (error) {
    models = [];
    if (error.status === 401) find("access").open = true;
    find("error").textContent = error.message;
  }
  const named = models.map(({ name, versions }) => [
    name,
    visible(name) + (versions.length ? ` (version ${versions[0]})` : " (not available)"),
  ]);
  fill(find("model"), named, wanted);
  if (!models.length && !find("error").textContent) say("This server has no model.");
  const error = find("error").textContent;
  chooseModel();
  find("error").textContent = error;
}

// --- Tasks ---

async function write(model, text) {
  const isSampling = find("temperature").value !== "" && model.signatures.includes("sample");
  const sampling = { temperature: Number(find("temperature").value), seed: Number(find("seed").value) };
  const streams = methods.includes("stream") && model.signatures.includes("next_tokens");
  if (model.kind === "LanguageModel" && streams) return stream(model, text, isSampling ? sampling : {});
  if (isSampling) {
    const { text: texts, score } = await predict(model, "sample", { text: [text], ...sampling });
    return showTexts(model, text, texts, score);
  }
  if (model.signatures.includes("n_best")) {
    const { text: texts, score } = await predict(model, "n_best", { text: [text] });
    return showTexts(model, text, texts[0], score[0]);
  }
  const { text: texts, score } = await predict(model, "serving_default", { text: [text] });
  return showTexts(model, text, texts, score);
}

async function classify(model, text) {
  const { label: labels, probabilities } = await predict(model, "classify", { text: [text] });
  const best = probabilities[0].indexOf(Math.max(...probabilities[0]));
  // The signature names the most probable class only; the others have numbers.
  const named = probabilities[0].map((value, index) => [
    index === best ? textOf(labels[0]) : `class ${index}`,
    value,
  ]);
  named.sort((a, b) => b[1] - a[1]);
  const rows = named.map(([name, value]) => {
    const row = element("tr");
    const head = element("th", undefined, { scope: "row" });
    head.append(element("bdi", visible(name)));
    head.style.setProperty("--weight", value);
    row.append(head, element("td", number(value)));
    return row;
  });
  find("probabilities").tBodies[0].replaceChildren(...rows);
  show("classes");
  return { seen: "Classified", spoken: `${visible(named[0][0])}: ${number(named[0][1])}. ` };
}

async function compare(model, text) {
  const inputs = { text: [text, find("second").value] };
  const { embedding } = await predict(model, "encode", inputs, "embedding");
  const dot = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);
  const [a, b] = embedding;
  const length = Math.sqrt(dot(a, a) * dot(b, b));
  const cosine = length ? dot(a, b) / length : NaN;
  find("meter").value = Math.max(cosine || 0, 0);
  find("cosine").textContent = number(cosine);
  show("similarity");
  return { seen: "Compared", spoken: `Similarity ${number(cosine)}. ` };
}

// Shows different texts, best first; several hypotheses may spell the same text.
async function showTexts(model, source, texts, scores) {
  const found = new Map();
  texts.map(textOf).forEach((text, index) => {
    const exists = scores[index] !== null && Number.isFinite(scores[index]);
    if ((exists || !found.size) && !found.has(text)) found.set(text, scores[index]);
  });
  const buttons = [];
  const rows = [...found].map(([text, score], index) => {
    const row = element("tr");
    const cell = element("td");
    const button = element("button", text, { type: "button", dir: "auto", "aria-pressed": "false" });
    if (!text.trim()) button.append(element("span", "(blank)", { class: "quiet" }));
    button.addEventListener("click", () => {
      for (const each of buttons) each.setAttribute("aria-pressed", String(each === button));
      if (!model.signatures.includes("attention")) return;
      start(() => showAttention(model, source, text), "Reading attention …");
    });
    buttons.push(button);
    cell.append(button);
    row.append(element("td", String(index + 1)), cell, element("td", number(score)));
    return row;
  });
  find("hypotheses").tBodies[0].replaceChildren(...rows);
  show("texts");
  const count = rows.length === 1 ? "1 text" : `${rows.length} texts`;
  buttons[0].setAttribute("aria-pressed", "true");
  if (model.signatures.includes("attention")) await showAttention(model, source, [...found.keys()][0]);
  return { seen: count, spoken: `${[...found.keys()][0].slice(0, 500)}. ` };
}

// --- Attention ---

async function showAttention(model, source, target) {
  // A continuation begins with its prompt.
  const inputs = { source: [model.kind === "LanguageModel" ? "" : source], target: [target] };
  const found = await predict(model, "attention", inputs);
  const tokens = side => found[`${side}_tokens`][0].map(textOf).filter(token => token);
  const [columns, rows] = [tokens("source"), tokens("target")];
  drawMap(columns, rows, found.weights[0]);
  find("attention").hidden = !columns.length || !rows.length;
  return { seen: `Attention of ${rows.length} output tokens to ${columns.length} input tokens` };
}

function drawMap(columns, rows, weights) {
  const most = Math.max(columns.length, rows.length);
  find("cut").textContent =
    most > MOST_TOKENS ? `Only the first ${MOST_TOKENS} tokens of each side are drawn, of ${most}.` : "";
  columns = columns.slice(0, MOST_TOKENS);
  rows = rows.slice(0, MOST_TOKENS);
  const strongest = Math.max(...rows.flatMap((_, row) => weights[row].slice(0, columns.length)), 0) || 1;
  const head = element("tr");
  head.append(element("td", undefined, { role: "presentation" }), ...columns.map(token => header(token, "col")));
  head.firstChild.replaceWith(element("th", undefined, { "aria-label": "output token" }));
  const lines = rows.map((token, row) => {
    const line = element("tr");
    line.append(header(token, "row"));
    columns.forEach((column, index) => {
      const weight = weights[row][index];
      const title = `${label(token)} attends to ${label(column)}: ${number(weight)}`;
      const cell = element("td", undefined, { role: "gridcell", tabindex: "-1", "aria-label": title });
      cell.style.setProperty("--weight", weight / strongest);
      cell.dataset.weight = number(weight);
      line.append(cell);
    });
    return line;
  });
  const map = find("map");
  map.tHead.replaceChildren(head);
  map.tBodies[0].replaceChildren(...lines);
  map.querySelector("td")?.setAttribute("tabindex", "0");
  point(null);
}

// Marks a cell, and shades the input tokens by the attention of its row.
function point(cell) {
  const map = find("map");
  for (const each of map.querySelectorAll(".active, .shaded")) each.classList.remove("active", "shaded");
  find("readout").replaceChildren();
  if (!cell) return;
  const row = cell.parentElement;
  const heads = map.tHead.rows[0].cells;
  for (let index = 1; index < row.cells.length; index += 1) {
    heads[index].classList.add("shaded");
    heads[index].style.setProperty("--weight", row.cells[index].style.getPropertyValue("--weight"));
  }
  row.classList.add("active");
  if (cell.tagName !== "TD") return;
  cell.classList.add("active");
  heads[cell.cellIndex].classList.add("active");
  const tokens = [row.cells[0], heads[cell.cellIndex]].map(each => element("bdi", each.textContent));
  find("readout").append(tokens[0], " ← ", tokens[1], `: ${cell.dataset.weight}`);
}

function moveFocus(event) {
  const cell = event.target.closest("td[role=gridcell]");
  if (!cell) return;
  const rows = find("map").tBodies[0].rows;
  let row = cell.parentElement.sectionRowIndex;
  let column = cell.cellIndex;
  const last = rows[0].cells.length - 1;
  const jump = event.ctrlKey;
  if (event.key === "ArrowUp") row -= 1;
  else if (event.key === "ArrowDown") row += 1;
  else if (event.key === "ArrowLeft") column -= 1;
  else if (event.key === "ArrowRight") column += 1;
  else if (event.key === "Home") [row, column] = [jump ? 0 : row, 1];
  else if (event.key === "End") [row, column] = [jump ? rows.length - 1 : row, last];
  else return;
  event.preventDefault();
  row = Math.min(Math.max(row, 0), rows.length - 1);
  column = Math.min(Math.max(column, 1), last);
  cell.setAttribute("tabindex", "-1");
  rows[row].cells[column].setAttribute("tabindex", "0");
  rows[row].cells[column].focus();
}

// --- Requests ---

// Shows what a language model writes while it writes.
async function stream(model, text, sampling) {
  show("streamed");
  const output = find("stream");
  output.textContent = text;
  const response = await request(modelPath(model, "stream"), { text, ...sampling });
  if (!response.ok) throw await errorOf(response);
  let written = "";
  let isDone = false;
  for await (const { name, content } of events(response)) {
    if (name === "error") throw new ServerError(response.status, String(content.error));
    written = content.text ?? written + content.delta;
    output.textContent = text + written;
    isDone = name === "done";
  }
  if (!isDone) throw new ServerError(response.status, "The stream ended early.");
  if (model.signatures.includes("attention")) await showAttention(model, text, text + written);
  return { seen: "Written", spoken: `${written.slice(0, 500)}. ` };
}

// Runs a request, and ends the one before it.
async function start(task, text) {
  running?.abort();
  const own = (running = new AbortController());
  const began = performance.now();
  find("error").textContent = "";
  find("stop").hidden = false;
  say(text);
  try {
    const { seen, spoken } = await task();
    if (running === own) say(`${seen} in ${Math.round(performance.now() - began)} ms`, spoken);
  } catch (error) {
    if (running !== own) return;
    say("");
    if (error.name === "AbortError") say("Stopped.");
    else if (error.status === 401) find("access").open = true;
    if (error.name !== "AbortError") {
      const unreachable = error instanceof TypeError ? "The server cannot be reached: " : "";
      find("error").textContent = unreachable + error.message;
    }
  } finally {
    if (running === own) {
      running = null;
      find("stop").hidden = true;
    }
  }
}

function send() {
  const model = chosenModel();
  const task = TASKS[find("task").value];
  if (!model || !task) return;
  show();
  start(() => task.run(model, find("text").value), task.running);
}

form.addEventListener("submit", event => {
  event.preventDefault();
  send();
});
form.addEventListener("keydown", event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    send();
  }
});
find("stop").addEventListener("click", () => running?.abort());
find("model").addEventListener("change", () => {
  history.replaceState(null, "", `#${new URLSearchParams({ model: find("model").value })}`);
  chooseModel();
});
find("task").addEventListener("change", chooseTask);
find("key").addEventListener("change", loadModels);
const map = find("map");
map.addEventListener("mouseover", event => point(event.target.closest("tbody td, tbody th")));
map.addEventListener("mouseleave", () => point(document.activeElement.closest("#map td")));
map.addEventListener("focusin", event => point(event.target.closest("tbody td")));
map.addEventListener("focusout", () => point(null));
map.addEventListener("keydown", moveFocus);
loadModels();
