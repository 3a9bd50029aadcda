// The service: reading, changing, and what goes on.

function url(path, parameters) {
  const query = Object.entries(parameters ?? {}).filter(([, value]) => value !== undefined && value !== null);
  const text = query.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  return `/api/${path}${text ? `?${text}` : ""}`;
}

async function answer(response) {
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(content.error ?? `the service answers ${response.status}`);
  return content;
}

export async function get(path, parameters, signal) {
  return answer(await fetch(url(path, parameters), { signal }));
}

export async function post(path, content) {
  const headers = { "Content-Type": "application/json" };
  return answer(await fetch(url(path), { method: "POST", headers, body: JSON.stringify(content) }));
}

// Events by their names, until `close` is called. `state` gets "live", "lost" (and it is tried again) or "hidden": a page that
// cannot be seen asks for nothing. `parameters` is called for each attempt with how many there were before.
export function live(path, parameters, handlers, state) {
  let source = null;
  let attempts = 0;
  let timer = 0;
  let closed = false;
  const open = () => {
    if (closed || document.hidden) return;
    source = new EventSource(url(path, parameters(attempts)));
    attempts += 1;
    source.onopen = () => state("live");
    source.onerror = () => {
      drop();
      state("lost");
      timer = setTimeout(open, 1000);
    };
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
    }
  };
  const drop = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  const seen = () => {
    drop();
    if (document.hidden) state("hidden");
    else open();
  };
  document.addEventListener("visibilitychange", seen);
  open();
  return {
    close() {
      closed = true;
      document.removeEventListener("visibilitychange", seen);
      drop();
    },
  };
}
