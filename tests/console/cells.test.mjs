// The cells of tables that the console's script saves as CSV, held to the cases of the gateway's own files.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const crates = new URL("../../crates", import.meta.url).pathname;

test("cells are no formulas", () => {
  const script = readFileSync(`${crates}/dashboard/assets/console.js`, "utf8");
  const [guard] = script.match(/^function guarded\(text\) \{[\s\S]*?^\}/m);
  const guarded = new Function(`${guard}; return guarded;`)();
  for (const [text, cell] of JSON.parse(readFileSync(`${crates}/export/src/cell_cases.json`, "utf8"))) {
    assert.equal(guarded(text), cell);
  }
});
