// How the same weights do at growing sizes: measured figures, and puzzles solved live.

import { ask, decode, stream } from './api.js';
import { Board } from './board.js';
import { chart, key } from './charts.js';

const $ = (id) => document.getElementById(id);
const COLORS = ['var(--accent)', 'var(--found)', 'var(--second)', 'var(--listen)', 'var(--guess)'];
const MOST = 7; // puzzles of the gallery

export class Growth {
  constructor(about, name) {
    this.about = about;
    this.boards = [];
    this.running = null;
    this.kind = null;
    $('growth-kind').replaceChildren(...about.puzzles.map((p) => new Option(name(p.name), p.name)));
    $('growth-kind').addEventListener('change', () => this.show($('growth-kind').value));
    $('growth-run').addEventListener('click', () => (this.running ? this.stop() : this.run()));
    new ResizeObserver(() => requestAnimationFrame(() => this.draw?.())).observe($('growth'));
  }

  redraw() {
    for (const board of this.boards) board.redraw();
  }

  stop() {
    if (!this.running) return;
    this.running.abort();
    $('growth-status').textContent = 'Stopped.';
    this.ended();
  }

  ended() {
    this.running = null;
    $('growth-run').textContent = 'Solve one of each size';
  }

  clear() {
    for (const board of this.boards) board.remove();
    this.boards = [];
    $('gallery').replaceChildren();
  }

  show(kind) {
    this.stop();
    this.kind = kind;
    $('growth-kind').value = kind;
    const { about } = this;
    const own = about.weights.filter((w) => w.puzzle === kind);
    const series = own.map((weights, i) => ({
      name: `${weights.name} (trained on up to ${weights.max_trained_values})`,
      color: COLORS[i % COLORS.length],
      points: best(weights),
      dots: true,
      trained: weights.max_trained_values,
    }));
    const paper = Object.entries(about.paper[kind] ?? {})
      .filter(([model]) => ['binarized', 'multivalued'].includes(model))
      .map(([model, row], i) => ({
        name: `the paper's ${model} model`,
        color: 'var(--muted)',
        dash: i ? '2 3' : '6 4',
        points: row.map(([size, mean]) => [size, mean / 100]),
        spread: row.map(([size, mean, std]) => [size, Math.max(0, mean - std) / 100, Math.min(100, mean + std) / 100]),
        dots: true,
      }));
    const all = [...series, ...paper].filter((s) => s.points.length);
    const sizes = [...new Set(all.flatMap((s) => s.points.map(([size]) => size)))].sort((a, b) => a - b);
    const marks = series.map((s) => ({ at: s.trained, name: `${s.name}: the training ends here`, color: s.color }));
    const label = `Board accuracy by size for ${kind}: ${series.map((s) => `${s.name} ${s.points.map(([k, b]) => `${k}: ${(100 * b).toFixed(0)}%`).join(', ')}`).join('; ')}`;
    const x = [sizes[0] ?? 0, sizes.at(-1) ?? 1];
    let drawn = 0;
    this.draw = () => {
      const width = $('growth-chart').clientWidth;
      if (!width || width === drawn) return;
      drawn = width;
      $('growth-chart').replaceChildren(chart({ label, series: all, width, height: 300, x, marks, ticks: sizes }), key(all));
    };
    this.draw();
    this.table(all, sizes);
    $('growth-weights').replaceChildren(...own.map((w) => new Option(w.name, w.name, w.default, w.default)));
    this.clear();
    $('growth-status').textContent = '';
  }

  table(series, sizes) {
    const table = document.createElement('table');
    const head = table.createTHead().insertRow();
    for (const text of ['weights', ...sizes]) {
      const cell = document.createElement('th');
      cell.scope = 'col';
      cell.textContent = text;
      head.append(cell);
    }
    const body = table.createTBody();
    for (const one of series) {
      const row = body.insertRow();
      const name = document.createElement('th');
      name.scope = 'row';
      name.textContent = one.name;
      row.append(name);
      for (const size of sizes) {
        const found = one.points.find(([at]) => at === size);
        const cell = row.insertCell();
        cell.className = 'n';
        cell.textContent = found ? `${(Math.floor(1000 * found[1]) / 10).toFixed(1)}%` : '';
      }
    }
    $('growth-table').replaceChildren(table);
  }

  async run() {
    const kind = $('growth-kind').value;
    const weights = this.about.weights.find((w) => w.name === $('growth-weights').value);
    const all = this.about.puzzles.find((p) => p.name === kind).sizes.map((s) => s.size);
    const sizes = spread(all, MOST);
    const running = (this.running = new AbortController());
    $('growth-run').textContent = 'Stop';
    this.clear();
    let solved = 0;
    let done = 0;
    try {
      for (const size of sizes) {
        const { puzzle } = await ask('new', { kind, size, difficulty: 'medium', seed: random() }, running.signal);
        const card = document.createElement('li');
        const title = document.createElement('h3');
        title.textContent = `${size} values`;
        const said = document.createElement('p');
        said.className = 'quiet';
        said.textContent = '…';
        card.append(title, said);
        if (size > weights.max_trained_values) {
          const beyond = document.createElement('span');
          beyond.className = 'beyond';
          beyond.textContent = ' never seen in training';
          title.append(beyond);
        }
        $('gallery').append(card);
        const board = new Board(card);
        this.boards.push(board);
        board.setPuzzle(puzzle);
        board.show({ values: puzzle.givens });
        $('growth-status').textContent = `Solving size ${size} …`;
        const wire = { puzzle: puzzle.puzzle, size: puzzle.size, shape: puzzle.shape, pairs: puzzle.pairs, givens: puzzle.givens };
        const steps = Math.min(4 * weights.attempt, weights.most);
        await stream('solve', { puzzle: wire, runs: [{ weights: weights.name, steps }] }, (event) => {
          if (event.event === 'step') {
            const broken = new Set(event.pairs.flat());
            board.show({ values: event.values, beliefs: decode(event.beliefs), broken, pairs: event.pairs, strong: event.solved });
            said.textContent = `step ${event.step} · ${Math.round(event.milliseconds)} ms`;
          } else if (event.event === 'end') {
            done += 1;
            if (event.status === 'solved') solved += 1;
            const steps = `${event.steps} ${event.steps === 1 ? 'step' : 'steps'} · ${Math.round(event.milliseconds)} ms`;
            said.textContent = event.status === 'refused' ? event.words : `${event.status === 'solved' ? 'solved in' : 'not solved in'} ${steps}`;
          } else if (event.event === 'error') throw new Error(event.words);
        }, running.signal);
      }
      $('growth-status').textContent = `${solved} of ${done} solved by ${weights.name}, which saw ${weights.max_trained_values} values at most.`;
    } catch (error) {
      if (this.running === running) $('growth-status').textContent = error.message;
    } finally {
      if (this.running === running) this.ended();
    }
  }
}

// Of each size the figure after the most steps, on the set of the paper's protocol where there is one.
function best(weights) {
  const found = new Map();
  for (const score of weights.scores) {
    const own = score.dataset === `${weights.puzzle}-${score.size}-test`;
    const before = found.get(score.size);
    if (!before || (own && !before.own) || (own === before.own && score.steps > before.steps)) found.set(score.size, { ...score, own });
  }
  return [...found.values()].sort((a, b) => a.size - b.size).map((s) => [s.size, s.board]);
}

function spread(all, most) {
  if (all.length <= most) return all;
  return Array.from({ length: most }, (_, i) => all[Math.round((i * (all.length - 1)) / (most - 1))]);
}

export function random() {
  return crypto.getRandomValues(new Uint32Array(1))[0] >>> 1;
}
