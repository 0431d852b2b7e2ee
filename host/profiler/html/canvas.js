// A drawing that is moved and enlarged by wheel, drag, buttons and keys, and whose items are
// reached without a mouse.
//
// `spec`: name; label; height (CSS); world() → {x0, x1, y0, y1}; zoom: "x", or "both" with one
// scale for both axes ("free": a scale each); margin {left, top, right, bottom}; draw(context,
// view, colours); hit(x, y, view) → item or null, in pixels; describe(item) → text; step(item, key)
// → the item that an arrow key, Home or End leads to, or null; place(item) → {x0, x1, y0, y1} in
// the world; choose(item).

const kZoomStep = 1.5;
const kMostZoom = 1e6;

class CanvasView {
  constructor(spec) {
    this.spec = spec;
    this.margin = {left: 0, top: 0, right: 0, bottom: 0, ...spec.margin};
    this.cursor = null;
    this.pending = false;
    this.canvas = el("canvas", {
      tabindex: "0",
      role: "application",
      "aria-label": `${
          spec.label}. Arrow keys go from item to item, Enter selects, plus and minus zoom, Shift with arrows moves, 0 shows all.`
    });
    this.canvas.style.height = spec.height;
    this.status = el("p", {class: "status", "aria-live": "polite"});
    const button = (name, text, action) =>
        el("button", {type: "button", "aria-label": name, title: name, onclick: action}, text);
    this.element =
        el("div", {class: "view", "data-view": spec.name},
           el("div", {class: "toolbar"}, button("Zoom in", "+", () => this.zoom(1 / kZoomStep)),
              button("Zoom out", "−", () => this.zoom(kZoomStep)),
              button("Move left", "←", () => this.pan(-0.25, 0)),
              button("Move right", "→", () => this.pan(0.25, 0)),
              spec.zoom !== "x" &&
                  [
                    button("Move up", "↑", () => this.pan(0, -0.25)),
                    button("Move down", "↓", () => this.pan(0, 0.25))
                  ],
              button("Show all", "Show all", () => this.fit()), spec.tools),
           this.canvas, this.status);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.canvas);
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const [x, y] = this.point(event);
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
        this.pan((event.deltaX || event.deltaY) / 600, 0);
      else
        this.zoom(Math.pow(1.0015, event.deltaY), this.worldX(x), this.worldY(y));
    }, {passive: false});
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      drag = {x: event.clientX, y: event.clientY, moved: false};
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = this.point(event);
      if (drag) {
        const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
        if (!drag.moved && Math.hypot(dx, dy) < 4) return;
        drag = {x: event.clientX, y: event.clientY, moved: true};
        tip.hide();
        this.pan(-dx / this.plotWidth(), -dy / this.plotHeight());
        return;
      }
      const item = this.spec.hit(x, y, this);
      canvas.style.cursor = item === null ? "default" : "pointer";
      if (item === null)
        tip.hide();
      else
        tip.show(this.spec.describe(item), event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerup", (event) => {
      const clicked = drag && !drag.moved;
      drag = null;
      if (!clicked) return;
      const item = this.spec.hit(...this.point(event), this);
      if (item !== null) this.choose(item);
    });
    canvas.addEventListener("pointercancel", () => {
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => tip.hide());
    canvas.addEventListener("keydown", (event) => this.pressed(event));
    canvas.addEventListener("focus", () => this.redraw());
    canvas.addEventListener("blur", () => {
      tip.hide();
      this.redraw();
    });
  }

  pressed(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const moves =
        {ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1]};
    if (event.shiftKey && moves[event.key])
      this.pan(...moves[event.key]);
    else if (event.key === "+" || event.key === "=")
      this.zoom(1 / kZoomStep);
    else if (event.key === "-")
      this.zoom(kZoomStep);
    else if (event.key === "0")
      this.fit();
    else if (event.key === "Enter" || event.key === " ") {
      if (this.cursor !== null) this.choose(this.cursor);
    } else if (moves[event.key] || event.key === "Home" || event.key === "End")
      this.goTo(this.spec.step(this.cursor, event.key));
    else
      return;
    event.preventDefault();
  }

  goTo(item) {
    if (item === null || item === undefined) return;
    this.cursor = item;
    this.status.textContent = this.spec.describe(item).replaceAll("\n", "; ");
    this.reveal(item);
    this.redraw();
  }
  choose(item) {
    this.cursor = item;
    this.status.textContent = this.spec.describe(item).replaceAll("\n", "; ");
    this.spec.choose(item);
    this.redraw();
  }

  // Moves the view so that an item is in it: no further than needed, or to the middle from far
  // away.
  reveal(item) {
    const place = this.spec.place(item);
    const shift = (low, high, from, to) => {
      const edge = 0.05 * (to - from);
      if (high - low > to - from - 2 * edge) return low < to && high > from ? 0 : low - from - edge;
      if (high < from || low > to) return (low + high - from - to) / 2;
      return low < from + edge ? low - from - edge : high > to - edge ? high - to + edge : 0;
    };
    const dx = shift(place.x0, place.x1, this.x0, this.x1);
    this.x0 += dx, this.x1 += dx;
    if (this.spec.zoom !== "x") {
      const dy = shift(place.y0, place.y1, this.y0, this.y1);
      this.y0 += dy, this.y1 += dy;
    }
    this.keepInside();
  }

  plotWidth() { return this.width - this.margin.left - this.margin.right; }
  plotHeight() { return this.height - this.margin.top - this.margin.bottom; }
  pixelX(x) { return this.margin.left + ((x - this.x0) / (this.x1 - this.x0)) * this.plotWidth(); }
  pixelY(y) { return this.margin.top + ((y - this.y0) / (this.y1 - this.y0)) * this.plotHeight(); }
  worldX(x) { return this.x0 + ((x - this.margin.left) / this.plotWidth()) * (this.x1 - this.x0); }
  worldY(y) { return this.y0 + ((y - this.margin.top) / this.plotHeight()) * (this.y1 - this.y0); }
  point(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left - 1, event.clientY - box.top - 1];
  }

  zoom(factor, x, y) {
    const world = this.spec.world();
    const whole = Math.max(
        world.x1 - world.x0,
        this.spec.zoom === "both" ? ((world.y1 - world.y0) * this.plotWidth()) / this.plotHeight() :
                                    0);
    const span = this.x1 - this.x0;
    const limited = Math.min(Math.max(factor, whole / kMostZoom / span), (1.2 * whole) / span);
    const focus = this.cursor !== null && x === undefined ? this.spec.place(this.cursor) : null;
    const inside = (low, high, from, to) => low < to && high > from;
    if (x === undefined)
      x = focus && inside(focus.x0, focus.x1, this.x0, this.x1) ?
          Math.min(Math.max((focus.x0 + focus.x1) / 2, this.x0), this.x1) :
          (this.x0 + this.x1) / 2;
    if (y === undefined)
      y = focus && inside(focus.y0, focus.y1, this.y0, this.y1) ?
          Math.min(Math.max((focus.y0 + focus.y1) / 2, this.y0), this.y1) :
          (this.y0 + this.y1) / 2;
    this.x0 = x - (x - this.x0) * limited, this.x1 = x + (this.x1 - x) * limited;
    if (this.spec.zoom !== "x")
      this.y0 = y - (y - this.y0) * limited, this.y1 = y + (this.y1 - y) * limited;
    this.keepInside();
  }
  pan(dx, dy) {
    const width = this.x1 - this.x0, height = this.y1 - this.y0;
    this.x0 += dx * width, this.x1 += dx * width;
    if (this.spec.zoom !== "x") this.y0 += dy * height, this.y1 += dy * height;
    this.keepInside();
  }
  fit() {
    Object.assign(this, this.spec.world());
    this.keepScale(true);
    this.redraw();
  }
  // Some of the drawing is always in view.
  keepInside() {
    const world = this.spec.world();
    const keep = (low, high, from, to) => {
      const span = high - low;
      if (this.spec.zoom === "x")
        return span >= to - from ? 0 : low < from ? from - low : high > to ? to - high : 0;
      const slack = 0.8 * span;
      return high < from + span - slack ? from + span - slack - high :
          low > to - span + slack       ? to - span + slack - low :
                                          0;
    };
    if (this.spec.zoom === "x" && this.x1 - this.x0 >= world.x1 - world.x0)
      this.x0 = world.x0, this.x1 = world.x1;
    const dx = keep(this.x0, this.x1, world.x0, world.x1);
    this.x0 += dx, this.x1 += dx;
    if (this.spec.zoom !== "x") {
      const dy = keep(this.y0, this.y1, world.y0, world.y1);
      this.y0 += dy, this.y1 += dy;
    }
    this.redraw();
  }
  // One scale for both axes: the height follows the width, or all is in view.
  keepScale(all) {
    if (this.spec.zoom !== "both") return;
    const aspect = this.plotHeight() / this.plotWidth();
    const width = this.x1 - this.x0, height = this.y1 - this.y0;
    const middleX = (this.x0 + this.x1) / 2, middleY = (this.y0 + this.y1) / 2;
    const wide = all ? Math.max(width, height / aspect) : width;
    this.x0 = middleX - wide / 2, this.x1 = middleX + wide / 2;
    this.y0 = middleY - (wide * aspect) / 2, this.y1 = middleY + (wide * aspect) / 2;
  }

  resize() {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (width === 0 || height === 0) return;
    const ratio = devicePixelRatio || 1;
    const first = this.width === undefined;
    this.width = width, this.height = height;
    this.canvas.width = Math.round(width * ratio), this.canvas.height = Math.round(height * ratio);
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (first) {
      this.fit();
      if (this.spec.opened) this.spec.opened(this);
    } else
      this.keepScale(false);
    this.redraw();
  }
  redraw() {
    if (this.pending || this.width === undefined) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.context.clearRect(0, 0, this.width, this.height);
      this.context.font = "13px system-ui, sans-serif";
      this.context.textBaseline = "middle";
      this.spec.draw(this.context, this, paint());
    });
  }
  isFocused() { return document.activeElement === this.canvas; }
}

// Colours and patterns of the theme, made once for each.
const painted = new Map();
function paint() {
  const style = getComputedStyle(document.documentElement);
  const page = style.getPropertyValue("--page").trim();
  if (painted.has(page)) return painted.get(page);
  const colours = {fill: {}, line: {}};
  for (const name of ["page", "panel", "line", "text", "muted", "accent", "mark"])
    colours[name === "line" ? "rule" : name] = style.getPropertyValue(`--${name}`).trim();
  for (const kind of ["npu", "host", "stall", "cpu", "copy"]) {
    colours.line[kind] = style.getPropertyValue(`--${kind}`).trim();
    colours.fill[kind] =
        pattern(kind, style.getPropertyValue(`--${kind}-fill`).trim(), colours.line[kind]);
  }
  painted.set(page, colours);
  return colours;
}

function pattern(kind, fill, line) {
  if (kind === "npu") return fill;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const context = tile.getContext("2d");
  context.fillStyle = fill;
  context.fillRect(0, 0, 8, 8);
  context.strokeStyle = context.fillStyle = line;
  context.globalAlpha = 0.45;
  context.beginPath();
  if (kind === "host") context.moveTo(-1, 9), context.lineTo(9, -1);
  if (kind === "cpu") context.moveTo(0, 4.5), context.lineTo(8, 4.5);
  if (kind === "copy") context.moveTo(4.5, 0), context.lineTo(4.5, 8);
  context.stroke();
  if (kind === "stall") context.fillRect(1, 1, 2, 2), context.fillRect(5, 5, 2, 2);
  return context.createPattern(tile, "repeat");
}

// `text` within `width` pixels from x, shortened; nothing where not even a few letters fit.
function label(context, text, x, y, width) {
  if (width < 24) return;
  const shown = shortened(context, text, width);
  if (shown !== "") context.fillText(shown, x, y);
}

function shortened(context, text, width) {
  const whole = context.measureText(text).width;
  if (whole <= width) return text;
  let letters = Math.floor((text.length * width) / whole);
  while (letters > 1 && context.measureText(`${text.slice(0, letters)}…`).width > width) --letters;
  return letters < 2 ? "" : `${text.slice(0, letters)}…`;
}

// Round figures for an axis: 1, 2 or 5 times a power of ten apart.
function ticks(from, to, most) {
  const rough = (to - from) / Math.max(1, most);
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = Math.max(
      [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough), Number.MIN_VALUE);
  const result = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) result.push(at);
  return result;
}
