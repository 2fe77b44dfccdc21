"""How the page of an explanation looks, and the few lines of script that it has."""

STYLE = """
:root { color-scheme: light dark; --above: 38 120 222; --below: 222 106 30; --line: #8884;
  --quiet: #5c6370; --panel: #8881; }
@media (prefers-color-scheme: dark) { :root { --quiet: #a9b1bd; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 62rem;
  background: Canvas; color: CanvasText; }
h1 { font-size: 1.5rem; margin: .5rem 0 1rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1rem 0 .4rem; }
p, li { max-width: 46rem; }
.quiet, figcaption, caption, output { color: var(--quiet); font-size: .85rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
.verdict { border-left: .35rem solid rgb(var(--above)); background: var(--panel);
  padding: .8rem 1rem; margin: 1.2rem 0; }
.verdict.unneeded, .verdict.apart { border-color: rgb(var(--below)); }
.verdict.open { border-color: var(--quiet); }
.verdict strong { font-size: 1.1rem; }
.verdict ul { margin: .5rem 0 0; padding-left: 1.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
caption { text-align: start; padding-bottom: .3rem; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: end; }
th { font-weight: 600; }
tbody th, thead th:first-child { text-align: start; font-weight: normal; }
.bars { width: 100%; table-layout: fixed; }
.bars th:first-child { width: 24%; }
.bars tbody th { overflow-wrap: anywhere; }
.bars td { --colour: var(--above); border-left: .3rem solid Canvas;
  background: linear-gradient(90deg, rgb(var(--colour) / .45) var(--bar), transparent 0); }
.bars td.below { --colour: var(--below); }
details { border-bottom: 1px solid var(--line); }
summary { cursor: pointer; padding: .45rem 0; }
details[open] > summary { font-weight: 600; }
summary .quiet { font-weight: normal; }
.token summary { display: flex; flex-wrap: wrap; gap: 0 1rem; align-items: baseline; }
.token summary::before { content: "▸"; color: var(--quiet); margin-right: -.5rem; }
.token[open] summary::before { content: "▾"; }
.token summary bdi { min-width: 6rem; text-align: left; }
.maps { display: grid; gap: 1.2rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)); }
.maps.large { grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; }
svg { display: block; width: 100%; height: auto; fill: currentColor; }
svg image { image-rendering: pixelated; }
svg .frame { fill: none; stroke: var(--line); }
svg .cell { fill: none; stroke: currentColor; stroke-width: 1.5; visibility: hidden; }
svg:focus-visible { outline: 2px solid rgb(var(--above)); }
output { display: block; min-height: 1.5em; overflow-wrap: anywhere; }
i { font-style: normal; color: var(--quiet); }
.key b { color: rgb(var(--above)); } .key b + b { color: rgb(var(--below)); }
@media (max-width: 40rem) { body { font-size: 15px; padding: .7rem; }
  th, td { padding: .2rem .3rem; } .bars { font-size: .75rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } }
"""

# Without it the maps are there all the same; with it, a cell tells its value. A dot's opacity is
# its size, and its colour the sign.
SCRIPT = """
const tokens = JSON.parse(document.getElementById("tokens").textContent);
for (const map of document.querySelectorAll("svg[data-rows]")) {
  const picture = map.querySelector("image"), cell = map.querySelector(".cell");
  const said = map.parentElement.querySelector("output");
  const rows = tokens[map.dataset.rows], columns = tokens[map.dataset.columns];
  let row = 0, column = 0, dots = null;
  const read = async () => {
    const image = new Image();
    image.src = picture.getAttribute("href");
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [columns.length, rows.length];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, columns.length, rows.length).data;
  };
  const show = async () => {
    const [x, y, width, height] = ["x", "y", "width", "height"].map(
      name => Number(picture.getAttribute(name)));
    cell.setAttribute("x", x + column * width / columns.length);
    cell.setAttribute("y", y + row * height / rows.length);
    cell.style.visibility = "visible";
    dots ??= await read();
    const at = 4 * (row * columns.length + column);
    const sign = dots[at] > dots[at + 2] ? "-" : "";
    const value = (dots[at + 3] / 255 * map.dataset.largest).toFixed(map.dataset.digits);
    // Each between marks that keep a script from right to left in its place.
    const [from, to] = [rows[row], columns[column]].map(token => `\\u2068${token}\\u2069`);
    said.textContent = `${from} \\u2190 ${to}: ${sign}${value}`;
  };
  const hide = () => { cell.style.visibility = "hidden"; said.textContent = ""; };
  const point = event => {
    const box = picture.getBoundingClientRect();
    const place = (share, count) => Math.floor(share * count);
    const [r, c] = [place((event.clientY - box.top) / box.height, rows.length),
      place((event.clientX - box.left) / box.width, columns.length)];
    if (r < 0 || c < 0 || r >= rows.length || c >= columns.length) return hide();
    [row, column] = [r, c];
    show();
  };
  map.addEventListener("pointermove", point);
  map.addEventListener("pointerdown", point);  // a finger that does not move
  map.addEventListener("pointerleave", hide);
  map.addEventListener("focus", show);
  map.addEventListener("blur", hide);
  map.addEventListener("keydown", event => {
    const step = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
    }[event.key];
    if (!step) return;
    event.preventDefault();
    row = Math.min(Math.max(row + step[0], 0), rows.length - 1);
    column = Math.min(Math.max(column + step[1], 0), columns.length - 1);
    show();
  });
}
"""
