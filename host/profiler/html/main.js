// The page: title, theme, tabs, selection.

const model =
    makeModel(stored("profile-data"), stored("compile-data"), stored("verify-data")?.layers);
const details = document.getElementById("details"), panels = document.getElementById("panels"),
      tabs = document.getElementById("tabs");

// A view is made when its tab is first opened.
const views = [
  {id: "summary", title: "Summary", make: () => summaryView(model)},
  {id: "timeline", title: "Timeline", make: () => timelineView(model)},
  {id: "operators", title: "Operators", make: () => operatorsView(model, openModule)},
  {id: "modules", title: "Modules", make: () => modulesView(model)},
  {id: "roofline", title: "Roofline", make: () => rooflineView(model)},
  {id: "memory", title: "Memory", make: () => memoryView(model), needs: model.memory.length > 0},
  {id: "graph", title: "Graph", make: () => graphView(model), needs: model.tensors.length > 0},
  {
    id: "placement",
    title: "Placement",
    make: () => placementView(model),
    left_out: !model.compileReport
  },
  {id: "accuracy", title: "Accuracy", make: () => accuracyView(model), left_out: !model.layers},
].filter((view) => !view.left_out);

function openView(id, focus = false) {
  const top = document.getElementById("body").offsetTop - tabs.offsetHeight;
  if (scrollY > top) scrollTo(0, top);
  for (const view of views) {
    const chosen = view.id === id;
    view.tab.setAttribute("aria-selected", String(chosen));
    view.tab.tabIndex = chosen ? 0 : -1;
    view.panel.hidden = !chosen;
    if (!chosen) continue;
    if (focus) view.tab.focus();
    view.tab.scrollIntoView({block: "nearest", inline: "nearest"});
    if (!view.made) {
      view.made = view.needs === false ? {
        element: el(
            "p", {},
            "Nothing is known of this: give the program (--program), compiled with its debug map."),
        show() {},
        opened() {}
      } :
                                         view.make();
      view.panel.append(view.made.element);
    }
    view.made.show(selection.current);
    view.made.opened();
  }
}
function openModule(row) {
  selection.row(row);
  openView("modules", true);
}

for (const view of views) {
  view.tab =
      el("button", {
        type: "button",
        role: "tab",
        id: `tab-${view.id}`,
        "aria-controls": `panel-${view.id}`,
        onclick: () => openView(view.id)
      },
         view.title);
  view.panel = el("section", {
    role: "tabpanel",
    id: `panel-${view.id}`,
    "aria-labelledby": `tab-${view.id}`,
    hidden: true
  });
  tabs.append(view.tab);
  panels.append(view.panel);
}
tabs.addEventListener("keydown", (event) => {
  const at = views.findIndex((view) => view.tab === document.activeElement);
  const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: views.length - 1}[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  openView(views[(to + views.length) % views.length].id, true);
});

selection.listeners.push((selected) => {
  details.replaceChildren(...detailsOf(model, selected, (id) => openView(id, true)));
  for (const view of views)
    if (view.made && !view.panel.hidden) view.made.show(selected);
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape") selection.set({});
});

const themes = {
  auto: "Theme: as the system",
  light: "Theme: light",
  dark: "Theme: dark"
};
const themeButton = document.getElementById("theme");
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = "auto";
function setTheme(theme) {
  chosenTheme = theme;
  document.documentElement.dataset.theme = theme !== "auto" ? theme :
      systemIsDark.matches                                  ? "dark" :
                                                              "light";
  themeButton.textContent = themes[theme];
  for (const view of views) view.made?.view?.redraw();
}
themeButton.addEventListener("click", () => {
  const names = Object.keys(themes);
  const next = names[(names.indexOf(chosenTheme) + 1) % names.length];
  try {
    localStorage.setItem("deuteron-theme", next);
  } catch { /* a file's page may have no storage */
  }
  setTheme(next);
});
systemIsDark.addEventListener("change", () => setTheme(chosenTheme));

const file = model.program.split(/[\\/]/).pop();
document.title = `${file}: profile`;
document.getElementById("title").textContent = `Profile of ${file}`;
document.getElementById("subtitle").textContent = [
  model.target && `target ${model.target}`,
  model.clockText && `${model.howKnown} at ${model.clockText}`,
  model.checksum && `program ${model.checksum}`
].filter(Boolean).join(" · ");
const warnings = (model.missing ?? []).map((sentence) => `Not known: ${sentence}.`);
if (model.spans.length === 0)
  warnings.unshift("No events: none was recorded, or the program has no operators.");
if (!model.complete)
  warnings.unshift(
      model.lost_events > 0 ?
          `Partial: ${
              count(model.lost_events, "event")} of this run had no room (run --profile-events).` :
          "Partial: this run did not end.");
const warning = document.getElementById("warning");
warning.hidden = warnings.length === 0;
warning.textContent = warnings.join(" ");
let stored_theme = null;
try {
  stored_theme = localStorage.getItem("deuteron-theme");
} catch { /* as above */
}
setTheme(stored_theme in themes ? stored_theme : "auto");
selection.set({});
openView("summary");
