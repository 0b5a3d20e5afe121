// The chosen cell: its probabilities over the steps, and whom it listens to.

import { ask } from './api.js';
import { chart, key, thin } from './charts.js';
import { $, frameOf, paragraph, percent, state, write } from './state.js';
import { showLane } from './view.js';

const SHOWN_HEARD = 24;

export function choose(variable, lane, focus = false) {
  forgetHeard();
  state.chosen = variable;
  state.lane = lane;
  state.candidate = null;
  for (const other of state.lanes) other.board.pick(variable, focus && other === lane);
  showCell();
}

export function forgetHeard() {
  const lane = state.heard?.lane;
  state.heard = null;
  if (state.lanes.includes(lane)) showLane(lane);
}

export function showCell() {
  const { chosen, puzzle } = state;
  const place = $('cell');
  if (chosen === null) {
    place.replaceChildren(paragraph('Solve a puzzle, then choose a cell to see its probabilities over the steps and whom it listens to.'));
    return;
  }
  const parts = [];
  const given = puzzle.givens[chosen];
  const title = document.createElement('h3');
  const lane = [state.lane, ...state.lanes].find((l) => state.lanes.includes(l) && l.run?.frames.length) ?? null;
  title.textContent = puzzle.names[chosen] + (lane && !given && state.lanes.length > 1 ? `, ${lane.weights}` : '');
  parts.push(title);
  if (given) parts.push(paragraph(`Given: ${write(given)}.`));
  if (lane && !given) {
    const frames = lane.run.frames.filter((f) => f.beliefs);
    const size = puzzle.size;
    const peak = Array.from({ length: size }, (_, v) => Math.max(...thin(frames).map((f) => f.beliefs[chosen * size + v])));
    const frame = frameOf(lane);
    const now = frame?.beliefs ? frame : frames.at(-1);
    const best = peak.map((p, v) => [now.beliefs[chosen * size + v], p, v]).sort((a, b) => b[0] - a[0] || b[1] - a[1]).slice(0, 6).filter(([, p], n) => !n || p > 2).map(([, , v]) => v);
    const tones = ['var(--accent)', 'var(--found)', 'var(--second)', 'var(--listen)', 'var(--guess)', 'var(--muted)'];
    const series = best.map((v, n) => ({
      name: `${write(v + 1)}: ${percent(now.beliefs[chosen * size + v])}`,
      color: tones[n],
      dash: n > 2 ? '4 3' : '',
      points: thin(frames.map((f, i) => [i + 1, f.beliefs[chosen * size + v] / 255])),
    }));
    const label = `Probabilities of ${puzzle.names[chosen]} over the steps; at step ${now.step}: ${series.map((s) => s.name).join(', ')}`;
    parts.push(chart({ label, series, x: [1, Math.max(2, frames.length)], cursor: state.at || undefined }), key(series));
    if (state.playing) parts.push(paragraph('Pause to see whom it listens to.'));
    else if (frame?.beliefs) parts.push(listening(lane, frame));
  } else if (!given) parts.push(paragraph(state.entries[chosen] ? `You entered ${write(state.entries[chosen])}.` : 'Empty. Solve the puzzle to see what the network believes.'));
  const focused = document.activeElement.id;
  place.replaceChildren(...parts);
  if (focused === 'listen' || focused === 'candidate') $(focused)?.focus();
}

function listening(lane, frame) {
  const { chosen, puzzle } = state;
  const box = document.createElement('div');
  const value = state.candidate ?? frame.values[chosen];
  const title = document.createElement('h3');
  title.textContent = 'Whom it listens to';
  const row = document.createElement('div');
  row.className = 'row';
  const label = document.createElement('label');
  const select = document.createElement('select');
  select.id = 'candidate';
  select.replaceChildren(...Array.from({ length: puzzle.size }, (_, v) => new Option(write(v + 1), v + 1, false, v + 1 === value)));
  select.addEventListener('change', () => {
    forgetHeard();
    state.candidate = Number(select.value);
    showCell();
  });
  label.append('as value', select);
  const button = document.createElement('button');
  button.type = 'button';
  button.id = 'listen';
  button.textContent = 'Show whom';
  row.append(label, button);
  box.append(title, row);
  const asked = `${state.lanes.indexOf(lane)} ${lane.weights} ${state.at} ${chosen} ${value}`;
  const found = state.heard?.key === asked ? state.heard : null;
  const list = document.createElement('div');
  list.id = 'heard';
  box.append(list);
  if (found?.from) list.append(...heardList(found.from));
  else if (found?.words) list.append(paragraph(found.words));
  button.addEventListener('click', async () => {
    const content = { puzzle: puzzle.wire, weights: lane.weights, steps: lane.run.steps, step: frame.step, variable: chosen, value };
    state.heard = { key: asked, words: 'Listening …', lane, at: state.at, arrows: [] };
    showCell();
    const heard = state.heard;
    try {
      const { from } = await ask('listen', content, state.gone.signal);
      Object.assign(heard, { from, words: '', arrows: arrowsOf(from, chosen) });
    } catch (error) {
      if (error.name === 'AbortError') return;
      heard.words = error.message;
    }
    if (state.heard !== heard) return;
    showLane(lane);
    showCell();
  });
  return box;
}

// What is heard of other variables, all kinds together.
function arrowsOf(from, to) {
  const total = new Map();
  for (const { variable, weight } of from) if (variable !== to) total.set(variable, (total.get(variable) ?? 0) + weight);
  return [...total].map(([variable, weight]) => ({ from: variable, to, weight })).sort((a, b) => b.weight - a.weight).slice(0, 60);
}

function heardList(from) {
  const kinds = new Map();
  for (const heard of from) kinds.set(heard.kind, [...(kinds.get(heard.kind) ?? []), heard]);
  const table = document.createElement('table');
  const head = table.createTHead().insertRow();
  for (const text of ['through', 'from', 'weight']) {
    const cell = document.createElement('th');
    cell.scope = 'col';
    cell.textContent = text;
    head.append(cell);
  }
  const body = table.createTBody();
  const most = Math.max(3, Math.floor(SHOWN_HEARD / kinds.size));
  for (const [kind, all] of kinds)
    for (const { variable, value, weight } of all.slice(0, most)) {
      const row = body.insertRow();
      row.insertCell().textContent = kind;
      row.insertCell().textContent = `${variable === state.chosen ? 'itself' : state.puzzle.names[variable]}${value ? ` as ${write(value)}` : ''}`;
      const cell = row.insertCell();
      cell.className = 'n';
      cell.textContent = `${(100 * weight).toFixed(0)}%`;
    }
  return [table];
}
