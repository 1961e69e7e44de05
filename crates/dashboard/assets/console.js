// Makes pages easier to use. Every page works without it.
"use strict";

// Times in the reader's own zone; the title keeps UTC.
const shown = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
});
function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime())) time.textContent = shown.format(at);
  }
}
localise(document);

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

// A part that the gateway keeps up to date while the page is visible.
const RETRY = 30_000;
function follow(part, button) {
  let stream = null;
  let paused = false;
  const close = () => {
    stream?.close();
    stream = null;
  };
  const adjust = () => {
    if (paused || document.visibilityState !== "visible") {
      close();
    } else if (!stream) {
      stream = new EventSource(part.dataset.live);
      stream.addEventListener("tiles", ({ data }) => { part.innerHTML = data; });
      stream.addEventListener("rows", ({ data }) => mergeRows(part, data));
      // The browser connects again by itself, unless it was refused.
      stream.addEventListener("error", () => {
        if (stream?.readyState !== EventSource.CLOSED) return;
        close();
        setTimeout(adjust, RETRY);
      });
    }
  };
  document.addEventListener("visibilitychange", adjust);
  button.classList.add("ready");
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Resume updates" : "Pause updates";
    adjust();
  });
  adjust();
}

// Puts rows in the place of older versions of them, and new ones in their order: ids begin with the time.
const PAGE_ROWS = 50;
const MOST_ROWS = 500;
function mergeRows(body, html) {
  // A page that had nothing to list has no table.
  if (body.tagName !== "TBODY") return location.reload();
  const received = document.createElement("template");
  received.innerHTML = html;
  localise(received.content);
  const rows = [...received.content.querySelectorAll("tr")];
  // Between a whole page of new rows and the older ones others may be missing.
  if (rows.length >= PAGE_ROWS && !rows.some(({ id }) => document.getElementById(id))) body.replaceChildren();
  for (const row of rows) {
    const known = document.getElementById(row.id);
    if (known?.isEqualNode(row)) continue;
    const isFocused = known?.contains(document.activeElement);
    if (known) known.replaceWith(row);
    else body.insertBefore(row, [...body.rows].find((other) => other.id < row.id) ?? null);
    if (isFocused) row.querySelector("a").focus();
  }
  // The next page begins where this one ends.
  const next = document.querySelector("a[rel=next]");
  const most = next ? PAGE_ROWS : MOST_ROWS;
  while (body.rows.length > most) body.lastElementChild.remove();
  if (next) {
    const address = new URL(next.href);
    address.searchParams.set("before", body.lastElementChild.id.replace("trace-", ""));
    next.href = address;
  }
}

const live = document.querySelector("[data-live]");
if (live) follow(live, document.querySelector("[data-pauses]"));

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

// Passkeys, where the browser has them and reads their options by itself.
const hasPasskeys = Boolean(window.PublicKeyCredential?.parseCreationOptionsFromJSON);
async function send(path, body) {
  const answer = await fetch(`/api/v1/session/${path}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  if (answer.ok) return answer.json();
  if (answer.status === 401) {
    throw new Error(path === "passkey" ? "The passkey was refused." : "Your session is over: sign in again.");
  }
  throw new Error((await answer.json()).error);
}
const REFUSALS = {
  InvalidStateError: "This device has a passkey of yours already.",
  NotAllowedError: "No passkey was chosen, or it took too long.",
};
async function attempt(part, act) {
  const [fault, button] = [part.querySelector("[role=alert]"), part.querySelector("button")];
  fault.hidden = true;
  button.disabled = true;
  try {
    await act();
  } catch (error) {
    fault.textContent = REFUSALS[error.name] ?? error.message;
    fault.hidden = false;
  }
  button.disabled = false;
}
for (const part of hasPasskeys ? document.querySelectorAll("[data-passkey-sign-in]") : []) {
  part.hidden = false;
  part.querySelector("button").addEventListener("click", () => attempt(part, async () => {
    const { publicKey } = await send("passkey/challenge", {});
    const options = PublicKeyCredential.parseRequestOptionsFromJSON(publicKey);
    const credential = await navigator.credentials.get({ publicKey: options });
    await send("passkey", { credential: credential.toJSON() });
    location.href = part.closest("form").elements.next.value;
  }));
}
for (const form of hasPasskeys ? document.querySelectorAll("[data-passkey-new]") : []) {
  form.hidden = false;
  document.querySelector("[data-without-passkeys]").hidden = true;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(form, async () => {
      const { name, password } = form.elements;
      const { publicKey } = await send("passkeys/offer", { password: password?.value ?? "" });
      const options = PublicKeyCredential.parseCreationOptionsFromJSON(publicKey);
      const credential = await navigator.credentials.create({ publicKey: options });
      const added = await send("passkeys", { name: name.value, credential: credential.toJSON() });
      if (!added.recovery_codes) return location.assign(form.dataset.passkeyNew);
      document.getElementById("new-codes").textContent = added.recovery_codes.join("\n");
      document.getElementById("passkey-codes").hidden = false;
      form.hidden = true;
    });
  });
}
