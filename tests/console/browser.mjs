// A gateway, and a browser that looks at its console.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { chromium } from "playwright-core";
import { OWNER, PASSWORD, start } from "./gateway.mjs";

const AXE = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
export const SHOTS = new URL("screenshots/", import.meta.url).pathname;

let gateway;
let browser;

/** Starts both. */
export async function launch() {
  mkdirSync(SHOTS, { recursive: true });
  gateway = await start();
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
  return gateway;
}

export async function close() {
  await browser?.close();
  await gateway?.stop();
}

/** A page of a new visitor. Errors of the console are failures. */
export async function visit(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const errors = [];
  page.on("console", (message) => { if (message.type() === "error") errors.push(message.text()); });
  page.on("pageerror", (error) => errors.push(String(error)));
  return { page, errors, context };
}

export async function signIn(page, email = OWNER) {
  await page.goto(`${gateway.base}/sign-in`);
  await page.getByLabel("E-mail").fill(email);
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.waitForURL(`${gateway.base}/`);
}

/** Fails unless a page is accessible, fits its screen and does not move while it loads; leaves a screenshot. */
export async function checked(page, where, { loads = true } = {}) {
  // A policy that forbids foreign scripts forbids axe as well: it is run beside the page's own world.
  const world = await page.context().newCDPSession(page);
  const { frameTree } = await world.send("Page.getFrameTree");
  const { executionContextId } = await world.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
  const run = async (expression) => {
    const found = await world.send("Runtime.evaluate", {
      expression, contextId: executionContextId, awaitPromise: true, returnByValue: true,
    });
    assert.equal(found.exceptionDetails, undefined, where);
    return found.result.value;
  };
  await run(`${AXE}; 0`);
  // Colours that still fade, as after a change of the theme, are neither the old ones nor the new ones.
  await run("Promise.allSettled(document.getAnimations().map(({ finished }) => finished)).then(() => 0)");
  const violations = await run("axe.run().then(({ violations }) => violations.map((found) => "
    + "`${found.id}: ${found.nodes[0].html.slice(0, 200)}`))");
  assert.deepEqual(violations, [], where);
  const beyond = await run("document.documentElement.scrollWidth - document.documentElement.clientWidth");
  assert.equal(beyond, 0, `${where}: wider than the screen`);
  const { shift, moved } = await run("new Promise((resolve) => { let shift = 0; const moved = []; "
    + "new PerformanceObserver((list) => { for (const { value, sources } of list.getEntries()) { shift += value; "
    + "moved.push(...sources.map(({ node }) => (node?.outerHTML ?? node?.textContent ?? '').slice(0, 80))); } })"
    + ".observe({ type: 'layout-shift', buffered: true }); "
    + "requestAnimationFrame(() => setTimeout(() => resolve({ shift, moved }), 50)); })");
  assert.ok(!loads || shift < 0.05, `${where}: shifted by ${shift}: ${moved}`);
  await page.screenshot({ path: `${SHOTS}${where.replace(/[^a-z0-9]+/gi, "-")}.png`, fullPage: true });
}

/** The same at two widths in two themes. A page that a form or the script has led to is not loaded again (`loads`). */
export async function checkedInAll(page, where, { loads = true } = {}) {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      if (loads) await page.reload();
      await checked(page, `${where}, ${colorScheme}, ${width}`, { loads });
    }
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
}

/** Counts the bytes that a page receives, headers included, by path: a file from the cache has none. */
export async function counted(context, page) {
  const paths = new Map();
  const sizes = [];
  const session = await context.newCDPSession(page);
  session.on("Network.requestWillBeSent", ({ requestId, request }) => {
    paths.set(requestId, new URL(request.url).pathname);
  });
  session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    sizes.push([paths.get(requestId), encodedDataLength]);
  });
  await session.send("Network.enable");
  return sizes;
}

export const total = (sizes) => sizes.reduce((sum, [, size]) => sum + size, 0);
