// Host, NPU and copy engine over the cycles of the run.

const kTracks = [["host", "Host"], ["npu", "NPU"], ["copy", "Copies"]];
const kTrackHeight = 64;

// Spans of the three tracks by time. What no span of host and NPU covers, the host spends on
// starting calls and copies.
function timelineItems(model) {
  const items = [[], [], []];
  const kindOf = (span) =>
      (span.track === "npu"      ? "npu" :
           span.track === "copy" ? "copy" :
           span.waits            ? "stall" :
                                   "cpu");
  let cursor = 0;
  const gap = (end, row) => {
    if (end > cursor)
      items[0].push(
          {track: 0, kind: "host", start: cursor, end, row, name: "starts calls and copies"});
  };
  for (const span of model.spans) {
    const track = kTracks.findIndex(([name]) => name === span.track);
    if (track < 2) {
      gap(span.start, span.row);
      cursor = Math.max(cursor, span.end);
    }
    items[track].push({
      track,
      kind: kindOf(span),
      start: span.start,
      end: span.end,
      row: span.row,
      name: span.kernel,
      span
    });
  }
  gap(model.total_cycles, -1);
  items.forEach((track) => track.forEach((item, index) => {
    item.index = index;
  }));
  return items;
}

function timelineView(model) {
  const tracks = timelineItems(model);
  const all = tracks.flat();
  const world = () => ({x0: 0, x1: Math.max(1, model.total_cycles), y0: 0, y1: 3});
  const top = (track) => 8 + track * (kTrackHeight + 10);
  const title = (item) => {
    if (item.kind === "host") return "host";
    return item.kind === "cpu" || item.row < 0 ? item.name :
                                                 `${item.name} · ${model.rows[item.row].name}`;
  };

  function describe(item) {
    const lines = [
      item.row >= 0 ? model.rows[item.row].name : "no operator",
      `${kKindNames[item.kind]}: ${item.name}`,
      `${model.unit} ${number(item.start)} to ${number(item.end)}: ${number(item.end - item.start)}`
    ];
    if (item.span?.part) lines.push(`part ${item.span.part}`);
    if (item.span?.macs) lines.push(`${number(item.span.macs)} MACs`);
    if (item.span?.bytes) lines.push(bytes(item.span.bytes));
    if (item.span?.limit) lines.push(`limited by ${item.span.limit}`);
    if (item.span?.rearranges)
      lines.push(`brings ${item.span.rearranges} into another order of bytes`);
    return lines.join("\n");
  }
  // First item of a track that ends behind x.
  function firstAt(items, x) {
    let low = 0, high = items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (items[middle].end <= x)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  function draw(context, view, colours) {
    drawCycleAxis(context, view, colours, model);
    kTracks.forEach(([, name], track) => {
      const y = top(track);
      context.fillStyle = colours.text;
      context.fillText(name, 6, y + kTrackHeight / 2);
      context.save();
      context.beginPath();
      context.rect(view.margin.left, y, view.plotWidth(), kTrackHeight);
      context.clip();
      context.fillStyle = colours.panel;
      context.fillRect(view.margin.left, y, view.plotWidth(), kTrackHeight);
      let painted = -1;
      for (let i = firstAt(tracks[track], view.x0);
           i < tracks[track].length && tracks[track][i].start < view.x1; ++i) {
        const item = tracks[track][i];
        const x = view.pixelX(item.start), end = Math.max(view.pixelX(item.end), x + 1);
        if (end < painted + 0.5) continue;  // thinner than a pixel, and that is painted
        painted = end;
        context.fillStyle = colours.fill[item.kind];
        context.fillRect(x, y, end - x, kTrackHeight);
        if (end - x > 3) {
          context.strokeStyle = colours.line[item.kind];
          context.lineWidth = 1;
          context.strokeRect(x + 0.5, y + 0.5, end - x - 1, kTrackHeight - 1);
        }
        const from = Math.max(x, view.margin.left);
        plate(
            context, title(item), from + 4, y + kTrackHeight / 2,
            Math.min(end, view.width) - from - 8, colours, item.kind !== "npu");
      }
      context.restore();
    });
    const frame = (item, colour, width) => {
      const x = view.pixelX(item.start), end = Math.max(view.pixelX(item.end), x + 2);
      if (end < view.margin.left || x > view.width) return;
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.strokeRect(
          Math.max(x, view.margin.left), top(item.track) - 1,
          Math.min(end, view.width - 1) - Math.max(x, view.margin.left), kTrackHeight + 2);
    };
    if (selection.current.row !== undefined)
      for (const item of all)
        if (item.row === selection.current.row) frame(item, colours.mark, 3);
    if (view.cursor && view.isFocused()) frame(view.cursor, colours.accent, 3);
  }
  function step(item, key) {
    if (item === null)
      return all.find((each) => each.end > view.x0 && each.start >= view.x0) ?? all[0] ?? null;
    const track = tracks[item.track];
    if (key === "Home") return track[0];
    if (key === "End") return track[track.length - 1];
    if (key === "ArrowLeft" || key === "ArrowRight")
      return track[item.index + (key === "ArrowLeft" ? -1 : 1)] ?? null;
    const other = item.track + (key === "ArrowUp" ? -1 : 1);
    if (other < 0 || other > 2 || tracks[other].length === 0) return null;
    return tracks[other][Math.min(firstAt(tracks[other], item.start), tracks[other].length - 1)];
  }
  const view = new CanvasView({
    name: "timeline",
    label: "Timeline of host, NPU and copy engine",
    height: `${top(3) + 30}px`,
    zoom: "x",
    margin: {left: 64, top: 0, right: 1, bottom: 28},
    world,
    draw,
    describe,
    step,
    hit(x, y, shown) {
      const track = [0, 1, 2].find((each) => y >= top(each) && y <= top(each) + kTrackHeight);
      if (track === undefined || x < shown.margin.left) return null;
      const at = shown.worldX(x), close = shown.worldX(x + 2) - at;
      const item = tracks[track][firstAt(tracks[track], at - close)];
      return item && item.start <= at + close ? item : null;
    },
    place: (item) => ({x0: item.start, x1: item.end, y0: 0, y1: 3}),
    choose: (item) => {
      if (item.row >= 0) selection.row(item.row);
    },
  });
  return {
    element: el(
        "div", {}, legend(["npu", "host", "stall", "cpu", "copy"]), view.element,
        el("p", {class: "muted"},
           "Wheel or + and − zoom, drag or Shift with arrows move, arrows go from span to span, a click or Enter selects the operator.")),
    show(selected) {
      const first = selected.row === undefined ?
          undefined :
          all.find((item) => item.row === selected.row && item.kind !== "host");
      if (first && view.width !== undefined && !(view.cursor && view.cursor.row === selected.row)) {
        view.cursor = first;
        view.reveal(first);
      }
      view.redraw();
    },
    opened: () => view.redraw(),
    view,
  };
}

// A label on a ground of its own, so that no pattern runs through the letters.
function plate(context, text, x, y, width, colours, ground = true) {
  if (width < 24) return;
  context.fillStyle = colours.text;
  if (!ground) return label(context, text, x, y, width);
  const shown = shortened(context, text, width);
  if (shown === "") return;
  const wide = context.measureText(shown).width;
  context.globalAlpha = 0.82;
  context.fillStyle = colours.page;
  context.fillRect(x - 2, y - 9, wide + 4, 18);
  context.globalAlpha = 1;
  context.fillStyle = colours.text;
  context.fillText(shown, x, y);
}

// Cycles along the lower edge, with the simulated time at the clock.
function drawCycleAxis(context, view, colours, model) {
  const y = view.height - view.margin.bottom;
  context.textAlign = "center";
  for (const at of ticks(view.x0, view.x1, view.plotWidth() / 150)) {
    const x = view.pixelX(at);
    if (x < view.margin.left) continue;
    context.fillStyle = colours.rule;
    context.fillRect(x, 0, 1, y + 4);
    context.fillStyle = colours.muted;
    const time = model.clock_hz ? ` · ${((at / model.clock_hz) * 1e3).toPrecision(3)} ms` : "";
    const text = `${number(Math.round(at))}${time}`;
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(x, half + 2), view.width - half - 2), y + 15);
  }
  context.textAlign = "left";
  if (model.clock_hz) context.fillText(model.howKnown, 2, y + 15);
}
