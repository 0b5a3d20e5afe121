// The page: choosing and reading puzzles, solving and playing steps, entering values.

import { about as askAbout, ask, decode, stream } from './api.js';
import { Board, colorOf, forgetInks } from './board.js';
import { choose, showCell } from './cell.js';
import { Growth, random } from './growth.js';
import { puzzleOfLink, setUpShare } from './share.js';
import { $, entryOf, frameOf, length, nameOf, paragraph, shownValues, state, titleOf, wireOf, write } from './state.js';
import { complain, drawCurve, quiet, say, sayRun, sayStep, showLane } from './view.js';

// ---- puzzles

function kindNow() {
  return document.querySelector('input[name="kind"]:checked')?.value;
}

function fillChooser(kind, size, difficulty) {
  const puzzle = state.about.puzzles.find((p) => p.name === kind);
  document.querySelector(`input[name="kind"][value="${kind}"]`).checked = true;
  const sizes = puzzle.sizes.map((s) => s.size);
  const wanted = sizes.includes(size) ? size : (sizes.find((s) => s >= 9) ?? sizes.at(-1));
  const chosen = kind === 'coloring' && !sizes.includes(size) ? sizes[0] : wanted;
  const label = (s) => (kind === 'coloring' ? `${s} colors` : `${s} x ${s}`);
  $('size').replaceChildren(...sizes.map((s) => new Option(label(s), s, false, s === chosen)));
  fillDifficulties(difficulty);
}

function fillDifficulties(wanted = $('difficulty').value) {
  const puzzle = state.about.puzzles.find((p) => p.name === kindNow());
  const found = puzzle.sizes.find((s) => s.size === Number($('size').value))?.difficulties ?? [];
  $('new').hidden = !found.length;
  const chosen = found.includes(wanted) ? wanted : found.includes('medium') ? 'medium' : found[0];
  $('difficulty').replaceChildren(...found.map((d) => new Option(d, d, false, d === chosen)));
}

let wanted = null;

// Asks for a puzzle to show. Of several only the one asked for last is shown: an earlier answer does not arrive.
async function want(name, content) {
  wanted?.abort();
  const mine = (wanted = new AbortController());
  $('new').disabled = name === 'new';
  try {
    return await ask(name, content, mine.signal);
  } finally {
    if (wanted === mine) $('new').disabled = false;
  }
}

async function newPuzzle() {
  say('Making a puzzle …');
  try {
    const content = { kind: kindNow(), size: Number($('size').value), difficulty: $('difficulty').value, seed: random() };
    const { puzzle } = await want('new', content);
    setPuzzle(puzzle);
  } catch (error) {
    if (error.name === 'AbortError') return;
    complain(error.message);
    if (state.puzzle) sayStep();
  }
}

function setPuzzle(puzzle, { entries, link = false } = {}) {
  const before = state.puzzle;
  puzzle.wire = wireOf(puzzle);
  state.puzzle = puzzle;
  state.past = [];
  if (before?.puzzle !== puzzle.puzzle) setLanes(puzzle.puzzle);
  for (const lane of state.lanes) lane.board.setPuzzle(puzzle);
  state.chosen = null;
  fillPad();
  fillPickers();
  // The browser's Back returns to the puzzle before, as far as it was filled in.
  const hash = `#p=${encodeURIComponent(puzzle.line)}`;
  if (before && !link && hash !== location.hash) history.pushState(null, '', hash);
  else history.replaceState(history.state, '', hash);
  restart(entries?.length === puzzle.givens.length ? entries : puzzle.givens.map(() => 0));
  if (puzzle.notes.length && !link) complain(puzzle.notes.join(' '), false);
}

// From the puzzle's start, without runs.
function restart(entries) {
  state.gone?.abort();
  state.gone = new AbortController();
  state.entries = entries;
  state.at = 0;
  state.checked = state.heard = null;
  for (const lane of state.lanes) lane.run = null;
  quiet();
  stopSolving();
  $('unique').disabled = false;
  $('hint').disabled = $('solve').disabled;
  showStep();
  checkEntries();
}

// ---- networks side by side

function setLanes(kind) {
  const own = state.about.weights.filter((w) => w.puzzle === kind);
  for (const lane of [...state.lanes]) removeLane(lane);
  const first = own.find((w) => w.default) ?? own[0];
  addLane(first?.name ?? ''); // a board to puzzle on, whether there are networks or not
}

function removeLane(lane) {
  lane.board.remove();
  lane.card.remove();
  state.lanes.splice(state.lanes.indexOf(lane), 1);
}

function addLane(weights) {
  const card = document.createElement('article');
  card.className = 'card lane';
  const title = document.createElement('h2');
  const said = document.createElement('p');
  said.className = 'said';
  card.append(title);
  $('lanes').append(card);
  const lane = { weights, card, title, said, run: null };
  lane.board = new Board(card, {
    label: () => `${nameOf(state.puzzle.puzzle)} of size ${state.puzzle.size}${lane.weights && `, ${lane.weights}`}`,
    choose: (variable, focus) => choose(variable, lane, focus),
    key: (event, variable) => press(event, variable),
  });
  card.append(said);
  state.lanes.push(lane);
  if (state.puzzle) lane.board.setPuzzle(state.puzzle);
  return lane;
}

function fillPickers() {
  const own = state.about.weights.filter((w) => w.puzzle === state.puzzle.puzzle);
  $('pickers').replaceChildren(
    ...(own.length ? state.lanes : []).map((lane, i) => {
      const row = document.createElement('div');
      const label = document.createElement('label');
      const word = document.createElement('span');
      word.className = 'hidden';
      word.textContent = `Network ${i + 1}`;
      const select = document.createElement('select');
      select.className = 'picker';
      select.replaceChildren(...own.map((w) => new Option(titleOf(w), w.name, false, w.name === lane.weights)));
      select.addEventListener('change', () => {
        stopSolving();
        lane.weights = select.value;
        lane.run = null;
        state.heard = null;
        fillPickers();
        $('pickers').querySelectorAll('select')[i].focus();
        goTo(state.at);
      });
      label.append(word, select);
      row.append(label);
      if (state.lanes.length > 1) {
        const away = document.createElement('button');
        away.type = 'button';
        away.textContent = '×';
        away.setAttribute('aria-label', `Remove network ${i + 1}`);
        away.addEventListener('click', () => {
          stopSolving();
          removeLane(lane);
          fillPickers();
          $('compare').focus();
          goTo(state.at);
        });
        row.append(away);
      }
      return row;
    }),
  );
  $('compare').hidden = own.length < 2;
  $('compare').disabled = state.lanes.length >= Math.min(state.about.limits.runs, own.length);
  const entry = entryOf(state.lanes[0]?.weights);
  const most = Math.max(1, Math.floor((entry?.most ?? 1) / (entry?.attempt ?? 1)));
  const before = Number($('attempts').value) || 4;
  const counts = [1, 2, 4, 8, 16].filter((n) => n <= most);
  $('attempts').replaceChildren(...counts.map((n) => new Option(n === 1 ? '1' : `up to ${n}`, n, false, n === Math.min(before, counts.at(-1)))));
  const used = [...new Set(state.lanes.map((lane) => entryOf(lane.weights)))].filter(Boolean);
  $('about-network').replaceChildren(
    ...used.map((w) => {
      const beyond = state.puzzle.size > w.max_trained_values ? `; this puzzle has ${state.puzzle.size}` : '';
      return paragraph(`${w.name} saw at most ${w.max_trained_values} values in training${beyond}. It has ${w.parameters.toLocaleString('en')} parameters and takes ${w.attempt} steps an attempt.`);
    }),
  );
  if (!used.length) $('about-network').append(paragraph('No weights are there for this puzzle yet.'));
  $('solve').disabled = $('hint').disabled = !entry;
  for (const lane of state.lanes) lane.title.textContent = entry ? titleOf(entryOf(lane.weights)) : nameOf(state.puzzle.puzzle);
}

// ---- solving

async function solve() {
  if (state.solving) {
    stopSolving();
    showStep();
    return;
  }
  quiet();
  const solving = (state.solving = new AbortController());
  const attempts = Number($('attempts').value) || 1;
  for (const lane of state.lanes) {
    const entry = entryOf(lane.weights);
    const steps = Math.max(1, Math.min(attempts * entry.attempt, entry.most));
    lane.run = { weights: lane.weights, steps, frames: [], end: null };
  }
  state.heard = null;
  state.at = 0;
  $('solve').textContent = 'Stop';
  const runs = state.lanes.map((lane) => lane.run);
  const content = { puzzle: state.puzzle.wire, runs: runs.map(({ weights, steps }) => ({ weights, steps })), guarantee: $('guarantee').checked };
  showStep();
  play();
  try {
    await stream('solve', content, (event) => hear(event, runs), solving.signal);
  } catch (error) {
    if (error.name !== 'AbortError') complain(error.message);
  } finally {
    for (const run of runs) run.end ??= { status: 'stopped', words: 'Stopped.' };
    if (state.solving === solving) {
      state.solving = null;
      $('solve').textContent = 'Solve and watch';
      goTo(still() ? length() : state.at);
    }
  }
}

function stopSolving() {
  state.solving?.abort();
  state.solving = null;
  $('solve').textContent = 'Solve and watch';
  for (const { run } of state.lanes) if (run) run.end ??= { status: 'stopped', words: 'Stopped.' };
  pause();
}

function hear(event, runs) {
  if (event.event === 'step') {
    const run = runs[event.run];
    run.frames.push({ ...event, beliefs: decode(event.beliefs) });
    const first = length() === 1 && state.at === 0;
    $('step').max = length();
    $('step').disabled = $('play').disabled = false;
    if (first) goTo(1);
  } else if (event.event === 'end') {
    runs[event.run].end = event;
    sayRun(state.lanes[event.run]);
  } else if (event.event === 'waiting') {
    say(`Waiting for a turn; ${event.ahead} before this one.`);
  } else if (event.event === 'asking') {
    say('No network solved it; the exact solver is at it …');
  } else if (event.event === 'exact') {
    const run = runs[0];
    if (event.values) {
      const step = (run.frames.at(-1)?.step ?? 0) + 1;
      run.frames.push({ exact: true, step, values: event.values, beliefs: null, confidence: 1, broken: 0, pairs: [], solved: true, milliseconds: event.milliseconds });
    }
    run.exact = event;
    $('step').max = length();
    sayRun(state.lanes[0]);
  } else if (event.event === 'late' || event.event === 'error') complain(event.words);
}

// ---- the step that is shown

function goTo(at) {
  state.at = Math.max(0, Math.min(at, length()));
  showStep();
}

function showStep() {
  const count = length();
  $('step').max = count;
  $('step').value = state.at;
  $('step').disabled = $('play').disabled = !count;
  const frame = state.lanes[0]?.run?.frames[state.at - 1] ?? state.lanes.map((l) => l.run?.frames[state.at - 1]).find(Boolean);
  const words = !count ? '–' : !state.at ? 'the puzzle' : frame?.exact ? 'exact solver' : `step ${state.at} of ${count}`;
  $('position').textContent = words;
  $('step').setAttribute('aria-valuetext', words);
  for (const lane of state.lanes) showLane(lane);
  if (!state.playing) sayStep();
  drawCurve();
  showCell();
}

// ---- playing the steps

let ticking = null;
let due = 0;

function still() {
  return matchMedia('(prefers-reduced-motion: reduce)').matches;
}

function play() {
  if (state.at >= length() && !state.solving) state.at = 0;
  state.playing = true;
  say('Passing messages …');
  $('play').textContent = 'Pause';
  due = performance.now();
  cancelAnimationFrame(ticking);
  ticking = requestAnimationFrame(tick);
}

function pause() {
  if (!state.playing) return;
  state.playing = false;
  $('play').textContent = 'Play';
  cancelAnimationFrame(ticking);
  if (state.puzzle) showStep();
}

function tick(now) {
  if (!state.playing) return;
  const speed = Number($('speed').value);
  const count = length();
  if (state.at < count) {
    if (!speed || still()) goTo(count);
    else if (now >= due) {
      const steps = Math.max(1, Math.floor((now - due) / (1000 / speed)) + 1);
      due = Math.max(due + (1000 / speed) * steps, now);
      goTo(Math.min(count, state.at + steps));
    }
  } else if (!state.solving) {
    pause();
    return;
  } else due = now;
  ticking = requestAnimationFrame(tick);
}

// ---- what people enter

let typed = { text: '', at: 0, variable: null };

function press(event, variable) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const before = typed.variable === variable && performance.now() - typed.at < 900 ? typed.text : '';
  const { symbols } = state.puzzle.layout;
  if (event.key === 'Backspace' || event.key === 'Delete' || (event.key === '0' && !symbols.includes(`${before}0`))) {
    typed.text = '';
    enter(variable, 0);
    event.preventDefault();
    return;
  }
  if (event.key.length !== 1 || event.key === ' ' || event.key === ',' || event.key === '.') return;
  for (const text of [before + event.key, event.key]) {
    const found = symbols.findIndex((s) => s.toLowerCase() === text.toLowerCase());
    if (found >= 0) {
      typed = { text, at: performance.now(), variable };
      enter(variable, found + 1);
      event.preventDefault();
      return;
    }
  }
}

function enter(variable, value) {
  const { givens, names } = state.puzzle;
  const editing = $('edit').checked;
  if (givens[variable] && !editing) {
    say(`${names[variable]} is given; choose "Edit the givens" to change it.`);
    return;
  }
  if (editing ? givens[variable] === value && !state.entries[variable] : state.entries[variable] === value && !state.at) return;
  remember();
  if (editing) changeGivens(givens.with(variable, value), state.entries.with(variable, 0));
  else setEntries(state.entries.with(variable, value));
}

function setEntries(entries) {
  pause();
  state.entries = entries;
  goTo(0);
  return checkEntries();
}

// At once on the board; how the puzzle is written follows from the server.
async function changeGivens(givens, entries) {
  const puzzle = { ...state.puzzle, givens };
  puzzle.wire = wireOf(puzzle);
  state.puzzle = puzzle;
  for (const lane of state.lanes) lane.board.puzzle = puzzle;
  restart(entries);
  try {
    Object.assign(puzzle, await want('change', { puzzle: puzzle.wire }));
    history.replaceState(history.state, '', `#p=${encodeURIComponent(puzzle.line)}`);
  } catch (error) {
    if (error.name !== 'AbortError') complain(error.message);
  }
}

function remember() {
  state.past.push({ givens: state.puzzle.givens, entries: state.entries });
  if (state.past.length > 500) state.past.shift();
}

function undo() {
  const { givens, entries } = state.past.pop();
  if (givens === state.puzzle.givens) setEntries(entries);
  else changeGivens(givens, entries);
}

let checking = null;

async function checkEntries() {
  const { puzzle, entries } = state;
  $('undo').disabled = !state.past.length;
  history.replaceState(entries.some(Boolean) ? { entries } : null, '');
  checking?.abort();
  checking = new AbortController();
  try {
    state.checked = await ask('check', { puzzle: puzzle.wire, values: shownValues() }, checking.signal);
    if (state.at || state.playing) return;
    for (const lane of state.lanes) showLane(lane);
    sayStep();
  } catch (error) {
    if (error.name !== 'AbortError') complain(error.message);
  }
}

function fillPad() {
  const { puzzle } = state;
  const buttons = puzzle.layout.symbols.map((symbol, i) => {
    const button = document.createElement('button');
    button.type = 'button';
    if (puzzle.layout.colored) {
      const swatch = document.createElement('span');
      swatch.className = 'swatch';
      swatch.style.background = colorOf(i + 1, puzzle.size);
      button.append(swatch);
    }
    button.append(symbol);
    button.setAttribute('aria-label', `Enter ${symbol}`);
    button.addEventListener('click', () => padEnter(i + 1));
    return button;
  });
  const erase = document.createElement('button');
  erase.type = 'button';
  erase.textContent = 'Erase';
  erase.addEventListener('click', () => padEnter(0));
  $('pad').replaceChildren(...buttons, erase);
}

function padEnter(value) {
  if (state.chosen === null) say('Choose a cell first.');
  else enter(state.chosen, value);
}

// A value of a cell that is still open, as the network finds it from here: the one it was sure of first.
async function hint() {
  const { puzzle } = state;
  const [lane] = state.lanes;
  const known = shownValues();
  const open = known.flatMap((value, i) => (value ? [] : [i]));
  pause();
  goTo(0);
  if (!open.length) {
    say('Nothing is open.');
    return;
  }
  await inquire($('hint'), 'Asking the network …', async (signal) => {
    const entry = entryOf(lane.weights);
    const sure = new Map();
    let last = null;
    const runs = [{ weights: lane.weights, steps: Math.min(2 * entry.attempt, entry.most) }];
    await stream('solve', { puzzle: { ...puzzle.wire, givens: known }, runs }, (event) => {
      if (event.event === 'error' || event.status === 'refused') throw new Error(event.words);
      if (event.event !== 'step') return;
      last = event;
      const beliefs = decode(event.beliefs);
      for (const i of open) if (!sure.has(i) && beliefs[i * puzzle.size + event.values[i] - 1] > 230) sure.set(i, event.values[i]);
    }, signal);
    if (String(known) !== String(shownValues())) sayStep(); // people went on meanwhile
    else if (!last?.solved) say('The network finds no solution from here; perhaps an entry is wrong.', 'wrong');
    else {
      const found = [...sure.keys()].find((i) => sure.get(i) === last.values[i]) ?? open[0];
      choose(found, lane);
      remember();
      await setEntries(state.entries.with(found, last.values[found]));
      say(`Hint: ${puzzle.names[found]} is ${write(last.values[found])}.`, 'good');
    }
  });
}

async function countSolutions() {
  await inquire($('unique'), 'Asking the exact solver …', async (signal) => {
    const found = await ask('exact', { puzzle: state.puzzle.wire, unique: true }, signal);
    if (found.status === 'solved') say(found.unique === null ? 'It has a solution; whether there is another one was not settled in time.' : found.unique ? 'It has exactly one solution (proven).' : 'It has several solutions; any of them counts.', 'good');
    else say(found.words[0].toUpperCase() + found.words.slice(1) + '.', 'wrong');
  });
}

// Asks something about the puzzle; once it is another one, nothing of that is said.
async function inquire(button, words, work) {
  const { signal } = state.gone;
  button.disabled = true;
  say(words);
  try {
    await work(signal);
  } catch (error) {
    if (signal.aborted) return;
    complain(error.message);
    sayStep();
  } finally {
    if (!signal.aborted) button.disabled = false;
  }
}

// ---- pasting

async function readText(text, { kind, colors, entries, link } = {}) {
  const content = { text };
  if (kind) content.kind = kind;
  if (colors) content.colors = colors;
  const found = await want('read', content);
  if (found.count > 1) found.puzzle.notes.push(`The first of ${found.count.toLocaleString('en')} puzzles.`);
  const sizes = state.about.puzzles.find((p) => p.name === found.puzzle.puzzle)?.sizes.map((s) => s.size) ?? [];
  fillChooser(found.puzzle.puzzle, sizes.includes(found.puzzle.size) ? found.puzzle.size : undefined);
  setPuzzle(found.puzzle, { entries, link });
}

function setUpPaste() {
  const dialog = $('paste');
  $('paste-kind').replaceChildren(new Option('whatever it is', ''), ...state.about.puzzles.map((p) => new Option(nameOf(p.name), p.name)));
  $('open-paste').addEventListener('click', () => {
    $('paste-error').textContent = '';
    $('paste-file').value = '';
    dialog.showModal();
    $('paste-text').select();
  });
  let reading = null;
  dialog.addEventListener('cancel', () => reading?.abort());
  $('paste-cancel').addEventListener('click', () => {
    reading?.abort();
    dialog.close();
  });
  $('paste-file').addEventListener('change', async () => {
    const [file] = $('paste-file').files;
    if (!file) return;
    if (file.size > state.about.limits.body_bytes / 2) $('paste-error').textContent = `The file is larger than ${state.about.limits.body_bytes >> 11} KiB.`;
    else $('paste-text').value = await file.text();
  });
  $('paste-form').addEventListener('submit', async (event) => {
    event.preventDefault();
    $('paste-error').textContent = '';
    try {
      const asked = readText($('paste-text').value, { kind: $('paste-kind').value, colors: Number($('paste-colors').value) });
      reading = wanted;
      await asked;
      dialog.close();
    } catch (error) {
      if (error.name === 'AbortError') return;
      $('paste-error').textContent = error.message;
      $('paste-text').focus();
    }
  });
}

// ---- the page

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $('theme').setAttribute('aria-pressed', String(theme === 'dark'));
  forgetInks();
  for (const lane of state.lanes) lane.board.redraw();
  growth?.redraw();
}

let growth = null;

function showView(name) {
  quiet();
  for (const view of ['watch', 'growth']) {
    $(view).hidden = view !== name;
    if (view === name) $(`to-${view}`).setAttribute('aria-current', 'page');
    else $(`to-${view}`).removeAttribute('aria-current');
  }
  if (name === 'growth') {
    pause();
    const kind = state.puzzle?.puzzle ?? 'sudoku';
    if (growth.kind !== kind) growth.show(kind);
  } else {
    growth.stop();
    for (const lane of state.lanes) lane.board.redraw();
  }
}

function onKey(event) {
  const busy = event.target.closest('input, select, textarea, dialog, summary');
  if (busy || event.ctrlKey || event.metaKey || event.altKey || $('watch').hidden) return;
  if (event.key === ' ' && !event.target.closest('button:not(.sheet button)') && length()) {
    if (state.playing) pause();
    else play();
    event.preventDefault();
  } else if (event.key === ',' || event.key === '.') {
    pause();
    goTo(state.at + (event.key === '.' ? 1 : -1));
  } else if (state.chosen !== null && !event.target.closest('.sheet')) press(event, state.chosen);
}

async function begin() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  setTheme(dark.matches ? 'dark' : 'light');
  dark.addEventListener('change', () => setTheme(dark.matches ? 'dark' : 'light'));
  $('theme').addEventListener('click', () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'));
  state.about = await askAbout();
  $('version').textContent = `Version ${state.about.version}.`;
  $('kinds').replaceChildren(
    ...state.about.puzzles.map((p) => {
      const label = document.createElement('label');
      const input = document.createElement('input');
      Object.assign(input, { type: 'radio', name: 'kind', value: p.name });
      const face = document.createElement('span');
      face.className = 'face';
      face.textContent = nameOf(p.name);
      label.append(input, face);
      input.addEventListener('change', () => {
        fillChooser(p.name);
        if (p.sizes.length) newPuzzle();
        else readText(p.example, { kind: p.name }).catch((error) => complain(error.message));
      });
      return label;
    }),
  );
  growth = new Growth(state.about, nameOf);
  setUpPaste();
  setUpShare(() => {
    const lane = state.lanes[0];
    const frame = lane && frameOf(lane);
    const values = frame?.values ?? (state.puzzle && shownValues());
    return { puzzle: state.puzzle, values, run: lane?.run?.frames.some((f) => !f.exact) ? { weights: lane.run.weights, steps: lane.run.steps } : null };
  });
  $('chooser').addEventListener('submit', (event) => {
    event.preventDefault();
    newPuzzle();
  });
  $('size').addEventListener('change', () => fillDifficulties());
  $('compare').addEventListener('click', () => {
    stopSolving();
    const used = state.lanes.map((l) => l.weights);
    const next = state.about.weights.find((w) => w.puzzle === state.puzzle.puzzle && !used.includes(w.name));
    if (next) addLane(next.name);
    fillPickers();
    goTo(state.at);
  });
  $('solve').addEventListener('click', solve);
  $('play').addEventListener('click', () => (state.playing ? pause() : play()));
  $('step').addEventListener('input', () => {
    const at = Number($('step').value);
    pause();
    goTo(at);
  });
  $('hint').addEventListener('click', hint);
  $('unique').addEventListener('click', countSolutions);
  $('undo').addEventListener('click', undo);
  $('clear').addEventListener('click', () => {
    const editing = $('edit').checked;
    const { entries } = state;
    const none = entries.map(() => 0);
    if ((editing ? state.puzzle.givens : entries).some(Boolean)) remember();
    if (editing) changeGivens(none, entries);
    else setEntries(none);
  });
  $('edit').addEventListener('change', () => {
    $('clear').textContent = $('edit').checked ? 'Clear the givens' : 'Clear entries';
  });
  $('to-watch').addEventListener('click', () => showView('watch'));
  $('to-growth').addEventListener('click', () => showView('growth'));
  document.addEventListener('keydown', onKey);
  window.addEventListener('hashchange', fromLink);
  fillChooser('sudoku', 9, 'medium');
  await fromLink();
  document.body.dataset.ready = 'true';
}

// The puzzle of the address, or in the beginning a new one.
async function fromLink() {
  const text = puzzleOfLink();
  if (text !== null && text === state.puzzle?.line) return;
  let wrong = '';
  try {
    if (text !== null) await readText(text, { entries: history.state?.entries, link: true });
  } catch (error) {
    if (error.name === 'AbortError') return;
    wrong = `The link's puzzle cannot be read: ${error.message}`;
  }
  if (!state.puzzle) await newPuzzle();
  if (wrong) complain(wrong);
}

begin().catch((error) => complain(error.message));
