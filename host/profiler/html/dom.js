// Elements and figures. Text from the model reaches the page only through textContent.

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on"))
      element.addEventListener(name.slice(2), value);
    else
      element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined && child !== false)
      element.append(child);  // strings become text nodes
  return element;
}

const thousands = new Intl.NumberFormat("en-US");
const number = (value) => thousands.format(value);
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;

const capital = (word) => word.charAt(0).toUpperCase() + word.slice(1);

function bytes(value) {
  if (value < 1024) return `${number(value)} bytes`;
  const unit = value < 1048576 ? [1024, "KiB"] : [1048576, "MiB"];
  return `${number(value)} bytes (${(value / unit[0]).toFixed(1)} ${unit[1]})`;
}

// "one call", "2 calls"
const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

const kKinds = ["npu", "host", "stall", "cpu"];
const kKindNames = {
  npu: "NPU computes",
  host: "host starts calls and copies",
  stall: "waiting for flash",
  cpu: "Cortex-M kernels",
  copy: "copy engine",
};

// A bar of kinds, `whole` wide.
function bar(spent, whole, small = false) {
  const parts = kKinds.filter((kind) => spent[kind] > 0).map((kind) => {
    const part = el("span", {class: `kind-${kind}`});
    part.style.width = `${(100 * spent[kind]) / whole}%`;
    return part;
  });
  const text = kKinds.filter((kind) => spent[kind] > 0)
                   .map((kind) => `${kKindNames[kind]} ${number(spent[kind])}`)
                   .join(", ");
  return el(
      "div", {
        class: small ? "bar small" : "bar",
        role: "img",
        "aria-label": text || "nothing",
        title: text
      },
      parts);
}

const key = (kind) => el("span", {class: `key kind-${kind}`, "aria-hidden": "true"});

function legend(kinds) {
  return el(
      "ul", {class: "legend"}, kinds.map((kind) => el("li", {}, key(kind), kKindNames[kind])));
}

// A table of names and values without a heading; values are text or elements.
function facts(entries) {
  return el(
      "table", {},
      el("tbody", {},
         entries.filter(Boolean).map(
             ([name, value]) => el("tr", {}, el("td", {}, name), el("td", {}, value)))));
}

const tip = {
  box: document.getElementById("tip"),
  show(text, x, y) {
    this.box.textContent = text;
    this.box.hidden = false;
    const width = this.box.offsetWidth, height = this.box.offsetHeight;
    this.box.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
    this.box.style.top =
        `${y + 18 + height > innerHeight ? Math.max(4, y - height - 8) : y + 18}px`;
  },
  hide() { this.box.hidden = true; },
};
