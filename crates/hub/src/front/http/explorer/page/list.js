// A list of any length, of which only the rows in sight are elements.

import { h } from "./dom.js";

const ROW = 26;
// Browsers cut off what is much higher; a longer list scrolls in proportion.
const HIGHEST = 8_000_000;
const BEYOND = 6;

let lists = 0;

export class List {
  #sizer = h("div", { class: "sizer" });
  #rows = [];
  #count = 0;
  #fill;
  #make;
  #choose;
  #seen;
  #scheduled = false;
  #id = `list${(lists += 1)}`;
  selected = -1;
  // Whether the end stays in sight when rows are added.
  follows = false;

  // `make` gives an empty row, `fill(row, index)` puts the content in. `choose(index)` is called when a row is opened,
  // `seen(first, last)` with what is in sight.
  constructor({ label, make, fill, choose, seen }) {
    this.#make = make;
    this.#fill = fill;
    this.#choose = choose;
    this.#seen = seen;
    this.element = h("div", { class: "list", role: "listbox", tabindex: "0", "aria-label": label }, this.#sizer);
    this.element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.#press(event));
    // The row that was pressed is opened, even if others have moved under the pointer since.
    let pressed = null;
    const rowOf = (event) => event.target.closest(".row")?.dataset.index;
    this.element.addEventListener("pointerdown", (event) => (pressed = rowOf(event)));
    this.element.addEventListener("click", (event) => {
      const index = pressed ?? rowOf(event);
      pressed = null;
      if (index !== undefined) this.open(Number(index));
    });
    new ResizeObserver(() => this.refresh()).observe(this.element);
  }

  get count() {
    return this.#count;
  }

  // There are so many rows now, and any of them may be another.
  set count(count) {
    this.#count = count;
    if (this.selected >= count) this.selected = -1;
    this.refresh();
  }

  // Shows the rows anew, once before the next frame.
  refresh() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#show();
    });
  }

  move(step) {
    if (this.#count === 0) return;
    const from = this.selected < 0 ? (step > 0 ? -1 : this.#count) : this.selected;
    this.select(Math.min(this.#count - 1, Math.max(0, from + step)));
  }

  select(index) {
    this.selected = index;
    if (index < this.#count - 1) this.follows = false;
    this.#reveal(index);
    this.refresh();
  }

  open(index = this.selected) {
    if (index < 0 || index >= this.#count) return;
    this.select(index);
    this.#choose(index);
  }

  toEnd() {
    this.follows = true;
    this.refresh();
  }

  get #height() {
    return this.element.clientHeight;
  }

  // The place of the first row in sight, with its fraction.
  get #first() {
    const whole = this.#count * ROW;
    if (whole <= HIGHEST) return this.element.scrollTop / ROW;
    const most = HIGHEST - this.#height;
    return most > 0 ? ((this.element.scrollTop / most) * (whole - this.#height)) / ROW : 0;
  }

  #reveal(index) {
    const whole = this.#count * ROW;
    const first = this.#first;
    const fit = this.#height / ROW;
    let wanted = first;
    if (index < first) wanted = index;
    else if (index + 1 > first + fit) wanted = index + 1 - fit;
    if (wanted === first) return;
    const scale = whole <= HIGHEST ? 1 : (HIGHEST - this.#height) / (whole - this.#height);
    this.element.scrollTop = wanted * ROW * scale;
  }

  #show() {
    const height = this.#height;
    const whole = Math.min(HIGHEST, this.#count * ROW);
    this.#sizer.style.height = `${whole}px`;
    if (this.follows) this.element.scrollTop = whole;
    const exact = this.#first;
    const first = Math.max(0, Math.floor(exact) - BEYOND);
    const last = Math.min(this.#count, Math.ceil(exact + height / ROW) + BEYOND);
    this.#seen?.(first, last);
    while (this.#rows.length < last - first) {
      const row = this.#make();
      row.classList.add("row");
      row.setAttribute("role", "option");
      this.#rows.push(row);
      this.#sizer.append(row);
    }
    const top = this.element.scrollTop;
    this.#rows.forEach((row, place) => {
      const index = first + place;
      row.hidden = index >= last;
      if (row.hidden) return;
      row.style.transform = `translateY(${top + (index - exact) * ROW}px)`;
      row.dataset.index = index;
      row.id = `${this.#id}-${index}`;
      row.setAttribute("aria-posinset", index + 1);
      row.setAttribute("aria-setsize", this.#count);
      row.setAttribute("aria-selected", String(index === this.selected));
      this.#fill(row, index);
    });
    if (this.selected >= 0) this.element.setAttribute("aria-activedescendant", `${this.#id}-${this.selected}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  #scrolled() {
    const end = this.element.scrollHeight - this.element.clientHeight - this.element.scrollTop < ROW;
    if (this.follows && !end && this.element.scrollHeight === this.#sizer.offsetHeight) this.follows = false;
    this.refresh();
  }

  #press(event) {
    const page = Math.max(1, Math.floor(this.#height / ROW) - 1);
    const move = { PageDown: page, PageUp: -page, Home: -this.#count, End: this.#count }[event.key];
    if (!move) return;
    event.preventDefault();
    this.move(move);
    if (event.key === "End" && this.selected === this.#count - 1) this.follows = true;
  }
}

// A row with a cell for each class.
export const cells = (...names) => () => h("div", null, names.map((name) => h("span", { class: name })));
