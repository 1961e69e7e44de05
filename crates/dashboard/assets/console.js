// Makes pages easier to use. Every page works without it.
"use strict";

// Times in the reader's own zone; the title keeps UTC.
const shown = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
});
for (const time of document.querySelectorAll("time[datetime]")) {
  const at = new Date(time.dateTime);
  if (!Number.isNaN(at.getTime())) time.textContent = shown.format(at);
}

for (const button of document.querySelectorAll("[data-copies]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).textContent);
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 2000);
  });
}

for (const select of document.querySelectorAll("[data-submits]")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}
for (const button of document.querySelectorAll("[data-without-script]")) button.hidden = true;

for (const form of document.querySelectorAll("form[data-asks]")) {
  form.addEventListener("submit", (event) => {
    if (!window.confirm(form.dataset.asks)) event.preventDefault();
  });
}

// Fields without a value are no part of the address.
for (const form of document.querySelectorAll("form.filters[method=get]")) {
  form.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && field.value === "") field.disabled = true;
  });
  window.addEventListener("pageshow", () => {
    for (const field of form.elements) field.disabled = false;
  });
}

const HELP = "Keys:\n/  search traces\ng o  overview\ng t  traces\ng k  keys\ng m  models\n?  this help";
const PLACES = { o: "/", t: "/traces", k: "/keys", m: "/models" };
let goes = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) return;
  if (goes && PLACES[event.key]) {
    location.href = PLACES[event.key] + location.search.replace(/^.*?(project=\d+).*$/, "?$1").replace(/^\?(?!project).*$/, "");
  } else if (event.key === "/") {
    event.preventDefault();
    const field = document.querySelector("[data-search]");
    if (field) field.focus();
    else location.href = "/traces";
  } else if (event.key === "?") {
    window.alert(HELP);
  }
  goes = event.key === "g";
});
