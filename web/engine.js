// The command in a worker: one worker a job, so that nothing of a job is left for the next one, and
// a job that hangs, or takes all memory, is ended with its worker.

const text_of = (id) => document.getElementById(id).textContent.trim();

function bytes_of(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const engine = {
  module: null,
  address: null,  // of the worker's script

  async start() {
    if (typeof DecompressionStream !== "function" || typeof WebAssembly !== "object")
      throw new Error("this browser is too old: it has no WebAssembly or no DecompressionStream");
    this.address = URL.createObjectURL(new Blob([text_of("worker")], {type: "text/javascript"}));
    const wasm = await inflate(bytes_of(text_of("wasm")));
    document.getElementById("wasm").remove();
    try {
      this.module = await WebAssembly.compile(wasm);
    } catch (error) {
      throw new Error(
          `this browser cannot run the page's WebAssembly, which needs 128-bit SIMD and exceptions: ${
              error.message}`);
    }
  },

  // Runs a job; `on` receives the worker's messages. Returns {cancel, ended}: `ended` becomes
  // "done", "cancelled", or {failed: why}.
  run(job, on) {
    const worker = new Worker(this.address);
    let finish;
    const ended = new Promise((resolve) => {
      finish = resolve;
    });
    const end = (how) => {
      worker.terminate();
      finish(how);
    };
    worker.onmessage = ({data}) => {
      if (data.failed !== undefined)
        end({failed: data.failed});
      else if (data.done)
        end("done");
      else
        on(data);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      end({failed: event.message ?? "its worker ended"});
    };
    worker.onmessageerror = () => end({failed: "a message of its worker could not be read"});
    worker.postMessage({module: this.module, ...job});
    return {ended, cancel: () => end("cancelled")};
  },

  // What a verb prints; throws what it says otherwise.
  async output(args) {
    let result = null;
    const how = await this
                    .run(
                        {files: [], runs: [{name: "only", args}]},
                        (message) => {
                          if (message.name) result = message;
                        })
                    .ended;
    if (how !== "done" || result?.code !== 0)
      throw new Error(how.failed ?? (result?.err || "the command did not answer"));
    return result.out;
  }
};
