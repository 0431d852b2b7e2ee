// The panel of what is selected.

function detailsOf(model, selected, open) {
  if (selected.row !== undefined) return rowDetails(model, selected.row, open);
  if (selected.tensor !== undefined) return tensorDetails(model, selected.tensor, open);
  return [
    el("h2", {}, "Selection"),
    el("p", {class: "muted"},
       "Select an operator in any view: it is marked in all of them, and everything known of it stands here.")
  ];
}

const typeText = (tensor) => `${tensor.dtype} [${tensor.shape.join(", ")}]`;
const rowLink = (model, row) =>
    el("button", {type: "button", class: "link", onclick: () => selection.row(row)},
       model.rows[row].name);
const tensorLink = (model, tensor) =>
    el("button", {type: "button", class: "link", onclick: () => selection.tensor(tensor)},
       model.tensors[tensor].name);

function rowDetails(model, index, open) {
  const row = model.rows[index];
  const time = model.clock_hz ?
      `${((row.cycles / model.clock_hz) * 1e3).toPrecision(3)} ms ${row.time_known}` :
      null;
  const parts = [
    el("h2", {id: "selected-name"}, row.name),
    facts([
      row.op && ["Operator", row.op],
      row.module &&
          [
            "Module",
            el("button", {type: "button", class: "link", onclick: () => open("modules")},
               row.module)
          ],
      row.source_line && ["Source", row.source_line],
      ["Runs on", row.backend || "host"],
      row.kernels && ["Kernels", row.kernels],
      [
        capital(model.unit),
        `${number(row.cycles)} (${percent(row.cycles / Math.max(1, model.total_cycles))})`
      ],
      time && ["Time", time],
      model.bounds[index].text && ["Bound by", model.bounds[index].text],
      row.limited_by && ["NPU limited by", row.limited_by],
    ]),
    bar(row, Math.max(1, row.cycles)),
    facts(kKinds.filter((kind) => row[kind] > 0)
              .map((kind) => [[key(kind), kKindNames[kind]], number(row[kind])])),
    facts([
      row.copying > 0 && ["Copy engine", `${number(row.copying)} ${model.unit}, beside the rest`],
      row.added > 0 && ["Changes of layout", `${number(row.added)} ${model.unit}`],
      row.macs > 0 && ["MACs", number(row.macs)],
      row.macs > 0 && row.npu > 0 && ["Utilization", percent(row.utilization, 0)],
      row.sram_bytes > 0 && ["SRAM traffic", bytes(row.sram_bytes)],
      row.flash_bytes > 0 && ["From flash", bytes(row.flash_bytes)],
      ["Calls", number(row.calls)],
    ]),
  ];
  const tensorLine = (tensor) =>
      el("li", {}, tensorLink(model, tensor),
         el("span", {class: "muted"}, ` ${typeText(model.tensors[tensor])}`));
  const tensors = (title, list) =>
      list.length > 0 && [el("h3", {}, title), el("ul", {}, list.map(tensorLine))];
  parts.push(
      tensors("Reads", model.inputsOfRow[index]), tensors("Writes", model.outputsOfRow[index]));
  const refusals = model.refusalsOfRow[index];
  if (refusals.length > 0)
    parts.push(
        el("h3", {}, "Why not on the NPU"),
        el("ul", {},
           refusals.map(
               (refusal) => el(
                   "li", {}, `${refusal.reason}${refusal.remedy ? `. ${refusal.remedy}` : ""}`))));
  const layers = row.sources.map((source) => model.layerOf.get(model.sources[source].name))
                     .filter((layer) => layer && !layer.fused);
  if (layers.length > 0)
    parts.push(
        el("h3", {}, "Error"),
        facts(layers.map(
            (layer) =>
                [layer.name,
                 `${layer.sqnr_db.toFixed(1)} dB, at most ${layer.max_error.toPrecision(3)}${
                     layer.steps === null ? "" : `, ${layer.steps.toFixed(1)} steps`}`])));
  if (row.sources.length > 1)
    parts.push(
        el("h3", {}, "Made of"),
        el("ul", {},
           row.sources.map(
               (source) =>
                   el("li", {}, `${model.sources[source].name} `,
                      el("span", {class: "muted"}, model.sources[source].op)))));
  return parts.flat().filter(Boolean);
}

function tensorDetails(model, index) {
  const tensor = model.tensors[index];
  const from = rowsOf(model, tensor.from),
        readers = [...new Set(tensor.readers.flatMap((reader) => rowsOf(model, reader)))];
  const buffer = model.buffers.find((each) => each.tensor === index);
  const list = (title, rows, names) =>
      [el("h3", {}, title),
       rows.length > 0 ? el("ul", {}, rows.map((row) => el("li", {}, rowLink(model, row)))) :
                         el("p", {class: "muted"}, names)];
  return [
    el("h2", {id: "selected-name"}, tensor.name),
    facts([
      ["Type", typeText(tensor)],
      ["Layout", tensor.layout],
      ["Placement", tensor.place],
      tensor.scale !== undefined && ["Scale", String(tensor.scale)],
      tensor.scale !== undefined && ["Zero point", String(tensor.zero_point)],
      tensor.scale === undefined && tensor.dtype.startsWith("i") &&
          ["Quantization", "none, or per channel"],
      buffer &&
          [
            "Memory",
            `${bytes(buffer.bytes)} at ${number(buffer.offset)}, steps ${buffer.first_step} to ${
                buffer.last_step}`
          ],
    ]),
    ...list(
        "Written by", from,
        tensor.from.length === 0 ?
            "an input of the model" :
            tensor.from.map((source) => model.sources[source].name).join(", ")),
    ...list(
        "Read by", readers,
        tensor.readers.length === 0 ? "an output of the model" : "operators that cost nothing"),
  ];
}
