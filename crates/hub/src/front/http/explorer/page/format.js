// Numbers, sizes and times, as a person reads them.

const WHOLE = new Intl.NumberFormat("en");

export const count = (number) => WHOLE.format(number);

// Three digits or so: 999, 1.2 k, 34 M.
export function short(number) {
  if (number < 1000) return number < 10 && number % 1 ? number.toFixed(1) : String(Math.round(number));
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (number >= size) return `${(number / size).toFixed(number / size < 10 ? 1 : 0)} ${unit}`;
  }
  return String(number);
}

export function bytes(number) {
  if (number < 1024) return `${Math.round(number)} B`;
  let value = number;
  for (const unit of ["KiB", "MiB", "GiB", "TiB"]) {
    value /= 1024;
    if (value < 1024) return `${value.toFixed(value < 10 ? 1 : 0)} ${unit}`;
  }
  return `${count(Math.round(value))} TiB`;
}

let ahead = 0;

// The service's time, by which locks end: tests may have advanced it.
export const serviceTime = () => Date.now() + ahead;

export function setServiceTime(ms) {
  ahead = ms - Date.now();
}

const two = (number) => String(number).padStart(2, "0");

// The time of day with milliseconds, for rows.
export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

export function instant(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}

// How long something lasts: 250 ms, 30 s, 5 min, 2 h, 7 d.
export function duration(ms) {
  for (const [unit, size] of [["d", 864e5], ["h", 36e5], ["min", 6e4], ["s", 1e3]]) {
    if (ms >= size) return `${Math.round((ms / size) * 10) / 10} ${unit}`;
  }
  return `${ms} ms`;
}

export const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : (many ?? `${one}s`)}`;
