// Links, text and moving pictures of what is on the board.

import { ask, fetchFile } from './api.js';

const $ = (id) => document.getElementById(id);

export function linkTo(puzzle) {
  return `${location.origin}${location.pathname}#p=${encodeURIComponent(puzzle.line)}`;
}

export function puzzleOfLink() {
  const match = /^#p=(.*)$/s.exec(location.hash);
  if (!match) return null;
  try {
    return decodeURIComponent(match[1]);
  } catch {
    return match[1];
  }
}

// `now()` gives {puzzle, values, run: {weights, steps} or null}.
export function setUpShare(now) {
  const dialog = $('share');
  let writing = null;
  let drawing = null;

  async function write() {
    const { puzzle, values } = now();
    writing?.abort();
    writing = new AbortController();
    const content = { puzzle: puzzle.wire, format: $('share-format').value };
    if ($('share-values').checked) content.values = values;
    try {
      const found = await ask('text', content, writing.signal);
      $('share-text').value = found.text;
    } catch (error) {
      if (error.name !== 'AbortError') say(error.message);
    }
  }

  function say(words) {
    $('share-status').textContent = words;
  }

  async function copy(text, what) {
    try {
      await navigator.clipboard.writeText(text);
      say(`${what} copied.`);
    } catch {
      say('The browser does not let the page copy; select the text and copy it yourself.');
    }
  }

  async function picture(format) {
    const { puzzle, run } = now();
    if (!run) return;
    say('Drawing the run …');
    const mine = (drawing = new AbortController());
    for (const id of ['save-gif', 'save-svg']) $(id).disabled = true;
    try {
      const file = await fetchFile('trace', { puzzle: puzzle.wire, runs: [run], format }, mine.signal);
      save(file, `outgrow-${puzzle.puzzle}-${puzzle.size}.${format}`);
      say('Saved.');
    } catch (error) {
      if (error.name !== 'AbortError') say(error.message);
    } finally {
      for (const id of ['save-gif', 'save-svg']) $(id).disabled = false;
    }
  }

  $('open-share').addEventListener('click', () => {
    const { puzzle, run } = now();
    if (!puzzle) return;
    $('share-link').value = linkTo(puzzle);
    $('share-format').replaceChildren(...puzzle.formats.map((f) => new Option(f, f)));
    for (const id of ['save-gif', 'save-svg']) $(id).disabled = !run;
    say(run ? '' : 'A moving picture needs a run: solve the puzzle first.');
    write();
    dialog.showModal();
    $('share-link').select();
  });
  dialog.addEventListener('close', () => drawing?.abort());
  $('share-close').addEventListener('click', () => dialog.close());
  $('share-format').addEventListener('change', write);
  $('share-values').addEventListener('change', write);
  $('copy-link').addEventListener('click', () => copy($('share-link').value, 'The link is'));
  $('copy-text').addEventListener('click', () => copy($('share-text').value, 'The text is'));
  $('save-text').addEventListener('click', () => {
    const { puzzle } = now();
    save(new Blob([`${$('share-text').value}\n`], { type: 'text/plain' }), `outgrow-${puzzle.puzzle}-${puzzle.size}.txt`);
    say('Saved.');
  });
  $('save-gif').addEventListener('click', () => picture('gif'));
  $('save-svg').addEventListener('click', () => picture('svg'));
}

function save(blob, name) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
