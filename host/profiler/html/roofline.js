// Roofline: MACs per byte moved against MACs per cycle, under the roofs of the array and of the
// fastest transfer that the run shows.

const kShapes = {
  "MAC bound": "circle",
  "memory bound": "square",
  "host bound": "triangle",
  "flash bound": "diamond"
};

function rooflineView(model) {
  const modes = {
    sram:
        {title: "SRAM read and written", bytes: (row) => row.sram_bytes, cycles: (row) => row.npu},
    flash: {title: "flash", bytes: (row) => row.flash_bytes, cycles: (row) => row.npu + row.stall},
  };
  let mode = "sram", points = [], rate = 0;

  function collect() {
    const {bytes, cycles} = modes[mode];
    points = [];
    rate = 0;
    model.rows.forEach((row, index) => {
      if (bytes(row) > 0 && cycles(row) > 0)
        rate = Math.max(
            rate,
            mode === "sram"     ? bytes(row) / cycles(row) :
                row.copying > 0 ? bytes(row) / row.copying :
                                  0);
      if (row.macs > 0 && bytes(row) > 0 && cycles(row) > 0)
        points.push({
          row: index,
          intensity: row.macs / bytes(row),
          speed: row.macs / cycles(row),
          x: Math.log10(row.macs / bytes(row)),
          y: -Math.log10(row.macs / cycles(row))
        });
    });
    points.sort((a, b) => a.x - b.x);
    points.forEach((point, index) => {
      point.index = index;
    });
  }
  collect();
  // The world is in powers of ten; y grows downwards on a screen.
  const world = () => {
    const xs = points.map((point) => point.x), ys = points.map((point) => point.y);
    const ridge = rate > 0 && model.peak > 0 ? Math.log10(model.peak / rate) : 0;
    return {
      x0: Math.min(ridge, ...xs) - 0.4,
      x1: Math.max(ridge, ...xs) + 0.6,
      y0: Math.min(-Math.log10(Math.max(1, model.peak)), ...ys) - 0.45,
      y1: Math.max(0, ...ys) + 0.25
    };
  };
  const describe = (point) => {
    const row = model.rows[point.row];
    const lines = [
      row.name, `${point.intensity.toFixed(2)} MACs per byte of ${modes[mode].title}`,
      `${point.speed.toFixed(2)} MACs per cycle of ${model.peak}: ${
          percent(model.peak ? point.speed / model.peak : 0, 0)}`,
      model.bounds[point.row].text
    ];
    if (row.limited_by) lines.push(`NPU limited by ${row.limited_by}`);
    return lines.join("\n");
  };
  function shape(context, kind, x, y, size) {
    context.beginPath();
    if (kind === "square")
      context.rect(x - size * 0.9, y - size * 0.9, 1.8 * size, 1.8 * size);
    else if (kind === "triangle")
      context.moveTo(x, y - size * 1.2), context.lineTo(x + size * 1.1, y + size * 0.8),
          context.lineTo(x - size * 1.1, y + size * 0.8), context.closePath();
    else if (kind === "diamond")
      context.moveTo(x, y - size * 1.3), context.lineTo(x + size * 1.3, y),
          context.lineTo(x, y + size * 1.3), context.lineTo(x - size * 1.3, y), context.closePath();
    else
      context.arc(x, y, size, 0, 7);
  }
  function axes(context, view, colours) {
    const bottom = view.height - view.margin.bottom;
    const nice = (power) =>
        (power >= 0 && power < 7 ? number(Math.round(10 ** power)) :
             power < 0           ? (10 ** power).toFixed(-power) :
                                   `1e${power}`);
    for (let power = Math.ceil(view.x0); power <= view.x1; ++power) {
      context.fillStyle = colours.rule;
      context.fillRect(view.pixelX(power), view.margin.top, 1, bottom - view.margin.top);
      context.fillStyle = colours.muted;
      context.textAlign = "center";
      context.fillText(nice(power), view.pixelX(power), bottom + 14);
    }
    for (let power = Math.ceil(-view.y1); power <= -view.y0; ++power) {
      context.fillStyle = colours.rule;
      context.fillRect(view.margin.left, view.pixelY(-power), view.plotWidth(), 1);
      context.fillStyle = colours.muted;
      context.textAlign = "right";
      context.fillText(nice(power), view.margin.left - 6, view.pixelY(-power));
    }
    context.fillStyle = colours.text;
    context.textAlign = "center";
    context.fillText(
        `MACs per byte of ${modes[mode].title}`, view.margin.left + view.plotWidth() / 2,
        bottom + 34);
    context.save();
    context.translate(12, view.margin.top + view.plotHeight() / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(`MACs per cycle${mode === "flash" ? ", waiting counted" : ""}`, 0, 0);
    context.restore();
    context.textAlign = "left";
  }
  function roofs(context, view, colours) {
    context.strokeStyle = colours.mark;
    context.fillStyle = colours.mark;
    context.lineWidth = 2;
    const line = (x0, y0, x1, y1) => {
      context.beginPath();
      context.moveTo(view.pixelX(x0), view.pixelY(y0));
      context.lineTo(view.pixelX(x1), view.pixelY(y1));
      context.stroke();
    };
    if (model.peak === 0) return;
    const roof = -Math.log10(model.peak);
    const ridge = rate > 0 ? Math.log10(model.peak / rate) : view.x0;
    line(Math.max(ridge, view.x0), roof, view.x1, roof);
    if (rate <= 0) return;
    context.setLineDash([7, 4]);
    line(view.x0, -(Math.log10(rate) + view.x0), ridge, roof);
    context.setLineDash([]);
  }
  // What the two lines are stands in the corner above them, where no point can be.
  function roofNames(context, view, colours) {
    const names = [
      `— array: ${model.peak} MACs per cycle`,
      `- - ${
          mode === "sram" ? "SRAM, most that an operator reached" :
                            "flash, most that a copy reached"}: ${rate.toFixed(2)} bytes per cycle`
    ];
    if (model.peak > 0)
      names.slice(0, rate > 0 ? 2 : 1)
          .forEach(
              (name, line) => plate(
                  context, name, view.margin.left + 8, view.margin.top + 14 + 20 * line, 600,
                  colours));
  }
  function draw(context, view, colours) {
    axes(context, view, colours);
    context.save();
    context.beginPath();
    context.rect(view.margin.left, view.margin.top, view.plotWidth(), view.plotHeight());
    context.clip();
    roofs(context, view, colours);
    roofNames(context, view, colours);
    const painted = new Set();  // of many points in one place the first is enough
    for (const point of points) {
      const spot = `${model.bounds[point.row].text} ${Math.round(view.pixelX(point.x) / 2)} ${
          Math.round(view.pixelY(point.y) / 2)}`;
      if (painted.has(spot)) continue;
      painted.add(spot);
      const kind = model.bounds[point.row].kind;
      shape(
          context, kShapes[model.bounds[point.row].text], view.pixelX(point.x),
          view.pixelY(point.y), 6);
      context.fillStyle = colours.page;
      context.fill();
      context.fillStyle = colours.fill[kind];
      context.fill();
      context.lineWidth = 1.5;
      context.strokeStyle = colours.line[kind];
      context.stroke();
    }
    const ring = (point, colour) => {
      context.beginPath();
      context.arc(view.pixelX(point.x), view.pixelY(point.y), 12, 0, 7);
      context.lineWidth = 3;
      context.strokeStyle = colour;
      context.stroke();
    };
    const chosen = points.find((point) => point.row === selection.current.row);
    if (chosen) {
      ring(chosen, colours.mark);
      const name = model.rows[chosen.row].name;
      const width = Math.min(context.measureText(name).width, 260);
      plate(
          context, name, Math.min(view.pixelX(chosen.x) - 6, view.width - width - 12),
          view.pixelY(chosen.y) - 24, 260, colours);
    }
    if (view.cursor && view.isFocused() && points.includes(view.cursor))
      ring(view.cursor, colours.accent);
    context.restore();
    if (points.length === 0) {
      context.fillStyle = colours.muted;
      context.fillText(
          `No operator has both MACs and bytes of ${modes[mode].title}.`, view.margin.left + 12,
          view.margin.top + 24);
    }
  }
  const choice =
      el("select", {
        "aria-label": "Bytes",
        onchange: () => {
          mode = choice.value;
          collect();
          view.cursor = null;
          view.fit();
        }
      },
         Object.entries(modes).map(
             ([value, each]) => el("option", {value}, `bytes of ${each.title}`)));
  const view = new CanvasView({
    name: "roofline",
    label: "Roofline chart",
    height: "max(24rem, calc(100vh - 22rem))",
    zoom: "free",
    margin: {left: 64, top: 6, right: 6, bottom: 46},
    world,
    draw,
    describe,
    tools: choice,
    hit(x, y, shown) {
      let best = null, nearest = 14;
      for (const point of points) {
        const distance = Math.hypot(shown.pixelX(point.x) - x, shown.pixelY(point.y) - y);
        if (distance < nearest) best = point, nearest = distance;
      }
      return best;
    },
    place: (point) => ({x0: point.x, x1: point.x, y0: point.y, y1: point.y}),
    step(point, pressed) {
      if (point === null || !points.includes(point) || pressed === "Home") return points[0] ?? null;
      if (pressed === "End") return points[points.length - 1];
      return points[point.index + (pressed === "ArrowLeft" || pressed === "ArrowUp" ? -1 : 1)] ??
          null;
    },
    choose: (point) => selection.row(point.row),
  });
  return {
    element: el(
        "div", {},
        el("ul", {class: "legend"},
           [
             ["● ", "MAC bound: only fewer MACs, or channels that fill the array, help"],
             ["■ ", "memory bound: a port of the NPU's SRAM decides"],
             ["▲ ", "host bound: starting the call costs more than the call"],
             ["◆ ", "flash bound: waits for its constants"]
           ].map(([mark, text]) => el("li", {}, mark, text))),
        view.element,
        el("p", {class: "muted"},
           "A point below the roofs is slowed down by something else: see its limit. In the view of flash a point may lie above the slope: " +
               "its constants came while earlier operators ran.")),
    show: () => view.redraw(),
    opened: () => view.redraw(),
    view,
  };
}
