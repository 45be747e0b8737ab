"use strict";
// Search, filter and order of attempts. Without scripts the page shows all of them, worst first.
(() => {
  const list = document.getElementById("list");
  const attempts = Array.from(list.querySelectorAll(":scope > details.attempt"));
  if (!attempts.length) return;
  const find = document.getElementById("find");
  const verdict = document.getElementById("verdict");
  const order = document.getElementById("order");
  const unfold = document.getElementById("unfold");
  const count = document.getElementById("count");
  const searched = attempts.map((one) => {
    const parts = one.querySelectorAll("summary, .facts, .reason");
    return Array.from(parts, (part) => part.textContent).join(" ").toLowerCase();
  });
  const shownFirst = attempts.map((one, place) => place);
  const orders = {
    worst: (a, b) => a - b,
    best: (a, b) => b - a,
    case: (a, b) => attempts[a].dataset.case.localeCompare(attempts[b].dataset.case, "en", { numeric: true }),
  };
  function filter() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    attempts.forEach((one, place) => {
      const fits = (!verdict.value || one.dataset.verdict === verdict.value)
        && words.every((word) => searched[place].includes(word));
      one.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    count.textContent = shown === attempts.length ? "" : `${shown} of ${attempts.length}`;
  }
  find.addEventListener("input", filter);
  verdict.addEventListener("change", filter);
  order.addEventListener("change", () => {
    list.append(...shownFirst.slice().sort(orders[order.value]).map((place) => attempts[place]));
  });
  unfold.addEventListener("click", () => {
    const open = unfold.textContent === "Unfold all";
    for (const one of attempts) if (!one.hidden) one.open = open;
    unfold.textContent = open ? "Fold all" : "Unfold all";
  });
  function openLinked() {
    const inside = location.hash && document.getElementById(location.hash.slice(1));
    const one = inside && inside.closest("details.attempt");
    if (!one) return;
    one.hidden = false;
    one.open = true;
    one.scrollIntoView();
  }
  addEventListener("hashchange", openLinked);
  openLinked();
  document.querySelector(".controls").hidden = false;
})();
