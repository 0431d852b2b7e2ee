// Views of other commands' results, where they are given: why operators are not on the NPU
// (compile), errors of layers (verify).

function placementView(model) {
  const refusals = model.compileReport.refusals ?? [],
        transposes = model.compileReport.transposes ?? [];
  const columns = [
    {title: "Operator", text: (row) => row.name},
    {title: "Module", text: (row) => row.module_path},
    {title: "Why not on the NPU", wide: true, text: (row) => row.reason},
    {title: "What to change", wide: true, text: (row) => row.remedy},
    {title: "Because of", text: (row) => row.because_of ?? ""},
    {
      title: "Saves at most",
      number: true,
      value: (row) => row.cycles_lost,
      text: (row) => number(row.cycles_lost),
      help: "Estimated cycles on the CPU, less the least that the NPU would need"
    },
    {title: "Source", text: (row) => row.source_line},
  ];
  const table = new SortedTable({
    name: "placement",
    columns,
    rows: refusals,
    rowOf: (row) => row.row,
    sort: 5,
    searched: "Filter by operator or reason"
  });
  return {
    element: el(
        "div", {},
        refusals.length === 0 ? el("p", {}, "Every operator that can be is on the NPU.") :
                                table.element,
        transposes.length > 0 &&
            [
              el("h2", {}, "Changes of layout"),
              el("ul", {},
                 transposes.map(
                     (each) =>
                         el("li", {},
                            `${each.value} to ${each.to}${each.for ? `, for ${each.for}` : ""}: ${
                                bytes(each.bytes)}, about ${number(each.cycles)} cycles`)))
            ]),
        show: (selected) => table.show(selected), opened: () => table.reveal(),
  };
}

function accuracyView(model) {
  const rowOfName = new Map();
  model.rows.forEach(
      (row, index) =>
          row.sources.forEach((source) => rowOfName.set(model.sources[source].name, index)));
  const layers = model.layers.filter((layer) => !layer.fused);
  const columns = [
    {title: "Layer", text: (layer) => layer.name},
    {title: "Operator", text: (layer) => layer.op},
    {title: "Module", text: (layer) => layer.module_path},
    {title: "Where", text: (layer) => `${layer.where} ${layer.dtype}`},
    {
      title: "SQNR",
      number: true,
      value: (layer) => layer.sqnr_db,
      text: (layer) => `${layer.sqnr_db.toFixed(1)} dB`,
      help: "Signal to quantization noise against the float model"
    },
    {
      title: "Largest error",
      number: true,
      value: (layer) => layer.max_error,
      text: (layer) => layer.max_error.toPrecision(4)
    },
    {
      title: "In steps",
      number: true,
      value: (layer) => layer.steps ?? -1,
      text: (layer) => layer.steps === null ? "" : layer.steps.toFixed(2),
      help: "Largest error in steps of the tensor's scale; float tensors have none"
    },
    {
      title: "Differing",
      number: true,
      value: (layer) => layer.differing,
      text: (layer) => percent(layer.differing, 2)
    },
  ];
  const table = new SortedTable({
    name: "accuracy",
    columns,
    rows: layers,
    rowOf: (layer) => rowOfName.get(layer.name) ?? -1,
    sort: 4,
    descending: false,
    searched: "Filter by layer, operator, module"
  });
  return {
    element:
        el("div", {}, el("p", {}, "Worst layers first; fused layers have no value of their own."),
           table.element),
    show: (selected) => table.show(selected),
    opened: () => table.reveal()
  };
}
