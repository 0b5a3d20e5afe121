// A puzzle on the screen: a canvas for what is seen, and a button over each variable for keyboard, touch and screen readers.
// It draws any puzzle from its layout and knows none by name.

const LEAST = 24; // CSS pixels of a cell: smaller ones cannot be touched, so a board may be wider than the screen and scroll
const SURE = 217; // of 255: from here on a value stands alone

export function colorOf(value, count) {
  const index = value - 1;
  return `hsl(${Math.round((360 * index) / count)} 65% ${index % 2 ? 68 : 80}%)`;
}

export class Board {
  // `choose(variable)` and `key(event, variable)` are told what people do; without them the board is a picture.
  constructor(place, { label, choose, key } = {}) {
    this.choose = choose;
    this.key = key;
    this.label = label;
    this.frame = document.createElement('div');
    this.frame.className = 'board';
    this.sheet = document.createElement('div');
    this.sheet.className = 'sheet';
    this.canvas = document.createElement('canvas');
    this.canvas.setAttribute('aria-hidden', 'true');
    this.sheet.append(this.canvas);
    this.frame.append(this.sheet);
    place.append(this.frame);
    this.buttons = [];
    this.view = {};
    this.chosen = null;
    this.pending = false;
    this.edges = null; // {key, canvas}: a graph's edges, drawn once
    this.watching = new ResizeObserver(() => this.redraw());
    this.watching.observe(this.sheet);
  }

  remove() {
    this.watching.disconnect();
    this.frame.remove();
  }

  setPuzzle(puzzle) {
    this.puzzle = puzzle;
    this.view = {};
    const layout = puzzle.layout;
    this.edges = null;
    const least = choosable(this) && apart(layout) ? (LEAST * layout.width) / layout.side : 0;
    this.sheet.style.setProperty('--least', `${Math.ceil(least)}px`);
    this.sheet.style.aspectRatio = `${layout.width} / ${layout.height}`;
    this.sheet.classList.toggle('disc', layout.shape === 'disc');
    for (const button of this.buttons) button.remove();
    this.buttons = [];
    if (choosable(this)) {
      this.sheet.setAttribute('role', 'group');
      this.sheet.setAttribute('aria-label', this.label());
      const part = document.createDocumentFragment();
      layout.places.forEach(([x, y], i) => {
        const button = document.createElement('button');
        button.type = 'button';
        button.tabIndex = i === 0 ? 0 : -1;
        button.dataset.variable = i;
        button.style.left = `${(100 * x) / layout.width}%`;
        button.style.top = `${(100 * y) / layout.height}%`;
        button.style.width = `${(100 * layout.side) / layout.width}%`;
        button.style.height = `${(100 * layout.side) / layout.height}%`;
        button.addEventListener('click', () => this.choose(i, true));
        button.addEventListener('focus', () => this.reach(i));
        button.addEventListener('keydown', (event) => this.press(event, i));
        this.buttons.push(button);
        part.append(button);
      });
      this.sheet.append(part);
    }
    this.chosen = null;
    this.redraw();
  }

  // What is to be seen: {values, beliefs, broken, pairs, arrows, guess, strong}; strong where it is solved. Labels for screen readers follow where they are asked for.
  show(view, labels = true) {
    this.view = view;
    if (labels) this.name();
    this.redraw();
  }

  pick(variable, focus = false) {
    if (this.chosen !== null) this.buttons[this.chosen]?.setAttribute('aria-pressed', 'false');
    this.chosen = variable;
    const button = this.buttons[variable];
    if (button) {
      button.setAttribute('aria-pressed', 'true');
      this.reach(variable);
      if (focus) button.focus();
    }
    this.redraw();
  }

  reach(variable) {
    for (const button of this.buttons) if (button.tabIndex === 0) button.tabIndex = -1;
    this.buttons[variable].tabIndex = 0;
  }

  press(event, variable) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const way = ways[event.key];
    if (way && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const next = this.towards(variable, way);
      if (next !== null) this.choose(next, true);
      event.preventDefault();
      return;
    }
    this.key(event, variable);
  }

  // The nearest variable in that direction: on a grid the neighbor, in a graph the one that lies most that way.
  towards(variable, [dx, dy]) {
    const { places } = this.puzzle.layout;
    const [x, y] = places[variable];
    let best = null;
    let least = Infinity;
    places.forEach(([px, py], i) => {
      const along = (px - x) * dx + (py - y) * dy;
      const beside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
      if (i !== variable && along > 0.5 && along + 2 * beside < least && beside <= 2 * along) {
        least = along + 2 * beside;
        best = i;
      }
    });
    return best;
  }

  name() {
    const { puzzle, view } = this;
    this.buttons.forEach((button, i) => {
      const words = [puzzle.names[i]];
      const value = view.values?.[i];
      if (puzzle.givens[i]) words.push(`given ${this.write(puzzle.givens[i])}`);
      else if (view.beliefs && value) {
        const share = Math.round((100 * view.beliefs[i * puzzle.size + value - 1]) / 255);
        words.push(`${this.write(value)}, ${share}%`);
      } else words.push(value ? this.write(value) : 'empty');
      if (view.broken?.has(i)) words.push('breaks a rule');
      const text = words.join(': ').replace(/: breaks/, ', breaks');
      if (button.getAttribute('aria-label') !== text) button.setAttribute('aria-label', text);
    });
  }

  write(value) {
    return this.puzzle.layout.symbols[value - 1];
  }

  redraw() {
    if (this.pending || !this.puzzle) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.paint();
    });
  }

  paint() {
    const { layout } = this.puzzle;
    const width = this.sheet.clientWidth;
    if (!width) return;
    const ratio = window.devicePixelRatio || 1;
    const scale = (width * ratio) / layout.width;
    const [w, h] = [Math.round(layout.width * scale), Math.round(layout.height * scale)];
    if (this.canvas.width !== w || this.canvas.height !== h) [this.canvas.width, this.canvas.height] = [w, h];
    const pen = this.canvas.getContext('2d');
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, w, h);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.lineCap = 'round';
    pen.textAlign = 'center';
    pen.textBaseline = 'alphabetic';
    const ink = inks();
    this.paintBehind(pen, ink);
    layout.places.forEach((at, i) => {
      if (layout.colored) this.paintDisc(pen, ink, at, i);
      else this.paintCell(pen, ink, at, i, scale / ratio);
    });
    if (this.view.arrows?.length) this.paintArrows(pen, ink);
  }

  // Thousands of lines take longer than all else, and stay as they are.
  paintEdges(pen, ink) {
    const { layout } = this.puzzle;
    if (!layout.links.length) return;
    const { width, height } = this.canvas;
    const key = `${width} ${height} ${ink.grid}`;
    if (this.edges?.key !== key) {
      this.edges = { key, canvas: Object.assign(document.createElement('canvas'), { width, height }) };
      const own = this.edges.canvas.getContext('2d');
      own.setTransform(pen.getTransform());
      own.globalAlpha = 0.45;
      for (const [x, y] of layout.links) line(own, ink.grid, 0.8, ...layout.places[x], ...layout.places[y]);
    }
    pen.drawImage(this.edges.canvas, 0, 0, layout.width, layout.height);
  }

  paintBehind(pen, ink) {
    const { layout } = this.puzzle;
    const { view } = this;
    if (!layout.colored) {
      for (const i of view.broken ?? []) this.tint(pen, ink.softBad, i);
      if (view.guess !== null && view.guess !== undefined) this.tint(pen, ink.softGuess, view.guess);
    }
    for (const [x1, y1, x2, y2, width] of layout.lines) line(pen, ink.grid, width, x1, y1, x2, y2);
    this.paintEdges(pen, ink);
    if (layout.links.length) for (const [x, y] of view.pairs ?? []) line(pen, ink.bad, 2.5, ...layout.places[x], ...layout.places[y]);
    if (layout.shape === 'box') {
      pen.strokeStyle = ink.grid;
      pen.lineWidth = 1.5;
      for (const [x, y] of layout.places) pen.strokeRect(x - layout.side / 2, y - layout.side / 2, layout.side, layout.side);
    }
  }

  // The probabilities of a variable's values, where they are to be seen: not where it is given, nor once all are settled.
  rowOf(i) {
    const { puzzle, view } = this;
    return view.beliefs && !view.strong && !puzzle.givens[i] ? view.beliefs.subarray(i * puzzle.size, (i + 1) * puzzle.size) : null;
  }

  tint(pen, color, i) {
    const { places, side } = this.puzzle.layout;
    pen.fillStyle = color;
    pen.fillRect(places[i][0] - side / 2, places[i][1] - side / 2, side, side);
  }

  paintCell(pen, ink, [x, y], i, scale) {
    const { puzzle, view } = this;
    const { side, symbols } = puzzle.layout;
    const given = puzzle.givens[i];
    const value = given || view.values?.[i] || 0;
    const color = view.broken?.has(i) ? ink.bad : given ? ink.given : i === view.guess ? ink.guess : view.strong ? ink.accent : ink.found;
    const row = this.rowOf(i);
    if (!row || (value && row[value - 1] >= SURE)) {
      if (value) {
        pen.globalAlpha = row ? row[value - 1] / 255 : 1;
        write(pen, color, symbols[value - 1], x, y, (symbols[value - 1].length > 1 ? 0.42 : 0.54) * side, given);
        pen.globalAlpha = 1;
      }
      return;
    }
    // All candidates, each as strongly as the network believes in it.
    const columns = Math.ceil(Math.sqrt(puzzle.size));
    const each = (0.92 * side) / columns;
    const rows = Math.ceil(puzzle.size / columns);
    const readable = each * scale >= 7.5;
    for (let v = 0; v < puzzle.size; v++) {
      if (row[v] < 6) continue;
      const cx = x + ((v % columns) - (columns - 1) / 2) * each;
      const cy = y + (Math.floor(v / columns) - (rows - 1) / 2) * each;
      pen.globalAlpha = 0.12 + 0.88 * Math.sqrt(row[v] / 255);
      const tone = v + 1 === value ? color : ink.muted;
      if (readable) write(pen, tone, symbols[v], cx, cy, (symbols[v].length > 1 ? 0.62 : 0.86) * each, v + 1 === value);
      else {
        pen.fillStyle = tone;
        pen.beginPath();
        pen.arc(cx, cy, 0.36 * each * Math.sqrt(0.25 + row[v] / 255), 0, 2 * Math.PI);
        pen.fill();
      }
    }
    pen.globalAlpha = 1;
  }

  paintDisc(pen, ink, [x, y], i) {
    const { puzzle, view } = this;
    const radius = puzzle.layout.side / 2;
    const given = puzzle.givens[i];
    const value = given || view.values?.[i] || 0;
    const row = this.rowOf(i);
    pen.fillStyle = ink.card;
    circle(pen, x, y, radius);
    if (row) {
      let total = 0;
      for (const share of row) total += share;
      let angle = -Math.PI / 2;
      row.forEach((share, v) => {
        if (share < 3) return;
        const next = angle + (2 * Math.PI * share) / total;
        pen.fillStyle = colorOf(v + 1, puzzle.size);
        pen.beginPath();
        pen.moveTo(x, y);
        pen.arc(x, y, radius, angle, next);
        pen.fill();
        angle = next;
      });
    } else if (value) {
      pen.fillStyle = colorOf(value, puzzle.size);
      circle(pen, x, y, radius);
    }
    const wrong = view.broken?.has(i);
    pen.strokeStyle = wrong ? ink.bad : i === view.guess ? ink.guess : ink.rim;
    pen.lineWidth = wrong || given || i === view.guess ? 2.6 : 1;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.stroke();
    write(pen, value || row ? '#1a1a1a' : ink.given, String(i + 1), x, y, 0.42 * puzzle.layout.side, Boolean(given));
  }

  paintArrows(pen, ink) {
    const { places, side, width, height } = this.puzzle.layout;
    const strongest = Math.max(...this.view.arrows.map((a) => a.weight));
    for (const { from, to, weight } of this.view.arrows) {
      const [[x1, y1], [x2, y2]] = [places[from], places[to]];
      const share = weight / strongest;
      // A slight bow keeps lines along a row apart; it goes to the middle, where there is room.
      const [mx, my, nx, ny] = [(x1 + x2) / 2, (y1 + y2) / 2, 0.12 * (y1 - y2), 0.12 * (x2 - x1)];
      const way = nx * (width / 2 - mx) + ny * (height / 2 - my) < 0 ? -1 : 1;
      pen.globalAlpha = 0.15 + 0.75 * share;
      pen.strokeStyle = ink.listen;
      pen.lineWidth = 0.6 + 3.4 * share;
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.quadraticCurveTo(mx + way * nx, my + way * ny, x2, y2);
      pen.stroke();
      pen.fillStyle = ink.listen;
      circle(pen, x1, y1, 1.2 + 2.2 * share);
    }
    pen.globalAlpha = 1;
    const to = this.view.arrows[0].to;
    pen.strokeStyle = ink.listen;
    pen.lineWidth = 2.2;
    pen.beginPath();
    pen.arc(...places[to], 0.46 * side, 0, 2 * Math.PI);
    pen.stroke();
  }
}

function choosable(board) {
  return Boolean(board.choose);
}

// Whether its places can be told apart: where they overlap nobody can choose one by touch, so the whole is shown instead.
function apart({ places, side }) {
  return places.every(([x, y], i) => !i || Math.hypot(x - places[i - 1][0], y - places[i - 1][1]) > side / 2);
}

function line(pen, color, width, x1, y1, x2, y2) {
  pen.strokeStyle = color;
  pen.lineWidth = width;
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

function circle(pen, x, y, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
}

function write(pen, color, text, x, y, size, bold) {
  pen.fillStyle = color;
  pen.font = `${bold ? '700 ' : ''}${size}px system-ui, sans-serif`;
  pen.fillText(text, x, y + 0.355 * size);
}

let known = null;

// The colors of the page's theme.
function inks() {
  if (known) return known;
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  known = {
    grid: get('grid'), given: get('given'), found: get('found'), bad: get('bad'), guess: get('guess'), muted: get('muted'),
    card: get('card'), accent: get('accent'), softBad: get('soft-bad'), softGuess: `${get('guess')}33`, listen: get('listen'), rim: get('grid'),
  };
  return known;
}

export function forgetInks() {
  known = null;
}
