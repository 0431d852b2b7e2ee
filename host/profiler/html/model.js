// What the report shows: the JSON of `deuteron profile --json`, with the relations between its
// parts.

function stored(id) {
  const text = document.getElementById(id).textContent;
  return text === "" ? null : JSON.parse(text);
}

function makeModel(profile, compileReport, layers) {
  const model = {...profile, compileReport, layers};
  model.peak = profile.array ? profile.array.pipelines * profile.array.macs : 0;
  model.unit = profile.unit ?? "cycles";
  model.howKnown = profile.time_known ?? "";
  model.clockText = profile.clock_hz ? `${number(profile.clock_hz / 1e6)} MHz` : "";
  model.rowOfSource = new Map();
  profile.rows.forEach((row, index) => row.sources.forEach((source) => {
    if (!model.rowOfSource.has(source)) model.rowOfSource.set(source, index);
  }));
  model.spansOfRow = profile.rows.map(() => []);
  profile.spans.forEach((span, index) => model.spansOfRow[span.row].push(index));
  model.bounds = profile.rows.map((row) => boundOf(row));
  relateTensors(model);
  relateBuffers(model);
  model.layerOf = new Map((layers || []).map((layer) => [layer.name, layer]));
  relateRefusals(model);
  return model;
}

const kFullArray =
    0.9;  // of the array: more is bound by it, whatever stands in the last few cycles

// What decides the time of a row, as one word for tables and one of the kinds for colours.
function boundOf(row) {
  const most = kKinds.reduce((best, kind) => (row[kind] > row[best] ? kind : best), "npu");
  if (row.cycles === 0) return {kind: "npu", text: ""};
  if (most === "cpu") return {kind: "cpu", text: "CPU kernel"};
  if (most === "host") return {kind: "host", text: "host bound"};
  if (most === "stall") return {kind: "stall", text: "flash bound"};
  if (row.limited_by === "array" || row.utilization >= kFullArray)
    return {kind: "npu", text: "MAC bound"};
  if (row.limited_by.endsWith(" port")) return {kind: "npu", text: "memory bound"};
  return {kind: "npu", text: row.limited_by === "start" ? "start bound" : "NPU"};
}

const rowsOf =
    (model, sources) => [...new Set(sources.filter((source) => model.rowOfSource.has(source))
                                        .map((source) => model.rowOfSource.get(source)))];

// Which rows write and read a tensor; sources without a row (a view costs nothing) are left to the
// graph.
function relateTensors(model) {
  model.inputsOfRow = model.rows.map(() => []);
  model.outputsOfRow = model.rows.map(() => []);
  model.tensors.forEach((tensor, index) => {
    for (const row of rowsOf(model, tensor.from)) model.outputsOfRow[row].push(index);
    const readers = new Set(tensor.readers.flatMap((reader) => rowsOf(model, reader)));
    for (const row of readers)
      if (!model.outputsOfRow[row].includes(index)) model.inputsOfRow[row].push(index);
  });
}

// When the steps of the memory plan run, in cycles, and whose each buffer is.
function relateBuffers(model) {
  const last = Math.max(
      -1, ...model.memory.map((buffer) => buffer.last_step),
      ...model.spans.map((span) => span.step ?? -1));
  const rowOfStep = new Array(last + 1).fill(-1);
  const start = new Array(last + 1).fill(-1), end = new Array(last + 1).fill(-1);
  for (const span of model.spans) {
    if (span.step === undefined || span.track === "copy" || span.waits) continue;
    start[span.step] = start[span.step] < 0 ? span.start : Math.min(start[span.step], span.start);
    end[span.step] = Math.max(end[span.step], span.end);
    rowOfStep[span.step] = span.row;
  }
  // A step lasts until the next begins: what the host does between them belongs to no kernel.
  model.steps = [];
  let next = model.total_cycles;
  for (let step = last; step >= 0; --step) {
    const begin = start[step] < 0 ? next : start[step];
    model.steps[step] = {start: begin, end: Math.max(next, begin), row: rowOfStep[step]};
    next = begin;
  }
  if (last >= 0) model.steps[0].start = 0;
  const tensorOf = new Map(model.tensors.map((tensor, index) => [tensor.name, index]));
  model.buffers = model.memory.map((buffer) => {
    const tensor = buffer.staged ? undefined : tensorOf.get(buffer.name);
    const from = tensor === undefined ? [] : rowsOf(model, model.tensors[tensor].from);
    const row = from.length > 0 ?
        from[from.length - 1] :
        model.steps[buffer.staged ? buffer.last_step : buffer.first_step].row;
    return {...buffer, tensor, row};
  });
  model.memoryPeak = peakOf(model);
}

// Bytes that are live in each step, buffers that share their place counted once, and the step with
// most of them.
function peakOf(model) {
  const starting = model.steps.map(() => []);
  for (const buffer of model.buffers) starting[buffer.first_step].push(buffer);
  let live = [];
  let peak = {step: 0, bytes: 0, top: 0};
  model.steps.forEach((_, step) => {
    live = live.filter((buffer) => buffer.last_step >= step)
               .concat(starting[step])
               .sort((a, b) => a.offset - b.offset);
    let used = 0, top = 0;
    for (const buffer of live) {
      const stop = buffer.offset + buffer.bytes;
      if (stop > top) used += stop - Math.max(top, buffer.offset);
      top = Math.max(top, stop);
    }
    if (used > peak.bytes) peak = {step, bytes: used, top};
  });
  return peak;
}

// Why rows are not on the NPU; the names of a refusal are those of its source operators.
function relateRefusals(model) {
  model.refusalsOfRow = model.rows.map(() => []);
  const refusals = model.compileReport?.refusals ?? [];
  const rowOfName = new Map();
  model.rows.forEach(
      (row, index) =>
          row.sources.forEach((source) => rowOfName.set(model.sources[source].name, index)));
  model.rows.forEach((row, index) => rowOfName.set(row.name, index));
  for (const refusal of refusals) {
    const name = [refusal.name, ...refusal.name.split(" + ")].find((each) => rowOfName.has(each));
    refusal.row = name === undefined ? -1 : rowOfName.get(name);
    if (refusal.row >= 0) model.refusalsOfRow[refusal.row].push(refusal);
  }
}

// What is selected, in all views at once: {row}, {tensor} or nothing.
const selection = {
  current: {},
  listeners: [],
  set(next) {
    this.current = next;
    for (const listener of this.listeners) listener(next);
  },
  row(index) { this.set({row: index}); },
  tensor(index) { this.set({tensor: index}); },
};
