/** The conversation as a list of bubbles, one per item. */
export class Transcript {
  #list;
  #rows = new Map(); // item id to { element, words }

  constructor(list) {
    this.#list = list;
  }

  clear() {
    this.#list.replaceChildren();
    this.#rows.clear();
  }

  get empty() {
    return this.#rows.size === 0;
  }

  /** Begin the bubble of an item; nothing happens when it is there. */
  open(itemId, role) {
    if (this.#rows.has(itemId)) return;
    const element = document.createElement("li");
    element.className = `${role} waiting`;
    element.textContent = "…";
    this.#list.append(element);
    this.#rows.set(itemId, { element, words: "" });
    this.#scroll();
  }

  append(itemId, role, words) {
    this.open(itemId, role);
    this.set(itemId, this.#rows.get(itemId).words + words);
  }

  set(itemId, words) {
    const row = this.#rows.get(itemId);
    if (!row || !words.trim()) return;
    row.words = words;
    row.element.classList.remove("waiting");
    row.element.textContent = words;
    this.#scroll();
  }

  /** An item that came to nothing. */
  drop(itemId) {
    const row = this.#rows.get(itemId);
    if (row && !row.words) {
      row.element.remove();
      this.#rows.delete(itemId);
    }
  }

  /** Show which of an interrupted answer's words were heard. */
  cut(itemId, heard) {
    const row = this.#rows.get(itemId);
    if (!row) return;
    const rest = document.createElement("del");
    rest.textContent = row.words.slice(heard.length);
    const note = document.createElement("small");
    note.textContent = "interrupted";
    row.element.classList.remove("waiting");
    row.element.replaceChildren(heard, rest, note);
    this.#scroll();
  }

  #scroll() {
    this.#list.lastElementChild?.scrollIntoView({ block: "end" });
  }
}
