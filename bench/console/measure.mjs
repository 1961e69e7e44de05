// Measures the pages of a gateway's console: the time of the server, the largest contentful paint with a
// processor four times slower, and Lighthouse. Started by `run`.
import { spawn } from "node:child_process";
import { createServer } from "node:net";
import http from "node:http";
import lighthouse from "lighthouse";
import { chromium } from "playwright-core";

const { CHROMIUM, SLUICE, EMAIL = "owner@localhost", PASSWORD, TIMES = "21", SETTLE = "0" } = process.env;
const SLOWER = 4;

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
const agent = new http.Agent({ keepAlive: true });

/** Requests a page as a browser does: its status, body, headers, and the milliseconds to its last byte. */
function request(url, options = {}) {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    const sent = http.request(url, { agent, ...options }, (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part));
      response.on("end", () => resolve({
        status: response.statusCode, headers: response.headers, body: Buffer.concat(parts), took: performance.now() - began,
      }));
    });
    sent.on("error", reject);
    sent.end(options.body);
  });
}

const base = `http://127.0.0.1:${await freePort()}`;
const gateway = spawn(SLUICE, [], {
  env: { ...process.env, SLUICE_LISTEN: base.slice(7), SLUICE_METRICS_LISTEN: "off", SLUICE_LOG: "error" },
  stdio: ["ignore", "ignore", "inherit"],
});
for (let ready = false; !ready;) {
  ready = await fetch(`${base}/ready`).then((answer) => answer.ok, () => false);
  if (!ready) await new Promise((resolve) => setTimeout(resolve, 100));
}

const signedIn = await request(`${base}/api/v1/session`, {
  method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ email: EMAIL, password: PASSWORD }),
});
if (signedIn.status !== 200) throw new Error(`sign-in: ${signedIn.status} ${signedIn.body}`);
const cookie = signedIn.headers["set-cookie"][0].split(";")[0];
const headers = { cookie, "accept-encoding": "gzip", "sec-fetch-site": "same-origin" };
const list = await request(`${base}/traces`, { headers: { cookie } });
const trace = /href="(\/traces\/[0-9a-f-]{36})/.exec(list.body)?.[1];
const paths = [
  "/", "/?window=168", "/?window=720", "/traces", "/traces?status=failed", "/traces?user=user-7", trace, "/playground", "/models", "/models/new", "/routing",
  "/keys", "/limits", "/safety", "/safety/reviews", "/insights", "/jobs", "/people", "/people/sign-on", "/people/tokens", "/audit", "/settings", "/account",
].filter(Boolean);

// Right after its start a gateway sums what it expects to be asked, and its sessions of PostgreSQL are new.
for (const until = Date.now() + Number(SETTLE) * 1_000; Date.now() < until;) {
  await request(`${base}/`, { headers });
  await new Promise((resolve) => setTimeout(resolve, 1_000));
}

const debugging = await freePort();
const browser = await chromium.launch({
  executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu", `--remote-debugging-port=${debugging}`],
});

/** The largest contentful paint of a page that a browser sees for the first time, in milliseconds. */
async function largestPaint(path) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const [name, value] = cookie.split("=");
  await context.addCookies([{ name, value, url: base }]);
  const page = await context.newPage();
  const devtools = await context.newCDPSession(page);
  await devtools.send("Emulation.setCPUThrottlingRate", { rate: SLOWER });
  await page.goto(base + path, { waitUntil: "load" });
  const paint = await page.evaluate(() => new Promise((resolve) => {
    new PerformanceObserver((entries) => resolve(entries.getEntries().at(-1).startTime))
      .observe({ type: "largest-contentful-paint", buffered: true });
  }));
  await context.close();
  return paint;
}

const scores = async (path) => {
  const { lhr } = await lighthouse(base + path, {
    port: debugging, onlyCategories: ["accessibility", "best-practices"], extraHeaders: { Cookie: cookie }, logLevel: "silent",
  });
  const found = Object.values(lhr.audits).filter((audit) => audit.score !== null && audit.score < 1).map((audit) => audit.id);
  return [...Object.values(lhr.categories).map((category) => Math.round(category.score * 100)), found.join(" ")];
};

console.log("| page | server, ms (median) | slowest | bytes | largest paint at 4 x, ms | accessibility | best practices | faults |");
console.log("|---|---|---|---|---|---|---|---|");
for (const path of paths) {
  const took = [];
  let answer;
  for (let n = 0; n < Number(TIMES); n += 1) {
    answer = await request(base + path, { headers });
    took.push(answer.took);
  }
  if (answer.status !== 200) {
    console.log(`| ${path} | ${answer.status} |`);
    continue;
  }
  const paints = [];
  for (let n = 0; n < 3; n += 1) paints.push(await largestPaint(path));
  const [accessibility, practices, faults] = await scores(path);
  const figures = [median(took).toFixed(1), Math.max(...took).toFixed(1), answer.body.length, median(paints).toFixed(0), accessibility, practices, faults];
  console.log(`| ${path.replace(/[0-9a-f-]{36}/, ":id")} | ${figures.join(" | ")} |`);
}
await browser.close();
gateway.kill("SIGTERM");
