// Summary: what the run cost, and what to do next.

function summaryView(model) {
  const total = Math.max(1, model.total_cycles);
  const time = model.clock_hz ? `${model.milliseconds.toPrecision(4)} ms` : "clock not known";
  const tile = (name, value, note) =>
      el("div", {class: "tile"}, name, el("b", {}, value), el("span", {class: "muted"}, note));
  const runs = model.runs.length > 1 ? `one of ${model.runs.length} runs` : "one run";
  const tiles = el(
      "div", {class: "tiles"},
      model.simulated !== false &&
          tile(
              "Time", time,
              `${model.howKnown}${
                  model.clockText ? ` at ${model.clockText}` : ""}: docs/npu.md, docs/targets.md`),
      tile(
          capital(model.unit), number(model.total_cycles),
          `${runs}; ${percent(model.on_operators / total)} traced to a source operator`),
      model.planned_bytes > 0 &&
          tile(
              "SRAM planned", `${number(model.planned_bytes)} bytes`,
              model.sram_bytes ? `${percent(model.planned_bytes / model.sram_bytes)} of ${
                                     bytes(model.sram_bytes)}` :
                                 "of the arena"),
      model.flash_bytes !== undefined &&
          tile(
              "Flash", `${number(model.flash_bytes)} bytes`,
              `constants and microcode; the program is ${bytes(model.program_bytes)}`),
      accuracyTile(model, tile));
  const head = ["Spent on", capital(model.unit), "Share"].map(
      (title, i) => el("th", {scope: "col", class: i > 0 ? "number" : null}, title));
  const lines = kKinds.map(
      (kind) =>
          el("tr", {id: `spent-${kind}`}, el("td", {}, key(kind), kKindNames[kind]),
             el("td", {class: "number"}, number(model.spent[kind])),
             el("td", {class: "number"}, percent(model.spent[kind] / total))));
  const split =
      el("table", {class: "rows"}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, lines));
  const advice = adviceOf(model);
  return {
    element:
        el("div", {"data-view": "summary"}, tiles, el("h2", {}, `Where the ${model.unit} go`),
           bar(model.spent, total), split, el("h2", {}, "What to do next"),
           advice.length === 0 ? el("p", {}, "Nothing stands out.") :
                                 el("ol", {class: "advice"}, advice.map(adviceLine))),
    show() {},
    opened() {},
  };
}

function adviceLine(item) {
  const links = item.rows.map(
      (row, i) =>
          [i > 0 && ", ",
           el("button", {type: "button", class: "link", onclick: () => selection.row(row)},
              item.names[i])]);
  return el(
      "li", {}, el("strong", {}, item.title), ` ${item.text} `,
      links.length > 0 && "Largest: ", links);
}

function accuracyTile(model, tile) {
  const layers = (model.layers ?? []).filter((layer) => !layer.fused);
  if (layers.length > 0) {
    const worst = layers.reduce((a, b) => (b.sqnr_db < a.sqnr_db ? b : a));
    return tile(
        "Accuracy, least SQNR", `${worst.sqnr_db.toFixed(1)} dB`,
        `at ${worst.name}, against the float model`);
  }
  const report = model.compileReport;
  if (report?.check_sqnr_db === undefined) return null;
  if (report.check_reference === "quantized model")
    return tile(
        "Check", report.check_equal ? "equal" : `${report.check_sqnr_db.toFixed(1)} dB`,
        "program against the quantized model, says nothing of accuracy");
  return tile(
      `Check, worst of ${report.check_samples ?? 1} ${report.check_data ?? "calibration"} samples`,
      report.check_equal ? "no difference" : `${report.check_sqnr_db.toFixed(1)} dB`,
      report.calibrated_on_noise ?
          "against the float model, calibrated on noise: says nothing of accuracy" :
          "program against the float model");
}

const kFewShare = 0.05;  // what is less of the run is not worth a sentence
const kMostAdvice = 5;

// The biggest items, by the cycles that are in them: {cycles, title, text, rows, names}.
function adviceOf(model) {
  const total = Math.max(1, model.total_cycles);
  const indices = model.rows.map((_, i) => i);
  const largest = (value, most = 3) =>
      indices.filter((i) => value(model.rows[i]) > 0)
          .sort((a, b) => value(model.rows[b]) - value(model.rows[a]))
          .slice(0, most);
  const share = (cycles) =>
      `${number(Math.round(cycles))} ${model.unit} (${percent(cycles / total)})`;
  const items = [];
  const add = (cycles, title, text, rows) => {
    if (cycles >= kFewShare * total) items.push({cycles, title, text, rows});
  };

  const onTrack = (track) => model.spans.filter((span) => span.track === track).length;
  const calls = count(onTrack("npu"), "call"), copies = count(onTrack("copy"), "copy", "copies");
  add(model.spent.host, "Make fewer calls.",
      `The host spends ${share(model.spent.host)} on starting ${calls} and ${
          copies}, whatever their size. ` +
          "Operators that fuse (activation, batch norm and addition behind a convolution) and fewer, larger layers save whole calls. " +
          "Calls that cost the host more than the NPU computes are the first to go.",
      largest((row) => Math.max(0, row.host - row.npu)));
  add(model.spent.stall, "Bring constants in earlier, or make them smaller.",
      `The NPU waits ${share(model.spent.stall)} for constants from flash: ` +
          "the calls before leave the copy engine too little time. Fewer weights in these layers help, or computing more between two of them.",
      largest((row) => row.stall));
  add(model.spent.cpu, "Take work off the Cortex-M.",
      `Its kernels take ${share(model.spent.cpu)}. ${cpuReason(model)}`, largest((row) => row.cpu));

  if (model.peak > 0) {
    const idle = (row) => (row.macs > 0 ? Math.max(0, row.npu - row.macs / model.peak) : row.npu);
    const groups = new Map();
    for (const row of model.rows)
      if (row.npu > 0) groups.set(row.limited_by, (groups.get(row.limited_by) ?? 0) + idle(row));
    for (const [limit, cycles] of groups)
      if (kLimitAdvice[limit])
        add(cycles, kLimitAdvice[limit].title,
            `A full array would need ${share(cycles)} less for the operators that are limited by ${
                kLimitAdvice[limit].name}. ` +
                kLimitAdvice[limit].text,
            largest((row) => (row.limited_by === limit ? idle(row) : 0)));
  }
  const added = model.rows.reduce((sum, row) => sum + row.added, 0);
  if (added > 0)
    items.push({
      cycles: added,
      title: "Avoid changes of layout.",
      rows: largest((row) => row.added),
      text: `The compiler added ${
                share(added)} that only bring values into another order of bytes. ` +
          "Reshapes and permutes between convolutions, or operators on the CPU between operators on the NPU, force them."
    });
  for (const item of items) item.names = item.rows.map((row) => model.rows[row].name);
  return items.sort((a, b) => b.cycles - a.cycles).slice(0, kMostAdvice);
}

// By what limits a call of the NPU: its name, and what helps.
const kLimitAdvice = {
  "array": {
    name: "the array",
    title: "Fill the array.",
    text:
        "It works all the time on fewer channels than it has room for: channels that are multiples of its width fill it, depthwise " +
        "convolutions use one lane of each pipeline.",
  },
  "weight port": {
    name: "the weight port",
    title: "Use each weight more often.",
    text:
        "Weights arrive slower than the array could use them: layers of one row (linear after pooling) use each weight once. Fewer weights " +
        "help, more positions cost little.",
  },
  "activation port": {
    name: "the activation port",
    title: "Read activations less often.",
    text:
        "Their bytes arrive slower than the NPU could use them: smaller windows or strides earlier in the network help.",
  },
  "write port": {
    name: "the write port",
    title: "Write less.",
    text:
        "Results leave slower than they are computed: fewer or smaller outputs of cheap layers, or fusing them with the next, help.",
  },
  "start": {
    name: "their start",
    title: "Give small calls more to do.",
    text: "They are over when they have barely begun: fuse or enlarge them.",
  },
};

// Cycles of kernels that quantize or dequantize: those before all others and behind all others, and
// those between.
function conversions(model) {
  const kernels = model.spans.filter((span) => span.track !== "copy" && !span.waits);
  const converts = (span) => span.kernel.includes("quantize_per_");
  const cycles = (spans) => spans.reduce((sum, span) => sum + span.end - span.start, 0);
  const first = kernels.findIndex((span) => !converts(span));
  const last = kernels.length - [...kernels].reverse().findIndex((span) => !converts(span));
  if (first < 0) return {atEdges: cycles(kernels), inside: 0};
  const inner = kernels.slice(first, last).filter(converts);
  return {
    atEdges: cycles(kernels.slice(0, first)) + cycles(kernels.slice(last)),
    inside: cycles(inner)
  };
}

function cpuReason(model) {
  const {atEdges, inside} = conversions(model);
  const reasons = [];
  if (atEdges > 0.25 * model.spent.cpu)
    reasons.push(
        `${
            number(
                atEdges)} of them convert inputs and outputs between float and int8: a program with int8 ones (compile --io int8) leaves ` +
        "that to the source of the data.");
  if (inside > 0.25 * model.spent.cpu)
    reasons.push(`${
        number(
            inside)} of them convert between float and int8 inside of the network, around operators in float.`);
  const refusal = (model.compileReport?.refusals ?? [])[0];
  if (refusal)
    reasons.push(`The NPU does not run ${
            [`${refusal.name}: ${refusal.reason}`, refusal.remedy].filter(Boolean).join("; ")}.`);
  if (reasons.length === 0)
    reasons.push(
        "`deuteron compile --report-json` says why an operator is not on the NPU, and what would bring it there.");
  return reasons.join(" ");
}
