"use strict";
// Finds, chooses, orders and pages through all attempts. Only the worst are elements of the page from the start; the
// others are unpacked from its compressed parts when they are looked at. Without scripts the worst are there, folded.
(async () => {
  const PARTS_KEPT = 40;
  const VERDICTS = ["error", "failed", "undecided", "passed"];
  const get = (id) => document.getElementById(id);
  const list = get("list");
  if (!list) return;
  const [find, verdict, order, count] = ["find", "verdict", "order", "count"].map(get);
  const [previous, next, unfold, size] = ["previous", "next", "unfold", "size"].map(get);
  let rows = Number(size.value);

  async function unpack(part) {
    const binary = atob(part.textContent);
    const bytes = new Uint8Array(binary.length);
    for (let place = 0; place < binary.length; place += 1) bytes[place] = binary.charCodeAt(place);
    const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(unpacked).text();
  }

  // The index: columns with one value for each attempt, by its number.
  const names = [];
  const ranks = [];
  const anchors = [];
  const texts = [];
  const values = new Map();
  async function readIndex() {
    for (const part of document.querySelectorAll("script.index")) {
      const columns = JSON.parse(await unpack(part));
      const before = names.length;
      for (let place = 0; place < columns.names.length; place += 1) {
        names.push(columns.names[place]);
        ranks.push(VERDICTS.indexOf(columns.verdicts[place]));
        anchors.push(columns.anchors[place]);
        texts.push(columns.texts[place]);
      }
      for (const [name, column] of Object.entries(columns.values)) {
        if (!values.has(name)) values.set(name, []);
        const all = values.get(name);
        column.forEach((value, place) => { if (value !== null) all[before + place] = value; });
      }
    }
  }

  // The elements: those of the page, else those of a part.
  const there = new Map();
  for (const one of list.querySelectorAll(":scope > details.attempt")) there.set(Number(one.dataset.number), one);
  const partOf = new Map();
  for (const part of document.querySelectorAll("script.attempts")) {
    for (const number of part.dataset.numbers.split(" ")) partOf.set(Number(number), part);
  }
  const kept = new Map();
  async function unpackElements(part) {
    const parsed = new DOMParser().parseFromString(await unpack(part), "text/html");
    const elements = Array.from(parsed.body.children);
    return new Map(part.dataset.numbers.split(" ").map((number, place) => [Number(number), elements[place]]));
  }
  function elementsOf(part) {
    if (!kept.has(part)) {
      kept.set(part, unpackElements(part)); // the promise, so that nobody unpacks it a second time meanwhile
      if (kept.size > PARTS_KEPT) kept.delete(kept.keys().next().value);
    }
    return kept.get(part);
  }
  const elementOf = async (number) => there.get(number) || (await elementsOf(partOf.get(number))).get(number);

  try {
    await readIndex();
  } catch {
    return; // what is on the page can be read all the same
  }
  const total = names.length;
  if (!total) return;

  // Orders, each made when it is first asked for.
  const composite = values.get("composite") || [];
  const up = (a, b) => (a === undefined ? (b === undefined ? 0 : 1) : b === undefined ? -1 : a - b);
  const byName = (a, b) => (names[a] < names[b] ? -1 : names[a] > names[b] ? 1 : a - b);
  const collator = new Intl.Collator("en", { numeric: true });
  const compare = {
    worst: (a, b) => ranks[a] - ranks[b] || up(composite[a], composite[b]) || byName(a, b),
    best: (a, b) => compare.worst(b, a),
    case: (a, b) => collator.compare(names[a], names[b]) || a - b,
  };
  const orders = new Map();
  function ordered(name) {
    if (!orders.has(name)) {
      const column = name.startsWith("by ") ? values.get(name.slice(3)) : null;
      const by = column ? (a, b) => up(column[a], column[b]) || compare.worst(a, b) : compare[name];
      orders.set(name, Uint32Array.from(names.keys()).sort(by));
    }
    return orders.get(name);
  }

  let fitting = ordered("worst");
  let first = 0;
  let turn = 0;
  const shown = () => Array.from(list.querySelectorAll(":scope > details.attempt"));
  const whole = (number) => number.toLocaleString("en");
  function choose() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rank = VERDICTS.indexOf(verdict.value);
    fitting = ordered(order.value);
    if (words.length || rank >= 0) {
      fitting = fitting.filter((one) =>
        (rank < 0 || ranks[one] === rank) && words.every((word) => texts[one].includes(word)));
    }
    first = 0;
  }
  async function show() {
    const mine = ++turn;
    list.setAttribute("aria-busy", "true");
    const elements = await Promise.all(Array.from(fitting.subarray(first, first + rows), elementOf));
    if (mine !== turn) return;
    list.replaceChildren(...elements);
    const last = first + elements.length;
    const places = elements.length ? `${whole(first + 1)}–${whole(last)} of ${whole(fitting.length)}` : "none";
    count.textContent = fitting.length === total ? places : `${places} found, ${whole(total)} in all`;
    previous.disabled = !first;
    next.disabled = last >= fitting.length;
    previous.hidden = next.hidden = size.parentElement.hidden = total <= Number(size.options[0].value);
    sayUnfold();
    list.removeAttribute("aria-busy");
  }
  function sayUnfold() {
    unfold.textContent = shown().length && shown().every((one) => one.open) ? "Fold these" : "Unfold these";
  }
  const update = () => { choose(); return show(); };
  find.addEventListener("input", update);
  verdict.addEventListener("change", update);
  order.addEventListener("change", update);
  size.addEventListener("change", () => {
    rows = Number(size.value);
    first -= first % rows;
    return show();
  });
  const turnTo = (place) => { first = place; show().then(() => get("attempts").scrollIntoView()); };
  previous.addEventListener("click", () => turnTo(Math.max(0, first - rows)));
  next.addEventListener("click", () => turnTo(first + rows));
  unfold.addEventListener("click", () => {
    const open = unfold.textContent === "Unfold these";
    for (const one of shown()) one.open = open;
    sayUnfold();
  });

  async function openLinked() {
    const number = location.hash.startsWith("#attempt-") ? anchors.indexOf(location.hash.slice(1)) : -1;
    if (number < 0) return;
    if (!fitting.includes(number)) {
      find.value = verdict.value = "";
      choose();
    }
    const place = fitting.indexOf(number);
    first = place - (place % rows);
    await show();
    const one = document.getElementById(anchors[number]).closest("details.attempt");
    one.open = true;
    one.scrollIntoView();
  }
  addEventListener("hashchange", openLinked);

  const counts = VERDICTS.map(() => 0);
  for (const rank of ranks) counts[rank] += 1;
  for (const option of verdict.options) {
    const rank = VERDICTS.indexOf(option.value);
    option.textContent += ` (${whole(rank < 0 ? total : counts[rank])})`;
    option.disabled = rank >= 0 && !counts[rank];
  }
  for (const name of values.keys()) {
    if (name === "composite") continue;
    const option = new Option(`lowest ${name} first`, `by ${name}`);
    order.append(option);
  }
  document.querySelector(".controls").hidden = false;
  await show();
  await openLinked();
  list.dataset.ready = "";
})();
