// Makes pages easier to use. Every page works without it.
"use strict";

// The script writes in the language of the page: its texts are attributes of its own element, and of the parts that
// it serves. A name in braces stands for a value.
const texts = document.currentScript.dataset;
const filled = (text, values) => text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);

// Times in the reader's own zone; the title keeps UTC.
const shown = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
});
function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime())) time.textContent = shown.format(at);
  }
  // A bar has no other text than its title: it has both times.
  for (const title of root.querySelectorAll("title[data-begins]")) {
    const { begins } = title.dataset;
    const at = new Date(begins);
    if (Number.isNaN(at.getTime())) continue;
    title.textContent = title.textContent.replace(begins, `${shown.format(at)} (${begins})`);
  }
}
localise(document);

for (const button of document.querySelectorAll("[data-copies]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).textContent);
    const before = button.textContent;
    button.textContent = texts.copied;
    setTimeout(() => { button.textContent = before; }, 2000);
  });
}

for (const select of document.querySelectorAll("[data-submits]")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}
for (const button of document.querySelectorAll("[data-without-script]")) button.hidden = true;

for (const form of document.querySelectorAll("form[data-asks]")) {
  // With `asks-for`, the form asks only if one of these fields differs from what is stored: after a refusal, it shows
  // what was sent.
  const fields = form.dataset.asksFor?.split(",").map((name) => form.elements[name]);
  const isMeant = () => !fields || fields.some((field) => field.value !== field.dataset.was);
  form.addEventListener("submit", (event) => {
    if (isMeant() && !window.confirm(form.dataset.asks)) event.preventDefault();
  });
}

for (const button of document.querySelectorAll("button[data-asks]")) {
  button.addEventListener("click", (event) => {
    if (!window.confirm(button.dataset.asks)) event.preventDefault();
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

// Every table can be kept as CSV: its rows as they are shown, times in UTC. (Lists with pages have files of the
// gateway.) Cells are no formulas, as in the files of the gateway (export/src/cell.rs has the reasons): a program may
// begin a cell behind a semicolon.
function guarded(text) {
  const guarded = text.replace(/(^|[;\t\r\n])(["\s]*)(?=[=+\-@＝＋－＠])/g, "$1$2'");
  return /^[\t\r\n]/.test(text) ? `'${guarded}` : guarded;
}
function cellText(cell) {
  const time = cell.querySelector("time");
  const shownText = time ? time.dateTime : cell.innerText;
  const text = shownText.trim().replace(/\s+/g, " ");
  return `"${(Number.isNaN(Number(text)) ? guarded(text) : text).replaceAll('"', '""')}"`;
}
function saveTable(table) {
  const textsOf = (cell) => [cellText(cell), ...Array(cell.colSpan - 1).fill('""')];
  const cellsOf = (row) => [...row.cells].filter((cell) => !cell.classList.contains("buttons"));
  const lines = [...table.rows].map((row) => cellsOf(row).flatMap(textsOf).join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }));
  link.download = `${location.pathname.split("/").filter(Boolean).join("-") || "overview"}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}
document.body.classList.add("scripted");
document.addEventListener("click", ({ target }) => {
  if (target.matches("[data-saves]")) saveTable(target.previousElementSibling.querySelector("table"));
});

// A part that the gateway keeps up to date while the page is visible.
const RETRY = 30_000;
function follow(part, button) {
  let stream = null;
  let paused = false;
  const close = () => {
    stream?.close();
    stream = null;
  };
  // The page is as old as the job that is gone or the session that is over: loaded again, it shows which. What
  // else refuses a stream may pass.
  const refused = async () => {
    const asking = new AbortController();
    const reply = await fetch(part.dataset.live, { redirect: "manual", signal: asking.signal }).catch(() => null);
    asking.abort();
    if (reply?.type === "opaqueredirect" || reply?.status === 404) location.reload();
    else setTimeout(adjust, RETRY);
  };
  const adjust = () => {
    if (paused || document.visibilityState !== "visible") {
      close();
    } else if (!stream) {
      stream = new EventSource(part.dataset.live);
      stream.addEventListener("part", ({ data }) => mergePart(part, data));
      stream.addEventListener("pieces", ({ data }) => mergePieces(part, data));
      // Nothing changes any more.
      stream.addEventListener("end", ({ data }) => {
        mergePart(part, data);
        document.removeEventListener("visibilitychange", adjust);
        paused = true;
        button.remove();
        close();
      });
      // The page shows what is wrong.
      stream.addEventListener("failed", () => location.reload());
      stream.addEventListener("rows", ({ data }) => mergeRows(part, data));
      // The browser connects again by itself, unless it was refused.
      stream.addEventListener("error", () => {
        if (stream?.readyState !== EventSource.CLOSED) return;
        close();
        refused();
      });
    }
  };
  document.addEventListener("visibilitychange", adjust);
  button.classList.add("ready");
  const pause = button.textContent;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? button.dataset.pauses : pause;
    adjust();
  });
  adjust();
}

// Makes a part what was received, and leaves every element that is still there in its place: it keeps the focus, a
// selection, and details stay open.
function mergePart(part, html) {
  const received = document.createElement("template");
  received.innerHTML = html;
  localise(received.content);
  mergeNodes(part, received.content);
}
// The same for some elements of a part, each by its id.
function mergePieces(part, html) {
  const received = document.createElement("template");
  received.innerHTML = html;
  localise(received.content);
  for (const next of received.content.querySelectorAll("[id]")) {
    if (next.parentElement?.closest("[id]")) continue;
    const known = document.getElementById(next.id);
    if (part.contains(known) && !known.isEqualNode(next)) mergeNode(known, next);
  }
}
function mergeNodes(known, received) {
  let at = known.firstChild;
  const stays = new Set([...received.children].map(({ id }) => id).filter(Boolean));
  for (const next of [...received.childNodes]) {
    if (next.id) {
      // The nodes that have gone lie before the element that is left of the same id, or before one that comes later.
      const same = [...known.children].find(({ id }) => id === next.id);
      while (same && at && at !== same && !stays.has(at.id)) at = removed(at);
      if (same && at !== same) at = moved(same, at);
    }
    if (!at || at.nodeName !== next.nodeName || (at.id ?? "") !== (next.id ?? "")) {
      known.insertBefore(next, at);
      continue;
    }
    if (!at.isEqualNode(next)) mergeNode(at, next);
    at = at.nextSibling;
  }
  while (at) at = removed(at);
}
// An element that is moved loses the focus, and has it again at its new place.
function moved(element, before) {
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  element.parentNode.insertBefore(element, before);
  focused?.focus();
  return element;
}
function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}
function mergeNode(known, received) {
  if (known.nodeType !== Node.ELEMENT_NODE) {
    known.nodeValue = received.nodeValue;
    return;
  }
  // The reader opens details, and the script shows buttons that copy.
  const isOurs = (name) => name !== "open" && !(name === "hidden" && known.dataset.copies);
  for (const name of known.getAttributeNames().filter(isOurs)) {
    if (!received.hasAttribute(name)) known.removeAttribute(name);
  }
  for (const name of received.getAttributeNames().filter(isOurs)) {
    const value = received.getAttribute(name);
    if (known.getAttribute(name) !== value) known.setAttribute(name, value);
  }
  mergeNodes(known, received);
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

// The events of a streamed answer, each as it ends.
async function* eventsOf(body) {
  let rest = "";
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (data && data !== "[DONE]") yield JSON.parse(data);
    }
  }
}

// The ends of a call of the playground: a whole answer; a failure or a stop; an answer that was lost before it was
// asked for again; and one that nobody here knows, since the connection broke, or something in between has answered.
const [ANSWERED, FAILED, LOST, UNKNOWN] = ["answered", "failed", "lost", "unknown"];

// The playground: the same prompt to both sides, each with its cost and time. The call is known by the one-time value
// `once`. Returns its end.
async function ask(form, model, side, once, signal) {
  const [name, answer, outcome] = ["name", "answer", "outcome"].map((part) => side.querySelector(`[data-${part}]`));
  const words = form.dataset;
  name.textContent = model || words.byRouting;
  answer.textContent = "";
  outcome.textContent = words.waits;
  const began = performance.now();
  let [first, end] = [null, FAILED];
  try {
    const { key, system, prompt } = Object.fromEntries(new FormData(form));
    const reply = await fetch(form.dataset.playground, {
      method: "POST", signal, headers: { "content-type": "application/json" },
      body: JSON.stringify({ key, model, system, prompt, once }),
    });
    if (reply.redirected) throw new Error(texts.sessionOver);
    if (!reply.ok) {
      const fault = (await reply.json().catch(() => null)) ?? {};
      if (reply.status === 409) end = LOST;
      // A failure of the gateway has words: this is one of a proxy.
      else if (reply.status >= 500 && !fault.error) end = UNKNOWN;
      throw new Error(fault.error?.message ?? fault.error ?? filled(words.status, { number: reply.status }));
    }
    for await (const { choices, error } of eventsOf(reply.body)) {
      if (error) throw new Error(error.message ?? error);
      const delta = choices?.[0]?.delta;
      const text = delta?.content ?? delta?.refusal ?? "";
      if (text && first === null) first = performance.now() - began;
      answer.append(text);
    }
    const trace = reply.headers.get("x-trace-id");
    const address = form.dataset.playground.replace("/answer", "/record");
    const step = reply.headers.get("x-sluice-step-id");
    const record = await fetch(`${address}&trace=${trace}&step=${step}`).then((found) => (found.ok ? found.json() : {}));
    const parts = [
      record.model && record.model !== model ? filled(words.answeredBy, { model: record.model }) : "",
      record.tier ? filled(words.tier, { tier: record.tier }) : "",
      record.cost ?? "",
      filled(words.time, { millis: Math.round(performance.now() - began).toLocaleString() }),
      first === null ? "" : filled(words.firstWord, { millis: Math.round(first).toLocaleString() }),
      record.tokens ? filled(words.tokens, {
        prompt: record.tokens.prompt.toLocaleString(), completion: record.tokens.completion.toLocaleString(),
      }) : "",
      record.reason ?? "",
      reply.headers.has("idempotency-replayed") ? words.shownAgain : "",
    ];
    outcome.textContent = parts.filter(Boolean).join(" · ");
    const link = document.createElement("a");
    const page = new URL(address, location.href);
    link.href = `/traces/${trace}?project=${page.searchParams.get("project")}`;
    link.textContent = words.trace;
    outcome.append(" · ", link);
    end = ANSWERED;
  } catch (fault) {
    outcome.textContent = fault.name === "AbortError" ? words.stopped : fault.message;
    if (fault.name === "TypeError") end = UNKNOWN;
  }
  return end;
}
const oneTimeValue = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const playground = document.querySelector("[data-playground]");
if (playground) {
  const sides = [...document.querySelectorAll("[data-side]")];
  const models = [...playground.querySelectorAll("[name=model]")];
  const stop = playground.querySelector("[data-stops]");
  // A field for any model is empty without a second side, and names the routing.
  const valueOf = ({ value, dataset: { byRouting } }) => {
    if (byRouting === undefined) return value.trim();
    return value.trim() === byRouting ? "" : value.trim() || "-";
  };
  const showSides = () => models.forEach((model, index) => { sides[index].hidden = valueOf(model) === "-"; });
  // The address names both models, so that it can be kept.
  const remember = () => {
    const address = new URL(location.href);
    models.map(valueOf).forEach((value, index) => {
      const name = ["model", "beside"][index];
      if (value && value !== "-") address.searchParams.set(name, value); else address.searchParams.delete(name);
    });
    history.replaceState(null, "", address);
  };
  for (const model of models) model.addEventListener("change", () => { showSides(); remember(); });
  showSides();
  // Both sides may ask the same model.
  const values = sides.map((_, index) => `${playground.elements.once.value}-${index}`);
  playground.addEventListener("submit", async (event) => {
    event.preventDefault();
    const send = playground.querySelector("[type=submit]");
    const stopping = new AbortController();
    stop.onclick = () => stopping.abort();
    [send.disabled, stop.disabled] = [true, false];
    const asked = models.map(valueOf).map((model, index) => (
      model === "-" ? null : ask(playground, model, sides[index], values[index], stopping.signal)
    ));
    const ends = await Promise.all(asked);
    // Sent again a side is another call, unless nobody knows its end: it may have been paid for. The answer beside such
    // a one is not paid for once more until that one has an answer or has failed.
    const isOpen = ends.includes(UNKNOWN) || ends.includes(LOST);
    ends.forEach((end, index) => {
      // A side that was not asked keeps its value.
      if (end === null) return;
      if (end !== UNKNOWN && !(isOpen && end === ANSWERED)) values[index] = oneTimeValue();
    });
    [send.disabled, stop.disabled] = [false, true];
  });
}

const PLACES = { o: "/", t: "/traces", k: "/keys", m: "/models", p: "/playground", j: "/jobs" };
// A page of the project that is shown.
const placeOf = (path) => {
  const project = new URLSearchParams(location.search).get("project");
  return project ? `${path}?${new URLSearchParams({ project })}` : path;
};
// Links to a step that were saved before steps had pages.
const linked = /^#step-(\d+)$/.exec(location.hash);
if (linked && /^\/traces\/[^/]+$/.test(location.pathname) && !document.getElementById(`step-${linked[1]}`)) {
  location.replace(`${location.pathname}/steps/${linked[1]}${location.search}`);
}
const search = () => document.querySelector("[data-search]");
if (location.hash === "#search") {
  search()?.focus();
  history.replaceState(null, "", location.pathname + location.search);
}
// Escape closes it, as it does every dialog.
function showHelp() {
  if (document.querySelector("dialog")) return;
  const [dialog, title, keys, close] = ["dialog", "h2", "pre", "button"].map((name) => document.createElement(name));
  title.id = "help-title";
  title.textContent = texts.helpTitle;
  keys.textContent = texts.help;
  close.textContent = texts.close;
  close.addEventListener("click", () => dialog.close());
  dialog.setAttribute("aria-labelledby", title.id);
  dialog.append(title, keys, close);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
}
let goes = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) return;
  if (goes && PLACES[event.key]) {
    location.href = placeOf(PLACES[event.key]);
  } else if (event.key === "/") {
    event.preventDefault();
    if (search()) search().focus();
    else location.href = `${placeOf("/traces")}#search`;
  } else if (event.key === "?") {
    showHelp();
  }
  goes = event.key === "g";
});

// Passkeys, where the browser has them and reads their options by itself.
const hasPasskeys = Boolean(window.PublicKeyCredential?.parseCreationOptionsFromJSON);
async function send(part, path, body) {
  const answer = await fetch(`/api/v1/session/${path}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  if (answer.ok) return answer.json();
  if (answer.status === 401) {
    throw new Error(path === "passkey" ? part.dataset.refused : texts.sessionOver);
  }
  throw new Error((await answer.json()).error);
}
const REFUSALS = { InvalidStateError: "known", NotAllowedError: "notChosen" };
async function attempt(part, act) {
  const [fault, button] = [part.querySelector("[role=alert]"), part.querySelector("button")];
  fault.hidden = true;
  button.disabled = true;
  try {
    await act();
  } catch (error) {
    fault.textContent = part.dataset[REFUSALS[error.name]] ?? error.message;
    fault.hidden = false;
  }
  button.disabled = false;
}
for (const part of hasPasskeys ? document.querySelectorAll("[data-passkey-sign-in]") : []) {
  part.classList.add("ready");
  part.querySelector("button").addEventListener("click", () => attempt(part, async () => {
    const { publicKey } = await send(part, "passkey/challenge", {});
    const options = PublicKeyCredential.parseRequestOptionsFromJSON(publicKey);
    const credential = await navigator.credentials.get({ publicKey: options });
    await send(part, "passkey", { credential: credential.toJSON() });
    location.href = part.closest("form").elements.next.value;
  }));
}
for (const form of document.querySelectorAll("[data-passkey-new]")) {
  form.hidden = !hasPasskeys;
  document.querySelector("[data-without-passkeys]").hidden = hasPasskeys;
  // Nothing but the script can send it.
  form.querySelector("button").disabled = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(form, async () => {
      const { name, password } = form.elements;
      const { publicKey } = await send(form, "passkeys/offer", { password: password?.value ?? "" });
      const options = PublicKeyCredential.parseCreationOptionsFromJSON(publicKey);
      const credential = await navigator.credentials.create({ publicKey: options });
      const added = await send(form, "passkeys", { name: name.value, credential: credential.toJSON() });
      if (!added.recovery_codes) return location.assign(form.dataset.passkeyNew);
      document.getElementById("new-codes").textContent = added.recovery_codes.join("\n");
      document.getElementById("passkey-codes").hidden = false;
      form.hidden = true;
    });
  });
}
