// The memory plan: every buffer as a box, time to the right, addresses upwards.

function memoryView(model) {
  let inCycles = false;
  const buffers = model.buffers;
  const peakRow = model.steps[model.memoryPeak.step].row;
  const top =
      Math.max(1, ...buffers.map((buffer) => buffer.offset + buffer.bytes), model.planned_bytes);
  const starts = (step) => (inCycles ? model.steps[step].start : step);
  const ends = (step) => (inCycles ? model.steps[step].end : step + 1);
  const world = () => ({
    x0: 0,
    x1: Math.max(1, inCycles ? model.total_cycles : model.steps.length),
    y0: -1.06 * top,
    y1: 0
  });
  const place = (buffer) => ({
    x0: starts(buffer.first_step),
    x1: ends(buffer.last_step),
    y0: -(buffer.offset + buffer.bytes),
    y1: -buffer.offset
  });
  const order = [...buffers].sort((a, b) => a.first_step - b.first_step || a.offset - b.offset);
  order.forEach((buffer, index) => {
    buffer.index = index;
  });

  const describe = (buffer) => {
    const lines = [
      buffer.name, buffer.row >= 0 && `for ${model.rows[buffer.row].name}`,
      `${bytes(buffer.bytes)} at ${number(buffer.offset)} to ${
          number(buffer.offset + buffer.bytes)}`,
      `steps ${buffer.first_step} to ${buffer.last_step}`,
      buffer.staged && "constants, copied from flash"
    ];
    return lines.filter(Boolean).join("\n");
  };
  function axes(context, view, colours) {
    for (const at of ticks(0, top, 6)) {
      const y = view.pixelY(-at);
      if (y < 0 || y > view.height - view.margin.bottom) continue;
      context.fillStyle = colours.rule;
      context.fillRect(view.margin.left, y, view.plotWidth(), 1);
      context.fillStyle = colours.muted;
      context.textAlign = "right";
      context.fillText(number(Math.round(at)), view.margin.left - 6, Math.max(y, 8));
    }
    context.textAlign = "left";
    if (inCycles) return drawCycleAxis(context, view, colours, model);
    const bottom = view.height - view.margin.bottom;
    context.textAlign = "center";
    for (const at of ticks(view.x0, view.x1, view.plotWidth() / 60)) {
      if (at !== Math.floor(at) || at >= model.steps.length) continue;
      context.fillStyle = colours.muted;
      context.fillText(number(at), view.pixelX(at + 0.5), bottom + 15);
    }
    context.textAlign = "left";
  }
  function draw(context, view, colours) {
    axes(context, view, colours);
    context.save();
    context.beginPath();
    context.rect(view.margin.left, 0, view.plotWidth(), view.height - view.margin.bottom);
    context.clip();
    const box = (buffer) => {
      const at = place(buffer);
      const x = view.pixelX(at.x0), y = view.pixelY(at.y0);
      return [x, y, Math.max(view.pixelX(at.x1) - x, 1), Math.max(view.pixelY(at.y1) - y, 1)];
    };
    for (const buffer of order) {
      const [x, y, width, height] = box(buffer);
      if (x > view.width || x + width < view.margin.left) continue;
      context.fillStyle = buffer.staged ? colours.fill.copy : colours.fill.npu;
      context.fillRect(x, y, width, height);
      if (width > 2) {
        context.strokeStyle = buffer.staged ? colours.line.copy : colours.line.npu;
        context.lineWidth = 1;
        context.strokeRect(x + 0.5, y + 0.5, width - 1, Math.max(height - 1, 0.5));
      }
      const from = Math.max(x, view.margin.left);
      if (height > 18)
        plate(
            context, buffer.name, from + 4, y + height / 2,
            Math.min(x + width, view.width) - from - 8, colours, buffer.staged);
    }
    const peak = model.memoryPeak;
    const left = view.pixelX(starts(peak.step)),
          right = Math.max(view.pixelX(ends(peak.step)), left + 2);
    context.strokeStyle = colours.mark;
    context.lineWidth = 2;
    context.setLineDash([6, 4]);
    context.strokeRect(
        left, view.pixelY(-peak.top), right - left, view.pixelY(0) - view.pixelY(-peak.top));
    context.setLineDash([]);
    const text = `peak: ${bytes(peak.bytes)} in step ${peak.step}`;
    const wide = context.measureText(text).width;
    plate(
        context, text, Math.min(Math.max(left, view.margin.left + 4), view.width - wide - 8), 12,
        wide + 2, colours);
    const frame = (buffer, colour) => {
      const [x, y, width, height] = box(buffer);
      context.strokeStyle = colour;
      context.lineWidth = 3;
      context.strokeRect(x, y, width, height);
    };
    for (const buffer of order)
      if (isSelected(buffer)) frame(buffer, colours.mark);
    if (view.cursor && view.isFocused()) frame(view.cursor, colours.accent);
    context.restore();
  }
  const isSelected = (buffer) =>
      (selection.current.tensor !== undefined && buffer.tensor === selection.current.tensor) ||
      (selection.current.row !== undefined && buffer.row === selection.current.row);
  const xMode =
      el("select", {
        "aria-label": "Time axis",
        onchange: () => {
          inCycles = xMode.value === "cycles";
          view.fit();
        }
      },
         el("option", {value: "steps"}, "steps of the plan"),
         el("option", {value: "cycles"}, "cycles"));
  const view = new CanvasView({
    name: "memory",
    label: "Memory map over time",
    height: "max(24rem, calc(100vh - 20rem))",
    zoom: "free",
    margin: {left: 84, top: 0, right: 1, bottom: 28},
    world,
    draw,
    describe,
    place,
    tools: xMode,
    hit(x, y, shown) {
      if (x < shown.margin.left) return null;
      const at = shown.worldX(x), address = -shown.worldY(y);
      for (let i = order.length - 1; i >= 0; --i) {
        const buffer = order[i];
        if (address >= buffer.offset && address < buffer.offset + buffer.bytes &&
            at >= starts(buffer.first_step) && at < ends(buffer.last_step))
          return buffer;
      }
      return null;
    },
    step(buffer, pressed) {
      if (buffer === null || pressed === "Home") return order[0] ?? null;
      if (pressed === "End") return order[order.length - 1];
      if (pressed === "ArrowLeft" || pressed === "ArrowRight")
        return order[buffer.index + (pressed === "ArrowLeft" ? -1 : 1)] ?? null;
      const up = pressed === "ArrowUp";
      const live = order.filter(
          (each) => each.first_step <= buffer.first_step && each.last_step >= buffer.first_step &&
              (up ? each.offset > buffer.offset : each.offset < buffer.offset));
      return live.reduce(
          (best, each) => (
              best === null || (up ? each.offset < best.offset : each.offset > best.offset) ? each :
                                                                                              best),
          null);
    },
    choose: (buffer) => {
      if (buffer.tensor !== undefined)
        selection.tensor(buffer.tensor);
      else if (buffer.row >= 0)
        selection.row(buffer.row);
    },
  });
  return {
    element: el(
        "div", {},
        el("p", {}, `Planned ${bytes(model.planned_bytes)}`,
           model.sram_bytes && ` of ${bytes(model.sram_bytes)} of SRAM`,
           `; most live bytes: ${bytes(model.memoryPeak.bytes)} in step ${model.memoryPeak.step}`,
           peakRow >= 0 && `, ${model.rows[peakRow].name}`, "."),
        el("ul", {class: "legend"}, el("li", {}, key("npu"), "value"),
           el("li", {}, key("copy"), "constants copied from flash"),
           el("li", {}, "dashed frame: peak")),
        view.element),
    show: () => view.redraw(),
    opened: () => view.redraw(),
    view,
  };
}
