// @ts-check
// Charts are SVG with a sentence for those who cannot see them; pages put the figures in a table beside them.
import { html } from "./preact.js";
import { percent } from "./text.js";

/** The 90 % interval of a share after `good` of `all` (Wilson). @param {number} good @param {number} all */
export const wilson = (good, all) => {
  if (!all) return [0, 1];
  const z = 1.645;
  const share = good / all;
  const middle = share + (z * z) / (2 * all);
  const half = z * Math.sqrt((share * (1 - share)) / all + (z * z) / (4 * all * all));
  const scale = 1 + (z * z) / all;
  return [Math.max(0, (middle - half) / scale), Math.min(1, (middle + half) / scale)];
};

/** @param {number[]} range */
export const range = ([low, high]) => `${Math.round(low * 100)}–${percent(high)}`;

/** A share with its interval, from 0 to 100 %. */
export const Interval = ({ share, low, high, width = 72, label }) => {
  const x = (value) => 6 + value * (width - 12);
  return html`<svg width=${width} height="16" viewBox="0 0 ${width} 16" role="img" aria-label=${label}>
    <line class="s-track" x1="6" x2=${width - 6} y1="8" y2="8" />
    <line class="s-line" x1=${x(low)} x2=${x(high)} y1="8" y2="8" />
    <circle class="s-dot" cx=${x(share)} cy="8" r="5" />
  </svg>`;
};

const good = (result) => result === "success" || result === "followed" || result === true || result === 1;
const half = (result) => result === "partial" || result === 0.5;

/** Single results, oldest first: dots for good ones, triangles for bad ones, rings for partial ones. */
export const Results = ({ results, verb }) => html`<svg width=${results.length * 14 + 4} height="16" role="img"
  viewBox="0 0 ${results.length * 14 + 4} 16"
  aria-label="Last ${results.length} results, oldest first: ${results.map((one) =>
    (good(one) ? verb : half(one) ? "partly" : "not")).join(", ")}">
  ${results.map((one, at) =>
    good(one) ? html`<circle class="s-good" cx=${at * 14 + 8} cy="8" r="5" />`
    : half(one) ? html`<circle fill="none" stroke="currentColor" stroke-width="2" cx=${at * 14 + 8} cy="8" r="4" />`
    : html`<path class="s-bad" d="M${at * 14 + 8} 2 l6 11 h-12 z" />`,
  )}
</svg>`;

/** A value from 0 to 1 as a short bar. */
export const Meter = ({ value, label }) => html`<svg width="70" height="10" viewBox="0 0 70 10" role="img" aria-label=${label}>
  <line class="s-track" x1="2" x2="68" y1="5" y2="5" />
  <rect class="s-bar" x="0" y="1" width=${Math.max(0, Math.min(1, value)) * 70} height="8" rx="4" />
</svg>`;

/** Bars by day, with the limit as a line. */
export const Bars = ({ values, labels, limit = 0, label }) => {
  const most = Math.max(limit * 1.15, ...values, 1) * 1.1;
  const room = Math.min(620, document.documentElement.clientWidth - (matchMedia("(min-width: 46rem)").matches ? 300 : 60));
  const step = Math.max(6, Math.min(36, Math.floor(room / Math.max(values.length, 1))));
  const width = Math.max(values.length * step, 120);
  const y = (value) => 110 - (value / most) * 105;
  const every = Math.ceil(34 / step);
  return html`<svg width=${width} height="130" viewBox="0 0 ${width} 130" role="img" aria-label=${label}>
    <line class="s-axis" x1="0" x2=${width} y1="110" y2="110" />
    ${values.map((value, at) => html`<rect class=${limit && value >= limit ? "s-bad" : "s-bar"} x=${at * step + 2} width=${Math.max(3, step - 4)}
      y=${y(value)} height=${Math.max(value ? 1 : 0, 110 - y(value))}><title>${labels[at]}: ${value.toLocaleString("en")}</title></rect>`)}
    ${values.map((_, at) => at % every === 0 && html`<text x=${at * step + 2} y="124">${labels[at]}</text>`)}
    ${limit > 0 && html`<line class="s-limit" x1="0" x2=${width} y1=${y(limit)} y2=${y(limit)} />
      <text x="2" y=${y(limit) - 4}>limit ${limit.toLocaleString("en")}</text>`}
  </svg>`;
};
