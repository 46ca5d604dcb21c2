// Draws the figures of a page from the JSON beside each, and answers to pointer and keyboard.
// It needs no library and no network. Colours are those of the style sheet: --series-0, ...
"use strict";

const COLORS = 9; // --series-0 stands out, the others take turns
const MARKS = [
  "M4.5 0A4.5 4.5 0 1 1-4.5 0A4.5 4.5 0 1 1 4.5 0Z",
  "M-4-4H4V4H-4Z",
  "M0-5.5L5.5 0L0 5.5L-5.5 0Z",
  "M0-5L5 4H-5Z",
  "M0 5L5-4H-5Z",
  "M-1.7-5H1.7V-1.7H5V1.7H1.7V5H-1.7V1.7H-5V-1.7H-1.7Z",
  "M-5-3L-3-5L0-2L3-5L5-3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0Z",
  "M0-5.5L5.2-1.7L3.2 4.4H-3.2L-5.2-1.7Z",
];
const turn = (look, count) => (look === 0 ? 0 : 1 + ((look - 1) % (count - 1)));
const color = (look) => `var(--series-${turn(look, COLORS)})`;
const mark = (look) => MARKS[turn(look, MARKS.length)];

// --- scales ------------------------------------------------------------------------------------

function show(value, digits) {
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return value.toLocaleString("en-GB", options).replace("-", "−");
}

function linearTicks(low, high, count, whole = false) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const nice = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.7);
  const step = whole ? Math.max(1, nice) : nice; // there is no epoch 1.5
  const digits = Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) {
    ticks.push([i * step, show(i * step || 0, digits)]); // never −0
  }
  return ticks;
}

function logTicks(low, high, count) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const among = (factors, skip) => {
    const ticks = [];
    for (let power = first; power <= last; power += skip) {
      for (const factor of factors) {
        const value = factor * 10 ** power;
        if (value >= low && value <= high) ticks.push([value, show(value, Math.max(0, -power))]);
      }
    }
    return ticks;
  };
  const fine = among([1, 2, 5], 1);
  if (fine.length < 2) return linearTicks(low, high, count);
  const most = Math.max(3, count);
  return fine.length <= most ? fine : among([1], Math.ceil((last - first) / most));
}

// From values to pixels. `at` keeps inside the axis what lies beyond it, such as a long bar.
function scale(values, log, from, to, count) {
  const map = log ? Math.log10 : (value) => value;
  let [low, high] = [Math.min(...values), Math.max(...values)].map(map);
  if (!values.length) [low, high] = [0, 1];
  const pad = high > low ? 0.05 * (high - low) : log ? 0.3 : Math.abs(low) * 0.05 || 1;
  const stay = !log && low >= 0 && low < pad; // no room for negative counts and shares
  [low, high] = [stay ? Math.min(0, low) : low - pad, high + pad];
  const at = (value) => {
    const place = log && value <= 0 ? low : map(value);
    return from + (to - from) * Math.min(1, Math.max(0, (place - low) / (high - low)));
  };
  const whole = values.length > 0 && values.every(Number.isInteger) && high - low >= 1;
  const ticks = log ? logTicks(10 ** low, 10 ** high, count) : linearTicks(low, high, count, whole);
  return { at, ticks };
}

// --- one figure ----------------------------------------------------------------------------------

class Chart {
  constructor(figure) {
    this.data = JSON.parse(figure.querySelector("script").textContent);
    this.plot = figure.querySelector(".plot");
    this.svg = this.plot.querySelector("svg");
    this.hidden = new Set(); // indices of series, then of levels
    this.focused = null; // [series, point] of the point that tab leads to
    this.tip = this.plot.appendChild(document.createElement("div"));
    this.tip.className = "tip";
    this.tip.setAttribute("role", "tooltip");
    this.tip.hidden = true;
    this.addLegend(figure.querySelector(".legend"));
    figure.querySelector("details").open = false; // open where no script runs
    this.svg.addEventListener("pointermove", (event) => this.hover(event));
    this.svg.addEventListener("pointerdown", (event) => this.hover(event));
    this.svg.addEventListener("pointerleave", () => this.leave());
    // On the element around it, for an svg that listens to focus becomes a stop of the tab key.
    this.plot.addEventListener("focusin", (event) => this.select(event.target.point));
    this.plot.addEventListener("focusout", () => this.leave());
    this.svg.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => this.resize()).observe(this.plot);
  }

  node(tag, attributes, parent = this.svg) {
    const made = document.createElementNS(this.svg.namespaceURI, tag);
    for (const name in attributes) made.setAttribute(name, attributes[name]);
    return parent.appendChild(made);
  }

  addLegend(legend) {
    const { series, levels } = this.data;
    [...series, ...levels].forEach((one, index) => {
      const button = legend.appendChild(document.createElement("button"));
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      const swatch = this.node("svg", { width: 26, height: 12, viewBox: "-13 -6 26 12" }, button);
      swatch.setAttribute("aria-hidden", "true");
      const isLevel = index >= series.length;
      if (!isLevel) swatch.style.setProperty("--color", color(one.look));
      const line = isLevel ? "level" : one.dashed ? "line dashed" : "line";
      if (isLevel || one.joined) this.node("path", { d: "M-13 0H13", class: line }, swatch);
      const isMarked = !isLevel && (!one.joined || one.points.some((p) => p.marked));
      if (isMarked) this.node("path", { d: mark(one.look), class: "mark" }, swatch);
      button.append(isLevel ? `${one.name} (${one.text})` : one.name);
      button.addEventListener("click", () => {
        const isHidden = this.hidden.has(index);
        this.hidden[isHidden ? "delete" : "add"](index);
        button.setAttribute("aria-pressed", String(isHidden));
        this.draw();
      });
    });
  }

  resize() {
    if (this.plot.clientWidth !== this.width) this.draw();
  }

  // Series and levels that are not hidden, without points that the axes cannot show.
  visible() {
    const { series, levels, x, y } = this.data;
    const fits = (point) =>
      point.y !== null && !(x.log && point.x <= 0) && !(y.log && point.y <= 0);
    return {
      series: series.flatMap((one, index) =>
        this.hidden.has(index) ? [] : [{ ...one, index, points: one.points.filter(fits) }]),
      levels: levels.filter((level, index) =>
        !this.hidden.has(series.length + index) && !(y.log && level.y <= 0)),
    };
  }

  draw() {
    const focus = this.svg.contains(document.activeElement);
    this.width = this.plot.clientWidth;
    const names = Math.max(0, ...this.data.x.names.map((name) => name.length)); // may stand upright
    const height = Math.round(Math.max(270 + 3 * names, Math.min(400, 0.62 * this.width)));
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
    this.svg.style.height = `${height}px`;
    this.svg.replaceChildren();
    this.tip.hidden = true;
    const { series, levels } = this.visible();
    this.axes(series.flatMap((one) => one.points), levels, height);
    for (const level of levels) {
      const y = this.y.at(level.y);
      this.node("path", { d: `M${this.left} ${y}H${this.right}`, class: "level" });
    }
    this.points = [];
    const order = [...series].sort((a, b) => (a.look === 0) - (b.look === 0)); // ours on top
    for (const one of order) this.drawSpread(one);
    for (const one of order) this.drawSeries(one);
    this.points.sort((a, b) => a.series - b.series || a.index - b.index);
    this.ring = this.node("circle", { r: 9, class: "ring", visibility: "hidden" });
    const same = ([s, i]) => this.points.find((p) => p.series === s && p.index === i);
    const target = (this.focused && same(this.focused)) || this.points[0];
    if (target) target.mark.setAttribute("tabindex", "0");
    if (target && focus) target.mark.focus();
  }

  axes(points, levels, height) {
    const { x, y } = this.data;
    const { names } = x;
    const longestName = Math.max(0, ...names.map((name) => name.length));
    const slot = (this.width - 80) / Math.max(1, names.length);
    const upright = longestName * 7 > slot; // side by side they would touch
    const [top, bottom] = [30, height - (upright ? 34 + 6.6 * longestName : 46)];
    const ys = points.flatMap((p) => [p.y, p.y - (p.std || 0), p.y + (p.std || 0)]);
    const values = [...ys.filter((v) => !y.log || v > 0), ...levels.map((level) => level.y)];
    this.y = scale(values, y.log, bottom, top, (bottom - top) / 45);
    const longest = Math.max(1, ...this.y.ticks.map(([, text]) => text.length));
    [this.left, this.right] = [18 + 7 * longest, this.width - 14];
    const across = (this.right - this.left) / 65;
    const xs = names.length ? [-0.2, names.length - 0.8] : points.map((p) => p.x);
    this.x = scale(xs, x.log, this.left, this.right, across);
    const every = Math.ceil(14 / slot);
    if (names.length) this.x.ticks = names.map((n, i) => [i, n]).filter((_, i) => i % every === 0);
    for (const [value, text] of this.y.ticks) {
      const at = this.y.at(value);
      this.node("path", { d: `M${this.left} ${at}H${this.right}`, class: "grid" });
      this.write(text, this.left - 8, at + 4, "end");
    }
    for (const [value, text] of this.x.ticks) {
      const at = this.x.at(value);
      this.node("path", { d: `M${at} ${bottom}v5`, class: "axis" });
      if (!upright) this.write(text, at, bottom + 19, "middle");
      else this.write(text, at + 4, bottom + 9, "end", "tick", `rotate(-90 ${at + 4} ${bottom + 9})`);
    }
    this.node("path", { d: `M${this.left} ${top}V${bottom}H${this.right}`, class: "axis" });
    this.write(y.label, 2, 14, "start", "label");
    this.write(x.label, (this.left + this.right) / 2, height - 6, "middle", "label");
  }

  write(text, x, y, anchor, kind = "tick", transform = "") {
    const made = this.node("text", { x, y, "text-anchor": anchor, class: kind, transform });
    made.textContent = text;
  }

  // One standard deviation to both sides: a band along lines, bars in a scatter plot.
  drawSpread({ points, look }) {
    if (!points.some((p) => p.std)) return;
    const ends = points.map((p) => {
      const std = p.std || 0;
      return [this.x.at(p.x), this.y.at(p.y - std), this.y.at(p.y + std)];
    });
    const isBand = this.data.kind === "lines";
    const d = isBand
      ? `M${ends.map(([x, low]) => `${x} ${low}`).join("L")}L${
        ends.reverse().map(([x, , high]) => `${x} ${high}`).join("L")}Z`
      : ends.map(([x, low, high]) => `M${x - 3} ${low}h6m-3 0V${high}m-3 0h6`).join("");
    this.node("path", { d, class: isBand ? "band" : "bars", style: `--color:${color(look)}` });
  }

  drawSeries({ name, index, look, dashed, joined, points }) {
    const kind = `series${look === 0 ? " ours" : ""}`;
    const group = this.node("g", { class: kind, style: `--color:${color(look)}` });
    const places = points.map((p) => [this.x.at(p.x), this.y.at(p.y)]);
    if (joined && points.length > 1) {
      const d = places.map(([x, y], i) => {
        const isGap = i === 0 || points[i].index !== points[i - 1].index + 1;
        return `${isGap ? "M" : "L"}${x} ${y}`;
      });
      this.node("path", { d: d.join(""), class: dashed ? "line dashed" : "line" }, group);
    }
    points.forEach((point, i) => {
      const [x, y] = places[i];
      const made = this.node("path", { d: mark(look), class: point.marked ? "mark" : "mark faint" }, group);
      made.setAttribute("transform", `translate(${x} ${y})`);
      made.setAttribute("tabindex", "-1");
      made.setAttribute("role", "img");
      const about = [name, ...this.facts(point).map(([key, text]) => `${key} ${text}`.trim())];
      made.setAttribute("aria-label", about.join(", "));
      made.point = { ...point, name, series: index, at: [x, y], mark: made, look };
      this.points.push(made.point);
    });
  }

  facts(point) {
    const numbers = [[this.data.x.label, point.xText], [this.data.y.label, point.yText]];
    return point.label ? [["", point.label], ...numbers] : numbers;
  }

  // --- pointer and keyboard ----------------------------------------------------------------------

  hover(event) {
    const box = this.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    this.select(nearest(this.points, (p) => Math.hypot(p.at[0] - x, p.at[1] - y)));
  }

  leave() {
    const active = document.activeElement;
    this.select(this.svg.contains(active) && active.matches(":focus-visible") ? active.point : null);
  }

  // Ring and tooltip at a point, or nowhere.
  select(point) {
    this.tip.hidden = !point;
    if (this.ring) this.ring.setAttribute("visibility", point ? "visible" : "hidden");
    if (!point) return;
    const [x, y] = point.at;
    this.ring.setAttribute("cx", x);
    this.ring.setAttribute("cy", y);
    this.ring.style.setProperty("--color", color(point.look));
    this.tip.style.setProperty("--color", color(point.look));
    const lines = [["", point.name], ...this.facts(point)].map(([key, text], row) => {
      const line = document.createElement(row ? "div" : "strong");
      const [left, right] = [document.createElement("span"), document.createElement("span")];
      [left.textContent, right.textContent] = [key, text];
      line.append(...(key ? [left, right] : [right]));
      return line;
    });
    this.tip.replaceChildren(...lines);
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const side = x + 16 + width <= this.width ? x + 16 : x - 16 - width;
    this.tip.style.left = `${Math.max(0, Math.min(side, this.width - width))}px`;
    this.tip.style.top = `${y - height - 12 >= 0 ? y - height - 12 : y + 16}px`;
  }

  // Left and right go along a series, up and down to the one above or below.
  press(event) {
    const from = event.target.point;
    if (event.key === "Escape") this.select(null);
    const to = from && this.neighbour(from, event.key);
    if (!to) return;
    event.preventDefault();
    for (const point of this.points) point.mark.setAttribute("tabindex", point === to ? "0" : "-1");
    this.focused = [to.series, to.index];
    to.mark.focus();
  }

  neighbour(from, key) {
    const own = this.points.filter((point) => point.series === from.series);
    const place = own.indexOf(from);
    const along = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: own.length - 1 };
    if (key in along) return own[along[key]];
    if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
    const series = [...new Set(this.points.map((point) => point.series))];
    const column = series.map((one) => one === from.series ? from : nearest(
      this.points.filter((point) => point.series === one), (p) => Math.abs(p.at[0] - from.at[0])));
    column.sort((a, b) => a.at[1] - b.at[1]);
    return column[column.indexOf(from) + (key === "ArrowUp" ? -1 : 1)];
  }
}

function nearest(points, distance) {
  return points.reduce((best, p) => (!best || distance(p) < distance(best) ? p : best), undefined);
}

for (const figure of document.querySelectorAll("figure.chart")) new Chart(figure);
