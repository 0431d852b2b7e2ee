// The page: files, a job, and what it found.

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
const by_id = (id) => document.getElementById(id);

const kModels = ["pt2", "tflite", "onnx", "ir"];
const kSamples = ["npz", "npy"];
const kVerified = 4;         // samples whose layers are compared
const kMostBytes = 2 ** 30;  // of a file: the copies of a larger one do not fit into 4 GB
const count = (number) => Number(number).toLocaleString("en");

const files = {
  model: null,
  samples: null,
  others: []
};
let running = null;

function say(text, bad = false) {
  by_id("status").textContent = text;
  by_id("status").classList.toggle("bad", bad);
}

// Files

const ending = (name) => name.slice(name.lastIndexOf(".") + 1).toLowerCase();

function add_file(name, bytes) {
  const file = {name: name.replace(/[/\\\0]/g, "_"), bytes};
  if (kSamples.includes(ending(name)))
    files.samples = file;
  else if (kModels.includes(ending(name)) || files.model === null)
    files.model = file;
  else
    files.others = [...files.others.filter((other) => other.name !== file.name), file];
}

function show_files() {
  const list = by_id("chosen");
  list.replaceChildren();
  const row = (what, file, remove) => {
    const button =
        element("button", {type: "button", "aria-label": `Remove ${file.name}`}, "Remove");
    button.addEventListener("click", () => {
      remove();
      show_files();
      by_id("files").focus();
    });
    list.append(element(
        "li", null,
        element("span", null, `${what}: ${file.name}, ${count(file.bytes.length)} bytes`), button));
  };
  if (files.model)
    row("Model", files.model, () => {
      files.model = null;
    });
  if (files.samples)
    row("Samples", files.samples, () => {
      files.samples = null;
    });
  for (const other of files.others)
    row("Beside the model", other, () => {
      files.others = files.others.filter((each) => each !== other);
    });
  update_buttons();
}

function update_buttons() {
  by_id("compile").disabled = engine.module === null || files.model === null || running !== null;
  by_id("cancel").disabled = running === null;
}

async function take_files(given) {
  const problems = [];
  for (const file of given) {
    if (file.size > kMostBytes) {
      problems.push(`${file.name} has more than 1 GiB: use the command on a computer`);
      continue;
    }
    try {
      add_file(file.name, new Uint8Array(await file.arrayBuffer()));
    } catch (error) { problems.push(`${file.name} cannot be read (a folder?): ${error.message}`); }
  }
  show_files();
  if (problems.length > 0)
    say(problems.join("; "), true);
  else if (files.model)
    say(`Ready to compile ${files.model.name}.`);
  else
    say("Add a model to these samples.");
}

function set_up_files() {
  const input = by_id("files");
  input.addEventListener("change", () => {
    const given = [...input.files];
    input.value = "";  // the same file may be chosen again
    take_files(given);
  });
  const drop = by_id("drop");
  for (const kind of ["dragenter", "dragover", "dragleave", "drop"])
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragenter" || kind === "dragover");
      if (kind === "drop" && event.dataTransfer) take_files([...event.dataTransfer.files]);
    });
  const models = JSON.parse(text_of("models"));
  for (const model of models) {
    const button = element("button", {type: "button"}, model.title);
    button.addEventListener("click", () => {
      files.others = [];
      files.samples = null;
      for (const {name, bytes} of model.files) add_file(name, bytes_of(bytes));
      show_files();
      say(`Ready to compile ${files.model.name}.`);
    });
    by_id("examples").append(button);
  }
}

// Messages

function add_message(kind, text, details = []) {
  const item = element("li", {class: kind}, element("p", null, text));
  const list = element("dl");
  for (const [name, value] of details)
    if (value) list.append(element("dt", null, name), element("dd", null, value));
  if (list.children.length > 0) item.append(list);
  by_id("messages").querySelector("ul").append(item);
  by_id("messages").hidden = false;
}

// Standard error of a run: a diagnostic a line as JSON, and plain lines.
function show_messages(err) {
  let errors = 0;
  for (const line of err.split("\n").filter((each) => each.trim() !== "")) {
    let diagnostic = null;
    try {
      diagnostic = JSON.parse(line);
    } catch { /* a plain line */
    }
    if (diagnostic === null || typeof diagnostic !== "object") {
      add_message("note", line);
      continue;
    }
    const place = [
      diagnostic.file, diagnostic.node && `node ${diagnostic.node}`,
      diagnostic.module_path && `module ${diagnostic.module_path}`, diagnostic.source_line
    ].filter(Boolean).join(", ");
    if (diagnostic.severity === "error") ++errors;
    add_message(
        diagnostic.severity, `${diagnostic.severity} ${diagnostic.id}`,
        [["Place", place], ["Reason", diagnostic.reason], ["Fix", diagnostic.fix]]);
  }
  return errors;
}

// Results

function table(caption, columns, rows) {
  const made = element("table", null, element("caption", null, caption));
  const head = element("tr");
  for (const column of columns)
    head.append(element("th", {scope: "col", class: column.number ? "number" : ""}, column.title));
  const body = element("tbody");
  for (const row of rows) {
    const line = element("tr");
    for (const column of columns) {
      const value = column.of(row);
      line.append(element(
          "td",
          {class: column.number ? "number" :
               column.wide      ? "wide" :
                                  ""},
          value === null || value === undefined          ? "" :
              column.number && typeof value === "number" ? count(value) :
                                                           String(value)));
    }
    body.append(line);
  }
  made.append(element("thead", null, head), body);
  return scrolled(caption, made);
}

const scrolled = (label, content) =>
    element("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": label}, content);

function add_view(title, ...content) {
  by_id("views").append(element("section", null, element("h3", null, title), ...content));
}

function add_download(name, bytes, type, words) {
  const link = element("a", {download: name}, words);
  link.href = URL.createObjectURL(new Blob([bytes], {type}));
  by_id("downloads").append(link);
}

const json_of = (bytes) => bytes === undefined ? null : JSON.parse(new TextDecoder().decode(bytes));

function facts(pairs) {
  const list = element("dl");
  for (const [name, value] of pairs)
    if (value !== "") list.append(element("dt", null, name), element("dd", null, value));
  return list;
}

// The lines under the command's table of operators: "time    …".
function summary_of(out) {
  const lines = out.trimEnd().split("\n");
  const found = [];
  for (const line of lines.slice(lines.lastIndexOf("") + 1)) {
    const parts = /^(\S+) +(.*)$/.exec(line);
    if (parts && parts[1] !== "program") found.push([parts[1], parts[2]]);
  }
  return found;
}

function show_compiled({out, files: made}, stem) {
  const report = json_of(made["/out/report.json"]);
  add_download(
      `${stem}.pte`, made["/out/program.pte"], "application/octet-stream", `Download ${stem}.pte`);
  add_download(
      `${stem}.report.json`, made["/out/report.json"], "application/json", "Figures as JSON");
  const on_npu = report.operators.filter((row) => row.cpu_cycles === 0 && row.cycles > 0);
  const on_cpu = report.operators.filter((row) => row.cpu_cycles > 0);
  add_view("Summary", facts([
             ["target", report.target],
             [
               "split",
               `${on_npu.length} kernels on the NPU in ${report.partitions} partition${
                   report.partitions === 1 ? "" : "s"}, ${on_cpu.length} on the CPU`
             ],
             ...summary_of(out)
           ]));
  add_view(
      "Placement",
      table(
          "Operators, where they run and what they cost",
          [
            {title: "operator", of: (row) => row.name, wide: true},
            {title: "runs on", of: (row) => row.backend},
            {title: "kernel", of: (row) => row.kernel},
            {title: "MACs", number: true, of: (row) => row.macs || ""}, {
              title: "cycles",
              number: true,
              of: (row) => row.cycles > 0 ? row.cycles :
                  row.cpu_cycles > 0      ? `~${count(row.cpu_cycles)}` :
                                            ""
            },
            {title: "limited by", of: (row) => row.limited_by}
          ],
          report.operators));
  const refusals = report.refusals ?? [];
  if (refusals.length === 0) {
    by_id("views").lastChild.append(element(
        "p", null,
        report.partitions > 0 ? "No operator is refused by the NPU." : "The target has no NPU."));
  } else {
    by_id("views").lastChild.append(table(
        "Operators that are not on the NPU, and why",
        [
          {title: "operator", of: (row) => row.name, wide: true},
          {title: "id", of: (row) => row.id},
          {title: "reason", of: (row) => row.reason, wide: true},
          {title: "remedy", of: (row) => row.remedy, wide: true},
          {title: "follows from", of: (row) => row.because_of},
          {title: "cycles lost", number: true, of: (row) => row.cycles_lost || ""}
        ],
        refusals));
  }
  const sram = report.sram;
  add_view(
      "Memory",
      table(
          "Bytes",
          [
            {title: "what", of: (row) => row[0], wide: true},
            {title: "bytes", number: true, of: (row) => row[1]}
          ],
          [
            ["SRAM in all", sram.total_bytes], ["SRAM of the budget", sram.budget_bytes],
            ["activations", sram.planned_bytes],
            ["activations: no placement needs less than", sram.live_bound_bytes],
            ["staged weights", sram.staging_bytes], ["states kept between runs", sram.state_bytes],
            ["program in SRAM", sram.program_bytes],
            ["flash: constants and microcode", report.flash_bytes],
            ["the program file", report.program_bytes]
          ]));
  const details = element(
      "details", null, element("summary", null, "What the command prints"),
      scrolled("What the command prints", element("pre", null, out)));
  by_id("views").append(details);
}

function show_verified({out, files: made}) {
  const verified = json_of(made["/out/verify.json"]);
  if (verified === null) return;
  add_view(
      "Accuracy by layer",
      element(
          "p", null,
          `Every layer of the program beside the model's, on ${
              kVerified} samples or as many as there are.`),
      table(
          "Layers, in the order of the program",
          [
            {title: "layer", of: (row) => row.name, wide: true},
            {title: "SQNR in dB", number: true, of: (row) => row.sqnr_db.toFixed(1)},
            {title: "largest error", number: true, of: (row) => row.max_error.toPrecision(4)},
            {title: "in steps", number: true, of: (row) => row.steps?.toFixed(2)},
            {title: "type", of: (row) => row.dtype}, {title: "where", of: (row) => row.where}
          ],
          verified.layers.filter((row) => !row.fused)),
      element(
          "details", null, element("summary", null, "What `deuteron verify` prints"),
          scrolled("What verify prints", element("pre", null, out))));
}

function show_profile({files: made}, stem) {
  const page = made["/out/profile.html"];
  if (page === undefined) return;
  add_download(`${stem}.html`, page, "text/html", "Profile report");
  const frame = element("iframe", {sandbox: "allow-scripts", title: "Profile report"});
  frame.srcdoc = new TextDecoder().decode(page);
  add_view(
      "Profile",
      element("p", null, "Timeline, operators, roofline, memory, graph, accuracy and placement."),
      frame);
}

// A job

function runs_of(model, samples, stem) {
  // A name that begins with a dash is no option.
  const path = (name) => name.startsWith("-") ? `./${name}` : name;
  const common = ["--diagnostics", "json"];
  const runs = [{
    name: "compile",
    args: [
      ...common, "compile", path(model.name), "--output", "/out/program.pte", "--report-json",
      "/out/report.json", "--threads", "1", ...(samples ? ["--calibrate", path(samples.name)] : []),
      ...chosen_arguments()
    ],
    results: ["/out/program.pte", "/out/report.json"]
  }];
  if (samples)
    runs.push({
      name: "verify",
      needs: "compile",
      args: [
        ...common, "verify", "/out/program.pte", "--against", path(model.name), "--data",
        path(samples.name), "--samples", String(kVerified), "--json", "/out/verify.json",
        "--threads", "1"
      ],
      results: ["/out/verify.json"]
    });
  runs.push({
    name: "profile",
    needs: "compile",
    args: [
      ...common, "profile", "/out/program.pte", "--html", "/out/profile.html", "--compile-report",
      "/out/report.json"
    ],
    with: [["--verify", "/out/verify.json"]],
    results: ["/out/profile.html"]
  });
  return runs;
}

const kDoing = {
  compile: "Compiling",
  verify: "Comparing layers of",
  profile: "Profiling"
};

function clear_results() {
  for (const link of by_id("downloads").querySelectorAll("a")) URL.revokeObjectURL(link.href);
  by_id("messages").querySelector("ul").replaceChildren();
  by_id("messages").hidden = true;
  by_id("downloads").replaceChildren();
  by_id("views").replaceChildren();
  by_id("results").hidden = true;
}

async function compile() {
  if (running !== null || files.model === null) return;
  clear_results();
  const {model, samples, others} = files;
  const stem = model.name.replace(/\.[^.]*$/, "") || "program";
  const started = performance.now();
  let doing = "", step = "", compiled = 0, ok = false, usage = "";
  const seconds = () => ((performance.now() - started) / 1000).toFixed(1);
  const tell = () => {
    const long = performance.now() - started > 30000 ? " It takes long; you can cancel it." : "";
    say(`${doing} ${model.name}${step ? `: ${step}` : ""}, ${Math.floor(seconds())} s.${long}`);
  };
  const on = (message) => {
    if (message.run) {
      doing = kDoing[message.run];
      step = "";
      tell();
    } else if (message.progress) {
      step = message.progress;
    } else {
      const errors = show_messages(message.err);
      if (message.name === "compile") {
        compiled = seconds();
        ok = message.code === 0;
        if (!ok && errors === 0) usage = message.err.split("\n")[0] || `exit code ${message.code}`;
        if (ok) {
          by_id("results").hidden = false;
          show_compiled(message, stem);
        }
      } else if (message.name === "verify") {
        show_verified(message);
      } else {
        show_profile(message, stem);
      }
    }
  };
  running = engine.run(
      {
        files: [model, ...(samples ? [samples] : []), ...others],
        runs: runs_of(model, samples, stem)
      },
      on);
  update_buttons();
  const clock = setInterval(tell, 1000);
  const how = await running.ended;
  clearInterval(clock);
  running = null;
  update_buttons();
  if (how === "cancelled") {
    say(`Cancelled after ${seconds()} s.`, true);
  } else if (how !== "done") {
    add_message("error", `The command ended by itself: ${how.failed}`, [
      ["Reason", "the model needs more memory than a page has, or this is a bug of Deuteron"],
      ["Fix", "use the command on a computer; the page can go on with other files"]
    ]);
    say(`${model.name}: the command ended by itself after ${seconds()} s. The page can go on.`,
        true);
  } else if (!ok) {
    if (usage)
      say(`Not compiled: ${usage}`, true);
    else
      say(`${model.name} was not compiled; the messages say why and what to do.`, true);
    by_id("messages-title").focus();
  } else {
    say(`${model.name} was compiled in ${compiled} s; everything took ${seconds()} s.`);
    if (!samples)
      add_view(
          "Accuracy by layer",
          element("p", null, "Add samples (.npz, .npy) to compare every layer with the model."));
    by_id("results-title").focus();
  }
}

async function start() {
  set_up_files();
  by_id("form").addEventListener("submit", (event) => {
    event.preventDefault();
    compile();
  });
  by_id("cancel").addEventListener("click", () => running?.cancel());
  try {
    await engine.start();
    const [help, targets] =
        await Promise.all([engine.output(["compile", "--help"]), engine.output(["targets"])]);
    make_options(help, parse_targets(targets));
  } catch (error) {
    engine.module = null;
    say(`The page cannot start: ${error.message}`, true);
    return;
  }
  say(files.model ? `Ready to compile ${files.model.name}.` : "Ready: choose a model.");
  update_buttons();
}

start();
