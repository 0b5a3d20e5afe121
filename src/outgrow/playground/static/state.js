// What the page knows: which puzzle, what people entered, what the networks did, and which step is shown.

export const $ = (id) => document.getElementById(id);
const NAMES = { sudoku: 'Sudoku', futoshiki: 'Futoshiki', coloring: 'Graph coloring' };
const MODELS = { binarized: 'BIN', multivalued: 'MV' }; // as the paper calls them

export const state = {
  about: null,
  puzzle: null, // as the server describes it, with `wire`, what the server reads
  entries: [],
  past: [], // {givens, entries} before, for undo
  checked: null, // the verdict on the entries
  gone: null, // AbortController of what is asked about this puzzle
  lanes: [], // {weights, card, board, said, run: {weights, steps, frames, end} or null}
  lane: null, // the one whose cell was chosen
  chosen: null, // variable
  candidate: null, // the value whose listening is asked for; null for the best
  at: 0, // step shown, 0 for the puzzle itself
  playing: false,
  solving: null, // AbortController
  heard: null, // {key, lane, at, from, words, arrows}
};

export function nameOf(kind) {
  return NAMES[kind] ?? kind;
}

export function titleOf({ name, model }) {
  return MODELS[model] ? `${name} · ${MODELS[model]}` : name;
}

export function entryOf(name) {
  return state.about.weights.find((w) => w.name === name);
}

export function wireOf({ puzzle, size, shape, pairs, givens }) {
  return { puzzle, size, shape, pairs, givens };
}

export function length() {
  return Math.max(0, ...state.lanes.map((lane) => lane.run?.frames.length ?? 0));
}

export function frameOf(lane) {
  const frames = lane.run?.frames;
  return state.at && frames?.length ? frames[Math.min(state.at, frames.length) - 1] : null;
}

// Givens and entries.
export function shownValues() {
  return state.puzzle.givens.map((given, i) => given || state.entries[i]);
}

export function write(value) {
  return state.puzzle.layout.symbols[value - 1];
}

export function percent(share) {
  return `${Math.round((100 * share) / 255)}%`;
}

export function paragraph(words) {
  const made = document.createElement('p');
  made.className = 'quiet';
  made.textContent = words;
  return made;
}
