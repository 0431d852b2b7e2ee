// Layers from top to bottom: a node stands below all that it reads. Order and place within a layer
// come from the neighbours' (barycentres).
//
// `nodes`: count; `edges`: [{from, to}]; returns {x, y of each node, layers: nodes in each, bends
// of each edge: points between its ends}.

const kNodeWidth = 210, kNodeHeight = 44, kLayerHeight = 92, kGap = 26;
const kMostBends = 20000;
const kSweeps = 6;

function layoutGraph(nodes, edges) {
  const layer = layersOf(nodes, edges);
  // An edge over several layers gets a point in each of them, so that it finds its way between
  // nodes.
  const layerOf = [...layer], links = [], bendsOf = edges.map(() => []);
  let bends =
      edges.reduce((sum, edge) => sum + Math.max(0, layer[edge.to] - layer[edge.from] - 1), 0);
  edges.forEach((edge, index) => {
    let from = edge.from;
    if (bends <= kMostBends)
      for (let at = layer[edge.from] + 1; at < layer[edge.to]; ++at) {
        layerOf.push(at);
        bendsOf[index].push(layerOf.length - 1);
        links.push([from, layerOf.length - 1]);
        from = layerOf.length - 1;
      }
    if (layer[edge.to] > layer[edge.from]) links.push([from, edge.to]);
  });
  const above = layerOf.map(() => []), below = layerOf.map(() => []);
  for (const [from, to] of links) below[from].push(to), above[to].push(from);
  const layers = [];
  layerOf.forEach((at, index) => (layers[at] ??= []).push(index));
  const x = place(layers, above, below, (index) => (index < nodes ? kNodeWidth : 20));
  const y = layerOf.map((at) => at * kLayerHeight);
  return {
    x: x.slice(0, nodes),
    y: y.slice(0, nodes),
    layers: layers.map((items) => items.filter((index) => index < nodes)),
    bends: bendsOf.map((points) => points.map((index) => ({x: x[index], y: y[index]}))),
  };
}

// Longest way from a node without inputs; edges that close a cycle do not count. Nodes without
// inputs stand right above their first reader.
function layersOf(nodes, edges) {
  const next = Array.from({length: nodes}, () => []), waiting = new Array(nodes).fill(0),
        layer = new Array(nodes).fill(0);
  for (const {from, to} of edges) next[from].push(to), ++waiting[to];
  const inputs = waiting.map((many) => many === 0);
  const done = new Array(nodes).fill(false), ready = [];
  for (let node = 0; node < nodes; ++node)
    if (waiting[node] === 0) ready.push(node);
  let oldest = 0;
  for (let placed = 0, head = 0; placed < nodes;) {
    if (head === ready.length) {  // all that is left is in cycles: the first of them goes ahead
      while (done[oldest] || waiting[oldest] <= 0) ++oldest;
      waiting[oldest] = 0;
      ready.push(oldest);
    }
    const node = ready[head++];
    done[node] = true;
    ++placed;
    for (const to of next[node]) {
      if (done[to]) continue;
      layer[to] = Math.max(layer[to], layer[node] + 1);
      if (--waiting[to] === 0) ready.push(to);
    }
  }
  for (let node = 0; node < nodes; ++node)
    if (inputs[node] && next[node].length > 0)
      layer[node] = Math.max(0, Math.min(...next[node].map((to) => layer[to])) - 1);
  return layer;
}

function place(layers, above, below, width) {
  const x = [];
  const mean = (neighbours) =>
      neighbours.reduce((sum, each) => sum + x[each], 0) / neighbours.length;
  const wished = (index, down) => {
    const first = down ? above[index] : below[index], second = down ? below[index] : above[index];
    return first.length > 0                             ? mean(first) :
        second.length > 0 && x[second[0]] !== undefined ? mean(second) :
                                                          x[index] ?? 0;
  };
  // In the order of their wishes, each as near to its own as the others let it.
  const settle = (items, wishes) => {
    items.sort((a, b) => wishes.get(a) - wishes.get(b) || a - b);
    let right = -Infinity;
    const shifts = [];
    for (const index of items) {
      const half = width(index) / 2;
      x[index] = Math.max(wishes.get(index), right + kGap + half);
      shifts.push(x[index] - wishes.get(index));
      right = x[index] + half;
    }
    const shift = shifts.reduce((sum, each) => sum + each, 0) / Math.max(1, shifts.length);
    for (const index of items) x[index] -= shift;
  };
  for (const items of layers)
    settle(
        items,
        new Map(items.map((index) => [index, above[index].length > 0 ? mean(above[index]) : 0])));
  for (let sweep = 0; sweep < kSweeps; ++sweep) {
    const down = sweep % 2 === 1;
    for (let i = 0; i < layers.length; ++i) {
      const items = layers[down ? i : layers.length - 1 - i];
      settle(items, new Map(items.map((index) => [index, wished(index, down)])));
    }
  }
  return x;
}
