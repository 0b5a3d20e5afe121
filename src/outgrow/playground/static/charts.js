// Line charts as SVG: few enough points that no library is needed.

const NS = 'http://www.w3.org/2000/svg';

export function element(name, attributes = {}, text = '') {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

// series: [{name, color, dash, points: [[x, y], ...], dots, right, spread: [[x, low, high]]}]; y from 0 to top, those at the right to their own.
export function chart({ label, series, width = 340, height = 170, x, top = 1, percent = true, rightTop, cursor, marks = [], ticks }) {
  const box = { left: 34, right: rightTop ? 30 : 10, top: 8, bottom: 20 };
  const [low, high] = x;
  const inner = { w: width - box.left - box.right, h: height - box.top - box.bottom };
  const px = (v) => box.left + (high === low ? 0.5 : (v - low) / (high - low)) * inner.w;
  const py = (v, most = top) => box.top + (1 - Math.min(v, most) / (most || 1)) * inner.h;
  const svg = element('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label });
  for (const share of [0, 0.5, 1]) {
    const y = py(share * top);
    svg.append(element('path', { class: 'axis', d: `M${box.left} ${y}H${width - box.right}` }));
    svg.append(element('text', { x: box.left - 5, y: y + 4, 'text-anchor': 'end' }, percent ? `${Math.round(100 * share * top)}%` : `${share * top}`));
    if (rightTop) svg.append(element('text', { x: width - box.right + 4, y: y + 4 }, String(Math.round(share * rightTop))));
  }
  for (const at of ticks ?? round(low, high)) svg.append(element('text', { x: px(at), y: height - 5, 'text-anchor': 'middle' }, String(at)));
  for (const { at, name, color } of marks) {
    const mark = element('path', { class: 'mark', d: `M${px(at)} ${box.top}V${box.top + inner.h}` });
    if (color) mark.style.stroke = color;
    mark.append(element('title', {}, name));
    svg.append(mark);
  }
  for (const one of series) {
    const most = one.right ? rightTop : top;
    for (const [at, least, greatest] of one.spread ?? []) {
      const bar = element('path', { d: `M${px(at)} ${py(least, most)}V${py(greatest, most)}`, 'stroke-width': 3, opacity: 0.3, fill: 'none' });
      bar.style.stroke = one.color;
      svg.append(bar);
    }
    const path = element('path', {
      d: one.points.map(([a, b], i) => `${i ? 'L' : 'M'}${px(a).toFixed(1)} ${py(b, most).toFixed(1)}`).join('') + (one.points.length === 1 ? 'h3' : ''),
      fill: 'none',
      'stroke-width': 2,
      'stroke-dasharray': one.dash ?? '',
    });
    path.style.stroke = one.color;
    svg.append(path);
    if (one.dots)
      for (const [a, b] of one.points) {
        const dot = element('circle', { cx: px(a), cy: py(b, most), r: 3 });
        dot.style.fill = one.color;
        dot.append(element('title', {}, `${one.name}, ${a}: ${percent ? `${(100 * b).toFixed(1)}%` : b}`));
        svg.append(dot);
      }
  }
  if (cursor !== undefined) svg.append(element('path', { class: 'cursor', d: `M${px(cursor)} ${box.top}V${box.top + inner.h}` }));
  return svg;
}

export function key(series) {
  const list = document.createElement('ul');
  list.className = 'key';
  for (const { name, color, dash } of series) {
    const item = document.createElement('li');
    const sample = element('svg', { viewBox: '0 0 22 10', 'aria-hidden': 'true' });
    const stroke = element('path', { d: 'M1 5H21', 'stroke-width': 2.5, 'stroke-dasharray': dash ?? '', fill: 'none' });
    stroke.style.stroke = color;
    sample.append(stroke);
    item.append(sample, name);
    list.append(item);
  }
  return list;
}

// The first number, and round ones after it.
function round(low, high) {
  const size = 10 ** Math.floor(Math.log10(Math.max(1, (high - low) / 6)));
  const step = size * [1, 2, 5, 10].find((n) => 6 * n * size >= high - low);
  const found = [low];
  for (let at = step; at <= high; at += step) if (at - low >= step / 2) found.push(at);
  return found;
}

// As many points of a long line as can be told apart, the last one among them.
export function thin(points, most = 400) {
  if (points.length <= most) return points;
  const every = Math.ceil(points.length / most);
  return points.filter((_, i) => i % every === 0 || i === points.length - 1);
}
