// The page's command in Node.js: node command.js BUILD FOLDER RESULT FILE… -- ARGUMENT… gives it
// the files, runs it once, and writes what it printed and the files of its folder /out to RESULT.
'use strict';
const fs = require('fs');
const path = require('path');

const [build, folder, result, ...rest] = process.argv.slice(2);
const split = rest.indexOf('--');
const files = rest.slice(0, split), args = rest.slice(split + 1);
const sources = [`${build}/deuteron.js`, path.join(__dirname, '../../web/worker.js')];
const code = sources.map((name) => fs.readFileSync(name, 'utf8')).join('\n');
const perform = new Function('require', '__dirname', '__filename', `${code}\nreturn perform;`)(
    require, build, sources[0]);

const outputs = ['/out/program.pte', '/out/report.json', '/out/verify.json', '/out/profile.html'];
const job = {
  module: new WebAssembly.Module(fs.readFileSync(`${build}/deuteron.wasm`)),
  files: files.map(
      (name) => ({name: path.basename(name), bytes: fs.readFileSync(path.join(folder, name))})),
  runs: [{name: 'only', args, results: outputs}]
};
let failed = null;
perform(
    job,
    (message) => {
      if (message.failed) failed = message.failed;
      if (message.name !== 'only') return;
      fs.mkdirSync(result, {recursive: true});
      fs.writeFileSync(`${result}/out`, message.out);
      fs.writeFileSync(`${result}/err`, message.err);
      fs.writeFileSync(`${result}/code`, String(message.code));
      for (const [name, bytes] of Object.entries(message.files))
        fs.writeFileSync(`${result}/${path.basename(name)}`, bytes);
    })
    .then(() => {
      if (failed) throw new Error(failed);
      process.exitCode = 0;  // which Emscripten set to the command's
    })
    .catch((error) => {
      console.error(String(error?.message ?? error));
      process.exitCode = 70;
    });
