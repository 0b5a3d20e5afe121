// Asking the server. Errors are Error objects whose message is a sentence for people.

export async function about() {
  return answered(await send('about'));
}

export async function ask(name, content, signal) {
  return answered(await send(name, content, signal));
}

// Bytes, for files.
export async function fetchFile(name, content, signal) {
  const response = await send(name, content, signal);
  if (!response.ok) await answered(response);
  return response.blob().catch(goneAway);
}

// Events as they happen; the last one is 'done' or 'error'.
export async function stream(name, content, hear, signal) {
  const response = await send(name, content, signal);
  if (!response.ok) await answered(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let last = '';
  try {
    while (!['done', 'error'].includes(last)) {
      const { value } = await reader.read().catch(goneAway);
      signal?.throwIfAborted();
      if (value === undefined) goneAway();
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        const event = JSON.parse(line);
        last = event.event;
        hear(event);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function send(name, content, signal) {
  const asking = content && { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(content), signal };
  return fetch(`api/${name}`, asking).catch(goneAway);
}

function goneAway(error) {
  if (error?.name === 'AbortError') throw error;
  throw new Error('The server does not answer; is "outgrow play" still running?');
}

async function answered(response) {
  let content;
  try {
    content = await response.json();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error(`The server's answer cannot be read (${response.status}).`);
  }
  if (!response.ok) throw new Error(content.error || `The server refused (${response.status}).`);
  return content;
}

// Probabilities of V x K values in steps of 1/255, from base64.
export function decode(text) {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}
