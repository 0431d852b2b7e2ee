// Runs verbs of the command, one after the other, on files in memory. A worker does one job; a
// cancelled one is ended from outside.
// in:  {module, files: [{name, bytes}], runs: [{name, args, results: [path], needs: name?,
//      with: [[option, path]]}]}; options of `with` are given if the file is there, which an
//      earlier run writes
// out: {run: name} when one starts, {progress}, {name, code, out, err, files} when one ends,
//      {done}, or {failed: text} if the worker cannot go on.
"use strict";

const kFolder = "/work";
const kOut = "/out";

// Collects what is written to a stream, byte by byte: it is no terminal then.
function stream(onText) {
  let bytes = [];
  const flush = () => {
    if (bytes.length > 0) onText(new TextDecoder().decode(new Uint8Array(bytes)));
    bytes = [];
  };
  return {
    write(byte) {
      if (byte === null || byte === undefined) return;
      bytes.push(byte & 255);
      if (byte === 10 || (byte === 13 && bytes.length > 1)) flush();
    },
    flush
  };
}

async function perform(job, post) {
  let out = "", err = "";
  const onError = (text) => {
    for (const part of text.split(/\r/)) {
      const shown = part.replace(/\x1b\[K/g, "");
      const progress = /^(\w+) (\d+)\/(\d+)\s*$/.exec(shown);
      if (progress)
        post({progress: shown.trim()});
      else
        err += shown;
    }
  };
  const output = stream((text) => {
    out += text;
  });
  const errors = stream(onError);
  const command = await create_deuteron({
    noInitialRun: true,
    stdin: () => null,
    stdout: output.write,
    stderr: errors.write,
    preRun: [(made) => {
      made.ENV.DEUTERON_PROGRESS = "1";
    }],
    instantiateWasm(imports, take) {
      WebAssembly.instantiate(job.module, imports)
          .then(
              (instance) => take(instance, job.module), (reason) => post({failed: String(reason)}));
      return {};
    }
  });
  const FS = command.FS;
  FS.mkdir(kFolder);
  FS.mkdir(kOut);
  for (const {name, bytes} of job.files) FS.writeFile(`${kFolder}/${name}`, bytes);
  FS.chdir(kFolder);
  const codes = new Map();
  for (const run of job.runs) {
    if (run.needs !== undefined && codes.get(run.needs) !== 0) continue;
    post({run: run.name});
    out = err = "";
    const more = (run.with ?? []).filter(([, path]) => FS.analyzePath(path).exists);
    const code = command.callMain([...run.args, ...more.flat()]);
    output.flush();
    errors.flush();
    codes.set(run.name, code);
    const files = {};
    for (const path of run.results ?? [])
      if (FS.analyzePath(path).exists) files[path] = FS.readFile(path);
    post({name: run.name, code, out, err, files});
    if (code !== 0 && code !== 1 && code !== 2) break;  // it said what is wrong with itself
  }
  post({done: true});
}

if (typeof self !== "undefined" && typeof self.postMessage === "function") {
  self.onmessage = ({data}) => {
    perform(data, (message) => self.postMessage(message)).catch((error) => self.postMessage({
      failed: String(error?.message ?? error)
    }));
  };
}
