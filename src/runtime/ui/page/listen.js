// Server-sent events (stream.rs): one stream at a time, opened again when it breaks.

import { $ } from "./common.js";

const RETRY = 5_000;

// The longest stretch of reading, in milliseconds: all Jobs arrive at once, and the browser must draw and handle keys meanwhile.
const READ_FOR = 8;

let source = null;
let again = 0;
let waiting = []; // events that are not handled yet, each with its handler

const reading = new MessageChannel(); // unlike timers it is not throttled
reading.port1.onmessage = () => {
  const until = performance.now() + READ_FOR;
  while (waiting.length > 0 && performance.now() < until) {
    const [handle, data] = waiting.shift();
    handle(JSON.parse(data));
  }
  if (waiting.length > 0) reading.port2.postMessage(null);
};

function queue(handle, data) {
  if (waiting.length === 0) reading.port2.postMessage(null);
  waiting.push([handle, data]);
}

// Called with a status and a reason when the controller refuses a stream.
export const onRefused = { call: () => {} };

export function showConnection(state, text) {
  $("connection").dataset.state = state;
  $("connection").textContent = text;
}

export function close() {
  source?.close();
  source = null;
  waiting = [];
  clearTimeout(again);
}

export function listen(path, handlers, begin = () => {}) {
  close();
  const now = new EventSource(path);
  source = now;
  now.onopen = () => {
    // A new stream begins with everything.
    waiting = [];
    begin();
    showConnection("live", "live");
  };
  now.onerror = async () => {
    if (source !== now) return;
    showConnection("lost", "no answer from the controller; retrying");
    if (now.readyState !== EventSource.CLOSED) return;
    // The controller refused, and the browser does not say why.
    again = setTimeout(() => listen(path, handlers, begin), RETRY);
    const answer = await fetch(path, { headers: { Accept: "text/event-stream" } }).catch(() => null);
    if (source !== now || answer == null) return;
    if (answer.status === 401 || answer.status === 403 || answer.status === 404) {
      close();
      onRefused.call(answer.status, await answer.text());
    } else if (!answer.ok) {
      showConnection("lost", `${await answer.text()}; retrying`);
    } else {
      answer.body.cancel();
    }
  };
  now.addEventListener("refused", async (event) => {
    close();
    const viewer = await fetch("/ui/viewer").catch(() => null);
    onRefused.call(viewer?.status === 401 ? 401 : 403, JSON.parse(event.data));
  });
  now.addEventListener("busy", (event) => showConnection("lost", JSON.parse(event.data) ?? "the controller is busy"));
  for (const [name, handle] of Object.entries(handlers)) {
    now.addEventListener(name, (event) => {
      showConnection("live", "live");
      queue(handle, event.data);
    });
  }
}
