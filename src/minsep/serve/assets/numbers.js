/* Numbers as they are shown, and the scales of the sliders. */
export function digits(value, places = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e15)) return shortPower(value.toExponential(Math.min(places - 1, 2)));
  return Number(value.toPrecision(places)).toLocaleString("en-US", { maximumSignificantDigits: places });
}

const shortPower = (text) => text.replace(/\.?0+e/, "e").replace("e+", "e");

export const whole = (value) => Number(value).toLocaleString("en-US");

export function bytes(value) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let place = 0;
  while (value >= 1024 && place < units.length - 1) { value /= 1024; place += 1; }
  return `${Number(value.toPrecision(3))} ${units[place]}`;
}

export function duration(seconds) {
  if (seconds < 1) return "less than a second";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = seconds / 60;
  return minutes < 90 ? `${Math.round(minutes)} min` : `${(minutes / 60).toFixed(1)} h`;
}

export const percent = (share) => `${digits(100 * share, share > 0.995 && share < 1 ? 4 : 3)} %`;

/** A number as people type it; NaN if it is none. */
export const parsed = (text) => (text.trim() === "" ? NaN : Number(text.replace(/(?<=\d),(?=\d{3})/g, "")));

export const STEPS = 400;

/** Where a value is on a slider, from 0 to STEPS. */
export function position(value, slider) {
  const { least, most } = slider;
  const share = slider.linear
    ? (value - least) / (most - least)
    : Math.log(value / least) / Math.log(most / least);
  return Math.round(STEPS * Math.min(1, Math.max(0, share)));
}

/** The value at a place of a slider, rounded to what one would type. */
export function valueAt(place, slider) {
  const { least, most } = slider;
  const share = place / STEPS;
  if (slider.linear) return Number((least + share * (most - least)).toFixed(2));
  const exact = least * (most / least) ** share;
  if (slider.powers) return 2 ** Math.round(Math.log2(exact));
  const rounded = Number(exact.toPrecision(slider.digits ?? 2));
  return slider.whole ? Math.max(1, Math.round(rounded)) : rounded;
}

/** A value as it stands in a field. */
export function typed(value) {
  if (Math.abs(value) < 1e-3 && value !== 0) return shortPower(value.toExponential());
  return String(value);
}
