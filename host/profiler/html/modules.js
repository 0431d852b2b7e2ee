// Modules as a folding tree: cycles of everything below each.

function moduleTree(model) {
  const root = {
    name: "",
    children: new Map(),
    rows: [],
    spent: {npu: 0, host: 0, stall: 0, cpu: 0},
    cycles: 0
  };
  const add = (node, row) => {
    for (const kind of kKinds) node.spent[kind] += row[kind];
    node.cycles += row.cycles;
  };
  model.rows.forEach((row, index) => {
    let node = root;
    add(node, row);
    const path = row.module === "" ?
        [row.sources.length > 0 ? "outside of any module" : "no operator"] :
        row.module.split(".");
    for (const part of path) {
      if (!node.children.has(part))
        node.children.set(part, {
          name: part,
          children: new Map(),
          rows: [],
          spent: {npu: 0, host: 0, stall: 0, cpu: 0},
          cycles: 0
        });
      node = node.children.get(part);
      add(node, row);
    }
    node.rows.push(index);
  });
  return root;
}

function modulesView(model) {
  const root = moduleTree(model);
  const total = Math.max(1, root.cycles);
  const foldOf = new Map();     // node → its <details>
  const leafOf = new Map();     // row → its line
  const nodeOfRow = new Map();  // row → nodes above it
  const walk = (node, above) => {
    for (const row of node.rows) nodeOfRow.set(row, above);
    for (const child of node.children.values()) walk(child, [...above, child]);
  };
  walk(root, []);

  const line = (name, spent, cycles) =>
      el("span", {class: "line"}, el("span", {class: "name"}, name),
         el("span", {class: "number"}, number(cycles)),
         el("span", {class: "number"}, percent(cycles / total)), bar(spent, total, true));
  function leaf(row) {
    const shown =
        el("div", {class: "leaf"},
           line(
               el("button", {type: "button", class: "link", onclick: () => selection.row(row)},
                  model.rows[row].name),
               model.rows[row], model.rows[row].cycles));
    leafOf.set(row, shown);
    return shown;
  }
  // What is folded is made when it is opened.
  function fill(node, fold) {
    if (fold.dataset.filled) return;
    fold.dataset.filled = "yes";
    fold.append(...[...node.children.values()].map(folded), ...node.rows.map(leaf));
    mark(selection.current);
  }
  function folded(node) {
    const fold = el("details", {}, el("summary", {}, line(node.name, node.spent, node.cycles)));
    fold.addEventListener("toggle", () => {
      if (fold.open) fill(node, fold);
    });
    foldOf.set(node, fold);
    return fold;
  }
  function mark(selected) {
    for (const shown of leafOf.values()) shown.classList.remove("selected");
    if (selected.row !== undefined) leafOf.get(selected.row)?.classList.add("selected");
  }
  const open = (node) => {
    const fold = foldOf.get(node);
    fill(node, fold);
    fold.open = true;
  };
  const tree =
      el("div", {class: "tree"}, [...root.children.values()].map(folded), root.rows.map(leaf));
  const openAll = (node) => {
    for (const child of node.children.values()) {
      open(child);
      openAll(child);
    }
  };
  const closeAll = () => {
    for (const fold of foldOf.values()) fold.open = false;
  };
  const reveal = (row) => {
    for (const node of nodeOfRow.get(row) ?? []) open(node);
    mark({row});
    leafOf.get(row)?.scrollIntoView({block: "nearest"});
  };
  if (root.children.size === 1) open([...root.children.values()][0]);
  return {
    element:
        el("div", {"data-view": "modules"}, legend(kKinds),
           el("div", {class: "toolbar"},
              el("button", {type: "button", onclick: () => openAll(root)}, "Unfold all"),
              el("button", {type: "button", onclick: closeAll}, "Fold all")),
           tree),
    show(selected) {
      if (selected.row !== undefined)
        reveal(selected.row);
      else
        mark(selected);
    },
    opened() {},
    reveal,
  };
}
