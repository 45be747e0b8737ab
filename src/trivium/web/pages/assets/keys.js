// The keys of every page, what copies a text, and ticks that stay. Links and forms do the work; a key only
// presses them.
(() => {
  "use strict";
  const typing = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;
  const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.checkVisibility());
  const link = (row) => (row.matches("a, summary") ? row : row.querySelector("a[href], summary"));

  function move(by) {
    const all = rows();
    if (!all.length) return;
    const here = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[here < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(here + by, 0), all.length - 1)];
    if (next.matches("details[name]")) next.open = true; // of one name, the browser closes the others
    link(next)?.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  // A key is of the chosen row, if that has it, else of the page.
  function wanted(key) {
    const row = document.activeElement?.closest("[data-row]");
    return (
      row?.querySelector(`[data-key="${key}"], [data-row-key="${key}"]`) ??
      document.querySelector(`[data-key="${key}"]`)
    );
  }

  function press(pressed) {
    const folded = pressed.closest("details:not([open])");
    if (folded) folded.open = true; // what it is about is seen first
    if (pressed.matches("input, textarea")) pressed.focus();
    else if (!folded) pressed.click();
  }

  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (typing(event.target)) {
      if (event.key === "Escape") {
        event.target.blur();
        const row = event.target.closest("[data-row]");
        if (row) link(row)?.focus(); // its keys stay at hand
      }
      return;
    }
    const dialog = document.getElementById("keys");
    if (dialog.open) return;
    if (Date.now() - going < 1500) {
      going = 0;
      const to = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      if (to) {
        event.preventDefault();
        to.click();
        return;
      }
    }
    const pressed = wanted(CSS.escape(event.key));
    if (pressed) {
      event.preventDefault();
      press(pressed);
    } else if (event.key === "?") dialog.showModal();
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "g") going = Date.now();
    else if (event.key === "/") {
      const search = document.querySelector("main [data-search]") ?? document.querySelector("[data-search]");
      if (search) {
        event.preventDefault();
        search.focus();
        search.select?.();
      }
    }
  });

  // A button copies the text of an element. Browsers offer the clipboard to secure pages only.
  for (const button of document.querySelectorAll("[data-copies]")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).textContent);
      button.textContent = "Copied";
    });
  }

  // What is ticked stays ticked when a list is filtered or turned; boxes that it no longer has stand in its form.
  const boxes = (form) => [...form.elements].filter((each) => each.type === "checkbox");
  const stored = (form) => `ticked ${form.action}`;
  function restore() {
    for (const form of document.querySelectorAll("form[data-keeps]")) {
      for (const value of JSON.parse(sessionStorage.getItem(stored(form)) ?? "[]")) {
        let box = boxes(form).find((each) => each.value === value);
        if (!box) {
          box = Object.assign(document.createElement("input"), { type: "checkbox", name: form.dataset.keeps, value });
          const label = document.createElement("label");
          label.append(box, ` ${value} `);
          form.append(label);
        }
        box.checked = true;
      }
    }
  }
  document.addEventListener("change", ({ target }) => {
    if (target.type !== "checkbox" || !target.form?.dataset.keeps) return;
    const ticked = boxes(target.form).filter((each) => each.checked);
    sessionStorage.setItem(stored(target.form), JSON.stringify(ticked.map((each) => each.value)));
  });
  document.addEventListener("submit", ({ target }) => {
    if (target.dataset.keeps) sessionStorage.removeItem(stored(target));
  });
  document.addEventListener("htmx:afterSwap", restore);
  restore();
})();
