// The form's options are those of `deuteron compile`, read from its help: names, choices, defaults
// and words are the command's.

const kShown = ["--target", "--io", "--optimize", "--sram", "--constants", "--schedule"];
const kMore = [
  "--calibrate-random", "--calibration-samples", "--observer", "--equalize", "--rotate",
  "--round-weights", "--min-sqnr", "--no-check", "--dim", "--stop-at", "--keep-float", "--keep-off",
  "--force-on", "--row-packing"
];

// [{name, choices, standard, repeatable, flag, help}] of a verb's help.
function parse_help(text) {
  const options = [];
  let option = null;
  for (const line of text.split("\n")) {
    const start = /^  (?:-\w,)?(--[\w-]+)(\S*)(.*)$/.exec(line);
    if (start) {
      const [, name, , rest] = start;
      option = {name, choices: [], standard: "", repeatable: false, flag: true, help: ""};
      options.push(option);
      const [head, ...words] = rest.split(/ {2,}/);
      const type = /^ ([A-Z][^\s:=]*)(\S*)/.exec(head);
      if (type && !/^(Excludes|Needs)/.test(type[1])) {
        option.flag = false;
        const details = type[2];
        option.choices = /\{([^}]*)\}/.exec(details)?.[1].split(",") ?? [];
        option.repeatable = head.includes(" ...");
        const given = /=(\S+)$/.exec(head.split(/ (?:Excludes|Needs):/)[0].trim());
        if (given && !option.repeatable) option.standard = given[1];
      }
      option.help = words.join(" ").trim();
    } else if (option && /^ {20,}\S/.test(line)) {
      option.help += (option.help ? " " : "") + line.trim();
    } else {
      option = null;
    }
  }
  return options;
}

// [{name, text}] of `deuteron targets`, whose names stand at the beginning of a line.
function parse_targets(text) {
  const targets = [];
  for (const line of text.split("\n")) {
    if (/^\S+$/.test(line))
      targets.push({name: line, text: ""});
    else if (targets.length > 0 && line.trim())
      targets.at(-1).text += (targets.at(-1).text ? "; " : "") + line.trim();
  }
  return targets;
}

const option_controls = new Map();  // name → {option, control}

function make_option(option, targets) {
  const id = `option${option.name}`;
  const help = element("p", {id: `${id}-help`}, option.help);
  let control;
  if (option.name === "--target") {
    control = element("select", {id});
    for (const target of targets)
      control.append(element("option", {value: target.name}, target.name));
    control.value = option.standard;
    const describe = () => {
      help.textContent = targets.find((target) => target.name === control.value)?.text ?? "";
    };
    control.addEventListener("change", describe);
    describe();
  } else if (option.flag) {
    control = element("input", {id, type: "checkbox"});
  } else if (option.choices.length > 0) {
    control = element("select", {id});
    if (!option.choices.includes(option.standard))
      control.append(element("option", {value: ""}, "default"));
    for (const choice of option.choices) control.append(element("option", {value: choice}, choice));
    control.value = option.standard;
  } else {
    control = element("input", {id, type: "text", autocomplete: "off", spellcheck: "false"});
    if (option.standard) control.placeholder = option.standard;
  }
  control.setAttribute("aria-describedby", help.id);
  const label = element("label", {for: id
  }, option.flag ? "" : option.name);
  if (option.flag) label.append(control, option.name);
  option_controls.set(option.name, {option, control});
  return element("div", {class: "option"}, label, ...(option.flag ? [] : [control]), help);
}

function make_options(help, targets) {
  const known = new Map(parse_help(help).map((option) => [option.name, option]));
  for (const [place, names] of [["options", kShown], ["more", kMore]])
    for (const name of names)
      if (known.has(name))
        document.getElementById(place).append(make_option(known.get(name), targets));
}

// What was chosen, as arguments: what differs from the default, and the target.
function chosen_arguments() {
  const chosen = [];
  for (const [name, {option, control}] of option_controls) {
    if (option.flag) {
      if (control.checked) chosen.push(name);
      continue;
    }
    const value = control.value.trim();
    if (value === "" || (value === option.standard && name !== "--target")) continue;
    for (const each of option.repeatable ? value.split(/\s+/) : [value])
      chosen.push(`${name}=${each}`);
  }
  return chosen;
}
