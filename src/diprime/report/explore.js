// The tree explorer: the trees of a forest as ARIA trees. Nodes are created when they are first opened. Names and
// categories are untrusted, so everything is inserted as text, never as HTML.
"use strict";

const INITIAL_LEVELS = 2; // open on load, and in print
const forest = JSON.parse(document.getElementById("forest").textContent);
const canvas = document.getElementById("tree");
const details = document.getElementById("node-details");
const picker = document.getElementById("tree-picker");
let tree;

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.append(...breakable(text));
  return element;
}

/** A text that may be broken after the signs that join words, rather than within a word; as in html.py. */
const breakable = (text) =>
  text.split(/(?<=[\p{L}\p{N}_][_./:-])(?=\p{L})/u).flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part]));

const isClassification = forest.classes !== null;
const hasChildren = (node) => 2 * node + 2 < tree.records.length;
/** Whether the node or a descendant splits: a node may send all records to one child, which then splits them. */
const splits = (node) =>
  hasChildren(node) && (tree.features[node] !== null || splits(2 * node + 1) || splits(2 * node + 2));
/** The most probable class, or the estimated number, with its noise. */
function estimate(node) {
  const [values, texts] = [tree.values[node], tree.estimates[node]];
  const best = values.indexOf(Math.max(...values));
  return `${isClassification ? `${forest.classes[best]}: ` : ""}${texts[best]} ${tree.noise[node]}`.trim();
}

/** Give an element the colour of a class: one of the style sheet, or of those that the page defines for many. */
function paint(element, i) {
  if (forest.colours) element.style.background = forest.colours[i];
  else element.classList.add(`back-${i}`);
  return element;
}

/** A bar that shows the class probabilities, or the position of the number in its range. */
function strip(node) {
  const bar = make("span", "strip");
  let shares = tree.values[node];
  if (!isClassification) shares = [(shares[0] - forest.range[0]) / (forest.range[1] - forest.range[0])];
  shares.forEach((share, i) => {
    const part = paint(make("i"), i);
    part.style.width = `${100 * share}%`;
    if (isClassification) part.title = `${forest.classes[i]}: ${tree.estimates[node][i]}`;
    bar.append(part);
  });
  return bar;
}

function describe(node) {
  if (hasChildren(node)) return tree.features[node] === null ? "splits nothing" : `splits on ${tree.features[node]}`;
  return tree.below ? `${tree.below} more ${tree.below === 1 ? "level" : "levels"}, not drawn` : "leaf";
}

function makeItem(node) {
  const item = make("li");
  const condition = tree.conditions[node] || "all records";
  item.setAttribute("role", "treeitem");
  item.setAttribute("aria-label", `${condition}: ${estimate(node)}, ${tree.records[node]}, ${describe(node)}`);
  item.setAttribute("aria-selected", "false");
  if (splits(node)) item.setAttribute("aria-expanded", "false");
  item.dataset.node = node;
  item.tabIndex = -1;
  const box = make("div", "node");
  box.append(
    make("span", "condition", condition),
    make("span", "estimate", estimate(node)),
    strip(node),
    make("span", "records", tree.records[node]),
    make("span", "split", describe(node)),
  );
  item.append(box);
  return item;
}

const nodeOf = (item) => Number(item.dataset.node);
const isOpen = (item) => item.getAttribute("aria-expanded") === "true";
const children = (item) => [...item.querySelectorAll(":scope > ul > li")];

function open(item) {
  if (!item.hasAttribute("aria-expanded")) return;
  let group = item.querySelector(":scope > ul");
  if (!group) {
    group = make("ul");
    group.setAttribute("role", "group");
    group.append(makeItem(2 * nodeOf(item) + 1), makeItem(2 * nodeOf(item) + 2));
    item.append(group);
  }
  group.hidden = false;
  item.setAttribute("aria-expanded", "true");
}

function close(item) {
  if (!isOpen(item)) return;
  item.querySelector(":scope > ul").hidden = true;
  item.setAttribute("aria-expanded", "false");
}

function openAndScroll(item) {
  open(item);
  children(item).reverse().forEach((child) => child.scrollIntoView({ block: "nearest", inline: "nearest" }));
}

const toggle = (item) => (isOpen(item) ? close(item) : openAndScroll(item));

function openDown(item, levels) {
  if (levels <= 0) return;
  open(item);
  children(item).forEach((child) => openDown(child, levels - 1));
}

/** Select an item: Tab leads to it (a roving tabindex), and the sidebar shows its details. */
function select(item) {
  canvas.querySelectorAll("[tabindex='0']").forEach((other) => {
    other.tabIndex = -1;
    other.setAttribute("aria-selected", "false");
  });
  item.tabIndex = 0;
  item.setAttribute("aria-selected", "true");
  const node = nodeOf(item);
  const path = [];
  for (let at = node; at > 0; at = Math.floor((at - 1) / 2)) path.unshift(tree.conditions[at]);
  const list = make("ol");
  path.forEach((condition) => list.append(make("li", "", condition)));
  details.replaceChildren(
    make("h3", "", path.length ? "Records here" : "All records"),
    list,
    make("p", "", `${tree.records[node]}; ${describe(node)}.`),
    values(node),
    ...(tree.noise[node] ? [make("p", "note", `Noise of the estimate: at most about ${tree.noise[node]}.`)] : []),
  );
}

function values(node) {
  if (!isClassification) return make("p", "", `Estimate: ${tree.estimates[node][0]}`);
  const table = make("table");
  forest.classes.forEach((name, i) => {
    const row = make("tr");
    const cell = make("td", "text");
    cell.append(paint(make("span", "swatch"), i), ...breakable(name));
    row.append(cell, make("td", "number", tree.estimates[node][i]));
    table.append(row);
  });
  return table;
}

function show(index) {
  tree = forest.trees[index];
  const root = makeItem(0);
  canvas.replaceChildren(root);
  openDown(root, INITIAL_LEVELS);
  select(root);
}

/** The visible items, from the top. */
const visible = () => [...canvas.querySelectorAll("li")].filter((item) => !item.closest("ul[hidden]"));

function moveTo(item) {
  if (!item) return;
  select(item);
  item.focus();
}

const KEYS = {
  ArrowDown: (item) => moveTo(visible()[visible().indexOf(item) + 1]),
  ArrowUp: (item) => moveTo(visible()[visible().indexOf(item) - 1]),
  ArrowRight: (item) => (isOpen(item) ? moveTo(children(item)[0]) : openAndScroll(item)),
  ArrowLeft: (item) => (isOpen(item) ? close(item) : moveTo(item.parentElement.closest("li"))),
  Home: () => moveTo(visible()[0]),
  End: () => moveTo(visible().at(-1)),
  Enter: toggle,
  " ": toggle,
};

canvas.addEventListener("keydown", (event) => {
  const action = KEYS[event.key];
  if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  action(event.target.closest("li"));
});
canvas.addEventListener("click", (event) => {
  const box = event.target.closest(".node");
  if (!box) return;
  moveTo(box.parentElement);
  toggle(box.parentElement);
});
document.getElementById("open-all").addEventListener("click", () => openDown(canvas.firstElementChild, tree.depth));
document.getElementById("close-all").addEventListener("click", () => show(picker.selectedIndex));
picker.addEventListener("change", () => show(picker.selectedIndex));

forest.trees.forEach((each, i) => {
  const share = `${each.weight} of the vote`;
  picker.append(make("option", "", `${i + 1} of ${forest.trees.length}: depth ${each.depth + each.below}, ${share}`));
});
show(0);
