// The network: operators as boxes, tensors as edges between them.

// Nodes are rows, sources that cost nothing, inputs; an edge is one tensor from its writer to one
// reader.
function networkOf(model) {
  const nodes = [], nodeOf = new Map();
  const node = (key, make) => {
    if (!nodeOf.has(key)) {
      nodeOf.set(key, nodes.length);
      nodes.push({...make(), index: nodes.length, inputs: [], outputs: []});
    }
    return nodeOf.get(key);
  };
  const ofSources = (sources) => {
    const rows = rowsOf(model, sources);
    if (rows.length > 0)
      return node(`row ${rows[0]}`, () => ({row: rows[0], name: model.rows[rows[0]].name}));
    const named =
        sources.find((source) => !model.sources[source].op.includes("quantize_per_")) ?? sources[0];
    return node(`source ${sources[0]}`, () => ({name: model.sources[named].name, free: true}));
  };
  model.rows.forEach((row, index) => {
    if (row.sources.length > 0) ofSources(row.sources);
  });
  const edges = [], seen = new Set();
  model.tensors.forEach((tensor, index) => {
    const from = tensor.from.length > 0 ?
        ofSources(tensor.from) :
        node(`input ${tensor.name}`, () => ({name: tensor.name, input: true, tensor: index}));
    if (tensor.readers.length === 0) {
      const end =
          node(`output ${tensor.name}`, () => ({name: tensor.name, output: true, tensor: index}));
      if (tensor.place === "planned") edges.push({from, to: end, tensor: index});
    }
    for (const reader of tensor.readers) {
      if (reader.length === 0) continue;
      const to = ofSources(reader);
      const name = `${from} ${to} ${index}`;
      if (from === to || seen.has(name)) continue;
      seen.add(name);
      edges.push({from, to, tensor: index});
    }
  });
  // An output that no edge leads to is only a value between fused operators.
  const reached = new Set(edges.map((edge) => edge.to));
  const kept = nodes.filter((each) => !each.output || reached.has(each.index));
  const moved = new Map(kept.map((each, index) => [each.index, index]));
  kept.forEach((each, index) => {
    each.index = index;
  });
  const result =
      edges.map((edge) => ({...edge, from: moved.get(edge.from), to: moved.get(edge.to)}));
  result.forEach((edge) => {
    kept[edge.from].outputs.push(edge), kept[edge.to].inputs.push(edge);
  });
  return {nodes: kept, edges: result};
}

function tensorText(tensor) {
  const quantization = tensor.scale === undefined ?
      "" :
      `\nscale ${tensor.scale.toPrecision(6)}, zero_point ${tensor.zero_point}`;
  return `${tensor.name}: ${tensor.dtype}[${tensor.shape.join(",")}]\n${tensor.layout}, ${
      tensor.place}${quantization}`;
}

function graphView(model) {
  const {nodes, edges} = networkOf(model);
  const layout = layoutGraph(nodes.length, edges);
  nodes.forEach((node, index) => {
    node.x = layout.x[index], node.y = layout.y[index];
  });
  layout.layers.forEach(
      (items, at) => items.sort((a, b) => layout.x[a] - layout.x[b]).forEach((index, order) => {
        nodes[index].layer = at, nodes[index].order = order;
      }));
  edges.forEach((edge, index) => {
    edge.points = [
      {x: nodes[edge.from].x, y: nodes[edge.from].y + kNodeHeight / 2}, ...layout.bends[index],
      {x: nodes[edge.to].x, y: nodes[edge.to].y - kNodeHeight / 2}
    ];
    edge.low = Math.min(...edge.points.map((point) => point.x)) - 60,
    edge.high = Math.max(...edge.points.map((point) => point.x)) + 60;
    const middle = Math.floor((edge.points.length - 1) / 2), a = edge.points[middle],
          b = edge.points[middle + 1];
    edge.middle = {x: (a.x + b.x) / 2, y: (a.y + b.y) / 2};
  });
  const xs = nodes.map((node) => node.x), ys = nodes.map((node) => node.y);
  const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity),
        most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
  const whole = nodes.length === 0 ? {x0: 0, x1: 1, y0: 0, y1: 1} : {
    x0: least(xs) - kNodeWidth,
    x1: most(xs) + kNodeWidth,
    y0: least(ys) - kLayerHeight,
    y1: most(ys) + kLayerHeight
  };

  const kindOf = (node) => {
    const row = model.rows[node.row];
    if (row === undefined) return "stall";
    return row.cpu > row.npu + row.host ? "cpu" : "npu";
  };
  const second = (node) => {
    if (node.input) return "input";
    if (node.output) return "output";
    if (node.free) return "costs nothing";
    const row = model.rows[node.row];
    return `${row.backend} · ${number(row.cycles)} ${model.unit}`;
  };
  const describe = (item) => {
    if (item.points) return tensorText(model.tensors[item.tensor]);
    const row = model.rows[item.row];
    return [item.name, second(item), row?.op, row?.module && `in ${row.module}`]
        .filter(Boolean)
        .join("\n");
  };

  function drawEdge(context, view, colours, edge, scale) {
    if (edge.points[edge.points.length - 1].y < view.y0 || edge.points[0].y > view.y1 ||
        edge.high < view.x0 || edge.low > view.x1)
      return;
    const tensor = model.tensors[edge.tensor];
    const chosen = selection.current.tensor === edge.tensor;
    context.strokeStyle = chosen ? colours.mark : colours.muted;
    context.lineWidth = chosen ? 3 : tensor.dtype.startsWith("f") ? 2.5 : 1.2;
    context.setLineDash(tensor.layout === "contiguous" ? [5, 3] : []);
    context.beginPath();
    edge.points.forEach((point, index) => {
      const x = view.pixelX(point.x), y = view.pixelY(point.y);
      if (index === 0) return context.moveTo(x, y);
      const before = edge.points[index - 1], bx = view.pixelX(before.x), by = view.pixelY(before.y),
            bow = (y - by) / 2;
      context.bezierCurveTo(bx, by + bow, x, y - bow, x, y);
    });
    context.stroke();
    context.setLineDash([]);
    const end = edge.points[edge.points.length - 1], x = view.pixelX(end.x), y = view.pixelY(end.y),
          size = Math.min(6, 8 * scale);
    context.fillStyle = context.strokeStyle;
    context.beginPath();
    context.moveTo(x, y), context.lineTo(x - size, y - 1.6 * size),
        context.lineTo(x + size, y - 1.6 * size);
    context.fill();
  }
  const chipText = (tensor) => `${tensor.dtype} ${tensor.shape.join("×")}`;
  function drawChip(context, view, colours, edge) {
    const x = view.pixelX(edge.middle.x), y = view.pixelY(edge.middle.y);
    if (x < -100 || x > view.width + 100 || y < -20 || y > view.height + 20) return;
    const text = chipText(model.tensors[edge.tensor]), width = context.measureText(text).width;
    context.fillStyle = colours.page;
    context.fillRect(x - width / 2 - 3, y - 8, width + 6, 16);
    context.fillStyle = selection.current.tensor === edge.tensor ? colours.mark : colours.muted;
    context.fillText(text, x - width / 2, y);
    edge.chip = {x: x - width / 2 - 3, y: y - 8, width: width + 6};
  }
  function drawNode(context, view, colours, node, scale) {
    const x = view.pixelX(node.x - kNodeWidth / 2), y = view.pixelY(node.y - kNodeHeight / 2),
          width = kNodeWidth * scale, height = kNodeHeight * scale;
    if (x > view.width || x + width < 0 || y > view.height || y + height < 0) return;
    const kind = kindOf(node);
    context.fillStyle = node.row === undefined ? colours.panel : colours.fill[kind];
    context.fillRect(x, y, width, height);
    const chosen = node.row !== undefined && node.row === selection.current.row;
    const focused = view.cursor === node && view.isFocused();
    context.strokeStyle = chosen ? colours.mark :
        focused                  ? colours.accent :
        node.row === undefined   ? colours.muted :
                                   colours.line[kind];
    context.lineWidth = chosen || focused ? 4 : 1.2;
    if (node.row === undefined) context.setLineDash([4, 3]);
    context.strokeRect(x, y, width, height);
    context.setLineDash([]);
    if (scale < 0.45) return;
    context.font = `${Math.min(14, 13 * scale)}px system-ui, sans-serif`;
    const inner = width - 12;
    plate(context, node.name, x + 6, y + height * 0.3, inner, colours, kind === "cpu");
    plate(context, second(node), x + 6, y + height * 0.72, inner, colours, kind === "cpu");
    context.font = "13px system-ui, sans-serif";
  }
  function draw(context, view, colours) {
    const scale = view.plotWidth() / (view.x1 - view.x0);
    for (const edge of edges) drawEdge(context, view, colours, edge, scale);
    for (const edge of edges) edge.chip = null;
    if (scale > 0.7) {
      context.font = "11px system-ui, sans-serif";
      const taken = new Set();
      for (const edge of edges) {
        const spot =
            `${edge.tensor} ${Math.round(edge.middle.x / 40)} ${Math.round(edge.middle.y / 20)}`;
        if (taken.has(spot)) continue;
        taken.add(spot);
        drawChip(context, view, colours, edge);
      }
      context.font = "13px system-ui, sans-serif";
    }
    for (const node of nodes) drawNode(context, view, colours, node, scale);
  }
  const nearestIn = (items, node) => items.reduce(
      (best, each) =>
          (best === null || Math.abs(nodes[each].x - node.x) < Math.abs(nodes[best].x - node.x) ?
               each :
               best),
      null);
  const view = new CanvasView({
    name: "graph",
    label: "Graph of the network",
    height: "max(26rem, calc(100vh - 18rem))",
    zoom: "both",
    world: () => whole,
    draw,
    describe,
    hit(x, y, shown) {
      const worldX = shown.worldX(x), worldY = shown.worldY(y);
      for (const node of nodes)
        if (Math.abs(worldX - node.x) <= kNodeWidth / 2 &&
            Math.abs(worldY - node.y) <= kNodeHeight / 2)
          return node;
      return edges.find(
                 (edge) => edge.chip && x >= edge.chip.x && x <= edge.chip.x + edge.chip.width &&
                     y >= edge.chip.y && y <= edge.chip.y + 16) ??
          null;
    },
    place: (item) => (
        item.points ? {x0: item.middle.x, x1: item.middle.x, y0: item.middle.y, y1: item.middle.y} :
                      {
                        x0: item.x - kNodeWidth / 2,
                        x1: item.x + kNodeWidth / 2,
                        y0: item.y - kNodeHeight / 2,
                        y1: item.y + kNodeHeight / 2
                      }),
    step(item, pressed) {
      if (item === null || item.points) return nodes[layout.layers[0]?.[0]] ?? null;
      if (pressed === "Home") return nodes[layout.layers[0][0]];
      if (pressed === "End") return nodes[layout.layers[layout.layers.length - 1][0]];
      if (pressed === "ArrowDown" || pressed === "ArrowUp") {
        const next = nearestIn(
            pressed === "ArrowDown" ? item.outputs.map((edge) => edge.to) :
                                      item.inputs.map((edge) => edge.from),
            item);
        return next === null ? null : nodes[next];
      }
      return nodes[layout.layers[item.layer][item.order + (pressed === "ArrowLeft" ? -1 : 1)]] ??
          null;
    },
    choose(item) {
      if (item.row !== undefined)
        selection.row(item.row);
      else if (item.tensor !== undefined)
        selection.tensor(item.tensor);
    },
    opened(shown) {
      // Readable from the start: the first operators at full size, unless all of them fit.
      if (shown.plotWidth() / (shown.x1 - shown.x0) > 0.8) return;
      const first = nodes[layout.layers[0]?.[0] ?? 0];
      shown.x0 = first.x - shown.plotWidth() / 2, shown.x1 = first.x + shown.plotWidth() / 2;
      shown.y0 = first.y - kLayerHeight, shown.y1 = shown.y0 + shown.plotHeight();
      toSelected();
    },
  });
  function toSelected() {
    const node = nodes.find((each) => each.row !== undefined && each.row === selection.current.row);
    if (!node || view.width === undefined) return;
    view.cursor = node;
    view.reveal(node);
  }
  const size = `${count(nodes.length, "node")}, ${count(edges.length, "edge")}. `;
  return {
    element: el(
        "div", {},
        el("ul", {class: "legend"}, el("li", {}, key("npu"), "on the NPU"),
           el("li", {}, key("cpu"), "on the Cortex-M"),
           el("li", {}, "dashed box: costs nothing, or input, output"),
           el("li", {}, "solid edge: channels_last; dashed: contiguous; thick: float")),
        view.element,
        el("p", {class: "muted"}, size,
           "A click or Enter selects an operator, a click on the shape at an edge its tensor; up and down follow the edges.")),
    show: () => {
      toSelected();
      view.redraw();
    },
    opened: () => view.redraw(),
    view,
    nodes,
  };
}
