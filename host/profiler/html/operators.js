// Operators: a line for each set of source operators that share their calls.

function operatorsView(model, openModule) {
  const most = Math.max(1, ...model.rows.map((row) => row.cycles));
  const columns = [
    {title: "Operator", wide: true, text: (i) => model.rows[i].name},
    {
      title: capital(model.unit),
      number: true,
      value: (i) => model.rows[i].cycles,
      text: (i) => number(model.rows[i].cycles)
    },
    {
      title: "Share",
      number: true,
      value: (i) => model.rows[i].cycles,
      text: (i) => percent(model.rows[i].cycles / Math.max(1, model.total_cycles))
    },
    {
      title: "Spent on",
      value: (i) => model.rows[i].cycles,
      text: () => "",
      cell: (i) => bar(model.rows[i], most, true),
      help: "NPU, host, waiting for flash, Cortex-M"
    },
    {title: "Bound by", text: (i) => model.bounds[i].text, help: "What decides its time"},
    {
      title: "Utilization",
      number: true,
      value: (i) => model.rows[i].utilization,
      text: (i) =>
          (model.rows[i].macs && model.rows[i].npu ? percent(model.rows[i].utilization, 0) : ""),
      help: "Of the MAC array while the NPU is busy"
    },
    {
      title: "NPU limited by",
      text: (i) => model.rows[i].limited_by,
      help: "What its longest call on the NPU waits for"
    },
    {
      title: "MACs",
      number: true,
      value: (i) => model.rows[i].macs,
      text: (i) => (model.rows[i].macs ? number(model.rows[i].macs) : "")
    },
    {title: "Runs on", text: (i) => model.rows[i].backend},
    {
      title: "Module",
      text: (i) => model.rows[i].module,
      cell: (i) => model.rows[i].module &&
          el("button",
             {type: "button", class: "link", tabindex: "-1", onclick: () => openModule(i)},
             model.rows[i].module)
    },
    {title: "Source", text: (i) => model.rows[i].source_line},
    {title: "Kernels", wide: true, text: (i) => model.rows[i].kernels},
  ];
  const table = new SortedTable({
    name: "operators",
    columns,
    rows: model.rows.map((_, i) => i),
    rowOf: (i) => i,
    sort: 1,
    searched: "Filter by operator, module, kernel, source"
  });
  return {
    element: el("div", {}, legend(kKinds), table.element),
    show: (selected) => table.show(selected),
    opened: () => table.reveal()
  };
}
