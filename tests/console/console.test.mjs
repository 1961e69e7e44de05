// The console in a real browser.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { checked, checkedInAll, close, counted, launch, signIn, total, visit } from "./browser.mjs";
import { MARKUP, OWNER, PASSWORD, fill, freePort } from "./gateway.mjs";
import { startIssuer } from "./issuer.mjs";
import { startProvider } from "./provider.mjs";

// The most bytes of a page with its files, and without those that a browser has (they are not compressed).
const FIRST = 100 * 1024;
const LATER = 30 * 1024;

let gateway;
let provider;
// The pages that were looked at in every way.
let everyPath = [];
// A trace with a large prompt, and one whose prompt is Arabic.
let largest;
let rightToLeft;

before(async () => {
  gateway = await launch();
  provider = await startProvider();
});

after(async () => {
  await close();
  await provider?.stop();
});

/** Makes a rule and a finding whose text is markup, judges another, and has a rule backtested: the id of the job. */
async function judgedAndBacktested() {
  const { call, owned } = gateway;
  const trace = await call("POST", "/api/v1/traces", {});
  for (const name of ["eve", "mallory"]) {
    await call("POST", "/api/v1/checks", { trace_id: trace.id, input: `${MARKUP} mail ${name}@example.com` });
  }
  const [latest] = await owned("GET", "/api/v1/projects/1/reviews?limit=1");
  await owned("PUT", `/api/v1/projects/1/reviews/${latest.step_id}`, { verdict: "false_positive", note: MARKUP });
  const rules = [{ name: "staff", pattern: "STAFF-[0-9]{4}", action: "flag", weight: 0.1 }];
  const mcp = { allowed_servers: ["https://mcp.example/mcp", "https://tools.example/a/long/address/of/a/server/mcp"] };
  await owned("PATCH", "/api/v1/projects/1", { project: { settings: { safety: { rules }, mcp } } });
  const settings = { safety: { rules: [{ name: "greeting", pattern: "Hello" }] } };
  const from = new Date(Date.now() - 3_600_000).toISOString();
  const { job_id: job } = await owned("POST", "/api/v1/projects/1/backtests", { settings, from });
  for (;;) {
    const { status } = await owned("GET", `/api/v1/projects/1/backtests/${job}`);
    if (status === "completed") return job;
    assert.ok(["queued", "running"].includes(status), status);
    await new Promise((resolve) => { setTimeout(resolve, 200); });
  }
}

/** The output of a command. */
async function shell(command, env) {
  const run = promisify(execFile)("bash", ["-c", command], { env: { PATH: process.env.PATH, ...env } });
  return (await run).stdout;
}

test("a new installation leads to a first call", async () => {
  const { page, errors, context } = await visit();
  await page.goto(`${gateway.base}/keys`);
  assert.equal(new URL(page.url()).pathname, "/sign-in");
  await page.getByLabel("E-mail").fill(OWNER);
  await page.getByLabel("Password").fill("wrong password");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("alert").getByText("wrong").waitFor();
  errors.length = 0; // The browser notes the 401.
  assert.equal(await page.getByLabel("E-mail").inputValue(), OWNER);
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.waitForURL(`${gateway.base}/keys`);
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("heading", { name: "Make the first call" }).waitFor();
  const done = () => page.locator(".first .mark.done").count();
  const before = await done();
  await page.getByRole("link", { name: "Register one" }).click();
  await page.getByLabel("Name", { exact: true }).fill("Local");
  await page.getByLabel(/^Identifier/).fill("local");
  await page.getByLabel(/^Address/).fill(provider.url);
  await page.getByLabel("Provider's key").fill("sk-of-the-provider");
  await page.getByLabel("USD per 1,000 prompt tokens").fill("0.001");
  await page.getByLabel("USD per 1,000 completion tokens").fill("0.002");
  await page.getByRole("button", { name: "Register" }).click();
  await page.getByRole("status").getByText("The model is registered").waitFor();
  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByLabel(/simple/).selectOption("local");
  await page.getByRole("button", { name: "Show the change" }).first().click();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("status").getByText("The settings are saved").waitFor();
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("heading", { name: "Make the first call" }).waitFor();
  assert.equal(await done(), before + 2, "a model and a tier");
  const snippet = await page.locator("#snippet").textContent();
  await checked(page, "first-steps");
  await page.getByRole("main").getByRole("link", { name: "Keys" }).click();
  await page.getByLabel("Name of a new key").fill("First app");
  await page.getByRole("button", { name: "Make a key" }).click();
  const secret = await page.locator("#secret").textContent();
  await checked(page, "keys-made");
  const list = await context.newPage();
  await list.goto(`${gateway.base}/traces`);
  await list.getByText("No trace yet").waitFor();
  // The snippet as it stands, in a shell.
  const answer = JSON.parse(await shell(snippet, { SLUICE_API_KEY: secret }));
  assert.equal(answer.choices[0].message.content, "Hello from the provider.");
  assert.equal(provider.keys.at(-1), "Bearer sk-of-the-provider");
  await list.locator("tbody tr").first().waitFor();
  await list.close();
  await page.goto(`${gateway.base}/`);
  await page.getByRole("table").first().getByText("local").waitFor();
  assert.equal(await page.getByRole("heading", { name: "Make the first call" }).count(), 0);
  // The secret was shown once. Going back shows no cached page.
  await page.goto(`${gateway.base}/keys`);
  assert.equal(await page.locator("#secret").count(), 0);
  page.once("dialog", (dialog) => dialog.accept());
  await page.getByRole("button", { name: "Revoke First app" }).click();
  await page.getByRole("status").getByText("The key is revoked").waitFor();
  await gateway.owned("PATCH", "/api/v1/projects/1", { project: { settings: { routing_tiers: { simple: "sandbox" } } } });
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(`${gateway.base}/sign-in`);
  await page.goBack();
  await page.waitForURL(/\/sign-in/);
  assert.deepEqual(errors, []);
  await context.close();
});

/** Replays a trace: the id of the job, which is over. */
async function replayed(trace) {
  const { job_id: job } = await gateway.call("POST", "/api/v1/replay", { trace_id: trace, force_model: "sandbox" });
  for (;;) {
    const { status } = await gateway.call("GET", `/api/v1/replay/${job}`);
    if (status === "completed") return job;
    assert.ok(["queued", "running"].includes(status), status);
    await new Promise((resolve) => { setTimeout(resolve, 200); });
  }
}

test("every page is sound at two widths in two themes", async () => {
  // First: other tests look for the large trace at the top of the list.
  const job = await judgedAndBacktested();
  const { large, several, rtl } = await fill(gateway);
  [largest, rightToLeft] = [large, rtl];
  const replay = await replayed(several);
  const { steps: [{ id: step }] } = await gateway.call("GET", `/api/v1/traces/${large}`);
  const paths = [
    "/", "/?window=720", "/traces", "/traces?status=failed", `/traces/${large}`, `/traces/${large}/steps/${step}`, `/traces/${large}/steps/${step}?text=0`, `/traces/${several}`, `/replays/${replay}`, "/models", "/models/1", "/keys", "/safety", "/safety?rule=staff", "/safety/reviews", `/jobs/${job}`,
    "/insights", "/people", "/people/sign-on", "/people/tokens", "/audit", "/playground", "/models/new", "/routing", "/limits", "/jobs", "/settings", "/account",
    "/traces/none",
  ];
  everyPath = paths.slice(0, -1);
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1280, 390]) {
      const { page, errors, context } = await visit({ colorScheme, viewport: { width, height: 900 } });
      const sound = (name) => checked(page, `${name}, ${colorScheme}, ${width}`);
      for (const path of ["/sign-in", "/forgotten", "/invitation?token=x", "/sign-on/link"]) {
        await page.goto(gateway.base + path);
        await sound(path.slice(1).split("?")[0]);
      }
      await signIn(page);
      // A figure that comes later moves what lies below it.
      await page.getByText("of $0.0600 revenue").waitFor();
      await page.getByText(/personal data, \d+ injection/).waitFor();
      for (const path of paths) {
        await page.goto(gateway.base + path);
        assert.notEqual(await page.title(), "owned", path);
        const ids = { [large]: "large", [several]: "several", [job]: "backtest", [replay]: "replay" };
        await sound(Object.entries(ids).reduce((name, [id, word]) => name.replace(id, word), path));
      }
      await page.goto(`${gateway.base}/account`);
      await page.getByRole("region", { name: "Second factor" }).getByLabel("Your password").fill(PASSWORD);
      await page.getByRole("button", { name: "Set up an authenticator" }).click();
      await page.getByRole("img", { name: "QR code" }).waitFor();
      await sound("account-offered");
      // The browser notes the 404 of the last page, and the refusal of a link.
      assert.deepEqual(errors.filter((error) => !/404|422/.test(error)), []);
      await context.close();
    }
  }
});

test("texts of strangers are shown as texts", async () => {
  const { page, context } = await visit();
  await signIn(page);
  await page.goto(`${gateway.base}/traces`);
  await page.locator(`#trace-${largest}`).getByRole("link").click();
  await page.getByText("The beginning of 9").waitFor();
  assert.ok((await page.locator(".step pre").first().textContent()).startsWith(MARKUP));
  assert.equal(await page.locator(".step img, .step script").count(), 0);
  await page.goto(`${gateway.base}/traces/${rightToLeft}`);
  const direction = (text) => page.locator(".step pre", { hasText: text }).first()
    .evaluate((element) => getComputedStyle(element).direction);
  assert.equal(await direction("مرحبا"), "rtl");
  assert.equal(await direction("Answer briefly."), "ltr");
  await page.goto(`${gateway.base}/safety`);
  await page.getByLabel("A prompt to try").fill("My mail is jane@example.com <b>bold</b>");
  await page.getByRole("button", { name: "Try it" }).click();
  assert.equal(await page.locator("mark").textContent(), "jane@example.com");
  assert.equal(await page.locator(".marked b").count(), 0);
  await context.close();
});

test("pages are small, and files are loaded once", async () => {
  const { page, context } = await visit();
  const received = await counted(context, page);
  await page.goto(`${gateway.base}/sign-in`, { waitUntil: "networkidle" });
  const files = received.filter(([path, size]) => path.startsWith("/console/") && size > 0);
  assert.ok(files.length > 0, JSON.stringify(received));
  assert.equal(new Set(files.map(([path]) => path)).size, files.length, JSON.stringify(files));
  assert.ok(total(received) < FIRST, JSON.stringify(received));
  const filesOfPage = total(files);
  assert.ok(everyPath.length > 20);
  await signIn(page);
  for (const path of everyPath) {
    received.length = 0;
    // A page that is kept up to date is never idle.
    await page.goto(gateway.base + path, { waitUntil: "load" });
    const { pathname } = new URL(path, gateway.base);
    assert.ok(received.some(([shown, size]) => shown === pathname && size > 0), JSON.stringify(received));
    assert.ok(received.every(([shown, size]) => shown === pathname || size === 0), JSON.stringify(received));
    assert.ok(total(received) < LATER, `${path}: ${JSON.stringify(received)}`);
    // The page as the first one that a browser loads: it has no files that the sign-in lacks.
    assert.ok(total(received) + filesOfPage < FIRST, `${path}: ${JSON.stringify(received)}`);
  }
  await context.close();
});

test("a megabyte of an answer with markup is shown harmlessly", async () => {
  const { page, errors, context } = await visit();
  await signIn(page);
  const trace = await gateway.call("POST", "/api/v1/traces", {});
  await gateway.call("POST", "/api/v1/chat/completions", {
    model: "local", trace_id: trace.id, messages: [{ role: "user", content: "a megabyte" }],
  });
  await page.goto(`${gateway.base}/traces/${trace.id}`);
  await page.getByText("The beginning of 1.0 MiB").waitFor();
  await page.getByRole("link", { name: "All of it" }).click();
  await page.getByRole("link", { name: "Next part" }).click();
  await page.getByText(/KiB of 1.0 MiB/).waitFor();
  const shown = await page.locator(".step pre").textContent();
  assert.ok(shown.length > 10_000 && shown.includes(MARKUP));
  const replay = await replayed(trace.id);
  await page.goto(`${gateway.base}/replays/${replay}`);
  await page.getByRole("heading", { name: "In total" }).waitFor();
  await gateway.owned("POST", "/api/v1/keys", { name: "Long", project_id: 1 });
  await page.goto(`${gateway.base}/playground?model=local`);
  assert.equal(await page.getByLabel("Model", { exact: true }).inputValue(), "local");
  await page.getByLabel("Prompt", { exact: true }).fill("a megabyte");
  const began = Date.now();
  await page.getByRole("button", { name: "Send" }).click();
  const side = page.locator("[data-side]").first();
  await side.getByText(/tokens/).waitFor({ timeout: 60_000 });
  assert.ok((await side.locator("[data-answer]").textContent()).length > 1_000_000);
  assert.ok(Date.now() - began < 60_000);
  await page.getByLabel("Beside it").selectOption("sandbox");
  await page.waitForURL(/model=local&beside=sandbox/);
  await page.reload();
  assert.equal(await page.getByLabel("Beside it").inputValue(), "sandbox");
  assert.notEqual(await page.title(), "owned");
  assert.equal(await page.locator("main img, main script").count(), 0);
  assert.deepEqual(errors, []);
  await context.close();
});

test("an open page keeps up, and a hidden one does not", async () => {
  const { page, errors, context } = await visit();
  await signIn(page);
  const streams = [];
  page.on("request", (request) => { if (request.url().includes("/live/traces")) streams.push(request); });
  await page.goto(`${gateway.base}/traces`);
  const ended = () => page.waitForEvent("requestfailed", (request) => request.url().includes("/live/traces"));
  const open = async (customer) => {
    const { id } = await gateway.call("POST", "/api/v1/traces", { metadata: { customer } });
    return { id, row: page.locator(`#trace-${id}`) };
  };
  const first = await open(MARKUP);
  await first.row.waitFor();
  assert.equal(await page.locator("tbody tr").first().getAttribute("id"), `trace-${first.id}`);
  // The preview is JSON, with quotation marks of its own.
  assert.ok((await first.row.textContent()).includes(MARKUP.split('"')[0]));
  assert.equal(await first.row.locator("img, script").count(), 0);
  const time = first.row.locator("time");
  assert.notEqual(await time.textContent(), await time.getAttribute("title"), "times are the reader's");
  // A row keeps the focus when it changes.
  await first.row.getByRole("link").focus();
  await gateway.call("PATCH", `/api/v1/traces/${first.id}/complete`, {});
  await first.row.getByText("completed").waitFor();
  assert.equal(await first.row.locator(":focus").count(), 1);
  assert.equal(await page.locator(`[id="trace-${first.id}"]`).count(), 1);
  assert.equal(streams.length, 1);
  const show = (state) => page.evaluate((shown) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => shown });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);
  await Promise.all([ended(), show("hidden")]);
  let second;
  for (let at = 0; at < 51; at += 1) second = await open("hidden");
  assert.equal(streams.length, 1, "a hidden page asks for nothing");
  await show("visible");
  await second.row.waitFor();
  assert.equal(streams.length, 2);
  assert.equal(await page.locator("tbody tr").count(), 50, "no row is missing between the rows that are shown");
  const waits = [];
  for (let at = 0; at < 5; at += 1) {
    const { row } = await open("in time");
    const opened = Date.now();
    await row.waitFor({ timeout: 10_000 });
    waits.push(Date.now() - opened);
  }
  const median = waits.toSorted((a, b) => a - b)[2];
  assert.ok(median < 2000, `within two seconds: ${waits}`);
  await Promise.all([ended(), page.getByRole("button", { name: "Pause updates" }).click()]);
  const third = await open("paused");
  await page.getByRole("button", { name: "Resume updates" }).click();
  await third.row.waitFor();
  assert.equal(streams.length, 3);
  // Figures follow, too, and so do charts and tables.
  await page.goto(`${gateway.base}/`);
  const requests = page.locator(".tile", { hasText: "Requests" }).locator(".value");
  const count = async () => Number((await requests.textContent()).replaceAll(",", ""));
  const before = await count();
  const words = (number) => number.toLocaleString("en-US");
  const inTime = [];
  await page.getByText("The charts as a table").click();
  const hello = { model: "sandbox", trace_id: third.id, messages: [{ role: "user", content: "Hello" }] };
  for (let at = 1; at <= 5; at += 1) {
    await gateway.call("POST", "/api/v1/chat/completions", hello);
    const called = Date.now();
    await requests.getByText(words(before + at), { exact: true }).waitFor({ timeout: 10_000 });
    inTime.push(Date.now() - called);
  }
  assert.ok(inTime.toSorted((a, b) => a - b)[2] < 2000, `within two seconds: ${inTime}`);
  const bySandbox = page.getByRole("region", { name: "Usage by model" }).getByRole("row", { name: /^sandbox/ });
  const shown = async () => [
    await bySandbox.textContent(), await page.locator("#charts tbody").textContent(), await page.locator("#chart-1").textContent(),
  ];
  await bySandbox.getByRole("cell").first().waitFor();
  const stays = page.locator(".figures[open]");
  const unfolded = await stays.elementHandle();
  const old = await shown();
  await gateway.call("POST", "/api/v1/chat/completions", hello);
  await page.waitForFunction((texts) => {
    const rows = [...document.querySelectorAll("#group-0 tbody tr")].filter((row) => row.textContent.trim().startsWith("sandbox"));
    const now = [rows[0]?.textContent, document.querySelector("#charts tbody").textContent, document.querySelector("#chart-1").textContent];
    return now.every((text, index) => text !== texts[index]);
  }, old);
  assert.equal(await stays.count(), 1, "the table stays open");
  assert.ok(await unfolded.evaluate((element) => element.isConnected));
  assert.deepEqual(errors, []);
  await context.close();
});

test("a list that changes keeps the focus, a selection and what is unfolded", async () => {
  const { page, errors, context } = await visit();
  await signIn(page);
  const from = new Date(Date.now() - 3_600_000).toISOString();
  const backtest = async (name) => {
    const settings = { safety: { rules: [{ name, pattern: name }] } };
    for (;;) {
      try {
        return (await gateway.owned("POST", "/api/v1/projects/1/backtests", { settings, from })).job_id;
      } catch (fault) {
        // One of a project runs at a time.
        if (!/: 503 /.test(fault.message)) throw fault;
        await new Promise((resolve) => { setTimeout(resolve, 200); });
      }
    }
  };
  const first = await backtest("first");
  await page.goto(`${gateway.base}/jobs`);
  const row = (job) => page.locator(`#job-${job}`);
  await row(first).getByText("completed").waitFor();
  await row(first).getByRole("link").focus();
  const kept = await row(first).elementHandle();
  // The reader unfolds details, not the gateway.
  await page.evaluate((id) => {
    const unfolded = document.createElement("details");
    unfolded.innerHTML = "<summary>more</summary>text";
    unfolded.open = true;
    document.getElementById(`job-${id}`).cells[1].replaceChildren(unfolded);
    const html = document.querySelector("[data-live]").innerHTML.replace('<details open="">', "<details>").replace(">text<", ">other<");
    mergePart(document.querySelector("[data-live]"), html);
  }, first);
  assert.equal(await row(first).locator("details[open]").textContent(), "moreother");
  // A row that moves keeps the focus, and rows between that are gone go.
  const moved = await page.evaluate((kept) => {
    const part = document.createElement("div");
    document.body.append(part);
    const rows = (names) => names.map((name) => `<p id="row-${name}"><a href="/${name}">${name}</a></p>`).join("\n");
    part.innerHTML = rows(["a", "b", "c"]);
    const link = part.querySelector("#row-c a");
    link.focus();
    mergePart(part, rows(["c", "a", "d"]));
    const outcome = [part.textContent, document.activeElement === link];
    part.remove();
    document.querySelector(`#job-${kept} a`).focus();
    return outcome;
  }, first);
  assert.deepEqual(moved, ["c\na\nd", true]);
  const waits = [];
  for (let at = 0; at < 4; at += 1) {
    const job = await backtest(`later-${at}`);
    const asked = Date.now();
    await row(job).waitFor({ timeout: 10_000 });
    waits.push(Date.now() - asked);
  }
  const second = await backtest("second");
  const asked = Date.now();
  await row(second).waitFor({ timeout: 10_000 });
  waits.push(Date.now() - asked);
  assert.ok(waits.toSorted((a, b) => a - b)[2] < 2000, `within two seconds: ${waits}`);
  await row(second).getByText("completed").waitFor();
  assert.equal(await page.locator("tbody tr").first().getAttribute("id"), `job-${second}`);
  assert.equal(await row(first).locator(":focus").count(), 1, "the focus stays with its job");
  assert.ok(await kept.evaluate((element) => element.isConnected), "a row is changed in its place");
  // The page of a job that is over follows nothing.
  const streams = [];
  page.on("request", (request) => { if (request.url().includes("/live/")) streams.push(request.url()); });
  await page.goto(`${gateway.base}/jobs/${second}?project=1`);
  await page.getByRole("heading", { name: "Newly blocked" }).waitFor();
  assert.deepEqual(streams, []);
  // The page of a job that runs shows its end.
  const ends = [];
  for (let at = 0; at < 5; at += 1) {
    const job = await backtest(`page-${at}`);
    await page.goto(`${gateway.base}/jobs/${job}?project=1`);
    const loaded = Date.now();
    await page.locator(".status", { hasText: "completed" }).waitFor({ timeout: 10_000 });
    const { finished_at: finished } = await gateway.owned("GET", `/api/v1/projects/1/backtests/${job}`);
    ends.push(Date.now() - Math.max(loaded, Date.parse(finished) || 0));
  }
  assert.ok(ends.toSorted((a, b) => a - b)[2] < 2000, `within two seconds: ${ends}`);
  assert.deepEqual(errors, []);
  await context.close();
});

test("what forms have led to is sound, too", async () => {
  const { page, context } = await visit();
  await signIn(page);
  const led = (name) => checkedInAll(page, name, { loads: false });
  await page.goto(`${gateway.base}/routing`);
  await page.getByRole("textbox").first().fill("Prove that there are infinitely many primes.");
  await page.locator("main form button[type=submit]").first().click();
  await page.locator("#route").waitFor();
  await led("routing-tried");
  await page.goto(`${gateway.base}/safety`);
  await page.getByLabel("A prompt to try").fill("My mail is jane@example.com");
  await page.getByRole("button", { name: "Try it" }).click();
  await page.locator("mark").first().waitFor();
  await led("safety-verdict");
  // A model that nobody serves.
  const { model_definition: model } = await gateway.owned("POST", "/api/v1/projects/1/models", {
    model_definition: {
      name: "Nobody", identifier: "nobody", provider: "openai", base_url: `http://127.0.0.1:${await freePort()}/v1`, is_public: false,
    },
  });
  await gateway.owned("POST", "/api/v1/keys", { name: "Checks", project_id: 1 });
  await page.goto(`${gateway.base}/models/${model.id}`);
  await page.getByRole("button", { name: /check/i }).click();
  await page.locator("td .reason").first().waitFor();
  await led("model-checked");
  await page.getByRole("button", { name: /call/i }).first().click();
  await page.locator("[aria-labelledby=test-call] .status.failed").waitFor();
  await led("model-called-in-vain");
  await gateway.run("user", "create", "forgetful@example.org", "--role", "member", "--project", "1");
  await page.goto(`${gateway.base}/people`);
  await page.getByRole("button", { name: "New password for forgetful@example.org" }).click();
  await page.locator(".made").waitFor();
  await gateway.mail.next();
  await led("people-link-made");
  await page.goto(`${gateway.base}/people/tokens`);
  await page.getByLabel("Name of a new token").fill("Deploy");
  await page.getByLabel("Your password").fill(PASSWORD);
  await page.getByRole("button", { name: "Make a token" }).click();
  await page.locator("#secret").waitFor();
  await led("tokens-made");
  await context.close();
});

test("empty pages, full tables with long names, and failures are sound", async () => {
  const { page, context } = await visit();
  await signIn(page);
  const { id: empty } = await gateway.owned("POST", "/api/v1/projects", { project: { name: "Nothing yet" } });
  for (const path of ["/", "/traces", "/keys", "/models", "/limits", "/jobs", "/insights", "/safety/reviews", "/playground", "/routing", "/settings"]) {
    await page.goto(`${gateway.base}${path}?project=${empty}`);
    await checkedInAll(page, `empty ${path}`);
  }
  const long = "a-name-that-goes-on-and-on-".repeat(9);
  await gateway.owned("POST", `/api/v1/projects/${empty}/models`, {
    model_definition: { name: long, identifier: long.slice(0, 100), provider: "openai", base_url: provider.url, is_public: false },
  });
  for (let at = 0; at < 60; at += 1) {
    await gateway.owned("POST", "/api/v1/keys", { name: `${at} ${long}`.slice(0, 255), project_id: empty, hourly_limit: 1 });
  }
  for (const path of ["/keys", "/limits", "/models", "/playground"]) {
    await page.goto(`${gateway.base}${path}?project=${empty}`);
    await checkedInAll(page, `full ${path}`);
  }
  await page.goto(`${gateway.base}/keys?project=${empty}`);
  await page.getByRole("link", { name: "Next page" }).click();
  await page.getByRole("link", { name: "First page" }).waitFor();
  assert.equal(await page.locator("tbody tr").count(), 10);
  await gateway.owned("DELETE", `/api/v1/projects/${empty}`);
  // As many streams as one user has, and one more.
  // A browser has six connections: the streams are opened beside it.
  const cookie = (await context.cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
  const opened = new AbortController();
  const held = [];
  try {
    for (let at = 1; at <= 8; at += 1) {
      const { status, body } = await fetch(`${gateway.base}/live/overview?window=${at}`, { headers: { cookie }, signal: opened.signal });
      assert.equal(status, 200);
      // Node cancels an answer that nobody reads once it collects the garbage.
      const ended = body.pipeTo(new WritableStream()).then(() => assert.fail("a stream has ended"));
      ended.catch(() => {});
      held.push(ended);
    }
    const refused = async () => {
      await page.goto(`${gateway.base}/live/traces`);
      await page.getByText("Too many pages are kept up to date").waitFor();
      await checkedInAll(page, "failure-429");
    };
    await Promise.race([refused(), ...held]);
  } finally {
    opened.abort();
    await Promise.allSettled(held);
  }
  await context.close();
  await gateway.run("user", "create", "outsider@example.org", "--role", "viewer", "--project", "1");
  const outsider = await visit();
  await signIn(outsider.page, "outsider@example.org");
  await outsider.page.goto(`${gateway.base}/audit`);
  await checkedInAll(outsider.page, "failure-403");
  await outsider.context.close();
});

test("the description of the API is shown, and can be tried", async () => {
  const { page, context } = await visit();
  await page.goto(`${gateway.base}/docs/`);
  const operation = page.locator(".opblock", { hasText: "/api/v1/chat/completions" }).first();
  await operation.locator("button").first().click();
  await operation.getByRole("button", { name: "Try it out" }).waitFor();
  await context.close();
});

test("keys of the keyboard, times of the reader, and no script at all", async () => {
  const { page, context } = await visit({ timezoneId: "Asia/Tokyo", locale: "en-GB" });
  await signIn(page);
  // The project stays, and the search has the focus.
  await page.goto(`${gateway.base}/?project=1`);
  await page.keyboard.press("/");
  await page.waitForURL(`${gateway.base}/traces?project=1`);
  await page.keyboard.type("sandbox");
  await page.keyboard.press("Enter");
  await page.waitForURL(/model=sandbox/);
  await page.keyboard.press("?");
  const help = page.getByRole("dialog", { name: "Keyboard shortcuts" });
  assert.match(await help.textContent(), /search traces/);
  await checkedInAll(page, "help", { loads: false });
  await page.keyboard.press("Escape");
  assert.equal(await help.count(), 0);
  assert.ok(!page.url().includes("status="), "fields without a value are no part of the address");
  const time = page.locator("time").first();
  const shown = await time.textContent();
  const utc = await time.getAttribute("title");
  const tokyo = new Date(utc).toLocaleString("en-GB", { hour: "2-digit", hour12: false, timeZone: "Asia/Tokyo" });
  assert.ok(shown.includes(`${tokyo}:`), `${shown} for ${utc}`);
  // The way back from a trace leads to the list as it was filtered.
  const filtered = page.url();
  await page.locator("tbody tr").first().getByRole("link").click();
  await page.waitForURL(/\/traces\/[0-9a-f]/);
  await page.goBack();
  await page.waitForURL(filtered);
  assert.equal(await page.getByLabel("Model").inputValue(), "sandbox");
  assert.ok(await page.locator("tbody tr").count() > 10);
  // Bars of a chart have both times.
  await page.goto(`${gateway.base}/`);
  const bar = page.locator("title[data-begins]").first();
  const [title, begins] = [await bar.textContent(), await bar.getAttribute("data-begins")];
  assert.ok(title.includes(begins) && !title.startsWith(begins), title);
  await context.close();
  const plain = await visit({ javaScriptEnabled: false });
  await signIn(plain.page);
  await plain.page.goto(`${gateway.base}/traces`);
  await plain.page.getByLabel("Model").fill("sandbox");
  await plain.page.getByRole("button", { name: "Filter" }).click();
  assert.ok(await plain.page.locator("tbody tr").count() > 10);
  await plain.page.getByRole("link", { name: "Overview" }).click();
  await plain.page.getByRole("heading", { name: "By model" }).waitFor();
  await plain.context.close();
});

/** The code of an authenticator (RFC 6238) at a time. */
function codeOf(secret, time) {
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  const bits = [...secret].map((letter) => letters.indexOf(letter).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(time / 30_000)));
  const mac = createHmac("sha1", key).update(counter).digest();
  const at = mac[19] & 15;
  return String((mac.readUInt32BE(at) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}

/** The address of the one link in a letter. */
function linkIn({ text }) {
  return text.match(/^http\S+$/m)[0].trim();
}

test("from an invitation to the first key, a forgotten password, and a second factor", async () => {
  const owner = await visit();
  await signIn(owner.page);
  await owner.page.getByRole("link", { name: "People" }).click();
  await owner.page.getByLabel("E-mail of a new person").fill("ada@example.org");
  await owner.page.getByRole("button", { name: "Invite" }).click();
  await owner.page.getByText("It is on its way by letter").waitFor();
  const invitation = await gateway.mail.next();
  assert.equal(invitation.to, "ada@example.org");
  const ada = await visit();
  await ada.page.goto(linkIn(invitation));
  await ada.page.getByText("An account for ada@example.org").waitFor();
  await checkedInAll(ada.page, "invitation-good");
  await ada.page.getByLabel("Your name").fill("Ada");
  await ada.page.getByLabel("A password").fill(PASSWORD);
  await ada.page.getByRole("button", { name: "Make the account" }).click();
  await ada.page.waitForURL(`${gateway.base}/`);
  await ada.page.getByRole("link", { name: "Keys" }).first().click();
  await ada.page.getByLabel("Name of a new key").fill("Ada's");
  await ada.page.getByRole("button", { name: "Make a key" }).click();
  const secret = await ada.page.locator("#secret").textContent();
  await ada.page.getByLabel("Rotate Ada's").click();
  await ada.page.getByLabel("The secret of today works for").last().selectOption("3600");
  await ada.page.getByRole("button", { name: "Make a new secret" }).last().click();
  const rotated = await ada.page.locator("#secret").textContent();
  assert.notEqual(rotated, secret);
  for (const key of [secret, rotated]) {
    const answer = await fetch(`${gateway.base}/openai/v1/models`, { headers: { authorization: `Bearer ${key}` } });
    assert.equal(answer.status, 200);
  }
  // The link was good once.
  await owner.page.goto(linkIn(invitation));
  await owner.page.getByRole("heading", { name: "The link is not good" }).waitFor();

  const visitor = await visit();
  await visitor.page.goto(`${gateway.base}/sign-in`);
  await visitor.page.getByRole("link", { name: "Forgotten your password?" }).click();
  await visitor.page.getByLabel("E-mail of your account").fill("ada@example.org");
  await visitor.page.getByRole("button", { name: "Send a link" }).click();
  await visitor.page.getByText("a letter with a link is on its way").waitFor();
  await visitor.page.goto(linkIn(await gateway.mail.next()));
  await checkedInAll(visitor.page, "new-password");
  await visitor.page.getByLabel("Password").fill(`${PASSWORD}-new`);
  await visitor.page.getByRole("button", { name: "Set the password" }).click();
  await visitor.page.getByRole("heading", { name: "The password is set" }).waitFor();
  await ada.page.reload();
  assert.equal(new URL(ada.page.url()).pathname, "/sign-in", "sessions of before have ended");

  const enter = async () => {
    await ada.page.goto(`${gateway.base}/sign-in`);
    await ada.page.getByLabel("E-mail").fill("ada@example.org");
    await ada.page.getByLabel("Password").fill(`${PASSWORD}-new`);
    await ada.page.getByRole("button", { name: "Sign in", exact: true }).click();
  };
  await enter();
  await ada.page.waitForURL(`${gateway.base}/`);
  await ada.page.getByRole("link", { name: "ada@example.org" }).click();
  await ada.page.getByRole("region", { name: "Second factor" }).getByLabel("Your password").fill(`${PASSWORD}-new`);
  await ada.page.getByRole("button", { name: "Set up an authenticator" }).click();
  const shared = await ada.page.locator("#totp-secret").textContent();
  await ada.page.getByLabel("Code of the authenticator").fill("000000");
  await ada.page.keyboard.press("Enter");
  await ada.page.getByRole("alert").getByText("The code is wrong").waitFor();
  const first = Date.now() - 30_000;
  await ada.page.getByLabel("Code of the authenticator").fill(codeOf(shared, first));
  await ada.page.keyboard.press("Enter");
  const codes = (await ada.page.locator("#codes").textContent()).trim().split("\n");
  assert.equal(codes.length, 10);
  await checkedInAll(ada.page, "account-codes", { loads: false });
  for (const code of [codeOf(shared, first + 30_000), codes[0]]) {
    await ada.page.getByRole("button", { name: "Sign out" }).click();
    await enter();
    await ada.page.getByLabel(/code/i).waitFor();
    if (code === codes[0]) await checkedInAll(ada.page, "sign-in-code");
    await ada.page.getByLabel(/code/i).fill("000000");
    await ada.page.keyboard.press("Enter");
    await ada.page.getByRole("alert").waitFor();
    await ada.page.getByLabel(/code/i).fill(code);
    await ada.page.keyboard.press("Enter");
    await ada.page.waitForURL(`${gateway.base}/`);
  }
  await gateway.run("user", "create", "letter@example.org", "--role", "viewer", "--project", "1");
  const reader = await visit();
  await signIn(reader.page, "letter@example.org");
  await reader.page.goto(`${gateway.base}/account`);
  await reader.page.getByRole("button", { name: /letter/i }).click();
  await reader.page.getByRole("status").getByText("on its way").waitFor();
  await reader.page.goto(linkIn(await gateway.mail.next()));
  await checkedInAll(reader.page, "verification");
  for (const { context } of [owner, ada, visitor, reader]) await context.close();
});

test("a prompt is answered by two models side by side, and its trace is replayed", async () => {
  const { page, errors, context } = await visit();
  await signIn(page);
  await page.goto(`${gateway.base}/keys`);
  await page.getByLabel("Name of a new key").fill("Playground");
  await page.getByRole("button", { name: "Make a key" }).click();
  await page.locator("#secret").waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("p");
  await page.waitForURL(/\/playground/);
  await page.getByLabel("Model", { exact: true }).selectOption("sandbox");
  await page.getByLabel("Beside it").selectOption("");
  await page.getByLabel("Prompt", { exact: true }).fill(`Say hello to ${MARKUP}`);
  await page.getByRole("button", { name: "Send" }).click();
  const sides = page.locator("[data-side]");
  for (const side of [0, 1]) {
    await sides.nth(side).getByText(/tokens/).waitFor();
    assert.ok((await sides.nth(side).locator("[data-answer]").textContent()).length > 5);
    assert.equal(await sides.nth(side).locator("img, script").count(), 0);
  }
  await checkedInAll(page, "playground-answered", { loads: false });
  // Sent again it is another call.
  const traceOf = (side) => side.getByRole("link", { name: "trace" }).getAttribute("href");
  const before = await traceOf(sides.first());
  await page.getByRole("button", { name: "Send" }).click();
  for (const side of [0, 1]) await sides.nth(side).getByText(/tokens/).waitFor();
  assert.notEqual(await traceOf(sides.first()), before);
  // A side whose end nobody knows is asked for the same call, and so is the one beside it, which has answered.
  assert.deepEqual(errors, []);
  const [broken, beside] = [sides.nth(0), sides.nth(1)];
  let [values, breaks] = [{}, (route) => route.abort()];
  await page.route(/\/playground\/answer/, (route) => {
    const { model, once } = route.request().postDataJSON();
    values[model] = once;
    return model === "sandbox" && breaks ? breaks(route) : route.continue();
  });
  const sent = async (outcome) => {
    values = {};
    await page.getByRole("button", { name: "Send" }).click();
    await broken.getByText(outcome).waitFor();
    await beside.getByText(/tokens/).waitFor();
    return values;
  };
  const first = await sent("Failed to fetch");
  breaks = (route) => route.fulfill({ status: 502, contentType: "text/html", body: "<h1>Bad gateway</h1>" });
  assert.deepEqual(await sent("status 502"), first);
  await beside.getByText(/sent before/).waitFor();
  breaks = null;
  assert.deepEqual(await sent(/tokens/), first);
  await beside.getByText(/sent before/).waitFor();
  // Both have answered.
  const anew = await sent(/tokens/);
  assert.deepEqual(Object.keys(anew).sort(), ["", "sandbox"]);
  for (const model of ["", "sandbox"]) assert.notEqual(anew[model], first[model]);
  assert.equal(await beside.getByText(/sent before/).count(), 0);
  await page.unroute(/\/playground\/answer/);
  // The browser notes both.
  assert.ok(errors.every((error) => /ERR_FAILED|502/.test(error)), String(errors));
  errors.length = 0;
  await sides.first().getByRole("link", { name: "trace" }).click();
  await page.waitForURL(/\/traces\//);
  await page.getByText("Replay it on other models").click();
  await page.getByRole("checkbox", { name: "sandbox" }).check();
  await page.getByRole("button", { name: "Replay", exact: true }).click();
  await page.waitForURL(/\/replays\//);
  // The page shows the end by itself.
  await page.getByRole("heading", { name: "In total" }).waitFor();
  await page.getByText(/% alike/).first().waitFor();
  await checkedInAll(page, "replay-ended");
  await page.getByRole("link", { name: "Jobs" }).click();
  await page.getByRole("cell", { name: "Replay", exact: true }).first().waitFor();
  assert.deepEqual(errors, []);
  await context.close();
});

test("a chart, a period of days, and a table as a file", async () => {
  const { page, errors, context } = await visit({ acceptDownloads: true });
  await signIn(page);
  await page.getByRole("img", { name: /Spend over time/ }).waitFor();
  await page.getByLabel("From").fill("2026-01-01");
  await page.getByLabel("to", { exact: true }).fill("2099-12-31");
  await page.getByRole("button", { name: "Show" }).first().click();
  await page.waitForURL(/start_date=2026-01-01&end_date=2099-12-31/);
  await page.getByRole("img", { name: /Requests over time/ }).waitFor();
  await page.getByText("The charts as a table").click();
  const table = page.getByRole("region", { name: "Table of the figures over time" });
  assert.equal(await table.getByRole("columnheader").count(), 5);
  assert.ok(await table.getByRole("row").count() > 1);
  await checkedInAll(page, "chart-table", { loads: false });
  await page.goto(`${gateway.base}/traces?model=sandbox`);
  const [file] = await Promise.all([
    page.waitForEvent("download"), page.getByRole("link", { name: "CSV" }).click(),
  ]);
  const lines = readFileSync(await file.path(), "utf8").trim().split("\r\n");
  assert.equal(lines.length, 1 + await page.locator("tbody tr").count());
  assert.match(lines[1], /,\d{4}-\d\d-\d\dT[\d:.]+Z,/, "times are UTC");
  const saved = async (path, table, tag) => {
    await page.goto(gateway.base + path);
    const region = page.getByRole("region", { name: table, exact: true });
    const below = region.locator(`xpath=following-sibling::*[1]/descendant-or-self::${tag}`);
    const [download] = await Promise.all([page.waitForEvent("download"), below.click()]);
    return readFileSync(await download.path(), "utf8").trim().split("\r\n");
  };
  await gateway.run("user", "create", "file@example.org", "--role", "member", "--project", "1");
  const fileOfPeople = await saved("/people", "People", "a");
  const people = fileOfPeople.map((line) => line.split(","));
  const [role, projects] = ["role", "projects"].map((name) => people[0].indexOf(name));
  const rowOf = (name) => people.find((person) => person.includes(name));
  assert.deepEqual([rowOf("file@example.org")[role], rowOf("file@example.org")[projects]], ["member", "1"]);
  assert.equal(rowOf(OWNER)[role], "owner", JSON.stringify(people));
  assert.ok(people.every((cells) => cells.length === people[0].length && !cells.includes("Actions")));
  const own = await saved("/account", "Sessions", "button");
  const sessions = own.map((line) => line.slice(1, -1).split('","'));
  assert.deepEqual(sessions[0], ["Client", "Address", "Signed in", "Last seen"]);
  assert.match(sessions[1][0], /Chrome/);
  assert.deepEqual(errors, []);
  await context.close();
});

test("a text is copied by its button", async () => {
  const { page, errors, context } = await visit({ permissions: ["clipboard-read", "clipboard-write"] });
  await signIn(page);
  await page.goto(`${gateway.base}/traces/${rightToLeft}`);
  await page.getByRole("button", { name: "Copy" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), rightToLeft);
  assert.deepEqual(errors, []);
  await context.close();
});

test("a change of settings is shown before it is saved", async () => {
  const { page, errors, context } = await visit();
  await signIn(page);
  await page.goto(`${gateway.base}/settings`);
  await page.getByLabel("Budget per month, USD").fill("much");
  await page.getByLabel("Requests of a key per hour").fill("off");
  await page.getByRole("button", { name: "Show the change" }).first().click();
  const budget = page.getByRole("textbox", { name: "Budget per month, USD" });
  assert.equal(await budget.inputValue(), "much");
  assert.equal(await budget.getAttribute("aria-invalid"), "true");
  assert.equal(await page.getByLabel("Requests of a key per hour").inputValue(), "off");
  await checked(page, "settings-refused");
  await page.getByLabel("Budget per month, USD").fill("250");
  await page.getByRole("button", { name: "Show the change" }).first().click();
  await page.getByRole("row", { name: "monthly_budget not set 250" }).waitFor();
  await checkedInAll(page, "settings-proposed", { loads: false });
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("status").getByText("The settings are saved").waitFor();
  assert.equal(await page.getByLabel("Budget per month, USD").inputValue(), "250");
  await page.goto(`${gateway.base}/limits`);
  await page.getByText("of $250.00").waitFor();
  // The browser notes the refusal.
  assert.deepEqual(errors.filter((error) => !/422/.test(error)), []);
  await context.close();
});

test("a passkey is made and signs in", async () => {
  await gateway.run("user", "create", "pat@example.org", "--role", "member", "--project", "1");
  const { page, errors, context } = await visit();
  const device = await context.newCDPSession(page);
  await device.send("WebAuthn.enable");
  const { authenticatorId } = await device.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true,
    },
  });
  await signIn(page, "pat@example.org");
  await page.getByRole("link", { name: "pat@example.org" }).click();
  const passkeys = page.getByRole("region", { name: "Passkeys" });
  const add = async (password) => {
    await passkeys.getByLabel("Name of a new passkey").fill("Laptop <b>");
    await passkeys.getByLabel("Your password").last().fill(password);
    await passkeys.getByRole("button", { name: "Add a passkey" }).click();
  };
  await add("wrong password");
  await passkeys.getByRole("alert").getByText("The password is wrong").waitFor();
  await add(PASSWORD);
  await passkeys.getByText("The passkey is added").waitFor();
  const codes = (await page.locator("#new-codes").textContent()).split("\n");
  assert.equal(codes.length, 10);
  await checked(page, "account-passkey-codes");
  await passkeys.getByRole("link", { name: "Done" }).click();
  await passkeys.getByText("Laptop <b>").waitFor();
  assert.equal(await passkeys.locator("b").count(), 0);
  await checked(page, "account-passkey");
  await page.setViewportSize({ width: 390, height: 900 });
  await page.emulateMedia({ colorScheme: "dark" });
  await page.reload();
  await checked(page, "account-passkey, dark, 390");
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
  await add(PASSWORD);
  await passkeys.getByRole("alert").getByText("This device has a passkey of yours already").waitFor();

  const leave = async () => {
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL(`${gateway.base}/sign-in`);
  };
  const byPasskey = page.getByRole("button", { name: "Sign in with a passkey" });
  await leave();
  await page.goto(`${gateway.base}/keys`);
  await byPasskey.click();
  await page.waitForURL(`${gateway.base}/keys`);
  await leave();
  await page.getByLabel("E-mail").fill("pat@example.org");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByLabel(/recovery code/).waitFor();
  await checked(page, "factor-passkey");
  await byPasskey.click();
  await page.waitForURL(`${gateway.base}/`);
  await leave();
  // Somebody else who holds the device is refused by it.
  await device.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: false });
  await byPasskey.click();
  await page.getByRole("alert").getByText("No passkey was chosen").waitFor();
  await device.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: true });
  await byPasskey.click();
  await page.waitForURL(`${gateway.base}/`);
  await page.goto(`${gateway.base}/account`);
  await passkeys.getByText("last used").waitFor();
  await passkeys.getByLabel("Remove the passkey Laptop <b>").click();
  await passkeys.getByLabel("Your password").first().fill(PASSWORD);
  await passkeys.getByRole("button", { name: "Remove it" }).click();
  await page.getByRole("status").getByText("The passkey is removed").waitFor();
  await leave();
  await signIn(page, "pat@example.org");
  // The browser notes the 422 of the wrong password.
  assert.deepEqual(errors.filter((error) => !/422/.test(error)), []);
  await context.close();
});

test("a viewer sees no button that would be refused", async () => {
  await gateway.run("user", "create", "viewer@example.org", "--role", "viewer", "--project", "1");
  const { page, context } = await visit();
  await signIn(page, "viewer@example.org");
  const led = new Set();
  const admins = ["/people", "/people/sign-on", "/people/tokens", "/audit", "/settings", "/models/new", "/playground"];
  for (const path of everyPath.filter((shown) => !admins.includes(shown) && shown !== "/account")) {
    await page.goto(gateway.base + path);
    assert.equal(await page.locator("main form[method=post]").count(), 0, path);
    const links = await page.locator("main a[href^='/']").evaluateAll((all) => all.map((link) => link.getAttribute("href")));
    for (const link of links) led.add(link.split("#")[0]);
  }
  assert.ok(led.size > 30, `${led.size} links`);
  const refused = await page.evaluate(async (links) => {
    const wrong = [];
    for (const link of links) {
      const { status } = await fetch(link);
      if (status !== 200) wrong.push(`${link}: ${status}`);
    }
    return wrong;
  }, [...led]);
  assert.deepEqual(refused, []);
  await page.goto(`${gateway.base}/account`);
  await page.getByRole("heading", { name: "Your account" }).waitFor();
  assert.equal(await page.getByRole("link", { name: "Audit" }).count(), 0);
  await context.close();
});

test("somebody without a project finds the way on", async () => {
  await gateway.run("user", "create", "nobody@example.org", "--role", "viewer");
  const { page, errors, context } = await visit();
  await signIn(page, "nobody@example.org");
  await page.getByText("You are a member of no project").waitFor();
  await checkedInAll(page, "no-project");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(`${gateway.base}/sign-in`);
  assert.deepEqual(errors, []);
  await context.close();
});

test("a session that has ended in another tab leads to the sign-in and back", async () => {
  const { page, context } = await visit();
  await signIn(page);
  await page.goto(`${gateway.base}/traces?status=completed`);
  const other = await context.newPage();
  await other.goto(`${gateway.base}/`);
  await other.getByRole("button", { name: "Sign out" }).click();
  await other.waitForURL(`${gateway.base}/sign-in`);
  await page.reload();
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByLabel("E-mail").fill(OWNER);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.waitForURL(`${gateway.base}/traces?status=completed`);
  await context.close();
});

test("a session that is too old leads to the sign-in and back", async () => {
  await gateway.run("user", "create", "late@example.org", "--role", "viewer", "--project", "1");
  const { page, context } = await visit();
  await signIn(page, "late@example.org");
  await page.goto(`${gateway.base}/traces?status=completed`);
  await gateway.age("late@example.org");
  await page.reload();
  assert.equal(new URL(page.url()).pathname, "/sign-in");
  await page.getByLabel("E-mail").fill("late@example.org");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.waitForURL(`${gateway.base}/traces?status=completed`);
  await context.close();
});

test("people sign in by a provider, and out of it", async (t) => {
  const issuer = await startIssuer(gateway.base, await freePort());
  // Also if the test fails: an open server would keep the process from ending.
  t.after(() => issuer.stop());
  const { page: owner, context: ownContext } = await visit();
  await signIn(owner);
  await owner.getByRole("link", { name: "People" }).click();
  await owner.getByRole("link", { name: "Single sign-on" }).click();
  await owner.getByLabel("Name", { exact: true }).fill("Work");
  await owner.getByLabel("Name in addresses").fill("work");
  await owner.getByLabel("Issuer").fill("http://localhost:1");
  await owner.getByLabel("Client id").fill(issuer.client.client_id);
  await owner.getByLabel("Scopes").fill("openid email profile groups");
  await owner.getByLabel("Rules, one a line").fill("eng = member 1");
  await owner.getByRole("button", { name: "Add" }).click();
  await owner.getByRole("alert").getByText("does not answer").waitFor();
  await owner.getByLabel("Issuer").fill(issuer.url);
  await owner.getByLabel("Client secret").fill(issuer.client.client_secret);
  await owner.getByRole("button", { name: "Add" }).click();
  await owner.getByRole("status").getByText("The provider is added").waitFor();
  await owner.goto(`${gateway.base}/people/sign-on`);
  await checkedInAll(owner, "sign-on-with-provider");
  const { page, context } = await visit();
  // The issuer's pages would have fonts of somebody else's, and are not ours to judge.
  await context.route((url) => !["127.0.0.1", "localhost"].includes(url.hostname), (route) => route.abort());
  const errors = [];
  page.on("console", (message) => {
    if (message.type() === "error" && message.location().url.startsWith(gateway.base)) errors.push(message.text());
  });
  const atIssuer = async (name) => {
    await page.waitForURL(`${issuer.url}/**`);
    await page.getByPlaceholder(/login/i).fill(name);
    await page.getByPlaceholder(/password/i).fill("anything");
    await page.getByRole("button", { name: "Sign-in" }).click();
    await page.getByRole("button", { name: "Continue" }).click();
  };
  const leaveIssuer = async () => {
    await page.waitForURL(`${issuer.url}/**`);
    await page.getByRole("button", { name: /yes/i }).click();
    await page.waitForURL(`${gateway.base}/sign-in**`);
  };
  const leave = async () => {
    await page.getByRole("button", { name: "Sign out" }).click();
    await leaveIssuer();
  };
  await page.goto(`${gateway.base}/sign-in`);
  await checkedInAll(page, "sign-in-with-provider");
  await page.goto(`${gateway.base}/traces`);
  await page.getByRole("link", { name: "Sign in with Work" }).click();
  await atIssuer("ada");
  await page.waitForURL(`${gateway.base}/traces`);
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByText("ada@localhost").waitFor();
  assert.equal(await page.getByRole("link", { name: "People" }).count(), 0, "the group gives a member's role");
  // The page between leads on at once. It stays while the issuer answers without a page.
  const withoutPage = (route) => route.fulfill({ status: 204 });
  await page.route(`${issuer.url}/**`, withoutPage);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Signed out" }).waitFor();
  await checkedInAll(page, "signed-out", { loads: false });
  await page.unroute(`${issuer.url}/**`, withoutPage);
  const out = page.getByRole("link", { name: "Sign out of your provider" });
  assert.match(await out.getAttribute("href"), /[?&]id_token_hint=[\w-]+\.[\w-]+\.[\w-]+/, "the browser kept the token");
  await out.click();
  await leaveIssuer();
  await page.goto(`${gateway.base}/traces`);
  assert.equal(new URL(page.url()).pathname, "/sign-in", "the session is over");
  // An account with the address is linked in this browser, by its owner.
  await page.getByRole("link", { name: "Sign in with Work" }).click();
  await atIssuer("owner");
  await page.waitForURL(`${gateway.base}/sign-on/link`);
  await page.getByRole("link", { name: "Sign in to link" }).waitFor();
  await checkedInAll(page, "link-sign-in-first", { loads: false });
  await page.getByRole("link", { name: "Sign in to link" }).click();
  await page.getByLabel("E-mail").fill(OWNER);
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.waitForURL(`${gateway.base}/sign-on/link`);
  await page.getByLabel("Your password here").waitFor();
  await checkedInAll(page, "link-confirm", { loads: false });
  await page.getByLabel("Your password here").fill(PASSWORD);
  await page.getByRole("button", { name: "Link to Work" }).click();
  await page.waitForURL(`${gateway.base}/traces`);
  // From now on the provider is enough, and passwords may go.
  await gateway.owned("PATCH", "/api/v1/organization", { settings: { security: { disable_password_login: true } } });
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(`${gateway.base}/sign-in`);
  assert.equal(await page.getByLabel("Password").count(), 0);
  await page.getByRole("link", { name: "Sign in with Work" }).click();
  await page.waitForURL(`${gateway.base}/`);
  await page.locator(".who", { hasText: OWNER }).waitFor();
  await page.getByRole("link", { name: "People" }).waitFor();
  await leave();
  // A user who turns back at the provider reads why they are not in.
  await page.getByRole("link", { name: "Sign in with Work" }).click();
  await page.waitForURL(`${issuer.url}/**`);
  await page.getByRole("link", { name: /cancel/i }).click();
  await page.getByRole("alert").getByText("cancelled").waitFor();
  assert.deepEqual(errors, []);
  await gateway.run("organization", "allow-password-login");
  // Another client asks first, other fields do not.
  const asked = [];
  const dismiss = (dialog) => { asked.push(dialog.message()); return dialog.dismiss(); };
  owner.on("dialog", dismiss);
  await owner.getByRole("textbox", { name: "Client id" }).first().fill("another");
  await owner.getByRole("button", { name: "Save Work" }).click();
  assert.match(asked[0], /Change the issuer or client of Work\? .* end, \d+ now\./);
  // A form that was refused asks again: what it shows is not stored.
  const rules = owner.locator("textarea[name=rules]").first();
  await rules.fill("no rule");
  owner.off("dialog", dismiss);
  owner.once("dialog", (dialog) => dialog.accept());
  await owner.getByRole("button", { name: "Save Work" }).click();
  await owner.locator("p.fault").first().waitFor();
  owner.on("dialog", dismiss);
  await rules.fill("");
  await owner.getByRole("button", { name: "Save Work" }).click();
  assert.equal(asked[1], asked[0]);
  await owner.goto(`${gateway.base}/people/sign-on`);
  await owner.getByRole("textbox", { name: "Name", exact: true }).first().fill("Work");
  await owner.getByRole("button", { name: "Save Work" }).click();
  await owner.getByRole("status").getByText("The provider is saved").waitFor();
  assert.equal(asked.length, 2);
  owner.off("dialog", dismiss);
  owner.once("dialog", (dialog) => dialog.accept());
  await owner.getByRole("button", { name: "Remove Work" }).click();
  await owner.getByRole("status").getByText("The provider is removed").waitFor();
  await ownContext.close();
  await context.close();
});
